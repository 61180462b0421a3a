//! The way of an answer into the turn, and of a human's answers back to the orchestrator.
//!
//! [`Sink::relay`] decodes and sends. Around it, [`Filter`] takes the questions to humans out of the
//! frames and [`Chunks`] asks them between two chunks, so that the turn itself asks, every wire shows
//! the question in its own form, and its answer returns through a [`Channel`].

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use ragwire::event::Event;
use ragwire::turn::RelayError;
use ragwire::wire::{Decode, DecodeError, Finish};
use ragwire::{Frame, Metadata, Sink};
use tokio::time::{Instant, Sleep, sleep_until};

use super::error::GatewayError;
use super::humans::{Channel, Humans};

/// Where the bytes or the objects of an answer come from.
pub(super) trait Source: Send {
    /// Returns the next chunk for the decoder.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, GatewayError>>>;

    /// The error for an orchestrator that is silent for too long.
    fn silent(&self, after: Duration) -> GatewayError;

    /// Returns `true` if nothing is read after the end of the answer.
    fn ends_with_answer(&self) -> bool;
}

/// What the two sides of a relay share.
#[derive(Debug, Default)]
struct Shared {
    /// Events about questions to humans that were taken out of the frames.
    taken: VecDeque<Event>,
    /// The questions that this turn asks or has asked.
    asked: Vec<String>,
    /// The end of the answer was decoded.
    has_ended: bool,
    /// Why the source failed.
    error: Option<GatewayError>,
    /// The last chunk, for the log.
    last: Bytes,
}

/// Questions of one turn whose outcomes are recognized. More than any answer has; beyond it, the
/// orchestrator's own report of an outcome is shown too.
const MAX_ASKED: usize = 1_000;

type SharedState = Arc<Mutex<Shared>>;

fn lock(shared: &SharedState) -> MutexGuard<'_, Shared> {
    // Nothing panics in the middle of a change.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer that did not complete.
pub(super) struct Unfinished {
    pub(super) error: GatewayError,
    /// The last chunk, for the log.
    pub(super) last: Bytes,
    /// The answer has its end: the orchestrator itself reports a failure or a stop.
    pub(super) has_ended: bool,
}

/// Relays an answer into the turn.
pub(super) async fn relay(
    sink: Sink,
    decoder: Box<dyn Decode>,
    source: impl Source + Unpin,
    channel: impl Channel + Unpin,
    idle: Duration,
) -> Result<Metadata, Unfinished> {
    let shared = SharedState::default();
    let filter = Filter {
        decoder,
        shared: Arc::clone(&shared),
    };
    let chunks = Chunks {
        source,
        humans: Humans::new(sink.clone(), channel),
        shared: Arc::clone(&shared),
        idle,
        heard: Instant::now(),
        timer: Box::pin(sleep_until(Instant::now() + idle)),
    };
    let relayed = sink.relay(filter, chunks).await;
    relayed.map_err(|error: RelayError| {
        let mut shared = lock(&shared);
        Unfinished {
            error: shared.error.take().unwrap_or(GatewayError::Relay(error)),
            last: std::mem::take(&mut shared.last),
            has_ended: shared.has_ended,
        }
    })
}

/// A decoder that takes the events about questions to humans out of the frames.
#[derive(Debug)]
struct Filter {
    decoder: Box<dyn Decode>,
    shared: SharedState,
}

impl Decode for Filter {
    fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
    }

    fn finish(&mut self) -> Finish {
        self.decoder.finish()
    }

    fn shows_failures(&self) -> bool {
        self.decoder.shows_failures()
    }
}

impl Iterator for Filter {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The question is asked first, so that it precedes what follows it.
        if !lock(&self.shared).taken.is_empty() {
            return None;
        }
        let frame = self.decoder.next()?;
        match &frame {
            Ok(Frame::Event { event, .. }) => {
                let mut shared = lock(&self.shared);
                if shared.takes(event) {
                    shared.taken.push_back(event.clone());
                    return None;
                }
            }
            Ok(Frame::End(_)) => lock(&self.shared).has_ended = true,
            Ok(Frame::Text(_) | Frame::Snapshot(_)) | Err(_) => {}
        }
        Some(frame)
    }
}

impl Shared {
    /// Returns `true` for an event about a question that this turn asks.
    fn takes(&mut self, event: &Event) -> bool {
        let (request_id, is_question) = if let Event::InputRequested(question) = event {
            (Some(&question.request_id), true)
        } else if let Event::AuthorizationRequired(required) = event {
            (required.request_id.as_ref(), true)
        } else if let Event::InputResolved(resolved) = event {
            (Some(&resolved.request_id), false)
        } else if let Event::AuthorizationCompleted(completed) = event {
            (completed.request_id.as_ref(), false)
        } else {
            (None, false)
        };
        let Some(request_id) = request_id else {
            return false;
        };
        if is_question && self.asked.len() < MAX_ASKED {
            self.asked.push(request_id.clone());
        }
        is_question || self.asked.contains(request_id)
    }
}

/// The chunks of an answer. While they are awaited, humans are asked and their answers delivered.
struct Chunks<S, C> {
    source: S,
    humans: Humans<C>,
    shared: SharedState,
    idle: Duration,
    /// When the orchestrator was heard last.
    heard: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<S: Source, C: Channel> Chunks<S, C> {
    fn fail(&self, error: GatewayError) -> Poll<Option<Result<Bytes, SourceFailed>>> {
        lock(&self.shared).error = Some(error);
        Poll::Ready(Some(Err(SourceFailed)))
    }

    /// Waits until the orchestrator was silent for too long. Time does not count while a human is
    /// asked.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if self.humans.is_waiting() {
                self.heard = now;
            }
            let late = self.heard + self.idle;
            if late <= now {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(late);
        }
        Poll::Pending
    }
}

/// The source failed; `Shared::error` says why.
#[derive(Debug, thiserror::Error)]
#[error("the orchestrator failed")]
struct SourceFailed;

impl<S: Source + Unpin, C: Channel + Unpin> Stream for Chunks<S, C> {
    type Item = Result<Bytes, SourceFailed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let taken = std::mem::take(&mut lock(&this.shared).taken);
        let resumes = !taken.is_empty();
        for event in taken {
            this.humans.take(event, cx);
        }
        if let Poll::Ready(error) = this.humans.poll_failed(cx) {
            return this.fail(error);
        }
        if resumes {
            // Nothing for the decoder, which has frames that wait behind the question.
            return Poll::Ready(Some(Ok(Bytes::new())));
        }
        if this.source.ends_with_answer() && lock(&this.shared).has_ended {
            return Poll::Ready(None);
        }
        match this.source.poll_chunk(cx) {
            Poll::Ready(Some(Ok(chunk))) => {
                this.heard = Instant::now();
                lock(&this.shared).last = chunk.clone();
                return Poll::Ready(Some(Ok(chunk)));
            }
            Poll::Ready(Some(Err(error))) => return this.fail(error),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        match this.poll_silence(cx) {
            Poll::Ready(()) => this.fail(this.source.silent(this.idle)),
            Poll::Pending => Poll::Pending,
        }
    }
}
