//! The fold of the frames that a log has dropped: the text so far and the last state of each
//! step. It knows no lock, no wire and no index; its limit is passed with each frame.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::record::Record;
use crate::event::{Event, Sources, Step, Thinking};
use crate::frame::Frame;
use crate::json;
use crate::snapshot::Snapshot;
use crate::time::Timestamp;
use crate::turn::queue::TimedEvent;
use crate::utf8;
use crate::wire::Limits;

/// Bytes of a snapshot's line besides its events and text: its index and the names of its members.
const LINE_OVERHEAD_BYTES: usize = 1024;

/// The size of the largest fold, however large the log may be: every decoder of our wires accepts a
/// line of this size by default.
const MAX_BYTES: usize = Limits::MAX_TRAILER_BYTES - LINE_OVERHEAD_BYTES;

/// Bytes of an event in a snapshot besides its JSON: its timestamp and what separates it.
const EVENT_BYTES: usize = 64;

/// A fold takes at most one in this many bytes of a log, so that three quarters of it remain exact
/// frames. A text of a quarter of a MiB is a book.
const LOG_BYTES_PER_FOLD_BYTE: usize = 4;

/// Returns the size limit of the fold of a log of `max_bytes`.
fn fold_limit(max_bytes: usize) -> usize {
    MAX_BYTES.min(max_bytes / LOG_BYTES_PER_FOLD_BYTE)
}

/// The dropped head of a log.
#[derive(Debug, Default)]
pub(super) enum DroppedHead {
    /// No frame has been dropped.
    #[default]
    Empty,
    /// The dropped frames, folded.
    Folded(Box<Fold>),
    /// The fold became too large and was discarded.
    Discarded,
}

impl DroppedHead {
    /// Returns the size of the fold.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Folded(fold) => fold.bytes,
            Self::Empty | Self::Discarded => 0,
        }
    }

    /// Adds a frame that the log drops, unless the fold becomes too large for a log of `max_bytes`.
    pub(super) fn add(&mut self, record: &Record, max_bytes: usize) {
        if let Self::Empty = self {
            *self = Self::Folded(Box::default());
        }
        if let Self::Folded(fold) = self {
            fold.add(record);
        }
        self.enforce_limit(max_bytes);
    }

    /// Discards the fold if it is too large for a log of `max_bytes`.
    pub(super) fn enforce_limit(&mut self, max_bytes: usize) {
        if self.bytes() > fold_limit(max_bytes) {
            *self = Self::Discarded;
        }
    }

    /// Returns the snapshot of the first `frames` frames, if there is one.
    pub(super) fn snapshot(&self, frames: u64) -> Option<FoldedSnapshot> {
        match self {
            Self::Folded(fold) => Some(FoldedSnapshot {
                frames,
                events: fold.events.values().map(|(event, _)| Arc::clone(event)).collect(),
                text: fold.text.clone(),
                events_dropped: fold.events_dropped,
            }),
            Self::Empty | Self::Discarded => None,
        }
    }
}

/// A snapshot that still shares its events with the log: cheap to take under the lock, converted
/// outside of it.
#[derive(Debug, PartialEq)]
pub(crate) struct FoldedSnapshot {
    frames: u64,
    events: Vec<Arc<TimedEvent>>,
    text: String,
    events_dropped: u64,
}

impl FoldedSnapshot {
    pub(crate) fn into_snapshot(self) -> Snapshot {
        let events = self.events.iter();
        let events = events
            .map(|record| (record.event.clone(), record.timestamp))
            .collect();
        Snapshot::new(self.frames)
            .events(events)
            .text(self.text)
            .events_dropped(self.events_dropped)
    }
}

/// The last state of each step and the text so far.
#[derive(Debug, Default)]
pub(super) struct Fold {
    text: String,
    /// The events by their ordinals, with their sizes.
    events: BTreeMap<u64, (Arc<TimedEvent>, usize)>,
    /// The ordinal of the last event of each step.
    steps: HashMap<Step, u64>,
    /// The ordinals of the `sources` events: a later one does not simply replace an earlier one.
    sources: Vec<u64>,
    /// The ordinal of the next event.
    next: u64,
    /// The ordinal of the last event if it is a piece of a thought, which the next piece continues.
    thought: Option<u64>,
    events_dropped: u64,
    bytes: usize,
}

/// Returns the size of a text as JSON without its quotes, so that the limit holds for the line that
/// is made of it. A string always serializes.
fn escaped_bytes(text: &str) -> usize {
    json::length(&text).unwrap_or_default().saturating_sub(2)
}

impl Fold {
    fn add(&mut self, record: &Record) {
        match record {
            Record::Text(text) => {
                self.bytes += escaped_bytes(text);
                self.text.push_str(text);
            }
            Record::Event(record) => self.add_event(record),
            Record::End(_) | Record::Snapshot(_) => {}
        }
    }

    fn add_event(&mut self, record: &Arc<TimedEvent>) {
        let event = &record.event;
        if let Event::Thinking(piece) = event
            && self.continue_thought(piece, record.timestamp)
        {
            return;
        }
        if let Event::Retract(retract) = event {
            // Applied here, so nothing is left of it.
            return self.retract(retract.kept);
        }
        let ordinal = self.next;
        let is_piece = matches!(event, Event::Thinking(thought) if thought.id.is_some());
        self.thought = is_piece.then_some(ordinal);
        self.next += 1;
        if let Event::Sources(sources) = event {
            self.replace_sources(sources);
            self.sources.push(ordinal);
        }
        let mut bytes = EVENT_BYTES + json::length(event).unwrap_or_default();
        if let Some(step) = event.step() {
            bytes += step.len();
            if let Some(before) = self.steps.insert(step, ordinal) {
                self.remove(before);
            }
        }
        self.bytes += bytes;
        self.events.insert(ordinal, (Arc::clone(record), bytes));
    }

    /// Adds a piece to the thought that the last event began. Returns `false` if it begins a thought
    /// of its own.
    fn continue_thought(&mut self, piece: &Thinking, at: Option<Timestamp>) -> bool {
        let begun = self.thought.and_then(|ordinal| self.events.get_mut(&ordinal));
        let Some((begun, bytes)) = begun else {
            return false;
        };
        // A snapshot that was taken in between shares the thought and keeps its own state of it.
        let TimedEvent {
            event: Event::Thinking(thought),
            timestamp,
        } = Arc::make_mut(begun)
        else {
            return false;
        };
        if thought.id.is_none() || thought.id != piece.id {
            return false;
        }
        thought.content.push_str(&piece.content);
        let added = escaped_bytes(&piece.content);
        *bytes += added;
        self.bytes += added;
        *timestamp = at.or(*timestamp);
        true
    }

    /// Takes back the text after its first `kept` characters.
    fn retract(&mut self, kept: u64) {
        let before = self.text.len();
        let withdrawn = utf8::after_chars(&self.text, kept);
        self.bytes -= escaped_bytes(withdrawn);
        self.text.truncate(before - withdrawn.len());
    }

    fn remove(&mut self, ordinal: u64) {
        if let Some((_, bytes)) = self.events.remove(&ordinal) {
            self.bytes -= bytes;
            self.events_dropped += 1;
        }
    }

    /// Removes the `sources` events whose documents are all in `newer`. Some readers merge the
    /// documents of several events and some show the last event, so no other event can be removed.
    fn replace_sources(&mut self, newer: &Sources) {
        let newer: HashSet<_> = newer.sources.iter().map(passage).collect();
        let is_repeated = |ordinal: &u64| match self.events.get(ordinal).map(|(record, _)| &record.event) {
            Some(Event::Sources(older)) => older
                .sources
                .iter()
                .all(|source| newer.contains(&passage(source))),
            _ => false,
        };
        let (repeated, kept): (Vec<u64>, Vec<u64>) =
            self.sources.iter().partition(|ordinal| is_repeated(ordinal));
        self.sources = kept;
        repeated.into_iter().for_each(|ordinal| self.remove(ordinal));
    }
}

fn passage(source: &crate::event::Source) -> (&str, &str) {
    (&source.document_id, &source.chunk_id)
}

/// Continues a fold from a snapshot, for a log that begins with one.
impl From<Snapshot> for Fold {
    fn from(snapshot: Snapshot) -> Self {
        let mut fold = Self::default();
        for (event, timestamp) in snapshot.events {
            let record = Record::frame(Frame::Event { event, timestamp });
            // An event between two thoughts with the same ID may have been replaced since.
            fold.thought = None;
            fold.add(&record);
        }
        if !snapshot.text.is_empty() {
            fold.add(&Record::text(&snapshot.text));
        }
        fold.events_dropped += snapshot.events_dropped;
        fold
    }
}

#[cfg(test)]
mod tests;
