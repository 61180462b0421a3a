//! Streams that are polled while nothing is ready.

use std::pin::Pin;
use std::task::{Context, Wake, Waker};

use futures_util::Stream;
use ragwire::Sse;
use ragwire::turn::{Journal, JournalLimits};

use super::*;

/// Counts how often it wakes.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_wakes_what_polled_last_however_often_it_polls() {
    let journal = Journal::in_memory(JournalLimits::default());
    for builder in [Turn::builder(), Turn::builder().journal(&journal)] {
        let turn = builder
            .timeouts(Timeouts::default().keep_alive(ms(100)))
            .start(|sink: Sink| play(&[Report, Wait(1000)], sink));
        let mut stream = turn.commit().await.unwrap().stream(&Sse::default());
        assert!(stream.next().await.is_some());
        let counters = [Arc::<Counter>::default(), Arc::default()];
        // A server polls a body again before it waits, and a body may move to another task.
        for polls in [&[0, 0][..], &[0, 0, 1, 1], &[1], &[0]] {
            for by in polls {
                let waker = Waker::from(Arc::clone(&counters[*by]));
                let mut cx = Context::from_waker(&waker);
                assert!(Pin::new(&mut stream).poll_next(&mut cx).is_pending());
            }
            let last = &counters[polls[polls.len() - 1]].0;
            last.store(0, Ordering::Relaxed);
            tokio::time::sleep(ms(101)).await;
            assert_eq!(last.load(Ordering::Relaxed), 1, "{polls:?}");
            let filler = stream.next().now_or_never().flatten();
            assert_eq!(filler.as_deref(), Some(&b": keep-alive\n\n"[..]), "{polls:?}");
        }
    }
}
