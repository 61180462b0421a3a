//! Readers that disconnect, and what the disconnect policy does with the turn.

use super::*;

const GRACE: Duration = Duration::from_secs(30);

/// A way in which a reader disconnects.
type DisconnectReader = fn(Turn) -> futures_util::future::BoxFuture<'static, ()>;

const WAYS: [(&str, DisconnectReader); 5] = [
    ("turn", |turn| async { drop(turn) }.boxed()),
    ("stream", |turn| {
        async { drop(turn.stream(&Framed::default())) }.boxed()
    }),
    ("stream, read", |turn| {
        async {
            let mut stream = turn.stream(&Framed::default());
            stream.next().await.unwrap();
            assert!(stream.next().now_or_never().is_none());
        }
        .boxed()
    }),
    ("body", |turn| {
        async { drop(turn.respond(Framed::default())) }.boxed()
    }),
    ("collect", |turn| {
        async { assert!(turn.collect().now_or_never().is_none()) }.boxed()
    }),
];

/// Starts a turn that sends `a` and then waits an hour. Also returns whether its orchestrator has
/// been dropped.
async fn endless(journal: &Journal, disconnect: Disconnect) -> (Turn, Arc<AtomicBool>) {
    let (flag, dropped) = Flag::new();
    let turn = Turn::builder()
        .journal(journal)
        .on_disconnect(disconnect)
        .timeouts(Timeouts::default().idle(None).total(Duration::from_secs(3_000)))
        .start(move |sink| async move {
            let _flag = flag;
            play(&[Text("a"), Wait(3_600_000)], sink).await
        });
    (turn.commit().await.unwrap(), dropped)
}

/// Waits until the orchestrator is dropped and returns after how many seconds it was.
async fn dropped_after(dropped: &AtomicBool) -> u64 {
    let begun = Instant::now();
    settle().await;
    while !dropped.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        settle().await;
    }
    begun.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn the_policy_decides() {
    let journal = in_memory();
    for (what, disconnect_reader) in WAYS {
        for (disconnect, after, ending) in [
            (Disconnect::default(), 0, STOPPED.to_owned()),
            (Disconnect::cancel(), 0, STOPPED.to_owned()),
            (Disconnect::grace(Duration::ZERO), 0, STOPPED.to_owned()),
            (Disconnect::grace(GRACE), 30, STOPPED.to_owned()),
            (Disconnect::grace(Duration::MAX), 3_000, format!("\n\n{TOO_LONG}")),
            (Disconnect::run_to_end(), 3_000, format!("\n\n{TOO_LONG}")),
        ] {
            let (turn, dropped) = endless(&journal, disconnect).await;
            let id = turn.id();
            disconnect_reader(turn).await;
            assert_eq!(dropped_after(&dropped).await, after, "{what} {disconnect:?}");
            // The log contains the end in any case.
            let read = drain(resume(&journal, id, 0).await.stream(&Framed::default())).await;
            assert_eq!(read, format!("\x1da{ending}"), "{what} {disconnect:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_reader_counts() {
    let journal = in_memory();
    for (disconnect, after) in [(Disconnect::cancel(), 0), (Disconnect::grace(GRACE), 30)] {
        let (first, dropped) = endless(&journal, disconnect).await;
        let id = first.id();
        settle().await;
        let second = resume(&journal, id, 0).await;
        let third = resume(&journal, id, 1).await;
        drop(second);
        drop(first);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(!dropped.load(Ordering::SeqCst), "a reader is left");
        drop(third);
        assert_eq!(dropped_after(&dropped).await, after);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_resumes_in_time_keeps_the_turn_running() {
    let journal = in_memory();
    let (turn, dropped) = endless(&journal, Disconnect::grace(GRACE)).await;
    let id = turn.id();
    drop(turn);
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(29)).await;
        let reader = resume(&journal, id, 1).await;
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert!(!dropped.load(Ordering::SeqCst));
        drop(reader);
    }
    // A refused request does not count as a reader.
    tokio::time::sleep(Duration::from_secs(20)).await;
    journal.resume(id, "", 7).await.unwrap_err();
    assert_eq!(dropped_after(&dropped).await, 10);
}

#[tokio::test(start_paused = true)]
async fn every_disconnect_before_the_commitment_cancels() {
    let journal = in_memory();
    let (flag, dropped) = Flag::new();
    let turn = journaled(&journal)
        .commit_on(Commit::first_text())
        .start(move |sink| async move {
            let _flag = flag;
            play(&[Report, Wait(1_000)], sink).await
        });
    tokio::time::timeout(ms(10), turn.commit()).await.unwrap_err();
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(journal.turns(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_readers_completes() {
    let journal = in_memory();
    for disconnect in [Disconnect::run_to_end(), Disconnect::grace(GRACE)] {
        let turn = Turn::builder()
            .journal(&journal)
            .on_disconnect(disconnect)
            .start(|sink| play(&[Report, Text("a"), Wait(50), Text("b"), Report], sink));
        let turn = turn.commit().await.unwrap();
        let id = turn.id();
        drop(turn);
        tokio::time::sleep(ms(100)).await;
        let collected = resume(&journal, id, 0).await.collect().await.unwrap();
        assert_eq!((&*collected.text, collected.events.len()), ("ab", 2));
        assert_eq!(collected.end.status, Status::Completed);
        let nothing = resume(&journal, id, 5).await;
        assert!(nothing.is_empty());
        let nothing = nothing.collect().await.unwrap();
        assert_eq!((&*nothing.text, nothing.events.len()), ("", 0));
        assert_eq!(nothing.end, collected.end);
    }
}

/// If a turn is stopped for lack of readers, its sink reports that the turn has ended.
#[tokio::test(start_paused = true)]
async fn sinks_report_the_end() {
    let journal = in_memory();
    let (sink, turn) = Turn::builder().journal(&journal).channel();
    sink.send("a").await.unwrap();
    drop(turn.commit().await.unwrap());
    settle().await;
    assert_eq!(codes(&sink).await, ["turn_ended"; 5]);
}

/// A client may keep its connection and take nothing; on HTTP/2, one stream of it. Neither the turn
/// nor its place in the group may depend on such a client.
#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_not_a_reader() {
    let journal = in_memory();
    let group = TurnGroup::new(1);
    let expected = format!("\x1d{TOO_SLOW}");
    for (disconnect, after) in [
        (Disconnect::cancel(), 40),
        (Disconnect::grace(GRACE), 70),
        (Disconnect::run_to_end(), 3_000),
    ] {
        let (flag, dropped) = Flag::new();
        let timeouts = Timeouts::default()
            .idle(None)
            .total(Duration::from_secs(3_000))
            .write_stall(Duration::from_secs(40));
        let turn = Turn::builder()
            .journal(&journal)
            .group(&group)
            .on_disconnect(disconnect)
            .timeouts(timeouts)
            .start(move |sink| async move {
                let _flag = flag;
                play(&[Text("a"), Wait(3_600_000)], sink).await
            });
        let turn = turn.commit().await.unwrap();
        let id = turn.id();
        let stream = turn.stream(&Framed::default());
        settle().await;
        // A reader without a wire is not cut off.
        let unread = resume(&journal, id, 1).await;
        tokio::time::sleep(Duration::from_secs(39)).await;
        drop(unread);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(40 + dropped_after(&dropped).await, after, "{disconnect:?}");
        assert_eq!(group.active(), 0, "{disconnect:?}");
        assert_eq!(drain(stream).await, expected, "{disconnect:?}");
    }
}

/// The same after the end, when the turn only has to release its place in the group.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_take_the_end_does_not_keep_the_place() {
    let journal = in_memory();
    for is_journaled in [true, false] {
        let group = TurnGroup::new(1);
        let builder = Turn::builder().group(&group);
        let builder = if is_journaled {
            builder.journal(&journal)
        } else {
            builder
        };
        let turn = builder.start(|sink| play(&[Text("a")], sink));
        let turn = turn.commit().await.unwrap();
        // A turn that is not streamed yet still has its reader.
        tokio::time::sleep(Duration::from_secs(100)).await;
        let stream = turn.stream(&Framed::default());
        let begun = Instant::now();
        tokio::time::sleep(Timeouts::WRITE_STALL - ms(1)).await;
        assert_eq!(group.active(), 1);
        group.drained().await;
        assert_eq!(begun.elapsed().as_secs(), 30, "{is_journaled}");
        assert_eq!(group.active(), 0);
        let read = drain(stream).await;
        let expected = if is_journaled {
            format!("\x1d{TOO_SLOW}")
        } else {
            format!("\x1da{DONE}")
        };
        assert_eq!(read, expected);
        // The place is released once.
        assert_eq!((group.active(), group.queued()), (0, 0));
        let next = Turn::builder()
            .group(&group)
            .start(|sink| play(&[Text("a")], sink));
        drop(next.commit().await.unwrap());
    }
}
