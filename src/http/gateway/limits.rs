//! The limits and timeouts of a gateway.

use std::time::Duration;

/// The limits of a gateway on sockets, requests and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// The maximum number of open sockets; another one gets 503. Default: 1,024. An idle socket
    /// takes some 20 KiB.
    pub max_sockets: usize,
    /// The maximum number of IDs in flight on one socket; another one is refused with an error
    /// frame. Default: 32. TrustGraph's gateway allows 15, and 10 more that wait.
    pub max_calls: usize,
    /// The longest ID in bytes. Default: 128. Clients count (`req-1`) or use a UUID.
    pub max_id_bytes: usize,
    /// The longest message of a client, in bytes over all its frames; a longer one closes the
    /// socket with 1009. Default: 256 KiB, for a question and its parameters. TrustGraph's 50 MiB
    /// are for documents, which this gateway does not accept. Twice as many bytes with the heads of
    /// its frames close the socket with 1008, so that empty frames have an end too.
    pub max_message_bytes: usize,
    /// The longest frame of a client in bytes; a longer one closes the socket with 1009. Default:
    /// 256 KiB, because clients send a message as one frame.
    pub max_frame_bytes: usize,
}

impl GatewayLimits {
    /// Sets the maximum number of open sockets.
    #[must_use]
    pub fn max_sockets(mut self, sockets: usize) -> Self {
        self.max_sockets = sockets;
        self
    }

    /// Sets the maximum number of IDs in flight on one socket.
    #[must_use]
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls;
        self
    }

    /// Sets the longest ID, in bytes.
    #[must_use]
    pub fn max_id_bytes(mut self, bytes: usize) -> Self {
        self.max_id_bytes = bytes;
        self
    }

    /// Sets the longest message, in bytes.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets the longest frame, in bytes.
    #[must_use]
    pub fn max_frame_bytes(mut self, bytes: usize) -> Self {
        self.max_frame_bytes = bytes;
        self
    }
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            max_sockets: 1024,
            max_calls: 32,
            max_id_bytes: 128,
            max_message_bytes: 256 * 1024,
            max_frame_bytes: 256 * 1024,
        }
    }
}

/// The timeouts of a gateway, for the client of a socket and for the start of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayTimeouts {
    /// The time for a client to authenticate if there is a hook; after it the socket is closed with
    /// 1008. Default: 10 seconds. Clients send the token at once.
    pub auth: Duration,
    /// The silence of a client after which it is sent a ping. Default: 20 seconds, below the 60 of
    /// every common proxy and equal to the Python client's.
    pub ping: Duration,
    /// The time for a client to answer a ping; after it the socket is cut. Default: 30 seconds,
    /// longer than a phone needs to change networks.
    pub pong: Duration,
    /// The time for a client to take one batch of messages (16 KiB and the message that fills it);
    /// after it the socket is cut. Default: 30 seconds, for the same reason.
    pub write: Duration,
    /// The time for a client to answer a close frame; after it the socket is cut. Default: 5
    /// seconds. Nothing can be lost at that point, and a server that shuts down waits for it.
    pub close: Duration,
    /// The time for a handler to return a turn whose response has begun. After it the handler is
    /// dropped, and its ID ends with the failure
    /// [`FailureKind::Timeout`](crate::FailureKind::Timeout). Default: 10 minutes, the longest
    /// turn; a turn in the waiting list reports that and has thereby begun. After the start the
    /// turn's own [`Timeouts`](crate::turn::Timeouts) apply.
    pub start: Duration,
}

impl GatewayTimeouts {
    /// Sets the time for a client to authenticate.
    #[must_use]
    pub fn auth(mut self, within: Duration) -> Self {
        self.auth = within;
        self
    }

    /// Sets the silence after which a client is sent a ping.
    #[must_use]
    pub fn ping(mut self, after: Duration) -> Self {
        self.ping = after;
        self
    }

    /// Sets the time for a client to answer a ping.
    #[must_use]
    pub fn pong(mut self, within: Duration) -> Self {
        self.pong = within;
        self
    }

    /// Sets the time for a client to take a batch.
    #[must_use]
    pub fn write(mut self, within: Duration) -> Self {
        self.write = within;
        self
    }

    /// Sets the time for a client to answer a close frame.
    #[must_use]
    pub fn close(mut self, within: Duration) -> Self {
        self.close = within;
        self
    }

    /// Sets the time for a handler to begin its response.
    #[must_use]
    pub fn start(mut self, within: Duration) -> Self {
        self.start = within;
        self
    }
}

impl Default for GatewayTimeouts {
    fn default() -> Self {
        Self {
            auth: Duration::from_secs(10),
            ping: Duration::from_secs(20),
            pong: Duration::from_secs(30),
            write: Duration::from_secs(30),
            close: Duration::from_secs(5),
            start: Duration::from_secs(600),
        }
    }
}
