//! The files as they were added, beside the library: one file per document, under its ID.
//!
//! Answers need only the text of a document. The original is kept for its reader, within a limit: a
//! file that does not fit is not kept, and its document is answered from all the same.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ragwire_rag::models::Boxed;
use ragwire_rag::{FollowError, FollowReport, Library, LibraryFollower};
use tokio::fs::{self, File};

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
    kept: Mutex<Kept>,
    /// Locked while files are written or deleted.
    changing: tokio::sync::Mutex<()>,
}

/// What is in the folder.
#[derive(Debug, Default)]
struct Kept {
    /// The sizes of the files by the IDs of their documents.
    files: HashMap<String, u64>,
    /// Their sum.
    bytes: u64,
}

impl Kept {
    fn insert(&mut self, document_id: &str, size: u64) {
        let replaced = self.files.insert(document_id.to_owned(), size);
        self.bytes = self.bytes + size - replaced.unwrap_or(0);
    }

    fn remove(&mut self, document_id: &str) {
        self.bytes -= self.files.remove(document_id).unwrap_or(0);
    }
}

impl Originals {
    /// Opens the folder, and creates it if it does not exist. What a crash left is deleted.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be read or created.
    pub async fn open(library: Arc<Library>, folder: PathBuf, max_bytes: u64) -> io::Result<Self> {
        let reading = tokio::task::spawn_blocking({
            let (library, folder) = (Arc::clone(&library), folder.clone());
            move || read_folder(&library, &folder)
        });
        let kept = reading.await.map_err(io::Error::other)??;
        Ok(Self {
            library,
            folder,
            max_bytes,
            kept: Mutex::new(kept),
            changing: tokio::sync::Mutex::new(()),
        })
    }

    /// Returns whether the file of a document is not kept although there is room for it.
    pub fn lacks(&self, document_id: &str, size: u64) -> bool {
        let kept = self.kept();
        !kept.files.contains_key(document_id) && kept.bytes.saturating_add(size) <= self.max_bytes
    }

    /// Keeps the file of a document, unless it is there already or does not fit. A failure is only
    /// logged, since the document has been added.
    pub async fn keep(&self, document_id: &str, bytes: &[u8]) {
        let _changing = self.changing.lock().await;
        let size = bytes.len() as u64;
        if !self.lacks(document_id, size) {
            if !self.kept().files.contains_key(document_id) {
                tracing::warn!(
                    document = document_id,
                    size,
                    limit = self.max_bytes,
                    "the original is not kept: --originals-size is reached"
                );
            }
            return;
        }
        match write(&self.folder.join(document_id), bytes).await {
            Ok(()) => self.kept().insert(document_id, size),
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
        let _changing = self.changing.lock().await;
        let gone: Vec<String> = {
            let kept = self.kept();
            let gone = kept.files.keys().filter(|id| !self.library.is_live(id));
            gone.cloned().collect()
        };
        for id in &gone {
            fs::remove_file(self.folder.join(id)).await?;
            self.kept().remove(id);
        }
        Ok(gone.len())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists the files of documents, and deletes all others.
fn read_folder(library: &Library, folder: &Path) -> io::Result<Kept> {
    std::fs::create_dir_all(folder)?;
    let mut kept = Kept::default();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_name().to_str().filter(|id| library.is_live(id)) {
            Some(id) => kept.insert(id, entry.metadata()?.len()),
            None => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(kept)
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
