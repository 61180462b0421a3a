//! Readers of turns of other hosts: joins a mirror, keeps it complete, and ends it when the turn or
//! its host is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::keys::{self, MAX_LIFE, PRODUCER};
use super::mirror::{Mirror, MissingFrame, Silence};
use super::store::Store;
use super::subscriber;
use super::turn_state::{Entry, TurnState};
use crate::failure::{Failure, FailureKind};
use crate::frame::End;
use crate::redis::link::Unreachable;
use crate::turn::journal::cursor::Cursor;
use crate::turn::journal::error::{ResumeError, UnknownTurn, gone, lost, unavailable};
use crate::turn::journal::log::{Head, Log};
use crate::turn::{Timeouts, TurnHandle, TurnId};

/// The maximum number of times that a reader fetches the state of a turn that keeps changing.
const MAX_ATTEMPTS: usize = 3;

/// Adds a reader to a turn of another host.
pub(super) async fn read(store: &Arc<Store>, mut turn: TurnState, from: u64) -> Result<Cursor, ResumeError> {
    let id = turn.id;
    for _ in 0..MAX_ATTEMPTS {
        if from < turn.base && turn.snapshot.is_empty() {
            return Err(ResumeError::Gone { base: turn.base });
        }
        if from > turn.next {
            // The host that ended the turn for its producer knew fewer frames than this reader.
            return Err(if turn.epoch > PRODUCER || !turn.is_complete {
                ResumeError::Lost
            } else {
                ResumeError::Ahead { next: turn.next }
            });
        }
        let (mirror, log) = store.join(&turn)?;
        match store.catch_up(&mirror, &log, turn.next).await {
            Ok(()) => {
                subscriber::ensure_running(store);
                subscriber::wake(store, id).await;
                return attach(&log, from, turn.is_finished);
            }
            Err(CatchUpError::Unreachable) => return Err(ResumeError::Unavailable),
            Err(CatchUpError::MissingFrame) => {}
        }
        // The producer may have dropped the head meanwhile. Otherwise frames are missing.
        let before = turn.base;
        turn = match store.turn_state(id).await {
            Ok(Some(turn)) => turn,
            Ok(None) => return Err(UnknownTurn.into()),
            Err(Unreachable) => return Err(ResumeError::Unavailable),
        };
        if turn.base > before {
            store.end_mirror(id, gone());
        } else {
            // The reader gets the frames before the missing one, then the failure.
            let cursor = attach(&log, from, false);
            store.end_mirror(id, lost());
            return cursor;
        }
    }
    Err(ResumeError::Unavailable)
}

/// Adds a reader to a mirror that has all frames up to `from`, or up to a missing one.
fn attach(log: &Arc<Log>, from: u64, is_finished: bool) -> Result<Cursor, ResumeError> {
    match Cursor::attach(log, from) {
        // The reader would start after an end that is not the turn's.
        Ok(cursor)
            if cursor.is_finished() && !is_finished && log.end().is_some_and(|end| is_hosts_own(&end)) =>
        {
            Err(ResumeError::Lost)
        }
        Err(ResumeError::Ahead { .. }) => Err(ResumeError::Lost),
        attached => attached,
    }
}

/// Returns whether this end was added by a host for its own readers and may not be a frame of the turn.
pub(super) fn is_hosts_own(end: &End) -> bool {
    let kind = Failure::of(&end.status).map(|failure| failure.kind);
    matches!(
        kind,
        Some(FailureKind::Gone | FailureKind::Lost | FailureKind::Unavailable)
    )
}

enum CatchUpError {
    Unreachable,
    MissingFrame,
}

impl Store {
    /// Returns the mirror of a turn, which its readers share.
    fn join(self: &Arc<Self>, turn: &TurnState) -> Result<(Mirror, Arc<Log>), ResumeError> {
        let mut subscriptions = self.lock();
        if let Some(mirror) = subscriptions.mirrors.get(&turn.id)
            && let Some(log) = mirror.log()
        {
            return Ok((mirror.clone(), log));
        }
        subscriptions.mirrors.retain(|_, mirror| mirror.has_readers());
        if subscriptions.mirrors.len() >= self.limits.max_turns {
            return Err(ResumeError::Unavailable);
        }
        let head = Head {
            handle: TurnHandle::elsewhere(turn.id),
            owner: turn.owner.clone(),
            conversation: None,
            timeouts: Timeouts::default().keep_alive(turn.keep_alive),
            membership: None,
            _source: Some(Arc::clone(self) as _),
        };
        let entries = keys::entries_from(turn.base, turn.snapshot.as_bytes());
        let log = Arc::new(self.registry.new_log(head, entries));
        let mirror = Mirror {
            log: Arc::downgrade(&log),
            filling: Arc::default(),
            check_at: Instant::now() + turn.lease.unwrap_or_default(),
            kept_until: None,
            silence: None,
        };
        subscriptions.mirrors.insert(turn.id, mirror.clone());
        Ok((mirror, log))
    }

    /// Reads the frames that the server has, at least up to `next`.
    async fn catch_up(&self, mirror: &Mirror, log: &Log, next: u64) -> Result<(), CatchUpError> {
        while log.next() < next && !log.has_ended() {
            // Other tasks fill the log too while the reply is on its way.
            let before = log.next();
            let entries = self.entries(log.head.handle.id(), log.next()).await;
            let entries = entries.map_err(|Unreachable| CatchUpError::Unreachable)?;
            let filled = mirror
                .fill(&self.registry, &entries)
                .map_err(|MissingFrame| CatchUpError::MissingFrame)?;
            // The server does not have the frame, and no other task has appended it.
            if !filled && log.next() == before {
                return Err(CatchUpError::MissingFrame);
            }
        }
        Ok(())
    }

    /// Removes a mirror and ends its readers with a failure.
    pub(super) fn end_mirror(&self, id: TurnId, failure: Failure) {
        let mirror = self.lock().mirrors.remove(&id);
        if let Some(mirror) = mirror {
            mirror.fail(&self.registry, failure);
        }
    }

    /// Appends the new entries of a turn to its mirror.
    pub(super) fn receive(&self, id: TurnId, entries: &[Entry]) {
        let mirror = self.lock().mirrors.get(&id).cloned();
        let Some(mirror) = mirror else {
            return;
        };
        let filled = mirror.fill(&self.registry, entries);
        let now = Instant::now();
        let check_at = match (filled, mirror.awaited_index()) {
            // The missing frame may still be found.
            (Err(MissingFrame), _) => now,
            (Ok(_), Some(_)) => now + self.options.lease_ttl(),
            (Ok(_), None) => now,
        };
        if let Some(mirror) = self.lock().mirrors.get_mut(&id) {
            mirror.check_at = check_at;
            mirror.silence = None;
        }
    }

    /// Checks a turn that has been silent for long, and ends its readers if it is lost.
    pub(super) async fn check(&self, id: TurnId) {
        let mirror = self.lock().mirrors.get(&id).cloned();
        let Some((mirror, log)) = mirror.and_then(|mirror| mirror.log().map(|log| (mirror, log))) else {
            return;
        };
        if log.has_ended() {
            return self.keep_finished(id, &mirror, &log);
        }
        let emitted = log.next();
        let Ok(turn) = self.turn_state(id).await else {
            return self.check_again(id, self.options.lease / 3, None);
        };
        let Some(turn) = turn else {
            return self.end_mirror(id, lost());
        };
        // The server has fewer frames than the readers.
        if !turn.is_complete && !turn.is_finished || turn.next < emitted {
            return self.end_mirror(id, lost());
        }
        match self.catch_up(&mirror, &log, turn.next).await {
            Ok(()) => {}
            Err(CatchUpError::MissingFrame) => {
                let failure = if turn.base > log.next() { gone() } else { lost() };
                return self.end_mirror(id, failure);
            }
            Err(CatchUpError::Unreachable) => return self.check_again(id, self.options.lease / 3, None),
        }
        match turn.lease {
            // The end has the index of a frame that reached the readers and was lost before the
            // server acknowledged it.
            _ if turn.is_finished && !log.has_ended() => self.end_mirror(id, lost()),
            _ if turn.is_finished => self.check_again(id, Duration::ZERO, None),
            // A renewed lease ends the silence.
            Some(lease) => self.check_again(id, lease, None),
            None => self.check_silence(&turn, mirror.silence).await,
        }
    }

    /// Ends a turn whose host has had no lease during its grace period, in which the server has
    /// accepted writes. While the server refuses them, the readers wait for the retry time.
    async fn check_silence(&self, turn: &TurnState, silence: Option<Silence>) {
        let grace = self.options.lease_grace();
        let is_due = matches!(silence, Some(Silence::OfHost(since)) if since.elapsed() >= grace);
        let written = if is_due {
            self.fence(turn).await
        } else {
            subscriber::mark(self, turn.id).await
        };
        let (id, now, wait) = (turn.id, Instant::now(), grace.min(self.options.lease / 3));
        match (written, silence) {
            // The end arrives like any other frame.
            (Ok(()), _) if is_due => self.check_again(id, Duration::ZERO, silence),
            (Ok(()), Some(Silence::OfHost(_))) => self.check_again(id, wait, silence),
            (Ok(()), Some(Silence::OfServer(_)) | None) => {
                self.check_again(id, wait, Some(Silence::OfHost(now)));
            }
            (Err(error), _) if self.link.should_give_up(&error) => self.end_mirror(id, unavailable()),
            (Err(_), Some(Silence::OfServer(since))) if now.duration_since(since) >= self.options.retry => {
                self.end_mirror(id, unavailable());
            }
            (Err(_), Some(Silence::OfServer(_))) => self.check_again(id, wait, silence),
            (Err(_), Some(Silence::OfHost(_)) | None) => {
                self.check_again(id, wait, Some(Silence::OfServer(now)));
            }
        }
    }

    /// Keeps the mirror of a finished turn as long as a finished turn of this host, then drops its
    /// frames.
    fn keep_finished(&self, id: TurnId, mirror: &Mirror, log: &Log) {
        let now = Instant::now();
        let mut subscriptions = self.lock();
        match mirror.kept_until {
            Some(until) if until <= now => {
                subscriptions.mirrors.remove(&id);
                drop(subscriptions);
                log.shrink_by(usize::MAX);
            }
            kept_until => {
                let until = kept_until.unwrap_or_else(|| after(now, self.limits.keep));
                if let Some(mirror) = subscriptions.mirrors.get_mut(&id) {
                    (mirror.kept_until, mirror.check_at) = (Some(until), until);
                }
            }
        }
    }

    fn check_again(&self, id: TurnId, wait: Duration, silence: Option<Silence>) {
        if let Some(mirror) = self.lock().mirrors.get_mut(&id) {
            mirror.check_at = after(Instant::now(), wait);
            mirror.silence = silence;
        }
    }
}

/// Returns the moment `time` after `now`, at most 30 days later.
fn after(now: Instant, time: Duration) -> Instant {
    now + time.min(MAX_LIFE)
}
