//! The objects of LangGraph Server as JSON.

use std::time::SystemTime;

use ragwire::Timestamp;
use ragwire::session::Session;
use ragwire::turn::TurnId;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::record::ThreadRecord;
use crate::caller::Caller;
use crate::openapi::requests::{self, SessionId};
use crate::request;

/// What the server is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphInfo)]
pub(crate) struct Info {
    version: &'static str,
    flags: Flags,
}

/// The parts of LangGraph Server that exist here.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphFlags)]
struct Flags {
    assistants: bool,
    crons: bool,
    langsmith: bool,
}

impl Default for Info {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            flags: Flags {
                assistants: true,
                crons: false,
                langsmith: false,
            },
        }
    }
}

/// The assistant: the orchestrator.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphAssistant)]
pub(crate) struct Assistant {
    assistant_id: String,
    graph_id: String,
    name: String,
    config: Map<String, Value>,
    context: Map<String, Value>,
    metadata: Map<String, Value>,
    version: u32,
    created_at: String,
    updated_at: String,
}

impl Assistant {
    pub(crate) fn new(name: &str) -> Self {
        // It exists as long as the program does; the clients require a time.
        let time = Timestamp::from_micros(0).to_string();
        Self {
            assistant_id: name.to_owned(),
            graph_id: name.to_owned(),
            name: name.to_owned(),
            config: Map::new(),
            context: Map::new(),
            metadata: Map::new(),
            version: 1,
            created_at: time.clone(),
            updated_at: time,
        }
    }
}

/// The body of `POST /threads`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = LangGraphThreadCreation)]
pub(crate) struct ThreadCreation {
    /// 1 to 128 letters, digits, `-`, `_` and `.`; random if it is left out.
    #[schema(value_type = Option<SessionId>)]
    pub(crate) thread_id: Option<String>,
    /// `do_nothing` returns a thread that exists; otherwise it is refused with 409.
    pub(crate) if_exists: Option<String>,
    /// Members by which the thread can be searched.
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
}

/// The body of `PATCH /threads/{thread_id}`.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = LangGraphThreadChange)]
pub(crate) struct ThreadChange {
    /// Members to add to the metadata.
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
}

/// The body of `POST /threads/search` and `POST /threads/count`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphThreadSearch)]
pub(crate) struct ThreadSearch {
    /// Members that the metadata contains.
    pub(crate) metadata: Option<Map<String, Value>>,
    /// The threads to search; otherwise all of the owner.
    pub(crate) ids: Option<Vec<String>>,
    /// The status of the threads.
    pub(crate) status: Option<ThreadStatus>,
    /// Number of threads at most. Default: 10.
    #[serde(deserialize_with = "request::count")]
    pub(crate) limit: Option<usize>,
    /// Number of threads to leave out.
    #[serde(deserialize_with = "request::count")]
    pub(crate) offset: Option<usize>,
    /// `created_at`, `thread_id`, `status` or `updated_at`, the default.
    pub(crate) sort_by: Option<SortBy>,
    /// `asc` or `desc`, the default.
    pub(crate) sort_order: Option<SortOrder>,
}

/// What threads are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LangGraphSortBy)]
pub(crate) enum SortBy {
    /// When it began.
    CreatedAt,
    /// When it changed last.
    #[default]
    UpdatedAt,
    /// Its ID.
    ThreadId,
    /// Its status, as text.
    Status,
}

/// In which order threads are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = LangGraphSortOrder)]
pub(crate) enum SortOrder {
    /// The least first.
    Asc,
    /// The greatest first.
    #[default]
    Desc,
}

/// The body of `POST /threads/{thread_id}/history`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphHistory)]
pub(crate) struct HistoryRequest {
    /// Number of states at most.
    #[serde(deserialize_with = "request::count")]
    pub(crate) limit: Option<usize>,
    /// A state; only earlier ones are returned, and there are none.
    #[schema(value_type = Value, required = false)]
    pub(crate) before: Value,
    /// Members that the metadata of the state contains.
    pub(crate) metadata: Option<Map<String, Value>>,
}

/// The body of `POST /threads/{thread_id}/state`.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = LangGraphStateUpdate)]
pub(crate) struct StateUpdate {
    /// `messages`: one message or a list. A message with the ID of another replaces it, `remove`
    /// removes it, and every other is added at the end.
    #[serde(default)]
    #[schema(value_type = requests::LangGraphValues, required = false)]
    pub(crate) values: Value,
    /// The state to start from: only the current one.
    pub(crate) checkpoint_id: Option<String>,
    /// The same with its other names.
    pub(crate) checkpoint: Option<Map<String, Value>>,
    /// Ignored: there is one node.
    #[serde(default, rename = "as_node")]
    #[schema(value_type = Value, required = false)]
    pub(crate) _as_node: Option<IgnoredAny>,
}

/// The response to an update.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphStateUpdated)]
pub(crate) struct StateUpdated {
    /// The new state.
    pub(crate) checkpoint: Option<Checkpoint>,
}

/// The body of `POST /threads/{thread_id}/state/checkpoint`.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = LangGraphCheckpointRequest)]
pub(crate) struct CheckpointRequest {
    /// The state.
    pub(crate) checkpoint: Map<String, Value>,
}

/// A thread.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphThread)]
pub(crate) struct Thread {
    pub(crate) thread_id: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) status: ThreadStatus,
    pub(crate) values: Map<String, Value>,
    interrupts: Map<String, Value>,
}

impl Thread {
    pub(crate) fn new(session: &Session, status: ThreadStatus) -> Self {
        Self {
            thread_id: session.id().to_owned(),
            created_at: time(session.created()),
            updated_at: time(session.updated()),
            metadata: ThreadRecord::of(session).metadata,
            status,
            values: Map::new(),
            interrupts: Map::new(),
        }
    }
}

/// A time in RFC 3339.
pub(crate) fn time(time: SystemTime) -> String {
    Timestamp::from(time).to_string()
}

/// The state of a run, in the words of LangGraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = LangGraphRunStatus)]
pub(crate) enum RunStatus {
    /// It runs, or waits for another run of its thread.
    Running,
    /// It completed.
    Success,
    /// It failed.
    Error,
    /// It was stopped, or waits for an answer.
    Interrupted,
}

/// The state of a thread, in the words of LangGraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = LangGraphThreadStatus)]
pub(crate) enum ThreadStatus {
    /// A run is running.
    Busy,
    /// The newest run failed.
    Error,
    /// Nothing runs.
    Idle,
    /// The newest run waits for an answer.
    Interrupted,
}

/// A run.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphRun)]
pub(crate) struct Run {
    run_id: String,
    thread_id: Option<String>,
    assistant_id: String,
    created_at: String,
    updated_at: String,
    pub(crate) status: RunStatus,
    metadata: Map<String, Value>,
    multitask_strategy: &'static str,
}

impl RunStatus {
    /// Returns the status as it is in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Run {
    /// Creates the object of a run of a thread, with the times that the thread has for it; otherwise
    /// those of the request.
    pub(crate) fn of(
        caller: &Caller,
        thread: Option<&str>,
        id: TurnId,
        record: &ThreadRecord,
        status: RunStatus,
    ) -> Self {
        let times = record.times(id).unwrap_or_else(|| {
            let now = Timestamp::from(SystemTime::now());
            (now, now)
        });
        Self::new(&caller.shared.name, thread, &id, times, status)
    }

    /// Creates the object of a run that began and changed at these times.
    pub(crate) fn new(
        assistant: &str,
        thread: Option<&str>,
        run: &impl ToString,
        (began, changed): (Timestamp, Timestamp),
        status: RunStatus,
    ) -> Self {
        Self {
            run_id: run.to_string(),
            thread_id: thread.map(str::to_owned),
            assistant_id: assistant.to_owned(),
            created_at: began.to_string(),
            updated_at: changed.to_string(),
            status,
            metadata: Map::new(),
            multitask_strategy: "enqueue",
        }
    }
}

/// The state of a thread.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphState)]
pub(crate) struct ThreadState {
    pub(crate) values: Map<String, Value>,
    /// The node that runs or waits.
    pub(crate) next: Vec<&'static str>,
    #[schema(required = true)]
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) created_at: String,
    #[schema(required = true)]
    pub(crate) parent_checkpoint: Option<Checkpoint>,
    pub(crate) tasks: Vec<Task>,
}

/// The name of a state.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = LangGraphCheckpoint)]
pub(crate) struct Checkpoint {
    pub(crate) thread_id: String,
    pub(crate) checkpoint_ns: &'static str,
    pub(crate) checkpoint_id: String,
}

/// A node that runs, waits or failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphTask)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) name: &'static str,
    /// JSON with `error` and `message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The questions that it waits for.
    pub(crate) interrupts: Vec<Value>,
}
