//! The filter: words that a row must hold, all of them.
//!
//! A word matches any part of a name, a state or a flag; digits match a LID or a port number
//! as a whole (or a part of a name); `0x…` matches any part of a GUID; `!` before a word turns
//! it round.

/// A parsed filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    words: Vec<Word>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    number: Option<u32>,
    hex: Option<String>,
    not: bool,
}

/// What of a row can be matched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// Names, states, flags.
    pub texts: &'a [&'a str],
    /// LIDs and port numbers.
    pub numbers: &'a [u32],
    /// GUIDs.
    pub guids: &'a [u64],
}

impl Filter {
    /// Reads what was typed. Everything is a filter; nothing matches everything.
    pub fn parse(text: &str) -> Filter {
        let words = text
            .split_whitespace()
            .filter_map(|word| {
                let (not, word) = match word.strip_prefix('!') {
                    Some(rest) => (true, rest),
                    None => (false, word),
                };
                if word.is_empty() {
                    return None;
                }
                let text = word.to_ascii_lowercase();
                let hex = text.strip_prefix("0x").unwrap_or(&text);
                let is_hex = hex.bytes().all(|b| b.is_ascii_hexdigit())
                    && (hex.len() >= 4 || hex.len() < text.len());
                Some(Word {
                    number: text.parse().ok(),
                    hex: is_hex.then(|| hex.to_owned()),
                    text,
                    not,
                })
            })
            .collect();
        Filter { words }
    }

    /// True if it lets everything through.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// True if the row passes.
    pub fn matches(&self, row: &Subject<'_>) -> bool {
        self.words.iter().all(|w| w.found_in(row) != w.not)
    }
}

impl Word {
    fn found_in(&self, row: &Subject<'_>) -> bool {
        row.texts.iter().any(|t| contains(t, &self.text))
            || self.number.is_some_and(|n| row.numbers.contains(&n))
            || self
                .hex
                .as_deref()
                .is_some_and(|hex| row.guids.iter().any(|g| has_digits(*g, hex)))
    }
}

/// True if the sixteen hexadecimal digits of a GUID hold these, which are lower case.
fn has_digits(guid: u64, digits: &str) -> bool {
    let mut all = [b'0'; 16];
    for (at, slot) in (0..).zip(all.iter_mut().rev()) {
        let digit = (guid >> (4 * at) & 0xF) as u8;
        *slot = match digit {
            0..=9 => b'0' + digit,
            _ => b'a' + digit - 10,
        };
    }
    digits.is_empty() || all.windows(digits.len()).any(|w| w == digits.as_bytes())
}

/// True if `hay` holds `needle`, whatever the case of ASCII letters. `needle` is lower case.
fn contains(hay: &str, needle: &str) -> bool {
    let (hay, needle) = (hay.as_bytes(), needle.as_bytes());
    let Some(first) = needle.first() else {
        return false;
    };
    hay.windows(needle.len()).any(|w| {
        w.first().is_some_and(|b| b.to_ascii_lowercase() == *first)
            && w.eq_ignore_ascii_case(needle)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(filter: &str) -> bool {
        Filter::parse(filter).matches(&Subject {
            texts: &["Leaf-03 node15", "Active", "errors"],
            numbers: &[12, 3],
            guids: &[0x0002_c903_0000_00f1],
        })
    }

    #[test]
    fn words_narrow_together() {
        assert!(passes(""));
        assert!(passes("leaf"));
        assert!(passes("LEAF active"));
        assert!(!passes("leaf down"));
        assert!(passes("leaf !down"));
        assert!(!passes("!leaf"));
        // A lone "!" is on its way to be a word: it hides nothing.
        assert!(passes("!"));
    }

    #[test]
    fn digits_are_a_whole_lid_or_port_or_a_part_of_a_name() {
        assert!(passes("12"));
        assert!(!passes("1234"));
        assert!(passes("15"));
        // 2 is in the GUID, and in LID 12 only as a part.
        assert!(!passes("2"));
    }

    #[test]
    fn guids_match_by_part() {
        assert!(passes("0x0002c903"));
        assert!(passes("c903"));
        assert!(passes("0xf1"));
        assert!(!passes("0xf2"));
        assert!(passes("0x0002c903000000F1"));
        // No more than begun, and more digits than there are.
        assert!(passes("0x"));
        assert!(!passes("0x00002c903000000f1"));
    }
}
