//! Text into cells, and numbers into text.
//!
//! Names come from the fabric and are not to be trusted: whatever they hold, only printable
//! characters of known width reach a cell. Numbers are never cut: one that does not fit is
//! shown as `###`, since a cut number is a wrong number.

use std::fs;
use std::path::{Component, Path};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::style::Style;
use unicode_width::UnicodeWidthChar;

use super::theme::{Glyphs, Look, Role};
use crate::model::Num;

/// How a character is shown: its width, or `None` if it must not be shown as it is.
///
/// Controls, bidirectional overrides and other format characters could steer the terminal or
/// reorder what is read; combining marks and joiners have no width of their own and pile up.
fn safe(c: char, glyphs: &Glyphs) -> Option<u16> {
    if c.is_control() || (!glyphs.wide && !c.is_ascii()) {
        return None;
    }
    // Emoji and private characters: terminals disagree on their width.
    if matches!(c as u32, 0xE000..=0xF8FF | 0x1F000.. | 0x2600..=0x27BF | 0xFFF0..=0xFFFF) {
        return None;
    }
    match c.width() {
        Some(w @ 1..=2) => u16::try_from(w).ok(),
        _ => None,
    }
}

/// The columns that `text` takes.
pub fn width(text: &str, look: &Look) -> u16 {
    if text.bytes().all(|b| matches!(b, 0x20..=0x7e)) {
        return u16::try_from(text.len()).unwrap_or(u16::MAX);
    }
    text.chars()
        .map(|c| safe(c, look.glyphs).unwrap_or(1))
        .fold(0u16, u16::saturating_add)
}

/// Writes `text` at (`x`, `y`) in at most `room` columns; says how many it took.
///
/// What does not fit ends in the cut mark. Nothing outside the buffer is touched.
pub fn put(
    buf: &mut Buffer,
    (x, y): (u16, u16),
    room: u16,
    text: &str,
    style: Style,
    look: &Look,
) -> u16 {
    let room = room.min(buf.area.right().saturating_sub(x));
    if room == 0 || x < buf.area.left() || y < buf.area.top() || y >= buf.area.bottom() {
        return 0;
    }
    let cut = width(text, look) > room;
    let limit = if cut { room - 1 } else { room };
    let mut used = 0;
    for c in text.chars() {
        let w = safe(c, look.glyphs);
        let step = w.unwrap_or(1);
        if used + step > limit {
            break;
        }
        if let Some(cell) = buf.cell_mut((x + used, y)) {
            if w.is_some() {
                cell.set_char(c);
            } else {
                cell.set_symbol(look.glyphs.hidden);
            }
            cell.set_style(style);
        }
        // The second half of a wide character holds nothing.
        if step == 2
            && let Some(cell) = buf.cell_mut((x + used + 1, y))
        {
            cell.reset();
            cell.set_style(style);
        }
        used += step;
    }
    if cut && let Some(cell) = buf.cell_mut((x + used, y)) {
        cell.set_symbol(look.glyphs.cut);
        cell.set_style(style);
        used += 1;
    }
    used
}

/// A number in at most five columns: three significant digits and an SI prefix.
pub fn si(v: f64) -> String {
    const PREFIX: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    if !v.is_finite() {
        return "?".to_owned();
    }
    let negative = v < 0.0;
    let mut v = v.abs();
    let mut step = 0;
    // 999.5 would print as 1000.
    while v >= 999.5 && step + 1 < PREFIX.len() {
        v /= 1000.0;
        step += 1;
    }
    let digits = if step == 0 {
        if v >= 9.95 || v == 0.0 {
            format!("{v:.0}")
        } else if v >= 0.095 {
            format!("{v:.1}")
        } else {
            "<0.1".to_owned()
        }
    } else if v >= 99.95 {
        format!("{v:.0}")
    } else if v >= 9.995 {
        format!("{v:.1}")
    } else {
        format!("{v:.2}")
    };
    let sign = if negative { "-" } else { "" };
    format!(
        "{sign}{digits}{}",
        PREFIX.get(step).copied().unwrap_or_default()
    )
}

/// A count: exact up to 999,999 (without separators), then with an SI prefix.
pub fn count(v: u64) -> String {
    if v < 1_000_000 {
        v.to_string()
    } else {
        si(v as f64)
    }
}

/// A count with thousands separated, exact.
pub fn grouped(v: u64) -> String {
    let digits = v.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A share of 1 as a percentage in at most four columns; never rounds to 0 or 100 what is not.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    if !p.is_finite() {
        "?".to_owned()
    } else if p > 0.0 && p < 0.5 {
        "<1%".to_owned()
    } else if p < 100.0 && p > 99.5 {
        "99%".to_owned()
    } else if p >= 999.5 {
        ">999%".to_owned()
    } else {
        format!("{p:.0}%")
    }
}

/// A latency in at most six columns.
pub fn latency(d: Duration) -> String {
    let us = d.as_secs_f64() * 1e6;
    if us < 999.5 {
        format!("{us:.0}us")
    } else if us < 9_995.0 {
        format!("{:.2}ms", us / 1e3)
    } else if us < 99_950.0 {
        format!("{:.1}ms", us / 1e3)
    } else if us < 999_500.0 {
        format!("{:.0}ms", us / 1e3)
    } else {
        seconds(d)
    }
}

/// A time in at most six columns, tenths below ten seconds.
pub fn seconds(d: Duration) -> String {
    if d.as_secs_f64() < 9.95 {
        format!("{:.1}s", d.as_secs_f64())
    } else {
        age(d)
    }
}

/// An age in whole units, at most six columns.
pub fn age(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0..=99 => format!("{s}s"),
        100..=5_999 => format!("{}m{:02}s", s / 60, s % 60),
        6_000..=359_999 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        360_000..=8_639_999 => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
        _ => format!("{}d", s / 86_400),
    }
}

/// An age that seldom changes, so that a quiet screen stays as it is.
pub fn coarse_age(d: Duration) -> String {
    match d.as_secs() {
        0..=9 => "<10s".to_owned(),
        10..=29 => "<30s".to_owned(),
        30..=59 => "<1m".to_owned(),
        s @ 60..=5_999 => format!("{}m", s / 60),
        s @ 6_000..=359_999 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

/// The text of a number with its state, and the role that says it.
pub fn num<T: Copy>(
    n: Num<T>,
    look: &Look,
    role: Role,
    show: impl Fn(T) -> String,
) -> (String, Role) {
    match n {
        Num::Unknown => (look.glyphs.unknown.to_owned(), Role::Label),
        Num::Reset => ("reset".to_owned(), Role::Warn),
        Num::Is(v) => (show(v), role),
        Num::AtLeast(v) => (format!("{}{}", look.glyphs.at_least, show(v)), Role::Warn),
        Num::Stale(v) => (show(v), Role::Stale),
    }
}

/// Wall times in the operator's time zone.
#[derive(Clone, Debug)]
pub struct Clock {
    zone: TimeZone,
}

impl Clock {
    /// In this zone.
    pub const fn new(zone: TimeZone) -> Clock {
        Clock { zone }
    }

    /// Coordinated universal time.
    pub const fn utc() -> Clock {
        Clock::new(TimeZone::UTC)
    }

    /// The zone that `TZ` names, else the system's; UTC if there is none to be read.
    ///
    /// Reads one file. Looking a zone up by name in the whole database, as the general way
    /// does, walks hundreds of directories' entries before the first frame.
    pub fn system() -> Clock {
        const DATABASE: &str = "/usr/share/zoneinfo";
        let read = |path: &Path| TimeZone::tzif("local", &fs::read(path).ok()?).ok();
        let zone = match std::env::var("TZ") {
            Err(_) => read(Path::new("/etc/localtime")),
            Ok(name) => {
                let name = name.strip_prefix(':').unwrap_or(&name);
                // A name is a file below the database, never a way out of it.
                let plain = Path::new(name)
                    .components()
                    .all(|c| matches!(c, Component::Normal(_)));
                let file = Path::new(DATABASE).join(name);
                Some(file)
                    .filter(|_| plain && !name.is_empty())
                    .and_then(|file| read(&file))
                    .or_else(|| TimeZone::posix(name).ok())
            }
        };
        Clock::new(zone.unwrap_or(TimeZone::UTC))
    }

    fn format(&self, wall: i64, how: &str) -> String {
        match Timestamp::from_nanosecond(i128::from(wall)) {
            Ok(at) => at
                .to_zoned_datetime(self.zone.clone())
                .strftime(how)
                .to_string(),
            Err(_) => "??:??".to_owned(),
        }
    }

    /// The first moment from `from` on (nanoseconds since the Unix epoch) at which this clock
    /// shows these hours, minutes and seconds.
    pub fn next_time(&self, from: i64, (hour, minute, second): (i8, i8, i8)) -> Option<i64> {
        let start = Timestamp::from_nanosecond(i128::from(from)).ok()?;
        let here = start.to_zoned_datetime(self.zone.clone());
        [here.date(), here.date().tomorrow().ok()?]
            .into_iter()
            .filter_map(|day| {
                let there = day.at(hour, minute, second, 0);
                there.to_zoned_datetime(self.zone.clone()).ok()
            })
            .map(|there| there.timestamp())
            .find(|there| *there >= start)
            .and_then(|there| i64::try_from(there.as_nanosecond()).ok())
    }

    /// `14:03` of nanoseconds since the Unix epoch.
    pub fn minutes(&self, wall: i64) -> String {
        self.format(wall, "%H:%M")
    }

    /// `14:03:07`.
    pub fn seconds(&self, wall: i64) -> String {
        self.format(wall, "%H:%M:%S")
    }

    /// `2024-05-17 14:03:07 UTC`.
    pub fn date(&self, wall: i64) -> String {
        self.format(wall, "%Y-%m-%d %H:%M:%S %Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::Depth;
    use proptest::prelude::*;
    use ratatui::layout::Rect;

    const LOOK: Look = Look::new(Depth::Mono);

    fn line(text: &str, room: u16) -> String {
        let mut buf = Buffer::empty(Rect::new(0, 0, 12, 1));
        put(&mut buf, (0, 0), room, text, Style::new(), &LOOK);
        buf.content().iter().map(|c| c.symbol()).collect()
    }

    #[test]
    fn hostile_names_reach_no_cell() {
        // A title change, a clear, a bidirectional override, a bell, C1 CSI.
        assert_eq!(line("\x1b]0;x\x07", 12), "·]0;x·      ");
        assert_eq!(line("\u{9b}2Ja", 12), "·2Ja        ");
        assert_eq!(line("a\u{202e}b\nc\td", 12), "a·b·c·d     ");
        // Zero-width joiners and combining marks show as marks, so twins stay apart.
        assert_eq!(line("a\u{200d}\u{301}b", 12), "a··b        ");
    }

    #[test]
    fn text_is_cut_with_a_mark_and_wide_characters_are_never_halved() {
        assert_eq!(line("abcdefgh", 5), "abcd…       ");
        assert_eq!(line("节点一号", 8), "节 点 一 号     ");
        assert_eq!(line("节点一号", 6), "节 点 …       ");
        assert_eq!(line("abc", 3), "abc         ");
        assert_eq!(line("abc", 0), "            ");
    }

    #[test]
    fn numbers_keep_three_digits_and_say_their_prefix() {
        let all = [
            (0.0, "0"),
            (0.01, "<0.1"),
            (0.25, "0.2"),
            (9.94, "9.9"),
            (9.96, "10"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (1_234.0, "1.23k"),
            (12_345.0, "12.3k"),
            (123_456.0, "123k"),
            (999_700.0, "1.00M"),
            (197_500_000_000.0, "198G"),
            (1.5e12, "1.50T"),
            (f64::NAN, "?"),
        ];
        for (v, text) in all {
            assert_eq!(si(v), text, "{v}");
        }
        assert_eq!(count(999_999), "999999");
        assert_eq!(count(1_000_000), "1.00M");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
    }

    #[test]
    fn shares_and_times_read_as_meant() {
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(0.001), "<1%");
        assert_eq!(percent(0.999), "99%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(latency(Duration::from_micros(7)), "7us");
        assert_eq!(latency(Duration::from_micros(12_340)), "12.3ms");
        assert_eq!(latency(Duration::from_millis(1_500)), "1.5s");
        assert_eq!(age(Duration::from_secs(99)), "99s");
        assert_eq!(age(Duration::from_secs(192)), "3m12s");
        assert_eq!(age(Duration::from_secs(7_500)), "2h05m");
        assert_eq!(age(Duration::from_secs(360_000)), "4d04h");
        assert_eq!(coarse_age(Duration::from_secs(7)), "<10s");
    }

    #[test]
    fn the_state_of_a_number_is_said_in_text() {
        let show = |n: Num<u64>| num(n, &LOOK, Role::Text, count).0;
        assert_eq!(show(Num::Unknown), "—");
        assert_eq!(show(Num::Reset), "reset");
        assert_eq!(show(Num::AtLeast(65_535)), "≥65535");
        assert_eq!(show(Num::Is(0)), "0");
    }

    #[test]
    fn wall_times_are_in_the_zone_given() {
        // 2024-05-17 14:03:07 UTC is 1715954587 s after the epoch (date -u -d).
        let wall = 1_715_954_587_000_000_000;
        assert_eq!(Clock::utc().seconds(wall), "14:03:07");
        assert_eq!(Clock::utc().date(wall), "2024-05-17 14:03:07 UTC");
    }

    proptest! {
        #[test]
        fn any_text_stays_within_its_room(text in "\\PC*|.{0,40}", x in 0u16..14, room in 0u16..14) {
            let mut buf = Buffer::empty(Rect::new(0, 0, 12, 1));
            let used = put(&mut buf, (x, 0), room, &text, Style::new(), &LOOK);
            prop_assert!(used <= room);
            for (i, cell) in buf.content().iter().enumerate() {
                prop_assert!(!cell.symbol().chars().any(char::is_control));
                if i >= usize::from(x + room) || i < usize::from(x) {
                    prop_assert_eq!(cell.symbol(), " ");
                }
            }
        }

        #[test]
        fn no_number_is_wider_than_its_column(v in 0f64..1e18, d in 0u64..10_000_000_000) {
            prop_assert!(si(v).len() <= 5, "{}", si(v));
            prop_assert!(count(v as u64).len() <= 6);
            prop_assert!(age(Duration::from_millis(d)).len() <= 6, "{}", age(Duration::from_millis(d)));
            prop_assert!(latency(Duration::from_micros(d)).len() <= 6, "{}", latency(Duration::from_micros(d)));
        }
    }
}
