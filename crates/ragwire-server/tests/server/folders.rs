//! Folders that the library follows: what is read again, what is removed, and what is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use ragwire_rag::{Library, LibraryLimits};
use ragwire_server::extract::{ExtractErrorKind, Extractor};
use ragwire_server::ingest::{Folders, Summary, watch};
use ragwire_server::originals::{Originals, Place};
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::Size;

use crate::documents::{flate_bomb, pdf};

/// A folder of documents, a library, and what follows the one with the other.
struct Following {
    _folder: tempfile::TempDir,
    docs: PathBuf,
    library: Arc<Library>,
    originals: Arc<Originals>,
    extractor: Extractor,
    settings: Settings,
}

impl Following {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let docs = folder.path().join("docs");
        std::fs::create_dir(&docs).unwrap();
        let data = folder.path().join("data");
        let library = Arc::new(Library::open(&data, LibraryLimits::default()).unwrap());
        let originals = Originals::open(Arc::clone(&library), Place::Own(data.join("originals")), 1 << 20);
        let originals = Arc::new(originals.await.unwrap());
        let settings = Settings {
            docs: vec![docs.clone()],
            ..Settings::default()
        };
        let extractor = Extractor::new(env!("CARGO_BIN_EXE_ragwire-server").into(), &settings);
        Self {
            _folder: folder,
            docs,
            library,
            originals,
            extractor,
            settings,
        }
    }

    fn folders(&self) -> Folders {
        Folders::new(&self.settings, &self.library, &self.extractor, &self.originals)
    }

    /// Returns how many documents were added, unchanged, skipped and removed.
    async fn sync(&self) -> [usize; 4] {
        let Summary {
            added,
            unchanged,
            skipped,
            removed,
        } = self.folders().sync(|_, _| {}).await.unwrap();
        [added, unchanged, skipped.len(), removed]
    }

    /// Writes a file that was changed so many seconds ago.
    fn write(&self, name: &str, text: &str, age: u64) {
        let path = self.docs.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        set_age(&path, age);
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .library
            .list()
            .into_iter()
            .map(|document| document.name)
            .collect();
        names.sort();
        names
    }
}

fn set_age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    std::fs::File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_modified(time))
        .unwrap();
}

#[tokio::test]
async fn unchanged_files_are_not_read_again() {
    let following = Following::new().await;
    following.write("birds.md", "# Birds\n\nA robin sings.", 100);
    following.write("sub/cats.txt", "A cat sleeps.", 100);
    following.write("broken.pdf", "%PDF-1.4 nothing", 100);
    assert_eq!(following.sync().await, [2, 0, 1, 0]);
    let (started, revision) = (following.extractor.started(), following.library.revision());
    // Neither a restart nor another time of the same content has a file parsed, and a file that cannot
    // be read is not tried again.
    for _ in 0..2 {
        assert_eq!(following.sync().await, [0, 2, 1, 0]);
        set_age(&following.docs.join("birds.md"), 50);
    }
    assert_eq!(following.sync().await, [0, 2, 1, 0]);
    assert_eq!(
        (following.extractor.started(), following.library.revision()),
        (started, revision)
    );

    following.write("birds.md", "# Birds\n\nA robin sings at dawn.", 40);
    assert_eq!(following.sync().await, [1, 1, 1, 0]);
    // A document that a user removed is added again, because its file exists.
    let cats = following
        .library
        .list()
        .into_iter()
        .find(|one| one.name.ends_with("cats.txt"))
        .unwrap();
    assert!(following.library.remove(&cats.id).unwrap());
    assert_eq!(following.sync().await, [1, 1, 1, 0]);
    assert_eq!(following.names(), ["docs/birds.md", "docs/sub/cats.txt"]);
}

#[tokio::test]
async fn a_change_within_one_tick_of_the_clock_is_found() {
    let following = Following::new().await;
    following.write("a.md", "A robin sings.", 0);
    let time = std::fs::metadata(following.docs.join("a.md"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(following.sync().await, [1, 0, 0, 0]);
    // Of the same length, and with the same time.
    std::fs::write(following.docs.join("a.md"), "A raven sings.").unwrap();
    let file = std::fs::File::options()
        .write(true)
        .open(following.docs.join("a.md"))
        .unwrap();
    file.set_modified(time).unwrap();
    assert_eq!(following.sync().await, [1, 0, 0, 0]);
    assert_eq!(following.library.search("raven", 1).unwrap().len(), 1);
}

#[tokio::test]
async fn documents_leave_with_their_files() {
    let following = Following::new().await;
    following.write("a.md", "A robin sings.", 100);
    following.write("sub/b.md", "An owl hunts.", 100);
    following.write("sub/c.md", "A wren hides.", 100);
    assert_eq!(following.sync().await, [3, 0, 0, 0]);
    std::fs::remove_file(following.docs.join("a.md")).unwrap();
    std::fs::rename(following.docs.join("sub/b.md"), following.docs.join("d.md")).unwrap();
    assert_eq!(following.sync().await, [1, 1, 0, 2]);
    assert_eq!(following.names(), ["docs/d.md", "docs/sub/c.md"]);
    // A file that cannot be read any more takes its old text with it.
    following.write("d.md", " ", 50);
    assert_eq!(following.sync().await, [0, 1, 1, 1]);
    // The last one too, if it is the same folder.
    std::fs::remove_dir_all(following.docs.join("sub")).unwrap();
    std::fs::remove_file(following.docs.join("d.md")).unwrap();
    assert_eq!(following.sync().await, [0, 0, 0, 1]);
    assert_eq!(following.names(), [""; 0]);
}

#[tokio::test]
#[cfg(unix)]
async fn a_missing_disk_removes_nothing() {
    let following = Following::new().await;
    following.write("a.md", "A robin sings.", 100);
    assert_eq!(following.sync().await, [1, 0, 0, 0]);
    let away = following.docs.with_extension("away");
    std::fs::rename(&following.docs, &away).unwrap();
    // The folder was deleted.
    assert_eq!(following.sync().await, [0, 0, 1, 0]);
    // The mount point without its disk.
    std::fs::create_dir(&following.docs).unwrap();
    assert_eq!(following.sync().await, [0, 0, 0, 0]);
    assert_eq!(following.names(), ["docs/a.md"]);
    std::fs::remove_dir(&following.docs).unwrap();
    std::fs::rename(&away, &following.docs).unwrap();
    assert_eq!(following.sync().await, [0, 1, 0, 0]);
}

#[tokio::test]
async fn a_folder_is_followed_while_it_changes() {
    let following = Following::new().await;
    following.write("a.md", "A robin sings.", 100);
    let until = async |names: &[&str]| {
        for _ in 0..600 {
            if following.names() == names {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{:?} instead of {names:?}", following.names());
    };
    let script = async {
        until(&["docs/a.md"]).await;
        following.write("new/b.md", "An owl hunts.", 0);
        until(&["docs/a.md", "docs/new/b.md"]).await;
        following.write("a.md", "A robin rests.", 0);
        let rests = async {
            while following.library.search("rests", 1).unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), rests)
            .await
            .unwrap();
        std::fs::remove_dir_all(following.docs.join("new")).unwrap();
        until(&["docs/a.md"]).await;
    };
    tokio::select! {
        never = watch(following.folders()) => match never {},
        () = script => {}
    }
}

#[tokio::test]
async fn one_process_reads_many_documents_and_is_replaced_after_a_crash() {
    let settings = Settings {
        extract_memory: Size(512 << 20),
        ..Settings::default()
    };
    let extractor = Extractor::new(env!("CARGO_BIN_EXE_ragwire-server").into(), &settings);
    let read = async |name: &str, bytes: Vec<u8>| {
        let read = extractor.extract(name, bytes.into()).await;
        read.map(|parsed| parsed.blocks[0].text.clone())
            .map_err(|error| error.code)
    };
    for number in 0..20 {
        let text = format!("Number {number}.");
        assert_eq!(read("a.md", text.clone().into()).await, Ok(text));
        assert_eq!(
            read("a.md", b" ".to_vec()).await,
            Err("empty_document".to_owned())
        );
    }
    assert_eq!(extractor.started(), 1);
    // More than the memory that the process may have.
    let bomb = pdf(&flate_bomb(), " /Filter /FlateDecode", "3 0 R", &[]);
    assert_eq!(read("a.pdf", bomb).await, Err("extract_died".to_owned()));
    assert_eq!(
        read("a.md", b"After the crash.".to_vec()).await,
        Ok("After the crash.".to_owned())
    );
    assert_eq!(extractor.started(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn a_process_that_cannot_start_is_not_the_documents_fault() {
    // It ends at once, as a program does whose shared libraries are missing.
    let extractor = Extractor::new("/bin/false".into(), &Settings::default());
    let read = extractor.extract("a.md", Bytes::from_static(b"A text.")).await;
    let error = read.unwrap_err();
    assert_eq!(error.code, "extract_failed");
    assert_eq!(error.kind, ExtractErrorKind::Internal);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_limit_of_memory_is_for_the_document() {
    // Far less than the program and its libraries have mapped, and enough for a short text.
    let settings = Settings {
        extract_memory: Size(16 << 20),
        ..Settings::default()
    };
    let extractor = Extractor::new(env!("CARGO_BIN_EXE_ragwire-server").into(), &settings);
    let read = extractor.extract("a.md", Bytes::from_static(b"A text.")).await;
    assert_eq!(read.unwrap().blocks[0].text, "A text.");
    let long = "A sentence of a long text. ".repeat(1 << 20);
    let read = extractor.extract("a.md", Bytes::from(long)).await;
    assert_eq!(read.unwrap_err().code, "extract_died");
}
