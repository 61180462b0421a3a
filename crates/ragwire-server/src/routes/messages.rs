//! Messages as chat clients send them, which hold the conversation themselves: the last one of the user is the question, and what
//! stands before it was said before.
//!
//! Only what users and assistants said is taken: this pipeline has no model that a `system` message could instruct, and the
//! client's tools are none of its own. What follows the question is passed over.

use std::fmt;

use ragwire::AiSdk;
use ragwire::session;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::Ref;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};

use super::answers::{Given, Verdict};
use super::refusal::Refusal;
use super::start::{Asked, Memory, invalid};

/// Longest type of a part that a refusal quotes.
const MAX_QUOTED_BYTES: usize = 64;
/// Between two texts of one message.
const BETWEEN_PARTS: &str = "\n";

/// Who wrote a message, in the words of all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Speaker {
    /// Who asks.
    User,
    /// Who answers.
    Assistant,
    /// Instructions for a model.
    System,
    /// The same, by its newer name.
    Developer,
    /// What a tool of the client returned.
    Tool,
    /// The same, by its older name.
    Function,
    /// Something that the client shows.
    Activity,
    /// Thoughts of a model.
    Reasoning,
}

/// A message of OpenAI and of AG-UI.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ChatMessage)]
pub(super) struct Message {
    role: Speaker,
    /// A string or a list of parts. An assistant that only called tools may have none.
    #[serde(default)]
    #[schema(schema_with = content)]
    content: Content,
}

/// A message of the AI SDK.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct UiMessage {
    pub(super) id: Option<String>,
    pub(super) role: Speaker,
    parts: Vec<UiPart>,
}

/// One part of it. Of a tool that asked a human it has the answer.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UiMessagePart)]
struct UiPart {
    #[serde(flatten)]
    part: Part,
    /// Of a tool: its name.
    #[serde(default, rename = "toolName")]
    #[schema(value_type = Option<String>)]
    tool_name: Value,
    /// Of a tool: the call, which is the question's `request_id`.
    #[serde(default, rename = "toolCallId")]
    #[schema(value_type = Option<String>)]
    tool_call_id: Value,
    /// Of a tool: `approval-responded` has a human's verdict, `output-available` an answer in words.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    state: Value,
    /// Of a tool: `{id, approved}`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    approval: Value,
    /// Of a tool: what it returned.
    #[serde(default)]
    output: Value,
}

impl UiMessage {
    /// The answers in it to what a turn asked a human.
    pub(super) fn answers(&self) -> Vec<Given> {
        self.parts.iter().filter_map(UiPart::answer).collect()
    }
}

impl UiPart {
    fn answer(&self) -> Option<Given> {
        if self.part.r#type != "dynamic-tool" || self.tool_name != AiSdk::ASK_TOOL {
            return None;
        }
        let answer = match self.state.as_str()? {
            "approval-responded" => Verdict::Approved(self.approval.get("approved")?.as_bool()?),
            "output-available" => Verdict::Said(self.output.clone()),
            "output-denied" => Verdict::Approved(false),
            _ => return None,
        };
        Some(Given {
            request_id: self.tool_call_id.as_str()?.to_owned(),
            answer,
        })
    }
}

/// One part of a message.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MessagePart)]
pub(super) struct Part {
    r#type: String,
    /// What a part of the type `text` says.
    text: Option<String>,
}

/// What a message says.
#[derive(Debug)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
    /// Of an activity.
    Object,
}

/// The schema of [`Content`].
fn content() -> Schema {
    let of = |kind| ObjectBuilder::new().schema_type(kind);
    OneOfBuilder::new()
        .description(Some("Of a user a string or a list of parts."))
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

/// By hand, because an untagged enum says of a mistake only that nothing matched.
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

impl From<Message> for (Speaker, Content) {
    fn from(message: Message) -> Self {
        (message.role, message.content)
    }
}

impl From<UiMessage> for (Speaker, Content) {
    fn from(message: UiMessage) -> Self {
        let parts = message.parts.into_iter().map(|part| part.part);
        (message.role, Content::Parts(parts.collect()))
    }
}

/// The question, with what was said before it.
#[expect(private_bounds, reason = "the two kinds of messages are all there is")]
pub(super) fn asked<M: Into<(Speaker, Content)>>(messages: Vec<M>) -> Result<Asked, Refusal> {
    let mut messages: Vec<(Speaker, Content)> = messages.into_iter().map(Into::into).collect();
    let Some(last) = messages
        .iter()
        .rposition(|(speaker, _)| *speaker == Speaker::User)
    else {
        return Err(invalid("None of the messages is the user's."));
    };
    messages.truncate(last + 1);
    let mut said = Vec::new();
    for (speaker, content) in messages {
        let (role, text) = match speaker {
            Speaker::User => (session::Role::User, typed(content)?),
            Speaker::Assistant => (session::Role::Assistant, answered(content)),
            _ => continue,
        };
        said.push(session::Message::new(role, text));
    }
    let prompt = said.pop().map(|said| said.text).unwrap_or_default();
    said.retain(|said| !said.text.is_empty());
    Ok(Asked::new(prompt).memory(Memory::Given(said)))
}

/// What a user said. An attachment is refused: an answer that leaves it out would look as if it had been read.
fn typed(content: Content) -> Result<String, Refusal> {
    let parts = match content {
        Content::Text(text) => return Ok(text),
        Content::Parts(parts) => parts,
        Content::Object => {
            return Err(invalid(
                "The content of a user's message is a string or a list of parts.",
            ));
        }
    };
    let mut texts = Vec::new();
    for part in parts {
        match (&*part.r#type, part.text) {
            ("text", Some(text)) => texts.push(text),
            ("text", None) => return Err(invalid("A part of the type `text` has no text.")),
            // What an application says to itself.
            (kind, _) if kind.starts_with("data-") => {}
            (kind, _) => {
                let kind = &kind[..kind.floor_char_boundary(MAX_QUOTED_BYTES)];
                return Err(invalid(format!(
                    "A user's message has parts of the type `text`; `{kind}` cannot be read."
                )));
            }
        }
    }
    Ok(texts.join(BETWEEN_PARTS))
}

/// What an assistant said: its tools, thoughts and sources are not repeated.
fn answered(content: Content) -> String {
    match content {
        Content::Text(text) => text,
        Content::Parts(parts) => {
            let texts = parts.into_iter().filter(|part| part.r#type == "text");
            let texts: Vec<String> = texts.filter_map(|part| part.text).collect();
            texts.join(BETWEEN_PARTS)
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
        let asked = asked(serde_json::from_value::<Vec<Message>>(messages).unwrap()).unwrap();
        assert_eq!(asked.prompt, "Two?\nThree?");
        let Memory::Given(said) = asked.memory else {
            panic!("{:?}", asked.memory)
        };
        let said: Vec<_> = said.iter().map(|said| (said.role, &*said.text)).collect();
        assert_eq!(
            said,
            [
                (session::Role::User, "One?"),
                (session::Role::Assistant, "1.\n2."),
            ]
        );
    }
}
