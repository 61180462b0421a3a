//! Runs the folders of `tests/vectors` whose streams other servers wrote: `openai_streams`,
//! `responses_streams` and `ollama_streams`, cut at every byte.

use std::path::Path;

use ragwire::wire::{Decode, Finish, ollama, openai, responses};
use ragwire::{Failure, Frame, Status};
use serde::Deserialize;
use serde_json::Value;

use crate::written::frame;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    why: String,
    bytes: String,
    frames: Vec<Value>,
    finish: String,
}

type NewDecoder = fn() -> Box<dyn Decode>;

fn decode<'a>(new: NewDecoder, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, String) {
    let (mut decoder, mut frames) = (new(), Vec::new());
    for chunk in chunks {
        decoder.feed(chunk);
        frames.extend(decoder.by_ref().flatten());
    }
    let finish = match decoder.finish() {
        Finish::Complete => "complete".into(),
        Finish::Truncated { phase } => format!("truncated:{}", phase.as_str()),
        Finish::Invalid(error) => format!("error:{}", error.code()),
    };
    frames.extend(decoder.flatten());
    (frames, finish)
}

/// Runs all vectors of a folder. A stream that is cut before `is_ended` sees its end is truncated.
fn check(folder: &str, at_least: usize, new: NewDecoder, is_ended: fn(&str) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(folder);
    let mut run = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let vector: Vector = serde_json::from_slice(&std::fs::read(&file).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(Some(&*vector.id), file.file_stem().and_then(|stem| stem.to_str()));
        assert_ne!(vector.why, "");
        let expected = (
            vector.frames.iter().map(frame).collect::<Vec<_>>(),
            vector.finish.clone(),
        );
        let bytes = vector.bytes.as_bytes();
        assert_eq!(decode(new, [bytes]), expected, "{}", vector.id);
        assert_eq!(
            decode(new, bytes.chunks(1)),
            expected,
            "{}, byte by byte",
            vector.id
        );
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(
                decode(new, [first, second]),
                expected,
                "{}, cut at {at}",
                vector.id
            );
            let (frames, finish) = decode(new, [first]);
            let ended = std::str::from_utf8(first).is_ok_and(is_ended);
            if !ended && vector.finish == "complete" {
                assert!(
                    finish.starts_with("truncated"),
                    "{}, the first {at} bytes",
                    vector.id
                );
                assert!(!frames.iter().any(|frame| matches!(frame, Frame::End(_))));
            }
        }
        run += 1;
    }
    assert!(run >= at_least, "{run} vectors");
}

#[test]
fn chat_completions_of_other_servers() {
    check(
        "openai_streams",
        12,
        || Box::new(openai::Decoder::default()),
        |read| {
            ["\"finish_reason\":\"", "\"error\":", "event: error", "[DONE]"]
                .iter()
                .any(|end| read.contains(end))
        },
    );
}

#[test]
fn responses_of_other_servers() {
    check(
        "responses_streams",
        5,
        || Box::new(responses::Decoder::default()),
        |read| {
            ["completed", "incomplete", "failed"]
                .iter()
                .any(|end| read.contains(&format!("\"type\":\"response.{end}\"")))
                || read.contains("\"type\":\"error\"")
        },
    );
}

#[test]
fn chats_of_ollama() {
    check(
        "ollama_streams",
        4,
        || Box::new(ollama::Decoder::default()),
        |read| read.contains("\"done\":true") || read.contains("\"error\":"),
    );
}

/// The codes that a relay reports do not depend on what a server calls its errors.
#[test]
fn the_words_of_a_server_are_the_message_of_the_failure() {
    let mut decoder = openai::Decoder::default();
    decoder.feed(b"data: {\"error\":{\"message\":\"No.\",\"code\":\"quota\"}}\n\n");
    assert_eq!(decoder.finish(), Finish::Complete);
    let Some(Ok(Frame::End(end))) = decoder.next() else {
        panic!("no end")
    };
    assert_eq!(end.status, Status::Failed(Failure::new("quota", "No.")));
}
