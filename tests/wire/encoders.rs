//! Runs `tests/vectors/<wire>` for the wires that this crate only writes: the frames of each vector
//! encode to exactly its bytes.

use std::path::Path;

use bytes::BytesMut;
use ragwire::event::{GenerationStart, GraphExplanation, RoundStart, ToolCall, Triple};
use ragwire::wire::openai::{OnFailure, Progress};
use ragwire::wire::{Encoder, Limits, Wire};
use ragwire::{
    AiSdk, End, Eve, Event, Failure, Forge, Frame, Metadata, OpenAi, SessionChat, Status, Timestamp,
    TrustGraph,
};
use serde::Deserialize;
use serde_json::Value;

/// The longest answer that `SessionChat` and `TrustGraph` repeat as a whole.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    why: String,
    /// The settings of the wire; each wire has its own members.
    #[serde(default)]
    wire: Value,
    frames: Vec<Value>,
    /// One string for each frame: the bytes that the frame adds to the stream.
    chunks: Vec<String>,
}

fn vectors(wire: &str) -> impl Iterator<Item = Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(wire);
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap())
}

/// Encodes each frame of each vector of `wire`; fails if there is no vector.
fn check(wire: &str, encoder: impl Fn(&Value) -> Encoder) {
    let mut run = 0;
    for vector in vectors(wire) {
        let mut encoder = encoder(&vector.wire);
        let mut chunks = Vec::new();
        let mut question = None;
        for frame in &vector.frames {
            let mut out = BytesMut::new();
            if frame.get("go_on").is_some() {
                encoder.unpark(&mut out);
            } else if frame.get("park").is_some() {
                let (question, timestamp) = question.take().unwrap();
                encoder.park(&question, timestamp, &mut out);
            } else {
                let frame = crate::written::frame(frame);
                encoder.encode(&frame, &mut out).unwrap();
                question = match frame {
                    Frame::Event {
                        event: Event::InputRequested(question),
                        timestamp,
                    } => Some((question, timestamp)),
                    _ => None,
                };
            }
            chunks.push(String::from_utf8(out.to_vec()).unwrap());
        }
        assert_eq!(chunks, vector.chunks, "{}: {}", vector.id, vector.why);
        run += 1;
    }
    assert!(run > 0, "{wire} has no vectors");
    println!("{wire} vectors: {run}");
}

/// The encoder of a journaled turn.
fn encoder(wire: &impl Wire) -> Encoder {
    let mut encoder = wire.encoder();
    encoder.allow_parking();
    encoder
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
fn a_snapshot_over_the_limit_writes_nothing() {
    let limits = Limits::default().max_trailer_bytes(1000);
    let wires: [&dyn Wire; 2] = [
        &ragwire::Ndjson::default().limits(limits),
        &ragwire::Sse::default().limits(limits),
    ];
    let snapshot = |text: &str| Frame::Snapshot(Box::new(ragwire::Snapshot::new(1).text(text)));
    for wire in wires {
        // What is in the buffer already does not count.
        let before = "b".repeat(900);
        let (mut encoder, mut out) = (wire.encoder(), BytesMut::from(before.as_str()));
        let error = encoder
            .encode(&snapshot(&"x".repeat(1000)), &mut out)
            .unwrap_err();
        assert_eq!(error.code(), "event_too_large", "{}", wire.name());
        assert_eq!(out, before, "{}", wire.name());
        encoder.encode(&snapshot(&"y".repeat(500)), &mut out).unwrap();
        assert!(
            String::from_utf8_lossy(&out).contains(&"y".repeat(500)),
            "{}",
            wire.name()
        );
    }
}

#[test]
fn an_event_over_the_limit_writes_nothing() {
    let limits = Limits::default().max_line_bytes(60);
    let wires: [&dyn Wire; 9] = [
        &ragwire::Responses::new("r", 0, "m").limits(limits),
        &ragwire::Ollama::new("m", Timestamp::parse("2026-01-02T03:04:05Z").unwrap()).limits(limits),
        &Forge::default().limits(limits),
        &SessionChat::default().limits(limits),
        &Eve::new("s").limits(limits),
        &Eve::new("s").documented().limits(limits),
        &TrustGraph::graph_rag("r").streaming(true).limits(limits),
        &TrustGraph::graph_rag("r").limits(limits),
        &TrustGraph::graph_rag("r")
            .streaming(true)
            .specified()
            .limits(limits),
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
    let cut = "\u{20ac}".repeat(MAX_ANSWER_BYTES / 3 + 1);
    for (text, truncated) in [("Yes.", false), (&cut, true)] {
        for end in [End::default(), End::stopped(), End::failed(Failure::default())] {
            let (mut encoder, mut out) = (chat.encoder(), BytesMut::new());
            for (event, timestamp) in &events {
                encoder.event(event, *timestamp, &mut out).unwrap();
            }
            encoder.text(text, &mut out).unwrap();
            // Nothing is added after a cut, even if it would fit.
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
                assert_eq!(content.len(), text.len().min(MAX_ANSWER_BYTES / 3 * 3));
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
        let mut ai_sdk = AiSdk::default();
        if let Some(id) = wire["message_id"].as_str() {
            ai_sdk = ai_sdk.message_id(id);
        }
        encoder(&if wire["parks"] == true {
            ai_sdk.parks()
        } else {
            ai_sdk
        })
    });
}

#[test]
fn openai() {
    check("openai", |wire| openai_wire(wire).encoder());
}

fn openai_wire(wire: &Value) -> OpenAi {
    let mut openai = OpenAi::new(
        "chatcmpl-1",
        1_767_323_045,
        wire["model"].as_str().unwrap_or("rag"),
    );
    if wire["usage"] == true {
        openai = openai.with_usage();
    }
    openai = match wire["progress"].as_str() {
        Some("extension") => openai.progress(Progress::Extension),
        Some("comment") => openai.progress(Progress::Comment),
        Some("none") => openai.progress(Progress::None),
        _ => openai,
    };
    if wire["on_failure"] == "text" {
        openai = openai.on_failure(OnFailure::Text);
    }
    openai
}

/// A reader that has the first chunks gets exactly the others, wherever the frames end.
#[test]
fn openai_after_any_chunk() {
    for vector in vectors("openai") {
        let whole = vector.chunks.concat();
        // Every record of these streams ends with a blank line.
        let records: Vec<&str> = whole.split_inclusive("\n\n").collect();
        let chunks = |records: &[&str]| {
            records
                .iter()
                .filter(|record| record.starts_with("data: "))
                .count()
        };
        // All but `[DONE]`, which is sent to every reader.
        let positions = (0..records.len()).filter(|&at| at == 0 || records[at - 1].starts_with("data: "));
        for at in positions {
            let wire = openai_wire(&vector.wire).starting_after(chunks(&records[..at]) as u64);
            let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
            for frame in &vector.frames {
                encoder.encode(&crate::written::frame(frame), &mut out).unwrap();
            }
            let rest = records[at..].concat();
            assert_eq!(
                String::from_utf8(out.to_vec()).unwrap(),
                rest,
                "{} after {at}",
                vector.id
            );
        }
    }
}

#[test]
fn responses() {
    use ragwire::Responses;
    check("responses", |wire| {
        let mut responses = Responses::new("resp_1", 1_767_323_045, wire["model"].as_str().unwrap_or("rag"))
            .limits(limits(wire));
        if let Some(id) = wire["previous_response_id"].as_str() {
            responses = responses.previous_response_id(id);
        }
        if wire["background"] == true {
            responses = responses.background();
        }
        if wire["extension"] == false {
            responses = responses.without_extension();
        }
        match wire["starting_after"].as_u64() {
            Some(number) => responses.starting_after(number).encoder(),
            None => responses.encoder(),
        }
    });
}

#[test]
fn ollama() {
    use ragwire::Ollama;
    let ollama = |wire: &Value| {
        let created_at = Timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let ollama = Ollama::new(wire["model"].as_str().unwrap_or("rag"), created_at);
        ollama.thinking(wire["thinking"] != false).limits(limits(wire))
    };
    check("ollama", |wire| ollama(wire).encoder());
    check("ollama_generate", |wire| ollama(wire).generate().encoder());
}

#[test]
fn ag_ui() {
    use ragwire::AgUi;
    check("ag_ui", |wire| {
        let mut ag_ui = AgUi::new("t", "r");
        if let Some(prefix) = wire["id_prefix"].as_str() {
            ag_ui = ag_ui.id_prefix(prefix);
        }
        encoder(&if wire["parks"] == true {
            ag_ui.parks()
        } else {
            ag_ui
        })
    });
}

fn trustgraph_wire(wire: &Value) -> TrustGraph {
    let id = wire["id"].as_str().unwrap_or("req-1");
    let trustgraph = match wire["kind"].as_str() {
        None => TrustGraph::graph_rag(id),
        Some("document") => TrustGraph::document_rag(id),
        Some(kind) => panic!("unknown kind: {kind}"),
    };
    let trustgraph = trustgraph
        .streaming(wire["streaming"] == true)
        .limits(limits(wire));
    if wire["specified"] == true {
        trustgraph.specified()
    } else {
        trustgraph
    }
}

#[test]
fn trustgraph() {
    check("trustgraph", |wire| trustgraph_wire(wire).encoder());
}

/// The messages of one request, one on each line.
fn messages(wire: &TrustGraph, events: &[(Event, Option<Timestamp>)], text: &str, end: &End) -> Vec<Value> {
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    for (event, timestamp) in events {
        encoder.event(event, *timestamp, &mut out).unwrap();
    }
    encoder.text(text, &mut out).unwrap();
    encoder.keep_alive(&mut out);
    encoder.end(end, &mut out).unwrap();
    let lines = out.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n');
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[test]
fn every_trustgraph_request_completes_once_and_response_equals_the_unstreamed_message() {
    let events = [
        (
            GraphExplanation::new("urn:e", "urn:g", vec![Triple::new("a", "b", "c")]).into(),
            Timestamp::parse("2026-01-02T03:04:05.25Z"),
        ),
        (GenerationStart::new(2u32, 9u32, "m").into(), None),
    ];
    let ends = [
        End::default(),
        End::completed(Metadata::default().mode("hybrid")),
        End::stopped(),
        End::failed(Failure::default()),
    ];
    for wire in [TrustGraph::graph_rag("r-1"), TrustGraph::document_rag("r-1")] {
        for wire in [wire.clone(), wire.specified()] {
            for (text, end) in ["", "Yes."]
                .iter()
                .flat_map(|text| ends.iter().map(move |end| (text, end)))
            {
                for wire in [wire.clone(), wire.clone().streaming(true)] {
                    let messages = messages(&wire, &events, text, end);
                    let (last, before) = messages.split_last().unwrap();
                    assert_eq!((&last["id"], &last["complete"]), (&"r-1".into(), &true.into()));
                    for message in before {
                        assert_eq!(
                            (&message["id"], &message["complete"]),
                            (&"r-1".into(), &false.into())
                        );
                    }
                }
                let [message] = &messages(&wire, &events, text, end)[..] else {
                    panic!("more than one message");
                };
                let response = wire.response(&events, text, end);
                assert_eq!(message["response"], response);
                assert_eq!(
                    wire.clone().streaming(true).response(&events, text, end),
                    response
                );
                assert_eq!(message.get("error"), response.get("error"));
            }
        }
    }
}

#[test]
fn an_answer_for_one_trustgraph_message_is_cut_at_a_character() {
    let whole = "\u{e9}".repeat(MAX_ANSWER_BYTES / 2);
    let (wire, over) = (TrustGraph::graph_rag("r"), format!("a{whole}"));
    for (text, kept, truncated) in [(&whole, whole.len(), None), (&over, whole.len() - 1, Some(true))] {
        let response = wire.response(&[], text, &End::default());
        assert_eq!(response["response"], text[..kept]);
        assert_eq!(response["metadata"]["truncated"].as_bool(), truncated);
        // Nothing is added after a cut, even if it would fit.
        let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
        encoder.text(text, &mut out).unwrap();
        encoder.text("!", &mut out).unwrap();
        encoder.end(&End::default(), &mut out).unwrap();
        let message: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(message["response"]["response"], text[..kept]);
        assert_eq!(message["response"]["metadata"]["truncated"], true);
    }
}

#[test]
fn a_refused_trustgraph_request_is_one_message() {
    let error = TrustGraph::document_rag("r\n1").error("unknown-service", "unknown service");
    assert_eq!(
        error.to_string(),
        r#"{"id":"r\n1","error":{"message":"unknown service","type":"unknown-service"},"complete":true}"#
    );
}

fn eve(wire: &Value) -> Eve {
    let mut eve = Eve::new("s")
        .turn(wire["turn"].as_u64().unwrap_or_default())
        .first_index(wire["first_index"].as_u64().unwrap_or_default())
        .limits(limits(wire));
    if wire["documented"] == true {
        eve = eve.documented();
    }
    if wire["parks"] == true {
        eve = eve.parks();
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
    check("eve", |wire| encoder(&eve(wire)));
}

#[test]
fn langgraph() {
    check("langgraph", |wire| encoder(&crate::langgraph::wire(wire)));
}

#[test]
fn mcp() {
    use ragwire::Mcp;
    use ragwire::wire::Wire;
    check("mcp", |wire| {
        let mut mcp = Mcp::new(1.into());
        if wire["passages"] == true {
            mcp = mcp.passages();
        }
        match wire["token"].as_str() {
            Some(token) => mcp.progress(token.into()).encoder(),
            None => mcp.encoder(),
        }
    });
}
