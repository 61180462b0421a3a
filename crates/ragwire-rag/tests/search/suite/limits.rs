//! The behaviour of every store at its limits: too much input, nonsense, hostile text, many calls
//! at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ragwire_rag::search::store::{Filter, Point, Search, StoreError};

use super::{Any, X, Y, set};
use crate::points::{Numbers, assert_first, by_cosine, chunk, chunks, find, find_ids, ids, point};

/// The most hits that one search returns.
const MAX_HITS: usize = 1_000;

pub(crate) async fn results_are_limited(store: Any) {
    assert_eq!(
        find(&*store, Search::text("stone", 3)).await,
        [],
        "an empty store"
    );
    let count = MAX_HITS as u32 + 50;
    let points = (0..count).map(|n| point("d", n, "A stone.").dense(X.to_vec()));
    store.upsert(points.collect()).await.unwrap();
    for (limit, wanted) in [
        (0, 0),
        (1, 1),
        (999, 999),
        (1_000, 1_000),
        (1_001, 1_000),
        (usize::MAX, 1_000),
    ] {
        for search in [
            Search::text("stone", limit),
            Search::dense(X.to_vec(), limit),
            Search::hybrid("stone", X.to_vec(), limit),
        ] {
            let found = find_ids(&*store, search).await;
            assert_eq!(found.len(), wanted);
            assert_eq!(
                found.into_iter().collect::<BTreeSet<_>>().len(),
                wanted,
                "each once"
            );
        }
    }
    // Rejected even though no hits are wanted.
    assert_eq!(
        store.search(Search::text("", 0)).await.unwrap_err().code(),
        "bad_search"
    );
}

pub(crate) async fn bad_vectors_are_rejected_before_anything_changes(store: Any) {
    store
        .upsert(vec![point("d", 0, "A stone.").dense(X.to_vec())])
        .await
        .unwrap();
    let nan = || vec![0.0, f32::NAN, 0.0, 0.0];
    for (bad, found) in [
        (vec![1.0, 0.0, 0.0], 3),
        (vec![0.0; 5], 5),
        (Vec::new(), 0),
        (nan(), 0),
        (vec![f32::INFINITY, 0.0, 0.0, 0.0], 0),
        (vec![0.0, 0.0, 0.0, f32::NEG_INFINITY], 0),
    ] {
        let replaced = point("d", 0, "A hill.").dense(Y.to_vec());
        for last in [
            point("d", 1, "A hill.").dense(bad.clone()),
            point("d", 1, "A hill.").tokens(vec![X.to_vec(), bad.clone()]),
        ] {
            let refused = store.upsert(vec![replaced.clone(), last]).await.unwrap_err();
            let wanted = format!("a vector has {found} finite dimensions, but the store expects 4");
            assert_eq!((refused.code(), refused.to_string()), ("bad_vector", wanted));
        }
        for search in [
            Search::dense(bad.clone(), 3),
            Search::hybrid("stone", bad.clone(), 3),
            Search::text("stone", 3).tokens(vec![bad.clone()]),
        ] {
            assert_eq!(store.search(search).await.unwrap_err().code(), "bad_vector");
        }
    }
    assert_eq!(store.count(Filter::default()).await.unwrap(), 1);
    assert_eq!(find(&*store, Search::text("hill", 3)).await, []);
    assert_eq!(find_ids(&*store, Search::text("stone", 3)).await, ["d-0"]);

    // A vector with almost no direction is not an error: its cosine is a number.
    let odd = [
        [0.0; 4],
        [f32::MAX, f32::MAX, 0.0, 0.0],
        [f32::MIN_POSITIVE, 0.0, 0.0, 0.0],
    ];
    let points = (1u32..)
        .zip(odd)
        .map(|(n, odd)| point("d", n, "Odd.").dense(odd.to_vec()));
    store.upsert(points.collect()).await.unwrap();
    assert_eq!(find(&*store, Search::dense(X.to_vec(), 10)).await.len(), 4);
    assert_eq!(find(&*store, Search::dense(vec![0.0; 4], 10)).await.len(), 4);
}

pub(crate) async fn vectors_that_a_store_does_not_keep_are_rejected(store: Any) {
    for point in [
        point("d", 0, "A stone.").dense(X.to_vec()),
        point("d", 0, "A stone.").tokens(vec![X.to_vec()]),
    ] {
        let refused = store.upsert(vec![point]).await.unwrap_err();
        assert!(
            matches!(refused, StoreError::BadVector { found: 4, wanted: 0 }),
            "{refused:?}"
        );
    }
    for (search, wanted) in [
        (Search::dense(X.to_vec(), 3), "the store does not keep vectors"),
        (
            Search::hybrid("stone", X.to_vec(), 3),
            "the store does not keep vectors",
        ),
        (
            Search::text("stone", 3).tokens(vec![X.to_vec()]),
            "the store does not keep token vectors",
        ),
    ] {
        let refused = store.search(search).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("invalid search: {wanted}"));
    }
    assert_eq!(store.count(Filter::default()).await.unwrap(), 0);
}

pub(crate) async fn a_search_for_nothing_is_rejected(store: Any) {
    store
        .upsert(vec![point("d", 0, "A stone.").tokens(vec![X.to_vec()])])
        .await
        .unwrap();
    let mut nothing = Search::text("x", 3);
    nothing.text = None;
    for search in [
        Search::text("", 3),
        Search::text(" \u{3000}\r\n", 3),
        nothing.clone(),
        nothing.tokens(vec![X.to_vec()]),
    ] {
        let refused = store.search(search).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "invalid search: it contains neither words nor a vector"
        );
    }
}

pub(crate) async fn hostile_texts_and_ids_are_returned_unchanged(store: Any) {
    let long = "ä".repeat(4_000);
    let documents = [
        "plain",
        "",
        " ",
        "quote\" ' \\ ; drop",
        "../../etc/passwd",
        "line\nfeed\r\0\u{1d}\u{1e}\u{2028}",
        "ünïcödé \u{202e}\u{1F9D1}\u{200D}\u{1F680} 中文 العربية",
        "{\"must\":[]}",
        "e\u{301}",
        "\u{e9}",
        long.as_str(),
    ];
    let texts = [
        String::new(),
        "\0\u{1d}\u{1e}\u{7f}\u{feff}".to_owned(),
        "naïve café \u{1F600} 日本語のテキスト — e\u{301} İstanbul ǅ \u{10FFFF}".to_owned(),
        "the of and".to_owned(),
        "many ".repeat(50_000),
        "x".repeat(300_000),
        (0..20_000).map(|n| format!("w{n} ")).collect(),
        "{\"$ref\": \"\\u0000\"}".to_owned(),
    ];
    let mut points = Vec::new();
    for (n, document) in (0u32..).zip(documents) {
        let mut chunk = chunk(document, u32::MAX - n, &texts[n as usize % texts.len()]);
        chunk.document_name = format!("{document}\u{0}.pdf");
        chunk.heading = Some(document.to_owned());
        chunk.page = Some(u32::MAX - 1);
        chunk.last_page = Some(u32::MAX);
        chunk.parent = Some(String::new());
        points.push(Point::new(chunk).dense(vec![1.0, n as f32, 0.0, 0.0]));
    }
    let wanted: Vec<_> = points.iter().map(|point| point.chunk.clone()).collect();
    store.upsert(points).await.unwrap();
    assert_eq!(store.documents().await.unwrap(), set(&documents));
    let found = store.search(Search::dense(X.to_vec(), 100)).await.unwrap();
    assert_eq!(chunks(found), wanted);
    for (document, wanted) in documents.iter().zip(&wanted) {
        let own = Filter::default().document(*document);
        let found = store
            .search(Search::dense(X.to_vec(), 100).filter(own.clone()))
            .await
            .unwrap();
        assert_eq!(chunks(found), std::slice::from_ref(wanted), "{document:?}");
        assert_eq!(store.count(own).await.unwrap(), 1, "{document:?}");
    }
    for text in documents.iter().map(|id| (*id).to_owned()).chain(texts) {
        // Whatever it finds, it is either a search like any other or an empty one.
        let blank = text.trim().is_empty();
        let answer = store.search(Search::text(text, 5)).await;
        assert_eq!(answer.is_err(), blank);
    }
    for document in documents {
        store.remove_document(document).await.unwrap();
        assert!(
            !store.documents().await.unwrap().contains(document),
            "{document:?}"
        );
    }
    assert_eq!(store.count(Filter::default()).await.unwrap(), 0);
}

pub(crate) async fn a_cancelled_call_has_no_later_effect(store: Any) {
    for round in 0..20u64 {
        let points = (0..400).map(|n| point("d", n, "A stone.").dense(X.to_vec()));
        let put = store.upsert(points.collect());
        let _ = tokio::time::timeout(Duration::from_micros(100 * round), put).await;
        // Whatever it stored, it has ended: a chunk removed now stays removed.
        store.remove_document("d").await.unwrap();
        assert_eq!(store.count(Filter::default()).await.unwrap(), 0, "at once");
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(store.count(Filter::default()).await.unwrap(), 0, "and later");
    }
}

pub(crate) async fn readers_continue_during_writes(store: Any) {
    const ROUNDS: u32 = 12;
    let over = Arc::new(AtomicBool::new(false));
    let text = |n: u32| format!("A wren of chunk number{n} sings.");
    let steady: Vec<_> = (0..20)
        .map(|n| point("steady", n, &text(n)).dense(Y.to_vec()))
        .collect();
    store.upsert(steady).await.unwrap();
    let mut readers = tokio::task::JoinSet::new();
    for reader in 0..3 {
        let (store, over) = (Arc::clone(&store), Arc::clone(&over));
        readers.spawn(async move {
            let mut searches = 0;
            while !over.load(Ordering::SeqCst) {
                let search = match reader {
                    0 => Search::text("wren", 500),
                    1 => Search::dense(Y.to_vec(), 500),
                    _ => Search::hybrid("wren", Y.to_vec(), 500),
                };
                let hits = store.search(search).await.unwrap();
                // The existing chunks are always found, and no chunk is mixed with another.
                let steady = hits.iter().filter(|hit| hit.chunk.document_id == "steady");
                assert_eq!(steady.count(), 20);
                for hit in hits {
                    assert_eq!(hit.chunk.text, text(hit.chunk.ordinal));
                    assert_eq!(
                        hit.chunk.id,
                        format!("{}-{}", hit.chunk.document_id, hit.chunk.ordinal)
                    );
                }
                let some = Filter::default().document("steady");
                assert_eq!(store.count(some).await.unwrap(), 20);
                assert!(store.documents().await.unwrap().contains("steady"));
                searches += 1;
            }
            searches
        });
    }
    for round in 0..ROUNDS {
        let document = format!("d{round}");
        let points = (0..30).map(|n| point(&document, n, &text(n)).dense(X.to_vec()));
        store.upsert(points.collect()).await.unwrap();
        // A search sees every call that returned before it began.
        let own = Filter::default().document(&document);
        assert_eq!(
            find(&*store, Search::text("wren", 100).filter(own)).await.len(),
            30
        );
        if round % 2 == 0 {
            store.remove_document(&document).await.unwrap();
            assert!(!store.documents().await.unwrap().contains(&document));
        }
    }
    over.store(true, Ordering::SeqCst);
    for searches in readers.join_all().await {
        assert!(searches > 0);
    }
    assert_eq!(
        store.count(Filter::default()).await.unwrap(),
        20 + u64::from(ROUNDS) / 2 * 30
    );
}

pub(crate) async fn five_thousand_chunks(store: Any) {
    const COUNT: u32 = 5_000;
    const PER_DOCUMENT: u32 = 100;
    let mut numbers = Numbers::new(4);
    let document = |n: u32| format!("d{}", n / PER_DOCUMENT);
    let all: Vec<Point> = (0..COUNT)
        .map(|n| {
            let ordinal = n % PER_DOCUMENT;
            let text = format!(
                "Only number{n} is here, in group{}, of document {}.",
                n % 500,
                document(n)
            );
            point(&document(n), ordinal, &text).dense(numbers.vector(32))
        })
        .collect();
    for points in all.chunks(1_000) {
        store.upsert(points.to_vec()).await.unwrap();
    }
    let check = async |all: &[Point], numbers: &mut Numbers| {
        assert_eq!(store.count(Filter::default()).await.unwrap(), all.len() as u64);
        for _ in 0..10 {
            let query = numbers.vector(32);
            let wanted = by_cosine(all, &query);
            let found = find(&*store, Search::dense(query.clone(), 20)).await;
            assert_eq!(ids(&found), ids(&wanted)[..20]);
            assert_first(&found, &wanted, 20);

            let one = &all[numbers.below(all.len() as u64) as usize].chunk;
            let word = one.text.split_whitespace().nth(1).unwrap();
            assert_eq!(find_ids(&*store, Search::text(word, 20)).await, [one.id.as_str()]);
            let own = Filter::default().document(&one.document_id);
            let theirs: Vec<_> = all
                .iter()
                .filter(|point| point.chunk.document_id == one.document_id)
                .cloned()
                .collect();
            let found = find(&*store, Search::dense(query.clone(), 30).filter(own)).await;
            assert_first(&found, &by_cosine(&theirs, &query), 30);
        }
    };
    check(&all, &mut numbers).await;
    let wanted: BTreeSet<String> = (0..COUNT).map(document).collect();
    assert_eq!(store.documents().await.unwrap(), wanted);
    let group = find_ids(&*store, Search::text("group77", 100)).await;
    assert_eq!(group.len(), 10);

    // Every second document is removed, and the rest is as if they had never been there.
    for n in (0..COUNT / PER_DOCUMENT).step_by(2) {
        store.remove_document(&format!("d{n}")).await.unwrap();
    }
    let left: Vec<Point> = all
        .into_iter()
        .filter(|point| point.chunk.document_id[1..].parse::<u32>().unwrap() % 2 == 1)
        .collect();
    check(&left, &mut numbers).await;
}
