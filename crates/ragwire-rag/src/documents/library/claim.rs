//! Work that one host does for all: a claim of it, which ends with the host.

use super::{Library, LibraryError};

/// Work on a library that several hosts may be given and one has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// Reading the folders of the user.
    Folders,
    /// Adding the chunks of this document to a store, or removing them.
    Document(String),
    /// Deleting what unfinished uploads left behind.
    Sweep,
}

/// The right to do some [`Work`], until it is dropped.
#[derive(Debug)]
#[must_use = "dropping the claim gives it up"]
pub struct Claim {
    #[cfg(feature = "qdrant")]
    pub(super) _held: Option<super::shared::HeldClaim>,
}

impl Library {
    /// Claims some work. Returns `None` while another host does it. A library of one process grants
    /// every claim.
    ///
    /// A claim is renewed in the background. If its host dies, another one gets it after the lease of
    /// `SharedLibraryOptions`. A host that is alive and cannot reach the
    /// server for so long loses it too and does not notice, so the work must do no harm if two hosts
    /// do it.
    ///
    /// # Errors
    ///
    /// `library_unavailable`, `library_storage`.
    pub fn claim(&self, work: &Work) -> Result<Option<Claim>, LibraryError> {
        match &self.shelf {
            super::Shelf::Local(_) => {
                let _ = work;
                Ok(Some(Claim {
                    #[cfg(feature = "qdrant")]
                    _held: None,
                }))
            }
            #[cfg(feature = "qdrant")]
            super::Shelf::Shared(shared) => {
                let held = shared.claim(work)?;
                Ok(held.map(|held| Claim { _held: Some(held) }))
            }
        }
    }
}
