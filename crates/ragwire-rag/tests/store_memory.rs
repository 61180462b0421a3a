//! Measures the memory of a chunk in a `MemoryStore` against its documentation. A separate binary,
//! because its allocator counts.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::alloc::System;

use ragwire_rag::Chunk;
use ragwire_rag::search::store::{MemoryStore, Point, Store, Vectors};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

const COUNT: u32 = 4_000;
const DIMENSIONS: usize = 384;
/// The documented size, plus the difference that two newly grown tables make.
const MAX_BYTES: usize = 6 * 1024;

/// A passage of 900 bytes and 80 terms, in a language of 3,000 terms.
fn passage(n: u32) -> Point {
    let words = (0..80u32).map(|place| {
        // Few words are in most texts, most words in few.
        let random = n
            .wrapping_mul(2_654_435_761)
            .wrapping_add(place.wrapping_mul(40_503))
            >> 7;
        let (common, rare) = (random % 60, random % 3_000);
        format!("term{} ", if place % 2 == 0 { common } else { rare })
    });
    let mut text: String = words.collect();
    text += &"of the and ".repeat(900usize.saturating_sub(text.len()) / 11);
    let mut chunk = Chunk::new(
        "0123456789abcdef0123456789abcdef",
        "a-paper-on-birds.pdf",
        n,
        &text,
    );
    chunk.heading = Some("Guide > Installation > From source".to_owned());
    chunk.parent = Some("0123456789abcdef0123456789abcdef-s12".to_owned());
    let vector = (0..DIMENSIONS).map(|place| ((place as u32 ^ n) % 97) as f32 / 97.0);
    Point::new(chunk).dense(vector.collect())
}

#[tokio::test]
async fn a_chunk_takes_the_documented_memory() {
    let store = MemoryStore::new(Vectors::dense(DIMENSIONS));
    store.upsert(vec![passage(0)]).await.unwrap();
    let before = live();
    for first in (0..COUNT).step_by(500) {
        store
            .upsert((first..first + 500).map(passage).collect())
            .await
            .unwrap();
    }
    let each = (live() - before) / COUNT as usize;
    println!("{each} bytes a chunk, {} of them its vector", 4 * DIMENSIONS);
    assert!(each < MAX_BYTES, "{each}");
    let numbers = 4 * DIMENSIONS;
    assert!(
        each > numbers + 1_500,
        "{each}: the text alone is 900, so something was not counted"
    );
}
