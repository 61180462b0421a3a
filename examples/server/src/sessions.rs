//! What is remembered of each session: its questions and answers, in this process.
//!
//! Everything is bounded: sessions, turns and bytes of each, and age. It is a small type behind few calls on purpose: where
//! several hosts share their sessions, another one takes its place.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::cli::settings::Settings;

/// Longest session id.
pub const MAX_ID_BYTES: usize = 128;

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one who asks.
    User,
    /// The one who answers, also where the answer is an apology.
    Assistant,
}

/// One thing said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// By whom.
    pub role: Role,
    /// The words; cut where they alone are more than a session may hold.
    pub text: String,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Sessions; the one unused for longest goes first.
    pub max_sessions: usize,
    /// Turns of a session; the oldest go first.
    pub max_turns: usize,
    /// Bytes of text of a session; the oldest turns go first.
    pub max_bytes: usize,
    /// How long an unused session stays.
    pub max_age: Duration,
}

impl From<&Settings> for SessionLimits {
    fn from(settings: &Settings) -> Self {
        Self {
            max_sessions: settings.max_sessions.0,
            max_turns: settings.session_turns.0,
            max_bytes: settings.session_size.0,
            max_age: settings.session_age.0,
        }
    }
}

impl SessionLimits {
    /// The newest of what was said, as much as a session may hold: for a client that remembers for itself.
    #[must_use]
    pub fn newest(&self, said: Vec<Said>) -> Vec<Said> {
        let mut session = Session::new(Instant::now());
        for said in said {
            session.append(said.role, &said.text, self);
        }
        session.said.into()
    }
}

/// The sessions of this process.
#[derive(Debug)]
pub struct Sessions {
    limits: SessionLimits,
    sessions: Mutex<HashMap<String, Session>>,
}

#[derive(Debug)]
struct Session {
    said: VecDeque<Said>,
    /// Sum of the lengths of `said`, at most `max_bytes`.
    bytes: usize,
    used: Instant,
}

impl Session {
    fn new(now: Instant) -> Self {
        Self {
            said: VecDeque::new(),
            bytes: 0,
            used: now,
        }
    }

    fn append(&mut self, role: Role, text: &str, limits: &SessionLimits) {
        let text = &text[..text.floor_char_boundary(limits.max_bytes)];
        self.bytes += text.len();
        self.said.push_back(Said {
            role,
            text: text.to_owned(),
        });
        while self.said.len() > limits.max_turns || self.bytes > limits.max_bytes {
            let Some(oldest) = self.said.pop_front() else {
                break;
            };
            self.bytes -= oldest.text.len();
        }
    }
}

impl Sessions {
    /// None yet.
    pub fn new(limits: SessionLimits) -> Self {
        Self {
            limits,
            sessions: Mutex::default(),
        }
    }

    /// Whether `id` may name a session: 1 to 128 letters, digits, `-`, `_` and `.` of ASCII, not only dots.
    pub fn is_id(id: &str) -> bool {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(safe) && !id.bytes().all(|byte| byte == b'.')
    }

    /// Remembers what was said, after everything before it.
    pub fn append(&self, id: &str, role: Role, text: &str) {
        let now = Instant::now();
        let mut sessions = self.lock();
        self.forget(&mut sessions, id, now);
        let session = sessions.entry(id.to_owned()).or_insert_with(|| Session::new(now));
        session.append(role, text, &self.limits);
        session.used = now;
    }

    /// What was said in a session, oldest first; nothing for an unknown one.
    pub fn said(&self, id: &str) -> Vec<Said> {
        let sessions = self.lock();
        let session = sessions
            .get(id)
            .filter(|session| !self.is_old(session, Instant::now()));
        session.map_or_else(Vec::new, |session| session.said.iter().cloned().collect())
    }

    /// How many sessions are remembered.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Makes room for `id`. Looking at all of them is some microseconds for the thousands that there may be.
    fn forget(&self, sessions: &mut HashMap<String, Session>, id: &str, now: Instant) {
        sessions.retain(|_, session| !self.is_old(session, now));
        if sessions.contains_key(id) || sessions.len() < self.limits.max_sessions {
            return;
        }
        let oldest = sessions
            .iter()
            .min_by_key(|(_, session)| session.used)
            .map(|(id, _)| id.clone());
        if let Some(oldest) = oldest {
            sessions.remove(&oldest);
        }
    }

    fn is_old(&self, session: &Session, now: Instant) -> bool {
        now.saturating_duration_since(session.used) > self.limits.max_age
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Sessions {
        Sessions::new(SessionLimits {
            max_sessions: 2,
            max_turns: 3,
            max_bytes: 10,
            max_age: Duration::from_secs(60),
        })
    }

    fn texts(sessions: &Sessions, id: &str) -> Vec<String> {
        sessions.said(id).into_iter().map(|said| said.text).collect()
    }

    #[test]
    fn ids_are_of_a_safe_set() {
        let long = "a".repeat(MAX_ID_BYTES);
        for id in ["a", "demo", "0f-9_A.b", &long] {
            assert!(Sessions::is_id(id), "{id}");
        }
        let longer = "a".repeat(MAX_ID_BYTES + 1);
        for id in [
            "", ".", "..", "a/b", "a b", "a:b", "a*", "{}", "a\n", "a\0", "é", "%2e", &longer,
        ] {
            assert!(!Sessions::is_id(id), "{id}");
        }
    }

    #[test]
    fn the_oldest_go_first() {
        let sessions = sessions();
        for text in ["1", "2", "3", "4"] {
            sessions.append("a", Role::User, text);
        }
        assert_eq!(texts(&sessions, "a"), ["2", "3", "4"]);
        sessions.append("a", Role::User, "12345678");
        assert_eq!(texts(&sessions, "a"), ["3", "4", "12345678"]);
        sessions.append("a", Role::User, "1234567ééé");
        assert_eq!(texts(&sessions, "a"), ["1234567é"]);
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded_in_number_and_age() {
        let sessions = sessions();
        for id in ["a", "b"] {
            sessions.append(id, Role::User, "x");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        sessions.append("a", Role::Assistant, "y");
        sessions.append("c", Role::User, "z");
        assert_eq!(texts(&sessions, "a"), ["x", "y"]);
        assert!(sessions.said("b").is_empty());
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(sessions.said("a").is_empty());
        sessions.append("d", Role::User, "x");
        assert_eq!(sessions.len(), 1);
    }
}
