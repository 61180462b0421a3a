//! The requests of Ollama, and which of their options are honoured.

use std::sync::LazyLock;

use http::StatusCode;
use ragwire::Question;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::messages::{self, Message};
use crate::openapi::requests;
use crate::parameters::{Ignored, Parameters};
use crate::refusal::{Refusal, quotable};
use crate::shared::Shared;

/// Members of a request that change nothing. Others do not with a value that says nothing.
pub(crate) static MEMBERS: LazyLock<Parameters> = LazyLock::new(|| {
    let unset = [json!(false), json!(""), json!(0)];
    let named = [
        ("keep_alive", Ignored::All),
        ("shift", Ignored::All),
        ("truncate", Ignored::All),
        ("tools", Ignored::only(json!([]))),
    ];
    Parameters::new(named, Ignored::Values(unset.into()))
});

/// Options that change nothing. The first group is what Ollama reads when it loads a model: how much
/// memory it takes and which processors compute. Nothing is loaded for a request here. The others
/// have their default value; `seed` only asks for the same answer again.
pub(crate) static OPTIONS: LazyLock<Parameters> = LazyLock::new(|| {
    let named = [
        ("embedding_only", Ignored::All),
        ("f16_kv", Ignored::All),
        ("logits_all", Ignored::All),
        ("low_vram", Ignored::All),
        ("main_gpu", Ignored::All),
        ("num_batch", Ignored::All),
        ("num_ctx", Ignored::All),
        ("num_gpu", Ignored::All),
        ("num_keep", Ignored::All),
        ("num_thread", Ignored::All),
        ("numa", Ignored::All),
        ("use_mlock", Ignored::All),
        ("use_mmap", Ignored::All),
        ("vocab_only", Ignored::All),
        ("seed", Ignored::Integers),
        // Without a limit, or as far as the context goes.
        ("num_predict", Ignored::Values(vec![json!(-1), json!(-2)])),
        ("temperature", Ignored::only(json!(0.8))),
        ("top_k", Ignored::only(json!(40))),
        ("top_p", Ignored::only(json!(0.9))),
        ("tfs_z", Ignored::only(json!(1))),
        ("typical_p", Ignored::only(json!(1))),
        ("repeat_last_n", Ignored::only(json!(64))),
        ("repeat_penalty", Ignored::only(json!(1.1))),
        ("min_p", Ignored::only(json!(0))),
        ("presence_penalty", Ignored::only(json!(0))),
        ("frequency_penalty", Ignored::only(json!(0))),
        ("mirostat", Ignored::only(json!(0))),
        ("mirostat_eta", Ignored::only(json!(0.1))),
        ("mirostat_tau", Ignored::only(json!(5))),
        ("penalize_newline", Ignored::only(json!(true))),
        ("stop", Ignored::only(json!([]))),
    ];
    Parameters::new(named, Ignored::Values(Vec::new()))
});

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
    #[schema(value_type = requests::OllamaThink, required = false)]
    pub think: Value,
    /// A JSON schema that the answer must satisfy, or `json` for any object, if the endpoint has
    /// structured results.
    #[schema(value_type = requests::OllamaFormat, required = false)]
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
        Self {
            name: quotable(name).to_owned(),
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
        if let Some(name) = MEMBERS.unsupported(&self.others, |_| false) {
            return Err(UnsupportedOption::new(name));
        }
        let options = self.options.iter();
        let is_honoured = |name: &str| honoured_as(name, honoured).is_some();
        let mut unsupported = options.filter_map(|options| OPTIONS.unsupported(options, is_honoured));
        unsupported.next().map_or(Ok(()), |name| {
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
