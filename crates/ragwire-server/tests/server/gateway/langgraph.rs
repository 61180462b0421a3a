//! Runs of a LangGraph server that end at an interrupt: a human is asked, and the next run of the
//! thread continues with the answer.

use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use ragwire::Frame;
use ragwire::event::Event;
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::{Address, Label};
use serde_json::{Value, json};

use super::double::{Double, Seen, Step, chunk, head, last, until};
use super::{gateway, told};
use crate::support::{JSON, Running, in_lines};

const RUNS: &str = "/runs/stream";

/// A run whose stream is these events and their data.
fn run(events: &[(&str, Value)]) -> Vec<Step> {
    let mut steps = vec![head("text/event-stream")];
    steps.extend(
        events
            .iter()
            .map(|(event, data)| chunk(&format!("event: {event}\ndata: {data}\n\n"))),
    );
    steps.extend([last(), Step::Keep]);
    steps
}

fn says(id: &str, text: &str) -> (&'static str, Value) {
    let message = json!({"type": "AIMessageChunk", "id": id, "content": text, "chunk_position": "last"});
    ("messages", json!([message, {"langgraph_node": "model"}]))
}

fn interrupted(interrupts: &Value) -> (&'static str, Value) {
    ("updates", json!({"__interrupt__": interrupts}))
}

fn server(double: &Double) -> Running {
    let url = double.url.replace("/ask", RUNS);
    gateway(&url.clone(), |settings: &mut Settings| {
        settings.orchestrator = Address(Some(url));
        settings.orchestrator_wire = Label(Some("langgraph".to_owned()));
    })
}

pub(super) async fn ask(server: &Running) -> (String, hyper::Response<Incoming>) {
    let headers = [JSON, ("accept", "application/x-ndjson")];
    let body = json!({"prompt": "Tidy up."}).to_string();
    let asked = server.send(Method::POST, "/v1/turns", &headers, body).await;
    assert_eq!(asked.status(), 200);
    let turn = asked.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    (turn, asked)
}

/// Answers a question once it is asked.
pub(super) async fn answer(server: &Running, turn: &str, request_id: &str, response: &str) {
    let answer = json!({"request_id": request_id, "response": response});
    for _ in 0..500 {
        let reply = server.post(&format!("/v1/turns/{turn}/answer"), &answer).await;
        if reply.status == 200 {
            return;
        }
        assert_eq!(reply.status, 404, "{:?}", reply.body);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{request_id} was not asked");
}

pub(super) async fn frames(asked: hyper::Response<Incoming>) -> Vec<Frame> {
    in_lines(&asked.into_body().collect().await.unwrap().to_bytes())
}

/// Names of the events, and the questions as they are asked.
pub(super) fn questions(frames: &[Frame]) -> Vec<Value> {
    let question = |frame: &Frame| match frame {
        Frame::Event {
            event: Event::InputRequested(asked),
            ..
        } => Some(json!(asked)),
        _ => None,
    };
    frames.iter().filter_map(question).collect()
}

/// The resumes of the runs after the first.
fn resumes(seen: &[Seen]) -> Vec<Value> {
    let runs = seen.iter().filter(|seen| seen.method() == "POST").skip(1);
    runs.map(|run| run.body["command"]["resume"].clone()).collect()
}

#[tokio::test]
async fn an_interrupt_is_a_question_whose_answer_continues_the_run() {
    let first = run(&[
        says("1", "Three files are old."),
        interrupted(&json!([{"value": "Delete 3 files?", "id": "i"}])),
    ]);
    // The same node asks again, under the same ID.
    let second = run(&[interrupted(&json!([{"value": "Really?", "id": "i"}]))]);
    let third = run(&[says("2", "Deleted."), ("end", Value::Null)]);
    let double = Double::start(vec![first, second, third]).await;
    let server = server(&double);
    let (turn, asked) = ask(&server).await;
    answer(&server, &turn, "i", "Yes").await;
    answer(&server, &turn, "i-2", "Yes, really").await;
    let frames = frames(asked).await;
    assert_eq!(told(&frames), ("Three files are old.\n\nDeleted.".into(), None));
    let prompts: Vec<Value> = questions(&frames)
        .iter()
        .map(|asked| asked["prompt"].clone())
        .collect();
    assert_eq!(prompts, ["Delete 3 files?", "Really?"]);

    until(|| double.seen().len() == 4).await;
    let seen = double.seen();
    assert_eq!(resumes(&seen), ["Yes", "Yes, really"]);
    let thread = seen[0].path().strip_suffix(RUNS).unwrap();
    assert!(thread.starts_with("/threads/"), "{thread}");
    assert_eq!(seen[0].body["if_not_exists"], "create");
    for run in &seen[1..3] {
        assert_eq!(run.path(), seen[0].path());
        assert_eq!(run.body["input"], Value::Null);
        assert_eq!(run.body["assistant_id"], seen[0].body["assistant_id"]);
        assert_eq!(run.header("idempotency-key"), None);
    }
    assert_eq!((seen[3].method(), seen[3].path()), ("DELETE", thread));
}

/// LangChain's human in the loop expects a decision for each call, and several interrupts of one step
/// are answered together.
#[tokio::test]
async fn answers_have_the_form_that_the_graph_expects() {
    let calls = json!({
        "action_requests": [
            {"name": "delete", "args": {}, "description": "Delete a.txt?"},
            {"name": "delete", "args": {}, "description": "Delete b.txt?"},
        ],
        "review_configs": [
            {"action_name": "delete", "allowed_decisions": ["approve", "edit", "reject"]},
            {"action_name": "delete", "allowed_decisions": ["approve", "reject"]},
        ],
    });
    let first = run(&[interrupted(&json!([
        {"value": calls, "id": "a"},
        {"value": {"question": "Which year?"}, "id": "b"},
    ]))]);
    let second = run(&[says("2", "Done."), ("end", Value::Null)]);
    let double = Double::start(vec![first, second]).await;
    let server = server(&double);
    let (turn, asked) = ask(&server).await;
    answer(&server, &turn, "b", "2024").await;
    answer(&server, &turn, "a", "approve").await;
    let frames = frames(asked).await;
    assert_eq!(told(&frames), ("Done.".into(), None));
    let asked = questions(&frames);
    assert_eq!(asked[0]["prompt"], "Delete a.txt?\nDelete b.txt?");
    assert_eq!(asked[0]["kind"], "approval");
    assert_eq!(asked[0]["options"], json!(["approve", "reject"]));
    let approve = json!({"type": "approve"});
    let expected = json!({"a": {"decisions": [approve, approve]}, "b": "2024"});
    assert_eq!(resumes(&double.seen()), [expected]);
}

#[tokio::test]
async fn a_question_that_cannot_be_asked_is_a_failure_with_its_code() {
    let double = Double::start(vec![run(&[
        says("1", "Well."),
        interrupted(&json!([{"value": "x".repeat(20_000), "id": "i"}])),
    ])])
    .await;
    let server = server(&double);
    let (_, asked) = ask(&server).await;
    let (text, failure) = told(&frames(asked).await);
    assert_eq!((&*text, failure.unwrap().code()), ("Well.", "ask_too_large"));
    // Nothing is left behind.
    until(|| double.seen().len() == 2).await;
    assert_eq!(double.seen()[1].method(), "DELETE");
}

#[tokio::test]
async fn a_run_that_cannot_continue_is_a_failure() {
    let first = run(&[interrupted(&json!([{"value": "Delete 3 files?", "id": "i"}]))]);
    let refused = super::double::whole("409 Conflict", "application/json", "{\"detail\":\"busy\"}");
    let double = Double::start(vec![first, vec![refused]]).await;
    let server = server(&double);
    let (turn, asked) = ask(&server).await;
    answer(&server, &turn, "i", "Yes").await;
    let (_, failure) = told(&frames(asked).await);
    assert_eq!(failure.unwrap().code(), "upstream_refused");
}

#[tokio::test]
async fn a_stop_withdraws_the_question_and_deletes_the_thread() {
    let first = run(&[interrupted(&json!([{"value": "Delete 3 files?", "id": "i"}]))]);
    let double = Double::start(vec![first]).await;
    let server = server(&double);
    let (turn, asked) = ask(&server).await;
    let stopped = server
        .call(Method::POST, &format!("/v1/turns/{turn}/stop"), &[], "")
        .await;
    assert!(stopped.status.is_success());
    assert_eq!(told(&frames(asked).await), (" (stopped)".into(), None));
    until(|| double.seen().len() == 2).await;
    assert_eq!(double.seen()[1].method(), "DELETE");
}
