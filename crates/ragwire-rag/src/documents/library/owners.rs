//! Removing documents, and documents of owners beside those that all share.
//!
//! Searches do not know owners: everyone finds everything. An owner decides only who may replace or
//! remove a document.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::PoisonError;

use super::database::Database;
use super::state::Held;
use super::{CHANGE_ATTEMPTS, ChangeKind, IndexingProgress, Library, LibraryError, Shelf, records};
use crate::{Document, Parsed};

impl Library {
    /// Adds a document of `owner` like [`add_with`](Self::add_with). Only this owner can replace or
    /// remove it, and it replaces only a document of the same owner.
    ///
    /// Documents that [`add`](Self::add) and [`add_with`](Self::add_with) add are shared: they replace
    /// any other, and no owner can change them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`add_with`](Self::add_with), and `not_owner`.
    pub fn add_for(
        &self,
        owner: &str,
        name: &str,
        parsed: &Parsed,
        progress: impl FnMut(IndexingProgress) -> ControlFlow<()>,
    ) -> Result<Document, LibraryError> {
        self.add_as(Some(owner), name, parsed, progress)
    }

    /// Removes a document. Returns `false` if no document has that ID.
    ///
    /// # Errors
    ///
    /// `library_storage`; the document is then still in the library.
    pub fn remove(&self, document_id: &str) -> Result<bool, LibraryError> {
        self.remove_as(None, document_id)
    }

    fn remove_as(&self, owner: Option<&str>, document_id: &str) -> Result<bool, LibraryError> {
        for _ in 0..CHANGE_ATTEMPTS {
            match self.try_remove(owner, document_id) {
                Err(LibraryError::Conflict) => {}
                done => return done,
            }
        }
        Err(LibraryError::Conflict)
    }

    fn try_remove(&self, owner: Option<&str>, document_id: &str) -> Result<bool, LibraryError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_live(document_id) {
            self.refresh()?;
        }
        if let Some(known) = self.find(document_id) {
            self.refresh_name(&known.document.name)?;
        }
        let Some(held) = self.find(document_id) else {
            return Ok(false);
        };
        if !held.may_be_changed_by(owner) {
            return Err(LibraryError::NotOwner);
        }
        match &self.shelf {
            Shelf::Local(database) => self.remove_local(database, &held)?,
            #[cfg(feature = "qdrant")]
            Shelf::Shared(shelf) => self.remove_shared(shelf, &held)?,
        }
        Ok(true)
    }

    fn remove_local(&self, database: &Database, held: &Held) -> Result<(), LibraryError> {
        database
            .write_with_reserve(|connection| records::remove(connection, held.first, held.document.chunks))?;
        let mut shared = self.write();
        let withdrawn = shared.withdraw(held.first);
        if let Some(old) = &withdrawn {
            self.changes.record(ChangeKind::Removed, &old.document.id);
        }
        drop(shared);
        if let Some(old) = withdrawn {
            self.clear_tail(&old);
        }
        if let Err(error) = self.merge(database) {
            tracing::warn!(%error, "removed passages stay in the index file");
        }
        Ok(())
    }

    /// Removes a document of `owner`. Returns `false` if no document has that ID.
    ///
    /// # Errors
    ///
    /// `not_owner`, `library_storage`; the document is then still in the library.
    pub fn remove_for(&self, owner: &str, document_id: &str) -> Result<bool, LibraryError> {
        self.remove_as(Some(owner), document_id)
    }

    /// Returns the IDs of the documents of `owner`: those that [`add_for`](Self::add_for) replaces and
    /// [`remove_for`](Self::remove_for) removes.
    pub fn ids_of(&self, owner: &str) -> HashSet<String> {
        let shared = self.read();
        let own = shared
            .documents
            .values()
            .filter(|held| held.owner.as_deref() == Some(owner));
        own.map(|held| held.document.id.clone()).collect()
    }
}

impl Held {
    /// Returns `true` if `owner` may replace or remove the document. Without an owner, anything may be
    /// changed.
    pub(super) fn may_be_changed_by(&self, owner: Option<&str>) -> bool {
        owner.is_none() || self.owner.as_deref() == owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryLimits, parse};

    fn parsed(text: &str) -> Parsed {
        parse("a.md", text.as_bytes(), &Default::default()).unwrap()
    }

    #[test]
    fn only_its_owner_changes_a_document() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Library::open(folder.path(), LibraryLimits::default()).unwrap();
        let library = open();
        let add = |library: &Library, owner, name, text| {
            library.add_for(owner, name, &parsed(text), |_| ControlFlow::Continue(()))
        };
        let shared = library.add("shared.md", &parsed("Shared.")).unwrap().id;
        add(&library, "ada", "a.md", "Of Ada.").unwrap();
        drop(library);

        let library = open();
        let code = |result: Result<bool, LibraryError>| result.unwrap_err().code();
        assert_eq!(
            add(&library, "eve", "a.md", "Of Eve.").unwrap_err().code(),
            "not_owner"
        );
        assert_eq!(
            add(&library, "ada", "shared.md", "Of Ada.").unwrap_err().code(),
            "not_owner"
        );
        assert_eq!(code(library.remove_for("ada", &shared)), "not_owner");
        let of_ada = add(&library, "ada", "a.md", "Of Ada, again.").unwrap().id;
        assert_eq!(code(library.remove_for("eve", &of_ada)), "not_owner");
        assert_eq!(library.ids_of("ada"), HashSet::from([of_ada.clone()]));
        assert!(library.ids_of("eve").is_empty());
        assert!(library.remove_for("ada", &of_ada).unwrap());
        assert!(!library.remove_for("ada", &of_ada).unwrap());
        // Without an owner everything may be changed.
        let of_eve = add(&library, "eve", "e.md", "Of Eve.").unwrap().id;
        assert!(library.remove(&of_eve).unwrap() && library.remove(&shared).unwrap());
    }
}
