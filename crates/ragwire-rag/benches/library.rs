//! Benchmarks of the reference pipeline's library and graph: the cost of adding a document, and of
//! a question among 10,000 chunks.
//!
//! Run with `cargo bench -p ragwire-rag --bench library`. The time of `add` is dominated by the
//! analysis of words, the time of `search` by the number of chunks that share a word with the
//! query: `rare` and `common` are the two extremes.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ragwire_rag::graph::{Graph, GraphLimits, GraphRoom, Patterns};
use ragwire_rag::{Library, LibraryLimits, ParseLimits, Parsed, parse};

const CHUNKS: usize = 10_000;

/// Six sections with a page of prose each, and one word that only this document contains.
fn document(number: usize) -> Parsed {
    let sections: String = (0..6)
        .map(|section| {
            let prose =
                "The queue holds frames until the reader takes them, and the sender waits while it is full. ";
            format!(
                "# Section {section}\n\n{} It is about zebra{number}.\n\n",
                prose.repeat(9)
            )
        })
        .collect();
    parse("page.md", sections.as_bytes(), &ParseLimits::default()).expect("markdown")
}

fn library(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("library");
    group.sample_size(20);
    let parsed = document(0);
    let empty = || Library::in_memory(LibraryLimits::default()).expect("memory");
    let probe = empty();
    let chunks = probe.add("page.md", &parsed).expect("room").chunks as usize;

    group.throughput(Throughput::Elements(chunks as u64));
    group.bench_function(format!("add a document of {chunks} chunks"), |bencher| {
        bencher.iter_batched(
            empty,
            |library| library.add("page.md", &parsed).expect("room"),
            BatchSize::PerIteration,
        );
    });

    let full = empty();
    for number in 0..CHUNKS / chunks {
        full.add(&format!("page-{number}.md"), &document(number))
            .expect("room");
    }
    group.throughput(Throughput::Elements(1));
    for (name, query) in [("rare", "zebra7"), ("common", "frames in the queue")] {
        group.bench_function(
            format!("search for a {name} word among {} chunks", full.chunk_count()),
            |bencher| {
                bencher.iter(|| full.search(query, 10).expect("a search"));
            },
        );
    }
    group.finish();
}

fn graph(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("graph");
    group.sample_size(20);
    let library = Library::in_memory(LibraryLimits::default()).expect("memory");
    let document = library.add("page.md", &document(0)).expect("room");
    let passages = library
        .passages(&document.id)
        .expect("memory")
        .expect("the document is stored");
    let patterns = Patterns::default();
    let read = || {
        passages
            .iter()
            .map(|chunk| (chunk.ordinal, patterns.triples(chunk)))
            .collect::<Vec<_>>()
    };
    group.throughput(Throughput::Elements(passages.len() as u64));
    group.bench_function(
        format!("find the triples of {} passages", passages.len()),
        |bencher| {
            bencher.iter(&read);
        },
    );
    let triples = read();
    let empty = || Graph::in_memory(GraphRoom::default()).expect("memory");
    group.bench_function("put them in", |bencher| {
        bencher.iter_batched(
            empty,
            |graph| graph.put("page", Patterns::NAME, triples.clone()).expect("room"),
            BatchSize::PerIteration,
        );
    });
    let full = empty();
    for number in 0..CHUNKS / passages.len() {
        full.put(&format!("page-{number}"), Patterns::NAME, triples.clone())
            .expect("room");
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function(
        format!("search among {} mentions", full.size().mentions),
        |bencher| {
            bencher.iter(|| {
                full.search("Which frames does the queue hold?", &GraphLimits::default())
                    .expect("limits")
            });
        },
    );
    group.finish();
}

criterion_group!(benches, library, graph);
criterion_main!(benches);
