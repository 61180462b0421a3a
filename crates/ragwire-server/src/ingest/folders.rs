//! Brings the library in step with files and folders: reads what is new or has changed, and removes
//! the documents of deleted files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use ragwire_rag::{Claim, Library, LibraryError, PARSER_VERSION, Parsed, Source, SourceOutcome, Work};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use super::plan::{Plan, PlannedFile, is_current, settled};
use super::progress::Progress;
use super::{AddError, AddErrorKind, AddedDocument, Summary, store};
use crate::extract::Extractor;
use crate::originals::Originals;
use crate::settings::Settings;

/// Files that are recorded in one transaction. After a crash so many are read again.
const RECORDS: usize = 64;

/// How often a host looks whether another one has read the folders.
const CLAIM_EVERY: Duration = Duration::from_millis(500);

/// The files and folders of the user. Clones share the library.
#[derive(Clone, Debug)]
pub struct Folders {
    library: Arc<Library>,
    extractor: Extractor,
    originals: Arc<Originals>,
    paths: Vec<PathBuf>,
    max_file_bytes: usize,
    /// What reads the files. What another one has read is read again.
    reader: String,
    reads_images: bool,
}

/// A file that was looked at.
struct Looked {
    file: PlannedFile,
    recorded: Option<Source>,
    outcome: Result<Content, Skip>,
}

struct Content {
    bytes: Bytes,
    modified_ns: u64,
    digest: String,
    /// The text, unless the content is the recorded one.
    parsed: Option<Result<Parsed, AddError>>,
}

/// Why a file gives no document.
struct Skip {
    reason: String,
    /// Whether the file is there and can be read, so that a document of its earlier content is out of
    /// date.
    is_final: bool,
}

impl Skip {
    fn io(error: &std::io::Error) -> Self {
        Self {
            reason: error.to_string(),
            is_final: false,
        }
    }

    fn too_large(limit: usize) -> Self {
        Self {
            reason: format!("larger than {limit} bytes"),
            is_final: true,
        }
    }
}

impl Folders {
    /// The files and folders that the settings name.
    pub fn new(
        settings: &Settings,
        library: &Arc<Library>,
        extractor: &Extractor,
        originals: &Arc<Originals>,
    ) -> Self {
        let max_file_bytes = *settings.max_upload_size;
        Self {
            library: Arc::clone(library),
            extractor: extractor.clone(),
            originals: Arc::clone(originals),
            paths: settings.docs.clone(),
            max_file_bytes,
            // Without languages it is what earlier versions recorded.
            reader: match settings.ocr.as_deref() {
                Some(languages) => format!("{PARSER_VERSION} {max_file_bytes} {languages}"),
                None => format!("{PARSER_VERSION} {max_file_bytes}"),
            },
            reads_images: settings.ocr.is_some(),
        }
    }

    /// Returns the paths that the user named.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads files that are new or have changed, and removes the documents of deleted ones.
    /// Shows the progress on stderr, and passes the number of files that were looked at and of all
    /// files to look at to `report`. Files that cannot be read are skipped.
    ///
    /// # Cancel safety
    ///
    /// Each document is added completely or not at all.
    ///
    /// # Errors
    ///
    /// Fails if the records of the library cannot be read.
    pub async fn sync(&self, report: impl Fn(usize, usize)) -> Result<Summary, LibraryError> {
        // Until this host has read the folders, another one that is given the same waits, and then finds
        // all of it done.
        let _claim = self.claim().await?;
        let plan = self.blocking(|this| {
            let (library, originals) = (&this.library, &this.originals);
            Plan::new(library, originals, &this.paths, &this.reader, this.reads_images)
        });
        let plan = plan.await?;
        let mut summary = Summary {
            unchanged: plan.unchanged,
            skipped: plan.skipped,
            ..Summary::default()
        };
        // First, so that there is room for what replaces them.
        for gone in plan.gone {
            summary.removed += usize::from(self.forget(gone).await?);
        }
        let roots = plan.roots;
        self.blocking(move |this| {
            roots
                .iter()
                .try_for_each(|root| this.library.record_source_root(root))
        })
        .await?;
        let total = plan.changed.len();
        let progress = Progress::new(total);
        report(0, total);
        // Several files are read concurrently and added in the order of the walk.
        let mut looking = stream::iter(plan.changed)
            .map(|(file, recorded)| self.look(file, recorded))
            .buffered(self.extractor.concurrency());
        let mut records = Vec::new();
        let mut done = 0;
        while let Some(looked) = looking.next().await {
            let recorded = self.take(looked, &mut summary, &progress).await?;
            records.extend(recorded);
            if records.len() >= RECORDS {
                self.record(std::mem::take(&mut records)).await;
            }
            done += 1;
            report(done, total);
        }
        self.record(records).await;
        progress.finish();
        Ok(summary)
    }

    async fn claim(&self) -> Result<Claim, LibraryError> {
        let mut is_waiting = false;
        loop {
            let claimed = self.blocking(|this| {
                let claim = this.library.claim(&Work::Folders)?;
                this.library.refresh()?;
                Ok(claim)
            });
            if let Some(claim) = claimed.await? {
                return Ok(claim);
            }
            if !std::mem::replace(&mut is_waiting, true) {
                tracing::info!("another host reads the folders; waiting for it");
            }
            tokio::time::sleep(CLAIM_EVERY).await;
        }
    }

    /// Reads a file, and parses it if its content is not the recorded one.
    async fn look(&self, file: PlannedFile, recorded: Option<Source>) -> Looked {
        let outcome = self.read(&file, recorded.as_ref()).await;
        Looked {
            file,
            recorded,
            outcome,
        }
    }

    async fn read(&self, planned: &PlannedFile, recorded: Option<&Source>) -> Result<Content, Skip> {
        let file = tokio::fs::File::open(&planned.path)
            .await
            .map_err(|error| Skip::io(&error))?;
        let metadata = file.metadata().await.map_err(|error| Skip::io(&error))?;
        if !metadata.is_file() {
            return Err(Skip {
                reason: "not a regular file".to_owned(),
                is_final: true,
            });
        }
        let limit = self.max_file_bytes;
        if metadata.len() > limit as u64 {
            return Err(Skip::too_large(limit));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
        file.take(limit as u64 + 1)
            .read_to_end(&mut bytes)
            .await
            .map_err(|error| Skip::io(&error))?;
        if bytes.len() > limit {
            return Err(Skip::too_large(limit));
        }
        // A file that grew meanwhile will have a later time, perhaps.
        let is_whole = bytes.len() as u64 == metadata.len();
        let modified_ns = if is_whole {
            settled(metadata.modified().ok())
        } else {
            0
        };
        let digest = digest(&bytes);
        let is_same = recorded
            .is_some_and(|source| source.digest == digest && is_current(source, &self.library, &self.reader));
        let bytes = Bytes::from(bytes);
        let parsed = if is_same {
            None
        } else if let Err(full) = self.library.check_room_for(&planned.name) {
            Some(Err(full.into()))
        } else {
            let parsed = self.extractor.extract(&planned.name, bytes.clone()).await;
            Some(parsed.map_err(AddError::from))
        };
        Ok(Content {
            bytes,
            modified_ns,
            digest,
            parsed,
        })
    }

    /// Adds what was read, and returns what to record.
    async fn take(
        &self,
        looked: Looked,
        summary: &mut Summary,
        progress: &Progress,
    ) -> Result<Option<Source>, LibraryError> {
        let Looked {
            file,
            recorded,
            outcome,
        } = looked;
        let content = match outcome {
            Ok(content) => content,
            Err(skip) => {
                if skip.is_final {
                    summary.removed += usize::from(self.remove(recorded.as_ref()).await?);
                }
                progress.skipped(&file.name);
                summary.skipped.push((file.path, skip.reason));
                return Ok(None);
            }
        };
        let source = |outcome| Source {
            name: file.name.clone(),
            root: file.root.clone(),
            bytes: content.bytes.len() as u64,
            modified_ns: content.modified_ns,
            digest: content.digest.clone(),
            reader: self.reader.clone(),
            outcome,
        };
        let added = match content.parsed {
            None => {
                let outcome = recorded.map(|recorded| recorded.outcome);
                match &outcome {
                    Some(SourceOutcome::Document(id)) => {
                        summary.unchanged += 1;
                        self.originals.keep(id, &content.bytes).await;
                        progress.done(&file.name, "unchanged");
                    }
                    Some(SourceOutcome::Skipped(reason)) => {
                        progress.skipped(&file.name);
                        summary.skipped.push((file.path.clone(), reason.clone()));
                    }
                    None => {}
                }
                return Ok(outcome.map(source));
            }
            Some(Ok(parsed)) => store(&self.library, None, &file.name, parsed).await,
            Some(Err(error)) => Err(error),
        };
        match added {
            Ok(AddedDocument { document, unchanged }) => {
                self.originals.keep(&document.id, &content.bytes).await;
                let outcome = if unchanged {
                    summary.unchanged += 1;
                    "unchanged".to_owned()
                } else {
                    summary.added += 1;
                    match document.chunks {
                        1 => "1 chunk".to_owned(),
                        chunks => format!("{chunks} chunks"),
                    }
                };
                progress.done(&file.name, &outcome);
                Ok(Some(source(SourceOutcome::Document(document.id))))
            }
            Err(error) => {
                let reason = error.to_string();
                progress.skipped(&file.name);
                summary.skipped.push((file.path.clone(), reason.clone()));
                let concerns_content = concerns_content(&error);
                if concerns_content {
                    summary.removed += usize::from(self.remove(recorded.as_ref()).await?);
                }
                Ok(concerns_content.then(|| source(SourceOutcome::Skipped(reason))))
            }
        }
    }

    /// Removes the document of a deleted file, and the record of the file.
    async fn forget(&self, source: Source) -> Result<bool, LibraryError> {
        let removed = self.remove(Some(&source)).await?;
        let name = source.name;
        self.blocking(move |this| this.library.record_sources(&[], &[name]))
            .await?;
        Ok(removed)
    }

    /// Removes the document of a file, unless an upload has replaced it.
    async fn remove(&self, source: Option<&Source>) -> Result<bool, LibraryError> {
        let Some(SourceOutcome::Document(id)) = source.map(|source| &source.outcome) else {
            return Ok(false);
        };
        let id = id.clone();
        self.blocking(move |this| this.library.remove(&id)).await
    }

    /// Records files. If that fails, they are read again next time.
    async fn record(&self, sources: Vec<Source>) {
        if sources.is_empty() {
            return;
        }
        let recorded = self.blocking(move |this| this.library.record_sources(&sources, &[]));
        if let Err(error) = recorded.await {
            tracing::warn!(%error, "files will be read again at the next start");
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, LibraryError> + Send + 'static,
    ) -> Result<T, LibraryError> {
        let this = self.clone();
        match tokio::task::spawn_blocking(move || work(&this)).await {
            Ok(done) => done,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
}

/// Returns whether the same file will give the same error again. Time and memory depend on what else
/// the machine does.
fn concerns_content(error: &AddError) -> bool {
    match error.kind() {
        AddErrorKind::Unsupported | AddErrorKind::TooLarge | AddErrorKind::Unreadable => true,
        AddErrorKind::Exhausted
        | AddErrorKind::LibraryFull
        | AddErrorKind::NoSpace
        | AddErrorKind::Unavailable
        | AddErrorKind::Internal => false,
    }
}

/// 128 bits of SHA-256.
fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
