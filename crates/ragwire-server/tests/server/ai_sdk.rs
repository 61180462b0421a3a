//! The route of npm `ai`.

use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use ragwire::{AiSdk, Frame, Framed, Status};
use ragwire_server::sample;
use ragwire_server::settings::values::Size;
use serde_json::{Value, json};

use crate::support::{JSON, Reply, Running, at_once, bad_messages, keys, no_json, spelled, start, steady};

const CHAT: &str = "/api/chat";
const TEXT: &str = "/delta";

/// A request as both transports send it, with alternating roles for the messages.
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
async fn faults_have_the_form_that_the_client_reads() {
    let server = start(|_| {}).await;
    let (seen, turn) = events(&server, &["fault:text"]).await;
    let message = "I hit an internal error while gathering evidence. Please retry.";
    let error = json!({ "code": "chat_failed", "message": message, "recoverable": true });
    assert_eq!(
        seen,
        [
            json!({ "type": "start", "messageId": turn }),
            json!({ "type": "tool-input-start", "toolCallId": "retrieval-1", "toolName": "search_documents",
                "dynamic": true, "providerExecuted": true }),
            json!({ "type": "tool-input-available", "toolCallId": "retrieval-1", "toolName": "search_documents",
                "input": { "query": "text", "tool": "fault" }, "dynamic": true, "providerExecuted": true,
                "providerMetadata": { "ragwire": { "event": "search" } } }),
            json!({ "type": "data-search", "data": { "event": "search", "tool": "fault", "query": "text", "timestamp": 0 } }),
            json!({ "type": "tool-output-available", "toolCallId": "retrieval-1", "output": {}, "dynamic": true,
                "providerMetadata": { "ragwire": { "event": "search" } } }),
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
async fn a_page_that_accepts_text_gets_the_framed_wire() {
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
async fn a_continued_message_keeps_its_id() {
    let server = start(|_| {}).await;
    let (seen, _) = events(&server, &["fault:empty", "Begun."]).await;
    assert_eq!(seen[0], json!({ "type": "start", "messageId": "m1" }));
    let (seen, turn) = events(&server, &["One?", "1.", "fault:empty"]).await;
    assert_eq!(seen[0], json!({ "type": "start", "messageId": turn }));
}

/// A page that lost its connection or was reloaded requests the chat's stream from its beginning.
#[tokio::test]
async fn a_chat_is_resumed_while_it_is_answered() {
    let server = start(|_| {}).await;
    let nothing = |reply: Reply| assert_eq!((reply.status.as_u16(), &reply.body[..]), (204, &b""[..]));
    for chat in ["chat-1", "", "a%2fb", "%ff"] {
        if !chat.is_empty() {
            nothing(server.get(&format!("{CHAT}/{chat}/stream")).await);
        }
    }
    let mut lost = ask(&server, "fault:ask").await;
    let turn = asked(&mut lost).await;
    drop(lost);
    let path = format!("{CHAT}/chat-1/stream");
    let mut back = server.send(Method::GET, &path, &[], "").await;
    assert_eq!(back.headers()["x-vercel-ai-ui-message-stream"], "v1");
    assert_eq!(back.headers()["x-ragwire-turn"], turn);
    asked(&mut back).await;
    nothing(server.get(&format!("{CHAT}/chat-2/stream")).await);
    let answer = json!({ "request_id": "delete", "response": "Approve" });
    assert_eq!(
        server
            .post(&format!("/v1/turns/{turn}/answer"), &answer)
            .await
            .status,
        200
    );
    let whole = server.get(&path).await;
    let whole = if whole.status == 204 {
        None
    } else {
        Some(steady(&whole.body, TEXT))
    };
    let rest = back.into_body().collect().await.unwrap().to_bytes();
    let frames = server.frames_of(&turn).await;
    let wire = AiSdk::default().message_id(&*turn);
    let all = steady(&spelled(&wire, &frames), TEXT);
    assert!(whole.is_none_or(|whole| whole == all), "from its beginning on");
    let rest = steady(&rest, TEXT);
    assert_eq!(rest, all[all.len() - rest.len()..]);
    server.until_idle().await;
    nothing(server.get(&path).await);
}

/// Asks in the chat `chat-1`.
async fn ask(server: &Running, prompt: &str) -> http::Response<Incoming> {
    let response = server
        .send(Method::POST, CHAT, &[JSON], body(&[prompt]).to_string())
        .await;
    assert_eq!(response.status(), 200);
    response
}

/// Reads until the turn asks. Returns the turn's ID.
async fn asked(response: &mut http::Response<Incoming>) -> String {
    let mut read = Vec::new();
    while !read.windows(15).any(|bytes| bytes == b"input_requested") {
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        read.extend_from_slice(&frame.into_data().unwrap());
    }
    response.headers()["x-ragwire-turn"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_chat_is_stopped_by_its_route_and_by_its_next_question() {
    let server = start(|_| {}).await;
    let stop = || server.call(Method::POST, "/api/chat/chat-1/stop", &[], "");
    assert_eq!(stop().await.json(), json!({ "stopped": false }));
    let mut first = ask(&server, "fault:ask").await;
    asked(&mut first).await;
    assert_eq!(stop().await.json(), json!({ "stopped": true }));
    assert_eq!(stop().await.json(), json!({ "stopped": false }));
    let told = first.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(told.slice(told.len() - 14..), "data: [DONE]\n\n");

    // A page that disconnected silently, and asks something else.
    let mut lost = ask(&server, "fault:ask").await;
    let turn = asked(&mut lost).await;
    drop(lost);
    // A refused request stops nothing.
    assert_eq!(server.post(CHAT, &body(&[" "])).await.status, 422);
    let other = json!({ "id": "chat-2", "messages": body(&["fault:empty"])["messages"] });
    assert_eq!(server.post(CHAT, &other).await.status, 200);
    assert_eq!(server.app.turns.active(), 1);
    let mut next = events(&server, &["fault:empty"]).await.0;
    // It waits until the previous turn has stopped, and reports that if it takes more than a
    // moment.
    next.retain(|event| event["type"] != "data-queued");
    assert_eq!(next.len(), 3);
    assert_eq!(next[1]["finishReason"], "stop");
    server.until_idle().await;
    let frames = server.frames_of(&turn).await;
    assert!(matches!(frames.last(), Some(Frame::End(end)) if end.status == Status::Stopped));
    // No session records any of them.
    let _lost = ask(&server, "fault:ask").await;
    let status = server.get("/v1/generation/status").await.json();
    assert_eq!(
        status,
        json!({ "generating_session_id": null, "queued_session_ids": [] })
    );
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let server = start(|settings| settings.max_question = Size(100)).await;
    let mut cases = no_json();
    for messages in bad_messages() {
        // Its parts have their own names.
        let messages = messages.to_string().replace("\"content\":", "\"parts\":");
        cases.push((
            format!("{{\"id\":\"c\",\"messages\":{messages}}}").into(),
            422,
            "invalid_request",
        ));
    }
    for id in [json!(""), json!("x".repeat(257)), json!(7)] {
        let mut chat = body(&["Why?"]);
        chat["id"] = id;
        cases.push((chat, 422, "invalid_request"));
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
async fn a_full_server_reports_it() {
    let reply = Running::busy(CHAT, &body(&["commit?"])).await;
    assert_eq!(reply.code(), "busy");
    assert_eq!(
        keys(&reply.json()["error"]),
        ["code", "message", "recoverable", "request_id"]
    );
}
