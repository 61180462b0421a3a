//! The active members of a group and its waiting list: first come, first served.
//!
//! A plain value under the group's only lock. It knows no clock and wakes no task itself: work for
//! after the lock is returned as a [`Deferred`].

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::failure::{Failure, FailureKind};
use crate::turn::handle::TurnHandle;
use crate::turn::id::TurnId;

/// How many turns may run and how many may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_active: usize,
    pub(super) max_queued: usize,
    pub(super) max_per_owner: usize,
}

/// The members of a group.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// The last number given to a member or to an activation.
    last_number: u64,
    active: HashMap<u64, Active>,
    /// The waiting list, in the order of arrival and so of the members' numbers.
    waiting: Vec<Waiting>,
    /// How many members ended on the waiting list but still have a reader or an orchestrator.
    ended: usize,
    /// How many active turns each owner has. Turns without an owner are not counted.
    shares: HashMap<Arc<str>, usize>,
    is_closed: bool,
}

#[derive(Debug)]
struct Active {
    turn: TurnHandle,
    owner: Option<Arc<str>>,
    /// Orders the active turns by the time of their activation.
    since: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    turn: TurnHandle,
    owner: Option<Arc<str>>,
    position: Position,
    waker: Option<Waker>,
}

/// A position on the waiting list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// 1 is the next turn to be admitted.
    pub(super) index: u32,
    /// How many turns, waiting or running, have to end before this one is admitted.
    pub(super) ahead: u32,
}

/// The result of joining a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) number: u64,
    /// The index on the waiting list at that time; 0 if the turn was admitted at once.
    pub(super) position: u32,
}

/// Work for after the lock is released.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Deferred {
    wake: Vec<Waker>,
    /// Handles that may be the last owners of their queues.
    drop: Vec<TurnHandle>,
}

impl Deferred {
    pub(super) fn run(self) {
        drop(self.drop);
        self.wake.into_iter().for_each(Waker::wake);
    }
}

impl Members {
    /// Returns the turn with this ID, running or waiting.
    pub(super) fn turn(&self, id: &TurnId) -> Option<TurnHandle> {
        let active = self.active.values().map(|active| &active.turn);
        let mut turns = active.chain(self.waiting.iter().map(|waiting| &waiting.turn));
        turns.find(|turn| turn.id() == *id).cloned()
    }

    /// Adds a turn: it is admitted at once or appended to the waiting list.
    pub(super) fn join(
        &mut self,
        limits: &Limits,
        turn: &TurnHandle,
        owner: Option<Arc<str>>,
    ) -> (Result<Joined, Failure>, Deferred) {
        if self.is_closed {
            return (Err(shutting_down()), Deferred::default());
        }
        let share = self.share(owner.as_ref());
        let number = self.next_number();
        // If there is room, all waiting turns wait for another turn of their owner, so this one
        // overtakes none.
        if self.active.len() < limits.max_active && share < limits.max_per_owner {
            self.activate(number, turn.clone(), owner);
            return (Ok(Joined { number, position: 0 }), Deferred::default());
        }
        // Turns that have ended take no room on the waiting list.
        let mut deferred = self.update(limits);
        if self.waiting.len() >= limits.max_queued {
            let same = |waiting: &&Waiting| owner.is_some() && waiting.owner == owner;
            let open = share + self.waiting.iter().filter(same).count();
            let failure = if owner.is_some() && open >= limits.max_per_owner {
                too_many()
            } else {
                busy()
            };
            return (Err(failure), deferred);
        }
        self.waiting.push(Waiting {
            number,
            turn: turn.clone(),
            owner,
            position: Position::default(),
            waker: None,
        });
        let updated = self.update(limits);
        deferred.wake.extend(updated.wake);
        deferred.drop.extend(updated.drop);
        let last = self.waiting.last().filter(|last| last.number == number);
        let position = last.map_or(0, |last| last.position.index);
        (Ok(Joined { number, position }), deferred)
    }

    /// Checks whether a turn without an owner could join now.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), Failure> {
        if self.is_closed {
            Err(shutting_down())
        } else if self.active.len() < limits.max_active || self.queued() < limits.max_queued {
            Ok(())
        } else {
            Err(busy())
        }
    }

    /// Returns the turn's position and registers the waker for a change of it. Returns `None` once
    /// the turn is no longer on the waiting list.
    pub(super) fn poll_position(&mut self, number: u64, cx: &Context<'_>) -> Option<Position> {
        let index = self.find(number)?;
        let waiting = self.waiting.get_mut(index)?;
        match &mut waiting.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => waiting.waker = Some(cx.waker().clone()),
        }
        Some(waiting.position)
    }

    /// Removes a turn that ended on the waiting list but still has a reader or an orchestrator.
    pub(super) fn give_up(&mut self, limits: &Limits, number: u64) -> Deferred {
        let Some(turn) = self.remove(number) else {
            return Deferred::default();
        };
        self.ended += 1;
        let mut deferred = self.update(limits);
        deferred.drop.push(turn);
        deferred
    }

    /// Removes a turn that has neither a reader nor an orchestrator.
    pub(super) fn leave(&mut self, limits: &Limits, number: u64) -> Deferred {
        let Some(turn) = self.remove(number) else {
            self.ended -= 1;
            return Deferred::default();
        };
        let mut deferred = self.update(limits);
        deferred.drop.push(turn);
        deferred
    }

    /// Refuses new turns, keeps waiting ones from starting, and returns all turns.
    pub(super) fn close(&mut self) -> Vec<TurnHandle> {
        self.is_closed = true;
        let active = self.active.values().map(|active| active.turn.clone());
        let waiting = self.waiting.iter().map(|waiting| waiting.turn.clone());
        active.chain(waiting).collect()
    }

    pub(super) fn active(&self) -> usize {
        self.active.len()
    }

    pub(super) fn queued(&self) -> usize {
        self.still_waiting().count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty() && self.ended == 0
    }

    /// Returns the owners of the active turns, the longest active first.
    pub(super) fn active_owners(&self) -> Vec<String> {
        let mut active: Vec<_> = self.active.values().collect();
        active.sort_unstable_by_key(|active| active.since);
        active
            .into_iter()
            .filter_map(|active| active.owner.as_deref().map(str::to_owned))
            .collect()
    }

    /// Returns the owners of the waiting turns, in order of arrival.
    pub(super) fn queued_owners(&self) -> Vec<String> {
        self.still_waiting()
            .filter_map(|waiting| waiting.owner.as_deref().map(str::to_owned))
            .collect()
    }

    /// Returns the waiting turns without those that ended since the list was last updated.
    fn still_waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(|waiting| !waiting.is_finished())
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn share(&self, owner: Option<&Arc<str>>) -> usize {
        owner
            .and_then(|owner| self.shares.get(owner))
            .copied()
            .unwrap_or_default()
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.waiting
            .binary_search_by_key(&number, |waiting| waiting.number)
            .ok()
    }

    fn activate(&mut self, number: u64, turn: TurnHandle, owner: Option<Arc<str>>) {
        if let Some(owner) = &owner {
            *self.shares.entry(Arc::clone(owner)).or_default() += 1;
        }
        let since = self.next_number();
        self.active.insert(number, Active { turn, owner, since });
    }

    /// Removes a running or waiting turn.
    fn remove(&mut self, number: u64) -> Option<TurnHandle> {
        if let Some(index) = self.find(number) {
            return Some(self.waiting.remove(index).turn);
        }
        let active = self.active.remove(&number)?;
        if let Some(owner) = &active.owner
            && let Some(share) = self.shares.get_mut(owner)
        {
            *share -= 1;
            if *share == 0 {
                self.shares.remove(owner);
            }
        }
        Some(active.turn)
    }

    /// Admits waiting turns while there is room, and updates the positions of the others. Turns
    /// that have ended are removed. A turn that waits for another one of its owner is passed over
    /// and does not delay other owners.
    fn update(&mut self, limits: &Limits) -> Deferred {
        let mut deferred = Deferred::default();
        if self.waiting.is_empty() {
            return deferred;
        }
        let mut free_before = 0;
        let mut before: HashMap<Arc<str>, OwnerWaiting> = HashMap::new();
        let list = std::mem::take(&mut self.waiting);
        self.waiting.reserve(list.len());
        for mut waiting in list {
            if waiting.is_finished() {
                self.ended += 1;
                deferred.drop.push(waiting.turn);
                continue;
            }
            let share = self.share(waiting.owner.as_ref());
            let of_owner = waiting
                .owner
                .as_ref()
                .map(|owner| *before.entry(Arc::clone(owner)).or_default());
            let limited = of_owner.filter(|waiting| share + waiting.free >= limits.max_per_owner);
            if limited.is_none() && self.active.len() < limits.max_active && !self.is_closed {
                deferred.wake.extend(waiting.waker.take());
                self.activate(waiting.number, waiting.turn, waiting.owner);
                continue;
            }
            let (waiting_before, running) = match limited {
                Some(of_owner) => (of_owner.all, share),
                None => (free_before, self.active.len()),
            };
            let position = Position {
                index: count(waiting_before + 1),
                ahead: count(waiting_before + running),
            };
            if waiting.position != position {
                waiting.position = position;
                deferred.wake.extend(waiting.waker.take());
            }
            free_before += usize::from(limited.is_none());
            if let Some(of_owner) = waiting.owner.as_ref().and_then(|owner| before.get_mut(owner)) {
                of_owner.all += 1;
                of_owner.free += usize::from(limited.is_none());
            }
            self.waiting.push(waiting);
        }
        deferred
    }
}

/// How many turns of one owner are on the waiting list before the current one.
#[derive(Clone, Copy, Debug, Default)]
struct OwnerWaiting {
    all: usize,
    /// Those that wait for room in the group and not for another turn of their owner.
    free: usize,
}

impl Waiting {
    /// Returns `true` if the turn was stopped or its reader disconnected.
    fn is_finished(&self) -> bool {
        self.turn.queue.closed().is_some()
    }
}

fn count(turns: usize) -> u32 {
    u32::try_from(turns).unwrap_or(u32::MAX)
}

pub(in crate::turn) fn busy() -> Failure {
    Failure::new(
        FailureKind::Busy,
        "Too many questions are being answered. Please retry in a moment.",
    )
}

fn too_many() -> Failure {
    Failure::new(
        FailureKind::TooMany,
        "You have as many questions open as you may. Please retry in a moment.",
    )
}

pub(crate) fn shutting_down() -> Failure {
    Failure::new(
        FailureKind::ShuttingDown,
        "The server is restarting. Please retry in a moment.",
    )
}
