//! The list of documents of a shared library: what a host knows of it, and what has changed.
//!
//! A host reads the whole list at its start, then every fraction of a second what changed in the last
//! seconds, and more and more seldom what changed in the last minutes, and the whole list. Clocks only
//! decide what is looked at, never which of two changes is later: each document has a version that
//! grows with each change.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::records::{Head, Mark};
use super::remote::Remote;
use crate::search::store::StoreError;

/// How far back a look goes: the clocks of hosts may differ so much, less the time of a write, for a
/// change to be seen by it.
const RECENT_MS: u64 = 5_000;
const MINUTES_MS: u64 = 120_000;

/// What a host looks at for changes of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// What changed in the last 5 seconds.
    Recent,
    /// What changed in the last 2 minutes.
    Minutes,
    /// Everything.
    All,
}

/// The head of a removed document is kept for so long. By then every host has compared the whole list.
const REMOVED_MS: u64 = 24 * 60 * 60 * 1_000;

/// What a host knows of the documents of a shared library.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) remote: Remote,
    /// The version of each key, also of removed documents.
    versions: Mutex<HashMap<String, u64>>,
    /// The highest of them.
    newest: AtomicU64,
    /// Documents without a head, and since when they are known.
    orphans: Mutex<HashMap<u64, Instant>>,
}

/// Changes of the list of documents.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) heads: Vec<Head>,
    /// Keys that are not in the list any more.
    pub(super) missing: Vec<String>,
}

impl Catalogue {
    pub(super) fn new(remote: Remote) -> Self {
        Self {
            remote,
            versions: Mutex::default(),
            newest: AtomicU64::new(0),
            orphans: Mutex::default(),
        }
    }

    /// Reads what has changed.
    pub(super) async fn news(&self, look: Look) -> Result<News, StoreError> {
        let since = |window| {
            let newest = self.newest.load(Ordering::Relaxed);
            Some(newest.min(now_ms()).saturating_sub(window))
        };
        let (since, before) = match look {
            Look::Recent => (since(RECENT_MS), HashMap::new()),
            Look::Minutes => (since(MINUTES_MS), HashMap::new()),
            Look::All => (None, self.versions().clone()),
        };
        let marks = self.remote.marks(since).await?;
        let listed: HashSet<&str> = marks.iter().map(|mark| mark.key.as_str()).collect();
        let missing = before.iter().filter(|(key, version)| {
            !listed.contains(key.as_str()) && self.versions().get(*key) == Some(*version)
        });
        let missing = missing.map(|(key, _)| key.clone()).collect();
        let changed: Vec<Mark> = marks.into_iter().filter(|mark| self.is_news(mark)).collect();
        let live = changed.iter().filter(|mark| mark.live);
        let keys: Vec<String> = live.map(|mark| mark.key.clone()).collect();
        let mut heads = self.remote.heads(&keys).await?;
        let removed = changed.into_iter().filter(|mark| !mark.live);
        heads.extend(removed.map(|mark| Head { mark, document: None }));
        // Of several documents that were added, the older one comes first.
        heads.sort_by_key(|head| head.mark.begins);
        Ok(News { heads, missing })
    }

    /// Reads the head of one key, whenever it changed.
    pub(super) async fn news_of(&self, key: String) -> Result<News, StoreError> {
        Ok(News {
            heads: self.remote.heads(&[key]).await?,
            missing: Vec::new(),
        })
    }

    fn is_news(&self, mark: &Mark) -> bool {
        self.version(&mark.key).is_none_or(|known| mark.version > known)
    }

    /// Returns the version of a key, if a document has or had it.
    pub(super) fn version(&self, key: &str) -> Option<u64> {
        self.versions().get(key).copied()
    }

    /// Returns the version after the known one.
    pub(super) fn next_version(&self, key: &str) -> u64 {
        let known = self.version(key).map_or(0, |version| version + 1);
        known.max(now_ms())
    }

    /// Records a version. Returns `false` if it is not newer than the known one.
    pub(super) fn learn(&self, mark: &Mark) -> bool {
        let mut versions = self.versions();
        let known = versions.entry(mark.key.clone()).or_insert(0);
        let is_news = mark.version > *known;
        *known = mark.version.max(*known);
        self.newest.fetch_max(mark.version, Ordering::Relaxed);
        is_news
    }

    pub(super) fn forget(&self, key: &str) {
        self.versions().remove(key);
    }

    fn versions(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes passages without a head that this host has known for `grace`: of uploads that another
    /// host did not finish, and of removals. Returns of how many documents.
    pub(super) async fn sweep(&self, grace: Duration) -> Result<usize, StoreError> {
        // In this order: a document that is written in between is in the second list.
        let firsts = self.remote.firsts().await?;
        let marks = self.remote.marks(None).await?;
        let live = marks.into_iter().filter(|mark| mark.live);
        let live: HashSet<u64> = live.map(|mark| mark.begins).collect();
        let due: Vec<u64> = {
            let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
            let (now, known) = (Instant::now(), std::mem::take(&mut *orphans));
            for first in firsts.into_iter().filter(|first| !live.contains(first)) {
                orphans.insert(first, known.get(&first).copied().unwrap_or(now));
            }
            let is_due = |since: &Instant| now.duration_since(*since) >= grace;
            let due = orphans.iter().filter(|(_, since)| is_due(since));
            due.map(|(first, _)| *first).collect()
        };
        for first in &due {
            self.remote.delete_passages(*first).await?;
        }
        self.remote
            .delete_removed(now_ms().saturating_sub(REMOVED_MS))
            .await?;
        Ok(due.len())
    }
}

fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_millis() as u64
}
