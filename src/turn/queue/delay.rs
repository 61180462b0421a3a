//! The delay of the answer's first text, so that what a model announces before it calls a tool does
//! not begin the answer.

use std::task::Waker;
use std::time::{Duration, Instant};

use super::state::State;
use super::{Queue, wake};
use crate::event::Event;
use crate::utf8;

/// The longest text that is held. An announcement is a sentence or two; anything longer is the
/// answer.
const MAX_HELD_BYTES: usize = 1024;

/// The first text is held until no event has followed it for some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextDelay {
    after: Duration,
    /// When the first text after the last event arrived. `None` if an event came last.
    since: Option<Instant>,
}

impl State {
    /// Records that text was queued. Returns the producer, which watches the clock, to wake.
    pub(super) fn hold_text(&mut self, now: impl FnOnce() -> Instant) -> Option<Waker> {
        let delay = self.delay.as_mut()?;
        if self.text.len() > MAX_HELD_BYTES {
            self.delay = None;
            return None;
        }
        if delay.since.is_some() {
            return None;
        }
        delay.since = Some(now());
        self.producer.take()
    }

    /// Prepares for an event. Text that is held stays behind it; other text precedes it. Returns
    /// `true` if the event was applied to the held text, so that nothing of it is left.
    pub(super) fn pass_held_text(&mut self, event: &Event) -> bool {
        let Some(delay) = &mut self.delay else {
            self.flush_text();
            return false;
        };
        delay.since = None;
        let Event::Retract(retract) = event else {
            return false;
        };
        // Nothing was shown yet, so all of the answer is here.
        utf8::keep_chars(&mut self.text, retract.kept);
        self.retract(retract.kept);
        true
    }

    /// Moves the text to the reader's side unless it is held.
    pub(super) fn release_text(&mut self, now: Instant) {
        let is_due = self.text_due().is_some_and(|due| due <= now);
        if is_due || self.end.is_some() {
            self.delay = None;
        }
        if self.delay.is_none() {
            self.flush_text();
        }
    }

    fn text_due(&self) -> Option<Instant> {
        let delay = self.delay?;
        delay.since?.checked_add(delay.after)
    }
}

impl Queue {
    /// Holds the first text until no event has followed it for this long.
    pub(crate) fn delay_text(&self, after: Duration) {
        self.lock().delay = Some(TextDelay { after, since: None });
    }

    /// Returns when the held text is due. If it is due now, wakes the reader, which takes it.
    pub(crate) fn text_due(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        let due = state.text_due()?;
        if due > now {
            return Some(due);
        }
        state.delay = None;
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        None
    }
}
