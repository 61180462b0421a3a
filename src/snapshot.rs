//! The beginning of a turn in one frame, for readers that come when its frames are kept no longer. It knows no wire and no journal:
//! which events it still has is decided where frames are dropped.

use crate::event::Event;
use crate::time::Timestamp;

/// Stands for the first frames of a turn: the answer so far, and the last state of each step.
///
/// For a reader it *replaces* whatever it has of the turn. Applied in their order, its events leave a reader as all events would have,
/// as long as a newer state of a step takes the place of an older one.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// How many frames it stands for, at least 1: the index of the frame that comes next.
    pub frames: u64,
    /// The last state of each step, in the order in which they were sent, with the moments.
    pub events: Vec<(Event, Option<Timestamp>)>,
    /// The answer so far.
    pub text: String,
    /// How many events it leaves out, since a later one says more.
    pub events_dropped: u64,
}

impl Snapshot {
    /// Stands for so many frames.
    pub fn new(frames: u64) -> Self {
        Self {
            frames,
            ..Self::default()
        }
    }

    /// Sets the last state of each step.
    #[must_use]
    pub fn events(mut self, events: Vec<(Event, Option<Timestamp>)>) -> Self {
        self.events = events;
        self
    }

    /// Sets the answer so far.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Sets how many events are left out.
    #[must_use]
    pub fn events_dropped(mut self, events: u64) -> Self {
        self.events_dropped = events;
        self
    }
}
