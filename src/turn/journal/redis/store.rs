//! A journal's server: the connection, and the turns and replies that this process waits for.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::appender::Appender;
use super::keys::Keys;
use super::messages::Outcome;
use super::mirror::Mirror;
use crate::redis::link::Link;
use crate::redis::{Durability, RedisOptions};
use crate::turn::TurnId;
use crate::turn::journal::JournalLimits;
use crate::turn::journal::registry::Registry;

/// The time for which the keys of a running turn survive its host beyond the lease, the retry time
/// and the time that finished turns are kept: longer than the clocks and pauses of two hosts
/// differ.
const MARGIN: Duration = Duration::from_secs(60);

/// The server of a journal.
pub(in crate::turn::journal) struct Store {
    pub(super) registry: Arc<Registry>,
    pub(super) options: RedisOptions,
    pub(super) limits: JournalLimits,
    pub(super) link: Link,
    pub(super) appender: Appender,
    /// The name of this journal in this process.
    pub(super) process: String,
    pub(super) durability: Durability,
    pub(super) subscriptions: Mutex<Subscriptions>,
    /// Dropped with the journal, which ends the subscriber.
    pub(super) closed: watch::Sender<()>,
}

/// The turns and replies that this process waits for.
#[derive(Default)]
pub(super) struct Subscriptions {
    /// In an order that is the same in each run of the simulation.
    pub(super) mirrors: BTreeMap<TurnId, Mirror>,
    /// The calls to other hosts that wait for a reply, by their numbers.
    pub(super) calls: HashMap<u64, oneshot::Sender<Outcome>>,
    pub(super) next_call: u64,
    /// The ID of the last inbox entry that was read; empty before the first.
    pub(super) inbox_position: String,
    /// Whether a subscriber runs.
    pub(super) has_subscriber: bool,
}

impl Store {
    pub(super) fn lock(&self) -> MutexGuard<'_, Subscriptions> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time to live of the keys of a running turn.
    pub(super) fn running_ttl(&self) -> Duration {
        let RedisOptions { lease, retry, .. } = self.options;
        self.limits.keep.saturating_add(lease + retry + MARGIN)
    }

    pub(super) fn keys(&self, id: TurnId) -> Keys {
        Keys::of(&self.options.prefix, id)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
