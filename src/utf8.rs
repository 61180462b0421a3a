//! Reassembles text that was split within characters.

/// Keeps the beginning of a character, at most three bytes, until its rest arrives.
///
/// Invalid UTF-8 becomes U+FFFD, one for each maximal part that could have begun a character. This
/// is the rule of the WHATWG encoding standard, so a browser's `TextDecoder` gives the same text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carry {
    bytes: [u8; 4],
    // 0 <= length <= 3 between calls
    length: usize,
}

impl Carry {
    /// Appends all complete characters of the stored beginning and `bytes` to `out`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut String) {
        // Completes the stored beginning one byte at a time: at most three rounds, and no copy of
        // `bytes`.
        while self.length > 0 && !bytes.is_empty() {
            self.bytes[self.length] = bytes[0];
            let tried = self.length + 1;
            match std::str::from_utf8(&self.bytes[..tried]) {
                Ok(character) => {
                    out.push_str(character);
                    self.length = 0;
                    bytes = &bytes[1..];
                }
                Err(error) if error.error_len().is_none() => {
                    self.length = tried;
                    bytes = &bytes[1..];
                }
                // The new byte does not continue the stored ones: they become U+FFFD, and it is
                // read again.
                Err(_) => self.finish(out),
            }
        }
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            out.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && could_begin(invalid) {
                self.bytes[..invalid.len()].copy_from_slice(invalid);
                self.length = invalid.len();
            } else if !invalid.is_empty() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    /// Ends the text: an incomplete character becomes U+FFFD.
    pub(crate) fn finish(&mut self, out: &mut String) {
        if self.length > 0 {
            self.length = 0;
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Returns what follows the first `kept` characters.
#[cfg(feature = "turn")]
pub(crate) fn after_chars(text: &str, kept: u64) -> &str {
    let mut characters = text.chars();
    match usize::try_from(kept).unwrap_or(usize::MAX).checked_sub(1) {
        Some(last) => {
            characters.nth(last);
            characters.as_str()
        }
        None => text,
    }
}

/// Removes everything after the first `kept` characters.
#[cfg(feature = "turn")]
pub(crate) fn keep_chars(text: &mut String, kept: u64) {
    text.truncate(text.len() - after_chars(text, kept).len());
}

/// Returns `true` if more bytes could complete `bytes` to a character.
fn could_begin(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Cuts `text` into pieces of at most `max_bytes`, between characters. An empty text has no pieces.
pub(crate) fn pieces(mut text: &str, max_bytes: usize) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let (piece, rest) = text.split_at(text.floor_char_boundary(max_bytes));
        text = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_split_gives_the_lossy_whole() {
        for bytes in [
            "a\u{e9}\u{20ac}\u{1f600}z".as_bytes(),
            b"\x80a\xc0\x80b\xed\xa0\x80c\xf0\x9f\x98",
            b"\xf0\x9f\x98\xc3\xa9\xe2\x82",
            b"\xf0\xf0\xf0\x9f\x98\x80",
            b"",
        ] {
            let whole = String::from_utf8_lossy(bytes);
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let (mut carry, mut out) = (Carry::default(), String::new());
                    for part in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                        carry.push(part, &mut out);
                    }
                    carry.finish(&mut out);
                    assert_eq!(out, whole, "{bytes:x?} at {first}, {second}");
                }
            }
        }
    }

    #[cfg(feature = "turn")]
    #[test]
    fn characters_are_counted_whole() {
        for (kept, text) in [
            (0, ""),
            (1, "\u{e4}"),
            (2, "\u{e4}\u{1f600}"),
            (3, "\u{e4}\u{1f600}b"),
            (u64::MAX, "\u{e4}\u{1f600}b"),
        ] {
            let mut whole = "\u{e4}\u{1f600}b".to_owned();
            keep_chars(&mut whole, kept);
            assert_eq!(whole, text, "{kept}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = format!("a{}", "\u{20ac}".repeat(4));
        assert_eq!(
            pieces(&text, 6).collect::<Vec<_>>(),
            ["a\u{20ac}", "\u{20ac}\u{20ac}", "\u{20ac}"]
        );
        assert_eq!(pieces("abc", 6).collect::<Vec<_>>(), ["abc"]);
        assert_eq!(pieces("", 6).count(), 0);
    }

    #[test]
    fn bytes_that_no_other_can_complete_do_not_wait() {
        for (bytes, text) in [
            (&b"a\xff"[..], "a\u{fffd}"),
            (b"a\x80", "a\u{fffd}"),
            (b"a\xc3", "a"),
            (b"a", "a"),
        ] {
            let (mut carry, mut out) = (Carry::default(), String::new());
            carry.push(bytes, &mut out);
            assert_eq!(out, text, "{bytes:x?}");
        }
    }
}
