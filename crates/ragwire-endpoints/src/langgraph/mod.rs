//! The routes of LangGraph Server that its SDKs and `useStream` call: threads, runs, and one
//! assistant.
//!
//! A thread is a session, and a run is a turn of the journal. The state of a thread is its messages;
//! those of its newest run have their tools and citations as long as the journal keeps the turn. A
//! thread also keeps its metadata and a list of its runs. It has no earlier checkpoints.

mod index;
mod objects;
mod record;
mod run;
mod runs;
mod state;
mod threads;
mod update;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use ragwire::LangGraph;
use ragwire::session::Session;
use ragwire::turn::TurnId;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::objects::{Assistant, Info};
pub use self::run::RunRequest;
use self::state::Snapshot;
use crate::caller::Caller;
use crate::openapi;
use crate::refusal::Refusal;
use crate::request::{check_session_id, invalid};
use crate::shared::Shared;

/// Returns the routes of LangGraph.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::langgraph("langgraph", "The SDKs of LangGraph."))
        .routes(routes!(info))
        .routes(routes!(search_assistants))
        .routes(routes!(assistant))
        .routes(routes!(threads::create))
        .routes(routes!(threads::search))
        .routes(routes!(threads::count))
        .routes(routes!(threads::thread, threads::change, threads::delete))
        .routes(routes!(threads::state, threads::update_state))
        .routes(routes!(threads::state_of))
        .routes(routes!(threads::state_at))
        .routes(routes!(threads::history))
        .routes(routes!(runs::create, runs::list))
        .routes(routes!(runs::stream))
        .routes(routes!(runs::wait))
        .routes(routes!(runs::run))
        .routes(routes!(runs::join_stream))
        .routes(routes!(runs::join))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::stream_stateless))
        .routes(routes!(runs::wait_stateless))
        .routes(routes!(runs::join_stateless))
}

/// A refusal as LangGraph's clients show it: `{"detail","error"}`.
#[derive(Debug)]
pub(crate) struct LangGraphRefusal(Refusal);

impl From<Refusal> for LangGraphRefusal {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for LangGraphRefusal {
    fn into_response(self) -> Response {
        let Self(refusal) = self;
        let mut error = json!(refusal.failure);
        error["request_id"] = refusal.log().into();
        refusal.respond_with(json!({"detail": refusal.failure.message, "error": error}))
    }
}

type Answer<T> = Result<T, LangGraphRefusal>;

/// The thread in a path, and who asks for it.
#[derive(Debug)]
pub(crate) struct OfThread {
    caller: Caller,
    thread: String,
    checkpoint: Option<String>,
}

impl OfThread {
    async fn session(&self) -> Result<Session, Refusal> {
        self.caller.session(&self.thread).await
    }

    async fn snapshot(&self) -> Result<Snapshot, Refusal> {
        Snapshot::of(&self.caller, self.session().await?).await
    }
}

/// The run in a path, its thread, and who asks for it. The journal keeps a run for a while after its thread
/// was deleted, so the thread is read first.
#[derive(Debug)]
pub(crate) struct OfRun {
    caller: Caller,
    thread: Option<Session>,
    id: TurnId,
}

impl OfRun {
    /// The wire of the run, after the messages of its thread.
    fn wire(&self) -> LangGraph {
        match &self.thread {
            Some(thread) => run::wire(thread.id(), self.id, state::before(thread)),
            None => LangGraph::new(self.id.to_string()),
        }
    }
}

/// Reads the caller and the parameters of a path.
async fn parts_of(
    parts: &mut Parts,
    shared: &Arc<Shared>,
) -> Result<(Caller, HashMap<String, String>), Refusal> {
    let caller = Caller::from_request_parts(parts, shared).await?;
    let path = Path::from_request_parts(parts, shared).await;
    Ok((caller, path.map(|Path(path)| path).unwrap_or_default()))
}

impl FromRequestParts<Arc<Shared>> for OfThread {
    type Rejection = LangGraphRefusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Answer<Self> {
        let (caller, mut path) = parts_of(parts, shared).await?;
        Ok(Self {
            thread: check_session_id(path.remove("thread_id").unwrap_or_default())?,
            checkpoint: path.remove("checkpoint_id"),
            caller,
        })
    }
}

impl FromRequestParts<Arc<Shared>> for OfRun {
    type Rejection = LangGraphRefusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Answer<Self> {
        let (caller, mut path) = parts_of(parts, shared).await?;
        let run = path.remove("run_id").unwrap_or_default();
        let thread = match path.remove("thread_id") {
            Some(thread) => Some(caller.session(&check_session_id(thread)?).await?),
            None => None,
        };
        Ok(Self {
            thread,
            // A malformed ID becomes a random one, which no turn has.
            id: TurnId::parse(&run).unwrap_or_else(TurnId::random),
            caller,
        })
    }
}

fn conflict(code: &'static str, message: &str) -> Refusal {
    Refusal::permanent(StatusCode::CONFLICT, code, message)
}

/// The refusal of an input without a question.
fn no_question() -> Refusal {
    invalid("`input.messages` needs a message of the type `human` with text.")
}

/// Describes the server.
#[utoipa::path(get, path = "/info", tag = "langgraph", operation_id = "langgraphInfo",
    responses((status = 200, description = "The server", body = Info)))]
pub(crate) async fn info() -> Json<Info> {
    Json(Info::default())
}

/// Lists the assistants.
#[utoipa::path(post, path = "/assistants/search", tag = "langgraph", operation_id = "langgraphAssistants",
    responses((status = 200, description = "The only assistant", body = Vec<Assistant>)))]
pub(crate) async fn search_assistants(State(shared): State<Arc<Shared>>) -> Json<Vec<Assistant>> {
    Json(vec![Assistant::new(&shared.name)])
}

/// Returns the assistant, by any ID: there is only one.
#[utoipa::path(get, path = "/assistants/{assistant_id}", tag = "langgraph", operation_id = "langgraphAssistant",
    params(("assistant_id" = String, Path, description = "Any name")),
    responses((status = 200, description = "The assistant", body = Assistant)))]
pub(crate) async fn assistant(State(shared): State<Arc<Shared>>) -> Json<Assistant> {
    Json(Assistant::new(&shared.name))
}
