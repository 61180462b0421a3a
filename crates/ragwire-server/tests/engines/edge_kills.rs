//! One host with its vectors in Qdrant Edge, killed while it stores documents. The library is in
//! SQLite, and each start makes the store follow it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ragwire_rag::search::store::{EdgeOptions, EdgeStore, Filter, Store, Vectors};
use ragwire_rag::{Library, LibraryLimits};
use ragwire_server::engines::Engines;
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::StoreKind;
use ragwire_server::settings::values::CountOrZero;

use crate::models::{embedder, model, within};
use crate::program::served;
use crate::request::request;

/// When the server is killed, after an upload began.
const DELAYS_MS: [u64; 7] = [0, 10, 40, 80, 160, 320, 640];
const SECTIONS: u32 = 40;

/// A document that takes a while to embed, with another word in each section.
fn report(round: usize) -> String {
    (0..SECTIONS)
        .map(|n| {
            format!("## Part {n} of report {round}\n\nThe crane lifts container r{round}n{n} at noon.\n\n")
        })
        .collect()
}

/// Names and IDs of the reports that a server lists.
fn reports(address: &str) -> BTreeMap<String, String> {
    let (status, listed) = request(address, "GET", "/v1/documents", "");
    assert_eq!(status, 200, "{listed}");
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let documents = listed["documents"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    documents
        .map(|document| (text(&document["name"]), text(&document["id"])))
        .filter(|(name, _)| name.starts_with("report"))
        .collect()
}

/// What the server has acknowledged.
#[derive(Default)]
struct Acknowledged {
    names: BTreeSet<String>,
    /// Uploads that were cut: they may be there as a whole.
    open: BTreeSet<String>,
}

impl Acknowledged {
    /// Fails if a report is lost or has come back. An upload that was cut is decided from then on.
    fn check(&mut self, found: &BTreeMap<String, String>) {
        let found: BTreeSet<String> = found.keys().cloned().collect();
        let open = std::mem::take(&mut self.open);
        self.names.extend(open.intersection(&found).cloned());
        assert_eq!(found, self.names);
    }
}

/// Returns the number of chunks of each document in a store.
async fn chunks(folder: &Path) -> BTreeMap<String, u64> {
    let options = EdgeOptions::new(Vectors::dense(32)).embedder("tiny bert");
    let store = EdgeStore::open(folder.join("qdrant-edge"), options)
        .await
        .unwrap();
    let mut chunks = BTreeMap::new();
    for document in store.documents().await.unwrap() {
        let count = store.count(Filter::default().document(&document)).await.unwrap();
        chunks.insert(document, count);
    }
    store.close().await.unwrap();
    chunks
}

/// Fills the store of a folder from a library.
async fn filled(folder: &Path, library: &Arc<Library>) {
    let settings = Settings {
        data: folder.to_owned(),
        store: StoreKind::QdrantEdge,
        embedder: model(embedder()),
        llm_threads: CountOrZero(1),
        ..Settings::default()
    };
    let engines = within(Engines::start_indexing(&settings, library)).await;
    let engines = engines.unwrap().unwrap();
    within(engines.reconcile()).await.unwrap();
    within(engines.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_killed_in_uploads_and_removals_keeps_what_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let more = [
        "--store",
        "qdrant-edge",
        "--embedder",
        embedder().to_str().unwrap(),
    ];
    let mut expected = Acknowledged::default();
    for (round, delay) in DELAYS_MS.into_iter().enumerate() {
        let (child, address, _rest) = served(folder.path(), &more);
        let found = reports(&address);
        expected.check(&found);
        // A removal, then an upload during which it is killed.
        if let Some((name, id)) = found.first_key_value().filter(|_| round % 2 == 1) {
            let (status, body) = request(&address, "DELETE", &format!("/v1/documents/{id}"), "");
            assert_eq!(status, 204, "{body}");
            expected.names.remove(name);
        }
        let name = format!("report{round}.md");
        let path = format!("/v1/documents?name={name}");
        let (status, code) = std::thread::scope(|scope| {
            let upload = scope.spawn(|| request(&address, "POST", &path, &report(round)).0);
            std::thread::sleep(Duration::from_millis(delay));
            child.signal("KILL");
            (upload.join().unwrap(), child.code())
        });
        assert_eq!(code, None);
        match status {
            201 => expected.names.insert(name),
            0 => expected.open.insert(name),
            _ => panic!("{status}"),
        };
    }

    let (child, address, _rest) = served(folder.path(), &more);
    let found = reports(&address);
    expected.check(&found);
    let question = r#"{"prompt":"What does the crane lift?"}"#;
    let (status, answer) = request(&address, "POST", "/v1/turns", question);
    assert_eq!((status, answer.contains(" at noon. ")), (200, true), "{answer}");
    child.signal("TERM");
    assert_eq!(child.code(), Some(0));

    // Each report is whole.
    let library = Arc::new(Library::open(folder.path(), LibraryLimits::default()).unwrap());
    for document in library.list() {
        if document.name.starts_with("report") {
            assert_eq!(document.chunks, SECTIONS, "{}", document.name);
        }
    }
    // The store has the chunks that a new one gets from the same library.
    let control = tempfile::tempdir().unwrap();
    filled(control.path(), &library).await;
    let (kept, wanted) = (chunks(folder.path()).await, chunks(control.path()).await);
    assert!(wanted.len() >= found.len() && !found.is_empty(), "{wanted:?}");
    assert_eq!(kept, wanted);
}
