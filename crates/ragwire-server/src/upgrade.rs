//! Hands a WebSocket from the route that accepts it to the task of its connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ragwire::http::gateway::Socket;

/// The slot of one connection for a socket. `serve` adds it to each request as an extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upgrade(Arc<Mutex<Option<Socket>>>);

impl Upgrade {
    /// Stores the socket that the connection becomes after the response.
    pub(crate) fn hand_over(&self, socket: Socket) {
        *self.lock() = Some(socket);
    }

    /// Takes the socket, if the connection became one.
    pub(crate) fn take(&self) -> Option<Socket> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Socket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
