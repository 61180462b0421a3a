//! One span per turn, with the attributes of OpenTelemetry's conventions for generative AI, exported
//! with OTLP over HTTP.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HttpClient as SendBytes, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use ragwire::turn::{FinishedTurn, TurnId, TurnOutcome};
use ragwire_rag::TraceContext;
use ragwire_rag::models::upstream::HttpClient;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::settings::Settings;

/// Name of the service, unless OTEL_SERVICE_NAME says otherwise.
const SERVICE: &str = "ragwire-server";
/// The operation of a turn in the conventions, and the name of its span.
const OPERATION: &str = "invoke_agent";
const SPAN: &str = "invoke_agent ragwire";
/// The path that collectors listen on, for an address without one.
const PATH: &str = "/v1/traces";
/// How long an export may take. The batches behind it wait, and beyond 2,048 spans are dropped.
const TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer of a collector that is read.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Turns whose span waits for their end, at most. Each ends with its turn, so it is never reached
/// unless turns are not reported.
const MAX_RUNNING: usize = 100_000;

/// The spans of running turns, and where finished ones go.
pub(super) struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    running: Mutex<HashMap<TurnId, Span>>,
}

impl Spans {
    /// Creates the exporter that `--otlp-url` names. Returns `None` without it. Must be called in a
    /// tokio runtime.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let url = settings.otlp_url.as_deref()?;
        match exporter(url) {
            Ok(exporter) => Some(Self::exporting(exporter)),
            Err(error) => {
                tracing::error!(%error, "turns are not traced");
                None
            }
        }
    }

    fn exporting(exporter: SpanExporter) -> Self {
        // OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(SERVICE);
        }
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.with_attribute(version).build())
            .build();
        let tracer = provider.tracer(env!("CARGO_PKG_NAME"));
        Self {
            provider,
            tracer,
            running: Mutex::default(),
        }
    }

    /// Begins the span of a turn that leaves the waiting list. Returns its context, for what the turn
    /// asks of others.
    pub(super) fn begin(&self, turn: TurnId, parent: Option<&TraceContext>) -> Option<TraceContext> {
        let span = self.start(turn, parent, SystemTime::now());
        let context = Context::new().with_remote_span_context(span.span_context().clone());
        let mut headers = HashMap::new();
        TraceContextPropagator::new().inject_context(&context, &mut headers);
        let mut running = self.running();
        if running.len() < MAX_RUNNING {
            running.insert(turn, span);
        }
        let state = headers.get(TraceContext::STATE).map(String::as_str);
        TraceContext::new(headers.get(TraceContext::PARENT)?, state)
    }

    fn start(&self, turn: TurnId, parent: Option<&TraceContext>, at: SystemTime) -> Span {
        let parent = parent.map_or_else(Context::new, |parent| {
            let headers = parent
                .headers()
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            let headers: HashMap<_, _> = headers.collect();
            TraceContextPropagator::new().extract_with_context(&Context::new(), &headers)
        });
        let span = SpanBuilder::from_name(SPAN)
            .with_kind(SpanKind::Internal)
            .with_start_time(at)
            .with_attributes([
                KeyValue::new("gen_ai.operation.name", OPERATION),
                KeyValue::new("gen_ai.provider.name", "ragwire"),
                KeyValue::new("gen_ai.agent.name", "ragwire"),
                KeyValue::new("ragwire.turn", turn.to_string()[..8].to_owned()),
            ]);
        self.tracer.build_with_context(span, &parent)
    }

    /// Ends the span of a turn. A turn that never left the waiting list gets one now.
    pub(super) fn finished(&self, turn: &FinishedTurn<'_>) {
        let running = self.running().remove(&turn.id);
        let mut span = running.unwrap_or_else(|| {
            let began = SystemTime::now().checked_sub(turn.duration);
            self.start(turn.id, None, began.unwrap_or_else(SystemTime::now))
        });
        span.set_attributes(figures(turn));
        let (outcome, failure) = match turn.outcome {
            TurnOutcome::Completed => ("completed", None),
            TurnOutcome::Stopped => ("stopped", None),
            TurnOutcome::Failed(failure) => ("failed", Some(failure)),
            TurnOutcome::Rejected(failure) => ("rejected", Some(failure)),
            TurnOutcome::Disconnected => ("disconnected", None),
        };
        span.set_attribute(KeyValue::new("ragwire.outcome", outcome));
        if let Some(failure) = failure {
            let code = failure.code().to_owned();
            span.set_attribute(KeyValue::new("error.type", code.clone()));
            span.set_status(Status::error(code));
        }
        span.end();
    }

    /// Exports what is left.
    pub(super) async fn shut_down(&self) {
        let provider = self.provider.clone();
        let done = tokio::task::spawn_blocking(move || provider.shutdown()).await;
        if let Ok(Err(error)) = done {
            tracing::warn!(%error, "not all spans were exported");
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<TurnId, Span>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what the end of a turn says about it. No text of a question or an answer.
fn figures(turn: &FinishedTurn<'_>) -> Vec<KeyValue> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let mut figures = vec![
        KeyValue::new("ragwire.frames", number(turn.frames)),
        KeyValue::new("ragwire.stalls", number(turn.stalls)),
    ];
    if let Some(wire) = turn.wire {
        figures.push(KeyValue::new("ragwire.wire", wire));
    }
    for (name, time) in [
        ("ragwire.time_to_first_event", turn.first_event),
        ("ragwire.time_to_first_text", turn.first_text),
        ("ragwire.time_waiting", turn.waited),
    ] {
        figures.extend(time.map(|time| KeyValue::new(name, time.as_secs_f64())));
    }
    let Some(usage) = turn.usage else { return figures };
    for (name, tokens) in [
        ("gen_ai.usage.input_tokens", usage.input_tokens),
        ("gen_ai.usage.cache_read.input_tokens", usage.cached_input_tokens),
        ("gen_ai.usage.output_tokens", usage.output_tokens),
    ] {
        figures.extend(tokens.map(|tokens| KeyValue::new(name, number(tokens))));
    }
    if let Some(model) = &usage.model {
        figures.push(KeyValue::new("gen_ai.response.model", model.clone()));
    }
    figures
}

fn exporter(url: &str) -> Result<SpanExporter, Box<dyn std::error::Error + Send + Sync>> {
    let client = Client {
        http: HttpClient::new(CONNECT_TIMEOUT, None)?,
        runtime: Handle::try_current()?,
    };
    // Its further settings are the variables of the standard, such as OTEL_EXPORTER_OTLP_HEADERS.
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_http_client(client)
        .with_endpoint(endpoint(url))
        .build()?;
    Ok(exporter)
}

/// Returns the address with the path of collectors, if it has none.
fn endpoint(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    match rest.contains('/') {
        true => url.to_owned(),
        false => format!("{url}{PATH}"),
    }
}

/// The HTTP client of the pipeline, for a thread outside of the runtime: batches are exported by a
/// thread of their own.
#[derive(Debug)]
struct Client {
    http: HttpClient,
    runtime: Handle,
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl SendBytes for Client {
    fn send_bytes<'a, 'b>(&'a self, request: Request<Bytes>) -> Sending<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        let http = self.http.clone();
        let sending = self
            .runtime
            .spawn(async move { timeout(TIMEOUT, send(&http, request)).await });
        Box::pin(async move { sending.await?? })
    }
}

async fn send(http: &HttpClient, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (head, mut body) = http.send(request).await?.into_parts();
    let mut answer = BytesMut::new();
    while let Some(bytes) = body.data().await? {
        if answer.len() + bytes.len() > MAX_ANSWER_BYTES {
            return Err("the answer of the collector is too large".into());
        }
        answer.extend_from_slice(&bytes);
    }
    Ok(Response::from_parts(head, answer.freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_path_gets_that_of_collectors() {
        for (url, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector/", "http://collector/v1/traces"),
            (
                "https://collector/otlp/v1/traces",
                "https://collector/otlp/v1/traces",
            ),
        ] {
            assert_eq!(endpoint(url), expected);
        }
    }
}
