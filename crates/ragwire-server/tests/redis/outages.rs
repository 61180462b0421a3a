//! Redis cannot be used: it is away for a moment or for too long, is full, accepts no writes,
//! requires a password, or is loading.

use std::time::Duration;

use http::Method;
use ragwire_test_support::history::{End, Notice};
use ragwire_test_support::redis::RedisServer;
use serde_json::json;

use crate::hosts::Host;
use crate::reader::{Numbered, PATIENCE, Reader, ask, call, paced_text};
use crate::redis_kills::works_again;
use crate::{judged, late};

/// Longer than the lease, and shorter than the tolerated outage.
const AWHILE: Duration = Duration::from_millis(2_500);
const WORDS: u32 = 150;

/// Runs a turn on one host and reads it on both, while something happens to Redis.
async fn read_through(hosts: [&str; 2], words: u32, happens: impl Future<Output = ()>) -> [Reader; 2] {
    let [here, there] = hosts;
    let prompt = format!("fault:paced {words} 12 t");
    let mut own = ask("own", Numbered::Lines, here, &prompt).await.unwrap();
    let mut far = Reader::new("far", Numbered::Events, &own.turn);
    assert!(far.visit(there).await);
    assert!(own.read(5).await && far.read(5).await);
    tokio::join!(own.follow([here]), far.follow([there]), happens);
    [own, far]
}

/// Asserts that there was only a delay: every reader has received everything and no notice.
async fn is_only_a_delay(there: &str, readers: [Reader; 2], context: &str) {
    let [own, far] = readers;
    let audit = late(&own.turn, there).await;
    assert_eq!(own.text(), paced_text(WORDS, "t"), "{context}");
    let verdict = judged(&[own, far, audit], &[], context);
    assert_eq!(verdict.end.map(|(_, end)| end), Some(End::Completed), "{context}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_away_for_a_moment_is_only_a_delay() {
    let mut redis = RedisServer::durable("always");
    let [here, there] = Host::several(&redis, &[]);
    let hosts = [here.address(), there.address()];

    let frozen = async {
        redis.freeze();
        tokio::time::sleep(AWHILE).await;
        redis.thaw();
    };
    is_only_a_delay(hosts[1], read_through(hosts, WORDS, frozen).await, "frozen").await;

    let paused = async {
        redis.cli(&["CLIENT", "PAUSE", "2500", "ALL"]);
    };
    is_only_a_delay(hosts[1], read_through(hosts, WORDS, paused).await, "paused").await;

    let asleep = async {
        let mut asleep = redis.cli_unanswered(&["DEBUG", "SLEEP", "2.5"]);
        tokio::time::sleep(AWHILE).await;
        asleep.wait().unwrap();
    };
    is_only_a_delay(hosts[1], read_through(hosts, WORDS, asleep).await, "asleep").await;

    let cut_off = async {
        for _ in 0..10 {
            redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    is_only_a_delay(hosts[1], read_through(hosts, WORDS, cut_off).await, "cut off").await;

    // A replica accepts no writes; without its master it keeps its data.
    let read_only = async {
        redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
        tokio::time::sleep(AWHILE).await;
        redis.cli(&["REPLICAOF", "NO", "ONE"]);
    };
    is_only_a_delay(hosts[1], read_through(hosts, WORDS, read_only).await, "read-only").await;

    let full = async {
        redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        tokio::time::sleep(AWHILE).await;
        redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    };
    is_only_a_delay(hosts[1], read_through(hosts, WORDS, full).await, "full").await;

    let dead = async {
        redis.kill();
        tokio::time::sleep(AWHILE).await;
        redis.restart();
    };
    is_only_a_delay(hosts[1], read_through(hosts, WORDS, dead).await, "dead").await;

    // 1,000 keys at 2 ms each: the server answers at once, with LOADING for two seconds.
    redis.cli(&[
        "EVAL",
        "for i = 1, 1000 do redis.call('SET', 'k' .. i, i) end",
        "0",
    ]);
    redis.cli(&["BGREWRITEAOF"]);
    let rewritten = async {
        while redis.info("aof_rewrite_in_progress").as_deref() != Some("0") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, rewritten).await.unwrap();
    redis.set("key-load-delay", "2000");
    redis.set("loading-process-events-interval-bytes", "1024");
    let loading = async {
        redis.restart_unready();
        let mut reply = String::new();
        while !reply.starts_with("LOADING") {
            assert_ne!(reply, "PONG", "the server must still be loading");
            reply = redis.cli(&["PING"]);
        }
        redis.wait();
    };
    is_only_a_delay(hosts[1], read_through(hosts, WORDS, loading).await, "loading").await;
}

/// After the tolerated outage the turns fail and new questions are refused; when Redis is back,
/// everything works.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_away_for_too_long_fails_the_turns_and_nothing_else() {
    let mut redis = RedisServer::durable("always");
    let [here, there] = Host::several(&redis, &["--redis-retry", "1s"]);
    let hosts = [here.address(), there.address()];

    let context = "dead";
    let readers = read_through(hosts, 10_000, async { redis.kill() }).await;
    fails_clearly(hosts, readers, context).await;
    redis.restart();
    recovers(hosts).await;

    let context = "frozen";
    let readers = read_through(hosts, 10_000, async { redis.freeze() }).await;
    fails_clearly(hosts, readers, context).await;
    redis.thaw();
    recovers(hosts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_accepts_no_writes_fails_the_turns_and_nothing_else() {
    let redis = RedisServer::durable("always");
    let [here, there] = Host::several(&redis, &["--redis-retry", "1s"]);
    let hosts = [here.address(), there.address()];

    // -OOM: the server answers reads and refuses writes.
    let readers = read_through(hosts, 10_000, async {
        redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    });
    fails_clearly(hosts, readers.await, "full").await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    recovers(hosts).await;

    // -READONLY
    let readers = read_through(hosts, 10_000, async {
        redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    });
    fails_clearly(hosts, readers.await, "read-only").await;
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    recovers(hosts).await;

    // -NOAUTH: open connections keep their rights, so they are closed.
    let readers = read_through(hosts, 10_000, async {
        redis.cli(&["CONFIG", "SET", "requirepass", "s3cret"]);
        redis.cli_with(
            &["--no-auth-warning", "-a", "s3cret"],
            &["CLIENT", "KILL", "TYPE", "normal"],
        );
    });
    fails_clearly(hosts, readers.await, "noauth").await;
    redis.cli_with(
        &["--no-auth-warning", "-a", "s3cret"],
        &["CONFIG", "SET", "requirepass", ""],
    );
    recovers(hosts).await;
}

/// Asserts that the readers learn that the answer cannot be reached, that a new question is refused
/// before any work is done, and that the servers are healthy.
async fn fails_clearly(hosts: [&str; 2], readers: [Reader; 2], context: &str) {
    let unavailable = End::Failed("unavailable".to_owned());
    let [own, far] = &readers;
    assert_eq!(own.end(), Some(&unavailable), "{context}");
    let ended = far.end();
    assert!(
        ended == Some(&unavailable) || ended == Some(&End::Failed("lost".into())),
        "{context}: {ended:?}"
    );
    judged(&readers, &[Notice::Unavailable, Notice::Lost], context);
    for address in hosts {
        let refused = ask("refused", Numbered::Lines, address, "fault:no-events").await;
        let (status, body) = refused.expect_err("redis cannot be used");
        assert_eq!(
            (status, &body["error"]["code"]),
            (503, &json!("unavailable")),
            "{context}"
        );
        assert_eq!(body["error"]["recoverable"], json!(true), "{context}");
        let health = call(Method::GET, address, "/healthz", None).await.unwrap();
        assert_eq!(health.0, 200, "{context}");
    }
}

/// Asserts that the servers work again without a restart, soon after Redis does.
async fn recovers([here, there]: [&str; 2]) {
    let recovering = async {
        for address in [here, there] {
            while ask("waits", Numbered::Lines, address, "fault:empty")
                .await
                .is_err()
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, recovering).await.unwrap();
    works_again(here, there).await;
}

/// A reader whose next frame was dropped gets a notice, live and when it resumes, and never a later
/// frame.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_too_slow_gets_a_snapshot() {
    let redis = RedisServer::durable("always");
    // Room for a part of the frames, and in a quarter of it for the snapshot of the others.
    let [here, there] = Host::several(&redis, &["--journal-turn-size", "20KiB"]);
    let (here, there) = (here.address(), there.address());
    let mut own = ask("own", Numbered::Lines, here, "fault:paced 600 2 t")
        .await
        .unwrap();
    let mut slow = Reader::new("slow", Numbered::Events, &own.turn);
    assert!(slow.visit(there).await && slow.read(3).await);
    slow.leave();
    own.follow([here]).await;
    let end = own.next_index();
    let mut readers = Vec::new();
    for address in [here, there] {
        // Both hosts send the snapshot of the dropped frames, and the frames after it are exact.
        let mut back = Reader::from("back", Numbered::Lines, &own.turn, slow.next_index());
        back.follow([address]).await;
        readers.push(back);
        // The stored frames are exact.
        let kept = redis.cli(&["HGET", &format!("ragwire:{{{}}}:turn", own.turn), "base"]);
        let base: u64 = kept.parse().unwrap();
        assert!(base > slow.next_index() && base < end, "{base} of {end}");
        let mut rest = Reader::from("rest", Numbered::Lines, &own.turn, base);
        assert!(rest.visit(address).await);
        while rest.next().await.is_some() {}
        assert_eq!(rest.next_index(), end);
        let whole = own.history.visits.iter().flat_map(|visit| &visit.frames);
        let kept: Vec<_> = whole.filter(|seen| seen.index >= base).cloned().collect();
        assert_eq!(rest.history.visits[0].frames, kept);
    }
    slow.follow([there]).await;
    readers.extend([own, slow]);
    let verdict = judged(&readers, &[Notice::Snapshot], "slow");
    assert_eq!(verdict.end, Some((end - 1, End::Completed)));
    let notified = verdict.notices.iter().map(|(reader, _)| &**reader);
    // On a busy machine the first reader falls behind too.
    let notified: Vec<_> = notified.filter(|reader| *reader != "own").collect();
    assert_eq!(notified, ["back", "back", "slow"], "{:?}", verdict.notices);
}
