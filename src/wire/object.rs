//! Events and ends as JSON objects, shared by the framed wire, JSON lines and server-sent events:
//! `[F-02]`, `[F-03]`, `[F-06]`, `[F-11]` and `[F-12]` of `PROTOCOL.md`.

use std::borrow::Cow;

use bytes::BytesMut;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{EncodeError, Limits};
use crate::event::{Custom, Event};
use crate::failure::{Failure, FailureKind};
use crate::frame::{End, Frame, Status};
use crate::json;
use crate::metadata::{Citation, Metadata, QueueStats, Usage};
use crate::time::Timestamp;

/// Appends an event. On an error `out` may contain a part of it.
pub(super) fn write_event(
    event: &Event,
    timestamp: Option<Timestamp>,
    out: &mut BytesMut,
) -> serde_json::Result<()> {
    json::write(out, &Line { event, timestamp })
}

/// Late events, which the wire can send only with the end.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// The elements of a JSON array, without its brackets.
    pub(super) json: BytesMut,
    /// The number of events in `json`.
    pub(super) count: u64,
    /// The number of events that exceeded the limit.
    pub(super) dropped: u64,
}

impl Late {
    /// Adds an event, or counts it as dropped if all of them would have more than
    /// `max_trailer_bytes`. On an error nothing changes.
    pub(super) fn push(
        &mut self,
        event: &Event,
        timestamp: Option<Timestamp>,
        limits: Limits,
    ) -> Result<(), EncodeError> {
        let from = self.json.len();
        let comma = usize::from(from > 0);
        self.json.extend_from_slice(&b","[..comma]);
        let written = write_event(event, timestamp, &mut self.json).map_err(EncodeError::from);
        let checked = written.and_then(|()| check_line(self.json.len() - from - comma, limits));
        if checked.is_err() || self.json.len() > limits.max_trailer_bytes {
            self.json.truncate(from);
            self.dropped += u64::from(checked.is_ok());
        } else {
            self.count += 1;
        }
        checked
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.dropped == 0
    }
}

/// Returns `TooLarge` if an event of `bytes` exceeds the limit for lines.
pub(super) fn check_line(bytes: usize, limits: Limits) -> Result<(), EncodeError> {
    let max_bytes = limits.max_line_bytes;
    if bytes > max_bytes {
        return Err(EncodeError::TooLarge { max_bytes });
    }
    Ok(())
}

/// Writes the metadata. While it exceeds the limit, it is written again: first without late events,
/// then with half of the citations and so on, finally with nothing but the status of the turn.
pub(super) fn write_end(end: &End, late: &Late, max_bytes: usize, out: &mut BytesMut) {
    if Trailer::new(end, late.dropped).write_within(late, max_bytes, out) {
        return;
    }
    out.extend_from_slice(br#"{"citations":[],"tools_used":["#);
    out.extend_from_slice(if matches!(end.status, Status::Failed(_)) {
        br#""chat_failed""#
    } else {
        b""
    });
    out.extend_from_slice(br#"],"status":""#);
    out.extend_from_slice(end.status.as_str().as_bytes());
    out.extend_from_slice(br#"","truncated":true}"#);
}

/// Writes the metadata alone, shortened as in [`write_end`], finally with nothing but `truncated`.
pub(super) fn write_metadata(metadata: &Metadata, max_bytes: usize, out: &mut BytesMut) {
    if !Trailer::metadata(metadata).write_within(&Late::default(), max_bytes, out) {
        out.extend_from_slice(br#"{"citations":[],"tools_used":[],"truncated":true}"#);
    }
}

/// One event line.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    #[serde(flatten)]
    pub(super) event: &'a Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<Timestamp>,
}

/// The metadata with its members in the order of `[F-06]`. `events` is inserted by hand, because it
/// is already JSON.
#[derive(Serialize)]
struct Trailer<'a> {
    citations: &'a [Citation],
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a str>,
    tools_used: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_stats: Option<&'a QueueStats>,
    #[serde(flatten)]
    extra: Extra<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
    #[serde(skip)]
    events_dropped: u64,
    #[serde(skip)]
    truncated: bool,
}

/// The names of the metadata's own members; an application's member with such a name is left out.
const RESERVED: [&str; 7] = [
    "citations",
    "mode",
    "tools_used",
    "usage",
    "queue_stats",
    "events_dropped",
    "truncated",
];

/// The names of further members of the trailer.
const RESERVED_TRAILER: [&str; 3] = ["status", "error", "events"];

struct Extra<'a> {
    members: &'a Map<String, Value>,
    also_reserved: &'static [&'static str],
}

impl Serialize for Extra<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.members.iter().filter(|(name, value)| {
            let name = name.as_str();
            !RESERVED.contains(&name) && !self.also_reserved.contains(&name) && !value.is_null()
        });
        serializer.collect_map(members)
    }
}

impl<'a> Trailer<'a> {
    fn new(end: &'a End, late_dropped: u64) -> Self {
        let mut trailer = Self::metadata(&end.metadata);
        trailer.extra.also_reserved = &RESERVED_TRAILER;
        trailer.status = (end.status != Status::Completed).then(|| end.status.as_str());
        trailer.events_dropped += late_dropped;
        if let Status::Failed(failure) = &end.status {
            trailer.error = Some(failure);
            trailer.citations = &[];
            trailer.tools_used = failed_tools();
        }
        trailer
    }

    fn metadata(metadata: &'a Metadata) -> Self {
        Self {
            citations: &metadata.citations,
            mode: metadata.mode.as_deref(),
            tools_used: &metadata.tools_used,
            usage: metadata.usage.as_ref(),
            queue_stats: metadata.queue_stats.as_ref(),
            extra: Extra {
                members: &metadata.extra,
                also_reserved: &[],
            },
            status: None,
            error: None,
            events_dropped: metadata.events_dropped,
            truncated: metadata.truncated,
        }
    }

    /// Appends the object, shortened until it has at most `max_bytes`. Returns `false` and appends
    /// nothing if that is impossible.
    fn write_within(mut self, late: &Late, max_bytes: usize, out: &mut BytesMut) -> bool {
        let from = out.len();
        let fits = |out: &BytesMut| out.len() - from <= max_bytes;
        if self.write(&late.json, out) && fits(out) {
            return true;
        }
        self.events_dropped += late.count;
        self.truncated = true;
        let mut citations = self.citations.len();
        loop {
            out.truncate(from);
            if self.write(&[], out) && fits(out) {
                return true;
            }
            if citations == 0 {
                out.truncate(from);
                return false;
            }
            citations /= 2;
            self.citations = &self.citations[..citations];
        }
    }

    /// Appends the object. Returns `false` if it cannot be serialised.
    fn write(&self, late: &[u8], out: &mut BytesMut) -> bool {
        if json::write(out, self).is_err() {
            return false;
        }
        // The object is never empty, so its closing brace can be removed to append more members.
        out.truncate(out.len() - 1);
        if !late.is_empty() {
            out.extend_from_slice(b",\"events\":[");
            out.extend_from_slice(late);
            out.extend_from_slice(b"]");
        }
        if self.events_dropped > 0 {
            out.extend_from_slice(format!(",\"events_dropped\":{}", self.events_dropped).as_bytes());
        }
        if self.truncated {
            out.extend_from_slice(b",\"truncated\":true");
        }
        out.extend_from_slice(b"}");
        true
    }
}

/// `tools_used` of a failed turn: by ADR 0007 always this, whatever the code of the failure.
fn failed_tools() -> &'static [String] {
    static TOOLS: std::sync::LazyLock<[String; 1]> =
        std::sync::LazyLock::new(|| [FailureKind::ChatFailed.to_string()]);
    &*TOOLS
}

/// Reads an object with a string `event`. An object whose `timestamp` is not in our form becomes an
/// application event, so that the member is kept.
pub(super) fn read_event(members: Map<String, Value>) -> Option<Frame> {
    let (event, timestamp) = read_parts(members)?;
    Some(Frame::Event { event, timestamp })
}

/// Reads a list of events; `None` if one element is not an event.
pub(super) fn read_events(events: Vec<Value>) -> Option<Vec<(Event, Option<Timestamp>)>> {
    let events = events.into_iter().map(|event| match event {
        Value::Object(members) => read_parts(members),
        _ => None,
    });
    events.collect()
}

fn read_parts(mut members: Map<String, Value>) -> Option<(Event, Option<Timestamp>)> {
    members.retain(|_, value| !value.is_null());
    let timestamp = members
        .get("timestamp")
        .and_then(Value::as_str)
        .and_then(Timestamp::parse);
    if timestamp.is_some() {
        members.shift_remove("timestamp");
    }
    let is_own = !members.contains_key("timestamp");
    let object = Value::Object(members);
    let name = object.get("event")?.as_str()?;
    let event = match Event::typed(name, &object).filter(|_| is_own) {
        Some(event) => event,
        None => Custom::deserialize(object).ok()?.into(),
    };
    Some((event, timestamp))
}

/// Reads the index, if any, and the event of a typed event's JSON, as [`read_event`] does but without
/// a map of its members. `None` if only that map shows what the object is.
pub(super) fn read_typed(json: &[u8]) -> Option<(Option<u64>, Frame)> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(default, deserialize_with = "json::present")]
        index: Option<u64>,
        event: &'a str,
        timestamp: Option<&'a str>,
    }

    let json = std::str::from_utf8(json).ok()?;
    let head: Head<'_> = serde_json::from_str(json).ok()?;
    let timestamp = match head.timestamp {
        Some(text) => Some(Timestamp::parse(text)?),
        None => None,
    };
    let event = Event::typed(head.event, &mut serde_json::Deserializer::from_str(json))?;
    Some((head.index, Frame::Event { event, timestamp }))
}

/// Reads the late events and the end from an object of [`write_end`]; `None` if its status is
/// unknown.
pub(super) fn read_end(mut members: Map<String, Value>) -> Option<(Vec<Frame>, End)> {
    members.retain(|_, value| !value.is_null());
    let late = match members.shift_remove("events") {
        Some(Value::Array(events)) => read_events(events)?
            .into_iter()
            .map(|(event, timestamp)| Frame::Event { event, timestamp })
            .collect(),
        Some(_) => return None,
        None => Vec::new(),
    };
    let error = take(&mut members, "error");
    let status = match members.shift_remove("status") {
        None => Status::Completed,
        Some(status) => read_status(&status, error)?,
    };
    Some((
        late,
        End {
            status,
            metadata: read_metadata(members)?,
            timing: None,
        },
    ))
}

/// Reads the status of a turn; `None` if it is unknown, because that must not pass for a complete
/// answer.
pub(super) fn read_status(status: &Value, error: Option<Map<String, Value>>) -> Option<Status> {
    match status.as_str() {
        Some("completed") => Some(Status::Completed),
        Some("failed") => Some(Status::Failed(read_failure(error))),
        Some("stopped") => Some(Status::Stopped),
        _ => None,
    }
}

/// Reads an object of [`write_metadata`]; `None` if `citations` or `tools_used` is not an array.
pub(super) fn read_metadata(mut members: Map<String, Value>) -> Option<Metadata> {
    members.retain(|_, value| !value.is_null());
    if ["citations", "tools_used"]
        .iter()
        .any(|name| members.get(*name).is_some_and(|list| !list.is_array()))
    {
        return None;
    }
    Some(Metadata {
        citations: take(&mut members, "citations").unwrap_or_default(),
        mode: take(&mut members, "mode"),
        tools_used: take(&mut members, "tools_used").unwrap_or_default(),
        usage: take(&mut members, "usage"),
        queue_stats: take(&mut members, "queue_stats"),
        events_dropped: take(&mut members, "events_dropped").unwrap_or_default(),
        truncated: take(&mut members, "truncated").unwrap_or_default(),
        extra: members,
    })
}

/// Takes a member of the expected type; a member of another type stays with the application's
/// members.
pub(super) fn take<T: serde::de::DeserializeOwned>(
    members: &mut Map<String, Value>,
    name: &str,
) -> Option<T> {
    let value = T::deserialize(members.get(name)?).ok()?;
    members.shift_remove(name);
    Some(value)
}

fn read_failure(error: Option<Map<String, Value>>) -> Failure {
    let default = Failure::default();
    let error = error.unwrap_or_default();
    let word = |name| error.get(name).and_then(Value::as_str).map(str::to_owned);
    Failure {
        kind: word("code").map_or(default.kind, FailureKind::from),
        message: word("message").map_or(default.message, Cow::from),
        recoverable: error
            .get("recoverable")
            .and_then(Value::as_bool)
            .unwrap_or(default.recoverable),
    }
}
