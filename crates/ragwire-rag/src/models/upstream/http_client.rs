//! The HTTP client of this crate, which other programs may share: connections, TLS, and the errors
//! of a request without a response.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;

use super::error::UpstreamError;
use super::options::root_certificates;

/// Size of the largest head of a response, and of a read: gateways add cookies and policies. Four
/// times the limit of hyper's own server.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Number of headers at most; hyper's default.
const MAX_HEADERS: usize = 100;
/// How long an idle connection is kept. Node closes after 5 seconds, others later; the pool repeats
/// a request that meets the close.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// Number of idle connections at most: as many answers as a small server writes at a time.
const POOL_SIZE: usize = 8;
/// The value of `User-Agent`.
const AGENT: &str = concat!("ragwire/", env!("CARGO_PKG_VERSION"));

/// A client for `http://` and `https://` whose clones share connections.
///
/// HTTP/1.1 only, so that dropping an answer closes its connection, which every server notices. It
/// has no time limits except for connecting, and follows no redirects.
///
/// ```no_run
/// use std::time::Duration;
///
/// use bytes::Bytes;
/// use http::Request;
/// use http_body_util::Full;
/// use ragwire_rag::models::upstream::HttpClient;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = HttpClient::new(Duration::from_secs(5), None)?;
/// let request = Request::post("http://127.0.0.1:9000/ask").body(Full::new(Bytes::from("{}")))?;
/// let response = client.send(request).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct HttpClient {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
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
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_SIZE)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            .http1_max_headers(MAX_HEADERS)
            .build(connector);
        Ok(Self { http })
    }

    /// Sends a request and returns the head of its response, whatever its status.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Connect`], [`UpstreamError::Broken`], [`UpstreamError::Unreadable`].
    pub async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, UpstreamError> {
        request
            .headers_mut()
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(AGENT));
        self.http.request(request).await.map_err(classify)
    }
}

/// Classifies an error of a request without a response.
fn classify(error: legacy::Error) -> UpstreamError {
    if error.is_connect() {
        return UpstreamError::Connect(error.into());
    }
    let hyper = error
        .source()
        .and_then(|source| source.downcast_ref::<hyper::Error>());
    if hyper.is_some_and(hyper::Error::is_parse) {
        return UpstreamError::Unreadable("its head is not http, or too large");
    }
    UpstreamError::Broken(Some(error.into()))
}
