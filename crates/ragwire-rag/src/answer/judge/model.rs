//! The judge that asks a language model, each judgement as JSON of a schema, and falls back to words where that fails.
//!
//! What a hostile document can do: its text stands in a [`Fence`], and the answer is bound to a schema, so the worst is a
//! wrong grade or verdict, a search that brings nothing, or a tool out of those given. It cannot name another tool, write to the reader, or ask
//! for more than the caller's steps.
//!
//! A call that fails, is cut off, takes too long or says something that the schema does not allow counts for nothing, and the whole step is judged by
//! words. Grades of two judges are never mixed, since they have no common scale.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::prompts::{
    self, BYTES_OF_A_PASSAGE, BYTES_OF_A_QUESTION, conversation, fenced, passages, searches, tools_given,
};
use super::{
    Analysis, Grade, Judge, JudgeError, Judged, LexicalJudge, MAX_QUERY_BYTES, MAX_SUB_QUERIES, NextStep,
    Progress, STOP, Thresholds, Verified,
};
use crate::answer::fence::Fence;
use crate::models::{Boxed, ChatMessage, FinishReason, LanguageModel, ModelError, Prompt, Sampling, Shape};
use crate::{Hit, Library};
use ragwire::Usage;
use ragwire::event::{ClaimVerdict, Complexity, Mode};

/// How long one step may take before the words judge: what a reader waits for without anything to read.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(20);
/// Most passages, or claims, in one call: small models lose count beyond.
pub const MAX_BATCH: usize = 16;
/// Longest judgement that is read, in bytes. No schema here allows as much.
const MAX_JUDGEMENT_BYTES: usize = 16 * 1024;
/// Longest made-up passage, in bytes.
const MAX_HYPOTHESIS_BYTES: usize = 1_200;
/// Best grade that the model gives; the score is a share of it.
const BEST_GRADE: u8 = 10;
/// Where the quality gate stands: a passage that answers a part or may answer gets 5 by what the model is told.
pub const THRESHOLDS: Thresholds = Thresholds {
    upper: 0.7,
    lower: 0.3,
};
/// Most tokens of an analysis: four sub-questions of some forty words.
const ANALYSIS_TOKENS: u32 = 384;
/// Most tokens of a made-up passage: a paragraph.
const HYPOTHESIS_TOKENS: u32 = 200;
/// Most tokens of a next step: a query.
const STEP_TOKENS: u32 = 160;
/// Most tokens of a list of judgements, and of each in it. Generous: servers may put white space between.
const LIST_TOKENS: u32 = 48;
const ITEM_TOKENS: u32 = 12;

/// How a model judges.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct JudgeOptions {
    /// How long one step may take, all its calls together, before the words judge.
    pub timeout: Duration,
    /// Where the quality gate stands.
    pub thresholds: Thresholds,
    /// Most passages, or claims, in one call; fewer where they do not fit.
    pub max_batch: usize,
}

impl Default for JudgeOptions {
    fn default() -> Self {
        Self {
            timeout: STEP_TIMEOUT,
            thresholds: THRESHOLDS,
            max_batch: MAX_BATCH,
        }
    }
}

/// Judges with a language model, and by words where that fails.
#[derive(Debug, Clone)]
pub struct ModelJudge {
    model: Arc<dyn LanguageModel>,
    words: LexicalJudge,
    options: JudgeOptions,
}

/// Why a call brought nothing.
#[derive(Debug)]
enum Useless {
    /// The model is gone for good.
    Gone(ModelError),
    /// It was too long: half of it may fit.
    TooLong,
    /// It failed.
    Failed(ModelError),
    /// It said what the schema does not allow, or was cut off.
    Garbage,
}

impl From<ModelError> for Useless {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Closed => Self::Gone(error),
            ModelError::Overflow { .. } => Self::TooLong,
            error => Self::Failed(error),
        }
    }
}

/// What the calls of one step came to until now.
#[derive(Debug, Default)]
struct Spent(Option<Usage>);

impl ModelJudge {
    /// Judges with `model`; where that fails, by words as `library` weighs them.
    pub fn new(model: Arc<dyn LanguageModel>, library: Arc<Library>, options: JudgeOptions) -> Self {
        Self {
            model,
            words: LexicalJudge::new(library),
            options,
        }
    }

    /// One step: what the model says, or else what the words say.
    async fn step<T>(
        &self,
        step: &'static str,
        ask: impl AsyncFnOnce(&mut Spent) -> Result<T, Useless>,
        words: impl FnOnce() -> T,
    ) -> Result<Judged<T>, JudgeError> {
        let mut spent = Spent::default();
        let why = match timeout(self.options.timeout, ask(&mut spent)).await {
            Ok(Ok(value)) => {
                let mut judged = Judged::new(value, self.model.name());
                judged.usage = spent.0;
                return Ok(judged);
            }
            Ok(Err(Useless::Gone(error))) => return Err(JudgeError::Gone(error)),
            Ok(Err(Useless::Failed(error))) => error.code(),
            Ok(Err(Useless::TooLong)) => "too_long",
            Ok(Err(Useless::Garbage)) => "garbage",
            Err(_) => "timeout",
        };
        tracing::debug!(step, why, model = self.model.name(), "the words judge");
        let mut judged = Judged::new(words(), super::lexical::NAME);
        judged.usage = spent.0;
        Ok(judged)
    }

    /// The text of one call, bounded.
    async fn text(&self, prompt: Prompt, spent: &mut Spent) -> Result<(String, FinishReason), Useless> {
        let tokens = self.model.count_tokens(&prompt).await?;
        if tokens.saturating_add(prompt.max_tokens) > self.model.context_tokens() {
            return Err(Useless::TooLong);
        }
        let mut generation = self.model.generate(prompt);
        let mut text = String::new();
        while let Some(piece) = generation.next().await {
            match piece {
                Ok(piece) => text.push_str(&piece),
                Err(ModelError::Closed) => return Err(self.lost().await),
                Err(error) => return Err(error.into()),
            }
            if text.len() > MAX_JUDGEMENT_BYTES {
                return Err(Useless::Garbage);
            }
        }
        let finished = generation.finished().ok_or(Useless::Garbage)?;
        let usage = finished.usage(self.model.name());
        spent.0 = Some(match spent.0.take() {
            Some(before) => before.plus(&usage),
            None => usage,
        });
        Ok((text, finished.reason))
    }

    /// Whether one answer was lost, or the model itself: then it cannot count either.
    async fn lost(&self) -> Useless {
        match self.model.count_tokens(&Prompt::user("")).await {
            Err(ModelError::Closed) => Useless::Gone(ModelError::Closed),
            _ => Useless::Failed(ModelError::Closed),
        }
    }

    /// One call for a judgement of this schema. Its first and last byte are those of the JSON.
    async fn json<T: DeserializeOwned>(
        &self,
        rules: &str,
        asked: String,
        schema: Value,
        max_tokens: u32,
        spent: &mut Spent,
    ) -> Result<T, Useless> {
        let prompt = prompt(rules, asked, max_tokens).shape(Shape::Json(schema));
        let (text, reason) = self.text(prompt, spent).await?;
        if reason == FinishReason::Length {
            return Err(Useless::Garbage);
        }
        serde_json::from_str(text.trim()).map_err(|_| Useless::Garbage)
    }

    async fn analysis(
        &self,
        question: &str,
        earlier: &[ChatMessage],
        spent: &mut Spent,
    ) -> Result<Analysis, Useless> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Said {
            complexity: Complexity,
            mode: Mode,
            sub_queries: Vec<String>,
        }
        let schema = object(&[
            ("complexity", json!({"enum": ["simple", "moderate", "complex"]})),
            ("mode", json!({"enum": ["direct", "agentic"]})),
            (
                "sub_queries",
                json!({"type": "array", "items": query_schema(), "maxItems": MAX_SUB_QUERIES}),
            ),
        ]);
        let (conversation, question) = (conversation(earlier), cut(question, BYTES_OF_A_QUESTION));
        let fence = Fence::around([conversation.as_str(), question]);
        let mut asked = String::new();
        if !conversation.is_empty() {
            asked = fence.quote("conversation", None, &conversation) + "\n";
        }
        asked += &fence.quote("question", None, question);
        let said: Said = self
            .json(prompts::ANALYSE, asked, schema, ANALYSIS_TOKENS, spent)
            .await?;
        if said.sub_queries.len() > MAX_SUB_QUERIES {
            return Err(Useless::Garbage);
        }
        let mut sub_queries: Vec<String> = Vec::new();
        for query in &said.sub_queries {
            let query = cut(query, MAX_QUERY_BYTES).trim();
            let known = sub_queries.iter().any(|known| known == query) || query == question.trim();
            if !query.is_empty() && !known {
                sub_queries.push(query.to_owned());
            }
        }
        Ok(Analysis {
            complexity: said.complexity,
            sub_queries,
            mode: said.mode,
        })
    }

    async fn grades(&self, question: &str, hits: &[Hit], spent: &mut Spent) -> Result<Vec<Grade>, Useless> {
        let mut grades = Vec::with_capacity(hits.len());
        let mut open = self.batches(hits.len());
        // The first ones last, so that they are taken first.
        open.reverse();
        while let Some(range) = open.pop() {
            match self.grade_some(question, &hits[range.clone()], spent).await {
                Ok(some) => grades.extend(some),
                Err(Useless::TooLong) if range.len() > 1 => {
                    let (first, second) = halves(&range);
                    open.extend([second, first]);
                }
                Err(why) => return Err(why),
            }
        }
        Ok(grades)
    }

    async fn grade_some(
        &self,
        question: &str,
        hits: &[Hit],
        spent: &mut Spent,
    ) -> Result<Vec<Grade>, Useless> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Said {
            scores: Vec<u8>,
        }
        let score = json!({"type": "integer", "minimum": 0, "maximum": BEST_GRADE});
        let schema = object(&[("scores", list(&score, hits.len()))]);
        let question = cut(question, BYTES_OF_A_QUESTION);
        let texts = passages(hits, BYTES_OF_A_PASSAGE);
        let fence = Fence::around(texts.iter().map(String::as_str).chain([question]));
        let asked = format!(
            "{}\n{}\nGive {} scores.",
            fenced(&fence, "passage", &texts),
            fence.quote("question", None, question),
            hits.len()
        );
        let said: Said = self
            .json(prompts::GRADE, asked, schema, list_tokens(hits.len()), spent)
            .await?;
        if said.scores.len() != hits.len() || said.scores.iter().any(|score| *score > BEST_GRADE) {
            return Err(Useless::Garbage);
        }
        let share = |score: &u8| f64::from(*score) / f64::from(BEST_GRADE);
        let grade = |score: &u8| Grade::new(share(score), self.options.thresholds);
        Ok(said.scores.iter().map(grade).collect())
    }

    /// The best that any group of sources says to each claim: where they do not fit together, first the claims are parted, then the sources.
    async fn verdicts(
        &self,
        claims: &[String],
        sources: &[Hit],
        spent: &mut Spent,
    ) -> Result<Vec<ClaimVerdict>, Useless> {
        let mut verdicts = vec![ClaimVerdict::Unsupported; claims.len()];
        let claim_batches = self.batches(claims.len()).into_iter();
        let mut open: Vec<_> = claim_batches
            .flat_map(|some| {
                self.batches(sources.len())
                    .into_iter()
                    .map(move |of| (some.clone(), of))
            })
            .collect();
        while let Some((some, of)) = open.pop() {
            match self
                .verify_some(&claims[some.clone()], &sources[of.clone()], spent)
                .await
            {
                Ok(said) => {
                    for (verdict, said) in verdicts[some].iter_mut().zip(said) {
                        *verdict = better(*verdict, said);
                    }
                }
                Err(Useless::TooLong) if some.len() > 1 => {
                    let (first, second) = halves(&some);
                    open.extend([(second, of.clone()), (first, of)]);
                }
                Err(Useless::TooLong) if of.len() > 1 => {
                    let (first, second) = halves(&of);
                    open.extend([(some.clone(), second), (some, first)]);
                }
                Err(why) => return Err(why),
            }
        }
        Ok(verdicts)
    }

    async fn verify_some(
        &self,
        claims: &[String],
        sources: &[Hit],
        spent: &mut Spent,
    ) -> Result<Vec<ClaimVerdict>, Useless> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Said {
            verdicts: Vec<ClaimVerdict>,
        }
        let verdict = json!({"enum": ["SUPPORTED", "PARTIALLY_SUPPORTED", "UNSUPPORTED"]});
        let schema = object(&[("verdicts", list(&verdict, claims.len()))]);
        let texts = passages(sources, BYTES_OF_A_PASSAGE);
        let fence = Fence::around(texts.iter().chain(claims).map(String::as_str));
        let asked = format!(
            "{}\n{}\nGive {} verdicts.",
            fenced(&fence, "source", &texts),
            fenced(&fence, "claim", claims),
            claims.len()
        );
        let said: Said = self
            .json(prompts::VERIFY, asked, schema, list_tokens(claims.len()), spent)
            .await?;
        if said.verdicts.len() != claims.len() {
            return Err(Useless::Garbage);
        }
        Ok(said.verdicts)
    }

    async fn next(&self, progress: &Progress<'_>, spent: &mut Spent) -> Result<NextStep, Useless> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Said {
            tool: String,
            query: String,
        }
        let mut names: Vec<&str> = progress.tools.iter().map(|tool| tool.name.as_str()).collect();
        names.push(STOP);
        let schema = object(&[("tool", json!({"enum": names})), ("query", query_schema())]);
        let question = cut(progress.question, BYTES_OF_A_QUESTION);
        let (done, found) = (searches(progress.searched), prompts::found(progress.found));
        let fence = Fence::around(found.iter().map(String::as_str).chain([question, done.as_str()]));
        let asked = format!(
            "Tools:\n{}\n{}\n{}\n{}\nYou may search {} more times.",
            tools_given(progress.tools),
            fenced(&fence, "passage", &found),
            fence.quote("searches", None, &done),
            fence.quote("question", None, question),
            progress.steps_left
        );
        let said: Said = self
            .json(prompts::NEXT_STEP, asked, schema, STEP_TOKENS, spent)
            .await?;
        if said.tool == STOP {
            return Ok(NextStep::Stop);
        }
        let query = cut(&said.query, MAX_QUERY_BYTES).trim();
        let given = progress.tools.iter().any(|tool| tool.name == said.tool);
        // To search for the same again is no plan.
        if !given || query.is_empty() || progress.did(&said.tool, query) {
            return Err(Useless::Garbage);
        }
        Ok(NextStep::Search {
            tool: said.tool,
            query: query.to_owned(),
        })
    }

    async fn made_up(&self, question: &str, spent: &mut Spent) -> Result<Option<String>, Useless> {
        let question = cut(question, BYTES_OF_A_QUESTION);
        let asked = Fence::around([question]).quote("question", None, question);
        let (text, _) = self
            .text(prompt(prompts::HYPOTHESIS, asked, HYPOTHESIS_TOKENS), spent)
            .await?;
        let text = cut(text.trim(), MAX_HYPOTHESIS_BYTES);
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// So many things in groups as large as one call takes.
    fn batches(&self, things: usize) -> Vec<Range<usize>> {
        let most = self.options.max_batch.max(1);
        let firsts = (0..things).step_by(most);
        firsts.map(|first| first..things.min(first + most)).collect()
    }
}

fn prompt(rules: &str, asked: String, max_tokens: u32) -> Prompt {
    use crate::models::Role::{System, User};
    Prompt::new(vec![
        ChatMessage::new(System, rules),
        ChatMessage::new(User, asked),
    ])
    .max_tokens(max_tokens)
    .sampling(Sampling::GREEDY)
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn halves(range: &Range<usize>) -> (Range<usize>, Range<usize>) {
    let middle = range.start + range.len() / 2;
    (range.start..middle, middle..range.end)
}

fn better(a: ClaimVerdict, b: ClaimVerdict) -> ClaimVerdict {
    let worth = |verdict| match verdict {
        ClaimVerdict::Supported => 2,
        ClaimVerdict::PartiallySupported => 1,
        ClaimVerdict::Unsupported => 0,
    };
    if worth(b) > worth(a) { b } else { a }
}

fn list_tokens(items: usize) -> u32 {
    LIST_TOKENS.saturating_add(ITEM_TOKENS.saturating_mul(super::count(items)))
}

/// An object with exactly these members, in this order.
fn object(members: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> = members
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// A list of exactly so many items.
fn list(items: &Value, length: usize) -> Value {
    json!({"type": "array", "items": items, "minItems": length, "maxItems": length})
}

/// A query: characters, where ours are counted in bytes.
fn query_schema() -> Value {
    json!({"type": "string", "maxLength": MAX_QUERY_BYTES / 2})
}

impl Judge for ModelJudge {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn analyse<'a>(
        &'a self,
        question: &'a str,
        earlier: &'a [ChatMessage],
    ) -> Boxed<'a, Result<Judged<Analysis>, JudgeError>> {
        Box::pin(self.step(
            "analyse",
            async move |spent| self.analysis(question, earlier, spent).await,
            move || self.words.analysis(question, earlier),
        ))
    }

    fn grade<'a>(
        &'a self,
        question: &'a str,
        hits: &'a [Hit],
    ) -> Boxed<'a, Result<Judged<Vec<Grade>>, JudgeError>> {
        if hits.is_empty() {
            return self.words.grade(question, hits);
        }
        Box::pin(self.step(
            "grade",
            async move |spent| self.grades(question, hits, spent).await,
            move || self.words.grades(question, hits),
        ))
    }

    fn verify<'a>(
        &'a self,
        claims: &'a [String],
        sources: &'a [Hit],
    ) -> Boxed<'a, Result<Judged<Verified>, JudgeError>> {
        if claims.is_empty() || sources.is_empty() {
            return self.words.verify(claims, sources);
        }
        Box::pin(self.step(
            "verify",
            async move |spent| {
                let verdicts = self.verdicts(claims, sources, spent).await?;
                Ok(Verified::new(claims, verdicts))
            },
            move || self.words.verified(claims, sources),
        ))
    }

    fn hypothesis<'a>(&'a self, question: &'a str) -> Boxed<'a, Result<Option<Judged<String>>, JudgeError>> {
        Box::pin(async move {
            let ask = async move |spent: &mut Spent| self.made_up(question, spent).await;
            let judged = self.step("hypothesis", ask, || None).await?;
            Ok(judged.value.map(|text| Judged {
                value: text,
                by: judged.by,
                usage: judged.usage,
            }))
        })
    }

    fn next_step<'a>(&'a self, progress: Progress<'a>) -> Boxed<'a, Result<Judged<NextStep>, JudgeError>> {
        if progress.steps_left == 0 || progress.tools.is_empty() {
            return self.words.next_step(progress);
        }
        Box::pin(self.step(
            "next_step",
            async move |spent| self.next(&progress, spent).await,
            move || self.words.step(&progress),
        ))
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
