//! Streams of OpenAI's Responses API and of servers that are compatible with it.

use ragwire::wire::responses::Decoder;
use serde_json::{Value, json};

use super::{data_events, end, event, read};

fn decode(events: &[Value]) -> (Vec<Value>, String) {
    read(&mut Decoder::default(), &data_events(events))
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed"}})
}

#[test]
fn items_repeat_what_our_events_say() {
    let began = |kind: &str, response: Value| json!({"type": kind, "response": response});
    let thought =
        || json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs", "delta": "Hm."});
    let thinking = || event("thinking", json!({"content": "Hm.", "id": "thought-1"}));
    for (why, events, expected) in [
        (
            "a stream of ours",
            vec![
                began("response.created", json!({"ragwire": {}})),
                began("response.in_progress", json!({"ragwire": {}})),
                thought(),
            ],
            vec![],
        ),
        (
            "a stream of ours whose later events are not marked",
            vec![
                began("response.created", json!({"ragwire": {}})),
                began("response.in_progress", json!({})),
                thought(),
            ],
            vec![],
        ),
        (
            "a stream of another server",
            vec![
                began("response.created", json!({})),
                began("response.in_progress", json!({})),
                thought(),
            ],
            vec![thinking()],
        ),
    ] {
        assert_eq!(decode(&events).0, expected, "{why}");
    }
}

#[test]
fn a_call_has_the_arguments_of_its_kind() {
    let done = |item: Value| json!({"type": "response.output_item.done", "item": item});
    let call = |input: Value| {
        event(
            "tool_call",
            json!({"tool": "pay", "input": input, "call_id": "c"}),
        )
    };
    for (item, expected) in [
        (
            json!({"type": "function_call", "call_id": "c", "name": "pay", "arguments": "{\"n\":1}"}),
            call(json!({"n": 1})),
        ),
        (
            json!({"type": "custom_tool_call", "call_id": "c", "name": "pay", "input": "all of it"}),
            call(json!("all of it")),
        ),
    ] {
        assert_eq!(decode(&[done(item)]).0, [expected]);
    }
}

#[test]
fn annotations_that_are_streamed_are_the_citations() {
    let annotation = json!({"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 3});
    let added = json!({"type": "response.output_text.annotation.added", "annotation": annotation});
    let (frames, finish) = decode(&[added, completed()]);
    let citations = frames[0]["end"]["metadata"]["citations"].as_array().unwrap();
    assert_eq!(
        (
            citations.len(),
            citations[0]["document_id"].as_str(),
            finish.as_str()
        ),
        (1, Some("f"), "complete")
    );
}

#[test]
fn nothing_but_done_follows_the_end() {
    let stream = data_events(&[completed()]);
    for (rest, finish) in [
        ("", "complete"),
        ("data: [DONE]\n\n", "complete"),
        ("data: {}\n\n", "error:trailing_bytes"),
    ] {
        let decoded = read(&mut Decoder::default(), &(stream.clone() + rest));
        assert_eq!(decoded, (vec![end("completed")], finish.to_owned()), "{rest:?}");
    }
}
