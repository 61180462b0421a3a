//! Servers that share a Redis: each a process of its own, which can be killed and started again.

use ragwire_test_support::redis::RedisServer;
use tempfile::TempDir;

use crate::served::Served;

/// How soon others notice that a host is gone.
pub(crate) const LEASE: &str = "1s";
/// How long Redis may be away.
pub(crate) const RETRY: &str = "5s";

/// One server. Killed when it is dropped.
pub(crate) struct Host {
    served: Option<Served>,
    arguments: Vec<String>,
    data: TempDir,
}

impl Host {
    /// Starts one, with more flags than those that all have; the last one of a name counts.
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

    /// So many of them.
    pub(crate) fn several<const N: usize>(redis: &RedisServer, more: &[&str]) -> [Self; N] {
        // At the same time: each has its own library to index.
        std::thread::scope(|scope| {
            let starting: [_; N] = std::array::from_fn(|_| scope.spawn(|| Self::start(redis, more)));
            starting.map(|starting| starting.join().unwrap())
        })
    }

    /// Where it listens now.
    pub(crate) fn address(&self) -> &str {
        &self.served.as_ref().expect("the server runs").address
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.served = None;
    }

    /// Starts it anew, at another address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        self.served = Some(Served::start(self.data.path(), &arguments));
    }

    /// Stops it in mid-air.
    pub(crate) fn freeze(&self) {
        self.served.as_ref().expect("the server runs").signal("STOP");
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.served.as_ref().expect("the server runs").signal("CONT");
    }
}
