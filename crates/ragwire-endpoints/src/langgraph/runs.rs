//! The routes of runs.

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_LOCATION;
use http::{HeaderMap, StatusCode};
use ragwire::session::Session;
use ragwire::wire::langgraph::{EventId, Modes};
use ragwire::{LangGraph, Timestamp};
use serde_json::Value;

use super::objects::{Run, RunStatus};
use super::record::{RunRecord, ThreadRecord};
use super::run::{self, RunRequest, Started};
use super::state::RunState;
use super::{Answer, LangGraphRefusal, OfRun, OfThread};
use crate::caller::{Caller, CallerOr};
use crate::openapi::requests::{LangGraphStatelessRun, LangGraphThreadRun, SessionId};
use crate::openapi::{LangGraphRefusals, example, schemas};
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, Params, invalid};
use crate::start::Reader;

/// Number of runs that a list has, if the request does not say.
const PAGE: u64 = 10;
/// The statuses of runs in LangGraph. No run here is `pending` or has the status `timeout`.
const STATUSES: [&str; 6] = ["pending", "running", "error", "success", "timeout", "interrupted"];

/// Reads a run of a thread. A full server reads it too, because it may be the answer to a question.
async fn read(caller: &Caller, request: Request) -> Result<RunRequest, Refusal> {
    request::read_json(&caller.shared, BodyKind::Conversation, request).await
}

/// Starts a run in a thread and streams it. `command.resume` answers the question that the thread's
/// newest run waits for.
#[utoipa::path(post, path = "/threads/{thread_id}/runs/stream", tag = "langgraph", operation_id = "langgraphStream",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    request_body(content = LangGraphThreadRun, example = json!({
        "assistant_id": "ragwire",
        "input": { "messages": [{ "type": "human", "content": "What is the commit rule?" }] },
        "stream_mode": ["values", "messages-tuple"],
    })),
    responses(
        LangGraphRefusals,
        (status = 200, description = "The run stream", headers(
            ("content-location" = String, description = "The run"),
            ("location" = String, description = "Where to join the stream"),
            ("x-ragwire-turn" = String, description = "The turn's id"),
        ), content((String = "text/event-stream", example = json!(example(&LangGraph::new("run-1").thread("thread-1")))))),
        (status = 404, description = "The thread does not exist", body = schemas::LangGraphRefused),
        (status = 409, description = "`multitask_strategy` is `reject`, and a run is running", body = schemas::LangGraphRefused),
    ))]
pub(crate) async fn stream(of: OfThread, request: Request) -> Answer<Response> {
    let body = read(&of.caller, request).await?;
    let reader = body.reader();
    let started = run::start(&of.caller, Some(&of.thread), body, reader).await?;
    Ok(started.respond(Some(&of.thread)))
}

/// Starts a run in a thread without waiting for it.
#[utoipa::path(post, path = "/threads/{thread_id}/runs", tag = "langgraph", operation_id = "langgraphRun",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    request_body = LangGraphThreadRun,
    responses((status = 200, description = "The run", body = Run), LangGraphRefusals))]
pub(crate) async fn create(of: OfThread, request: Request) -> Answer<Response> {
    let body = read(&of.caller, request).await?;
    let started = run::start(&of.caller, Some(&of.thread), body, Reader::Absent).await?;
    let id = started.turn.id();
    let location = [(CONTENT_LOCATION, run::run_path(Some(&of.thread), id))];
    let session = of.session().await?;
    let run = Run::of(
        &of.caller,
        Some(&of.thread),
        id,
        &ThreadRecord::of(&session),
        RunStatus::Running,
    );
    Ok((location, Json(run)).into_response())
}

/// Runs to the end and returns the state.
#[utoipa::path(post, path = "/threads/{thread_id}/runs/wait", tag = "langgraph", operation_id = "langgraphWait",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    request_body = LangGraphThreadRun,
    responses((status = 200, description = "The values; `__error__` if the run failed", body = Object), LangGraphRefusals))]
pub(crate) async fn wait(of: OfThread, request: Request) -> Answer<Json<Value>> {
    let body = read(&of.caller, request).await?;
    wait_for(&of.caller, Some(&of.thread), body).await
}

async fn wait_for(caller: &Caller, thread: Option<&str>, body: RunRequest) -> Answer<Json<Value>> {
    let reader = body.reader();
    let Started { turn, wire } = run::start(caller, thread, body, reader).await?;
    let state = RunState::read_to_end(turn, wire.modes(Modes::of(["values"]))).await;
    Ok(Json(state.values()))
}

/// Lists the runs of a thread, newest first.
#[utoipa::path(get, path = "/threads/{thread_id}/runs", tag = "langgraph", operation_id = "langgraphRuns",
    params(("thread_id" = inline(SessionId), Path, description = "The thread"),
        ("limit" = Option<u64>, Query, description = "Number of runs at most. Default: 10", maximum = 9_223_372_036_854_775_807_i64),
        ("offset" = Option<u64>, Query, description = "Number of runs to leave out", maximum = 9_223_372_036_854_775_807_i64),
        ("status" = Option<String>, Query, description = "Only runs with this status", pattern = "^(pending|running|error|success|timeout|interrupted)$")),
    responses(LangGraphRefusals, (status = 200, description = "A page of runs", body = Vec<Run>),
        (status = 404, description = "The thread does not exist", body = schemas::LangGraphRefused)))]
pub(crate) async fn list(of: OfThread, params: Params) -> Answer<Json<Vec<Run>>> {
    let limit = params.number("limit")?.unwrap_or(PAGE);
    let offset = params.number("offset")?.unwrap_or_default();
    let status = params.get("status");
    if status.is_some_and(|status| !STATUSES.contains(&status)) {
        return Err(invalid(format!("`status` must be one of {}.", STATUSES.join(", "))).into());
    }
    let record = ThreadRecord::of(&of.session().await?);
    let (mut runs, mut skipped) = (Vec::new(), 0);
    for run in record.runs.iter().rev() {
        if runs.len() as u64 >= limit {
            break;
        }
        let Some(run) = object(&of, run).await else {
            continue;
        };
        if status.is_some_and(|status| status != run.status.as_str()) {
            continue;
        }
        if skipped < offset {
            skipped += 1;
        } else {
            runs.push(run);
        }
    }
    Ok(Json(runs))
}

/// The object of a run. One that has not ended as far as its thread knows is still in the journal,
/// unless its host was lost.
async fn object(of: &OfThread, run: &RunRecord) -> Option<Run> {
    let began = Timestamp::from_micros(run.began);
    let changed = run.ended.map_or(began, Timestamp::from_micros);
    let status = match run.status {
        Some(status) => status,
        None => {
            let id = ragwire::turn::TurnId::parse(&run.id)?;
            let wire = run::wire(&of.thread, id, Vec::new());
            let state = RunState::read(&of.caller, id, wire).await;
            state.map_or(RunStatus::Error, |state| state.status())
        }
    };
    let name = &of.caller.shared.name;
    Some(Run::new(
        name,
        Some(&of.thread),
        &run.id,
        (began, changed),
        status,
    ))
}

/// Returns a run.
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}", tag = "langgraph", operation_id = "langgraphGetRun",
    params(("thread_id" = inline(SessionId), Path, description = "The thread"), ("run_id" = String, Path, description = "The run")),
    responses(LangGraphRefusals, (status = 200, description = "The run", body = Run),
        (status = 404, description = "The run is unknown or has expired", body = schemas::LangGraphRefused)))]
pub(crate) async fn run(of: OfRun) -> Answer<Json<Run>> {
    let state = RunState::read(&of.caller, of.id, LangGraph::new(of.id.to_string())).await?;
    let record = of.thread.as_ref().map(ThreadRecord::of).unwrap_or_default();
    let thread = of.thread.as_ref().map(Session::id);
    Ok(Json(Run::of(&of.caller, thread, of.id, &record, state.status())))
}

/// Joins the stream of a run, after the event that `last-event-id` names.
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}/stream", tag = "langgraph", operation_id = "langgraphJoinStream",
    params(("thread_id" = inline(SessionId), Path, description = "The thread"), ("run_id" = String, Path, description = "The run"),
        ("last-event-id" = Option<String>, Header, description = "The last event read; `-1` or nothing for all", pattern = r"^(-1|(0|[1-9][0-9]{0,18})(-|(?!vtc$)v?u?t?m?c?))?$"),
        ("stream_mode" = Option<String>, Query, description = "Which events to send, if there is no `last-event-id`")),
    responses(
        LangGraphRefusals,
        (status = 200, description = "The rest of the run", content((String = "text/event-stream", example = json!(example(&LangGraph::new("run-1").thread("thread-1")))))),
        (status = 404, description = "The run is unknown or has expired", body = schemas::LangGraphRefused),
        (status = 410, description = "The journal has dropped events that the reader needs", body = schemas::LangGraphRefused),
    ))]
pub(crate) async fn join_stream(of: OfRun, params: Params, headers: HeaderMap) -> Answer<Response> {
    resume(&of, &params, &headers).await
}

/// Joins the stream of a run without a thread.
#[utoipa::path(get, path = "/runs/{run_id}/stream", tag = "langgraph", operation_id = "langgraphJoinStateless",
    params(("run_id" = String, Path, description = "The run"),
        ("last-event-id" = Option<String>, Header, description = "The last event read; `-1` or nothing for all", pattern = r"^(-1|(0|[1-9][0-9]{0,18})(-|(?!vtc$)v?u?t?m?c?))?$")),
    responses(
        LangGraphRefusals,
        (status = 200, description = "The rest of the run", content((String = "text/event-stream", example = json!(example(&LangGraph::new("run-1")))))),
        (status = 404, description = "The run is unknown or has expired", body = schemas::LangGraphRefused),
        (status = 410, description = "The journal has dropped events that the reader needs", body = schemas::LangGraphRefused),
    ))]
pub(crate) async fn join_stateless(of: OfRun, params: Params, headers: HeaderMap) -> Answer<Response> {
    resume(&of, &params, &headers).await
}

async fn resume(of: &OfRun, params: &Params, headers: &HeaderMap) -> Answer<Response> {
    let modes = run::modes_of(params.all("stream_mode").flat_map(run::names));
    let wire = of.wire();
    let wire = match last_event(headers)? {
        Some(last) => wire.modes(last.modes).after(Some(last.number)),
        None => wire.modes(modes.unwrap_or_default()),
    };
    let turn = of.caller.resume_on(of.id, 0, &wire).await?;
    Ok(Started { turn, wire }.respond(of.thread.as_ref().map(Session::id)))
}

/// The event that a client has read last. `-1` is the name of the beginning in `useStream`.
fn last_event(headers: &HeaderMap) -> Result<Option<EventId>, Refusal> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    match value.to_str() {
        Ok("" | "-1") => Ok(None),
        id => match id.ok().and_then(EventId::parse) {
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
    params(("thread_id" = inline(SessionId), Path, description = "The thread"), ("run_id" = String, Path, description = "The run")),
    responses(LangGraphRefusals, (status = 200, description = "The values", body = Object),
        (status = 404, description = "The run is unknown or has expired", body = schemas::LangGraphRefused)))]
pub(crate) async fn join(of: OfRun) -> Answer<Json<Value>> {
    let wire = of.wire().modes(Modes::of(["values"]));
    let turn = of.caller.resume(of.id).await?;
    Ok(Json(RunState::read_to_end(turn, wire).await.values()))
}

/// Cancels a run. With `wait=1` the response is 204, once the run has ended, instead of 202.
#[utoipa::path(post, path = "/threads/{thread_id}/runs/{run_id}/cancel", tag = "langgraph", operation_id = "langgraphCancel",
    params(("thread_id" = inline(SessionId), Path, description = "The thread"), ("run_id" = String, Path, description = "The run"),
        ("wait" = Option<String>, Query, description = "`1` or `true`")),
    responses(LangGraphRefusals, (status = 202, description = "The run ends"), (status = 204, description = "With `wait`: the run has ended"),
        (status = 404, description = "The run is unknown or has expired", body = schemas::LangGraphRefused)))]
pub(crate) async fn cancel(of: OfRun, params: Params) -> Answer<StatusCode> {
    of.caller.stop(of.id).await?;
    if !params.is_true("wait") {
        return Ok(StatusCode::ACCEPTED);
    }
    // The run ends when its orchestrator has been dropped.
    let Json(_values) = join(of).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Answers one question without a thread, streamed.
#[utoipa::path(post, path = "/runs/stream", tag = "langgraph", operation_id = "langgraphStreamStateless",
    request_body = LangGraphStatelessRun,
    responses(
        (status = 200, description = "The run stream", content((String = "text/event-stream", example = json!(example(&LangGraph::new("run-1")))))),
        LangGraphRefusals,
    ))]
pub(crate) async fn stream_stateless(
    caller: CallerOr<LangGraphRefusal>,
    request: Request,
) -> Answer<Response> {
    let body: RunRequest = caller.read_question(BodyKind::Conversation, request).await?;
    let reader = body.reader();
    Ok(run::start(&caller, None, body, reader).await?.respond(None))
}

/// Answers one question without a thread and returns the state.
#[utoipa::path(post, path = "/runs/wait", tag = "langgraph", operation_id = "langgraphWaitStateless",
    request_body = LangGraphStatelessRun,
    responses((status = 200, description = "The values; `__error__` if the run failed", body = Object), LangGraphRefusals))]
pub(crate) async fn wait_stateless(
    caller: CallerOr<LangGraphRefusal>,
    request: Request,
) -> Answer<Json<Value>> {
    let body = caller.read_question(BodyKind::Conversation, request).await?;
    wait_for(&caller, None, body).await
}
