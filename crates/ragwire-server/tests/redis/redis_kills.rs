//! Redis itself is killed, and comes back with everything, with less, or with nothing.

use std::time::Duration;

use http::Method;
use ragwire_test_support::history::{End, Ended, Told, keeps};
use ragwire_test_support::redis::{FsyncLoad, RedisServer};
use ragwire_test_support::seed::Seed;
use serde_json::json;

use crate::hosts::Host;
use crate::reader::{Numbered, Reader, ask, call, paced_text};
use crate::{everything_expires, judged, kills, late};

/// Turns that run when Redis is killed.
const TURNS: usize = 3;
const WORDS: u32 = 60;
const LONGEST_LIFE: Duration = Duration::from_millis(800);
/// Well below the time for which Redis may be away.
const LONGEST_ABSENCE: Duration = Duration::from_millis(400);

/// A turn on one host, read there and on the other one.
async fn read_on_both(name: &str, words: u32, here: &str, there: &str) -> [Reader; 2] {
    let prompt = format!("fault:paced {words} 12 {name}");
    let own = ask("own", Numbered::Lines, here, &prompt).await.unwrap();
    let mut far = Reader::new("far", Numbered::Events, &own.turn);
    far.visit(there).await;
    [own, far]
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_acknowledged_is_lost_where_each_append_is_synced() {
    let mut seed = Seed::from_environment("killed redis, always");
    let mut redis = RedisServer::durable("always");
    let [here, there] = Host::several(&redis, &[]);
    let (here, there) = (here.address(), there.address());
    for round in 0..kills() {
        let names: [_; TURNS] = std::array::from_fn(|number| format!("t{number}"));
        let turns = names.iter().map(|name| read_on_both(name, WORDS, here, there));
        let turns = futures_util::future::join_all(turns).await;
        let life = seed.between(Duration::ZERO, LONGEST_LIFE);
        let absence = seed.between(Duration::ZERO, LONGEST_ABSENCE);
        let context = format!("round {round}, killed after {life:?} for {absence:?}");
        let reading = turns.into_iter().map(async |[mut own, mut far]| {
            tokio::join!(own.follow([here, there]), far.follow([there, here]));
            [own, far]
        });
        let killing = async {
            tokio::time::sleep(life).await;
            redis.kill();
            tokio::time::sleep(absence).await;
            redis.restart();
        };
        let (turns, ()) = tokio::join!(futures_util::future::join_all(reading), killing);
        for ([own, far], name) in turns.into_iter().zip(&names) {
            let audit = late(&own.turn, there).await;
            assert_eq!(own.text(), paced_text(WORDS, name), "{context}");
            let readers = [own, far, audit];
            // It was only a delay: nobody is told anything.
            let verdict = judged(&readers, &[], &context);
            assert_eq!(verdict.end.map(|(_, end)| end), Some(End::Completed), "{context}");
            let [own, far, audit] = readers.map(|reader| reader.history);
            assert_eq!(keeps(&[own, far], &audit), Ok(()), "{context}");
        }
    }
    everything_expires(&redis);
}

/// It waits on its host, and is there when Redis is.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_a_human_outlives_redis() {
    let mut redis = RedisServer::durable("always");
    let [here, there] = Host::several(&redis, &[]);
    let (here, there) = (here.address(), there.address());
    let mut own = ask("own", Numbered::Lines, here, "fault:ask").await.unwrap();
    let mut far = Reader::new("far", Numbered::Events, &own.turn);
    assert!(own.read(2).await && far.visit(there).await && far.read(2).await);
    redis.restart();
    let path = format!("/v1/turns/{}/answer", own.turn);
    let answer = json!({ "request_id": "delete", "response": "Approve" });
    let taken = call(Method::POST, there, &path, Some(answer)).await.unwrap();
    assert_eq!(taken, (200, json!({ "accepted": true })));
    tokio::join!(own.follow([here]), far.follow([there]));
    assert_eq!(far.text(), "They are deleted.");
    let verdict = judged(&[own, far], &[], "asked");
    assert_eq!(verdict.end.map(|(_, end)| end), Some(End::Completed));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_where_only_each_second_is_synced_is_told() {
    let mut seed = Seed::from_environment("killed redis, everysec");
    let mut redis = RedisServer::durable("everysec");
    let [here, there] = Host::several(&redis, &[]);
    let (here, there) = (here.address(), there.address());
    // On a quiet disk a killed process loses nothing.
    let _load = FsyncLoad::start(3);
    let (mut lost, mut whole) = (0, 0);
    for round in 0..kills() {
        let names: [_; TURNS] = std::array::from_fn(|number| format!("t{number}"));
        let turns = names.iter().map(|name| read_on_both(name, WORDS, here, there));
        let turns = futures_util::future::join_all(turns).await;
        let life = seed.between(Duration::ZERO, LONGEST_LIFE);
        // The crash of a process loses what was not written, and little on a fast disk; that of a machine what was not synced.
        let cut = seed.below(4) * seed.below(MOST_CUT);
        let context = format!("round {round}, killed after {life:?}, {cut} bytes cut off");
        let reading = turns.into_iter().map(async |[mut own, mut far]| {
            tokio::join!(own.follow([here, there]), far.follow([there, here]));
            [own, far]
        });
        let killing = async {
            tokio::time::sleep(life).await;
            redis.kill_and_cut(cut);
            redis.restart();
        };
        let (turns, ()) = tokio::join!(futures_util::future::join_all(reading), killing);
        for ([own, far], name) in turns.into_iter().zip(&names) {
            let audit = late(&own.turn, there).await;
            let readers = [own, far, audit];
            let verdict = judged(&readers, &LOSSES, &context);
            if verdict.told.is_empty() {
                assert_eq!(readers[0].text(), paced_text(WORDS, name), "{context}");
                whole += 1;
            } else {
                lost += 1;
            }
        }
    }
    println!("{lost} turns lost frames and were told so, {whole} lost none");
    assert!(lost > 0, "nothing was lost: this has shown nothing");
}

/// What a reader may be told where acknowledged frames can be lost.
const LOSSES: [Told; 4] = [Told::Unknown, Told::Lost, Told::Ahead, Told::Interrupted];
/// With three times as much some thirty frames of all turns together are lost.
const MOST_CUT: u64 = 4096;

/// The same loss as of a machine that crashes, but each time: Redis goes on from what its disk had at an earlier moment.
#[tokio::test(flavor = "multi_thread")]
async fn frames_that_redis_has_forgotten_are_told_to_every_reader() {
    let mut redis = RedisServer::durable("always");
    let [here, there] = Host::several(&redis, &[]);
    let (here, there) = (here.address(), there.address());
    for round in 0..3 {
        let context = format!("round {round}");
        let [mut own, mut far] = read_on_both("t", 1_000, here, there).await;
        let mut gone = Reader::new("gone", Numbered::Lines, &own.turn);
        assert!(own.read(5).await && far.read(5).await);
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("data");
        redis.copy_data(&copy);
        // What they see from here on is going to be lost.
        assert!(own.read(10).await && far.read(10).await);
        assert!(gone.visit(there).await && gone.read(10).await);
        gone.leave();
        redis.replace_data(Some(&copy));
        redis.restart();
        tokio::join!(own.follow([here]), far.follow([there]));
        let lost = End::Failed("lost".to_owned());
        assert_eq!((own.end(), far.end()), (Some(&lost), Some(&lost)), "{context}");
        // One who was away meanwhile is not told that nothing is left, nor that all is well.
        gone.follow([there]).await;
        let audit = late(&own.turn, there).await;
        assert!(
            audit.next_index() < own.next_index(),
            "{context}: something was lost"
        );
        judged(&[own, far, gone, audit], &LOSSES, &context);
        works_again(here, there).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_comes_back_empty_ends_the_turns_and_takes_new_ones() {
    let mut redis = RedisServer::start(&[]);
    let [here, there] = Host::several(&redis, &[]);
    let (here, there) = (here.address(), there.address());
    for round in 0..3 {
        let context = format!("round {round}");
        let [mut own, mut far] = read_on_both("t", 1_000, here, there).await;
        let mut over = ask("over", Numbered::Lines, here, "fault:no-events")
            .await
            .unwrap();
        over.follow([here]).await;
        assert!(own.read(5).await && far.read(5).await);
        redis.restart();
        tokio::join!(own.follow([here]), far.follow([there]));
        let lost = End::Failed("lost".to_owned());
        assert_eq!((own.end(), far.end()), (Some(&lost), Some(&lost)), "{context}");
        // Where it ran it is still known what became of it; elsewhere nothing is.
        let mut back = Reader::from("back", Numbered::Lines, &far.turn, far.next_index());
        assert!(!back.visit(there).await);
        assert_eq!(back.history.visits[0].ended, Ended::Refused(404), "{context}");
        let mut forgotten = Reader::from("forgotten", Numbered::Lines, &over.turn, 0);
        assert!(!forgotten.visit(there).await);
        assert_eq!(
            forgotten.history.visits[0].ended,
            Ended::Refused(404),
            "{context}"
        );
        judged(&[own, far, back], &LOSSES, &context);
        judged(&[over, forgotten], &LOSSES, &context);
        works_again(here, there).await;
    }
}

/// A new question is answered, and read on both hosts.
pub(crate) async fn works_again(here: &str, there: &str) {
    let [mut own, mut far] = read_on_both("again", 12, here, there).await;
    tokio::join!(own.follow([here]), far.follow([there]));
    assert_eq!(own.text(), paced_text(12, "again"));
    let verdict = judged(&[own, far], &[], "a new turn");
    assert_eq!(verdict.end.map(|(_, end)| end), Some(End::Completed));
}
