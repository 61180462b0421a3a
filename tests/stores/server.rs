//! What a `QdrantStore` asks of a server and what it makes of the answers, whatever they are.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use prost::Message;
use qdrant_client::Payload;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CollectionOperationResponse, Condition, CountPoints, CountResponse, CountResult, CreateCollection,
    CreateFieldIndexCollection, DeletePoints, DenseVector, Distance, Document, FacetCounts, FacetHit,
    FacetResponse, FacetValue, FieldType, Filter as Conditions, HnswConfigDiff, Modifier, MultiDenseVector,
    MultiVectorComparator, MultiVectorConfig, NamedVectors, PointStruct, PrefetchQuery, Query, QueryPoints,
    QueryResponse, RepeatedStrings, Rrf, ScoredPoint, SparseVectorConfig, SparseVectorParams, UpsertPoints,
    Value, Vector, VectorInput, VectorParams, VectorParamsMap, VectorsConfig, WithPayloadSelector,
    WithVectorsSelector, facet_value, query, vector, vector_input, with_payload_selector,
    with_vectors_selector,
};
use ragwire::rag::store::{Filter, Point, QdrantOptions, QdrantStore, Search, Store, StoreError, Vectors};
use ragwire::rag::{Chunk, Hit, Level};
use tokio::net::TcpListener;

use crate::double::{Double, Reply};
use crate::points::{at, chunk, point};

const KEY: &str = "a-key-that-is-a-secret";

fn options(url: &str) -> QdrantOptions {
    QdrantOptions::new(url, "papers", Vectors::dense(2).with_tokens())
        .embedder("mini")
        .api_key(Some(KEY.to_owned()))
}

async fn started() -> (Double, QdrantStore) {
    let double = Double::start().await;
    let store = QdrantStore::new(options(&double.url)).unwrap();
    (double, store)
}

fn collection() -> CreateCollection {
    let vector = VectorParams {
        size: 2,
        distance: Distance::Cosine.into(),
        ..VectorParams::default()
    };
    let tokens = VectorParams {
        multivector_config: Some(MultiVectorConfig {
            comparator: MultiVectorComparator::MaxSim.into(),
        }),
        hnsw_config: Some(HnswConfigDiff {
            m: Some(0),
            ..HnswConfigDiff::default()
        }),
        ..vector.clone()
    };
    let words = SparseVectorParams {
        modifier: Some(Modifier::Idf.into()),
        ..SparseVectorParams::default()
    };
    CreateCollection {
        collection_name: "papers".to_owned(),
        vectors_config: Some(VectorsConfig {
            config: Some(Config::ParamsMap(VectorParamsMap {
                map: [("dense".to_owned(), vector), ("tokens".to_owned(), tokens)].into(),
            })),
        }),
        sparse_vectors_config: Some(SparseVectorConfig {
            map: [("words".to_owned(), words)].into(),
        }),
        metadata: [("ragwire_embedder".to_owned(), Value::from("mini"))].into(),
        ..CreateCollection::default()
    }
}

fn methods(double: &Double) -> Vec<String> {
    double.asked().into_iter().map(|asked| asked.method).collect()
}

#[tokio::test]
async fn the_first_call_makes_the_collection() {
    let (double, store) = started().await;
    assert!(double.asked().is_empty(), "nothing is asked before");
    store.count(Filter::default()).await.unwrap();
    let asked = double.asked();
    assert!(asked.iter().all(|asked| asked.headers["api-key"] == KEY));
    let first: Vec<_> = asked.iter().map(|asked| asked.method.as_str()).collect();
    let made = [
        "Collections/Get",
        "Collections/Create",
        "Collections/Get",
        "Points/CreateFieldIndex",
        "Points/CreateFieldIndex",
        "Points/Count",
    ];
    assert_eq!(first, made);
    assert_eq!(double.collection().unwrap(), collection());
    for (asked, name) in asked[3..5].iter().zip(["document_id", "level"]) {
        let index = CreateFieldIndexCollection {
            collection_name: "papers".to_owned(),
            wait: Some(true),
            field_name: name.to_owned(),
            field_type: Some(FieldType::Keyword.into()),
            ..CreateFieldIndexCollection::default()
        };
        assert_eq!(
            CreateFieldIndexCollection::decode(asked.message.clone()).unwrap(),
            index
        );
    }
    // Once, also for many at the same time.
    let other = QdrantStore::new(options(&double.url)).unwrap();
    let (one, two) = tokio::join!(other.count(Filter::default()), other.documents());
    assert!(one.is_ok() && two.is_ok());
    let methods = methods(&double);
    assert_eq!(
        methods
            .iter()
            .filter(|method| *method == "Collections/Get")
            .count(),
        1
    );
    assert!(!methods.contains(&"Collections/Create".to_owned()));
}

#[tokio::test]
async fn another_may_make_the_collection_first() {
    let (double, store) = started().await;
    // Not there when looked for, there when made.
    double.holds(Some(collection()));
    double.next("Collections/Get", [Reply::Status(5)]);
    store.ready().await.unwrap();
    // Made, but the answer was lost.
    let (double, store) = started().await;
    double.next(
        "Collections/Create",
        [Reply::Message(
            CollectionOperationResponse::default().encode_to_vec(),
        )],
    );
    assert_eq!(store.ready().await.unwrap_err().code(), "store_failed");
    store.ready().await.unwrap();
    // Gone later: the next call makes it again.
    double.holds(None);
    double.next("Points/Count", [Reply::Status(5)]);
    assert_eq!(
        store.count(Filter::default()).await.unwrap_err().code(),
        "store_failed"
    );
    assert_eq!(store.count(Filter::default()).await.unwrap(), 0);
    assert_eq!(double.collection().unwrap(), collection());
}

#[tokio::test]
async fn another_collection_is_refused() {
    fn params(collection: &mut CreateCollection) -> &mut HashMap<String, VectorParams> {
        match collection
            .vectors_config
            .as_mut()
            .unwrap()
            .config
            .as_mut()
            .unwrap()
        {
            Config::ParamsMap(vectors) => &mut vectors.map,
            Config::Params(_) => unreachable!(),
        }
    }
    let wanted = r#"{"dense": "2 Cosine", "tokens": "2 Cosine each", "words": "sparse Idf"}"#;
    let cases: [(fn(&mut CreateCollection), &str); 6] = [
        (
            |it| params(it).get_mut("dense").unwrap().size = 3,
            r#"{"dense": "3 Cosine", "tokens": "2 Cosine each", "words": "sparse Idf"}"#,
        ),
        (
            |it| params(it).get_mut("tokens").unwrap().distance = Distance::Dot.into(),
            r#"{"dense": "2 Cosine", "tokens": "2 Dot each", "words": "sparse Idf"}"#,
        ),
        (
            |it| params(it).get_mut("tokens").unwrap().multivector_config = None,
            r#"{"dense": "2 Cosine", "tokens": "2 Cosine", "words": "sparse Idf"}"#,
        ),
        (
            |it| {
                params(it).remove("tokens");
            },
            r#"{"dense": "2 Cosine", "words": "sparse Idf"}"#,
        ),
        (
            |it| it.sparse_vectors_config = None,
            r#"{"dense": "2 Cosine", "tokens": "2 Cosine each"}"#,
        ),
        (
            |it| {
                let alone = params(it).remove("dense").unwrap();
                it.vectors_config = Some(VectorsConfig {
                    config: Some(Config::Params(alone)),
                });
                it.sparse_vectors_config = None;
            },
            r#"{"": "2 Cosine"}"#,
        ),
    ];
    for (change, found) in cases {
        let (double, store) = started().await;
        let mut other = collection();
        change(&mut other);
        double.holds(Some(other));
        let refused = store.count(Filter::default()).await.unwrap_err();
        assert_eq!(refused.code(), "store_mismatch");
        assert_eq!(
            refused.to_string(),
            format!("the store in use was made for other vectors: {found} and not {wanted}")
        );
        assert_eq!(methods(&double), ["Collections/Get"], "nothing is changed");
    }
    let (double, store) = started().await;
    let mut other = collection();
    other.metadata = [("ragwire_embedder".to_owned(), Value::from("maxi"))].into();
    double.holds(Some(other.clone()));
    let refused = store.ready().await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the store in use was made for other vectors: embedder maxi and not mini"
    );
    // A server that keeps no metadata.
    other.metadata.clear();
    double.holds(Some(other));
    store.ready().await.unwrap();
}

fn text_of(text: &str) -> Document {
    Document {
        text: text.to_owned(),
        model: "qdrant/bm25".to_owned(),
        options: [
            ("avg_len".to_owned(), Value::from(80.0)),
            ("ascii_folding".to_owned(), Value::from(true)),
        ]
        .into(),
    }
}

fn named(name: &str, vector: vector::Vector) -> (String, Vector) {
    let vector = Vector {
        vector: Some(vector),
        ..Vector::default()
    };
    (name.to_owned(), vector)
}

fn vectors(data: &[[f32; 2]]) -> MultiDenseVector {
    MultiDenseVector {
        vectors: data
            .iter()
            .map(|data| DenseVector { data: data.to_vec() })
            .collect(),
    }
}

fn one_of(field: &str, values: &[&str]) -> Condition {
    let strings = values.iter().map(|value| (*value).to_owned()).collect();
    Condition::matches(field, MatchValue::Keywords(RepeatedStrings { strings }))
}

#[tokio::test]
async fn a_chunk_goes_as_a_point_with_named_vectors() {
    let (double, store) = started().await;
    let mut whole = at(Level::Sentence, chunk("d", 7, "A café."));
    whole.heading = Some("Birds".to_owned());
    whole.page = Some(2);
    whole.parent = Some("d-0".to_owned());
    let whole = Point::new(whole)
        .dense(vec![0.6, 0.8])
        .tokens(vec![vec![1.0, 0.0], vec![0.0, 1.0]]);
    store.upsert(vec![whole]).await.unwrap();
    let payload = serde_json::json!({
        "id": "d-L37", "document_id": "d", "document_name": "d.md", "heading": "Birds", "page": 2, "level": "L3",
        "parent": "d-0", "ordinal": 7, "text": "A café.",
    });
    let wanted = PointStruct {
        // printf d-L37 | sha256sum
        id: Some("2e981151-c45e-8a84-84cc-51f8bdfb9bab".into()),
        payload: Payload::try_from(payload).unwrap().into(),
        vectors: Some(
            NamedVectors {
                vectors: [
                    named("words", vector::Vector::Document(text_of("Birds\nA café."))),
                    named(
                        "dense",
                        vector::Vector::Dense(DenseVector { data: vec![0.6, 0.8] }),
                    ),
                    named(
                        "tokens",
                        vector::Vector::MultiDense(vectors(&[[1.0, 0.0], [0.0, 1.0]])),
                    ),
                ]
                .into(),
            }
            .into(),
        ),
    };
    let upsert = UpsertPoints {
        collection_name: "papers".to_owned(),
        wait: Some(true),
        points: vec![wanted],
        ..UpsertPoints::default()
    };
    assert_eq!(double.messages::<UpsertPoints>("Points/Upsert"), [upsert]);

    // Without its vectors: what it had before goes first.
    store.upsert(vec![point("d", 0, "A stone.")]).await.unwrap();
    let methods = methods(&double);
    assert_eq!(methods, ["Points/Delete", "Points/Upsert"]);
    // An empty call asks for nothing, and a bad one neither.
    store.upsert(Vec::new()).await.unwrap();
    let bad = point("d", 1, "A stone.").dense(vec![1.0]);
    assert_eq!(
        store
            .upsert(vec![point("d", 0, "A hill."), bad])
            .await
            .unwrap_err()
            .code(),
        "bad_vector"
    );
    assert!(double.asked().is_empty());
}

#[tokio::test]
async fn many_chunks_go_in_requests_of_bounded_size() {
    let (double, store) = started().await;
    let full = |n, text: &str| {
        point("d", n, text)
            .dense(vec![1.0, 0.0])
            .tokens(vec![vec![1.0, 0.0]])
    };
    let sizes = |double: &Double| {
        let requests = double.messages::<UpsertPoints>("Points/Upsert");
        assert!(
            requests
                .iter()
                .all(|request| request.encoded_len() < 5 * 1024 * 1024)
        );
        requests
            .iter()
            .map(|request| request.points.len())
            .collect::<Vec<_>>()
    };
    store
        .upsert((0..600).map(|n| full(n, "A stone.")).collect())
        .await
        .unwrap();
    assert_eq!(sizes(&double), [256, 256, 88]);
    let large = "x".repeat(500_000);
    store
        .upsert((0..10).map(|n| full(n, &large)).collect())
        .await
        .unwrap();
    assert_eq!(sizes(&double), [4, 4, 2]);
}

#[tokio::test]
async fn a_search_goes_as_one_request() {
    let (double, store) = started().await;
    let near = |input| Query {
        variant: Some(query::Variant::Nearest(VectorInput { variant: Some(input) })),
    };
    let words = || near(vector_input::Variant::Document(text_of("wren")));
    let dense = || near(vector_input::Variant::Dense(DenseVector { data: vec![0.6, 0.8] }));
    let tokens = || near(vector_input::Variant::MultiDense(vectors(&[[0.0, 1.0]])));
    let filter = || Conditions::must([one_of("level", &["L2"]), one_of("document_id", &["d", "e"])]);
    let own = || Filter::level(Level::Passage).document("d").document("e");
    let half = |using: &str, query, filter, limit| PrefetchQuery {
        query: Some(query),
        using: Some(using.to_owned()),
        filter,
        limit: Some(limit),
        ..PrefetchQuery::default()
    };
    // Qdrant counts ranks from 0, so 61 is the paper's 60.
    let rrf = || Query {
        variant: Some(query::Variant::Rrf(Rrf {
            k: Some(61),
            weights: Vec::new(),
        })),
    };
    let request = |query| QueryPoints {
        collection_name: "papers".to_owned(),
        query: Some(query),
        limit: Some(5),
        with_payload: Some(WithPayloadSelector {
            selector_options: Some(with_payload_selector::SelectorOptions::Enable(true)),
        }),
        with_vectors: Some(WithVectorsSelector {
            selector_options: Some(with_vectors_selector::SelectorOptions::Enable(false)),
        }),
        ..QueryPoints::default()
    };
    let vector = || vec![0.6, 0.8];
    for (search, wanted) in [
        (
            Search::text("wren", 5),
            QueryPoints {
                using: Some("words".to_owned()),
                ..request(words())
            },
        ),
        (
            Search::dense(vector(), 5).filter(own()),
            QueryPoints {
                using: Some("dense".to_owned()),
                filter: Some(filter()),
                ..request(dense())
            },
        ),
        (
            Search::hybrid("wren", vector(), 5).filter(own()),
            QueryPoints {
                prefetch: vec![
                    half("words", words(), Some(filter()), 20),
                    half("dense", dense(), Some(filter()), 20),
                ],
                ..request(rrf())
            },
        ),
        (
            Search::text("wren", 5).tokens(vec![vec![0.0, 1.0]]).filter(own()),
            QueryPoints {
                prefetch: vec![half("words", words(), Some(filter()), 20)],
                using: Some("tokens".to_owned()),
                ..request(tokens())
            },
        ),
        (
            Search::hybrid("wren", vector(), 5).tokens(vec![vec![0.0, 1.0]]),
            QueryPoints {
                prefetch: vec![PrefetchQuery {
                    prefetch: vec![half("words", words(), None, 20), half("dense", dense(), None, 20)],
                    query: Some(rrf()),
                    limit: Some(40),
                    ..PrefetchQuery::default()
                }],
                using: Some("tokens".to_owned()),
                ..request(tokens())
            },
        ),
    ] {
        assert_eq!(store.search(search).await.unwrap(), []);
        assert_eq!(double.messages::<QueryPoints>("Points/Query"), [wanted]);
    }
    assert_eq!(store.search(Search::text("wren", 0)).await.unwrap(), []);
    assert_eq!(
        store.search(Search::text(" ", 5)).await.unwrap_err().code(),
        "bad_search"
    );
    assert!(double.asked().is_empty());
}

#[tokio::test]
async fn answers_are_hits_ids_and_numbers() {
    let (double, store) = started().await;
    let scored = |chunk: &Chunk, score| ScoredPoint {
        payload: Payload::try_from(serde_json::to_value(chunk).unwrap())
            .unwrap()
            .into(),
        score,
        ..ScoredPoint::default()
    };
    let (a, b, c) = (
        chunk("a", 0, "One."),
        at(Level::Section, chunk("b", u32::MAX, "Two.")),
        chunk("c", 1, ""),
    );
    let found = QueryResponse {
        result: vec![scored(&c, 0.5), scored(&b, 0.5), scored(&a, 0.75)],
        ..QueryResponse::default()
    };
    double.next("Points/Query", [Reply::Message(found.encode_to_vec())]);
    let hits = store.search(Search::text("one", 5)).await.unwrap();
    assert_eq!(hits, [Hit::new(a, 0.75), Hit::new(b, 0.5), Hit::new(c, 0.5)]);
    // Of somebody else's making.
    let odd = QueryResponse {
        result: vec![ScoredPoint::default()],
        ..QueryResponse::default()
    };
    double.next("Points/Query", [Reply::Message(odd.encode_to_vec())]);
    assert_eq!(
        store.search(Search::text("one", 5)).await.unwrap_err().code(),
        "store_failed"
    );

    let value = |id: &str, count| FacetHit {
        value: Some(FacetValue {
            variant: Some(facet_value::Variant::StringValue(id.to_owned())),
        }),
        count,
    };
    let listed = FacetResponse {
        hits: vec![value("b", 2), value("a", 1), value("gone", 0)],
        ..FacetResponse::default()
    };
    double.next("Points/Facet", [Reply::Message(listed.encode_to_vec())]);
    assert_eq!(
        store.documents().await.unwrap(),
        ["a", "b"].map(str::to_owned).into()
    );
    double.asked();
    store.documents().await.unwrap();
    let wanted = FacetCounts {
        collection_name: "papers".to_owned(),
        key: "document_id".to_owned(),
        limit: Some(10_000_000),
        exact: Some(true),
        ..FacetCounts::default()
    };
    assert_eq!(double.messages::<FacetCounts>("Points/Facet"), [wanted]);

    let counted = CountResponse {
        result: Some(CountResult { count: 7 }),
        ..CountResponse::default()
    };
    double.next("Points/Count", [Reply::Message(counted.encode_to_vec())]);
    assert_eq!(store.count(Filter::default().document("d")).await.unwrap(), 7);
    let wanted = CountPoints {
        collection_name: "papers".to_owned(),
        filter: Some(Conditions::must([one_of("document_id", &["d"])])),
        exact: Some(true),
        ..CountPoints::default()
    };
    assert_eq!(double.messages::<CountPoints>("Points/Count"), [wanted]);

    store.remove_document("d").await.unwrap();
    let wanted = DeletePoints {
        collection_name: "papers".to_owned(),
        wait: Some(true),
        points: Some(Conditions::must([one_of("document_id", &["d"])]).into()),
        ..DeletePoints::default()
    };
    assert_eq!(double.messages::<DeletePoints>("Points/Delete"), [wanted]);
    // Nonsense instead of a message.
    double.always("Points/Count", Reply::Message(vec![0xff; 20]));
    assert_eq!(
        store.count(Filter::default()).await.unwrap_err().code(),
        "store_failed"
    );
}

/// An error with all that stands behind it, as a log shows it.
fn all_of(error: &StoreError) -> String {
    let mut all = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        all += &format!("\n{error} {error:?}");
        source = error.source();
    }
    all
}

#[tokio::test]
async fn every_status_is_an_error_with_a_code() {
    let (double, store) = started().await;
    store.ready().await.unwrap();
    double.asked();
    let (failed, away) = ("store_failed", "store_unavailable");
    // How often it was sent: three times where that may help, and twice each where the client in use has its own mind.
    for (status, code, sent) in [
        (1, away, 6),
        (2, failed, 2),
        (3, failed, 1),
        (4, away, 1),
        (6, failed, 1),
        (7, failed, 1),
        (8, away, 3),
        (9, failed, 1),
        (10, away, 3),
        (11, failed, 1),
        (12, failed, 1),
        (13, failed, 2),
        (14, away, 6),
        (15, failed, 1),
        (16, failed, 1),
    ] {
        for method in [
            "Points/Query",
            "Points/Upsert",
            "Points/Delete",
            "Points/Facet",
            "Points/Count",
        ] {
            double.always(method, Reply::Status(status));
        }
        let full = point("d", 0, "A stone.")
            .dense(vec![1.0, 0.0])
            .tokens(vec![vec![1.0, 0.0]]);
        let answers = tokio::join!(
            async { store.search(Search::text("x", 5)).await.unwrap_err() },
            async { store.upsert(vec![full]).await.unwrap_err() },
            async { store.remove_document("d").await.unwrap_err() },
            async { store.documents().await.unwrap_err() },
            async { store.count(Filter::default()).await.unwrap_err() },
        );
        for error in [answers.0, answers.1, answers.2, answers.3, answers.4] {
            assert_eq!(error.code(), code, "{status}: {error:?}");
            assert!(
                all_of(&error).contains("as told") && !all_of(&error).contains(KEY),
                "{error:?}"
            );
        }
        assert_eq!(methods(&double).len(), 5 * sent, "{status}");
    }
}

#[tokio::test]
async fn what_passes_is_waited_for() {
    let (double, store) = started().await;
    store.ready().await.unwrap();
    for passing in [
        vec![Reply::Status(14); 3],
        vec![Reply::Status(8), Reply::Status(10)],
        vec![Reply::Busy(0), Reply::Busy(0)],
        vec![Reply::Cut],
        vec![Reply::Cut, Reply::Cut, Reply::Status(14), Reply::Cut],
    ] {
        double.next("Points/Count", passing.clone());
        assert_eq!(store.count(Filter::default()).await.unwrap(), 0, "{passing:?}");
    }
    // While the collection is made as well.
    let (double, store) = started().await;
    double.next("Collections/Get", [Reply::Status(14), Reply::Cut]);
    double.next("Collections/Create", [Reply::Cut]);
    double.next("Points/CreateFieldIndex", [Reply::Status(14)]);
    store.ready().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let nobody =
        QdrantStore::new(options(&format!("http://{address}")).timeout(Duration::from_millis(300))).unwrap();
    // It takes connections and says nothing, ever.
    let begun = Instant::now();
    let error = nobody.count(Filter::default()).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable", "{error:?}");
    // Nobody listens.
    drop(listener);
    let error = nobody.count(Filter::default()).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable", "{error:?}");
    assert!(!all_of(&error).contains(KEY));
    assert!(begun.elapsed() < Duration::from_secs(20));

    // It answers others, but not this one; and then it does.
    let double = Double::start().await;
    let store = QdrantStore::new(options(&double.url).timeout(Duration::from_millis(500))).unwrap();
    store.ready().await.unwrap();
    double.always("Points/Query", Reply::Hang);
    let error = store.search(Search::text("x", 5)).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable", "{error:?}");
    assert_eq!(store.count(Filter::default()).await.unwrap(), 0);

    double.always("Points/Query", Reply::Cut);
    let error = store.search(Search::text("x", 5)).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable", "{error:?}");
    assert_eq!(store.count(Filter::default()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_bad_address_or_key_is_refused_at_once_and_the_key_never_shown() {
    for (url, wanted) in [
        ("", "the address of Qdrant begins with http:// or https://"),
        (
            "localhost:6334",
            "the address of Qdrant begins with http:// or https://",
        ),
        (
            "ftp://localhost",
            "the address of Qdrant begins with http:// or https://",
        ),
        ("http://", "the address of Qdrant is none"),
        ("http://a b", "the address of Qdrant is none"),
        (
            "https://me:pass@host:6334",
            "the address of Qdrant holds a user; give the key as an option",
        ),
    ] {
        let error = QdrantStore::new(options(url)).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!((error.code(), source.as_str()), ("store_failed", wanted), "{url}");
        assert!(!all_of(&error).contains("pass"));
    }
    for key in ["line\nfeed", "ünïcode", "with space"] {
        let error = QdrantStore::new(options("http://localhost").api_key(Some(key.to_owned()))).unwrap_err();
        assert!(!all_of(&error).contains(key));
    }
    let store = QdrantStore::new(options("http://localhost")).unwrap();
    let shown = format!("{store:?} {store:#?} {:?}", options("http://localhost"));
    assert!(shown.contains("papers") && !shown.contains(KEY), "{shown}");
}
