//! Judges of a question, its evidence and its answer: the trait [`Judge`], implemented with a
//! language model and without one.
//!
//! ```
//! # async fn gate(judge: &dyn ragwire_rag::answer::judge::Judge, hits: &[ragwire_rag::Hit]) -> Result<(), ragwire_rag::answer::judge::JudgeError> {
//! use ragwire::event::CragAction;
//! use ragwire_rag::answer::judge::Gate;
//!
//! let grades = judge.grade("When do robins sing?", hits).await?;
//! match Gate::of(&grades.value).action {
//!     CragAction::Proceed => println!("{}: answer from these", grades.by.as_str()),
//!     CragAction::Expand => println!("read the sections around the ambiguous passages"),
//!     CragAction::ReRetrieve => println!("search for something else"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`lexical`] | [`LexicalJudge`]: compares words, deterministic and immediate |
//! | `model` | [`ModelJudge`]: asks a language model, and falls back to words if that fails |
//! | `claims` | the claims that an answer makes |
//!
//! A judge neither emits events nor searches; this module turns judgements into events.

mod claims;
mod coverage;
pub mod lexical;
mod model;
mod prompts;
mod searching;

use std::fmt::Debug;
use std::sync::Arc;

use crate::Hit;
use crate::answer::figures::count;
use crate::models::{Boxed, ChatMessage, ModelError};
use ragwire::Usage;
use ragwire::event::{
    ClaimCheck, ClaimVerdict, Complexity, CragAction, CragClass, CragDetail, CragEvaluation, Mode,
    QueryAnalysis, Verification,
};

pub use claims::claims;
pub use lexical::LexicalJudge;
pub use model::{JudgeOptions, ModelJudge};
use searching::STOP;
pub use searching::{NextStep, Progress, SearchRecord, ToolSpec};

/// Number of sub-questions of a question at most: each is a search.
const MAX_SUB_QUERIES: usize = 4;
/// Length in bytes of the longest query that a judge asks for.
const MAX_QUERY_BYTES: usize = 400;

/// Who made a judgement, as events report it in `judge`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JudgeName {
    /// The judge that compares words: `lexical`.
    Lexical,
    /// A model, or a custom judge, by its name.
    Named(String),
}

impl JudgeName {
    /// The name in events.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Lexical => lexical::NAME,
            Self::Named(name) => name,
        }
    }
}

/// A judgement and who made it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Judgement<T> {
    /// The verdict.
    pub value: T,
    /// Who made it.
    pub by: JudgeName,
    /// What the model calls consumed, also if their output could not be used. `None` if no model
    /// was asked.
    pub usage: Option<Usage>,
}

impl<T> Judgement<T> {
    /// A judgement of the judge or model `name`.
    pub fn new(value: T, name: impl Into<String>) -> Self {
        Self {
            value,
            by: JudgeName::Named(name.into()),
            usage: None,
        }
    }

    /// A judgement by comparing words.
    pub fn lexical(value: T) -> Self {
        Self {
            value,
            by: JudgeName::Lexical,
            usage: None,
        }
    }
}

/// Why a judge cannot judge at all. A model that fails, times out or returns unusable output is not
/// an error: the lexical judge takes over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// The model was shut down: it returns [`ModelError::Closed`] even for counting tokens, so
    /// every later call would fail as well. A single lost answer is not this error.
    #[error("the judging model was shut down")]
    Closed(#[source] ModelError),
}

impl JudgeError {
    /// Returns a stable code for programs and logs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Closed(error) => error.code(),
        }
    }
}

/// How a judge assesses a question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Analysis {
    /// How many searches it seems to take.
    pub complexity: Complexity,
    /// What to search for besides the question: its parts, each understandable alone, and the
    /// question itself if it depends on the conversation. At most 4, none equal to the question;
    /// empty if the question alone will do.
    pub sub_queries: Vec<String>,
    /// How the question should be answered.
    pub mode: Mode,
}

impl Analysis {
    /// A question that one search answers.
    pub fn simple() -> Self {
        Self {
            complexity: Complexity::Simple,
            sub_queries: Vec::new(),
            mode: Mode::Direct,
        }
    }
}

impl Judgement<Analysis> {
    /// The event that reports the analysis.
    pub fn event(&self, question: &str) -> QueryAnalysis {
        let Analysis {
            complexity,
            sub_queries,
            mode,
        } = &self.value;
        QueryAnalysis::new(question, *complexity, !sub_queries.is_empty(), *mode).judge(self.by.as_str())
    }
}

/// The scores at which the quality gate decides: the upper and the lower threshold of corrective
/// RAG (Yan et al., 2024).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Thresholds {
    /// A chunk with at least this score answers the question.
    pub upper: f64,
    /// A chunk with a lower score does not answer it. Between the two thresholds it may.
    pub lower: f64,
}

impl Thresholds {
    /// Returns the class of a score.
    pub fn class(&self, score: f64) -> CragClass {
        if score >= self.upper {
            CragClass::Correct
        } else if score >= self.lower {
            CragClass::Ambiguous
        } else {
            CragClass::Incorrect
        }
    }
}

/// How well one chunk answers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Grade {
    /// The score, 0 to 1. Comparable within one judgement only.
    pub score: f64,
    /// The class of the score.
    pub class: CragClass,
}

impl Grade {
    /// The grade of a score, clamped to 0 to 1; NaN counts as 0.
    pub fn new(score: f64, thresholds: Thresholds) -> Self {
        let score = if score.is_nan() {
            0.0
        } else {
            score.clamp(0.0, 1.0)
        };
        Self {
            score,
            class: thresholds.class(score),
        }
    }
}

/// The decision of the quality gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gate {
    /// Chunks that answer.
    pub correct: u32,
    /// Chunks that may answer.
    pub ambiguous: u32,
    /// Chunks that do not answer.
    pub incorrect: u32,
    /// What to do next. One chunk that answers is enough to proceed. If some chunks may answer,
    /// their sections are read. If no chunk may, or the list is empty, another search follows.
    pub action: CragAction,
}

impl Gate {
    /// Decides on these grades.
    pub fn of(grades: &[Grade]) -> Self {
        let of_class = |class| count(grades.iter().filter(|grade| grade.class == class).count());
        let (correct, ambiguous) = (of_class(CragClass::Correct), of_class(CragClass::Ambiguous));
        let action = match (correct, ambiguous) {
            (0, 0) => CragAction::ReRetrieve,
            (0, _) => CragAction::Expand,
            _ => CragAction::Proceed,
        };
        Self {
            correct,
            ambiguous,
            incorrect: of_class(CragClass::Incorrect),
            action,
        }
    }
}

/// A chunk that was replaced by its parent section, and the score of that section.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Expansion {
    /// Index of the hit, counted from 0.
    pub hit: usize,
    /// The score of the section, 0 to 1.
    pub new_score: f64,
}

impl Expansion {
    /// The hit with index `hit` was expanded and now has `new_score`.
    pub fn new(hit: usize, new_score: f64) -> Self {
        Self { hit, new_score }
    }
}

impl Judgement<Vec<Grade>> {
    /// The event that reports the grades of `hits`, one for each, and which hits were expanded
    /// afterwards. The counts are those before the expansion.
    pub fn event(&self, hits: &[Hit], expansions: &[Expansion]) -> CragEvaluation {
        let gate = Gate::of(&self.value);
        let detail = |(at, (hit, grade)): (usize, (&Hit, &Grade))| {
            let detail = CragDetail::new(&hit.chunk.id, grade.class).score(grade.score);
            match expansions.iter().find(|expansion| expansion.hit == at) {
                Some(expansion) => detail.expanded(true).new_score(expansion.new_score),
                None => detail,
            }
        };
        let details = hits.iter().zip(&self.value).enumerate().map(detail).collect();
        let Gate {
            correct,
            ambiguous,
            incorrect,
            action,
        } = gate;
        let expanded = count(expansions.len());
        CragEvaluation::new(correct, ambiguous, incorrect, action, expanded, details).judge(self.by.as_str())
    }
}

/// The verdict of the sources on each claim of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ClaimChecks {
    /// The checked claims, in their order.
    pub checks: Vec<ClaimCheck>,
}

impl ClaimChecks {
    /// Pairs claims with their verdicts, one for each.
    pub fn new(claims: &[String], verdicts: impl IntoIterator<Item = ClaimVerdict>) -> Self {
        let check = |(claim, verdict): (&String, ClaimVerdict)| ClaimCheck::new(claim, verdict);
        Self {
            checks: claims.iter().zip(verdicts).map(check).collect(),
        }
    }

    fn of(&self, verdict: ClaimVerdict) -> u32 {
        count(
            self.checks
                .iter()
                .filter(|check| check.verdict == verdict)
                .count(),
        )
    }

    /// The share of claims that are supported; partly supported ones count half. `None` without
    /// claims.
    pub fn confidence(&self) -> Option<f64> {
        let supported = f64::from(self.of(ClaimVerdict::Supported));
        let half = f64::from(self.of(ClaimVerdict::PartiallySupported)) / 2.0;
        let all = f64::from(count(self.checks.len()));
        (all > 0.0).then(|| (supported + half) / all)
    }
}

impl Judgement<ClaimChecks> {
    /// The event that reports the verification.
    pub fn event(&self) -> Verification {
        let verified = &self.value;
        let mut event = Verification::new(
            count(verified.checks.len()),
            verified.of(ClaimVerdict::Supported),
            verified.of(ClaimVerdict::PartiallySupported),
            verified.of(ClaimVerdict::Unsupported),
            verified.checks.clone(),
        );
        event.confidence = verified.confidence();
        event.judge(self.by.as_str())
    }
}

/// Assesses a question, its evidence and its answer, and plans searches.
///
/// ```
/// use std::sync::Arc;
/// use ragwire_rag::answer::judge::{Judge, LexicalJudge};
/// use ragwire_rag::{Library, LibraryLimits};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn
/// # std::error::Error>> {
/// let library = Arc::new(Library::in_memory(LibraryLimits::default())?);
/// let judge = LexicalJudge::new(library);
/// let analysis = judge.analyse("Compare robins and wrens.", &[]).await?;
/// println!("{} ({})", analysis.value.complexity.as_str(), analysis.by.as_str());
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future of any call changes nothing.
///
/// # Errors
///
/// A call fails only if a model was shut down: [`JudgeError::Closed`].
pub trait Judge: Debug + Send + Sync + 'static {
    /// The judge's usual name in events: `lexical`, or the model's name.
    fn name(&self) -> &str;

    /// Returns this judge for one user, if it knows words of documents: those that only private documents of
    /// others have must be unknown to it. Default: `None`, it is the same for all users.
    fn for_user(&self, _user: &str) -> Option<Arc<dyn Judge>> {
        None
    }

    /// Assesses a question. `earlier` is the conversation before it, oldest first.
    fn analyse<'a>(
        &'a self,
        question: &'a str,
        earlier: &'a [ChatMessage],
    ) -> Boxed<'a, Result<Judgement<Analysis>, JudgeError>>;

    /// Grades how well each hit answers, in the order of the hits; [`Gate::of`] decides what
    /// follows.
    fn grade<'a>(
        &'a self,
        question: &'a str,
        hits: &'a [Hit],
    ) -> Boxed<'a, Result<Judgement<Vec<Grade>>, JudgeError>>;

    /// Checks each claim ([`claims()`] of an answer) against the sources, in the order of the
    /// claims.
    fn verify<'a>(
        &'a self,
        claims: &'a [String],
        sources: &'a [Hit],
    ) -> Boxed<'a, Result<Judgement<ClaimChecks>, JudgeError>>;

    /// Writes a passage that might answer the question, to search for similar ones (HyDE, Gao et
    /// al., 2022). It is made up and never shown. `None` if the judge cannot write one.
    fn hypothesis<'a>(
        &'a self,
        question: &'a str,
    ) -> Boxed<'a, Result<Option<Judgement<String>>, JudgeError>>;

    /// Chooses the next search. The search ends: a judge never repeats one and stops when no steps
    /// are left.
    fn next_step<'a>(&'a self, progress: Progress<'a>) -> Boxed<'a, Result<Judgement<NextStep>, JudgeError>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chunk;
    use ragwire::Event;

    const THRESHOLDS: Thresholds = Thresholds {
        upper: 0.7,
        lower: 0.3,
    };

    fn grades(scores: &[f64]) -> Vec<Grade> {
        scores
            .iter()
            .map(|score| Grade::new(*score, THRESHOLDS))
            .collect()
    }

    #[test]
    fn the_gate_opens_for_one_good_chunk() {
        use CragAction::{Expand, Proceed, ReRetrieve};
        type Case<'a> = (&'a [f64], (u32, u32, u32), CragAction);
        let cases: &[Case<'_>] = &[
            (&[], (0, 0, 0), ReRetrieve),
            (&[0.1, 0.29], (0, 0, 2), ReRetrieve),
            (&[0.1, 0.3], (0, 1, 1), Expand),
            (&[0.699, 0.31], (0, 2, 0), Expand),
            (&[0.1, 0.7, 0.5], (1, 1, 1), Proceed),
            (
                &[f64::NAN, f64::INFINITY, -1.0, f64::NEG_INFINITY],
                (1, 0, 3),
                Proceed,
            ),
        ];
        for (scores, counts, action) in cases {
            let grades = grades(scores);
            assert!(grades.iter().all(|grade| (0.0..=1.0).contains(&grade.score)));
            let gate = Gate::of(&grades);
            assert_eq!(
                (gate.correct, gate.ambiguous, gate.incorrect),
                *counts,
                "{scores:?}"
            );
            assert_eq!(gate.action, *action, "{scores:?}");
        }
    }

    #[test]
    fn judgements_are_reported_with_their_judge() {
        let hits: Vec<Hit> = (0..2)
            .map(|n| Hit::new(Chunk::new("d", "d.md", n, "x"), 1.0))
            .collect();
        let claims = ["A.".to_owned(), "B.".to_owned()];
        let verdicts = [ClaimVerdict::Supported, ClaimVerdict::PartiallySupported];
        let events: Vec<Event> = vec![
            Judgement::lexical(Analysis::simple()).event("q").into(),
            Judgement::new(grades(&[0.9, 0.5]), "m")
                .event(&hits, &[Expansion::new(1, 0.75)])
                .into(),
            Judgement::new(ClaimChecks::new(&claims, verdicts), "m")
                .event()
                .into(),
            Judgement::new(ClaimChecks::default(), "m").event().into(),
        ];
        let events: Vec<String> = events
            .iter()
            .map(|event| serde_json::to_string(event).unwrap())
            .collect();
        assert_eq!(
            events,
            [
                r#"{"event":"query_analysis","query":"q","complexity":"simple","decomposed":false,"estimated_mode":"direct","judge":"lexical"}"#,
                r#"{"event":"crag_evaluation","correct":1,"ambiguous":1,"incorrect":0,"action":"proceed","expanded":1,"details":[{"chunk_id":"d-0","classification":"CORRECT","score":0.9},{"chunk_id":"d-1","classification":"AMBIGUOUS","score":0.5,"expanded":true,"new_score":0.75}],"judge":"m"}"#,
                r#"{"event":"verification","claims_checked":2,"claims_supported":1,"claims_partially_supported":1,"claims_unsupported":0,"details":[{"claim":"A.","verdict":"SUPPORTED"},{"claim":"B.","verdict":"PARTIALLY_SUPPORTED"}],"confidence":0.75,"judge":"m"}"#,
                r#"{"event":"verification","claims_checked":0,"claims_supported":0,"claims_partially_supported":0,"claims_unsupported":0,"details":[],"judge":"m"}"#,
            ]
        );
    }
}
