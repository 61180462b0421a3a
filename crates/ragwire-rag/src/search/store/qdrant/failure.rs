//! Classifies failures of requests to a Qdrant server by gRPC status codes. This module does not
//! know any request.

use std::error::Error;
use std::time::Duration;

use qdrant_client::QdrantError;

use crate::search::store::StoreError;

// The gRPC status codes (github.com/grpc/grpc, doc/statuscodes.md) that are handled here.
const CANCELLED: i32 = 1;
const DEADLINE_EXCEEDED: i32 = 4;
pub(crate) const NOT_FOUND: i32 = 5;
const RESOURCE_EXHAUSTED: i32 = 8;
const ABORTED: i32 = 10;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The gRPC status, if the server sent one.
    pub(crate) code: Option<i32>,
    /// Whether the same request may succeed when it is sent again.
    pub(super) retry: bool,
    /// The pause that the server asks for.
    pub(super) pause: Option<Duration>,
    /// Whether the server is unavailable.
    unavailable: bool,
    source: Box<dyn Error + Send + Sync>,
}

impl Failure {
    pub(super) fn timed_out() -> Self {
        Self {
            code: Some(DEADLINE_EXCEEDED),
            retry: false,
            pause: None,
            unavailable: true,
            source: "Qdrant did not answer in time".into(),
        }
    }

    pub(super) fn of(error: QdrantError) -> Self {
        let (status, pause) = match &error {
            QdrantError::ResponseError { status } => (status, None),
            QdrantError::ResourceExhaustedError {
                status,
                retry_after_seconds,
            } => (status, Some(Duration::from_secs(*retry_after_seconds))),
            _ => {
                return Self {
                    code: None,
                    retry: false,
                    pause: None,
                    unavailable: false,
                    source: error.into(),
                };
            }
        };
        let code = status.code() as i32;
        // A status sent by the server has no source; one caused by a broken connection has. A
        // connection that was never made has the code `internal` and a text.
        let on_the_way = status.source().is_some()
            || code == INTERNAL && status.message().starts_with("Failed to connect to ");
        let late = code == DEADLINE_EXCEEDED || code == CANCELLED && status.message() == "Timeout expired";
        let busy = matches!(code, CANCELLED | RESOURCE_EXHAUSTED | ABORTED | UNAVAILABLE);
        Self {
            code: Some(code),
            retry: (on_the_way || busy) && !late,
            pause,
            unavailable: on_the_way || busy || late,
            // Only the message: the error itself shows all headers of the answer.
            source: format!("{}: {}", status.code(), status.message()).into(),
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        if failure.unavailable {
            Self::Unavailable(failure.source)
        } else {
            Self::Failed(failure.source)
        }
    }
}
