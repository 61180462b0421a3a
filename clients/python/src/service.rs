//! The router of `ragwire-endpoints` behind ASGI.

use std::sync::Arc;

use axum::body::Body;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use ragwire::turn::{JournalLimits, TurnGroup as CoreGroup};
use ragwire_endpoints::{ClientShare, EndpointLimits, Endpoints, Peer, Protocol, Refusal};
use tower::ServiceExt;

use crate::event_loop::{EventLoop, Variables};
use crate::exchange::Exchange;
use crate::feed::Feed;
use crate::observer::Observer;
use crate::options::Options;
use crate::orchestrator::Orchestrator;
use crate::promise::Promise;
use crate::sink::outcome;
use crate::stores::{Journal, Sessions, TurnGroup, session_limits};
use crate::turn::timeouts;
use crate::{errors, log, socket};

/// As many questions wait as run, the default of the endpoints.
const MAX_QUEUED: usize = CoreGroup::MAX_ACTIVE;

/// The protocols by name.
const PROTOCOLS: [(&str, Protocol); 13] = [
    ("rag", Protocol::Rag),
    ("turns", Protocol::Turns),
    ("ai_sdk", Protocol::AiSdk),
    ("ag_ui", Protocol::AgUi),
    ("openai", Protocol::OpenAi),
    ("responses", Protocol::Responses),
    ("ollama", Protocol::Ollama),
    ("forge", Protocol::Forge),
    ("session_chat", Protocol::SessionChat),
    ("eve", Protocol::Eve),
    ("langgraph", Protocol::LangGraph),
    ("mcp", Protocol::Mcp),
    ("trustgraph", Protocol::TrustGraph),
];

/// The owner of a request, which Python determined before the request is routed.
#[derive(Clone)]
pub(crate) struct RequestOwner(Result<Option<String>, Refusal>);

/// All endpoints, and the orchestrator behind them.
#[pyclass(frozen, module = "ragwire._ragwire")]
pub(crate) struct Service {
    service: ragwire_endpoints::Service,
    router: axum::Router,
    group: CoreGroup,
    /// The object that the application passed as `turns`.
    own_turns: Option<Py<TurnGroup>>,
    orchestrator: Orchestrator,
}

fn protocols(py: Python<'_>, names: Vec<String>) -> PyResult<Vec<Protocol>> {
    let find = |name: String| {
        let known = PROTOCOLS
            .iter()
            .find(|(known, _)| *known == name.replace('-', "_"));
        known.map(|(_, protocol)| *protocol).ok_or_else(|| {
            let names = PROTOCOLS.map(|(name, _)| name).join(", ");
            errors::option(py, format!("unknown protocol {name:?}; known: {names}"))
        })
    };
    names.into_iter().map(find).collect()
}

fn limits(options: &mut Options<'_>) -> PyResult<EndpointLimits> {
    let mut limits = EndpointLimits::default();
    if let Some(bytes) = options.take("max_question_bytes")? {
        limits = limits.max_question_bytes(bytes);
    }
    if let Some(after) = options.seconds("body_timeout")? {
        limits = limits.body_timeout(after);
    }
    if let Some(rate) = options.take("min_body_rate")? {
        limits = limits.min_body_rate(rate);
    }
    if let Some(bytes) = options.take("max_body_memory")? {
        limits = limits.max_body_memory(bytes);
    }
    if let Some(percent) = options.take::<u8>("client_share")? {
        if !(1..=100).contains(&percent) {
            let message = format!("client_share must be a percentage from 1 to 100, not {percent}");
            return Err(errors::option(options.py(), message));
        }
        limits = limits.client_share(ClientShare::percent(percent));
    }
    if let Some(bytes) = options.take("max_attachment_bytes")? {
        limits = limits.max_attachment_bytes(bytes);
    }
    if let Some(sockets) = options.take("max_sockets")? {
        limits = limits.max_sockets(sockets);
    }
    if let Some(bytes) = options.take("pad_to")? {
        limits = limits.pad_to(bytes);
    }
    Ok(limits)
}

#[pymethods]
impl Service {
    #[new]
    #[pyo3(signature = (run, options))]
    fn new(py: Python<'_>, run: Py<PyAny>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut options = Options::new(py, Some(options))?;
        let orchestrator = Orchestrator::new(run);
        let limits = limits(&mut options)?;
        let mut endpoints = Endpoints::new(orchestrator.clone())
            .limits(limits)
            .timeouts(timeouts(&mut options)?)
            .owner(|head| match head.extensions.get::<RequestOwner>() {
                Some(owner) => owner.0.clone(),
                None => Ok(None),
            });
        if let Some(names) = options.take("protocols")? {
            endpoints = endpoints.protocols(protocols(py, names)?);
        }
        let journal = options
            .take::<PyRef<'_, Journal>>("journal")?
            .map(|journal| journal.0.clone());
        endpoints = endpoints
            .journal(journal.unwrap_or_else(|| ragwire::turn::Journal::in_memory(JournalLimits::default())));
        if let Some(sessions) = options.take::<PyRef<'_, Sessions>>("sessions")? {
            endpoints = endpoints.sessions(sessions.0.clone());
        }
        if let Some(records) = options.take::<PyRef<'_, Sessions>>("records")? {
            endpoints = endpoints.records(records.0.clone());
        }
        if let Some(observer) = Observer::take(&mut options, orchestrator.home())? {
            endpoints = endpoints.observer(observer);
        }
        let own_turns = options.take::<PyRef<'_, TurnGroup>>("turns")?;
        let group = match &own_turns {
            Some(turns) if turns.max_per_owner == Some(1) => turns.open_group(),
            Some(_) => {
                let message = "turns must be a TurnGroup with max_per_owner=1, \
                               which answers one question of a session at a time";
                return Err(errors::option(py, message));
            }
            None => CoreGroup::builder()
                .max_queued(MAX_QUEUED)
                .max_per_owner(1)
                .max_active_per_client(limits.client_share.of(CoreGroup::MAX_ACTIVE))
                .max_queued_per_client(limits.client_share.of(MAX_QUEUED))
                .build(),
        };
        endpoints = endpoints.turns(group.clone());
        if let Some(grace) = options.seconds("disconnect_grace")? {
            endpoints = endpoints.disconnect_grace(grace);
        }
        if let Some(prefix) = options.take::<String>("prefix")? {
            if prefix.contains(['{', '}', '*', ':']) {
                return Err(errors::option(
                    py,
                    "prefix must be a plain path, without parameters",
                ));
            }
            endpoints = endpoints.prefix(prefix);
        }
        if let Some(name) = options.take::<String>("name")? {
            endpoints = endpoints.name(name);
        }
        if let Some(mode) = options.take::<String>("mode")? {
            endpoints = endpoints.mode(mode);
        }
        if options.take::<bool>("attachments")? == Some(true) {
            endpoints = endpoints.attachments();
        }
        if options.take::<bool>("structured_results")? == Some(true) {
            endpoints = endpoints.structured_results();
        }
        if let Some(names) = options.take::<Vec<String>>("openai_parameters")? {
            endpoints = endpoints.openai_parameters(names);
        }
        for name in options.take::<Vec<String>>("pass_headers")?.unwrap_or_default() {
            let header = HeaderName::try_from(&name)
                .map_err(|_| errors::option(py, format!("pass_headers: {name:?} is not a header name")))?;
            endpoints = endpoints.pass_headers([header]);
        }
        for origin in options.take::<Vec<String>>("allow_origins")?.unwrap_or_default() {
            endpoints = match origin.as_str() {
                "*" => endpoints.allow_any_origin(),
                _ => endpoints.allow_origin(origin),
            };
        }
        for host in options.take::<Vec<String>>("allow_hosts")?.unwrap_or_default() {
            endpoints = endpoints.allow_host(host);
        }
        if options.take::<bool>("list_anonymous")? == Some(true) {
            endpoints = endpoints.list_anonymous();
        }
        options.finish()?;
        log::read_level(py)?;
        let service = endpoints.build();
        Ok(Self {
            router: service
                .router()
                .method_not_allowed_fallback(wrong_method)
                .fallback(unknown_route),
            service,
            group,
            own_turns: own_turns.map(Py::from),
            orchestrator,
        })
    }

    /// Begins to answer a request. `owner` is a name, `None`, or the `Refusal` of the request, and
    /// `peer` the name of the connection's other end, if it has one.
    #[expect(clippy::too_many_arguments, reason = "the parts of an ASGI scope")]
    fn exchange(
        &self,
        py: Python<'_>,
        method: &str,
        target: &str,
        headers: &Bound<'_, PyAny>,
        owner: Option<&Bound<'_, PyAny>>,
        peer: Option<&str>,
        variables: Py<PyAny>,
    ) -> PyResult<Exchange> {
        let event_loop = EventLoop::current(py)?;
        self.orchestrator.set_home(&event_loop);
        let feed = Feed::default();
        let mut request = request(method, target, headers)?
            .body(Body::new(feed.body()))
            .map_err(invalid)?;
        request.extensions_mut().insert(request_owner(owner)?);
        if let Some(peer) = peer {
            request.extensions_mut().insert(Peer::new(peer));
        }
        let router = self.router.clone();
        let responding = Box::pin(async move {
            match router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        });
        let variables: Variables = Some(Arc::new(variables));
        Ok(Exchange::new(
            event_loop,
            variables,
            feed,
            self.group.clone(),
            responding,
        ))
    }

    /// Opens a WebSocket. The awaited result is a `WebSocket`, or the status, the headers and the body
    /// of the refusal.
    fn websocket(
        &self,
        py: Python<'_>,
        target: String,
        headers: &Bound<'_, PyAny>,
        owner: Option<&Bound<'_, PyAny>>,
        peer: Option<&str>,
    ) -> PyResult<Promise> {
        let event_loop = EventLoop::current(py)?;
        self.orchestrator.set_home(&event_loop);
        let who = (request_owner(owner)?, peer.map(Peer::new));
        let (router, headers) = (self.router.clone(), header_map(headers)?);
        let opening = socket::open(event_loop, router, who, target, headers);
        Ok(Promise::new("Service.websocket()", opening))
    }

    fn openapi(&self) -> PyResult<String> {
        self.service
            .openapi()
            .to_json()
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn shut_down(&self, py: Python<'_>) -> PyResult<()> {
        let event_loop = EventLoop::current(py)?;
        event_loop.enter(py, || self.service.shut_down());
        if let Some(turns) = &self.own_turns {
            event_loop.enter(py, || turns.get().shut_down());
        }
        Ok(())
    }

    fn drained(&self) -> Promise {
        let service = self.service.clone();
        Promise::new("Service.drained()", async move {
            service.drained().await;
            outcome(|py| Ok(py.None()))
        })
    }

    #[getter]
    fn active(&self) -> usize {
        self.group.active()
    }
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let message = format!("{} does not support {method}.", uri.path());
    Refusal::permanent(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

async fn unknown_route(method: Method, uri: Uri) -> Refusal {
    let message = format!(
        "There is no route {method} {}; ask for example POST /v1/turns.",
        uri.path()
    );
    Refusal::permanent(StatusCode::NOT_FOUND, "not_found", message)
}

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("invalid request: {error}"))
}

/// Begins a request from the parts of an ASGI scope.
fn request(method: &str, target: &str, headers: &Bound<'_, PyAny>) -> PyResult<http::request::Builder> {
    let method = Method::from_bytes(method.as_bytes()).map_err(invalid)?;
    let map = header_map(headers)?;
    let mut builder = Request::builder()
        .method(method)
        .uri(Uri::try_from(target).map_err(invalid)?);
    if let Some(headers) = builder.headers_mut() {
        *headers = map;
    }
    Ok(builder)
}

fn header_map(headers: &Bound<'_, PyAny>) -> PyResult<HeaderMap> {
    let mut map = HeaderMap::new();
    for header in headers.try_iter()? {
        let (name, value): (Bound<'_, PyBytes>, Bound<'_, PyBytes>) = header?.extract()?;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(invalid)?;
        map.append(name, HeaderValue::from_bytes(value.as_bytes()).map_err(invalid)?);
    }
    Ok(map)
}

fn request_owner(owner: Option<&Bound<'_, PyAny>>) -> PyResult<RequestOwner> {
    let Some(owner) = owner else {
        return Ok(RequestOwner(Ok(None)));
    };
    if let Ok(name) = owner.cast::<PyString>() {
        return Ok(RequestOwner(Ok(Some(name.to_str()?.to_owned()))));
    }
    let status = StatusCode::from_u16(owner.getattr("status")?.extract()?).map_err(invalid)?;
    let failure = errors::as_failure(owner).unwrap_or_default();
    Ok(RequestOwner(Err(Refusal::new(status, failure))))
}

/// Returns the options of a store of finished turns beside sessions with these options.
#[pyfunction]
pub(crate) fn record_limits<'py>(
    py: Python<'py>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut options = Options::new(py, Some(options))?;
    let limits = Endpoints::record_limits(&session_limits(&mut options)?);
    options.finish()?;
    let limited = PyDict::new(py);
    limited.set_item("max_sessions", limits.max_sessions)?;
    limited.set_item("max_messages", limits.max_messages)?;
    limited.set_item("max_bytes", limits.max_bytes)?;
    limited.set_item("max_state_bytes", limits.max_state_bytes)?;
    limited.set_item("max_age", limits.max_age.as_secs_f64())?;
    Ok(limited)
}

/// Returns the size that the state of a session needs for questions of this size.
#[pyfunction]
pub(crate) fn max_state_bytes(max_question_bytes: usize) -> usize {
    Endpoints::max_state_bytes(max_question_bytes)
}

/// Returns the names of the protocols.
#[pyfunction]
pub(crate) fn protocol_names(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, PROTOCOLS.map(|(name, _)| name))
}
