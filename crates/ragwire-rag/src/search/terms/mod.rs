//! The significant words of a question, and how significant each is in a library.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

use crate::LibraryView;
use crate::search::analyzer::{AskedPair, Language, Run, is_hangul, is_hiragana, runs};
use crate::search::asking::{KOREAN_PAIRS, only_asks};
use crate::search::bounds::{asks_for_bound, says_that_bound_is_asked};
use crate::search::compounds::MAX_COMPOUNDS;
use crate::search::identifier::qualified;
use crate::search::lexical::MAX_QUERY_BYTES;
use crate::search::lexicon::{PRICE_FILLERS, PRICE_WORDS};
use crate::search::quantity::{asks_for_price, asks_for_version};
use crate::search::synonyms::{other_words, spellings, verb_synonyms};

/// What is asked about every option and setting, and what it is called. Its description need not repeat it.
const ABOUT_OPTIONS: [&str; 20] = [
    "set",
    "setting",
    "settings",
    "configure",
    "configuration",
    "config",
    "change",
    "specify",
    "enable",
    "disable",
    "add",
    "option",
    "options",
    "flag",
    "parameter",
    "argument",
    "variable",
    "directive",
    "value",
    "values",
];
/// Words with a dropped apostrophe before the last letter. `its`, `well` and `ill` are words of their own.
const CONTRACTED_WITH_IS: [&str; 11] = [
    "whats", "whos", "wheres", "whens", "whys", "hows", "thats", "theres", "heres", "lets", "whichs",
];
const CONTRACTED_WITH_NOT: [&str; 18] = [
    "isnt", "arent", "wasnt", "werent", "dont", "doesnt", "didnt", "cant", "couldnt", "wont", "wouldnt",
    "shouldnt", "hasnt", "havent", "hadnt", "mustnt", "neednt", "shant",
];
/// English verbs that ask, as in `list the tables`, or are what is to be done, as in `how do I list tables`.
const ASKED_OR_DONE: [&str; 8] = [
    "define", "describe", "explain", "handle", "list", "name", "show", "type",
];
/// The weight of a question word, relative to other words.
const QUESTION_WORD_SHARE: f32 = 0.2;
/// The minimum weight of every word, as a share of the weight of a word that does not occur. In a
/// small library almost every word occurs in almost every passage.
const BASE_SHARE: f32 = 0.25;
/// The weight in quotes of a word that is taken from the question before, relative to one of the question. Of 62
/// questions that depend on another, three more answers held the fact; shares of 0.5 and less answered fewer.
const CARRIED_SHARE: f32 = 0.7;
/// Other words for one of a question that are searched at most.
pub(crate) const MAX_SYNONYMS: usize = 3;
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
pub(crate) fn question_terms(library: LibraryView<'_>, question: &str) -> Vec<Term> {
    let question = &question[..question.floor_char_boundary(MAX_QUERY_BYTES)];
    let question = &*library.well_spelled(question);
    let mut found: Vec<Term> = Vec::new();
    let asks_for_price = asks_for_price(question);
    let asks_for_version = asks_for_version(question);
    let asks_for_bound = asks_for_bound(question, library.language_of_question(question));
    let mut compounds = 0;
    let unseen = library.unseen_weight();
    let is_new = |found: &[Term], stem: &String| {
        found.len() < MAX_TERMS && found.iter().all(|seen| !seen.stems.contains(stem))
    };
    let weighted = |weight: f32, is_question_word: bool| {
        let share = if is_question_word {
            QUESTION_WORD_SHARE
        } else {
            1.0
        };
        share * (BASE_SHARE * unseen + weight)
    };
    let languages = library.query_languages(question);
    let first = languages.first().copied().unwrap_or_default();
    let words: Vec<(Run<'_>, Vec<String>, Vec<String>)> = unqualified(library, runs(question), unseen)
        .into_iter()
        .map(|(run, whole)| {
            let word = match run {
                Run::Word(word) => word,
                Run::Paired(letters) => {
                    let pairs = library.asked_pairs(letters).into_iter();
                    return (
                        run,
                        pairs.map(|asked| asked.pair.to_owned()).collect(),
                        Vec::new(),
                    );
                }
            };
            let stems = library.terms_in(word, first);
            // A stop word of the question's language does not count in the others either.
            let others = languages.get(1..).filter(|_| !stems.is_empty());
            let others = others
                .unwrap_or_default()
                .iter()
                .filter_map(|language| library.terms_in(word, *language).into_iter().next());
            let accented = library.accented_stems(question, word, first);
            let whole = whole.and_then(|whole| library.terms_in(whole, first).into_iter().next());
            let others = others
                .chain(accented)
                .chain(whole)
                .filter(|other| !stems.contains(other))
                .collect();
            (run, stems, others)
        })
        .collect();
    // Reading all weights at once costs little more than reading one.
    let all: Vec<String> = words
        .iter()
        .flat_map(|(_, stems, others)| stems.iter().chain(others).cloned())
        .collect();
    let mut weights = library.weights(&all).into_iter();
    let nexts: Vec<Run<'_>> = words.iter().skip(1).map(|(run, ..)| *run).collect();
    let befores: Vec<Run<'_>> = words.iter().map(|(run, ..)| *run).collect();
    let befores = [&[Run::Word("")], &befores[..]].concat();
    for (at, (run, stems, others)) in words.into_iter().enumerate() {
        let mut spelled: Vec<(String, f32)> = stems.into_iter().zip(&mut weights).collect();
        let others: Vec<(String, f32)> = others.into_iter().zip(&mut weights).collect();
        let mut others: Vec<(String, f32)> = others
            .into_iter()
            .filter(|(_, weight)| *weight < unseen)
            .collect();
        let word = match run {
            Run::Word(word) => word,
            Run::Paired(letters) => {
                let weights = spelled.iter().map(|(_, weight)| *weight);
                let pairs: Vec<_> = library.asked_pairs(letters).into_iter().zip(weights).collect();
                for (asked, weight, share) in paired_words(&pairs, unseen) {
                    if is_new(&found, &asked.pair.to_owned()) {
                        let is_question_word = asks(asked.pair);
                        found.push(Term {
                            word: asked.word.to_owned(),
                            stems: vec![asked.pair.to_owned()],
                            weight: share * weighted(weight, is_question_word),
                            known: weight < unseen,
                            is_question_word,
                        });
                    }
                }
                continue;
            }
        };
        let is_cut = whole_or_parts(&mut spelled, unseen);
        if let ([(_, weight)], []) = (&spelled[..], &others[..])
            && *weight >= unseen
            && compounds < MAX_COMPOUNDS
        {
            compounds += 1;
            let parts = library.parts_of(word, first);
            if !parts.is_empty() {
                for part in parts {
                    if !is_new(&found, &part.stem) {
                        continue;
                    }
                    let is_question_word = only_asks(&part.word, first);
                    found.push(Term {
                        word: part.word,
                        weight: weighted(part.weight, is_question_word),
                        stems: vec![part.stem],
                        known: true,
                        is_question_word,
                    });
                }
                continue;
            }
        }
        for (stem, weight) in spelled {
            let lower = word.to_lowercase().replace('’', "'");
            if asks_for_price && PRICE_FILLERS.contains(&lower.as_str()) {
                continue;
            }
            let is_done = ASKED_OR_DONE.contains(&lower.as_str()) && is_to_be_done(&befores[..=at]);
            let is_question_word = (only_asks(&lower, first) && !is_done)
                || (asks_for_price && PRICE_WORDS.contains(&lower.as_str()))
                || (asks_for_version && lower == "version")
                || (asks_for_bound && says_that_bound_is_asked(&lower));
            let verb = match nexts.get(at) {
                Some(Run::Word(next)) => verb_synonyms(word, next),
                Some(Run::Paired(_)) | None => &[],
            };
            let same_words = [&spellings(&lower), verb].concat();
            let mut same = known_synonyms(library, &same_words, unseen);
            let (stem, weight) = match others.iter().map(|(_, weight)| *weight).min_by(f32::total_cmp) {
                // A word of another language of the library.
                Some(other) => (stem, weight.min(other)),
                None if weight >= unseen && same.is_empty() => {
                    same = known_synonyms(library, &other_words(&lower), unseen);
                    if same.is_empty() {
                        let form = if is_cut { stem.clone() } else { word.to_owned() };
                        corrected(library, &form, stem, weight, unseen)
                    } else {
                        (stem, weight)
                    }
                }
                None => (stem, weight),
            };
            let weight = same.iter().map(|(_, weight)| *weight).fold(weight, f32::min);
            if is_new(&found, &stem) {
                let mut stems = vec![stem];
                stems.extend(others.drain(..).map(|(other, _)| other));
                stems.extend(same.into_iter().map(|(same, _)| same));
                found.push(Term {
                    word: word.to_owned(),
                    stems,
                    weight: weighted(weight, is_question_word),
                    known: weight < unseen,
                    is_question_word,
                });
            }
        }
    }
    found
}

/// Returns whether the words before a verb ask how to do it: `how do I`, `how to`.
fn is_to_be_done(before: &[Run<'_>]) -> bool {
    let is =
        |run: &Run<'_>, wanted: &str| matches!(run, Run::Word(word) if word.eq_ignore_ascii_case(wanted));
    match before {
        [.., how, to] if is(to, "to") => is(how, "how"),
        [.., subject] => is(subject, "i") || is(subject, "we"),
        [] => false,
    }
}

/// Lessens the weight of the words that a question with these terms takes from the question before.
pub(crate) fn lessen_carried(library: LibraryView<'_>, terms: &mut [Term], own: &str) {
    let own = question_terms(library, own);
    let is_own = |term: &Term| own.iter().any(|own| own.stems == term.stems);
    for term in terms.iter_mut().filter(|term| !is_own(term)) {
        term.weight *= CARRIED_SHARE;
    }
}

/// Puts the apostrophes back into contractions that were typed without them, so that `whats` and
/// `isnt` are stop words.
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

/// Separates qualified names whose member the library has: `Deque.addFirst` is `Deque` and `addFirst`, which is called so
/// where the class is described. Returns the words with the qualified name of each member.
fn unqualified<'a>(
    library: LibraryView<'_>,
    runs: Vec<Run<'a>>,
    unseen: f32,
) -> Vec<(Run<'a>, Option<&'a str>)> {
    let separate = |run: Run<'a>| {
        if let Run::Word(word) = run
            && let Some((of, member)) = qualified(word)
            && !known_synonyms(library, &[member], unseen).is_empty()
        {
            return vec![(Run::Word(of), None), (Run::Word(member), Some(word))];
        }
        vec![(run, None)]
    };
    runs.into_iter().flat_map(separate).collect()
}

/// Leaves of an identifier its whole if the library has it, otherwise its parts. Returns whether it left these.
fn whole_or_parts(spelled: &mut Vec<(String, f32)>, unseen: f32) -> bool {
    let is_known = |(_, weight): &(String, f32)| *weight < unseen;
    let has_known_part = spelled.len() > 1 && spelled.iter().any(is_known);
    if has_known_part && !spelled.first().is_some_and(is_known) {
        spelled.remove(0);
        true
    } else {
        spelled.truncate(1);
        false
    }
}

/// Leaves out the pairs of a run that the library does not have because they are not within a word: those that are a
/// guess, and those beside a known pair of the same word or one that only asks. After the known beginning of a Korean
/// word all of them are left out, because they are its particles.
fn without_bounds<'a>(pairs: &[(AskedPair<'a>, f32)], unseen: f32) -> Vec<(AskedPair<'a>, f32)> {
    let is_settled =
        |(asked, weight): &(AskedPair<'_>, f32)| *weight < unseen || KOREAN_PAIRS.contains(&asked.pair);
    let settled: Vec<bool> = pairs.iter().map(is_settled).collect();
    let is_kept = |at: usize| {
        let (asked, _) = &pairs[at];
        let is_settled = |other: usize| {
            let of_same_word = pairs
                .get(other)
                .is_some_and(|(other, _)| other.word == asked.word);
            of_same_word && settled[other]
        };
        let beside = is_settled(at + 1) || at.checked_sub(1).is_some_and(is_settled);
        settled[at] || !(asked.is_guess || beside || (is_hangul(asked.pair) && is_settled(0)))
    };
    (0..pairs.len())
        .filter(|at| is_kept(*at))
        .map(|at| pairs[at])
        .collect()
}

/// Returns the pairs that count, with their weights and the shares that they are of their words. A word that the
/// library does not have is one pair.
fn paired_words<'a>(pairs: &[(AskedPair<'a>, f32)], unseen: f32) -> Vec<(AskedPair<'a>, f32, f32)> {
    let kept = without_bounds(pairs, unseen);
    let words = kept.chunk_by(|(one, _), (other, _)| one.word == other.word);
    let counted = words.flat_map(|of_word| {
        let is_known = of_word.iter().any(|(_, weight)| *weight < unseen);
        let pairs = if is_known { of_word } else { &of_word[..1] };
        pairs
            .iter()
            .map(|(asked, weight)| (*asked, *weight, 1.0 / pairs.len() as f32))
    });
    counted.collect()
}

/// Returns whether a pair of characters only says that something is asked, or is grammar.
fn asks(pair: &str) -> bool {
    is_hiragana(pair) || KOREAN_PAIRS.contains(&pair)
}

/// Returns the terms of other words for one, as far as the library has them, with their weights.
fn known_synonyms(library: LibraryView<'_>, words: &[impl AsRef<str>], unseen: f32) -> Vec<(String, f32)> {
    let stems = words.iter().filter_map(|word| {
        let stems = library.terms_in(word.as_ref(), Language::English);
        stems.into_iter().next()
    });
    let stems: Vec<String> = stems.collect();
    let weights = library.weights(&stems);
    let mut known: Vec<(String, f32)> = Vec::new();
    for (stem, weight) in stems.into_iter().zip(weights) {
        if weight < unseen && known.len() < MAX_SYNONYMS && known.iter().all(|(one, _)| *one != stem) {
            known.push((stem, weight));
        }
    }
    known
}

/// Returns the term that a misspelled word probably means, with its weight.
fn corrected(library: LibraryView<'_>, word: &str, stem: String, weight: f32, unseen: f32) -> (String, f32) {
    // A name in capitals is not a typing mistake.
    let is_name = word.chars().next().is_some_and(char::is_uppercase);
    if weight < unseen {
        return (stem, weight);
    }
    // `d_k` is `dk` in the text of a PDF, and `e-mail` is `email`.
    let joined: String = stem.chars().filter(|letter| letter.is_alphanumeric()).collect();
    if joined != stem
        && joined.starts_with(char::is_alphabetic)
        && let Some(weight) = library.weights(std::slice::from_ref(&joined)).first()
        && *weight < unseen
    {
        return (joined, *weight);
    }
    if is_name {
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

/// Returns the share of the weight of all terms that `holds` accepts, from 0 to 1; 0 for an
/// empty list.
pub(crate) fn coverage(terms: &[Term], holds: impl Fn(&Term) -> bool) -> f32 {
    let all: f32 = terms.iter().map(|term| term.weight).sum();
    let held: f32 = terms
        .iter()
        .filter(|term| holds(term))
        .map(|term| term.weight)
        .sum();
    if all > 0.0 { held / all } else { 0.0 }
}

/// Returns whether `holds` accepts all terms that say what is asked about an option or setting.
pub(crate) fn says_all(terms: &[Term], holds: impl Fn(&Term) -> bool) -> bool {
    let says_nothing =
        |term: &Term| term.is_question_word || ABOUT_OPTIONS.contains(&term.word.to_lowercase().as_str());
    terms.iter().all(|term| says_nothing(term) || holds(term))
}
