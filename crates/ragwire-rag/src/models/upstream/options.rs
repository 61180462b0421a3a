//! Where a server is, what it supports, and its limits and timeouts. Nothing here connects to it.

use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::error::UpstreamError;
use super::key::ApiKey;
use super::retry::Retry;

/// The request fields that a server supports in addition to the common ones. Servers reject or
/// ignore unknown fields, so only the dialect's fields are sent. A setting without a field fails
/// with [`Unsupported`](crate::models::ModelError::Unsupported).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// The fields of every server with this protocol, including Ollama, TGI, SGLang, LM Studio and
    /// gateways: `max_tokens`, `temperature`, `top_p`, `seed`, `stop`, and `response_format` for
    /// JSON. For `top_k`, `min_p` and the repeat penalty the server's own settings apply.
    #[default]
    Plain,
    /// OpenAI: as [`Plain`](Self::Plain), with `max_completion_tokens`, because its newer models
    /// refuse `max_tokens`, and with at most 4 stop texts.
    OpenAi,
    /// OpenAI's reasoning models: as [`OpenAi`](Self::OpenAi), without `temperature` and `top_p`,
    /// which they refuse. They choose tokens on their own, so [`Sampling`](crate::models::Sampling)
    /// is ignored except for the seed.
    OpenAiReasoning,
    /// llama.cpp's server: all of [`Sampling`](crate::models::Sampling), and exact token counts
    /// (`/apply-template` and `/tokenize`).
    LlamaCpp,
    /// vLLM: all of [`Sampling`](crate::models::Sampling), and exact token counts (`/tokenize`).
    Vllm,
}

/// Limits on what is sent to a server and read from it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamLimits {
    /// Largest body of a request. Default: 16 MiB, a million tokens of escaped text.
    pub request: usize,
    /// Largest line and largest event of a stream. Default: 1 MiB, the limit of this crate's own
    /// streams.
    pub event: usize,
    /// Longest text of an answer. Default: 4 MiB, a million tokens: a longer answer comes from a
    /// model that does not stop.
    pub text: usize,
    /// Largest body that comes in one piece: an answer of a server that does not stream, vectors,
    /// token counts. Default: 32 MiB, six times 64 vectors of 4,096 numbers with 20 digits each.
    pub body: usize,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self {
            request: 16 << 20,
            event: 1 << 20,
            text: 4 << 20,
            body: 32 << 20,
        }
    }
}

/// How long to wait for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamTimeouts {
    /// One attempt to connect. A timeout counts as unreachable and is retried. Default: 5 seconds;
    /// a TCP connection around the world takes half a second.
    pub connect: Duration,
    /// From the request to the first event of its answer; the head alone, comments and keep-alives
    /// do not count. Default: 2 minutes, because a local server loads its model, or reads a long
    /// prompt on a CPU, before it responds.
    pub first: Duration,
    /// Between two events. Default: 1 minute; the slowest usable model writes a token each second.
    pub idle: Duration,
    /// The whole request, including all attempts and the time that the reader of the generation
    /// takes. Default: 10 minutes, as for a turn.
    pub total: Duration,
    /// The embedding of one question, or the ranking of its passages, with all attempts. Default: 30
    /// seconds, because a turn waits for it and can continue without it; a CPU ranks 20 passages in
    /// ten.
    pub search: Duration,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(600),
            search: Duration::from_secs(30),
        }
    }
}

/// Where a server is, and how requests are made.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    pub(super) base: Base,
    pub(super) model: String,
    pub(super) key: Option<ApiKey>,
    pub(super) dialect: Dialect,
    pub(super) context_tokens: u32,
    pub(super) bytes_per_token: u32,
    pub(super) limits: UpstreamLimits,
    pub(super) timeouts: UpstreamTimeouts,
    pub(super) retry: Retry,
    pub(super) roots: Option<RootCertStore>,
    /// Whether the server is TEI, whose own routes truncate texts.
    pub(super) is_tei: bool,
    pub(super) error_messages: bool,
}

impl UpstreamOptions {
    /// Default number of tokens that prompt and answer may have together: what the evidence for one
    /// answer needs.
    pub const CONTEXT_TOKENS: u32 = 8_192;

    /// Options for the server with the routes below `base` (`http://127.0.0.1:8000/v1`,
    /// `https://api.openai.com/v1`), and its name for the model.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Url`] if `base` is not a plain `http://` or `https://` address: user and
    /// password (a key goes to [`key`](Self::key)), query and fragment are not allowed.
    /// [`UpstreamError::Setting`] if the model's name is empty.
    pub fn new(base: &str, model: impl Into<String>) -> Result<Self, UpstreamError> {
        let model = model.into();
        if model.trim().is_empty() {
            return Err(UpstreamError::Setting("the model has no name"));
        }
        let mut options = Self::unnamed(base)?;
        options.model = model;
        Ok(options)
    }

    /// Options for the server with the routes below `base`, whose model is found by
    /// [`discover`](Self::discover).
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Url`] as for [`new`](Self::new).
    pub fn unnamed(base: &str) -> Result<Self, UpstreamError> {
        Ok(Self {
            base: Base::new(base)?,
            model: String::new(),
            key: None,
            dialect: Dialect::default(),
            context_tokens: Self::CONTEXT_TOKENS,
            bytes_per_token: 2,
            limits: UpstreamLimits::default(),
            timeouts: UpstreamTimeouts::default(),
            retry: Retry::default(),
            roots: None,
            is_tei: false,
            error_messages: true,
        })
    }

    /// Sets the name of the model.
    #[must_use]
    pub fn named(mut self, model: &str) -> Self {
        model.clone_into(&mut self.model);
        self
    }

    /// Returns the name of the model; empty if it is not found yet.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Sets the key, which is sent as `Authorization: Bearer …`. With `http://`, anyone on the
    /// network path can read it.
    #[must_use]
    pub fn key(mut self, key: ApiKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets whether errors contain the server's own message. Default: yes, shortened and without the
    /// key. Some servers quote the prompt in it, and errors go to the log; without the message an
    /// error has the server's words for its type and its code.
    #[must_use]
    pub fn error_messages(mut self, shown: bool) -> Self {
        self.error_messages = shown;
        self
    }

    /// Sets the request fields that the server supports. Default: [`Dialect::Plain`].
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets the number of tokens that prompt and answer may have together; at least 1. Default:
    /// 8,192.
    #[must_use]
    pub fn context_tokens(mut self, tokens: u32) -> Self {
        self.context_tokens = tokens.max(1);
        self
    }

    /// Sets how many bytes of text are estimated as one token if the server does not count; at
    /// least 1. Default: 2. English has four bytes per token, program text three, Chinese two to
    /// three; text without words (digits, base64) and scripts that the model hardly knows have
    /// fewer, down to one.
    #[must_use]
    pub fn bytes_per_token(mut self, bytes: u32) -> Self {
        self.bytes_per_token = bytes.max(1);
        self
    }

    /// Sets the limits on what is sent and read.
    #[must_use]
    pub fn limits(mut self, limits: UpstreamLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long to wait for the server.
    #[must_use]
    pub fn timeouts(mut self, timeouts: UpstreamTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets how often and when a request is repeated.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Trusts the certificate authorities of a PEM file, and no others, for `https://`. By default
    /// Mozilla's list is trusted, as of the build of this crate; the system's store is not read.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Certificates`] if the file contains no valid certificate.
    pub fn root_certificates(mut self, pem: &[u8]) -> Result<Self, UpstreamError> {
        self.roots = Some(root_certificates(pem)?);
        Ok(self)
    }
}

/// Reads the certificate authorities of a PEM file.
pub(super) fn root_certificates(pem: &[u8]) -> Result<RootCertStore, UpstreamError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| UpstreamError::Certificates("the file is not pem"))?;
        roots
            .add(certificate)
            .map_err(|_| UpstreamError::Certificates("an entry is not a certificate"))?;
    }
    if roots.is_empty() {
        return Err(UpstreamError::Certificates("the file has no certificates"));
    }
    Ok(roots)
}

/// Parses the address of a server: `http://` or `https://`, without user, query and fragment.
///
/// # Errors
///
/// [`UpstreamError::Url`], which does not repeat the address.
pub fn parse_address(text: &str) -> Result<Uri, UpstreamError> {
    // `http::Uri` silently drops a fragment.
    if text.contains(['#', '?']) {
        return Err(UpstreamError::Url("it has a query or a fragment"));
    }
    let uri: Uri = text
        .parse()
        .map_err(|_| UpstreamError::Url("write http://host:port/v1 or https://host/v1"))?;
    if ![Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&uri.scheme()) {
        return Err(UpstreamError::Url("write http://host:port/v1 or https://host/v1"));
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err(UpstreamError::Url(
            "it contains a user or a password; a key belongs in its own setting",
        ));
    }
    let host = uri.host().unwrap_or_default();
    if host.is_empty() {
        return Err(UpstreamError::Url("it has no host"));
    }
    // `http::Uri` accepts any digits after the colon.
    if authority.len() > host.len() && uri.port_u16().is_none() {
        return Err(UpstreamError::Url("its port is not a number up to 65535"));
    }
    Ok(uri)
}

/// The address of the routes, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base(String);

impl Base {
    fn new(text: &str) -> Result<Self, UpstreamError> {
        let text = text.trim().trim_end_matches('/');
        parse_address(text)?;
        Ok(Self(text.to_owned()))
    }

    /// A route below the address.
    pub(super) fn route(&self, path: &str) -> Result<Uri, UpstreamError> {
        let whole = format!("{}{path}", self.0);
        whole
            .parse()
            .map_err(|_| UpstreamError::Url("write http://host:port/v1 or https://host/v1"))
    }

    /// The addresses that users write for this server: itself, and with `/v1` if that is missing.
    pub(super) fn candidates(&self) -> Vec<Self> {
        let mut candidates = vec![self.clone()];
        if !self.is_versioned() {
            candidates.push(Self(format!("{}/v1", self.0)));
        }
        candidates
    }

    /// Returns whether the address ends with `/v1`, `/v2` and so on.
    pub(super) fn is_versioned(&self) -> bool {
        let last = self.0.rsplit('/').next().unwrap_or_default();
        let version = last.strip_prefix('v');
        version
            .is_some_and(|version| !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Returns whether the address is that of one route.
    pub(super) fn ends_with(&self, route: &str) -> bool {
        self.0.ends_with(route)
    }

    /// A route beside `/v1`, where llama.cpp and vLLM have their own routes.
    pub(super) fn beside(&self, path: &str) -> Result<Uri, UpstreamError> {
        let root = self.0.strip_suffix("/v1").unwrap_or(&self.0);
        Self(root.to_owned()).route(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, chat, tokenize) in [
            (
                "http://127.0.0.1:8000/v1",
                "http://127.0.0.1:8000/v1/x",
                "http://127.0.0.1:8000/y",
            ),
            (
                " https://api.openai.com/v1// ",
                "https://api.openai.com/v1/x",
                "https://api.openai.com/y",
            ),
            ("http://[::1]:1", "http://[::1]:1/x", "http://[::1]:1/y"),
            (
                "https://a/openai/v1",
                "https://a/openai/v1/x",
                "https://a/openai/y",
            ),
        ] {
            let base = Base::new(text).unwrap();
            assert_eq!(
                (
                    base.route("/x").unwrap().to_string(),
                    base.beside("/y").unwrap().to_string()
                ),
                (chat.into(), tokenize.into())
            );
        }
        for text in [
            "",
            "localhost:8000/v1",
            "/v1",
            "ftp://a/v1",
            "http://",
            "http:///v1",
            "http://a:99999/v1",
            "http://a:/v1",
            "http://:1/v1",
            "http://u:s3cret@a/v1",
            "http://s3cret@a/v1",
            "http://a/v1?k=s3cret",
            "http://a/v1#s3cret",
            "http://a b/v1",
            "http://a/v1\nx",
            "unix:/a",
        ] {
            let error = UpstreamOptions::new(text, "m").unwrap_err();
            assert_eq!(error.code(), "upstream_url", "{text}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{text}");
        }
        assert_eq!(
            UpstreamOptions::new("http://a", " ").unwrap_err().code(),
            "upstream_setting"
        );
    }

    #[test]
    fn invalid_certificates_are_refused() {
        for pem in [
            "",
            "no pem",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let options = UpstreamOptions::new("https://a/v1", "m").unwrap();
            assert_eq!(
                options.root_certificates(pem.as_bytes()).unwrap_err().code(),
                "upstream_certificates",
                "{pem}"
            );
        }
    }
}
