//! Turns on the waiting list of a group.

use futures_util::future::join_all;
use ragwire::http::TurnBody;
use ragwire::turn::Owners;
use ragwire::{QueueStats, SessionChat};

use super::*;

/// Creates a group of `active` running turns and four waiting ones.
pub(super) fn group(active: usize) -> TurnGroup {
    TurnGroup::builder().max_active(active).max_queued(4).build()
}

pub(super) fn queued(position: u32, ahead: u32, waited_ms: u64) -> String {
    format!("{{\"event\":\"queued\",\"position\":{position},\"ahead\":{ahead},\"waited_ms\":{waited_ms}}}\n")
}

/// The end of a turn of [`play`] with these queue statistics.
fn done(was_queued: bool, position: u32, wait_ms: &str) -> String {
    format!(
        "\x1e{{\"citations\":[],\"tools_used\":[\"bm25\"],{}}}",
        stats(was_queued, position, wait_ms)
    )
}

pub(super) fn stats(was_queued: bool, position: u32, wait_ms: &str) -> String {
    format!(
        "\"queue_stats\":{{\"was_queued\":{was_queued},\"queue_position\":{position},\"queue_wait_ms\":{wait_ms}}}"
    )
}

pub(super) fn failed(code: &str, message: &str, stats: &str) -> String {
    format!(
        "{message}\x1e{{\"citations\":[],\"tools_used\":[\"chat_failed\"],{stats},\"status\":\"failed\",\
         \"error\":{{\"code\":\"{code}\",\"message\":\"{message}\",\"recoverable\":true}}}}"
    )
}

/// Nothing completes a character once the turn has ended.
#[tokio::test(start_paused = true)]
async fn an_incomplete_character_at_the_end_waits_as_a_text() {
    for (bytes, size) in [(&b"\xc3"[..], 3), (b"a\xc3", 4), (b"a", 1)] {
        let group = group(1);
        let (sink, turn) = Turn::builder().group(&group).channel();
        sink.send(bytes).await.unwrap();
        sink.finish(Metadata::default()).unwrap();
        settle().await;
        let waiting = group.backlog();
        assert_eq!((waiting.frames, waiting.bytes), (1, size), "{bytes:x?}");
        drop(turn);
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_reader_has_taken_is_counted() {
    let group = group(2);
    let start = || {
        let turn = Turn::builder().group(&group).start(|sink: Sink| async move {
            for text in ["a", "b"] {
                sink.send(Search::new("bm25").query(text)).await?;
            }
            std::future::pending::<()>().await;
            Ok::<_, SendError>(Metadata::default())
        });
        turn.commit()
    };
    assert_eq!(group.backlog().frames, 0);
    let (first, second) = (start().await.unwrap(), start().await.unwrap());
    settle().await;
    let both = group.backlog();
    assert_eq!(both.frames, 4);
    assert!(both.bytes > 4 * "bm25".len(), "{both:?}");
    drop(first);
    settle().await;
    let one = group.backlog();
    assert_eq!((one.frames, 2 * one.bytes), (2, both.bytes));
    drop(second);
}

/// Asserts that the group is empty.
#[track_caller]
pub(super) fn idle(group: &TurnGroup) {
    assert_eq!((group.active(), group.queued()), (0, 0));
    assert_eq!(group.owners(), Owners::default());
    assert!(group.drained().now_or_never().is_some());
}

pub(super) const ANSWER: &[Step] = &[Text("a"), Wait(1000)];
pub(super) const FOR_EVER: &[Step] = &[Text("a"), Wait(100_000_000)];

#[tokio::test(start_paused = true)]
async fn waiting_turns_report_their_position() {
    let group = group(1);
    let turns = (0..4).map(|_| read(Turn::builder().group(&group).start(|sink| play(ANSWER, sink))));
    let read = join_all(turns).await;
    let expected = [
        format!("\x1da{}", done(false, 0, "0.0")),
        format!("{}\x1da{}", queued(1, 1, 10), done(true, 1, "1000.0")),
        format!(
            "{}{}\x1da{}",
            queued(2, 2, 10),
            queued(1, 1, 1000),
            done(true, 2, "2000.0")
        ),
        format!(
            "{}{}{}\x1da{}",
            queued(3, 3, 10),
            queued(2, 2, 1000),
            queued(1, 1, 2000),
            done(true, 3, "3000.0")
        ),
    ];
    assert_eq!(read, expected.map(Ok));
    idle(&group);
}

/// Twenty turns of 100 ms each: changes are reported at the minimum interval, and the last one
/// always is.
#[tokio::test(start_paused = true)]
async fn fast_changes_are_not_all_reported() {
    let group = TurnGroup::builder().max_active(1).max_queued(20).build();
    let turns = (0..20).map(|_| {
        let steps: &[Step] = &[Wait(100)];
        read(Turn::builder().group(&group).start(|sink| play(steps, sink)))
    });
    let last = join_all(turns).await.pop().unwrap();
    let told: String = [(19, 10), (14, 510), (9, 1010), (4, 1510)]
        .map(|(position, waited)| queued(position, position, waited))
        .concat();
    assert_eq!(last, Ok(format!("{told}\x1d{}", done(true, 19, "1900.0"))));
    idle(&group);
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_is_not_reported() {
    let group = group(1);
    for (takes, told, was_queued, wait) in [
        (9, String::new(), false, "9.0"),
        (11, queued(1, 1, 10), true, "11.0"),
    ] {
        let steps: &[Step] = if takes == 9 { &[Wait(9)] } else { &[Wait(11)] };
        let first = read(Turn::builder().group(&group).start(|sink| play(steps, sink)));
        let second = read(Turn::builder().group(&group).start(|sink| play(&[], sink)));
        let (_, second) = tokio::join!(first, second);
        assert_eq!(second, Ok(format!("{told}\x1d{}", done(was_queued, 1, wait))));
    }
    idle(&group);
}

/// Wires without a form for the event keep the connection open with their filler. The event has
/// begun the response.
#[tokio::test(start_paused = true)]
async fn a_long_wait_is_kept_alive() {
    let group = group(1);
    let first = read(
        Turn::builder()
            .group(&group)
            .start(|sink| play(&[Wait(40_000)], sink)),
    );
    let second = read(Turn::builder().group(&group).start(|sink| play(&[], sink)));
    let (_, second) = tokio::join!(first, second);
    assert_eq!(
        second,
        Ok(format!(
            "{}\n\n\x1d{}",
            queued(1, 1, 10),
            done(true, 1, "40000.0")
        ))
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_its_admission() {
    let group = group(1);
    let (sink, first) = Turn::builder().group(&group).channel();
    let (called, polled) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let second = Turn::builder().group(&group).start(|sink: Sink| {
        // The closure may borrow. Nothing is sent yet.
        called.fetch_add(1, Ordering::SeqCst);
        assert!(matches!(sink.try_send("early"), Err(TrySendError::Full)));
        let polled = Arc::clone(&polled);
        async move {
            polled.fetch_add(1, Ordering::SeqCst);
            sink.send("late").await?;
            Ok::<_, SendError>(Metadata::default())
        }
    });
    let (third_sink, third) = Turn::builder().group(&group).channel();
    let blocked = std::thread::spawn({
        let sink = third_sink.clone();
        move || sink.blocking_send("from a thread")
    });
    tokio::time::sleep(ms(1000)).await;
    assert_eq!((called.into_inner(), polled.load(Ordering::SeqCst)), (1, 0));
    assert_eq!((group.active(), group.queued()), (1, 2));
    sink.finish(Metadata::default()).unwrap();
    drop(read(first).await);
    let (second, third) = tokio::join!(read(second), async {
        third_sink.send("waits for room").now_or_never();
        settle().await;
        tokio::task::spawn_blocking(move || blocked.join().unwrap().unwrap())
            .await
            .unwrap();
        third_sink.finish(Metadata::default()).unwrap();
        read(third).await
    });
    assert_eq!(polled.load(Ordering::SeqCst), 1);
    let end = |position| {
        format!(
            "\x1e{{\"citations\":[],\"tools_used\":[],{}}}",
            stats(true, position, "1000.0")
        )
    };
    assert_eq!(second, Ok(format!("{}\x1dlate{}", queued(1, 1, 10), end(1))));
    let third = third.unwrap();
    assert!(
        third.starts_with(&queued(2, 2, 10)) && third.contains("\x1dfrom a thread\x1e"),
        "{third}"
    );
    idle(&group);
}

/// The idle and total limits count from the admission, and so do keep-alives and the orchestrator's
/// own time.
#[tokio::test(start_paused = true)]
async fn waiting_does_not_count_as_idle() {
    let group = group(1);
    let timeouts = Timeouts::default().idle(ms(100)).total(ms(150));
    let other = Timeouts::default().idle(None).total(None);
    for (steps, expected) in [
        (
            &[Wait(90), Text("b")][..],
            format!("\x1db{}", done(true, 1, "1000.0")),
        ),
        (
            &[Wait(90), Text("b"), Wait(90)],
            format!(
                "\x1db\n\n{}",
                failed(
                    "timeout",
                    "The answer took too long. Please retry.",
                    &stats(true, 1, "1000.0")
                )
            ),
        ),
        (
            &[Wait(110)],
            format!(
                "\x1d{}",
                failed(
                    "timeout",
                    "The answer took too long. Please retry.",
                    &stats(true, 1, "1000.0")
                )
            ),
        ),
    ] {
        let begun = Instant::now();
        let first = Turn::builder()
            .timeouts(other)
            .group(&group)
            .start(|sink| play(ANSWER, sink));
        let second = Turn::builder()
            .timeouts(timeouts)
            .group(&group)
            .start(|sink| play(steps, sink));
        let (_, second) = tokio::join!(read(first), read(second));
        assert_eq!(second, Ok(format!("{}{expected}", queued(1, 1, 10))), "{steps:?}");
        assert!(begun.elapsed() <= ms(1150));
    }
    idle(&group);
}

/// A reader that stalls while its turn waits is given up like any other.
#[tokio::test(start_paused = true)]
async fn a_stalled_reader_leaves_the_waiting_list() {
    let group = group(1);
    let _first = Turn::builder().group(&group).start(|sink| play(FOR_EVER, sink));
    let timeouts = Timeouts::default().write_stall(ms(500));
    let turn = Turn::builder()
        .timeouts(timeouts)
        .group(&group)
        .start(|sink| play(ANSWER, sink));
    let stream = turn.commit().await.unwrap().stream(&Framed::default());
    tokio::time::sleep(ms(499)).await;
    assert_eq!(group.queued(), 1);
    tokio::time::sleep(ms(2)).await;
    assert_eq!(group.queued(), 0);
    let message = "The connection was too slow for this answer. Please retry.";
    assert_eq!(
        drain(stream).await,
        format!(
            "{}\x1d{}",
            queued(1, 1, 10),
            failed("write_stalled", message, &stats(true, 1, "510.0"))
        )
    );
}

const TIMED_OUT: &str = "Timed out after 30 minutes waiting for another request to finish.";

/// The `queued` event has begun the response, so each wire reports the time-out with its own
/// terminal.
#[tokio::test(start_paused = true)]
async fn a_queue_timeout_is_reported_on_the_wire() {
    let group = group(1);
    let never = Timeouts::default().idle(None).total(None).keep_alive(None);
    let _first = Turn::builder()
        .timeouts(never)
        .group(&group)
        .start(|sink| play(FOR_EVER, sink));
    let second = || {
        Turn::builder()
            .timeouts(never)
            .group(&group)
            .start(|sink| play(ANSWER, sink))
    };
    let began = Instant::now();
    assert_eq!(
        read(second()).await,
        Ok(format!(
            "{}\x1d{}",
            queued(1, 1, 10),
            failed("queue_timeout", TIMED_OUT, &stats(true, 1, "1800000.0"))
        ))
    );
    assert_eq!(began.elapsed(), Duration::from_secs(1800));
    let stream = second().commit().await.unwrap().stream(&SessionChat::default());
    let bytes = stream.collect::<Vec<_>>().await.concat();
    assert_eq!(
        without_seconds(&bytes),
        format!(
            "data: {{\"type\":\"queued\",\"position\":1,\"ahead\":1,\"waited_ms\":10}}\n\n\
             data: {{\"type\":\"error\",\"error\":\"{TIMED_OUT}\",\"response\":{{\"content\":\"\",\"tool_calls\":[],\
             \"tool_results\":[],\"rounds_used\":1,\"finished\":false,\"latency_ms\":1800000.0}},\"metadata\":{{\"citations\":[],\
             \"tools_used\":[\"chat_failed\"],{},\"status\":\"failed\",\"error\":{{\"code\":\"queue_timeout\",\
             \"message\":\"{TIMED_OUT}\",\"recoverable\":true}}}}}}\n\n",
            stats(true, 1, "1800000.0")
        )
    );
    // A response that does not stream has the same status as one that never began.
    let collected = second().commit().await.unwrap().collect().await.unwrap();
    assert_eq!(collected.into_result().unwrap_err().status().as_u16(), 503);
    assert_eq!((group.active(), group.queued()), (1, 0));
}

/// Removes the timestamps of the session-chat wire.
fn without_seconds(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut parts = text.split(",\"timestamp\":");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| {
        text + part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.')
    })
}

#[tokio::test(start_paused = true)]
async fn a_queue_timeout_rejects_a_turn_without_frames() {
    let group = TurnGroup::builder()
        .max_active(1)
        .max_queued(1)
        .queue_timeout(Duration::from_secs(90))
        .build();
    let _first = Turn::builder().group(&group).start(|sink| play(FOR_EVER, sink));
    let begun = Instant::now();
    let rejected = Turn::builder()
        .commit_on(Commit::first_text())
        .group(&group)
        .start(|sink| play(ANSWER, sink))
        .commit()
        .await
        .unwrap_err();
    assert_eq!(begun.elapsed(), Duration::from_secs(90));
    assert_eq!(
        (
            rejected.status().as_u16(),
            rejected.failure.code(),
            &*rejected.failure.message
        ),
        (
            503,
            "queue_timeout",
            "Timed out after 90 seconds waiting for another request to finish."
        )
    );
    assert_eq!(rejected.retry_after, None);
    assert_eq!((group.active(), group.queued()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_owner_does_not_delay_others() {
    let group = TurnGroup::builder()
        .max_active(3)
        .max_queued(5)
        .max_per_owner(1)
        .build();
    let start = |owner: Option<&str>, steps| {
        let turn = Turn::builder().group(&group);
        let turn = match owner {
            Some(owner) => turn.owner(owner),
            None => turn,
        };
        read(turn.start(|sink| play(steps, sink)))
    };
    let (a, b) = (Some("a"), Some("b"));
    let turns = [
        start(a, &[Wait(1000)]),
        start(a, &[Wait(1000)]),
        start(b, &[Wait(3000)]),
        start(None, &[Wait(3000)]),
        start(b, &[Wait(1)]),
        start(None, &[Wait(1)]),
        start(a, &[Wait(1)]),
    ];
    assert_eq!(group.owners(), {
        let mut owners = Owners::default();
        owners.active = vec!["a".into(), "b".into()];
        owners.queued = vec!["a".into(), "b".into(), "a".into()];
        owners
    });
    let read = join_all(turns).await;
    let done = |position, wait| format!("\x1d{}", done(position > 0, position, wait));
    let expected = [
        done(0, "0.0"),
        // It is the first of those that wait for the same owner.
        format!("{}{}", queued(1, 1, 10), done(1, "1000.0")),
        done(0, "0.0"),
        done(0, "0.0"),
        // Waits until its owner's turn ends.
        format!("{}{}", queued(1, 1, 10), done(1, "3000.0")),
        // Without an owner it waits for any room: the second `a` is before it and is admitted
        // first.
        format!("{}{}", queued(1, 3, 10), done(1, "2000.0")),
        // Its owner's turn has ended, but the turn before it is admitted first.
        format!(
            "{}{}{}{}",
            queued(2, 2, 10),
            queued(1, 1, 1000),
            queued(1, 3, 2000),
            done(2, "2001.0")
        ),
    ];
    assert_eq!(read, expected.map(Ok));
    idle(&group);
}

/// 31: a refusal costs nothing.
#[tokio::test(start_paused = true)]
async fn a_lane_counts_instead_of_the_owner() {
    let group = TurnGroup::builder()
        .max_active(3)
        .max_queued(3)
        .max_per_owner(1)
        .build();
    let start = |owner, lane| {
        let turn = Turn::builder().group(&group).owner(owner).lane(lane);
        read(turn.start(|sink| play(&[Wait(1000)], sink)))
    };
    let turns = [start("a", "x"), start("a", "y"), start("b", "x")];
    let owners = group.owners();
    assert_eq!(
        (owners.active, owners.queued),
        (vec!["x".into(), "y".into()], vec!["x".into()])
    );
    let done = |position, wait| format!("\x1d{}", done(position > 0, position, wait));
    let waited = format!("{}{}", queued(1, 1, 10), done(1, "1000.0"));
    let expected = [done(0, "0.0"), done(0, "0.0"), waited].map(Ok);
    assert_eq!(join_all(turns).await, expected);
    idle(&group);
}

#[tokio::test(start_paused = true)]
async fn full_groups_refuse() {
    let group = TurnGroup::builder()
        .max_active(1)
        .max_queued(1)
        .max_per_owner(2)
        .build();
    let start = |owner| {
        Turn::builder()
            .group(&group)
            .owner(owner)
            .start(|sink| play(FOR_EVER, sink))
    };
    let (first, second) = (start("a"), start("a"));
    assert_eq!(group.check().unwrap_err().failure.code(), "busy");
    for (owner, code, status, message) in [
        (
            Some("a"),
            "too_many",
            429,
            "You have as many questions open as you may. Please retry in a moment.",
        ),
        (
            Some("b"),
            "busy",
            503,
            "Too many questions are being answered. Please retry in a moment.",
        ),
        (
            None,
            "busy",
            503,
            "Too many questions are being answered. Please retry in a moment.",
        ),
    ] {
        let mut turn = Turn::builder().group(&group);
        if let Some(owner) = owner {
            turn = turn.owner(owner);
        }
        let refused = turn.start(|_| -> std::future::Ready<Result<Metadata, Infallible>> {
            unreachable!("a refused turn is not started")
        });
        let id = refused.id();
        let rejected = refused.commit().await.unwrap_err();
        assert_eq!(
            (rejected.failure.code(), rejected.status().as_u16()),
            (code, status)
        );
        let response: http::Response<TurnBody> = rejected.respond();
        assert_eq!(response.headers()["retry-after"], "5");
        let body = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap();
        assert_eq!(
            body.to_bytes(),
            format!(
                "{{\"error\":{{\"code\":\"{code}\",\"message\":\"{message}\",\"recoverable\":true,\"request_id\":\"{id}\"}}}}"
            )
        );
    }
    assert_eq!((group.active(), group.queued()), (1, 1));
    // A turn that has ended makes room at once.
    drop(second);
    assert!(group.check().is_ok());
    let second = start("b");
    assert_eq!((group.active(), group.queued()), (1, 1));
    drop((first, second));
    settle().await;
    idle(&group);
}

#[tokio::test(start_paused = true)]
async fn queue_stats_of_the_orchestrator_stay() {
    let group = group(1);
    let turn = Turn::builder().group(&group).start(|_| async {
        let mut metadata = Metadata::default();
        metadata.queue_stats = Some(QueueStats::new(true, 7u32));
        Ok::<_, Infallible>(metadata)
    });
    let own = "\x1d\x1e{\"citations\":[],\"tools_used\":[],\"queue_stats\":{\"was_queued\":true,\"queue_position\":7}}";
    assert_eq!(read(turn).await, Ok(own.into()));
    // A group without a waiting list reports nothing.
    let turn = Turn::builder()
        .group(&TurnGroup::new(1))
        .start(|sink| play(&[], sink));
    assert_eq!(read(turn).await, Ok(format!("\x1d{DONE}")));
}

/// 29: one client leaves room for the others, running and waiting.
#[tokio::test(start_paused = true)]
async fn a_client_leaves_room_for_others() {
    let group = TurnGroup::builder()
        .max_active(4)
        .max_queued(4)
        .max_active_per_client(2)
        .max_queued_per_client(2)
        .build();
    let start = |client| Turn::builder().group(&group).client(client).channel();
    let mut of_alice: Vec<_> = (0..4).map(|_| start("alice")).collect();
    assert_eq!((group.active(), group.queued()), (2, 2));
    let (_, refused) = start("alice");
    let rejected = refused.commit().await.unwrap_err();
    assert_eq!(
        (rejected.status().as_u16(), rejected.failure.code()),
        (429, "too_many")
    );

    let mut of_bob = vec![start("bob"), start("bob")];
    assert_eq!((group.active(), group.queued()), (4, 2), "they run at once");
    // The room is free for anyone except alice, who has her share.
    drop(of_bob.pop());
    settle().await;
    assert_eq!((group.active(), group.queued()), (3, 2));
    // Her own turn makes room for her next one.
    drop(of_alice.remove(0));
    settle().await;
    assert_eq!((group.active(), group.queued()), (3, 1));
    drop((of_alice, of_bob));
    settle().await;
    idle(&group);
}
