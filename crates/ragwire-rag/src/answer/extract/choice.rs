//! Chooses the quotes of an answer among the possible ones. Nothing here reads a passage.

use std::collections::HashSet;
use std::ops::Range;

use super::{MAX_QUOTES, Quoted};
use crate::documents::sentences;
use crate::search::entries::is_continued;
use crate::search::lines::{CELL, QUESTION_MARKS};
use crate::{Chunk, Hit};

/// A further quote must be worth at least this share of the first one. With 0.75, and a `CLEAR_LEAD` of
/// 1.3, fewer of the citations are right (0.41 instead of 0.45), and the answers to the same questions
/// hold 0.02 more of the facts.
const MIN_SHARE_OF_BEST: f32 = 0.8;
/// The same if the first one defines what the question asks about: then that is the answer.
const MIN_SHARE_OF_DEFINITION: f32 = 0.9;
/// A quote that has more words than this in common with a chosen one repeats it.
const MAX_LIKENESS: f32 = 0.7;
/// A sentence of so many bytes is quoted once. Passages begin with the end of the one before, and documents repeat others.
const REPEATED_BYTES: usize = 40;
const REPEATED_ROW_BYTES: usize = 120;

/// A possible quote.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) hit: usize,
    pub(super) range: Range<usize>,
    pub(super) stems: HashSet<String>,
    pub(super) coverage: f32,
    /// Whether it begins with a definition of what the question asks about.
    pub(super) defines: bool,
    /// Whether its first sentence does, in the language of the question, and not only its heading.
    pub(super) says_what: bool,
    /// Whether it counts what the question asks to count, or has the price that it asks for.
    pub(super) counts: bool,
    /// Whether it is the entry of the identifier that is asked about, with all words of the question.
    pub(super) answers_entry: bool,
    pub(super) worth: f32,
}

/// Chooses quotes of hits that do not repeat each other from candidates sorted by worth.
pub(super) fn without_repetition(candidates: Vec<Candidate>, hits: &[Hit]) -> Vec<Quoted> {
    let least = candidates.first().map_or(0.0, |best| {
        let share = if best.defines {
            MIN_SHARE_OF_DEFINITION
        } else {
            MIN_SHARE_OF_BEST
        };
        best.worth * share
    });
    let text = |one: &Candidate| &hits[one.hit].chunk.text[one.range.clone()];
    let mut chosen: Vec<Candidate> = Vec::new();
    let mut said: HashSet<&str> = HashSet::new();
    for mut candidate in candidates {
        if chosen.len() == MAX_QUOTES || candidate.worth < least {
            break;
        }
        let repeats = |other: &Candidate| {
            let overlaps = other.hit == candidate.hit
                && candidate.range.start < other.range.end
                && other.range.start < candidate.range.end;
            overlaps || likeness(&candidate.stems, &other.stems) > MAX_LIKENESS
        };
        if chosen.iter().any(repeats) {
            continue;
        }
        let new = before_repetition(text(&candidate), &said);
        candidate.range.end = candidate.range.start + new;
        if new > 0 {
            said.extend(whole_sentences(text(&candidate)));
            chosen.push(candidate);
        }
    }
    let quoted = |one: Candidate| Quoted {
        hit: one.hit,
        range: one.range,
        coverage: one.coverage,
    };
    chosen.into_iter().map(quoted).collect()
}

/// Returns the length of a quote without the first sentence that was said and what follows it, or 0 if less than half is
/// left: it was chosen for what it repeats.
fn before_repetition(quote: &str, said: &HashSet<&str>) -> usize {
    let repeated = whole_sentences(quote).filter(|sentence| said.contains(sentence));
    let Some(at) = repeated.filter_map(|sentence| quote.find(sentence)).min() else {
        return quote.len();
    };
    let new = quote[..at].trim_end();
    if new.len() * 2 < quote.len() || new.ends_with([':', '：']) {
        0
    } else {
        new.len()
    }
}

/// Returns the sentences and rows of a text that are long enough to be known again. Listings may repeat their lines, and
/// tables the names of their columns.
fn whole_sentences(text: &str) -> impl Iterator<Item = &str> {
    let rows = text
        .lines()
        .filter(|line| line.contains(CELL) && line.len() >= REPEATED_ROW_BYTES);
    let ends =
        |sentence: &&str| sentence.ends_with(['.', '!', '。', '！']) || sentence.ends_with(QUESTION_MARKS);
    let lines = text.lines().filter(|line| !line.contains(CELL));
    let sentences = lines.flat_map(sentences).map(str::trim);
    let sentences = sentences
        .filter(|sentence| sentence.len() >= REPEATED_BYTES)
        .filter(ends);
    sentences.chain(rows)
}

/// Keeps only the beginnings of entries of the option that is asked about, if there are any: entries of other options
/// that mention it do not answer.
pub(super) fn entries_alone(mut candidates: Vec<Candidate>, hits: &[Hit]) -> Vec<Candidate> {
    if candidates.iter().any(|candidate| candidate.answers_entry) {
        candidates.retain(|candidate| candidate.answers_entry);
        let chunk = |candidate: &Candidate| &hits[candidate.hit].chunk;
        let chunks: Vec<&Chunk> = candidates.iter().map(chunk).collect();
        candidates.retain(|candidate| {
            !is_continued(chunk(candidate), candidate.range.start, chunks.iter().copied())
        });
    }
    candidates
}

/// The share of words that two quotes have in common, 0 to 1.
fn likeness(a: &HashSet<String>, b: &HashSet<String>) -> f32 {
    let shared = a.intersection(b).count();
    let all = a.len() + b.len() - shared;
    if all == 0 { 0.0 } else { shared as f32 / all as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(hit: usize, hits: &[Hit], text: &str) -> Candidate {
        let start = hits[hit].chunk.text.find(text).unwrap();
        Candidate {
            hit,
            range: start..start + text.len(),
            stems: HashSet::from([text.to_owned()]),
            coverage: 1.0,
            defines: false,
            says_what: false,
            counts: false,
            answers_entry: false,
            worth: 1.0,
        }
    }

    #[test]
    fn a_sentence_is_quoted_once() {
        let shared = "The robin sings in the garden before the sun rises.";
        let first = format!("{shared} Other birds follow soon after it has begun.");
        let second = format!("Birds of the garden have many calls, each with a meaning. Listen:\n{shared}");
        let own = "Each has a song, and each song has a meaning that others of its kind understand at once.";
        let third = format!("{own} {shared} Then they are quiet.");
        let hits: Vec<Hit> = [&first, &second, &third]
            .into_iter()
            .enumerate()
            .map(|(at, text)| Hit::new(Chunk::new("d", "d.md", at as u32, text), 1.0))
            .collect();
        let quotes = |texts: &[(usize, &str)]| -> Vec<String> {
            let candidates = texts.iter().map(|(hit, text)| candidate(*hit, &hits, text));
            let quoted = without_repetition(candidates.collect(), &hits).into_iter();
            let text = |one: Quoted| hits[one.hit].chunk.text[one.range].to_owned();
            quoted.map(text).collect()
        };
        // From the sentence on, it is left out.
        assert_eq!(quotes(&[(0, &first), (2, &third)]), [first.as_str(), own]);
        // Nothing but what leads to it is left.
        assert_eq!(
            quotes(&[(0, &first), (1, &second), (2, shared)]),
            [first.as_str()]
        );
        // So is a row.
        let row = format!("robin | {} | 3", "sings in the garden, ".repeat(6));
        let tables: Vec<Hit> = [
            format!("name | song | eggs\n{row}"),
            format!("name | song | eggs\n{row}\nowl | none | 2"),
        ]
        .iter()
        .enumerate()
        .map(|(at, text)| Hit::new(Chunk::new("d", "d.md", at as u32, text), 1.0))
        .collect();
        let whole = |hit: usize| candidate(hit, &tables, &tables[hit].chunk.text.clone());
        let quoted = without_repetition(vec![whole(0), whole(1)], &tables);
        let lengths: Vec<usize> = quoted.iter().map(|one| one.range.len()).collect();
        assert_eq!(lengths, [tables[0].chunk.text.len()]);
        // Another one follows.
        let last = "Then they are quiet.";
        assert_eq!(quotes(&[(0, &first), (2, last)]), [&first, last]);
    }
}
