//! The state that only this process has: the sessions that it claims and the turns that it watches.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ragwire::turn::TurnId;
use tokio_util::task::TaskTracker;

use super::state::Phase;

/// How long a claim is valid without a renewal. If its host is killed, other hosts report the
/// session as active for that long.
const LEASE: Duration = Duration::from_secs(30);

/// The state of this process.
pub(super) struct ThisHost {
    name: String,
    next_claim: AtomicU64,
    /// The claims of this process, for turns whose response has not begun.
    claims: Mutex<HashSet<String>>,
    /// The turns whose lines this process counts.
    watched: Mutex<HashSet<TurnId>>,
    pub(super) tasks: TaskTracker,
}

impl ThisHost {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            name: TurnId::random().to_string(),
            next_claim: AtomicU64::new(0),
            claims: Mutex::default(),
            watched: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Returns whether a claim has ended without a release: on this host it was dropped, on another
    /// one it has expired.
    pub(super) fn is_abandoned(&self, claim: &str, until: u64) -> bool {
        if claim.starts_with(&self.name) {
            !lock(&self.claims).contains(claim)
        } else {
            until < now()
        }
    }

    pub(super) fn is_watching(&self, turn: &TurnId) -> bool {
        lock(&self.watched).contains(turn)
    }
}

/// A claim of this process on a session. Dropping it abandons the claim.
pub(super) struct Claim {
    host: Arc<ThisHost>,
    pub(super) name: String,
}

impl Claim {
    pub(super) fn new(host: &Arc<ThisHost>) -> Self {
        let number = host.next_claim.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{number}", host.name);
        lock(&host.claims).insert(name.clone());
        Self {
            host: Arc::clone(host),
            name,
        }
    }

    /// Returns the phase of a session with this claim, renewed from now.
    pub(super) fn phase(&self) -> Phase {
        Phase::Starting {
            host: self.name.clone(),
            until: now().saturating_add(LEASE.as_millis() as u64),
        }
    }

    /// Returns whether the session still has this claim.
    pub(super) fn is_held(&self, phase: &Phase) -> bool {
        matches!(phase, Phase::Starting { host, .. } if *host == self.name)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.host.claims).remove(&self.name);
    }
}

/// A turn that this process watches, until its end is stored.
pub(super) struct WatchedTurn {
    host: Arc<ThisHost>,
    turn: Option<TurnId>,
}

impl WatchedTurn {
    pub(super) fn new(host: &Arc<ThisHost>, turn: &str) -> Self {
        let turn = TurnId::parse(turn);
        lock(&host.watched).extend(turn);
        Self {
            host: Arc::clone(host),
            turn,
        }
    }
}

impl Drop for WatchedTurn {
    fn drop(&mut self) {
        if let Some(turn) = &self.turn {
            lock(&self.host.watched).remove(turn);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
