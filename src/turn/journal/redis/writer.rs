//! The producing host's side of a turn: no reader gets a frame before the server has acknowledged
//! it.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use redis::Cmd;
use tokio::time::Instant;

use super::keys::{self, Keys, PRODUCER, millis};
use super::remote_readers::RemoteReaders;
use super::store::Store;
use crate::failure::Failure;
use crate::frame::{End, Frame};
use crate::redis::keys::hashed;
use crate::redis::link::{Request, Unreachable};
use crate::turn::TurnId;
use crate::turn::journal::entries::LogEntries;
use crate::turn::journal::error::{lost, unavailable};
use crate::turn::journal::record::{Record, line_encoder};

/// The shortest time for which a finished turn stays on the server: readers on other hosts still
/// have to read its end.
const MIN_KEEP: Duration = Duration::from_secs(1);

/// About how long a call is besides its frames: keys, numbers and the ID.
const CALL_BYTES: usize = 512;

/// The reply of the script: its status, and for how long other hosts have readers of the turn.
type ScriptReply = (String, i64);

/// The status of an append that has stored its frames.
const OK: &str = "ok";

/// The status of an append to a turn that has lost frames, while the end for that is not known.
const MISSING: &str = "missing";

/// Appends the frames of one turn. If it is dropped before the end, another host ends the turn when
/// its lease has expired.
#[derive(Debug)]
pub(in crate::turn::journal) struct Writer {
    store: Arc<Store>,
    id: TurnId,
    keys: Keys,
    lane: Option<String>,
    /// The index of the next frame.
    next: u64,
    /// A copy of the log's entries. The log itself may drop more, where all turns together are too
    /// large.
    entries: LogEntries,
    /// The time to renew the lease.
    refresh_at: Instant,
    remote_readers: RemoteReaders,
}

/// The data that is stored when the response of a turn begins.
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
            .arg(millis(store.running_ttl()))
            .arg(millis(store.options.lease_ttl()));
        let begun: Result<String, Unreachable> = store.link.request(Request::Script(&script)).await;
        begun.map_err(|Unreachable| unavailable())?;
        Ok(Self {
            id: opening.id,
            keys,
            lane,
            next: 0,
            entries: LogEntries::default(),
            refresh_at: Instant::now() + store.options.lease_ttl() / 3,
            remote_readers: RemoteReaders::new(Instant::now()),
            store,
        })
    }

    /// Returns when to renew the lease, unless frames are appended before.
    pub(in crate::turn::journal) fn refresh_at(&self) -> Instant {
        self.refresh_at
    }

    /// Returns when the server was last asked whether other hosts have readers, and until when they
    /// do.
    pub(in crate::turn::journal) fn remote_readers(&self) -> (Instant, Option<Instant>) {
        (self.remote_readers.asked_at, self.remote_readers.until)
    }

    /// Appends frames, and renews the lease if it is time; an empty batch only renews the lease. After
    /// an error this writer has lost the turn, and the failure is the end for its readers.
    pub(in crate::turn::journal) async fn append(&mut self, batch: &[Record]) -> Result<(), Failure> {
        let begun = Instant::now();
        let base = self.entries.base();
        for record in batch {
            self.entries.push(record.clone(), record.bytes());
            self.entries.trim(self.store.limits.max_turn_bytes);
        }
        // Sends up to a quarter of the turn's limit with each batch that drops frames. Few turns
        // are so long.
        let has_dropped = self.entries.base() > base;
        let snapshot = has_dropped
            .then(|| self.entries.snapshot())
            .flatten()
            .map(keys::snapshot_line);
        let is_finished = batch.last().is_some_and(|record| record.as_end().is_some());
        // Most appends are a fraction of a lease apart, so only some of them renew it.
        let renews = is_finished || self.next == 0 || batch.is_empty() || self.refresh_at <= Instant::now();
        let append = Append {
            renews,
            is_finished,
            snapshot: snapshot.as_deref().unwrap_or_default(),
            lost_end: BytesMut::new(),
            batch,
        };
        let reply = match batch {
            [record] if !renews && !has_dropped => {
                let (add, bytes) = self.frame(record);
                let id: Option<Option<String>> = self.store.append_with_others(add, bytes).await;
                // Without the stream the reply has no ID.
                if id.flatten().is_some() {
                    self.next += 1;
                    return Ok(());
                }
                None
            }
            _ => {
                let (call, bytes) = self.script(&append);
                self.store.append_with_others(call, bytes).await
            }
        };
        // On the heap, because most appends end before this.
        Box::pin(self.conclude(append, reply, begun)).await
    }

    /// Concludes an append by the script, whose reply may be known.
    async fn conclude(
        &mut self,
        mut append: Append<'_>,
        reply: Option<ScriptReply>,
        begun: Instant,
    ) -> Result<(), Failure> {
        let (mut status, mut readers_ms) = match reply {
            Some(reply) => reply,
            None => self.append_alone(&append).await?,
        };
        if status == MISSING {
            append.lost_end = Record::frame(Frame::End(End::failed(lost()))).to_line(self.next);
            append.renews = true;
            (status, readers_ms) = self.append_alone(&append).await?;
        }
        if status != OK {
            tracing::warn!(
                status,
                "redis has lost frames of a turn, or another host has ended it"
            );
            return Err(lost());
        }
        self.next += append.batch.len() as u64;
        if append.renews {
            let options = &self.store.options;
            let now = Instant::now();
            self.refresh_at = now + options.lease_ttl() / 3;
            // Negative if no other host has a reader.
            let mark = u64::try_from(readers_ms).ok().map(Duration::from_millis);
            self.remote_readers.report(begun, now, mark, options.lease);
        }
        Ok(())
    }

    /// Appends until the server answers or the retry time ends.
    async fn append_alone(&self, append: &Append<'_>) -> Result<ScriptReply, Failure> {
        let (call, _) = self.script(append);
        let request = Request::Call(&keys::APPEND, &call);
        let reply = self.store.link.request(request).await;
        reply.map_err(|Unreachable| unavailable())
    }

    /// Encodes the command that only stores the next frame, for the server a fifth of the script's
    /// cost. It stores nothing if another host has ended the turn, because the ID is not the newest one
    /// then, and nothing without the stream. Whether earlier frames are missing is found by the
    /// script, when the lease is renewed or the turn ends. Also returns about how long the command is.
    fn frame(&self, record: &Record) -> (Cmd, usize) {
        let mut line = BytesMut::with_capacity(record.bytes());
        // Cannot fail: the queue has checked every event before.
        let _ = record.encode(&mut line_encoder(self.next), &mut line);
        let bytes = CALL_BYTES + line.len();
        let mut add = Cmd::with_capacity(6, bytes);
        add.arg("XADD")
            .arg(&self.keys.frames)
            .arg("NOMKSTREAM")
            .arg(keys::entry_id(PRODUCER, self.next))
            .arg("f")
            .arg(&line[..]);
        (add, bytes)
    }

    /// Encodes the call of the script, and returns about how long it is.
    fn script(&self, append: &Append<'_>) -> (Cmd, usize) {
        let (ttl, lease) = match (append.renews, append.is_finished) {
            (false, _) => (0, String::new()),
            (true, false) => {
                let lease = millis(self.store.options.lease_ttl());
                (millis(self.store.running_ttl()), lease.to_string())
            }
            (true, true) => (millis(self.store.limits.keep.max(MIN_KEEP)), "0".to_owned()),
        };
        let mut lines = BytesMut::new();
        let mut ends = Vec::with_capacity(append.batch.len());
        let mut encoder = line_encoder(self.next);
        for record in append.batch {
            // Cannot fail: the queue has checked every event before.
            let _ = record.encode(&mut encoder, &mut lines);
            ends.push(lines.len());
        }
        let bytes = CALL_BYTES + lines.len() + append.snapshot.len();
        let mut call = Cmd::with_capacity(16 + ends.len(), bytes);
        call.arg("EVALSHA")
            .arg(keys::APPEND.get_hash())
            .arg(5)
            .arg(&self.keys.turn)
            .arg(&self.keys.frames)
            .arg(&self.keys.lease)
            .arg(&self.keys.readers)
            .arg(self.lane.as_deref().unwrap_or_default())
            .arg(PRODUCER)
            .arg(self.next)
            .arg(self.entries.base())
            .arg(ttl)
            .arg(lease)
            .arg(self.id.to_string())
            .arg(&append.lost_end[..])
            .arg(append.snapshot);
        let mut begin = 0;
        for end in ends {
            call.arg(&lines[begin..end]);
            begin = end;
        }
        (call, bytes)
    }
}

/// What one append sends.
struct Append<'a> {
    /// Whether it renews the lease and the time to live of the keys.
    renews: bool,
    is_finished: bool,
    /// The snapshot of the dropped frames, if some were dropped.
    snapshot: &'a [u8],
    /// The end for a turn that has lost frames, once it is known that it has.
    lost_end: BytesMut,
    batch: &'a [Record],
}
