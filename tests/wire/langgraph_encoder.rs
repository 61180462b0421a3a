//! The events of a LangGraph run as the encoder writes them: the state, what is withdrawn from it,
//! and the IDs of events.

use bytes::BytesMut;
use ragwire::event::{Reasoning, Retract, Search, Thinking, ToolCall, ToolResult};
use ragwire::wire::Wire;
use ragwire::wire::langgraph::{EventId, Modes};
use ragwire::{End, Frame, LangGraph};
use serde_json::{Value, json};

use crate::frames::{event, text};

fn end() -> Frame {
    Frame::End(End::default())
}

/// The data of the events with these names, after the state before the answer.
fn written(modes: &[&str], names: &[&str], frames: &[Frame]) -> Vec<Value> {
    let wire = LangGraph::new("r").modes(Modes::of(modes.iter().copied()));
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    for frame in frames {
        encoder.encode(frame, &mut out).unwrap();
    }
    let out = String::from_utf8(out.to_vec()).unwrap();
    let events = out.split("\n\n").filter_map(|event| {
        let (head, data) = event.split_once("\ndata: ")?;
        let name = head.split_once("event: ")?.1;
        names.contains(&name).then(|| serde_json::from_str(data).unwrap())
    });
    events.collect()
}

/// The messages of the last state: what each is, and its content.
fn last_state(frames: &[Frame]) -> Vec<[String; 2]> {
    let states = written(&["values"], &["values"], frames);
    let messages = states.last().unwrap()["messages"].as_array().unwrap();
    let word = |message: &Value, name: &str| message[name].as_str().unwrap().to_owned();
    messages
        .iter()
        .map(|message| [word(message, "type"), word(message, "content")])
        .collect()
}

fn call(id: &str) -> Frame {
    event(ToolCall::new("pay", json!({})).call_id(id))
}

fn result(id: &str, result: &str) -> Frame {
    event(ToolResult::new("pay", result).call_id(id))
}

#[test]
fn withdrawn_text_is_missing_in_the_messages_of_the_state() {
    let turn = |kept: u64| {
        [
            text("Yes, "),
            call("a"),
            result("a", "Paid."),
            text("it "),
            call("b"),
            result("b", "Paid."),
            text("is."),
            event(Retract::new(kept)),
        ]
    };
    for (kept, answer) in [
        (10, ["Yes, ", "it ", "is"]),
        (8, ["Yes, ", "it ", ""]),
        (7, ["Yes, ", "it", ""]),
        (5, ["Yes, ", "", ""]),
        (2, ["Ye", "", ""]),
        (0, ["", "", ""]),
    ] {
        let state = last_state(&turn(kept));
        let ai: Vec<&str> = state
            .iter()
            .filter(|message| message[0] == "ai")
            .map(|message| message[1].as_str())
            .collect();
        assert_eq!(ai, answer, "{kept}");
    }
}

#[test]
fn what_is_withdrawn_at_the_end_of_the_text_is_nothing() {
    for frames in [
        vec![text("Yes"), event(Retract::new(3))],
        vec![text("Yes"), event(Retract::new(9))],
        vec![
            text("Yes"),
            call("a"),
            result("a", "Paid."),
            event(Retract::new(3)),
        ],
    ] {
        let before = written(&["values"], &["values"], &frames[..frames.len() - 1]);
        assert_eq!(written(&["values"], &["values"], &frames), before);
    }
}

#[test]
fn the_end_completes_the_last_message_with_text() {
    let frames = [text("Yes"), call("a"), result("a", "Paid."), end()];
    for modes in [&["messages-tuple"][..], &["messages-tuple", "values"]] {
        let pieces = written(modes, &["messages"], &frames);
        let last = &pieces.last().unwrap()[0];
        assert_eq!(
            (&last["id"], &last["response_metadata"]),
            (&pieces[0][0]["id"], &json!({"finish_reason": "stop"})),
            "{modes:?}"
        );
    }
}

#[test]
fn a_search_without_a_result_is_closed_before_the_text() {
    let frames = [event(Search::new("bm25").query("why")), text("Yes"), end()];
    let types: Vec<String> = last_state(&frames).into_iter().map(|[kind, _]| kind).collect();
    assert_eq!(types, ["ai", "tool", "ai"]);
}

#[test]
fn a_blank_line_separates_two_thoughts_of_a_message() {
    let piece = |content: &str, id: &str| event(Thinking::new(content).id(id));
    for (frames, expected) in [
        (vec![piece("Let ", "a"), piece("me.", "a")], vec!["Let ", "me."]),
        (
            vec![piece("One.", "a"), piece("Two.", "b")],
            vec!["One.", "\n\nTwo."],
        ),
        (
            vec![event(Reasoning::new("One.")), event(Reasoning::new("Two."))],
            vec!["One.", "\n\nTwo."],
        ),
        (
            vec![event(Thinking::new("One.")), event(Thinking::new("Two."))],
            vec!["One.", "\n\nTwo."],
        ),
    ] {
        let pieces = written(&["messages-tuple"], &["messages"], &frames);
        let thoughts: Vec<&str> = pieces
            .iter()
            .map(|piece| {
                piece[0]["additional_kwargs"]["reasoning_content"]
                    .as_str()
                    .unwrap()
            })
            .collect();
        assert_eq!(thoughts, expected);
    }
}

const MAX_STATE_BYTES: usize = 8 * 1024 * 1024;

#[test]
fn what_stays_of_a_message_has_its_thoughts_in_every_mode_with_messages() {
    let frames = [
        event(Thinking::new("Let me see.")),
        text("Yes, it is"),
        event(Retract::new(3)),
    ];
    for modes in [&["messages-tuple"][..], &["messages-tuple", "values"]] {
        let pieces = written(modes, &["messages"], &frames);
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| {
                let message = &piece[0];
                let thought = &message["additional_kwargs"]["reasoning_content"];
                (
                    message["type"].clone(),
                    message["content"].clone(),
                    thought.clone(),
                )
            })
            .collect();
        let piece = |content: &str| (json!("AIMessageChunk"), json!(content), Value::Null);
        let thought = (json!("AIMessageChunk"), json!(""), json!("Let me see."));
        assert_eq!(
            pieces,
            [
                thought.clone(),
                piece("Yes, it is"),
                (json!("remove"), json!(""), Value::Null),
                thought,
                piece("Yes"),
            ],
            "{modes:?}"
        );
    }
}

#[test]
fn results_over_the_limit_are_not_in_the_state_and_the_answer_is() {
    // A message has its result as text and as a value.
    let long = "x".repeat(MAX_STATE_BYTES / 40);
    let mut frames = Vec::new();
    for id in 0..21 {
        let id = id.to_string();
        frames.extend([call(&id), result(&id, &long)]);
    }
    frames.extend([text("Yes"), end()]);
    let state = last_state(&frames);
    let of = |kind: &str| state.iter().filter(|message| message[0] == kind).count();
    assert_eq!(
        (of("tool"), state.last().map(|message| message[1].as_str())),
        (19, Some("Yes"))
    );
}

#[test]
fn the_answer_is_in_the_state_although_results_fill_it() {
    let long = "x".repeat(MAX_STATE_BYTES / 40);
    let mut frames = Vec::new();
    for id in 0..21 {
        let id = id.to_string();
        frames.extend([call(&id), result(&id, &long)]);
    }
    frames.extend([text(&long), text(&long), text(&long), call("last"), end()]);
    let state = last_state(&frames);
    let answer = &state.last().unwrap()[1];
    assert_eq!(answer.len(), 3 * long.len());
}

#[test]
fn a_call_counts_by_its_strings() {
    let long = "x".repeat(4096);
    let call = ToolCall::new(long.as_str(), json!({"q": long})).call_id(long.as_str());
    let frames = [event(call), result(&long, "Paid."), end()];
    let states = written(&["values"], &["values"], &frames);
    let calls = &states.last().unwrap()["messages"][0]["tool_calls"];
    assert_eq!(
        (&calls[0]["name"], &calls[0]["args"]["q"]),
        (&json!(long), &json!(long))
    );
}

#[test]
fn the_id_of_an_event_is_its_number_and_its_modes() {
    let all = ["values", "updates", "messages-tuple", "messages", "custom"];
    for (text, number, modes) in [
        ("0", 0, Modes::default()),
        ("12", 12, Modes::default()),
        ("7v", 7, Modes::of(["values"])),
        ("7u", 7, Modes::of(["updates"])),
        ("7t", 7, Modes::of(["messages-tuple"])),
        ("7m", 7, Modes::of(["messages"])),
        ("7c", 7, Modes::of(["custom"])),
        ("7vutmc", 7, Modes::of(all)),
        ("7-", 7, Modes::NONE),
    ] {
        let id = EventId::new(number, modes);
        assert_eq!((EventId::parse(text), id.to_string().as_str()), (Some(id), text));
    }
    // Nothing that the encoder does not write.
    for text in [
        "",
        "u",
        "-1",
        "7x",
        "7uv",
        "7uu",
        "7-u",
        "07",
        "7vtc",
        "7 ",
        "99999999999999999999",
    ] {
        assert_eq!(EventId::parse(text), None, "{text}");
    }
}
