//! What the gateway itself says on a socket; what the turns say is their wire's.

use bytes::{Bytes, BytesMut};
use serde::Serialize;

use super::Gateway;
use crate::json;

/// Why a message of the client is not served. The first five types are TrustGraph's, the others ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It cannot be understood.
    BadMessage(&'static str),
    /// The client has to authenticate first.
    AuthRequired,
    /// No service has that name.
    UnknownService,
    /// It has no id with which it could be answered.
    BadId,
    /// Its id is in flight.
    DuplicateId,
    /// As many ids as allowed are in flight.
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
            // TrustGraph's own words for these two.
            Self::AuthRequired => "auth failure",
            Self::UnknownService => "unknown service",
            Self::BadId => "The request has no usable id.",
            Self::DuplicateId => "A request with this id is still running.",
            Self::TooManyRequests => "Too many requests are running on this socket.",
        }
    }

    /// The error frame. `id` is that of the request, where it has one that can be told back.
    pub(super) fn frame(self, id: Option<&str>) -> Bytes {
        // A client takes an error under an id for the end of that id, and would give up the request that runs.
        let (id, refused_id) = match self {
            Self::DuplicateId => (None, id),
            _ => (id, None),
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

/// The answer to a token that is accepted.
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

/// The answer to a token that is not; it never says why.
pub(super) fn auth_failed() -> Bytes {
    Bytes::from_static(br#"{"type":"auth-failed","error":"auth failure"}"#)
}

fn encode(frame: &impl Serialize) -> Bytes {
    let mut bytes = BytesMut::new();
    if let Err(error) = json::write(&mut bytes, frame) {
        // Strings and a bool always serialise.
        tracing::error!(%error, "a frame does not serialise");
    }
    bytes.freeze()
}
