//! The chunks of an answer, and what happens while the next one is awaited.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, Sleep};

use super::super::error::GatewayError;
use super::super::humans::{Channel, Humans};
use super::{SharedState, Source, lock};

/// The chunks of an answer. While they are awaited, humans are asked and their answers delivered.
pub(super) struct Chunks<S, C> {
    pub(super) source: S,
    /// The source is read to its end.
    pub(super) is_read: bool,
    /// Why the source failed.
    pub(super) error: Option<GatewayError>,
    pub(super) humans: Humans<C>,
    pub(super) shared: SharedState,
    pub(super) idle: Duration,
    /// When the orchestrator was heard last; `None` if something has arrived since the clock was read.
    pub(super) heard: Option<Instant>,
    pub(super) timer: Pin<Box<Sleep>>,
}

impl<S: Source, C: Channel> Chunks<S, C> {
    fn fail(&mut self, error: GatewayError) -> Poll<Option<Result<Bytes, SourceFailed>>> {
        self.error = Some(error);
        Poll::Ready(Some(Err(SourceFailed)))
    }

    /// Waits until the interrupts at which the run has ended are answered. Meanwhile what follows the
    /// end is read, so that the connection can be used again.
    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceFailed>>> {
        self.is_read = self.is_read || self.source.poll_chunk(cx).is_ready();
        if self.humans.is_idle() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }

    /// Waits until the orchestrator was silent for too long. Time does not count while a human is
    /// asked.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.heard.get_or_insert_with(Instant::now);
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if self.humans.is_waiting() {
                self.heard = Some(now);
            }
            let late = self.heard.unwrap_or(now) + self.idle;
            if late <= now {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(late);
        }
        Poll::Pending
    }
}

/// The source failed; `Chunks::error` says why.
#[derive(Debug, thiserror::Error)]
#[error("the orchestrator failed")]
pub(super) struct SourceFailed;

impl<S: Source + Unpin, C: Channel + Unpin> Stream for Chunks<S, C> {
    type Item = Result<Bytes, SourceFailed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let (taken, has_ended, is_interrupted) = {
            let mut shared = lock(&this.shared);
            let taken = std::mem::take(&mut shared.taken);
            (taken, shared.has_ended, !shared.interrupts.is_empty())
        };
        let resumes = !taken.is_empty();
        for event in taken {
            this.humans.take(event, cx);
        }
        if this.humans.is_waiting() {
            // Its human may have answered since the last look at the clock.
            this.heard = None;
        }
        if let Poll::Ready(error) = this.humans.poll_failed(cx) {
            return this.fail(error);
        }
        if resumes {
            // Nothing for the decoder, which has frames that wait behind the question.
            return Poll::Ready(Some(Ok(Bytes::new())));
        }
        if has_ended && this.source.ends_with_answer() {
            return Poll::Ready(None);
        }
        if is_interrupted && (has_ended || this.is_read) {
            return this.poll_answers(cx);
        }
        match this.source.poll_chunk(cx) {
            Poll::Ready(Some(Ok(chunk))) => {
                this.heard = None;
                return Poll::Ready(Some(Ok(chunk)));
            }
            Poll::Ready(Some(Err(error))) => return this.fail(error),
            Poll::Ready(None) => {
                this.is_read = true;
                return if is_interrupted {
                    this.poll_answers(cx)
                } else {
                    Poll::Ready(None)
                };
            }
            Poll::Pending => {}
        }
        match this.poll_silence(cx) {
            Poll::Ready(()) => this.fail(this.source.silent(this.idle)),
            Poll::Pending => Poll::Pending,
        }
    }
}
