//! What other hosts may do to a turn: stop it, answer it, keep it going by reading it; and who may.

use ragwire::event::AuthorizationOutcome;
use ragwire::turn::{AnswerError, AnswerOutcome, Ask, Authorize};
use ragwire::{Metadata, SendError};
use serde_json::json;

use super::*;

#[tokio::test]
async fn only_the_owner_is_known_anywhere() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        for (owner, asks, known) in [
            ("alice", "alice", true),
            ("alice", "mallory", false),
            ("alice", "", false),
            ("", "mallory", true),
        ] {
            let (sink, turn, id) = begun(kept(&here).owner(owner)).await;
            for is_over in [false, true] {
                if is_over {
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
                    if is_over || !known {
                        let stopped = journal.stop(id, asks).await.map_err(|error| error.code());
                        assert_eq!(stopped, if known { Ok(false) } else { Err("unknown_turn") });
                    }
                    let nobody = journal.resume(TurnId::random(), asks, 0).await.unwrap_err();
                    assert_eq!(nobody.code(), "unknown_turn");
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
        let (here, there, third) = (
            server.journal().await,
            server.journal().await,
            server.journal().await,
        );
        let (sink, turn, id) = begun(kept(&here)).await;
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
        assert!(!readers[3].handle().stop(), "its handle is on another host");
        assert_eq!(third.stop(id, "alice").await, Ok(true));
        assert_eq!(sink.send("b").await.unwrap_err().code(), "turn_ended");
        for turn in readers {
            assert_eq!(told(&frames(turn).await), (vec!["a"], "stopped".to_owned()));
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
        let turn = kept(&here)
            .start(|sink: Sink| async move {
                let ask = Ask::approval("Send it?").request_id("r1");
                let said = sink.ask(ask).await.map_err(|error| error.to_string())?;
                sink.send(said.to_string())
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
        // Its host still remembers.
        assert_eq!(answer("r1", "Approve").await, Ok(AnswerOutcome::Same));
        assert_eq!(answer("r1", "Reject").await, Err(AnswerError::Different));
        // Without it nobody does: whoever answers is late.
        drop(here);
        assert_eq!(answer("r1", "Approve").await, Err(AnswerError::Late));
    })
    .await;
}

/// The turn has readers while somebody reads it anywhere: none of the hosts ends it for want of them.
#[tokio::test]
async fn a_reader_elsewhere_keeps_a_turn_going() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        let builder = kept(&here).on_disconnect(Disconnect::grace(Duration::from_millis(50)));
        let (sink, turn, id) = begun(builder).await;
        send(&there, &sink, id, 0, "a").await;
        let reader = resume(&there, id, 0).await;
        drop(turn);
        // Longer than the grace and the lease together.
        for at in 1..12 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            send(&there, &sink, id, at, &at.to_string()).await;
        }
        // With the last reader gone it is given up.
        drop(reader);
        while sink.send(".").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let all = frames(resume(&there, id, 0).await).await;
        let (texts, end) = told(&all);
        assert_eq!((&texts[..4], &*end), (&["a", "1", "2", "3"][..], "stopped"));
    })
    .await;
}

#[tokio::test]
async fn the_newest_turn_of_a_conversation_is_known_everywhere() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        assert_eq!(there.latest("c", "alice").await, Ok(None));
        let mut newest = Vec::new();
        for journal in [&here, &there] {
            let (sink, turn, id) = begun(kept(journal).lane("c")).await;
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
        // Without a lane of its own a turn has its owner's name for one.
        let (_sink, _turn, id) = begun(kept(&here)).await;
        assert_eq!(there.latest("alice", "alice").await, Ok(Some(id)));
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_is_rejected_leaves_nothing() {
    within(async {
        let server = Server::new();
        let journal = server.journal().await;
        let pending = kept(&journal).start(|sink: Sink| async move {
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
