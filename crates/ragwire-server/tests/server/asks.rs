//! Questions to a human on wires whose stream ends there, and whose clients answer with their next request: AI SDK, AG-UI, Eve.

use std::time::Duration;

use http::Method;
use ragwire_server::settings::values::{Count, CountOrZero, Header};
use serde_json::{Value, json};

use crate::support::{JSON, Reply, Running, start, steady};

const CHAT: &str = "/api/chat";
const RUN: &str = "/ag-ui";
const APPROVALS: (&str, &str) = ("x-ragwire-approvals", "true");

fn text(pointer: &'static str) -> impl Fn(&Reply) -> Vec<Value> {
    move |reply| {
        assert_eq!(reply.status, 200, "{:?}", reply.body);
        steady(&reply.body, pointer)
    }
}

/// Status and code of a refusal in the form of ADR 0007.
fn refusal(reply: &Reply) -> (u16, String) {
    (reply.status.as_u16(), reply.code())
}

fn turn(reply: &Reply) -> String {
    reply.headers["x-ragwire-turn"].to_str().unwrap().to_owned()
}

async fn stop(server: &Running, turn: &str) {
    let path = format!("/v1/turns/{turn}/stop");
    let stopped = server.call(Method::POST, &path, &[], "").await;
    assert_eq!(stopped.json(), json!({ "stopped": true }));
    server.until_idle().await;
}

// AI SDK

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

fn approval(id: &str, approved: bool) -> Value {
    tool(
        id,
        &json!({ "state": "approval-responded", "approval": { "id": id, "approved": approved } }),
    )
}

fn said(id: &str, output: &str) -> Value {
    tool(id, &json!({ "state": "output-available", "output": output }))
}

/// The request that follows an answer: the whole conversation, with the answer in the assistant's message `id`.
fn answered(chat: &str, prompt: &str, id: &str, parts: &[Value]) -> Value {
    let assistant = json!({ "id": id, "role": "assistant", "parts": parts });
    json!({ "id": chat, "messages": [user(prompt), assistant], "trigger": "submit-message", "messageId": id })
}

async fn chat(server: &Running, headers: &[(&str, &str)], body: &Value) -> Reply {
    let headers = [&[JSON], headers].concat();
    server.call(Method::POST, CHAT, &headers, body.to_string()).await
}

async fn ask_in(server: &Running, chat_id: &str, prompt: &str) -> Reply {
    let body = json!({ "id": chat_id, "messages": [user(prompt)], "trigger": "submit-message" });
    chat(server, &[APPROVALS], &body).await
}

#[tokio::test]
async fn a_chat_goes_on_with_its_approval() {
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
            json!({ "type": "data-search", "data": { "event": "search", "tool": "fault", "query": "ask", "timestamp": 0 } }),
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

        // A page that is loaded again meanwhile is told the same.
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

        // The answer was lost on the way back: the same request has the same answer, also when all is over.
        server.until_idle().await;
        assert_eq!(parts(&chat(&server, &[APPROVALS], &body).await), rest);
        // The page has the outcome by now, and sends it along; header or not.
        let known = answered(
            &id,
            "fault:ask",
            &turn,
            &[if approved {
                said("delete", "Approve")
            } else {
                tool(
                    "delete",
                    &json!({ "state": "output-denied", "approval": { "id": "delete", "approved": false } }),
                )
            }],
        );
        assert_eq!(parts(&chat(&server, &[], &known).await), rest);
        // Another one is refused, and changes nothing.
        let other = answered(&id, "fault:ask", &turn, &[approval("delete", !approved)]);
        let refused = chat(&server, &[APPROVALS], &other).await;
        assert_eq!(refusal(&refused), (409, "ask_answered".into()));
    }
}

#[tokio::test]
async fn a_chat_takes_words_and_a_missing_approval_is_none() {
    let server = start(|_| {}).await;
    let parts = text("/delta");
    let reply = ask_in(&server, "c", "fault:ask-text").await;
    let turn = turn(&reply);
    let asked = parts(&reply);
    let request_id = asked[2]["toolCallId"].as_str().unwrap();
    assert_eq!(
        asked[2].get("providerExecuted"),
        None,
        "it is the page's to answer"
    );
    let body = answered("c", "fault:ask-text", &turn, &[approval(request_id, true)]);
    let refused = chat(&server, &[APPROVALS], &body).await;
    assert_eq!(refusal(&refused), (422, "answer_invalid".into()));
    let body = answered("c", "fault:ask-text", &turn, &[said(request_id, "Ada")]);
    let rest = parts(&chat(&server, &[APPROVALS], &body).await);
    let texts: Vec<_> = rest.iter().filter_map(|part| part["delta"].as_str()).collect();
    assert!(texts.concat().contains("Ada"), "{rest:?}");
}

#[tokio::test]
async fn wrong_answers_of_a_chat_are_told_apart() {
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
        "somebody else's"
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
    let invalid = post(&[APPROVALS, alice], "c", said("delete", "Perhaps")).await;
    assert_eq!(invalid, (422, "answer_invalid".into()));
    let stopped = server
        .call(Method::POST, &format!("{CHAT}/c/stop"), &[alice], "")
        .await;
    assert_eq!(stopped.json(), json!({ "stopped": true }));
    let late = post(&[APPROVALS, alice], "c", yes()).await;
    assert_eq!(late, (410, "ask_over".into()));
}

#[tokio::test]
async fn a_full_server_takes_answers() {
    let server =
        start(|settings| (settings.max_turns, settings.max_queued) = (Count(1), CountOrZero(0))).await;
    let reply = ask_in(&server, "c", "fault:ask").await;
    let turn = turn(&reply);
    let refused = ask_in(&server, "d", "fault:ask").await;
    assert_eq!(refused.status, 503, "it waits with its place");
    let body = answered("c", "fault:ask", &turn, &[approval("delete", true)]);
    assert_eq!(chat(&server, &[APPROVALS], &body).await.status, 200);
    server.until_idle().await;

    let reply = server.post(RUN, &run("fault:ask", &json!(null))).await;
    let interrupt = interrupts(&reply)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.post(RUN, &run("Why?", &json!(null))).await.status, 503);
    let resume = json!([{ "interruptId": interrupt, "status": "resolved", "payload": "Reject" }]);
    assert_eq!(server.post(RUN, &run("fault:ask", &resume)).await.status, 200);
}

/// Without the header a page is told of the question as of any other event, and its stream stays open.
#[tokio::test]
async fn a_chat_that_knows_no_approvals_reads_on() {
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
                "data-search",
                "data-input_requested",
                "data-input_resolved",
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

// AG-UI

fn run(prompt: &str, resume: &Value) -> Value {
    let mut body = json!({
        "threadId": "t", "runId": "r", "state": {}, "messages": [{ "id": "u", "role": "user", "content": prompt }],
        "tools": [], "context": [], "forwardedProps": {},
    });
    if !resume.is_null() {
        body["resume"] = resume.clone();
    }
    body
}

fn interrupts(reply: &Reply) -> Vec<Value> {
    let events = text("/delta")(reply);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["outcome"]["type"]),
        (&json!("RUN_FINISHED"), &json!("interrupt"))
    );
    last["outcome"]["interrupts"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_run_goes_on_with_its_answer() {
    let server = start(|_| {}).await;
    let events = text("/delta");
    for (entry, says) in [
        (
            json!({ "status": "resolved", "payload": "Approve" }),
            "They are deleted.",
        ),
        (
            json!({ "status": "resolved", "payload": "Reject" }),
            "They are left alone.",
        ),
        // Nobody answers, and there is a no.
        (json!({ "status": "cancelled" }), "They are left alone."),
    ] {
        let reply = server.post(RUN, &run("fault:ask", &json!(null))).await;
        let turn = turn(&reply);
        let interrupt = format!("{turn}-delete");
        assert_eq!(
            interrupts(&reply),
            [
                json!({ "id": interrupt, "reason": "approval", "message": "Delete 3 files?",
                "responseSchema": { "type": "string", "enum": ["Approve", "Reject"] } })
            ]
        );
        let mut entry = entry;
        entry["interruptId"] = interrupt.clone().into();
        let mut body = run("fault:ask", &json!([entry]));
        body["runId"] = "r2".into();
        let reply = server.post(RUN, &body).await;
        assert_eq!(self::turn(&reply), turn);
        let rest = events(&reply);
        let message = format!("{turn}-message");
        assert_eq!(
            rest[0],
            json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r2" })
        );
        assert_eq!(
            (&rest[1]["type"], &rest[1]["name"]),
            (&json!("CUSTOM"), &json!("input_resolved"))
        );
        assert_eq!(
            rest[2],
            json!({ "type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant" })
        );
        assert_eq!(
            rest[3],
            json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": says })
        );
        let last = &rest[5];
        assert_eq!(
            (rest.len(), &last["type"], &last["runId"]),
            (6, &json!("RUN_FINISHED"), &json!("r2"))
        );
        assert_eq!(last.get("outcome"), None);

        server.until_idle().await;
        assert_eq!(events(&server.post(RUN, &body).await), rest, "the same again");
        let other = if says == "They are deleted." {
            "Reject"
        } else {
            "Approve"
        };
        let other = json!([{ "interruptId": interrupt, "status": "resolved", "payload": other }]);
        let refused = server.post(RUN, &run("fault:ask", &other)).await;
        assert_eq!(refusal(&refused), (409, "ask_answered".into()));
    }
}

#[tokio::test]
async fn wrong_answers_of_a_run_are_told_apart() {
    let server = start(|settings| settings.owner_header = "X-User".parse::<Header>().unwrap()).await;
    let call = async |user: &str, body: Value| {
        let headers = [JSON, ("x-user", user)];
        server.call(Method::POST, RUN, &headers, body.to_string()).await
    };
    let reply = call("alice", run("fault:ask-text", &json!(null))).await;
    let turn = turn(&reply);
    let interrupt = interrupts(&reply)[0].clone();
    assert_eq!(interrupt["responseSchema"], json!({ "type": "string" }));
    let id = interrupt["id"].as_str().unwrap().to_owned();
    let resolved = |id: &str| json!({ "interruptId": id, "status": "resolved", "payload": "Ada" });
    let answer = async |user: &str, resume: Value| {
        let reply = call(user, run("?", &resume)).await;
        refusal(&reply)
    };
    let unknown = (404, "ask_unknown".to_owned());
    let nobody = format!("{}-x", "0".repeat(32));
    for wrong in ["", "x", "x-y", &nobody, &format!("{turn}-other"), &turn] {
        assert_eq!(
            answer("alice", json!([resolved(wrong)])).await,
            unknown,
            "{wrong}"
        );
    }
    assert_eq!(answer("mallory", json!([resolved(&id)])).await, unknown);
    let two = answer("alice", json!([resolved(&id), resolved(&nobody)])).await;
    assert_eq!(two, (422, "invalid_request".into()));
    let nothing = json!([{ "interruptId": id, "status": "resolved" }]);
    assert_eq!(answer("alice", nothing).await, (422, "answer_invalid".into()));
    let word = json!([{ "interruptId": id, "status": "answered" }]);
    assert_eq!(answer("alice", word).await, (422, "invalid_request".into()));

    // A question without a no that is abandoned: its turn is stopped, and says so.
    let cancelled = json!([{ "interruptId": id, "status": "cancelled" }]);
    let events = text("/delta")(&call("alice", run("?", &cancelled)).await);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["outcome"]),
        (&json!("RUN_FINISHED"), &json!({ "type": "cancelled" }))
    );
    server.until_idle().await;
    assert_eq!(
        answer("alice", json!([resolved(&id)])).await,
        (410, "ask_over".into())
    );
    // It can be abandoned still: the client has to get past it.
    assert_eq!(call("alice", run("?", &cancelled)).await.status, 200);
}

// Eve

struct Session {
    path: String,
    token: String,
}

async fn begin(server: &Running, query: &str, message: &str) -> Session {
    let path = format!("/eve/v1/session{query}");
    let reply = server.post(&path, &json!({ "message": message })).await;
    assert_eq!(reply.status, 202, "{:?}", reply.body);
    let body = reply.json();
    Session {
        path: format!("/eve/v1/session/{}", body["sessionId"].as_str().unwrap()),
        token: body["continuationToken"].as_str().unwrap().to_owned(),
    }
}

impl Session {
    async fn read(&self, server: &Running, start_index: usize) -> Vec<Value> {
        let path = format!("{}/stream?startIndex={start_index}", self.path);
        let reply = tokio::time::timeout(Duration::from_secs(60), server.get(&path))
            .await
            .unwrap();
        assert_eq!(reply.status, 200);
        let lines = reply
            .body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    async fn post(&self, server: &Running, body: &Value) -> (u16, Value) {
        let mut body = body.clone();
        if body.get("continuationToken").is_none() {
            body["continuationToken"] = self.token.clone().into();
        }
        let reply = server.post(&self.path, &body).await;
        (reply.status.as_u16(), reply.json())
    }
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().unwrap()).collect()
}

fn refused(status: u16, error: &str) -> (u16, Value) {
    (status, json!({ "ok": false, "error": error }))
}

#[tokio::test]
async fn a_session_waits_at_a_question() {
    let server = start(|_| {}).await;
    for (query, before, after) in [
        (
            "",
            &[
                "session.started",
                "turn.started",
                "message.received",
                "step.started",
                "search",
                "input.requested",
                "step.completed",
                "session.waiting",
            ][..],
            &[
                "step.started",
                "action.result",
                "message.appended",
                "message.completed",
                "step.completed",
                "turn.completed",
                "session.waiting",
            ][..],
        ),
        (
            "?vocabulary=documented",
            &[
                "session.started",
                "message.appended",
                "agent.start",
                "search",
                "input.requested",
                "session.waiting",
            ],
            &[
                "input.resolved",
                "agent.content.delta",
                "message.appended",
                "message.completed",
                "agent.complete",
                "session.waiting",
            ],
        ),
    ] {
        let session = begin(&server, query, "fault:ask").await;
        let read = session.read(&server, 0).await;
        assert_eq!(types(&read), before);
        assert_eq!(
            read.last().unwrap()["data"].get("metadata"),
            None,
            "the turn is not over"
        );
        // Whoever has read that waits as the session does.
        assert_eq!(session.read(&server, before.len()).await, Vec::<Value>::new());
        assert_eq!(session.read(&server, 3).await, read[3..]);
        let message = session.post(&server, &json!({ "message": "Hello?" })).await;
        assert_eq!(message, refused(409, "Session is still active."));

        let answer = json!({ "inputResponses": [{ "requestId": "delete", "optionId": "Approve" }] });
        let (status, body) = session.post(&server, &answer).await;
        assert_eq!((status, &body["ok"]), (200, &json!(true)));
        let rest = session.read(&server, before.len()).await;
        assert_eq!(types(&rest), after);
        assert!(rest.last().unwrap()["data"].get("metadata").is_some());
        // All of it is one stream now, for whoever reads it from anywhere.
        let whole = [read, rest].concat();
        for from in 0..=whole.len() {
            assert_eq!(
                session.read(&server, from).await,
                whole[from..],
                "{query} from {from}"
            );
        }
        assert_eq!(session.post(&server, &answer).await.0, 200, "equal again");
        let other = json!({ "inputResponses": [{ "requestId": "delete", "optionId": "Reject" }] });
        assert_eq!(
            session.post(&server, &other).await,
            refused(409, "The question has another answer already.")
        );

        // And the session goes on behind it.
        let (status, _) = session
            .post(&server, &json!({ "message": "fault:no-events" }))
            .await;
        assert_eq!(status, 200);
        let next = session.read(&server, whole.len()).await;
        assert_eq!(next.last().unwrap()["type"], "session.waiting");
        assert_eq!(session.read(&server, 0).await, [whole, next].concat());
    }
}

#[tokio::test]
async fn wrong_answers_of_a_session_are_told_apart() {
    let server = start(|_| {}).await;
    let session = begin(&server, "", "fault:ask-text").await;
    let read = session.read(&server, 0).await;
    let requests = &read[read.len() - 3]["data"]["requests"];
    let id = requests[0]["requestId"].as_str().unwrap();
    let answer = |id: &str, text: &str| json!({ "inputResponses": [{ "requestId": id, "text": text }] });
    for (body, expected) in [
        (answer("other", "Ada"), refused(404, "There is no such question.")),
        (
            json!({ "inputResponses": [{ "requestId": id }] }),
            refused(422, "An input response has an optionId or a text."),
        ),
        (
            json!({ "inputResponses": [{ "requestId": id, "text": "Ada" }], "message": "And?" }),
            refused(422, "A message and inputResponses are sent one after the other."),
        ),
        (
            json!({ "inputResponses": [{ "requestId": id, "text": "Ada" }], "continuationToken": "eve_0" }),
            refused(409, "Stale or missing continuation token."),
        ),
    ] {
        assert_eq!(session.post(&server, &body).await, expected, "{body}");
    }
    let nobody = Session {
        path: "/eve/v1/session/ses_0".into(),
        token: session.token.clone(),
    };
    assert_eq!(
        nobody.post(&server, &answer(id, "Ada")).await,
        refused(404, "Session not found.")
    );
    let begun = json!({ "inputResponses": [{ "requestId": id, "text": "Ada" }], "message": "Why?" });
    let reply = server.post("/eve/v1/session", &begun).await;
    assert_eq!(reply.status, 422);

    let cancelled = server
        .call(Method::POST, &format!("{}/cancel", session.path), &[], "")
        .await;
    assert_eq!(cancelled.status, 202);
    server.until_idle().await;
    assert_eq!(session.post(&server, &answer(id, "Ada")).await.0, 410);
    let rest = session.read(&server, read.len()).await;
    assert_eq!(rest.last().unwrap()["data"]["metadata"]["status"], "stopped");
    // And it goes on.
    assert_eq!(
        session
            .post(&server, &json!({ "message": "fault:no-events" }))
            .await
            .0,
        200
    );
}

/// A turn that waits outlives every reader, whatever the server does with turns that nobody reads.
#[tokio::test]
async fn nobody_reads_while_a_human_thinks() {
    let server = start(crate::support::no_grace).await;
    let reply = ask_in(&server, "c", "fault:ask").await;
    let chat_turn = turn(&reply);
    let run_reply = server.post(RUN, &run("fault:ask", &json!(null))).await;
    let run_turn = turn(&run_reply);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.app.turns.active(), 2);
    let body = answered("c", "fault:ask", &chat_turn, &[approval("delete", true)]);
    let parts = text("/delta")(&chat(&server, &[], &body).await);
    assert_eq!(parts[parts.len() - 2]["finishReason"], "stop");
    let resume =
        json!([{ "interruptId": format!("{run_turn}-delete"), "status": "resolved", "payload": "Approve" }]);
    let events = text("/delta")(&server.post(RUN, &run("?", &resume)).await);
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");

    // One that is stopped meanwhile holds nothing.
    let reply = server.post(RUN, &run("fault:ask", &json!(null))).await;
    stop(&server, &turn(&reply)).await;
    assert_eq!(server.app.turns.active(), 0);
}
