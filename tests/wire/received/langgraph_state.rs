//! The state of a LangGraph run: values, questions, and the forms of texts and results in it.

use ragwire::LangGraph;
use serde_json::{Value, json};

use super::{end, event, named_events, read, text};

fn decode(events: &[(&str, Value)]) -> (Vec<Value>, String) {
    read(&mut LangGraph::new("").decoder(), &named_events(events))
}

#[test]
fn an_answer_that_only_the_state_has_is_the_text_at_the_end() {
    let values = |values: Value| ("values", values);
    let piece = || {
        let message = json!({"type": "AIMessageChunk", "id": "1", "content": "Yes"});
        ("messages", json!([message, {"langgraph_node": "agent"}]))
    };
    let before = || values(json!({"question": "q"}));
    let answered = |answer: &str| vec![text(answer), end("completed")];
    for (why, events, expected) in [
        (
            "a member with a known name",
            vec![before(), values(json!({"title": "T", "generation": "Yes"}))],
            answered("Yes"),
        ),
        (
            "another member",
            vec![before(), values(json!({"title": "T"}))],
            vec![],
        ),
        (
            "an empty answer",
            vec![before(), values(json!({"answer": ""}))],
            vec![],
        ),
        (
            "the state before the run",
            vec![values(json!({"answer": "Old"}))],
            vec![],
        ),
        (
            "a message without an ID",
            vec![
                before(),
                values(
                    json!({"messages": [{"type": "human", "content": "q"}, {"type": "ai", "content": "Yes"}]}),
                ),
            ],
            answered("Yes"),
        ),
        (
            "a note without an ID is none",
            vec![
                before(),
                values(json!({"messages": [{"type": "system", "content": "Be brief."}]})),
            ],
            vec![],
        ),
        (
            "the state of a subgraph is not that of the run",
            vec![before(), ("values|grade:1", json!({"answer": "No"})), before()],
            vec![],
        ),
        (
            "nor is what a subgraph adds to it",
            vec![before(), ("updates|grade:1", json!({"grade": {"answer": "No"}}))],
            vec![event("updates", json!({"data": {"grade": {"answer": "No"}}}))],
        ),
        (
            "text was sent, and the state has another one",
            vec![piece(), values(json!({})), values(json!({"answer": "Well"}))],
            vec![text("Yes")],
        ),
        (
            "text was sent, and the state repeats it",
            vec![piece(), values(json!({})), values(json!({"answer": "Yes\n"}))],
            answered("Yes"),
        ),
    ] {
        let is_complete = expected.last() == Some(&end("completed"));
        let (frames, finish) = decode(&events);
        assert_eq!((frames, finish == "complete"), (expected, is_complete), "{why}");
    }
}

#[test]
fn a_question_is_asked_once() {
    let asked = |ids: &[&str]| {
        let questions: Vec<Value> = ids
            .iter()
            .map(|id| json!({"id": id, "value": "Which?"}))
            .collect();
        ("updates", json!({"__interrupt__": questions}))
    };
    let (frames, _) = decode(&[asked(&["a"]), asked(&["b"]), asked(&["a", "b"])]);
    let question = |id: &str| {
        event(
            "input_requested",
            json!({"request_id": id, "kind": "text", "prompt": "Which?"}),
        )
    };
    assert_eq!(frames, [question("a"), question("b"), end("stopped")]);
}

#[test]
fn the_memory_of_questions_and_tools_is_bounded() {
    let ids: Vec<String> = (0..65).map(|id| id.to_string()).collect();
    let questions: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "value": "Which?"}))
        .collect();
    let mut decoder = LangGraph::new("").decoder();
    let stream = named_events(&[("updates", json!({"__interrupt__": questions}))]);
    // Every question is asked, but an answer continues the run only at the first ones.
    assert_eq!(read(&mut decoder, &stream).0.len(), 65 + 1);
    let kept: Vec<&str> = decoder
        .interrupts()
        .iter()
        .map(|asked| asked.id.as_str())
        .collect();
    assert_eq!(kept, ids[..64]);

    let call = |name: &String| json!({"name": name, "args": {}});
    let calls: Vec<Value> = ids[..1].iter().chain(&ids).map(call).collect();
    let message = json!({"type": "ai", "id": "1", "content": "", "tool_calls": calls});
    let (frames, _) = decode(&[("messages", json!([message, {}])), ("end", Value::Null)]);
    // A tool that was called twice is named once.
    assert_eq!(
        frames.last().unwrap()["end"]["metadata"]["tools_used"],
        json!(ids[..64])
    );
}

#[test]
fn texts_and_thoughts_are_read_in_the_forms_of_all_integrations() {
    let thought = |content: &str| event("thinking", json!({"content": content, "id": "1"}));
    for (content, expected) in [
        (json!("Yes"), vec![text("Yes")]),
        (json!(["Ye", {"type": "text", "text": "s"}]), vec![text("Yes")]),
        (json!([{"type": "output_text", "text": "Yes"}]), vec![text("Yes")]),
        (
            json!([{"type": "thinking", "thinking": "Hm."}]),
            vec![thought("Hm.")],
        ),
        (
            json!([{"type": "reasoning", "reasoning": "Hm.", "summary": [{"text": " So."}]}]),
            vec![thought("Hm. So.")],
        ),
        (
            json!([{"type": "reasoning_content", "reasoning_content": {"text": "Hm."}}]),
            vec![thought("Hm.")],
        ),
        (json!([{"type": "image_url", "image_url": "u"}]), vec![]),
    ] {
        let message = json!({"type": "AIMessageChunk", "id": "1", "content": content});
        let (frames, _) = decode(&[("messages", json!([message, {}]))]);
        assert_eq!(frames, expected, "{content}");
    }
}

#[test]
fn the_result_of_a_tool_is_the_value_in_its_content() {
    for (content, expected) in [
        (json!("Found."), json!("Found.")),
        (json!("{\"n\":1}"), json!({"n": 1})),
        (json!("[1]"), json!([1])),
        // A number is probably a word.
        (json!("42"), json!("42")),
        (
            json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]),
            json!("one\ntwo"),
        ),
        (json!([{"type": "text", "text": "{\"n\":1}"}]), json!({"n": 1})),
        (
            json!([{"text": "one"}, {"type": "image", "url": "u"}]),
            json!([{"text": "one"}, {"type": "image", "url": "u"}]),
        ),
    ] {
        let message = json!({"type": "tool", "name": "t", "tool_call_id": "a", "content": content});
        let (frames, _) = decode(&[("messages", json!([message, {}]))]);
        let result = event(
            "tool_result",
            json!({"tool": "t", "result": expected, "call_id": "a"}),
        );
        assert_eq!(frames, [result], "{content}");
    }
}

#[test]
fn a_question_offers_what_every_call_allows_but_no_edit() {
    let review = |allowed: &[&[&str]]| {
        let configs: Vec<Value> = allowed
            .iter()
            .map(|allowed| json!({"allowed_decisions": allowed}))
            .collect();
        json!({"action_requests": [{"name": "buy", "description": "Buy?"}], "review_configs": configs})
    };
    for (value, options) in [
        (
            review(&[&["approve", "edit", "reject"]]),
            json!(["approve", "reject"]),
        ),
        (review(&[&["approve", "respond"]]), json!(["approve", "respond"])),
        (
            review(&[&["approve", "reject", "respond"], &["respond", "approve"]]),
            json!(["approve", "respond"]),
        ),
        // Nothing that a human could answer: the usual decisions.
        (review(&[&["edit"]]), json!(["approve", "reject"])),
        (review(&[]), json!(["approve", "reject"])),
        (
            json!({"prompt": "Which?", "options": ["a", "b"]}),
            json!(["a", "b"]),
        ),
        (json!({"prompt": "Which?", "options": "a"}), Value::Null),
        (json!({"prompt": "Which?"}), Value::Null),
    ] {
        let (frames, _) = decode(&[("updates", json!({"__interrupt__": [{"id": "i", "value": value}]}))]);
        assert_eq!(frames[0]["event"]["options"], options, "{value}");
    }
}

#[test]
fn the_name_of_an_exception_is_a_code_and_a_sentence_is_not() {
    for (name, code) in [
        ("RateLimitError", "RateLimitError"),
        ("a.b_c-1", "a.b_c-1"),
        ("It is late", "upstream_failed"),
        ("Spät", "upstream_failed"),
        ("", "upstream_failed"),
        (&"x".repeat(64), &"x".repeat(64)),
        (&"x".repeat(65), "upstream_failed"),
    ] {
        let (frames, finish) = decode(&[("error", json!({"error": name, "message": "No."}))]);
        assert_eq!(frames[0]["end"]["error"]["code"], code);
        assert_eq!(finish, "complete");
    }
}

#[test]
fn an_end_of_another_server_describes_nothing() {
    let (frames, finish) = decode(&[("end", json!({"run_id": "1"}))]);
    assert_eq!((frames, finish.as_str()), (vec![end("completed")], "complete"));
}
