//! `/v1/chat/completions` and `/v1/models`: what the SDKs of OpenAI and the programs built on them
//! call.
//!
//! The key in `authorization` is ignored: the SDKs always send one. Every refusal of these routes
//! has OpenAI's form. It has no member for a request id, so that goes into `x-request-id`, where
//! the SDKs look for it.

mod request;

pub use request::{ChatCompletionRequest, StreamOptions, UnsupportedParameter};
pub(crate) use request::{check_others, effort};

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use ragwire::OpenAi;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::endpoints::Endpoints;
use crate::openapi::schemas;
use crate::openapi::{self, OpenAiRefusals, example};
use crate::owner::Owner;
use crate::refusal::{REQUEST_ID, Refusal};
use crate::request::{BodyKind, PathParam, read_question};
use crate::shared::Shared;
use crate::start::{self, Reader};

/// Returns the routes of OpenAI.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::openai("openai", "The SDKs of OpenAI."))
        .routes(routes!(completions))
        .routes(routes!(models))
        .routes(routes!(model))
}

/// The default name of the only model, in the examples.
const MODEL: &str = Endpoints::NAME;

/// Answers the next question of a conversation, streamed or in one piece.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    tag = "openai",
    operation_id = "chatCompletions",
    request_body(content = ChatCompletionRequest, example = json!({
        "model": MODEL,
        "messages": [{ "role": "user", "content": "What is the commit rule?" }],
        "stream": true,
        "stream_options": { "include_usage": true },
    })),
    responses(
        (status = 200, description = "Chunks if `stream` is true, otherwise one object",
            headers(("x-ragwire-turn" = String, description = "The turn's id, if the response streams")),
            content(
                (String = "text/event-stream", example = json!(example(&OpenAi::new("chatcmpl-1", 1_767_323_045, MODEL)))),
                (schemas::ChatCompletion = "application/json"),
            )),
        (status = 404, description = "The model does not exist", body = schemas::OpenAiRefused),
        OpenAiRefusals,
    ),
)]
pub(crate) async fn completions(
    State(shared): State<Arc<Shared>>,
    owner: Result<Owner, Refusal>,
    request: Request,
) -> Result<Response, OpenAiRefusal> {
    let owner = owner?;
    let body: ChatCompletionRequest = read_question(&shared, BodyKind::Conversation, request).await?;
    if body.model != shared.name {
        return Err(unknown_model(&shared).into());
    }
    // The SDKs close the connection to stop, and cannot resume a stream of chunks.
    let (streams, with_usage) = (body.streams(), body.includes_usage());
    let reader = if streams { Reader::Leaving } else { Reader::Whole };
    let question = body.read(&shared)?;
    let turn = start::start(&shared, &owner, reader, question).await?;
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut wire = OpenAi::new(
        format!("chatcmpl-{}", turn.id()),
        created.as_secs(),
        &*shared.name,
    );
    if with_usage {
        wire = wire.with_usage();
    }
    if streams {
        return Ok(turn.respond(wire).map(Body::new));
    }
    let whole = start::collect(turn).await?;
    Ok(Json(wire.completion(&whole.events, &whole.text, &whole.end)).into_response())
}

/// Lists the models.
#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "openai",
    operation_id = "models",
    responses((status = 200, description = "The list", body = schemas::Models)),
)]
pub(crate) async fn models(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(OpenAi::models(&[&shared.name]))
}

/// Returns one model.
#[utoipa::path(
    get,
    path = "/v1/models/{model}",
    tag = "openai",
    operation_id = "model",
    params(("model" = String, Path, description = "`ragwire`")),
    responses(
        (status = 200, description = "The model", body = schemas::Model),
        (status = 404, description = "The model does not exist", body = schemas::OpenAiRefused),
    ),
)]
pub(crate) async fn model(
    State(shared): State<Arc<Shared>>,
    name: PathParam,
) -> Result<Json<Value>, OpenAiRefusal> {
    if !name.is_ok_and(|Path(name)| name == shared.name) {
        return Err(unknown_model(&shared).into());
    }
    let mut list = OpenAi::models(&[&shared.name]);
    Ok(Json(list["data"][0].take()))
}

fn unknown_model(shared: &Shared) -> Refusal {
    Refusal::permanent(
        StatusCode::NOT_FOUND,
        "model_not_found",
        format!("Unknown model. The only one is `{}`.", shared.name),
    )
}

/// A refusal as OpenAI writes it: `{"error":{"message","type","param","code"}}`.
#[derive(Debug)]
pub(crate) struct OpenAiRefusal {
    refusal: Refusal,
    /// The parameter that is the reason.
    param: Option<Box<str>>,
}

impl From<Refusal> for OpenAiRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, param: None }
    }
}

impl From<UnsupportedParameter> for OpenAiRefusal {
    fn from(error: UnsupportedParameter) -> Self {
        let param = error.name.clone();
        Self {
            refusal: error.into(),
            param: Some(param.into()),
        }
    }
}

impl IntoResponse for OpenAiRefusal {
    fn into_response(self) -> Response {
        let Self { refusal, param } = self;
        let id = refusal.log();
        let mut error = OpenAi::error(&refusal.failure);
        if refusal.status.is_client_error() {
            error["error"]["type"] = "invalid_request_error".into();
        }
        if let Some(param) = param {
            error["error"]["param"] = String::from(param).into();
        }
        let mut response = refusal.respond_with(error);
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Ok(id) = HeaderValue::try_from(id) {
            headers.insert(REQUEST_ID, id);
        }
        response
    }
}
