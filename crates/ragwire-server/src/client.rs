//! The HTTP client of the commands that talk to a running server: `ask`, `documents`, `sessions`,
//! `health`, `eval`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{
    ACCEPT, CONNECTION, CONTENT_TYPE, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::settings::Settings;
use crate::settings::values::BadValue;
use crate::tls::certificates;

/// Largest response that is not streamed, and largest error: 16 MiB.
const MAX_BODY_BYTES: usize = 16 << 20;
/// The type of questions, and of answers in one piece.
pub(crate) const JSON: &str = "application/json";

/// A request without a usable response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server cannot be reached.
    #[error("cannot reach {server}: {reason}; {}", fix(server, reason))]
    Unreachable {
        /// Its address.
        server: String,
        /// The cause.
        reason: String,
    },
    /// The file of `--ca` cannot be used.
    #[error("ca {}: {reason}", file.display())]
    Authorities {
        /// The file.
        file: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The server refused the request.
    #[error("{message} ({status}, {code})")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The code of the refusal.
        code: String,
        /// The message of the refusal.
        message: String,
    },
    /// The connection closed before the end of the response.
    #[error("the connection closed early: the answer is incomplete")]
    Truncated,
}

/// Returns what to do about a server that cannot be reached.
fn fix(server: &str, reason: &str) -> String {
    match server.split_once("://") {
        // rustls and hyper say so of an answer in the other protocol.
        Some(("https", rest)) if reason.contains("InvalidContentType") => {
            format!("it does not speak TLS: write --server http://{rest}")
        }
        Some(("http", rest)) if reason.contains("invalid HTTP version") => {
            format!("it may speak TLS: write --server https://{rest}")
        }
        _ => "is it running, and is --server its address?".to_owned(),
    }
}

/// Which server a command asks.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServerFlags {
    /// The server's address, http:// unless it says https:// [default: http://127.0.0.1:8787]
    #[arg(long, value_name = "URL", global = true)]
    server: Option<Server>,
    /// A header of each request, such as `x-user: ada`; may be repeated. Set RAGWIRE_HEADER if it
    /// holds a password, because other users of the machine can see flags
    #[arg(long, value_name = "NAME: VALUE", global = true)]
    header: Vec<RequestHeader>,
    /// PEM file of the certificate authorities to trust for https, instead of Mozilla's list
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
}

impl ServerFlags {
    /// Fills missing flags from the environment.
    #[must_use]
    pub fn over(mut self, environment: Self) -> Self {
        self.server = self.server.or(environment.server);
        if self.header.is_empty() {
            self.header = environment.header;
        }
        self.ca = self.ca.or(environment.ca);
        self
    }

    /// Returns the server, by default the one on this machine.
    pub(crate) fn server(&self) -> Server {
        let mut server = self.server.clone().unwrap_or_default();
        for RequestHeader { name, value } in &self.header {
            server.headers.append(name, value.clone());
        }
        server.authorities.clone_from(&self.ca);
        server
    }
}

/// A header of every request: `x-user: ada`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    name: HeaderName,
    value: HeaderValue,
}

impl FromStr for RequestHeader {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let parts = text.split_once(':').and_then(|(name, value)| {
            let name = name.trim().parse().ok()?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            // It is not printed with the request.
            value.set_sensitive(true);
            Some(Self { name, value })
        });
        parts.ok_or_else(|| BadValue::new("a header has a name and a value; write 'x-user: ada'".to_owned()))
    }
}

/// A server, and the headers of requests to it.
///
/// The address is `http://` or `https://`, a host and a port, without a trailing slash. Without a
/// scheme it is HTTP, as for `127.0.0.1:8787`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    base: String,
    headers: HeaderMap,
    /// A PEM file; `None` trusts Mozilla's list.
    authorities: Option<PathBuf>,
}

impl Default for Server {
    /// The address that a server listens on by default.
    fn default() -> Self {
        Self::at(format!("http://{}", Settings::default().listen))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.fmt(f)
    }
}

impl FromStr for Server {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || {
            BadValue::new(format!(
                "`{text}` is not the address of a server; write http://127.0.0.1:8787, https://example.com or \
                 127.0.0.1:8787"
            ))
        };
        let text = text.trim();
        let base = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let base = base.trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|_| bad())?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(Self::at(base)),
            _ => Err(bad()),
        }
    }
}

impl Server {
    fn at(base: String) -> Self {
        Self {
            base,
            headers: HeaderMap::new(),
            authorities: None,
        }
    }

    /// Sends a request without a body. Any status except a success is an error.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
    ) -> Result<Response<Incoming>, ClientError> {
        self.send(method, path, JSON, None).await
    }

    /// Sends JSON and accepts `accept`. Any status except a success is an error.
    pub(crate) async fn post(
        &self,
        path: &str,
        accept: &'static str,
        body: &Value,
    ) -> Result<Response<Incoming>, ClientError> {
        let body = Bytes::from(body.to_string());
        self.send(Method::POST, path, accept, Some((JSON, body))).await
    }

    /// Sends a request with a body of this type.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::builder().method(method).uri(format!("{self}{path}"));
        let body = match body {
            Some((kind, bytes)) => {
                request = request.header(CONTENT_TYPE, HeaderValue::from_static(kind));
                Full::new(bytes)
            }
            None => Full::default(),
        };
        let response = self
            .answer(request.header(ACCEPT, HeaderValue::from_static(accept)), body)
            .await?;
        if !response.status().is_success() {
            return Err(refused(response, "the server refused the request").await);
        }
        Ok(response)
    }

    /// Opens a WebSocket.
    pub(crate) async fn socket(&self, path: &str) -> Result<Socket, ClientError> {
        let key = generate_key();
        let request = Request::get(format!("{self}{path}"))
            .header(CONNECTION, HeaderValue::from_static("upgrade"))
            .header(UPGRADE, HeaderValue::from_static("websocket"))
            .header(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))
            .header(SEC_WEBSOCKET_KEY, &key);
        let mut response = self.answer(request, Full::default()).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(response, "the server refused the socket").await);
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|accepted| accepted != derive_accept_key(key.as_bytes()).as_str()) {
            return Err(self.unreachable("it does not speak WebSocket".to_owned()));
        }
        let upgraded = hyper::upgrade::on(&mut response).await;
        let upgraded = upgraded.map_err(|error| self.unreachable(innermost(&error)))?;
        Ok(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await)
    }

    /// Sends a request with the headers of every request. Returns an answer of any status.
    async fn answer(
        &self,
        request: http::request::Builder,
        body: Full<Bytes>,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = request.body(body);
        let mut request = request.map_err(|error| self.unreachable(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        let answered = client(self.authorities.as_deref())?.request(request).await;
        answered.map_err(|error| self.unreachable(innermost(&error)))
    }

    fn unreachable(&self, reason: String) -> ClientError {
        ClientError::Unreachable {
            server: self.to_string(),
            reason,
        }
    }
}

/// A WebSocket, encrypted or not.
pub(crate) type Socket = WebSocketStream<TokioIo<Upgraded>>;

type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The client of this process. A command names one file of authorities at most, so the first one
/// counts.
fn client(authorities: Option<&Path>) -> Result<&'static HttpsClient, ClientError> {
    static CLIENT: OnceLock<HttpsClient> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    // ring supports the default versions of TLS, so this cannot fail.
    let config = versions.unwrap_or_else(|_| unreachable!("ring supports TLS 1.2 and 1.3"));
    let config = match authorities {
        Some(file) => config.with_root_certificates(read_authorities(file)?),
        None => config.with_webpki_roots(),
    };
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config.with_no_client_auth())
        .https_or_http()
        .enable_http1()
        .build();
    Ok(CLIENT.get_or_init(|| Client::builder(TokioExecutor::new()).build(connector)))
}

fn read_authorities(file: &Path) -> Result<RootCertStore, ClientError> {
    let bad = |reason: String| ClientError::Authorities {
        file: file.to_owned(),
        reason,
    };
    let pem = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
    let certificates = certificates(&pem).filter(|certificates| !certificates.is_empty());
    let certificates =
        certificates.ok_or_else(|| bad("the file has no certificate in PEM format".to_owned()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    Ok(roots)
}

/// Reads the JSON of a response in one piece.
pub(crate) async fn json<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, ClientError> {
    let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
    let bytes = body.map_err(|_| ClientError::Truncated)?.to_bytes();
    serde_json::from_slice(&bytes).map_err(|_| ClientError::Truncated)
}

/// Reads a refusal, with `otherwise` in place of a message that it lacks.
async fn refused(response: Response<Incoming>, otherwise: &str) -> ClientError {
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let member = |name: &str, probe: &str, otherwise: &str| {
        let found = body["error"][name].as_str().or_else(|| body[probe].as_str());
        found.unwrap_or(otherwise).to_owned()
    };
    ClientError::Refused {
        status,
        // The probes, such as `/healthz`, have these members at the top.
        code: member("code", "status", "unknown"),
        message: member("message", "message", otherwise),
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Percent-encodes one segment of a path.
pub(crate) fn segment(id: &str) -> String {
    percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%2D", "-")
        .replace("%2E", ".")
        .replace("%5F", "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_name_and_a_value_that_is_not_printed() {
        let header: RequestHeader = "X-User:  ada : b".parse().unwrap();
        assert_eq!(
            (header.name.as_str(), header.value.to_str().unwrap()),
            ("x-user", "ada : b")
        );
        assert!(!format!("{header:?}").contains("ada"));
        for text in ["", "x-user", ": ada", "x user: ada", "x-user: a\nb"] {
            let error = text.parse::<RequestHeader>().unwrap_err().to_string();
            assert!(error.contains("write 'x-user: ada'"), "{error}");
        }
    }

    #[test]
    fn an_address_needs_no_scheme() {
        for (text, server) in [
            ("127.0.0.1:9101", "http://127.0.0.1:9101"),
            ("localhost", "http://localhost"),
            ("https://a.example/", "https://a.example"),
            ("http://[::1]:80/prefix/", "http://[::1]:80/prefix"),
        ] {
            assert_eq!(text.parse::<Server>().unwrap().to_string(), server);
        }
        for text in ["", "ftp://a", "http://", "a b", "https:///x"] {
            let error = text.parse::<Server>().unwrap_err().to_string();
            assert!(
                error.contains(text) && error.contains("127.0.0.1:8787"),
                "{error}"
            );
        }
    }
}
