//! Passages about limits, for questions that do not say so: `how many columns can a table have`.

use unicode_segmentation::UnicodeSegmentation;

use crate::documents::LibraryView;
use crate::search::analyzer::Language;
use crate::search::retrieve::with_passages;
use crate::{DocumentFilter, Hit, LibraryError};

/// What a question for a limit begins with, or contains.
const ASKS_HOW_MUCH: [&str; 7] = [
    "how many",
    "how long",
    "how big",
    "how large",
    "how much",
    "how high",
    "how deep",
];
/// What it contains besides.
const ASKS_WHETHER: [&str; 4] = ["can", "could", "fit", "may"];
/// What asks for a limit with those, or with a number or a size.
const ASKS_FOR_MOST: [&str; 5] = ["allowed", "at most", "max", "maximum", "possible"];
const MEASURES: [&str; 4] = ["length of", "number of", "size", "size of"];
/// Words that only say that a limit is asked for. A sentence that gives one need not have them: `up to five reminders`.
const SAY_SO: [&str; 3] = ["max", "maximum", "number"];
/// What documents call it.
const CALLED: &str = "maximum limit limits";
const STEMS: [&str; 2] = ["limit", "maximum"];
/// How many passages are added.
const ADDED: usize = 10;

/// Adds passages about limits if a question asks for one.
pub(crate) fn with_bounds(
    library: LibraryView<'_>,
    query: &str,
    filter: &DocumentFilter,
    hits: Vec<Hit>,
) -> Result<Vec<Hit>, LibraryError> {
    if hits.is_empty() || !asks_for_bound(query, library.language_of_question(query)) {
        return Ok(hits);
    }
    let found = library.search_in(&format!("{query} {CALLED}"), ADDED, filter)?;
    Ok(with_passages(hits, found.into_iter().map(|hit| hit.chunk)))
}

/// Returns whether words of a document say that it is about a limit, by their stems.
pub(crate) fn names_bound<'a>(mut stems: impl Iterator<Item = &'a String>) -> bool {
    stems.any(|stem| STEMS.contains(&stem.as_str()))
}

/// Returns whether a word in lower case of a question for a limit only says that one is asked for.
pub(crate) fn says_that_bound_is_asked(word: &str) -> bool {
    SAY_SO.contains(&word)
}

/// Returns whether a question asks how many or how much of something is possible. Only English ones are known.
pub(crate) fn asks_for_bound(question: &str, language: Language) -> bool {
    if language != Language::English {
        return false;
    }
    let lower = question.to_lowercase();
    let has = |phrase: &&str| {
        if phrase.contains(' ') {
            lower.contains(*phrase)
        } else {
            lower.unicode_words().any(|word| word == *phrase)
        }
    };
    let asks_how_much = ASKS_HOW_MUCH.iter().any(has);
    let asks_for_most = ASKS_FOR_MOST.iter().any(has);
    (asks_how_much && (asks_for_most || ASKS_WHETHER.iter().any(has)))
        || (asks_for_most && MEASURES.iter().any(has))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    #[test]
    fn a_question_for_a_limit_finds_what_is_called_one() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let nests = "A nest has eggs, and a nest has twigs. ".repeat(20);
        let limits = "# Limits\n\nItem | Upper limit\neggs per nest | 12\n";
        for (name, text) in [("a.md", nests.as_str()), ("b.md", limits)] {
            let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        }
        let added = |query: &str| -> Vec<String> {
            let first = library.search("twigs", 1).unwrap();
            let hits = with_bounds(library.all(), query, &library.all().visible(), first).unwrap();
            hits.into_iter()
                .skip(1)
                .map(|hit| hit.chunk.document_name)
                .collect()
        };
        assert_eq!(added("how many eggs can a nest have"), ["b.md"]);
        assert_eq!(added("how many eggs are in a nest"), Vec::<String>::new());
        assert_eq!(added("can a nest have eggs"), Vec::<String>::new());
        assert_eq!(
            added("how can i change the number of eggs in a nest"),
            Vec::<String>::new()
        );
        assert_eq!(added("maximum number of eggs in a nest"), ["b.md"]);
        // Nothing is scored by hits that do not exist.
        let query = "how many eggs can a nest have";
        assert!(
            with_bounds(library.all(), query, &library.all().visible(), Vec::new())
                .unwrap()
                .is_empty()
        );
    }
}
