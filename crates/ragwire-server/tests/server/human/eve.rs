//! Questions on the routes of Eve.

use std::time::Duration;

use http::Method;
use ragwire::TurnId;
use ragwire::event::AuthorizationOutcome;
use ragwire::turn::AnswerOutcome;
use serde_json::{Value, json};

use crate::support::{Running, start};

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
async fn a_session_waits_for_an_answer() {
    let server = start(|_| {}).await;
    for (query, before, after) in [
        (
            "",
            &[
                "session.started",
                "turn.started",
                "message.received",
                "step.started",
                "actions.requested",
                "search",
                "input.requested",
                "action.result",
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
                "agent.tool_call",
                "search",
                "input.requested",
                "agent.tool_result",
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
            "the turn is not finished"
        );
        // A reader at this index waits like the session.
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
        // It is one stream now, from every index.
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

        // The session continues after it.
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
async fn wrong_answers_to_a_session_have_distinct_errors() {
    let server = start(|_| {}).await;
    let session = begin(&server, "", "fault:ask-text").await;
    let read = session.read(&server, 0).await;
    let asked = read.iter().find(|event| event["type"] == "input.requested");
    let id = asked.unwrap()["data"]["requests"][0]["requestId"]
        .as_str()
        .unwrap();
    let answer = |id: &str, text: &str| json!({ "inputResponses": [{ "requestId": id, "text": text }] });
    for (body, expected) in [
        (answer("other", "Ada"), refused(404, "There is no such question.")),
        (
            json!({ "inputResponses": [{ "requestId": id }] }),
            refused(422, "An input response needs an optionId or a text."),
        ),
        (
            json!({ "inputResponses": [{ "requestId": id, "text": "Ada" }], "message": "And?" }),
            refused(
                422,
                "Send either a message or inputResponses, not both in one request.",
            ),
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
    // The session continues.
    assert_eq!(
        session
            .post(&server, &json!({ "message": "fault:no-events" }))
            .await
            .0,
        200
    );
}

/// Consent is given on another page. A client can only decline it; the program that receives the
/// consent reports it by the turn's id.
#[tokio::test]
async fn a_consent_reaches_the_turn() {
    let server = start(|_| {}).await;
    for outcome in [AuthorizationOutcome::Authorized, AuthorizationOutcome::Declined] {
        let reply = server
            .post("/eve/v1/session", &json!({ "message": "fault:authorize" }))
            .await;
        let turn = super::turn(&reply);
        let session = format!("/eve/v1/session/{}", reply.json()["sessionId"].as_str().unwrap());
        let answer = format!("/v1/turns/{turn}/answer");
        let mut body = json!({ "request_id": "consent", "response": "authorized" });
        let forged = loop {
            let reply = server.post(&answer, &body).await;
            // The question may not be open yet.
            if reply.status != 404 {
                break reply;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert_eq!(forged.status, 422, "a client cannot give the consent itself");
        if outcome == AuthorizationOutcome::Declined {
            body["response"] = outcome.as_str().into();
            assert_eq!(
                server.post(&answer, &body).await.json(),
                json!({ "accepted": true })
            );
        } else {
            let turn = TurnId::parse(&turn).unwrap();
            let reported = server.app.journal.authorized(turn, "", "consent", outcome);
            assert_eq!(reported.await.unwrap(), AnswerOutcome::Accepted);
        }
        let lines = Session {
            path: session,
            token: String::new(),
        }
        .read(&server, 0)
        .await;
        let of = |kind: &str| lines.iter().find(|line| line["type"] == kind).unwrap();
        let required = of("authorization.required");
        let url = "https://login.example/?state=consent";
        assert_eq!(required["data"]["authorization"]["url"], url, "{required}");
        assert_eq!(of("authorization.completed")["data"]["outcome"], outcome.as_str());
        let text = format!("The consent: {}.", outcome.as_str());
        assert_eq!(of("message.completed")["data"]["message"], text.as_str());
    }
}
