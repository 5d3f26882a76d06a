//! Where a recording's bytes go: one file, several in turn, or a pipe.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::file::{self, Existing, OpenError};

/// How large a recording may grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a file, give or take a second's worth; but at least twice what a file begins
    /// with so as to replay alone.
    pub max_size: Option<u64>,
    /// What to do then: begin another file and keep so many of them, or (`None`) stop. Files are
    /// numbered: `fabric-0001.pcapng` and so on, and each replays alone.
    pub keep: Option<u32>,
}

/// What takes whole blocks.
pub trait Sink: Send {
    /// Writes all of it, or leaves what was written before as it was.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes it durable.
    fn sync(&mut self) -> io::Result<()>;
    /// A reader waits at the other end.
    fn is_live(&self) -> bool;
    /// How long it is.
    fn len(&self) -> u64;
}

pub struct FileSink {
    file: File,
    /// Length of the whole blocks in it.
    len: u64,
    dirty: bool,
}

impl FileSink {
    fn new(mut file: File, path: &Path) -> io::Result<FileSink> {
        let len = file.stream_position()?;
        file::sync_directory(path)?;
        Ok(FileSink {
            file,
            len,
            dirty: false,
        })
    }
}

impl Sink for FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(e) = self.file.write_all(bytes) {
            // A disk that is full took part of a block: give that back.
            self.file.set_len(self.len)?;
            self.file.seek(SeekFrom::Start(self.len))?;
            return Err(e);
        }
        self.len += bytes.len() as u64;
        self.dirty = true;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) {
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn is_live(&self) -> bool {
        false
    }

    fn len(&self) -> u64 {
        self.len
    }
}

pub struct PipeSink(pub File);

impl Sink for PipeSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn is_live(&self) -> bool {
        true
    }

    fn len(&self) -> u64 {
        0
    }
}

/// The files of one recording.
pub struct Files {
    path: PathBuf,
    existing: Existing,
    compressed: bool,
    pub limits: Limits,
    number: u32,
    made: VecDeque<PathBuf>,
}

impl Files {
    pub fn new(path: &Path, existing: Existing, compressed: bool, limits: Limits) -> Files {
        Files {
            path: path.to_owned(),
            existing,
            compressed,
            limits,
            number: 0,
            made: VecDeque::new(),
        }
    }

    /// `fabric.pcapng.zst`, or its name with a number before the suffixes.
    fn name(&self) -> PathBuf {
        if self.limits.keep.is_none() {
            return self.path.clone();
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let dot = [".pcapng.zst", ".pcapng", ".zst"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix).map(str::len))
            .unwrap_or(name.len());
        let (stem, suffix) = name.split_at(dot);
        let number = self.number;
        self.path
            .with_file_name(format!("{stem}-{number:04}{suffix}"))
    }

    /// Begins the next file; those beyond the limit go. Also says what was trimmed.
    pub fn next(&mut self) -> Result<(FileSink, u64), OpenError> {
        self.number += 1;
        if self.limits.keep.is_some() && self.existing == Existing::Append {
            // Numbers go on; a file that is there is whole and stays as it is.
            while self.name().symlink_metadata().is_ok() {
                self.number += 1;
            }
        }
        let path = self.name();
        let (file, trimmed) = file::open(&path, self.existing, self.compressed)?;
        let sink = FileSink::new(file, &path).map_err(|error| OpenError::Io {
            path: path.clone(),
            error,
        })?;
        self.made.push_back(path);
        let keep = self.limits.keep.map_or(usize::MAX, |k| k.max(1) as usize);
        while self.made.len() > keep {
            if let Some(old) = self.made.pop_front() {
                // Gone already, or somebody else's by now: either way not here any more.
                let _ = std::fs::remove_file(old);
            }
        }
        Ok((sink, trimmed))
    }
}
