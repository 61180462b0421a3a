//! From files to the library: found by `walk.rs`, read by [`crate::extract`], told of by `progress.rs`.

mod progress;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use ragwire_rag::{Document, Library, LibraryError, Parsed};
use tokio::io::AsyncReadExt;

use crate::extract::{ExtractError, Extractor};
use progress::Progress;
use walk::{Found, Skipped};

/// Most skipped files that the summary names one by one.
const MAX_NAMED: usize = 20;

/// A document that is in.
#[derive(Debug)]
pub struct Added {
    /// The document.
    pub document: Document,
    /// Whether it was there before, unchanged.
    pub unchanged: bool,
}

/// Why a document is not in. Fit for the one who sent it.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// It could not be read.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// The library did not take it.
    #[error("{}", in_words(.0))]
    Library(#[from] LibraryError),
    /// The thread that adds it was lost.
    #[error("the document could not be added now")]
    Lost,
}

impl AddError {
    /// Stable machine word.
    pub fn code(&self) -> &str {
        match self {
            Self::Extract(error) => &error.code,
            Self::Library(error) => error.code(),
            Self::Lost => "extract_failed",
        }
    }
}

/// The error without its source, which may name paths of this machine.
fn in_words(error: &LibraryError) -> String {
    error.to_string()
}

/// Reads a document and adds it.
///
/// # Cancel safety
///
/// The document is in or not.
///
/// # Errors
///
/// [`AddError`]; the library is as it was.
pub async fn add(
    library: &Arc<Library>,
    extractor: &Extractor,
    name: &str,
    bytes: Bytes,
) -> Result<Added, AddError> {
    let parsed = extractor.extract(name, bytes).await?;
    store(library, name, parsed).await
}

async fn store(library: &Arc<Library>, name: &str, parsed: Parsed) -> Result<Added, AddError> {
    let (library, name) = (Arc::clone(library), name.to_owned());
    let adding = tokio::task::spawn_blocking(move || {
        // Told once for a document that is new, never for one that was there.
        let mut new = false;
        let document = library.add_with(&name, &parsed, |_| {
            new = true;
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(Added {
            document,
            unchanged: !new,
        })
    });
    adding.await.unwrap_or(Err(AddError::Lost))
}

/// What became of a number of files.
#[derive(Debug, Default)]
pub struct Summary {
    /// New or changed documents.
    pub added: usize,
    /// Documents that were in already.
    pub unchanged: usize,
    /// Files that were not taken, and why.
    pub skipped: Vec<(PathBuf, String)>,
}

impl Summary {
    /// Prints it to stderr.
    pub fn print(&self) {
        for (path, reason) in self.skipped.iter().take(MAX_NAMED) {
            eprintln!("skipped {}: {reason}", shown(path));
        }
        if let Some(more) = self.skipped.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
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

/// A path as one line of a terminal.
fn shown(path: &Path) -> String {
    path.display()
        .to_string()
        .replace(|letter: char| letter.is_control(), "\u{fffd}")
}

/// Indexes files and folders, with progress on stderr. A file that cannot be read is skipped; it never ends the work.
pub async fn ingest(
    library: &Arc<Library>,
    extractor: &Extractor,
    paths: &[PathBuf],
    max_file_bytes: usize,
) -> Summary {
    let (found, skipped) = walk::walk(paths);
    let mut summary = Summary::default();
    let skipped = skipped
        .into_iter()
        .map(|Skipped { path, reason }| (path, reason.to_owned()));
    summary.skipped.extend(skipped);
    let progress = Progress::new(found.len());
    // Several are read at a time, and added in the order in which they were found.
    let mut reading = stream::iter(found)
        .map(|found| async {
            let parsed = read(extractor, &found, max_file_bytes).await;
            (found, parsed)
        })
        .buffered(extractor.places());
    while let Some((found, parsed)) = reading.next().await {
        let added = match parsed {
            Ok(parsed) => store(library, &found.name, parsed)
                .await
                .map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        match added {
            Ok(Added {
                document,
                unchanged: false,
            }) => {
                summary.added += 1;
                progress.done(&found.name, &format!("{} chunks", document.chunks));
            }
            Ok(_) => {
                summary.unchanged += 1;
                progress.done(&found.name, "unchanged");
            }
            Err(reason) => {
                progress.done(&found.name, &reason);
                summary.skipped.push((found.path, reason));
            }
        }
    }
    progress.finish();
    summary
}

async fn read(extractor: &Extractor, found: &Found, max_file_bytes: usize) -> Result<Parsed, String> {
    let failed = |error: std::io::Error| error.to_string();
    let file = tokio::fs::File::open(&found.path).await.map_err(failed)?;
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
    extractor
        .extract(&found.name, bytes.into())
        .await
        .map_err(|error| error.to_string())
}
