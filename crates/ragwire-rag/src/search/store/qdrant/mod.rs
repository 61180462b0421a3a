//! [`QdrantStore`]: a collection on a Qdrant server, over gRPC.
//!
//! Nothing is requested from the server before the first call, which creates the collection or
//! checks an existing one. Every request may be repeated safely: chunks are added by ID and removed
//! by document. So a request that does not reach the server, or loses the connection, is sent up to
//! 3 times. A request that times out is not repeated.

mod collection;
mod connection;
mod failure;
mod request;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use qdrant_client::qdrant::facet_value::Variant;
use qdrant_client::qdrant::{DeletePoints, PointId, PointsOperationResponse, PointsSelector, UpsertPoints};
use qdrant_client::{Payload, Qdrant, QdrantError};
use tokio::sync::{Mutex, RwLock};

pub(crate) use self::connection::{Connection, TIMEOUT};
pub(crate) use self::failure::{Failure, NOT_FOUND};
pub(crate) use self::request::point_id;
use super::checks::{ValidSearch, check_points};
use super::schema;
use super::{Filter, Point, Search, Store, StoreError, Vectors};
use crate::Hit;
use crate::models::Boxed;

/// Chunks of one request.
const POINTS_PER_REQUEST: usize = 256;
/// The approximate size of one request in bytes, far below the 32 MiB that a server accepts by
/// default.
const BYTES_PER_REQUEST: usize = 4 * 1024 * 1024;

/// The server, the collection, and how to reach them.
#[derive(Clone)]
pub struct QdrantOptions {
    url: String,
    collection: String,
    vectors: Vectors,
    embedder: Option<String>,
    api_key: Option<String>,
    timeout: Duration,
}

impl std::fmt::Debug for QdrantOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QdrantOptions")
            .field("url", &self.url)
            .field("collection", &self.collection)
            .field("vectors", &self.vectors)
            .field("embedder", &self.embedder)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl QdrantOptions {
    /// Options for a collection that keeps these vectors, on the server with this gRPC address, for
    /// example `http://127.0.0.1:6334`.
    pub fn new(url: impl Into<String>, collection: impl Into<String>, vectors: Vectors) -> Self {
        Self {
            url: url.into(),
            collection: collection.into(),
            vectors,
            embedder: None,
            api_key: None,
            timeout: TIMEOUT,
        }
    }

    /// Sets the name of the model that computes the vectors. It is recorded: using a collection of
    /// another model is a `store_mismatch`.
    #[must_use]
    pub fn embedder(mut self, name: impl Into<String>) -> Self {
        self.embedder = Some(name.into());
        self
    }

    /// Sets the key that the server requires. It never appears in messages or logs of this crate;
    /// send it only over `https`.
    #[must_use]
    pub fn api_key(mut self, key: Option<String>) -> Self {
        self.api_key = key;
        self
    }

    /// Sets the time limit of one request. Default: 30 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// A [`Store`] in a collection of a Qdrant server.
///
/// Word statistics are counted over all levels. Chunks with equal scores are ordered by ID; which
/// of them are returned, if not all fit, is up to the server. A search sees earlier changes,
/// because every change waits for the server.
///
/// Dropping it closes the connections.
///
/// ```no_run
/// # use ragwire_rag::search::store::{QdrantOptions, QdrantStore, Search, Store, StoreError, Vectors};
/// # async fn example() -> Result<(), StoreError> {
/// let options = QdrantOptions::new("http://127.0.0.1:6334", "papers", Vectors::dense(384))
///     .embedder("all-MiniLM-L6-v2")
///     .api_key(std::env::var("QDRANT_API_KEY").ok());
/// let store = QdrantStore::new(options)?;
/// let hits = store.search(Search::text("Which robins sing?", 5)).await?;
/// # Ok(())
/// # }
/// ```
pub struct QdrantStore {
    connection: Connection,
    options: QdrantOptions,
    /// Whether the collection exists and matches.
    ready: AtomicBool,
    /// Held while the collection is created or checked.
    preparing: Mutex<()>,
    /// Held while a request changes the collection, also after its caller has left: shared by those that
    /// add, alone by one that removes. Otherwise a chunk could be added after it was removed.
    changing: Arc<RwLock<()>>,
}

impl std::fmt::Debug for QdrantStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QdrantStore")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl QdrantStore {
    /// Creates a store that connects with its first call. It neither blocks nor waits.
    ///
    /// # Errors
    ///
    /// `store_failed` for an invalid address, for an address with a password (which error messages
    /// would reveal), and for a key that is not a valid header value.
    pub fn new(options: QdrantOptions) -> Result<Self, StoreError> {
        let connection = Connection::new(&options.url, options.api_key.clone(), options.timeout)?;
        Ok(Self {
            connection,
            options,
            ready: AtomicBool::new(false),
            preparing: Mutex::new(()),
            changing: Arc::default(),
        })
    }

    /// Creates the collection, or checks an existing one. Every other call does this first if
    /// needed.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the collection half created; the next call completes it.
    ///
    /// # Errors
    ///
    /// `store_mismatch`, `store_unavailable`, `store_failed`.
    pub async fn ready(&self) -> Result<(), StoreError> {
        if self.ready.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _preparing = self.preparing.lock().await;
        if !self.ready.load(Ordering::SeqCst) {
            collection::prepare(self).await?;
            self.ready.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Sends a request to the collection. If the collection is missing, the next call creates it
    /// again.
    async fn request<T, F>(&self, request: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, QdrantError>>,
    {
        self.ready().await?;
        let answer = self.connection.send(request).await;
        answer.map_err(|failure| self.failed(failure))
    }

    fn failed(&self, failure: Failure) -> StoreError {
        if failure.code == Some(NOT_FOUND) {
            self.ready.store(false, Ordering::SeqCst);
        }
        failure.into()
    }

    /// Sends a request that changes the collection. `changing` is held until it has ended, even if the
    /// caller no longer waits.
    #[expect(
        clippy::disallowed_methods,
        reason = "the task ends with its request, within the time limit"
    )]
    async fn change<F>(
        &self,
        changing: impl Send + 'static,
        request: impl Fn(Qdrant) -> F + Send + Sync + 'static,
    ) -> Result<(), StoreError>
    where
        F: Future<Output = Result<PointsOperationResponse, QdrantError>> + Send,
    {
        let connection = self.connection.clone();
        let sent = tokio::spawn(async move {
            let answer = connection.send(|| request(connection.client.clone())).await;
            drop(changing);
            answer
        });
        let answer = sent.await.map_err(|_| failed("a request panicked"))?;
        answer.map(drop).map_err(|failure| self.failed(failure))
    }

    async fn delete(&self, points: PointsSelector) -> Result<(), StoreError> {
        let request = DeletePoints {
            collection_name: self.options.collection.clone(),
            wait: Some(true),
            points: Some(points),
            ..DeletePoints::default()
        };
        self.ready().await?;
        let alone = Arc::clone(&self.changing).write_owned().await;
        self.change(alone, move |client| {
            let request = request.clone();
            async move { client.delete_points(request).await }
        })
        .await
    }
}

impl Store for QdrantStore {
    fn name(&self) -> &str {
        "qdrant"
    }

    fn vectors(&self) -> Vectors {
        self.options.vectors
    }

    fn upsert(&self, points: Vec<Point>) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let vectors = self.options.vectors;
            check_points(vectors, &points)?;
            let mut points = points.as_slice();
            while !points.is_empty() {
                let (batch, rest) = points.split_at(batch(points));
                points = rest;
                // A point that moves to another segment keeps vectors that the new point does not
                // have, so it is deleted first.
                let lacks = |point: &&Point| {
                    let tokens = vectors.tokens && point.tokens.is_empty();
                    tokens || vectors.dimensions > 0 && point.dense.is_none()
                };
                let ids: Vec<PointId> = batch
                    .iter()
                    .filter(lacks)
                    .map(|point| point_id(&point.chunk.id))
                    .collect();
                if !ids.is_empty() {
                    self.delete(ids.into()).await?;
                }
                let request = UpsertPoints {
                    collection_name: self.options.collection.clone(),
                    wait: Some(true),
                    points: batch.iter().map(request::point).collect::<Result<_, _>>()?,
                    ..UpsertPoints::default()
                };
                self.ready().await?;
                let together = Arc::clone(&self.changing).read_owned().await;
                self.change(together, move |client| {
                    let request = request.clone();
                    async move { client.upsert_points(request).await }
                })
                .await?;
            }
            Ok(())
        })
    }

    fn search(&self, search: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>> {
        Box::pin(async move {
            let search = ValidSearch::new(self.options.vectors, search)?;
            if search.limit == 0 {
                return Ok(Vec::new());
            }
            let request = request::query(&self.options.collection, search);
            let client = self.connection.traced();
            let found = self.request(|| client.query(request.clone())).await?;
            let mut hits: Vec<Hit> = found
                .result
                .into_iter()
                .map(|found| {
                    Ok(Hit::new(
                        schema::chunk(Payload::from(found.payload).into())?,
                        found.score,
                    ))
                })
                .collect::<Result<_, StoreError>>()?;
            hits.sort_by(|a, b| {
                b.score
                    .total_cmp(&a.score)
                    .then_with(|| a.chunk.id.cmp(&b.chunk.id))
            });
            Ok(hits)
        })
    }

    fn remove_document<'a>(&'a self, document_id: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        let filter = request::conditions(&Filter::default().document(document_id));
        Box::pin(self.delete(filter.into()))
    }

    fn documents(&self) -> Boxed<'_, Result<BTreeSet<String>, StoreError>> {
        Box::pin(async move {
            let request = request::documents(&self.options.collection);
            let found = self
                .request(|| self.connection.client.facet(request.clone()))
                .await?;
            let id = |value| match value {
                Variant::StringValue(id) => Some(id),
                Variant::IntegerValue(_) | Variant::BoolValue(_) => None,
            };
            let hits = found.hits.into_iter().filter(|hit| hit.count > 0);
            Ok(hits.filter_map(|hit| id(hit.value?.variant?)).collect())
        })
    }

    fn count(&self, filter: Filter) -> Boxed<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let request = request::count(&self.options.collection, &filter);
            let found = self
                .request(|| self.connection.client.count(request.clone()))
                .await?;
            found
                .result
                .map(|result| result.count)
                .ok_or_else(|| failed("Qdrant returned no count"))
        })
    }
}

/// Returns how many of these points fit into one request, at least one.
fn batch(points: &[Point]) -> usize {
    let mut bytes = 0;
    let fits = |point: &&Point| {
        let numbers =
            point.dense.as_ref().map_or(0, Vec::len) + point.tokens.iter().map(Vec::len).sum::<usize>();
        // The text is sent in the payload and again for its terms.
        bytes += 4 * numbers + 2 * point.chunk.text.len();
        bytes <= BYTES_PER_REQUEST
    };
    points
        .iter()
        .take(POINTS_PER_REQUEST)
        .take_while(fits)
        .count()
        .max(1)
}

fn failed(error: &'static str) -> StoreError {
    StoreError::Failed(error.into())
}
