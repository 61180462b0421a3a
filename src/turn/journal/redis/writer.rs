//! The producing host's side of a turn: frames go to the server first, and are read by nobody before it has them.

use std::sync::Arc;
use std::time::Duration;

use redis::Script;
use tokio::time::Instant;

use super::keys::{self, Keys, PRODUCER};
use super::{Store, millis};
use crate::failure::Failure;
use crate::frame::{End, Frame};
use crate::redis::keys::hashed;
use crate::redis::link::{Request, Unreachable};
use crate::turn::TurnId;
use crate::turn::journal::error::{lost, unavailable};
use crate::turn::journal::kept::{Kept, Record};

/// Shortest time that a turn is there after its end: readers on other hosts have yet to hear of it.
const MIN_KEEP: Duration = Duration::from_secs(1);

/// What appends to one turn. Dropping it without an end leaves the turn to whoever finds its lease gone.
#[derive(Debug)]
pub(in crate::turn::journal) struct Writer {
    store: Arc<Store>,
    id: TurnId,
    keys: Keys,
    lane: Option<String>,
    /// The index of the next frame.
    next: u64,
    /// The same as its log has, which may drop more where all turns together are too large.
    kept: Kept,
    refresh_at: Instant,
    asked_at: Instant,
    read_until: Option<Instant>,
}

/// What a turn begins with.
#[derive(Clone, Copy, Debug)]
pub(in crate::turn::journal) struct Opening<'a> {
    pub(in crate::turn::journal) id: TurnId,
    pub(in crate::turn::journal) owner: &'a str,
    pub(in crate::turn::journal) lane: Option<&'a str>,
    pub(in crate::turn::journal) keep_alive: Option<Duration>,
}

impl Writer {
    pub(super) async fn begin(store: Arc<Store>, opening: Opening<'_>) -> Result<Self, Failure> {
        let options = &store.options;
        let keys = Keys::of(&options.prefix, opening.id);
        let lane = opening
            .lane
            .map(|lane| hashed(&options.prefix, "lane", opening.owner, lane));
        let mut script = keys::BEGIN.prepare_invoke();
        script
            .key(&keys.turn)
            .key(&keys.lease)
            .key(lane.as_deref().unwrap_or_default())
            .arg(opening.owner)
            .arg(&store.process)
            .arg(opening.keep_alive.map_or(0, millis))
            .arg(opening.id.to_string())
            .arg(millis(store.running()))
            .arg(millis(store.options.lease_ttl()));
        let begun: Result<String, Unreachable> = store.link.request(Request::Script(&script)).await;
        begun.map_err(|Unreachable| unavailable())?;
        Ok(Self {
            id: opening.id,
            keys,
            lane,
            next: 0,
            kept: Kept::default(),
            refresh_at: Instant::now() + store.options.lease_ttl() / 3,
            asked_at: Instant::now(),
            read_until: None,
            store,
        })
    }

    /// When the server has to be told that the turn runs, unless something is appended before.
    pub(in crate::turn::journal) fn refresh_at(&self) -> Instant {
        self.refresh_at
    }

    /// When the server was last asked, and until when the turn counts as read on other hosts by what it said.
    pub(in crate::turn::journal) fn read_elsewhere(&self) -> (Instant, Option<Instant>) {
        (self.asked_at, self.read_until)
    }

    /// Appends frames; none of them keeps the turn alive and no more. With an error the turn is lost to this writer, and its readers are to
    /// be told of the failure.
    pub(in crate::turn::journal) async fn append(&mut self, batch: &[Record]) -> Result<(), Failure> {
        let base = self.kept.base();
        for record in batch {
            self.kept.push(record.clone(), record.bytes());
            self.kept.trim(self.store.limits.max_turn_bytes);
        }
        // Up to a quarter of what a turn may keep, for each batch that drops frames: few turns are so long.
        let has_dropped = self.kept.base() > base;
        let snapshot = self.kept.held().filter(|_| has_dropped).map(keys::snapshot);
        let options = &self.store.options;
        let is_over = batch.last().is_some_and(|record| record.as_end().is_some());
        let (live, lease) = if is_over {
            (self.store.limits.keep.max(MIN_KEEP), Duration::ZERO)
        } else {
            (self.store.running(), self.store.options.lease_ttl())
        };
        let epitaph = keys::line(self.next, &Record::frame(Frame::End(End::failed(lost()))));
        let script: &Script = &keys::APPEND;
        let mut script = script.prepare_invoke();
        script
            .key(&self.keys.turn)
            .key(&self.keys.frames)
            .key(&self.keys.lease)
            .key(&self.keys.readers)
            .key(self.lane.as_deref().unwrap_or_default())
            .arg(PRODUCER)
            .arg(self.next)
            .arg(self.kept.base())
            .arg(millis(live))
            .arg(millis(lease))
            .arg(self.id.to_string())
            .arg(&epitaph[..])
            .arg(snapshot.as_deref().unwrap_or_default());
        for (index, record) in (self.next..).zip(batch) {
            script.arg(&keys::line(index, record)[..]);
        }
        let said: Result<(String, i64), Unreachable> =
            self.store.link.request(Request::Script(&script)).await;
        let (said, read) = said.map_err(|Unreachable| unavailable())?;
        if said != "ok" {
            tracing::warn!(said, "redis has lost frames of a turn, or somebody has ended it");
            return Err(lost());
        }
        self.next += batch.len() as u64;
        self.asked_at = Instant::now();
        self.refresh_at = self.asked_at + self.store.options.lease_ttl() / 3;
        // Below zero nobody does.
        let read = u64::try_from(read).ok().map(Duration::from_millis);
        self.read_until = read.map(|read| self.asked_at + read.min(options.lease));
        Ok(())
    }
}
