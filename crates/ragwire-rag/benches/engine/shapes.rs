//! Models of random weights in the shapes of real ones. Their speed depends only on the shape;
//! their output is meaningless.

use std::collections::BTreeSet;
use std::path::Path;

use ragwire_rag::answer::ANSWER_RULES;
use ragwire_test_support::gguf::Kind;
use ragwire_test_support::tiny_llama::{CHATML, TinyLlama};

/// The text of the questions and of the evidence.
pub(crate) const PROSE: &str = "The pump holds water until the valve lets it go, and the engineer waits while it is full. Each report tells \
    when the pump was opened, who opened it, what was found inside and how long the repair took.";

/// A model's shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) layers: usize,
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) inner: usize,
    pub(crate) tokens: usize,
}

/// The larger ones have the shapes of Llama 3.2 1B, Llama 3.2 3B and Llama 3.1 8B, except that all
/// of them have separate matrices for input and output. The smaller ones are for a CPU.
pub(crate) const SHAPES: [Shape; 5] = [
    shape("30m", [8, 512, 8, 4, 1_408, 8_000]),
    shape("60m", [10, 640, 10, 5, 1_760, 16_000]),
    shape("1b", [16, 2_048, 32, 8, 8_192, 128_256]),
    shape("3b", [28, 3_072, 24, 8, 8_192, 128_256]),
    shape("8b", [32, 4_096, 32, 8, 14_336, 128_256]),
];

const fn shape(name: &'static str, numbers: [usize; 6]) -> Shape {
    let [layers, width, heads, kv_heads, inner, tokens] = numbers;
    Shape {
        name,
        layers,
        width,
        heads,
        kv_heads,
        inner,
        tokens,
    }
}

impl Shape {
    pub(crate) fn named(name: &str) -> Option<Self> {
        SHAPES.into_iter().find(|shape| shape.name == name)
    }

    /// Writes a model of this shape. The weights are generated while writing, so the model may be
    /// larger than the memory.
    pub(crate) fn write(self, kind: Kind, path: &Path) -> std::io::Result<()> {
        let mut model = TinyLlama {
            context: 131_072,
            layers: self.layers,
            width: self.width,
            heads: self.heads,
            kv_heads: self.kv_heads,
            inner: self.inner,
            kind,
            template: Some(CHATML.to_owned()),
            words: beginnings(&format!("{ANSWER_RULES} {PROSE}")),
            ..TinyLlama::default()
        };
        // The other tokens have as many bytes as those of a real vocabulary, and occur in no
        // prompt.
        let missing = self.tokens.saturating_sub(model.vocabulary().len());
        model.words.extend((0..missing).map(filler));
        model.write(path)
    }
}

/// Returns every prefix of every word: a tokenizer builds a word from left to right and needs each
/// of them.
fn beginnings(text: &str) -> Vec<String> {
    let mut beginnings = BTreeSet::new();
    for word in text.split_whitespace() {
        let marked = format!("\u{2581}{word}");
        beginnings.extend(
            (2..=marked.chars().count()).map(|length| marked.chars().take(length).collect::<String>()),
        );
    }
    // Tokens that the vocabulary already has.
    for known in ["\u{2581}t", "\u{2581}the"] {
        beginnings.remove(known);
    }
    beginnings.into_iter().collect()
}

/// Returns a word of four letters, a different one for each number.
fn filler(number: usize) -> String {
    let letter = |place: u32| char::from(b'A' + u8::try_from(number / 26_usize.pow(place) % 26).unwrap_or(0));
    format!("\u{2581}{}{}{}{}", letter(3), letter(2), letter(1), letter(0))
}
