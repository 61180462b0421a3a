//! Models that are written for the tests, and settings that name them.

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

/// Longest that anything may take before a test says that it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(120);

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// A path for a file that is gone with the tests.
pub(crate) fn path(name: &str) -> PathBuf {
    FOLDER.path().join(name)
}

/// A model that writes, of 4,096 tokens.
pub(crate) fn writer() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        written("writer.gguf", |model| {
            model.template = Some(CHATML.to_owned());
        })
    })
}

/// A model that writes, changed in some way.
pub(crate) fn written(name: &str, change: impl FnOnce(&mut TinyLlama)) -> PathBuf {
    let mut model = TinyLlama::default();
    change(&mut model);
    let path = path(name);
    model.write(&path).unwrap();
    path
}

/// A model that makes vectors of 32 numbers.
pub(crate) fn embedder() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| bert("embedder.gguf", &TinyBert::new(Pooling::Mean)))
}

/// A model that scores pairs.
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

/// Settings over an empty folder, which is there as long as the other value is. One thread: many tests run at once.
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

/// Adds a document, and says its id.
pub(crate) fn add(library: &Library, name: &str, text: &str) -> String {
    let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add(name, &parsed).unwrap().id
}

pub(crate) async fn start(settings: &Settings, library: &Arc<Library>) -> Result<Engines, EnginesError> {
    within(Engines::start(settings, library)).await
}

/// Anything that must not hang.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.expect("it hangs")
}
