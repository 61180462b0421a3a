//! From a token's bytes to the pieces of an answer: whole characters only, and nothing of a text that ends it.
//!
//! It knows no tokens and no channels.

use encoding_rs::{Decoder, UTF_8};

/// Puts bytes together to text, and looks for the texts that end it.
pub(super) struct Answer {
    decoder: Decoder,
    stops: Vec<String>,
    /// Text that may be the beginning of a stop text.
    held: String,
}

/// What came of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Out {
    /// What can be shown now; often nothing.
    pub(super) text: String,
    /// Whether a stop text came. Nothing follows.
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

    /// Takes the bytes of the next token.
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

    /// The text that was held back. A character that was cut off becomes U+FFFD.
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
        // Three bytes may lie in the decoder, and each byte becomes U+FFFD at worst: three bytes as well.
        self.held.reserve(bytes.len().saturating_mul(3) + 12);
        let (_, read, _) = self.decoder.decode_to_string(bytes, &mut self.held, last);
        debug_assert_eq!(read, bytes.len(), "there was room for all of it");
    }

    /// Bytes at the end of `held` that may be the beginning of a stop text: the longest such end.
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
    fn what_is_no_utf8_is_replaced() {
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
        // The longer beginning is held, of whichever text.
        assert_eq!(all(&["aab", "ab"], &[b"xaa", b"ab"]), (owned(&["x", "a"]), true));
    }

    #[test]
    fn a_stop_text_of_several_bytes_a_character() {
        let text = "ä€😀".as_bytes();
        let bytes = text.iter().map(std::slice::from_ref).collect::<Vec<_>>();
        let (texts, stopped) = all(&["€😀"], &bytes);
        assert_eq!((texts.concat().as_str(), stopped), ("ä", true));
    }

    #[test]
    fn a_cut_character_can_complete_a_stop_text() {
        assert_eq!(all(&["\u{fffd}"], &[b"a\xe2"]), (owned(&["a", ""]), true));
    }
}
