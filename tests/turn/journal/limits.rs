//! The limits of a journal, which drops frames of one turn, turns above the limits, and expired
//! turns.

use super::*;

/// The end of a reader whose next frame has been dropped.
fn gone() -> Frame {
    Frame::End(End::failed(Failure::new(
        "gone",
        "A part of this answer is no longer kept. Please ask again.",
    )))
}

/// Starts a turn that sends `count` texts of 1,000 bytes, one frame each, and does not end.
async fn texts(turn: TurnBuilder, count: usize) -> (Sink, Turn) {
    let (sink, turn) = turn.channel();
    sink.send("0").await.unwrap();
    let turn = turn.commit().await.unwrap();
    settle().await;
    more(&sink, count).await;
    (sink, turn)
}

async fn more(sink: &Sink, count: usize) {
    for at in 0..count {
        sink.send(char::from(b'a' + at as u8).to_string().repeat(1_000))
            .await
            .unwrap();
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_too_far_behind_fails() {
    let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(4_500));
    for wire in wires() {
        let (sink, turn) = texts(journaled(&journal), 1).await;
        let id = turn.id();
        let never = turn.stream(&wire);
        let mut slow = resume(&journal, id, 0).await.stream(&wire);
        let mut begun = Vec::new();
        while let Ok(Some(chunk)) = tokio::time::timeout(Duration::from_nanos(1), slow.next()).await {
            begun.extend_from_slice(&chunk);
        }
        more(&sink, 10).await;
        sink.finish(Metadata::default()).unwrap();
        settle().await;
        let first = [Frame::Text("0".into()), Frame::Text("a".repeat(1_000))];
        let failed_after = |frames: &[Frame]| encoded(&wire, &[frames, &[gone()]].concat()).0;
        let never = never.collect::<Vec<_>>().await.concat();
        assert_eq!(show(&never), show(&failed_after(&[])), "{wire:?}");
        begun.extend(slow.collect::<Vec<_>>().await.concat());
        assert_eq!(show(&begun), show(&failed_after(&first)), "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_frames_are_refused_and_the_rest_is_exact() {
    let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(5_000));
    let (sink, turn) = texts(journaled(&journal), 9).await;
    sink.finish(Metadata::default()).unwrap();
    settle().await;
    let id = turn.id();
    // Five of the 11 frames are left: four texts and the end.
    let Err(ResumeError::Gone { base }) = journal.resume(id, "", 0).await.map(drop) else {
        panic!("the first frame is still stored");
    };
    assert_eq!(base, 6);
    let rest = frames(resume(&journal, id, base).await).await;
    let last: Vec<Frame> = ["f", "g", "h", "i"]
        .iter()
        .map(|text| Frame::Text(text.repeat(1_000)))
        .collect();
    assert_eq!((&rest[..4], rest.len()), (&last[..], 5));
    assert!(journal.bytes() <= 5_000);
    for from in 0..base {
        let refused = journal.resume(id, "", from).await.unwrap_err();
        assert_eq!(refused, ResumeError::Gone { base });
        assert_eq!(Rejected::from(refused).status(), 410);
    }
    for wire in wires() {
        let is_numbered = ["sse", "ndjson"].contains(&wire.name());
        for from in base..11 {
            let turn = resume(&journal, id, from).await;
            let supported = turn.supports(&wire);
            let read = show(&bytes(turn, &wire).await);
            if is_numbered {
                let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
                for (at, frame) in (base..).zip(&rest) {
                    if at >= from {
                        assert!(encoder.seek(at));
                        encoder.encode(frame, &mut out).unwrap();
                    }
                }
                assert_eq!((supported, read), (Ok(()), show(&out)), "{wire:?} from {from}");
            } else {
                assert_eq!(supported, Err(ResumeError::Gone { base }), "{wire:?}");
                assert_eq!(read, show(&encoded(&wire, &[gone()]).0), "{wire:?}");
            }
        }
        assert!(resume(&journal, id, 11).await.is_empty());
    }
    let collected = turn.collect().await.map(drop);
    assert_eq!(collected.unwrap_err().code(), "gone");
    let (sink, turn) = texts(journaled(&journal), 0).await;
    drop(sink);
    assert_eq!(turn.collect().await.unwrap().text, "0");
}

#[tokio::test(start_paused = true)]
async fn turns_expire() {
    let journal = Journal::in_memory(JournalLimits::default().keep(Duration::from_secs(60)));
    let start = |steps| journaled(&journal).start(|sink| play(steps, sink)).commit();
    let first = start(&[Text("a")]).await.unwrap();
    let running = start(&[Text("a"), Wait(100_000)]).await.unwrap();
    settle().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let second = start(&[Text("b")]).await.unwrap();
    let ids = [first.id(), running.id(), second.id()];
    settle().await;
    let mut known = Vec::new();
    for seconds in [29, 1, 29, 1, 10, 59, 1] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let mut row = Vec::new();
        for id in ids {
            row.push(journal.resume(id, "", 0).await.is_ok());
        }
        known.push(row);
    }
    assert_eq!(
        known,
        [
            [true, true, true],
            [false, true, true],
            [false, true, true],
            [false, true, false],
            [false, true, false],
            [false, true, false],
            [false, false, false],
        ]
    );
    assert_eq!(journal.turns(), 0);
    // Readers that are still behind fail, and only the end stays in memory.
    assert_eq!(first.collect().await.unwrap_err().code(), "gone");
    assert_eq!(
        drain(running.stream(&Framed::default())).await,
        plain(&encoded(&Framed::default(), &[gone()]).0)
    );
    drop(second);
    assert_eq!(journal.bytes(), 0);
}

/// Memory is released without another call to the journal.
#[tokio::test(start_paused = true)]
async fn expired_turns_are_evicted_without_a_call() {
    let journal = Journal::in_memory(JournalLimits::default().keep(Duration::from_secs(60)));
    for _ in 0..3 {
        let turn = journaled(&journal).start(|sink| play(&[Text("a")], sink));
        drop(turn.commit().await.unwrap());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let metrics = tokio::runtime::Handle::current().metrics();
    assert_eq!(metrics.num_alive_tasks(), 1, "one task evicts for all turns");
    tokio::time::sleep(Duration::from_secs(58)).await;
    assert_eq!(metrics.num_alive_tasks(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(metrics.num_alive_tasks(), 0);
    let turn = journaled(&journal).start(|sink| play(&[Text("a")], sink));
    drop(turn.commit().await.unwrap());
    settle().await;
    assert_eq!((metrics.num_alive_tasks(), journal.turns()), (1, 1));
    drop(journal);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(metrics.num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_turns_is_bounded() {
    let journal = Journal::in_memory(JournalLimits::default().max_turns(2));
    let start = |steps| journaled(&journal).start(|sink| play(steps, sink)).commit();
    let finished = start(&[Text("a")]).await.unwrap().id();
    let running = start(&[Text("a"), Wait(50)]).await.unwrap();
    settle().await;
    // A new turn evicts a finished one and reserves its slot when it is started.
    let third = journaled(&journal).start(|sink| play(&[Wait(10), Text("a"), Wait(50)], sink));
    assert_eq!(
        journal.resume(finished, "", 0).await.unwrap_err().code(),
        "unknown_turn"
    );
    let called = Arc::new(AtomicBool::new(false));
    let witness = Arc::clone(&called);
    let full = journaled(&journal).start(move |_| {
        witness.store(true, Ordering::SeqCst);
        async { Ok::<_, Infallible>(Metadata::default()) }
    });
    let id = full.id();
    let rejected = full.commit().await.unwrap_err();
    assert_eq!(
        (rejected.id, rejected.failure.code(), rejected.status().as_u16()),
        (id, "busy", 503)
    );
    assert_eq!(rejected.retry_after, Some(Duration::from_secs(5)));
    assert!(
        !called.load(Ordering::SeqCst),
        "the orchestrator of a rejected turn does not run"
    );
    let third = third.commit().await.unwrap();
    assert_eq!(journal.turns(), 2);
    for turn in [running, third] {
        assert_eq!(turn.collect().await.unwrap().text, "a");
    }
    settle().await;
    drop(start(&[Text("a")]).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_all_turns_are_bounded() {
    let journal = Journal::in_memory(JournalLimits::default().max_bytes(6_000));
    let (sink, old) = texts(journaled(&journal), 2).await;
    sink.finish(Metadata::default()).unwrap();
    settle().await;
    let (sink, newer) = texts(journaled(&journal), 1).await;
    sink.finish(Metadata::default()).unwrap();
    settle().await;
    let ids = [old.id(), newer.id()];
    drop((old, newer));
    let (running, turn) = texts(journaled(&journal), 1).await;
    let known = async || {
        let mut known = Vec::new();
        for id in ids {
            known.push(journal.resume(id, "", 0).await.is_ok());
        }
        known
    };
    assert_eq!(known().await, [true, true]);
    more(&running, 2).await;
    assert_eq!(
        known().await,
        [false, true],
        "the turn that ended first is evicted first"
    );
    more(&running, 2).await;
    assert_eq!(known().await, [false, false]);
    // After that, the turn that grows drops its first frames.
    more(&running, 4).await;
    let refused = journal.resume(turn.id(), "", 0).await.unwrap_err();
    assert_eq!(refused, ResumeError::Gone { base: 5 });
    assert!(journal.bytes() <= 6_000);
    drop((running, turn));
}

/// A text counts at least its bytes. The newest frame is stored for its readers even if it is
/// larger than every limit.
#[tokio::test(start_paused = true)]
async fn the_newest_frame_always_stays() {
    let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(0).max_bytes(0));
    let (sink, turn) = texts(journaled(&journal), 0).await;
    let mut live = turn.stream(&Ndjson::default());
    assert_eq!(
        show(&live.next().await.unwrap()),
        "{\"index\":0,\"text\":\"0\"}\n"
    );
    for index in 1..4 {
        sink.send("x").await.unwrap();
        let line = format!("{{\"index\":{index},\"text\":\"x\"}}\n");
        assert_eq!(show(&live.next().await.unwrap()), line);
    }
}
