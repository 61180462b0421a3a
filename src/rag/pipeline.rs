//! One question through all steps, each reported while it happens.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use ragwire::Turn;
//! use ragwire::rag::{Library, LibraryLimits, Pipeline, Question};
//!
//! let library = Arc::new(Library::open("data".as_ref(), LibraryLimits::default())?);
//! let rag = Pipeline::lexical(library);
//! let question = Question::new("How do I install it?");
//! let turn = Turn::start(|sink| rag.answer(question, sink)).commit().await?;
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::time::Instant;

use super::figures::{count, milliseconds};
use super::generate::{Extractive, Generate, GenerateError, GenerateRequest};
use super::graph::LimitError;
use super::plan::Plan;
use super::retrieve::{Lexical, Retrieve, RetrieveError, RetrieveRequest, fuse};
use super::review::{CoverageReview, Judgement, Review};
use super::{Hit, Library};
use crate::event;
use crate::event::{
    GenerationStart, Mode, QueryAnalysis, RerankResult, RetrievalResult, RetrievalStart, Search, Source,
    Sources, Verdict,
};
use crate::{Metadata, SendError, Sink};

/// Longest question, in bytes.
pub const MAX_QUESTION_BYTES: usize = 32 * 1024;
/// Hits taken from each search.
pub(super) const HITS_PER_QUERY: usize = 10;
/// Chunks that the answer is written from.
const CONTEXT_CHUNKS: usize = 8;

/// A question and how it is to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// What is asked.
    pub prompt: String,
    /// Whether the evidence is judged, with a second round of searches where it is thin.
    pub review: ReviewPolicy,
}

/// Whether the evidence is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReviewPolicy {
    /// It is used as it was found.
    Off,
    /// It is judged, and searched for once more where it is thin.
    #[default]
    Once,
}

impl Question {
    /// A question whose evidence is reviewed.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            review: ReviewPolicy::default(),
        }
    }

    /// Sets whether the evidence is reviewed.
    #[must_use]
    pub fn review(mut self, review: ReviewPolicy) -> Self {
        self.review = review;
        self
    }
}

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The question is empty.
    #[error("the question is empty")]
    EmptyQuestion,
    /// The question is longer than [`MAX_QUESTION_BYTES`].
    #[error("the question is longer than {MAX_QUESTION_BYTES} bytes")]
    QuestionTooLong,
    /// A limit of the question's is out of its bounds.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A search failed.
    #[error(transparent)]
    Retrieve(#[from] RetrieveError),
    /// The answer was not finished.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The turn is over: nobody reads any more.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl PipelineError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::EmptyQuestion => "empty_question",
            Self::QuestionTooLong => "question_too_long",
            Self::Limit(error) => error.code(),
            Self::Retrieve(error) => error.code(),
            Self::Generate(error) => error.code(),
            Self::Send(_) => "turn_over",
        }
    }
}

/// The steps, each of them replaceable. Clones share them.
#[derive(Clone)]
pub struct Pipeline {
    retriever: Arc<dyn Retrieve>,
    reviewer: Arc<dyn Review>,
    generator: Arc<dyn Generate>,
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Pipeline");
        debug
            .field("tool", &self.retriever.tool())
            .field("model", &self.generator.model())
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// A pipeline of one's own parts.
    pub fn new(
        retriever: Arc<dyn Retrieve>,
        reviewer: Arc<dyn Review>,
        generator: Arc<dyn Generate>,
    ) -> Self {
        Self {
            retriever,
            reviewer,
            generator,
        }
    }

    /// BM25, coverage review and quoted sentences: no model.
    pub fn lexical(library: Arc<Library>) -> Self {
        let retriever = Arc::new(Lexical::new(Arc::clone(&library)));
        let reviewer = Arc::new(CoverageReview::new(Arc::clone(&library)));
        Self::new(retriever, reviewer, Arc::new(Extractive::new(library)))
    }

    /// Answers a question into a sink. The future owns all it needs.
    ///
    /// # Back-pressure
    /// It waits with the sink.
    ///
    /// # Cancel safety
    /// Dropping the future ends the answer; nothing else changes.
    ///
    /// # Errors
    /// Only what went wrong. Documents without an answer are no error: the text says so, `citations` is empty, and the
    /// metadata's member `answered` is false.
    pub fn answer(
        &self,
        question: Question,
        sink: Sink,
    ) -> impl Future<Output = Result<Metadata, PipelineError>> + Send + use<> {
        let pipeline = self.clone();
        async move { pipeline.run(&question, &sink).await }
    }

    async fn run(&self, question: &Question, sink: &Sink) -> Result<Metadata, PipelineError> {
        let prompt = checked(&question.prompt)?;
        let plan = Plan::of(prompt);
        sink.send(QueryAnalysis::new(
            prompt,
            plan.complexity(),
            plan.parts.len() > 1,
            Mode::Direct,
        ))
        .await?;

        let mut lists = Vec::new();
        search(
            &*self.retriever,
            &plan.queries,
            HITS_PER_QUERY,
            1,
            &mut lists,
            sink,
        )
        .await?;
        let mut context = fuse_and_tell(&lists, CONTEXT_CHUNKS, sink).await?;
        if question.review == ReviewPolicy::Once {
            context = self.review(prompt, context, &mut lists, sink).await?;
        }

        answer_from(
            prompt,
            &context,
            self.retriever.tool(),
            self.retriever.mode(),
            &*self.generator,
            sink,
        )
        .await
    }

    /// Judges the evidence; where it is thin, searches once more and judges again.
    async fn review(
        &self,
        prompt: &str,
        context: Vec<Hit>,
        lists: &mut Vec<Vec<Hit>>,
        sink: &Sink,
    ) -> Result<Vec<Hit>, PipelineError> {
        let queries = match self.reviewer.review(prompt, &context).await {
            Judgement::Approved { feedback } => {
                sink.send(event::Review::new(1u32, Verdict::Approved).feedback(feedback))
                    .await?;
                return Ok(context);
            }
            Judgement::Rejected { feedback, queries } => {
                sink.send(event::Review::new(1u32, Verdict::Rejected).feedback(feedback))
                    .await?;
                queries
            }
        };
        if queries.is_empty() {
            return Ok(context);
        }
        search(&*self.retriever, &queries, HITS_PER_QUERY, 2, lists, sink).await?;
        let context = fuse_and_tell(lists, CONTEXT_CHUNKS, sink).await?;
        let (verdict, feedback) = match self.reviewer.review(prompt, &context).await {
            Judgement::Approved { feedback } => (Verdict::Approved, feedback),
            Judgement::Rejected { feedback, .. } => (Verdict::Rejected, feedback),
        };
        sink.send(event::Review::new(2u32, verdict).feedback(feedback))
            .await?;
        Ok(context)
    }
}

/// The question without the space around it, if it is one.
pub(super) fn checked(prompt: &str) -> Result<&str, PipelineError> {
    let prompt = prompt.trim();
    if prompt.is_empty() {
        return Err(PipelineError::EmptyQuestion);
    }
    if prompt.len() > MAX_QUESTION_BYTES {
        return Err(PipelineError::QuestionTooLong);
    }
    Ok(prompt)
}

/// Searches for each query, one after the other, so that each is seen when it happens.
pub(super) async fn search(
    retriever: &dyn Retrieve,
    queries: &[String],
    hits_per_query: usize,
    iteration: u32,
    lists: &mut Vec<Vec<Hit>>,
    sink: &Sink,
) -> Result<(), PipelineError> {
    let tool = retriever.tool();
    for query in queries {
        sink.send(Search::new(tool).query(query).page(1u32)).await?;
        sink.send(RetrievalStart::new(tool, query, iteration)).await?;
        let start = Instant::now();
        let hits = retriever
            .retrieve(RetrieveRequest::new(query, hits_per_query))
            .await?;
        let mut result = RetrievalResult::new(tool, count(hits.len()), milliseconds(start));
        if let Some(best) = hits.first() {
            result = result.top_score(f64::from(best.score));
        }
        sink.send(result).await?;
        lists.push(hits);
    }
    Ok(())
}

/// Tells the sources, has the answer written from them, and says what closes the turn.
pub(super) async fn answer_from(
    prompt: &str,
    context: &[Hit],
    tool: &str,
    mode: &str,
    generator: &dyn Generate,
    sink: &Sink,
) -> Result<Metadata, PipelineError> {
    let request = GenerateRequest::new(prompt, context, tool);
    let fit = generator.fit(request).await?;
    // What does not fit the model is no source of its answer.
    let sources: Vec<Source> = context.iter().take(fit.chunks).map(source).collect();
    if !sources.is_empty() {
        sink.send(Sources::new(sources)).await?;
    }
    let start = GenerationStart::new(count(fit.chunks), fit.tokens, generator.model());
    sink.send(start).await?;
    let generated = generator.generate(request, sink).await?;

    let mut metadata = generated.metadata().mode(mode).tools_used([tool]);
    if let Some(usage) = generated.usage {
        metadata = metadata.usage(usage);
    }
    Ok(metadata)
}

pub(super) async fn fuse_and_tell(
    lists: &[Vec<Hit>],
    limit: usize,
    sink: &Sink,
) -> Result<Vec<Hit>, SendError> {
    let start = Instant::now();
    let context = fuse(lists, limit);
    let found = lists.iter().map(Vec::len).sum();
    let mut result = RerankResult::new("rrf", count(found), count(context.len()), milliseconds(start));
    if let Some(best) = context.first() {
        result = result.top_score(f64::from(best.score));
    }
    sink.send(result).await?;
    Ok(context)
}

pub(super) fn source(hit: &Hit) -> Source {
    let chunk = &hit.chunk;
    let pages = chunk.pages().collect();
    let source = Source::new(&chunk.id, &chunk.document_id, &chunk.text, pages)
        .title(&chunk.document_name)
        .level(chunk.level.as_str())
        .score(f64::from(hit.score));
    match &chunk.heading {
        Some(heading) => source.heading(heading),
        None => source,
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
