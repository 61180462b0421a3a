//! From the bytes of tokens to the pieces of an answer: whole characters only, and no part of a
//! stop text.
//!
//! This module knows neither tokens nor channels.

use encoding_rs::{Decoder, UTF_8};

/// Joins bytes to text, and looks for stop texts.
pub(super) struct Answer {
    decoder: Decoder,
    stops: Vec<String>,
    /// Text that may be the beginning of a stop text.
    held: String,
}

/// The result of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Out {
    /// The text that can be emitted now; often empty.
    pub(super) text: String,
    /// Whether a stop text occurred. Nothing follows.
    pub(super) stopped: bool,
}

impl Answer {
    pub(super) fn new(stops: Vec<String>) -> Self {
        Self {
            decoder: UTF_8.new_decoder_without_bom_handling(),
            stops,
            held: String::new(),
        }
    }

    /// Adds the bytes of the next token.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Out {
        self.decode(bytes, false);
        if let Some(at) = self.stops.iter().filter_map(|stop| self.held.find(stop)).min() {
            self.held.truncate(at);
            return Out {
                text: std::mem::take(&mut self.held),
                stopped: true,
            };
        }
        let rest = self.held.split_off(self.held.len() - self.held_back());
        Out {
            text: std::mem::replace(&mut self.held, rest),
            stopped: false,
        }
    }

    /// Returns the held text. An incomplete character becomes U+FFFD.
    pub(super) fn finish(mut self) -> Out {
        self.decode(&[], true);
        let stop = self.stops.iter().filter_map(|stop| self.held.find(stop)).min();
        if let Some(at) = stop {
            self.held.truncate(at);
        }
        Out {
            text: self.held,
            stopped: stop.is_some(),
        }
    }

    fn decode(&mut self, bytes: &[u8], last: bool) {
        // The decoder may hold three bytes, and in the worst case each byte becomes U+FFFD, which
        // has three bytes as well.
        self.held.reserve(bytes.len().saturating_mul(3) + 12);
        let (_, read, _) = self.decoder.decode_to_string(bytes, &mut self.held, last);
        debug_assert_eq!(read, bytes.len(), "the buffer has room for all bytes");
    }

    /// Returns the number of bytes at the end of `held` that may be the beginning of a stop text:
    /// the longest such suffix.
    fn held_back(&self) -> usize {
        let longest = |stop: &String| {
            let most = self.held.len().min(stop.len().saturating_sub(1));
            (1..=most)
                .rev()
                .find(|&length| stop.is_char_boundary(length) && self.held.ends_with(&stop[..length]))
        };
        self.stops.iter().filter_map(longest).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(stops: &[&str], pieces: &[&[u8]]) -> (Vec<String>, bool) {
        let mut answer = Answer::new(stops.iter().map(|&stop| stop.to_owned()).collect());
        let mut texts = Vec::new();
        for piece in pieces {
            let out = answer.push(piece);
            texts.push(out.text);
            if out.stopped {
                return (texts, true);
            }
        }
        let out = answer.finish();
        texts.push(out.text);
        (texts, out.stopped)
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn characters_come_whole() {
        let smile = "😀".as_bytes();
        assert_eq!(
            all(&[], &[b"a", &smile[..1], &smile[1..3], &smile[3..], b"z"]),
            (owned(&["a", "", "", "😀", "z", ""]), false)
        );
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(
            all(&[], &[b"a\xffb", b"\xe2\x82"]),
            (owned(&["a\u{fffd}b", "", "\u{fffd}"]), false)
        );
        assert_eq!(
            all(&[], &[b"\xe2\x82", b"x"]),
            (owned(&["", "\u{fffd}x", ""]), false)
        );
    }

    #[test]
    fn a_byte_order_mark_is_text() {
        assert_eq!(all(&[], &[b"\xef\xbb\xbfa"]), (owned(&["\u{feff}a", ""]), false));
    }

    #[test]
    fn a_stop_text_ends_it_across_pieces() {
        assert_eq!(
            all(&["END"], &[b"one E", b"N", b"D two"]),
            (owned(&["one ", "", ""]), true)
        );
        assert_eq!(
            all(&["END"], &[b"one E", b"N", b"d"]),
            (owned(&["one ", "", "ENd", ""]), false)
        );
        assert_eq!(all(&["END"], &[b"one EN"]), (owned(&["one ", "EN"]), false));
    }

    #[test]
    fn the_first_of_several_stop_texts_counts() {
        assert_eq!(all(&["cd", "bc"], &[b"abcd"]), (owned(&["a"]), true));
        // The longer prefix is held, of either stop text.
        assert_eq!(all(&["aab", "ab"], &[b"xaa", b"ab"]), (owned(&["x", "a"]), true));
    }

    #[test]
    fn a_stop_text_may_have_multibyte_characters() {
        let text = "ä€😀".as_bytes();
        let bytes = text.iter().map(std::slice::from_ref).collect::<Vec<_>>();
        let (texts, stopped) = all(&["€😀"], &bytes);
        assert_eq!((texts.concat().as_str(), stopped), ("ä", true));
    }

    #[test]
    fn an_incomplete_character_can_complete_a_stop_text() {
        assert_eq!(all(&["\u{fffd}"], &[b"a\xe2"]), (owned(&["a", ""]), true));
    }
}
