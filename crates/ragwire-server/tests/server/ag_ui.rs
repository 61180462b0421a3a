//! The route of AG-UI.

use ragwire::AgUi;
use ragwire_server::sample;
use ragwire_server::settings::values::Size;
use serde_json::{Value, json};

use crate::support::{Running, at_once, bad_messages, keys, no_json, spelled, start, steady};

const RUN: &str = "/ag-ui";
const TEXT: &str = "/delta";

/// The body that `HttpAgent` sends.
fn body(messages: &Value) -> Value {
    json!({
        "threadId": "t", "runId": "r", "state": {}, "messages": messages, "tools": [], "context": [], "forwardedProps": {},
    })
}

fn user(content: &str) -> Value {
    body(&json!([{ "id": "1", "role": "user", "content": content }]))
}

async fn events(server: &Running, body: &Value) -> (Vec<Value>, String) {
    let reply = server.post(RUN, body).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    assert_eq!(reply.headers["content-type"], "text/event-stream");
    let turn = reply.headers["x-ragwire-turn"].to_str().unwrap().to_owned();
    (steady(&reply.body, TEXT), turn)
}

#[tokio::test]
async fn a_turn_is_a_run() {
    let server = start(|_| {}).await;
    let frames = server.frames(sample::QUESTION).await;
    let (seen, turn) = events(&server, &user(sample::QUESTION)).await;
    let spelled = |turn: &str| steady(&spelled(&AgUi::new("t", "r").id_prefix(turn), &frames), TEXT);
    assert_eq!(seen, spelled(&turn));
    let messages = json!([
        { "id": "0", "role": "developer", "content": "Be brief." },
        { "id": "1", "role": "user", "content": "What is BM25?" },
        { "id": "2", "role": "assistant", "toolCalls": [{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }] },
        { "id": "3", "role": "tool", "toolCallId": "c", "content": "7" },
        { "id": "4", "role": "activity", "activityType": "plan", "content": { "steps": [1] } },
        { "id": "5", "role": "reasoning", "content": "Hm." },
        { "id": "6", "role": "user", "content": [{ "type": "text", "text": sample::QUESTION }] },
    ]);
    let (seen, turn) = events(&server, &body(&messages)).await;
    assert_eq!(seen, spelled(&turn));
}

#[tokio::test]
async fn faults_have_the_form_that_the_client_reads() {
    let server = start(|_| {}).await;
    let message = "I hit an internal error while gathering evidence. Please retry.";
    let error = json!({ "code": "chat_failed", "message": message, "recoverable": true });
    let (seen, turn) = events(&server, &user("fault:text")).await;
    let (message_id, call) = (format!("{turn}-message"), format!("{turn}-retrieval-1"));
    assert_eq!(
        seen,
        [
            json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "timestamp": 0 }),
            json!({ "type": "STEP_STARTED", "stepName": "retrieval", "timestamp": 0 }),
            json!({ "type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "search_documents",
                "metadata": { "event": "search" }, "timestamp": 0 }),
            json!({ "type": "TOOL_CALL_ARGS", "toolCallId": call,
                "delta": json!({ "query": "text", "tool": "fault" }).to_string(), "timestamp": 0 }),
            json!({ "type": "TOOL_CALL_END", "toolCallId": call, "timestamp": 0 }),
            json!({ "type": "CUSTOM", "name": "search", "value": { "tool": "fault", "query": "text" }, "timestamp": 0 }),
            json!({ "type": "TOOL_CALL_RESULT", "messageId": format!("{call}-result"), "toolCallId": call,
                "content": "{}", "metadata": { "event": "search" } }),
            json!({ "type": "STEP_FINISHED", "stepName": "retrieval" }),
            json!({ "type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant" }),
            json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": "The first half of an answer that breaks " }),
            json!({ "type": "TEXT_MESSAGE_END", "messageId": message_id, "timestamp": 0 }),
            json!({ "type": "RUN_ERROR", "message": message, "code": "chat_failed", "metadata": {
                "citations": [], "tools_used": ["chat_failed"], "queue_stats": at_once(), "status": "failed", "error": error,
            }, "timestamp": 0 }),
        ]
    );
    assert_eq!(
        events(&server, &user("fault:empty")).await.0,
        [
            json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "timestamp": 0 }),
            json!({
                "type": "RUN_FINISHED", "threadId": "t", "runId": "r",
                "result": { "citations": [], "tools_used": [], "queue_stats": at_once() }, "timestamp": 0,
            }),
        ]
    );
    let rejected = server.post(RUN, &user("fault:reject")).await;
    assert_eq!(
        (rejected.status.as_u16(), &*rejected.code()),
        (500, "chat_failed")
    );
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let server = start(|settings| settings.max_question = Size(100)).await;
    let mut cases = no_json();
    for messages in bad_messages() {
        cases.push((body(&messages), 422, "invalid_request"));
    }
    for (name, value) in [
        ("threadId", json!(null)),
        ("threadId", json!(7)),
        ("threadId", json!("")),
        ("runId", json!("x".repeat(257))),
        ("runId", json!({})),
        ("messages", json!(null)),
    ] {
        let mut bad = user("Why?");
        bad[name] = value;
        cases.push((bad.clone(), 422, "invalid_request"));
        bad.as_object_mut().unwrap().remove(name);
        cases.push((bad, 422, "invalid_request"));
    }
    cases.push((user(&"x".repeat(101)), 422, "invalid_request"));
    cases.push((user(&"x".repeat(2_000_000)), 413, "body_too_large"));
    server.refuses(RUN, &cases).await;
}

#[tokio::test]
async fn a_full_server_reports_it() {
    let reply = Running::busy(RUN, &user("commit?")).await;
    assert_eq!(reply.code(), "busy");
    assert_eq!(
        keys(&reply.json()["error"]),
        ["code", "message", "recoverable", "request_id"]
    );
}
