//! What goes wrong with an orchestrator behind the gateway, as the log sees it and as the reader of
//! the turn gets it.

use std::time::Duration;

use ragwire::turn::RelayError;
use ragwire::{Failure, FailureKind};
use ragwire_rag::models::upstream::UpstreamError;

/// Characters of the orchestrator's own words that are logged: the first sentences say what is
/// wrong, the rest is a page or a trace.
const MAX_EXCERPT_CHARS: usize = 300;

/// Why an orchestrator did not answer. The messages go to the log; [`failure`](Self::failure) is
/// what the reader gets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The request failed, or its response cannot be read.
    #[error(transparent)]
    Http(#[from] UpstreamError),
    /// The content type of the response belongs to no wire, or to another one.
    #[error("the content type `{0}` is not that of an answer; see --orchestrator-wire")]
    ContentType(String),
    /// The answer violates its protocol or ends without its end, or the orchestrator itself reports a
    /// failure or a stop.
    #[error(transparent)]
    Relay(RelayError),
    /// The file of the certificate authorities cannot be read.
    #[error("the file of --orchestrator-ca cannot be read")]
    Authorities(#[source] std::io::Error),
    /// The process could not be started.
    #[error("the process cannot be started")]
    Start(#[source] std::io::Error),
    /// The process ended, or closed its output, before the end of its answer.
    #[error("the process ended before its answer did: {0}")]
    Exited(String),
    /// The process did not continue in time.
    #[error("the process did not {what} within {after:?}")]
    Silent {
        /// The awaited event.
        what: &'static str,
        /// The time-out.
        after: Duration,
    },
    /// A question at which a run ended could not be asked, or nobody answered in time.
    #[error("a question of the orchestrator has no answer: {0}")]
    NotAnswered(&'static str),
    /// The answer to a question with a schema is not JSON.
    #[error("the answer is not json, but the question has a schema")]
    NotJson,
    /// The answer before a question is too long to be repeated with its answer.
    #[error("the answer before a question has more than {0} bytes, and the next request must repeat it")]
    TranscriptTooLong(usize),
    /// A file that the orchestrator's protocol has no place for.
    #[error("the protocol has no place for a file of the type `{0}`")]
    FileNotAccepted(String),
    /// A line of the process is longer than the limit.
    #[error("a line of the process has more than {0} bytes")]
    LineTooLong(usize),
}

impl GatewayError {
    /// Returns what failed; its code is part of the protocol.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Http(error) => error.kind(),
            Self::Authorities(_) | Self::Start(_) => FailureKind::UpstreamUnreachable,
            Self::Silent { .. } => FailureKind::UpstreamTimeout,
            Self::Exited(_) => FailureKind::UpstreamTruncated,
            Self::ContentType(_) | Self::NotJson => FailureKind::UpstreamUnreadable,
            Self::LineTooLong(_) | Self::TranscriptTooLong(_) => FailureKind::UpstreamTooLarge,
            Self::FileNotAccepted(_) => FailureKind::FileNotAccepted,
            Self::NotAnswered(code) => FailureKind::from((*code).to_owned()),
            Self::Relay(RelayError::Failed(failure)) => failure.kind.clone(),
            Self::Relay(_) => FailureKind::Stopped,
        }
    }

    /// Returns the failure that the reader gets. It repeats nothing that the orchestrator said.
    pub fn failure(&self) -> Failure {
        if let Self::Relay(RelayError::Failed(failure)) = self {
            return failure.clone();
        }
        if let Self::Http(UpstreamError::Refused { status, .. }) = self {
            return refusal(*status);
        }
        let kind = self.kind();
        if let Self::FileNotAccepted(media_type) = self {
            let message = format!("The service that answers accepts no file of the type `{media_type}`.");
            return Failure::new(kind, message).permanent();
        }
        if matches!(self, Self::NotAnswered(_)) {
            return Failure::new(
                kind,
                "A question to you has no answer, and the service cannot continue without it.",
            );
        }
        let (message, is_permanent) = match &kind {
            FailureKind::UpstreamUnreachable => {
                ("The service that answers cannot be reached. Please retry.", false)
            }
            FailureKind::UpstreamTimeout => ("The service that answers took too long. Please retry.", false),
            FailureKind::UpstreamTruncated => ("The answer broke off. Please retry.", false),
            FailureKind::UpstreamTooLarge => ("The service sent more than this server accepts.", true),
            FailureKind::UpstreamUnreadable => ("The service sent an answer that cannot be read.", true),
            // No error has one of these kinds.
            FailureKind::UpstreamRefused
            | FailureKind::UpstreamFailed
            | FailureKind::ChatFailed
            | FailureKind::Timeout
            | FailureKind::WriteStalled
            | FailureKind::Stopped
            | FailureKind::ShuttingDown
            | FailureKind::Busy
            | FailureKind::TooMany
            | FailureKind::QueueTimeout
            | FailureKind::NotAcceptable
            | FailureKind::NotFound
            | FailureKind::NoDocuments
            | FailureKind::NoGraph
            | FailureKind::UnknownTurn
            | FailureKind::Gone
            | FailureKind::Ahead
            | FailureKind::Lost
            | FailureKind::Interrupted
            | FailureKind::Unavailable
            | FailureKind::FileNotAccepted
            | FailureKind::Other(_) => return Failure::default(),
        };
        let failure = Failure::new(kind, message);
        if is_permanent {
            failure.permanent()
        } else {
            failure
        }
    }
}

/// The failure for an error status, which is permanent if the request is at fault.
fn refusal(status: u16) -> Failure {
    let failure = Failure::new(
        FailureKind::UpstreamRefused,
        format!("The service that answers refused the question with status {status}."),
    );
    let is_permanent = (300..500).contains(&status) && ![408, 429].contains(&status);
    if is_permanent {
        failure.permanent()
    } else {
        failure
    }
}

/// An error, with what the orchestrator said.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) error: GatewayError,
    /// An excerpt of the orchestrator's own words, without secrets.
    pub(super) upstream: String,
    /// How long the orchestrator asks to wait.
    pub(super) retry_after: Option<Duration>,
}

impl<E: Into<GatewayError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            upstream: String::new(),
            retry_after: None,
        }
    }
}

impl Trouble {
    pub(super) fn saying(mut self, upstream: String) -> Self {
        self.upstream = upstream;
        self
    }
}

/// Returns the beginning of the orchestrator's own words for the log: on one line, and without the
/// values in `secrets`, which servers like to repeat.
pub(super) fn excerpt<'a>(words: &[u8], secrets: impl IntoIterator<Item = &'a str>) -> String {
    // Four bytes per character at most.
    let words = &words[..words.len().min(4 * MAX_EXCERPT_CHARS)];
    let mut text = String::from_utf8_lossy(words).into_owned();
    for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "(not shown)");
    }
    let plain = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter });
    plain.take(MAX_EXCERPT_CHARS).collect()
}

/// An error with its sources, for logs.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut whole = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        whole.push_str(": ");
        whole.push_str(&error.to_string());
        next = error.source();
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_on_one_line_and_has_no_secret() {
        let words = "<h1>bad\ntoken s3cret</h1>".repeat(50);
        let shown = excerpt(words.as_bytes(), ["s3cret", ""]);
        assert!(shown.starts_with("<h1>bad token (not shown)</h1>"), "{shown}");
        assert_eq!(shown.chars().count(), MAX_EXCERPT_CHARS);
        assert_eq!(excerpt(b"\xff\x00", []), "\u{fffd} ");
    }

    #[test]
    fn every_error_has_a_code_and_says_whether_a_retry_helps() {
        let refused = |status| UpstreamError::Refused {
            status,
            message: "s3cret".into(),
            exhausted: false,
        };
        let cases: Vec<(GatewayError, &str, bool)> = vec![
            (
                UpstreamError::Connect("x".into()).into(),
                "upstream_unreachable",
                true,
            ),
            (refused(401).into(), "upstream_refused", false),
            (refused(429).into(), "upstream_refused", true),
            (refused(500).into(), "upstream_refused", true),
            (UpstreamError::Broken(None).into(), "upstream_truncated", true),
            (
                GatewayError::Exited("status 1".into()),
                "upstream_truncated",
                true,
            ),
            (
                GatewayError::Relay(RelayError::Failed(Failure::new("quota", "No more today."))),
                "quota",
                true,
            ),
            (
                GatewayError::ContentType("text/html".into()),
                "upstream_unreadable",
                false,
            ),
            (GatewayError::LineTooLong(1), "upstream_too_large", false),
            (GatewayError::NotAnswered("ask_expired"), "ask_expired", true),
        ];
        for (error, code, recoverable) in cases {
            let failure = error.failure();
            assert_eq!(
                (failure.code(), failure.recoverable),
                (code, recoverable),
                "{error}"
            );
            assert!(!failure.message.contains("s3cret"), "{error}");
        }
    }
}
