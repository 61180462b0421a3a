//! Turns survive more than one host: two and three servers as processes of their own on one real Redis, killed, frozen, cut off and
//! starved while readers move between them. What each reader saw is judged by `ragwire_test_support::history`.
//!
//! Needs Debian's package `redis-server`. `TEST_REDIS_KILLS` sets how often each test that kills does so (10 unless told otherwise), and
//! `TEST_SEED` plays a run again: both are printed.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod hosts;
mod moves;
mod outages;
mod producer_kills;
mod reader;
mod redis_kills;
#[path = "../served/mod.rs"]
mod served;
mod start;

use ragwire_test_support::history::{History, Told, Verdict, judge};
use ragwire_test_support::redis::RedisServer;

use reader::{Numbered, Reader};

/// How often a test that kills does so.
pub(crate) fn kills() -> u64 {
    match std::env::var("TEST_REDIS_KILLS") {
        Ok(kills) => kills.parse().expect("TEST_REDIS_KILLS is a number"),
        Err(_) => 10,
    }
}

/// What the readers saw, judged together; `context` is said where it cannot be.
pub(crate) fn judged(readers: &[Reader], allowed: &[Told], context: &str) -> Verdict {
    let histories: Vec<History> = readers.iter().map(|reader| reader.history.clone()).collect();
    judge(&histories, allowed).unwrap_or_else(|violation| panic!("{context}: {violation}\n{histories:#?}"))
}

/// Somebody who comes after all others and reads everything.
pub(crate) async fn late(turn: &str, address: &str) -> Reader {
    let mut late = Reader::new("late", Numbered::Lines, turn);
    late.follow([address]).await;
    late
}

/// Nothing stays in Redis for ever.
pub(crate) fn everything_expires(redis: &RedisServer) {
    let keys = redis.cli(&["KEYS", "*"]);
    assert_ne!(keys, "", "there were turns");
    for key in keys.lines() {
        let left: i64 = redis.cli(&["PTTL", key]).parse().unwrap();
        // -1: it has no end. 0 and -2: it goes, or has gone, this moment.
        assert_ne!(left, -1, "{key}");
    }
}
