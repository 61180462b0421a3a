//! The files as they were added, beside the library: one file per document, under its ID.
//!
//! Answers need only the text of a document. The original is kept for its reader, within a limit: a
//! file that does not fit is not kept, and its document is answered from all the same.
//!
//! Servers that share a library may share the folder too. Each then finds the files of all, and deletes
//! those of documents that it sees removed. What another server is just writing looks like a file
//! without a document, so strange files are only deleted when they are old.

use std::collections::{BTreeSet, HashMap};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ragwire_rag::models::Boxed;
use ragwire_rag::{FollowError, FollowReport, Library, LibraryFollower};
use tokio::fs::{self, File};

/// The folder in the data folder.
pub const FOLDER: &str = "originals";
/// Ends the name of a file that is being written.
const PART: &str = "part";
/// The age from which a strange file in a shared folder is deleted. An upload takes minutes, and another
/// server sees its document within ten more.
const STRANGE: Duration = Duration::from_secs(3600);

/// Where the files are.
#[derive(Clone, Debug)]
pub enum Place {
    /// A folder that no other server uses.
    Own(PathBuf),
    /// A folder of all servers that share the library.
    Shared(PathBuf),
}

impl Place {
    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        match self {
            Self::Own(folder) | Self::Shared(folder) => folder,
        }
    }

    /// Returns whether a file that belongs to no document may be deleted.
    fn may_delete(&self, strange: &Metadata) -> bool {
        match self {
            Self::Own(_) => true,
            // A clock that is behind makes it younger.
            Self::Shared(_) => strange
                .modified()
                .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age >= STRANGE)),
        }
    }
}

/// The kept files of one library. It follows the library: the file of a document that was removed
/// or replaced is deleted.
#[derive(Debug)]
pub struct Originals {
    library: Arc<Library>,
    place: Place,
    max_bytes: u64,
    kept: Mutex<Kept>,
    /// Locked while files are written or deleted. The revision of the library that was compared last.
    changing: tokio::sync::Mutex<u64>,
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
    /// Opens the folder, and creates it if it does not exist. What a crash left is deleted. In a shared
    /// folder, `max_bytes` counts what is there now and what this server adds.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be read or created.
    pub async fn open(library: Arc<Library>, place: Place, max_bytes: u64) -> io::Result<Self> {
        let revision = library.revision();
        let reading = tokio::task::spawn_blocking({
            let (library, place) = (Arc::clone(&library), place.clone());
            move || read_folder(&library, &place)
        });
        let kept = reading.await.map_err(io::Error::other)??;
        Ok(Self {
            library,
            place,
            max_bytes,
            kept: Mutex::new(kept),
            changing: tokio::sync::Mutex::new(revision),
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
        match write(self.place.folder(), document_id, bytes).await {
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
        match File::open(self.place.folder().join(document_id)).await {
            Ok(file) => {
                let size = file.metadata().await?.len();
                Ok(Some((file, size)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes every file whose document is not in the library any more, and returns how many documents
    /// those are. In a shared folder also the files that another server has written; if there were too many
    /// changes to know them, they are deleted at a later start.
    async fn prune(&self) -> io::Result<usize> {
        let mut compared = self.changing.lock().await;
        let revision = self.library.revision();
        let mut gone: BTreeSet<String> = self.kept().files.keys().cloned().collect();
        if let Place::Shared(_) = self.place {
            let changes = self.library.changes_since(*compared).unwrap_or_default();
            gone.extend(changes.into_iter().map(|change| change.document_id));
        }
        gone.retain(|id| !self.library.is_live(id));
        for id in &gone {
            match fs::remove_file(self.place.folder().join(id)).await {
                // Another server was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
            self.kept().remove(id);
        }
        *compared = revision;
        Ok(gone.len())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists the files of documents, and deletes others.
fn read_folder(library: &Library, place: &Place) -> io::Result<Kept> {
    let folder = place.folder();
    std::fs::create_dir_all(folder)?;
    let mut kept = Kept::default();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let read = entry.metadata().and_then(|metadata| {
            match entry.file_name().to_str().filter(|id| library.is_live(id)) {
                Some(id) => kept.insert(id, metadata.len()),
                None if place.may_delete(&metadata) => std::fs::remove_file(entry.path())?,
                None => {}
            }
            Ok(())
        });
        match read {
            // Another server has deleted or renamed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => read?,
        }
    }
    Ok(kept)
}

/// Writes a file that is complete or absent after a crash.
async fn write(folder: &Path, document_id: &str, bytes: &[u8]) -> io::Result<()> {
    // Another server may be writing the same file.
    let writer = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let part = folder.join(format!("{document_id}.{}-{writer}.{PART}", std::process::id()));
    let written = async {
        fs::write(&part, bytes).await?;
        fs::rename(&part, folder.join(document_id)).await
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
        let open = || {
            let place = Place::Own(folder.path().join(FOLDER));
            Originals::open(Arc::clone(&library), place, 50)
        };
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

    #[tokio::test]
    async fn strange_files_in_a_shared_folder_stay_until_they_are_old() {
        let library = Arc::new(Library::in_memory(Default::default()).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let birds = add(&library, "birds.md", "A robin sings at dawn.");
        let open = |place| Originals::open(Arc::clone(&library), place, 1 << 20);
        let shared = || Place::Shared(folder.path().to_owned());
        let originals = open(shared()).await.unwrap();
        originals.keep(&birds, b"A robin sings at dawn.").await;
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        for file in [&new, &old] {
            std::fs::write(file, "Of another server.").unwrap();
        }
        let before = SystemTime::now() - STRANGE;
        let opened = std::fs::File::options().write(true).open(&old).unwrap();
        opened.set_modified(before).unwrap();
        drop(originals);

        let [one, other] = [open(shared()).await.unwrap(), open(shared()).await.unwrap()];
        assert_eq!((new.exists(), old.exists()), (true, false));
        // Both delete the file of a document that both see removed.
        assert!(library.remove(&birds).unwrap());
        for originals in [&one, &other] {
            assert_eq!(originals.reconcile().await.unwrap().removed, 1);
        }
        assert!(!folder.path().join(&birds).exists());
        // Nobody else writes to a folder of its own.
        open(Place::Own(folder.path().to_owned())).await.unwrap();
        assert!(!new.exists());
    }
}
