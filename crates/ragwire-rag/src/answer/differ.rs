//! Differences between texts of similar words: numbers, negations, opposites, names, and question
//! words.
//!
//! Neither a bag of words nor an embedding distinguishes "in 2019" from "in 2020", or "is" from "is
//! not", well enough to answer one question with the answer to another.

use std::collections::BTreeSet;

use unicode_segmentation::UnicodeSegmentation;

use super::lexicon::{AFTER_HOW, NEGATIONS, OPPOSITES, QUESTION_WORDS};
use crate::search::lexicon::digits_of;

/// The properties in which a text can differ from another one of similar words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// The numbers, in digits.
    pub(crate) numbers: BTreeSet<String>,
    /// Whether the number of negations is odd.
    pub(crate) negated: bool,
    poles: BTreeSet<String>,
    /// Capitalized words other than the first: usually names.
    names: BTreeSet<String>,
    /// The question words, `how` together with the word after it.
    pub(crate) question_words: BTreeSet<String>,
    /// The question words that exclude each other.
    exclusive: BTreeSet<String>,
}

impl Traits {
    /// Returns whether a claim may follow from a passage and its sentence that is most like the claim:
    /// the passage has its numbers, and both or neither are negated.
    pub(crate) fn agree_with(&self, passage: &Self, sentence: &Self) -> bool {
        self.numbers.is_subset(&passage.numbers) && self.negated == sentence.negated
    }

    pub(crate) fn of(text: &str) -> Self {
        let mut traits = Self::default();
        let capital = |word: &&str| word.starts_with(char::is_uppercase) && *word != "I";
        traits.names = text
            .unicode_words()
            .skip(1)
            .filter(capital)
            .map(str::to_lowercase)
            .collect();
        let words: Vec<String> = text.unicode_words().map(str::to_lowercase).collect();
        for (at, word) in words.iter().enumerate() {
            let word = word.replace('’', "'");
            if let Some(number) = number(&word) {
                traits.numbers.insert(number);
            }
            traits.negated ^= NEGATIONS.contains(&word.as_str()) || word.ends_with("n't");
            if OPPOSITES
                .iter()
                .any(|(one, other)| *one == word || *other == word)
            {
                traits.poles.insert(word.clone());
            }
            let Some((ask, exclusive)) = QUESTION_WORDS.iter().find(|(ask, _)| *ask == word) else {
                continue;
            };
            let counted = words
                .get(at + 1)
                .filter(|next| AFTER_HOW.contains(&next.as_str()));
            let counted = counted.filter(|_| matches!(*ask, "how" | "wie"));
            let ask = counted.map_or_else(|| (*ask).to_owned(), |counted| format!("{ask} {counted}"));
            if *exclusive || counted.is_some() {
                traits.exclusive.insert(ask.clone());
            }
            traits.question_words.insert(ask);
        }
        traits
    }

    /// Returns `true` if one answer cannot fit both questions: they have different numbers, only
    /// one is negated, they contain opposites, each has a name that the other lacks, or they ask
    /// for different kinds of answers.
    pub(crate) fn contradict(&self, other: &Self) -> bool {
        let opposed = |a: &Self, b: &Self| {
            let says = |traits: &Self, word: &str| traits.poles.contains(word);
            OPPOSITES
                .iter()
                .any(|(one, two)| says(a, one) != says(b, one) && says(a, two) != says(b, two))
        };
        let other_kind = !self.exclusive.is_empty()
            && !other.exclusive.is_empty()
            && self.exclusive.is_disjoint(&other.exclusive);
        let other_names = !self.names.is_subset(&other.names) && !other.names.is_subset(&self.names);
        self.numbers != other.numbers
            || self.negated != other.negated
            || opposed(self, other)
            || other_names
            || other_kind
    }
}

/// Returns the number that a word is, in digits and without separators between thousands.
fn number(word: &str) -> Option<String> {
    if word.contains(|c: char| c.is_numeric()) {
        return Some(word.replace([',', '\''], ""));
    }
    // `one` is as often a pronoun.
    digits_of(word).filter(|_| word != "one").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_that_cannot_have_one_answer_contradict() {
        for (one, other) in [
            ("Who won in 2019?", "Who won in 2020?"),
            ("Version 1.2.3", "Version 1.2.4"),
            ("What is step two?", "What is step three?"),
            ("What is it?", "What is it in 2020?"),
            ("Is it safe?", "Is it not safe?"),
            ("Can it swim?", "Can't it swim?"),
            ("Does it work with Redis?", "Does it work without Redis?"),
            ("Ist das sicher?", "Ist das nicht sicher?"),
            ("What comes before the commit?", "What comes after the commit?"),
            ("the largest model", "the smallest model"),
            ("layers of the encoder", "layers of the decoder"),
            ("When did it begin?", "Where did it begin?"),
            ("How many heads?", "How long are heads?"),
            ("How much is it?", "Who is it?"),
            ("What does NVIDIA earn?", "What does AMD earn?"),
            ("Does Ann like Bob?", "Does Ann like Cid?"),
        ] {
            let (one_traits, other_traits) = (Traits::of(one), Traits::of(other));
            assert!(one_traits.contradict(&other_traits), "{one} {other}");
            assert!(other_traits.contradict(&one_traits), "{other} {one}");
        }
    }

    #[test]
    fn questions_that_may_have_one_answer_do_not_contradict() {
        for (one, other) in [
            ("Who won in 2019?", "In 2019, who won?"),
            ("What are eight heads?", "8 heads are what?"),
            ("Are 1,000 rows many?", "Are 1000 rows many?"),
            ("It isn’t never safe", "It is safe"),
            ("before and after", "after and before"),
            ("What is the capital?", "Which city is the capital?"),
            ("When was it?", "What year was it?"),
            ("What does Ann Lee earn?", "What does Ann earn?"),
            ("Can I go?", "Can you go?"),
            ("", ""),
        ] {
            assert!(!Traits::of(one).contradict(&Traits::of(other)), "{one} {other}");
        }
        let asks = |text: &str| {
            Traits::of(text)
                .question_words
                .into_iter()
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(asks("How many are there, and how? Who?"), "how, how many, who");
    }
}
