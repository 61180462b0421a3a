//! Whether the servers that this one needs can be reached, for `/readyz`.
//!
//! A check opens a connection and closes it: that needs no key and costs the other server nothing.
//! Redis is asked for a turn, because it may accept connections and not answer.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Uri;
use ragwire::turn::Journal;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::settings::Settings;

/// A healthy server on the same network answers in milliseconds, and a load balancer waits for a few
/// seconds.
const MAX_TIME: Duration = Duration::from_secs(1);
/// The checks are not repeated more often, however many clients ask.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Another server.
#[derive(Clone, Debug)]
enum Dependency {
    Redis,
    /// One behind this host and port.
    Server(String, u16),
}

/// What a missing server means for questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// They fail.
    Required,
    /// Something simpler takes its place, such as quotes in place of a model's answer.
    Replaced,
}

/// The state of each dependency by its name: `ok` or `unreachable`.
pub type Checks = BTreeMap<&'static str, &'static str>;

/// The servers that this one needs.
#[derive(Debug)]
pub struct Dependencies {
    list: Vec<(&'static str, Need, Dependency)>,
    last: Mutex<Option<(Instant, Checks)>>,
}

impl Dependencies {
    /// Returns the servers that the settings name.
    pub fn new(settings: &Settings) -> Self {
        let of = |name, need, url: Option<&String>| {
            let (host, port) = host_and_port(url?)?;
            Some((name, need, Dependency::Server(host, port)))
        };
        let mut list: Vec<_> = [
            of("model", Need::Replaced, settings.llm_url.as_ref()),
            of("embedder", Need::Replaced, settings.embedder_url.as_ref()),
            of("reranker", Need::Replaced, settings.reranker_url.as_ref()),
            of("store", Need::Required, settings.qdrant_url.as_ref()),
            of("orchestrator", Need::Required, settings.orchestrator.as_ref()),
        ]
        .into_iter()
        .flatten()
        .collect();
        if settings.redis.is_some() {
            list.push(("redis", Need::Required, Dependency::Redis));
        }
        Self {
            list,
            last: Mutex::default(),
        }
    }

    /// Returns whether each can be reached, at most two seconds old.
    pub async fn check(&self, journal: &Journal) -> Checks {
        // One check at a time: further callers get its result.
        let mut last = self.last.lock().await;
        if let Some((at, checks)) = &*last
            && at.elapsed() < CHECK_EVERY
        {
            return checks.clone();
        }
        let states = self.list.iter().map(async |(name, _, dependency)| {
            let is_reachable = timeout(MAX_TIME, dependency.is_reachable(journal)).await;
            (
                *name,
                if is_reachable == Ok(true) {
                    "ok"
                } else {
                    "unreachable"
                },
            )
        });
        let checks: Checks = futures_util::future::join_all(states).await.into_iter().collect();
        *last = Some((Instant::now(), checks.clone()));
        checks
    }

    /// Returns whether questions can be answered, given the result of [`check`](Self::check).
    pub fn suffice(&self, checks: &Checks) -> bool {
        let mut required = self.list.iter().filter(|(_, need, _)| *need == Need::Required);
        required.all(|(name, ..)| checks.get(name) == Some(&"ok"))
    }
}

impl Dependency {
    async fn is_reachable(&self, journal: &Journal) -> bool {
        match self {
            Self::Redis => journal.latest("readyz", "readyz").await.is_ok(),
            Self::Server(host, port) => TcpStream::connect((host.as_str(), *port)).await.is_ok(),
        }
    }
}

/// Returns where an HTTP server listens; `None` for what is not one, such as a child process.
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let url: Uri = url.parse().ok()?;
    let default = match url.scheme_str()? {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let host = url.host()?.trim_start_matches('[').trim_end_matches(']');
    Some((host.to_owned(), url.port_u16().unwrap_or(default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_url_is_found() {
        for (url, found) in [
            ("http://127.0.0.1:11434/v1", Some(("127.0.0.1", 11434))),
            ("http://[::1]:80/", Some(("::1", 80))),
            ("https://api.example", Some(("api.example", 443))),
            ("http://host", Some(("host", 80))),
            ("exec:python answer.py", None),
        ] {
            let found = found.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(host_and_port(url), found, "{url}");
        }
    }
}
