//! The one task of a journal that waits for the server: for new entries of the turns that are read
//! here, and for messages of other hosts.
//!
//! It starts when there is something to wait for and ends when there is nothing left, or when the
//! journal is dropped: it owns the journal only while it works.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::keys::{self, PRODUCER, millis};
use super::messages::{self, Command, Message, Outcome};
use super::store::{Store, Subscriptions};
use super::turn_state::{Entry, MAX_ENTRIES};
use crate::redis::link::Request;
use crate::turn::TurnId;
use crate::turn::journal::error::unavailable;
use crate::turn::journal::registry::Registry;
use crate::turn::spawn::spawn;

/// The longest blocking read, so that a connection that died silently is noticed.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Pause after a failure of the server.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts the subscriber of a journal, unless it runs.
pub(super) fn ensure_running(store: &Arc<Store>) {
    let has_subscriber = std::mem::replace(&mut store.lock().has_subscriber, true);
    if !has_subscriber {
        let subscriber = RedisSubscriber {
            store: Arc::downgrade(store),
        };
        let closed = store.closed.subscribe();
        spawn(subscriber.run(closed), tracing::Span::none());
    }
}

/// Interrupts the subscriber's blocking read, so that it also waits for this turn. If this fails,
/// the next blocking read includes the turn.
pub(super) async fn wake(store: &Store, id: TurnId) {
    let mut pipeline = redis::pipe();
    mark_as_read(&mut pipeline, store, id);
    messages::send(
        &mut pipeline,
        &store.options.prefix,
        &store.process,
        &[("wake", "1")],
    );
    let _ = store.link.request_once::<()>(Request::Commands(&pipeline)).await;
}

/// Renews the mark of a turn that has readers here, once. The error shows that the server accepts no
/// writes.
pub(super) async fn mark(store: &Store, id: TurnId) -> RedisResult<()> {
    let mut pipeline = redis::pipe();
    mark_as_read(&mut pipeline, store, id);
    store.link.request_once(Request::Commands(&pipeline)).await
}

/// Records that the turn has readers here, so that its host does not stop it for lack of readers.
fn mark_as_read(pipeline: &mut redis::Pipeline, store: &Store, id: TurnId) {
    let key = store.keys(id).readers;
    let lease = millis(store.options.lease);
    pipeline.cmd("SET").arg(key).arg(1).arg("PX").arg(lease).ignore();
}

/// A blocking read.
struct BlockingRead {
    /// The keys of the streams, each with the ID of the last entry that is known.
    streams: Vec<(String, String)>,
    /// The turns of these streams, in the same order. The inbox is the last stream and has no turn.
    turns: Vec<TurnId>,
    timeout: Duration,
    response_timeout: Duration,
}

/// The new entries of each stream; `None` after the time-out.
type Reply = Option<Vec<(String, Vec<Entry>)>>;

impl BlockingRead {
    async fn send(&self, connection: &mut MultiplexedConnection) -> RedisResult<Reply> {
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT").arg(MAX_ENTRIES);
        // Zero would block forever.
        read.arg("BLOCK").arg(millis(self.timeout).max(1));
        read.arg("STREAMS");
        for (key, _) in &self.streams {
            read.arg(key);
        }
        for (_, last) in &self.streams {
            read.arg(last);
        }
        match timeout(self.timeout + self.response_timeout, read.query_async(connection)).await {
            Ok(reply) => reply,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }
}

/// The task that reads the streams and the inbox.
struct RedisSubscriber {
    store: Weak<Store>,
}

impl RedisSubscriber {
    async fn run(mut self, mut closed: watch::Receiver<()>) {
        let mut connection = None;
        let mut marked_at = Instant::now();
        while let Some((read, store)) = self.next_read() {
            let connected = match connection.take() {
                Some(connection) => Ok(connection),
                None => store.link.connect_for_blocking_reads().await,
            };
            // The subscriber does not keep the journal alive while it waits.
            drop(store);
            let received = match connected {
                Ok(mut blocking) => {
                    let Some(reply) = unless_closed(&mut closed, read.send(&mut blocking)).await else {
                        return;
                    };
                    reply.map(|reply| (reply, blocking))
                }
                Err(error) => Err(error),
            };
            let Some(store) = self.store.upgrade() else {
                return;
            };
            match received {
                Ok((reply, mut blocking)) => {
                    store.link.record_success();
                    dispatch(&store, &read, reply.unwrap_or_default(), &mut blocking).await;
                    if marked_at.elapsed() >= store.options.lease / 4
                        && mark_all_as_read(&store, &mut blocking).await
                    {
                        marked_at = Instant::now();
                    }
                    check_silent_turns(&store).await;
                    connection = Some(blocking);
                }
                Err(error) => {
                    handle_failure(&store, &error);
                    drop(store);
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

    /// Returns the next blocking read; `None` if there is nothing to wait for. The decision to end
    /// is made under the lock under which others check whether a subscriber runs.
    fn next_read(&mut self) -> Option<(BlockingRead, Arc<Store>)> {
        let store = self.store.upgrade()?;
        let has_turns = store.registry.turns() > 0;
        let mut subscriptions = store.lock();
        subscriptions.mirrors.retain(|_, mirror| mirror.has_readers());
        if subscriptions.mirrors.is_empty() && subscriptions.calls.is_empty() && !has_turns {
            subscriptions.has_subscriber = false;
            self.store = Weak::new();
            return None;
        }
        let read = blocking_read(&store, &subscriptions);
        drop(subscriptions);
        Some((read, store))
    }
}

impl Drop for RedisSubscriber {
    /// The runtime may drop the task while it waits. The readers of its turns then fail.
    fn drop(&mut self) {
        if let Some(store) = self.store.upgrade() {
            store.lock().has_subscriber = false;
            fail_all(&store);
        }
    }
}

fn blocking_read(store: &Store, subscriptions: &Subscriptions) -> BlockingRead {
    let now = Instant::now();
    // Short enough to renew the marks of turns with readers in time.
    let mut timeout = MAX_WAIT.min(store.options.lease / 3);
    let (mut streams, mut turns) = (Vec::new(), Vec::new());
    for (id, mirror) in &subscriptions.mirrors {
        timeout = timeout.min(mirror.check_at.saturating_duration_since(now));
        // After the last frame that the mirror has.
        if let Some(next) = mirror.awaited_index() {
            let last = format!("{PRODUCER}-{next}");
            streams.push((keys::Keys::of(&store.options.prefix, *id).frames, last));
            turns.push(*id);
        }
    }
    let inbox_position = match &*subscriptions.inbox_position {
        "" => "0-0".to_owned(),
        position => position.to_owned(),
    };
    streams.push((keys::inbox(&store.options.prefix, &store.process), inbox_position));
    BlockingRead {
        streams,
        turns,
        timeout,
        response_timeout: store.options.response_timeout,
    }
}

/// Executes a command of another host.
fn execute(registry: &Registry, id: TurnId, command: Command) -> Outcome {
    let Some(log) = registry.get(id) else {
        return Outcome::UnknownTurn;
    };
    let handle = &log.head.handle;
    match command {
        Command::Stop if handle.stop() => Outcome::Stopped,
        Command::Stop => Outcome::Finished,
        Command::Answer {
            request_id,
            answer,
            by,
        } => Outcome::Answered(handle.accept(&request_id, answer, by)),
    }
}

/// Passes new entries to their mirrors, delivers replies, and executes and answers calls.
async fn dispatch(
    store: &Store,
    read: &BlockingRead,
    received: Vec<(String, Vec<Entry>)>,
    connection: &mut MultiplexedConnection,
) {
    let mut replies = redis::pipe();
    for (key, entries) in received {
        let at = read.streams.iter().position(|(stream, _)| *stream == key);
        match at.and_then(|at| read.turns.get(at)) {
            Some(id) => store.receive(*id, &entries),
            None => {
                for (entry, fields) in entries {
                    store.lock().inbox_position = entry;
                    match Message::parse(&fields) {
                        Some(Message::Reply { number, outcome }) => store.deliver(number, outcome),
                        Some(Message::Call {
                            id,
                            command,
                            from,
                            number,
                        }) => {
                            let outcome = execute(&store.registry, id, command);
                            let fields = [("number", number.as_str()), ("outcome", outcome.code())];
                            messages::send(&mut replies, &store.options.prefix, &from, &fields);
                        }
                        None => {}
                    }
                }
            }
        }
    }
    if !replies.is_empty() {
        let replied = replies.query_async::<()>(connection);
        // A host without a reply sends its command again.
        if !matches!(timeout(store.options.response_timeout, replied).await, Ok(Ok(()))) {
            tracing::debug!("redis has not accepted the replies to other hosts");
        }
    }
}

/// Records which turns have readers here. Returns whether the server accepted that; otherwise it is tried
/// again after the next blocking read.
async fn mark_all_as_read(store: &Store, connection: &mut MultiplexedConnection) -> bool {
    let mut pipeline = redis::pipe();
    for (id, mirror) in &store.lock().mirrors {
        if mirror.awaited_index().is_some() {
            mark_as_read(&mut pipeline, store, *id);
        }
    }
    if pipeline.is_empty() {
        return true;
    }
    let marking = pipeline.query_async::<()>(connection);
    matches!(timeout(store.options.response_timeout, marking).await, Ok(Ok(())))
}

/// Checks the turns that have been silent for long.
async fn check_silent_turns(store: &Store) {
    let now = Instant::now();
    let mut due = Vec::new();
    for (id, mirror) in &mut store.lock().mirrors {
        if mirror.check_at <= now {
            mirror.check_at = now + store.options.lease_ttl();
            due.push(*id);
        }
    }
    for id in due {
        store.check(id).await;
    }
}

/// Handles a failure of the server. If the outage is too long, the readers fail.
fn handle_failure(store: &Store, error: &redis::RedisError) {
    store.link.record_failure();
    if store.link.should_give_up(error) {
        tracing::warn!(%error, "redis cannot be reached, so turns of other hosts cannot be read");
        fail_all(store);
    }
}

fn fail_all(store: &Store) {
    let mirrors = std::mem::take(&mut store.lock().mirrors);
    for mirror in mirrors.into_values() {
        mirror.fail(&store.registry, unavailable());
    }
}

/// Waits for `future`; returns `None` if the journal is dropped before.
async fn unless_closed<T>(closed: &mut watch::Receiver<()>, future: impl Future<Output = T>) -> Option<T> {
    let mut closed = pin!(closed.changed());
    let mut future = pin!(future);
    poll_fn(|cx| match closed.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => future.as_mut().poll(cx).map(Some),
    })
    .await
}
