//! `POST /api/chat` and the routes beside it that the clients of Ollama call.
//!
//! The AI SDK has the same path. Its messages have `parts`, those of Ollama have `content` and a
//! `model` beside them, so the body distinguishes the two.

mod options;

pub use options::{ChatRequest, GenerateRequest, Settings, UnsupportedOption};
pub(crate) use options::{MEMBERS, OPTIONS};

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire::{End, Ollama, Question, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::body;
use crate::caller::{Caller, CallerOr, stream};
use crate::openapi::{self, OllamaRefusals, schemas};
use crate::refusal::Refusal;
use crate::request::{self, BodyKind};
use crate::shared::Shared;
use crate::start::{self, Reader};

/// Returns the routes of Ollama. `POST /api/chat` is the route of the AI SDK if that is selected
/// too.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::ollama("ollama", "The clients of Ollama."))
        .routes(routes!(generate))
        .routes(routes!(tags))
        .routes(routes!(ps))
        .routes(routes!(version))
        .routes(routes!(show))
}

/// Returns the route that the AI SDK has as well.
pub(crate) fn chat_route() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::ollama("ollama", "The clients of Ollama.")).routes(routes!(chat))
}

/// The version of Ollama whose routes these are; clients compare it with what they need.
const VERSION: &str = "0.12.0";

/// Returns `true` if a body of `POST /api/chat` is Ollama's.
pub(crate) fn is_chat(body: &[u8]) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return false;
    };
    let has_parts = |message: &Value| message.get("parts").is_some();
    let messages = body["messages"].as_array();
    body["model"].is_string() && !messages.is_some_and(|messages| messages.iter().any(has_parts))
}

/// Whether a request was Ollama's.
#[derive(Debug)]
pub(crate) enum Answered {
    /// It was, and this is the response.
    Yes(Response),
    /// It was not.
    No(Request),
}

/// Answers a request of the path that the AI SDK has as well, if it is Ollama's.
pub(crate) async fn answer_or_return(caller: &Caller, request: Request) -> Result<Answered, Refusal> {
    let shared = &caller.shared;
    // A full server refuses a question before it has read it.
    if !shared.answers_ollama || shared.turns.check().is_err() {
        return Ok(Answered::No(request));
    }
    let (head, body) = request.into_parts();
    let max_bytes = request::max_bytes(shared, BodyKind::Conversation);
    let bytes = shared.bodies.read(&head, body, max_bytes).await?.into_bytes();
    if !is_chat(&bytes) {
        return Ok(Answered::No(Request::from_parts(head, Body::from(bytes))));
    }
    let answered = match body::json(&head.headers, &bytes) {
        Ok(chat) => answer(caller, chat).await,
        Err(refusal) => Err(refusal.into()),
    };
    Ok(Answered::Yes(answered.into_response()))
}

/// A refusal as Ollama writes it: `{"error"}`.
#[derive(Debug)]
pub(crate) struct OllamaRefusal(Refusal);

impl From<Refusal> for OllamaRefusal {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for OllamaRefusal {
    fn into_response(self) -> Response {
        let Self(refusal) = self;
        refusal.log();
        refusal.respond_with(Ollama::error(&refusal.failure))
    }
}

/// Answers the next question of a conversation, streamed or in one piece.
#[utoipa::path(post, path = "/api/chat", tag = "ollama", operation_id = "ollamaChat",
    request_body(content = ChatRequest, example = json!({
        "model": "ragwire",
        "messages": [{ "role": "user", "content": "What is the commit rule?" }],
    })),
    responses(
        OllamaRefusals,
        (status = 200, description = "One object per line, or one object", content((String = "application/x-ndjson"), (Object = "application/json"))),
        (status = 404, description = "The model does not exist", body = schemas::OllamaRefused),
    ))]
pub(crate) async fn chat(
    caller: CallerOr<OllamaRefusal>,
    request: Request,
) -> Result<Response, OllamaRefusal> {
    let body = caller.read_question(BodyKind::Conversation, request).await?;
    answer(&caller, body).await
}

async fn answer(caller: &Caller, body: ChatRequest) -> Result<Response, OllamaRefusal> {
    check_model(&caller.shared, &body.model)?;
    let wire = wire(&body.model, &body.settings);
    if body.messages.is_empty() {
        return Ok(loaded(&wire));
    }
    let streams = body.stream.unwrap_or(true);
    let question = body.read(&caller.shared)?;
    respond(caller, question, wire, streams).await
}

/// Answers one question, streamed or in one piece.
#[utoipa::path(post, path = "/api/generate", tag = "ollama", operation_id = "ollamaGenerate",
    request_body(content = GenerateRequest, example = json!({
        "model": "ragwire",
        "prompt": "What is the commit rule?",
    })),
    responses(
        OllamaRefusals,
        (status = 200, description = "One object per line, or one object", content((String = "application/x-ndjson"), (Object = "application/json"))),
        (status = 404, description = "The model does not exist", body = schemas::OllamaRefused),
    ))]
pub(crate) async fn generate(
    caller: CallerOr<OllamaRefusal>,
    request: Request,
) -> Result<Response, OllamaRefusal> {
    let body: GenerateRequest = caller.read_question(BodyKind::Conversation, request).await?;
    check_model(&caller.shared, &body.model)?;
    let wire = wire(&body.model, &body.settings).generate();
    if body.prompt.as_ref().is_none_or(String::is_empty) {
        return Ok(loaded(&wire));
    }
    let streams = body.stream.unwrap_or(true);
    let question = body.read(&caller.shared)?;
    respond(&caller, question, wire, streams).await
}

fn wire(model: &str, settings: &Settings) -> Ollama {
    Ollama::new(model, Timestamp::from(SystemTime::now())).thinking(settings.thinks())
}

/// The response of a model that was loaded, which is all that a request without a question asks for.
fn loaded(wire: &Ollama) -> Response {
    let mut loaded = wire.chat(&[], "", &End::default());
    loaded["done_reason"] = "load".into();
    Json(loaded).into_response()
}

async fn respond(
    caller: &Caller,
    question: Question,
    wire: Ollama,
    streams: bool,
) -> Result<Response, OllamaRefusal> {
    if streams {
        // Clients close the connection to stop.
        let turn = caller.start(Reader::Leaving, question).await?;
        return Ok(stream(turn, wire));
    }
    let whole = start::collect(caller.start(Reader::Whole, question).await?).await?;
    Ok(Json(wire.chat(&whole.events, &whole.text, &whole.end)).into_response())
}

fn check_model(shared: &Shared, model: &str) -> Result<(), Refusal> {
    let name = model.strip_suffix(":latest").unwrap_or(model);
    if name == shared.name {
        return Ok(());
    }
    Err(Refusal::permanent(
        StatusCode::NOT_FOUND,
        "model_not_found",
        format!("model not found: the only one is {}", shared.name),
    ))
}

/// Lists the models.
#[utoipa::path(get, path = "/api/tags", tag = "ollama", operation_id = "ollamaTags",
    responses((status = 200, description = "The only model", body = Object)))]
pub(crate) async fn tags(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(Ollama::tags(&[&shared.name], Timestamp::from_micros(0)))
}

/// Lists the models in memory.
#[utoipa::path(get, path = "/api/ps", tag = "ollama", operation_id = "ollamaPs",
    responses((status = 200, description = "The only model", body = Object)))]
pub(crate) async fn ps(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(Ollama::tags(&[&shared.name], Timestamp::from_micros(0)))
}

/// Returns the version.
#[utoipa::path(get, path = "/api/version", tag = "ollama", operation_id = "ollamaVersion",
    responses((status = 200, description = "The version", body = Object)))]
pub(crate) async fn version() -> Json<Value> {
    Json(json!({"version": VERSION}))
}

/// The body of `POST /api/show`.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaShow)]
pub(crate) struct ShowRequest {
    model: Option<String>,
    /// The older name of `model`.
    name: Option<String>,
}

/// Describes the model.
#[utoipa::path(post, path = "/api/show", tag = "ollama", operation_id = "ollamaShow",
    request_body = ShowRequest,
    responses(
        OllamaRefusals,
        (status = 200, description = "The model", body = Object),
        (status = 404, description = "The model does not exist", body = schemas::OllamaRefused),
    ))]
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Json<Value>, OllamaRefusal> {
    let body: ShowRequest = request::read_json(&shared, BodyKind::Question, request).await?;
    check_model(&shared, &body.model.or(body.name).unwrap_or_default())?;
    let mut tags = Ollama::tags(&[&shared.name], Timestamp::from_micros(0));
    let details = tags["models"][0]["details"].take();
    Ok(Json(json!({
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": details,
        "model_info": {},
        "capabilities": ["completion", "thinking"],
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_tells_ollama_from_the_ai_sdk() {
        for (body, is_ollama) in [
            (
                r#"{"model":"m","messages":[{"role":"user","content":"?"}]}"#,
                true,
            ),
            (r#"{"model":"m"}"#, true),
            (
                r#"{"id":"c","messages":[{"id":"1","role":"user","parts":[]}]}"#,
                false,
            ),
            (r#"{"model":"m","messages":[{"role":"user","parts":[]}]}"#, false),
            (r#"{"messages":[]}"#, false),
            ("{", false),
        ] {
            assert_eq!(is_chat(body.as_bytes()), is_ollama, "{body}");
        }
    }
}
