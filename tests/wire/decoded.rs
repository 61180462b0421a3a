//! The decoders of the AI SDK's wire and of AG-UI: turns of ours come back up to what `PROTOCOL.md`
//! says is lost, and streams of other servers become the frames that they mean.

use std::path::Path;

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::{Retract, RetrievalResult, RetrievalStart, Search, Thinking};
use ragwire::wire::{Decode, Finish, Limits, Wire, ag_ui, ai_sdk};
use ragwire::{AgUi, AiSdk, Event, Frame, Status, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::generated::{end, event, string, timestamp};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    AiSdk,
    AgUi,
}

const KINDS: [Kind; 2] = [Kind::AiSdk, Kind::AgUi];

impl Kind {
    fn wire(self) -> Box<dyn Wire> {
        match self {
            Self::AiSdk => Box::new(AiSdk::default()),
            Self::AgUi => Box::new(AgUi::new("t", "r")),
        }
    }

    fn decoder(self, limits: Limits) -> Box<dyn Decode> {
        match self {
            Self::AiSdk => Box::new(ai_sdk::AiSdkDecoder::new(limits)),
            Self::AgUi => Box::new(ag_ui::AgUiDecoder::new(limits)),
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::AiSdk => "ai_sdk",
            Self::AgUi => "ag_ui",
        }
    }
}

/// Decodes chunks with the default limits.
fn decode<'a>(kind: Kind, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, Finish) {
    let (mut decoder, mut frames) = (kind.decoder(Limits::default()), Vec::new());
    for chunk in chunks {
        decoder.feed(chunk);
        frames.extend(decoder.by_ref().flatten());
    }
    let finish = decoder.finish();
    frames.extend(decoder.flatten());
    (frames, finish)
}

fn encode(kind: Kind, frames: &[Frame]) -> BytesMut {
    let (mut encoder, mut bytes) = (kind.wire().encoder(), BytesMut::new());
    for frame in frames {
        encoder.encode(frame, &mut bytes).unwrap();
    }
    bytes
}

// ---- what is lost ----

/// Removes `null` members, which no wire of ours has.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            // The result of a tool may come back as the text of its JSON.
            let others = members.iter_mut().filter(|(name, _)| *name != "result");
            others.for_each(|(_, value)| without_nulls(value));
        }
        Value::Array(values) => values.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Frames as values that can be compared: texts that follow one another are one.
fn values(frames: &[Frame]) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for frame in frames {
        let mut value = match frame {
            Frame::Text(text) if text.is_empty() => continue,
            Frame::Text(text) => {
                if let Some(Value::String(last)) = values.last_mut().and_then(|last| last.get_mut("text")) {
                    last.push_str(text);
                    continue;
                }
                json!({ "text": text })
            }
            Frame::Event { event, timestamp } => {
                let micros = timestamp.map(Timestamp::as_micros);
                json!({ "event": event, "micros": micros })
            }
            Frame::End(end) => {
                let metadata = &end.metadata;
                let error = match &end.status {
                    Status::Failed(failure) => json!(failure),
                    Status::Completed | Status::Stopped => Value::Null,
                };
                json!({
                    "end": end.status.as_str(), "error": error, "citations": metadata.citations, "mode": metadata.mode,
                    "tools_used": metadata.tools_used, "usage": metadata.usage, "queue_stats": metadata.queue_stats,
                    "extra": metadata.extra, "events_dropped": metadata.events_dropped, "truncated": metadata.truncated,
                })
            }
            Frame::Snapshot(_) => unreachable!("these wires have no snapshots"),
        };
        without_nulls(&mut value);
        values.push(value);
    }
    values
}

/// The frames of a turn as they are decoded, by the tables "What decoding loses" of `PROTOCOL.md`.
fn expected(kind: Kind, frames: &[Frame]) -> Vec<Value> {
    let mut values = values(frames);
    // The first piece of the last thought.
    let mut first: Option<Value> = None;
    for value in &mut values {
        if value.get("text").is_some() {
            first = None;
            continue;
        }
        if value.get("end").is_some() {
            if value["end"] == "failed" {
                value["citations"] = json!([]);
                value["tools_used"] = json!(["chat_failed"]);
            }
            continue;
        }
        if kind == Kind::AgUi
            && let Some(micros) = value.get("micros").and_then(Value::as_i64)
        {
            value["micros"] = (micros / 1_000 * 1_000).into();
        }
        let piece = value["event"]["event"] == "thinking" && value["event"].get("id").is_some();
        if !piece
            || first
                .as_ref()
                .is_some_and(|first| first["event"]["id"] != value["event"]["id"])
        {
            first = None;
        }
        if piece {
            let first = first.get_or_insert_with(|| value.clone());
            let content = value["event"]["content"].take();
            let micros = value.get("micros").cloned().unwrap_or_default();
            *value = first.clone();
            value["event"]["content"] = content;
            if kind == Kind::AgUi {
                value["micros"] = micros;
            }
            without_nulls(value);
        }
        let Some(event) = value.get_mut("event").and_then(Value::as_object_mut) else {
            continue;
        };
        match event["event"].as_str().unwrap_or_default() {
            "tool_call" => {
                event.entry("input").or_insert_with(|| json!({}));
            }
            "tool_result" => came_back(kind, event),
            "reasoning" if kind == Kind::AgUi => {
                event.insert("event".into(), "thinking".into());
            }
            name if !Event::NAMES.contains(&name) => {
                let data = event.entry("data").or_insert_with(|| json!({})).clone();
                // Only an object has room for the time, unless it has its own.
                if kind == Kind::AiSdk && (!data.is_object() || data.get("timestamp").is_some()) {
                    value.as_object_mut().unwrap().remove("micros");
                }
            }
            _ => {}
        }
    }
    values
}

/// The result of a tool as it is decoded.
fn came_back(kind: Kind, event: &mut Map<String, Value>) {
    let result = event.get("result").cloned().unwrap_or_default();
    let is_error = event.get("is_error") == Some(&Value::Bool(true));
    let result = match (kind, result) {
        (Kind::AiSdk, Value::Null) if is_error => "The tool failed.".into(),
        (Kind::AiSdk, Value::Null) => json!({}),
        (Kind::AiSdk, Value::String(text)) => text.into(),
        (Kind::AiSdk, value) if is_error => value.to_string().into(),
        (Kind::AiSdk, value) => value,
        (Kind::AgUi, Value::Null) => "".into(),
        (Kind::AgUi, Value::String(text)) => match serde_json::from_str(&text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
            _ => text.into(),
        },
        (Kind::AgUi, value @ (Value::Object(_) | Value::Array(_))) => value,
        (Kind::AgUi, value) => value.to_string().into(),
    };
    event.insert("result".into(), result);
    if kind == Kind::AiSdk && !is_error {
        event.remove("is_error");
    }
}

/// Compares decoded frames with those of the turn. A call or a result without an ID has one
/// afterwards, and a result whose call the turn did not have comes after one.
fn check(kind: Kind, frames: &[Frame], decoded: &[Frame]) {
    let mut decoded = values(decoded).into_iter().peekable();
    for mut wanted in expected(kind, frames) {
        let name = wanted["event"]["event"].as_str().unwrap_or_default().to_owned();
        let mut seen = decoded.next().unwrap_or_default();
        if kind == Kind::AiSdk && name == "tool_result" && seen["event"]["event"] == "tool_call" {
            let next = decoded.next().unwrap_or_default();
            assert_eq!(seen["event"]["call_id"], next["event"]["call_id"]);
            assert_eq!(seen["event"]["input"], json!({}));
            seen = next;
        }
        let given = |value: &Value, name: &str| value["event"].get(name).is_some();
        match name.as_str() {
            "tool_call" | "tool_result" => {
                assert!(given(&seen, "call_id"), "{seen}");
                // With one ID for two tools, or another ID than the call's, the call decides.
                let is_loose = kind == Kind::AiSdk && name == "tool_result";
                for member in ["call_id", "tool"] {
                    if is_loose || !given(&wanted, member) {
                        for value in [&mut seen, &mut wanted] {
                            value["event"].as_object_mut().unwrap().remove(member);
                        }
                    }
                }
            }
            "thinking" if !given(&wanted, "id") && kind == Kind::AgUi => {
                assert!(given(&seen, "id"), "{seen}");
                seen["event"].as_object_mut().unwrap().remove("id");
            }
            _ => {}
        }
        assert_eq!(seen, wanted, "{kind:?}");
    }
    assert_eq!(decoded.next(), None, "{kind:?}");
}

// ---- turns of ours ----

/// Turns with everything that these wires show in more than one way.
fn turn() -> impl Strategy<Value = Vec<Frame>> {
    let own = prop_oneof![
        4 => event(),
        2 => (0..2_u32, string()).prop_map(|(id, content)| Thinking::new(content).id(id.to_string()).into()),
        1 => any::<u64>().prop_map(|kept| Retract::new(kept).into()),
        1 => (0..2_u32).prop_map(|tool| Search::new(tool.to_string()).query("q").into()),
        1 => (0..2_u32).prop_map(|tool| RetrievalStart::new(tool.to_string(), "q", 1_u32).into()),
        1 => (0..2_u32).prop_map(|tool| RetrievalResult::new(tool.to_string(), 1_u32, 2_u64).into()),
    ];
    let frame = prop_oneof![
        3 => (own, timestamp()).prop_map(|(event, timestamp): (Event, _)| Frame::Event { event, timestamp }),
        1 => string().prop_map(Frame::Text),
    ];
    (vec(frame, 0..12), end()).prop_map(|(mut frames, end)| {
        frames.push(Frame::End(end));
        frames
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_turn_comes_back(frames in turn(), size in 1..200_usize) {
        for kind in KINDS {
            let bytes = encode(kind, &frames);
            let (decoded, finish) = decode(kind, [&bytes[..]]);
            prop_assert_eq!(finish, Finish::Complete);
            check(kind, &frames, &decoded);
            let (split, finish) = decode(kind, bytes.chunks(size));
            prop_assert_eq!(finish, Finish::Complete);
            prop_assert_eq!(split, decoded);
        }
    }

    #[test]
    fn a_cut_turn_is_truncated(frames in turn(), at in any::<prop::sample::Index>()) {
        for kind in KINDS {
            let bytes = encode(kind, &frames);
            let whole = String::from_utf8(bytes.to_vec()).unwrap();
            // Everything is said with the object of the end; `[DONE]` adds nothing.
            let marks = ["data: {\"type\":\"finish\"", "data: {\"type\":\"error\"", "data: {\"type\":\"RUN_"];
            let last = marks.iter().filter_map(|mark| whole.rfind(mark)).min().unwrap();
            let last = last.min(whole.rfind("data: {\"type\":\"error\"").unwrap_or(last));
            let cut = at.index(last + 1);
            let (decoded, finish) = decode(kind, [&bytes[..cut]]);
            prop_assert!(matches!(finish, Finish::Truncated { .. }), "{:?}", finish);
            prop_assert!(decoded.iter().all(|frame| !matches!(frame, Frame::End(_))));
        }
    }

    #[test]
    fn any_objects_are_read_the_same_however_they_are_cut(
        parts in vec((0..KNOWN.len(), vec((0..MEMBERS.len(), crate::generated::value()), 0..5)), 0..8),
        size in 1..60_usize,
    ) {
        let mut text = String::new();
        for (kind, members) in parts {
            let mut object: Map<String, Value> = [("type".to_owned(), KNOWN[kind].into())].into_iter().collect();
            for name in ["id", "toolCallId", "toolName", "toolCallName", "messageId", "delta", "name"] {
                object.insert(name.to_owned(), "x".into());
            }
            object.extend(members.into_iter().map(|(name, value)| (MEMBERS[name].to_owned(), value)));
            text.push_str(&format!("data: {}\n\n", Value::from(object)));
        }
        for kind in KINDS {
            let whole = decode(kind, [text.as_bytes()]);
            prop_assert_eq!(decode(kind, text.as_bytes().chunks(size)), whole);
        }
    }
}

const KNOWN: [&str; 30] = [
    "text-delta",
    "reasoning-start",
    "reasoning-delta",
    "tool-input-available",
    "tool-output-available",
    "tool-output-error",
    "tool-output-denied",
    "tool-approval-request",
    "source-url",
    "data-search",
    "data-retract",
    "reset-step",
    "finish",
    "abort",
    "error",
    "message-metadata",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "TOOL_CALL_CHUNK",
    "TOOL_CALL_RESULT",
    "REASONING_MESSAGE_CHUNK",
    "THINKING_TEXT_MESSAGE_CONTENT",
    "CUSTOM",
    "STATE_SNAPSHOT",
    "MESSAGES_SNAPSHOT",
    "RUN_FINISHED",
    "RUN_ERROR",
];
const MEMBERS: [&str; 12] = [
    "providerMetadata",
    "metadata",
    "input",
    "output",
    "errorText",
    "value",
    "data",
    "outcome",
    "result",
    "messages",
    "timestamp",
    "messageMetadata",
];

#[test]
fn every_vector_comes_back() {
    for kind in KINDS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/vectors")
            .join(kind.folder());
        let (mut run, mut parked) = (0, 0);
        for entry in std::fs::read_dir(folder).unwrap() {
            let vector: Value =
                serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
            let chunks: Vec<&str> = vector["chunks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|chunk| chunk.as_str().unwrap())
                .collect();
            let frames = vector["frames"].as_array().unwrap();
            if let Some(park) = frames.iter().position(|frame| frame.get("park").is_some()) {
                // The turn continues in another stream: the question is read, and no end.
                let (decoded, finish) = decode(kind, chunks[..=park].iter().map(|chunk| chunk.as_bytes()));
                let asked = crate::written::frame(&frames[park - 1]);
                assert_eq!(
                    values(&decoded).last(),
                    values(&[asked]).last(),
                    "{}",
                    vector["id"]
                );
                assert!(matches!(finish, Finish::Truncated { .. }), "{}", vector["id"]);
                parked += 1;
                continue;
            }
            if vector["wire"]["parks"] == true || vector["id"] == "open_calls_over_limit" {
                continue;
            }
            let frames: Vec<Frame> = frames.iter().map(crate::written::frame).collect();
            let bytes = chunks.concat();
            let (decoded, finish) = decode(kind, [bytes.as_bytes()]);
            assert_eq!(finish, Finish::Complete, "{}", vector["id"]);
            check(kind, &frames, &decoded);
            // The longest are cut less often: every byte would take minutes.
            let step = if bytes.len() > 4096 { 97 } else { 5 };
            for at in (0..=bytes.len()).step_by(step) {
                let (first, second) = bytes.as_bytes().split_at(at);
                assert_eq!(decode(kind, [first, second]).0, decoded);
            }
            run += 1;
        }
        assert!(run >= 20 && parked >= 2, "{run} {parked}");
    }
}

// ---- streams of other servers ----

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    why: String,
    bytes: String,
    frames: Vec<Value>,
    finish: String,
}

fn outcome((frames, finish): (Vec<Frame>, Finish)) -> (Vec<Frame>, String) {
    let finish = match finish {
        Finish::Complete => "complete".into(),
        Finish::Truncated { phase } => format!("truncated:{}", phase.as_str()),
        Finish::Invalid(error) => format!("error:{}", error.code()),
    };
    (frames, finish)
}

#[test]
fn streams_of_other_servers() {
    for (kind, folder) in [(Kind::AiSdk, "ai_sdk_streams"), (Kind::AgUi, "ag_ui_streams")] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/vectors")
            .join(folder);
        let mut run = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let vector: Vector = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(path.file_stem().and_then(|stem| stem.to_str()), Some(&*vector.id));
            let expected: (Vec<Frame>, String) = (
                vector.frames.iter().map(crate::written::frame).collect(),
                vector.finish.clone(),
            );
            let bytes = vector.bytes.as_bytes();
            assert_eq!(
                outcome(decode(kind, [bytes])),
                expected,
                "{}: {}",
                vector.id,
                vector.why
            );
            for at in 0..=bytes.len() {
                let (first, second) = bytes.split_at(at);
                let seen = outcome(decode(kind, [first, second]));
                assert_eq!(seen, expected, "{}, cut at {at}", vector.id);
                // A part of a stream has no frames that the whole has not, except for the end of a
                // stream that stops after `finish`.
                let (frames, _) = decode(kind, [first]);
                let sent = frames.iter().filter(|frame| !matches!(frame, Frame::End(_)));
                assert!(
                    sent.count() <= expected.0.len(),
                    "{}, first {at} bytes",
                    vector.id
                );
            }
            run += 1;
        }
        assert!(run >= 20, "only {run} vectors were found");
    }
}

#[test]
fn what_is_remembered_is_bounded() {
    let limits = Limits::default().max_line_bytes(200).max_trailer_bytes(200);
    let read = |kind: Kind, stream: &str| {
        let mut decoder = kind.decoder(limits);
        decoder.feed(stream.as_bytes());
        let error = decoder.find_map(Result::err);
        (error.map(ragwire::wire::DecodeError::code), decoder.finish())
    };
    // One object, and the arguments of a call, whose pieces each fit.
    let long = format!("data: {{\"type\":\"x\",\"y\":\"{}\"}}\n\n", "y".repeat(200));
    let piece = "data: {\"type\":\"TOOL_CALL_ARGS\",\"toolCallId\":\"c\",\"delta\":\"1234567890\"}\n\n";
    let call = "data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c\",\"toolCallName\":\"t\"}\n\n";
    for kind in KINDS {
        assert_eq!(read(kind, &long).0, Some("line_too_long"));
    }
    let calls = |pieces| read(Kind::AgUi, &(call.to_owned() + &piece.repeat(pieces))).0;
    assert_eq!((calls(20), calls(21)), (None, Some("line_too_long")));
    // Metadata that is replaced takes no more room; metadata that is added does.
    let metadata = |name: usize| {
        format!(
            "data: {{\"type\":\"message-metadata\",\"messageMetadata\":{{\"m{name}\":\"1234567890\"}}}}\n\n"
        )
    };
    let same: String = (0..100).map(|_| metadata(1)).collect();
    let others: String = (0..100).map(metadata).collect();
    assert_eq!(read(Kind::AiSdk, &same).0, None);
    assert_eq!(read(Kind::AiSdk, &others).0, Some("trailer_too_long"));
    // Calls that begin and thoughts that never end.
    for (kind, start) in [
        (
            Kind::AgUi,
            "TOOL_CALL_START\",\"toolCallName\":\"t\",\"toolCallId",
        ),
        (
            Kind::AiSdk,
            "tool-input-available\",\"toolName\":\"t\",\"toolCallId",
        ),
        (Kind::AiSdk, "reasoning-start\",\"id"),
    ] {
        let many: String = (0..1000)
            .map(|id| format!("data: {{\"type\":\"{start}\":\"{id}\"}}\n\n"))
            .collect();
        let (error, finish) = read(kind, &many);
        assert_eq!(error, None);
        assert!(matches!(finish, Finish::Truncated { .. }));
    }
}
