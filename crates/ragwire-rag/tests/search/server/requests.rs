//! Tests of the requests, message by message, and of the results made from the answers.

use prost::Message;
use qdrant_client::Payload;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::{
    Condition, CountPoints, CountResponse, CountResult, DeletePoints, DenseVector, Document, FacetCounts,
    FacetHit, FacetResponse, FacetValue, Filter as Conditions, MultiDenseVector, NamedVectors, PointStruct,
    PrefetchQuery, Query, QueryPoints, QueryResponse, RepeatedStrings, Rrf, ScoredPoint, UpsertPoints, Value,
    Vector, VectorInput, WithPayloadSelector, WithVectorsSelector, facet_value, query, vector, vector_input,
    with_payload_selector, with_vectors_selector,
};
use ragwire_rag::search::store::{Filter, Point, Search, Store};
use ragwire_rag::{Chunk, Hit, Level};

use super::{methods, started};
use crate::points::{at, chunk, point};
use ragwire_test_support::qdrant::{Double, Reply};

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
async fn a_chunk_is_sent_as_a_point_with_named_vectors() {
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
        // The output of `printf d-L37 | sha256sum`.
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

    // Without vectors: the old point is deleted first.
    store.upsert(vec![point("d", 0, "A stone.")]).await.unwrap();
    let methods = methods(&double);
    assert_eq!(methods, ["Points/Delete", "Points/Upsert"]);
    // An empty call sends nothing, and neither does an invalid one.
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
    assert!(double.take_requests().is_empty());
}

#[tokio::test]
async fn many_chunks_are_sent_in_requests_of_bounded_size() {
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
async fn a_search_is_one_request() {
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
    // Qdrant counts ranks from 0, so 61 corresponds to the paper's 60.
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
    assert!(double.take_requests().is_empty());
}

#[tokio::test]
async fn answers_become_hits_ids_and_counts() {
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
    // A point that this program did not write.
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
    double.take_requests();
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
    // Garbage instead of a message.
    double.always("Points/Count", Reply::Message(vec![0xff; 20]));
    assert_eq!(
        store.count(Filter::default()).await.unwrap_err().code(),
        "store_failed"
    );
}
