//! The beginnings of documents that are named after what a question asks for. Each passage of the page `Struct HashMap`
//! has that word, and the first one says what it is.

use std::collections::HashSet;

use crate::documents::LibraryView;
use crate::search::asked::Asked;
use crate::{Hit, LibraryError};

/// How many documents get their first passage added. A name that more of them have is too common to help.
const MAX_DOCUMENTS: usize = 3;

/// Adds the first passages of the documents among the hits that have the name of what is asked about.
pub(crate) fn with_beginnings(
    library: LibraryView<'_>,
    query: &str,
    mut hits: Vec<Hit>,
) -> Result<Vec<Hit>, LibraryError> {
    let language = library.language_of_question(&library.well_spelled(query));
    let asked = Asked::of(library, query, language);
    if !asked.is_definition() {
        return Ok(hits);
    }
    let mut seen = HashSet::new();
    let named = hits.iter().filter(|hit| {
        let headings = hit.chunk.heading.as_deref().unwrap_or_default();
        let outermost = headings.split(" > ").next().unwrap_or_default();
        seen.insert(hit.chunk.document_id.as_str()) && asked.is_named_by(library, outermost, language)
    });
    let named: Vec<String> = named
        .take(MAX_DOCUMENTS)
        .map(|hit| hit.chunk.document_id.clone())
        .collect();
    let least = hits.iter().map(|hit| hit.score).fold(f32::INFINITY, f32::min);
    for document in named {
        let first = format!("{document}-0");
        let is_known = hits.iter().any(|hit| hit.chunk.id == first);
        let passage = if is_known { None } else { library.chunk(&first)? };
        hits.extend(passage.map(|chunk| Hit::new(chunk, least)));
    }
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    #[test]
    fn the_page_of_what_is_asked_about_begins_with_its_definition() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let page = "# Struct Garden\n\nA place with birds.\n\n## count\n\nCounts the garden.\n";
        for (name, text) in [
            ("garden.md", page),
            ("other.md", "# Robins\n\nThey like a garden.\n"),
        ] {
            library
                .add(
                    name,
                    &parse(name, text.as_bytes(), &ParseLimits::default()).unwrap(),
                )
                .unwrap();
        }
        let found = |query: &str| -> Vec<String> {
            let hits = library.search("counts like", 8).unwrap();
            assert_eq!(hits.len(), 2, "{hits:?}");
            let hits = with_beginnings(library.all(), query, hits).unwrap();
            hits.into_iter().map(|hit| hit.chunk.text).collect()
        };
        let hits = ["Counts the garden.", "They like a garden."];
        assert_eq!(
            found("what is a garden"),
            [&hits[..], &["A place with birds."]].concat()
        );
        assert_eq!(found("how do I count a garden"), hits);
        assert_eq!(found("what is a robin"), hits);
    }
}
