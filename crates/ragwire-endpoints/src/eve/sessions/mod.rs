//! The sessions of Eve's routes: the lines of all turns of a conversation form one stream, which
//! any number of readers read from any index.
//!
//! ```text
//!  routes/eve ──► EveSessions ──► state.rs   stored in the session: token, turns, indices of their lines
//!                      │
//!                      └────────► lines.rs   a turn's lines, from the journal ──► reader.rs  turn by turn
//! ```
//!
//! This module stores nothing itself: messages and turns are in the session, and what a turn sent
//! is in the journal. So any host that shares both serves any session. A restart loses at most the
//! lines of earlier turns, and reports that. Lines are encoded again for every reader. The result
//! is always the same, because the journal stores the index of each frame and lines depend on
//! frames alone.
//!
//! The lines of a turn are counted after its end: by the task that watches it, or by the first
//! request that needs the number.

mod error;
mod host;
mod lines;
mod reader;
mod state;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ragwire::Turn;
use ragwire::session::{Session, Sessions};
use ragwire::turn::{AnswerError, Journal, ResumeError, StopError, TurnId};

pub(crate) use self::error::AnswerRefused;
pub(crate) use self::error::EveError;
use self::host::{Claim, ThisHost, WatchedTurn};
use self::lines::Lines;
pub(crate) use self::lines::padded;
pub(crate) use self::reader::Reader;
use self::state::{LineCount, Phase, State, TurnRecord};
use crate::human::{HumanAnswer, Verdict};

/// How often a claim on a session is renewed while its turn waits to start.
const RENEWAL: Duration = Duration::from_secs(10);
/// Room for questions in a session's state, in bytes: enough for a hundred turns.
const QUESTIONS_BYTES: usize = 64 * 1024;
/// Room for the numbers of the last turn in a full state, in bytes.
const FIGURES_BYTES: usize = 1024;
/// How often a session is loaded again if it changes in between.
const MAX_ATTEMPTS: usize = 100;
/// Pause between two attempts while this process still counts the lines of a turn.
const PAUSE: Duration = Duration::from_millis(10);

/// The sessions of Eve's routes. Clones share them.
#[derive(Clone)]
pub(crate) struct EveSessions {
    sessions: Sessions,
    journal: Journal,
    host: Arc<ThisHost>,
}

/// The current state of a session.
pub(crate) struct EveSession {
    owner: String,
    id: String,
    state: State,
}

impl EveSession {
    /// Returns the id, which gives read access to the session.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the token, which a client needs to continue the session.
    pub(crate) fn token(&self) -> &str {
        &self.state.token
    }

    /// Returns the id of the newest turn.
    pub(crate) fn turn(&self) -> Option<&str> {
        self.state.turns.last().map(|turn| &*turn.id)
    }
}

/// The actual state of a turn that is running according to its session.
enum Progress {
    Running,
    /// The turn has ended. `None` if its lines are lost and cannot be counted.
    Ended(Option<LineCount>),
    /// The turn has ended, and the task that watches it is about to store the number of its lines.
    Counting,
}

impl EveSessions {
    /// Creates the sessions from a session store and a journal that the same hosts share.
    pub(crate) fn new(sessions: Sessions, journal: Journal) -> Self {
        Self {
            sessions,
            journal,
            host: ThisHost::new(),
        }
    }

    /// Returns the largest state of a session, in bytes, if a question has at most `max_question`
    /// bytes.
    pub(crate) fn max_state_bytes(max_question: usize) -> usize {
        // JSON may escape a byte as six.
        QUESTIONS_BYTES + max_question * 6 + FIGURES_BYTES
    }

    /// Creates a session without a turn.
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

    /// Deletes a session whose first turn did not start.
    pub(crate) async fn delete(&self, owner: &str, id: &str) {
        if let Err(error) = self.sessions.delete(&space(owner), id).await {
            // No client knows its id, and it will expire.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot delete a session without a turn"
            );
        }
    }

    /// Returns the session. If a turn has ended or a claim was abandoned, this stores it first.
    pub(crate) async fn find(&self, owner: &str, id: &str) -> Result<EveSession, EveError> {
        for _ in 0..MAX_ATTEMPTS {
            let session = self.load(owner, id).await?;
            if let Some(running) = session.state.running() {
                match self.progress(&session, running).await? {
                    Progress::Running => return Ok(session),
                    Progress::Ended(count) => drop(self.settle(owner, id, &running.id, count).await?),
                    Progress::Counting => tokio::time::sleep(PAUSE).await,
                }
            } else if let Phase::Starting { host, until } = &session.state.phase
                && self.host.is_abandoned(host, *until)
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

    /// Claims the session for a turn. No other request, on any host, can claim it until it is
    /// released or the turn has ended.
    pub(crate) async fn claim(&self, owner: &str, id: &str, token: &str) -> Result<SessionClaim, EveError> {
        let session = self.find(owner, id).await?;
        match session.state.phase {
            Phase::Failed => return Err(EveError::Failed),
            Phase::Active | Phase::Starting { .. } => return Err(EveError::Active),
            Phase::Waiting if !session.state.has_token(token) => return Err(EveError::Token),
            Phase::Waiting => {}
        }
        let claim = Claim::new(&self.host);
        let claimed = self.update(owner, id, |state| match state.phase {
            Phase::Waiting => {
                state.phase = claim.phase();
                Ok(())
            }
            Phase::Failed => Err(EveError::Failed),
            Phase::Active | Phase::Starting { .. } => Err(EveError::Active),
        });
        let (session, ()) = claimed.await?;
        Ok(SessionClaim {
            eve: self.clone(),
            session,
            claim,
        })
    }

    /// Passes a human's answers to the newest turn, in order. If one is refused, those before it
    /// count.
    pub(crate) async fn answer(
        &self,
        owner: &str,
        id: &str,
        token: &str,
        answers: Vec<HumanAnswer>,
    ) -> Result<EveSession, AnswerRefused> {
        let session = self.find(owner, id).await?;
        if !session.state.has_token(token) {
            return Err(EveError::Token.into());
        }
        let turn = session.turn().and_then(TurnId::parse);
        let turn = turn.ok_or(AnswerRefused::Answer(TurnId::random(), AnswerError::Unknown))?;
        for HumanAnswer { request_id, verdict } in answers {
            // Eve's clients answer with an option or a text.
            let Verdict::Response(answer) = verdict else {
                return Err(AnswerRefused::Answer(turn, AnswerError::Invalid));
            };
            let answered = self.journal.answer(turn, owner, &request_id, answer).await;
            answered.map_err(|error| AnswerRefused::Answer(turn, error))?;
        }
        Ok(session)
    }

    /// Stops the running turn, if it has this sequence number. Returns `false` if it is not
    /// running.
    pub(crate) async fn stop(&self, owner: &str, id: &str, sequence: Option<u64>) -> Result<bool, EveError> {
        let session = self.find(owner, id).await?;
        let running = session.state.running();
        let running = running.filter(|running| sequence.is_none_or(|sequence| sequence == running.sequence));
        let Some(turn) = running.and_then(|running| TurnId::parse(&running.id)) else {
            return Ok(false);
        };
        match self.journal.stop(turn, owner).await {
            Ok(stopped) => Ok(stopped),
            Err(StopError::Unknown(_)) => Ok(false),
            Err(_) => Err(EveError::Unavailable),
        }
    }

    /// Waits until the number of lines is stored for every turn that this process watches.
    pub(crate) async fn settled(&self) {
        self.host.tasks.close();
        self.host.tasks.wait().await;
    }

    /// Stores that a turn has ended. Returns `false` if that was stored before.
    async fn settle(
        &self,
        owner: &str,
        id: &str,
        turn: &str,
        count: Option<LineCount>,
    ) -> Result<bool, EveError> {
        // The error prevents a write if nothing changes.
        let settled = self.update(owner, id, |state| {
            let is_new = state.settle(turn, count);
            is_new.then_some(()).ok_or(EveError::Active)
        });
        match settled.await {
            Ok(_) => Ok(true),
            Err(EveError::Active | EveError::Unknown) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases the claim on a session.
    async fn release(&self, owner: &str, id: &str, claim: &str) -> Result<(), EveError> {
        let released = self.update(owner, id, |state| match &state.phase {
            Phase::Starting { host, .. } if host == claim => {
                state.phase = Phase::Waiting;
                Ok(())
            }
            Phase::Waiting | Phase::Starting { .. } | Phase::Active | Phase::Failed => Err(EveError::Active),
        });
        match released.await {
            Ok(_) | Err(EveError::Active | EveError::Unknown) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn progress(&self, session: &EveSession, turn: &TurnRecord) -> Result<Progress, EveError> {
        let Some(id) = TurnId::parse(&turn.id) else {
            return Ok(Progress::Ended(None));
        };
        let lost = if self.host.is_watching(&id) {
            Progress::Counting
        } else {
            Progress::Ended(None)
        };
        let mut resumed = self.journal.resume(id, &session.owner, 0).await;
        if let Err(ResumeError::Gone { base }) = resumed {
            // The journal has dropped its beginning; it may still be running.
            resumed = self.journal.resume(id, &session.owner, base).await;
            return match resumed {
                Ok(turn) if turn.is_finished() => Ok(lost),
                Err(ResumeError::Unavailable) => Err(EveError::Unavailable),
                // It is running, or the journal is dropping more of it right now.
                Ok(_) | Err(ResumeError::Gone { .. }) => Ok(Progress::Running),
                Err(_) => Ok(lost),
            };
        }
        match resumed {
            Ok(resumed) if !resumed.is_finished() => Ok(Progress::Running),
            Ok(resumed) => {
                let wire = session.state.wire(&session.id, turn);
                if resumed.supports(&wire).is_err() {
                    return Ok(lost);
                }
                Ok(Progress::Ended(Some(Lines::all(resumed, &wire).count().await)))
            }
            Err(ResumeError::Unavailable) => Err(EveError::Unavailable),
            Err(_) => Ok(lost),
        }
    }

    /// Returns the lines of a turn after the first `skip`, or `None` if the journal has dropped
    /// some.
    async fn lines(
        &self,
        session: &EveSession,
        turn: &TurnRecord,
        skip: u64,
    ) -> Result<Option<Lines>, EveError> {
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

    /// Returns the error for a reader whose lines were dropped. It can continue at the first later
    /// turn that is complete, otherwise after all of them.
    async fn truncated(&self, session: &EveSession, is_later: impl Fn(&TurnRecord) -> bool) -> EveError {
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
        // The lines of a running turn are not counted yet.
        let base = session.state.running().is_none().then_some(session.state.lines);
        EveError::Truncated { base }
    }

    /// Counts the lines of a turn while it runs and stores the number at its end.
    fn watch(&self, session: &EveSession, turn: Turn) {
        let Some(record) = session.state.running() else {
            return;
        };
        let lines = Lines::all(turn, &session.state.wire(&session.id, record));
        let (eve, owner, id) = (self.clone(), session.owner.clone(), session.id.clone());
        let (turn, watched) = (record.id.clone(), WatchedTurn::new(&self.host, &record.id));
        self.host.tasks.spawn(async move {
            let count = lines.count().await;
            let settled = eve.settle(&owner, &id, &turn, Some(count)).await;
            drop(watched);
            if let Err(error) = settled {
                // The next request that needs the number counts again.
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "cannot store the end of a turn"
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

/// A session that is claimed for a turn. Dropping it abandons the claim, which the next request for
/// the session notices.
pub(crate) struct SessionClaim {
    eve: EveSessions,
    session: EveSession,
    claim: Claim,
}

impl SessionClaim {
    /// Returns the key of the session in the store: the owner's name there, and the id.
    pub(crate) fn key(&self) -> (String, String) {
        (space(&self.session.owner), self.session.id.clone())
    }

    /// Waits for `start` and renews the claim meanwhile.
    pub(crate) async fn renew_during<T>(&self, start: impl Future<Output = T>) -> T {
        let mut start = std::pin::pin!(start);
        loop {
            tokio::select! {
                biased;
                started = &mut start => return started,
                () = tokio::time::sleep(RENEWAL) => {
                    let renewed = self.eve.update(&self.session.owner, &self.session.id, |state| {
                        if !self.claim.is_held(&state.phase) {
                            return Err(EveError::Active);
                        }
                        state.phase = self.claim.phase();
                        Ok(())
                    });
                    if let Err(error) = renewed.await {
                        tracing::warn!(error = &error as &dyn std::error::Error, "cannot renew the claim on a session");
                    }
                }
            }
        }
    }

    /// Adds the started turn to the session, whose next lines are the turn's, and watches it.
    pub(crate) async fn turn_started(self, turn: Turn, question: String) -> Result<EveSession, EveError> {
        let id = turn.id();
        let max_bytes = self.eve.sessions.limits().max_state_bytes;
        let added = self.eve.update(&self.session.owner, &self.session.id, |state| {
            if !self.claim.is_held(&state.phase) {
                return Err(EveError::Active);
            }
            state.add_turn(id, question.clone(), max_bytes.saturating_sub(FIGURES_BYTES));
            Ok(())
        });
        match added.await {
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

    /// Releases the session, because its turn did not start.
    pub(crate) async fn release(self) {
        let (owner, id) = (&self.session.owner, &self.session.id);
        if let Err(error) = self.eve.release(owner, id, &self.claim.name).await {
            // The next request for the session releases it.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot release a session"
            );
        }
    }
}

/// Returns the name of an owner among Eve's sessions, which no other route uses: anyone who knows a
/// session's id can read it through Eve's routes, but needs its token to continue it. A header
/// cannot contain NUL, so no owner has such a name.
fn space(owner: &str) -> String {
    format!("eve\u{0}{owner}")
}
