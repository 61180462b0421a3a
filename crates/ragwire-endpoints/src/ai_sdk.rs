//! `POST /api/chat`: the chat route of npm `ai` (`useChat`), with the routes to resume and to stop.
//!
//! `DefaultChatTransport` and `TextStreamChatTransport` send byte-identical requests; only their
//! readers differ. A page that reads text therefore sets the header itself:
//! `new TextStreamChatTransport({ headers: { accept: "text/plain" } })` gets the framed wire.
//! Clients that accept anything, the default of both transports, get the UI message stream.
//!
//! A request does not contain the version of `ai` either, and version 5 fails on an approval. A
//! page that supports approvals (version 6 and later) sets
//! `headers: { "x-ragwire-approvals": "true" }`. If a turn then asks a human, its stream ends
//! there, and the page's next request contains the answer. Without the header the question is an
//! event like any other, and `POST /v1/turns/{turn_id}/answer` answers it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, StatusCode};
use ragwire::http::{AnyWire, negotiate};
use ragwire::turn::{AnswerError, ResumeError, TurnId};
use ragwire::wire::Wire;
use ragwire::{AiSdk, Framed, Question};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::{Caller, stream};
use crate::human::HumanAnswer;
use crate::lane::Lane;
use crate::messages;
pub use crate::messages::{ChatRole, UiMessage};
use crate::ollama::{self, Answered};
use crate::openapi::{self, TurnRefusals, example};
use crate::openapi::{requests, schemas};
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, Params, PathParam, invalid};
use crate::shared::Shared;
use crate::start::{Reader, TurnRequest};
use crate::turns::answers;
use crate::turns::resume::StopOutcome;

/// Returns the routes of the AI SDK.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("ai-sdk", "npm `ai`."))
        .routes(routes!(chat))
        .routes(routes!(resume))
        .routes(routes!(stop))
}

/// Longest id of a chat, in bytes; those of `useChat` have 16.
const MAX_ID_BYTES: usize = 256;

/// What both transports send.
///
/// ```
/// use ragwire_endpoints::ai_sdk::ChatRequest;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let body = r#"{"messages": [{"role": "user", "parts": [{"type": "text", "text": "Why?"}]}], "lang": "en"}"#;
/// let question = serde_json::from_str::<ChatRequest>(body)?.question()?;
/// assert_eq!((&*question.prompt, &question.options.extra["lang"]), ("Why?", &"en".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UiChat, description = "What both transports send.")]
#[non_exhaustive]
pub struct ChatRequest {
    /// The conversation. Without an id its turns cannot be resumed.
    #[schema(min_length = 1, max_length = 256)]
    pub id: Option<String>,
    /// The messages, oldest first.
    #[schema(value_type = requests::UiMessages)]
    pub messages: Vec<UiMessage>,
    /// The members that the page adds with the `body` option of `useChat`, and those of the
    /// transport, `trigger` and `messageId`.
    #[serde(flatten)]
    #[schema(ignore)]
    pub others: Map<String, Value>,
}

/// Members that every transport sends, which are not the application's.
const TRANSPORT: [&str; 2] = ["trigger", "messageId"];

impl ChatRequest {
    /// Returns the question, with the files of the user as attachments and the page's own members
    /// in `options.extra`.
    ///
    /// # Errors
    ///
    /// 422 if no message is the user's, or one of them has a part that is neither a text nor a
    /// file.
    pub fn question(self) -> Result<Question, Refusal> {
        self.read(true)
    }

    /// Returns the answers of a human if the conversation ends with them. The request then
    /// continues the turn that asked, and has no question.
    pub fn answers(&self) -> Vec<HumanAnswer> {
        let last = self.messages.last();
        let last = last.filter(|last| last.role == ChatRole::Assistant);
        last.map_or_else(Vec::new, UiMessage::answers)
    }

    /// Returns the id of the assistant message that the client continues, if the conversation ends
    /// with one. With another id the client would show it twice.
    pub fn continued_message(&self) -> Option<&str> {
        let last = self.messages.last()?;
        let id = last.id.as_deref().filter(|id| !id.is_empty());
        id.filter(|_| last.role == ChatRole::Assistant)
    }

    fn read(mut self, attachments: bool) -> Result<Question, Refusal> {
        let mut question = messages::question(self.messages, attachments)?;
        self.others.retain(|name, _| !TRANSPORT.contains(&&**name));
        question.options.extra = self.others;
        Ok(question)
    }
}

/// The header of a page that supports approvals.
const APPROVALS: HeaderName = HeaderName::from_static("x-ragwire-approvals");

/// Answers the next question of a `useChat` conversation.
///
/// A new question stops the turn that is still running there. If the last message is the
/// assistant's and contains answers to questions of its turn, that turn gets them and continues in
/// the response.
#[utoipa::path(
    post,
    path = "/api/chat",
    tag = "ai-sdk",
    operation_id = "aiSdkChat",
    params(("x-ragwire-approvals" = Option<String>, Header, description = "`true` if the page supports approvals")),
    request_body(content = ChatRequest, example = json!({
        "id": "chat-1",
        "messages": [{ "id": "m-1", "role": "user", "parts": [{ "type": "text", "text": "What is the commit rule?" }] }],
        "trigger": "submit-message",
    })),
    responses(
        TurnRefusals,
        (status = 200, description = "The UI message stream, version 1; the framed wire for `Accept: text/plain`", headers(("x-ragwire-turn" = String, description = "The turn's id")),
            content(
                (String = "text/event-stream", example = json!(example(&AiSdk::default().message_id("m-2")))),
                (String = "text/plain", example = json!(example(&Framed::default()))),
            )),
        (status = 404, description = "No turn of the conversation has asked this question", body = schemas::Refused),
        (status = 406, description = "`Accept` matches neither type", body = schemas::Refused),
        (status = 409, description = "The question already has another answer", body = schemas::Refused),
        (status = 410, description = "The question is no longer open", body = schemas::Refused),
    ),
)]
pub(crate) async fn chat(caller: Caller, request: Request) -> Result<Response, Refusal> {
    let request = match ollama::answer_or_return(&caller, request).await? {
        Answered::Yes(response) => return Ok(response),
        Answered::No(request) => request,
    };
    let has_approvals = has_approvals(request.headers());
    let ui = AiSdk::default();
    let offered: [AnyWire; 2] = [Box::new(ui.clone()), Box::new(Framed::default())];
    let wire = negotiate(request.headers(), offered)?;
    let chat: ChatRequest = if has_approvals {
        request::read_json(&caller.shared, BodyKind::Conversation, request).await?
    } else {
        caller.read_question(BodyKind::Conversation, request).await?
    };
    let continued = chat.continued_message().map(str::to_owned);
    let is_id = |id: &String| (1..=MAX_ID_BYTES).contains(&id.len());
    if chat.id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(invalid(format!("`id` must have 1 to {MAX_ID_BYTES} bytes.")));
    }
    let is_ui = wire.name() == ui.name();
    let answers = chat.answers();
    if !answers.is_empty() {
        if !is_ui {
            return Err(invalid(
                "A turn that was answered continues on the UI message stream only.",
            ));
        }
        let newest = newest(&caller, chat.id.as_deref().unwrap_or_default()).await?;
        let id = newest.ok_or_else(|| Refusal::of_answer(TurnId::random(), AnswerError::Unknown))?;
        let wire = ui.parks().message_id(continued.unwrap_or_else(|| id.to_string()));
        let turn = answers::answer_and_resume(&caller, id, answers, &wire).await?;
        return Ok(stream(turn, wire));
    }
    let id = chat.id.clone();
    let turn_request = TurnRequest {
        chat: id,
        ..TurnRequest::new(chat.read(caller.shared.accepts_attachments)?)
    };
    // A page with `resume` reconnects by the chat's id. `stop()` only closes the connection, so the
    // page has to call the stop route.
    let turn = caller.start(Reader::Returning, turn_request).await?;
    Ok(if is_ui {
        let id = continued.unwrap_or_else(|| turn.id().to_string());
        stream(turn, ui_stream(has_approvals).message_id(id))
    } else {
        stream(turn, wire)
    })
}

fn has_approvals(headers: &HeaderMap) -> bool {
    headers.get(APPROVALS).is_some_and(|value| value == "true")
}

fn ui_stream(has_approvals: bool) -> AiSdk {
    let wire = AiSdk::default();
    if has_approvals { wire.parks() } else { wire }
}

/// Returns the newest turn of a conversation.
async fn newest(caller: &Caller, chat: &str) -> Result<Option<TurnId>, Refusal> {
    let lane = Lane::chat(&caller.owner, chat);
    caller.newest(&lane).await
}

/// Streams the running answer of a conversation from its beginning.
///
/// `useChat` calls this with `resume` and in `resumeStream()`. 204 if no turn is running. A client that
/// lost a response names its turn in `turn`, and gets that turn also if it has ended meanwhile.
#[utoipa::path(
    get,
    path = "/api/chat/{chat_id}/stream",
    tag = "ai-sdk",
    operation_id = "aiSdkResume",
    params(
        ("chat_id" = String, Path, description = "The conversation"),
        ("turn" = Option<String>, Query, description = "The turn's id, from `x-ragwire-turn`; default: the newest turn, if it is running"),
        ("x-ragwire-approvals" = Option<String>, Header, description = "`true` if the page supports approvals"),
    ),
    responses(
        (status = 200, description = "The UI message stream, version 1", headers(("x-ragwire-turn" = String, description = "The turn")),
            content((String = "text/event-stream", example = json!(example(&AiSdk::default().message_id("m-2")))))),
        (status = 204, description = "No turn is running"),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 410, description = "The journal has dropped the beginning of the answer", body = schemas::Refused),
        (status = 503, description = "The turn's host is not reachable", body = schemas::Refused),
    ),
)]
pub(crate) async fn resume(
    caller: Caller,
    chat: PathParam,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let nothing = StatusCode::NO_CONTENT.into_response();
    let Ok(Path(chat)) = chat else { return Ok(nothing) };
    let named = params.get("turn");
    let id = match named {
        Some(turn) => TurnId::parse(turn),
        None => newest(&caller, &chat).await?,
    };
    let Some(id) = id else { return Ok(nothing) };
    let turn = match caller.shared.journal.resume(id, caller.owner.as_str(), 0).await {
        Ok(turn) => turn.pad_to(caller.shared.limits.pad_to),
        // The journal dropped it in between.
        Err(ResumeError::Unknown(_)) => return Ok(nothing),
        Err(error) => return Err(Refusal::of_turn(id, error)),
    };
    if named.is_none() && turn.is_finished() {
        return Ok(nothing);
    }
    let wire = ui_stream(has_approvals(&headers)).message_id(turn.id().to_string());
    Ok(stream(turn, wire))
}

/// Stops the running answer of a conversation.
#[utoipa::path(
    post,
    path = "/api/chat/{chat_id}/stop",
    tag = "ai-sdk",
    operation_id = "aiSdkStop",
    params(("chat_id" = String, Path, description = "The conversation")),
    responses(
        (status = 200, description = "No turn is running any more", body = StopOutcome),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 503, description = "The turn's host is not reachable", body = schemas::Refused),
    ),
)]
pub(crate) async fn stop(caller: Caller, chat: PathParam) -> Result<Json<StopOutcome>, Refusal> {
    let stopped = match chat {
        Ok(Path(chat)) => {
            let lane = Lane::chat(&caller.owner, &chat);
            caller.stop_newest(&lane).await?
        }
        Err(_) => false,
    };
    Ok(Json(StopOutcome { stopped }))
}
