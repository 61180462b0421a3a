//! The folder of an [`EdgeStore`](super::EdgeStore): who has it open, what it was made for, and the log that has to be kept short.
//!
//! ```text
//! store.json    what the store was made for
//! lock          held by whoever has it open
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

/// What the folder's content means; another number is another meaning.
const FORMAT: u32 = 1;
/// Bytes of one file of the log. It holds every operation with its vectors once more, so it should not become long.
const LOG_FILE_BYTES: usize = 8 * 1024 * 1024;
/// Files of the log that are done with, above which it is cut.
const MAX_CLOSED_LOGS: usize = 4;

/// What a store was made for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    format: u32,
    dimensions: usize,
    tokens: bool,
    embedder: Option<String>,
}

impl std::fmt::Display for Made {
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

/// Where a shard is and how it is made.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    config: EdgeConfig,
}

/// A shard that nobody else has open.
#[derive(Debug)]
pub(super) struct Open {
    // Before the lock, so that it is down when the lock falls.
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

    /// Opens what is there, or makes it.
    pub(super) fn open(&self, options: &EdgeOptions) -> Result<Open, StoreError> {
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
        Ok(Open { shard, lock })
    }

    /// Qdrant has a lock of its own, whose error is a text.
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

    /// That the store was made for what it is opened with. A new one is, from now on.
    fn check(&self, options: &EdgeOptions) -> Result<(), StoreError> {
        let wanted = Made {
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
                    return Err(failed("the folder holds a shard and does not say what for"));
                }
                let bytes = serde_json::to_vec(&wanted).map_err(failed)?;
                // Whole or not at all, also where the power fails.
                let half = self.path.join("store.json.new");
                let file = File::create(&half).map_err(failed)?;
                std::io::Write::write_all(&mut &file, &bytes).map_err(failed)?;
                file.sync_all().map_err(failed)?;
                return std::fs::rename(half, path).map_err(failed);
            }
            Err(error) => return Err(failed(error)),
        };
        if found != wanted {
            return Err(StoreError::Mismatch(format!("{found} and not {wanted}")));
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
                // Operations are numbered by the log. Without it they would begin anew, and those on points that are there be passed over.
                return Err(failed("the shard has lost its log"));
            }
            self.cut_log()?;
            EdgeShard::load(&path, Some(self.config.clone()))
        } else {
            EdgeShard::new(&path, self.config.clone())
        };
        // Not the error itself: its `Debug` carries a backtrace.
        shard.map_err(|error| failed(error.to_string()))
    }

    /// The files of the log: the number of the first entry of those that are done with, nothing for the one that is written to.
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

    /// Whether the log would become shorter if the shard was opened anew.
    pub(super) fn log_is_long(&self) -> Result<bool, StoreError> {
        let closed = self.logs()?.iter().filter(|(first, _)| first.is_some()).count();
        Ok(closed > MAX_CLOSED_LOGS)
    }

    /// Qdrant Edge writes a log, never reads it again but for the number of the last entry, and never cuts it. The last file that is done
    /// with is kept: the numbers go on from it.
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

    /// Closes and opens the shard, which cuts its log.
    pub(super) fn reopen(&self, open: &mut Option<Open>) -> Result<(), StoreError> {
        let Some(Open { shard, lock }) = open.take() else {
            return Ok(());
        };
        drop(shard);
        let shard = self.load()?;
        *open = Some(Open { shard, lock });
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
            // Only candidates are compared by their tokens, so a graph of them would never be walked.
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
