//! Why a turn failed, in words that may be shown to anyone.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::frame::Status;

/// The message of a failure that has no better one (ADR 0007).
const DEFAULT_MESSAGE: &str = "I hit an internal error while gathering evidence. Please retry.";

/// Defines [`FailureKind`] from one row per code.
macro_rules! failure_kinds {
    ($($(#[$meta:meta])* $Kind:ident = $code:literal,)*) => {
        /// The kind of a [`Failure`]: one variant for each code that this crate assigns, and one
        /// for all others.
        ///
        /// The enum is exhaustive on purpose. Code that decides by kind, for example on an HTTP
        /// status, lists all variants, so that the compiler finds it when a kind is added.
        ///
        /// Strings convert into the kind that has them as its code:
        ///
        /// ```
        /// use ragwire::FailureKind;
        ///
        /// assert_eq!(FailureKind::from("busy"), FailureKind::Busy);
        /// assert_eq!(FailureKind::from("quota"), FailureKind::Other("quota".into()));
        /// assert_eq!(FailureKind::Busy.as_str(), "busy");
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum FailureKind {
            $($(#[$meta])* #[doc = concat!("\n\nCode: `", $code, "`.")] $Kind,)*
            /// A code that the orchestrator or another producer chose. Create it with `from`, which
            /// maps the codes above to their own kinds.
            Other(Cow<'static, str>),
        }

        impl FailureKind {
            /// Returns the code: a stable name for programs.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$Kind => $code,)*
                    Self::Other(code) => code,
                }
            }

            fn known(code: &str) -> Option<Self> {
                match code {
                    $($code => Some(Self::$Kind),)*
                    _ => None,
                }
            }
        }

        #[cfg(test)]
        const KNOWN: &[FailureKind] = &[$(FailureKind::$Kind,)*];
    };
}

failure_kinds! {
    /// The turn failed, and nothing more specific is known. The default code of ADR 0007.
    ChatFailed = "chat_failed",
    /// The turn exceeded its time limit or was silent for too long.
    Timeout = "timeout",
    /// The reader did not accept the bytes that were ready for it.
    WriteStalled = "write_stalled",
    /// The server is shutting down.
    ShuttingDown = "shutting_down",
    /// The maximum number of turns is running, and the waiting list is full.
    Busy = "busy",
    /// The owner of the turn has reached its own maximum.
    TooMany = "too_many",
    /// The turn was on the waiting list for too long.
    QueueTimeout = "queue_timeout",
    /// The turn was stopped before its response began.
    Stopped = "stopped",
    /// The `Accept` header matches none of the offered wires.
    NotAcceptable = "not_acceptable",
    /// Something that the turn needs does not exist, for example its session.
    NotFound = "not_found",
    /// There are no documents to search.
    NoDocuments = "no_documents",
    /// The server keeps no graph.
    NoGraph = "no_graph",
    /// The turn does not exist or belongs to another owner.
    UnknownTurn = "unknown_turn",
    /// The journal has dropped the frames that the reader needs next.
    Gone = "gone",
    /// The reader asks for frames that the turn has not produced yet.
    Ahead = "ahead",
    /// The journal's server lost frames that the reader has already seen.
    Lost = "lost",
    /// The host that ran the turn disappeared.
    Interrupted = "interrupted",
    /// The journal's server, or the host that runs the turn, does not respond.
    Unavailable = "unavailable",
    /// The upstream that answers in the orchestrator's place cannot be reached or started.
    UpstreamUnreachable = "upstream_unreachable",
    /// The upstream answered with an error status, or refused the question.
    UpstreamRefused = "upstream_refused",
    /// The upstream did not begin its answer in time, or was silent for too long.
    UpstreamTimeout = "upstream_timeout",
    /// The upstream's answer broke off before the end that its protocol requires.
    UpstreamTruncated = "upstream_truncated",
    /// The upstream's answer violates its protocol, or is in a format that was not expected.
    UpstreamUnreadable = "upstream_unreadable",
    /// A line or another unit of the upstream's answer is longer than the limit.
    UpstreamTooLarge = "upstream_too_large",
    /// The upstream reported a failure, or its connection broke within the answer.
    UpstreamFailed = "upstream_failed",
    /// A file of the question has a type that whatever answers has no place for.
    FileNotAccepted = "file_not_accepted",
}

impl From<&'static str> for FailureKind {
    fn from(code: &'static str) -> Self {
        Cow::Borrowed(code).into()
    }
}

impl From<String> for FailureKind {
    fn from(code: String) -> Self {
        Cow::<'static, str>::Owned(code).into()
    }
}

impl From<Cow<'static, str>> for FailureKind {
    fn from(code: Cow<'static, str>) -> Self {
        Self::known(&code).unwrap_or(Self::Other(code))
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for FailureKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The failure of a turn, as its reader gets it.
///
/// A failure goes over the wire, so it never contains the source error. To report more than the
/// default message, an orchestrator returns a `Failure` as its error, with a text that any user may
/// read:
///
/// ```
/// use ragwire::{Failure, FailureKind};
///
/// let failure = Failure::new("quota", "You have used today's quota.").permanent();
/// assert_eq!(failure.kind, FailureKind::Other("quota".into()));
/// assert_eq!(failure.code(), "quota");
/// assert!(!failure.recoverable);
/// ```
///
/// Its JSON has the members `code`, `message` and `recoverable`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// What failed. Its code is part of the protocol.
    #[serde(rename = "code")]
    pub kind: FailureKind,
    /// The sentence that is shown to the user and that completes a broken answer.
    pub message: Cow<'static, str>,
    /// Whether the same request may succeed later.
    pub recoverable: bool,
}

impl Failure {
    /// Creates a recoverable failure.
    pub fn new(kind: impl Into<FailureKind>, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
            recoverable: true,
        }
    }

    /// Returns the failure that a response without a stream reports for a turn with this status, or
    /// `None` if the turn completed.
    pub fn of(status: &Status) -> Option<Self> {
        match status {
            Status::Completed => None,
            Status::Failed(failure) => Some(failure.clone()),
            Status::Stopped => Some(Self::new(FailureKind::Stopped, "The turn was stopped.")),
        }
    }

    /// Returns the code of [`kind`](Self::kind): a stable name for programs.
    pub fn code(&self) -> &str {
        self.kind.as_str()
    }

    /// Marks the failure as permanent: the same request cannot succeed later.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.recoverable = false;
        self
    }
}

impl Default for Failure {
    /// Returns [`FailureKind::ChatFailed`] with the message of ADR 0007: "I hit an internal error
    /// while gathering evidence. Please retry."
    fn default() -> Self {
        Self::new(FailureKind::ChatFailed, DEFAULT_MESSAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_convert_in_both_directions() {
        for kind in KNOWN {
            assert_eq!(FailureKind::from(kind.as_str().to_owned()), *kind);
            assert_eq!(kind.to_string(), kind.as_str());
        }
        let other = FailureKind::from("quota");
        assert_eq!(other, FailureKind::Other("quota".into()));
        assert_eq!(other.as_str(), "quota");
    }

    #[test]
    fn json_has_code_message_and_recoverable_in_this_order() {
        let failure = Failure::new("busy", "Full.").permanent();
        assert_eq!(
            serde_json::to_string(&failure).unwrap(),
            r#"{"code":"busy","message":"Full.","recoverable":false}"#
        );
    }
}
