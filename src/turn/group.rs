//! Turns that are counted and ended together: the limit on concurrent turns, and graceful shutdown.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::{Rejected, TurnHandle, TurnId};
use crate::frame::Failure;

/// What a client is told to wait when all places are taken: about the length of a short turn.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Turns that are counted and ended together. Clones are the same group.
///
/// A turn belongs to the group until both its orchestrator and its reader are gone.
#[derive(Clone, Debug)]
pub struct TurnGroup {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    max_turns: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    turns: HashMap<TurnId, TurnHandle>,
    closed: bool,
}

impl TurnGroup {
    /// A group of at most `max_turns` turns at a time.
    pub fn new(max_turns: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                max_turns,
                state: Mutex::default(),
                changed: Notify::new(),
            }),
        }
    }

    /// How many turns are running.
    pub fn active(&self) -> usize {
        self.lock().turns.len()
    }

    /// The turn of that id, while its orchestrator or its reader is there.
    ///
    /// An id is no authority: who hands it in has to be the turn's owner by some other proof.
    pub fn get(&self, id: &TurnId) -> Option<TurnHandle> {
        self.lock().turns.get(id).cloned()
    }

    /// Whether a turn could join now. A request that is refused anyway need not be read.
    ///
    /// # Errors
    ///
    /// [`Rejected`], as the turn itself would be.
    pub fn check(&self) -> Result<(), Rejected> {
        self.lock().admit(self.shared.max_turns)
    }

    /// Refuses new turns, and ends those that run with a failure. Their readers still have to take it: wait with
    /// [`drained`](Self::drained).
    pub fn shut_down(&self) {
        let turns: Vec<_> = {
            let mut state = self.lock();
            state.closed = true;
            state.turns.values().cloned().collect()
        };
        for turn in turns {
            turn.fail(shutting_down());
        }
    }

    /// Waits until no turn is running.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this future is dropped; call it again.
    pub async fn drained(&self) {
        loop {
            let changed = self.shared.changed.notified();
            if self.active() == 0 {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn join(&self, turn: &TurnHandle) -> Result<Membership, Rejected> {
        let mut state = self.lock();
        state.admit(self.shared.max_turns)?;
        state.turns.insert(turn.id(), turn.clone());
        Ok(Membership(Arc::new(Place {
            group: self.clone(),
            id: turn.id(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn admit(&self, max_turns: usize) -> Result<(), Rejected> {
        let failure = if self.closed {
            shutting_down()
        } else if self.turns.len() >= max_turns {
            Failure::new(
                Failure::BUSY,
                "Too many questions are being answered. Please retry in a moment.",
            )
        } else {
            return Ok(());
        };
        Err(Rejected {
            retry_after: Some(RETRY_AFTER),
            ..Rejected::new(failure)
        })
    }
}

pub(crate) fn shutting_down() -> Failure {
    Failure::new(
        Failure::SHUTTING_DOWN,
        "The server is restarting. Please retry in a moment.",
    )
}

/// A turn's place in its group, held by its orchestrator and by its reader.
#[derive(Clone, Debug)]
pub(super) struct Membership(#[expect(dead_code, reason = "held for its Drop")] Arc<Place>);

#[derive(Debug)]
struct Place {
    group: TurnGroup,
    id: TurnId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let turn = self.group.lock().turns.remove(&self.id);
        // Outside of the lock: it may be the last to hold the turn's queue.
        drop(turn);
        self.group.shared.changed.notify_waiters();
    }
}
