//! What went wrong on the way to a Qdrant server and there, by gRPC's status codes. It knows no request.

use std::error::Error;
use std::time::Duration;

use qdrant_client::QdrantError;

use crate::search::store::StoreError;

// The codes of gRPC (github.com/grpc/grpc, doc/statuscodes.md) that mean something here.
const CANCELLED: i32 = 1;
const DEADLINE_EXCEEDED: i32 = 4;
pub(super) const NOT_FOUND: i32 = 5;
const RESOURCE_EXHAUSTED: i32 = 8;
const ABORTED: i32 = 10;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

/// A request that failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// gRPC's status, where one came.
    pub(super) code: Option<i32>,
    /// Whether the same request may do better.
    pub(super) again: bool,
    /// In which time, where the server says so.
    pub(super) pause: Option<Duration>,
    /// Whether the server is not there, or not now.
    away: bool,
    source: Box<dyn Error + Send + Sync>,
}

impl Failure {
    pub(super) fn timed_out() -> Self {
        Self {
            code: Some(DEADLINE_EXCEEDED),
            again: false,
            pause: None,
            away: true,
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
                    again: false,
                    pause: None,
                    away: false,
                    source: error.into(),
                };
            }
        };
        let code = status.code() as i32;
        // What the server says has no source; what broke on the way has one. A connection that never came is `internal` with a text.
        let on_the_way = status.source().is_some()
            || code == INTERNAL && status.message().starts_with("Failed to connect to ");
        let late = code == DEADLINE_EXCEEDED || code == CANCELLED && status.message() == "Timeout expired";
        let busy = matches!(code, CANCELLED | RESOURCE_EXHAUSTED | ABORTED | UNAVAILABLE);
        Self {
            code: Some(code),
            again: (on_the_way || busy) && !late,
            pause,
            away: on_the_way || busy || late,
            // Not the error itself: it shows all headers of the answer.
            source: format!("{}: {}", status.code(), status.message()).into(),
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        if failure.away {
            Self::Unavailable(failure.source)
        } else {
            Self::Failed(failure.source)
        }
    }
}
