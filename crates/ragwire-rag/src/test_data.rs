//! What several tests of this layer share: checks of a parser, and files that are too large for the repository. A test that
//! lacks one says so and passes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{ParseError, ParseLimits, Parsed};

/// Checks heading path and text of every block.
pub(crate) fn check_blocks(parsed: &Parsed, wanted: &[(&str, &str)]) {
    let place = |block: &'_ super::Block| (block.heading.clone().unwrap_or_default(), block.text.clone());
    let got: Vec<_> = parsed.blocks.iter().map(place).collect();
    let got: Vec<_> = got
        .iter()
        .map(|(heading, text)| (heading.as_str(), text.as_str()))
        .collect();
    assert_eq!(got, wanted);
}

/// Checks that a parser returns within seconds, whatever it says, when one piece is repeated 100,000 times.
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

/// "Attention Is All You Need", arXiv:1706.03762v7, 15 pages.
pub(crate) fn attention_paper() -> Option<Vec<u8>> {
    read("attention-1706.03762v7.pdf")
}

fn read(name: &str) -> Option<Vec<u8>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("RAGWIRE_TEST_DATA")
        .map_or_else(beside, PathBuf::from)
        .join(name);
    let bytes = std::fs::read(&path);
    if let Err(error) = &bytes {
        println!("skipped: {}: {error}", path.display());
    }
    bytes.ok()
}
