//! The events of a response with their sequence numbers, and the output that they build.

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::json;

/// Writes events with consecutive sequence numbers.
#[derive(Debug, Default)]
pub(super) struct Events {
    next: u64,
    /// The last event that the reader has.
    after: Option<u64>,
    /// The value of `ragwire` for the next event: the frame that is being written.
    extension: Option<Bytes>,
}

/// The event for a frame that the protocol has no shape for. OpenAI sends it while nothing happens.
const KEEP_ALIVE: &str = "keepalive";

impl Events {
    pub(super) fn new(after: Option<u64>) -> Self {
        Self {
            after,
            ..Self::default()
        }
    }

    /// Sets what the next event carries.
    pub(super) fn carry(&mut self, extension: Bytes) {
        self.extension = Some(extension);
    }

    /// Writes an event for what no other event has carried.
    pub(super) fn flush(&mut self, out: &mut BytesMut) {
        if self.extension.is_some() {
            self.write(KEEP_ALIVE, &json!({}), out);
        }
    }

    /// Writes an event; `members` is a JSON object without `type` and `sequence_number`.
    pub(super) fn write(&mut self, kind: &str, members: &impl Serialize, out: &mut BytesMut) {
        self.write_with(kind, out, |out| write(members, out));
    }

    /// Writes an event about the whole response, which is already JSON.
    pub(super) fn write_response(&mut self, kind: &str, response: &[u8], out: &mut BytesMut) {
        self.write_with(kind, out, |out| {
            out.extend_from_slice(br#"{"response":"#);
            out.extend_from_slice(response);
            out.extend_from_slice(b"}");
        });
    }

    fn write_with(&mut self, kind: &str, out: &mut BytesMut, members: impl FnOnce(&mut BytesMut)) {
        let number = self.next;
        self.next += 1;
        let extension = self.extension.take();
        if self.after.is_some_and(|after| number <= after) {
            return;
        }
        out.extend_from_slice(format!("event: {kind}\ndata: {{\"type\":\"{kind}\"").as_bytes());
        let brace = out.len();
        members(out);
        // Joins the two objects.
        let is_empty = &out[brace..] == b"{}";
        out[brace] = b',';
        out.truncate(if is_empty { brace } else { out.len() - 1 });
        out.extend_from_slice(format!(",\"sequence_number\":{number}").as_bytes());
        if let Some(extension) = extension {
            out.extend_from_slice(br#","ragwire":"#);
            out.extend_from_slice(&extension);
        }
        out.extend_from_slice(b"}\n\n");
    }
}

/// The items of the output, each in its last state, within a limit.
#[derive(Debug)]
pub(super) struct Output {
    items: Vec<Bytes>,
    bytes: usize,
    max_bytes: usize,
}

/// What an item, or a part of one, needs besides its strings.
pub(super) const ITEM_BYTES: usize = 512;

impl Output {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            items: Vec::new(),
            bytes: 0,
            max_bytes,
        }
    }

    /// Reserves memory. Returns `false` if it would exceed the limit.
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        let bytes = self.bytes.saturating_add(bytes);
        let fits = bytes <= self.max_bytes;
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// Adds the next item and returns its index and ID.
    pub(super) fn add(&mut self, prefix: &str, response: &str) -> (usize, String) {
        let index = self.items.len();
        self.items.push(Bytes::new());
        (index, format!("{prefix}_{response}_{index}"))
    }

    /// Sets the last state of an item.
    pub(super) fn finish(&mut self, index: usize, item: &Value) {
        let mut bytes = BytesMut::new();
        write(item, &mut bytes);
        self.items[index] = bytes.freeze();
    }

    /// Writes the items as an array.
    pub(super) fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"[");
        let items = self.items.iter().filter(|item| !item.is_empty());
        for (at, item) in items.enumerate() {
            out.extend_from_slice(&b","[..usize::from(at > 0)]);
            out.extend_from_slice(item);
        }
        out.extend_from_slice(b"]");
    }
}

/// The members that every event about an item begins with.
pub(super) fn of_item(id: &str, index: usize, more: Value) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("item_id".to_owned(), id.into());
    members.insert("output_index".to_owned(), index.into());
    if let Value::Object(more) = more {
        members.extend(more);
    }
    members
}

/// Appends strings, numbers and values, which always serialise.
pub(super) fn write(value: &impl Serialize, out: &mut BytesMut) {
    let written = json::write(out, value);
    debug_assert!(written.is_ok(), "{written:?}");
}
