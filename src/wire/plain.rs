//! Plain text, `text/plain`: the body is the answer, and its end is the end of the turn. Decoder
//! only.
//!
//! ```
//! use ragwire::wire::{Decode, Finish, plain};
//! use ragwire::{End, Frame};
//!
//! let mut decoder = plain::PlainDecoder::default();
//! decoder.feed(b"Forty-");
//! assert_eq!(decoder.next(), Some(Ok(Frame::Text("Forty-".into()))));
//! assert_eq!(decoder.finish(), Finish::Complete);
//! assert_eq!(decoder.next(), Some(Ok(Frame::End(End::default()))));
//! ```

use super::decoded::Decoded;
use super::{Decode, DecodeError, Finish};
use crate::frame::{End, Frame};
use crate::order::Phase;
use crate::utf8::Carry;

/// The media type.
pub const CONTENT_TYPE: &str = "text/plain";

/// Decodes plain text in UTF-8, however its bytes were split.
///
/// Text is returned as it arrives, in whole characters; invalid bytes become U+FFFD. A body that
/// ends is complete, because plain text has no terminal of its own. Whether the response itself is
/// complete is known only to its connection: a body that breaks off must be reported as an error,
/// as [`Sink::relay`](crate::Sink::relay) does, and not with [`finish`](Decode::finish).
#[derive(Debug, Default)]
pub struct PlainDecoder {
    carry: Carry,
    decoded: Decoded,
}

impl PlainDecoder {
    fn push_text(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        if let Some(Frame::Text(last)) = self.decoded.last_mut() {
            last.push_str(&text);
        } else {
            self.push(Frame::Text(text));
        }
    }

    fn push(&mut self, frame: Frame) {
        if let Err(error) = self.decoded.push(frame) {
            self.decoded.fail(error);
        }
    }
}

impl Decode for PlainDecoder {
    fn feed(&mut self, bytes: &[u8]) {
        let mut text = String::new();
        self.carry.push(bytes, &mut text);
        self.push_text(text);
    }

    fn finish(&mut self) -> Finish {
        if self.decoded.phase() != Phase::Ended {
            let mut text = String::new();
            self.carry.finish(&mut text);
            self.push_text(text);
            self.push(Frame::End(End::default()));
        }
        self.decoded.finish()
    }
}

impl Iterator for PlainDecoder {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.decoded.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_split_gives_the_same_text_and_a_completed_end() {
        let bytes = "Caf\u{e9} \u{1f600}\u{1d}\u{1e}\n{}".as_bytes();
        for split in 0..=bytes.len() {
            let mut decoder = PlainDecoder::default();
            decoder.feed(&bytes[..split]);
            decoder.feed(&bytes[split..]);
            assert_eq!(decoder.finish(), Finish::Complete);
            assert_eq!(decoder.finish(), Finish::Complete);
            let frames: Result<Vec<_>, _> = decoder.by_ref().collect();
            let text = String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(
                frames.unwrap(),
                [Frame::Text(text), Frame::End(End::default())],
                "{split}"
            );
        }
    }

    #[test]
    fn bytes_after_the_end_are_an_error() {
        let mut decoder = PlainDecoder::default();
        decoder.feed(b"a\xc3");
        assert_eq!(decoder.finish(), Finish::Complete);
        assert_eq!(decoder.next(), Some(Ok(Frame::Text("a\u{fffd}".into()))));
        decoder.feed(b"b");
        assert_eq!(decoder.finish(), Finish::Invalid(DecodeError::TrailingBytes));
    }
}
