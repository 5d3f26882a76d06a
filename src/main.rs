//! The `fabtop` program: see `fabtop --help` and the library's documentation.

use std::process::ExitCode;

fn main() -> ExitCode {
    fabtop::cli::run()
}
