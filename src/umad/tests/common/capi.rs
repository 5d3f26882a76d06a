//! Our C face, built once for the tests that run programs on it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn run(command: &mut Command) {
    let out = command.output().unwrap();
    assert!(
        out.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// The directory with the shared object and the archive.
pub fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        run(Command::new(cargo)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["rustc", "--offline", "-p", "umad", "--lib"])
            .args(["--features", "capi"])
            .args(["--crate-type", "cdylib,staticlib", "--target-dir"])
            .arg(&target));
        target.join("debug")
    })
}

/// Links the drop-in library by the documented script; returns its directory.
pub fn drop_in() -> &'static Path {
    static LINKED: OnceLock<PathBuf> = OnceLock::new();
    LINKED.get_or_init(|| {
        // Tests run at once, in processes of their own.
        let name = format!("drop-in-{}", env!("CARGO_CRATE_NAME"));
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("capi/link-libibumad");
        run(Command::new(script)
            .arg(built().join("libumad.a"))
            .arg(dir.join("libibumad.so.3")));
        dir
    })
}

/// Compiles a C program of the tests.
pub fn compile(source: &str, more: &[&OsStr]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_stem().unwrap());
    run(Command::new("cc")
        .args(["-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(&source)
        .args(more));
    program
}
