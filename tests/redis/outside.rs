//! The operations of other hosts on a turn: stop it, answer it, or keep it running by reading it,
//! all only for its owner.

use ragwire::event::AuthorizationOutcome;
use ragwire::turn::{AnswerError, AnswerOutcome, Ask, Authorize};
use ragwire::{Metadata, SendError};
use serde_json::json;

use super::*;

#[tokio::test]
async fn only_the_owner_finds_a_turn_on_any_host() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        for (owner, asks, known) in [
            ("alice", "alice", true),
            ("alice", "mallory", false),
            ("alice", "", false),
            ("", "mallory", true),
        ] {
            let (sink, turn, id) = begun(journaled(&here).owner(owner)).await;
            for has_ended in [false, true] {
                if has_ended {
                    sink.finish(Metadata::default()).unwrap();
                    while there.resume(id, owner, 1).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                for journal in [&here, &there] {
                    let unknown = Err("unknown_turn");
                    let resumed = journal.resume(id, asks, 0).await;
                    let resumed = resumed.map(|turn| turn.id()).map_err(|error| error.code());
                    assert_eq!(resumed, if known { Ok(id) } else { unknown });
                    let ahead = journal.resume(id, asks, 99).await.unwrap_err().code();
                    assert_eq!(ahead, if known { "ahead" } else { "unknown_turn" });
                    let answered = journal.answer(id, asks, "r", json!("a")).await;
                    assert_eq!(answered, Err(AnswerError::Unknown));
                    if has_ended || !known {
                        let stopped = journal.stop(id, asks).await.map_err(|error| error.code());
                        assert_eq!(stopped, if known { Ok(false) } else { Err("unknown_turn") });
                    }
                    let unknown_id = journal.resume(TurnId::random(), asks, 0).await.unwrap_err();
                    assert_eq!(unknown_id.code(), "unknown_turn");
                }
            }
            drop(turn);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stop_from_a_third_host_ends_all_readers() {
    within(async {
        let server = Server::new();
        let (here, there, third) = server.journals().await;
        let (sink, turn, id) = begun(journaled(&here)).await;
        send(&there, &sink, id, 0, "a").await;
        let readers = [
            turn,
            resume(&there, id, 0).await,
            resume(&there, id, 0).await,
            resume(&third, id, 0).await,
        ];
        assert_eq!(
            third.stop(id, "mallory").await.unwrap_err().code(),
            "unknown_turn"
        );
        assert!(!readers[3].handle().stop(), "the turn runs on another host");
        assert_eq!(third.stop(id, "alice").await, Ok(true));
        assert_eq!(sink.send("b").await.unwrap_err().code(), "turn_ended");
        for turn in readers {
            assert_eq!(
                texts_and_end(&frames(turn).await),
                (vec!["a"], "stopped".to_owned())
            );
        }
        for journal in [&here, &there, &third] {
            assert_eq!(journal.stop(id, "alice").await, Ok(false));
        }
    })
    .await;
}

#[tokio::test]
async fn answers_come_from_any_host() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        let turn = journaled(&here)
            .start(|sink: Sink| async move {
                let ask = Ask::approval("Send it?").request_id("r1");
                let answer = sink.ask(ask).await.map_err(|error| error.to_string())?;
                sink.send(answer.to_string())
                    .await
                    .map_err(|error| error.to_string())?;
                let authorize = Authorize::new("mail", "https://login.example/").request_id("r2");
                let outcome = sink
                    .authorize(authorize)
                    .await
                    .map_err(|error| error.to_string())?;
                sink.send(outcome.as_str())
                    .await
                    .map_err(|error| error.to_string())?;
                Ok::<_, String>(Metadata::default())
            })
            .commit()
            .await
            .unwrap();
        let id = turn.id();
        let answer =
            |request: &'static str, answer: &'static str| there.answer(id, "alice", request, json!(answer));
        while here.resume(id, "alice", 1).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(
            there.answer(id, "mallory", "r1", json!("Approve")).await,
            Err(AnswerError::Unknown)
        );
        assert_eq!(answer("r9", "Approve").await, Err(AnswerError::Unknown));
        assert_eq!(answer("r1", "Perhaps").await, Err(AnswerError::Invalid));
        assert_eq!(answer("r1", "Approve").await, Ok(AnswerOutcome::Accepted));
        assert_eq!(answer("r1", "Approve").await, Ok(AnswerOutcome::Same));
        assert_eq!(answer("r1", "Reject").await, Err(AnswerError::Different));
        while answer("r2", "nonsense").await == Err(AnswerError::Unknown) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let authorized = there.authorized(id, "alice", "r2", AuthorizationOutcome::Authorized);
        assert_eq!(authorized.await, Ok(AnswerOutcome::Accepted));
        let collected = turn.collect().await.unwrap();
        assert_eq!(collected.text, "\"Approve\"authorized");
        // The turn's host still knows the answers.
        assert_eq!(answer("r1", "Approve").await, Ok(AnswerOutcome::Same));
        assert_eq!(answer("r1", "Reject").await, Err(AnswerError::Different));
        // Without that host, an answer is late.
        drop(here);
        assert_eq!(answer("r1", "Approve").await, Err(AnswerError::Late));
    })
    .await;
}

/// A reader on any host counts: no host stops the turn for lack of readers.
#[tokio::test]
async fn a_reader_on_another_host_keeps_a_turn_running() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        let builder = journaled(&here).on_disconnect(Disconnect::grace(Duration::from_millis(50)));
        let (sink, turn, id) = begun(builder).await;
        send(&there, &sink, id, 0, "a").await;
        let reader = resume(&there, id, 0).await;
        drop(turn);
        // Longer than the grace and the lease together.
        for at in 1..12 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            send(&there, &sink, id, at, &at.to_string()).await;
        }
        // Without its last reader the turn is stopped.
        drop(reader);
        while sink.send(".").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let all = frames(resume(&there, id, 0).await).await;
        let (texts, end) = texts_and_end(&all);
        assert_eq!((&texts[..4], &*end), (&["a", "1", "2", "3"][..], "stopped"));
    })
    .await;
}

#[tokio::test]
async fn every_host_knows_the_newest_turn_of_a_conversation() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        assert_eq!(there.latest("c", "alice").await, Ok(None));
        let mut newest = Vec::new();
        for journal in [&here, &there] {
            let (sink, turn, id) = begun(journaled(journal).lane("c")).await;
            newest.push(id);
            for asked in [&here, &there] {
                assert_eq!(asked.latest("c", "alice").await, Ok(Some(id)));
                assert_eq!(asked.latest("c", "mallory").await, Ok(None));
                assert_eq!(asked.latest("", "alice").await, Ok(None));
            }
            sink.finish(Metadata::default()).unwrap();
            frames(turn).await;
            assert_eq!(here.latest("c", "alice").await, Ok(Some(id)));
        }
        assert_ne!(newest[0], newest[1]);
        // A turn without a lane is in the lane that has its owner's name.
        let (_sink, _turn, id) = begun(journaled(&here)).await;
        assert_eq!(there.latest("alice", "alice").await, Ok(Some(id)));
    })
    .await;
}

#[tokio::test]
async fn a_rejected_turn_leaves_nothing() {
    within(async {
        let server = Server::new();
        let journal = server.journal().await;
        let pending = journaled(&journal).start(|sink: Sink| async move {
            drop(sink);
            Err::<Metadata, SendError>(SendError::Ended)
        });
        let id = pending.id();
        pending.commit().await.unwrap_err();
        assert_eq!(
            journal.resume(id, "alice", 0).await.unwrap_err().code(),
            "unknown_turn"
        );
        assert_eq!(server.ask(&["DBSIZE"]), ["0"]);
    })
    .await;
}
