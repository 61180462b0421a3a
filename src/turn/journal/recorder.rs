//! What takes the frames of a turn out of its queue and puts them into its log.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::kept::Record;
use super::log::Log;
use super::redis::Writer;
use super::{Disconnect, Journal};
use crate::failure::Failure;
use crate::frame::{End, Frame};
use crate::turn::reader::Reader;
use crate::turn::sink::pieces;

/// Longest text of one frame. Escaped it still is one line of [`MIN_LINE_BYTES`](crate::wire::MIN_LINE_BYTES), so that no wire has
/// to cut it into frames of its own.
const MAX_TEXT_BYTES: usize = 4096;

/// Most frames that are taken before other tasks have their turn.
const MAX_BURST: usize = 128;

/// Most bytes of frames that go to the journal's server at once.
const MAX_BATCH_BYTES: usize = 1024 * 1024;

/// What takes the frames of a turn out of its queue and puts them into its log. It is the queue's reader, so the orchestrator waits
/// for it and for nobody else; it waits itself only for the journal's server, where there is one.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) reader: Reader,
    pub(super) journal: Journal,
    pub(super) log: Arc<Log>,
    /// Where frames go before they are in the log.
    pub(super) writer: Option<Writer>,
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
            mut writer,
            disconnect,
        } = self;
        let mut unended = Unended(Some((journal.clone(), Arc::clone(&log))));
        if let Some((journal, log)) = &unended.0 {
            record(&reader, journal, log, &mut writer, disconnect).await;
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

/// What the recorder wakes up for.
#[expect(
    clippy::large_enum_variant,
    reason = "it is looked at where it is made, and mostly a frame"
)]
enum Next {
    Frame(Frame),
    /// The journal's server has to be told that the turn runs.
    Refresh,
    Over,
}

/// Takes frames until the end, which is the last of them.
async fn record(
    reader: &Reader,
    journal: &Journal,
    log: &Log,
    writer: &mut Option<Writer>,
    disconnect: Disconnect,
) {
    let mut timer = pin!(tokio::time::sleep_until(Instant::now()));
    let mut burst = 0;
    let mut batch = Vec::new();
    // The readers have their end, and only the orchestrator has to come to its own.
    let mut has_failed = false;
    let mut human = Human::default();
    loop {
        let refresh_at = writer.as_ref().map(Writer::refresh_at);
        let elsewhere = writer.as_ref().map(Writer::read_elsewhere);
        let next = poll_fn(|cx| {
            if let Poll::Ready(frame) = reader.queue.poll_frame(cx, Instant::now().into_std()) {
                return Poll::Ready(frame.map_or(Next::Over, Next::Frame));
            }
            let awaited = human.look(reader.queue.questions.is_waiting());
            let read_until = elsewhere.and_then(|(_, until)| until);
            let given_up = |cx: &Context<'_>| {
                let alone_since = log.alone_since(cx);
                let alone_since = alone_since.map(|since| read_until.map_or(since, |until| until.max(since)));
                match awaited {
                    Awaited::Now => None,
                    Awaited::Until(asked_until) => disconnect.due(alone_since, asked_until),
                }
            };
            let mut due = given_up(cx);
            let first = due.into_iter().chain(refresh_at).min();
            if let Some(first) = first.filter(|first| *first < timer.deadline()) {
                timer.as_mut().reset(first);
            }
            while timer.as_mut().poll(cx).is_ready() {
                let now = Instant::now();
                let mut look_again = reader.check_overdue();
                if let Some(stalls) = log.cut_stalled(now) {
                    look_again = look_again.min(stalls);
                    due = given_up(cx);
                }
                match due {
                    // Somebody may have begun to read it on another host.
                    Some(due) if due <= now && elsewhere.is_some_and(|(asked_at, _)| asked_at < due) => {
                        return Poll::Ready(Next::Refresh);
                    }
                    // The end comes through the queue like any other; asking twice is nothing.
                    Some(due) if due <= now => drop(reader.queue.request_end(End::stopped())),
                    Some(due) => look_again = look_again.min(due),
                    None => {}
                }
                match refresh_at {
                    Some(at) if at <= now => return Poll::Ready(Next::Refresh),
                    Some(at) => look_again = look_again.min(at),
                    None => {}
                }
                timer.as_mut().reset(look_again);
            }
            Poll::Pending
        });
        match next.await {
            Next::Over => return,
            Next::Frame(_) if has_failed => {}
            Next::Frame(frame) if writer.is_none() => {
                each(frame, |record| journal.append(log, record));
            }
            Next::Frame(frame) => fill(&mut batch, frame, reader).await,
            Next::Refresh => {}
        }
        if let Some(server) = writer {
            match server.append(&batch).await {
                Ok(()) => batch.drain(..).for_each(|record| journal.append(log, record)),
                Err(failure) => {
                    *writer = None;
                    has_failed = true;
                    batch = Vec::new();
                    let end = End::failed(failure);
                    // It may be over already: its readers never learn of that.
                    let _ = reader.queue.request_end(end.clone());
                    journal.append(log, Record::frame(Frame::End(end)));
                }
            }
        }
        burst += 1;
        if burst == MAX_BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// A frame as the log has it.
fn each(frame: Frame, mut take: impl FnMut(Record)) {
    match frame {
        Frame::Text(text) => pieces(&text, MAX_TEXT_BYTES).for_each(|piece| take(Record::text(piece))),
        frame => take(Record::frame(frame)),
    }
}

/// Adds `frame` to what goes to the server, and whatever else is ready.
async fn fill(batch: &mut Vec<Record>, frame: Frame, reader: &Reader) {
    let mut next = Some(frame);
    let mut bytes = 0;
    while let Some(frame) = next {
        each(frame, |record| {
            bytes += record.bytes();
            batch.push(record);
        });
        if batch.len() >= MAX_BURST || bytes >= MAX_BATCH_BYTES {
            return;
        }
        let ready = poll_fn(|cx| Poll::Ready(reader.queue.poll_frame(cx, Instant::now().into_std())));
        next = match ready.await {
            Poll::Ready(frame) => frame,
            Poll::Pending => None,
        };
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
