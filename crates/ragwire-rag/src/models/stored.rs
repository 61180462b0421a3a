//! [`StoredVectors`]: keeps the vectors of an embedder on disk, so that a store in memory is filled
//! again after a restart without computing them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::{Boxed, Embed, ModelError, Side};

/// Pages that are kept in memory, in KiB. Vectors are read once, at the start.
const CACHE_KIB: u32 = 2 * 1024;
/// Bytes of the name of a vector: a digest of model and text.
type Key = [u8; 16];

const SCHEMA: &str = "
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;
";

/// An embedder whose vectors of passages are kept in a file. Queries are not kept.
///
/// The vectors follow from the texts, so the file may be deleted at any time. A file that cannot be
/// read is replaced; if it cannot be written, for example because the disk is full, the vectors are
/// computed again after a restart.
#[derive(Debug)]
pub struct StoredVectors {
    embedder: Arc<dyn Embed>,
    file: Arc<VectorFile>,
}

#[derive(Debug)]
struct VectorFile {
    /// What a key depends on besides the text.
    salt: String,
    dimensions: usize,
    connection: Mutex<Connection>,
    /// The vectors that were read or written since the file was opened, until it is swept.
    used: Mutex<Option<HashSet<Key>>>,
}

impl StoredVectors {
    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// If the file can neither be read nor replaced.
    pub fn open(file: &Path, embedder: Arc<dyn Embed>) -> std::io::Result<Self> {
        let connection = match connect(file) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "vectors are computed again");
                for suffix in ["", "-wal", "-shm"] {
                    let mut path = file.as_os_str().to_owned();
                    path.push(suffix);
                    drop(std::fs::remove_file(PathBuf::from(path)));
                }
                connect(file).map_err(std::io::Error::other)?
            }
        };
        Ok(Self {
            file: Arc::new(VectorFile {
                salt: format!("{}\n{}\n", embedder.name(), embedder.dimensions()),
                dimensions: embedder.dimensions(),
                connection: Mutex::new(connection),
                used: Mutex::new(Some(HashSet::new())),
            }),
            embedder,
        })
    }

    /// Removes the vectors that nothing has asked for since the file was opened. Call it once a
    /// store has been filled from the whole library.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop it.
    pub async fn sweep(&self) {
        let file = Arc::clone(&self.file);
        let swept = spawn_blocking(move || file.sweep()).await;
        if let Ok(Err(error)) = swept {
            tracing::warn!(%error, "unused vectors stay in their file");
        }
    }

    async fn passages(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let keys: Vec<Key> = texts.iter().map(|text| self.file.key(text)).collect();
        let (file, wanted) = (Arc::clone(&self.file), keys.clone());
        let mut known = spawn_blocking(move || file.read(&wanted))
            .await
            .map_err(|error| ModelError::Failed(error.into()))?;
        let missing: Vec<(Key, String)> = keys
            .iter()
            .zip(texts)
            .filter(|(key, _)| !known.contains_key(*key))
            .map(|(key, text)| (*key, text))
            .collect();
        if !missing.is_empty() {
            let (new_keys, new_texts): (Vec<Key>, Vec<String>) = missing.into_iter().unzip();
            let vectors = self.embedder.embed(Side::Passage, new_texts).await?;
            let new: Vec<(Key, Vec<f32>)> = new_keys.into_iter().zip(vectors).collect();
            known.extend(new.iter().cloned());
            let file = Arc::clone(&self.file);
            let written = spawn_blocking(move || file.write(&new)).await;
            if let Ok(Err(error)) = written {
                tracing::warn!(%error, "vectors are not kept");
            }
        }
        // The embedder returned too few if a key is missing; the caller compares the numbers.
        Ok(keys.iter().filter_map(|key| known.get(key).cloned()).collect())
    }
}

impl Embed for StoredVectors {
    fn name(&self) -> &str {
        self.embedder.name()
    }

    fn dimensions(&self) -> usize {
        self.embedder.dimensions()
    }

    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        match side {
            Side::Passage => Box::pin(self.passages(texts)),
            Side::Query => self.embedder.embed(side, texts),
        }
    }

    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        self.embedder.embed_tokens(side, texts)
    }
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.execute_batch(SCHEMA)?;
    connection.execute_batch(&format!("PRAGMA cache_size = -{CACHE_KIB}"))?;
    Ok(connection)
}

impl VectorFile {
    fn key(&self, text: &str) -> Key {
        let digest = Sha256::new()
            .chain_update(&self.salt)
            .chain_update(text)
            .finalize();
        let mut key = Key::default();
        key.copy_from_slice(&digest[..size_of::<Key>()]);
        key
    }

    /// Returns the vectors that the file has. One that is damaged counts as missing.
    fn read(&self, keys: &[Key]) -> HashMap<Key, Vec<f32>> {
        let mut found = HashMap::new();
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(mut statement) = connection.prepare("SELECT vector FROM vectors WHERE key = ?1") else {
            return found;
        };
        for key in keys {
            let row = statement.query_row([key], |row| row.get::<_, Vec<u8>>(0));
            if let Ok(Some(bytes)) = row.optional()
                && let Some(vector) = self.vector_of(&bytes)
            {
                found.insert(*key, vector);
            }
        }
        if let Some(used) = &mut *self.used.lock().unwrap_or_else(PoisonError::into_inner) {
            used.extend(keys);
        }
        found
    }

    fn vector_of(&self, bytes: &[u8]) -> Option<Vec<f32>> {
        let (values, checksum) = bytes.split_last_chunk::<4>()?;
        let is_whole =
            values.len() == 4 * self.dimensions && crc32fast::hash(values) == u32::from_le_bytes(*checksum);
        let (values, _) = values.as_chunks::<4>();
        is_whole.then(|| values.iter().map(|value| f32::from_le_bytes(*value)).collect())
    }

    fn write(&self, vectors: &[(Key, Vec<f32>)]) -> rusqlite::Result<()> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction()?;
        {
            let mut insert =
                transaction.prepare("INSERT OR REPLACE INTO vectors (key, vector) VALUES (?1, ?2)")?;
            for (key, vector) in vectors {
                let mut bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
                let checksum = crc32fast::hash(&bytes);
                bytes.extend(checksum.to_le_bytes());
                insert.execute((key, bytes))?;
            }
        }
        transaction.commit()
    }

    fn sweep(&self) -> rusqlite::Result<()> {
        let Some(used) = self.used.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction()?;
        let unused: Vec<Key> = {
            let mut statement = transaction.prepare("SELECT key FROM vectors")?;
            let keys = statement.query_map([], |row| row.get::<_, Key>(0))?;
            let all: rusqlite::Result<Vec<Key>> = keys.collect();
            all?.into_iter().filter(|key| !used.contains(key)).collect()
        };
        for key in &unused {
            transaction.execute("DELETE FROM vectors WHERE key = ?1", [key])?;
        }
        transaction.commit()?;
        {
            let mut statement = connection.prepare("PRAGMA incremental_vacuum")?;
            let mut steps = statement.query([])?;
            while steps.next()?.is_some() {}
        }
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::test_models::Words;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn computed(words: &Words) -> usize {
        words.calls.lock().unwrap().iter().map(|(_, count)| count).sum()
    }

    #[tokio::test]
    async fn vectors_survive_a_restart_and_unused_ones_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vectors.db");
        let first = Arc::new(Words::default());
        let stored = StoredVectors::open(&file, Arc::clone(&first) as _).unwrap();
        let vectors = stored
            .embed(Side::Passage, texts(&["red fox", "blue bird"]))
            .await
            .unwrap();
        assert_eq!(computed(&first), 2);
        drop(stored);

        let second = Arc::new(Words::default());
        let stored = StoredVectors::open(&file, Arc::clone(&second) as _).unwrap();
        let again = stored
            .embed(Side::Passage, texts(&["green frog", "red fox"]))
            .await
            .unwrap();
        assert_eq!(
            (&again[1], computed(&second)),
            (&vectors[0], 1),
            "only the new text"
        );
        assert_eq!(
            stored
                .embed(Side::Query, texts(&["red fox"]))
                .await
                .unwrap()
                .len(),
            1
        );
        stored.sweep().await;
        drop(stored);

        let third = Arc::new(Words::default());
        let stored = StoredVectors::open(&file, Arc::clone(&third) as _).unwrap();
        let all = texts(&["red fox", "green frog", "blue bird"]);
        assert_eq!(stored.embed(Side::Passage, all).await.unwrap().len(), 3);
        assert_eq!(computed(&third), 1, "the bird was removed");

        // Another model has other vectors.
        let other = Arc::new(Words::default().named("other"));
        let stored = StoredVectors::open(&file, Arc::clone(&other) as _).unwrap();
        stored.embed(Side::Passage, texts(&["red fox"])).await.unwrap();
        assert_eq!(computed(&other), 1);
    }

    #[tokio::test]
    async fn a_damaged_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vectors.db");
        std::fs::write(&file, b"not a database".repeat(1_000)).unwrap();
        let words = Arc::new(Words::default());
        let stored = StoredVectors::open(&file, Arc::clone(&words) as _).unwrap();
        for _ in 0..2 {
            assert_eq!(
                stored.embed(Side::Passage, texts(&["red"])).await.unwrap().len(),
                1
            );
        }
        assert_eq!(computed(&words), 1);
    }
}
