//! An orchestrator behind HTTP: what it gets, what of it arrives, and every way in which it fails.

use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use ragwire_server::settings::engines::{Address, Label, Secret};
use ragwire_server::settings::values::Count;
use serde_json::{Value, json};

use super::double::{Double, Step, chunk, head, last, until, whole};
use super::{Log, SHORT, gateway, told};
use crate::support::{JSON, no_grace};

const LINES: &str = "application/x-ndjson";

fn answered() -> Vec<Step> {
    vec![
        head(LINES),
        chunk("{\"event\":\"search\",\"tool\":\"bm25\",\"query\":\"why\"}\n"),
        chunk("{\"text\":\"Forty\"}\n{\"text\":\"\"}\n{\"text\":\"-two.\"}\n"),
        chunk("{\"end\":\"completed\",\"metadata\":{\"tools_used\":[\"bm25\"]}}\n"),
        last(),
    ]
}

#[tokio::test]
async fn an_orchestrator_gets_the_question_and_its_answer_is_relayed() {
    let double = Double::start(vec![answered()]).await;
    let server = gateway(&double.url, |settings| {
        settings.orchestrator_token = Secret(Some("t0ken".into()));
        settings.orchestrator_header = vec!["X-Tenant".into()];
    });
    let body = json!({"prompt": "Why?", "session_id": "s"}).to_string();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [
        JSON,
        ("accept", "application/x-ndjson"),
        ("x-tenant", "acme"),
        ("cookie", "private"),
        ("traceparent", parent),
    ];
    for _ in 0..2 {
        let reply = server
            .call(Method::POST, "/v1/turns", &headers, body.clone())
            .await;
        assert_eq!(reply.status, 200);
        let frames = crate::support::in_lines(&reply.body);
        assert_eq!(told(&frames), ("Forty-two.".into(), None));
        assert!(matches!(&frames[0], ragwire::Frame::Event { event, .. } if event.name() == "search"));
    }
    let seen = double.seen();
    assert!(seen[0].head.starts_with("POST /ask HTTP/1.1"), "{}", seen[0].head);
    for (name, value) in [
        ("content-type", Some("application/json")),
        ("authorization", Some("Bearer t0ken")),
        ("x-tenant", Some("acme")),
        ("cookie", None),
        ("traceparent", Some(parent)),
    ] {
        assert_eq!(seen[0].header(name), value, "{name}");
    }
    let turn = seen[0].header("x-ragwire-turn").unwrap();
    assert_eq!(seen[0].header("idempotency-key"), Some(turn));
    assert_eq!(turn.len(), 32);
    assert_eq!(seen[0].body["prompt"], "Why?");
    assert_eq!(seen[0].body.get("history"), None);
    // The server keeps the session, so the orchestrator needs no memory.
    assert_eq!(
        seen[1].body["history"],
        json!([{"role": "user", "text": "Why?"}, {"role": "assistant", "text": "Forty-two."}])
    );
}

#[tokio::test]
async fn a_trace_begins_with_the_turn() {
    let double = Double::start(vec![answered()]).await;
    let server = gateway(&double.url, |_| ());
    server.frames("Why?").await;
    let seen = &double.seen()[0];
    let turn = seen.header("x-ragwire-turn").unwrap();
    let parent = seen.header("traceparent").unwrap();
    assert!(parent.starts_with(&format!("00-{turn}-")), "{parent}");
    assert_eq!(seen.header("authorization"), None);
}

/// Before the answer begins, each failure is a status with a code; afterwards it is the wire's
/// terminal with the same code. The log has what the orchestrator said, and no token.
#[tokio::test]
async fn every_failure_has_a_code_and_the_log_says_why() {
    let half = || vec![head(LINES), chunk("{\"text\":\"Half\"}\n")];
    let after = |mut begin: Vec<Step>, rest: Vec<Step>| {
        begin.extend(rest);
        begin
    };
    let cases: Vec<(&str, Vec<Step>, u16, &str, &str)> = vec![
        (
            "a page",
            vec![whole("200 OK", "text/html", "<h1>It works!</h1>")],
            502,
            "upstream_unreadable",
            "It works!",
        ),
        (
            "json of another kind",
            vec![whole("200 OK", "application/json", "{\"answer\": 42}")],
            502,
            "upstream_unreadable",
            "42",
        ),
        (
            "401",
            vec![whole(
                "401 Unauthorized",
                "application/json",
                "{\"detail\":\"bad token t0ken\"}",
            )],
            502,
            "upstream_refused",
            "bad token (not shown)",
        ),
        (
            "500",
            vec![whole("500 Oops", "text/plain", "Traceback\nKeyError: 'x'")],
            502,
            "upstream_refused",
            "KeyError",
        ),
        (
            "a redirect",
            vec![whole("302 Found", "text/plain", "")],
            502,
            "upstream_refused",
            "302",
        ),
        (
            "silence",
            vec![Step::Hang],
            504,
            "upstream_timeout",
            "begin to answer",
        ),
        (
            "a head and silence",
            vec![head(LINES), Step::Hang],
            504,
            "upstream_timeout",
            "begin to answer",
        ),
        ("death", vec![], 502, "upstream_truncated", "broke off"),
        (
            "a head and death",
            vec![head(LINES)],
            502,
            "upstream_truncated",
            "broke off",
        ),
        (
            "an empty body",
            vec![head(LINES), last()],
            502,
            "upstream_truncated",
            "",
        ),
        (
            "not json",
            vec![head(LINES), chunk("Forty-two, t0ken.\n"), Step::Hang],
            502,
            "upstream_unreadable",
            "Forty-two, (not shown).",
        ),
        (
            "100 MB in one line",
            vec![head(LINES), Step::Flood],
            502,
            "upstream_too_large",
            "xxx",
        ),
        (
            "half a stream and silence",
            after(half(), vec![Step::Hang]),
            200,
            "upstream_timeout",
            "did not continue",
        ),
        (
            "half a stream and death",
            half(),
            200,
            "upstream_truncated",
            "broke off",
        ),
        (
            "half a stream and the end of the body",
            after(half(), vec![last()]),
            200,
            "upstream_truncated",
            "",
        ),
        (
            "half a stream and garbage",
            after(half(), vec![chunk("<b>Oops</b>\n"), Step::Hang]),
            200,
            "upstream_unreadable",
            "<b>Oops</b>",
        ),
        (
            "half a stream and 100 MB in one line",
            after(half(), vec![Step::Flood]),
            200,
            "upstream_too_large",
            "xxx",
        ),
        (
            "its own failure",
            after(
                half(),
                vec![
                    chunk(
                        "{\"end\":\"failed\",\"error\":{\"code\":\"quota\",\"message\":\"No more today.\"}}\n",
                    ),
                    last(),
                ],
            ),
            200,
            "quota",
            "",
        ),
    ];
    for (case, script, status, code, logged) in cases {
        let log = Log::start();
        let double = Double::start(vec![script]).await;
        let server = gateway(&double.url, |settings| {
            settings.orchestrator_token = Secret(Some("t0ken".into()));
        });
        let body = json!({"prompt": "Why?"}).to_string();
        let headers = [JSON, ("accept", "application/x-ndjson")];
        let reply = server.call(Method::POST, "/v1/turns", &headers, body).await;
        assert_eq!(reply.status.as_u16(), status, "{case}: {:?}", reply.body);
        if status == 200 {
            let (text, failure) = told(&crate::support::in_lines(&reply.body));
            let failure = failure.unwrap_or_else(|| panic!("{case}: it did not fail"));
            assert_eq!((&*text, failure.code()), ("Half", code), "{case}");
        } else {
            assert_eq!(reply.code(), code, "{case}");
        }
        let log = log.text();
        assert!(log.contains(logged), "{case}: {log}");
        assert!(!log.contains("t0ken"), "{case}: {log}");
        assert!(!String::from_utf8_lossy(&reply.body).contains("t0ken"), "{case}");
        assert!(
            double.flooded() < 16 << 20,
            "{case}: {} bytes were read",
            double.flooded()
        );
    }
}

#[tokio::test]
async fn failures_are_the_terminals_of_other_wires_too() {
    let half = vec![head(LINES), chunk("{\"text\":\"Half\"}\n")];
    let double = Double::start(vec![half]).await;
    let server = gateway(&double.url, |_| ());
    let reply = server.ask(crate::support::STREAM, "Why?").await;
    let (text, failure) = told(&crate::support::decode(&reply.body));
    assert_eq!(text, "Half\n\nThe answer broke off. Please retry.");
    assert_eq!(failure.unwrap().code(), "upstream_truncated");
    let reply = server.ask(crate::support::WHOLE, "Why?").await;
    assert_eq!(
        (reply.status.as_u16(), &*reply.code()),
        (502, "upstream_truncated")
    );
    let completion = json!({"model": "ragwire", "messages": [{"role": "user", "content": "Why?"}]});
    let reply = server.post("/v1/chat/completions", &completion).await;
    assert_eq!(reply.status, 502);
    assert_eq!(reply.json()["error"]["code"], "upstream_truncated");
}

#[tokio::test]
async fn nothing_listens() {
    let log = Log::start();
    let server = gateway("http://127.0.0.1:9/ask", |_| ());
    let reply = server.post("/v1/turns", &json!({"prompt": "Why?"})).await;
    assert_eq!(
        (reply.status.as_u16(), &*reply.code()),
        (502, "upstream_unreachable")
    );
    assert!(log.text().contains("cannot connect"), "{}", log.text());
}

#[tokio::test]
async fn a_question_is_repeated_only_before_its_answer_begins() {
    let busy = "HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let busy = vec![Step::Write(busy.to_owned())];
    let double = Double::start(vec![busy, vec![], answered()]).await;
    let server = gateway(&double.url, |settings| settings.orchestrator_attempts = Count(3));
    assert_eq!(told(&server.frames("Why?").await).0, "Forty-two.");
    let seen = double.seen();
    assert_eq!(seen.len(), 3);
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key")).collect();
    assert_eq!(keys, [keys[0]; 3]);

    let half = vec![head(LINES), chunk("{\"text\":\"Half\"}\n")];
    let double = Double::start(vec![half, answered()]).await;
    let server = gateway(&double.url, |settings| settings.orchestrator_attempts = Count(3));
    let (text, failure) = told(&server.frames("Why?").await);
    assert_eq!((&*text, failure.unwrap().code()), ("Half", "upstream_truncated"));
    assert_eq!(double.seen().len(), 1);

    let refused = vec![whole("400 Bad", "text/plain", "no")];
    let double = Double::start(vec![refused, answered()]).await;
    let server = gateway(&double.url, |settings| settings.orchestrator_attempts = Count(3));
    let reply = server.post("/v1/turns", &json!({"prompt": "Why?"})).await;
    assert_eq!(reply.json()["error"]["recoverable"], false);
    assert_eq!(double.seen().len(), 1);
}

#[tokio::test]
async fn a_stop_and_a_disconnect_close_the_connection() {
    let hangs = vec![head(LINES), chunk("{\"text\":\"Half\"}\n"), Step::Hang];
    let double = Double::start(vec![hangs]).await;
    let server = gateway(&double.url, |settings| {
        settings.orchestrator_idle_timeout.0 = Duration::from_secs(60);
        no_grace(settings);
    });
    let body = json!({"prompt": "Why?"}).to_string();
    let response = server.send(Method::POST, "/v1/turns", &[JSON], body).await;
    let turn = response.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    let stop = format!("/v1/turns/{turn}/stop");
    assert!(
        server
            .call(Method::POST, &stop, &[], "")
            .await
            .status
            .is_success()
    );
    let rest = response.into_body().collect().await.unwrap().to_bytes();
    assert!(!rest.is_empty());
    double.closed(1).await;

    drop(server.open_turn("Why?").await);
    double.closed(2).await;
    server.until_idle().await;
}

#[tokio::test]
async fn a_named_wire_is_that_of_the_request_and_of_the_answer() {
    let events =
        |lines: &[&str]| -> String { lines.iter().map(|line| format!("data: {line}\n\n")).collect() };
    let sse = "text/event-stream";
    for (wire, content_type, body, asked) in [
        (
            "sse",
            sse,
            "id: 0\nevent: text\ndata: {\"text\":\"Yes.\"}\n\nid: 1\nevent: end\ndata: {\"end\":\"completed\"}\n\n".to_owned(),
            "/prompt",
        ),
        (
            "framed",
            "text/plain",
            "\u{1d}Yes.\u{1e}{\"citations\":[],\"tools_used\":[]}".to_owned(),
            "/prompt",
        ),
        ("plain", "text/plain", "Yes.".to_owned(), "/prompt"),
        (
            "ndjson",
            "text/plain",
            "{\"text\":\"Yes.\"}\n{\"end\":\"completed\"}\n".to_owned(),
            "/prompt",
        ),
        (
            "openai",
            sse,
            events(&[
                r#"{"choices":[{"index":0,"delta":{"content":"Yes."},"finish_reason":null}]}"#,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
                "[DONE]",
            ]),
            "/messages/0/content",
        ),
        (
            "ag-ui",
            sse,
            events(&[
                r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
                r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
                r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Yes."}"#,
                r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
                r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#,
            ]),
            "/messages/0/content",
        ),
        (
            "ai_sdk",
            sse,
            events(&[
                r#"{"type":"start"}"#,
                r#"{"type":"text-start","id":"1"}"#,
                r#"{"type":"text-delta","id":"1","delta":"Yes."}"#,
                r#"{"type":"text-end","id":"1"}"#,
                r#"{"type":"finish"}"#,
                "[DONE]",
            ]),
            "/messages/0/parts/0/text",
        ),
        (
            "ollama",
            "application/x-ndjson",
            concat!(
                r#"{"model":"m","message":{"role":"assistant","content":"Yes."},"done":false}"#,
                "\n",
                r#"{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}"#,
                "\n"
            )
            .to_owned(),
            "/messages/0/content",
        ),
    ] {
        let double = Double::start(vec![vec![head(content_type), chunk(&body), last()]]).await;
        let server = gateway(&double.url, |settings| {
            settings.orchestrator_wire = Label(Some(wire.to_owned()));
        });
        let body = json!({"prompt": "Why?"}).to_string();
        let headers = [JSON, ("accept", "application/x-ndjson")];
        let reply = server.call(Method::POST, "/v1/turns", &headers, body).await;
        assert_eq!(reply.status, 200, "{wire}: {:?}", reply.body);
        assert_eq!(told(&crate::support::in_lines(&reply.body)), ("Yes.".into(), None), "{wire}");
        let seen = &double.seen()[0];
        assert_eq!(seen.body.pointer(asked), Some(&json!("Why?")), "{wire}: {}", seen.body);
    }
}

#[tokio::test]
async fn a_slow_answer_is_not_a_silent_one() {
    let mut slow = vec![head("text/plain; charset=utf-8")];
    for word in ["One ", "two ", "three."] {
        slow.extend([chunk(word), Step::Pause(SHORT * 2 / 3)]);
    }
    slow.push(last());
    let double = Double::start(vec![slow]).await;
    let server = gateway(&double.url, |_| ());
    assert_eq!(
        told(&server.frames("Why?").await),
        ("One two three.".into(), None)
    );
}

/// The orchestrator is another server of ours, behind this one.
#[tokio::test]
async fn a_server_in_front_of_a_server() {
    let behind = crate::support::start(|_| ()).await;
    let url = format!("{}/v1/turns", behind.base);
    let server = gateway(&url, |settings| {
        settings.orchestrator = Address(Some(url.clone()));
    });
    for prompt in [
        "fault:text",
        "fault:stop",
        "fault:no-events",
        "fault:unicode",
        "fault:hostile",
    ] {
        let direct = behind.frames(prompt).await;
        let relayed = server.frames(prompt).await;
        assert_eq!(told(&relayed), told(&direct), "{prompt}");
        let names = |frames: &[ragwire::Frame]| -> Vec<Value> {
            let events = frames.iter().filter_map(|frame| match frame {
                ragwire::Frame::Event { event, .. } => Some(json!(event)),
                _ => None,
            });
            events.collect()
        };
        assert_eq!(names(&relayed), names(&direct), "{prompt}");
    }
    until(|| behind.app.turns.active() == 0).await;
}
