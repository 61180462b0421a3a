//! What a library keeps in memory: its documents, and which passages are searchable.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::owners::DocumentOwner;
use super::records::StoredDocument;
use super::segments::Lexicon;
use crate::documents::levels::OutlinedDocument;
use crate::search::analyzer::Language;

/// A document of the library with what searches need to know of it.
#[derive(Debug)]
pub(super) struct Held {
    outlined: OutlinedDocument,
    /// The number of its first passage.
    pub(super) first: u64,
    pub(super) language: Language,
    pub(super) tags: Vec<String>,
    pub(super) date: Option<String>,
    pub(super) owner: Option<DocumentOwner>,
}

impl Held {
    pub(super) fn new(first: u64, stored: StoredDocument) -> Self {
        Self {
            outlined: OutlinedDocument::new(stored.document, stored.outline),
            first,
            language: Language::of_code(&stored.language).unwrap_or_default(),
            tags: stored.tags,
            date: stored.date,
            owner: stored.owner.map(|name| DocumentOwner {
                name,
                shares: stored.shares,
            }),
        }
    }

    /// Returns who alone finds it, if not everyone does.
    fn private_to(&self) -> Option<&str> {
        let owner = self.owner.as_ref().filter(|owner| !owner.shares)?;
        Some(&owner.name)
    }

    pub(super) fn number(&self, ordinal: u32) -> u64 {
        self.first + u64::from(ordinal)
    }

    pub(super) fn passages(&self) -> Range<u64> {
        self.first..self.number(self.document.chunks)
    }
}

impl Deref for Held {
    type Target = OutlinedDocument;

    fn deref(&self) -> &OutlinedDocument {
        &self.outlined
    }
}

/// The state that readers see. A document is searchable while its passages are live, whatever else
/// the index contains.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// By the number of the first passage.
    pub(super) documents: BTreeMap<u64, Arc<Held>>,
    pub(super) by_id: HashMap<String, u64>,
    /// By [`Held::key`].
    pub(super) by_key: HashMap<String, u64>,
    pub(super) lexicon: Lexicon,
    /// Passages of the documents that everyone finds.
    everyones: Passages,
    /// Passages of private documents, by their owners.
    private: BTreeMap<String, Passages>,
}

/// What is counted of passages that the same users find.
#[derive(Debug, Default)]
struct Passages {
    documents: usize,
    /// Passages of each language.
    languages: BTreeMap<Language, usize>,
}

impl Passages {
    fn add(&mut self, held: &Held) {
        self.documents += 1;
        *self.languages.entry(held.language).or_default() += held.document.chunks as usize;
    }

    fn remove(&mut self, held: &Held) {
        self.documents -= 1;
        if let Some(passages) = self.languages.get_mut(&held.language) {
            *passages -= held.document.chunks as usize;
        }
    }
}

impl Shared {
    pub(super) fn publish(&mut self, held: Held) -> Arc<Held> {
        let held = Arc::new(held);
        self.by_id.insert(held.document.id.clone(), held.first);
        self.by_key.insert(held.key(), held.first);
        self.lexicon.live.set(held.passages(), true);
        self.lexicon.passages += held.document.chunks as usize;
        match held.private_to() {
            None => self.everyones.add(&held),
            Some(owner) => self.private.entry(owner.to_owned()).or_default().add(&held),
        }
        self.documents.insert(held.first, Arc::clone(&held));
        held
    }

    pub(super) fn withdraw(&mut self, first: u64) -> Option<Arc<Held>> {
        let held = self.documents.remove(&first)?;
        self.by_id.remove(&held.document.id);
        self.by_key.remove(&held.key());
        self.lexicon.live.set(held.passages(), false);
        self.lexicon.passages -= held.document.chunks as usize;
        match held.private_to() {
            None => self.everyones.remove(&held),
            Some(owner) => {
                if let Some(passages) = self.private.get_mut(owner) {
                    passages.remove(&held);
                    if passages.documents == 0 {
                        self.private.remove(owner);
                    }
                }
            }
        }
        Some(held)
    }

    /// Returns the document of a passage.
    pub(super) fn document_of(&self, number: u64) -> Option<&Arc<Held>> {
        let (_, held) = self.documents.range(..=number).next_back()?;
        held.passages().contains(&number).then_some(held)
    }

    /// Returns whether there are documents that `user` does not find.
    pub(super) fn hides_from(&self, user: Option<&str>) -> bool {
        user.is_some_and(|user| self.private.keys().any(|owner| owner != user))
    }

    /// Returns the number of documents that `user` finds.
    pub(super) fn documents_found_by(&self, user: Option<&str>) -> usize {
        self.found_by(user).map(|passages| passages.documents).sum()
    }

    /// Returns how many passages of each language `user` finds.
    pub(super) fn languages_found_by(&self, user: Option<&str>) -> BTreeMap<Language, usize> {
        let mut languages = BTreeMap::new();
        for passages in self.found_by(user) {
            for (language, passages) in passages.languages.iter().filter(|(_, passages)| **passages > 0) {
                *languages.entry(*language).or_default() += passages;
            }
        }
        languages
    }

    fn found_by(&self, user: Option<&str>) -> impl Iterator<Item = &Passages> {
        let (own, of_all) = match user {
            Some(user) => (self.private.get(user), None),
            None => (None, Some(self.private.values())),
        };
        let everyones = std::iter::once(&self.everyones);
        everyones.chain(own).chain(of_all.into_iter().flatten())
    }

    /// Returns the number of passages that `user` finds.
    pub(super) fn passages_found_by(&self, user: Option<&str>) -> usize {
        let languages = self
            .found_by(user)
            .flat_map(|passages| passages.languages.values());
        languages.sum()
    }

    /// Returns which passages `user` finds.
    pub(super) fn finder<'a>(&'a self, user: Option<&'a str>) -> Finder<'a> {
        Finder {
            shared: self,
            user: user.filter(|user| self.hides_from(Some(user))),
            last: Cell::default(),
        }
    }
}

/// The passages that a user finds.
#[derive(Debug)]
pub(super) struct Finder<'a> {
    shared: &'a Shared,
    /// A user from whom documents are hidden.
    user: Option<&'a str>,
    /// The document that was looked up last. Passages of one document are usually asked for one after the other.
    last: Cell<Option<LookedUp>>,
}

/// A document that was looked up for a user.
#[derive(Clone, Copy, Debug)]
struct LookedUp {
    /// The numbers of its first passage and of the one after its last.
    passages: (u64, u64),
    is_found: bool,
}

impl Finder<'_> {
    /// Returns the number of passages that the user finds.
    pub(super) fn passages(&self) -> usize {
        self.shared.passages_found_by(self.user)
    }

    /// Returns whether the user finds all documents.
    pub(super) fn finds_all(&self) -> bool {
        self.user.is_none()
    }

    /// Returns whether the user finds a live passage.
    pub(super) fn finds(&self, number: u64) -> bool {
        let Some(user) = self.user else { return true };
        let has = |last: &LookedUp| (last.passages.0..last.passages.1).contains(&number);
        if let Some(last) = self.last.get().filter(has) {
            return last.is_found;
        }
        let looked_up = self.shared.document_of(number).map(|held| LookedUp {
            passages: (held.passages().start, held.passages().end),
            is_found: held.is_found_by(user),
        });
        self.last.set(looked_up);
        looked_up.is_some_and(|looked_up| looked_up.is_found)
    }
}
