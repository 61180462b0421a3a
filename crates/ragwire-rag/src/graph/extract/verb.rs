//! The verbs of a sentence that relate what precedes them to what follows. Passive verbs are
//! reversed.

use super::words::{Lists, Word};

/// The certainty of a relation stated by a verb.
const VERB: f32 = 0.8;
/// The certainty of `X is a Y`.
const COPULA: f32 = 0.9;

/// A verb of relation, with its position in a sentence.
#[derive(Debug)]
pub(super) struct Verb {
    pub(super) name: &'static str,
    pub(super) weight: f32,
    pub(super) begin: usize,
    pub(super) end: usize,
    /// Whether the phrase before it is the object.
    pub(super) passive: bool,
}

impl Verb {
    /// Returns the verb that begins at a word.
    pub(super) fn at(lists: &Lists, sentence: &[Word<'_>], at: usize) -> Option<Self> {
        let is_be = |word: &Word<'_>| {
            matches!(
                &*word.lower,
                "is" | "are" | "was" | "were" | "be" | "been" | "being"
            )
        };
        let verb = |name, weight, begin, end, passive| {
            Some(Self {
                name,
                weight,
                begin,
                end,
                passive,
            })
        };
        if let Some((name, length)) = lists.relation(sentence, at) {
            let end = at + length;
            if is_be(&sentence[at]) {
                return verb(name, VERB, at, end, false);
            }
            let by = length == 1
                && !sentence[at].closes
                && sentence
                    .get(end)
                    .is_some_and(|next| next.lower == "by" && !next.closes);
            // `is used by`, `is now used by` and `used by` relate two things; `is used for` does
            // not.
            let mut begin = at;
            while begin > 0 && lists.is_between(&sentence[begin - 1]) && !lists.denies(&sentence[begin - 1]) {
                begin -= 1;
            }
            let has_be = begin > 0 && is_be(&sentence[begin - 1]) && !sentence[begin - 1].closes;
            return match (by, has_be) {
                (true, true) => verb(name, VERB, begin - 1, end + 1, true),
                (true, false) => verb(name, VERB, at, end + 1, true),
                (false, true) => None,
                (false, false) => verb(name, VERB, at, end, false),
            };
        }
        let article = |word: &Word<'_>| matches!(&*word.lower, "a" | "an" | "the" | "one") && !word.opens;
        let copula = is_be(&sentence[at])
            && !sentence[at].lower.starts_with("be")
            && !sentence[at].closes
            && sentence.get(at + 1).is_some_and(article);
        if copula {
            return verb("is_a", COPULA, at, at + 1, false);
        }
        None
    }
}
