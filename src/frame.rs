//! The frames of a turn, and the one table that says which may come when.
//!
//! A frame is an event, a piece of the answer, the end, or what stands for frames that are kept no longer. This module decides *whether* a frame may come now
//! ([`Order`]); how it looks is the business of [`crate::wire`]. It knows no wire, no clock and no queue.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use crate::event::Event;
use crate::metadata::Metadata;
use crate::snapshot::Snapshot;

/// One unit of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A progress record.
    Event {
        /// What happened.
        event: Event,
        /// When it was sent; absent only where a stranger's stream did not say.
        timestamp: Option<Timestamp>,
    },
    /// A piece (delta) of the answer.
    Text(String),
    /// The end: nothing follows.
    End(End),
    /// Stands for all frames before the next one. It replaces what its reader has of the turn.
    Snapshot(Box<Snapshot>),
}

impl Frame {
    /// Which row of [`Order`] this frame is.
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Event { .. } => FrameKind::Event,
            Self::Text(_) => FrameKind::Text,
            Self::End(_) => FrameKind::End,
            Self::Snapshot(_) => FrameKind::Snapshot,
        }
    }
}

/// What an orchestrator puts into the sink: anything that becomes an event, or a piece of the answer.
///
/// `&str` and `String` are answer text; byte slices are answer text whose characters may be split anywhere.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it passes through once; a box would be an allocation per event"
)]
pub enum Item<'a> {
    /// A progress record.
    Event(Event),
    /// A piece of the answer.
    Text(Cow<'a, str>),
    /// A piece of the answer that may end within a character; the rest comes with the next piece.
    Bytes(Cow<'a, [u8]>),
}

impl<'a> From<&'a str> for Item<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Item<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Item<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for Item<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Item<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }
}

impl From<Event> for Item<'_> {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

/// What closes a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct End {
    /// How it ended.
    pub status: Status,
    /// Citations, tools, figures.
    pub metadata: Metadata,
    /// When it ended, where somebody looked at a clock. Only wires that have a place for it say so.
    pub timing: Option<Timing>,
}

/// When a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The moment.
    pub timestamp: Timestamp,
    /// Milliseconds since the turn began.
    pub elapsed_ms: u64,
}

impl End {
    /// The turn did what it was asked for.
    pub fn completed(metadata: Metadata) -> Self {
        Self {
            metadata,
            ..Self::default()
        }
    }

    /// The turn failed. Whatever was known of citations and tools is not said: an answer that broke off has no evidence.
    pub fn failed(failure: Failure) -> Self {
        Self {
            status: Status::Failed(failure),
            ..Self::default()
        }
    }

    /// The turn was stopped on request.
    pub fn stopped() -> Self {
        Self {
            status: Status::Stopped,
            ..Self::default()
        }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Status {
    /// The turn did what it was asked for.
    #[default]
    Completed,
    /// Something went wrong.
    Failed(Failure),
    /// Somebody stopped it.
    Stopped,
}

impl Status {
    /// `completed`, `failed` or `stopped`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed(_) => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// What the reader is told about a failure.
///
/// It is meant for the wire, so it never holds the source error: an orchestrator that wants to say more than the default
/// returns one of these as its error, with words fit for a stranger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// Stable machine word.
    pub code: Cow<'static, str>,
    /// The sentence that is shown to the user, and that completes a broken answer.
    pub message: Cow<'static, str>,
    /// Whether asking again may help.
    pub recoverable: bool,
}

impl Failure {
    /// The code of ADR 0007, used where nothing better is known.
    pub const CHAT_FAILED: &'static str = "chat_failed";
    /// The turn took too long, or was silent for too long.
    pub const TIMEOUT: &'static str = "timeout";
    /// The reader did not take what was ready for it.
    pub const WRITE_STALLED: &'static str = "write_stalled";
    /// The server is going down.
    pub const SHUTTING_DOWN: &'static str = "shutting_down";
    /// As many turns as allowed are running, and as many as allowed wait.
    pub const BUSY: &'static str = "busy";
    /// The turn's owner has as many turns as allowed.
    pub const TOO_MANY: &'static str = "too_many";
    /// The turn waited too long for its place.
    pub const QUEUE_TIMEOUT: &'static str = "queue_timeout";
    /// Somebody stopped the turn before its response began.
    pub const STOPPED: &'static str = "stopped";
    /// The reader accepts none of the wires that are offered.
    pub const NOT_ACCEPTABLE: &'static str = "not_acceptable";
    /// There is no such turn for this reader.
    pub const UNKNOWN_TURN: &'static str = "unknown_turn";
    /// What comes next for this reader is kept no longer.
    pub const GONE: &'static str = "gone";
    /// The turn has not come as far as the reader asks.
    pub const AHEAD: &'static str = "ahead";
    /// What the reader has seen of the turn was lost by the journal's server.
    pub const LOST: &'static str = "lost";
    /// The host that ran the turn is gone.
    pub const INTERRUPTED: &'static str = "interrupted";
    /// The journal's server, or the host that runs the turn, does not answer.
    pub const UNAVAILABLE: &'static str = "unavailable";
    /// The sentence of ADR 0007.
    pub const DEFAULT_MESSAGE: &'static str =
        "I hit an internal error while gathering evidence. Please retry.";

    /// A failure that may go away.
    pub fn new(code: impl Into<Cow<'static, str>>, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            recoverable: true,
        }
    }

    /// What a response without a stream says of a turn that ended so; `None` where it completed.
    pub fn of(status: &Status) -> Option<Self> {
        match status {
            Status::Completed => None,
            Status::Failed(failure) => Some(failure.clone()),
            Status::Stopped => Some(Self::new(Self::STOPPED, "The turn was stopped.")),
        }
    }

    /// Says that asking again will not help.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.recoverable = false;
        self
    }
}

impl Default for Failure {
    fn default() -> Self {
        Self::new(Self::CHAT_FAILED, Self::DEFAULT_MESSAGE)
    }
}

/// A moment in UTC, to the microsecond, written as RFC 3339.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    micros: i64,
}

impl Timestamp {
    /// Microseconds since 1970, as far as `jiff` counts: up to 9999-12-30.
    const RANGE: std::ops::RangeInclusive<i64> = 0..=253_402_207_199_999_999;

    /// The moment that lies `micros` microseconds after 1970; brought into the years 1970 to 9999.
    pub fn from_micros(micros: i64) -> Self {
        Self {
            micros: micros.clamp(*Self::RANGE.start(), *Self::RANGE.end()),
        }
    }

    /// Microseconds since 1970.
    pub fn as_micros(self) -> i64 {
        self.micros
    }

    /// Reads RFC 3339; `None` for anything else, and for years before 1970.
    pub fn parse(text: &str) -> Option<Self> {
        let micros = text.parse::<jiff::Timestamp>().ok()?.as_microsecond();
        Self::RANGE.contains(&micros).then_some(Self { micros })
    }
}

impl From<SystemTime> for Timestamp {
    /// A clock that stands before 1970 reads as 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As many digits as it takes of none, three and six: what readers of other languages parse without surprise.
        let precision = match self.micros % 1_000_000 {
            0 => 0,
            fraction if fraction % 1_000 == 0 => 3,
            _ => 6,
        };
        match jiff::Timestamp::from_microsecond(self.micros) {
            Ok(timestamp) => write!(f, "{timestamp:.precision$}"),
            Err(_) => f.write_str("1970-01-01T00:00:00Z"),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The rows of the table in [`Order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// [`Frame::Event`]
    Event,
    /// [`Frame::Text`]
    Text,
    /// [`Frame::End`]
    End,
    /// [`Frame::Snapshot`]
    Snapshot,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Events only so far, or nothing.
    #[default]
    Events,
    /// The answer has begun.
    Text,
    /// The end has begun but is not whole (only a decoder sees this).
    Trailer,
    /// The end is there.
    Ended,
}

impl Phase {
    /// `events`, `text`, `trailer` or `ended`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Text => "text",
            Self::Trailer => "trailer",
            Self::Ended => "ended",
        }
    }
}

/// Which frame may come when. Every encoder and every decoder goes through this table, so they cannot disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    phase: Phase,
}

impl Order {
    /// How far the stream has come.
    pub fn phase(self) -> Phase {
        self.phase
    }

    /// Takes the next frame.
    ///
    /// # Errors
    ///
    /// [`OutOfOrder`] after the end; the order is then as it was.
    pub fn accept(&mut self, frame: FrameKind) -> Result<(), OutOfOrder> {
        self.phase = match (self.phase, frame) {
            // An event may come late: a tool that is called while the answer is being written. Wires whose events stand
            // before the text carry it in the metadata.
            (Phase::Events, FrameKind::Event) => Phase::Events,
            (Phase::Text, FrameKind::Event) => Phase::Text,
            (Phase::Events | Phase::Text, FrameKind::Text) => Phase::Text,
            // An answer without any text is legal.
            (Phase::Events | Phase::Text | Phase::Trailer, FrameKind::End) => Phase::Ended,
            // A decoder that waits for the rest of the metadata gets late events out of it first.
            (Phase::Trailer, FrameKind::Event) => Phase::Trailer,
            // First, or for a reader that fell behind; whether the answer has begun by it is said by `begin_text`.
            (Phase::Events, FrameKind::Snapshot) => Phase::Events,
            (Phase::Text, FrameKind::Snapshot) => Phase::Text,
            (Phase::Trailer, FrameKind::Text | FrameKind::Snapshot) | (Phase::Ended, _) => {
                return Err(OutOfOrder {
                    phase: self.phase,
                    frame,
                });
            }
        };
        Ok(())
    }

    /// A decoder has seen the beginning of the end.
    pub(crate) fn begin_trailer(&mut self) {
        self.phase = Phase::Trailer;
    }

    /// The answer has begun otherwise than by a text: a decoder has seen its separator, or a snapshot has some.
    pub(crate) fn begin_text(&mut self) {
        self.phase = Phase::Text;
    }
}

/// A frame came where it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of kind {frame:?} may not come in phase {phase:?}")]
#[non_exhaustive]
pub struct OutOfOrder {
    /// How far the stream had come.
    pub phase: Phase,
    /// What came.
    pub frame: FrameKind,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_print_as_many_digits_as_they_need() {
        for (micros, text) in [
            (1_767_323_045_678_000, "2026-01-02T03:04:05.678Z"),
            (1_767_323_045_678_901, "2026-01-02T03:04:05.678901Z"),
            (1_767_323_045_000_000, "2026-01-02T03:04:05Z"),
            (1_767_323_045_500_000, "2026-01-02T03:04:05.500Z"),
            (-5, "1970-01-01T00:00:00Z"),
        ] {
            let timestamp = Timestamp::from_micros(micros);
            assert_eq!(timestamp.to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(timestamp));
        }
        assert!(Timestamp::from_micros(i64::MAX).to_string().starts_with("9999-"));
        for text in ["", "yesterday", "1969-12-31T23:59:59Z", "2026-01-02"] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_table() {
        use FrameKind::{End, Event, Snapshot, Text};
        for (frames, phase) in [
            (&[][..], Phase::Events),
            (&[Event, Event], Phase::Events),
            (&[Event, Text], Phase::Text),
            (&[Text, Event], Phase::Text),
            (&[End], Phase::Ended),
            (&[Snapshot, Event], Phase::Events),
            (&[Text, Snapshot, Snapshot], Phase::Text),
            (&[Event, Text, Event, Text, End], Phase::Ended),
        ] {
            let mut order = Order::default();
            for frame in frames {
                order.accept(*frame).unwrap();
            }
            assert_eq!(order.phase(), phase, "{frames:?}");
        }
        for late in [Event, Text, End, Snapshot] {
            let mut order = Order { phase: Phase::Ended };
            order.accept(late).unwrap_err();
            assert_eq!(order.phase(), Phase::Ended);
        }
    }
}
