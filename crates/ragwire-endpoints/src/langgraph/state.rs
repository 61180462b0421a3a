//! The state of a thread: the messages of its session, and those of its newest run.

use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use ragwire::session::{Message, Role, Session};
use ragwire::turn::TurnId;
use ragwire::wire::langgraph::Modes;
use ragwire::wire::sse::EventStream;
use ragwire::{LangGraph, Timestamp, Turn};
use serde_json::{Map, Value, json};

use super::objects::{Checkpoint, RunStatus, Task, Thread, ThreadState, ThreadStatus, time};
use super::record::ThreadRecord;
use crate::caller::Caller;
use crate::lane::Lane;
use crate::refusal::Refusal;

/// How long to wait for what a running turn has so far, which is in memory or one round trip away.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// The largest `values` that are read back: those of the wire, and the messages of a session before
/// them.
const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;
/// The node that answers.
const NODE: &str = "model";

/// The messages of a session as LangChain's, with IDs that every request computes alike.
pub(super) fn messages<'a>(thread: &str, messages: impl IntoIterator<Item = &'a Message>) -> Vec<Value> {
    let numbered = messages.into_iter().enumerate();
    numbered
        .map(|(number, message)| {
            let kind = match message.role {
                Role::User => "human",
                Role::Assistant => "ai",
            };
            json!({"type": kind, "id": format!("{thread}-{number}"), "content": message.text})
        })
        .collect()
}

/// The messages of a thread up to its last question: those before the answer of its newest run.
pub(super) async fn messages_before(caller: &Caller, thread: &str) -> Vec<Value> {
    let session = caller.session(thread).await;
    session.map_or_else(|_| Vec::new(), |session| before(&session))
}

/// The messages of a session up to its last question.
pub(super) fn before(session: &Session) -> Vec<Value> {
    let is_question = |message: &Message| message.role == Role::User;
    let end = session
        .messages
        .iter()
        .rposition(is_question)
        .map_or(0, |at| at + 1);
    messages(session.id(), session.messages.iter().take(end))
}

/// The newest turn of a thread that the journal still has.
pub(super) async fn newest(caller: &Caller, thread: &str) -> Result<Option<TurnId>, Refusal> {
    let lane = Lane::session(&caller.owner, thread);
    caller.newest(&lane).await
}

/// Returns `true` if the newest turn of a thread has not ended.
pub(super) async fn is_running(caller: &Caller, thread: &str) -> Result<bool, Refusal> {
    let Some(id) = newest(caller, thread).await? else {
        return Ok(false);
    };
    let turn = caller.resume(id).await;
    Ok(turn.is_ok_and(|turn| !turn.is_finished()))
}

/// What a run has produced so far.
#[derive(Debug, Default)]
pub(super) struct RunState {
    /// The last `values`.
    values: Option<Map<String, Value>>,
    /// The data of `error`.
    error: Option<Value>,
    /// The data of `end`.
    end: Option<Value>,
}

impl RunState {
    /// Reads what the journal has of a run, without waiting for more.
    pub(super) async fn read(caller: &Caller, id: TurnId, wire: LangGraph) -> Result<Self, Refusal> {
        let turn = caller.resume(id).await?;
        let wire = wire.modes(Modes::of(["values"]));
        let mut state = Self::default();
        if turn.is_finished() {
            state.take_all(turn, wire).await;
        } else {
            // A running turn without news is the usual case.
            let _ = tokio::time::timeout(MAX_WAIT, state.take_all(turn, wire)).await;
        }
        Ok(state)
    }

    /// Reads a run to its end.
    pub(super) async fn read_to_end(turn: Turn, wire: LangGraph) -> Self {
        let mut state = Self::default();
        state.take_all(turn, wire).await;
        state
    }

    async fn take_all(&mut self, turn: Turn, wire: LangGraph) {
        let mut body = Body::new(turn.respond(wire).into_body());
        let mut events = EventStream::new(MAX_EVENT_BYTES);
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            events.feed(&data);
            for event in events.by_ref().flatten() {
                let data = serde_json::from_str(&event.data).unwrap_or_default();
                match (event.event.as_str(), data) {
                    ("values", Value::Object(values)) => self.values = Some(values),
                    ("error", error) => self.error = Some(error),
                    ("end", end) => self.end = Some(end),
                    _ => {}
                }
            }
        }
    }

    /// The values, as the routes that wait return them.
    pub(super) fn values(self) -> Value {
        let mut values = self.values.unwrap_or_default();
        if let Some(error) = self.error {
            values.insert("__error__".into(), error);
        }
        values.into()
    }

    /// The ID of the question that the run waits for.
    pub(super) fn question(&self) -> Option<&str> {
        self.interrupts().first()?["id"].as_str()
    }

    /// The questions that the run waits for. The end of a turn has metadata; a run that waits does
    /// not.
    fn interrupts(&self) -> &[Value] {
        let waits = self.end == Some(Value::Null);
        let interrupts = self
            .values
            .as_ref()
            .and_then(|values| values.get("__interrupt__"));
        let interrupts = interrupts.filter(|_| waits).and_then(Value::as_array);
        interrupts.map_or(&[], Vec::as_slice)
    }

    pub(super) fn status(&self) -> RunStatus {
        match (&self.error, &self.end) {
            (Some(_), _) => RunStatus::Error,
            (None, None) => RunStatus::Running,
            (None, Some(Value::Null)) => RunStatus::Interrupted,
            (None, Some(end)) if end["status"] == "stopped" => RunStatus::Interrupted,
            (None, Some(_)) => RunStatus::Success,
        }
    }
}

/// A thread and its newest run.
#[derive(Debug)]
pub(super) struct Snapshot {
    session: Session,
    run: Option<(TurnId, RunState)>,
}

impl Snapshot {
    pub(super) async fn read(caller: &Caller, thread: &str) -> Result<Self, Refusal> {
        let session = caller.session(thread).await?;
        Self::of(caller, session).await
    }

    /// Reads the newest run of a session.
    pub(super) async fn of(caller: &Caller, session: Session) -> Result<Self, Refusal> {
        let run = match newest(caller, session.id()).await? {
            Some(id) => {
                let wire = LangGraph::new(id.to_string())
                    .thread(session.id())
                    .messages(before(&session))
                    .parks();
                // The journal may drop it in between.
                let state = RunState::read(caller, id, wire).await.ok();
                state.map(|state| (id, state))
            }
            None => None,
        };
        Ok(Self { session, run })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// The newest run, if the journal still has it.
    pub(super) fn run_id(&self) -> Option<TurnId> {
        self.run.as_ref().map(|(id, _)| *id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.session.messages.is_empty()
    }

    /// The messages: of a run that has ended or waits, with its tools and citations; of any other,
    /// and after a change by hand, those of the session.
    pub(super) fn messages(&self) -> Vec<Value> {
        let of_run = self.run.as_ref().and_then(|(id, state)| {
            let is_whole = state.end.is_some() && state.error.is_none();
            let is_edited = ThreadRecord::of(&self.session).edited == Some(id.to_string());
            let values = state.values.as_ref().filter(|_| is_whole && !is_edited)?;
            values.get("messages")?.as_array().cloned()
        });
        of_run.unwrap_or_else(|| messages(self.session.id(), &self.session.messages))
    }

    fn values(&self) -> Map<String, Value> {
        Map::from_iter([("messages".to_owned(), self.messages().into())])
    }

    pub(super) fn status(&self) -> ThreadStatus {
        match &self.run {
            None => ThreadStatus::Idle,
            Some((_, run)) => match run.status() {
                RunStatus::Running => ThreadStatus::Busy,
                RunStatus::Error => ThreadStatus::Error,
                RunStatus::Interrupted if run.question().is_some() => ThreadStatus::Interrupted,
                RunStatus::Interrupted | RunStatus::Success => ThreadStatus::Idle,
            },
        }
    }

    pub(super) fn thread(&self) -> Thread {
        let mut thread = Thread::new(&self.session, self.status());
        thread.values = self.values();
        thread
    }

    pub(super) fn state(&self) -> ThreadState {
        let task = self.run.as_ref().and_then(|(id, state)| {
            let error = state.error.as_ref().map(Value::to_string);
            let interrupts = state.interrupts().to_vec();
            let is_open = error.is_some() || !interrupts.is_empty() || state.status() == RunStatus::Running;
            is_open.then(|| Task {
                id: id.to_string(),
                name: NODE,
                error,
                interrupts,
            })
        });
        let mut metadata = Map::new();
        if let Some((id, _)) = &self.run {
            metadata.insert("run_id".into(), id.to_string().into());
        }
        ThreadState {
            values: self.values(),
            next: task.iter().map(|task| task.name).collect(),
            checkpoint: (!self.is_empty()).then(|| checkpoint(&self.session)),
            metadata,
            created_at: time(self.session.updated()),
            parent_checkpoint: None,
            tasks: task.into_iter().collect(),
        }
    }
}

/// The name of the current state of a thread.
pub(super) fn checkpoint(session: &Session) -> Checkpoint {
    let micros = Timestamp::from(session.updated()).as_micros();
    Checkpoint {
        thread_id: session.id().to_owned(),
        checkpoint_ns: "",
        checkpoint_id: format!("{micros:016x}"),
    }
}
