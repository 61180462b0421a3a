//! The interface between a protocol and the code that answers: a [`Question`] goes in, events and
//! text go into the sink, and the orchestrator returns metadata.
//!
//! ```
//! use ragwire::event::Search;
//! use ragwire::{Metadata, Orchestrator, Question, SendError, Sink};
//!
//! async fn answer(question: Question, sink: Sink) -> Result<Metadata, SendError> {
//!     sink.send(Search::new("bm25").query(&question.prompt)).await?;
//!     sink.send("Forty-two.").await?;
//!     Ok(Metadata::default())
//! }
//!
//! fn serve(orchestrator: impl Orchestrator) {}
//! serve(answer); // an async function or closure is an orchestrator
//! ```

mod limits;
mod search;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::limits::{DocumentLimits, GraphLimits, Limit, LimitError};
pub use self::search::{Passages, SearchRequest, Searcher, Searching};
use crate::event::Mode;
use crate::metadata::Metadata;
use crate::session::Message;
use crate::turn::{BoxError, Sink};

/// The member of [`QuestionOptions::extra`] and [`SearchRequest::extra`] that says which documents to
/// search.
pub const FILTER: &str = "filter";

/// The future of an answer.
pub type Answering = Pin<Box<dyn Future<Output = Result<Metadata, BoxError>> + Send>>;

/// Answers questions.
///
/// Async functions and closures of a [`Question`] and a [`Sink`] implement it.
///
/// The returned metadata ends the turn. An error ends it as failed: a
/// [`Failure`](crate::Failure) is reported as it is, any other error as `chat_failed` without its
/// text. The future is dropped at its current `await` when the turn is stopped, times out or loses
/// its last reader.
pub trait Orchestrator: Send + Sync + 'static {
    /// Answers `question` into `sink`.
    fn answer(&self, question: Question, sink: Sink) -> Answering;

    /// Returns the search for clients that want passages without an answer, such as the tool
    /// `search` of MCP. Default: `None`, the endpoints offer no search.
    fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        None
    }

    /// Whether the orchestrator honours
    /// [`options.output_schema`](QuestionOptions::output_schema): it then writes the JSON as text
    /// and emits it as [`StructuredResult`](crate::event::StructuredResult). Default: `false`, the
    /// endpoints refuse a request with a schema.
    fn has_structured_results(&self) -> bool {
        false
    }

    /// Checks the filter of a question or a search, which is the member `filter` of
    /// [`options.extra`](QuestionOptions::extra) and of [`SearchRequest::extra`]. An orchestrator that
    /// knows filters returns `Some`; the endpoints then refuse a request with a filter that it cannot
    /// read, with the message of the error. Default: `None`, the member is only passed on.
    fn check_filter(&self, filter: &Value) -> Option<Result<(), String>> {
        let _ = filter;
        None
    }
}

impl<F, A, E> Orchestrator for F
where
    F: Fn(Question, Sink) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Metadata, E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        let answer = self(question, sink);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}

impl<O: Orchestrator + ?Sized> Orchestrator for Arc<O> {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        (**self).answer(question, sink)
    }

    fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        (**self).searcher()
    }

    fn has_structured_results(&self) -> bool {
        (**self).has_structured_results()
    }

    fn check_filter(&self, filter: &Value) -> Option<Result<(), String>> {
        (**self).check_filter(filter)
    }
}

/// A question, with everything that an orchestrator may use to answer it.
///
/// The endpoints create it from a request of any protocol. An orchestrator ignores what it has no
/// use for. `Debug` shows no text.
///
/// ```
/// use ragwire::{Question, orchestrator::Effort};
///
/// let mut question = Question::new("What is the commit rule?");
/// question.effort = Effort::High;
/// assert_eq!(question.history, []);
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Question {
    /// The question.
    pub prompt: String,
    /// The earlier messages of the conversation, oldest first, without this question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// Whose question it is, as the endpoint's owner function says; empty if anonymous. Answers
    /// that are stored for one owner must not be given to another.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// How to answer, if the client chose a mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How much work to spend.
    pub effort: Effort,
    /// Files that the client sent with the question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Options that only some protocols have.
    pub options: QuestionOptions,
}

impl Question {
    /// Creates an anonymous question without a conversation, with default options.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            ..Self::default()
        }
    }
}

impl fmt::Debug for Question {
    /// Without texts: questions and answers do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("bytes", &self.prompt.len())
            .field("messages", &self.history.len())
            .field("mode", &self.mode)
            .field("effort", &self.effort)
            .field("attachments", &self.attachments.len())
            .finish_non_exhaustive()
    }
}

/// How much work to spend on a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// One search.
    None,
    /// Few searches.
    Low,
    /// The default.
    #[default]
    Medium,
    /// Many searches.
    High,
    /// As many searches as possible.
    Xhigh,
}

/// Options of a question that only some protocols have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct QuestionOptions {
    /// Whether the verdict on the evidence is also emitted as a `review` event. Default: `false`.
    pub review: bool,
    /// Whether the claims of the finished answer are verified. Default: `true`.
    pub verify: bool,
    /// Whether the sources are emitted after the answer instead of before it. Default: `false`.
    pub sources_last: bool,
    /// The kind of answer. An orchestrator with only one kind ignores it.
    pub service: Service,
    /// The client's instructions for a model: its `system` and `developer` messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The JSON schema that the answer must satisfy, emitted as `structured_result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Members of the request that the protocol passes through to the application: `body` of
    /// `useChat`, AG-UI's `forwardedProps`, OpenAI's `metadata`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Headers of the request that the endpoint hands over. They may hold credentials, so they are
    /// not part of the question's JSON.
    #[serde(skip)]
    pub headers: Headers,
}

impl Default for QuestionOptions {
    fn default() -> Self {
        Self {
            review: false,
            verify: true,
            sources_last: false,
            service: Service::default(),
            instructions: None,
            output_schema: None,
            extra: Map::new(),
            headers: Headers::default(),
        }
    }
}

/// Headers of a client's request, with names in lower case. `Debug` shows the names only.
///
/// ```
/// use ragwire::orchestrator::Headers;
///
/// let headers = Headers::from_iter([("X-Tenant", "acme")]);
/// assert_eq!(headers.get("x-tenant"), Some("acme"));
/// assert_eq!(format!("{headers:?}"), r#"["x-tenant"]"#);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Returns the value of the first header with this name, which must be in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value)
    }

    /// Returns all names and values, in the order of the request.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        let headers = headers.into_iter();
        Self(
            headers
                .map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.into()))
                .collect(),
        )
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// The kind of answer that a protocol asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Service {
    /// From an agent, the default.
    #[default]
    Agent,
    /// From a graph, within these limits.
    GraphRag(GraphLimits),
    /// From passages, within these limits.
    DocumentRag(DocumentLimits),
}

/// A file that a client sent with its question.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attachment {
    /// The media type, as the client gives it.
    pub media_type: String,
    /// The file's name, if the client gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is, or its content as a `data:` URL.
    pub url: String,
}

impl Attachment {
    /// Creates an attachment without a name.
    pub fn new(media_type: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            media_type: media_type.into(),
            name: None,
            url: url.into(),
        }
    }
}

impl fmt::Debug for Attachment {
    /// Without the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("media_type", &self.media_type)
            .field("bytes", &self.url.len())
            .finish_non_exhaustive()
    }
}
