//! Judging a question, its evidence and its answer: the seam [`Judge`], with a model or without one.
//!
//! ```
//! # async fn gate(judge: &dyn ragwire_rag::answer::judge::Judge, hits: &[ragwire_rag::Hit]) -> Result<(), ragwire_rag::answer::judge::JudgeError> {
//! use ragwire::event::CragAction;
//! use ragwire_rag::answer::judge::Gate;
//!
//! let grades = judge.grade("When do robins sing?", hits).await?;
//! match Gate::of(&grades.value).action {
//!     CragAction::Proceed => println!("{} says: answer from these", grades.by),
//!     CragAction::Expand => println!("read what stands around the ambiguous ones"),
//!     CragAction::ReRetrieve => println!("search for something else"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`lexical`] | judges by words, always and at once |
//! | [`model`] | judges by a language model, and by words where that fails |
//! | [`mod@claims`] | the claims that an answer makes |
//!
//! A judge sends no events and does no search; what it says is made into events here.

pub mod claims;
mod coverage;
pub mod lexical;
pub mod model;
mod prompts;

use std::fmt::Debug;

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

/// Most sub-questions of a question: each is a search of its own.
pub const MAX_SUB_QUERIES: usize = 4;
/// Longest query that a judge asks for, in bytes.
pub const MAX_QUERY_BYTES: usize = 400;

/// A judgement and whose it is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Judged<T> {
    /// What was judged.
    pub value: T,
    /// For the events' `judge`: `lexical`, or the model's name.
    pub by: String,
    /// What it consumed, where a model was asked, also where its answer was of no use.
    pub usage: Option<Usage>,
}

impl<T> Judged<T> {
    /// `by` says `value`.
    pub fn new(value: T, by: impl Into<String>) -> Self {
        Self {
            value,
            by: by.into(),
            usage: None,
        }
    }
}

/// Why there is no judgement at all. A model that fails, says what cannot be used or takes too long is none of these: then the words judge.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// The model was shut down: it says so ([`ModelError::Closed`]) even where it only has to count, so every later call would fail as well. One
    /// answer that is lost is not that.
    #[error("the model that judges is gone")]
    Gone(#[source] ModelError),
}

impl JudgeError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Gone(error) => error.code(),
        }
    }
}

/// What a question is taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Analysis {
    /// How hard it looks.
    pub complexity: Complexity,
    /// What to search for besides the question: its parts, each standing alone, and what it leaves to what was said earlier. At most
    /// [`MAX_SUB_QUERIES`], none the question itself; empty where the question will do.
    pub sub_queries: Vec<String>,
    /// How it should be answered.
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

impl Judged<Analysis> {
    /// As it is told.
    pub fn event(&self, question: &str) -> QueryAnalysis {
        let Analysis {
            complexity,
            sub_queries,
            mode,
        } = &self.value;
        QueryAnalysis::new(question, *complexity, !sub_queries.is_empty(), *mode).judge(&self.by)
    }
}

/// Between which scores the quality gate stands (Yan et al., 2024: the upper and the lower threshold of corrective RAG).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Thresholds {
    /// From here on a chunk answers.
    pub upper: f64,
    /// Below, it does not; between the two it may.
    pub lower: f64,
}

impl Thresholds {
    /// The class of a score.
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
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Grade {
    /// 0 to 1. Comparable within one judgement only.
    pub score: f64,
    /// What follows from it.
    pub class: CragClass,
}

impl Grade {
    /// The grade of a score, brought into 0 to 1; what is no number is 0.
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

/// The quality gate behind the grades.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gate {
    /// Chunks that answer.
    pub correct: u32,
    /// Chunks that may answer.
    pub ambiguous: u32,
    /// Chunks that do not.
    pub incorrect: u32,
    /// One chunk that answers is enough to go on; where some may answer, what stands around them is read; where none may, or there is none,
    /// something else is searched for.
    pub action: CragAction,
}

impl Gate {
    /// The gate for these grades.
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

/// A chunk that was widened to its parent, and how that was graded then.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Widened {
    /// Which of the hits, counted from 0.
    pub hit: usize,
    /// The score after, 0 to 1.
    pub new_score: f64,
}

impl Widened {
    /// The `hit`-th was widened and has `new_score` now.
    pub fn new(hit: usize, new_score: f64) -> Self {
        Self { hit, new_score }
    }
}

impl Judged<Vec<Grade>> {
    /// As it is told: the grades of `hits`, one for each, and which of them were widened since. The counts are those from before.
    pub fn event(&self, hits: &[Hit], widened: &[Widened]) -> CragEvaluation {
        let gate = Gate::of(&self.value);
        let detail = |(at, (hit, grade)): (usize, (&Hit, &Grade))| {
            let detail = CragDetail::new(&hit.chunk.id, grade.class).score(grade.score);
            match widened.iter().find(|widened| widened.hit == at) {
                Some(widened) => detail.expanded(true).new_score(widened.new_score),
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
        let expanded = count(widened.len());
        CragEvaluation::new(correct, ambiguous, incorrect, action, expanded, details).judge(&self.by)
    }
}

/// What the sources say to each claim of an answer.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Verified {
    /// The claims, in their order.
    pub checks: Vec<ClaimCheck>,
}

impl Verified {
    /// These verdicts on these claims, one for each.
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

    /// The share of claims that are supported, those in part as half; nothing where nothing was claimed.
    pub fn confidence(&self) -> Option<f64> {
        let supported = f64::from(self.of(ClaimVerdict::Supported));
        let half = f64::from(self.of(ClaimVerdict::PartiallySupported)) / 2.0;
        let all = f64::from(count(self.checks.len()));
        (all > 0.0).then(|| (supported + half) / all)
    }
}

impl Judged<Verified> {
    /// As it is told.
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
        event.judge(&self.by)
    }
}

/// A tool that an agent may search with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Its name in events. Not [`STOP`].
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// Whether it finds how things hang together, and not what is like a query.
    pub relates: bool,
}

impl ToolSpec {
    /// The tool `name`.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            relates: false,
        }
    }

    /// Says that it finds how things hang together: a judge without a model chooses it once, for questions that relate things
    /// ([`lexical::relates`]), and for no others.
    #[must_use]
    pub fn relating(mut self) -> Self {
        self.relates = true;
        self
    }
}

/// What a model says instead of the name of a tool to end its search.
pub const STOP: &str = "stop";

/// A search that an agent did.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Searched {
    /// Which tool.
    pub tool: String,
    /// What for.
    pub query: String,
    /// How many chunks it brought that were not there before.
    pub new_chunks: u32,
}

impl Searched {
    /// `tool` brought `new_chunks` for `query`.
    pub fn new(tool: impl Into<String>, query: impl Into<String>, new_chunks: u32) -> Self {
        Self {
            tool: tool.into(),
            query: query.into(),
            new_chunks,
        }
    }
}

/// How far an agent is.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// What is to be answered.
    pub question: &'a str,
    /// What it may search with, the most useful first; a judge without a model tries them in that order, those that relate apart.
    pub tools: &'a [ToolSpec],
    /// What it did, in order.
    pub searched: &'a [Searched],
    /// What it has found, best first.
    pub found: &'a [Hit],
    /// How many more searches it may do.
    pub steps_left: u32,
}

impl<'a> Progress<'a> {
    /// At the beginning.
    pub fn new(question: &'a str, tools: &'a [ToolSpec], steps_left: u32) -> Self {
        Self {
            question,
            tools,
            searched: &[],
            found: &[],
            steps_left,
        }
    }

    /// After these searches, with these hits, best first.
    #[must_use]
    pub fn after(mut self, searched: &'a [Searched], found: &'a [Hit]) -> Self {
        (self.searched, self.found) = (searched, found);
        self
    }

    /// Whether this search was done.
    fn did(&self, tool: &str, query: &str) -> bool {
        let same = |done: &Searched| done.tool == tool && done.query.to_lowercase() == query.to_lowercase();
        self.searched.iter().any(same)
    }
}

/// What an agent does next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NextStep {
    /// Search: with a tool of those given, for something that this tool was not asked for yet.
    Search {
        /// The tool.
        tool: String,
        /// What for, at most [`MAX_QUERY_BYTES`].
        query: String,
    },
    /// What was found is enough, or nothing more will be.
    Stop,
}

/// Judges. Every call may be dropped; that changes nothing.
///
/// # Errors
/// Each call fails only where a model is gone for good: [`JudgeError::Gone`].
pub trait Judge: Debug + Send + Sync + 'static {
    /// The judge's name where all goes well: `lexical`, or the model's name.
    fn name(&self) -> &str;

    /// What a question is. `earlier` is the conversation before it, oldest first.
    fn analyse<'a>(
        &'a self,
        question: &'a str,
        earlier: &'a [ChatMessage],
    ) -> Boxed<'a, Result<Judged<Analysis>, JudgeError>>;

    /// How well each hit answers, in the order of the hits; [`Gate::of`] says what follows.
    fn grade<'a>(
        &'a self,
        question: &'a str,
        hits: &'a [Hit],
    ) -> Boxed<'a, Result<Judged<Vec<Grade>>, JudgeError>>;

    /// What the sources say to each claim ([`claims()`] of an answer), in their order.
    fn verify<'a>(
        &'a self,
        claims: &'a [String],
        sources: &'a [Hit],
    ) -> Boxed<'a, Result<Judged<Verified>, JudgeError>>;

    /// A passage such as might answer the question, to search for its like (Gao et al., 2022: HyDE). It is made up and never shown; nothing
    /// where nobody can make one up.
    fn hypothesis<'a>(&'a self, question: &'a str) -> Boxed<'a, Result<Option<Judged<String>>, JudgeError>>;

    /// What to search for next. It ends: no search is asked for twice, none without steps left.
    fn next_step<'a>(&'a self, progress: Progress<'a>) -> Boxed<'a, Result<Judged<NextStep>, JudgeError>>;
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
    fn judgements_are_told_with_their_judge() {
        let hits: Vec<Hit> = (0..2)
            .map(|n| Hit::new(Chunk::new("d", "d.md", n, "x"), 1.0))
            .collect();
        let claims = ["A.".to_owned(), "B.".to_owned()];
        let verdicts = [ClaimVerdict::Supported, ClaimVerdict::PartiallySupported];
        let told: Vec<Event> = vec![
            Judged::new(Analysis::simple(), "lexical").event("q").into(),
            Judged::new(grades(&[0.9, 0.5]), "m")
                .event(&hits, &[Widened::new(1, 0.75)])
                .into(),
            Judged::new(Verified::new(&claims, verdicts), "m").event().into(),
            Judged::new(Verified::default(), "m").event().into(),
        ];
        let told: Vec<String> = told
            .iter()
            .map(|event| serde_json::to_string(event).unwrap())
            .collect();
        assert_eq!(
            told,
            [
                r#"{"event":"query_analysis","query":"q","complexity":"simple","decomposed":false,"estimated_mode":"direct","judge":"lexical"}"#,
                r#"{"event":"crag_evaluation","correct":1,"ambiguous":1,"incorrect":0,"action":"proceed","expanded":1,"details":[{"chunk_id":"d-0","classification":"CORRECT","score":0.9},{"chunk_id":"d-1","classification":"AMBIGUOUS","score":0.5,"expanded":true,"new_score":0.75}],"judge":"m"}"#,
                r#"{"event":"verification","claims_checked":2,"claims_supported":1,"claims_partially_supported":1,"claims_unsupported":0,"details":[{"claim":"A.","verdict":"SUPPORTED"},{"claim":"B.","verdict":"PARTIALLY_SUPPORTED"}],"confidence":0.75,"judge":"m"}"#,
                r#"{"event":"verification","claims_checked":0,"claims_supported":0,"claims_partially_supported":0,"claims_unsupported":0,"details":[],"judge":"m"}"#,
            ]
        );
    }
}
