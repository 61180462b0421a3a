//! How turns leave the waiting list: no turn waits for one that has left, and all room is free
//! again.

use futures_util::future::join_all;

use super::waits::{ANSWER, FOR_EVER, failed, group, idle, queued, stats};
use super::*;

/// Every way to leave the waiting list. The next turn never waits for the one that left.
#[tokio::test(start_paused = true)]
async fn ended_turns_are_skipped() {
    for what in [
        "leaves",
        "leaves later",
        "is stopped",
        "is stopped later",
        "fails",
    ] {
        let group = group(1);
        let (sink, first) = Turn::builder().group(&group).channel();
        let (flag, dropped) = Flag::new();
        let second = Turn::builder().group(&group).start(move |sink| async move {
            let _flag = flag;
            play(ANSWER, sink).await
        });
        let third = Turn::builder()
            .group(&group)
            .owner("third")
            .start(|sink| play(&[], sink));
        let fourth = Turn::builder().group(&group).start(|sink| play(FOR_EVER, sink));
        settle().await;
        assert_eq!((group.active(), group.queued()), (1, 3));
        let handle = second.handle();
        let mut kept = Some(second);
        match what {
            "leaves" | "leaves later" => kept = None,
            "fails" => assert!(handle.fail(Failure::new("quota", "No more today."))),
            _ => assert!(handle.stop()),
        }
        // At once, before any task runs.
        assert_eq!((group.active(), group.queued()), (1, 2), "{what}");
        if what.ends_with("later") {
            settle().await;
            assert!(dropped.load(Ordering::SeqCst), "{what}: its orchestrator is gone");
        }
        // The first has ended and the second has left the list: the third is admitted although the
        // second still has a reader.
        sink.finish(Metadata::default()).unwrap();
        let (first, third) = tokio::join!(read(first), async {
            let turn = third.commit().await.unwrap();
            let owners = group.owners();
            assert_eq!(
                (owners.active, owners.queued.len()),
                (vec!["third".into()], 0),
                "{what}"
            );
            turn.collect().await.unwrap()
        });
        assert!(first.is_ok());
        assert_eq!(third.end.metadata.queue_stats.unwrap().queue_position, 2);
        if let Some(second) = kept {
            let expected = if what == "fails" { "quota" } else { "stopped" };
            assert_eq!(read(second).await, Err(expected.into()), "{what}");
        }
        assert!(dropped.load(Ordering::SeqCst), "{what}");
        drop(fourth);
        settle().await;
        idle(&group);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_on_the_waiting_list_is_reported() {
    let group = group(1);
    let _first = Turn::builder().group(&group).start(|sink| play(FOR_EVER, sink));
    let turn = Turn::builder().group(&group).start(|sink| play(ANSWER, sink));
    let handle = turn.handle();
    let stop = async {
        tokio::time::sleep(ms(700)).await;
        assert!(handle.stop());
    };
    let ((), read) = tokio::join!(stop, read(turn));
    let stopped = format!(
        "\x1e{{\"citations\":[],\"tools_used\":[],{},\"status\":\"stopped\"}}",
        stats(true, 1, "700.0")
    );
    assert_eq!(read, Ok(format!("{}\x1d{stopped}", queued(1, 1, 10))));
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_waiting_turns() {
    let group = group(1);
    let start = || Turn::builder().group(&group).start(|sink| play(FOR_EVER, sink));
    let (first, second) = (start(), start());
    tokio::time::sleep(ms(20)).await;
    let third = start();
    group.shut_down();
    // The room that the first leaves stays free.
    drop(first);
    let message = "The server is restarting. Please retry in a moment.";
    assert_eq!(
        read(second).await,
        Ok(format!(
            "{}\x1d{}",
            queued(1, 1, 10),
            failed("shutting_down", message, &stats(true, 1, "20.0"))
        ))
    );
    assert!(
        group.drained().now_or_never().is_none(),
        "a reader is still connected"
    );
    assert_eq!(read(third).await, Err("shutting_down".into()));
    assert_eq!(read(start()).await, Err("shutting_down".into()));
    settle().await;
    idle(&group);
}

/// The others learn of it although the one that left still has a reader.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_stopped_moves_those_behind_it_forward() {
    let group = group(1);
    let (first, pending) = Turn::builder().group(&group).channel();
    let second = Turn::builder().group(&group).start(|sink| play(ANSWER, sink));
    let third = Turn::builder().group(&group).start(|sink| play(ANSWER, sink));
    let third = read(third);
    let steps = async {
        tokio::time::sleep(ms(700)).await;
        assert!(second.handle().stop());
        tokio::time::sleep(ms(10_000)).await;
        first.finish(Metadata::default()).unwrap();
    };
    let (third, _, ()) = tokio::join!(third, read(pending), steps);
    let third = third.unwrap();
    let reports = [queued(2, 2, 10), queued(1, 1, 700)].concat();
    assert!(third.starts_with(&reports), "{third}");
    drop(second);
}

/// A client and an owner may each have too many turns: the one with more turns ahead decides.
#[tokio::test(start_paused = true)]
async fn of_two_limits_the_one_with_more_turns_ahead_is_reported() {
    let group = TurnGroup::builder()
        .max_active(10)
        .max_queued(4)
        .max_per_owner(3)
        .max_active_per_client(1)
        .build();
    let start = |owner: &str, client: &str| {
        let turn = Turn::builder().group(&group).owner(owner).client(client);
        turn.start(|sink| play(FOR_EVER, sink))
    };
    let running = [start("alice", "1"), start("alice", "2"), start("alice", "3")];
    let waiting = start("bob", "3");
    settle().await;
    assert_eq!((group.active(), group.queued()), (3, 1));
    let mut both = start("alice", "3")
        .commit()
        .await
        .unwrap()
        .stream(&Framed::default());
    // Three of the owner run; of the client one runs and one waits.
    assert_eq!(plain(&both.next().await.unwrap()), queued(1, 3, 10));
    drop((running, waiting));
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_waiting_turns_of_a_client_is_that_of_this_client() {
    let group = TurnGroup::builder()
        .max_active(1)
        .max_queued(9)
        .max_queued_per_client(1)
        .build();
    let start = |client: Option<&str>| {
        let turn = Turn::builder().group(&group);
        let turn = client.into_iter().fold(turn, TurnBuilder::client);
        turn.start(|sink| play(FOR_EVER, sink))
    };
    let _first = start(None);
    let waiting = [start(None), start(None), start(Some("1")), start(Some("2"))];
    settle().await;
    assert_eq!((group.active(), group.queued()), (1, waiting.len()));
    assert_eq!(read(start(Some("1"))).await, Err("too_many".into()));
}

/// A turn that was admitted within a moment has not waited.
#[tokio::test(start_paused = true)]
async fn a_wait_of_10_milliseconds_is_none() {
    for (wait, was_queued) in [(10, false), (11, true)] {
        let group = group(1);
        let (first, pending) = Turn::builder().group(&group).channel();
        let second = Turn::builder()
            .group(&group)
            .start(|sink| play(&[Text("a")], sink));
        let end = async {
            tokio::time::sleep(ms(wait)).await;
            first.finish(Metadata::default()).unwrap();
        };
        let second = async { second.commit().await.unwrap().collect().await.unwrap() };
        let (second, _, ()) = tokio::join!(second, read(pending), end);
        let stats = second.end.metadata.queue_stats.unwrap();
        assert_eq!(stats.was_queued, was_queued, "{wait}");
    }
}

/// However a turn ends, waiting or running, the group is empty afterwards.
#[tokio::test(start_paused = true)]
async fn every_end_frees_its_room() {
    let group = TurnGroup::builder()
        .max_active(2)
        .max_queued(2)
        .queue_timeout(ms(5_000))
        .max_per_owner(1)
        .build();
    for steps in [
        &[][..],
        &[Text("a"), Wait(50)],
        &[Fail],
        &[Panic],
        &[Text("a"), Panic],
        &[Wait(9_000)],
    ] {
        for way in ["read", "drop", "commit", "stop", "stop later", "hook"] {
            let start = |owner| {
                let turn = Turn::builder().group(&group).owner(owner);
                let turn = if way == "hook" {
                    turn.before_end(|_| async { panic!("the hook says so") })
                } else {
                    turn
                };
                turn.start(|sink| play(steps, sink))
            };
            let turns = ["a", "a", "b", "b", "c"].map(start);
            assert!(group.active() <= 2 && group.queued() <= 2);
            let over = turns.map(|turn| async move {
                match way {
                    "drop" => drop(turn),
                    "commit" => drop(turn.commit().await),
                    "stop" => {
                        turn.handle().stop();
                        drop(read(turn).await);
                    }
                    "stop later" => {
                        let handle = turn.handle();
                        let stop = async {
                            tokio::time::sleep(ms(30)).await;
                            handle.stop();
                        };
                        let _ = tokio::join!(stop, read(turn));
                    }
                    _ => drop(read(turn).await),
                }
            });
            join_all(over).await;
            settle().await;
            idle(&group);
        }
    }
}
