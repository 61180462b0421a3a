//! What the crate writes, as schemas for the OpenAPI document: `ragwire` itself knows no OpenAPI. `tests/clients/openapi.test.js` holds
//! the answers of a running server against them.

use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};

use super::session::Session;

/// Bytes, of which OpenAPI says that they are a string.
fn files() -> Schema {
    let file = ObjectBuilder::new()
        .schema_type(Type::String)
        .content_media_type("application/octet-stream");
    ArrayBuilder::new().items(file).into()
}

macro_rules! shapes {
    ($($(#[$meta:meta])* $Name:ident { $($(#[$field_meta:meta])* $field:ident: $Type:ty,)* })*) => { $(
        #[derive(ToSchema)]
        $(#[$meta])*
        #[expect(dead_code, reason = "only its shape is used")]
        pub(super) struct $Name {
            $($(#[$field_meta])* $field: $Type,)*
        }
    )* };
}

/// How a question is answered.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its shape is used")]
pub(super) enum Mode {
    /// By an agent that judges what it found and searches again.
    Agentic,
    /// By a fixed sequence.
    Direct,
}

/// What a document was read as.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its shape is used")]
enum DocumentKind {
    Markdown,
    Text,
    Html,
    Pdf,
}

shapes! {
    /// Why a request was not served.
    #[schema(as = Refusal)]
    Refused {
        error: RefusalError,
    }

    /// Why, in words and for programs.
    RefusalError {
        /// A stable word.
        #[schema(example = "invalid_request")]
        code: String,
        /// For the one who asks.
        message: String,
        /// Whether asking again may help.
        recoverable: bool,
        /// To be quoted to whoever reads the logs: 32 hexadecimal digits.
        request_id: String,
    }

    /// Why a request was not served, as OpenAI writes it. The request's id stands in `x-request-id`.
    #[schema(as = OpenAiRefusal)]
    OpenAiRefused {
        error: OpenAiError,
    }

    /// Why, in OpenAI's members.
    OpenAiError {
        /// For the one who asks.
        message: String,
        /// `invalid_request_error` or `server_error`.
        r#type: String,
        /// Always `null`.
        #[schema(required = true)]
        param: Option<String>,
        /// A stable word.
        #[schema(example = "model_not_found")]
        code: String,
    }

    /// One piece of evidence for the answer.
    Citation {
        document_id: String,
        chunk_id: String,
        /// The words as they stand in the document.
        supporting_quote: String,
        /// The tool that found them.
        source_tool: String,
        /// Counted from 1.
        #[schema(nullable = false)]
        page_number: Option<u32>,
        /// On the tool's own scale.
        #[schema(nullable = false)]
        score: Option<f64>,
        #[schema(nullable = false)]
        heading: Option<String>,
    }

    /// A document of the library.
    Document {
        /// From the name and the content.
        id: String,
        /// The file's name, unique in the library.
        name: String,
        kind: DocumentKind,
        #[schema(nullable = false)]
        title: Option<String>,
        #[schema(nullable = false)]
        pages: Option<u32>,
        /// How many passages it was cut into.
        chunks: u32,
        text_bytes: u64,
        /// Milliseconds since 1970.
        added_ms: u64,
    }

    /// All documents.
    Documents {
        documents: Vec<Document>,
    }

    /// A passage of a document, a section or a sentence.
    Chunk {
        id: String,
        document_id: String,
        document_name: String,
        /// The headings above it, outermost first.
        #[schema(nullable = false)]
        heading: Option<String>,
        /// The page it begins on, counted from 1.
        #[schema(nullable = false)]
        page: Option<u32>,
        /// The page it ends on, where that is another one.
        #[schema(nullable = false)]
        last_page: Option<u32>,
        /// `L1` for a section, `L3` for a sentence; left out for a passage.
        #[schema(nullable = false)]
        level: Option<String>,
        /// The chunk of the level above that holds it.
        #[schema(nullable = false)]
        parent: Option<String>,
        /// Counted from 0, on its level.
        ordinal: u32,
        text: String,
    }

    /// A form; every part that has a file name is a file.
    UploadForm {
        #[schema(schema_with = files)]
        file: Vec<Value>,
    }

    /// The models.
    Models {
        /// `list`.
        object: String,
        data: Vec<Model>,
    }

    /// A model.
    Model {
        id: String,
        /// `model`.
        object: String,
        /// 0: nobody knows.
        created: u64,
        owned_by: String,
    }

    /// An answer in one piece.
    ChatCompletion {
        id: String,
        /// `chat.completion`.
        object: String,
        /// Seconds since 1970.
        created: u64,
        model: String,
        choices: Vec<Choice>,
        #[schema(nullable = false)]
        usage: Option<CompletionUsage>,
        /// What the protocol has no place for: citations, tools, `status`.
        #[schema(value_type = Object)]
        ragwire: Value,
    }

    /// The one choice.
    Choice {
        index: u32,
        message: ChoiceMessage,
        /// `stop`.
        finish_reason: String,
    }

    /// The answer.
    ChoiceMessage {
        /// `assistant`.
        role: String,
        content: String,
    }

    /// What the model counted.
    CompletionUsage {
        prompt_tokens: u64,
        completion_tokens: u64,
        total_tokens: u64,
        #[schema(nullable = false)]
        prompt_tokens_details: Option<PromptTokens>,
    }

    /// More of the prompt.
    PromptTokens {
        /// Tokens that were not decoded again.
        cached_tokens: u64,
    }

    /// The end of a chat.
    SessionComplete {
        /// `complete`.
        r#type: String,
        session: Session,
        response: SessionResponse,
        queue_stats: SessionQueueStats,
        /// What the contract has no place for: citations, mode, tools.
        #[schema(value_type = Option<Object>, nullable = false)]
        metadata: Option<Value>,
        /// Seconds since 1970.
        timestamp: f64,
    }

    /// The answer and how it came about.
    SessionResponse {
        content: String,
        #[schema(value_type = Vec<Object>)]
        tool_calls: Vec<Value>,
        #[schema(value_type = Vec<Object>)]
        tool_results: Vec<Value>,
        rounds_used: u32,
        /// Whether it ended by itself, and not by a stop.
        finished: bool,
        latency_ms: f64,
        /// Whether something was cut to fit.
        #[schema(nullable = false)]
        truncated: Option<bool>,
    }

    /// How long the chat waited: for others of its session, or for a place.
    SessionQueueStats {
        was_queued: bool,
        queue_wait_ms: f64,
        queue_position: u32,
    }

    /// A question of TrustGraph's. What else its clients send (`collection`, `user`, `workspace`) is passed over.
    #[schema(rename_all = "kebab-case")]
    TrustGraphQuery {
        /// The question, in words.
        query: String,
        /// Means nothing here: the answer is one piece.
        #[schema(nullable = true)]
        streaming: Option<bool>,
        /// `graph-rag`: entities that the search begins at.
        #[schema(minimum = 1, maximum = 1000, default = 50)]
        entity_limit: Option<u32>,
        /// `graph-rag`: triples followed from one entity.
        #[schema(minimum = 1, maximum = 1000, default = 30)]
        triple_limit: Option<u32>,
        /// `graph-rag`: triples of the subgraph.
        #[schema(minimum = 1, maximum = 5000, default = 150)]
        max_subgraph_size: Option<u32>,
        /// `graph-rag`: steps from an entity of the question.
        #[schema(minimum = 1, maximum = 10, default = 2)]
        max_path_length: Option<u32>,
        /// `graph-rag`: triples looked at closely.
        #[schema(minimum = 1, maximum = 1000, default = 30)]
        edge_score_limit: Option<u32>,
        /// `graph-rag`: triples that the answer is written from.
        #[schema(minimum = 1, maximum = 500, default = 25)]
        edge_limit: Option<u32>,
        /// `graph-rag`: triples that a ranker is given.
        #[schema(minimum = 1, maximum = 2000, default = 350)]
        max_reranker_input: Option<u32>,
        /// `document-rag`: chunks that the answer is written from.
        #[schema(minimum = 1, maximum = 200, default = 20)]
        doc_limit: Option<u32>,
        /// `document-rag`: chunks that each search brings; 0 leaves it to the server.
        #[schema(minimum = 0, maximum = 1000, default = 0)]
        fetch_limit: Option<u32>,
    }

    /// An answer of TrustGraph's in one piece.
    TrustGraphResponse {
        /// The answer; left out where there is `error`.
        #[schema(nullable = false)]
        response: Option<String>,
        #[schema(nullable = false)]
        error: Option<TrustGraphError>,
        /// Only of `graph-rag`.
        #[schema(nullable = false)]
        message_type: Option<String>,
        /// The documents behind the answer; only of `graph-rag`.
        #[schema(nullable = false)]
        sources: Option<Vec<TrustGraphSource>>,
        /// `true`.
        end_of_stream: bool,
        /// `true`.
        end_of_session: bool,
        #[schema(nullable = false)]
        in_token: Option<u64>,
        #[schema(nullable = false)]
        out_token: Option<u64>,
        #[schema(nullable = false)]
        model: Option<String>,
        /// What TrustGraph has no place for: citations, events, `status`.
        #[schema(value_type = Option<Object>, nullable = false)]
        metadata: Option<Value>,
    }

    /// Why there is no answer.
    TrustGraphError {
        message: String,
        /// `graph-rag-error`, `document-rag-error`, `gateway-error`, …
        r#type: String,
    }

    /// A document.
    TrustGraphSource {
        uri: String,
        /// Empty where it has none.
        title: String,
    }
}
