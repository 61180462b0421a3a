//! How much of a question's words the evidence holds, and what to search for where some are missing. It grades no single chunk.

use std::collections::HashSet;

use crate::search::terms::{Term, coverage, question_terms};
use crate::{Hit, Library};

/// Least share of the question's weight that the evidence has to hold.
const ENOUGH: f32 = 0.75;
/// Hits that count as evidence: an answer is written from the first few.
const JUDGED_HITS: usize = 5;
/// Most queries asked for in a second round.
const MAX_QUERIES: usize = 3;

/// What the evidence lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Covered {
    /// Nothing that matters.
    Enough,
    /// This is to be searched for next; empty where a further search would find nothing new.
    Lacks(Vec<String>),
}

/// Whether the first of `hits` hold enough of the telling words of the question.
pub(super) fn covered(library: &Library, question: &str, hits: &[Hit]) -> Covered {
    let terms = question_terms(library, question);
    let mut held: HashSet<String> = HashSet::new();
    for hit in hits.iter().take(JUDGED_HITS) {
        held.extend(library.terms(&hit.chunk.text));
        held.extend(library.terms(hit.chunk.heading.as_deref().unwrap_or_default()));
    }
    if coverage(&terms, |term| held.contains(&term.stem)) >= ENOUGH {
        return Covered::Enough;
    }
    let missing: Vec<&Term> = terms.iter().filter(|term| !held.contains(&term.stem)).collect();
    Covered::Lacks(next_queries(&terms, &missing))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryLimits, ParseLimits, parse};

    fn judge(question: &str) -> Covered {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let text = b"# Birds\n\nA robin sings at dawn.\n\n# Fish\n\nA carp eats plants all day.";
        library
            .add("a.md", &parse("a.md", text, &ParseLimits::default()).unwrap())
            .unwrap();
        // Only the birds were found.
        let hits = library.search("robin", 1).unwrap();
        covered(&library, question, &hits)
    }

    #[test]
    fn missing_words_are_asked_for_if_they_can_be_found() {
        assert_eq!(judge("When does the robin sing?"), Covered::Enough);
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
            assert_eq!(judge(question), Covered::Lacks(next), "{question}");
        }
    }
}
