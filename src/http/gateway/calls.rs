//! The IDs in flight on one socket, served round robin.

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

/// The future of a service's handler.
pub(super) type Starting = Guarded<Result<Turn, Rejected>>;

/// The IDs in flight. Dropping it disconnects all of them.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<InFlight>,
    /// The index of the call that is served next.
    next: usize,
}

/// One ID.
#[derive(Debug)]
struct InFlight {
    id: String,
    wire: TrustGraph,
    /// The deadline for its response to begin.
    start_by: Option<Instant>,
    state: State,
}

enum State {
    /// The handler runs; the response has not begun.
    Starting(Starting),
    Running {
        handle: TurnHandle,
        stream: Box<TurnStream>,
        /// The messages of the last chunk that were not sent yet.
        rest: Bytes,
    },
    /// Only these messages are left to send.
    Ending(Bytes),
    Ended,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting(_) => "Starting",
            Self::Running { .. } => "Running",
            Self::Ending(_) => "Ending",
            Self::Ended => "Ended",
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

    /// Adds an ID that is not in flight, after all others.
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

    /// Stops the ID if it is in flight. It still gets its last message.
    pub(super) fn cancel(&mut self, id: &str) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            call.end(None);
        }
    }

    /// Ends all IDs with a failure. Each still gets its last message.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        for call in &mut self.calls {
            call.end(Some(failure));
        }
    }

    /// Returns the earliest deadline of a handler.
    pub(super) fn start_by(&self) -> Option<Instant> {
        let starting = self
            .calls
            .iter()
            .filter(|call| matches!(call.state, State::Starting(_)));
        starting.filter_map(|call| call.start_by).min()
    }

    /// Ends the IDs whose handlers are past their deadline. Each still gets its last message.
    pub(super) fn fail_late(&mut self, now: Instant) {
        for call in &mut self.calls {
            if matches!(call.state, State::Starting(_)) && call.start_by.is_some_and(|by| by <= now) {
                call.end(Some(&total_timeout()));
            }
        }
    }

    /// Polls for the next message, taking one of each ID in turn. Pending also if nothing is in
    /// flight.
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
            if call.is_finished() {
                // Remove it together with its last message: a client that has that may use the ID
                // again.
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
                    // A panic is reported as the default failure.
                    let started = started.unwrap_or_else(|| Err(Rejected::new(Failure::default())));
                    self.state = match started {
                        Ok(turn) => State::Running {
                            handle: turn.handle(),
                            stream: Box::new(turn.stream(&self.wire)),
                            rest: Bytes::new(),
                        },
                        Err(rejected) => State::Ending(rejection(&self.wire, &rejected.failure)),
                    };
                }
                State::Running { stream, rest, .. } => {
                    if let Some(message) = next_line(rest) {
                        return Poll::Ready(Some(message));
                    }
                    match ready!(Pin::new(&mut **stream).poll_next(cx)) {
                        Some(chunk) => *rest = chunk,
                        None => self.state = State::Ended,
                    }
                }
                State::Ending(rest) => match next_line(rest) {
                    Some(message) => return Poll::Ready(Some(message)),
                    None => self.state = State::Ended,
                },
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    fn is_finished(&self) -> bool {
        match &self.state {
            State::Running { stream, rest, .. } => rest.is_empty() && stream.is_finished(),
            State::Ending(rest) => rest.is_empty(),
            State::Ended => true,
            State::Starting(_) => false,
        }
    }

    /// Ends the call with `failure`, or as stopped.
    fn end(&mut self, failure: Option<&Failure>) {
        match &self.state {
            // The handler is dropped, because its turn is no longer wanted.
            State::Starting(_) => {
                let end = failure.map_or_else(End::stopped, |failure| End::failed(failure.clone()));
                self.state = State::Ending(ending(&self.wire, &end));
            }
            State::Running { handle, .. } => {
                // `false` if it has already ended, which is fine.
                let _ = match failure {
                    Some(failure) => handle.fail(failure.clone()),
                    None => handle.stop(),
                };
            }
            State::Ending(_) | State::Ended => {}
        }
    }
}

/// Takes the next line of `rest`, without its end. The padding of a chunk stays in its last line, so
/// that it is sent with the text whose length it hides.
fn next_line(rest: &mut Bytes) -> Option<Bytes> {
    while !rest.is_empty() {
        let at = memchr::memchr(b'\n', rest);
        let after = at.and_then(|at| rest.get(at + 1..)).unwrap_or_default();
        if after.first() == Some(&b' ') && after.iter().all(|byte| *byte == b' ') {
            return Some(std::mem::take(rest));
        }
        let mut line = rest.split_to(at.map_or(rest.len(), |at| at + 1));
        line.truncate(at.unwrap_or(line.len()));
        if !line.is_empty() {
            return Some(line);
        }
    }
    None
}

/// The messages of a request whose turn was rejected.
fn rejection(wire: &TrustGraph, failure: &Failure) -> Bytes {
    if Gateway::ENVELOPE_TYPES.contains(&failure.code()) {
        let mut bytes = BytesMut::new();
        if crate::json::write(&mut bytes, &wire.error(failure.code(), &failure.message)).is_ok() {
            return bytes.freeze();
        }
    }
    ending(wire, &End::failed(failure.clone()))
}

/// The messages of a turn that ends before it has sent anything.
fn ending(wire: &TrustGraph, end: &End) -> Bytes {
    let mut bytes = BytesMut::new();
    if let Err(error) = wire.encoder().end(end, &mut bytes) {
        tracing::error!(%error, "the end of a turn cannot be encoded");
    }
    bytes.freeze()
}
