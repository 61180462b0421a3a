//! The reading side of the wires that other systems define: each message, an event of a stream or a
//! line, becomes frames.
//!
//! A reader ignores what it does not know, because those protocols grow. It fails only if the bytes
//! are not JSON, exceed a limit, or continue after the end.

use std::fmt;

use super::decoded::{Decoded, is_blank};
use super::event_stream::{MessageRef, Parser};
use super::lines::{LineEnd, Lines, TooLong};
use super::{DecodeError, Finish};
use crate::frame::Frame;
use crate::order::Phase;

/// Reads the messages of one protocol.
pub(super) trait ReadMessage: fmt::Debug {
    /// The frames that were read.
    fn decoded(&self) -> &Decoded;

    /// The frames that were read, to add more.
    fn decoded_mut(&mut self) -> &mut Decoded;

    /// Adds the frames of a message before the end.
    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError>;

    /// Accepts a message after the end if it has no meaning there.
    fn read_after_end(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let _ = message;
        Err(DecodeError::TrailingBytes)
    }

    /// Adds what is known only where the bytes end without an end of the turn.
    fn finish(&mut self) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// A decoder that is made of a reader of messages.
#[derive(Debug)]
pub(super) struct Messages<R> {
    source: Source,
    reader: R,
}

/// How a stream separates its messages. Lines have no `event` and no `id`.
#[derive(Debug)]
enum Source {
    Events(Parser),
    Lines(Lines),
}

impl<R: ReadMessage> Messages<R> {
    /// Creates a decoder of server-sent events that holds one event of at most `max_bytes`.
    pub(super) fn events(reader: R, max_bytes: usize) -> Self {
        Self {
            source: Source::Events(Parser::new(max_bytes)),
            reader,
        }
    }

    /// Creates a decoder of lines that holds one line of at most `max_bytes`.
    pub(super) fn lines(reader: R, max_bytes: usize) -> Self {
        Self {
            source: Source::Lines(Lines::new(LineEnd::Lf, max_bytes)),
            reader,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.reader.decoded().phase()
    }

    pub(super) fn reader(&self) -> &R {
        &self.reader
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.reader.decoded().has_failed() {
            if let Err(error) = self.read_next(&mut bytes) {
                self.reader.decoded_mut().fail(error);
                // Free the memory of the unfinished message.
                self.source = Source::Lines(Lines::new(LineEnd::Lf, 0));
            }
        }
    }

    fn read_next(&mut self, bytes: &mut &[u8]) -> Result<(), DecodeError> {
        let Some(message) = self.source.next(bytes)? else {
            return Ok(());
        };
        if self.reader.decoded().has_ended() {
            self.reader.read_after_end(message)
        } else {
            self.reader.read(message)
        }
    }

    pub(super) fn finish(&mut self) -> Finish {
        let decoded = self.reader.decoded();
        if !decoded.has_failed()
            && !decoded.has_ended()
            && let Err(error) = self.reader.finish()
        {
            self.reader.decoded_mut().fail(error);
        }
        self.reader.decoded().finish()
    }

    pub(super) fn next(&mut self) -> Option<Result<Frame, DecodeError>> {
        self.reader.decoded_mut().next()
    }
}

impl Source {
    fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Result<Option<MessageRef<'a>>, DecodeError> {
        let too_long = |TooLong| DecodeError::LineTooLong;
        match self {
            Self::Events(parser) => parser.next(bytes).map_err(too_long),
            Self::Lines(lines) => match lines.next(bytes).map_err(too_long)? {
                Some(line) if !is_blank(line) => {
                    let data = std::str::from_utf8(line).map_err(|_| DecodeError::BadEvent)?;
                    let (event, id) = ("", "");
                    Ok(Some(MessageRef { event, data, id }))
                }
                Some(_) | None => Ok(None),
            },
        }
    }
}

/// Implements the public side of a decoder whose member `messages` does the work.
macro_rules! decoder {
    ($decoder:ident) => {
        impl $decoder {
            /// Returns the phase that the stream has reached.
            pub fn phase(&self) -> $crate::order::Phase {
                self.messages.phase()
            }
        }

        impl $crate::wire::Decode for $decoder {
            fn feed(&mut self, bytes: &[u8]) {
                self.messages.feed(bytes);
            }

            fn finish(&mut self) -> $crate::wire::Finish {
                self.messages.finish()
            }
        }

        impl Iterator for $decoder {
            type Item = Result<$crate::frame::Frame, $crate::wire::DecodeError>;

            fn next(&mut self) -> Option<Self::Item> {
                self.messages.next()
            }
        }
    };
}

/// Implements the accessors of a reader whose member `decoded` has the frames.
macro_rules! decoded {
    () => {
        fn decoded(&self) -> &Decoded {
            &self.decoded
        }

        fn decoded_mut(&mut self) -> &mut Decoded {
            &mut self.decoded
        }
    };
}

pub(super) use {decoded, decoder};
