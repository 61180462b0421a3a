//! Where a client resumes: `?from=N`, or `Last-Event-ID` as an `EventSource` sends it.
//!
//! A malformed value is refused: at any other index than the intended one, the client would miss a
//! part of the answer or read it twice.

use http::{HeaderMap, HeaderName, StatusCode};

use crate::refusal::Refusal;
use crate::request::Params;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Returns the index of the first frame to send; 0 if the request has neither value.
///
/// `Last-Event-ID` is the last frame that the client read, so the next one is sent. It overrides
/// `from`, because an `EventSource` reconnects with the same URL. If it is before `from`, one of
/// them is wrong.
pub(crate) fn cursor(params: &Params, headers: &HeaderMap) -> Result<u64, Refusal> {
    let mut from = params.all("from");
    let mut last = headers.get_all(LAST_EVENT_ID).iter();
    let pair = (from.next(), last.next());
    if from.next().is_some() || last.next().is_some() {
        return Err(bad());
    }
    let from = pair.0.map(|value| index(value.as_bytes())).transpose()?;
    let next = match pair.1 {
        None => None,
        Some(value) => Some(index(value.as_bytes())?.checked_add(1).ok_or_else(bad)?),
    };
    match (from, next) {
        (Some(from), Some(next)) if next < from => Err(bad()),
        (from, next) => Ok(next.or(from).unwrap_or(0)),
    }
}

/// Parses decimal digits without a sign, leading zeros or spaces, up to 64 bits.
fn index(text: &[u8]) -> Result<u64, Refusal> {
    let is_plain =
        !text.is_empty() && text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || text[0] != b'0');
    std::str::from_utf8(text)
        .ok()
        .filter(|_| is_plain)
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(bad)
}

fn bad() -> Refusal {
    Refusal::permanent(
        StatusCode::BAD_REQUEST,
        "bad_cursor",
        "`from` and `Last-Event-ID` must each be one whole number and must agree.",
    )
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(from: &[&str], last: &[&[u8]]) -> Option<u64> {
        let params = Params::of(from.iter().map(|value| ("from", *value)));
        let mut headers = HeaderMap::new();
        for value in last {
            headers.append(LAST_EVENT_ID, HeaderValue::from_bytes(value).unwrap());
        }
        cursor(&params, &headers).ok()
    }

    #[test]
    fn an_index_is_a_plain_number() {
        assert_eq!(read(&[], &[]), Some(0));
        assert_eq!(read(&["0"], &[]), Some(0));
        assert_eq!(read(&["7"], &[]), Some(7));
        assert_eq!(read(&[], &[b"0"]), Some(1));
        assert_eq!(read(&["18446744073709551615"], &[]), Some(u64::MAX));
        let long = "1".repeat(10_000);
        for text in [
            "",
            "-1",
            "+1",
            "01",
            "00",
            "1.0",
            "1e3",
            "0x1",
            " 1",
            "1 ",
            "1,2",
            "\u{661}",
            "18446744073709551616",
            &long,
        ] {
            assert_eq!(read(&[text], &[]), None, "{text}");
            assert_eq!(read(&[], &[text.as_bytes()]), None, "{text}");
        }
        assert_eq!(
            read(&[], &[b"18446744073709551615"]),
            None,
            "no index comes after it"
        );
        assert_eq!(read(&[], &[b"\xff"]), None);
    }

    #[test]
    fn two_values_must_agree() {
        assert_eq!(read(&["3"], &[b"9"]), Some(10));
        assert_eq!(read(&["3"], &[b"2"]), Some(3));
        assert_eq!(read(&["3"], &[b"1"]), None);
        assert_eq!(read(&["3", "3"], &[]), None);
        assert_eq!(read(&[], &[b"3", b"3"]), None);
        assert_eq!(read(&["x"], &[b"3"]), None);
    }
}
