//! BM25 over numbered texts: how a term counts in a text, queries, and an index in memory.
//!
//! The average length is a constant instead of fitted, so that the part of the score that belongs
//! to a text never changes. It is stored with the posting, in one byte; a query multiplies it by
//! the rarity of the term. An index does not store the texts, and knows neither documents nor
//! chunks; [`Library`](crate::Library) does.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use super::analyzer::Language;
use super::identifier::qualified;
use super::synonyms::{spellings, verb_synonyms};

pub(crate) use super::analyzer::Analyzer;

/// Terms of a typical chunk without stop words; the chunks of "Attention Is All You Need" have 77.
pub(crate) const AVERAGE_TERMS: f32 = 80.0;
/// How many different terms of a query are looked up; the first ones are used. The cost of a query
/// is the sum of the texts that contain each term.
pub(crate) const MAX_QUERY_TERMS: usize = 32;
/// How much of a query is read, in bytes.
pub(crate) const MAX_QUERY_BYTES: usize = 4_096;
/// How fast a repeated term stops counting, and how much the length of a text counts: the values of
/// Lucene.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The steps of an impact. 255 of them order texts as exact scores do, but for near ties.
const IMPACT_STEPS: f32 = 255.0;
/// Spellings of a term that are kept for corrections.
const MAX_FORMS: usize = 4;

/// Returns the part of a chunk that is searched by words. The headings count as text: a question
/// often names the section and not the words in it.
pub(crate) fn indexed_text<'a>(heading: Option<&str>, text: &'a str) -> Cow<'a, str> {
    match heading {
        Some(heading) => format!("{heading}\n{text}").into(),
        None => text.into(),
    }
}

/// How much a term counts in a text, without its rarity: BM25's share, from 1 to 255.
pub(crate) type Impact = u8;

/// A term of a text with its impact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WeightedTerm {
    pub(crate) term: String,
    pub(crate) form: String,
    pub(crate) impact: Impact,
}

/// The weighted terms of a text, as an [`Index`] takes them; each term once.
#[derive(Clone, Debug, Default)]
pub(crate) struct TermVector(pub(crate) Vec<WeightedTerm>);

/// Collects the terms of a text from several fields.
#[derive(Debug, Default)]
pub(crate) struct TermCounter {
    counts: HashMap<String, (f32, String)>,
    length: f32,
}

impl TermCounter {
    /// Adds a field. A term counts `weight` times. Only fields of weight 1 and more make the text
    /// longer: the name of a document does not make each of its passages longer.
    pub(crate) fn add(&mut self, analyzer: &Analyzer, text: &str, language: Language, weight: f32) {
        for token in analyzer.tokens(text, language) {
            if weight >= 1.0 && !token.is_part {
                self.length += 1.0;
            }
            self.counts.entry(token.term).or_insert((0.0, token.form)).0 += weight;
        }
    }

    pub(crate) fn finish(self) -> TermVector {
        let norm = K1 * (1.0 - B + B * self.length / AVERAGE_TERMS);
        let weighted = |(term, (count, form)): (String, (f32, String))| {
            let share = count / (count + norm);
            let impact = (share * IMPACT_STEPS).round().clamp(1.0, IMPACT_STEPS) as Impact;
            WeightedTerm { term, form, impact }
        };
        TermVector(self.counts.into_iter().map(weighted).collect())
    }
}

/// Prepares a text with one field for an [`Index`]. This is the slow part of indexing and does not
/// need the index.
pub(crate) fn prepare(analyzer: &Analyzer, text: &str) -> TermVector {
    let mut counter = TermCounter::default();
    let language = analyzer.language(text).unwrap_or_default();
    counter.add(analyzer, text, language, 1.0);
    counter.finish()
}

/// A term of a query: its spellings in the index, of which a text contains any.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryTerm {
    pub(crate) form: String,
    pub(crate) spellings: Vec<String>,
    /// How much it counts, relative to a word as it was typed.
    pub(crate) factor: f32,
}

/// Returns the terms of a query. The first language decides which words are stop words, the others
/// add their stems.
pub(crate) fn query_terms(analyzer: &Analyzer, query: &str, languages: &[Language]) -> Vec<QueryTerm> {
    let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES)];
    let first = languages.first().copied().unwrap_or_default();
    let mut terms: Vec<QueryTerm> = Vec::new();
    for (token, share) in analyzer.question_tokens(query, first) {
        let known = terms.iter().any(|term| term.spellings.contains(&token.term));
        if !known && terms.len() < MAX_QUERY_TERMS {
            let joined: String = token
                .term
                .chars()
                .filter(|letter| letter.is_alphanumeric())
                .collect();
            let mut spellings = vec![token.term];
            // `d_k` is `dk` in the text of a PDF. A number is another one without its marks.
            if joined != spellings[0] && joined.starts_with(char::is_alphabetic) {
                spellings.push(joined);
            }
            terms.push(QueryTerm {
                form: token.form,
                spellings,
                factor: share,
            });
        }
    }
    for term in &mut terms {
        for other in spellings(&term.form) {
            let stem = analyzer.terms_in(other, Language::English).into_iter().next();
            // `labeled` and `labelled` have the same one.
            term.spellings
                .extend(stem.filter(|stem| !term.spellings.contains(stem)));
        }
    }
    let words: Vec<&str> = query.unicode_words().collect();
    for pair in words.windows(2) {
        let verb = pair[0].to_lowercase();
        if let Some(term) = terms.iter_mut().find(|term| term.form == verb) {
            for other in verb_synonyms(&verb, pair[1]) {
                let stems = analyzer.terms_in(other, Language::English);
                term.spellings.extend(stems.into_iter().take(1));
            }
        }
    }
    for word in &words {
        let Some((_, member)) = qualified(word) else {
            continue;
        };
        let form = word.to_lowercase();
        let stem = analyzer.terms_in(member, first).into_iter().next();
        if let Some(term) = terms.iter_mut().find(|term| term.form == form) {
            term.spellings
                .extend(stem.filter(|stem| !term.spellings.contains(stem)));
        }
    }
    for term in &mut terms {
        for stem in analyzer.accented_stems(query, &term.form, first) {
            if !term.spellings.contains(&stem) {
                term.spellings.push(stem);
            }
        }
    }
    for language in languages.iter().skip(1) {
        for token in analyzer.tokens(query, *language) {
            let same = |term: &&mut QueryTerm| term.form == token.form;
            if let Some(term) = terms.iter_mut().find(same)
                && !term.spellings.contains(&token.term)
            {
                term.spellings.push(token.term);
            }
        }
    }
    terms
}

/// Returns how significant a term is that `with` of `texts` texts contain: BM25's inverse document
/// frequency, highest for a term that no text contains.
pub(crate) fn rarity(texts: usize, with: usize) -> f32 {
    let (texts, with) = (texts as f32, with.min(texts) as f32);
    (1.0 + (texts - with + 0.5) / (with + 0.5)).ln()
}

/// Returns what a term adds to the score of a text.
pub(crate) fn score(rarity: f32, impact: Impact) -> f32 {
    rarity * f32::from(impact) * ((K1 + 1.0) / IMPACT_STEPS)
}

/// A text that matches a query.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) struct Match {
    /// The key under which it was added.
    pub key: u64,
    /// Its BM25 score, more than 0. Comparable only within one query.
    pub score: f32,
}

impl Eq for Match {}

impl Ord for Match {
    /// Better matches are greater; of equal scores the smaller key is.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.key.cmp(&self.key))
    }
}

impl PartialOrd for Match {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The best matches of those that were offered.
#[derive(Debug)]
pub(crate) struct Best {
    limit: usize,
    found: BinaryHeap<Reverse<Match>>,
}

impl Best {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            found: BinaryHeap::new(),
        }
    }

    /// Takes a match that is among the best so far and that `wanted` accepts.
    pub(crate) fn offer(&mut self, key: u64, score: f32, wanted: impl FnOnce(u64) -> bool) {
        let offered = Match { key, score };
        let is_full = self.found.len() == self.limit;
        let worst = self.found.peek();
        if self.limit == 0 || (is_full && worst.is_some_and(|worst| offered < worst.0)) || !wanted(key) {
            return;
        }
        if is_full {
            self.found.pop();
        }
        self.found.push(Reverse(offered));
    }

    /// Returns them, best first.
    pub(crate) fn into_sorted(self) -> Vec<Match> {
        let sorted = self.found.into_sorted_vec();
        sorted.into_iter().map(|found| found.0).collect()
    }
}

/// A text that contains a term, in one word: the key, then the impact in the lowest byte. An index in
/// memory consists mostly of these. They are in the order of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting(u64);

impl Posting {
    /// Keys have 56 bits.
    pub(crate) fn new(key: u64, impact: Impact) -> Self {
        Self(key << Impact::BITS | u64::from(impact))
    }

    pub(crate) fn key(self) -> u64 {
        self.0 >> Impact::BITS
    }

    pub(crate) fn impact(self) -> Impact {
        self.0 as Impact
    }
}

/// The texts that contain one term.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// Ascending by key.
    pub(crate) postings: Vec<Posting>,
    /// Spellings other than the term.
    pub(crate) forms: Vec<Box<str>>,
}

/// An index of texts by their terms, in memory.
#[derive(Default)]
pub(crate) struct Index {
    lists: HashMap<Arc<str>, List>,
    texts: HashMap<u64, Box<[Arc<str>]>>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Index");
        debug
            .field("texts", &self.texts.len())
            .field("terms", &self.lists.len())
            .finish_non_exhaustive()
    }
}

impl Index {
    /// Adds a text. A text with the same key is replaced.
    pub(crate) fn insert(&mut self, key: u64, text: TermVector) {
        self.remove(key);
        let mut terms = Vec::with_capacity(text.0.len());
        for WeightedTerm { term, form, impact } in text.0 {
            let name = match self.lists.get_key_value(term.as_str()) {
                Some((name, _)) => Arc::clone(name),
                None => Arc::from(term),
            };
            let list = self.lists.entry(Arc::clone(&name)).or_default();
            // Keys grow, so this is the end of the list but for a text that is replaced.
            let at = list.postings.partition_point(|known| known.key() < key);
            list.postings.insert(at, Posting::new(key, impact));
            let is_new = *form != *name && list.forms.iter().all(|known| **known != *form);
            if is_new && list.forms.len() < MAX_FORMS {
                list.forms.push(form.into());
            }
            terms.push(name);
        }
        self.texts.insert(key, terms.into());
    }

    /// Removes a text, if it is in the index, and gives its memory back.
    pub(crate) fn remove(&mut self, key: u64) {
        let Some(terms) = self.texts.remove(&key) else {
            return;
        };
        for term in &terms {
            let Some(list) = self.lists.get_mut(term) else {
                continue;
            };
            if let Ok(at) = list.postings.binary_search_by_key(&key, |known| known.key()) {
                list.postings.remove(at);
            }
            if list.postings.is_empty() {
                self.lists.remove(term);
            } else if list.postings.capacity() > 4 * list.postings.len() {
                list.postings.shrink_to_fit();
            }
        }
        if self.lists.capacity() > 4 * self.lists.len() {
            self.lists.shrink_to_fit();
        }
        if self.texts.capacity() > 4 * self.texts.len() {
            self.texts.shrink_to_fit();
        }
    }

    /// Returns how many texts it contains.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns the texts with a term, ascending by key.
    pub(crate) fn postings(&self, term: &str) -> &[Posting] {
        self.lists.get(term).map_or(&[], |list| &list.postings)
    }

    /// Returns all terms with their lists, in no order.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (&str, &List)> {
        self.lists.iter().map(|(term, list)| (&**term, list))
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
        let language = analyzer.language(query).unwrap_or_default();
        let mut scores: HashMap<u64, f32> = HashMap::new();
        for term in query_terms(analyzer, query, &[language]) {
            for spelling in &term.spellings {
                let postings = self.postings(spelling);
                let rarity = rarity(self.len(), postings.len());
                for posting in postings {
                    *scores.entry(posting.key()).or_default() += score(rarity, posting.impact());
                }
            }
        }
        let mut best = Best::new(limit);
        for (key, score) in scores {
            best.offer(key, score, &wanted);
        }
        best.into_sorted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling_of_a_word_is_searched_once() {
        let spellings = |query: &str| -> Vec<Vec<String>> {
            let terms = query_terms(&Analyzer::default(), query, &[Language::English]);
            terms.into_iter().map(|term| term.spellings).collect()
        };
        assert_eq!(spellings("labelled"), [["label"]]);
        assert_eq!(spellings("jpg"), [["jpg", "jpeg"]]);
        assert_eq!(spellings("jpeg"), [["jpeg", "jpg"]]);
        let qualified = &spellings("Deque.addFirst")[0];
        assert_eq!(qualified[..], ["deque.addfirst", "dequeaddfirst", "addfirst"]);
    }

    fn index(texts: &[&str]) -> (Analyzer, Index) {
        let (analyzer, mut index) = (Analyzer::default(), Index::default());
        for (key, text) in texts.iter().enumerate() {
            index.insert(key as u64, prepare(&analyzer, text));
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
        grown.insert(1, prepare(&analyzer, "plum cake"));
        grown.remove(2);
        grown.remove(99);
        let (_, fresh) = index(&["apple pie", "plum cake"]);
        for query in ["apple", "tree", "plum cake pie"] {
            let search = |index: &Index| index.search(&analyzer, query, 10, |_| true);
            assert_eq!(search(&grown), search(&fresh), "{query}");
        }
        assert_eq!((grown.len(), grown.postings("tree").len()), (2, 0));
    }

    #[test]
    fn removal_gives_memory_back() {
        let (analyzer, mut index) = index(&["apple pie"]);
        for round in 0..20 {
            for key in 1..=200 {
                let text: String = (0..50).map(|n| format!("word{round}x{key}x{n} ")).collect();
                index.insert(key, prepare(&analyzer, &text));
            }
            (1..=200).for_each(|key| index.remove(key));
            assert_eq!((index.lists.len(), index.texts.len()), (2, 1));
            assert!(index.lists.capacity() < 64 && index.texts.capacity() < 64);
        }
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
