//! The routes of the session chat.

use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use ragwire::session::Role;
use ragwire::{Frame, SessionChat};
use ragwire_server::sample;
use ragwire_server::settings::values::{CountOrZero, Size, Span};
use serde_json::{Value, json};

use crate::support::{
    JSON, Reply, Running, at_once, events, keys, no_grace, no_json, spelled, start, steady, stop_clocks,
};

/// This wire streams no text.
const TEXT: &str = "/none";
const FAILED: &str = "I hit an internal error while gathering evidence. Please retry.";

async fn begin(server: &Running) -> String {
    let reply = server.call(Method::POST, "/v1/sessions", &[], "").await;
    assert_eq!(reply.status, 201);
    reply.json()["id"].as_str().unwrap().to_owned()
}

fn stream(id: &str) -> String {
    format!("/v1/sessions/{id}/chat/stream")
}

fn whole(id: &str) -> String {
    format!("/v1/sessions/{id}/chat")
}

fn body(message: &str) -> Value {
    json!({ "message": message, "model_size": "large", "verbose": false })
}

/// A session without its times.
fn session(id: &str, title: Option<&str>, said: &[(&str, &str)]) -> Value {
    let messages = said
        .iter()
        .map(|(role, text)| json!({ "role": role, "content": text }));
    json!({
        "id": id, "profile_name": "default", "messages": messages.collect::<Vec<_>>(), "title": title,
        "created_at": 0, "updated_at": 0,
    })
}

fn still(reply: &Reply) -> Value {
    let mut value = reply.json();
    stop_clocks(&mut value);
    value
}

async fn going(server: &Running) -> Value {
    server.get("/v1/generation/status").await.json()
}

#[tokio::test]
async fn a_session_starts_empty() {
    let server = start(|_| {}).await;
    let reply = server.call(Method::POST, "/v1/sessions", &[], "").await;
    let began = reply.json();
    let id = began["id"].as_str().unwrap();
    assert!(
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
    assert_eq!(still(&reply), session(id, None, &[]));
    assert!(began["created_at"].as_f64().unwrap() > 1.7e9);
    assert_eq!(began["created_at"], began["updated_at"]);
    for empty in [
        json!(null),
        json!({}),
        json!({ "title": null, "profile_name": null }),
    ] {
        let reply = server.post("/v1/sessions", &empty).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["title"]),
            (201, &json!(null))
        );
    }
    let named = json!({ "profile_name": "default", "title": "Mine" });
    let named = server.post("/v1/sessions", &named).await;
    assert_eq!(
        (named.status.as_u16(), &named.json()["title"]),
        (201, &json!("Mine"))
    );
    assert_ne!(named.json()["id"], began["id"]);
    let shown = server.get(&format!("/v1/sessions/{id}")).await;
    assert_eq!((shown.status.as_u16(), shown.json()), (200, began));
    // A session that another route started is the same kind of session.
    server.frames_in("other", "fault:empty").await;
    let other = server.get("/v1/sessions/other").await;
    assert_eq!(
        still(&other),
        session("other", Some("fault:empty"), &[("user", "fault:empty")])
    );
}

#[tokio::test]
async fn a_turn_ends_with_the_whole_session() {
    let server = start(|_| {}).await;
    let id = begin(&server).await;
    let frames = server.frames(sample::QUESTION).await;
    let answer: String = frames
        .iter()
        .filter_map(|frame| match frame {
            Frame::Text(text) => Some(&**text),
            _ => None,
        })
        .collect();
    let title = Some(sample::QUESTION);
    for (path, before) in [(stream(&id), 0), (whole(&id), 2)] {
        let mut said = [("user", sample::QUESTION), ("assistant", &*answer)].repeat(before / 2);
        said.push(("user", sample::QUESTION));
        let Value::Object(asked) = session(&id, title, &said) else {
            unreachable!()
        };
        let wire = SessionChat::default().session(asked);
        let expected = steady(&spelled(&wire, &frames), TEXT);
        let reply = server.post(&path, &body(sample::QUESTION)).await;
        assert_eq!(reply.status, 200);
        if before == 0 {
            assert_eq!(reply.headers["content-type"], "text/event-stream");
            assert_eq!(steady(&reply.body, TEXT), expected);
        } else {
            assert_eq!(still(&reply), expected.last().unwrap().clone());
        }
        said.push(("assistant", &answer));
        let shown = server.get(&format!("/v1/sessions/{id}")).await;
        assert_eq!(still(&shown), session(&id, title, &said));
    }
}

/// What a chat shows of a search of `fault` for this: the events until its result, and the result.
fn searched(query: &str, result: &Value) -> Vec<Value> {
    let place = json!({ "round": 1, "max_rounds": 1, "call_id": "retrieval-1", "timestamp": 0 });
    let with = |members: Value| {
        let (mut event, place) = (members, place.as_object().unwrap().clone());
        event.as_object_mut().unwrap().extend(place);
        event
    };
    let mut end = with(json!({
        "type": "tool_end", "tool_name": "search_documents", "tool_result": result.to_string(),
    }));
    if result.get("code").is_some() {
        end["is_error"] = true.into();
    }
    vec![
        json!({ "type": "round_start", "round": 1, "max_rounds": 1, "timestamp": 0 }),
        with(json!({
            "type": "tool_start", "tool_name": "search_documents",
            "tool_args": { "query": query, "tool": "fault" },
        })),
        json!({ "type": "search", "tool": "fault", "query": query, "timestamp": 0 }),
        end,
    ]
}

/// A whole stream that ends in `end`, which has the tools of the events before it.
fn chat(events: Vec<Value>, mut end: Value) -> Vec<Value> {
    for (list, kind) in [("tool_calls", "tool_start"), ("tool_results", "tool_end")] {
        let of_kind = events.iter().filter(|event| event["type"] == kind);
        let tools = of_kind.map(|event| {
            let mut tool = event.as_object().unwrap().clone();
            for name in ["type", "max_rounds", "timestamp"] {
                tool.remove(name);
            }
            Value::Object(tool)
        });
        end["response"][list] = tools.collect();
    }
    events.into_iter().chain([end]).collect()
}

/// The end of a chat that failed after this much of an answer.
fn failed(code: &str, message: &str, content: &str) -> Value {
    json!({
        "type": "error",
        "error": message,
        "response": {
            "content": content, "tool_calls": [], "tool_results": [], "rounds_used": 1, "finished": false, "latency_ms": 0,
        },
        "metadata": {
            "citations": [], "tools_used": ["chat_failed"], "queue_stats": at_once(), "status": "failed",
            "error": { "code": code, "message": message, "recoverable": true },
        },
        "timestamp": 0,
    })
}

#[tokio::test]
async fn faults_have_the_form_that_the_client_reads() {
    let server = start(|_| {}).await;
    let id = begin(&server).await;
    let reply = server.post(&stream(&id), &body("fault:text")).await;
    assert_eq!(
        steady(&reply.body, TEXT),
        chat(
            searched("text", &json!({})),
            failed("chat_failed", FAILED, "The first half of an answer that breaks "),
        )
    );
    let partial = format!("The first half of an answer that breaks \n\n{FAILED}");
    let mut said = vec![
        ("user", "fault:text"),
        ("assistant", &*partial),
        ("user", "fault:empty"),
    ];
    let reply = server.post(&stream(&id), &body("fault:empty")).await;
    let mut after = said.clone();
    after.push(("assistant", ""));
    assert_eq!(
        steady(&reply.body, TEXT),
        [json!({
            "type": "complete",
            "session": session(&id, Some("fault:text"), &after),
            "response": {
                "content": "", "tool_calls": [], "tool_results": [], "rounds_used": 1, "finished": true, "latency_ms": 0,
            },
            "queue_stats": { "was_queued": false, "queue_wait_ms": 0, "queue_position": 0 },
            "timestamp": 0,
        })]
    );
    for (path, prompt) in [
        (stream(&id), "fault:reject"),
        (whole(&id), "fault:reject"),
        (whole(&id), "fault:text"),
    ] {
        let reply = server.post(&path, &body(prompt)).await;
        assert_eq!(
            (reply.status.as_u16(), &*reply.code()),
            (500, "chat_failed"),
            "{prompt}"
        );
        let answer = if prompt == "fault:text" { &*partial } else { FAILED };
        said.extend([("user", prompt), ("assistant", answer)]);
    }
    let reply = server.post(&whole(&id), &body("fault:stop")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["response"]["finished"], false);
    said.extend([
        ("user", "fault:stop"),
        ("assistant", "The first half of an answer "),
    ]);
    let shown = server.get(&format!("/v1/sessions/{id}")).await;
    assert_eq!(still(&shown), session(&id, Some("fault:text"), &said));
}

/// Waits until the status is `status`. It polls, because nothing reports from outside when a
/// request starts to wait.
async fn until(server: &Running, status: &Value) {
    let waiting = async {
        while going(server).await != *status {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), waiting)
        .await
        .unwrap();
}

#[tokio::test]
async fn chats_of_a_session_wait_for_each_other() {
    // Frees the place when its reader disconnects.
    let server = start(no_grace).await;
    let (id, other) = (begin(&server).await, begin(&server).await);
    let idle = json!({ "generating_session_id": null, "queued_session_ids": [] });
    assert_eq!(going(&server).await, idle);
    // A question without a session is not counted.
    let running = server.open_turn("fault:silent").await;
    assert_eq!(going(&server).await, idle);
    let mut first = server
        .send(
            Method::POST,
            &stream(&id),
            &[JSON],
            body("fault:silent").to_string(),
        )
        .await
        .into_body();
    assert!(first.frame().await.unwrap().unwrap().is_data());
    assert_eq!(
        going(&server).await,
        json!({ "generating_session_id": id, "queued_session_ids": [] })
    );
    let (second_path, third_path) = (stream(&id), whole(&id));
    let (second_body, third_body) = (body("What is BM25?"), body("commit?"));
    let second = server.post(&second_path, &second_body);
    let checks = async {
        until(
            &server,
            &json!({ "generating_session_id": id, "queued_session_ids": [id] }),
        )
        .await;
        let third = server.post(&third_path, &third_body);
        let free = async {
            until(
                &server,
                &json!({ "generating_session_id": id, "queued_session_ids": [id, id] }),
            )
            .await;
            // Another session does not wait.
            let reply = server.post(&whole(&other), &body("commit?")).await;
            assert_eq!(reply.json()["queue_stats"]["queue_position"], 0);
            // Less than 10 ms would not be a wait.
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(first);
        };
        tokio::join!(third, free).0
    };
    let (second, third) = tokio::join!(second, checks);
    let complete = events(&second.body).pop().unwrap();
    for (complete, position, said) in [(complete, 1, 3), (third.json(), 2, 5)] {
        let stats = &complete["queue_stats"];
        assert_eq!(
            (&stats["was_queued"], &stats["queue_position"]),
            (&json!(true), &json!(position))
        );
        assert!(stats["queue_wait_ms"].as_f64().unwrap() > 10.0);
        assert_eq!(complete["session"]["messages"].as_array().unwrap().len(), said);
    }
    let roles: Vec<_> = server.said(&id).await.into_iter().map(|(role, _)| role).collect();
    // The first chat was dropped before its first word.
    let (user, assistant) = (Role::User, Role::Assistant);
    assert_eq!(roles, [user, user, assistant, user, assistant]);
    drop(running);
    server.until_idle().await;
    assert_eq!(going(&server).await, idle);
}

#[tokio::test]
async fn waiting_requests_do_not_delay_shutdown() {
    let mut server = start(|_| {}).await;
    let id = begin(&server).await;
    let path = whole(&id);
    let running = server
        .send(
            Method::POST,
            &stream(&id),
            &[JSON],
            body("fault:silent").to_string(),
        )
        .await
        .into_body();
    let stop = server.stop.take().unwrap();
    let waits = body("commit?");
    let stopping = async {
        until(
            &server,
            &json!({ "generating_session_id": id, "queued_session_ids": [id] }),
        )
        .await;
        stop.send(()).unwrap();
        running.collect().await.unwrap().to_bytes()
    };
    let (waited, ended) = tokio::join!(server.post(&path, &waits), stopping);
    assert_eq!((waited.status.as_u16(), &*waited.code()), (503, "shutting_down"));
    let message = "The server is restarting. Please retry in a moment.";
    assert_eq!(
        steady(&ended, TEXT),
        chat(
            searched("silent", &json!({ "code": "shutting_down", "message": message })),
            failed("shutting_down", message, ""),
        )
    );
    let roles: Vec<_> = server.said(&id).await.into_iter().map(|(role, _)| role).collect();
    assert_eq!(
        roles,
        [Role::User, Role::Assistant],
        "the one that waited is not remembered"
    );
}

/// In the contract's words: in the stream if it has started, otherwise as a status.
#[tokio::test]
async fn a_request_that_waits_too_long_fails() {
    let server = start(|settings| settings.queue_timeout = Span(Duration::from_secs(1))).await;
    let id = begin(&server).await;
    let running = server
        .send(
            Method::POST,
            &stream(&id),
            &[JSON],
            body("fault:silent").to_string(),
        )
        .await
        .into_body();
    let message = "Timed out after 1 second waiting for another request to finish.";
    let reply = server.post(&stream(&id), &body("commit?")).await;
    assert_eq!(reply.status, 200);
    let mut told = steady(&reply.body, TEXT);
    let waited = told[0]["waited_ms"].take().as_u64().unwrap();
    assert!((10..1000).contains(&waited), "{waited}");
    let mut error = failed("queue_timeout", message, "");
    let stats = &mut error["metadata"]["queue_stats"];
    (stats["was_queued"], stats["queue_position"]) = (true.into(), 1.into());
    assert_eq!(
        told,
        [
            json!({ "type": "queued", "position": 1, "ahead": 1, "waited_ms": null, "timestamp": 0 }),
            error,
        ]
    );
    let reply = server.post(&whole(&id), &body("commit?")).await;
    assert_eq!((reply.status.as_u16(), &*reply.code()), (503, "queue_timeout"));
    assert_eq!(reply.json()["error"]["message"], message);
    // Another route of the same session waits as well.
    let other = json!({ "prompt": "commit?", "session_id": id });
    let reply = server.post("/v1/turns", &other).await;
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    assert!(
        text.starts_with("{\"event\":\"queued\",\"position\":1,\"ahead\":1,"),
        "{text}"
    );
    let said: Vec<_> = server.said(&id).await.into_iter().map(|(role, _)| role).collect();
    assert_eq!(said, [Role::User], "what waited in vain is not remembered");
    drop(running);
}

#[tokio::test]
async fn a_session_has_its_share_of_the_waiting_list() {
    let server = start(|settings| {
        settings.max_queued = CountOrZero(1);
        no_grace(settings);
    })
    .await;
    let (id, other) = (begin(&server).await, begin(&server).await);
    let path = stream(&id);
    let ask = || server.send(Method::POST, &path, &[JSON], body("fault:silent").to_string());
    let (running, waiting) = (ask().await, ask().await);
    let reply = server.post(&path, &body("commit?")).await;
    assert_eq!((reply.status.as_u16(), &*reply.code()), (429, "too_many"));
    assert_eq!(reply.headers["retry-after"], "5");
    assert_eq!(server.post(&whole(&other), &body("commit?")).await.status, 200);
    drop((running, waiting));
    server.until_idle().await;
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let server = start(|settings| settings.max_question = Size(100)).await;
    let id = begin(&server).await;
    for path in [stream(&id), whole(&id)] {
        let mut cases = no_json();
        for bad in [
            json!({ "message": null }),
            json!({ "message": 7 }),
            json!({ "message": "" }),
            json!({ "message": " \n" }),
            json!({ "message": "x".repeat(101) }),
            json!({ "message": "a", "model_size": "huge" }),
            json!({ "message": "a", "model_size": 1 }),
            json!({ "message": "a", "verbose": "yes" }),
            json!({ "message": "a", "more": 1 }),
        ] {
            cases.push((bad, 422, "invalid_request"));
        }
        cases.push((body(&"x".repeat(1_000_000)), 413, "body_too_large"));
        server.refuses(&path, &cases).await;
    }
    for (id, status, code) in [
        ("0123456789abcdef0123456789abcdef", 404, "not_found"),
        ("unknown", 404, "not_found"),
        ("a%2Fb", 400, "bad_session_id"),
        ("%ff", 400, "bad_session_id"),
        ("%00", 400, "bad_session_id"),
        (&"a".repeat(129), 400, "bad_session_id"),
    ] {
        for path in [stream(id), whole(id)] {
            server.refuses(&path, &[(body("a"), status, code)]).await;
        }
        let reply = server.get(&format!("/v1/sessions/{id}")).await;
        assert_eq!((reply.status.as_u16(), &*reply.code()), (status, code), "{id}");
    }
    let long = "x".repeat(201);
    let bad = [
        (json!("{"), 400, "bad_json"),
        (json!("[]"), 422, "invalid_request"),
        (json!({ "title": 7 }), 422, "invalid_request"),
        (json!({ "title": long }), 422, "invalid_request"),
        (json!({ "profile_name": "mirror" }), 422, "invalid_request"),
        (json!({ "more": 1 }), 422, "invalid_request"),
        (json!({ "title": "x".repeat(5_000) }), 413, "body_too_large"),
    ];
    server.refuses("/v1/sessions", &bad).await;
    assert_eq!(
        server.app.stores.sessions.sweep().await.unwrap(),
        1,
        "no session came of them"
    );
    assert_eq!(server.said(&id).await, []);
}

#[tokio::test]
async fn a_full_server_reports_it() {
    // Capacity is checked before the session.
    for path in [stream("s"), whole("s")] {
        let reply = Running::busy(&path, &body("commit?")).await;
        assert_eq!(reply.code(), "busy");
        assert_eq!(
            keys(&reply.json()["error"]),
            ["code", "message", "recoverable", "request_id"]
        );
    }
}
