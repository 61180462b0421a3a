//! The framed wire of ADR 0007: `(JSON-object LF)* 0x1D text* 0x1E JSON-object`, as `text/plain; charset=utf-8`.
//!
//! The rules are numbered in `PROTOCOL.md` (`[F-nn]`), the vectors stand in `tests/vectors/framed`.
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

use std::collections::VecDeque;

use bytes::BytesMut;

use super::object::{self, Late};
use super::{Decode, DecodeError, EncodeError, Finish, Limits, Spelling, Wire};
use crate::event::Event;
use crate::frame::{End, Frame, Status};
use crate::order::{FrameKind, Order, Phase};
use crate::time::Timestamp;
use crate::utf8::Carry;

/// Before the text.
const TEXT: u8 = 0x1d;
/// Before the metadata.
const TRAILER: u8 = 0x1e;

/// The framed wire. `Framed::default()` is what ADR 0007 describes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framed {
    limits: Limits,
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

    /// A decoder for one stream.
    pub fn decoder(&self) -> FramedDecoder {
        FramedDecoder {
            limits: self.limits,
            order: Order::default(),
            held: Vec::new(),
            nesting: Nesting::default(),
            carry: Carry::default(),
            frames: VecDeque::new(),
            error: None,
            error_taken: false,
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
            late: Late::default(),
        })
    }
}

#[derive(Debug)]
struct FramedSpelling {
    limits: Limits,
    /// Events after the first text; at most `max_trailer_bytes`.
    late: Late,
}

impl Spelling for FramedSpelling {
    fn event(
        &mut self,
        phase: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
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
        if phase == Phase::Events {
            out.extend_from_slice(&[TEXT]);
        }
        let mut rest = text.as_bytes();
        // Both separators are single bytes below 0x80, so they never stand within a character and this filter needs no
        // memory from one piece to the next.
        while let Some(at) = memchr::memchr2(TEXT, TRAILER, rest) {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(if rest[at] == TEXT { "\u{241d}" } else { "\u{241e}" }.as_bytes());
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
    }

    fn end(&mut self, phase: Phase, end: &End, out: &mut BytesMut) {
        let mut phase = phase;
        if let Status::Failed(failure) = &end.status
            && !failure.message.is_empty()
        {
            if phase == Phase::Text {
                out.extend_from_slice(b"\n\n");
            }
            self.text(phase, &failure.message, out);
            phase = Phase::Text;
        }
        if phase == Phase::Events {
            out.extend_from_slice(&[TEXT]);
        }
        out.extend_from_slice(&[TRAILER]);
        object::write_end(end, &self.late, self.limits.max_trailer_bytes, out);
    }

    fn shows_events(&self, phase: Phase) -> bool {
        phase == Phase::Events
    }

    fn retells(&self) -> bool {
        true
    }

    fn keep_alive(&mut self, phase: Phase, out: &mut BytesMut) {
        // A blank line is skipped before the text; within the text every byte would be shown.
        if phase == Phase::Events {
            out.extend_from_slice(b"\n");
        }
    }
}

/// Reads the framed wire, however its bytes were split.
///
/// Feed it bytes, then take frames until there are none left; `None` means that more bytes are needed, so this iterator may
/// go on after `None`. Text comes as it arrives, whole characters only, without ever a byte of the protocol in it.
///
/// It holds one unfinished event line or the unfinished metadata, within the limits, and the frames not taken yet.
#[derive(Debug)]
pub struct FramedDecoder {
    limits: Limits,
    order: Order,
    /// The unfinished line or metadata.
    held: Vec<u8>,
    nesting: Nesting,
    carry: Carry,
    frames: VecDeque<Frame>,
    error: Option<DecodeError>,
    /// Whether the error was handed out: it comes once.
    error_taken: bool,
}

impl FramedDecoder {
    /// How far the stream has come.
    pub fn phase(&self) -> Phase {
        self.order.phase()
    }

    fn feed_events(&mut self, bytes: &[u8]) -> Result<usize, DecodeError> {
        let at = memchr::memchr3(b'\n', TEXT, TRAILER, bytes);
        // The limit comes first, so that what a separator cuts off is judged alike however it arrived.
        let line = &bytes[..at.unwrap_or(bytes.len())];
        self.hold(line, self.limits.max_line_bytes, DecodeError::LineTooLong)?;
        let Some(at) = at else {
            return Ok(bytes.len());
        };
        match bytes[at] {
            b'\n' => {
                let line = std::mem::take(&mut self.held);
                if !line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
                    let object = serde_json::from_slice(&line).ok();
                    let frame = object.and_then(object::read_event).ok_or(DecodeError::BadEvent)?;
                    self.push(frame);
                }
                self.held = line;
                self.held.clear();
            }
            TEXT if self.held.is_empty() => self.order.begin_text(),
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
                self.order.begin_trailer();
                Ok(end + 1)
            }
            Some(_) => Err(DecodeError::StraySeparator),
        }
    }

    fn feed_trailer(&mut self, bytes: &[u8]) -> Result<usize, DecodeError> {
        if self.held.is_empty() && bytes[0] != b'{' {
            return Err(DecodeError::BadTrailer);
        }
        let end = self.nesting.scan(bytes);
        let taken = end.unwrap_or(bytes.len());
        self.hold(
            &bytes[..taken],
            self.limits.max_trailer_bytes,
            DecodeError::TrailerTooLong,
        )?;
        if end.is_some() {
            let members = serde_json::from_slice(&self.held).ok();
            let (late, end) = members
                .and_then(object::read_end)
                .ok_or(DecodeError::BadTrailer)?;
            self.held = Vec::new();
            late.into_iter().for_each(|frame| self.push(frame));
            self.push(Frame::End(end));
        }
        Ok(taken)
    }

    fn hold(&mut self, bytes: &[u8], limit: usize, error: DecodeError) -> Result<(), DecodeError> {
        if self.held.len() + bytes.len() > limit {
            return Err(error);
        }
        self.held.extend_from_slice(bytes);
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
        match self.frames.back_mut() {
            Some(Frame::Text(last)) => last.push_str(&text),
            _ => self.push(Frame::Text(text)),
        }
    }

    fn push(&mut self, frame: Frame) {
        // The phases of this wire keep to the table, so the table is only told; a frame it refuses would be a bug here.
        let told = self.order.accept(frame.kind());
        debug_assert!(told.is_ok(), "{told:?}");
        debug_assert!(frame.kind() != FrameKind::Text || self.order.phase() == Phase::Text);
        self.frames.push_back(frame);
    }
}

impl Decode for FramedDecoder {
    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.error.is_none() {
            let fed = match self.order.phase() {
                Phase::Events => self.feed_events(bytes),
                Phase::Text => self.feed_text(bytes),
                Phase::Trailer => self.feed_trailer(bytes),
                Phase::Ended => Err(DecodeError::TrailingBytes),
            };
            match fed {
                Ok(taken) => bytes = &bytes[taken..],
                Err(error) => {
                    self.error = Some(error);
                    self.held = Vec::new();
                }
            }
        }
    }

    fn finish(&mut self) -> Finish {
        match (self.error, self.order.phase()) {
            (Some(error), _) => Finish::Invalid(error),
            (None, Phase::Ended) => Finish::Complete,
            (None, phase) => {
                self.close_text();
                Finish::Truncated { phase }
            }
        }
    }
}

impl Iterator for FramedDecoder {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(frame) = self.frames.pop_front() {
            return Some(Ok(frame));
        }
        let error = self.error.filter(|_| !self.error_taken)?;
        self.error_taken = true;
        Some(Err(error))
    }
}

/// Finds where a JSON object closes, byte by byte and without looking back.
#[derive(Debug, Default)]
struct Nesting {
    depth: u64,
    string: bool,
    escaped: bool,
}

impl Nesting {
    /// How many of `bytes` belong to the object, if it closes within them.
    fn scan(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            match (self.string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (true, b'"') => self.string = false,
                (true, _) => {}
                (false, b'"') => self.string = true,
                // Braces alone [F-07]: brackets that cross them are the parser's business.
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

    /// Decodes `bytes` whole and byte by byte; both have to end with `error`.
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
    fn rules_are_broken_alike_however_the_bytes_are_cut() {
        let narrow = Framed::default().limits(Limits::default().max_line_bytes(4).max_trailer_bytes(4));
        for (wire, bytes, error) in [
            // The limit is passed before the separator is reached.
            (narrow, &b"12345\x1d"[..], DecodeError::LineTooLong),
            (narrow, b"12345\x1e", DecodeError::LineTooLong),
            (narrow, b"1234\x1d", DecodeError::StraySeparator),
            (narrow, b"\x1d\x1e{\"a\":", DecodeError::TrailerTooLong),
            // JSON knows no form feed.
            (Framed::default(), b"\x0c\n", DecodeError::BadEvent),
        ] {
            check_error(wire, bytes, error);
        }
    }

    /// Encodes `frames`; `None` where one of them was refused.
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
    fn a_failure_without_words_adds_no_text() {
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
    fn null_is_left_out_and_comes_back() {
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
            (Custom::new("own", &()).unwrap().into(), r#"{"event":"own"}"#),
        ] {
            let bytes = encode(Framed::default(), [event(sent.clone())]).unwrap();
            assert_eq!(bytes, format!("{line}\n"));
            let mut decoder = Framed::default().decoder();
            decoder.feed(bytes.as_bytes());
            let expected = match sent {
                Event::Custom(_) => Custom::new("own", &json!({})).unwrap().into(),
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
