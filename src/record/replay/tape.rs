//! The files that are played: one after another, as one stream on one timeline.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::Moment;
use super::marks::MarkKind;
use super::places::{Place, Places};
use crate::event::{Event, What};
use crate::record::{Problem, Problems, Reader, Seeker};

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

/// A reader, whether it begins with a file or in the midst of one.
trait Recorded: Iterator<Item = Event> + Send {
    fn problems(&self) -> &Problems;
}

impl<R: Read + Send> Recorded for Reader<R> {
    fn problems(&self) -> &Problems {
        Reader::problems(self)
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Recorded>> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok(Box::new(Reader::new(file)))
}

/// Whether a file's name says that it is compressed: it only changes how far is far.
fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "zst")
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    start: Moment,
    /// Bytes of those before it, in the terms of [`Place::bytes`].
    before: u64,
    /// Where its keyframes are, once it was looked through.
    seeker: Option<Arc<Seeker>>,
}

/// What all readers of the same files share.
#[derive(Debug, Default)]
struct Table {
    parts: Vec<Part>,
    places: Places,
}

/// What an index tells of files.
#[derive(Debug)]
pub struct Look {
    /// When the last event was.
    pub end: Option<Moment>,
    /// Moments worth going to, in order of time.
    pub marks: Vec<(Moment, MarkKind, String)>,
    /// These are all there are; else the files have to be read for them.
    pub marked: bool,
}

/// Recordings in order of time.
pub struct Files {
    table: Arc<Mutex<Table>>,
    /// The part that is read.
    at: usize,
    reader: Option<Box<dyn Recorded>>,
    /// Standard input: no part of it can be read again.
    piped: bool,
    session: Session,
    /// Read, but not yet handed out.
    queued: Option<Event>,
    /// Moment of the last event handed out.
    last: Moment,
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
    /// Whether an event repeats the opening of the session that is read.
    fn is_repeated(&self, event: &Event) -> bool {
        match (&event.what, &self.of) {
            (What::Opened(new), Some((wall, host))) => new.wall == *wall && new.host == *host,
            _ => false,
        }
    }

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
            let mut reader = open(path).map_err(|cause| ReplayError::Open {
                path: path.clone(),
                cause,
            })?;
            let Some(first) = reader.next() else {
                return Err(ReplayError::Empty {
                    path: path.clone(),
                    first: reader.problems().list().first().cloned(),
                });
            };
            let opens = matches!(first.what, What::Opened(_)) && first.seq == 0;
            let len = std::fs::metadata(path).map_or(0, |m| m.len());
            // A rotated file begins with the session's opening, too, but with another number.
            let number = first.seq;
            let start = Session::default().place(first).moment;
            parts.push(((start, number), path.clone(), opens, len));
        }
        parts.sort_by_key(|(order, ..)| *order);
        let mut table = Table::default();
        let mut before = 0;
        for (number, ((start, _), path, opens, len)) in parts.into_iter().enumerate() {
            if opens || number == 0 {
                table.places.add(Place {
                    part: number,
                    moment: start,
                    bytes: before,
                    opens,
                    keyframe: false,
                });
            }
            let compressed = is_compressed(&path);
            table.parts.push(Part {
                path,
                start,
                before,
                seeker: None,
            });
            before += Place::weigh(len, compressed);
        }
        Ok(Files::of(Arc::new(Mutex::new(table))))
    }

    fn of(table: Arc<Mutex<Table>>) -> Files {
        Files {
            table,
            at: 0,
            reader: None,
            piped: false,
            session: Session::default(),
            queued: None,
            last: Moment::default(),
            problems: Vec::new(),
        }
    }

    /// Plays what comes through a pipe.
    pub fn piped(input: impl Read + Send + 'static) -> Files {
        Files {
            reader: Some(Box::new(Reader::new(input))),
            piped: true,
            ..Files::of(Arc::default())
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the first event was, if that is known before reading it.
    pub fn start(&self) -> Option<Moment> {
        self.table().parts.first().map(|part| part.start)
    }

    /// Another reader of the same files, from their beginning; `None` for a pipe.
    pub fn again(&self) -> Option<Files> {
        (!self.piped).then(|| Files::of(Arc::clone(&self.table)))
    }

    #[cfg(test)]
    pub fn set_budget(&self, budget: u64) {
        self.table().places.set_budget(budget);
    }

    /// Looks where the keyframes are, for all readers of these files, and what else an index
    /// tells. Compressed files with one take no time, others are read once.
    pub fn look_through(&self) -> Look {
        let count = self.table().parts.len();
        let mut look = Look {
            end: None,
            marks: Vec::new(),
            marked: count > 0,
        };
        for number in 0..count {
            let (path, before) = match self.table().parts.get(number) {
                Some(part) => (part.path.clone(), part.before),
                None => break,
            };
            // What cannot be read is named by who plays it.
            let Ok(seeker) = Seeker::open(&path) else {
                look.marked = false;
                continue;
            };
            look.end = look.end.max(seeker.range().map(|(_, to)| Moment(to)));
            let (marks, all) = seeker.marks();
            look.marked &= all;
            if look.marked {
                look.marks.extend(marks.iter().filter_map(|m| {
                    let kind = MarkKind::named(&m.kind)?;
                    Some((Moment(m.wall), kind, m.text.clone()))
                }));
            }
            let compressed = is_compressed(&path);
            let mut table = self.table();
            for point in seeker.points() {
                table.places.add(Place {
                    part: number,
                    moment: Moment(point.wall),
                    bytes: before + Place::weigh(point.offset, compressed),
                    opens: false,
                    keyframe: true,
                });
            }
            if let Some(part) = table.parts.get_mut(number) {
                part.seeker = Some(Arc::new(seeker));
            }
        }
        look
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

    fn close(&mut self) {
        let name = self
            .table()
            .parts
            .get(self.at)
            .map(|part| part.path.clone());
        if let Some(reader) = self.reader.take() {
            for problem in reader.problems().list() {
                self.note(name.clone(), problem);
            }
        }
    }
}

impl Files {
    /// The next event of this part or the next one.
    fn read(&mut self) -> Option<Event> {
        loop {
            if let Some(reader) = &mut self.reader {
                if let Some(event) = reader.next() {
                    return Some(event);
                }
                self.close();
                self.at += 1;
            }
            // A pipe has no parts.
            let path = self.table().parts.get(self.at)?.path.clone();
            match open(&path) {
                Ok(reader) => self.reader = Some(reader),
                Err(e) => {
                    self.note(Some(path), &e);
                    self.at += 1;
                }
            }
        }
    }

    /// A rotated file begins with what is known already if the one before it was read: all of
    /// it has the number of the first event that is news.
    fn pass_keyframe(&mut self, opening: Event) -> Event {
        let mut last = opening;
        while let Some(event) = self.reader.as_mut().and_then(Iterator::next) {
            if event.seq != last.seq {
                self.queued = Some(event);
                break;
            }
            last = event;
        }
        last
    }
}

impl Tape for Files {
    fn next(&mut self) -> Option<Played> {
        let mut event = match self.queued.take() {
            Some(event) => event,
            None => self.read()?,
        };
        if self.session.is_repeated(&event) {
            event = self.pass_keyframe(event);
        }
        let played = self.session.place(event);
        self.last = self.last.max(played.moment);
        Some(played)
    }

    fn rewind(&mut self, to: Moment) -> bool {
        if self.piped {
            return false;
        }
        self.close();
        let (part, seeker) = {
            let table = self.table();
            let place = table.places.best(to);
            let part = place.map_or(0, |p| p.part);
            let resumed = place.filter(|p| p.keyframe).and_then(|p| {
                let seeker = table.parts.get(part)?.seeker.as_ref()?;
                Some((Arc::clone(seeker), p.moment))
            });
            (part, resumed)
        };
        self.at = part;
        if let Some((seeker, moment)) = seeker
            && let Ok(reader) = seeker.resume(moment.0)
        {
            self.reader = Some(Box::new(reader));
        }
        self.queued = None;
        self.last = Moment::default();
        self.session = Session {
            fresh: true,
            ..Session::default()
        };
        true
    }

    fn is_behind(&self, to: Moment) -> bool {
        !self.piped && self.table().places.is_far(self.last, to)
    }

    fn can_rewind(&self) -> bool {
        !self.piped
    }

    fn problems(&self) -> Vec<String> {
        self.problems.clone()
    }
}
