//! Questions to humans through the gateway, and the way of their answers back.

use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use serde_json::json;

use super::double::{Double, Step, chunk, head, last};
use super::{SHORT, gateway, told};
use crate::support::{JSON, in_lines};

const ASK: &str = "{\"event\":\"input_requested\",\"request_id\":\"delete\",\"kind\":\"approval\",\
                   \"prompt\":\"Delete 3 files?\",\"options\":[\"Approve\",\"Reject\"]}\n";

/// Posts an answer once the turn has asked, and returns the frames of the turn.
async fn answered(server: &crate::support::Running, response: &str) -> Vec<ragwire::Frame> {
    let headers = [JSON, ("accept", "application/x-ndjson")];
    let body = json!({"prompt": "Tidy up."}).to_string();
    let asked = server.send(Method::POST, "/v1/turns", &headers, body).await;
    assert_eq!(asked.status(), 200);
    let turn = asked.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    // Longer than an orchestrator may be silent.
    tokio::time::sleep(SHORT * 2).await;
    let answer = json!({"request_id": "delete", "response": response});
    let reply = server.post(&format!("/v1/turns/{turn}/answer"), &answer).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    in_lines(&asked.into_body().collect().await.unwrap().to_bytes())
}

fn names(frames: &[ragwire::Frame]) -> Vec<&str> {
    let events = frames.iter().filter_map(|frame| match frame {
        ragwire::Frame::Event { event, .. } => Some(event.name()),
        _ => None,
    });
    events.collect()
}

#[tokio::test]
async fn an_answer_is_posted_to_the_orchestrator() {
    let script = vec![
        head("application/x-ndjson"),
        chunk(ASK),
        Step::Await("/ask/answer"),
        // What the orchestrator knows of its own question is not shown twice.
        chunk("{\"event\":\"input_resolved\",\"request_id\":\"delete\",\"response\":\"Approve\"}\n"),
        chunk("{\"text\":\"Deleted.\"}\n{\"end\":\"completed\"}\n"),
        last(),
    ];
    let double = Double::start(vec![script]).await;
    let server = gateway(&double.url, |_| ());
    let frames = answered(&server, "Approve").await;
    assert_eq!(names(&frames), ["input_requested", "input_resolved"]);
    assert_eq!(told(&frames), ("Deleted.".into(), None));
    let seen = double.seen();
    assert_eq!(
        seen[1].body,
        json!({"request_id": "delete", "response": "Approve"})
    );
    assert_eq!(seen[1].header("x-ragwire-turn"), seen[0].header("x-ragwire-turn"));
    assert_eq!(seen[1].header("idempotency-key"), None);
}

#[tokio::test]
async fn the_orchestrator_may_withdraw_its_question() {
    let script = vec![
        head("application/x-ndjson"),
        chunk(ASK),
        chunk("{\"event\":\"input_resolved\",\"request_id\":\"delete\"}\n{\"text\":\"Never mind.\"}\n"),
        chunk("{\"end\":\"completed\"}\n"),
        last(),
    ];
    let double = Double::start(vec![script]).await;
    let server = gateway(&double.url, |_| ());
    let frames = server.frames("Tidy up.").await;
    assert_eq!(names(&frames), ["input_requested", "input_resolved"]);
    assert_eq!(told(&frames), ("Never mind.".into(), None));
    assert_eq!(double.seen().len(), 1, "no answer was posted");
}

#[tokio::test]
async fn the_orchestrator_reports_a_consent_that_it_received() {
    let required = "{\"event\":\"authorization_required\",\"connection\":\"github\",\
                    \"auth_url\":\"https://a.example/o\",\"request_id\":\"state-1\"}\n";
    let completed = "{\"event\":\"authorization_completed\",\"connection\":\"github\",\
                     \"outcome\":\"authorized\",\"request_id\":\"state-1\"}\n";
    let script = vec![
        head("application/x-ndjson"),
        chunk(required),
        Step::Pause(Duration::from_millis(50)),
        chunk(completed),
        chunk("{\"text\":\"Thanks.\"}\n{\"end\":\"completed\"}\n"),
        last(),
    ];
    let double = Double::start(vec![script]).await;
    let server = gateway(&double.url, |_| ());
    let frames = server.frames("Tidy up.").await;
    assert_eq!(
        names(&frames),
        ["authorization_required", "authorization_completed"]
    );
    assert_eq!(told(&frames), ("Thanks.".into(), None));
    assert_eq!(double.seen().len(), 1);
}

/// Behind a server of ours the answer goes to that turn's own route.
#[tokio::test]
async fn a_question_of_a_server_behind_a_server() {
    let behind = crate::support::start(|_| ()).await;
    let server = gateway(&format!("{}/v1/turns", behind.base), |settings| {
        settings.test_faults = false;
    });
    let headers = [JSON, ("accept", "application/x-ndjson")];
    let body = json!({"prompt": "fault:ask"}).to_string();
    let asked = server.send(Method::POST, "/v1/turns", &headers, body).await;
    let turn = asked.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    // `search` begins the response; the question follows at once.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = json!({"request_id": "delete", "response": "Approve"});
    let reply = server.post(&format!("/v1/turns/{turn}/answer"), &answer).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    let frames = in_lines(&asked.into_body().collect().await.unwrap().to_bytes());
    assert_eq!(names(&frames), ["search", "input_requested", "input_resolved"]);
    assert_eq!(told(&frames), ("They are deleted.".into(), None));
}
