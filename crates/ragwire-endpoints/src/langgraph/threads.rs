//! The routes of threads.

use std::cmp::Ordering;

use axum::Json;
use axum::extract::Request;
use http::StatusCode;
use ragwire::session::{Session, SessionError, Sessions};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::objects::{
    CheckpointRequest, HistoryRequest, SortBy, SortOrder, StateUpdate, StateUpdated, Thread, ThreadChange,
    ThreadCreation, ThreadSearch, ThreadState,
};
use super::record::{ThreadRecord, check_metadata};
use super::state::{self, Snapshot};
use super::{Answer, LangGraphRefusal, OfThread, conflict, index, update};
use crate::caller::{Caller, CallerOr};
use crate::openapi::requests::SessionId;
use crate::openapi::{LangGraphRefusals, schemas};
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, check_session_id};

/// Number of threads that a search returns, if it does not say.
const PAGE: usize = 10;

/// Creates a thread.
#[utoipa::path(post, path = "/threads", tag = "langgraph", operation_id = "langgraphCreateThread",
    request_body(content = Option<ThreadCreation>, example = json!({})),
    responses((status = 200, description = "The thread", body = Thread), LangGraphRefusals))]
pub(crate) async fn create(caller: CallerOr<LangGraphRefusal>, request: Request) -> Answer<Json<Thread>> {
    let creation: ThreadCreation = read(&caller, request).await?;
    let metadata = creation.metadata.unwrap_or_default();
    check_metadata(&metadata)?;
    let (sessions, owner) = (&caller.shared.sessions, caller.owner.as_str());
    let id = match creation.thread_id {
        Some(id) => check_session_id(id)?,
        None => random_id()?,
    };
    if creation.if_exists.as_deref() != Some("do_nothing") && sessions.get(owner, &id).await.is_ok() {
        return Err(conflict("thread_exists", "The thread exists already.").into());
    }
    let prepare = |session: &mut Session| {
        if !metadata.is_empty() {
            ThreadRecord::change(session, |record| record.add_metadata(metadata.clone()));
        }
    };
    let session = sessions
        .begin_with(owner, &id, prepare)
        .await
        .map_err(Refusal::from)?;
    index::touch(&caller, &id).await;
    let snapshot = Snapshot::of(&caller, session).await?;
    Ok(Json(snapshot.thread()))
}

/// Reads an optional JSON body.
async fn read<T: DeserializeOwned + Default>(caller: &Caller, request: Request) -> Result<T, Refusal> {
    let max_bytes = request::max_bytes(&caller.shared, BodyKind::Question);
    let body = request::read_optional_json(&caller.shared, max_bytes, request).await?;
    Ok(body.unwrap_or_default())
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

/// Searches the threads of the owner that have run within the lifetime of a session. Anonymous
/// requests find none, because they would find those of others.
#[utoipa::path(post, path = "/threads/search", tag = "langgraph", operation_id = "langgraphThreads",
    request_body = Option<ThreadSearch>,
    responses((status = 200, description = "A page of threads", body = Vec<Thread>), LangGraphRefusals))]
pub(crate) async fn search(
    caller: CallerOr<LangGraphRefusal>,
    request: Request,
) -> Answer<Json<Vec<Thread>>> {
    let search: ThreadSearch = read(&caller, request).await?;
    let mut threads = find(&caller, &search).await?;
    threads.sort_by(|a, b| order(a, b, &search));
    let page = threads.into_iter().skip(search.offset.unwrap_or_default());
    Ok(Json(page.take(search.limit.unwrap_or(PAGE)).collect()))
}

/// Counts the threads that a search finds.
#[utoipa::path(post, path = "/threads/count", tag = "langgraph", operation_id = "langgraphCountThreads",
    request_body = Option<ThreadSearch>,
    responses((status = 200, description = "Their number", body = usize, content_type = "application/json"), LangGraphRefusals))]
pub(crate) async fn count(caller: CallerOr<LangGraphRefusal>, request: Request) -> Answer<Json<usize>> {
    let search: ThreadSearch = read(&caller, request).await?;
    Ok(Json(find(&caller, &search).await?.len()))
}

/// Returns the threads of a search, in no order, and removes those that have expired from the index.
async fn find(caller: &Caller, search: &ThreadSearch) -> Result<Vec<Thread>, Refusal> {
    let (mut found, mut expired) = (Vec::new(), Vec::new());
    let threads = index::threads(caller).await;
    for id in &threads {
        if search.ids.as_ref().is_some_and(|ids| !ids.contains(id)) {
            continue;
        }
        let session = match caller.shared.sessions.get(caller.owner.as_str(), id).await {
            Ok(session) => session,
            Err(SessionError::Unknown) => {
                expired.push(id.as_str());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let has_metadata = |members| ThreadRecord::of(&session).has(members);
        if !search.metadata.as_ref().is_none_or(has_metadata) {
            continue;
        }
        let snapshot = Snapshot::of(caller, session).await?;
        if search.status.is_none_or(|status| status == snapshot.status()) {
            found.push(snapshot.thread());
        }
    }
    if !expired.is_empty() {
        index::remove(caller, &expired).await;
    }
    Ok(found)
}

fn order(a: &Thread, b: &Thread, search: &ThreadSearch) -> Ordering {
    let order = match search.sort_by.unwrap_or_default() {
        // Times of one form are ordered like their text.
        SortBy::CreatedAt => a.created_at.cmp(&b.created_at),
        SortBy::UpdatedAt => a.updated_at.cmp(&b.updated_at),
        SortBy::ThreadId => a.thread_id.cmp(&b.thread_id),
        SortBy::Status => a.status.cmp(&b.status),
    };
    match search.sort_order.unwrap_or_default() {
        SortOrder::Asc => order,
        SortOrder::Desc => order.reverse(),
    }
}

/// Returns a thread.
#[utoipa::path(get, path = "/threads/{thread_id}", tag = "langgraph", operation_id = "langgraphThread",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    responses(LangGraphRefusals, (status = 200, description = "The thread", body = Thread),
        (status = 404, description = "The thread does not exist", body = schemas::LangGraphRefused)))]
pub(crate) async fn thread(of: OfThread) -> Answer<Json<Thread>> {
    Ok(Json(of.snapshot().await?.thread()))
}

/// Adds members to the metadata of a thread.
#[utoipa::path(patch, path = "/threads/{thread_id}", tag = "langgraph", operation_id = "langgraphChangeThread",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    request_body = ThreadChange,
    responses(LangGraphRefusals, (status = 200, description = "The thread", body = Thread),
        (status = 404, description = "The thread does not exist", body = schemas::LangGraphRefused)))]
pub(crate) async fn change(of: OfThread, request: Request) -> Answer<Json<Thread>> {
    let change: ThreadChange = request::read_json(&of.caller.shared, BodyKind::Question, request).await?;
    let metadata = change.metadata.unwrap_or_default();
    let change = |session: &mut Session| {
        let mut all = ThreadRecord::of(session).metadata;
        all.extend(metadata.clone());
        check_metadata(&all)?;
        ThreadRecord::change(session, |record| record.metadata = all);
        Ok::<_, Refusal>(())
    };
    let sessions = &of.caller.shared.sessions;
    let (session, ()) = sessions
        .update(of.caller.owner.as_str(), &of.thread, change)
        .await?;
    Ok(Json(Snapshot::of(&of.caller, session).await?.thread()))
}

/// Deletes a thread.
#[utoipa::path(delete, path = "/threads/{thread_id}", tag = "langgraph", operation_id = "langgraphDeleteThread",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    responses((status = 204, description = "The thread does not exist any more"), LangGraphRefusals))]
pub(crate) async fn delete(of: OfThread) -> Answer<StatusCode> {
    let sessions = &of.caller.shared.sessions;
    let deleted = sessions.delete(of.caller.owner.as_str(), &of.thread).await;
    deleted.map_err(Refusal::from)?;
    index::remove(&of.caller, &[&of.thread]).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the state of a thread.
#[utoipa::path(get, path = "/threads/{thread_id}/state", tag = "langgraph", operation_id = "langgraphState",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    responses(LangGraphRefusals, (status = 200, description = "The state", body = ThreadState),
        (status = 404, description = "The thread does not exist", body = schemas::LangGraphRefused)))]
pub(crate) async fn state(of: OfThread) -> Answer<Json<ThreadState>> {
    Ok(Json(of.snapshot().await?.state()))
}

/// Changes the messages of a thread.
#[utoipa::path(post, path = "/threads/{thread_id}/state", tag = "langgraph", operation_id = "langgraphUpdateState",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    request_body = StateUpdate,
    responses(LangGraphRefusals, (status = 200, description = "The new state", body = StateUpdated),
        (status = 404, description = "The thread does not exist", body = schemas::LangGraphRefused),
        (status = 409, description = "A run is running, the checkpoint is not the current one, or a message to remove is not in the thread", body = schemas::LangGraphRefused)))]
pub(crate) async fn update_state(of: OfThread, request: Request) -> Answer<Json<StateUpdated>> {
    let body: StateUpdate = request::read_json(&of.caller.shared, BodyKind::Conversation, request).await?;
    Ok(Json(update::update(&of.caller, &of.thread, body).await?))
}

/// Returns the state of a thread at a checkpoint: only the current one is kept.
#[utoipa::path(get, path = "/threads/{thread_id}/state/{checkpoint_id}", tag = "langgraph", operation_id = "langgraphStateAt",
    params(("thread_id" = inline(SessionId), Path, description = "The thread"), ("checkpoint_id" = String, Path, description = "The checkpoint")),
    responses(LangGraphRefusals, (status = 200, description = "The state", body = ThreadState),
        (status = 404, description = "The thread or the checkpoint does not exist", body = schemas::LangGraphRefused)))]
pub(crate) async fn state_at(of: OfThread) -> Answer<Json<ThreadState>> {
    at(&of, of.checkpoint.as_deref().unwrap_or_default()).await
}

/// Does the same for a checkpoint in the body.
#[utoipa::path(post, path = "/threads/{thread_id}/state/checkpoint", tag = "langgraph", operation_id = "langgraphStateOf",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    request_body = CheckpointRequest,
    responses(LangGraphRefusals, (status = 200, description = "The state", body = ThreadState),
        (status = 404, description = "The thread or the checkpoint does not exist", body = schemas::LangGraphRefused)))]
pub(crate) async fn state_of(of: OfThread, request: Request) -> Answer<Json<ThreadState>> {
    let body: CheckpointRequest = request::read_json(&of.caller.shared, BodyKind::Question, request).await?;
    let id = body.checkpoint.get("checkpoint_id").and_then(Value::as_str);
    at(&of, id.unwrap_or_default()).await
}

async fn at(of: &OfThread, checkpoint: &str) -> Answer<Json<ThreadState>> {
    let snapshot = of.snapshot().await?;
    if state::checkpoint(snapshot.session()).checkpoint_id != checkpoint {
        let message = "There is no such checkpoint; a thread keeps its current state only.";
        return Err(Refusal::permanent(StatusCode::NOT_FOUND, "unknown_checkpoint", message).into());
    }
    Ok(Json(snapshot.state()))
}

/// Returns the states of a thread, newest first: the current one, if there is a message.
#[utoipa::path(post, path = "/threads/{thread_id}/history", tag = "langgraph", operation_id = "langgraphHistory",
    params(("thread_id" = inline(SessionId), Path, description = "The thread")),
    request_body = Option<HistoryRequest>,
    responses(LangGraphRefusals, (status = 200, description = "At most one state", body = Vec<ThreadState>),
        (status = 404, description = "The thread does not exist", body = schemas::LangGraphRefused)))]
pub(crate) async fn history(of: OfThread, request: Request) -> Answer<Json<Vec<ThreadState>>> {
    let asked: HistoryRequest = read(&of.caller, request).await?;
    let snapshot = of.snapshot().await?;
    let state = snapshot.state();
    let is_wanted = |(name, value): (&String, &Value)| state.metadata.get(name) == Some(value);
    let matches = asked.metadata.iter().flatten().all(is_wanted);
    let is_listed = !snapshot.is_empty() && asked.before.is_null() && asked.limit != Some(0) && matches;
    Ok(Json(is_listed.then_some(state).into_iter().collect()))
}
