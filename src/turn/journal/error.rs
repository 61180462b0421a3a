//! Why a turn is not found in the journal, or not from there on.

use crate::failure::{Failure, FailureKind};
use crate::turn::Rejected;

/// No turn of that id for that owner: there never was one, it is somebody else's, or it is kept no longer. Which of these it is, is
/// nobody's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such turn")]
#[non_exhaustive]
pub struct UnknownTurn;

impl UnknownTurn {
    /// Stable machine word for this error.
    pub fn code(self) -> &'static str {
        "unknown_turn"
    }
}

/// Why a turn is not resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// There is no such turn for that owner.
    #[error(transparent)]
    Unknown(#[from] UnknownTurn),
    /// The frame was there, and is kept no longer, nor is there a snapshot of it.
    #[error("frames before index {base} are no longer kept")]
    Gone {
        /// The first frame that is kept.
        base: u64,
    },
    /// The turn has not come that far.
    #[error("the next frame has index {next}")]
    Ahead {
        /// The index that the next frame gets.
        next: u64,
    },
    /// The reader has seen frames that the journal has lost since: its server was restarted without them, or they were evicted.
    #[error("the journal has lost frames of this turn")]
    Lost,
    /// The journal's server does not answer. Nothing is known of the turn.
    #[error("journal is not reachable")]
    Unavailable,
}

impl ResumeError {
    /// Stable machine word for this error.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unknown(unknown) => unknown.code(),
            Self::Gone { .. } => "gone",
            Self::Ahead { .. } => "ahead",
            Self::Lost => "lost",
            Self::Unavailable => "unavailable",
        }
    }

    /// What the client is told.
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

/// Why a turn is not stopped by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// There is no such turn for that owner.
    #[error(transparent)]
    Unknown(#[from] UnknownTurn),
    /// The host that runs the turn does not answer. Stopping it again is safe.
    #[error("the host of the turn is not reachable")]
    Unavailable,
}

impl StopError {
    /// Stable machine word for this error.
    pub fn code(self) -> &'static str {
        ResumeError::from(self).code()
    }

    /// What the client is told.
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

/// A reader is told that what comes next for it is kept no longer.
pub(super) fn gone() -> Failure {
    Failure::new(
        FailureKind::Gone,
        "A part of this answer is no longer kept. Please ask again.",
    )
}

/// The host that ran the turn is gone.
#[cfg(feature = "redis")]
pub(super) fn interrupted() -> Failure {
    Failure::new(
        FailureKind::Interrupted,
        "This answer was interrupted. Please ask again.",
    )
}

/// What a reader has seen of the turn is not there any more.
pub(super) fn lost() -> Failure {
    Failure::new(
        FailureKind::Lost,
        "A part of this answer was lost. Please ask again.",
    )
}

/// Nothing can be said of the turn now.
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
