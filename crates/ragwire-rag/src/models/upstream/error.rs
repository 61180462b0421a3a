//! What goes wrong with a server, which of it passes, and what a pipeline is told. It sends and reads nothing.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::key::ApiKey;
use crate::models::ModelError;

/// Longest message of a server that is kept, in characters: the first sentences say it, the rest is a trace.
const MAX_MESSAGE_CHARS: usize = 300;

/// What was waited for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
            Self::Idle => "go on",
            Self::Total => "end its answer",
        })
    }
}

/// Why a server did not do what was asked. It stands behind a [`ModelError`] as its source, for logs; the words name no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// The address is none.
    #[error("the url of the server is not valid: {0}")]
    Url(&'static str),
    /// The API key cannot stand in a header.
    #[error("the api key is not valid: {0}")]
    Key(&'static str),
    /// Another setting is out of range.
    #[error("the setting cannot be used: {0}")]
    Setting(&'static str),
    /// The root certificates are none.
    #[error("the root certificates are not valid: {0}")]
    Certificates(&'static str),
    /// Nobody answers there.
    #[error("the server was not reached")]
    Connect(#[source] Box<dyn Error + Send + Sync>),
    /// It took too long.
    #[error("the server did not {wait} within {after:?}")]
    Timeout {
        /// What was waited for.
        wait: Wait,
        /// For how long.
        after: Duration,
    },
    /// The connection broke, or ended before the answer did.
    #[error("the answer broke off")]
    Broken(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// The server answered with another status than success.
    #[error("the server answered {status}: {message}")]
    Refused {
        /// The status.
        status: u16,
        /// What it said of it, shortened; `no reason` where it said nothing that can be read.
        message: String,
        /// Whether it said that an account has nothing left, which no waiting changes.
        exhausted: bool,
    },
    /// The server said that prompt and answer do not fit.
    #[error("the server says that the prompt is too long")]
    Overflow {
        /// Tokens of the prompt, where it said so.
        prompt: Option<u32>,
        /// Tokens of the context, where it said so.
        context: Option<u32>,
    },
    /// The server reported an error in the middle of its stream.
    #[error("the server failed in the middle: {message}")]
    Reported {
        /// What it said.
        message: String,
        /// The status that it named.
        status: Option<u16>,
    },
    /// What came is not what the protocol says.
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(&'static str),
    /// The answer ended for a reason that leaves no whole text: `content_filter`, `tool_calls` (none are offered), `refusal`, an unknown one.
    #[error("the answer ended with `{0}`")]
    Ended(String),
    /// One of the limits.
    #[error("{what} has more than {limit} bytes")]
    TooLarge {
        /// What.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl UpstreamError {
    /// Stable machine word for this error.
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

    /// Whether asking again may help. A server that is too slow is not asked again: it would have to do the same work twice.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Broken(_) => true,
            Self::Refused {
                status, exhausted, ..
            } => is_passing(*status) && !exhausted,
            Self::Reported { status, .. } => status.is_none_or(is_passing),
            _ => false,
        }
    }

    /// What a pipeline is told. `begun`: some of the answer was read already.
    pub(super) fn told(self, begun: bool, asked: &Asked) -> ModelError {
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
            Self::Overflow { prompt, context } => ModelError::Overflow {
                prompt: prompt.unwrap_or(asked.prompt_tokens),
                limit: context
                    .unwrap_or(asked.context_tokens)
                    .saturating_sub(asked.max_tokens),
            },
            Self::Connect(_)
            | Self::Timeout { .. }
            | Self::Broken(_)
            | Self::Refused { .. }
            | Self::Url(_)
            | Self::Key(_)
            | Self::Setting(_)
            | Self::Certificates(_) => ModelError::Unavailable(Some(Box::new(self))),
            _ => ModelError::Failed(Box::new(self)),
        }
    }
}

/// What was asked for, for a server that does not repeat it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Estimated.
    pub(super) prompt_tokens: u32,
    pub(super) max_tokens: u32,
    pub(super) context_tokens: u32,
}

/// 408 and 429 by their meaning; of the 5xx those that a gateway or a server that starts sends.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// What a server says of an error, in whichever of the usual shapes: `{"error": {…}}` (OpenAI), `{"error": "…"}` (Ollama), `[{"error": {…}}]`
/// (Gemini), `{"message": …}` (vLLM), `{"detail": …}` (FastAPI).
#[derive(Debug, Default)]
pub(super) struct Said {
    message: Option<String>,
    kind: String,
    code: String,
    status: Option<u16>,
    prompt: Option<u32>,
    context: Option<u32>,
}

impl Said {
    pub(super) fn of(value: &Value, key: Option<&ApiKey>) -> Self {
        let value = value.get(0).unwrap_or(value);
        let object = value.get("error").unwrap_or(value);
        if let Value::String(message) = object {
            return Self {
                message: Some(shown(message, key)),
                ..Self::default()
            };
        }
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let number = |name: &str| object.get(name).and_then(Value::as_u64);
        let small = |name: &str| number(name).and_then(|number| u32::try_from(number).ok());
        let status = ["code", "http_status_code", "status_code", "status"];
        Self {
            message: text("message")
                .or_else(|| text("detail"))
                .map(|message| shown(message, key)),
            kind: text("type").unwrap_or_default().to_owned(),
            code: text("code").unwrap_or_default().to_owned(),
            status: status
                .into_iter()
                .find_map(number)
                .and_then(|status| u16::try_from(status).ok()),
            prompt: small("n_prompt_tokens"),
            context: small("n_ctx"),
        }
    }

    /// From the body of a response.
    pub(super) fn read(body: &[u8], key: Option<&ApiKey>) -> Self {
        serde_json::from_slice(body).map_or_else(|_| Self::default(), |value: Value| Self::of(&value, key))
    }

    /// OpenAI and llama.cpp have a word for it, vLLM only its sentence.
    fn overflow(&self) -> Option<UpstreamError> {
        let says = self.code == "context_length_exceeded"
            || self.kind == "exceed_context_size_error"
            || self
                .message
                .as_ref()
                .is_some_and(|message| message.contains("maximum context length"));
        says.then_some(UpstreamError::Overflow {
            prompt: self.prompt,
            context: self.context,
        })
    }

    /// As the reason of a status.
    pub(super) fn refusal(self, status: u16) -> UpstreamError {
        let overflow = self
            .overflow()
            .filter(|_| matches!(status, 400 | 413 | 422 | 500));
        overflow.unwrap_or_else(|| UpstreamError::Refused {
            status,
            exhausted: self.code == "insufficient_quota" || self.kind == "insufficient_quota",
            message: self.message.unwrap_or_else(|| "no reason".into()),
        })
    }

    /// As an event of a stream.
    pub(super) fn report(self) -> UpstreamError {
        let overflow = self.overflow();
        // Without a number, only this word tells that the request itself is at fault.
        let status = self
            .status
            .or_else(|| self.kind.contains("invalid_request").then_some(400));
        overflow.unwrap_or_else(|| UpstreamError::Reported {
            status,
            message: self.message.unwrap_or_else(|| "no reason".into()),
        })
    }
}

/// A stranger's words as they may stand in a log: short, on one line, and without the key, which some servers repeat.
fn shown(message: &str, key: Option<&ApiKey>) -> String {
    let message = key.map_or_else(|| message.to_owned(), |key| key.redact(message));
    message
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(MAX_MESSAGE_CHARS)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_shape_of_an_error_is_understood() {
        let key = ApiKey::new("sk-s3cret").unwrap();
        for (value, shown) in [
            (
                json!({"error": {"message": "a", "type": "b", "param": null, "code": null}}),
                "a",
            ),
            (json!({"error": "a"}), "a"),
            (
                json!([{"error": {"code": 500, "message": "a", "status": "INTERNAL"}}]),
                "a",
            ),
            (
                json!({"object": "error", "message": "a", "type": "BadRequestError", "code": 400}),
                "a",
            ),
            (json!({"detail": "a"}), "a"),
            (
                json!({"error": {"message": "bad key sk-s3cret\nsee"}}),
                "bad key (key) see",
            ),
            (json!({"error": {}}), "no reason"),
            (json!({"detail": [{"loc": 1}]}), "no reason"),
            (json!(null), "no reason"),
            (json!([]), "no reason"),
            (json!(7), "no reason"),
        ] {
            let error = Said::of(&value, Some(&key)).refusal(500);
            assert_eq!(
                error.to_string(),
                format!("the server answered 500: {shown}"),
                "{value}"
            );
        }
        let long = json!({"error": "x".repeat(1_000)});
        assert_eq!(Said::of(&long, None).message.unwrap().len(), MAX_MESSAGE_CHARS);
        assert_eq!(
            Said::read(b"<html>", None).refusal(502).to_string(),
            "the server answered 502: no reason"
        );
    }

    #[test]
    fn what_passes_is_told_from_what_stays() {
        let passing = |status: u16, body: Value| Said::of(&body, None).refusal(status).passes();
        for status in 300..=599 {
            assert_eq!(
                passing(status, Value::Null),
                [408, 429, 500, 502, 503, 504].contains(&status),
                "{status}"
            );
        }
        assert!(!passing(429, json!({"error": {"code": "insufficient_quota"}})));
        let reported = |body: Value| Said::of(&body, None).report().passes();
        for (body, passes) in [
            (
                json!({"error": {"message": "a", "type": "server_error", "code": null}}),
                true,
            ),
            (json!({"error": {"message": "a", "code": 503}}), true),
            (json!({"error": {"message": "a", "http_status_code": 422}}), false),
            (
                json!({"error": {"message": "a", "type": "BadRequestError", "code": 400}}),
                false,
            ),
            (
                json!({"error": {"message": "a", "type": "invalid_request_error"}}),
                false,
            ),
            (json!({"error": "a"}), true),
        ] {
            assert_eq!(reported(body.clone()), passes, "{body}");
        }
    }
}
