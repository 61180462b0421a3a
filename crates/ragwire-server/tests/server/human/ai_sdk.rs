//! Questions on the route of npm `ai`.

use http::Method;
use ragwire_server::settings::values::Header;
use serde_json::{Value, json};

use super::{refusal, text, turn};
use crate::support::{JSON, Reply, Running, start, steady};

pub(super) const CHAT: &str = "/api/chat";
pub(super) const APPROVALS: (&str, &str) = ("x-ragwire-approvals", "true");

fn user(prompt: &str) -> Value {
    json!({ "id": "u", "role": "user", "parts": [{ "type": "text", "text": prompt }] })
}

fn tool(id: &str, more: &Value) -> Value {
    let mut part =
        json!({ "type": "dynamic-tool", "toolName": "ask_question", "toolCallId": id, "input": {} });
    part.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    part
}

pub(super) fn approval(id: &str, approved: bool) -> Value {
    tool(
        id,
        &json!({ "state": "approval-responded", "approval": { "id": id, "approved": approved } }),
    )
}

fn output(id: &str, text: &str) -> Value {
    tool(id, &json!({ "state": "output-available", "output": text }))
}

/// The request that follows an answer: the whole conversation, with the answer in the assistant's
/// message `id`.
pub(super) fn answered(chat: &str, prompt: &str, id: &str, parts: &[Value]) -> Value {
    let assistant = json!({ "id": id, "role": "assistant", "parts": parts });
    json!({ "id": chat, "messages": [user(prompt), assistant], "trigger": "submit-message", "messageId": id })
}

pub(super) async fn chat(server: &Running, headers: &[(&str, &str)], body: &Value) -> Reply {
    let headers = [&[JSON], headers].concat();
    server.call(Method::POST, CHAT, &headers, body.to_string()).await
}

pub(super) async fn ask_in(server: &Running, chat_id: &str, prompt: &str) -> Reply {
    let body = json!({ "id": chat_id, "messages": [user(prompt)], "trigger": "submit-message" });
    chat(server, &[APPROVALS], &body).await
}

#[tokio::test]
async fn an_approval_continues_the_chat() {
    let server = start(|_| {}).await;
    let parts = text("/delta");
    for (approved, outcome, says) in [
        (
            true,
            json!({ "type": "tool-output-available", "toolCallId": "delete", "output": "Approve", "dynamic": true,
                "providerMetadata": { "ragwire": { "event": "input_resolved", "timestamp": 0 } } }),
            "They are deleted.",
        ),
        (
            false,
            json!({ "type": "tool-output-denied", "toolCallId": "delete" }),
            "They are left alone.",
        ),
    ] {
        let id = format!("chat-{approved}");
        let reply = ask_in(&server, &id, "fault:ask").await;
        let turn = turn(&reply);
        let expected = [
            json!({ "type": "start", "messageId": turn }),
            json!({ "type": "tool-input-start", "toolCallId": "retrieval-1", "toolName": "search_documents",
                "dynamic": true, "providerExecuted": true }),
            json!({ "type": "tool-input-available", "toolCallId": "retrieval-1", "toolName": "search_documents",
                "input": { "query": "ask", "tool": "fault" }, "dynamic": true, "providerExecuted": true,
                "providerMetadata": { "ragwire": { "event": "search" } } }),
            json!({ "type": "data-search", "data": { "event": "search", "tool": "fault", "query": "ask", "timestamp": 0 } }),
            json!({ "type": "tool-output-available", "toolCallId": "retrieval-1", "output": {}, "dynamic": true,
                "providerMetadata": { "ragwire": { "event": "search" } } }),
            json!({ "type": "tool-input-start", "toolCallId": "delete", "toolName": "ask_question", "dynamic": true, "providerExecuted": true }),
            json!({ "type": "tool-input-available", "toolCallId": "delete", "toolName": "ask_question",
                "input": { "kind": "approval", "prompt": "Delete 3 files?", "options": ["Approve", "Reject"] },
                "dynamic": true, "providerExecuted": true,
                "providerMetadata": { "ragwire": { "event": "input_requested", "timestamp": 0 } } }),
            json!({ "type": "tool-approval-request", "approvalId": "delete", "toolCallId": "delete" }),
            json!({ "type": "finish", "finishReason": "tool-calls" }),
            json!("[DONE]"),
        ];
        assert_eq!(parts(&reply), expected);

        // A page that is reloaded meanwhile gets the same.
        let path = format!("{CHAT}/{id}/stream");
        let again = server.call(Method::GET, &path, &[APPROVALS], "").await;
        assert_eq!(parts(&again), expected);

        let body = answered(&id, "fault:ask", &turn, &[approval("delete", approved)]);
        let reply = chat(&server, &[APPROVALS], &body).await;
        assert_eq!(self::turn(&reply), turn);
        let rest = parts(&reply);
        assert_eq!(
            rest[..6],
            [
                json!({ "type": "start", "messageId": turn }),
                json!({ "type": "start-step" }),
                outcome,
                json!({ "type": "text-start", "id": "text-1" }),
                json!({ "type": "text-delta", "id": "text-1", "delta": says }),
                json!({ "type": "text-end", "id": "text-1" }),
            ]
        );
        assert_eq!(
            (&rest[6]["type"], &rest[6]["finishReason"]),
            (&json!("finish"), &json!("stop"))
        );
        assert_eq!((rest.len(), &rest[7]), (8, &json!("[DONE]")));

        // If the response was lost, the same request gets it again, even after the turn has
        // finished.
        server.until_idle().await;
        assert_eq!(parts(&chat(&server, &[APPROVALS], &body).await), rest);
        // The page knows the outcome by now and sends it along, with or without the header.
        let known = answered(
            &id,
            "fault:ask",
            &turn,
            &[if approved {
                output("delete", "Approve")
            } else {
                tool(
                    "delete",
                    &json!({ "state": "output-denied", "approval": { "id": "delete", "approved": false } }),
                )
            }],
        );
        assert_eq!(parts(&chat(&server, &[], &known).await), rest);
        // A different answer is refused and changes nothing.
        let other = answered(&id, "fault:ask", &turn, &[approval("delete", !approved)]);
        let refused = chat(&server, &[APPROVALS], &other).await;
        assert_eq!(refusal(&refused), (409, "ask_answered".into()));
    }
}

#[tokio::test]
async fn a_chat_accepts_text_but_no_approval_for_it() {
    let server = start(|_| {}).await;
    let parts = text("/delta");
    let reply = ask_in(&server, "c", "fault:ask-text").await;
    let turn = turn(&reply);
    let asked = parts(&reply);
    let question = asked
        .iter()
        .find(|part| part["toolName"] == "ask_question")
        .unwrap();
    let request_id = question["toolCallId"].as_str().unwrap();
    assert_eq!(question.get("providerExecuted"), None, "the page answers it");
    let body = answered("c", "fault:ask-text", &turn, &[approval(request_id, true)]);
    let refused = chat(&server, &[APPROVALS], &body).await;
    assert_eq!(refusal(&refused), (422, "answer_invalid".into()));
    let body = answered("c", "fault:ask-text", &turn, &[output(request_id, "Ada")]);
    let rest = parts(&chat(&server, &[APPROVALS], &body).await);
    let texts: Vec<_> = rest.iter().filter_map(|part| part["delta"].as_str()).collect();
    assert!(texts.concat().contains("Ada"), "{rest:?}");
}

#[tokio::test]
async fn wrong_answers_to_a_chat_have_distinct_errors() {
    let server = start(|settings| settings.owner_header = "X-User".parse::<Header>().unwrap()).await;
    let (alice, mallory) = (("x-user", "alice"), ("x-user", "mallory"));
    let body = json!({ "id": "c", "messages": [user("fault:ask")], "trigger": "submit-message" });
    let reply = chat(&server, &[APPROVALS, alice], &body).await;
    assert_eq!(reply.status, 200);
    let turn = turn(&reply);
    let post = async |headers: &[(&str, &str)], chat_id: &str, part: Value| {
        let body = answered(chat_id, "fault:ask", &turn, &[part]);
        refusal(&chat(&server, headers, &body).await)
    };
    let unknown = (404, "ask_unknown".to_owned());
    let yes = || approval("delete", true);
    assert_eq!(
        post(&[APPROVALS, mallory], "c", yes()).await,
        unknown,
        "another owner"
    );
    assert_eq!(
        post(&[APPROVALS, alice], "d", yes()).await,
        unknown,
        "another chat"
    );
    assert_eq!(
        post(&[APPROVALS, alice], "c", approval("other", true)).await,
        unknown,
        "not asked"
    );
    assert_eq!(post(&[APPROVALS], "c", yes()).await.0, 401);
    let text = [APPROVALS, alice, ("accept", "text/plain")];
    assert_eq!(post(&text, "c", yes()).await, (422, "invalid_request".into()));
    let invalid = post(&[APPROVALS, alice], "c", output("delete", "Perhaps")).await;
    assert_eq!(invalid, (422, "answer_invalid".into()));
    let stopped = server
        .call(Method::POST, &format!("{CHAT}/c/stop"), &[alice], "")
        .await;
    assert_eq!(stopped.json(), json!({ "stopped": true }));
    let late = post(&[APPROVALS, alice], "c", yes()).await;
    assert_eq!(late, (410, "ask_over".into()));
}

/// Without the header a page gets the question as an ordinary event, and its stream stays open.
#[tokio::test]
async fn a_chat_without_approvals_continues_to_read() {
    let server = start(|_| {}).await;
    let body = json!({ "id": "c", "messages": [user("fault:ask")], "trigger": "submit-message" });
    for headers in [&[][..], &[("x-ragwire-approvals", "false")]] {
        let headers = [&[JSON], headers].concat();
        let mut response = server.send(Method::POST, CHAT, &headers, body.to_string()).await;
        let turn = response.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
        let mut read = Vec::new();
        let body = response.body_mut();
        while !String::from_utf8_lossy(&read).contains("input_requested") {
            let frame = http_body_util::BodyExt::frame(body).await.unwrap().unwrap();
            read.extend_from_slice(&frame.into_data().unwrap());
        }
        let answer = json!({ "request_id": "delete", "response": "Approve" });
        let path = format!("/v1/turns/{turn}/answer");
        assert_eq!(
            server.post(&path, &answer).await.json(),
            json!({ "accepted": true })
        );
        let rest = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap();
        read.extend_from_slice(&rest.to_bytes());
        let types: Vec<_> = steady(&read, "/delta")
            .iter()
            .map(|part| part["type"].clone())
            .collect();
        assert_eq!(
            json!(types),
            json!([
                "start",
                "tool-input-start",
                "tool-input-available",
                "data-search",
                "data-input_requested",
                "data-input_resolved",
                "tool-output-available",
                "text-start",
                "text-delta",
                "text-end",
                "finish",
                null
            ])
        );
        server.until_idle().await;
    }
}
