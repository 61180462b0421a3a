//! Readers at their own pace: who is behind, and what a reader gets that starts late.

use super::*;

const STALL: Duration = Duration::from_millis(100);

fn stalling(journal: &Journal) -> TurnBuilder {
    let timeouts = Timeouts::default().write_stall(STALL).idle(None);
    journaled(journal).timeouts(timeouts)
}

#[tokio::test(start_paused = true)]
async fn the_frames_that_begin_the_response_are_stored_when_it_begins() {
    let journal = in_memory();
    let (sink, turn) = journaled(&journal).channel();
    sink.send(Search::new("bm25")).await.unwrap();
    sink.send("a").await.unwrap();
    let turn = turn.commit().await.unwrap();
    // Before the recorder runs.
    let late = journal.resume(turn.id(), "", 2).now_or_never().unwrap();
    assert!(late.is_ok(), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_has_everything_is_not_behind() {
    let journal = in_memory();
    let wire = Ndjson::default();
    let (sink, turn) = stalling(&journal).channel();
    sink.send("a").await.unwrap();
    let turn = turn.commit().await.unwrap();
    let id = turn.id();
    // One that has taken the first frame, and one that needs nothing before the second one. Neither
    // is polled, as those of a client whose connection waits.
    let mut first = turn.stream(&wire);
    assert_eq!(
        show(&first.next().await.unwrap()),
        "{\"index\":0,\"text\":\"a\"}\n"
    );
    let late = resume(&journal, id, 1).await.stream(&wire);
    tokio::time::sleep(5 * STALL).await;
    sink.send("b").await.unwrap();
    sink.finish(Metadata::default()).unwrap();
    for stream in [first, late] {
        let read = show(&stream.collect::<Vec<_>>().await.concat());
        let lines: Vec<_> = read.lines().collect();
        assert_eq!(lines.len(), 2, "{read}");
        assert_eq!(lines[0], "{\"index\":1,\"text\":\"b\"}");
        assert!(
            lines[1].starts_with("{\"index\":2,\"end\":\"completed\","),
            "{read}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_only_a_part_of_what_is_ready_is_cut_off() {
    let journal = in_memory();
    let (sink, turn) = stalling(&journal).channel();
    sink.send("0").await.unwrap();
    let turn = turn.commit().await.unwrap();
    for _ in 0..40 {
        sink.send("x".repeat(4_000)).await.unwrap();
        settle().await;
    }
    let mut stream = turn.stream(&Framed::default());
    assert!(stream.next().await.unwrap().len() < 100_000);
    tokio::time::sleep(5 * STALL).await;
    sink.finish(Metadata::default()).unwrap();
    let rest = drain(stream).await;
    assert!(rest.ends_with(TOO_SLOW), "{}", rest.len());
    assert!(rest.len() < 1_000);
}

/// Frames that such a reader has are only read again, which must not end in a wait.
#[tokio::test(start_paused = true)]
async fn a_reader_that_continues_far_behind_the_beginning_gets_the_rest_at_once() {
    let journal = in_memory();
    let turn = journaled(&journal).start(|sink: Sink| async move {
        for _ in 0..60 {
            sink.send("x".repeat(4_000)).await?;
            settle().await;
        }
        Ok::<_, SendError>(Metadata::default())
    });
    let turn = turn.commit().await.unwrap();
    let id = turn.id();
    let whole = frames(turn).await;
    let stream = resume(&journal, id, whole.len() as u64 - 1)
        .await
        .stream(&Framed::default());
    let read = tokio::time::timeout(ms(1), drain(stream)).await;
    assert_eq!(read.unwrap(), EMPTY);
}

#[tokio::test(start_paused = true)]
async fn the_chunks_of_a_journaled_turn_are_padded_until_its_end() {
    let journal = in_memory();
    let turn = journaled(&journal).start(|sink| play(&[Report, Wait(1), Text("a"), Wait(1)], sink));
    let stream = turn.commit().await.unwrap().pad_to(256).stream(&Sse::default());
    let chunks: Vec<_> = stream.collect().await;
    let (last, before) = chunks.split_last().unwrap();
    assert_eq!(before.len(), 2);
    assert!(before.iter().all(|chunk| chunk.len() == 256), "{before:?}");
    assert!(show(last).ends_with("}\n\n") && last.len() % 256 != 0, "{last:?}");
}
