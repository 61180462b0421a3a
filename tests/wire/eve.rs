//! Properties of every turn on Eve's wire, in both vocabularies: the lines of a session form one
//! stream in an order that Eve's clients accept, and nothing that was sent is lost.

use std::collections::HashSet;

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::{CacheMiss, Custom, InputRequested, Reasoning, Thinking, ToolCall, ToolResult};
use ragwire::wire::{Decode, Limits, Wire};
use ragwire::{End, Eve, Event, Failure, Frame, Metadata};
use serde_json::Value;

/// The longest answer in the documented `message.appended` and `message.completed`.
const MAX_CONTENT_BYTES: usize = 512 * 1024;

fn event() -> impl Strategy<Value = Event> {
    let id = || prop::sample::select(&[None, Some("1"), Some("2")][..]);
    let text = prop::sample::select(
        &[
            "",
            "a",
            "\n\u{2028}\"",
            "\u{1f600}",
            "xxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ][..],
    );
    (0..7u8, id(), text, any::<bool>()).prop_map(|(kind, id, text, is_error)| match kind {
        0 | 1 => {
            let call = ToolCall::new(format!("tool{kind}"), text);
            id.map_or_else(|| call.clone(), |id| call.clone().call_id(id))
                .into()
        }
        2 => {
            let result = ToolResult::new("tool0", text).is_error(is_error);
            id.map_or_else(|| result.clone(), |id| result.clone().call_id(id))
                .into()
        }
        3 => Reasoning::new(text).into(),
        4 => Thinking::new(text).into(),
        5 => InputRequested::new("r", "approval", text).into(),
        _ if is_error => Custom::new("session.waiting", &text).unwrap().into(),
        _ => CacheMiss::new().into(),
    })
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let text = prop_oneof![Just("a".to_owned()), "[a-z\n\u{2028}\u{20ac}\u{1f600}]{1,20}"];
    let frame = prop_oneof![
        event().prop_map(|event| Frame::Event {
            event,
            timestamp: None
        }),
        text.prop_map(Frame::Text),
    ];
    let end = prop_oneof![
        Just(End::completed(Metadata::default().tools_used(["t"]))),
        Just(End::stopped()),
        Just(End::failed(Failure::default())),
        Just(End::failed(Failure::new("quota", "Too much.").permanent())),
    ];
    (vec(frame, 0..20), end).prop_map(|(mut frames, end)| {
        frames.push(Frame::End(end));
        frames
    })
}

/// The lines of a turn and the frames that were encoded. An event that does not fit writes nothing.
fn lines(wire: &Eve, frames: &[Frame]) -> (Vec<Value>, Vec<Frame>) {
    let (mut encoder, mut out, mut taken) = (wire.encoder(), BytesMut::new(), Vec::new());
    for frame in frames {
        let before = out.len();
        match encoder.encode(frame, &mut out) {
            Ok(()) => taken.push(frame.clone()),
            Err(error) => {
                assert_eq!(error.code(), "event_too_large");
                assert_eq!(out.len(), before);
            }
        }
        encoder.keep_alive(&mut out);
    }
    (parse(&out), taken)
}

fn parse(out: &[u8]) -> Vec<Value> {
    let text = str::from_utf8(out).unwrap();
    assert!(text.ends_with("}\n"));
    // Empty lines are keep-alives.
    let lines = text.split('\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(lines: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    lines
        .iter()
        .filter(move |line| line["type"] == kind)
        .map(|line| &line["data"])
}

fn text_of(frames: &[Frame]) -> String {
    let texts = frames.iter().filter_map(|frame| match frame {
        Frame::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Checks that only the last line of a turn ends it, and that this line says whether the session
/// continues.
fn check_end(wire: &Eve, lines: &[Value], frames: &[Frame]) {
    let last = ["session.waiting", "session.failed", "session.completed"];
    let ends: Vec<_> = lines
        .iter()
        .filter(|line| last.contains(&line["type"].as_str().unwrap()))
        .collect();
    assert_eq!(ends, [lines.last().unwrap()]);
    let Some(Frame::End(end)) = frames.last() else {
        panic!("no end")
    };
    assert_eq!(ends[0]["type"] == "session.failed", wire.ends_session(end));
    let status = ends[0]["data"]["metadata"]["status"].as_str();
    assert_eq!(status.unwrap_or("completed"), end.status.as_str());
}

/// Checks that steps begin and end in pairs, that the lines of a step lie within it, and that every
/// message is the sum of its deltas.
fn check_steps(wire: &Eve, lines: &[Value], max_message_bytes: usize) {
    let (mut open, mut thoughts, mut so_far) = (Vec::new(), HashSet::new(), String::new());
    let mut steps = 0;
    for line in lines {
        let (kind, data) = (line["type"].as_str().unwrap(), &line["data"]);
        if let Some(step) = data["stepIndex"].as_u64() {
            match kind {
                "step.started" => {
                    assert_eq!(step, steps);
                    steps += 1;
                    open.push(step);
                }
                "step.completed" | "step.failed" => assert_eq!(open.pop(), Some(step)),
                "reasoning.completed" => assert!(thoughts.insert(step), "two thoughts in step {step}"),
                _ => {}
            }
            assert!(open.contains(&step) || kind.starts_with("step."), "{line}");
        }
        match kind {
            "message.appended" => {
                so_far.push_str(data["messageDelta"].as_str().unwrap());
                assert_eq!(data["messageSoFar"], so_far);
                assert!(so_far.len() <= max_message_bytes);
            }
            "message.completed" => {
                assert_eq!(data["message"].as_str().unwrap_or_default(), so_far);
                so_far.clear();
            }
            _ => {}
        }
    }
    assert_eq!(open, Vec::<u64>::new(), "{wire:?}");
}

proptest! {
    #[test]
    fn shipped(frames in frames(), sequence in 0..3u64, max_message_bytes in 0..12usize) {
        for limits in [Limits::default(), Limits::default().max_line_bytes(130)] {
            let wire = Eve::new("s").turn(sequence).max_message_bytes(max_message_bytes).limits(limits);
            let (lines, taken) = lines(&wire, &frames);
            check_end(&wire, &lines, &taken);
            check_steps(&wire, &lines, max_message_bytes.max(4));
            let deltas = of(&lines, "message.appended").map(|data| data["messageDelta"].as_str().unwrap());
            prop_assert_eq!(deltas.collect::<String>(), text_of(&frames));
            prop_assert_eq!(of(&lines, "session.started").count(), usize::from(sequence == 0));
            prop_assert_eq!(of(&lines, "turn.started").count(), 1);
            // Every requested action has a result.
            let asked: HashSet<_> = of(&lines, "actions.requested").map(|data| &data["actions"][0]["callId"]).collect();
            let answered: HashSet<_> = of(&lines, "action.result").map(|data| &data["result"]["callId"]).collect();
            prop_assert!(asked.is_subset(&answered));
            let thoughts = taken.iter().filter(|frame| {
                matches!(frame, Frame::Event { event: Event::Reasoning(_) | Event::Thinking(_), .. })
            });
            prop_assert_eq!(of(&lines, "reasoning.completed").count(), thoughts.count());
        }
    }

    #[test]
    fn documented(frames in frames(), first_index in 0..100u64) {
        for limits in [Limits::default(), Limits::default().max_line_bytes(130)] {
            let wire = Eve::new("s").documented().first_index(first_index).limits(limits);
            let (lines, taken) = lines(&wire, &frames);
            check_end(&wire, &lines, &taken);
            let indexes: Vec<_> = lines.iter().map(|line| line["streamIndex"].as_u64().unwrap()).collect();
            prop_assert_eq!(indexes, (first_index..).take(lines.len()).collect::<Vec<_>>());
            let deltas = of(&lines, "agent.content.delta").map(|data| data["text"].as_str().unwrap());
            prop_assert_eq!(deltas.collect::<String>(), text_of(&frames));
            let states: Vec<_> = of(&lines, "message.appended").map(|data| data["content"].as_str().unwrap()).collect();
            prop_assert_eq!(states, [text_of(&frames)]);
        }
    }
}

#[test]
fn a_documented_answer_that_is_too_long_is_cut_in_the_state_only() {
    let (mut encoder, mut out) = (Eve::new("s").documented().encoder(), BytesMut::new());
    let long = "\u{20ac}".repeat(MAX_CONTENT_BYTES / 3 + 1);
    encoder.text(&long, &mut out).unwrap();
    encoder.text("!", &mut out).unwrap();
    encoder.end(&End::default(), &mut out).unwrap();
    let lines = parse(&out);
    let deltas: String = of(&lines, "agent.content.delta")
        .map(|data| data["text"].as_str().unwrap())
        .collect();
    assert!(deltas == format!("{long}!"));
    for kind in ["message.appended", "message.completed"] {
        let data = of(&lines, kind).next().unwrap();
        assert_eq!(
            data["content"].as_str().map(str::len),
            Some(MAX_CONTENT_BYTES / 3 * 3)
        );
        assert_eq!(data["truncated"], true);
    }
}

/// Another server does not name the kind of a question; its display determines it.
#[test]
fn a_question_of_another_server_has_the_kind_of_its_display() {
    for (display, kind) in [
        ("confirmation", "approval"),
        ("select", "choice"),
        ("input", "text"),
    ] {
        let request = serde_json::json!({"requestId": "r", "prompt": "Which?", "display": display});
        let data = serde_json::json!({"requests": [request]});
        let line = serde_json::json!({"type": "input.requested", "data": data}).to_string() + "\n";
        let mut decoder = Eve::new("s").decoder();
        decoder.feed(line.as_bytes());
        let frame = decoder.by_ref().next().unwrap().unwrap();
        let Frame::Event {
            event: Event::InputRequested(asked),
            ..
        } = frame
        else {
            panic!("{frame:?}");
        };
        assert_eq!((asked.request_id.as_str(), asked.kind.as_str()), ("r", kind));
    }
}
