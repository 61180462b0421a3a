//! Reads the session chat: our streams, and those of the server that its page describes.

use serde_json::Value;

use super::{SessionChat, TYPES};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::frame::{Frame, Status};
use crate::metadata::QueueStats;
use crate::time::{Timestamp, Timing};
use crate::wire::activity::is_activity;
use crate::wire::answer::Answer;
use crate::wire::decoded::Decoded;
use crate::wire::event_stream::MessageRef;
use crate::wire::members::{self, Members, take_members, word};
use crate::wire::messages::{Messages, ReadMessage, decoded, decoder};
use crate::wire::{DecodeError, Limits, object, typed};

/// The longest `complete`, beside the metadata: an answer of 4 MiB, of which JSON seldom escapes
/// every second byte.
const MAX_COMPLETE_BYTES: usize = 2 * Answer::MAX_BYTES;

/// Decodes a session chat, however its bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. The answer comes as one text with the
/// end, because the protocol sends it there. It holds one unfinished event of at most 8 MiB beside
/// the larger of the two limits, and the frames that were not taken yet.
///
/// `PROTOCOL.md`, section "Session chat", lists what differs from the turn that was encoded.
///
/// ```
/// use ragwire::wire::{Decode, Finish};
/// use ragwire::{Frame, SessionChat};
///
/// let mut decoder = SessionChat::default().decoder();
/// decoder.feed(b"data: {\"type\":\"complete\",\"response\":{\"content\":\"Yes.\",\"finished\":true}}\n\n");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
/// assert!(matches!(decoder.next(), Some(Ok(Frame::End(_)))));
/// assert_eq!(decoder.finish(), Finish::Complete);
/// ```
#[derive(Debug)]
pub struct SessionChatDecoder {
    messages: Messages<Reader>,
}

impl SessionChatDecoder {
    pub(super) fn new(limits: Limits) -> Self {
        let max_bytes = limits.larger().saturating_add(MAX_COMPLETE_BYTES);
        Self {
            messages: Messages::events(Reader::default(), max_bytes),
        }
    }
}

decoder!(SessionChatDecoder);

impl SessionChat {
    /// Creates a decoder for one stream.
    pub fn decoder(&self) -> SessionChatDecoder {
        SessionChatDecoder::new(self.limits)
    }
}

#[derive(Debug, Default)]
struct Reader {
    decoded: Decoded,
}

impl ReadMessage for Reader {
    decoded!();

    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let mut members = members::parse_filled(message.data)?;
        let Some(Value::String(kind)) = members.shift_remove("type") else {
            return Err(DecodeError::BadEvent);
        };
        let timestamp = members.get("timestamp").and_then(moment);
        if timestamp.is_some() {
            members.shift_remove("timestamp");
        }
        if kind == "complete" || kind == "error" {
            return self.end(&kind, members, timestamp);
        }
        match read_event(&kind, members).ok_or(DecodeError::BadEvent)? {
            Some(event) => self.decoded.push_event(event, timestamp),
            None => Ok(()),
        }
    }
}

impl Reader {
    fn end(
        &mut self,
        kind: &str,
        mut members: Members,
        timestamp: Option<Timestamp>,
    ) -> Result<(), DecodeError> {
        let mut response = take_members(&mut members, "response");
        let metadata = match members.shift_remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            Some(_) => return Err(DecodeError::BadTrailer),
            None => Members::new(),
        };
        let (_, mut end) = object::read_end(metadata).ok_or(DecodeError::BadTrailer)?;
        // The protocol requires the member, also of a turn that did not wait.
        let stats: Option<QueueStats> = object::take(&mut members, "queue_stats");
        if let Some(stats) = stats.filter(|stats| *stats != QueueStats::new(false, 0).queue_wait_ms(0.0)) {
            end.metadata.queue_stats = Some(stats);
        }
        if kind == "error" {
            let message = word(&members, "error");
            end.status = match (end.status, message) {
                (Status::Failed(failure), _) => Status::Failed(failure),
                (_, Some(message)) => {
                    Status::Failed(Failure::new(FailureKind::ChatFailed, message.to_owned()))
                }
                (_, None) => Status::Failed(Failure::default()),
            };
        } else if response.get("finished").and_then(Value::as_bool) == Some(false) {
            end.status = Status::Stopped;
        }
        end.timing = timestamp
            .zip(response.get("latency_ms").and_then(milliseconds))
            .map(|(timestamp, elapsed_ms)| Timing {
                timestamp,
                elapsed_ms,
            });
        if let Some(Value::String(content)) = response.shift_remove("content") {
            self.decoded.push_text(content)?;
        }
        self.decoded.push(Frame::End(end))
    }
}

/// Reads an event. The inner `None` is a step of the retrieval, which the stream also has as the
/// event that it was made of.
#[allow(clippy::option_option, reason = "neither an error nor an event")]
fn read_event(kind: &str, mut members: Members) -> Option<Option<Event>> {
    if kind == "tool_start" || kind == "tool_end" {
        let tool = word(&members, "tool_name")?;
        let id = word(&members, "call_id").unwrap_or_default();
        if is_activity(id, tool) {
            return Some(None);
        }
    }
    let renamed = |members: &mut Members, from: &str, to: &str| {
        if let Some(value) = members.shift_remove(from) {
            members.insert(to.into(), value);
        }
    };
    let name = match kind {
        "tool_start" => {
            renamed(&mut members, "tool_name", "tool");
            renamed(&mut members, "tool_args", "input");
            "tool_call"
        }
        "tool_end" => {
            renamed(&mut members, "tool_name", "tool");
            // The protocol has the result as a string of JSON.
            let result = match members.shift_remove("tool_result") {
                Some(Value::String(json)) => serde_json::from_str(&json).unwrap_or(Value::String(json)),
                other => other.unwrap_or_default(),
            };
            members.insert("result".into(), result);
            "tool_result"
        }
        kind => kind,
    };
    typed::read(name, members, &TYPES).map(Some)
}

/// A number of seconds since 1970.
fn moment(seconds: &Value) -> Option<Timestamp> {
    let micros = seconds.as_f64().filter(|seconds| *seconds >= 0.0)? * 1e6;
    // Casts saturate, and the timestamp has its own range.
    Some(Timestamp::from_micros(micros.round() as i64))
}

fn milliseconds(value: &Value) -> Option<u64> {
    let value = value.as_f64().filter(|value| *value >= 0.0)?;
    // Casts saturate.
    Some(value.round() as u64)
}
