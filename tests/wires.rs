//! Runs `tests/vectors/<wire>` of the wires that this crate only writes: the frames of each vector give exactly its bytes.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod written;

use std::path::Path;

use bytes::BytesMut;
use ragwire::AiSdk;
use ragwire::wire::{Encoder, Wire};
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
