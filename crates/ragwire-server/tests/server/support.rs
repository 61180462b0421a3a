//! A server in this process, and a client for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ragwire::session::{Role, Sessions};
use ragwire::wire::sse::EventStream;
use ragwire::wire::{Decode, Wire};
use ragwire::{Frame, Framed, Ndjson, Orchestrator};
use ragwire_rag::Library;
use ragwire_rag::graph::{Graph, GraphIndex, GraphRoom};
use ragwire_server::app::{App, Stores};
use ragwire_server::engines::Engines;
use ragwire_server::extract::Extractor;
use ragwire_server::followers::Followers;
use ragwire_server::graph;
use ragwire_server::journal;
use ragwire_server::orchestrator::Reference;
use ragwire_server::sample;
use ragwire_server::serve::{Server, Shutdown};
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::{Count, CountOrZero, Grace};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub(crate) const STREAM: &str = "/v1/rag/sessions/s1/messages/stream";
pub(crate) const WHOLE: &str = "/v1/rag/sessions/s1/messages";
pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

pub(crate) struct Running {
    pub(crate) base: String,
    pub(crate) app: Arc<App>,
    pub(crate) engines: Arc<Engines>,
    pub(crate) graph: Option<Arc<GraphIndex>>,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) kill: Option<oneshot::Sender<()>>,
    pub(crate) tasks: JoinSet<Shutdown>,
    pub(crate) client: Client<HttpConnector, Full<Bytes>>,
}

/// Starts a server with the sample library and the test faults.
pub(crate) async fn start(change: impl FnOnce(&mut Settings)) -> Running {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    sample::add(&library).unwrap();
    start_on(library, change).await
}

/// The same over a library whose graph and store are up to date.
pub(crate) async fn start_on(library: Arc<Library>, change: impl FnOnce(&mut Settings)) -> Running {
    let running = start_with(library, None, change);
    if let Some(graph) = &running.graph {
        graph.sync().await.unwrap();
    }
    running.engines.reconcile().await.unwrap();
    running
}

pub(crate) fn start_with(
    library: Arc<Library>,
    orchestrator: Option<Arc<dyn Orchestrator>>,
    change: impl FnOnce(&mut Settings),
) -> Running {
    start_over(None, library, orchestrator, change)
}

/// The same over existing sessions.
pub(crate) fn start_over(
    sessions: Option<Sessions>,
    library: Arc<Library>,
    orchestrator: Option<Arc<dyn Orchestrator>>,
    change: impl FnOnce(&mut Settings),
) -> Running {
    let mut settings = Settings::default();
    settings.listen.0.set_port(0);
    settings.test_faults = true;
    settings.graph = true;
    change(&mut settings);
    let extractor = Extractor::new(env!("CARGO_BIN_EXE_ragwire-server").into(), &settings);
    let room = GraphRoom::default();
    let engines = Arc::new(Engines::embedded(&library));
    let graph = settings.graph.then(|| {
        let graph = Arc::new(Graph::in_memory(room).unwrap());
        graph::index(&settings, &library, graph, &engines)
    });
    let orchestrator =
        orchestrator.unwrap_or_else(|| Arc::new(Reference::new(&library, graph.as_deref(), &engines)));
    let mut stores = Stores::in_memory(&settings);
    if let Some(sessions) = sessions {
        stores.sessions = sessions;
    }
    let journal = journal::in_memory(&settings);
    let app = App::new(settings, stores, library, orchestrator, extractor, journal);
    if let Some(keys) = &app.keys {
        keys.load().unwrap();
    }
    let mut followers = Followers::new().with(Arc::clone(&engines) as _);
    if let Some(graph) = &graph {
        followers = followers.with(Arc::clone(graph) as _);
    }
    let app = Arc::new(app.followers(followers));
    let server = Server::bind(Arc::clone(&app)).unwrap();
    let base = format!("http://{}", server.address());
    let (stop, stopped) = oneshot::channel();
    let (kill, killed) = oneshot::channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(
        async {
            let _ = stopped.await;
        },
        async {
            let _ = killed.await;
        },
    ));
    Running {
        base,
        app,
        engines,
        graph,
        stop: Some(stop),
        kill: Some(kill),
        tasks,
        client: Client::builder(TokioExecutor::new()).build_http(),
    }
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {:?}", self.body))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or("none").to_owned()
    }
}

impl Running {
    pub(crate) fn address(&self) -> &str {
        self.base.strip_prefix("http://").unwrap()
    }

    pub(crate) async fn send(
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

    pub(crate) async fn call(
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

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, &[], "").await
    }

    pub(crate) async fn ask(&self, path: &str, prompt: &str) -> Reply {
        let body = json!({ "prompt": prompt }).to_string();
        self.call(Method::POST, path, &[JSON], body).await
    }

    pub(crate) async fn upload(&self, name: &str, bytes: impl Into<Bytes>) -> Reply {
        let path = format!("/v1/documents?name={name}");
        self.call(Method::POST, &path, &[], bytes).await
    }

    /// Opens a turn and reads its first bytes, so that it certainly runs.
    pub(crate) async fn open(&self, prompt: &str) -> Incoming {
        self.open_at(STREAM, prompt).await
    }

    async fn open_at(&self, path: &str, prompt: &str) -> Incoming {
        let body = json!({ "prompt": prompt }).to_string();
        let response = self.send(Method::POST, path, &[JSON], body).await;
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        assert!(body.frame().await.unwrap().unwrap().is_data());
        body
    }

    pub(crate) async fn until_idle(&self) {
        let drained = self.app.turns.drained();
        tokio::time::timeout(Duration::from_secs(5), drained)
            .await
            .unwrap();
    }

    pub(crate) async fn stop(mut self) -> Shutdown {
        self.stop.take().unwrap().send(()).unwrap();
        let ended = self.tasks.join_next();
        tokio::time::timeout(Duration::from_secs(20), ended)
            .await
            .unwrap()
            .unwrap()
            .unwrap()
    }

    /// The messages of a session; empty if it does not exist.
    pub(crate) async fn said(&self, id: &str) -> Vec<(Role, String)> {
        self.said_by("", id).await
    }

    pub(crate) async fn said_by(&self, owner: &str, id: &str) -> Vec<(Role, String)> {
        let session = self.app.stores.sessions.get(owner, id).await;
        let said = session.map(|session| session.messages).unwrap_or_default();
        said.into_iter().map(|said| (said.role, said.text)).collect()
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = Framed::default().decoder();
    decoder.feed(bytes);
    decoder.by_ref().collect::<Result<_, _>>().unwrap()
}

/// The same for the wire that changes nothing.
pub(crate) fn in_lines(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = Ndjson::default().decoder();
    decoder.feed(bytes);
    decoder.by_ref().collect::<Result<_, _>>().unwrap()
}

pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The data of each event of a stream, as JSON if it is; the stream must end with an event.
pub(crate) fn events(bytes: &[u8]) -> Vec<Value> {
    assert!(bytes.ends_with(b"\n\n"), "{bytes:?}");
    let mut stream = EventStream::default();
    stream.feed(bytes);
    let data = stream.map(|message| message.unwrap().data);
    data.map(|data| serde_json::from_str(&data).unwrap_or(Value::String(data)))
        .collect()
}

/// The same without what differs from turn to turn: times are 0, and adjacent pieces of text are
/// joined. `text` points at the text of a piece.
pub(crate) fn steady(bytes: &[u8], text: &str) -> Vec<Value> {
    let mut steady: Vec<Value> = Vec::new();
    for mut event in events(bytes) {
        stop_clocks(&mut event);
        let Some(piece) = event
            .pointer_mut(text)
            .filter(|piece| piece.is_string())
            .map(Value::take)
        else {
            steady.push(event);
            continue;
        };
        let last = steady.last_mut().and_then(|last| {
            let before = last.pointer_mut(text)?.take();
            let same = *last == event;
            *last.pointer_mut(text)? = before;
            if same { last.pointer_mut(text) } else { None }
        });
        match last {
            Some(last) => *last = format!("{}{}", last.as_str().unwrap(), piece.as_str().unwrap()).into(),
            None => {
                *event.pointer_mut(text).unwrap() = piece;
                steady.push(event);
            }
        }
    }
    steady
}

/// The result of a tool, which the session chat and AG-UI have as a string of JSON.
fn result_of_a_tool(name: &str, value: &Value) -> Option<Value> {
    let json = value
        .as_str()
        .filter(|_| ["tool_result", "content"].contains(&name))?;
    let json = json.starts_with('{').then_some(json)?;
    serde_json::from_str(json).ok()
}

/// Sets all times and durations to 0.
pub(crate) fn stop_clocks(value: &mut Value) {
    const CLOCKS: [&str; 9] = [
        "timestamp",
        "duration_ms",
        "elapsed_ms",
        "latency_ms",
        "total_time_ms",
        "queue_wait_ms",
        "created",
        "created_at",
        "updated_at",
    ];
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(name, value)| {
            if CLOCKS.contains(&&**name) {
                *value = 0.into();
            } else if let Some(mut result) = result_of_a_tool(name, value) {
                stop_clocks(&mut result);
                *value = result.to_string().into();
            } else {
                stop_clocks(value);
            }
        }),
        Value::Array(items) => items.iter_mut().for_each(stop_clocks),
        _ => {}
    }
}

impl Running {
    /// Posts JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call(Method::POST, path, &[JSON], body.to_string()).await
    }

    /// The frames of a turn with this question, read from the wire that changes nothing.
    pub(crate) async fn frames(&self, prompt: &str) -> Vec<Frame> {
        let body = json!({ "prompt": prompt }).to_string();
        let headers = [JSON, ("accept", "application/x-ndjson")];
        let reply = self.call(Method::POST, "/v1/turns", &headers, body).await;
        assert_eq!(reply.status, 200);
        in_lines(&reply.body)
    }

    /// The frames of a turn in the journal.
    pub(crate) async fn frames_of(&self, turn: &str) -> Vec<Frame> {
        let path = format!("/v1/turns/{turn}/stream");
        let headers = [("accept", "application/x-ndjson")];
        let reply = self.call(Method::GET, &path, &headers, "").await;
        assert_eq!(reply.status, 200);
        in_lines(&reply.body)
    }

    /// Checks that a route refuses each body with its status and code, in the form of ADR 0007.
    pub(crate) async fn refuses(&self, path: &str, cases: &[(Value, u16, &str)]) {
        for (body, status, code) in cases {
            // A string is sent verbatim.
            let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
            let reply = self.call(Method::POST, path, &[JSON], body.clone()).await;
            let case: String = body.chars().take(80).collect();
            assert_eq!(
                (reply.status.as_u16(), &*reply.code()),
                (*status, *code),
                "{case}"
            );
            let error = &reply.json()["error"];
            assert_eq!(
                keys(error),
                ["code", "message", "recoverable", "request_id"],
                "{case}"
            );
        }
        assert_eq!(self.app.turns.active(), 0, "nothing was spent on them");
    }

    /// The same in a session.
    pub(crate) async fn frames_in(&self, session: &str, prompt: &str) {
        let body = json!({ "prompt": prompt, "session_id": session });
        assert_eq!(self.post("/v1/turns", &body).await.status, 200);
    }

    /// Opens a turn without a session.
    pub(crate) async fn open_turn(&self, prompt: &str) -> Incoming {
        self.open_at("/v1/turns", prompt).await
    }

    /// The response of a full server to this body.
    pub(crate) async fn busy(path: &str, body: &Value) -> Reply {
        let server = start(full_of_one).await;
        let _running = server.open("fault:silent").await;
        let reply = server.post(path, body).await;
        assert_eq!(reply.status, 503);
        assert_eq!(reply.headers["retry-after"], "5");
        reply
    }
}

/// The queue fields of a turn that did not wait.
pub(crate) fn at_once() -> Value {
    json!({ "was_queued": false, "queue_position": 0, "queue_wait_ms": 0 })
}

/// Ends a turn as soon as its reader disconnects, on the routes where it would continue.
pub(crate) fn no_grace(settings: &mut Settings) {
    settings.disconnect_grace = Grace(Duration::ZERO);
}

/// Allows one question at a time and no waiting ones.
pub(crate) fn full_of_one(settings: &mut Settings) {
    (settings.max_turns, settings.max_queued) = (Count(1), CountOrZero(0));
}

/// A turn as `wire` encodes it.
pub(crate) fn spelled(wire: &impl Wire, frames: &[Frame]) -> BytesMut {
    let (mut encoder, mut bytes) = (wire.encoder(), BytesMut::new());
    for frame in frames {
        encoder.encode(frame, &mut bytes).unwrap();
    }
    bytes
}

/// Bodies that every route for JSON refuses.
pub(crate) fn no_json() -> Vec<(Value, u16, &'static str)> {
    let deep = "[".repeat(4_000);
    let cases = [
        ("", 400, "bad_json"),
        ("{", 400, "bad_json"),
        ("null", 422, "invalid_request"),
        ("[]", 422, "invalid_request"),
        ("7", 422, "invalid_request"),
        (&*deep, 400, "bad_json"),
        ("\u{feff}{}", 400, "bad_json"),
        ("{}", 422, "invalid_request"),
        // Broken after a member of the wrong shape.
        (r#"{"prompt":7,"messages":7,"query":7,"#, 400, "bad_json"),
    ];
    cases
        .map(|(body, status, code)| (body.into(), status, code))
        .into()
}

/// Messages that every chat refuses, for clients whose messages have `content`.
pub(crate) fn bad_messages() -> Vec<Value> {
    let user = |content: Value| json!([{ "role": "user", "content": content }]);
    vec![
        json!([]),
        json!({}),
        json!(["Why?"]),
        json!([{ "role": "robot", "content": "Why?" }]),
        json!([{ "role": 7, "content": "Why?" }]),
        json!([{ "content": "Why?" }]),
        json!([{ "role": "assistant", "content": "Yes." }]),
        json!([{ "role": "user" }]),
        user(json!("")),
        user(json!(" \u{2003}\n")),
        user(json!(null)),
        user(json!(7)),
        user(json!({ "text": "Why?" })),
        user(json!([])),
        user(json!(["Why?"])),
        user(json!([{ "text": "Why?" }])),
        user(json!([{ "type": "text" }])),
        user(json!([{ "type": "text", "text": 7 }])),
        user(
            json!([{ "type": "text", "text": "Why?" }, { "type": "image_url", "image_url": { "url": "data:," } }]),
        ),
    ]
}
