//! Journaled turns: resumed readers, several readers, stops by ID, and limits.

mod conversations;
mod disconnects;
mod figures;
mod limits;
mod model;
mod pace;
mod parks;
mod snapshot;
mod suffix;

use bytes::BytesMut;
use ragwire::turn::{Disconnect, Journal, JournalLimits, ResumeError};
use ragwire::wire::{Decode, Wire};
use ragwire::{End, Forge, Frame, Item, Ndjson, Sse, TurnId};

use super::*;
use crate::journals::{bytes, encoded, frames, show, wires};

fn in_memory() -> Journal {
    Journal::in_memory(JournalLimits::default())
}

/// Returns the builder of a journaled turn without an owner that continues without readers.
fn journaled(journal: &Journal) -> TurnBuilder {
    Turn::builder()
        .journal(journal)
        .on_disconnect(Disconnect::run_to_end())
}

async fn resume(journal: &Journal, id: TurnId, from: u64) -> Turn {
    journal.resume(id, "", from).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_reader_gets_the_same_bytes_as_without_a_journal() {
    let journal = in_memory();
    for (steps, expected) in [
        (&[][..], Ok(format!("\x1d{DONE}"))),
        (
            &[Report, Text("Hi"), Text(" you"), Wait(1), Text("!")],
            Ok(format!("{SEARCH}\x1dHi you!{DONE}")),
        ),
        (
            &[Report, Bytes(b"Hi\xc3"), Fail],
            Ok(format!("{SEARCH}\x1dHi\u{fffd}\n\n{SORRY}{FAILED}")),
        ),
        (
            &[Text("Hi"), Wait(1), Panic],
            Ok(format!("\x1dHi\n\n{SORRY}{FAILED}")),
        ),
        (&[Wait(1), Fail], Err("chat_failed")),
        (&[Panic], Err("chat_failed")),
    ] {
        check(Turn::builder().journal(&journal), steps, expected).await;
    }
    settle().await;
    assert_eq!(journal.turns(), 4, "the journal does not store rejected turns");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_turn_leaves_nothing() {
    let journal = Journal::in_memory(JournalLimits::default().max_turns(1));
    for (steps, commit) in [
        (&[Fail][..], Commit::first_frame()),
        (&[Report, Fail], Commit::first_text()),
    ] {
        let turn = journaled(&journal)
            .commit_on(commit)
            .start(move |sink| play(steps, sink));
        let id = turn.id();
        assert_eq!(
            journal.resume(id, "", 0).await.unwrap_err().code(),
            "unknown_turn",
            "its response has not begun"
        );
        turn.commit().await.unwrap_err();
        assert_eq!(
            journal.resume(id, "", 0).await.unwrap_err().code(),
            "unknown_turn"
        );
        assert_eq!(journal.stop(id, "").await.unwrap_err().code(), "unknown_turn");
    }
    drop(journaled(&journal).start(|sink| play(&[Text("a")], sink)));
    assert_eq!((journal.turns(), journal.bytes()), (0, 0));
    // Each of them released its slot.
    let turn = journaled(&journal).start(|sink| play(&[Text("a")], sink));
    drop(turn.commit().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_finds_a_turn() {
    let journal = in_memory();
    let other = in_memory();
    for (owner, asks, known) in [
        ("alice", "alice", true),
        ("alice", "mallory", false),
        ("alice", "", false),
        ("alice", "Alice", false),
        ("", "", true),
        ("", "mallory", true),
    ] {
        for has_ended in [false, true] {
            let turn = journaled(&journal)
                .owner(owner)
                .start(move |sink| {
                    play(
                        if has_ended {
                            &[Text("a")]
                        } else {
                            &[Text("a"), Wait(50)]
                        },
                        sink,
                    )
                })
                .commit()
                .await
                .unwrap();
            settle().await;
            let id = turn.id();
            let code = |error: ResumeError| error.code();
            let expected = if known { Ok(id) } else { Err("unknown_turn") };
            for from in [0, 1, 99] {
                let asked = journal.resume(id, asks, from).await;
                let expected = if from == 99 && known {
                    Err("ahead")
                } else {
                    expected
                };
                assert_eq!(asked.map(|turn| turn.id()).map_err(code), expected);
            }
            let stopped = journal.stop(id, asks).await.map_err(|error| error.code());
            assert_eq!(
                stopped,
                if known {
                    Ok(!has_ended)
                } else {
                    Err("unknown_turn")
                }
            );
            assert_eq!(
                other.resume(id, asks, 0).await.map(drop).map_err(code),
                Err("unknown_turn")
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_stop_ends_all_readers() {
    let journal = in_memory();
    let turn = journaled(&journal)
        .owner("alice")
        .start(|sink| play(&[Report, Text("a"), Wait(50), Text("b")], sink))
        .commit()
        .await
        .unwrap();
    let id = turn.id();
    let mut first = turn.stream(&Framed::default());
    assert_eq!(plain(&first.next().await.unwrap()), SEARCH);
    assert_eq!(plain(&first.next().await.unwrap()), "\x1da");
    let second = journal.resume(id, "alice", 1).await.unwrap();
    let third = journal.resume(id, "alice", 2).await.unwrap();
    assert_eq!(journal.stop(id, "alice").await, Ok(true));
    assert_eq!(journal.stop(id, "alice").await, Ok(false));
    let begun = Instant::now();
    assert_eq!(drain(first).await, STOPPED);
    assert_eq!(
        drain(second.stream(&Framed::default())).await,
        format!("\x1da{STOPPED}")
    );
    assert_eq!(drain(third.stream(&Framed::default())).await, STOPPED);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // A later reader gets the same end, and its handle reports that the turn has ended.
    let late = journal.resume(id, "alice", 0).await.unwrap();
    assert!(!late.handle().stop());
    let late = late.collect().await.unwrap();
    assert_eq!(
        (&*late.text, late.end.status.as_str(), late.events.len()),
        ("a", "stopped", 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_reaches_a_turn_without_readers() {
    let journal = in_memory();
    let (flag, dropped) = Flag::new();
    let turn = journaled(&journal)
        .start(move |sink| async move {
            let _flag = flag;
            play(&[Text("a"), Wait(1_000)], sink).await
        })
        .commit()
        .await
        .unwrap();
    let id = turn.id();
    drop(turn);
    tokio::time::sleep(ms(20)).await;
    assert!(!dropped.load(Ordering::SeqCst));
    assert_eq!(journal.stop(id, "").await, Ok(true));
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
    let read = drain(resume(&journal, id, 0).await.stream(&Framed::default())).await;
    assert_eq!(read, format!("\x1da{STOPPED}"));
}

/// A reader that does not read delays neither the orchestrator nor the other readers.
#[tokio::test(start_paused = true)]
async fn readers_do_not_wait_for_each_other() {
    let journal = in_memory();
    let timeouts = Timeouts::default().write_stall(ms(150)).idle(None).total(None);
    let turn = journaled(&journal)
        .timeouts(timeouts)
        .start(|sink: Sink| async move {
            for _ in 0..100 {
                sink.send("0123456789".repeat(500)).await?;
                tokio::time::sleep(ms(10)).await;
            }
            Ok::<_, SendError>(Metadata::default())
        })
        .commit()
        .await
        .unwrap();
    let begun = Instant::now();
    let id = turn.id();
    let never = turn.stream(&Framed::default());
    let mut slow = resume(&journal, id, 0).await.stream(&Framed::default());
    let fast = resume(&journal, id, 0).await.stream(&Framed::default());
    let expected = format!("\x1d{}{EMPTY}", "0123456789".repeat(50_000));
    let fast = async {
        assert_eq!(drain(fast).await, expected);
        assert_eq!(
            begun.elapsed(),
            ms(1_000),
            "the fast reader takes as long as the orchestrator"
        );
    };
    let slow = async {
        let mut read = Vec::new();
        while let Some(chunk) = slow.next().await {
            assert!(chunk.len() <= 64 * 1024, "{}", chunk.len());
            read.extend_from_slice(&chunk);
            tokio::time::sleep(ms(100)).await;
        }
        assert_eq!(plain(&read), expected);
    };
    tokio::join!(fast, slow);
    // A client that takes nothing for too long is cut off; it may resume.
    assert_eq!(drain(never).await, format!("\x1d{TOO_SLOW}"));
}

#[tokio::test(start_paused = true)]
async fn the_readers_of_a_journal_are_counted() {
    let journal = in_memory();
    assert_eq!(journal.stats().readers, 0);
    let turn = journaled(&journal).start(|sink: Sink| async move {
        sink.send("a").await?;
        std::future::pending::<()>().await;
        Ok::<_, SendError>(Metadata::default())
    });
    let turn = turn.commit().await.unwrap();
    let (id, first) = (turn.id(), turn.stream(&Framed::default()));
    let second = resume(&journal, id, 0).await.stream(&Framed::default());
    let third = resume(&journal, id, 0).await.stream(&Framed::default());
    assert_eq!((journal.stats().turns, journal.stats().readers), (1, 3));
    drop((first, third));
    assert_eq!(journal.stats().readers, 1);
    drop(second);
    assert_eq!(journal.stats().readers, 0);
}

#[tokio::test(start_paused = true)]
async fn readers_are_kept_alive() {
    let journal = in_memory();
    let timeouts = Timeouts::default().keep_alive(ms(100));
    let turn = journaled(&journal)
        .timeouts(timeouts)
        .start(|sink| play(&[Report, Text("a"), Wait(250), Text("b")], sink))
        .commit()
        .await
        .unwrap();
    let id = turn.id();
    let wire = Sse::default();
    let mut read = turn.stream(&wire).collect::<Vec<_>>().await;
    // The first frame, the text, two fillers and the rest.
    assert_eq!(read.len(), 5);
    let fillers = read.drain(2..4).collect::<Vec<_>>().concat();
    assert_eq!(show(&fillers), ": keep-alive\n\n: keep-alive\n\n");
    assert_eq!(
        show(&read.concat()),
        show(&bytes(resume(&journal, id, 0).await, &wire).await)
    );

    // A blank line is a keep-alive only before the text. A reader that already has text gets none,
    // although its encoder has not reached the text yet.
    let (sink, turn) = journaled(&journal).timeouts(timeouts).channel();
    let (turn, ()) = tokio::join!(turn.commit(), async {
        // More frames than the encoder takes in one poll.
        for _ in 0..40 {
            sink.send(Custom::new("own", &"x".repeat(2_000)).unwrap())
                .await
                .unwrap();
            settle().await;
        }
        sink.send("a").await.unwrap();
    });
    let turn = turn.unwrap();
    settle().await;
    let late = resume(&journal, turn.id(), 41).await.stream(&Framed::default());
    tokio::time::sleep(ms(200)).await;
    sink.send("b").await.unwrap();
    sink.finish(Metadata::default()).unwrap();
    assert_eq!(drain(late).await, format!("b{EMPTY}"));
}

#[tokio::test(start_paused = true)]
async fn readers_belong_to_the_group_while_the_turn_runs() {
    let (journal, group) = (in_memory(), TurnGroup::new(1));
    let start = |steps| {
        journaled(&journal)
            .group(&group)
            .start(|sink| play(steps, sink))
            .commit()
    };
    let turn = start(&[Text("a"), Wait(50)]).await.unwrap();
    let id = turn.id();
    let second = resume(&journal, id, 0).await;
    drop(turn);
    assert_eq!(group.active(), 1);
    tokio::time::sleep(ms(60)).await;
    assert_eq!(group.active(), 1, "a reader is left");
    drop(second);
    assert_eq!(group.active(), 0);
    let late = resume(&journal, id, 0).await;
    assert_eq!(group.active(), 0, "a finished turn does not take a place");
    drop(late);

    let turn = start(&[Text("a"), Wait(50)]).await.unwrap();
    settle().await;
    let second = resume(&journal, turn.id(), 1).await;
    group.shut_down();
    let ends = [turn, second].map(|turn| async { turn.collect().await.unwrap().end.status });
    for status in futures_util::future::join_all(ends).await {
        let Status::Failed(failure) = status else {
            panic!("{status:?}")
        };
        assert_eq!(failure.code(), "shutting_down");
    }
    tokio::time::timeout(ms(10), group.drained()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_resumed_over_http() {
    let journal = in_memory();
    let turn = journaled(&journal)
        .owner("alice")
        .start(|sink| play(&[Text("a")], sink));
    let turn = turn.commit().await.unwrap();
    let response = turn.respond(Framed::default());
    let header = response.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    drop(response);
    settle().await;
    let id = TurnId::parse(&header).unwrap();
    assert_eq!(id.to_string(), header);
    for wrong in [
        "",
        "0",
        &header[1..],
        &header.to_uppercase(),
        &format!("+{}", &header[1..]),
    ] {
        let parsed = TurnId::parse(wrong);
        assert!(parsed.is_none() || header.to_uppercase() == header, "{wrong}");
    }
    for (owner, from, status, code) in [
        ("alice", 0, 200, ""),
        ("alice", 1, 200, ""),
        ("alice", 2, 204, ""),
        ("alice", 3, 416, "ahead"),
        ("mallory", 0, 404, "unknown_turn"),
        ("mallory", 3, 404, "unknown_turn"),
    ] {
        let answer = journal.resume(id, owner, from).await.map_err(Rejected::from);
        let refused = answer
            .as_ref()
            .err()
            .map(|rejected| rejected.failure.kind.to_string());
        let response = answer.map_or_else(|rejected| rejected.respond(), |turn| turn.respond(Sse::default()));
        assert_eq!(response.status(), status);
        assert_eq!(refused.unwrap_or_default(), code);
        let content_type = response
            .headers()
            .get("content-type")
            .map(|value| value.to_str().unwrap());
        let expected = match status {
            200 => Some("text/event-stream"),
            204 => None,
            _ => Some("application/json"),
        };
        assert_eq!(content_type, expected);
        let is_end_stream = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap()
            .to_bytes()
            .is_empty();
        assert_eq!(is_end_stream, status == 204);
    }
}

#[test]
fn readers_get_an_end_if_the_runtime_is_dropped() {
    let journal = in_memory();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let short_lived = runtime();
    let turn = short_lived.block_on(async {
        let turn = journaled(&journal).start(|sink| play(&[Text("a"), Wait(60_000)], sink));
        let turn = turn.commit().await.unwrap();
        tokio::task::yield_now().await;
        turn
    });
    drop(short_lived);
    let collected = runtime().block_on(turn.collect()).unwrap();
    assert_eq!((&*collected.text, collected.end.status.as_str()), ("a", "failed"));
}
