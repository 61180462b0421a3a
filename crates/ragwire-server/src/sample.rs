//! The sample documents, which allow a first question before any setup.
//!
//! They are a guide to this program, and pages about streamed answers. They are a placeholder: `--docs` removes them, and
//! the page offers to.

use ragwire_rag::{Document, Library, LibraryError, ParseLimits, parse};

/// A question that they answer.
pub const QUESTION: &str = "What happens when a turn fails after the commit?";

macro_rules! documents {
    ($($name:literal)*) => {
        [$((concat!("sample/", $name), include_bytes!(concat!("../library/", $name)).as_slice())),*]
    };
}

const DOCUMENTS: [(&str, &[u8]); 14] = documents! {
    "back-pressure.md"
    "chunking.md"
    "citations.md"
    "commit-rule.md"
    "deployment.md"
    "first-steps.md"
    "for-developers.md"
    "framed-wire.md"
    "glossary.pdf"
    "models.md"
    "operations.md"
    "retrieval.md"
    "time-outs.html"
    "your-documents.md"
};

/// Adds the sample documents, and returns the ID and the file of each. They are trusted, so this
/// process parses them itself.
///
/// # Errors
///
/// Fails if the library cannot be written.
pub fn add(library: &Library) -> Result<Vec<(String, &'static [u8])>, LibraryError> {
    let mut added = Vec::new();
    for (name, bytes) in DOCUMENTS {
        match parse(name, bytes, &ParseLimits::default()) {
            Ok(parsed) => {
                added.push((library.add(name, &parsed)?.id, bytes));
            }
            Err(error) => tracing::error!(%error, name, "a sample document cannot be read"),
        }
    }
    Ok(added)
}

/// Removes the sample documents.
///
/// # Errors
///
/// Fails if the library cannot be written.
pub fn remove(library: &Library) -> Result<(), LibraryError> {
    for document in library.list() {
        if is_in(library, &document) {
            library.remove(&document.id)?;
        }
    }
    Ok(())
}

/// Returns whether a document is one of the sample. A user's document of the same name is not.
pub fn is_in(library: &Library, document: &Document) -> bool {
    DOCUMENTS.iter().any(|(sample, _)| *sample == document.name) && !library.has_owner(&document.id)
}

/// Returns whether the library contains only sample documents.
pub fn is_all_of(library: &Library) -> bool {
    let documents = library.list();
    !documents.is_empty() && documents.iter().all(|document| is_in(library, document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_document_is_read_and_its_question_finds_something() {
        let library = Library::in_memory(Default::default()).unwrap();
        add(&library).unwrap();
        assert_eq!(library.list().len(), DOCUMENTS.len());
        assert!(is_all_of(&library));
        let hits = library.search(QUESTION, 3).unwrap();
        assert!(
            hits.iter()
                .any(|hit| hit.chunk.document_name == "sample/commit-rule.md")
        );
        let hits = library.search("What is truncation?", 1).unwrap();
        assert_eq!(
            (hits[0].chunk.document_name.as_str(), hits[0].chunk.page),
            ("sample/glossary.pdf", Some(2))
        );
        remove(&library).unwrap();
        assert!(library.list().is_empty());
    }
}
