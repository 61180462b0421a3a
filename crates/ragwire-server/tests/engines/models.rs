//! Models written for the tests, and settings that name them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use ragwire_rag::{Library, LibraryLimits, ParseLimits, parse};
use ragwire_server::engines::{Engines, EnginesError};
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::Model;
use ragwire_server::settings::values::CountOrZero;
use ragwire_test_support::tiny_bert::{Pooling, TinyBert};
use ragwire_test_support::tiny_llama::{CHATML, TinyLlama};
use tempfile::TempDir;

/// The longest that any step may take; after it a test reports that it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(120);

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// A path for a file that is removed with the tests.
pub(crate) fn path(name: &str) -> PathBuf {
    FOLDER.path().join(name)
}

/// A generative model with a context of 4,096 tokens.
pub(crate) fn writer() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        written("writer.gguf", |model| {
            model.template = Some(CHATML.to_owned());
        })
    })
}

/// A generative model with a change.
pub(crate) fn written(name: &str, change: impl FnOnce(&mut TinyLlama)) -> PathBuf {
    let mut model = TinyLlama::default();
    change(&mut model);
    let path = path(name);
    model.write(&path).unwrap();
    path
}

/// An embedder with 32 dimensions.
pub(crate) fn embedder() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| bert("embedder.gguf", &TinyBert::new(Pooling::Mean)))
}

/// A reranker.
pub(crate) fn ranker() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| bert("ranker.gguf", &TinyBert::ranker()))
}

pub(crate) fn bert(name: &str, model: &TinyBert) -> PathBuf {
    let path = path(name);
    model.write(&path);
    path
}

pub(crate) fn model(path: &Path) -> Model {
    path.to_str().unwrap().parse().unwrap()
}

/// Settings over an empty folder, which exists as long as the other value. They use one thread,
/// because many tests run at once.
pub(crate) fn settings(change: impl FnOnce(&mut Settings)) -> (Settings, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings {
        data: folder.path().to_owned(),
        ..Settings::default()
    };
    change(&mut settings);
    if [&settings.llm, &settings.embedder, &settings.reranker]
        .iter()
        .any(|model| model.0.is_some())
    {
        settings.llm_threads = CountOrZero(1);
    }
    (settings, folder)
}

/// A library of two short documents.
pub(crate) fn library() -> Arc<Library> {
    let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
    add(
        &library,
        "pump.md",
        "# Pump\n\nThe pump moves water. It works at night.\n\n# Login\n\nHow the login works.",
    );
    add(&library, "query.md", "A query moves the pump.");
    library
}

/// Adds a document and returns its ID.
pub(crate) fn add(library: &Library, name: &str, text: &str) -> String {
    let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add(name, &parsed).unwrap().id
}

pub(crate) async fn start(settings: &Settings, library: &Arc<Library>) -> Result<Engines, EnginesError> {
    within(Engines::start(settings, library)).await
}

/// Fails the test if `future` hangs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.expect("it hangs")
}
