//! The files as they were added, beside the library: one file per document, under its ID.
//!
//! Answers need only the text of a document. The original is kept for its reader, within a limit: a
//! file that does not fit is not kept, and its document is answered from all the same.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ragwire_rag::models::Boxed;
use ragwire_rag::{FollowError, FollowReport, Library, LibraryFollower};
use tokio::fs::{self, File};
use tokio::sync::Mutex;

/// The folder in the data folder.
pub const FOLDER: &str = "originals";
/// Ends the name of a file that is being written.
const PART: &str = "part";

/// The kept files of one library. It follows the library: the file of a document that was removed
/// or replaced is deleted.
#[derive(Debug)]
pub struct Originals {
    library: Arc<Library>,
    folder: PathBuf,
    max_bytes: u64,
    /// Bytes in use. Locked while files are added or deleted.
    used: Mutex<u64>,
}

impl Originals {
    /// Opens the folder, and creates it if it does not exist. What a crash left is deleted.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be read or created.
    pub async fn open(library: Arc<Library>, folder: PathBuf, max_bytes: u64) -> io::Result<Self> {
        fs::create_dir_all(&folder).await?;
        let originals = Self {
            library,
            folder,
            max_bytes,
            used: Mutex::new(0),
        };
        originals.prune().await?;
        Ok(originals)
    }

    /// Keeps the file of a document, unless it is there already or does not fit. A failure is only
    /// logged, since the document has been added.
    pub async fn keep(&self, document_id: &str, bytes: &[u8]) {
        let mut used = self.used.lock().await;
        let file = self.folder.join(document_id);
        if fs::try_exists(&file).await.unwrap_or(false) {
            return;
        }
        let size = bytes.len() as u64;
        if size > self.max_bytes.saturating_sub(*used) {
            tracing::warn!(
                document = document_id,
                size,
                limit = self.max_bytes,
                "the original is not kept: --originals-size is reached"
            );
            return;
        }
        match write(&file, bytes).await {
            Ok(()) => *used += size,
            Err(error) => tracing::warn!(%error, document = document_id, "the original cannot be kept"),
        }
    }

    /// Opens the file of a document of the library; `None` if it was not kept. Also returns its
    /// size.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub async fn open_file(&self, document_id: &str) -> io::Result<Option<(File, u64)>> {
        // An ID of the library is a safe name; any other text is not used as one.
        if !self.library.is_live(document_id) {
            return Ok(None);
        }
        match File::open(self.folder.join(document_id)).await {
            Ok(file) => {
                let size = file.metadata().await?.len();
                Ok(Some((file, size)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes every file whose document is not in the library, and returns how many they were.
    async fn prune(&self) -> io::Result<usize> {
        let mut used = self.used.lock().await;
        let (mut bytes, mut removed) = (0, 0);
        let mut entries = fs::read_dir(&self.folder).await?;
        while let Some(entry) = entries.next_entry().await? {
            let is_live = entry
                .file_name()
                .to_str()
                .is_some_and(|id| self.library.is_live(id));
            if is_live {
                bytes += entry.metadata().await?.len();
            } else {
                fs::remove_file(entry.path()).await?;
                removed += 1;
            }
        }
        *used = bytes;
        Ok(removed)
    }
}

/// Writes a file that is complete or absent after a crash.
async fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = file.with_extension(PART);
    let written = async {
        fs::write(&part, bytes).await?;
        fs::rename(&part, file).await
    };
    let result = written.await;
    if result.is_err() {
        drop(fs::remove_file(&part).await);
    }
    result
}

impl LibraryFollower for Originals {
    fn name(&self) -> &'static str {
        "originals"
    }

    fn library(&self) -> &Arc<Library> {
        &self.library
    }

    fn reconcile(&self) -> Boxed<'_, Result<FollowReport, FollowError>> {
        Box::pin(async {
            let mut report = FollowReport::default();
            report.removed = self.prune().await?;
            Ok(report)
        })
    }
}

#[cfg(test)]
mod tests {
    use ragwire_rag::parse;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn add(library: &Library, name: &str, text: &str) -> String {
        let parsed = parse(name, text.as_bytes(), &Default::default()).unwrap();
        library.add(name, &parsed).unwrap().id
    }

    async fn read(originals: &Originals, id: &str) -> Option<String> {
        let (mut file, size) = originals.open_file(id).await.unwrap()?;
        let mut text = String::new();
        file.read_to_string(&mut text).await.unwrap();
        assert_eq!(size, text.len() as u64);
        Some(text)
    }

    #[tokio::test]
    async fn files_are_bounded_and_leave_with_their_documents() {
        let library = Arc::new(Library::in_memory(Default::default()).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let open = || Originals::open(Arc::clone(&library), folder.path().join(FOLDER), 50);
        let originals = open().await.unwrap();
        let birds = add(&library, "birds.md", "# Birds\n\nA robin sings at dawn.");
        originals.keep(&birds, b"# Birds\n\nA robin sings at dawn.").await;
        let cats = add(&library, "cats.md", "# Cats\n\nA cat sleeps all day.");
        originals.keep(&cats, b"# Cats\n\nA cat sleeps all day.").await;
        assert_eq!(
            read(&originals, &birds).await.unwrap(),
            "# Birds\n\nA robin sings at dawn."
        );
        assert_eq!(
            read(&originals, &cats).await,
            None,
            "50 bytes are not enough for both"
        );
        assert_eq!(read(&originals, "../birds").await, None);
        // After a restart the limit still counts what is there.
        drop(originals);
        let originals = open().await.unwrap();
        originals.keep(&cats, b"# Cats\n\nA cat sleeps all day.").await;
        assert_eq!(read(&originals, &cats).await, None);
        // Other content replaces the document, and makes room.
        let again = add(&library, "birds.md", "# Birds\n\nAn owl sings at night.");
        assert_eq!(originals.reconcile().await.unwrap().removed, 1);
        originals.keep(&cats, b"# Cats\n\nA cat sleeps all day.").await;
        assert!(read(&originals, &cats).await.is_some());
        assert_eq!(read(&originals, &again).await, None);
        assert!(library.remove(&cats).unwrap());
        assert_eq!(originals.reconcile().await.unwrap().removed, 1);
        assert_eq!(std::fs::read_dir(folder.path().join(FOLDER)).unwrap().count(), 0);
    }
}
