//! Models of random weights in the shapes of real ones. How fast they are is what their shape makes them; what they say is nothing.

use std::collections::BTreeSet;
use std::path::Path;

use ragwire_rag::answer::ANSWER_RULES;
use ragwire_test_support::gguf::Kind;
use ragwire_test_support::tiny_llama::{CHATML, TinyLlama};

/// What the questions and the evidence are made of.
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

/// The larger ones are the shapes of Llama 3.2 1B, Llama 3.2 3B and Llama 3.1 8B, but that input and output have matrices of their own in all of
/// them; the smaller ones are for a CPU.
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

    /// Writes a model of this shape; its weights are made on the way, so it may be larger than the memory.
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
        // The rest of the vocabulary has as many bytes a token as a real one, and is nowhere in a prompt.
        let missing = self.tokens.saturating_sub(model.vocabulary().len());
        model.words.extend((0..missing).map(filler));
        model.write(path)
    }
}

/// Every beginning of every word: a tokenizer puts a word together from left to right, and needs each of them on its way.
fn beginnings(text: &str) -> Vec<String> {
    let mut beginnings = BTreeSet::new();
    for word in text.split_whitespace() {
        let marked = format!("\u{2581}{word}");
        beginnings.extend(
            (2..=marked.chars().count()).map(|length| marked.chars().take(length).collect::<String>()),
        );
    }
    // These the vocabulary has.
    for known in ["\u{2581}t", "\u{2581}the"] {
        beginnings.remove(known);
    }
    beginnings.into_iter().collect()
}

/// A word of four letters that differs for each number.
fn filler(number: usize) -> String {
    let letter = |place: u32| char::from(b'A' + u8::try_from(number / 26_usize.pow(place) % 26).unwrap_or(0));
    format!("\u{2581}{}{}{}{}", letter(3), letter(2), letter(1), letter(0))
}
