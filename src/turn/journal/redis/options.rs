//! Where the Redis server is and how long it is waited for. It connects to nothing.

use std::fmt;
use std::time::Duration;

use super::error::RedisError;
use super::link::MAX_PAUSE;

/// How much an acknowledged frame survives, by what the Redis server is set to: `appendonly` and `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the server or its machine loses nothing (`appendonly yes`, `appendfsync always`).
    Always,
    /// A crash of the machine may lose the frames of the last second or two (`appendonly yes`, `appendfsync everysec` or `no`). The turns
    /// that lose frames fail; they never go on with a hole.
    EverySecond,
    /// A restart loses the turns, or what came after the last snapshot (`appendonly no`).
    None,
    /// The server does not say (it forbids `CONFIG GET`).
    Unknown,
}

impl Durability {
    /// Whether it is at least `needed`. What is unknown is enough for nothing but [`Durability::None`] and itself.
    pub(super) fn covers(self, needed: Self) -> bool {
        let rank = |durability| match durability {
            Self::None => 0,
            Self::Unknown => 1,
            Self::EverySecond => 2,
            Self::Always => 3,
        };
        rank(self) >= rank(needed)
    }
}

/// Where the Redis server of a [`Journal`](crate::turn::Journal) is, and how long it is waited for.
#[derive(Clone)]
pub struct RedisOptions {
    pub(crate) client: redis::Client,
    pub(crate) prefix: String,
    pub(super) lease: Duration,
    pub(super) retry: Duration,
    pub(super) reach: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) required: Durability,
}

impl RedisOptions {
    /// What all keys begin with.
    pub const PREFIX: &'static str = "ragwire:";
    /// 10 seconds: readers elsewhere learn within this time that the host of their turn is dead; longer than any pause of a healthy one.
    pub const LEASE: Duration = Duration::from_secs(10);
    /// 10 seconds: a restart of the server or a fail-over of its replicas is only a delay for those who wait.
    pub const RETRY: Duration = Duration::from_secs(10);
    /// 5 seconds: whoever stops or answers waits no longer for the host of the turn.
    pub const REACH: Duration = Duration::from_secs(5);
    /// 2 seconds: a server in the same building answers in a thousandth of it.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
    /// 2 seconds, for the same reason.
    pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

    /// Shortest of all times: what is less is lost in the noise of a loaded machine.
    const MIN_TIME: Duration = Duration::from_millis(50);
    /// Longest of all times.
    const MAX_TIME: Duration = Duration::from_secs(3600);
    /// Longest prefix in bytes.
    const MAX_PREFIX_BYTES: usize = 64;

    /// `redis://[user:password@]host[:port][/database]` or `unix:///path/of/the.sock`; `rediss://` needs redis-rs with a TLS feature.
    ///
    /// # Errors
    ///
    /// [`RedisError::Url`]
    pub fn new(url: &str) -> Result<Self, RedisError> {
        Ok(Self {
            client: redis::Client::open(url).map_err(|error| RedisError::url(&error))?,
            prefix: Self::PREFIX.to_owned(),
            lease: Self::LEASE,
            retry: Self::RETRY,
            reach: Self::REACH,
            connect_timeout: Self::CONNECT_TIMEOUT,
            response_timeout: Self::RESPONSE_TIMEOUT,
            required: Durability::None,
        })
    }

    /// Sets what all keys begin with, so that several services share a server: 1 to 64 printable ASCII characters without braces.
    /// All hosts of one service need the same.
    ///
    /// # Errors
    ///
    /// [`RedisError::Prefix`]
    pub fn prefix(mut self, prefix: &str) -> Result<Self, RedisError> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
        if prefix.is_empty() || prefix.len() > Self::MAX_PREFIX_BYTES || !prefix.bytes().all(is_plain) {
            return Err(RedisError::Prefix);
        }
        prefix.clone_into(&mut self.prefix);
        Ok(self)
    }

    /// Sets within what time readers elsewhere are told that the host of their turn is gone; 50 ms to an hour, as all times here. All hosts
    /// of one service need the same.
    ///
    /// A part of it is doubt, the [`connect_timeout`](Self::connect_timeout) and half a second, in which a host that was cut off from the
    /// server may come back. Where that is more than half of the lease it takes half the lease and the doubt.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = bounded(lease);
        self
    }

    /// Sets how long a server that does not answer is only a delay. After it the turns that need it fail.
    #[must_use]
    pub fn retry(mut self, retry: Duration) -> Self {
        self.retry = bounded(retry);
        self
    }

    /// Sets how long a stop or an answer waits for the host of its turn.
    #[must_use]
    pub fn reach(mut self, reach: Duration) -> Self {
        self.reach = bounded(reach);
        self
    }

    /// Sets how long one attempt to connect may take.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = bounded(timeout);
        self
    }

    /// Sets how long one answer of the server may take.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = bounded(timeout);
        self
    }

    /// Refuses a server that keeps less than this.
    #[must_use]
    pub fn require(mut self, durability: Durability) -> Self {
        self.required = durability;
        self
    }
}

impl RedisOptions {
    /// How long a lease has to be gone before its host is: after the server was away, a host that is there refreshes it as soon as it has
    /// tried again.
    pub(super) fn doubt(&self) -> Duration {
        MAX_PAUSE + self.connect_timeout
    }

    /// How long a lease stands at the server without being refreshed: so much less than it is that the doubt fits into it, but at least
    /// half.
    pub(super) fn hold(&self) -> Duration {
        self.lease.saturating_sub(self.doubt()).max(self.lease / 2)
    }
}

fn bounded(time: Duration) -> Duration {
    time.clamp(RedisOptions::MIN_TIME, RedisOptions::MAX_TIME)
}

impl fmt::Debug for RedisOptions {
    /// Without the address: a password may stand in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("prefix", &self.prefix)
            .field("lease", &self.lease)
            .field("retry", &self.retry)
            .field("reach", &self.reach)
            .field("connect_timeout", &self.connect_timeout)
            .field("response_timeout", &self.response_timeout)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_gone_is_noticed_within_its_lease() {
        let options = |lease, connect| {
            let options = RedisOptions::new("redis://127.0.0.1").unwrap();
            options
                .lease(Duration::from_millis(lease))
                .connect_timeout(Duration::from_millis(connect))
        };
        for (lease, connect, hold) in [
            (10_000, 2_000, 7_500),
            (5_000, 2_000, 2_500),
            (10_000, 500, 9_000),
        ] {
            let options = options(lease, connect);
            assert_eq!(options.hold(), Duration::from_millis(hold));
            assert_eq!(options.hold() + options.doubt(), options.lease);
        }
        // Or else half of it, and the doubt.
        assert_eq!(options(1_500, 2_000).hold(), Duration::from_millis(750));
    }
}
