//! What a question asks the meaning of: X of `what is X`.

use super::lexicon::{
    COPULAS_IN_CHARACTERS, DEFINITION_ENDS, DEFINITION_ENDS_IN_CHARACTERS, DEFINITION_STARTS,
    DEFINITION_STARTS_IN_CHARACTERS, GENERIC_NOUNS,
};

/// What follows X in `what does X do`.
const VERBS_AFTER: [&str; 3] = [" do", " mean", " stand for"];
/// Words that end as such a verb does but are not one.
const NO_ACTIONS: [&str; 5] = ["does", "this", "thus", "always", "sometimes"];
const MIN_ACTION_BYTES: usize = 4;
/// What may follow such a verb and not a plural.
const AFTER_ACTIONS: [&str; 36] = [
    "a", "all", "an", "any", "as", "at", "between", "both", "by", "down", "each", "every", "for", "from",
    "how", "if", "in", "into", "it", "its", "on", "one", "only", "out", "over", "that", "the", "their",
    "this", "to", "two", "up", "what", "when", "whether", "with",
];
/// The most words of what keywords ask the meaning of, and words that keywords do not have.
const MAX_KEYWORDS: usize = 3;
const NO_KEYWORDS: [&str; 15] = [
    "are", "can", "change", "do", "does", "how", "i", "in", "is", "my", "of", "what", "where", "which", "why",
];
/// The characters that a definition in Chinese, Japanese or Korean may have before its subject: `所谓`.
const LETTERS_BEFORE_SUBJECT: usize = 4;

/// Returns whether a question in lower case asks what a thing does.
pub(super) fn asks_for_action(asked: &str) -> bool {
    asked.starts_with("what does ") && asked.ends_with(" do")
}

/// Returns whether words are the verb of what a thing does and what may follow it: `rebuilds the`. `Robin hooks run` has a
/// plural there.
pub(super) fn is_action(word: &str, next: Option<&str>) -> bool {
    let is_lower = word.chars().all(|letter| letter.is_lowercase());
    let is_verb = word.ends_with('s') && !word.ends_with("ss") && !NO_ACTIONS.contains(&word);
    let is_noun = word
        .strip_suffix('s')
        .is_some_and(|one| GENERIC_NOUNS.contains(&one));
    let may_follow =
        |next: &str| AFTER_ACTIONS.contains(&next.to_lowercase().as_str()) || next.ends_with("ly");
    is_lower && is_verb && !is_noun && word.len() >= MIN_ACTION_BYTES && next.is_none_or(may_follow)
}

/// Returns what a question in lower case asks the meaning of, as a sentence or in keywords: `WAL abbreviation meaning`.
pub(super) fn subject_in_words(asked: &str) -> Option<&str> {
    let does = asked.strip_prefix("what does ");
    let does = does.and_then(|does| VERBS_AFTER.iter().find_map(|verb| does.strip_suffix(verb)));
    let does = does.map(|does| does.strip_prefix("the ").unwrap_or(does));
    let starts = || {
        DEFINITION_STARTS
            .iter()
            .find_map(|start| asked.strip_prefix(start))
    };
    does.or_else(starts).or_else(|| {
        let mut subject = without_end(asked)?;
        while let Some(shorter) = without_end(subject) {
            subject = shorter;
        }
        let words = || subject.split_whitespace();
        let are_keywords =
            words().count() <= MAX_KEYWORDS && !words().any(|word| NO_KEYWORDS.contains(&word));
        are_keywords.then_some(subject)
    })
}

fn without_end(text: &str) -> Option<&str> {
    DEFINITION_ENDS.iter().find_map(|end| text.strip_suffix(end))
}

/// Returns what a question in Chinese, Japanese or Korean asks for the meaning of.
pub(super) fn subject_in_characters(asked: &str) -> Option<&str> {
    let starts = DEFINITION_STARTS_IN_CHARACTERS.iter();
    let mut starts = starts.filter_map(|start| asked.strip_prefix(start));
    let ends = DEFINITION_ENDS_IN_CHARACTERS.iter();
    let mut ends = ends.filter_map(|end| asked.strip_suffix(end));
    let subject = starts.next().or_else(|| ends.next())?.trim();
    (!subject.is_empty()).then_some(subject)
}

/// Returns whether a sentence begins with what it defines: `守护进程（daemon）是`.
pub(super) fn is_defined_in_characters(subject: &str, sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let Some((before, after)) = lower.split_once(subject) else {
        return false;
    };
    let after = after.trim_start_matches([' ', '”', '"', '」', '』']);
    let after = match after.strip_prefix(['(', '（']) {
        Some(remark) => remark.split_once([')', '）']).map_or("", |(_, after)| after),
        None => after,
    };
    before.chars().count() <= LETTERS_BEFORE_SUBJECT
        && COPULAS_IN_CHARACTERS
            .iter()
            .any(|copula| after.trim_start().starts_with(copula))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_ask_for_a_meaning_too() {
        for (asked, subject) in [
            ("what does vacuum do", Some("vacuum")),
            ("what does wal stand for", Some("wal")),
            ("what is wal", Some("wal")),
            ("wal abbreviation meaning", Some("wal")),
            ("wal bedeutung", Some("wal")),
            ("the meaning", Some("the")),
            ("wal settings", None),
            ("how do i change a table definition", None),
            ("where is the column definition", None),
            ("what does the vacuum command do", Some("vacuum command")),
        ] {
            assert_eq!(subject_in_words(asked), subject, "{asked}");
        }
    }
}
