//! Has a model write an answer from numbered triples.

use std::sync::Arc;

use ragwire::Sink;

use super::answer::GraphQuestion;
use super::prompt::{Fact, fitting, prompt};
use crate::Hit;
use crate::answer::figures::count;
use crate::answer::generate::{
    Fit, Generate, GenerateError, GenerateRequest, GeneratedAnswer, citation, structured,
};
use crate::answer::refusal;
use crate::answer::stream::{Streamed, StreamedAnswer, stream_answer};
use crate::models::{Boxed, LanguageModel, ModelError, Prompt};

/// Writes one answer from as many facts as fit the model.
#[derive(Debug)]
pub(super) struct FactWriter {
    model: Arc<dyn LanguageModel>,
    facts: Vec<Fact>,
    /// The prompt for the first `fitting` facts, and its tokens.
    prompt: Prompt,
    tokens: u32,
    fitting: usize,
}

impl FactWriter {
    /// Writes the answer to `question` from `facts`, best first, as JSON if the question has a schema.
    ///
    /// # Errors
    ///
    /// The model cannot count, or has no room for even one fact.
    pub(super) async fn new(
        model: Arc<dyn LanguageModel>,
        question: &GraphQuestion,
        facts: Vec<Fact>,
    ) -> Result<Self, ModelError> {
        let ask = |facts: &[Fact]| prompt(question.prompt.trim(), question.schema.as_ref(), facts);
        let (prompt, fitting) = fitting(&*model, &facts, ask).await?;
        let tokens = model.count_tokens(&prompt).await?;
        Ok(Self {
            model,
            facts,
            prompt,
            tokens,
            fitting,
        })
    }

    async fn write(
        &self,
        request: GenerateRequest<'_>,
        sink: &Sink,
    ) -> Result<GeneratedAnswer, GenerateError> {
        let mut shown = self.fitting;
        // JSON has no citations.
        let sources = |shown| request.schema.is_none().then_some(shown);
        let first = (self.prompt.clone(), sources(shown));
        let shorter = || {
            let fewer = shown.checked_sub(1).filter(|fewer| *fewer > 0)?;
            shown = fewer;
            let prompt = prompt(request.question, request.schema, &self.facts[..fewer]);
            Some((prompt, sources(fewer)))
        };
        let answer = match stream_answer(&*self.model, first, shorter, sink).await? {
            Streamed::Answer(answer) => answer,
            Streamed::Overflow(error) => return Err(GenerateError::Model(error)),
            Streamed::Broken(answer, source) => {
                let begun = Box::new(self.generated(&answer, shown, request));
                return Err(GenerateError::Broken { begun, source });
            }
        };
        let generated = self.generated(&answer, shown, request);
        match request.schema {
            Some(_) => structured(generated),
            None => Ok(generated),
        }
    }

    /// Returns what was written from the first `shown` facts.
    fn generated(
        &self,
        answer: &StreamedAnswer,
        shown: usize,
        request: GenerateRequest<'_>,
    ) -> GeneratedAnswer {
        let filter = &answer.filter;
        let cited = filter.cited();
        let cited = cited.iter().filter_map(|one| self.facts[..shown].get(*one));
        let citations = cited.map(|fact| citation(&fact.hit, fact.quote.clone(), request.tool));
        let mut generated = GeneratedAnswer::answered(citations.collect()).text(filter.text());
        let text = filter.text();
        let refuses = refusal::is_prescribed(text) || refusal::begins_like_one(text);
        let is_cited = !generated.citations.is_empty();
        generated.answered = !text.trim().is_empty() && (is_cited || !refuses);
        generated.trimmed_triples = count(self.facts.len() - shown);
        generated.unknown_citations = filter.unknown();
        generated.cut_short = answer.is_cut_short;
        generated.usage = answer.finished.map(|finished| finished.usage(self.model.name()));
        generated
    }
}

impl Generate for FactWriter {
    fn model(&self) -> &str {
        self.model.name()
    }

    fn has_structured_results(&self) -> bool {
        true
    }

    /// The tokens of the facts' prompt, whatever the passages.
    fn context_tokens(&self, _: &[Hit]) -> u32 {
        self.tokens
    }

    /// Counts facts instead of chunks.
    fn fit<'a>(&'a self, _: GenerateRequest<'a>) -> Boxed<'a, Result<Fit, GenerateError>> {
        let fit = Fit::whole(self.fitting, self.tokens);
        Box::pin(std::future::ready(Ok(fit)))
    }

    fn generate<'a>(
        &'a self,
        request: GenerateRequest<'a>,
        sink: &'a Sink,
    ) -> Boxed<'a, Result<GeneratedAnswer, GenerateError>> {
        Box::pin(self.write(request, sink))
    }
}
