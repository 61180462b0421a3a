//! Names that occur together: repeated, within each other, in one sentence, under one heading.

use std::collections::{BTreeMap, HashMap};

use super::{Passage, name};
use crate::graph::extract::words::{Word, is_acronym, is_capitalised, is_identifier};
use crate::graph::extract::{RELATED_TO, Relation};

/// Number of names of one sentence that are related to each other at most: the pairs grow
/// quadratically.
const MAX_COOCCURRING: usize = 8;
/// The certainty that two names of one sentence are related; each further sentence adds to it.
const COOCCURRING: f32 = 0.2;
/// The certainty that a name is related to the heading above it,
const UNDER_HEADING: f32 = 0.1;
/// and for how many names that is stated.
const MAX_UNDER_HEADING: usize = 6;
/// The certainty that a section is part of the one above it.
const NESTED: f32 = 0.5;

impl Passage<'_> {
    /// Adds names by their form: capitalized runs, identifiers, and terms that a line defines with
    /// a colon.
    pub(super) fn names_of(&mut self, sentence: &[Word<'_>]) {
        let mut at = 0;
        while at < sentence.len() {
            let word = &sentence[at];
            if is_identifier(word.text) {
                self.add_name(word.text);
                at += 1;
                continue;
            }
            if !is_capitalised(word.text) {
                at += 1;
                continue;
            }
            let begin = at;
            at += 1;
            while let Some(next) = sentence.get(at) {
                if sentence[at - 1].closes || next.opens || is_identifier(next.text) {
                    break;
                }
                let joins = next.lower == "of"
                    && !next.closes
                    && sentence
                        .get(at + 1)
                        .is_some_and(|after| is_capitalised(after.text) && !after.opens);
                if !is_capitalised(next.text) && !joins {
                    break;
                }
                at += 1;
            }
            let lists = &self.tables.lists;
            let (mut from, mut to) = (begin, at);
            while from < to && lists.is_function(&sentence[from]) {
                from += 1;
            }
            while from < to && lists.is_function(&sentence[to - 1]) {
                to -= 1;
            }
            // The first word of a sentence is capitalized because of its position.
            let by_position = from == 0 && to == 1 && !is_acronym(sentence[0].text);
            if from < to
                && !by_position
                && let Some(text) = name(sentence, (from, to))
            {
                self.add_name(&text);
            }
        }
    }

    /// Adds phrases of two and three words that occur twice.
    pub(super) fn repeated(&mut self, sentences: &[Vec<Word<'_>>]) {
        let lists = &self.tables.lists;
        let mut seen: HashMap<String, u32> = HashMap::new();
        let mut twice = Vec::new();
        for sentence in sentences {
            for from in 0..sentence.len() {
                let mut to = from;
                while let Some(next) = sentence.get(to) {
                    let fits = next.lower.chars().count() > 2
                        && next.text.chars().all(|c| c.is_alphabetic() || c == '-');
                    if !fits
                        || lists.is_function(next)
                        || lists.begins_relation(next)
                        || (to > from && next.opens)
                        || to - from == 3
                    {
                        break;
                    }
                    to += 1;
                    if to - from > 1
                        && let Some(text) = name(sentence, (from, to))
                        && let Some(key) = self.tables.normal.key(&text)
                    {
                        let count = seen.entry(key).or_default();
                        *count += 1;
                        if *count == 2 {
                            twice.push(text);
                        }
                    }
                    if next.closes {
                        break;
                    }
                }
            }
        }
        for text in twice {
            self.add_name(&text);
        }
    }

    /// States that each section is part of the one above it.
    pub(super) fn nested(&mut self) {
        let headings = std::mem::take(&mut self.headings);
        for pair in headings.windows(2) {
            if let [above, below] = pair {
                self.state(below, "part_of", above, NESTED);
            }
        }
        self.headings = headings;
    }

    /// Relates names that occur in one sentence.
    pub(super) fn cooccurring(&mut self, sentences: &[Vec<Word<'_>>]) {
        // For each pair: the number of sentences, and the order of its first occurrence.
        let mut pairs: BTreeMap<(usize, usize), (i32, usize)> = BTreeMap::new();
        for sentence in sentences {
            let here = self.names_in(sentence);
            for (nth, a) in here.iter().enumerate() {
                for b in &here[nth + 1..] {
                    let order = pairs.len();
                    pairs.entry((*a.min(b), *a.max(b))).or_insert((0, order)).0 += 1;
                }
            }
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|(_, (count, order))| (-count, *order));
        for ((a, b), (count, _)) in pairs {
            self.relate(a, b, 1.0 - (1.0 - COOCCURRING).powi(count));
        }
    }

    pub(super) fn under_heading(&mut self) {
        let Some(heading) = self
            .headings
            .last()
            .copied()
            .and_then(|heading| self.add_name(heading))
        else {
            return;
        };
        let others = (0..self.names.len()).filter(|one| *one != heading);
        for other in others.take(MAX_UNDER_HEADING) {
            self.relate(heading, other, UNDER_HEADING);
        }
    }

    /// Relates two names that no verb relates. The relation has no direction, so the order of the
    /// keys gives one.
    fn relate(&mut self, a: usize, b: usize, weight: f32) {
        let (a, b) = if self.names[a].key <= self.names[b].key {
            (a, b)
        } else {
            (b, a)
        };
        let (from, to) = (&self.names[a], &self.names[b]);
        if self.related.insert((from.key.clone(), to.key.clone())) {
            self.relations
                .push(Relation::new(&*from.text, RELATED_TO, &*to.text, weight));
        }
    }

    /// The names that occur in a sentence, in order, each once, without those that are part of a
    /// longer one.
    fn names_in(&self, sentence: &[Word<'_>]) -> Vec<usize> {
        let stems: Vec<String> = sentence
            .iter()
            .flat_map(|word| self.tables.normal.words(word.text))
            .collect();
        let mut found: Vec<(usize, usize, usize)> = Vec::new();
        for (one, name) in self.names.iter().enumerate() {
            let length = name.words.len();
            let here = stems
                .windows(length.max(1))
                .position(|window| window == name.words);
            found.extend(here.map(|at| (at, at + length, one)));
        }
        let whole = |(from, to, one): &&(usize, usize, usize)| {
            let within = |other: &(usize, usize, usize)| {
                other.2 != *one && other.0 <= *from && other.1 >= *to && other.1 - other.0 > to - from
            };
            !found.iter().any(within)
        };
        let mut whole: Vec<_> = found.iter().filter(whole).copied().collect();
        whole.sort_unstable();
        whole
            .into_iter()
            .take(MAX_COOCCURRING)
            .map(|(_, _, one)| one)
            .collect()
    }
}
