//! What the ways of answering share: the question checked, a passage as a source, and the last steps of those that judge nothing.

use crate::Hit;
use crate::answer::error::{AnswerError, MAX_QUESTION_BYTES};
use crate::answer::figures::count;
use crate::answer::generate::{Generate, GenerateRequest};
use ragwire::event::{GenerationStart, Source, Sources};
use ragwire::{Metadata, Sink};

/// The question without the space around it, if it is one.
pub(crate) fn checked(prompt: &str) -> Result<&str, AnswerError> {
    let prompt = prompt.trim();
    if prompt.is_empty() {
        return Err(AnswerError::EmptyQuestion);
    }
    if prompt.len() > MAX_QUESTION_BYTES {
        return Err(AnswerError::QuestionTooLong);
    }
    Ok(prompt)
}

/// Tells the sources, has the answer written from them, and says what closes the turn.
pub(crate) async fn answer_from(
    prompt: &str,
    context: &[Hit],
    tool: &str,
    mode: &str,
    generator: &dyn Generate,
    sink: &Sink,
) -> Result<Metadata, AnswerError> {
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

/// A passage, as it is told.
pub(crate) fn source(hit: &Hit) -> Source {
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
