//! Turns that survive their connection: `/v1/turns/{turn_id}/stream` and `…/stop`, ownership, and
//! what happens on each route when its reader disconnects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use ragwire::orchestrator::Answering;
use ragwire::turn::BoxError;
use ragwire::wire::sse::EventStream;
use ragwire::wire::{Decode, Finish};
use ragwire::{Frame, Framed, Metadata, Sink};
use ragwire::{Orchestrator, Question};
use ragwire_rag::Library;
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::{Header, Size};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{JSON, Reply, Running, STREAM, WHOLE, in_lines, no_grace, start, start_with};

const FRAMED: (&str, &str) = ("accept", "text/plain");
const SSE: (&str, &str) = ("accept", "text/event-stream");
const NDJSON: (&str, &str) = ("accept", "application/x-ndjson");
const TURNS: &str = "/v1/turns";
const SIX: [&str; 6] = ["one ", "two ", "three ", "four ", "five ", "six "];

/// Emits six words, each when the test permits it.
#[derive(Debug)]
struct Paced(Arc<Semaphore>);

impl Orchestrator for Paced {
    fn answer(&self, _: Question, sink: Sink) -> Answering {
        let words = Arc::clone(&self.0);
        Box::pin(async move {
            for word in SIX {
                words.acquire().await?.forget();
                sink.send(word).await?;
            }
            Ok::<_, BoxError>(Metadata::default())
        })
    }
}

fn paced(change: impl FnOnce(&mut Settings)) -> (Running, Arc<Semaphore>) {
    let words = Arc::new(Semaphore::new(0));
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, Some(Arc::new(Paced(Arc::clone(&words)))), change);
    (server, words)
}

fn question(prompt: &str) -> String {
    json!({ "prompt": prompt }).to_string()
}

fn at(turn: &str, tail: &str) -> String {
    format!("{TURNS}/{turn}/stream{tail}")
}

/// Starts a turn. Returns its ID and its unread body.
async fn begin(server: &Running, path: &str, headers: &[(&str, &str)], body: &Value) -> (String, Incoming) {
    let headers = [&[JSON], headers].concat();
    let response = server.send(Method::POST, path, &headers, body.to_string()).await;
    assert_eq!(response.status(), 200, "{path}");
    let turn = response.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    (turn, response.into_body())
}

async fn first(body: &mut Incoming) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

async fn get(server: &Running, path: &str, headers: &[(&str, &str)]) -> Reply {
    server.call(Method::GET, path, headers, "").await
}

async fn stop(server: &Running, turn: &str, headers: &[(&str, &str)]) -> Reply {
    let path = format!("{TURNS}/{turn}/stop");
    server.call(Method::POST, &path, headers, "").await
}

fn refused(reply: &Reply) -> (u16, String) {
    (reply.status.as_u16(), reply.code())
}

fn no(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// The offset at which each frame of a body starts.
fn places(body: &[u8], separator: &[u8]) -> Vec<usize> {
    let mut places = vec![0];
    for at in separator.len()..=body.len() {
        if body[..at].ends_with(separator) {
            places.push(at);
        }
    }
    places
}

/// The messages of a stream without the reconnection time, which comes with the first frame.
fn messages_of(body: &Bytes) -> Bytes {
    if !body.starts_with(b"retry: ") {
        return body.clone();
    }
    let line = body.iter().position(|byte| *byte == b'\n').unwrap();
    body.slice(line + 1..)
}

#[tokio::test]
async fn a_resumed_stream_is_the_exact_rest_on_every_wire() {
    let server = start(|_| {}).await;
    let (turn, body) = begin(&server, TURNS, &[NDJSON], &json!({ "prompt": "fault:unicode" })).await;
    let ndjson = body.collect().await.unwrap().to_bytes();
    let sse = get(&server, &at(&turn, ""), &[SSE]).await;
    assert_eq!(sse.headers["content-type"], "text/event-stream");
    assert_eq!(sse.headers["x-ragwire-turn"], turn);
    let sse = messages_of(&sse.body);
    let framed = get(&server, &at(&turn, "?from=0"), &[FRAMED]).await.body;
    let (lines, messages) = (places(&ndjson, b"\n"), places(&sse, b"\n\n"));
    assert_eq!(lines.len(), messages.len());
    let frames = lines.len() - 1;
    assert!(frames >= 3, "an event, a text and the end");
    for from in 0..frames {
        let path = at(&turn, &format!("?from={from}"));
        assert_eq!(get(&server, &path, &[NDJSON]).await.body, ndjson[lines[from]..]);
        let rest = get(&server, &path, &[SSE]).await.body;
        assert_eq!(messages_of(&rest), sse[messages[from]..], "{from}");
        assert!(
            framed.ends_with(&get(&server, &path, &[FRAMED]).await.body),
            "{from}"
        );
        if from > 0 {
            let last = (from - 1).to_string();
            for tail in ["", "?from=0", &format!("?from={from}")] {
                let reply = get(&server, &at(&turn, tail), &[SSE, ("last-event-id", &last)]).await;
                assert_eq!(reply.body, rest, "{from} {tail}");
            }
        }
    }
    let last = (frames - 1).to_string();
    for headers in [
        &[SSE, ("last-event-id", &*last)][..],
        &[SSE],
        &[NDJSON],
        &[FRAMED],
        &[],
    ] {
        let reply = get(&server, &at(&turn, &format!("?from={frames}")), headers).await;
        assert_eq!(
            (reply.status, &reply.body[..]),
            (StatusCode::NO_CONTENT, &b""[..])
        );
        assert_eq!(reply.headers["x-ragwire-turn"], turn);
    }
    let path = at(&turn, &format!("?from={}", frames + 1));
    assert_eq!(refused(&get(&server, &path, &[SSE]).await), no(416, "ahead"));
}

#[tokio::test]
async fn a_reader_resumes_after_a_lost_connection_and_follows_live() {
    let (server, words) = paced(|_| {});
    for path in [TURNS, STREAM] {
        words.add_permits(1);
        let (turn, mut body) = begin(&server, path, &[], &json!({ "prompt": "Count." })).await;
        assert_eq!(first(&mut body).await, "\u{1d}one ");
        drop(body);
        words.add_permits(2);
        let response = server
            .send(Method::GET, &at(&turn, "?from=1"), &[FRAMED], "")
            .await;
        let mut again = response.into_body();
        let mut read = first(&mut again).await.to_vec();
        words.add_permits(3);
        read.extend_from_slice(&again.collect().await.unwrap().to_bytes());
        let whole = get(&server, &at(&turn, ""), &[]).await.body;
        assert!(whole.starts_with("\u{1d}one two three four five six \u{1e}".as_bytes()));
        assert_eq!(read, whole["\u{1d}one ".len()..]);
        server.until_idle().await;
    }
}

#[tokio::test]
async fn a_turn_without_readers_ends_after_its_grace() {
    let body = json!({ "prompt": "Count." });
    let (server, words) = paced(no_grace);
    words.add_permits(1);
    let (turn, mut lost) = begin(&server, TURNS, &[NDJSON], &body).await;
    first(&mut lost).await;
    drop(lost);
    server.until_idle().await;
    let stopped: Vec<_> = get(&server, &at(&turn, "?from=1"), &[NDJSON]).await.body.to_vec();
    let end: Value = serde_json::from_slice(&stopped).unwrap();
    assert_eq!((&end["index"], &end["end"]), (&json!(1), &json!("stopped")));
    // A turn that is only started has no reader and would end at once, so it is streamed instead.
    words.add_permits(6);
    let headers = [JSON, ("prefer", "respond-async")];
    let reply = server
        .call(Method::POST, TURNS, &headers, question("Count."))
        .await;
    assert_eq!(
        (reply.status.as_u16(), reply.headers.get("preference-applied")),
        (200, None)
    );
}

/// Reads the first bytes of an answer and disconnects.
async fn leave(server: &Running, path: &str, body: &Value) -> String {
    let (turn, mut body) = begin(server, path, &[], body).await;
    first(&mut body).await;
    turn
}

#[tokio::test]
async fn on_some_routes_a_disconnect_stops_the_turn() {
    let (server, words) = paced(|_| {});
    let messages = json!([{ "id": "m", "role": "user", "content": "Count." }]);
    let run = json!({ "threadId": "t", "runId": "r", "messages": messages });
    let completion = json!({ "model": "ragwire", "messages": messages, "stream": true });
    for (path, body) in [("/ag-ui", run), ("/v1/chat/completions", completion)] {
        words.add_permits(1);
        let turn = leave(&server, path, &body).await;
        server.until_idle().await;
        // The journal has the frames that were sent, as for any turn.
        let text = get(&server, &at(&turn, ""), &[FRAMED]).await.body;
        assert!(
            text.starts_with("\u{1d}one \u{1e}".as_bytes()),
            "{path}: {text:?}"
        );
    }
    // A client that waits for the whole answer in one response cannot resume it.
    let whole = server.send(Method::POST, WHOLE, &[JSON], question("Count."));
    assert!(
        tokio::time::timeout(Duration::from_millis(100), whole)
            .await
            .is_err()
    );
    server.until_idle().await;
    assert_eq!(server.app.journal.turns(), 2);
}

#[tokio::test]
async fn a_stop_ends_the_turn_for_every_reader() {
    let (server, words) = paced(|_| {});
    words.add_permits(1);
    let (turn, mut body) = begin(&server, TURNS, &[NDJSON], &json!({ "prompt": "Count." })).await;
    let mut read = first(&mut body).await.to_vec();
    let path = at(&turn, "");
    let other = server.send(Method::GET, &path, &[NDJSON], "").await.into_body();
    let reply = stop(&server, &turn, &[]).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()),
        (200, json!({ "stopped": true }))
    );
    read.extend_from_slice(&body.collect().await.unwrap().to_bytes());
    let lines: Vec<Value> = read
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], json!({ "index": 0, "text": "one " }));
    assert_eq!(
        (&lines[1]["index"], &lines[1]["end"]),
        (&json!(1), &json!("stopped"))
    );
    assert_eq!(other.collect().await.unwrap().to_bytes(), read);
    assert_eq!(get(&server, &path, &[NDJSON]).await.body, read);
    let reply = stop(&server, &turn, &[]).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()),
        (200, json!({ "stopped": false }))
    );
    server.until_idle().await;
}

#[tokio::test]
async fn unknown_offsets_and_turns_are_refused() {
    let server = start(|_| {}).await;
    let (turn, body) = begin(&server, TURNS, &[], &json!({ "prompt": "fault:no-events" })).await;
    body.collect().await.unwrap();
    for tail in [
        "?from=",
        "?from",
        "?from=-1",
        "?from=%2B1",
        "?from=+1",
        "?from=01",
        "?from=1.0",
        "?from=x",
        "?from=18446744073709551616",
        "?from=0&from=0",
        "?from=0&fr%6fm=1",
    ] {
        assert_eq!(
            refused(&get(&server, &at(&turn, tail), &[SSE]).await),
            no(400, "bad_cursor"),
            "{tail}"
        );
    }
    for last in ["", "x", "-1", "00", "1 2", "18446744073709551615"] {
        let reply = get(&server, &at(&turn, ""), &[SSE, ("last-event-id", last)]).await;
        assert_eq!(refused(&reply), no(400, "bad_cursor"), "{last}");
    }
    let twice = [SSE, ("last-event-id", "0"), ("last-event-id", "0")];
    assert_eq!(
        refused(&get(&server, &at(&turn, ""), &twice).await),
        no(400, "bad_cursor")
    );
    let before = get(&server, &at(&turn, "?from=2"), &[SSE, ("last-event-id", "0")]).await;
    assert_eq!(refused(&before), no(400, "bad_cursor"));
    let accept = [("accept", "application/json")];
    assert_eq!(
        refused(&get(&server, &at(&turn, ""), &accept).await),
        no(406, "not_acceptable")
    );
    // The route ignores other parameters.
    assert_eq!(get(&server, &at(&turn, "?t=1"), &[SSE]).await.status, 200);
    for id in [
        "0".repeat(32),
        turn.to_uppercase(),
        turn[1..].to_owned(),
        "x".into(),
        "%ff".into(),
        "..%2f".into(),
    ] {
        if id == turn {
            continue;
        }
        assert_eq!(
            refused(&get(&server, &at(&id, ""), &[SSE]).await),
            no(404, "unknown_turn"),
            "{id}"
        );
        assert_eq!(
            refused(&stop(&server, &id, &[]).await),
            no(404, "unknown_turn"),
            "{id}"
        );
    }
}

/// A wire whose frames are independent resumes anywhere. Another wire cannot resume if the journal
/// has dropped its beginning, and reports that before the stream starts.
#[tokio::test]
async fn dropped_frames_are_reported() {
    let (server, words) = paced(|settings| settings.journal_size = Size(200));
    words.add_permits(1);
    let (turn, mut body) = begin(&server, TURNS, &[], &json!({ "prompt": "Count." })).await;
    // One word at a time, so that each is a frame.
    for _ in 1..SIX.len() {
        first(&mut body).await;
        words.add_permits(1);
    }
    body.collect().await.unwrap();
    server.until_idle().await;
    let snapshot = json!({ "events": [], "text": SIX.concat() });
    for from in ["", "?from=1", "?from=5"] {
        let lines = get(&server, &at(&turn, from), &[NDJSON]).await;
        let lines: Vec<Value> = lines
            .body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2, "{from}");
        assert_eq!(
            (&lines[0]["index"], &lines[0]["snapshot"]),
            (&json!(5), &snapshot)
        );
        assert_eq!(
            (&lines[1]["index"], &lines[1]["end"]),
            (&json!(6), &json!("completed"))
        );
        let events = get(&server, &at(&turn, from), &[SSE]).await;
        let mut messages = EventStream::default();
        messages.feed(&events.body);
        let types: Vec<String> = messages.map(|message| message.unwrap().event).collect();
        assert_eq!(types, ["snapshot", "end"], "{from}");
    }
    // A wire that cannot mark a replacement sends the summary only to readers that have nothing
    // yet.
    let whole = get(&server, &at(&turn, ""), &[FRAMED]).await;
    let mut decoder = Framed::default().decoder();
    decoder.feed(&whole.body);
    let frames: Vec<Frame> = decoder.by_ref().map(Result::unwrap).collect();
    assert_eq!(frames[0], Frame::Text(SIX.concat()));
    assert_eq!((frames.len(), decoder.finish()), (2, Finish::Complete));
    for from in ["?from=1", "?from=5"] {
        assert_eq!(
            refused(&get(&server, &at(&turn, from), &[FRAMED]).await),
            no(410, "gone")
        );
    }
    let end = get(&server, &at(&turn, "?from=6"), &[NDJSON]).await;
    let line: Value = serde_json::from_slice(&end.body).unwrap();
    assert_eq!((&line["index"], &line["end"]), (&json!(6), &json!("completed")));
    assert_eq!(get(&server, &at(&turn, "?from=6"), &[SSE]).await.status, 200);
    assert_eq!(
        refused(&get(&server, &at(&turn, "?from=6"), &[FRAMED]).await),
        no(410, "gone")
    );
}

#[tokio::test]
async fn a_turn_belongs_to_its_owner_alone() {
    const USER: &str = "x-user";
    let server = start(|settings| settings.owner_header = "X-User".parse::<Header>().unwrap()).await;
    let (alice, mallory) = ((USER, "alice"), (USER, "mallory"));
    for headers in [&[JSON][..], &[JSON, (USER, "")], &[JSON, alice, alice]] {
        for path in [TURNS, STREAM, WHOLE, "/api/chat", "/ag-ui"] {
            let reply = server.call(Method::POST, path, headers, question("Count.")).await;
            assert_eq!(refused(&reply), no(401, "unauthorized"), "{path}");
        }
    }
    let (turn, mut body) = begin(&server, TURNS, &[alice], &json!({ "prompt": "fault:silent" })).await;
    first(&mut body).await;
    let nobody = "0".repeat(32);
    let answer = json!({ "request_id": "r", "response": "x" }).to_string();
    for (headers, id, status) in [
        (&[JSON][..], &turn, 401),
        (&[JSON, mallory], &turn, 404),
        (&[JSON, alice], &nobody, 404),
    ] {
        let paths = ["stream", "stop", "answer"].map(|route| format!("{TURNS}/{id}/{route}"));
        let replies = [
            get(&server, &paths[0], headers).await,
            server.call(Method::POST, &paths[1], headers, "").await,
            server
                .call(Method::POST, &paths[2], headers, answer.clone())
                .await,
        ];
        for reply in replies {
            assert_eq!(reply.status, status, "{id} {headers:?}");
        }
    }
    // A turn of another owner looks like one that never existed.
    let of = |reply: Reply| {
        let mut error = reply.json()["error"].take();
        error["request_id"] = Value::Null;
        (reply.status, error)
    };
    let foreign = of(get(&server, &at(&turn, ""), &[mallory]).await);
    assert_eq!(foreign, of(get(&server, &at(&nobody, ""), &[alice]).await));
    let foreign = of(stop(&server, &turn, &[mallory]).await);
    assert_eq!(foreign, of(stop(&server, &nobody, &[alice]).await));
    // An owner may have several turns at a time.
    let (_, mut second) = begin(&server, TURNS, &[alice], &json!({ "prompt": "fault:silent" })).await;
    first(&mut second).await;
    assert_eq!(
        stop(&server, &turn, &[alice]).await.json(),
        json!({ "stopped": true })
    );
    assert_eq!(get(&server, &at(&turn, ""), &[alice]).await.status, 200);
}

#[tokio::test]
async fn a_turn_is_started_in_one_request_and_read_in_another() {
    let (server, words) = paced(|_| {});
    words.add_permits(1);
    let headers = [
        JSON,
        ("accept", "application/json"),
        ("prefer", "wait=1, respond-async"),
    ];
    let reply = server
        .call(Method::POST, TURNS, &headers, question("Count."))
        .await;
    assert_eq!(reply.status, 202);
    let turn = reply.headers["x-ragwire-turn"].to_str().unwrap();
    assert_eq!(reply.headers["location"], at(turn, ""));
    assert_eq!(reply.headers["preference-applied"], "respond-async");
    assert_eq!(reply.json(), json!({ "turn": turn }));
    words.add_permits(5);
    let read = get(&server, reply.headers["location"].to_str().unwrap(), &[NDJSON]).await;
    let texts = in_lines(&read.body).into_iter().filter_map(|frame| match frame {
        Frame::Text(text) => Some(text),
        _ => None,
    });
    assert_eq!(texts.collect::<String>(), SIX.concat());
    // A failure before the stream starts has its status, as without the preference.
    let reply = server.call(Method::POST, TURNS, &headers, question(" ")).await;
    assert_eq!(refused(&reply), no(422, "invalid_request"));
}

#[tokio::test]
async fn every_streaming_response_names_its_turn() {
    let server = start(|_| {}).await;
    let began = server.call(Method::POST, "/v1/sessions", &[], "").await.json();
    let chat = format!("/v1/sessions/{}/chat/stream", began["id"].as_str().unwrap());
    let messages = json!([{ "id": "m", "role": "user", "content": "fault:no-events", "parts": [{ "type": "text", "text": "fault:no-events" }] }]);
    let prompt = json!({ "prompt": "fault:no-events" });
    for (path, body) in [
        (TURNS, &prompt),
        (STREAM, &prompt),
        ("/api/query/stream", &json!({ "query": "fault:no-events" })),
        (&*chat, &json!({ "message": "fault:no-events" })),
        ("/api/chat", &json!({ "id": "c", "messages": messages })),
        (
            "/ag-ui",
            &json!({ "threadId": "t", "runId": "r", "messages": messages }),
        ),
        (
            "/v1/chat/completions",
            &json!({ "model": "ragwire", "messages": messages, "stream": true }),
        ),
    ] {
        let (turn, body) = begin(&server, path, &[], body).await;
        body.collect().await.unwrap();
        let text = get(&server, &at(&turn, ""), &[FRAMED]).await.body;
        assert!(
            text.starts_with("\u{1d}Yes, it is.\u{1e}".as_bytes()),
            "{path}: {text:?}"
        );
    }
    let reply = server
        .post("/eve/v1/session", &json!({ "message": "fault:no-events" }))
        .await;
    let turn = reply.headers["x-ragwire-turn"].clone();
    let session = reply.json()["sessionId"].as_str().unwrap().to_owned();
    let stream = server.get(&format!("/eve/v1/session/{session}/stream")).await;
    assert_eq!(stream.headers["x-ragwire-turn"], turn);
    let text = get(&server, &at(turn.to_str().unwrap(), ""), &[FRAMED])
        .await
        .body;
    assert!(text.starts_with("\u{1d}Yes, it is.\u{1e}".as_bytes()));
}
