//! Collections of a double of a Qdrant server that keep points and search them, exactly and slowly.
//!
//! Only what the stores and the shared library of ragwire-rag send: any other condition or query panics,
//! and the test fails.

use std::collections::{BTreeMap, HashMap, HashSet};

use prost::Message;
use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::vector_input::Variant as Input;
use qdrant_client::qdrant::vectors::VectorsOptions;
use qdrant_client::qdrant::vectors_output::VectorsOptions as OutputOptions;
use qdrant_client::qdrant::with_payload_selector::SelectorOptions as PayloadOptions;
use qdrant_client::qdrant::with_vectors_selector::SelectorOptions as VectorsSelection;
use qdrant_client::qdrant::{
    BatchResult, CollectionConfig, CollectionInfo, CollectionOperationResponse, CollectionParams, Condition,
    CountPoints, CountResponse, CountResult, CreateCollection, CreateFieldIndexCollection, DeletePoints,
    FacetCounts, FacetHit, FacetResponse, FacetValue, FieldCondition, Filter, GetCollectionInfoRequest,
    GetCollectionInfoResponse, GetPoints, GetResponse, HealthCheckReply, Modifier, NamedVectorsOutput,
    PayloadSchemaInfo, PointId, PointStruct, PointsOperationResponse, QueryBatchPoints, QueryBatchResponse,
    QueryPoints, QueryResponse, RetrievedPoint, ScoredPoint, ScrollPoints, ScrollResponse, SparseVector,
    UpdateResult, UpdateStatus, UpsertPoints, Value, VectorOutput, VectorsOutput, WithPayloadSelector,
    WithVectorsSelector, facet_value, query, vector, vector_output,
};

/// The order of points: numbers first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Uuid(String),
}

impl Key {
    fn of(id: Option<&PointId>) -> Self {
        match id.unwrap().point_id_options.clone().unwrap() {
            PointIdOptions::Num(number) => Self::Number(number),
            PointIdOptions::Uuid(uuid) => Self::Uuid(uuid),
        }
    }
}

#[derive(Debug)]
struct Collection {
    create: CreateCollection,
    indexes: HashSet<String>,
    points: BTreeMap<Key, PointStruct>,
}

/// The collections of a server.
#[derive(Debug, Default)]
pub(super) struct Engine(HashMap<String, Collection>);

/// The status of a collection that does not exist, and of one that exists.
const NOT_FOUND: i32 = 5;
const ALREADY_EXISTS: i32 = 6;

impl Engine {
    /// Answers a request, or returns the status of its failure.
    pub(super) fn answer(&mut self, method: &str, message: &[u8]) -> Result<Vec<u8>, i32> {
        Ok(match method {
            "Qdrant/HealthCheck" => HealthCheckReply {
                title: "a double".to_owned(),
                version: "1.18.3".to_owned(),
                commit: None,
            }
            .encode_to_vec(),
            "Collections/Get" => {
                let request: GetCollectionInfoRequest = decode(message);
                self.collection(&request.collection_name)?.info().encode_to_vec()
            }
            "Collections/Create" => {
                let create: CreateCollection = decode(message);
                let name = create.collection_name.clone();
                if self.0.contains_key(&name) {
                    return Err(ALREADY_EXISTS);
                }
                let collection = Collection {
                    create,
                    indexes: HashSet::new(),
                    points: BTreeMap::new(),
                };
                self.0.insert(name, collection);
                CollectionOperationResponse {
                    result: true,
                    time: 0.0,
                }
                .encode_to_vec()
            }
            "Points/CreateFieldIndex" => {
                let request: CreateFieldIndexCollection = decode(message);
                self.collection(&request.collection_name)?
                    .indexes
                    .insert(request.field_name);
                done()
            }
            "Points/Upsert" => {
                let request: UpsertPoints = decode(message);
                self.collection(&request.collection_name)?
                    .upsert(request.points, request.update_filter.as_ref());
                done()
            }
            "Points/Delete" => {
                let request: DeletePoints = decode(message);
                let selector = request.points.unwrap().points_selector_one_of.unwrap();
                self.collection(&request.collection_name)?.delete(selector);
                done()
            }
            "Points/Get" => {
                let request: GetPoints = decode(message);
                let collection = self.collection(&request.collection_name)?;
                let found = request.ids.iter().filter_map(|id| {
                    let point = collection.points.get(&Key::of(Some(id)))?;
                    Some(retrieved(
                        point,
                        request.with_payload.as_ref(),
                        request.with_vectors.as_ref(),
                    ))
                });
                GetResponse {
                    result: found.collect(),
                    ..GetResponse::default()
                }
                .encode_to_vec()
            }
            "Points/Scroll" => {
                let request: ScrollPoints = decode(message);
                self.collection(&request.collection_name)?
                    .scroll(&request)
                    .encode_to_vec()
            }
            "Points/Query" => {
                let request: QueryPoints = decode(message);
                let result = self.collection(&request.collection_name)?.query(&request);
                QueryResponse {
                    result,
                    ..QueryResponse::default()
                }
                .encode_to_vec()
            }
            "Points/QueryBatch" => {
                let request: QueryBatchPoints = decode(message);
                let collection = self.collection(&request.collection_name)?;
                let queries = request.query_points.iter();
                QueryBatchResponse {
                    result: queries
                        .map(|query| BatchResult {
                            result: collection.query(query),
                        })
                        .collect(),
                    ..QueryBatchResponse::default()
                }
                .encode_to_vec()
            }
            "Points/Facet" => {
                let request: FacetCounts = decode(message);
                self.collection(&request.collection_name)?
                    .facet(&request)
                    .encode_to_vec()
            }
            "Points/Count" => {
                let request: CountPoints = decode(message);
                let collection = self.collection(&request.collection_name)?;
                let count = collection.matching(request.filter.as_ref()).count() as u64;
                CountResponse {
                    result: Some(CountResult { count }),
                    ..CountResponse::default()
                }
                .encode_to_vec()
            }
            unknown => panic!("no answer to {unknown}"),
        })
    }

    fn collection(&mut self, name: &str) -> Result<&mut Collection, i32> {
        self.0.get_mut(name).ok_or(NOT_FOUND)
    }

    /// Returns the number of points of each collection.
    pub(super) fn points(&self) -> BTreeMap<String, usize> {
        let points = |(name, collection): (&String, &Collection)| (name.clone(), collection.points.len());
        self.0.iter().map(points).collect()
    }
}

impl Collection {
    fn info(&self) -> GetCollectionInfoResponse {
        let params = CollectionParams {
            vectors_config: self.create.vectors_config.clone(),
            sparse_vectors_config: self.create.sparse_vectors_config.clone(),
            ..CollectionParams::default()
        };
        let config = CollectionConfig {
            params: Some(params),
            metadata: self.create.metadata.clone(),
            ..CollectionConfig::default()
        };
        let indexes = self.indexes.iter();
        let info = CollectionInfo {
            config: Some(config),
            payload_schema: indexes
                .map(|name| (name.clone(), PayloadSchemaInfo::default()))
                .collect(),
            ..CollectionInfo::default()
        };
        GetCollectionInfoResponse {
            result: Some(info),
            time: 0.0,
        }
    }

    fn upsert(&mut self, points: Vec<PointStruct>, condition: Option<&Filter>) {
        for point in points {
            let key = Key::of(point.id.as_ref());
            let known = self.points.get(&key);
            // A point that does not exist is inserted whatever the condition.
            if known.is_none_or(|known| condition.is_none_or(|condition| meets(known, condition))) {
                self.points.insert(key, point);
            }
        }
    }

    fn delete(&mut self, selector: PointsSelectorOneOf) {
        match selector {
            PointsSelectorOneOf::Points(list) => {
                for id in &list.ids {
                    self.points.remove(&Key::of(Some(id)));
                }
            }
            PointsSelectorOneOf::Filter(filter) => self.points.retain(|_, point| !meets(point, &filter)),
        }
    }

    fn matching(&self, filter: Option<&Filter>) -> impl Iterator<Item = &PointStruct> {
        self.points
            .values()
            .filter(move |point| filter.is_none_or(|filter| meets(point, filter)))
    }

    fn scroll(&self, request: &ScrollPoints) -> ScrollResponse {
        let start = request.offset.as_ref().map(|id| Key::of(Some(id)));
        let from_start = |point: &&PointStruct| {
            start
                .as_ref()
                .is_none_or(|start| Key::of(point.id.as_ref()) >= *start)
        };
        let limit = request.limit.unwrap_or(10) as usize;
        let mut found = self.matching(request.filter.as_ref()).filter(from_start);
        let page: Vec<_> = found.by_ref().take(limit).collect();
        ScrollResponse {
            next_page_offset: found.next().and_then(|next| next.id.clone()),
            result: page
                .into_iter()
                .map(|point| {
                    retrieved(
                        point,
                        request.with_payload.as_ref(),
                        request.with_vectors.as_ref(),
                    )
                })
                .collect(),
            ..ScrollResponse::default()
        }
    }

    fn facet(&self, request: &FacetCounts) -> FacetResponse {
        let mut counts: BTreeMap<facet_value_key::FacetKey, u64> = BTreeMap::new();
        for point in self.matching(request.filter.as_ref()) {
            if let Some(key) = point.payload.get(&request.key).and_then(facet_value_key::of) {
                *counts.entry(key).or_default() += 1;
            }
        }
        let hit = |(key, count)| FacetHit {
            value: Some(FacetValue {
                variant: Some(facet_value_key::variant(key)),
            }),
            count,
        };
        FacetResponse {
            hits: counts.into_iter().map(hit).collect(),
            ..FacetResponse::default()
        }
    }

    fn query(&self, request: &QueryPoints) -> Vec<ScoredPoint> {
        assert!(
            request.prefetch.is_empty(),
            "the double fuses nothing: {request:?}"
        );
        let Some(query::Variant::Nearest(nearest)) = request.query.clone().and_then(|query| query.variant)
        else {
            panic!("not a search for the nearest: {request:?}");
        };
        let name = request.using.clone().unwrap_or_default();
        let sparse = match nearest.variant.unwrap() {
            Input::Sparse(sparse) => sparse,
            Input::Document(document) => terms_of(&document.text),
            other => panic!("the double searches no {other:?}"),
        };
        let config = self.create.sparse_vectors_config.clone().unwrap_or_default();
        let has_idf = config
            .map
            .get(&name)
            .is_some_and(|params| params.modifier() == Modifier::Idf);
        let vectors: Vec<(&PointStruct, SparseVector)> = self
            .points
            .values()
            .filter_map(|point| Some((point, sparse_of(point, &name)?)))
            .collect();
        let total = vectors.len() as f32;
        let weight = |(index, value): (&u32, &f32)| {
            let with = vectors
                .iter()
                .filter(|(_, vector)| vector.indices.contains(index))
                .count() as f32;
            // As Qdrant computes it.
            let idf = ((total - with + 0.5) / (with + 0.5) + 1.0).ln();
            (*index, if has_idf { value * idf } else { *value })
        };
        let weights: HashMap<u32, f32> = sparse.indices.iter().zip(&sparse.values).map(weight).collect();
        let mut found: Vec<(f32, &PointStruct)> = Vec::new();
        for (point, vector) in &vectors {
            let shared = vector.indices.iter().zip(&vector.values);
            let products = shared.filter_map(|(index, value)| Some(weights.get(index)? * value));
            let score: f32 = products.sum();
            let is_wanted = request.filter.as_ref().is_none_or(|filter| meets(point, filter));
            if score > 0.0 && is_wanted {
                found.push((score, point));
            }
        }
        found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        found.truncate(request.limit.unwrap_or(10) as usize);
        let scored = |(score, point): (f32, &PointStruct)| {
            let found = retrieved(
                point,
                request.with_payload.as_ref(),
                request.with_vectors.as_ref(),
            );
            ScoredPoint {
                id: found.id,
                payload: found.payload,
                vectors: found.vectors,
                score,
                ..ScoredPoint::default()
            }
        };
        found.into_iter().map(scored).collect()
    }
}

/// Values that are counted.
mod facet_value_key {
    use super::{Kind, Value, facet_value::Variant};

    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum FacetKey {
        Integer(i64),
        Text(String),
    }

    pub(super) fn of(value: &Value) -> Option<FacetKey> {
        match value.kind.clone()? {
            Kind::IntegerValue(number) => Some(FacetKey::Integer(number)),
            Kind::StringValue(text) => Some(FacetKey::Text(text)),
            _ => None,
        }
    }

    pub(super) fn variant(key: FacetKey) -> Variant {
        match key {
            FacetKey::Integer(number) => Variant::IntegerValue(number),
            FacetKey::Text(text) => Variant::StringValue(text),
        }
    }
}

fn decode<M: Message + Default>(message: &[u8]) -> M {
    M::decode(message).unwrap()
}

fn done() -> Vec<u8> {
    PointsOperationResponse {
        result: Some(UpdateResult {
            operation_id: None,
            status: UpdateStatus::Completed.into(),
        }),
        ..PointsOperationResponse::default()
    }
    .encode_to_vec()
}

/// A simple form of the analyzer of a server: words in lower case.
fn terms_of(text: &str) -> SparseVector {
    let mut weights: BTreeMap<u32, f32> = BTreeMap::new();
    for word in text.split(|letter: char| !letter.is_alphanumeric()) {
        if !word.is_empty() {
            let hash = word.to_lowercase().bytes().fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
            });
            weights.insert(hash, 1.0);
        }
    }
    let (indices, values) = weights.into_iter().unzip();
    SparseVector { values, indices }
}

fn sparse_of(point: &PointStruct, name: &str) -> Option<SparseVector> {
    let VectorsOptions::Vectors(named) = point.vectors.clone()?.vectors_options? else {
        return None;
    };
    match named.vectors.get(name)?.vector.clone()? {
        vector::Vector::Sparse(sparse) => Some(sparse),
        vector::Vector::Document(document) => Some(terms_of(&document.text)),
        _ => None,
    }
}

fn retrieved(
    point: &PointStruct,
    payload: Option<&WithPayloadSelector>,
    vectors: Option<&WithVectorsSelector>,
) -> RetrievedPoint {
    let fields = point.payload.clone();
    let payload = match payload.and_then(|selector| selector.selector_options.clone()) {
        Some(PayloadOptions::Enable(true)) => fields,
        Some(PayloadOptions::Enable(false)) | None => HashMap::new(),
        Some(PayloadOptions::Include(names)) => fields
            .into_iter()
            .filter(|(name, _)| names.fields.contains(name))
            .collect(),
        Some(other) => panic!("the double does not select {other:?}"),
    };
    let names = match vectors.and_then(|selector| selector.selector_options.clone()) {
        Some(VectorsSelection::Include(selected)) => selected.names,
        Some(VectorsSelection::Enable(false)) | None => Vec::new(),
        Some(other) => panic!("the double does not select {other:?}"),
    };
    let output = |name: String| {
        let vector = vector_output::Vector::Sparse(sparse_of(point, &name)?);
        let output = VectorOutput {
            vector: Some(vector),
            ..VectorOutput::default()
        };
        Some((name, output))
    };
    let named: HashMap<_, _> = names.into_iter().filter_map(output).collect();
    RetrievedPoint {
        id: point.id.clone(),
        payload,
        vectors: Some(VectorsOutput {
            vectors_options: Some(OutputOptions::Vectors(NamedVectorsOutput { vectors: named })),
        }),
        ..RetrievedPoint::default()
    }
}

fn meets(point: &PointStruct, filter: &Filter) -> bool {
    assert!(filter.min_should.is_none(), "the double has no min_should");
    filter.must.iter().all(|condition| meets_one(point, condition))
        && !filter
            .must_not
            .iter()
            .any(|condition| meets_one(point, condition))
        && (filter.should.is_empty() || filter.should.iter().any(|condition| meets_one(point, condition)))
}

fn meets_one(point: &PointStruct, condition: &Condition) -> bool {
    match condition.condition_one_of.as_ref().unwrap() {
        ConditionOneOf::Field(field) => meets_field(point.payload.get(&field.key), field),
        ConditionOneOf::Filter(filter) => meets(point, filter),
        other => panic!("the double has no condition {other:?}"),
    }
}

fn meets_field(value: Option<&Value>, field: &FieldCondition) -> bool {
    let Some(kind) = value.and_then(|value| value.kind.clone()) else {
        return false;
    };
    if let Some(range) = &field.range {
        let Kind::IntegerValue(number) = kind else {
            return false;
        };
        let number = number as f64;
        return range.gte.is_none_or(|least| number >= least)
            && range.lte.is_none_or(|most| number <= most)
            && range.gt.is_none()
            && range.lt.is_none();
    }
    let wanted = field.r#match.clone().unwrap().match_value.unwrap();
    match (wanted, kind) {
        (MatchValue::Keyword(wanted), Kind::StringValue(text)) => wanted == text,
        (MatchValue::Keywords(wanted), Kind::StringValue(text)) => wanted.strings.contains(&text),
        (MatchValue::Integer(wanted), Kind::IntegerValue(number)) => wanted == number,
        (MatchValue::Integers(wanted), Kind::IntegerValue(number)) => wanted.integers.contains(&number),
        (MatchValue::Boolean(wanted), Kind::BoolValue(value)) => wanted == value,
        (
            MatchValue::Boolean(_)
            | MatchValue::Keyword(_)
            | MatchValue::Keywords(_)
            | MatchValue::Integer(_)
            | MatchValue::Integers(_),
            _,
        ) => false,
        (other, _) => panic!("the double does not match {other:?}"),
    }
}
