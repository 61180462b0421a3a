//! The version or date of what is quoted from a list of changes: it is in the heading, and not in the text.

use crate::Hit;
use crate::search::holds::{has_version, has_year};

/// What a question for a version or a date begins with, or contains.
const ASKS_WHEN: [&str; 19] = [
    "which version",
    "what version",
    "which release",
    "what release",
    "first release",
    "first version",
    "since when",
    "when was",
    "when were",
    "when did",
    "how long ago",
    "seit wann",
    "welcher version",
    "wann wurde",
    "depuis quand",
    "quelle version",
    "desde cuándo",
    "qué versión",
    "da quando",
];

/// Those of them that ask for a date. A version is one only if nothing else is known.
const ASKS_FOR_DATE: [&str; 6] = [
    "when was",
    "when were",
    "when did",
    "how long ago",
    "seit wann",
    "wann wurde",
];

/// Returns the innermost heading of a hit with a version or a year, if a question asks for one that the quote lacks.
pub(super) fn dated<'a>(question: &str, hit: &'a Hit, quote: &str) -> Option<&'a str> {
    let question = question.to_lowercase();
    let asks = |phrases: &[&str]| phrases.iter().any(|phrase| question.contains(phrase));
    if !asks(&ASKS_WHEN) || has_year(quote) {
        return None;
    }
    let mut headings = hit.chunk.heading.as_deref()?.rsplit(" > ");
    let of_year = headings.clone().find(|heading| has_year(heading));
    of_year.filter(|_| asks(&ASKS_FOR_DATE)).or_else(|| {
        headings
            .find(|heading| has_version(heading) || has_year(heading))
            .filter(|_| !has_version(quote))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chunk;

    #[test]
    fn the_heading_says_when() {
        let mut chunk = Chunk::new("d", "CHANGELOG.md", 0, "The option has been removed.");
        chunk.heading = Some("Changes > 0.28.0 (28th November, 2024) > Removed".to_owned());
        let hit = Hit::new(chunk, 1.0);
        let release = Some("0.28.0 (28th November, 2024)");
        for (question, quote, wanted) in [
            (
                "since which version is the option gone",
                "The option has been removed.",
                release,
            ),
            ("When was it removed?", "The option has been removed.", release),
            (
                "since which version is it gone",
                "It has been removed in 0.27.",
                None,
            ),
            ("when was it removed", "It was removed in May 2021.", None),
            ("when was 0.28.0 released", "Version 0.28.0 removes it.", release),
            ("which version removes it", "Version 0.28.0 removes it.", None),
            ("what has been removed", "The option has been removed.", None),
        ] {
            assert_eq!(dated(question, &hit, quote), wanted, "{question}");
        }
    }
}
