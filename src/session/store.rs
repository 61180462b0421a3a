//! Where written sessions are: what all stores have in common, and which one it is.
//!
//! A store keeps bytes under a key, each with the stamp of its last change: microseconds since 1970 that rise with every change of the
//! store, so that one is never given twice. A change names the stamp that it was made from, and is refused where that one is no
//! longer the newest. That is all the stores know; what a session is, `record.rs` knows.

use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::SessionError;
#[cfg(feature = "redb")]
use super::file::File;
use super::memory::Memory;
use super::record;
#[cfg(feature = "redis")]
use super::redis::Redis;

/// Whose session, and which.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) owner: Arc<str>,
    pub(super) id: Arc<str>,
}

/// A written session, and when it was changed last.
pub(super) type Stamped = (u64, Vec<u8>);

pub(super) enum Store {
    Memory(Memory),
    #[cfg(feature = "redb")]
    File(Arc<File>),
    #[cfg(feature = "redis")]
    Redis(Box<Redis>),
}

impl Store {
    #[cfg(feature = "redb")]
    pub(super) async fn open_file(
        path: std::path::PathBuf,
        limits: super::SessionLimits,
        clock: Clock,
    ) -> Result<Self, SessionError> {
        blocking(move || File::open(&path, limits, clock))
            .await
            .map(|file| Self::File(Arc::new(file)))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            #[cfg(feature = "redb")]
            Self::File(_) => "file",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "redis",
        }
    }

    /// The session of that key, unless it is too old.
    pub(super) async fn load(&self, key: &Key) -> Result<Option<Stamped>, SessionError> {
        match self {
            Self::Memory(memory) => Ok(memory.load(key)),
            #[cfg(feature = "redis")]
            Self::Redis(redis) => redis.load(key).await,
            #[cfg(feature = "redb")]
            Self::File(file) => {
                let (file, key) = (Arc::clone(file), key.clone());
                blocking(move || file.load(&key)).await
            }
        }
    }

    /// Puts `bytes` in the place of what has the stamp `from`, or where nothing is for `None`, and gives the new stamp; `None` where
    /// something else is there by now. Drops what is too old, and the oldest where there are too many.
    pub(super) async fn swap(
        &self,
        key: &Key,
        from: Option<u64>,
        bytes: Vec<u8>,
    ) -> Result<Option<u64>, SessionError> {
        match self {
            Self::Memory(memory) => Ok(memory.swap(key, from, bytes)),
            #[cfg(feature = "redis")]
            Self::Redis(redis) => redis.swap(key, from, &bytes).await,
            #[cfg(feature = "redb")]
            Self::File(file) => {
                let (file, key) = (Arc::clone(file), key.clone());
                blocking(move || file.swap(&key, from, &bytes)).await
            }
        }
    }

    /// Whether it was there.
    pub(super) async fn remove(&self, key: &Key) -> Result<bool, SessionError> {
        match self {
            Self::Memory(memory) => Ok(memory.remove(key)),
            #[cfg(feature = "redis")]
            Self::Redis(redis) => redis.remove(key).await,
            #[cfg(feature = "redb")]
            Self::File(file) => {
                let (file, key) = (Arc::clone(file), key.clone());
                blocking(move || file.remove(&key)).await
            }
        }
    }

    /// Drops what is too old, and says how many are left.
    pub(super) async fn sweep(&self) -> Result<usize, SessionError> {
        match self {
            Self::Memory(memory) => Ok(memory.sweep()),
            #[cfg(feature = "redis")]
            Self::Redis(redis) => redis.sweep().await,
            #[cfg(feature = "redb")]
            Self::File(file) => {
                let file = Arc::clone(file);
                blocking(move || file.sweep()).await
            }
        }
    }
}

/// Disks are slow: not on a thread that drives streams.
#[cfg(feature = "redb")]
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SessionError> + Send + 'static,
) -> Result<T, SessionError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // A panic there comes of a file that somebody else has changed meanwhile; the runtime's end is like a disk that is gone.
        Err(error) if error.is_panic() => Err(SessionError::Damaged(Some(error.into()))),
        Err(error) => Err(SessionError::Storage(error.into())),
    }
}

/// The system's time, which a restart does not set back to 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    #[cfg(test)]
    ahead: Arc<AtomicU64>,
}

impl Clock {
    /// Microseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        let now = record::stamp(SystemTime::now());
        #[cfg(test)]
        let now = now + self.ahead.load(Ordering::Relaxed);
        now
    }

    /// How far it is ahead of the system's, in microseconds: not at all, but in tests.
    #[cfg(feature = "redis")]
    pub(super) fn ahead(&self) -> u64 {
        #[cfg(test)]
        return self.ahead.load(Ordering::Relaxed);
        #[cfg(not(test))]
        0
    }

    #[cfg(test)]
    pub(super) fn advance(&self, by: std::time::Duration) {
        self.ahead.fetch_add(by.as_micros() as u64, Ordering::Relaxed);
    }
}
