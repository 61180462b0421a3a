//! Hands a WebSocket from the route that accepts it to the task of its connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ragwire::http::gateway::Socket;

/// The slot of one connection for the WebSocket that it becomes.
///
/// A server that accounts for its connections adds a slot to the extensions of each request, and
/// runs the socket in the connection's own task after hyper has finished with it. Without a slot
/// the socket runs in a task of its own, which ends at
/// [`Service::shut_down`](crate::Service::shut_down).
#[derive(Clone, Debug, Default)]
pub struct SocketSlot(Arc<Mutex<Option<Socket>>>);

impl SocketSlot {
    /// Creates an empty slot.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores the socket that the connection becomes after the response.
    pub(crate) fn hand_over(&self, socket: Socket) {
        *self.lock() = Some(socket);
    }

    /// Takes the socket, if the connection became one.
    pub fn take(&self) -> Option<Socket> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Socket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
