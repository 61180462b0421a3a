//! Files that are too large for the repository. A test that lacks one says so and passes.

use std::path::PathBuf;

/// "Attention Is All You Need", arXiv:1706.03762v7, 15 pages.
pub(crate) fn attention_paper() -> Option<Vec<u8>> {
    read("attention-1706.03762v7.pdf")
}

fn read(name: &str) -> Option<Vec<u8>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let path = std::env::var_os("RAGWIRE_TEST_DATA")
        .map_or_else(beside, PathBuf::from)
        .join(name);
    let bytes = std::fs::read(&path);
    if let Err(error) = &bytes {
        println!("skipped: {}: {error}", path.display());
    }
    bytes.ok()
}
