//! Engines on tiny models, and helpers to query them.

use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use ragwire_rag::models::llama::{Cells, LlamaEngine, LlamaFile, LlamaOptions};
use ragwire_rag::models::{Generation, GenerationEnd, LanguageModel, ModelError, Prompt, Sampling, Shape};
use ragwire_test_support::tiny_llama::{CHATML, TinyLlama};
use serde_json::json;
use tempfile::TempDir;

/// Longest duration of any operation before the test fails as hanging.
const HANG: Duration = Duration::from_secs(120);

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// Returns the path of a file that is deleted after the tests.
pub(crate) fn path(name: &str) -> PathBuf {
    FOLDER.path().join(name)
}

/// Returns the path of the model that most tests use.
pub(crate) fn model() -> &'static Path {
    static MODEL: OnceLock<PathBuf> = OnceLock::new();
    MODEL.get_or_init(|| {
        written(
            "tiny.gguf",
            &TinyLlama {
                template: Some(CHATML.to_owned()),
                ..TinyLlama::default()
            },
        )
    })
}

/// Writes `model` to a file and returns its path.
pub(crate) fn written(name: &str, model: &TinyLlama) -> PathBuf {
    let path = path(name);
    model.write(&path).unwrap();
    path
}

/// Returns options with one thread, 32-bit cells, small slices, and no shared prefixes unless a
/// test sets them.
pub(crate) fn options(path: &Path) -> LlamaOptions {
    LlamaOptions::new(LlamaFile::new(path).threads(1))
        .context_tokens(2_048)
        .cell_kind(Cells::F32)
        .prefixes(0)
        .slice_tokens(16)
}

/// Loads an engine on the usual model.
pub(crate) async fn engine() -> LlamaEngine {
    load(options(model())).await
}

pub(crate) async fn load(options: LlamaOptions) -> LlamaEngine {
    within(LlamaEngine::load(options)).await.unwrap()
}

/// Fails a test whose `future` hangs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future)
        .await
        .expect("the operation hangs")
}

/// Samples at a high temperature; the same seed gives the same tokens.
pub(crate) fn drawn(seed: u32) -> Sampling {
    Sampling::GREEDY
        .temperature(1.5)
        .top_k(20)
        .top_p(0.95)
        .min_p(0.01)
        .repeat_penalty(1.1)
        .seed(seed)
}

/// Waits until all earlier prompts are prepared: they are prepared in order, and this one is only
/// counted.
pub(crate) async fn prepared(engine: &LlamaEngine) {
    within(engine.count_tokens(&Prompt::user("?"))).await.unwrap();
}

/// Returns the whole answer to a prompt.
pub(crate) async fn whole(
    engine: &LlamaEngine,
    prompt: Prompt,
) -> Result<(String, GenerationEnd), ModelError> {
    within(engine.generate(prompt).whole()).await
}

/// Returns only the text of the answer.
pub(crate) async fn text(engine: &LlamaEngine, prompt: Prompt) -> String {
    whole(engine, prompt).await.unwrap().0
}

/// Returns all pieces of an answer, and its result.
pub(crate) async fn pieces(mut generation: Generation) -> (Vec<String>, GenerationEnd) {
    let mut pieces = Vec::new();
    while let Some(piece) = within(generation.next()).await {
        pieces.push(piece.unwrap());
    }
    (pieces, generation.finished().unwrap())
}

/// Returns the code of the error that the prompt fails with.
pub(crate) async fn code(engine: &LlamaEngine, prompt: Prompt) -> &'static str {
    whole(engine, prompt).await.unwrap_err().code()
}

/// Returns a prompt whose answer is this text as a JSON string, possibly followed by white space.
pub(crate) fn says(text: &str) -> Prompt {
    Prompt::user("?").shape(Shape::Json(json!({ "const": text })))
}

/// Returns the answer to [`says`], without the white space.
pub(crate) async fn quoted(engine: &LlamaEngine, prompt: Prompt) -> String {
    text(engine, prompt).await.trim_end().to_owned()
}

/// Returns a prompt whose answer is a JSON string that matches the pattern.
pub(crate) fn pattern(pattern: &str) -> Prompt {
    let schema = json!({ "type": "string", "pattern": pattern });
    Prompt::user("?").shape(Shape::Json(schema))
}
