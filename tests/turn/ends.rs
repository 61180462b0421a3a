//! How turns end, and when their response begins.

use super::*;

#[tokio::test(start_paused = true)]
async fn every_end_in_every_phase() {
    for (steps, expected) in [
        (&[][..], Ok(format!("\x1d{DONE}"))),
        (&[Report], Ok(format!("{SEARCH}\x1d{DONE}"))),
        (&[Text("Hi")], Ok(format!("\x1dHi{DONE}"))),
        (&[Report, Text("Hi"), Wait(1), Text(" you")], Ok(format!("{SEARCH}\x1dHi you{DONE}"))),
        (&[Text("a\x1db\x1ec")], Ok(format!("\x1da\u{241d}b\u{241e}c{DONE}"))),
        (&[Bytes(b"\xf0\x9f"), Wait(1), Bytes(b"\x98\x80!")], Ok(format!("\x1d\u{1f600}!{DONE}"))),
        (&[Bytes(b"\xf0\x9f\x98")], Ok(format!("\x1d\u{fffd}{DONE}"))),
        (&[Bytes(b"\xf0\x9f"), Text("x")], Ok(format!("\x1d\u{fffd}x{DONE}"))),
        (
            &[Text("Hi"), Report, Text("!")],
            Ok("\x1dHi!\x1e{\"citations\":[],\"tools_used\":[\"bm25\"],\"events\":[{\"event\":\"search\",\"tool\":\"bm25\"}]}".into()),
        ),
        (&[Fail], Err("chat_failed")),
        (&[Wait(1), Fail], Err("chat_failed")),
        (&[Report, Fail], Ok(format!("{SEARCH}\x1d{SORRY}{FAILED}"))),
        (&[Report, Wait(1), Fail], Ok(format!("{SEARCH}\x1d{SORRY}{FAILED}"))),
        (&[Report, Text("Hi"), Wait(1), Fail], Ok(format!("{SEARCH}\x1dHi\n\n{SORRY}{FAILED}"))),
        (&[Bytes(b"Hi\xc3"), Fail], Ok(format!("\x1dHi\u{fffd}\n\n{SORRY}{FAILED}"))),
        (&[Panic], Err("chat_failed")),
        (&[Report, Panic], Ok(format!("{SEARCH}\x1d{SORRY}{FAILED}"))),
        (&[Report, Wait(1), Panic], Ok(format!("{SEARCH}\x1d{SORRY}{FAILED}"))),
        (&[Text("Hi"), Wait(1), Panic], Ok(format!("\x1dHi\n\n{SORRY}{FAILED}"))),
        (&[FailAs("no_documents", "Nothing is indexed.")], Err("no_documents")),
        (
            &[Report, FailAs("no_documents", "Nothing \x1e is indexed.")],
            Ok(format!(
                "{SEARCH}\x1dNothing \u{241e} is indexed.\x1e{{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\
                 \"error\":{{\"code\":\"no_documents\",\"message\":\"Nothing \\u001e is indexed.\",\"recoverable\":true}}}}"
            )),
        ),
    ] {
        check(Turn::builder(), steps, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_end_has_the_mode() {
    let turn = || Turn::builder().mode("hybrid");
    check(
        turn(),
        &[],
        Ok("\x1d\x1e{\"citations\":[],\"mode\":\"hybrid\",\"tools_used\":[\"bm25\"]}".into()),
    )
    .await;
    let failed = FAILED.replace("\"tools_used\"", "\"mode\":\"hybrid\",\"tools_used\"");
    check(
        turn(),
        &[Text("a"), Fail],
        Ok(format!("\x1da\n\n{SORRY}{failed}")),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn commit_policies() {
    let first_frame = Commit::first_frame();
    let first_text = Commit::first_text();
    let deadline = Commit::deadline(ms(7));
    for (policy, steps, at, expected) in [
        (first_frame, &[Wait(5), Report, Wait(5), Text("a")][..], 5, Ok(())),
        (first_frame, &[Wait(5), Text("a"), Wait(5)], 5, Ok(())),
        (first_frame, &[], 0, Ok(())),
        (first_frame, &[Wait(3)], 3, Ok(())),
        (first_frame, &[Wait(3), Fail], 3, Err("chat_failed")),
        (first_frame, &[Wait(3), Report, Fail], 3, Ok(())),
        (first_text, &[Wait(5), Report, Wait(5), Text("a")], 10, Ok(())),
        (first_text, &[Report, Wait(5), Fail], 5, Err("chat_failed")),
        (first_text, &[Report, Wait(5)], 5, Ok(())),
        // A full queue: no further frame could arrive.
        (
            first_text,
            &[Report, Report, Report, Wait(5), Text("a")],
            0,
            Ok(()),
        ),
        (
            first_text.or_after(ms(7)),
            &[Report, Wait(20), Text("a")],
            7,
            Ok(()),
        ),
        (
            first_text.or_after(ms(7)),
            &[Report, Wait(5), Text("a")],
            5,
            Ok(()),
        ),
        (deadline, &[Report, Text("a"), Wait(20)], 7, Ok(())),
        (deadline, &[Wait(20), Text("a")], 7, Ok(())),
        (deadline, &[Text("a"), Wait(5), Fail], 5, Err("chat_failed")),
        (deadline, &[Text("a"), Wait(5)], 5, Ok(())),
        (Commit::deadline(Duration::MAX), &[Text("a"), Wait(5)], 5, Ok(())),
    ] {
        let turn = Turn::builder().queue(QueueLimits::default().max_frames(3));
        let begun = Instant::now();
        let committed = turn
            .commit_on(policy)
            .start(|sink| play(steps, sink))
            .commit()
            .await;
        let code = committed.map(drop).map_err(|rejected| rejected.failure.kind);
        assert_eq!(code, expected.map_err(Into::into), "{policy:?} {steps:?}");
        assert_eq!(begun.elapsed().as_millis(), at, "{policy:?} {steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn time_outs() {
    let none = Timeouts::default()
        .keep_alive(None)
        .idle(None)
        .total(None)
        .write_stall(None);
    for (timeouts, steps, took, expected) in [
        (none.idle(ms(100)), &[Wait(200)][..], 100, Err("timeout")),
        (none.total(ms(100)), &[Wait(200)], 100, Err("timeout")),
        (none.idle(ms(100)), &[Report, Wait(99), Text("a"), Wait(99), Text("b"), Wait(200)], 298, Ok(format!("{SEARCH}\x1dab\n\n{TOO_LONG}"))),
        (none.total(ms(100)), &[Report, Wait(99), Text("a"), Wait(99)], 100, Ok(format!("{SEARCH}\x1da\n\n{TOO_LONG}"))),
        (none.idle(ms(100)), &[Report, Wait(200)], 100, Ok(format!("{SEARCH}\x1d{TOO_LONG}"))),
        (none.keep_alive(ms(15)), &[Report, Wait(40), Text("a"), Wait(40), Text("b")], 80, Ok(format!("{SEARCH}\n\n\x1dab{DONE}"))),
        (none.keep_alive(ms(15)), &[Report, Wait(10), Report, Wait(14), Text("a")], 24, Ok(format!("{SEARCH}{SEARCH}\x1da{DONE}"))),
        (none, &[Report, Wait(1_000_000_000), Text("a")], 1_000_000_000, Ok(format!("{SEARCH}\x1da{DONE}"))),
        (none.idle(Duration::MAX).total(Duration::MAX).keep_alive(Duration::MAX).write_stall(Duration::MAX), &[Report, Wait(10)], 10, Ok(format!("{SEARCH}\x1d{DONE}"))),
        // Silence after a late event does not count as a slow reader.
        (none.write_stall(ms(30)), &[Text("a"), Wait(1), Report, Wait(100), Text("b")], 101, Ok("\x1dab\x1e{\"citations\":[],\"tools_used\":[\"bm25\"],\"events\":[{\"event\":\"search\",\"tool\":\"bm25\"}]}".into())),
    ] {
        let begun = Instant::now();
        check(Turn::builder().timeouts(timeouts), steps, expected).await;
        assert_eq!(begun.elapsed().as_millis(), took, "{steps:?}");
    }
}

/// Late events have no bytes before the end, so a reader that keeps up never takes them. They must
/// not fill the queue.
#[tokio::test(start_paused = true)]
async fn late_events_do_not_fill_the_queue() {
    let turn = Turn::builder().queue(QueueLimits::default().max_frames(4));
    let read = read(turn.start(|sink: Sink| async move {
        sink.send("a").await?;
        for _ in 0..20 {
            sink.send(Search::new("bm25")).await?;
        }
        Ok::<_, SendError>(Metadata::default())
    }));
    let bytes = tokio::time::timeout(ms(10), read)
        .await
        .expect("the orchestrator waits for ever")
        .unwrap();
    let events = vec!["{\"event\":\"search\",\"tool\":\"bm25\"}"; 20].join(",");
    assert_eq!(
        bytes,
        format!("\x1da\x1e{{\"citations\":[],\"tools_used\":[],\"events\":[{events}]}}")
    );
}

#[tokio::test(start_paused = true)]
async fn a_stalled_reader_ends_the_turn() {
    let (flag, dropped) = Flag::new();
    let timeouts = Timeouts::default().write_stall(ms(30));
    let turn = Turn::builder().timeouts(timeouts).start(|sink: Sink| async move {
        let _flag = flag;
        sink.send("a").await?;
        tokio::time::sleep(ms(5)).await;
        sink.send("b").await?;
        std::future::pending::<Result<Metadata, SendError>>().await
    });
    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
    assert_eq!(plain(&stream.next().await.unwrap()), "\x1da");
    tokio::time::sleep(ms(34)).await;
    assert!(!dropped.load(Ordering::SeqCst));
    tokio::time::sleep(ms(2)).await;
    assert!(dropped.load(Ordering::SeqCst), "the orchestrator is freed");
    assert_eq!(
        drain(stream).await,
        "b\n\nThe connection was too slow for this answer. Please retry.\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\
         \"status\":\"failed\",\"error\":{\"code\":\"write_stalled\",\"message\":\"The connection was too slow for this answer. Please retry.\",\
         \"recoverable\":true}}"
    );
}
