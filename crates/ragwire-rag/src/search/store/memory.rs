//! [`MemoryStore`]: chunks in memory, with exact search.
//!
//! Words are matched by BM25 with one [`Index`] per level, so that the weight of a word on one
//! level does not depend on the other levels. Vectors are compared one by one. They are scaled to
//! length 1 when they are stored, so that a dot product is a cosine.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::blocking::{Caller, blocking};
use super::checks::{ValidSearch, check_points};
use super::{Filter, Point, Search, Store, StoreError, Vectors};
use crate::models::{Boxed, dot, max_sim, normalize};
use crate::search::lexical::{Analyzer, Index, TermVector, indexed_text, prepare};
use crate::search::retrieve::reciprocal_ranks;
use crate::{Chunk, Hit, Level};

/// Chunks added or removed under one lock, for which readers wait a few milliseconds.
const POINTS_PER_LOCK: usize = 64;
/// Stores up to this many chunks are read on the caller's thread: well under a millisecond.
const POINTS_READ_IN_PLACE: usize = 256;

/// A [`Store`] in memory with exact search.
///
/// A chunk of a passage's size takes about 4 KiB with its words, plus four bytes per dimension of
/// its vectors.
///
/// Readers continue while chunks are added. Everything is lost when it is dropped.
///
/// ```
/// # use ragwire_rag::search::store::{MemoryStore, Point, Search, Store, StoreError, Vectors};
/// # use ragwire_rag::Chunk;
/// # async fn example() -> Result<(), StoreError> {
/// let store = MemoryStore::new(Vectors::dense(2));
/// let robin = Chunk::new("birds", "birds.md", 0, "A robin sings at dawn.");
/// store.upsert(vec![Point::new(robin).dense(vec![0.6, 0.8])]).await?;
/// let hits = store.search(Search::hybrid("Which robins sing?", vec![0.0, 1.0], 5)).await?;
/// assert_eq!(hits[0].chunk.text, "A robin sings at dawn.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    vectors: Vectors,
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    analyzer: Analyzer,
    shared: RwLock<Shared>,
    /// Held while chunks are added or removed, so that two calls do not mix.
    writer: Mutex<()>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Each chunk by a number that it keeps when it is replaced. Equal scores are in the order of
    /// these numbers.
    points: BTreeMap<u64, Point>,
    by_id: HashMap<String, u64>,
    by_document: BTreeMap<String, BTreeSet<u64>>,
    words: BTreeMap<Level, Index>,
    next: u64,
}

/// A key and its score.
type Scored = (u64, f32);

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(vectors: Vectors) -> Self {
        Self {
            vectors,
            inner: Arc::default(),
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Analyzer, &Shared) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        if let Ok(shared) = inner.shared.try_read()
            && shared.points.len() <= POINTS_READ_IN_PLACE
        {
            return Ok(work(&inner.analyzer, &shared));
        }
        blocking(move |_| Ok(work(&inner.analyzer, &inner.read()))).await
    }
}

impl Store for MemoryStore {
    fn name(&self) -> &str {
        "memory"
    }

    fn vectors(&self) -> Vectors {
        self.vectors
    }

    fn upsert(&self, points: Vec<Point>) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(async move {
            check_points(self.vectors, &points)?;
            let inner = Arc::clone(&self.inner);
            blocking(move |caller| {
                inner.upsert(points, caller);
                Ok(())
            })
            .await
        })
    }

    fn search(&self, search: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>> {
        Box::pin(async move {
            let mut search = ValidSearch::new(self.vectors, search)?;
            for vector in search.dense.iter_mut().chain(&mut search.tokens) {
                normalize(vector);
            }
            self.read(move |analyzer, shared| shared.search(analyzer, &search))
                .await
        })
    }

    fn remove_document<'a>(&'a self, document_id: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let (inner, document_id) = (Arc::clone(&self.inner), document_id.to_owned());
            blocking(move |caller| {
                inner.remove_document(&document_id, caller);
                Ok(())
            })
            .await
        })
    }

    fn documents(&self) -> Boxed<'_, Result<BTreeSet<String>, StoreError>> {
        Box::pin(self.read(|_, shared| shared.by_document.keys().cloned().collect()))
    }

    fn count(&self, filter: Filter) -> Boxed<'_, Result<u64, StoreError>> {
        Box::pin(self.read(move |_, shared| shared.accepted(&filter).count() as u64))
    }
}

impl Inner {
    fn upsert(&self, points: Vec<Point>, caller: &Caller) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut points = points.into_iter().peekable();
        while points.peek().is_some() && !caller.is_cancelled() {
            let ready: Vec<_> = points
                .by_ref()
                .take(POINTS_PER_LOCK)
                .map(|point| self.prepare(point))
                .collect();
            let mut shared = self.write();
            for (point, words) in ready {
                shared.insert(point, words);
            }
            drop(shared);
            std::thread::yield_now();
        }
    }

    /// Does the slow work that needs no lock.
    fn prepare(&self, mut point: Point) -> (Point, TermVector) {
        for vector in point.dense.iter_mut().chain(&mut point.tokens) {
            normalize(vector);
        }
        let Chunk { heading, text, .. } = &point.chunk;
        let words = prepare(&self.analyzer, &indexed_text(heading.as_deref(), text));
        (point, words)
    }

    fn remove_document(&self, document_id: &str, caller: &Caller) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<u64> = self.read().of_document(document_id).collect();
        for keys in keys.chunks(POINTS_PER_LOCK) {
            if caller.is_cancelled() {
                return;
            }
            let mut shared = self.write();
            keys.iter().for_each(|key| shared.remove(*key));
            drop(shared);
            std::thread::yield_now();
        }
    }

    // A panic under the lock would be a bug of the index. Its state is still a prefix of the
    // requested changes.
    fn read(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn insert(&mut self, point: Point, words: TermVector) {
        let Chunk {
            id,
            document_id,
            level,
            ..
        } = &point.chunk;
        let key = self.by_id.get(id).copied().unwrap_or(self.next);
        self.next = self.next.max(key + 1);
        self.remove(key);
        self.by_id.insert(id.clone(), key);
        self.by_document
            .entry(document_id.clone())
            .or_default()
            .insert(key);
        self.words.entry(*level).or_default().insert(key, words);
        self.points.insert(key, point);
    }

    fn remove(&mut self, key: u64) {
        let Some(Point { chunk, .. }) = self.points.remove(&key) else {
            return;
        };
        self.by_id.remove(&chunk.id);
        if let Some(index) = self.words.get_mut(&chunk.level) {
            index.remove(key);
        }
        if let Some(keys) = self.by_document.get_mut(&chunk.document_id) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_document.remove(&chunk.document_id);
            }
        }
    }

    fn of_document(&self, document_id: &str) -> impl Iterator<Item = u64> {
        self.by_document.get(document_id).into_iter().flatten().copied()
    }

    /// Returns the keys of the requested documents, or `None` if all documents count.
    fn of_documents(&self, filter: &Filter) -> Option<HashSet<u64>> {
        let keys = || filter.documents.iter().flat_map(|id| self.of_document(id));
        (!filter.documents.is_empty()).then(|| keys().collect())
    }

    fn accepted(&self, filter: &Filter) -> impl Iterator<Item = (u64, &Point)> {
        let wanted = self.of_documents(filter);
        let all = wanted.is_none().then_some(&self.points);
        let some = wanted
            .into_iter()
            .flatten()
            .filter_map(|key| Some((key, self.points.get(&key)?)));
        all.into_iter()
            .flatten()
            .map(|(key, point)| (*key, point))
            .chain(some)
            .filter(|(_, point)| filter.levels.is_empty() || filter.levels.contains(&point.chunk.level))
    }

    fn search(&self, analyzer: &Analyzer, search: &ValidSearch) -> Vec<Hit> {
        let (filter, candidates) = (&search.filter, search.candidates());
        let words = |text: &String| self.with_words(analyzer, text, filter, candidates);
        let near = |vector: &Vec<f32>| self.near(vector, filter, candidates);
        let mut found = match (&search.text, &search.dense) {
            (Some(text), Some(vector)) => {
                let keys = |list: Vec<Scored>| list.into_iter().map(|(key, _)| key).collect();
                reciprocal_ranks(&[keys(words(text)), keys(near(vector))])
            }
            (Some(text), None) => words(text),
            (None, Some(vector)) => near(vector),
            (None, None) => Vec::new(),
        };
        if !search.tokens.is_empty() {
            found = self.by_max_sim(&search.tokens, &found);
        }
        found.truncate(search.limit);
        let hit = |(key, score): Scored| Some(Hit::new(self.points.get(&key)?.chunk.clone(), score));
        found.into_iter().filter_map(hit).collect()
    }

    fn with_words(&self, analyzer: &Analyzer, text: &str, filter: &Filter, limit: usize) -> Vec<Scored> {
        let wanted = self.of_documents(filter);
        let counts = |key| wanted.as_ref().is_none_or(|wanted| wanted.contains(&key));
        let found = self
            .words
            .iter()
            .filter(|(level, _)| filter.levels.is_empty() || filter.levels.contains(level))
            .flat_map(|(_, index)| index.search(analyzer, text, limit, counts))
            .map(|found| (found.key, found.score));
        best(found.collect(), limit)
    }

    fn near(&self, vector: &[f32], filter: &Filter, limit: usize) -> Vec<Scored> {
        let score = |(key, point): (u64, &Point)| Some((key, dot(vector, point.dense.as_ref()?)));
        best(self.accepted(filter).filter_map(score).collect(), limit)
    }

    /// Chunks without token vectors cannot be ranked by them and are left out, as in Qdrant.
    fn by_max_sim(&self, query: &[Vec<f32>], found: &[Scored]) -> Vec<Scored> {
        let score = |(key, _): &Scored| {
            let tokens = &self.points.get(key)?.tokens;
            (!tokens.is_empty()).then(|| (*key, max_sim(query, tokens)))
        };
        best(found.iter().filter_map(score).collect(), found.len())
    }
}

/// Returns the best entries, best first, equal scores ordered by key.
fn best(mut found: Vec<Scored>, limit: usize) -> Vec<Scored> {
    let order = |a: &Scored, b: &Scored| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if limit == 0 {
        return Vec::new();
    }
    if limit < found.len() {
        found.select_nth_unstable_by(limit - 1, order);
        found.truncate(limit);
    }
    found.sort_unstable_by(order);
    found
}
