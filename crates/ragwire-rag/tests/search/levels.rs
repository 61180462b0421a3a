//! Tests that word statistics of one level do not affect the others, in memory.

use ragwire_rag::Level;
use ragwire_rag::search::store::{Filter, MemoryStore, Point, Search, Store, Vectors};

use crate::points::{at, chunk, find, point};

#[tokio::test]
async fn levels_do_not_affect_one_another() {
    let store = MemoryStore::new(Vectors::NONE);
    let passages = ["The wren sings.", "The wren nests.", "The robin sings at dawn."];
    let passages = (0u32..).zip(passages).map(|(n, text)| point("d", n, text));
    store.upsert(passages.collect()).await.unwrap();
    let search = || Search::text("Does the wren sing at dawn?", 10).filter(Filter::level(Level::Passage));
    let before = find(&store, search()).await;
    assert_eq!(before.len(), 3);
    let others = (0..200).flat_map(|n| {
        let section = at(
            Level::Section,
            chunk("e", n, "Wren, wren, wren, and never a dawn."),
        );
        let sentence = at(Level::Sentence, chunk("e", n, "Dawn sings."));
        [Point::new(section), Point::new(sentence)]
    });
    store.upsert(others.collect()).await.unwrap();
    assert_eq!(find(&store, search()).await, before, "the scores did not change");
    // A chunk that changes its level leaves its old level.
    let mut moved = chunk("d", 0, "The wren sings.");
    moved.level = Level::Section;
    store.upsert(vec![Point::new(moved)]).await.unwrap();
    let (one, two) = (
        point("d", 1, "The wren nests."),
        point("d", 2, "The robin sings at dawn."),
    );
    let fresh = MemoryStore::new(Vectors::NONE);
    fresh.upsert(vec![one, two]).await.unwrap();
    assert_eq!(find(&store, search()).await, find(&fresh, search()).await);
}
