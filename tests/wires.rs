//! Runs `tests/vectors/<wire>` of the wires that this crate only writes: the frames of each vector give exactly its bytes.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod written;

use std::path::Path;

use bytes::BytesMut;
use ragwire::wire::{Encoder, Limits, Wire};
use ragwire::{Forge, SessionChat};
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
