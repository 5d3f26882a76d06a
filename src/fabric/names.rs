//! Names: descriptions made harmless, and the classic node-name-map.
//!
//! A NodeDescription is any 64 bytes that a host's administrator, or an attacker, put there:
//! [`clean`] is the only way from such bytes to a name. A name is never an identity: see
//! [`super::NodeId`].

use std::collections::BTreeMap;

use super::Guid;
pub use crate::mad::{clean, clean_str};

/// A line of a node-name-map that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapProblem {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong, in words.
    pub what: String,
}

impl std::fmt::Display for MapProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// A node-name-map: names that override node descriptions.
///
/// A line is `<node GUID> "<name>"`, the GUID in C's notation (0x hexadecimal, 0 octal, else
/// decimal). Blank lines and lines that begin with `#` are skipped, a name without quotes is the
/// rest of its line, and the first entry for a GUID wins. The classic tools refuse a whole map
/// for one bad line and cut names at `#`; here the good lines count and each bad one is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameMap {
    /// Cleaned names by GUID.
    pub names: BTreeMap<Guid, String>,
}

impl NameMap {
    /// Reads a map; bad lines are left out and listed.
    pub fn parse(text: &[u8]) -> (NameMap, Vec<MapProblem>) {
        let mut map = NameMap::default();
        let mut problems = Vec::new();
        for (index, raw) in text.split(|&b| b == b'\n').enumerate() {
            let line = String::from_utf8_lossy(raw);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match parse_line(line) {
                Ok((guid, name)) => {
                    map.names.entry(guid).or_insert_with(|| clean_str(name));
                }
                Err(what) => problems.push(MapProblem {
                    line: index + 1,
                    what,
                }),
            }
        }
        (map, problems)
    }
}

fn parse_line(line: &str) -> Result<(Guid, &str), String> {
    let end = line
        .find(|c: char| c.is_whitespace() || c == '"')
        .unwrap_or(line.len());
    let (number, rest) = line.split_at(end);
    let guid = base0(number).ok_or_else(|| format!("{:?} is no GUID", clean_str(number)))?;
    let rest = rest.trim();
    let name = match rest.strip_prefix('"') {
        None => rest,
        Some(quoted) => quoted_name(quoted).ok_or("the name's closing quote is missing")?,
    };
    if name.is_empty() {
        return Err("the name is missing".to_owned());
    }
    Ok((Guid(guid), name))
}

/// The text up to the first quote that ends the name: one with nothing or a comment behind it.
/// Names with quotes inside do occur.
fn quoted_name(text: &str) -> Option<&str> {
    text.match_indices('"')
        .find(|(at, _)| {
            let tail = text.get(at + 1..).unwrap_or_default();
            let rest = tail.trim_start();
            rest.is_empty() || (rest.starts_with('#') && rest.len() < tail.len())
        })
        .and_then(|(at, _)| text.get(..at))
}

/// A number in the notation of C's `strtoull(.., 0)`.
pub fn base0(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    if text.len() > 1 && text.starts_with('0') {
        return u64::from_str_radix(text, 8).ok();
    }
    if text.starts_with('+') {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_keeps_its_good_lines_and_reports_each_bad_one_with_its_number() {
        let text = b"# racks\n\
            0x0002c90300000001 \"leaf #1 in \"row\" 7\"  # comment\n\
            \n\
            0x0002c90300000001 \"too late\"\n\
            017 octal name\n\
            12 \"\"\n\
            nonsense \"x\"\n\
            0x3 \"open\n\
            15\"tight\"\n";
        let (map, problems) = NameMap::parse(text);
        let got: Vec<_> = map.names.iter().map(|(g, n)| (g.0, n.as_str())).collect();
        assert_eq!(
            got,
            [
                // 017 is 15 in octal: the first entry for GUID 15.
                (15, "octal name"),
                (0x0002_c903_0000_0001, "leaf #1 in \"row\" 7"),
            ]
        );
        let lines: Vec<_> = problems.iter().map(|p| p.line).collect();
        assert_eq!(lines, [6, 7, 8]);
        assert_eq!(problems[1].to_string(), "line 7: \"nonsense\" is no GUID");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_parsed_and_give_clean_names(bytes: Vec<u8>) {
            let (map, _) = NameMap::parse(&bytes);
            assert!(map.names.values().all(|n| clean_str(n) == *n));
        }
    }
}
