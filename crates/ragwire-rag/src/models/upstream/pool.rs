//! The idle connections of a client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::Uri;
use http::uri::{Authority, Scheme};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;

/// How long an idle connection is kept. Node closes after 5 seconds, others later; a connection that
/// the server has closed is replaced.
const MAX_IDLE: Duration = Duration::from_secs(30);
/// Number of idle connections at most: as many turns as a server runs at a time by default.
const MAX_IDLE_CONNECTIONS: usize = 64;

/// A server: connections to it are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    scheme: Option<Scheme>,
    authority: Option<Authority>,
}

impl Server {
    pub(super) fn of(uri: &Uri) -> Self {
        Self {
            scheme: uri.scheme().cloned(),
            authority: uri.authority().cloned(),
        }
    }
}

/// The idle connections of a client.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The oldest first.
    idle: Vec<Idle>,
    /// A task closes connections that have been idle for too long.
    is_swept: bool,
}

#[derive(Debug)]
struct Idle {
    server: Server,
    connection: Connection,
    since: Instant,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics in the middle of a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection to the server that was used last.
    pub(super) fn take(&self, server: &Server) -> Option<Connection> {
        let mut state = self.lock();
        let at = state.idle.iter().rposition(|idle| idle.server == *server)?;
        Some(state.idle.remove(at).connection)
    }

    /// Keeps a connection whose response was read to its end.
    pub(super) fn put(self: &Arc<Self>, server: Server, connection: Connection) {
        // Without a runtime nothing would close it.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut state = self.lock();
        if state.idle.len() >= MAX_IDLE_CONNECTIONS {
            return;
        }
        let since = Instant::now();
        state.idle.push(Idle {
            server,
            connection,
            since,
        });
        if !std::mem::replace(&mut state.is_swept, true) {
            // Ends with the last idle connection, or with the client.
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }
}

/// Closes connections that have been idle for too long.
async fn sweep(pool: Weak<Pool>) {
    loop {
        let oldest = {
            let Some(pool) = pool.upgrade() else {
                return;
            };
            let mut state = pool.lock();
            state.idle.retain(|idle| idle.since.elapsed() < MAX_IDLE);
            let Some(oldest) = state.idle.first() else {
                state.is_swept = false;
                return;
            };
            oldest.since
        };
        sleep_until(oldest + MAX_IDLE).await;
    }
}
