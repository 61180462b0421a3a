//! Whether a question asks for a number, and how well a sentence gives one.

use crate::Library;

/// What a question that wants a number says.
const ASKS: [&str; 14] = [
    "how many",
    "how much",
    "how long",
    "how large",
    "how big",
    "how often",
    "when ",
    "which year",
    "what year",
    "score",
    "rate",
    "percent",
    "number of",
    "size",
];
/// A number after one of these counts nothing.
const NUMBERED: [&str; 9] = [
    "table", "figure", "fig.", "section", "sec.", "chapter", "page", "row", "rows",
];
const SPELLED: [&str; 12] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "hundred",
];
/// How many words after a number still tell what it counts: `8 parallel attention layers, or heads`.
const REACH_WORDS: usize = 5;

/// Fit of a sentence that counts what was asked.
const COUNTING: f32 = 3.0;

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// No number.
    Words,
    /// A number.
    Number,
    /// A number of these, as the index spells them.
    Count(Vec<String>),
}

impl Asked {
    pub(crate) fn of(library: &Library, question: &str) -> Self {
        let lower = question.to_lowercase();
        if let Some(at) = lower.find("how many ") {
            let counted: Vec<&str> = lower[at..].split_whitespace().skip(2).take(2).collect();
            return Self::Count(library.terms(&counted.join(" ")));
        }
        if ASKS.iter().any(|ask| lower.contains(ask)) {
            Self::Number
        } else {
            Self::Words
        }
    }

    /// 0 for a sentence without number (or where none is wanted), 1 for one with a number, 3 where it counts what was asked.
    pub(crate) fn fit(&self, library: &Library, sentence: &str) -> f32 {
        if matches!(self, Self::Words) {
            return 0.0;
        }
        let words: Vec<&str> = sentence.split_whitespace().collect();
        let mut fit: f32 = 0.0;
        for (at, word) in words.iter().enumerate() {
            let numbered =
                at > 0 && NUMBERED.contains(&words[at - 1].trim_start_matches('(').to_lowercase().as_str());
            if numbered || !is_number(word) {
                continue;
            }
            fit = fit.max(1.0);
            if let Self::Count(counted) = self {
                let after = words[at + 1..]
                    .iter()
                    .take(REACH_WORDS)
                    .copied()
                    .collect::<Vec<_>>()
                    .join(" ");
                if library.terms(&after).iter().any(|stem| counted.contains(stem)) {
                    return COUNTING;
                }
            }
        }
        fit
    }
}

/// `[20]` is somebody else's citation.
fn is_number(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    let digits = !word.starts_with('[') && bare.starts_with(|c: char| c.is_ascii_digit());
    digits || SPELLED.contains(&bare.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LibraryLimits;

    #[test]
    fn numbers_fit_what_is_counted() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let cases = [
            (
                "How many heads are there?",
                "We employ h = 8 parallel attention layers, or heads.",
                COUNTING,
            ),
            ("How many heads are there?", "There are eight heads.", COUNTING),
            (
                "How many heads are there?",
                "It is 0.9 points worse, and quality also drops with many heads.",
                1.0,
            ),
            (
                "How many heads are there?",
                "See Table 3 rows for heads [20].",
                0.0,
            ),
            ("What score was reached?", "It reached 28.4 points.", 1.0),
            ("What is attention?", "It reached 28.4 points.", 0.0),
            ("how many ", "It reached 28.4 points.", 1.0),
        ];
        for (question, sentence, fit) in cases {
            assert_eq!(
                Asked::of(&library, question).fit(&library, sentence),
                fit,
                "{question} {sentence}"
            );
        }
    }
}
