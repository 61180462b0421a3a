//! Wires: how the frames of a turn look as bytes. One file each, encoder beside decoder.
//!
//! A wire is sans-IO: frames go in and bytes come out, or the other way round, without a socket, a clock or a task. What may come
//! when is not decided here but by [`Order`], for every wire alike.
//!
//! To add a wire: a new file with a [`Spelling`] and a [`Wire`], one `mod` line here, and vectors in `tests/vectors/<wire>`.

use std::fmt;

use bytes::BytesMut;

use crate::event::{Event, InputRequested};
use crate::frame::{End, Frame};
use crate::order::{FrameKind, Order, OutOfOrder, Phase};
use crate::snapshot::Snapshot;
use crate::time::Timestamp;

pub mod ag_ui;
pub mod ai_sdk;
mod answer;
mod calls;
pub mod eve;
mod event_stream;
pub mod forge;
pub mod framed;
mod indexed;
mod lines;
pub mod ndjson;
mod object;
pub mod openai;
pub mod session_chat;
pub mod sse;
pub mod trustgraph;
mod typed;

/// One protocol as spelled: its name, its headers, and an encoder for each turn.
pub trait Wire: fmt::Debug {
    /// The wire's name in logs, options and content negotiation.
    fn name(&self) -> &'static str;

    /// The media type of the response.
    fn content_type(&self) -> &'static str;

    /// Headers that this wire needs besides the media type and those of every stream; names in lower case.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The state of one turn on this wire.
    fn spelling(&self) -> Box<dyn Spelling>;

    /// An encoder for one turn.
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

/// How one wire spells the frames of one turn. Called by [`Encoder`] only, which has already checked the order: `phase` is how
/// far the stream had come *before* this frame.
pub trait Spelling: fmt::Debug + Send {
    /// Appends an event. On an error the encoder takes back what was appended.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] for an event that does not fit this wire.
    fn event(
        &mut self,
        phase: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError>;

    /// Appends a piece of the answer; never empty.
    fn text(&mut self, phase: Phase, text: &str, out: &mut BytesMut);

    /// Appends the terminal. It cannot fail: what does not fit the limits is shortened.
    fn end(&mut self, phase: Phase, end: &End, out: &mut BytesMut);

    /// Says which index the next frame has. A wire whose frames stand alone, each with its index, goes on with that one and says true;
    /// a stream on it may begin with any frame. Any other wire says false and changes nothing.
    fn seek(&mut self, index: u64) -> bool {
        let _ = index;
        false
    }

    /// Whether a reader sees an event that is written in `phase` before the end.
    fn shows_events(&self, phase: Phase) -> bool {
        let _ = phase;
        true
    }

    /// Says that the stream may end at a question to a human ([`park`](Self::park)), since the turn is kept and can be read on in
    /// another. True where the wire is set up to; it then leaves nothing open behind a question. Otherwise nothing changes.
    fn may_park(&mut self) -> bool {
        false
    }

    /// Appends how a stream ends at `question`, the last that was written. Only after [`may_park`](Self::may_park) said true.
    fn park(&mut self, question: &InputRequested, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        let _ = (question, timestamp, out);
    }

    /// Appends how a stream begins that goes on behind a question. Only after [`may_park`](Self::may_park) said true.
    fn go_on(&mut self, out: &mut BytesMut) {
        let _ = out;
    }

    /// Appends a snapshot as a frame of its own, under the index of the last frame that it stands for; the next frame has the one after
    /// that. On an error the encoder takes back what was appended.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Snapshot`] on a wire that has no such frame, and where it stands for frames that were written already;
    /// [`EncodeError::TooLarge`] where it is longer than metadata may be.
    fn snapshot(&mut self, snapshot: &Snapshot, out: &mut BytesMut) -> Result<(), EncodeError> {
        let _ = (snapshot, out);
        Err(EncodeError::Snapshot)
    }

    /// Whether a stream may begin with the events and the text of a snapshot in place of it: such a stream has to say nothing that is not
    /// true of the turn, and no place in it may be one that a reader comes back to.
    fn retells(&self) -> bool {
        false
    }

    /// Appends a filler that readers skip, if the wire has one for this phase.
    fn keep_alive(&mut self, phase: Phase, out: &mut BytesMut);
}

/// Turns frames into bytes, in legal order, nothing after the end.
#[derive(Debug)]
pub struct Encoder {
    order: Order,
    spelling: Box<dyn Spelling>,
    /// Whether a frame was written.
    has_begun: bool,
    /// Events that a retold snapshot had not, or that did not fit: the end says how many.
    events_dropped: u64,
}

impl Encoder {
    /// Appends `frame` to `out`.
    ///
    /// # Errors
    ///
    /// [`EncodeError`]; `out` and the encoder are then as they were.
    pub fn encode(&mut self, frame: &Frame, out: &mut BytesMut) -> Result<(), EncodeError> {
        match frame {
            Frame::Event { event, timestamp } => self.event(event, *timestamp, out),
            Frame::Text(text) => self.text(text, out),
            Frame::End(end) => self.end(end, out),
            Frame::Snapshot(snapshot) => self.snapshot(snapshot, out),
        }
    }

    /// [`Encoder::encode`] for an event.
    ///
    /// # Errors
    ///
    /// As there.
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

    /// [`Encoder::encode`] for a piece of the answer; an empty one is nothing.
    ///
    /// # Errors
    ///
    /// As there.
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

    /// [`Encoder::encode`] for the end.
    ///
    /// # Errors
    ///
    /// As there.
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

    /// [`Encoder::encode`] for a snapshot. A wire that has a frame for it takes one at any place before the end, and goes on with the
    /// index after it. On some of the others a stream may begin with one: it is told as its events and its text, and the end counts
    /// the events that it leaves out. `PROTOCOL.md` says which wire does what.
    ///
    /// # Errors
    ///
    /// As there; [`EncodeError::Snapshot`] where the wire, or this place of the stream, has no room for one.
    pub fn snapshot(&mut self, snapshot: &Snapshot, out: &mut BytesMut) -> Result<(), EncodeError> {
        if self.spelling.retells() {
            return self.retell(snapshot, out);
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

    /// Only to a reader that has nothing: any other would have some of it twice.
    fn retell(&mut self, snapshot: &Snapshot, out: &mut BytesMut) -> Result<(), EncodeError> {
        if self.has_begun || snapshot.frames == 0 {
            return Err(EncodeError::Snapshot);
        }
        self.events_dropped = snapshot.events_dropped;
        for (event, timestamp) in &snapshot.events {
            let told = self.event(event, *timestamp, out);
            self.events_dropped += u64::from(told.is_err());
        }
        self.has_begun = true;
        self.text(&snapshot.text, out)
    }

    /// Says which index the next frame has, for frames that were numbered elsewhere. True where the wire's frames stand alone, each with
    /// its index, so that a stream may begin with any of them. Otherwise nothing changes: such an encoder goes on in the middle of
    /// a stream only after it was given all frames before.
    pub fn seek(&mut self, index: u64) -> bool {
        self.spelling.seek(index)
    }

    /// Whether a reader sees an event before the end that is encoded in `phase`, or now where the stream is further than that.
    pub fn shows_events(&self, phase: Phase) -> bool {
        let phase = match phase {
            Phase::Events => self.order.phase(),
            phase => phase,
        };
        self.spelling.shows_events(phase)
    }

    /// Says that the stream may end at a question and go on in another one, because the turn is kept. True where the wire is set up to
    /// (`parks`): only then [`park`](Self::park) and [`go_on`](Self::go_on) mean anything. To be said before the first frame.
    pub fn may_park(&mut self) -> bool {
        self.spelling.may_park()
    }

    /// Ends this stream at `question`, the frame that was encoded last, in the wire's own form. The turn is not over; the encoder goes on
    /// with the frames behind it for a reader that comes back, or that never left.
    pub fn park(&mut self, question: &InputRequested, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        self.spelling.park(question, timestamp, out);
    }

    /// Begins the stream of a reader that comes back behind a question, the frame that was encoded last.
    pub fn go_on(&mut self, out: &mut BytesMut) {
        self.spelling.go_on(out);
    }

    /// Appends a filler that readers skip, where the wire has one and the stream has not ended.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        if self.order.phase() != Phase::Ended {
            self.spelling.keep_alive(self.order.phase(), out);
        }
    }
}

/// Turns the bytes of one stream back into frames, however they were split.
///
/// Feed it bytes, then take frames until there are none left. `None` means that more bytes are needed, so the iterator may go on
/// after `None`; an error comes once, after the frames before it.
pub trait Decode: Iterator<Item = Result<Frame, DecodeError>> + fmt::Debug + Send {
    /// Takes the next bytes of the stream; after an error or the end they are not looked at, except to report that there are any.
    fn feed(&mut self, bytes: &[u8]);

    /// Says that the bytes are over; there may be one more frame after it.
    fn finish(&mut self) -> Finish;
}

/// How large the parts of a stream may be; for encoders and decoders alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Longest event line in bytes, without its line end.
    pub max_line_bytes: usize,
    /// Longest metadata in bytes.
    pub max_trailer_bytes: usize,
}

impl Limits {
    /// 256 KiB: a tool result with some pages of text fits; what is larger belongs behind a link.
    pub const MAX_LINE_BYTES: usize = 256 * 1024;
    /// 1 MiB: hundreds of citations with their quotes.
    pub const MAX_TRAILER_BYTES: usize = 1024 * 1024;

    /// What a decoder may have to hold where a line does not say first whether it is the end.
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

/// Why a frame cannot go onto the wire: the caller's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The frame may not come now.
    #[error(transparent)]
    OutOfOrder(#[from] OutOfOrder),
    /// The event is longer than the wire allows.
    #[error("event has more than {max_bytes} bytes")]
    TooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// The name of the event holds a control character, for which this wire has no place.
    #[error("name of the event holds a control character")]
    Name,
    /// The event does not serialise.
    #[error("event does not serialise")]
    Json(#[from] serde_json::Error),
    /// The wire has no frame for a snapshot, or its readers have frames already that this one stands for.
    #[error("a snapshot has no place here")]
    Snapshot,
}

impl EncodeError {
    /// Stable machine word for this error.
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

/// Why a stream cannot be read on: the peer's fault. It is permanent; what was decoded before stays valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// An event line is longer than the limit.
    #[error("event line is longer than the limit")]
    LineTooLong,
    /// The metadata is longer than the limit.
    #[error("metadata is longer than the limit")]
    TrailerTooLong,
    /// A line is not a JSON object with a string `event`, or is no frame of this wire.
    #[error("line is not an event")]
    BadEvent,
    /// The metadata is not a JSON object, or does not say how the turn ended.
    #[error("metadata is not a JSON object")]
    BadTrailer,
    /// A separator stands where it may not.
    #[error("separator out of place")]
    StraySeparator,
    /// The index of a frame is not the one that follows the last.
    #[error("a frame is missing or came twice")]
    Gap,
    /// Something follows the end.
    #[error("bytes after the end of the stream")]
    TrailingBytes,
}

impl DecodeError {
    /// Stable machine word for this error; the same in every language.
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

/// What a decoder says when the bytes are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The end was there, and nothing after it.
    Complete,
    /// The stream broke off.
    Truncated {
        /// How far it had come.
        phase: Phase,
    },
    /// The stream broke the rules.
    Invalid(DecodeError),
}
