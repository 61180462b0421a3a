//! Turns as HTTP responses: for a bare hyper service and for axum alike.
//!
//! [`Turn::respond`] makes the response; [`Rejected`] becomes one too, as complete JSON. This layer knows no runtime.

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

/// Tells nginx and its relatives to pass the stream on as it comes.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Names the turn of a streaming response: 32 hexadecimal digits.
pub const TURN_HEADER: HeaderName = HeaderName::from_static("x-ragwire-turn");

impl Turn {
    /// The response: status 200, the wire's content type, headers against caches, compression and buffering on the way, and the
    /// body that streams the turn.
    ///
    /// A turn that was resumed behind its end has nothing to stream: the status is 204.
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
                // `from_static` would panic on a name that a wire of somebody else's gets wrong.
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
    /// The status that says what kind of rejection this is: 503 where the server is full or going down or the turn waited too long
    /// for its place, 429 where its owner has as many as allowed, 504 where time ran out, 406 where the reader accepts no wire
    /// that is offered; 404, 410 and 416 where a turn is not resumed, because it is unknown, because its frames are no longer kept,
    /// or because it has not come that far; 500 for the rest.
    pub fn status(&self) -> StatusCode {
        match &self.failure.kind {
            FailureKind::Busy
            | FailureKind::ShuttingDown
            | FailureKind::QueueTimeout
            | FailureKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            FailureKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            FailureKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            FailureKind::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            FailureKind::NotFound | FailureKind::UnknownTurn => StatusCode::NOT_FOUND,
            FailureKind::Lost => StatusCode::CONFLICT,
            FailureKind::Gone => StatusCode::GONE,
            FailureKind::Ahead => StatusCode::RANGE_NOT_SATISFIABLE,
            FailureKind::ChatFailed
            | FailureKind::WriteStalled
            | FailureKind::Stopped
            | FailureKind::Interrupted
            | FailureKind::Other(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The complete JSON response of ADR 0007: `{"error":{"code","message","recoverable","request_id"}}`.
    ///
    /// With the feature `axum` this is also its `IntoResponse`.
    pub fn respond(&self) -> Response<TurnBody> {
        error_response(
            self.status(),
            &self.failure,
            &self.id.to_string(),
            self.retry_after,
        )
    }
}

/// A JSON error response in the form of ADR 0007, for refusals of the application's own: a bad request, an unknown session.
///
/// `request_id` is what the client may quote to whoever reads the logs.
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
        // Strings and a bool always serialise; should that ever change, the status still says what happened.
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
