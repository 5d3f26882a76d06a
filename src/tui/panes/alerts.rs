//! The Alerts pane: what needs a look, the open ones and the gravest on top.
//!
//! An operator who knows of an alert acknowledges it: it goes below those that nobody has seen
//! yet, and stays listed until its cause is gone. That is this screen's own memory.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Sheet;
use super::shared::{self, OfEvent, draw_place};
use crate::event::Severity;
use crate::model::view::AlertRow;
use crate::tui::facts::Facts;
use crate::tui::filter::Filter;
use crate::tui::table::{Column, RowKey, natural};
use crate::tui::text::{Clock, width};
use crate::tui::theme::Role;

/// Sorted by severity at first.
pub const FIRST_SORT: usize = 0;

/// Alerts that the operator knows of, and how grave they were then.
pub type Acknowledged = BTreeMap<(u64, u32), Severity>;

/// The operator knows of it, and it is not graver than it was then.
pub fn is_known(alert: &AlertRow<'_>, acknowledged: &Acknowledged) -> bool {
    let then = acknowledged.get(&mark(alert));
    then.is_some_and(|then| *then >= alert.severity)
}

/// An alert, ready to be shown.
struct Row<'m> {
    alert: AlertRow<'m>,
    acknowledged: bool,
    /// Wall times of its opening, its last sign, its clearing; ns since the Unix epoch.
    opened: i64,
    seen: i64,
    cleared: Option<i64>,
    clock: &'m Clock,
    /// Whom to suspect: looked up for the rows in sight alone.
    suspect: &'m dyn Fn(&AlertRow<'_>) -> Option<String>,
}

impl Row<'_> {
    fn state(&self) -> (&'static str, Role) {
        match (self.alert.cleared, self.acknowledged) {
            (Some(_), _) => ("cleared", Role::Label),
            (None, true) => ("known", Role::Label),
            (None, false) => ("open", Role::Text),
        }
    }

    /// Open ones count most, then those that are known.
    fn weight(&self) -> u8 {
        match (self.alert.cleared, self.acknowledged) {
            (None, false) => 2,
            (None, true) => 1,
            (Some(_), _) => 0,
        }
    }

    fn text(&self) -> String {
        let mut text = self.alert.text.clone();
        if let Some(suspect) = (self.suspect)(&self.alert) {
            text += "; ";
            text += &suspect;
        }
        text
    }

    fn place(&self) -> String {
        shared::place(self.alert.name, self.alert.about)
    }
}

impl OfEvent for Row<'_> {
    fn severity(&self) -> Severity {
        self.alert.severity
    }
    fn times(&self) -> u64 {
        u64::from(self.alert.times)
    }
    fn role(&self, role: Role) -> Role {
        match self.weight() {
            2 => role,
            _ => Role::Label,
        }
    }
}

/// What an acknowledgement remembers: an alert that opens again is not known any more.
pub fn mark(alert: &AlertRow<'_>) -> (u64, u32) {
    (alert.id ^ alert.opened.0.rotate_left(32), alert.times)
}

/// Which row it is.
pub fn key(alert: &AlertRow<'_>) -> RowKey {
    RowKey::Alert(alert.id, alert.opened.0)
}

/// How many of the open alerts are known.
pub fn known<F: Facts>(facts: &F, acknowledged: &Acknowledged) -> usize {
    if acknowledged.is_empty() {
        return 0;
    }
    let alerts = facts.alerts();
    let open = alerts.iter().filter(|a| a.cleared.is_none());
    open.filter(|a| is_known(a, acknowledged)).count()
}

/// Draws the pane.
pub fn draw<F: Facts>(sheet: &mut Sheet<'_, F>) {
    let (facts, clock) = (sheet.facts, sheet.clock);
    let acknowledged = sheet.acknowledged;
    let suspect = |alert: &AlertRow<'_>| facts.suspicion(alert);
    let rows: Vec<Row<'_>> = facts
        .alerts()
        .into_iter()
        .map(|alert| Row {
            acknowledged: is_known(&alert, acknowledged),
            opened: facts.wall(alert.opened),
            seen: facts.wall(alert.seen),
            cleared: alert.cleared.map(|at| facts.wall(at)),
            clock,
            suspect: &suspect,
            alert,
        })
        .collect();
    in_full(sheet, &rows);
    sheet.empty("No alerts: nothing is above its threshold, and nothing is missing.");
    sheet.table(&rows, &columns(), |r| key(&r.alert), matches);
}

/// The selected alert without cuts, below the table.
fn in_full<F: Facts>(sheet: &mut Sheet<'_, F>, rows: &[Row<'_>]) {
    let selected = match sheet.selected() {
        Some(selected) => rows.iter().find(|r| key(&r.alert) == *selected),
        None => rows.first(),
    };
    if let Some(row) = selected {
        let text = match row.place() {
            place if place.is_empty() => row.text(),
            place => format!("{place}: {}", row.text()),
        };
        sheet.in_full(&text);
    }
}

/// The columns.
fn columns<'m>() -> Vec<Column<Row<'m>>> {
    vec![
        Column {
            // Those that nobody knows of yet first, then the newer ones.
            cmp: |a, b| {
                let of = |r: &Row<'_>| {
                    let when = r.alert.cleared.unwrap_or(r.alert.opened);
                    (r.weight(), r.alert.severity, when)
                };
                of(a).cmp(&of(b))
            },
            ..shared::severity(0)
        },
        Column {
            title: "State",
            min: 7,
            max: 7,
            right: false,
            rank: 3,
            descending: true,
            cmp: |a, b| a.weight().cmp(&b.weight()),
            draw: |r, c| {
                let (word, role) = r.state();
                c.text(word, role);
            },
            want: None,
        },
        Column {
            cmp: |a, b| a.alert.opened.cmp(&b.alert.opened),
            draw: |r, c| c.text(&r.clock.seconds(r.opened), Role::Label),
            ..shared::moment("Opened", 4)
        },
        Column {
            cmp: |a, b| a.alert.seen.cmp(&b.alert.seen),
            draw: |r, c| c.text(&r.clock.seconds(r.seen), Role::Label),
            ..shared::moment("Seen", 6)
        },
        Column {
            cmp: |a, b| a.alert.cleared.cmp(&b.alert.cleared),
            draw: |r, c| {
                if let Some(at) = r.cleared {
                    c.text(&r.clock.seconds(at), Role::Label);
                }
            },
            ..shared::moment("Cleared", 7)
        },
        shared::times(5),
        Column {
            title: "About",
            min: 12,
            max: 28,
            right: false,
            rank: 1,
            descending: false,
            cmp: |a, b| match (a.alert.name, b.alert.name) {
                (Some(x), Some(y)) => natural(x, y).then(a.alert.about.cmp(&b.alert.about)),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => Ordering::Equal,
            },
            draw: |r, c| match (r.alert.name, r.alert.about) {
                (Some(name), Some(key)) if key.port != 0 => draw_place(name, key.port, c),
                (Some(name), _) => c.text(name, r.role(Role::Text)),
                _ => {}
            },
            want: Some(|r, look| width(&r.place(), look)),
        },
        Column {
            title: "Alert",
            min: 16,
            max: 200,
            right: false,
            rank: 2,
            descending: false,
            cmp: |a, b| natural(&a.alert.text, &b.alert.text),
            draw: |r, c| {
                let role = match r.alert.severity {
                    Severity::Critical => Role::Bad,
                    _ => Role::Text,
                };
                c.text(&r.text(), r.role(role));
            },
            // What is suspected may take what room there is.
            want: Some(|_, _| 200),
        },
    ]
}

/// True if the row passes the filter.
fn matches(row: &Row<'_>, filter: &Filter) -> bool {
    if filter.is_empty() {
        return true;
    }
    let (state, _) = row.state();
    let texts = [row.alert.text.as_str(), row.alert.kind, state];
    shared::matches(row, &texts, row.alert.name, row.alert.about, filter)
}
