//! The writer without a model: it quotes the documents and invents nothing.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use crate::answer::dated::dated;
use crate::answer::extract::{Extract, MAX_CONFIDENCE, Nearness, Verdict, compared, extract, is_far};
use crate::answer::generate::{
    Generate, GenerateError, GenerateRequest, GeneratedAnswer, citation, send_words,
};
use crate::answer::notices::Notices;
use crate::answer::render::{render, rows_of_same_table};
use crate::answer::welcome::welcome;
use crate::models::Boxed;
use crate::search::about::{About, AboutDocument};
use crate::search::follow_up::stand_alone;
use crate::search::meaning::IS_NEAR;
use crate::search::plan::Plan;
use crate::{DocumentFilter, Hit, Library, LibraryView};
use ragwire::{Citation, SendError, Sink};

/// Number of quotes at most for each question within a question.
const QUOTES_PER_PART: usize = 2;
/// Shorter quotes follow each other in one paragraph.
const INLINE_BYTES: usize = 160;

/// Answers by quoting passages of the evidence, each followed by its number, word by word.
#[derive(Clone, Debug)]
pub struct Extractive {
    library: Arc<Library>,
}

impl Extractive {
    /// Chooses quotes by their words, weighted as in `library`.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library }
    }

    async fn answer(
        &self,
        request: GenerateRequest<'_>,
        sink: &Sink,
    ) -> Result<GeneratedAnswer, GenerateError> {
        let all = DocumentFilter::default();
        let library = self.library.seen_by(request.user());
        if let Some(text) = welcome(&self.library, request.filter.unwrap_or(&all), request.question) {
            send_words(sink, &text).await?;
            return Ok(GeneratedAnswer::answered(Vec::new()).text(text));
        }
        let carried = stand_alone(library, request.question, request.earlier);
        let question = carried.as_deref().unwrap_or(request.question);
        let own = carried.as_ref().map(|_| request.question);
        let notices = Notices::of(library, question);
        let mut answer = QuotedAnswer {
            request,
            sink,
            citations: Vec::new(),
            is_open: false,
            text: String::new(),
        };
        if let Some((hit, title)) = title(library, question, answer.request.context) {
            let number = answer.request.citations_before + 1;
            answer
                .send(&format!("{} [{number}]", notices.title(&title)))
                .await?;
            answer.citations.push(citation(hit, title, answer.request.tool));
            let answered = GeneratedAnswer::answered(answer.citations);
            return Ok(answered.confidence(MAX_CONFIDENCE).text(answer.text));
        }
        let parts = Plan::of(question).parts;
        let most = if parts.len() > 1 {
            QUOTES_PER_PART
        } else {
            usize::MAX
        };
        let near = nearness(&request).await;
        // It is of the whole question.
        let none = Nearness::default();
        let near_part = if parts.len() > 1 { &none } else { &near };
        let mut unanswered = Vec::new();
        let mut confidence = 0.0;
        for part in &parts {
            // A dozen chunks take a few milliseconds, so this stays on the runtime's thread.
            let found = extract(library, part, own, request.context, near_part);
            match found.verdict {
                Verdict::Answer => {
                    confidence += found.confidence() / parts.len() as f64;
                    answer.quote(found, most).await?;
                }
                Verdict::Closest | Verdict::Nothing => unanswered.push(part.as_str()),
            }
        }
        if !answer.citations.is_empty() {
            if !unanswered.is_empty() {
                let remark = notices.not_answered(&unanswered);
                answer.send(&format!(" {remark}")).await?;
            }
            let answered = GeneratedAnswer::answered(answer.citations).confidence(confidence);
            return Ok(answered.text(answer.text));
        }
        let found = extract(library, question, own, request.context, &near);
        if found.quoted.is_empty() {
            let text = if library.passages_found() == 0 {
                notices.no_documents.to_owned()
            } else {
                notices.no_answer_to(library, question)
            };
            send_words(sink, &text).await?;
            return Ok(GeneratedAnswer::not_answered().text(text));
        }
        let remark = if found.unknown.is_empty() {
            notices.not_directly.to_owned()
        } else {
            notices.not_mentioned(&found.unknown)
        };
        answer.send(&format!("{remark} {}", notices.closest)).await?;
        answer.is_open = true;
        answer.quote(found, usize::MAX).await?;
        Ok(GeneratedAnswer::closest(answer.citations).text(answer.text))
    }
}

/// Returns the title of the document that a question asks for, with its first passage. A title is
/// often nowhere in the text.
fn title<'a>(library: LibraryView<'_>, question: &str, context: &'a [Hit]) -> Option<(&'a Hit, String)> {
    let about = AboutDocument::of(library, question).filter(|about| about.about == About::Title)?;
    let first = context
        .iter()
        .find(|hit| about.is_answered_by(library, &hit.chunk))?;
    let document = library.document(&first.chunk.document_id);
    let heading = first.chunk.heading.as_deref().unwrap_or_default();
    let outermost = heading.split(" > ").next().filter(|heading| !heading.is_empty());
    let title = document.and_then(|document| document.title);
    let title = title.or_else(|| outermost.map(str::to_owned));
    Some((first, title.unwrap_or_else(|| first.chunk.document_name.clone())))
}

/// Compares the sentences that may be quoted with the question, if there is an embedder.
async fn nearness(request: &GenerateRequest<'_>) -> Nearness {
    match request.meaning {
        Some(meaning) => compared(request.context, meaning).await,
        None => Nearness::default(),
    }
}

/// An answer in progress.
#[derive(Debug)]
struct QuotedAnswer<'a> {
    request: GenerateRequest<'a>,
    sink: &'a Sink,
    citations: Vec<Citation>,
    /// Whether the next quote begins a paragraph.
    is_open: bool,
    /// The text sent so far.
    text: String,
}

impl QuotedAnswer<'_> {
    async fn send(&mut self, text: &str) -> Result<(), SendError> {
        self.text.push_str(text);
        send_words(self.sink, text).await
    }

    async fn quote(&mut self, found: Extract, most: usize) -> Result<(), SendError> {
        let quoted: Vec<_> = found.quoted.into_iter().take(most).collect();
        for one in &quoted {
            let context = self.request.context;
            let Some(hit) = context.get(one.hit) else {
                continue;
            };
            let number = self.request.citations_before + self.citations.len() + 1;
            let is_next = |range: &Range<usize>| {
                let between = hit.chunk.text.get(one.range.end..range.start);
                between.is_some_and(|between| between.trim().is_empty())
            };
            let is_last = !quoted
                .iter()
                .any(|other| other.hit == one.hit && is_next(&other.range));
            let Some(rendered) = render(&hit.chunk, &one.range, number, is_last) else {
                continue;
            };
            let is_known = |citation: &Citation| citation.supporting_quote == rendered.quote;
            if self.citations.iter().any(is_known) {
                continue;
            }
            let is_block = rendered.text.contains('\n') || rendered.text.len() > INLINE_BYTES;
            let between = if self.text.is_empty() {
                ""
            } else if is_block || self.is_open {
                "\n\n"
            } else {
                " "
            };
            self.is_open = is_block;
            let release = dated(self.request.question, hit, &rendered.text);
            // Rows of one table have its header once.
            if let Some(rows) = rows_of_same_table(&self.text, &rendered.text)
                && release.is_none()
            {
                self.send(&format!("\n{rows}")).await?;
                self.citations
                    .push(citation(hit, rendered.quote, self.request.tool));
                continue;
            }
            let space = if rendered.begins_block { "\n\n" } else { " " };
            let release = release.map_or_else(String::new, |release| format!("**{release}:**{space}"));
            self.send(&format!("{between}{release}{}", rendered.text)).await?;
            self.citations
                .push(citation(hit, rendered.quote, self.request.tool));
        }
        Ok(())
    }
}

impl Generate for Extractive {
    fn model(&self) -> &str {
        "extractive"
    }

    /// Counts words by Unicode's rules, because no tokenizer is available.
    fn context_tokens(&self, context: &[Hit]) -> u32 {
        let words: usize = context
            .iter()
            .map(|hit| hit.chunk.text.unicode_words().count())
            .sum();
        u32::try_from(words).unwrap_or(u32::MAX)
    }

    fn finds_nothing<'a>(&'a self, request: GenerateRequest<'a>) -> Boxed<'a, bool> {
        Box::pin(async move {
            let all = DocumentFilter::default();
            let library = self.library.seen_by(request.user());
            let question = stand_alone(library, request.question, request.earlier);
            let question = question.as_deref().unwrap_or(request.question);
            let parts = Plan::of(question).parts;
            let mut asked = std::iter::once(question).chain(parts.iter().map(String::as_str));
            // By words first: comparing meanings may ask a model.
            asked.all(|part| is_far(library, part, request.context))
                && welcome(&self.library, request.filter.unwrap_or(&all), request.question).is_none()
                && nearness(&request).await.values().all(|near| *near < IS_NEAR)
        })
    }

    fn generate<'a>(
        &'a self,
        request: GenerateRequest<'a>,
        sink: &'a Sink,
    ) -> Pin<Box<dyn Future<Output = Result<GeneratedAnswer, GenerateError>> + Send + 'a>> {
        Box::pin(self.answer(request, sink))
    }
}
