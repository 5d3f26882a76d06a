//! A port in full: both ends of its link, all counters, all PortInfo fields.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::ports::flag_words;
use super::{Page, pad, pad_left, phys_word, state_word, wrap};
use crate::model::view::{
    CounterView, DetailGroup, DetailRow, EndDetail, FecView, Finding, PortDetail,
};
use crate::model::{Ber, Num};
use crate::tui::text::{age, count, num, percent, si, width};
use crate::tui::theme::{Look, Role};

/// From this width on both ends stand side by side.
const SIDE_BY_SIDE: u16 = 118;

/// Draws from line `top` on; says how many lines there are.
pub fn draw(
    area: Rect,
    buf: &mut Buffer,
    detail: &PortDetail<'_>,
    top: usize,
    look: &Look,
) -> usize {
    match &detail.far {
        Some(far) if area.width >= SIDE_BY_SIDE => {
            let half = area.width / 2 - 1;
            let near = end("This end", &detail.near, &detail.findings, half, look);
            let far = end("Other end", far, &[], half, look);
            let len = near.len().max(far.len());
            let top = clamp(top, len, area);
            near.draw(
                Rect {
                    width: half,
                    ..area
                },
                top,
                buf,
                look,
            );
            let right = Rect {
                x: area.x + half + 2,
                width: area.width - half - 2,
                ..area
            };
            far.draw(right, top, buf, look);
            len
        }
        far => {
            let mut page = end("This end", &detail.near, &detail.findings, area.width, look);
            page.gap();
            match far {
                Some(far) => page.append(end("Other end", far, &[], area.width, look)),
                None => page.line(vec![("No other end is known.".into(), Role::Label)]),
            }
            page.draw(area, clamp(top, page.len(), area), buf, look);
            page.len()
        }
    }
}

fn clamp(top: usize, len: usize, area: Rect) -> usize {
    top.min(len.saturating_sub(usize::from(area.height)))
}

fn old(age_of: Option<Duration>, stale: bool) -> (String, Role) {
    match age_of {
        None => (" (never read)".into(), Role::Warn),
        Some(d) if stale => (format!(" (read {} ago)", age(d)), Role::Warn),
        Some(_) => (String::new(), Role::Label),
    }
}

/// A name and what it is; a list that is too long for the line goes on in the next.
fn fact(page: &mut Page, name: &str, value: String, role: Role, room: u16, look: &Look) {
    let left = room.saturating_sub(label_room(room) + 1);
    let mut lines = vec![String::new()];
    for part in value.split_inclusive(", ") {
        match lines.last_mut() {
            Some(line)
                if line.is_empty() || width(line, look) + width(part.trim_end(), look) <= left =>
            {
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    for (i, line) in lines.into_iter().enumerate() {
        let name = if i == 0 { name } else { "" };
        page.line(vec![
            (pad(name, label_room(room), look), Role::Label),
            (" ".into(), Role::Label),
            (line.trim_end().to_owned(), role),
        ]);
    }
}

fn label_room(room: u16) -> u16 {
    (room / 2).clamp(8, 28)
}

fn end(title: &str, e: &EndDetail<'_>, findings: &[Finding], room: u16, look: &Look) -> Page {
    let mut page = Page::default();
    let row = &e.row;
    page.heading(format!("{title}: {} port {}", row.name, row.key.port));
    let mut flags: Vec<(String, Role)> = Vec::new();
    let protected = row.protected.then_some(("protected", Role::Label));
    for (word, role) in flag_words(row.flags).chain(protected) {
        if !flags.is_empty() {
            flags.push((", ".into(), Role::Label));
        }
        flags.push((word.into(), role));
    }
    if flags.is_empty() {
        flags.push(("none".into(), Role::Label));
    }
    let unknown = || look.glyphs.unknown.to_owned();
    let state = row.state.map_or_else(unknown, |s| state_word(s).into());
    let phys = row.phys.map_or_else(unknown, |p| phys_word(p).into());
    fact(
        &mut page,
        "State",
        match e.port_info_age {
            // What was read before it fell silent is not what is.
            Some(d) if row.flags.unreachable || row.flags.no_answer => {
                format!("{state} / {phys}, read {} ago", age(d))
            }
            _ => format!("{state} / {phys}"),
        },
        Role::Text,
        room,
        look,
    );
    if let (Some(w), Some(s)) = (row.width, row.speed) {
        fact(
            &mut page,
            "Link",
            match e.best {
                Some((best_w, best_s)) => format!("{w} {s}, both ends can do {best_w} {best_s}"),
                None => format!("{w} {s}"),
            },
            if e.best.is_some() {
                Role::Warn
            } else {
                Role::Text
            },
            room,
            look,
        );
    }
    let name = pad("Flags", label_room(room), look);
    let mut line = vec![(name, Role::Label), (" ".into(), Role::Label)];
    line.append(&mut flags);
    page.line(line);
    if let Some(peer) = &row.peer {
        let was = if peer.former { "was " } else { "" };
        let value = format!("{was}{} port {}", peer.name, peer.key.port);
        fact(&mut page, "Peer", value, Role::Text, room, look);
    }
    if row.elsewhere {
        let value = "none in this subnet: it may be plugged into another one";
        fact(&mut page, "Peer", value.to_owned(), Role::Text, room, look);
    }
    if let Some(name) = &row.told {
        let value = format!("silent, the SA says {name}");
        fact(&mut page, "Peer", value, Role::Warn, room, look);
    }
    diagnosis(&mut page, findings, room, look);
    for (name, value) in &e.node {
        fact(&mut page, name, value.clone(), Role::Text, room, look);
    }
    let t = &e.traffic;
    for (name, bps, share) in [
        ("Transmits", t.tx_bps, t.tx_share()),
        ("Receives", t.rx_bps, t.rx_share()),
    ] {
        let (rate, role) = num(bps, look, Role::Text, si);
        let (share, _) = num(share, look, Role::Text, percent);
        fact(
            &mut page,
            name,
            format!("{rate} bit/s, {share} of the link"),
            role,
            room,
            look,
        );
    }

    packets(&mut page, e, room, look);

    page.gap();
    page.line(vec![
        ("Counters".into(), Role::Accent),
        old(e.counters_age, t.stale || row.stale),
    ]);
    counters(&mut page, &e.counters, room, look);
    page.gap();
    fec(&mut page, e.fec.as_ref(), room, look);
    page.gap();
    details(&mut page, &e.details, room, look);
    page.gap();
    page.line(vec![
        ("PortInfo".into(), Role::Accent),
        old(e.port_info_age, row.stale),
    ]);
    for (name, value) in &e.port_info {
        fact(&mut page, name, value.clone(), Role::Text, room, look);
    }
    page
}

/// Average packets, multicast, waiting.
fn packets(page: &mut Page, e: &EndDetail<'_>, room: u16, look: &Look) {
    let t = &e.traffic;
    for (name, size, multicast) in [
        ("Packets out", t.tx_packet, t.tx_multicast),
        ("Packets in", t.rx_packet, t.rx_multicast),
    ] {
        let (octets, role) = num(size, look, Role::Text, |v| format!("{v:.0}"));
        let mut text = format!("{octets} B on average");
        if multicast.get().is_some() {
            let (share, _) = num(multicast, look, Role::Text, percent);
            text += &format!(", {share} multicast");
        }
        fact(page, name, text, role, room, look);
    }
    let (wait, role) = num(t.wait, look, Role::Text, percent);
    let text = format!("{wait} of the time");
    fact(page, "Could not send", text, role, room, look);
}

/// A bit error rate in the time it was seen in, never a bare zero.
fn rate_words(ber: Ber, seen: Duration, look: &Look) -> String {
    match ber {
        Ber::Unknown => look.glyphs.unknown.to_owned(),
        Ber::AtLeast(rate) => format!("at least {} in {}", Ber::Is(rate), age(seen)),
        known => format!("{known} in {}", age(seen)),
    }
}

/// Forward error correction: its mode, what it repaired, what that means in bits.
fn fec(page: &mut Page, fec: Option<&FecView>, room: u16, look: &Look) {
    let Some(fec) = fec else {
        page.line(vec![
            ("Error correction".into(), Role::Accent),
            (" not told by this node".into(), Role::Label),
        ]);
        return;
    };
    page.line(vec![
        ("Error correction".into(), Role::Accent),
        old(fec.age, fec.stale && fec.age.is_some()),
    ]);
    let mode = fec
        .mode
        .map_or_else(|| look.glyphs.unknown.to_owned(), |m| m.to_string());
    fact(page, "FEC mode", mode, Role::Text, room, look);
    if fec.age.is_none() {
        return;
    }
    let role = match fec.stale {
        true => Role::Stale,
        false => Role::Text,
    };
    for (name, last, all) in [
        ("Raw BER", fec.raw, fec.raw_since),
        ("Effective BER", fec.effective, fec.effective_since),
    ] {
        let last = rate_words(last, fec.span, look);
        let all = rate_words(all, fec.observed, look);
        fact(page, name, format!("{last}, {all}"), role, room, look);
    }
    counters(page, &fec.counters, room, look);
}

/// Optional counters, a group an attribute.
fn details(page: &mut Page, groups: &[DetailGroup], room: u16, look: &Look) {
    page.heading("Optional counters");
    if groups.is_empty() {
        page.line(vec![("None was read.".into(), Role::Label)]);
        return;
    }
    for group in groups {
        let mut line = vec![(group.title.to_owned(), Role::Text)];
        match (&group.missing, group.rows.is_empty()) {
            // Why, in place of numbers.
            (Some(why), true) => {
                line.push((format!(" {} {why}", look.glyphs.unknown), Role::Label));
                page.line(line);
                continue;
            }
            (Some(why), false) => line.push((format!(" ({why} since)"), Role::Warn)),
            (None, _) => {}
        }
        if group.stale {
            line.push(old(group.age, true));
        }
        page.line(line);
        let quiet =
            |r: &DetailRow| r.value == Num::Is(0) && matches!(r.rate.get(), None | Some(0.0));
        // A table of a VL or SL each: those of which there is something to say.
        let table = group.rows.len() > 6;
        let mut zeros = 0;
        for row in &group.rows {
            if table && quiet(row) {
                zeros += 1;
                continue;
            }
            detail_row(page, row, room, look);
        }
        if zeros > 0 {
            let text = match zeros == group.rows.len() {
                true => format!("  all {zeros} are 0"),
                false => format!("  the other {zeros} are 0"),
            };
            page.line(vec![(text, Role::Label)]);
        }
    }
}

fn detail_row(page: &mut Page, row: &DetailRow, room: u16, look: &Look) {
    let unit = match row.unit {
        "" => String::new(),
        unit => format!(" ({unit})"),
    };
    let name_room = room.saturating_sub(VALUE + RATE + 4).clamp(8, 44);
    let (value, value_role) = num(row.value, look, Role::Text, |v| v.to_string());
    let (rate, rate_role) = num(row.rate, look, Role::Label, si);
    page.line(vec![
        (
            pad(&format!("  {}{unit}", row.label), name_room, look),
            Role::Text,
        ),
        (pad_left(&value, VALUE + 1, look), value_role),
        (pad_left(&rate, RATE + 1, look), rate_role),
        ("/s".into(), Role::Label),
    ]);
}

/// What both ends' counters say of the link.
fn diagnosis(page: &mut Page, findings: &[Finding], room: u16, look: &Look) {
    if findings.is_empty() {
        return;
    }
    page.gap();
    page.heading("Diagnosis of the link");
    for finding in findings {
        for (i, line) in wrap(&finding.sentence(), room.saturating_sub(2), look)
            .into_iter()
            .enumerate()
        {
            let mark = if i == 0 { "- " } else { "  " };
            page.line(vec![(mark.into(), Role::Label), (line, Role::Warn)]);
        }
    }
    page.gap();
}

const VALUE: u16 = 15;
const SINCE: u16 = 7;
const RATE: u16 = 6;

fn counters(page: &mut Page, counters: &[CounterView], room: u16, look: &Look) {
    let name_room = room.saturating_sub(VALUE + SINCE + RATE + 3).clamp(8, 28);
    let cells = |name: &str, value: &str, since: &str, rate: &str| {
        [
            pad(name, name_room, look),
            pad_left(value, VALUE + 1, look),
            pad_left(since, SINCE + 1, look),
            pad_left(rate, RATE + 1, look),
        ]
    };
    let head = cells("", "value", "since", "per s");
    page.line(head.map(|t| (t, Role::Label)).to_vec());
    for c in counters {
        let name = if c.unit.is_empty() {
            c.name.to_owned()
        } else {
            format!("{} ({})", c.name, c.unit)
        };
        // Exact while it fits: people compare it with perfquery's.
        let (value, value_role) = num(c.value, look, Role::Text, |v| v.to_string());
        let value = if width(&value, look) > VALUE {
            num(c.value, look, Role::Text, |v| si(v as f64)).0
        } else {
            value
        };
        let rose = matches!(c.since.get(), Some(v) if v > 0) && c.error;
        let quiet = |n: Option<f64>| n == Some(0.0);
        let role = |zero: bool| match (rose, zero) {
            (true, false) => Role::Warn,
            (_, true) => Role::Label,
            (false, false) => Role::Text,
        };
        let since_role = role(quiet(c.since.get().map(|v| v as f64)));
        let (since, since_role) = num(c.since, look, since_role, |v| format!("+{}", count(v)));
        let (rate, rate_role) = num(c.rate, look, role(quiet(c.rate.get())), si);
        let value_role = match c.value {
            Num::Is(0) => Role::Label,
            _ => value_role,
        };
        let [name, value, since, rate] = cells(&name, &value, &since, &rate);
        page.line(vec![
            (name, if rose { Role::Warn } else { Role::Text }),
            (value, value_role),
            (since, since_role),
            (rate, rate_role),
        ]);
    }
}
