//! One line, and the helpers that both vocabularies share.

use std::fmt::Write;

use bytes::BytesMut;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::event::Event;
use crate::frame::End;
use crate::json;
use crate::time::Timestamp;
use crate::wire::object::{self, Late};
use crate::wire::{EncodeError, typed};

use super::TYPES;

/// Writes lines within a limit. To undo an event that does not fit, restore a copy of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    /// The index of the next line, if the vocabulary sends it.
    index: Option<u64>,
}

impl Lines {
    pub(super) fn new(first_index: Option<u64>) -> Self {
        Self { index: first_index }
    }

    /// Appends a line. On an error `out` may contain a part of it.
    pub(super) fn write(
        &mut self,
        kind: &str,
        data: Option<&impl Serialize>,
        at: Option<Timestamp>,
        max_bytes: usize,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let from = out.len();
        begin(kind, out)?;
        if let Some(data) = data {
            out.extend_from_slice(DATA);
            json::write(out, data)?;
        }
        self.finish(at, out)?;
        // The limit does not include the line end.
        if out.len() - from - 1 > max_bytes {
            return Err(EncodeError::TooLarge { max_bytes });
        }
        Ok(())
    }

    /// [`Lines::write`] without a limit, for data that always serialises.
    pub(super) fn append(
        &mut self,
        kind: &str,
        data: Option<&impl Serialize>,
        at: Option<Timestamp>,
        out: &mut BytesMut,
    ) {
        let from = out.len();
        if self.write(kind, data, at, usize::MAX, out).is_err() {
            // A partial line must not remain in any case.
            out.truncate(from);
        }
    }

    /// Appends the last line of a turn, whose data is `data` and the metadata.
    pub(super) fn append_last(
        &mut self,
        kind: &str,
        data: &Map<String, Value>,
        end: &End,
        max_bytes: usize,
        out: &mut BytesMut,
    ) {
        let from = out.len();
        let mut written = begin(kind, out);
        out.extend_from_slice(DATA);
        written = written.and_then(|()| json::write(out, data));
        // The object is opened again for the metadata, which has its own limit.
        out.truncate(out.len() - 1);
        out.extend_from_slice(if data.is_empty() {
            br#""metadata":"#
        } else {
            br#","metadata":"#
        });
        object::write_end(end, &Late::default(), max_bytes, out);
        out.extend_from_slice(b"}");
        let at = end.timing.map(|timing| timing.timestamp);
        if written.and_then(|()| self.finish(at, out)).is_err() {
            out.truncate(from);
        }
    }

    fn finish(&mut self, at: Option<Timestamp>, out: &mut BytesMut) -> serde_json::Result<()> {
        if let Some(at) = at {
            out.extend_from_slice(br#","meta":{"at":"#);
            json::write(out, &at)?;
            out.extend_from_slice(b"}");
        }
        if let Some(index) = &mut self.index {
            let _ = write!(out, r#","streamIndex":{index}"#);
            *index += 1;
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

const DATA: &[u8] = br#","data":"#;

fn begin(kind: &str, out: &mut BytesMut) -> serde_json::Result<()> {
    out.extend_from_slice(br#"{"type":"#);
    json::write(out, &kind)
}

/// Appends an event that Eve does not define, under its name.
pub(super) fn write_undefined(
    lines: &mut Lines,
    event: &Event,
    at: Option<Timestamp>,
    max_bytes: usize,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let name = typed::unreserved_name(event, &TYPES);
    let data = if let Event::Custom(custom) = event {
        match &custom.data {
            Value::Null => Map::new(),
            Value::Object(members) => members.clone(),
            // Readers expect an object.
            other => [("value".to_owned(), other.clone())].into_iter().collect(),
        }
    } else {
        typed::members(event)?
    };
    lines.write(&name, some(&data), at, max_bytes, out)
}

/// Returns the object, or `None` if it is empty.
pub(super) fn some(members: &Map<String, Value>) -> Option<&Map<String, Value>> {
    (!members.is_empty()).then_some(members)
}

/// Builds an object of the members that have a value.
pub(super) fn data<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// An optional string as JSON.
pub(super) fn word(word: Option<&String>) -> Option<Value> {
    word.map(|word| word.as_str().into())
}

/// The members of an event except those that Eve has a member for.
pub(super) fn others(event: &Event, known: &[&str]) -> serde_json::Result<Map<String, Value>> {
    let mut members = typed::members(event)?;
    members.retain(|name, value| !known.contains(&name.as_str()) && !value.is_null());
    Ok(members)
}
