//! The one task of a journal that waits for news: entries of the turns that are read here, and what other hosts ask.
//!
//! It begins when there is something to hear and ends when there is nothing left, or nobody who would listen: it holds the journal only
//! while it works.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::calls::{self, Message};
use super::keys::{self, PRODUCER};
use super::mirror::{Entry, MAX_ENTRIES};
use super::{Listening, Store};
use crate::redis::link::Request;
use crate::turn::TurnId;
use crate::turn::journal::error::unavailable;
use crate::turn::journal::{Journal, Shared};
use crate::turn::spawn::spawn;

/// Longest wait for news at a time, so that a connection that died in silence is noticed.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Pause after the server has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Keeps an ear on what `journal` has to hear, unless there is one.
pub(super) fn listen(store: &Arc<Store>, journal: &Journal) {
    let is_listening = std::mem::replace(&mut store.lock().is_listening, true);
    if !is_listening {
        let ear = Ear {
            shared: Arc::downgrade(&journal.shared),
        };
        let closed = store.closed.subscribe();
        spawn(ear.run(closed), tracing::Span::none());
    }
}

/// There is more to listen to: whoever listens waits for that as well from now on. Where this fails, it is noticed with the next wait.
pub(super) async fn wake(store: &Store, id: TurnId) {
    let mut pipeline = redis::pipe();
    mark(&mut pipeline, store, id);
    calls::send(
        &mut pipeline,
        &store.options.prefix,
        &store.process,
        &[("wake", "1")],
    );
    let _ = store.link.request_once::<()>(Request::Commands(&pipeline)).await;
}

/// The turn is read here: its host does not end it for want of readers.
fn mark(pipeline: &mut redis::Pipeline, store: &Store, id: TurnId) {
    let key = store.keys(id).readers;
    let lease = super::millis(store.options.lease);
    pipeline.cmd("SET").arg(key).arg(1).arg("PX").arg(lease).ignore();
}

/// What is waited for.
struct Wait {
    /// Keys, and the last entry of each that is known.
    streams: Vec<(String, String)>,
    /// Whose key it is, in the same order; the inbox is the last key and nobody's.
    turns: Vec<TurnId>,
    patience: Duration,
    response_timeout: Duration,
}

type News = Option<Vec<(String, Vec<Entry>)>>;

impl Wait {
    async fn read(&self, connection: &mut MultiplexedConnection) -> RedisResult<News> {
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT").arg(MAX_ENTRIES);
        // Zero would be for ever.
        read.arg("BLOCK").arg(super::millis(self.patience).max(1));
        read.arg("STREAMS");
        for (key, _) in &self.streams {
            read.arg(key);
        }
        for (_, last) in &self.streams {
            read.arg(last);
        }
        match timeout(
            self.patience + self.response_timeout,
            read.query_async(connection),
        )
        .await
        {
            Ok(news) => news,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }
}

struct Ear {
    shared: Weak<Shared>,
}

impl Ear {
    async fn run(mut self, mut closed: watch::Receiver<()>) {
        let mut connection = None;
        let mut marked_at = Instant::now();
        while let Some((wait, journal)) = self.wait() {
            let Some(store) = journal.shared.store.clone() else {
                return;
            };
            let connected = match connection.take() {
                Some(connection) => Ok(connection),
                None => store.link.connect_for_blocking_reads().await,
            };
            // Nothing of the journal is held while there is nothing to do.
            drop((store, journal));
            let heard = match connected {
                Ok(mut waiting) => {
                    let Some(news) = unless_closed(&mut closed, wait.read(&mut waiting)).await else {
                        return;
                    };
                    news.map(|news| (news, waiting))
                }
                Err(error) => Err(error),
            };
            let Some(journal) = self.journal() else {
                return;
            };
            let Some(store) = journal.shared.store.clone() else {
                return;
            };
            match heard {
                Ok((news, mut waiting)) => {
                    store.link.record_success();
                    hear(&store, &journal, &wait, news.unwrap_or_default(), &mut waiting).await;
                    if marked_at.elapsed() >= store.options.lease / 4 {
                        marked_at = Instant::now();
                        mark_all(&store, &mut waiting).await;
                    }
                    look_after(&store, &journal).await;
                    connection = Some(waiting);
                }
                Err(error) => {
                    missed(&store, &journal, &error);
                    drop((store, journal));
                    if unless_closed(&mut closed, tokio::time::sleep(PAUSE))
                        .await
                        .is_none()
                    {
                        return;
                    }
                }
            }
        }
    }

    fn journal(&self) -> Option<Journal> {
        self.shared.upgrade().map(|shared| Journal { shared })
    }

    /// What there is to wait for; `None` where there is nothing. That this task ends is decided under the lock under which others look
    /// whether there is one.
    fn wait(&mut self) -> Option<(Wait, Journal)> {
        let journal = self.journal()?;
        let store = journal.shared.store.clone()?;
        let has_turns = journal.turns() > 0;
        let mut listening = store.lock();
        listening.mirrors.retain(|_, mirror| mirror.is_read());
        if listening.mirrors.is_empty() && listening.calls.is_empty() && !has_turns {
            listening.is_listening = false;
            self.shared = Weak::new();
            return None;
        }
        let wait = wait_for(&store, &listening);
        drop(listening);
        Some((wait, journal))
    }
}

impl Drop for Ear {
    /// The runtime may drop the task while it waits: whoever reads what it would have heard is not left waiting.
    fn drop(&mut self) {
        let journal = self.journal();
        let Some((journal, store)) =
            journal.and_then(|journal| Some((journal.clone(), journal.shared.store.clone()?)))
        else {
            return;
        };
        store.lock().is_listening = false;
        fail_all(&store, &journal);
    }
}

fn wait_for(store: &Store, listening: &Listening) -> Wait {
    let now = Instant::now();
    // Turns that are read here are marked so.
    let mut patience = MAX_WAIT.min(store.options.lease / 3);
    let (mut streams, mut turns) = (Vec::new(), Vec::new());
    for (id, mirror) in &listening.mirrors {
        patience = patience.min(mirror.check_at.saturating_duration_since(now));
        // Behind the last frame that it has.
        if let Some(next) = mirror.awaits() {
            let last = format!("{PRODUCER}-{next}");
            streams.push((keys::Keys::of(&store.options.prefix, *id).frames, last));
            turns.push(*id);
        }
    }
    let read = match &*listening.inbox_read {
        "" => "0-0".to_owned(),
        read => read.to_owned(),
    };
    streams.push((keys::inbox(&store.options.prefix, &store.process), read));
    Wait {
        streams,
        turns,
        patience,
        response_timeout: store.options.response_timeout,
    }
}

/// Takes what was heard to where it belongs, and answers what was asked.
async fn hear(
    store: &Store,
    journal: &Journal,
    wait: &Wait,
    news: Vec<(String, Vec<Entry>)>,
    connection: &mut MultiplexedConnection,
) {
    let mut replies = redis::pipe();
    for (key, entries) in news {
        let at = wait.streams.iter().position(|(stream, _)| *stream == key);
        match at.and_then(|at| wait.turns.get(at)) {
            Some(id) => store.heard(journal, *id, &entries),
            None => {
                for (entry, fields) in entries {
                    store.lock().inbox_read = entry;
                    match Message::parse(&fields) {
                        Some(Message::Reply { number, outcome }) => store.replied(number, outcome),
                        Some(Message::Call {
                            id,
                            command,
                            from,
                            number,
                        }) => {
                            let outcome = calls::perform(journal, id, command);
                            let fields = [("number", number.as_str()), ("outcome", outcome.word())];
                            calls::send(&mut replies, &store.options.prefix, &from, &fields);
                        }
                        None => {}
                    }
                }
            }
        }
    }
    if !replies.is_empty() {
        let replied = replies.query_async::<()>(connection);
        // Who gets no reply asks again.
        if !matches!(timeout(store.options.response_timeout, replied).await, Ok(Ok(()))) {
            tracing::debug!("redis has not taken the answers to other hosts");
        }
    }
}

/// Says which turns are read here.
async fn mark_all(store: &Store, connection: &mut MultiplexedConnection) {
    let mut pipeline = redis::pipe();
    for (id, mirror) in &store.lock().mirrors {
        if mirror.awaits().is_some() {
            mark(&mut pipeline, store, *id);
        }
    }
    if !pipeline.is_empty() {
        // It comes again before what it says runs out.
        let _ = timeout(
            store.options.response_timeout,
            pipeline.query_async::<()>(connection),
        )
        .await;
    }
}

/// Looks at the turns of which nothing was heard for long.
async fn look_after(store: &Store, journal: &Journal) {
    let now = Instant::now();
    let mut due = Vec::new();
    for (id, mirror) in &mut store.lock().mirrors {
        if mirror.check_at <= now {
            mirror.check_at = now + store.options.lease_ttl();
            due.push(*id);
        }
    }
    for id in due {
        store.check(journal, id).await;
    }
}

/// The server has failed: where that has gone on for too long, nobody is left waiting.
fn missed(store: &Store, journal: &Journal, error: &redis::RedisError) {
    store.link.record_failure();
    if store.link.should_give_up(error) {
        tracing::warn!(%error, "redis does not say what becomes of turns that are read here");
        fail_all(store, journal);
    }
}

fn fail_all(store: &Store, journal: &Journal) {
    let mirrors: Vec<_> = store.lock().mirrors.drain().collect();
    for (_, mirror) in mirrors {
        mirror.fail(journal, unavailable());
    }
}

/// Waits for `future`, but not for one that nobody wants any more.
async fn unless_closed<T>(closed: &mut watch::Receiver<()>, future: impl Future<Output = T>) -> Option<T> {
    let mut closed = pin!(closed.changed());
    let mut future = pin!(future);
    poll_fn(|cx| match closed.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => future.as_mut().poll(cx).map(Some),
    })
    .await
}
