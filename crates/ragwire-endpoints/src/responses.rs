//! `/v1/responses`: the Responses API of OpenAI.
//!
//! A response is a turn, and the responses that follow one another are a session. The ID of a
//! response contains both, so that `previous_response_id` also works after the journal has dropped
//! the turn.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire::session::{Message as Stored, Sessions};
use ragwire::{Question, Responses};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::{Caller, CallerOr, stream};
use crate::messages::{self, Message};
use crate::openai::{CreatedTurn, OpenAiRefusal, UnsupportedParameter, check_model, check_others, effort};
use crate::openapi::{self, OpenAiRefusals, example, requests, schemas};
use crate::refusal::Refusal;
use crate::request::{BodyKind, Params, PathParam, invalid};
use crate::shared::Shared;
use crate::start::{self, Conversation, Reader, TurnRequest};

/// Returns the routes of the Responses API.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    let description = "The Responses API of OpenAI.";
    OpenApiRouter::with_openapi(openapi::openai("responses", description))
        .routes(routes!(create))
        .routes(routes!(retrieve))
        .routes(routes!(cancel))
}

/// The body of `POST /v1/responses`. Parameters that would change the answer and are not honoured
/// are refused.
#[derive(Debug, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct ResponseRequest {
    /// The name of the only model.
    pub model: String,
    /// The question as a string, or a list of messages with the question as the user's last one.
    #[schema(value_type = requests::ResponseInput)]
    pub input: Value,
    /// Whether the response is streamed.
    pub stream: Option<bool>,
    /// The response that this one follows.
    pub previous_response_id: Option<String>,
    /// Whether the response continues without its reader. Default: `false`.
    pub background: Option<bool>,
    /// `false` stores nothing, so that no response can follow this one. Default: `true`.
    pub store: Option<bool>,
    /// The form of the answer: `{"format": {"type": "json_schema", "schema": …}}`.
    #[serde(default)]
    #[schema(value_type = requests::ResponseText, required = false)]
    pub text: Value,
    /// Only `file_search` and `mcp`: what the orchestrator does anyway.
    #[serde(default)]
    #[schema(value_type = requests::ResponseTools, required = false)]
    pub tools: Value,
    /// The instructions for the model, before those of the messages.
    pub instructions: Option<String>,
    /// The effort: `{"effort": "low"}`. Steps are always summarised.
    #[serde(default)]
    #[schema(value_type = requests::ResponseReasoning, required = false)]
    pub reasoning: Value,
    /// What a stream contains. Nothing in it changes the answer.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    pub stream_options: Value,
    /// All other parameters.
    #[serde(flatten)]
    #[schema(ignore)]
    pub others: Map<String, Value>,
}

impl ResponseRequest {
    /// Checks everything, of which the orchestrator honours the parameters in `honoured` in addition
    /// to the effort and a schema. A parameter with its default value is accepted.
    ///
    /// # Errors
    ///
    /// The first parameter that would change the answer.
    pub fn check(&self, honoured: &[String]) -> Result<(), UnsupportedParameter> {
        check_others(&self.others, honoured)?;
        let is_object = self.reasoning.is_null() || self.reasoning.is_object();
        if !is_object || effort(&self.reasoning["effort"]).is_none() {
            return Err(UnsupportedParameter::new("reasoning"));
        }
        let is_done_anyway = |tool: &Value| matches!(tool["type"].as_str(), Some("file_search" | "mcp"));
        match &self.tools {
            Value::Null => {}
            Value::Array(tools) if tools.iter().all(is_done_anyway) => {}
            Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                return Err(UnsupportedParameter::new("tools"));
            }
        }
        let is_object = |value: &Value| value.is_null() || value.is_object();
        let format = &self.text["format"];
        match format["type"].as_str() {
            Some("text") => Ok(()),
            Some("json_schema") if format["schema"].is_object() => Ok(()),
            None if format.is_null() && is_object(&self.text) => Ok(()),
            _ => Err(UnsupportedParameter::new("text")),
        }
    }

    /// Returns the question, with the earlier messages of `input` as its history and the files of the
    /// user as attachments. Call [`check`](Self::check) first, and add the conversation of
    /// `previous_response_id` yourself.
    ///
    /// # Errors
    ///
    /// 422 if `input` is neither a string nor a list of messages with one of the user's, or has a part
    /// that is neither a text nor a file.
    pub fn question(&self) -> Result<Question, Refusal> {
        self.to_question(true)
    }

    /// Returns the question if the endpoint honours everything in the request.
    fn read(&self, shared: &Shared) -> Result<Question, OpenAiRefusal> {
        self.check(&shared.parameters)?;
        let mut question = self.to_question(shared.accepts_attachments)?;
        if question.options.output_schema.is_some() && !shared.has_structured_results {
            return Err(UnsupportedParameter::new("text").into());
        }
        let others = self.others.iter();
        let honoured = others.filter(|(name, _)| shared.parameters.contains(name));
        let honoured = honoured.map(|(name, value)| (name.clone(), value.clone()));
        question.options.extra.extend(honoured);
        Ok(question)
    }

    fn to_question(&self, attachments: bool) -> Result<Question, Refusal> {
        let mut question = match &self.input {
            Value::String(text) => Question::new(text.as_str()),
            Value::Array(items) => {
                let messages: Vec<Value> = items.iter().filter_map(message).collect();
                let messages: Vec<Message> =
                    serde_json::from_value(messages.into()).map_err(|_| unreadable())?;
                messages::question(messages, attachments)?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return Err(unreadable()),
        };
        question.effort = effort(&self.reasoning["effort"]).unwrap_or_default();
        if let Some(instructions) = &self.instructions {
            let of_messages = question.options.instructions.take();
            let all = [Some(instructions.clone()), of_messages];
            let all: Vec<String> = all.into_iter().flatten().collect();
            question.options.instructions = Some(all.join(messages::MESSAGE_SEPARATOR));
        }
        let format = &self.text["format"];
        if format["type"] == "json_schema" {
            question.options.output_schema = Some(format["schema"].clone());
        }
        Ok(question)
    }
}

fn unreadable() -> Refusal {
    invalid("`input` must be a string or a list of messages.")
}

/// An item of the input as a message of chat completions; `None` for items that are not messages.
fn message(item: &Value) -> Option<Value> {
    let role = item.get("role")?;
    let content = match &item["content"] {
        Value::Array(parts) => parts
            .iter()
            .map(|part| match part["type"].as_str() {
                Some("input_text" | "output_text") => json!({"type": "text", "text": part["text"]}),
                Some("input_image") => json!({"type": "image_url", "image_url": {"url": part["image_url"]}}),
                Some("input_file") => json!({"type": "file", "file": part}),
                _ => part.clone(),
            })
            .collect(),
        other => other.clone(),
    };
    Some(json!({"role": role, "content": content}))
}

/// The ID of a response: its turn, and its session, if it has one.
#[derive(Clone, Debug, PartialEq)]
struct ResponseId {
    turn: CreatedTurn,
    session: Option<String>,
}

impl ResponseId {
    fn parse(text: &str) -> Option<Self> {
        let (turn, session) = CreatedTurn::parse(text.strip_prefix("resp_")?)?;
        let session = (!session.is_empty()).then(|| session.to_owned());
        Some(Self {
            turn,
            session: session.filter(|session| Sessions::is_id(session)),
        })
    }

    fn wire(&self, shared: &Shared) -> Responses {
        Responses::new(self.to_string(), self.turn.created, shared.name.as_str())
    }
}

impl std::fmt::Display for ResponseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let session = self.session.as_deref().unwrap_or_default();
        write!(f, "resp_{}{session}", self.turn)
    }
}

fn unknown_response() -> Refusal {
    Refusal::permanent(
        StatusCode::NOT_FOUND,
        "previous_response_not_found",
        "There is no such response; it may have been forgotten.",
    )
}

/// Answers a question, streamed or in one piece. With `background` the response continues without
/// its reader, and `GET /v1/responses/{response_id}` reads it.
#[utoipa::path(
    post,
    path = "/v1/responses",
    tag = "responses",
    operation_id = "createResponse",
    request_body(content = ResponseRequest, example = json!({ "model": "ragwire", "input": "What is the commit rule?", "stream": true })),
    responses(
        OpenAiRefusals,
        (status = 200, description = "Events if `stream` is true, otherwise one object",
            content((String = "text/event-stream", example = json!(example(&Responses::new("resp_1", 1_767_323_045, "ragwire")))), (Object = "application/json"))),
        (status = 404, description = "The model or the previous response does not exist", body = schemas::OpenAiRefused),
    ),
)]
pub(crate) async fn create(
    caller: CallerOr<OpenAiRefusal>,
    request: Request,
) -> Result<Response, OpenAiRefusal> {
    let shared = &caller.shared;
    let body: ResponseRequest = caller.read_question(BodyKind::Conversation, request).await?;
    check_model(shared, &body.model)?;
    let mut question = body.read(shared)?;
    let previous = match &body.previous_response_id {
        Some(id) => Some(ResponseId::parse(id).ok_or_else(unknown_response)?),
        None => None,
    };
    let session = match previous {
        Some(previous) => Some(previous.session.ok_or_else(unknown_response)?),
        None if body.store == Some(false) => None,
        None => Some(begin(&caller, std::mem::take(&mut question.history)).await?),
    };
    let streams = body.stream == Some(true);
    let is_background = body.background == Some(true);
    let reader = match (is_background, streams) {
        (true, _) => Reader::Absent,
        (false, true) => Reader::Leaving,
        (false, false) => Reader::Whole,
    };
    let mut turn_request = TurnRequest::new(question);
    if let Some(session) = &session {
        turn_request = turn_request.conversation(Conversation::ExistingSession(session.clone()));
    }
    let turn = caller.start(reader, turn_request).await?;
    let id = ResponseId {
        turn: CreatedTurn::now(turn.id()),
        session,
    };
    let mut wire = id.wire(shared);
    if let Some(previous) = body.previous_response_id {
        wire = wire.previous_response_id(previous);
    }
    if is_background {
        wire = wire.background();
    }
    if streams {
        return Ok(stream(turn, wire));
    }
    if is_background {
        return Ok(Json(wire.in_progress()).into_response());
    }
    let whole = start::collect(turn).await?;
    Ok(Json(wire.response(&whole.events, &whole.text, &whole.end)).into_response())
}

/// Begins the session of a first response, with the messages that came with it.
async fn begin(caller: &Caller, history: Vec<Stored>) -> Result<String, Refusal> {
    let id = Sessions::random_id().map_err(Refusal::from)?;
    let prepare = |session: &mut ragwire::session::Session| {
        for message in &history {
            session.push(message.role, message.text.as_str());
        }
    };
    let sessions = &caller.shared.sessions;
    let begun = sessions.begin_with(caller.owner.as_str(), &id, prepare).await;
    begun.map_err(Refusal::from)?;
    Ok(id)
}

/// Returns a response, or streams it after an event.
#[utoipa::path(
    get,
    path = "/v1/responses/{response_id}",
    tag = "responses",
    operation_id = "retrieveResponse",
    params(
        ("response_id" = String, Path, description = "The response"),
        ("stream" = Option<bool>, Query, description = "Whether to stream it"),
        ("starting_after" = Option<u64>, Query, description = "The last sequence number that the reader has"),
    ),
    responses(
        OpenAiRefusals,
        (status = 200, description = "Events if `stream` is true, otherwise one object",
            content((String = "text/event-stream", example = json!(example(&Responses::new("resp_1", 1_767_323_045, "ragwire")))), (Object = "application/json"))),
        (status = 404, description = "The response is unknown or has expired", body = schemas::OpenAiRefused),
        (status = 410, description = "The journal has dropped events that the reader needs", body = schemas::OpenAiRefused),
    ),
)]
pub(crate) async fn retrieve(
    caller: CallerOr<OpenAiRefusal>,
    response: PathParam,
    params: Params,
) -> Result<Response, OpenAiRefusal> {
    let id = response_id(response)?;
    let mut wire = id.wire(&caller.shared).background();
    if params.is_true("stream") {
        if let Some(after) = params.number("starting_after")? {
            wire = wire.starting_after(after);
        }
        let turn = caller.resume_on(id.turn.turn, 0, &wire).await?;
        return Ok(stream(turn, wire));
    }
    let turn = caller.resume(id.turn.turn).await?;
    if !turn.is_finished() {
        return Ok(Json(wire.in_progress()).into_response());
    }
    whole(turn, &wire).await
}

async fn whole(turn: ragwire::Turn, wire: &Responses) -> Result<Response, OpenAiRefusal> {
    let whole = turn.collect().await.map_err(|error| Refusal::internal(&error))?;
    Ok(Json(wire.response(&whole.events, &whole.text, &whole.end)).into_response())
}

fn response_id(param: PathParam) -> Result<ResponseId, Refusal> {
    let id = param.ok().and_then(|Path(id)| ResponseId::parse(&id));
    id.ok_or_else(unknown_response)
}

/// Stops a response and returns it.
#[utoipa::path(
    post,
    path = "/v1/responses/{response_id}/cancel",
    tag = "responses",
    operation_id = "cancelResponse",
    params(("response_id" = String, Path, description = "The response")),
    responses(
        OpenAiRefusals,
        (status = 200, description = "The response, which has ended", body = Object),
        (status = 404, description = "The response is unknown or has expired", body = schemas::OpenAiRefused),
    ),
)]
pub(crate) async fn cancel(
    caller: CallerOr<OpenAiRefusal>,
    response: PathParam,
) -> Result<Response, OpenAiRefusal> {
    let id = response_id(response)?;
    caller.stop(id.turn.turn).await?;
    let turn = caller.resume(id.turn.turn).await?;
    whole(turn, &id.wire(&caller.shared).background()).await
}

#[cfg(test)]
mod tests {
    use ragwire::turn::TurnId;

    use super::*;

    #[test]
    fn an_id_contains_its_turn_and_its_session() {
        for session in [None, Some("s-1".to_owned())] {
            let id = ResponseId {
                turn: CreatedTurn::now(TurnId::random()),
                session,
            };
            assert_eq!(ResponseId::parse(&id.to_string()), Some(id));
        }
        for text in [
            "",
            "resp_",
            "resp_1",
            "chatcmpl-1",
            "resp_\u{20ac}\u{20ac}\u{20ac}\u{20ac}",
        ] {
            assert_eq!(ResponseId::parse(text), None, "{text}");
        }
    }
}
