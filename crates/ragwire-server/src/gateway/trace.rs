//! The headers of the client that an orchestrator gets, with the W3C trace context.

use http::{HeaderMap, HeaderName, HeaderValue};
use ragwire::orchestrator::Question;
use ragwire::turn::TurnId;

/// The header with the trace and the parent span.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The header with the state of tracing systems.
pub(crate) const TRACESTATE: &str = "tracestate";

/// Returns the headers of the client's request that are passed on, all of which may be secret, and
/// the trace context.
pub(super) fn passed_headers(question: &Question, turn: TurnId) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in question.options.headers.iter() {
        let pair = (HeaderName::try_from(name), HeaderValue::try_from(value));
        if let (Ok(name), Ok(mut value)) = pair {
            value.set_sensitive(true);
            headers.append(name, value);
        }
    }
    trace_headers(&mut headers, turn);
    headers
}

/// Keeps the trace context that the client sent. Without a valid one, starts a trace whose ID is
/// that of the turn, so that the orchestrator's trace is found from this server's log.
fn trace_headers(headers: &mut HeaderMap, turn: TurnId) {
    let name = HeaderName::from_static(TRACEPARENT);
    let mut parents = headers.get_all(&name).iter();
    let is_valid =
        parents.next().is_some_and(|parent| is_parent(parent.as_bytes())) && parents.next().is_none();
    if is_valid {
        return;
    }
    headers.remove(TRACESTATE);
    let span = getrandom::u64().unwrap_or(1).max(1);
    // `01`: sampled, so that a tracing system that follows its parent's decision records it.
    match HeaderValue::try_from(format!("00-{turn}-{span:016x}-01")) {
        Ok(parent) => headers.insert(name, parent),
        Err(_) => headers.remove(name),
    };
}

/// Returns `true` for `00-<32 hex>-<16 hex>-<2 hex>`, also of a later version.
fn is_parent(value: &[u8]) -> bool {
    let is_hex = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&[u8]> = value.split(|byte| *byte == b'-').collect();
    let lengths = parts.iter().take(4).map(|part| part.len());
    lengths.eq([2, 32, 16, 2]) && parts.iter().take(4).all(|part| is_hex(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_parent_is_kept_and_any_other_is_replaced() {
        let turn = TurnId::parse("0123456789abcdef0123456789abcdef").unwrap();
        let kept = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        for (given, is_kept) in [
            (Some(kept), true),
            (Some("00-x-y-01"), false),
            (Some(""), false),
            (None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(TRACESTATE, HeaderValue::from_static("a=b"));
            if let Some(given) = given {
                headers.insert(TRACEPARENT, HeaderValue::from_static(given));
            }
            trace_headers(&mut headers, turn);
            let parent = headers[TRACEPARENT].to_str().unwrap();
            assert_eq!(parent == kept, is_kept, "{given:?}");
            assert_eq!(headers.contains_key(TRACESTATE), is_kept);
            assert!(is_parent(parent.as_bytes()));
            assert!(is_kept || parent.starts_with("00-0123456789abcdef0123456789abcdef-"));
        }
    }
}
