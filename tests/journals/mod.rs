//! Shared by the tests of the journal in memory and on a server: turns that exercise all state of a
//! wire, and the comparison of a journal with a plain vector.
#![allow(dead_code, reason = "not every test needs all of it")]

mod model;

use bytes::BytesMut;
use futures_util::StreamExt;
use ragwire::event::{Custom, Search, Source, Sources, Thinking, ToolCall, ToolResult};
use ragwire::wire::openai::{OnFailure, Progress};
use ragwire::wire::{Decode, Wire};
use ragwire::{
    AgUi, AiSdk, Eve, Event, Failure, Forge, Frame, Framed, Item, Metadata, Ndjson, OpenAi, SessionChat,
    Sink, Sse, TrustGraph, Turn,
};
use serde_json::json;

pub(crate) use model::{acts, check};

/// Returns every wire.
pub(crate) fn wires() -> Vec<Box<dyn Wire>> {
    let openai = || OpenAi::new("chatcmpl-1", 0, "rag");
    vec![
        Box::new(Framed::default()),
        Box::new(Sse::default()),
        Box::new(Sse::default().retry(None)),
        Box::new(Ndjson::default()),
        Box::new(Forge::default()),
        Box::new(SessionChat::default()),
        Box::new(AiSdk::default()),
        Box::new(AgUi::new("t", "r")),
        Box::new(openai().with_usage()),
        Box::new(openai().progress(Progress::Comment)),
        Box::new(openai().progress(Progress::None).on_failure(OnFailure::Text)),
        Box::new(Eve::new("s")),
        Box::new(Eve::new("s").documented().turn(3).message("why?")),
        Box::new(TrustGraph::graph_rag("1").streaming(true)),
        Box::new(TrustGraph::document_rag("1")),
        Box::new(TrustGraph::graph_rag("1").specified().streaming(true)),
    ]
}

pub(crate) async fn bytes(turn: Turn, wire: &impl Wire) -> Vec<u8> {
    turn.stream(wire).collect::<Vec<_>>().await.concat()
}

/// Reads all frames of a turn through the lossless wire.
pub(crate) async fn frames(turn: Turn) -> Vec<Frame> {
    let mut decoder = Ndjson::default().decoder();
    decoder.feed(&bytes(turn, &Ndjson::default()).await);
    let frames = decoder.by_ref().map(Result::unwrap).collect();
    assert_eq!(decoder.finish(), ragwire::wire::Finish::Complete);
    frames
}

/// Encodes `frames` with one encoder. Also returns the offset at which each of them begins.
pub(crate) fn encoded(wire: &impl Wire, frames: &[Frame]) -> (Vec<u8>, Vec<usize>) {
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    let mut offsets = vec![0];
    for frame in frames {
        encoder.encode(frame, &mut out).unwrap();
        offsets.push(out.len());
    }
    (out.to_vec(), offsets)
}

pub(crate) fn show(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The end of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ends {
    Completed,
    Failed,
    Stopped,
}

/// Returns turns that exercise all state of a wire: open parts, and events that wait for the end.
pub(crate) fn turns() -> Vec<(Vec<Item<'static>>, Ends)> {
    let search = || Item::from(Event::from(Search::new("bm25").query("why?")));
    let own = || {
        Item::from(Event::from(
            Custom::new("own", &json!({"a\u{2028}": "\u{1e}\n"})).unwrap(),
        ))
    };
    let thought = |text: &str| Item::from(Event::from(Thinking::new(text)));
    let call = || Item::from(Event::from(ToolCall::new("t", json!({"q": 1})).call_id("1")));
    let result = || Item::from(Event::from(ToolResult::new("t", json!([1])).call_id("1")));
    let sources = || {
        Item::from(Event::from(Sources::new(vec![Source::new(
            "c",
            "d",
            "quote",
            vec![1],
        )])))
    };
    vec![
        (vec![], Ends::Completed),
        (vec![search()], Ends::Failed),
        (
            vec!["a".into(), "b\n\n".into(), "\u{1d}data: \u{1e}".into()],
            Ends::Completed,
        ),
        (
            vec![
                search(),
                thought("x"),
                thought("y"),
                call(),
                result(),
                sources(),
                "a".into(),
                " b".into(),
            ],
            Ends::Completed,
        ),
        (
            vec![
                "a".into(),
                call(),
                "b".into(),
                result(),
                own(),
                thought("z"),
                "c".into(),
                sources(),
            ],
            Ends::Failed,
        ),
        (
            vec![
                own(),
                Item::from(&b"\xf0\x9f"[..]),
                Item::from(&b"\x98\x80!"[..]),
                call(),
                "x".into(),
            ],
            Ends::Stopped,
        ),
    ]
}

pub(crate) fn end(sink: &Sink, ends: Ends) {
    match ends {
        Ends::Completed => sink
            .finish(Metadata::default().tools_used(["bm25"]).mode("m"))
            .unwrap(),
        Ends::Failed => sink.fail(Failure::new("cut", "It broke.")).unwrap(),
        Ends::Stopped => sink.stop().unwrap(),
    }
}

/// Runs a reader in its own task.
pub(crate) fn spawn<T: Send + 'static>(
    reader: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    #[expect(clippy::disallowed_methods, reason = "the test joins it")]
    tokio::spawn(reader)
}
