//! A table by hand: order, selection, narrow screens.

use super::*;
use crate::tui::theme::Depth;

const LOOK: Look = Look::new(Depth::Mono);

struct R(u8, &'static str);

fn columns() -> Vec<Column<R>> {
    vec![
        Column {
            title: "Name",
            min: 4,
            max: 20,
            right: false,
            rank: 0,
            descending: false,
            cmp: |a, b| natural(a.1, b.1),
            draw: |r, c| c.text(r.1, Role::Text),
            want: Some(|r, l| width(r.1, l)),
        },
        Column {
            title: "N",
            min: 3,
            max: 3,
            right: true,
            rank: 1,
            descending: true,
            cmp: |a, b| a.0.cmp(&b.0),
            draw: |r, c| c.number((r.0.to_string(), Role::Text)),
            want: None,
        },
    ]
}

fn key(r: &R) -> RowKey {
    RowKey::Named(r.1.to_owned())
}

fn show(state: &mut TableState, rows: &[R], revision: u64, h: u16) -> Vec<String> {
    let columns = columns();
    state.update(rows, &columns, revision, "", key, |_| true, &LOOK);
    let mut buf = Buffer::empty(Rect::new(0, 0, 11, h));
    state.draw(buf.area, &mut buf, rows, &columns, &LOOK, "none");
    (0..h)
        .map(|y| (1..11).map(|x| buf[(x, y)].symbol()).collect::<String>())
        .map(|l| l.trim_end().to_owned())
        .collect()
}

#[test]
fn the_selection_follows_its_row_when_rows_move() {
    let mut state = TableState::sorted_by(0);
    let rows = [R(1, "n1"), R(2, "n2"), R(3, "n10")];
    assert_eq!(
        show(&mut state, &rows, 1, 4),
        ["Name▲   N", "n1     1", "n2     2", "n10    3"].map(|l| l.replace("   N", "  N"))
    );
    state.go(Move::Down);
    show(&mut state, &rows, 1, 4);
    assert_eq!(state.current(), Some(&RowKey::Named("n2".into())));
    // A row comes in before it.
    let rows = [R(1, "n1"), R(9, "n1b"), R(2, "n2"), R(3, "n10")];
    show(&mut state, &rows, 2, 4);
    assert_eq!(state.current(), Some(&RowKey::Named("n2".into())));
    // Another order: it is still the one.
    state.sort = 1;
    show(&mut state, &rows, 2, 4);
    assert_eq!(state.current(), Some(&RowKey::Named("n2".into())));
    // It goes: what stands at its place is selected.
    let rows = [R(1, "n1"), R(9, "n1b"), R(3, "n10")];
    show(&mut state, &rows, 3, 4);
    assert_eq!(state.current(), Some(&RowKey::Named("n1".into())));
}

#[test]
fn home_stays_on_top_and_the_selected_row_stays_in_sight() {
    let mut state = TableState::sorted_by(1);
    let rows: Vec<R> = ["a", "b", "c", "d", "e"]
        .into_iter()
        .enumerate()
        .map(|(i, n)| R(i as u8, n))
        .collect();
    assert_eq!(show(&mut state, &rows, 1, 3)[1], "e      4");
    state.go(Move::End);
    assert_eq!(show(&mut state, &rows, 1, 3)[2], "a      0");
    state.go(Move::Home);
    // A new greatest row comes on top and is what is selected.
    let rows: Vec<R> = ["a", "b", "z"]
        .into_iter()
        .enumerate()
        .map(|(i, n)| R(i as u8, n))
        .collect();
    show(&mut state, &rows, 2, 3);
    assert_eq!(state.current(), Some(&RowKey::Named("z".into())));
}

#[test]
fn numbers_are_never_cut() {
    let mut buf = Buffer::empty(Rect::new(0, 0, 4, 1));
    Cell::at(&mut buf, Rect::new(0, 0, 3, 1), &LOOK).number(("1234".into(), Role::Text));
    let text: String = buf.content().iter().map(|c| c.symbol()).collect();
    assert_eq!(text, "### ");
}

#[test]
fn narrow_tables_keep_what_ranks_first() {
    let wants = [20, 3];
    assert_eq!(place(&columns(), &wants, 3), [Some((0, 3)), None]);
    assert_eq!(place(&columns(), &wants, 7), [Some((0, 7)), None]);
    assert_eq!(place(&columns(), &wants, 8), [Some((0, 4)), Some((5, 3))]);
    assert_eq!(place(&columns(), &wants, 12), [Some((0, 8)), Some((9, 3))]);
    assert_eq!(
        place(&columns(), &wants, 80),
        [Some((0, 20)), Some((21, 3))]
    );
}

#[test]
fn names_sort_as_people_count() {
    assert_eq!(natural("node2", "node10"), Ordering::Less);
    assert_eq!(natural("node02", "node2"), Ordering::Less);
    assert_eq!(natural("Leaf1", "leaf1"), Ordering::Less);
    assert_eq!(natural("leaf1", "Leaf2"), Ordering::Less);
    assert_eq!(natural("a", "a1"), Ordering::Less);
    assert_eq!(natural("", ""), Ordering::Equal);
}
