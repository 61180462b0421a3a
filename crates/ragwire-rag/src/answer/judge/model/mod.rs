//! The judge that asks a language model. Each judgement is JSON of a schema; if that fails, the
//! lexical judge takes over.
//!
//! What a hostile document can achieve is bounded: its text is quoted by a [`Fence`] and the answer
//! is restricted to a schema, so the worst is a wrong grade or verdict, a useless search, or a bad
//! choice among the offered tools. It cannot name another tool, write to the reader, or ask for
//! more steps than the caller allows.
//!
//! If a call fails, is cut off, times out or returns something that the schema does not allow, its
//! result is discarded and the whole step is judged by words. Grades of two judges are never mixed,
//! since they have no common scale.

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
    Analysis, ClaimChecks, Grade, Judge, JudgeError, Judgement, LexicalJudge, MAX_QUERY_BYTES,
    MAX_SUB_QUERIES, NextStep, Progress, STOP, Thresholds,
};
use crate::answer::fence::Fence;
use crate::answer::thoughts::{json_in, without_thoughts};
use crate::models::{Boxed, ChatMessage, FinishReason, LanguageModel, ModelError, Prompt, Sampling, Shape};
use crate::{Hit, Library};
use ragwire::Usage;
use ragwire::event::{ClaimVerdict, Complexity, Mode};

/// How long one step may take before the lexical judge takes over: the reader waits that long
/// without anything to read.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of passages, or claims, in one call at most: small models lose count beyond that.
const MAX_BATCH: usize = 16;
/// Length in bytes of the longest judgement that is read. No schema here allows as much.
const MAX_JUDGEMENT_BYTES: usize = 16 * 1024;
/// Length in bytes of the longest made-up passage.
const MAX_HYPOTHESIS_BYTES: usize = 1_200;
/// Best grade that the model gives; the score is a share of it.
const BEST_GRADE: u8 = 10;
/// The default thresholds: according to its instructions the model gives 5 to a passage that
/// answers a part or may answer.
const THRESHOLDS: Thresholds = Thresholds {
    upper: 0.7,
    lower: 0.3,
};
/// Most tokens of an analysis: four sub-questions of about forty words.
const ANALYSIS_TOKENS: u32 = 384;
/// Most tokens of a made-up passage: a paragraph.
const HYPOTHESIS_TOKENS: u32 = 200;
/// Most tokens of a next step: a query.
const STEP_TOKENS: u32 = 160;
/// Most tokens of a list of judgements, without its items. Generous, because servers may insert
/// white space.
const LIST_TOKENS: u32 = 48;
/// Most tokens of each item of such a list.
const ITEM_TOKENS: u32 = 12;

/// Options of a [`ModelJudge`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct JudgeOptions {
    /// How long one step may take, all its calls together, before the lexical judge takes over.
    /// Default: 20 seconds.
    pub timeout: Duration,
    /// The thresholds of the quality gate. Default: 0.7 and 0.3.
    pub thresholds: Thresholds,
    /// Number of passages, or claims, in one call at most; fewer if they do not fit. Default: 16.
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

/// Judges with a language model, and by words if that fails.
#[derive(Clone, Debug)]
pub struct ModelJudge {
    model: Arc<dyn LanguageModel>,
    words: LexicalJudge,
    options: JudgeOptions,
}

/// Why a call returned nothing usable.
#[derive(Debug)]
enum CallError {
    /// The model was shut down.
    Closed(ModelError),
    /// The prompt was too long: half of it may fit.
    TooLong,
    /// The call failed.
    Failed(ModelError),
    /// The output violates the schema or was cut off.
    Unusable,
}

impl From<ModelError> for CallError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Closed => Self::Closed(error),
            ModelError::Overflow { .. } => Self::TooLong,
            error => Self::Failed(error),
        }
    }
}

/// What the calls of one step have consumed so far.
#[derive(Debug, Default)]
struct UsageTotal(Option<Usage>);

impl ModelJudge {
    /// Judges with `model`, and falls back to words, weighted as in `library`.
    pub fn new(model: Arc<dyn LanguageModel>, library: Arc<Library>, options: JudgeOptions) -> Self {
        Self {
            model,
            words: LexicalJudge::new(library),
            options,
        }
    }

    /// Runs one step: returns the model's judgement, or that of the lexical judge if the model's
    /// cannot be used.
    async fn step<T>(
        &self,
        step: &'static str,
        ask: impl AsyncFnOnce(&mut UsageTotal) -> Result<T, CallError>,
        words: impl FnOnce() -> T,
    ) -> Result<Judgement<T>, JudgeError> {
        let mut spent = UsageTotal::default();
        let why = match timeout(self.options.timeout, ask(&mut spent)).await {
            Ok(Ok(value)) => {
                let mut judged = Judgement::new(value, self.model.name());
                judged.usage = spent.0;
                return Ok(judged);
            }
            Ok(Err(CallError::Closed(error))) => return Err(JudgeError::Closed(error)),
            Ok(Err(CallError::Failed(error))) => error.code(),
            Ok(Err(CallError::TooLong)) => "too_long",
            Ok(Err(CallError::Unusable)) => "unusable",
            Err(_) => "timeout",
        };
        tracing::debug!(
            step,
            why,
            model = self.model.name(),
            "falling back to the lexical judge"
        );
        let mut judged = Judgement::lexical(words());
        judged.usage = spent.0;
        Ok(judged)
    }

    /// Returns the text of one call, within bounds.
    async fn text(
        &self,
        prompt: Prompt,
        spent: &mut UsageTotal,
    ) -> Result<(String, FinishReason), CallError> {
        let tokens = self.model.count_tokens(&prompt).await?;
        if tokens.saturating_add(prompt.max_tokens) > self.model.context_tokens() {
            return Err(CallError::TooLong);
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
                return Err(CallError::Unusable);
            }
        }
        let finished = generation.finished().ok_or(CallError::Unusable)?;
        let usage = finished.usage(self.model.name());
        spent.0 = Some(match spent.0.take() {
            Some(before) => before.plus(&usage),
            None => usage,
        });
        Ok((text, finished.reason))
    }

    /// Distinguishes a lost answer from a model that was shut down: the latter cannot count tokens
    /// either.
    async fn lost(&self) -> CallError {
        match self.model.count_tokens(&Prompt::user("")).await {
            Err(ModelError::Closed) => CallError::Closed(ModelError::Closed),
            _ => CallError::Failed(ModelError::Closed),
        }
    }

    /// Makes one call for a judgement of this schema. The whole output must be JSON.
    async fn json<T: DeserializeOwned>(
        &self,
        rules: &str,
        asked: String,
        schema: Value,
        max_tokens: u32,
        spent: &mut UsageTotal,
    ) -> Result<T, CallError> {
        let prompt = prompt(rules, asked, max_tokens).shape(Shape::Json(schema));
        let (text, reason) = self.text(prompt, spent).await?;
        if reason == FinishReason::Length {
            return Err(CallError::Unusable);
        }
        serde_json::from_str(json_in(&text)).map_err(|_| CallError::Unusable)
    }

    async fn analysis(
        &self,
        question: &str,
        earlier: &[ChatMessage],
        spent: &mut UsageTotal,
    ) -> Result<Analysis, CallError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct AnalysisOutput {
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
        let output: AnalysisOutput = self
            .json(prompts::ANALYSE, asked, schema, ANALYSIS_TOKENS, spent)
            .await?;
        if output.sub_queries.len() > MAX_SUB_QUERIES {
            return Err(CallError::Unusable);
        }
        let mut sub_queries: Vec<String> = Vec::new();
        for query in &output.sub_queries {
            let query = cut(query, MAX_QUERY_BYTES).trim();
            let known = sub_queries.iter().any(|known| known == query) || query == question.trim();
            if !query.is_empty() && !known {
                sub_queries.push(query.to_owned());
            }
        }
        Ok(Analysis {
            complexity: output.complexity,
            sub_queries,
            mode: output.mode,
        })
    }

    async fn grades(
        &self,
        question: &str,
        hits: &[Hit],
        spent: &mut UsageTotal,
    ) -> Result<Vec<Grade>, CallError> {
        let mut grades = Vec::with_capacity(hits.len());
        let mut open = self.batches(hits.len());
        // The first batches last, so that they are popped first.
        open.reverse();
        while let Some(range) = open.pop() {
            match self.grade_some(question, &hits[range.clone()], spent).await {
                Ok(some) => grades.extend(some),
                Err(CallError::TooLong) if range.len() > 1 => {
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
        spent: &mut UsageTotal,
    ) -> Result<Vec<Grade>, CallError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct GradeOutput {
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
        let output: GradeOutput = self
            .json(prompts::GRADE, asked, schema, list_tokens(hits.len()), spent)
            .await?;
        if output.scores.len() != hits.len() || output.scores.iter().any(|score| *score > BEST_GRADE) {
            return Err(CallError::Unusable);
        }
        let share = |score: &u8| f64::from(*score) / f64::from(BEST_GRADE);
        let grade = |score: &u8| Grade::new(share(score), self.options.thresholds);
        Ok(output.scores.iter().map(grade).collect())
    }

    /// Returns the best verdict of any group of sources on each claim: if they do not fit together,
    /// first the claims are split, then the sources.
    async fn verdicts(
        &self,
        claims: &[String],
        sources: &[Hit],
        spent: &mut UsageTotal,
    ) -> Result<Vec<ClaimVerdict>, CallError> {
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
                Ok(output) => {
                    for (verdict, output) in verdicts[some].iter_mut().zip(output) {
                        *verdict = better(*verdict, output);
                    }
                }
                Err(CallError::TooLong) if some.len() > 1 => {
                    let (first, second) = halves(&some);
                    open.extend([(second, of.clone()), (first, of)]);
                }
                Err(CallError::TooLong) if of.len() > 1 => {
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
        spent: &mut UsageTotal,
    ) -> Result<Vec<ClaimVerdict>, CallError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct VerdictOutput {
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
        let output: VerdictOutput = self
            .json(prompts::VERIFY, asked, schema, list_tokens(claims.len()), spent)
            .await?;
        if output.verdicts.len() != claims.len() {
            return Err(CallError::Unusable);
        }
        Ok(output.verdicts)
    }

    async fn next(&self, progress: &Progress<'_>, spent: &mut UsageTotal) -> Result<NextStep, CallError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct NextStepOutput {
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
        let output: NextStepOutput = self
            .json(prompts::NEXT_STEP, asked, schema, STEP_TOKENS, spent)
            .await?;
        if output.tool == STOP {
            return Ok(NextStep::Stop);
        }
        let query = cut(&output.query, MAX_QUERY_BYTES).trim();
        let given = progress.tools.iter().any(|tool| tool.name == output.tool);
        // Repeating a search brings nothing new.
        if !given || query.is_empty() || progress.has_searched(&output.tool, query) {
            return Err(CallError::Unusable);
        }
        Ok(NextStep::Search {
            tool: output.tool,
            query: query.to_owned(),
        })
    }

    async fn made_up(&self, question: &str, spent: &mut UsageTotal) -> Result<Option<String>, CallError> {
        let question = cut(question, BYTES_OF_A_QUESTION);
        let asked = Fence::around([question]).quote("question", None, question);
        let (text, _) = self
            .text(prompt(prompts::HYPOTHESIS, asked, HYPOTHESIS_TOKENS), spent)
            .await?;
        let text = cut(without_thoughts(&text).trim(), MAX_HYPOTHESIS_BYTES);
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// Splits `things` into ranges as large as one call takes.
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

/// The schema of an object with exactly these members, in this order.
fn object(members: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> = members
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// The schema of a list of exactly this many items.
fn list(items: &Value, length: usize) -> Value {
    json!({"type": "array", "items": items, "minItems": length, "maxItems": length})
}

/// The schema of a query. It counts characters, whereas the limit counts bytes.
fn query_schema() -> Value {
    json!({"type": "string", "maxLength": MAX_QUERY_BYTES / 2})
}

impl Judge for ModelJudge {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn for_user(&self, user: &str) -> Option<Arc<dyn Judge>> {
        let words = self.words.clone().user(Some(user));
        Some(Arc::new(Self {
            words,
            ..self.clone()
        }))
    }

    fn analyse<'a>(
        &'a self,
        question: &'a str,
        earlier: &'a [ChatMessage],
    ) -> Boxed<'a, Result<Judgement<Analysis>, JudgeError>> {
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
    ) -> Boxed<'a, Result<Judgement<Vec<Grade>>, JudgeError>> {
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
    ) -> Boxed<'a, Result<Judgement<ClaimChecks>, JudgeError>> {
        if claims.is_empty() || sources.is_empty() {
            return self.words.verify(claims, sources);
        }
        Box::pin(self.step(
            "verify",
            async move |spent| {
                let verdicts = self.verdicts(claims, sources, spent).await?;
                Ok(ClaimChecks::new(claims, verdicts))
            },
            move || self.words.verified(claims, sources),
        ))
    }

    fn hypothesis<'a>(
        &'a self,
        question: &'a str,
    ) -> Boxed<'a, Result<Option<Judgement<String>>, JudgeError>> {
        Box::pin(async move {
            let ask = async move |spent: &mut UsageTotal| self.made_up(question, spent).await;
            let judged = self.step("hypothesis", ask, || None).await?;
            Ok(judged.value.map(|text| Judgement {
                value: text,
                by: judged.by,
                usage: judged.usage,
            }))
        })
    }

    fn next_step<'a>(&'a self, progress: Progress<'a>) -> Boxed<'a, Result<Judgement<NextStep>, JudgeError>> {
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
mod tests;
