//! The response to an answer that was not accepted.

use ::http::{Response, StatusCode};

use super::{TurnBody, error_response};
use crate::failure::Failure;
use crate::turn::{AnswerError, TurnId};

impl AnswerError {
    /// Returns the HTTP status: 404 if the question is unknown, 409 if it has a different answer,
    /// 410 if it is closed, 422 if the answer does not fit, 503 if the turn's host does not
    /// respond.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Different => StatusCode::CONFLICT,
            Self::Late => StatusCode::GONE,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the failure for the client. Only an unreachable host is recoverable.
    pub fn failure(self) -> Failure {
        let message = match self {
            Self::Unknown => "There is no such question.",
            Self::Different => "The question has another answer already.",
            Self::Late => "Nobody waits for this answer any more.",
            Self::Invalid => "This is no answer to the question.",
            Self::Unavailable => "This answer cannot be delivered now. Please try again.",
        };
        let failure = Failure::new(self.code(), message);
        if self == Self::Unavailable {
            failure
        } else {
            failure.permanent()
        }
    }

    /// Creates the complete JSON response in the form of [`error_response`], with `turn` as
    /// `request_id`.
    pub fn respond(self, turn: TurnId) -> Response<TurnBody> {
        error_response(self.status(), &self.failure(), &turn.to_string(), None)
    }
}
