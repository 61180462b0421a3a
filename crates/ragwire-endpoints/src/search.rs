//! A search without an answer, as a turn: it has a slot, time-outs and a cancel like any question.

use std::sync::Arc;
use std::time::Instant;

use ragwire::event::{RetrievalResult, Sources};
use ragwire::orchestrator::{Answering, SearchRequest, Searcher};
use ragwire::{Metadata, Orchestrator, Question, Sink};

/// Answers a question with the passages of a search: one `retrieval_result`, then `sources`.
pub(crate) struct SearchTurn {
    searcher: Arc<dyn Searcher>,
    limit: usize,
}

impl SearchTurn {
    /// Creates a turn that returns at most `limit` passages.
    pub(crate) fn new(searcher: Arc<dyn Searcher>, limit: usize) -> Self {
        Self { searcher, limit }
    }
}

impl Orchestrator for SearchTurn {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        let (searcher, limit) = (Arc::clone(&self.searcher), self.limit);
        Box::pin(async move {
            let mut request = SearchRequest::new(question.prompt);
            request.limit = limit;
            request.owner = question.owner;
            request.extra = question.options.extra;
            request.headers = question.options.headers;
            let start = Instant::now();
            let mut found = searcher.search(request).await?;
            found.passages.truncate(limit);
            let count = u32::try_from(found.passages.len()).unwrap_or(u32::MAX);
            let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            sink.send(RetrievalResult::new(&found.tool, count, took)).await?;
            sink.send(Sources::new(found.passages)).await?;
            Ok(Metadata::default().tools_used([found.tool]))
        })
    }
}
