//! What a log remembers of the frames that it dropped: the answer so far, and the last state of each step. It knows no lock, no wire and no
//! index; how much it may take is said with each frame.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::kept::Record;
use crate::event::{Event, Sources, Step};
use crate::frame::Frame;
use crate::json;
use crate::snapshot::Snapshot;
use crate::time::Timestamp;
use crate::wire::Limits;

/// Room for what stands around events and text in a line: its index and the names of its members.
const AROUND_BYTES: usize = 1024;

/// Most bytes that a fold takes, however much a turn may keep: what stands in a line that every reader of our wires takes by its default.
const MAX_BYTES: usize = Limits::MAX_TRAILER_BYTES - AROUND_BYTES;

/// Which part of what a turn may keep its fold takes at most: a quarter, so that three of four bytes go on being exact. An answer of a
/// quarter of a MiB is a book.
const SHARE: usize = 4;

/// How many bytes a fold may take where a turn may keep `max_bytes`.
fn allowed(max_bytes: usize) -> usize {
    MAX_BYTES.min(max_bytes / SHARE)
}

/// What became of the dropped head of a log.
#[derive(Debug, Default)]
pub(super) enum Past {
    /// Nothing was dropped.
    #[default]
    Whole,
    /// What was dropped is remembered.
    Folded(Box<Fold>),
    /// It would have taken too much: it is gone.
    Gone,
}

impl Past {
    /// What it counts.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Folded(fold) => fold.bytes,
            Self::Whole | Self::Gone => 0,
        }
    }

    /// Remembers a frame that is dropped, unless that takes too much of the `max_bytes` that the turn may keep.
    pub(super) fn drop_frame(&mut self, record: &Record, bytes: usize, max_bytes: usize) {
        if let Self::Whole = self {
            *self = Self::Folded(Box::default());
        }
        if let Self::Folded(fold) = self {
            fold.add(record, bytes);
        }
        self.keep_within(max_bytes);
    }

    /// Forgets everything where it takes too much of the `max_bytes` that the turn may keep.
    pub(super) fn keep_within(&mut self, max_bytes: usize) {
        if self.bytes() > allowed(max_bytes) {
            *self = Self::Gone;
        }
    }

    /// What there is of the first `frames` frames.
    pub(super) fn held(&self, frames: u64) -> Option<Held> {
        match self {
            Self::Folded(fold) => Some(Held {
                frames,
                events: fold.events.values().map(|(event, _)| Arc::clone(event)).collect(),
                text: fold.text.clone(),
                events_dropped: fold.events_dropped,
            }),
            Self::Whole | Self::Gone => None,
        }
    }
}

/// A snapshot that is still shared with its log: taken under a lock, made to be read outside of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Held {
    frames: u64,
    events: Vec<Arc<Frame>>,
    text: String,
    events_dropped: u64,
}

impl Held {
    pub(crate) fn into_snapshot(self) -> Snapshot {
        let events = self.events.iter().filter_map(|frame| parts(frame));
        let events = events
            .map(|(event, timestamp)| (event.clone(), timestamp))
            .collect();
        Snapshot::new(self.frames)
            .events(events)
            .text(self.text)
            .events_dropped(self.events_dropped)
    }
}

fn parts(frame: &Frame) -> Option<(&Event, Option<Timestamp>)> {
    match frame {
        Frame::Event { event, timestamp } => Some((event, *timestamp)),
        _ => None,
    }
}

/// The last state of each step, and the answer so far.
#[derive(Debug, Default)]
pub(super) struct Fold {
    text: String,
    /// By the order in which they came, with what each of them counts.
    events: BTreeMap<u64, (Arc<Frame>, usize)>,
    /// Where the event of a step stands.
    steps: HashMap<Step, u64>,
    /// Where events stand that say documents, none of which takes the place of another as a whole.
    sources: Vec<u64>,
    /// Of the next event.
    next: u64,
    events_dropped: u64,
    bytes: usize,
}

impl Fold {
    fn add(&mut self, record: &Record, bytes: usize) {
        match record {
            Record::Text(text) => {
                // As it is spelled without its quotes, so that the bound holds for the line that it becomes. A string always serialises.
                self.bytes += json::length(&&**text).unwrap_or_default().saturating_sub(2);
                self.text.push_str(text);
            }
            Record::Frame(frame) => {
                if let Some((event, _)) = parts(frame) {
                    self.add_event(event, frame, bytes);
                }
            }
        }
    }

    fn add_event(&mut self, event: &Event, frame: &Arc<Frame>, mut bytes: usize) {
        let place = self.next;
        self.next += 1;
        if let Event::Sources(sources) = event {
            self.replace_sources(sources);
            self.sources.push(place);
        }
        if let Some(step) = event.step() {
            bytes += step.len();
            if let Some(before) = self.steps.insert(step, place) {
                self.remove(before);
            }
        }
        self.bytes += bytes;
        self.events.insert(place, (Arc::clone(frame), bytes));
    }

    fn remove(&mut self, place: u64) {
        if let Some((_, bytes)) = self.events.remove(&place) {
            self.bytes -= bytes;
            self.events_dropped += 1;
        }
    }

    /// Readers add up the documents of several events, or show the last of them: an event is spared only where a later one has all of it.
    fn replace_sources(&mut self, newer: &Sources) {
        let newer: HashSet<_> = newer.sources.iter().map(passage).collect();
        let is_repeated = |place: &u64| {
            let frame = self.events.get(place).map(|(frame, _)| frame);
            match frame.and_then(|frame| parts(frame)) {
                Some((Event::Sources(older), _)) => older
                    .sources
                    .iter()
                    .all(|source| newer.contains(&passage(source))),
                _ => false,
            }
        };
        let (repeated, kept): (Vec<u64>, Vec<u64>) =
            self.sources.iter().partition(|place| is_repeated(place));
        self.sources = kept;
        repeated.into_iter().for_each(|place| self.remove(place));
    }
}

fn passage(source: &crate::event::Source) -> (&str, &str) {
    (&source.document_id, &source.chunk_id)
}

/// A fold goes on from a snapshot, for a log that begins with one.
impl From<Snapshot> for Fold {
    fn from(snapshot: Snapshot) -> Self {
        let mut fold = Self::default();
        for (event, timestamp) in snapshot.events {
            let record = Record::frame(Frame::Event { event, timestamp });
            fold.add(&record, record.bytes());
        }
        if !snapshot.text.is_empty() {
            fold.add(&Record::text(&snapshot.text), 0);
        }
        fold.events_dropped += snapshot.events_dropped;
        fold
    }
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
