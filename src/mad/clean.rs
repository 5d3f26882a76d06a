//! The one way from untrusted bytes to text: nothing that comes out can move a cursor, change a
//! colour or reorder a line.

use std::borrow::Cow;

/// Text from the fabric made harmless, up to the first NUL.
///
/// Control characters, broken UTF-8 and the characters that reorder or hide text (bidirectional
/// controls, line separators, zero-width marks) become visible escapes; everything else stays,
/// inner, leading and trailing spaces included.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    let bytes = bytes.split(|&b| b == 0).next().unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(is_harmful) => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

/// [`text`], to keep.
pub fn clean(bytes: &[u8]) -> String {
    text(bytes).into_owned()
}

/// The same for text that is valid UTF-8 already, such as a name from a file or a recording.
pub fn clean_str(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        push_clean(&mut safe, c);
    }
    safe
}

fn escaped(bytes: &[u8]) -> String {
    let mut safe = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_clean(&mut safe, c);
        }
        for byte in chunk.invalid() {
            push_hex(&mut safe, u32::from(*byte));
        }
    }
    safe
}

fn push_clean(safe: &mut String, c: char) {
    if !is_harmful(c) {
        safe.push(c);
    } else if (c as u32) < 0x100 {
        push_hex(safe, c as u32);
    } else {
        safe.extend(c.escape_unicode());
    }
}

fn push_hex(safe: &mut String, code: u32) {
    safe.push_str("\\x");
    for shift in [4, 0] {
        safe.extend(char::from_digit(code >> shift & 0xF, 16));
    }
}

/// Characters that act on a terminal or on the order of a line instead of being read.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061C}'                    // Arabic letter mark
            | '\u{200B}'..='\u{200F}'     // zero-width space and joiners, LRM, RLM
            | '\u{2028}'..='\u{202E}'     // line and paragraph separator, bidi embeddings
            | '\u{2060}'..='\u{206F}'     // word joiner, bidi isolates, deprecated formats
            | '\u{FE00}'..='\u{FE0F}'     // variation selectors
            | '\u{FEFF}'                  // byte order mark
            | '\u{FFF9}'..='\u{FFFB}'     // interlinear annotation
            | '\u{E0000}'..='\u{E0FFF}') // tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_on_a_terminal_survives() {
        assert_eq!(clean(b"\x1b[2Jhost  1 \0junk"), "\\x1b[2Jhost  1 ");
        assert_eq!(clean(b" a\tb\x7f"), " a\\x09b\\x7f");
        // C1 CSI, as UTF-8 and as a bare byte.
        assert_eq!(clean("\u{9b}31m".as_bytes()), "\\x9b31m");
        assert_eq!(clean(b"\x9b31m"), "\\x9b31m");
        // Right-to-left override: would show the rest of the row backwards.
        assert_eq!(clean("x\u{202e}y".as_bytes()), "x\\u{202e}y");
        assert_eq!(clean(b"a\xffb"), "a\\xffb");
        assert_eq!(clean("knöten".as_bytes()), "knöten");
        assert_eq!(clean(&[b'n'; 64]).len(), 64);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_cleaned_once(bytes: Vec<u8>) {
            let text = clean(&bytes);
            assert!(!text.chars().any(is_harmful));
            // Doing it again changes nothing.
            assert_eq!(clean_str(&text), text);
        }
    }
}
