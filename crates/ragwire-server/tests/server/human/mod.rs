//! Questions to a human on wires whose stream ends at the question and whose clients answer with
//! their next request: AI SDK, AG-UI, Eve.

mod ag_ui;
mod ai_sdk;
mod eve;

use std::time::Duration;

use http::Method;
use ragwire_server::settings::values::{Count, CountOrZero};
use serde_json::{Value, json};

use self::ag_ui::{RUN, interrupts, run};
use self::ai_sdk::{APPROVALS, answered, approval, ask_in, chat};
use crate::support::{Reply, Running, start, steady};

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

#[tokio::test]
async fn a_full_server_accepts_answers() {
    let server =
        start(|settings| (settings.max_turns, settings.max_queued) = (Count(1), CountOrZero(0))).await;
    let reply = ask_in(&server, "c", "fault:ask").await;
    let turn = turn(&reply);
    let refused = ask_in(&server, "d", "fault:ask").await;
    assert_eq!(refused.status, 503, "a waiting turn keeps its place");
    let body = answered("c", "fault:ask", &turn, &[approval("delete", true)]);
    assert_eq!(chat(&server, &[APPROVALS], &body).await.status, 200);
    server.until_idle().await;

    let reply = server.post(RUN, &run("fault:ask", &json!(null))).await;
    let interrupt = interrupts(&reply)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.post(RUN, &run("Why?", &json!(null))).await.status, 503);
    let resume = json!([{ "interruptId": interrupt, "status": "resolved", "payload": "Reject" }]);
    assert_eq!(server.post(RUN, &run("fault:ask", &resume)).await.status, 200);
}

/// A waiting turn survives without readers, whatever the server does with other turns that have
/// none.
#[tokio::test]
async fn a_waiting_turn_needs_no_reader() {
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

    // A turn that is stopped while it waits frees its place.
    let reply = server.post(RUN, &run("fault:ask", &json!(null))).await;
    stop(&server, &turn(&reply)).await;
    assert_eq!(server.app.turns.active(), 0);
}
