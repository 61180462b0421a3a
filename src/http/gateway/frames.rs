//! The messages of the gateway itself. The wire writes those of the turns.

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde_json::Value;

use super::Gateway;
use crate::json;

/// The reason why a message of the client is refused. `error`, `auth-required` and
/// `unknown-service` are TrustGraph's types, the others ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The message cannot be understood.
    BadMessage(&'static str),
    /// The client must authenticate first.
    AuthRequired,
    /// No service has that name.
    UnknownService,
    /// The message has no usable ID.
    BadId,
    /// The ID is in flight.
    DuplicateId,
    /// The maximum number of IDs is in flight.
    TooManyRequests,
}

impl Refusal {
    fn kind(self) -> &'static str {
        match self {
            Self::BadMessage(_) => Gateway::ERROR,
            Self::AuthRequired => Gateway::AUTH_REQUIRED,
            Self::UnknownService => Gateway::UNKNOWN_SERVICE,
            Self::BadId => Gateway::BAD_ID,
            Self::DuplicateId => Gateway::DUPLICATE_ID,
            Self::TooManyRequests => Gateway::TOO_MANY_REQUESTS,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::BadMessage(message) => message,
            // TrustGraph's own texts.
            Self::AuthRequired => "auth failure",
            Self::UnknownService => "unknown service",
            Self::BadId => "The request has no usable id.",
            Self::DuplicateId => "A request with this id is still running.",
            Self::TooManyRequests => "Too many requests are running on this socket.",
        }
    }

    /// Returns the error message. `id` is that of the request, if it has a usable one.
    pub(super) fn frame(self, id: Option<&str>) -> Bytes {
        // A client takes an error under an ID for the end of that ID, and would give up the running
        // request.
        let (id, refused_id) = match self {
            Self::DuplicateId => (None, id),
            Self::BadMessage(_)
            | Self::AuthRequired
            | Self::UnknownService
            | Self::BadId
            | Self::TooManyRequests => (id, None),
        };
        encode(&ErrorFrame {
            id,
            error: Error {
                message: self.message(),
                kind: self.kind(),
            },
            refused_id,
            complete: true,
        })
    }
}

#[derive(Serialize)]
struct ErrorFrame<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    error: Error<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_id: Option<&'a str>,
    complete: bool,
}

#[derive(Serialize)]
struct Error<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
}

/// The answer to an accepted token.
pub(super) fn auth_ok(default_workspace: Option<&str>) -> Bytes {
    #[derive(Serialize)]
    struct AuthOk<'a> {
        r#type: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        default_workspace: Option<&'a str>,
    }
    encode(&AuthOk {
        r#type: "auth-ok",
        default_workspace,
    })
}

/// The answer to a refused token. It never contains the reason.
pub(super) fn auth_failed() -> Bytes {
    Bytes::from_static(br#"{"type":"auth-failed","error":"auth failure"}"#)
}

/// The response of the service `triples`.
pub(super) fn triples(id: &str, response: &Value) -> Bytes {
    #[derive(Serialize)]
    struct Found<'a> {
        id: &'a str,
        response: &'a Value,
        complete: bool,
    }
    encode(&Found {
        id,
        response,
        complete: true,
    })
}

fn encode(frame: &impl Serialize) -> Bytes {
    let mut bytes = BytesMut::new();
    if let Err(error) = json::write(&mut bytes, frame) {
        // JSON, strings and a bool always serialise.
        tracing::error!(%error, "a message cannot be serialised");
    }
    bytes.freeze()
}
