//! The stored frames of one turn: a queue that can drop its head and remembers a snapshot of it. It
//! knows no lock, no clock and no reader.

mod sealed;

use std::collections::VecDeque;

use self::sealed::Sealed;

use super::error::ResumeError;
use super::fold::{DroppedHead, Fold, FoldedSnapshot};
use super::record::Record;
use crate::event::Event;
use crate::frame::End;
use crate::snapshot::Snapshot;
use crate::turn::OpenQuestion;

/// The frames from index `base` on.
#[derive(Debug, Default)]
pub(super) struct LogEntries {
    /// The index of the first stored frame.
    base: u64,
    /// The frames before it.
    head: DroppedHead,
    stored: Stored,
    bytes: usize,
}

/// The frames that have not been dropped.
#[derive(Debug)]
enum Stored {
    /// The frames and their sizes.
    Records(VecDeque<(Record, usize)>),
    /// The frames of a turn that has ended.
    Sealed(Sealed),
    /// The turn has ended, and none of its frames is stored.
    Evicted,
}

impl Default for Stored {
    fn default() -> Self {
        Self::Records(VecDeque::new())
    }
}

impl Stored {
    fn len(&self) -> usize {
        match self {
            Self::Records(records) => records.len(),
            Self::Sealed(sealed) => sealed.len(),
            Self::Evicted => 0,
        }
    }

    /// Returns the frames from the one at the position `skip` on.
    fn iter(&self, skip: usize) -> impl Iterator<Item = (Record, usize)> {
        let (records, sealed) = match self {
            Self::Records(records) => (Some(records.range(skip.min(records.len())..)), None),
            Self::Sealed(sealed) => (None, Some(sealed.iter(skip))),
            Self::Evicted => (None, None),
        };
        let records = records.into_iter().flatten().cloned();
        records.chain(sealed.into_iter().flatten())
    }
}

/// The requested frame has been dropped.
#[derive(Debug, PartialEq)]
pub(super) struct FrameDropped {
    /// The snapshot that replaces the dropped frames, if there is one.
    pub(super) snapshot: Option<FoldedSnapshot>,
}

impl LogEntries {
    /// Creates an empty log whose first frame will have the index `base`.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "used by mirrors only"))]
    pub(super) fn starting_at(base: u64) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Creates a log that contains only a snapshot of its first frames.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "used by mirrors only"))]
    pub(super) fn after(snapshot: Snapshot) -> Self {
        Self {
            base: snapshot.frames,
            head: DroppedHead::Folded(Box::new(Fold::from(snapshot))),
            ..Self::default()
        }
    }

    /// Returns the index of the first stored frame.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "used by writers only"))]
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the size of the frames and of the snapshot.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.head.bytes()
    }

    /// Returns the index of the next frame.
    pub(super) fn next(&self) -> u64 {
        self.base + self.stored.len() as u64
    }

    /// Appends a frame of the size `bytes`.
    pub(super) fn push(&mut self, record: Record, bytes: usize) {
        self.bytes += bytes;
        self.change(|records| records.push_back((record, bytes)));
    }

    /// Drops frames from the head until the size is at most `max_bytes` or one frame is left. The
    /// snapshot of the dropped frames counts as well and is discarded if it becomes too large.
    pub(super) fn trim(&mut self, max_bytes: usize) {
        self.head.enforce_limit(max_bytes);
        while self.bytes() > max_bytes && self.stored.len() > 1 {
            if let Some((record, bytes)) = self.change(VecDeque::pop_front) {
                self.bytes -= bytes;
                self.base += 1;
                self.head.add(&record, max_bytes);
            }
        }
    }

    /// Drops all frames of a turn that has ended and has no reader, without a snapshot.
    pub(super) fn evict(&mut self) {
        *self = Self {
            base: self.next(),
            head: DroppedHead::Discarded,
            stored: Stored::Evicted,
            bytes: 0,
        };
    }

    /// Stores the frames of a turn that has ended as bytes, a quarter of what the records take.
    /// Does nothing if it has not ended.
    pub(super) fn seal(&mut self) {
        if let Stored::Records(records) = &self.stored
            && self.has_ended()
            && let Some(sealed) = Sealed::new(self.base, records)
        {
            self.bytes = sealed.bytes();
            self.stored = Stored::Sealed(sealed);
        }
    }

    /// Changes the frames, as records.
    fn change<T>(&mut self, change: impl FnOnce(&mut VecDeque<(Record, usize)>) -> T) -> T {
        if let Stored::Records(records) = &mut self.stored {
            return change(records);
        }
        let mut records = match std::mem::take(&mut self.stored) {
            Stored::Records(records) => records,
            Stored::Sealed(sealed) => {
                let records: VecDeque<_> = sealed.iter(0).collect();
                self.bytes = records.iter().map(|(_, bytes)| bytes).sum();
                records
            }
            Stored::Evicted => VecDeque::new(),
        };
        let changed = change(&mut records);
        self.stored = Stored::Records(records);
        changed
    }

    /// Returns whether there is a snapshot of the dropped frames.
    pub(super) fn is_folded(&self) -> bool {
        matches!(self.head, DroppedHead::Folded(_))
    }

    /// Returns the snapshot of the dropped frames, if there is one.
    pub(super) fn snapshot(&self) -> Option<FoldedSnapshot> {
        self.head.snapshot(self.base)
    }

    /// Returns whether the turn has ended.
    pub(super) fn has_ended(&self) -> bool {
        match &self.stored {
            Stored::Records(records) => records
                .back()
                .is_some_and(|(record, _)| record.as_end().is_some()),
            Stored::Sealed(_) | Stored::Evicted => true,
        }
    }

    /// Returns the end of the turn, if it has ended.
    pub(super) fn end(&self) -> Option<End> {
        let (last, _) = self.stored.iter(self.stored.len().checked_sub(1)?).next()?;
        last.as_end().cloned()
    }

    /// Returns the question with this ID and the index of the frame after it.
    pub(super) fn question(&self, request_id: &str) -> Option<(OpenQuestion, u64)> {
        self.stored
            .iter(0)
            .zip(self.base + 1..)
            .find_map(|((record, _), next)| {
                let (question, _) = record.as_question()?;
                (question.request_id == request_id).then(|| (OpenQuestion::from(question), next))
            })
    }

    /// Returns whether the frames resolve the question with this ID: by its resolution, or by the
    /// end of the turn.
    pub(super) fn is_resolved(&self, request_id: &str) -> bool {
        let resolves = |record: &Record| {
            matches!(
                record.as_event(),
                Some((Event::InputResolved(resolved), _)) if resolved.request_id == request_id
            )
        };
        self.has_ended() || self.stored.iter(0).any(|(record, _)| resolves(&record))
    }

    /// Checks that a reader can start at `from`: that frame is stored, or it is the next one.
    pub(super) fn check_index(&self, from: u64) -> Result<(), ResumeError> {
        let (base, next) = (self.base, self.next());
        match from {
            _ if matches!(self.stored, Stored::Evicted) => Err(ResumeError::Gone { base }),
            from if from < base => Err(ResumeError::Gone { base }),
            from if from > next => Err(ResumeError::Ahead { next }),
            _ => Ok(()),
        }
    }

    /// Returns the frames from `from` on until their size reaches `max_bytes`: at least one, if one
    /// is stored.
    pub(super) fn read(&self, from: u64, max_bytes: usize) -> Result<Vec<Record>, FrameDropped> {
        let skip = from.checked_sub(self.base).ok_or_else(|| FrameDropped {
            snapshot: self.snapshot(),
        })?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        // A reader that is up to date asks after each frame.
        if skip >= self.stored.len() {
            return Ok(Vec::new());
        }
        let mut taken = 0;
        let fits = |(_, bytes): &(Record, usize)| {
            let fits = taken < max_bytes;
            taken += bytes;
            fits
        };
        let records = self.stored.iter(skip).take_while(fits);
        Ok(records.map(|(record, _)| record).collect())
    }
}

#[cfg(test)]
mod tests;
