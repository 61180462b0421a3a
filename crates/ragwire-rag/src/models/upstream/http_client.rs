//! The HTTP client of this crate, which other programs may share: connections, TLS, and the errors
//! of a request without a response.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::RootCertStore;
use tower_service::Service;

use super::connection::{BodyState, Connection, ConnectionError, HttpBody};
use super::error::UpstreamError;
use super::options::root_certificates;
use super::pool::{Pool, Server};
use crate::trace::TraceContext;

/// The value of `User-Agent`.
const AGENT: &str = concat!("ragwire/", env!("CARGO_PKG_VERSION"));

/// A client for `http://` and `https://` whose clones share connections.
///
/// HTTP/1.1 only, so that dropping an answer closes its connection, which every server notices. It
/// has no time limits except for connecting, and follows no redirects. A request carries the
/// [`TraceContext`] of its task, unless it has a `traceparent`.
///
/// ```no_run
/// use std::time::Duration;
///
/// use bytes::Bytes;
/// use http::Request;
/// use ragwire_rag::models::upstream::HttpClient;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = HttpClient::new(Duration::from_secs(5), None)?;
/// let request = Request::post("http://127.0.0.1:9000/ask").body(Bytes::from("{}"))?;
/// let response = client.send(request).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct HttpClient {
    connector: HttpsConnector<HttpConnector>,
    pool: Arc<Pool>,
}

impl HttpClient {
    /// Creates a client that gives up after `connect` if a connection cannot be established, and
    /// that trusts the certificate authorities of a PEM file, or Mozilla's list.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Certificates`] if the PEM text has no valid certificate.
    pub fn new(connect: Duration, authorities: Option<&[u8]>) -> Result<Self, UpstreamError> {
        let roots = authorities.map(root_certificates).transpose()?;
        Self::with_roots(connect, roots)
    }

    pub(super) fn with_roots(connect: Duration, roots: Option<RootCertStore>) -> Result<Self, UpstreamError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect));
        // Named explicitly: a process may have two providers, and rustls does not choose between
        // them.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| UpstreamError::Setting("tls has no protocol version in common"))?;
        let tls = match roots {
            Some(roots) => tls.with_root_certificates(roots),
            None => tls.with_webpki_roots(),
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.with_no_client_auth())
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Self {
            connector,
            pool: Arc::default(),
        })
    }

    /// Sends a request and returns the head of its response, whatever its status.
    ///
    /// A connection that the server has closed while it was idle is replaced. If the server closes
    /// it while the request is on its way, before a byte of the response, the request is sent once
    /// more on a new connection: servers close idle connections without notice.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Connect`], [`UpstreamError::Broken`], [`UpstreamError::Unreadable`], and
    /// [`UpstreamError::Url`] for a URI without a host.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<HttpBody>, UpstreamError> {
        let uri = request.uri().clone();
        let request = prepare(request)?;
        let server = Server::of(&uri);
        while let Some(mut connection) = self.pool.take(&server) {
            if !connection.is_open().await {
                continue;
            }
            match connection.send(request.clone()).await {
                Ok(response) => return Ok(self.response(response, connection, server)),
                Err(error @ (ConnectionError::Head | ConnectionError::Request(_))) => {
                    return Err(classify(error));
                }
                Err(ConnectionError::Socket(error)) => {
                    tracing::debug!(%error, "the server closed a connection that was idle");
                    break;
                }
            }
        }
        let mut connection = self.connect(uri).await?;
        let response = connection.send(request).await.map_err(classify)?;
        Ok(self.response(response, connection, server))
    }

    async fn connect(&self, uri: Uri) -> Result<Connection, UpstreamError> {
        let mut connector = self.connector.clone();
        let ready = poll_fn(|cx| connector.poll_ready(cx)).await;
        ready.map_err(UpstreamError::Connect)?;
        let socket = connector.call(uri).await.map_err(UpstreamError::Connect)?;
        Ok(Connection::new(socket))
    }

    fn response(
        &self,
        response: Response<BodyState>,
        connection: Connection,
        server: Server,
    ) -> Response<HttpBody> {
        response.map(|body| HttpBody::new(body, connection, server, Arc::clone(&self.pool)))
    }
}

/// Completes the head of a request: the host, the agent and the trace are headers, and the target is
/// a path.
fn prepare(mut request: Request<Bytes>) -> Result<Request<Bytes>, UpstreamError> {
    let uri = request.uri();
    let Some(host) = uri.host() else {
        return Err(UpstreamError::Url("it has no host"));
    };
    let is_https = uri.scheme() == Some(&Scheme::HTTPS);
    let usual = if is_https { 443 } else { 80 };
    let host = match uri.port_u16().filter(|port| *port != usual) {
        Some(port) => HeaderValue::try_from(format!("{host}:{port}")),
        None => HeaderValue::from_str(host),
    };
    let host = host.map_err(|_| UpstreamError::Url("its host is not a header value"))?;
    let path = uri.path_and_query().cloned();
    *request.uri_mut() = path.unwrap_or(PathAndQuery::from_static("/")).into();
    let headers = request.headers_mut();
    headers.entry(HOST).or_insert(host);
    headers
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(AGENT));
    if let Some(trace) = TraceContext::current() {
        for (name, value) in trace.headers() {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.entry(HeaderName::from_static(name)).or_insert(value);
            }
        }
    }
    Ok(request)
}

/// Classifies an error of a connection that was established.
fn classify(error: ConnectionError) -> UpstreamError {
    match error {
        ConnectionError::Head => UpstreamError::Unreadable("its head is not http, or too large"),
        ConnectionError::Request(error) => UpstreamError::Broken(Some(error.into())),
        ConnectionError::Socket(error) => UpstreamError::Broken(Some(error.into())),
    }
}
