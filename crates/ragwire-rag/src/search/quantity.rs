//! Whether a question asks for a number, and how well a sentence provides one.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

use crate::LibraryView;
use crate::search::analyzer::is_paired;
use crate::search::lexicon::{
    COUNT_PHRASES, CURRENCIES, DURATION_PHRASES, FOR_NOTHING, NUMBERED_PARTS, PRICE_PHRASES,
    QUANTITY_PHRASES, TIME_UNITS, is_quantity,
};
use crate::search::lines::{CELL, QUESTION_MARKS};

/// Number of words after a number that may name what it counts: `8 parallel attention layers, or
/// heads`.
const REACH_WORDS: usize = 5;

/// Number of words before what a question counts: `what is the`, `and roughly`.
const WORDS_BEFORE_COUNT: usize = 3;

/// Fit of a sentence that counts what was asked for.
const COUNTING: f32 = 3.0;

/// Returns a question without `number of`, which says what kind of answer is asked for and is in few
/// answers.
pub(crate) fn without_number_of(question: &str) -> Cow<'_, str> {
    const PHRASE: &str = "number of ";
    let at = question
        .as_bytes()
        .windows(PHRASE.len())
        .position(|part| part.eq_ignore_ascii_case(PHRASE.as_bytes()));
    match at {
        Some(at) => format!("{}{}", &question[..at], &question[at + PHRASE.len()..]).into(),
        None => question.into(),
    }
}

/// How a question begins that may ask for a version, and within how many words after it the word is.
const ASKS_FOR_VERSION: [&str; 10] = [
    "which", "what", "what's", "whats", "minimum", "minimal", "lowest", "welche", "welcher", "quelle",
];
const VERSION_WITHIN: usize = 3;
/// What may follow that word.
const AFTER_VERSION: [&str; 40] = [
    "are", "brauche", "brauchen", "braucht", "can", "could", "de", "did", "do", "does", "est", "faut", "for",
    "from", "had", "has", "have", "i", "in", "is", "ist", "must", "muss", "of", "on", "required", "needed",
    "runs", "should", "sind", "supports", "to", "used", "von", "was", "we", "were", "will", "wird", "with",
];

/// Returns whether a question asks what something costs.
pub(crate) fn asks_for_price(question: &str) -> bool {
    let lower = question.to_lowercase();
    // Not `how do I reduce the cost`.
    let asks_what_it_costs = ["what do", "what will", "what would", "how much"]
        .iter()
        .any(|start| lower.contains(start))
        && lower.trim_end_matches(QUESTION_MARKS).ends_with(" cost");
    asks_what_it_costs || PRICE_PHRASES.iter().any(|phrase| lower.contains(phrase))
}

/// Returns whether a question asks for a version: `which Ubuntu version`. Its answer has a number, and rarely that word.
pub(crate) fn asks_for_version(question: &str) -> bool {
    let lower = question.to_lowercase();
    let mut words = lower.unicode_words();
    let asks = words
        .next()
        .is_some_and(|first| ASKS_FOR_VERSION.contains(&first));
    let words: Vec<&str> = words.take(VERSION_WITHIN + 1).collect();
    let version = words
        .iter()
        .take(VERSION_WITHIN)
        .position(|word| *word == "version");
    // `version control` is something else.
    asks && version.is_some_and(|at| words.get(at + 1).is_none_or(|next| AFTER_VERSION.contains(next)))
}

/// The quantity that a question asks for.
#[derive(Debug)]
pub(crate) enum Quantity {
    /// None.
    None,
    /// Any number.
    Number,
    /// A number with a unit of time.
    Duration,
    /// An amount of money, or that none is asked for.
    Price,
    /// A number of these.
    Count {
        /// As the index spells them.
        stems: Vec<String>,
        /// Nothing is asked before. Of two questions in one, the first may ask for something else.
        is_first: bool,
    },
}

impl Quantity {
    pub(crate) fn of(library: LibraryView<'_>, question: &str) -> Self {
        let lower = question.to_lowercase();
        if DURATION_PHRASES.iter().any(|phrase| lower.contains(phrase)) {
            return Self::Duration;
        }
        if asks_for_price(question) {
            return Self::Price;
        }
        let parts = COUNT_PHRASES.iter().find_map(|phrase| lower.split_once(phrase));
        if let Some((before, after)) = parts {
            let counted: Vec<&str> = after.split_whitespace().take(2).collect();
            return Self::Count {
                stems: library.terms(&counted.join(" ")),
                is_first: before.split_whitespace().count() <= WORDS_BEFORE_COUNT,
            };
        }
        if QUANTITY_PHRASES.iter().any(|phrase| lower.contains(phrase)) {
            Self::Number
        } else {
            Self::None
        }
    }

    /// Returns 3 for a sentence that counts what was asked for, or gives a time or a price that was asked for, 1
    /// for another one with a number, and 0 for one without a number or if no number is asked for.
    pub(crate) fn fit(&self, library: LibraryView<'_>, sentence: &str) -> f32 {
        if matches!(self, Self::None) {
            return 0.0;
        }
        if matches!(self, Self::Price) && is_for_nothing(sentence) {
            return COUNTING;
        }
        if let Self::Count { stems, .. } = self
            && is_counted_in_row(library, stems, sentence)
        {
            return COUNTING;
        }
        let spaced = with_spaces_around_numbers(sentence);
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut fit: f32 = 0.0;
        for (at, word) in words.iter().enumerate() {
            let numbered = at > 0
                && NUMBERED_PARTS.contains(&words[at - 1].trim_start_matches('(').to_lowercase().as_str());
            if numbered || !is_number(word) {
                continue;
            }
            fit = fit.max(1.0);
            if matches!(self, Self::Duration) && words.get(at + 1).is_some_and(|next| is_time(next)) {
                return COUNTING;
            }
            let around = [at.checked_sub(1), Some(at), Some(at + 1)];
            let mut around = around.into_iter().flatten().filter_map(|at| words.get(at));
            if matches!(self, Self::Price) && around.any(|word| is_money(word)) {
                return COUNTING;
            }
            if let Self::Count { stems, .. } = self {
                let after = words[at + 1..]
                    .iter()
                    .take(REACH_WORDS)
                    .copied()
                    .collect::<Vec<_>>()
                    .join(" ");
                if library.terms(&after).iter().any(|stem| stems.contains(stem)) {
                    return COUNTING;
                }
            }
        }
        fit
    }
}

/// Returns whether the row of a table counts what is asked for: `columns per table | 1,600`.
fn is_counted_in_row(library: LibraryView<'_>, counted: &[String], row: &str) -> bool {
    let Some((name, cells)) = row.split_once(CELL) else {
        return false;
    };
    let mut values = cells
        .split(CELL)
        .filter_map(|cell| cell.split_whitespace().next());
    values.any(is_number) && library.terms(name).iter().any(|stem| counted.contains(stem))
}

/// Puts a space between a number and a Chinese, Japanese or Korean character: `第3章` has the number 3.
fn with_spaces_around_numbers(sentence: &str) -> Cow<'_, str> {
    if !sentence.chars().any(is_paired) {
        return sentence.into();
    }
    let mut spaced = String::with_capacity(sentence.len());
    let mut last = None;
    for letter in sentence.chars() {
        let borders = |last: char| {
            (last.is_ascii_digit() && is_paired(letter)) || (is_paired(last) && letter.is_ascii_digit())
        };
        if last.is_some_and(borders) {
            spaced.push(' ');
        }
        spaced.push(letter);
        last = Some(letter);
    }
    spaced.into()
}

fn is_time(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    TIME_UNITS.contains(&bare.to_lowercase().as_str())
}

/// Returns whether a word is a currency, or an amount with its sign: `euros`, `€`, `$5`.
fn is_money(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    word.contains(['€', '$', '£', '¥']) || CURRENCIES.contains(&bare.to_lowercase().as_str())
}

/// Returns whether a sentence says that something costs nothing.
fn is_for_nothing(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    FOR_NOTHING.iter().any(|phrase| lower.contains(phrase))
}

/// Returns `true` for a number in digits or words. `[20]` is a citation of the document, not a
/// number.
fn is_number(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    let digits = !word.starts_with('[') && bare.starts_with(|c: char| c.is_ascii_digit());
    digits || is_quantity(&bare.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits};

    #[test]
    fn number_of_is_no_word_of_an_answer() {
        for (question, rest) in [
            ("number of heads", "heads"),
            ("What is the Number of ä?", "What is the ä?"),
            ("a number of", "a number of"),
        ] {
            assert_eq!(without_number_of(question), rest);
        }
    }

    #[test]
    fn a_count_is_asked_for_at_the_beginning() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for (question, asks) in [
            ("how many heads", true),
            ("What is the number of heads?", true),
            ("Roughly how many heads are used?", true),
            ("What optimizer was used and how many heads?", false),
            ("What is attention?", false),
        ] {
            let quantity = Quantity::of(library.all(), question);
            assert_eq!(
                matches!(quantity, Quantity::Count { is_first: true, .. }),
                asks,
                "{question}"
            );
        }
    }

    #[test]
    fn a_number_fits_if_it_counts_the_right_thing() {
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
            ("How long did training take?", "It took 3.5 days.", COUNTING),
            ("How long did training take?", "It has 3 layers.", 1.0),
            ("how many ", "It reached 28.4 points.", 1.0),
            ("密码设几位", "密码要多于12个字符。", 1.0),
            ("密码设几位", "密码要尽可能复杂。", 0.0),
            ("сколько голов", "Есть 8 голов.", COUNTING),
            ("number of heads", "There are eight heads.", COUNTING),
            ("combien de têtes y a-t-il", "Il y a 8 têtes.", COUNTING),
            ("wie viele Köpfe gibt es", "Es gibt 8 Köpfe.", COUNTING),
            ("combien de temps", "Cela prend 3 heures.", COUNTING),
            ("what does a ticket cost?", "It is 29 € a month.", COUNTING),
            ("how much does it cost", "It costs $5.", COUNTING),
            ("what does a ticket cost", "It is 29 € a month.", COUNTING),
            ("how do I reduce the cost", "It is 29 € a month.", 0.0),
            (
                "how many heads can it have",
                "heads per layer | 1,600 | see below",
                COUNTING,
            ),
            ("how many heads can it have", "heads per layer | unlimited", 0.0),
            ("how many heads can it have", "layers | 1,600", 1.0),
            ("how expensive is it", "The program costs nothing.", COUNTING),
            ("Was kostet der Kurs?", "Der Kurs ist kostenlos.", COUNTING),
            ("Was kostet der Kurs?", "Für 49 Euro im Monat.", COUNTING),
            ("Was kostet der Kurs?", "Er dauert 3 Wochen.", 1.0),
            (
                "Combien coûte un billet ?",
                "Le tarif est de 12,50 euros.",
                COUNTING,
            ),
            ("Wer übernimmt die Kosten?", "Das sind 49 Euro.", 0.0),
        ];
        for (question, sentence, fit) in cases {
            assert_eq!(
                Quantity::of(library.all(), question).fit(library.all(), sentence),
                fit,
                "{question} {sentence}"
            );
        }
    }

    #[test]
    fn a_version_is_asked_for_at_the_beginning() {
        for (question, asks) in [
            ("which Ubuntu version", true),
            ("What version of Python is needed?", true),
            ("minimum rust version", true),
            ("welche Version von Rust brauche ich", true),
            ("what is version control", false),
            ("what version control is used", false),
            ("how do I update the version", false),
            ("what changes if I install an old version", false),
        ] {
            assert_eq!(asks_for_version(question), asks, "{question}");
        }
    }
}
