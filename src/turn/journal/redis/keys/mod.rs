//! The names of the keys and the scripts that work on them.
//!
//! ```text
//! ragwire:{<turn>}:turn    hash    owner, host, keep_alive, epoch, base, over, snapshot
//! ragwire:{<turn>}:frames  stream  <epoch>-<index + 1>: f = the frame as a line of the wire `Ndjson`
//! ragwire:{<turn>}:lease   string  exists while the producing host is alive
//! ragwire:{<turn>}:readers string  exists while another host has a reader
//! ragwire:lane:<hash>      string  the newest turn of a lane and an owner
//! ragwire:inbox:<process>  stream  calls of other hosts to this one, and their replies
//! ```
//!
//! Every key expires. The epoch is 1 while the producer writes. A host that ends the turn for a
//! dead producer raises it to 2, so that the server refuses whatever the producer still sends: no
//! entry is added before the newest one.

use std::fmt::Write;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::BytesMut;
use redis::Script;

use crate::frame::Frame;
use crate::turn::TurnId;
use crate::turn::journal::entries::LogEntries;
use crate::turn::journal::fold::FoldedSnapshot;
use crate::turn::journal::record::Record;

/// The longest time to live of a key: 30 days. Nothing stays forever on a shared server.
pub(super) const MAX_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The epoch of a turn's producer.
pub(super) const PRODUCER: u64 = 1;

pub(super) static BEGIN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/begin.lua")));
pub(super) static APPEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("lua/next.lua"),
        include_str!("lua/append.lua")
    ))
});
pub(super) static TURN_STATE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("lua/next.lua"),
        include_str!("lua/turn_state.lua")
    ))
});
pub(super) static FENCE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("lua/next.lua"),
        include_str!("lua/fence.lua")
    ))
});

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
        // Where keys are spread over servers, the braces keep the keys of a turn on one server.
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

/// Returns the ID of the entry of a frame.
pub(super) fn entry_id(epoch: u64, index: u64) -> String {
    // One allocation for each frame: a digit, a hyphen and at most 20 digits.
    let mut id = String::with_capacity(22);
    let _ = write!(id, "{epoch}-{}", index + 1);
    id
}

/// Returns the epoch and the index of an entry.
pub(super) fn parse_entry_id(entry: &str) -> Option<(u64, u64)> {
    let (epoch, after) = entry.split_once('-')?;
    Some((epoch.parse().ok()?, after.parse::<u64>().ok()?.checked_sub(1)?))
}

/// Encodes the snapshot of dropped frames.
pub(super) fn snapshot_line(snapshot: FoldedSnapshot) -> BytesMut {
    let snapshot = snapshot.into_snapshot();
    let before = snapshot.frames.saturating_sub(1);
    Record::frame(Frame::Snapshot(Box::new(snapshot))).to_line(before)
}

/// Returns a log that begins at `base`, with the snapshot of the frames before it if `line` is one.
pub(super) fn entries_from(base: u64, line: &[u8]) -> LogEntries {
    let snapshot = base.checked_sub(1).and_then(|last| Record::from_line(last, line));
    match snapshot.map(|record| record.to_frame()) {
        Some(Frame::Snapshot(snapshot)) => LogEntries::after(*snapshot),
        Some(Frame::Event { .. } | Frame::Text(_) | Frame::End(_)) | None => LogEntries::starting_at(base),
    }
}

/// Converts a time to live into the milliseconds that the server takes.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.min(MAX_LIFE).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
