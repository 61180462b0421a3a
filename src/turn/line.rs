//! Who has a place in a group, and who waits for one: first come, first served.
//!
//! A plain value under the group's one lock. It knows no clock, and wakes nobody itself: what is to be done once the lock is let go
//! of comes back as an [`After`].

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::{TurnHandle, TurnId};
use crate::failure::{Failure, FailureKind};

/// How many may run, and how many may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_active: usize,
    pub(super) max_queued: usize,
    pub(super) max_per_owner: usize,
}

/// Those who run, and those who wait.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Numbers tickets, and the moments at which turns became active.
    next: u64,
    active: HashMap<u64, Active>,
    /// In the order in which they came, which is that of their tickets.
    waiting: Vec<Waiting>,
    /// How many ended while they waited, and are still somebody's.
    left: usize,
    /// How many active turns an owner has; nobody without one stands here.
    shares: HashMap<Arc<str>, usize>,
    closed: bool,
}

#[derive(Debug)]
struct Active {
    turn: TurnHandle,
    owner: Option<Arc<str>>,
    since: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    turn: TurnHandle,
    owner: Option<Arc<str>>,
    spot: Spot,
    waker: Option<Waker>,
}

/// Where a turn stands in the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spot {
    /// 1 is next.
    pub(super) position: u32,
    /// Turns that have to end before it gets its place, waiting or running.
    pub(super) ahead: u32,
}

/// What a turn is told that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) ticket: u64,
    /// Where it stood then; 0 is at once.
    pub(super) position: u32,
}

/// What is left to do without the lock.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct After {
    wake: Vec<Waker>,
    /// A handle may be the last to hold its turn's queue.
    drop: Vec<TurnHandle>,
}

impl After {
    pub(super) fn run(self) {
        drop(self.drop);
        self.wake.into_iter().for_each(Waker::wake);
    }
}

impl Line {
    /// The turn of that id, running or waiting.
    pub(super) fn turn(&self, id: &TurnId) -> Option<TurnHandle> {
        let active = self.active.values().map(|active| &active.turn);
        let mut turns = active.chain(self.waiting.iter().map(|waiting| &waiting.turn));
        turns.find(|turn| turn.id() == *id).cloned()
    }

    /// Takes a turn in, at once or behind those who wait.
    pub(super) fn join(
        &mut self,
        limits: &Limits,
        turn: &TurnHandle,
        owner: Option<Arc<str>>,
    ) -> (Result<Joined, Failure>, After) {
        if self.closed {
            return (Err(shutting_down()), After::default());
        }
        let share = self.share(owner.as_ref());
        let ticket = self.number();
        // Whoever waits while there are places waits for a turn of its own owner, so nobody is overtaken.
        if self.active.len() < limits.max_active && share < limits.max_per_owner {
            self.activate(ticket, turn.clone(), owner);
            return (Ok(Joined { ticket, position: 0 }), After::default());
        }
        // Those who left take no room.
        let mut after = self.settle(limits);
        if self.waiting.len() >= limits.max_queued {
            let same = |waiting: &&Waiting| owner.is_some() && waiting.owner == owner;
            let open = share + self.waiting.iter().filter(same).count();
            let failure = if owner.is_some() && open >= limits.max_per_owner {
                too_many()
            } else {
                busy()
            };
            return (Err(failure), after);
        }
        self.waiting.push(Waiting {
            ticket,
            turn: turn.clone(),
            owner,
            spot: Spot::default(),
            waker: None,
        });
        let settled = self.settle(limits);
        after.wake.extend(settled.wake);
        after.drop.extend(settled.drop);
        let last = self.waiting.last().filter(|last| last.ticket == ticket);
        let position = last.map_or(0, |last| last.spot.position);
        (Ok(Joined { ticket, position }), after)
    }

    /// Whether a turn that is nobody's could join now.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), Failure> {
        if self.closed {
            Err(shutting_down())
        } else if self.active.len() < limits.max_active || self.queued() < limits.max_queued {
            Ok(())
        } else {
            Err(busy())
        }
    }

    /// Where a turn stands, and whom to wake when that changes; `None` once it does not wait any more.
    pub(super) fn look(&mut self, ticket: u64, cx: &Context<'_>) -> Option<Spot> {
        let at = self.find(ticket)?;
        let waiting = self.waiting.get_mut(at)?;
        match &mut waiting.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => waiting.waker = Some(cx.waker().clone()),
        }
        Some(waiting.spot)
    }

    /// A turn ended before it got to run: its place is free, though the turn is still somebody's.
    pub(super) fn give_up(&mut self, limits: &Limits, ticket: u64) -> After {
        let Some(turn) = self.take(ticket) else {
            return After::default();
        };
        self.left += 1;
        let mut after = self.settle(limits);
        after.drop.push(turn);
        after
    }

    /// A turn is nobody's any more.
    pub(super) fn leave(&mut self, limits: &Limits, ticket: u64) -> After {
        let Some(turn) = self.take(ticket) else {
            self.left -= 1;
            return After::default();
        };
        let mut after = self.settle(limits);
        after.drop.push(turn);
        after
    }

    /// Takes nobody in any more, and lets nobody start who waits. Gives all turns.
    pub(super) fn close(&mut self) -> Vec<TurnHandle> {
        self.closed = true;
        let active = self.active.values().map(|active| active.turn.clone());
        let waiting = self.waiting.iter().map(|waiting| waiting.turn.clone());
        active.chain(waiting).collect()
    }

    pub(super) fn active(&self) -> usize {
        self.active.len()
    }

    pub(super) fn queued(&self) -> usize {
        self.standing().count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty() && self.left == 0
    }

    /// The owners of the active turns, the one active for longest first.
    pub(super) fn active_owners(&self) -> Vec<String> {
        let mut active: Vec<_> = self.active.values().collect();
        active.sort_unstable_by_key(|active| active.since);
        active
            .into_iter()
            .filter_map(|active| active.owner.as_deref().map(str::to_owned))
            .collect()
    }

    /// The owners of the turns that wait, in the order in which they came.
    pub(super) fn queued_owners(&self) -> Vec<String> {
        self.standing()
            .filter_map(|waiting| waiting.owner.as_deref().map(str::to_owned))
            .collect()
    }

    /// Those who wait and have not been stopped or left alone since anybody looked.
    fn standing(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(|waiting| !waiting.is_over())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn share(&self, owner: Option<&Arc<str>>) -> usize {
        owner
            .and_then(|owner| self.shares.get(owner))
            .copied()
            .unwrap_or_default()
    }

    fn find(&self, ticket: u64) -> Option<usize> {
        self.waiting
            .binary_search_by_key(&ticket, |waiting| waiting.ticket)
            .ok()
    }

    fn activate(&mut self, ticket: u64, turn: TurnHandle, owner: Option<Arc<str>>) {
        if let Some(owner) = &owner {
            *self.shares.entry(Arc::clone(owner)).or_default() += 1;
        }
        let since = self.number();
        self.active.insert(ticket, Active { turn, owner, since });
    }

    /// Takes a turn out that runs or waits.
    fn take(&mut self, ticket: u64) -> Option<TurnHandle> {
        if let Some(at) = self.find(ticket) {
            return Some(self.waiting.remove(at).turn);
        }
        let active = self.active.remove(&ticket)?;
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

    /// Gives free places to those who wait, and everybody else its spot. Who left is skipped; who waits for a turn of its own
    /// owner is passed over, and stands in nobody else's way.
    fn settle(&mut self, limits: &Limits) -> After {
        let mut after = After::default();
        if self.waiting.is_empty() {
            return after;
        }
        let mut free_before = 0;
        let mut before: HashMap<Arc<str>, Own> = HashMap::new();
        let line = std::mem::take(&mut self.waiting);
        self.waiting.reserve(line.len());
        for mut waiting in line {
            if waiting.is_over() {
                self.left += 1;
                after.drop.push(waiting.turn);
                continue;
            }
            let share = self.share(waiting.owner.as_ref());
            let own = waiting
                .owner
                .as_ref()
                .map(|owner| *before.entry(Arc::clone(owner)).or_default());
            let held = own.filter(|own| share + own.free >= limits.max_per_owner);
            if held.is_none() && self.active.len() < limits.max_active && !self.closed {
                after.wake.extend(waiting.waker.take());
                self.activate(waiting.ticket, waiting.turn, waiting.owner);
                continue;
            }
            let (waiting_before, running) = match held {
                Some(own) => (own.all, share),
                None => (free_before, self.active.len()),
            };
            let spot = Spot {
                position: count(waiting_before + 1),
                ahead: count(waiting_before + running),
            };
            if waiting.spot != spot {
                waiting.spot = spot;
                after.wake.extend(waiting.waker.take());
            }
            free_before += usize::from(held.is_none());
            if let Some(own) = waiting.owner.as_ref().and_then(|owner| before.get_mut(owner)) {
                own.all += 1;
                own.free += usize::from(held.is_none());
            }
            self.waiting.push(waiting);
        }
        after
    }
}

/// Of one owner, how many wait before the one that is looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    all: usize,
    /// Those that wait for any place, and not for one of their owner's.
    free: usize,
}

impl Waiting {
    /// Its reader is gone, or it was stopped.
    fn is_over(&self) -> bool {
        self.turn.queue.closed().is_some()
    }
}

fn count(turns: usize) -> u32 {
    u32::try_from(turns).unwrap_or(u32::MAX)
}

pub(super) fn busy() -> Failure {
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
