//! The requests of a shared library to its Qdrant server.
//!
//! Every request may be repeated: a point has one ID, and what must not be overwritten is written
//! under a condition.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use qdrant_client::QdrantError;
use qdrant_client::qdrant::facet_value::Variant;
use qdrant_client::qdrant::{
    Condition, CreateCollection, CreateFieldIndexCollection, DeletePoints, FacetCounts, FieldType, Filter,
    GetCollectionInfoRequest, GetPoints, Modifier, PayloadIncludeSelector, PointId, PointStruct,
    PointsSelector, Query, QueryBatchPoints, QueryPoints, Range as Values, RetrievedPoint, ScoredPoint,
    ScrollPoints, SparseVector, SparseVectorConfig, SparseVectorParams, UpsertPoints, Value, VectorInput,
    VectorsConfig, WithPayloadSelector, WithVectorsSelector, WriteOrdering, WriteOrderingType, point_id,
    query, vector_input, vectors_config, with_payload_selector,
};

use super::Selection;
use super::records::{
    self, FIRST, Head, KIND, Kind, LETTERS, MARK_FIELDS, Mark, NEXT, START, VERSION, WORDS, failed,
    term_index,
};
use crate::documents::chunk::Piece;
use crate::search::lexical::{QueryTerm, TermVector};
use crate::search::store::StoreError;
use crate::search::store::qdrant::{Connection, Failure, NOT_FOUND};

/// Points of one request: with passages of at most 2,000 bytes, 1 MB.
const POINTS_PER_REQUEST: usize = 256;
/// Points of one answer without passages.
const POINTS_PER_PAGE: u32 = 1_000;
/// Numbers that a host takes at once, so that uploads of several hosts seldom wait for each other.
const NUMBERS_PER_BLOCK: u64 = 4_096;
/// How often a host tries to take numbers while others do the same.
const BLOCK_ATTEMPTS: usize = 20;
/// The oldest server with writes under a condition.
const OLDEST_SERVER: (u32, u32) = (1, 16);
/// Documents with passages that one look for orphans sees.
const MAX_DOCUMENTS: u64 = 10_000_000;
/// One collection of a server.
pub(super) struct Remote {
    pub(super) connection: Connection,
    pub(super) collection: String,
    /// Numbers that belong to this host and are not in use.
    block: Mutex<Range<u64>>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("collection", &self.collection)
            .finish_non_exhaustive()
    }
}

impl Remote {
    pub(super) fn new(connection: Connection, collection: String) -> Self {
        Self {
            connection,
            collection,
            block: Mutex::new(0..0),
        }
    }

    pub(super) async fn send<T, F>(&self, request: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, QdrantError>>,
    {
        Ok(self.connection.send(request).await?)
    }

    /// Creates the collection, if it does not exist, and checks the version of the server.
    pub(super) async fn prepare(&self) -> Result<(), StoreError> {
        let client = &self.connection.client;
        let version = self.send(|| client.health_check()).await?.version;
        let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < OLDEST_SERVER {
            return Err(failed(format!(
                "Qdrant {version} is too old for a shared library: update it to {}.{} or newer",
                OLDEST_SERVER.0, OLDEST_SERVER.1
            )));
        }
        let known = match self.info().await? {
            Some(known) => known,
            None => {
                let created = self
                    .connection
                    .send(|| client.create_collection(self.create()))
                    .await;
                // Another host may have created it in between.
                match self.info().await? {
                    Some(known) => known,
                    None => {
                        return Err(created
                            .err()
                            .map_or_else(|| failed("Qdrant did not create the collection"), Failure::into));
                    }
                }
            }
        };
        for (name, kind) in [
            (KIND, FieldType::Keyword),
            (START, FieldType::Keyword),
            (FIRST, FieldType::Integer),
            (VERSION, FieldType::Integer),
        ] {
            if !known.contains(&name.to_owned()) {
                let index = CreateFieldIndexCollection {
                    collection_name: self.collection.clone(),
                    wait: Some(true),
                    field_name: name.to_owned(),
                    field_type: Some(kind.into()),
                    ..CreateFieldIndexCollection::default()
                };
                self.send(|| client.create_field_index(index.clone())).await?;
            }
        }
        Ok(())
    }

    /// Returns the fields with an index, or `None` if there is no collection.
    async fn info(&self) -> Result<Option<Vec<String>>, StoreError> {
        let request = GetCollectionInfoRequest {
            collection_name: self.collection.clone(),
        };
        let client = &self.connection.client;
        match self
            .connection
            .send(|| client.collection_info(request.clone()))
            .await
        {
            Ok(found) => {
                let info = found.result.unwrap_or_default();
                Ok(Some(info.payload_schema.into_keys().collect()))
            }
            Err(Failure {
                code: Some(NOT_FOUND),
                ..
            }) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    fn create(&self) -> CreateCollection {
        let words = SparseVectorParams {
            modifier: Some(Modifier::Idf.into()),
            ..SparseVectorParams::default()
        };
        let letters = SparseVectorParams::default();
        CreateCollection {
            collection_name: self.collection.clone(),
            vectors_config: Some(VectorsConfig {
                config: Some(vectors_config::Config::ParamsMap(Default::default())),
            }),
            sparse_vectors_config: Some(SparseVectorConfig {
                map: [(WORDS.to_owned(), words), (LETTERS.to_owned(), letters)].into(),
            }),
            ..CreateCollection::default()
        }
    }

    /// Writes points. With a condition, a point that exists is overwritten only if it meets it.
    async fn upsert(&self, points: Vec<PointStruct>, condition: Option<Filter>) -> Result<(), StoreError> {
        let request = UpsertPoints {
            collection_name: self.collection.clone(),
            wait: Some(true),
            points,
            // All replicas of a cluster then decide in the same order.
            ordering: condition.as_ref().map(|_| WriteOrdering {
                r#type: WriteOrderingType::Strong.into(),
            }),
            update_filter: condition,
            ..UpsertPoints::default()
        };
        let client = &self.connection.client;
        self.send(|| client.upsert_points(request.clone())).await?;
        Ok(())
    }

    async fn upsert_all(&self, points: Vec<PointStruct>) -> Result<(), StoreError> {
        let mut points = points.into_iter();
        loop {
            let batch: Vec<_> = points.by_ref().take(POINTS_PER_REQUEST).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.upsert(batch, None).await?;
        }
    }

    async fn delete(&self, points: PointsSelector) -> Result<(), StoreError> {
        let request = DeletePoints {
            collection_name: self.collection.clone(),
            wait: Some(true),
            points: Some(points),
            ..DeletePoints::default()
        };
        let client = &self.connection.client;
        self.send(|| client.delete_points(request.clone())).await?;
        Ok(())
    }

    async fn get(&self, ids: Vec<PointId>) -> Result<Vec<RetrievedPoint>, StoreError> {
        let request = GetPoints {
            collection_name: self.collection.clone(),
            ids,
            with_payload: Some(all_fields()),
            with_vectors: Some(no_vectors()),
            ..GetPoints::default()
        };
        let client = &self.connection.client;
        Ok(self.send(|| client.get_points(request.clone())).await?.result)
    }

    /// Returns the payload of one point.
    async fn get_one(&self, id: PointId) -> Result<Option<HashMap<String, Value>>, StoreError> {
        Ok(self.get(vec![id]).await?.pop().map(|point| point.payload))
    }

    /// Returns the payloads of all points that meet a condition.
    async fn scroll(
        &self,
        filter: Filter,
        fields: WithPayloadSelector,
    ) -> Result<Vec<HashMap<String, Value>>, StoreError> {
        let mut request = ScrollPoints {
            collection_name: self.collection.clone(),
            filter: Some(filter),
            limit: Some(POINTS_PER_PAGE),
            with_payload: Some(fields),
            with_vectors: Some(no_vectors()),
            ..ScrollPoints::default()
        };
        let client = &self.connection.client;
        let mut payloads = Vec::new();
        loop {
            let page = self.send(|| client.scroll(request.clone())).await?;
            payloads.extend(page.result.into_iter().map(|point| point.payload));
            match page.next_page_offset {
                Some(next) => request.offset = Some(next),
                None => return Ok(payloads),
            }
        }
    }

    pub(super) async fn query(
        &self,
        requests: Vec<QueryPoints>,
    ) -> Result<Vec<Vec<ScoredPoint>>, StoreError> {
        let request = QueryBatchPoints {
            collection_name: self.collection.clone(),
            query_points: requests,
            ..QueryBatchPoints::default()
        };
        let client = &self.connection.client;
        let found = self.send(|| client.query_batch(request.clone())).await?;
        Ok(found.result.into_iter().map(|batch| batch.result).collect())
    }

    pub(super) fn nearest(&self, vector: SparseVector, using: &str, limit: u64) -> QueryPoints {
        QueryPoints {
            collection_name: self.collection.clone(),
            query: Some(Query {
                variant: Some(query::Variant::Nearest(VectorInput {
                    variant: Some(vector_input::Variant::Sparse(vector)),
                })),
            }),
            using: Some(using.to_owned()),
            limit: Some(limit),
            with_payload: Some(no_fields()),
            with_vectors: Some(no_vectors()),
            ..QueryPoints::default()
        }
    }

    /// Returns what changed since `version`, or everything.
    pub(super) async fn marks(&self, since: Option<u64>) -> Result<Vec<Mark>, StoreError> {
        let mut conditions = vec![Condition::matches(KIND, Kind::Head.as_str().to_owned())];
        conditions.extend(since.map(|since| {
            let later = Values {
                gte: Some(since as f64),
                ..Values::default()
            };
            Condition::range(VERSION, later)
        }));
        let found = self
            .scroll(Filter::must(conditions), fields(&MARK_FIELDS))
            .await?;
        found.into_iter().map(records::read_mark).collect()
    }

    /// Returns the heads of these keys.
    pub(super) async fn heads(&self, keys: &[String]) -> Result<Vec<Head>, StoreError> {
        let mut heads = Vec::with_capacity(keys.len());
        for keys in keys.chunks(POINTS_PER_REQUEST) {
            let ids = keys.iter().map(|key| Kind::Head.id(key)).collect();
            for point in self.get(ids).await? {
                heads.push(records::read_head(point.payload)?);
            }
        }
        Ok(heads)
    }

    /// Writes a head if the one of this name still has the `expected` version, or does not exist.
    /// Returns `false` if another host was first.
    pub(super) async fn commit(&self, head: &Head, expected: Option<u64>) -> Result<bool, StoreError> {
        // No head has the version -1.
        let expected = expected.map_or(-1, |version| version as i64);
        let unchanged = Filter::must([Condition::matches(VERSION, expected)]);
        self.upsert(vec![records::head(head)?], Some(unchanged)).await?;
        let now = self.get_one(Kind::Head.id(&head.mark.key)).await?;
        Ok(now.map(records::read_mark).transpose()?.as_ref() == Some(&head.mark))
    }

    /// Returns numbers for so many passages that no passage has or had: the first of them.
    pub(super) async fn reserve(&self, passages: u64) -> Result<u64, StoreError> {
        if let Some(first) = take(&mut self.block(), passages) {
            return Ok(first);
        }
        let id = || Kind::Counter.id("");
        for _ in 0..BLOCK_ATTEMPTS {
            let number =
                |payload: &HashMap<String, Value>, name| payload.get(name).and_then(Value::as_integer);
            let counter = self.get_one(id()).await?;
            let next = counter.as_ref().and_then(|counter| number(counter, NEXT));
            let start = next.unwrap_or(0);
            let end = start + passages.max(NUMBERS_PER_BLOCK) as i64;
            let nonce = nonce()?;
            let fields = serde_json::json!({ NEXT: end, "nonce": nonce });
            let fields = fields.as_object().cloned().unwrap_or_default();
            let unchanged = Filter::must([Condition::matches(NEXT, next.unwrap_or(-1))]);
            self.upsert(vec![records::record(Kind::Counter, "", fields)], Some(unchanged))
                .await?;
            // If another host was faster after this one, its numbers are never used.
            let now = self.get_one(id()).await?;
            if now.and_then(|now| number(&now, "nonce")) == Some(nonce) {
                let mut block = self.block();
                *block = start as u64..end as u64;
                return take(&mut block, passages)
                    .ok_or_else(|| failed("the numbers of passages are used up"));
            }
        }
        Err(failed("other hosts took all numbers for passages; try again"))
    }

    fn block(&self) -> MutexGuard<'_, Range<u64>> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the passages of a document, which no search returns before its head is written.
    pub(super) async fn put_passages(
        &self,
        first: u64,
        pieces: &[Piece],
        terms: &[TermVector],
    ) -> Result<(), StoreError> {
        let mut points = Vec::with_capacity(pieces.len());
        for ((number, piece), terms) in (first..).zip(pieces).zip(terms) {
            points.push(records::passage(number, first, piece, terms)?);
        }
        self.upsert_all(points).await
    }

    /// Writes spellings of terms, for corrections and prefixes.
    pub(super) async fn put_words(&self, words: &[(String, String)]) -> Result<(), StoreError> {
        let words = words.iter().map(|(term, form)| records::word(term, form));
        self.upsert_all(words.collect()).await
    }

    /// Deletes the passages of the document that begins at `first`.
    pub(super) async fn delete_passages(&self, first: u64) -> Result<(), StoreError> {
        self.delete(Filter::must([Condition::matches(FIRST, first as i64)]).into())
            .await
    }

    /// Deletes the heads of documents that were removed before `version`.
    pub(super) async fn delete_removed(&self, version: u64) -> Result<(), StoreError> {
        let earlier = Values {
            lte: Some(version as f64),
            ..Values::default()
        };
        let removed = Filter::must([
            Condition::matches(KIND, Kind::Head.as_str().to_owned()),
            Condition::matches("live", false),
            Condition::range(VERSION, earlier),
        ]);
        self.delete(removed.into()).await
    }

    /// Returns the passages with these numbers; `None` for a removed one.
    pub(super) async fn pieces(&self, numbers: &[u64]) -> Result<Vec<Option<Piece>>, StoreError> {
        let mut found = HashMap::new();
        for numbers in numbers.chunks(POINTS_PER_REQUEST) {
            let ids = numbers.iter().map(|number| PointId::from(*number)).collect();
            for point in self.get(ids).await? {
                if let Some(number) = number_of(point.id.as_ref()) {
                    found.insert(number, records::read_piece(point.payload)?);
                }
            }
        }
        Ok(numbers.iter().map(|number| found.get(number).cloned()).collect())
    }

    /// Returns the passages of these documents with the best scores, best first.
    pub(super) async fn search(
        &self,
        terms: &[QueryTerm],
        selection: Selection,
        limit: usize,
    ) -> Result<Vec<(u64, f32)>, StoreError> {
        let mut weights: HashMap<u32, f32> = HashMap::new();
        for term in terms {
            for spelling in &term.spellings {
                *weights.entry(term_index(spelling)).or_default() += term.factor;
            }
        }
        if weights.is_empty() {
            return Ok(Vec::new());
        }
        let (indices, values) = weights.into_iter().unzip();
        let mut request = self.nearest(SparseVector { values, indices }, WORDS, limit as u64);
        request.filter = selected(selection);
        let found = self.query(vec![request]).await?.pop().unwrap_or_default();
        let scored = |point: &ScoredPoint| Some((number_of(point.id.as_ref())?, point.score));
        Ok(found.iter().filter_map(scored).collect())
    }

    /// Returns the first numbers of all documents that have passages, visible or not.
    pub(super) async fn firsts(&self) -> Result<Vec<u64>, StoreError> {
        let request = FacetCounts {
            collection_name: self.collection.clone(),
            key: FIRST.to_owned(),
            limit: Some(MAX_DOCUMENTS),
            exact: Some(true),
            ..FacetCounts::default()
        };
        let client = &self.connection.client;
        let found = self.send(|| client.facet(request.clone())).await?;
        let first = |value| match value {
            Variant::IntegerValue(first) => u64::try_from(first).ok(),
            Variant::StringValue(_) | Variant::BoolValue(_) => None,
        };
        let hits = found.hits.into_iter().filter(|hit| hit.count > 0);
        Ok(hits.filter_map(|hit| first(hit.value?.variant?)).collect())
    }

    /// Returns the values of all records of a kind.
    pub(super) async fn records(
        &self,
        kind: Kind,
    ) -> Result<Vec<serde_json::Map<String, serde_json::Value>>, StoreError> {
        let all = Filter::must([Condition::matches(KIND, kind.as_str().to_owned())]);
        let found = self.scroll(all, all_fields()).await?;
        Ok(found.into_iter().map(records::json_of).collect())
    }

    /// Writes records by their keys.
    pub(super) async fn put_records(
        &self,
        kind: Kind,
        written: Vec<(String, serde_json::Map<String, serde_json::Value>)>,
    ) -> Result<(), StoreError> {
        let points = written
            .into_iter()
            .map(|(key, fields)| records::record(kind, &key, fields));
        self.upsert_all(points.collect()).await
    }

    pub(super) async fn delete_records(&self, kind: Kind, keys: &[String]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let ids: Vec<PointId> = keys.iter().map(|key| kind.id(key)).collect();
        self.delete(ids.into()).await
    }

    /// Returns the record with this key.
    pub(super) async fn record(
        &self,
        kind: Kind,
        key: &str,
    ) -> Result<Option<serde_json::Map<String, serde_json::Value>>, StoreError> {
        Ok(self.get_one(kind.id(key)).await?.map(records::json_of))
    }

    /// Writes a record if it does not exist, or has these values.
    pub(super) async fn put_if(
        &self,
        kind: Kind,
        key: &str,
        fields: serde_json::Map<String, serde_json::Value>,
        expected: &[(&str, i64)],
    ) -> Result<(), StoreError> {
        let conditions = expected
            .iter()
            .map(|(name, value)| Condition::matches(*name, *value));
        self.upsert(
            vec![records::record(kind, key, fields)],
            Some(Filter::must(conditions)),
        )
        .await
    }
}

/// Returns the filter for passages of these documents.
pub(super) fn selected(selection: Selection) -> Option<Filter> {
    match selection {
        Selection::All => None,
        Selection::Only(firsts) => Some(Filter::must([Condition::matches(FIRST, firsts)])),
        Selection::Except(firsts) => Some(Filter::must_not([Condition::matches(FIRST, firsts)])),
    }
}

/// A number that no other host draws.
pub(super) fn nonce() -> Result<i64, StoreError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| failed(error.to_string()))?;
    // 53 bits, exact also where numbers are floating-point.
    Ok((u64::from_be_bytes(bytes) >> 11) as i64)
}

fn take(block: &mut Range<u64>, passages: u64) -> Option<u64> {
    let first = block.start;
    if first + passages > block.end {
        return None;
    }
    block.start += passages;
    Some(first)
}

pub(super) fn number_of(id: Option<&PointId>) -> Option<u64> {
    match id?.point_id_options.as_ref()? {
        point_id::PointIdOptions::Num(number) => Some(*number),
        point_id::PointIdOptions::Uuid(_) => None,
    }
}

pub(super) fn all_fields() -> WithPayloadSelector {
    true.into()
}

fn no_fields() -> WithPayloadSelector {
    false.into()
}

fn fields(names: &[&str]) -> WithPayloadSelector {
    WithPayloadSelector {
        selector_options: Some(with_payload_selector::SelectorOptions::Include(
            PayloadIncludeSelector {
                fields: names.iter().map(|name| (*name).to_owned()).collect(),
            },
        )),
    }
}

pub(super) fn no_vectors() -> WithVectorsSelector {
    false.into()
}
