//! Every refusal of this server, in the one form of ADR 0007: `{"error":{"code","message","recoverable","request_id"}}`.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire::Failure;
use ragwire::http::error_response;
use ragwire::turn::{Rejected, TurnId};

/// A request that is not served.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// What the client is told.
    pub failure: Failure,
    /// When asking again makes sense, where that is known.
    pub retry_after: Option<Duration>,
    /// What the client may quote to whoever reads the logs: the turn, where there was one.
    pub request_id: TurnId,
}

impl Refusal {
    /// One that the same request would get again.
    pub fn permanent(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            failure: Failure::new(code, message.into()).permanent(),
            retry_after: None,
            request_id: TurnId::random(),
        }
    }

    /// One that may go away.
    pub fn passing(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            failure: Failure::new(code, message.into()),
            retry_after: None,
            request_id: TurnId::random(),
        }
    }

    /// Something that is this server's fault. The error itself is only logged.
    pub fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error, "a request failed");
        Self::passing(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The server failed. Please retry.",
        )
    }

    /// Writes it to the log, and says under which id.
    pub fn log(&self) -> String {
        let id = self.request_id.to_string();
        tracing::info!(
            code = self.failure.code(),
            status = self.status.as_u16(),
            request_id = id,
            "refused"
        );
        id
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }
}

impl From<Rejected> for Refusal {
    fn from(rejected: Rejected) -> Self {
        Self {
            status: rejected.status(),
            failure: rejected.failure,
            retry_after: rejected.retry_after,
            request_id: rejected.id,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let id = self.log();
        error_response(self.status, &self.failure, &id, self.retry_after).map(Body::new)
    }
}
