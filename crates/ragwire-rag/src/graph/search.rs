//! From a question to the triples near it: breadth first, best edges first, and never more than the limits say.
//!
//! 1. The words of the question find entities by the words of their names; rare words tell more. Names that an embedder finds alike come in
//!    by reciprocal rank. The best `entity-limit` of them are where the search begins.
//! 2. In each of `max-path-length` steps every entity at the edge gives its best `triple-limit` triples that were not followed yet; the best
//!    of all of them are followed while there are fewer than `max-subgraph-size`, and their other ends are the next edge.
//! 3. The best of what was followed, `edge-score-limit` and then `edge-limit` of them, are what an answer is written from.
//!
//! A triple is worth its weight times its relevance: the share of the question's words that it holds, on a base that lets it count without
//! any. Equal ones go by their spelling, so that a graph that grew and one that was opened find the same.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::limits::{GraphLimits, LimitError};
use super::store::{Edge, Graph, Shared};
use crate::Chunk;
use crate::search::lexical::{MAX_QUERY_BYTES, MAX_QUERY_TERMS};
use crate::search::retrieve::reciprocal_ranks;

/// What a triple without any word of the question is worth, as a share of one with all.
const BASE: f32 = 0.1;
/// Passages told of one triple, surest first: it may stand in thousands.
pub const MAX_PASSAGES: usize = 8;

/// A passage that says a triple.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Said {
    /// The document.
    pub document_id: String,
    /// The chunk.
    pub chunk_id: String,
    /// How sure it is.
    pub weight: f32,
}

/// A triple that was followed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Followed {
    /// The name of its subject, as it is spelled most often.
    pub subject: String,
    /// What is said of it.
    pub predicate: String,
    /// The name of its object.
    pub object: String,
    /// In which step, counted from 1.
    pub hop: usize,
    /// How sure it is, by all passages that say it.
    pub weight: f32,
    /// Its weight times its relevance; comparable within one search only.
    pub score: f32,
    /// Passages that say it, at most [`MAX_PASSAGES`], surest first.
    pub said: Vec<Said>,
}

impl Followed {
    /// `turn uses bounded queue`, as a ranker reads it.
    pub fn sentence(&self) -> String {
        format!(
            "{} {} {}",
            self.subject,
            self.predicate.replace('_', " "),
            self.object
        )
    }
}

/// What was found for a question.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Subgraph {
    /// The entities that the search began at, best first.
    pub entities: Vec<String>,
    /// The triples that were followed: step by step, best first in each.
    pub edges: Vec<Followed>,
}

impl Subgraph {
    /// The best edges of all steps, at most so many.
    pub fn best(&self, limit: usize) -> Vec<Followed> {
        let mut best = self.edges.clone();
        // Edges of a step are sorted already; sorting is stable, so an earlier step wins.
        best.sort_by(|a, b| b.score.total_cmp(&a.score));
        best.truncate(limit);
        best
    }
}

impl Graph {
    /// Searches by the words of the question.
    ///
    /// # Errors
    /// A limit is out of its bounds.
    pub fn search(&self, question: &str, limits: &GraphLimits) -> Result<Subgraph, LimitError> {
        self.search_near(question, &[], limits)
    }

    /// The same, with keys of entities that something else found, best first.
    ///
    /// # Errors
    /// A limit is out of its bounds.
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
    /// What each word of the question tells.
    words: HashMap<String, f32>,
    all: f32,
}

/// An edge that may be followed.
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
        // Summed up in one order: floats are not associative.
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
                found.edges.push(self.told(&one, hop));
            }
        }
        found
    }

    /// Where to begin, best first.
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
            // Equal ranks stay in the order of the lists, which is by key.
            by_words = reciprocal_ranks(&[by_words.into_iter().map(|(id, _)| id).collect(), near]);
        }
        by_words.truncate(limit);
        by_words.into_iter().map(|(id, _)| id).collect()
    }

    /// How well a name fits the question: what its words in the question tell, and what share of the name they are.
    fn likeness(&self, id: u32) -> f32 {
        let (mut held, mut all) = (0.0, 0.0);
        let total = self.shared.entities.len() as f32;
        for word in self.key(id).split(' ') {
            let with = self.shared.by_word.get(word).map_or(1, BTreeSet::len) as f32;
            let tells = (1.0 + total / with).ln();
            all += tells;
            if self.words.contains_key(word) {
                held += tells;
            }
        }
        if all > 0.0 { held * held / all } else { 0.0 }
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
            if let Some(tells) = self.words.get(word)
                && held.iter().all(|(known, _)| *known != word)
            {
                held.push((word, *tells));
            }
        }
        let mut share: f32 = held.iter().map(|(_, tells)| tells).sum();
        let verb = edge.predicate.split('_').next().unwrap_or_default();
        // `consists_of` holds the question's `consist`: a verb's stem begins it. `u` would begin every `uses`.
        let named = self
            .words
            .iter()
            .filter(|(word, _)| word.len() > 2 && verb.starts_with(&***word));
        let named = named.filter(|(word, _)| held.iter().all(|(known, _)| known != word));
        share += named.map(|(_, tells)| *tells).fold(0.0, f32::max);
        let covered = if self.all > 0.0 {
            (share / self.all).min(1.0)
        } else {
            0.0
        };
        edge.weight * (BASE + covered) / (BASE + 1.0)
    }

    fn told(&self, one: &Candidate<'a>, hop: usize) -> Followed {
        let mut said: Vec<_> = one.edge.said.iter().collect();
        // Equally sure ones stay in the order of their documents.
        said.sort_by(|a, b| b.1.total_cmp(a.1));
        let passage = |(place, weight): (&(u32, u32), &f32)| {
            let document_id = self.shared.documents.get(&place.0)?.id.clone();
            Some(Said {
                chunk_id: Chunk::id_of(&document_id, place.1),
                document_id,
                weight: *weight,
            })
        };
        Followed {
            subject: self.name(one.edge.subject).to_owned(),
            predicate: one.edge.predicate.to_string(),
            object: self.name(one.edge.object).to_owned(),
            hop,
            weight: one.edge.weight,
            score: one.score,
            said: said.into_iter().take(MAX_PASSAGES).filter_map(passage).collect(),
        }
    }

    fn key(&self, id: u32) -> &'a str {
        self.shared.entities.get(&id).map_or("", |entity| &entity.key)
    }

    fn name(&self, id: u32) -> &'a str {
        self.shared.entities.get(&id).map_or("", |entity| entity.name())
    }
}

/// Higher scores first, then by spelling.
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
#[path = "search_tests.rs"]
mod tests;
