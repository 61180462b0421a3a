//! The time of a search in a library on disk, over many queries.
//!
//! `cargo bench -p ragwire-rag --bench search -- FOLDER QUERIES` opens the library of a folder, which no
//! server may use meanwhile, and searches the best 30 passages for each line of QUERIES, one at a time.
//! The first round, which also reads the file, is not counted. `-- FOLDER --passages FILE` writes the
//! text of each passage as a line of JSON instead, for other engines. `scripts/search` runs both.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use ragwire_rag::{Library, LibraryLimits};

const HITS: usize = 30;
const ROUNDS: usize = 3;

fn main() {
    // `cargo bench` adds a flag of its own.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [folder, "--passages", file] => write_passages(&open(folder), file),
        [folder, queries] => search(&open(folder), queries),
        _ => println!("search: no library is named, so nothing is measured"),
    }
}

fn open(folder: &str) -> Library {
    let begun = Instant::now();
    let library = Library::open(Path::new(folder), LibraryLimits::default()).expect("the library");
    println!(
        "{} passages, opened in {:.2?}",
        library.chunk_count(),
        begun.elapsed()
    );
    library
}

fn write_passages(library: &Library, file: &str) {
    let mut out = BufWriter::new(File::create(file).expect("the file"));
    for document in library.list() {
        let passages = library.passages(&document.id).expect("the library");
        for passage in passages.into_iter().flatten() {
            let line = serde_json::to_string(&passage.text).expect("a string is JSON");
            writeln!(out, "{line}").expect("room on the disk");
        }
    }
}

fn search(library: &Library, queries: &str) {
    let queries = std::fs::read_to_string(queries).expect("the queries");
    let queries: Vec<&str> = queries.lines().collect();
    let mut times = Vec::with_capacity(queries.len() * ROUNDS);
    for round in 0..=ROUNDS {
        for query in &queries {
            let begun = Instant::now();
            let hits = library.search(query, HITS).expect("the library");
            let took = begun.elapsed();
            assert!(!hits.is_empty(), "{query}");
            if round > 0 {
                times.push(took);
            }
        }
    }
    times.sort_unstable();
    let at = |share: f64| {
        times
            .get((times.len() as f64 * share) as usize)
            .copied()
            .unwrap_or(Duration::ZERO)
    };
    println!(
        "{} searches: median {:.2?}, p99 {:.2?}",
        times.len(),
        at(0.5),
        at(0.99)
    );
}
