//! Chooses the quotes of an answer among the possible ones. Nothing here reads a passage.

use std::collections::HashSet;
use std::ops::Range;

use super::{MAX_QUOTES, Quoted};
use crate::search::entries::is_continued;
use crate::{Chunk, Hit};

/// A further quote must be worth at least this share of the first one. With 0.75, and a `CLEAR_LEAD` of
/// 1.3, fewer of the citations are right (0.41 instead of 0.45), and the answers to the same questions
/// hold 0.02 more of the facts.
const MIN_SHARE_OF_BEST: f32 = 0.8;
/// The same if the first one defines what the question asks about: then that is the answer.
const MIN_SHARE_OF_DEFINITION: f32 = 0.9;
/// A quote that has more words than this in common with a chosen one repeats it.
const MAX_LIKENESS: f32 = 0.7;

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

/// Chooses quotes that do not repeat each other from candidates sorted by worth.
pub(super) fn without_repetition(candidates: Vec<Candidate>) -> Vec<Quoted> {
    let least = candidates.first().map_or(0.0, |best| {
        let share = if best.defines {
            MIN_SHARE_OF_DEFINITION
        } else {
            MIN_SHARE_OF_BEST
        };
        best.worth * share
    });
    let mut chosen: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if chosen.len() == MAX_QUOTES || candidate.worth < least {
            break;
        }
        let repeats = |other: &Candidate| {
            let overlaps = other.hit == candidate.hit
                && candidate.range.start < other.range.end
                && other.range.start < candidate.range.end;
            overlaps || likeness(&candidate.stems, &other.stems) > MAX_LIKENESS
        };
        if !chosen.iter().any(repeats) {
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
