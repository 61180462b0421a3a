//! Turns as HTTP responses, for hyper services and for axum.
//!
//! [`Turn::respond`] creates the streaming response, and [`Rejected::respond`] a complete JSON
//! response. This layer depends on no runtime.

mod answer;
mod body;
#[cfg(feature = "ws")]
pub mod gateway;
mod negotiate;
#[cfg(feature = "axum")]
mod rejection;

use std::time::Duration;

use ::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use ::http::{Response, StatusCode};
use bytes::{Bytes, BytesMut};
use serde::Serialize;

pub use body::TurnBody;
pub use negotiate::{AnyWire, negotiate};

use crate::failure::{Failure, FailureKind};
use crate::json;
use crate::turn::{Rejected, Turn};
use crate::wire::Wire;

/// Turns off buffering in nginx and similar proxies.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The response header `x-ragwire-turn`: the turn's ID, 32 hexadecimal digits.
pub const TURN_HEADER: HeaderName = HeaderName::from_static("x-ragwire-turn");

impl Turn {
    /// Creates the response: status 200, the wire's content type, headers that turn off caching,
    /// compression and buffering on the way, and the body that streams the turn.
    ///
    /// The status is 204 if the turn was resumed past its end ([`Turn::is_empty`]).
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ragwire::{Framed, Metadata, SendError, Sink, Turn};
    ///
    /// async fn answer(sink: Sink) -> Result<Metadata, SendError> {
    ///     sink.send("Yes.").await?;
    ///     Ok(Metadata::default())
    /// }
    ///
    /// let response = Turn::start(answer).commit().await?.respond(Framed::default());
    /// assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    /// # Ok(()) }
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a call site reads `respond(Framed::default())`"
    )]
    pub fn respond(self, wire: impl Wire) -> Response<TurnBody> {
        let (id, is_empty) = (self.id(), self.is_empty());
        let mut response = Response::new(TurnBody::live(self.stream(&wire)));
        if is_empty {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        if !is_empty {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(wire.content_type()));
            headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
            for (name, value) in wire.headers() {
                // `from_static` would panic if a third-party wire has an invalid name.
                if let (Ok(name), Ok(value)) = (HeaderName::try_from(*name), HeaderValue::try_from(*value)) {
                    headers.insert(name, value);
                }
            }
        }
        if let Ok(id) = HeaderValue::try_from(id.to_string()) {
            headers.insert(TURN_HEADER, id);
        }
        response
    }
}

impl Rejected {
    /// Returns the HTTP status for the kind of failure:
    ///
    /// - 404 if the turn, or something it needs, does not exist: a session, or any document,
    /// - 406 if the `Accept` header matches none of the offered wires,
    /// - 409 if the journal's server lost frames that the reader has seen,
    /// - 410 if the journal has dropped the requested frames,
    /// - 415 if whatever answers has no place for a file of the question,
    /// - 416 if the turn has not produced the requested frames yet,
    /// - 429 if the owner has reached its maximum of turns,
    /// - 502 if an upstream that answers in the orchestrator's place fails or cannot be reached,
    /// - 503 if the server is full, shutting down or not reachable, or the turn waited too long,
    /// - 504 if the turn or its upstream exceeded a time limit,
    /// - 500 for every other failure.
    pub fn status(&self) -> StatusCode {
        match &self.failure.kind {
            FailureKind::Busy
            | FailureKind::ShuttingDown
            | FailureKind::QueueTimeout
            | FailureKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            FailureKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            FailureKind::UpstreamFailed
            | FailureKind::UpstreamUnreachable
            | FailureKind::UpstreamRefused
            | FailureKind::UpstreamTruncated
            | FailureKind::UpstreamUnreadable
            | FailureKind::UpstreamTooLarge => StatusCode::BAD_GATEWAY,
            FailureKind::Timeout | FailureKind::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
            FailureKind::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            FailureKind::NotFound
            | FailureKind::NoDocuments
            | FailureKind::NoGraph
            | FailureKind::UnknownTurn => StatusCode::NOT_FOUND,
            FailureKind::Lost => StatusCode::CONFLICT,
            FailureKind::Gone => StatusCode::GONE,
            FailureKind::Ahead => StatusCode::RANGE_NOT_SATISFIABLE,
            FailureKind::FileNotAccepted => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            FailureKind::ChatFailed
            | FailureKind::WriteStalled
            | FailureKind::Stopped
            | FailureKind::Interrupted
            | FailureKind::Other(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Creates the complete JSON response of ADR 0007:
    /// `{"error":{"code","message","recoverable","request_id"}}`.
    ///
    /// With the feature `axum`, `Rejected` implements `IntoResponse` this way.
    pub fn respond(&self) -> Response<TurnBody> {
        error_response(
            self.status(),
            &self.failure,
            &self.id.to_string(),
            self.retry_after,
        )
    }
}

/// Creates a JSON error response in the form of ADR 0007, for requests that the application refuses
/// itself, for example a bad request or an unknown session.
///
/// `request_id` connects the response with the server's log. `retry_after` is rounded down to
/// seconds, to at least one.
pub fn error_response(
    status: StatusCode,
    failure: &Failure,
    request_id: &str,
    retry_after: Option<Duration>,
) -> Response<TurnBody> {
    #[derive(Serialize)]
    struct Envelope<'a> {
        error: ErrorBody<'a>,
    }
    #[derive(Serialize)]
    struct ErrorBody<'a> {
        #[serde(flatten)]
        failure: &'a Failure,
        request_id: &'a str,
    }
    let mut bytes = BytesMut::new();
    if json::write(
        &mut bytes,
        &Envelope {
            error: ErrorBody { failure, request_id },
        },
    )
    .is_err()
    {
        // Strings and a bool always serialize. If not, the status is still correct.
        bytes.clear();
    }
    let mut response = Response::new(TurnBody::whole(bytes.freeze()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(after) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    }
    response
}

impl From<Bytes> for TurnBody {
    fn from(bytes: Bytes) -> Self {
        Self::whole(bytes)
    }
}
