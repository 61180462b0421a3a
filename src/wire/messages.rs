//! The reading side of the wires on server-sent events: each message becomes frames.

use super::decoded::Decoded;
use super::event_stream::{Message, Parser};
use super::lines::TooLong;
use super::{DecodeError, Finish};
use crate::frame::Frame;
use crate::order::Phase;

/// Reads the messages of one protocol.
pub(super) trait ReadMessage {
    /// Adds the frames of a message.
    fn read(&mut self, message: &Message, frames: &mut Frames<'_>) -> Result<(), DecodeError>;

    /// Returns `true` if `message` may follow the end and has no meaning there.
    fn may_follow(&self, message: &Message) -> bool {
        let _ = message;
        false
    }

    /// Returns the frame that is known only at the end of the bytes.
    fn finish(&mut self) -> Option<Frame> {
        None
    }
}

/// Where a reader puts its frames.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    decoded: &'a mut Decoded,
}

impl Frames<'_> {
    /// Adds a frame. An empty text is not a frame.
    pub(super) fn push(&mut self, frame: Frame) -> Result<(), DecodeError> {
        if matches!(&frame, Frame::Text(text) if text.is_empty()) {
            return Ok(());
        }
        self.decoded.push(frame).map_err(|_| DecodeError::TrailingBytes)
    }
}

/// A decoder that is made of a reader of messages.
#[derive(Debug)]
pub(super) struct Messages<R> {
    parser: Parser,
    reader: R,
    decoded: Decoded,
}

impl<R: ReadMessage> Messages<R> {
    /// Creates a decoder that holds one message of at most `max_bytes`.
    pub(super) fn new(reader: R, max_bytes: usize) -> Self {
        Self {
            parser: Parser::new(max_bytes),
            reader,
            decoded: Decoded::default(),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.decoded.phase()
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.decoded.has_failed() {
            let taken = match self.parser.next(&mut bytes) {
                Ok(None) => Ok(()),
                Ok(Some(message)) if self.phase() == Phase::Ended => {
                    let may_follow = self.reader.may_follow(&message);
                    may_follow.then_some(()).ok_or(DecodeError::TrailingBytes)
                }
                Ok(Some(message)) => {
                    let decoded = &mut self.decoded;
                    self.reader.read(&message, &mut Frames { decoded })
                }
                Err(TooLong) => Err(DecodeError::LineTooLong),
            };
            if let Err(error) = taken {
                self.decoded.fail(error);
                self.parser = Parser::new(0);
            }
        }
    }

    pub(super) fn finish(&mut self) -> Finish {
        if !self.decoded.has_failed()
            && self.phase() != Phase::Ended
            && let Some(frame) = self.reader.finish()
        {
            // Every frame may follow before the end.
            let _ = self.decoded.push(frame);
        }
        self.decoded.finish()
    }

    pub(super) fn next(&mut self) -> Option<Result<Frame, DecodeError>> {
        self.decoded.next()
    }
}

/// Parses the object of a message whose data is one.
pub(super) fn object(message: &Message) -> Result<serde_json::Map<String, serde_json::Value>, DecodeError> {
    serde_json::from_str(&message.data).map_err(|_| DecodeError::BadEvent)
}
