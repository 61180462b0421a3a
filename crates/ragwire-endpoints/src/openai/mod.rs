//! `/v1/chat/completions` and `/v1/models`: what the SDKs of OpenAI and the programs built on them
//! call.
//!
//! The key in `authorization` is ignored: the SDKs always send one. Every refusal of these routes
//! has OpenAI's form. It has no member for a request id, so that goes into `x-request-id`, where
//! the SDKs look for it.

mod id;
mod request;

pub(crate) use id::CreatedTurn;
pub use request::{ChatCompletionRequest, StreamOptions, UnsupportedParameter};
pub(crate) use request::{PARAMETERS, check_others, effort};

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use ragwire::turn::TurnId;
use ragwire::{OpenAi, Turn};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::{CallerOr, stream};
use crate::endpoints::Endpoints;
use crate::openapi::schemas;
use crate::openapi::{self, OpenAiRefusals, example};
use crate::refusal::{REQUEST_ID, Refusal};
use crate::request::{BodyKind, Params, PathParam};
use crate::shared::Shared;
use crate::start::{self, Reader};

/// Returns the routes of OpenAI.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::openai("openai", "The SDKs of OpenAI."))
        .routes(routes!(completions))
        .routes(routes!(retrieve))
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
        OpenAiRefusals,
        (status = 200, description = "Chunks if `stream` is true, otherwise one object",
            headers(("x-ragwire-turn" = String, description = "The turn's id, if the response streams")),
            content(
                (String = "text/event-stream", example = json!(example(&OpenAi::new("chatcmpl-1", 1_767_323_045, MODEL)))),
                (schemas::ChatCompletion = "application/json"),
            )),
        (status = 404, description = "The model does not exist", body = schemas::OpenAiRefused),
    ),
)]
pub(crate) async fn completions(
    caller: CallerOr<OpenAiRefusal>,
    request: Request,
) -> Result<Response, OpenAiRefusal> {
    let shared = &caller.shared;
    let body: ChatCompletionRequest = caller.read_question(BodyKind::Conversation, request).await?;
    check_model(shared, &body.model)?;
    let (streams, with_usage) = (body.streams(), body.includes_usage());
    let reader = match (body.stores(), streams) {
        (true, _) => Reader::Returning,
        // The SDKs close the connection to stop.
        (false, true) => Reader::Leaving,
        (false, false) => Reader::Whole,
    };
    let question = body.read(shared)?;
    let turn = caller.start(reader, question).await?;
    let wire = wire(shared, CreatedTurn::now(turn.id()), with_usage);
    if streams {
        return Ok(stream(turn, wire));
    }
    whole(turn, &wire).await
}

const COMPLETION: &str = "chatcmpl-";

fn wire(shared: &Shared, id: CreatedTurn, with_usage: bool) -> OpenAi {
    let wire = OpenAi::new(format!("{COMPLETION}{id}"), id.created, &*shared.name);
    if with_usage { wire.with_usage() } else { wire }
}

async fn whole(turn: Turn, wire: &OpenAi) -> Result<Response, OpenAiRefusal> {
    let whole = start::collect(turn).await?;
    Ok(Json(wire.completion(&whole.events, &whole.text, &whole.end)).into_response())
}

/// Returns a completion by its id: the rest of the stream after some chunks, live, or the whole
/// object after its end.
///
/// A completion continues without its reader, for the disconnect grace, if it was created with
/// `store`; otherwise it ends with its connection. A stream resumes with `stream` and
/// `starting_after`, the number of chunks that the reader has. It needs `include_usage` if the first
/// request had it.
#[utoipa::path(
    get,
    path = "/v1/chat/completions/{completion_id}",
    tag = "openai",
    operation_id = "retrieveChatCompletion",
    params(
        ("completion_id" = String, Path, description = "The id in every chunk"),
        ("stream" = Option<bool>, Query, description = "Whether to stream it"),
        ("starting_after" = Option<u64>, Query, description = "The number of chunks that the reader has; default 0"),
        ("include_usage" = Option<bool>, Query, description = "Whether the last chunk has the token counts"),
    ),
    responses(
        OpenAiRefusals,
        (status = 200, description = "Chunks if `stream` is true, otherwise one object",
            content(
                (String = "text/event-stream", example = json!(example(&OpenAi::new("chatcmpl-1", 1_767_323_045, MODEL)))),
                (schemas::ChatCompletion = "application/json"),
            )),
        (status = 404, description = "The completion is unknown or has expired", body = schemas::OpenAiRefused),
        (status = 410, description = "The journal has dropped chunks that the reader needs", body = schemas::OpenAiRefused),
    ),
)]
pub(crate) async fn retrieve(
    caller: CallerOr<OpenAiRefusal>,
    completion: PathParam,
    params: Params,
) -> Result<Response, OpenAiRefusal> {
    let id = completion.ok().and_then(|Path(id)| {
        let (id, rest) = CreatedTurn::parse(id.strip_prefix(COMPLETION)?)?;
        rest.is_empty().then_some(id)
    });
    // A malformed id becomes a random one, which no turn has.
    let id = id.unwrap_or_else(|| CreatedTurn::now(TurnId::random()));
    let wire = wire(&caller.shared, id, params.is_true("include_usage"));
    if params.is_true("stream") {
        let wire = wire.starting_after(params.number("starting_after")?.unwrap_or_default());
        let turn = caller.resume_on(id.turn, 0, &wire).await?;
        return Ok(stream(turn, wire));
    }
    whole(caller.resume(id.turn).await?, &wire).await
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
    check_model(&shared, &name.map(|Path(name)| name).unwrap_or_default())?;
    let mut list = OpenAi::models(&[&shared.name]);
    Ok(Json(list["data"][0].take()))
}

/// Refuses any model but the only one.
pub(crate) fn check_model(shared: &Shared, model: &str) -> Result<(), Refusal> {
    if model == shared.name {
        return Ok(());
    }
    Err(Refusal::permanent(
        StatusCode::NOT_FOUND,
        "model_not_found",
        format!("Unknown model. The only one is `{}`.", shared.name),
    ))
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
