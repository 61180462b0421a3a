//! From a question to the triples near it: breadth first, best edges first, within the limits.
//!
//! 1. The words of the question find entities by the words of their names; rare words weigh more.
//!    Names that an embedder finds similar are merged in by reciprocal rank. The search begins at
//!    the best `entity-limit` entities.
//! 2. In each of `max-path-length` steps every entity at the frontier offers its best
//!    `triple-limit` triples that were not followed yet. The best of all of them are followed while
//!    there are fewer than `max-subgraph-size`; their other ends are the next frontier.
//! 3. An answer is written from the best triples that were followed: `edge-score-limit`, then
//!    `edge-limit` of them.
//!
//! The score of a triple is its weight times its relevance: the share of the question's words that
//! it contains, plus a base so that it counts even without any. Equal scores are ordered by
//! spelling, so that a graph that grew and one that was reopened find the same.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::store::{Edge, Graph, Shared};
use crate::Chunk;
use crate::search::lexical::{MAX_QUERY_BYTES, MAX_QUERY_TERMS};
use crate::search::retrieve::reciprocal_ranks;
use ragwire::orchestrator::{GraphLimits, LimitError};

/// Relevance of a triple without any word of the question, relative to one with all.
const BASE: f32 = 0.1;
/// Number of passages listed for one triple, surest first: thousands may state it.
const MAX_PASSAGES: usize = 8;

/// A passage that states a triple.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Mention {
    /// The document's ID.
    pub document_id: String,
    /// The chunk's ID.
    pub chunk_id: String,
    /// The certainty, 0 to 1.
    pub weight: f32,
}

/// A triple that a search followed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FollowedTriple {
    /// The subject's name in its most frequent spelling.
    pub subject: String,
    /// The relation.
    pub predicate: String,
    /// The object's name in its most frequent spelling.
    pub object: String,
    /// The step in which it was followed, counted from 1.
    pub hop: usize,
    /// The certainty, 0 to 1, from all passages that state it.
    pub weight: f32,
    /// The weight times the relevance; comparable within one search only.
    pub score: f32,
    /// The passages that state it, surest first, at most 8.
    pub mentions: Vec<Mention>,
}

impl FollowedTriple {
    /// The triple as a phrase for a ranker: `turn uses bounded queue`.
    pub fn sentence(&self) -> String {
        format!(
            "{} {} {}",
            self.subject,
            self.predicate.replace('_', " "),
            self.object
        )
    }
}

/// The triples near a question.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Subgraph {
    /// The entities at which the search began, best first.
    pub entities: Vec<String>,
    /// The triples that were followed, step by step, best first within each.
    pub edges: Vec<FollowedTriple>,
}

impl Subgraph {
    /// Returns the best edges of all steps, at most `limit`.
    pub fn best(&self, limit: usize) -> Vec<FollowedTriple> {
        let mut best = self.edges.clone();
        // The edges of each step are sorted and the sort is stable, so an earlier step wins.
        best.sort_by(|a, b| b.score.total_cmp(&a.score));
        best.truncate(limit);
        best
    }
}

impl Graph {
    /// Searches by the words of the question.
    ///
    /// # Errors
    ///
    /// A limit is out of bounds.
    pub fn search(&self, question: &str, limits: &GraphLimits) -> Result<Subgraph, LimitError> {
        self.search_near(question, &[], limits)
    }

    /// Searches by the words of the question and from the entities with the keys `near`, best
    /// first, which were found in another way.
    ///
    /// # Errors
    ///
    /// A limit is out of bounds.
    pub fn search_near(
        &self,
        question: &str,
        near: &[String],
        limits: &GraphLimits,
    ) -> Result<Subgraph, LimitError> {
        limits.check()?;
        let words = self
            .normal
            .words(&question[..question.floor_char_boundary(MAX_QUERY_BYTES)]);
        let shared = self.read();
        Ok(Search::new(&shared, words).run(near, limits))
    }
}

struct Search<'a> {
    shared: &'a Shared,
    /// The weight of each word of the question.
    words: HashMap<String, f32>,
    all: f32,
}

/// An edge that may be followed next.
struct Candidate<'a> {
    id: u32,
    edge: &'a Edge,
    score: f32,
    ends: (&'a str, &'a str),
}

impl<'a> Search<'a> {
    fn new(shared: &'a Shared, question: Vec<String>) -> Self {
        let total = shared.entities.len() as f32;
        let mut words = HashMap::new();
        for word in question {
            if words.len() < MAX_QUERY_TERMS {
                let with = shared.by_word.get(&*word).map_or(1, BTreeSet::len) as f32;
                words.insert(word, (1.0 + total / with).ln());
            }
        }
        // Summed in one order: the addition of floats is not associative.
        let mut weights: Vec<f32> = words.values().copied().collect();
        weights.sort_by(f32::total_cmp);
        Self {
            shared,
            words,
            all: weights.into_iter().sum(),
        }
    }

    fn run(&self, near: &[String], limits: &GraphLimits) -> Subgraph {
        let seeds = self.seeds(near, limits.entity_limit);
        let mut found = Subgraph {
            entities: seeds.iter().map(|id| self.name(*id).to_owned()).collect(),
            edges: Vec::new(),
        };
        let (mut visited, mut followed) = (HashSet::<u32>::new(), HashSet::<u32>::new());
        let mut frontier: BTreeSet<u32> = seeds.into_iter().collect();
        for hop in 1..=limits.max_path_length {
            let room = limits.max_subgraph_size - found.edges.len();
            if room == 0 || frontier.is_empty() {
                break;
            }
            let mut candidates: HashMap<u32, Candidate<'a>> = HashMap::new();
            for entity in &frontier {
                let mut edges = self.edges_of(*entity, &followed);
                edges.truncate(limits.triple_limit);
                candidates.extend(edges.into_iter().map(|one| (one.id, one)));
            }
            visited.extend(std::mem::take(&mut frontier));
            let mut best: Vec<Candidate<'a>> = candidates.into_values().collect();
            best.sort_by(better);
            best.truncate(room);
            for one in best {
                followed.insert(one.id);
                let ends = [one.edge.subject, one.edge.object];
                frontier.extend(ends.into_iter().filter(|end| !visited.contains(end)));
                found.edges.push(self.followed(&one, hop));
            }
        }
        found
    }

    /// The entities to begin at, best first.
    fn seeds(&self, near: &[String], limit: usize) -> Vec<u32> {
        let mut by_words: HashMap<u32, f32> = HashMap::new();
        for word in self.words.keys() {
            let with = self.shared.by_word.get(&**word).into_iter().flatten();
            for id in with {
                by_words.entry(*id).or_insert_with(|| self.likeness(*id));
            }
        }
        let mut by_words: Vec<(u32, f32)> = by_words.into_iter().collect();
        let order = |a: &(u32, f32), b: &(u32, f32)| {
            b.1.total_cmp(&a.1).then_with(|| self.key(a.0).cmp(self.key(b.0)))
        };
        by_words.sort_by(order);
        let near: Vec<u32> = near.iter().filter_map(|key| self.shared.id(key)).collect();
        if !near.is_empty() {
            // Equal ranks keep the order of the lists, which is by key.
            by_words = reciprocal_ranks(&[by_words.into_iter().map(|(id, _)| id).collect(), near]);
        }
        by_words.truncate(limit);
        by_words.into_iter().map(|(id, _)| id).collect()
    }

    /// Returns how well a name matches the question: the weight of its words that the question
    /// contains, times their share of the name.
    fn likeness(&self, id: u32) -> f32 {
        let (mut held, mut all) = (0.0, 0.0);
        let total = self.shared.entities.len() as f32;
        for word in self.key(id).split(' ') {
            let with = self.shared.by_word.get(word).map_or(1, BTreeSet::len) as f32;
            let weight = (1.0 + total / with).ln();
            all += weight;
            if self.words.contains_key(word) {
                held += weight;
            }
        }
        if all > 0.0 {
            settled(held * held / all)
        } else {
            0.0
        }
    }

    /// The edges of an entity that were not followed yet, best first.
    fn edges_of(&self, entity: u32, followed: &HashSet<u32>) -> Vec<Candidate<'a>> {
        let entity = self.shared.entities.get(&entity);
        let ids = entity.into_iter().flat_map(|entity| &entity.edges);
        let mut edges: Vec<Candidate<'a>> = ids
            .filter(|id| !followed.contains(id))
            .filter_map(|id| {
                let edge = self.shared.edges.get(id)?;
                Some(Candidate {
                    id: *id,
                    edge,
                    score: self.score(edge),
                    ends: (self.key(edge.subject), self.key(edge.object)),
                })
            })
            .collect();
        edges.sort_by(better);
        edges
    }

    fn score(&self, edge: &Edge) -> f32 {
        let ends = self
            .key(edge.subject)
            .split(' ')
            .chain(self.key(edge.object).split(' '));
        let mut held: Vec<(&str, f32)> = Vec::new();
        for word in ends {
            if let Some(weight) = self.words.get(word)
                && held.iter().all(|(known, _)| *known != word)
            {
                held.push((word, *weight));
            }
        }
        let mut share: f32 = held.iter().map(|(_, weight)| weight).sum();
        let verb = edge.predicate.split('_').next().unwrap_or_default();
        // `consists_of` matches the question's `consist`: the verb begins with its stem. Without a
        // minimum length, `u` would match every `uses`.
        let named = self
            .words
            .iter()
            .filter(|(word, _)| word.len() > 2 && verb.starts_with(&***word));
        let named = named.filter(|(word, _)| held.iter().all(|(known, _)| known != word));
        share += named.map(|(_, weight)| *weight).fold(0.0, f32::max);
        let covered = if self.all > 0.0 {
            (share / self.all).min(1.0)
        } else {
            0.0
        };
        settled(edge.weight * (BASE + covered) / (BASE + 1.0))
    }

    fn followed(&self, one: &Candidate<'a>, hop: usize) -> FollowedTriple {
        let mut mentions: Vec<_> = one.edge.mentions.iter().collect();
        // Equally sure ones keep the order of their documents.
        mentions.sort_by(|a, b| b.1.total_cmp(a.1));
        let passage = |(place, weight): (&(u32, u32), &f32)| {
            let document_id = self.shared.documents.get(&place.0)?.id.clone();
            Some(Mention {
                chunk_id: Chunk::id_of(&document_id, place.1),
                document_id,
                weight: *weight,
            })
        };
        FollowedTriple {
            subject: self.name(one.edge.subject).to_owned(),
            predicate: one.edge.predicate.to_string(),
            object: self.name(one.edge.object).to_owned(),
            hop,
            weight: one.edge.weight,
            score: one.score,
            mentions: mentions
                .into_iter()
                .take(MAX_PASSAGES)
                .filter_map(passage)
                .collect(),
        }
    }

    fn key(&self, id: u32) -> &'a str {
        self.shared.entities.get(&id).map_or("", |entity| &entity.key)
    }

    fn name(&self, id: u32) -> &'a str {
        self.shared.entities.get(&id).map_or("", |entity| entity.name())
    }
}

/// Rounds a score, so that scores which are equal by the rules are equal although they were summed in
/// another order.
fn settled(score: f32) -> f32 {
    /// Steps between 0 and 1: coarser than the errors of the sums, finer than any difference that counts.
    const STEPS: f32 = 1e5;
    (score * STEPS).round() / STEPS
}

/// Orders by score, highest first, then by spelling.
fn better(a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
    let spelled = |one: &Candidate<'_>| {
        (
            one.ends.0.to_owned(),
            one.edge.predicate.to_string(),
            one.ends.1.to_owned(),
        )
    };
    b.score
        .total_cmp(&a.score)
        .then_with(|| spelled(a).cmp(&spelled(b)))
}

#[cfg(test)]
mod tests;
