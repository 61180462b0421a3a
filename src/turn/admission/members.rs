//! The active members of a group and its waiting list: first come, first served.
//!
//! A plain value under the group's only lock. It knows no clock and wakes no task itself: work for
//! after the lock is returned as a [`Deferred`].

use std::cmp::Ordering;
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
    pub(super) max_active_per_client: usize,
    pub(super) max_queued_per_client: usize,
}

/// The names by which limits count a turn.
#[derive(Clone, Debug, Default)]
pub(in crate::turn) struct Names {
    /// Its owner, or the lane in place of it.
    pub(in crate::turn) lane: Option<Arc<str>>,
    /// Its client.
    pub(in crate::turn) client: Option<Arc<str>>,
}

/// How many active turns there are by name.
#[derive(Debug, Default)]
struct Shares(HashMap<Arc<str>, usize>);

impl Shares {
    fn of(&self, name: Option<&Arc<str>>) -> usize {
        name.and_then(|name| self.0.get(name))
            .copied()
            .unwrap_or_default()
    }

    fn add(&mut self, name: Option<&Arc<str>>) {
        if let Some(name) = name {
            *self.0.entry(Arc::clone(name)).or_default() += 1;
        }
    }

    fn remove(&mut self, name: Option<&Arc<str>>) {
        if let Some(name) = name
            && let Some(share) = self.0.get_mut(name)
        {
            *share -= 1;
            if *share == 0 {
                self.0.remove(name);
            }
        }
    }
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
    /// The active turns of each owner or lane. Turns without one are not counted.
    lanes: Shares,
    /// The active turns of each client.
    clients: Shares,
    is_closed: bool,
}

#[derive(Debug)]
struct Active {
    turn: TurnHandle,
    names: Names,
    /// Orders the active turns by the time of their activation.
    since: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    turn: TurnHandle,
    names: Names,
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

    /// Returns all running turns.
    pub(super) fn running(&self) -> Vec<TurnHandle> {
        self.active.values().map(|active| active.turn.clone()).collect()
    }

    /// Adds a turn: it is admitted at once or appended to the waiting list.
    pub(super) fn join(
        &mut self,
        limits: &Limits,
        turn: &TurnHandle,
        names: Names,
    ) -> (Result<Joined, Failure>, Deferred) {
        if self.is_closed {
            return (Err(shutting_down()), Deferred::default());
        }
        let share = self.lanes.of(names.lane.as_ref());
        let number = self.next_number();
        // If there is room, all waiting turns wait for another turn of their owner or client, so
        // this one overtakes none.
        if self.active.len() < limits.max_active
            && share < limits.max_per_owner
            && self.clients.of(names.client.as_ref()) < limits.max_active_per_client
        {
            self.activate(number, turn.clone(), names);
            return (Ok(Joined { number, position: 0 }), Deferred::default());
        }
        // Turns that have ended take no room on the waiting list.
        let mut deferred = self.update(limits);
        if self.waiting.len() >= limits.max_queued {
            let same = |waiting: &&Waiting| names.lane.is_some() && waiting.names.lane == names.lane;
            let open = share + self.waiting.iter().filter(same).count();
            let failure = if names.lane.is_some() && open >= limits.max_per_owner {
                too_many()
            } else {
                busy()
            };
            return (Err(failure), deferred);
        }
        let same = |waiting: &&Waiting| names.client.is_some() && waiting.names.client == names.client;
        if self.waiting.iter().filter(same).count() >= limits.max_queued_per_client {
            return (Err(too_many()), deferred);
        }
        self.waiting.push(Waiting {
            number,
            turn: turn.clone(),
            names,
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
            .filter_map(|active| active.names.lane.as_deref().map(str::to_owned))
            .collect()
    }

    /// Returns the owners of the waiting turns, in order of arrival.
    pub(super) fn queued_owners(&self) -> Vec<String> {
        self.still_waiting()
            .filter_map(|waiting| waiting.names.lane.as_deref().map(str::to_owned))
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

    fn find(&self, number: u64) -> Option<usize> {
        self.waiting
            .binary_search_by_key(&number, |waiting| waiting.number)
            .ok()
    }

    fn activate(&mut self, number: u64, turn: TurnHandle, names: Names) {
        self.lanes.add(names.lane.as_ref());
        self.clients.add(names.client.as_ref());
        let since = self.next_number();
        self.active.insert(number, Active { turn, names, since });
    }

    /// Removes a running or waiting turn.
    fn remove(&mut self, number: u64) -> Option<TurnHandle> {
        if let Some(index) = self.find(number) {
            return Some(self.waiting.remove(index).turn);
        }
        let active = self.active.remove(&number)?;
        self.lanes.remove(active.names.lane.as_ref());
        self.clients.remove(active.names.client.as_ref());
        Some(active.turn)
    }

    /// Admits waiting turns while there is room, and updates the positions of the others. Turns
    /// that have ended are removed. A turn that waits for another one of its owner or client is
    /// passed over and does not delay others.
    fn update(&mut self, limits: &Limits) -> Deferred {
        let mut deferred = Deferred::default();
        if self.waiting.is_empty() {
            return deferred;
        }
        let mut free_before = 0;
        let (mut lanes, mut clients) = (WaitingBefore::default(), WaitingBefore::default());
        let list = std::mem::take(&mut self.waiting);
        self.waiting.reserve(list.len());
        for mut waiting in list {
            if waiting.is_finished() {
                self.ended += 1;
                deferred.drop.push(waiting.turn);
                continue;
            }
            let Names { lane, client } = &waiting.names;
            let of_lane = lanes.limited(lane.as_ref(), &self.lanes, limits.max_per_owner);
            let of_client = clients.limited(client.as_ref(), &self.clients, limits.max_active_per_client);
            // The limit with more turns ahead decides when the turn is admitted.
            let limited = of_lane.max(of_client);
            if limited.is_none() && self.active.len() < limits.max_active && !self.is_closed {
                deferred.wake.extend(waiting.waker.take());
                self.activate(waiting.number, waiting.turn, waiting.names);
                continue;
            }
            lanes.add(lane.as_ref(), of_lane.is_none());
            clients.add(client.as_ref(), limited.is_none());
            let Ahead {
                waiting: waiting_before,
                running,
            } = limited.unwrap_or(Ahead {
                waiting: free_before,
                running: self.active.len(),
            });
            let position = Position {
                index: count(waiting_before + 1),
                ahead: count(waiting_before + running),
            };
            if waiting.position != position {
                waiting.position = position;
                deferred.wake.extend(waiting.waker.take());
            }
            free_before += usize::from(limited.is_none());
            self.waiting.push(waiting);
        }
        deferred
    }
}

/// The turns with the same name that have to end before a limited turn is admitted. The order is
/// that of their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ahead {
    waiting: usize,
    running: usize,
}

impl Ord for Ahead {
    fn cmp(&self, other: &Self) -> Ordering {
        let turns = |ahead: &Self| (ahead.waiting + ahead.running, ahead.waiting);
        turns(self).cmp(&turns(other))
    }
}

impl PartialOrd for Ahead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By name, how many turns are on the waiting list before the current one.
#[derive(Debug, Default)]
struct WaitingBefore(HashMap<Arc<str>, CountBefore>);

#[derive(Clone, Copy, Debug, Default)]
struct CountBefore {
    all: usize,
    /// Those that wait for room in the group and not for another turn with the same name.
    free: usize,
}

impl WaitingBefore {
    /// Returns what is ahead of the next turn with this name if the name's limit keeps it waiting.
    fn limited(&self, name: Option<&Arc<str>>, active: &Shares, limit: usize) -> Option<Ahead> {
        let before = self.0.get(name?).copied().unwrap_or_default();
        let running = active.of(name);
        let waiting = before.all;
        (running + before.free >= limit).then_some(Ahead { waiting, running })
    }

    fn add(&mut self, name: Option<&Arc<str>>, is_free: bool) {
        if let Some(name) = name {
            let before = self.0.entry(Arc::clone(name)).or_default();
            before.all += 1;
            before.free += usize::from(is_free);
        }
    }
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
