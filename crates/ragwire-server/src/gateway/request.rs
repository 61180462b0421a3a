//! Questions as request bodies: one function per protocol.
//!
//! An orchestrator with a known protocol gets that protocol's own request; any other gets the JSON
//! of a [`Question`], which `docs/gateway-orchestrators.md` documents.

use ragwire::orchestrator::{Attachment, Effort, Question};
use ragwire::session::{Message, Role};
use ragwire::wire::WireKind;
use ragwire::wire::langgraph::resume;
use serde_json::{Map, Value, json};

use super::error::GatewayError;
use super::interrupts::{Answered, Interrupt};
use super::transcript::Transcript;

/// The name of the model or the assistant if none is set: LangGraph's own examples call theirs so.
const DEFAULT_MODEL: &str = "agent";
/// The required name of OpenAI's schema; it has no effect.
const SCHEMA_NAME: &str = "answer";

/// What a request needs besides the question.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestContext<'a> {
    /// The turn's ID, which also names the run where a protocol needs a name.
    pub(super) turn: &'a str,
    /// The model or assistant of `--orchestrator-model`.
    pub(super) model: Option<&'a str>,
}

impl RequestContext<'_> {
    fn model(&self) -> &str {
        self.model.unwrap_or(DEFAULT_MODEL)
    }
}

/// Returns the body for an orchestrator with this wire, or with an unknown one.
pub(super) fn body(wire: Option<WireKind>, question: &Question, context: RequestContext<'_>) -> Value {
    match wire {
        Some(WireKind::OpenAi) => openai(question, context),
        Some(WireKind::AgUi) => ag_ui(question, context),
        Some(WireKind::AiSdk) => ai_sdk(question, context),
        Some(WireKind::LangGraph) => langgraph(question, context),
        Some(WireKind::Responses) => responses(question, context),
        Some(WireKind::Ollama) => ollama(question, context),
        _ => plain(question),
    }
}

/// Checks that the request has a place for each file of the question.
pub(super) fn check_files(wire: Option<WireKind>, question: &Question) -> Result<(), GatewayError> {
    // Ollama takes images, as base64.
    let is_taken = |file: &&Attachment| is_image(file) && file.url.contains(";base64,");
    let is_refused = |file: &&Attachment| wire == Some(WireKind::Ollama) && !is_taken(file);
    match question.attachments.iter().find(is_refused) {
        Some(file) => Err(GatewayError::FileNotAccepted(shown(&file.media_type))),
        None => Ok(()),
    }
}

/// The longest media type that an error repeats, in characters.
const MAX_MEDIA_TYPE_CHARS: usize = 100;

fn shown(media_type: &str) -> String {
    media_type.chars().take(MAX_MEDIA_TYPE_CHARS).collect()
}

/// What becomes of the schema of an answer in a protocol's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaPlace {
    /// There is no place for it, so a question with a schema is refused.
    None,
    /// A model server writes the JSON as the text of its answer.
    Text,
    /// The orchestrator gets it with the question, and reports the result itself.
    Question,
}

/// Returns where [`body`] puts a schema.
pub(super) fn schema_place(wire: Option<WireKind>) -> SchemaPlace {
    match wire {
        Some(WireKind::OpenAi | WireKind::Responses | WireKind::Ollama) => SchemaPlace::Text,
        Some(WireKind::AgUi | WireKind::AiSdk | WireKind::LangGraph) => SchemaPlace::None,
        _ => SchemaPlace::Question,
    }
}

/// The JSON of the question.
pub(super) fn plain(question: &Question) -> Value {
    serde_json::to_value(question).unwrap_or_default()
}

/// OpenAI's chat completion, streamed.
fn openai(question: &Question, context: RequestContext<'_>) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), context.model().into());
    body.insert("messages".into(), messages(question, chat_content(question)));
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    // Models without reasoning refuse the member, so it is sent only if the client chose an effort.
    if question.effort != Effort::default() {
        body.insert("reasoning_effort".into(), json!(question.effort));
    }
    insert_origin(question, &mut body);
    if let Some(schema) = &question.options.output_schema {
        let schema = json!({"name": SCHEMA_NAME, "strict": true, "schema": schema});
        body.insert(
            "response_format".into(),
            json!({"type": "json_schema", "json_schema": schema}),
        );
    }
    Value::Object(body)
}

/// Inserts whose question it is, and the members that the client's protocol passes through.
fn insert_origin(question: &Question, body: &mut Map<String, Value>) {
    if !question.owner.is_empty() {
        body.insert("user".into(), question.owner.as_str().into());
    }
    if !question.options.extra.is_empty() {
        body.insert("metadata".into(), Value::Object(question.options.extra.clone()));
    }
}

/// The question as the content of a chat completion's message, which LangChain's messages share.
fn chat_content(question: &Question) -> Value {
    content(question, "text", |file| {
        if is_image(file) {
            json!({"type": "image_url", "image_url": {"url": file.url}})
        } else {
            json!({"type": "file", "file": {"filename": file.name, "file_data": file.url}})
        }
    })
}

/// The question as a string or, with files, as parts of which the first one has this type.
fn content(question: &Question, text: &str, part: impl Fn(&Attachment) -> Value) -> Value {
    if question.attachments.is_empty() {
        return question.prompt.as_str().into();
    }
    let text = json!({"type": text, "text": question.prompt});
    let files = question.attachments.iter().map(part);
    std::iter::once(text).chain(files).collect()
}

fn is_image(file: &Attachment) -> bool {
    file.media_type.starts_with("image/")
}

/// AG-UI's `RunAgentInput`.
fn ag_ui(question: &Question, context: RequestContext<'_>) -> Value {
    let turn = context.turn;
    let mut messages: Vec<Value> = earlier(question)
        .enumerate()
        .map(|(at, (role, text))| json!({"id": format!("{turn}-{at}"), "role": role, "content": text}))
        .collect();
    let asked = content(question, "text", |file| {
        let mut part = json!({"type": "binary", "mimeType": file.media_type});
        match file
            .url
            .strip_prefix("data:")
            .and_then(|url| url.split_once(";base64,"))
        {
            Some((_, data)) => part["data"] = data.into(),
            None => part["url"] = file.url.as_str().into(),
        }
        if let Some(name) = &file.name {
            part["filename"] = name.as_str().into();
        }
        part
    });
    messages.push(json!({"id": turn, "role": "user", "content": asked}));
    json!({
        "threadId": turn,
        "runId": turn,
        "state": {},
        "messages": messages,
        "tools": [],
        "context": [],
        "forwardedProps": question.options.extra,
    })
}

/// The body of the AI SDK's `DefaultChatTransport`, with UI messages.
fn ai_sdk(question: &Question, context: RequestContext<'_>) -> Value {
    let turn = context.turn;
    let mut messages: Vec<Value> = earlier(question)
        .enumerate()
        .map(|(at, (role, text))| {
            json!({"id": format!("{turn}-{at}"), "role": role, "parts": [{"type": "text", "text": text}]})
        })
        .collect();
    let files = question.attachments.iter().map(
        |file| json!({"type": "file", "mediaType": file.media_type, "filename": file.name, "url": file.url}),
    );
    let text = json!({"type": "text", "text": question.prompt});
    let parts: Vec<Value> = files.chain([text]).collect();
    messages.push(json!({"id": turn, "role": "user", "parts": parts}));
    // Members of the client's own body, as `useChat` would send them.
    let mut body = question.options.extra.clone();
    body.insert("id".into(), turn.into());
    body.insert("messages".into(), messages.into());
    body.insert("trigger".into(), "submit-message".into());
    Value::Object(body)
}

/// A run of LangGraph's server, for `/runs/stream` or `/threads/{id}/runs/stream`.
fn langgraph(question: &Question, context: RequestContext<'_>) -> Value {
    json!({
        "assistant_id": context.model(),
        "input": {"messages": messages(question, chat_content(question))},
        "stream_mode": ["messages-tuple", "updates", "custom"],
        "config": {"configurable": question.options.extra},
        "on_disconnect": "cancel",
        "if_not_exists": "create",
    })
}

/// The request after one whose answer ended at questions: the first request `asked`, with the answers
/// to them. `runs` requests were sent before.
pub(super) fn continued(
    mut asked: Value,
    answered: &Answered,
    transcript: &mut Transcript,
    turn: &str,
    runs: usize,
) -> Value {
    for (question, answer) in answered {
        if let Some(call) = question.result_of() {
            transcript.add_result(call, answer.clone(), false);
        }
    }
    let answers_of = |wire: &dyn Fn(&Interrupt) -> bool| answered.iter().any(|(asked, _)| wire(asked));
    if answers_of(&|asked| matches!(asked, Interrupt::LangGraph(_))) {
        let answers = answered.iter().filter_map(|(asked, answer)| match asked {
            Interrupt::LangGraph(interrupt) => Some((interrupt.clone(), answer.clone())),
            Interrupt::AgUi(_) | Interrupt::AiSdk(_) => None,
        });
        asked["input"] = Value::Null;
        asked["command"] = json!({"resume": resume(answers)});
    } else if answers_of(&|asked| matches!(asked, Interrupt::AgUi(_))) {
        let entries = answered.iter().filter_map(|(asked, answer)| match asked {
            Interrupt::AgUi(interrupt) => interrupt.resume_entry(answer.clone()),
            Interrupt::LangGraph(_) | Interrupt::AiSdk(_) => None,
        });
        let entries: Vec<Value> = entries.collect();
        let mut messages = transcript.ag_ui(turn);
        if let Some(asked) = asked["messages"].as_array_mut() {
            asked.append(&mut messages);
        }
        asked["runId"] = format!("{turn}-{}", runs + 1).into();
        if !entries.is_empty() {
            asked["resume"] = entries.into();
        }
    } else {
        let id = format!("{turn}-answer");
        let parts = transcript.ui_parts(answered);
        if let Some(messages) = asked["messages"].as_array_mut() {
            messages.push(json!({"id": id, "role": "assistant", "parts": parts}));
        }
        asked["messageId"] = id.into();
    }
    asked
}

/// OpenAI's Responses, streamed and not stored: the conversation is this server's.
fn responses(question: &Question, context: RequestContext<'_>) -> Value {
    let asked = content(question, "input_text", |file| {
        if is_image(file) {
            json!({"type": "input_image", "image_url": file.url})
        } else {
            let place = if file.url.starts_with("data:") {
                "file_data"
            } else {
                "file_url"
            };
            json!({"type": "input_file", "filename": file.name, place: file.url})
        }
    });
    let mut body = Map::new();
    body.insert("model".into(), context.model().into());
    body.insert("input".into(), messages(question, asked));
    body.insert("stream".into(), true.into());
    body.insert("store".into(), false.into());
    // As in a chat completion.
    if question.effort != Effort::default() {
        body.insert("reasoning".into(), json!({"effort": question.effort}));
    }
    insert_origin(question, &mut body);
    if let Some(schema) = &question.options.output_schema {
        let format = json!({"type": "json_schema", "name": SCHEMA_NAME, "strict": true, "schema": schema});
        body.insert("text".into(), json!({"format": format}));
    }
    Value::Object(body)
}

/// Ollama's chat, which takes only images, as base64.
fn ollama(question: &Question, context: RequestContext<'_>) -> Value {
    let mut messages = messages(question, question.prompt.as_str().into());
    let images = question.attachments.iter().filter(|file| is_image(file));
    let images: Vec<&str> = images
        .filter_map(|file| Some(file.url.split_once(";base64,")?.1))
        .collect();
    if let Some(asked) = messages.as_array_mut().and_then(|messages| messages.last_mut())
        && !images.is_empty()
    {
        asked["images"] = json!(images);
    }
    let mut body = json!({
        "model": context.model(),
        "messages": messages,
        "stream": true,
    });
    if let Some(schema) = &question.options.output_schema {
        body["format"] = schema.clone();
    }
    body
}

/// The conversation with the question at its end, in the form that most protocols share.
fn messages(question: &Question, asked: Value) -> Value {
    let mut messages: Vec<Value> = earlier(question)
        .map(|(role, text)| json!({"role": role, "content": text}))
        .collect();
    let mut last = json!({"role": "user"});
    last["content"] = asked;
    messages.push(last);
    messages.into()
}

fn earlier(question: &Question) -> impl Iterator<Item = (&'static str, &str)> {
    question.history.iter().map(|Message { role, text, .. }| {
        let role = match role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        (role, text.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        let mut question = Question::new("And why?");
        question.history = vec![
            Message::new(Role::User, "What?"),
            Message::new(Role::Assistant, "This."),
        ];
        question.owner = "alice".into();
        question.options.extra.insert("tenant".into(), "acme".into());
        question
    }

    const CONTEXT: RequestContext<'_> = RequestContext {
        turn: "t",
        model: None,
    };

    #[test]
    fn each_protocol_gets_its_own_request() {
        for (body, expected) in [
            (
                body(None, &question(), CONTEXT),
                json!({
                    "prompt": "And why?",
                    "history": [{"role": "user", "text": "What?"}, {"role": "assistant", "text": "This."}],
                    "owner": "alice",
                    "effort": "medium",
                    "options": {
                        "review": false, "verify": true, "sources_last": false, "service": "agent",
                        "extra": {"tenant": "acme"},
                    },
                }),
            ),
            (
                openai(&question(), CONTEXT),
                json!({
                    "model": "agent",
                    "messages": [
                        {"role": "user", "content": "What?"},
                        {"role": "assistant", "content": "This."},
                        {"role": "user", "content": "And why?"},
                    ],
                    "stream": true,
                    "stream_options": {"include_usage": true},
                    "user": "alice",
                    "metadata": {"tenant": "acme"},
                }),
            ),
            (
                ag_ui(&question(), CONTEXT),
                json!({
                    "threadId": "t",
                    "runId": "t",
                    "state": {},
                    "messages": [
                        {"id": "t-0", "role": "user", "content": "What?"},
                        {"id": "t-1", "role": "assistant", "content": "This."},
                        {"id": "t", "role": "user", "content": "And why?"},
                    ],
                    "tools": [],
                    "context": [],
                    "forwardedProps": {"tenant": "acme"},
                }),
            ),
            (
                ai_sdk(&question(), CONTEXT),
                json!({
                    "tenant": "acme",
                    "id": "t",
                    "messages": [
                        {"id": "t-0", "role": "user", "parts": [{"type": "text", "text": "What?"}]},
                        {"id": "t-1", "role": "assistant", "parts": [{"type": "text", "text": "This."}]},
                        {"id": "t", "role": "user", "parts": [{"type": "text", "text": "And why?"}]},
                    ],
                    "trigger": "submit-message",
                }),
            ),
            (
                responses(&question(), CONTEXT),
                json!({
                    "model": "agent",
                    "input": [
                        {"role": "user", "content": "What?"},
                        {"role": "assistant", "content": "This."},
                        {"role": "user", "content": "And why?"},
                    ],
                    "stream": true,
                    "store": false,
                    "user": "alice",
                    "metadata": {"tenant": "acme"},
                }),
            ),
            (
                ollama(&question(), CONTEXT),
                json!({
                    "model": "agent",
                    "messages": [
                        {"role": "user", "content": "What?"},
                        {"role": "assistant", "content": "This."},
                        {"role": "user", "content": "And why?"},
                    ],
                    "stream": true,
                }),
            ),
            (
                langgraph(&question(), CONTEXT),
                json!({
                    "assistant_id": "agent",
                    "input": {"messages": [
                        {"role": "user", "content": "What?"},
                        {"role": "assistant", "content": "This."},
                        {"role": "user", "content": "And why?"},
                    ]},
                    "stream_mode": ["messages-tuple", "updates", "custom"],
                    "config": {"configurable": {"tenant": "acme"}},
                    "on_disconnect": "cancel",
                    "if_not_exists": "create",
                }),
            ),
        ] {
            assert_eq!(body, expected);
        }
    }

    #[test]
    fn files_an_effort_and_a_schema_are_sent_where_the_protocol_has_a_place() {
        let mut question = Question::new("What is this?");
        let mut text = Attachment::new("text/plain", "https://a/b.txt");
        text.name = Some("b.txt".into());
        question.attachments = vec![Attachment::new("image/png", "data:image/png;base64,AA=="), text];
        question.effort = Effort::High;
        question.options.output_schema = Some(json!({"type": "object"}));

        let body = openai(&question, CONTEXT);
        let chat = json!([
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            {"type": "file", "file": {"filename": "b.txt", "file_data": "https://a/b.txt"}},
        ]);
        assert_eq!(body["messages"][0]["content"], chat);
        assert_eq!(body["reasoning_effort"], "high");
        assert_eq!(
            body["response_format"]["json_schema"],
            json!({"name": "answer", "strict": true, "schema": {"type": "object"}})
        );

        let body = responses(&question, CONTEXT);
        assert_eq!(
            body["input"][0]["content"],
            json!([
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
                {"type": "input_file", "filename": "b.txt", "file_url": "https://a/b.txt"},
            ])
        );
        assert_eq!(body["reasoning"], json!({"effort": "high"}));
        assert_eq!(
            body["text"]["format"],
            json!({"type": "json_schema", "name": "answer", "strict": true, "schema": {"type": "object"}})
        );

        let body = langgraph(&question, CONTEXT);
        assert_eq!(body["input"]["messages"][0]["content"], chat);

        let body = ag_ui(&question, CONTEXT);
        assert_eq!(
            body["messages"][0]["content"],
            json!([
                {"type": "text", "text": "What is this?"},
                {"type": "binary", "mimeType": "image/png", "data": "AA=="},
                {"type": "binary", "mimeType": "text/plain", "url": "https://a/b.txt", "filename": "b.txt"},
            ])
        );

        let body = ollama(&question, CONTEXT);
        assert_eq!(
            body["messages"][0],
            json!({"role": "user", "content": "What is this?", "images": ["AA=="]})
        );
        assert_eq!(body["format"], json!({"type": "object"}));
    }

    #[test]
    fn a_question_keeps_its_headers_to_itself() {
        let mut question = question();
        question.options.headers = [("authorization", "Bearer s3cret")].into_iter().collect();
        assert!(!plain(&question).to_string().contains("s3cret"));
        let read: Question = serde_json::from_value(plain(&question)).unwrap();
        assert_eq!(read.prompt, question.prompt);
    }
}
