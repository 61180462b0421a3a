//! The file of a library: one SQLite database, its connections, and what its errors mean.
//!
//! SQLite was chosen because it recovers by itself when the disk was full, because a damaged page is
//! an error and not a panic, and because readers and a writer work at the same time. It does not
//! check the content of its pages, so every record carries a checksum ([`crate::seal`]).

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior};

use super::LibraryError;
pub(super) use crate::seal::seal;

/// The format that this program writes and reads. 1 was a file of redb.
pub(super) const VERSION: u64 = 2;
/// Pages that one connection keeps in memory, in KiB.
const WRITER_CACHE_KIB: u32 = 8 * 1024;
const READER_CACHE_KIB: u32 = 4 * 1024;
/// Connections that are kept for the next readers. More readers at the same time open their own.
const IDLE_READERS: usize = 8;
/// How long a connection waits for another one, in milliseconds. Only a checkpoint blocks.
const BUSY_MS: u64 = 10_000;
/// The log is cut back to this size after a large change.
const LOG_BYTES: u32 = 4 * 1024 * 1024;
/// Pages that are given back to the file system after a removal, at most: 64 MiB, a few
/// milliseconds each MiB.
const VACUUM_PAGES: u32 = 16 * 1024;
/// The size of the file that is deleted to make room for a removal on a full disk. A removal writes
/// a few pages for each passage.
const RESERVE_BYTES: usize = 1024 * 1024;

const SCHEMA: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (first INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE passages (number INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE segments (id INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL);
CREATE TABLE postings (
    segment INTEGER NOT NULL, term TEXT NOT NULL, forms TEXT NOT NULL, list BLOB NOT NULL,
    PRIMARY KEY (segment, term)
) WITHOUT ROWID;
";
/// Tables that earlier versions of the same format did not have, and do not need.
const LATER_TABLES: &str = "
CREATE TABLE IF NOT EXISTS sources (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS source_roots (path TEXT PRIMARY KEY, identity TEXT NOT NULL) WITHOUT ROWID;
";

/// An open database. Dropping it closes the file.
#[derive(Debug)]
pub(super) struct Database {
    /// `None` in memory.
    file: Option<PathBuf>,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    /// Locked while the library is open.
    _lock: Option<File>,
}

impl Database {
    /// Opens the database, and creates it if the file does not exist.
    pub(super) fn open(file: &Path) -> Result<Self, LibraryError> {
        let lock = lock(&file.with_extension("lock"))?;
        if !file.exists() {
            create(file)?;
        }
        let opened = connect_checked(file);
        let writer = match opened {
            Err(LibraryError::NoSpace) => {
                // SQLite needs room for its log, even to open the file.
                drop(std::fs::remove_file(reserve_of(file)));
                connect_checked(file)?
            }
            other => other?,
        };
        let database = Self {
            file: Some(file.to_owned()),
            writer: Mutex::new(writer),
            readers: Mutex::default(),
            _lock: Some(lock),
        };
        database.keep_reserve();
        Ok(database)
    }

    pub(super) fn in_memory() -> Result<Self, LibraryError> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(SCHEMA)?;
        connection.execute_batch(LATER_TABLES)?;
        set_meta(&connection, "version", VERSION)?;
        Ok(Self {
            file: None,
            writer: Mutex::new(connection),
            readers: Mutex::default(),
            _lock: None,
        })
    }

    /// Reads with a separate connection. In memory there is only one connection.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, LibraryError>,
    ) -> Result<T, LibraryError> {
        let Some(file) = &self.file else {
            return work(&self.writer());
        };
        let idle = self.readers().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(file, READER_CACHE_KIB)?,
        };
        let result = work(&connection)?;
        let mut readers = self.readers();
        if readers.len() < IDLE_READERS {
            readers.push(connection);
        }
        Ok(result)
    }

    /// Runs `work` in one transaction, which is on the disk when this returns. After an error
    /// nothing has changed.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, LibraryError>,
    ) -> Result<T, LibraryError> {
        let mut connection = self.writer();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = work(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// Runs `work` like [`write`](Self::write). If the disk is full, room is made for it once.
    pub(super) fn write_with_reserve<T>(
        &self,
        mut work: impl FnMut(&Transaction<'_>) -> Result<T, LibraryError>,
    ) -> Result<T, LibraryError> {
        let result = match (self.write(&mut work), &self.file) {
            (Err(LibraryError::NoSpace), Some(file)) => {
                drop(std::fs::remove_file(reserve_of(file)));
                self.write(work)
            }
            (result, _) => result,
        };
        if result.is_ok() {
            self.give_back();
            self.keep_reserve();
        }
        result
    }

    /// Gives free pages back to the file system. If this fails, the pages are used again.
    fn give_back(&self) {
        let connection = self.writer();
        if let Err(error) = vacuum(&connection) {
            tracing::debug!(%error, "free pages stay in the library file");
        }
    }

    fn keep_reserve(&self) {
        let Some(reserve) = self.file.as_deref().map(reserve_of) else {
            return;
        };
        if reserve.exists() {
            return;
        }
        let written = File::create(&reserve).and_then(|mut file| file.write_all(&vec![0; RESERVE_BYTES]));
        if written.is_err() {
            drop(std::fs::remove_file(&reserve));
        }
    }

    fn writer(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each step of the statement gives one page back.
fn vacuum(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
    let mut steps = statement.query([])?;
    while steps.next()?.is_some() {}
    Ok(())
}

fn reserve_of(file: &Path) -> PathBuf {
    file.with_extension("reserve")
}

/// Locks the library for this process. SQLite's own locks allow several processes, each of which
/// would miss the changes of the others.
fn lock(path: &Path) -> Result<File, LibraryError> {
    let lock = File::create(path).map_err(LibraryError::Folder)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(LibraryError::InUse),
        Err(TryLockError::Error(error)) => Err(LibraryError::Folder(error)),
    }
}

/// Creates the file under another name first: an empty file is thus always a damaged one.
fn create(file: &Path) -> Result<(), LibraryError> {
    let new = file.with_extension("new");
    drop(std::fs::remove_file(&new));
    let connection = Connection::open(&new)?;
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    connection.execute_batch(SCHEMA)?;
    set_meta(&connection, "version", VERSION)?;
    connection.close().map_err(|(_, error)| error)?;
    File::open(&new)
        .and_then(|created| created.sync_all())
        .and_then(|()| std::fs::rename(&new, file))
        .map_err(LibraryError::Folder)
}

fn connect(file: &Path, cache_kib: u32) -> Result<Connection, LibraryError> {
    let connection = Connection::open_with_flags(
        file,
        rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(std::time::Duration::from_millis(BUSY_MS))?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -{cache_kib}; PRAGMA journal_size_limit = {LOG_BYTES};"
    ))?;
    Ok(connection)
}

/// Compares the tables with their indexes, and checks every page.
pub(super) fn check_all(connection: &Connection) -> Result<(), LibraryError> {
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    match verdict.as_str() {
        "ok" => Ok(()),
        _ => Err(LibraryError::Damaged(verdict)),
    }
}

/// Connects to a file that is known to be damaged, without changing it.
pub(super) fn connect_damaged(file: &Path) -> Result<Connection, LibraryError> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(file, flags)?)
}

/// Connects, checks the structure of the whole file, and its version.
fn connect_checked(file: &Path) -> Result<Connection, LibraryError> {
    if std::fs::metadata(file).is_ok_and(|found| found.len() == 0) {
        return Err(LibraryError::Damaged("the file is empty".to_owned()));
    }
    let connection = connect(file, WRITER_CACHE_KIB)?;
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(LibraryError::Damaged(verdict));
    }
    match meta(&connection, "version")? {
        Some(VERSION) => {
            connection.execute_batch(LATER_TABLES)?;
            Ok(connection)
        }
        Some(found) => Err(LibraryError::Version {
            found,
            supported: VERSION,
        }),
        None => Err(LibraryError::Damaged("it has no version".to_owned())),
    }
}

/// Returns a number of the table `meta`.
pub(super) fn meta(connection: &Connection, key: &str) -> Result<Option<u64>, LibraryError> {
    let row = connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
        row.get::<_, i64>(0)
    });
    Ok(row.optional()?.map(|value| value as u64))
}

/// Sets a number of the table `meta`.
pub(super) fn set_meta(connection: &Connection, key: &str, value: u64) -> Result<(), LibraryError> {
    connection.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)",
        (key, value as i64),
    )?;
    Ok(())
}

/// Returns a record without its checksum. `what` names it in the error.
pub(super) fn unseal<'a>(sealed: &'a [u8], what: &str) -> Result<&'a [u8], LibraryError> {
    crate::seal::unseal(sealed)
        .ok_or_else(|| LibraryError::Damaged(format!("the checksum of {what} is wrong")))
}

impl From<rusqlite::Error> for LibraryError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::NoSpace,
            // A limit on the size of files, which SQLite does not distinguish from other failed writes.
            Some(ErrorCode::SystemIoFailure)
                if matches!(
                    error.sqlite_error().map(|error| error.extended_code),
                    Some(rusqlite::ffi::SQLITE_IOERR_WRITE | rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
                ) =>
            {
                Self::NoSpace
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            Some(_) | None => Self::Storage(Box::new(error)),
        }
    }
}
