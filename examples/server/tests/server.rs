//! The server over real sockets, in this process: routes, limits, hostile input, restart, shutdown.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::future::pending;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ragwire::event::Search;
use ragwire::rag::{Library, Pipeline};
use ragwire::{Frame, Framed, Metadata, Sink, Status};
use ragwire_server::app::{App, library_limits};
use ragwire_server::cli::settings::Settings;
use ragwire_server::cli::values::{Count, Size, Span};
use ragwire_server::extract::Extractor;
use ragwire_server::orchestrator::{Answering, Orchestrator, Question};
use ragwire_server::sample;
use ragwire_server::serve::{Ended, Server};
use ragwire_server::sessions::Role;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

const STREAM: &str = "/v1/rag/sessions/s1/messages/stream";
const WHOLE: &str = "/v1/rag/sessions/s1/messages";
const JSON: (&str, &str) = ("content-type", "application/json");

struct Running {
    base: String,
    app: Arc<App>,
    stop: Option<oneshot::Sender<()>>,
    tasks: JoinSet<Ended>,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// Starts a server with the sample library and the test faults.
async fn start(change: impl FnOnce(&mut Settings)) -> Running {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    sample::add(&library).unwrap();
    start_with(library, None, change)
}

fn start_with(
    library: Arc<Library>,
    orchestrator: Option<Arc<dyn Orchestrator>>,
    change: impl FnOnce(&mut Settings),
) -> Running {
    let mut settings = Settings::default();
    settings.listen.set_port(0);
    settings.test_faults = true;
    change(&mut settings);
    let extractor = Extractor::new(env!("CARGO_BIN_EXE_ragwire-server").into(), &settings);
    let orchestrator = orchestrator.unwrap_or_else(|| Arc::new(Pipeline::lexical(Arc::clone(&library))));
    let app = Arc::new(App::new(settings, library, orchestrator, extractor));
    let server = Server::bind(Arc::clone(&app)).unwrap();
    let base = format!("http://{}", server.address());
    let (stop, stopped) = oneshot::channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(
        async {
            let _ = stopped.await;
        },
        pending(),
    ));
    Running {
        base,
        app,
        stop: Some(stop),
        tasks,
        client: Client::builder(TokioExecutor::new()).build_http(),
    }
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {:?}", self.body))
    }

    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or("none").to_owned()
    }
}

impl Running {
    fn address(&self) -> &str {
        self.base.strip_prefix("http://").unwrap()
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> hyper::Response<Incoming> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.client.request(request).await.unwrap()
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let (head, body) = self.send(method, path, headers, body).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, &[], "").await
    }

    async fn ask(&self, path: &str, prompt: &str) -> Reply {
        let body = json!({ "prompt": prompt }).to_string();
        self.call(Method::POST, path, &[JSON], body).await
    }

    async fn upload(&self, name: &str, bytes: impl Into<Bytes>) -> Reply {
        let path = format!("/v1/documents?name={name}");
        self.call(Method::POST, &path, &[], bytes).await
    }

    /// Opens a turn and reads its first bytes, so that it certainly runs.
    async fn open(&self, prompt: &str) -> Incoming {
        let body = json!({ "prompt": prompt }).to_string();
        let response = self.send(Method::POST, STREAM, &[JSON], body).await;
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        assert!(body.frame().await.unwrap().unwrap().is_data());
        body
    }

    async fn until_idle(&self) {
        let drained = self.app.turns.drained();
        tokio::time::timeout(Duration::from_secs(5), drained)
            .await
            .unwrap();
    }

    async fn stop(mut self) -> Ended {
        self.stop.take().unwrap().send(()).unwrap();
        let ended = self.tasks.join_next();
        tokio::time::timeout(Duration::from_secs(20), ended)
            .await
            .unwrap()
            .unwrap()
            .unwrap()
    }

    fn said(&self, id: &str) -> Vec<(Role, String)> {
        let said = self.app.sessions.said(id).into_iter();
        said.map(|said| (said.role, said.text)).collect()
    }
}

fn decode(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = Framed::default().decoder();
    decoder.feed(bytes);
    decoder.by_ref().collect::<Result<_, _>>().unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_stream_has_the_shape_of_the_adr() {
    let server = start(|_| {}).await;
    let reply = server.ask(STREAM, sample::QUESTION).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["content-type"], "text/plain; charset=utf-8");
    assert!(
        reply.headers["cache-control"]
            .to_str()
            .unwrap()
            .contains("no-cache")
    );
    assert_eq!(reply.headers["x-accel-buffering"], "no");

    let frames = decode(&reply.body);
    let names: Vec<_> = frames
        .iter()
        .filter_map(|frame| match frame {
            Frame::Event { event, .. } => Some(event.name()),
            _ => None,
        })
        .collect();
    assert!(
        names.contains(&"search") && names.contains(&"sources"),
        "{names:?}"
    );
    assert!(matches!(frames.last(), Some(Frame::End(end)) if end.status == Status::Completed));

    let trailer = reply.body.rsplit(|byte| *byte == 0x1e).next().unwrap();
    let trailer: Value = serde_json::from_slice(trailer).unwrap();
    assert_eq!(keys(&trailer), ["citations", "mode", "tools_used"]);
    assert_eq!(trailer["mode"], "hybrid");
    let citations = trailer["citations"].as_array().unwrap();
    assert!(!citations.is_empty());
    for citation in citations {
        let known = [
            "document_id",
            "chunk_id",
            "supporting_quote",
            "source_tool",
            "page_number",
            "score",
        ];
        assert!(keys(citation).iter().all(|key| known.contains(key)), "{citation}");
        let path = format!(
            "/v1/documents/{}/chunks/{}",
            citation["document_id"].as_str().unwrap(),
            citation["chunk_id"].as_str().unwrap()
        );
        let chunk = server.get(&path).await;
        let text = chunk.json()["text"].as_str().unwrap().to_owned();
        assert!(text.contains(citation["supporting_quote"].as_str().unwrap()));
    }
}

#[tokio::test]
async fn the_twin_tells_the_same_in_one_piece() {
    let server = start(|_| {}).await;
    let reply = server.ask(WHOLE, sample::QUESTION).await;
    assert_eq!(reply.status, 200);
    let whole = reply.json();
    let members = [
        "session_id",
        "mode",
        "answer",
        "tools_used",
        "citations",
        "agent_events",
    ];
    assert_eq!(keys(&whole), members);
    assert_eq!(
        (&whole["session_id"], &whole["mode"]),
        (&json!("s1"), &json!("hybrid"))
    );
    let events = whole["agent_events"].as_array().unwrap();
    for event in events {
        assert_eq!(keys(event)[..2], ["type", "timestamp"], "{event}");
        assert!(event.get("event").is_none());
    }
    assert!(
        events
            .iter()
            .any(|event| event["type"] == "search" && event["tool"].is_string())
    );

    let streamed = server.ask(STREAM, sample::QUESTION).await;
    let text: String = decode(&streamed.body)
        .into_iter()
        .filter_map(|frame| match frame {
            Frame::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(whole["answer"], text);
}

#[tokio::test]
async fn the_request_is_checked() {
    let server = start(|settings| settings.max_question = Size(100)).await;
    let long = json!({ "prompt": "x".repeat(101) }).to_string();
    let huge = json!({ "prompt": "x".repeat(1_000_000) }).to_string();
    let deep = format!("{{\"retrieval_mode\":{}", "[".repeat(4_000));
    let accepted =
        r#"{"prompt":"commit?","reasoning_effort":"xhigh","review_enabled":true,"retrieval_mode":{"a":1}}"#;
    let plain = ("content-type", "text/plain");
    type Case<'a> = (&'a str, (&'a str, &'a str), &'a str, u16, &'a str);
    let cases: &[Case<'_>] = &[
        (WHOLE, JSON, accepted, 200, "none"),
        (
            WHOLE,
            ("content-type", "Application/JSON; charset=utf-8"),
            accepted,
            200,
            "none",
        ),
        (WHOLE, JSON, "", 400, "bad_json"),
        (WHOLE, JSON, "{", 400, "bad_json"),
        (WHOLE, JSON, r#"{"prompt":"a"} x"#, 400, "bad_json"),
        (WHOLE, JSON, r#"{"prompt":"\ud800"}"#, 400, "bad_json"),
        (WHOLE, JSON, &deep, 400, "bad_json"),
        (WHOLE, JSON, "\u{feff}{}", 400, "bad_json"),
        (WHOLE, JSON, "null", 422, "invalid_request"),
        (WHOLE, JSON, "7", 422, "invalid_request"),
        (WHOLE, JSON, r#"["a"]"#, 422, "invalid_request"),
        (WHOLE, JSON, "[", 400, "bad_json"),
        (WHOLE, JSON, "{}", 422, "invalid_request"),
        (WHOLE, JSON, r#"{"prompt":null}"#, 422, "invalid_request"),
        (WHOLE, JSON, r#"{"prompt":7}"#, 422, "invalid_request"),
        (WHOLE, JSON, r#"{"prompt":""}"#, 422, "invalid_request"),
        (WHOLE, JSON, r#"{"prompt":" \n\t\u2003"}"#, 422, "invalid_request"),
        (
            WHOLE,
            JSON,
            r#"{"prompt":"a","prompt":"b"}"#,
            422,
            "invalid_request",
        ),
        (WHOLE, JSON, r#"{"prompt":"a","more":1}"#, 422, "invalid_request"),
        (
            WHOLE,
            JSON,
            r#"{"prompt":"a","reasoning_effort":"max"}"#,
            422,
            "invalid_request",
        ),
        (
            WHOLE,
            JSON,
            r#"{"prompt":"a","review_enabled":"yes"}"#,
            422,
            "invalid_request",
        ),
        (WHOLE, JSON, &long, 422, "invalid_request"),
        (WHOLE, JSON, &huge, 413, "body_too_large"),
        (STREAM, JSON, &huge, 413, "body_too_large"),
        (STREAM, plain, accepted, 415, "unsupported_media_type"),
        (
            "/v1/rag/sessions/a%2Fb/messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        (
            "/v1/rag/sessions/../messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        (
            "/v1/rag/sessions/%00/messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        (
            "/v1/rag/sessions/%ff/messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        (
            "/v1/rag/sessions//messages",
            JSON,
            accepted,
            400,
            "bad_session_id",
        ),
        ("/nowhere", JSON, accepted, 404, "not_found"),
        ("/healthz", JSON, accepted, 405, "method_not_allowed"),
    ];
    for (path, header, body, status, code) in cases {
        let reply = server
            .call(Method::POST, path, &[*header], (*body).to_owned())
            .await;
        let case = format!("{path} {}", body.chars().take(60).collect::<String>());
        assert_eq!(reply.status.as_u16(), *status, "{case} {:?}", reply.body);
        assert_eq!(reply.code(), *code, "{case}");
        if *status != 200 {
            let error = &reply.json()["error"];
            assert_eq!(keys(error), ["code", "message", "recoverable", "request_id"]);
            assert_eq!(error["request_id"].as_str().unwrap().len(), 32);
        }
    }
    assert_eq!(server.get(STREAM).await.code(), "method_not_allowed");
}

#[tokio::test]
async fn a_session_remembers_both_sides_in_order_whatever_the_ending() {
    let server = start(|_| {}).await;
    for (path, prompt, status) in [
        (STREAM, "What is BM25?", 200),
        (STREAM, "fault:text", 200),
        (STREAM, "fault:reject", 500),
        (WHOLE, "fault:panic", 500),
        (WHOLE, "", 422),
    ] {
        assert_eq!(server.ask(path, prompt).await.status.as_u16(), status, "{prompt}");
    }
    let apology = "I hit an internal error while gathering evidence. Please retry.";
    let said = server.said("s1");
    let roles: Vec<_> = said.iter().map(|(role, _)| *role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant].repeat(4));
    assert_eq!(said[0].1, "What is BM25?");
    let partial = format!("The first half of an answer that breaks \n\n{apology}");
    assert_eq!(said[3].1, partial);
    assert_eq!((&*said[5].1, &*said[7].1), (apology, apology));

    // A reader that goes away stops its turn; what it was told is remembered.
    let body = server.open("fault:slow").await;
    drop(body);
    server.until_idle().await;
    assert_eq!(
        server.said("s1").len(),
        9,
        "the question, and no word of an answer"
    );
}

#[tokio::test]
async fn faults_show_as_the_adr_says() {
    let server = start(|settings| {
        settings.idle_timeout = Span(Duration::from_millis(300));
        settings.keep_alive = Span(Duration::from_millis(100));
    })
    .await;
    let reject = server.ask(STREAM, "fault:reject").await;
    assert_eq!((reject.status.as_u16(), &*reject.code()), (500, "chat_failed"));
    for (prompt, code) in [
        ("fault:retrieval", "chat_failed"),
        ("fault:panic", "chat_failed"),
        ("fault:silent", "timeout"),
    ] {
        let reply = server.ask(STREAM, prompt).await;
        let Some(Frame::End(end)) = decode(&reply.body).pop() else {
            panic!("no end: {:?}", reply.body)
        };
        let Status::Failed(failure) = end.status else {
            panic!("{prompt} did not fail")
        };
        assert_eq!(failure.code, code);
        let trailer = reply.body.rsplit(|byte| *byte == 0x1e).next().unwrap();
        let trailer: Value = serde_json::from_slice(trailer).unwrap();
        assert_eq!(trailer["tools_used"], json!(["chat_failed"]));
        assert_eq!(
            (&trailer["citations"], &trailer["mode"]),
            (&json!([]), &json!("hybrid"))
        );
    }
    let twin = server.ask(WHOLE, "fault:silent").await;
    assert_eq!((twin.status.as_u16(), &*twin.code()), (504, "timeout"));
}

#[tokio::test]
async fn a_full_server_says_so_and_when_to_retry() {
    let server = start(|settings| settings.max_turns = Count(1)).await;
    let running = server.open("fault:silent").await;
    for path in [STREAM, WHOLE] {
        let reply = server.ask(path, "commit?").await;
        assert_eq!((reply.status.as_u16(), &*reply.code()), (503, "busy"));
        assert!(reply.headers.contains_key("retry-after"));
    }
    assert_eq!(server.get("/healthz").await.status, 200);
    drop(running);
    server.until_idle().await;
    assert_eq!(server.ask(STREAM, "commit?").await.status, 200);
    assert_eq!(server.said("s1").len(), 3, "a refused question is not remembered");
}

fn multipart(files: &[(&str, &[u8])]) -> (String, Vec<u8>) {
    let mut body = Vec::new();
    for (name, bytes) in files {
        write!(
            body,
            "--XX\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        )
        .unwrap();
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XX--\r\n");
    ("multipart/form-data; boundary=XX".to_owned(), body)
}

#[tokio::test]
async fn documents_are_added_listed_opened_and_removed() {
    let server = start(|_| {}).await;
    let (content_type, body) = multipart(&[
        ("birds.md", b"# Birds\n\nThe hoopoe has a crown of feathers."),
        ("bad.pdf", b"%PDF-1.7\nnothing"),
        (
            "page.html",
            b"<html><title>Fish</title><p>The zander swims at night.</p>",
        ),
    ]);
    let headers = [("content-type", content_type.as_str())];
    let reply = server.call(Method::POST, "/v1/documents", &headers, body).await;
    assert_eq!(reply.status, 201, "{:?}", reply.body);
    let uploaded = reply.json();
    assert_eq!(uploaded["documents"].as_array().unwrap().len(), 2);
    assert_eq!(uploaded["failed"][0]["name"], "bad.pdf");
    assert_eq!(uploaded["failed"][0]["code"], "bad_pdf");

    let named = [("x-filename", "a%20b.txt"), ("content-type", "text/plain")];
    let text = "The axolotl grows its legs again.";
    let reply = server.call(Method::POST, "/v1/documents", &named, text).await;
    assert_eq!(reply.json()["documents"][0]["name"], "a b.txt");

    let listed = server.get("/v1/documents").await.json();
    let names: Vec<_> = listed["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["name"].as_str().unwrap())
        .collect();
    for name in ["birds.md", "page.html", "a b.txt"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let answer = server.ask(WHOLE, "What does the hoopoe have?").await.json();
    let citation = &answer["citations"][0];
    let id = citation["document_id"].as_str().unwrap().to_owned();
    let chunk = format!(
        "/v1/documents/{id}/chunks/{}",
        citation["chunk_id"].as_str().unwrap()
    );
    assert_eq!(server.get(&chunk).await.json()["document_name"], "birds.md");
    let other = format!(
        "/v1/documents/other/chunks/{}",
        citation["chunk_id"].as_str().unwrap()
    );
    assert_eq!(server.get(&other).await.status, 404);

    let path = format!("/v1/documents/{id}");
    assert_eq!(server.call(Method::DELETE, &path, &[], "").await.status, 204);
    assert_eq!(
        server.call(Method::DELETE, &path, &[], "").await.code(),
        "not_found"
    );
    assert_eq!(server.get(&chunk).await.status, 404);
    assert_eq!(
        server
            .call(Method::DELETE, "/v1/documents/%ff", &[], "")
            .await
            .code(),
        "not_found"
    );
}

#[tokio::test]
async fn uploads_are_limited() {
    let server = start(|settings| {
        settings.max_upload_size = Size(1000);
        settings.max_upload_files = Count(2);
        settings.body_timeout = Span(Duration::from_millis(300));
    })
    .await;
    let before = server.app.library.list().len();
    let three: [(&str, &[u8]); 3] = [("a.md", b"a"), ("b.md", b"b"), ("c.md", b"c")];
    let (content_type, body) = multipart(&three);
    let form = [("content-type", content_type.as_str())];
    let no_file = "--XX\r\ncontent-disposition: form-data; name=\"x\"\r\n\r\n1\r\n--XX--\r\n";
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Vec<u8>, u16, &'a str);
    let cases: Vec<Case<'_>> = vec![
        ("?name=a.md", &[], vec![b'a'; 1001], 413, "body_too_large"),
        ("?name=a.md", &[], vec![b'a'; 3_000_000], 413, "body_too_large"),
        ("?name=a.md", &[], vec![], 422, "empty_document"),
        (
            "?name=a.docx",
            &[],
            b"PK\x03\x04\x14\0\x06\0".to_vec(),
            415,
            "unsupported_type",
        ),
        (
            "?name=a.md",
            &[("content-type", "image/png")],
            b"a".to_vec(),
            415,
            "unsupported_media_type",
        ),
        ("", &[], b"a".to_vec(), 422, "bad_name"),
        ("?name=", &[], b"a".to_vec(), 422, "bad_name"),
        ("", &form, body, 413, "too_many_files"),
        ("", &form, b"--XX\r\nnonsense".to_vec(), 400, "bad_multipart"),
        ("", &form, no_file.into(), 400, "bad_multipart"),
        (
            "",
            &[("content-type", "multipart/form-data")],
            b"a".to_vec(),
            400,
            "bad_multipart",
        ),
    ];
    for (query, headers, body, status, code) in cases {
        let path = format!("/v1/documents{query}");
        let reply = server.call(Method::POST, &path, headers, body).await;
        assert_eq!(reply.status.as_u16(), status, "{code}: {:?}", reply.body);
        assert_eq!(reply.code(), code);
    }
    assert_eq!(server.app.library.list().len(), before, "nothing came or went");

    // All places taken: refused at once, and told when to retry.
    let places = server
        .app
        .uploads
        .try_acquire_many(u32::try_from(server.app.settings.max_uploads.0).unwrap());
    let reply = server.upload("a.md", "text").await;
    assert_eq!((reply.status.as_u16(), &*reply.code()), (503, "busy"));
    assert!(reply.headers.contains_key("retry-after"));
    drop(places);
    assert_eq!(server.upload("a.md", "Some text.").await.status, 201);

    // A body that does not arrive.
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let head = format!(
        "POST /v1/documents?name=a.md HTTP/1.1\r\nhost: {}\r\ncontent-length: 100\r\n\r\nabc",
        server.address()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

/// A PDF of one page with `stream` as its content, and whatever `extra` objects; the cross-reference is right.
fn pdf(stream: &[u8], filter: &str, kids: &str, extra: &[String]) -> Vec<u8> {
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Kids [{kids}] /Count 1 >>").into_bytes(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>".to_vec(),
    ];
    let mut content = format!("<< /Length {}{filter} >>\nstream\n", stream.len()).into_bytes();
    content.extend_from_slice(stream);
    content.extend_from_slice(b"\nendstream");
    objects.push(content);
    objects.extend(extra.iter().map(|object| object.clone().into_bytes()));
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        writeln!(file, "{} 0 obj", index + 1).unwrap();
        file.extend_from_slice(object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let xref = file.len();
    write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for offset in offsets {
        writeln!(file, "{offset:010} 00000 n ").unwrap();
    }
    let size = objects.len() + 1;
    write!(
        file,
        "trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{xref}\n%%EOF\n"
    )
    .unwrap();
    file
}

/// A Flate stream of 6.5 MB that inflates to 1 GB of zeros: a block with fixed codes, made bit by bit.
fn flate_bomb() -> Vec<u8> {
    // Last block, fixed codes, one literal zero, then matches.
    let mut bits: Vec<bool> = vec![true, true, false];
    bits.extend([false, false, true, true, false, false, false, false]);
    for _ in 0..4_000_000 {
        // Length 258 is code 285 (8 bits, 11000101); distance 1 is code 0 (5 bits).
        bits.extend([true, true, false, false, false, true, false, true]);
        bits.extend([false; 5]);
    }
    bits.extend([false; 7]);
    let mut bytes = vec![0x78, 0x9c];
    for byte in bits.chunks(8) {
        bytes.push(
            byte.iter()
                .enumerate()
                .fold(0, |sum, (at, bit)| sum | (u8::from(*bit) << at)),
        );
    }
    bytes
}

#[tokio::test]
async fn hostile_pdfs_are_refused_and_the_server_goes_on() {
    let server = start(|settings| {
        settings.extract_timeout = Span(Duration::from_secs(10));
        settings.extract_memory = Size(512 << 20);
    })
    .await;
    let nested = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("garbage", b"%PDF-1.7\n\xff\xfe\x00garbage".to_vec()),
        (
            "cut",
            pdf(b"BT (Hello there) Tj ET", "", "3 0 R", &[])[..200].to_vec(),
        ),
        ("bomb", pdf(&flate_bomb(), " /Filter /FlateDecode", "3 0 R", &[])),
        ("cycle", pdf(b"", "", "2 0 R", &[])),
        ("nested", pdf(b"", "", "5 0 R", &[nested])),
        ("length", pdf(b"BT ET", " /Length 999999999999", "3 0 R", &[])),
    ];
    let before = server.app.library.list().len();
    for (name, bytes) in cases {
        let started = Instant::now();
        let reply = server.upload(&format!("{name}.pdf"), bytes).await;
        eprintln!(
            "{name}: {} {} after {:?}",
            reply.status,
            reply.code(),
            started.elapsed()
        );
        assert!(reply.status.is_client_error(), "{name}: {:?}", reply.body);
        assert!(started.elapsed() < Duration::from_secs(15), "{name}");
    }
    assert_eq!(server.app.library.list().len(), before);
    assert_eq!(server.ask(STREAM, "commit?").await.status, 200);
}

#[tokio::test]
async fn the_reading_process_is_limited_in_time_and_memory() {
    let server = start(|settings| settings.extract_timeout = Span(Duration::from_millis(1))).await;
    assert_eq!(
        server.upload("a.md", "Some text.").await.code(),
        "extract_timeout"
    );
    // Less than the program itself needs.
    let server = start(|settings| settings.extract_memory = Size(1 << 20)).await;
    let reply = server.upload("a.md", "Some text. ".repeat(100_000)).await;
    assert_eq!(reply.code(), "extract_died");
}

#[tokio::test]
async fn what_was_added_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = |folder: &Path| Arc::new(Library::open(folder, library_limits(&Settings::default())).unwrap());
    let server = start_with(open(folder.path()), None, |_| {});
    assert_eq!(
        server
            .upload("owl.md", "The owl turns its head by 270 degrees.")
            .await
            .status,
        201
    );
    assert_eq!(server.stop().await, Ended::Drained);
    let server = start_with(open(folder.path()), None, |_| {});
    let answer = server
        .ask(WHOLE, "How far does the owl turn its head?")
        .await
        .json();
    assert!(
        answer["answer"].as_str().unwrap().contains("270 degrees"),
        "{answer}"
    );
}

#[tokio::test]
async fn shutdown_completes_open_turns_and_refuses_new_ones() {
    let mut server = start(|_| {}).await;
    let body = server.open("fault:silent").await;
    let mut kept = TcpStream::connect(server.address()).await.unwrap();
    server.stop.take().unwrap().send(()).unwrap();
    let rest = body.collect().await.unwrap().to_bytes();
    let Some(Frame::End(end)) = decode(&rest).pop() else {
        panic!("no end: {rest:?}")
    };
    assert!(matches!(end.status, Status::Failed(failure) if failure.code == "shutting_down"));
    assert!(server.said("s1")[1].1.contains("restarting"));

    // A connection that was open gets an answer or its end, never silence.
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
    let _ = kept.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), kept.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 503"),
        "{answer:?}"
    );
    assert_eq!(server.tasks.join_next().await.unwrap().unwrap(), Ended::Drained);
}

/// Text without end.
#[derive(Debug)]
struct Flood;

impl Orchestrator for Flood {
    fn answer(&self, _question: Question, sink: Sink) -> Answering {
        Box::pin(async move {
            sink.send(Search::new("flood")).await?;
            loop {
                sink.send("x".repeat(8000)).await?;
            }
            #[expect(unreachable_code, reason = "it names the type")]
            Ok(Metadata::default())
        })
    }
}

async fn flooded(change: impl FnOnce(&mut Settings)) -> (Running, TcpStream) {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, Some(Arc::new(Flood)), change);
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let body = r#"{"prompt":"flood"}"#;
    let request = format!(
        "POST {STREAM} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        server.address(),
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    socket.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    (server, socket)
}

#[tokio::test]
async fn a_reader_that_stalls_is_cut() {
    let (server, mut socket) =
        flooded(|settings| settings.write_timeout = Span(Duration::from_millis(300))).await;
    server.until_idle().await;
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), socket.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection is closed");
    assert!(!rest.contains(&0x1e), "what was cut does not look complete");
}

#[tokio::test]
async fn a_reader_that_stalls_does_not_hold_up_shutdown() {
    let (server, _socket) = flooded(|settings| settings.drain = Span(Duration::from_millis(500))).await;
    let started = Instant::now();
    assert_eq!(server.stop().await, Ended::Cut(1));
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn connections_are_limited_and_silent_ones_are_closed() {
    let server = start(|settings| {
        settings.max_connections = Count(1);
        settings.header_timeout = Span(Duration::from_millis(300));
    })
    .await;
    for opening in [&b""[..], b"P", b"GET / HTTP/1.1\r\nhost:"] {
        let mut silent = TcpStream::connect(server.address()).await.unwrap();
        silent.write_all(opening).await.unwrap();
        // There is one place, and the silent one has it; this waits, and then is served.
        let healthy = tokio::time::timeout(Duration::from_secs(5), server.get("/healthz")).await;
        assert_eq!(healthy.unwrap().status, 200);
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), silent.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "{opening:?}");
    }
}

#[tokio::test]
async fn strangers_in_the_browser_are_refused() {
    let server = start(|settings| {
        settings.allow_host = vec!["docs.example.org".into()];
        settings.allow_origin = vec!["https://app.example.org".into()];
    })
    .await;
    let own = server.address().to_owned();
    let own_origin = format!("http://{own}");
    let port = own.rsplit(':').next().unwrap();
    let localhost = format!("localhost:{port}");
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[], 200),
        (&[("host", &own)], 200),
        (&[("host", &localhost)], 200),
        (&[("host", "docs.example.org")], 200),
        (&[("host", "evil.example")], 421),
        (&[("host", "127.0.0.1.evil.example")], 421),
        (&[("host", "a@127.0.0.1")], 400),
        (&[("host", "")], 400),
        (&[("origin", &own_origin)], 200),
        (&[("origin", "https://app.example.org")], 200),
        (&[("origin", "https://evil.example")], 403),
        (&[("origin", "null")], 403),
    ];
    for (headers, status) in cases {
        let mut headers = headers.to_vec();
        headers.push(JSON);
        let reply = server
            .call(Method::POST, WHOLE, &headers, r#"{"prompt":"commit?"}"#)
            .await;
        assert_eq!(reply.status.as_u16(), *status, "{headers:?} {:?}", reply.body);
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    }
    let allowed = [("origin", "https://app.example.org"), JSON];
    let reply = server
        .call(Method::POST, WHOLE, &allowed, r#"{"prompt":"commit?"}"#)
        .await;
    assert_eq!(
        reply.headers["access-control-allow-origin"],
        "https://app.example.org"
    );
    let foreign = [("origin", "https://evil.example")];
    let reply = server.call(Method::GET, "/v1/documents", &foreign, "").await;
    assert!(!reply.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn the_page_is_served_with_its_policy() {
    let server = start(|_| {}).await;
    for (path, media_type, holds) in [
        ("/", "text/html", "id=\"prompt\""),
        ("/page.js", "text/javascript", "decodeFramed"),
        ("/page.css", "text/css", "#answer"),
        ("/client/framed.js", "text/javascript", "class FramedDecoder"),
        ("/client/stream.js", "text/javascript", "decodeFramed"),
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(
            reply.headers["content-type"]
                .to_str()
                .unwrap()
                .starts_with(media_type)
        );
        let policy = reply.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'self'"));
        assert!(
            std::str::from_utf8(&reply.body).unwrap().contains(holds),
            "{path}"
        );
    }
}

#[tokio::test]
async fn http_2_without_tls_works_too() {
    let server = start(|_| {}).await;
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let request = Request::post(format!("{}{STREAM}", server.base))
        .header(JSON.0, JSON.1)
        .body(Full::from(r#"{"prompt":"commit?"}"#))
        .unwrap();
    let response = client.request(request).await.unwrap();
    assert_eq!(response.version(), http::Version::HTTP_2);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(matches!(decode(&body).last(), Some(Frame::End(_))));
}
