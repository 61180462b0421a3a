//! How much a gateway takes on, and how long it waits.

use std::time::Duration;

/// How much a gateway takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// Most sockets that are open at a time; the next one is told 503.
    pub max_sockets: usize,
    /// Most ids that are in flight on one socket; the next one is refused with an error frame.
    pub max_calls: usize,
    /// Longest id, in bytes.
    pub max_id_bytes: usize,
    /// Longest message of a client, in bytes over all its frames; a longer one closes the socket with 1009.
    pub max_message_bytes: usize,
    /// Longest frame of a client, in bytes; a longer one closes the socket with 1009.
    pub max_frame_bytes: usize,
}

impl GatewayLimits {
    /// 1,024 sockets: with nothing in flight some 20 KiB each.
    pub const MAX_SOCKETS: usize = 1024;
    /// 32 ids: TrustGraph's gateway takes 15 and lets 10 more wait.
    pub const MAX_CALLS: usize = 32;
    /// 128 bytes: clients count (`req-1`) or take a UUID.
    pub const MAX_ID_BYTES: usize = 128;
    /// 256 KiB: a question and its parameters. TrustGraph's 50 MiB are for documents, which do not come this way.
    pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;
    /// 256 KiB: clients send a message as one frame.
    pub const MAX_FRAME_BYTES: usize = 256 * 1024;

    /// Sets how many sockets may be open.
    #[must_use]
    pub fn max_sockets(mut self, sockets: usize) -> Self {
        self.max_sockets = sockets;
        self
    }

    /// Sets how many ids may be in flight on one socket.
    #[must_use]
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls;
        self
    }

    /// Sets how long an id may be, in bytes.
    #[must_use]
    pub fn max_id_bytes(mut self, bytes: usize) -> Self {
        self.max_id_bytes = bytes;
        self
    }

    /// Sets how long a message may be, in bytes.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets how long a frame may be, in bytes.
    #[must_use]
    pub fn max_frame_bytes(mut self, bytes: usize) -> Self {
        self.max_frame_bytes = bytes;
        self
    }
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            max_sockets: Self::MAX_SOCKETS,
            max_calls: Self::MAX_CALLS,
            max_id_bytes: Self::MAX_ID_BYTES,
            max_message_bytes: Self::MAX_MESSAGE_BYTES,
            max_frame_bytes: Self::MAX_FRAME_BYTES,
        }
    }
}

/// How long a gateway waits, for the other side of a socket and for a request to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayTimeouts {
    /// How long a client may take to authenticate, where a hook asks for it; then the socket is closed with 1008.
    pub auth: Duration,
    /// Silence of the client after which it is asked whether it lives.
    pub ping: Duration,
    /// How long it may take to answer that; then the socket is cut.
    pub pong: Duration,
    /// How long the client may take for one batch of messages (16 KiB and the message that fills it up); then the socket is cut.
    pub write: Duration,
    /// How long the client may take to answer a close frame; then the socket is cut.
    pub close: Duration,
    /// How long a service's handler may take until it has a turn whose response has begun. Then it is dropped, and its id ends with the
    /// failure [`FailureKind::Timeout`](crate::FailureKind::Timeout). What comes after that the turn's own
    /// [`Timeouts`](crate::turn::Timeouts) bound.
    pub start: Duration,
}

impl GatewayTimeouts {
    /// 10 seconds: clients send the token at once.
    pub const AUTH: Duration = Duration::from_secs(10);
    /// 20 seconds: below every common proxy's 60, and what the Python client does.
    pub const PING: Duration = Duration::from_secs(20);
    /// 30 seconds: longer than a phone takes from one network to the next.
    pub const PONG: Duration = Duration::from_secs(30);
    /// 30 seconds, for the same reason.
    pub const WRITE: Duration = Duration::from_secs(30);
    /// 5 seconds: nothing is lost any more, and a server that goes down waits for it.
    pub const CLOSE: Duration = Duration::from_secs(5);
    /// 10 minutes: the longest turn. One that waits for its place says so, and has begun by that.
    pub const START: Duration = Duration::from_secs(600);

    /// Sets how long a client may take to authenticate.
    #[must_use]
    pub fn auth(mut self, within: Duration) -> Self {
        self.auth = within;
        self
    }

    /// Sets after which silence a client is asked whether it lives.
    #[must_use]
    pub fn ping(mut self, after: Duration) -> Self {
        self.ping = after;
        self
    }

    /// Sets how long it may take to answer that.
    #[must_use]
    pub fn pong(mut self, within: Duration) -> Self {
        self.pong = within;
        self
    }

    /// Sets how long the client may take for a batch.
    #[must_use]
    pub fn write(mut self, within: Duration) -> Self {
        self.write = within;
        self
    }

    /// Sets how long the client may take to answer a close frame.
    #[must_use]
    pub fn close(mut self, within: Duration) -> Self {
        self.close = within;
        self
    }

    /// Sets how long a handler may take until its response has begun.
    #[must_use]
    pub fn start(mut self, within: Duration) -> Self {
        self.start = within;
        self
    }
}

impl Default for GatewayTimeouts {
    fn default() -> Self {
        Self {
            auth: Self::AUTH,
            ping: Self::PING,
            pong: Self::PONG,
            write: Self::WRITE,
            close: Self::CLOSE,
            start: Self::START,
        }
    }
}
