//! The address of the Redis server and how long it is waited for. Nothing connects here.

use std::fmt;
use std::time::Duration;

use super::connector::Connector;
use super::link::MAX_PAUSE;
use super::{Durability, RedisError};

/// The address of the Redis server of a [`Journal`](crate::turn::Journal) or of
/// [`Sessions`](crate::session::Sessions), and how long it is waited for.
///
/// All times are between 50 ms and one hour; other values are set to the nearest bound.
///
/// ```
/// # fn main() -> Result<(), ragwire::redis::RedisError> {
/// use std::time::Duration;
///
/// use ragwire::redis::{Durability, RedisOptions};
///
/// let options = RedisOptions::new("redis://127.0.0.1:6379/1")?
///     .prefix("chat:")?
///     .retry(Duration::from_secs(5))
///     .require(Durability::EverySecond);
/// # let _ = options;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    pub(crate) connector: Connector,
    pub(crate) prefix: String,
    pub(crate) lease: Duration,
    pub(crate) retry: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(super) required: Durability,
}

/// Shorter times are lost in the noise of a loaded machine.
const MIN_TIME: Duration = Duration::from_millis(50);
const MAX_TIME: Duration = Duration::from_secs(3600);
const MAX_PREFIX_BYTES: usize = 64;

impl RedisOptions {
    /// The default [`prefix`](Self::prefix).
    pub const PREFIX: &'static str = "ragwire:";
    /// The default [`lease`](Self::lease), 10 seconds: longer than any pause of a healthy host.
    pub const LEASE: Duration = Duration::from_secs(10);
    /// The default [`retry`](Self::retry), 10 seconds: enough to restart the server or to fail over
    /// to a replica.
    pub const RETRY: Duration = Duration::from_secs(10);

    /// Parses an address: `redis://[user:password@]host[:port][/database]` or
    /// `unix:///path/of/the.sock`. `rediss://` needs a TLS feature of the crate `redis` in your
    /// build.
    ///
    /// # Errors
    ///
    /// [`RedisError::Url`]
    pub fn new(url: &str) -> Result<Self, RedisError> {
        Ok(Self {
            connector: Connector::new(redis::Client::open(url).map_err(|error| RedisError::url(&error))?),
            prefix: Self::PREFIX.to_owned(),
            lease: Self::LEASE,
            retry: Self::RETRY,
            call_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(2),
            required: Durability::None,
        })
    }

    /// Sets the prefix of all keys, so that several services can share a server: 1 to 64 printable
    /// ASCII characters without braces. All hosts of a service need the same one. Default:
    /// `ragwire:`.
    ///
    /// # Errors
    ///
    /// [`RedisError::Prefix`]
    pub fn prefix(mut self, prefix: &str) -> Result<Self, RedisError> {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
        if prefix.is_empty() || prefix.len() > MAX_PREFIX_BYTES || !prefix.bytes().all(is_allowed) {
            return Err(RedisError::Prefix);
        }
        prefix.clone_into(&mut self.prefix);
        Ok(self)
    }

    /// Appends a name to the prefix, for a second store of the same kind on the server. The name
    /// has the characters of a [`prefix`](Self::prefix).
    ///
    /// # Errors
    ///
    /// [`RedisError::Prefix`]
    pub fn name_space(self, name: &str) -> Result<Self, RedisError> {
        let outer = self.prefix.clone();
        let mut options = self.prefix(name)?;
        options.prefix.insert_str(0, &outer);
        Ok(options)
    }

    /// Sets within what time the readers of a turn on other hosts learn that its host has died. All
    /// hosts of a service need the same value. Default: 10 seconds.
    ///
    /// The last part of the lease is a grace period, the [`connect_timeout`](Self::connect_timeout)
    /// plus half a second, in which a host that was cut off from the server can reconnect. If the
    /// grace period is longer than half of the lease, a dead host is noticed after half of the
    /// lease plus the grace period.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = bounded(lease);
        self
    }

    /// Sets how long requests are retried while the server does not answer. After this time the
    /// turns that need the server fail. Default: 10 seconds.
    #[must_use]
    pub fn retry(mut self, retry: Duration) -> Self {
        self.retry = bounded(retry);
        self
    }

    /// Sets how long a stop or an answer waits for the host that runs the turn. Default: 5 seconds.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = bounded(timeout);
        self
    }

    /// Sets how long one attempt to connect may take. Default: 2 seconds; a server in the same
    /// building answers in a thousandth of that.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = bounded(timeout);
        self
    }

    /// Sets how long one response of the server may take. Default: 2 seconds.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = bounded(timeout);
        self
    }

    /// Refuses a server whose durability is lower than this. Default: [`Durability::None`].
    #[must_use]
    pub fn require(mut self, durability: Durability) -> Self {
        self.required = durability;
        self
    }

    /// Returns how long a lease has to be absent before its host counts as dead. When the server
    /// was away, a live host renews its lease with its next attempt, within this time.
    pub(crate) fn lease_grace(&self) -> Duration {
        MAX_PAUSE + self.connect_timeout
    }

    /// Returns the time to live of a lease on the server: the lease without its grace period, but
    /// at least half of it.
    pub(crate) fn lease_ttl(&self) -> Duration {
        self.lease.saturating_sub(self.lease_grace()).max(self.lease / 2)
    }
}

fn bounded(time: Duration) -> Duration {
    time.clamp(MIN_TIME, MAX_TIME)
}

impl fmt::Debug for RedisOptions {
    /// Without the address, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("prefix", &self.prefix)
            .field("lease", &self.lease)
            .field("retry", &self.retry)
            .field("call_timeout", &self.call_timeout)
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
    fn a_dead_host_is_noticed_within_its_lease() {
        let options = |lease, connect| {
            let options = RedisOptions::new("redis://127.0.0.1").unwrap();
            options
                .lease(Duration::from_millis(lease))
                .connect_timeout(Duration::from_millis(connect))
        };
        for (lease, connect, ttl) in [
            (10_000, 2_000, 7_500),
            (5_000, 2_000, 2_500),
            (10_000, 500, 9_000),
        ] {
            let options = options(lease, connect);
            assert_eq!(options.lease_ttl(), Duration::from_millis(ttl));
            assert_eq!(options.lease_ttl() + options.lease_grace(), options.lease);
        }
        // The grace period is longer than half of the lease.
        assert_eq!(options(1_500, 2_000).lease_ttl(), Duration::from_millis(750));
    }
}
