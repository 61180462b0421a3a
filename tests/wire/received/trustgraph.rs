//! Messages of TrustGraph's own services, and explanations of graphs.

use bytes::BytesMut;
use ragwire::event::{GraphExplanation, RetrievalResult, Triple};
use ragwire::wire::{Decode, Finish, Limits, Wire};
use ragwire::{Event, TrustGraph};
use serde_json::{Value, json};

use super::{end, event, lines, read, text};

const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

fn decode(responses: &[Value]) -> (Vec<Value>, String) {
    let messages = responses
        .iter()
        .map(|response| json!({"id": "r", "response": response, "complete": false}));
    let decoder = &mut TrustGraph::graph_rag("r").decoder();
    read(decoder, &lines(&messages.collect::<Vec<_>>()))
}

fn encode(wire: TrustGraph, event: impl Into<Event>) -> String {
    let (mut encoder, mut out) = (wire.streaming(true).encoder(), BytesMut::new());
    encoder.event(&event.into(), None, &mut out).unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn the_tokens_of_an_answer_may_be_counted_in_part() {
    for (counts, usage) in [
        (
            json!({"in_token": 3, "out_token": 2}),
            json!({"input_tokens": 3, "output_tokens": 2}),
        ),
        (json!({"in_token": 3}), json!({"input_tokens": 3})),
        (json!({"out_token": 2}), json!({"output_tokens": 2})),
        (json!({"model": "m"}), Value::Null),
    ] {
        let mut last = json!({"end_of_session": true});
        last.as_object_mut()
            .unwrap()
            .extend(counts.as_object().cloned().unwrap());
        let mut expected = end("completed");
        if !usage.is_null() {
            expected["end"]["metadata"]["usage"] = usage;
        }
        let mut decoder = TrustGraph::graph_rag("r").decoder();
        let stream = lines(&[json!({"id": "r", "response": last, "complete": true})]);
        assert_eq!(read(&mut decoder, &stream).0, [expected], "{counts}");
    }
}

#[test]
fn an_explanation_comes_back_as_it_was() {
    let edge = |s: &str, p: &str| Triple::new(s, p, "urn:o");
    for (why, id, triples) in [
        (
            "edges",
            "urn:x",
            vec![edge("urn:a", "urn:p"), edge("urn:b", "urn:p")],
        ),
        ("none", "urn:x", vec![]),
        ("a type of another subject", "urn:x", vec![edge("urn:a", TYPE)]),
        (
            "another member of the explanation",
            "urn:x",
            vec![edge("urn:x", "urn:p")],
        ),
        (
            "its own type",
            "urn:x",
            vec![edge("urn:x", TYPE), edge("urn:a", "urn:p")],
        ),
        (
            "an edge with a name of the description",
            "urn:x",
            vec![edge("urn:a", "https://trustgraph.ai/ns/entity")],
        ),
        (
            "the edges that an answer is written from",
            "urn:ragwire:focus:1",
            vec![edge("urn:a", "urn:p")],
        ),
    ] {
        let explanation = GraphExplanation::new(id, "urn:g", triples);
        let expected = json!({"event": serde_json::to_value(Event::from(explanation.clone())).unwrap()});
        let mut decoder = TrustGraph::graph_rag("r").decoder();
        assert_eq!(
            read(&mut decoder, &encode(TrustGraph::graph_rag("r"), explanation)).0,
            [expected],
            "{why}"
        );
    }
}

#[test]
fn only_an_explanation_that_does_not_name_its_type_is_described() {
    let edge = |s: &str, p: &str| Triple::new(s, p, "urn:o");
    for (triples, is_described) in [
        (vec![edge("urn:a", "urn:p")], true),
        (vec![edge("urn:x", "urn:p")], true),
        (vec![edge("urn:a", TYPE)], true),
        (vec![edge("urn:x", TYPE)], false),
    ] {
        let stream = encode(
            TrustGraph::graph_rag("r"),
            GraphExplanation::new("urn:x", "urn:g", triples.clone()),
        );
        assert_eq!(
            stream.contains("https://trustgraph.ai/ns/edgeCount"),
            is_described,
            "{triples:?}"
        );
    }
}

#[test]
fn the_description_of_a_focus_is_not_a_part_of_its_edges() {
    let triple = |s: &str, p: &str, o: &str| json!({"s": {"t": "i", "i": s}, "p": {"t": "i", "i": p}, "o": {"t": "i", "i": o}});
    let id = "urn:ragwire:focus:1";
    let triples = json!([
        triple(id, TYPE, "https://trustgraph.ai/ns/Focus"),
        triple(
            id,
            "https://trustgraph.ai/ns/selectedEdge",
            "urn:ragwire:focus:1#0"
        ),
        triple("urn:a", "urn:p", "urn:b"),
    ]);
    let (frames, _) = decode(&[
        json!({"message_type": "explain", "explain_id": id, "explain_graph": "urn:g", "explain_triples": triples}),
    ]);
    let edges = json!([{"s": "urn:a", "p": "urn:p", "o": "urn:b"}]);
    let expected = json!({"explain_id": id, "graph": "urn:g", "triples": edges});
    assert_eq!(frames, [event("graph_explanation", expected)]);
}

/// A graph's own explanations have more detail.
#[test]
fn a_retrieval_of_documents_is_explained_and_one_of_a_graph_is_not() {
    let result = || Event::from(RetrievalResult::new("bm25", 2_u32, 7_u64));
    assert_eq!(encode(TrustGraph::graph_rag("r"), result()).lines().count(), 1);
    assert_eq!(encode(TrustGraph::document_rag("r"), result()).lines().count(), 2);
}

#[test]
fn a_message_has_8_mib_or_the_larger_limit() {
    const MAX: usize = 8 * 1024 * 1024;
    let message = |bytes: usize| {
        let around = lines(&[json!({"id": "r", "response": {"chunk": ""}, "complete": false})]);
        let answer = "x".repeat(bytes + 1 - around.len());
        let message = json!({"id": "r", "response": {"chunk": answer}, "complete": false});
        (answer, lines(&[message]))
    };
    for (limits, bytes) in [
        (Limits::default(), MAX),
        (Limits::default().max_line_bytes(MAX + 5), MAX + 5),
    ] {
        let mut decoder = TrustGraph::graph_rag("r").limits(limits).decoder();
        let (answer, line) = message(bytes);
        assert!(read(&mut decoder, &line).0 == [text(&answer)], "{bytes}");
        let mut decoder = TrustGraph::graph_rag("r").limits(limits).decoder();
        decoder.feed(message(bytes + 1).1.as_bytes());
        assert_eq!(
            decoder.finish(),
            Finish::Invalid(ragwire::wire::DecodeError::LineTooLong)
        );
    }
}
