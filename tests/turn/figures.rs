//! What a turn reports about itself to an observer.

use ragwire::turn::{Disconnect, FinishedTurn, Journal, JournalLimits, TurnObserver, TurnOutcome};
use ragwire::{Ndjson, Usage};

use super::*;

/// Of a finished turn: the outcome, the wire, the frames, and the waits for the reader.
type Figures = (String, Option<&'static str>, u64, u64);

#[derive(Default)]
struct Observer(Mutex<Vec<Figures>>);

impl TurnObserver for Observer {
    fn finished(&self, turn: &FinishedTurn<'_>) {
        let outcome = match turn.outcome {
            TurnOutcome::Completed => "completed".into(),
            TurnOutcome::Stopped => "stopped".into(),
            TurnOutcome::Failed(failure) => format!("failed {}", failure.code()),
            TurnOutcome::Rejected(failure) => format!("rejected {}", failure.code()),
            TurnOutcome::Disconnected => "disconnected".into(),
        };
        let tokens = turn.usage.and_then(|usage| usage.output_tokens);
        let outcome = match tokens {
            Some(tokens) => format!("{outcome}, {tokens} tokens"),
            None => outcome,
        };
        self.0
            .lock()
            .unwrap()
            .push((outcome, turn.wire, turn.frames, turn.stalls));
    }
}

impl Observer {
    fn take(&self) -> Vec<Figures> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn observed(observer: &Arc<Observer>) -> TurnBuilder {
    Turn::builder().observer(Arc::clone(observer) as Arc<dyn TurnObserver>)
}

#[tokio::test(start_paused = true)]
async fn every_turn_is_observed_once_with_its_outcome_and_its_wire() {
    let observer = Arc::default();
    let journal = Journal::in_memory(JournalLimits::default());
    for (steps, expected) in [
        (
            &[Report, Text("a"), Wait(1), Text("b")][..],
            ("completed", Some("framed"), 3),
        ),
        (&[Text("a"), Fail], ("failed chat_failed", Some("framed"), 1)),
        (&[Fail], ("rejected chat_failed", None, 0)),
    ] {
        let (outcome, wire, frames) = expected;
        for is_journaled in [false, true] {
            let builder = observed(&observer);
            let builder = if is_journaled {
                builder.journal(&journal)
            } else {
                builder
            };
            let _ = read(builder.start(|sink| play(steps, sink))).await;
            settle().await;
            assert_eq!(
                observer.take(),
                [(outcome.to_owned(), wire, frames, 0)],
                "{steps:?} {is_journaled}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_a_journal_is_observed_with_the_wire_of_its_first_reader() {
    let observer = Arc::default();
    let journal = Journal::in_memory(JournalLimits::default());
    let turn = observed(&observer)
        .journal(&journal)
        .on_disconnect(Disconnect::run_to_end())
        .start(|sink| play(&[Text("a"), Wait(5)], sink));
    let turn = turn.commit().await.unwrap();
    let second = journal.resume(turn.id(), "", 0).await.unwrap();
    drain(second.stream(&Framed::default())).await;
    drain(turn.stream(&Ndjson::default())).await;
    assert_eq!(observer.take(), [("completed".to_owned(), Some("ndjson"), 1, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_and_a_stop_are_observed() {
    let observer = Arc::default();
    let start = || {
        let turn = observed(&observer).start(|sink| play(&[Text("a"), Wait(1_000)], sink));
        turn.commit()
    };
    drop(start().await.unwrap().stream(&Framed::default()));
    assert_eq!(
        observer.take(),
        [("disconnected".to_owned(), Some("framed"), 1, 0)]
    );
    let turn = start().await.unwrap();
    turn.handle().stop();
    drain(turn.stream(&Framed::default())).await;
    assert_eq!(observer.take(), [("stopped".to_owned(), Some("framed"), 1, 0)]);
}

#[tokio::test(start_paused = true)]
async fn the_tokens_and_the_waits_for_the_reader_are_counted() {
    let observer = Arc::default();
    let turn = observed(&observer)
        .queue(QueueLimits::default().max_frames(1))
        .start(|sink: Sink| async move {
            for _ in 0..3 {
                sink.send(Search::new("bm25")).await?;
            }
            Ok::<_, SendError>(Metadata::default().usage(Usage::default().output_tokens(7)))
        });
    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
    for _ in 0..3 {
        settle().await;
        stream.next().await.unwrap();
    }
    drain(stream).await;
    assert_eq!(
        observer.take(),
        [("completed, 7 tokens".to_owned(), Some("framed"), 3, 2)]
    );
}
