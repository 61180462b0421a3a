//! The folder of an [`EdgeStore`](super::EdgeStore): its lock, the description of its contents, and
//! the log that has to be kept short.
//!
//! ```text
//! store.json    what the store was created for
//! lock          locked by the process that has it open
//! shard/        Qdrant's own: configuration, segments, log
//! ```

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use qdrant_edge::{
    CreateIndex, Distance, EdgeConfig, EdgeOptimizersConfig, EdgeShard, EdgeSparseVectorParams,
    EdgeVectorParams, FieldIndexOperations, HnswIndexConfig, Modifier, MultiVectorComparator,
    MultiVectorConfig, PayloadFieldSchema, PayloadSchemaType, UpdateOperation, WalOptions,
};
use serde::{Deserialize, Serialize};

use super::{EdgeOptions, failed, field};
use crate::search::store::StoreError;
use crate::search::store::schema::{DENSE, DOCUMENT, LEVEL, TOKENS, WORDS};

/// The format of the folder's contents. Incremented when the meaning changes.
const FORMAT: u32 = 1;
/// The size of one log file in bytes. The log contains every operation with its vectors again, so
/// it should stay short.
const LOG_FILE_BYTES: usize = 8 * 1024 * 1024;
/// The log is cut if it has more closed files than this.
const MAX_CLOSED_LOGS: usize = 4;

/// What a store was created for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoreDescription {
    format: u32,
    dimensions: usize,
    tokens: bool,
    embedder: Option<String>,
}

impl std::fmt::Display for StoreDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            format,
            dimensions,
            tokens,
            embedder,
        } = self;
        let tokens = if *tokens { "with" } else { "without" };
        let embedder = embedder.as_deref().unwrap_or("none");
        write!(
            f,
            "format {format}, {dimensions} dimensions, {tokens} tokens, embedder {embedder}"
        )
    }
}

/// The path of a shard and the configuration to create it with.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    config: EdgeConfig,
}

/// A shard that this process has locked.
#[derive(Debug)]
pub(super) struct OpenShard {
    // Declared before the lock, so that the shard is closed before the lock is released.
    pub(super) shard: EdgeShard,
    lock: File,
}

impl Folder {
    pub(super) fn new(path: &Path, options: &EdgeOptions) -> Self {
        Self {
            path: path.to_owned(),
            config: config(options),
        }
    }

    /// Opens the store of the folder, or creates it.
    pub(super) fn open(&self, options: &EdgeOptions) -> Result<OpenShard, StoreError> {
        std::fs::create_dir_all(&self.path).map_err(failed)?;
        let lock = self.lock()?;
        self.check(options)?;
        let shard = self.load()?;
        let known = shard.info().payload_schema;
        for name in [DOCUMENT, LEVEL] {
            if known.contains_key(&field(name)) {
                continue;
            }
            let index = CreateIndex {
                field_name: field(name),
                field_schema: Some(PayloadFieldSchema::FieldType(PayloadSchemaType::Keyword)),
            };
            let index = FieldIndexOperations::CreateIndex(index);
            shard
                .update(UpdateOperation::FieldIndexOperation(index))
                .map_err(|error| failed(error.to_string()))?;
        }
        Ok(OpenShard { shard, lock })
    }

    /// Qdrant has its own lock, but reports it only as text.
    fn lock(&self) -> Result<File, StoreError> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.path.join("lock"))
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Checks that the store was created for these options. A new store records them.
    fn check(&self, options: &EdgeOptions) -> Result<(), StoreError> {
        let wanted = StoreDescription {
            format: FORMAT,
            dimensions: options.vectors.dimensions,
            tokens: options.vectors.tokens,
            embedder: options.embedder.clone(),
        };
        let path = self.path.join("store.json");
        let found = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<StoreDescription>(&bytes).map_err(failed)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if self.shard().exists() {
                    return Err(failed("the folder contains a shard, but store.json is missing"));
                }
                let bytes = serde_json::to_vec(&wanted).map_err(failed)?;
                // Written atomically, even if the power fails.
                let half = self.path.join("store.json.new");
                let file = File::create(&half).map_err(failed)?;
                std::io::Write::write_all(&mut &file, &bytes).map_err(failed)?;
                file.sync_all().map_err(failed)?;
                return std::fs::rename(half, path).map_err(failed);
            }
            Err(error) => return Err(failed(error)),
        };
        if found != wanted {
            return Err(StoreError::Mismatch(format!("{found}, expected {wanted}")));
        }
        Ok(())
    }

    fn shard(&self) -> PathBuf {
        self.path.join("shard")
    }

    fn load(&self) -> Result<EdgeShard, StoreError> {
        let path = self.shard();
        std::fs::create_dir_all(&path).map_err(failed)?;
        let shard = if path.join("edge_config.json").exists() {
            if self.logs()?.is_empty() {
                // Operations are numbered by the log. Without it the numbers would start again, and
                // operations on existing points would be ignored.
                return Err(failed("the log of the shard is missing"));
            }
            self.cut_log()?;
            EdgeShard::load(&path, Some(self.config.clone()))
        } else {
            EdgeShard::new(&path, self.config.clone())
        };
        // Only the message: the error's `Debug` output contains a backtrace.
        shard.map_err(|error| failed(error.to_string()))
    }

    /// Returns the files of the log: a closed file with the number of its first entry, the open
    /// file with `None`.
    fn logs(&self) -> Result<Vec<(Option<u64>, PathBuf)>, StoreError> {
        let mut logs = Vec::new();
        let entries = match std::fs::read_dir(self.shard().join("wal")) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(logs),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            match name.split_once('-') {
                Some(("closed", first)) => logs.push((Some(first.parse().map_err(failed)?), path)),
                Some(("open", _)) => logs.push((None, path)),
                _ => {}
            }
        }
        Ok(logs)
    }

    /// Returns whether reopening the shard would shorten the log.
    pub(super) fn log_is_long(&self) -> Result<bool, StoreError> {
        let closed = self.logs()?.iter().filter(|(first, _)| first.is_some()).count();
        Ok(closed > MAX_CLOSED_LOGS)
    }

    /// Qdrant Edge writes a log, but reads only the number of its last entry, and never cuts it.
    /// The last closed file is kept, because the numbers continue from it.
    fn cut_log(&self) -> Result<(), StoreError> {
        let mut closed: Vec<(u64, PathBuf)> = self
            .logs()?
            .into_iter()
            .filter_map(|(first, path)| Some((first?, path)))
            .collect();
        closed.sort();
        closed.pop();
        for (_, path) in closed {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Ok(())
    }

    /// Closes and reopens the shard, which cuts its log.
    pub(super) fn reopen(&self, open: &mut Option<OpenShard>) -> Result<(), StoreError> {
        let Some(OpenShard { shard, lock }) = open.take() else {
            return Ok(());
        };
        drop(shard);
        let shard = self.load()?;
        *open = Some(OpenShard { shard, lock });
        Ok(())
    }
}

fn config(options: &EdgeOptions) -> EdgeConfig {
    let words = EdgeSparseVectorParams {
        modifier: Some(Modifier::Idf),
        ..EdgeSparseVectorParams::default()
    };
    let optimizers = EdgeOptimizersConfig {
        indexing_threshold: Some(options.index_from_kib),
        ..EdgeOptimizersConfig::default()
    };
    let mut config = EdgeConfig::builder()
        .sparse_vector(WORDS, words)
        .optimizers(optimizers)
        .wal_options(WalOptions {
            segment_capacity: LOG_FILE_BYTES,
            ..WalOptions::default()
        });
    if options.vectors.dimensions > 0 {
        let vector = || EdgeVectorParams::builder(options.vectors.dimensions, Distance::Cosine);
        config = config.vector(DENSE, vector().build());
        if options.vectors.tokens {
            // Only candidates are compared by their tokens, so a graph of token vectors would never
            // be used.
            let no_graph = HnswIndexConfig {
                m: 0,
                ..HnswIndexConfig::default()
            };
            let tokens = vector()
                .multivector_config(MultiVectorConfig {
                    comparator: MultiVectorComparator::MaxSim,
                })
                .hnsw_config(no_graph);
            config = config.vector(TOKENS, tokens.build());
        }
    }
    config.build()
}
