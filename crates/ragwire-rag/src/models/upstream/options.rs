//! Where a server is, what it understands, and how much of it is taken. It connects to nothing.

use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::error::UpstreamError;
use super::key::ApiKey;
use super::retry::Retry;

/// Which fields a server knows beside those that all of them do. An unknown field is refused by some and passed over by others, so nothing is
/// sent on a guess: what a dialect has no field for is [`Unsupported`](crate::models::ModelError::Unsupported).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// What every server of this protocol takes, Ollama, TGI, SGLang, LM Studio and gateways among them: `max_tokens`, `temperature`, `top_p`, `seed`,
    /// `stop`, and `response_format` for JSON. No grammars, no `top_k`, `min_p` or repeat penalty: there the server's own settings hold.
    #[default]
    Plain,
    /// OpenAI itself: as [`Plain`](Self::Plain), with `max_completion_tokens`, since its newer models refuse `max_tokens`, and at most 4 stop texts.
    OpenAi,
    /// The reasoning models of OpenAI: as [`OpenAi`](Self::OpenAi), without `temperature` and `top_p`, which they refuse. How tokens are chosen is
    /// theirs to decide, so [`Sampling`](crate::models::Sampling) is passed over, but for the seed.
    OpenAiReasoning,
    /// llama.cpp's server: all of [`Sampling`](crate::models::Sampling), GBNF in the field `grammar`, and exact token counts (`/apply-template`
    /// and `/tokenize`).
    LlamaCpp,
    /// vLLM from 0.12 on: all of [`Sampling`](crate::models::Sampling), GBNF in `structured_outputs.grammar` (its backend `xgrammar` reads that),
    /// and exact token counts (`/tokenize`).
    Vllm,
    /// vLLM before 0.12, which took a grammar in `guided_grammar`.
    VllmGuided,
}

/// Bounds on what a server sends and is sent, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamLimits {
    /// Largest body of a request.
    pub request: usize,
    /// Largest line and largest event of a stream.
    pub event: usize,
    /// Longest text of an answer.
    pub text: usize,
    /// Largest body that comes in one piece: an answer of a server that does not stream, vectors, token counts.
    pub body: usize,
}

impl UpstreamLimits {
    /// 16 MiB: a million tokens of text, escaped.
    pub const REQUEST: usize = 16 << 20;
    /// As much as an event of our own streams.
    pub const EVENT: usize = 1024 * 1024;
    /// 4 MiB: a million tokens. What is longer is a model that does not stop.
    pub const TEXT: usize = 4 << 20;
    /// 32 MiB: 64 vectors of 4,096 numbers, each of 20 digits, six times.
    pub const BODY: usize = 32 << 20;
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self {
            request: Self::REQUEST,
            event: Self::EVENT,
            text: Self::TEXT,
            body: Self::BODY,
        }
    }
}

/// How long a server is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamTimeouts {
    /// One attempt to connect. It counts as not reached, and is tried again.
    pub connect: Duration,
    /// From a request to the first event of its answer: the head alone, comments and keep-alives are none.
    pub first: Duration,
    /// Between two events.
    pub idle: Duration,
    /// The whole, with all attempts and the time that the reader of the generation takes.
    pub total: Duration,
}

impl UpstreamTimeouts {
    /// 5 seconds: a TCP connection around the world takes half of one.
    pub const CONNECT: Duration = Duration::from_secs(5);
    /// 2 minutes: a local server loads its model, or reads a long prompt on a CPU, before it says anything.
    pub const FIRST: Duration = Duration::from_secs(120);
    /// 1 minute: the slowest model that anybody reads writes a token each second.
    pub const IDLE: Duration = Duration::from_secs(60);
    /// 10 minutes: as a turn.
    pub const TOTAL: Duration = Duration::from_secs(600);
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Self::CONNECT,
            first: Self::FIRST,
            idle: Self::IDLE,
            total: Self::TOTAL,
        }
    }
}

/// Where a server is, and how it is asked.
#[derive(Debug, Clone)]
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
}

impl UpstreamOptions {
    /// Tokens of a context where nobody says more: what servers give a model without being told.
    pub const CONTEXT_TOKENS: u32 = 8_192;
    /// Bytes of text that an estimate takes for one token. English has four, program text three, Chinese two to three; text without words (digits,
    /// base64) and scripts that the model has hardly seen have less, down to one.
    pub const BYTES_PER_TOKEN: u32 = 2;

    /// A server whose routes are below `base` (`http://127.0.0.1:8000/v1`, `https://api.openai.com/v1`), and the name it has for the model.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Url`] where it is no plain `http://` or `https://` address: no user and password (a key goes to [`key`](Self::key)), no
    /// query, no fragment. [`UpstreamError::Setting`] where the model has no name.
    pub fn new(base: &str, model: impl Into<String>) -> Result<Self, UpstreamError> {
        let model = model.into();
        if model.trim().is_empty() {
            return Err(UpstreamError::Setting("the model has no name"));
        }
        Ok(Self {
            base: Base::new(base)?,
            model,
            key: None,
            dialect: Dialect::default(),
            context_tokens: Self::CONTEXT_TOKENS,
            bytes_per_token: Self::BYTES_PER_TOKEN,
            limits: UpstreamLimits::default(),
            timeouts: UpstreamTimeouts::default(),
            retry: Retry::default(),
            roots: None,
        })
    }

    /// Sets the key, which is sent as `Authorization: Bearer …`. Over `http://` everybody on the way can read it.
    #[must_use]
    pub fn key(mut self, key: ApiKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets which fields the server knows.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets the tokens that prompt and answer may have together; at least 1.
    #[must_use]
    pub fn context_tokens(mut self, tokens: u32) -> Self {
        self.context_tokens = tokens.max(1);
        self
    }

    /// Sets how many bytes of text are estimated as one token, where the server does not count; 1 is never too few for a vocabulary of bytes.
    #[must_use]
    pub fn bytes_per_token(mut self, bytes: u32) -> Self {
        self.bytes_per_token = bytes.max(1);
        self
    }

    /// Sets the bounds on what is sent and read.
    #[must_use]
    pub fn limits(mut self, limits: UpstreamLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long the server is waited for.
    #[must_use]
    pub fn timeouts(mut self, timeouts: UpstreamTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets how often and when it is asked again.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Trusts the certificate authorities of a PEM file, and no others, for `https://`. Otherwise Mozilla's list is trusted as it was when this
    /// crate was built; the system's store is not read.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Certificates`]
    pub fn root_certificates(mut self, pem: &[u8]) -> Result<Self, UpstreamError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| UpstreamError::Certificates("they are no pem"))?;
            roots
                .add(certificate)
                .map_err(|_| UpstreamError::Certificates("one is no certificate"))?;
        }
        if roots.is_empty() {
            return Err(UpstreamError::Certificates("there are none"));
        }
        self.roots = Some(roots);
        Ok(self)
    }
}

/// The address that all routes are below, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base(String);

impl Base {
    fn new(text: &str) -> Result<Self, UpstreamError> {
        let text = text.trim().trim_end_matches('/');
        // `http::Uri` drops a fragment without a word.
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
            return Err(UpstreamError::Url("a user or a password stands in it"));
        }
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(UpstreamError::Url("it has no host"));
        }
        // `http::Uri` takes any digits behind the colon.
        if authority.len() > host.len() && uri.port_u16().is_none() {
            return Err(UpstreamError::Url("its port is none"));
        }
        Ok(Self(text.to_owned()))
    }

    /// A route below it.
    pub(super) fn route(&self, path: &str) -> Result<Uri, UpstreamError> {
        let whole = format!("{}{path}", self.0);
        whole
            .parse()
            .map_err(|_| UpstreamError::Url("write http://host:port/v1 or https://host/v1"))
    }

    /// A route beside `/v1`, where llama.cpp and vLLM have those that OpenAI does not.
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
    fn certificates_that_are_none() {
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
