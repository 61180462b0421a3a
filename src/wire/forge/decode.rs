//! Reads Forge's events: our streams, and those of Forge's own server.

use serde_json::Value;

use super::{Forge, LLM_ERROR, TYPES};
use crate::failure::{Failure, FailureKind};
use crate::frame::{End, Frame, Status};
use crate::metadata::Usage;
use crate::wire::decoded::Decoded;
use crate::wire::event_stream::MessageRef;
use crate::wire::members::{self, Members, word};
use crate::wire::messages::{Messages, ReadMessage, decoded, decoder};
use crate::wire::{DecodeError, object, typed};

/// Decodes Forge's events, however their bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. It holds one unfinished event, within
/// the larger of the two limits, and the frames that were not taken yet.
///
/// `error` alone does not end the stream, because `done` follows it. If the bytes end before that,
/// [`finish`](crate::wire::Decode::finish) ends the turn with the reported failure.
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

decoder!(ForgeDecoder);

impl Forge {
    /// Creates a decoder for one stream.
    pub fn decoder(&self) -> ForgeDecoder {
        ForgeDecoder {
            messages: Messages::events(Reader::default(), self.limits.larger()),
        }
    }
}

/// What `done` needs of the events before it.
#[derive(Debug, Default)]
struct Reader {
    decoded: Decoded,
    /// The number of `token` events.
    tokens: u64,
    failure: Option<Failure>,
}

impl ReadMessage for Reader {
    decoded!();

    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let mut members = members::parse_filled(message.data)?;
        // The name in the line is safe for readers of lines, that in the object is exact. Forge's
        // readers use the line.
        let kind = match members.shift_remove("type") {
            Some(Value::String(kind)) => kind,
            _ => message.event.to_owned(),
        };
        match kind.as_str() {
            "token" => {
                let Some(Value::String(content)) = members.shift_remove("content") else {
                    return Err(DecodeError::BadEvent);
                };
                self.tokens += 1;
                self.decoded.push_text(content)
            }
            "error" => {
                self.failure.get_or_insert_with(|| read_failure(&members));
                Ok(())
            }
            "done" => {
                let end = self.read_done(members).ok_or(DecodeError::BadTrailer)?;
                self.decoded.push(Frame::End(end))
            }
            kind => {
                let reserved = TYPES.map(|(name, _)| name);
                let event = typed::read(kind, members, &reserved).ok_or(DecodeError::BadEvent)?;
                self.decoded.push_event(event, None)
            }
        }
    }

    /// A server that fails may never send `done`.
    fn finish(&mut self) -> Result<(), DecodeError> {
        match self.failure.take() {
            Some(failure) => self.decoded.push(Frame::End(End::failed(failure))),
            None => Ok(()),
        }
    }
}

impl Reader {
    fn read_done(&mut self, mut members: Members) -> Option<End> {
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
fn read_failure(error: &Members) -> Failure {
    let default = Failure::default();
    Failure {
        kind: match word(error, "code") {
            None | Some(LLM_ERROR) => default.kind,
            Some(code) => FailureKind::from(code.to_ascii_lowercase()),
        },
        message: word(error, "message").map_or(default.message, |message| message.to_owned().into()),
        recoverable: error
            .get("recoverable")
            .and_then(Value::as_bool)
            .unwrap_or(default.recoverable),
    }
}
