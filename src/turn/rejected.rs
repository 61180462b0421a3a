//! The rejection of a turn.

use std::time::Duration;

use super::id::TurnId;
use crate::failure::Failure;

/// Why there is no stream: the turn failed, was stopped or was refused before its response began.
///
/// With the feature `http` it converts to a complete JSON response.
#[derive(Clone, Debug, thiserror::Error)]
#[error("turn {id} was rejected: {}", failure.code())]
#[non_exhaustive]
pub struct Rejected {
    /// The turn; the response has it as `request_id`.
    pub id: TurnId,
    /// The failure that the client gets.
    pub failure: Failure,
    /// How long the client should wait before it asks again, if that is known.
    pub retry_after: Option<Duration>,
}

impl Rejected {
    /// Creates a rejection of the caller's own, for a request that starts no turn.
    ///
    /// ```
    /// use ragwire::{Failure, Rejected};
    ///
    /// let rejected = Rejected::new(Failure::new("quota", "You have used today's quota."));
    /// assert_eq!(rejected.failure.code(), "quota");
    /// ```
    pub fn new(failure: Failure) -> Self {
        Self {
            id: TurnId::random(),
            failure,
            retry_after: None,
        }
    }
}
