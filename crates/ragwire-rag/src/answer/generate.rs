//! Writing an answer: the trait [`Generate`], what it is asked and what it returns.

use std::error::Error;
use std::pin::Pin;

use serde_json::Value;

use crate::models::{Boxed, ChatMessage, ModelError};
use crate::search::meaning::Meaning;
use crate::{DocumentFilter, Hit};
use ragwire::{Citation, Metadata, SendError, Sink, Usage};

/// What an answer says if the documents do not contain one: the English sentence. It is said in the language of
/// the question.
pub const NO_ANSWER: &str = "The documents do not answer this question.";
/// What an answer from an empty library says, in English. It is said in the language of the question.
pub const NO_DOCUMENTS: &str = "There are no documents to answer from yet.";

/// A question and the evidence to answer it from.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GenerateRequest<'a> {
    /// The question.
    pub question: &'a str,
    /// The evidence, best first; empty if nothing was found.
    pub context: &'a [Hit],
    /// The tool that found the evidence, for the citations.
    pub tool: &'a str,
    /// The conversation before the question, oldest first.
    pub earlier: &'a [ChatMessage],
    /// The application's instructions for a model; empty if there are none.
    pub instructions: &'a str,
    /// The number of citations in the answer before this part of it.
    pub citations_before: usize,
    /// The JSON schema of the answer, if it is to be JSON.
    pub schema: Option<&'a Value>,
    /// The documents that were searched, for questions about what there is; `None` for all of them.
    pub filter: Option<&'a DocumentFilter>,
    /// Compares texts with the question, if there is an embedder.
    pub(crate) meaning: Option<&'a Meaning>,
}

impl<'a> GenerateRequest<'a> {
    /// Answers `question` from `context`, which `tool` found.
    pub fn new(question: &'a str, context: &'a [Hit], tool: &'a str) -> Self {
        Self {
            question,
            context,
            tool,
            earlier: &[],
            instructions: "",
            citations_before: 0,
            schema: None,
            filter: None,
            meaning: None,
        }
    }

    /// Sets the documents that were searched.
    #[must_use]
    pub fn filter(mut self, filter: &'a DocumentFilter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Returns who asks: see [`DocumentFilter::user`].
    pub(crate) fn user(&self) -> Option<&'a str> {
        self.filter.and_then(|filter| filter.user.as_deref())
    }

    /// Sets what compares texts with the question by their meaning.
    pub(crate) fn meaning(mut self, meaning: Option<&'a Meaning>) -> Self {
        self.meaning = meaning;
        self
    }

    /// Sets the conversation before the question, oldest first. A generator that only quotes
    /// ignores it.
    #[must_use]
    pub fn earlier(mut self, earlier: &'a [ChatMessage]) -> Self {
        self.earlier = earlier;
        self
    }

    /// Sets the application's instructions for a model. A generator that only quotes ignores them.
    #[must_use]
    pub fn instructions(mut self, instructions: &'a str) -> Self {
        self.instructions = instructions;
        self
    }

    /// Counts citations from `count` + 1, because an answer begins with as many.
    #[must_use]
    pub fn after_citations(mut self, count: usize) -> Self {
        self.citations_before = count;
        self
    }

    /// Asks for an answer in JSON that satisfies a schema, instead of text with citations. Only for
    /// a generator that [has structured results](Generate::has_structured_results): the pipelines
    /// refuse the question otherwise.
    #[must_use]
    pub fn schema(mut self, schema: Option<&'a Value>) -> Self {
        self.schema = schema;
        self
    }
}

/// How much of a request fits the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fit {
    /// Number of chunks that the answer is written from: the first ones of the evidence.
    pub chunks: usize,
    /// Number of tokens that the model reads; of the evidence alone if nothing else is read.
    pub tokens: u32,
    /// Number of chunks that are left out, the last ones of the evidence.
    pub trimmed_chunks: u32,
    /// Number of messages of the conversation that are left out, the oldest ones.
    pub trimmed_messages: u32,
}

impl Fit {
    /// Everything fits: this many chunks and tokens.
    pub fn whole(chunks: usize, tokens: u32) -> Self {
        Self {
            chunks,
            tokens,
            trimmed_chunks: 0,
            trimmed_messages: 0,
        }
    }
}

/// The result of writing an answer, besides the text in the sink.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GeneratedAnswer {
    /// The cited evidence; the n-th is `[n]` in the text.
    pub citations: Vec<Citation>,
    /// Whether the evidence answers the question. Otherwise the text says so, and there are citations
    /// only if it shows the closest passages.
    pub answered: bool,
    /// Whether the text shows the closest passages because none answers the question.
    pub closest: bool,
    /// What the generation consumed, if it was measured.
    pub usage: Option<Usage>,
    /// The whole text as it was sent.
    pub text: String,
    /// Number of chunks that did not fit the model: the last ones of the evidence.
    pub trimmed_chunks: u32,
    /// Number of triples that did not fit the model, of an answer from a graph.
    pub trimmed_triples: u32,
    /// Number of messages of the conversation that did not fit: the oldest ones.
    pub trimmed_messages: u32,
    /// Number of citations that the model invented; each is `[?]` in the text.
    pub unknown_citations: u32,
    /// Whether the text was stopped at a limit of tokens or bytes.
    pub cut_short: bool,
    /// The code of the error because of which quotes replace the model's text.
    pub fallback: Option<&'static str>,
    /// The JSON of the text, if a schema was requested.
    pub structured: Option<Value>,
    /// How likely the quotes answer the question, 0 to 1, in an answer that only quotes: a quote is
    /// always found in its source, which does not make it an answer. `None` for a model's text.
    pub confidence: Option<f64>,
}

impl GeneratedAnswer {
    /// An answer with its citations.
    pub fn answered(citations: Vec<Citation>) -> Self {
        Self {
            citations,
            answered: true,
            ..Self::not_answered()
        }
    }

    /// A text that says that no passage answers, and shows the closest ones.
    pub fn closest(citations: Vec<Citation>) -> Self {
        Self {
            citations,
            closest: true,
            ..Self::not_answered()
        }
    }

    /// A text without an answer, which says so.
    pub fn not_answered() -> Self {
        Self {
            citations: Vec::new(),
            answered: false,
            closest: false,
            usage: None,
            text: String::new(),
            trimmed_chunks: 0,
            trimmed_triples: 0,
            trimmed_messages: 0,
            unknown_citations: 0,
            cut_short: false,
            fallback: None,
            structured: None,
            confidence: None,
        }
    }

    /// Sets the text that was sent.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// The part of the turn's metadata that describes this answer: its citations, whether it
    /// answers the question, and what was left out.
    pub(crate) fn metadata(&self) -> Metadata {
        let metadata = Metadata::default()
            .citations(self.citations.clone())
            .with("answered", self.answered);
        let metadata = if self.closest {
            metadata.with("closest", true)
        } else {
            metadata
        };
        let metadata = if self.cut_short {
            metadata.cut_short()
        } else {
            metadata
        };
        let metadata = [
            ("trimmed_chunks", self.trimmed_chunks),
            ("trimmed_triples", self.trimmed_triples),
            ("trimmed_messages", self.trimmed_messages),
            ("unknown_citations", self.unknown_citations),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .fold(metadata, |metadata, (name, count)| metadata.with(name, count));
        match self.fallback {
            Some(code) => metadata.with("fallback", code),
            None => metadata,
        }
    }

    /// Sets how likely quotes answer the question.
    #[must_use]
    pub fn confidence(mut self, confidence: f64) -> Self {
        self.confidence = Some(confidence);
        self
    }

    /// Sets what the generation consumed.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

/// Returns an answer to a request for JSON with the JSON that its text is.
///
/// # Errors
///
/// The text is not JSON.
pub(crate) fn structured(answer: GeneratedAnswer) -> Result<GeneratedAnswer, GenerateError> {
    let parsed = serde_json::from_str(&answer.text);
    let value = parsed.map_err(|error| GenerateError::Model(ModelError::Failed(error.into())))?;
    Ok(GeneratedAnswer {
        answered: true,
        structured: Some(value),
        ..answer
    })
}

/// Why an answer was not completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The turn has ended: its answer is no longer read.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The question does not fit the model, even without any evidence.
    #[error("the question has {tokens} tokens, but the model takes {limit}")]
    QuestionTooLong {
        /// Tokens of the question, including the instructions.
        tokens: u32,
        /// Most tokens that the model reads besides those reserved for the answer.
        limit: u32,
    },
    /// The model failed before the first word.
    #[error("the answer could not be generated")]
    Model(#[source] ModelError),
    /// The model failed in the middle of its answer.
    #[error("the answer broke off")]
    Broken {
        /// What was sent, with its citations.
        begun: Box<GeneratedAnswer>,
        /// The cause.
        #[source]
        source: ModelError,
    },
    /// The generator failed.
    #[error("the answer could not be generated")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl GenerateError {
    /// Returns a stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Send(_) => "turn_over",
            Self::QuestionTooLong { .. } => "question_too_long",
            Self::Model(error) | Self::Broken { source: error, .. } => error.code(),
            Self::Failed(_) => "generation_failed",
        }
    }
}

/// Writes an answer into a sink.
pub trait Generate: Send + Sync + 'static {
    /// The model's name in events.
    fn model(&self) -> &str;

    /// Whether the generator honours [`GenerateRequest::schema`]. Default: `false`.
    fn has_structured_results(&self) -> bool {
        false
    }

    /// The number of tokens of the evidence, as the model counts them.
    fn context_tokens(&self, context: &[Hit]) -> u32;

    /// Determines how much of the request will be read. By default everything.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// Errors that [`generate`](Self::generate) would begin with.
    fn fit<'a>(&'a self, request: GenerateRequest<'a>) -> Boxed<'a, Result<Fit, GenerateError>> {
        let tokens = self.context_tokens(request.context);
        Box::pin(std::future::ready(Ok(Fit::whole(request.context.len(), tokens))))
    }

    /// Returns whether the evidence has nothing close to the question, so that an answer could only be made
    /// up. Default: `false`, because not every generator can tell.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    fn finds_nothing<'a>(&'a self, _request: GenerateRequest<'a>) -> Boxed<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Sends the answer piece by piece, and returns its citations.
    ///
    /// # Back-pressure
    ///
    /// The future waits while the sink is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the answer after the last piece that was sent.
    ///
    /// # Errors
    ///
    /// See [`GenerateError`].
    fn generate<'a>(
        &'a self,
        request: GenerateRequest<'a>,
        sink: &'a Sink,
    ) -> Pin<Box<dyn Future<Output = Result<GeneratedAnswer, GenerateError>> + Send + 'a>>;
}

pub(crate) fn citation(hit: &Hit, sentence: String, tool: &str) -> Citation {
    let chunk = &hit.chunk;
    let mut citation =
        Citation::new(&chunk.document_id, &chunk.id, sentence, tool).score(f64::from(hit.score));
    citation.page_number = chunk.page;
    citation.heading = chunk.heading.clone();
    citation
}

/// Sends each word with the space after it, as a model sends tokens.
pub(crate) async fn send_words(sink: &Sink, text: &str) -> Result<(), SendError> {
    for word in text.split_inclusive(' ') {
        sink.send(word).await?;
    }
    Ok(())
}
