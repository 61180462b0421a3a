//! Runs `tests/vectors/<wire>` of the wires that this crate only writes: the frames of each vector give exactly its bytes.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod written;

use std::path::Path;

use bytes::BytesMut;
use ragwire::event::{RoundStart, ToolCall};
use ragwire::wire::{Encoder, Limits, Wire};
use ragwire::{AiSdk, End, Eve, Failure, Forge, SessionChat, Status, Timestamp};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    why: String,
    /// How the wire is set up, in words of its own.
    #[serde(default)]
    wire: Value,
    frames: Vec<Value>,
    /// One string for each frame: what it adds to the stream.
    chunks: Vec<String>,
}

/// Encodes each frame of each vector of a wire; every vector is used, and there is at least one.
fn check(wire: &str, encoder: impl Fn(&Value) -> Encoder) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(wire);
    let mut run = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let vector: Vector = serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let mut encoder = encoder(&vector.wire);
        let mut chunks = Vec::new();
        for frame in &vector.frames {
            let mut out = BytesMut::new();
            encoder.encode(&written::frame(frame), &mut out).unwrap();
            chunks.push(String::from_utf8(out.to_vec()).unwrap());
        }
        assert_eq!(chunks, vector.chunks, "{}: {}", vector.id, vector.why);
        run += 1;
    }
    assert!(run > 0, "{wire} has no vectors");
    println!("{wire} vectors: {run}");
}

fn limits(wire: &Value) -> Limits {
    let limits = Limits::default();
    match wire["max_trailer_bytes"].as_u64() {
        Some(bytes) => limits.max_trailer_bytes(usize::try_from(bytes).unwrap()),
        None => limits,
    }
}

#[test]
fn forge() {
    check("forge", |wire| Forge::default().limits(limits(wire)).encoder());
}

#[test]
fn session_chat() {
    check("session_chat", |wire| {
        let chat = SessionChat::default().limits(limits(wire));
        match wire["session"].as_object() {
            Some(session) => chat.session(session.clone()).encoder(),
            None => chat.encoder(),
        }
    });
}

#[test]
fn too_large_an_event_writes_nothing() {
    let limits = Limits::default().max_line_bytes(60);
    let wires: [&dyn Wire; 4] = [
        &Forge::default().limits(limits),
        &SessionChat::default().limits(limits),
        &Eve::new("s").limits(limits),
        &Eve::new("s").documented().limits(limits),
    ];
    for wire in wires {
        let (mut encoder, mut out) = (wire.encoder(), BytesMut::from("before"));
        let call = ToolCall::new("t", "x".repeat(60)).iteration(9).round(9);
        let error = encoder.event(&call.into(), None, &mut out).unwrap_err();
        assert_eq!(error.code(), "event_too_large", "{}", wire.name());
        assert_eq!(&out[..], b"before", "{}", wire.name());
        encoder.end(&End::default(), &mut out).unwrap();
        let out = String::from_utf8(out.to_vec()).unwrap();
        assert!(!out.contains('9'), "{out}");
    }
}

#[test]
fn a_collected_session_chat_is_the_last_object_of_the_stream() {
    let chat = SessionChat::default();
    let events = [
        (
            RoundStart::new(2u32, 3u32).into(),
            Timestamp::parse("2026-01-02T03:04:05.25Z"),
        ),
        (ToolCall::new("t", Value::Null).into(), None),
    ];
    let cut = "\u{20ac}".repeat(SessionChat::MAX_CONTENT_BYTES / 3 + 1);
    for (text, truncated) in [("Yes.", false), (&cut, true)] {
        for end in [End::default(), End::stopped(), End::failed(Failure::default())] {
            let (mut encoder, mut out) = (chat.encoder(), BytesMut::new());
            for (event, timestamp) in &events {
                encoder.event(event, *timestamp, &mut out).unwrap();
            }
            encoder.text(text, &mut out).unwrap();
            // Nothing follows what was cut off, not even what would fit.
            encoder.text(if truncated { "!" } else { "" }, &mut out).unwrap();
            out.clear();
            encoder.end(&end, &mut out).unwrap();
            let complete = chat.complete(&events, text, &end);
            assert_eq!(
                serde_json::from_slice::<Value>(&out["data: ".len()..]).unwrap(),
                complete
            );
            if end.status == Status::Completed {
                let content = complete["response"]["content"].as_str().unwrap();
                assert_eq!(
                    content.len(),
                    text.len().min(SessionChat::MAX_CONTENT_BYTES / 3 * 3)
                );
                assert_eq!(
                    complete["response"]["truncated"].as_bool(),
                    truncated.then_some(true)
                );
            }
        }
    }
}

#[test]
fn ai_sdk() {
    check("ai_sdk", |wire| {
        let message_id = wire.get("message_id").and_then(Value::as_str);
        message_id
            .map_or_else(AiSdk::default, |id| AiSdk::default().message_id(id))
            .encoder()
    });
}

#[test]
fn openai() {
    use ragwire::OpenAi;
    use ragwire::wire::Wire;
    use ragwire::wire::openai::{OnFailure, Progress};
    check("openai", |wire| {
        let mut openai = OpenAi::new(
            "chatcmpl-1",
            1_767_323_045,
            wire["model"].as_str().unwrap_or("rag"),
        );
        if wire["usage"] == true {
            openai = openai.with_usage();
        }
        openai = match wire["progress"].as_str() {
            Some("comment") => openai.progress(Progress::Comment),
            Some("none") => openai.progress(Progress::None),
            _ => openai,
        };
        if wire["on_failure"] == "text" {
            openai = openai.on_failure(OnFailure::Text);
        }
        openai.encoder()
    });
}

#[test]
fn ag_ui() {
    use ragwire::AgUi;
    use ragwire::wire::Wire;
    check("ag_ui", |_| AgUi::new("t", "r").encoder());
}

fn eve(wire: &Value) -> Eve {
    let mut eve = Eve::new("s")
        .turn(wire["turn"].as_u64().unwrap_or_default())
        .first_index(wire["first_index"].as_u64().unwrap_or_default())
        .limits(limits(wire));
    if wire["documented"] == true {
        eve = eve.documented();
    }
    if let Some(message) = wire["message"].as_str() {
        eve = eve.message(message);
    }
    match wire["max_message_bytes"].as_u64() {
        Some(bytes) => eve.max_message_bytes(usize::try_from(bytes).unwrap()),
        None => eve,
    }
}

#[test]
fn eve_in_both_vocabularies() {
    check("eve", |wire| eve(wire).encoder());
}
