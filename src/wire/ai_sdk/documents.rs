//! The documents that the client was told of. Bounded, whatever a turn does.

use std::collections::HashSet;

/// Most documents that are told apart. Each is a part that the client shows and keeps, and nobody reads more.
pub(super) const MAX_DOCUMENTS: usize = 1024;
/// Most bytes of their ids: 256 for each, as much as a path or a hash takes.
pub(super) const MAX_DOCUMENT_BYTES: usize = MAX_DOCUMENTS * 256;

/// Ids of the documents that were said to be sources.
#[derive(Debug, Default)]
pub(super) struct Documents {
    known: HashSet<String>,
    bytes: usize,
}

impl Documents {
    pub(super) fn knows(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    /// Whether these can be remembered, and one more besides.
    pub(super) fn has_room(&self, new: &[&str], id: &str) -> bool {
        let bytes: usize = new.iter().map(|id| id.len()).sum();
        self.known.len() + new.len() < MAX_DOCUMENTS && self.bytes + bytes + id.len() <= MAX_DOCUMENT_BYTES
    }

    pub(super) fn extend(&mut self, new: &[&str]) {
        for id in new {
            self.bytes += id.len();
            self.known.insert((*id).to_owned());
        }
    }
}
