//! Colours and glyphs: what the terminal can show decides which ladder step is used.
//!
//! State is always told by text too, so that every screen can be read without colour. Nothing
//! that must be read is dark grey or DIM: both vanish on many terminals. This file must never
//! look at what is drawn, only at how.

use ratatui::style::{Color, Modifier, Style};

/// How many colours the terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Depth {
    /// None: bold, underline and reverse only.
    Mono,
    /// The 16 ANSI colours, as the terminal's owner chose them.
    Ansi16,
    /// The xterm palette.
    Ansi256,
    /// 24 bits.
    True,
}

/// What a piece of text is, and so how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Ordinary text.
    Text,
    /// Labels, units, separators: readable, but not first.
    Label,
    /// The title bar.
    Bar,
    /// The title bar of a simulated fabric.
    BarLoud,
    /// A badge in the title bar: PAUSED, REPLAY.
    Badge,
    /// The pane shown.
    TabOn,
    /// The other panes.
    TabOff,
    /// Column headings.
    Head,
    /// The heading of the column that sorts.
    HeadSort,
    /// The selected row (patched over the row's own style).
    Select,
    /// Names of keys, headings.
    Accent,
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// Needs a person.
    Bad,
    /// Older than two intervals.
    Stale,
    /// Transmitted.
    Tx,
    /// Received.
    Rx,
    /// Sparklines.
    Spark,
    /// The empty part of a bar.
    Track,
}

/// Characters that need more than ASCII, or stand-ins for them.
#[derive(Debug)]
pub struct Glyphs {
    /// Eighths of a horizontal bar, emptiest first; the last is full.
    pub bar: [&'static str; 8],
    /// The empty part of a bar.
    pub track: &'static str,
    /// Eight heights of a sparkline, lowest first.
    pub spark: [&'static str; 8],
    /// Not known.
    pub unknown: &'static str,
    /// This or more.
    pub at_least: &'static str,
    /// Something was cut off.
    pub cut: &'static str,
    /// Sorted with the smallest first.
    pub up: &'static str,
    /// Sorted with the greatest first.
    pub down: &'static str,
    /// Between the two ends of a link.
    pub link: &'static str,
    /// Between a link's ends once it is gone.
    pub unlinked: &'static str,
    /// Stands for a character that must not reach the terminal.
    pub hidden: &'static str,
    /// Between facts.
    pub bullet: &'static str,
    /// Multiplication.
    pub times: &'static str,
    /// The line under a heading.
    pub rule: &'static str,
    /// Where typed text goes.
    pub caret: &'static str,
    /// Where a replay is, on its timeline.
    pub cursor: &'static str,
    /// Something happened, on a timeline.
    pub event: &'static str,
    /// A bookmark, on a timeline.
    pub bookmark: &'static str,
    /// Characters beyond ASCII may be shown.
    pub wide: bool,
}

/// For terminals in a UTF-8 locale.
pub static UNICODE: Glyphs = Glyphs {
    bar: ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
    track: "·",
    spark: ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    unknown: "—",
    at_least: "≥",
    cut: "…",
    up: "▲",
    down: "▼",
    link: "↔",
    unlinked: "⇹",
    hidden: "·",
    bullet: "│",
    times: "×",
    rule: "─",
    caret: "▏",
    cursor: "┃",
    event: "┴",
    bookmark: "◆",
    wide: true,
};

/// For serial consoles and locales without UTF-8.
pub static ASCII: Glyphs = Glyphs {
    bar: [" ", " ", " ", "-", "-", "-", "#", "#"],
    track: ".",
    spark: ["_", ".", ",", "-", "=", "+", "*", "#"],
    unknown: "-",
    at_least: ">",
    cut: "~",
    up: "^",
    down: "v",
    link: "<->",
    unlinked: "-x-",
    hidden: "?",
    bullet: "|",
    times: "x",
    rule: "-",
    caret: "_",
    cursor: "#",
    event: "'",
    bookmark: "b",
    wide: false,
};

/// Colours and glyphs together.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// How many colours.
    pub depth: Depth,
    light: bool,
    /// The characters to draw with.
    pub glyphs: &'static Glyphs,
}

impl Look {
    /// A look of this depth on a dark background, with all glyphs.
    pub const fn new(depth: Depth) -> Look {
        Look {
            depth,
            light: false,
            glyphs: &UNICODE,
        }
    }

    /// The same for a light background.
    pub const fn on_light(mut self) -> Look {
        self.light = true;
        self
    }

    /// The same with ASCII only.
    pub const fn in_ascii(mut self) -> Look {
        self.glyphs = &ASCII;
        self
    }

    /// What the environment says of the terminal: `NO_COLOR`, `COLORTERM`, `TERM`, `COLORFGBG`
    /// and the locale. Nothing is asked of the terminal itself, since one that does not answer
    /// would hold up the first frame.
    pub fn from_env(var: impl Fn(&str) -> Option<String>) -> Look {
        let get = |name: &str| var(name).unwrap_or_default().to_ascii_lowercase();
        let term = get("TERM");
        let mut look = Look::new(depth_of(&term, &get("COLORTERM"), &get("NO_COLOR")));
        // rxvt, konsole and others put "foreground;background" there, as ANSI colour numbers.
        if let Some(Ok(bg)) = get("COLORFGBG").rsplit(';').next().map(str::parse::<u8>)
            && matches!(bg, 7 | 9..=15)
        {
            look = look.on_light();
        }
        // The first of these that is set and not empty decides (POSIX, chapter 8.2).
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .map(get)
            .find(|v| !v.is_empty())
            .unwrap_or_default();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        // The Linux console speaks UTF-8 but its fonts lack most of these shapes.
        if !utf8 || term == "linux" || term.starts_with("vt") || term == "dumb" {
            look = look.in_ascii();
        }
        look
    }

    /// How text of this role looks.
    pub fn style(&self, role: Role) -> Style {
        match self.depth {
            Depth::Mono => mono(role),
            Depth::Ansi16 => ansi16(role),
            Depth::Ansi256 | Depth::True => {
                let p = match (self.depth, self.light) {
                    (Depth::True, false) => &TRUE_DARK,
                    (Depth::True, true) => &TRUE_LIGHT,
                    (_, false) => &XTERM_DARK,
                    (_, true) => &XTERM_LIGHT,
                };
                p.style(role)
            }
        }
    }
}

fn depth_of(term: &str, colorterm: &str, no_color: &str) -> Depth {
    if !no_color.is_empty()
        || term.is_empty()
        || term == "dumb"
        || term.starts_with("vt")
        || term.ends_with("-m")
        || term.ends_with("-mono")
    {
        Depth::Mono
    } else if matches!(colorterm, "truecolor" | "24bit") || term.ends_with("-direct") {
        Depth::True
    } else if term.contains("256") || term.starts_with("xterm-kitty") || term == "alacritty" {
        Depth::Ansi256
    } else {
        Depth::Ansi16
    }
}

fn mono(role: Role) -> Style {
    let s = Style::new();
    match role {
        Role::Bar | Role::Select => s.add_modifier(Modifier::REVERSED),
        Role::BarLoud | Role::Badge | Role::TabOn => {
            s.add_modifier(Modifier::REVERSED | Modifier::BOLD)
        }
        Role::Head => s.add_modifier(Modifier::UNDERLINED),
        Role::HeadSort => s.add_modifier(Modifier::UNDERLINED | Modifier::BOLD),
        Role::Bad | Role::Accent | Role::Warn => s.add_modifier(Modifier::BOLD),
        Role::Stale => s.add_modifier(Modifier::ITALIC),
        Role::Text
        | Role::Label
        | Role::TabOff
        | Role::Good
        | Role::Tx
        | Role::Rx
        | Role::Spark
        | Role::Track => s,
    }
}

fn ansi16(role: Role) -> Style {
    let s = mono(role);
    match role {
        Role::BarLoud | Role::Badge => Style::new()
            .fg(Color::Black)
            .bg(Color::Yellow)
            .add_modifier(Modifier::BOLD),
        Role::Accent | Role::HeadSort => s.fg(Color::Cyan),
        Role::Good => s.fg(Color::Green),
        Role::Warn => s.fg(Color::Yellow),
        Role::Bad => s.fg(Color::Red),
        Role::Tx | Role::Spark => s.fg(Color::Cyan),
        Role::Rx => s.fg(Color::Magenta),
        _ => s,
    }
}

/// The colours of one step of the ladder.
struct Palette {
    label: Color,
    accent: Color,
    good: Color,
    warn: Color,
    bad: Color,
    tx: Color,
    rx: Color,
    spark: Color,
    track: Color,
    bar: (Color, Color),
    loud: (Color, Color),
    select: Color,
    head: Color,
}

impl Palette {
    fn style(&self, role: Role) -> Style {
        let s = Style::new();
        let pair = |(fg, bg): (Color, Color)| s.fg(fg).bg(bg);
        match role {
            Role::Text => s,
            Role::Label | Role::TabOff => s.fg(self.label),
            Role::Bar => pair(self.bar),
            Role::BarLoud | Role::Badge => pair(self.loud).add_modifier(Modifier::BOLD),
            Role::TabOn => s
                .fg(self.accent)
                .add_modifier(Modifier::BOLD | Modifier::REVERSED),
            Role::Head => s.fg(self.label).bg(self.head),
            Role::HeadSort => s.fg(self.accent).bg(self.head).add_modifier(Modifier::BOLD),
            Role::Select => s.bg(self.select).add_modifier(Modifier::BOLD),
            Role::Accent => s.fg(self.accent).add_modifier(Modifier::BOLD),
            Role::Good => s.fg(self.good),
            Role::Warn => s.fg(self.warn),
            Role::Bad => s.fg(self.bad).add_modifier(Modifier::BOLD),
            Role::Stale => s.fg(self.label).add_modifier(Modifier::ITALIC),
            Role::Tx => s.fg(self.tx),
            Role::Rx => s.fg(self.rx),
            Role::Spark => s.fg(self.spark),
            Role::Track => s.fg(self.track),
        }
    }
}

const fn rgb(hex: u32) -> Color {
    Color::Rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

const TRUE_DARK: Palette = Palette {
    label: rgb(0x9aa5b1),
    accent: rgb(0x6cb6ff),
    good: rgb(0x7ec699),
    warn: rgb(0xe5b567),
    bad: rgb(0xff7b72),
    tx: rgb(0x5ec4c9),
    rx: rgb(0xb79ce8),
    spark: rgb(0x6cb6ff),
    track: rgb(0x4a5563),
    bar: (rgb(0xdbe4ee), rgb(0x24344a)),
    loud: (rgb(0x1a1300), rgb(0xf2c14e)),
    select: rgb(0x2f4562),
    head: rgb(0x1b2430),
};

const TRUE_LIGHT: Palette = Palette {
    label: rgb(0x57606a),
    accent: rgb(0x0550ae),
    good: rgb(0x116329),
    warn: rgb(0x7d4e00),
    bad: rgb(0xb3141f),
    tx: rgb(0x00646b),
    rx: rgb(0x6639ba),
    spark: rgb(0x0550ae),
    track: rgb(0xb8c0c8),
    bar: (rgb(0x14202e), rgb(0xc9d8ea)),
    loud: (rgb(0x1a1300), rgb(0xf2c14e)),
    select: rgb(0xcfe2fb),
    head: rgb(0xe9edf1),
};

const XTERM_DARK: Palette = Palette {
    label: Color::Indexed(248),
    accent: Color::Indexed(75),
    good: Color::Indexed(114),
    warn: Color::Indexed(179),
    bad: Color::Indexed(210),
    tx: Color::Indexed(80),
    rx: Color::Indexed(141),
    spark: Color::Indexed(75),
    track: Color::Indexed(240),
    bar: (Color::Indexed(254), Color::Indexed(237)),
    loud: (Color::Indexed(16), Color::Indexed(221)),
    select: Color::Indexed(24),
    head: Color::Indexed(235),
};

const XTERM_LIGHT: Palette = Palette {
    label: Color::Indexed(240),
    accent: Color::Indexed(25),
    good: Color::Indexed(22),
    warn: Color::Indexed(94),
    bad: Color::Indexed(124),
    tx: Color::Indexed(23),
    rx: Color::Indexed(55),
    spark: Color::Indexed(25),
    track: Color::Indexed(250),
    bar: (Color::Indexed(234), Color::Indexed(152)),
    loud: (Color::Indexed(16), Color::Indexed(221)),
    select: Color::Indexed(153),
    head: Color::Indexed(254),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn look(vars: &[(&str, &str)]) -> Look {
        Look::from_env(|name| {
            vars.iter()
                .find(|(k, _)| *k == name)
                .map(|(_, v)| (*v).to_owned())
        })
    }

    #[test]
    fn the_environment_chooses_the_step_of_the_ladder() {
        let depth = |vars: &[(&str, &str)]| look(vars).depth;
        assert_eq!(
            depth(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]),
            Depth::True
        );
        assert_eq!(depth(&[("TERM", "screen-256color")]), Depth::Ansi256);
        assert_eq!(depth(&[("TERM", "xterm")]), Depth::Ansi16);
        assert_eq!(depth(&[("TERM", "linux")]), Depth::Ansi16);
        assert_eq!(depth(&[("TERM", "vt220")]), Depth::Mono);
        assert_eq!(depth(&[("TERM", "dumb")]), Depth::Mono);
        assert_eq!(depth(&[]), Depth::Mono);
        // no-color.org: present and not empty, whatever the value.
        let all = ("COLORTERM", "truecolor");
        let term = ("TERM", "xterm-256color");
        assert_eq!(depth(&[term, all, ("NO_COLOR", "1")]), Depth::Mono);
        assert_eq!(depth(&[term, all, ("NO_COLOR", "")]), Depth::True);
    }

    #[test]
    fn ascii_where_the_locale_or_the_font_has_no_more() {
        let term = ("TERM", "xterm");
        assert!(look(&[term, ("LANG", "en_US.UTF-8")]).glyphs.wide);
        assert!(
            !look(&[term, ("LANG", "en_US.UTF-8"), ("LC_ALL", "C")])
                .glyphs
                .wide
        );
        assert!(!look(&[term]).glyphs.wide);
        assert!(!look(&[("TERM", "linux"), ("LANG", "C.UTF-8")]).glyphs.wide);
    }

    #[test]
    fn mono_uses_no_colour_and_no_step_dims_what_must_be_read() {
        const ROLES: [Role; 19] = [
            Role::Text,
            Role::Label,
            Role::Bar,
            Role::BarLoud,
            Role::Badge,
            Role::TabOn,
            Role::TabOff,
            Role::Head,
            Role::HeadSort,
            Role::Select,
            Role::Accent,
            Role::Good,
            Role::Warn,
            Role::Bad,
            Role::Stale,
            Role::Tx,
            Role::Rx,
            Role::Spark,
            Role::Track,
        ];
        for role in ROLES {
            let mono = Look::new(Depth::Mono).style(role);
            assert_eq!((mono.fg, mono.bg), (None, None), "{role:?}");
            for depth in [Depth::Mono, Depth::Ansi16, Depth::Ansi256, Depth::True] {
                for look in [Look::new(depth), Look::new(depth).on_light()] {
                    let style = look.style(role);
                    assert!(!style.add_modifier.contains(Modifier::DIM), "{role:?}");
                    assert_ne!(style.fg, Some(Color::DarkGray), "{role:?}");
                }
            }
        }
    }
}
