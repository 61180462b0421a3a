//! The order, back-pressure and errors of the sink.

use super::*;

#[tokio::test(start_paused = true)]
async fn clones_keep_their_order() {
    let turn = Turn::builder()
        .queue(QueueLimits::default().max_frames(3))
        .start(|sink: Sink| async move {
            let clones = (0..4).map(|clone| {
                let sink = sink.clone();
                async move {
                    for n in 0..50 {
                        sink.send(Search::new(format!("{clone}")).page(n)).await?;
                        tokio::task::yield_now().await;
                    }
                    Ok::<_, SendError>(())
                }
            });
            futures_util::future::try_join_all(clones).await?;
            Ok::<_, SendError>(Metadata::default())
        });
    let collected = turn.commit().await.unwrap().collect().await.unwrap();
    assert_eq!(collected.events.len(), 200);
    for clone in 0..4 {
        let pages: Vec<_> = collected
            .events
            .iter()
            .filter_map(|(event, _)| match event {
                Event::Search(search) if search.tool == clone.to_string() => search.page,
                _ => None,
            })
            .collect();
        assert_eq!(pages, (0..50).collect::<Vec<_>>());
    }
}

/// Counts how much an endless producer can send while the reader reads `takes` times.
async fn sent_after(limits: QueueLimits, piece: &'static str, event: bool, takes: usize) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let turn = Turn::builder().queue(limits).start(move |sink: Sink| async move {
        loop {
            if event {
                sink.send(Reasoning::new(piece)).await?;
            } else {
                sink.send(piece).await?;
            }
            counter.fetch_add(1, Ordering::SeqCst);
        }
        #[expect(unreachable_code, reason = "names the type of the result")]
        Ok::<_, SendError>(Metadata::default())
    });
    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
    for _ in 0..takes {
        settle().await;
        stream.next().await.unwrap();
    }
    settle().await;
    count.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn back_pressure() {
    const KIB: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let frames = QueueLimits::default().max_frames(10);
    let bytes = QueueLimits::default().max_bytes(1024);
    for (limits, event, takes, expected) in [
        (frames, true, 0, 10),
        (frames, true, 1, 20),
        (frames, true, 3, 40),
        // 128 bytes each: the ninth one finds 1,024 waiting bytes.
        (bytes, false, 0, 8),
        (bytes, false, 1, 16),
        (bytes, false, 3, 32),
    ] {
        assert_eq!(
            sent_after(limits, KIB, event, takes).await,
            expected,
            "{limits:?} {takes}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn full_queues_reject_or_drop() {
    let (sink, turn) = Turn::builder()
        .queue(QueueLimits::default().max_frames(2))
        .channel();
    let sink = sink.drop_when_full(["reasoning"]);
    sink.send(Reasoning::new("1")).await.unwrap();
    sink.send(Search::new("bm25")).await.unwrap();
    assert!(matches!(
        sink.try_send(Search::new("bm25")),
        Err(TrySendError::Full)
    ));
    assert!(matches!(sink.try_send("text"), Err(TrySendError::Full)));
    // Dropped, and counted.
    sink.send(Reasoning::new("2")).await.unwrap();
    sink.try_send(Reasoning::new("3")).unwrap();
    sink.finish(Metadata::default()).unwrap();
    assert_eq!(
        read(turn).await.unwrap(),
        format!(
            "{{\"event\":\"reasoning\",\"content\":\"1\"}}\n{SEARCH}\x1d\x1e{{\"citations\":[],\"tools_used\":[],\"events_dropped\":2}}"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_over_the_limit_is_rejected_and_the_turn_continues() {
    let wire = Framed::default().limits(Limits::default().max_line_bytes(100));
    let turn = Turn::builder()
        .queue(QueueLimits::default().max_event_bytes(100))
        .start(|sink: Sink| async move {
            let long = Reasoning::new("x".repeat(100));
            assert_eq!(
                sink.send(long.clone()).await.unwrap_err().code(),
                "event_too_large"
            );
            sink.send(Search::new("bm25")).await?;
            tokio::time::sleep(ms(1)).await;
            assert_eq!(
                sink.send(long.clone()).await.unwrap_err().code(),
                "event_too_large"
            );
            assert!(matches!(
                sink.try_send(long),
                Err(TrySendError::Send(SendError::Invalid(_)))
            ));
            sink.send("a").await?;
            Ok::<_, SendError>(Metadata::default())
        });
    assert_eq!(
        drain(turn.commit().await.unwrap().stream(&wire)).await,
        format!("{SEARCH}\x1da{EMPTY}")
    );
}

/// The queue may accept events that the wire rejects. If the wire is chosen after the end, the end
/// still counts the missing ones.
#[tokio::test(start_paused = true)]
async fn events_that_the_wire_rejects_are_counted() {
    let wire = Framed::default().limits(Limits::default().max_line_bytes(100));
    let turn = Turn::start(|sink: Sink| async move {
        sink.send(Reasoning::new("x".repeat(100))).await?;
        Ok::<_, SendError>(Metadata::default())
    });
    let turn = turn.commit().await.unwrap();
    settle().await;
    assert_eq!(
        drain(turn.stream(&wire)).await,
        "\x1d\x1e{\"citations\":[],\"tools_used\":[],\"events_dropped\":1}"
    );
}

#[test]
fn a_plain_thread_sends_with_back_pressure() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (sink, turn) = {
        let _context = runtime.enter();
        Turn::builder()
            .queue(QueueLimits::default().max_frames(2))
            .channel()
    };
    let thread = std::thread::spawn(move || {
        for n in 0..1000 {
            sink.blocking_send(Custom::new("n", &n).unwrap()).unwrap();
        }
        sink.blocking_send("x".repeat(100_000)).unwrap();
        sink.finish(Metadata::default()).unwrap();
    });
    let collected = runtime.block_on(async { turn.commit().await.unwrap().collect().await.unwrap() });
    thread.join().unwrap();
    let sent: Vec<_> = (0..1000)
        .map(|n| Event::from(Custom::new("n", &n).unwrap()))
        .collect();
    assert_eq!(
        collected
            .events
            .into_iter()
            .map(|(event, _)| event)
            .collect::<Vec<_>>(),
        sent
    );
    assert_eq!(collected.text, "x".repeat(100_000));
}
