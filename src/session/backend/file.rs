//! Sessions in one file: a `redb` database. Every change is one transaction that is on the disk
//! when it returns; a crash loses at most the change in progress.
//!
//! The database blocks, so every operation runs on a thread that may block.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, TableDefinition,
    TableHandle, WriteTransaction,
};

use super::{Backend, Operation, Stored};
use crate::session::clock::Clock;
use crate::session::key::Key;
use crate::session::{SessionError, SessionLimits, Sessions};

/// `version`: the format of the file; `last`: the newest stamp.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("session_meta");
/// From owner and ID to stamp and serialized session.
const SESSIONS: TableDefinition<'_, (&str, &str), (u64, &[u8])> = TableDefinition::new("sessions");
/// From stamp to owner and ID, the oldest first.
const ORDER: TableDefinition<'_, u64, (&str, &str)> = TableDefinition::new("session_order");

/// The format that this version writes and reads.
const VERSION: u64 = 1;
/// Bytes of pages kept in memory: enough for the sessions in use. redb's default is 1 GiB.
const CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Most expired sessions that one change drops, so that a question does not wait for a large
/// cleanup.
const MAX_DROPPED: usize = 64;

impl Sessions {
    /// Stores sessions in the file `path`, which is created if it does not exist. Each change is on
    /// the disk before it returns. Dropping the last clone closes the file; there is nothing to
    /// flush. Opening checks the whole file, which takes longer the larger it is.
    ///
    /// # Errors
    ///
    /// [`SessionError::InUse`], [`SessionError::Version`], [`SessionError::Damaged`],
    /// [`SessionError::Storage`].
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub async fn open(path: impl AsRef<Path>, limits: SessionLimits) -> Result<Self, SessionError> {
        Self::open_with(path.as_ref(), limits, Clock::default()).await
    }

    pub(in crate::session) async fn open_with(
        path: &Path,
        limits: SessionLimits,
        clock: Clock,
    ) -> Result<Self, SessionError> {
        let path = path.to_owned();
        let database = blocking(move || SessionDatabase::open(&path, limits, clock)).await?;
        Ok(Self::new(limits, File(Arc::new(database))))
    }
}

/// The open file, shared with the threads that work on it.
struct File(Arc<SessionDatabase>);

impl Backend for File {
    fn name(&self) -> &'static str {
        "file"
    }

    fn load<'a>(&'a self, key: &'a Key) -> Operation<'a, Option<Stored>> {
        let (database, key) = (Arc::clone(&self.0), key.clone());
        Box::pin(blocking(move || database.run(|file| database.load(file, &key))))
    }

    fn swap<'a>(&'a self, key: &'a Key, from: Option<u64>, bytes: Vec<u8>) -> Operation<'a, Option<u64>> {
        let (database, key) = (Arc::clone(&self.0), key.clone());
        Box::pin(blocking(move || {
            database.run(|file| database.swap(file, &key, from, &bytes))
        }))
    }

    fn remove<'a>(&'a self, key: &'a Key) -> Operation<'a, bool> {
        let (database, key) = (Arc::clone(&self.0), key.clone());
        Box::pin(blocking(move || database.run(|file| database.remove(file, &key))))
    }

    fn list<'a>(&'a self, owner: &'a str, limit: usize) -> Operation<'a, Vec<(String, Stored)>> {
        let (database, owner) = (Arc::clone(&self.0), owner.to_owned());
        Box::pin(blocking(move || {
            database.run(|file| database.list(file, &owner, limit))
        }))
    }

    fn sweep(&self) -> Operation<'_, usize> {
        let database = Arc::clone(&self.0);
        Box::pin(blocking(move || database.run(|file| database.sweep(file))))
    }
}

/// Runs `work` on a thread that may block: disks are slow, and the threads of the runtime drive
/// streams.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SessionError> + Send + 'static,
) -> Result<T, SessionError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // redb panics if another program has changed the file meanwhile.
        Err(error) if error.is_panic() => Err(SessionError::Damaged(Some(error.into()))),
        // The runtime shuts down: like a disk that does not answer any more.
        Err(error) => Err(SessionError::Storage(error.into())),
    }
}

/// Opens the file.
type Open = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

/// The tables of the file. All methods block.
struct SessionDatabase {
    limits: SessionLimits,
    clock: Clock,
    reopen: Open,
    open: RwLock<OpenFile>,
}

/// The open file. redb refuses everything after a failed read or write until the file is opened
/// again, so it is closed then, and the next operation opens it.
#[derive(Default)]
struct OpenFile {
    database: Option<Database>,
    /// How often the file was opened, so that no thread closes what another one has just opened.
    generation: u64,
}

impl SessionDatabase {
    fn open(path: &Path, limits: SessionLimits, clock: Clock) -> Result<Self, SessionError> {
        let database = builder()
            // Finds damage here and not in the middle of a conversation.
            .set_check_integrity_on_open(true)
            .create(path)
            .map_err(open_error)?;
        let path = path.to_owned();
        let reopen = Box::new(move || builder().create(&path));
        Self::with_database(database, reopen, limits, clock)
    }

    fn with_database(
        database: Database,
        reopen: Open,
        limits: SessionLimits,
        clock: Clock,
    ) -> Result<Self, SessionError> {
        prepare(&database)?;
        let open = OpenFile {
            database: Some(database),
            generation: 0,
        };
        Ok(Self {
            limits,
            clock,
            reopen,
            open: RwLock::new(open),
        })
    }

    /// Runs an operation, on a file that is opened again if an earlier operation failed.
    fn run<T>(&self, work: impl Fn(&Database) -> Result<T, SessionError>) -> Result<T, SessionError> {
        let (done, generation) = self.attempt(&work)?;
        match done {
            // Another operation failed before this one began.
            Err(failed) if is_latched(&failed) => {
                self.close(generation);
                let (done, generation) = self.attempt(&work)?;
                if matches!(&done, Err(failed) if needs_reopening(failed)) {
                    self.close(generation);
                }
                done
            }
            Err(failed) if needs_reopening(&failed) => {
                self.close(generation);
                Err(failed)
            }
            done => done,
        }
    }

    fn attempt<T>(
        &self,
        work: &impl Fn(&Database) -> Result<T, SessionError>,
    ) -> Result<(Result<T, SessionError>, u64), SessionError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = &open.database {
            return Ok((work(database), open.generation));
        }
        drop(open);
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if open.database.is_none() {
            open.database = Some((self.reopen)().map_err(open_error)?);
            open.generation += 1;
        }
        let generation = open.generation;
        match &open.database {
            Some(database) => Ok((work(database), generation)),
            None => unreachable!("it was opened under the same lock"),
        }
    }

    fn close(&self, generation: u64) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if open.generation == generation {
            open.database = None;
        }
    }
    fn load(&self, database: &Database, key: &Key) -> Result<Option<Stored>, SessionError> {
        let oldest = self.oldest();
        let read = database.begin_read().map_err(error)?;
        let sessions = read.open_table(SESSIONS).map_err(error)?;
        let found = sessions.get((&*key.owner, &*key.id)).map_err(error)?;
        Ok(found.and_then(|found| {
            let (stamp, bytes) = found.value();
            (stamp >= oldest).then(|| Stored {
                stamp,
                bytes: bytes.to_vec(),
            })
        }))
    }

    fn swap(
        &self,
        database: &Database,
        key: &Key,
        from: Option<u64>,
        bytes: &[u8],
    ) -> Result<Option<u64>, SessionError> {
        let write = database.begin_write().map_err(error)?;
        let stamp;
        {
            let mut tables = Tables::open(&write)?;
            // An expired session does not exist for any reader; it is replaced.
            let found = tables.stamp(key)?.filter(|stamp| *stamp >= self.oldest());
            if found != from {
                return Ok(None);
            }
            tables.remove(key)?;
            tables.drop_before(self.oldest(), MAX_DROPPED)?;
            let mut meta = write.open_table(META).map_err(error)?;
            let last = value(&meta, "last")?.unwrap_or_default();
            stamp = self.clock.now().max(last.saturating_add(1));
            meta.insert("last", stamp).map_err(error)?;
            let key = (&*key.owner, &*key.id);
            tables.sessions.insert(key, (stamp, bytes)).map_err(error)?;
            tables.order.insert(stamp, key).map_err(error)?;
            let max_sessions = u64::try_from(self.limits.max_sessions).unwrap_or(u64::MAX);
            while tables.sessions.len().map_err(error)? > max_sessions {
                if !tables.drop_oldest()? {
                    break;
                }
            }
        }
        write.commit().map_err(error)?;
        Ok(Some(stamp))
    }

    fn remove(&self, database: &Database, key: &Key) -> Result<bool, SessionError> {
        let write = database.begin_write().map_err(error)?;
        let removed = Tables::open(&write)?.remove(key)?;
        write.commit().map_err(error)?;
        Ok(removed.is_some_and(|stamp| stamp >= self.oldest()))
    }

    fn list(
        &self,
        database: &Database,
        owner: &str,
        limit: usize,
    ) -> Result<Vec<(String, Stored)>, SessionError> {
        let oldest = self.oldest();
        let read = database.begin_read().map_err(error)?;
        let sessions = read.open_table(SESSIONS).map_err(error)?;
        let mut found = Vec::new();
        for entry in sessions.range((owner, "")..).map_err(error)? {
            let (key, value) = entry.map_err(error)?;
            let (theirs, id) = key.value();
            if theirs != owner {
                break;
            }
            let (stamp, _) = value.value();
            if stamp >= oldest {
                found.push((stamp, id.to_owned()));
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(limit);
        let mut listed = Vec::with_capacity(found.len());
        for (stamp, id) in found {
            let value = sessions.get((owner, &*id)).map_err(error)?;
            let bytes = value.map(|value| value.value().1.to_vec()).unwrap_or_default();
            listed.push((id, Stored { stamp, bytes }));
        }
        Ok(listed)
    }

    fn sweep(&self, database: &Database) -> Result<usize, SessionError> {
        loop {
            let read = database.begin_read().map_err(error)?;
            let order = read.open_table(ORDER).map_err(error)?;
            let first = order.first().map_err(error)?.map(|(stamp, _)| stamp.value());
            if first.is_none_or(|stamp| stamp >= self.oldest()) {
                return Ok(usize::try_from(order.len().map_err(error)?).unwrap_or(usize::MAX));
            }
            let write = database.begin_write().map_err(error)?;
            Tables::open(&write)?.drop_before(self.oldest(), MAX_DROPPED)?;
            write.commit().map_err(error)?;
        }
    }

    /// Returns the stamp before which a session has expired.
    fn oldest(&self) -> u64 {
        self.limits.oldest(self.clock.now())
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Creates the tables, and checks the version.
fn prepare(database: &Database) -> Result<(), SessionError> {
    let write = database.begin_write().map_err(error)?;
    {
        let tables: Vec<String> = write
            .list_tables()
            .map_err(error)?
            .map(|table| table.name().to_owned())
            .collect();
        if !tables.is_empty() && tables.iter().all(|table| table != META.name()) {
            return Err(SessionError::Damaged(None));
        }
        let mut meta = write.open_table(META).map_err(error)?;
        let version = value(&meta, "version")?;
        match version {
            None => drop(meta.insert("version", VERSION).map_err(error)?),
            Some(VERSION) => {}
            Some(found) => {
                return Err(SessionError::Version {
                    found,
                    supported: VERSION,
                });
            }
        }
        write.open_table(SESSIONS).map_err(error)?;
        write.open_table(ORDER).map_err(error)?;
    }
    write.commit().map_err(error)
}

/// The two tables that always change together.
struct Tables<'a> {
    sessions: Table<'a, (&'static str, &'static str), (u64, &'static [u8])>,
    order: Table<'a, u64, (&'static str, &'static str)>,
}

impl<'a> Tables<'a> {
    fn open(write: &'a WriteTransaction) -> Result<Self, SessionError> {
        Ok(Self {
            sessions: write.open_table(SESSIONS).map_err(error)?,
            order: write.open_table(ORDER).map_err(error)?,
        })
    }

    fn stamp(&self, key: &Key) -> Result<Option<u64>, SessionError> {
        let found = self.sessions.get((&*key.owner, &*key.id)).map_err(error)?;
        Ok(found.map(|found| found.value().0))
    }

    /// Removes a session and returns its stamp.
    fn remove(&mut self, key: &Key) -> Result<Option<u64>, SessionError> {
        let removed = self.sessions.remove((&*key.owner, &*key.id)).map_err(error)?;
        let stamp = removed.map(|removed| removed.value().0);
        if let Some(stamp) = stamp {
            self.order.remove(stamp).map_err(error)?;
        }
        Ok(stamp)
    }

    fn drop_oldest(&mut self) -> Result<bool, SessionError> {
        let Some((_, key)) = self.order.pop_first().map_err(error)? else {
            return Ok(false);
        };
        self.sessions.remove(key.value()).map_err(error)?;
        Ok(true)
    }

    fn drop_before(&mut self, oldest: u64, most: usize) -> Result<(), SessionError> {
        for _ in 0..most {
            let first = self.order.first().map_err(error)?.map(|(stamp, _)| stamp.value());
            if first.is_none_or(|stamp| stamp >= oldest) {
                break;
            }
            self.drop_oldest()?;
        }
        Ok(())
    }
}

fn value(meta: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<Option<u64>, SessionError> {
    let found = meta.get(name).map_err(error)?;
    Ok(found.map(|found| found.value()))
}

fn open_error(error: DatabaseError) -> SessionError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => SessionError::InUse,
        DatabaseError::UpgradeRequired(_) | DatabaseError::RepairAborted => {
            SessionError::Damaged(Some(error.into()))
        }
        other => self::error(other),
    }
}

fn error(error: impl Into<redb::Error>) -> SessionError {
    let error = error.into();
    match error {
        redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. } => SessionError::Damaged(Some(error.into())),
        redb::Error::Io(ref io) if io.kind() == ErrorKind::InvalidData => {
            SessionError::Damaged(Some(error.into()))
        }
        redb::Error::Io(ref io)
            if matches!(
                io.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
            ) =>
        {
            SessionError::NoSpace
        }
        other => SessionError::Storage(other.into()),
    }
}

/// Returns whether redb refuses every operation until the file is opened again.
fn is_latched(error: &SessionError) -> bool {
    source(error).is_some_and(|error| matches!(error, redb::Error::PreviousIo))
}

/// Returns whether redb will refuse every operation from now on.
fn needs_reopening(error: &SessionError) -> bool {
    matches!(error, SessionError::NoSpace)
        || source(error).is_some_and(|error| matches!(error, redb::Error::Io(_) | redb::Error::PreviousIo))
}

fn source(error: &SessionError) -> Option<&redb::Error> {
    match error {
        SessionError::Storage(source) => source.downcast_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod full_disk_tests;
