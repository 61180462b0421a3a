//! Turns survive their hosts: two or three server processes on one real Redis server, killed,
//! suspended, cut off and starved while readers move between them. `ragwire_test_support::history`
//! checks what each reader received.
//!
//! Needs Debian's package `redis-server`. `TEST_REDIS_KILLS` sets how often each test kills a
//! process (default: 10), and `TEST_SEED` repeats a run. Both values are printed.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod hosts;
mod moves;
mod outages;
mod producer_kills;
mod reader;
mod readiness;
mod redis_kills;
#[path = "../served/mod.rs"]
mod served;
mod start;

use ragwire_test_support::history::{History, Notice, Verdict, judge};
use ragwire_test_support::redis::RedisServer;

use reader::{Numbered, Reader};

/// Returns how often a test kills a process.
pub(crate) fn kills() -> u64 {
    match std::env::var("TEST_REDIS_KILLS") {
        Ok(kills) => kills.parse().expect("TEST_REDIS_KILLS is a number"),
        Err(_) => 10,
    }
}

/// Checks the histories of the readers together; `context` is part of the message if that fails.
pub(crate) fn judged(readers: &[Reader], allowed: &[Notice], context: &str) -> Verdict {
    let histories: Vec<History> = readers.iter().map(|reader| reader.history.clone()).collect();
    judge(&histories, allowed).unwrap_or_else(|violation| panic!("{context}: {violation}\n{histories:#?}"))
}

/// Returns a reader that comes after all others and has read everything.
pub(crate) async fn late(turn: &str, address: &str) -> Reader {
    let mut late = Reader::new("late", Numbered::Lines, turn);
    late.follow([address]).await;
    late
}

/// Asserts that every key expires.
pub(crate) fn everything_expires(redis: &RedisServer) {
    let keys = redis.cli(&["KEYS", "*"]);
    assert_ne!(keys, "", "there were turns");
    for key in keys.lines() {
        let left: i64 = redis.cli(&["PTTL", key]).parse().unwrap();
        // -1: the key does not expire. 0 and -2: it expires, or has expired, at this moment.
        assert_ne!(left, -1, "{key}");
    }
}
