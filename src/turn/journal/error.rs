//! The errors of requests for a turn that is not in the journal, or not from the requested index
//! on.

use crate::failure::{Failure, FailureKind};
use crate::turn::Rejected;

/// This owner has no such turn: it never existed, it belongs to another owner, or it has been
/// evicted. The error does not say which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such turn")]
#[non_exhaustive]
pub struct UnknownTurn;

impl UnknownTurn {
    /// Returns the stable, machine-readable name of this error.
    pub fn code(self) -> &'static str {
        "unknown_turn"
    }
}

/// The reason why a turn cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// This owner has no such turn.
    #[error(transparent)]
    Unknown(#[from] UnknownTurn),
    /// The journal has dropped the frame and has no snapshot of it.
    #[error("frames before index {base} have been dropped")]
    Gone {
        /// The index of the first stored frame.
        base: u64,
    },
    /// The turn has not produced this frame yet.
    #[error("the next frame has index {next}")]
    Ahead {
        /// The index of the next frame.
        next: u64,
    },
    /// The reader has seen frames that the journal has lost since: its server was restarted without
    /// them or evicted them.
    #[error("the journal has lost frames of this turn")]
    Lost,
    /// The journal's server does not answer, so nothing is known about the turn.
    #[error("journal is not reachable")]
    Unavailable,
}

impl ResumeError {
    /// Returns the stable, machine-readable name of this error.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unknown(unknown) => unknown.code(),
            Self::Gone { .. } => "gone",
            Self::Ahead { .. } => "ahead",
            Self::Lost => "lost",
            Self::Unavailable => "unavailable",
        }
    }

    /// Returns the failure that is reported to the client.
    pub fn failure(self) -> Failure {
        match self {
            Self::Unknown(_) => Failure::new(
                FailureKind::UnknownTurn,
                "There is no such answer, or not any more.",
            )
            .permanent(),
            Self::Gone { .. } => gone(),
            Self::Ahead { .. } => {
                Failure::new(FailureKind::Ahead, "The answer has not come that far.").permanent()
            }
            Self::Lost => lost(),
            Self::Unavailable => unavailable(),
        }
    }
}

/// The reason why a turn cannot be stopped by its ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// This owner has no such turn.
    #[error(transparent)]
    Unknown(#[from] UnknownTurn),
    /// The host that runs the turn does not answer. It is safe to stop the turn again.
    #[error("the host of the turn is not reachable")]
    Unavailable,
}

impl StopError {
    /// Returns the stable, machine-readable name of this error.
    pub fn code(self) -> &'static str {
        ResumeError::from(self).code()
    }

    /// Returns the failure that is reported to the client.
    pub fn failure(self) -> Failure {
        ResumeError::from(self).failure()
    }
}

impl From<StopError> for ResumeError {
    fn from(error: StopError) -> Self {
        match error {
            StopError::Unknown(unknown) => Self::Unknown(unknown),
            StopError::Unavailable => Self::Unavailable,
        }
    }
}

/// The failure of a reader whose next frame has been dropped.
pub(super) fn gone() -> Failure {
    Failure::new(
        FailureKind::Gone,
        "A part of this answer is no longer kept. Please ask again.",
    )
}

/// The failure of a turn whose host has died.
#[cfg(feature = "redis")]
pub(super) fn interrupted() -> Failure {
    Failure::new(
        FailureKind::Interrupted,
        "This answer was interrupted. Please ask again.",
    )
}

/// The failure of a turn that has lost frames.
pub(super) fn lost() -> Failure {
    Failure::new(
        FailureKind::Lost,
        "A part of this answer was lost. Please ask again.",
    )
}

/// The failure of a turn whose server or host does not answer.
pub(super) fn unavailable() -> Failure {
    Failure::new(
        FailureKind::Unavailable,
        "This answer cannot be reached now. Please try again.",
    )
}

impl From<ResumeError> for Rejected {
    fn from(error: ResumeError) -> Self {
        Self::new(error.failure())
    }
}

impl From<StopError> for Rejected {
    fn from(error: StopError) -> Self {
        ResumeError::from(error).into()
    }
}
