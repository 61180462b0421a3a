use serde_json::json;

use super::sources::{MAX_DOCUMENT_BYTES, MAX_DOCUMENTS};
use super::*;
use crate::event::{
    InputRequested, InputResolved, Reasoning, RetrievalResult, RetrievalStart, Source, Sources, Thinking,
};
use crate::failure::Failure;
use crate::metadata::{Citation, Metadata};
use crate::wire::calls::{MAX_OPEN_CALL_BYTES, MAX_OPEN_CALLS};
use crate::wire::{Decode, Encoder};

fn small() -> Encoder {
    let limits = Limits::default().max_line_bytes(200).max_trailer_bytes(200);
    AiSdk::default().limits(limits).encoder()
}

fn encode(encoder: &mut Encoder, event: &Event) -> String {
    let mut out = BytesMut::new();
    encoder.event(event, None, &mut out).unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

fn refuse(encoder: &mut Encoder, event: &Event) {
    let mut out = BytesMut::from("before");
    let error = encoder.event(event, None, &mut out).unwrap_err();
    assert_eq!(error.code(), "event_too_large");
    assert_eq!(out, "before");
}

#[test]
fn an_event_over_the_limit_changes_nothing() {
    let long = "x".repeat(201);
    let thought = |content: &str| Event::from(Reasoning::new(content));
    let result = |result: &str| Event::from(ToolResult::new("t", result));
    let source = |text: &str| Event::from(Sources::new(vec![Source::new("c", "d", text, Vec::new())]));
    let first = [thought(""), ToolCall::new("t", json!({})).into(), source("")];
    let large = [
        thought(&long),
        ToolCall::new("t", long.as_str()).into(),
        source(&long),
        result(&long),
    ];
    // Neither the start, nor a number, nor a document counts as sent.
    for event in &first {
        let mut encoder = small();
        for large in &large {
            refuse(&mut encoder, large);
        }
        assert_eq!(encode(&mut encoder, event), encode(&mut small(), event));
    }
    // The text is still open, and the call still has no result.
    let (mut encoder, mut out) = (small(), BytesMut::new());
    encode(&mut encoder, &ToolCall::new("t", json!({})).into());
    encoder.text("a", &mut out).unwrap();
    for large in &large {
        refuse(&mut encoder, large);
    }
    out.clear();
    encoder.text("b", &mut out).unwrap();
    assert_eq!(
        out,
        "data: {\"type\":\"text-delta\",\"id\":\"text-1\",\"delta\":\"b\"}\n\n"
    );
    assert_eq!(
        encode(&mut encoder, &result("r")),
        concat!(
            "data: {\"type\":\"tool-output-available\",\"toolCallId\":\"ragwire-call-1\",\"output\":\"r\",\"dynamic\":true,",
            "\"providerMetadata\":{\"ragwire\":{\"event\":\"tool_result\"}}}\n\n"
        )
    );
}

#[test]
fn the_memory_of_calls_is_bounded() {
    let call = |id: &str| Event::from(ToolCall::new("t", json!({})).call_id(id));
    let closed = |id: &str| {
        format!(
            "data: {{\"type\":\"tool-output-available\",\"toolCallId\":\"{id}\",\"output\":{{}},\"dynamic\":true}}\n\n"
        )
    };
    let mut encoder = AiSdk::default().encoder();
    encode(&mut encoder, &Reasoning::new("").into());
    let alone = encode(&mut encoder, &call("0"));
    for number in 1..MAX_OPEN_CALLS {
        // None is closed while there is room.
        let id = number.to_string();
        assert_eq!(
            encode(&mut encoder, &call(&id)),
            alone.replace("\"0\"", &format!("\"{id}\""))
        );
    }
    // An open call that is repeated takes no more room, but is now the latest.
    assert_eq!(encode(&mut encoder, &call("0")), alone);
    // One more closes the oldest, so that none stays open at the end of the turn.
    assert_eq!(
        encode(&mut encoder, &call("more")),
        alone.replace("\"0\"", "\"more\"") + &closed("1")
    );
    // A call that does not fit is closed at once, and with it all calls before it.
    let long = "x".repeat(MAX_OPEN_CALL_BYTES);
    let rest = (2..MAX_OPEN_CALLS).map(|number| closed(&number.to_string()));
    let rest = rest.chain([closed("0"), closed("more"), closed(&long)]);
    assert_eq!(
        encode(&mut encoder, &call(&long)),
        alone.replace("\"0\"", &format!("\"{long}\"")) + &rest.collect::<String>()
    );
    // A late result opens its call again, because an output needs an input.
    assert_eq!(
        encode(&mut encoder, &ToolResult::new("t", "r").call_id("1").into()),
        concat!(
            "data: {\"type\":\"tool-input-start\",\"toolCallId\":\"1\",\"toolName\":\"t\",\"dynamic\":true,\"providerExecuted\":true}\n\n",
            "data: {\"type\":\"tool-input-available\",\"toolCallId\":\"1\",\"toolName\":\"t\",\"input\":{},",
            "\"dynamic\":true,\"providerExecuted\":true}\n\n",
            "data: {\"type\":\"tool-output-available\",\"toolCallId\":\"1\",\"output\":\"r\",\"dynamic\":true,",
            "\"providerMetadata\":{\"ragwire\":{\"event\":\"tool_result\"}}}\n\n"
        )
    );
    let mut out = BytesMut::new();
    encoder.end(&End::default(), &mut out).unwrap();
    assert!(out.starts_with(b"data: {\"type\":\"finish\""), "{out:?}");
}

#[test]
fn the_memory_of_documents_is_bounded() {
    let sources = |id: &str| Event::from(Sources::new(vec![Source::new("c", id, "", Vec::new())]));
    let (long, longer) = (
        "x".repeat(MAX_DOCUMENT_BYTES / 2),
        "y".repeat(MAX_DOCUMENT_BYTES / 2),
    );
    let many: Vec<String> = (0..MAX_DOCUMENTS).map(|number| number.to_string()).collect();
    for known in [&many[..], &[long, longer]] {
        let limits = Limits::default()
            .max_line_bytes(usize::MAX)
            .max_trailer_bytes(usize::MAX);
        let mut encoder = AiSdk::default().limits(limits).encoder();
        for id in known.iter().map(String::as_str).chain(["more", &known[0]]) {
            encode(&mut encoder, &sources(id));
        }
        let mut out = BytesMut::new();
        encoder.end(&End::default(), &mut out).unwrap();
        let out = String::from_utf8(out.to_vec()).unwrap();
        for (id, number) in known.iter().zip(1..) {
            let part = format!("{{\"type\":\"source-document\",\"sourceId\":\"document-{number}\",");
            assert_eq!(out.matches(&part).count(), 1);
            assert!(out.contains(&format!("\"filename\":\"{id}\"")), "{number}");
        }
        assert_eq!(out.matches("source-document").count(), known.len());
        assert!(!out.contains("more"));
    }
}

#[test]
fn sources_over_a_limit_are_left_out() {
    let citations: Vec<Citation> = ["a", &"x".repeat(300), "b", "c"]
        .map(|quote| Citation::new("d", "c", quote, "bm25"))
        .to_vec();
    let sources = |line, trailer| {
        let limits = Limits::default().max_line_bytes(line).max_trailer_bytes(trailer);
        let mut out = BytesMut::new();
        let end = End::completed(Metadata::default().citations(citations.clone()));
        let mut encoder = AiSdk::default().limits(limits).encoder();
        encoder.end(&end, &mut out).unwrap();
        let out = String::from_utf8(out.to_vec()).unwrap();
        let numbers = 1..=citations.len();
        numbers
            .filter(|number| out.contains(&format!("\"citation-{number}\"")))
            .collect::<Vec<_>>()
    };
    assert_eq!(sources(1000, 10_000), [1, 2, 3, 4]);
    assert_eq!(sources(400, 10_000), [1, 3, 4]);
    assert_eq!(sources(400, 500), [1, 3]);
}

#[test]
fn the_refusals_of_64_open_approvals_are_remembered() {
    let ask = |id: usize| {
        let question = InputRequested::new(id.to_string(), "approval", "?");
        Event::from(question.options(vec!["Yes".to_owned(), "No".to_owned()]))
    };
    for (count, oldest) in [(MAX_OPEN_CALLS, 0), (MAX_OPEN_CALLS + 1, 1)] {
        let mut encoder = AiSdk::default().parks().encoder();
        encoder.allow_parking();
        for id in 0..count {
            encode(&mut encoder, &ask(id));
        }
        let refused = InputResolved::new(oldest.to_string()).response("No");
        let denied = format!("{{\"type\":\"tool-output-denied\",\"toolCallId\":\"{oldest}\"}}");
        let written = encode(&mut encoder, &refused.into());
        assert!(written.ends_with(&format!("data: {denied}\n\n")), "{written}");
    }
}

#[test]
fn a_citation_without_a_heading_has_the_name_of_its_document() {
    let citation = |heading: &str| Citation::new("a.pdf", "c", "q", "bm25").heading(heading);
    for (citation, title) in [
        (citation("Rules"), "a.pdf: Rules"),
        (citation(""), "a.pdf"),
        (Citation::new("a.pdf", "c", "q", "bm25"), "a.pdf"),
    ] {
        let end = End::completed(Metadata::default().citations(vec![citation]));
        let mut out = BytesMut::new();
        AiSdk::default().encoder().end(&end, &mut out).unwrap();
        let out = String::from_utf8(out.to_vec()).unwrap();
        assert!(out.contains(&format!("\"title\":\"{title}\"")), "{out}");
    }
}

#[test]
fn a_step_over_the_limit_changes_nothing() {
    let long = "x".repeat(301);
    let piece = |content: &str| Event::from(Thinking::new(content).id("a"));
    let limits = Limits::default().max_line_bytes(300);
    let mut encoder = AiSdk::default().limits(limits).encoder();
    let begun = encode(&mut encoder, &piece("b"));
    assert!(begun.contains("reasoning-start"), "{begun}");
    refuse(&mut encoder, &piece(&long));
    refuse(
        &mut encoder,
        &RetrievalStart::new(long.as_str(), "q", 1_u32).into(),
    );
    // The thought is still open, and no search was announced.
    assert_eq!(
        encode(&mut encoder, &piece("c")),
        "data: {\"type\":\"reasoning-delta\",\"id\":\"reasoning-1\",\"delta\":\"c\"}\n\n"
    );
    // The result belongs to no search, so it is a call of its own, the first.
    let result = encode(&mut encoder, &RetrievalResult::new("t", 1_u32, 2_u64).into());
    assert!(result.contains("\"toolCallId\":\"retrieval-1\""), "{result}");
    assert!(result.contains("tool-input-available"), "{result}");
}

#[test]
fn the_end_always_fits() {
    let citation = Citation::new("d", "c", "x".repeat(201), "bm25");
    let end = End::completed(Metadata::default().citations(vec![citation]));
    let mut out = BytesMut::new();
    small().end(&end, &mut out).unwrap();
    assert_eq!(
        out,
        concat!(
            "data: {\"type\":\"start\"}\n\n",
            "data: {\"type\":\"finish\",\"finishReason\":\"stop\",",
            "\"messageMetadata\":{\"citations\":[],\"tools_used\":[],\"truncated\":true}}\n\n",
            "data: [DONE]\n\n",
        )
    );
}

#[test]
fn keep_alives_are_comments_until_the_end() {
    let (mut encoder, mut out) = (AiSdk::default().encoder(), BytesMut::new());
    encoder.keep_alive(&mut out);
    assert_eq!(out, ": keep-alive\n\n");
    encoder.end(&End::failed(Failure::default()), &mut out).unwrap();
    let length = out.len();
    encoder.keep_alive(&mut out);
    assert_eq!(out.len(), length);
}

/// In our streams a question is a call of its own, so an approval asks for nothing. A decoder for the
/// stream that continues the message knows whose message it is.
#[test]
fn the_next_stream_is_of_the_same_server() {
    let approval =
        b"data: {\"type\":\"tool-approval-request\",\"approvalId\":\"a\",\"toolCallId\":\"1\"}\n\n";
    let ours = encode(
        &mut AiSdk::default().encoder(),
        &ToolCall::new("t", json!({})).call_id("1").into(),
    );
    let theirs =
        "data: {\"type\":\"tool-input-available\",\"toolCallId\":\"1\",\"toolName\":\"t\",\"input\":{}}\n\n";
    for (first, asks) in [(ours.as_str(), false), (theirs, true)] {
        let mut decoder = AiSdk::default().decoder();
        decoder.feed(first.as_bytes());
        assert_eq!(decoder.by_ref().map(Result::unwrap).count(), 1, "{first}");
        let mut next = decoder.next_stream();
        next.feed(approval);
        let asked = next.by_ref().map(Result::unwrap).count();
        assert_eq!(asked == 1, asks, "{first}");
        let waiting: Vec<_> = next
            .waiting_calls()
            .iter()
            .map(|call| (call.id.as_str(), call.call_id.as_str(), call.wait))
            .collect();
        let expected: &[_] = if asks {
            &[("a", "1", CallWait::Approval)]
        } else {
            &[]
        };
        assert_eq!(waiting, expected, "{first}");
    }
}
