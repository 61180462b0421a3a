//! The request of `/v1/chat/completions`, and which of its parameters are honoured.

use std::sync::LazyLock;

use http::StatusCode;
use ragwire::Question;
use ragwire::orchestrator::Effort;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::OpenAiRefusal;
use crate::messages::{self, Message};
use crate::openapi::requests;
use crate::parameters::{Ignored, Parameters};
use crate::refusal::{Refusal, quotable};
use crate::shared::Shared;

/// Parameters that change nothing: names for accounting, hints for speed, what the tools of the
/// client would need, and those with their default value. `seed` only asks for the same answer
/// again, without a guarantee.
pub(crate) static PARAMETERS: LazyLock<Parameters> = LazyLock::new(|| {
    let named = [
        ("include", Ignored::All),
        ("metadata", Ignored::All),
        ("parallel_tool_calls", Ignored::All),
        ("prediction", Ignored::All),
        ("prompt_cache_key", Ignored::All),
        ("prompt_cache_retention", Ignored::All),
        ("safety_identifier", Ignored::All),
        ("service_tier", Ignored::All),
        ("user", Ignored::All),
        ("seed", Ignored::Integers),
        ("n", Ignored::only(json!(1))),
        ("temperature", Ignored::only(json!(1))),
        ("top_p", Ignored::only(json!(1))),
        ("frequency_penalty", Ignored::only(json!(0))),
        ("presence_penalty", Ignored::only(json!(0))),
        ("top_logprobs", Ignored::only(json!(0))),
        ("logprobs", Ignored::only(json!(false))),
        ("tools", Ignored::only(json!([]))),
        ("functions", Ignored::only(json!([]))),
        ("stop", Ignored::only(json!([]))),
        ("tool_choice", Ignored::Values(vec!["auto".into(), "none".into()])),
        (
            "function_call",
            Ignored::Values(vec!["auto".into(), "none".into()]),
        ),
        ("logit_bias", Ignored::only(json!({}))),
        ("modalities", Ignored::only(json!(["text"]))),
        ("verbosity", Ignored::only(json!("medium"))),
        ("truncation", Ignored::only(json!("disabled"))),
    ];
    Parameters::new(named, Ignored::Values(Vec::new()))
});

/// The request. Parameters that would change the answer and are not honoured are refused.
///
/// ```
/// use ragwire_endpoints::openai::ChatCompletionRequest;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let body = r#"{"model": "ragwire", "messages": [{"role": "user", "content": "Why?"}], "n": 2}"#;
/// let request: ChatCompletionRequest = serde_json::from_str(body)?;
/// assert_eq!(request.check(&[]).unwrap_err().name, "n");
/// assert_eq!(request.question()?.prompt, "Why?");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Deserialize, ToSchema)]
#[schema(
    description = "The request. Parameters that would change the answer and are not honoured are refused."
)]
#[non_exhaustive]
pub struct ChatCompletionRequest {
    /// `ragwire`.
    pub model: String,
    /// The messages, oldest first.
    #[schema(value_type = requests::ChatMessages)]
    pub messages: Vec<Message>,
    /// Whether the answer is streamed.
    pub stream: Option<bool>,
    /// Whether the completion continues without its reader, so that it can be read again by its id.
    /// Default: `false`.
    pub store: Option<bool>,
    /// What a stream contains.
    pub stream_options: Option<StreamOptions>,
    /// The effort: `none`, `minimal`, `low`, `medium`, `high` or `xhigh`.
    #[serde(default)]
    #[schema(value_type = requests::ReasoningEffort, required = false)]
    pub reasoning_effort: Value,
    /// The form of the answer: `{"type":"text"}`, or a JSON schema if the endpoint has structured
    /// results.
    #[serde(default)]
    #[schema(value_type = requests::ResponseFormat, required = false)]
    pub response_format: Value,
    /// All other parameters.
    #[serde(flatten)]
    #[schema(ignore)]
    pub others: Map<String, Value>,
}

/// What a stream contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct StreamOptions {
    /// Whether the last chunk has the token counts.
    pub include_usage: Option<bool>,
}

/// A parameter that would change the answer and is not honoured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parameter {name} is not supported")]
#[non_exhaustive]
pub struct UnsupportedParameter {
    /// The name of the parameter.
    pub name: String,
}

impl UnsupportedParameter {
    /// Quotes at most 64 bytes of the name.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: quotable(name).to_owned(),
        }
    }
}

impl From<UnsupportedParameter> for Refusal {
    fn from(error: UnsupportedParameter) -> Self {
        let name = error.name;
        Self::permanent(
            StatusCode::BAD_REQUEST,
            "unsupported_parameter",
            format!("`{name}` is not supported with this value; leave it out."),
        )
    }
}

impl ChatCompletionRequest {
    /// Returns whether the answer is streamed.
    pub fn streams(&self) -> bool {
        self.stream.unwrap_or(false)
    }

    /// Returns whether the completion continues without its reader.
    pub fn stores(&self) -> bool {
        self.store.unwrap_or(false)
    }

    /// Returns whether the last chunk has the token counts.
    pub fn includes_usage(&self) -> bool {
        self.stream_options.and_then(|options| options.include_usage) == Some(true)
    }

    /// Checks the parameters, of which the orchestrator honours those in `honoured` in addition to
    /// `reasoning_effort`. A parameter with its default value is accepted.
    ///
    /// # Errors
    ///
    /// The first parameter that would change the answer.
    pub fn check(&self, honoured: &[String]) -> Result<(), UnsupportedParameter> {
        if effort(&self.reasoning_effort).is_none() {
            return Err(UnsupportedParameter::new("reasoning_effort"));
        }
        if matches!(ResponseFormat::of(&self.response_format), ResponseFormat::Unknown) {
            return Err(UnsupportedParameter::new("response_format"));
        }
        check_others(&self.others, honoured)
    }

    /// Returns the question, with the files of the user as attachments, and `metadata` in
    /// `options.extra`. Call [`check`](Self::check) first.
    ///
    /// # Errors
    ///
    /// 422 if no message is the user's, or one of them has a part that is neither a text nor a
    /// file.
    pub fn question(self) -> Result<Question, Refusal> {
        self.into_question(true)
    }

    /// Returns the question if the endpoint honours everything in the request.
    pub(super) fn read(self, shared: &Shared) -> Result<Question, OpenAiRefusal> {
        self.check(&shared.parameters)?;
        let format = ResponseFormat::of(&self.response_format);
        if matches!(format, ResponseFormat::Schema(_)) && !shared.has_structured_results {
            return Err(UnsupportedParameter::new("response_format").into());
        }
        let others = self.others.iter();
        let honoured: Vec<(String, Value)> = others
            .filter(|(name, _)| shared.parameters.contains(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut question = self.into_question(shared.accepts_attachments)?;
        question.options.extra.extend(honoured);
        Ok(question)
    }

    fn into_question(mut self, attachments: bool) -> Result<Question, Refusal> {
        let mut question = messages::question(self.messages, attachments)?;
        question.effort = effort(&self.reasoning_effort).unwrap_or_default();
        if let ResponseFormat::Schema(schema) = ResponseFormat::of(&self.response_format) {
            question.options.output_schema = Some(schema.clone());
        }
        if let Some(Value::Object(metadata)) = self.others.remove("metadata") {
            question.options.extra = metadata;
        }
        Ok(question)
    }
}

/// What `response_format` asks for.
enum ResponseFormat<'a> {
    Text,
    Schema(&'a Value),
    Unknown,
}

impl<'a> ResponseFormat<'a> {
    fn of(format: &'a Value) -> Self {
        if format.is_null() {
            return Self::Text;
        }
        match format.get("type").and_then(Value::as_str) {
            Some("text") => Self::Text,
            Some("json_schema") => match format.pointer("/json_schema/schema") {
                Some(schema) => Self::Schema(schema),
                None => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }
}

/// Checks the parameters that no route of OpenAI's protocols reads: those in `honoured` and those
/// that change nothing are accepted.
pub(crate) fn check_others(
    others: &Map<String, Value>,
    honoured: &[String],
) -> Result<(), UnsupportedParameter> {
    let is_honoured = |name: &str| honoured.iter().any(|other| other == name);
    let unsupported = PARAMETERS.unsupported(others, is_honoured);
    unsupported.map_or(Ok(()), |name| Err(UnsupportedParameter::new(name)))
}

/// Returns the effort, or `None` for an unknown one.
pub(crate) fn effort(value: &Value) -> Option<Effort> {
    match value {
        Value::Null => Some(Effort::default()),
        Value::String(effort) => match &**effort {
            "none" => Some(Effort::None),
            "minimal" | "low" => Some(Effort::Low),
            "medium" => Some(Effort::Medium),
            "high" => Some(Effort::High),
            "xhigh" => Some(Effort::Xhigh),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(parameters: &Value) -> ChatCompletionRequest {
        let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Why?" }] });
        for (name, value) in parameters.as_object().unwrap() {
            body[name] = value.clone();
        }
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn a_parameter_that_changes_nothing_is_accepted() {
        for parameters in [
            json!({}),
            json!({ "user": "u", "metadata": { "a": "b" }, "store": true, "seed": 7 }),
            json!({ "n": 1, "temperature": 1, "top_p": 1.0, "presence_penalty": 0, "stop": null, "tools": [] }),
            json!({ "tool_choice": "auto", "response_format": { "type": "text" }, "modalities": ["text"] }),
            json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "a", "schema": {} } } }),
        ] {
            assert_eq!(request(&parameters).check(&[]), Ok(()), "{parameters}");
        }
    }

    #[test]
    fn a_parameter_that_would_change_the_answer_is_named() {
        for parameters in [
            json!({ "n": 2 }),
            json!({ "n": "1" }),
            json!({ "temperature": 0 }),
            json!({ "max_tokens": 100 }),
            json!({ "max_completion_tokens": 100 }),
            json!({ "stop": ["\n"] }),
            json!({ "tools": [{ "type": "function" }] }),
            json!({ "tool_choice": "required" }),
            json!({ "logprobs": true }),
            json!({ "response_format": { "type": "json_object" } }),
            json!({ "response_format": { "type": "json_schema" } }),
            json!({ "reasoning_effort": "extreme" }),
            json!({ "some_later_parameter": true }),
        ] {
            let (name, _) = parameters.as_object().unwrap().iter().next().unwrap();
            let error = request(&parameters).check(&[]).unwrap_err();
            assert_eq!(error.name, *name);
        }
        let sampling = request(&json!({ "temperature": 0, "max_tokens": 100 }));
        assert_eq!(
            sampling.check(&["temperature".to_owned()]).unwrap_err().name,
            "max_tokens"
        );
        let long = "x".repeat(1000);
        assert_eq!(
            request(&json!({ &*long: 1 })).check(&[]).unwrap_err().name.len(),
            64
        );
    }

    #[test]
    fn a_question_has_the_effort_the_schema_and_the_metadata() {
        let schema = json!({ "type": "object" });
        let question = request(&json!({
            "reasoning_effort": "high",
            "metadata": { "tenant": "a" },
            "response_format": { "type": "json_schema", "json_schema": { "name": "a", "schema": schema } },
        }))
        .question()
        .unwrap();
        assert_eq!((&*question.prompt, question.effort), ("Why?", Effort::High));
        assert_eq!(question.options.output_schema, Some(schema));
        assert_eq!(question.options.extra["tenant"], "a");
    }
}
