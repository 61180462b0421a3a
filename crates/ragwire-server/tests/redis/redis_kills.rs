//! Redis itself is killed and restarts with all of its data, with a part of it, or empty.

use std::time::Duration;

use http::Method;
use ragwire_test_support::history::{End, Notice, VisitEnd, retains};
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
/// Well below the tolerated outage.
const LONGEST_ABSENCE: Duration = Duration::from_millis(400);

/// Starts a turn on one host with a reader there and one on the other host.
async fn read_on_both(name: &str, words: u32, here: &str, there: &str) -> [Reader; 2] {
    let prompt = format!("fault:paced {words} 12 {name}");
    let own = ask("own", Numbered::Lines, here, &prompt).await.unwrap();
    let mut far = Reader::new("far", Numbered::Events, &own.turn);
    far.visit(there).await;
    [own, far]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_frame_is_lost_if_each_append_is_synced() {
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
            // Only a delay: no reader gets a notice.
            let verdict = judged(&readers, &[], &context);
            assert_eq!(verdict.end.map(|(_, end)| end), Some(End::Completed), "{context}");
            let [own, far, audit] = readers.map(|reader| reader.history);
            assert_eq!(retains(&[own, far], &audit), Ok(()), "{context}");
        }
    }
    everything_expires(&redis);
}

/// The question waits on its host and can be answered when Redis is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_a_human_survives_a_restart_of_redis() {
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
async fn a_loss_is_reported_if_only_each_second_is_synced() {
    let mut seed = Seed::from_environment("killed redis, everysec");
    let mut redis = RedisServer::durable("everysec");
    let [here, there] = Host::several(&redis, &[]);
    let (here, there) = (here.address(), there.address());
    // On an idle disk a killed process loses nothing.
    let _load = FsyncLoad::start(3);
    let (mut lost, mut whole) = (0, 0);
    for round in 0..kills() {
        let names: [_; TURNS] = std::array::from_fn(|number| format!("t{number}"));
        let turns = names.iter().map(|name| read_on_both(name, WORDS, here, there));
        let turns = futures_util::future::join_all(turns).await;
        let life = seed.between(Duration::ZERO, LONGEST_LIFE);
        // The crash of a process loses what was not written, which is little on a fast disk. The
        // crash of a machine loses what was not synced.
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
            if verdict.notices.is_empty() {
                assert_eq!(readers[0].text(), paced_text(WORDS, name), "{context}");
                whole += 1;
            } else {
                lost += 1;
            }
        }
    }
    println!("{lost} turns lost frames and reported it, {whole} lost none");
    assert!(lost > 0, "no frame was lost, so the test has shown nothing");
}

/// The notices that a reader may get where acknowledged frames can be lost.
const LOSSES: [Notice; 4] = [Notice::Unknown, Notice::Lost, Notice::Ahead, Notice::Interrupted];
/// With three times as much, about thirty frames of all turns together are lost.
const MOST_CUT: u64 = 4096;

/// The same loss as in the crash of a machine, but every time: Redis restarts with its data of an
/// earlier moment.
#[tokio::test(flavor = "multi_thread")]
async fn frames_that_redis_has_lost_are_reported_to_every_reader() {
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
        // The frames after this point are going to be lost.
        assert!(own.read(10).await && far.read(10).await);
        assert!(gone.visit(there).await && gone.read(10).await);
        gone.leave();
        redis.replace_data(Some(&copy));
        redis.restart();
        tokio::join!(own.follow([here]), far.follow([there]));
        let lost = End::Failed("lost".to_owned());
        assert_eq!((own.end(), far.end()), (Some(&lost), Some(&lost)), "{context}");
        // A reader that was disconnected meanwhile must get neither "nothing left" nor a complete
        // turn.
        gone.follow([there]).await;
        let audit = late(&own.turn, there).await;
        assert!(
            audit.next_index() < own.next_index(),
            "{context}: frames were lost"
        );
        judged(&[own, far, gone, audit], &LOSSES, &context);
        works_again(here, there).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_restarts_empty_ends_the_turns_and_accepts_new_ones() {
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
        // The host that ran the turn still knows its end; the other host knows nothing of the turn.
        let mut back = Reader::from("back", Numbered::Lines, &far.turn, far.next_index());
        assert!(!back.visit(there).await);
        assert_eq!(back.history.visits[0].ended, VisitEnd::Refused(404), "{context}");
        let mut forgotten = Reader::from("forgotten", Numbered::Lines, &over.turn, 0);
        assert!(!forgotten.visit(there).await);
        assert_eq!(
            forgotten.history.visits[0].ended,
            VisitEnd::Refused(404),
            "{context}"
        );
        judged(&[own, far, back], &LOSSES, &context);
        judged(&[over, forgotten], &LOSSES, &context);
        works_again(here, there).await;
    }
}

/// Asserts that a new question is answered and can be read on both hosts.
pub(crate) async fn works_again(here: &str, there: &str) {
    let [mut own, mut far] = read_on_both("again", 12, here, there).await;
    tokio::join!(own.follow([here]), far.follow([there]));
    assert_eq!(own.text(), paced_text(12, "again"));
    let verdict = judged(&[own, far], &[], "a new turn");
    assert_eq!(verdict.end.map(|(_, end)| end), Some(End::Completed));
}
