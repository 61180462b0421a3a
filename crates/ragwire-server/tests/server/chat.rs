//! The two routes of ADR 0007.

use std::time::Duration;

use http::Method;
use ragwire::session::Role;
use ragwire::{Frame, Status};
use ragwire_server::sample;
use ragwire_server::settings::values::{Size, Span};
use serde_json::{Value, json};

use crate::support::{JSON, STREAM, WHOLE, decode, full_of_one, keys, no_grace, start};

#[tokio::test]
async fn a_stream_has_the_shape_of_the_adr() {
    let server = start(|_| {}).await;
    let reply = server.ask(STREAM, sample::QUESTION).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["content-type"], "text/plain; charset=utf-8");
    assert!(
        reply.headers["cache-control"]
            .to_str()
            .unwrap()
            .contains("no-cache")
    );
    assert_eq!(reply.headers["x-accel-buffering"], "no");

    let frames = decode(&reply.body);
    let names: Vec<_> = frames
        .iter()
        .filter_map(|frame| match frame {
            Frame::Event { event, .. } => Some(event.name()),
            _ => None,
        })
        .collect();
    assert!(
        names.contains(&"search") && names.contains(&"sources"),
        "{names:?}"
    );
    assert!(matches!(frames.last(), Some(Frame::End(end)) if end.status == Status::Completed));

    let trailer = reply.body.rsplit(|byte| *byte == 0x1e).next().unwrap();
    let trailer: Value = serde_json::from_slice(trailer).unwrap();
    assert_eq!(keys(&trailer), ["citations", "mode", "tools_used", "queue_stats"]);
    assert_eq!(trailer["mode"], "hybrid");
    let citations = trailer["citations"].as_array().unwrap();
    assert!(!citations.is_empty());
    for citation in citations {
        let known = [
            "document_id",
            "chunk_id",
            "supporting_quote",
            "source_tool",
            "page_number",
            "score",
        ];
        assert!(keys(citation).iter().all(|key| known.contains(key)), "{citation}");
        let path = format!(
            "/v1/documents/{}/chunks/{}",
            citation["document_id"].as_str().unwrap(),
            citation["chunk_id"].as_str().unwrap()
        );
        let chunk = server.get(&path).await;
        let text = chunk.json()["text"].as_str().unwrap().to_owned();
        assert!(text.contains(citation["supporting_quote"].as_str().unwrap()));
    }
}

#[tokio::test]
async fn the_other_route_returns_the_same_in_one_response() {
    let server = start(|_| {}).await;
    let reply = server.ask(WHOLE, sample::QUESTION).await;
    assert_eq!(reply.status, 200);
    let whole = reply.json();
    let members = [
        "session_id",
        "mode",
        "answer",
        "tools_used",
        "citations",
        "agent_events",
    ];
    assert_eq!(keys(&whole), members);
    assert_eq!(
        (&whole["session_id"], &whole["mode"]),
        (&json!("s1"), &json!("hybrid"))
    );
    let events = whole["agent_events"].as_array().unwrap();
    for event in events {
        assert_eq!(keys(event)[..2], ["type", "timestamp"], "{event}");
        assert!(event.get("event").is_none());
    }
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "search" && event["tool"].is_string())
    );

    let streamed = server.ask(STREAM, sample::QUESTION).await;
    let text: String = decode(&streamed.body)
        .into_iter()
        .filter_map(|frame| match frame {
            Frame::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(whole["answer"], text);
}

#[tokio::test]
async fn the_request_is_checked() {
    let server = start(|settings| settings.max_question = Size(100)).await;
    let long = json!({ "prompt": "x".repeat(101) }).to_string();
    let huge = json!({ "prompt": "x".repeat(1_000_000) }).to_string();
    let deep = format!("{{\"retrieval_mode\":{}", "[".repeat(4_000));
    let accepted =
        r#"{"prompt":"commit?","reasoning_effort":"xhigh","review_enabled":true,"retrieval_mode":{"a":1}}"#;
    let plain = ("content-type", "text/plain");
    type Case<'a> = (&'a str, (&'a str, &'a str), &'a str, u16, &'a str);
    let cases: &[Case<'_>] = &[
        (WHOLE, JSON, accepted, 200, "none"),
        (
            WHOLE,
            ("content-type", "Application/JSON; charset=utf-8"),
            accepted,
            200,
            "none",
        ),
        (WHOLE, JSON, "", 400, "bad_json"),
        (WHOLE, JSON, "{", 400, "bad_json"),
        (WHOLE, JSON, r#"{"prompt":"a"} x"#, 400, "bad_json"),
        (WHOLE, JSON, r#"{"prompt":"\ud800"}"#, 400, "bad_json"),
        (WHOLE, JSON, &deep, 400, "bad_json"),
        (WHOLE, JSON, "\u{feff}{}", 400, "bad_json"),
        (WHOLE, JSON, "null", 422, "invalid_request"),
        (WHOLE, JSON, "7", 422, "invalid_request"),
        (WHOLE, JSON, r#"["a"]"#, 422, "invalid_request"),
        (WHOLE, JSON, "[", 400, "bad_json"),
        (WHOLE, JSON, "{}", 422, "invalid_request"),
        (WHOLE, JSON, r#"{"prompt":null}"#, 422, "invalid_request"),
        (WHOLE, JSON, r#"{"prompt":7}"#, 422, "invalid_request"),
        (WHOLE, JSON, r#"{"prompt":""}"#, 422, "invalid_request"),
        (WHOLE, JSON, r#"{"prompt":" \n\t\u2003"}"#, 422, "invalid_request"),
        (
            WHOLE,
            JSON,
            r#"{"prompt":"a","prompt":"b"}"#,
            422,
            "invalid_request",
        ),
        (WHOLE, JSON, r#"{"prompt":"a","more":1}"#, 422, "invalid_request"),
        (
            WHOLE,
            JSON,
            r#"{"prompt":"a","reasoning_effort":"max"}"#,
            422,
            "invalid_request",
        ),
        (
            WHOLE,
            JSON,
            r#"{"prompt":"a","reasoning_effort":7}"#,
            422,
            "invalid_request",
        ),
        (
            WHOLE,
            JSON,
            r#"{"prompt":"a","review_enabled":"yes"}"#,
            422,
            "invalid_request",
        ),
        (WHOLE, JSON, &long, 422, "invalid_request"),
        (WHOLE, JSON, &huge, 413, "body_too_large"),
        (STREAM, JSON, &huge, 413, "body_too_large"),
        (STREAM, plain, accepted, 415, "unsupported_media_type"),
        (
            "/v1/rag/sessions/a%2Fb/messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        (
            "/v1/rag/sessions/../messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        (
            "/v1/rag/sessions/%00/messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        (
            "/v1/rag/sessions/%ff/messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        (
            "/v1/rag/sessions//messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        ("/nowhere", JSON, accepted, 404, "not_found"),
        ("/healthz", JSON, accepted, 405, "method_not_allowed"),
    ];
    for (path, header, body, status, code) in cases {
        let reply = server
            .call(Method::POST, path, &[*header], (*body).to_owned())
            .await;
        let case = format!("{path} {}", body.chars().take(60).collect::<String>());
        assert_eq!(reply.status.as_u16(), *status, "{case} {:?}", reply.body);
        assert_eq!(reply.code(), *code, "{case}");
        if *status != 200 {
            let error = &reply.json()["error"];
            assert_eq!(keys(error), ["code", "message", "recoverable", "request_id"]);
            assert_eq!(error["request_id"].as_str().unwrap().len(), 32);
        }
    }
    assert_eq!(server.get(STREAM).await.code(), "method_not_allowed");
}

#[tokio::test]
async fn a_session_records_both_sides_in_order_however_the_turn_ends() {
    // A disconnected client is not waited for.
    let server = start(no_grace).await;
    for (path, prompt, status) in [
        (STREAM, "What is BM25?", 200),
        (STREAM, "fault:text", 200),
        (STREAM, "fault:reject", 500),
        (WHOLE, "fault:panic", 500),
        (WHOLE, "", 422),
    ] {
        assert_eq!(server.ask(path, prompt).await.status.as_u16(), status, "{prompt}");
    }
    let apology = "I hit an internal error while gathering evidence. Please retry.";
    let said = server.said("s1").await;
    let roles: Vec<_> = said.iter().map(|(role, _)| *role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant].repeat(4));
    assert_eq!(said[0].1, "What is BM25?");
    let partial = format!("The first half of an answer that breaks \n\n{apology}");
    assert_eq!(said[3].1, partial);
    assert_eq!((&*said[5].1, &*said[7].1), (apology, apology));

    // A disconnect stops the turn; the session records the text that was sent.
    let body = server.open("fault:slow").await;
    drop(body);
    server.until_idle().await;
    assert_eq!(
        server.said("s1").await.len(),
        9,
        "the question, and no word of an answer"
    );
}

#[tokio::test]
async fn faults_have_the_form_of_the_adr() {
    let server = start(|settings| {
        settings.idle_timeout = Span(Duration::from_millis(300));
        settings.keep_alive = Span(Duration::from_millis(100));
    })
    .await;
    let reject = server.ask(STREAM, "fault:reject").await;
    assert_eq!((reject.status.as_u16(), &*reject.code()), (500, "chat_failed"));
    for (prompt, code) in [
        ("fault:retrieval", "chat_failed"),
        ("fault:panic", "chat_failed"),
        ("fault:silent", "timeout"),
    ] {
        let reply = server.ask(STREAM, prompt).await;
        let Some(Frame::End(end)) = decode(&reply.body).pop() else {
            panic!("no end: {:?}", reply.body)
        };
        let Status::Failed(failure) = end.status else {
            panic!("{prompt} did not fail")
        };
        assert_eq!(failure.code(), code);
        let trailer = reply.body.rsplit(|byte| *byte == 0x1e).next().unwrap();
        let trailer: Value = serde_json::from_slice(trailer).unwrap();
        assert_eq!(trailer["tools_used"], json!(["chat_failed"]));
        assert_eq!(
            (&trailer["citations"], &trailer["mode"]),
            (&json!([]), &json!("hybrid"))
        );
    }
    let twin = server.ask(WHOLE, "fault:silent").await;
    assert_eq!((twin.status.as_u16(), &*twin.code()), (504, "timeout"));
}

#[tokio::test]
async fn a_full_server_reports_it_and_when_to_retry() {
    let server = start(|settings| {
        full_of_one(settings);
        no_grace(settings);
    })
    .await;
    let running = server.open("fault:silent").await;
    for path in [STREAM, WHOLE] {
        let reply = server.ask(path, "commit?").await;
        assert_eq!((reply.status.as_u16(), &*reply.code()), (503, "busy"));
        assert!(reply.headers.contains_key("retry-after"));
    }
    assert_eq!(server.get("/healthz").await.status, 200);
    drop(running);
    server.until_idle().await;
    assert_eq!(server.ask(STREAM, "commit?").await.status, 200);
    assert_eq!(
        server.said("s1").await.len(),
        3,
        "a refused question is not remembered"
    );
}
