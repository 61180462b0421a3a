//! The routes of OpenAI's SDKs.

use http::Method;
use ragwire::OpenAi;
use ragwire_server::sample;
use ragwire_server::settings::values::Size;
use serde_json::{Value, json};

use crate::support::{
    JSON, Reply, Running, at_once, bad_messages, keys, no_json, spelled, start, steady, stop_clocks,
};

const COMPLETIONS: &str = "/v1/chat/completions";
const TEXT: &str = "/choices/0/delta/content";
const FAILED: &str = "I hit an internal error while gathering evidence. Please retry.";

fn body(prompt: &str, stream: bool) -> Value {
    json!({
        "model": "ragwire",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "What is BM25?" }] },
            { "role": "assistant", "content": null, "tool_calls": [] },
            { "role": "user", "content": prompt },
        ],
        "stream": stream,
        "stream_options": if stream { json!({ "include_usage": true }) } else { json!(null) },
        "temperature": 1,
        "user": "u-1",
    })
}

fn completion_id(reply: &Reply) -> String {
    // The second of the beginning comes before the turn's ID.
    let turn = reply.headers[ragwire::http::TURN_HEADER].to_str().unwrap();
    let body = String::from_utf8_lossy(&reply.body);
    let start = body.find("chatcmpl-").unwrap();
    let id = &body[start..start + "chatcmpl-".len() + 10 + 32];
    assert!(id.ends_with(turn), "{id} {turn}");
    id.to_owned()
}

/// A refusal in OpenAI's form: status, code and message.
fn refusal(reply: &Reply) -> (u16, String, String) {
    let error = &reply.json()["error"];
    assert_eq!(keys(error), ["message", "type", "param", "code"]);
    assert_eq!(error["param"], Value::Null);
    assert!(!error["message"].as_str().unwrap().is_empty());
    assert_eq!(reply.headers["x-request-id"].len(), 32);
    let word = |name: &str| error[name].as_str().unwrap().to_owned();
    (reply.status.as_u16(), word("type"), word("code"))
}

#[tokio::test]
async fn a_turn_is_a_stream_of_chunks() {
    let server = start(|_| {}).await;
    let frames = server.frames(sample::QUESTION).await;
    let reply = server.post(COMPLETIONS, &body(sample::QUESTION, true)).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["content-type"], "text/event-stream; charset=utf-8");
    let wire = OpenAi::new(completion_id(&reply), 0, "ragwire").with_usage();
    assert_eq!(steady(&reply.body, TEXT), steady(&spelled(&wire, &frames), TEXT));
}

#[tokio::test]
async fn without_stream_it_is_one_object() {
    let server = start(|_| {}).await;
    let frames = server.frames(sample::QUESTION).await;
    let text: String = frames
        .iter()
        .filter_map(|frame| match frame {
            ragwire::Frame::Text(text) => Some(&**text),
            _ => None,
        })
        .collect();
    let events: Vec<_> = frames
        .iter()
        .filter_map(|frame| match frame {
            ragwire::Frame::Event { event, timestamp } => Some((event.clone(), *timestamp)),
            _ => None,
        })
        .collect();
    let Some(ragwire::Frame::End(end)) = frames.last() else {
        panic!("{frames:?}")
    };
    let mut silent = body(sample::QUESTION, false);
    for stream in [Some(json!(false)), Some(json!(null)), None] {
        match stream {
            Some(stream) => silent["stream"] = stream,
            None => drop(silent.as_object_mut().unwrap().remove("stream")),
        }
        // A client that accepts JSON gets it; keys are ignored.
        let headers = [
            JSON,
            ("accept", "application/json"),
            ("authorization", "Bearer x"),
        ];
        let reply = server
            .call(Method::POST, COMPLETIONS, &headers, silent.to_string())
            .await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.headers["content-type"], "application/json");
        let mut seen = reply.json();
        stop_clocks(&mut seen);
        let id = seen["id"].as_str().unwrap().to_owned();
        assert_eq!((&id[..9], id.len()), ("chatcmpl-", 9 + 10 + 32));
        let mut expected =
            serde_json::to_value(OpenAi::new(id, 0, "ragwire").completion(&events, &text, end)).unwrap();
        stop_clocks(&mut expected);
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn faults_have_the_form_that_the_client_reads() {
    let server = start(|_| {}).await;
    let reply = server.post(COMPLETIONS, &body("fault:text", true)).await;
    let id = completion_id(&reply);
    let chunk = |delta: Value, more: Value| {
        let mut chunk = json!({
            "id": id, "object": "chat.completion.chunk", "created": 0, "model": "ragwire",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": null }],
        });
        for (name, value) in more.as_object().unwrap() {
            chunk[name] = value.clone();
        }
        chunk
    };
    let search = json!({ "event": "search", "tool": "fault", "query": "text", "timestamp": 0 });
    let error = json!({ "code": "chat_failed", "message": FAILED, "recoverable": true });
    assert_eq!(
        steady(&reply.body, TEXT),
        [
            chunk(json!({ "role": "assistant" }), json!({})),
            chunk(
                json!({ "reasoning_content": "Searching with fault: text\n" }),
                json!({ "ragwire": { "event": search } }),
            ),
            chunk(
                json!({ "content": "The first half of an answer that breaks " }),
                json!({})
            ),
            json!({
                "error": { "message": FAILED, "type": "server_error", "param": null, "code": "chat_failed" },
                "ragwire": { "citations": [], "tools_used": ["chat_failed"], "queue_stats": at_once(), "status": "failed", "error": error },
            }),
            json!("[DONE]"),
        ]
    );
    let reply = server.post(COMPLETIONS, &body("fault:empty", true)).await;
    let id = completion_id(&reply);
    let head = json!({ "id": id, "object": "chat.completion.chunk", "created": 0, "model": "ragwire" });
    let (mut first, mut last) = (head.clone(), head);
    first["choices"] = json!([{ "index": 0, "delta": { "role": "assistant" }, "finish_reason": null }]);
    last["choices"] = json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]);
    last["ragwire"] = json!({ "citations": [], "tools_used": [], "queue_stats": at_once() });
    assert_eq!(steady(&reply.body, TEXT), [first, last, json!("[DONE]")]);

    for (prompt, stream) in [
        ("fault:reject", true),
        ("fault:reject", false),
        ("fault:text", false),
    ] {
        let reply = server.post(COMPLETIONS, &body(prompt, stream)).await;
        let said = (500, "server_error".to_owned(), "chat_failed".to_owned());
        assert_eq!(refusal(&reply), said, "{prompt}");
    }
    let stopped = server.post(COMPLETIONS, &body("fault:stop", false)).await;
    assert_eq!(stopped.json()["choices"][0]["finish_reason"], "stop");
    assert_eq!(stopped.json()["ragwire"]["status"], "stopped");
}

#[tokio::test]
async fn the_model_is_listed_by_its_name() {
    let server = start(|_| {}).await;
    let model = json!({ "id": "ragwire", "object": "model", "created": 0, "owned_by": "ragwire" });
    let list = server.get("/v1/models").await;
    assert_eq!(
        (list.status.as_u16(), list.json()),
        (200, json!({ "object": "list", "data": [model] }))
    );
    let one = server.get("/v1/models/ragwire").await;
    assert_eq!((one.status.as_u16(), one.json()), (200, model));
    let mut other = body("Why?", true);
    other["model"] = "gpt-4o".into();
    for reply in [
        server.get("/v1/models/gpt-4o").await,
        server.get("/v1/models/%ff").await,
        server.post(COMPLETIONS, &other).await,
    ] {
        let said = (
            404,
            "invalid_request_error".to_owned(),
            "model_not_found".to_owned(),
        );
        assert_eq!(refusal(&reply), said);
    }
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let server = start(|settings| settings.max_question = Size(100)).await;
    let mut cases = no_json();
    for messages in bad_messages() {
        let mut bad = body("Why?", true);
        bad["messages"] = messages;
        cases.push((bad, 422, "invalid_request"));
    }
    for (name, value) in [
        ("model", json!(null)),
        ("model", json!(7)),
        ("messages", json!("Why?")),
        ("stream", json!("yes")),
        ("stream_options", json!(true)),
        ("stream_options", json!({ "include_usage": 1 })),
    ] {
        let mut bad = body("Why?", true);
        bad[name] = value;
        cases.push((bad, 422, "invalid_request"));
    }
    cases.push((body(&"x".repeat(101), true), 422, "invalid_request"));
    cases.push((body(&"x".repeat(2_000_000), false), 413, "body_too_large"));
    for (body, status, code) in cases {
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let case: String = body.chars().take(80).collect();
        let reply = server.call(Method::POST, COMPLETIONS, &[JSON], body).await;
        let said = (status, "invalid_request_error".to_owned(), code.to_owned());
        assert_eq!(refusal(&reply), said, "{case}");
    }
    assert_eq!(server.app.turns.active(), 0, "nothing was spent on them");
}

#[tokio::test]
async fn a_full_server_reports_it() {
    for stream in [true, false] {
        let reply = Running::busy(COMPLETIONS, &body("commit?", stream)).await;
        assert_eq!(
            refusal(&reply),
            (503, "server_error".to_owned(), "busy".to_owned())
        );
    }
}
