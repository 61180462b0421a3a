//! What a client is told whose answer to a question of the turn was not taken.

use ::http::{Response, StatusCode};

use super::{TurnBody, error_response};
use crate::failure::Failure;
use crate::turn::{AnswerError, TurnId};

impl AnswerError {
    /// The status: 404 where nothing of that name was asked, 409 where it was answered differently, 410 where it is over, 422
    /// where the answer does not fit, 503 where the turn's host does not answer.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Different => StatusCode::CONFLICT,
            Self::Late => StatusCode::GONE,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The same for whoever answered. Only an unreachable host may be there again.
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

    /// The complete JSON response, in the form of [`error_response`]; `turn` is its `request_id`.
    pub fn respond(self, turn: TurnId) -> Response<TurnBody> {
        error_response(self.status(), &self.failure(), &turn.to_string(), None)
    }
}
