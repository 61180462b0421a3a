//! Frames as JSON objects with an index, shared by `Sse` and `Ndjson`: `[N-02]` to `[N-07]` and
//! `[N-10]` of `PROTOCOL.md`.
//!
//! It does not know how a wire separates objects or where the index is.

use std::borrow::Cow;

use bytes::BytesMut;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::decoded::Decoded;
use super::{DecodeError, EncodeError, Finish, object};
use crate::failure::Failure;
use crate::frame::{End, Frame, Status};
use crate::json;
use crate::order::Phase;
use crate::snapshot::Snapshot;
use crate::time::{Timestamp, Timing};

/// The largest index: the largest integer that every JSON reader represents exactly.
pub(super) const MAX_INDEX: u64 = (1 << 53) - 1;

/// The smallest line limit for frames that a journal has numbered. A text that is cut in two would
/// take the index of the next frame. Journaled texts are therefore at most 4 KiB, which is 24 KiB
/// if every byte must be escaped, plus the object around it.
pub(super) const MIN_LINE_BYTES: usize = 32 * 1024;

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

/// The first members of an end; the metadata and the time are appended by hand.
#[derive(Serialize)]
struct Ending<'a> {
    end: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
}

/// Appends `{"text":…}`.
pub(super) fn write_text(text: &str, out: &mut BytesMut) {
    // A string always serialises.
    let _ = json::write(out, &Text { text });
}

/// Appends `{"end":…,"error":…,"metadata":…,"timestamp":…,"elapsed_ms":…}`, shortened to
/// `max_bytes`: first the metadata is shortened, then the error is left out.
pub(super) fn write_end(end: &End, max_bytes: usize, out: &mut BytesMut) {
    let from = out.len();
    let error = match &end.status {
        Status::Failed(failure) => Some(failure),
        Status::Completed | Status::Stopped => None,
    };
    let moment = end.timing.map_or_else(String::new, |timing| {
        format!(
            ",\"timestamp\":\"{}\",\"elapsed_ms\":{}",
            timing.timestamp, timing.elapsed_ms
        )
    });
    for error in [error, None] {
        out.truncate(from);
        let ending = Ending {
            end: end.status.as_str(),
            error,
        };
        let _ = json::write(out, &ending);
        out.truncate(out.len() - 1);
        out.extend_from_slice(b",\"metadata\":");
        let around = out.len() - from + moment.len() + 1;
        object::write_metadata(&end.metadata, max_bytes.saturating_sub(around), out);
        out.extend_from_slice(moment.as_bytes());
        out.extend_from_slice(b"}");
        if out.len() - from <= max_bytes {
            return;
        }
    }
}

/// The index of a snapshot: that of the last frame that it replaces, which must be at least `next`,
/// the index of the next frame.
pub(super) fn index_of(snapshot: &Snapshot, next: u64) -> Result<u64, EncodeError> {
    let index = snapshot.frames.checked_sub(1).filter(|index| *index >= next);
    index.ok_or(EncodeError::Snapshot)
}

/// Appends `{"snapshot":{"events":[…],"text":…,"events_dropped":…}}`.
pub(super) fn write_snapshot(snapshot: &Snapshot, out: &mut BytesMut) -> Result<(), EncodeError> {
    out.extend_from_slice(b"{\"snapshot\":{\"events\":[");
    for (at, (event, timestamp)) in snapshot.events.iter().enumerate() {
        out.extend_from_slice(&b","[..usize::from(at > 0)]);
        object::write_event(event, *timestamp, out)?;
    }
    out.extend_from_slice(b"],\"text\":");
    json::write(out, &snapshot.text)?;
    if snapshot.events_dropped > 0 {
        out.extend_from_slice(format!(",\"events_dropped\":{}", snapshot.events_dropped).as_bytes());
    }
    out.extend_from_slice(b"}}");
    Ok(())
}

/// The two halves of a text that is too long for one frame; `None` for a single character.
pub(super) fn halves(text: &str) -> Option<(&str, &str)> {
    let middle = text.floor_char_boundary(text.len() / 2);
    let middle = if middle == 0 {
        text.ceil_char_boundary(1)
    } else {
        middle
    };
    (middle < text.len()).then(|| text.split_at(middle))
}

/// Reads the index, if any, and the text of an object that has nothing else, as [`read`] does but
/// without a map of its members: it is the most frequent object by far.
pub(super) fn read_text(json: &[u8]) -> Option<(Option<u64>, Cow<'_, str>)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Object<'a> {
        #[serde(default, deserialize_with = "json::present")]
        index: Option<u64>,
        #[serde(borrow)]
        text: Cow<'a, str>,
    }

    if begins_with_event(json) {
        return None;
    }
    let Object { index, text } = serde_json::from_slice(json).ok()?;
    (!text.is_empty()).then_some((index, text))
}

/// Returns `true` for an event as this crate writes it. Its parser would find that out with an error,
/// which costs more than a text.
fn begins_with_event(json: &[u8]) -> bool {
    let members = json.strip_prefix(br#"{"index":"#).map(|rest| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        &rest[digits..]
    });
    let first = members.unwrap_or(json).get(1..).unwrap_or_default();
    first.starts_with(br#""event":"#)
}

/// Returns `true` if [`read`] returns either a snapshot or an error for this object.
pub(super) fn is_snapshot(members: &Map<String, Value>) -> bool {
    let has = |name| members.get(name).is_some_and(|value: &Value| !value.is_null());
    !has("event") && has("snapshot")
}

/// Reads one object, whose index was already taken out.
pub(super) fn read(index: u64, mut members: Map<String, Value>) -> Result<Frame, DecodeError> {
    members.retain(|_, value| !value.is_null());
    // Check for an event first: all its other members, whatever their name, belong to the event.
    if members.contains_key("event") {
        return object::read_event(members).ok_or(DecodeError::BadEvent);
    }
    let [text, end, snapshot] = ["text", "end", "snapshot"].map(|name| members.shift_remove(name));
    match (text, end, snapshot) {
        (Some(Value::String(text)), None, None) if !text.is_empty() => Ok(Frame::Text(text)),
        (None, Some(status), None) => read_end(&status, members)
            .map(Frame::End)
            .ok_or(DecodeError::BadTrailer),
        (None, None, Some(Value::Object(members))) => read_snapshot(index, members)
            .map(|snapshot| Frame::Snapshot(Box::new(snapshot)))
            .ok_or(DecodeError::BadEvent),
        _ => Err(DecodeError::BadEvent),
    }
}

fn read_snapshot(index: u64, mut members: Map<String, Value>) -> Option<Snapshot> {
    members.retain(|_, value| !value.is_null());
    let events = match members.shift_remove("events") {
        Some(Value::Array(events)) => object::read_events(events)?,
        Some(_) => return None,
        None => Vec::new(),
    };
    let text = match members.shift_remove("text") {
        Some(Value::String(text)) => text,
        Some(_) => return None,
        None => String::new(),
    };
    Some(Snapshot {
        frames: index + 1,
        events,
        text,
        events_dropped: object::take(&mut members, "events_dropped").unwrap_or_default(),
    })
}

fn read_end(status: &Value, mut members: Map<String, Value>) -> Option<End> {
    let error = object::take(&mut members, "error");
    let metadata = match members.shift_remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        Some(_) => return None,
        None => Map::new(),
    };
    let timestamp = members
        .get("timestamp")
        .and_then(Value::as_str)
        .and_then(Timestamp::parse);
    let elapsed_ms = members.get("elapsed_ms").and_then(Value::as_u64);
    Some(End {
        status: object::read_status(status, error)?,
        metadata: object::read_metadata(metadata)?,
        timing: timestamp.zip(elapsed_ms).map(|(timestamp, elapsed_ms)| Timing {
            timestamp,
            elapsed_ms,
        }),
    })
}

/// The decoded frames of a stream whose frames have an index: in order and without a gap.
#[derive(Debug, Default)]
pub(super) struct Received {
    decoded: Decoded,
    next_index: Option<u64>,
    /// A text is appended to the text before it, if that was not taken yet.
    pub(super) merges_texts: bool,
}

impl Received {
    pub(super) fn phase(&self) -> Phase {
        self.decoded.phase()
    }

    pub(super) fn next_index(&self) -> Option<u64> {
        self.next_index
    }

    pub(super) fn has_failed(&self) -> bool {
        self.decoded.has_failed()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.phase() == Phase::Ended
    }

    /// Adds a frame after checking its index. A snapshot may skip indexes, because it replaces the
    /// frames that this stream does not have.
    pub(super) fn push(
        &mut self,
        index: u64,
        is_snapshot: bool,
        frame: impl FnOnce() -> Result<Frame, DecodeError>,
    ) -> Result<(), DecodeError> {
        self.check(index, is_snapshot)?;
        self.decoded.push(frame()?)?;
        self.next_index = Some(index + 1);
        Ok(())
    }

    /// Adds a piece of the answer, which is not empty, after checking its index.
    pub(super) fn push_text(&mut self, index: u64, text: Cow<'_, str>) -> Result<(), DecodeError> {
        self.check(index, false)?;
        match self.decoded.last_mut() {
            Some(Frame::Text(last)) if self.merges_texts => last.push_str(&text),
            _ => self.decoded.push(Frame::Text(text.into_owned()))?,
        }
        self.next_index = Some(index + 1);
        Ok(())
    }

    fn check(&self, index: u64, is_snapshot: bool) -> Result<(), DecodeError> {
        if index > MAX_INDEX {
            return Err(DecodeError::BadEvent);
        }
        let follows = |expected| index == expected || (is_snapshot && index > expected);
        if !self.next_index.is_none_or(follows) {
            return Err(DecodeError::Gap);
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, error: DecodeError) {
        self.decoded.fail(error);
    }

    pub(super) fn finish(&self) -> Finish {
        self.decoded.finish()
    }
}

impl Iterator for Received {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.decoded.next()
    }
}
