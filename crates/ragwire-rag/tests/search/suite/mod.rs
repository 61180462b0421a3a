//! The behaviour that every store has in common: chunks are added, found and removed.

mod limits;

pub(crate) use limits::*;

use std::collections::BTreeSet;
use std::sync::Arc;

use ragwire_rag::Level;
use ragwire_rag::models::max_sim;
use ragwire_rag::search::store::{Filter, Point, Search, Store};

use crate::points::{
    Numbers, assert_first, at, by_cosine, by_rank, chunk, chunks, find, find_ids, ids, point,
};

/// Candidates that each half of a hybrid search contributes per requested hit.
const CANDIDATES_PER_HIT: usize = 4;

type Any = Arc<dyn Store>;

const X: [f32; 4] = [1.0, 0.0, 0.0, 0.0];
const Y: [f32; 4] = [0.0, 1.0, 0.0, 0.0];
const Z: [f32; 4] = [0.0, 0.0, 1.0, 0.0];

fn documents(filter: Filter, ids: &[&str]) -> Filter {
    ids.iter().fold(filter, |filter, id| filter.document(*id))
}

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

pub(crate) async fn a_chunk_with_the_same_id_is_replaced(store: Any) {
    let none: [&str; 0] = [];
    let words = |text: &str| Search::text(text, 10);
    let old = point("d", 0, "An apple pie.").dense(X.to_vec());
    let other = point("d", 1, "A pear tree.").dense(Y.to_vec());
    store.upsert(vec![old.clone(), other.clone()]).await.unwrap();
    assert_eq!(find_ids(&*store, words("apple")).await, ["d-0"]);

    let mut new = chunk("d", 0, "A plum cake.");
    new.heading = Some("Baking > Fruit".to_owned());
    new.page = Some(3);
    let new = Point::new(new).dense(Z.to_vec());
    // A point replaced within the same call is never seen.
    let between = point("d", 0, "A melon.").dense(Y.to_vec());
    store.upsert(vec![between, new.clone()]).await.unwrap();
    for word in ["apple", "melon"] {
        assert_eq!(find_ids(&*store, words(word)).await, none, "{word}");
    }
    for text in ["plum", "baking"] {
        let hits = store.search(words(text)).await.unwrap();
        assert_eq!(chunks(hits), std::slice::from_ref(&new.chunk), "{text}");
    }
    let near = find(&*store, Search::dense(Z.to_vec(), 10)).await;
    assert_first(&near, &by_cosine(&[other.clone(), new.clone()], &Z), 10);

    // Without its vector it is found only by its words.
    store.upsert(vec![Point::new(new.chunk.clone())]).await.unwrap();
    assert_eq!(find_ids(&*store, Search::dense(Z.to_vec(), 10)).await, ["d-1"]);
    assert_eq!(find_ids(&*store, words("plum")).await, ["d-0"]);
    // Repeating the call changes nothing.
    store.upsert(vec![new.clone(), other]).await.unwrap();
    store.upsert(vec![new]).await.unwrap();
    store.upsert(Vec::new()).await.unwrap();
    assert_eq!(store.count(Filter::default()).await.unwrap(), 2);
    assert_eq!(store.documents().await.unwrap(), set(&["d"]));
}

pub(crate) async fn words_match_stems_and_headings_and_rare_words_rank_first(store: Any) {
    let none: [&str; 0] = [];
    let mut headed = chunk("birds", 3, "They build nests in hedges, walls and old sheds.");
    headed.heading = Some("Birds > Sparrows".to_owned());
    store
        .upsert(vec![
            point(
                "birds",
                0,
                "The robin sings, the robin feeds and the robin nests.",
            ),
            point(
                "birds",
                1,
                "The robin sings, the thrush feeds and the wren nests.",
            ),
            point(
                "birds",
                2,
                "The finch sings, the finch feeds and the finch nests.",
            ),
            Point::new(headed),
        ])
        .await
        .unwrap();
    for (text, wanted) in [
        ("robin", vec!["birds-0", "birds-1"]),
        ("Which ROBINS are singing?", vec!["birds-0", "birds-1", "birds-2"]),
        ("sparrow", vec!["birds-3"]),
        ("hedge", vec!["birds-3"]),
        // A word in one chunk counts more than a word in three.
        ("the wren feeds", vec!["birds-1", "birds-0", "birds-2"]),
        ("zeppelin", vec![]),
        ("the", vec![]),
        ("?!", vec![]),
    ] {
        let found = find(&*store, Search::text(text, 10)).await;
        // Hits for a word that all chunks have may be in any order.
        let sure = wanted.len().min(2);
        assert_eq!(ids(&found)[..sure], wanted[..sure], "{text}");
        assert_eq!(
            ids(&found).into_iter().collect::<BTreeSet<_>>(),
            wanted.into_iter().collect(),
            "{text}"
        );
        assert!(found.iter().all(|(_, score)| *score > 0.0), "{text}");
        assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "{text}");
    }
    // Far longer than the part of a query that is read, and cut within a letter.
    let endless = format!("{}robin", "zeppelin \u{e4}".repeat(2_000));
    assert_eq!(find_ids(&*store, Search::text(endless, 10)).await, none);
}

pub(crate) async fn vectors_rank_by_cosine(store: Any) {
    let mut numbers = Numbers::new(1);
    let mut points: Vec<Point> = (0..60)
        .map(|n| point("d", n, "Some words.").dense(numbers.vector(4)))
        .collect();
    // None has length 1, and one is found only by its words.
    points[7].dense = Some(vec![30.0, 40.0, 0.0, 0.0]);
    points[8].dense = None;
    let query = vec![0.3, 0.4, 0.0, 0.0];
    points[9].dense = Some(query.iter().map(|value| -value).collect());
    store.upsert(points.clone()).await.unwrap();
    let wanted = by_cosine(&points, &query);
    assert_eq!((wanted[0].0.as_str(), wanted[58].0.as_str()), ("d-7", "d-9"));
    for limit in [1, 7, 59, 100] {
        let found = find(&*store, Search::dense(query.clone(), limit)).await;
        assert_eq!(ids(&found), ids(&wanted)[..limit.min(59)]);
        assert_first(&found, &wanted, limit);
    }
    // Blank words count as no words.
    let found = find(&*store, Search::hybrid(" \n\t", query, 59)).await;
    assert_first(&found, &wanted, 59);
}

pub(crate) async fn words_and_vectors_are_fused_by_rank(store: Any) {
    // Computed by hand: words rank a before b, the vector ranks b before c before a.
    let mut numbers = Numbers::new(2);
    let toward = |share: f32| {
        let mut vector = vec![0.0; 8];
        (vector[0], vector[1]) = (share, (1.0 - share * share).sqrt());
        vector
    };
    let pure = |name: &str, text: &str, share: f32| point(name, 0, text).dense(toward(share));
    store
        .upsert(vec![
            pure("a", "A wren is a wren is a wren.", 0.5),
            pure("b", "A wren is a bird is a song.", 0.9),
            pure("c", "A stone is a rock is a hill.", 0.8),
        ])
        .await
        .unwrap();
    let found = find(&*store, Search::hybrid("wren", toward(1.0), 10)).await;
    assert_eq!(ids(&found), ["b-0", "a-0", "c-0"]);
    let wanted = [1.0 / 62.0 + 1.0 / 61.0, 1.0 / 61.0 + 1.0 / 63.0, 1.0 / 62.0];
    for ((_, score), wanted) in found.iter().zip(wanted) {
        assert!((score - wanted).abs() < 1e-6, "{found:?}");
    }

    // Each half contributes four times the wanted hits and no more.
    let few = ["ant", "bee", "cat", "dog", "elk", "fox"];
    let points: Vec<Point> = (0..300)
        .map(|n| {
            // A different length for each, so that no two have the same score.
            let text = format!(
                "{} {}",
                few[numbers.below(6) as usize],
                "stone ".repeat(n as usize + 1)
            );
            point("many", n, &text).dense(numbers.vector(8))
        })
        .collect();
    store.upsert(points).await.unwrap();
    for limit in [1, 5, 20] {
        let (text, vector) = ("ant elk", numbers.vector(8));
        let candidates = limit * CANDIDATES_PER_HIT;
        let words = find_ids(&*store, Search::text(text, candidates)).await;
        let near = find_ids(&*store, Search::dense(vector.clone(), candidates)).await;
        assert_eq!((words.len(), near.len()), (candidates, candidates));
        let found = find(&*store, Search::hybrid(text, vector, limit)).await;
        assert_first(&found, &by_rank([&words, &near]), limit);
    }
}

pub(crate) async fn token_vectors_decide_the_order(store: Any) {
    let mut numbers = Numbers::new(3);
    let mut points: Vec<Point> = (0..40)
        .map(|n| {
            let tokens = (0..=numbers.below(6)).map(|_| numbers.vector(4)).collect();
            let text = format!("wren {}", "stone ".repeat(n as usize));
            point("d", n, &text).dense(numbers.vector(4)).tokens(tokens)
        })
        .collect();
    points[5].tokens = Vec::new();
    store.upsert(points.clone()).await.unwrap();
    let (query, vector): (Vec<_>, _) = ((0..3).map(|_| numbers.vector(4)).collect(), numbers.vector(4));
    let limit = 5;
    let candidates = limit * CANDIDATES_PER_HIT;
    let words = find_ids(&*store, Search::text("wren", candidates)).await;
    let near = find_ids(&*store, Search::dense(vector.clone(), candidates)).await;
    for (search, candidates) in [
        (Search::text("wren", limit), words.clone()),
        (Search::dense(vector.clone(), limit), near.clone()),
        (Search::hybrid("wren", vector, limit), [words, near].concat()),
    ] {
        let mut wanted: Vec<_> = points
            .iter()
            .filter(|point| candidates.contains(&point.chunk.id) && !point.tokens.is_empty())
            .map(|point| (point.chunk.id.clone(), max_sim(&query, &point.tokens)))
            .collect();
        wanted.sort_by(|a, b| b.1.total_cmp(&a.1));
        let found = find(&*store, search.tokens(query.clone())).await;
        assert_eq!(ids(&found), ids(&wanted)[..limit]);
        assert_first(&found, &wanted, limit);
    }
}

pub(crate) async fn only_filtered_chunks_are_returned(store: Any) {
    let levels = [Level::Section, Level::Passage, Level::Sentence];
    let mut points = Vec::new();
    for (share, document) in [(0.2, "a"), (0.5, "b"), (0.9, "c")] {
        for (share, level) in [
            (share, levels[0]),
            (share - 0.1, levels[1]),
            (share - 0.2, levels[2]),
        ] {
            let vector = vec![share, (1.0f32 - share * share).sqrt(), 0.0, 0.0];
            let chunk = at(level, chunk(document, 0, "The wren sings."));
            points.push(Point::new(chunk).dense(vector.clone()).tokens(vec![vector]));
        }
    }
    // A hundred chunks that match better but are filtered out: filtering happens before the best
    // are selected.
    for n in 0..100 {
        points.push(
            point("loud", n, "Wren! Wren! Wren!")
                .dense(X.to_vec())
                .tokens(vec![X.to_vec()]),
        );
    }
    store.upsert(points).await.unwrap();
    let abc = || documents(Filter::default(), &["a", "b", "c"]);
    let level = |level, ids: &[&str]| documents(Filter::level(level), ids);
    let mut upper = abc();
    upper.levels = vec![Level::Section, Level::Sentence];
    for (filter, wanted) in [
        (
            abc(),
            vec![
                "c-L10", "c-L20", "c-L30", "b-L10", "b-L20", "b-L30", "a-L10", "a-L20", "a-L30",
            ],
        ),
        (upper, vec!["c-L10", "c-L30", "b-L10", "b-L30", "a-L10", "a-L30"]),
        (level(Level::Section, &[]), vec!["c-L10", "b-L10", "a-L10"]),
        (level(Level::Sentence, &["b", "a"]), vec!["b-L30", "a-L30"]),
        (level(Level::Passage, &["b", "b"]), vec!["b-L20"]),
        (level(Level::Passage, &["nowhere", "b\u{0}"]), vec![]),
    ] {
        assert_eq!(
            store.count(filter.clone()).await.unwrap(),
            wanted.len() as u64,
            "{filter:?}"
        );
        let near = Search::dense(X.to_vec(), 20).filter(filter.clone());
        assert_eq!(find_ids(&*store, near).await, wanted, "{filter:?}");
        let ranked = Search::text("wren", 20)
            .tokens(vec![X.to_vec()])
            .filter(filter.clone());
        assert_eq!(find_ids(&*store, ranked).await, wanted, "{filter:?}");
        for search in [Search::text("wren", 20), Search::hybrid("wren", X.to_vec(), 20)] {
            let found = find(&*store, search.filter(filter.clone())).await;
            let found: BTreeSet<String> = found.into_iter().map(|(id, _)| id).collect();
            assert_eq!(found, set(&wanted), "{filter:?}");
        }
    }
    assert_eq!(store.count(Filter::default()).await.unwrap(), 109);
    assert_eq!(store.count(Filter::level(Level::Passage)).await.unwrap(), 103);
}

pub(crate) async fn a_document_is_removed_completely(store: Any) {
    // IDs that are prefixes of one another.
    let put = |document: &'static str| {
        let own = |n| point(document, n, "A stone.").dense(X.to_vec());
        store.upsert((0..3).map(own).collect())
    };
    for document in ["d", "d-0", "do", "D"] {
        put(document).await.unwrap();
    }
    let section = Point::new(at(Level::Section, chunk("d", 0, "A stone. A stone."))).dense(Y.to_vec());
    store.upsert(vec![section]).await.unwrap();
    assert_eq!(store.documents().await.unwrap(), set(&["d", "d-0", "do", "D"]));
    assert_eq!(store.count(Filter::default()).await.unwrap(), 13);

    for unknown in ["nowhere", "", "d"] {
        store.remove_document(unknown).await.unwrap();
    }
    assert_eq!(store.documents().await.unwrap(), set(&["d-0", "do", "D"]));
    assert_eq!(store.count(Filter::default()).await.unwrap(), 9);
    assert_eq!(store.count(Filter::default().document("d")).await.unwrap(), 0);
    for search in [Search::text("stone", 100), Search::dense(X.to_vec(), 100)] {
        let found = store.search(search).await.unwrap();
        assert_eq!(found.len(), 9);
        assert!(found.iter().all(|hit| hit.chunk.document_id != "d"));
    }

    put("d").await.unwrap();
    store.remove_document("d-0").await.unwrap();
    assert_eq!(store.documents().await.unwrap(), set(&["d", "do", "D"]));
    for document in ["d", "do", "D"] {
        store.remove_document(document).await.unwrap();
    }
    assert_eq!(store.documents().await.unwrap(), BTreeSet::new());
    assert_eq!(find(&*store, Search::text("stone", 100)).await, []);
}
