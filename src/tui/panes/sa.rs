//! Subnet management: every SM, where the SA and discovery differ, and the SA's tables.

use super::{Page, pad, pad_left};
use crate::fabric::sa::SaTable;
use crate::mad::SmState;
use crate::model::so_many;
use crate::model::view::{SaDifference, SaOutcome, SaTableView, SmRow};
use crate::tui::text::{age, num, si};
use crate::tui::theme::{Look, Role};

/// The page.
pub fn page(
    sms: &[SmRow<'_>],
    tables: &[SaTableView],
    differences: (&[SaDifference], usize, usize),
    room: u16,
    look: &Look,
) -> Page {
    let mut page = Page::default();
    page.heading("Subnet managers");
    let masters = sms.iter().filter(|sm| sm.is_master()).count();
    match masters {
        0 if sms.is_empty() => page.wrapped("None was found yet.", Role::Label, room, look),
        0 => page.wrapped("No SM says that it is master.", Role::Bad, room, look),
        1 => {}
        n => {
            let text = format!("{n} masters: a subnet must have one.");
            page.wrapped(&text, Role::Bad, room, look);
        }
    }
    for sm in sms {
        manager(&mut page, sm, room, look);
    }
    page.gap();
    page.heading("Differences between the SA and discovery");
    let (list, more, doubtful) = differences;
    let compared = tables
        .iter()
        .any(|t| SaTable::COMPARED.contains(&t.table) && t.outcome == Some(SaOutcome::Whole));
    if list.is_empty() {
        let text = match compared {
            true if doubtful > 0 => "None is confirmed.",
            true => "None.",
            false => "Nothing was compared: no table came whole.",
        };
        page.wrapped(text, Role::Label, room, look);
    }
    for difference in list {
        let text = format!("{} (for {})", difference.text, age(difference.age));
        page.wrapped(&text, Role::Warn, room, look);
    }
    if more > 0 {
        page.wrapped(&format!("and {more} more"), Role::Warn, room, look);
    }
    if doubtful > 0 {
        let text = format!(
            "{} seen in one reading only, and to be confirmed by a second one.",
            so_many(doubtful, "difference was", "differences were")
        );
        page.wrapped(&text, Role::Label, room, look);
    }
    page.gap();
    page.heading("Tables of the SA");
    for table in tables {
        let count = match table.count {
            Some(n) => n.to_string(),
            None => look.glyphs.unknown.to_owned(),
        };
        let read = table
            .age
            .map_or_else(String::new, |d| format!(" {} ago", age(d)));
        let role = match (&table.outcome, table.reading) {
            (_, true) => Role::Accent,
            (None | Some(SaOutcome::Whole), _) => Role::Label,
            (Some(_), _) => Role::Warn,
        };
        let status = match (&table.outcome, table.reading) {
            (Some(SaOutcome::Whole), false) => String::new(),
            (Some(outcome), false) => outcome.to_string(),
            _ => table.status(),
        };
        page.line(vec![
            (pad(table.table.word(), 14, look), Role::Text),
            (pad_left(&count, 7, look), Role::Text),
            (pad(&read, 10, look), Role::Label),
            (status, role),
        ]);
        if let (Some(advice), false) = (table.advice, table.reading) {
            page.wrapped(&format!("  {advice}"), Role::Label, room, look);
        }
    }
    page
}

fn manager(page: &mut Page, sm: &SmRow<'_>, room: u16, look: &Look) {
    let name = match sm.key {
        Some(_) => sm.name.to_owned(),
        None => crate::fabric::Guid(sm.guid).to_string(),
    };
    let role = match (sm.silent, sm.is_master()) {
        (Some(_), _) => Role::Bad,
        (None, true) => Role::Good,
        (None, false) => Role::Text,
    };
    let names = room.saturating_sub(36).clamp(10, 40);
    page.line(vec![
        (pad(&name, names, look) + " ", Role::Text),
        (pad(&sm.state_name(), 12, look) + " ", role),
        (
            format!("prio {:>2}  LID {}", sm.priority, sm.lid),
            Role::Label,
        ),
    ]);
    let mut line = vec![("  activity ".to_owned(), Role::Label)];
    line.push(match sm.activity {
        Some(n) => (n.to_string(), Role::Text),
        None => (look.glyphs.unknown.to_owned(), Role::Label),
    });
    let (rate, role) = num(sm.activity_per_s, look, Role::Text, si);
    line.extend([
        (", ".to_owned(), Role::Label),
        (rate, role),
        ("/s".into(), Role::Label),
    ]);
    if let Some(d) = sm.changed {
        line.push((format!(", in this state for {}", age(d)), Role::Label));
    }
    page.line(line);
    let mut words: Vec<String> = Vec::new();
    words.extend(sm.ours.then(|| "this port's SM".to_owned()));
    words.extend(sm.silent.map(|d| format!("no answer for {}", age(d))));
    words.extend(sm.still.map(|d| format!("stalled for {}", age(d))));
    match (sm.state, sm.listed) {
        (Some(state), Some(listed)) if state != listed => {
            words.push(format!("the SA says {}", SmState::new(listed)));
        }
        (None, Some(_)) => words.push("only the SA knows it".to_owned()),
        _ => {}
    }
    if !words.is_empty() {
        let bad = sm.silent.is_some() || sm.still.is_some();
        let role = if bad { Role::Bad } else { Role::Label };
        page.wrapped(&format!("  {}", words.join(", ")), role, room, look);
    }
}
