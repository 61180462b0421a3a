//! Reads Forge's events: our streams, and those of Forge's own server.

use serde_json::{Map, Value};

use super::{Forge, LLM_ERROR, TYPES};
use crate::failure::{Failure, FailureKind};
use crate::frame::{End, Frame, Status};
use crate::metadata::Usage;
use crate::order::Phase;
use crate::wire::event_stream::Message;
use crate::wire::messages::{self, Frames, Messages, ReadMessage};
use crate::wire::{Decode, DecodeError, Finish, object, typed};

/// Decodes Forge's events, however their bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. It holds one unfinished event, within
/// the larger of the two limits, and the frames that were not taken yet.
///
/// `error` alone does not end the stream, because `done` follows it. If the bytes end before that,
/// [`finish`](Decode::finish) ends the turn with the reported failure.
///
/// `PROTOCOL.md`, section "Forge", lists what differs from the turn that was encoded.
///
/// ```
/// use ragwire::wire::{Decode, Finish};
/// use ragwire::{Forge, Frame};
///
/// let mut decoder = Forge::default().decoder();
/// decoder.feed(b"event: token\ndata: {\"type\":\"token\",\"content\":\"Yes.\"}\n\n");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
/// assert!(matches!(decoder.finish(), Finish::Truncated { .. }));
/// ```
#[derive(Debug)]
pub struct ForgeDecoder {
    messages: Messages<Reader>,
}

impl ForgeDecoder {
    /// Returns the phase that the stream has reached.
    pub fn phase(&self) -> Phase {
        self.messages.phase()
    }
}

impl Forge {
    /// Creates a decoder for one stream.
    pub fn decoder(&self) -> ForgeDecoder {
        ForgeDecoder {
            messages: Messages::new(Reader::default(), self.limits.larger()),
        }
    }
}

impl Decode for ForgeDecoder {
    fn feed(&mut self, bytes: &[u8]) {
        self.messages.feed(bytes);
    }

    fn finish(&mut self) -> Finish {
        self.messages.finish()
    }
}

impl Iterator for ForgeDecoder {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.messages.next()
    }
}

/// What `done` needs of the events before it.
#[derive(Debug, Default)]
struct Reader {
    /// The number of `token` events.
    tokens: u64,
    failure: Option<Failure>,
}

impl ReadMessage for Reader {
    fn read(&mut self, message: &Message, frames: &mut Frames<'_>) -> Result<(), DecodeError> {
        let mut members = messages::object(message)?;
        members.retain(|_, value| !value.is_null());
        // The name in the line is safe for readers of lines, that in the object is exact. Forge's
        // readers use the line.
        let kind = match members.shift_remove("type") {
            Some(Value::String(kind)) => kind,
            _ => message.event.clone(),
        };
        match kind.as_str() {
            "token" => {
                let Some(Value::String(content)) = members.shift_remove("content") else {
                    return Err(DecodeError::BadEvent);
                };
                self.tokens += 1;
                frames.push(Frame::Text(content))
            }
            "error" => {
                self.failure.get_or_insert_with(|| read_failure(&members));
                Ok(())
            }
            "done" => {
                let end = self.read_done(members).ok_or(DecodeError::BadTrailer)?;
                frames.push(Frame::End(end))
            }
            kind => {
                let reserved = TYPES.map(|(name, _)| name);
                let event = typed::read(kind, members, &reserved).ok_or(DecodeError::BadEvent)?;
                frames.push(Frame::Event {
                    event,
                    timestamp: None,
                })
            }
        }
    }

    /// A server that fails may never send `done`.
    fn finish(&mut self) -> Option<Frame> {
        self.failure.take().map(End::failed).map(Frame::End)
    }
}

impl Reader {
    fn read_done(&mut self, mut members: Map<String, Value>) -> Option<End> {
        let status = match (self.failure.take(), members.shift_remove("status")) {
            (Some(failure), _) => Status::Failed(failure),
            (None, None) => Status::Completed,
            (None, Some(status)) => object::read_status(&status, None)?,
        };
        let tokens = members
            .shift_remove("tokens_generated")
            .and_then(|tokens| tokens.as_u64());
        // Totals of the events, which an encoder counts again.
        for total in [
            "total_time_ms",
            "iterations",
            "sources_count",
            "confidence",
            "cached",
        ] {
            members.shift_remove(total);
        }
        let mut metadata = object::read_metadata(members)?;
        // A number that is not that of the events was counted by the model.
        if metadata.usage.is_none() && tokens.is_some_and(|tokens| tokens != self.tokens) {
            metadata.usage = tokens.map(|tokens| Usage::new().output_tokens(tokens));
        }
        Some(End {
            status,
            metadata,
            timing: None,
        })
    }
}

/// Reads `error`. Codes are upper case in Forge and lower case here.
fn read_failure(error: &Map<String, Value>) -> Failure {
    let default = Failure::default();
    let word = |name| error.get(name).and_then(Value::as_str);
    Failure {
        kind: match word("code") {
            None | Some(LLM_ERROR) => default.kind,
            Some(code) => FailureKind::from(code.to_ascii_lowercase()),
        },
        message: word("message").map_or(default.message, |message| message.to_owned().into()),
        recoverable: error
            .get("recoverable")
            .and_then(Value::as_bool)
            .unwrap_or(default.recoverable),
    }
}
