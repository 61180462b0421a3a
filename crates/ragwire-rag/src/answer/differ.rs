//! What two texts of the same words differ in all the same: numbers, negations, opposites, and what is asked for.
//!
//! Neither a bag of words nor an embedding tells "in 2019" from "in 2020", or "is" from "is not", well enough to answer the one with what was
//! said to the other. The tables are English with the commonest German words; what stands in none of them does not count.

use std::collections::BTreeSet;

use unicode_segmentation::UnicodeSegmentation;

/// Words that turn a sentence around, besides all that end in `n't`.
const NEGATIONS: [&str; 21] = [
    "not", "no", "never", "none", "nor", "neither", "cannot", "cant", "dont", "without", "nobody", "nothing",
    "nowhere", "except", "nicht", "kein", "keine", "keinen", "nie", "niemals", "ohne",
];
/// Numbers in words. `one` is a pronoun as often, so it is left out.
const SPELLED: [(&str, &str); 15] = [
    ("zero", "0"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("eleven", "11"),
    ("twelve", "12"),
    ("hundred", "100"),
    ("thousand", "1000"),
    ("million", "1000000"),
];
/// Words of which a text says the one or the other.
const OPPOSITES: [(&str, &str); 32] = [
    ("before", "after"),
    ("first", "last"),
    ("oldest", "newest"),
    ("earliest", "latest"),
    ("minimum", "maximum"),
    ("min", "max"),
    ("most", "least"),
    ("more", "less"),
    ("more", "fewer"),
    ("largest", "smallest"),
    ("larger", "smaller"),
    ("longest", "shortest"),
    ("highest", "lowest"),
    ("higher", "lower"),
    ("fastest", "slowest"),
    ("faster", "slower"),
    ("best", "worst"),
    ("better", "worse"),
    ("above", "below"),
    ("over", "under"),
    ("increase", "decrease"),
    ("enable", "disable"),
    ("allow", "forbid"),
    ("start", "stop"),
    ("start", "end"),
    ("open", "close"),
    ("add", "remove"),
    ("install", "uninstall"),
    ("encoder", "decoder"),
    ("upload", "download"),
    ("advantages", "disadvantages"),
    ("true", "false"),
];
/// Words that say what is asked for, and whether the answer to the one can never be that to another of them.
const ASKS: [(&str, bool); 17] = [
    ("who", true),
    ("whom", true),
    ("whose", true),
    ("when", true),
    ("where", true),
    ("why", true),
    ("what", false),
    ("which", false),
    ("how", false),
    ("wer", true),
    ("wann", true),
    ("wo", true),
    ("warum", true),
    ("wieso", true),
    ("was", false),
    ("welche", false),
    ("wie", false),
];
/// What `how` asks for together with the word behind it.
const HOW: [&str; 14] = [
    "many", "much", "long", "often", "large", "big", "far", "old", "fast", "high", "tall", "deep", "viele",
    "lange",
];

/// What a text can differ in from another of the same words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Its numbers, spelled in digits.
    pub(crate) numbers: BTreeSet<String>,
    /// An odd number of negations.
    pub(crate) negated: bool,
    poles: BTreeSet<String>,
    /// Words with a capital that do not begin the text: names, as a rule.
    names: BTreeSet<String>,
    /// What is asked for, as it is said.
    pub(crate) asks: BTreeSet<String>,
    /// Those of them that exclude each other.
    exclusive: BTreeSet<String>,
}

impl Traits {
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
            let Some((ask, exclusive)) = ASKS.iter().find(|(ask, _)| *ask == word) else {
                continue;
            };
            let counted = words.get(at + 1).filter(|next| HOW.contains(&next.as_str()));
            let counted = counted.filter(|_| matches!(*ask, "how" | "wie"));
            let ask = counted.map_or_else(|| (*ask).to_owned(), |counted| format!("{ask} {counted}"));
            if *exclusive || counted.is_some() {
                traits.exclusive.insert(ask.clone());
            }
            traits.asks.insert(ask);
        }
        traits
    }

    /// Whether what answers the one question cannot answer the other: other numbers, one of them negated, opposites, each with a name that the
    /// other has not, or another kind of answer asked for.
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

/// A word with a digit in it, without the commas between thousands, or a number in words.
fn number(word: &str) -> Option<String> {
    if word.contains(|c: char| c.is_numeric()) {
        return Some(word.replace([',', '\''], ""));
    }
    let spelled = SPELLED.iter().find(|(spelled, _)| *spelled == word);
    spelled.map(|(_, number)| (*number).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_have_one_answer_contradicts() {
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
    fn what_may_have_one_answer_does_not() {
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
        let asks = |text: &str| Traits::of(text).asks.into_iter().collect::<Vec<_>>().join(", ");
        assert_eq!(asks("How many are there, and how? Who?"), "how, how many, who");
    }
}
