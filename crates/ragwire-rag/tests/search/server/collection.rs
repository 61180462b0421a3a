//! Tests of the collection: created if it does not exist, checked if it does, created again if it
//! disappears.

use std::collections::HashMap;

use prost::Message;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CollectionOperationResponse, CreateCollection, CreateFieldIndexCollection, Distance, FieldType, Value,
    VectorParams, VectorsConfig,
};
use ragwire_rag::search::store::{Filter, QdrantStore, Store};

use super::{KEY, collection, methods, options, started};
use ragwire_test_support::qdrant::Reply;

#[tokio::test]
async fn the_first_call_creates_the_collection() {
    let (double, store) = started().await;
    assert!(
        double.take_requests().is_empty(),
        "nothing is sent before the first call"
    );
    store.count(Filter::default()).await.unwrap();
    let request = double.take_requests();
    assert!(request.iter().all(|request| request.headers["api-key"] == KEY));
    let first: Vec<_> = request.iter().map(|request| request.method.as_str()).collect();
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
    for (request, name) in request[3..5].iter().zip(["document_id", "level"]) {
        let index = CreateFieldIndexCollection {
            collection_name: "papers".to_owned(),
            wait: Some(true),
            field_name: name.to_owned(),
            field_type: Some(FieldType::Keyword.into()),
            ..CreateFieldIndexCollection::default()
        };
        assert_eq!(
            CreateFieldIndexCollection::decode(request.message.clone()).unwrap(),
            index
        );
    }
    // Created once, even by concurrent calls.
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
async fn another_process_may_create_the_collection_first() {
    let (double, store) = started().await;
    // Missing when checked, existing when created.
    double.holds(Some(collection()));
    double.next("Collections/Get", [Reply::Status(5)]);
    store.ready().await.unwrap();
    // Created, but the answer was lost.
    let (double, store) = started().await;
    double.next(
        "Collections/Create",
        [Reply::Message(
            CollectionOperationResponse::default().encode_to_vec(),
        )],
    );
    assert_eq!(store.ready().await.unwrap_err().code(), "store_failed");
    store.ready().await.unwrap();
    // Deleted later: the next call creates it again.
    double.holds(None);
    double.next("Points/Count", [Reply::Status(5)]);
    assert_eq!(
        store.count(Filter::default()).await.unwrap_err().code(),
        "store_failed"
    );
    assert_eq!(store.count(Filter::default()).await.unwrap(), 0);
    assert_eq!(double.collection().unwrap(), collection());
}

type Change = fn(&mut CreateCollection);

#[tokio::test]
async fn a_collection_with_other_options_is_rejected() {
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
    let cases: [(Change, &str); 6] = [
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
            format!("the store was made for other vectors: {found}, expected {wanted}")
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
        "the store was made for other vectors: embedder maxi, expected mini"
    );
    // A server that does not keep metadata.
    other.metadata.clear();
    double.holds(Some(other));
    store.ready().await.unwrap();
}
