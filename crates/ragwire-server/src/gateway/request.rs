//! Questions as request bodies: one function per protocol.
//!
//! An orchestrator with a known protocol gets that protocol's own request; any other gets the JSON
//! of a [`Question`], which `docs/gateway-orchestrators.md` documents.

use ragwire::orchestrator::{Attachment, Effort, Question};
use ragwire::session::{Message, Role};
use ragwire::wire::WireKind;
use serde_json::{Map, Value, json};

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
    match wire.map(WireKind::name) {
        Some("openai") => openai(question, context),
        Some("ag_ui") => ag_ui(question, context),
        Some("ai_sdk") => ai_sdk(question, context),
        Some("langgraph") => langgraph(question, context),
        Some("responses") => responses(question, context),
        Some("ollama") => ollama(question, context),
        _ => plain(question),
    }
}

/// The JSON of the question.
pub(super) fn plain(question: &Question) -> Value {
    serde_json::to_value(question).unwrap_or_default()
}

/// OpenAI's chat completion, streamed.
fn openai(question: &Question, context: RequestContext<'_>) -> Value {
    let mut messages: Vec<Value> = earlier(question)
        .map(|(role, text)| json!({"role": role, "content": text}))
        .collect();
    let content = if question.attachments.is_empty() {
        Value::from(question.prompt.as_str())
    } else {
        let text = json!({"type": "text", "text": question.prompt});
        let files = question.attachments.iter().map(openai_file);
        Value::Array(std::iter::once(text).chain(files).collect())
    };
    messages.push(json!({"role": "user", "content": content}));
    let mut body = Map::new();
    body.insert("model".into(), context.model().into());
    body.insert("messages".into(), messages.into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    // Models without reasoning refuse the member, so it is sent only if the client chose an effort.
    if question.effort != Effort::default() {
        body.insert("reasoning_effort".into(), json!(question.effort));
    }
    if !question.owner.is_empty() {
        body.insert("user".into(), question.owner.as_str().into());
    }
    if !question.options.extra.is_empty() {
        body.insert("metadata".into(), Value::Object(question.options.extra.clone()));
    }
    if let Some(schema) = &question.options.output_schema {
        let schema = json!({"name": SCHEMA_NAME, "strict": true, "schema": schema});
        body.insert(
            "response_format".into(),
            json!({"type": "json_schema", "json_schema": schema}),
        );
    }
    Value::Object(body)
}

fn openai_file(file: &Attachment) -> Value {
    if file.media_type.starts_with("image/") {
        json!({"type": "image_url", "image_url": {"url": file.url}})
    } else {
        json!({"type": "file", "file": {"filename": file.name, "file_data": file.url}})
    }
}

/// AG-UI's `RunAgentInput`.
fn ag_ui(question: &Question, context: RequestContext<'_>) -> Value {
    let turn = context.turn;
    let mut messages: Vec<Value> = earlier(question)
        .enumerate()
        .map(|(at, (role, text))| json!({"id": format!("{turn}-{at}"), "role": role, "content": text}))
        .collect();
    messages.push(json!({"id": turn, "role": "user", "content": question.prompt}));
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
        "input": {"messages": messages(question)},
        "stream_mode": ["messages-tuple", "updates", "custom"],
        "config": {"configurable": question.options.extra},
        "on_disconnect": "cancel",
    })
}

/// OpenAI's Responses, streamed and not stored: the conversation is this server's.
fn responses(question: &Question, context: RequestContext<'_>) -> Value {
    json!({
        "model": context.model(),
        "input": messages(question),
        "stream": true,
        "store": false,
    })
}

/// Ollama's chat.
fn ollama(question: &Question, context: RequestContext<'_>) -> Value {
    json!({
        "model": context.model(),
        "messages": messages(question),
        "stream": true,
    })
}

/// The conversation and the question, in the form that most protocols share.
fn messages(question: &Question) -> Vec<Value> {
    earlier(question)
        .chain([("user", question.prompt.as_str())])
        .map(|(role, text)| json!({"role": role, "content": text}))
        .collect()
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
                }),
            ),
        ] {
            assert_eq!(body, expected);
        }
    }

    #[test]
    fn openai_gets_files_an_effort_and_a_schema() {
        let mut question = Question::new("What is this?");
        question.attachments = vec![
            Attachment::new("image/png", "data:image/png;base64,AA=="),
            Attachment::new("text/plain", "data:text/plain,a"),
        ];
        question.effort = Effort::High;
        question.options.output_schema = Some(json!({"type": "object"}));
        let body = openai(&question, CONTEXT);
        assert_eq!(
            body["messages"][0]["content"],
            json!([
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                {"type": "file", "file": {"filename": null, "file_data": "data:text/plain,a"}},
            ])
        );
        assert_eq!(body["reasoning_effort"], "high");
        assert_eq!(
            body["response_format"]["json_schema"],
            json!({"name": "answer", "strict": true, "schema": {"type": "object"}})
        );
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
