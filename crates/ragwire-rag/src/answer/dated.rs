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

/// Returns the innermost heading of a hit with a version or a year, if a question asks for one that the quote lacks.
pub(super) fn dated<'a>(question: &str, hit: &'a Hit, quote: &str) -> Option<&'a str> {
    let question = question.to_lowercase();
    if !ASKS_WHEN.iter().any(|asks| question.contains(asks)) || is_dated(quote) {
        return None;
    }
    let headings = hit.chunk.heading.as_deref()?;
    headings.rsplit(" > ").find(|heading| is_dated(heading))
}

fn is_dated(text: &str) -> bool {
    has_version(text) || has_year(text)
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
            ("what has been removed", "The option has been removed.", None),
        ] {
            assert_eq!(dated(question, &hit, quote), wanted, "{question}");
        }
    }
}
