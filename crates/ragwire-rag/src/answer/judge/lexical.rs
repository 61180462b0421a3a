//! The judge without a model: shares of a question's words, weighed as the library weighs them. Always the same, and at once.
//!
//! What it cannot know it says so that nobody is misled: a word that stands nowhere is a word that nothing covers, and a claim with a number
//! that its source does not have is not supported.

use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use super::coverage::{Covered, covered};
use super::{
    Analysis, Grade, Judge, JudgeError, Judged, MAX_QUERY_BYTES, MAX_SUB_QUERIES, NextStep, Progress,
    Thresholds, Verified,
};
use crate::answer::differ::Traits;
use crate::documents::sentences;
use crate::models::{Boxed, ChatMessage, Role};
use crate::search::plan::Plan;
use crate::search::terms::{Term, coverage, question_terms};
use crate::{Hit, Library};
use ragwire::event::{ClaimVerdict, Complexity, Mode};

/// Its name in events.
pub const NAME: &str = "lexical";
/// Where its quality gate stands. Of "Attention Is All You Need" the best passage has 0.71 and more for what the paper answers, and 0.41 and less
/// for what it does not: see the tests.
pub const THRESHOLDS: Thresholds = Thresholds {
    upper: 0.6,
    lower: 0.45,
};
/// Words of a chunk around its best sentence count this much of words in it.
const AROUND_SHARE: f64 = 0.5;
/// The share of a grade that the search's own order has: what was found for its meaning may share few words.
const RANK_SHARE: f64 = 0.1;
/// From this share of a claim's weight on, in one sentence and what stands around it, the claim is supported,
const SUPPORTED: f64 = 0.7;
/// and from this share on in part.
const PARTLY_SUPPORTED: f64 = 0.45;
/// A question with fewer telling words than this leans on what was said before.
const MIN_OWN_TERMS: usize = 2;
/// Words that stand for what was said before.
const REFERRING: [&str; 16] = [
    "it", "its", "they", "them", "their", "that", "this", "those", "these", "he", "she", "his", "her",
    "there", "one", "ones",
];
/// Words of the question before that are searched for with a question that leans on it: the weightiest.
const MAX_CARRIED_TERMS: usize = 4;
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
/// An agent stops after so many searches in a row that brought nothing new.
const FRUITLESS_SEARCHES: usize = 2;

/// Judges by words.
#[derive(Debug, Clone)]
pub struct LexicalJudge {
    library: Arc<Library>,
}

/// What a text holds, for comparing it with terms.
type Stems = HashSet<String>;

/// A hit, read once for all that it is compared with.
#[derive(Debug)]
struct Reading<'a> {
    /// In its heading.
    above: Stems,
    /// In all of it.
    around: Stems,
    sentences: Vec<(Stems, &'a str)>,
}

impl LexicalJudge {
    /// Weighs words as `library` does.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library }
    }

    /// [`Judge::analyse`], at once.
    pub fn analysis(&self, question: &str, earlier: &[ChatMessage]) -> Analysis {
        let plan = Plan::of(question);
        let complexity = match plan.complexity() {
            Complexity::Simple if relates(question) => Complexity::Moderate,
            complexity => complexity,
        };
        let parts: &[String] = if plan.parts.len() > 1 { &plan.parts } else { &[] };
        let mut sub_queries: Vec<String> = self.carried(question, earlier).into_iter().collect();
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

    /// A question that leans on the one before it, with that one's weightiest words.
    fn carried(&self, question: &str, earlier: &[ChatMessage]) -> Option<String> {
        let before = earlier.iter().rev().find(|message| message.role == Role::User)?;
        let own = question_terms(&self.library, question);
        if own.len() >= MIN_OWN_TERMS && !words(question).any(|word| REFERRING.contains(&word.as_str())) {
            return None;
        }
        let mut carried = question_terms(&self.library, &before.content);
        carried.retain(|term| own.iter().all(|known| known.stem != term.stem));
        carried.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        carried.truncate(MAX_CARRIED_TERMS);
        if carried.is_empty() {
            return None;
        }
        let words: Vec<&str> = carried.iter().map(|term| term.word.as_str()).collect();
        let query = format!("{} {}", words.join(" "), question.trim());
        Some(query[..query.floor_char_boundary(MAX_QUERY_BYTES)].to_owned())
    }

    /// [`Judge::grade`], at once.
    pub fn grades(&self, question: &str, hits: &[Hit]) -> Vec<Grade> {
        let terms = question_terms(&self.library, question);
        let best = hits
            .iter()
            .map(|hit| f64::from(hit.score))
            .filter(|score| score.is_finite());
        let best = best.fold(0.0, f64::max);
        let grade = |hit: &Hit| {
            let (held, _) = self.read(hit).held(&terms);
            let rank = f64::from(hit.score) / best;
            let rank = if rank.is_finite() {
                rank.clamp(0.0, 1.0)
            } else {
                0.0
            };
            // The order alone makes no evidence of what shares no word with the question.
            let rank = if held > 0.0 { rank } else { 0.0 };
            Grade::new((1.0 - RANK_SHARE) * held + RANK_SHARE * rank, THRESHOLDS)
        };
        hits.iter().map(grade).collect()
    }

    fn read<'a>(&self, hit: &'a Hit) -> Reading<'a> {
        let stems = |text: &str| self.library.terms(text).into_iter().collect::<Stems>();
        let sentence = |sentence: &'a str| (stems(sentence), sentence);
        Reading {
            above: stems(hit.chunk.heading.as_deref().unwrap_or_default()),
            around: stems(&hit.chunk.text),
            sentences: sentences(&hit.chunk.text).into_iter().map(sentence).collect(),
        }
    }

    /// [`Judge::verify`], at once.
    pub fn verified(&self, claims: &[String], sources: &[Hit]) -> Verified {
        let read = |hit: &'_ Hit| Traits::of(&hit.chunk.text).numbers;
        let sources: Vec<_> = sources.iter().map(|hit| (self.read(hit), read(hit))).collect();
        let verdict = |claim: &String| {
            let terms = question_terms(&self.library, claim);
            let traits = Traits::of(claim);
            let said = sources.iter().map(|(source, numbers)| {
                let (held, sentence) = source.held(&terms);
                let agrees =
                    traits.numbers.is_subset(numbers) && traits.negated == Traits::of(sentence).negated;
                if agrees { held } else { 0.0 }
            });
            let said = said.fold(0.0, f64::max);
            if said >= SUPPORTED {
                ClaimVerdict::Supported
            } else if said >= PARTLY_SUPPORTED {
                ClaimVerdict::PartiallySupported
            } else {
                ClaimVerdict::Unsupported
            }
        };
        Verified::new(claims, claims.iter().map(verdict))
    }

    /// [`Judge::next_step`], at once.
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
        // Passages that hold all words of such a question need not say what one has to do with the other. First comes what they are.
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
        let missing = match covered(&self.library, progress.question, progress.found) {
            Covered::Enough if !progress.found.is_empty() => return NextStep::Stop,
            Covered::Enough => Vec::new(),
            Covered::Lacks(queries) => queries,
        };
        let question = progress.question.trim().to_owned();
        let mut queries = vec![question];
        if !progress.searched.is_empty() {
            // What stands nowhere is not searched for again.
            let findable =
                |query: &String| question_terms(&self.library, query).iter().any(|term| term.known);
            let parts = Plan::of(progress.question).queries;
            queries.extend(missing.into_iter().chain(parts).filter(findable));
        }
        for tool in progress.tools.iter().filter(|tool| !tool.relates) {
            for query in &queries {
                let query = query[..query.floor_char_boundary(MAX_QUERY_BYTES)].trim();
                if !query.is_empty() && !progress.did(&tool.name, query) {
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

impl<'a> Reading<'a> {
    /// How much of the terms' weight it holds, most of it in one sentence, and that sentence.
    fn held(&self, terms: &[Term]) -> (f64, &'a str) {
        let share = |stems: &Stems| {
            let holds = |term: &Term| stems.contains(&term.stem) || self.above.contains(&term.stem);
            f64::from(coverage(terms, holds))
        };
        let around = share(&self.around);
        let sentences = self
            .sentences
            .iter()
            .map(|(stems, sentence)| (share(stems), *sentence));
        // The first of equals.
        let best = sentences.fold((0.0, ""), |best, one| if one.0 > best.0 { one } else { best });
        (best.0 + AROUND_SHARE * (around - best.0), best.1)
    }
}

/// Whether a question asks what things have to do with each other: it says `relate`, `between`, `difference` and the like.
pub fn relates(question: &str) -> bool {
    words(question).any(|word| RELATING.contains(&word.as_str()))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.unicode_words().map(str::to_lowercase)
}

fn told<'a, T: Send + 'a>(value: T) -> Boxed<'a, Result<Judged<T>, JudgeError>> {
    // A dozen chunks, each read once: a few milliseconds, so it stays on the runtime's thread.
    Box::pin(ready(Ok(Judged::new(value, NAME))))
}

impl Judge for LexicalJudge {
    fn name(&self) -> &str {
        NAME
    }

    fn analyse<'a>(
        &'a self,
        question: &'a str,
        earlier: &'a [ChatMessage],
    ) -> Boxed<'a, Result<Judged<Analysis>, JudgeError>> {
        told(self.analysis(question, earlier))
    }

    fn grade<'a>(
        &'a self,
        question: &'a str,
        hits: &'a [Hit],
    ) -> Boxed<'a, Result<Judged<Vec<Grade>>, JudgeError>> {
        told(self.grades(question, hits))
    }

    fn verify<'a>(
        &'a self,
        claims: &'a [String],
        sources: &'a [Hit],
    ) -> Boxed<'a, Result<Judged<Verified>, JudgeError>> {
        told(self.verified(claims, sources))
    }

    /// Nothing: words make nothing up.
    fn hypothesis<'a>(&'a self, _: &'a str) -> Boxed<'a, Result<Option<Judged<String>>, JudgeError>> {
        Box::pin(ready(Ok(None)))
    }

    fn next_step<'a>(&'a self, progress: Progress<'a>) -> Boxed<'a, Result<Judged<NextStep>, JudgeError>> {
        told(self.step(&progress))
    }
}

#[cfg(test)]
#[path = "lexical_tests.rs"]
mod tests;
