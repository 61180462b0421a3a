//! API keys: who may ask what (`--api-keys`).
//!
//! | file | contents |
//! |---|---|
//! | `file` | the lines of the file |
//! | `access` | which route needs which scope |
//! | `check` | the check before each request |
//! | `command` | `keys new` |
//!
//! The file has a digest of each key and never the key. A key has 256 random bits, so a digest
//! without salt and without many rounds cannot be guessed either, and looking it up in a table
//! reveals nothing by the time that it takes.

mod access;
mod check;
mod command;
mod file;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

pub use access::{Access, access};
pub use check::{API_KEY, Caller, check};
pub use command::{NewKey, new_key};
pub use file::KeysError;

/// The SHA-256 of a key.
type Hash = [u8; 32];

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Ask questions, and read, change and delete the owner's conversations.
    Ask,
    /// Read the owner's conversations and the documents.
    Read,
    /// Add documents, and remove those of the owner.
    Documents,
    /// Read `/metrics`.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Ask, Self::Read, Self::Documents, Self::Admin];

    /// Returns the name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Read => "read",
            Self::Documents => "documents",
            Self::Admin => "admin",
        }
    }
}

/// A key of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    owner: String,
    scopes: Vec<Scope>,
    /// Requests per minute, if they are limited.
    rate: Option<u32>,
}

/// The keys of a server, which can be read again while it runs.
pub struct ApiKeys {
    file: PathBuf,
    table: RwLock<HashMap<Hash, Arc<Key>>>,
    /// What is left of each limited key's rate. It survives reading the file again.
    rates: Mutex<HashMap<Hash, Bucket>>,
}

impl ApiKeys {
    /// Creates the keys of a file, none of which is valid until [`load`](Self::load).
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            table: RwLock::default(),
            rates: Mutex::default(),
        }
    }

    /// Reads the file and returns the number of its keys. After an error the keys stay as they were.
    ///
    /// # Errors
    ///
    /// [`KeysError`]
    pub fn load(&self) -> Result<usize, KeysError> {
        let table = file::read(&self.file)?;
        let keys = table.len();
        // With the table locked, as `take` has it.
        let mut current = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.retain(|hash, _| table.contains_key(hash));
        *current = table;
        Ok(keys)
    }

    /// Returns the key with this text.
    fn find(&self, key: &[u8]) -> Option<(Hash, Arc<Key>)> {
        let hash = hash(key);
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get(&hash).map(|key| (hash, Arc::clone(key)))
    }

    /// Takes one request of the key's rate, or returns when there is one. The rate of a key that was
    /// removed after it was found is not stored, because nothing would remove it again.
    fn take(&self, hash: Hash, key: &Key, now: Instant) -> Result<(), Duration> {
        let Some(rate) = key.rate else { return Ok(()) };
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        if !table.contains_key(&hash) {
            return Ok(());
        }
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let full = Bucket {
            left: f64::from(rate),
            at: now,
        };
        rates.entry(hash).or_insert(full).take(rate, now)
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Returns the digest of a key.
fn hash(key: &[u8]) -> Hash {
    Sha256::digest(key).into()
}

/// The requests that a key has left: at most those of one minute, which come back evenly.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn take(&mut self, rate: u32, now: Instant) -> Result<(), Duration> {
        let per_second = f64::from(rate) / 60.0;
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * per_second;
        self.left = (self.left + earned).min(f64::from(rate));
        self.at = now;
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / per_second));
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_removed_key_is_forgotten_and_that_of_another_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let hex = |key: &str| data_encoding::HEXLOWER.encode(&hash(key.as_bytes()));
        let line = |key| format!("sha256:{} owner={key} scopes=ask rate=2\n", hex(key));
        std::fs::write(file.path(), line("kept") + &line("removed")).unwrap();
        let keys = ApiKeys::new(file.path());
        keys.load().unwrap();
        let now = Instant::now();
        let take = |name: &str| {
            let (hash, key) = keys.find(name.as_bytes()).unwrap();
            keys.take(hash, &key, now).is_ok()
        };
        assert_eq!((take("kept"), take("removed")), (true, true));
        assert_eq!(keys.rates.lock().unwrap().len(), 2);
        std::fs::write(file.path(), line("kept")).unwrap();
        keys.load().unwrap();
        assert_eq!(keys.rates.lock().unwrap().len(), 1);
        assert_eq!((take("kept"), take("kept")), (true, false));
        // A request whose key was found before it was removed.
        let removed = Key {
            owner: "removed".to_owned(),
            scopes: Vec::new(),
            rate: Some(2),
        };
        assert_eq!(keys.take(hash(b"removed"), &removed, now), Ok(()));
        assert_eq!(keys.rates.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_rate_allows_a_minute_at_once_and_then_comes_back_evenly() {
        let start = Instant::now();
        let mut bucket = Bucket { left: 3.0, at: start };
        let at = |seconds| start + Duration::from_secs(seconds);
        for (seconds, is_allowed) in [
            (0, true),
            (0, true),
            (0, true),
            (0, false),
            (19, false),
            (20, true),
            (20, false),
            // No more than the requests of one minute come back.
            (3_600, true),
            (3_600, true),
            (3_600, true),
            (3_600, false),
        ] {
            assert_eq!(bucket.take(3, at(seconds)).is_ok(), is_allowed, "{seconds}");
        }
        assert_eq!(bucket.take(3, at(3_600)), Err(Duration::from_secs(20)));
    }
}
