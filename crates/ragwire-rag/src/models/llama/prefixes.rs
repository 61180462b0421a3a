//! The decoded sequences of finished answers, kept in the context so that later prompts with the
//! same prefix do not decode it again.
//!
//! This module knows tokens and the numbers of sequences; its owner manages the cells.

use llama_cpp_2::token::LlamaToken;

/// Number of tokens that are shared at least: decoding fewer again costs as little.
pub(super) const MIN_SHARED_TOKENS: usize = 16;

/// The tokens that are decoded in a sequence.
#[derive(Debug)]
pub(super) struct Prefix {
    pub(super) sequence: i32,
    pub(super) tokens: Vec<LlamaToken>,
    /// When it was last used.
    used: u64,
}

/// The kept prefixes, bounded in number.
#[derive(Debug)]
pub(super) struct Prefixes {
    kept: Vec<Prefix>,
    most: usize,
    clock: u64,
}

impl Prefixes {
    pub(super) fn new(most: usize) -> Self {
        Self {
            kept: Vec::new(),
            most,
            clock: 0,
        }
    }

    /// Returns the number of cells that they take at most: cells that two of them share count
    /// twice.
    pub(super) fn cells(&self) -> usize {
        self.kept.iter().map(|prefix| prefix.tokens.len()).sum()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.kept.len()
    }

    /// Finds the prefix that has the most tokens in common with `prompt`. Returns its sequence and
    /// the number of common tokens.
    pub(super) fn longest(&self, prompt: &[LlamaToken]) -> Option<(i32, usize)> {
        self.kept
            .iter()
            .map(|prefix| (prefix.sequence, shared(&prefix.tokens, prompt)))
            .filter(|&(_, shared)| shared >= MIN_SHARED_TOKENS)
            .max_by_key(|&(_, shared)| shared)
    }

    /// Records that a sequence was used.
    pub(super) fn touch(&mut self, sequence: i32) {
        self.clock += 1;
        if let Some(prefix) = self.kept.iter_mut().find(|prefix| prefix.sequence == sequence) {
            prefix.used = self.clock;
        }
    }

    /// Keeps the tokens of `sequence`. Returns the sequences that are no longer needed, which
    /// include `sequence` itself if another one has all of its tokens.
    pub(super) fn keep(&mut self, sequence: i32, tokens: Vec<LlamaToken>) -> Vec<i32> {
        if self.most == 0 || tokens.len() < MIN_SHARED_TOKENS {
            return vec![sequence];
        }
        if let Some(longer) = self.kept.iter().find(|prefix| prefix.tokens.starts_with(&tokens)) {
            let longer = longer.sequence;
            self.touch(longer);
            return vec![sequence];
        }
        let mut free = Vec::new();
        self.kept.retain(|prefix| {
            let within = tokens.starts_with(&prefix.tokens);
            if within {
                free.push(prefix.sequence);
            }
            !within
        });
        if self.kept.len() == self.most {
            free.extend(self.forget_oldest().map(|prefix| prefix.sequence));
        }
        self.clock += 1;
        self.kept.push(Prefix {
            sequence,
            tokens,
            used: self.clock,
        });
        free
    }

    /// Removes the least recently used prefix.
    pub(super) fn forget_oldest(&mut self) -> Option<Prefix> {
        let (oldest, _) = self
            .kept
            .iter()
            .enumerate()
            .min_by_key(|(_, prefix)| prefix.used)?;
        Some(self.kept.swap_remove(oldest))
    }
}

/// Returns the number of tokens with which both texts begin.
pub(super) fn shared(a: &[LlamaToken], b: &[LlamaToken]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(range: std::ops::Range<i32>) -> Vec<LlamaToken> {
        range.map(LlamaToken).collect()
    }

    #[test]
    fn the_longest_prefix_wins() {
        let mut prefixes = Prefixes::new(4);
        assert!(prefixes.keep(0, tokens(0..20)).is_empty());
        let mut other = tokens(0..18);
        other.extend(tokens(50..60));
        assert!(prefixes.keep(1, other).is_empty());
        assert_eq!(prefixes.longest(&tokens(0..40)), Some((0, 20)));
        assert_eq!(
            prefixes.longest(&tokens(0..17)).map(|(_, shared)| shared),
            Some(17)
        );
        assert_eq!(prefixes.longest(&tokens(0..15)), None);
        assert_eq!(prefixes.cells(), 48);
    }

    #[test]
    fn a_prefix_of_a_kept_sequence_is_not_kept() {
        let mut prefixes = Prefixes::new(4);
        assert!(prefixes.keep(0, tokens(0..20)).is_empty());
        assert_eq!(prefixes.keep(1, tokens(0..30)), [0]);
        assert_eq!(prefixes.keep(2, tokens(0..25)), [2]);
        assert_eq!(prefixes.keep(3, tokens(0..10)), [3]);
        assert_eq!((prefixes.len(), prefixes.cells()), (1, 30));
    }

    #[test]
    fn the_least_recently_used_prefix_is_evicted_first() {
        let mut prefixes = Prefixes::new(2);
        assert!(prefixes.keep(0, tokens(0..20)).is_empty());
        assert!(prefixes.keep(1, tokens(100..120)).is_empty());
        prefixes.touch(0);
        assert_eq!(prefixes.keep(2, tokens(200..220)), [1]);
        assert_eq!(prefixes.forget_oldest().map(|prefix| prefix.sequence), Some(0));
        assert_eq!(prefixes.forget_oldest().map(|prefix| prefix.sequence), Some(2));
        assert!(prefixes.forget_oldest().is_none());
    }

    #[test]
    fn a_capacity_of_zero_keeps_nothing() {
        assert_eq!(Prefixes::new(0).keep(7, tokens(0..40)), [7]);
    }
}
