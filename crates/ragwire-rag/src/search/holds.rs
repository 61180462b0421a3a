//! Whether a text holds a version, a year, a name or a reason.

use unicode_segmentation::UnicodeSegmentation;

use crate::search::lexicon::REASON_PHRASES;

/// Words that begin a sentence and are never a forename.
const NO_FORENAMES: [&str; 30] = [
    "the", "a", "an", "this", "these", "that", "those", "in", "on", "at", "of", "for", "from", "to", "by",
    "with", "and", "but", "or", "if", "when", "while", "as", "see", "use", "der", "die", "das", "le", "la",
];

/// Returns whether a text contains a number with a point, such as `1.70`.
pub(crate) fn has_version(text: &str) -> bool {
    let is_version = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let bare = bare.strip_prefix('v').unwrap_or(bare);
        bare.contains('.') && bare.starts_with(|c: char| c.is_ascii_digit())
    };
    text.split_whitespace().any(is_version)
}

/// Returns whether a text contains two words with a capital in a row, the second not at its start:
/// `Ada Lovelace`, and not `The Hash`, `Diffie-Hellman` or `Alice's`.
pub(crate) fn has_name(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).any(|pair| {
        // `GET. Path` are two sentences.
        let [first, second] = [pair[0].trim_start_matches(is_mark), pair[1].trim_matches(is_mark)];
        !NO_FORENAMES.contains(&first.to_lowercase().as_str())
            && [first, second].into_iter().all(is_capitalised)
    })
}

fn is_mark(letter: char) -> bool {
    !letter.is_alphanumeric()
}

/// Returns whether a word has a capital, then small letters, and only letters and hyphens.
fn is_capitalised(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(char::is_uppercase)
        && letters.next().is_some_and(char::is_lowercase)
        && letters.all(|letter| letter.is_alphabetic() || letter == '-')
}

/// Returns whether a sentence says why.
pub(crate) fn gives_reason(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    REASON_PHRASES.iter().any(|phrase| lower.contains(phrase))
}

/// Returns whether a text contains a year from 1900 to 2099.
pub(crate) fn has_year(text: &str) -> bool {
    let is_year = |word: &str| {
        let starts = word.starts_with("19") || word.starts_with("20");
        word.len() == 4 && starts && word.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.unicode_words().any(is_year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_two_words() {
        for (text, wanted) in [
            ("It was written by Ada Lovelace.", true),
            ("It was written by (Jean-Paul Sartre).", true),
            ("The Hash class", false),
            ("a Diffie-Hellman exchange", false),
            ("Generate Alice's keys", false),
            ("It sends GET. Paths are relative.", false),
        ] {
            assert_eq!(has_name(text), wanted, "{text}");
        }
    }
}
