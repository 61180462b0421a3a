//! The task that takes the frames of a turn out of its queue and appends them to its log.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::Disconnect;
use super::log::Log;
use super::record::Record;
use super::registry::Registry;
use super::server::Writer;
use crate::failure::Failure;
use crate::frame::{End, Frame};
use crate::turn::reader::Reader;

/// The longest text of one frame. Even if every byte is escaped, it fits into a line of
/// [`MIN_LINE_BYTES`](crate::wire::MIN_LINE_BYTES), so that no wire has to split it.
const MAX_TEXT_BYTES: usize = 4096;

/// The number of frames after which the task yields. They are taken as they are ready, at most the
/// contents of one queue.
const MAX_BURST: usize = 128;

/// Takes the frames of a turn out of its queue and appends them to its log. It is the only reader
/// of the queue, so the orchestrator waits for nothing else. The recorder itself waits only for the
/// journal's server, if there is one.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) reader: Box<Reader>,
    pub(super) registry: Arc<Registry>,
    pub(super) log: Arc<Log>,
    /// Stores frames on the server before they enter the log.
    pub(super) writer: Option<Writer>,
    pub(super) disconnect: Disconnect,
}

impl Recorder {
    /// Records the turn to its end. After that it cuts off readers that take nothing, as long as
    /// they hold the turn's place in its group, and evicts expired turns unless another task does.
    pub(super) async fn run(self) {
        let Self {
            reader,
            registry,
            log,
            mut writer,
            disconnect,
        } = self;
        let mut unfinished = Unfinished(Some((registry, Arc::clone(&log))));
        if let Some((registry, log)) = &unfinished.0 {
            record(&reader, registry, log, &mut writer, disconnect).await;
        }
        // The turn has ended: first it releases its place in the group.
        let is_grouped = reader.membership.is_some();
        drop(reader);
        let sweeper = unfinished.0.take().and_then(|(registry, log)| {
            registry.finish(&log);
            registry.sweeper()
        });
        drop(unfinished);
        // From here on the task does not keep the journal alive.
        drop(writer);
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

/// An event that wakes the recorder up.
enum Next {
    /// Frames are ready.
    Frames,
    /// The lease on the journal's server has to be renewed.
    RenewLease,
    Finished,
}

/// Takes frames up to and including the end.
async fn record(
    reader: &Reader,
    registry: &Registry,
    log: &Log,
    writer: &mut Option<Writer>,
    disconnect: Disconnect,
) {
    let now = Instant::now();
    let checks = [Some(reader.check_overdue()), log.cut_stalled(now)];
    let first = checks.into_iter().flatten().min().unwrap_or(now);
    let mut timer = pin!(tokio::time::sleep_until(first));
    let mut burst = 0;
    let mut frames = VecDeque::new();
    let mut batch = Vec::new();
    // The readers have their end; only the orchestrator still has to finish.
    let mut has_failed = false;
    let mut human_wait = HumanWait::default();
    loop {
        let refresh_at = writer.as_ref().map(Writer::refresh_at);
        let remote_readers = writer.as_ref().map(Writer::remote_readers);
        let next = poll_fn(|cx| {
            let now = Instant::now().into_std();
            if let Poll::Ready(has_frames) = reader.queue.poll_frames(cx, now, &mut frames) {
                return Poll::Ready(if has_frames { Next::Frames } else { Next::Finished });
            }
            let wait = human_wait.update(reader.queue.questions.is_waiting());
            let read_until = remote_readers.and_then(|(_, until)| until);
            let give_up_at = |cx: &Context<'_>| {
                let alone_since = log.alone_since(cx);
                let alone_since = alone_since.map(|since| read_until.map_or(since, |until| until.max(since)));
                match wait {
                    Wait::Pending => None,
                    Wait::Ended(asked_until) => disconnect.due(alone_since, asked_until),
                }
            };
            let mut due = give_up_at(cx);
            let first = due.into_iter().chain(refresh_at).min();
            if let Some(first) = first.filter(|first| *first < timer.deadline()) {
                timer.as_mut().reset(first);
            }
            while timer.as_mut().poll(cx).is_ready() {
                let now = Instant::now();
                let mut wake_at = reader.check_overdue();
                if let Some(stalls) = log.cut_stalled(now) {
                    wake_at = wake_at.min(stalls);
                    due = give_up_at(cx);
                }
                match due {
                    // Another host may have a new reader.
                    Some(due) if due <= now && remote_readers.is_some_and(|(asked_at, _)| asked_at < due) => {
                        return Poll::Ready(Next::RenewLease);
                    }
                    // The end comes through the queue like any other. Requesting it twice is
                    // harmless.
                    Some(due) if due <= now => drop(reader.queue.request_end(End::stopped())),
                    Some(due) => wake_at = wake_at.min(due),
                    None => {}
                }
                match refresh_at {
                    Some(at) if at <= now => return Poll::Ready(Next::RenewLease),
                    Some(at) => wake_at = wake_at.min(at),
                    None => {}
                }
                timer.as_mut().reset(wake_at);
            }
            Poll::Pending
        });
        match next.await {
            Next::Finished => return,
            Next::RenewLease => {}
            Next::Frames => {
                burst += frames.len();
                let taken = frames.drain(..).filter(|_| !has_failed);
                match writer {
                    Some(_) => taken
                        .for_each(|frame| Record::split(frame, MAX_TEXT_BYTES, |record| batch.push(record))),
                    None => registry.append(log, |append| {
                        taken.for_each(|frame| Record::split(frame, MAX_TEXT_BYTES, &mut *append))
                    }),
                }
            }
        }
        if let Some(server) = writer {
            // On the heap, because most journals are in memory.
            match Box::pin(server.append(&batch)).await {
                Ok(()) => registry.append(log, |append| batch.drain(..).for_each(append)),
                Err(failure) => {
                    *writer = None;
                    has_failed = true;
                    batch = Vec::new();
                    let end = End::failed(failure);
                    // The turn may have ended already; its readers never learn of that end.
                    let _ = reader.queue.request_end(end.clone());
                    registry.append_one(log, Record::frame(Frame::End(end)));
                }
            }
        }
        if burst >= MAX_BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Appends the frames that are ready when the response begins, so that it begins with them.
pub(super) fn take_ready(reader: &Reader, registry: &Registry, log: &Log) {
    let mut frames = VecDeque::new();
    let cx = Context::from_waker(Waker::noop());
    let now = Instant::now().into_std();
    if reader.queue.poll_frames(&cx, now, &mut frames).is_ready() {
        registry.append(log, |append| {
            frames
                .into_iter()
                .for_each(|frame| Record::split(frame, MAX_TEXT_BYTES, &mut *append))
        });
    }
}

/// Tracks whether the turn waits for a human.
#[derive(Debug, Default)]
struct HumanWait {
    is_waiting: bool,
    /// The time at which the last wait ended.
    ended_at: Option<Instant>,
}

#[derive(Clone, Copy)]
enum Wait {
    Pending,
    /// The turn does not wait; the last wait ended then.
    Ended(Option<Instant>),
}

impl HumanWait {
    fn update(&mut self, is_waiting: bool) -> Wait {
        if std::mem::replace(&mut self.is_waiting, is_waiting) && !is_waiting {
            self.ended_at = Some(Instant::now());
        }
        if is_waiting {
            Wait::Pending
        } else {
            Wait::Ended(self.ended_at)
        }
    }
}

/// Ends the turn if the runtime drops the recorder at an await, as it does on shutdown.
struct Unfinished(Option<(Arc<Registry>, Arc<Log>)>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some((registry, log)) = self.0.take() {
            if !log.has_ended() {
                registry.append_one(&log, Record::frame(Frame::End(End::failed(Failure::default()))));
            }
            registry.finish(&log);
        }
    }
}
