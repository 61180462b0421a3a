//! The sessions of Eve's routes: each one a log of lines that any number of readers follow, from any place.
//!
//! A turn writes into the log whether anybody reads it or not, so a reader that lost its connection comes back with the number of
//! lines that it has. Everything is bounded: sessions, lines and bytes of each, bytes of all, and age. A log over its limit drops
//! its oldest lines. Sessions live in this process; where several hosts share them, another type takes this one's place.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ragwire::turn::TurnId;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cli::settings::Settings;

/// Most bytes that a reader is given at once: a connection's buffer or two, so that no reader holds a log twice.
const MAX_READ_BYTES: usize = 64 * 1024;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct EveLimits {
    /// Sessions; the one unused for longest goes first.
    pub max_sessions: usize,
    /// Lines of a session; the oldest go first.
    pub max_lines: usize,
    /// Bytes of a session; the oldest lines go first.
    pub max_bytes: usize,
    /// Bytes of all sessions; the one unused for longest goes first. Sessions whose turn runs may be over it.
    pub max_total_bytes: usize,
    /// How long an unused session stays.
    pub max_age: Duration,
}

impl EveLimits {
    /// Fifty turns of some hundred lines.
    pub const MAX_LINES: usize = 20_000;
    /// 16 MiB. Eve's lines repeat the answer so far, so a turn of 8 KiB in small pieces may have half of that.
    pub const MAX_BYTES: usize = 16 << 20;
    /// 256 MiB.
    pub const MAX_TOTAL_BYTES: usize = 256 << 20;
}

impl From<&Settings> for EveLimits {
    fn from(settings: &Settings) -> Self {
        Self {
            max_sessions: settings.max_sessions.0,
            max_lines: Self::MAX_LINES,
            max_bytes: Self::MAX_BYTES,
            max_total_bytes: Self::MAX_TOTAL_BYTES,
            max_age: settings.session_age.0,
        }
    }
}

/// The sessions of this process.
#[derive(Debug)]
pub struct EveSessions {
    limits: EveLimits,
    sessions: Mutex<HashMap<String, Arc<EveSession>>>,
}

impl EveSessions {
    /// None yet.
    pub fn new(limits: EveLimits) -> Self {
        Self {
            limits,
            sessions: Mutex::default(),
        }
    }

    /// A session that nobody can find before [`EveSessions::insert`].
    ///
    /// # Errors
    ///
    /// Without randomness from the system there is none: who knows the id may read the session, who knows the token may go on with it.
    pub fn create(&self, documented: bool) -> Result<Arc<EveSession>, getrandom::Error> {
        Ok(Arc::new(EveSession {
            id: format!("ses_{}", secret()?),
            token: format!("eve_{}", secret()?),
            memory: format!("memory_{}", secret()?),
            documented,
            limits: self.limits,
            log: Mutex::new(Log {
                base: 0,
                lines: VecDeque::new(),
                bytes: 0,
                state: State::Waiting,
                turns: 0,
                turn: None,
                used: Instant::now(),
            }),
            changed: watch::Sender::new(()),
        }))
    }

    /// Lets a session be found, and forgets others where there are too many.
    pub fn insert(&self, session: &Arc<EveSession>) {
        let mut sessions = self.lock();
        sessions.insert(session.id.clone(), Arc::clone(session));
        let now = Instant::now();
        let mut idle: Vec<(Instant, String)> = Vec::new();
        let (mut count, mut bytes) = (sessions.len(), 0);
        for (id, session) in sessions.iter() {
            let log = session.lock();
            bytes += log.bytes;
            if log.state != State::Active {
                idle.push((log.used, id.clone()));
            }
        }
        // Looking at all of them is some microseconds for the thousands that there may be.
        idle.sort_unstable();
        for (used, id) in idle {
            let old = now.saturating_duration_since(used) > self.limits.max_age;
            if !old && count <= self.limits.max_sessions && bytes <= self.limits.max_total_bytes {
                break;
            }
            if let Some(session) = sessions.remove(&id) {
                count -= 1;
                bytes -= session.lock().bytes;
            }
        }
    }

    /// The session of that id; none where it is unknown, forgotten or too old.
    pub fn get(&self, id: &str) -> Option<Arc<EveSession>> {
        let session = Arc::clone(self.lock().get(id)?);
        let old = {
            let log = session.lock();
            log.state != State::Active && log.used.elapsed() > self.limits.max_age
        };
        (!old).then_some(session)
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<EveSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 128 bits in hexadecimal digits.
fn secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// One session.
#[derive(Debug)]
pub struct EveSession {
    id: String,
    token: String,
    memory: String,
    documented: bool,
    limits: EveLimits,
    log: Mutex<Log>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Log {
    /// The index of the first line that is still there.
    base: u64,
    lines: VecDeque<Bytes>,
    /// Sum of the lengths of `lines`.
    bytes: usize,
    state: State,
    /// Turns begun.
    turns: u64,
    /// The newest of them.
    turn: Option<TurnId>,
    used: Instant,
}

impl Log {
    fn next_index(&self) -> u64 {
        self.base + self.lines.len() as u64
    }

    /// Appends a line, and drops what is over the limits.
    fn push(&mut self, line: Bytes, limits: &EveLimits) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > limits.max_lines || self.bytes > limits.max_bytes {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
            self.base += 1;
        }
    }

    fn release(&mut self, state: State) {
        self.state = state;
        self.used = Instant::now();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next message may come.
    Waiting,
    /// A turn runs.
    Active,
    /// It failed for good.
    Over,
}

/// Why a session takes no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The last one is still being answered.
    #[error("session is still active")]
    Active,
    /// It failed for good.
    #[error("session is terminal")]
    Over,
    /// The token is not the session's.
    #[error("stale or missing continuation token")]
    Token,
}

/// The lines from a place on.
#[derive(Debug, PartialEq, Eq)]
pub struct Lines {
    /// Some of them, each with its line end; empty where there is none yet.
    pub bytes: Bytes,
    /// The index of the line after them.
    pub next: u64,
    /// Whether more may come without another message.
    pub active: bool,
}

/// The lines from a place on are no longer all there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream begins at index {base} now")]
pub struct Truncated {
    /// The first index that can be read.
    pub base: u64,
}

impl EveSession {
    /// Its id, which gives access to what was said.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What a client shows to go on with it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The id under which the server remembers what was said. Nobody is told it: on the routes of the other wires, who knows an id may
    /// read that session and write into it.
    pub fn memory(&self) -> &str {
        &self.memory
    }

    /// Its newest turn.
    pub fn turn(&self) -> Option<TurnId> {
        self.lock().turn
    }

    /// Whether it speaks the documented vocabulary.
    pub fn is_documented(&self) -> bool {
        self.documented
    }

    /// Takes the session for a turn: nobody else can until the [`Running`] is dropped.
    ///
    /// # Errors
    ///
    /// [`Busy`].
    pub fn begin(self: &Arc<Self>, token: &str) -> Result<Running, Busy> {
        let mut log = self.lock();
        match log.state {
            State::Over => return Err(Busy::Over),
            State::Active => return Err(Busy::Active),
            State::Waiting => {}
        }
        if !same(token, &self.token) {
            return Err(Busy::Token);
        }
        log.state = State::Active;
        log.used = Instant::now();
        Ok(Running {
            sequence: log.turns,
            first_index: log.next_index(),
            released: false,
            session: Arc::clone(self),
        })
    }

    /// The lines from `index` on, some of them. A reader that wants to be told of more subscribes first.
    ///
    /// # Errors
    ///
    /// [`Truncated`] where the line at `index` was dropped.
    pub fn read(&self, index: u64) -> Result<Lines, Truncated> {
        let log = self.lock();
        let Some(skip) = index.checked_sub(log.base) else {
            return Err(Truncated { base: log.base });
        };
        let (mut bytes, mut next) = (BytesMut::new(), index);
        for line in log.lines.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)) {
            if !bytes.is_empty() && bytes.len() + line.len() > MAX_READ_BYTES {
                break;
            }
            bytes.extend_from_slice(line);
            next += 1;
        }
        Ok(Lines {
            bytes: bytes.freeze(),
            next,
            active: log.state == State::Active,
        })
    }

    /// Tells of every change from now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares without telling by its time how much is right.
fn same(given: &str, token: &str) -> bool {
    let (given, token) = (given.as_bytes(), token.as_bytes());
    let differing = given
        .iter()
        .zip(token)
        .fold(0, |differing, (a, b)| differing | (a ^ b));
    given.len() == token.len() && std::hint::black_box(differing) == 0
}

/// A session that is taken for a turn. Dropping it lets the next message come.
#[derive(Debug)]
pub struct Running {
    sequence: u64,
    first_index: u64,
    /// The session is no longer taken; another turn may have it.
    released: bool,
    session: Arc<EveSession>,
}

impl Running {
    /// The session.
    pub fn session(&self) -> &Arc<EveSession> {
        &self.session
    }

    /// Which turn of the session this is, from 0.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The index of the turn's first line.
    pub fn first_index(&self) -> u64 {
        self.first_index
    }

    /// Says that the turn began, so that the next one has another number.
    pub fn began(&self, turn: TurnId) {
        let mut log = self.session.lock();
        log.turns = self.sequence + 1;
        log.turn = Some(turn);
    }

    /// Appends a line, its line end included.
    pub fn append(&self, line: Bytes) {
        self.session.lock().push(line, &self.session.limits);
        self.session.changed.send_replace(());
    }

    /// Appends the turn's last line. In the same moment the next message may come, or, where the session is `over`, none: a client
    /// that has read the line is not told that the session is active.
    pub fn append_last(&mut self, line: Bytes, over: bool) {
        {
            let mut log = self.session.lock();
            log.push(line, &self.session.limits);
            log.release(if over { State::Over } else { State::Waiting });
        }
        self.released = true;
        self.session.changed.send_replace(());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.released {
            self.session.lock().release(State::Waiting);
            self.session.changed.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: EveLimits = EveLimits {
        max_sessions: 2,
        max_lines: 3,
        max_bytes: 10,
        max_total_bytes: 12,
        max_age: Duration::from_secs(60),
    };

    fn session(sessions: &EveSessions) -> Arc<EveSession> {
        let session = sessions.create(false).unwrap();
        sessions.insert(&session);
        session
    }

    fn write(session: &Arc<EveSession>, lines: &[&'static str]) {
        let running = session.begin(session.token()).unwrap();
        running.began(TurnId::random());
        for line in lines {
            running.append(Bytes::from_static(line.as_bytes()));
        }
    }

    fn read(session: &EveSession, index: u64) -> Result<(String, u64), u64> {
        let lines = session.read(index).map_err(|truncated| truncated.base)?;
        Ok((String::from_utf8(lines.bytes.to_vec()).unwrap(), lines.next))
    }

    #[test]
    fn a_log_drops_its_oldest_lines_and_says_so() {
        let sessions = EveSessions::new(LIMITS);
        let session = session(&sessions);
        write(&session, &["a\n", "b\n", "c\n"]);
        assert_eq!(read(&session, 0), Ok(("a\nb\nc\n".into(), 3)));
        assert_eq!(read(&session, 2), Ok(("c\n".into(), 3)));
        assert_eq!(read(&session, 3), Ok((String::new(), 3)));
        assert_eq!(read(&session, u64::MAX), Ok((String::new(), u64::MAX)));
        write(&session, &["d\n"]);
        assert_eq!(read(&session, 0), Err(1));
        assert_eq!(read(&session, 1), Ok(("b\nc\nd\n".into(), 4)));
        write(&session, &["12345678\n"]);
        assert_eq!(read(&session, 3), Err(4));
        assert_eq!(read(&session, 4), Ok(("12345678\n".into(), 5)));
    }

    #[test]
    fn one_turn_at_a_time_for_whom_has_the_token() {
        let sessions = EveSessions::new(LIMITS);
        let session = session(&sessions);
        let long = format!("{}x", session.token());
        for token in ["", "x", &long, &session.token()[1..], session.id()] {
            assert_eq!(session.begin(token).unwrap_err(), Busy::Token, "{token}");
        }
        let mut running = session.begin(session.token()).unwrap();
        assert_eq!(session.begin(session.token()).unwrap_err(), Busy::Active);
        assert!(session.read(0).unwrap().active);
        assert_eq!((running.sequence(), running.first_index()), (0, 0));
        running.append_last(Bytes::from_static(b"a\n"), false);
        assert!(!session.read(0).unwrap().active);
        // The first one is not dropped yet, and what it does then is none of the second one's business.
        let mut second = session.begin(session.token()).unwrap();
        drop(running);
        assert_eq!(session.begin(session.token()).unwrap_err(), Busy::Active);
        second.append_last(Bytes::from_static(b"b\n"), true);
        drop(second);
        assert_eq!(session.begin(session.token()).unwrap_err(), Busy::Over);
    }

    #[test]
    fn a_turn_that_did_not_begin_leaves_its_number() {
        let sessions = EveSessions::new(LIMITS);
        let session = session(&sessions);
        drop(session.begin(session.token()).unwrap());
        write(&session, &["a\n"]);
        let running = session.begin(session.token()).unwrap();
        assert_eq!((running.sequence(), running.first_index()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded_in_number_bytes_and_age() {
        let sessions = EveSessions::new(LIMITS);
        let first = session(&sessions);
        let running = first.begin(first.token()).unwrap();
        let mut others = Vec::new();
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(1)).await;
            others.push(session(&sessions));
        }
        // The one whose turn runs stays, though it is the oldest.
        let found = |session: &EveSession| sessions.get(session.id()).is_some();
        assert!(found(&first) && !found(&others[0]) && found(&others[1]));
        drop(running);
        write(&others[1], &["12345678\n"]);
        tokio::time::advance(Duration::from_secs(1)).await;
        write(&first, &["12345678\n"]);
        tokio::time::advance(Duration::from_secs(1)).await;
        // Both are over the bytes of all together: the one unused for longest goes.
        let last = session(&sessions);
        assert!(!found(&others[1]) && found(&last));
        assert_eq!(sessions.len(), 2);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(!found(&first) && !found(&last));
        session(&sessions);
        assert_eq!(sessions.len(), 1);
    }
}
