//! A BERT with random weights, as a GGUF file that llama.cpp reads, and small enough to be computed
//! here in plain Rust as well.
//!
//! It understands nothing. It shows that two implementations that share no code compute the same
//! numbers.

use std::collections::BTreeMap;
use std::path::Path;

use crate::gguf::{Gguf, Value};
use crate::seed::Seed;

/// The maximum number of tokens of a text, `[CLS]` and `[SEP]` included.
pub const CONTEXT: usize = 64;
/// The length of its vectors.
pub const DIMENSIONS: usize = 32;

const LAYERS: usize = 2;
const HEADS: usize = 2;
const INNER: usize = 64;
const EPSILON: f64 = 1e-12;
const SPECIALS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const UNKNOWN: usize = 1;
/// The token `[CLS]`.
pub const CLS: usize = 2;
/// The token `[SEP]`.
pub const SEP: usize = 3;
const WORDS: [&str; 8] = ["the", "water", "pump", "moves", "login", "works", "how", "query"];

/// The pooling that the file specifies (`LLAMA_POOLING_TYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The file does not specify it.
    Unspecified,
    /// The mean of all tokens.
    Mean,
    /// The first token.
    Cls,
    /// A score instead of a vector.
    Rank,
}

/// A BERT with random weights.
#[derive(Clone, Debug)]
pub struct TinyBert {
    pooling: Pooling,
    head: bool,
    labels: Vec<&'static str>,
    meta: Vec<(String, Value)>,
    weights: BTreeMap<String, Vec<f32>>,
    vocabulary: Vec<String>,
}

impl TinyBert {
    /// Creates a model that computes vectors, not scores.
    pub fn new(pooling: Pooling) -> Self {
        let mut vocabulary = SPECIALS.map(str::to_owned).to_vec();
        let letters = || ('a'..='z').chain('0'..='9');
        // llama.cpp marks the first token of a word; BERT marks the others.
        vocabulary.extend(letters().map(|letter| format!("\u{2581}{letter}")));
        vocabulary.extend(letters().map(String::from));
        vocabulary.extend([".", ",", "?", "!", "-", ":", "[", "]"].map(|mark| format!("\u{2581}{mark}")));
        vocabulary.extend(WORDS.map(|word| format!("\u{2581}{word}")));
        let mut bert = Self {
            pooling,
            head: false,
            labels: Vec::new(),
            meta: Vec::new(),
            weights: BTreeMap::new(),
            vocabulary,
        };
        bert.fill();
        bert
    }

    /// Creates a reranker, which computes scores.
    pub fn ranker() -> Self {
        Self {
            head: true,
            ..Self::new(Pooling::Rank)
        }
    }

    /// Sets the pooling that the file specifies.
    #[must_use]
    pub fn pooling(mut self, pooling: Pooling) -> Self {
        self.pooling = pooling;
        self
    }

    /// Makes it a classifier with these labels and one score for each.
    #[must_use]
    pub fn labels(mut self, labels: &[&'static str]) -> Self {
        self.labels = labels.to_vec();
        self.fill();
        self
    }

    /// Adds a metadata value to the file.
    #[must_use]
    pub fn meta(mut self, key: &str, value: Value) -> Self {
        self.meta.push((key.to_owned(), value));
        self
    }

    /// Sets the embedding weights of all words to NaN.
    #[must_use]
    pub fn broken(mut self) -> Self {
        self.weight_mut("token_embd.weight").fill(f32::NAN);
        self
    }

    fn weight_mut(&mut self, name: &str) -> &mut Vec<f32> {
        self.weights.get_mut(name).expect("the weight exists")
    }

    /// Fills all weights with random numbers, the same each time.
    fn fill(&mut self) {
        let mut seed = Seed::new(7);
        let words = self.vocabulary.len();
        let scores = self.labels.len().max(1);
        let mut shapes = vec![
            ("token_embd.weight".to_owned(), words * DIMENSIONS),
            ("position_embd.weight".to_owned(), CONTEXT * DIMENSIONS),
            ("token_types.weight".to_owned(), 2 * DIMENSIONS),
            ("token_embd_norm.weight".to_owned(), DIMENSIONS),
            ("token_embd_norm.bias".to_owned(), DIMENSIONS),
            ("cls.weight".to_owned(), DIMENSIONS * DIMENSIONS),
            ("cls.bias".to_owned(), DIMENSIONS),
            ("cls.output.weight".to_owned(), DIMENSIONS * scores),
            ("cls.output.bias".to_owned(), scores),
        ];
        for layer in 0..LAYERS {
            for (name, inputs, outputs) in [
                ("attn_q", DIMENSIONS, DIMENSIONS),
                ("attn_k", DIMENSIONS, DIMENSIONS),
                ("attn_v", DIMENSIONS, DIMENSIONS),
                ("attn_output", DIMENSIONS, DIMENSIONS),
                ("ffn_up", DIMENSIONS, INNER),
                ("ffn_down", INNER, DIMENSIONS),
            ] {
                shapes.push((format!("blk.{layer}.{name}.weight"), inputs * outputs));
                shapes.push((format!("blk.{layer}.{name}.bias"), outputs));
            }
            for name in ["attn_output_norm", "layer_output_norm"] {
                shapes.push((format!("blk.{layer}.{name}.weight"), DIMENSIONS));
                shapes.push((format!("blk.{layer}.{name}.bias"), DIMENSIONS));
            }
        }
        for (name, length) in shapes {
            let (middle, spread) = match name.as_str() {
                name if name.contains("norm.weight") => (1.0, 0.3),
                name if name.ends_with(".bias") => (0.0, 0.1),
                name if name.contains("embd") || name.contains("types") => (0.0, 1.0),
                _ => (0.0, 0.4),
            };
            let values = (0..length).map(|_| {
                let share = seed.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0;
                middle + spread * share
            });
            self.weights.insert(name, values.collect());
        }
    }

    /// Writes it as a GGUF file.
    pub fn write(&self, path: &Path) {
        let text = |text: &str| Value::Text(text.to_owned());
        let number = |number: usize| Value::U32(number as u32);
        let mut gguf = Gguf::default();
        gguf.meta("general.architecture", text("bert"));
        gguf.meta("general.name", text("tiny bert"));
        for (key, value) in [
            ("context_length", CONTEXT),
            ("embedding_length", DIMENSIONS),
            ("feed_forward_length", INNER),
            ("block_count", LAYERS),
            ("attention.head_count", HEADS),
        ] {
            gguf.meta(&format!("bert.{key}"), number(value));
        }
        gguf.meta("bert.attention.layer_norm_epsilon", Value::F32(EPSILON as f32));
        gguf.meta("bert.attention.causal", Value::Bool(false));
        let pooling = match self.pooling {
            Pooling::Unspecified => None,
            Pooling::Mean => Some(1),
            Pooling::Cls => Some(2),
            Pooling::Rank => Some(4),
        };
        if let Some(pooling) = pooling {
            gguf.meta("bert.pooling_type", number(pooling));
        }
        if !self.labels.is_empty() {
            gguf.meta(
                "bert.classifier.output_labels",
                Value::Texts(self.labels.iter().map(|&label| label.to_owned()).collect()),
            );
        }
        gguf.meta("tokenizer.ggml.model", text("bert"));
        gguf.meta("tokenizer.ggml.token_type_count", number(2));
        gguf.meta("tokenizer.ggml.tokens", Value::Texts(self.vocabulary.clone()));
        let kinds = (0..self.vocabulary.len()).map(|index| if index < SPECIALS.len() { 3 } else { 1 });
        gguf.meta("tokenizer.ggml.token_type", Value::I32s(kinds.collect()));
        for (key, token) in [
            ("bos", CLS),
            ("cls", CLS),
            ("eos", SEP),
            ("seperator", SEP),
            ("unknown", UNKNOWN),
            ("padding", 0),
            ("mask", 4),
        ] {
            gguf.meta(&format!("tokenizer.ggml.{key}_token_id"), number(token));
        }
        for (key, value) in &self.meta {
            gguf.meta(key, value.clone());
        }
        for (name, values) in &self.weights {
            if name.starts_with("cls.") && !self.head {
                continue;
            }
            // The innermost length comes first: the input size, then the output size.
            let inner = match name.as_str() {
                name if name.ends_with("ffn_down.weight") => INNER,
                name if name.ends_with("norm.weight") || name.ends_with(".bias") => values.len(),
                _ => DIMENSIONS,
            };
            let outer = values.len() / inner;
            let shape = if name.ends_with("norm.weight") || name.ends_with(".bias") {
                vec![inner]
            } else {
                vec![inner, outer]
            };
            gguf.tensor(name, &shape, values.clone());
        }
        gguf.write(path).unwrap();
    }

    /// Converts a text into tokens by WordPiece's rules: the longest token that matches, and
    /// `[UNK]` for a word that cannot be split into known tokens.
    pub fn words(&self, text: &str) -> Vec<usize> {
        let mut words = Vec::new();
        let mut spaced = String::new();
        for letter in text.to_lowercase().chars() {
            if letter.is_ascii_punctuation() {
                spaced.extend([' ', letter, ' ']);
            } else {
                spaced.push(letter);
            }
        }
        for word in spaced.split_whitespace() {
            words.extend(
                self.word(&format!("\u{2581}{word}"))
                    .unwrap_or_else(|| vec![UNKNOWN]),
            );
        }
        words
    }

    fn word(&self, mut rest: &str) -> Option<Vec<usize>> {
        let mut tokens = Vec::new();
        while !rest.is_empty() {
            let fits = |&(_, token): &(usize, &String)| rest.starts_with(token.as_str());
            let (token, piece) = self
                .vocabulary
                .iter()
                .enumerate()
                .filter(fits)
                .max_by_key(|(_, piece)| piece.len())?;
            tokens.push(token);
            rest = &rest[piece.len()..];
        }
        Some(tokens)
    }

    /// Returns the tokens of a text as the model reads them, cut off at the maximum length.
    pub fn text(&self, text: &str) -> Vec<usize> {
        let words = self.words(text).into_iter().take(CONTEXT - 2);
        [CLS].into_iter().chain(words).chain([SEP]).collect()
    }

    /// Returns the tokens of a pair as the model reads them. The pair must be short enough.
    pub fn pair(&self, query: &str, passage: &str) -> Vec<usize> {
        let (query, passage) = (self.words(query), self.words(passage));
        [CLS]
            .into_iter()
            .chain(query)
            .chain([SEP])
            .chain(passage)
            .chain([SEP])
            .collect()
    }

    /// Computes the output of the last layer for each token.
    pub fn states(&self, tokens: &[usize]) -> Vec<Vec<f64>> {
        let row = |name: &str, index: usize| {
            let values = &self.weights[name][index * DIMENSIONS..(index + 1) * DIMENSIONS];
            values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>()
        };
        let mut states = Vec::new();
        for (position, &token) in tokens.iter().enumerate() {
            let mut state = row("token_embd.weight", token);
            add(&mut state, &row("position_embd.weight", position));
            add(&mut state, &row("token_types.weight", 0));
            states.push(self.norm("token_embd_norm", &state));
        }
        for layer in 0..LAYERS {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let seen = self.attention(layer, &states);
            for (state, seen) in states.iter_mut().zip(seen) {
                add(state, &self.dense(&name("attn_output"), &seen));
                *state = self.norm(&name("attn_output_norm"), state);
                let inner = self
                    .dense(&name("ffn_up"), state)
                    .into_iter()
                    .map(gelu)
                    .collect::<Vec<_>>();
                add(state, &self.dense(&name("ffn_down"), &inner));
                *state = self.norm(&name("layer_output_norm"), state);
            }
        }
        states
    }

    /// Computes the scores of a pair, one for each label.
    pub fn scores(&self, tokens: &[usize]) -> Vec<f64> {
        let first = &self.states(tokens)[0];
        let pooled = self
            .dense("cls", first)
            .into_iter()
            .map(f64::tanh)
            .collect::<Vec<_>>();
        self.dense("cls.output", &pooled)
    }

    fn attention(&self, layer: usize, states: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let all = |part: &str| {
            let name = format!("blk.{layer}.{part}");
            states
                .iter()
                .map(|state| self.dense(&name, state))
                .collect::<Vec<_>>()
        };
        let (queries, keys, values) = (all("attn_q"), all("attn_k"), all("attn_v"));
        let width = DIMENSIONS / HEADS;
        let mut seen = vec![vec![0.0; DIMENSIONS]; states.len()];
        for (query, seen) in queries.iter().zip(&mut seen) {
            for head in 0..HEADS {
                let part = head * width..(head + 1) * width;
                let fit = |key: &Vec<f64>| {
                    (product(&query[part.clone()], &key[part.clone()]) / (width as f64).sqrt()).exp()
                };
                let weights = keys.iter().map(fit).collect::<Vec<_>>();
                let total = weights.iter().sum::<f64>();
                for (weight, value) in weights.iter().zip(&values) {
                    for index in part.clone() {
                        seen[index] += weight / total * value[index];
                    }
                }
            }
        }
        seen
    }

    fn dense(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let weights = &self.weights[&format!("{name}.weight")];
        let rows = weights.chunks_exact(input.len());
        let wide = |row: &[f32]| row.iter().map(|&weight| f64::from(weight)).collect::<Vec<_>>();
        let biases = &self.weights[&format!("{name}.bias")];
        rows.zip(biases)
            .map(|(row, &bias)| product(&wide(row), input) + f64::from(bias))
            .collect()
    }

    fn norm(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let count = input.len() as f64;
        let mean = input.iter().sum::<f64>() / count;
        let spread = input.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let weights = &self.weights[&format!("{name}.weight")];
        let biases = &self.weights[&format!("{name}.bias")];
        let scaled = input
            .iter()
            .map(|value| (value - mean) / (spread + EPSILON).sqrt());
        scaled
            .zip(weights.iter().zip(biases))
            .map(|(value, (&weight, &bias))| value * f64::from(weight) + f64::from(bias))
            .collect()
    }
}

fn add(to: &mut [f64], what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += what);
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Computes GELU like ggml, with the hyperbolic tangent.
fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
}
