//! The turn as bytes of one wire.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use tokio::time::{Instant, Sleep};

use super::journal::follower::Follower;
use super::{Reader, Source, Timeouts, Turn};
use crate::wire::Wire;

/// Shortest keep-alive interval: anything less would be busy with nothing but fillers.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(10);

/// How often a reader of a journal looks at the clock where it has no keep-alive: there is nothing that it could find.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// The bytes of a turn on one wire: a stream that cannot fail and always ends with the wire's terminal.
///
/// Everything that is ready comes as one chunk; while nothing is, the wire's filler comes at the keep-alive interval.
///
/// Dropping it disconnects, as dropping a [`Turn`] does.
#[derive(Debug)]
pub struct TurnStream {
    chunks: Chunks,
    last: Instant,
    // Made when the stream first has to wait; re-armed only when it fires, so a chunk costs no timer.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Where the chunks come from.
#[derive(Debug)]
enum Chunks {
    Queue(Reader),
    Log(Box<Follower>),
}

impl Chunks {
    fn timeouts(&self) -> &Timeouts {
        match self {
            Self::Queue(reader) => &reader.timeouts,
            Self::Log(follower) => follower.timeouts(),
        }
    }

    fn poll_chunk(&mut self, cx: &Context<'_>, now: Instant) -> Poll<Option<Bytes>> {
        match self {
            Self::Queue(reader) => reader.queue.poll_bytes(cx, now.into_std()),
            Self::Log(follower) => follower.poll_bytes(cx),
        }
    }

    /// What there is to be looked at by the clock, and when to look again.
    fn check_overdue(&self, now: Instant) -> Instant {
        match self {
            Self::Queue(reader) => reader.check_overdue(),
            // The recorder does it for all readers.
            Self::Log(_) => now + NEVER,
        }
    }

    fn keep_alive(&mut self) {
        match self {
            Self::Queue(reader) => reader.queue.keep_alive(),
            Self::Log(follower) => follower.keep_alive(),
        }
    }
}

impl Turn {
    /// Spells the turn on `wire`, without any http around it.
    pub fn stream(self, wire: &impl Wire) -> TurnStream {
        let now = Instant::now();
        let chunks = match self.source {
            Source::Queue(reader) => {
                reader.span.record("wire", wire.name());
                reader.queue.attach(wire.encoder(), now.into_std());
                Chunks::Queue(reader)
            }
            Source::Log(reading) => Chunks::Log(Box::new(Follower::new(reading, wire.encoder()))),
        };
        TurnStream {
            chunks,
            last: now,
            timer: None,
        }
    }
}

impl TurnStream {
    /// Whether everything was handed out, the terminal included.
    pub fn is_finished(&self) -> bool {
        match &self.chunks {
            Chunks::Queue(reader) => reader.queue.is_drained(),
            Chunks::Log(follower) => follower.is_finished(),
        }
    }

    /// Whether the stream ended at a question, in its wire's own form (`parks` of the wire): the turn goes on, and its reader comes back with
    /// the answer ([`Journal::asked`](super::Journal::asked)).
    pub fn is_parked(&self) -> bool {
        match &self.chunks {
            Chunks::Queue(_) => false,
            Chunks::Log(follower) => follower.is_parked(),
        }
    }

    /// Goes on behind questions also where the wire would end its stream there: for a reader that is no client, as one that counts.
    #[must_use]
    pub fn through_questions(mut self) -> Self {
        if let Chunks::Log(follower) = &mut self.chunks {
            follower.pass_questions();
        }
        self
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let keep_alive = self
            .chunks
            .timeouts()
            .keep_alive
            .map(|interval| interval.max(MIN_KEEP_ALIVE));
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.last)));
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let look_again = self.chunks.check_overdue(now);
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
            if let Poll::Ready(chunk) = self.chunks.poll_chunk(cx, now) {
                self.last = now;
                return Poll::Ready(chunk);
            }
            std::task::ready!(self.poll_timer(cx));
            self.chunks.keep_alive();
        }
    }
}
