//! Typing mistakes in questions: words that the library knows in another spelling, and misspelled stop words.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};

use unicode_segmentation::UnicodeSegmentation;

#[cfg(feature = "qdrant")]
use super::shared::SharedShelf;
use super::{Language, LibraryError, LibraryView, Shared, Shelf};
use crate::search::terms::with_apostrophes;

/// Words shorter than this are not corrected: too many words are one letter apart.
const MIN_CORRECTED_LETTERS: usize = 5;
/// Words of this length may have two mistakes.
const TWO_MISTAKES_LETTERS: usize = 10;
/// Where it is decided whether the library knows a word, shorter words are corrected only if a letter
/// is missing, doubled or swapped with its neighbour: `nation` is not a misspelled `notion`.
const MIN_CERTAIN_LETTERS: usize = 7;
/// Misspelled stop words have so many letters, and a letter is missing or doubled only in longer ones.
const MIN_STOP_WORD_LETTERS: usize = 3;
const MAX_STOP_WORD_LETTERS: usize = 12;
const LONG_STOP_WORD_LETTERS: usize = 4;
/// What joins the words of an identifier, which may be misspelled as any word.
const JOINS_IDENTIFIER: char = '_';
/// Identifiers of a question that are corrected. Each costs a search for similar ones.
const MAX_IDENTIFIERS: usize = 4;
/// The letters at the start of a word that are taken as right.
const RIGHT_LETTERS: usize = 1;
/// Terms of one segment that are compared with a misspelled word.
const MAX_COMPARED_TERMS: usize = 20_000;

impl LibraryView<'_> {
    /// Returns a question with the apostrophes, stop words and identifiers that are meant: `what is the` for `whats
    /// teh`. A word that the library has is left as it is, and so is the question if nothing but stop
    /// words would be left.
    pub(crate) fn well_spelled<'a>(&self, question: &'a str) -> Cow<'a, str> {
        let question = with_apostrophes(question);
        let language = self.language_of_question(&question);
        let mut spelled = String::new();
        let (mut end, mut identifiers) = (0, 0);
        for (at, word) in question.unicode_word_indices() {
            identifiers += usize::from(word.contains(JOINS_IDENTIFIER));
            let meant = match self.stop_word_meant(word, language) {
                Some(meant) => Some(Cow::from(meant)),
                None if identifiers > MAX_IDENTIFIERS => None,
                None => self.identifier_meant(word).map(Cow::from),
            };
            if let Some(meant) = meant {
                spelled.extend([&question[end..at], &*meant]);
                end = at + word.len();
            }
        }
        if end == 0 {
            return question;
        }
        spelled.push_str(&question[end..]);
        if self.terms_in(&spelled, language).is_empty() {
            return question;
        }
        spelled.into()
    }

    /// Returns the stop word that a word probably means: two neighbouring letters are swapped, or in a
    /// longer word one is missing or doubled. A word with another letter is another word.
    fn stop_word_meant(&self, word: &str, language: Language) -> Option<&'static str> {
        let letters = word.chars().count();
        let is_word = word.chars().all(char::is_lowercase);
        if !is_word || !(MIN_STOP_WORD_LETTERS..=MAX_STOP_WORD_LETTERS).contains(&letters) {
            return None;
        }
        let [term] = &self.terms_in(word, language)[..] else {
            return None;
        };
        let is_meant = |meant: &&str| {
            let length = meant.chars().count();
            let is_long = letters.min(length) >= LONG_STOP_WORD_LETTERS;
            (length == letters || is_long)
                && length.abs_diff(letters) <= 1
                && keeps_all_letters(meant, word)
                && strsim::osa_distance(meant, word) == 1
        };
        // The same one whatever their order.
        let meant = self.analyzer.stop_words(language).filter(is_meant).min()?;
        let is_known = self.weights(std::slice::from_ref(term)).first() < Some(&self.unseen_weight());
        (!is_known).then_some(meant)
    }

    /// Returns the identifier that a word with underscores probably means: `deadlock_timeout` for `deadlok_timeout`.
    fn identifier_meant(&self, word: &str) -> Option<String> {
        if !word.contains(JOINS_IDENTIFIER) {
            return None;
        }
        let whole = word.to_lowercase();
        let is_known = self.weights(std::slice::from_ref(&whole)).first() < Some(&self.unseen_weight());
        if is_known {
            return None;
        }
        let meant = self.correction(&whole).ok()??;
        // Another letter makes another identifier: `map_get` is not `map_set`.
        (meant.contains(JOINS_IDENTIFIER) && keeps_all_letters(&meant, &whole)).then_some(meant)
    }

    /// Returns the term that a word means, of those that the user finds: see [`Library::correction`](super::Library::correction).
    pub(crate) fn correction(&self, word: &str) -> Result<Option<String>, LibraryError> {
        let form = word.to_lowercase();
        let stems = self.terms_in(&form, self.language_of(&form));
        let term = stems.first().unwrap_or(&form);
        match &self.shelf {
            Shelf::Local(database) => database
                .read(|connection| self.correct(connection, &self.read(), (&form, term), Certainty::Sure)),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => self.correct_shared(shelf, (&form, term), Certainty::Sure),
        }
    }

    pub(super) fn correct(
        &self,
        connection: &rusqlite::Connection,
        shared: &Shared,
        word: (&str, &str),
        certainty: Certainty,
    ) -> Result<Option<String>, LibraryError> {
        let terms = |start: &str| {
            shared
                .lexicon
                .terms_with_prefix(connection, start, MAX_COMPARED_TERMS)
        };
        let finder = shared.finder(self.user());
        let with = |terms: &[String]| shared.lexicon.texts_with(connection, terms, &finder);
        corrected(word, certainty, terms, with)
    }

    #[cfg(feature = "qdrant")]
    pub(super) fn correct_shared(
        &self,
        shelf: &SharedShelf,
        word: (&str, &str),
        certainty: Certainty,
    ) -> Result<Option<String>, LibraryError> {
        let terms = |start: &str| {
            let mut terms = shelf.similar(word.0)?;
            terms.retain(|(term, _)| term.starts_with(start));
            Ok(terms)
        };
        let passages = self.passages_found();
        let with = |terms: &[String]| {
            let rarities = self.rarities(shelf, terms)?.into_iter();
            let texts = rarities.map(|rarity| rarity.map_or(0, |rarity| texts_of(passages, rarity)));
            Ok(texts.collect())
        };
        corrected(word, certainty, terms, with)
    }
}

/// Returns the term that a word means. `terms` finds those with its first letter, `texts_with` how many texts have each.
/// A stem is compared with a stem, and a short one keeps its letters: `paris` is not a mistake for the stem `pars` of
/// `parsing`.
fn corrected(
    (form, stem): (&str, &str),
    certainty: Certainty,
    terms: impl FnOnce(&str) -> Result<Vec<(String, Vec<String>)>, LibraryError>,
    texts_with: impl FnOnce(&[String]) -> Result<Vec<usize>, LibraryError>,
) -> Result<Option<String>, LibraryError> {
    let Some(most) = most_mistakes(form) else {
        return Ok(None);
    };
    let start: String = form.chars().take(RIGHT_LETTERS).collect();
    let near = near((form, stem), terms(&start)?, most, certainty);
    let terms: Vec<String> = near.keys().cloned().collect();
    let with = texts_with(&terms)?;
    Ok(nearest(&near, terms.into_iter().zip(with)))
}

/// Returns how many mistakes of a word are corrected, or `None` for one that is left as it is.
fn most_mistakes(form: &str) -> Option<usize> {
    let letters = form.chars().count();
    let is_letter = |letter: char| letter.is_alphabetic() || letter == JOINS_IDENTIFIER;
    if letters < MIN_CORRECTED_LETTERS || !form.chars().all(is_letter) {
        None
    } else if letters < TWO_MISTAKES_LETTERS {
        Some(1)
    } else {
        Some(2)
    }
}

/// What a correction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// It is searched for, and what is found is judged.
    Guess,
    /// It decides whether the library knows a word.
    Sure,
}

/// Returns the terms with at most so many mistakes, and how many.
fn near(
    (form, stem): (&str, &str),
    terms: Vec<(String, Vec<String>)>,
    most: usize,
    certainty: Certainty,
) -> HashMap<String, usize> {
    let is_short = form.chars().count() < MIN_CERTAIN_LETTERS;
    let is_sure = certainty == Certainty::Sure;
    let mut near: HashMap<String, usize> = HashMap::new();
    for (term, forms) in terms {
        let spelled = forms.iter().map(|known| (known, form, is_sure && is_short));
        let spelled = spelled.chain([(&term, stem, is_short)]);
        let spelled = spelled
            .filter(|(known, asked, _)| known.len().abs_diff(asked.len()) <= most)
            .filter(|(known, asked, keeps)| !keeps || keeps_all_letters(known, asked));
        let distances = spelled.filter_map(|(known, asked, _)| {
            let distance = strsim::osa_distance(known, asked);
            // `collection` is not a misspelled `connection`.
            let is_other = is_sure && distance > 1 && !has_same_letters(known, asked);
            (!is_other).then_some(distance)
        });
        if let Some(distance) = distances.min().filter(|distance| (1..=most).contains(distance)) {
            let least = near.entry(term).or_insert(distance);
            *least = distance.min(*least);
        }
    }
    near
}

/// Returns the term with the fewest mistakes, of several the most frequent.
fn nearest(near: &HashMap<String, usize>, with: impl Iterator<Item = (String, usize)>) -> Option<String> {
    let best = with.filter(|(_, texts)| *texts > 0).max_by_key(|(term, texts)| {
        let distance = near.get(term).copied().unwrap_or(usize::MAX);
        (Reverse(distance), *texts, Reverse(term.clone()))
    });
    best.map(|(term, _)| term)
}

/// Returns how many texts contain a term of this rarity.
#[cfg(feature = "qdrant")]
fn texts_of(texts: usize, rarity: f32) -> usize {
    let with = (texts as f32 + 1.0) / rarity.exp() - 0.5;
    with.round().max(1.0) as usize
}

/// Returns whether the mistake of a word is a letter that is missing, doubled or in another place. A
/// letter that is neither makes another word: `world` is not `word`.
fn keeps_all_letters(known: &str, form: &str) -> bool {
    let letters = |word: &str| word.chars().collect::<Vec<_>>();
    let (mut known, mut form) = (letters(known), letters(form));
    match form.len().cmp(&known.len()) {
        Ordering::Less => true,
        Ordering::Equal => {
            known.sort_unstable();
            form.sort_unstable();
            known == form
        }
        Ordering::Greater => {
            known.dedup();
            form.dedup();
            known == form
        }
    }
}

/// Returns whether two words have the same letters, however often.
fn has_same_letters(known: &str, form: &str) -> bool {
    let letters = |word: &str| word.chars().collect::<HashSet<char>>();
    letters(known) == letters(form)
}
