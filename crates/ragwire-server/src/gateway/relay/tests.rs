//! Silence of an orchestrator while a human is asked.

use std::pin::Pin;

use ragwire::Status;
use ragwire::turn::Turn;
use ragwire::wire::WireKind;
use tokio::time::Sleep;

use super::*;

const IDLE: Duration = Duration::from_secs(10);

/// An orchestrator that asks, and continues some time after it has got its answer.
struct Asking {
    chunks: VecDeque<&'static str>,
    pause: Pin<Box<Sleep>>,
    answered: Arc<Mutex<Option<Instant>>>,
    continues_after: Duration,
    last: Bytes,
}

impl Source for Asking {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, GatewayError>>> {
        if self.chunks.len() == 1 {
            let Some(answered) = *self.answered.lock().unwrap() else {
                return Poll::Pending;
            };
            let at = answered + self.continues_after;
            if self.pause.deadline() != at {
                self.pause.as_mut().reset(at);
            }
            std::task::ready!(self.pause.as_mut().poll(cx));
        }
        Poll::Ready(self.chunks.pop_front().map(|chunk| Ok(chunk.into())))
    }

    fn last(&self) -> &Bytes {
        &self.last
    }

    fn silent(&self, after: Duration) -> GatewayError {
        let what = "continue";
        GatewayError::Silent { what, after }
    }

    fn ends_with_answer(&self) -> bool {
        false
    }
}

/// Keeps the time of the answer.
struct Clocked(Arc<Mutex<Option<Instant>>>);

impl Channel for Clocked {
    fn deliver(&self, _: HumanAnswer) -> Delivery {
        *self.0.lock().unwrap() = Some(Instant::now());
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Returns whether an orchestrator that continues `pause` after its answer is heard to its end, if
/// the human takes `thinks` to answer.
async fn completes(thinks: Duration, pause: Duration) -> bool {
    let turn = Turn::start(move |sink: Sink| async move {
        let answered = Arc::new(Mutex::new(None));
        let source = Asking {
            chunks: VecDeque::from([
                "{\"event\":\"input_requested\",\"request_id\":\"a\",\"kind\":\"approval\",\"prompt\":\"Go?\"}\n",
                "{\"text\":\"Gone.\"}\n{\"end\":\"completed\"}\n",
            ]),
            pause: Box::pin(sleep_until(Instant::now())),
            answered: Arc::clone(&answered),
            continues_after: pause,
            last: Bytes::new(),
        };
        let before = Before::new(Decoder::new(WireKind::Ndjson));
        let relayed = relay(sink, before, source, Clocked(answered), IDLE, false).await;
        relayed
            .map(|relayed| relayed.metadata)
            .map_err(|unfinished| unfinished.error)
    });
    let turn = turn.commit().await.unwrap();
    let handle = turn.handle();
    let answers = async {
        tokio::time::sleep(thinks).await;
        handle.answer("a", "yes").unwrap();
    };
    let collected = tokio::join!(turn.collect(), answers).0.unwrap();
    collected.end.status == Status::Completed
}

#[tokio::test(start_paused = true)]
async fn silence_counts_from_the_answer_of_the_human() {
    for thinks in [1, 9, 10, 11, 19, 20, 21, 29, 95] {
        let thinks = Duration::from_secs(thinks);
        assert!(
            completes(thinks, IDLE - Duration::from_secs(1)).await,
            "{thinks:?}"
        );
        assert!(
            !completes(thinks, IDLE + Duration::from_secs(1)).await,
            "{thinks:?}"
        );
    }
}
