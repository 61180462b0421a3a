//! Helpers that several unit tests share: checks of a parser, a small library, and files that are
//! too large for the repository. A test that lacks such a file prints a message and passes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::{Block, Library, LibraryLimits, ParseError, ParseLimits, Parsed, parse};

/// Checks the heading path and the text of every block.
pub(crate) fn check_blocks(parsed: &Parsed, expected: &[(&str, &str)]) {
    let parts = |block: &Block| (block.heading.clone().unwrap_or_default(), block.text.clone());
    let actual: Vec<_> = parsed.blocks.iter().map(parts).collect();
    let actual: Vec<_> = actual
        .iter()
        .map(|(heading, text)| (heading.as_str(), text.as_str()))
        .collect();
    assert_eq!(actual, expected);
}

/// Checks the terms and the texts of all blocks.
pub(crate) fn check_terms(parsed: &Parsed, expected: &[(&str, &str)]) {
    let blocks = parsed.blocks.iter();
    let actual: Vec<_> = blocks
        .map(|block| (block.term.as_deref().unwrap_or_default(), block.text.as_str()))
        .collect();
    assert_eq!(actual, expected);
}

/// Checks how many lists all blocks are in, the numbers of their items, and the texts.
pub(crate) fn check_places(parsed: &Parsed, expected: &[(u32, Option<u64>, &str)]) {
    let blocks = parsed.blocks.iter();
    let actual: Vec<_> = blocks
        .map(|block| {
            let depth = block.item.map_or(0, |item| item.depth);
            (
                depth,
                block.item.and_then(|item| item.number),
                block.text.as_str(),
            )
        })
        .collect();
    assert_eq!(actual, expected);
}

/// Checks that a parser returns within seconds, with any result, for each piece repeated 100,000
/// times.
pub(crate) fn check_returns_soon(
    parse: fn(&str, &ParseLimits) -> Result<Parsed, ParseError>,
    pieces: &[&str],
) {
    for piece in pieces {
        let start = Instant::now();
        let outcome = parse(
            &format!("{}\nend", piece.repeat(100_000)),
            &ParseLimits::default(),
        );
        let took = start.elapsed();
        println!(
            "{piece:?} took {took:?}: {:?}",
            outcome.map(|_| ()).map_err(|error| error.code())
        );
        assert!(took < Duration::from_secs(20), "{piece:?} took {took:?}");
    }
}

/// A library in which `model` is in every passage and `optimizer` in one of them.
pub(crate) fn library_with_a_rare_word() -> Library {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let sections: String = (0..20)
        .map(|n| format!("# Part {n}\n\nThe model learns.\n\n"))
        .collect();
    let text = sections + "An optimizer.";
    let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add("a.md", &parsed).unwrap();
    library
}

/// "Attention Is All You Need", arXiv:1706.03762v7, 15 pages. It is read from the folder that
/// `RAGWIRE_TEST_DATA` names, or from a shared folder beside the repository.
pub(crate) fn attention_paper() -> Option<Vec<u8>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("RAGWIRE_TEST_DATA").map_or_else(beside, PathBuf::from);
    let path = folder.join("attention-1706.03762v7.pdf");
    let bytes = std::fs::read(&path);
    if let Err(error) = &bytes {
        println!("skipped: cannot read {}: {error}", path.display());
    }
    bytes.ok()
}
