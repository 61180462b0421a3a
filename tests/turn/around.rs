//! Collector pairs, hooks, groups and collected turns.

use super::*;

async fn collector(events: EventSink) -> Result<&'static str, SendError> {
    events.send(Search::new("bm25")).await?;
    events.send(Search::new("dense")).await?;
    Ok("found")
}

#[tokio::test(start_paused = true)]
async fn pairs() {
    let events: Vec<Event> = vec![Search::new("bm25").into(), Search::new("dense").into()];
    let alone = collect_evidence(collector).await.unwrap();
    assert_eq!((alone.value, &alone.events), ("found", &events));

    let lines = format!("{SEARCH}{}", SEARCH.replace("bm25", "dense"));
    for (tokens, expected) in [
        (vec![Ok("a"), Ok(" b")], Ok(format!("{lines}\x1da b{DONE}"))),
        (vec![], Ok(format!("{lines}\x1d{DONE}"))),
        (
            vec![Ok("a"), Err("cut"), Ok("b")],
            Ok(format!("{lines}\x1da\n\n{SORRY}{FAILED}")),
        ),
        (vec![Err("cut")], Ok(format!("{lines}\x1d{SORRY}{FAILED}"))),
    ] {
        let expected_events = events.clone();
        let turn = Turn::builder().start_pair(collector, move |evidence| {
            assert_eq!((evidence.value, evidence.events), ("found", expected_events));
            Reply::new(stream::iter(tokens), Metadata::default().tools_used(["bm25"]))
        });
        assert_eq!(read(turn).await, expected);
    }

    let failing = Turn::builder().start_pair(
        |_: EventSink| async { Err::<(), _>("no index") },
        |_| Reply::new(stream::empty::<Result<&str, &str>>(), Metadata::default()),
    );
    assert_eq!(read(failing).await, Err("chat_failed".into()));
}

/// The endings that the hook received, with their times.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Ended>>>);

/// The status, the text and the answer.
type Ended = (&'static str, String, String);

impl Told {
    fn hook(
        &self,
        takes: u64,
    ) -> impl FnOnce(Ending) -> futures_util::future::BoxFuture<'static, ()> + Send + 'static {
        let told = self.clone();
        move |ending| {
            async move {
                tokio::time::sleep(ms(takes)).await;
                let answer = ending.answer();
                told.0
                    .lock()
                    .unwrap()
                    .push((ending.end.status.as_str(), ending.text, answer));
            }
            .boxed()
        }
    }

    fn all(&self) -> Vec<Ended> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn the_hook_runs_once_and_before_the_end() {
    let said = |status, text: &str, answer: &str| vec![(status, text.to_owned(), answer.to_owned())];
    for (steps, expected) in [
        (&[][..], said("completed", "", "")),
        (
            &[Report, Text("a"), Wait(5), Bytes(b"\xc3"), Bytes(b"\xa9")],
            said("completed", "a\u{e9}", "a\u{e9}"),
        ),
        (&[Fail], said("failed", "", SORRY)),
        (
            &[Report, Text("a"), Fail],
            said("failed", "a", &format!("a\n\n{SORRY}")),
        ),
        (&[Text("a"), Panic], said("failed", "a", &format!("a\n\n{SORRY}"))),
        (
            &[Text("a"), Wait(1000)],
            said("failed", "a", "a\n\nThe answer took too long. Please retry."),
        ),
    ] {
        let told = Told::default();
        let timeouts = Timeouts::default().idle(ms(500));
        let turn = Turn::builder()
            .timeouts(timeouts)
            .before_end(told.hook(7))
            .start(|sink| play(steps, sink));
        if let Ok(turn) = turn.commit().await {
            let mut stream = turn.stream(&Framed::default());
            while let Some(chunk) = stream.next().await {
                assert_eq!(
                    chunk.contains(&0x1e),
                    !told.all().is_empty(),
                    "the hook comes before the trailer"
                );
            }
        }
        assert_eq!(told.all(), expected, "{steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_hook_runs_after_stops_and_disconnects() {
    let stopped = vec![("stopped", "a".to_owned(), "a".to_owned())];
    for disconnect in [false, true] {
        let told = Told::default();
        let turn = Turn::builder()
            .before_end(told.hook(7))
            .start(|sink| play(&[Text("a"), Wait(50)], sink));
        let turn = turn.commit().await.unwrap();
        if disconnect {
            drop(turn);
        } else {
            turn.handle().stop();
            drain(turn.stream(&Framed::default())).await;
        }
        tokio::time::sleep(ms(10)).await;
        assert_eq!(told.all(), stopped);
    }
}

/// While the hook runs nothing can be added, or the hook would have only a part of the answer.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_the_hook_runs() {
    let told = Told::default();
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let turn = Turn::builder()
        .before_end(told.hook(50))
        .start(move |sink: Sink| async move {
            sink.send("a").await?;
            *keep.lock().unwrap() = Some(sink);
            Ok::<_, SendError>(Metadata::default())
        });
    let turn = turn.commit().await.unwrap();
    settle().await;
    let sink = kept.lock().unwrap().take().unwrap();
    assert_eq!(
        sink.send("b").await.map_err(|error| error.code().to_owned()),
        Err("turn_ended".into())
    );
    assert!(!turn.handle().stop(), "the end is decided");
    assert_eq!(
        drain(turn.stream(&Framed::default())).await,
        format!("\x1da{EMPTY}")
    );
    assert_eq!(told.all(), [("completed", "a".into(), "a".into())]);
}

/// A turn that completed must not fail because of the hook's own time.
#[tokio::test(start_paused = true)]
async fn a_slow_hook_does_not_change_the_end() {
    let told = Told::default();
    let timeouts = Timeouts::default().idle(ms(500)).total(ms(600));
    let turn = Turn::builder()
        .timeouts(timeouts)
        .before_end(told.hook(9_000))
        .start(|sink| play(&[Text("a")], sink));
    assert_eq!(read(turn).await, Ok(format!("\x1da{DONE}")));
    assert_eq!(told.all(), [("completed", "a".into(), "a".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_or_panics_does_not_block_the_end() {
    let hang = Turn::builder()
        .before_end(|_| std::future::pending())
        .start(|sink| play(&[Text("a")], sink));
    let begun = Instant::now();
    assert_eq!(read(hang).await, Ok(format!("\x1da{DONE}")));
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    // The application could not store the answer, so the turn does not complete.
    let panics = Turn::builder()
        .before_end(|_| async { panic!("hook") })
        .start(|sink| play(&[Text("a")], sink));
    assert_eq!(read(panics).await, Ok(format!("\x1da\n\n{SORRY}{FAILED}")));
}

fn code(rejected: Result<(), Rejected>) -> String {
    rejected.map_or_else(|rejected| rejected.failure.kind.to_string(), |()| "free".into())
}

#[tokio::test(start_paused = true)]
async fn groups_count_and_refuse() {
    let group = TurnGroup::new(1);
    let start = |steps| Turn::builder().group(&group).start(|sink| play(steps, sink));
    for (what, steps) in [
        ("completes", &[Text("a"), Wait(5)][..]),
        ("fails", &[Fail]),
        ("panics", &[Text("a"), Panic]),
        ("stops", &[Text("a"), Wait(50)]),
        ("disconnects", &[Text("a"), Wait(50)]),
        ("disconnects at once", &[Text("a"), Wait(50)]),
    ] {
        let turn = start(steps);
        assert_eq!(
            (group.active(), code(group.check())),
            (1, "busy".into()),
            "{what}"
        );
        let called = Arc::new(AtomicBool::new(false));
        let witness = Arc::clone(&called);
        let refused = Turn::builder().group(&group).start(move |_| {
            witness.store(true, Ordering::SeqCst);
            async { Ok::<_, Infallible>(Metadata::default()) }
        });
        let id = refused.id();
        let rejected = refused.commit().await.unwrap_err();
        assert_eq!(
            (rejected.failure.code(), rejected.retry_after),
            ("busy", Some(Duration::from_secs(5)))
        );
        assert_eq!(rejected.id, id, "the id in the response is the one in the logs");
        assert!(!called.load(Ordering::SeqCst), "a refused turn costs nothing");
        match what {
            "disconnects at once" => drop(turn),
            "disconnects" => drop(turn.commit().await.unwrap()),
            "stops" => {
                turn.handle().stop();
                drop(read(turn).await);
            }
            _ => drop(read(turn).await),
        }
        settle().await;
        assert_eq!(
            (group.active(), code(group.check())),
            (0, "free".into()),
            "{what}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_channel_is_closed() {
    let group = TurnGroup::new(0);
    let (sink, turn) = Turn::builder().group(&group).channel();
    assert_eq!(codes(&sink).await, ["turn_ended"; 5]);
    assert_eq!(read(turn).await, Err("busy".into()));
}

#[tokio::test(start_paused = true)]
async fn groups_shut_down() {
    let group = TurnGroup::new(10);
    let start = |steps| Turn::builder().group(&group).start(|sink| play(steps, sink));
    let (early, late) = (start(&[Wait(50)]), start(&[Text("a"), Wait(50)]));
    let late = late.commit().await.unwrap();
    group.shut_down();
    assert_eq!(code(group.check()), "shutting_down");
    assert_eq!(read(start(&[])).await, Err("shutting_down".into()));
    assert_eq!(read(early).await, Err("shutting_down".into()));
    assert!(
        group.drained().now_or_never().is_none(),
        "a reader is still connected"
    );
    let drained = group.drained();
    let rest = drain(late.stream(&Framed::default()));
    let (rest, ()) = tokio::time::timeout(ms(10), futures_util::future::join(rest, drained))
        .await
        .unwrap();
    assert_eq!(
        rest,
        "\x1da\n\nThe server is restarting. Please retry in a moment.\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\
         \"error\":{\"code\":\"shutting_down\",\"message\":\"The server is restarting. Please retry in a moment.\",\"recoverable\":true}}"
    );
}

#[tokio::test(start_paused = true)]
async fn collected_turns() {
    for (steps, text, events, status) in [
        (
            &[Report, Text("a"), Wait(1), Report, Text("b")][..],
            "ab",
            2,
            "completed",
        ),
        (&[Report, Text("a"), Fail], "a", 1, "failed"),
        (&[Text("a"), Bytes(b"\xc3"), Panic], "a\u{fffd}", 0, "failed"),
    ] {
        let turn = Turn::start(|sink| play(steps, sink)).commit().await.unwrap();
        let collected = turn.collect().await.unwrap();
        assert_eq!(
            (
                &*collected.text,
                collected.events.len(),
                collected.end.status.as_str()
            ),
            (text, events, status)
        );
        assert!(collected.events.iter().all(|(_, timestamp)| timestamp.is_some()));
    }
    let (flag, dropped) = Flag::new();
    let endless = Turn::start(|sink: Sink| async move {
        let _flag = flag;
        loop {
            sink.send("x".repeat(10_000)).await?;
        }
        #[expect(unreachable_code, reason = "names the type of the result")]
        Ok::<_, SendError>(Metadata::default())
    });
    assert_eq!(
        endless
            .commit()
            .await
            .unwrap()
            .collect()
            .await
            .unwrap_err()
            .code(),
        "turn_too_large"
    );
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
}
