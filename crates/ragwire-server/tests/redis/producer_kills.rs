//! The host that runs a turn is killed, or is suspended and resumed: readers on other hosts get the
//! failure completion once, and the turn does not change after it.

use std::time::Duration;

use http::Method;
use ragwire_test_support::history::{End, Notice, retains};
use ragwire_test_support::redis::RedisServer;
use ragwire_test_support::seed::Seed;
use serde_json::json;

use crate::hosts::Host;
use crate::reader::{Numbered, Reader, ask, call};
use crate::{everything_expires, judged, kills, late};

/// Turns that run on a killed host.
const TURNS: usize = 3;
const WORDS: u32 = 60;
/// The host is killed within this time: most turns are running then, some have ended.
const LONGEST_LIFE: Duration = Duration::from_millis(1_200);
/// The code of the end that other hosts write for a dead host.
pub(crate) const GONE_HOST: &str = "interrupted";

/// Starts a turn with a reader on the host that runs it and a reader on another host.
async fn read_on_both(number: usize, here: &str, there: &str, words: u32) -> Option<[Reader; 2]> {
    let prompt = format!("fault:paced {words} 12 t{number}");
    // The host may be killed before it answers.
    let own = ask("own", Numbered::Lines, here, &prompt).await.ok()?;
    let mut far = Reader::new("far", Numbered::Events, &own.turn);
    far.visit(there).await;
    Some([own, far])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_ends_its_turns_once_for_all_readers_on_other_hosts() {
    let mut seed = Seed::from_environment("killed hosts");
    let mut redis = RedisServer::durable("always");
    let [mut answering, there, third] = Host::several(&redis, &[]);
    let (mut interrupted, mut completed) = (0, 0);
    for round in 0..kills() {
        let here = answering.address().to_owned();
        let asked: [_; TURNS] =
            std::array::from_fn(|number| read_on_both(number, &here, there.address(), WORDS));
        let asked = futures_util::future::join_all(asked);
        let life = seed.between(Duration::ZERO, LONGEST_LIFE);
        // The readers read while the host is alive; then the clients use another host.
        let (turns, ()) = tokio::join!(asked, async {
            tokio::time::sleep(life).await;
            answering.kill();
            // Sometimes Redis dies too. It still has what it acknowledged.
            if round % 3 == 2 {
                redis.restart();
            }
        });
        for [mut own, mut far] in turns.into_iter().flatten() {
            let others = [there.address(), third.address()];
            let mut third_reader = Reader::new("third", Numbered::Lines, &own.turn);
            tokio::join!(
                own.follow(others),
                far.follow(others),
                third_reader.follow([third.address()]),
            );
            let turn = own.turn.clone();
            let audit = late(&turn, third.address()).await;
            let context = format!("round {round}, killed after {life:?}, turn {turn}");
            let readers = [own, far, third_reader, audit];
            let verdict = judged(&readers, &[], &context);
            let [.., audit] = &readers;
            let histories: Vec<_> = readers.iter().map(|reader| reader.history.clone()).collect();
            assert_eq!(retains(&histories, &audit.history), Ok(()), "{context}");
            match verdict.end {
                Some((_, End::Completed)) => completed += 1,
                Some((_, End::Failed(code))) if code == GONE_HOST => {
                    interrupted += 1;
                    let stop = format!("/v1/turns/{turn}/stop");
                    let stopped = call(Method::POST, there.address(), &stop, None).await;
                    assert_eq!(stopped.unwrap(), (200, json!({ "stopped": false })), "{context}");
                }
                other => panic!("{context}: {other:?}"),
            }
        }
        answering.restart();
    }
    println!("{interrupted} turns were interrupted, {completed} had ended before");
    assert!(interrupted > 0, "no turn was killed while it ran");
    everything_expires(&redis);
}

/// The question of a dead host does not wait for an answer any more.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_dead_host_is_too_late() {
    let redis = RedisServer::durable("always");
    let [mut answering, there] = Host::several(&redis, &[]);
    let mut own = ask("own", Numbered::Lines, answering.address(), "fault:ask")
        .await
        .unwrap();
    assert!(own.read(2).await);
    answering.kill();
    own.follow([there.address()]).await;
    assert_eq!(own.end(), Some(&End::Failed(GONE_HOST.to_owned())));
    let path = format!("/v1/turns/{}/answer", own.turn);
    let answer = json!({ "request_id": "delete", "response": "Approve" });
    let (status, body) = call(Method::POST, there.address(), &path, Some(answer))
        .await
        .unwrap();
    assert_eq!((status, &body["error"]["code"]), (410, &json!("ask_over")));
    judged(&[own], &[], "asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_host_that_resumes_adds_nothing_to_a_turn_that_another_host_ended() {
    let redis = RedisServer::durable("always");
    let [answering, there] = Host::several(&redis, &[]);
    for round in 0..kills().div_ceil(3) {
        // Longer than the host is suspended, so that it sends more frames afterwards.
        let mut turn = None;
        while turn.is_none() {
            turn = read_on_both(0, answering.address(), there.address(), 1_000).await;
        }
        let [mut own, mut far] = turn.unwrap();
        assert!(own.read(5).await && far.read(5).await);
        answering.freeze();
        far.follow([there.address()]).await;
        assert_eq!(
            far.end(),
            Some(&End::Failed(GONE_HOST.to_owned())),
            "round {round}"
        );
        answering.thaw();
        // The reader on the suspended host stays connected and gets a notice as well. Whatever that
        // is, no frame was added.
        own.follow([answering.address()]).await;
        let audit = late(&own.turn, there.address()).await;
        let zombie = late(&own.turn, answering.address()).await;
        let readers = [own, far, audit, zombie];
        let verdict = judged(&readers, &[Notice::Lost], &format!("round {round}"));
        assert_eq!(
            verdict.end.map(|(_, end)| end),
            Some(End::Failed(GONE_HOST.to_owned()))
        );
    }
}
