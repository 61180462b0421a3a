//! BM25 over numbered texts with the `bm25` crate: English stemming and stop words, with accents
//! folded.
//!
//! The average length is a constant instead of fitted, so that an index rebuilt after a restart
//! gives the same scores as one that grew. The index does not store the texts, and knows neither
//! documents nor chunks; [`Library`](crate::Library) does.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use bm25::{
    DefaultTokenizer, Embedder, EmbedderBuilder, Embedding, Language, Scorer, TokenEmbedder, Tokenizer,
};

/// Terms of a typical chunk without stop words; the chunks of "Attention Is All You Need" have 77.
pub(crate) const AVERAGE_TERMS: f32 = 80.0;
/// How many different terms of a query are looked up; the first ones are used. The cost of a query
/// is its terms times the matching texts.
pub(crate) const MAX_QUERY_TERMS: usize = 32;

/// A term as a number. The crate's own hashes are equal for `number104` and `number189`, and for
/// `number312` and `number399`. With 32 well-mixed bits, one pair among 90,000 terms collides; 64
/// bits would cost 1 KiB per chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Term(u32);

impl TokenEmbedder for Term {
    type EmbeddingSpace = Self;

    fn embed(token: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        token.hash(&mut hasher);
        Self(hasher.finish() as u32)
    }
}

/// How much of a query is read, in bytes.
pub(crate) const MAX_QUERY_BYTES: usize = 4_096;

/// Splits text into terms. Expensive to create, cheap to use from many threads.
#[derive(Debug)]
pub(crate) struct Analyzer {
    embedder: Embedder<Term, DefaultTokenizer>,
    tokenizer: DefaultTokenizer,
}

impl Default for Analyzer {
    fn default() -> Self {
        let embedder = EmbedderBuilder::<Term>::with_avgdl(AVERAGE_TERMS)
            .language_mode(Language::English)
            .build();
        Self {
            embedder,
            tokenizer: DefaultTokenizer::new(Language::English),
        }
    }
}

impl Analyzer {
    /// Returns the terms of a text in order, stemmed and without stop words: `The Heads are
    /// running` gives `head`, `run`.
    pub(crate) fn terms(&self, text: &str) -> Vec<String> {
        self.tokenizer.tokenize(text)
    }

    /// Prepares a text for an [`Index`]. This is the slow part of indexing and does not need the
    /// index.
    pub(crate) fn prepare(&self, text: &str) -> TermVector {
        let mut embedding = self.embedder.embed(text);
        // A term that occurs twice appears twice in the embedding, with the same value; scoring
        // uses the first.
        let mut seen = HashSet::new();
        embedding.0.retain(|term| seen.insert(term.index));
        embedding.0.shrink_to_fit();
        TermVector(embedding)
    }

    fn prepare_query(&self, query: &str) -> Embedding<Term> {
        let TermVector(mut embedding) = self.prepare(&query[..query.floor_char_boundary(MAX_QUERY_BYTES)]);
        embedding.0.truncate(MAX_QUERY_TERMS);
        embedding
    }
}

/// Returns the part of a chunk that is searched by words. The headings count as text: a question
/// often names the section and not the words in it.
pub(crate) fn indexed_text<'a>(heading: Option<&str>, text: &'a str) -> Cow<'a, str> {
    match heading {
        Some(heading) => format!("{heading}\n{text}").into(),
        None => text.into(),
    }
}

/// The weighted terms of a text, as an [`Index`] takes them.
#[derive(Clone, Debug)]
pub(crate) struct TermVector(Embedding<Term>);

/// A text that matches a query.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) struct Match {
    /// The key under which it was added.
    pub key: u64,
    /// Its BM25 score, more than 0. Comparable only within one query.
    pub score: f32,
}

/// An index of texts by their terms.
#[derive(Default)]
pub(crate) struct Index {
    scorer: Scorer<u64, Term>,
    /// How many texts contain a term. The scorer knows this but does not expose it.
    texts_with: HashMap<Term, u32>,
    texts: HashMap<u64, Box<[Term]>>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Index");
        debug
            .field("texts", &self.texts.len())
            .field("terms", &self.texts_with.len())
            .finish_non_exhaustive()
    }
}

impl Index {
    /// Adds a text. A text with the same key is replaced.
    pub(crate) fn insert(&mut self, key: u64, text: TermVector) {
        self.remove(key);
        let terms: Box<[Term]> = text.0.indices().copied().collect();
        for term in &terms {
            *self.texts_with.entry(*term).or_default() += 1;
        }
        self.texts.insert(key, terms);
        self.scorer.upsert(&key, text.0);
    }

    /// Removes a text, if it is in the index.
    pub(crate) fn remove(&mut self, key: u64) {
        let Some(terms) = self.texts.remove(&key) else {
            return;
        };
        for term in &terms {
            if let Some(count) = self.texts_with.get_mut(term) {
                *count -= 1;
                if *count == 0 {
                    self.texts_with.remove(term);
                }
            }
        }
        self.scorer.remove(&key);
    }

    /// Returns how many texts it contains.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns the best texts for a query, best first, equal scores ordered by key. Only texts that
    /// `wanted` accepts are considered.
    pub(crate) fn search(
        &self,
        analyzer: &Analyzer,
        query: &str,
        limit: usize,
        wanted: impl Fn(u64) -> bool,
    ) -> Vec<Match> {
        let matches = self.scorer.matches(&analyzer.prepare_query(query));
        let mut matches: Vec<Match> = matches
            .into_iter()
            .filter(|found| wanted(found.id))
            .map(|found| Match {
                key: found.id,
                score: found.score,
            })
            .collect();
        matches.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.key.cmp(&b.key)));
        matches.truncate(limit);
        matches
    }

    /// Returns the weight of a term that no text contains: the highest possible weight.
    pub(crate) fn unseen_weight(&self) -> f32 {
        (1.0 + (self.texts.len() as f32 + 0.5) / 0.5).ln()
    }

    /// Returns how significant a term (as returned by [`Analyzer::terms`]) is: the inverse document
    /// frequency of BM25, highest for a term that no text contains.
    pub(crate) fn weight(&self, term: &str) -> f32 {
        let index = Term::embed(term);
        let (texts, with) = (
            self.texts.len() as f32,
            self.texts_with.get(&index).copied().unwrap_or(0) as f32,
        );
        (1.0 + (texts - with + 0.5) / (with + 0.5)).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> (Analyzer, Index) {
        let (analyzer, mut index) = (Analyzer::default(), Index::default());
        for (key, text) in texts.iter().enumerate() {
            index.insert(key as u64, analyzer.prepare(text));
        }
        (analyzer, index)
    }

    fn keys(found: &[Match]) -> Vec<u64> {
        found.iter().map(|found| found.key).collect()
    }

    #[test]
    fn stems_accents_and_stop_words_do_not_matter() {
        let (analyzer, index) = index(&[
            "The café sells running shoes.",
            "Heads attend to words.",
            "Nothing here.",
        ]);
        for (query, wanted) in [
            ("cafe", vec![0]),
            ("Which CAFÉS are there?", vec![0]),
            ("run shoe", vec![0]),
            ("the attending head", vec![1]),
            ("the", vec![]),
            ("", vec![]),
            ("\0\u{1d}", vec![]),
        ] {
            assert_eq!(
                keys(&index.search(&analyzer, query, 10, |_| true)),
                wanted,
                "{query:?}"
            );
        }
    }

    #[test]
    fn scores_after_removal_equal_those_of_a_new_index() {
        let (analyzer, mut grown) = index(&["apple pie", "apple tree", "pear tree"]);
        grown.insert(1, analyzer.prepare("plum cake"));
        grown.remove(2);
        grown.remove(99);
        let (_, fresh) = index(&["apple pie", "plum cake"]);
        for query in ["apple", "tree", "plum cake pie"] {
            let search = |index: &Index| index.search(&analyzer, query, 10, |_| true);
            assert_eq!(search(&grown), search(&fresh), "{query}");
        }
        assert_eq!((grown.len(), grown.weight("tree")), (2, fresh.weight("tree")));
    }

    #[test]
    fn equal_texts_have_equal_scores_in_the_order_of_keys() {
        let (analyzer, index) = index(&["same words"; 50]);
        let found = index.search(&analyzer, "words", 10, |key| key % 2 == 1);
        assert_eq!(keys(&found), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
        assert!(
            found
                .iter()
                .all(|one| one.score == found[0].score && one.score > 0.0)
        );
    }

    #[test]
    fn similar_terms_are_different() {
        let texts: Vec<String> = (0..3_000).map(|n| format!("number{n}")).collect();
        let (analyzer, index) = index(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        for (key, text) in (0..).zip(&texts) {
            assert_eq!(
                keys(&index.search(&analyzer, text, 10, |_| true)),
                [key],
                "{text}"
            );
        }
    }

    #[test]
    fn a_hostile_query_is_truncated() {
        let (analyzer, index) = index(&["word0 word9999"]);
        let query: String = (0..10_000).map(|n| format!("word{n} ")).collect();
        let found = index.search(&analyzer, &query, 10, |_| true);
        let alone = index.search(&analyzer, "word0", 10, |_| true);
        assert_eq!(
            found, alone,
            "only the first {MAX_QUERY_TERMS} terms are looked up"
        );
    }
}
