//! The request bodies that are being read, with limits over all of them.
//!
//! A client may send its body as slowly as it likes, and open many requests at a time. So a body
//! has to arrive at a minimum rate, all bodies together have a budget of memory, and one client has
//! a share of it. If the budget is used up, the slowest body is evicted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Extensions, StatusCode};
use http_body_util::BodyExt;
use ragwire::{Failure, FailureKind};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::body::linger;
use crate::client;
use crate::limits::EndpointLimits;
use crate::refusal::Refusal;

/// Longest total time for a body, as a multiple of the longest silence.
const SILENCES: u32 = 20;
/// The `retry-after` of a body that was evicted: as long as an upload of some megabytes takes.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// A body that is younger is not evicted for its connection: its first packets say nothing about
/// its rate.
const MIN_AGE: Duration = Duration::from_secs(1);
/// A faster body is not evicted for its connection: it will be complete soon. In bytes per second;
/// as fast as a poor mobile network.
const HEALTHY_RATE: f64 = 65_536.0;

/// The request bodies that are being read. Clones share them.
///
/// [`Service::bodies`](crate::Service::bodies) returns those of the endpoints, for further routes
/// of the same server.
#[derive(Clone, Debug)]
pub struct Bodies {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: EndpointLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_number: u64,
    open: HashMap<u64, OpenBody>,
    /// The capacity of all buffers.
    memory: usize,
    is_closed: bool,
}

/// A body that is being read, or was read and is still counted.
#[derive(Debug)]
struct OpenBody {
    client: Option<Arc<str>>,
    opened_at: Instant,
    bytes: Vec<u8>,
    /// The capacity of `bytes`, also after they were taken.
    memory: usize,
    is_complete: bool,
    /// Wakes the reader of a body that was evicted.
    wake: Arc<Notify>,
}

impl OpenBody {
    /// Returns the average rate in bytes per second.
    fn rate(&self, now: Instant) -> f64 {
        let age = (now - self.opened_at).as_secs_f64();
        self.bytes.len() as f64 / age.max(f64::EPSILON)
    }
}

/// A body that was read. It counts against the budget of all bodies until it is dropped.
#[derive(Debug)]
pub struct ReceivedBody {
    bytes: Bytes,
    _slot: Slot,
}

impl ReceivedBody {
    /// Returns the bytes, which count until the body is dropped.
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Returns the bytes and stops counting them.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl Bodies {
    pub(crate) fn new(limits: EndpointLimits) -> Self {
        Self {
            shared: Arc::new(Shared {
                limits,
                state: Mutex::default(),
            }),
        }
    }

    /// Returns the memory that all bodies occupy, in bytes.
    pub fn memory(&self) -> usize {
        self.lock().memory
    }

    /// Returns how many bodies are being read.
    pub fn open(&self) -> usize {
        let state = self.lock();
        state.open.values().filter(|body| !body.is_complete).count()
    }

    /// Reads the whole body.
    ///
    /// # Errors
    ///
    /// - 413 above `max_bytes`;
    /// - 408 after [`body_timeout`](EndpointLimits::body_timeout) without a byte, 20 times that long
    ///   in total, or below [`min_body_rate`](EndpointLimits::min_body_rate);
    /// - 400 if the connection breaks off;
    /// - 503 if the body was evicted, or the client has its share of the memory for bodies.
    pub async fn read(
        &self,
        head: &Parts,
        mut body: Body,
        max_bytes: usize,
    ) -> Result<ReceivedBody, Refusal> {
        let announced = head
            .headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|bytes| bytes > max_bytes as u64) {
            linger(&head.headers, body).await;
            return Err(too_large(max_bytes));
        }
        // It fits a `usize`, because it is at most `max_bytes`.
        let expected = announced.map_or(max_bytes, |bytes| bytes as usize);
        let slot = self.begin(&head.extensions, body.is_end_stream())?;
        let mut received = 0;
        loop {
            let frame = tokio::select! {
                biased;
                () = slot.wake.notified() => return Err(slot.evicted()),
                frame = timeout_at(slot.deadline(received), body.frame()) => frame,
            };
            match frame {
                Ok(None) => return slot.complete(),
                Ok(Some(Ok(frame))) => {
                    let data = frame.into_data().unwrap_or_default();
                    received += data.len();
                    if received > max_bytes {
                        drop(slot);
                        linger(&head.headers, body).await;
                        return Err(too_large(max_bytes));
                    }
                    slot.append(&data, expected)?;
                }
                Ok(Some(Err(_))) => {
                    return Err(Refusal::temporary(
                        StatusCode::BAD_REQUEST,
                        "body_broke_off",
                        "The request body is incomplete.",
                    ));
                }
                Err(_) => {
                    return Err(Refusal::temporary(
                        StatusCode::REQUEST_TIMEOUT,
                        "body_timeout",
                        "The request body took too long to arrive.",
                    ));
                }
            }
        }
    }

    /// Refuses all bodies that have not arrived completely, because the server shuts down.
    pub(crate) fn shut_down(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let incomplete = state.open.iter().filter(|(_, body)| !body.is_complete);
        let incomplete: Vec<_> = incomplete.map(|(number, _)| *number).collect();
        incomplete.into_iter().for_each(|number| state.evict(number));
    }

    /// Evicts the slowest body, so that its connection becomes free. Does nothing if all bodies have
    /// just begun or arrive fast.
    pub fn evict_slow(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        let slow = state.open.iter().filter(|(_, body)| {
            !body.is_complete && now - body.opened_at >= MIN_AGE && body.rate(now) < HEALTHY_RATE
        });
        if let Some(number) = slowest(slow, now) {
            state.evict(number);
        }
    }

    fn begin(&self, extensions: &Extensions, is_empty: bool) -> Result<Slot, Refusal> {
        let mut state = self.lock();
        if state.is_closed && !is_empty {
            return Err(shutting_down());
        }
        state.last_number += 1;
        let (number, opened_at, wake) = (state.last_number, Instant::now(), Arc::new(Notify::new()));
        let body = OpenBody {
            client: client::of(extensions),
            opened_at,
            bytes: Vec::new(),
            memory: 0,
            is_complete: false,
            wake: Arc::clone(&wake),
        };
        state.open.insert(number, body);
        Ok(Slot {
            bodies: self.clone(),
            number,
            opened_at,
            wake,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the slowest of some bodies.
fn slowest<'a>(bodies: impl Iterator<Item = (&'a u64, &'a OpenBody)>, now: Instant) -> Option<u64> {
    let slowest = bodies.min_by(|(_, one), (_, other)| one.rate(now).total_cmp(&other.rate(now)));
    slowest.map(|(number, _)| *number)
}

impl State {
    /// Frees the memory of a body and wakes its reader.
    fn evict(&mut self, number: u64) {
        if let Some(body) = self.open.remove(&number) {
            self.memory -= body.memory;
            body.wake.notify_one();
        }
    }

    /// Returns the memory of all bodies of a client.
    fn memory_of(&self, client: &str) -> usize {
        let of_client = |body: &&OpenBody| body.client.as_deref() == Some(client);
        self.open.values().filter(of_client).map(|body| body.memory).sum()
    }

    /// Grows the buffer of a body by `more` bytes of memory. Evicts slower bodies if that exceeds the
    /// budget. Returns `false` if the body itself has to give way.
    fn grow(&mut self, limits: &EndpointLimits, number: u64, more: usize) -> bool {
        let (budget, now) = (limits.max_body_memory, Instant::now());
        let Some(body) = self.open.get(&number) else {
            return false;
        };
        if let Some(client) = body.client.clone()
            && self.memory_of(&client) + more > limits.client_share.of(budget)
        {
            return false;
        }
        while self.memory + more > budget {
            let evictable = self
                .open
                .iter()
                .filter(|(_, body)| !body.is_complete && body.memory > 0);
            // The body itself is evicted if no other one is slower.
            match slowest(evictable, now) {
                Some(slowest) if slowest != number => self.evict(slowest),
                _ => return false,
            }
        }
        self.memory += more;
        if let Some(body) = self.open.get_mut(&number) {
            body.memory += more;
            body.bytes.reserve_exact(body.memory - body.bytes.len());
        }
        true
    }
}

/// The place of one body among the open ones. Dropping it gives the memory back.
#[derive(Debug)]
struct Slot {
    bodies: Bodies,
    number: u64,
    opened_at: Instant,
    wake: Arc<Notify>,
}

impl Slot {
    /// Returns when the next bytes must have arrived.
    fn deadline(&self, received: usize) -> Instant {
        let limits = &self.bodies.shared.limits;
        let silence = limits.body_timeout;
        let earned = Duration::from_secs_f64(received as f64 / limits.min_body_rate.max(1) as f64);
        let ends = [
            Instant::now() + silence,
            self.opened_at + silence * SILENCES,
            self.opened_at + silence + earned,
        ];
        ends.into_iter().fold(ends[0], Instant::min)
    }

    /// Appends bytes to the body, which has `expected` bytes in the end, at most.
    fn append(&self, data: &[u8], expected: usize) -> Result<(), Refusal> {
        let limits = &self.bodies.shared.limits;
        let mut state = self.bodies.lock();
        let Some(body) = state.open.get(&self.number) else {
            drop(state);
            return Err(self.evicted());
        };
        let needed = body.bytes.len() + data.len();
        if needed > body.memory {
            // Twice as much each time, so that appending takes linear time.
            let capacity = (body.memory * 2).min(expected).max(needed);
            let more = capacity - body.memory;
            if !state.grow(limits, self.number, more) {
                state.evict(self.number);
                return Err(too_many());
            }
        }
        if let Some(body) = state.open.get_mut(&self.number) {
            body.bytes.extend_from_slice(data);
        }
        Ok(())
    }

    /// Returns why the body was evicted.
    fn evicted(&self) -> Refusal {
        if self.bodies.lock().is_closed {
            shutting_down()
        } else {
            too_many()
        }
    }

    fn complete(self) -> Result<ReceivedBody, Refusal> {
        let bytes = {
            let mut state = self.bodies.lock();
            state.open.get_mut(&self.number).map(|body| {
                body.is_complete = true;
                std::mem::take(&mut body.bytes)
            })
        };
        let bytes = bytes.ok_or_else(|| self.evicted())?;
        Ok(ReceivedBody {
            bytes: bytes.into(),
            _slot: self,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.bodies.lock();
        if let Some(body) = state.open.remove(&self.number) {
            state.memory -= body.memory;
        }
    }
}

fn too_large(max_bytes: usize) -> Refusal {
    Refusal::permanent(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("The request body is longer than the limit of {max_bytes} bytes."),
    )
}

fn shutting_down() -> Refusal {
    let message = "The server is restarting. Please retry in a moment.";
    let failure = Failure::new(FailureKind::ShuttingDown, message);
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, failure).retry_after(RETRY_AFTER)
}

fn too_many() -> Refusal {
    Refusal::temporary(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "The server reads too many request bodies, and this one arrived slowly. Please retry in a moment.",
    )
    .retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http::Request;

    use super::*;
    use crate::client::{ClientShare, Peer};

    fn bodies(limits: EndpointLimits) -> Bodies {
        Bodies::new(limits.client_share(ClientShare::ALL))
    }

    fn head(peer: &str) -> Parts {
        let request = Request::new(());
        let (mut head, ()) = request.into_parts();
        head.extensions.insert(Peer::new(peer));
        head
    }

    /// Sends `data` now and then, for ever.
    fn trickle(data: Vec<u8>, every: Duration) -> Body {
        Body::from_stream(stream::unfold(true, move |is_first| {
            let data = data.clone();
            async move {
                if !is_first {
                    tokio::time::sleep(every).await;
                }
                Some((Ok::<_, std::io::Error>(data), false))
            }
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_to_arrive_at_the_minimum_rate() {
        let silence = Duration::from_secs(30);
        for (bytes, every, seconds) in [
            // Too slow: each byte adds less than a millisecond.
            (1, 20, 30),
            // Half of the rate.
            (500, 1, 58),
            // Fast enough, up to the longest total time.
            (2048, 1, 600),
            // Silent.
            (100_000, 31, 30),
        ] {
            let started = Instant::now();
            let body = trickle(vec![b' '; bytes], Duration::from_secs(every));
            let limits = EndpointLimits::default().body_timeout(silence);
            let read = bodies(limits).read(&head("a"), body, usize::MAX).await;
            assert_eq!(read.unwrap_err().status, StatusCode::REQUEST_TIMEOUT);
            assert_eq!(
                started.elapsed().as_secs(),
                seconds,
                "{bytes} bytes every {every} s"
            );
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the test joins both tasks")]
    #[tokio::test(start_paused = true)]
    async fn the_slowest_body_gives_way_to_a_faster_one() {
        let limits = EndpointLimits::default().max_body_memory(100).min_body_rate(1);
        let bodies = bodies(limits);
        let read = |data: usize| {
            let (bodies, body) = (bodies.clone(), trickle(vec![b' '; data], Duration::from_secs(5)));
            tokio::spawn(async move { bodies.read(&head("a"), body, 1000).await })
        };
        let (slow, faster) = (read(10), read(20));
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert_eq!((bodies.memory(), bodies.open()), (60, 2));
        let fast = bodies
            .read(&head("b"), Body::from(vec![b' '; 60]), 1000)
            .await
            .unwrap();
        assert_eq!(slow.await.unwrap().unwrap_err().failure.code(), "busy");
        assert_eq!((bodies.memory(), bodies.open()), (100, 1));
        // A body that was read counts until it is dropped, and is never evicted.
        let slower = bodies.read(&head("b"), Body::from(vec![b' '; 100]), 1000).await;
        assert_eq!(slower.unwrap_err().failure.code(), "busy");
        assert_eq!(faster.await.unwrap().unwrap_err().failure.code(), "busy");
        assert_eq!(fast.bytes().len(), 60);
        drop(fast);
        assert_eq!((bodies.memory(), bodies.open()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_a_share_of_the_memory() {
        let limits = EndpointLimits::default()
            .max_body_memory(100)
            .client_share(ClientShare::percent(50));
        let bodies = Bodies::new(limits);
        let read = async |peer, bytes| {
            bodies
                .read(&head(peer), Body::from(vec![b' '; bytes]), 1000)
                .await
        };
        let first = read("a", 30).await.unwrap();
        assert_eq!(read("a", 21).await.unwrap_err().failure.code(), "busy");
        let second = read("b", 50).await.unwrap();
        let third = read("a", 20).await.unwrap();
        drop((first, second, third));
        assert_eq!(bodies.memory(), 0);
    }
}
