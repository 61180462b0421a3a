//! What has exactly the size of a limit is written, and one byte more is not.

use bytes::BytesMut;
use ragwire::event::{
    Custom, GraphExplanation, Search, Source, Sources, Thinking, ToolCall, ToolResult, Triple,
};
use ragwire::wire::openai::Progress;
use ragwire::wire::{Limits, Wire};
use ragwire::{
    AgUi, AiSdk, Citation, End, Eve, Failure, Forge, Frame, Framed, LangGraph, Mcp, Metadata, Ndjson, Ollama,
    OpenAi, SessionChat, Snapshot, Sse, Timestamp, Timing, TrustGraph,
};
use serde_json::{Value, json};

use crate::frames::event;

/// What is in a buffer before. It does not count.
const BEFORE: &str = "before\n";

/// What a new encoder adds to a buffer that is not empty.
fn written(wire: &dyn Wire, frames: &[Frame]) -> Result<String, &'static str> {
    let before = BEFORE.repeat(100);
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::from(before.as_str()));
    for frame in frames {
        encoder.encode(frame, &mut out).map_err(|error| error.code())?;
    }
    let out = String::from_utf8(out.to_vec()).unwrap();
    Ok(out.strip_prefix(&before).unwrap().to_owned())
}

/// The object in the last line of a stream.
fn last_object(stream: &str) -> Value {
    let line = stream.trim_end().lines().last().unwrap();
    serde_json::from_str(
        line.trim_start_matches("data: ")
            .trim_start_matches(['\u{1d}', '\u{1e}']),
    )
    .unwrap()
}

/// The length of the longest line that begins so, without the beginning.
fn longest(stream: &str, prefix: &str) -> usize {
    let lines = stream.lines().filter_map(|line| line.strip_prefix(prefix));
    lines.map(str::len).max().unwrap()
}

type NewWire = fn(Limits) -> Box<dyn Wire>;

#[test]
fn an_event_of_exactly_the_limit_is_written() {
    let wires: [(&str, NewWire); 14] = [
        ("", |limits| Box::new(Framed::default().limits(limits))),
        ("", |limits| Box::new(Ndjson::default().limits(limits))),
        ("", |limits| Box::new(Sse::default().limits(limits))),
        ("data: ", |limits| Box::new(AiSdk::default().limits(limits))),
        ("data: ", |limits| Box::new(AgUi::new("t", "r").limits(limits))),
        ("data: ", |limits| {
            Box::new(OpenAi::new("c", 0, "m").limits(limits))
        }),
        (": ", |limits| {
            Box::new(
                OpenAi::new("c", 0, "m")
                    .progress(Progress::Comment)
                    .limits(limits),
            )
        }),
        ("data: ", |limits| Box::new(LangGraph::new("r").limits(limits))),
        ("data: ", |limits| Box::new(Forge::default().limits(limits))),
        ("data: ", |limits| Box::new(SessionChat::default().limits(limits))),
        ("", |limits| Box::new(Eve::new("s").limits(limits))),
        ("", |limits| Box::new(Eve::new("s").documented().limits(limits))),
        ("", |limits| {
            Box::new(Ollama::new("m", Timestamp::from_micros(0)).limits(limits))
        }),
        ("", |limits| {
            Box::new(TrustGraph::graph_rag("r").streaming(true).limits(limits))
        }),
    ];
    // Longer than what a wire writes before its first event.
    let long = [event(Custom::new("own", &"x".repeat(2000)).unwrap())];
    for (prefix, new) in wires {
        let write = |bytes: usize| written(&*new(Limits::default().max_line_bytes(bytes)), &long);
        let whole = write(100_000).unwrap();
        let bytes = longest(&whole, prefix);
        let name = new(Limits::default()).name();
        assert_eq!(write(bytes).map(|out| out.len()), Ok(whole.len()), "{name}");
        assert_eq!(write(bytes - 1), Err("event_too_large"), "{name}");
    }
}

/// The notification of a step is one event of the transport, with all its lines.
#[test]
fn a_notification_of_exactly_the_limit_is_written() {
    let wire = |max_bytes: usize| {
        let limits = Limits::default().max_line_bytes(max_bytes);
        Mcp::new(1.into()).progress("t".into()).limits(limits)
    };
    let step = [event(Search::new("bm25"))];
    let whole = written(&wire(1000), &step).unwrap();
    assert_eq!(written(&wire(whole.len()), &step), Ok(whole.clone()));
    assert_eq!(written(&wire(whole.len() - 1), &step), Err("event_too_large"));
}

#[test]
fn a_snapshot_of_exactly_the_limit_is_written() {
    let wires: [NewWire; 2] = [
        |limits| Box::new(Ndjson::default().limits(limits)),
        |limits| Box::new(Sse::default().limits(limits)),
    ];
    let snapshot = [Frame::Snapshot(Box::new(
        Snapshot::new(1).text("Forty-two is the answer to that."),
    ))];
    for new in wires {
        let write = |bytes: usize| written(&*new(Limits::default().max_trailer_bytes(bytes)), &snapshot);
        let whole = write(1000).unwrap();
        let bytes = longest(&whole, "");
        assert_eq!(write(bytes), Ok(whole));
        assert_eq!(write(bytes - 1), Err("event_too_large"));
    }
}

#[test]
fn a_text_of_exactly_the_limit_is_not_cut() {
    let wires: [NewWire; 2] = [
        |limits| Box::new(Ndjson::default().limits(limits)),
        |limits| Box::new(Sse::default().limits(limits)),
    ];
    let text = [Frame::Text("x".repeat(400))];
    for new in wires {
        let write = |bytes: usize| written(&*new(Limits::default().max_line_bytes(bytes)), &text).unwrap();
        let whole = write(10_000);
        let bytes = longest(&whole, "");
        assert_eq!(write(bytes), whole);
        let texts = |stream: &str| stream.matches("\"text\":").count();
        assert_eq!((texts(&whole), texts(&write(bytes - 1))), (1, 2));
    }
}

#[test]
fn an_end_of_exactly_the_limit_is_whole_and_another_is_shortened_to_it() {
    let wires: [NewWire; 2] = [
        |limits| Box::new(Ndjson::default().limits(limits)),
        |limits| Box::new(Sse::default().limits(limits)),
    ];
    let citation = Citation::new("d", "c", "q", "bm25");
    let mut end = End::completed(Metadata::default().citations(vec![citation; 2]));
    end.timing = Some(Timing {
        timestamp: Timestamp::from_micros(0),
        elapsed_ms: 7,
    });
    let end = [Frame::End(end)];
    for new in wires {
        let write = |bytes: usize| written(&*new(Limits::default().max_trailer_bytes(bytes)), &end).unwrap();
        let whole = write(1000);
        let bytes = longest(&whole, "");
        assert_eq!(write(bytes), whole);
        let shortened = write(bytes - 1);
        assert!(longest(&shortened, "") < bytes, "{shortened}");
        let metadata = &last_object(&shortened)["metadata"];
        assert_eq!(
            (
                &metadata["citations"].as_array().unwrap().len(),
                &metadata["truncated"]
            ),
            (&1, &true.into())
        );
    }
}

#[test]
fn a_failed_end_of_exactly_the_limit_has_its_error() {
    let wires: [NewWire; 2] = [
        |limits| Box::new(Ndjson::default().limits(limits)),
        |limits| Box::new(Sse::default().limits(limits)),
    ];
    let end = [Frame::End(End::failed(Failure::new("busy", "x".repeat(100))))];
    for new in wires {
        let write = |bytes: usize| written(&*new(Limits::default().max_trailer_bytes(bytes)), &end).unwrap();
        let whole = write(1000);
        assert_eq!(last_object(&whole)["error"]["code"], "busy");
        let bytes = longest(&whole, "");
        assert_eq!(write(bytes), whole);
        assert_eq!(last_object(&write(bytes / 2)).get("error"), None);
    }
}

#[test]
fn late_events_of_exactly_the_limit_are_kept_and_others_are_counted() {
    let late = |query: &str| event(Search::new("bm25").query(query));
    let frames = [
        Frame::Text("Yes".into()),
        late("one"),
        late("two"),
        Frame::End(End::default()),
    ];
    let trailer = |bytes: usize| {
        let wire = Framed::default().limits(Limits::default().max_trailer_bytes(bytes));
        let stream = written(&wire, &frames).unwrap();
        serde_json::from_str::<Value>(stream.split('\u{1e}').nth(1).unwrap()).unwrap()
    };
    let whole = trailer(10_000);
    assert_eq!(whole["events"].as_array().map(Vec::len), Some(2));
    let bytes = whole.to_string().len();
    assert_eq!(trailer(bytes), whole);
    // The list fits, but not in the metadata.
    assert_eq!(
        trailer(bytes - 1),
        json!({"citations": [], "tools_used": [], "events_dropped": 2, "truncated": true})
    );
}

#[test]
fn a_source_of_exactly_the_limit_is_written() {
    let citation = Citation::new("a.pdf", "c", "A quote that is the longest part.", "bm25");
    let end = [Frame::End(End::completed(
        Metadata::default().citations(vec![citation]),
    ))];
    let sources = |bytes: usize| {
        let wire = AiSdk::default().limits(Limits::default().max_line_bytes(bytes));
        written(&wire, &end).unwrap().matches("source-document").count()
    };
    let stream = written(&AiSdk::default(), &end).unwrap();
    let bytes =
        longest(&stream, "data: {\"type\":\"source-document\"") + "{\"type\":\"source-document\"".len();
    assert_eq!((sources(bytes), sources(bytes - 1)), (1, 0));
}

/// Whatever a limit leaves out, it is the same however much the reader has not taken yet.
#[test]
fn what_is_in_the_buffer_counts_for_no_limit() {
    let wires: [NewWire; 12] = [
        |limits| Box::new(Framed::default().limits(limits)),
        |limits| Box::new(Ndjson::default().limits(limits)),
        |limits| Box::new(Sse::default().limits(limits)),
        |limits| Box::new(AiSdk::default().limits(limits)),
        |limits| Box::new(AgUi::new("t", "r").limits(limits)),
        |limits| Box::new(OpenAi::new("c", 0, "m").limits(limits)),
        |limits| Box::new(LangGraph::new("r").limits(limits)),
        |limits| Box::new(Forge::default().limits(limits)),
        |limits| Box::new(SessionChat::default().limits(limits)),
        |limits| Box::new(Eve::new("s").limits(limits)),
        |limits| Box::new(Eve::new("s").documented().limits(limits)),
        |limits| Box::new(TrustGraph::graph_rag("r").streaming(true).limits(limits)),
    ];
    let citations = ["one", "two", "three"].map(|quote| Citation::new("a.pdf", "c", quote, "bm25"));
    let metadata = Metadata::default()
        .citations(citations.to_vec())
        .tools_used(["bm25"]);
    let frames = [
        event(Search::new("bm25").query("why")),
        event(ToolCall::new("pay", json!({"n": 1})).call_id("c")),
        event(ToolResult::new("pay", "Paid.").call_id("c")),
        event(Search::new("dense").query("why not")),
        Frame::Text("Forty-two.".into()),
        event(Search::new("bm25").query("again")),
        Frame::End(End::completed(metadata)),
    ];
    // What each frame adds to a buffer with something in it, or why it adds nothing.
    let added = |wire: &dyn Wire, before: &str| -> Vec<Result<String, &str>> {
        let mut encoder = wire.encoder();
        let encode = |frame| {
            let mut out = BytesMut::from(before);
            let encoded = encoder.encode(frame, &mut out);
            encoded.map_err(|error| error.code())?;
            Ok(String::from_utf8(out[before.len()..].to_vec()).unwrap())
        };
        frames.iter().map(encode).collect()
    };
    let before = BEFORE.repeat(100);
    for new in wires {
        for bytes in (0..1_000).step_by(20) {
            for limits in [
                Limits::default().max_trailer_bytes(bytes),
                Limits::default().max_line_bytes(bytes),
            ] {
                let wire = new(limits);
                let name = wire.name();
                assert_eq!(added(&*wire, &before), added(&*wire, ""), "{name} {limits:?}");
            }
        }
    }
}

#[test]
fn a_trustgraph_answer_without_metadata_has_its_events() {
    let step = || event(Search::new("bm25").query("why"));
    let frames = [step(), Frame::Text("Yes".into()), Frame::End(End::default())];
    let stream = written(&TrustGraph::graph_rag("r"), &frames).unwrap();
    let metadata = &last_object(&stream)["response"]["metadata"];
    assert_eq!(
        metadata["events"],
        json!([{"event": "search", "tool": "bm25", "query": "why"}])
    );
    let stream = written(&TrustGraph::graph_rag("r"), &frames[1..]).unwrap();
    assert_eq!(last_object(&stream)["response"].get("metadata"), None);
}

#[test]
fn the_documents_of_a_trustgraph_answer_are_kept_within_the_limit() {
    let sources = Sources::new(vec![Source::new("c", "urn:a", "t", Vec::new()).title("Title")]);
    let frames = [event(sources), Frame::End(End::default())];
    // {"uri":"urn:a","title":"Title"},
    for (bytes, kept) in [
        (32, json!([{"uri": "urn:a", "title": "Title"}])),
        (31, Value::Null),
    ] {
        let limits = Limits::default().max_trailer_bytes(bytes);
        let wire = TrustGraph::graph_rag("r").streaming(true).limits(limits);
        let stream = written(&wire, &frames).unwrap();
        assert_eq!(last_object(&stream)["response"]["sources"], kept, "{bytes}");
    }
}

#[test]
fn an_explanation_of_a_graph_names_20_entities() {
    let edges = |count: usize| -> Vec<Triple> {
        (0..count)
            .map(|number| Triple::new(format!("urn:e{number}"), "urn:p", "urn:o"))
            .collect()
    };
    for (count, named) in [(20, 20), (21, 20)] {
        let explanation = GraphExplanation::new("urn:x", "urn:g", edges(count));
        let wire = TrustGraph::graph_rag("r").streaming(true);
        let stream = written(&wire, &[event(explanation)]).unwrap();
        let entity = "\"https://trustgraph.ai/ns/entity\"";
        assert_eq!(stream.matches(entity).count(), named, "{count}");
    }
}

#[test]
fn the_tools_of_a_session_chat_are_kept_within_the_limit() {
    let call = event(ToolCall::new("pay", json!({"n": 1})).call_id("c"));
    let frames = [call, Frame::End(End::default())];
    let kept = |bytes: usize| {
        let wire = SessionChat::default().limits(Limits::default().max_trailer_bytes(bytes));
        let stream = written(&wire, &frames).unwrap();
        let response = last_object(&stream)["response"].clone();
        (
            response["tool_calls"].as_array().unwrap().len(),
            response["truncated"].clone(),
        )
    };
    // The whole event of the call, with its empty line.
    let stream = written(&SessionChat::default(), &frames[..1]).unwrap();
    let bytes = stream.split_inclusive("\n\n").map(str::len).max().unwrap();
    assert_eq!(kept(bytes), (1, Value::Null));
    assert_eq!(kept(bytes - 1), (0, true.into()));
}

#[test]
fn a_session_chat_joins_the_pieces_of_a_thought_as_far_as_they_are_certain_to_fit() {
    let piece = |content: &str| event(Thinking::new(content).id("a"));
    let frames = [
        piece("12345"),
        piece("67890"),
        piece("!"),
        Frame::End(End::default()),
    ];
    // Each byte of the content and of the ID may become six, and the rest has 1 KiB.
    for (bytes, expected) in [
        (1024 + 6 * 12, vec!["1234567890!"]),
        (1024 + 6 * 11, vec!["1234567890", "!"]),
        (1024 + 6 * 10, vec!["12345", "67890!"]),
        (1024 + 6 * 5, vec!["12345", "67890", "!"]),
    ] {
        let wire = SessionChat::default().limits(Limits::default().max_line_bytes(bytes));
        let stream = written(&wire, &frames).unwrap();
        let objects = stream.lines().filter_map(|line| line.strip_prefix("data: "));
        let thoughts: Vec<String> = objects
            .map(|object| serde_json::from_str::<Value>(object).unwrap())
            .filter(|object| object["type"] == "thinking")
            .map(|object| object["content"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(thoughts, expected, "{bytes}");
    }
}

#[test]
fn a_forge_answer_says_that_evidence_is_missing() {
    let citations = vec![Citation::new("d", "c", "quote", "bm25")];
    let list = json!(citations).to_string().len();
    let end = End::completed(Metadata::default().citations(citations));
    let sources = event(Sources::new(vec![Source::new("c", "d", "t", Vec::new())]));
    for (why, frames, bytes, kept) in [
        ("it fits", vec![], 1000, (1, Value::Null)),
        ("as a source it is longer", vec![], list, (1, true.into())),
        (
            "the turn has its own sources",
            vec![sources.clone()],
            list,
            (1, Value::Null),
        ),
        (
            "and the citation does not fit",
            vec![sources],
            list - 1,
            (0, true.into()),
        ),
    ] {
        let wire = Forge::default().limits(Limits::default().max_trailer_bytes(bytes));
        let frames: Vec<Frame> = frames.into_iter().chain([Frame::End(end.clone())]).collect();
        let done = last_object(&written(&wire, &frames).unwrap());
        let citations = done["citations"].as_array().map_or(0, Vec::len);
        assert_eq!((citations, done["truncated"].clone()), kept, "{why}");
    }
}

#[test]
fn the_passages_of_an_mcp_result_are_shorter_than_the_limit() {
    let passage = |title: &str, text: &str| Source::new("c", "d", text, vec![3]).title(title);
    let sources = Sources::new(vec![passage("One", "first"), passage("Two", "second")]);
    let frames = [event(sources), Frame::End(End::default())];
    // 3 + 5 and 3 + 6 bytes.
    for (bytes, kept, truncated) in [
        (18, 2, Value::Null),
        (17, 1, true.into()),
        (9, 1, true.into()),
        (8, 0, true.into()),
    ] {
        let limits = Limits::default().max_trailer_bytes(bytes);
        let wire = Mcp::new(1.into()).passages().limits(limits);
        let result = last_object(&written(&wire, &frames).unwrap())["result"].clone();
        let lines = ["[1] One, page 3: first", "[2] Two, page 3: second"];
        let texts = lines[..kept]
            .iter()
            .map(|line| json!({"type": "text", "text": line}));
        assert_eq!(result["content"], Value::from_iter(texts), "{bytes}");
        assert_eq!(
            result["structuredContent"]
                .get("truncated")
                .cloned()
                .unwrap_or_default(),
            truncated,
            "{bytes}"
        );
    }
}

#[test]
fn an_mcp_answer_that_was_cut_says_so() {
    let most = "x".repeat(4 * 1024 * 1024);
    for (text, truncated) in [(most.clone(), Value::Null), (most + "!", true.into())] {
        let frames = [Frame::Text(text), Frame::End(End::default())];
        let answer =
            last_object(&written(&Mcp::new(1.into()), &frames).unwrap())["result"]["structuredContent"]
                .take();
        assert_eq!(answer["truncated"], truncated);
    }
}
