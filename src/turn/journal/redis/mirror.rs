//! A turn of another host as a log of this one: filled from the stream, read like any other log,
//! and dropped with its last reader.
//!
//! It accepts an entry only if that is the direct successor of its last one. Otherwise its readers
//! end with a failure completion, so that no reader gets a turn with a gap.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::time::Instant;

use super::keys::{self, PRODUCER};
use super::turn_state::Entry;
use crate::failure::Failure;
use crate::frame::{End, Frame};
use crate::turn::journal::log::Log;
use crate::turn::journal::record::Record;
use crate::turn::journal::registry::Registry;

/// A log that is filled from a stream.
#[derive(Clone, Debug)]
pub(super) struct Mirror {
    /// The log, weak because the readers own it.
    pub(super) log: Weak<Log>,
    /// Locked while frames are appended, so that a frame that arrives in two ways is appended once.
    pub(super) filling: Arc<Mutex<()>>,
    /// The time to check whether the turn still runs; for a finished turn, the time to drop it.
    pub(super) check_at: Instant,
    /// For a finished turn, the time for which its frames are stored for readers that are behind.
    pub(super) kept_until: Option<Instant>,
    /// What has been seen since the host's lease expired; `None` while it has one.
    pub(super) silence: Option<Silence>,
}

/// The host of a turn has no lease, and the server answers. A host cannot renew its lease while the
/// server refuses writes, so only the time in which it accepts them shows whether the host has died.
#[derive(Clone, Copy, Debug)]
pub(super) enum Silence {
    /// The host is silent: the server has accepted writes since then.
    OfHost(Instant),
    /// The server has refused writes since then.
    OfServer(Instant),
}

/// A frame is missing from the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissingFrame;

impl Mirror {
    pub(super) fn has_readers(&self) -> bool {
        self.log.strong_count() > 0
    }

    /// Returns the index of the frame that the mirror waits for; `None` if it waits for none.
    pub(super) fn awaited_index(&self) -> Option<u64> {
        let log = self.log()?;
        (!log.has_ended()).then(|| log.next())
    }

    /// Returns the log, unless its last reader has been dropped.
    pub(super) fn log(&self) -> Option<Arc<Log>> {
        self.log.upgrade()
    }

    /// Appends the entries that the log does not have yet. Returns whether there was one.
    pub(super) fn fill(&self, registry: &Registry, entries: &[Entry]) -> Result<bool, MissingFrame> {
        let Some(log) = self.log() else {
            return Ok(false);
        };
        let _filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_grown = false;
        for (entry, fields) in entries {
            let (epoch, index) = keys::parse_entry_id(entry).ok_or(MissingFrame)?;
            if log.has_ended() || (epoch == PRODUCER && index < log.next()) {
                continue;
            }
            let line = fields.iter().find(|(name, _)| name == "f").ok_or(MissingFrame)?;
            let record = Record::from_line(index, &line.1).ok_or(MissingFrame)?;
            let follows = epoch == PRODUCER || (epoch == PRODUCER + 1 && record.as_end().is_some());
            if index != log.next() || !follows {
                return Err(MissingFrame);
            }
            registry.append_one(&log, record);
            has_grown = true;
        }
        Ok(has_grown)
    }

    /// Ends the readers with a failure.
    pub(super) fn fail(&self, registry: &Registry, failure: Failure) {
        if let Some(log) = self.log() {
            let _filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
            if !log.has_ended() {
                registry.append_one(&log, Record::frame(Frame::End(End::failed(failure))));
            }
        }
    }
}
