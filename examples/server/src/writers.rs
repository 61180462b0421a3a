//! Who is answering in which session, and who waits for it: first come, first served.
//!
//! It knows sessions by their ids only. A route that has to leave the session in one piece asks for its [`turn`](Writers::turn) and
//! starts when nobody is answering there any more; one that need not only [`join`](Writers::join)s, so that it is seen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Longest wait for a turn: that of the session chat's contract. Three of the longest turns fit into it.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30 * 60);
/// Most that wait, in all sessions together. Each holds a connection and its question in memory; as many as turns that run.
pub const MAX_WAITING: usize = 64;
/// A wait that nobody notices is none: that of the session chat's contract.
const NOTICED: Duration = Duration::from_millis(10);

/// Why a turn does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTurn {
    /// Too many wait already.
    #[error("too many wait")]
    Full,
    /// The others took too long.
    #[error("waited too long")]
    TimedOut,
}

/// Those who answer, and those who wait.
#[derive(Debug, Default)]
pub struct Writers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// In the order in which they came.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    ticket: u64,
    session: String,
    /// What wakes it; none where it answers.
    waits: Option<Arc<Notify>>,
}

/// What is going on, in the words of the session chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Going {
    /// The session that has been answered for longest.
    pub generating: Option<String>,
    /// The sessions that wait, in order; once for each question.
    pub queued: Vec<String>,
}

/// How a turn waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waited {
    /// Whether it waited at all: more than 10 ms.
    pub at_all: bool,
    /// How many were before it in its session when it came.
    pub position: u32,
    /// How long.
    pub time: Duration,
}

/// A place among those who answer. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Writing {
    writers: Arc<Writers>,
    ticket: u64,
    waited: Waited,
}

impl Writers {
    /// Waits until nobody is answering in `session`, at most [`LONGEST_WAIT`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the place in the queue up.
    ///
    /// # Errors
    ///
    /// [`NoTurn`].
    pub async fn turn(self: &Arc<Self>, session: &str) -> Result<Writing, NoTurn> {
        let came = Instant::now();
        let (mut writing, wake) = {
            let mut state = self.lock();
            let before = state
                .entries
                .iter()
                .filter(|entry| entry.session == session)
                .count();
            let wake = (before > 0).then(|| Arc::new(Notify::new()));
            let waiting = state.entries.iter().filter(|entry| entry.waits.is_some());
            if wake.is_some() && waiting.count() >= MAX_WAITING {
                return Err(NoTurn::Full);
            }
            (self.enter(&mut state, session, before, wake.clone()), wake)
        };
        if let Some(wake) = wake {
            // On the error `writing` is dropped, and whoever woke us in that moment wakes the next.
            timeout(LONGEST_WAIT, wake.notified())
                .await
                .map_err(|_| NoTurn::TimedOut)?;
        }
        writing.waited.time = came.elapsed();
        writing.waited.at_all = writing.waited.time > NOTICED;
        Ok(writing)
    }

    /// Answers in `session` without waiting for others.
    pub fn join(self: &Arc<Self>, session: &str) -> Writing {
        self.enter(&mut self.lock(), session, 0, None)
    }

    /// What is going on.
    pub fn going(&self) -> Going {
        let state = self.lock();
        let session = |entry: &Entry| entry.session.clone();
        let generating = state.entries.iter().find(|entry| entry.waits.is_none());
        let queued = state.entries.iter().filter(|entry| entry.waits.is_some());
        Going {
            generating: generating.map(session),
            queued: queued.map(session).collect(),
        }
    }

    fn enter(
        self: &Arc<Self>,
        state: &mut State,
        session: &str,
        before: usize,
        waits: Option<Arc<Notify>>,
    ) -> Writing {
        let ticket = state.next;
        state.next += 1;
        state.entries.push(Entry {
            ticket,
            session: session.to_owned(),
            waits,
        });
        Writing {
            writers: Arc::clone(self),
            ticket,
            waited: Waited {
                at_all: false,
                position: u32::try_from(before).unwrap_or(u32::MAX),
                time: Duration::ZERO,
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes an entry out; where nobody answers in its session any more, the first that waits does.
    fn leave(&mut self, ticket: u64) {
        let Some(at) = self.entries.iter().position(|entry| entry.ticket == ticket) else {
            return;
        };
        let session = self.entries.remove(at).session;
        let mut same: Vec<&mut Entry> = self
            .entries
            .iter_mut()
            .filter(|entry| entry.session == session)
            .collect();
        if same.iter().any(|entry| entry.waits.is_none()) {
            return;
        }
        if let Some(wake) = same.first_mut().and_then(|next| next.waits.take()) {
            wake.notify_one();
        }
    }
}

impl Writing {
    /// How it waited.
    pub fn waited(&self) -> Waited {
        self.waited
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.writers.lock().leave(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use super::*;

    type Turn = Result<Writing, NoTurn>;

    /// Polls once.
    async fn look(turn: &mut Pin<&mut impl Future<Output = Turn>>) -> Option<Turn> {
        poll_fn(|cx| {
            Poll::Ready(match turn.as_mut().poll(cx) {
                Poll::Ready(turn) => Some(turn),
                Poll::Pending => None,
            })
        })
        .await
    }

    fn going(generating: Option<&str>, queued: &[&str]) -> Going {
        Going {
            generating: generating.map(Into::into),
            queued: queued.iter().map(|id| (*id).into()).collect(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_in_the_order_they_came() {
        let writers = Arc::new(Writers::default());
        let first = writers.turn("a").await.unwrap();
        let other = writers.turn("b").await.unwrap();
        let (mut second, mut third) = (pin!(writers.turn("a")), pin!(writers.turn("a")));
        assert!(look(&mut second).await.is_none() && look(&mut third).await.is_none());
        assert_eq!(writers.going(), going(Some("a"), &["a", "a"]));
        tokio::time::advance(Duration::from_secs(3)).await;
        drop(first);
        assert!(look(&mut third).await.is_none());
        assert_eq!(writers.going(), going(Some("b"), &["a"]));
        let second = look(&mut second).await.unwrap().unwrap();
        let waited = Waited {
            at_all: true,
            position: 1,
            time: Duration::from_secs(3),
        };
        assert_eq!(second.waited(), waited);
        drop((second, other));
        let third = look(&mut third).await.unwrap().unwrap();
        assert_eq!((third.waited().position, third.waited().time.as_secs()), (2, 3));
        drop(third);
        assert_eq!(writers.going(), going(None, &[]));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_holds_nobody_up() {
        let writers = Arc::new(Writers::default());
        let first = writers.turn("a").await.unwrap();
        let mut last = pin!(writers.turn("a"));
        {
            let mut gone = pin!(writers.turn("a"));
            assert!(look(&mut gone).await.is_none());
            assert!(look(&mut last).await.is_none());
        }
        assert_eq!(writers.going(), going(Some("a"), &["a"]));
        // Woken, and gone before it looked.
        {
            let mut woken = pin!(writers.turn("b"));
            let b = writers.join("b");
            assert!(look(&mut woken).await.is_none());
            drop(b);
        }
        assert_eq!(writers.going(), going(Some("a"), &["a"]));
        tokio::time::advance(LONGEST_WAIT).await;
        assert_eq!(look(&mut last).await.unwrap().unwrap_err(), NoTurn::TimedOut);
        drop(first);
        assert_eq!(writers.going(), going(None, &[]));
    }

    #[tokio::test]
    async fn few_wait_and_none_waits_for_itself() {
        let writers = Arc::new(Writers::default());
        let _first = writers.join("a");
        let _beside = writers.join("a");
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(writers.turn("a"))).collect();
        for turn in &mut waiting {
            assert!(look(&mut turn.as_mut()).await.is_none());
        }
        assert_eq!(writers.turn("a").await.unwrap_err(), NoTurn::Full);
        assert!(writers.turn("b").await.is_ok(), "nobody is before it");
    }
}
