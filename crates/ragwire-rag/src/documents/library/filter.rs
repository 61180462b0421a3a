//! Which documents a search looks at.

use serde::{Deserialize, Serialize};

use super::Library;
use super::state::Held;
use crate::{Document, DocumentKind};

/// A part of the list of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentPage {
    /// The documents, in the order in which they were added.
    pub documents: Vec<Document>,
    /// How many documents the filter selects, on all pages.
    pub total: usize,
    /// Where the next page begins, if there is one.
    pub next: Option<u64>,
}

impl Library {
    /// Returns the documents that `filter` selects and whose names contain `name`, whatever its case:
    /// at most `limit` of them, from `start` on, which is 0 or the [`DocumentPage::next`] of another
    /// page. Documents that are added or removed in between do not shift the pages.
    pub fn page(&self, filter: &DocumentFilter, name: &str, start: u64, limit: usize) -> DocumentPage {
        let name = name.to_lowercase();
        let shared = self.read();
        let mut page = DocumentPage {
            documents: Vec::new(),
            total: 0,
            next: None,
        };
        for (first, held) in &shared.documents {
            if !filter.accepts(held) || !held.document.name.to_lowercase().contains(&name) {
                continue;
            }
            page.total += 1;
            if *first < start {
                continue;
            }
            if page.documents.len() < limit {
                page.documents.push(held.document.clone());
            } else if page.next.is_none() {
                page.next = Some(*first);
            }
        }
        page
    }

    /// Returns the number of documents.
    pub fn document_count(&self) -> usize {
        self.read().documents.len()
    }
}

/// Selects documents by their metadata. An empty list does not restrict the selection; of several
/// lists all have to agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DocumentFilter {
    /// Only documents in these folders and the folders below: `guide` or `guide/install`.
    pub folders: Vec<String>,
    /// Only documents of these kinds.
    pub kinds: Vec<DocumentKind>,
    /// Only documents in these languages, as codes of ISO 639-1: `en`.
    pub languages: Vec<String>,
    /// Only documents with one of these tags, whatever their case.
    pub tags: Vec<String>,
    /// Only documents with these IDs.
    pub documents: Vec<String>,
    /// Only documents of this day and later, as `2026-01-31`, `2026-01` or `2026`. A document
    /// without a date is not selected.
    pub since: Option<String>,
    /// Only documents of this day and earlier.
    pub until: Option<String>,
}

impl DocumentFilter {
    /// A filter that selects no document.
    pub fn nothing() -> Self {
        Self {
            // No document has this ID.
            documents: vec![String::new()],
            ..Self::default()
        }
    }

    /// Returns whether the filter selects every document.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn accepts(&self, held: &Held) -> bool {
        let document = &held.document;
        let in_folder = |folder: &String| {
            let folder = folder.trim_matches('/');
            folder.is_empty()
                || document
                    .name
                    .strip_prefix(folder)
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        let has_tag = |tag: &String| {
            held.tags
                .iter()
                .any(|own| own.to_lowercase() == tag.to_lowercase())
        };
        let date = held.date.as_deref();
        // A shorter date is a prefix of the days that it contains.
        let late = |since: &String| date.is_some_and(|date| date >= since.as_str());
        let early = |until: &String| {
            date.is_some_and(|date| date <= until.as_str() || date.starts_with(until.as_str()))
        };
        (self.folders.is_empty() || self.folders.iter().any(in_folder))
            && (self.kinds.is_empty() || self.kinds.contains(&document.kind))
            && (self.languages.is_empty() || self.languages.iter().any(|code| code == held.language.code()))
            && (self.tags.is_empty() || self.tags.iter().any(has_tag))
            && (self.documents.is_empty() || self.documents.contains(&document.id))
            && self.since.as_ref().is_none_or(late)
            && self.until.as_ref().is_none_or(early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryLimits, parse};

    #[test]
    fn pages_hold_every_document_once_while_others_are_removed() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let add = |name: &str, text: &str| {
            let parsed = parse(name, text.as_bytes(), &Default::default()).unwrap();
            library.add(name, &parsed).unwrap()
        };
        let all: Vec<Document> = (0..7)
            .map(|n| add(&format!("docs/{n}.md"), &format!("Apple {n}.")))
            .collect();
        add("Other.TXT", "Pears.");
        let mut filter = DocumentFilter::default();
        let page = library.page(&filter, "OTHER", 0, 5);
        assert_eq!((page.documents.len(), page.total, page.next), (1, 1, None));
        filter.kinds = vec![DocumentKind::Markdown];
        let (mut seen, mut start) = (Vec::new(), 0);
        loop {
            let page = library.page(&filter, "", start, 3);
            seen.extend(page.documents);
            let Some(next) = page.next else { break };
            start = next;
            // The first document of the next page is gone, and one before it.
            if seen.len() == 3 {
                assert!(library.remove(&all[0].id).unwrap() && library.remove(&all[3].id).unwrap());
            }
        }
        let rest = [&all[..3], &all[4..]].concat();
        assert_eq!(seen, rest);
        assert_eq!(library.page(&filter, "", 0, 0).total, 5);
        assert_eq!(library.document_count(), 6);
    }
}
