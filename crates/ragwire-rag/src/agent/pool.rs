//! The evidence found so far: each chunk once, with its grade. The pool neither searches nor emits
//! events.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::Hit;
use crate::answer::judge::Grade;
use crate::search::retrieve::fuse;
use ragwire::Citation;
use ragwire::event::CragClass;

/// The evidence of one question.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The hits of each search with its weight, for the fusion. A widened chunk takes the position of
    /// the original.
    lists: Vec<(f32, Vec<Hit>)>,
    /// The gate's grades by the IDs of the chunks that it has read.
    grades: HashMap<String, CragClass>,
    /// IDs of all chunks that were ever seen, with the tool that found each first.
    seen: HashMap<String, &'static str>,
}

impl Pool {
    /// Adds the hits of a search with `tool` and returns those that the pool did not have. `weight`
    /// is how much its order counts.
    pub(super) fn add(&mut self, tool: &'static str, hits: Vec<Hit>, weight: f32) -> Vec<Hit> {
        let mut is_new = |hit: &&Hit| match self.seen.entry(hit.chunk.id.clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(tool);
                true
            }
        };
        let new = hits.iter().filter(|hit| is_new(hit)).cloned().collect();
        self.lists.push((weight, hits));
        new
    }

    /// Accepts these hits whatever their grades.
    pub(super) fn pass(&mut self, hits: &[Hit]) {
        for hit in hits {
            self.grades.insert(hit.chunk.id.clone(), CragClass::Correct);
        }
    }

    /// Sets the source tool of each citation to the tool that found its chunk first.
    pub(super) fn credit(&self, citations: &mut [Citation]) {
        for citation in citations {
            if let Some(tool) = self.seen.get(&citation.chunk_id) {
                (*tool).clone_into(&mut citation.source_tool);
            }
        }
    }

    /// Records the gate's grades.
    pub(super) fn grade(&mut self, hits: &[Hit], grades: &[Grade]) {
        for (hit, grade) in hits.iter().zip(grades) {
            self.grades.insert(hit.chunk.id.clone(), grade.class);
        }
    }

    /// Replaces a chunk by a wider one.
    pub(super) fn widen(&mut self, chunk_id: &str, wider: &Hit) {
        if let Some(tool) = self.seen.get(chunk_id).copied() {
            self.seen.entry(wider.chunk.id.clone()).or_insert(tool);
        }
        if let Some(class) = self.grades.get(chunk_id).copied() {
            self.grades.insert(wider.chunk.id.clone(), class);
        }
        for (_, list) in &mut self.lists {
            // Two passages of one section become the same chunk: the first position counts.
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

    /// Returns the best hits, fused over all searches. Hits that the gate rejected are used only if it
    /// accepted no other: hits that it did not read are not better.
    pub(super) fn best(&self, limit: usize) -> Vec<Hit> {
        let all = fuse(&self.lists, usize::MAX);
        let class = |hit: &Hit| self.grades.get(&hit.chunk.id).copied();
        let is_rejected = |hit: &Hit| class(hit) == Some(CragClass::Incorrect);
        let mut best: Vec<Hit> = all.iter().filter(|hit| !is_rejected(hit)).cloned().collect();
        if best.len() < all.len() && best.iter().all(|hit| class(hit).is_none()) {
            best = all;
        }
        if let [first, second, ..] = &mut best[..]
            && let Some(lead) = self.lead(&first.chunk.id)
        {
            first.score = second.score * lead;
        }
        best.truncate(limit);
        best
    }

    /// Returns how many times the score of the second hit that of the first one is in the list that
    /// counts most, if `chunk_id` is its first hit. The fusion sees only ranks.
    fn lead(&self, chunk_id: &str) -> Option<f32> {
        let heavier = |a: &(f32, Vec<Hit>), b: &(f32, Vec<Hit>)| a.0 >= b.0;
        let (_, list) = self
            .lists
            .iter()
            .reduce(|a, b| if heavier(a, b) { a } else { b })?;
        match &list[..] {
            [first, second, ..] if first.chunk.id == chunk_id && second.score > 0.0 => {
                Some((first.score / second.score).max(1.0))
            }
            _ => None,
        }
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

    fn grade(score: f64) -> Grade {
        let thresholds = Thresholds {
            upper: 0.6,
            lower: 0.3,
        };
        Grade::new(score, thresholds)
    }

    fn section() -> Hit {
        let mut hit = Hit::new(Chunk::new("d", "d.md", 0, "x x"), 1.0);
        (hit.chunk.id, hit.chunk.level) = ("d-s0".to_owned(), Level::Section);
        hit
    }

    #[test]
    fn each_chunk_is_new_once_and_rejected_chunks_come_last() {
        let mut pool = Pool::default();
        assert_eq!(ids(&pool.add("a", hits(&[1, 2, 3]), 1.0)), ["d-1", "d-2", "d-3"]);
        assert_eq!(ids(&pool.add("b", hits(&[3, 4]), 1.0)), ["d-4"]);
        assert_eq!(ids(&pool.best(9)), ["d-3", "d-1", "d-2", "d-4"]);
        let grades = [0.1, 0.9, 0.1].map(grade);
        pool.grade(&hits(&[1, 2, 3]), &grades);
        assert_eq!(ids(&pool.best(9)), ["d-2", "d-4"]);
        pool.grade(&hits(&[4, 2, 4]), &[grades[0], grades[0], grades[0]]);
        assert_eq!(ids(&pool.best(2)), ["d-3", "d-1"], "there are no other hits");
        pool.pass(&hits(&[1, 4]));
        assert_eq!(ids(&pool.best(9)), ["d-1", "d-4"]);
    }

    #[test]
    fn hits_that_the_gate_did_not_read_do_not_replace_those_that_it_rejected() {
        let (bad, good) = (grade(0.1), grade(0.9));
        let mut pool = Pool::default();
        pool.add("a", hits(&[1, 2]), 1.0);
        pool.add("b", hits(&[3]), 0.01);
        pool.grade(&hits(&[1, 2]), &[bad, bad]);
        assert_eq!(ids(&pool.best(9)), ["d-1", "d-2", "d-3"]);
        let mut pool = Pool::default();
        pool.add("a", hits(&[1, 2]), 1.0);
        pool.add("b", hits(&[3]), 0.01);
        pool.grade(&hits(&[1, 2]), &[bad, good]);
        assert_eq!(ids(&pool.best(9)), ["d-2", "d-3"], "it accepted one");
    }

    #[test]
    fn a_citation_names_the_tool_that_found_its_chunk_first() {
        let mut pool = Pool::default();
        pool.add("a", hits(&[1]), 1.0);
        pool.add("b", hits(&[1, 2]), 1.0);
        pool.widen("d-2", &section());
        let mut cited = ["d-1", "d-2", "d-s0", "d-9"].map(|id| Citation::new("d", id, "x", "before"));
        pool.credit(&mut cited);
        let tools = cited.map(|citation| citation.source_tool);
        assert_eq!(tools, ["a", "b", "b", "before"]);
    }

    #[test]
    fn the_first_hit_keeps_the_lead_that_it_has_in_the_list_that_counts_most() {
        let mut clear = hits(&[1, 2, 3]);
        clear[0].score = 4.0;
        let mut pool = Pool::default();
        pool.add("a", clear, 1.0);
        pool.add("b", hits(&[2, 3]), 0.01);
        let best = pool.best(9);
        assert_eq!(ids(&best), ["d-1", "d-2", "d-3"]);
        assert!((best[0].score / best[1].score - 4.0).abs() < 1e-4, "{best:?}");
        assert!(best[1].score > best[2].score);
    }

    #[test]
    fn a_section_replaces_its_passages_once() {
        let mut pool = Pool::default();
        pool.add("a", hits(&[1, 2, 3]), 1.0);
        pool.add("b", hits(&[2]), 1.0);
        pool.widen("d-2", &section());
        pool.widen("d-3", &section());
        assert_eq!(ids(&pool.best(9)), ["d-s0", "d-1"]);
        assert_eq!(ids(&pool.add("c", vec![section()], 1.0)), Vec::<&str>::new());
    }
}
