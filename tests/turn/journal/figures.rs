//! What a journal counts, what it makes room for, and for how long.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_journal_counts_bytes_resumptions_and_evictions() {
    let journal = Journal::in_memory(JournalLimits::default().max_turns(2));
    let start = || async {
        let turn = journaled(&journal).start(|sink: Sink| async move {
            sink.send("x".repeat(1_000)).await?;
            Ok::<_, SendError>(Metadata::default())
        });
        let turn = turn.commit().await.unwrap();
        settle().await;
        turn.id()
    };
    let first = start().await;
    let (bytes, stats) = (journal.bytes(), journal.stats());
    assert!((1_000..3_000).contains(&bytes), "{bytes}");
    assert_eq!((stats.bytes, stats.resumes, stats.evictions), (bytes, 0, 0));
    drop(resume(&journal, first, 0).await);
    drop(resume(&journal, first, 1).await);
    journal.resume(first, "", 9).await.unwrap_err();
    start().await;
    assert_eq!((journal.stats().resumes, journal.stats().evictions), (2, 0));
    start().await;
    start().await;
    let stats = journal.stats();
    assert_eq!((stats.turns, stats.resumes, stats.evictions), (2, 2, 2));
    assert_eq!(stats.bytes, 2 * bytes);
}

/// A turn without readers takes less room as bytes.
#[tokio::test(start_paused = true)]
async fn a_turn_is_stored_in_less_room_before_another_is_dropped() {
    let start = |journal: &Journal| {
        let turn = journaled(journal).start(|sink: Sink| async move {
            for _ in 0..100 {
                sink.send("x").await?;
                settle().await;
            }
            Ok::<_, SendError>(Metadata::default())
        });
        turn.commit()
    };
    let one = {
        let journal = in_memory();
        let turn = start(&journal).await.unwrap();
        assert_eq!(turn.collect().await.unwrap().text.len(), 100);
        journal.bytes()
    };
    let journal = Journal::in_memory(JournalLimits::default().max_bytes(one + one / 2));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let turn = start(&journal).await.unwrap();
        ids.push(turn.id());
        turn.collect().await.unwrap();
        settle().await;
    }
    assert!(journal.bytes() < one + one / 2);
    assert_eq!((journal.turns(), journal.stats().evictions), (2, 0));
    for id in ids {
        let collected = resume(&journal, id, 0).await.collect().await.unwrap();
        assert_eq!(collected.text.len(), 100);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_evicts_turns_that_are_kept_for_ever() {
    let journal = Journal::in_memory(JournalLimits::default().keep(Duration::MAX));
    let turn = journaled(&journal).start(|sink| play(&[Text("a")], sink));
    drop(turn.commit().await.unwrap());
    settle().await;
    let metrics = tokio::runtime::Handle::current().metrics();
    assert_eq!((metrics.num_alive_tasks(), journal.turns()), (0, 1));
}

/// A journal may outlive the runtime that evicted its turns.
#[test]
fn another_runtime_evicts_the_turns_of_a_journal() {
    let journal = Journal::in_memory(JournalLimits::default().keep(Duration::from_secs(60)));
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let tasks = runtime.block_on(async {
            let turn = journaled(&journal).start(|sink| play(&[Text("a")], sink));
            drop(turn.commit().await.unwrap());
            settle().await;
            tokio::runtime::Handle::current().metrics().num_alive_tasks()
        });
        assert_eq!(tasks, 1, "one task evicts");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_stop_is_reported_as_that_of_a_resumption() {
    use ragwire::turn::StopError;
    let stopped = in_memory().stop(TurnId::random(), "").await.unwrap_err();
    for error in [StopError::Unavailable, stopped] {
        let resumed = ResumeError::from(error);
        assert_eq!(
            (error.failure(), error.code()),
            (resumed.failure(), resumed.code())
        );
    }
}
