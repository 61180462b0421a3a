//! Reads request bodies, with limits on bytes, silence and total time.
//!
//! The routes of this crate use it, and so can handlers that take the request types themselves.

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

use crate::refusal::Refusal;

/// Longest total time for a body, as a multiple of the longest silence. It stops clients that send
/// one byte now and then.
const SILENCES: u32 = 20;
/// How long, and how much, the server still reads of a refused body. Closing a connection with
/// unread bytes resets it, and the client would not see the refusal.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 << 20;

/// Reads the whole body.
///
/// # Errors
///
/// 413 above `max_bytes`, 408 after `silence` without a byte or 20 times that long in total, 400 if
/// the connection breaks off.
pub async fn read(
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
                return Err(Refusal::temporary(
                    StatusCode::BAD_REQUEST,
                    "body_broke_off",
                    "The request body is incomplete.",
                ));
            }
            Err(_) => {
                return Err(Refusal::temporary(
                    StatusCode::REQUEST_TIMEOUT,
                    "body_timeout",
                    "The request body took too long to arrive.",
                ));
            }
        }
    }
}

fn too_large(max_bytes: usize) -> Refusal {
    Refusal::permanent(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("The request body is longer than the limit of {max_bytes} bytes."),
    )
}

/// Reads and discards the rest, unless the client still waits for `100 Continue`.
pub async fn linger(headers: &HeaderMap, mut body: Body) {
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

/// Parses JSON. Malformed JSON gets 400, JSON of the wrong shape 422, as in ADR 0007.
///
/// # Errors
///
/// Also 415 if the content type is not JSON.
pub fn json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Refusal> {
    if !is_json(headers) {
        return Err(Refusal::permanent(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "Send JSON with the header content-type: application/json.",
        ));
    }
    // Serde would accept an array for a struct, member by member.
    let read = if bytes.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice::<IgnoredAny>(bytes).and_then(|_| Err(serde_json::Error::custom("an array")))
    } else {
        serde_json::from_slice(bytes)
    };
    read.map_err(|error| {
        // serde_json reports a number in place of a string as a syntax error, although the JSON is
        // valid.
        if error.classify() == Category::Data || serde_json::from_slice::<Value>(bytes).is_ok() {
            Refusal::permanent(
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid_request",
                format!("The request does not have the expected shape: {error}."),
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

/// Requires a JSON type: a page of another origin can send `text/plain` without a preflight
/// request, but not `application/json`.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = media_type(headers).unwrap_or_default();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Returns the media type without its parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(http::header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default();
    Some(essence.trim().to_ascii_lowercase())
}
