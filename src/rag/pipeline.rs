//! The steps that GraphRAG and DocumentRAG share, each told to a sink while it happens. Which of them follow one another is theirs.

use std::time::Instant;

use super::Hit;
use super::figures::{count, milliseconds};
use super::generate::{Generate, GenerateError, GenerateRequest};
use super::graph::LimitError;
use super::retrieve::{Retrieve, RetrieveError, RetrieveRequest, fuse};
use crate::event::{GenerationStart, RerankResult, RetrievalResult, RetrievalStart, Search, Source, Sources};
use crate::{Metadata, SendError, Sink};

/// Longest question, in bytes.
pub const MAX_QUESTION_BYTES: usize = 32 * 1024;
/// Hits taken from each search.
pub(super) const HITS_PER_QUERY: usize = 10;
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
