//! What a thread keeps besides its messages: its metadata and its runs. It is part of the state of
//! the session, so it lives as long as the messages and changes with them.

use std::time::SystemTime;

use ragwire::session::{Session, SessionError};
use ragwire::turn::{Ending, TurnId};
use ragwire::{Status, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::objects::RunStatus;
use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::request::invalid;

/// The member of a session's state.
const MEMBER: &str = "langgraph";
/// Number of runs of a thread that are listed; the oldest are dropped first. A session keeps 50
/// messages by default, those of 25 runs.
const MAX_RUNS: usize = 100;
/// The longest metadata of a thread as JSON: half of what the state of a session has without runs.
const MAX_METADATA_BYTES: usize = 16 * 1024;

/// What a thread keeps besides its messages.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ThreadRecord {
    pub(super) metadata: Map<String, Value>,
    /// The runs, oldest first.
    pub(super) runs: Vec<RunRecord>,
    /// The newest run when the messages were changed by hand. Its own messages are out of date.
    pub(super) edited: Option<String>,
}

/// A run of a thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RunRecord {
    pub(super) id: String,
    /// When it began and when it ended, in microseconds since 1970.
    pub(super) began: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<i64>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<RunStatus>,
}

impl ThreadRecord {
    /// Reads the record of a session. A session of another route has an empty one.
    pub(super) fn of(session: &Session) -> Self {
        let record = session.state.get(MEMBER).cloned().unwrap_or_default();
        serde_json::from_value(record).unwrap_or_default()
    }

    /// Writes the record into a session whose state is an object, or empty.
    fn store(mut self, session: &mut Session) {
        self.runs.drain(..self.runs.len().saturating_sub(MAX_RUNS));
        if session.state.is_null() {
            session.state = json!({});
        }
        if let Some(state) = session.state.as_object_mut() {
            state.insert(MEMBER.to_owned(), json!(self));
        }
    }

    /// Changes the record of a session.
    pub(super) fn change(session: &mut Session, change: impl FnOnce(&mut Self)) {
        let mut record = Self::of(session);
        change(&mut record);
        record.store(session);
    }

    /// Adds members to the metadata.
    pub(super) fn add_metadata(&mut self, metadata: Map<String, Value>) {
        self.metadata.extend(metadata);
    }

    /// Returns `true` if the metadata contains these members.
    pub(super) fn has(&self, members: &Map<String, Value>) -> bool {
        members
            .iter()
            .all(|(name, value)| self.metadata.get(name) == Some(value))
    }

    /// Returns when a run began and when it changed last.
    pub(super) fn times(&self, id: TurnId) -> Option<(Timestamp, Timestamp)> {
        let id = id.to_string();
        let run = self.runs.iter().find(|run| run.id == id)?;
        let times = [run.began, run.ended.unwrap_or(run.began)].map(Timestamp::from_micros);
        Some(times.into())
    }

    /// Returns the run with this ID, which begins now if it is new. Its end may be stored before its
    /// beginning.
    fn run(&mut self, id: TurnId) -> &mut RunRecord {
        let id = id.to_string();
        let at = self.runs.iter().position(|run| run.id == id);
        let at = at.unwrap_or_else(|| {
            let (began, ended, status) = (now(), None, None);
            self.runs.push(RunRecord {
                id,
                began,
                ended,
                status,
            });
            self.runs.len() - 1
        });
        &mut self.runs[at]
    }
}

fn now() -> i64 {
    Timestamp::from(SystemTime::now()).as_micros()
}

/// Checks the metadata of a client.
///
/// # Errors
///
/// 422 if it is too long.
pub(super) fn check_metadata(metadata: &Map<String, Value>) -> Result<(), Refusal> {
    if json!(metadata).to_string().len() > MAX_METADATA_BYTES {
        return Err(invalid(format!(
            "The metadata of a thread is longer than {MAX_METADATA_BYTES} bytes."
        )));
    }
    Ok(())
}

/// Adds a run to its thread. A failure does not end the run: it is only missing in the list.
pub(super) async fn begin(caller: &Caller, thread: &str, id: TurnId) {
    let assistant = &caller.shared.name;
    let change = |session: &mut Session| {
        ThreadRecord::change(session, |record| {
            record.run(id);
            // The server of LangGraph adds both; its chats select threads by them.
            for name in ["graph_id", "assistant_id"] {
                record
                    .metadata
                    .entry(name)
                    .or_insert_with(|| assistant.as_str().into());
            }
        });
        Ok::<_, SessionError>(())
    };
    let stored = caller
        .shared
        .sessions
        .update(caller.owner.as_str(), thread, change)
        .await;
    if let Err(error) = stored {
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot list a run");
    }
}

/// Stores how a run ended.
pub(super) fn end(session: &mut Session, ending: &Ending) {
    let status = match ending.end.status {
        Status::Completed => RunStatus::Success,
        Status::Stopped => RunStatus::Interrupted,
        Status::Failed(_) => RunStatus::Error,
    };
    ThreadRecord::change(session, |record| {
        let run = record.run(ending.id);
        run.ended = Some(now());
        run.status = Some(status);
    });
}
