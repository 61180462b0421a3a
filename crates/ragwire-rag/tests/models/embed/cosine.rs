//! Files and comparisons for the other tests.

use std::path::PathBuf;
use std::time::Duration;

use ragwire_rag::models::llama::{EmbedderOptions, LlamaEmbedder, LlamaFile};
use ragwire_test_support::tiny_bert::{Pooling, TinyBert};
use tempfile::TempDir;

/// A model file in a temporary folder, which is deleted when the value is dropped.
pub(crate) struct TempModel {
    folder: TempDir,
}

impl TempModel {
    pub(crate) fn new(bert: &TinyBert) -> Self {
        let folder = tempfile::tempdir().unwrap();
        bert.write(&folder.path().join("tiny.gguf"));
        Self { folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("tiny.gguf")
    }

    /// Uses one thread: on busy cores several threads only wait for each other.
    pub(crate) fn file(&self) -> LlamaFile {
        LlamaFile::new(self.path()).threads(1)
    }
}

/// Loads the embedder of a tiny BERT with mean pooling. Also returns the same model in plain Rust.
pub(crate) async fn tiny(options: EmbedderOptions) -> (LlamaEmbedder, TinyBert, TempModel) {
    let bert = TinyBert::new(Pooling::Mean);
    let made = TempModel::new(&bert);
    let embedder = LlamaEmbedder::load(made.file(), options).await.unwrap();
    (embedder, bert, made)
}

/// Returns the mean of the states of the plain computation.
pub(crate) fn mean(states: &[Vec<f64>]) -> Vec<f64> {
    let mut mean = vec![0.0; states[0].len()];
    for state in states {
        for (sum, value) in mean.iter_mut().zip(state) {
            *sum += value / states.len() as f64;
        }
    }
    mean
}

/// Returns the cosine of two directions: 1 if they are equal.
pub(crate) fn cosine(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}

/// Asserts that the vector has length 1 and a cosine of more than `least` with `expected`.
pub(crate) fn assert_like(vector: &[f32], expected: &[f64], least: f64, what: &str) {
    let vector = vector.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
    let length = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    assert!((length - 1.0).abs() < 1e-5, "{what} has length {length}");
    let alike = cosine(&vector, expected);
    assert!(alike > least, "{what} has a cosine of {alike}");
}

pub(crate) fn wide(vector: &[f32]) -> Vec<f64> {
    vector.iter().map(|&value| f64::from(value)).collect()
}

/// Returns `count` different texts, from one word to more than the model takes.
pub(crate) fn texts(count: usize) -> Vec<String> {
    let words = [
        "the", "water", "pump", "moves", "login", "works", "how", "x1", "zebra",
    ];
    let text = |index: usize| {
        let length = 1 + index * 7 % 40;
        let words = (0..length).map(|place| words[(index * 5 + place * place + place) % words.len()]);
        words
            .chain([format!("{index}").as_str()])
            .collect::<Vec<_>>()
            .join(" ")
    };
    (0..count).map(text).collect()
}

/// Fails a test that hangs.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(240), future)
        .await
        .unwrap()
}
