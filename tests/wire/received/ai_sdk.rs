//! UI message streams of npm `ai` and of any other server.

use ragwire::wire::Limits;
use ragwire::wire::ai_sdk::{AiSdkDecoder, CallWait, WaitingCall};
use serde_json::{Value, json};

use super::{data_events, end, event, read, text};

/// As many as our encoder writes.
const MAX_CITATIONS: usize = 1024;

fn decode(parts: &[Value]) -> (Vec<Value>, String) {
    read(&mut AiSdkDecoder::default(), &data_events(parts))
}

fn call(id: &str) -> Value {
    json!({"type": "tool-input-available", "toolCallId": id, "toolName": "pay", "input": {}})
}

fn finish(reason: &str) -> Value {
    json!({"type": "finish", "finishReason": reason})
}

fn called(id: &str) -> Value {
    event("tool_call", json!({"tool": "pay", "input": {}, "call_id": id}))
}

fn thinking(id: &str, content: &str) -> Value {
    event("thinking", json!({"content": content, "id": id}))
}

#[test]
fn thoughts_that_are_open_at_the_same_time_are_told_apart() {
    let begins = |id: &str| json!({"type": "reasoning-start", "id": id});
    let adds = |id: &str, delta: &str| json!({"type": "reasoning-delta", "id": id, "delta": delta});
    let (frames, _) = decode(&[
        begins("a"),
        begins("b"),
        adds("a", "One."),
        json!({"type": "reasoning-end", "id": "a"}),
        adds("b", "Two."),
        // Nothing is known of it any more.
        adds("a", "Three."),
    ]);
    assert_eq!(
        frames,
        [
            thinking("thought-1", "One."),
            thinking("thought-2", "Two."),
            thinking("a", "Three.")
        ]
    );
}

#[test]
fn of_more_than_64_open_thoughts_the_oldest_is_forgotten() {
    let begins = |id: u32| json!({"type": "reasoning-start", "id": id.to_string()});
    for (count, first) in [(64, "thought-1"), (65, "1")] {
        let mut parts: Vec<Value> = (1..=count).map(begins).collect();
        parts.push(json!({"type": "reasoning-delta", "id": "1", "delta": "Hm."}));
        parts.push(json!({"type": "reasoning-delta", "id": "2", "delta": "Hm."}));
        let (frames, _) = decode(&parts);
        assert_eq!(
            frames,
            [thinking(first, "Hm."), thinking("thought-2", "Hm.")],
            "{count}"
        );
    }
}

#[test]
fn the_next_stream_continues_the_calls_and_the_numbers_of_thoughts() {
    let mut first = AiSdkDecoder::default();
    let begins = json!({"type": "reasoning-start", "id": "a"});
    read(
        &mut first,
        &data_events(&[begins.clone(), call("1"), finish("tool-calls")]),
    );
    let adds = json!({"type": "reasoning-delta", "id": "a", "delta": "Hm."});
    let output = json!({"type": "tool-output-available", "toolCallId": "1", "output": "Paid."});
    let (frames, _) = read(&mut first.next_stream(), &data_events(&[begins, adds, output]));
    assert_eq!(
        frames,
        [
            thinking("thought-2", "Hm."),
            event(
                "tool_result",
                json!({"tool": "pay", "result": "Paid.", "call_id": "1"})
            )
        ]
    );
}

#[test]
fn a_preliminary_output_is_not_the_result() {
    let output = |output: &str, preliminary: bool| json!({"type": "tool-output-available", "toolCallId": "1", "output": output, "preliminary": preliminary});
    let (frames, _) = decode(&[call("1"), output("Paying", true), output("Paid.", false)]);
    let result = json!({"tool": "pay", "result": "Paid.", "call_id": "1"});
    assert_eq!(frames, [called("1"), event("tool_result", result)]);
}

#[test]
fn an_answer_approves_a_call_by_the_word_or_by_true() {
    for (answer, is_approved) in [
        (json!("Approve"), true),
        (json!(true), true),
        (json!("Deny"), false),
        (json!("approve it"), false),
        (json!(false), false),
        (Value::Null, false),
    ] {
        assert_eq!(WaitingCall::is_approved_by(&answer), is_approved, "{answer}");
    }
}

#[test]
fn a_client_is_asked_for_results_only_where_the_stream_ends_because_of_them() {
    let ours = json!({"type": "data-own", "data": {"event": "own", "data": 1}});
    let error = json!({"type": "error", "errorText": "No."});
    let elsewhere = json!({"type": "tool-input-available", "toolCallId": "1", "toolName": "pay", "input": {}, "providerExecuted": true});
    for (why, parts, asks) in [
        ("for its calls", vec![call("1"), finish("tool-calls")], true),
        (
            "without a reason",
            vec![call("1"), json!({"type": "finish"})],
            true,
        ),
        ("because it is done", vec![call("1"), finish("stop")], false),
        (
            "because it failed",
            vec![call("1"), error, finish("tool-calls")],
            false,
        ),
        (
            "and the server finds the result",
            vec![elsewhere, finish("tool-calls")],
            false,
        ),
        (
            "and the stream is ours",
            vec![call("1"), ours, finish("tool-calls")],
            false,
        ),
    ] {
        let mut decoder = AiSdkDecoder::default();
        let (frames, _) = read(&mut decoder, &data_events(&parts));
        let asked = frames
            .iter()
            .any(|frame| frame["event"]["event"] == "input_requested");
        let waiting: Vec<(&str, CallWait)> = decoder
            .waiting_calls()
            .iter()
            .map(|call| (call.call_id.as_str(), call.wait))
            .collect();
        let expected: &[_] = if asks { &[("1", CallWait::Result)] } else { &[] };
        assert_eq!((asked, &waiting[..]), (asks, expected), "{why}");
    }
}

#[test]
fn a_call_without_a_mark_in_our_stream_only_keeps_clients_quiet() {
    let ours = json!({"type": "data-own", "data": {"event": "own", "data": 1}});
    let output = json!({"type": "tool-output-available", "toolCallId": "1", "output": {}});
    let (frames, _) = decode(&[ours, call("1"), output]);
    assert_eq!(frames, [event("own", json!({"data": 1}))]);
}

#[test]
fn at_most_64_waiting_calls_are_kept() {
    let approval =
        |id: u32| json!({"type": "tool-approval-request", "approvalId": id.to_string(), "toolCallId": "1"});
    let mut decoder = AiSdkDecoder::default();
    let (frames, _) = read(
        &mut decoder,
        &data_events(&(0..65).map(approval).collect::<Vec<_>>()),
    );
    assert_eq!((frames.len(), decoder.waiting_calls().len()), (65, 64));
}

#[test]
fn of_more_than_64_open_questions_the_oldest_is_forgotten() {
    let question = |id: u32| {
        let input = json!({"prompt": "Which?", "options": ["yes", "no"]});
        let mark = json!({"ragwire": {"event": "input_requested", "kind": "choice"}});
        json!({"type": "tool-input-available", "toolCallId": id.to_string(), "toolName": "ask_question", "input": input, "providerMetadata": mark})
    };
    for (count, first) in [
        (
            64,
            event("input_resolved", json!({"request_id": "1", "response": "no"})),
        ),
        (
            65,
            event(
                "tool_result",
                json!({"tool": "unknown", "result": "The call was denied.", "call_id": "1", "is_error": true}),
            ),
        ),
    ] {
        let mark = json!({"ragwire": {"event": "input_resolved"}});
        let denied =
            |id: &str| json!({"type": "tool-output-denied", "toolCallId": id, "providerMetadata": mark});
        let questions = (1..=count).map(question);
        let parts: Vec<Value> = questions.chain([denied("1"), denied("2")]).collect();
        let (frames, _) = decode(&parts);
        let second = event("input_resolved", json!({"request_id": "2", "response": "no"}));
        assert_eq!(frames[count as usize..], [first, second]);
    }
}

#[test]
fn the_citations_of_sources_are_bounded_by_number_and_by_size() {
    let source = |id: usize| json!({"type": "source-url", "sourceId": format!("{id:04}"), "url": "https://a.example/b"});
    let citations = |limits: Limits, count: usize| {
        let parts = (0..count).map(source).chain([finish("stop")]);
        let (mut frames, _) = read(
            &mut AiSdkDecoder::new(limits),
            &data_events(&parts.collect::<Vec<_>>()),
        );
        // Each source is an event all the same.
        assert_eq!(frames.len(), count + 1);
        frames.pop().unwrap()["end"]["metadata"]["citations"]
            .as_array()
            .map(Vec::len)
    };
    // Each has 4 + 19 bytes.
    for (bytes, kept) in [(45, 1), (46, 2), (68, 2), (69, 3)] {
        let limits = Limits::default().max_trailer_bytes(bytes);
        assert_eq!(citations(limits, 4), Some(kept), "{bytes}");
    }
    assert_eq!(
        citations(Limits::default(), MAX_CITATIONS + 1),
        Some(MAX_CITATIONS)
    );
}

#[test]
fn data_is_an_event_of_ours_only_if_it_names_itself() {
    for (part, expected) in [
        (
            json!({"type": "data-search", "data": {"event": "search", "tool": "bm25"}}),
            event("search", json!({"tool": "bm25"})),
        ),
        (
            json!({"type": "data-own", "data": {"data": 1}}),
            event("own", json!({"data": {"data": 1}})),
        ),
        (
            json!({"type": "data-own", "data": {"event": "other"}}),
            event("own", json!({"data": {"event": "other"}})),
        ),
        (
            json!({"type": "data-own", "data": 1}),
            event("own", json!({"data": 1})),
        ),
    ] {
        assert_eq!(decode(&[part]).0, [expected]);
    }
}

#[test]
fn a_step_that_begins_again_keeps_the_text_that_was_not_taken_back_before_it() {
    let delta = |delta: &str| json!({"type": "text-delta", "id": "t", "delta": delta});
    let retract = json!({"type": "data-retract", "data": {"event": "retract", "kept": 2}});
    let (step, reset) = (json!({"type": "start-step"}), json!({"type": "reset-step"}));
    let (frames, _) = decode(&[delta("Yes,"), retract, step, delta("no"), reset]);
    let retracted = event("retract", json!({"kept": 2}));
    assert_eq!(frames, [text("Yes,"), retracted.clone(), text("no"), retracted]);
}

#[test]
fn the_metadata_has_exactly_its_limit() {
    let metadata = |name: &str| json!({"type": "message-metadata", "messageMetadata": {name: "1234567890"}});
    // {"aa":"1234567890","bb":"1234567890"}
    let parts = [metadata("aa"), metadata("bb"), finish("stop")];
    let mut ended = end("completed");
    ended["end"]["metadata"] =
        json!({"citations": [], "tools_used": [], "aa": "1234567890", "bb": "1234567890"});
    for (bytes, frames, finish) in [
        (37, vec![ended], "complete"),
        (36, vec![], "error:trailer_too_long"),
    ] {
        let limits = Limits::default().max_trailer_bytes(bytes);
        let decoded = read(&mut AiSdkDecoder::new(limits), &data_events(&parts));
        assert_eq!(decoded, (frames, finish.to_owned()), "{bytes}");
    }
}
