//! What finished answers left behind in the context, so that prompts which begin alike are decoded once.
//!
//! It knows tokens and the numbers of sequences; the cells themselves are its owner's business.

use llama_cpp_2::token::LlamaToken;

/// Fewest tokens that are worth sharing: below, decoding them again costs as little.
pub(super) const MIN_SHARED_TOKENS: usize = 16;

/// Tokens that lie decoded in a sequence.
#[derive(Debug)]
pub(super) struct Prefix {
    pub(super) sequence: i32,
    pub(super) tokens: Vec<LlamaToken>,
    /// When it was last of use.
    used: u64,
}

/// The kept ones, bounded in number.
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

    /// Cells that they take at most: what two of them share is counted twice.
    pub(super) fn cells(&self) -> usize {
        self.kept.iter().map(|prefix| prefix.tokens.len()).sum()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.kept.len()
    }

    /// The one that begins longest like `prompt`, its sequence, and how many tokens they share.
    pub(super) fn longest(&self, prompt: &[LlamaToken]) -> Option<(i32, usize)> {
        self.kept
            .iter()
            .map(|prefix| (prefix.sequence, shared(&prefix.tokens, prompt)))
            .filter(|&(_, shared)| shared >= MIN_SHARED_TOKENS)
            .max_by_key(|&(_, shared)| shared)
    }

    /// Notes that a sequence was of use.
    pub(super) fn touch(&mut self, sequence: i32) {
        self.clock += 1;
        if let Some(prefix) = self.kept.iter_mut().find(|prefix| prefix.sequence == sequence) {
            prefix.used = self.clock;
        }
    }

    /// Keeps what lies in `sequence`. Gives the sequences that are not needed any more, `sequence` itself where another has all of it.
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

    /// Takes out the one that was of no use for the longest time.
    pub(super) fn forget_oldest(&mut self) -> Option<Prefix> {
        let (oldest, _) = self
            .kept
            .iter()
            .enumerate()
            .min_by_key(|(_, prefix)| prefix.used)?;
        Some(self.kept.swap_remove(oldest))
    }
}

/// How many tokens two texts begin with in common.
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
    fn the_longest_beginning_wins() {
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
    fn what_another_has_is_not_kept_twice() {
        let mut prefixes = Prefixes::new(4);
        assert!(prefixes.keep(0, tokens(0..20)).is_empty());
        assert_eq!(prefixes.keep(1, tokens(0..30)), [0]);
        assert_eq!(prefixes.keep(2, tokens(0..25)), [2]);
        assert_eq!(prefixes.keep(3, tokens(0..10)), [3]);
        assert_eq!((prefixes.len(), prefixes.cells()), (1, 30));
    }

    #[test]
    fn the_one_of_no_use_goes_first() {
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
    fn nothing_is_kept_where_nothing_may() {
        assert_eq!(Prefixes::new(0).keep(7, tokens(0..40)), [7]);
    }
}
