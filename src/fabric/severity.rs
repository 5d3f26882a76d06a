//! How grave something is.

use serde::{Deserialize, Serialize};

/// How grave something is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    #[default]
    Info,
    /// Worth a look.
    Warning,
    /// Needs a person.
    Critical,
}

impl Severity {
    /// All of them, the least first.
    pub const ALL: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

    /// Its word, as files and JSON have it.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}
