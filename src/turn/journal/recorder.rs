//! What takes the frames of a turn out of its queue and puts them into its log.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::Instant;

use super::kept::Record;
use super::log::Log;
use super::{Disconnect, Journal};
use crate::frame::{End, Failure, Frame};
use crate::turn::reader::Reader;
use crate::turn::sink::pieces;

/// Longest text of one frame. Escaped it still is one line of [`MIN_LINE_BYTES`](crate::wire::MIN_LINE_BYTES), so that no wire has
/// to cut it into frames of its own.
const MAX_TEXT_BYTES: usize = 4096;

/// Most frames that are taken before other tasks have their turn.
const MAX_BURST: usize = 128;

/// What takes the frames of a turn out of its queue and puts them into its log. It is the queue's reader, so the orchestrator waits
/// for it and for nobody else; it never waits itself.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) reader: Reader,
    pub(super) journal: Journal,
    pub(super) log: Arc<Log>,
    pub(super) disconnect: Disconnect,
}

impl Recorder {
    /// Records the turn to its end. Then it stays behind for readers that take nothing, while the turn's place in its group hangs on
    /// them, and to drop what is kept too long, unless somebody does that already.
    pub(super) async fn run(self) {
        let Self {
            reader,
            journal,
            log,
            disconnect,
        } = self;
        let mut unended = Unended(Some((journal.clone(), Arc::clone(&log))));
        if let Some((journal, log)) = &unended.0 {
            record(&reader, journal, log, disconnect).await;
        }
        // The turn is over: it gives back its place in the group before anything else.
        let is_grouped = reader.membership.is_some();
        drop(reader);
        let sweeper = unended.0.take().and_then(|(journal, log)| {
            journal.retire(log.head.handle.id());
            journal.sweeper()
        });
        drop(unended);
        drop(journal);
        let mut emptied = pin!(async move {
            if is_grouped {
                log.emptied().await;
            }
        });
        let mut swept = pin!(async {
            if let Some(sweeper) = sweeper {
                sweeper.run().await;
            }
        });
        let (mut is_emptied, mut is_swept) = (false, false);
        poll_fn(|cx| {
            is_emptied = is_emptied || emptied.as_mut().poll(cx).is_ready();
            is_swept = is_swept || swept.as_mut().poll(cx).is_ready();
            if is_emptied && is_swept {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// Takes frames until the end, which is the last of them.
async fn record(reader: &Reader, journal: &Journal, log: &Log, disconnect: Disconnect) {
    let mut timer = pin!(tokio::time::sleep_until(Instant::now()));
    let mut burst = 0;
    let mut human = Human::default();
    loop {
        let next = poll_fn(|cx| {
            if let Poll::Ready(frame) = reader.queue.poll_frame(cx, Instant::now().into_std()) {
                return Poll::Ready(frame);
            }
            let awaited = human.look(reader.queue.asks.is_waiting());
            let due_since = |alone_since| match awaited {
                Awaited::Now => None,
                Awaited::Until(asked_until) => disconnect.due(alone_since, asked_until),
            };
            let mut due = due_since(log.alone_since(cx));
            if let Some(due) = due.filter(|due| *due < timer.deadline()) {
                timer.as_mut().reset(due);
            }
            while timer.as_mut().poll(cx).is_ready() {
                let now = Instant::now();
                let mut look_again = reader.check_overdue();
                if let Some(stalls) = log.cut_stalled(now) {
                    look_again = look_again.min(stalls);
                    due = due_since(log.alone_since(cx));
                }
                match due {
                    // The end comes through the queue like any other; asking twice is nothing.
                    Some(due) if due <= now => drop(reader.queue.request_end(End::stopped())),
                    Some(due) => look_again = look_again.min(due),
                    None => {}
                }
                timer.as_mut().reset(look_again);
            }
            Poll::Pending
        });
        match next.await {
            Some(Frame::Text(text)) => {
                for piece in pieces(&text, MAX_TEXT_BYTES) {
                    journal.append(log, Record::text(piece));
                }
            }
            Some(frame) => journal.append(log, Record::frame(frame)),
            None => return,
        }
        burst += 1;
        if burst == MAX_BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Whether the turn waits for a human, and until when it did.
#[derive(Debug, Default)]
struct Human {
    is_awaited: bool,
    until: Option<Instant>,
}

#[derive(Clone, Copy)]
enum Awaited {
    Now,
    Until(Option<Instant>),
}

impl Human {
    fn look(&mut self, is_awaited: bool) -> Awaited {
        if std::mem::replace(&mut self.is_awaited, is_awaited) && !is_awaited {
            self.until = Some(Instant::now());
        }
        if is_awaited {
            Awaited::Now
        } else {
            Awaited::Until(self.until)
        }
    }
}

/// The runtime may drop the task at any await (shutdown): readers still get their end.
struct Unended(Option<(Journal, Arc<Log>)>);

impl Drop for Unended {
    fn drop(&mut self) {
        if let Some((journal, log)) = self.0.take() {
            if log.end().is_none() {
                journal.append(&log, Record::frame(Frame::End(End::failed(Failure::default()))));
            }
            journal.retire(log.head.handle.id());
        }
    }
}
