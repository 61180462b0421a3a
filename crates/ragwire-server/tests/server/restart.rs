//! Sessions survive the server: the program is killed and started again over the same folder.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

struct Program {
    child: Child,
    base: String,
    told: Vec<String>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Program {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ragwire-server"))
            .args([
                "--listen",
                "127.0.0.1:0",
                "--test-faults",
                "--owner-header",
                "x-user",
                "--data",
            ])
            .arg(data)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let mut told: Vec<String> = Vec::new();
        // The address, and the location of the sessions.
        while !told.last().is_some_and(|line| line.contains("sessions: ")) {
            told.push(lines.next().expect("it starts"));
        }
        std::thread::spawn(move || lines.for_each(drop));
        let base = told
            .iter()
            .find_map(|line| Some(line.split_once("answers at ")?.1));
        Self {
            base: base.unwrap().trim_end_matches('/').to_owned(),
            child,
            told,
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    async fn call(&self, method: Method, user: &str, path: &str, body: &Value) -> (u16, Bytes) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("content-type", "application/json")
            .header("x-user", user)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let response = self.client.request(request).await.unwrap();
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.unwrap().to_bytes())
    }

    async fn json(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let (status, body) = self.call(method, "alice", path, body).await;
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// `kill -9`.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn sessions_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = Program::start(folder.path());
    let file = folder.path().join("sessions.db");
    assert_eq!(
        server.told.last().unwrap().trim(),
        format!("sessions: 0, in {}", file.display())
    );
    let (status, begun) = server
        .json(Method::POST, "/v1/sessions", &json!({"title": "Mine"}))
        .await;
    assert_eq!(status, 201);
    let path = format!("/v1/sessions/{}", begun["id"].as_str().unwrap());
    let chat = format!("{path}/chat");
    let asked = server
        .json(Method::POST, &chat, &json!({"message": "fault:no-events"}))
        .await;
    assert_eq!(asked.0, 200);
    let named = "/v1/rag/sessions/demo/messages";
    let asked = server
        .json(Method::POST, named, &json!({"prompt": "fault:no-events"}))
        .await;
    assert_eq!(asked.0, 200);

    let eve = "/eve/v1/session";
    let (status, created) = server
        .json(Method::POST, eve, &json!({"message": "fault:no-events"}))
        .await;
    assert_eq!(status, 202);
    let eve = format!("{eve}/{}", created["sessionId"].as_str().unwrap());
    let (_, lines) = server
        .call(Method::GET, "alice", &format!("{eve}/stream"), &Value::Null)
        .await;
    let lines = lines.iter().filter(|byte| **byte == b'\n').count();
    let next = json!({"message": "fault:no-events", "continuationToken": created["continuationToken"]});
    // Its next turn is killed with the server.
    let (status, other) = server
        .json(
            Method::POST,
            "/eve/v1/session",
            &json!({"message": "fault:silent"}),
        )
        .await;
    assert_eq!(status, 202);
    let before = server.json(Method::GET, &path, &Value::Null).await;
    assert_eq!(before.1["messages"].as_array().unwrap().len(), 2);
    // The end of Eve's first turn is stored a moment after it was read; requesting the next line
    // waits for it.
    let (status, _) = server
        .call(
            Method::GET,
            "alice",
            &format!("{eve}/stream?startIndex={lines}"),
            &Value::Null,
        )
        .await;
    assert_eq!(status, 200);
    server.kill();

    let server = Program::start(folder.path());
    assert_eq!(
        server.told.last().unwrap().trim(),
        format!("sessions: 4, in {}", file.display())
    );
    assert_eq!(server.json(Method::GET, &path, &Value::Null).await, before);
    let (status, foreign) = server.call(Method::GET, "mallory", &path, &Value::Null).await;
    let unknown = format!("/v1/sessions/{}", "0".repeat(32));
    let (_, missing) = server.call(Method::GET, "alice", &unknown, &Value::Null).await;
    assert_eq!((status, foreign.len()), (404, missing.len()));
    let (status, complete) = server
        .json(Method::POST, &chat, &json!({"message": "fault:no-events"}))
        .await;
    assert_eq!(
        (status, complete["session"]["messages"].as_array().unwrap().len()),
        (200, 4)
    );

    // Eve's client continues with its token at its last index.
    let gone = server
        .json(Method::GET, &format!("{eve}/stream?startIndex=0"), &Value::Null)
        .await;
    let expected = json!({
        "ok": false,
        "error": format!("The lines before index {lines} are no longer available."),
        "journalBaseIndex": lines,
    });
    assert_eq!(gone, (400, expected));
    assert_eq!(server.json(Method::POST, &eve, &next).await.0, 200);
    let place = format!("{eve}/stream?startIndex={lines}");
    let (status, rest) = server.call(Method::GET, "alice", &place, &Value::Null).await;
    assert_eq!(status, 200);
    assert!(
        rest.starts_with(br#"{"type":"turn.started","data":{"sequence":1,"turnId":"turn_1"}"#),
        "{rest:?}"
    );
    // A session whose turn died with the server does not stay active.
    let other_path = format!("/eve/v1/session/{}", other["sessionId"].as_str().unwrap());
    let next = json!({"message": "fault:no-events", "continuationToken": other["continuationToken"]});
    assert_eq!(server.json(Method::POST, &other_path, &next).await.0, 200);
}
