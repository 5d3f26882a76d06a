//! Reading from the midst of a recording: where its keyframes are.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::frame::{Payload, payload};
use super::reader::{Problems, Reader};
use super::replay::MAX_MARKS;
use super::zst::{self, IndexMark, Placed};

/// A place where reading may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekPoint {
    /// Wall time of the keyframe, nanoseconds since the Unix epoch, as packets count it: the
    /// opening's wall time and the session's time since.
    pub wall: u64,
    /// Where its bytes begin in the file.
    pub offset: u64,
}

/// Finds the keyframes of a file, without inflating it where it is compressed.
#[derive(Debug)]
pub struct Seeker {
    path: PathBuf,
    compressed: bool,
    points: Vec<SeekPoint>,
    marks: Vec<IndexMark>,
    /// `marks` are all there are.
    marked: bool,
    range: Option<(u64, u64)>,
}

impl Seeker {
    /// Looks through a recording. A compressed one is read from its end, a few bytes of each
    /// stretch; an uncompressed one is read once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> io::Result<Seeker> {
        let mut file = File::open(path)?;
        let mut magic = Vec::new();
        (&mut file).take(4).read_to_end(&mut magic)?;
        let mut seeker = Seeker {
            path: path.to_owned(),
            compressed: magic == zst::MAGIC,
            points: Vec::new(),
            marks: Vec::new(),
            marked: false,
            range: None,
        };
        if seeker.compressed {
            seeker.scan_frames(&mut file)?;
        } else {
            file.seek(SeekFrom::Start(0))?;
            seeker.scan_blocks(file);
        }
        Ok(seeker)
    }

    fn scan_frames(&mut self, file: &mut File) -> io::Result<()> {
        self.marked = true;
        if zst::index(file, &mut |frame, version| self.frame(frame, version))? {
            self.points.reverse();
            self.marks.reverse();
            return Ok(());
        }
        // After a crash, or of another program.
        self.points.clear();
        self.marks.clear();
        self.marked = true;
        let described = zst::scan(file, &mut |frame, version| self.frame(frame, version))?;
        self.marked &= described && self.range.is_some();
        self.marks.sort_by_key(|m| m.wall);
        Ok(())
    }

    /// Of a file's many frames only those that are worth it are remembered.
    fn frame(&mut self, frame: Placed, version: u32) {
        let Placed { offset, entry } = frame;
        self.reach(entry.from);
        self.reach(entry.to);
        self.marked &= version >= zst::VERSION;
        self.marks.extend(entry.marks.into_iter().rev());
        if self.marks.len() > 2 * MAX_MARKS {
            self.thin();
        }
        if entry.key {
            let wall = entry.from;
            self.points.push(SeekPoint { wall, offset });
        }
    }

    fn scan_blocks(&mut self, file: File) {
        let mut problems = Problems::default();
        super::reader::each_packet(file, &mut problems, |packet| {
            if !packet.keyframe {
                self.reach(packet.nanos);
            } else if let Payload::Json(text) = payload(packet.link, packet.data)
                && text.starts_with(b"{\"keyframe\":")
            {
                self.points.push(SeekPoint {
                    wall: packet.nanos,
                    offset: packet.offset,
                });
            }
        });
    }

    fn reach(&mut self, wall: u64) {
        let (from, to) = self.range.unwrap_or((wall, wall));
        self.range = Some((from.min(wall), to.max(wall)));
    }

    /// Wall times of the first and the last event, as packets count them.
    pub fn range(&self) -> Option<(u64, u64)> {
        self.range
    }

    /// Where reading may begin besides the beginning.
    pub fn points(&self) -> &[SeekPoint] {
        &self.points
    }

    /// Keeps half of the marks that are the least.
    fn thin(&mut self) {
        for least in ["event", "alert"] {
            let mut odd = false;
            self.marks.retain(|m| {
                odd ^= m.kind == least;
                m.kind != least || odd
            });
            if self.marks.len() <= MAX_MARKS {
                return;
            }
        }
        self.marks.truncate(MAX_MARKS);
    }

    /// What a timeline marks, of compressed recordings, and whether that is all of it: files
    /// without an index, of a crash or of an older version have to be read for theirs.
    pub fn marks(&self) -> (&[IndexMark], bool) {
        (&self.marks, self.marked)
    }

    /// A reader that begins with the last keyframe at or before `wall`, or with the file. What
    /// it yields first brings a new model to the keyframe's moment; then the stream follows.
    ///
    /// # Errors
    /// The file cannot be opened again.
    pub fn resume(&self, wall: u64) -> io::Result<Reader<Box<dyn Read + Send>>> {
        let mut file = File::open(&self.path)?;
        let Some(point) = self.point_before(wall) else {
            return Ok(Reader::new(Box::new(file)));
        };
        file.seek(SeekFrom::Start(point.offset))?;
        let base = if self.compressed { 0 } else { point.offset };
        Ok(Reader::resume(Box::new(file), base))
    }

    /// The last keyframe at or before `wall`.
    pub fn point_before(&self, wall: u64) -> Option<SeekPoint> {
        self.points.iter().rev().find(|p| p.wall <= wall).copied()
    }
}
