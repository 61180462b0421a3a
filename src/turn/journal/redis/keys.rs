//! The names of the keys, the scripts that work on them, and a frame as it stands in a stream.
//!
//! ```text
//! ragwire:{<turn>}:turn    hash    owner, host, keep_alive, epoch, next, base, over
//! ragwire:{<turn>}:frames  stream  <epoch>-<index + 1>: f = the frame as a line of the wire `Ndjson`
//! ragwire:{<turn>}:lease   string  there while the producing host is
//! ragwire:{<turn>}:readers string  there while somebody reads it on another host
//! ragwire:lane:<hash>      string  the newest turn of a lane and an owner
//! ragwire:inbox:<process>  stream  what other hosts ask of this one, and what they answer
//! ```
//!
//! Every key expires. The epoch is 1 while the producer writes; who ends the turn in its place does so as epoch 2, so whatever the
//! producer still sends is refused.

use std::sync::LazyLock;

use bytes::BytesMut;
use redis::Script;

use crate::frame::Frame;
use crate::turn::TurnId;
use crate::turn::journal::fold::Held;
use crate::turn::journal::kept::{Kept, Record};
use crate::wire::ndjson::Ndjson;
use crate::wire::{Limits, Wire};

/// The epoch of a turn's producer.
pub(super) const PRODUCER: u64 = 1;

pub(super) static BEGIN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/begin.lua")));
pub(super) static APPEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/append.lua")));
pub(super) static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/look.lua")));
pub(super) static FENCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/fence.lua")));

/// The keys of one turn.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) turn: String,
    pub(super) frames: String,
    pub(super) lease: String,
    pub(super) readers: String,
}

impl Keys {
    pub(super) fn of(prefix: &str, id: TurnId) -> Self {
        // The braces keep the keys of a turn together wherever keys are spread over servers.
        let key = |what: &str| format!("{prefix}{{{id}}}:{what}");
        Self {
            turn: key("turn"),
            frames: key("frames"),
            lease: key("lease"),
            readers: key("readers"),
        }
    }
}

pub(super) fn inbox(prefix: &str, process: &str) -> String {
    format!("{prefix}inbox:{process}")
}

/// The id of the entry of a frame.
pub(super) fn entry(epoch: u64, index: u64) -> String {
    format!("{epoch}-{}", index + 1)
}

/// The epoch and the index of an entry.
pub(super) fn place(entry: &str) -> Option<(u64, u64)> {
    let (epoch, after) = entry.split_once('-')?;
    Some((epoch.parse().ok()?, after.parse::<u64>().ok()?.checked_sub(1)?))
}

/// The wire of the journal itself: what the queue has let in is not measured again.
fn wire() -> Ndjson {
    let whole = Limits::default()
        .max_line_bytes(usize::MAX)
        .max_trailer_bytes(usize::MAX);
    Ndjson::default().limits(whole)
}

/// A frame as it stands in the stream.
pub(super) fn line(index: u64, record: &Record) -> BytesMut {
    let (mut encoder, mut out) = (wire().encoder(), BytesMut::new());
    encoder.seek(index);
    // The queue has serialised every event once already.
    let _ = record.encode(&mut encoder, &mut out);
    out
}

/// What dropped frames came to, as a line.
pub(super) fn snapshot(held: Held) -> BytesMut {
    let snapshot = held.into_snapshot();
    let before = snapshot.frames.saturating_sub(1);
    line(before, &Record::frame(Frame::Snapshot(Box::new(snapshot))))
}

/// What there is of the frames before `base`.
pub(super) fn kept_from(base: u64, line: &[u8]) -> Kept {
    let snapshot = base.checked_sub(1).and_then(|last| record(last, line));
    match snapshot.map(|record| record.to_frame()) {
        Some(Frame::Snapshot(snapshot)) => Kept::after(*snapshot),
        _ => Kept::starting_at(base),
    }
}

/// The frame of a line that stands at `index`.
pub(super) fn record(index: u64, line: &[u8]) -> Option<Record> {
    use crate::wire::Decode;
    let mut decoder = wire().decoder();
    decoder.feed(line);
    let frame: Frame = decoder.next()?.ok()?;
    (decoder.next_index() == Some(index + 1)).then(|| Record::frame(frame))
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
