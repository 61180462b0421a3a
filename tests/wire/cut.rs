//! An answer that was cut at a limit of tokens says so on every wire.

use bytes::BytesMut;
use ragwire::wire::Wire;
use ragwire::{
    AgUi, AiSdk, End, Eve, Forge, Frame, Framed, LangGraph, Metadata, Ndjson, Ollama, OpenAi, Responses,
    SessionChat, Sse, Timestamp, TrustGraph,
};

/// What follows the text of an answer.
fn end(wire: &dyn Wire, metadata: Metadata) -> String {
    let mut encoder = wire.encoder();
    encoder
        .encode(&Frame::Text("Because".into()), &mut BytesMut::new())
        .unwrap();
    let mut out = BytesMut::new();
    encoder
        .encode(&Frame::End(End::completed(metadata)), &mut out)
        .unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn a_cut_answer_says_so_on_every_wire() {
    let member = r#""finish_reason":"length""#;
    let wires: [(&dyn Wire, &str); 17] = [
        (&Framed::default(), member),
        (&Ndjson::default(), member),
        (&Sse::default(), member),
        (&AiSdk::default(), r#""finishReason":"length""#),
        (&AgUi::new("t", "r"), member),
        (
            &OpenAi::new("c", 0, "rag"),
            r#""delta":{},"finish_reason":"length""#,
        ),
        (&Responses::new("r", 0, "rag"), "event: response.incomplete"),
        (
            &Responses::new("r", 0, "rag"),
            r#""incomplete_details":{"reason":"max_output_tokens"}"#,
        ),
        (
            &Ollama::new("rag", Timestamp::from_micros(0)),
            r#""done_reason":"length""#,
        ),
        (&Forge::default(), member),
        (&SessionChat::default(), member),
        (
            &LangGraph::new("r"),
            r#""response_metadata":{"finish_reason":"length""#,
        ),
        (&Eve::new("s"), r#""finishReason":"length""#),
        (&Eve::new("s").documented(), member),
        (&TrustGraph::graph_rag("1").streaming(true), member),
        (&TrustGraph::document_rag("1"), member),
        (&TrustGraph::graph_rag("1").specified().streaming(true), member),
    ];
    for (at, (wire, words)) in wires.into_iter().enumerate() {
        let cut = end(wire, Metadata::default().cut_short());
        assert!(cut.contains(words), "{at}: {words} in {cut}");
        let whole = end(wire, Metadata::default());
        assert!(!whole.contains(words), "{at}: {words} in {whole}");
    }
}
