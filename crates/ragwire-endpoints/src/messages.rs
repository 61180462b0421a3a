//! The messages of chat clients that store the conversation themselves.
//!
//! The last message of the user is the question, and the messages before it are the history. Only
//! messages of users and assistants count: the pipeline has no model that a `system` message could
//! instruct, and it does not call the client's tools. Messages after the question are ignored.

use std::fmt;

use ragwire::AiSdk;
use ragwire::session;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::Ref;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};

use crate::refusal::Refusal;
use crate::request::invalid;
use crate::start::{Conversation, TurnRequest};
use crate::turns::answers::{HumanAnswer, Verdict};
use ragwire::Question;

/// Longest part type that a refusal quotes, in bytes.
const MAX_QUOTED_BYTES: usize = 64;
/// Separator between the texts of one message.
const PART_SEPARATOR: &str = "\n";

/// The author of a message: the roles of all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Speaker)]
pub(crate) enum ChatRole {
    /// The user.
    User,
    /// The assistant.
    Assistant,
    /// Instructions for a model.
    System,
    /// The newer name of `system`.
    Developer,
    /// The result of a tool of the client.
    Tool,
    /// The older name of `tool`.
    Function,
    /// An activity that the client shows.
    Activity,
    /// The reasoning of a model.
    Reasoning,
}

/// A message of OpenAI and of AG-UI.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ChatMessage)]
pub(crate) struct Message {
    role: ChatRole,
    /// A string or a list of parts. It may be missing if an assistant only called tools.
    #[serde(default)]
    #[schema(schema_with = content)]
    content: Content,
}

/// A message of the AI SDK.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct UiMessage {
    pub(crate) id: Option<String>,
    pub(crate) role: ChatRole,
    parts: Vec<UiPart>,
}

/// One part of a message. The part of a tool that asked a human contains the answer.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UiMessagePart)]
struct UiPart {
    #[serde(flatten)]
    part: Part,
    /// For a tool: its name.
    #[serde(default, rename = "toolName")]
    #[schema(value_type = Option<String>)]
    tool_name: Value,
    /// For a tool: the id of the call, which is the question's `request_id`.
    #[serde(default, rename = "toolCallId")]
    #[schema(value_type = Option<String>)]
    tool_call_id: Value,
    /// For a tool: `approval-responded` with a human's verdict, `output-available` with a text.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    state: Value,
    /// For a tool: `{id, approved}`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    approval: Value,
    /// For a tool: its result.
    #[serde(default)]
    output: Value,
}

impl UiMessage {
    /// Returns the answers of a human in this message.
    pub(crate) fn answers(&self) -> Vec<HumanAnswer> {
        self.parts.iter().filter_map(UiPart::answer).collect()
    }
}

impl UiPart {
    fn answer(&self) -> Option<HumanAnswer> {
        if self.part.r#type != "dynamic-tool" || self.tool_name != AiSdk::ASK_TOOL {
            return None;
        }
        let verdict = match self.state.as_str()? {
            "approval-responded" => Verdict::Approval(self.approval.get("approved")?.as_bool()?),
            "output-available" => Verdict::Response(self.output.clone()),
            "output-denied" => Verdict::Approval(false),
            _ => return None,
        };
        Some(HumanAnswer {
            request_id: self.tool_call_id.as_str()?.to_owned(),
            verdict,
        })
    }
}

/// One part of a message.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MessagePart)]
pub(crate) struct Part {
    r#type: String,
    /// The text, for the type `text`.
    text: Option<String>,
}

/// The content of a message.
#[derive(Debug)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
    /// The content of an activity.
    Object,
}

/// Returns the schema of [`Content`].
fn content() -> Schema {
    let of = |kind| ObjectBuilder::new().schema_type(kind);
    OneOfBuilder::new()
        .description(Some("For a user, a string or a list of parts."))
        .item(of(Type::String))
        .item(ArrayBuilder::new().items(Ref::from_schema_name("MessagePart")))
        .item(of(Type::Object))
        .item(of(Type::Null))
        .into()
}

impl Default for Content {
    fn default() -> Self {
        Self::Parts(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

/// Written by hand, because the error of an untagged enum only says that no variant matched.
struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content::Text(text))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content, A::Error> {
        let mut read = Vec::new();
        while let Some(part) = parts.next_element()? {
            read.push(part);
        }
        Ok(Content::Parts(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Content, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::Object)
    }
}

impl From<Message> for (ChatRole, Content) {
    fn from(message: Message) -> Self {
        (message.role, message.content)
    }
}

impl From<UiMessage> for (ChatRole, Content) {
    fn from(message: UiMessage) -> Self {
        let parts = message.parts.into_iter().map(|part| part.part);
        (message.role, Content::Parts(parts.collect()))
    }
}

/// Returns the question with the messages before it.
#[expect(private_bounds, reason = "there are only two types of messages")]
pub(crate) fn turn_request<M: Into<(ChatRole, Content)>>(messages: Vec<M>) -> Result<TurnRequest, Refusal> {
    let mut messages: Vec<(ChatRole, Content)> = messages.into_iter().map(Into::into).collect();
    let Some(last) = messages.iter().rposition(|(role, _)| *role == ChatRole::User) else {
        return Err(invalid("The messages contain none of the user."));
    };
    messages.truncate(last + 1);
    let mut earlier = Vec::new();
    for (role, content) in messages {
        let (role, text) = match role {
            ChatRole::User => (session::Role::User, user_text(content)?),
            ChatRole::Assistant => (session::Role::Assistant, assistant_text(content)),
            ChatRole::System
            | ChatRole::Developer
            | ChatRole::Tool
            | ChatRole::Function
            | ChatRole::Activity
            | ChatRole::Reasoning => continue,
        };
        earlier.push(session::Message::new(role, text));
    }
    let prompt = earlier.pop().map(|message| message.text).unwrap_or_default();
    earlier.retain(|message| !message.text.is_empty());
    Ok(TurnRequest::new(Question::new(prompt)).conversation(Conversation::Provided(earlier)))
}

/// Returns the text of a user. Refuses attachments: the answer would look as if they had been read.
fn user_text(content: Content) -> Result<String, Refusal> {
    let parts = match content {
        Content::Text(text) => return Ok(text),
        Content::Parts(parts) => parts,
        Content::Object => {
            return Err(invalid(
                "The content of a user's message must be a string or a list of parts.",
            ));
        }
    };
    let mut texts = Vec::new();
    for part in parts {
        match (&*part.r#type, part.text) {
            ("text", Some(text)) => texts.push(text),
            ("text", None) => return Err(invalid("A part of the type `text` has no text.")),
            // Data of the application itself.
            (kind, _) if kind.starts_with("data-") => {}
            (kind, _) => {
                let kind = &kind[..kind.floor_char_boundary(MAX_QUOTED_BYTES)];
                return Err(invalid(format!(
                    "A user's message may only have parts of the type `text`, not `{kind}`."
                )));
            }
        }
    }
    Ok(texts.join(PART_SEPARATOR))
}

/// Returns the text of an assistant, without its tools, reasoning and sources.
fn assistant_text(content: Content) -> String {
    match content {
        Content::Text(text) => text,
        Content::Parts(parts) => {
            let texts = parts.into_iter().filter(|part| part.r#type == "text");
            let texts: Vec<String> = texts.filter_map(|part| part.text).collect();
            texts.join(PART_SEPARATOR)
        }
        Content::Object => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_message_of_the_user_is_the_question() {
        let messages = json!([
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "One?", "name": "me" },
            { "role": "assistant", "content": null, "tool_calls": [] },
            { "role": "tool", "content": "7", "tool_call_id": "c" },
            { "role": "assistant", "content": [
                { "type": "reasoning", "text": "Hm." }, { "type": "text", "text": "1." }, { "type": "text", "text": "2." },
            ] },
            { "role": "activity", "content": { "a": [1] } },
            { "role": "user", "content": [
                { "type": "text", "text": "Two?" }, { "type": "data-x", "data": {} }, { "type": "text", "text": "Three?" },
            ] },
            { "role": "assistant", "content": "begun" },
        ]);
        let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
        let request = turn_request(messages).unwrap();
        assert_eq!(request.question.prompt, "Two?\nThree?");
        let Conversation::Provided(earlier) = request.conversation else {
            panic!("{:?}", request.conversation)
        };
        let earlier: Vec<_> = earlier
            .iter()
            .map(|message| (message.role, &*message.text))
            .collect();
        assert_eq!(
            earlier,
            [
                (session::Role::User, "One?"),
                (session::Role::Assistant, "1.\n2."),
            ]
        );
    }
}
