//! The header: whose fabric, how large, how fast it is asked, and what is wrong with the view.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{pad, pad_left, state_word};
use crate::event::SweepKind;
use crate::model::Num;
use crate::model::view::{HeaderView, SweepView};
use crate::tui::pack::{Fact, pack};
use crate::tui::text::{Clock, age, coarse_age, grouped, percent, put, seconds, si, width};
use crate::tui::theme::{Look, Role};
use crate::tui::told::{Link, Told, Watched};

/// What the header says besides the model.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// What is said of the session beside its events.
    pub told: &'a Told,
    /// For how long the view has been held still.
    pub paused: Option<Duration>,
    /// Wall time from which on errors are counted, if that was chosen.
    pub since: Option<i64>,
    /// Open alerts that the operator knows of.
    pub known_alerts: usize,
    /// Why the session ended.
    pub closed: Option<&'a str>,
    /// How wall times are shown.
    pub clock: &'a Clock,
}

/// A sweep that takes longer than this shows its progress; shorter ones would only flicker.
const WORTH_SHOWING: Duration = Duration::from_secs(1);

/// A session has an event a second: a lag below this is none.
const WORTH_TELLING: Duration = Duration::from_secs(2);

/// Header lines for a screen of this height, alerts not counted.
pub fn lines(height: u16) -> u16 {
    match height {
        0..=5 => 0,
        6..=11 => 1,
        12..=19 => 2,
        _ => 3,
    }
}

/// Draws the header into `area`, one to three lines.
pub fn draw(area: Rect, buf: &mut Buffer, h: &HeaderView<'_>, around: &Around<'_>, look: &Look) {
    if area.is_empty() {
        return;
    }
    // In line with the title's first word.
    let line = |y: u16| Rect {
        x: area.x + 1,
        y: area.y + y,
        width: area.width - 1,
        height: 1,
    };
    title(Rect { height: 1, ..area }, buf, h, around, look);
    match area.height {
        0 | 1 => {}
        2 => {
            let mut facts = vec![alert_count(h, around)];
            facts.extend(size(h));
            facts.extend(sweeps(h));
            facts.extend(mads(h, look));
            // Shortest first: one line for all.
            pack(buf, line(1), Style::new(), look, facts);
        }
        _ => {
            let mut facts = vec![alert_count(h, around)];
            facts.extend(size(h));
            facts.extend(sweeps(h));
            pack(buf, line(1), Style::new(), look, facts);
            pack(buf, line(2), Style::new(), look, mads(h, look));
        }
    }
}

fn plain(text: impl Into<String>) -> (String, Role) {
    (text.into(), Role::Text)
}

fn label(text: &str) -> (String, Role) {
    (text.to_owned(), Role::Label)
}

fn title(area: Rect, buf: &mut Buffer, h: &HeaderView<'_>, around: &Around<'_>, look: &Look) {
    let role = if h.simulated {
        Role::BarLoud
    } else {
        Role::Bar
    };
    let base = look.style(role);
    buf.set_style(area, base);
    let mut facts: Vec<Fact> = Vec::new();
    let mut source = h.source.as_str();
    if h.simulated {
        facts.push((0, vec![plain("SIMULATED")]));
        source = source.trim_start_matches("SIMULATED").trim_start();
    } else {
        facts.push((9, vec![plain("fabtop")]));
    }
    match around.told {
        Told::Live => {}
        Told::Replay(_) => facts.push((0, vec![(" REPLAY ".into(), Role::Badge)])),
        Told::Watch(watched) => {
            facts.push((0, vec![(" WATCHING ".into(), Role::Badge)]));
            facts.extend(watching(watched, h.host));
        }
    }
    if let Some(for_) = around.paused {
        facts.push((0, vec![(format!("[PAUSED {}]", age(for_)), Role::Badge)]));
    }
    if let Some(wall) = around.since {
        let text = format!(" errors since {} ", around.clock.seconds(wall));
        facts.push((0, vec![(text, Role::Badge)]));
    }
    match h.local {
        Some(local) => {
            facts.push((1, vec![plain(format!("{} port {}", local.ca, local.port))]));
            let lid = if local.lid == 0 {
                "no LID".to_owned()
            } else {
                format!("LID {}", local.lid)
            };
            facts.push((3, vec![plain(lid)]));
            facts.push((4, vec![plain(state_word(local.state))]));
            if local.pkey_limited {
                // Its consequence: hosts' counters are not read.
                facts.push((2, vec![plain("limited P_Key: switches only")]));
            }
            if h.refused.iter().any(|agent| agent.is_planarized()) {
                facts.push((5, vec![plain("planarized: directed routes")]));
            }
            match h.sm {
                Some(sm) => {
                    facts.push((
                        2,
                        match sm.silent {
                            true => vec![(format!("SM LID {} no answer", sm.lid), Role::Bad)],
                            false => vec![plain(format!("SM LID {} {}", sm.lid, sm.state_name()))],
                        },
                    ));
                    facts.push((7, vec![plain(format!("priority {}", sm.priority))]));
                }
                None if local.sm_lid != 0 => {
                    facts.push((2, vec![plain(format!("SM LID {}", local.sm_lid))]));
                }
                None => facts.push((2, vec![plain("no SM")])),
            }
        }
        None => facts.push((1, vec![plain("opening")])),
    }
    facts.push((6, vec![plain(source)]));
    facts.push((8, vec![plain(h.host)]));
    // Minutes only: a screen on which nothing else changes stays as it is.
    let time = around.clock.minutes(h.wall);
    let right = width(&time, look) + 1;
    let room = if area.width > 40 { right + 1 } else { 0 };
    let inner = Rect {
        x: area.x + 1,
        width: area.width.saturating_sub(1 + room),
        ..area
    };
    pack(buf, inner, base, look, facts);
    if room > 0 {
        let at = (area.right() - right, area.y);
        put(buf, at, right, &time, base, look);
    }
}

/// Whose session is watched, and how far behind it this is.
fn watching(watched: &Watched, host: &str) -> Vec<Fact> {
    let whose = match watched.whose.as_str() {
        "" => host,
        whose => whose,
    };
    let state = match (&watched.link, watched.lag) {
        (Link::Connected, Some(lag)) if lag < WORTH_TELLING => "lag <2s".to_owned(),
        (Link::Connected, Some(lag)) => format!("lag {}", age(lag)),
        (Link::Connected, None) => "lag unknown".to_owned(),
        (Link::Reconnecting(_), _) => "reconnecting".to_owned(),
        (Link::Ended(_), _) => "ended".to_owned(),
    };
    vec![(0, vec![plain(whose)]), (0, vec![plain(state)])]
}

/// How many alerts are open, and how many of them are grave.
fn alert_count(h: &HeaderView<'_>, around: &Around<'_>) -> Fact {
    let n = &h.alerts;
    let mut text = match n.all() {
        0 => return (8, vec![label("no alerts")]),
        1 => "1 alert".to_owned(),
        n => format!("{} alerts", grouped(n as u64)),
    };
    text += &match (n.critical, n.warning) {
        (0, 0) => ": info".to_owned(),
        (0, 1) => ": 1 warning".to_owned(),
        (0, n) => format!(": {} warnings", grouped(n as u64)),
        (n, _) => format!(": {} critical", grouped(n as u64)),
    };
    let role = match (n.critical, n.warning) {
        _ if around.known_alerts >= n.all() => Role::Label,
        (0, 0) => Role::Text,
        (0, _) => Role::Warn,
        _ => Role::Bad,
    };
    let mut pieces = vec![(text, role)];
    if around.known_alerts > 0 {
        pieces.push(label(&format!(", {} known", around.known_alerts)));
    }
    (1, pieces)
}

fn size(h: &HeaderView<'_>) -> Vec<Fact> {
    let s = &h.size;
    let many = |n: usize, one: &str, more: &str| {
        vec![
            plain(grouped(n as u64)),
            label(&format!(" {}", if n == 1 { one } else { more })),
        ]
    };
    let mut facts = vec![
        (2, many(s.switches, "switch", "switches")),
        (3, many(s.cas, "CA", "CAs")),
        (7, many(s.links, "link", "links")),
        (
            9,
            vec![
                plain(grouped(s.connected as u64)),
                label(" of "),
                plain(grouped(s.ports as u64)),
                label(" ports linked"),
            ],
        ),
    ];
    if s.aggregators > 0 {
        let nodes = many(s.aggregators, "aggregation node", "aggregation nodes");
        facts.push((10, nodes));
    }
    if s.routers > 0 {
        facts.push((8, many(s.routers, "router", "routers")));
    }
    if s.missing > 0 {
        let text = format!("{} missing", grouped(s.missing as u64));
        facts.push((1, vec![(text, Role::Bad)]));
    }
    if s.protected > 0 {
        let text = format!("{} protected", grouped(s.protected as u64));
        facts.push((7, vec![(text, Role::Warn)]));
    }
    facts
}

fn sweep(s: &SweepView) -> Vec<(String, Role)> {
    let mut out = vec![label(&format!("{} ", s.kind))];
    if s.running && s.age >= WORTH_SHOWING {
        if s.expected > 0 {
            let share = f64::from(s.done) / f64::from(s.expected);
            out.push(plain(percent(share.min(1.0))));
        } else {
            out.push(plain(format!("{} read", grouped(u64::from(s.done)))));
        }
        out.push(label(&format!(" in {}", seconds(s.age))));
    } else if s.running && s.took.is_none() {
        out.push(plain("running"));
    } else {
        out.push(plain(if s.running {
            "<10s".to_owned()
        } else {
            coarse_age(s.age)
        }));
        out.push(label(" ago"));
    }
    if s.failed > 0 {
        out.push((
            format!(" {} failed", grouped(u64::from(s.failed))),
            Role::Warn,
        ));
    }
    out
}

fn sweeps(h: &HeaderView<'_>) -> Vec<Fact> {
    let rank = |s: &SweepView| match s.kind {
        SweepKind::Discovery if s.running => 0,
        SweepKind::Counters => 4,
        SweepKind::States => 5,
        SweepKind::Discovery => 6,
        SweepKind::Rediscovery => 12,
    };
    h.sweeps.iter().map(|s| (rank(s), sweep(s))).collect()
}

fn mads(h: &HeaderView<'_>, look: &Look) -> Vec<Fact> {
    // Fields keep their width, so that a changing number moves nothing else.
    let rate = |n: Num<f64>| match n.get() {
        Some(v) if v < 1000.0 => format!("{v:.0}"),
        Some(v) => si(v),
        None => look.glyphs.unknown.to_owned(),
    };
    let budget = |limit: u32| match limit {
        0 => "no limit".to_owned(),
        n if n.is_multiple_of(1000) && n < 1_000_000 => format!("{}k", n / 1000),
        n => si(f64::from(n)),
    };
    let in_flight = |(used, of): (usize, u16)| {
        let of = of.to_string();
        let used = pad_left(&used.to_string(), width(&of, look), look);
        plain(format!("{used}/{of}"))
    };
    let use_ = |(n, limit): (Num<f64>, u32)| {
        plain(format!("{}/{}", pad_left(&rate(n), 5, look), budget(limit)))
    };
    let count = |n: u64, what: &str, role: Role| {
        vec![
            (grouped(n), if n == 0 { Role::Label } else { role }),
            label(what),
        ]
    };
    vec![
        (
            10,
            vec![label("MAD/s "), plain(pad(&rate(h.mads_per_s), 5, look))],
        ),
        (
            10,
            vec![
                label("SMP "),
                in_flight(h.smp_in_flight),
                label(" in flight"),
                use_(h.smp_rate),
                label("/s"),
            ],
        ),
        (
            11,
            vec![
                label("GMP "),
                in_flight(h.gmp_in_flight),
                label(" in flight"),
                use_(h.gmp_rate),
                label("/s"),
            ],
        ),
        (
            if h.dropped > 0 { 1 } else { 13 },
            count(h.dropped, " lost", Role::Bad),
        ),
        (
            if h.malformed > 0 { 1 } else { 14 },
            count(h.malformed, " malformed", Role::Warn),
        ),
    ]
}

/// What is wrong with the view itself, the gravest first.
pub fn alerts(h: &HeaderView<'_>, around: &Around<'_>) -> Vec<(String, Role)> {
    let mut out = Vec::new();
    if let Told::Watch(watched) = around.told {
        match &watched.link {
            Link::Connected => {}
            Link::Reconnecting(why) => {
                out.push((format!("Reconnecting to the collector: {why}"), Role::Bad));
            }
            Link::Ended(why) => out.push((format!("Watching ended: {why}"), Role::Bad)),
        }
    }
    if let Some(why) = around.closed {
        out.push((format!("Session ended: {why}"), Role::Bad));
    }
    if let Some(why) = h.unrecorded {
        let mut text = why.to_owned();
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        out.push((text, Role::Bad));
    }
    if let Some((for_, why)) = h.gone {
        let text = format!("Device removed, waiting for it ({}): {why}", age(for_));
        out.push((text, Role::Bad));
    } else if let Some(local) = h.local {
        if local.state != 4 {
            let text = format!(
                "Local port {} port {} is {}: {}",
                local.ca,
                local.port,
                state_word(local.state),
                if local.state == 1 {
                    "no link, nothing can be read"
                } else {
                    "only directed-route SMPs get through"
                }
            );
            out.push((text, Role::Bad));
        } else if local.sm_lid == 0 {
            out.push((
                "No subnet manager is known to the local port".into(),
                Role::Bad,
            ));
        }
    }
    if let Some(sm) = &h.sm
        && sm.state != 3
    {
        let text = format!(
            "The SM at LID {} is {}, not Master",
            sm.lid,
            sm.state_name()
        );
        out.push((text, Role::Warn));
    }
    if h.dropped > 0 {
        let text = format!(
            "{} events were lost: what is shown may miss something",
            grouped(h.dropped)
        );
        out.push((text, Role::Bad));
    }
    // How a planarized adapter is, no fault: the title says it.
    for agent in h.refused.iter().filter(|a| !a.is_planarized()) {
        let why = agent.refused.as_deref().unwrap_or("refused");
        out.push((format!("No agent for {}: {why}", agent.agent), Role::Warn));
    }
    if let Some((kind, by)) = h.stretched {
        let text = format!(
            "Interval of {kind} stretched by {}: the sweep takes longer",
            seconds(by)
        );
        out.push((text, Role::Warn));
    }
    out
}

/// Draws the alerts, one a line; the last line counts those without one.
pub fn draw_alerts(area: Rect, buf: &mut Buffer, alerts: &[(String, Role)], look: &Look) {
    let room = usize::from(area.height);
    for (i, ((text, role), y)) in alerts.iter().zip(area.top()..area.bottom()).enumerate() {
        let mut left = area.width.saturating_sub(1);
        let more = match alerts.len() - i {
            rest if i + 1 == room && rest > 1 => format!(" (+{})", rest - 1),
            _ => String::new(),
        };
        left = left.saturating_sub(width(&more, look));
        let style = look.style(*role);
        let used = put(
            buf,
            (area.x + 1, y),
            left,
            &format!("! {text}"),
            style,
            look,
        );
        put(buf, (area.x + 1 + used, y), area.width, &more, style, look);
    }
}
