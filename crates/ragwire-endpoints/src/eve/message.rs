//! What an Eve client posts to a session.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use utoipa::ToSchema;

use crate::refusal::Refusal;
use crate::request::invalid;

/// A message or answers. Members that only later versions of Eve define are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EveMessage {
    /// The question.
    message: Option<EveContent>,
    /// The session's token, required in every message except the first.
    pub(crate) continuation_token: Option<String>,
    /// Answers to the questions of the running turn, instead of a message.
    #[serde(default)]
    input_responses: Vec<EveInputResponse>,
    /// Refused: this agent has no structured results.
    #[schema(value_type = Option<Object>)]
    output_schema: Option<IgnoredAny>,
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

impl EveMessage {
    /// Returns whether the client answers questions instead of posting a message.
    pub(crate) fn has_answers(&self) -> bool {
        !self.input_responses.is_empty()
    }

    /// Returns the text of the message.
    pub(crate) fn into_prompt(self) -> Result<String, Refusal> {
        if self.output_schema.is_some() {
            return Err(invalid(
                "This agent has no structured results; do not send outputSchema.",
            ));
        }
        if self.has_answers() {
            return Err(invalid(
                "A new session has no questions to answer; send a message.",
            ));
        }
        match self.message {
            Some(EveContent::Text(text)) => Ok(text),
            Some(EveContent::Parts(parts)) => {
                let texts = parts.into_iter().map(EveTextPart::into_text);
                let texts: Option<Vec<String>> = texts.collect();
                texts
                    .map(|texts| texts.join("\n"))
                    .ok_or_else(|| invalid("This agent reads text only."))
            }
            None => Err(invalid("message is required.")),
        }
    }

    /// Returns the answers with the ids of their requests.
    pub(crate) fn into_answers(self) -> Result<Vec<(String, Value)>, Refusal> {
        if self.message.is_some() {
            return Err(invalid(
                "Send either a message or inputResponses, not both in one request.",
            ));
        }
        let answers = self.input_responses.into_iter().map(|response| {
            let answer = response.option_id.or(response.text);
            let answer = answer.ok_or_else(|| invalid("An input response needs an optionId or a text."))?;
            Ok((response.request_id, answer.into()))
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
