//! `POST /v1/turns/{turn_id}/answer`.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use ragwire::orchestrator::Answering;
use ragwire::turn::{Ask, BoxError};
use ragwire::{Frame, Metadata, Sink};
use ragwire::{Orchestrator, Question};
use ragwire_rag::Library;
use ragwire_server::settings::values::{Count, CountOrZero};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{JSON, Reply, Running, decode, start, start_with};

/// Reads until the turn asks.
async fn asked(body: &mut Incoming) -> BytesMut {
    let mut read = BytesMut::new();
    while !read.ends_with(b"}\n") || !read.windows(15).any(|bytes| bytes == b"input_requested") {
        read.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
    }
    read
}

/// The events of a stream without their times, then its text.
fn told(bytes: &[u8]) -> Value {
    let (mut told, mut text) = (Vec::new(), String::new());
    for frame in decode(bytes) {
        match frame {
            Frame::Event { event, .. } => told.push(json!(event)),
            Frame::Text(piece) => text += &piece,
            Frame::End(end) => text += &format!(" ({})", end.status.as_str()),
            Frame::Snapshot(snapshot) => panic!("nothing was dropped: {snapshot:?}"),
        }
    }
    told.push(text.into());
    told.into()
}

async fn begin(server: &Running, prompt: &str) -> (String, Incoming) {
    let body = json!({ "prompt": prompt }).to_string();
    let response = server.send(Method::POST, "/v1/turns", &[JSON], body).await;
    assert_eq!(response.status(), 200);
    let turn = response.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    (turn, response.into_body())
}

async fn answer(server: &Running, turn: &str, body: impl Into<Bytes>) -> Reply {
    let path = format!("/v1/turns/{turn}/answer");
    server.call(Method::POST, &path, &[JSON], body).await
}

fn posted(response: impl Into<Value>) -> String {
    json!({"request_id": "delete", "response": response.into()}).to_string()
}

#[tokio::test]
async fn an_answer_continues_its_turn() {
    let server = start(|_| {}).await;
    for (response, said) in [
        ("Approve", "They are deleted. (completed)"),
        ("Reject", "They are left alone. (completed)"),
    ] {
        let (turn, mut body) = begin(&server, "fault:ask").await;
        let mut read = asked(&mut body).await;
        let reply = answer(&server, &turn, posted(response)).await;
        assert_eq!(
            (reply.status.as_u16(), reply.json()),
            (200, json!({"accepted": true}))
        );
        read.extend_from_slice(&body.collect().await.unwrap().to_bytes());
        assert_eq!(
            told(&read),
            json!([
                {"event": "search", "tool": "fault", "query": "ask"},
                {"event": "input_requested", "request_id": "delete", "kind": "approval", "prompt": "Delete 3 files?",
                    "options": ["Approve", "Reject"]},
                {"event": "input_resolved", "request_id": "delete", "response": response},
                said,
            ])
        );
        server.until_idle().await;
        // The turn is finished; the journal has the answer as well.
        let reply = answer(&server, &turn, posted(response)).await;
        assert_eq!(reply.json(), json!({"accepted": false}));
        let reply = answer(&server, &turn, posted("Maybe")).await;
        assert_eq!((reply.status.as_u16(), &*reply.code()), (409, "ask_answered"));
    }
}

#[tokio::test]
async fn an_answer_after_the_end_is_too_late() {
    let server = start(|_| {}).await;
    let (turn, mut body) = begin(&server, "fault:ask").await;
    asked(&mut body).await;
    let stop = format!("/v1/turns/{turn}/stop");
    assert_eq!(server.call(Method::POST, &stop, &[], "").await.status, 200);
    body.collect().await.unwrap();
    server.until_idle().await;
    let reply = answer(&server, &turn, posted("Approve")).await;
    assert_eq!((reply.status.as_u16(), &*reply.code()), (410, "ask_over"));
}

/// Asks two questions, the second of which cannot be answered in time, and finishes when the test
/// permits it.
#[derive(Debug)]
struct Twice(Arc<Semaphore>);

impl Orchestrator for Twice {
    fn answer(&self, _: Question, sink: Sink) -> Answering {
        let go_on = Arc::clone(&self.0);
        Box::pin(async move {
            sink.ask(Ask::approval("Delete 3 files?").request_id("delete"))
                .await?;
            let late = Ask::text("Who?").request_id("late").within(Duration::ZERO);
            sink.ask(late).await.unwrap_err();
            sink.send("Well.").await?;
            go_on.acquire().await?.forget();
            Ok::<_, BoxError>(Metadata::default())
        })
    }
}

#[tokio::test]
async fn an_answer_is_accepted_once() {
    let go_on = Arc::new(Semaphore::new(0));
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, Some(Arc::new(Twice(Arc::clone(&go_on)))), |_| {});
    let (turn, mut body) = begin(&server, "Delete them.").await;
    asked(&mut body).await;
    let me = |request_id: &str| json!({"request_id": request_id, "response": "me"}).to_string();
    for (posted, status, expected) in [
        (posted("Maybe"), 422, "answer_invalid"),
        (posted(Value::Null), 422, "answer_invalid"),
        (posted("Approve"), 200, r#"{"accepted":true}"#),
        (posted("Approve"), 200, r#"{"accepted":false}"#),
        (posted("Reject"), 409, "ask_answered"),
        (me("never asked"), 404, "ask_unknown"),
    ] {
        let reply = answer(&server, &turn, posted.clone()).await;
        assert_eq!(reply.status, status, "{posted}");
        if status == 200 {
            assert_eq!(reply.body, expected, "{posted}");
        } else {
            assert_eq!(reply.code(), expected, "{posted}");
            assert_eq!(reply.json()["error"]["request_id"], turn);
        }
    }
    // The text comes when the second question has expired.
    while !body
        .frame()
        .await
        .unwrap()
        .unwrap()
        .data_ref()
        .unwrap()
        .ends_with(b"Well.")
    {}
    let reply = answer(&server, &turn, me("late")).await;
    assert_eq!((reply.status.as_u16(), &*reply.code()), (410, "ask_over"));
    go_on.add_permits(1);
    body.collect().await.unwrap();
    server.until_idle().await;
}

#[tokio::test]
async fn the_request_is_checked() {
    let server = start(|_| {}).await;
    let nobody = "0".repeat(32);
    let long = json!({"request_id": "delete", "response": "x".repeat(200_000)}).to_string();
    let both = r#"{"request_id":"delete","response":1,"more":2}"#;
    for (turn, body, status, code) in [
        (&*nobody, posted("Approve"), 404, "ask_unknown"),
        ("x", posted("Approve"), 404, "ask_unknown"),
        ("%ff", posted("Approve"), 404, "ask_unknown"),
        (&nobody, "{".to_owned(), 400, "bad_json"),
        (&nobody, "{}".to_owned(), 422, "invalid_request"),
        (
            &nobody,
            r#"{"request_id":"delete"}"#.to_owned(),
            422,
            "invalid_request",
        ),
        (&nobody, both.to_owned(), 422, "invalid_request"),
        (&nobody, long, 413, "body_too_large"),
    ] {
        let what = body[..body.len().min(60)].to_owned();
        let reply = answer(&server, turn, body).await;
        assert_eq!(
            (reply.status.as_u16(), &*reply.code()),
            (status, code),
            "{turn} {what}"
        );
    }
    let path = format!("/v1/turns/{nobody}/answer");
    let plain = ("content-type", "text/plain");
    let reply = server
        .call(Method::POST, &path, &[plain], posted("Approve"))
        .await;
    assert_eq!(reply.status, 415);
}

/// A full server accepts answers, because they free places.
#[tokio::test]
async fn a_full_server_accepts_answers() {
    let server = start(|settings| {
        settings.max_turns = Count(1);
        settings.max_queued = CountOrZero(0);
    })
    .await;
    let (turn, mut body) = begin(&server, "fault:ask").await;
    asked(&mut body).await;
    assert_eq!(server.ask("/v1/turns", "Why?").await.status, 503);
    let reply = answer(&server, &turn, posted("Approve")).await;
    assert_eq!(reply.json(), json!({"accepted": true}));
    body.collect().await.unwrap();
    server.until_idle().await;
}
