//! Facts in a line: the most important ones stay when the line is short.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::text::{put, width};
use super::theme::{Look, Role};

/// A fact: its rank (the lowest stays longest) and its pieces.
pub type Fact = (u8, Vec<(String, Role)>);

/// Blanks between two facts.
const GAP: u16 = 2;

fn len(fact: &Fact, look: &Look) -> u16 {
    fact.1
        .iter()
        .map(|(t, _)| width(t, look))
        .fold(0, u16::saturating_add)
}

/// Columns that all the facts take.
pub fn length(facts: &[Fact], look: &Look) -> u16 {
    facts
        .iter()
        .map(|f| len(f, look).saturating_add(GAP))
        .fold(0, u16::saturating_add)
        .saturating_sub(GAP)
}

/// Writes as many facts as fit into the first line of `area`, in their order; says how many
/// columns it took. A fact is shown whole or not at all, the first of all excepted.
pub fn pack(buf: &mut Buffer, area: Rect, base: Style, look: &Look, mut facts: Vec<Fact>) -> u16 {
    if area.is_empty() {
        return 0;
    }
    facts.retain(|f| len(f, look) > 0);
    while facts.len() > 1 && length(&facts, look) > area.width {
        let worst = facts
            .iter()
            .enumerate()
            .max_by_key(|(_, f)| f.0)
            .map(|(i, _)| i);
        if let Some(i) = worst {
            facts.remove(i);
        }
    }
    let mut x = area.x;
    for (i, (_, pieces)) in facts.iter().enumerate() {
        if i > 0 {
            x = x.saturating_add(GAP);
        }
        for (text, role) in pieces {
            let room = area.right().saturating_sub(x);
            let style = base.patch(look.style(*role));
            x += put(buf, (x, area.y), room, text, style, look);
        }
    }
    x - area.x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::Depth;

    fn packed(room: u16) -> String {
        let look = Look::new(Depth::Mono);
        let mut buf = Buffer::empty(Rect::new(0, 0, 24, 1));
        let facts = [(1, "first"), (0, "second"), (2, "third")]
            .map(|(rank, t)| (rank, vec![(t.to_owned(), Role::Text)]))
            .to_vec();
        let area = Rect::new(0, 0, room, 1);
        pack(&mut buf, area, Style::new(), &look, facts);
        let text: String = buf.content().iter().map(|c| c.symbol()).collect();
        text.trim_end().to_owned()
    }

    #[test]
    fn what_ranks_last_goes_first_and_whole() {
        assert_eq!(packed(24), "first  second  third");
        assert_eq!(packed(19), "first  second");
        assert_eq!(packed(12), "second");
        assert_eq!(packed(4), "sec…");
        assert_eq!(packed(0), "");
    }
}
