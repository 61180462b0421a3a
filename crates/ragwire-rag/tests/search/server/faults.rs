//! Tests of every failure on the way to a server and on the server: each has a code, none reveals
//! the key, and only requests that may succeed are repeated.

use std::time::{Duration, Instant};

use ragwire_rag::search::store::{Filter, QdrantStore, Search, Store};
use tokio::net::TcpListener;

use super::{KEY, all_of, methods, options, started};
use crate::points::point;
use ragwire_test_support::qdrant::{Double, Reply};

#[tokio::test]
async fn every_status_is_an_error_with_a_code() {
    let (double, store) = started().await;
    store.ready().await.unwrap();
    double.take_requests();
    let (failed, away) = ("store_failed", "store_unavailable");
    // How often the request is sent: three times if that may help, and twice as often where the
    // client itself repeats it.
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
                all_of(&error).contains("as prepared") && !all_of(&error).contains(KEY),
                "{error:?}"
            );
        }
        assert_eq!(methods(&double).len(), 5 * sent, "{status}");
    }
}

#[tokio::test]
async fn temporary_failures_are_retried() {
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
    // The same while the collection is created.
    let (double, store) = started().await;
    double.next("Collections/Get", [Reply::Status(14), Reply::Cut]);
    double.next("Collections/Create", [Reply::Cut]);
    double.next("Points/CreateFieldIndex", [Reply::Status(14)]);
    store.ready().await.unwrap();
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let nobody =
        QdrantStore::new(options(&format!("http://{address}")).timeout(Duration::from_millis(300))).unwrap();
    // The server accepts connections but never answers.
    let begun = Instant::now();
    let error = nobody.count(Filter::default()).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable", "{error:?}");
    // No server listens.
    drop(listener);
    let error = nobody.count(Filter::default()).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable", "{error:?}");
    assert!(!all_of(&error).contains(KEY));
    assert!(begun.elapsed() < Duration::from_secs(20));

    // The server answers other requests but not this one, and then it does.
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
async fn a_bad_address_or_key_is_rejected_at_once_and_the_key_never_shown() {
    for (url, wanted) in [
        ("", "the address of Qdrant must begin with http:// or https://"),
        (
            "localhost:6334",
            "the address of Qdrant must begin with http:// or https://",
        ),
        (
            "ftp://localhost",
            "the address of Qdrant must begin with http:// or https://",
        ),
        ("http://", "the address of Qdrant is invalid"),
        ("http://a b", "the address of Qdrant is invalid"),
        (
            "https://me:hunter2@host:6334",
            "the address of Qdrant contains a user; pass the key as an option",
        ),
    ] {
        let error = QdrantStore::new(options(url)).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!((error.code(), source.as_str()), ("store_failed", wanted), "{url}");
        assert!(!all_of(&error).contains("hunter2"));
    }
    for key in ["line\nfeed", "ünïcode", "with space"] {
        let error = QdrantStore::new(options("http://localhost").api_key(Some(key.to_owned()))).unwrap_err();
        assert!(!all_of(&error).contains(key));
    }
    let store = QdrantStore::new(options("http://localhost")).unwrap();
    let shown = format!("{store:?} {store:#?} {:?}", options("http://localhost"));
    assert!(shown.contains("papers") && !shown.contains(KEY), "{shown}");
}

#[tokio::test]
async fn a_removal_waits_for_an_addition_whose_caller_has_left() {
    let double = Double::start().await;
    let store = QdrantStore::new(options(&double.url).timeout(Duration::from_secs(2))).unwrap();
    store.ready().await.unwrap();
    double.always("Points/Upsert", Reply::Hang);
    let full = point("d", 0, "A stone.")
        .dense(vec![1.0, 0.0])
        .tokens(vec![vec![1.0, 0.0]]);
    let mut seen = Vec::new();
    {
        let mut addition = store.upsert(vec![full]);
        while !seen.iter().any(|method| method == "Points/Upsert") {
            let _ = tokio::time::timeout(Duration::from_millis(5), &mut addition).await;
            seen.extend(methods(&double));
        }
    }
    // The server may still carry out the addition: a removal before that would have no effect.
    let mut removal = store.remove_document("d");
    let waited = tokio::time::timeout(Duration::from_millis(100), &mut removal).await;
    assert!(waited.is_err(), "{waited:?}");
    assert_eq!(methods(&double), [""; 0]);
    removal.await.unwrap();
    assert_eq!(methods(&double), ["Points/Delete"]);
}
