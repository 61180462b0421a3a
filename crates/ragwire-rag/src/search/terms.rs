//! The significant words of a question, and how significant each is in a library.

use std::borrow::Cow;
use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

use crate::Library;
use crate::search::analyzer::is_ideograph;
use crate::search::lexical::MAX_QUERY_BYTES;

/// Words that questions are phrased with, in addition to the index's stop words. They express that
/// something is asked, but not what.
const QUESTION_WORDS: [&str; 43] = [
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
    "define",
    "definition",
    "summarise",
    "summarize",
    "summary",
    "overview",
    "meaning",
];
/// Words with a dropped apostrophe before the last letter. `its`, `well` and `ill` are words of their own.
const CONTRACTED_WITH_IS: [&str; 11] = [
    "whats", "whos", "wheres", "whens", "whys", "hows", "thats", "theres", "heres", "lets", "whichs",
];
const CONTRACTED_WITH_NOT: [&str; 18] = [
    "isnt", "arent", "wasnt", "werent", "dont", "doesnt", "didnt", "cant", "couldnt", "wont", "wouldnt",
    "shouldnt", "hasnt", "havent", "hadnt", "mustnt", "neednt", "shant",
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
    /// The spellings in the index: one for each language of the library in which they differ.
    pub stems: Vec<String>,
    /// How significant it is, more than 0.
    pub weight: f32,
    /// Whether it occurs in the library.
    pub known: bool,
    /// Whether it only says that something is asked, such as “explain”.
    pub is_question_word: bool,
}

impl Term {
    /// Returns whether a text with these stems contains the word.
    pub(crate) fn is_in(&self, stems: &HashSet<String>) -> bool {
        self.stems.iter().any(|stem| stems.contains(stem))
    }
}

/// Returns the significant words of a question, each once and in order. Empty for a question of
/// stop words.
pub(crate) fn question_terms(library: &Library, question: &str) -> Vec<Term> {
    let question = &question[..question.floor_char_boundary(MAX_QUERY_BYTES)];
    let question = &*with_apostrophes(question);
    let mut found: Vec<Term> = Vec::new();
    let unseen = library.unseen_weight();
    let languages = library.query_languages(question);
    let first = languages.first().copied().unwrap_or_default();
    let words: Vec<(&str, Vec<String>, Vec<String>)> = words(question)
        .into_iter()
        .map(|word| {
            let stems = library.terms_in(word, first);
            // A stop word of the question's language does not count in the others either.
            let others = languages.get(1..).filter(|_| !stems.is_empty());
            let others = others
                .unwrap_or_default()
                .iter()
                .filter_map(|language| library.terms_in(word, *language).into_iter().next());
            let others = others.filter(|other| !stems.contains(other)).collect();
            (word, stems, others)
        })
        .collect();
    // Reading all weights at once costs little more than reading one.
    let all: Vec<String> = words
        .iter()
        .flat_map(|(_, stems, others)| stems.iter().chain(others).cloned())
        .collect();
    let mut weights = library.weights(&all).into_iter();
    for (word, stems, others) in words {
        // An identifier is its whole if the library has it, otherwise its parts.
        let mut spelled: Vec<(String, f32)> = stems.into_iter().zip(&mut weights).collect();
        let others: Vec<(String, f32)> = others.into_iter().zip(&mut weights).collect();
        let others = others.into_iter().filter(|(_, weight)| *weight < unseen);
        let whole_is_known = spelled.first().is_some_and(|(_, weight)| *weight < unseen);
        if word.starts_with(is_ideograph) {
            // All pairs of characters count: which of them are words is not known.
        } else if spelled.len() > 1 && spelled.iter().any(|(_, weight)| *weight < unseen) {
            if whole_is_known {
                spelled.truncate(1);
            } else {
                spelled.remove(0);
            }
        } else {
            spelled.truncate(1);
        }
        let mut others: Vec<(String, f32)> = others.collect();
        for (stem, weight) in spelled {
            let (stem, weight) = match others.iter().map(|(_, weight)| *weight).min_by(f32::total_cmp) {
                // A word of another language of the library.
                Some(other) => (stem, weight.min(other)),
                None => corrected(library, word, stem, weight, unseen),
            };
            if found.len() < MAX_TERMS && found.iter().all(|seen| !seen.stems.contains(&stem)) {
                let is_question_word = QUESTION_WORDS.contains(&word.to_lowercase().as_str());
                let share = if is_question_word {
                    QUESTION_WORD_SHARE
                } else {
                    1.0
                };
                let word = if word.starts_with(is_ideograph) {
                    stem.as_str()
                } else {
                    word
                };
                let word = word.to_owned();
                let mut stems = vec![stem];
                stems.extend(others.drain(..).map(|(other, _)| other));
                found.push(Term {
                    word,
                    stems,
                    weight: share * (BASE_SHARE * unseen + weight),
                    known: weight < unseen,
                    is_question_word,
                });
            }
        }
    }
    found
}

/// Puts the apostrophes back into contractions that were typed without them, so that `whats` and
/// `isnt` are the stop words that they stand for.
pub(crate) fn with_apostrophes(question: &str) -> Cow<'_, str> {
    let spelled = |word: &str| {
        let lower = word.to_lowercase();
        if CONTRACTED_WITH_IS.contains(&lower.as_str()) {
            Some(word.len() - 1)
        } else {
            CONTRACTED_WITH_NOT
                .contains(&lower.as_str())
                .then(|| word.len() - 1)
        }
    };
    let mut with = String::new();
    let mut end = 0;
    for (at, word) in question.unicode_word_indices() {
        if let Some(apostrophe) = spelled(word) {
            let apostrophe = at + apostrophe;
            with.extend([&question[end..apostrophe], "'"]);
            end = apostrophe;
        }
    }
    if end == 0 {
        return question.into();
    }
    with.push_str(&question[end..]);
    with.into()
}

/// Returns the words of a question, and each run of characters that are written without spaces.
fn words(question: &str) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    let mut run: Option<std::ops::Range<usize>> = None;
    for (at, word) in question.unicode_word_indices() {
        let end = at + word.len();
        if !word.starts_with(is_ideograph) {
            words.extend(run.take().map(|run| &question[run]));
            words.push(word);
        } else if let Some(open) = run.as_mut().filter(|open| open.end == at) {
            open.end = end;
        } else {
            words.extend(run.replace(at..end).map(|run| &question[run]));
        }
    }
    words.extend(run.map(|run| &question[run]));
    words
}

/// Returns the term that a misspelled word probably means, with its weight.
fn corrected(library: &Library, word: &str, stem: String, weight: f32, unseen: f32) -> (String, f32) {
    // A name in capitals is not a typing mistake.
    let is_name = word.chars().next().is_some_and(char::is_uppercase);
    if weight < unseen || is_name {
        return (stem, weight);
    }
    match library.correction(word) {
        Ok(Some(correct)) => {
            let weight = library.weights(std::slice::from_ref(&correct)).first().copied();
            (correct, weight.unwrap_or(unseen))
        }
        Ok(None) | Err(_) => (stem, weight),
    }
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
    fn characters_without_spaces_are_pairs() {
        assert_eq!(words("用 rust 训练模型？OK"), ["用", "rust", "训练模型", "OK"]);
        let library = library_with_a_rare_word();
        let terms = question_terms(&library, "训练模型");
        let found: Vec<_> = terms.iter().map(|term| term.word.as_str()).collect();
        assert_eq!(found, ["训练", "练模", "模型"]);
    }

    #[test]
    fn contractions_without_an_apostrophe_are_stop_words() {
        for (typed, with) in [
            ("whats a cat?", "what's a cat?"),
            ("Why isnt it, and dont they?", "Why isn't it, and don't they?"),
            ("its well", "its well"),
            ("", ""),
        ] {
            assert_eq!(with_apostrophes(typed), with);
        }
        let library = library_with_a_rare_word();
        let terms = question_terms(&library, "whats the optimizer and why isnt it used");
        let words: Vec<_> = terms.iter().map(|term| term.word.as_str()).collect();
        assert_eq!(words, ["optimizer", "used"]);
    }

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
        let misspelled = question_terms(&library, "Which optmizer is it?");
        assert!(
            misspelled[0].known && misspelled[0].stems == terms[3].stems,
            "{misspelled:?}"
        );
        assert_eq!(coverage(&terms, |_| true), 1.0);
        assert_eq!(coverage(&[], |_| true), 0.0);
    }
}
