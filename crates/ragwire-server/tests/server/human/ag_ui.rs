//! Questions on the route of AG-UI.

use http::Method;
use ragwire_server::settings::values::Header;
use serde_json::{Value, json};

use super::{refusal, text, turn};
use crate::support::{JSON, Reply, start};

pub(super) const RUN: &str = "/ag-ui";

pub(super) fn run(prompt: &str, resume: &Value) -> Value {
    let mut body = json!({
        "threadId": "t", "runId": "r", "state": {}, "messages": [{ "id": "u", "role": "user", "content": prompt }],
        "tools": [], "context": [], "forwardedProps": {},
    });
    if !resume.is_null() {
        body["resume"] = resume.clone();
    }
    body
}

pub(super) fn interrupts(reply: &Reply) -> Vec<Value> {
    let events = text("/delta")(reply);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["outcome"]["type"]),
        (&json!("RUN_FINISHED"), &json!("interrupt"))
    );
    last["outcome"]["interrupts"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_answer_continues_the_run() {
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
        // Without an answer, the option that declines is chosen.
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
async fn wrong_answers_to_a_run_have_distinct_errors() {
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

    // A question without an option to decline is abandoned: its turn is stopped and reports it.
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
    // It can still be abandoned, so that the client can continue.
    assert_eq!(call("alice", run("?", &cancelled)).await.status, 200);
}
