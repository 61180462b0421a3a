//! The trace of a question: what its model server gets, and with the feature `otel` its span.

use std::future::ready;
use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{HeaderMap, Method};
use ragwire_rag::{Library, parse};
use ragwire_server::engines::Engines;
use ragwire_server::orchestrator::Reference;
use ragwire_server::settings::Settings;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::{JSON, Running, start_with};

#[cfg(feature = "otel")]
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"At night [1].\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n";

/// A model server and a collector, which keep what they get.
struct Others {
    url: String,
    asked: Arc<Mutex<Vec<HeaderMap>>>,
    #[cfg(feature = "otel")]
    exported: Arc<Mutex<Vec<bytes::Bytes>>>,
    _serving: JoinSet<()>,
}

impl Others {
    async fn start() -> Self {
        let asked = Arc::<Mutex<Vec<HeaderMap>>>::default();
        let models = json!({"object": "list", "data": [{"id": "qwen3:8b", "object": "model"}]});
        let complete = |State(asked): State<Arc<Mutex<Vec<HeaderMap>>>>, request: Request| {
            asked.lock().unwrap().push(request.headers().clone());
            ready(([("content-type", "text/event-stream")], ANSWER).into_response())
        };
        let routes = Router::new()
            .route("/v1/models", get(move || ready(Json(models.clone()))))
            .route("/v1/chat/completions", post(complete))
            .with_state(Arc::clone(&asked));
        #[cfg(feature = "otel")]
        let exported = Arc::<Mutex<Vec<bytes::Bytes>>>::default();
        #[cfg(feature = "otel")]
        let routes = {
            let exported = Arc::clone(&exported);
            let collect = move |body: bytes::Bytes| {
                exported.lock().unwrap().push(body);
                ready(())
            };
            routes.route("/v1/traces", post(collect))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self {
            url,
            asked,
            #[cfg(feature = "otel")]
            exported,
            _serving: serving,
        }
    }

    /// Starts a server with one document and this model.
    async fn server(&self, change: impl FnOnce(&mut Settings)) -> Running {
        let library = Arc::new(Library::in_memory(Default::default()).unwrap());
        let parsed = parse("owl.md", b"The owl hunts at night.", &Default::default()).unwrap();
        library.add("owl.md", &parsed).unwrap();
        let settings = Settings {
            llm_url: format!("{}/v1", self.url).parse().unwrap(),
            ..Settings::default()
        };
        let engines = Engines::start(&settings, &library).await.unwrap();
        let reference = Arc::new(Reference::new(&library, None, &engines));
        start_with(library, Some(reference), change)
    }

    /// Returns the trace headers of the last request for an answer.
    fn last(&self) -> (Option<String>, Option<String>) {
        let asked = self.asked.lock().unwrap();
        let headers = asked.last().unwrap();
        let text = |name| Some(headers.get(name)?.to_str().unwrap().to_owned());
        (text("traceparent"), text("tracestate"))
    }
}

async fn ask(server: &Running, headers: &[(&str, &str)], prompt: &str) {
    let headers = [&[JSON, ("accept", "application/x-ndjson")][..], headers].concat();
    let body = json!({ "prompt": prompt }).to_string();
    let reply = server.call(Method::POST, "/v1/turns", &headers, body).await;
    assert!(!reply.body.is_empty());
}

#[tokio::test]
async fn a_trace_goes_on_to_the_model_server() {
    let others = Others::start().await;
    let state = ("tracestate", "vendor=opaque");
    let kept = (Some(PARENT.to_owned()), Some("vendor=opaque".to_owned()));
    for (headers, passed) in [
        (&[("traceparent", PARENT), state][..], kept),
        (&[state], (None, None)),
        (&[("traceparent", "00-00-00-00"), state], (None, None)),
        (
            &[("traceparent", PARENT), ("traceparent", PARENT), state],
            (None, None),
        ),
    ] {
        // A server of its own, which has no stored answer.
        let server = others.server(|_| {}).await;
        ask(&server, headers, "When does the owl hunt?").await;
        assert_eq!(others.last(), passed, "{headers:?}");
    }
}

#[cfg(feature = "otel")]
mod spans {
    use std::collections::BTreeMap;

    use prost::Message;

    use super::*;

    // The parts of OTLP's messages that are compared here.

    #[derive(Clone, PartialEq, Message)]
    struct Export {
        #[prost(message, repeated, tag = "1")]
        resources: Vec<ResourceSpans>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct ResourceSpans {
        #[prost(message, optional, tag = "1")]
        resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        scopes: Vec<ScopeSpans>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Resource {
        #[prost(message, repeated, tag = "1")]
        attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct ScopeSpans {
        #[prost(message, repeated, tag = "2")]
        spans: Vec<Span>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Span {
        #[prost(bytes = "vec", tag = "1")]
        trace: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        id: Vec<u8>,
        #[prost(bytes = "vec", tag = "4")]
        parent: Vec<u8>,
        #[prost(string, tag = "5")]
        name: String,
        #[prost(fixed64, tag = "7")]
        start: u64,
        #[prost(fixed64, tag = "8")]
        end: u64,
        #[prost(message, repeated, tag = "9")]
        attributes: Vec<KeyValue>,
        #[prost(message, optional, tag = "15")]
        status: Option<Status>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Status {
        #[prost(string, tag = "2")]
        message: String,
        #[prost(int32, tag = "3")]
        code: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    struct KeyValue {
        #[prost(string, tag = "1")]
        key: String,
        #[prost(message, optional, tag = "2")]
        value: Option<AnyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct AnyValue {
        #[prost(string, optional, tag = "1")]
        text: Option<String>,
        #[prost(int64, optional, tag = "3")]
        number: Option<i64>,
        #[prost(double, optional, tag = "4")]
        fraction: Option<f64>,
    }

    fn hex(bytes: &[u8]) -> String {
        data_encoding::HEXLOWER.encode(bytes)
    }

    fn values(attributes: &[KeyValue]) -> BTreeMap<String, String> {
        let value = |value: &AnyValue| {
            let number = value.number.map(|number| number.to_string());
            let fraction = value.fraction.map(|_| "a fraction".to_owned());
            value.text.clone().or(number).or(fraction).unwrap_or_default()
        };
        attributes
            .iter()
            .map(|pair| {
                (
                    pair.key.clone(),
                    pair.value.as_ref().map(value).unwrap_or_default(),
                )
            })
            .collect()
    }

    /// Everything that was exported, by trace.
    fn exported(others: &Others) -> (BTreeMap<String, String>, Vec<Span>) {
        let (mut resource, mut spans) = (BTreeMap::new(), Vec::new());
        for body in others.exported.lock().unwrap().iter() {
            for of in Export::decode(body.clone()).unwrap().resources {
                resource = values(&of.resource.unwrap_or_default().attributes);
                spans.extend(of.scopes.into_iter().flat_map(|scope| scope.spans));
            }
        }
        (resource, spans)
    }

    #[tokio::test]
    async fn each_turn_is_a_span_between_its_client_and_its_model_server() {
        let others = Others::start().await;
        let server = others
            .server(|settings| settings.otlp_url = others.url.parse().unwrap())
            .await;
        ask(&server, &[("traceparent", PARENT)], "When does the owl hunt?").await;
        let (passed, _) = others.last();
        ask(&server, &[], "fault:text").await;
        ask(&server, &[], "fault:reject").await;
        // What is left is exported before the server ends.
        server.stop().await;

        let (resource, spans) = exported(&others);
        assert_eq!(resource["service.name"], "ragwire-server");
        assert_eq!(spans.len(), 3, "{spans:?}");
        let span = spans.iter().find(|span| hex(&span.trace) == TRACE).unwrap();
        assert_eq!(hex(&span.parent), "00f067aa0ba902b7");
        assert_eq!(passed.unwrap(), format!("00-{TRACE}-{}-01", hex(&span.id)));
        assert_eq!(span.name, "invoke_agent ragwire");
        assert!(span.start > 0 && span.start < span.end);
        let attributes = values(&span.attributes);
        for (name, value) in [
            ("gen_ai.operation.name", "invoke_agent"),
            ("gen_ai.agent.name", "ragwire"),
            ("gen_ai.usage.input_tokens", "100"),
            ("gen_ai.usage.output_tokens", "7"),
            ("gen_ai.response.model", "qwen3:8b"),
            ("ragwire.outcome", "completed"),
            ("ragwire.wire", "ndjson"),
            ("ragwire.time_to_first_text", "a fraction"),
        ] {
            assert_eq!(
                attributes.get(name).map(String::as_str),
                Some(value),
                "{name}: {attributes:?}"
            );
        }
        // Nothing of a question or an answer, and no whole ID.
        assert_eq!(attributes["ragwire.turn"].len(), 8);
        assert!(attributes.values().all(|value| !value.contains("owl")));

        let mut failures: Vec<_> = spans
            .iter()
            .filter(|span| hex(&span.trace) != TRACE)
            .map(|span| {
                let attributes = values(&span.attributes);
                let status = span.status.clone().unwrap_or_default();
                assert!(span.parent.is_empty());
                (
                    attributes["ragwire.outcome"].clone(),
                    attributes["error.type"].clone(),
                    (status.message, status.code),
                )
            })
            .collect();
        failures.sort();
        let failed = |outcome: &str| {
            let code = "chat_failed".to_owned();
            (outcome.to_owned(), code.clone(), (code, 2))
        };
        assert_eq!(failures, [failed("failed"), failed("rejected")]);
    }

    #[tokio::test]
    async fn a_collector_that_is_away_delays_nothing() {
        let others = Others::start().await;
        let server = others
            .server(|settings| settings.otlp_url = "http://127.0.0.1:9".parse().unwrap())
            .await;
        ask(&server, &[], "When does the owl hunt?").await;
        let (passed, _) = others.last();
        assert!(passed.unwrap().starts_with("00-"));
        let began = std::time::Instant::now();
        server.stop().await;
        assert!(began.elapsed() < std::time::Duration::from_secs(10));
    }
}
