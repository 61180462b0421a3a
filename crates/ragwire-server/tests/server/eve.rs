//! The routes of Eve.

use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use ragwire::session::Role;
use ragwire_server::sample;
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::{Count, CountOrZero, Size, Span};
use serde_json::{Value, json};

use crate::support::{JSON, Reply, Running, full_of_one, keys, start};

const CREATE: &str = "/eve/v1/session";

struct Session {
    id: String,
    token: String,
}

impl Session {
    fn path(&self) -> String {
        format!("{CREATE}/{}", self.id)
    }

    fn stream(&self, start_index: impl std::fmt::Display) -> String {
        format!("{}/stream?startIndex={start_index}", self.path())
    }
}

async fn post(server: &Running, path: &str, body: &Value) -> Reply {
    server.call(Method::POST, path, &[JSON], body.to_string()).await
}

async fn create(server: &Running, path: &str, message: &str) -> Session {
    let reply = post(server, path, &json!({ "message": message })).await;
    assert_eq!(reply.status, 202, "{:?}", reply.body);
    let body = reply.json();
    assert_eq!(keys(&body), ["ok", "sessionId", "continuationToken"]);
    assert_eq!(
        reply.headers["x-eve-session-id"],
        body["sessionId"].as_str().unwrap()
    );
    assert_eq!(reply.headers["cache-control"], "no-store");
    let word = |name: &str| body[name].as_str().unwrap().to_owned();
    Session {
        id: word("sessionId"),
        token: word("continuationToken"),
    }
}

async fn go_on(server: &Running, session: &Session, message: &str) -> Reply {
    let body = json!({ "continuationToken": session.token, "message": message });
    post(server, &session.path(), &body).await
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

async fn read(server: &Running, session: &Session, start_index: usize) -> Vec<Value> {
    let reply = server.get(&session.stream(start_index)).await;
    assert_eq!(reply.status, 200);
    lines(&reply.body)
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().unwrap()).collect()
}

fn refused(reply: &Reply, status: u16, error: &str) {
    assert_eq!(reply.status, status, "{:?}", reply.body);
    assert_eq!(reply.json(), json!({"ok": false, "error": error}));
}

#[tokio::test]
async fn the_log_of_a_session_is_padded() {
    let mut logs = Vec::new();
    for pad_to in [0, 256] {
        let server = start(|settings| settings.pad_to = CountOrZero(pad_to)).await;
        let session = create(&server, CREATE, "fault:no-events").await;
        logs.push(server.get(&session.stream(0)).await.body);
    }
    let [plain, padded] = &logs[..] else {
        unreachable!()
    };
    assert_eq!((padded.len() % 256, plain.ends_with(b"\n\n")), (0, false));
    assert_eq!(types(&lines(padded)), types(&lines(plain)));
}

#[tokio::test]
async fn a_session_has_one_stream_for_all_its_turns() {
    let server = start(|_| {}).await;
    let session = create(&server, CREATE, "fault:no-events").await;
    let reply = server.get(&session.stream(0)).await;
    assert_eq!(
        reply.headers["content-type"],
        "application/x-ndjson; charset=utf-8"
    );
    assert_eq!(reply.headers["x-eve-stream-format"], "ndjson");
    assert_eq!(reply.headers["x-eve-stream-version"], "16");
    assert_eq!(reply.headers["x-eve-session-id"], session.id.as_str());
    assert_eq!(reply.headers["cache-control"], "no-store, no-transform");
    assert_eq!(reply.headers["x-accel-buffering"], "no");
    let first = lines(&reply.body);
    assert_eq!(
        types(&first)[..4],
        [
            "session.started",
            "turn.started",
            "message.received",
            "step.started"
        ]
    );
    assert_eq!(
        first[2]["data"],
        json!({"message": "fault:no-events", "sequence": 0, "turnId": "turn_0"})
    );
    assert_eq!(types(&first).last(), Some(&"session.waiting"));

    let reply = go_on(&server, &session, sample::QUESTION).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()),
        (200, json!({"ok": true, "sessionId": session.id}))
    );
    let second = read(&server, &session, first.len()).await;
    assert_eq!(
        types(&second)[..3],
        ["turn.started", "message.received", "step.started"]
    );
    assert_eq!(second[0]["data"], json!({"sequence": 1, "turnId": "turn_1"}));
    let metadata = &second.last().unwrap()["data"]["metadata"];
    assert!(!metadata["citations"].as_array().unwrap().is_empty());
    let answer = second
        .iter()
        .find(|line| line["type"] == "message.completed")
        .unwrap();
    let answer = answer["data"]["message"].as_str().unwrap();

    // Every offset yields the same lines, and the session records both turns.
    let all: Vec<Value> = first.iter().chain(&second).cloned().collect();
    for start_index in [0, 1, first.len(), all.len() - 1, all.len(), all.len() + 9] {
        let rest = all.get(start_index..).unwrap_or_default();
        assert_eq!(read(&server, &session, start_index).await, rest, "{start_index}");
    }
    let expected = [
        (Role::User, "fault:no-events"),
        (Role::Assistant, "Yes, it is."),
        (Role::User, sample::QUESTION),
        (Role::Assistant, answer),
    ];
    assert_eq!(
        server.said_by("eve\0", &session.id).await,
        expected.map(|(role, text)| (role, text.to_owned()))
    );
}

#[tokio::test]
async fn the_documented_vocabulary_is_chosen_for_a_session() {
    let server = start(|_| {}).await;
    let session = create(
        &server,
        "/eve/v1/session?vocabulary=documented",
        "fault:no-events",
    )
    .await;
    let first = read(&server, &session, 0).await;
    assert_eq!(go_on(&server, &session, "fault:text").await.status, 200);
    let all = read(&server, &session, 0).await;
    assert_eq!(all[..first.len()], first);
    // Pieces that wait together are sent as one, so the number of deltas depends on timing.
    let mut types = types(&all);
    types.dedup();
    assert_eq!(
        types,
        [
            "session.started",
            "message.appended",
            "agent.start",
            "agent.content.delta",
            "message.appended",
            "message.completed",
            "agent.complete",
            "session.waiting",
            "message.appended",
            "agent.start",
            "agent.tool_call",
            "search",
            "agent.tool_result",
            "agent.content.delta",
            "message.appended",
            "session.failed",
        ]
    );
    let indexes: Vec<_> = all
        .iter()
        .map(|line| line["streamIndex"].as_u64().unwrap())
        .collect();
    assert_eq!(indexes, (0..all.len() as u64).collect::<Vec<_>>());
    refused(
        &go_on(&server, &session, "more").await,
        410,
        "Session is terminal.",
    );
    assert_eq!(read(&server, &session, 0).await, all);
}

#[tokio::test]
async fn stops_end_the_turn_and_failures_also_the_session() {
    let server = start(|_| {}).await;
    let completed = ["step.completed", "turn.completed", "session.waiting"];
    let failed = ["step.failed", "turn.failed", "session.failed"];
    for fault in ["fault:text", "fault:panic"] {
        let session = create(&server, CREATE, "fault:stop").await;
        let mut seen = 0;
        for (next, ends) in [("", completed), ("fault:empty", completed), (fault, failed)] {
            if !next.is_empty() {
                assert_eq!(go_on(&server, &session, next).await.status, 200, "{next}");
            }
            let turn = read(&server, &session, seen).await;
            assert_eq!(types(&turn)[turn.len() - 3..], ends, "{next}");
            seen += turn.len();
        }
        refused(
            &go_on(&server, &session, "more").await,
            410,
            "Session is terminal.",
        );
    }
}

#[tokio::test]
async fn a_turn_continues_without_readers_and_with_many() {
    let server = start(|settings| settings.keep_alive = Span(Duration::from_millis(50))).await;
    let session = create(&server, CREATE, "fault:slow").await;
    let open = server.send(Method::GET, &session.stream(0), &[], "").await;
    let mut cut = open.into_body();
    assert!(cut.frame().await.unwrap().unwrap().is_data());
    drop(cut);
    refused(
        &go_on(&server, &session, "more").await,
        409,
        "Session is still active.",
    );
    // A reader far beyond the tail waits and receives keep-alives only.
    let paths = [0, 20, 100_000].map(|start_index| session.stream(start_index));
    let (whole, tail, beyond) = tokio::join!(
        server.get(&paths[0]),
        server.get(&paths[1]),
        server.get(&paths[2])
    );
    let all = lines(&whole.body);
    assert_eq!(lines(&tail.body), all[20..]);
    assert!(!beyond.body.is_empty() && beyond.body.iter().all(|byte| *byte == b'\n'));
    let words = all
        .iter()
        .filter(|line| line["type"] == "message.appended")
        .count();
    assert!(words > 1);
    assert_eq!(types(&all).last(), Some(&"session.waiting"));
    server.until_idle().await;
}

#[tokio::test]
async fn shutdown_ends_the_turns_and_their_readers() {
    let server = start(|settings| settings.keep_alive = Span(Duration::from_millis(50))).await;
    let session = create(&server, CREATE, "fault:silent").await;
    let mut body = server
        .send(Method::GET, &session.stream(0), &[], "")
        .await
        .into_body();
    let mut bytes = body.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
    server.app.turns.shut_down();
    bytes.extend_from_slice(&body.collect().await.unwrap().to_bytes());
    let all = lines(&bytes);
    let failed = all.iter().find(|line| line["type"] == "turn.failed").unwrap();
    assert_eq!(failed["data"]["code"], "shutting_down");
    assert_eq!(types(&all).last(), Some(&"session.failed"));
    let reply = server.get("/eve/v1/health").await;
    assert_eq!((reply.status.as_u16(), &reply.json()["ok"]), (503, &json!(false)));
    server.stop().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_in_eves_form() {
    let server = start(|settings| settings.max_question = Size(100)).await;
    let session = create(&server, CREATE, "fault:empty").await;
    read(&server, &session, 0).await;
    let (path, token) = (session.path(), session.token.as_str());
    let unknown = format!("{CREATE}/ses_{}", "0".repeat(32));
    let vocabulary = format!("{CREATE}?vocabulary=other");
    let long = "x".repeat(101);
    for (path, body, status, error) in [
        (
            &path,
            json!({"message": "a"}),
            409,
            "Stale or missing continuation token.",
        ),
        (
            &path,
            json!({"message": "a", "continuationToken": "x"}),
            409,
            "Stale or missing continuation token.",
        ),
        (
            &path,
            json!({"continuationToken": token}),
            422,
            "message is required.",
        ),
        (
            &path,
            json!({"continuationToken": token, "inputResponses": []}),
            422,
            "message is required.",
        ),
        (
            &path,
            json!({"continuationToken": token, "message": " "}),
            422,
            "The prompt is empty.",
        ),
        (
            &unknown,
            json!({"message": "a", "continuationToken": token}),
            404,
            "Session not found.",
        ),
        (
            &vocabulary,
            json!({"message": "a"}),
            400,
            "`vocabulary` must be `shipped` or `documented`.",
        ),
        (
            &CREATE.to_owned(),
            json!({"message": long}),
            422,
            "The prompt is longer than 100 bytes of UTF-8.",
        ),
        (
            &CREATE.to_owned(),
            json!({"message": "a", "outputSchema": {}}),
            422,
            "This agent has no structured results; do not send outputSchema.",
        ),
        (
            &CREATE.to_owned(),
            json!({"message": [{"type": "text", "text": "a"}, {"type": "file", "data": "x"}]}),
            422,
            "This agent reads text only.",
        ),
        (
            &CREATE.to_owned(),
            json!({"message": "fault:reject"}),
            500,
            &ragwire::Failure::default().message,
        ),
    ] {
        refused(&post(&server, path, &body).await, status, error);
    }
    for start_index in ["x", "-1", "1.5", ""] {
        let reply = server.get(&session.stream(start_index)).await;
        refused(
            &reply,
            400,
            "startIndex must be the number of lines that were read.",
        );
    }
    refused(
        &server.get(&format!("{unknown}/stream")).await,
        404,
        "Session not found.",
    );
    // Refused requests changed no session and created none.
    assert_eq!(server.app.stores.sessions.sweep().await.unwrap(), 1);
    let parts = json!([{"type": "text", "text": "fault:"}, {"type": "text", "text": "empty"}]);
    let reply = post(
        &server,
        &path,
        &json!({"continuationToken": token, "message": parts}),
    )
    .await;
    assert_eq!(reply.status, 200);
    let turn = read(&server, &session, 0).await;
    assert_eq!(
        turn.iter().filter(|line| line["type"] == "turn.started").count(),
        2
    );
}

#[tokio::test]
async fn no_other_route_shows_a_session() {
    let server = start(|_| {}).await;
    let session = create(&server, CREATE, "fault:silent").await;
    let status = server.get("/v1/generation/status").await;
    assert_eq!(
        status.json(),
        json!({"generating_session_id": null, "queued_session_ids": []})
    );
    let path = format!("/v1/sessions/{}", session.id);
    assert_eq!(server.get(&path).await.code(), "not_found");
}

#[tokio::test]
async fn a_full_server_says_when_to_retry() {
    let server = start(full_of_one).await;
    let session = create(&server, CREATE, "fault:silent").await;
    let reply = post(&server, CREATE, &json!({"message": "a"})).await;
    assert_eq!(reply.status, 503);
    assert_eq!(keys(&reply.json()), ["ok", "error"]);
    assert!(reply.headers.contains_key("retry-after"));
    assert_eq!(server.get("/eve/v1/health").await.status, 200);
    drop(session);
}

/// A journal with room for one turn.
fn of_one_turn(settings: &mut Settings) {
    full_of_one(settings);
    settings.journal_turns = Count(1);
}

#[tokio::test]
async fn a_dropped_offset_is_reported() {
    let server = start(of_one_turn).await;
    let session = create(&server, CREATE, "fault:empty").await;
    let first = read(&server, &session, 0).await;
    server.until_idle().await;
    // The last line can still be read: nothing came after it.
    assert_eq!(first.len(), 8);
    assert_eq!(go_on(&server, &session, "fault:empty").await.status, 200);
    let second = read(&server, &session, 8).await;
    assert_eq!(types(&second)[..2], ["turn.started", "message.received"]);
    for place in [0, 7] {
        let reply = server.get(&session.stream(place)).await;
        assert_eq!(reply.status, 400);
        assert_eq!(
            reply.json(),
            json!({"ok": false, "error": "The lines before index 8 are no longer available.", "journalBaseIndex": 8})
        );
    }
    // A turn of another session evicts it, and with it all lines of this one.
    server.until_idle().await;
    create(&server, CREATE, "fault:empty").await;
    let end = 8 + second.len();
    let reply = server.get(&session.stream(8)).await;
    assert_eq!(
        (reply.status.as_u16(), &reply.json()["journalBaseIndex"]),
        (400, &json!(end))
    );
    assert_eq!(read(&server, &session, end).await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_turn_that_outgrows_the_journal_leaves_its_line_count() {
    let server = start(|settings| settings.journal_size = Size(2000)).await;
    let session = create(&server, CREATE, "fault:slow").await;
    // A reader from the beginning gets everything; a later one gets the index where it can
    // continue.
    let all = read(&server, &session, 0).await;
    assert_eq!(types(&all).last(), Some(&"session.waiting"));
    server.until_idle().await;
    server.app.endpoints.drained().await;
    let reply = server.get(&session.stream(1)).await;
    assert_eq!(
        (reply.status.as_u16(), &reply.json()["journalBaseIndex"]),
        (400, &json!(all.len()))
    );
    assert_eq!(go_on(&server, &session, "fault:empty").await.status, 200);
    assert_eq!(
        types(&read(&server, &session, all.len()).await)[0],
        "turn.started"
    );
}

#[tokio::test]
async fn health_and_info_contain_what_clients_read() {
    let server = start(|_| {}).await;
    let health = server.get("/eve/v1/health").await;
    assert_eq!(
        health.json(),
        json!({"ok": true, "status": "ready", "workflowId": "ragwire"})
    );
    let info = server.get("/eve/v1/info").await;
    assert_eq!(
        (&info.json()["kind"], &info.json()["version"]),
        (&json!("eve-agent-info"), &json!(1))
    );
}
