//! TrustGraph's decoder: turns of ours come back up to what `PROTOCOL.md` says is lost, and messages
//! of TrustGraph's own services, of every version, become the frames that they mean.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::{GraphExplanation, Retract, RetrievalResult, RetrievalStart, Thinking, Triple};
use ragwire::wire::trustgraph::TrustGraphDecoder;
use ragwire::wire::{Decode, DecodeError, Finish, Wire};
use ragwire::{End, Event, Failure, Frame, Phase, Status, TrustGraph, Usage};

use crate::frames::text;
use crate::generated::{end, event, string, timestamp};

/// Joins adjacent texts, and applies retractions as a reader does.
fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, Finish) {
    let (mut decoder, mut frames) = (TrustGraphDecoder::default(), Vec::<Frame>::new());
    for chunk in chunks {
        decoder.feed(chunk);
        for frame in decoder.by_ref().flatten() {
            match (frames.last_mut(), frame) {
                (Some(Frame::Text(last)), Frame::Text(text)) => last.push_str(&text),
                (_, frame) => frames.push(frame),
            }
        }
    }
    let finish = decoder.finish();
    assert!(decoder.next().is_none_or(|frame| frame.is_err()));
    (frames, finish)
}

fn encode(wire: &TrustGraph, frames: &[Frame]) -> BytesMut {
    let (mut encoder, mut bytes) = (wire.encoder(), BytesMut::new());
    for frame in frames {
        encoder.encode(frame, &mut bytes).unwrap();
    }
    bytes
}

fn own_event() -> impl Strategy<Value = Event> {
    let word = || prop::sample::select(&["urn:a", "b", "\"c\"", "urn:ragwire:entity:d_e"][..]);
    prop_oneof![
        4 => event(),
        1 => (string(), word()).prop_map(|(piece, id)| Thinking::new(piece).id(id).into()),
        1 => string().prop_map(|query| RetrievalStart::new("bm25", query, 1_u32).into()),
        1 => (0..9_u32).prop_map(|chunks| RetrievalResult::new("bm25", chunks, 1_u64).into()),
        1 => (word(), vec((word(), word(), word()), 0..4)).prop_map(|(id, triples)| {
            let triples = triples.into_iter().map(|(s, p, o)| Triple::new(s, p, o));
            GraphExplanation::new(id, "urn:graph:retrieval", triples.collect()).into()
        }),
        1 => (0..9_u64).prop_map(|kept| Retract::new(kept).into()),
    ]
}

fn own_turn() -> impl Strategy<Value = Vec<Frame>> {
    let frame = prop_oneof![
        (own_event(), timestamp()).prop_map(|(event, timestamp)| Frame::Event { event, timestamp }),
        string().prop_map(Frame::Text),
    ];
    (vec(frame, 0..9), end()).prop_map(|(mut frames, end)| {
        frames.push(Frame::End(end));
        frames
    })
}

/// The events of a turn in their JSON form, where numbers that JSON does not have are absent.
fn events(frames: &[Frame], is_timed: bool) -> Vec<serde_json::Value> {
    let events = frames.iter().filter_map(|frame| match frame {
        Frame::Event { event, timestamp } => Some((event, timestamp)),
        Frame::Text(_) | Frame::End(_) | Frame::Snapshot(_) => None,
    });
    events
        .map(|(event, timestamp)| {
            // An explanation has no time.
            let is_timed = is_timed && !matches!(event, Event::GraphExplanation(_));
            let mut value = serde_json::to_value(event).unwrap();
            without_nulls(&mut value);
            serde_json::json!([value, timestamp.filter(|_| is_timed)])
        })
        .collect()
}

/// Absent members and `null` are the same at the top level of an event.
fn without_nulls(value: &mut serde_json::Value) {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, value| !value.is_null());
        // An application event without data has an empty object as its data (F-12).
        if members
            .get("data")
            .is_some_and(|data| *data == serde_json::json!({}))
        {
            members.remove("data");
        }
    }
}

/// The answer with its retractions applied.
fn answer(frames: &[Frame]) -> String {
    let mut answer = String::new();
    for frame in frames {
        match frame {
            Frame::Text(text) => answer.push_str(text),
            Frame::Event {
                event: Event::Retract(retract),
                ..
            } => {
                answer = answer
                    .chars()
                    .take(usize::try_from(retract.kept).unwrap())
                    .collect()
            }
            Frame::Event { .. } | Frame::End(_) | Frame::Snapshot(_) => {}
        }
    }
    answer
}

fn status(frames: &[Frame]) -> Status {
    match frames.last() {
        Some(Frame::End(end)) => end.status.clone(),
        last => panic!("{last:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What a stream in either envelope decodes to: every event but its time in an explanation, the
    /// answer, and how it ended.
    #[test]
    fn a_streamed_turn_comes_back(frames in own_turn(), at in vec(any::<prop::sample::Index>(), 0..4)) {
        for wire in [TrustGraph::graph_rag("r"), TrustGraph::document_rag("r"), TrustGraph::graph_rag("r").specified()] {
            let bytes = encode(&wire.streaming(true), &frames);
            let (decoded, finish) = decode([&bytes[..]]);
            prop_assert_eq!(finish, Finish::Complete);
            prop_assert_eq!(events(&decoded, true), events(&frames, true));
            prop_assert_eq!(answer(&decoded), answer(&frames));
            prop_assert_eq!(status(&decoded), status(&frames));
            let mut at: Vec<_> = at.iter().map(|at| at.index(bytes.len())).collect();
            at.sort_unstable();
            let (mut cut, mut from) = (Vec::new(), 0);
            for to in at.into_iter().chain([bytes.len()]) {
                cut.push(&bytes[from..to]);
                from = to;
            }
            prop_assert_eq!(decode(cut), (decoded, finish));
            let (_, finish) = decode([&bytes[..bytes.len() - 1]]);
            let is_truncated = matches!(finish, Finish::Truncated { .. });
            prop_assert!(is_truncated, "{:?}", finish);
        }
    }

    /// A turn in one message has its answer and its end, and its events in the metadata.
    #[test]
    fn a_turn_in_one_message_comes_back(frames in own_turn()) {
        for wire in [TrustGraph::graph_rag("r"), TrustGraph::document_rag("r"), TrustGraph::document_rag("r").specified()] {
            let (decoded, finish) = decode([&encode(&wire, &frames)[..]]);
            prop_assert_eq!(finish, Finish::Complete);
            let kept: Vec<Frame> = frames.iter().filter(|frame| !matches!(frame, Frame::Event { event: Event::Retract(_), .. })).cloned().collect();
            prop_assert_eq!(events(&decoded, false), events(&kept, false));
            prop_assert_eq!(status(&decoded), status(&frames));
            if !matches!(status(&frames), Status::Failed(_)) {
                prop_assert_eq!(answer(&decoded), answer(&frames));
            }
        }
    }

    #[test]
    fn any_bytes_any_split(bytes in vec(prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        prop::sample::select(&["{\"response\":", "{\"chunk\":\"a\"}", "\"complete\":true}\n", ",", "{", "}\n", "\n", "{\"response\":{\"response\":\"b\"},\"complete\":false}\n"][..]).prop_map(|part| part.as_bytes().to_vec()),
    ], 0..12).prop_map(|parts| parts.concat())) {
        prop_assert_eq!(decode(bytes.chunks(1)), decode([&bytes[..]]));
    }
}

#[test]
fn services_of_every_version_are_read() {
    let failed =
        |kind: &'static str, message: &'static str| Frame::End(End::failed(Failure::new(kind, message)));
    for (bytes, expected) in [
        // 1.6: pieces in `chunk`, and the whole answer once more at the end.
        (
            r#"{"id":"1","response":{"chunk":"For","end_of_stream":false},"complete":false}
{"id":"1","response":{"chunk":"ty.","end_of_stream":false},"complete":false}
{"id":"1","response":{"chunk":null,"end_of_stream":true,"response":"Forty."},"complete":true}
"#,
            vec![text("Forty."), Frame::End(End::default())],
        ),
        // 2.x: the last piece may have text.
        (
            r#"{"id":"1","response":{"message_type":"chunk","response":"For","end_of_stream":false},"complete":false}
{"id":"1","response":{"message_type":"chunk","response":"ty.","end_of_stream":true},"complete":false}
{"id":"1","response":{"message_type":"end","end_of_session":true,"in_token":3,"out_token":4,"model":"m"},"complete":true}
"#,
            vec![
                text("Forty."),
                Frame::End(End {
                    metadata: ragwire::Metadata::default()
                        .usage(Usage::new().input_tokens(3_u64).output_tokens(4_u64).model("m")),
                    ..End::default()
                }),
            ],
        ),
        // Not streamed.
        (
            "{\"id\":\"1\",\"response\":{\"response\":\"Forty.\"},\"complete\":true}\n",
            vec![text("Forty."), Frame::End(End::default())],
        ),
        (
            "{\"id\":\"1\",\"error\":{\"type\":\"llm-error\",\"message\":\"no model\"},\"complete\":true}\n",
            vec![failed("llm-error", "no model")],
        ),
        (
            "{\"id\":\"1\",\"error\":\"no flow\",\"complete\":true}\n",
            vec![failed("chat_failed", "no flow")],
        ),
        // The error of a service, without `complete`.
        (
            "{\"id\":\"1\",\"response\":{\"error\":{\"type\":\"graph-rag-error\",\"message\":\"x\"}}}\n",
            vec![failed("chat_failed", "x")],
        ),
    ] {
        assert_eq!(
            decode([bytes.as_bytes()]),
            (expected, Finish::Complete),
            "{bytes}"
        );
    }
}

#[test]
fn documents_and_triples_of_a_service_become_events() {
    let bytes = r#"{"id":"1","response":{"message_type":"explain","explain_id":"urn:trustgraph:q","explain_graph":"g","explain_triples":[{"s":{"t":"i","i":"urn:trustgraph:q"},"p":{"t":"i","i":"p"},"o":{"t":"l","v":"x"}},{"s":{"v":"s","e":true},"p":{"v":"p","e":true},"o":{"v":"o","e":true}}]},"complete":false}
{"id":"1","response":{"message_type":"chunk","response":"","sources":[{"uri":"urn:doc","title":"T"}],"end_of_session":true},"complete":true}
"#;
    let (frames, finish) = decode([bytes.as_bytes()]);
    assert_eq!(finish, Finish::Complete);
    let [
        Frame::Event {
            event: explanation, ..
        },
        Frame::Event {
            event: Event::Sources(sources),
            ..
        },
        Frame::End(_),
    ] = &frames[..]
    else {
        panic!("{frames:?}");
    };
    let triples = vec![
        Triple::new("urn:trustgraph:q", "p", "x"),
        Triple::new("s", "p", "<o>"),
    ];
    assert_eq!(
        *explanation,
        GraphExplanation::new("urn:trustgraph:q", "g", triples).into()
    );
    assert_eq!(
        (
            &*sources.sources[0].document_id,
            sources.sources[0].title.as_deref()
        ),
        ("urn:doc", Some("T"))
    );
}

#[test]
fn a_stream_that_breaks_off_or_breaks_the_rules_is_not_complete() {
    for (bytes, finish) in [
        ("", Finish::Truncated { phase: Phase::Events }),
        (
            "{\"response\":{\"chunk\":\"a\"},\"complete\":false}\n",
            Finish::Truncated { phase: Phase::Text },
        ),
        // `end_of_stream` is not the end.
        (
            "{\"response\":{\"chunk\":\"a\",\"end_of_stream\":true}}\n",
            Finish::Truncated { phase: Phase::Text },
        ),
        ("<html>\n", Finish::Invalid(DecodeError::BadEvent)),
        ("{\"response\":[]}\n", Finish::Invalid(DecodeError::BadEvent)),
        (
            "{\"response\":{\"metadata\":{\"status\":\"?\"}},\"complete\":true}\n",
            Finish::Invalid(DecodeError::BadTrailer),
        ),
        (
            "{\"complete\":true}\n\n{\"complete\":true}\n",
            Finish::Invalid(DecodeError::TrailingBytes),
        ),
    ] {
        assert_eq!(decode([bytes.as_bytes()]).1, finish, "{bytes}");
    }
}
