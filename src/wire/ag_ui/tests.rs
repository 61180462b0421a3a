use super::*;
use crate::event::{CacheMiss, ToolCall, ToolResult};

#[test]
fn an_event_over_the_limit_changes_nothing() {
    let wire = AgUi::new("t", "r").limits(Limits::default().max_line_bytes(150));
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::from("before"));
    let call = |input| Event::from(ToolCall::new("bm25", input));
    let long = Value::from("x".repeat(200));
    let error = encoder.event(&call(long.clone()), None, &mut out).unwrap_err();
    assert_eq!(error.code(), "event_too_large");
    assert_eq!(&out[..], b"before");
    encoder.event(&call(Value::Null), None, &mut out).unwrap();
    let first = String::from_utf8(out.split().to_vec()).unwrap();
    // The run and the step do not count as started, nor the number as used.
    assert!(
        first.contains("RUN_STARTED") && first.contains("STEP_STARTED"),
        "{first}"
    );
    assert!(first.contains("r-call-1"), "{first}");
    // A result that does not fit leaves its call open.
    let result = |value| Event::from(ToolResult::new("bm25", value));
    encoder.event(&result(long), None, &mut out).unwrap_err();
    encoder.event(&result(Value::Null), None, &mut out).unwrap();
    let second = String::from_utf8(out.split().to_vec()).unwrap();
    assert!(second.contains(r#""toolCallId":"r-call-1""#), "{second}");
}

#[test]
fn the_memory_of_calls_is_bounded() {
    let mut encoder = AgUi::new("t", "r").spelling();
    let mut out = BytesMut::new();
    for _ in 0..MAX_UNNAMED_CALLS + 1 {
        let call = ToolCall::new("bm25", Value::Null).into();
        encoder.event(Phase::Events, &call, None, &mut out).unwrap();
    }
    encoder
        .event(Phase::Events, &CacheMiss::new().into(), None, &mut out)
        .unwrap();
    out.clear();
    let result = ToolResult::new("bm25", Value::Null).into();
    encoder.event(Phase::Events, &result, None, &mut out).unwrap();
    assert!(out.windows(10).any(|at| at == b"\"r-call-2\""), "{out:?}");

    // Long names count too: this one leaves no room for the others.
    let long = "x".repeat(MAX_UNNAMED_CALL_BYTES);
    let call = ToolCall::new(long.as_str(), Value::Null).into();
    encoder.event(Phase::Events, &call, None, &mut out).unwrap();
    let call_number = |tool: &str, encoder: &mut Box<dyn Spelling>| {
        let mut out = BytesMut::new();
        let result = ToolResult::new(tool, Value::Null).into();
        encoder.event(Phase::Events, &result, None, &mut out).unwrap();
        let line: Value = serde_json::from_slice(&out["data: ".len()..]).unwrap();
        line["toolCallId"].as_str().unwrap().to_owned()
    };
    // The call comes after 66 events and a result; a result without a call has a new number.
    assert_eq!(call_number(&long, &mut encoder), "r-call-68");
    assert_eq!(call_number("bm25", &mut encoder), "r-call-70");
}

#[test]
fn keep_alives_open_nothing() {
    let (mut encoder, mut out) = (AgUi::new("t", "r").encoder(), BytesMut::new());
    encoder.keep_alive(&mut out);
    assert_eq!(&out.split()[..], b": keep-alive\n\n");
    encoder.end(&End::stopped(), &mut out).unwrap();
    let ended = out.len();
    encoder.keep_alive(&mut out);
    assert_eq!(out.len(), ended);
}
