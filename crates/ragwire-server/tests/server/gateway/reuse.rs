//! Connections to an orchestrator are kept between questions, and one that has died is replaced.

use ragwire_server::settings::values::Count;

use super::double::{Double, Step, chunk, head, last};
use super::{gateway, told};

const LINES: &str = "application/x-ndjson";

fn answered(then: Option<Step>) -> Vec<Step> {
    let answer = [
        head(LINES),
        chunk("{\"text\":\"Yes.\"}\n"),
        chunk("{\"end\":\"completed\"}\n"),
        last(),
    ];
    answer.into_iter().chain(then).collect()
}

#[tokio::test]
async fn a_connection_serves_one_question_after_the_other() {
    let double = Double::start(vec![answered(Some(Step::Keep))]).await;
    let server = gateway(&double.url, |_| ());
    for _ in 0..5 {
        assert_eq!(told(&server.frames("Why?").await), ("Yes.".into(), None));
    }
    assert_eq!((double.opened(), double.seen().len()), (1, 5));
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    let double = Double::start(vec![answered(None)]).await;
    let server = gateway(&double.url, |_| ());
    for _ in 0..3 {
        assert_eq!(told(&server.frames("Why?").await), ("Yes.".into(), None));
        // The close arrives before the next question.
        tokio::time::sleep(super::SHORT / 3).await;
    }
    assert_eq!((double.opened(), double.seen().len()), (3, 3));
}

/// The orchestrator closes a kept connection when the question is already on its way. That is no
/// attempt: the first byte of the answer has not arrived, and the connection was old.
#[tokio::test]
async fn a_question_that_meets_the_close_is_repeated_once() {
    let keep = answered(Some(Step::Keep));
    let double = Double::start(vec![keep, vec![], answered(None)]).await;
    let server = gateway(&double.url, |_| ());
    for _ in 0..2 {
        assert_eq!(told(&server.frames("Why?").await), ("Yes.".into(), None));
    }
    let seen = double.seen();
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key")).collect();
    assert_eq!((double.opened(), keys.len()), (2, 3));
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[1], keys[2]);

    // A new connection that dies as well is an attempt.
    let keep = answered(Some(Step::Keep));
    let double = Double::start(vec![keep, vec![], vec![], answered(None)]).await;
    let server = gateway(&double.url, |_| ());
    assert_eq!(told(&server.frames("Why?").await), ("Yes.".into(), None));
    let reply = server.ask("/v1/turns", "Why?").await;
    assert_eq!(
        (reply.status.as_u16(), &*reply.code()),
        (502, "upstream_truncated")
    );
    assert_eq!(double.seen().len(), 3);
}

#[tokio::test]
async fn a_kept_connection_that_dies_within_an_answer_fails_it() {
    for (case, begin) in [
        ("after the head", vec![head(LINES)]),
        ("after a piece", vec![head(LINES), chunk("{\"text\":\"Half\"}\n")]),
    ] {
        let double = Double::start(vec![answered(Some(Step::Keep)), begin.clone(), answered(None)]).await;
        let server = gateway(&double.url, |settings| {
            // Only an answer that has begun is never repeated.
            settings.orchestrator_attempts = Count(if begin.len() == 1 { 1 } else { 3 });
        });
        assert_eq!(told(&server.frames("Why?").await), ("Yes.".into(), None));
        if begin.len() == 1 {
            let reply = server.ask("/v1/turns", "Why?").await;
            assert_eq!(&*reply.code(), "upstream_truncated", "{case}");
        } else {
            let (text, failure) = told(&server.frames("Why?").await);
            assert_eq!(
                (&*text, failure.unwrap().code()),
                ("Half", "upstream_truncated"),
                "{case}"
            );
        }
        assert_eq!(double.seen().len(), 2, "{case}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_closes_its_connection() {
    let mut open = answered(None);
    open.pop();
    open.push(Step::Hang);
    let double = Double::start(vec![open]).await;
    let server = gateway(&double.url, |_| ());
    assert_eq!(told(&server.frames("Why?").await), ("Yes.".into(), None));
    double.closed(1).await;
}
