//! Eve's sessions beyond one turn and one process: ownership, cancelling, and sessions of a host
//! that died.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use ragwire::session::Sessions;
use ragwire_rag::Library;
use ragwire_server::app::session_limits;
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::{Count, CountOrZero, Header};
use serde_json::{Value, json};

use crate::support::{JSON, Reply, Running, start, start_over};

const CREATE: &str = "/eve/v1/session";

async fn post(server: &Running, path: &str, body: &Value) -> Reply {
    server.call(Method::POST, path, &[JSON], body.to_string()).await
}

/// Starts a session. Returns its path and its token.
async fn create(server: &Running, message: &str) -> (String, String) {
    let reply = post(server, CREATE, &json!({ "message": message })).await;
    assert_eq!(reply.status, 202, "{:?}", reply.body);
    let body = reply.json();
    let word = |name: &str| body[name].as_str().unwrap().to_owned();
    (
        format!("{CREATE}/{}", word("sessionId")),
        word("continuationToken"),
    )
}

async fn go_on(server: &Running, (path, token): &(String, String), message: &str) -> Reply {
    post(
        server,
        path,
        &json!({ "continuationToken": token, "message": message }),
    )
    .await
}

fn types(body: &[u8]) -> Vec<String> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap());
    lines
        .map(|line| line["type"].as_str().unwrap().to_owned())
        .collect()
}

fn owned(settings: &mut Settings) {
    settings.owner_header = Header(Some(http::HeaderName::from_static("x-user")));
}

#[tokio::test]
async fn a_turn_is_cancelled_and_the_session_continues() {
    let server = start(|_| {}).await;
    let session = create(&server, "fault:silent").await;
    let cancel = format!("{}/cancel", session.0);
    let id = session.0.rsplit('/').next().unwrap();
    let told = |word: &str| json!({"ok": true, "sessionId": id, "status": word});
    let mut body = server
        .send(Method::GET, &format!("{}/stream", session.0), &[], "")
        .await
        .into_body();
    let mut bytes = body.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
    for other in ["turn_1", "turn_", "x", "turn_-1"] {
        let reply = post(&server, &cancel, &json!({ "turnId": other })).await;
        assert_eq!(
            (reply.status.as_u16(), reply.json()),
            (200, told("no_active_turn")),
            "{other}"
        );
    }
    let reply = post(&server, &cancel, &json!({ "turnId": "turn_0" })).await;
    assert_eq!((reply.status.as_u16(), reply.json()), (202, told("accepted")));
    bytes.extend_from_slice(&body.collect().await.unwrap().to_bytes());
    let all = types(&bytes);
    assert_eq!(
        all[all.len() - 3..],
        ["step.completed", "turn.completed", "session.waiting"]
    );
    for body in ["", "null", "{}"] {
        let reply = server.call(Method::POST, &cancel, &[JSON], body).await;
        assert_eq!(
            (reply.status.as_u16(), reply.json()),
            (200, told("no_active_turn")),
            "{body:?}"
        );
    }
    assert_eq!(go_on(&server, &session, "fault:empty").await.status, 200);
    let rest = server
        .get(&format!("{}/stream?startIndex={}", session.0, all.len()))
        .await;
    assert_eq!(types(&rest.body)[0], "turn.started");

    let unknown = format!("{CREATE}/ses_{}/cancel", "0".repeat(32));
    let reply = post(&server, &unknown, &json!({})).await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()),
        (404, json!({"ok": false, "error": "Session not found."}))
    );
    for bad in ["{", "7", "[]"] {
        let reply = server.call(Method::POST, &cancel, &[JSON], bad).await;
        assert!(reply.status.is_client_error(), "{bad}");
        assert_eq!(reply.json()["ok"], json!(false));
    }
}

#[tokio::test]
async fn of_many_messages_at_once_one_is_accepted() {
    let server = start(|_| {}).await;
    let session = create(&server, "fault:empty").await;
    server.get(&format!("{}/stream", session.0)).await;
    let messages = (0..8).map(|_| go_on(&server, &session, "fault:slow"));
    let replies = futures_util::future::join_all(messages).await;
    let mut statuses: Vec<_> = replies.iter().map(|reply| reply.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409]);
    for reply in replies.iter().filter(|reply| reply.status == 409) {
        assert_eq!(
            reply.json(),
            json!({"ok": false, "error": "Session is still active."})
        );
    }
    let all = types(&server.get(&format!("{}/stream", session.0)).await.body);
    assert_eq!(all.iter().filter(|kind| *kind == "turn.started").count(), 2);
}

#[tokio::test]
async fn a_client_that_disconnects_before_the_turn_starts_leaves_the_session_unchanged() {
    let server = start(|settings| {
        (settings.max_turns, settings.max_queued) = (Count(1), CountOrZero(4));
        settings.disconnect_grace = ragwire_server::settings::values::Grace(Duration::ZERO);
    })
    .await;
    let session = create(&server, "fault:empty").await;
    server.get(&format!("{}/stream", session.0)).await;
    server.until_idle().await;
    let busy = server.open_turn("fault:silent").await;
    {
        // It waits for a place: it was accepted and has not started.
        let mut waiting = std::pin::pin!(go_on(&server, &session, "fault:empty"));
        let soon = tokio::time::sleep(Duration::from_millis(300));
        tokio::select! {
            reply = &mut waiting => {
                // Its position is sent as the first event, so the stream may have started already.
                assert_eq!(reply.status, 200);
            }
            () = soon => {}
        }
    }
    drop(busy);
    let answered = async {
        loop {
            let reply = go_on(&server, &session, "fault:empty").await;
            if reply.status == 200 {
                break;
            }
            assert_eq!(reply.json()["error"], "Session is still active.");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), answered)
        .await
        .unwrap();
}

#[tokio::test]
async fn sessions_of_others_unknown_and_expired_ones_look_the_same() {
    let server = start(|settings| {
        owned(settings);
        settings.session_age = ragwire_server::settings::values::Span(Duration::from_millis(400));
    })
    .await;
    let as_user = |user: &'static str| [JSON, ("x-user", user)];
    let question = json!({ "message": "fault:empty" }).to_string();
    let create = async || {
        let reply = server
            .call(Method::POST, CREATE, &as_user("alice"), question.clone())
            .await;
        assert_eq!(reply.status, 202);
        reply.json()["sessionId"].as_str().unwrap().to_owned()
    };
    let begin = async || {
        let reply = server
            .call(Method::POST, "/v1/sessions", &as_user("alice"), "")
            .await;
        assert_eq!(reply.status, 201);
        reply.json()["id"].as_str().unwrap().to_owned()
    };
    let (old_eve, old_chat) = (create().await, begin().await);
    let own = server
        .call(
            Method::GET,
            &format!("{CREATE}/{old_eve}/stream"),
            &as_user("alice"),
            "",
        )
        .await;
    assert_eq!(own.status, 200);
    server.until_idle().await;
    server.app.endpoints.drained().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (eve, chat) = (create().await, begin().await);
    // Status, headers and body, without values that differ at every request.
    let told = async |method: &Method, user: &'static str, path: String, body: &str| {
        let reply = server
            .call(method.clone(), &path, &as_user(user), body.to_owned())
            .await;
        let mut headers = reply.headers.clone();
        for own in ["date", "server-timing", "x-request-id"] {
            headers.remove(own);
        }
        let mut body = String::from_utf8(reply.body.to_vec()).unwrap();
        if let Ok(value) = serde_json::from_str::<Value>(&body)
            && let Some(id) = value["error"]["request_id"].as_str()
        {
            body = body.replace(id, "ID");
        }
        (reply.status.as_u16(), format!("{headers:?}"), body)
    };
    let nobody = "0".repeat(32);
    let message = json!({ "message": "fault:empty" }).to_string();
    for (method, path, body) in [
        (Method::GET, "/v1/sessions/{}", ""),
        (Method::POST, "/v1/sessions/{}/chat", &*message),
        (Method::POST, "/v1/sessions/{}/chat/stream", &*message),
    ] {
        let unknown = told(&method, "alice", path.replace("{}", &nobody), body).await;
        assert_eq!(unknown.0, 404);
        for (user, id) in [
            ("mallory", &chat),
            ("alice", &old_chat),
            ("alice", &eve),
            ("mallory", &eve),
        ] {
            let other = told(&method, user, path.replace("{}", id), body).await;
            assert_eq!(other, unknown, "{user} {path}");
        }
    }
    let unknown_eve = format!("ses_{nobody}");
    for (method, path, body) in [
        (Method::GET, "/eve/v1/session/{}/stream", ""),
        (Method::POST, "/eve/v1/session/{}", &*message),
        (Method::POST, "/eve/v1/session/{}/cancel", ""),
    ] {
        let unknown = told(&method, "alice", path.replace("{}", &unknown_eve), body).await;
        assert_eq!(
            (unknown.0, &*unknown.2),
            (404, r#"{"ok":false,"error":"Session not found."}"#)
        );
        for (user, id) in [
            ("mallory", &*eve),
            ("alice", &*old_eve),
            ("alice", &*chat),
            ("alice", "..%2f"),
            ("alice", "%00"),
        ] {
            let other = told(&method, user, path.replace("{}", id), body).await;
            assert_eq!(other, unknown, "{user} {path} {id}");
        }
    }
    // Each owner has their own sessions: the same name is another session.
    let ask = async |user| {
        let (path, body) = (
            "/v1/rag/sessions/demo/messages",
            r#"{"prompt":"fault:no-events"}"#,
        );
        server.call(Method::POST, path, &as_user(user), body).await
    };
    assert_eq!(ask("alice").await.status, 200);
    assert_eq!(ask("bob").await.status, 200);
    assert_eq!(server.said_by("alice", "demo").await.len(), 2);
    assert_eq!(server.said_by("bob", "demo").await.len(), 2);
    assert_eq!(server.get(CREATE).await.status, 405);
    let nobody = server.call(Method::POST, CREATE, &[JSON], question.clone()).await;
    assert_eq!(
        (nobody.status.as_u16(), &nobody.json()["ok"]),
        (401, &json!(false))
    );
}

/// Two processes, one after the other, over the same sessions; the first one's journal is lost.
#[tokio::test]
async fn sessions_of_a_host_that_died_do_not_stay_active() {
    let sessions = Sessions::in_memory(session_limits(&Settings::default()));
    let library = || Arc::new(Library::in_memory(Default::default()).unwrap());
    let first = start_over(Some(sessions.clone()), library(), None, |_| {});
    let session = create(&first, "fault:empty").await;
    let stream = |index: u64| format!("{}/stream?startIndex={index}", session.0);
    let seen = types(&first.get(&stream(0)).await.body).len() as u64;
    assert_eq!(go_on(&first, &session, "fault:silent").await.status, 200);
    // As if it had been killed: its journal is lost, and the end of the turn is never sent.
    let second = start_over(Some(sessions.clone()), library(), None, |_| {});
    let base = seen + (1 << 32);
    for index in [seen, seen + 3] {
        let reply = second.get(&stream(index)).await;
        assert_eq!(
            (reply.status.as_u16(), reply.json()),
            (
                400,
                json!({
                    "ok": false,
                    "error": format!("The lines before index {base} are no longer available."),
                    "journalBaseIndex": base,
                })
            )
        );
    }
    assert_eq!(go_on(&second, &session, "fault:empty").await.status, 200);
    let next = second.get(&stream(base)).await;
    assert_eq!(types(&next.body)[..2], ["turn.started", "message.received"]);
    // Nothing that the first process writes afterwards changes the session.
    first.app.turns.shut_down();
    first.until_idle().await;
    first.app.endpoints.drained().await;
    let end = base + types(&next.body).len() as u64;
    let rest = second.get(&stream(end)).await;
    assert_eq!((rest.status.as_u16(), rest.body.len()), (200, 0));
    assert_eq!(go_on(&second, &session, "fault:empty").await.status, 200);
}
