//! The objects of LangGraph Server as JSON.

use std::time::SystemTime;

use ragwire::Timestamp;
use ragwire::session::Session;
use ragwire::turn::TurnId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

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
    pub(crate) thread_id: Option<String>,
    /// `do_nothing` returns a thread that exists; otherwise it is refused with 409.
    pub(crate) if_exists: Option<String>,
}

/// A thread.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphThread)]
pub(crate) struct Thread {
    thread_id: String,
    created_at: String,
    updated_at: String,
    metadata: Map<String, Value>,
    status: &'static str,
    pub(crate) values: Map<String, Value>,
    interrupts: Map<String, Value>,
}

impl Thread {
    pub(crate) fn new(session: &Session, status: &'static str) -> Self {
        Self {
            thread_id: session.id().to_owned(),
            created_at: time(session.created()),
            updated_at: time(session.updated()),
            metadata: Map::new(),
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

/// A run.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphRun)]
pub(crate) struct Run {
    run_id: String,
    thread_id: Option<String>,
    assistant_id: String,
    created_at: String,
    updated_at: String,
    status: &'static str,
    metadata: Map<String, Value>,
    multitask_strategy: &'static str,
}

impl Run {
    /// Creates the object. The journal does not keep times, so they are those of the request.
    pub(crate) fn new(assistant: &str, thread: Option<&str>, run: TurnId, status: &'static str) -> Self {
        let now = time(SystemTime::now());
        Self {
            run_id: run.to_string(),
            thread_id: thread.map(str::to_owned),
            assistant_id: assistant.to_owned(),
            created_at: now.clone(),
            updated_at: now,
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
#[derive(Debug, Serialize, ToSchema)]
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
