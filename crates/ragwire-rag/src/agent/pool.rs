//! What was found so far: each chunk once, with its grade. It does not search and tells nobody.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::Hit;
use crate::answer::judge::Grade;
use crate::search::retrieve::fuse;
use ragwire::Citation;
use ragwire::event::CragClass;

/// The evidence of one question.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The lists as the searches gave them, for the fusion; widened chunks in the place of what they were.
    lists: Vec<Vec<Hit>>,
    /// Chunks that were graded and do not answer.
    refused: HashSet<String>,
    /// All chunks that were ever seen, and the tool that found each first.
    seen: HashMap<String, &'static str>,
}

impl Pool {
    /// Takes the hits of a search with `tool`. Those that were not there before.
    pub(super) fn add(&mut self, tool: &'static str, hits: Vec<Hit>) -> Vec<Hit> {
        let mut is_new = |hit: &&Hit| match self.seen.entry(hit.chunk.id.clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(tool);
                true
            }
        };
        let new = hits.iter().filter(|hit| is_new(hit)).cloned().collect();
        self.lists.push(hits);
        new
    }

    /// Lets these pass, whatever the gate said.
    pub(super) fn pass(&mut self, hits: &[Hit]) {
        for hit in hits {
            self.refused.remove(&hit.chunk.id);
        }
    }

    /// Gives each citation the tool that found its chunk first.
    pub(super) fn credit(&self, citations: &mut [Citation]) {
        for citation in citations {
            if let Some(tool) = self.seen.get(&citation.chunk_id) {
                (*tool).clone_into(&mut citation.source_tool);
            }
        }
    }

    /// Notes what the gate said of hits.
    pub(super) fn grade(&mut self, hits: &[Hit], grades: &[Grade]) {
        for (hit, grade) in hits.iter().zip(grades) {
            if grade.class == CragClass::Incorrect {
                self.refused.insert(hit.chunk.id.clone());
            }
        }
    }

    /// Puts a wider chunk where a chunk was.
    pub(super) fn widen(&mut self, chunk_id: &str, wider: &Hit) {
        if let Some(tool) = self.seen.get(chunk_id).copied() {
            self.seen.entry(wider.chunk.id.clone()).or_insert(tool);
        }
        for list in &mut self.lists {
            // Two passages of one section become the same: the first place counts.
            let mut has = list.iter().any(|hit| hit.chunk.id == wider.chunk.id);
            list.retain_mut(|hit| {
                if hit.chunk.id != chunk_id {
                    return true;
                }
                hit.chunk = wider.chunk.clone();
                !std::mem::replace(&mut has, true)
            });
        }
    }

    /// The best, fused over all searches: what the gate refused comes only where there is nothing else.
    pub(super) fn best(&self, limit: usize) -> Vec<Hit> {
        let all = fuse(&self.lists, usize::MAX);
        let let_pass = |hit: &&Hit| !self.refused.contains(&hit.chunk.id);
        let mut best: Vec<Hit> = all.iter().filter(let_pass).cloned().collect();
        if best.is_empty() {
            best = all;
        }
        best.truncate(limit);
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::judge::Thresholds;
    use crate::{Chunk, Level};

    fn hits(ordinals: &[u32]) -> Vec<Hit> {
        let hit = |ordinal: &u32| Hit::new(Chunk::new("d", "d.md", *ordinal, "x"), 1.0);
        ordinals.iter().map(hit).collect()
    }

    fn ids(hits: &[Hit]) -> Vec<&str> {
        hits.iter().map(|hit| hit.chunk.id.as_str()).collect()
    }

    fn section() -> Hit {
        let mut hit = Hit::new(Chunk::new("d", "d.md", 0, "x x"), 1.0);
        (hit.chunk.id, hit.chunk.level) = ("d-s0".to_owned(), Level::Section);
        hit
    }

    #[test]
    fn each_chunk_is_new_once_and_what_was_refused_comes_last() {
        let mut pool = Pool::default();
        assert_eq!(ids(&pool.add("a", hits(&[1, 2, 3]))), ["d-1", "d-2", "d-3"]);
        assert_eq!(ids(&pool.add("b", hits(&[3, 4]))), ["d-4"]);
        assert_eq!(ids(&pool.best(9)), ["d-3", "d-1", "d-2", "d-4"]);
        let grades = [0.1, 0.9, 0.1].map(|score| {
            Grade::new(
                score,
                Thresholds {
                    upper: 0.6,
                    lower: 0.3,
                },
            )
        });
        pool.grade(&hits(&[1, 2, 3]), &grades);
        assert_eq!(ids(&pool.best(9)), ["d-2", "d-4"]);
        pool.grade(&hits(&[4, 2, 4]), &[grades[0], grades[0], grades[0]]);
        assert_eq!(ids(&pool.best(2)), ["d-3", "d-1"], "there is nothing else");
        pool.pass(&hits(&[1, 4]));
        assert_eq!(ids(&pool.best(9)), ["d-1", "d-4"]);
    }

    #[test]
    fn a_citation_names_the_tool_that_found_its_chunk_first() {
        let mut pool = Pool::default();
        pool.add("a", hits(&[1]));
        pool.add("b", hits(&[1, 2]));
        pool.widen("d-2", &section());
        let mut cited = ["d-1", "d-2", "d-s0", "d-9"].map(|id| Citation::new("d", id, "x", "before"));
        pool.credit(&mut cited);
        let tools = cited.map(|citation| citation.source_tool);
        assert_eq!(tools, ["a", "b", "b", "before"]);
    }

    #[test]
    fn a_section_stands_for_its_passages_once() {
        let mut pool = Pool::default();
        pool.add("a", hits(&[1, 2, 3]));
        pool.add("b", hits(&[2]));
        pool.widen("d-2", &section());
        pool.widen("d-3", &section());
        assert_eq!(ids(&pool.best(9)), ["d-s0", "d-1"]);
        assert_eq!(ids(&pool.add("c", vec![section()])), Vec::<&str>::new());
    }
}
