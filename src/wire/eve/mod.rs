//! The wire of Eve: JSON lines of the form `{"type":…,"data":{…}}`.
//!
//! There are two vocabularies. *Shipped* is version 16, as the published clients read it.
//! *Documented* is that of Eve's page of events, which no published client reads. An encoder writes
//! one turn, but a stream of Eve is a session: the settings of [`Eve`] describe the turn's place in
//! its session.
//!
//! This module does not store sessions and has no clock and no random numbers: every ID is made of
//! the turn's number and a word. The rules are in `PROTOCOL.md`, section "Eve" (`[E-nn]`), the
//! vectors in `tests/vectors/eve`; `docs/protocols.md` introduces Eve.
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::Wire;
//! use ragwire::{End, Eve};
//!
//! let wire = Eve::new("s").turn(1).documented().first_index(9);
//! let (mut encoder, mut bytes) = (wire.encoder(), BytesMut::new());
//! encoder.text("Yes.", &mut bytes).unwrap();
//! assert_eq!(
//!     &bytes[..],
//!     b"{\"type\":\"agent.start\",\"streamIndex\":9}\n\
//!       {\"type\":\"agent.content.delta\",\"data\":{\"text\":\"Yes.\"},\"streamIndex\":10}\n"
//! );
//! assert!(!wire.ends_session(&End::stopped()));
//! ```

mod decode;
mod documented;
mod line;
mod shipped;

use std::sync::Arc;

pub use self::decode::EveDecoder;
use super::{Limits, Spelling, Wire};
use crate::frame::{End, Status};

/// The wire of Eve, for one turn of a session.
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct Eve {
    session_id: Arc<str>,
    sequence: u64,
    message: Option<Arc<str>>,
    documented: bool,
    parks: bool,
    first_index: u64,
    max_message_bytes: usize,
    limits: Limits,
}

impl Eve {
    /// The name of the format, for the header `x-eve-stream-format`.
    pub const STREAM_FORMAT: &'static str = "ndjson";
    /// The version of the protocol, for the header `x-eve-stream-version`.
    pub const STREAM_VERSION: u32 = 16;
    /// The media type.
    pub const STREAM_CONTENT_TYPE: &'static str = "application/x-ndjson; charset=utf-8";
    /// Some four thousand tokens, which few answers reach. The protocol repeats the answer in every
    /// line, so a step of N bytes in pieces of 4 costs N²/8 bytes: 32 MiB for this limit.
    const MAX_MESSAGE_BYTES: usize = 16 * 1024;
    /// The size of the answer in the documented `message.appended` and `message.completed`. Readers
    /// of Eve refuse lines of more than 5 MiB, and a byte may become six when it is escaped.
    const MAX_CONTENT_BYTES: usize = 512 * 1024;

    /// Creates the wire of the first turn of a session, in the shipped vocabulary.
    pub fn new(session_id: impl Into<Arc<str>>) -> Self {
        Self {
            session_id: session_id.into(),
            sequence: 0,
            message: None,
            documented: false,
            parks: false,
            first_index: 0,
            max_message_bytes: Self::MAX_MESSAGE_BYTES,
            limits: Limits::default(),
        }
    }

    /// Sets the number of this turn in its session, counted from 0. Turn 0 begins the session.
    #[must_use]
    pub fn turn(mut self, sequence: u64) -> Self {
        self.sequence = sequence;
        self
    }

    /// Sets the user's message, which the stream repeats.
    #[must_use]
    pub fn message(mut self, message: impl Into<Arc<str>>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Uses the vocabulary of Eve's page of events.
    #[must_use]
    pub fn documented(mut self) -> Self {
        self.documented = true;
        self
    }

    /// Asks a human as Eve does: `session.waiting` follows the question and ends the stream, and
    /// the frames after the answer begin another step. Every reader gets that line, whether its
    /// stream ends there or not, because a position in the session is a number of lines.
    ///
    /// This is for journaled turns, whose answer continues in another stream
    /// (`turn::Journal::request`). It has no effect on any other turn.
    #[must_use]
    pub fn parks(mut self) -> Self {
        self.parks = true;
        self
    }

    /// Sets the number of lines in the session before this turn, which is the `streamIndex` of the
    /// turn's first line. The shipped vocabulary does not send it.
    #[must_use]
    pub fn first_index(mut self, index: u64) -> Self {
        self.first_index = index;
        self
    }

    /// Sets how many bytes of the answer one `message.appended` repeats. Default: 16 KiB. The
    /// minimum is 4, so that every character fits. A longer answer continues in another step.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes.max(4);
        self
    }

    /// Sets the limits of each line of an event, and of the metadata.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns `true` if a turn with this end is the last of its session. Its last line is then
    /// `session.failed`, otherwise `session.waiting`.
    ///
    /// Every failure ends the session: the clients and the hook of version 16 show nothing of a
    /// `turn.failed`, and the documented vocabulary has no failure of a turn.
    pub fn ends_session(&self, end: &End) -> bool {
        matches!(end.status, Status::Failed(_))
    }
}

impl Wire for Eve {
    fn name(&self) -> &'static str {
        "eve"
    }

    fn content_type(&self) -> &'static str {
        Self::STREAM_CONTENT_TYPE
    }

    /// Without `x-eve-session-id`, which differs between sessions.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("x-eve-stream-format", Self::STREAM_FORMAT),
            ("x-eve-stream-version", "16"),
            ("cache-control", "no-store, no-transform"),
        ]
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        if self.documented {
            Box::new(documented::Documented::new(self.clone()))
        } else {
            Box::new(shipped::Shipped::new(self.clone()))
        }
    }
}

/// The types of both vocabularies and those that clients use internally. An application event with
/// such a name gets a prefix.
const TYPES: [&str; 38] = [
    "session.started",
    "session.waiting",
    "session.completed",
    "session.failed",
    "turn.started",
    "turn.completed",
    "turn.failed",
    "turn.cancelled",
    "step.started",
    "step.completed",
    "step.failed",
    "message.received",
    "message.appended",
    "message.completed",
    "reasoning.appended",
    "reasoning.completed",
    "actions.requested",
    "action.result",
    "input.requested",
    "input.resolved",
    "authorization.required",
    "authorization.granted",
    "authorization.completed",
    "result.completed",
    "compaction.requested",
    "compaction.completed",
    "subagent.called",
    "subagent.started",
    "subagent.event",
    "subagent.completed",
    "agent.start",
    "agent.content.delta",
    "agent.tool_call",
    "agent.tool_result",
    "agent.complete",
    "client.message.submitted",
    "client.message.failed",
    "client.input.responded",
];
