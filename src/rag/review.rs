//! Judging the evidence before it is used: the seam [`Review`], its lexical implementation, and that of any [`Judge`].

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use super::figures::count;
use super::judge::{Gate, Judge, JudgeError, NextStep, Progress, Searched, ToolSpec};
use super::terms::{Term, coverage, question_terms};
use super::{Hit, Library};
use crate::event::CragAction;

/// Least share of the question's weight that the evidence has to hold.
pub const ENOUGH: f32 = 0.75;
/// Hits that count as evidence: an answer is written from the first few.
const JUDGED_HITS: usize = 5;
/// Hits that a [`Judge`] grades: all that an answer is written from.
const GRADED_HITS: usize = 8;
/// Most queries asked for in a second round.
const MAX_QUERIES: usize = 3;

/// What a judge says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Judgement {
    /// The evidence will do.
    Approved {
        /// Why.
        feedback: String,
    },
    /// It will not.
    Rejected {
        /// What is missing.
        feedback: String,
        /// What to search for next; empty where a further search would find nothing new.
        queries: Vec<String>,
    },
}

/// Judges evidence. A judge that cannot judge approves.
pub trait Review: Send + Sync + 'static {
    /// Judges the hits for a question, best hit first.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    fn review<'a>(
        &'a self,
        question: &'a str,
        hits: &'a [Hit],
    ) -> Pin<Box<dyn Future<Output = Judgement> + Send + 'a>>;
}

/// Rejects evidence that misses telling words of the question, and asks for those that the library does hold.
#[derive(Debug, Clone)]
pub struct CoverageReview {
    library: Arc<Library>,
}

impl CoverageReview {
    /// Weighs words as `library` does.
    pub fn new(library: Arc<Library>) -> Self {
        Self { library }
    }

    /// [`Review::review`], at once.
    pub(super) fn judge(&self, question: &str, hits: &[Hit]) -> Judgement {
        let terms = question_terms(&self.library, question);
        let mut held: HashSet<String> = HashSet::new();
        for hit in hits.iter().take(JUDGED_HITS) {
            held.extend(self.library.terms(&hit.chunk.text));
            held.extend(
                self.library
                    .terms(hit.chunk.heading.as_deref().unwrap_or_default()),
            );
        }
        let covered = coverage(&terms, |term| held.contains(&term.stem));
        let percent = (covered * 100.0).round();
        if covered >= ENOUGH {
            return Judgement::Approved {
                feedback: format!("the evidence covers {percent}% of the question"),
            };
        }
        let missing: Vec<&Term> = terms.iter().filter(|term| !held.contains(&term.stem)).collect();
        if missing.is_empty() {
            return Judgement::Rejected {
                feedback: "the question names nothing to search for".to_owned(),
                queries: Vec::new(),
            };
        }
        let words: Vec<&str> = missing.iter().map(|term| term.word.as_str()).collect();
        let feedback = format!(
            "the evidence covers {percent}% of the question; missing: {}",
            words.join(", ")
        );
        Judgement::Rejected {
            feedback,
            queries: next_queries(&terms, &missing),
        }
    }
}

/// The missing words together, then each beside the rarest word that was found.
fn next_queries(terms: &[Term], missing: &[&Term]) -> Vec<String> {
    let findable: Vec<&str> = missing
        .iter()
        .filter(|term| term.known)
        .map(|term| term.word.as_str())
        .collect();
    if findable.is_empty() {
        return Vec::new();
    }
    let found = terms
        .iter()
        .filter(|term| term.known && !findable.contains(&term.word.as_str()));
    let anchor = found
        .max_by(|a, b| a.weight.total_cmp(&b.weight))
        .map(|term| term.word.as_str());
    let mut queries = vec![findable.join(" ")];
    if let Some(anchor) = anchor {
        queries.extend(findable.iter().map(|word| format!("{word} {anchor}")));
    }
    queries.truncate(MAX_QUERIES);
    queries
}

impl Review for CoverageReview {
    fn review<'a>(
        &'a self,
        question: &'a str,
        hits: &'a [Hit],
    ) -> Pin<Box<dyn Future<Output = Judgement> + Send + 'a>> {
        // Five chunks: less than a millisecond, so it stays on the runtime's thread.
        Box::pin(std::future::ready(self.judge(question, hits)))
    }
}

/// Reviews with a [`Judge`]: evidence that its gate lets through is approved, for other evidence it says what to search for next. A judge that
/// is gone approves.
#[derive(Debug, Clone)]
pub struct JudgeReview {
    judge: Arc<dyn Judge>,
    tools: [ToolSpec; 1],
}

impl JudgeReview {
    /// Reviews for a pipeline that searches with `tool`.
    pub fn new(judge: Arc<dyn Judge>, tool: impl Into<String>) -> Self {
        Self {
            judge,
            tools: [ToolSpec::new(tool, "finds passages")],
        }
    }

    async fn judged(&self, question: &str, hits: &[Hit]) -> Result<Judgement, JudgeError> {
        let hits = &hits[..hits.len().min(GRADED_HITS)];
        let grades = self.judge.grade(question, hits).await?;
        let gate = Gate::of(&grades.value);
        let feedback = format!(
            "{} of {} passages answer and {} may, says {}",
            gate.correct,
            hits.len(),
            gate.ambiguous,
            grades.by
        );
        if gate.action == CragAction::Proceed {
            return Ok(Judgement::Approved { feedback });
        }
        let searched = [Searched::new(&self.tools[0].name, question, count(hits.len()))];
        let progress = Progress::new(question, &self.tools, 1).after(&searched, hits);
        let queries = match self.judge.next_step(progress).await?.value {
            NextStep::Search { query, .. } => vec![query],
            NextStep::Stop => Vec::new(),
        };
        Ok(Judgement::Rejected { feedback, queries })
    }
}

impl Review for JudgeReview {
    fn review<'a>(
        &'a self,
        question: &'a str,
        hits: &'a [Hit],
    ) -> Pin<Box<dyn Future<Output = Judgement> + Send + 'a>> {
        Box::pin(async move {
            let judged = self.judged(question, hits).await;
            judged.unwrap_or_else(|error| Judgement::Approved {
                feedback: error.to_string(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rag::judge::{JudgeOptions, LexicalJudge, ModelJudge};
    use crate::rag::scripted::{Reply, Scripted};
    use crate::rag::{LibraryLimits, ParseLimits, parse};

    #[tokio::test]
    async fn a_judge_reviews() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let text = b"# Birds\n\nA robin sings at dawn.\n\n# Fish\n\nA carp eats plants all day.";
        let parsed = parse("a.md", text, &ParseLimits::default()).unwrap();
        library.add("a.md", &parsed).unwrap();
        let hits = library.search("robin", 1).unwrap();
        let library = Arc::new(library);
        let lexical = JudgeReview::new(Arc::new(LexicalJudge::new(Arc::clone(&library))), "bm25_search");
        let rejected = |feedback: &str, queries: &[&str]| Judgement::Rejected {
            feedback: feedback.to_owned(),
            queries: queries.iter().map(|&query| query.to_owned()).collect(),
        };
        let approved = |feedback: &str| Judgement::Approved {
            feedback: feedback.to_owned(),
        };
        for (question, wanted) in [
            (
                "When does the robin sing?",
                approved("1 of 1 passages answer and 0 may, says lexical"),
            ),
            (
                "Who eats plants?",
                rejected("0 of 1 passages answer and 0 may, says lexical", &["eats plants"]),
            ),
            (
                "capital of France",
                rejected("0 of 1 passages answer and 0 may, says lexical", &[]),
            ),
        ] {
            assert_eq!(lexical.review(question, &hits).await, wanted, "{question}");
        }
        let model = |replies: Vec<Reply>| {
            let model = Arc::new(Scripted::new(replies));
            let judge = ModelJudge::new(model, Arc::clone(&library), JudgeOptions::default());
            JudgeReview::new(Arc::new(judge), "bm25_search")
        };
        let review = model(vec![
            Reply::says(r#"{"scores":[2]}"#),
            Reply::says(r#"{"tool":"bm25_search","query":"what carp eat"}"#),
        ]);
        assert_eq!(
            review.review("Who eats plants?", &hits).await,
            rejected(
                "0 of 1 passages answer and 0 may, says scripted",
                &["what carp eat"]
            )
        );
        let review = model(vec![Reply::ShutsDown]);
        assert_eq!(
            review.review("Who eats plants?", &hits).await,
            approved("the model that judges is gone")
        );
    }

    fn judge(question: &str) -> Judgement {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let text = b"# Birds\n\nA robin sings at dawn.\n\n# Fish\n\nA carp eats plants all day.";
        library
            .add("a.md", &parse("a.md", text, &ParseLimits::default()).unwrap())
            .unwrap();
        // Only the birds were found.
        let hits = library.search("robin", 1).unwrap();
        CoverageReview::new(Arc::new(library)).judge(question, &hits)
    }

    #[test]
    fn missing_words_are_named_and_asked_for_if_they_can_be_found() {
        let approved = Judgement::Approved {
            feedback: "the evidence covers 100% of the question".to_owned(),
        };
        assert_eq!(judge("When does the robin sing?"), approved);
        let cases: [(&str, &str, &[&str]); 3] = [
            (
                "robin or carp, who eats plants?",
                "missing: carp, eats, plants",
                &["carp eats plants", "carp robin", "eats robin"],
            ),
            ("capital of France", "missing: capital, France", &[]),
            ("the of and", "names nothing to search for", &[]),
        ];
        for (question, wanted, next) in cases {
            let Judgement::Rejected { feedback, queries } = judge(question) else {
                panic!("{question}")
            };
            assert!(feedback.ends_with(wanted), "{question}: {feedback}");
            assert_eq!(queries, next, "{question}");
        }
    }
}
