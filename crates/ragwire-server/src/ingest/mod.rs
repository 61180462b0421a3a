//! Adds files to the library: `walk.rs` finds them, [`crate::extract`] reads them, `progress.rs`
//! shows the progress.

mod progress;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use ragwire_rag::{Document, Library, LibraryError, Parsed};
use tokio::io::AsyncReadExt;

use crate::extract::{ExtractError, ExtractErrorKind, Extractor};
use crate::originals::Originals;
use progress::Progress;
use walk::{SkippedFile, SourceFile};

/// Number of skipped files that the summary lists by name.
const MAX_LISTED: usize = 20;

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
    /// A shared document, or one of another user, has that name.
    NotOwner,
    /// The library has reached its limit.
    LibraryFull,
    /// The file has no readable text, or its name is not valid.
    Unreadable,
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
                ExtractErrorKind::Internal => AddErrorKind::Internal,
            },
            Self::Library(LibraryError::Full { .. } | LibraryError::NoSpace) => AddErrorKind::LibraryFull,
            Self::Library(LibraryError::NotOwner) => AddErrorKind::NotOwner,
            Self::Library(LibraryError::BadName | LibraryError::EmptyDocument) => AddErrorKind::Unreadable,
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
    owner: Option<&str>,
    name: &str,
    bytes: Bytes,
) -> Result<AddedDocument, AddError> {
    let parsed = extractor.extract(name, bytes).await?;
    store(library, owner, name, parsed).await
}

async fn store(
    library: &Arc<Library>,
    owner: Option<&str>,
    name: &str,
    parsed: Parsed,
) -> Result<AddedDocument, AddError> {
    let (library, name) = (Arc::clone(library), name.to_owned());
    let owner = owner.map(str::to_owned);
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

/// The outcome for a number of files.
#[derive(Debug, Default)]
pub struct Summary {
    /// New or changed documents.
    pub added: usize,
    /// Documents that the library already had.
    pub unchanged: usize,
    /// Files that were skipped, with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

impl Summary {
    /// Prints the summary to stderr.
    pub fn print(&self) {
        for (path, reason) in self.skipped.iter().take(MAX_LISTED) {
            eprintln!("skipped {}: {reason}", printable(path));
        }
        if let Some(more) = self
            .skipped
            .len()
            .checked_sub(MAX_LISTED)
            .filter(|more| *more > 0)
        {
            eprintln!("skipped {more} more");
        }
        eprintln!(
            "{} indexed, {} unchanged, {} skipped",
            self.added,
            self.unchanged,
            self.skipped.len()
        );
    }
}

/// Returns a path as one line for a terminal.
fn printable(path: &Path) -> String {
    path.display()
        .to_string()
        .replace(|letter: char| letter.is_control(), "\u{fffd}")
}

/// Indexes files and folders, with progress on stderr and to `report`, which gets the number of files
/// that are done and of all files. Files that cannot be read are skipped.
///
/// # Cancel safety
///
/// Each document is added completely or not at all.
pub async fn ingest(
    library: &Arc<Library>,
    extractor: &Extractor,
    originals: &Originals,
    paths: &[PathBuf],
    max_file_bytes: usize,
    report: impl Fn(usize, usize),
) -> Summary {
    let (files, skipped) = walk::walk(paths);
    let mut summary = Summary::default();
    let skipped = skipped
        .into_iter()
        .map(|SkippedFile { path, reason }| (path, reason.to_owned()));
    summary.skipped.extend(skipped);
    let total = files.len();
    let progress = Progress::new(total);
    report(0, total);
    // Several files are read concurrently and added in the order of the walk.
    let mut reading = stream::iter(files)
        .map(|file| async {
            let read = read(extractor, &file, max_file_bytes).await;
            (file, read)
        })
        .buffered(extractor.concurrency());
    let mut done = 0;
    while let Some((file, read)) = reading.next().await {
        let added = match read {
            Ok((parsed, bytes)) => {
                let added = store(library, None, &file.name, parsed).await;
                if let Ok(added) = &added {
                    originals.keep(&added.document.id, &bytes).await;
                }
                added.map_err(|error| error.to_string())
            }
            Err(reason) => Err(reason),
        };
        match added {
            Ok(AddedDocument {
                document,
                unchanged: false,
            }) => {
                summary.added += 1;
                progress.done(&file.name, &format!("{} chunks", document.chunks));
            }
            Ok(_) => {
                summary.unchanged += 1;
                progress.done(&file.name, "unchanged");
            }
            Err(reason) => {
                progress.done(&file.name, &reason);
                summary.skipped.push((file.path, reason));
            }
        }
        done += 1;
        report(done, total);
    }
    progress.finish();
    summary
}

async fn read(
    extractor: &Extractor,
    source: &SourceFile,
    max_file_bytes: usize,
) -> Result<(Parsed, Bytes), String> {
    let failed = |error: std::io::Error| error.to_string();
    let file = tokio::fs::File::open(&source.path).await.map_err(failed)?;
    let metadata = file.metadata().await.map_err(failed)?;
    if !metadata.is_file() {
        return Err("not a regular file".into());
    }
    let too_large = || format!("larger than {max_file_bytes} bytes");
    if metadata.len() > max_file_bytes as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(max_file_bytes as u64 + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(failed)?;
    if bytes.len() > max_file_bytes {
        return Err(too_large());
    }
    let bytes = Bytes::from(bytes);
    let parsed = extractor.extract(&source.name, bytes.clone()).await;
    parsed
        .map(|parsed| (parsed, bytes))
        .map_err(|error| error.to_string())
}
