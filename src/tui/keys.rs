//! The one table of commands: what a key does, how it is called, where and when it works.
//!
//! Key handling, the footer and the help screen all read it, so that none can promise what
//! another does not hold. Replays and watchers have no row that sends anything.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmd {
    /// Show the Ports pane.
    Ports,
    /// Show the Traffic pane.
    Traffic,
    /// Show the Timeouts pane.
    Timeouts,
    /// Show the Alerts pane.
    Alerts,
    /// Show the next pane.
    NextPane,
    /// Show the previous pane.
    PreviousPane,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One screen up.
    PageUp,
    /// One screen down.
    PageDown,
    /// To the top.
    Home,
    /// To the end.
    End,
    /// Open the selected row.
    Open,
    /// Type a filter.
    Filter,
    /// Forget the filter, or leave what is open.
    Back,
    /// Sort by the column to the left.
    SortLeft,
    /// Sort by the column to the right.
    SortRight,
    /// Turn the order round.
    Reverse,
    /// Freeze the view, or let it go on.
    Pause,
    /// Show the event log.
    Log,
    /// Show the help.
    Help,
    /// Copy the selected row.
    Copy,
    /// Count errors from here on.
    Zero,
    /// Count errors from the session's beginning again.
    Unzero,
    /// The selected alert is known, or is not.
    Acknowledge,
    /// Read all counters now.
    ReadCounters,
    /// Discover the subnet again.
    Rediscover,
    /// Put a bookmark into the stream.
    Mark,
    /// Draw the screen anew.
    Redraw,
    /// Stop, and go on in the foreground later.
    Suspend,
    /// Leave what is open, else the program.
    Quit,
    /// Leave the program.
    QuitNow,
    /// Play or halt a recording.
    Play,
    /// Play it slower.
    Slower,
    /// Play it faster.
    Faster,
    /// One event further.
    StepEvent,
    /// One sweep further.
    StepSweep,
    /// Some way back.
    SeekBack,
    /// Some way forward.
    SeekForward,
    /// Far back.
    LeapBack,
    /// Far forward.
    LeapForward,
    /// Type where to go.
    Goto,
    /// To the next event.
    NextEvent,
    /// To the event before.
    PreviousEvent,
    /// To the next alert.
    NextAlert,
    /// To the alert before.
    PreviousAlert,
    /// To the next bookmark.
    NextBookmark,
    /// To the bookmark before.
    PreviousBookmark,
    /// Pass over stretches in which nothing happens, or not.
    SkipIdle,
    /// Remember this moment of a recording.
    Bookmark,
    /// A path begins at the selected port.
    PathFrom,
    /// A path ends at the selected port.
    PathTo,
    /// The next of the LIDs of a path's end.
    PathBits,
    /// Who is reached by the selected port.
    Uses,
    /// Show the SMs and the SA.
    Sa,
    /// Read again what the page shows.
    ReadAgain,
}

/// What is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// A pane.
    Pane = 1,
    /// The event log.
    Log = 2,
    /// A port's detail.
    Detail = 4,
    /// The help.
    Help = 8,
    /// A page: a path, who is reached by a port, the SMs and the SA.
    Page = 16,
}

/// What kind of session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A fabric behind this program's own port.
    Live = 1,
    /// A recording.
    Replay = 2,
    /// Another program's session, read-only.
    Watch = 4,
}

/// A row of the table.
#[derive(Debug)]
pub struct Binding {
    /// The keys that do it.
    pub keys: &'static [(KeyCode, KeyModifiers)],
    /// How the keys are written.
    pub shown: &'static str,
    /// What they do, in a word or two.
    pub name: &'static str,
    /// What they do, in a sentence.
    pub help: &'static str,
    /// What is done.
    pub cmd: Cmd,
    /// Where it works: a set of [`Scope`].
    scopes: u8,
    /// When it works: a set of [`Kind`].
    kinds: u8,
    /// Place in the footer, the lowest first; `None` = in the help only.
    pub footer: Option<u8>,
}

impl Binding {
    /// True if it works there and then.
    pub const fn works(&self, scope: Scope, kind: Kind) -> bool {
        self.scopes & scope as u8 != 0 && self.kinds & kind as u8 != 0
    }

    /// True if it works in sessions of this kind, somewhere.
    pub const fn is_for(&self, kind: Kind) -> bool {
        self.kinds & kind as u8 != 0
    }
}

const PANE: u8 = Scope::Pane as u8;
const LOG: u8 = Scope::Log as u8;
const DETAIL: u8 = Scope::Detail as u8;
const HELP: u8 = Scope::Help as u8;
const PAGE: u8 = Scope::Page as u8;
const OVER: u8 = LOG | DETAIL | HELP | PAGE;
const EVERYWHERE: u8 = PANE | OVER;
const LIVE: u8 = Kind::Live as u8;
const REPLAY: u8 = Kind::Replay as u8;
/// Sessions that go on by themselves.
const NOW: u8 = LIVE | Kind::Watch as u8;
const ALWAYS: u8 = LIVE | REPLAY | Kind::Watch as u8;

/// The help tells it with its counterpart, which shows both keys.
pub const BESIDE: &str = "";

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const fn ch(c: char) -> (KeyCode, KeyModifiers) {
    (KeyCode::Char(c), NONE)
}
const fn key(code: KeyCode) -> (KeyCode, KeyModifiers) {
    (code, NONE)
}
const fn ctrl(c: char) -> (KeyCode, KeyModifiers) {
    (KeyCode::Char(c), CTRL)
}

macro_rules! bindings {
    ($($cmd:ident $shown:literal [$($key:expr),+] $scopes:expr, $kinds:expr, $footer:expr,
       $name:literal: $help:expr;)*) => {
        /// Every command, in the order of the help screen.
        pub const BINDINGS: &[Binding] = &[$(Binding {
            keys: &[$($key),+],
            shown: $shown,
            name: $name,
            help: $help,
            cmd: Cmd::$cmd,
            scopes: $scopes,
            kinds: $kinds,
            footer: $footer,
        }),*];
    };
}

bindings! {
    Quit "q" [ch('q')] EVERYWHERE, ALWAYS, Some(9),
        "quit": "leave what is open; from a pane, leave fabtop";
    QuitNow "Ctrl-C" [ctrl('c')] EVERYWHERE, ALWAYS, None,
        "quit now": "leave fabtop from anywhere";
    Help "?" [ch('?'), key(KeyCode::F(1))] EVERYWHERE, ALWAYS, Some(8),
        "help": "show or hide this list";
    Ports "1" [ch('1')] EVERYWHERE, ALWAYS, None,
        "ports": "pane Ports: every port, its state, its link, its errors";
    Traffic "2" [ch('2')] EVERYWHERE, ALWAYS, None,
        "traffic": "pane Traffic: rates of every link against what it can carry";
    Timeouts "3" [ch('3')] EVERYWHERE, ALWAYS, None,
        "timeouts": "pane Timeouts: requests in flight, and who answers how well";
    Alerts "4" [ch('4')] EVERYWHERE, ALWAYS, None,
        "alerts": "pane Alerts: what is above its threshold, missing, or not as it should be";
    NextPane "Tab" [key(KeyCode::Tab)] PANE, ALWAYS, Some(4),
        "next pane": "show the next pane";
    PreviousPane "Shift-Tab" [key(KeyCode::BackTab)] PANE, ALWAYS, None,
        "previous pane": "show the previous pane";
    Up "Up k" [key(KeyCode::Up), ch('k')] EVERYWHERE, ALWAYS, None,
        "up": "one row up";
    Down "Down j" [key(KeyCode::Down), ch('j')] EVERYWHERE, ALWAYS, None,
        "down": "one row down";
    PageUp "PgUp" [key(KeyCode::PageUp), ctrl('b')] EVERYWHERE, ALWAYS, None,
        "page up": "one screen up";
    PageDown "PgDn" [key(KeyCode::PageDown), ctrl('f')] EVERYWHERE, ALWAYS, None,
        "page down": "one screen down";
    Home "Home g" [key(KeyCode::Home), ch('g')] EVERYWHERE, NOW, None,
        "top": "to the top, and stay there whatever comes";
    Home "Home" [key(KeyCode::Home)] EVERYWHERE, REPLAY, None,
        "top": "to the top, and stay there whatever comes";
    End "End G" [key(KeyCode::End), ch('G')]
        EVERYWHERE, ALWAYS, None,
        "end": "to the end; in the event log, follow what comes";
    Open "Enter" [key(KeyCode::Enter)] PANE | LOG, ALWAYS, Some(3),
        "detail": "everything about the selected port and the other end of its link";
    Filter "/" [ch('/')] PANE | LOG, ALWAYS, Some(1),
        "filter": "show only rows that hold all words: name, 0xGUID, LID, port, peer, state, flag; ! before a word excludes it";
    Back "Esc" [key(KeyCode::Esc)] EVERYWHERE, ALWAYS, None,
        "back": "leave what is open; in a pane, forget the filter";
    SortLeft "<" [ch('<'), ch(',')] PANE, NOW, None,
        "sort left": BESIDE;
    SortRight "< >" [ch('>'), ch('.')]
        PANE, NOW, Some(2),
        "sort": "sort by the column to the left, to the right";
    SortLeft "<" [ch('<')] PANE, REPLAY, None,
        "sort left": BESIDE;
    SortRight "< >" [ch('>')] PANE, REPLAY, Some(2),
        "sort": "sort by the column to the left, to the right";
    Reverse "r" [ch('r')] PANE, ALWAYS, None,
        "reverse": "turn the order round";
    Pause "p" [ch('p')] EVERYWHERE, LIVE | Kind::Watch as u8, Some(5),
        "pause": "hold the view still; what comes in is kept and shown when you go on";
    Log "e" [ch('e')] EVERYWHERE, ALWAYS, Some(6),
        "events": "show or hide the event log";
    PathFrom "f" [ch('f')] PANE | DETAIL, ALWAYS, None,
        "path from": "a path begins at this port: press t on the other end to see it";
    PathTo "t" [ch('t')] PANE | DETAIL, ALWAYS, None,
        "path to": "a path leads to this port: the way by the forwarding tables, hop by hop";
    PathBits "l" [ch('l')] PAGE, ALWAYS, None,
        "next LID": "on a path: the next of the LIDs that its end has (LMC)";
    Uses "u" [ch('u')] PANE | DETAIL, ALWAYS, None,
        "who uses it": "the destinations that are reached by this port";
    Sa "s" [ch('s')] EVERYWHERE, ALWAYS, None,
        "SM and SA": "every subnet manager, the SA's tables, and where they differ from discovery";
    ReadAgain "R" [ch('R')] PAGE, LIVE, Some(6),
        "read again": "on a path or its like: read its tables again; of the SA, all of them";
    Copy "y" [ch('y')] PANE | LOG, ALWAYS, None,
        "copy": "copy the selected row to the terminal's clipboard (OSC 52)";
    Zero "z" [ch('z')] PANE | DETAIL, ALWAYS, None,
        "zero": "count errors from now on, on this screen only: no counter of the fabric is changed";
    Unzero "Z" [ch('Z')] PANE | DETAIL, ALWAYS, None,
        "unzero": "count errors from the beginning of the session again";
    Acknowledge "a" [ch('a')] PANE, NOW, None,
        "acknowledge": "in Alerts: you know of the selected alert, or take that back; on this screen only";
    Acknowledge "x" [ch('x')] PANE, REPLAY, None,
        "acknowledge": "in Alerts: you know of the selected alert, or take that back; on this screen only";
    ReadCounters "c" [ch('c')] EVERYWHERE, LIVE, None,
        "counters": "read all counters now, within the budget";
    Rediscover "D" [ch('D')] EVERYWHERE, LIVE, None,
        "discover": "discover the whole subnet again, within the budget";
    Mark "b" [ch('b')] EVERYWHERE, LIVE, None,
        "bookmark": "put a bookmark into the event stream";
    Play "Space" [ch(' ')] EVERYWHERE, REPLAY, Some(0),
        "play": "halt or play the recording; at its end, play it again";
    SeekBack "Left" [key(KeyCode::Left)] EVERYWHERE, REPLAY, None,
        "seek": BESIDE;
    SeekForward "Left Right" [key(KeyCode::Right)] EVERYWHERE, REPLAY, Some(3),
        "seek": "ten seconds back, forward";
    LeapBack "{" [ch('{')] EVERYWHERE, REPLAY, None,
        "leap back": "a minute back";
    LeapForward "}" [ch('}')] EVERYWHERE, REPLAY, None,
        "leap": "a minute forward";
    Goto "g" [ch('g')] EVERYWHERE, REPLAY, Some(5),
        "go to": "type where to go: +5m and -30s from here, 40%, 12:30:00, or 1h30m from the start";
    NextEvent "n" [ch('n')] EVERYWHERE, REPLAY, Some(4),
        "next event": "to the next event of the timeline";
    PreviousEvent "N" [ch('N')] EVERYWHERE, REPLAY, None,
        "previous event": "to the event before";
    NextAlert "a" [ch('a')] EVERYWHERE, REPLAY, Some(6),
        "alert": "to the next alert: something that asks for a look";
    PreviousAlert "A" [ch('A')] EVERYWHERE, REPLAY, None,
        "previous alert": "to the alert before";
    NextBookmark "m" [ch('m')] EVERYWHERE, REPLAY, None,
        "next bookmark": "to the next bookmark";
    PreviousBookmark "M" [ch('M')] EVERYWHERE, REPLAY, None,
        "previous bookmark": "to the bookmark before";
    Slower "-" [ch('-'), ch('[')] EVERYWHERE, REPLAY, None,
        "slower": "one step slower, down to 0.1 times real time";
    Faster "+" [ch('+'), ch('='), ch(']')] EVERYWHERE, REPLAY, Some(7),
        "faster": "one step faster, up to 1000 times real time";
    StepEvent "." [ch('.')] EVERYWHERE, REPLAY, None,
        "step": "halt, and show one more event of the stream: a MAD, a timeout";
    StepSweep "," [ch(',')] EVERYWHERE, REPLAY, None,
        "sweep": "halt, and show everything up to the end of the next sweep";
    SkipIdle "i" [ch('i')] EVERYWHERE, REPLAY, None,
        "skip idle": "pass over stretches in which nothing happens, or play them too";
    Bookmark "b" [ch('b')] EVERYWHERE, REPLAY, None,
        "bookmark": "remember this moment until the replay ends; the file stays as it is";
    Redraw "Ctrl-L" [ctrl('l')] EVERYWHERE, ALWAYS, None,
        "redraw": "draw the whole screen anew";
    Suspend "Ctrl-Z" [ctrl('z')] EVERYWHERE, ALWAYS, None,
        "suspend": "back to the shell; fg brings fabtop back";
}

/// What `event` asks for, there and then.
pub fn command(event: &KeyEvent, scope: Scope, kind: Kind) -> Option<Cmd> {
    // Terminals disagree on whether a capital letter, or the key for Shift-Tab, says Shift.
    let pressed = match event.code {
        KeyCode::Char(_) | KeyCode::BackTab => (event.code, event.modifiers - KeyModifiers::SHIFT),
        _ => (event.code, event.modifiers),
    };
    BINDINGS
        .iter()
        .filter(|b| b.works(scope, kind))
        .find(|b| b.keys.contains(&pressed))
        .map(|b| b.cmd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_at_once() {
        for scope in [
            Scope::Pane,
            Scope::Log,
            Scope::Detail,
            Scope::Help,
            Scope::Page,
        ] {
            for kind in [Kind::Live, Kind::Replay, Kind::Watch] {
                let mut seen = Vec::new();
                for b in BINDINGS.iter().filter(|b| b.works(scope, kind)) {
                    for key in b.keys {
                        assert!(!seen.contains(key), "{key:?} in {scope:?}, {kind:?}");
                        seen.push(*key);
                    }
                }
            }
        }
    }

    #[test]
    fn every_command_is_reached_by_its_own_keys() {
        for b in BINDINGS {
            assert!(!b.shown.is_empty());
            let told = |other: &Binding| {
                other.shown.split(' ').any(|key| key == b.shown) && other.help != BESIDE
            };
            assert!(b.help != BESIDE || BINDINGS.iter().any(told), "{}", b.shown);
            for (code, modifiers) in b.keys {
                let found = [
                    Scope::Pane,
                    Scope::Log,
                    Scope::Detail,
                    Scope::Help,
                    Scope::Page,
                ]
                .into_iter()
                .flat_map(|s| [Kind::Live, Kind::Replay, Kind::Watch].map(|k| (s, k)))
                .filter(|(s, k)| b.works(*s, *k))
                .all(|(s, k)| command(&KeyEvent::new(*code, *modifiers), s, k) == Some(b.cmd));
                assert!(found, "{}", b.shown);
            }
        }
    }

    #[test]
    fn only_a_live_console_has_keys_that_send() {
        for b in BINDINGS {
            if matches!(
                b.cmd,
                Cmd::ReadCounters | Cmd::Rediscover | Cmd::Mark | Cmd::ReadAgain
            ) {
                assert!(b.is_for(Kind::Live));
                assert!(!b.is_for(Kind::Replay) && !b.is_for(Kind::Watch));
            }
        }
    }
}
