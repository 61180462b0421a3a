//! `/v1/chat/completions` and `/v1/models`: what the SDKs of OpenAI and the programs built on them call.
//!
//! A key in `authorization` is not looked at: the SDKs send one whether there is a login or not. Every refusal of these routes has
//! OpenAI's form, which has no place for a request's id; that stands in `x-request-id`, where the SDKs look for it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use ragwire::OpenAi;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::messages::{self, Message};
use super::openapi::{OpenAiRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::shapes;
use super::start::{self, Holds, Reader};
use crate::app::App;

/// The only model there is: the pipeline.
const MODEL: &str = "ragwire";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is asked for. The parameters of a model are passed over: there is none that they could change.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ChatCompletionRequest)]
struct Completion {
    /// `ragwire`.
    model: String,
    messages: Vec<Message>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

/// What a stream tells.
#[derive(Debug, Deserialize, ToSchema)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// Goes on with a conversation, streamed or in one piece.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    tag = "openai",
    operation_id = "chatCompletions",
    request_body(content = Completion, example = json!({
        "model": MODEL,
        "messages": [{ "role": "user", "content": "What is the commit rule?" }],
        "stream": true,
        "stream_options": { "include_usage": true },
    })),
    responses(
        (status = 200, description = "Chunks where `stream` is true, else one object",
            headers(("x-ragwire-turn" = String, description = "The turn, where it streams")),
            content(
                (String = "text/event-stream", example = json!(example(&OpenAi::new("chatcmpl-1", 1_767_323_045, MODEL)))),
                (shapes::ChatCompletion = "application/json"),
            )),
        (status = 404, description = "There is no such model", body = shapes::OpenAiRefused),
        OpenAiRefusals,
    ),
)]
pub(super) async fn completions(
    State(app): State<Arc<App>>,
    owner: Result<Owner, Refusal>,
    request: Request,
) -> Result<Response, OpenAiRefusal> {
    let owner = owner?;
    let asked: Completion = start::read(&app, Holds::Conversation, request).await?;
    if asked.model != MODEL {
        return Err(no_model().into());
    }
    // The SDKs stop by closing the connection, and have no way back to a stream of chunks.
    let (reader, streams) = match asked.stream {
        Some(true) => (Reader::Leaving, true),
        _ => (Reader::Whole, false),
    };
    let turn = start::start(&app, &owner, reader, messages::asked(asked.messages)?).await?;
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut wire = OpenAi::new(format!("chatcmpl-{}", turn.id()), created.as_secs(), MODEL);
    if asked.stream_options.and_then(|options| options.include_usage) == Some(true) {
        wire = wire.with_usage();
    }
    if streams {
        return Ok(turn.respond(wire).map(Body::new));
    }
    let whole = start::collect(turn).await?;
    Ok(Json(wire.completion(&whole.text, &whole.end)).into_response())
}

/// The models, of which there is one.
#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "openai",
    operation_id = "models",
    responses((status = 200, description = "The list", body = shapes::Models)),
)]
pub(super) async fn models() -> Json<Value> {
    Json(OpenAi::models(&[MODEL]))
}

/// One model.
#[utoipa::path(
    get,
    path = "/v1/models/{model}",
    tag = "openai",
    operation_id = "model",
    params(("model" = String, Path, description = "`ragwire`")),
    responses(
        (status = 200, description = "The model", body = shapes::Model),
        (status = 404, description = "There is no such model", body = shapes::OpenAiRefused),
    ),
)]
pub(super) async fn model(name: Result<Path<String>, PathRejection>) -> Result<Json<Value>, OpenAiRefusal> {
    if !name.is_ok_and(|Path(name)| name == MODEL) {
        return Err(no_model().into());
    }
    let mut list = OpenAi::models(&[MODEL]);
    Ok(Json(list["data"][0].take()))
}

fn no_model() -> Refusal {
    Refusal::permanent(
        StatusCode::NOT_FOUND,
        "model_not_found",
        format!("There is no such model here. The only one is `{MODEL}`."),
    )
}

/// A refusal as OpenAI writes it: `{"error":{"message","type","param","code"}}`.
#[derive(Debug)]
pub(super) struct OpenAiRefusal(Refusal);

impl From<Refusal> for OpenAiRefusal {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for OpenAiRefusal {
    fn into_response(self) -> Response {
        let Self(refusal) = self;
        let id = refusal.log();
        let mut error = OpenAi::error(&refusal.failure);
        if refusal.status.is_client_error() {
            error["error"]["type"] = "invalid_request_error".into();
        }
        let mut response = (refusal.status, Json(error)).into_response();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Ok(id) = HeaderValue::try_from(id) {
            headers.insert(REQUEST_ID, id);
        }
        if let Some(after) = refusal.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}
