//! Queries: words, `"phrases in quotes"` and `prefixes*`.

use std::collections::VecDeque;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use super::database::Database;
#[cfg(feature = "qdrant")]
use super::shared::SharedShelf;
use super::spelling::Certainty;
use super::{DocumentFilter, Held, Language, Library, LibraryError, LibraryView, Shelf, words_of_name};
use crate::documents::chunk::Piece;
use crate::search::analyzer::{AskedPair, Token};
use crate::search::lexical::{MAX_QUERY_BYTES, Match, QueryTerm, query_terms};
use crate::search::synonyms::other_words;
use crate::search::terms::MAX_SYNONYMS;
use crate::{Chunk, Hit};

/// The most terms that have the beginning of a prefix.
const MAX_PREFIX_TERMS: usize = 32;
/// The fewest letters before a `*`.
const MIN_PREFIX_LETTERS: usize = 3;
/// How much a corrected word and a word of a prefix count, relative to a word as it was typed.
const CORRECTED_FACTOR: f32 = 0.7;
const PREFIX_FACTOR: f32 = 0.7;
/// How many hits are searched for a phrase, at least.
const PHRASE_HITS: usize = 100;

/// The letters at the start of a stem that its words have too.
const STEM_LETTERS: usize = 4;

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
        let view = self.seen_by(filter.user.as_deref());
        let languages = view.query_languages(query);
        let spelled = view.well_spelled(query);
        let mut terms = query_terms(&self.analyzer, &spelled, &languages);
        view.split_compounds(&mut terms, languages.first().copied().unwrap_or_default());
        let found = match &self.shelf {
            Shelf::Local(database) => view.search_local(database, query, terms, searched, filter)?,
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => {
                let terms = view.shared_terms(shelf, query, terms)?;
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

    /// Returns the IDs and titles of the documents that `filter` selects whose title may have all these stems, in the
    /// order of adding.
    pub(crate) fn titled(&self, stems: &[&str], filter: &DocumentFilter) -> Vec<(String, String)> {
        let shared = self.read();
        let accepted = shared.documents.values().filter(|held| filter.accepts(held));
        let titled = accepted.filter_map(|held| {
            let title = held.document.title.as_ref()?;
            let lower = title.to_lowercase();
            let may_have_all = stems.iter().all(|stem| may_have(&lower, stem));
            may_have_all.then(|| (held.document.id.clone(), title.clone()))
        });
        titled.collect()
    }

    /// Does what [`titled`](Self::titled) does for titles with the names of the files.
    pub(crate) fn named(&self, stem: &str, filter: &DocumentFilter) -> Vec<(String, String)> {
        let shared = self.read();
        let accepted = shared.documents.values().filter(|held| filter.accepts(held));
        let named = accepted.filter_map(|held| {
            let title = held.document.title.as_deref().unwrap_or_default();
            let name = format!("{title} {}", words_of_name(&held.document.name));
            may_have(&name.to_lowercase(), stem).then(|| (held.document.id.clone(), name))
        });
        named.collect()
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

    /// Returns the stems of a word of a question if its accents were left out.
    pub(crate) fn accented_stems(&self, question: &str, word: &str, language: Language) -> Vec<String> {
        self.analyzer.accented_stems(question, word, language)
    }
}

impl LibraryView<'_> {
    /// Returns the terms of a text, in its language or that of most passages which the user finds.
    pub(crate) fn terms(&self, text: &str) -> Vec<String> {
        let language = self.analyzer.language(text);
        self.analyzer
            .terms_in(text, language.unwrap_or_else(|| self.main_language()))
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
            let finder = shared.finder(self.user());
            for term in &mut terms {
                let mut is_known = false;
                for spelling in &term.spellings {
                    is_known = is_known || shared.lexicon.has(connection, spelling, &finder)?;
                }
                if !is_known {
                    let mut others = self.synonym_terms(&term.form);
                    let mut known = Vec::new();
                    while let Some(other) = others.pop_front()
                        && known.len() < MAX_SYNONYMS
                    {
                        if shared.lexicon.has(connection, &other, &finder)? {
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
            let found = shared
                .lexicon
                .search(connection, &terms, limit, &finder, accepted)?;
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
        self.rarities(shelf, &spellings)?;
        for term in &mut terms {
            let is_known = self.rarities(shelf, &term.spellings)?.iter().any(Option::is_some);
            if !is_known {
                let others: Vec<String> = self.synonym_terms(&term.form).into();
                let rarities = self.rarities(shelf, &others)?;
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

/// Returns whether a text in lower case may have a word with this stem, which is faster than its stems: `polici` is that of
/// `policy`.
fn may_have(lower: &str, stem: &str) -> bool {
    match stem.char_indices().nth(STEM_LETTERS) {
        Some((end, _)) => lower.contains(&stem[..end]),
        None => lower
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| word.starts_with(stem)),
    }
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
