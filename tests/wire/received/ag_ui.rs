//! AG-UI streams of Pydantic AI, LangGraph, CopilotKit and any other server.

use ragwire::wire::ag_ui::{AgUiDecoder, Interrupt};
use serde_json::{Value, json};

use super::{data_events, end, event, read, text};

fn decode(objects: &[Value]) -> (Vec<Value>, String) {
    read(&mut AgUiDecoder::default(), &data_events(objects))
}

/// The frames of a run that ends with these interrupts, and what the decoder keeps of them.
fn interrupted(interrupts: &[Value]) -> (Vec<Value>, Vec<Interrupt>) {
    let outcome = json!({"type": "interrupt", "interrupts": interrupts});
    let mut decoder = AgUiDecoder::default();
    let (frames, finish) = read(
        &mut decoder,
        &data_events(&[json!({"type": "RUN_FINISHED", "outcome": outcome})]),
    );
    assert!(finish.starts_with("truncated"), "{finish}");
    (frames, decoder.interrupts().to_vec())
}

fn call(id: &str, input: &Value) -> Value {
    event("tool_call", json!({"tool": "pay", "input": input, "call_id": id}))
}

fn start(id: &str) -> Value {
    json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "pay"})
}

fn args(id: &str, delta: &str) -> Value {
    json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta})
}

fn thinking(id: &str, content: &str) -> Value {
    event("thinking", json!({"content": content, "id": id}))
}

#[test]
fn each_thought_has_its_number() {
    let content = |id: Option<&str>, delta: &str| json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta});
    let starts = json!({"type": "REASONING_MESSAGE_START"});
    let ends = json!({"type": "REASONING_MESSAGE_END"});
    for (why, objects, expected) in [
        (
            "pieces of one",
            vec![starts.clone(), content(None, "Let "), content(None, "me")],
            vec![thinking("thought-1", "Let "), thinking("thought-1", "me")],
        ),
        (
            "an end",
            vec![content(None, "One."), ends, content(None, "Two.")],
            vec![thinking("thought-1", "One."), thinking("thought-2", "Two.")],
        ),
        (
            "another message, without a beginning",
            vec![
                content(Some("a"), "One"),
                content(Some("a"), "."),
                content(Some("b"), "Two."),
                content(None, " So."),
            ],
            vec![
                thinking("thought-1", "One"),
                thinking("thought-1", "."),
                thinking("thought-2", "Two."),
                thinking("thought-2", " So."),
            ],
        ),
    ] {
        assert_eq!(decode(&objects).0, expected, "{why}");
    }
}

#[test]
fn arguments_of_calls_at_the_same_time_are_put_together_by_their_id() {
    let ends = |id: &str| json!({"type": "TOOL_CALL_END", "toolCallId": id});
    let (frames, _) = decode(&[
        start("a"),
        start("b"),
        args("a", "{\"n\":"),
        args("b", "{\"n\":"),
        args("a", "1}"),
        args("b", "2}"),
        ends("b"),
        ends("a"),
    ]);
    assert_eq!(frames, [call("b", &json!({"n": 2})), call("a", &json!({"n": 1}))]);
}

#[test]
fn of_more_than_64_unfinished_calls_the_oldest_has_all_its_arguments() {
    for (count, expected) in [(64, vec![]), (65, vec![call("0", &json!({}))])] {
        let starts: Vec<Value> = (0..count).map(|id: u32| start(&id.to_string())).collect();
        assert_eq!(decode(&starts).0, expected, "{count}");
    }
}

#[test]
fn chunks_that_repeat_the_name_of_their_call_are_one_call() {
    let chunk = |id: Option<&str>, delta: &str| json!({"type": "TOOL_CALL_CHUNK", "toolCallId": id, "toolCallName": "pay", "delta": delta});
    let answer = json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "Yes"});
    let (frames, _) = decode(&[
        chunk(Some("a"), "{\"n\":"),
        chunk(Some("a"), "1"),
        chunk(None, "}"),
        chunk(Some("b"), "{}"),
        answer,
    ]);
    assert_eq!(
        frames,
        [call("a", &json!({"n": 1})), call("b", &json!({})), text("Yes")]
    );
}

#[test]
fn the_next_run_knows_the_calls_and_the_number_of_thoughts() {
    let mut first = AgUiDecoder::default();
    let thought = json!({"type": "REASONING_MESSAGE_CONTENT", "delta": "Hm."});
    let finished = json!({"type": "RUN_FINISHED"});
    read(&mut first, &data_events(&[thought.clone(), start("a"), finished]));
    let result = json!({"type": "TOOL_CALL_RESULT", "toolCallId": "a", "content": "Paid."});
    let (frames, _) = read(&mut first.next_run(), &data_events(&[thought, result]));
    assert_eq!(
        frames,
        [
            thinking("thought-2", "Hm."),
            event(
                "tool_result",
                json!({"tool": "pay", "result": "Paid.", "call_id": "a"})
            )
        ]
    );
}

#[test]
fn activities_are_events() {
    for (kind, name) in [
        ("ACTIVITY_SNAPSHOT", "ag_ui.activity_snapshot"),
        ("ACTIVITY_DELTA", "ag_ui.activity_delta"),
    ] {
        let (frames, _) = decode(&[json!({"type": kind, "messageId": "m", "timestamp": 1000})]);
        let mut expected = event(name, json!({"data": {"messageId": "m"}}));
        expected["event"]["timestamp"] = "1970-01-01T00:00:01Z".into();
        assert_eq!(frames, [expected]);
    }
}

#[test]
fn an_event_with_a_name_of_its_own_keeps_its_value() {
    for value in [
        json!({"data": 1}),
        json!({"event": "search", "tool": "bm25"}),
        json!([1]),
    ] {
        let (frames, _) = decode(&[json!({"type": "CUSTOM", "name": "own", "value": value})]);
        assert_eq!(frames, [event("own", json!({"data": value}))]);
    }
}

#[test]
fn the_tokens_of_all_models_are_added() {
    let model =
        |input: u64| json!({"model": "m", "inputTokens": input, "cachedInputTokens": 1, "outputTokens": 2});
    let (frames, _) = decode(&[json!({"type": "RUN_FINISHED", "usage": [model(3), model(4)]})]);
    let mut expected = end("completed");
    expected["end"]["metadata"]["usage"] =
        json!({"model": "m", "input_tokens": 7, "cached_input_tokens": 2, "output_tokens": 4});
    assert_eq!(frames, [expected]);
}

#[test]
fn at_most_64_interrupts_are_kept() {
    let interrupts: Vec<Value> = (0..65)
        .map(|id| json!({"id": id.to_string(), "reason": "input"}))
        .collect();
    let (frames, kept) = interrupted(&interrupts);
    assert_eq!((frames.len(), kept.len()), (65, 64));
}

#[test]
fn an_answer_has_the_form_that_its_interrupt_asks_for() {
    let options = json!(["Approve", "Deny"]);
    let approved = |is: bool| json!({"approved": is});
    for (interrupt, kind, offered, answers) in [
        (
            json!({"responseSchema": {"type": "string"}}),
            "input",
            Value::Null,
            vec![(json!("2024"), json!("2024")), (json!(true), json!(true))],
        ),
        (
            json!({"responseSchema": {"enum": ["a", "b"]}}),
            "input",
            json!(["a", "b"]),
            vec![(json!("a"), json!("a"))],
        ),
        (
            json!({"responseSchema": {"type": "boolean"}}),
            "approval",
            options.clone(),
            vec![
                (json!("Approve"), json!(true)),
                (json!(true), json!(true)),
                (json!("Deny"), json!(false)),
                (json!(false), json!(false)),
            ],
        ),
        (
            json!({"responseSchema": {"properties": {"approved": {"type": "boolean"}}}}),
            "approval",
            options.clone(),
            vec![
                (json!("Approve"), approved(true)),
                (json!("Deny"), approved(false)),
            ],
        ),
        // The approval of a call.
        (
            json!({"toolCallId": "c"}),
            "approval",
            options,
            vec![(json!("Approve"), approved(true))],
        ),
        (
            json!({"toolCallId": "c", "responseSchema": {"type": "string"}}),
            "input",
            Value::Null,
            vec![(json!("2024"), json!("2024"))],
        ),
        (
            json!({}),
            "input",
            Value::Null,
            vec![(json!("2024"), json!("2024"))],
        ),
    ] {
        let mut whole = interrupt.clone();
        whole["id"] = "i".into();
        whole["reason"] = "input".into();
        whole["message"] = "Which?".into();
        let (frames, kept) = interrupted(&[whole]);
        let mut members = json!({"request_id": "i", "kind": kind, "prompt": "Which?"});
        if !offered.is_null() {
            members["options"] = offered;
        }
        assert_eq!(frames, [event("input_requested", members)], "{interrupt}");
        for (answer, payload) in answers {
            assert_eq!(
                kept[0].resume_entry(answer),
                Some(json!({"interruptId": "i", "status": "resolved", "payload": payload})),
                "{interrupt}"
            );
        }
        assert_eq!((kept[0].result_of(), kept[0].continues_text()), (None, false));
    }
}

#[test]
fn the_answer_to_a_call_of_the_client_is_its_result() {
    let mut decoder = AgUiDecoder::default();
    let finished =
        json!({"type": "RUN_FINISHED", "outcome": {"type": "success", "pendingToolCallIds": ["a", "other"]}});
    read(&mut decoder, &data_events(&[start("a"), finished]));
    let [asked] = decoder.interrupts() else {
        panic!("{:?}", decoder.interrupts());
    };
    assert_eq!((asked.id.as_str(), asked.result_of()), ("a", Some("a")));
    assert_eq!(asked.resume_entry("Paid.".into()), None);
    assert!(!asked.continues_text());
}

#[test]
fn the_run_after_a_question_of_ours_continues_the_text() {
    let question = json!({"request_id": "q", "kind": "text", "prompt": "Which?"});
    let asks = json!({"type": "CUSTOM", "name": "input_requested", "value": question});
    let interrupts = json!([{"id": "run-1-q", "reason": "input_requested"}]);
    let outcome = json!({"type": "interrupt", "interrupts": interrupts});
    let mut decoder = AgUiDecoder::default();
    let stream = data_events(&[asks, json!({"type": "RUN_FINISHED", "outcome": outcome})]);
    assert_eq!(
        read(&mut decoder, &stream).0,
        [event("input_requested", question)]
    );
    let [asked] = decoder.interrupts() else {
        panic!("{:?}", decoder.interrupts());
    };
    assert_eq!((asked.id.as_str(), asked.continues_text()), ("q", true));
    assert_eq!(
        asked.resume_entry("2024".into()),
        Some(json!({"interruptId": "run-1-q", "status": "resolved", "payload": "2024"}))
    );
}
