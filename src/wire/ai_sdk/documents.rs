//! The documents that were sent to the client. The memory is bounded, whatever a turn does.

use std::collections::HashSet;

/// The maximum number of documents that are remembered. Each is a part that the client shows and
/// keeps; readers do not look at more.
pub(super) const MAX_DOCUMENTS: usize = 1024;
/// The maximum size of their IDs together: 256 bytes for each, enough for a path or a hash.
pub(super) const MAX_DOCUMENT_BYTES: usize = MAX_DOCUMENTS * 256;

/// The IDs of the documents that were sent as sources.
#[derive(Debug, Default)]
pub(super) struct Documents {
    known: HashSet<String>,
    bytes: usize,
}

impl Documents {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    /// Returns `true` if the documents `new` and one more fit.
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
