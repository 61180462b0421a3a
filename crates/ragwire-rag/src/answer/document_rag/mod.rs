//! DocumentRAG, after TrustGraph's `document-rag`: answers from as many chunks as the question
//! allows.
//!
//! It runs one round of searches within the request's limits and judges nothing. This module does
//! not depend on TrustGraph's messages.

use std::sync::Arc;
use std::time::Instant;

use crate::answer::error::AnswerError;
use crate::answer::figures::{count, milliseconds};
use crate::answer::generate::GenerateRequest;
use crate::answer::steps::{WriteSteps, check_schema, checked, write_answer};
use crate::graph::DocumentLimits;
use crate::models::Rank;
use crate::search::plan::{self, Plan};
use crate::search::retrieve::{RetrieveRequest, fuse};
use crate::{DocumentFilter, Extractive, Generate, Hit, Lexical, Library, Retrieve, search::rank};
use ragwire::event::{Mode, QueryAnalysis, RerankResult, RetrievalResult, RetrievalStart, Search};
use ragwire::{Metadata, SendError, Sink};
use serde_json::Value;

/// Hits taken from each search.
const HITS_PER_QUERY: usize = 10;

/// A question, and how many chunks may be used to answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentQuestion {
    /// The question.
    pub prompt: String,
    /// How many chunks are fetched and used.
    pub limits: DocumentLimits,
    /// The JSON schema of the answer, if it is to be JSON.
    pub schema: Option<Value>,
    /// The documents to search.
    pub filter: DocumentFilter,
}

impl DocumentQuestion {
    /// A question with the default limits.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            limits: DocumentLimits::default(),
            schema: None,
            filter: DocumentFilter::default(),
        }
    }

    /// Sets the documents to search. A retriever that
    /// [takes no filters](Retrieve::takes_filters) refuses the question.
    #[must_use]
    pub fn filter(mut self, filter: DocumentFilter) -> Self {
        self.filter = filter;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: DocumentLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the JSON schema of the answer, as [`AgentQuestion::schema`](crate::AgentQuestion::schema)
    /// does.
    #[must_use]
    pub fn schema(mut self, schema: Option<Value>) -> Self {
        self.schema = schema;
        self
    }
}

/// Answers questions from chunks. Each step can be replaced; clones share them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn
/// # std::error::Error>> {
/// use std::sync::Arc;
/// use ragwire::Turn;
/// use ragwire_rag::{DocumentQuestion, DocumentRag, Library, LibraryLimits, parse};
///
/// let library = Arc::new(Library::in_memory(LibraryLimits::default())?);
/// library.add("birds.md", &parse("birds.md", b"A robin sings at dawn.", &Default::default())?)?;
///
/// let rag = DocumentRag::lexical(library);
/// let question = DocumentQuestion::new("When does the robin sing?");
/// let answer = Turn::start(|sink| rag.answer(question, sink)).commit().await?.collect().await?;
/// assert_eq!(answer.text, "A robin sings at dawn. [1]");
/// # Ok(())
/// # }
/// ```
///
/// With an embedder, a model that writes and a reranker:
///
/// ```
/// # use std::sync::Arc;
/// # use ragwire_rag::models::{Embed, LanguageModel};
/// use ragwire_rag::{DocumentRag, MaxSimRank, SearchTools, Tool, Writer};
///
/// fn models(tools: &SearchTools, embedder: Arc<dyn Embed>, model: Arc<dyn LanguageModel>) -> DocumentRag {
///     DocumentRag::new(Arc::new(tools.retriever(Tool::Hybrid)), Arc::new(Writer::new(model)))
///         .ranker(Arc::new(MaxSimRank::new(embedder)))
/// }
/// ```
#[derive(Clone)]
pub struct DocumentRag {
    retriever: Arc<dyn Retrieve>,
    ranker: Option<Arc<dyn Rank>>,
    generator: Arc<dyn Generate>,
}

impl std::fmt::Debug for DocumentRag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("DocumentRag");
        debug
            .field("tool", &self.retriever.tool())
            .field("model", &self.generator.model())
            .finish_non_exhaustive()
    }
}

impl DocumentRag {
    /// Answers with a retriever and a generator, without a reranker.
    pub fn new(retriever: Arc<dyn Retrieve>, generator: Arc<dyn Generate>) -> Self {
        Self {
            retriever,
            ranker: None,
            generator,
        }
    }

    /// Searches with BM25 and answers with quoted sentences: no model.
    pub fn lexical(library: Arc<Library>) -> Self {
        let retriever = Arc::new(Lexical::new(Arc::clone(&library)));
        Self::new(retriever, Arc::new(Extractive::new(library)))
    }

    /// Reranks the passages before they are cut to `doc-limit`. If the ranker fails, the order
    /// stays as it was and no second `rerank_result` is emitted.
    #[must_use]
    pub fn ranker(mut self, ranker: Arc<dyn Rank>) -> Self {
        self.ranker = Some(ranker);
        self
    }

    /// Whether a question's [`schema`](DocumentQuestion::schema) is honoured: a model writes the
    /// answer.
    pub fn has_structured_results(&self) -> bool {
        self.generator.has_structured_results()
    }

    pub(crate) fn retriever(&self) -> Arc<dyn Retrieve> {
        Arc::clone(&self.retriever)
    }

    /// Answers a question into a sink. The future owns everything that it needs.
    ///
    /// # Back-pressure
    ///
    /// The future waits while the sink is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the answer; nothing else changes.
    ///
    /// # Errors
    ///
    /// Failures only. Documents that do not answer the question are not an error: the text says so,
    /// `citations` is empty, and `answered` is false in the metadata.
    pub fn answer(
        &self,
        question: DocumentQuestion,
        sink: Sink,
    ) -> impl Future<Output = Result<Metadata, AnswerError>> + Send + use<> {
        let rag = self.clone();
        async move { rag.run(&question, &sink).await }
    }

    async fn run(&self, question: &DocumentQuestion, sink: &Sink) -> Result<Metadata, AnswerError> {
        let prompt = checked(&question.prompt)?;
        question.limits.check()?;
        check_schema(question.schema.as_ref(), self.has_structured_results())?;
        if question.filter.has_conditions() && !self.retriever.takes_filters() {
            return Err(AnswerError::NoFilter);
        }
        let plan = Plan::of(prompt);
        let analysis = QueryAnalysis::new(prompt, plan.complexity(), plan.parts.len() > 1, Mode::Direct);
        sink.send(analysis).await?;

        let DocumentLimits {
            doc_limit,
            fetch_limit,
            ..
        } = question.limits;
        let fetched = fetch_limit.max(doc_limit).max(HITS_PER_QUERY);
        let mut lists = Vec::new();
        let request = RetrieveRequest::new(prompt, fetched).filter(question.filter.clone());
        search(&*self.retriever, &plan.queries, &request, &mut lists, sink).await?;
        let kept = if self.ranker.is_some() { fetched } else { doc_limit };
        let mut context = fuse_and_report(&lists, kept, sink).await?;
        let mut ranked = None;
        if let Some(ranker) = &self.ranker {
            ranked = order(&**ranker, prompt, &mut context, doc_limit, sink)
                .await?
                .then(|| rank::tool(ranker.method()));
        }
        let (tool, mode) = (self.retriever.tool(), self.retriever.mode());
        let request = GenerateRequest::new(prompt, &context, tool)
            .schema(question.schema.as_ref())
            .filter(&question.filter);
        let written = write_answer(request, WriteSteps::new(&*self.generator), sink).await?;
        let tools = std::iter::once(tool.to_owned()).chain(ranked);
        Ok(written.metadata(mode, tools, None))
    }
}

/// Reranks the hits and cuts them to `limit`. Returns `false` if the ranker failed and the order
/// stayed as it was.
async fn order(
    ranker: &dyn Rank,
    prompt: &str,
    hits: &mut Vec<Hit>,
    limit: usize,
    sink: &Sink,
) -> Result<bool, AnswerError> {
    let (start, found) = (Instant::now(), hits.len());
    let passages = hits.iter().map(|hit| hit.chunk.text.clone()).collect();
    let scores = match ranker.rank(prompt, passages).await {
        Ok(scores) if scores.len() == found => Some(scores),
        Ok(_) => {
            tracing::warn!("the ranker returned a different number of scores than passages");
            None
        }
        Err(error) => {
            tracing::warn!(code = error.code(), "the passages were not reranked");
            None
        }
    };
    let Some(scores) = scores else {
        hits.truncate(limit);
        return Ok(false);
    };
    hits.iter_mut()
        .zip(scores)
        .for_each(|(hit, score)| hit.score = score);
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits.truncate(limit);
    let mut result = RerankResult::new(
        ranker.method(),
        count(found),
        count(hits.len()),
        milliseconds(start),
    );
    if let Some(best) = hits.first() {
        result = result.top_score(f64::from(best.score));
    }
    sink.send(result).await?;
    Ok(true)
}

/// Searches for each query in turn, so that each search is reported when it happens.
async fn search(
    retriever: &dyn Retrieve,
    queries: &[String],
    request: &RetrieveRequest,
    lists: &mut Vec<(f32, Vec<Hit>)>,
    sink: &Sink,
) -> Result<(), AnswerError> {
    let tool = retriever.tool();
    // The first query of a plan is the question itself.
    let question = queries.first().map_or("", String::as_str);
    for query in queries {
        sink.send(Search::new(tool).query(query).page(1u32)).await?;
        sink.send(RetrievalStart::new(tool, query, 1u32)).await?;
        let start = Instant::now();
        let request = RetrieveRequest {
            query: query.clone(),
            ..request.clone()
        };
        let hits = retriever.retrieve(request).await?;
        let mut result = RetrievalResult::new(tool, count(hits.len()), milliseconds(start));
        if let Some(best) = hits.first() {
            result = result.top_score(f64::from(best.score));
        }
        sink.send(result).await?;
        lists.push((plan::weight(query, question), hits));
    }
    Ok(())
}

/// Fuses the lists into the best hits, and reports that.
async fn fuse_and_report(
    lists: &[(f32, Vec<Hit>)],
    limit: usize,
    sink: &Sink,
) -> Result<Vec<Hit>, SendError> {
    let start = Instant::now();
    let context = fuse(lists, limit);
    let found = lists.iter().map(|(_, list)| list.len()).sum();
    let mut result = RerankResult::new("rrf", count(found), count(context.len()), milliseconds(start));
    if let Some(best) = context.first() {
        result = result.top_score(f64::from(best.score));
    }
    sink.send(result).await?;
    Ok(context)
}

#[cfg(test)]
mod tests;
