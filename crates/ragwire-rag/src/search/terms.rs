//! The words of a question that tell something, and how much each tells in a library.

use unicode_segmentation::UnicodeSegmentation;

use crate::Library;
use crate::search::lexical::MAX_QUERY_BYTES;

/// Words that questions are made with, besides the stop words of the index. They ask, and do not say for what.
const ASKING: [&str; 36] = [
    "many",
    "much",
    "use",
    "used",
    "uses",
    "using",
    "tell",
    "explain",
    "describe",
    "give",
    "show",
    "please",
    "know",
    "mean",
    "means",
    "could",
    "would",
    "find",
    "list",
    "name",
    "get",
    "got",
    "say",
    "says",
    "said",
    "us",
    "reach",
    "happen",
    "happens",
    "kind",
    "type",
    "long",
    "often",
    "documents",
    "document",
    "text",
];
/// How much an asking word counts.
const ASKING_SHARE: f32 = 0.2;
/// What every word counts at least, as a share of a word that stands nowhere: in a small library almost every word stands
/// almost everywhere.
const BASE_SHARE: f32 = 0.25;
/// Most words taken from a question.
const MAX_TERMS: usize = 32;

/// One word of a question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub(crate) struct Term {
    /// As the question spells it.
    pub word: String,
    /// As the index spells it.
    pub stem: String,
    /// How much it tells, more than 0.
    pub weight: f32,
    /// Whether it stands anywhere in the library.
    pub known: bool,
}

/// The telling words of a question, each once, in its order. Empty for a question of stop words.
pub(crate) fn question_terms(library: &Library, question: &str) -> Vec<Term> {
    let question = &question[..question.floor_char_boundary(MAX_QUERY_BYTES)];
    let mut found: Vec<(String, String)> = Vec::new();
    for word in question.unicode_words() {
        // Folding accents can make several words of one; the first is enough.
        let Some(stem) = library.terms(word).into_iter().next() else {
            continue;
        };
        if found.len() < MAX_TERMS && found.iter().all(|(_, seen)| *seen != stem) {
            found.push((word.to_owned(), stem));
        }
    }
    let stems: Vec<String> = found.iter().map(|(_, stem)| stem.clone()).collect();
    let unseen = library.unseen_weight();
    let weights = library.weights(&stems);
    let term = |((word, stem), weight): ((String, String), f32)| {
        let asking = ASKING.contains(&word.to_lowercase().as_str());
        let share = if asking { ASKING_SHARE } else { 1.0 };
        Term {
            word,
            stem,
            weight: share * (BASE_SHARE * unseen + weight),
            known: weight < unseen,
        }
    };
    found.into_iter().zip(weights).map(term).collect()
}

/// How much of the weight of all terms falls on those that `holds` accepts, 0 to 1; 0 where there is no term.
pub(crate) fn coverage(terms: &[Term], holds: impl Fn(&Term) -> bool) -> f32 {
    let all: f32 = terms.iter().map(|term| term.weight).sum();
    let held: f32 = terms
        .iter()
        .filter(|term| holds(term))
        .map(|term| term.weight)
        .sum();
    if all > 0.0 { held / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryLimits, ParseLimits, parse};

    #[test]
    fn rare_words_tell_more_and_unknown_ones_most() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let text: String = (0..20)
            .map(|n| format!("# Part {n}\n\nThe model learns.\n\n"))
            .collect();
        let parsed = parse(
            "a.md",
            (text + "An optimizer.").as_bytes(),
            &ParseLimits::default(),
        )
        .unwrap();
        library.add("a.md", &parsed).unwrap();
        let terms = question_terms(
            &library,
            "How many models use the optimizer, optimizers or Unicorns?",
        );
        let words: Vec<_> = terms
            .iter()
            .map(|term| (term.word.as_str(), term.known))
            .collect();
        assert_eq!(
            words,
            [
                ("many", false),
                ("models", true),
                ("use", false),
                ("optimizer", true),
                ("Unicorns", false)
            ]
        );
        let weight = |word: &str| terms.iter().find(|term| term.word == word).unwrap().weight;
        assert!(weight("models") < weight("optimizer") && weight("optimizer") < weight("Unicorns"));
        assert!(weight("many") < weight("optimizer"));
        assert_eq!(coverage(&terms, |_| true), 1.0);
        assert_eq!(coverage(&[], |_| true), 0.0);
    }
}
