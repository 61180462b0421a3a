//! Texts per second of an embedder, by the size of its batches, on the CPU and on the GPU.

use std::path::Path;
use std::time::Instant;

use ragwire_rag::models::llama::{Batching, EmbedderOptions, LlamaEmbedder, LlamaFile};
use ragwire_rag::models::{Embed, Side};

use crate::shapes::PROSE;
use crate::{Setup, median};

/// Tokens of a batch: the default first, which is the baseline of the ratios.
const BATCH_TOKENS: [u32; 5] = [512, 2_048, 4_096, 8_192, 16_384];
/// Texts of a request: those of a large document.
const TEXTS: usize = 512;
/// Repetitions of the prose in a text, about 200 tokens: a passage of the library.
const REPEATS: usize = 4;

/// Prints a table with the rates of both devices.
pub(crate) async fn compare(model: &Path, setup: &Setup, rounds: usize) {
    let texts: Vec<String> = (0..TEXTS)
        .map(|index| format!("Report {index}. {}", PROSE.repeat(REPEATS)))
        .collect();
    println!(
        "{}; {TEXTS} texts a request, {} threads on the CPU; medians of {rounds} rounds\n",
        model.file_stem().unwrap_or_default().to_string_lossy(),
        setup.threads,
    );
    println!(
        "| layers on the GPU | tokens of a batch | texts/s | tokens/s | to the first row | cosine to it | one query, ms |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut baseline: Option<(f64, Vec<f32>)> = None;
    // More tokens gain nothing on a CPU.
    let on_cpu = BATCH_TOKENS[..1].iter().map(|batch| (0, *batch));
    for (layers, batch) in on_cpu.chain(BATCH_TOKENS.map(|batch| (setup.gpu_layers, batch))) {
        let file = LlamaFile::new(model).threads(setup.threads).gpu_layers(layers);
        let batching = Batching::default().max_tokens(batch).max_texts(256);
        let options = EmbedderOptions::default().batching(batching);
        let embedder = LlamaEmbedder::load(file, options).await.expect("the model loads");
        let (mut rates, mut queries, mut vector) = (Vec::new(), Vec::new(), Vec::new());
        let mut tokens = 0;
        // The first round is a warm-up.
        for round in 0..=rounds {
            let before = embedder.stats().tokens;
            let began = Instant::now();
            let vectors = embedder
                .embed(Side::Passage, texts.clone())
                .await
                .expect("vectors");
            let seconds = began.elapsed().as_secs_f64();
            tokens = embedder.stats().tokens - before;
            let asked = Instant::now();
            let query = vec!["What does report 7 say about the pump?".to_owned()];
            embedder.embed(Side::Query, query).await.expect("a vector");
            if round > 0 {
                rates.push(TEXTS as f64 / seconds);
                queries.push(asked.elapsed().as_secs_f64() * 1e3);
            }
            vector.clone_from(&vectors[TEXTS / 2]);
        }
        embedder.shutdown().await;
        let rate = median(rates);
        let (first, like) = baseline.get_or_insert_with(|| (rate, vector.clone()));
        println!(
            "| {layers} | {batch} | {rate:.0} | {:.0} | {:.2} | {:.5} | {:.2} |",
            rate * tokens as f64 / TEXTS as f64,
            rate / *first,
            cosine(like, &vector),
            median(queries),
        );
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum() };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
