//! What the decoders of protocols that are not ours share: JSON objects in server-sent events, and
//! the ends of turns that another server may have written.
//!
//! Such a decoder ignores what it does not know, because those protocols grow. It fails only if
//! the bytes are not JSON, exceed a limit, or continue after the end.

use serde_json::{Map, Value};

use super::decoded::Decoded;
use super::event_stream::Parser;
use super::{DecodeError, Limits, object};
use crate::event::{Custom, Event};
use crate::frame::{End, Frame, Status};
use crate::metadata::Metadata;
use crate::time::Timestamp;

/// Server-sent events whose data is one JSON object each, and the frames decoded from them.
#[derive(Debug)]
pub(super) struct Objects {
    parser: Parser,
    pub(super) decoded: Decoded,
}

impl Objects {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            parser: Parser::new(limits.larger()),
            decoded: Decoded::default(),
        }
    }

    /// Passes the data of each event that is now complete to `take`, until it returns an error.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&mut Decoded, &str) -> Result<(), DecodeError>,
    ) {
        while !bytes.is_empty() && !self.decoded.has_failed() {
            let taken = match self.parser.next(&mut bytes) {
                Ok(Some(message)) => take(&mut self.decoded, &message.data),
                Ok(None) => Ok(()),
                Err(_) => Err(DecodeError::LineTooLong),
            };
            if let Err(error) = taken {
                self.decoded.fail(error);
            }
        }
    }
}

/// The mark after the last object of several protocols.
pub(super) const DONE: &str = "[DONE]";

/// Reads an object without its `null` members.
pub(super) fn read_object(data: &str) -> Result<Map<String, Value>, DecodeError> {
    let mut members: Map<String, Value> = serde_json::from_str(data).map_err(|_| DecodeError::BadEvent)?;
    members.retain(|_, value| !value.is_null());
    Ok(members)
}

/// The member `name` if it is a string.
pub(super) fn word<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name)?.as_str()
}

/// The member `name`, which must be a string.
pub(super) fn required<'a>(members: &'a Map<String, Value>, name: &str) -> Result<&'a str, DecodeError> {
    word(members, name).ok_or(DecodeError::BadEvent)
}

/// Takes a member, or `null` if it is absent.
pub(super) fn take(members: &mut Map<String, Value>, name: &str) -> Value {
    members.shift_remove(name).unwrap_or_default()
}

/// Adds a frame. Nothing may follow the end.
pub(super) fn push(decoded: &mut Decoded, frame: Frame) -> Result<(), DecodeError> {
    decoded.push(frame).map_err(|_| DecodeError::TrailingBytes)
}

/// Adds the event `name` with these members. `timestamp` is its time if it is in our form. Members
/// that do not fit the event's shape make it an application event.
pub(super) fn push_event(
    decoded: &mut Decoded,
    name: &str,
    members: impl IntoIterator<Item = (String, Value)>,
) -> Result<(), DecodeError> {
    let mut event = Map::new();
    event.insert("event".to_owned(), name.into());
    event.extend(members.into_iter().filter(|(name, _)| name != "event"));
    push(decoded, object::read_event(event).ok_or(DecodeError::BadEvent)?)
}

/// Adds an application event. Its name may be any.
pub(super) fn push_custom(
    decoded: &mut Decoded,
    name: &str,
    data: Value,
    timestamp: Option<Timestamp>,
) -> Result<(), DecodeError> {
    let name = name.to_owned();
    let event = Event::Custom(Custom { name, data });
    push(decoded, Frame::Event { event, timestamp })
}

/// A pair for [`push_event`].
pub(super) fn member(name: &str, value: impl Into<Value>) -> (String, Value) {
    (name.to_owned(), value.into())
}

/// Returns `true` for our trailer: our encoders always write both lists.
pub(super) fn is_trailer(members: &Map<String, Value>) -> bool {
    let is_list = |name: &str| members.get(name).is_some_and(Value::is_array);
    is_list("citations") && is_list("tools_used")
}

/// Reads the end from the metadata of a stream: our trailer, or else members of another server, for
/// a turn with this `status`. Only our trailer says how the turn ended.
pub(super) fn read_end(members: Map<String, Value>, status: Status) -> Result<End, DecodeError> {
    if is_trailer(&members) {
        let (_, end) = object::read_end(members).ok_or(DecodeError::BadTrailer)?;
        return Ok(end);
    }
    Ok(End {
        status,
        metadata: Metadata {
            extra: members,
            ..Metadata::default()
        },
        timing: None,
    })
}
