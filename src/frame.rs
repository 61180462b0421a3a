//! The frames of a turn and its end.
//!
//! A frame is an event, a piece of the answer, the end of the turn, or a snapshot that replaces
//! frames the journal has dropped. [`Order`](crate::Order) decides which frame may follow which;
//! the modules under [`crate::wire`] write them as bytes.

use crate::event::Event;
use crate::failure::Failure;
use crate::metadata::Metadata;
use crate::order::FrameKind;
use crate::snapshot::Snapshot;
use crate::time::{Timestamp, Timing};

/// One unit of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A progress record.
    Event {
        /// What happened.
        event: Event,
        /// When it was sent. `None` only for a decoded stream that does not give the time.
        timestamp: Option<Timestamp>,
    },
    /// A piece (delta) of the answer.
    Text(String),
    /// The end. Nothing follows it.
    End(End),
    /// Replaces all frames before the next one, and everything that its reader has of the turn.
    Snapshot(Box<Snapshot>),
}

impl Frame {
    /// Returns the kind of this frame, by which [`Order`](crate::Order) accepts or rejects it.
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Event { .. } => FrameKind::Event,
            Self::Text(_) => FrameKind::Text,
            Self::End(_) => FrameKind::End,
            Self::Snapshot(_) => FrameKind::Snapshot,
        }
    }
}

/// The end of a turn.
///
/// ```
/// use ragwire::{End, Failure, Metadata, Status};
///
/// let end = End::completed(Metadata::default().tools_used(["search"]));
/// assert_eq!(end.status, Status::Completed);
///
/// let end = End::failed(Failure::new("quota", "You have used today's quota."));
/// assert_eq!(end.status.as_str(), "failed");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct End {
    /// How the turn ended.
    pub status: Status,
    /// Citations, tools and usage.
    pub metadata: Metadata,
    /// When the turn ended, if that is known. Only some wires report it.
    pub timing: Option<Timing>,
}

impl End {
    /// Creates the end of a turn that completed.
    pub fn completed(metadata: Metadata) -> Self {
        Self {
            metadata,
            ..Self::default()
        }
    }

    /// Creates the end of a turn that failed. It has no citations and no tools: an incomplete
    /// answer has no evidence.
    pub fn failed(failure: Failure) -> Self {
        Self {
            status: Status::Failed(failure),
            ..Self::default()
        }
    }

    /// Creates the end of a turn that was stopped on request.
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
    /// The turn finished its work.
    #[default]
    Completed,
    /// The turn failed.
    Failed(Failure),
    /// The turn was stopped on request.
    Stopped,
}

impl Status {
    /// Returns `completed`, `failed` or `stopped`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed(_) => "failed",
            Self::Stopped => "stopped",
        }
    }
}
