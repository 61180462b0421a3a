//! Stops, disconnects, and the errors of sinks after them.

use super::*;

#[tokio::test(start_paused = true)]
async fn stop_in_every_phase() {
    for (steps, at, expected) in [
        (&[Report, Wait(50)][..], None, Err("stopped")),
        (&[Wait(20), Report, Wait(50)], Some(10), Err("stopped")),
        (
            &[Report, Wait(50), Text("a")],
            Some(10),
            Ok(format!("{SEARCH}\x1d{STOPPED}")),
        ),
        (
            &[Report, Text("a"), Wait(50), Text("b")],
            Some(10),
            Ok(format!("{SEARCH}\x1da{STOPPED}")),
        ),
        (
            &[Bytes(b"a\xc3"), Wait(50)],
            Some(10),
            Ok(format!("\x1da\u{fffd}{STOPPED}")),
        ),
    ] {
        let turn = Turn::start(|sink| play(steps, sink));
        let handle = turn.handle();
        assert_eq!(handle.id(), turn.id());
        let again = handle.clone();
        let stop = async move {
            if let Some(at) = at {
                tokio::time::sleep(ms(at)).await;
            }
            assert!(handle.stop());
            assert!(!handle.stop(), "a second stop does nothing");
        };
        let begun = Instant::now();
        // An immediate stop precedes everything else.
        let ((), read) = tokio::join!(stop, read(turn));
        assert_eq!(read, expected.map_err(str::to_owned), "{steps:?}");
        assert_eq!(begun.elapsed(), ms(at.unwrap_or(0)), "{steps:?}");
        assert!(
            !again.stop() && !again.fail(Failure::default()),
            "nothing after the end"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_orchestrator_is_polled_is_a_stop() {
    // An empty list completes the turn.
    for after in [
        &[Text("b")][..],
        &[Fail],
        &[FailAs("quota", "No.")],
        &[Panic],
        &[],
    ] {
        let (give, take) = tokio::sync::oneshot::channel::<TurnHandle>();
        let turn = Turn::start(|sink| async move {
            let handle = take.await?;
            sink.send("a").await?;
            // As another thread does while the orchestrator runs.
            assert!(handle.stop());
            play(after, sink).await
        });
        give.send(turn.handle()).ok();
        assert_eq!(read(turn).await, Ok(format!("\x1da{STOPPED}")), "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_fails_the_turn() {
    let turn = Turn::start(|sink| play(&[Text("a"), Wait(50)], sink))
        .commit()
        .await
        .unwrap();
    assert!(
        turn.handle()
            .fail(Failure::new("quota", "No more today.").permanent())
    );
    assert_eq!(
        drain(turn.stream(&Framed::default())).await,
        "\x1da\n\nNo more today.\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\
         \"error\":{\"code\":\"quota\",\"message\":\"No more today.\",\"recoverable\":false}}"
    );
}

#[tokio::test(start_paused = true)]
async fn sinks_report_the_end() {
    type Act = fn(Sink, Pending) -> Option<Pending>;
    for (what, act, code) in [
        (
            "finish",
            (|sink, turn| sink.finish(Metadata::default()).map(|()| turn).ok()) as Act,
            "turn_ended",
        ),
        (
            "fail",
            |sink, turn| sink.fail(Failure::default()).map(|()| turn).ok(),
            "turn_ended",
        ),
        ("stop", |sink, turn| sink.stop().map(|()| turn).ok(), "turn_ended"),
        (
            "stop from elsewhere",
            |_, turn| turn.handle().stop().then_some(turn),
            "turn_ended",
        ),
        ("disconnect", |_, _| None, "disconnected"),
    ] {
        let (sink, turn) = Turn::builder().channel();
        sink.send("a").await.unwrap();
        let turn = act(sink.clone(), turn);
        assert_eq!(codes(&sink).await, [code; 5], "{what}, at once");
        settle().await;
        assert_eq!(codes(&sink).await, [code; 5], "{what}, later");
        let thread = std::thread::spawn({
            let sink = sink.clone();
            move || sink.blocking_send("x").unwrap_err().code().to_owned()
        });
        assert_eq!(thread.join().unwrap(), code, "{what}, on a thread");
        drop(turn);
    }
}

#[tokio::test(start_paused = true)]
async fn an_orchestrator_stops_its_own_turn() {
    let (sink, turn) = Turn::builder().channel();
    sink.send("a").await.unwrap();
    sink.stop().unwrap();
    assert_eq!(sink.stop().unwrap_err().code(), "turn_ended");
    assert_eq!(read(turn).await, Ok(format!("\x1da{STOPPED}")));
}

#[tokio::test(start_paused = true)]
async fn nothing_follows_the_end() {
    let (sink, turn) = Turn::builder().channel();
    sink.send("a").await.unwrap();
    sink.finish(Metadata::default()).unwrap();
    assert_eq!(
        sink.finish(Metadata::default().mode("late")).unwrap_err().code(),
        "turn_ended"
    );
    assert_eq!(sink.fail(Failure::default()).unwrap_err().code(), "turn_ended");
    sink.send("b").await.unwrap_err();
    assert_eq!(read(turn).await, Ok(format!("\x1da{EMPTY}")));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_sink_fails_a_channel() {
    for (before, expected) in [
        (None, Err("chat_failed".to_owned())),
        (Some("a"), Ok(format!("\x1da\n\n{SORRY}{FAILED}"))),
    ] {
        let (sink, turn) = Turn::builder().channel();
        let clone = sink.clone();
        drop(sink);
        settle().await;
        if let Some(text) = before {
            clone.send(text).await.unwrap();
        }
        drop(clone);
        assert_eq!(read(turn).await, expected);
    }
    // With an orchestrator, dropping sinks has no effect.
    let turn = Turn::start(|sink| async move {
        drop(sink);
        Ok::<_, Infallible>(Metadata::default())
    });
    assert_eq!(read(turn).await, Ok(format!("\x1d{EMPTY}")));
}

#[tokio::test(start_paused = true)]
async fn blocked_senders_wake() {
    for (what, expected) in [
        ("taken", "sent"),
        ("stop", "turn_ended"),
        ("finish", "turn_ended"),
        ("disconnect", "disconnected"),
    ] {
        let (sink, turn) = Turn::builder()
            .queue(QueueLimits::default().max_frames(1))
            .channel();
        sink.send(Search::new("bm25")).await.unwrap();
        let blocked: Vec<_> = (0..3)
            .map(|_| {
                let sink = sink.clone();
                async move {
                    sink.send(Search::new("bm25"))
                        .await
                        .map_or_else(|error| error.code().to_owned(), |()| "sent".into())
                }
            })
            .collect();
        let woken = futures_util::future::join_all(blocked);
        let act = async {
            settle().await;
            match what {
                "stop" => assert!(turn.handle().stop()),
                "finish" => sink.finish(Metadata::default()).unwrap(),
                "disconnect" => drop(turn),
                _ => {
                    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
                    for _ in 0..4 {
                        assert_eq!(plain(&stream.next().await.unwrap()), SEARCH);
                    }
                }
            }
        };
        let (codes, ()) = tokio::time::timeout(ms(10), futures_util::future::join(woken, act))
            .await
            .unwrap();
        assert_eq!(codes, [expected; 3], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_any_stage_cancels() {
    type Stage = fn(Pending) -> futures_util::future::BoxFuture<'static, ()>;
    let stages: [(&str, Stage); 7] = [
        ("pending, at once", |turn| async { drop(turn) }.boxed()),
        ("pending", |turn| {
            async {
                settle().await;
                drop(turn)
            }
            .boxed()
        }),
        ("commit", |turn| {
            async {
                let commit = turn.commit();
                tokio::time::timeout(ms(1), commit).await.unwrap_err();
            }
            .boxed()
        }),
        ("turn", |turn| async { drop(committed(turn).await) }.boxed()),
        ("stream", |turn| {
            async { drop(committed(turn).await.stream(&Framed::default())) }.boxed()
        }),
        ("stream, read", |turn| {
            async {
                let mut stream = committed(turn).await.stream(&Framed::default());
                stream.next().await.unwrap();
                assert!(stream.next().now_or_never().is_none());
            }
            .boxed()
        }),
        ("body", |turn| {
            async { drop(committed(turn).await.respond(Framed::default())) }.boxed()
        }),
    ];
    async fn committed(turn: Pending) -> Turn {
        turn.commit().await.unwrap()
    }
    for (what, stage) in stages {
        let (flag, dropped) = Flag::new();
        let turn = Turn::builder()
            .commit_on(Commit::first_frame())
            .start(move |sink: Sink| async move {
                let _flag = flag;
                if what != "commit" {
                    sink.send("a").await?;
                }
                std::future::pending::<Result<Metadata, SendError>>().await
            });
        stage(turn).await;
        settle().await;
        assert!(dropped.load(Ordering::SeqCst), "{what}");
    }
}
