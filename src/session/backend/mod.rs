//! What every session store implements: bytes under a key, changed by compare-and-swap.
//!
//! A store keeps each serialized session with the stamp of its last change, in microseconds since
//! 1970. Stamps rise with every change of the store, so none is used twice. A change names the
//! stamp that it was made from and is refused if that stamp is no longer the newest. A store does
//! not know what a session contains; `record.rs` does.

#[cfg(feature = "sqlite")]
mod file;
mod memory;
#[cfg(feature = "redis")]
pub(super) mod redis;

use std::pin::Pin;

use super::SessionError;
use super::key::Key;

/// A serialized session and the stamp of its last change.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    pub(super) stamp: u64,
    pub(super) bytes: Vec<u8>,
}

/// The future of an operation on a store. It is boxed, since one type serves all stores.
pub(super) type Operation<'a, T> = Pin<Box<dyn Future<Output = Result<T, SessionError>> + Send + 'a>>;

/// A store of serialized sessions.
pub(super) trait Backend: Send + Sync {
    /// Returns the name of the store, for logs.
    fn name(&self) -> &'static str;

    /// Returns the session of that key, unless it has expired.
    fn load<'a>(&'a self, key: &'a Key) -> Operation<'a, Option<Stored>>;

    /// Replaces the session whose stamp is `from`, or creates it where `from` is `None`, and
    /// returns the new stamp; `None` if the stored stamp is another one. Drops expired sessions,
    /// and the oldest ones where there are too many.
    fn swap<'a>(&'a self, key: &'a Key, from: Option<u64>, bytes: Vec<u8>) -> Operation<'a, Option<u64>>;

    /// Removes a session and returns whether it existed.
    fn remove<'a>(&'a self, key: &'a Key) -> Operation<'a, bool>;

    /// Returns the IDs and the sessions of an owner, the one changed last first, at most `limit`.
    fn list<'a>(&'a self, owner: &'a str, limit: usize) -> Operation<'a, Vec<(String, Stored)>>;

    /// Drops the expired sessions and returns how many are left.
    fn sweep(&self) -> Operation<'_, usize>;
}
