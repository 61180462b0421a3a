//! The journal beyond one host: turns stand in a Redis server as well, where every host of a service finds them.
//!
//! ```text
//!  producing host                    redis                              any other host
//!  queue ──► recorder ──► writer ──► stream of the turn ──► ear ──► mirror: a log like the producer's
//!              │  (acknowledged)                                       │   │
//!              ▼                                                       │   └─────► resume(id, owner, 7)
//!             log ──► its readers    inbox of the host ◄── calls ──────┘ stop, answer
//! ```
//!
//! The log of a turn stays what readers follow, on every host; what differs is who fills it. On the producing host nothing enters the log
//! that the server has not acknowledged, so no reader anywhere is ahead of it. Elsewhere the log is a mirror of the stream, shared by all
//! readers of that turn there and gone with the last of them.
//!
//! It deliberately knows no wire and no http.

mod calls;
mod ear;
mod keys;
mod mirror;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{oneshot, watch};

pub(super) use writer::{Opening, Writer};

use self::calls::{Command, Outcome};
use self::keys::Keys;
use self::mirror::{Look, Mirror};
use super::error::{ResumeError, StopError, UnknownTurn};
use super::follower::Reading;
use super::log::Log;
use super::{Journal, JournalLimits};
use crate::failure::Failure;
use crate::redis::check::check;
use crate::redis::keys::hashed;
use crate::redis::link::{Link, Request, Unreachable};
use crate::redis::{Durability, RedisError, RedisOptions};
use crate::turn::human::open::AnswerSource;
use crate::turn::{AnswerError, AnswerOutcome, TurnId};

/// How long the keys of a turn that runs stay without any sign of its host, besides all other times: longer than two hosts' clocks
/// and pauses differ.
const MARGIN: Duration = Duration::from_secs(60);

/// Longest time to live of a key: 30 days. Nothing stays for ever on a server that others use too.
const MAX_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

impl Journal {
    /// A journal whose turns are read, stopped and answered on every host that opens one with the same server and prefix.
    ///
    /// The `limits` bound what this process holds: its own turns and those that it reads for others. Of each turn the server keeps as
    /// much as the process ([`JournalLimits::max_turn_bytes`]), for as long ([`JournalLimits::keep`], 1 second at least and 30 days at
    /// most), so it has to have room for the turns of all hosts.
    ///
    /// A turn whose response is to begin while the server is away is rejected as `unavailable` after [`RedisOptions::retry`]. One that
    /// runs waits as long, then fails under that code. Where the server has lost what it had acknowledged, the turn fails as `lost`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`RedisError`], where the server does not answer or should not be trusted with turns.
    pub async fn redis(options: RedisOptions, limits: JournalLimits) -> Result<Self, RedisError> {
        let link = Link::new(&options);
        let durability = check(&link, &options).await?;
        let process = TurnId::random();
        if !process.is_random() {
            return Err(RedisError::Unusable {
                reason: "the operating system gave no randomness".to_owned(),
            });
        }
        let store = Store {
            process: process.to_string(),
            link,
            options,
            limits,
            durability,
            listening: Mutex::default(),
            closed: watch::Sender::new(()),
        };
        Ok(Self::new(limits, Some(Arc::new(store))))
    }

    /// What an acknowledged frame survived when the journal was opened; `None` for a journal in memory.
    pub fn durability(&self) -> Option<Durability> {
        self.shared.store.as_ref().map(|store| store.durability)
    }
}

/// The server, and what this process hears from it.
pub(super) struct Store {
    options: RedisOptions,
    limits: JournalLimits,
    link: Link,
    /// Names this process, this journal of it.
    process: String,
    durability: Durability,
    listening: Mutex<Listening>,
    /// Dropped with the journal: then nobody listens any more.
    closed: watch::Sender<()>,
}

#[derive(Default)]
struct Listening {
    mirrors: HashMap<TurnId, Mirror>,
    /// Who waits for what another host says.
    calls: HashMap<u64, oneshot::Sender<Outcome>>,
    next_call: u64,
    /// The last entry of the inbox that was read.
    inbox_read: String,
    /// Whether a task listens.
    is_listening: bool,
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Listening> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the keys of a turn that runs stay from now on.
    fn running(&self) -> Duration {
        let RedisOptions { lease, retry, .. } = self.options;
        self.limits.keep.saturating_add(lease + retry + MARGIN)
    }

    /// The response of a turn begins.
    pub(super) async fn begin(
        self: &Arc<Self>,
        journal: &Journal,
        opening: Opening<'_>,
    ) -> Result<Writer, Failure> {
        let writer = Writer::begin(Arc::clone(self), opening).await?;
        ear::listen(self, journal);
        Ok(writer)
    }

    /// A turn that does not run here.
    async fn find(&self, id: TurnId, owner: &str) -> Result<Look, StopError> {
        let look = self
            .look(id)
            .await
            .map_err(|Unreachable| StopError::Unavailable)?;
        match look.filter(|look| look.owner.is_empty() || look.owner == owner) {
            Some(look) => Ok(look),
            None => Err(UnknownTurn.into()),
        }
    }

    pub(super) async fn resume(
        self: &Arc<Self>,
        journal: &Journal,
        id: TurnId,
        owner: &str,
        from: u64,
    ) -> Result<Reading, ResumeError> {
        let look = self.find(id, owner).await?;
        mirror::read(self, journal, look, from).await
    }

    /// A reader of a turn that runs here. Other hosts read a frame as soon as the server has it, so one who comes from there may be ahead of this
    /// host, which waits for the acknowledgement.
    pub(super) async fn resume_here(&self, log: &Arc<Log>, from: u64) -> Result<Reading, ResumeError> {
        let mut is_there = false;
        loop {
            let ahead = match log.attach(from) {
                Err(error @ ResumeError::Ahead { next }) if log.end().is_none() => (error, next),
                attached => return attached,
            };
            if !is_there {
                let look = self.look(log.head.handle.id()).await;
                is_there = look
                    .map_err(|Unreachable| ResumeError::Unavailable)?
                    .is_some_and(|look| look.has(from));
                if !is_there {
                    return Err(ahead.0);
                }
            }
            // Its writer brings it, or the end of the turn.
            if let Ok(mut tail) = log.attach(ahead.1) {
                poll_fn(|cx| tail.poll_frames(cx)).await;
            }
        }
    }

    pub(super) async fn stop(
        self: &Arc<Self>,
        journal: &Journal,
        id: TurnId,
        owner: &str,
    ) -> Result<bool, StopError> {
        let look = self.find(id, owner).await?;
        if look.is_over {
            return Ok(false);
        }
        match calls::call(self, journal, look, Command::Stop).await {
            Some(Outcome::Stopped) => Ok(true),
            Some(_) => Ok(false),
            None => Err(StopError::Unavailable),
        }
    }

    pub(super) async fn answer(
        self: &Arc<Self>,
        journal: &Journal,
        id: TurnId,
        owner: &str,
        request_id: &str,
        (answer, by): (Value, AnswerSource),
    ) -> Result<AnswerOutcome, AnswerError> {
        let look = match self.find(id, owner).await {
            Ok(look) => look,
            Err(StopError::Unknown(_)) => return Err(AnswerError::Unknown),
            Err(StopError::Unavailable) => return Err(AnswerError::Unavailable),
        };
        let command = Command::Answer {
            request_id: request_id.to_owned(),
            answer,
            by,
        };
        match calls::call(self, journal, look, command).await {
            Some(outcome) => outcome.answered(),
            None => Err(AnswerError::Unavailable),
        }
    }

    pub(super) async fn latest(&self, lane: &str, owner: &str) -> Result<Option<TurnId>, StopError> {
        let mut get = redis::pipe();
        get.cmd("GET")
            .arg(hashed(&self.options.prefix, "lane", owner, lane));
        let got: Result<(Option<String>,), Unreachable> = self.link.request(Request::Commands(&get)).await;
        let (id,) = got.map_err(|Unreachable| StopError::Unavailable)?;
        Ok(id.and_then(|id| TurnId::parse(&id)))
    }

    fn keys(&self, id: TurnId) -> Keys {
        Keys::of(&self.options.prefix, id)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A time as the server takes it.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.min(MAX_LIFE).as_millis()).unwrap_or(u64::MAX)
}
