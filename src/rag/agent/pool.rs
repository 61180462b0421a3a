//! What was found so far: each chunk once, with its grade. It does not search and tells nobody.

use std::collections::HashSet;

use crate::event::CragClass;
use crate::rag::Hit;
use crate::rag::judge::Grade;
use crate::rag::retrieve::fuse;

/// The evidence of one question.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The lists as the searches gave them, for the fusion; widened chunks in the place of what they were.
    lists: Vec<Vec<Hit>>,
    /// Chunks that were graded and do not answer.
    refused: HashSet<String>,
    /// All chunks that were ever seen.
    seen: HashSet<String>,
}

impl Pool {
    /// Takes a search's hits. Those that were not there before.
    pub(super) fn add(&mut self, hits: Vec<Hit>) -> Vec<Hit> {
        let new = hits.iter().filter(|hit| self.seen.insert(hit.chunk.id.clone()));
        let new = new.cloned().collect();
        self.lists.push(hits);
        new
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
        self.seen.insert(wider.chunk.id.clone());
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
    use crate::rag::judge::Thresholds;
    use crate::rag::{Chunk, Level};

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
        assert_eq!(ids(&pool.add(hits(&[1, 2, 3]))), ["d-1", "d-2", "d-3"]);
        assert_eq!(ids(&pool.add(hits(&[3, 4]))), ["d-4"]);
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
    }

    #[test]
    fn a_section_stands_for_its_passages_once() {
        let mut pool = Pool::default();
        pool.add(hits(&[1, 2, 3]));
        pool.add(hits(&[2]));
        pool.widen("d-2", &section());
        pool.widen("d-3", &section());
        assert_eq!(ids(&pool.best(9)), ["d-s0", "d-1"]);
        assert_eq!(ids(&pool.add(vec![section()])), Vec::<&str>::new());
    }
}
