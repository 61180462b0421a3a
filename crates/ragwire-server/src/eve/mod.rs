//! The sessions of Eve's routes: turns of one conversation whose lines make one stream, read from any place by any number of readers.
//!
//! ```text
//!  routes/eve.rs ──► EveSessions ──► state.rs   in the session's own state: token, turns, where their lines begin
//!                         │
//!                         └────────► lines.rs   a turn's lines, out of the journal ──► reader.rs  one turn after the other
//! ```
//!
//! Nothing is kept here: what was said and what turns there were stands in the session, what a turn sent in the journal. So any host that
//! shares both serves any session, and a restart loses the lines of earlier turns at most, and says so. Lines are made again for every
//! reader; that is exact, since each frame has its place in the journal and lines are made of frames alone.
//!
//! How many lines a turn has is counted when it is over: by the task that watches it, or by whoever needs to know it first.

mod lines;
mod reader;
mod state;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ragwire::Turn;
use ragwire::session::{Session, SessionError, Sessions};
use ragwire::turn::{AnswerError, Journal, ResumeError, StopError, TurnId};
use serde_json::Value;
use tokio_util::task::TaskTracker;

pub(crate) use self::lines::KEEP_ALIVE;
use self::lines::Lines;
pub(crate) use self::reader::Reader;
use self::state::{Counted, Phase, Record, State};

/// How long a host has a session for a turn whose response has not begun, unless it says that it still waits. As long as another host
/// says that the session is active after that host was killed.
const LEASE: Duration = Duration::from_secs(30);
/// How often it says so.
const RENEWAL: Duration = Duration::from_secs(10);
/// Bytes of all questions in a session's state: those of a hundred turns.
const QUESTIONS_BYTES: usize = 64 * 1024;
/// What the figures of the last turn may add to a state that was just full.
const FIGURES_BYTES: usize = 1024;
/// How often a session is looked at again where it changes meanwhile; with a pause where only this process can know what becomes of it.
const LOOKS: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// What Eve's routes know of sessions. Clones are the same.
#[derive(Clone)]
pub struct EveSessions {
    sessions: Sessions,
    journal: Journal,
    own: Arc<Own>,
}

/// What of it concerns this process only.
struct Own {
    host: String,
    next_claim: AtomicU64,
    /// What this process has taken sessions by, for turns whose response has not begun.
    claims: Mutex<HashSet<String>>,
    /// The turns that it watches.
    watched: Mutex<HashSet<TurnId>>,
    tasks: TaskTracker,
}

/// Why a session of Eve is not read, or not gone on with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EveError {
    /// There is no such session for that owner.
    #[error("no such session")]
    Unknown,
    /// Its last message is still being answered.
    #[error("session is still active")]
    Active,
    /// It failed for good.
    #[error("session is terminal")]
    Over,
    /// The token is not the session's.
    #[error("stale or missing continuation token")]
    Token,
    /// The lines from a place on are no longer all there.
    #[error("lines are no longer kept")]
    Truncated {
        /// The first index that can be read, where it is known.
        base: Option<u64>,
    },
    /// Nothing can be said of the turns now.
    #[error("the turns of the session are not reachable")]
    Unavailable,
    /// The sessions cannot be used.
    #[error("the session could not be used")]
    Store(#[source] SessionError),
    /// What is kept of the session is none of Eve's.
    #[error("the state of the session is damaged")]
    Damaged(#[from] serde_json::Error),
}

/// Why an answer is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerRefused {
    /// The session is not there, or not reached.
    #[error(transparent)]
    Session(#[from] EveError),
    /// The turn does not take it.
    #[error("the turn does not take the answer")]
    Answer(TurnId, #[source] AnswerError),
}

impl From<SessionError> for EveError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Unknown => Self::Unknown,
            other => Self::Store(other),
        }
    }
}

/// A session as it stands.
pub(crate) struct EveSession {
    owner: String,
    id: String,
    state: State,
}

impl EveSession {
    /// Its id, which gives access to what was said.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// What a client shows to go on with it.
    pub(crate) fn token(&self) -> &str {
        &self.state.token
    }

    /// Its newest turn.
    pub(crate) fn turn(&self) -> Option<&str> {
        self.state.turns.last().map(|turn| &*turn.id)
    }
}

/// What becomes of a turn that runs as far as its session knows.
enum Fate {
    Runs,
    /// Its lines could be counted, or are lost.
    Over(Option<Counted>),
    /// It is over, and the task that watches it will say how many lines it had.
    Awaited,
}

impl EveSessions {
    /// Over sessions and a journal that are shared by the same hosts.
    pub fn new(sessions: Sessions, journal: Journal) -> Self {
        Self {
            sessions,
            journal,
            own: Arc::new(Own {
                host: TurnId::random().to_string(),
                next_claim: AtomicU64::new(0),
                claims: Mutex::default(),
                watched: Mutex::default(),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// What a session's state may need, where a question has at most `max_question` bytes.
    pub fn max_state_bytes(max_question: usize) -> usize {
        // As JSON, in which a byte may become six.
        QUESTIONS_BYTES + max_question * 6 + FIGURES_BYTES
    }

    /// Begins a session, in which no turn has begun yet.
    pub(crate) async fn create(&self, owner: &str, documented: bool) -> Result<EveSession, EveError> {
        let id = format!("ses_{}", Sessions::random_id()?);
        let state = State::new(format!("eve_{}", Sessions::random_id()?), documented);
        let json = serde_json::to_value(&state)?;
        let prepare = |session: &mut Session| session.state.clone_from(&json);
        self.sessions.begin_with(&space(owner), &id, prepare).await?;
        Ok(EveSession {
            owner: owner.to_owned(),
            id,
            state,
        })
    }

    /// Forgets a session whose first turn did not begin.
    pub(crate) async fn forget(&self, owner: &str, id: &str) {
        if let Err(error) = self.sessions.delete(&space(owner), id).await {
            // Nobody was told its id, and it grows old.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a session without a turn stays"
            );
        }
    }

    /// The session as it stands: of a turn that is over its state says so, whoever should have said it.
    pub(crate) async fn find(&self, owner: &str, id: &str) -> Result<EveSession, EveError> {
        for _ in 0..LOOKS {
            let session = self.load(owner, id).await?;
            if let Some(running) = session.state.running() {
                match self.fate(&session, running).await? {
                    Fate::Runs => return Ok(session),
                    Fate::Over(counted) => drop(self.settle(owner, id, &running.id, counted).await?),
                    Fate::Awaited => tokio::time::sleep(PAUSE).await,
                }
            } else if let Phase::Starting { host, until } = &session.state.phase
                && self.is_abandoned(host, *until)
            {
                self.release(owner, id, host).await?;
            } else {
                return Ok(session);
            }
        }
        Err(EveError::Active)
    }

    async fn load(&self, owner: &str, id: &str) -> Result<EveSession, EveError> {
        let session = self.sessions.get(&space(owner), id).await?;
        Ok(EveSession {
            owner: owner.to_owned(),
            id: id.to_owned(),
            state: serde_json::from_value(session.state)?,
        })
    }

    async fn update<T>(
        &self,
        owner: &str,
        id: &str,
        mut change: impl FnMut(&mut State) -> Result<T, EveError>,
    ) -> Result<(EveSession, T), EveError> {
        let change = |session: &mut Session| {
            let mut state: State = serde_json::from_value(session.state.take())?;
            let given = change(&mut state)?;
            session.state = serde_json::to_value(&state)?;
            Ok::<_, EveError>((state, given))
        };
        let (_, (state, given)) = self.sessions.update(&space(owner), id, change).await?;
        let (owner, id) = (owner.to_owned(), id.to_owned());
        Ok((EveSession { owner, id, state }, given))
    }

    /// Takes the session for a turn: nobody else can, on any host, until it is released, or the turn is over.
    pub(crate) async fn take(&self, owner: &str, id: &str, token: &str) -> Result<Taken, EveError> {
        let session = self.find(owner, id).await?;
        match session.state.phase {
            Phase::Over => return Err(EveError::Over),
            Phase::Active | Phase::Starting { .. } => return Err(EveError::Active),
            Phase::Waiting if !session.state.has_token(token) => return Err(EveError::Token),
            Phase::Waiting => {}
        }
        let claim = Claim::new(&self.own);
        let taken = self.update(owner, id, |state| match state.phase {
            Phase::Waiting => {
                state.phase = claim.phase();
                Ok(())
            }
            Phase::Over => Err(EveError::Over),
            Phase::Active | Phase::Starting { .. } => Err(EveError::Active),
        });
        let (session, ()) = taken.await?;
        Ok(Taken {
            eve: self.clone(),
            session,
            claim,
        })
    }

    /// Gives a human's answers to what the newest turn asks, one after the other; those before a refused one are given.
    pub(crate) async fn answer(
        &self,
        owner: &str,
        id: &str,
        token: &str,
        answers: Vec<(String, Value)>,
    ) -> Result<EveSession, AnswerRefused> {
        let session = self.find(owner, id).await?;
        if !session.state.has_token(token) {
            return Err(EveError::Token.into());
        }
        let turn = session.turn().and_then(TurnId::parse);
        let turn = turn.ok_or(AnswerRefused::Answer(TurnId::random(), AnswerError::Unknown))?;
        for (request_id, answer) in answers {
            let answered = self.journal.answer(turn, owner, &request_id, answer).await;
            answered.map_err(|error| AnswerRefused::Answer(turn, error))?;
        }
        Ok(session)
    }

    /// Stops the turn that runs, if it is the one asked for. False where there is none.
    pub(crate) async fn stop(&self, owner: &str, id: &str, sequence: Option<u64>) -> Result<bool, EveError> {
        let session = self.find(owner, id).await?;
        let running = session.state.running();
        let running = running.filter(|running| sequence.is_none_or(|asked| asked == running.sequence));
        let Some(turn) = running.and_then(|running| TurnId::parse(&running.id)) else {
            return Ok(false);
        };
        match self.journal.stop(turn, owner).await {
            Ok(stopped) => Ok(stopped),
            Err(StopError::Unknown(_)) => Ok(false),
            Err(_) => Err(EveError::Unavailable),
        }
    }

    /// Waits until it is known of every turn that was watched here how many lines it has.
    pub async fn settled(&self) {
        self.own.tasks.close();
        self.own.tasks.wait().await;
    }

    /// Says that a turn is over. False where that was known.
    async fn settle(
        &self,
        owner: &str,
        id: &str,
        turn: &str,
        counted: Option<Counted>,
    ) -> Result<bool, EveError> {
        // What is known already is not written again.
        let settled = self.update(owner, id, |state| match state.settle(turn, counted) {
            true => Ok(()),
            false => Err(EveError::Active),
        });
        match settled.await {
            Ok(_) => Ok(true),
            Err(EveError::Active | EveError::Unknown) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets go of a session that `host` has taken.
    async fn release(&self, owner: &str, id: &str, host: &str) -> Result<(), EveError> {
        let released = self.update(owner, id, |state| match &state.phase {
            Phase::Starting { host: by, .. } if by == host => {
                state.phase = Phase::Waiting;
                Ok(())
            }
            _ => Err(EveError::Active),
        });
        match released.await {
            Ok(_) | Err(EveError::Active | EveError::Unknown) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn is_abandoned(&self, host: &str, until: u64) -> bool {
        if host.starts_with(&self.own.host) {
            !lock(&self.own.claims).contains(host)
        } else {
            until < now()
        }
    }

    async fn fate(&self, session: &EveSession, turn: &Record) -> Result<Fate, EveError> {
        let Some(id) = TurnId::parse(&turn.id) else {
            return Ok(Fate::Over(None));
        };
        let lost = if lock(&self.own.watched).contains(&id) {
            Fate::Awaited
        } else {
            Fate::Over(None)
        };
        let mut resumed = self.journal.resume(id, &session.owner, 0).await;
        if let Err(ResumeError::Gone { base }) = resumed {
            // Too long to be kept, and perhaps still running.
            resumed = self.journal.resume(id, &session.owner, base).await;
            return match resumed {
                Ok(turn) if turn.is_finished() => Ok(lost),
                Err(ResumeError::Unavailable) => Err(EveError::Unavailable),
                // It runs, or loses more at this moment.
                Ok(_) | Err(ResumeError::Gone { .. }) => Ok(Fate::Runs),
                Err(_) => Ok(lost),
            };
        }
        match resumed {
            Ok(resumed) if !resumed.is_finished() => Ok(Fate::Runs),
            Ok(resumed) => {
                let wire = session.state.wire(&session.id, turn);
                if resumed.supports(&wire).is_err() {
                    return Ok(lost);
                }
                Ok(Fate::Over(Some(Lines::all(resumed, &wire).count().await)))
            }
            Err(ResumeError::Unavailable) => Err(EveError::Unavailable),
            Err(_) => Ok(lost),
        }
    }

    /// The lines of a turn but for the first `skip`, unless the journal has lost some.
    async fn lines(&self, session: &EveSession, turn: &Record, skip: u64) -> Result<Option<Lines>, EveError> {
        let Some(id) = TurnId::parse(&turn.id) else {
            return Ok(None);
        };
        match self.journal.resume(id, &session.owner, 0).await {
            Ok(resumed) => {
                let wire = session.state.wire(&session.id, turn);
                let is_whole = resumed.supports(&wire).is_ok();
                Ok(is_whole.then(|| Lines::new(resumed, &wire, skip)))
            }
            Err(ResumeError::Unavailable) => Err(EveError::Unavailable),
            Err(_) => Ok(None),
        }
    }

    /// Says where a reader could go on that has lost lines: at the first line of a `later` turn that is all there, else behind them all.
    async fn truncated(&self, session: &EveSession, is_later: impl Fn(&Record) -> bool) -> EveError {
        for turn in session.state.turns.iter().filter(|turn| is_later(turn)) {
            match self.lines(session, turn, 0).await {
                Ok(Some(_)) => {
                    return EveError::Truncated {
                        base: Some(turn.first),
                    };
                }
                Ok(None) => {}
                Err(error) => return error,
            }
        }
        // The lines of one that runs are not numbered yet.
        let base = session.state.running().is_none().then_some(session.state.lines);
        EveError::Truncated { base }
    }

    /// Counts the lines of a turn while it runs, and says so at its end.
    fn watch(&self, session: &EveSession, turn: Turn) {
        let Some(record) = session.state.running() else {
            return;
        };
        let lines = Lines::all(turn, &session.state.wire(&session.id, record));
        let (eve, owner, id) = (self.clone(), session.owner.clone(), session.id.clone());
        let (turn, watched) = (record.id.clone(), Watched::new(&self.own, &record.id));
        self.own.tasks.spawn(async move {
            let counted = lines.count().await;
            let settled = eve.settle(&owner, &id, &turn, Some(counted)).await;
            drop(watched);
            if let Err(error) = settled {
                // Whoever needs to know it counts again.
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the end of a turn was not remembered"
                );
            }
        });
    }
}

impl fmt::Debug for EveSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EveSessions")
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}

/// A session that is taken for a turn. Dropping it lets the next message come, as soon as somebody looks.
pub(crate) struct Taken {
    eve: EveSessions,
    session: EveSession,
    claim: Claim,
}

impl Taken {
    /// What the session is called in the store: its owner's name there, and its id.
    pub(crate) fn key(&self) -> (String, String) {
        (space(&self.session.owner), self.session.id.clone())
    }

    /// Waits for `start`, and tells other hosts meanwhile that this one still has the session.
    pub(crate) async fn hold<T>(&self, start: impl Future<Output = T>) -> T {
        let mut start = std::pin::pin!(start);
        loop {
            tokio::select! {
                biased;
                started = &mut start => return started,
                () = tokio::time::sleep(RENEWAL) => {
                    let renewed = self.eve.update(&self.session.owner, &self.session.id, |state| {
                        if !self.claim.has(&state.phase) {
                            return Err(EveError::Active);
                        }
                        state.phase = self.claim.phase();
                        Ok(())
                    });
                    if let Err(error) = renewed.await {
                        tracing::warn!(error = &error as &dyn std::error::Error, "a session is no longer held");
                    }
                }
            }
        }
    }

    /// The turn has begun: its lines are the session's next. It is watched from now on.
    pub(crate) async fn began(self, turn: Turn, question: String) -> Result<EveSession, EveError> {
        let id = turn.id();
        let max_bytes = self.eve.sessions.limits().max_state_bytes;
        let began = self.eve.update(&self.session.owner, &self.session.id, |state| {
            if !self.claim.has(&state.phase) {
                return Err(EveError::Active);
            }
            state.began(id, question.clone(), max_bytes.saturating_sub(FIGURES_BYTES));
            Ok(())
        });
        match began.await {
            Ok((session, ())) => {
                self.eve.watch(&session, turn);
                Ok(session)
            }
            Err(error) => {
                turn.handle().stop();
                Err(error)
            }
        }
    }

    /// The turn did not begin.
    pub(crate) async fn release(self) {
        let (owner, id) = (&self.session.owner, &self.session.id);
        if let Err(error) = self.eve.release(owner, id, &self.claim.name).await {
            // Whoever looks at it next does it.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a session is not released yet"
            );
        }
    }
}

/// What this process has taken a session by.
struct Claim {
    own: Arc<Own>,
    name: String,
}

impl Claim {
    fn new(own: &Arc<Own>) -> Self {
        let number = own.next_claim.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{number}", own.host);
        lock(&own.claims).insert(name.clone());
        Self {
            own: Arc::clone(own),
            name,
        }
    }

    fn phase(&self) -> Phase {
        Phase::Starting {
            host: self.name.clone(),
            until: now().saturating_add(LEASE.as_millis() as u64),
        }
    }

    fn has(&self, phase: &Phase) -> bool {
        matches!(phase, Phase::Starting { host, .. } if *host == self.name)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.own.claims).remove(&self.name);
    }
}

/// A turn that is watched, until its end is known.
struct Watched {
    own: Arc<Own>,
    turn: Option<TurnId>,
}

impl Watched {
    fn new(own: &Arc<Own>, turn: &str) -> Self {
        let turn = TurnId::parse(turn);
        lock(&own.watched).extend(turn);
        Self {
            own: Arc::clone(own),
            turn,
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(turn) = &self.turn {
            lock(&self.own.watched).remove(turn);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an owner is called among Eve's sessions. No other route looks there: who knows the id of a session may read it by Eve's routes,
/// but only with its token go on with it. No header can hold the character in it, so it is no other owner's name.
fn space(owner: &str) -> String {
    format!("eve\u{0}{owner}")
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
