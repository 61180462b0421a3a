//! The steps that every way of answering shares: checking the question, and writing, citing,
//! verifying and closing an answer.

use ragwire::event::{GenerationStart, Source, Sources, StructuredResult};
use ragwire::{Metadata, Sink, Usage};
use serde_json::Value;

use crate::Hit;
use crate::answer::error::{AnswerError, MAX_QUESTION_BYTES};
use crate::answer::figures::count;
use crate::answer::generate::{Generate, GenerateRequest, GeneratedAnswer};
use crate::answer::judge::{Judge, claims};

/// Returns the question without surrounding white space.
///
/// # Errors
///
/// The question is empty or longer than 32 KiB.
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

/// Checks that an answer in JSON is possible if the question has a schema, before anything is
/// searched.
///
/// # Errors
///
/// There is a schema, and the generator writes no JSON.
pub(crate) fn check_schema(schema: Option<&Value>, is_honoured: bool) -> Result<(), AnswerError> {
    if schema.is_some() && !is_honoured {
        return Err(AnswerError::NoStructuredResults);
    }
    Ok(())
}

/// How [`write_answer`] writes an answer, and which optional steps it runs.
#[derive(Clone, Copy)]
pub(crate) struct WriteSteps<'a> {
    generator: &'a dyn Generate,
    verifier: Option<&'a dyn Judge>,
    sources_last: bool,
    all_sources: bool,
}

impl<'a> WriteSteps<'a> {
    /// Writes with `generator`, reports the sources first, and does not verify.
    pub(crate) fn new(generator: &'a dyn Generate) -> Self {
        Self {
            generator,
            verifier: None,
            sources_last: false,
            all_sources: false,
        }
    }

    /// Has a judge check the claims of the answer.
    pub(crate) fn verifier(mut self, judge: Option<&'a dyn Judge>) -> Self {
        self.verifier = judge;
        self
    }

    /// Sets whether the sources are reported after the answer and its verification.
    pub(crate) fn sources_last(mut self, last: bool) -> Self {
        self.sources_last = last;
        self
    }

    /// Reports every passage of the context as a source. Otherwise only those are reported that fit
    /// the model: a passage that the model does not read is not a source of its answer.
    pub(crate) fn all_sources(mut self) -> Self {
        self.all_sources = true;
        self
    }
}

/// An answer that was sent, with what the turn's metadata is made of.
#[derive(Debug)]
pub(crate) struct WrittenAnswer {
    pub(crate) generated: GeneratedAnswer,
    /// The passages that were reported.
    pub(crate) sources: Vec<Source>,
    /// What the verification consumed.
    pub(crate) judge_usage: Option<Usage>,
}

impl WrittenAnswer {
    /// The metadata that closes the turn. `judged` is what judges consumed; it is added to the
    /// generator's usage.
    pub(crate) fn metadata<T: Into<String>>(
        &self,
        mode: &str,
        tools: impl IntoIterator<Item = T>,
        judged: Option<Usage>,
    ) -> Metadata {
        let metadata = self.generated.metadata().mode(mode).tools_used(tools);
        let usage = match (self.generated.usage.clone(), judged) {
            (Some(written), Some(judged)) => {
                let answer_tokens = written.output_tokens;
                let mut usage = written.plus(&judged);
                usage.answer_tokens = answer_tokens;
                Some(usage)
            }
            // No model wrote the answer.
            (None, Some(judged)) => Some(judged.answer_tokens(0)),
            (written, None) => written,
        };
        match usage {
            Some(usage) => metadata.usage(usage),
            None => metadata,
        }
    }
}

/// Writes an answer from the evidence of `request` into `sink`: sources, `generation_start`, text,
/// the structured result if a schema was requested, and, if a verifier is set, the verification of a
/// text.
///
/// # Cancel safety
///
/// Dropping the future ends the answer after the last piece that was sent.
///
/// # Errors
///
/// The generator or the judge failed, or the turn has ended.
pub(crate) async fn write_answer(
    request: GenerateRequest<'_>,
    steps: WriteSteps<'_>,
    sink: &Sink,
) -> Result<WrittenAnswer, AnswerError> {
    let generator = steps.generator;
    let fit = generator.fit(request).await?;
    let reported = if steps.all_sources {
        request.context.len()
    } else {
        fit.chunks
    };
    let sources: Vec<Source> = request.context.iter().take(reported).map(source).collect();
    let event = (!sources.is_empty()).then(|| Sources::new(sources.clone()));
    let (before, after) = if steps.sources_last {
        (None, event)
    } else {
        (event, None)
    };
    if let Some(event) = before {
        sink.send(event).await?;
    }
    let start = GenerationStart::new(count(fit.chunks), fit.tokens, generator.model());
    sink.send(start).await?;
    let generated = generator.generate(request, sink).await?;
    if let Some(result) = generated.structured.clone() {
        sink.send(StructuredResult::new(result)).await?;
    }
    let mut judge_usage = None;
    // JSON has no sentences that claim something.
    let is_text = generated.answered && generated.structured.is_none();
    if let Some(judge) = steps.verifier.filter(|_| is_text) {
        let claims = claims(&generated.text);
        if !claims.is_empty() {
            let verified = judge.verify(&claims, &request.context[..fit.chunks]).await?;
            let mut event = verified.event();
            // Quotes are always found in their sources. What is open is whether they answer.
            event.confidence = generated.confidence.or(event.confidence);
            sink.send(event).await?;
            judge_usage = verified.usage;
        }
    }
    if let Some(event) = after {
        sink.send(event).await?;
    }
    Ok(WrittenAnswer {
        generated,
        sources,
        judge_usage,
    })
}

/// A passage as an event reports it.
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
