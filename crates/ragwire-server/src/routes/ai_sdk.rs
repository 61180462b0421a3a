//! `POST /api/chat`: the chat route of npm `ai` (`useChat`), and what it asks for when a page is opened again.
//!
//! `DefaultChatTransport` and `TextStreamChatTransport` send the same request, to the byte; only their readers differ. So a page that
//! reads text says so itself: `new TextStreamChatTransport({ headers: { accept: "text/plain" } })` gets the framed wire. Whoever
//! accepts anything, as the transports do unless told otherwise, gets the UI message stream.
//!
//! Nothing in a request says which version of `ai` sends it either, and 5 breaks off at an approval. So a page that knows approvals (6 and
//! later) says that too: `headers: { "x-ragwire-approvals": "true" }`. Where a turn asks a human, its stream ends there then, and the
//! page's next request has the answer. Without the header the question is told as any other event, and answered by
//! `POST /v1/turns/{turn_id}/answer`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, StatusCode};
use ragwire::http::{AnyWire, negotiate};
use ragwire::turn::{AnswerError, ResumeError, TurnId};
use ragwire::wire::Wire;
use ragwire::{AiSdk, Framed, Rejected};
use serde::Deserialize;
use utoipa::ToSchema;

use super::answers::{self, Given};
use super::messages::{self, Speaker, UiMessage};
use super::openapi::{TurnRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::resume::{Stopped, refused};
use super::shapes;
use super::start::{self, Asked, Holds, Reader, invalid};
use crate::app::App;

/// Longest id of a chat; those that `useChat` makes have 16 bytes.
const MAX_ID_BYTES: usize = 256;

/// What both transports send. `useChat` adds whatever `body` its page gives it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UiChat)]
struct Chat {
    /// The conversation. Without one its turns are not found again.
    #[schema(min_length = 1, max_length = 256)]
    id: Option<String>,
    messages: Vec<UiMessage>,
}

/// The header of a page that knows approvals.
const APPROVALS: HeaderName = HeaderName::from_static("x-ragwire-approvals");

/// Goes on with a conversation of `useChat`.
///
/// A question stops what is still being answered there. Where the last message is the assistant's and has answers to what its turn asked, that
/// turn gets them, and goes on in the response.
#[utoipa::path(
    post,
    path = "/api/chat",
    tag = "ai-sdk",
    operation_id = "aiSdkChat",
    params(("x-ragwire-approvals" = Option<String>, Header, description = "`true` where the page answers what the turn asks a human")),
    request_body(content = Chat, example = json!({
        "id": "chat-1",
        "messages": [{ "id": "m-1", "role": "user", "parts": [{ "type": "text", "text": "What is the commit rule?" }] }],
        "trigger": "submit-message",
    })),
    responses(
        (status = 200, description = "The UI message stream, version 1; the framed wire for `Accept: text/plain`", headers(("x-ragwire-turn" = String, description = "The turn, as the logs name it")),
            content(
                (String = "text/event-stream", example = json!(example(&AiSdk::default().message_id("m-2")))),
                (String = "text/plain", example = json!(example(&Framed::default()))),
            )),
        (status = 404, description = "No turn of the conversation has asked this", body = shapes::Refused),
        (status = 406, description = "`Accept` takes neither", body = shapes::Refused),
        (status = 409, description = "The question has another answer", body = shapes::Refused),
        (status = 410, description = "Nobody waits for the answer any more", body = shapes::Refused),
        TurnRefusals,
    ),
)]
pub(super) async fn chat(
    State(app): State<Arc<App>>,
    owner: Owner,
    request: Request,
) -> Result<Response, Refusal> {
    let knows_approvals = knows_approvals(request.headers());
    let ui = AiSdk::default();
    let offered: [AnyWire; 2] = [Box::new(ui.clone()), Box::new(Framed::default())];
    let wire = negotiate(request.headers(), offered)?;
    let chat: Chat = if knows_approvals {
        start::read_answers(&app, Holds::Conversation, request).await?
    } else {
        start::read(&app, Holds::Conversation, request).await?
    };
    let continued = chat.messages.last().and_then(continued);
    let is_id = |id: &String| (1..=MAX_ID_BYTES).contains(&id.len());
    if chat.id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(invalid(format!("`id` has 1 to {MAX_ID_BYTES} bytes.")));
    }
    let is_ui = wire.name() == ui.name();
    let given = answers(&chat.messages);
    if !given.is_empty() {
        if !is_ui {
            return Err(invalid("An answer is read on in the UI message stream."));
        }
        let newest = newest(&app, &owner, chat.id.as_deref().unwrap_or_default()).await?;
        let id = newest.ok_or_else(|| answers::refused(TurnId::random(), AnswerError::Unknown))?;
        let wire = ui.parks().message_id(continued.unwrap_or_else(|| id.to_string()));
        let turn = answers::go_on(&app, &owner, id, given, &wire).await?;
        return Ok(turn.respond(wire).map(Body::new));
    }
    let asked = Asked {
        chat: chat.id,
        ..messages::asked(chat.messages)?
    };
    // A page with `resume` comes back by the chat's id. Its `stop()` only closes the connection: the page has to call the route for that.
    let turn = start::start(&app, &owner, Reader::Returning, asked).await?;
    let response = if is_ui {
        let id = continued.unwrap_or_else(|| turn.id().to_string());
        turn.respond(ui_stream(knows_approvals).message_id(id))
    } else {
        turn.respond(wire)
    };
    Ok(response.map(Body::new))
}

fn knows_approvals(headers: &HeaderMap) -> bool {
    headers.get(APPROVALS).is_some_and(|value| value == "true")
}

fn ui_stream(knows_approvals: bool) -> AiSdk {
    let wire = AiSdk::default();
    if knows_approvals { wire.parks() } else { wire }
}

/// What a human answered, where the conversation ends with that.
fn answers(messages: &[UiMessage]) -> Vec<Given> {
    let last = messages.last().filter(|last| last.role == Speaker::Assistant);
    last.map_or_else(Vec::new, UiMessage::answers)
}

/// The newest turn of a conversation.
async fn newest(app: &App, owner: &Owner, chat: &str) -> Result<Option<TurnId>, Refusal> {
    let lane = start::chat_lane(owner, chat);
    let newest = app.journal.latest(&lane, owner.as_str()).await;
    Ok(newest.map_err(Rejected::from)?)
}

/// Where the conversation ends with an answer, the client goes on with that one, and another id would show it twice.
fn continued(last: &UiMessage) -> Option<String> {
    let id = last.id.clone().filter(|id| !id.is_empty());
    id.filter(|_| last.role == Speaker::Assistant)
}

type ChatId = Result<Path<String>, PathRejection>;

/// Streams what is being answered in a conversation, from its beginning on.
///
/// That is what `useChat` asks for with `resume`, and as `resumeStream()`. 204 where nothing is being answered.
#[utoipa::path(
    get,
    path = "/api/chat/{chat_id}/stream",
    tag = "ai-sdk",
    operation_id = "aiSdkResume",
    params(
        ("chat_id" = String, Path, description = "The conversation"),
        ("x-ragwire-approvals" = Option<String>, Header, description = "`true` where the page answers what the turn asks a human"),
    ),
    responses(
        (status = 200, description = "The UI message stream, version 1", headers(("x-ragwire-turn" = String, description = "The turn")),
            content((String = "text/event-stream", example = json!(example(&AiSdk::default().message_id("m-2")))))),
        (status = 204, description = "Nothing is being answered there"),
        (status = 401, description = "The request does not say whose it is", body = shapes::Refused),
        (status = 410, description = "The beginning of the answer is no longer kept", body = shapes::Refused),
        (status = 503, description = "The turn cannot be reached now", body = shapes::Refused),
    ),
)]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    owner: Owner,
    chat: ChatId,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let nothing = StatusCode::NO_CONTENT.into_response();
    let Ok(Path(chat)) = chat else { return Ok(nothing) };
    let Some(id) = newest(&app, &owner, &chat).await? else {
        return Ok(nothing);
    };
    let turn = match app.journal.resume(id, owner.as_str(), 0).await {
        Ok(turn) => turn,
        // It was dropped in between.
        Err(ResumeError::Unknown(_)) => return Ok(nothing),
        Err(error) => return Err(refused(id, error)),
    };
    if turn.is_finished() {
        return Ok(nothing);
    }
    let wire = ui_stream(knows_approvals(&headers)).message_id(turn.id().to_string());
    Ok(turn.respond(wire).map(Body::new))
}

/// Stops what is being answered in a conversation.
#[utoipa::path(
    post,
    path = "/api/chat/{chat_id}/stop",
    tag = "ai-sdk",
    operation_id = "aiSdkStop",
    params(("chat_id" = String, Path, description = "The conversation")),
    responses(
        (status = 200, description = "Nothing is being answered there any more", body = Stopped),
        (status = 401, description = "The request does not say whose it is", body = shapes::Refused),
        (status = 503, description = "The turn cannot be reached now", body = shapes::Refused),
    ),
)]
pub(super) async fn stop(
    State(app): State<Arc<App>>,
    owner: Owner,
    chat: ChatId,
) -> Result<Json<Stopped>, Refusal> {
    let stopped = match chat {
        Ok(Path(chat)) => start::stop_newest(&app, &owner, &start::chat_lane(&owner, &chat)).await?,
        Err(_) => false,
    };
    Ok(Json(Stopped { stopped }))
}
