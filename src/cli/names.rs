//! The node name map, read again whenever its file changes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::Command;
use crate::config::Common;
use crate::engine::Commander;
use crate::fabric::names::NameMap;

/// Where a name map is looked for when none is named.
pub const NAME_MAPS: [&str; 2] = ["/etc/rdma/ib-node-name-map", "/etc/opensm/ib-node-name-map"];

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What tells one state of a file from another: device, inode, size, and time of change.
type Print = (u64, u64, u64, i64, i64);

fn print(path: &Path) -> Option<Print> {
    let meta = fs::metadata(path).ok()?;
    Some((
        meta.dev(),
        meta.ino(),
        meta.len(),
        meta.mtime(),
        meta.mtime_nsec(),
    ))
}

/// The file in use, and its state when it was last read.
#[derive(Debug)]
struct Watched {
    places: Vec<PathBuf>,
    seen: Option<(PathBuf, Print)>,
}

impl Watched {
    fn new(places: Vec<PathBuf>) -> Watched {
        let mut watched = Watched { places, seen: None };
        watched.seen = watched.now();
        watched
    }

    fn now(&self) -> Option<(PathBuf, Print)> {
        self.places
            .iter()
            .find_map(|path| Some((path.clone(), print(path)?)))
    }

    /// What to tell the engine, if the file is another than it was.
    fn look(&mut self) -> Option<Command> {
        let now = self.now();
        if now == self.seen {
            return None;
        }
        let before = std::mem::replace(&mut self.seen, now);
        let Some((path, _)) = &self.seen else {
            let path = before.map(|(path, _)| path).unwrap_or_default();
            return Some(Command::Names {
                names: None,
                problems: vec![format!(
                    "the node name map {} is gone: the names stay as they were",
                    path.display()
                )],
            });
        };
        Some(match fs::read(path) {
            Ok(bytes) => read(path, &bytes),
            Err(error) => unreadable(path, &error),
        })
    }
}

fn read(path: &Path, bytes: &[u8]) -> Command {
    let (map, problems) = NameMap::parse(bytes);
    let mut problems: Vec<String> = problems
        .into_iter()
        .map(|p| format!("{}:{}: {}", path.display(), p.line, p.what))
        .collect();
    // Another file altogether, or one that is being written: no reason to forget every name.
    let broken = map.names.is_empty() && !problems.is_empty();
    if broken {
        // First: of many problems the last are only counted.
        let what = format!(
            "no line of the node name map {} is a name: the names stay as they were",
            path.display()
        );
        problems.insert(0, what);
    }
    Command::Names {
        names: (!broken).then_some(map.names),
        problems,
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Command {
    Command::Names {
        names: None,
        problems: vec![format!(
            "cannot read the node name map {}: {error}; the names stay as they were",
            path.display()
        )],
    }
}

/// Tells the engine of changes of the name map for as long as it runs.
pub fn follow(common: &Common, commander: Commander) {
    let places = match &common.node_name_map {
        Some(path) => vec![path.clone()],
        None => NAME_MAPS.iter().map(PathBuf::from).collect(),
    };
    let mut watched = Watched::new(places);
    // Without it names stay as they were at the start: no reason to end the session.
    let spawned = std::thread::Builder::new()
        .name("names".to_owned())
        .spawn(move || {
            loop {
                std::thread::sleep(LOOK);
                let alive = match watched.look() {
                    Some(command) => commander.send(command),
                    None => commander.is_running(),
                };
                if !alive {
                    return;
                }
            }
        });
    if let Err(error) = spawned {
        tracing::warn!(%error, "the node name map is not followed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Guid;

    fn told(command: Option<Command>) -> (Option<Vec<(u64, String)>>, Vec<String>) {
        let Some(Command::Names { names, problems }) = command else {
            panic!("nothing was told");
        };
        let names = names.map(|names| names.into_iter().map(|(g, n)| (g.0, n)).collect());
        (names, problems)
    }

    #[test]
    fn a_changed_map_is_read_again_and_bad_lines_do_not_cost_the_good_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        let write = |text: &str| fs::write(&path, text).unwrap();
        write("0x1 \"one\"\n");
        let mut watched = Watched::new(vec![dir.path().join("none"), path.clone()]);
        assert!(watched.look().is_none(), "nothing changed");
        write("0x1 \"uno\"\nnonsense\n0x2 \"due\"\n");
        let (names, problems) = told(watched.look());
        assert_eq!(names.unwrap(), [(1, "uno".into()), (2, "due".into())]);
        let asked = problems.len();
        write("this is\nno map\n");
        let (none, why) = told(watched.look());
        assert!(none.is_none());
        assert_eq!((asked, why.len()), (1, 3));
        assert!(
            why[0].ends_with("is a name: the names stay as they were"),
            "{why:?}"
        );
        // Emptied is not broken.
        write("# nobody\n");
        assert_eq!(told(watched.look()), (Some(Vec::new()), Vec::new()));
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].ends_with("map:2: \"nonsense\" is no GUID"),
            "{problems:?}"
        );
        assert!(watched.look().is_none());
        // Gone: the names stay, and that is said. Back: they are read.
        fs::remove_file(&path).unwrap();
        let (names, problems) = told(watched.look());
        assert_eq!(names, None);
        assert!(problems[0].contains("is gone"));
        write("3 \"tre\"\n");
        assert_eq!(told(watched.look()).0.unwrap(), [(3, "tre".into())]);
        // One that comes to be in an earlier place is used from then on.
        fs::write(dir.path().join("none"), "4 \"quattro\"\n").unwrap();
        assert_eq!(
            told(watched.look()).0.unwrap(),
            [(Guid(4).0, "quattro".into())]
        );
    }
}
