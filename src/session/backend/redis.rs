//! Sessions on a Redis server, for all hosts of a service.
//!
//! ```text
//! ragwire:session:<hash of owner and ID>  hash   s = stamp, v = the session, n = the mark of its last change
//! ragwire:sessions                        zset   those keys by their stamps, the oldest first
//! ragwire:session-owner:<hash of owner>   zset   the IDs of an owner's sessions by their stamps
//! ```
//!
//! Every change is one script that reads the server's clock, so that hosts whose clocks differ
//! agree on what has expired. Every key expires. A script that is sent twice because its reply was
//! lost takes effect once: it recognizes its own mark.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::Script;

use super::{Backend, Operation, Stored};
use crate::redis::check::check;
use crate::redis::keys::hashed;
use crate::redis::link::{Link, Request, Unreachable};
use crate::redis::{RedisError, RedisOptions};
use crate::session::clock::Clock;
use crate::session::key::Key;
use crate::session::{SessionError, SessionLimits, Sessions};

static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/load.lua")));
static SWAP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/swap.lua")));
static REMOVE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/remove.lua")));
static LIST: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/list.lua")));
static SWEEP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/sweep.lua")));

/// Most expired sessions that one script drops: the server does nothing else while it runs.
const MAX_DROPPED: usize = 64;

impl Sessions {
    /// Stores sessions on a Redis server. All hosts that open it with the same server, prefix and
    /// limits share them. The server is checked as for
    /// [`Journal::redis`](crate::turn::Journal::redis), and operations wait for it as long.
    ///
    /// ```no_run
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ragwire::redis::RedisOptions;
    /// use ragwire::session::{SessionLimits, Sessions};
    ///
    /// let options = RedisOptions::new("redis://127.0.0.1")?;
    /// let sessions = Sessions::redis(&options, SessionLimits::default()).await?;
    /// let session = sessions.begin("alice", None).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`SessionError::Redis`] if the server does not answer or is not fit to store sessions.
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    pub async fn redis(options: &RedisOptions, limits: SessionLimits) -> Result<Self, SessionError> {
        Self::redis_with(options, limits, Clock::default()).await
    }

    pub(in crate::session) async fn redis_with(
        options: &RedisOptions,
        limits: SessionLimits,
        clock: Clock,
    ) -> Result<Self, SessionError> {
        let redis = Redis::open(options, limits, clock).await?;
        Ok(Self::new(limits, redis))
    }
}

pub(in crate::session) struct Redis {
    limits: SessionLimits,
    /// Moved forward in tests only; the time itself comes from the server.
    clock: Clock,
    link: Link,
    prefix: String,
    /// Together with a number, marks the changes of this process.
    process: String,
    next_change: AtomicU64,
}

impl Backend for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn load<'a>(&'a self, key: &'a Key) -> Operation<'a, Option<Stored>> {
        Box::pin(async move {
            let mut script = LOAD.key(self.session(key));
            script.arg(self.limits.age()).arg(self.clock.ahead());
            let found: Option<(u64, Vec<u8>)> = self.link.request(Request::Script(&script)).await?;
            Ok(found.map(|(stamp, bytes)| Stored { stamp, bytes }))
        })
    }

    fn swap<'a>(&'a self, key: &'a Key, from: Option<u64>, bytes: Vec<u8>) -> Operation<'a, Option<u64>> {
        Box::pin(async move { self.swap_as(key, from, &bytes, &self.new_mark()).await })
    }

    fn remove<'a>(&'a self, key: &'a Key) -> Operation<'a, bool> {
        Box::pin(async move {
            let mut script = REMOVE.key(self.session(key));
            script
                .key(self.order())
                .key(self.of_owner(&key.owner))
                .arg(self.limits.age())
                .arg(self.clock.ahead())
                .arg(&*key.id);
            Ok(self.link.request(Request::Script(&script)).await?)
        })
    }

    fn list<'a>(&'a self, owner: &'a str, limit: usize) -> Operation<'a, Vec<(String, Stored)>> {
        Box::pin(async move {
            let mut script = LIST.key(self.of_owner(owner));
            script.arg(self.limits.age()).arg(self.clock.ahead()).arg(limit);
            let ids: Vec<String> = self.link.request(Request::Script(&script)).await?;
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                // A session that was evicted is still in the index of its owner.
                if let Some(stored) = self.load(&Key::new(owner, &id)?).await? {
                    found.push((id, stored));
                }
            }
            found.sort_by_key(|(_, stored)| std::cmp::Reverse(stored.stamp));
            Ok(found)
        })
    }

    fn sweep(&self) -> Operation<'_, usize> {
        Box::pin(async move {
            loop {
                let mut script = SWEEP.key(self.order());
                script
                    .arg(self.limits.age())
                    .arg(self.clock.ahead())
                    .arg(MAX_DROPPED);
                let (dropped, left): (usize, usize) = self.link.request(Request::Script(&script)).await?;
                if dropped < MAX_DROPPED {
                    return Ok(left);
                }
            }
        })
    }
}

impl Redis {
    pub(in crate::session) async fn open(
        options: &RedisOptions,
        limits: SessionLimits,
        clock: Clock,
    ) -> Result<Self, SessionError> {
        let link = Link::new(options);
        check(&link, options).await?;
        Ok(Self {
            limits,
            clock,
            link,
            prefix: options.prefix.clone(),
            process: Sessions::random_id()?,
            next_change: AtomicU64::new(0),
        })
    }

    /// Returns the mark of one change. Sending the change again does not alter it.
    pub(in crate::session) fn new_mark(&self) -> String {
        let number = self.next_change.fetch_add(1, Ordering::Relaxed);
        format!("{}.{number}", self.process)
    }

    pub(in crate::session) async fn swap_as(
        &self,
        key: &Key,
        from: Option<u64>,
        bytes: &[u8],
        mark: &str,
    ) -> Result<Option<u64>, SessionError> {
        let mut script = SWAP.key(self.session(key));
        script
            .key(self.order())
            .key(self.of_owner(&key.owner))
            .arg(self.limits.age())
            .arg(self.clock.ahead())
            .arg(MAX_DROPPED)
            .arg(from.map_or_else(String::new, |from| from.to_string()))
            .arg(bytes)
            .arg(mark)
            .arg(self.limits.max_sessions)
            .arg(&*key.id);
        Ok(self.link.request(Request::Script(&script)).await?)
    }

    fn session(&self, key: &Key) -> String {
        hashed(&self.prefix, "session", &key.owner, &key.id)
    }

    fn of_owner(&self, owner: &str) -> String {
        hashed(&self.prefix, "session-owner", owner, "")
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
