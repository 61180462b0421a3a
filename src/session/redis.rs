//! Sessions on a Redis server, for all hosts of a service.
//!
//! ```text
//! ragwire:session:<hash of owner and id>  hash   s = stamp, v = the session, n = who wrote it last
//! ragwire:sessions                        zset   those keys by their stamps, the oldest first
//! ```
//!
//! Every change is one script, and the clock is the server's, so that hosts whose clocks differ agree on what is old. Every key expires. A
//! script that is asked twice, because its answer was lost, does its work once: it finds its own mark.

use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::Script;
use sha2::{Digest, Sha256};

use super::store::{Clock, Key, Stamped};
use super::{SessionError, SessionLimits, Sessions};
use crate::turn::journal::redis::check;
use crate::turn::journal::redis::link::{Link, Request, Unreachable};
use crate::turn::{RedisError, RedisOptions};

static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/load.lua")));
static SWAP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/swap.lua")));
static REMOVE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/remove.lua")));
static SWEEP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/sweep.lua")));

/// Most sessions that one call drops because they are too old: the server does nothing else meanwhile.
const MAX_DROPPED: usize = 64;

pub(super) struct Redis {
    limits: SessionLimits,
    /// Runs ahead in tests only; what time it is says the server.
    clock: Clock,
    link: Link,
    prefix: String,
    /// What marks the changes of this process, with a number.
    host: String,
    next: AtomicU64,
}

impl Redis {
    pub(super) async fn open(
        options: &RedisOptions,
        limits: SessionLimits,
        clock: Clock,
    ) -> Result<Self, SessionError> {
        let link = Link::new(options);
        check::check(&link, options).await?;
        Ok(Self {
            limits,
            clock,
            link,
            prefix: options.prefix.clone(),
            host: Sessions::random_id()?,
            next: AtomicU64::new(0),
        })
    }

    pub(super) async fn load(&self, key: &Key) -> Result<Option<Stamped>, SessionError> {
        let mut script = LOAD.key(self.session(key));
        script.arg(self.limits.age()).arg(self.clock.ahead());
        Ok(self.link.ask(Request::Script(&script)).await?)
    }

    pub(super) async fn swap(
        &self,
        key: &Key,
        from: Option<u64>,
        bytes: &[u8],
    ) -> Result<Option<u64>, SessionError> {
        self.swap_as(key, from, bytes, &self.mark()).await
    }

    /// The name of one change, the same however often it is asked for.
    pub(super) fn mark(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}.{number}", self.host)
    }

    pub(super) async fn swap_as(
        &self,
        key: &Key,
        from: Option<u64>,
        bytes: &[u8],
        mark: &str,
    ) -> Result<Option<u64>, SessionError> {
        let mut script = SWAP.key(self.session(key));
        script
            .key(self.order())
            .arg(self.limits.age())
            .arg(self.clock.ahead())
            .arg(MAX_DROPPED)
            .arg(from.map_or_else(String::new, |from| from.to_string()))
            .arg(bytes)
            .arg(mark)
            .arg(self.limits.max_sessions);
        Ok(self.link.ask(Request::Script(&script)).await?)
    }

    pub(super) async fn remove(&self, key: &Key) -> Result<bool, SessionError> {
        let mut script = REMOVE.key(self.session(key));
        script
            .key(self.order())
            .arg(self.limits.age())
            .arg(self.clock.ahead());
        Ok(self.link.ask(Request::Script(&script)).await?)
    }

    pub(super) async fn sweep(&self) -> Result<usize, SessionError> {
        loop {
            let mut script = SWEEP.key(self.order());
            script
                .arg(self.limits.age())
                .arg(self.clock.ahead())
                .arg(MAX_DROPPED);
            let (dropped, left): (usize, usize) = self.link.ask(Request::Script(&script)).await?;
            if dropped < MAX_DROPPED {
                return Ok(left);
            }
        }
    }

    /// Hashed, since owners are of any length and nobody's business.
    fn session(&self, key: &Key) -> String {
        let mut hash = Sha256::new();
        hash.update((key.owner.len() as u64).to_be_bytes());
        hash.update(&*key.owner);
        hash.update(&*key.id);
        let mut name = format!("{}session:", self.prefix);
        for byte in hash.finalize() {
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    fn order(&self) -> String {
        format!("{}sessions", self.prefix)
    }
}

impl From<RedisError> for SessionError {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl From<Unreachable> for SessionError {
    fn from(_: Unreachable) -> Self {
        Self::Unavailable
    }
}
