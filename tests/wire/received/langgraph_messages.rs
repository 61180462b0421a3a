//! The messages of a LangGraph run, which arrive in pieces, as everything so far and as a whole.

use ragwire::LangGraph;
use ragwire::wire::Limits;
use serde_json::{Value, json};

use super::{end, event, named_events, read, text};

type Event = (&'static str, Value);

/// A message of a node of the graph itself.
fn from_agent(message: &Value) -> Event {
    ("messages", json!([message, {"langgraph_node": "agent"}]))
}

fn piece(id: &str, content: &str) -> Event {
    from_agent(&json!({"type": "AIMessageChunk", "id": id, "content": content}))
}

/// The last piece of a message.
fn last_piece(id: &str, content: &str) -> Event {
    let metadata = json!({"finish_reason": "stop"});
    from_agent(
        &json!({"type": "AIMessageChunk", "id": id, "content": content, "response_metadata": metadata}),
    )
}

fn call_piece(id: &str, index: Option<u32>, call_id: &str, args: &str) -> Event {
    let chunk = json!({"index": index, "id": call_id, "name": "search", "args": args});
    from_agent(&json!({"type": "AIMessageChunk", "id": id, "content": "", "tool_call_chunks": [chunk]}))
}

fn whole(id: &str, content: &str) -> Event {
    from_agent(&json!({"type": "ai", "id": id, "content": content}))
}

fn update(message: &Value) -> Event {
    ("updates", json!({"agent": {"messages": [message]}}))
}

fn removed(id: &str) -> Event {
    from_agent(&json!({"type": "remove", "id": id, "content": ""}))
}

fn call(id: &str, input: &Value) -> Value {
    event(
        "tool_call",
        json!({"tool": "search", "input": input, "call_id": id}),
    )
}

fn thinking(id: &str, content: &str) -> Value {
    event("thinking", json!({"content": content, "id": id}))
}

/// The frames of a run without its end.
fn frames(events: &[Event]) -> Vec<Value> {
    let (mut frames, _) = read(&mut LangGraph::new("").decoder(), &named_events(events));
    frames.retain(|frame| frame.get("end").is_none());
    frames
}

fn finish(events: &[Event]) -> String {
    read(&mut LangGraph::new("").decoder(), &named_events(events)).1
}

#[test]
fn a_whole_message_adds_what_its_pieces_did_not_have() {
    let chunk = |form: &'static str, content: &str| {
        (
            form,
            json!([{"type": "AIMessageChunk", "id": "1", "content": content}]),
        )
    };
    let unnamed = |kind: &str, content: &str| from_agent(&json!({"type": kind, "content": content}));
    for (why, events, expected) in [
        (
            "the same text",
            vec![piece("1", "Ye"), piece("1", "s"), whole("1", "Yes")],
            vec![text("Ye"), text("s")],
        ),
        (
            "more text",
            vec![piece("1", "Yes"), whole("1", "Yes, it is.")],
            vec![text("Yes"), text(", it is.")],
        ),
        (
            "another text",
            vec![piece("1", "Yse"), whole("1", "Yes")],
            vec![text("Yse"), event("retract", json!({"kept": 0})), text("Yes")],
        ),
        (
            "another text after an empty piece, with which many services begin",
            vec![piece("1", ""), piece("1", "Yse"), whole("1", "Yes")],
            vec![text("Yse"), event("retract", json!({"kept": 0})), text("Yes")],
        ),
        (
            "everything so far, in the type of a piece",
            vec![
                chunk("messages/partial", "Yes"),
                chunk("messages/partial", "Yes, it"),
                chunk("messages/complete", "Yes, it is."),
            ],
            vec![text("Yes"), text(", it"), text(" is.")],
        ),
        (
            "without IDs",
            vec![unnamed("AIMessageChunk", "Yes"), unnamed("ai", "Yes, it is.")],
            vec![text("Yes"), text(", it is.")],
        ),
        (
            "a message that another one interrupted is not compared",
            vec![
                piece("1", "One"),
                piece("2", "Two"),
                piece("1", " more"),
                whole("1", "One more"),
            ],
            vec![text("One"), text("\n\nTwo"), text("\n\n more")],
        ),
    ] {
        assert_eq!(frames(&events), expected, "{why}");
    }
}

#[test]
fn a_text_that_is_too_long_to_be_compared_is_not_sent_again() {
    const MAX: usize = 4 * 1024 * 1024;
    for (length, rest) in [(MAX - 2, vec![text("!")]), (MAX - 1, vec![])] {
        let long = "x".repeat(length);
        let whole = whole("1", &format!("ab{long}!"));
        let frames = frames(&[piece("1", "ab"), piece("1", &long), whole]);
        assert_eq!(frames[2..], rest);
    }
}

#[test]
fn a_thought_is_sent_once() {
    let thinks = |kind: &str, id: &str, thought: &str, content: &str| {
        let kwargs = json!({"reasoning_content": thought});
        from_agent(&json!({"type": kind, "id": id, "content": content, "additional_kwargs": kwargs}))
    };
    for (why, events, expected) in [
        (
            "a whole message repeats it",
            vec![
                thinks("AIMessageChunk", "1", "Let ", ""),
                thinks("AIMessageChunk", "1", "me", ""),
                thinks("ai", "1", "Let me see.", "Yes"),
            ],
            vec![
                thinking("1", "Let "),
                thinking("1", "me"),
                thinking("1", " see."),
                text("Yes"),
            ],
        ),
        (
            "without IDs",
            vec![
                thinks("AIMessageChunk", "", "Let me", ""),
                thinks("ai", "", "Let me", "Yes"),
            ],
            vec![event("thinking", json!({"content": "Let me"})), text("Yes")],
        ),
    ] {
        assert_eq!(frames(&events), expected, "{why}");
    }
}

#[test]
fn the_text_of_a_subgraph_is_a_thought_and_not_a_part_of_the_answer() {
    let nested = |content: &str| {
        let message = json!({"type": "AIMessageChunk", "content": content});
        ("messages|grade:1", json!([message, {"langgraph_node": "grade"}]))
    };
    let unnamed = |kind: &str, content: &str| from_agent(&json!({"type": kind, "content": content}));
    let thought = |content: &str| event("thinking", json!({"content": content}));
    for (why, events, expected) in [
        (
            "a whole answer",
            vec![nested("Relevant."), unnamed("ai", "Yes")],
            vec![thought("Relevant."), text("Yes")],
        ),
        (
            "an answer in pieces, repeated as a whole under an ID",
            vec![
                nested("Rele"),
                nested("vant."),
                unnamed("AIMessageChunk", "Ye"),
                unnamed("AIMessageChunk", "s"),
                update(&json!({"type": "ai", "id": "1", "content": "Yes"})),
            ],
            vec![thought("Rele"), thought("vant."), text("Ye"), text("s")],
        ),
    ] {
        assert_eq!(frames(&events), expected, "{why}");
    }
}

#[test]
fn calls_in_pieces_are_put_together_by_their_index() {
    for (why, events, expected) in [
        (
            "text ends the arguments",
            vec![call_piece("1", Some(0), "a", "{}"), piece("1", "Yes")],
            vec![call("a", &json!({})), text("Yes")],
        ),
        (
            "another message ends the arguments",
            vec![
                call_piece("1", Some(0), "a", "{\"q\":1}"),
                call_piece("2", Some(0), "b", "{\"q\":2}"),
                piece("2", "Yes"),
            ],
            vec![
                call("a", &json!({"q": 1})),
                call("b", &json!({"q": 2})),
                text("Yes"),
            ],
        ),
        (
            "two at once",
            vec![
                call_piece("1", Some(0), "a", "{\"q\":"),
                call_piece("1", Some(1), "b", "{\"q\":"),
                call_piece("1", Some(0), "", "1}"),
                call_piece("1", Some(1), "", "2}"),
                piece("1", "Yes"),
            ],
            vec![
                call("a", &json!({"q": 1})),
                call("b", &json!({"q": 2})),
                text("Yes"),
            ],
        ),
        (
            "without an index each piece is a call",
            vec![
                call_piece("1", Some(0), "a", "{\"q\":1}"),
                call_piece("1", None, "b", "{\"q\":2}"),
                call_piece("1", None, "c", "{\"q\":3}"),
                piece("1", "Yes"),
            ],
            vec![
                call("a", &json!({"q": 1})),
                call("b", &json!({"q": 2})),
                call("c", &json!({"q": 3})),
                text("Yes"),
            ],
        ),
    ] {
        assert_eq!(frames(&events), expected, "{why}");
    }
}

#[test]
fn the_arguments_of_calls_have_the_limit_of_a_line() {
    let read = |args: [&str; 2]| {
        let wire = LangGraph::new("").limits(Limits::default().max_line_bytes(10));
        let pieces = [
            call_piece("1", Some(0), "a", args[0]),
            call_piece("1", Some(1), "b", args[1]),
        ];
        read(&mut wire.decoder(), &named_events(&pieces)).1
    };
    assert_eq!(read(["12345", "67890"]), "truncated:events");
    assert_eq!(read(["12345", "678901"]), "error:line_too_long");
}

#[test]
fn a_call_is_taken_once() {
    let calls = |id: &str| {
        let calls = json!([{"id": "a", "name": "search", "args": {}}]);
        update(&json!({"type": "ai", "id": id, "content": "", "tool_calls": calls}))
    };
    let result = || update(&json!({"type": "tool", "id": "r", "tool_call_id": "a", "content": "Found."}));
    let answered = event(
        "tool_result",
        json!({"tool": "search", "result": "Found.", "call_id": "a"}),
    );
    for (why, events, expected) in [
        (
            "after its pieces",
            vec![call_piece("1", Some(0), "a", "{}"), calls("1")],
            vec![call("a", &json!({}))],
        ),
        (
            "in another message",
            vec![calls("1"), calls("2")],
            vec![call("a", &json!({}))],
        ),
        (
            "after its result",
            vec![calls("1"), result(), calls("2"), result()],
            vec![call("a", &json!({})), answered],
        ),
    ] {
        let mut events = frames(&events);
        events.retain(|frame| frame["event"]["event"] != "updates");
        assert_eq!(events, expected, "{why}");
    }
}

#[test]
fn a_result_has_the_name_that_it_states_or_that_of_its_call() {
    let calls = json!([{"id": "a", "name": "search", "args": {}}]);
    let asks = from_agent(&json!({"type": "ai", "id": "1", "content": "", "tool_calls": calls}));
    for (name, call_id, tool) in [
        ("lookup", "a", "lookup"),
        ("", "a", "search"),
        ("", "unknown", "tool"),
    ] {
        let result =
            json!({"type": "tool", "id": "2", "name": name, "tool_call_id": call_id, "content": "Found."});
        assert_eq!(
            frames(&[asks.clone(), from_agent(&result)])[1],
            event(
                "tool_result",
                json!({"tool": tool, "result": "Found.", "call_id": call_id})
            )
        );
    }
}

#[test]
fn only_text_of_the_answer_is_taken_back() {
    let retract = || event("retract", json!({"kept": 0}));
    for (why, events, expected) in [
        (
            "the current message",
            vec![piece("1", "No"), removed("1")],
            vec![text("No"), retract()],
        ),
        (
            "twice",
            vec![piece("1", "No"), removed("1"), removed("1")],
            vec![text("No"), retract()],
        ),
        (
            "another message",
            vec![piece("1", "No"), removed("0")],
            vec![text("No")],
        ),
        (
            "a message without text",
            vec![piece("1", ""), removed("1")],
            vec![],
        ),
        (
            "all messages",
            vec![piece("1", "No"), piece("2", "Well"), removed("__remove_all__")],
            vec![text("No"), text("\n\nWell"), retract()],
        ),
        (
            "all messages, of which none has text",
            vec![removed("__remove_all__")],
            vec![],
        ),
        (
            "a message that comes again afterwards",
            vec![
                piece("1", "No"),
                removed("1"),
                piece("1", "Yes"),
                whole("1", "Yes"),
            ],
            vec![text("No"), retract(), text("Yes")],
        ),
    ] {
        assert_eq!(frames(&events), expected, "{why}");
    }
}

#[test]
fn a_run_whose_last_message_is_a_finished_answer_is_complete() {
    let so_far = || {
        (
            "messages/partial",
            json!([{"type": "ai", "id": "1", "content": "Yes"}]),
        )
    };
    let ours = |content: &str, metadata: Value| {
        let message =
            json!({"type": "AIMessageChunk", "id": "1", "content": content, "response_metadata": metadata});
        (
            "messages",
            json!([message, {"langgraph_node": "model", "ragwire": "text"}]),
        )
    };
    for (why, events, expected) in [
        ("a whole message", vec![whole("1", "Yes")], "complete"),
        ("the last piece", vec![last_piece("1", "Yes")], "complete"),
        ("a message so far", vec![so_far()], "truncated:text"),
        (
            "more text follows",
            vec![last_piece("1", "Yes"), piece("1", " and")],
            "truncated:text",
        ),
        (
            "an empty piece of the message follows",
            vec![last_piece("1", "Yes"), piece("1", "")],
            "complete",
        ),
        (
            "another message begins",
            vec![last_piece("1", "Yes"), piece("2", "")],
            "truncated:text",
        ),
        (
            "the last piece of a message with a call",
            vec![call_piece("1", Some(0), "a", "{}"), last_piece("1", "")],
            "truncated:events",
        ),
        (
            "without IDs",
            vec![call_piece("", Some(0), "a", "{}"), last_piece("", "")],
            "truncated:events",
        ),
        (
            "our encoder would have written an end",
            vec![ours("Yes", json!({"finish_reason": "stop"}))],
            "truncated:text",
        ),
    ] {
        assert_eq!(finish(&events), expected, "{why}");
    }
}

#[test]
fn the_tokens_of_a_message_count_once() {
    let usage = |kind: &str, id: &str| {
        let tokens = json!({"input_tokens": 3, "output_tokens": 2, "total_tokens": 5});
        from_agent(&json!({"type": kind, "id": id, "content": "Yes", "usage_metadata": tokens}))
    };
    for (why, events, input_tokens) in [
        ("a whole message", vec![usage("ai", "1")], 3),
        (
            "a piece and the whole",
            vec![usage("AIMessageChunk", "1"), usage("ai", "1")],
            3,
        ),
        ("two messages", vec![usage("ai", "1"), usage("ai", "2")], 6),
    ] {
        let (frames, _) = read(&mut LangGraph::new("").decoder(), &named_events(&events));
        let mut expected = end("completed");
        expected["end"]["metadata"]["usage"] =
            json!({"input_tokens": input_tokens, "output_tokens": input_tokens / 3 * 2});
        assert_eq!(frames.last(), Some(&expected), "{why}");
    }
}
