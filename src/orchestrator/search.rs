//! A search without an answer, for clients that write their answer themselves.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Headers;
use crate::event::Source;
use crate::turn::BoxError;

/// The future of a search.
pub type Searching = Pin<Box<dyn Future<Output = Result<Passages, BoxError>> + Send>>;

/// Finds passages.
///
/// An orchestrator that can search returns one from
/// [`Orchestrator::searcher`](super::Orchestrator::searcher). Async functions and closures of a
/// [`SearchRequest`] implement it:
///
/// ```
/// use ragwire::event::Source;
/// use ragwire::orchestrator::{Passages, SearchRequest, Searcher};
/// use ragwire::Failure;
///
/// async fn search(request: SearchRequest) -> Result<Passages, Failure> {
///     let passage = Source::new("birds.md-0", "birds.md", "A robin sings at dawn.", vec![]);
///     Ok(Passages::new("bm25", vec![passage]))
/// }
///
/// fn serve(searcher: impl Searcher) {}
/// serve(search);
/// ```
///
/// The endpoints run a search as a turn: it waits for a slot, has the time-outs of a turn, and its
/// future is dropped when the client cancels it. A [`Failure`](crate::Failure) is reported as it
/// is, any other error as `chat_failed` without its text.
pub trait Searcher: Send + Sync + 'static {
    /// Returns the best passages for the request.
    fn search(&self, request: SearchRequest) -> Searching;
}

impl<F, S, E> Searcher for F
where
    F: Fn(SearchRequest) -> S + Send + Sync + 'static,
    S: Future<Output = Result<Passages, E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn search(&self, request: SearchRequest) -> Searching {
        let search = self(request);
        Box::pin(async move { search.await.map_err(Into::into) })
    }
}

impl<S: Searcher + ?Sized> Searcher for Arc<S> {
    fn search(&self, request: SearchRequest) -> Searching {
        (**self).search(request)
    }
}

/// What to search for. `Debug` shows no text.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchRequest {
    /// The query: a question or words.
    pub query: String,
    /// The most passages to return.
    pub limit: usize,
    /// Whose search it is, as the endpoint's owner function says; empty if anonymous.
    pub owner: String,
    /// Members of the request that the protocol passes through to the application, such as
    /// [`filter`](super::FILTER).
    pub extra: Map<String, Value>,
    /// Headers of the request that the endpoint hands over.
    pub headers: Headers,
}

impl SearchRequest {
    /// The default of [`limit`](Self::limit): as many as an answer is written from.
    pub const LIMIT: usize = 8;
    /// The maximum of [`limit`](Self::limit): more text than a model reads at once.
    pub const MAX_LIMIT: usize = 50;

    /// Creates an anonymous search for the best [`LIMIT`](Self::LIMIT) passages.
    pub fn new(query: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            limit: Self::LIMIT,
            ..Self::default()
        }
    }
}

impl fmt::Debug for SearchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchRequest")
            .field("bytes", &self.query.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Passages {
    /// The name of the tool that searched.
    pub tool: String,
    /// The passages, best first.
    pub passages: Vec<Source>,
}

impl Passages {
    /// Creates a result.
    pub fn new(tool: impl Into<String>, passages: Vec<Source>) -> Self {
        Self {
            tool: tool.into(),
            passages,
        }
    }
}
