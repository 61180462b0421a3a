//! The ids that are in flight on one socket, each in its turn.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use tokio::time::Instant;

use super::Gateway;
use super::guarded::Guarded;
use crate::failure::Failure;
use crate::frame::End;
use crate::turn::timeouts::total_timeout;
use crate::turn::{Rejected, Turn, TurnHandle, TurnStream};
use crate::wire::Wire;
use crate::wire::trustgraph::TrustGraph;

/// What a service's handler becomes.
pub(super) type Starting = Guarded<Result<Turn, Rejected>>;

/// The ids that are in flight. Dropping it disconnects all of them.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<InFlight>,
    /// Whose turn it is.
    next: usize,
}

/// One id.
#[derive(Debug)]
struct InFlight {
    id: String,
    wire: TrustGraph,
    /// By when its response has to have begun.
    start_by: Option<Instant>,
    state: State,
}

enum State {
    /// The handler runs; the response has not begun.
    Starting(Starting),
    Running {
        handle: TurnHandle,
        stream: Box<TurnStream>,
        /// Of the last chunk, the messages that were not sent yet.
        rest: Bytes,
    },
    /// There is only this left to say.
    Told(Bytes),
    Over,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting(_) => "Starting",
            Self::Running { .. } => "Running",
            Self::Told(_) => "Told",
            Self::Over => "Over",
        })
    }
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.calls.iter().any(|call| call.id == id)
    }

    /// Adds an id that is not in flight. It comes after all others.
    pub(super) fn add(
        &mut self,
        id: String,
        wire: TrustGraph,
        start_by: Option<Instant>,
        starting: Starting,
    ) {
        self.calls.push(InFlight {
            id,
            wire,
            start_by,
            state: State::Starting(starting),
        });
    }

    /// Stops the id, which still gets its last message, where it is in flight.
    pub(super) fn cancel(&mut self, id: &str) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            call.end(None);
        }
    }

    /// Ends all ids with a failure; each still gets its last message.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        for call in &mut self.calls {
            call.end(Some(failure));
        }
    }

    /// When the next handler will have taken too long.
    pub(super) fn start_by(&self) -> Option<Instant> {
        let starting = self
            .calls
            .iter()
            .filter(|call| matches!(call.state, State::Starting(_)));
        starting.filter_map(|call| call.start_by).min()
    }

    /// Ends the ids whose handlers have taken too long; each still gets its last message.
    pub(super) fn fail_late(&mut self, now: Instant) {
        for call in &mut self.calls {
            if matches!(call.state, State::Starting(_)) && call.start_by.is_some_and(|by| by <= now) {
                call.end(Some(&total_timeout()));
            }
        }
    }

    /// The next message, one of each id in turn; pending also where nothing is in flight.
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        for _ in 0..self.calls.len() {
            let at = if self.next < self.calls.len() {
                self.next
            } else {
                0
            };
            let Some(call) = self.calls.get_mut(at) else { break };
            self.next = at + 1;
            let message = match call.poll_message(cx) {
                Poll::Pending => continue,
                Poll::Ready(message) => message,
            };
            if call.is_over() {
                // With its last message, so that a client that has it may use the id again.
                self.calls.remove(at);
                self.next = at;
            }
            if let Some(message) = message {
                return Poll::Ready(message);
            }
        }
        Poll::Pending
    }
}

impl InFlight {
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match &mut self.state {
                State::Starting(starting) => {
                    let started = ready!(starting.poll(cx));
                    // One that panicked says no more than any other failure.
                    let started = started.unwrap_or_else(|| Err(Rejected::new(Failure::default())));
                    self.state = match started {
                        Ok(turn) => State::Running {
                            handle: turn.handle(),
                            stream: Box::new(turn.stream(&self.wire)),
                            rest: Bytes::new(),
                        },
                        Err(rejected) => State::Told(refused(&self.wire, &rejected.failure)),
                    };
                }
                State::Running { stream, rest, .. } => {
                    if let Some(message) = next_line(rest) {
                        return Poll::Ready(Some(message));
                    }
                    match ready!(Pin::new(&mut **stream).poll_next(cx)) {
                        Some(chunk) => *rest = chunk,
                        None => self.state = State::Over,
                    }
                }
                State::Told(rest) => match next_line(rest) {
                    Some(message) => return Poll::Ready(Some(message)),
                    None => self.state = State::Over,
                },
                State::Over => return Poll::Ready(None),
            }
        }
    }

    fn is_over(&self) -> bool {
        match &self.state {
            State::Running { stream, rest, .. } => rest.is_empty() && stream.is_finished(),
            State::Told(rest) => rest.is_empty(),
            State::Over => true,
            State::Starting(_) => false,
        }
    }

    /// Ends it with that failure, or as stopped.
    fn end(&mut self, failure: Option<&Failure>) {
        match &self.state {
            // The handler is dropped: nobody waits for its turn any more.
            State::Starting(_) => {
                let end = failure.map_or_else(End::stopped, |failure| End::failed(failure.clone()));
                self.state = State::Told(ending(&self.wire, &end));
            }
            State::Running { handle, .. } => {
                // False where it has ended already, which is as good.
                let _ = match failure {
                    Some(failure) => handle.fail(failure.clone()),
                    None => handle.stop(),
                };
            }
            State::Told(_) | State::Over => {}
        }
    }
}

/// Takes the next line of `rest`, without its end.
fn next_line(rest: &mut Bytes) -> Option<Bytes> {
    while !rest.is_empty() {
        let at = memchr::memchr(b'\n', rest);
        let mut line = rest.split_to(at.map_or(rest.len(), |at| at + 1));
        line.truncate(at.unwrap_or(line.len()));
        if !line.is_empty() {
            return Some(line);
        }
    }
    None
}

/// What is said of a request whose turn did not begin.
fn refused(wire: &TrustGraph, failure: &Failure) -> Bytes {
    if Gateway::ENVELOPE_TYPES.contains(&failure.code()) {
        let mut bytes = BytesMut::new();
        if crate::json::write(&mut bytes, &wire.error(failure.code(), &failure.message)).is_ok() {
            return bytes.freeze();
        }
    }
    ending(wire, &End::failed(failure.clone()))
}

/// The messages of a turn that said nothing before it ended.
fn ending(wire: &TrustGraph, end: &End) -> Bytes {
    let mut bytes = BytesMut::new();
    if let Err(error) = wire.encoder().end(end, &mut bytes) {
        tracing::error!(%error, "an end does not encode");
    }
    bytes.freeze()
}
