//! The errors of a server, and their conversion to the error that a pipeline sees.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use ragwire::FailureKind;

use crate::models::ModelError;

/// What a timeout was waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// The first event of the answer, [`UpstreamTimeouts::first`](super::UpstreamTimeouts::first).
    First,
    /// The next event, [`UpstreamTimeouts::idle`](super::UpstreamTimeouts::idle).
    Idle,
    /// The end, [`UpstreamTimeouts::total`](super::UpstreamTimeouts::total).
    Total,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "begin to answer",
            Self::Idle => "continue",
            Self::Total => "end its answer",
        })
    }
}

/// Why a request to a server failed. It is the source of a [`ModelError`], for logs; it never
/// contains the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// The address is not valid.
    #[error("the url of the server is not valid: {0}")]
    Url(&'static str),
    /// The API key cannot be used in a header.
    #[error("the api key is not valid: {0}")]
    Key(&'static str),
    /// Another setting is out of range.
    #[error("invalid setting: {0}")]
    Setting(&'static str),
    /// The root certificates are not valid.
    #[error("the root certificates are not valid: {0}")]
    Certificates(&'static str),
    /// The server does not accept connections.
    #[error("cannot connect to the server")]
    Connect(#[source] Box<dyn Error + Send + Sync>),
    /// The server took too long.
    #[error("the server did not {wait} within {after:?}")]
    Timeout {
        /// The awaited event.
        wait: Wait,
        /// The timeout.
        after: Duration,
    },
    /// The connection broke, or ended before the answer did.
    #[error("the answer broke off")]
    Broken(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// The status of the response is not a success.
    #[error("the server answered {status}: {message}")]
    Refused {
        /// The status.
        status: u16,
        /// The server's message, shortened; `no reason` if it cannot be read.
        message: String,
        /// Whether the account's quota is exhausted, so that retrying is useless.
        exhausted: bool,
    },
    /// The server reported that prompt and answer do not fit the context.
    #[error("the server says that the prompt is too long")]
    Overflow {
        /// Tokens of the prompt, if reported.
        prompt: Option<u32>,
        /// Tokens of the context, if reported.
        context: Option<u32>,
    },
    /// The server reported an error within its stream.
    #[error("the server failed in the middle: {message}")]
    Reported {
        /// The server's message.
        message: String,
        /// The status in the message, if any.
        status: Option<u16>,
    },
    /// The response violates the protocol.
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(&'static str),
    /// The answer ended for a reason that leaves no complete text: `content_filter`, `tool_calls`
    /// (no tools are offered), `refusal`, or an unknown one.
    #[error("the answer ended with `{0}`")]
    Ended(String),
    /// A limit was exceeded.
    #[error("{what} has more than {limit} bytes")]
    TooLarge {
        /// The value that is too large.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
}

impl UpstreamError {
    /// Returns a stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url(_) => "upstream_url",
            Self::Key(_) => "upstream_key",
            Self::Setting(_) => "upstream_setting",
            Self::Certificates(_) => "upstream_certificates",
            Self::Connect(_) => "upstream_unreachable",
            Self::Timeout { .. } => "upstream_timeout",
            Self::Broken(_) => "upstream_broken",
            Self::Refused { .. } => "upstream_refused",
            Self::Overflow { .. } => "upstream_overflow",
            Self::Reported { .. } => "upstream_error",
            Self::Unreadable(_) => "upstream_unreadable",
            Self::Ended(_) => "upstream_ended",
            Self::TooLarge { .. } => "upstream_too_large",
        }
    }

    /// Returns the failure of a turn whose orchestrator is this server.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Connect(_) | Self::Url(_) | Self::Key(_) | Self::Setting(_) | Self::Certificates(_) => {
                FailureKind::UpstreamUnreachable
            }
            Self::Timeout { .. } => FailureKind::UpstreamTimeout,
            Self::Broken(_) => FailureKind::UpstreamTruncated,
            Self::Refused { .. } | Self::Overflow { .. } | Self::Reported { .. } => {
                FailureKind::UpstreamRefused
            }
            Self::TooLarge { .. } => FailureKind::UpstreamTooLarge,
            Self::Unreadable(_) | Self::Ended(_) => FailureKind::UpstreamUnreadable,
        }
    }

    /// Returns `true` if a retry may help. A server that is too slow is not asked again: it would
    /// have to do the same work twice.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Broken(_) => true,
            Self::Refused {
                status, exhausted, ..
            } => is_transient(*status) && !exhausted,
            Self::Reported { status, .. } => status.is_none_or(is_transient),
            Self::Url(_)
            | Self::Key(_)
            | Self::Setting(_)
            | Self::Certificates(_)
            | Self::Timeout { .. }
            | Self::Overflow { .. }
            | Self::Unreadable(_)
            | Self::Ended(_)
            | Self::TooLarge { .. } => false,
        }
    }

    /// Converts the error to the one that a pipeline sees. `begun` is `true` if part of the answer
    /// was already read.
    pub(super) fn into_model_error(self, begun: bool, request: &RequestSize) -> ModelError {
        if begun {
            return ModelError::Failed(Box::new(self));
        }
        match self {
            Self::Refused {
                status: 429,
                exhausted: false,
                ..
            } => ModelError::Busy,
            Self::Refused {
                status: 400 | 413 | 422,
                ..
            } => ModelError::Failed(Box::new(self)),
            Self::Refused {
                status: 401 | 403 | 404 | 405,
                ..
            } => ModelError::Rejected(Box::new(self)),
            Self::Overflow { prompt, context } => ModelError::Overflow {
                prompt: prompt.unwrap_or(request.prompt_tokens),
                limit: context
                    .unwrap_or(request.context_tokens)
                    .saturating_sub(request.max_tokens),
            },
            Self::Connect(_)
            | Self::Timeout { .. }
            | Self::Broken(_)
            | Self::Refused { .. }
            | Self::Url(_)
            | Self::Key(_)
            | Self::Setting(_)
            | Self::Certificates(_) => ModelError::Unavailable(Some(Box::new(self))),
            Self::Reported { .. } | Self::Unreadable(_) | Self::Ended(_) | Self::TooLarge { .. } => {
                ModelError::Failed(Box::new(self))
            }
        }
    }
}

/// The size of a request, for a server that does not report it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSize {
    /// Estimated.
    pub(super) prompt_tokens: u32,
    pub(super) max_tokens: u32,
    pub(super) context_tokens: u32,
}

impl RequestSize {
    /// A request whose tokens are not estimated.
    pub(super) const UNKNOWN: Self = Self {
        prompt_tokens: 0,
        max_tokens: 0,
        context_tokens: 0,
    };
}

/// Returns `true` for 408 and 429, and for those 5xx that a gateway or a starting server sends.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}
