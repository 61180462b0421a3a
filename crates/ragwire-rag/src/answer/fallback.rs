//! The writer with a model whose place the quotes take if the model fails, or if the documents have nothing
//! that it could answer from.

use std::fmt;
use std::sync::Arc;

use crate::Hit;
use crate::answer::generate::{Fit, Generate, GenerateError, GenerateRequest, GeneratedAnswer, send_words};
use crate::models::Boxed;
use ragwire::Sink;

/// What an answer begins with if the model failed before its first word.
const INSTEAD: &str = "The language model failed, so this answer only quotes the documents.\n\n";
/// What follows the text of a model that failed in the middle.
const AFTERWARDS: &str = "\n\nThe language model failed here. The documents say:\n\n";

/// Writes with a model, and quotes the documents if the model fails: its server cannot be reached,
/// refuses the request, breaks off or takes too long. The answer says so, and the turn's metadata
/// has the error's code as `fallback`.
///
/// A question that begins a conversation is not sent to the model if the evidence has nothing close to it
/// ([`Generate::finds_nothing`] of the quotes): a model would answer from its training.
///
/// A request for JSON always goes to the model and fails as it does, because quotes are not JSON.
#[derive(Clone)]
pub struct Fallback {
    model: Arc<dyn Generate>,
    quotes: Arc<dyn Generate>,
}

impl Fallback {
    /// Writes with `model`, and with `quotes` if that fails.
    pub fn new(model: Arc<dyn Generate>, quotes: Arc<dyn Generate>) -> Self {
        Self { model, quotes }
    }

    async fn answer(
        &self,
        request: GenerateRequest<'_>,
        sink: &Sink,
    ) -> Result<GeneratedAnswer, GenerateError> {
        // In a conversation the question may be about what was said, such as “translate that”.
        let may_refuse = request.schema.is_none() && request.earlier.is_empty();
        if may_refuse && self.quotes.finds_nothing(request).await {
            return self.quotes.generate(request, sink).await;
        }
        let error = match self.model.generate(request, sink).await {
            Err(error) if request.schema.is_none() => error,
            generated => return generated,
        };
        let code = error.code();
        let (begun, remark) = match error {
            GenerateError::Broken { begun, source } => {
                tracing::warn!(
                    code,
                    error = &source as &dyn std::error::Error,
                    "the model broke off; quoting"
                );
                (*begun, AFTERWARDS)
            }
            GenerateError::Model(source) => {
                tracing::warn!(
                    code,
                    error = &source as &dyn std::error::Error,
                    "the model failed; quoting"
                );
                (GeneratedAnswer::not_answered(), INSTEAD)
            }
            GenerateError::Send(_) | GenerateError::QuestionTooLong { .. } | GenerateError::Failed(_) => {
                return Err(error);
            }
        };
        send_words(sink, remark).await?;
        let request = request.after_citations(begun.citations.len());
        let mut generated = self.quotes.generate(request, sink).await?;
        generated.text = format!("{}{remark}{}", begun.text, generated.text);
        generated.answered |= begun.answered;
        generated.unknown_citations += begun.unknown_citations;
        generated.citations.splice(..0, begun.citations);
        generated.fallback = Some(code);
        Ok(generated)
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Fallback");
        shown.field("model", &self.model.model());
        shown.field("quotes", &self.quotes.model()).finish()
    }
}

impl Generate for Fallback {
    fn model(&self) -> &str {
        self.model.model()
    }

    fn has_structured_results(&self) -> bool {
        self.model.has_structured_results()
    }

    fn context_tokens(&self, context: &[Hit]) -> u32 {
        self.model.context_tokens(context)
    }

    /// What fits the model. If the model cannot count, everything fits: quotes have no limit.
    fn fit<'a>(&'a self, request: GenerateRequest<'a>) -> Boxed<'a, Result<Fit, GenerateError>> {
        Box::pin(async move {
            match self.model.fit(request).await {
                Err(GenerateError::Model(_)) if request.schema.is_none() => self.quotes.fit(request).await,
                fit => fit,
            }
        })
    }

    fn generate<'a>(
        &'a self,
        request: GenerateRequest<'a>,
        sink: &'a Sink,
    ) -> Boxed<'a, Result<GeneratedAnswer, GenerateError>> {
        Box::pin(self.answer(request, sink))
    }
}
