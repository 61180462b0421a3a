//! Which documents a search looks at.

use serde::{Deserialize, Serialize};

use super::Held;
use crate::DocumentKind;

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
