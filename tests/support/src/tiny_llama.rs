//! A llama with random weights that llama.cpp loads: half a megabyte, or as large as a benchmark
//! needs it.
//!
//! It understands nothing. It never generates tokens that are not plain text (their rows of the
//! output are 0), so it neither ends an answer nor writes control tokens unless a grammar allows
//! nothing else. The vocabulary is SentencePiece with all bytes, printable ASCII, a few words, and
//! the marks of ChatML as control tokens.

use std::io;
use std::path::Path;

use crate::gguf::{Gguf, Kind, Value};

/// The types of a vocabulary's tokens, by GGUF's numbers.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

/// The ChatML template as llama.cpp recognises it, the usual value of [`TinyLlama::template`].
pub const CHATML: &str = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}";

/// The parameters of a llama with random weights.
#[derive(Clone, Debug)]
pub struct TinyLlama {
    /// `general.architecture`.
    pub architecture: String,
    /// The context length that the file specifies.
    pub context: u32,
    /// The number of layers.
    pub layers: usize,
    /// The length of a token's vector.
    pub width: usize,
    /// The number of attention heads. The width is a multiple of it.
    pub heads: usize,
    /// The number of heads for keys and values. The number of heads is a multiple of it.
    pub kv_heads: usize,
    /// The size of a head; `None` for the width divided by the number of heads.
    pub head_width: Option<usize>,
    /// The width within a layer.
    pub inner: usize,
    /// The format of the matrices.
    pub kind: Kind,
    /// The standard deviation of the logits. With 4, the likeliest token is clearly ahead.
    pub loudness: f32,
    /// The seed of the weights.
    pub seed: u64,
    /// The chat template, if any.
    pub template: Option<String>,
    /// `tokenizer.ggml.model`, if any.
    pub tokenizer: Option<String>,
    /// Control tokens in addition to those of ChatML.
    pub control: Vec<String>,
    /// Tokens that a tokenizer never splits.
    pub user_defined: Vec<String>,
    /// Words in addition to the usual ones. A leading `▁` marks the beginning of a word.
    pub words: Vec<String>,
    /// Whether the vocabulary contains all 256 bytes.
    pub has_bytes: bool,
}

impl Default for TinyLlama {
    /// Two layers of 66 numbers. 66 is not a multiple of 4: the CPU's faster kernels for many
    /// tokens at once do not accept such rows, so the sums of a token are the same in a large batch
    /// and alone.
    fn default() -> Self {
        Self {
            architecture: "llama".to_owned(),
            context: 4_096,
            layers: 2,
            width: 66,
            heads: 3,
            kv_heads: 1,
            head_width: None,
            inner: 110,
            kind: Kind::F32,
            loudness: 4.0,
            seed: 7,
            template: None,
            tokenizer: Some("llama".to_owned()),
            control: Vec::new(),
            user_defined: Vec::new(),
            words: Vec::new(),
            has_bytes: true,
        }
    }
}

impl TinyLlama {
    /// Returns its tokens with their types.
    pub fn vocabulary(&self) -> Vec<(String, i32)> {
        let mut tokens = vec![
            ("<unk>".to_owned(), UNKNOWN),
            ("<s>".to_owned(), CONTROL),
            ("</s>".to_owned(), CONTROL),
        ];
        if self.has_bytes {
            tokens.extend((0..=255_u8).map(|byte| (format!("<0x{byte:02X}>"), BYTE)));
        }
        let control = ["<|im_start|>", "<|im_end|>"].map(str::to_owned);
        tokens.extend(
            control
                .into_iter()
                .chain(self.control.clone())
                .map(|token| (token, CONTROL)),
        );
        tokens.extend(
            self.user_defined
                .iter()
                .map(|token| (token.clone(), USER_DEFINED)),
        );
        tokens.push(("\u{2581}".to_owned(), NORMAL));
        tokens.extend(('!'..='~').map(|letter| (letter.to_string(), NORMAL)));
        let words = [
            "\u{2581}t",
            "he",
            "\u{2581}the",
            "in",
            "er",
            "an",
            "re",
            "on",
            "at",
            "st",
        ]
        .map(str::to_owned);
        tokens.extend(
            words
                .into_iter()
                .chain(self.words.clone())
                .map(|word| (word, NORMAL)),
        );
        tokens
    }

    fn head_width(&self) -> usize {
        self.head_width.unwrap_or(self.width / self.heads)
    }

    /// Writes it as a GGUF file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let vocabulary = self.vocabulary();
        let number = |number: usize| Value::U32(u32::try_from(number).unwrap());
        let key = |name: &str| format!("{}.{name}", self.architecture);
        let mut gguf = Gguf::default();
        gguf.meta("general.architecture", Value::Text(self.architecture.clone()))
            .meta("general.name", Value::Text("tiny".to_owned()))
            .meta(&key("context_length"), Value::U32(self.context))
            .meta(&key("embedding_length"), number(self.width))
            .meta(&key("block_count"), number(self.layers))
            .meta(&key("feed_forward_length"), number(self.inner))
            .meta(&key("attention.head_count"), number(self.heads))
            .meta(&key("attention.head_count_kv"), number(self.kv_heads))
            .meta(&key("attention.layer_norm_rms_epsilon"), Value::F32(1e-5))
            .meta(&key("rope.dimension_count"), number(self.head_width()));
        if self.head_width.is_some() {
            gguf.meta(&key("attention.key_length"), number(self.head_width()))
                .meta(&key("attention.value_length"), number(self.head_width()));
        }
        if let Some(tokenizer) = &self.tokenizer {
            gguf.meta("tokenizer.ggml.model", Value::Text(tokenizer.clone()));
        }
        let texts = vocabulary.iter().map(|(token, _)| token.clone()).collect();
        let kinds = vocabulary.iter().map(|(_, kind)| *kind).collect();
        // Longer words are merged first.
        let scores = vocabulary
            .iter()
            .map(|(token, _)| token.chars().count() as f32)
            .collect();
        gguf.meta("tokenizer.ggml.tokens", Value::Texts(texts))
            .meta("tokenizer.ggml.scores", Value::F32s(scores))
            .meta("tokenizer.ggml.token_type", Value::I32s(kinds))
            .meta("tokenizer.ggml.bos_token_id", Value::U32(1))
            .meta("tokenizer.ggml.eos_token_id", Value::U32(2))
            .meta("tokenizer.ggml.unknown_token_id", Value::U32(0))
            .meta("tokenizer.ggml.add_bos_token", Value::Bool(true));
        if let Some(template) = &self.template {
            gguf.meta("tokenizer.chat_template", Value::Text(template.clone()));
        }
        self.weights(&vocabulary, &mut gguf);
        gguf.write(path)
    }

    fn weights(&self, vocabulary: &[(String, i32)], gguf: &mut Gguf) {
        let (width, inner, tokens) = (self.width, self.inner, vocabulary.len());
        let (queries, keys) = (self.head_width() * self.heads, self.head_width() * self.kv_heads);
        let mut seed = self.seed << 16;
        let mut random = |gguf: &mut Gguf, name: &str, shape: [usize; 2], scale: f32, zeros: Vec<usize>| {
            seed += 1;
            gguf.random(name, &shape, self.kind, scale, seed, zeros);
        };
        let ones = |gguf: &mut Gguf, name: &str| {
            gguf.tensor(name, &[width], vec![1.0; width]);
        };
        random(gguf, "token_embd.weight", [width, tokens], 1.0, Vec::new());
        let silent = vocabulary
            .iter()
            .enumerate()
            .filter(|(_, (_, kind))| *kind != NORMAL)
            .map(|(token, _)| token);
        random(
            gguf,
            "output.weight",
            [width, tokens],
            self.loudness / (width as f32).sqrt(),
            silent.collect(),
        );
        ones(gguf, "output_norm.weight");
        let scale = 1.0 / (width as f32).sqrt();
        for layer in 0..self.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            ones(gguf, &name("attn_norm"));
            ones(gguf, &name("ffn_norm"));
            random(gguf, &name("attn_q"), [width, queries], 2.0 * scale, Vec::new());
            random(gguf, &name("attn_k"), [width, keys], 2.0 * scale, Vec::new());
            random(gguf, &name("attn_v"), [width, keys], scale, Vec::new());
            random(gguf, &name("attn_output"), [queries, width], scale, Vec::new());
            random(gguf, &name("ffn_gate"), [width, inner], scale, Vec::new());
            random(gguf, &name("ffn_up"), [width, inner], scale, Vec::new());
            random(
                gguf,
                &name("ffn_down"),
                [inner, width],
                1.0 / (inner as f32).sqrt(),
                Vec::new(),
            );
        }
    }
}
