//! Records which documents were added and removed: a revision to wait for, and the most recent
//! changes by document.
//!
//! Whatever is built from a library (an index of vectors, a graph, a cache of answers) has to
//! follow it. A follower that can compare sets waits for the revision and compares. One that stores
//! something per document asks what changed since a revision. Neither can miss a change: the
//! revision is a single number, and a list that is no longer complete is reported as such.
//!
//! This module knows neither the documents nor their followers.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// How many changes are recorded. A reader that is further behind has to look at everything. One
/// change takes about 80 bytes.
const MAX_CHANGES: usize = 1_024;

/// What happened to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The document was added.
    Added,
    /// The document was removed.
    Removed,
}

/// One document that was added or removed. Replacing a document is a removal followed by an
/// addition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The library's revision after this change.
    pub revision: u64,
    /// The ID of the document.
    pub document_id: String,
    /// What happened.
    pub kind: ChangeKind,
}

/// Counts changes and stores the most recent ones.
#[derive(Debug)]
pub(crate) struct Changes {
    revision: watch::Sender<u64>,
    /// The most recent changes, oldest first, with consecutive revisions; at most [`MAX_CHANGES`].
    last: Mutex<VecDeque<Change>>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            revision: watch::Sender::new(0),
            last: Mutex::default(),
        }
    }
}

impl Changes {
    /// Records a change. The caller holds the lock under which the change was made, so that anyone
    /// who sees the change also sees its revision or a later one.
    pub(super) fn record(&self, kind: ChangeKind, document_id: &str) {
        let mut last = self.last();
        let revision = *self.revision.borrow() + 1;
        if last.len() == MAX_CHANGES {
            last.pop_front();
        }
        last.push_back(Change {
            revision,
            document_id: document_id.to_owned(),
            kind,
        });
        self.revision.send_replace(revision);
    }

    pub(crate) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    pub(crate) fn since(&self, revision: u64) -> Option<Vec<Change>> {
        let last = self.last();
        let behind = usize::try_from(self.revision().checked_sub(revision)?).ok()?;
        let first = last.len().checked_sub(behind)?;
        Some(last.range(first..).cloned().collect())
    }

    fn last(&self) -> MutexGuard<'_, VecDeque<Change>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_changes_are_listed_and_older_ones_are_not() {
        let changes = Changes::default();
        let listener = changes.subscribe();
        assert_eq!((changes.since(0), changes.since(1)), (Some(Vec::new()), None));
        let total = MAX_CHANGES + 3;
        for n in 0..total {
            let kind = if n % 2 == 0 {
                ChangeKind::Added
            } else {
                ChangeKind::Removed
            };
            changes.record(kind, &n.to_string());
        }
        let total = total as u64;
        assert_eq!((*listener.borrow(), changes.revision()), (total, total));
        assert!(listener.has_changed().unwrap());
        assert_eq!(changes.since(2), None, "one more than is recorded");
        let all: Vec<u64> = changes
            .since(3)
            .unwrap()
            .iter()
            .map(|change| change.revision)
            .collect();
        assert_eq!(all, (4..=total).collect::<Vec<_>>());
        let last = Change {
            revision: total,
            document_id: (total - 1).to_string(),
            kind: ChangeKind::Added,
        };
        assert_eq!(changes.since(total - 1), Some(vec![last]));
        assert_eq!(changes.since(total), Some(Vec::new()));
        assert_eq!(changes.since(total + 1), None, "a revision of another process");
    }
}
