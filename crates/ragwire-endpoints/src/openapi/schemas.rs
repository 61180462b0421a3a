//! Schemas for the OpenAPI document of values that other packages define, which do not know
//! OpenAPI. Most of them are inferred from samples that those packages serialize;
//! `tests/clients/openapi.test.js` checks the answers of a running server against the document.

use std::time::{Duration, SystemTime};

use ragwire::event::{Event, Search, Source, Sources, ToolCall, ToolResult};
use ragwire::orchestrator::{DocumentLimits, GraphLimits};
use ragwire::wire::Limits;
use ragwire::wire::openai::OpenAi;
use ragwire::wire::session_chat::SessionChat;
use ragwire::wire::trustgraph::TrustGraph;
use ragwire::{End, Failure, Metadata, Timing, Usage};
use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

pub(crate) use super::Refused;
use super::requests;
#[cfg(test)]
use super::samples::has;
use super::samples::{component, defined, note};

macro_rules! documented {
    ($($(#[$meta:meta])* $Name:ident { $($(#[$field_meta:meta])* $field:ident: $Type:ty,)* })*) => { $(
        #[derive(ToSchema)]
        $(#[$meta])*
        #[expect(dead_code, reason = "only its schema is used")]
        pub(crate) struct $Name {
            $($(#[$field_meta])* $field: $Type,)*
        }
    )* };
}

/// The search effort for a question.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum Effort {
    /// One search.
    None,
    /// Few searches.
    Low,
    /// The default.
    Medium,
    /// Many searches.
    High,
    /// As many searches as possible.
    Xhigh,
}

/// The author of an earlier message.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum Author {
    /// The person who asks.
    User,
    /// The program that answers.
    Assistant,
}

/// How a question is answered.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum Mode {
    /// By an agent that judges the evidence and searches again.
    Agentic,
    /// By a fixed sequence of steps.
    Direct,
}

documented! {
    /// The reason, for a person and for programs.
    RefusalError {
        /// A stable code.
        #[schema(example = "invalid_request")]
        code: String,
        /// The reason, for a person.
        message: String,
        /// Whether a retry may succeed.
        recoverable: bool,
        /// The ID of the request in the server's log: 32 hexadecimal digits.
        request_id: String,
    }

    /// An earlier message of a conversation.
    EarlierMessage {
        role: Author,
        text: String,
    }

    /// Options of a question.
    #[schema(as = QuestionOptions)]
    Options {
        /// Whether the review of the evidence is reported. Default: `false`.
        #[schema(required = false)]
        review: bool,
        /// Whether the claims of the answer are verified. Default: `true`.
        #[schema(required = false)]
        verify: bool,
        /// Whether the sources come after the answer. Default: `false`.
        #[schema(required = false)]
        sources_last: bool,
        /// The kind of answer.
        #[schema(value_type = requests::ServiceOfQuestion, required = false)]
        service: Value,
        /// Instructions for a model.
        instructions: Option<String>,
        /// The JSON schema of the answer.
        #[schema(value_type = Option<requests::OutputSchema>)]
        output_schema: Option<Value>,
        /// Members that are passed to the orchestrator.
        #[schema(value_type = Object, required = false)]
        extra: Value,
    }

    /// The reason why a request was refused, in OpenAI's form. `x-request-id` has the request's ID.
    #[schema(as = OpenAiRefusal)]
    OpenAiRefused {
        error: OpenAiError,
    }

    /// The reason why a request was refused, in LangGraph's form.
    #[schema(as = LangGraphRefusal)]
    LangGraphRefused {
        /// The reason, for a person.
        detail: String,
        error: RefusalError,
    }

    /// The reason why a request was refused, in Ollama's form.
    #[schema(as = OllamaRefusal)]
    OllamaRefused {
        /// The reason, for a person.
        error: String,
    }

    /// The reason, in OpenAI's members.
    OpenAiError {
        /// The reason, for a person.
        message: String,
        /// `invalid_request_error` or `server_error`.
        r#type: String,
        /// The parameter that is the reason, if one is.
        #[schema(required = true)]
        param: Option<String>,
        /// A stable code.
        #[schema(example = "model_not_found")]
        code: String,
    }
}

crate::sampled_schemas! {
    Citation, citations, &[
        note("", "One piece of evidence for the answer."),
        note("/supporting_quote", "The words, exactly as in the document."),
        note("/source_tool", "The tool that retrieved the passage."),
        note("/page_number", "Counted from 1."),
        note("/score", "On the tool's own scale."),
    ];
    Models, models, &[
        note("", "The models."),
        note("/object", "`list`."),
        defined("/data/*", "Model"),
    ];
    Model, model, &[
        note("", "A model."),
        note("/object", "`model`."),
        note("/created", "0: the time is unknown."),
    ];
    ChatCompletion, completions, &[
        note("", "An answer in one piece."),
        note("/object", "`chat.completion`."),
        note("/created", "Seconds since 1970."),
        component("/choices/*", "Choice", "The only choice."),
        component("/choices/*/message", "ChoiceMessage", "The answer."),
        note("/choices/*/message/role", "`assistant`."),
        note("/choices/*/message/reasoning_content", "Steps and thoughts, one line each."),
        note("/choices/*/message/annotations", "The citations: `url_citation` or `file_citation`."),
        note("/choices/*/finish_reason", "`stop`, or `length` if the answer was cut at a limit of tokens."),
        component("/usage", "CompletionUsage", "The token counts of the model."),
        component("/usage/prompt_tokens_details", "PromptTokens", "Details of the prompt."),
        note("/usage/prompt_tokens_details/cached_tokens", "Tokens that were not decoded again."),
        note("/ragwire", "Members that the protocol does not have: citations, tools, `status`."),
    ];
    SessionComplete, session_ends, &[
        note("", "The end of a chat."),
        note("/type", "`complete`."),
        defined("/session", "Session"),
        component("/response", "SessionResponse", "The answer, and how it was produced."),
        note("/response/finished", "Whether it completed, rather than being stopped."),
        note("/response/truncated", "Whether something was cut to fit."),
        component("/queue_stats", "SessionQueueStats", "How long the chat was on the waiting list."),
        note("/metadata", "Members that the protocol does not have: citations, mode, tools."),
        note("/timestamp", "Seconds since 1970."),
    ];
    TrustGraphResponse, graph_responses, &[
        note("", "An answer in TrustGraph's form, in one piece."),
        note("/response", "The answer; absent if there is `error`."),
        component("/error", "TrustGraphError", "The reason why there is no answer."),
        note("/error/type", "`graph-rag-error`, `document-rag-error`, `gateway-error`, …"),
        note("/message_type", "Only for `graph-rag`."),
        note("/sources", "The documents behind the answer; only for `graph-rag`."),
        component("/sources/*", "TrustGraphSource", "A document."),
        note("/sources/*/title", "Empty if it has none."),
        note("/end_of_stream", "`true`."),
        note("/end_of_session", "`true`."),
        note("/metadata", "Members that TrustGraph does not have: citations, events, `status`."),
    ];
}

/// A sample of a 64-bit number.
const WIDE: u64 = 1 << 40;

fn citations() -> Vec<Value> {
    let citation = ragwire::Citation::new("d", "d-1", "quote", "bm25");
    let full = citation.clone().page_number(1_u32).score(0.5).heading("Heading");
    vec![json!(citation), json!(full)]
}

fn models() -> Vec<Value> {
    vec![OpenAi::models(&["ragwire"])]
}

fn model() -> Vec<Value> {
    let mut model = OpenAi::models(&["ragwire"])["data"][0].take();
    model["created"] = WIDE.into();
    vec![model]
}

fn usage() -> Usage {
    Usage::new()
        .input_tokens(WIDE)
        .cached_input_tokens(WIDE)
        .output_tokens(WIDE)
        .model("m")
}

fn completions() -> Vec<Value> {
    let wire = OpenAi::new("id", WIDE, "ragwire");
    let partial = Usage::new().input_tokens(WIDE).output_tokens(WIDE);
    let ends = [
        Metadata::default(),
        Metadata::default().usage(partial),
        Metadata::default().usage(usage()),
    ];
    let plain = ends.map(|metadata| wire.completion(&[], "Text.", &End::completed(metadata)));
    let events = [(Event::from(Search::new("bm25")), None)];
    let citations = ["a.pdf", "https://example.org/a"]
        .map(|document| ragwire::Citation::new(document, "c", "Text.", "bm25"));
    let cited = Metadata::default().citations(citations.into());
    let whole = wire.completion(&events, "Text. [1][2]", &End::completed(cited));
    plain.into_iter().chain([whole]).collect()
}

fn session_ends() -> Vec<Value> {
    let session = Map::from_iter([("id".to_owned(), "s".into())]);
    let timing = Timing {
        timestamp: (SystemTime::UNIX_EPOCH + Duration::from_millis(1)).into(),
        elapsed_ms: 1,
    };
    let end = |metadata| End {
        timing: Some(timing),
        ..End::completed(metadata)
    };
    let tools = [
        (Event::from(ToolCall::new("bm25", json!({}))), None),
        (ToolResult::new("bm25", json!({})).into(), None),
    ];
    let wire = SessionChat::default().session(session);
    let mut cut = Limits::default();
    cut.max_trailer_bytes = 0;
    vec![
        wire.complete([], "Text.", &end(Metadata::default())),
        wire.complete(&tools, "Text.", &end(Metadata::default().mode("lexical"))),
        wire.clone()
            .limits(cut)
            .complete(&tools, "Text.", &end(Metadata::default())),
    ]
}

fn graph_responses() -> Vec<Value> {
    let sources = Sources::new(vec![Source::new("d-1", "d", "Text.", Vec::new())]);
    let events = [(Event::from(sources), None)];
    let metadata = Metadata::default().usage(usage()).mode("lexical");
    vec![
        TrustGraph::document_rag("").response([], "Text.", &End::completed(Metadata::default())),
        TrustGraph::graph_rag("").response(&events, "Text.", &End::completed(metadata)),
        TrustGraph::graph_rag("").response([], "", &End::failed(Failure::new("failed", "It failed."))),
    ]
}

/// A question in TrustGraph's form.
pub(crate) struct TrustGraphQuery;

impl PartialSchema for TrustGraphQuery {
    fn schema() -> RefOr<Schema> {
        let text = |text: &str| Some(text.to_owned());
        let optional = |kind| ObjectBuilder::new().schema_type(SchemaType::from_iter([kind, Type::Null]));
        let query = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .pattern(Some(r"[^\s\u0085]"))
            .description(text("The question."));
        let streaming = optional(Type::Boolean).description(text("Ignored: the answer is in one piece."));
        let about = "A question in TrustGraph's form. Other members that its clients send (`collection`, `user`, \
                     `workspace`) are ignored.";
        let mut object = ObjectBuilder::new()
            .description(text(about))
            .property("query", query)
            .required("query")
            .property("streaming", streaming)
            .property("filter", requests::optional::<requests::Filter>());
        for (service, limits) in [
            ("graph-rag", GraphLimits::describe()),
            ("document-rag", DocumentLimits::describe()),
        ] {
            for limit in limits {
                let number = optional(Type::Integer)
                    .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
                    .minimum(Some(limit.least))
                    .maximum(Some(limit.most))
                    .default(Some(limit.default.into()))
                    .description(text(&format!("`{service}`: {}", limit.description)));
                object = object.property(limit.name, number);
            }
        }
        object.into()
    }
}

impl ToSchema for TrustGraphQuery {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((requests::Filter::name().into_owned(), requests::Filter::schema()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_every_documented_member() {
        for (name, samples, notes) in sampled() {
            for note in notes {
                let path = note.path;
                assert!(samples.iter().any(|sample| has(sample, path)), "{name}{path}");
            }
        }
    }
}
