//! A library as one user finds it.

use std::ops::Deref;

use super::{DocumentFilter, Library, LibraryError, Shelf};
use crate::search::lexical::rarity;

/// A library as one user finds it. Words, spellings and languages that only private documents of others have are
/// unknown in it, and their passages are not counted. Otherwise an answer would show whether others have written about
/// something. In a shared library the server counts how rare a word is, over all passages.
///
/// What does not depend on the user is read from the library. A search takes a
/// [`DocumentFilter`](crate::DocumentFilter) with the user instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LibraryView<'a> {
    library: &'a Library,
    user: Option<&'a str>,
}

impl Deref for LibraryView<'_> {
    type Target = Library;

    fn deref(&self) -> &Library {
        self.library
    }
}

impl Library {
    /// The library as `user` finds it: see [`DocumentFilter::user`](crate::DocumentFilter::user).
    pub(crate) fn seen_by<'a>(&'a self, user: Option<&'a str>) -> LibraryView<'a> {
        LibraryView { library: self, user }
    }

    /// The library with all documents, whosever they are.
    pub(crate) fn all(&self) -> LibraryView<'_> {
        self.seen_by(None)
    }

    /// Returns the terms of a text as the index spells them: in the text's language, or if that is not
    /// certain in the language of most passages.
    pub fn terms(&self, text: &str) -> Vec<String> {
        self.all().terms(text)
    }

    /// Returns how significant each term is in this library: the inverse document frequency of BM25 over all
    /// documents, whosever they are. It is highest for a term that no text contains, and for all terms if the file
    /// cannot be read.
    pub fn weights(&self, terms: &[String]) -> Vec<f32> {
        self.all().weights(terms)
    }

    /// Returns the term of the library that a word means that it does not contain: that of `optimizer` for
    /// `optmizer`. The word has one mistake, or two and at least ten letters, which are those of the other word.
    /// Returns `None` for other words, if the word has fewer than five letters, or if it has fewer than seven and
    /// another letter is in place of one.
    ///
    /// # Errors
    ///
    /// `library_storage`, `library_damaged`, `library_unavailable`.
    pub fn correction(&self, word: &str) -> Result<Option<String>, LibraryError> {
        self.all().correction(word)
    }
}

impl LibraryView<'_> {
    /// Returns who asks; `None` finds all documents.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user
    }

    /// Returns the filter that selects all documents that the user finds.
    pub(crate) fn visible(&self) -> DocumentFilter {
        DocumentFilter {
            user: self.user.map(str::to_owned),
            ..DocumentFilter::default()
        }
    }

    /// Returns the number of documents that the user finds.
    pub(crate) fn documents_found(&self) -> usize {
        self.read().documents_found_by(self.user)
    }

    /// Returns the number of passages that the user finds.
    pub(crate) fn passages_found(&self) -> usize {
        self.read().passages_found_by(self.user)
    }

    /// Returns how significant each term is among the passages that the user finds: see [`Library::weights`].
    pub(crate) fn weights(&self, terms: &[String]) -> Vec<f32> {
        let weights = match &self.shelf {
            Shelf::Local(database) => database.read(|connection| {
                let shared = self.read();
                let finder = shared.finder(self.user);
                let with = shared.lexicon.texts_with(connection, terms, &finder)?;
                let passages = finder.passages();
                let weight = |with| rarity(passages, with);
                Ok(with.into_iter().map(weight).collect())
            }),
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => self.rarities(shelf, terms).map(|found| {
                let unseen = self.unseen_weight();
                found.into_iter().map(|rarity| rarity.unwrap_or(unseen)).collect()
            }),
        };
        weights.unwrap_or_else(|error: LibraryError| {
            tracing::warn!(%error, "cannot read how rare words are");
            vec![self.unseen_weight(); terms.len()]
        })
    }

    /// Returns the weight of a term that no document contains.
    pub(crate) fn unseen_weight(&self) -> f32 {
        rarity(self.passages_found(), 0)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::search::analyzer::Language;
    use crate::{DocumentFilter, DocumentOwner, LibraryLimits, ParseLimits, parse};

    fn add(library: &Library, owner: Option<&str>, name: &str, text: &str) {
        let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
        let progress = |_| ControlFlow::Continue(());
        let added = match owner {
            Some(owner) => library.add_for(&DocumentOwner::new(owner), name, &parsed, progress),
            None => library.add_with(name, &parsed, progress),
        };
        added.unwrap();
    }

    /// Everyone's document about falcons, and one of Ada alone.
    fn library() -> Library {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        add(
            &library,
            None,
            "birds.md",
            "The falconax hunts by day, and the robin sings.",
        );
        add(
            &library,
            Some("ada"),
            "plans.md",
            "Die Kosten der Miete trägt das Amt von Falconex.\n\n# Noch einmal\n\nWir ziehen mit Falconex in die Stadt.",
        );
        library
    }

    #[test]
    fn words_of_private_documents_are_unknown_to_others() {
        let library = library();
        let words = ["falconex", "kost", "falconax"].map(str::to_owned);
        let known = |user| {
            let view = library.seen_by(user);
            let weights = view.weights(&words).into_iter();
            weights
                .map(|weight| weight < view.unseen_weight())
                .collect::<Vec<_>>()
        };
        assert_eq!(known(Some("ada")), [true, true, true]);
        assert_eq!(known(Some("eve")), [false, false, true]);
        assert_eq!(known(Some("")), [false, false, true]);
        assert_eq!(known(None), [true, true, true]);
    }

    #[test]
    fn a_word_is_corrected_to_one_that_its_user_finds() {
        let library = library();
        let found = |user| {
            let filter = DocumentFilter::default().user(user);
            let hits = library.search_in("falconix", 5, &filter).unwrap();
            let names = hits.into_iter().map(|hit| hit.chunk.document_name);
            names.collect::<Vec<_>>()
        };
        // Two passages have `Falconex`, and one has `falconax`.
        assert_eq!(found("ada"), ["plans.md", "plans.md"]);
        assert_eq!(found("eve"), ["birds.md"]);
        let correction = |user, word| library.seen_by(user).correction(word).unwrap();
        assert_eq!(correction(Some("ada"), "flaconex").as_deref(), Some("falconex"));
        assert_eq!(correction(Some("eve"), "flaconex"), None);
        let parts = |user| {
            library
                .seen_by(user)
                .parts_of("Mietkosten", Language::German)
                .len()
        };
        assert_eq!((parts(Some("ada")), parts(Some("eve"))), (2, 0));
    }

    #[test]
    fn languages_and_documents_are_those_that_a_user_finds() {
        let library = library();
        let view = |user| library.seen_by(Some(user));
        assert!(view("ada").has_language(Language::German));
        assert!(!view("eve").has_language(Language::German));
        // The library has more German passages.
        assert_eq!(library.all().language_of("Falconex"), Language::German);
        assert_eq!(view("eve").language_of("Falconex"), Language::English);
        assert_eq!(
            (view("ada").documents_found(), view("eve").documents_found()),
            (2, 1)
        );
        let id = library.list().pop().unwrap().id;
        assert!(library.remove_for("ada", &id).unwrap());
        assert!(!library.all().has_language(Language::German));
        assert_eq!(library.all().documents_found(), 1);
    }
}
