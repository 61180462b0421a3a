//! A turn of another host as a log of this one: filled from the stream, read like any other, gone with its last reader.
//!
//! It takes an entry only where that is the direct successor of what it has. Anything else ends its readers with a failure completion:
//! nobody is told a turn with a hole in it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Script;
use tokio::time::Instant;

use super::keys::{self, PRODUCER};
use super::{Store, ear, millis};
use crate::failure::{Failure, FailureKind};
use crate::frame::{End, Frame};
use crate::redis::link::{Request, Unreachable};
use crate::turn::journal::Journal;
use crate::turn::journal::error::{ResumeError, UnknownTurn, gone, interrupted, lost, unavailable};
use crate::turn::journal::follower::Reading;
use crate::turn::journal::kept::Record;
use crate::turn::journal::log::{Head, Log};
use crate::turn::{Timeouts, TurnHandle, TurnId};

/// Entries that are taken at once.
pub(super) const MAX_ENTRIES: usize = 128;

/// How often a reader looks anew where the turn changes under it all the time.
const MAX_LOOKS: usize = 3;

/// An entry of a stream: its id, and its fields with their values.
pub(super) type Entry = (String, Vec<(String, Vec<u8>)>);

/// What the server says of a turn in one moment.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) id: TurnId,
    pub(super) owner: String,
    /// The inbox of its host.
    pub(super) host: String,
    keep_alive: Option<Duration>,
    epoch: u64,
    next: u64,
    base: u64,
    pub(super) is_over: bool,
    /// How long its host counts as there; `None` where it does not.
    pub(super) lease: Option<Duration>,
    /// Whether all frames are there that should be.
    is_whole: bool,
    /// What the frames before `base` came to, as a line; empty where there is nothing.
    snapshot: String,
}

impl Look {
    fn of(id: TurnId, said: &[Option<String>]) -> Option<Self> {
        let text = |at: usize| said.get(at)?.as_deref();
        let number = |at: usize| text(at)?.parse::<u64>().ok();
        let (next, base, is_over) = (number(4)?, number(5)?, text(6)? == "1");
        Some(Self {
            id,
            owner: text(0)?.to_owned(),
            host: text(1)?.to_owned(),
            keep_alive: number(2).filter(|ms| *ms > 0).map(Duration::from_millis),
            epoch: number(3)?,
            next,
            base,
            is_over,
            lease: number(7).map(Duration::from_millis),
            is_whole: number(8)? == next.saturating_sub(base),
            snapshot: text(9).unwrap_or_default().to_owned(),
        })
    }

    /// Whether all frames before `index` are there, or were.
    pub(super) fn has(&self, index: u64) -> bool {
        self.next >= index
    }
}

impl Store {
    /// What there is of a turn; `None` where there is none.
    pub(super) async fn look(&self, id: TurnId) -> Result<Option<Look>, Unreachable> {
        let keys = self.keys(id);
        let script: &Script = &keys::LOOK;
        let mut script = script.prepare_invoke();
        script.key(&keys.turn).key(&keys.frames).key(&keys.lease);
        let said: Vec<Option<String>> = self.link.request(Request::Script(&script)).await?;
        Ok(Look::of(id, &said))
    }

    /// Ends a turn whose host is gone, unless somebody else has.
    pub(super) async fn fence(&self, look: &Look) -> Result<(), Unreachable> {
        let keys = self.keys(look.id);
        let end = Record::frame(Frame::End(End::failed(interrupted())));
        let script: &Script = &keys::FENCE;
        let mut script = script.prepare_invoke();
        script
            .key(&keys.turn)
            .key(&keys.frames)
            .key(&keys.lease)
            .arg(look.epoch)
            .arg(look.next)
            .arg(&keys::line(look.next, &end)[..])
            .arg(millis(self.running()));
        let fenced: u64 = self.link.request(Request::Script(&script)).await?;
        if fenced == 1 {
            tracing::warn!(id = %look.id, "the host of a turn is gone");
        }
        Ok(())
    }

    /// The entries of a turn behind what a reader has.
    async fn entries(&self, id: TurnId, next: u64) -> Result<Vec<Entry>, Unreachable> {
        let mut range = redis::pipe();
        range
            .cmd("XRANGE")
            .arg(self.keys(id).frames)
            .arg(keys::entry(PRODUCER, next))
            .arg("+")
            .arg("COUNT")
            .arg(MAX_ENTRIES);
        let (entries,): (Vec<Entry>,) = self.link.request(Request::Commands(&range)).await?;
        Ok(entries)
    }
}

/// A log that is filled from a stream.
#[derive(Clone, Debug)]
pub(super) struct Mirror {
    /// Its readers hold it.
    log: Weak<Log>,
    /// Held while something is appended: what comes by two ways is appended once.
    filling: Arc<std::sync::Mutex<()>>,
    /// When it has to be looked whether the turn still runs; for one that is over, when it is kept no longer.
    pub(super) check_at: Instant,
    /// The end is there, and this is until when the rest is kept for readers that are behind.
    kept_until: Option<Instant>,
    /// Since when its host gives no sign, though the server answers.
    silent_since: Option<Instant>,
}

/// Why a mirror cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole;

impl Mirror {
    pub(super) fn is_read(&self) -> bool {
        self.log.strong_count() > 0
    }

    /// The index of the frame that it waits for, if it does.
    pub(super) fn awaits(&self) -> Option<u64> {
        let log = self.log()?;
        log.end().is_none().then(|| log.next())
    }

    /// What is read, while somebody does.
    fn log(&self) -> Option<Arc<Log>> {
        self.log.upgrade()
    }

    /// Takes those of `entries` that it does not have. True where there was one.
    pub(super) fn fill(&self, journal: &Journal, entries: &[Entry]) -> Result<bool, Hole> {
        let Some(log) = self.log() else {
            return Ok(false);
        };
        let _filling = self
            .filling
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut has_grown = false;
        for (entry, fields) in entries {
            let (epoch, index) = keys::place(entry).ok_or(Hole)?;
            if log.end().is_some() || (epoch == PRODUCER && index < log.next()) {
                continue;
            }
            let line = fields.iter().find(|(name, _)| name == "f").ok_or(Hole)?;
            let record = keys::record(index, &line.1).ok_or(Hole)?;
            let follows = epoch == PRODUCER || (epoch == PRODUCER + 1 && record.as_end().is_some());
            if index != log.next() || !follows {
                return Err(Hole);
            }
            journal.append(&log, record);
            has_grown = true;
        }
        Ok(has_grown)
    }

    /// Ends its readers.
    pub(super) fn fail(&self, journal: &Journal, failure: Failure) {
        if let Some(log) = self.log() {
            let _filling = self
                .filling
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if log.end().is_none() {
                journal.append(&log, Record::frame(Frame::End(End::failed(failure))));
            }
        }
    }
}

/// A reader of a turn of another host.
pub(super) async fn read(
    store: &Arc<Store>,
    journal: &Journal,
    mut look: Look,
    from: u64,
) -> Result<Reading, ResumeError> {
    let id = look.id;
    for _ in 0..MAX_LOOKS {
        if from < look.base && look.snapshot.is_empty() {
            return Err(ResumeError::Gone { base: look.base });
        }
        if from > look.next {
            // Whoever ended it in its producer's place knew less of it than this reader.
            return Err(if look.epoch > PRODUCER || !look.is_whole {
                ResumeError::Lost
            } else {
                ResumeError::Ahead { next: look.next }
            });
        }
        let (mirror, log) = store.join(journal, &look)?;
        match store.catch_up(journal, &mirror, &log, look.next).await {
            Ok(()) => {
                ear::listen(store, journal);
                ear::wake(store, id).await;
                return attach(&log, from, look.is_over);
            }
            Err(CatchUp::Unreachable) => return Err(ResumeError::Unavailable),
            Err(CatchUp::Hole) => {}
        }
        // The head may have been dropped meanwhile; otherwise something is missing.
        let before = look.base;
        look = match store.look(id).await {
            Ok(Some(look)) => look,
            Ok(None) => return Err(UnknownTurn.into()),
            Err(Unreachable) => return Err(ResumeError::Unavailable),
        };
        if look.base > before {
            store.leave(journal, id, gone());
        } else {
            // What is there before the hole is told, then the failure.
            let reading = attach(&log, from, false);
            store.leave(journal, id, lost());
            return reading;
        }
    }
    Err(ResumeError::Unavailable)
}

/// A reader of a mirror that has all there is up to `from`, or up to a hole.
fn attach(log: &Arc<Log>, from: u64, is_over: bool) -> Result<Reading, ResumeError> {
    match log.attach(from) {
        // The end that it would be behind is not the turn's.
        Ok(reading) if reading.is_over() && !is_over && log.end().is_some_and(|end| is_told(&end)) => {
            Err(ResumeError::Lost)
        }
        Err(ResumeError::Ahead { .. }) => Err(ResumeError::Lost),
        attached => attached,
    }
}

/// Whether this end is what a mirror's readers are told, and no frame of the turn.
fn is_told(end: &End) -> bool {
    let kind = Failure::of(&end.status).map(|failure| failure.kind);
    matches!(
        kind,
        Some(FailureKind::Gone | FailureKind::Lost | FailureKind::Unavailable)
    )
}

enum CatchUp {
    Unreachable,
    Hole,
}

impl Store {
    /// The mirror of a turn, which its readers share.
    fn join(&self, journal: &Journal, look: &Look) -> Result<(Mirror, Arc<Log>), ResumeError> {
        let mut listening = self.lock();
        if let Some(mirror) = listening.mirrors.get(&look.id)
            && let Some(log) = mirror.log()
        {
            return Ok((mirror.clone(), log));
        }
        listening.mirrors.retain(|_, mirror| mirror.is_read());
        if listening.mirrors.len() >= self.limits.max_turns {
            return Err(ResumeError::Unavailable);
        }
        let head = Head {
            handle: TurnHandle::elsewhere(look.id),
            owner: look.owner.clone(),
            conversation: None,
            timeouts: Timeouts::default().keep_alive(look.keep_alive),
            membership: None,
            _journal: Some(journal.clone()),
        };
        let kept = keys::kept_from(look.base, look.snapshot.as_bytes());
        let log = Arc::new(journal.log(head, kept));
        let mirror = Mirror {
            log: Arc::downgrade(&log),
            filling: Arc::default(),
            check_at: Instant::now() + look.lease.unwrap_or_default(),
            kept_until: None,
            silent_since: None,
        };
        listening.mirrors.insert(look.id, mirror.clone());
        Ok((mirror, log))
    }

    /// Takes what the server has, up to `next` at least.
    async fn catch_up(
        &self,
        journal: &Journal,
        mirror: &Mirror,
        log: &Log,
        next: u64,
    ) -> Result<(), CatchUp> {
        while log.next() < next && log.end().is_none() {
            // Others fill it too, while the answer is on its way.
            let before = log.next();
            let entries = self.entries(log.head.handle.id(), log.next()).await;
            let entries = entries.map_err(|Unreachable| CatchUp::Unreachable)?;
            let filled = mirror.fill(journal, &entries).map_err(|Hole| CatchUp::Hole)?;
            // Nothing there, and nobody else has brought it either.
            if !filled && log.next() == before {
                return Err(CatchUp::Hole);
            }
        }
        Ok(())
    }

    /// Ends the readers of a mirror, which nobody joins any more.
    pub(super) fn leave(&self, journal: &Journal, id: TurnId, failure: Failure) {
        let mirror = self.lock().mirrors.remove(&id);
        if let Some(mirror) = mirror {
            mirror.fail(journal, failure);
        }
    }

    /// Entries of a turn have come.
    pub(super) fn heard(&self, journal: &Journal, id: TurnId, entries: &[Entry]) {
        let mirror = self.lock().mirrors.get(&id).cloned();
        let Some(mirror) = mirror else {
            return;
        };
        let filled = mirror.fill(journal, entries);
        let now = Instant::now();
        let check_at = match (filled, mirror.awaits()) {
            // What is missing may still be found.
            (Err(Hole), _) => now,
            (Ok(_), Some(_)) => now + self.options.lease_ttl(),
            (Ok(_), None) => now,
        };
        if let Some(mirror) = self.lock().mirrors.get_mut(&id) {
            mirror.check_at = check_at;
            mirror.silent_since = None;
        }
    }

    /// Looks at a turn of which nothing was heard for long, and ends its readers where it is not there any more.
    pub(super) async fn check(&self, journal: &Journal, id: TurnId) {
        let mirror = self.lock().mirrors.get(&id).cloned();
        let Some((mirror, log)) = mirror.and_then(|mirror| mirror.log().map(|log| (mirror, log))) else {
            return;
        };
        if log.end().is_some() {
            return self.retire(id, &mirror, &log);
        }
        let told = log.next();
        let Ok(look) = self.look(id).await else {
            return self.check_again(id, self.options.lease / 3, None);
        };
        let Some(look) = look else {
            return self.leave(journal, id, lost());
        };
        // The server knows less than a reader was told.
        if !look.is_whole && !look.is_over || look.next < told {
            return self.leave(journal, id, lost());
        }
        match self.catch_up(journal, &mirror, &log, look.next).await {
            Ok(()) => {}
            Err(CatchUp::Hole) => {
                let failure = if look.base > log.next() { gone() } else { lost() };
                return self.leave(journal, id, failure);
            }
            Err(CatchUp::Unreachable) => return self.check_again(id, self.options.lease / 3, None),
        }
        let now = Instant::now();
        match (look.lease, mirror.silent_since) {
            // The end stands where its readers have another frame: one that reached them and was lost before its acknowledgement.
            _ if look.is_over && log.end().is_none() => self.leave(journal, id, lost()),
            _ if look.is_over => self.check_again(id, Duration::ZERO, None),
            (Some(lease), _) => self.check_again(id, lease, None),
            (None, Some(since)) if now.duration_since(since) >= self.options.lease_grace() => {
                match self.fence(&look).await {
                    // Its end comes like any other frame.
                    Ok(()) => self.check_again(id, Duration::ZERO, Some(since)),
                    // A server that is full, or that only reads, says what there is and takes nothing: nobody can end the turn.
                    Err(Unreachable) => self.leave(journal, id, unavailable()),
                }
            }
            // A lease that comes back in between ends the doubt.
            (None, since) => self.check_again(
                id,
                self.options.lease_grace().min(self.options.lease / 3),
                since.or(Some(now)),
            ),
        }
    }

    /// A mirror that has its end is kept as long as a turn of this host.
    fn retire(&self, id: TurnId, mirror: &Mirror, log: &Log) {
        let now = Instant::now();
        let mut listening = self.lock();
        match mirror.kept_until {
            Some(until) if until <= now => {
                listening.mirrors.remove(&id);
                drop(listening);
                log.shrink_by(usize::MAX);
            }
            kept_until => {
                let until = kept_until.unwrap_or_else(|| after(now, self.limits.keep));
                if let Some(mirror) = listening.mirrors.get_mut(&id) {
                    (mirror.kept_until, mirror.check_at) = (Some(until), until);
                }
            }
        }
    }

    fn check_again(&self, id: TurnId, wait: Duration, silent_since: Option<Instant>) {
        if let Some(mirror) = self.lock().mirrors.get_mut(&id) {
            mirror.check_at = after(Instant::now(), wait);
            mirror.silent_since = silent_since;
        }
    }
}

/// The moment `time` after `now`; where there is none, one that nobody waits for.
fn after(now: Instant, time: Duration) -> Instant {
    now + time.min(super::MAX_LIFE)
}
