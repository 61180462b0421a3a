//! One host with its vectors in Qdrant Edge, killed while it stores documents. The library is in
//! SQLite, and each start makes the store follow it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
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

/// When the server is killed, after an upload began.
const DELAYS_MS: [u64; 7] = [0, 10, 40, 80, 160, 320, 640];
const SECTIONS: u32 = 40;

/// A document that takes a while to embed. Each section has a word of its own.
fn report(round: usize) -> String {
    (0..SECTIONS)
        .map(|n| {
            format!("## Part {n} of report {round}\n\nThe crane lifts container r{round}n{n} at noon.\n\n")
        })
        .collect()
}

/// Sends a request, and returns the status of the response (0 if there was none) and its body.
fn request(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let kind = if body.starts_with('{') {
        "application/json"
    } else {
        "text/markdown"
    };
    let mut answer = Vec::new();
    if let Ok(mut socket) = TcpStream::connect(address) {
        let request = format!(
            "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: {kind}\r\naccept: application/x-ndjson\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        if socket.write_all(request.as_bytes()).is_ok() {
            let _ = socket.read_to_end(&mut answer);
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status.unwrap_or(0), body.unwrap_or_default())
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
    let mut expected = BTreeMap::new();
    for (round, delay) in DELAYS_MS.into_iter().enumerate() {
        let (child, address, _rest) = served(folder.path(), &more);
        // What was acknowledged is there, and nothing else but what was being added.
        let found = reports(&address);
        for name in expected.keys() {
            assert!(found.contains_key(name), "{name} is lost: {found:?}");
        }
        expected.clone_from(&found);
        // A removal, then an upload during which it is killed.
        if let Some((name, id)) = found.first_key_value().filter(|_| round % 2 == 1) {
            let (status, body) = request(&address, "DELETE", &format!("/v1/documents/{id}"), "");
            assert_eq!(status, 204, "{body}");
            expected.remove(name);
        }
        let name = format!("report{round}.md");
        let path = format!("/v1/documents?name={name}");
        let (status, code) = std::thread::scope(|scope| {
            let upload = scope.spawn(|| request(&address, "POST", &path, &report(round)).0);
            std::thread::sleep(Duration::from_millis(delay));
            child.signal("KILL");
            (upload.join().unwrap(), child.code())
        });
        assert!(matches!(status, 0 | 201), "{status}");
        assert_eq!(code, None);
        if status == 201 {
            expected.insert(name, String::new());
        }
    }

    let (child, address, _rest) = served(folder.path(), &more);
    let found = reports(&address);
    for name in expected.keys() {
        assert!(found.contains_key(name), "{name} is lost: {found:?}");
    }
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
