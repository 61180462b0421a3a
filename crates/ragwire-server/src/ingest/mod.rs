//! Adds files to the library.
//!
//! `folders.rs` brings the library in step with the folders of the user: `walk.rs` finds the files,
//! `plan.rs` decides which of them have changed, [`crate::extract`] reads these, and `progress.rs`
//! shows how far it is. `watch.rs` does it again whenever something changes.

mod folders;
mod plan;
mod progress;
mod summary;
mod walk;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use ragwire_rag::{Document, DocumentOwner, Library, LibraryError, Parsed};

use crate::extract::{ExtractError, ExtractErrorKind, Extractor};

pub use folders::Folders;
pub use summary::Summary;
pub use watch::watch;

/// A document that was added.
#[derive(Debug)]
pub struct AddedDocument {
    /// The document.
    pub document: Document,
    /// Whether the library already had it, unchanged.
    pub unchanged: bool,
}

/// A document that could not be added. The message is safe for the user who sent it.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The document could not be read.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// The library rejected it.
    // Without its source, which may contain paths of this machine.
    #[error("{0}")]
    Library(#[from] LibraryError),
    /// The thread that added it panicked.
    #[error("the document could not be added")]
    Lost,
}

/// What kept a document out of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddErrorKind {
    /// The file type is not supported.
    Unsupported,
    /// The file or its text exceeds a limit.
    TooLarge,
    /// The library has reached its limit.
    LibraryFull,
    /// The disk is full.
    NoSpace,
    /// The file has no readable text, or its name is not valid.
    Unreadable,
    /// Reading the file took more time or memory than the limit.
    Exhausted,
    /// The shared library cannot be reached, or another host changed the document at the same time.
    Unavailable,
    /// This server failed.
    Internal,
}

impl AddError {
    /// Returns what went wrong, for decisions on it.
    pub fn kind(&self) -> AddErrorKind {
        match self {
            Self::Extract(error) => match error.kind {
                ExtractErrorKind::Unsupported => AddErrorKind::Unsupported,
                ExtractErrorKind::TooLarge => AddErrorKind::TooLarge,
                ExtractErrorKind::Unreadable => AddErrorKind::Unreadable,
                ExtractErrorKind::Exhausted => AddErrorKind::Exhausted,
                ExtractErrorKind::Internal => AddErrorKind::Internal,
            },
            Self::Library(LibraryError::Full { .. }) => AddErrorKind::LibraryFull,
            Self::Library(LibraryError::NoSpace) => AddErrorKind::NoSpace,
            Self::Library(LibraryError::BadName | LibraryError::EmptyDocument) => AddErrorKind::Unreadable,
            Self::Library(LibraryError::Shared(_) | LibraryError::Conflict) => AddErrorKind::Unavailable,
            // Only the errors above concern the document.
            Self::Library(_) | Self::Lost => AddErrorKind::Internal,
        }
    }

    /// Returns a stable code for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::Extract(error) => &error.code,
            Self::Library(error) => error.code(),
            Self::Lost => "extract_failed",
        }
    }
}

/// Returns the documents below a folder with the names that `ingest` gives them.
pub(crate) fn documents_below(folder: &Path) -> Vec<(PathBuf, String)> {
    let found = walk::walk(std::slice::from_ref(&folder.to_owned()), false);
    found
        .files
        .into_iter()
        .map(|file| (file.path, file.name))
        .collect()
}

/// Reads a document and adds it, for an owner if there is one.
///
/// # Cancel safety
///
/// The document is added completely or not at all.
///
/// # Errors
///
/// [`AddError`]; the library does not change.
pub async fn add(
    library: &Arc<Library>,
    extractor: &Extractor,
    owner: Option<&DocumentOwner>,
    name: &str,
    bytes: Bytes,
) -> Result<AddedDocument, AddError> {
    let parsed = extractor.extract(name, bytes).await?;
    store(library, owner, name, parsed).await
}

async fn store(
    library: &Arc<Library>,
    owner: Option<&DocumentOwner>,
    name: &str,
    parsed: Parsed,
) -> Result<AddedDocument, AddError> {
    let (library, name) = (Arc::clone(library), name.to_owned());
    let owner = owner.cloned();
    let adding = tokio::task::spawn_blocking(move || {
        // Called for a new document, never for an unchanged one.
        let mut new = false;
        let progress = |_| {
            new = true;
            std::ops::ControlFlow::Continue(())
        };
        let document = match owner {
            Some(owner) => library.add_for(&owner, &name, &parsed, progress)?,
            None => library.add_with(&name, &parsed, progress)?,
        };
        Ok(AddedDocument {
            document,
            unchanged: !new,
        })
    });
    adding.await.unwrap_or(Err(AddError::Lost))
}
