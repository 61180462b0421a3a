//! The routes of LangGraph Server that its SDKs and `useStream` call: threads, runs, and one
//! assistant.
//!
//! A thread is a session, and a run is a turn of the journal. The state of a thread is its messages;
//! those of its newest run have their tools and citations as long as the journal keeps the turn.
//! Threads cannot be listed, because a store of sessions cannot be searched, and they have no
//! earlier checkpoints.

mod objects;
mod run;
mod state;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use ragwire::LangGraph;
use ragwire::session::Sessions;
use ragwire::turn::TurnId;
use ragwire::wire::langgraph::{EventId, Modes};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::objects::{Assistant, Info, Run, Thread, ThreadCreation, ThreadState};
pub use self::run::RunRequest;
use self::state::{RunState, Snapshot};
use crate::openapi::{self, LangGraphRefusals, example};
use crate::owner::Owner;
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, PathParam, check_session_id, invalid, session_id};
use crate::shared::Shared;
use crate::start::Reader;

/// Returns the routes of LangGraph.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::langgraph("langgraph", "The SDKs of LangGraph."))
        .routes(routes!(info))
        .routes(routes!(search_assistants))
        .routes(routes!(assistant))
        .routes(routes!(create_thread))
        .routes(routes!(search_threads))
        .routes(routes!(thread, delete_thread))
        .routes(routes!(thread_state))
        .routes(routes!(thread_history))
        .routes(routes!(create_run, list_runs))
        .routes(routes!(stream_run))
        .routes(routes!(wait_run))
        .routes(routes!(run))
        .routes(routes!(join_stream))
        .routes(routes!(join))
        .routes(routes!(cancel))
        .routes(routes!(stream_stateless))
        .routes(routes!(wait_stateless))
        .routes(routes!(join_stateless))
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
/// The thread and the run in a path.
type RunPath = Result<Path<(String, String)>, PathRejection>;
type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

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

/// Creates a thread.
#[utoipa::path(post, path = "/threads", tag = "langgraph", operation_id = "langgraphCreateThread",
    request_body(content = ThreadCreation, example = json!({})),
    responses((status = 200, description = "The thread", body = Thread), LangGraphRefusals))]
pub(crate) async fn create_thread(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    request: Request,
) -> Answer<Json<Thread>> {
    let owner = owner?;
    let max_bytes = request::max_bytes(&shared, BodyKind::Question);
    let creation: Option<ThreadCreation> = request::read_optional_json(&shared, max_bytes, request).await?;
    let creation = creation.unwrap_or_default();
    let id = match creation.thread_id {
        Some(id) => check_session_id(id)?,
        None => random_id()?,
    };
    if creation.if_exists.as_deref() != Some("do_nothing")
        && shared.sessions.get(owner.as_str(), &id).await.is_ok()
    {
        return Err(conflict("thread_exists", "The thread exists already.").into());
    }
    let session = shared.sessions.get_or_begin(owner.as_str(), &id).await;
    Ok(Json(Thread::new(&session.map_err(Refusal::from)?, "idle")))
}

/// A random thread ID in the form of a UUID, version 4.
fn random_id() -> Result<String, Refusal> {
    let digits = Sessions::random_id().map_err(Refusal::from)?;
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    Ok(format!(
        "{}-{}-4{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    ))
}

fn conflict(code: &'static str, message: &str) -> Refusal {
    Refusal::permanent(StatusCode::CONFLICT, code, message)
}

/// Lists threads: always none, because a store of sessions cannot be searched.
#[utoipa::path(post, path = "/threads/search", tag = "langgraph", operation_id = "langgraphThreads",
    responses((status = 200, description = "An empty list", body = Vec<Thread>)))]
pub(crate) async fn search_threads() -> Json<Vec<Thread>> {
    Json(Vec::new())
}

/// Returns a thread.
#[utoipa::path(get, path = "/threads/{thread_id}", tag = "langgraph", operation_id = "langgraphThread",
    params(("thread_id" = String, Path, description = "The thread")),
    responses((status = 200, description = "The thread", body = Thread),
        (status = 404, description = "The thread does not exist"), LangGraphRefusals))]
pub(crate) async fn thread(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    thread: PathParam,
) -> Answer<Json<Thread>> {
    let snapshot = Snapshot::read(&shared, &owner?, &session_id(thread)?).await?;
    Ok(Json(snapshot.thread()))
}

/// Deletes a thread.
#[utoipa::path(delete, path = "/threads/{thread_id}", tag = "langgraph", operation_id = "langgraphDeleteThread",
    params(("thread_id" = String, Path, description = "The thread")),
    responses((status = 204, description = "The thread does not exist any more"), LangGraphRefusals))]
pub(crate) async fn delete_thread(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    thread: PathParam,
) -> Answer<StatusCode> {
    let deleted = shared
        .sessions
        .delete(owner?.as_str(), &session_id(thread)?)
        .await;
    deleted.map_err(Refusal::from)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the state of a thread.
#[utoipa::path(get, path = "/threads/{thread_id}/state", tag = "langgraph", operation_id = "langgraphState",
    params(("thread_id" = String, Path, description = "The thread")),
    responses((status = 200, description = "The state", body = ThreadState),
        (status = 404, description = "The thread does not exist"), LangGraphRefusals))]
pub(crate) async fn thread_state(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    thread: PathParam,
) -> Answer<Json<ThreadState>> {
    let snapshot = Snapshot::read(&shared, &owner?, &session_id(thread)?).await?;
    Ok(Json(snapshot.state()))
}

/// Returns the states of a thread, newest first: the current one, if there is a message.
#[utoipa::path(post, path = "/threads/{thread_id}/history", tag = "langgraph", operation_id = "langgraphHistory",
    params(("thread_id" = String, Path, description = "The thread")),
    responses((status = 200, description = "At most one state", body = Vec<ThreadState>),
        (status = 404, description = "The thread does not exist"), LangGraphRefusals))]
pub(crate) async fn thread_history(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    thread: PathParam,
) -> Answer<Json<Vec<ThreadState>>> {
    let snapshot = Snapshot::read(&shared, &owner?, &session_id(thread)?).await?;
    let states = if snapshot.is_empty() {
        Vec::new()
    } else {
        vec![snapshot.state()]
    };
    Ok(Json(states))
}

/// Starts a run in a thread and streams it. `command.resume` answers the question that the thread's
/// newest run waits for.
#[utoipa::path(post, path = "/threads/{thread_id}/runs/stream", tag = "langgraph", operation_id = "langgraphStream",
    params(("thread_id" = String, Path, description = "The thread")),
    request_body(content = RunRequest, example = json!({
        "assistant_id": "ragwire",
        "input": { "messages": [{ "type": "human", "content": "What is the commit rule?" }] },
        "stream_mode": ["values", "messages-tuple"],
    })),
    responses(
        (status = 200, description = "The run stream", headers(
            ("content-location" = String, description = "The run"),
            ("location" = String, description = "Where to join the stream"),
            ("x-ragwire-turn" = String, description = "The turn's id"),
        ), content((String = "text/event-stream", example = json!(example(&LangGraph::new("run-1").thread("thread-1")))))),
        (status = 404, description = "The thread does not exist"),
        (status = 409, description = "`multitask_strategy` is `reject`, and a run is running"),
        LangGraphRefusals,
    ))]
pub(crate) async fn stream_run(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    thread: PathParam,
    request: Request,
) -> Answer<Response> {
    let (owner, thread) = (owner?, session_id(thread)?);
    let body: RunRequest = request::read_json(&shared, BodyKind::Conversation, request).await?;
    let reader = body.reader();
    let started = run::start(&shared, &owner, Some(&thread), body, reader).await?;
    let run = format!("/threads/{thread}/runs/{}", started.turn.id());
    Ok(respond(started, &run))
}

/// Streams a run, with the headers from which clients reconnect. The paths are relative to the
/// clients' base URL, which contains a prefix.
fn respond(started: run::Started, run: &str) -> Response {
    let mut response = started.turn.respond(started.wire).map(Body::new);
    for (name, path) in [
        (CONTENT_LOCATION, run.to_owned()),
        (LOCATION, format!("{run}/stream")),
    ] {
        if let Ok(path) = HeaderValue::try_from(path) {
            response.headers_mut().insert(name, path);
        }
    }
    response
}

/// Starts a run in a thread without waiting for it.
#[utoipa::path(post, path = "/threads/{thread_id}/runs", tag = "langgraph", operation_id = "langgraphRun",
    params(("thread_id" = String, Path, description = "The thread")),
    request_body = RunRequest,
    responses((status = 200, description = "The run", body = Run), LangGraphRefusals))]
pub(crate) async fn create_run(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    thread: PathParam,
    request: Request,
) -> Answer<Response> {
    let (owner, thread) = (owner?, session_id(thread)?);
    let body: RunRequest = request::read_json(&shared, BodyKind::Conversation, request).await?;
    let started = run::start(&shared, &owner, Some(&thread), body, Reader::Absent).await?;
    let id = started.turn.id();
    let location = [(CONTENT_LOCATION, format!("/threads/{thread}/runs/{id}"))];
    Ok((
        location,
        Json(Run::new(&shared.name, Some(&thread), id, "running")),
    )
        .into_response())
}

/// Runs to the end and returns the state.
#[utoipa::path(post, path = "/threads/{thread_id}/runs/wait", tag = "langgraph", operation_id = "langgraphWait",
    params(("thread_id" = String, Path, description = "The thread")),
    request_body = RunRequest,
    responses((status = 200, description = "The values; `__error__` if the run failed", body = Object), LangGraphRefusals))]
pub(crate) async fn wait_run(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    thread: PathParam,
    request: Request,
) -> Answer<Json<Value>> {
    let (owner, thread) = (owner?, session_id(thread)?);
    let body: RunRequest = request::read_json(&shared, BodyKind::Conversation, request).await?;
    wait(&shared, &owner, Some(&thread), body).await
}

async fn wait(shared: &Shared, owner: &Owner, thread: Option<&str>, body: RunRequest) -> Answer<Json<Value>> {
    let reader = body.reader();
    let started = run::start(shared, owner, thread, body, reader).await?;
    let wire = started.wire.modes(Modes::of(["values"]));
    let state = RunState::read_to_end(started.turn, wire).await;
    Ok(Json(state.values()))
}

/// Lists the runs of a thread: the newest one, if the journal still has it.
#[utoipa::path(get, path = "/threads/{thread_id}/runs", tag = "langgraph", operation_id = "langgraphRuns",
    params(("thread_id" = String, Path, description = "The thread")),
    responses((status = 200, description = "At most one run", body = Vec<Run>), LangGraphRefusals))]
pub(crate) async fn list_runs(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    thread: PathParam,
) -> Answer<Json<Vec<Run>>> {
    let snapshot = Snapshot::read(&shared, &owner?, &session_id(thread)?).await?;
    Ok(Json(snapshot.run(&shared.name).into_iter().collect()))
}

/// Returns a run.
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}", tag = "langgraph", operation_id = "langgraphGetRun",
    params(("thread_id" = String, Path, description = "The thread"), ("run_id" = String, Path, description = "The run")),
    responses((status = 200, description = "The run", body = Run),
        (status = 404, description = "The run is unknown or has expired"), LangGraphRefusals))]
pub(crate) async fn run(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    path: RunPath,
) -> Answer<Json<Run>> {
    let (owner, (thread, id)) = (owner?, run_path(path));
    let state = RunState::read(&shared, &owner, id, LangGraph::new(id.to_string())).await?;
    Ok(Json(Run::new(&shared.name, Some(&thread), id, state.status())))
}

/// The thread and the run in a path. A malformed ID becomes a random one, which no turn has.
fn run_path(path: RunPath) -> (String, TurnId) {
    let (thread, run) = path.map(|Path(path)| path).unwrap_or_default();
    (thread, TurnId::parse(&run).unwrap_or_else(TurnId::random))
}

/// Joins the stream of a run, after the event that `last-event-id` names.
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}/stream", tag = "langgraph", operation_id = "langgraphJoinStream",
    params(("thread_id" = String, Path, description = "The thread"), ("run_id" = String, Path, description = "The run"),
        ("last-event-id" = Option<String>, Header, description = "The last event read; `-1` or nothing for all"),
        ("stream_mode" = Option<String>, Query, description = "Which events to send, if there is no `last-event-id`")),
    responses(
        (status = 200, description = "The rest of the run", content((String = "text/event-stream", example = json!(example(&LangGraph::new("run-1").thread("thread-1")))))),
        (status = 404, description = "The run is unknown or has expired"),
        (status = 410, description = "The journal has dropped events that the reader needs"),
        LangGraphRefusals,
    ))]
pub(crate) async fn join_stream(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    path: RunPath,
    query: Pairs,
    headers: HeaderMap,
) -> Answer<Response> {
    let (owner, (thread, id)) = (owner?, run_path(path));
    let messages = state::messages_before(&shared, &owner, &thread).await;
    let wire = LangGraph::new(id.to_string())
        .thread(thread.as_str())
        .messages(messages)
        .parks();
    let started = resume(&shared, &owner, id, wire, query, &headers).await?;
    Ok(respond(started, &format!("/threads/{thread}/runs/{id}")))
}

async fn resume(
    shared: &Shared,
    owner: &Owner,
    id: TurnId,
    wire: LangGraph,
    query: Pairs,
    headers: &HeaderMap,
) -> Answer<run::Started> {
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let names = query.into_iter().filter(|(name, _)| name == "stream_mode");
    let modes = run::modes_of(names.flat_map(|(_, value)| run::names(value)));
    let wire = match last_event(headers)? {
        Some(last) => wire.modes(last.modes).after(Some(last.number)),
        None => wire.modes(modes.unwrap_or_default()),
    };
    let turn = shared.journal.resume(id, owner.as_str(), 0).await;
    let turn = turn.map_err(|error| Refusal::of_turn(id, error))?;
    turn.supports(&wire)
        .map_err(|error| Refusal::of_turn(id, error))?;
    Ok(run::Started { turn, wire })
}

/// The event that a client has read last. `-1` is the name of the beginning in `useStream`.
fn last_event(headers: &HeaderMap) -> Result<Option<EventId>, Refusal> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    match value.to_str().unwrap_or_default() {
        "" | "-1" => Ok(None),
        id => match EventId::parse(id) {
            Some(id) => Ok(Some(id)),
            None => Err(Refusal::permanent(
                StatusCode::BAD_REQUEST,
                "bad_cursor",
                "`Last-Event-ID` must be the id of an event of this run.",
            )),
        },
    }
}

/// Waits for the end of a run and returns the state.
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}/join", tag = "langgraph", operation_id = "langgraphJoin",
    params(("thread_id" = String, Path, description = "The thread"), ("run_id" = String, Path, description = "The run")),
    responses((status = 200, description = "The values", body = Object),
        (status = 404, description = "The run is unknown or has expired"), LangGraphRefusals))]
pub(crate) async fn join(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    path: RunPath,
) -> Answer<Json<Value>> {
    let (owner, (thread, id)) = (owner?, run_path(path));
    let messages = state::messages_before(&shared, &owner, &thread).await;
    let turn = shared.journal.resume(id, owner.as_str(), 0).await;
    let turn = turn.map_err(|error| Refusal::of_turn(id, error))?;
    let wire = LangGraph::new(id.to_string())
        .thread(thread)
        .messages(messages)
        .modes(Modes::of(["values"]))
        .parks();
    Ok(Json(RunState::read_to_end(turn, wire).await.values()))
}

/// Cancels a run. With `wait=1` the response is 204 instead of 202; the run has ended in both cases.
#[utoipa::path(post, path = "/threads/{thread_id}/runs/{run_id}/cancel", tag = "langgraph", operation_id = "langgraphCancel",
    params(("thread_id" = String, Path, description = "The thread"), ("run_id" = String, Path, description = "The run"),
        ("wait" = Option<String>, Query, description = "`1` or `true`")),
    responses((status = 202, description = "The run has ended"), (status = 204, description = "The same, with `wait`"),
        (status = 404, description = "The run is unknown or has expired"), LangGraphRefusals))]
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    path: RunPath,
    query: Pairs,
) -> Answer<StatusCode> {
    let (owner, (_, id)) = (owner?, run_path(path));
    let stopped = shared.journal.stop(id, owner.as_str()).await;
    stopped.map_err(|error| Refusal::of_turn(id, error))?;
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let waits = query
        .iter()
        .any(|(name, value)| name == "wait" && matches!(value.as_str(), "1" | "true" | "True"));
    Ok(if waits {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::ACCEPTED
    })
}

/// Answers one question without a thread, streamed.
#[utoipa::path(post, path = "/runs/stream", tag = "langgraph", operation_id = "langgraphStreamStateless",
    request_body = RunRequest,
    responses(
        (status = 200, description = "The run stream", content((String = "text/event-stream", example = json!(example(&LangGraph::new("run-1")))))),
        LangGraphRefusals,
    ))]
pub(crate) async fn stream_stateless(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    request: Request,
) -> Answer<Response> {
    let owner = owner?;
    let body: RunRequest = request::read_question(&shared, BodyKind::Conversation, request).await?;
    let reader = body.reader();
    let started = run::start(&shared, &owner, None, body, reader).await?;
    let run = format!("/runs/{}", started.turn.id());
    Ok(respond(started, &run))
}

/// Answers one question without a thread and returns the state.
#[utoipa::path(post, path = "/runs/wait", tag = "langgraph", operation_id = "langgraphWaitStateless",
    request_body = RunRequest,
    responses((status = 200, description = "The values; `__error__` if the run failed", body = Object), LangGraphRefusals))]
pub(crate) async fn wait_stateless(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    request: Request,
) -> Answer<Json<Value>> {
    let owner = owner?;
    let body: RunRequest = request::read_question(&shared, BodyKind::Conversation, request).await?;
    wait(&shared, &owner, None, body).await
}

/// Joins the stream of a run without a thread.
#[utoipa::path(get, path = "/runs/{run_id}/stream", tag = "langgraph", operation_id = "langgraphJoinStateless",
    params(("run_id" = String, Path, description = "The run"),
        ("last-event-id" = Option<String>, Header, description = "The last event read; `-1` or nothing for all")),
    responses(
        (status = 200, description = "The rest of the run", content((String = "text/event-stream", example = json!(example(&LangGraph::new("run-1")))))),
        (status = 404, description = "The run is unknown or has expired"),
        (status = 410, description = "The journal has dropped events that the reader needs"),
        LangGraphRefusals,
    ))]
pub(crate) async fn join_stateless(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    run: PathParam,
    query: Pairs,
    headers: HeaderMap,
) -> Answer<Response> {
    let (owner, id) = (owner?, request::turn_id(run));
    let wire = LangGraph::new(id.to_string());
    let started = resume(&shared, &owner, id, wire, query, &headers).await?;
    Ok(respond(started, &format!("/runs/{id}")))
}

/// The refusal of an input without a question.
fn no_question() -> Refusal {
    invalid("`input.messages` needs a message of the type `human` with text.")
}
