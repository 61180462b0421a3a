//! Files and comparisons for the other tests.

use std::path::PathBuf;
use std::time::Duration;

use ragwire_rag::models::llama::{EmbedderOptions, LlamaEmbedder, LlamaFile};
use ragwire_test_support::tiny_bert::{Pooling, TinyBert};
use tempfile::TempDir;

/// A model in a folder that goes with it.
pub(crate) struct Made {
    folder: TempDir,
}

impl Made {
    pub(crate) fn new(bert: &TinyBert) -> Self {
        let folder = tempfile::tempdir().unwrap();
        bert.write(&folder.path().join("tiny.gguf"));
        Self { folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("tiny.gguf")
    }

    /// One thread: on busy cores several only wait for each other.
    pub(crate) fn file(&self) -> LlamaFile {
        LlamaFile::new(self.path()).threads(1)
    }
}

/// The embedder of a tiny BERT with mean pooling, and the same model in plain Rust.
pub(crate) async fn tiny(options: EmbedderOptions) -> (LlamaEmbedder, TinyBert, Made) {
    let bert = TinyBert::new(Pooling::Mean);
    let made = Made::new(&bert);
    let embedder = LlamaEmbedder::load(made.file(), options).await.unwrap();
    (embedder, bert, made)
}

/// The mean of what the plain computation says.
pub(crate) fn mean(states: &[Vec<f64>]) -> Vec<f64> {
    let mut mean = vec![0.0; states[0].len()];
    for state in states {
        for (sum, value) in mean.iter_mut().zip(state) {
            *sum += value / states.len() as f64;
        }
    }
    mean
}

/// How alike two directions are: 1 for the same.
pub(crate) fn cosine(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}

/// Asserts length 1 and that direction, to `least`.
pub(crate) fn assert_like(vector: &[f32], expected: &[f64], least: f64, what: &str) {
    let vector = vector.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
    let length = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    assert!((length - 1.0).abs() < 1e-5, "{what} has length {length}");
    let alike = cosine(&vector, expected);
    assert!(alike > least, "{what} is alike by {alike}");
}

pub(crate) fn wide(vector: &[f32]) -> Vec<f64> {
    vector.iter().map(|&value| f64::from(value)).collect()
}

/// `count` texts, all different, from one word to more than the model takes.
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

/// A test that hangs fails.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(240), future)
        .await
        .unwrap()
}
