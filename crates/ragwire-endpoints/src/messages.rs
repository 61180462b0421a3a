//! The messages of chat clients that store the conversation themselves: the AI SDK, AG-UI and the
//! SDKs of OpenAI.
//!
//! The last message of the user is the question, and the messages before it are the history.
//! `system` and `developer` messages are the instructions. Other messages are ignored, because the
//! client's tools are not called here, and so is everything after the question. Files are the
//! question's attachments.

use std::fmt;

use ragwire::orchestrator::Attachment;
use ragwire::{AiSdk, Question, session};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::Ref;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};

use crate::human::{HumanAnswer, Verdict};
use crate::refusal::{Refusal, quotable};
use crate::request::invalid;

/// Separator between the texts of one message.
const PART_SEPARATOR: &str = "\n";
/// Separator between the instructions of several messages.
pub(crate) const MESSAGE_SEPARATOR: &str = "\n\n";
/// The type of a file whose type is not given.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The author of a message: the roles of all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Speaker)]
#[non_exhaustive]
pub enum ChatRole {
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
#[non_exhaustive]
pub struct Message {
    /// The author.
    pub role: ChatRole,
    /// A string or a list of parts. It may be missing if an assistant only called tools.
    #[serde(default)]
    #[schema(schema_with = content)]
    content: Content,
    /// Images in base 64, as Ollama's clients send them.
    images: Option<Vec<String>>,
}

impl Message {
    /// Creates a user's message.
    pub(crate) fn user(text: String, images: Vec<String>) -> Self {
        Self {
            role: ChatRole::User,
            content: Content::Text(text),
            images: Some(images),
        }
    }
}

/// A message of the AI SDK.
#[derive(Debug, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct UiMessage {
    /// The id that the client gave the message.
    pub id: Option<String>,
    /// The author.
    pub role: ChatRole,
    parts: Vec<UiPart>,
}

/// One part of a message. The part of a tool that asked a human contains the answer.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = UiMessagePart)]
struct UiPart {
    #[serde(flatten)]
    part: Part,
    /// For a tool: its name.
    #[serde(rename = "toolName")]
    tool_name: Option<String>,
    /// For a tool: the id of the call, which is the question's `request_id`.
    #[serde(rename = "toolCallId")]
    tool_call_id: Option<String>,
    /// For a tool: `approval-responded` with a human's verdict, `output-available` with a text.
    state: Option<String>,
    /// For a tool: `{id, approved}`.
    approval: Option<Map<String, Value>>,
    /// For a tool: its result.
    #[serde(default)]
    output: Value,
}

impl UiMessage {
    /// Returns the answers of a human in this message.
    pub fn answers(&self) -> Vec<HumanAnswer> {
        self.parts.iter().filter_map(UiPart::answer).collect()
    }
}

impl UiPart {
    fn answer(&self) -> Option<HumanAnswer> {
        if self.part.r#type != "dynamic-tool" || self.tool_name.as_deref() != Some(AiSdk::ASK_TOOL) {
            return None;
        }
        let verdict = match self.state.as_deref()? {
            "approval-responded" => Verdict::Approval(self.approval.as_ref()?.get("approved")?.as_bool()?),
            "output-available" => Verdict::Response(self.output.clone()),
            "output-denied" => Verdict::Approval(false),
            _ => return None,
        };
        Some(HumanAnswer {
            request_id: self.tool_call_id.clone()?,
            verdict,
        })
    }
}

/// One part of a message. A file has further members, in the form of the client's protocol.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MessagePart)]
struct Part {
    r#type: String,
    /// The text, for the type `text`.
    text: Option<String>,
    #[serde(flatten)]
    #[schema(ignore)]
    others: Map<String, Value>,
}

impl Part {
    fn text(text: String) -> Self {
        Self {
            r#type: "text".to_owned(),
            text: Some(text),
            others: Map::new(),
        }
    }

    /// Creates the part of an image in base 64, whose first bytes say what it is.
    fn image(data: &str) -> Self {
        let media_type = match &data.as_bytes()[..data.len().min(4)] {
            b"iVBO" => "image/png",
            b"/9j/" => "image/jpeg",
            b"R0lG" => "image/gif",
            b"UklG" => "image/webp",
            _ => UNKNOWN_TYPE,
        };
        let source = json!({"type": "data", "mimeType": media_type, "value": data});
        Self {
            r#type: "image".to_owned(),
            text: None,
            others: Map::from_iter([("source".to_owned(), source)]),
        }
    }

    /// Returns the file of a part that has one: `file` of the AI SDK and of OpenAI, `image_url` and
    /// `input_audio` of OpenAI, `binary`, `image`, `audio`, `video` and `document` of AG-UI.
    fn attachment(&self) -> Option<Attachment> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let member = |name: &str| self.others.get(name);
        let own = |name: &str| member(name).and_then(Value::as_str).map(str::to_owned);
        let data = |media_type: &str, data: String| format!("data:{media_type};base64,{data}");
        let attachment = |media_type: Option<String>, name: Option<String>, url: String| {
            let media_type = media_type.or_else(|| media_type_of(&url));
            let mut attachment = Attachment::new(media_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned()), url);
            attachment.name = name;
            attachment
        };
        match &*self.r#type {
            "file" => match member("file") {
                Some(file) => Some(attachment(None, text(file, "filename"), text(file, "file_data")?)),
                None => Some(attachment(own("mediaType"), own("filename"), own("url")?)),
            },
            "image_url" => Some(attachment(None, None, text(member("image_url")?, "url")?)),
            "input_audio" => {
                let audio = member("input_audio")?;
                let media_type = format!("audio/{}", text(audio, "format")?);
                let url = data(&media_type, text(audio, "data")?);
                Some(attachment(Some(media_type), None, url))
            }
            "binary" => {
                let media_type = own("mimeType")?;
                let url = own("url").or_else(|| Some(data(&media_type, own("data")?)))?;
                Some(attachment(Some(media_type), own("filename"), url))
            }
            "image" | "audio" | "video" | "document" => {
                let source = member("source")?;
                let (media_type, value) = (text(source, "mimeType"), text(source, "value")?);
                let url = match source.get("type")?.as_str()? {
                    "url" => value,
                    "data" => data(media_type.as_deref()?, value),
                    _ => return None,
                };
                Some(attachment(media_type, None, url))
            }
            _ => None,
        }
    }
}

/// Returns the media type in a `data:` URL.
fn media_type_of(url: &str) -> Option<String> {
    let media_type = url.strip_prefix("data:")?.split([';', ',']).next()?;
    (!media_type.is_empty()).then(|| media_type.to_owned())
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
        let images = message.images.unwrap_or_default();
        if images.is_empty() {
            return (message.role, message.content);
        }
        let mut parts = match message.content {
            Content::Text(text) => vec![Part::text(text)],
            Content::Parts(parts) => parts,
            Content::Object => Vec::new(),
        };
        parts.extend(images.iter().map(|data| Part::image(data)));
        (message.role, Content::Parts(parts))
    }
}

impl From<UiMessage> for (ChatRole, Content) {
    fn from(message: UiMessage) -> Self {
        let parts = message.parts.into_iter().map(|part| part.part);
        (message.role, Content::Parts(parts.collect()))
    }
}

/// Returns the question with the messages before it.
///
/// # Errors
///
/// 422 if no message is the user's, or if one of the user's has a part that is neither a text nor,
/// with `attachments`, a file.
#[expect(private_bounds, reason = "there are only two types of messages")]
pub(crate) fn question<M: Into<(ChatRole, Content)>>(
    messages: Vec<M>,
    attachments: bool,
) -> Result<Question, Refusal> {
    let mut messages: Vec<(ChatRole, Content)> = messages.into_iter().map(Into::into).collect();
    let Some(last) = messages.iter().rposition(|(role, _)| *role == ChatRole::User) else {
        return Err(invalid("The messages contain none of the user."));
    };
    messages.truncate(last + 1);
    let (mut history, mut files, mut instructions) = (Vec::new(), Vec::new(), Vec::new());
    for (role, content) in messages {
        let (role, text) = match role {
            ChatRole::User => (
                session::Role::User,
                user_text(content, attachments.then_some(&mut files))?,
            ),
            ChatRole::Assistant => (session::Role::Assistant, plain_text(content)),
            ChatRole::System | ChatRole::Developer => {
                instructions.push(plain_text(content));
                continue;
            }
            ChatRole::Tool | ChatRole::Function | ChatRole::Activity | ChatRole::Reasoning => continue,
        };
        history.push(session::Message::new(role, text));
    }
    let mut question = Question::new(history.pop().map(|message| message.text).unwrap_or_default());
    history.retain(|message| !message.text.is_empty());
    instructions.retain(|text| !text.is_empty());
    question.history = history;
    question.attachments = files;
    question.options.instructions = (!instructions.is_empty()).then(|| instructions.join(MESSAGE_SEPARATOR));
    Ok(question)
}

/// Returns the text of a user, and adds the files to `files`. Without `files` it refuses them: the
/// answer would look as if they had been read.
fn user_text(content: Content, mut files: Option<&mut Vec<Attachment>>) -> Result<String, Refusal> {
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
        let attachment = files.is_some().then(|| part.attachment()).flatten();
        if let (Some(files), Some(attachment)) = (&mut files, attachment) {
            files.push(attachment);
            continue;
        }
        match (&*part.r#type, part.text) {
            ("text", Some(text)) => texts.push(text),
            ("text", None) => return Err(invalid("A part of the type `text` has no text.")),
            // Data of the application itself.
            (kind, _) if kind.starts_with("data-") => {}
            (kind, _) => {
                let kind = quotable(kind);
                return Err(invalid(format!(
                    "A user's message may only have parts of the type `text`, not `{kind}`."
                )));
            }
        }
    }
    Ok(texts.join(PART_SEPARATOR))
}

/// Returns the text of a message, without tools, reasoning and sources.
fn plain_text(content: Content) -> String {
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
        let question = question(messages, false).unwrap();
        assert_eq!(question.prompt, "Two?\nThree?");
        assert_eq!(question.options.instructions.as_deref(), Some("Be brief."));
        let earlier: Vec<_> = question
            .history
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

    #[test]
    fn files_are_attachments_where_they_are_accepted() {
        let parts = [
            json!({ "type": "file", "mediaType": "image/png", "filename": "a.png", "url": "https://x.test/a" }),
            json!({ "type": "file", "file": { "filename": "b.pdf", "file_data": "data:application/pdf;base64,QQ==" } }),
            json!({ "type": "image_url", "image_url": { "url": "data:image/gif,x" } }),
            json!({ "type": "image_url", "image_url": { "url": "https://x.test/c" } }),
            json!({ "type": "input_audio", "input_audio": { "data": "QQ==", "format": "wav" } }),
            json!({ "type": "binary", "mimeType": "text/csv", "data": "QQ==", "filename": "d.csv" }),
            json!({ "type": "image", "source": { "type": "url", "value": "https://x.test/e", "mimeType": "image/webp" } }),
            json!({ "type": "document", "source": { "type": "data", "value": "QQ==", "mimeType": "text/plain" } }),
        ];
        let expected = [
            ("image/png", Some("a.png"), "https://x.test/a"),
            (
                "application/pdf",
                Some("b.pdf"),
                "data:application/pdf;base64,QQ==",
            ),
            ("image/gif", None, "data:image/gif,x"),
            ("application/octet-stream", None, "https://x.test/c"),
            ("audio/wav", None, "data:audio/wav;base64,QQ=="),
            ("text/csv", Some("d.csv"), "data:text/csv;base64,QQ=="),
            ("image/webp", None, "https://x.test/e"),
            ("text/plain", None, "data:text/plain;base64,QQ=="),
        ];
        for (part, (media_type, name, url)) in parts.iter().zip(expected) {
            let messages = || -> Vec<Message> {
                let text = json!({ "type": "text", "text": "What is it?" });
                serde_json::from_value(json!([{ "role": "user", "content": [part, text] }])).unwrap()
            };
            assert!(question(messages(), false).is_err(), "{part}");
            let question = question(messages(), true).unwrap();
            assert_eq!(question.prompt, "What is it?");
            let [file] = &question.attachments[..] else {
                panic!("{part}: {:?}", question.attachments)
            };
            assert_eq!(
                (&*file.media_type, file.name.as_deref(), &*file.url),
                (media_type, name, url)
            );
        }
        for part in [
            json!({ "type": "file", "mediaType": "image/png" }),
            json!({ "type": "image_url", "image_url": "https://x.test/" }),
            json!({ "type": "image", "source": { "type": "other", "value": "x" } }),
            json!({ "type": "unknown" }),
        ] {
            let messages: Vec<Message> =
                serde_json::from_value(json!([{ "role": "user", "content": [part] }])).unwrap();
            assert!(question(messages, true).is_err(), "{part}");
        }
    }
}
