//! Schemas of requests with rules that the derive macros of utoipa cannot express: that a
//! conversation contains a question, or that a body needs one of two members.
//!
//! `tests/clients/openapi.test.js` checks that a route refuses what its schema refuses, and accepts
//! what it allows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ragwire::orchestrator::FILTER;
use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{OpenApi, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::eve::MessageRequest;
use crate::langgraph::RunRequest;
use crate::messages::{Message, UiMessage};
use crate::ollama;
use crate::openai::{self, ChatCompletionRequest};
use crate::responses::ResponseRequest;
use crate::turns::QuestionRequest;

/// Types of parts that may be files.
const FILE_PARTS: [&str; 8] = [
    "audio",
    "binary",
    "document",
    "file",
    "image",
    "image_url",
    "input_audio",
    "video",
];

/// The components of the document.
type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Returns a schema with these keywords of JSON Schema. utoipa has no fields for some of them, such
/// as `contains`.
///
/// Hidden: only for the packages of this workspace.
pub fn schema_of(keywords: &Value) -> Schema {
    let members = keywords.as_object().into_iter().flatten();
    let keywords = members.map(|(name, value)| (name.clone(), value.clone()));
    ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .extensions(Some(Extensions::from_iter(keywords)))
        .into()
}

/// Defines components, each with the types that it refers to.
macro_rules! request_schemas {
    ($($(#[$doc:meta])* $Name:ident: $keywords:expr, [$($Used:ty),*];)*) => { $(
        $(#[$doc])*
        pub(crate) struct $Name;

        impl PartialSchema for $Name {
            fn schema() -> RefOr<Schema> {
                schema_of(&$keywords).into()
            }
        }

        impl ToSchema for $Name {
            fn name() -> Cow<'static, str> {
                stringify!($Name).into()
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                let used: Vec<(String, RefOr<Schema>)> =
                    vec![$((<$Used>::name().into_owned(), <$Used>::schema())),*];
                schemas.extend(used);
                $(<$Used>::schemas(schemas);)*
            }
        }
    )* };
}

request_schemas! {
    /// A filter, until [`set_filter`] says what the orchestrator accepts.
    Filter: json!({"type": "object", "description": "Which documents to search, as the orchestrator defines it."}), [];
    /// A JSON schema for the answer.
    OutputSchema: json!({"type": "object", "description": "The JSON schema that the answer must satisfy."}), [];
    /// A part of a message that is a file.
    FilePart: json!({
        "type": "object",
        "description": "A file, in the form of the client's protocol.",
        "required": ["type"],
        "properties": {"type": {"enum": FILE_PARTS}},
    }), [];
    /// Images of a message, which are files.
    Images: json!({
        "type": ["array", "null"],
        "description": "Images in base 64.",
        "items": {"type": "string"},
    }), [];
    /// `think` of Ollama.
    OllamaThink: json!({
        "type": ["boolean", "string", "null"],
        "description": "Whether the steps are sent as `thinking`. Default: `true`; a level counts as `true`.",
    }), [];
    /// `format` of Ollama.
    OllamaFormat: json!({
        "description": "The form of the answer: `json` for any object, or a JSON schema, if the endpoint has structured results.",
        "anyOf": [{"enum": [null, ""]}, {"const": "json"}, reference::<OutputSchema>()],
    }), [OutputSchema];
    /// The messages of OpenAI and AG-UI.
    ChatMessages: conversation::<Message>("content", &json!({"anyOf": [text(), user_parts()]})), [Message, FilePart, Images];
    /// The messages of the AI SDK.
    UiMessages: conversation::<UiMessage>("parts", &user_parts()), [UiMessage, FilePart, Images];
    /// `response_format` of OpenAI.
    ResponseFormat: json!({
        "description": "The form of the answer: text, or a JSON schema if the endpoint has structured results.",
        "anyOf": [
            {"type": "null"},
            plain_text(),
            {
                "type": "object",
                "required": ["type", "json_schema"],
                "properties": {
                    "type": {"const": "json_schema"},
                    "json_schema": {
                        "type": "object",
                        "required": ["schema"],
                        "properties": {"schema": reference::<OutputSchema>()},
                    },
                },
            },
        ],
    }), [OutputSchema];
    /// `text` of OpenAI's Responses.
    ResponseText: json!({
        "type": ["object", "null"],
        "description": "The form of the answer: text, or a JSON schema if the endpoint has structured results.",
        "properties": {"format": {"anyOf": [
            {"type": "null"},
            plain_text(),
            {
                "type": "object",
                "required": ["type", "schema"],
                "properties": {"type": {"const": "json_schema"}, "schema": reference::<OutputSchema>()},
            },
        ]}},
    }), [OutputSchema];
    /// `reasoning` of OpenAI's Responses.
    ResponseReasoning: json!({
        "type": ["object", "null"],
        "description": "The effort: `{\"effort\": \"low\"}`. Steps are always summarised.",
        "properties": {"effort": effort()},
    }), [];
    /// `reasoning_effort` of OpenAI.
    ReasoningEffort: effort(), [];
    /// `tools` of OpenAI's Responses.
    ResponseTools: json!({
        "type": ["array", "null"],
        "description": "Only `file_search` and `mcp`: what the orchestrator does anyway.",
        "items": {
            "type": "object",
            "required": ["type"],
            "properties": {"type": {"enum": ["file_search", "mcp"]}},
        },
    }), [];
    /// `input` of OpenAI's Responses.
    ResponseInput: json!({
        "description": "The question as a string, or a list of messages with the question as the user's last one.",
        "anyOf": [
            text(),
            {"type": "array", "contains": {
                "type": "object",
                "required": ["role", "content"],
                "properties": {"role": {"const": "user"}, "content": {"anyOf": [
                    text(),
                    {"type": "array", "contains": {
                        "type": "object",
                        "required": ["type", "text"],
                        "properties": {"type": {"enum": ["input_text", "text"]}, "text": text()},
                    }},
                ]}},
            }},
        ],
    }), [];
    /// A message of Eve that begins a session.
    EveFirstMessage: json!({
        "description": "The question. Members that only later versions of Eve define are ignored.",
        "type": "object",
        "required": ["message"],
        "properties": {"message": eve_text(), "outputSchema": or_null::<OutputSchema>()},
    }), [OutputSchema];
    /// A message of Eve that continues a session, or answers to its questions.
    EveNextMessage: json!({"allOf": [reference::<MessageRequest>(), {"anyOf": [
        {"required": ["message"], "properties": {
            "message": eve_text(),
            "inputResponses": {"type": "array", "maxItems": 0},
        }},
        {"required": ["inputResponses"], "properties": {
            "message": {"type": "null"},
            "inputResponses": {"type": "array", "minItems": 1, "items": {"anyOf": [
                {"required": ["optionId"], "properties": {"optionId": {"type": "string"}}},
                {"required": ["text"], "properties": {"text": {"type": "string"}}},
            ]}},
        }},
    ]}]}), [MessageRequest];
    /// A run of a thread: a question, or the answer to one.
    LangGraphThreadRun: json!({"allOf": [reference::<RunRequest>(), {"anyOf": [
        asked(),
        {"required": ["command"], "properties": {"command": {
            "type": "object",
            "required": ["resume"],
            "properties": {"resume": {"not": {"type": "null"}}},
        }}},
    ]}]}), [RunRequest, LangGraphInput];
    /// A run without a thread.
    LangGraphStatelessRun: json!({"allOf": [reference::<RunRequest>(), asked()]}), [RunRequest, LangGraphInput];
    /// The ID of a session, which a client chooses.
    SessionId: json!({
        "type": "string",
        "description": "1 to 128 letters, digits, `-`, `_` and `.`, and not only dots.",
        "minLength": 1,
        "maxLength": 128,
        "pattern": "^[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*$",
    }), [];
    /// A question with a session or with earlier messages, not both.
    TurnQuestion: json!({"allOf": [reference::<QuestionRequest>(), {"anyOf": [
        {"properties": {"session_id": {"type": "null"}}},
        {"properties": {"history": {"maxItems": 0}}},
    ]}]}), [QuestionRequest];
    /// The kind of an answer.
    ServiceOfQuestion: json!({
        "description": "The kind of answer, in place of an agent's: one of TrustGraph's services with its limits.",
        "anyOf": [
            {"const": "agent"},
            {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false, "properties": {
                "graph_rag": {"type": "object"},
                "document_rag": {"type": "object"},
            }},
        ],
    }), [];
    /// `input` of LangGraph.
    LangGraphInput: json!({
        "description": "A question, or `messages` with the question as the last human one. Other members are passed on.",
        "anyOf": [
            text(),
            {"type": "object", "required": ["question"], "properties": {"question": text()}},
            {"type": "object", "required": ["prompt"], "properties": {"prompt": text()}},
            {"type": "object", "required": ["query"], "properties": {"query": text()}},
            {"type": "object", "required": ["input"], "properties": {"input": text()}},
            {"type": "object", "required": ["messages"], "properties": {"messages": {
                "anyOf": [text(), {"type": "array", "contains": langchain_message(&["human", "user"])}],
            }}},
        ],
    }), [];
    /// `values` of LangGraph's state.
    LangGraphValues: json!({
        "type": ["object", "null"],
        "description": "`messages`: one message or a list. A message with the ID of another replaces it, `remove` \
                        removes it, and every other is added at the end.",
        "properties": {"messages": {"anyOf": [
            {"type": "null"},
            // A pair would be a list of two messages.
            {"allOf": [{"type": ["string", "object"]}, changed_message()]},
            {"type": "array", "items": changed_message()},
        ]}},
        "additionalProperties": false,
    }), [];
}

/// A run with a question.
fn asked() -> Value {
    json!({"required": ["input"], "properties": {"input": reference::<LangGraphInput>()}})
}

/// A text that is not blank. U+0085 is white space for the server and not for regular expressions of JSON Schema.
fn text() -> Value {
    json!({"type": "string", "pattern": r"[^\s\u0085]"})
}

fn reference<T: ToSchema>() -> Value {
    json!({"$ref": format!("#/components/schemas/{}", T::name())})
}

/// Returns the schema of a value that may be `null`.
pub(crate) fn optional<T: ToSchema>() -> Schema {
    schema_of(&or_null::<T>())
}

fn or_null<T: ToSchema>() -> Value {
    json!({"anyOf": [{"type": "null"}, reference::<T>()]})
}

fn plain_text() -> Value {
    json!({"type": "object", "required": ["type"], "properties": {"type": {"const": "text"}}})
}

fn effort() -> Value {
    json!({
        "description": "The effort.",
        "enum": ["none", "minimal", "low", "medium", "high", "xhigh", null],
    })
}

/// A part of a message that is a text with this schema.
fn text_part(text: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["type", "text"],
        "properties": {"type": {"const": "text"}, "text": text},
    })
}

/// What a user may send as parts: texts, of which one is not blank, data of the application, and
/// files.
fn user_parts() -> Value {
    json!({
        "type": "array",
        "items": {"anyOf": [
            text_part(&json!({"type": "string"})),
            {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string", "pattern": "^data-"}},
            },
            reference::<FilePart>(),
        ]},
        "contains": text_part(&text()),
    })
}

/// Messages of which one is a question of the user, with `question` in this member.
fn conversation<M: ToSchema>(member: &str, question: &Value) -> Value {
    let asked = json!({
        "type": "object",
        "required": ["role", member],
        "properties": {"role": {"const": "user"}, member: question, "images": reference::<Images>()},
    });
    let of_others = json!({"properties": {"role": {"not": {"const": "user"}}}});
    json!({
        "type": "array",
        "description": "The messages, oldest first. The last one of the user is the question.",
        "items": {"allOf": [reference::<M>(), {"anyOf": [of_others, asked]}]},
        "contains": asked,
    })
}

/// A text of Eve, or parts that are all texts and of which one is not blank.
fn eve_text() -> Value {
    json!({"anyOf": [
        text(),
        {"type": "array", "items": text_part(&json!({"type": "string"})), "contains": text_part(&text())},
    ]})
}

/// A message of LangChain by one of these authors: an object, or a pair.
fn langchain_message(authors: &[&str]) -> Value {
    let author = json!({"enum": authors});
    let content = json!({"anyOf": [
        text(),
        {"type": "array", "contains": {"anyOf": [
            text(),
            {"type": "object", "required": ["text"], "properties": {"text": text()}},
        ]}},
    ]});
    json!({"anyOf": [
        text(),
        {"type": "array", "prefixItems": [author, content], "minItems": 2},
        {
            "type": "object",
            "required": ["type", "content"],
            "properties": {"type": author, "content": content},
        },
        {
            "type": "object",
            "required": ["role", "content"],
            "properties": {"role": author, "content": content, "type": {"not": {"type": "string"}}},
        },
    ]})
}

/// A message that is added to a thread, or one that is removed.
fn changed_message() -> Value {
    json!({"anyOf": [
        langchain_message(&["human", "user", "ai", "assistant"]),
        {
            "type": "object",
            "required": ["type", "id"],
            "properties": {"type": {"const": "remove"}, "id": {"type": "string"}},
        },
    ]})
}

/// Says what the orchestrator accepts as a filter.
///
/// Hidden: only for the packages of this workspace.
pub fn set_filter(document: &mut OpenApi, schema: &Value) {
    if let Some(components) = &mut document.components {
        replace::<Filter>(&mut components.schemas, schema);
    }
}

/// Finishes the document of endpoints that read files and have structured results, or not, and that
/// honour these parameters.
pub(crate) fn complete(
    document: &mut OpenApi,
    reads_files: bool,
    has_structured_results: bool,
    honoured: &[String],
) {
    if let Some(components) = &mut document.components {
        let schemas = &mut components.schemas;
        if !reads_files {
            let why = "This server reads no files.";
            let none = json!({"type": ["array", "null"], "maxItems": 0, "description": why});
            replace::<FilePart>(schemas, &json!({"not": {}, "description": why}));
            replace::<Images>(schemas, &none);
        }
        if !has_structured_results {
            let why = "This server has no structured results.";
            replace::<OutputSchema>(schemas, &json!({"not": {}, "description": why}));
            replace::<OllamaFormat>(schemas, &json!({"enum": [null, ""], "description": why}));
        }
        describe_parameters(schemas, honoured);
    }
    for item in document.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete] {
            let parameters = operation
                .iter_mut()
                .filter_map(|Operation { parameters, .. }| parameters.as_mut());
            for parameter in parameters.flatten() {
                if let RefOr::T(parameter) = parameter {
                    drop_null(parameter);
                }
            }
        }
    }
}

/// Replaces a component, if the document has it.
fn replace<T: ToSchema>(schemas: &mut Schemas, keywords: &Value) {
    let component = schemas.entry(T::name().into_owned());
    component.and_modify(|old| *old = schema_of(keywords).into());
}

/// Says which parameters the protocols of OpenAI and Ollama accept.
fn describe_parameters(schemas: &mut Schemas, honoured: &[String]) {
    let has_filter = schemas.contains_key(&*Filter::name());
    let schema = |name: &str| match name {
        FILTER if has_filter => optional::<Filter>(),
        _ => schema_of(&json!({})),
    };
    let mut honoured: Vec<(&str, Schema)> = honoured.iter().map(|name| (&**name, schema(name))).collect();
    for name in [ChatCompletionRequest::name(), ResponseRequest::name()] {
        if let Some(RefOr::T(Schema::Object(request))) = schemas.get_mut(&*name) {
            openai::PARAMETERS.describe(request, &honoured);
        }
    }
    // Ollama's name for `max_tokens`.
    if honoured.iter().any(|(name, _)| *name == "max_tokens") {
        honoured.push(("num_predict", schema("num_predict")));
    }
    let Some(RefOr::T(Schema::Object(mut settings))) = schemas.remove(&*ollama::Settings::name()) else {
        return;
    };
    if let Some(RefOr::T(Schema::Object(options))) = settings.properties.get_mut("options") {
        ollama::OPTIONS.describe(options, &honoured);
    }
    for name in [ollama::ChatRequest::name(), ollama::GenerateRequest::name()] {
        let Some(RefOr::T(request)) = schemas.get_mut(&*name) else {
            continue;
        };
        // An object that allows no further members cannot be one of two in `allOf`.
        if let Schema::AllOf(both) = request {
            let own = both.items.iter().find_map(|part| match part {
                RefOr::T(Schema::Object(own)) => Some(own.clone()),
                _ => None,
            });
            let mut own = own.unwrap_or_default();
            own.description = both.description.take();
            own.properties.extend(settings.properties.clone());
            ollama::MEMBERS.describe(&mut own, &[]);
            *request = own.into();
        }
    }
}

/// Removes `null` from the types of a parameter, which can only be absent.
fn drop_null(parameter: &mut Parameter) {
    let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema else {
        return;
    };
    if let SchemaType::Array(types) = &mut object.schema_type {
        types.retain(|one| *one != Type::Null);
        if let [one] = types.as_slice() {
            object.schema_type = SchemaType::Type(one.clone());
        }
    }
}
