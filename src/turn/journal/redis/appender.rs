//! The appends of all turns of this process. Those that are ready in the same moment, and those that
//! arrive while the server answers, share one request: for a hundred paced turns that is a tenth of
//! the writes, reads and wake-ups.
//!
//! One task sends while there is something to send, one request at a time. An append that is alone
//! leaves at once. After a request with several appends, the next one leaves when enough of them wait
//! or [`SPACING`] has passed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisResult, Value, from_redis_value};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use super::store::Store;
use crate::redis::link::Request;
use crate::turn::spawn::spawn;

/// The size of a request above which no further append joins it, so that the server answers it in
/// time.
const MAX_REQUEST_BYTES: usize = 1024 * 1024;

/// The time from one request to the next while several appends share one. tokio's timers make it up to
/// 2 ms. Of 100 paced turns, 10 then share a request instead of 3, for an eighth less processor time.
const SPACING: Duration = Duration::from_micros(500);

/// The number of appends that are not kept waiting: what a request costs by itself is little then.
const ENOUGH: usize = 16;

/// The appends that wait for the next request.
#[derive(Debug, Default)]
pub(super) struct Appender {
    state: Mutex<State>,
    /// Wakes the task when [`ENOUGH`] appends wait.
    enough: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Append>,
    /// Whether a task sends them.
    is_running: bool,
}

#[derive(Debug)]
struct Append {
    command: Cmd,
    bytes: usize,
    reply: oneshot::Sender<Value>,
}

impl Appender {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an append. Returns `false` if no task sends it: the caller starts one.
    fn add(&self, append: Append) -> bool {
        let mut state = self.lock();
        state.waiting.push(append);
        if state.waiting.len() == ENOUGH {
            self.enough.notify_one();
        }
        std::mem::replace(&mut state.is_running, true)
    }

    /// Waits until there are enough appends for a request, or until `deadline`.
    async fn gather(&self, deadline: Instant) {
        if self.lock().waiting.len() < ENOUGH {
            let _ = timeout_at(deadline, self.enough.notified()).await;
        }
    }

    /// Takes the appends of the next request. Without any, the task that asks has ended.
    fn take(&self) -> Vec<Append> {
        let mut state = self.lock();
        let mut bytes = 0;
        let fits = |append: &&Append| {
            let fits = bytes < MAX_REQUEST_BYTES;
            bytes += append.bytes;
            fits
        };
        let count = state.waiting.iter().take_while(fits).count();
        let rest = state.waiting.split_off(count);
        let taken = std::mem::replace(&mut state.waiting, rest);
        state.is_running = !taken.is_empty();
        taken
    }
}

impl Store {
    /// Sends an append with those of other turns, once. Returns `None` if the server has not accepted
    /// it or its reply was lost; the caller then sends it again by the script, which an append allows.
    pub(super) async fn append_with_others<T: FromRedisValue>(
        self: &Arc<Self>,
        command: Cmd,
        bytes: usize,
    ) -> Option<T> {
        let (reply, received) = oneshot::channel();
        let is_running = self.appender.add(Append {
            command,
            bytes,
            reply,
        });
        if !is_running {
            let sending = Sending {
                store: Arc::clone(self),
                has_ended: false,
            };
            spawn(sending.run(), tracing::Span::none());
        }
        from_redis_value(received.await.ok()?).ok()
    }
}

/// The task that sends appends.
struct Sending {
    store: Arc<Store>,
    /// Whether there was nothing left to send, so that another task may have started since.
    has_ended: bool,
}

impl Sending {
    async fn run(mut self) {
        loop {
            // The other turns that are ready now append first.
            tokio::task::yield_now().await;
            let appends = self.store.appender.take();
            if appends.is_empty() {
                self.has_ended = true;
                return;
            }
            let (count, sent_at) = (appends.len(), Instant::now());
            self.send(appends).await;
            if count > 1 {
                self.store.appender.gather(sent_at + SPACING).await;
            }
        }
    }

    /// Sends one request. Dropping the sender of a reply reports its loss.
    async fn send(&self, appends: Vec<Append>) {
        let mut request = redis::Pipeline::with_capacity(appends.len());
        request.ignore_errors();
        let mut waiting = Vec::with_capacity(appends.len());
        for Append { command, reply, .. } in appends {
            request.add_command(command);
            waiting.push(reply);
        }
        let replies: RedisResult<Vec<RedisResult<Value>>> =
            self.store.link.request_once(Request::Commands(&request)).await;
        for (waiting, reply) in waiting.into_iter().zip(replies.into_iter().flatten()) {
            match reply {
                // The turn may have been dropped meanwhile.
                Ok(reply) => drop(waiting.send(reply)),
                Err(error) => tracing::debug!(%error, "redis has refused an append, which is repeated"),
            }
        }
    }
}

impl Drop for Sending {
    /// The runtime may drop the task while it waits. The appends then have no reply, and the next one
    /// starts another task.
    fn drop(&mut self) {
        if !self.has_ended {
            let mut state = self.store.appender.lock();
            state.is_running = false;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            drop(waiting);
        }
    }
}
