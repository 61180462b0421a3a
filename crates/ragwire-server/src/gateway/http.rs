//! An orchestrator behind HTTP: one request per question, whose streamed response is the answer.
//!
//! Dropping the answer closes its connection, which is how the orchestrator learns that the turn
//! was stopped or that its last reader disconnected.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::TryFutureExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use ragwire::event::StructuredResult;
use ragwire::http::TURN_HEADER;
use ragwire::orchestrator::Question;
use ragwire::turn::TurnId;
use ragwire::wire::WireKind;
use ragwire::{Metadata, Sink};
use ragwire_rag::models::upstream::{ApiKey, HttpBody, HttpClient, Retry, UpstreamError, Wait, retry_after};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::{GatewayError, Trouble, excerpt};
use super::humans::{Channel, Delivery, HumanAnswer};
use super::interrupts::{Answered, Decoder};
use super::relay::{Before, Relayed, Source, relay};
use super::request::{self, RequestContext, SchemaPlace};
use super::threads::{Thread, Threads, delete, langgraph_thread};
use super::trace::passed_headers;
use super::transcript::MAX_TRANSCRIPT_BYTES;

/// The response header that names where human answers are posted.
const ANSWER_HEADER: HeaderName = HeaderName::from_static("x-ragwire-answer");
/// The request header by which an orchestrator recognizes a repeated request: the turn's ID.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The answers that are accepted, in the order of preference.
const ACCEPTED: &str = "application/x-ndjson, text/event-stream, text/plain;q=0.5";
/// Bytes of an error's body that are read: the reason is in its first lines.
const MAX_ERROR_BYTES: usize = 4 * 1024;
/// How long the body of an error may take: the status is already known.
const ERROR_BODY: Duration = Duration::from_secs(5);
/// Characters of a content type that are logged.
const MAX_CONTENT_TYPE_CHARS: usize = 100;
/// Chunks that have arrived are joined until they have so many bytes: a third of what the queue of a
/// turn holds.
const MAX_CHUNK_BYTES: usize = 16 * 1024;
/// How long an orchestrator may take to accept a human's answer.
const ANSWER: Duration = Duration::from_secs(10);

/// What the gateway needs to know of an orchestrator behind HTTP.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Where questions are posted.
    pub uri: Uri,
    /// The token, sent as `Authorization: Bearer …`.
    pub token: Option<ApiKey>,
    /// A PEM file of the certificate authorities to trust; `None` for Mozilla's list.
    pub authorities: Option<PathBuf>,
    /// The protocol of request and answer; `None` to recognize the answer.
    pub wire: Option<WireKind>,
    /// The model or assistant that requests name.
    pub model: Option<String>,
    /// From the request to the first byte of its answer.
    pub first: Duration,
    /// The longest silence between two pieces of an answer.
    pub idle: Duration,
    /// How often and when a request is repeated.
    pub retry: Retry,
}

/// An orchestrator behind HTTP.
#[derive(Clone, Debug)]
pub(super) struct HttpOrchestrator {
    client: HttpClient,
    options: Arc<HttpOptions>,
    threads: Threads,
}

impl HttpOrchestrator {
    pub(super) fn new(client: HttpClient, options: HttpOptions) -> Self {
        Self {
            client,
            options: Arc::new(options),
            threads: Threads::default(),
        }
    }

    /// Returns `true` if a schema reaches the orchestrator.
    pub(super) fn takes_schemas(&self) -> bool {
        request::schema_place(self.options.wire) != SchemaPlace::None
    }

    /// Asks the orchestrator and relays its answer.
    pub(super) async fn answer(&self, question: Question, sink: Sink) -> Result<Metadata, Trouble> {
        let turn = sink.handle().id();
        let mut call = Call::new(self, &question, turn)?;
        drop(question);
        let mut opened = self.ask(&call).await?;
        let mut answered = Metadata::default();
        // What earlier requests were answered with.
        let mut before: Option<Before> = None;
        loop {
            // What continues an answer has its wire.
            let known = before.take();
            let known = known.unwrap_or_else(|| Before::new(Decoder::new(opened.wire)));
            let mut relayed = call.relay(opened, known, sink.clone()).await?;
            answered = joined(answered, relayed.metadata);
            if relayed.answered.is_empty() {
                if let Some(text) = relayed.text {
                    let result: Value = serde_json::from_str(&text).map_err(|_| GatewayError::NotJson)?;
                    let sent = sink.send(StructuredResult::new(result)).await;
                    sent.map_err(|error| GatewayError::Relay(error.into()))?;
                }
                return Ok(answered);
            }
            call.continue_with(&relayed.answered, &mut relayed.before)?;
            before = Some(relayed.before);
            // Once: a run that may have begun must not begin again with the same answers.
            opened = call.open().await?;
        }
    }

    /// Sends the question until an answer begins.
    async fn ask(&self, call: &Call) -> Result<Opened, Trouble> {
        let mut attempt = 0;
        loop {
            let trouble = match call.open().await {
                Ok(opened) => return Ok(opened),
                Err(trouble) => trouble,
            };
            let GatewayError::Http(error) = &trouble.error else {
                return Err(trouble);
            };
            let pause = self
                .options
                .retry
                .pause_after(attempt, error, trouble.retry_after);
            let Some(pause) = pause else {
                return Err(trouble);
            };
            tracing::info!(%error, upstream = trouble.upstream, ?pause, "asking the orchestrator again");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }
}

/// Joins the metadata of two runs of one answer. The newer citations replace the older ones, as they
/// do within a run.
fn joined(before: Metadata, mut after: Metadata) -> Metadata {
    if after.citations.is_empty() {
        after.citations = before.citations;
    }
    let new = std::mem::replace(&mut after.tools_used, before.tools_used);
    for tool in new {
        if !after.tools_used.contains(&tool) {
            after.tools_used.push(tool);
        }
    }
    after.usage = match (before.usage, after.usage) {
        (Some(before), Some(after)) => Some(before.plus(&after)),
        (before, after) => before.or(after),
    };
    after.events_dropped += before.events_dropped;
    after.truncated |= before.truncated;
    after
}

/// The requests for one turn.
struct Call {
    client: HttpClient,
    options: Arc<HttpOptions>,
    /// Where requests are posted.
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    /// The body of the request after the first.
    next_body: Option<Bytes>,
    turn: String,
    /// The text of the answer is the JSON of a schema.
    is_json: bool,
    /// Deletes the thread of the runs.
    _thread: Option<Thread>,
}

/// A response whose first bytes have arrived.
struct Opened {
    wire: WireKind,
    /// `None` if the body ended without a byte.
    first: Option<Bytes>,
    body: HttpBody,
    /// Where human answers go.
    answers: Uri,
}

impl Call {
    fn new(orchestrator: &HttpOrchestrator, question: &Question, turn: TurnId) -> Result<Self, Trouble> {
        let options = Arc::clone(&orchestrator.options);
        let id = turn.to_string();
        let context = RequestContext {
            turn: &id,
            model: options.model.as_deref(),
        };
        request::check_files(options.wire, question)?;
        let body = request::body(options.wire, question, context);
        let mut headers = passed_headers(question, turn);
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(id) = HeaderValue::try_from(id) {
            headers.insert(TURN_HEADER, id.clone());
            headers.insert(IDEMPOTENCY_KEY, id);
        }
        if let Some(token) = &options.token {
            headers.insert(AUTHORIZATION, token.header()?);
        }
        let client = orchestrator.client.clone();
        let of_thread = |(runs, thread)| {
            let request = delete(thread, &headers);
            (runs, orchestrator.threads.begin(client.clone(), request))
        };
        let thread = match options.wire {
            Some(WireKind::LangGraph) => langgraph_thread(&options.uri, turn).map(of_thread),
            _ => None,
        };
        let (uri, thread) = match thread {
            Some((runs, thread)) => (runs, Some(thread)),
            None => (options.uri.clone(), None),
        };
        let is_json = question.options.output_schema.is_some()
            && request::schema_place(options.wire) == SchemaPlace::Text;
        Ok(Self {
            client,
            options,
            uri,
            is_json,
            headers,
            body: body.to_string().into(),
            next_body: None,
            turn: turn.to_string(),
            _thread: thread,
        })
    }

    /// Makes the next request the one with the answers to the questions at which the answer ended.
    fn continue_with(&mut self, answered: &Answered, before: &mut Before) -> Result<(), GatewayError> {
        if before.transcript.is_full() {
            return Err(GatewayError::TranscriptTooLong(MAX_TRANSCRIPT_BYTES));
        }
        // It was written from JSON.
        let asked: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let next = request::continued(asked, answered, &mut before.transcript, &self.turn, before.runs);
        // The question is in every request, and what was written before only in one: the body of the
        // first request stays.
        self.next_body = Some(next.to_string().into());
        // The key names the question's request; this is another one.
        self.headers.remove(IDEMPOTENCY_KEY);
        Ok(())
    }

    /// Makes one attempt: sends the question and waits for the first bytes of the answer.
    async fn open(&self) -> Result<Opened, Trouble> {
        let (options, first) = (&self.options, Instant::now() + self.options.first);
        let late = |_| UpstreamError::Timeout {
            wait: Wait::First,
            after: options.first,
        };
        let body = self.next_body.as_ref().unwrap_or(&self.body).clone();
        let request = post(self.uri.clone(), self.headers.clone(), body);
        let response = timeout_at(first, self.client.send(request))
            .await
            .map_err(late)??;
        let (head, mut body) = response.into_parts();
        if !head.status.is_success() {
            let said = self.shown(&error_body(&mut body).await);
            let refused = UpstreamError::Refused {
                status: head.status.as_u16(),
                message: said.clone(),
                exhausted: false,
            };
            return Err(Trouble {
                retry_after: retry_after(&head.headers),
                ..Trouble::from(refused).saying(said)
            });
        }
        // No encoding was requested, so the body cannot be decoded.
        let encoded = |value: &HeaderValue| !value.is_empty() && value != "identity";
        if head.headers.get(CONTENT_ENCODING).is_some_and(encoded) {
            return Err(UpstreamError::Unreadable("it is compressed, but no encoding was requested").into());
        }
        let bytes = timeout_at(first, body.data()).await.map_err(late)??;
        let begin = bytes.as_deref().unwrap_or_default();
        let wire = wire_of(options.wire, &head.headers, begin.first().copied());
        let wire = wire.map_err(|error| Trouble::from(error).saying(self.shown(begin)))?;
        Ok(Opened {
            wire,
            answers: answer_uri(&options.uri, &head.headers),
            first: bytes,
            body,
        })
    }

    /// Passes the answer to the turn.
    async fn relay(&self, opened: Opened, before: Before, sink: Sink) -> Result<Relayed, Trouble> {
        let Opened {
            wire: _,
            first,
            body,
            answers,
        } = opened;
        let channel = HttpChannel {
            client: self.client.clone(),
            headers: self.headers.clone(),
            answers,
        };
        let source = BodySource {
            first,
            body,
            end: None,
            last: Bytes::new(),
        };
        let relayed = relay(sink, before, source, channel, self.options.idle, self.is_json).await;
        relayed.map_err(|unfinished| Trouble::from(unfinished.error).saying(self.shown(&unfinished.last)))
    }

    /// An excerpt of what the orchestrator said, without the token and the passed headers.
    fn shown(&self, words: &[u8]) -> String {
        let values = self.headers.values();
        let secrets = values.filter(|value| value.is_sensitive());
        let secrets = secrets.filter_map(|value| value.to_str().ok());
        excerpt(
            words,
            secrets.map(|value| value.strip_prefix("Bearer ").unwrap_or(value)),
        )
    }
}

/// Returns the wire of a response whose body starts with the byte `first`. A page or a JSON object is
/// an error's, whatever wire the operator has named.
fn wire_of(
    named: Option<WireKind>,
    headers: &HeaderMap,
    first: Option<u8>,
) -> Result<WireKind, GatewayError> {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or("?"));
    let essence = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let unexpected = || GatewayError::ContentType(essence.chars().take(MAX_CONTENT_TYPE_CHARS).collect());
    match (&*essence, named) {
        ("text/html" | "application/xhtml+xml" | "application/json", _) => Err(unexpected()),
        (_, Some(named)) => Ok(named),
        // A framework that streams without a type, such as Starlette.
        ("", None) if first == Some(b'{') => Ok(WireKind::Ndjson),
        ("", None) => Ok(WireKind::Plain),
        (_, None) => {
            WireKind::of_response(&essence, |name| headers.contains_key(name)).ok_or_else(unexpected)
        }
    }
}

fn post(uri: Uri, headers: HeaderMap, body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}

/// Reads the beginning of an error's body. If reading fails, the status says enough.
async fn error_body(body: &mut HttpBody) -> BytesMut {
    let mut kept = BytesMut::new();
    let _ = timeout(ERROR_BODY, async {
        while let Ok(Some(bytes)) = body.data().await {
            let room = MAX_ERROR_BYTES - kept.len();
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if kept.len() == MAX_ERROR_BYTES {
                break;
            }
        }
    })
    .await;
    kept
}

/// Returns where human answers are posted: the address in `x-ragwire-answer`, which must be on the
/// orchestrator's own host because the token goes there too; otherwise `/answer` below the turn
/// that the response names, or below the orchestrator's address.
fn answer_uri(base: &Uri, headers: &HeaderMap) -> Uri {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let path = base.path().trim_end_matches('/');
    let below = || match text(&TURN_HEADER).and_then(TurnId::parse) {
        Some(turn) => format!("{path}/{turn}/answer"),
        None => format!("{path}/answer"),
    };
    let named = text(&ANSWER_HEADER).and_then(|named| named.parse::<Uri>().ok());
    let named = named.filter(|uri| {
        let is_path = uri.scheme().is_none() && uri.authority().is_none();
        is_path || (uri.scheme() == base.scheme() && uri.authority() == base.authority())
    });
    let path = match named.as_ref().and_then(Uri::path_and_query) {
        Some(path) => path.as_str().to_owned(),
        None => below(),
    };
    let mut parts = base.clone().into_parts();
    parts.path_and_query = path.parse().ok();
    Uri::from_parts(parts).unwrap_or_else(|_| base.clone())
}

/// The body of a response, whose first chunk was already read.
struct BodySource {
    first: Option<Bytes>,
    body: HttpBody,
    /// The end or the failure of the body, which arrived together with its last bytes.
    end: Option<Option<UpstreamError>>,
    /// The last chunk of the body.
    last: Bytes,
}

impl BodySource {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        let data = match (self.first.take(), self.end.take()) {
            (Some(first), _) => Some(Ok(first)),
            (None, Some(end)) => end.map(Err),
            (None, None) => ready!(self.body.poll_data(cx)),
        };
        if let Some(Ok(chunk)) = &data {
            self.last = chunk.clone();
        }
        Poll::Ready(data)
    }
}

impl Source for BodySource {
    /// Returns all chunks that have arrived as one: they are decoded together, and adjacent texts
    /// are sent as one. An orchestrator that writes each token alone is read as fast as one that
    /// does not.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, GatewayError>>> {
        let first = match ready!(self.poll_data(cx)) {
            Some(Ok(first)) => first,
            end => return Poll::Ready(end.map(|end| end.map_err(GatewayError::from))),
        };
        let mut all = BytesMut::new();
        let mut arrived = first.len();
        while arrived < MAX_CHUNK_BYTES
            && let Poll::Ready(next) = self.poll_data(cx)
        {
            match next {
                Some(Ok(next)) => {
                    if all.is_empty() {
                        all.reserve(MAX_CHUNK_BYTES);
                        all.extend_from_slice(&first);
                    }
                    all.extend_from_slice(&next);
                    arrived = all.len();
                }
                end => {
                    self.end = Some(end.and_then(Result::err));
                    break;
                }
            }
        }
        // The usual chunk of a model's answer arrives alone, and is not copied.
        Poll::Ready(Some(Ok(if all.is_empty() { first } else { all.freeze() })))
    }

    fn last(&self) -> &Bytes {
        &self.last
    }

    fn silent(&self, after: Duration) -> GatewayError {
        UpstreamError::Timeout {
            wait: Wait::Idle,
            after,
        }
        .into()
    }

    fn ends_with_answer(&self) -> bool {
        false
    }
}

/// Posts human answers.
struct HttpChannel {
    client: HttpClient,
    headers: HeaderMap,
    answers: Uri,
}

impl Channel for HttpChannel {
    fn deliver(&self, answer: HumanAnswer) -> Delivery {
        let body = serde_json::to_vec(&answer).unwrap_or_default().into();
        let mut headers = self.headers.clone();
        // The key names the question's request; the answer is another one.
        headers.remove(IDEMPOTENCY_KEY);
        let request = post(self.answers.clone(), headers, body);
        let client = self.client.clone();
        Box::pin(async move {
            let sent = timeout(ANSWER, client.send(request).map_err(GatewayError::from)).await;
            let late = UpstreamError::Timeout {
                wait: Wait::First,
                after: ANSWER,
            };
            let status = sent.map_err(|_| late)??.status();
            if status.is_success() {
                return Ok(());
            }
            Err(UpstreamError::Refused {
                status: status.as_u16(),
                message: "it refused the answer of a human".into(),
                exhausted: false,
            }
            .into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_recognized_by_its_content_type() {
        for (kind, first, named, expected) in [
            (
                "application/x-ndjson; charset=utf-8",
                b'{',
                None,
                Some(WireKind::Ndjson),
            ),
            ("text/event-stream", b'd', None, Some(WireKind::Sse)),
            (
                "text/event-stream",
                b'd',
                Some(WireKind::Ndjson),
                Some(WireKind::Ndjson),
            ),
            ("Text/Plain", b'{', None, Some(WireKind::Plain)),
            ("", b'{', None, Some(WireKind::Ndjson)),
            ("", b'Y', None, Some(WireKind::Plain)),
            ("image/png", b'd', None, None),
            ("text/html", b'<', Some(WireKind::Sse), None),
            ("application/json", b'{', Some(WireKind::Ndjson), None),
        ] {
            let mut headers = HeaderMap::new();
            if !kind.is_empty() {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            }
            assert_eq!(wire_of(named, &headers, Some(first)).ok(), expected, "{kind}");
        }
    }

    #[test]
    fn answers_go_to_the_same_host_only() {
        let turn = "0123456789abcdef0123456789abcdef";
        for (base, named, turn, expected) in [
            ("http://a:1/ask", None, None, "http://a:1/ask/answer"),
            ("http://a:1", None, None, "http://a:1/answer"),
            (
                "http://a:1/v1/turns/",
                None,
                Some(turn),
                "http://a:1/v1/turns/0123456789abcdef0123456789abcdef/answer",
            ),
            ("http://a:1/ask", Some("/x?y=1"), Some(turn), "http://a:1/x?y=1"),
            ("http://a:1/ask", Some("http://a:1/x"), None, "http://a:1/x"),
            (
                "http://a:1/ask",
                Some("https://a:1/x"),
                None,
                "http://a:1/ask/answer",
            ),
            (
                "http://a:1/ask",
                Some("http://b/x"),
                None,
                "http://a:1/ask/answer",
            ),
            ("http://a:1/ask", Some("//b/x"), None, "http://a:1//b/x"),
            (
                "http://a:1/ask",
                Some("a b"),
                Some("../x"),
                "http://a:1/ask/answer",
            ),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(named) = named {
                headers.insert(ANSWER_HEADER, HeaderValue::from_static(named));
            }
            if let Some(turn) = turn {
                headers.insert(TURN_HEADER, HeaderValue::from_static(turn));
            }
            let uri = answer_uri(&base.parse().unwrap(), &headers);
            assert_eq!(uri.to_string(), expected);
        }
    }
}
