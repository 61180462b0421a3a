//! Runs `tests/vectors/langgraph` through the encoder and `tests/vectors/langgraph_streams`, which
//! are streams of LangGraph services, through the decoder, cut at every byte.

use std::path::Path;

use ragwire::wire::langgraph::Modes;
use ragwire::wire::{Decode, Finish};
use ragwire::{Frame, LangGraph};
use serde::Deserialize;
use serde_json::Value;

use crate::written::frame;

/// The wire of a vector; its IDs are `t` and `r`.
pub(crate) fn wire(settings: &Value) -> LangGraph {
    let mut wire = LangGraph::new("r").thread("t").after(settings["after"].as_u64());
    if let Some(modes) = settings["modes"].as_array() {
        wire = wire.modes(Modes::of(modes.iter().filter_map(Value::as_str)));
    }
    if let Some(messages) = settings["messages"].as_array() {
        wire = wire.messages(messages.clone());
    }
    if settings["parks"] == true {
        wire.parks()
    } else {
        wire
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    why: String,
    #[serde(default)]
    answer_nodes: Vec<String>,
    bytes: String,
    frames: Vec<Value>,
    finish: String,
}

fn decode<'a>(vector: &Vector, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, String) {
    let wire = LangGraph::new("").answer_nodes(vector.answer_nodes.clone());
    let (mut decoder, mut frames) = (wire.decoder(), Vec::new());
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

#[test]
fn streams_of_services() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/langgraph_streams");
    let mut run = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let vector: Vector = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(
            Some(vector.id.as_str()),
            path.file_stem().and_then(|stem| stem.to_str())
        );
        assert_ne!(vector.why, "");
        let expected: (Vec<Frame>, String) =
            (vector.frames.iter().map(frame).collect(), vector.finish.clone());
        let bytes = vector.bytes.as_bytes();
        assert_eq!(
            decode(&vector, [bytes]),
            expected,
            "{}: {}",
            vector.id,
            vector.why
        );
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(
                decode(&vector, [first, second]),
                expected,
                "{}, cut at {at}",
                vector.id
            );
            // A part of a stream gives a part of its frames, and no answer that is not there.
            let (frames, _) = decode(&vector, [first]);
            let is_end = |frame: &&Frame| matches!(frame, Frame::End(_));
            let sent = frames.iter().filter(|frame| !is_end(frame)).count();
            assert!(
                frames.len() - sent <= 1 && sent <= expected.0.len(),
                "{}, first {at}",
                vector.id
            );
        }
        run += 1;
    }
    assert!(run >= 20, "only {run} vectors were found");
}

#[test]
fn an_event_over_the_limit_changes_nothing() {
    use bytes::BytesMut;
    use ragwire::event::ToolCall;
    use ragwire::wire::{Limits, Wire};
    let wire = LangGraph::new("r").limits(Limits::default().max_line_bytes(60));
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::from("before"));
    let call = ToolCall::new("t", "x".repeat(60));
    let error = encoder.event(&call.into(), None, &mut out).unwrap_err();
    assert_eq!((error.code(), &out[..]), ("event_too_large", &b"before"[..]));
    encoder.text("a", &mut out).unwrap();
    // The first message: the call that was refused got no number.
    assert!(
        String::from_utf8(out.to_vec())
            .unwrap()
            .contains("\"r-message-1\"")
    );
}

#[test]
fn a_stream_that_resumes_cannot_begin_with_a_snapshot() {
    use bytes::BytesMut;
    use ragwire::Snapshot;
    use ragwire::wire::Wire;
    let snapshot = Snapshot::new(3).text("Yes");
    for (after, code) in [(None, None), (Some(0), Some("snapshot"))] {
        let (mut encoder, mut out) = (LangGraph::new("r").after(after).encoder(), BytesMut::new());
        let error = encoder.snapshot(&snapshot, &mut out).err();
        assert_eq!(error.map(|error| error.code()), code);
    }
}

#[test]
fn partial_messages_grow_in_proportion() {
    use bytes::BytesMut;
    use ragwire::wire::Wire;
    let wire = LangGraph::new("r").modes(Modes::of(["messages"]));
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    for _ in 0..10_000 {
        encoder.text("word ", &mut out).unwrap();
    }
    assert!(
        out.len() < 50_000 * 40,
        "{} bytes for an answer of 50,000",
        out.len()
    );
    let shown = String::from_utf8(out.to_vec()).unwrap();
    assert!(
        shown.matches("messages/partial").count() > 150,
        "it still streams"
    );
}
