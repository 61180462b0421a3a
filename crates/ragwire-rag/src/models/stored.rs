//! [`StoredVectors`]: keeps the vectors of an embedder on disk, so that a store in memory is filled
//! again after a restart without computing them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, ErrorCode, OptionalExtension};
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::{Boxed, Embed, ModelError, Side};

/// Pages that are kept in memory, in KiB. Vectors are read once, at the start.
const CACHE_KIB: u32 = 2 * 1024;
/// Bytes of the name of a vector: a digest of the embedder's identity and the text.
type Key = [u8; 16];

// The key has an index of its own: it is counted and listed without reading the vectors. The table
// of earlier versions had no index, and its keys depended on less.
const SCHEMA: &str = "
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
DROP TABLE IF EXISTS vectors;
CREATE TABLE IF NOT EXISTS passages (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, vector BLOB NOT NULL);
";

/// An embedder whose vectors of passages are kept in a file. Queries are not kept.
///
/// A vector is found again by the embedder's [`identity`](Embed::identity), its dimensions and the
/// text, so another model, prefix or pooling computes everything again. A vector takes four bytes for
/// each dimension and about 60 more on disk, and no memory. The file grows with every new text until
/// it is [swept](Self::sweep).
///
/// The vectors follow from the texts, so the file may be deleted while it is not open. A damaged vector
/// is computed again, and a file that cannot be read is replaced. If it cannot be written, for example
/// because the disk is full, the vectors are computed again after a restart. Each of these is a warning
/// in the log.
#[derive(Debug)]
pub struct StoredVectors {
    embedder: Arc<dyn Embed>,
    file: Arc<VectorFile>,
}

#[derive(Debug)]
struct VectorFile {
    path: PathBuf,
    /// What a key depends on besides the text.
    salt: String,
    dimensions: usize,
    connection: Mutex<Connection>,
}

/// The vectors that the file has.
#[derive(Debug, Default)]
struct Found {
    vectors: HashMap<Key, Vec<f32>>,
    damaged: usize,
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
                tracing::warn!(%error, file = %file.display(), "the file of vectors cannot be read; all vectors are computed again");
                remove(file);
                connect(file).map_err(std::io::Error::other)?
            }
        };
        Ok(Self {
            file: Arc::new(VectorFile {
                path: file.to_owned(),
                salt: format!("{}\ndimensions {}\n", embedder.identity(), embedder.dimensions()),
                dimensions: embedder.dimensions(),
                connection: Mutex::new(connection),
            }),
            embedder,
        })
    }

    /// Removes the vectors of all texts but those that `texts` passes on, if the file has more than
    /// `allowed` vectors. Otherwise `texts` is not called. Needs 16 bytes of memory for each text.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop it.
    ///
    /// # Errors
    ///
    /// The error of `texts`; nothing is removed then. An error of the file is a warning in the log.
    pub async fn sweep<E: Send + 'static>(
        &self,
        allowed: u64,
        texts: impl FnOnce(&mut dyn FnMut(&str)) -> Result<(), E> + Send + 'static,
    ) -> Result<(), E> {
        let file = Arc::clone(&self.file);
        let swept = spawn_blocking(move || {
            match file.count() {
                Ok(count) if count > allowed => {}
                Ok(_) => return Ok(()),
                Err(error) => {
                    file.failed(&error, "unused vectors stay in their file");
                    return Ok(());
                }
            }
            let mut live = HashSet::new();
            texts(&mut |text| {
                live.insert(file.key(text));
            })?;
            if let Err(error) = file.keep_only(&live) {
                file.failed(&error, "unused vectors stay in their file");
            }
            Ok(())
        });
        swept.await.unwrap_or(Ok(()))
    }

    async fn passages(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let keys: Vec<Key> = texts.iter().map(|text| self.file.key(text)).collect();
        let (file, wanted) = (Arc::clone(&self.file), keys.clone());
        let mut known = spawn_blocking(move || file.read_or_reset(&wanted))
            .await
            .map_err(|error| ModelError::Failed(error.into()))?;
        let missing: HashMap<Key, String> = keys
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
            let written = spawn_blocking(move || {
                file.write(&new)
                    .map_err(|error| file.failed(&error, "vectors are computed again after a restart"))
            });
            // The file has already logged the error.
            drop(written.await);
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

    fn identity(&self) -> String {
        self.embedder.identity()
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

/// Removes a database with its log.
fn remove(file: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut path = file.as_os_str().to_owned();
        path.push(suffix);
        drop(std::fs::remove_file(PathBuf::from(path)));
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

impl VectorFile {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs an error, and replaces the file if it is damaged.
    fn failed(&self, error: &rusqlite::Error, consequence: &str) {
        let file = self.path.display();
        if !is_damage(error) {
            tracing::warn!(%error, %file, "{consequence}");
            return;
        }
        tracing::warn!(%error, %file, "the file of vectors is damaged and is replaced; its vectors are computed again");
        let mut connection = self.connection();
        // Closes the damaged file. Should the new one fail, vectors are not kept until the next start.
        if let Ok(empty) = Connection::open_in_memory() {
            *connection = empty;
        }
        remove(&self.path);
        match connect(&self.path) {
            Ok(new) => *connection = new,
            Err(error) => tracing::warn!(%error, %file, "vectors are not kept"),
        }
    }

    fn key(&self, text: &str) -> Key {
        let digest = Sha256::new()
            .chain_update(&self.salt)
            .chain_update(text)
            .finalize();
        let mut key = Key::default();
        key.copy_from_slice(&digest[..size_of::<Key>()]);
        key
    }

    /// Returns the vectors that the file has, and replaces a file that is damaged.
    fn read_or_reset(&self, keys: &[Key]) -> HashMap<Key, Vec<f32>> {
        match self.read(keys) {
            Ok(found) => {
                if found.damaged > 0 {
                    let (vectors, file) = (found.damaged, self.path.display());
                    tracing::warn!(vectors, %file, "damaged vectors are computed again");
                }
                found.vectors
            }
            Err(error) => {
                self.failed(&error, "vectors cannot be read and are computed again");
                HashMap::new()
            }
        }
    }

    fn read(&self, keys: &[Key]) -> rusqlite::Result<Found> {
        let connection = self.connection();
        let mut statement = connection.prepare("SELECT vector FROM passages WHERE key = ?1")?;
        let mut found = Found::default();
        for key in keys {
            let row = statement.query_row([key], |row| row.get::<_, Vec<u8>>(0));
            match row.optional()?.map(|bytes| self.vector_of(&bytes)) {
                None => {}
                Some(None) => found.damaged += 1,
                Some(Some(vector)) => drop(found.vectors.insert(*key, vector)),
            }
        }
        Ok(found)
    }

    fn vector_of(&self, bytes: &[u8]) -> Option<Vec<f32>> {
        let (values, checksum) = bytes.split_last_chunk::<4>()?;
        let is_whole =
            values.len() == 4 * self.dimensions && crc32fast::hash(values) == u32::from_le_bytes(*checksum);
        let (values, _) = values.as_chunks::<4>();
        is_whole.then(|| values.iter().map(|value| f32::from_le_bytes(*value)).collect())
    }

    fn write(&self, vectors: &[(Key, Vec<f32>)]) -> rusqlite::Result<()> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        {
            let mut insert =
                transaction.prepare("INSERT OR REPLACE INTO passages (key, vector) VALUES (?1, ?2)")?;
            for (key, vector) in vectors {
                let mut bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
                let checksum = crc32fast::hash(&bytes);
                bytes.extend(checksum.to_le_bytes());
                insert.execute((key, bytes))?;
            }
        }
        transaction.commit()
    }

    fn count(&self) -> rusqlite::Result<u64> {
        let count = self
            .connection()
            .query_row("SELECT count(*) FROM passages", [], |row| row.get::<_, i64>(0))?;
        Ok(count.unsigned_abs())
    }

    fn keep_only(&self, live: &HashSet<Key>) -> rusqlite::Result<()> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let unused: Vec<Key> = {
            let mut statement = transaction.prepare("SELECT key FROM passages")?;
            let keys = statement.query_map([], |row| row.get::<_, Key>(0))?;
            let all: rusqlite::Result<Vec<Key>> = keys.collect();
            all?.into_iter().filter(|key| !live.contains(key)).collect()
        };
        for key in &unused {
            transaction.execute("DELETE FROM passages WHERE key = ?1", [key])?;
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

    async fn embed(stored: &StoredVectors, passages: &[&str]) -> Vec<Vec<f32>> {
        stored.embed(Side::Passage, texts(passages)).await.unwrap()
    }

    fn open(file: &Path, words: Words) -> (Arc<Words>, StoredVectors) {
        let words = Arc::new(words);
        let stored = StoredVectors::open(file, Arc::clone(&words) as _).unwrap();
        (words, stored)
    }

    async fn sweep(stored: &StoredVectors, allowed: u64, live: &'static [&'static str]) {
        let swept = stored.sweep(allowed, |pass| {
            live.iter().for_each(|text| pass(text));
            Ok::<_, std::convert::Infallible>(())
        });
        match swept.await {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    #[tokio::test]
    async fn vectors_survive_a_restart_and_unused_ones_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vectors.db");
        let (first, stored) = open(&file, Words::default());
        let vectors = embed(&stored, &["red fox", "blue bird", "red fox"]).await;
        assert_eq!(computed(&first), 2, "each text once");
        drop(stored);

        let (second, stored) = open(&file, Words::default());
        let again = embed(&stored, &["green frog", "red fox"]).await;
        let seen = (&again[1], computed(&second));
        assert_eq!(seen, (&vectors[0], 1), "only the new text");
        let query = stored.embed(Side::Query, texts(&["red fox"])).await.unwrap();
        assert_eq!((query.len(), computed(&second)), (1, 2), "queries are not kept");
        let live = &["red fox", "green frog"];
        sweep(&stored, 3, live).await;
        assert_eq!(stored.file.count().unwrap(), 3, "three are allowed");
        sweep(&stored, 2, live).await;
        drop(stored);

        let (third, stored) = open(&file, Words::default());
        assert_eq!(
            embed(&stored, &["red fox", "green frog", "blue bird"])
                .await
                .len(),
            3
        );
        assert_eq!(computed(&third), 1, "the bird was removed");
    }

    #[tokio::test]
    async fn an_embedder_with_another_identity_computes_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vectors.db");
        // The name stays: a model with another prefix or pooling.
        let embedders = || {
            [
                Words::default(),
                Words::default().identified("prefix"),
                Words::default().named("other"),
            ]
        };
        for words in embedders() {
            let (words, stored) = open(&file, words);
            embed(&stored, &["red fox"]).await;
            assert_eq!(computed(&words), 1, "{}", words.identity());
        }
        for words in embedders() {
            let (words, stored) = open(&file, words);
            embed(&stored, &["red fox"]).await;
            assert_eq!(computed(&words), 0, "{}", words.identity());
        }
    }

    #[tokio::test]
    async fn a_damaged_vector_is_computed_again_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vectors.db");
        let (_, stored) = open(&file, Words::default());
        let vectors = embed(&stored, &["red fox", "blue bird"]).await;
        let damaged = "UPDATE passages SET vector = zeroblob(length(vector)) WHERE number = 1";
        assert_eq!(stored.file.connection().execute(damaged, []).unwrap(), 1);
        drop(stored);
        for missing in [1, 0] {
            let (words, stored) = open(&file, Words::default());
            assert_eq!(embed(&stored, &["red fox", "blue bird"]).await, vectors);
            assert_eq!(computed(&words), missing);
        }
    }

    #[tokio::test]
    async fn a_damaged_file_is_replaced() {
        let all: Vec<String> = (0..200).map(|n| format!("word{n}")).collect();
        // Not a database at all, and a database of which all pages but the first are lost.
        for whole_pages in [0, 1] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("vectors.db");
            let (_, stored) = open(&file, Words::default());
            stored.embed(Side::Passage, all.clone()).await.unwrap();
            drop(stored);
            let mut bytes = std::fs::read(&file).unwrap();
            bytes[whole_pages * 4_096..].fill(0xa5);
            std::fs::write(&file, bytes).unwrap();
            for missing in [200, 0] {
                let (words, stored) = open(&file, Words::default());
                let vectors = stored.embed(Side::Passage, all.clone()).await.unwrap();
                assert_eq!((vectors.len(), computed(&words)), (200, missing));
            }
        }
    }
}
