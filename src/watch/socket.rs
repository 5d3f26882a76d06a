//! The Unix socket: where it is, who may connect, and that nobody is tricked by what lies there.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::WatchError;

/// Longest path that the kernel takes: `sun_path` of unix(7), with its final zero.
const MAX_PATH: usize = 107;
/// How often, and after which pauses, a directory is tried that another process has locked.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Where a collector listens unless told otherwise: below `$XDG_RUNTIME_DIR`, else in `/run`.
pub fn default_path() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(dir) if dir.is_absolute() => dir.join("fabtop/fabtop.sock"),
        _ => system_path(),
    }
}

fn system_path() -> PathBuf {
    PathBuf::from("/run/fabtop/fabtop.sock")
}

/// Where a viewer looks for a collector: its own user's, else the host's.
pub fn find() -> PathBuf {
    let own = default_path();
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if !is_there(&own) && is_there(&system_path()) {
        return system_path();
    }
    own
}

/// A listening socket that is removed when dropped.
#[derive(Debug)]
pub struct Bound {
    pub listener: UnixListener,
    path: PathBuf,
    /// Device and inode, to remove no other's socket.
    id: (u64, u64),
}

impl Drop for Bound {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the socket: mode 0600, or 0660 for a group. Its directory is made too (0700, or 0750
/// and the group's). A socket on which nobody listens any more is replaced; nothing else is.
pub fn bind(path: &Path, group: Option<&str>) -> Result<Bound, WatchError> {
    let trouble = |what: &'static str| {
        move |cause: io::Error| WatchError::Listen {
            path: path.to_owned(),
            what,
            cause,
        }
    };
    let refused = |why: &'static str| WatchError::Refused {
        path: path.to_owned(),
        why,
    };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused("it names no file"));
    };
    let dir = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    let gid = group.map(group_id).transpose()?;

    match fs::symlink_metadata(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let mode = if gid.is_some() { 0o750 } else { 0o700 };
            make_dir(dir, mode, gid).map_err(trouble("making its directory"))?;
        }
        Err(e) => return Err(trouble("looking at its directory")(e)),
        Ok(_) => {}
    }
    let handle = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(dir)
        .map_err(trouble("opening its directory"))?;
    let about = handle
        .metadata()
        .map_err(trouble("looking at its directory"))?;
    // Anybody who can write there could put a socket of his own in its place; the sticky bit
    // keeps others from that, not from being first.
    let writable = about.mode() & 0o022 != 0 && about.mode() & 0o1000 == 0;
    let own = nix::unistd::geteuid().as_raw();
    if writable || (about.uid() != own && about.uid() != 0) {
        return Err(refused(
            "others may change what is in its directory: use one of your own, mode 0700",
        ));
    }
    // Two that start at once: one waits for the other, then finds it answering.
    let _held = lock(handle).map_err(trouble("locking its directory"))?;
    clear(path)?;

    // Nobody can reach the socket before its permissions are set: it is made in a directory
    // that only this process enters, and moved when it is ready.
    let nest = dir.join(format!(".{:x}", std::process::id()));
    let _ = fs::remove_dir_all(&nest);
    DirBuilder::new()
        .mode(0o700)
        .create(&nest)
        .map_err(trouble("making a directory beside it"))?;
    let place = nest.join("s");
    if place.as_os_str().len() > MAX_PATH || path.as_os_str().len() > MAX_PATH {
        let _ = fs::remove_dir(&nest);
        return Err(refused(
            "a socket's path has at most 107 bytes: use a shorter one",
        ));
    }
    let result = (|| {
        let listener = UnixListener::bind(&place).map_err(trouble("binding"))?;
        if let Some(gid) = gid {
            std::os::unix::fs::lchown(&place, None, Some(gid))
                .map_err(trouble("giving it to the group"))?;
        }
        let mode = if gid.is_some() { 0o660 } else { 0o600 };
        fs::set_permissions(&place, Permissions::from_mode(mode))
            .map_err(trouble("setting its permissions"))?;
        let about = fs::symlink_metadata(&place).map_err(trouble("looking at it"))?;
        fs::rename(&place, dir.join(name)).map_err(trouble("moving it into place"))?;
        Ok(Bound {
            listener,
            path: path.to_owned(),
            id: (about.dev(), about.ino()),
        })
    })();
    let _ = fs::remove_dir_all(&nest);
    result
}

fn make_dir(dir: &Path, mode: u32, gid: Option<u32>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)?;
    if gid.is_some() {
        std::os::unix::fs::lchown(dir, None, gid)?;
    }
    // Whatever the umask says.
    fs::set_permissions(dir, Permissions::from_mode(mode))
}

/// Locks a directory, as long as the file is open. Gives up soon: others may lock it, too.
fn lock(mut dir: File) -> io::Result<Flock<File>> {
    for _ in 0..LOCK_TRIES {
        match Flock::lock(dir, FlockArg::LockExclusiveNonblock) {
            Ok(held) => return Ok(held),
            Err((file, Errno::EWOULDBLOCK)) => dir = file,
            Err((_, errno)) => return Err(errno.into()),
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(Errno::EWOULDBLOCK.into())
}

/// Says what is in the way, unless it is a socket on which nobody answers.
fn clear(path: &Path) -> Result<(), WatchError> {
    let refused = |why: &'static str| {
        Err(WatchError::Refused {
            path: path.to_owned(),
            why,
        })
    };
    let kind = match fs::symlink_metadata(path) {
        Ok(about) => about.file_type(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => {
            return Err(WatchError::Listen {
                path: path.to_owned(),
                what: "looking at it",
                cause,
            });
        }
    };
    if kind.is_symlink() {
        return refused("it is a symbolic link, which is not followed");
    }
    if !kind.is_socket() {
        return refused("something that is no socket is there: remove it, or use another path");
    }
    match UnixStream::connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) => refused("another collector listens there: watch that one, or use another path"),
        // Full of connections, or not ours to ask: somebody is there.
        Err(_) => refused("somebody else's socket is there: use another path"),
    }
}

/// By name, wherever the host keeps its groups; or by number.
fn group_id(name: &str) -> Result<u32, WatchError> {
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => name
            .parse()
            .map_err(|_| WatchError::NoGroup(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn why(result: Result<Bound, WatchError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn only_its_user_reaches_a_socket_unless_a_group_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fabtop/x.sock");
        let bound = bind(&path, None).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        UnixStream::connect(&path).unwrap();
        drop(bound);
        assert!(!path.exists());

        // The own group by number: changing to it needs no privilege.
        let gid = nix::unistd::getegid().as_raw().to_string();
        let shared = dir.path().join("shared/x.sock");
        let _bound = bind(&shared, Some(&gid)).unwrap();
        assert_eq!(mode(&shared), 0o660);
        assert_eq!(mode(shared.parent().unwrap()), 0o750);
        let error = why(bind(&path, Some("no such group")));
        assert!(error.contains("no such group"), "{error}");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = bind(&path, None).unwrap();
        assert!(why(bind(&path, None)).contains("another collector"));
        UnixStream::connect(&path).unwrap();
        // Somebody removed it and made another: that one stays.
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(bound);
        assert!(path.exists());
        drop(other);
    }

    #[test]
    fn what_else_lies_there_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "precious").unwrap();
        assert!(why(bind(&file, None)).contains("no socket"));
        let link = dir.path().join("link");
        symlink(dir.path().join("nowhere"), &link).unwrap();
        assert!(why(bind(&link, None)).contains("symbolic link"));
        assert!(!dir.path().join("nowhere").exists());
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");

        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert!(why(bind(&open.join("x"), None)).contains("others may change"));

        let long = dir.path().join("x".repeat(120));
        assert!(why(bind(&long, None)).contains("107 bytes"));
        let deep = dir.path().join("no/such/dir");
        assert!(why(bind(&deep, None)).contains("making its directory"));
    }
}
