//! The reader's side of the queue.

use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;

use super::state::{Out, first_buffer};
use super::{Closed, CommitOn, Queue, Refused, register, wake, wake_all};
use crate::event::Event;
use crate::frame::{End, Frame, Status};
use crate::order::Phase;
use crate::wire::Encoder;

/// The question that an event asks.
fn request_id(event: &Event) -> Option<&str> {
    match event {
        Event::InputRequested(question) => Some(&question.request_id),
        Event::AuthorizationRequired(required) => required.request_id.as_deref(),
        _ => None,
    }
}

impl Queue {
    /// Waits until the response has begun or the turn failed before that: one decision, under one lock. `overdue` says that the
    /// caller's patience is over, which begins the response whatever there is.
    pub(crate) fn poll_commit(&self, cx: &Context<'_>, on: CommitOn, overdue: bool) -> Poll<Result<(), End>> {
        let asks = self.questions.is_waiting();
        let mut state = self.lock();
        // Nobody can answer what they do not see.
        let asks = asks && state.figures.frames > 0;
        let begun = match on {
            CommitOn::Frame => state.figures.frames > 0,
            CommitOn::Text => state.figures.first_text.is_some(),
            CommitOn::End => false,
        };
        // A full queue cannot get any nearer to what is waited for.
        if begun || asks || overdue || matches!(state.room(&self.limits), Err(Refused::Full)) {
            return Poll::Ready(Ok(()));
        }
        match &state.end {
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

    /// A wire is chosen: what was kept is encoded, and from now on everything at once.
    pub(crate) fn attach(&self, mut encoder: Encoder, now: Instant) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Out::Frames { frames, .. } = &mut state.out else {
            return;
        };
        let mut buffer = first_buffer();
        let mut hidden = Vec::new();
        for frame in std::mem::take(frames) {
            if let Frame::Event { event, .. } = &frame
                && !encoder.shows_events(Phase::Events)
            {
                hidden.extend(request_id(event).map(str::to_owned));
            }
            // The queue checked the order; an event that is too long for this wire is the one thing that can be refused.
            if encoder.encode(&frame, &mut buffer).is_err() {
                match &mut state.end {
                    // Already summed up.
                    Some(end) => end.metadata.events_dropped += 1,
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

    /// Takes everything that is ready as one chunk, the terminal included; `None` after it.
    pub(crate) fn poll_bytes(&self, cx: &Context<'_>, now: Instant) -> Poll<Option<Bytes>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.flush_text();
        let producer = state.take_end();
        let mut senders = Vec::new();
        let taken = match &mut state.out {
            Out::Bytes { buffer, .. } if !buffer.is_empty() => {
                let chunk = buffer.split().freeze();
                state.figures.bytes += chunk.len() as u64;
                senders = state.taken(now);
                Poll::Ready(Some(chunk))
            }
            Out::Bytes { .. } if !state.end_taken => {
                register(&mut state.reader, cx);
                // Late events may leave no bytes before the end: the reader has taken all there is, so they fill nothing.
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

    /// Takes the next frame as it is; `None` after the end. For a reader that wants no wire.
    pub(crate) fn poll_frame(&self, cx: &Context<'_>, now: Instant) -> Poll<Option<Frame>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.flush_text();
        let producer = state.take_end();
        let mut senders = Vec::new();
        let taken = match &mut state.out {
            Out::Bytes { .. } => Poll::Ready(None),
            Out::Frames { frames, bytes, .. } => match frames.pop_front() {
                Some(frame) => {
                    if frames.is_empty() {
                        *bytes = 0;
                        senders = state.taken(now);
                    }
                    Poll::Ready(Some(frame))
                }
                None if state.end_taken => Poll::Ready(None),
                None => {
                    register(&mut state.reader, cx);
                    Poll::Pending
                }
            },
        };
        drop(guard);
        wake(producer);
        senders.into_iter().for_each(Waker::wake);
        taken
    }

    /// Writes the wire's filler, if it has one now and nothing else is ready.
    pub(crate) fn keep_alive(&self) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Out::Bytes { encoder, buffer } = &mut state.out
            && buffer.is_empty()
            && state.text.is_empty()
            && state.end.is_none()
        {
            encoder.keep_alive(buffer);
        }
    }

    /// Whether the terminal was handed out and nothing is left.
    pub(crate) fn is_drained(&self) -> bool {
        let state = self.lock();
        state.end_taken && state.is_empty()
    }

    /// How the turn ended, once the reader has been told.
    pub(crate) fn end_taken(&self) -> Option<Status> {
        let state = self.lock();
        state
            .end
            .as_ref()
            .filter(|_| state.end_taken)
            .map(|end| end.status.clone())
    }

    /// Waits until the reader has the end, or is gone: what the producer's task does when everything else is done.
    pub(crate) fn poll_end_taken(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.end_taken || state.reader_gone {
            return Poll::Ready(());
        }
        register(&mut state.producer, cx);
        Poll::Pending
    }

    /// Since when the reader of a turn that ended at `ended` has taken nothing; `None` where nobody has chosen a wire.
    pub(crate) fn untaken_since(&self, ended: Instant) -> Option<Instant> {
        let state = self.lock();
        let has_wire = matches!(state.out, Out::Bytes { .. });
        has_wire.then(|| state.activity.behind_since.unwrap_or(ended))
    }

    /// The reader is gone: whoever sends is told, and the producer gives up.
    pub(crate) fn disconnect(&self) {
        let mut state = self.lock();
        state.reader_gone = true;
        state.closed.get_or_insert(Closed::Disconnected);
        state.activity.behind_since = None;
        // A sink may live on for a long time; what nobody will read does not.
        state.text = String::new();
        state.out = Out::nothing();
        wake_all(state);
    }
}
