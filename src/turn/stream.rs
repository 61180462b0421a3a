//! The turn as bytes on one wire.

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use tokio::time::{Instant, Sleep};

use super::journal::Follower;
use super::reader::Reader;
use super::timeouts::Timeouts;
use super::{Source, Turn};
use crate::wire::Wire;

/// The minimum keep-alive interval; a shorter one would send almost nothing but fillers.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(10);

/// The timer interval of a journal's reader without a keep-alive. It has no time limits to check.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// The bytes of a turn on one wire: a stream that cannot fail and always ends with the wire's
/// terminal.
///
/// Each chunk contains everything that is ready. While nothing is, the wire's filler is sent at the
/// keep-alive interval.
///
/// Dropping it disconnects, as dropping a [`Turn`] does.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures_util::StreamExt;
/// use ragwire::{Metadata, Ndjson, SendError, Sink, Turn};
///
/// async fn answer(sink: Sink) -> Result<Metadata, SendError> {
///     sink.send("Forty-two.").await?;
///     Ok(Metadata::default())
/// }
///
/// let mut stream = Turn::start(answer).commit().await?.stream(&Ndjson::default());
/// while let Some(chunk) = stream.next().await {
///     print!("{}", String::from_utf8_lossy(&chunk));
/// }
/// assert!(stream.is_finished());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TurnStream {
    chunks: Chunks,
    padding: Option<NonZeroUsize>,
    last: Instant,
    // Created when the stream first waits, and reset only when it fires, so that a chunk costs no
    // timer.
    timer: Option<Pin<Box<Sleep>>>,
    /// What the timer wakes. A server polls the body twice before it waits; the second time, the timer need
    /// not be polled.
    timer_wakes: Option<Waker>,
}

/// Where the chunks come from.
#[derive(Debug)]
enum Chunks {
    Queue(Box<Reader>),
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

    /// Checks the time limits. Returns when to check again.
    fn check_overdue(&self, now: Instant) -> Instant {
        match self {
            Self::Queue(reader) => reader.check_overdue(),
            // The recorder checks them for all readers.
            Self::Log(_) => now + NEVER,
        }
    }

    fn keep_alive(&mut self) {
        match self {
            Self::Queue(reader) => reader.queue.keep_alive(),
            Self::Log(follower) => follower.keep_alive(),
        }
    }

    /// Appends padding to a chunk.
    fn pad(&mut self, chunk: Bytes, block: NonZeroUsize) -> Bytes {
        let mut padding = BytesMut::new();
        match self {
            Self::Queue(reader) => reader.queue.pad(chunk.len(), block.get(), &mut padding),
            Self::Log(follower) => follower.pad(chunk.len(), block.get(), &mut padding),
        }
        if padding.is_empty() {
            return chunk;
        }
        let mut padded = BytesMut::with_capacity(chunk.len() + padding.len());
        padded.extend_from_slice(&chunk);
        padded.extend_from_slice(&padding);
        padded.freeze()
    }
}

impl Turn {
    /// The largest block of [`pad_to`](Self::pad_to), 4 KiB: more than any word or event of an answer,
    /// and less than the limits of all readers on a line.
    pub const MAX_PAD_TO: usize = 4 << 10;

    /// Pads each chunk of the stream to a multiple of `block` bytes, at most
    /// [`MAX_PAD_TO`](Self::MAX_PAD_TO); 0 pads nothing,
    /// which is the default.
    ///
    /// Anyone who sees encrypted traffic sees the sizes of its packets. Where each piece of an answer is
    /// a packet, these are the lengths of its words, from which much of the text can be guessed.
    /// Padding hides the lengths that are below `block`. It is what the wire's readers skip:
    /// comments of server-sent events, blank lines of JSON lines, spaces where readers take every line
    /// for JSON ([`Ollama`](crate::Ollama), [`TrustGraph`](crate::TrustGraph)).
    /// [`Framed`](crate::Framed) has room for it before its first text only, and the last chunk of a
    /// stream is never padded.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::StreamExt;
    /// use ragwire::{Metadata, SendError, Sink, Sse, Turn};
    ///
    /// let turn = Turn::start(|sink: Sink| async move {
    ///     sink.send("Forty-two.").await?;
    ///     std::future::pending::<()>().await;
    ///     Ok::<_, SendError>(Metadata::default())
    /// });
    /// let mut stream = turn.commit().await?.pad_to(256).stream(&Sse::default());
    /// assert_eq!(stream.next().await.map(|chunk| chunk.len()), Some(256));
    /// # Ok(()) }
    /// ```
    pub fn pad_to(mut self, block: usize) -> Self {
        self.padding = NonZeroUsize::new(block.min(Self::MAX_PAD_TO));
        self
    }

    /// Encodes the turn on `wire`, without HTTP.
    pub fn stream(self, wire: &impl Wire) -> TurnStream {
        let now = Instant::now();
        let padding = self.padding;
        let chunks = match self.source {
            Source::Queue(reader) => {
                reader.span.record("wire", wire.name());
                reader.name_wire(wire.name());
                reader.queue.attach(wire.encoder(), now.into_std());
                Chunks::Queue(reader)
            }
            Source::Log(mut cursor) => {
                cursor.name_wire(wire.name());
                Chunks::Log(Box::new(Follower::new(cursor, wire.encoder())))
            }
        };
        TurnStream {
            chunks,
            padding,
            last: now,
            timer: None,
            timer_wakes: None,
        }
    }
}

impl TurnStream {
    /// Returns `true` once everything including the terminal was read.
    pub fn is_finished(&self) -> bool {
        match &self.chunks {
            Chunks::Queue(reader) => reader.queue.is_drained(),
            Chunks::Log(follower) => follower.is_finished(),
        }
    }

    /// Returns `true` if the stream ended at a question (see `parks` of the wire). The turn
    /// continues, and its client resumes it with the answer
    /// ([`Journal::request`](super::Journal::request)).
    pub fn is_parked(&self) -> bool {
        match &self.chunks {
            Chunks::Queue(_) => false,
            Chunks::Log(follower) => follower.is_parked(),
        }
    }

    /// Continues past questions even if the wire would end its stream there, for internal readers
    /// such as one that counts frames.
    #[must_use]
    pub fn through_questions(mut self) -> Self {
        if let Chunks::Log(follower) = &mut self.chunks {
            follower.pass_questions();
        }
        self
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let is_set = self.timer.as_ref().is_some_and(|timer| now < timer.deadline());
        let wakes = self.timer_wakes.as_ref();
        if is_set && wakes.is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        // A timer that fires forgets what it wakes.
        self.timer_wakes = None;
        let keep_alive = self
            .chunks
            .timeouts()
            .keep_alive
            .map(|interval| interval.max(MIN_KEEP_ALIVE));
        let (chunks, last) = (&self.chunks, &mut self.last);
        let keep_alive_at = |last: Instant| keep_alive.and_then(|interval| last.checked_add(interval));
        let next = |last: Instant, now: Instant| {
            let next_check = chunks.check_overdue(now);
            keep_alive_at(last).map_or(next_check, |due| due.min(next_check))
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next(*last, *last))));
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if keep_alive_at(*last).is_some_and(|due| due <= now) {
                *last = now;
                timer.as_mut().reset(next(now, now));
                return Poll::Ready(());
            }
            timer.as_mut().reset(next(*last, now));
        }
        self.timer_wakes = Some(cx.waker().clone());
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
                return Poll::Ready(match (chunk, self.padding) {
                    (Some(chunk), Some(block)) => Some(self.chunks.pad(chunk, block)),
                    (chunk, _) => chunk,
                });
            }
            std::task::ready!(self.poll_timer(cx, now));
            self.chunks.keep_alive();
        }
    }
}
