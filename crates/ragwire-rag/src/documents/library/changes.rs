//! Which documents came and went: a revision that can be waited for, and the last changes by name.
//!
//! What is built from a library (an index of vectors, a graph, a cache of answers) has to follow it. Whoever can compare sets waits for the
//! revision and compares; whoever keeps something for a document asks what has changed since. Neither can lose a change: the revision is one
//! number, and a list that is not whole any more says so.
//!
//! It knows neither the documents nor what hangs on them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Changes that are known by name. Who is further behind looks at everything; a change costs about 80 bytes.
pub(crate) const MAX_CHANGES: usize = 1_024;

/// What happened to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It is there now.
    Added,
    /// It is there no more.
    Removed,
}

/// One document that came or went. One that is replaced goes, and another comes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The library's revision from this change on.
    pub revision: u64,
    /// The document.
    pub document_id: String,
    /// What happened.
    pub kind: ChangeKind,
}

/// Counts changes and remembers the last ones.
#[derive(Debug)]
pub(crate) struct Changes {
    revision: watch::Sender<u64>,
    /// The last changes, oldest first, revisions without a gap; at most [`MAX_CHANGES`].
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
    /// Tells a change. The caller holds the lock under which it was made, so that whoever sees it finds a revision that is no older.
    pub(crate) fn tell(&self, kind: ChangeKind, document_id: &str) {
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
        let known = last.len().checked_sub(behind)?;
        Some(last.range(known..).cloned().collect())
    }

    fn last(&self) -> MutexGuard<'_, VecDeque<Change>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_known_by_name_and_older_ones_are_not() {
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
            changes.tell(kind, &n.to_string());
        }
        let total = total as u64;
        assert_eq!((*listener.borrow(), changes.revision()), (total, total));
        assert!(listener.has_changed().unwrap());
        assert_eq!(changes.since(2), None, "one more than is kept");
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
        assert_eq!(changes.since(total + 1), None, "of another process");
    }
}
