//! The open connections: how many there may be, and which one gives way to the next.
//!
//! If there is no room for another connection, the one that has been idle longest is closed, and if
//! none is idle, the slowest body is evicted. So clients that send nothing, or almost nothing,
//! cannot lock the others out. A connection whose response is being read is never closed here.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use ragwire_endpoints::{Bodies, ClientShare, Peer};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

use crate::app::App;

/// A connection that has been idle for less time is not closed: its request may be on the way.
const MIN_IDLE: Duration = Duration::from_millis(500);
/// How often room is sought while a connection waits for it.
const SEARCH_EVERY: Duration = Duration::from_millis(100);

/// The open connections. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct OpenConnections {
    permits: Arc<Semaphore>,
    max_per_peer: usize,
    /// The bodies that can give way; not set while the server starts.
    bodies: Arc<OnceLock<Bodies>>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    last_number: u64,
    open: HashMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    /// `None` on loopback, where all clients have the same address.
    peer: Option<IpAddr>,
    /// Requests whose response has not been sent completely.
    requests: usize,
    /// When the last of them ended, or the connection was accepted.
    idle_since: Instant,
    is_closing: bool,
    close: Arc<Notify>,
}

impl OpenConnections {
    /// `share` is the share of the connections that one address may have.
    pub(crate) fn new(max: usize, share: ClientShare) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(max)),
            max_per_peer: share.of(max),
            bodies: Arc::default(),
            state: Arc::default(),
        }
    }

    /// Returns how many connections are open.
    pub(crate) fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// Sets the app whose slow bodies give way to new connections, and which counts the connections.
    /// A server that is still starting has none.
    pub(crate) fn set_app(&self, app: Option<&App>) {
        if let Some(app) = app {
            // A server has one app, so neither is set yet.
            let _ = self.bodies.set(app.endpoints.bodies().clone());
            let _ = app.connections.set(self.clone());
        }
    }

    /// Returns `true` if this address may have another connection.
    pub(crate) fn has_room_for(&self, address: SocketAddr) -> bool {
        let Some(peer) = peer_of(address.ip()) else {
            return true;
        };
        let state = self.lock();
        let of_peer = state.open.values().filter(|open| open.peer == Some(peer));
        of_peer.count() < self.max_per_peer
    }

    /// Waits for room for a connection, and makes some if the limit is reached. Dropping the future loses
    /// nothing.
    pub(crate) async fn room(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                return permit;
            }
            self.make_room();
            tokio::select! {
                Ok(permit) = Arc::clone(&self.permits).acquire_owned() => return permit,
                () = sleep(SEARCH_EVERY) => {}
            }
        }
    }

    fn make_room(&self) {
        let mut state = self.lock();
        let idle = state
            .open
            .values_mut()
            .filter(|open| open.requests == 0 && !open.is_closing && open.idle_since.elapsed() >= MIN_IDLE)
            .min_by_key(|open| open.idle_since);
        if let Some(open) = idle {
            open.is_closing = true;
            open.close.notify_one();
            return;
        }
        // While a connection closes there will be room.
        if !state.open.values().any(|open| open.is_closing) {
            drop(state);
            if let Some(bodies) = self.bodies.get() {
                bodies.evict_slow();
            }
        }
    }

    /// Adds a connection.
    pub(crate) fn open(&self, address: SocketAddr, permit: OwnedSemaphorePermit) -> OpenConnection {
        let mut state = self.lock();
        state.last_number += 1;
        let (number, peer, close) = (state.last_number, peer_of(address.ip()), Arc::new(Notify::new()));
        let open = Open {
            peer,
            requests: 0,
            idle_since: Instant::now(),
            is_closing: false,
            close: Arc::clone(&close),
        };
        state.open.insert(number, open);
        let name = peer.map_or_else(|| format!("connection {number}"), |peer| peer.to_string());
        OpenConnection {
            connections: self.clone(),
            number,
            peer: Peer::new(name),
            close,
            _permit: permit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address that distinguishes a client: one host often has all addresses of an IPv6
/// network of 64 bits. Returns `None` on loopback, where every client has the same address.
fn peer_of(address: IpAddr) -> Option<IpAddr> {
    match address.to_canonical() {
        address if address.is_loopback() => None,
        IpAddr::V4(address) => Some(address.into()),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            Some(Ipv6Addr::from_bits(network).into())
        }
    }
}

/// An open connection. Dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    connections: OpenConnections,
    number: u64,
    peer: Peer,
    close: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl OpenConnection {
    /// Returns the peer: its address, or on loopback the connection itself.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Waits until the connection has to give way to another.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    /// Returns what counts the requests of the connection.
    pub(crate) fn requests(&self) -> Requests {
        Requests {
            connections: self.connections.clone(),
            number: self.number,
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.number);
    }
}

/// Counts the requests of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    connections: OpenConnections,
    number: u64,
}

impl Requests {
    /// Counts a request until the result is dropped.
    pub(crate) fn begin(&self) -> OpenRequest {
        if let Some(open) = self.connections.lock().open.get_mut(&self.number) {
            open.requests += 1;
        }
        OpenRequest(self.clone())
    }
}

/// A request whose response has not been sent completely.
#[derive(Debug)]
pub(crate) struct OpenRequest(Requests);

impl OpenRequest {
    /// Returns the body, which counts as the request until it is dropped.
    pub(crate) fn held_by(self, body: Body) -> Body {
        Body::new(CountedBody { body, _request: self })
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(open) = self.0.connections.lock().open.get_mut(&self.0.number) {
            open.requests -= 1;
            open.idle_since = Instant::now();
        }
    }
}

/// The body of a response.
struct CountedBody {
    body: Body,
    _request: OpenRequest,
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_addresses_and_networks() {
        for (address, peer) in [
            ("127.0.0.1", None),
            ("::1", None),
            ("::ffff:127.0.0.1", None),
            ("192.0.2.7", Some("192.0.2.7")),
            ("::ffff:192.0.2.7", Some("192.0.2.7")),
            ("2001:db8:1:2:3:4:5:6", Some("2001:db8:1:2::")),
        ] {
            let peer = peer.map(|peer| peer.parse().unwrap());
            assert_eq!(peer_of(address.parse().unwrap()), peer, "{address}");
        }
    }
}
