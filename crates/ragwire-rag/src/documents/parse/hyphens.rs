//! Joins words that a line break has cut in two.

use std::collections::HashSet;

/// Words between two halves of words.
const CONJUNCTIONS: [&str; 14] = [
    "and", "or", "to", "und", "oder", "bis", "bzw.", "sowie", "et", "ou", "of", "en", "og", "och",
];
/// The longest word in bytes that is looked at. Addresses are words.
const MAX_WORD_BYTES: usize = 512;

/// The words of a document, in lower case. They show whether a hyphen at the end of a line belongs to the word.
#[derive(Debug, Default)]
pub(super) struct Words(HashSet<String>);

impl Words {
    /// Collects every word that occurs unbroken (and the second halves of broken words, which are rarely words).
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        // The first half of a broken word is not a word.
        let words = lines
            .flat_map(str::split_whitespace)
            .filter(|word| !word.ends_with('-'));
        Self(words.map(clean).collect())
    }

    /// Adds the next line to the text before it, with a space unless a word continues.
    pub(super) fn join(&self, text: &mut String, line: &str) {
        let half = text.strip_suffix('-').unwrap_or_default();
        let first = line.split_whitespace().next().unwrap_or_default();
        // The second half of another word is left out: `one- and two-storied`.
        let is_half =
            CONJUNCTIONS.contains(&first) && !self.0.contains(&format!("{}{first}", clean(last_word(text))));
        let is_broken =
            half.ends_with(char::is_alphanumeric) && line.starts_with(char::is_lowercase) && !is_half;
        if !is_broken {
            text.push(' ');
        } else if !self.keep_hyphen(text, line) {
            text.pop();
        }
        text.push_str(line);
    }

    /// Adds a line that was broken without regard to words, so that a name or an address may continue too.
    pub(super) fn join_names(&self, text: &mut String, line: &str) {
        if breaks_name(text, line) {
            text.push_str(line);
        } else {
            self.join(text, line);
        }
    }

    /// Decides `self-` + `attention` by the document's own words. If it writes the joined word elsewhere, the hyphen comes
    /// from the line break; if it writes the hyphen elsewhere, or both halves are words, the hyphen belongs to the word.
    fn keep_hyphen(&self, before: &str, after: &str) -> bool {
        let head = clean(last_word(before));
        let tail = clean(after.split_whitespace().next().unwrap_or(after));
        let has = |word: &str| self.0.contains(word);
        !has(&format!("{head}{tail}")) && (has(&format!("{head}-{tail}")) || (has(&head) && has(&tail)))
    }
}

/// Returns the last word of a text, or the end of it if it is long.
fn last_word(text: &str) -> &str {
    let text = &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_WORD_BYTES))..];
    text.rsplit(char::is_whitespace).next().unwrap_or(text)
}

fn clean(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

/// Returns whether a line break is within a name or an address: after `TEST_MC_`, `https://a.org/`.
fn breaks_name(before: &str, after: &str) -> bool {
    let word = last_word(before);
    let continues = after.starts_with(char::is_alphanumeric);
    continues && ((word.len() > 1 && word.ends_with('_')) || (word.ends_with('/') && word.contains("://")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_names_are_joined() {
        let words = Words::of(["a robin, reading self-attention,", "self and attention"].into_iter());
        for (before, after, wanted) in [
            ("Set TEST_MC_", "CORES to 2.", "Set TEST_MC_CORES to 2."),
            ("See https://a.org/", "package=b.", "See https://a.org/package=b."),
            ("See https://a.org/", "(a page)", "See https://a.org/ (a page)"),
            ("and/", "or", "and/ or"),
            ("a _", "b", "a _ b"),
            ("a word", "b", "a word b"),
            ("is read-", "ing it", "is reading it"),
            ("by self-", "attention.", "by self-attention."),
            ("an un-", "known one", "an unknown one"),
            ("the A-", "Team", "the A- Team"),
            ("a robin -", "reading", "a robin - reading"),
            ("Ein-", "und Ausgang", "Ein- und Ausgang"),
        ] {
            let mut text = before.to_owned();
            words.join_names(&mut text, after);
            assert_eq!(text, wanted);
        }
        let mut text = "See https://a.org/".to_owned();
        words.join(&mut text, "License: MIT");
        assert_eq!(text, "See https://a.org/ License: MIT");
    }
}
