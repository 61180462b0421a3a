//! Schemas for the OpenAPI document of values that other packages define, which do not know
//! OpenAPI. Most of them are inferred from samples that those packages serialize;
//! `tests/clients/openapi.test.js` checks the answers of a running server against the document.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use ragwire::event::{Event, Source, Sources, ToolCall, ToolResult};
use ragwire::wire::Limits;
use ragwire::wire::openai::OpenAi;
use ragwire::wire::session_chat::SessionChat;
use ragwire::wire::trustgraph::TrustGraph;
use ragwire::{End, Failure, Metadata, Timing, Usage};
use ragwire_rag::Level;
use ragwire_rag::graph::{DocumentLimits, GraphLimits};
use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    ArrayBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

#[cfg(test)]
use super::sample_schema::Note;
use super::sample_schema::{Components, component, defined, infer, note};

/// Files, which are strings in OpenAPI.
fn files() -> Schema {
    let file = ObjectBuilder::new()
        .schema_type(Type::String)
        .content_media_type("application/octet-stream");
    ArrayBuilder::new().items(file).into()
}

macro_rules! documented {
    ($($(#[$meta:meta])* $Name:ident { $($(#[$field_meta:meta])* $field:ident: $Type:ty,)* })*) => { $(
        #[derive(ToSchema)]
        $(#[$meta])*
        #[expect(dead_code, reason = "only its schema is used")]
        pub(super) struct $Name {
            $($(#[$field_meta])* $field: $Type,)*
        }
    )* };
}

/// How a question is answered.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum Mode {
    /// By an agent that judges the evidence and searches again.
    Agentic,
    /// By a fixed sequence of steps.
    Direct,
}

documented! {
    /// The reason why a request was refused.
    #[schema(as = Refusal)]
    Refused {
        error: RefusalError,
    }

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

    /// The reason why a request was refused, in OpenAI's form. `x-request-id` has the request's ID.
    #[schema(as = OpenAiRefusal)]
    OpenAiRefused {
        error: OpenAiError,
    }

    /// The reason, in OpenAI's members.
    OpenAiError {
        /// The reason, for a person.
        message: String,
        /// `invalid_request_error` or `server_error`.
        r#type: String,
        /// Always `null`.
        #[schema(required = true)]
        param: Option<String>,
        /// A stable code.
        #[schema(example = "model_not_found")]
        code: String,
    }

    /// A form: every part that has a file name is a file.
    UploadForm {
        #[schema(schema_with = files)]
        file: Vec<Value>,
    }
}

/// Implements the schema of a type by samples of its values.
macro_rules! sampled {
    ($($Name:ident, $samples:ident, $notes:expr;)*) => { $(
        pub(super) struct $Name;

        impl PartialSchema for $Name {
            fn schema() -> RefOr<Schema> {
                infer(&$samples(), $notes).0
            }
        }

        impl ToSchema for $Name {
            fn name() -> Cow<'static, str> {
                stringify!($Name).into()
            }

            fn schemas(schemas: &mut Components) {
                schemas.extend(infer(&$samples(), $notes).1);
            }
        }
    )*
        /// Returns the samples and the notes of all types.
        #[cfg(test)]
        fn sampled() -> Vec<(&'static str, Vec<Value>, &'static [Note])> {
            vec![$({
                const NOTES: &[Note] = $notes;
                (stringify!($Name), $samples(), NOTES)
            },)*]
        }
    };
}

sampled! {
    Citation, citations, &[
        note("", "One piece of evidence for the answer."),
        note("/supporting_quote", "The words, exactly as in the document."),
        note("/source_tool", "The tool that retrieved the passage."),
        note("/page_number", "Counted from 1."),
        note("/score", "On the tool's own scale."),
    ];
    Document, documents, &[
        note("", "A document of the library."),
        note("/id", "Derived from the name and the content."),
        note("/name", "The file's name, unique in the library."),
        note("/title", "Its own title, if it has one."),
        note("/pages", "How many pages it has, if its format has pages."),
        component("/kind", "DocumentKind", "The format that a document was read as."),
        note("/chunks", "How many passages it was cut into."),
        note("/added_ms", "Milliseconds since 1970."),
    ];
    Chunk, chunks, &[
        note("", "A passage of a document, a section or a sentence."),
        note("/heading", "The headings above it, outermost first."),
        note("/page", "The page it begins on, counted from 1."),
        note("/last_page", "The page it ends on, if that is a different page."),
        note("/level", "`L1` for a section, `L3` for a sentence; absent for a passage."),
        note("/parent", "The chunk one level up that contains it."),
        note("/ordinal", "Counted from 0, on its level."),
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
        note("/choices/*/finish_reason", "`stop`."),
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

fn documents() -> Vec<Value> {
    let document = |kind| {
        let required =
            json!({"id": "d", "name": "n", "kind": kind, "chunks": 1, "text_bytes": WIDE, "added_ms": WIDE});
        serde_json::from_value::<ragwire_rag::Document>(required).ok()
    };
    let minimal = document("markdown").map(|document| json!(document));
    let full = ["markdown", "text", "html", "pdf"]
        .into_iter()
        .filter_map(document)
        .map(|mut document| {
            (document.title, document.pages) = (Some("Title".into()), Some(1));
            json!(document)
        });
    minimal.into_iter().chain(full).collect()
}

fn chunks() -> Vec<Value> {
    let passage = ragwire_rag::Chunk::new("d", "n", 0, "Text.");
    let mut section = passage.clone();
    (section.page, section.last_page, section.level) = (Some(1), Some(2), Level::Section);
    (section.heading, section.parent) = (Some("Heading".into()), Some("d-s0".into()));
    vec![json!(passage), json!(section)]
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
    ends.map(|metadata| wire.completion("Text.", &End::completed(metadata)))
        .into()
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
pub(super) struct TrustGraphQuery;

impl PartialSchema for TrustGraphQuery {
    fn schema() -> RefOr<Schema> {
        let text = |text: &str| Some(text.to_owned());
        let optional = |kind| ObjectBuilder::new().schema_type(SchemaType::from_iter([kind, Type::Null]));
        let query = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(text("The question."));
        let streaming = optional(Type::Boolean).description(text("Ignored: the answer is in one piece."));
        let about = "A question in TrustGraph's form. Other members that its clients send (`collection`, `user`, \
                     `workspace`) are ignored.";
        let mut object = ObjectBuilder::new()
            .description(text(about))
            .property("query", query)
            .required("query")
            .property("streaming", streaming);
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

impl ToSchema for TrustGraphQuery {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether `value` has a member at `path`.
    fn has(value: &Value, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else {
            return true;
        };
        let end = path.find('/').unwrap_or(path.len());
        match &path[..end] {
            "*" => value
                .as_array()
                .is_some_and(|items| items.iter().any(|item| has(item, &path[end..]))),
            name => value.get(name).is_some_and(|member| has(member, &path[end..])),
        }
    }

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
