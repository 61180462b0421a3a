//! How much of a question's words the evidence covers, and what to search for if some are missing.
//! Single chunks are not graded here.

use std::collections::HashSet;

use crate::search::terms::{Term, coverage, question_terms};
use crate::{Hit, LibraryView};

/// Least share of the question's weight that the evidence must cover.
const ENOUGH: f32 = 0.75;
/// Number of hits that count as evidence: an answer is written from the first few.
const JUDGED_HITS: usize = 5;
/// Number of queries asked for in a second round at most.
const MAX_QUERIES: usize = 3;

/// Whether the evidence covers a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvidenceCoverage {
    /// Nothing of weight is missing.
    Enough,
    /// Words are missing. These queries may find them; empty if a further search cannot find
    /// anything new.
    Lacks(Vec<String>),
}

/// Returns whether the first of `hits` contain enough of the question's significant words.
pub(super) fn evidence_coverage(library: LibraryView<'_>, question: &str, hits: &[Hit]) -> EvidenceCoverage {
    let terms = question_terms(library, question);
    let mut held: HashSet<String> = HashSet::new();
    for hit in hits.iter().take(JUDGED_HITS) {
        held.extend(library.terms(&hit.chunk.text));
        held.extend(library.terms(hit.chunk.heading.as_deref().unwrap_or_default()));
    }
    if coverage(&terms, |term| term.is_in(&held)) >= ENOUGH {
        return EvidenceCoverage::Enough;
    }
    let missing: Vec<&Term> = terms.iter().filter(|term| !term.is_in(&held)).collect();
    EvidenceCoverage::Lacks(next_queries(&terms, &missing))
}

/// All missing words together, then each with the rarest word that was found.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    fn judge(question: &str) -> EvidenceCoverage {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let text = b"# Birds\n\nA robin sings at dawn.\n\n# Fish\n\nA carp eats plants all day.";
        library
            .add("a.md", &parse("a.md", text, &ParseLimits::default()).unwrap())
            .unwrap();
        // The hits contain the birds only.
        let hits = library.search("robin", 1).unwrap();
        evidence_coverage(library.all(), question, &hits)
    }

    #[test]
    fn missing_words_are_asked_for_if_they_can_be_found() {
        assert_eq!(judge("When does the robin sing?"), EvidenceCoverage::Enough);
        let cases: [(&str, &[&str]); 3] = [
            (
                "robin or carp, who eats plants?",
                &["carp eats plants", "carp robin", "eats robin"],
            ),
            ("capital of France", &[]),
            ("the of and", &[]),
        ];
        for (question, next) in cases {
            let next = next.iter().map(|&query| query.to_owned()).collect();
            assert_eq!(judge(question), EvidenceCoverage::Lacks(next), "{question}");
        }
    }
}
