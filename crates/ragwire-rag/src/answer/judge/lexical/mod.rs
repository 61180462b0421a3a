//! The judge without a model: it compares words, weighted as in the library. It is deterministic
//! and immediate.
//!
//! In doubt it decides against the text: a word that occurs nowhere is covered by nothing, and a
//! claim with a number that its source does not contain is not supported.

use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use super::coverage::{EvidenceCoverage, evidence_coverage};
use super::{
    Analysis, ClaimChecks, Grade, Judge, JudgeError, Judgement, MAX_QUERY_BYTES, MAX_SUB_QUERIES, NextStep,
    Progress, Thresholds,
};
use crate::answer::differ::Traits;
use crate::documents::sentences;
use crate::models::{Boxed, ChatMessage};
use crate::search::about::AboutDocument;
use crate::search::follow_up::stand_alone;
use crate::search::meaning::{ANSWERS, IS_FAR, IS_NEAR};
use crate::search::plan::Plan;
use crate::search::terms::{Term, coverage, question_terms};
use crate::{Hit, Library, LibraryView};
use ragwire::event::{ClaimVerdict, Complexity, Mode};

/// The judge's name in events.
pub(super) const NAME: &str = "lexical";
/// The thresholds of its quality gate. In "Attention Is All You Need" the best passage has at least
/// 0.71 for questions that the paper answers, and at most 0.41 for others: see the tests.
const THRESHOLDS: Thresholds = Thresholds {
    upper: 0.6,
    lower: 0.45,
};
/// Weight of words in the chunk around its best sentence, relative to words in that sentence.
const AROUND_SHARE: f64 = 0.5;
/// Share of the search's own order in a grade: a passage found by its meaning may share few words.
const RANK_SHARE: f64 = 0.1;
/// From this share of a claim's weight on, in one sentence and the chunk around it, the claim is
/// supported,
const SUPPORTED: f64 = 0.7;
/// and from this share on it is partly supported.
const PARTLY_SUPPORTED: f64 = 0.45;
/// Words of a question that relates things, which takes more than one search.
const RELATING: [&str; 16] = [
    "compare",
    "compared",
    "comparison",
    "difference",
    "differences",
    "differ",
    "differs",
    "versus",
    "vs",
    "relate",
    "relates",
    "related",
    "relation",
    "relations",
    "relationship",
    "between",
];
/// An agent stops after this many consecutive searches without a new result.
const FRUITLESS_SEARCHES: usize = 2;

/// Judges by comparing words.
#[derive(Clone, Debug)]
pub struct LexicalJudge {
    library: Arc<Library>,
    user: Option<String>,
}

/// The word stems of a text, for comparing it with terms.
type Stems = HashSet<String>;

/// The stems of a hit, computed once for all comparisons.
#[derive(Debug)]
struct HitStems<'a> {
    /// The stems of its heading.
    heading: Stems,
    /// The stems of its whole text.
    text: Stems,
    /// The stems of each sentence, with the sentence.
    sentences: Vec<(Stems, &'a str)>,
}

impl LexicalJudge {
    /// Judges by words, weighted as in `library`.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library, user: None }
    }

    /// Sets who asks: words that only private documents of others have are unknown then. Default: `None`, all
    /// words are known.
    #[must_use]
    pub fn user(mut self, user: Option<&str>) -> Self {
        self.user = user.map(str::to_owned);
        self
    }

    fn library(&self) -> LibraryView<'_> {
        self.library.seen_by(self.user.as_deref())
    }

    /// Assesses a question: [`Judge::analyse`] without a future.
    pub fn analysis(&self, question: &str, earlier: &[ChatMessage]) -> Analysis {
        let plan = Plan::of(question);
        let complexity = match plan.complexity() {
            Complexity::Simple if relates(question) => Complexity::Moderate,
            complexity => complexity,
        };
        let parts: &[String] = if plan.parts.len() > 1 { &plan.parts } else { &[] };
        let carried = stand_alone(self.library(), question, earlier);
        let cut = |query: String| query[..query.floor_char_boundary(MAX_QUERY_BYTES)].to_owned();
        let mut sub_queries: Vec<String> = carried.map(cut).into_iter().collect();
        sub_queries.extend(
            parts
                .iter()
                .map(|part| part[..part.floor_char_boundary(MAX_QUERY_BYTES)].to_owned()),
        );
        sub_queries.truncate(MAX_SUB_QUERIES);
        let mode = match complexity {
            Complexity::Complex => Mode::Agentic,
            Complexity::Simple | Complexity::Moderate => Mode::Direct,
        };
        Analysis {
            complexity,
            sub_queries,
            mode,
        }
    }

    /// Grades hits: [`Judge::grade`] without a future.
    pub fn grades(&self, question: &str, hits: &[Hit]) -> Vec<Grade> {
        let terms = question_terms(self.library(), question);
        let best = hits
            .iter()
            .map(|hit| f64::from(hit.score))
            .filter(|score| score.is_finite());
        let best = best.fold(0.0, f64::max);
        let about = AboutDocument::of(self.library(), question);
        let grade = |hit: &Hit| {
            // The beginning of a document does not repeat what is asked about it.
            let is_beginning = |about: &AboutDocument| about.is_answered_by(self.library(), &hit.chunk);
            if about.as_ref().is_some_and(is_beginning) {
                return Grade::new(1.0, THRESHOLDS);
            }
            let (held, _) = self.read(hit).held(&terms);
            let rank = f64::from(hit.score) / best;
            let rank = if rank.is_finite() {
                rank.clamp(0.0, 1.0)
            } else {
                0.0
            };
            // The rank alone is not evidence: it does not count for a hit that shares no word with
            // the question.
            let rank = if held > 0.0 { rank } else { 0.0 };
            Grade::new((1.0 - RANK_SHARE) * held + RANK_SHARE * rank, THRESHOLDS)
        };
        hits.iter().map(grade).collect()
    }

    fn read<'a>(&self, hit: &'a Hit) -> HitStems<'a> {
        let stems = |text: &str| self.library().terms(text).into_iter().collect::<Stems>();
        let sentence = |sentence: &'a str| (stems(sentence), sentence);
        HitStems {
            heading: stems(hit.chunk.heading.as_deref().unwrap_or_default()),
            text: stems(&hit.chunk.text),
            sentences: sentences(&hit.chunk.text).into_iter().map(sentence).collect(),
        }
    }

    /// Verifies claims: [`Judge::verify`] without a future.
    pub fn verified(&self, claims: &[String], sources: &[Hit]) -> ClaimChecks {
        let sources: Vec<_> = sources
            .iter()
            .map(|hit| (self.read(hit), Traits::of(&hit.chunk.text)))
            .collect();
        let verdict = |claim: &String| {
            let terms = question_terms(self.library(), claim);
            let traits = Traits::of(claim);
            let support = sources.iter().map(|(source, passage)| {
                let (held, sentence) = source.held(&terms);
                if traits.agree_with(passage, &Traits::of(sentence)) {
                    held
                } else {
                    0.0
                }
            });
            let support = support.fold(0.0, f64::max);
            if support >= SUPPORTED {
                ClaimVerdict::Supported
            } else if support >= PARTLY_SUPPORTED {
                ClaimVerdict::PartiallySupported
            } else {
                ClaimVerdict::Unsupported
            }
        };
        ClaimChecks::new(claims, claims.iter().map(verdict))
    }

    /// Chooses the next step: [`Judge::next_step`] without a future.
    pub fn step(&self, progress: &Progress<'_>) -> NextStep {
        let fruitless = progress
            .searched
            .iter()
            .rev()
            .take_while(|done| done.new_chunks == 0)
            .count();
        if progress.steps_left == 0 {
            return NextStep::Stop;
        }
        // Passages that contain all words of such a question need not state how the things are
        // related. The first search is for the things themselves.
        let relating = progress.tools.iter().find(|tool| {
            let used = || progress.searched.iter().any(|done| done.tool == tool.name);
            tool.relates && relates(progress.question) && !progress.searched.is_empty() && !used()
        });
        if let Some(tool) = relating {
            let question = progress.question.trim();
            return NextStep::Search {
                tool: tool.name.clone(),
                query: question[..question.floor_char_boundary(MAX_QUERY_BYTES)].to_owned(),
            };
        }
        if fruitless >= FRUITLESS_SEARCHES {
            return NextStep::Stop;
        }
        let missing = match evidence_coverage(self.library(), progress.question, progress.found) {
            EvidenceCoverage::Enough if !progress.found.is_empty() => return NextStep::Stop,
            EvidenceCoverage::Enough => Vec::new(),
            EvidenceCoverage::Lacks(queries) => queries,
        };
        let question = progress.question.trim().to_owned();
        let mut queries = vec![question];
        if !progress.searched.is_empty() {
            // A word that occurs nowhere in the library cannot be found by another search.
            let findable = |query: &String| {
                question_terms(self.library(), query)
                    .iter()
                    .any(|term| term.known)
            };
            let parts = Plan::of(progress.question).queries;
            queries.extend(missing.into_iter().chain(parts).filter(findable));
        }
        for tool in progress.tools.iter().filter(|tool| !tool.relates) {
            for query in &queries {
                let query = query[..query.floor_char_boundary(MAX_QUERY_BYTES)].trim();
                if !query.is_empty() && !progress.has_searched(&tool.name, query) {
                    return NextStep::Search {
                        tool: tool.name.clone(),
                        query: query.to_owned(),
                    };
                }
            }
        }
        NextStep::Stop
    }
}

impl<'a> HitStems<'a> {
    /// Returns the share of the terms' weight that the text covers, most of it in one sentence, and
    /// that sentence.
    fn held(&self, terms: &[Term]) -> (f64, &'a str) {
        let share = |stems: &Stems| {
            let holds = |term: &Term| term.is_in(stems) || term.is_in(&self.heading);
            f64::from(coverage(terms, holds))
        };
        let around = share(&self.text);
        let sentences = self
            .sentences
            .iter()
            .map(|(stems, sentence)| (share(stems), *sentence));
        // The first of several equal sentences wins.
        let best = sentences.fold((0.0, ""), |best, one| if one.0 > best.0 { one } else { best });
        (best.0 + AROUND_SHARE * (around - best.0), best.1)
    }
}

/// Returns the grade of a passage that is so near to the question by its meaning: the better one of
/// both, but a passage about something else does not answer, whatever words it has.
pub(crate) fn with_meaning(grade: Grade, near: f32) -> Grade {
    let Thresholds { upper, lower } = THRESHOLDS;
    let between = |from: f32, to: f32| f64::from((near - from) / (to - from)).clamp(0.0, 1.0);
    // A hair below the upper threshold, so that the passage may answer but does not.
    let below = upper * 0.99;
    let by_meaning = if near >= ANSWERS {
        upper + (1.0 - upper) * between(ANSWERS, 1.0)
    } else if near >= IS_NEAR {
        lower + (below - lower) * between(IS_NEAR, ANSWERS)
    } else {
        lower * 0.99 * between(0.0, IS_NEAR)
    };
    let most = if near < IS_FAR { below } else { 1.0 };
    Grade::new(grade.score.max(by_meaning).min(most), THRESHOLDS)
}

/// Returns `true` if a question asks how things are related: it contains `relate`, `between`,
/// `difference` or the like.
pub fn relates(question: &str) -> bool {
    words(question).any(|word| RELATING.contains(&word.as_str()))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.unicode_words().map(str::to_lowercase)
}

fn judgement<'a, T: Send + 'a>(value: T) -> Boxed<'a, Result<Judgement<T>, JudgeError>> {
    // Reading a dozen chunks once takes a few milliseconds, so this stays on the runtime's thread.
    Box::pin(ready(Ok(Judgement::lexical(value))))
}

impl Judge for LexicalJudge {
    fn name(&self) -> &str {
        NAME
    }

    fn for_user(&self, user: &str) -> Option<Arc<dyn Judge>> {
        Some(Arc::new(self.clone().user(Some(user))))
    }

    fn analyse<'a>(
        &'a self,
        question: &'a str,
        earlier: &'a [ChatMessage],
    ) -> Boxed<'a, Result<Judgement<Analysis>, JudgeError>> {
        judgement(self.analysis(question, earlier))
    }

    fn grade<'a>(
        &'a self,
        question: &'a str,
        hits: &'a [Hit],
    ) -> Boxed<'a, Result<Judgement<Vec<Grade>>, JudgeError>> {
        judgement(self.grades(question, hits))
    }

    fn verify<'a>(
        &'a self,
        claims: &'a [String],
        sources: &'a [Hit],
    ) -> Boxed<'a, Result<Judgement<ClaimChecks>, JudgeError>> {
        judgement(self.verified(claims, sources))
    }

    /// Returns `None`: comparing words cannot make anything up.
    fn hypothesis<'a>(&'a self, _: &'a str) -> Boxed<'a, Result<Option<Judgement<String>>, JudgeError>> {
        Box::pin(ready(Ok(None)))
    }

    fn next_step<'a>(&'a self, progress: Progress<'a>) -> Boxed<'a, Result<Judgement<NextStep>, JudgeError>> {
        judgement(self.step(&progress))
    }
}

#[cfg(test)]
mod tests;
