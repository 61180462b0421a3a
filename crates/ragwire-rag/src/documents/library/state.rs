//! What a library keeps in memory: its documents, and which passages are searchable.

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

    /// Whether only its owner finds it.
    fn is_private(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| !owner.shares)
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
    /// Passages of each language.
    pub(super) languages: BTreeMap<Language, usize>,
    pub(super) lexicon: Lexicon,
    pub(super) private_documents: usize,
}

impl Shared {
    pub(super) fn publish(&mut self, held: Held) -> Arc<Held> {
        let held = Arc::new(held);
        self.by_id.insert(held.document.id.clone(), held.first);
        self.by_key.insert(held.key(), held.first);
        self.lexicon.live.set(held.passages(), true);
        self.lexicon.passages += held.document.chunks as usize;
        *self.languages.entry(held.language).or_default() += held.document.chunks as usize;
        self.private_documents += usize::from(held.is_private());
        self.documents.insert(held.first, Arc::clone(&held));
        held
    }

    pub(super) fn withdraw(&mut self, first: u64) -> Option<Arc<Held>> {
        let held = self.documents.remove(&first)?;
        self.by_id.remove(&held.document.id);
        self.by_key.remove(&held.key());
        self.lexicon.live.set(held.passages(), false);
        self.lexicon.passages -= held.document.chunks as usize;
        self.private_documents -= usize::from(held.is_private());
        if let Some(passages) = self.languages.get_mut(&held.language) {
            *passages -= held.document.chunks as usize;
        }
        Some(held)
    }

    /// Returns the document of a passage.
    pub(super) fn document_of(&self, number: u64) -> Option<&Arc<Held>> {
        let (_, held) = self.documents.range(..=number).next_back()?;
        held.passages().contains(&number).then_some(held)
    }
}
