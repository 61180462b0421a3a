//! Refused requests, in the form of ADR 0007 (see docs/protocols.md):
//! `{"error":{"code","message","recoverable","request_id"}}`.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ragwire::http::error_response;
use ragwire::session::SessionError;
use ragwire::turn::{AnswerError, Rejected, ResumeError, TurnId};
use ragwire::{Failure, FailureKind};
use serde_json::Value;

use crate::request_id::RequestId;

/// The header for the id of a refusal where the body has no member for it.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest name or type of a request that a refusal quotes, in bytes.
const MAX_QUOTED_BYTES: usize = 64;
/// When to retry a change that the full disk did not allow: nobody makes room within seconds.
const NO_SPACE_RETRY: Duration = Duration::from_secs(30);

/// Returns as much of a name from a request as a refusal quotes.
pub(crate) fn quotable(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_QUOTED_BYTES)]
}

/// A refused request.
///
/// It is an error and an axum response, so a handler can return it with `?`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {}", self.failure.code(), self.failure.message)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The code and the message for the client.
    pub failure: Failure,
    /// When a retry makes sense, if that is known.
    pub retry_after: Option<Duration>,
    /// The id that the client can quote to the operator, who finds its first 8 digits in the log: the
    /// turn's, if there was one.
    pub request_id: TurnId,
    /// Whether that ID is a turn's.
    names_turn: bool,
}

impl Refusal {
    /// Creates a refusal that the same request would get again.
    pub fn permanent(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self::new(status, Failure::new(code, message.into()).permanent())
    }

    /// Creates a refusal that a retry may avoid.
    pub fn temporary(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self::new(status, Failure::new(code, message.into()))
    }

    /// Creates the refusal for an error of this server. The error itself is only logged.
    pub fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error, "a request failed");
        Self::temporary(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The server failed. Please retry.",
        )
    }

    /// Creates a refusal with the code and the message of `failure`.
    pub fn new(status: StatusCode, failure: Failure) -> Self {
        Self {
            status,
            failure,
            retry_after: None,
            request_id: TurnId::random(),
            names_turn: false,
        }
    }

    /// Creates the refusal for a turn that cannot be resumed or stopped.
    pub(crate) fn of_turn(id: TurnId, error: impl Into<ResumeError>) -> Self {
        Self {
            request_id: id,
            names_turn: true,
            ..Rejected::from(error.into()).into()
        }
    }

    /// Creates the refusal for a turn whose record cannot be read or changed.
    pub(crate) fn of_record(error: SessionError) -> Self {
        match error {
            SessionError::Unknown => Self::permanent(
                StatusCode::NOT_FOUND,
                "not_found",
                "There is no record of such a turn: it is unknown, has not ended, or belongs to no session.",
            ),
            SessionError::NoSpace => Self::no_space(),
            other => Self::internal(&other),
        }
    }

    /// Creates the refusal for a change that the full disk of the server does not allow.
    pub fn no_space() -> Self {
        Self::temporary(
            StatusCode::INSUFFICIENT_STORAGE,
            "no_space",
            "The disk of the server is full, so nothing was stored. Remove documents, or retry once there is room.",
        )
        .retry_after(NO_SPACE_RETRY)
    }

    /// Creates the refusal for a human's answer that the turn does not accept.
    pub(crate) fn of_answer(id: TurnId, error: AnswerError) -> Self {
        Self {
            request_id: id,
            names_turn: true,
            ..Self::new(error.status(), error.failure())
        }
    }

    /// Logs the refusal, with a part of its request id, and returns the whole id: the turn's if there
    /// was one, otherwise that of the HTTP request in its [scope](crate::RequestId::scope).
    pub fn log(&self) -> String {
        let request = RequestId::current().filter(|_| !self.names_turn);
        let id = request.map_or_else(|| self.request_id.to_string(), |id| id.to_string());
        tracing::info!(
            code = self.failure.code(),
            status = self.status.as_u16(),
            request_id = self.request_id.short(),
            "refused a request"
        );
        id
    }

    /// Sets when to retry.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Creates the response for a protocol with its own error body, with the status and, in whole
    /// seconds, `retry-after`.
    pub(crate) fn respond_with(&self, body: Value) -> Response {
        let mut response = (self.status, Json(body)).into_response();
        self.add_retry_after(response.headers_mut());
        response
    }

    /// Adds `retry-after` in whole seconds, if it is known.
    pub(crate) fn add_retry_after(&self, headers: &mut HeaderMap) {
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
    }
}

/// The failure for a session that does not exist, has expired, or belongs to another owner.
pub(crate) fn unknown_session() -> Failure {
    Failure::new(
        FailureKind::NotFound,
        "There is no such session; it may have been forgotten.",
    )
    .permanent()
}

impl From<Rejected> for Refusal {
    fn from(rejected: Rejected) -> Self {
        Self {
            status: rejected.status(),
            failure: rejected.failure,
            retry_after: rejected.retry_after,
            request_id: rejected.id,
            names_turn: true,
        }
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Unknown => Self::new(StatusCode::NOT_FOUND, unknown_session()),
            SessionError::NoSpace => Self::no_space(),
            other => Self::internal(&other),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let id = self.log();
        error_response(self.status, &self.failure, &id, self.retry_after).map(Body::new)
    }
}
