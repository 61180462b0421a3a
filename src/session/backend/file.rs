//! Sessions in one file: an SQLite database. Every change is one transaction that is on the disk
//! when it returns; a crash loses at most the change in progress.
//!
//! SQLite does not check the content of its pages, so each record has a digest. The database blocks,
//! so every operation runs on the file's own thread ([`worker`]).

mod worker;

use std::fs::File as Disk;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, TransactionBehavior};
use sha2::{Digest, Sha256};

use self::worker::Worker;
use super::{Backend, Operation, Stored};
use crate::session::clock::Clock;
use crate::session::key::Key;
use crate::session::{SessionError, SessionLimits, Sessions};

/// Marks the file as one of sessions, in SQLite's header: "rwss".
const APPLICATION_ID: i64 = 0x7277_7373;
/// The format that this version writes and reads. 1 was a file of redb.
const VERSION: i64 = 2;
/// Pages kept in memory, in KiB: enough for the sessions in use.
const CACHE_KIB: u32 = 8 * 1024;
/// The log is cut back to this size in bytes after a large change.
const LOG_BYTES: u32 = 4 * 1024 * 1024;
/// Most expired sessions that one change drops, so that a question does not wait for a large
/// cleanup.
const MAX_DROPPED: usize = 64;
/// Bytes of the digest of a record. It finds damage; it does not withstand forgery.
const DIGEST_BYTES: usize = 8;

/// `last`: the newest stamp that was ever used, so that none is used twice.
const SCHEMA: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
    stamp INTEGER PRIMARY KEY, owner TEXT NOT NULL, id TEXT NOT NULL, value BLOB NOT NULL, digest BLOB NOT NULL,
    UNIQUE (owner, id)
);
INSERT INTO meta VALUES ('last', 0);
";

impl Sessions {
    /// Stores sessions in the file `path`, which is created if it does not exist. Each change is on
    /// the disk before it returns. While the file is open, its log is beside it (`-wal`), and one thread
    /// works on both. Dropping the last clone waits for the change in progress and closes them; there is
    /// nothing to flush. Opening reads and checks the whole file, which takes longer the larger it is.
    ///
    /// # Errors
    ///
    /// [`SessionError::InUse`], [`SessionError::Version`], [`SessionError::Damaged`],
    /// [`SessionError::NoSpace`], [`SessionError::Storage`].
    #[cfg_attr(docsrs, doc(cfg(feature = "sqlite")))]
    pub async fn open(path: impl AsRef<Path>, limits: SessionLimits) -> Result<Self, SessionError> {
        Self::open_with(path.as_ref(), limits, Clock::default()).await
    }

    pub(in crate::session) async fn open_with(
        path: &Path,
        limits: SessionLimits,
        clock: Clock,
    ) -> Result<Self, SessionError> {
        let path = path.to_owned();
        let worker = Worker::start(move || SessionFile::open(&path, limits, clock)).await?;
        Ok(Self::new(limits, Arc::new(worker)))
    }
}

/// In an `Arc`, so that a test can change what the file may do.
impl Backend for Arc<Worker> {
    fn name(&self) -> &'static str {
        "file"
    }

    fn load<'a>(&'a self, key: &'a Key) -> Operation<'a, Option<Stored>> {
        let key = key.clone();
        Box::pin(self.run(move |file| file.load(&key)))
    }

    fn swap<'a>(&'a self, key: &'a Key, from: Option<u64>, bytes: Vec<u8>) -> Operation<'a, Option<u64>> {
        let key = key.clone();
        Box::pin(self.run(move |file| file.swap(&key, from, &bytes)))
    }

    fn remove<'a>(&'a self, key: &'a Key) -> Operation<'a, bool> {
        let key = key.clone();
        Box::pin(self.run(move |file| file.remove(&key)))
    }

    fn list<'a>(&'a self, owner: &'a str, limit: usize) -> Operation<'a, Vec<(String, Stored)>> {
        let owner = owner.to_owned();
        Box::pin(self.run(move |file| file.list(&owner, limit)))
    }

    fn sweep(&self) -> Operation<'_, usize> {
        Box::pin(async {
            // Questions change their sessions between two of these.
            while self.run(SessionFile::drop_some).await? == MAX_DROPPED {}
            self.run(|file| Ok(file.count)).await
        })
    }
}

/// The tables of the file. All methods block.
struct SessionFile {
    limits: SessionLimits,
    clock: Clock,
    /// It has the file for itself.
    connection: Connection,
    /// The number of rows, which SQLite would have to count.
    count: usize,
}

impl SessionFile {
    fn open(path: &Path, limits: SessionLimits, clock: Clock) -> Result<Self, SessionError> {
        if !path.exists() {
            create(path)?;
        }
        let connection = connect(path)?;
        let count = check(&connection)?;
        Ok(Self {
            limits,
            clock,
            connection,
            count,
        })
    }

    fn load(&self, key: &Key) -> Result<Option<Stored>, SessionError> {
        let mut found = self
            .connection
            .prepare("SELECT stamp, value, digest FROM sessions WHERE owner = ?1 AND id = ?2")?;
        let stored = found
            .query_row((&*key.owner, &*key.id), |row| {
                Ok(stored(row, &key.owner, &key.id))
            })
            .optional()?
            .transpose()?;
        Ok(stored.filter(|stored| stored.stamp >= self.oldest()))
    }

    fn swap(&mut self, key: &Key, from: Option<u64>, bytes: &[u8]) -> Result<Option<u64>, SessionError> {
        let (oldest, mut count) = (self.oldest(), self.count);
        let change = begin(&mut self.connection)?;
        let found = change
            .prepare("SELECT stamp FROM sessions WHERE owner = ?1 AND id = ?2")?
            .query_row((&*key.owner, &*key.id), |row| row.get::<_, i64>(0))
            .optional()?;
        // An expired session does not exist for any reader; it is replaced.
        let current = found.map(from_row).filter(|stamp| *stamp >= oldest);
        if current != from {
            return Ok(None);
        }
        if let Some(stamp) = found {
            count -= delete(&change, stamp)?;
        }
        count -= drop_before(&change, oldest)?;
        let last: i64 = change
            .prepare("SELECT value FROM meta WHERE name = 'last'")?
            .query_row([], |row| row.get(0))?;
        let stamp = self.clock.now().max(from_row(last).saturating_add(1));
        change
            .prepare("UPDATE meta SET value = ?1 WHERE name = 'last'")?
            .execute([to_row(stamp)])?;
        change
            .prepare("INSERT INTO sessions (stamp, owner, id, value, digest) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute((
                to_row(stamp),
                &*key.owner,
                &*key.id,
                bytes,
                digest(stamp, &key.owner, &key.id, bytes),
            ))?;
        count += 1;
        if count > self.limits.max_sessions {
            count -= change
                .prepare(
                    "DELETE FROM sessions WHERE stamp IN (SELECT stamp FROM sessions ORDER BY stamp LIMIT ?1)",
                )?
                .execute([to_row((count - self.limits.max_sessions) as u64)])?;
        }
        change.commit()?;
        self.count = count;
        Ok(Some(stamp))
    }

    fn remove(&mut self, key: &Key) -> Result<bool, SessionError> {
        let change = begin(&mut self.connection)?;
        let found = change
            .prepare("SELECT stamp FROM sessions WHERE owner = ?1 AND id = ?2")?
            .query_row((&*key.owner, &*key.id), |row| row.get::<_, i64>(0))
            .optional()?;
        let Some(stamp) = found else {
            return Ok(false);
        };
        let removed = delete(&change, stamp)?;
        change.commit()?;
        self.count -= removed;
        Ok(from_row(stamp) >= self.oldest())
    }

    fn list(&self, owner: &str, limit: usize) -> Result<Vec<(String, Stored)>, SessionError> {
        // The sessions of an owner are sorted without their values, which may be large.
        let mut select = self.connection.prepare(
            "SELECT stamp, value, digest, id FROM sessions WHERE stamp IN (
                SELECT stamp FROM sessions WHERE owner = ?1 AND stamp >= ?2 ORDER BY stamp DESC LIMIT ?3
            ) ORDER BY stamp DESC",
        )?;
        let mut rows = select.query((owner, to_row(self.oldest()), to_row(limit as u64)))?;
        let mut listed = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get(3)?;
            let stored = stored(row, owner, &id)?;
            listed.push((id, stored));
        }
        Ok(listed)
    }

    /// Drops the oldest expired sessions, at most [`MAX_DROPPED`], and returns how many.
    fn drop_some(&mut self) -> Result<usize, SessionError> {
        let oldest = self.oldest();
        let change = begin(&mut self.connection)?;
        let dropped = drop_before(&change, oldest)?;
        change.commit()?;
        self.count -= dropped;
        Ok(dropped)
    }

    /// Returns the stamp before which a session has expired.
    fn oldest(&self) -> u64 {
        self.limits.oldest(self.clock.now())
    }
}

/// Begins a change. Unless it is committed, nothing changes.
fn begin(connection: &mut Connection) -> Result<Transaction<'_>, SessionError> {
    Ok(connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
}

/// Creates the file under another name first: an empty file is thus always a damaged one.
fn create(path: &Path) -> Result<(), SessionError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    // What a process left that was killed here.
    drop(std::fs::remove_file(new));
    let connection = Connection::open(new)?;
    connection.execute_batch(SCHEMA)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)?;
    connection.close().map_err(|(_, error)| error)?;
    Disk::open(new)
        .and_then(|created| created.sync_all())
        .and_then(|()| std::fs::rename(new, path))
        .map_err(|error| SessionError::Storage(error.into()))
}

/// Connects, and takes the file for this process.
fn connect(path: &Path) -> Result<Connection, SessionError> {
    if std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0) {
        return Err(SessionError::Damaged(None));
    }
    let connection = Connection::open_with_flags(
        path,
        rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    // Without a wait: another process keeps the file until it ends.
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT")?;
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("application_id")? != APPLICATION_ID {
        return Err(SessionError::Damaged(None));
    }
    let found = number("user_version")?;
    if found != VERSION {
        return Err(SessionError::Version {
            found: from_row(found),
            supported: from_row(VERSION),
        });
    }
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -{CACHE_KIB}; PRAGMA journal_size_limit = {LOG_BYTES};"
    ))?;
    Ok(connection)
}

/// Checks the structure of the file and every record, so that damage is found here and not in the
/// middle of a conversation. Returns how many sessions there are.
fn check(connection: &Connection) -> Result<usize, SessionError> {
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(SessionError::Damaged(Some(verdict.into())));
    }
    connection.query_row("SELECT value FROM meta WHERE name = 'last'", [], |row| {
        row.get::<_, i64>(0)
    })?;
    let mut select = connection.prepare("SELECT stamp, value, digest, owner, id FROM sessions")?;
    let mut rows = select.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let (owner, id): (String, String) = (row.get(3)?, row.get(4)?);
        stored(row, &owner, &id)?;
        count += 1;
    }
    Ok(count)
}

/// Reads the first three columns of a row: stamp, value, digest.
fn stored(row: &Row<'_>, owner: &str, id: &str) -> Result<Stored, SessionError> {
    let stamp = from_row(row.get(0)?);
    let bytes: Vec<u8> = row.get(1)?;
    let written: Vec<u8> = row.get(2)?;
    if written != digest(stamp, owner, id, &bytes) {
        return Err(SessionError::Damaged(Some("digest of a session is wrong".into())));
    }
    Ok(Stored { stamp, bytes })
}

/// The digest covers every column of a row, each with its length.
fn digest(stamp: u64, owner: &str, id: &str, value: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut hash = Sha256::new();
    hash.update(stamp.to_le_bytes());
    for part in [owner.as_bytes(), id.as_bytes(), value] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&hash.finalize()[..DIGEST_BYTES]);
    digest
}

fn delete(change: &Transaction<'_>, stamp: i64) -> Result<usize, SessionError> {
    let mut delete = change.prepare("DELETE FROM sessions WHERE stamp = ?1")?;
    Ok(delete.execute([stamp])?)
}

/// Drops the oldest expired sessions, at most [`MAX_DROPPED`], and returns how many.
fn drop_before(change: &Transaction<'_>, oldest: u64) -> Result<usize, SessionError> {
    let mut delete = change.prepare(
        "DELETE FROM sessions WHERE stamp IN (SELECT stamp FROM sessions WHERE stamp < ?1 ORDER BY stamp LIMIT ?2)",
    )?;
    Ok(delete.execute((to_row(oldest), MAX_DROPPED as i64))?)
}

/// SQLite's integers have a sign. A stamp reaches their end in the year 294,247.
fn to_row(stamp: u64) -> i64 {
    i64::try_from(stamp).unwrap_or(i64::MAX)
}

fn from_row(stamp: i64) -> u64 {
    u64::try_from(stamp).unwrap_or(0)
}

impl From<rusqlite::Error> for SessionError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::NoSpace,
            // A limit on the size of files, which SQLite does not distinguish from other failed writes.
            Some(ErrorCode::SystemIoFailure)
                if error
                    .sqlite_error()
                    .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE) =>
            {
                Self::NoSpace
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::InUse,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(Some(error.into())),
            // A table or a column that is not there, or has another type.
            Some(ErrorCode::Unknown) | None => Self::Damaged(Some(error.into())),
            Some(_) => Self::Storage(error.into()),
        }
    }
}

#[cfg(test)]
mod full_disk_tests;
