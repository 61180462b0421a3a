//! Reads the body of a request: bounded in bytes, in silence and in time.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde_json::Value;
use serde_json::error::Category;
use tokio::time::{Instant, timeout_at};

use super::refusal::Refusal;

/// Longest time for a body as a multiple of the longest silence: a client that sends one byte now and then ends too.
const SILENCES: u32 = 20;
/// How long, and how much, is still read of a body that is refused. Closing a connection with unread bytes resets it, and the
/// client would never see why.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 << 20;

/// Reads all of `body`.
pub(super) async fn read(
    headers: &HeaderMap,
    mut body: Body,
    max_bytes: usize,
    silence: Duration,
) -> Result<Bytes, Refusal> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > max_bytes as u64) {
        linger(headers, body).await;
        return Err(too_large(max_bytes));
    }
    let end = Instant::now() + silence * SILENCES;
    let mut bytes = BytesMut::new();
    loop {
        let frame = timeout_at(end.min(Instant::now() + silence), body.frame()).await;
        match frame {
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                if bytes.len() + data.len() > max_bytes {
                    linger(headers, body).await;
                    return Err(too_large(max_bytes));
                }
                bytes.extend_from_slice(&data);
            }
            Ok(Some(Err(_))) => {
                return Err(Refusal::passing(
                    StatusCode::BAD_REQUEST,
                    "body_broke_off",
                    "The body of the request broke off.",
                ));
            }
            Err(_) => {
                return Err(Refusal::passing(
                    StatusCode::REQUEST_TIMEOUT,
                    "body_timeout",
                    "The body of the request took too long to arrive.",
                ));
            }
        }
    }
}

fn too_large(max_bytes: usize) -> Refusal {
    Refusal::permanent(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("The body has more than the {max_bytes} bytes that this route takes."),
    )
}

/// Reads on without keeping anything, unless the client still waits to be told to send it.
pub(super) async fn linger(headers: &HeaderMap, mut body: Body) {
    if headers.contains_key(EXPECT) {
        return;
    }
    let mut left = LINGER_BYTES;
    let end = Instant::now() + LINGER;
    while let Ok(Some(Ok(frame))) = timeout_at(end, body.frame()).await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            break;
        }
    }
}

/// Reads JSON. What is no JSON is 400, what is not of the right shape 422, as the ADR's server does.
pub(super) fn json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Refusal> {
    if !is_json(headers) {
        return Err(Refusal::permanent(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "Send JSON, with the header content-type: application/json.",
        ));
    }
    // Serde would take an array for a struct, member by member.
    let read = if bytes.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice::<IgnoredAny>(bytes).and_then(|_| Err(serde_json::Error::custom("an array")))
    } else {
        serde_json::from_slice(bytes)
    };
    read.map_err(|error| {
        // A number in place of a word is a mistake of grammar to serde_json, though the JSON is fine.
        if error.classify() == Category::Data || serde_json::from_slice::<Value>(bytes).is_ok() {
            Refusal::permanent(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid_request",
                format!("The request is not of the expected shape: {error}."),
            )
        } else {
            Refusal::permanent(
                StatusCode::BAD_REQUEST,
                "bad_json",
                format!("The body is not valid JSON: {error}."),
            )
        }
    })
}

/// A page of another origin can send `text/plain` without being asked, and `application/json` it cannot.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = media_type(headers).unwrap_or_default();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// The media type without its parameters, in lower case.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(http::header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default();
    Some(essence.trim().to_ascii_lowercase())
}
