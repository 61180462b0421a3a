//! The framed wire of ADR 0007: `(JSON-object LF)* 0x1D text* 0x1E JSON-object`, as
//! `text/plain; charset=utf-8`.
//!
//! The rules are in `PROTOCOL.md`, section "The framed wire" (`[F-nn]`), the vectors in
//! `tests/vectors/framed`; `docs/protocols.md` introduces ADR 0007.
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::event::Search;
//! use ragwire::wire::{Decode, Finish, Wire};
//! use ragwire::{End, Frame, Framed, Metadata};
//!
//! let frames = [
//!     Frame::Event { event: Search::new("bm25").into(), timestamp: None },
//!     Frame::Text("Yes.".into()),
//!     Frame::End(End::completed(Metadata::default())),
//! ];
//! let (mut encoder, mut bytes) = (Framed::default().encoder(), BytesMut::new());
//! for frame in &frames {
//!     encoder.encode(frame, &mut bytes).unwrap();
//! }
//! assert_eq!(&bytes[..], b"{\"event\":\"search\",\"tool\":\"bm25\"}\n\x1dYes.\x1e{\"citations\":[],\"tools_used\":[]}");
//!
//! let mut decoder = Framed::default().decoder();
//! decoder.feed(&bytes);
//! let decoded: Result<Vec<Frame>, _> = decoder.by_ref().collect();
//! assert_eq!(decoded.unwrap(), frames);
//! assert_eq!(decoder.finish(), Finish::Complete);
//! ```

use bytes::BytesMut;

use super::decoded::{Decoded, is_blank};
use super::object::{self, Late};
use super::{Decode, DecodeError, EncodeError, Finish, Limits, Spelling, Wire, padding};
use crate::event::Event;
use crate::frame::{End, Frame, Status};
use crate::metadata::Citation;
use crate::order::Phase;
use crate::time::Timestamp;
use crate::utf8::Carry;

/// The byte before the text.
const TEXT: u8 = 0x1d;
/// The byte before the metadata.
const TRAILER: u8 = 0x1e;

/// The framed wire. `Framed::default()` is the stream that ADR 0007 describes.
///
/// The [module](self) has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framed {
    limits: Limits,
    citation_extras: bool,
}

impl Framed {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "text/plain; charset=utf-8";

    /// Sets the limits for both directions.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Writes citations with all their members, such as the heading. By default only the members of
    /// ADR 0007 are written, because readers with its strict schema reject any other.
    #[must_use]
    pub fn citation_extras(mut self) -> Self {
        self.citation_extras = true;
        self
    }

    /// Creates a decoder for one stream.
    pub fn decoder(&self) -> FramedDecoder {
        FramedDecoder {
            limits: self.limits,
            unfinished: Vec::new(),
            nesting: Nesting::default(),
            carry: Carry::default(),
            decoded: Decoded::default(),
        }
    }
}

impl Wire for Framed {
    fn name(&self) -> &'static str {
        "framed"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(FramedSpelling {
            limits: self.limits,
            citation_extras: self.citation_extras,
            late: Late::default(),
            written_chars: 0,
            is_retracted: false,
        })
    }
}

#[derive(Debug)]
struct FramedSpelling {
    limits: Limits,
    citation_extras: bool,
    /// Events after the first text; at most `max_trailer_bytes`.
    late: Late,
    /// The number of characters of the answer so far.
    written_chars: u64,
    /// Whether the last text was withdrawn, so that the next one begins a paragraph.
    is_retracted: bool,
}

impl FramedSpelling {
    /// Withdraws text. The wire cannot take back what it has written: the reader sees a new
    /// paragraph instead, and the event is not written, because its position would be lost.
    fn retract(&mut self, kept: u64) {
        if kept < self.written_chars {
            self.written_chars = kept;
            self.is_retracted = true;
            self.late.dropped += 1;
        }
    }

    fn write_text(&mut self, phase: Phase, text: &str, out: &mut BytesMut) {
        if phase == Phase::Events {
            out.extend_from_slice(&[TEXT]);
        }
        let mut rest = text.as_bytes();
        // Both separators are single bytes below 0x80, so they never occur within a character and
        // this filter needs no state between pieces.
        while let Some(at) = memchr::memchr2(TEXT, TRAILER, rest) {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(if rest[at] == TEXT { "\u{241d}" } else { "\u{241e}" }.as_bytes());
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
    }
}

/// Returns the citation with the members of ADR 0007 only.
fn strict(citation: &Citation) -> Citation {
    Citation {
        page_number: citation.page_number,
        score: citation.score,
        ..Citation::new(
            &citation.document_id,
            &citation.chunk_id,
            &citation.supporting_quote,
            &citation.source_tool,
        )
    }
}

impl Spelling for FramedSpelling {
    fn event(
        &mut self,
        phase: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        if let (Event::Retract(retract), Phase::Text) = (event, phase) {
            self.retract(retract.kept);
            return Ok(());
        }
        if phase == Phase::Events {
            let from = out.len();
            object::write_event(event, timestamp, out)?;
            object::check_line(out.len() - from, self.limits)?;
            out.extend_from_slice(b"\n");
            return Ok(());
        }
        self.late.push(event, timestamp, self.limits)
    }

    fn text(&mut self, phase: Phase, text: &str, out: &mut BytesMut) {
        if std::mem::take(&mut self.is_retracted) {
            out.extend_from_slice(b"\n\n");
        }
        self.written_chars += text.chars().count() as u64;
        self.write_text(phase, text, out);
    }

    fn end(&mut self, phase: Phase, end: &End, out: &mut BytesMut) {
        let mut phase = phase;
        if let Status::Failed(failure) = &end.status
            && !failure.message.is_empty()
        {
            if phase == Phase::Text {
                out.extend_from_slice(b"\n\n");
            }
            self.write_text(phase, &failure.message, out);
            phase = Phase::Text;
        }
        if phase == Phase::Events {
            out.extend_from_slice(&[TEXT]);
        }
        out.extend_from_slice(&[TRAILER]);
        let max_bytes = self.limits.max_trailer_bytes;
        if self.citation_extras || end.metadata.citations.is_empty() {
            return object::write_end(end, &self.late, max_bytes, out);
        }
        let mut end = end.clone();
        end.metadata.citations = end.metadata.citations.iter().map(strict).collect();
        object::write_end(&end, &self.late, max_bytes, out);
    }

    fn shows_events(&self, phase: Phase) -> bool {
        phase == Phase::Events
    }

    fn expands_snapshots(&self) -> bool {
        true
    }

    fn keep_alive(&mut self, phase: Phase, out: &mut BytesMut) {
        // Readers skip a blank line before the text; within the text they would show it.
        if phase == Phase::Events {
            out.extend_from_slice(b"\n");
        }
    }

    fn pad(&mut self, phase: Phase, bytes: usize, out: &mut BytesMut) {
        // The text itself follows, to the last byte before the trailer.
        if phase == Phase::Events {
            padding::blank(bytes, out);
        }
    }
}

/// Decodes the framed wire, however its bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. Text is returned as it arrives, in
/// whole characters and without any byte of the protocol.
///
/// It holds one unfinished event line or the unfinished metadata, within the limits, and the frames
/// that were not taken yet.
///
/// ```
/// use ragwire::wire::{Decode, Finish};
/// use ragwire::{Frame, Framed, Phase};
///
/// let mut decoder = Framed::default().decoder();
/// decoder.feed(b"{\"event\":\"search\",\"tool\":\"bm25\"}\n\x1dYe");
/// assert!(matches!(decoder.next(), Some(Ok(Frame::Event { .. }))));
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Ye".into()))));
/// assert_eq!(decoder.next(), None);
/// assert_eq!(decoder.finish(), Finish::Truncated { phase: Phase::Text });
/// ```
#[derive(Debug)]
pub struct FramedDecoder {
    limits: Limits,
    /// The unfinished line or metadata.
    unfinished: Vec<u8>,
    nesting: Nesting,
    carry: Carry,
    decoded: Decoded,
}

impl FramedDecoder {
    /// Returns the phase that the stream has reached.
    pub fn phase(&self) -> Phase {
        self.decoded.phase()
    }

    fn feed_events(&mut self, bytes: &[u8]) -> Result<usize, DecodeError> {
        let at = memchr::memchr3(b'\n', TEXT, TRAILER, bytes);
        // The limit is checked first, so that a line that a separator cuts short gives the same
        // error however it arrived.
        let line = &bytes[..at.unwrap_or(bytes.len())];
        self.add_unfinished(line, self.limits.max_line_bytes, DecodeError::LineTooLong)?;
        let Some(at) = at else {
            return Ok(bytes.len());
        };
        match bytes[at] {
            b'\n' => {
                if !is_blank(&self.unfinished) {
                    let object = serde_json::from_slice(&self.unfinished).ok();
                    let frame = object.and_then(object::read_event).ok_or(DecodeError::BadEvent)?;
                    self.push(frame);
                }
                self.unfinished.clear();
            }
            TEXT if self.unfinished.is_empty() => self.decoded.begin_text(),
            _ => return Err(DecodeError::StraySeparator),
        }
        Ok(at + 1)
    }

    fn feed_text(&mut self, bytes: &[u8]) -> Result<usize, DecodeError> {
        let at = memchr::memchr2(TEXT, TRAILER, bytes);
        let end = at.unwrap_or(bytes.len());
        let mut text = String::new();
        self.carry.push(&bytes[..end], &mut text);
        self.push_text(text);
        match at.map(|at| bytes[at]) {
            None => Ok(end),
            Some(TRAILER) => {
                self.close_text();
                self.decoded.begin_trailer();
                Ok(end + 1)
            }
            Some(_) => Err(DecodeError::StraySeparator),
        }
    }

    fn feed_trailer(&mut self, bytes: &[u8]) -> Result<usize, DecodeError> {
        if self.unfinished.is_empty() && bytes[0] != b'{' {
            return Err(DecodeError::BadTrailer);
        }
        let end = self.nesting.scan(bytes);
        let taken = end.unwrap_or(bytes.len());
        self.add_unfinished(
            &bytes[..taken],
            self.limits.max_trailer_bytes,
            DecodeError::TrailerTooLong,
        )?;
        if end.is_some() {
            let members = serde_json::from_slice(&self.unfinished).ok();
            let (late, end) = members
                .and_then(object::read_end)
                .ok_or(DecodeError::BadTrailer)?;
            self.unfinished = Vec::new();
            // A retraction here, which our encoder never writes, has lost its position.
            let is_retraction = |frame: &Frame| {
                matches!(
                    frame,
                    Frame::Event {
                        event: Event::Retract(_),
                        ..
                    }
                )
            };
            let late = late.into_iter().filter(|frame| !is_retraction(frame));
            late.for_each(|frame| self.push(frame));
            self.push(Frame::End(end));
        }
        Ok(taken)
    }

    fn add_unfinished(&mut self, bytes: &[u8], limit: usize, error: DecodeError) -> Result<(), DecodeError> {
        if self.unfinished.len() + bytes.len() > limit {
            return Err(error);
        }
        self.unfinished.extend_from_slice(bytes);
        Ok(())
    }

    fn close_text(&mut self) {
        let mut text = String::new();
        self.carry.finish(&mut text);
        self.push_text(text);
    }

    fn push_text(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        match self.decoded.last_mut() {
            Some(Frame::Text(last)) => last.push_str(&text),
            Some(Frame::Event { .. } | Frame::Snapshot(_) | Frame::End(_)) | None => {
                self.push(Frame::Text(text));
            }
        }
    }

    fn push(&mut self, frame: Frame) {
        // The phases of this wire follow the order of frames, so a refused frame would be a bug
        // here.
        let accepted = self.decoded.push(frame);
        debug_assert!(accepted.is_ok(), "{accepted:?}");
    }
}

impl Decode for FramedDecoder {
    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.decoded.has_failed() {
            let fed = match self.phase() {
                Phase::Events => self.feed_events(bytes),
                Phase::Text => self.feed_text(bytes),
                Phase::Trailer => self.feed_trailer(bytes),
                Phase::Ended => Err(DecodeError::TrailingBytes),
            };
            match fed {
                Ok(taken) => bytes = &bytes[taken..],
                Err(error) => {
                    self.decoded.fail(error);
                    self.unfinished = Vec::new();
                }
            }
        }
    }

    fn finish(&mut self) -> Finish {
        let finish = self.decoded.finish();
        if let Finish::Truncated { .. } = finish {
            self.close_text();
        }
        finish
    }

    fn shows_failures(&self) -> bool {
        true
    }
}

impl Iterator for FramedDecoder {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.decoded.next()
    }
}

/// Finds the end of a JSON object, byte by byte and without looking back.
#[derive(Debug, Default)]
struct Nesting {
    depth: u64,
    string: bool,
    escaped: bool,
}

impl Nesting {
    /// Returns how many of `bytes` belong to the object, if it closes within them.
    fn scan(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            match (self.string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (true, b'"') => self.string = false,
                (true, _) => {}
                (false, b'"') => self.string = true,
                // Only braces count [F-07]; the parser finds brackets that cross them.
                (false, b'{') => self.depth += 1,
                (false, b'}') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                (false, _) => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::event::{CacheMiss, Custom, InputResolved, StructuredResult, ToolCall, ToolResult};
    use crate::failure::Failure;

    /// Checks that decoding `bytes` whole and byte by byte both end with `error`.
    fn check_error(wire: Framed, bytes: &[u8], error: DecodeError) {
        for size in [bytes.len(), 1] {
            let mut decoder = wire.decoder();
            for chunk in bytes.chunks(size) {
                decoder.feed(chunk);
            }
            let last = decoder.find(Result::is_err);
            assert_eq!(
                last,
                Some(Err(error)),
                "{:?} by {size}",
                bytes.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn an_error_does_not_depend_on_how_the_bytes_are_cut() {
        let narrow = Framed::default().limits(Limits::default().max_line_bytes(4).max_trailer_bytes(4));
        for (wire, bytes, error) in [
            // The limit is exceeded before the separator.
            (narrow, &b"12345\x1d"[..], DecodeError::LineTooLong),
            (narrow, b"12345\x1e", DecodeError::LineTooLong),
            (narrow, b"1234\x1d", DecodeError::StraySeparator),
            (narrow, b"\x1d\x1e{\"a\":", DecodeError::TrailerTooLong),
            // A form feed is not JSON whitespace.
            (Framed::default(), b"\x0c\n", DecodeError::BadEvent),
        ] {
            check_error(wire, bytes, error);
        }
    }

    /// Encodes `frames`; `None` if one of them is refused.
    fn encode(wire: Framed, frames: impl IntoIterator<Item = Frame>) -> Option<String> {
        let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
        for frame in frames {
            encoder.encode(&frame, &mut out).ok()?;
        }
        String::from_utf8(out.to_vec()).ok()
    }

    fn event(event: impl Into<Event>) -> Frame {
        Frame::Event {
            event: event.into(),
            timestamp: None,
        }
    }

    #[test]
    fn a_failure_with_an_empty_message_adds_no_text() {
        let end = Frame::End(End::failed(Failure::new("x", "")));
        let trailer = "\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\
                       \"error\":{\"code\":\"x\",\"message\":\"\",\"recoverable\":true}}";
        for (before, text) in [(None, "\x1d"), (Some("Hi"), "\x1dHi")] {
            let frames = before
                .map(|text| Frame::Text(text.into()))
                .into_iter()
                .chain([end.clone()]);
            assert_eq!(
                encode(Framed::default(), frames),
                Some(format!("{text}{trailer}"))
            );
        }
    }

    #[test]
    fn late_events_have_the_limit_of_lines() {
        let line = r#"{"event":"cache_miss"}"#;
        for (limit, fits) in [(line.len(), true), (line.len() - 1, false)] {
            let wire = Framed::default().limits(Limits::default().max_line_bytes(limit));
            let frames = [
                Frame::Text("A".into()),
                event(CacheMiss::new()),
                event(CacheMiss::new()),
                Frame::End(End::default()),
            ];
            let bytes = format!("\x1dA\x1e{{\"citations\":[],\"tools_used\":[],\"events\":[{line},{line}]}}");
            assert_eq!(encode(wire, frames), fits.then_some(bytes));
        }
    }

    #[test]
    fn null_is_left_out_and_decoded_again() {
        for (sent, line) in [
            (
                Event::from(ToolCall::new("t", Value::Null).parameters(Value::Null)),
                r#"{"event":"tool_call","tool":"t"}"#,
            ),
            (
                ToolResult::new("t", Value::Null).into(),
                r#"{"event":"tool_result","tool":"t"}"#,
            ),
            (
                InputResolved::new("r").response(Value::Null).into(),
                r#"{"event":"input_resolved","request_id":"r"}"#,
            ),
            (
                StructuredResult::new(Value::Null).into(),
                r#"{"event":"structured_result"}"#,
            ),
            (
                Custom::new("custom", &()).unwrap().into(),
                r#"{"event":"custom"}"#,
            ),
        ] {
            let bytes = encode(Framed::default(), [event(sent.clone())]).unwrap();
            assert_eq!(bytes, format!("{line}\n"));
            let mut decoder = Framed::default().decoder();
            decoder.feed(bytes.as_bytes());
            let expected = match sent {
                Event::Custom(_) => Custom::new("custom", &json!({})).unwrap().into(),
                Event::ToolCall(call) => ToolCall {
                    parameters: None,
                    ..call
                }
                .into(),
                Event::InputResolved(resolved) => InputResolved::new(resolved.request_id).into(),
                sent => sent,
            };
            assert_eq!(decoder.next(), Some(Ok(event(expected))));
        }
    }
}
