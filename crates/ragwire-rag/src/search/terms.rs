//! The significant words of a question, and how significant each is in a library.

use unicode_segmentation::UnicodeSegmentation;

use crate::Library;
use crate::search::lexical::MAX_QUERY_BYTES;

/// Words that questions are phrased with, in addition to the index's stop words. They express that
/// something is asked, but not what.
const QUESTION_WORDS: [&str; 36] = [
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
/// The weight of a question word, relative to other words.
const QUESTION_WORD_SHARE: f32 = 0.2;
/// The minimum weight of every word, as a share of the weight of a word that does not occur. In a
/// small library almost every word occurs in almost every passage.
const BASE_SHARE: f32 = 0.25;
/// The most words taken from a question.
const MAX_TERMS: usize = 32;

/// One word of a question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) struct Term {
    /// The spelling in the question.
    pub word: String,
    /// The spelling in the index.
    pub stem: String,
    /// How significant it is, more than 0.
    pub weight: f32,
    /// Whether it occurs in the library.
    pub known: bool,
}

/// Returns the significant words of a question, each once and in order. Empty for a question of
/// stop words.
pub(crate) fn question_terms(library: &Library, question: &str) -> Vec<Term> {
    let question = &question[..question.floor_char_boundary(MAX_QUERY_BYTES)];
    let mut found: Vec<(String, String)> = Vec::new();
    for word in question.unicode_words() {
        // Folding accents can split a word into several; the first is enough.
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
        let is_question_word = QUESTION_WORDS.contains(&word.to_lowercase().as_str());
        let share = if is_question_word {
            QUESTION_WORD_SHARE
        } else {
            1.0
        };
        Term {
            word,
            stem,
            weight: share * (BASE_SHARE * unseen + weight),
            known: weight < unseen,
        }
    };
    found.into_iter().zip(weights).map(term).collect()
}

/// Returns the share of the weight of all terms that `holds` accepts, from 0 to 1; 0 if there are
/// no terms.
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
    use crate::test_data::library_with_a_rare_word;

    #[test]
    fn rare_words_weigh_more_and_unknown_words_most() {
        let library = library_with_a_rare_word();
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
