//! The output items of a response: their limit, their numbers and the text of each message.

use bytes::BytesMut;
use ragwire::event::{Retract, Search, Sources, Thinking, ToolCall, ToolResult};
use ragwire::wire::{Limits, Wire};
use ragwire::{End, Event, Responses};
use serde_json::{Value, json};

fn wire(max_trailer_bytes: usize) -> Responses {
    let limits = Limits::default().max_trailer_bytes(max_trailer_bytes);
    Responses::new("r", 0, "m").limits(limits)
}

/// The data of the events of these kinds in the stream of a whole turn.
fn streamed(wire: &Responses, kind: &str, frames: &[Result<Event, &str>]) -> Vec<Value> {
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    for frame in frames {
        match frame {
            Ok(event) => encoder.event(event, None, &mut out).unwrap(),
            Err(text) => encoder.text(text, &mut out).unwrap(),
        }
    }
    encoder.end(&End::default(), &mut out).unwrap();
    let out = String::from_utf8(out.to_vec()).unwrap();
    let data = out.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    events.retain(|event| event["type"] == kind);
    events
}

/// What an item needs besides its strings.
const ITEM_BYTES: usize = 512;

#[test]
fn items_are_kept_within_the_limit_of_the_metadata() {
    let call = |id: &str| Event::from(ToolCall::new("pay", json!({"n": 1})).call_id(id));
    for (event, kind, bytes) in [
        (
            Search::new("t").query("ten bytes!").into(),
            "file_search_call",
            10,
        ),
        (call("call-1"), "mcp_call", 3 + 7 + 6),
        (Thinking::new("ten bytes!").id("a").into(), "reasoning", 10),
    ] {
        let kinds = |max_bytes: usize| -> Vec<String> {
            let events: [(Event, _); 1] = [(Event::clone(&event), None)];
            let response = wire(max_bytes).response(&events, "", &End::default());
            let items = response["output"].as_array().unwrap().iter();
            items
                .map(|item| item["type"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(kinds(ITEM_BYTES + bytes), [kind], "{kind}");
        assert_eq!(kinds(ITEM_BYTES + bytes - 1), [""; 0], "{kind}");
    }
}

#[test]
fn the_pieces_of_a_thought_are_one_part_of_the_limit() {
    let piece = |content: &str| Ok(Event::from(Thinking::new(content).id("a")));
    let deltas = |max_bytes: usize| {
        let kind = "response.reasoning_summary_text.delta";
        let events = streamed(&wire(max_bytes), kind, &[piece("one"), piece("two")]);
        events
            .iter()
            .map(|event| event["delta"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(deltas(ITEM_BYTES + 6), ["one", "two"]);
    assert_eq!(deltas(ITEM_BYTES + 5), ["one"]);
}

#[test]
fn calls_without_an_id_are_told_apart() {
    let call = |input: u32| Event::from(ToolCall::new("pay", json!({"n": input})));
    let result = |result: &str| Event::from(ToolResult::new("pay", result));
    let events = [call(1), call(2), result("one"), result("two")].map(|event| (event, None));
    let response = wire(100_000).response(&events, "", &End::default());
    let items = response["output"].as_array().unwrap().iter();
    let calls: Vec<Value> = items
        .filter(|item| item["type"] == "mcp_call")
        .map(|item| json!([item["arguments"], item["output"], item["status"]]))
        .collect();
    assert_eq!(
        calls,
        [
            json!(["{\"n\":1}", "one", "completed"]),
            json!(["{\"n\":2}", "two", "completed"])
        ]
    );
}

#[test]
fn a_message_after_a_call_has_its_own_text_and_its_own_part_of_what_is_kept() {
    let call = || Ok(ToolCall::new("pay", json!({})).call_id("c").into());
    let kept = |kept: u64| Ok(Retract::new(kept).into());
    for (frames, texts) in [
        (vec![Err("Yes, "), call(), Err("it is.")], vec!["Yes, ", "it is."]),
        (
            vec![Err("Yes, "), call(), Err("it is."), kept(7)],
            vec!["Yes, ", "it"],
        ),
        (
            vec![Err("a"), call(), Err("bc"), call(), Err("def"), kept(4)],
            vec!["a", "bc", "d"],
        ),
    ] {
        let done = streamed(&wire(100_000), "response.output_text.done", &frames);
        let seen: Vec<&str> = done.iter().map(|event| event["text"].as_str().unwrap()).collect();
        assert_eq!(seen, texts);
    }
}

#[test]
fn all_messages_together_keep_at_most_4_mib() {
    const MAX: usize = 4 * 1024 * 1024;
    let call = || Ok(ToolCall::new("pay", json!({})).call_id("c").into());
    let long = "x".repeat(MAX - 2);
    let frames = [Err(long.as_str()), call(), Err("abc"), call(), Err("d")];
    let done = streamed(&wire(100_000), "response.output_text.done", &frames);
    let lengths: Vec<usize> = done
        .iter()
        .map(|event| event["text"].as_str().unwrap().len())
        .collect();
    assert_eq!(lengths, [MAX - 2, 2, 0]);
    // The cut is reported even if the last message is whole.
    for (text, truncated) in [("ab", Value::Null), ("abc", true.into())] {
        let frames = [
            Err(long.as_str()),
            call(),
            Err(text),
            Ok(Sources::new(vec![]).into()),
        ];
        let completed = streamed(&wire(100_000), "response.completed", &frames);
        assert_eq!(
            completed[0]["response"]["ragwire"]["truncated"], truncated,
            "{text}"
        );
    }
}
