//! How waiting for a human affects the time limits and the begin of the response.

use ragwire::turn::{AnswerError, AnswerOutcome};

use super::*;

/// The limits are two seconds of silence and one minute in total.
#[tokio::test(start_paused = true)]
async fn waiting_does_not_count_as_idle() {
    let timeouts = Timeouts::default()
        .keep_alive(None)
        .idle(2 * SECOND)
        .total(60 * SECOND);
    for (waits, then, length, code) in [
        // Waits longer than the idle limit and is then silent.
        (30 * SECOND, ms(1900), ms(31_900), None),
        (30 * SECOND, ms(2100), ms(32_000), Some("timeout")),
        (90 * SECOND, ms(0), ms(60_000), Some("timeout")),
    ] {
        let turn = Turn::builder().timeouts(timeouts).start(async move |sink: Sink| {
            let asked = sink.ask(approval()).map(drop);
            tokio::time::timeout(waits, asked).await.unwrap_err();
            tokio::time::sleep(then).await;
            Ok::<_, SendError>(Metadata::default())
        });
        let begun = Instant::now();
        let collected = turn.commit().await.unwrap().collect().await.unwrap();
        let failure = Failure::of(&collected.end.status).map(|failure| failure.kind.to_string());
        assert_eq!(failure.as_deref(), code, "{waits:?} {then:?}");
        assert_eq!(begun.elapsed(), length, "{waits:?} {then:?}");
    }
}

/// A time-out withdraws the question, and the reader gets that before the end.
#[tokio::test(start_paused = true)]
async fn a_timeout_withdraws_the_question() {
    let timeouts = Timeouts::default().keep_alive(None).total(60 * SECOND);
    let turn = Turn::builder()
        .timeouts(timeouts)
        .start(|sink| asks(approval(), sink));
    let handle = turn.handle();
    let read = read(turn).await.unwrap();
    let expected = framed("", "");
    assert_eq!(
        read,
        format!("{}{TOO_LONG}", expected.strip_suffix(EMPTY).unwrap())
    );
    assert_eq!(handle.answer("r1", "Approve"), Err(AnswerError::Late));
}

/// The idle time begins again after a withdrawn question, also if the queue has no room to report
/// it.
#[tokio::test(start_paused = true)]
async fn idle_time_counts_from_the_end_of_the_wait() {
    let timeouts = Timeouts::default().idle(2 * SECOND).write_stall(None);
    let turn = Turn::builder()
        .timeouts(timeouts)
        .queue(QueueLimits::default().max_frames(1))
        .start(async move |sink: Sink| {
            let asked = sink.ask(approval());
            tokio::time::timeout(ms(5900), asked).await.unwrap_err();
            tokio::time::sleep(ms(1900)).await;
            Ok::<_, SendError>(Metadata::default())
        });
    let turn = turn.commit().await.unwrap();
    tokio::time::sleep(10 * SECOND).await;
    let collected = turn.collect().await.unwrap();
    assert_eq!(collected.end.status, Status::Completed);
}

/// A question begins the response under every commit policy, because nobody can answer it before
/// they see it.
#[tokio::test(start_paused = true)]
async fn a_question_begins_the_response() {
    for commit in [
        Commit::first_frame(),
        Commit::first_text(),
        Commit::deadline(60 * SECOND),
    ] {
        let begun = Instant::now();
        let turn = Turn::builder().commit_on(commit).start(|sink: Sink| async move {
            sink.send(Search::new("bm25")).await?;
            tokio::time::sleep(SECOND).await;
            asks(approval(), sink).await
        });
        let turn = turn.commit().await.unwrap();
        let waited = begun.elapsed();
        settle().await;
        settle().await;
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(turn.handle().answer("r1", "Reject"), Ok(AnswerOutcome::Accepted));
        let read = drain(turn.stream(&Framed::default())).await;
        let expected = framed(",\"response\":\"Reject\"", "answer \"Reject\"");
        assert_eq!(read, format!("{SEARCH}{expected}"), "{commit:?}");
        let at_frame = format!("{commit:?}") == format!("{:?}", Commit::first_frame());
        assert_eq!(
            waited,
            if at_frame { Duration::ZERO } else { SECOND },
            "{commit:?}"
        );
    }
}

/// A question that waits for a place is not shown yet, so the response does not begin with it.
#[tokio::test(start_paused = true)]
async fn a_question_of_a_turn_on_the_waiting_list_does_not_begin_the_response() {
    let group = TurnGroup::builder().max_active(1).max_queued(1).build();
    let _first = Turn::builder()
        .group(&group)
        .start(|sink| play(&[Wait(1_000)], sink));
    let (sink, turn) = Turn::builder()
        .group(&group)
        .commit_on(Commit::first_text())
        .channel();
    let mut asked = std::pin::pin!(sink.ask(approval()));
    let mut commit = std::pin::pin!(turn.commit());
    assert!(asked.as_mut().now_or_never().is_none());
    assert!(commit.as_mut().now_or_never().is_none());
}
