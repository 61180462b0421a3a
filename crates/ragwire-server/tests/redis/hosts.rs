//! Servers that share a Redis server: separate processes, which can be killed and restarted.

use ragwire_test_support::redis::RedisServer;
use tempfile::TempDir;

use crate::served::Served;

/// The time within which other hosts notice that a host has died.
pub(crate) const LEASE: &str = "1s";
/// The longest tolerated outage of Redis.
pub(crate) const RETRY: &str = "5s";

/// A server process. Dropping it kills the process.
pub(crate) struct Host {
    served: Option<Served>,
    arguments: Vec<String>,
    data: TempDir,
}

impl Host {
    /// Starts a server with additional flags; the last flag of a name counts.
    pub(crate) fn start(redis: &RedisServer, more: &[&str]) -> Self {
        let url = redis.url();
        let common = ["--redis", &url, "--redis-lease", LEASE, "--redis-retry", RETRY];
        let own = more.chunks(2).map(|pair| pair[0]).collect::<Vec<_>>();
        let mut arguments: Vec<String> = Vec::new();
        for pair in common
            .chunks(2)
            .filter(|pair| !own.contains(&pair[0]))
            .chain(more.chunks(2))
        {
            arguments.extend(pair.iter().map(|part| (*part).to_owned()));
        }
        let mut host = Self {
            served: None,
            arguments,
            data: tempfile::tempdir().unwrap(),
        };
        host.restart();
        host
    }

    /// Starts `N` servers.
    pub(crate) fn several<const N: usize>(redis: &RedisServer, more: &[&str]) -> [Self; N] {
        // Starts them at the same time, since each indexes its own library.
        std::thread::scope(|scope| {
            let starting: [_; N] = std::array::from_fn(|_| scope.spawn(|| Self::start(redis, more)));
            starting.map(|starting| starting.join().unwrap())
        })
    }

    /// Returns the address on which it listens now.
    pub(crate) fn address(&self) -> &str {
        &self.served.as_ref().expect("the server runs").address
    }

    /// Kills it, like `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.served = None;
    }

    /// Restarts it, on another address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        self.served = Some(Served::start(self.data.path(), &arguments));
    }

    /// Suspends the process.
    pub(crate) fn freeze(&self) {
        self.served.as_ref().expect("the server runs").signal("STOP");
    }

    /// Resumes the process.
    pub(crate) fn thaw(&self) {
        self.served.as_ref().expect("the server runs").signal("CONT");
    }
}
