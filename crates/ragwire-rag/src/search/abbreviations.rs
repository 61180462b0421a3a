//! Abbreviations with what they are short for: `Write-Ahead Logging (WAL)`, `TOAST (The Oversized-Attribute Storage
//! Technique)`.

/// The fewest and the most letters of an abbreviation.
const MIN_LETTERS: usize = 2;
const MAX_LETTERS: usize = 8;
/// Words that an abbreviation may leave out.
const LEFT_OUT: [&str; 14] = [
    "a", "an", "and", "at", "de", "der", "des", "die", "du", "for", "in", "of", "the", "to",
];

/// Returns whether a word may be an abbreviation.
pub(super) fn is_abbreviation(word: &str) -> bool {
    (MIN_LETTERS..=MAX_LETTERS).contains(&word.chars().count()) && word.chars().all(char::is_alphabetic)
}

/// Returns whether a sentence says what an abbreviation is short for, in parentheses or before them.
pub(super) fn is_spelled_out(sentence: &str, abbreviation: &str) -> bool {
    let is_it = |text: &str| {
        text.trim_matches(|c: char| !c.is_alphanumeric())
            .eq_ignore_ascii_case(abbreviation)
    };
    let mut before = 0;
    for (at, _) in sentence.match_indices('(') {
        let (outside, inside) = (&sentence[before..at], &sentence[at + 1..]);
        let Some(end) = inside.find(')') else { break };
        let inside = &inside[..end];
        if is_it(inside) && spells(outside, abbreviation).is_some() {
            return true;
        }
        let last = outside.split_whitespace().next_back();
        if last.is_some_and(is_it) && spells(inside, abbreviation) == Some(Spelling::All) {
            return true;
        }
        before = at;
    }
    false
}

/// How much of a text an abbreviation is short for.
#[derive(Debug, PartialEq, Eq)]
enum Spelling {
    All,
    End,
}

/// Returns how much of a text has the abbreviation as its first letters, up to the end of the text.
fn spells(text: &str, abbreviation: &str) -> Option<Spelling> {
    let words = text.split(|c: char| c.is_whitespace() || "-/(".contains(c));
    let words: Vec<String> = words
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    let lower = abbreviation.to_lowercase();
    let mut letters = lower.chars().rev().peekable();
    for (at, word) in words.iter().enumerate().rev() {
        let wanted = letters.peek()?;
        if word.starts_with(*wanted) {
            letters.next();
        } else if !LEFT_OUT.contains(&word.as_str()) {
            return None;
        }
        if letters.peek().is_none() {
            let rest = &words[..at];
            let is_left_out = rest.iter().all(|word| LEFT_OUT.contains(&word.as_str()));
            return Some(if is_left_out { Spelling::All } else { Spelling::End });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abbreviation_has_the_first_letters() {
        for (sentence, abbreviation, wanted) in [
            ("Write-Ahead Logging (WAL) is a method.", "wal", true),
            (
                "TOAST (The Oversized-Attribute Storage Technique) stores it.",
                "toast",
                true,
            ),
            (
                "The robin (a member of the Old World family) sings.",
                "robin",
                false,
            ),
            ("It is called the department of birds (DB).", "db", true),
            ("Use it (or not) in the Department of Birds (DB).", "DB", true),
            ("The nest (Big Birds) is DB.", "db", false),
            ("We use DB (see above).", "db", false),
            ("Birds (DB", "db", false),
            ("(DB) Birds", "db", false),
        ] {
            assert_eq!(is_spelled_out(sentence, abbreviation), wanted, "{sentence}");
        }
        assert!(is_abbreviation("WAL") && !is_abbreviation("x") && !is_abbreviation("d_k"));
    }
}
