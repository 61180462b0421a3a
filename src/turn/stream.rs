//! The turn as bytes of one wire.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use tokio::time::{Instant, Sleep};

use super::{Reader, Turn};
use crate::wire::Wire;

/// Shortest keep-alive interval: anything less would be busy with nothing but fillers.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(10);

/// The bytes of a turn on one wire: a stream that cannot fail and always ends with the wire's terminal.
///
/// Everything that is ready comes as one chunk; while nothing is, the wire's filler comes at the keep-alive interval.
///
/// Dropping it disconnects: the orchestrator is dropped at its current wait.
#[derive(Debug)]
pub struct TurnStream {
    reader: Reader,
    last: Instant,
    // Made when the stream first has to wait; re-armed only when it fires, so a chunk costs no timer.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Turn {
    /// Spells the turn on `wire`, without any http around it.
    pub fn stream(self, wire: &impl Wire) -> TurnStream {
        let now = Instant::now();
        self.reader.span.record("wire", wire.name());
        self.reader.queue.attach(wire.encoder(), now.into_std());
        TurnStream {
            reader: self.reader,
            last: now,
            timer: None,
        }
    }
}

impl TurnStream {
    /// Whether everything was handed out, the terminal included.
    pub fn is_finished(&self) -> bool {
        self.reader.queue.is_drained()
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let keep_alive = self
            .reader
            .timeouts
            .keep_alive
            .map(|interval| interval.max(MIN_KEEP_ALIVE));
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.last)));
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let look_again = self.reader.check_overdue();
            let due = keep_alive.and_then(|interval| self.last.checked_add(interval));
            if due.is_some_and(|due| due <= now) {
                self.last = now;
                timer.as_mut().reset(now);
                return Poll::Ready(());
            }
            timer
                .as_mut()
                .reset(due.map_or(look_again, |due| due.min(look_again)));
        }
        Poll::Pending
    }
}

impl Stream for TurnStream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let now = Instant::now();
            if let Poll::Ready(chunk) = self.reader.queue.poll_bytes(cx, now.into_std()) {
                self.last = now;
                return Poll::Ready(chunk);
            }
            std::task::ready!(self.poll_timer(cx));
            self.reader.queue.keep_alive();
        }
    }
}
