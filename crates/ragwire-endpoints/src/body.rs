//! Parses request bodies, which [`Bodies`](crate::Bodies) reads.
//!
//! The routes of this crate use it, and so can handlers that take the request types themselves.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use serde::de::{DeserializeOwned, Error};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::refusal::Refusal;

/// How long, and how much, the server still reads of a refused body. Closing a connection with
/// unread bytes resets it, and the client would not see the refusal.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 << 20;

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
/// Also 415 if the content type is not JSON, if its `charset` is not UTF-8, or if the body has a
/// `content-encoding`.
pub fn json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Refusal> {
    check_type(headers).map_err(|message| {
        Refusal::permanent(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            message,
        )
    })?;
    let bad_json = |error: &dyn std::fmt::Display| {
        Refusal::permanent(
            StatusCode::BAD_REQUEST,
            "bad_json",
            format!("The body is not valid JSON: {error}."),
        )
    };
    // serde_json does not look at the text of members that are not read.
    std::str::from_utf8(bytes).map_err(|error| bad_json(&error))?;
    // Serde would accept an array for a struct, member by member.
    let read = if bytes.trim_ascii_start().starts_with(b"[") {
        Err(serde_json::Error::custom("an array"))
    } else {
        serde_json::from_slice(bytes)
    };
    // The first error alone does not decide: serde_json stops at a member of the wrong shape,
    // whatever follows it, and reports a number in place of a string as a syntax error.
    read.map_err(|error| match serde_json::from_slice::<Value>(bytes) {
        Ok(_) => Refusal::permanent(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid_request",
            format!("The request does not have the expected shape: {error}."),
        ),
        Err(error) => bad_json(&error),
    })
}

/// Checks that the body is JSON in UTF-8 without a compression.
fn check_type(headers: &HeaderMap) -> Result<(), &'static str> {
    if !is_json(headers) {
        return Err("Send JSON with the header content-type: application/json.");
    }
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Err("Send the body without a content-encoding: compressed requests are not read.");
    }
    match charset(headers) {
        // ASCII is a part of UTF-8.
        None => Ok(()),
        Some(charset) if ["utf-8", "utf8", "us-ascii"].contains(&&*charset) => Ok(()),
        Some(_) => Err("Send the JSON in UTF-8: the charset of the content-type is another one."),
    }
}

/// Returns the parameter `charset` of the content type, in lower case.
fn charset(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?.to_ascii_lowercase();
    let parameters = value.split(';').skip(1);
    let mut named = parameters.filter_map(|parameter| parameter.trim().strip_prefix("charset="));
    named.next().map(|charset| charset.trim_matches('"').to_owned())
}

/// Requires a JSON type: a page of another origin can send `text/plain` without a preflight
/// request, but not `application/json`.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = media_type(headers).unwrap_or_default();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Returns the media type without its parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default();
    Some(essence.trim().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_not_read_have_to_be_json_too() {
        #[derive(Debug, serde::Deserialize)]
        struct Empty {}
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        for body in [&b"{\"a\": \"\xff\"}"[..], b"{\"a\": \"\n\"}", b"{\"a\": 01}"] {
            let refused = json::<Empty>(&headers, body).unwrap_err();
            let code = (refused.status.as_u16(), refused.failure.code().to_owned());
            assert_eq!(code, (400, "bad_json".to_owned()), "{body:?}");
        }
        json::<Empty>(&headers, "{\"a\": \"é\"}".as_bytes()).unwrap();
    }

    #[test]
    fn only_plain_json_in_utf_8_is_read() {
        for (content_type, encoding, status) in [
            ("application/json", None, None),
            ("application/json; charset=UTF-8", Some("identity"), None),
            ("application/json;charset=\"utf-8\"", None, None),
            ("application/problem+json", None, None),
            ("text/plain", None, Some(415)),
            ("application/json; charset=utf-16", None, Some(415)),
            ("application/json; charset=iso-8859-1", None, Some(415)),
            ("application/json", Some("gzip"), Some(415)),
            ("application/json", Some("identity, gzip"), Some(415)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            if let Some(encoding) = encoding {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
            }
            let read = json::<Value>(&headers, b"{}");
            let refused = read.err().map(|refusal| refusal.status.as_u16());
            assert_eq!(refused, status, "{content_type} {encoding:?}");
        }
    }
}
