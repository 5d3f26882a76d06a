//! Recording files: made so that nobody else reads them and nothing is overwritten unasked, and
//! mended before they are continued.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::block::SHB;
use super::zst;

/// What to do with a file that is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    #[default]
    Keep,
    /// Write it anew (`--force`).
    Overwrite,
    /// Trim a torn tail and go on behind it (`--append`).
    Append,
}

/// Why a recording cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is there.
    #[error(
        "{} exists: use --force to overwrite it, --append to continue it, or another name",
        .0.display()
    )]
    Exists(PathBuf),
    /// Its last component is a symbolic link.
    #[error("{} is a symbolic link: name the file itself", .0.display())]
    Symlink(PathBuf),
    /// A directory, device, pipe or socket.
    #[error("{} is no regular file: for a pipe, record to - (standard output)", .0.display())]
    NotRegular(PathBuf),
    /// To be continued, but no recording.
    #[error("{} is no recording of this kind: it cannot be continued", .0.display())]
    NotPcapng(PathBuf),
    /// Anything else.
    #[error("cannot record to {}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Opens a file to record to, readable and writable by its owner alone, its position at the end
/// of what is kept. Also says how many bytes of a torn tail were cut off.
pub fn open(path: &Path, existing: Existing, compressed: bool) -> Result<(File, u64), OpenError> {
    let io_error = |error: io::Error| match error.raw_os_error() {
        Some(libc::EEXIST) => OpenError::Exists(path.to_owned()),
        Some(libc::ELOOP) => OpenError::Symlink(path.to_owned()),
        Some(libc::EISDIR) => OpenError::NotRegular(path.to_owned()),
        _ => OpenError::Io {
            path: path.to_owned(),
            error,
        },
    };
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .mode(0o600)
        // Without O_NONBLOCK opening a pipe waits for its other end.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    if existing == Existing::Keep {
        options.create_new(true);
    } else {
        options.create(true);
    }
    let mut file = match options.open(path) {
        Ok(file) => file,
        // O_EXCL hides what stands there.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_symlink() => {
            return Err(OpenError::Symlink(path.to_owned()));
        }
        Err(e) => return Err(io_error(e)),
    };
    let meta = file.metadata().map_err(io_error)?;
    if !meta.is_file() {
        return Err(OpenError::NotRegular(path.to_owned()));
    }
    let mut torn = 0;
    match existing {
        Existing::Keep => {}
        Existing::Overwrite => {
            file.set_permissions(Permissions::from_mode(0o600))
                .map_err(io_error)?;
            file.set_len(0).map_err(io_error)?;
        }
        Existing::Append => {
            let whole = whole_length(&mut file, compressed)
                .map_err(io_error)?
                .ok_or_else(|| OpenError::NotPcapng(path.to_owned()))?;
            torn = meta.len().saturating_sub(whole);
            if torn != 0 {
                file.set_len(whole).map_err(io_error)?;
            }
            file.seek(SeekFrom::Start(whole)).map_err(io_error)?;
        }
    }
    Ok((file, torn))
}

/// Makes a name's existence as durable as the file's content.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
}

/// Where the last whole block ends; `None` if the file is no pcapng. An empty file is one
/// without blocks. Damage before the last block is no torn tail: what follows it is kept.
fn whole_length(file: &mut File, compressed: bool) -> io::Result<Option<u64>> {
    let mut start = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(4).read_to_end(&mut start)?;
    let magic = if compressed {
        zst::MAGIC
    } else {
        SHB.to_le_bytes()
    };
    if !magic.starts_with(&start) {
        return Ok(None);
    }
    if compressed {
        return zst::whole_length(file).map(Some);
    }
    file.seek(SeekFrom::Start(0))?;
    super::reader::whole_length(file).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    /// A section header with no options: type, length 28, magic, version 1.0, length unknown.
    const SECTION: [u8; 28] = [
        0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 0xFF, 0xFF, 0xFF,
        0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 28, 0, 0, 0,
    ];

    #[test]
    fn a_new_file_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcapng");
        open(&path, Existing::Keep, false).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn what_exists_is_kept_unless_told_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcapng");
        std::fs::write(&path, "precious").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(
            open(&path, Existing::Keep, false),
            Err(OpenError::Exists(_))
        ));
        assert!(matches!(
            open(&path, Existing::Append, false),
            Err(OpenError::NotPcapng(_))
        ));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        open(&path, Existing::Overwrite, false).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn links_pipes_and_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for existing in [Existing::Keep, Existing::Overwrite, Existing::Append] {
            assert!(matches!(
                open(&link, existing, false),
                Err(OpenError::Symlink(_))
            ));
        }
        assert!(!target.exists());
        std::fs::write(&target, "").unwrap();
        assert!(matches!(
            open(&link, Existing::Overwrite, false),
            Err(OpenError::Symlink(_))
        ));
        assert!(matches!(
            open(dir.path(), Existing::Overwrite, false),
            Err(OpenError::NotRegular(_))
        ));
        assert!(matches!(
            open(Path::new("/dev/null"), Existing::Overwrite, false),
            Err(OpenError::NotRegular(_))
        ));
    }

    #[test]
    fn a_torn_tail_is_cut_off_before_appending() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcapng");
        // A whole section header; then the same one, cut at every length.
        for cut in 0..28 {
            let mut bytes = SECTION.to_vec();
            bytes.extend(&SECTION[..cut]);
            std::fs::write(&path, &bytes).unwrap();
            let (mut file, torn) = open(&path, Existing::Append, false).unwrap();
            assert_eq!(torn, cut as u64);
            file.write_all(&SECTION).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), [SECTION, SECTION].concat());
        }
    }

    #[test]
    fn damage_before_the_end_is_no_torn_tail() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcapng");
        let mut bytes = [SECTION, SECTION, SECTION].concat();
        bytes[28 + 4] = 99;
        std::fs::write(&path, &bytes).unwrap();
        let (_, torn) = open(&path, Existing::Append, false).unwrap();
        assert_eq!(torn, 0);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}
