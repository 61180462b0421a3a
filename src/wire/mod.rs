//! Wires: the frames of a turn as the bytes of one protocol. One file each, encoder beside decoder.
//!
//! A wire is sans-IO: frames go in and bytes come out, or the other way round, without a socket, a
//! clock or a task. [`Order`] decides which frame may come when, for all wires alike. `PROTOCOL.md`
//! specifies the bytes of every wire.
//!
//! To add a wire, write a file with a [`Spelling`] and a [`Wire`], add a `mod` line here and
//! vectors in `tests/vectors/<wire>`.
//!
//! The same turn on two wires:
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::Wire;
//! use ragwire::{End, Forge, Metadata, Ndjson};
//!
//! fn encode(wire: &dyn Wire) -> BytesMut {
//!     let (mut encoder, mut bytes) = (wire.encoder(), BytesMut::new());
//!     encoder.text("Yes.", &mut bytes).unwrap();
//!     encoder.end(&End::completed(Metadata::default()), &mut bytes).unwrap();
//!     bytes
//! }
//!
//! assert!(encode(&Ndjson::default()).starts_with(b"{\"index\":0,\"text\":\"Yes.\"}\n"));
//! assert!(encode(&Forge::default()).starts_with(b"event: token\ndata: {\"type\":\"token\",\"content\":\"Yes.\"}\n\n"));
//! ```

use std::fmt;

use bytes::BytesMut;

use crate::event::{Event, InputRequested};
use crate::frame::{End, Frame};
use crate::order::{FrameKind, Order, OutOfOrder, Phase};
use crate::snapshot::Snapshot;
use crate::time::Timestamp;

mod activity;
pub mod ag_ui;
pub mod ai_sdk;
mod annotations;
mod answer;
mod calls;
mod decoded;
pub mod eve;
mod event_stream;
mod foreign;
pub mod forge;
pub mod framed;
mod indexed;
mod kind;
pub mod langgraph;
mod lines;
pub mod mcp;
mod members;
mod messages;
pub mod ndjson;
mod object;
pub mod ollama;
pub mod openai;
mod padding;
pub mod plain;
mod reasoning;
pub mod responses;
pub mod session_chat;
pub mod sse;
pub mod trustgraph;
mod typed;

pub use kind::{UnknownWire, WireKind};

/// One protocol: its name, its headers, and an encoder for each turn.
///
/// The value holds the settings of the wire; the state of a turn is in its [`Encoder`].
pub trait Wire: fmt::Debug {
    /// The wire's name in logs, options and content negotiation.
    fn name(&self) -> &'static str;

    /// The media type of the response.
    fn content_type(&self) -> &'static str;

    /// The headers of this wire besides the media type and those of every stream; names in lower
    /// case.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Creates the state of one turn on this wire.
    fn spelling(&self) -> Box<dyn Spelling>;

    /// Creates the encoder of one turn.
    fn encoder(&self) -> Encoder {
        Encoder {
            order: Order::default(),
            spelling: self.spelling(),
            has_begun: false,
            events_dropped: 0,
        }
    }
}

impl<W: Wire + ?Sized> Wire for Box<W> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn content_type(&self) -> &'static str {
        (**self).content_type()
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        (**self).headers()
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        (**self).spelling()
    }
}

/// The part of an encoder that differs between wires: writes the frames of one turn as bytes.
///
/// Only [`Encoder`] calls it, after checking the order. `phase` is the phase of the stream *before*
/// the frame.
pub trait Spelling: fmt::Debug + Send {
    /// Appends an event. On an error the encoder removes the bytes that were appended.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the event does not fit this wire.
    fn event(
        &mut self,
        phase: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError>;

    /// Appends a piece of the answer, which is never empty.
    fn text(&mut self, phase: Phase, text: &str, out: &mut BytesMut);

    /// Appends the terminal. This cannot fail: metadata over the limit is shortened.
    fn end(&mut self, phase: Phase, end: &End, out: &mut BytesMut);

    /// Sets the index of the next frame. Returns `true` on a wire whose frames carry their index,
    /// so that a stream may begin with any frame. Any other wire returns `false` and changes
    /// nothing.
    fn seek(&mut self, index: u64) -> bool {
        let _ = index;
        false
    }

    /// Returns `true` if a reader sees an event of this `phase` before the end of the stream.
    fn shows_events(&self, phase: Phase) -> bool {
        let _ = phase;
        true
    }

    /// Allows the stream to end at a question to a human ([`park`](Self::park)), because the turn
    /// is journaled and another stream can continue it. Returns `true` if the wire is configured to
    /// park; it then leaves nothing open after a question. Otherwise nothing changes.
    fn allow_parking(&mut self) -> bool {
        false
    }

    /// Appends the end of a stream at `question`, the last frame written. Called only if
    /// [`allow_parking`](Self::allow_parking) returned `true`.
    fn park(&mut self, question: &InputRequested, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        let _ = (question, timestamp, out);
    }

    /// Appends the beginning of a stream that continues after a question. Called only if
    /// [`allow_parking`](Self::allow_parking) returned `true`.
    fn unpark(&mut self, out: &mut BytesMut) {
        let _ = out;
    }

    /// Appends a snapshot as one frame with the index of the last frame that it replaces; the next
    /// frame has the index after that. On an error the encoder removes the bytes that were
    /// appended.
    ///
    /// # Errors
    ///
    /// - [`EncodeError::Snapshot`] if the wire has no such frame, or if the snapshot replaces only
    ///   frames that were already written.
    /// - [`EncodeError::TooLarge`] if it is longer than the limit for metadata.
    fn snapshot(&mut self, snapshot: &Snapshot, out: &mut BytesMut) -> Result<(), EncodeError> {
        let _ = (snapshot, out);
        Err(EncodeError::Snapshot)
    }

    /// Returns `true` if a stream may begin with the events and the text of a snapshot instead of
    /// the snapshot itself. Return `true` only if this yields a valid stream whose totals are still
    /// correct, and if the wire has no resumable positions.
    fn expands_snapshots(&self) -> bool {
        false
    }

    /// Appends a keep-alive, which readers skip, if the wire has one for this phase.
    fn keep_alive(&mut self, phase: Phase, out: &mut BytesMut);

    /// Appends exactly `bytes` bytes of padding, at least 4, which readers skip; nothing if the wire
    /// has no room for padding in this phase.
    fn pad(&mut self, phase: Phase, bytes: usize, out: &mut BytesMut) {
        let _ = (phase, bytes, out);
    }
}

/// Encodes the frames of one turn, in legal order and nothing after the end.
#[derive(Debug)]
pub struct Encoder {
    order: Order,
    spelling: Box<dyn Spelling>,
    /// Whether a frame was written.
    has_begun: bool,
    /// Events that an expanded snapshot left out or that did not fit; the end reports the number.
    events_dropped: u64,
}

impl Encoder {
    /// Appends `frame` to `out`.
    ///
    /// # Errors
    ///
    /// [`EncodeError`]; `out` and the encoder are then unchanged.
    pub fn encode(&mut self, frame: &Frame, out: &mut BytesMut) -> Result<(), EncodeError> {
        match frame {
            Frame::Event { event, timestamp } => self.event(event, *timestamp, out),
            Frame::Text(text) => self.text(text, out),
            Frame::End(end) => self.end(end, out),
            Frame::Snapshot(snapshot) => self.snapshot(snapshot, out),
        }
    }

    /// Appends an event.
    ///
    /// # Errors
    ///
    /// Those of [`Encoder::encode`].
    pub fn event(
        &mut self,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let before = (self.order, out.len());
        self.order.accept(FrameKind::Event)?;
        self.spelling
            .event(before.0.phase(), event, timestamp, out)
            .inspect(|()| self.has_begun = true)
            .inspect_err(|_| {
                self.order = before.0;
                out.truncate(before.1);
            })
    }

    /// Appends a piece of the answer. An empty piece is ignored.
    ///
    /// # Errors
    ///
    /// Those of [`Encoder::encode`].
    pub fn text(&mut self, text: &str, out: &mut BytesMut) -> Result<(), EncodeError> {
        if text.is_empty() {
            return Ok(());
        }
        let phase = self.order.phase();
        self.order.accept(FrameKind::Text)?;
        self.has_begun = true;
        self.spelling.text(phase, text, out);
        Ok(())
    }

    /// Appends the end.
    ///
    /// # Errors
    ///
    /// Those of [`Encoder::encode`].
    pub fn end(&mut self, end: &End, out: &mut BytesMut) -> Result<(), EncodeError> {
        let phase = self.order.phase();
        self.order.accept(FrameKind::End)?;
        self.has_begun = true;
        if self.events_dropped == 0 {
            self.spelling.end(phase, end, out);
        } else {
            let mut end = end.clone();
            end.metadata.events_dropped += self.events_dropped;
            self.spelling.end(phase, &end, out);
        }
        Ok(())
    }

    /// Appends a snapshot.
    ///
    /// A wire with a frame for snapshots accepts one anywhere before the end and continues with the
    /// index after it. On some other wires a stream may begin with one: its events and its text are
    /// written instead, and the end reports how many events it leaves out. The table in
    /// `PROTOCOL.md`, section "Snapshots", lists what each wire does.
    ///
    /// # Errors
    ///
    /// Those of [`Encoder::encode`]; [`EncodeError::Snapshot`] if the wire does not accept a
    /// snapshot, or not after the frames that were already written.
    pub fn snapshot(&mut self, snapshot: &Snapshot, out: &mut BytesMut) -> Result<(), EncodeError> {
        if self.spelling.expands_snapshots() {
            return self.expand_snapshot(snapshot, out);
        }
        let before = (self.order, out.len());
        self.order.accept(FrameKind::Snapshot)?;
        if !snapshot.text.is_empty() {
            self.order.begin_text();
        }
        self.spelling
            .snapshot(snapshot, out)
            .inspect(|()| self.has_begun = true)
            .inspect_err(|_| {
                self.order = before.0;
                out.truncate(before.1);
            })
    }

    /// Writes the events and the text of `snapshot`, to a reader that has nothing yet: any other
    /// reader would get some of them twice.
    fn expand_snapshot(&mut self, snapshot: &Snapshot, out: &mut BytesMut) -> Result<(), EncodeError> {
        if self.has_begun || snapshot.frames == 0 {
            return Err(EncodeError::Snapshot);
        }
        self.events_dropped = snapshot.events_dropped;
        for (event, timestamp) in &snapshot.events {
            let written = self.event(event, *timestamp, out);
            self.events_dropped += u64::from(written.is_err());
        }
        self.has_begun = true;
        self.text(&snapshot.text, out)
    }

    /// Sets the index of the next frame, for frames that a journal has numbered.
    ///
    /// Returns `true` on a wire whose frames carry their index, so that a stream may begin with any
    /// frame. Returns `false` and changes nothing on any other wire: to continue in the middle of
    /// such a stream, first encode all frames before that point.
    pub fn seek(&mut self, index: u64) -> bool {
        self.spelling.seek(index)
    }

    /// Returns `true` if a reader sees an event before the end of the stream that is encoded in
    /// `phase`, or in the current phase if that is later.
    pub fn shows_events(&self, phase: Phase) -> bool {
        let phase = match phase {
            Phase::Events => self.order.phase(),
            phase => phase,
        };
        self.spelling.shows_events(phase)
    }

    /// Allows the stream to end at a question and to continue in another stream, because the turn
    /// is journaled. Call it before the first frame.
    ///
    /// Returns `true` if the wire is configured to park (`parks`). Only then do
    /// [`park`](Self::park) and [`unpark`](Self::unpark) have an effect.
    pub fn allow_parking(&mut self) -> bool {
        self.spelling.allow_parking()
    }

    /// Ends this stream at `question`, the frame that was encoded last, in the form of the wire.
    ///
    /// The turn continues. Use the same encoder for the frames after the question, whether their
    /// reader reconnects or is still connected.
    pub fn park(&mut self, question: &InputRequested, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        self.spelling.park(question, timestamp, out);
    }

    /// Begins the stream of a reader that reconnects after a question, the frame that was encoded
    /// last.
    pub fn unpark(&mut self, out: &mut BytesMut) {
        self.spelling.unpark(out);
    }

    /// Appends a keep-alive, which readers skip, if the wire has one and the stream has not ended.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        if self.order.phase() != Phase::Ended {
            self.spelling.keep_alive(self.order.phase(), out);
        }
    }
}

/// Decodes the bytes of one stream into frames, however the bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`. `None` means that more bytes are
/// needed, so the iterator may return frames again after `None`. An error is returned once, after
/// the frames before it.
pub trait Decode: Iterator<Item = Result<Frame, DecodeError>> + fmt::Debug + Send {
    /// Takes the next bytes of the stream. Bytes after an error are ignored; bytes after the end
    /// are [`DecodeError::TrailingBytes`], unless the wire allows them.
    fn feed(&mut self, bytes: &[u8]);

    /// Reports the end of the bytes and returns the outcome. One more frame may be ready
    /// afterwards.
    fn finish(&mut self) -> Finish;

    /// Returns `true` if the messages of failures on this wire are written for anyone who reads the
    /// answer, so that [`Sink::relay`](crate::Sink::relay) passes them on. `false` for the wires of
    /// other systems, whose messages may quote exceptions, paths and keys.
    fn shows_failures(&self) -> bool {
        false
    }
}

impl<D: Decode + ?Sized> Decode for &mut D {
    fn feed(&mut self, bytes: &[u8]) {
        (**self).feed(bytes);
    }

    fn finish(&mut self) -> Finish {
        (**self).finish()
    }

    fn shows_failures(&self) -> bool {
        (**self).shows_failures()
    }
}

impl<D: Decode + ?Sized> Decode for Box<D> {
    fn feed(&mut self, bytes: &[u8]) {
        (**self).feed(bytes);
    }

    fn finish(&mut self) -> Finish {
        (**self).finish()
    }

    fn shows_failures(&self) -> bool {
        (**self).shows_failures()
    }
}

/// The longest text in one JSON object on the wires of OpenAI and Ollama, in bytes. As JSON it has at
/// most six times as many, which is within the limits of our decoders and of the published clients.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// Size limits for the parts of a stream, for encoders and decoders alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest event line in bytes, without its line end. Default: 256 KiB. A tool result with
    /// several pages of text fits; send a link to anything larger.
    pub max_line_bytes: usize,
    /// The longest metadata in bytes. Default: 1 MiB, enough for hundreds of citations with their
    /// quotes.
    pub max_trailer_bytes: usize,
}

impl Limits {
    pub(crate) const MAX_LINE_BYTES: usize = 256 * 1024;
    pub(crate) const MAX_TRAILER_BYTES: usize = 1024 * 1024;

    /// The limit of a decoder that cannot know in advance whether a line is the end.
    pub(crate) fn larger(self) -> usize {
        self.max_line_bytes.max(self.max_trailer_bytes)
    }

    /// Sets the longest event line, in bytes.
    #[must_use]
    pub fn max_line_bytes(mut self, bytes: usize) -> Self {
        self.max_line_bytes = bytes;
        self
    }

    /// Sets the longest metadata, in bytes.
    #[must_use]
    pub fn max_trailer_bytes(mut self, bytes: usize) -> Self {
        self.max_trailer_bytes = bytes;
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_line_bytes: Self::MAX_LINE_BYTES,
            max_trailer_bytes: Self::MAX_TRAILER_BYTES,
        }
    }
}

/// A frame that the encoder refuses. The caller made the mistake; nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The frame is not allowed at this point of the stream.
    #[error(transparent)]
    OutOfOrder(#[from] OutOfOrder),
    /// The event is longer than the wire allows.
    #[error("event has more than {max_bytes} bytes")]
    TooLarge {
        /// The limit in bytes.
        max_bytes: usize,
    },
    /// The name of the event contains a control character, which this wire cannot carry.
    #[error("event name contains a control character")]
    Name,
    /// The event cannot be serialised.
    #[error("event cannot be serialised")]
    Json(#[from] serde_json::Error),
    /// The wire does not accept a snapshot, or the reader already has frames that it replaces.
    #[error("snapshot is not allowed here")]
    Snapshot,
}

impl EncodeError {
    /// Returns the stable machine-readable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OutOfOrder(_) => "out_of_order",
            Self::TooLarge { .. } => "event_too_large",
            Self::Name => "event_name",
            Self::Json(_) => "event_data",
            Self::Snapshot => "snapshot",
        }
    }
}

/// A stream that breaks the rules of its wire. The error is permanent; frames decoded before it
/// stay valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// An event line is longer than the limit.
    #[error("event line is longer than the limit")]
    LineTooLong,
    /// The metadata is longer than the limit.
    #[error("metadata is longer than the limit")]
    TrailerTooLong,
    /// A line is not a JSON object with a string `event`, or is not a frame of this wire.
    #[error("line is not an event")]
    BadEvent,
    /// The metadata is not a JSON object, or has no known status.
    #[error("metadata is not a JSON object")]
    BadTrailer,
    /// A separator is in the wrong position.
    #[error("separator out of place")]
    StraySeparator,
    /// The index of a frame does not follow the last one.
    #[error("a frame is missing or repeated")]
    Gap,
    /// The stream has bytes after its end.
    #[error("bytes after the end of the stream")]
    TrailingBytes,
}

impl DecodeError {
    /// Returns the stable machine-readable code of this error, the same in every language.
    pub fn code(self) -> &'static str {
        match self {
            Self::LineTooLong => "line_too_long",
            Self::TrailerTooLong => "trailer_too_long",
            Self::BadEvent => "bad_event",
            Self::BadTrailer => "bad_trailer",
            Self::StraySeparator => "stray_separator",
            Self::Gap => "gap",
            Self::TrailingBytes => "trailing_bytes",
        }
    }
}

/// The outcome of decoding a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The stream has its end and nothing after it.
    Complete,
    /// The bytes ended before the end of the stream.
    Truncated {
        /// The phase that the stream had reached.
        phase: Phase,
    },
    /// The stream broke a rule.
    Invalid(DecodeError),
}
