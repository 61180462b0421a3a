//! Removing documents, and documents of owners beside those of everyone.
//!
//! A document of an owner is found by that owner alone, unless they share it. Only they replace or
//! remove it. Each owner has names of their own, so nobody learns the names of others.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::PoisonError;

use super::database::Database;
use super::state::Held;
use super::{CHANGE_ATTEMPTS, ChangeKind, IndexingProgress, Library, LibraryError, Shelf, identity, records};
use crate::{Document, Parsed};

/// Whose a document is, and whether others find it.
///
/// ```
/// use std::ops::ControlFlow;
/// use ragwire_rag::{DocumentFilter, DocumentOwner, Library, LibraryLimits, ParseLimits, parse};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let library = Library::in_memory(LibraryLimits::default())?;
/// let diary = parse("diary.md", b"The robin sang at dawn.", &ParseLimits::default())?;
/// library.add_for(&DocumentOwner::new("ada"), "diary.md", &diary, |_| ControlFlow::Continue(()))?;
///
/// let found_by = |user| library.search_in("robin", 10, &DocumentFilter::default().user(user));
/// assert_eq!((found_by("ada")?.len(), found_by("eve")?.len()), (1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentOwner {
    pub(super) name: String,
    pub(super) shares: bool,
}

impl DocumentOwner {
    /// An owner who alone finds the document.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            shares: false,
        }
    }

    /// Sets whether everyone finds the document. The default is `false`.
    #[must_use]
    pub fn shares(mut self, shares: bool) -> Self {
        self.shares = shares;
        self
    }
}

impl Library {
    /// Adds a document of `owner` like [`add_with`](Self::add_with). Only this owner can replace or
    /// remove it, and it replaces only a document of the same owner and name. Adding the same content
    /// again changes whether it is shared.
    ///
    /// Documents that [`add`](Self::add) and [`add_with`](Self::add_with) add are everyone's: they
    /// replace each other, and no owner can change them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`add_with`](Self::add_with).
    pub fn add_for(
        &self,
        owner: &DocumentOwner,
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
            self.refresh_key(&known.key())?;
        }
        let Some(held) = self.find(document_id) else {
            return Ok(false);
        };
        if !held.may_be_changed_by(owner) {
            let is_found = owner.is_some_and(|user| held.is_found_by(user));
            return if is_found {
                Err(LibraryError::NotOwner)
            } else {
                Ok(false)
            };
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

    /// Removes a document of `owner`. Returns `false` if no document has that ID, or if it is private to
    /// another owner.
    ///
    /// # Errors
    ///
    /// `not_owner`, `library_storage`; the document is then still in the library.
    pub fn remove_for(&self, owner: &str, document_id: &str) -> Result<bool, LibraryError> {
        self.remove_as(Some(owner), document_id)
    }

    /// Returns whether `user` may remove a document; `false` also if there is none with that ID. Without
    /// a user, every document may be removed.
    pub fn may_be_removed_by(&self, user: Option<&str>, document_id: &str) -> bool {
        let held = self.find(document_id);
        held.is_some_and(|held| held.may_be_changed_by(user))
    }

    /// Returns whether a document belongs to an owner; `false` also if there is none with that ID.
    pub fn has_owner(&self, document_id: &str) -> bool {
        self.find(document_id).is_some_and(|held| held.owner.is_some())
    }

    /// Returns the IDs of the documents that everyone finds.
    pub fn ids_found_by_all(&self) -> BTreeSet<String> {
        let shared = self.read();
        let everyones = shared.documents.values().filter(|held| held.is_found_by(""));
        everyones.map(|held| held.document.id.clone()).collect()
    }

    /// Returns whether `user` finds a document; `false` also if there is none with that ID. Without a
    /// user, every document is found.
    pub fn is_found_by(&self, user: Option<&str>, document_id: &str) -> bool {
        let held = self.find(document_id);
        held.is_some_and(|held| user.is_none_or(|user| held.is_found_by(user)))
    }
}

impl Held {
    /// Returns what another document replaces it by.
    pub(super) fn key(&self) -> String {
        let owner = self.owner.as_ref().map(|owner| &*owner.name);
        identity::key(owner, &self.document.name)
    }

    /// Returns `true` if `owner` may replace or remove the document. Without an owner, anything may be
    /// changed.
    pub(super) fn may_be_changed_by(&self, owner: Option<&str>) -> bool {
        owner.is_none_or(|owner| self.owner.as_ref().is_some_and(|own| own.name == owner))
    }

    /// Returns `true` if the searches of `user` find the document.
    pub(super) fn is_found_by(&self, user: &str) -> bool {
        let owner = self.owner.as_ref();
        owner.is_none_or(|owner| owner.shares || owner.name == user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DocumentFilter, LibraryLimits, parse};

    fn parsed(text: &str) -> Parsed {
        parse("a.md", text.as_bytes(), &Default::default()).unwrap()
    }

    fn add(library: &Library, owner: &DocumentOwner, name: &str, text: &str) -> Result<String, LibraryError> {
        let added = library.add_for(owner, name, &parsed(text), |_| ControlFlow::Continue(()));
        added.map(|document| document.id)
    }

    #[test]
    fn only_its_owner_changes_a_document() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Library::open(folder.path(), LibraryLimits::default()).unwrap();
        let library = open();
        let (ada, eve) = (DocumentOwner::new("ada").shares(true), DocumentOwner::new("eve"));
        let everyones = library.add("everyones.md", &parsed("Everyone's.")).unwrap().id;
        add(&library, &ada, "a.md", "Of Ada.").unwrap();
        drop(library);

        let library = open();
        let code = |result: Result<bool, LibraryError>| result.unwrap_err().code();
        assert_eq!(code(library.remove_for("ada", &everyones)), "not_owner");
        let of_ada = add(&library, &ada, "a.md", "Of Ada, again.").unwrap();
        assert_eq!(code(library.remove_for("eve", &of_ada)), "not_owner");
        let may = ["ada", "eve"].map(|user| library.may_be_removed_by(Some(user), &of_ada));
        assert_eq!(may, [true, false]);
        assert!(library.remove_for("ada", &of_ada).unwrap());
        assert!(!library.remove_for("ada", &of_ada).unwrap());
        // Without an owner everything may be changed.
        let of_eve = add(&library, &eve, "e.md", "Of Eve.").unwrap();
        assert!(library.remove(&of_eve).unwrap() && library.remove(&everyones).unwrap());
    }

    /// The names of the documents that `user` finds, lists and has selected.
    fn found(library: &Library, user: Option<&str>) -> Vec<String> {
        let filter = DocumentFilter {
            user: user.map(str::to_owned),
            ..DocumentFilter::default()
        };
        let listed = library.page(&filter, "", 0, 100).documents;
        let ids: Vec<String> = listed.iter().map(|document| document.id.clone()).collect();
        assert_eq!(library.matching(&filter), ids);
        let all = library.list();
        let visible = all
            .iter()
            .filter(|document| library.is_found_by(user, &document.id));
        assert_eq!(
            visible.map(|document| document.id.clone()).collect::<Vec<_>>(),
            ids
        );
        assert!(!library.selects_all(&filter) || ids.len() == all.len());
        let hits = library.search_in("robin", 10, &filter).unwrap();
        let mut names: Vec<String> = hits.into_iter().map(|hit| hit.chunk.document_name).collect();
        names.sort();
        let mut listed: Vec<String> = listed.into_iter().map(|document| document.name).collect();
        listed.sort();
        assert_eq!(listed, names);
        names
    }

    #[test]
    fn a_private_document_is_found_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Library::open(folder.path(), LibraryLimits::default()).unwrap();
        let library = open();
        let (ada, eve) = (DocumentOwner::new("ada"), DocumentOwner::new("eve"));
        let of_ada = add(&library, &ada, "a.md", "Robin of Ada.").unwrap();
        let of_eve = add(&library, &eve, "b.md", "Robin of Eve.").unwrap();
        let shared_by_eve = add(&library, &eve.clone().shares(true), "c.md", "Robin for all.").unwrap();
        library.add("d.md", &parsed("Robin of everyone.")).unwrap();
        drop(library);

        let library = open();
        assert_eq!(found(&library, Some("ada")), ["a.md", "c.md", "d.md"]);
        assert_eq!(found(&library, Some("eve")), ["b.md", "c.md", "d.md"]);
        assert_eq!(found(&library, Some("")), ["c.md", "d.md"]);
        assert_eq!(found(&library, None), ["a.md", "b.md", "c.md", "d.md"]);
        assert_eq!(library.ids_found_by_all().len(), 2);
        assert!(!library.selects_all(&DocumentFilter::default().user("ada")));
        // Nobody else learns of it, not even by adding the same or by removing it.
        assert!(!library.remove_for("eve", &of_ada).unwrap());
        let same = add(&library, &eve, "a.md", "Robin of Ada.").unwrap();
        assert_ne!(same, of_ada);
        assert_eq!(found(&library, Some("ada")), ["a.md", "c.md", "d.md"]);
        assert_eq!(found(&library, Some("eve")), ["a.md", "b.md", "c.md", "d.md"]);
        assert!(library.remove_for("eve", &same).unwrap());
        assert!(library.is_live(&of_ada));
        // The same content shares it, and makes it private again.
        assert_eq!(
            add(&library, &ada.clone().shares(true), "a.md", "Robin of Ada.").unwrap(),
            of_ada
        );
        assert_eq!(found(&library, Some("eve")).len(), 4);
        assert_eq!(add(&library, &ada, "a.md", "Robin of Ada.").unwrap(), of_ada);
        assert_eq!(found(&library, Some("eve")).len(), 3);
        // What is added without an owner is everyone's, beside that of an owner with this name.
        library.add("a.md", &parsed("Robin of Ada.")).unwrap();
        assert_eq!(found(&library, Some("ada")), ["a.md", "a.md", "c.md", "d.md"]);
        let everyones = library.ids_found_by_all();
        assert!(library.has_owner(&of_ada) && !everyones.contains(&of_ada));
        assert!(everyones.iter().any(|id| !library.has_owner(id)));
        assert!(library.remove_for("ada", &of_ada).unwrap());
        for id in [&of_eve, &shared_by_eve] {
            assert!(library.remove_for("eve", id).unwrap());
        }
        assert_eq!(found(&library, Some("")), ["a.md", "d.md"]);
        assert!(library.selects_all(&DocumentFilter::default().user("ada")));
    }
}
