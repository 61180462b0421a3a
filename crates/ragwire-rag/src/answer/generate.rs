//! Writing the answer: the seam [`Generate`] and its extractive implementation, which quotes and invents nothing.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use crate::answer::extract::{Extract, extract};
use crate::models::{Boxed, ChatMessage, ModelError};
use crate::search::plan::Plan;
use crate::{Hit, Library};
use ragwire::{Citation, Metadata, SendError, Sink, Usage};

/// Said where the documents hold no answer.
pub const NO_ANSWER: &str = "The documents do not answer this question.";
/// Said where there are no documents.
pub const NO_DOCUMENTS: &str = "There are no documents to answer from yet.";

/// Most sentences for each question within a question.
const SENTENCES_PER_PART: usize = 2;

/// What is to be answered, and from what.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct GenerateRequest<'a> {
    /// The question.
    pub question: &'a str,
    /// The evidence, best first; empty where nothing was found.
    pub context: &'a [Hit],
    /// The tool that found the evidence, for the citations.
    pub tool: &'a str,
    /// What was asked and answered before in the conversation, oldest first.
    pub earlier: &'a [ChatMessage],
}

impl<'a> GenerateRequest<'a> {
    /// Answers `question` from `context`, which `tool` found.
    pub fn new(question: &'a str, context: &'a [Hit], tool: &'a str) -> Self {
        Self {
            question,
            context,
            tool,
            earlier: &[],
        }
    }

    /// Says what was asked and answered before, oldest first. A generator that only quotes does not read it.
    #[must_use]
    pub fn earlier(mut self, earlier: &'a [ChatMessage]) -> Self {
        self.earlier = earlier;
        self
    }
}

/// How much of a request fits the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fit {
    /// Chunks that the answer is written from: the first ones of the evidence.
    pub chunks: usize,
    /// Tokens of all that the model is to read, or of the evidence where nothing else is read.
    pub tokens: u32,
    /// Chunks that are left out, the last ones of the evidence.
    pub trimmed_chunks: u32,
    /// Messages of the conversation that are left out, the oldest ones.
    pub trimmed_messages: u32,
}

impl Fit {
    /// All of it fits: so many chunks, and so many tokens.
    pub fn whole(chunks: usize, tokens: u32) -> Self {
        Self {
            chunks,
            tokens,
            trimmed_chunks: 0,
            trimmed_messages: 0,
        }
    }
}

/// What stands beside the text that was sent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Generated {
    /// Evidence for the answer; the n-th is `[n]` in the text.
    pub citations: Vec<Citation>,
    /// Whether the evidence answers. Where it does not, the text says so and there are no citations.
    pub answered: bool,
    /// What it consumed, where that was measured.
    pub usage: Option<Usage>,
    /// The whole text, as it was sent.
    pub text: String,
    /// Chunks of the evidence that the model did not see, since they did not fit: the last ones.
    pub trimmed_chunks: u32,
    /// Messages of the conversation that it did not see for the same reason: the oldest ones.
    pub trimmed_messages: u32,
    /// Citations that the model invented; each stands as `[?]` in the text.
    pub unknown_citations: u32,
    /// The text ends where there were as many tokens as it may have.
    pub cut_short: bool,
}

impl Generated {
    /// An answer with its evidence.
    pub fn answered(citations: Vec<Citation>) -> Self {
        Self {
            citations,
            answered: true,
            ..Self::not_answered()
        }
    }

    /// The text said that there is no answer.
    pub fn not_answered() -> Self {
        Self {
            citations: Vec::new(),
            answered: false,
            usage: None,
            text: String::new(),
            trimmed_chunks: 0,
            trimmed_messages: 0,
            unknown_citations: 0,
            cut_short: false,
        }
    }

    /// Says which text was sent.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// What closes a turn with this answer, without mode, tools and usage: its citations, whether it answers, and what was left out.
    pub(crate) fn metadata(&self) -> Metadata {
        let metadata = Metadata::default()
            .citations(self.citations.clone())
            .with("answered", self.answered);
        [
            ("trimmed_chunks", self.trimmed_chunks),
            ("trimmed_messages", self.trimmed_messages),
            ("unknown_citations", self.unknown_citations),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .fold(metadata, |metadata, (name, count)| metadata.with(name, count))
    }

    /// Says what it consumed.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

/// An answer was not finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The turn is over: nobody reads any more.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The question fits the model not even without any evidence.
    #[error("the question has {tokens} tokens and the model takes {limit}")]
    QuestionTooLong {
        /// Tokens of the question, with what the model is told to do.
        tokens: u32,
        /// Most tokens that it reads beside the answer.
        limit: u32,
    },
    /// The model did not do it.
    #[error("the answer could not be generated")]
    Model(#[source] ModelError),
    /// The generator failed.
    #[error("the answer could not be generated")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl GenerateError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Send(_) => "turn_over",
            Self::QuestionTooLong { .. } => "question_too_long",
            Self::Model(error) => error.code(),
            Self::Failed(_) => "generation_failed",
        }
    }
}

/// Writes an answer into a sink.
pub trait Generate: Send + Sync + 'static {
    /// The model's name in events.
    fn model(&self) -> &str;

    /// How many tokens the evidence has, as the model counts them.
    fn context_tokens(&self, context: &[Hit]) -> u32;

    /// How much of the request will be read, before it is. What has no limit reads all of it.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    /// Those that [`generate`](Self::generate) would begin with.
    fn fit<'a>(&'a self, request: GenerateRequest<'a>) -> Boxed<'a, Result<Fit, GenerateError>> {
        let tokens = self.context_tokens(request.context);
        Box::pin(std::future::ready(Ok(Fit::whole(request.context.len(), tokens))))
    }

    /// Sends the answer piece by piece, and returns its citations.
    ///
    /// # Back-pressure
    /// It waits with the sink.
    ///
    /// # Cancel safety
    /// Dropping the future ends the answer after the last piece that was sent.
    fn generate<'a>(
        &'a self,
        request: GenerateRequest<'a>,
        sink: &'a Sink,
    ) -> Pin<Box<dyn Future<Output = Result<Generated, GenerateError>> + Send + 'a>>;
}

/// Answers with sentences of the evidence, each followed by its number, word by word.
#[derive(Debug, Clone)]
pub struct Extractive {
    library: Arc<Library>,
}

impl Extractive {
    /// Weighs words as `library` does.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library }
    }

    async fn answer(&self, request: GenerateRequest<'_>, sink: &Sink) -> Result<Generated, GenerateError> {
        let parts = Plan::of(request.question).parts;
        let mut said = Said {
            request,
            sink,
            citations: Vec::new(),
            unknown: Vec::new(),
            text: String::new(),
        };
        let mut unanswered = Vec::new();
        for part in &parts {
            // A dozen chunks: a few milliseconds, so it stays on the runtime's thread.
            let found = extract(&self.library, part, request.context);
            if found.quoted.is_empty() {
                unanswered.push(part.as_str());
            } else {
                let most = if parts.len() > 1 {
                    SENTENCES_PER_PART
                } else {
                    usize::MAX
                };
                said.extract(found, most).await?;
            }
        }
        if said.citations.is_empty() {
            let text = if self.library.chunk_count() == 0 {
                NO_DOCUMENTS
            } else {
                NO_ANSWER
            };
            send_words(sink, text).await?;
            return Ok(Generated::not_answered().text(text));
        }
        if !unanswered.is_empty() {
            let remark = format!(" The documents do not answer “{}”.", unanswered.join("”, “"));
            said.say(&remark).await?;
        }
        Ok(Generated::answered(said.citations).text(said.text))
    }
}

/// An answer on its way.
#[derive(Debug)]
struct Said<'a> {
    request: GenerateRequest<'a>,
    sink: &'a Sink,
    citations: Vec<Citation>,
    /// Words already named as unknown.
    unknown: Vec<String>,
    /// All that was sent.
    text: String,
}

impl Said<'_> {
    async fn say(&mut self, text: &str) -> Result<(), SendError> {
        self.text.push_str(text);
        send_words(self.sink, text).await
    }

    async fn extract(&mut self, found: Extract, most: usize) -> Result<(), SendError> {
        let unknown: Vec<String> = found
            .unknown
            .into_iter()
            .filter(|word| !self.unknown.contains(word))
            .collect();
        if !unknown.is_empty() {
            let space = if self.citations.is_empty() { "" } else { " " };
            let remark = format!(
                "{space}The documents do not mention “{}”. What comes closest:",
                unknown.join("”, “")
            );
            self.say(&remark).await?;
        }
        let mut follows = !self.citations.is_empty() || !unknown.is_empty();
        self.unknown.extend(unknown);
        for one in found.quoted.into_iter().take(most) {
            let Some(hit) = self.request.context.get(one.hit) else {
                continue;
            };
            if self
                .citations
                .iter()
                .any(|said| said.supporting_quote == one.sentence)
            {
                continue;
            }
            let text = format!(
                "{}{} [{}]",
                if follows { " " } else { "" },
                without_numbers(&one.sentence),
                self.citations.len() + 1
            );
            self.say(&text).await?;
            follows = true;
            self.citations
                .push(citation(hit, one.sentence, self.request.tool));
        }
        Ok(())
    }
}

/// A sentence with its own `[1]` or `[2, 3]` in parentheses, so that the numbers in brackets are those of the citations alone.
fn without_numbers(sentence: &str) -> String {
    let mut plain = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('[') {
        let inside = after.split_once(']').filter(|(inside, _)| {
            inside.contains(|c: char| c.is_ascii_digit())
                && inside.chars().all(|c| c.is_ascii_digit() || ", -–".contains(c))
        });
        plain.push_str(before);
        match inside {
            Some((numbers, after)) => {
                plain.extend(["(", numbers, ")"]);
                rest = after;
            }
            None => {
                plain.push('[');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

pub(crate) fn citation(hit: &Hit, sentence: String, tool: &str) -> Citation {
    let chunk = &hit.chunk;
    let mut citation =
        Citation::new(&chunk.document_id, &chunk.id, sentence, tool).score(f64::from(hit.score));
    citation.page_number = chunk.page;
    citation.heading = chunk.heading.clone();
    citation
}

impl Generate for Extractive {
    fn model(&self) -> &str {
        "extractive"
    }

    /// Words by Unicode's rules: there is no tokenizer.
    fn context_tokens(&self, context: &[Hit]) -> u32 {
        let words: usize = context
            .iter()
            .map(|hit| hit.chunk.text.unicode_words().count())
            .sum();
        u32::try_from(words).unwrap_or(u32::MAX)
    }

    fn generate<'a>(
        &'a self,
        request: GenerateRequest<'a>,
        sink: &'a Sink,
    ) -> Pin<Box<dyn Future<Output = Result<Generated, GenerateError>> + Send + 'a>> {
        Box::pin(self.answer(request, sink))
    }
}

/// Each word with the space after it, as a model would send tokens.
pub(crate) async fn send_words(sink: &Sink, text: &str) -> Result<(), SendError> {
    for word in text.split_inclusive(' ') {
        sink.send(word).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_document_are_not_ours() {
        for (sentence, plain) in [
            ("As in [12] and [3, 4].", "As in (12) and (3, 4)."),
            ("An array a[i] or [], [1", "An array a[i] or [], [1"),
            ("[[7]]", "[(7)]"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(sentence), plain);
        }
    }
}
