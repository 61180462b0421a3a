//! The reader's side of the queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::state::{Out, first_buffer};
use super::{Closed, CommitOn, Queue, QueuedFrame, Refused, register, wake, wake_all};
use crate::event::Event;
use crate::frame::{End, Status};
use crate::metadata::Usage;
use crate::order::Phase;
use crate::wire::Encoder;

/// Returns the request ID of an event that asks a question.
fn request_id(event: &Event) -> Option<&str> {
    if let Event::InputRequested(question) = event {
        return Some(&question.request_id);
    }
    let Event::AuthorizationRequired(required) = event else {
        return None;
    };
    required.request_id.as_deref()
}

impl Queue {
    /// Waits until the response begins or the turn fails before that; the decision is made under
    /// one lock. `overdue` means that the caller's deadline has passed, which begins the response
    /// in any case.
    pub(crate) fn poll_commit(&self, cx: &Context<'_>, on: CommitOn, overdue: bool) -> Poll<Result<(), End>> {
        let is_asking = self.questions.is_waiting();
        let mut state = self.lock();
        // A question begins the response once its event is queued: no one can answer before they
        // see it.
        let is_asking = is_asking && state.figures.frames > 0;
        let begun = match on {
            CommitOn::Frame => state.figures.frames > 0,
            CommitOn::Text => state.figures.first_text.is_some(),
            CommitOn::End => false,
        };
        // A full queue accepts no further frame, so the awaited one could never arrive.
        if begun || is_asking || overdue || matches!(state.room(&self.limits), Err(Refused::Full)) {
            return Poll::Ready(Ok(()));
        }
        match state.end.as_deref() {
            Some(End {
                status: Status::Completed,
                ..
            }) => Poll::Ready(Ok(())),
            Some(end) => Poll::Ready(Err(end.clone())),
            None => {
                register(&mut state.reader, cx);
                Poll::Pending
            }
        }
    }

    /// Chooses the wire: encodes the waiting frames, and from now on every frame when it is sent.
    pub(crate) fn attach(&self, mut encoder: Encoder, now: Instant) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Out::Frames { frames, .. } = &mut state.out else {
            return;
        };
        let mut buffer = first_buffer();
        let mut hidden = Vec::new();
        for frame in std::mem::take(frames) {
            if let Some(event) = frame.as_event()
                && !encoder.shows_events(Phase::Events)
            {
                hidden.extend(request_id(event).map(str::to_owned));
            }
            // The queue has checked the order, so only an event that is too long for this wire can
            // fail.
            if frame.encode(&mut encoder, &mut buffer).is_err() {
                match &mut state.end {
                    // The end already has the total.
                    Some(end) => Arc::make_mut(end).metadata.events_dropped += 1,
                    None => state.figures.dropped += 1,
                }
            }
        }
        state.out = Out::Bytes { encoder, buffer };
        if state.frames > 0 {
            state.activity.behind_since = Some(now);
        }
        drop(guard);
        for request_id in hidden {
            self.questions.hide(&request_id);
        }
    }

    /// Takes everything that is ready as one chunk, including the terminal. Returns `None` after
    /// the terminal.
    pub(crate) fn poll_bytes(&self, cx: &Context<'_>, now: Instant) -> Poll<Option<Bytes>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.release_text(now);
        let producer = state.take_end();
        let mut senders = Vec::new();
        let taken = match &mut state.out {
            Out::Bytes { buffer, .. } if !buffer.is_empty() => {
                // The whole buffer, so that a stream with nothing to send holds none.
                let chunk = std::mem::take(buffer).freeze();
                state.figures.bytes += chunk.len() as u64;
                senders = state.taken(now);
                Poll::Ready(Some(chunk))
            }
            Out::Bytes { .. } if !state.end_taken => {
                register(&mut state.reader, cx);
                // Late events may have no bytes before the end. They do not count as waiting for
                // the reader.
                if state.frames > 0 {
                    senders = state.taken(now);
                }
                Poll::Pending
            }
            Out::Bytes { .. } | Out::Frames { .. } => Poll::Ready(None),
        };
        drop(guard);
        wake(producer);
        senders.into_iter().for_each(Waker::wake);
        taken
    }

    /// Takes all frames that are ready, for a reader without a wire: fills `into`, which is empty.
    /// Returns `false` after the end.
    pub(crate) fn poll_frames(
        &self,
        cx: &Context<'_>,
        now: Instant,
        into: &mut VecDeque<QueuedFrame>,
    ) -> Poll<bool> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.release_text(now);
        let producer = state.take_end();
        let mut senders = Vec::new();
        let taken = match &mut state.out {
            Out::Bytes { .. } => Poll::Ready(false),
            Out::Frames { frames, bytes, .. } if !frames.is_empty() => {
                std::mem::swap(frames, into);
                *bytes = 0;
                senders = state.taken(now);
                Poll::Ready(true)
            }
            Out::Frames { .. } if state.end_taken => Poll::Ready(false),
            Out::Frames { .. } => {
                register(&mut state.reader, cx);
                Poll::Pending
            }
        };
        drop(guard);
        wake(producer);
        senders.into_iter().for_each(Waker::wake);
        taken
    }

    /// Writes the wire's filler if nothing else is ready.
    pub(crate) fn keep_alive(&self) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Out::Bytes { encoder, buffer } = &mut state.out
            && buffer.is_empty()
            && (state.text.is_empty() || state.delay.is_some())
            && state.end.is_none()
        {
            encoder.keep_alive(buffer);
        }
    }

    /// Appends padding that makes `written` bytes a multiple of `block`, if it is legal now.
    pub(crate) fn pad(&self, written: usize, block: usize, out: &mut BytesMut) {
        let mut guard = self.lock();
        if let Out::Bytes { encoder, .. } = &mut guard.out {
            encoder.pad(written, block, out);
        }
    }

    /// Returns `true` once the reader has taken everything including the terminal.
    pub(crate) fn is_drained(&self) -> bool {
        let state = self.lock();
        state.end_taken && state.is_empty()
    }

    /// Returns how the turn ended, and what it consumed, once the reader has taken the end.
    pub(crate) fn end_taken(&self) -> Option<(Status, Option<Usage>)> {
        let state = self.lock();
        let end = state.end.as_ref().filter(|_| state.end_taken);
        end.map(|end| (end.status.clone(), end.metadata.usage.clone()))
    }

    /// Returns the number and the size of the frames that wait for the reader.
    pub(crate) fn backlog(&self) -> (usize, usize) {
        let state = self.lock();
        (state.frames, state.bytes())
    }

    /// Waits until the reader has taken the end or has disconnected. The last step of the
    /// producer's task.
    pub(crate) fn poll_end_taken(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.end_taken || state.reader_gone {
            return Poll::Ready(());
        }
        register(&mut state.producer, cx);
        Poll::Pending
    }

    /// Returns since when the reader of a turn that ended at `ended` has taken no data, or `None`
    /// if no wire is chosen.
    pub(crate) fn untaken_since(&self, ended: Instant) -> Option<Instant> {
        let state = self.lock();
        let has_wire = matches!(state.out, Out::Bytes { .. });
        has_wire.then(|| state.activity.behind_since.unwrap_or(ended))
    }

    /// Records that the reader has disconnected: senders get an error, and the producer stops.
    pub(crate) fn disconnect(&self) {
        let mut state = self.lock();
        state.reader_gone = true;
        state.closed.get_or_insert(Closed::Disconnected);
        state.activity.behind_since = None;
        // Frees the data at once, because a sink may live for a long time.
        state.text = String::new();
        state.out = Out::nothing();
        wake_all(state);
    }
}
