//! The beginnings of documents and sections that are named after what a question asks for. Each passage of the page
//! `Struct HashMap` has that word, and the first one says what it is.

use std::collections::{HashMap, HashSet};

use crate::documents::LibraryView;
use crate::search::analyzer::Language;
use crate::search::asked::Asked;
use crate::search::labels::without_site;
use crate::search::retrieve::with_passages;
use crate::{Chunk, DocumentFilter, Hit, LibraryError};

/// How many documents, and how many sections, get their first passages added. A name that more of them have is too
/// common to help.
const MAX_BEGINNINGS: usize = 3;
/// How many passages of a document are added: the first one may have no more than its syntax.
const FIRST_PASSAGES: usize = 2;
/// How many passages before a hit its section may begin.
const MAX_PASSAGES_BEFORE: usize = 8;

/// Adds the first passages of what has the name of what is asked about: of the documents that `filter` selects by their
/// titles, and of the documents and sections among the hits.
pub(crate) fn with_beginnings(
    library: LibraryView<'_>,
    query: &str,
    filter: &DocumentFilter,
    hits: Vec<Hit>,
) -> Result<Vec<Hit>, LibraryError> {
    let language = library.language_of_question(&library.well_spelled(query));
    let asked = Asked::of(library, query, language);
    if hits.is_empty() || !asked.is_definition() {
        return Ok(hits);
    }
    let mut first = of_documents(library, &asked, language, filter, &hits)?;
    first.extend(of_sections(library, &asked, language, &hits)?);
    Ok(with_passages(hits, first))
}

/// Returns the first passages of the documents whose title or outermost heading is the name.
fn of_documents(
    library: LibraryView<'_>,
    asked: &Asked,
    language: Language,
    filter: &DocumentFilter,
    hits: &[Hit],
) -> Result<Vec<Chunk>, LibraryError> {
    let is_named = |label: &str| asked.is_named_by(library, label, language);
    let titled = library.titled(&asked.subject(), filter).into_iter();
    let titled = titled.filter(|(_, title)| is_named(without_site(title)));
    let headed = hits.iter().filter(|hit| {
        let headings = hit.chunk.heading.as_deref().unwrap_or_default();
        is_named(headings.split(" > ").next().unwrap_or_default())
    });
    let mut seen = HashSet::new();
    let ids = titled
        .map(|(id, _)| id)
        .chain(headed.map(|hit| hit.chunk.document_id.clone()));
    let mut found = Vec::new();
    for id in ids.filter(|id| seen.insert(id.clone())).take(MAX_BEGINNINGS) {
        for ordinal in 0..FIRST_PASSAGES {
            found.extend(library.chunk(&format!("{id}-{ordinal}"))?);
        }
    }
    Ok(found)
}

/// Returns the first passages of the sections whose heading is the name.
fn of_sections(
    library: LibraryView<'_>,
    asked: &Asked,
    language: Language,
    hits: &[Hit],
) -> Result<Vec<Chunk>, LibraryError> {
    let mut seen = HashSet::new();
    let named = hits.iter().map(|hit| &hit.chunk).filter(|chunk| {
        let headings = chunk.heading.as_deref().unwrap_or_default();
        let innermost = headings.rsplit(" > ").next().unwrap_or_default();
        seen.insert((chunk.document_id.as_str(), headings)) && asked.is_named_by(library, innermost, language)
    });
    let mut found = Vec::new();
    for chunk in named.take(MAX_BEGINNINGS) {
        let mut first = None;
        let before = (0..chunk.ordinal).rev().take(MAX_PASSAGES_BEFORE);
        for ordinal in before {
            let Some(passage) = library.chunk(&format!("{}-{ordinal}", chunk.document_id))? else {
                break;
            };
            if passage.heading != chunk.heading {
                break;
            }
            first = Some(passage);
        }
        found.extend(first);
    }
    Ok(found)
}

/// Returns which hits begin a part of a document that is named after what is asked about: its section, or its introduction.
pub(crate) fn begin_named_parts(library: LibraryView<'_>, asked: &Asked, hits: &[Hit]) -> Vec<bool> {
    if !asked.is_definition() {
        return vec![false; hits.len()];
    }
    let section = |hit: &Hit| (hit.chunk.document_id.clone(), hit.chunk.heading.clone());
    let mut first: HashMap<_, u32> = HashMap::new();
    for hit in hits {
        let least = first.entry(section(hit)).or_insert(hit.chunk.ordinal);
        *least = hit.chunk.ordinal.min(*least);
    }
    let begins = |hit: &Hit| {
        let headings = hit.chunk.heading.as_deref().unwrap_or_default();
        let title = || library.document(&hit.chunk.document_id)?.title;
        first.get(&section(hit)) == Some(&hit.chunk.ordinal)
            && asked.is_part_named(library, headings, title, library.language_of(&hit.chunk.text))
    };
    hits.iter().map(begins).collect()
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
            let hits = with_beginnings(library.all(), query, &library.all().visible(), hits).unwrap();
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

    #[test]
    fn a_section_and_a_page_begin_with_their_definition() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let calls = "A robin has many calls. ".repeat(80);
        let section = format!("# Birds\n\n## Robin\n\nIt sings before dawn.\n\n{calls}\n");
        let page = "---\ntitle: Owl — The garden\n---\n\n# 1. Syntax\n\nowl;\n\n# 2. Description\n\nHunts by night.\n\n\
            # 3. More\n\nAn owl is quiet.\n";
        for (name, text) in [("birds.md", section.as_str()), ("b.md", page)] {
            library
                .add(
                    name,
                    &parse(name, text.as_bytes(), &ParseLimits::default()).unwrap(),
                )
                .unwrap();
        }
        let added = |query: &str, words: &str| -> Vec<String> {
            let last = library.search(words, 8).unwrap().pop().unwrap();
            let all = with_beginnings(library.all(), query, &library.all().visible(), vec![last]).unwrap();
            all.into_iter().skip(1).map(|hit| hit.chunk.text).collect()
        };
        let robin = added("what is a robin", "calls");
        assert_eq!(robin.len(), 1);
        assert!(robin[0].starts_with("It sings before dawn."), "{robin:?}");
        // A page is found by its title, even if no hit is of it.
        assert_eq!(added("what does owl do", "calls"), ["owl;", "Hunts by night."]);
        assert!(added("how does an owl hunt", "quiet").is_empty());
    }
}
