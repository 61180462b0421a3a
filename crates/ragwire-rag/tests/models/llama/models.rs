//! Engines on tiny models, and what the tests ask them for.

use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use ragwire_rag::models::llama::{Cells, LlamaEngine, LlamaFile, LlamaOptions};
use ragwire_rag::models::{Finished, Generation, LanguageModel, ModelError, Prompt, Sampling, Shape};
use ragwire_test_support::tiny_llama::{CHATML, TinyLlama};
use serde_json::json;
use tempfile::TempDir;

/// Longest that anything may take before a test says that it hangs.
const HANG: Duration = Duration::from_secs(120);

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// A path for a file that is gone with the tests.
pub(crate) fn path(name: &str) -> PathBuf {
    FOLDER.path().join(name)
}

/// The model that most tests use.
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

/// A model of one's own.
pub(crate) fn written(name: &str, model: &TinyLlama) -> PathBuf {
    let path = path(name);
    model.write(&path).unwrap();
    path
}

/// One thread, exact cells, small slices, nothing shared unless a test says so.
pub(crate) fn options(path: &Path) -> LlamaOptions {
    LlamaOptions::new(LlamaFile::new(path).threads(1))
        .context_tokens(2_048)
        .cell_kind(Cells::F32)
        .prefixes(0)
        .slice_tokens(16)
}

/// An engine on the usual model.
pub(crate) async fn engine() -> LlamaEngine {
    load(options(model())).await
}

pub(crate) async fn load(options: LlamaOptions) -> LlamaEngine {
    within(LlamaEngine::load(options)).await.unwrap()
}

/// Anything that must not hang.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.expect("it hangs")
}

/// Tokens drawn at a high temperature, the same for the same seed.
pub(crate) fn drawn(seed: u32) -> Sampling {
    Sampling::GREEDY
        .temperature(1.5)
        .top_k(20)
        .top_p(0.95)
        .min_p(0.01)
        .repeat_penalty(1.1)
        .seed(seed)
}

/// Waits until all prompts that came before are made ready: they are taken in order, and this one is only counted.
pub(crate) async fn prepared(engine: &LlamaEngine) {
    within(engine.count_tokens(&Prompt::user("?"))).await.unwrap();
}

/// The whole answer to a prompt.
pub(crate) async fn whole(engine: &LlamaEngine, prompt: Prompt) -> Result<(String, Finished), ModelError> {
    within(engine.generate(prompt).whole()).await
}

/// The answer's text alone.
pub(crate) async fn text(engine: &LlamaEngine, prompt: Prompt) -> String {
    whole(engine, prompt).await.unwrap().0
}

/// All pieces of an answer, and what it came to.
pub(crate) async fn pieces(mut generation: Generation) -> (Vec<String>, Finished) {
    let mut pieces = Vec::new();
    while let Some(piece) = within(generation.next()).await {
        pieces.push(piece.unwrap());
    }
    (pieces, generation.finished().unwrap())
}

/// The code of the error that a prompt ends in.
pub(crate) async fn code(engine: &LlamaEngine, prompt: Prompt) -> &'static str {
    whole(engine, prompt).await.unwrap_err().code()
}

/// A prompt that is answered with exactly this text as a JSON string, which white space may follow.
pub(crate) fn says(text: &str) -> Prompt {
    Prompt::user("?").shape(Shape::Json(json!({ "const": text })))
}

/// Waits for the answer to [`says`], without the white space.
pub(crate) async fn quoted(engine: &LlamaEngine, prompt: Prompt) -> String {
    text(engine, prompt).await.trim_end().to_owned()
}

/// A prompt that is answered with a JSON string that the pattern matches.
pub(crate) fn pattern(pattern: &str) -> Prompt {
    let schema = json!({ "type": "string", "pattern": pattern });
    Prompt::user("?").shape(Shape::Json(schema))
}
