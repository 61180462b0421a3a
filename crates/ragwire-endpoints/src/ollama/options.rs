//! The requests of Ollama, and which of their options are honoured.

use http::StatusCode;
use ragwire::Question;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::messages::{self, Message};
use crate::openapi::requests;
use crate::refusal::Refusal;
use crate::shared::Shared;

/// Longest name that a refusal quotes, in bytes.
const MAX_QUOTED_BYTES: usize = 64;

/// Members of a request that do not change the answer.
const HARMLESS: [&str; 3] = ["keep_alive", "shift", "truncate"];

/// Options that Ollama reads when it loads a model: how much memory it takes and which processors
/// compute. Nothing is loaded for a request here, so they are accepted without an effect.
const LOADING: [&str; 14] = [
    "embedding_only",
    "f16_kv",
    "logits_all",
    "low_vram",
    "main_gpu",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_keep",
    "num_thread",
    "numa",
    "use_mlock",
    "use_mmap",
    "vocab_only",
];

/// The body of `POST /api/chat`. What would change the answer and is not honoured is refused.
///
/// ```
/// use ragwire_endpoints::ollama::ChatRequest;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let body = r#"{"model": "ragwire", "messages": [{"role": "user", "content": "Why?"}],
///     "options": {"num_ctx": 8192, "temperature": 0.2}}"#;
/// let request: ChatRequest = serde_json::from_str(body)?;
/// assert_eq!(request.settings.check(&[]).unwrap_err().name, "options.temperature");
/// assert!(request.settings.check(&["temperature".to_owned()]).is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaChat)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The name of the only model, with or without `:latest`.
    pub model: String,
    /// The messages, oldest first. Without any, the response is that of a loaded model.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// Whether the answer is streamed. Default: `true`.
    pub stream: Option<bool>,
    /// Everything else.
    #[serde(flatten)]
    pub settings: Settings,
}

/// The body of `POST /api/generate`. What would change the answer and is not honoured is refused.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaGenerate)]
#[non_exhaustive]
pub struct GenerateRequest {
    /// The name of the only model, with or without `:latest`.
    pub model: String,
    /// The question. Without one, the response is that of a loaded model.
    #[serde(default)]
    pub prompt: Option<String>,
    /// The instructions.
    pub system: Option<String>,
    /// Images in base 64, if the endpoint accepts files.
    #[serde(default)]
    #[schema(value_type = requests::Images, required = false)]
    pub images: Option<Vec<String>>,
    /// Whether the answer is streamed. Default: `true`.
    pub stream: Option<bool>,
    /// Everything else.
    #[serde(flatten)]
    pub settings: Settings,
}

/// What both requests have.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = OllamaSettings)]
#[non_exhaustive]
pub struct Settings {
    /// Whether the steps are sent as `thinking`. Default: `true`; a level counts as `true`.
    #[schema(value_type = Option<bool>)]
    pub think: Value,
    /// A JSON schema that the answer must satisfy, or `json` for any object, if the endpoint has
    /// structured results.
    #[schema(value_type = Option<Object>)]
    pub format: Value,
    /// Options for the model. Those for loading it have no effect. Others are honoured, have their
    /// default value, or are refused.
    pub options: Option<Map<String, Value>>,
    /// All other members.
    #[serde(flatten)]
    #[schema(ignore)]
    pub others: Map<String, Value>,
}

/// A member or an option that would change the answer and is not honoured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is not supported")]
#[non_exhaustive]
pub struct UnsupportedOption {
    /// Its name.
    pub name: String,
}

impl UnsupportedOption {
    fn new(name: &str) -> Self {
        let name = &name[..name.floor_char_boundary(MAX_QUOTED_BYTES)];
        Self {
            name: name.to_owned(),
        }
    }
}

impl From<UnsupportedOption> for Refusal {
    fn from(error: UnsupportedOption) -> Self {
        let name = error.name;
        Self::permanent(
            StatusCode::BAD_REQUEST,
            "unsupported_option",
            format!("`{name}` is not supported with this value; leave it out"),
        )
    }
}

impl Settings {
    /// Returns whether the steps are sent as `thinking`.
    pub fn thinks(&self) -> bool {
        self.think != false
    }

    /// Checks everything, of which the orchestrator honours the options in `honoured`: by their own
    /// names, and `num_predict` also as OpenAI's `max_tokens`. An option with the default value of
    /// Ollama is accepted.
    ///
    /// # Errors
    ///
    /// The first one that would change the answer.
    pub fn check(&self, honoured: &[String]) -> Result<(), UnsupportedOption> {
        let is_default = |name: &str, value: &Value| {
            HARMLESS.contains(&name) || is_unset(value) || (name == "tools" && *value == json!([]))
        };
        if let Some((name, _)) = self.others.iter().find(|(name, value)| !is_default(name, value)) {
            return Err(UnsupportedOption::new(name));
        }
        let is_accepted = |name: &str, value: &Value| {
            LOADING.contains(&name) || is_default_option(name, value) || honoured_as(name, honoured).is_some()
        };
        let refused = self.options().find(|(name, value)| !is_accepted(name, value));
        refused.map_or(Ok(()), |(name, _)| {
            Err(UnsupportedOption::new(&format!("options.{name}")))
        })
    }

    fn options(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.options.iter().flatten()
    }

    /// Returns the schema that `format` asks for, if it asks for one.
    fn schema(&self) -> Result<Option<Value>, UnsupportedOption> {
        match &self.format {
            Value::Null => Ok(None),
            Value::String(format) if format.is_empty() => Ok(None),
            Value::String(format) if format == "json" => Ok(Some(json!({"type": "object"}))),
            schema @ Value::Object(_) => Ok(Some(schema.clone())),
            Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                Err(UnsupportedOption::new("format"))
            }
        }
    }

    /// Adds the schema and the honoured options to a question, after a check of everything.
    fn apply(&self, shared: &Shared, question: &mut Question) -> Result<(), Refusal> {
        self.check(&shared.parameters)?;
        for (name, value) in self.options() {
            if let Some(name) = honoured_as(name, &shared.parameters) {
                question.options.extra.insert(name.to_owned(), value.clone());
            }
        }
        question.options.output_schema = self.schema()?;
        if question.options.output_schema.is_some() && !shared.has_structured_results {
            return Err(UnsupportedOption::new("format").into());
        }
        Ok(())
    }
}

impl ChatRequest {
    /// Returns the question, with the images of the user as attachments and the schema of `format`.
    /// Call [`Settings::check`] first.
    ///
    /// # Errors
    ///
    /// 422 if no message is the user's, 400 if `format` is neither `json` nor a schema.
    pub fn question(self) -> Result<Question, Refusal> {
        let schema = self.settings.schema()?;
        let mut question = messages::question(self.messages, true)?;
        question.options.output_schema = schema;
        Ok(question)
    }

    /// Returns the question if the endpoint honours everything in the request.
    pub(super) fn read(self, shared: &Shared) -> Result<Question, Refusal> {
        let mut question = messages::question(self.messages, shared.accepts_attachments)?;
        self.settings.apply(shared, &mut question)?;
        Ok(question)
    }
}

impl GenerateRequest {
    /// Returns the question, with the images as attachments and the schema of `format`. Call
    /// [`Settings::check`] first.
    ///
    /// # Errors
    ///
    /// 400 if `format` is neither `json` nor a schema.
    pub fn question(self) -> Result<Question, Refusal> {
        let schema = self.settings.schema()?;
        let (mut question, _) = self.asked(true)?;
        question.options.output_schema = schema;
        Ok(question)
    }

    /// Returns the question if the endpoint honours everything in the request.
    pub(super) fn read(self, shared: &Shared) -> Result<Question, Refusal> {
        let (mut question, settings) = self.asked(shared.accepts_attachments)?;
        settings.apply(shared, &mut question)?;
        Ok(question)
    }

    fn asked(self, attachments: bool) -> Result<(Question, Settings), Refusal> {
        let message = Message::user(self.prompt.unwrap_or_default(), self.images.unwrap_or_default());
        let mut question = messages::question(vec![message], attachments)?;
        question.options.instructions = self.system.filter(|system| !system.is_empty());
        Ok((question, self.settings))
    }
}

/// Returns the name under which the orchestrator honours an option.
fn honoured_as<'a>(name: &'a str, honoured: &[String]) -> Option<&'a str> {
    let has = |name: &str| honoured.iter().any(|other| other == name);
    match name {
        _ if has(name) => Some(name),
        "num_predict" if has("max_tokens") => Some("max_tokens"),
        _ => None,
    }
}

/// Returns `true` for a value that says nothing.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Returns whether an option has the value that it has without being set. `seed` only asks for the
/// same answer again.
fn is_default_option(name: &str, value: &Value) -> bool {
    if value.is_null() {
        return true;
    }
    let number = value.as_f64();
    match name {
        "seed" => value.is_i64(),
        // Without a limit, or as far as the context goes.
        "num_predict" => number == Some(-1.0) || number == Some(-2.0),
        "temperature" => number == Some(0.8),
        "top_k" => number == Some(40.0),
        "top_p" => number == Some(0.9),
        "tfs_z" | "typical_p" => number == Some(1.0),
        "repeat_last_n" => number == Some(64.0),
        "repeat_penalty" => number == Some(1.1),
        "min_p" | "presence_penalty" | "frequency_penalty" | "mirostat" => number == Some(0.0),
        "mirostat_eta" => number == Some(0.1),
        "mirostat_tau" => number == Some(5.0),
        "penalize_newline" => *value == json!(true),
        "stop" => *value == json!([]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(members: &Value) -> Settings {
        serde_json::from_value(members.clone()).unwrap()
    }

    #[test]
    fn what_changes_nothing_is_accepted() {
        for members in [
            json!({}),
            json!({ "keep_alive": "5m", "think": "high", "tools": [], "options": null }),
            json!({ "options": { "num_ctx": 8192, "num_gpu": 1, "seed": 7, "num_predict": -1, "stop": [] } }),
            json!({ "options": { "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0, "repeat_penalty": null } }),
            json!({ "raw": false, "suffix": "", "template": "", "context": null, "logprobs": false }),
        ] {
            assert_eq!(settings(&members).check(&[]), Ok(()), "{members}");
        }
    }

    #[test]
    fn what_would_change_the_answer_is_named() {
        for (members, name) in [
            (json!({ "options": { "temperature": 0 } }), "options.temperature"),
            (json!({ "options": { "num_predict": 10 } }), "options.num_predict"),
            (json!({ "options": { "stop": ["a"] } }), "options.stop"),
            (
                json!({ "options": { "some_later_option": 1 } }),
                "options.some_later_option",
            ),
            (json!({ "tools": [{ "type": "function" }] }), "tools"),
            (json!({ "raw": true }), "raw"),
            (json!({ "suffix": "}" }), "suffix"),
            (json!({ "context": [1] }), "context"),
            (json!({ "logprobs": true }), "logprobs"),
        ] {
            assert_eq!(settings(&members).check(&[]).unwrap_err().name, name);
        }
        let honoured = ["max_tokens".to_owned(), "top_k".to_owned()];
        let options = settings(&json!({ "options": { "num_predict": 10, "top_k": 3 } }));
        assert_eq!(options.check(&honoured), Ok(()));
    }
}
