//! What an Eve client posts to a session.

use ragwire::Question;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::human::{HumanAnswer, Verdict};
use crate::openapi::requests::OutputSchema;
use crate::refusal::Refusal;
use crate::request::invalid;

/// A message or answers. Members that only later versions of Eve define are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EveMessage)]
#[non_exhaustive]
pub struct MessageRequest {
    /// The question.
    message: Option<EveContent>,
    /// The session's token, required in every message except the first.
    pub continuation_token: Option<String>,
    /// Answers to the questions of the running turn, instead of a message.
    #[serde(default)]
    input_responses: Vec<EveInputResponse>,
    /// The JSON schema of the result. Refused if the agent has no structured results.
    #[schema(value_type = Option<OutputSchema>)]
    output_schema: Option<Value>,
}

/// An answer to one request of `input.requested`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EveInputResponse {
    request_id: String,
    /// One of the request's options.
    option_id: Option<String>,
    /// Free text, if the request allows it.
    text: Option<String>,
}

/// The content of a message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum EveContent {
    /// Plain text.
    Text(String),
    /// A list of parts.
    Parts(Vec<EveTextPart>),
}

/// A part of a message. Only text is supported.
#[derive(Debug, Deserialize, ToSchema)]
struct EveTextPart {
    /// `text`.
    r#type: String,
    #[schema(required = true, nullable = false)]
    text: Option<String>,
}

impl MessageRequest {
    /// Returns whether the client answers questions instead of posting a message.
    pub fn has_answers(&self) -> bool {
        !self.input_responses.is_empty()
    }

    /// Returns the question, with the JSON schema of its result in `options.output_schema`.
    ///
    /// # Errors
    ///
    /// 422 if the request has answers, no message, or a part that is not a text.
    pub fn question(self) -> Result<Question, Refusal> {
        self.read(true)
    }

    /// Returns the question, and refuses a schema without `structured`.
    pub(crate) fn read(mut self, structured: bool) -> Result<Question, Refusal> {
        let output_schema = self.output_schema.take();
        if output_schema.is_some() && !structured {
            return Err(invalid(
                "This agent has no structured results; do not send outputSchema.",
            ));
        }
        if self.has_answers() {
            return Err(invalid(
                "A new session has no questions to answer; send a message.",
            ));
        }
        let prompt = match self.message {
            Some(EveContent::Text(text)) => text,
            Some(EveContent::Parts(parts)) => {
                let texts = parts.into_iter().map(EveTextPart::into_text);
                let texts: Option<Vec<String>> = texts.collect();
                let texts = texts.ok_or_else(|| invalid("This agent reads text only."))?;
                texts.join("\n")
            }
            None => return Err(invalid("message is required.")),
        };
        let mut question = Question::new(prompt);
        question.options.output_schema = output_schema;
        Ok(question)
    }

    /// Returns the answers of a human.
    ///
    /// # Errors
    ///
    /// 422 if the request also has a message, or an answer is empty.
    pub fn answers(self) -> Result<Vec<HumanAnswer>, Refusal> {
        if self.message.is_some() {
            return Err(invalid(
                "Send either a message or inputResponses, not both in one request.",
            ));
        }
        let answers = self.input_responses.into_iter().map(|response| {
            let answer = response.option_id.or(response.text);
            let answer = answer.ok_or_else(|| invalid("An input response needs an optionId or a text."))?;
            Ok(HumanAnswer {
                request_id: response.request_id,
                verdict: Verdict::Response(answer.into()),
            })
        });
        answers.collect()
    }
}

impl EveTextPart {
    /// Returns the text, or `None` for a part of another type.
    fn into_text(self) -> Option<String> {
        self.text.filter(|_| self.r#type == "text")
    }
}
