//! Runs the committed corpus through the fuzz targets, and inputs that are made of it by chance.
//!
//! `TEST_FUZZ_SECONDS` is how long each target gets for the latter; without it, a few hundred inputs
//! per target. The seed and the number of inputs are printed, `TEST_SEED` repeats a run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Inputs per target if nothing says how long to run.
const FEW: u64 = 300;
/// An input grows to this size, and no further.
const MAX_BYTES: usize = 16 << 10;

/// A generator of numbers (SplitMix64): the same seed, the same inputs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Changes an input in one to four places.
    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        for _ in 0..=self.below(4) {
            let at = self.below(input.len() + 1);
            let end = (at + 1 + self.below(8)).min(input.len());
            match self.below(6) {
                0 if at < input.len() => input[at] ^= 1 << self.below(8),
                1 if at < input.len() => input[at] = self.next() as u8,
                2 if at < end => drop(input.drain(at..end)),
                3 if at < end => {
                    let again = input[at..end].repeat(1 + self.below(64));
                    input.splice(at..at, again);
                }
                4 => input.truncate(at),
                _ => {
                    let other = &corpus[self.below(corpus.len())];
                    let from = self.below(other.len() + 1);
                    let to = (from + self.below(64)).min(other.len());
                    input.splice(at..at, other[from..to].iter().copied());
                }
            }
        }
        input.truncate(MAX_BYTES);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn check(target: fn(&[u8]), name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() >= 20, "{name} has only {} files", files.len());
    // The order of a folder is not that of a seed.
    files.sort();
    let mut corpus = Vec::new();
    for file in files {
        println!("{}", file.display());
        let input = std::fs::read(file).unwrap();
        target(&input);
        corpus.push(input);
    }

    let seed = number("TEST_SEED").unwrap_or(1);
    let time = number("TEST_FUZZ_SECONDS").map(Duration::from_secs);
    let (mut random, began, mut inputs) = (Random(seed), Instant::now(), 0);
    while time.map_or(inputs < FEW, |time| began.elapsed() < time) {
        let mut input = corpus[random.below(corpus.len())].clone();
        random.change(&mut input, &corpus);
        let checked = catch_unwind(AssertUnwindSafe(|| target(&input)));
        if let Err(panic) = checked {
            println!("{name}: seed {seed}, input {inputs}: {}", input.escape_ascii());
            resume_unwind(panic);
        }
        inputs += 1;
    }
    println!("{name}: {inputs} inputs in {:?}, seed {seed}", began.elapsed());
}

#[test]
fn framed_decode() {
    check(ragwire_fuzz::framed_decode, "framed_decode");
}

#[test]
fn framed_roundtrip() {
    check(ragwire_fuzz::framed_roundtrip, "framed_roundtrip");
}

#[test]
fn sse_decode() {
    check(ragwire_fuzz::sse_decode, "sse_decode");
}

#[test]
fn ndjson_decode() {
    check(ragwire_fuzz::ndjson_decode, "ndjson_decode");
}

#[test]
fn event_stream() {
    check(ragwire_fuzz::event_stream, "event_stream");
}

#[test]
fn langgraph_decode() {
    check(ragwire_fuzz::langgraph_decode, "langgraph_decode");
}

#[test]
fn forge_decode() {
    check(ragwire_fuzz::forge_decode, "forge_decode");
}

#[test]
fn session_chat_decode() {
    check(ragwire_fuzz::session_chat_decode, "session_chat_decode");
}

#[test]
fn eve_decode() {
    check(ragwire_fuzz::eve_decode, "eve_decode");
}

#[test]
fn trustgraph_decode() {
    check(ragwire_fuzz::trustgraph_decode, "trustgraph_decode");
}

#[test]
fn ai_sdk_decode() {
    check(ragwire_fuzz::ai_sdk_decode, "ai_sdk_decode");
}

#[test]
fn ag_ui_decode() {
    check(ragwire_fuzz::ag_ui_decode, "ag_ui_decode");
}

#[test]
fn openai_decode() {
    check(ragwire_fuzz::openai_decode, "openai_decode");
}

#[test]
fn responses_decode() {
    check(ragwire_fuzz::responses_decode, "responses_decode");
}

#[test]
fn ollama_decode() {
    check(ragwire_fuzz::ollama_decode, "ollama_decode");
}

#[test]
fn plain_decode() {
    check(ragwire_fuzz::plain_decode, "plain_decode");
}

#[test]
fn request_json() {
    check(ragwire_fuzz::request_json, "request_json");
}

#[test]
fn cursor() {
    check(ragwire_fuzz::cursor, "cursor");
}

#[test]
fn socket() {
    check(ragwire_fuzz::socket, "socket");
}

#[test]
fn settings() {
    check(ragwire_fuzz::settings, "settings");
}

#[test]
fn document() {
    check(ragwire_fuzz::document, "document");
}
