//! Triples found by patterns: what a sentence states with a verb of relation or with `is a`, and,
//! much weaker, which names occur in it together.
//!
//! Names are capitalized runs, identifiers of code, headings, defined terms, subjects and objects
//! of relations, and phrases that occur twice. The same passage always yields the same triples in
//! the same order. Sentences are not parsed: a verb relates the phrase before it to the phrases
//! after it, which works for plain prose but not for nested clauses. Each passage is read on its
//! own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::entity::{MAX_NAME_BYTES, Normal};
use super::verb::Verb;
use super::words::{Lists, Word, without_numbering, words};
use super::{ExtractGraph, Extraction, MAX_TRIPLES, Relation};
use crate::Chunk;
use crate::documents::sentences;
use crate::models::Boxed;

mod names;

/// Number of words of a name at most. The longest terms of a paper have four; a run of more than
/// five is a title.
const MAX_NAME_WORDS: usize = 5;
/// Number of words of a phrase before or after a verb at most.
const MAX_PHRASE_WORDS: usize = 4;
/// Number of objects of one verb at most: `uses A, B, C and D`.
const MAX_OBJECTS: usize = 4;
/// Number of names of one passage at most.
const MAX_NAMES: usize = 64;
/// Factor for a triple whose subject is a pronoun.
const BY_PRONOUN: f32 = 0.75;

/// Finds triples by patterns. Cheap to clone; it needs only the text.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    tables: Arc<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    lists: Lists,
    normal: Normal,
}

impl Patterns {
    /// The name under which the triples are stored. The number changes when the patterns find other
    /// triples.
    pub const NAME: &'static str = "patterns-1";

    /// Returns the triples of one passage: stated relations in the order of the text, then
    /// co-occurring names, surest first. At most 32.
    pub fn triples(&self, chunk: &Chunk) -> Vec<Relation> {
        Passage::new(&self.tables, chunk).triples()
    }
}

impl ExtractGraph for Patterns {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn extract(&self, passages: Vec<Chunk>) -> Boxed<'_, Vec<Extraction>> {
        let this = self.clone();
        Box::pin(async move {
            let count = passages.len();
            // A passage takes about 100 µs, and a document has hundreds.
            let work = move || -> Vec<Extraction> {
                let extraction = |chunk| Extraction::new(this.triples(chunk));
                passages.iter().map(extraction).collect()
            };
            let failed = || Extraction::new(Vec::new()).fallback("extraction_failed");
            tokio::task::spawn_blocking(work)
                .await
                .unwrap_or_else(|_| (0..count).map(|_| failed()).collect())
        })
    }
}

/// A name in the passage.
#[derive(Debug)]
struct Name {
    key: String,
    words: Vec<String>,
    text: String,
}

#[derive(Debug)]
struct Passage<'a> {
    tables: &'a Tables,
    headings: Vec<&'a str>,
    sentences: Vec<Vec<Word<'a>>>,
    names: Vec<Name>,
    by_key: HashMap<String, usize>,
    relations: Vec<Relation>,
    /// Pairs of names that are related by any predicate.
    related: HashSet<(String, String)>,
    stated: HashSet<(String, &'static str, String)>,
}

/// A range of words; the end is exclusive.
type Range = (usize, usize);

impl<'a> Passage<'a> {
    fn new(tables: &'a Tables, chunk: &'a Chunk) -> Self {
        let path = chunk.heading.as_deref().unwrap_or_default();
        Self {
            tables,
            headings: path
                .split(" > ")
                .map(without_numbering)
                .filter(|one| !one.is_empty())
                .collect(),
            sentences: sentences(&chunk.text).into_iter().map(words).collect(),
            names: Vec::new(),
            by_key: HashMap::new(),
            relations: Vec::new(),
            related: HashSet::new(),
            stated: HashSet::new(),
        }
    }

    fn triples(mut self) -> Vec<Relation> {
        if let Some(heading) = self.headings.last() {
            self.add_name(heading);
        }
        let sentences = std::mem::take(&mut self.sentences);
        let mut last_subject = None;
        for sentence in &sentences {
            self.relations_of(sentence, &mut last_subject);
            self.names_of(sentence);
        }
        self.repeated(&sentences);
        self.nested();
        self.cooccurring(&sentences);
        self.under_heading();
        self.relations.truncate(MAX_TRIPLES);
        self.relations
    }

    /// Adds a name and returns its index; `None` if the text is not a name.
    fn add_name(&mut self, text: &str) -> Option<usize> {
        if text.split(' ').count() > MAX_NAME_WORDS
            || !text.contains(char::is_alphabetic)
            || text.chars().nth(1).is_none()
        {
            return None;
        }
        let key = self.tables.normal.key(text)?;
        if let Some(known) = self.by_key.get(&key) {
            return Some(*known);
        }
        if self.names.len() == MAX_NAMES {
            return None;
        }
        let mut words: Vec<String> = key.split(' ').map(str::to_owned).collect();
        words.retain(|word| !word.is_empty());
        self.by_key.insert(key.clone(), self.names.len());
        self.names.push(Name {
            key,
            words,
            text: text.to_owned(),
        });
        Some(self.names.len() - 1)
    }

    fn state(&mut self, subject: &str, predicate: &'static str, object: &str, weight: f32) -> bool {
        let (Some(from), Some(to)) = (self.add_name(subject), self.add_name(object)) else {
            return false;
        };
        let (from, to) = (self.names[from].key.clone(), self.names[to].key.clone());
        if from == to {
            return false;
        }
        if self.stated.insert((from.clone(), predicate, to.clone())) {
            self.relations
                .push(Relation::new(subject, predicate, object, weight));
            self.related.insert(ordered(from, to));
        }
        true
    }

    /// Adds the relations that the verbs of a sentence state.
    fn relations_of(&mut self, sentence: &[Word<'_>], last_subject: &mut Option<String>) {
        let lists = &self.tables.lists;
        let (mut at, mut subject_before) = (0, None::<String>);
        while at < sentence.len() {
            let Some(verb) = Verb::at(lists, sentence, at) else {
                at += 1;
                continue;
            };
            at = verb.end;
            if sentence[verb.end - 1].closes || sentence.get(verb.end).is_some_and(|next| lists.denies(next))
            {
                continue;
            }
            let Some(subject) = self.subject(
                sentence,
                verb.begin,
                subject_before.as_deref(),
                last_subject.as_deref(),
            ) else {
                continue;
            };
            let weight = if subject.by_pronoun {
                verb.weight * BY_PRONOUN
            } else {
                verb.weight
            };
            let mut stated = false;
            for object in self.objects(sentence, verb.end) {
                stated |= if verb.passive {
                    self.state(&object, verb.name, &subject.text, weight)
                } else {
                    self.state(&subject.text, verb.name, &object, weight)
                };
            }
            if stated && !verb.passive {
                *last_subject = Some(subject.text.clone());
                subject_before = Some(subject.text);
            }
        }
    }

    /// Finds the subject of a verb: the phrase before it, the head of that phrase before a
    /// preposition, or what `which` or `it` refers to.
    fn subject(
        &self,
        sentence: &[Word<'_>],
        verb: usize,
        subject_before: Option<&str>,
        last_subject: Option<&str>,
    ) -> Option<Subject> {
        let lists = &self.tables.lists;
        let mut end = verb;
        while end > 0 && lists.is_between(&sentence[end - 1]) && !sentence[end - 1].closes {
            if lists.denies(&sentence[end - 1]) {
                return None;
            }
            end -= 1;
        }
        let before = sentence.get(end.checked_sub(1)?)?;
        let known = |text: Option<&str>, by_pronoun| {
            text.map(|text| Subject {
                text: text.to_owned(),
                by_pronoun,
            })
        };
        let mut range = self.phrase_before(sentence, end);
        if range.0 == range.1 {
            match &*before.lower {
                "that" | "which" | "who" if end > 1 => {
                    range = self.phrase_ending(sentence, end - 1);
                    if range.0 == range.1 {
                        return None;
                    }
                }
                "and" | "or" | "then" => return known(subject_before, false),
                _ if lists.is_pronoun(before) && (end == 1 || sentence[end - 2].closes) => {
                    return known(last_subject, true);
                }
                _ => return None,
            }
        }
        // The head of `the queue of a turn` is `queue`.
        for _ in 0..2 {
            let mut from = range.0;
            while from > 0 && lists.is_determiner(&sentence[from - 1]) && !sentence[from - 1].closes {
                from -= 1;
            }
            if from < 2 || !lists.is_preposition(&sentence[from - 1]) {
                break;
            }
            let head = self.phrase_before(sentence, from - 1);
            if head.0 == head.1 || (head.1 - head.0 == 1 && lists.is_light(&sentence[head.0])) {
                break;
            }
            range = head;
        }
        let text = name(sentence, range)?;
        Some(Subject {
            text,
            by_pronoun: false,
        })
    }

    /// The phrase that ends at `end`, unless punctuation separates it from what follows.
    fn phrase_before(&self, sentence: &[Word<'_>], end: usize) -> Range {
        if end == 0 || sentence[end - 1].closes {
            return (end, end);
        }
        self.phrase_ending(sentence, end)
    }

    fn phrase_ending(&self, sentence: &[Word<'_>], end: usize) -> Range {
        let lists = &self.tables.lists;
        let mut start = end;
        while start > 0 && end - start < MAX_PHRASE_WORDS {
            let word = &sentence[start - 1];
            if lists.is_function(word) || lists.begins_relation(word) || (start < end && word.closes) {
                break;
            }
            start -= 1;
            if word.opens {
                break;
            }
        }
        (start, end)
    }

    /// Finds the objects of a verb: one phrase, or several in a list.
    fn objects(&self, sentence: &[Word<'_>], verb_end: usize) -> Vec<String> {
        let lists = &self.tables.lists;
        let mut found = Vec::new();
        let mut at = verb_end;
        while found.len() < MAX_OBJECTS {
            let Some(range) = self.phrase_after(sentence, at) else {
                break;
            };
            // In `A uses B, and C uses D`, C is not an object of the first verb.
            let next = sentence.get(range.1);
            if !found.is_empty()
                && next.is_some_and(|next| lists.begins_relation(next) || lists.is_between(next))
            {
                break;
            }
            found.extend(name(sentence, range));
            let listed = sentence[range.1 - 1].comma;
            let and = |at: usize| {
                sentence
                    .get(at)
                    .is_some_and(|word| matches!(&*word.lower, "and" | "or") && !word.closes)
            };
            at = match (listed, and(range.1)) {
                (_, true) if listed || !sentence[range.1 - 1].closes => range.1 + 1,
                (true, false) => range.1,
                _ => break,
            };
        }
        found
    }

    fn phrase_after(&self, sentence: &[Word<'_>], from: usize) -> Option<Range> {
        let lists = &self.tables.lists;
        let mut at = from;
        // Skips `one of the` and `all the`.
        while let Some(word) = sentence.get(at) {
            let skipped = lists.is_determiner(word) || (at > from && word.lower == "of");
            if !skipped || word.closes || lists.denies(word) || (at > from && word.opens) {
                break;
            }
            at += 1;
        }
        let start = at;
        while let Some(word) = sentence.get(at) {
            let ends = lists.is_function(word) || lists.begins_relation(word) || (at > start && word.opens);
            if ends || at - start == MAX_PHRASE_WORDS {
                break;
            }
            at += 1;
            if word.closes {
                break;
            }
        }
        if at == start {
            return None;
        }
        let light = at - start == 1 && lists.is_light(&sentence[start]) && !sentence[start].closes;
        if light
            && sentence
                .get(at)
                .is_some_and(|next| next.lower == "of" && !next.closes)
        {
            return self.phrase_after(sentence, at + 1).or(Some((start, at)));
        }
        // Drops the adverb of `uses the queue directly`.
        while at - start > 1 && sentence[at - 1].lower.ends_with("ly") && !sentence[at - 1].closes {
            at -= 1;
        }
        Some((start, at))
    }
}

#[derive(Debug)]
struct Subject {
    text: String,
    by_pronoun: bool,
}

fn ordered(a: String, b: String) -> (String, String) {
    if a <= b { (a, b) } else { (b, a) }
}

/// Joins the words of a range to a name; `None` if it is too long for one.
fn name(sentence: &[Word<'_>], (from, to): Range) -> Option<String> {
    let texts: Vec<&str> = sentence.get(from..to)?.iter().map(|word| word.text).collect();
    let name = texts.join(" ");
    let name = name
        .strip_suffix("'s")
        .or_else(|| name.strip_suffix("’s"))
        .unwrap_or(&name)
        .to_owned();
    let fits =
        name.len() <= MAX_NAME_BYTES && name.contains(char::is_alphabetic) && texts.len() <= MAX_NAME_WORDS;
    fits.then_some(name)
}

#[cfg(test)]
mod tests;
