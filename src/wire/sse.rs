//! Server-sent events, `text/event-stream`: the objects of [`super::ndjson`], one for each event,
//! with the index as the event's ID.
//!
//! The rules are in `PROTOCOL.md`, section "Server-sent events" (`[S-nn]`), the vectors in
//! `tests/vectors/sse`. [`EventStream`] reads any event stream, also those of other services.
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::event::Search;
//! use ragwire::wire::{Decode, Finish, Wire};
//! use ragwire::{End, Frame, Metadata, Sse};
//!
//! let frames = [
//!     Frame::Event { event: Search::new("bm25").into(), timestamp: None },
//!     Frame::Text("Yes.".into()),
//!     Frame::End(End::completed(Metadata::default())),
//! ];
//! let (mut encoder, mut bytes) = (Sse::default().encoder(), BytesMut::new());
//! for frame in &frames {
//!     encoder.encode(frame, &mut bytes).unwrap();
//! }
//! assert_eq!(
//!     &bytes[..],
//!     br#"retry: 3000
//! id: 0
//! event: search
//! data: {"event":"search","tool":"bm25"}
//!
//! id: 1
//! event: text
//! data: {"text":"Yes."}
//!
//! id: 2
//! event: end
//! data: {"end":"completed","metadata":{"citations":[],"tools_used":[]}}
//!
//! "#
//! );
//!
//! let mut decoder = Sse::default().decoder();
//! decoder.feed(&bytes);
//! let decoded: Result<Vec<Frame>, _> = decoder.by_ref().collect();
//! assert_eq!(decoded.unwrap(), frames);
//! assert_eq!(decoder.finish(), Finish::Complete);
//! ```

use std::fmt::Write;
use std::time::Duration;

use bytes::BytesMut;

pub use super::event_stream::{EventStream, EventTooLarge, Message};
use super::event_stream::{MessageRef, Parser};
use super::indexed::{self, Received};
use super::{Decode, DecodeError, EncodeError, Finish, Limits, Spelling, Wire, object, padding};
use crate::event::Event;
use crate::frame::{End, Frame};
use crate::order::Phase;
use crate::snapshot::Snapshot;
use crate::time::Timestamp;

/// Names that an event cannot have as its type: those of this wire, and those that an `EventSource`
/// treats specially.
const RESERVED_TYPES: [&str; 6] = [TEXT, "end", SNAPSHOT, "message", "open", "error"];
/// The type of a snapshot.
const SNAPSHOT: &str = "snapshot";
/// The type of a text.
const TEXT: &str = "text";
/// The type of an event that cannot have its name as its type.
const CUSTOM_TYPE: &str = "custom";

/// The wire of server-sent events.
///
/// The [module](self) has an example.
#[derive(Clone, Copy, Debug)]
pub struct Sse {
    limits: Limits,
    retry: Option<Duration>,
}

impl Sse {
    /// The media type, whose only encoding is UTF-8.
    pub const CONTENT_TYPE: &'static str = "text/event-stream";

    /// Chromium's own default; Firefox would wait 5 s.
    const RETRY: Duration = Duration::from_secs(3);

    /// Sets the limits for both directions.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long a browser waits before it reconnects. Default: 3 seconds. `None` sends no
    /// `retry` field, so the browser's own default applies.
    #[must_use]
    pub fn retry(mut self, retry: Option<Duration>) -> Self {
        self.retry = retry;
        self
    }

    /// Creates a decoder for one stream, or for the rest of one.
    pub fn decoder(&self) -> SseDecoder {
        SseDecoder {
            parser: Parser::new(self.limits.larger()),
            received: Received::default(),
            in_comment: false,
        }
    }
}

impl Default for Sse {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            retry: Some(Self::RETRY),
        }
    }
}

impl Wire for Sse {
    fn name(&self) -> &'static str {
        "sse"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(SseSpelling {
            limits: self.limits,
            retry: self.retry,
            index: 0,
        })
    }
}

/// The value of the field `event` for an event with this name.
fn type_of(name: &str) -> &str {
    // Python's `splitlines` and similar readers end lines at U+2028 and U+2029, which are not
    // control characters.
    if name.is_empty() || RESERVED_TYPES.contains(&name) || name.contains(['\u{2028}', '\u{2029}']) {
        CUSTOM_TYPE
    } else {
        name
    }
}

fn type_of_frame(frame: &Frame) -> &str {
    match frame {
        Frame::Event { event, .. } => type_of(event.name()),
        Frame::Text(_) => TEXT,
        Frame::End(_) => "end",
        Frame::Snapshot(_) => SNAPSHOT,
    }
}

#[derive(Debug)]
struct SseSpelling {
    limits: Limits,
    retry: Option<Duration>,
    /// The index of the next frame.
    index: u64,
}

/// The bytes before the object.
const DATA: &[u8] = b"data: ";

impl SseSpelling {
    /// Appends everything before the object, and returns the offset of the line that contains the
    /// object.
    fn begin(&self, event: &str, out: &mut BytesMut) -> usize {
        if let (0, Some(retry)) = (self.index, self.retry) {
            let _ = writeln!(out, "retry: {}", retry.as_millis());
        }
        let _ = writeln!(out, "id: {}\nevent: {event}", self.index);
        out.extend_from_slice(DATA);
        out.len() - DATA.len()
    }

    fn close(&mut self, out: &mut BytesMut) {
        out.extend_from_slice(b"\n\n");
        self.index += 1;
    }
}

impl Spelling for SseSpelling {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        // `Custom::new` refuses such a name, but an event that was decoded may have any name.
        if event.name().contains(char::is_control) {
            return Err(EncodeError::Name);
        }
        let max_bytes = self.limits.max_line_bytes;
        let line = self.begin(type_of(event.name()), out);
        object::write_event(event, timestamp, out)?;
        if out.len() - line > max_bytes {
            return Err(EncodeError::TooLarge { max_bytes });
        }
        self.close(out);
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        let (from, max_bytes) = (out.len(), self.limits.max_line_bytes);
        if text.len() <= max_bytes {
            let line = self.begin(TEXT, out);
            indexed::write_text(text, out);
            if out.len() - line <= max_bytes {
                return self.close(out);
            }
            out.truncate(from);
        }
        match indexed::halves(text) {
            Some((first, second)) => {
                self.text(Phase::Text, first, out);
                self.text(Phase::Text, second, out);
            }
            // Text cannot meet a limit below one character.
            None => {
                self.begin(TEXT, out);
                indexed::write_text(text, out);
                self.close(out);
            }
        }
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        self.begin("end", out);
        indexed::write_end(end, self.limits.max_trailer_bytes.saturating_sub(DATA.len()), out);
        self.close(out);
    }

    fn seek(&mut self, index: u64) -> bool {
        self.index = index;
        self.limits.max_line_bytes = self.limits.max_line_bytes.max(indexed::MIN_LINE_BYTES);
        true
    }

    fn snapshot(&mut self, snapshot: &Snapshot, out: &mut BytesMut) -> Result<(), EncodeError> {
        let (next, max_bytes) = (self.index, self.limits.max_trailer_bytes);
        self.index = indexed::index_of(snapshot, next)?;
        let line = self.begin(SNAPSHOT, out);
        let written = indexed::write_snapshot(snapshot, out);
        if written.is_err() || out.len() - line > max_bytes {
            self.index = next;
            return written.and(Err(EncodeError::TooLarge { max_bytes }));
        }
        self.close(out);
        Ok(())
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        out.extend_from_slice(b": keep-alive\n\n");
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::event(bytes, out);
    }
}

/// Decodes the server-sent events of this wire, however their bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. It holds one unfinished event, within
/// the larger of the two limits, and the frames that were not taken yet.
///
/// ```
/// use ragwire::wire::Decode;
/// use ragwire::{Frame, Sse};
///
/// let mut decoder = Sse::default().decoder();
/// decoder.feed(b"id: 7\nevent: text\ndata: {\"text\":\"Yes.\"}\n\nid: 8\n");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
/// assert_eq!(decoder.next(), None);
/// // The connection broke: ask for the rest from this index.
/// assert_eq!(decoder.next_index(), Some(8));
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    parser: Parser,
    received: Received,
    /// Whether the stream is within a comment after the end.
    in_comment: bool,
}

impl SseDecoder {
    /// Returns the phase that the stream has reached.
    pub fn phase(&self) -> Phase {
        self.received.phase()
    }

    /// Returns the index of the next frame, from which to resume a stream that broke off. `None`
    /// before the first frame.
    pub fn next_index(&self) -> Option<u64> {
        self.received.next_index()
    }

    /// Accepts the lines that may follow the end: empty lines and comments. The first byte of a
    /// line decides.
    fn take_trailing(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        for byte in bytes {
            match (self.in_comment, byte) {
                (_, b'\n' | b'\r') => self.in_comment = false,
                (true, _) => {}
                (false, b':') => self.in_comment = true,
                (false, _) => return Err(DecodeError::TrailingBytes),
            }
        }
        Ok(())
    }
}

/// Adds the frame of a message.
fn take_message(received: &mut Received, message: MessageRef<'_>) -> Result<(), DecodeError> {
    let index = read_index(message.id).ok_or(DecodeError::BadEvent)?;
    received.push(index, message.event == SNAPSHOT, || {
        if message.event == TEXT
            && let Some((_, text)) = indexed::read_text(message.data.as_bytes())
        {
            return Ok(Frame::Text(text.into_owned()));
        }
        let members = serde_json::from_str(message.data).map_err(|_| DecodeError::BadEvent)?;
        let frame = indexed::read(index, members)?;
        // Readers that use the type and readers that use the object must get the same frame.
        if type_of_frame(&frame) == message.event {
            Ok(frame)
        } else {
            Err(DecodeError::BadEvent)
        }
    })
}

/// Reads an index in the form that the encoder writes: no sign, no leading zero.
fn read_index(id: &str) -> Option<u64> {
    let canonical = id == "0" || (!id.starts_with('0') && id.bytes().all(|byte| byte.is_ascii_digit()));
    id.parse().ok().filter(|_| canonical)
}

impl Decode for SseDecoder {
    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.received.has_failed() {
            let taken = if self.received.has_ended() {
                self.take_trailing(std::mem::take(&mut bytes))
            } else {
                match self.parser.next(&mut bytes) {
                    Ok(Some(message)) => take_message(&mut self.received, message),
                    Ok(None) => Ok(()),
                    Err(_) => Err(DecodeError::LineTooLong),
                }
            };
            if let Err(error) = taken {
                self.received.fail(error);
                self.parser = Parser::new(0);
            }
        }
    }

    fn finish(&mut self) -> Finish {
        self.received.finish()
    }

    fn shows_failures(&self) -> bool {
        true
    }
}

impl Iterator for SseDecoder {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.received.next()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(name: &str) -> Frame {
        // With an unchecked name, as a decoder makes it.
        Frame::Event {
            event: serde_json::from_value(json!({"event": name, "data": 1})).unwrap(),
            timestamp: None,
        }
    }

    #[test]
    fn a_name_that_would_end_the_line_is_refused_and_writes_nothing() {
        let (mut encoder, mut out) = (Sse::default().encoder(), BytesMut::new());
        for name in ["a\nb", "a\r", "\0", "a\u{85}b", "\u{7f}"] {
            let error = encoder.encode(&event(name), &mut out).unwrap_err();
            assert_eq!((error.code(), out.len()), ("event_name", 0), "{name:?}");
        }
        encoder.encode(&event("a"), &mut out).unwrap();
        assert!(out.starts_with(b"retry: 3000\nid: 0\nevent: a\n"));
    }

    #[test]
    fn a_reserved_name_has_the_type_custom() {
        for name in [
            "text",
            "end",
            "snapshot",
            "message",
            "open",
            "error",
            "custom",
            "",
            "a\u{2028}b",
        ] {
            let (mut encoder, mut out) = (Sse::default().retry(None).encoder(), BytesMut::new());
            encoder.encode(&event(name), &mut out).unwrap();
            assert!(out.starts_with(b"id: 0\nevent: custom\ndata: {"), "{name}");
            let mut decoder = Sse::default().decoder();
            decoder.feed(&out);
            assert_eq!(decoder.next(), Some(Ok(event(name))));
        }
    }

    #[test]
    fn a_name_is_decoded_with_its_spaces() {
        for name in [" a", "  ", "a: b", ":", "\u{feff}"] {
            let (mut encoder, mut out) = (Sse::default().encoder(), BytesMut::new());
            encoder.encode(&event(name), &mut out).unwrap();
            let mut decoder = Sse::default().decoder();
            decoder.feed(&out);
            assert_eq!(decoder.next(), Some(Ok(event(name))), "{name:?}");
        }
    }

    #[test]
    fn an_id_is_digits() {
        for (id, index) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("", None),
            ("00", None),
            ("01", None),
            ("+1", None),
            ("-1", None),
            ("1.0", None),
            (" 1", None),
            ("18446744073709551616", None),
        ] {
            assert_eq!(read_index(id), index, "{id:?}");
        }
    }
}
