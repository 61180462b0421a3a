//! What is remembered of each session: its questions and answers, in this process.
//!
//! Everything is bounded: sessions, turns and bytes of each, and age. It is a small type behind few calls on purpose: where
//! several hosts share their sessions, another one takes its place.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::cli::settings::Settings;

/// Longest session id.
pub const MAX_ID_BYTES: usize = 128;
/// Longest title: a line in a list.
pub const MAX_TITLE_BYTES: usize = 200;
/// Where a title is made of the first question, it is cut at about a line.
const MADE_TITLE_BYTES: usize = 80;

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
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

/// What is remembered of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The title it was given, or else the beginning of its first question.
    pub title: Option<String>,
    /// When it began.
    pub created: SystemTime,
    /// When something was said last.
    pub updated: SystemTime,
    /// What was said, oldest first; the oldest may be gone.
    pub said: Vec<Said>,
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
    title: Option<String>,
    created: SystemTime,
    updated: SystemTime,
}

impl Session {
    fn new(now: Instant) -> Self {
        let created = SystemTime::now();
        Self {
            said: VecDeque::new(),
            bytes: 0,
            used: now,
            title: None,
            created,
            updated: created,
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
        if session.title.is_none() && role == Role::User {
            session.title = first_line(text);
        }
        session.append(role, text, &self.limits);
        session.used = now;
        session.updated = SystemTime::now();
    }

    /// Begins a session in which nothing was said yet; one of that id is begun anew.
    pub fn begin(&self, id: &str, title: Option<String>) {
        let now = Instant::now();
        let mut sessions = self.lock();
        self.forget(&mut sessions, id, now);
        let mut session = Session::new(now);
        session.title = title;
        sessions.insert(id.to_owned(), session);
    }

    /// What is remembered of a session; `None` for an unknown one.
    pub fn remembered(&self, id: &str) -> Option<Remembered> {
        let sessions = self.lock();
        let session = sessions
            .get(id)
            .filter(|session| !self.is_old(session, Instant::now()))?;
        Some(Remembered {
            title: session.title.clone(),
            created: session.created,
            updated: session.updated,
            said: session.said.iter().cloned().collect(),
        })
    }

    /// What was said in a session, oldest first; nothing for an unknown one.
    pub fn said(&self, id: &str) -> Vec<Said> {
        self.remembered(id).map_or_else(Vec::new, |session| session.said)
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

/// A title made of a question; none of one without a letter in its first line.
fn first_line(text: &str) -> Option<String> {
    let line = text.trim().lines().next().unwrap_or_default();
    let line = line[..line.floor_char_boundary(MADE_TITLE_BYTES)].trim_end();
    (!line.is_empty()).then(|| line.to_owned())
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

    #[test]
    fn a_session_has_a_title_and_its_times() {
        let sessions = sessions();
        let title = |id| sessions.remembered(id).and_then(|session| session.title);
        sessions.begin("a", None);
        let begun = sessions.remembered("a").unwrap();
        assert_eq!((begun.title, begun.said), (None, Vec::new()));
        assert_eq!(begun.created, begun.updated);
        let question = format!("\n {}\u{e9}\nmore", "x".repeat(79));
        sessions.append("a", Role::User, &question);
        assert_eq!(title("a"), Some("x".repeat(79)));
        sessions.append("a", Role::User, "y");
        let used = sessions.remembered("a").unwrap();
        assert_eq!((used.title, used.created), (Some("x".repeat(79)), begun.created));
        assert!(used.updated >= used.created);
        sessions.begin("b", Some("Mine".into()));
        sessions.append("b", Role::User, "z");
        assert_eq!(title("b"), Some("Mine".into()));
        assert_eq!(sessions.remembered("c"), None);
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
