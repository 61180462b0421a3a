//! Sessions in one file: a `redb` database. Every change is one transaction, on the disk when it returns; a crash loses at most the one
//! that was being made.
//!
//! Everything here blocks; `store.rs` calls it from threads that may.

use std::path::Path;

use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, TableDefinition,
    TableHandle, WriteTransaction,
};

use super::store::{Clock, Key, Stamped};
use super::{SessionError, SessionLimits};

/// `version`, and `last`: the last stamp that was given.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("session_meta");
/// Owner and id to stamp and session.
const SESSIONS: TableDefinition<'_, (&str, &str), (u64, &[u8])> = TableDefinition::new("sessions");
/// Stamp to owner and id: the oldest first.
const ORDER: TableDefinition<'_, u64, (&str, &str)> = TableDefinition::new("session_order");

/// What this program writes and reads.
const VERSION: u64 = 1;
/// Pages kept in memory, in bytes: the sessions in use. redb would take 1 GiB.
const CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Most sessions that one change drops because they are too old, so that no question waits for a spring cleaning.
const MAX_DROPPED: usize = 64;

pub(super) struct File {
    limits: SessionLimits,
    clock: Clock,
    database: Database,
}

impl File {
    pub(super) fn open(path: &Path, limits: SessionLimits, clock: Clock) -> Result<Self, SessionError> {
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            // A file that something else has written into is found here, not in the middle of a conversation.
            .set_check_integrity_on_open(true)
            .create(path)
            .map_err(open_error)?;
        let file = Self {
            limits,
            clock,
            database,
        };
        file.prepare()?;
        Ok(file)
    }

    fn prepare(&self) -> Result<(), SessionError> {
        let write = self.database.begin_write().map_err(error)?;
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

    pub(super) fn load(&self, key: &Key) -> Result<Option<Stamped>, SessionError> {
        let oldest = self.oldest();
        let read = self.database.begin_read().map_err(error)?;
        let sessions = read.open_table(SESSIONS).map_err(error)?;
        let found = sessions.get((&*key.owner, &*key.id)).map_err(error)?;
        Ok(found.and_then(|found| {
            let (stamp, bytes) = found.value();
            (stamp >= oldest).then(|| (stamp, bytes.to_vec()))
        }))
    }

    pub(super) fn swap(
        &self,
        key: &Key,
        from: Option<u64>,
        bytes: &[u8],
    ) -> Result<Option<u64>, SessionError> {
        let write = self.database.begin_write().map_err(error)?;
        let stamp;
        {
            let mut tables = Tables::open(&write)?;
            // As every other reader sees it, an old one is not there; it is replaced.
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
            let place = (&*key.owner, &*key.id);
            tables.sessions.insert(place, (stamp, bytes)).map_err(error)?;
            tables.order.insert(stamp, place).map_err(error)?;
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

    pub(super) fn remove(&self, key: &Key) -> Result<bool, SessionError> {
        let write = self.database.begin_write().map_err(error)?;
        let removed = Tables::open(&write)?.remove(key)?;
        write.commit().map_err(error)?;
        Ok(removed.is_some_and(|stamp| stamp >= self.oldest()))
    }

    pub(super) fn sweep(&self) -> Result<usize, SessionError> {
        loop {
            let read = self.database.begin_read().map_err(error)?;
            let order = read.open_table(ORDER).map_err(error)?;
            let first = order.first().map_err(error)?.map(|(stamp, _)| stamp.value());
            if first.is_none_or(|stamp| stamp >= self.oldest()) {
                return Ok(usize::try_from(order.len().map_err(error)?).unwrap_or(usize::MAX));
            }
            let write = self.database.begin_write().map_err(error)?;
            Tables::open(&write)?.drop_before(self.oldest(), MAX_DROPPED)?;
            write.commit().map_err(error)?;
        }
    }

    /// What has an earlier stamp is too old.
    fn oldest(&self) -> u64 {
        self.clock.now().saturating_sub(self.limits.age())
    }
}

/// Both tables, which always change together.
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

    /// The stamp that it had.
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
        redb::Error::Io(ref io) if io.kind() == std::io::ErrorKind::InvalidData => {
            SessionError::Damaged(Some(error.into()))
        }
        other => SessionError::Storage(other.into()),
    }
}
