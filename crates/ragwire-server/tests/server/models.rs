//! Models behind servers that fail, and how many calls a question costs.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::{Body, Frame as BodyFrame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ragwire::{Frame, Metadata, Status};
use ragwire_rag::{Library, parse};
use ragwire_server::engines::Engines;
use ragwire_server::orchestrator::Reference;
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::JudgeKind;
use ragwire_server::settings::values::Span;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::{JSON, in_lines, start_with};

const OWL: &str = "The owl hunts at night.";
const MODELS: &str =
    r#"{"object":"list","data":[{"id":"qwen3:8b","object":"model","created":1,"owned_by":"library"}]}"#;
const INSTEAD: &str = "The language model failed, so this answer only quotes the documents.\n\n";

/// What the server does with a question.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behaviour {
    Answers(&'static str),
    /// Sends some text and closes the connection.
    Dies(&'static str),
    Hangs,
    Refuses(u16),
}

struct ModelServer {
    url: String,
    calls: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

fn piece(text: &str) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": {"content": text}}]})
    )
}

/// A model server as Ollama is one, with one model.
async fn serve(behaviour: Behaviour) -> ModelServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            let service = service_fn(move |request: http::Request<Incoming>| {
                let counted = Arc::clone(&counted);
                async move { Ok::<_, Infallible>(respond(behaviour, &request, &counted).await) }
            });
            let http = hyper::server::conn::http1::Builder::new();
            connections.spawn(http.serve_connection(TokioIo::new(socket), service));
        }
    });
    ModelServer {
        url,
        calls,
        _serving: serving,
    }
}

type Chunk = Result<BodyFrame<Bytes>, io::Error>;

async fn respond(
    behaviour: Behaviour,
    request: &http::Request<Incoming>,
    calls: &AtomicUsize,
) -> http::Response<impl Body<Data = Bytes, Error = io::Error> + use<>> {
    let (status, kind, chunks) = if request.uri().path() == "/v1/models" {
        (200, "application/json", vec![Ok(MODELS.to_owned())])
    } else {
        calls.fetch_add(1, Ordering::Relaxed);
        let events = "text/event-stream";
        match behaviour {
            Behaviour::Answers(text) => {
                let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
                (200, events, vec![Ok(piece(text)), Ok(end.to_owned())])
            }
            Behaviour::Dies(text) => (200, events, vec![Ok(piece(text)), Err(io::Error::other("dies"))]),
            Behaviour::Hangs => std::future::pending().await,
            Behaviour::Refuses(status) => (
                status,
                "application/json",
                vec![Ok(r#"{"error":{"message":"no"}}"#.to_owned())],
            ),
        }
    };
    let chunks: Vec<Chunk> = chunks
        .into_iter()
        .map(|chunk| chunk.map(|text| BodyFrame::data(Bytes::from(text))))
        .collect();
    http::Response::builder()
        .status(status)
        .header("content-type", kind)
        // Each chunk is written before the next one, so that text arrives before the break.
        .body(StreamBody::new(stream::iter(chunks).then(async |chunk| {
            tokio::task::yield_now().await;
            chunk
        })))
        .unwrap()
}

/// Asks once. Returns the text and the metadata of a turn that completed.
async fn ask(settings: &Settings) -> (String, Metadata) {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let parsed = parse("owl.md", OWL.as_bytes(), &Default::default()).unwrap();
    library.add("owl.md", &parsed).unwrap();
    let engines = Engines::start(settings, &library).await.unwrap();
    let reference = Arc::new(Reference::new(&library, None, &engines));
    let running = start_with(library, Some(reference), |_| {});
    let body = json!({"prompt": "When does the owl hunt?"}).to_string();
    let headers = [JSON, ("accept", "application/x-ndjson")];
    let call = running.call(http::Method::POST, "/v1/turns", &headers, body);
    let reply = tokio::time::timeout(Duration::from_secs(60), call).await.unwrap();
    let (mut text, mut metadata) = (String::new(), Metadata::default());
    for frame in in_lines(&reply.body) {
        match frame {
            Frame::Text(piece) => text.push_str(&piece),
            Frame::End(end) => {
                assert_eq!(end.status, Status::Completed);
                metadata = end.metadata;
            }
            Frame::Event { .. } | Frame::Snapshot(_) => {}
        }
    }
    engines.shutdown().await;
    running.stop().await;
    (text, metadata)
}

/// The code of the error because of which quotes replace the model's text.
fn fallback(metadata: &Metadata) -> &str {
    metadata.extra["fallback"].as_str().unwrap()
}

fn asking(server: &ModelServer) -> Settings {
    Settings {
        llm_url: server.url.parse().unwrap(),
        ..Settings::default()
    }
}

#[tokio::test]
async fn quotes_replace_the_answer_of_a_model_that_fails() {
    for (behaviour, code) in [
        (Behaviour::Dies(""), "model_unavailable"),
        (Behaviour::Hangs, "model_unavailable"),
        (Behaviour::Refuses(500), "model_unavailable"),
        (Behaviour::Refuses(401), "model_rejected"),
        (Behaviour::Answers("<think>It never ends"), "model_failed"),
    ] {
        let server = serve(behaviour).await;
        let settings = Settings {
            llm_timeout: Span(Duration::from_millis(300)),
            ..asking(&server)
        };
        let (text, metadata) = ask(&settings).await;
        assert_eq!(text, format!("{INSTEAD}{OWL} [1]"), "{behaviour:?}");
        assert_eq!(fallback(&metadata), code, "{behaviour:?}");
        assert_eq!(metadata.citations[0].supporting_quote, OWL, "{behaviour:?}");
    }
}

#[tokio::test]
async fn quotes_follow_the_text_of_a_model_that_breaks_off() {
    let server = serve(Behaviour::Dies("At night [1]. And")).await;
    let (text, metadata) = ask(&asking(&server)).await;
    assert_eq!(
        text,
        format!("At night [1]. And\n\nThe language model failed here. The documents say:\n\n{OWL} [2]")
    );
    assert_eq!(fallback(&metadata), "model_failed");
    assert_eq!(metadata.citations.len(), 2);
}

#[tokio::test]
async fn a_question_costs_one_call_unless_the_model_judges() {
    let server = serve(Behaviour::Answers("The owl hunts at night [1].")).await;
    let (text, _) = ask(&asking(&server)).await;
    assert_eq!(text, "The owl hunts at night [1].");
    assert_eq!(server.calls.load(Ordering::Relaxed), 1);
    let settings = Settings {
        judge: JudgeKind::Model,
        ..asking(&server)
    };
    ask(&settings).await;
    assert!(server.calls.load(Ordering::Relaxed) > 3);
}

#[tokio::test]
async fn thoughts_are_not_part_of_the_answer() {
    let server = serve(Behaviour::Answers("<think>[1] says so.</think>\n\nAt night [1].")).await;
    let (text, _) = ask(&asking(&server)).await;
    assert_eq!(text, "At night [1].");
}
