//! [`EdgeStore`]: Qdrant in this process, with one folder per store.
//!
//! All operations of Qdrant block, so they run on tokio's blocking threads. A panic in Qdrant, for
//! example on a damaged folder, becomes `store_failed`.

mod folder;
mod request;

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use qdrant_edge::bm25_embed::{EdgeBm25, EdgeBm25Config};
use qdrant_edge::external::ordered_float::NotNan;
use qdrant_edge::{
    CountRequest, EdgeShard, FacetRequest, FacetValue, JsonPath, PointId, PointInsertOperations,
    PointOperations, PointStructPersisted, UpdateOperation,
};

use self::folder::{Folder, OpenShard};
use super::blocking::{Caller, blocking};
use super::checks::{ValidSearch, check_points};
use super::schema::{self, ASCII_FOLDING, AVERAGE_TERMS, DOCUMENT};
use super::{Filter, Point, Search, Store, StoreError, Vectors};
use crate::Hit;
use crate::models::Boxed;

/// Segments with more KiB of vectors get a graph (HNSW), unless the options say otherwise. This is
/// Qdrant's own default: below it exact search is as fast.
const INDEX_FROM_KIB: usize = 10_000;
/// Chunks of one operation. A cancelled call stops between two operations.
const POINTS_PER_OPERATION: usize = 64;
/// How long changes may wait until they are flushed to disk. Flushing takes tens of milliseconds
/// however few changes there are.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// After this many added or removed chunks, segments are merged, cleared of removed chunks, and
/// given their graphs.
const OPTIMIZE_EVERY: usize = 10_000;

/// Options for opening an [`EdgeStore`].
#[derive(Clone, Debug)]
pub struct EdgeOptions {
    vectors: Vectors,
    embedder: Option<String>,
    index_from_kib: usize,
}

impl EdgeOptions {
    /// Options for a store that keeps these vectors.
    pub fn new(vectors: Vectors) -> Self {
        Self {
            vectors,
            embedder: None,
            index_from_kib: INDEX_FROM_KIB,
        }
    }

    /// Sets the name of the model that computes the vectors. It is recorded in the folder: opening
    /// a store of another model is a `store_mismatch`.
    #[must_use]
    pub fn embedder(mut self, name: impl Into<String>) -> Self {
        self.embedder = Some(name.into());
        self
    }

    /// Sets how many KiB of vectors a segment may have before it gets a graph. Default: 10,000.
    #[must_use]
    pub fn index_from_kib(mut self, kib: usize) -> Self {
        self.index_from_kib = kib;
        self
    }
}

/// A [`Store`] in a folder, with Qdrant in this process. Only one process at a time can open it.
///
/// Word statistics are counted over all levels. Chunks with equal scores are ordered by their
/// hashed IDs.
///
/// Changes are visible at once. They are flushed to disk with the first change after a second has
/// passed, and at the latest with [`flush`](Self::flush), with [`close`](Self::close), or when the
/// store is dropped. If the process is killed before, the folder is as it was at the last flush,
/// which [`documents`](Store::documents) and [`count`](Store::count) show.
///
/// Dropping it closes the folder, which blocks for some milliseconds. [`close`](Self::close) does
/// not block, and reports errors.
///
/// ```no_run
/// # use ragwire_rag::search::store::{EdgeOptions, EdgeStore, Search, Store, StoreError, Vectors};
/// # async fn example() -> Result<(), StoreError> {
/// let options = EdgeOptions::new(Vectors::dense(384)).embedder("all-MiniLM-L6-v2");
/// let store = EdgeStore::open("index", options).await?;
/// let hits = store.search(Search::text("Which robins sing?", 5)).await?;
/// store.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct EdgeStore {
    vectors: Vectors,
    inner: Arc<Inner>,
}

struct Inner {
    folder: Folder,
    words: EdgeBm25,
    /// `None` once the store is closed.
    open: RwLock<Option<OpenShard>>,
    /// Held during every change: Qdrant panics if a flush and a change overlap.
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    /// Chunks added or removed since the last optimization.
    chunks: usize,
    flushed: Instant,
}

impl std::fmt::Debug for EdgeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EdgeStore")
            .field("folder", &self.inner.folder.path)
            .field("vectors", &self.vectors)
            .finish_non_exhaustive()
    }
}

impl EdgeStore {
    /// Opens the store of a folder, and creates both if they do not exist.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the store closed.
    ///
    /// # Errors
    ///
    /// `store_in_use`, also if this process has it open; `store_mismatch`; `store_failed`, also if
    /// the folder is damaged.
    pub async fn open(folder: impl AsRef<Path>, options: EdgeOptions) -> Result<Self, StoreError> {
        let folder = Folder::new(folder.as_ref(), &options);
        let vectors = options.vectors;
        let inner = blocking(move |_| {
            let open = folder.open(&options)?;
            Ok(Inner {
                folder,
                words: words().map_err(|error| failed(error.to_string()))?,
                open: RwLock::new(Some(open)),
                changes: Mutex::new(Changes {
                    chunks: 0,
                    flushed: Instant::now(),
                }),
            })
        })
        .await?;
        Ok(Self {
            vectors,
            inner: Arc::new(inner),
        })
    }

    /// Flushes all changes to disk.
    ///
    /// # Cancel safety
    /// Flushing continues if the future is dropped.
    ///
    /// # Errors
    ///
    /// `store_failed`.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.run(|inner, _| {
            let mut changes = inner.changes();
            inner.flush(&mut changes)
        })
        .await
    }

    /// Merges segments, clears them of removed chunks, gives large ones their graphs, and cuts the
    /// log. The store does this itself after every 10,000 chunks added or removed; call it after
    /// the first indexing. Searches continue meanwhile, changes wait.
    ///
    /// # Cancel safety
    /// The work continues if the future is dropped, and has no visible effect.
    ///
    /// # Errors
    ///
    /// `store_failed`.
    pub async fn optimize(&self) -> Result<(), StoreError> {
        self.run(|inner, _| inner.change(|_| Ok(OPTIMIZE_EVERY))).await
    }

    /// Closes the folder when all calls on it have ended.
    ///
    /// # Cancel safety
    /// Dropping the future closes the folder as well.
    ///
    /// # Errors
    ///
    /// `store_failed` if something could not be written.
    pub async fn close(self) -> Result<(), StoreError> {
        self.run(|inner, _| {
            let _changes = inner.changes();
            let open = inner.open.write().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(OpenShard { shard, .. }) = &open {
                shard.flush();
            }
            Ok(())
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &Caller) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        blocking(move |caller| work(&inner, caller)).await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Qdrant writes the rest when it is dropped, and panics if it cannot. Nothing can receive
        // the error here.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(open)));
    }
}

impl Store for EdgeStore {
    fn name(&self) -> &str {
        "qdrant-edge"
    }

    fn vectors(&self) -> Vectors {
        self.vectors
    }

    fn upsert(&self, points: Vec<Point>) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(async move {
            check_points(self.vectors, &points)?;
            let vectors = self.vectors;
            self.run(move |inner, caller| inner.change(|shard| inner.upsert(shard, vectors, &points, caller)))
                .await
        })
    }

    fn search(&self, search: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>> {
        Box::pin(async move {
            let search = ValidSearch::new(self.vectors, search)?;
            self.run(move |inner, _| inner.with(|shard| inner.search(shard, search)))
                .await
        })
    }

    fn remove_document<'a>(&'a self, document_id: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        let filter = Filter::default().document(document_id);
        Box::pin(self.run(move |inner, caller| {
            inner.change(|shard| {
                let gone = count(shard, &filter)?;
                if gone > 0 && !caller.is_cancelled() {
                    let Some(filter) = request::filter(&filter) else {
                        return Ok(0);
                    };
                    update(shard, PointOperations::DeletePointsByFilter(filter))?;
                }
                if count(shard, &filter)? > 0 && !caller.is_cancelled() {
                    return Err(ignored_change());
                }
                Ok(gone)
            })
        }))
    }

    fn documents(&self) -> Boxed<'_, Result<BTreeSet<String>, StoreError>> {
        Box::pin(self.run(|inner, _| {
            inner.with(|shard| {
                let request = FacetRequest {
                    key: field(DOCUMENT),
                    limit: usize::MAX,
                    filter: None,
                    exact: true,
                };
                let found = shard.facet(request).map_err(|error| failed(error.to_string()))?;
                let id = |value| match value {
                    FacetValue::Keyword(id) => Some(id),
                    _ => None,
                };
                let hits = found.hits.into_iter().filter(|hit| hit.count > 0);
                Ok(hits.filter_map(|hit| id(hit.value)).collect())
            })
        }))
    }

    fn count(&self, filter: Filter) -> Boxed<'_, Result<u64, StoreError>> {
        Box::pin(self.run(move |inner, _| inner.with(|shard| Ok(count(shard, &filter)? as u64))))
    }
}

impl Inner {
    fn with<T>(&self, work: impl FnOnce(&EdgeShard) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let closed = || failed("the store could not be reopened");
        work(&open.as_ref().ok_or_else(closed)?.shard)
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush(&self, changes: &mut Changes) -> Result<(), StoreError> {
        self.with(|shard| {
            shard.flush();
            Ok(())
        })?;
        changes.flushed = Instant::now();
        Ok(())
    }

    /// Runs a change, which returns the number of chunks it changed.
    fn change(&self, work: impl FnOnce(&EdgeShard) -> Result<usize, StoreError>) -> Result<(), StoreError> {
        let mut changes = self.changes();
        changes.chunks += self.with(work)?;
        if changes.chunks < OPTIMIZE_EVERY {
            if changes.flushed.elapsed() >= FLUSH_EVERY {
                self.flush(&mut changes)?;
            }
            return Ok(());
        }
        changes.chunks = 0;
        self.with(|shard| shard.optimize().map_err(|error| failed(error.to_string())))?;
        self.flush(&mut changes)?;
        if self.folder.log_is_long()? {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            self.folder.reopen(&mut open)?;
        }
        Ok(())
    }

    fn upsert(
        &self,
        shard: &EdgeShard,
        vectors: Vectors,
        points: &[Point],
        caller: &Caller,
    ) -> Result<usize, StoreError> {
        for points in points.chunks(POINTS_PER_OPERATION) {
            if caller.is_cancelled() {
                break;
            }
            // A point that moves to another segment keeps vectors that the new point does not have,
            // so it is deleted first.
            let lacks = |point: &Point| {
                let tokens = vectors.tokens && point.tokens.is_empty();
                tokens || vectors.dimensions > 0 && point.dense.is_none()
            };
            let ids: Vec<PointId> = points
                .iter()
                .filter(|point| lacks(point))
                .map(|point| request::point_id(&point.chunk.id))
                .collect();
            if !ids.is_empty() {
                update(shard, PointOperations::DeletePoints { ids })?;
            }
            let ready: Vec<PointStructPersisted> = points
                .iter()
                .map(|point| request::point(&self.words, point))
                .collect::<Result<_, _>>()?;
            let last = ready.last().cloned();
            update(
                shard,
                PointOperations::UpsertPoints(PointInsertOperations::PointsList(ready)),
            )?;
            if let Some(PointStructPersisted { id, payload, .. }) = last {
                let kept = shard.retrieve(&[id], Some(true.into()), Some(false.into()));
                let kept = kept.map_err(|error| failed(error.to_string()))?.pop();
                if kept.and_then(|kept| kept.payload) != payload {
                    return Err(ignored_change());
                }
            }
        }
        Ok(points.len())
    }

    fn search(&self, shard: &EdgeShard, search: ValidSearch) -> Result<Vec<Hit>, StoreError> {
        let limit = search.limit;
        let Some(query) = request::query(&self.words, search)? else {
            return Ok(Vec::new());
        };
        let mut found = shard.query(query).map_err(|error| failed(error.to_string()))?;
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
        found.truncate(limit);
        let ids: Vec<PointId> = found.iter().map(|found| found.id).collect();
        let records = shard
            .retrieve(&ids, Some(true.into()), Some(false.into()))
            .map_err(|error| failed(error.to_string()))?;
        let mut payloads: HashMap<PointId, _> = records
            .into_iter()
            .filter_map(|record| Some((record.id, record.payload?)))
            .collect();
        // A chunk that was removed in the meantime is not a hit.
        found
            .into_iter()
            .filter_map(|found| Some((payloads.remove(&found.id)?, found.score)))
            .map(|(payload, score)| Ok(Hit::new(schema::chunk(payload.0)?, score)))
            .collect()
    }
}

/// Creates the tokenizer, configured like on a Qdrant server.
fn words() -> Result<EdgeBm25, Box<dyn Error>> {
    let config = EdgeBm25Config {
        avg_len: NotNan::new(AVERAGE_TERMS)?,
        ascii_folding: Some(ASCII_FOLDING),
        ..EdgeBm25Config::default()
    };
    Ok(EdgeBm25::new(config)?)
}

fn update(shard: &EdgeShard, operation: PointOperations) -> Result<(), StoreError> {
    shard
        .update(UpdateOperation::PointOperation(operation))
        .map_err(|error| failed(error.to_string()))
}

fn count(shard: &EdgeShard, filter: &Filter) -> Result<usize, StoreError> {
    let request = CountRequest {
        filter: request::filter(filter),
        exact: true,
    };
    shard.count(request).map_err(|error| failed(error.to_string()))
}

fn field(name: &str) -> JsonPath {
    JsonPath {
        first_key: name.to_owned(),
        rest: Vec::new(),
    }
}

fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::Failed(error.into())
}

/// Qdrant ignores an operation whose number is lower than that of the point.
fn ignored_change() -> StoreError {
    failed("the shard ignores changes because its log is damaged")
}
