//! The files that are played: one after another, as one stream on one timeline.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::clock::Moment;
use crate::event::{Event, What};
use crate::record::{Problem, Reader, Seeker, last_wall};

/// An event and its place on the timeline.
#[derive(Clone, Debug)]
pub struct Played {
    /// When, on the timeline.
    pub moment: Moment,
    /// What was recorded.
    pub event: Event,
    /// It opens another session than the one before it: what was folded no longer holds.
    pub fresh: bool,
}

/// Something that yields recorded events in order.
pub trait Tape: Send {
    /// The next event.
    fn next(&mut self) -> Option<Played>;

    /// Goes back (or on) to where reading must begin so that the state at `to` can be folded;
    /// false if this tape only runs forward. What comes next is `fresh`.
    fn rewind(&mut self, to: Moment) -> bool;

    /// Whether [`Tape::rewind`] leads to `to` with less reading than going on.
    fn is_behind(&self, to: Moment) -> bool {
        let _ = to;
        false
    }

    /// Whether [`Tape::rewind`] works.
    fn can_rewind(&self) -> bool;

    /// What could not be read, so far.
    fn problems(&self) -> Vec<String>;
}

/// Why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be opened or read.
    #[error("cannot read {}: {cause}", path.display())]
    Open {
        /// Which one.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// There is nothing in it.
    #[error("{} holds no event that can be read: is it a recording or a capture of MADs?{}",
        path.display(), first.as_ref().map_or(String::new(), |p| format!(" ({p})")))]
    Empty {
        /// Which one.
        path: PathBuf,
        /// The first thing that was wrong with it.
        first: Option<Problem>,
    },
    /// Standard input beside other files.
    #[error("`-` (standard input) cannot be played together with other files")]
    Mixed,
    /// No file was named.
    #[error("no recording was named")]
    Nothing,
    /// The reading thread could not be started.
    #[error("cannot start the reading thread: {0}")]
    Thread(io::Error),
}

type Input = Box<dyn Read + Send>;

fn open(path: &Path) -> io::Result<Input> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok(Box::new(file))
}

#[derive(Clone, Debug)]
struct Part {
    path: PathBuf,
    start: Moment,
    /// It begins with a session's first event, so reading may begin with it.
    opens: bool,
    /// Where its keyframes are, once somebody asked; `None` if that cannot be found out.
    seeker: Arc<OnceLock<Option<Seeker>>>,
}

impl Part {
    fn seeker(&self) -> Option<&Seeker> {
        self.seeker
            .get_or_init(|| Seeker::open(&self.path).ok())
            .as_ref()
    }
}

/// Where reading begins so that the state at some moment can be folded.
struct Begin {
    part: usize,
    /// The keyframe's wall time; `None` for the part's beginning.
    keyframe: Option<u64>,
    moment: Moment,
}

/// Recordings in order of time.
pub struct Files {
    parts: Vec<Part>,
    /// The part that is read.
    at: usize,
    reader: Option<Reader<Input>>,
    /// Standard input: no part of it can be read again.
    piped: bool,
    session: Session,
    /// The latest moment that was read.
    reached: Moment,
    problems: Vec<String>,
}

/// Where events lie on the timeline.
#[derive(Debug, Default)]
struct Session {
    /// Opening time and host of the session.
    of: Option<(i64, String)>,
    anchor: u64,
    fresh: bool,
}

impl Session {
    fn place(&mut self, event: Event) -> Played {
        if let What::Opened(opened) = &event.what {
            let of = (opened.wall, opened.host.clone());
            // A rotated file repeats the opening of its session.
            if self.of.as_ref() != Some(&of) {
                self.fresh = true;
                self.anchor = u64::try_from(opened.wall).unwrap_or(0);
                self.of = Some(of);
            }
        }
        Played {
            moment: Moment(self.anchor.saturating_add(event.at.0)),
            event,
            fresh: std::mem::take(&mut self.fresh),
        }
    }
}

impl Files {
    /// The most problems that are kept.
    const MAX_PROBLEMS: usize = 200;

    /// Opens recordings and puts them in order of time. `-` alone is standard input.
    ///
    /// # Errors
    /// A file cannot be opened, or holds nothing.
    pub fn open(paths: &[PathBuf]) -> Result<Files, ReplayError> {
        let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
        match paths {
            [] => return Err(ReplayError::Nothing),
            [one] if is_stdin(one) => return Ok(Files::piped(io::stdin())),
            several if several.iter().any(is_stdin) => return Err(ReplayError::Mixed),
            _ => {}
        }
        let mut parts = Vec::with_capacity(paths.len());
        for path in paths {
            let input = open(path).map_err(|cause| ReplayError::Open {
                path: path.clone(),
                cause,
            })?;
            let mut reader = Reader::new(input);
            let Some(first) = reader.next() else {
                return Err(ReplayError::Empty {
                    path: path.clone(),
                    first: reader.problems().list().first().cloned(),
                });
            };
            let opens = matches!(first.what, What::Opened(_)) && first.seq == 0;
            parts.push(Part {
                path: path.clone(),
                start: Session::default().place(first).moment,
                opens,
                seeker: Arc::default(),
            });
        }
        parts.sort_by_key(|part| part.start);
        Ok(Files {
            parts,
            at: 0,
            reader: None,
            piped: false,
            session: Session::default(),
            reached: Moment::default(),
            problems: Vec::new(),
        })
    }

    /// Plays what comes through a pipe.
    pub fn piped(input: impl Read + Send + 'static) -> Files {
        Files {
            parts: Vec::new(),
            at: 0,
            reader: Some(Reader::new(Box::new(input))),
            piped: true,
            session: Session::default(),
            reached: Moment::default(),
            problems: Vec::new(),
        }
    }

    /// When the first event was, if that is known before reading it.
    pub fn start(&self) -> Option<Moment> {
        self.parts.first().map(|part| part.start)
    }

    /// Another reader of the same files, from their beginning; `None` for a pipe.
    pub fn again(&self) -> Option<Files> {
        (!self.piped).then(|| Files {
            parts: self.parts.clone(),
            at: 0,
            reader: None,
            piped: false,
            session: Session::default(),
            reached: Moment::default(),
            problems: Vec::new(),
        })
    }

    fn note(&mut self, name: Option<PathBuf>, what: &dyn std::fmt::Display) {
        if self.problems.len() < Files::MAX_PROBLEMS {
            let name = name.map_or_else(|| "-".into(), |p| p.display().to_string());
            let text = format!("{name}: {what}");
            // The same file may be read several times.
            if !self.problems.contains(&text) {
                self.problems.push(text);
            }
        }
    }

    /// When the last event was, if the files tell without being read.
    pub fn end(&self) -> Option<Moment> {
        let last = |part: &Part| last_wall(&part.path).ok().flatten();
        let ends: Option<Vec<u64>> = self.parts.iter().map(last).collect();
        ends?.into_iter().max().map(Moment)
    }

    /// The last keyframe or opening at or before `to`: what came before it does not matter.
    fn begin_for(&self, to: Moment) -> Begin {
        let begun = self.parts.iter().rposition(|part| part.start <= to);
        let before = self.parts.get(..=begun.unwrap_or(0)).unwrap_or_default();
        for (number, part) in before.iter().enumerate().rev() {
            let point = part.seeker().and_then(|s| s.point_before(to.0));
            if let Some(point) = point {
                return Begin {
                    part: number,
                    keyframe: Some(point.wall),
                    moment: Moment(point.wall),
                };
            }
            if part.opens {
                return Begin {
                    part: number,
                    keyframe: None,
                    moment: part.start,
                };
            }
        }
        Begin {
            part: 0,
            keyframe: None,
            moment: Moment::default(),
        }
    }

    fn place(&mut self, event: Event) -> Played {
        let played = self.session.place(event);
        self.reached = self.reached.max(played.moment);
        played
    }

    fn close(&mut self) {
        let name = self.parts.get(self.at).map(|part| part.path.clone());
        if let Some(reader) = self.reader.take() {
            for problem in reader.problems().list() {
                self.note(name.clone(), problem);
            }
        }
    }
}

impl Tape for Files {
    fn next(&mut self) -> Option<Played> {
        loop {
            if let Some(reader) = &mut self.reader {
                if let Some(event) = reader.next() {
                    return Some(self.place(event));
                }
                self.close();
                self.at += 1;
            }
            // A pipe has no parts.
            let part = self.parts.get(self.at)?;
            match open(&part.path) {
                Ok(input) => self.reader = Some(Reader::new(input)),
                Err(e) => {
                    let name = part.path.clone();
                    self.note(Some(name), &e);
                    self.at += 1;
                }
            }
        }
    }

    fn rewind(&mut self, to: Moment) -> bool {
        if self.piped {
            return false;
        }
        self.close();
        let begin = self.begin_for(to);
        self.at = begin.part;
        self.reader = begin.keyframe.and_then(|wall| {
            let seeker = self.parts.get(begin.part)?.seeker()?;
            seeker.resume(wall).ok()
        });
        self.reached = begin.moment;
        self.session = Session {
            fresh: true,
            ..Session::default()
        };
        true
    }

    fn is_behind(&self, to: Moment) -> bool {
        let begin = self.begin_for(to);
        begin.part > self.at || begin.part == self.at && begin.moment > self.reached
    }

    fn can_rewind(&self) -> bool {
        !self.piped
    }

    fn problems(&self) -> Vec<String> {
        self.problems.clone()
    }
}
