//! `POST /api/chat`: the chat route of npm `ai` (`useChat`), and what it asks for when a page is opened again.
//!
//! `DefaultChatTransport` and `TextStreamChatTransport` send the same request, to the byte; only their readers differ. So a page that
//! reads text says so itself: `new TextStreamChatTransport({ headers: { accept: "text/plain" } })` gets the framed wire. Whoever
//! accepts anything, as the transports do unless told otherwise, gets the UI message stream.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use ragwire::http::{AnyWire, negotiate};
use ragwire::wire::Wire;
use ragwire::{AiSdk, Framed};
use serde::Deserialize;
use utoipa::ToSchema;

use super::messages::{self, Speaker, UiMessage};
use super::openapi::{TurnRefusals, example};
use super::refusal::Refusal;
use super::shapes;
use super::turn::{self, Holds};
use crate::app::App;

/// What both transports send. `useChat` adds whatever `body` its page gives it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UiChat)]
struct Chat {
    messages: Vec<UiMessage>,
}

/// Goes on with a conversation of `useChat`.
#[utoipa::path(
    post,
    path = "/api/chat",
    tag = "ai-sdk",
    operation_id = "aiSdkChat",
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
        (status = 406, description = "`Accept` takes neither", body = shapes::Refused),
        TurnRefusals,
    ),
)]
pub(super) async fn chat(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let ui = AiSdk::default();
    let offered: [AnyWire; 2] = [Box::new(ui.clone()), Box::new(Framed::default())];
    let wire = negotiate(request.headers(), offered)?;
    let chat: Chat = turn::read(&app, Holds::Conversation, request).await?;
    let continued = chat.messages.last().and_then(continued);
    let turn = turn::start(&app, messages::asked(chat.messages)?).await?;
    let response = if wire.name() == ui.name() {
        let id = continued.unwrap_or_else(|| turn.id().to_string());
        turn.respond(ui.message_id(id))
    } else {
        turn.respond(wire)
    };
    Ok(response.map(Body::new))
}

/// Where the conversation ends with an answer, the client goes on with that one, and another id would show it twice.
fn continued(last: &UiMessage) -> Option<String> {
    let id = last.id.clone().filter(|id| !id.is_empty());
    id.filter(|_| last.role == Speaker::Assistant)
}

/// What a page with `resume` asks for. This server ends a turn whose reader has gone, so there is never one to be resumed, which the
/// client wants to hear as 204.
#[utoipa::path(
    get,
    path = "/api/chat/{chat_id}/stream",
    tag = "ai-sdk",
    operation_id = "aiSdkResume",
    params(("chat_id" = String, Path, description = "The conversation")),
    responses((status = 204, description = "There is nothing to resume")),
)]
pub(super) async fn resume() -> StatusCode {
    StatusCode::NO_CONTENT
}
