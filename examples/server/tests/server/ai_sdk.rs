//! The route of npm `ai`.

use http::Method;
use ragwire::{AiSdk, Framed};
use ragwire_server::cli::values::Size;
use ragwire_server::sample;
use serde_json::{Value, json};

use crate::support::{JSON, Running, at_once, bad_messages, keys, no_json, spelled, start, steady};

const CHAT: &str = "/api/chat";
const TEXT: &str = "/delta";

/// A request as both transports send it, with the messages of `said` in turns.
fn body(said: &[&str]) -> Value {
    let messages = said.iter().enumerate().map(|(at, text)| {
        let text = json!({ "type": "text", "text": text, "state": "done" });
        let (role, parts) = match at % 2 {
            0 => ("user", json!([text])),
            _ => ("assistant", json!([{ "type": "step-start" }, text])),
        };
        json!({ "id": format!("m{at}"), "role": role, "metadata": { "at": at }, "parts": parts })
    });
    json!({
        "id": "chat-1",
        "messages": messages.collect::<Vec<_>>(),
        "trigger": "submit-message",
        "model": "added by the page",
    })
}

async fn events(server: &Running, said: &[&str]) -> (Vec<Value>, String) {
    let reply = server.post(CHAT, &body(said)).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    assert_eq!(reply.headers["content-type"], "text/event-stream");
    assert_eq!(reply.headers["x-vercel-ai-ui-message-stream"], "v1");
    let turn = reply.headers["x-ragwire-turn"].to_str().unwrap().to_owned();
    (steady(&reply.body, TEXT), turn)
}

#[tokio::test]
async fn a_turn_is_a_message() {
    let server = start(|_| {}).await;
    let frames = server.frames(sample::QUESTION).await;
    let (seen, turn) = events(&server, &[sample::QUESTION]).await;
    let wire = AiSdk::default().message_id(&*turn);
    assert_eq!(seen, steady(&spelled(&wire, &frames), TEXT));
}

#[tokio::test]
async fn faults_are_spelled_as_the_client_reads_them() {
    let server = start(|_| {}).await;
    let (seen, turn) = events(&server, &["fault:text"]).await;
    let message = "I hit an internal error while gathering evidence. Please retry.";
    let error = json!({ "code": "chat_failed", "message": message, "recoverable": true });
    assert_eq!(
        seen,
        [
            json!({ "type": "start", "messageId": turn }),
            json!({ "type": "data-search", "data": { "event": "search", "tool": "fault", "query": "text", "timestamp": 0 } }),
            json!({ "type": "text-start", "id": "text-1" }),
            json!({ "type": "text-delta", "id": "text-1", "delta": "The first half of an answer that breaks " }),
            json!({ "type": "text-end", "id": "text-1" }),
            json!({ "type": "message-metadata", "messageMetadata": {
                "citations": [], "tools_used": ["chat_failed"], "queue_stats": at_once(), "status": "failed", "error": error,
            } }),
            json!({ "type": "error", "errorText": message }),
            json!({ "type": "finish", "finishReason": "error" }),
            json!("[DONE]"),
        ]
    );
    let (seen, turn) = events(&server, &["fault:empty"]).await;
    assert_eq!(
        seen,
        [
            json!({ "type": "start", "messageId": turn }),
            json!({ "type": "finish", "finishReason": "stop", "messageMetadata": { "citations": [], "tools_used": [], "queue_stats": at_once() } }),
            json!("[DONE]"),
        ]
    );
    let rejected = server.post(CHAT, &body(&["fault:reject"])).await;
    assert_eq!(
        (rejected.status.as_u16(), &*rejected.code()),
        (500, "chat_failed")
    );
}

#[tokio::test]
async fn a_page_that_reads_text_gets_the_framed_wire() {
    let server = start(|_| {}).await;
    for (accept, content_type) in [
        ("text/plain", "text/plain; charset=utf-8"),
        ("text/event-stream", "text/event-stream"),
        ("*/*", "text/event-stream"),
    ] {
        let headers = [JSON, ("accept", accept)];
        let reply = server
            .call(
                Method::POST,
                CHAT,
                &headers,
                body(&["fault:no-events"]).to_string(),
            )
            .await;
        assert_eq!(reply.headers["content-type"], content_type, "{accept}");
        if accept == "text/plain" {
            let frames = server.frames("fault:no-events").await;
            assert_eq!(reply.body, spelled(&Framed::default(), &frames));
        }
    }
    let headers = [JSON, ("accept", "application/json")];
    let reply = server
        .call(Method::POST, CHAT, &headers, body(&["commit?"]).to_string())
        .await;
    assert_eq!((reply.status.as_u16(), &*reply.code()), (406, "not_acceptable"));
}

#[tokio::test]
async fn the_message_that_is_continued_keeps_its_id() {
    let server = start(|_| {}).await;
    let (seen, _) = events(&server, &["fault:empty", "Begun."]).await;
    assert_eq!(seen[0], json!({ "type": "start", "messageId": "m1" }));
    let (seen, turn) = events(&server, &["One?", "1.", "fault:empty"]).await;
    assert_eq!(seen[0], json!({ "type": "start", "messageId": turn }));
}

#[tokio::test]
async fn there_is_nothing_to_resume() {
    let server = start(|_| {}).await;
    let reply = server.get("/api/chat/chat-1/stream").await;
    assert_eq!((reply.status.as_u16(), &reply.body[..]), (204, &b""[..]));
}

#[tokio::test]
async fn what_it_cannot_answer_is_refused() {
    let server = start(|settings| settings.max_question = Size(100)).await;
    let mut cases = no_json();
    for messages in bad_messages() {
        // Its parts go by their own name.
        let messages = messages.to_string().replace("\"content\":", "\"parts\":");
        cases.push((
            format!("{{\"id\":\"c\",\"messages\":{messages}}}").into(),
            422,
            "invalid_request",
        ));
    }
    cases.push((body(&["Why?"])["messages"].clone(), 422, "invalid_request"));
    cases.push((body(&[&"x".repeat(101)]), 422, "invalid_request"));
    cases.push((body(&[&"x".repeat(2_000_000)]), 413, "body_too_large"));
    let mut file = body(&["Why?"]);
    file["messages"][0]["parts"][0] = json!({ "type": "file", "mediaType": "text/plain", "url": "data:," });
    cases.push((file, 422, "invalid_request"));
    server.refuses(CHAT, &cases).await;
}

#[tokio::test]
async fn a_full_server_says_so() {
    let reply = Running::busy(CHAT, &body(&["commit?"])).await;
    assert_eq!(reply.code(), "busy");
    assert_eq!(
        keys(&reply.json()["error"]),
        ["code", "message", "recoverable", "request_id"]
    );
}
