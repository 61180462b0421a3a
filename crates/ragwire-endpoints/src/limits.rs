//! The limits of requests.

use std::time::Duration;

use crate::client::ClientShare;

/// The limits of requests and sockets.
///
/// What is stored has its own limits: those of the [journal](ragwire::turn::JournalLimits) and of
/// the [sessions](ragwire::session::SessionLimits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointLimits {
    /// The longest question, in bytes of UTF-8. Default: 8 KiB; more than a page of text is not a
    /// question. The system messages of a conversation have the same limit. A conversation that a client sends may in addition have as many bytes as a session
    /// stores.
    pub max_question_bytes: usize,
    /// How long a client may be silent while it sends a body. Default: 30 seconds, as long as a
    /// phone needs to change networks. The whole body may take 20 times as long, at
    /// [`min_body_rate`](Self::min_body_rate).
    pub body_timeout: Duration,
    /// How fast a body must arrive, in bytes per second. A body may take
    /// [`body_timeout`](Self::body_timeout) and what its bytes take at this rate. Default: 1,024,
    /// slower than any mobile network in use.
    pub min_body_rate: usize,
    /// The memory for all bodies that are being read, in bytes. Beyond it, the slowest body is
    /// evicted with 503. Default: 128 MiB, four uploads of the largest size that ragwire-server
    /// accepts, and 80 of the longest conversations.
    pub max_body_memory: usize,
    /// The share of the memory for bodies, of the running turns and of the waiting list that one
    /// client may use. Default: half. A [group](crate::Endpoints::turns) of your own has its own
    /// limits per client.
    ///
    /// A client is an owner or, without owners, a [`Peer`](crate::Peer).
    pub client_share: ClientShare,
    /// How many bytes more a request may have where files are accepted, over all files of the
    /// conversation. Default: 8 MiB, some photos of a phone in base 64.
    pub max_attachment_bytes: usize,
    /// What the pieces of a stream are padded to, in bytes: see [`Turn::pad_to`](ragwire::Turn::pad_to).
    /// Default: 0, no padding. On the WebSocket these are the bytes of a message.
    pub pad_to: usize,
    /// The maximum number of open WebSockets. Default: 900; the usual soft limit on open files is
    /// 1,024.
    pub max_sockets: usize,
}

impl EndpointLimits {
    /// The default of [`max_question_bytes`](Self::max_question_bytes).
    pub const MAX_QUESTION_BYTES: usize = 8 << 10;
    /// The default of [`body_timeout`](Self::body_timeout).
    pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
    /// The default of [`min_body_rate`](Self::min_body_rate).
    pub const MIN_BODY_RATE: usize = 1 << 10;
    /// The default of [`max_body_memory`](Self::max_body_memory).
    pub const MAX_BODY_MEMORY: usize = 128 << 20;
    /// The default of [`client_share`](Self::client_share), in percent: a client that takes all that
    /// it may leaves as much for the others.
    pub const CLIENT_SHARE: u8 = 50;
    /// The default of [`max_attachment_bytes`](Self::max_attachment_bytes).
    pub const MAX_ATTACHMENT_BYTES: usize = 8 << 20;
    /// The default of [`max_sockets`](Self::max_sockets).
    pub const MAX_SOCKETS: usize = 900;

    /// Sets the longest question, in bytes.
    #[must_use]
    pub fn max_question_bytes(mut self, bytes: usize) -> Self {
        self.max_question_bytes = bytes;
        self
    }

    /// Sets how long a client may be silent while it sends a body.
    #[must_use]
    pub fn body_timeout(mut self, after: Duration) -> Self {
        self.body_timeout = after;
        self
    }

    /// Sets how fast a body must arrive, in bytes per second.
    #[must_use]
    pub fn min_body_rate(mut self, bytes: usize) -> Self {
        self.min_body_rate = bytes;
        self
    }

    /// Sets the memory for all bodies that are being read, in bytes.
    #[must_use]
    pub fn max_body_memory(mut self, bytes: usize) -> Self {
        self.max_body_memory = bytes;
        self
    }

    /// Sets the share of the memory for bodies that one client may use.
    #[must_use]
    pub fn client_share(mut self, share: ClientShare) -> Self {
        self.client_share = share;
        self
    }

    /// Sets how many bytes more a request with files may have.
    #[must_use]
    pub fn max_attachment_bytes(mut self, bytes: usize) -> Self {
        self.max_attachment_bytes = bytes;
        self
    }

    /// Sets what the pieces of a stream are padded to, in bytes.
    #[must_use]
    pub fn pad_to(mut self, bytes: usize) -> Self {
        self.pad_to = bytes;
        self
    }

    /// Sets the maximum number of open WebSockets.
    #[must_use]
    pub fn max_sockets(mut self, sockets: usize) -> Self {
        self.max_sockets = sockets;
        self
    }
}

impl Default for EndpointLimits {
    fn default() -> Self {
        Self {
            max_question_bytes: Self::MAX_QUESTION_BYTES,
            body_timeout: Self::BODY_TIMEOUT,
            min_body_rate: Self::MIN_BODY_RATE,
            max_body_memory: Self::MAX_BODY_MEMORY,
            client_share: ClientShare::percent(Self::CLIENT_SHARE),
            max_attachment_bytes: Self::MAX_ATTACHMENT_BYTES,
            pad_to: 0,
            max_sockets: Self::MAX_SOCKETS,
        }
    }
}
