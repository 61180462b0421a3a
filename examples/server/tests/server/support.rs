//! A server in this process, and a client for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ragwire::rag::{Library, Pipeline};
use ragwire::wire::Decode;
use ragwire::{Frame, Framed};
use ragwire_server::app::App;
use ragwire_server::cli::settings::Settings;
use ragwire_server::extract::Extractor;
use ragwire_server::orchestrator::Orchestrator;
use ragwire_server::sample;
use ragwire_server::serve::{Ended, Server};
use ragwire_server::sessions::Role;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub(crate) const STREAM: &str = "/v1/rag/sessions/s1/messages/stream";
pub(crate) const WHOLE: &str = "/v1/rag/sessions/s1/messages";
pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

pub(crate) struct Running {
    pub(crate) base: String,
    pub(crate) app: Arc<App>,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) kill: Option<oneshot::Sender<()>>,
    pub(crate) tasks: JoinSet<Ended>,
    pub(crate) client: Client<HttpConnector, Full<Bytes>>,
}

/// Starts a server with the sample library and the test faults.
pub(crate) async fn start(change: impl FnOnce(&mut Settings)) -> Running {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    sample::add(&library).unwrap();
    start_with(library, None, change)
}

pub(crate) fn start_with(
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
        let body = json!({ "prompt": prompt }).to_string();
        let response = self.send(Method::POST, STREAM, &[JSON], body).await;
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

    pub(crate) async fn stop(mut self) -> Ended {
        self.stop.take().unwrap().send(()).unwrap();
        let ended = self.tasks.join_next();
        tokio::time::timeout(Duration::from_secs(20), ended)
            .await
            .unwrap()
            .unwrap()
            .unwrap()
    }

    pub(crate) fn said(&self, id: &str) -> Vec<(Role, String)> {
        let said = self.app.sessions.said(id).into_iter();
        said.map(|said| (said.role, said.text)).collect()
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = Framed::default().decoder();
    decoder.feed(bytes);
    decoder.by_ref().collect::<Result<_, _>>().unwrap()
}

pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}
