//! The finished turns of sessions: what a page needs to show them again, and the reader's feedback.
//!
//! A record is stored as the state of a separate session, under the turn's ID, so it is bounded,
//! expires and is shared between hosts as sessions are. Beside the records, an index lists the turns
//! of each session in their order.

use std::time::SystemTime;

use ragwire::session::{Session, SessionError, SessionLimits, Sessions};
use ragwire::turn::{Ending, TurnId};
use ragwire::{Citation, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::openapi::schemas;

/// Most bytes of a record as JSON. A long answer has 10 KiB; a larger record loses its citations,
/// then the end of its answer.
pub(crate) const MAX_RECORD_BYTES: usize = 64 << 10;
/// Most records that an export reads, so that it takes at most 64 MiB.
pub(crate) const MAX_EXPORTED: usize = 1_000;
/// Most turns that the index of a session lists; the oldest are dropped first. A session stores 50
/// messages by default.
const MAX_INDEXED: usize = 100;
/// JSON writes a byte as up to six.
const ESCAPE_BYTES: usize = 6;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RecordStatus {
    /// The turn finished its work.
    Completed,
    /// The turn failed.
    Failed,
    /// The turn was stopped.
    Stopped,
}

/// What the reader thinks of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rating {
    /// It helped.
    Up,
    /// It did not help.
    Down,
}

/// The reader's feedback on an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Feedback {
    pub(crate) rating: Rating,
    /// A remark, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(crate) note: Option<String>,
}

/// A finished turn of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TurnRecord {
    pub(crate) turn_id: String,
    pub(crate) session_id: String,
    pub(crate) question: String,
    pub(crate) answer: String,
    pub(crate) status: RecordStatus,
    /// Why the turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(crate) message: Option<String>,
    /// Whether the documents answer the question, if the orchestrator reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(crate) answered: Option<bool>,
    /// The evidence, in the order of the numbers in the answer.
    #[schema(value_type = Vec<schemas::Citation>)]
    pub(crate) citations: Vec<Citation>,
    /// The model that wrote the answer, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(crate) model: Option<String>,
    /// Milliseconds from the start of the turn to its end, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(crate) elapsed_ms: Option<u64>,
    /// When it ended, in milliseconds since 1970.
    pub(crate) ended_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub(crate) feedback: Option<Feedback>,
}

impl TurnRecord {
    /// Creates the record of a turn that ends now.
    pub(crate) fn new(session_id: &str, question: &str, ending: &Ending) -> Self {
        let (status, message) = match &ending.end.status {
            Status::Completed => (RecordStatus::Completed, None),
            Status::Failed(failure) => (RecordStatus::Failed, Some(failure.message.clone().into_owned())),
            Status::Stopped => (RecordStatus::Stopped, None),
        };
        let metadata = &ending.end.metadata;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            turn_id: ending.id.to_string(),
            session_id: session_id.to_owned(),
            question: question.to_owned(),
            answer: ending.text.clone(),
            status,
            message,
            answered: metadata.extra.get("answered").and_then(Value::as_bool),
            citations: metadata.citations.clone(),
            model: metadata.usage.as_ref().and_then(|usage| usage.model.clone()),
            elapsed_ms: ending.end.timing.as_ref().map(|timing| timing.elapsed_ms),
            ended_ms: since.map_or(0, |since| since.as_millis() as u64),
            feedback: None,
        }
    }

    fn of(session: &Session) -> Option<Self> {
        Self::deserialize(&session.state).ok()
    }

    /// Shortens the record to the size that is stored.
    fn shorten(mut self) -> Self {
        if self.bytes() > MAX_RECORD_BYTES {
            self.citations.clear();
        }
        if self.bytes() > MAX_RECORD_BYTES {
            let most = MAX_RECORD_BYTES / ESCAPE_BYTES / 3;
            for text in [
                Some(&mut self.question),
                Some(&mut self.answer),
                self.message.as_mut(),
            ] {
                let Some(text) = text else { continue };
                text.truncate(text.floor_char_boundary(most));
            }
        }
        self
    }

    fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |json| json.len())
    }
}

/// The store of the records.
#[derive(Clone, Debug)]
pub(crate) struct TurnRecords(Sessions);

impl TurnRecords {
    pub(crate) fn new(sessions: Sessions) -> Self {
        Self(sessions)
    }

    /// Returns the limits of a store for `sessions` sessions.
    pub(crate) fn limits(sessions: &SessionLimits) -> SessionLimits {
        // Two records for each session, on average; most sessions are one question.
        sessions
            .max_sessions(sessions.max_sessions.saturating_mul(2))
            .max_messages(0)
            .max_state_bytes(MAX_RECORD_BYTES)
    }

    /// Stores a record and lists it as the last turn of its session.
    pub(crate) async fn add(&self, owner: &str, record: TurnRecord) -> Result<(), SessionError> {
        let (turn, session) = (record.turn_id.clone(), record.session_id.clone());
        let state = json!(record.shorten());
        let prepare = |stored: &mut Session| stored.state.clone_from(&state);
        self.0.begin_with(owner, &turn, prepare).await?;
        let index = index_of(owner);
        self.0.get_or_begin(&index, &session).await?;
        let add = |stored: &mut Session| {
            let mut turns = turns_in(stored);
            turns.push(turn.clone());
            let excess = turns.len().saturating_sub(MAX_INDEXED);
            turns.drain(..excess);
            stored.state = json!(turns);
            Ok::<_, SessionError>(())
        };
        self.0.update(&index, &session, add).await.map(drop)
    }

    /// Returns the record of a turn.
    pub(crate) async fn get(&self, owner: &str, turn: TurnId) -> Result<TurnRecord, SessionError> {
        let session = self.0.get(owner, &turn.to_string()).await?;
        TurnRecord::of(&session).ok_or(SessionError::Unknown)
    }

    /// Changes the feedback on a turn, and returns the record with it.
    pub(crate) async fn set_feedback(
        &self,
        owner: &str,
        turn: TurnId,
        feedback: Option<Feedback>,
    ) -> Result<TurnRecord, SessionError> {
        let change = |session: &mut Session| {
            let mut record = TurnRecord::of(session).ok_or(SessionError::Unknown)?;
            record.feedback.clone_from(&feedback);
            let record = record.shorten();
            session.state = json!(record);
            Ok::<_, SessionError>(record)
        };
        let (_, record) = self.0.update(owner, &turn.to_string(), change).await?;
        Ok(record)
    }

    /// Returns the records with feedback, the one changed last first.
    pub(crate) async fn with_feedback(&self, owner: &str) -> Result<Vec<TurnRecord>, SessionError> {
        let sessions = self.0.list(owner, MAX_EXPORTED).await?;
        let records = sessions.iter().filter_map(TurnRecord::of);
        Ok(records.filter(|record| record.feedback.is_some()).collect())
    }

    /// Returns the turns of a session, oldest first. Those that have expired are left out.
    pub(crate) async fn of_session(
        &self,
        owner: &str,
        session: &str,
    ) -> Result<Vec<TurnRecord>, SessionError> {
        let mut records = Vec::new();
        for turn in self.turns(owner, session).await? {
            match self.0.get(owner, &turn).await {
                Ok(stored) => records.extend(TurnRecord::of(&stored)),
                Err(SessionError::Unknown) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(records)
    }

    /// Removes all turns of a session.
    pub(crate) async fn remove_session(&self, owner: &str, session: &str) -> Result<(), SessionError> {
        for turn in self.turns(owner, session).await? {
            self.0.delete(owner, &turn).await?;
        }
        self.0.delete(&index_of(owner), session).await.map(drop)
    }

    /// Removes a turn of a session and those after it, and returns how many they were.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unknown`] if the session has no such turn.
    pub(crate) async fn remove_from(
        &self,
        owner: &str,
        session: &str,
        turn: TurnId,
    ) -> Result<usize, SessionError> {
        let turn = turn.to_string();
        let cut = |stored: &mut Session| {
            let mut turns = turns_in(stored);
            let at = turns.iter().position(|other| *other == turn);
            let removed = turns.split_off(at.ok_or(SessionError::Unknown)?);
            stored.state = json!(turns);
            Ok::<_, SessionError>(removed)
        };
        let (_, removed) = self.0.update(&index_of(owner), session, cut).await?;
        for turn in &removed {
            self.0.delete(owner, turn).await?;
        }
        Ok(removed.len())
    }

    async fn turns(&self, owner: &str, session: &str) -> Result<Vec<String>, SessionError> {
        match self.0.get(&index_of(owner), session).await {
            Ok(stored) => Ok(turns_in(&stored)),
            Err(SessionError::Unknown) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Returns the owner of the index of an owner's sessions. A header cannot contain NUL, so no owner
/// has such a name.
fn index_of(owner: &str) -> String {
    format!("turns\0{owner}")
}

fn turns_in(index: &Session) -> Vec<String> {
    Vec::deserialize(&index.state).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(answer: String) -> TurnRecord {
        TurnRecord {
            turn_id: "t".into(),
            session_id: "s".into(),
            question: "Why?".into(),
            answer,
            status: RecordStatus::Completed,
            message: None,
            answered: None,
            citations: vec![Citation::new("d", "d-1", "quote", "bm25")],
            model: None,
            elapsed_ms: None,
            ended_ms: 0,
            feedback: None,
        }
    }

    #[test]
    fn a_large_record_loses_its_citations_and_then_the_end_of_its_answer() {
        let small = record("word ".repeat(100));
        assert_eq!(small.clone().shorten(), small);
        let mut cited = record("word ".repeat(100));
        cited.citations = vec![Citation::new("d", "d-1", "q".repeat(MAX_RECORD_BYTES), "bm25")];
        let shortened = cited.clone().shorten();
        assert_eq!(
            (shortened.answer, shortened.citations),
            (cited.answer, Vec::new())
        );
        let long = record("\u{1}".repeat(MAX_RECORD_BYTES)).shorten();
        assert!(long.bytes() <= MAX_RECORD_BYTES && !long.answer.is_empty());
    }
}
