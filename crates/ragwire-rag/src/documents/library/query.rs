//! Queries: words, `"phrases in quotes"`, `prefixes*`, and corrections of typing mistakes.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use super::database::Database;
#[cfg(feature = "qdrant")]
use super::shared::SharedShelf;
use super::{DocumentFilter, Held, Language, Library, LibraryError, Shelf};
use crate::documents::chunk::Piece;
use crate::search::analyzer::{AskedPair, Token};
use crate::search::asking::only_asks;
use crate::search::lexical::{MAX_QUERY_BYTES, Match, QueryTerm, query_terms, rarity};
use crate::search::synonyms::other_words;
use crate::search::terms::{MAX_SYNONYMS, with_apostrophes};
use crate::{Chunk, Hit};

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
/// The letters at the start of a word that are taken as right.
const RIGHT_LETTERS: usize = 1;
/// Terms of one segment that are compared with a misspelled word, or that a prefix stands for.
const MAX_COMPARED_TERMS: usize = 20_000;
const MAX_PREFIX_TERMS: usize = 32;
/// The fewest letters before a `*`.
const MIN_PREFIX_LETTERS: usize = 3;
/// How much a corrected word and a word of a prefix count, relative to a word as it was typed.
const CORRECTED_FACTOR: f32 = 0.7;
const PREFIX_FACTOR: f32 = 0.7;
/// How many hits are searched for a phrase, at least.
const PHRASE_HITS: usize = 100;
/// The most languages whose stems a query is searched with, besides its own.
const MAX_LANGUAGES: usize = 4;

impl Library {
    /// Returns the best passages for a query, best first; equal scores are in the order of adding.
    /// Empty if no document contains a word of the query.
    ///
    /// A word that occurs nowhere is searched as the most similar word of the library.
    /// `"Words in quotes"` put passages with exactly these words first, and `optim*` finds all words
    /// with this beginning.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_damaged`.
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, LibraryError> {
        self.search_in(query, limit, &DocumentFilter::default())
    }

    /// Searches like [`search`](Self::search), in the documents that `filter` selects.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_damaged`.
    pub fn search_in(
        &self,
        query: &str,
        limit: usize,
        filter: &DocumentFilter,
    ) -> Result<Vec<Hit>, LibraryError> {
        let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES)];
        let phrases = phrases(query);
        let searched = if phrases.is_empty() {
            limit
        } else {
            limit.max(PHRASE_HITS)
        };
        // Before the lock is taken: a thread that takes it twice waits forever for a writer that waits
        // in between.
        let languages = self.query_languages(query);
        let spelled = self.well_spelled(query);
        let mut terms = query_terms(&self.analyzer, &spelled, &languages);
        self.split_compounds(&mut terms, languages.first().copied().unwrap_or_default());
        let found = match &self.shelf {
            Shelf::Local(database) => self.search_local(database, query, terms, searched, filter)?,
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => {
                let terms = self.shared_terms(shelf, query, terms)?;
                self.search_shared(shelf, &terms, searched, filter)?
            }
        };
        let numbers: Vec<u64> = found.iter().map(|(found, _)| found.key).collect();
        let pieces = self.pieces(&numbers)?;
        // A missing piece belongs to a document that was removed in the meantime.
        let hit = |((found, held), piece): ((Match, Arc<Held>), Option<Piece>)| {
            let ordinal = u32::try_from(found.key - held.first).ok()?;
            Some(Hit::new(held.passage(ordinal, piece?), found.score))
        };
        let mut hits: Vec<Hit> = found.into_iter().zip(pieces).filter_map(hit).collect();
        if !phrases.is_empty() {
            // Stable: within both groups the order stays.
            hits.sort_by_key(|hit| !phrases.iter().all(|phrase| has_phrase(&hit.chunk, phrase)));
        }
        hits.truncate(limit);
        Ok(hits)
    }

    fn search_local(
        &self,
        database: &Database,
        query: &str,
        mut terms: Vec<QueryTerm>,
        limit: usize,
        filter: &DocumentFilter,
    ) -> Result<Vec<(Match, Arc<Held>)>, LibraryError> {
        database.read(|connection| {
            let shared = self.read();
            for prefix in prefixes(query) {
                let found = shared
                    .lexicon
                    .terms_with_prefix(connection, &prefix, MAX_PREFIX_TERMS)?;
                let spellings = found.into_iter().map(|(term, _)| term).collect();
                terms.push(prefix_term(prefix, spellings));
            }
            for term in &mut terms {
                let mut is_known = false;
                for spelling in &term.spellings {
                    is_known = is_known || shared.lexicon.has(connection, spelling)?;
                }
                if !is_known {
                    let mut others = self.synonym_terms(&term.form);
                    let mut known = Vec::new();
                    while let Some(other) = others.pop_front()
                        && known.len() < MAX_SYNONYMS
                    {
                        if shared.lexicon.has(connection, &other)? {
                            known.push(other);
                        }
                    }
                    if !known.is_empty() {
                        (term.spellings, term.factor) = (known, CORRECTED_FACTOR);
                        continue;
                    }
                }
                let stem = term.spellings.first().unwrap_or(&term.form);
                if !is_known
                    && let Some(spelling) =
                        self.correct(connection, &shared, (&term.form, stem), Certainty::Guess)?
                {
                    (term.spellings, term.factor) = (vec![spelling], CORRECTED_FACTOR);
                }
            }
            let all = shared.selects_all(filter);
            let accepted = |number| {
                all || shared
                    .document_of(number)
                    .is_some_and(|held| filter.accepts(held))
            };
            let found = shared.lexicon.search(connection, &terms, limit, accepted)?;
            let document = |found: &Match| shared.document_of(found.key).map(Arc::clone);
            Ok(found
                .iter()
                .filter_map(|found| Some((*found, document(found)?)))
                .collect::<Vec<_>>())
        })
    }

    /// Adds the terms of prefixes, and corrects what the library does not know.
    #[cfg(feature = "qdrant")]
    fn shared_terms(
        &self,
        shelf: &SharedShelf,
        query: &str,
        mut terms: Vec<QueryTerm>,
    ) -> Result<Vec<QueryTerm>, LibraryError> {
        for prefix in prefixes(query) {
            let found = shelf.terms_with_prefix(&prefix)?;
            terms.push(prefix_term(prefix, found));
        }
        let spellings: Vec<String> = terms.iter().flat_map(|term| term.spellings.clone()).collect();
        // All at once: the loop below finds them in memory.
        shelf.rarities_of(&spellings)?;
        for term in &mut terms {
            let is_known = shelf.rarities_of(&term.spellings)?.iter().any(Option::is_some);
            if !is_known {
                let others: Vec<String> = self.synonym_terms(&term.form).into();
                let rarities = shelf.rarities_of(&others)?;
                let known = others
                    .into_iter()
                    .zip(rarities)
                    .filter(|(_, rarity)| rarity.is_some());
                let known: Vec<String> = known.map(|(other, _)| other).take(MAX_SYNONYMS).collect();
                if !known.is_empty() {
                    (term.spellings, term.factor) = (known, CORRECTED_FACTOR);
                    continue;
                }
            }
            let stem = term.spellings.first().unwrap_or(&term.form);
            if !is_known
                && let Some(spelling) = self.correct_shared(shelf, (&term.form, stem), Certainty::Guess)?
            {
                (term.spellings, term.factor) = (vec![spelling], CORRECTED_FACTOR);
            }
        }
        Ok(terms)
    }

    /// Returns the terms of other words for one that the library does not have, each once.
    fn synonym_terms(&self, form: &str) -> VecDeque<String> {
        let mut terms = VecDeque::new();
        for other in other_words(form) {
            let stems = self.analyzer.terms_in(&other, Language::English);
            if let Some(stem) = stems.into_iter().next()
                && !terms.contains(&stem)
            {
                terms.push_back(stem);
            }
        }
        terms
    }

    /// Returns the IDs of the documents that `filter` selects, in the order of adding.
    pub fn matching(&self, filter: &DocumentFilter) -> Vec<String> {
        let shared = self.read();
        let accepted = shared.documents.values().filter(|held| filter.accepts(held));
        accepted.map(|held| held.document.id.clone()).collect()
    }

    /// Returns the terms of a text as the index spells them: in the text's language, or if that is
    /// not certain in the language of most passages.
    pub fn terms(&self, text: &str) -> Vec<String> {
        let language = self.analyzer.language(text);
        self.analyzer
            .terms_in(text, language.unwrap_or_else(|| self.main_language()))
    }

    /// Returns the terms of a text in a language, as the index spells them.
    pub(crate) fn terms_in(&self, text: &str, language: Language) -> Vec<String> {
        self.analyzer.terms_in(text, language)
    }

    /// Returns the terms of a text in a language, in order.
    pub(crate) fn tokens_in(&self, text: &str, language: Language) -> Vec<Token> {
        self.analyzer.tokens(text, language)
    }

    /// Returns the pairs of a run of characters that a question asks with, in order.
    pub(crate) fn asked_pairs<'a>(&self, run: &'a str) -> Vec<AskedPair<'a>> {
        self.analyzer.asked_pairs(run)
    }

    /// Returns the language of a text, or that of most passages if it is not certain.
    pub(crate) fn language_of(&self, text: &str) -> Language {
        let language = self.analyzer.language(text);
        language.unwrap_or_else(|| self.main_language())
    }

    /// Returns the language of a question. One stop word is enough if the library has that language, or
    /// a first word with which only English questions begin, because questions are short. A question without
    /// such a word has the language in which most of its words are in the library.
    pub(crate) fn language_of_question(&self, question: &str) -> Language {
        self.said_language(question)
            .unwrap_or_else(|| self.known_language(question))
    }

    /// Returns the language of a question as a word of it says, if one does.
    pub(crate) fn said_language(&self, question: &str) -> Option<Language> {
        // `what's` is the stop word `what`.
        let question = &*question.replace(['\'', '’'], " ");
        let begins = question.unicode_words().next().unwrap_or_default().to_lowercase();
        let known = || -> Vec<Language> { self.read().languages.keys().copied().collect() };
        self.analyzer
            .language_of_question(question, known)
            .or_else(|| only_asks(&begins, Language::English).then_some(Language::English))
    }

    /// Returns the language in which most words of a text are in the library, of several the one of most
    /// passages.
    fn known_language(&self, text: &str) -> Language {
        let languages = self.languages_by_passages();
        let terms: Vec<Vec<String>> = match &languages[..] {
            [] | [_] => return self.main_language(),
            several => several
                .iter()
                .map(|language| self.terms_in(text, *language))
                .collect(),
        };
        let unseen = self.unseen_weight();
        let mut weights = self.weights(&terms.concat()).into_iter();
        let known = terms.iter().map(|terms| {
            let weights = weights.by_ref().take(terms.len());
            weights.filter(|weight| *weight < unseen).count()
        });
        let known: Vec<usize> = known.collect();
        // The last of equal ones is the greatest.
        let most = languages
            .into_iter()
            .zip(known)
            .rev()
            .max_by_key(|(_, known)| *known);
        most.map(|(language, _)| language).unwrap_or_default()
    }

    /// Returns how significant each term is in this library: the inverse document frequency of BM25,
    /// highest for a term that no text contains, and for all terms if the file cannot be read.
    pub fn weights(&self, terms: &[String]) -> Vec<f32> {
        let weights = match &self.shelf {
            Shelf::Local(database) => database.read(|connection| {
                let shared = self.read();
                let with = shared.lexicon.texts_with(connection, terms)?;
                let weight = |with| rarity(shared.lexicon.passages, with);
                Ok(with.into_iter().map(weight).collect())
            }),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => shelf.rarities_of(terms).map(|found| {
                let unseen = self.unseen_weight();
                found.into_iter().map(|rarity| rarity.unwrap_or(unseen)).collect()
            }),
        };
        weights.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read how rare words are");
            vec![self.unseen_weight(); terms.len()]
        })
    }

    /// Returns the weight of a term that no document contains.
    pub fn unseen_weight(&self) -> f32 {
        rarity(self.read().lexicon.passages, 0)
    }

    /// Returns a question with the apostrophes and stop words that are meant: `what is the` for `whats
    /// teh`. A word that the library has is left as it is, and so is the question if nothing but stop
    /// words would be left.
    pub(crate) fn well_spelled<'a>(&self, question: &'a str) -> Cow<'a, str> {
        let question = with_apostrophes(question);
        let language = self.language_of_question(&question);
        let mut spelled = String::new();
        let mut end = 0;
        for (at, word) in question.unicode_word_indices() {
            if let Some(meant) = self.stop_word_meant(word, language) {
                spelled.extend([&question[end..at], meant]);
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

    /// Returns the term of the library that a word means that it does not contain: that of
    /// `optimizer` for `optmizer`. The word has one mistake, or two and at least ten letters, which are
    /// those of the other word. Returns `None` for other words, if the word has fewer than five letters,
    /// or if it has fewer than seven and another letter is in place of one.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_damaged`.
    pub fn correction(&self, word: &str) -> Result<Option<String>, LibraryError> {
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

    /// A stem is compared with a stem, and a short one keeps its letters: `paris` is not a mistake for
    /// the stem `pars` of `parsing`.
    fn correct(
        &self,
        connection: &rusqlite::Connection,
        shared: &super::Shared,
        (form, stem): (&str, &str),
        certainty: Certainty,
    ) -> Result<Option<String>, LibraryError> {
        let Some(most) = most_mistakes(form) else {
            return Ok(None);
        };
        let start: String = form.chars().take(RIGHT_LETTERS).collect();
        let terms = shared
            .lexicon
            .terms_with_prefix(connection, &start, MAX_COMPARED_TERMS)?;
        let near = near((form, stem), terms, most, certainty);
        let terms: Vec<String> = near.keys().cloned().collect();
        let with = shared.lexicon.texts_with(connection, &terms)?;
        Ok(nearest(&near, terms.into_iter().zip(with)))
    }

    #[cfg(feature = "qdrant")]
    fn correct_shared(
        &self,
        shelf: &SharedShelf,
        (form, stem): (&str, &str),
        certainty: Certainty,
    ) -> Result<Option<String>, LibraryError> {
        let Some(most) = most_mistakes(form) else {
            return Ok(None);
        };
        let start: String = form.chars().take(RIGHT_LETTERS).collect();
        let mut terms = shelf.similar(form)?;
        terms.retain(|(term, _)| term.starts_with(&start));
        let near = near((form, stem), terms, most, certainty);
        let terms: Vec<String> = near.keys().cloned().collect();
        let rarities = shelf.rarities_of(&terms)?;
        let passages = self.chunk_count();
        let with = rarities
            .into_iter()
            .map(|rarity| rarity.map_or(0, |rarity| texts_of(passages, rarity)));
        Ok(nearest(&near, terms.into_iter().zip(with)))
    }

    /// Returns the languages to search a query in, its own first.
    pub(crate) fn query_languages(&self, query: &str) -> Vec<Language> {
        let mut languages = vec![self.language_of_question(query)];
        for language in self.languages_by_passages().into_iter().take(MAX_LANGUAGES) {
            if !languages.contains(&language) {
                languages.push(language);
            }
        }
        languages
    }

    /// Returns whether a passage is in a language.
    pub(crate) fn has_language(&self, language: Language) -> bool {
        self.read()
            .languages
            .get(&language)
            .is_some_and(|passages| *passages > 0)
    }

    fn main_language(&self) -> Language {
        self.languages_by_passages().first().copied().unwrap_or_default()
    }

    /// Returns the languages of the library, that of most passages first.
    fn languages_by_passages(&self) -> Vec<Language> {
        let mut known: Vec<_> = self.read().languages.clone().into_iter().collect();
        known.retain(|(_, passages)| *passages > 0);
        known.sort_by_key(|(language, passages)| (Reverse(*passages), language.bit()));
        known.into_iter().map(|(language, _)| language).collect()
    }
}

/// Returns the term of a prefix with what it stands for.
fn prefix_term(prefix: String, mut spellings: Vec<String>) -> QueryTerm {
    spellings.sort_unstable();
    spellings.dedup();
    spellings.truncate(MAX_PREFIX_TERMS);
    QueryTerm {
        form: prefix,
        spellings,
        factor: PREFIX_FACTOR,
    }
}

/// Returns how many mistakes of a word are corrected, or `None` for one that is left as it is.
fn most_mistakes(form: &str) -> Option<usize> {
    let letters = form.chars().count();
    if letters < MIN_CORRECTED_LETTERS || !form.chars().all(char::is_alphabetic) {
        None
    } else if letters < TWO_MISTAKES_LETTERS {
        Some(1)
    } else {
        Some(2)
    }
}

/// What a correction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
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

/// Returns whether a passage contains exactly these words, in any case.
fn has_phrase(chunk: &Chunk, phrase: &str) -> bool {
    let words = |text: &str| text.unicode_words().map(str::to_lowercase).collect::<Vec<_>>();
    let (phrase, text) = (words(phrase), words(&chunk.indexed_text()));
    !phrase.is_empty() && text.windows(phrase.len()).any(|window| window == phrase)
}

/// Returns the texts between quotation marks that have more than one word.
pub(crate) fn phrases(query: &str) -> Vec<&str> {
    let quoted = query.split(['"', '\u{201c}', '\u{201d}', '\u{201e}']);
    // Without a closing mark the last part is not quoted.
    let parts: Vec<&str> = quoted.collect();
    let closed = parts.len().saturating_sub(1);
    let inner = parts.into_iter().take(closed).skip(1).step_by(2);
    inner.filter(|part| part.split_whitespace().count() > 1).collect()
}

/// Returns the beginnings of words that end in `*`, in lower case.
fn prefixes(query: &str) -> Vec<String> {
    let words = query.split_whitespace();
    let prefix = |word: &str| {
        let prefix = word.strip_suffix('*')?.to_lowercase();
        let is_word = prefix.chars().all(char::is_alphanumeric);
        (is_word && prefix.chars().count() >= MIN_PREFIX_LETTERS).then_some(prefix)
    };
    words.filter_map(prefix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_and_prefixes_are_read() {
        assert_eq!(
            phrases("is \"commit rule\" a “long phrase” or \"one\""),
            ["commit rule", "long phrase"]
        );
        assert_eq!(phrases("an \"open end"), Vec::<&str>::new());
        assert_eq!(prefixes("optim* of a* and what? x*y"), ["optim"]);
    }
}
