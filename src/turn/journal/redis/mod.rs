//! The journal on several hosts: turns are stored on a Redis server, where every host of a service
//! finds them.
//!
//! ```text
//!  producing host                    redis                              any other host
//!  queue ──► recorder ──► writer ──► stream of the turn ──► subscriber ──► mirror: a log like the producer's
//!              │  (acknowledged)                                              │   │
//!              ▼                                                              │   └─────► resume(id, owner, 7)
//!             log ──► its readers    inbox of the host ◄── calls ─────────────┘ stop, answer
//! ```
//!
//! On every host, readers follow a log in memory; what differs is who fills it. On the producing
//! host, a frame enters the log when the server has acknowledged it, so no reader anywhere is ahead
//! of the server. On another host, the log is a mirror of the stream, shared by all readers of that
//! turn on that host and dropped with the last of them.
//!
//! This module knows no wire and no HTTP.

mod appender;
mod calls;
mod following;
mod keys;
mod messages;
mod mirror;
mod remote_readers;
#[cfg(test)]
mod simulation;
mod store;
mod subscriber;
mod turn_state;
mod writer;

use std::future::poll_fn;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::watch;

pub(super) use store::Store;
pub(super) use writer::{Opening, Writer};

use self::messages::{Command, Outcome};
use self::turn_state::TurnState;
use super::cursor::Cursor;
use super::error::{ResumeError, StopError, UnknownTurn};
use super::log::Log;
use super::registry::Registry;
use super::{Journal, JournalLimits};
use crate::failure::Failure;
use crate::redis::check::check;
use crate::redis::keys::hashed;
use crate::redis::link::{Link, Request, Unreachable};
use crate::redis::{Durability, RedisError, RedisOptions};
use crate::turn::human::open::AnswerSource;
use crate::turn::{AnswerError, AnswerOutcome, TurnId};

impl Journal {
    /// Opens a journal whose turns are read, stopped and answered on every host that opens one with
    /// the same server and prefix.
    ///
    /// The `limits` bound the memory of this process: its own turns, and those of other hosts that
    /// it reads. The server stores the same amount of each turn ([`JournalLimits::max_turn_bytes`])
    /// for the same time ([`JournalLimits::keep`], at least 1 second and at most 30 days), so it
    /// needs memory for the turns of all hosts.
    ///
    /// If the server is away when the response of a turn should begin, the turn is rejected as
    /// `unavailable` after [`RedisOptions::retry`]. A running turn waits as long and then fails
    /// with that code. If the server has lost frames that it had acknowledged, the turn fails as
    /// `lost`.
    ///
    /// ```no_run
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ragwire::redis::{Durability, RedisOptions};
    /// use ragwire::turn::{Journal, JournalLimits};
    ///
    /// let options = RedisOptions::new("redis://127.0.0.1")?.require(Durability::EverySecond);
    /// let journal = Journal::redis(options, JournalLimits::default()).await?;
    /// # let _ = journal;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`RedisError`] if the server does not answer or is not fit to store turns.
    pub async fn redis(options: RedisOptions, limits: JournalLimits) -> Result<Self, RedisError> {
        let link = Link::new(&options);
        let durability = check(&link, &options).await?;
        let process = TurnId::random();
        if !process.is_random() {
            return Err(RedisError::Unusable {
                reason: "the operating system gave no randomness".to_owned(),
            });
        }
        let registry = Arc::new(Registry::new(limits));
        let store = Store {
            registry: Arc::clone(&registry),
            process: process.to_string(),
            link,
            appender: appender::Appender::default(),
            options,
            limits,
            durability,
            subscriptions: Mutex::default(),
            closed: watch::Sender::new(()),
        };
        Ok(Self {
            registry,
            store: Some(Arc::new(store)),
        })
    }

    /// Returns what an acknowledged frame survived when the journal was opened; `None` for a
    /// journal in memory.
    pub fn durability(&self) -> Option<Durability> {
        self.store.as_ref().map(|store| store.durability)
    }
}

impl Store {
    /// Stores a turn whose response begins.
    pub(super) async fn begin(self: &Arc<Self>, opening: Opening<'_>) -> Result<Writer, Failure> {
        let writer = Writer::begin(Arc::clone(self), opening).await?;
        subscriber::ensure_running(self);
        Ok(writer)
    }

    /// Returns the state of a turn that does not run here.
    async fn find(&self, id: TurnId, owner: &str) -> Result<TurnState, StopError> {
        let turn = self
            .turn_state(id)
            .await
            .map_err(|Unreachable| StopError::Unavailable)?;
        match turn.filter(|turn| turn.owner.is_empty() || turn.owner == owner) {
            Some(turn) => Ok(turn),
            None => Err(UnknownTurn.into()),
        }
    }

    pub(super) async fn resume(
        self: &Arc<Self>,
        id: TurnId,
        owner: &str,
        from: u64,
    ) -> Result<Cursor, ResumeError> {
        let turn = self.find(id, owner).await?;
        following::read(self, turn, from).await
    }

    /// Adds a reader to a turn that runs here. Other hosts read a frame as soon as the server has
    /// it, while this host waits for the acknowledgement. So a reader that was connected to another
    /// host may be ahead of the log of this one.
    pub(super) async fn resume_here(
        self: &Arc<Self>,
        log: &Arc<Log>,
        from: u64,
    ) -> Result<Cursor, ResumeError> {
        let mut is_on_server = false;
        loop {
            // An append whose reply was lost may have stored frames that this log does not have. Its end
            // is then not the turn's, and the reader that has the frames continues on the server.
            if from >= log.next() && log.end().is_some_and(|end| following::is_hosts_own(&end)) {
                return self.resume(log.head.handle.id(), &log.head.owner, from).await;
            }
            let (error, next) = match Cursor::attach(log, from) {
                Err(error @ ResumeError::Ahead { next }) if !log.has_ended() => (error, next),
                attached => return attached,
            };
            if !is_on_server {
                let turn = self.turn_state(log.head.handle.id()).await;
                is_on_server = turn
                    .map_err(|Unreachable| ResumeError::Unavailable)?
                    .is_some_and(|turn| turn.next >= from);
                if !is_on_server {
                    return Err(error);
                }
            }
            // Waits until the writer appends the frame, or the end of the turn.
            if let Ok(mut tail) = Cursor::attach(log, next) {
                poll_fn(|cx| tail.poll_frames(cx)).await;
            }
        }
    }

    pub(super) async fn stop(self: &Arc<Self>, id: TurnId, owner: &str) -> Result<bool, StopError> {
        let turn = self.find(id, owner).await?;
        if turn.is_finished {
            return Ok(false);
        }
        match calls::call(self, turn, Command::Stop).await {
            Some(Outcome::Stopped) => Ok(true),
            Some(Outcome::Finished | Outcome::UnknownTurn | Outcome::Answered(_)) => Ok(false),
            None => Err(StopError::Unavailable),
        }
    }

    pub(super) async fn answer(
        self: &Arc<Self>,
        id: TurnId,
        owner: &str,
        request_id: &str,
        (answer, by): (Value, AnswerSource),
    ) -> Result<AnswerOutcome, AnswerError> {
        let turn = match self.find(id, owner).await {
            Ok(turn) => turn,
            Err(StopError::Unknown(_)) => return Err(AnswerError::Unknown),
            Err(StopError::Unavailable) => return Err(AnswerError::Unavailable),
        };
        let command = Command::Answer {
            request_id: request_id.to_owned(),
            answer,
            by,
        };
        match calls::call(self, turn, command).await {
            Some(outcome) => outcome.into_answered(),
            None => Err(AnswerError::Unavailable),
        }
    }

    pub(super) async fn latest(&self, lane: &str, owner: &str) -> Result<Option<TurnId>, StopError> {
        let mut get = redis::pipe();
        get.cmd("GET")
            .arg(hashed(&self.options.prefix, "lane", owner, lane));
        let found: Result<(Option<String>,), Unreachable> = self.link.request(Request::Commands(&get)).await;
        let (id,) = found.map_err(|Unreachable| StopError::Unavailable)?;
        Ok(id.and_then(|id| TurnId::parse(&id)))
    }
}
