//! From a text to the tokens of a batch, truncated to the model's limit.
//!
//! This module finds out from the tokenizer itself which tokens it adds around a text
//! (`[CLS] … [SEP]`, `<s> … </s>`, none). Therefore a text can be truncated without losing the
//! tokens after it, two texts can be joined, and added tokens can be distinguished from those of
//! the text.

use std::ops::Range;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::vocab::LlamaVocab;

/// Number of bytes of a text that are read for each token that it may have. Tokens are about 4
/// bytes long; the rest allows for runs of spaces. This limits the cost of a text of many megabytes
/// before it is truncated.
const BYTES_PER_TOKEN: usize = 64;

/// The tokens of a text, including those that the tokenizer adds around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) tokens: Vec<LlamaToken>,
    /// The range of the text's own tokens.
    pub(super) words: Range<usize>,
    /// Whether the text was truncated.
    pub(super) cut: bool,
}

/// A model's tokenizer, with the tokens that it adds around a text and around a pair.
#[derive(Debug)]
pub(super) struct Tokenizer<'m> {
    vocab: LlamaVocab<'m>,
    before: Vec<LlamaToken>,
    after: Vec<LlamaToken>,
    pair: Pair,
    filler: LlamaToken,
}

/// The tokens around a query and a passage.
#[derive(Debug)]
struct Pair {
    before: Vec<LlamaToken>,
    between: Vec<LlamaToken>,
    after: Vec<LlamaToken>,
}

impl<'m> Tokenizer<'m> {
    /// Creates a tokenizer. Returns `None` if the model's tokenizer does more to a text than add
    /// tokens around it.
    pub(super) fn new(model: &'m LlamaModel) -> Option<Self> {
        let vocab = model.vocab();
        let framed = vocab.tokenize(b"a", true, false);
        let bare = vocab.tokenize(b"a", false, false);
        let (before, after) = around(&framed, &bare)?;
        // Between the halves of a pair is the end of the first text. A separator follows if the
        // model needs one besides the end (`</s></s>`) or has no end. Hugging Face's
        // post-processors do the same, and converters store it as `add_sep_token`.
        let mut between = after.clone();
        if vocab.should_add_sep() && (vocab.should_add_eos() || !after.ends_with(&[vocab.sep()])) {
            between.push(vocab.sep());
        }
        let filler = [vocab.eos(), vocab.bos(), vocab.sep(), vocab.pad()]
            .into_iter()
            .find(|token| (0..vocab.n_tokens()).contains(&token.0))
            .unwrap_or(LlamaToken(0));
        Some(Self {
            vocab,
            pair: Pair {
                before: before.clone(),
                between,
                after: after.clone(),
            },
            before,
            after,
            filler,
        })
    }

    /// Formats pairs with a template that contains `{query}` and then `{document}`. Returns `None`
    /// if it does not.
    ///
    /// In the template, the name of a special token means that token; in a query or a passage it is
    /// plain text.
    pub(super) fn template(mut self, template: &str) -> Option<Self> {
        let (before, rest) = template.split_once("{query}")?;
        let (between, after) = rest.split_once("{document}")?;
        let tokens = |text: &str| self.vocab.tokenize(text.as_bytes(), false, true);
        self.pair = Pair {
            before: tokens(before),
            between: tokens(between),
            after: tokens(after),
        };
        Some(self)
    }

    /// Returns the number of tokens that are added to a text.
    pub(super) fn text_frame(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Returns the number of tokens that are added to a pair.
    pub(super) fn pair_frame(&self) -> usize {
        self.pair.before.len() + self.pair.between.len() + self.pair.after.len()
    }

    /// Returns `prefix` and `text` as one text, truncated to `limit` tokens including the added
    /// ones. If the tokenizer adds no tokens, an empty text becomes one token without meaning,
    /// because no model can read zero tokens.
    pub(super) fn text(&self, prefix: &str, text: &str, limit: usize) -> Tokens {
        let room = limit.saturating_sub(self.text_frame());
        let (text, shortened) = shorten(text, room);
        let joined = [prefix, text].concat();
        let (words, cut) = self.words(&joined, room);
        let head = self.before.len() + self.shared(prefix, &words);
        let end = self.before.len() + words.len();
        let parts = [&self.before, &words, &self.after];
        Tokens {
            tokens: self.never_none(parts.into_iter().flatten().copied().collect()),
            words: head.min(end)..end,
            cut: cut || shortened,
        }
    }

    /// Returns a query and a passage in the form on which cross-encoders are trained, truncated to
    /// `limit` tokens. The passage is truncated first; the query only if it takes more than half by
    /// itself.
    pub(super) fn pair(&self, query: &str, passage: &str, limit: usize) -> Tokens {
        let room = limit.saturating_sub(self.pair_frame());
        let (query, query_cut) = self.words(query, room / 2);
        let (passage, passage_cut) = self.words(passage, room - query.len());
        let head = self.pair.before.len() + query.len() + self.pair.between.len();
        let words = head..head + passage.len();
        let parts = [
            &self.pair.before,
            &query,
            &self.pair.between,
            &passage,
            &self.pair.after,
        ];
        Tokens {
            tokens: self.never_none(parts.into_iter().flatten().copied().collect()),
            words,
            cut: query_cut || passage_cut,
        }
    }

    /// Returns the tokens of a text without added ones, truncated to `room` tokens. The name of a
    /// special token in the text is plain text.
    fn words(&self, text: &str, room: usize) -> (Vec<LlamaToken>, bool) {
        let (text, shortened) = shorten(text, room);
        let mut words = self.vocab.tokenize(text.as_bytes(), false, false);
        let cut = shortened || words.len() > room;
        words.truncate(room);
        (words, cut)
    }

    fn never_none(&self, mut tokens: Vec<LlamaToken>) -> Vec<LlamaToken> {
        if tokens.is_empty() {
            tokens.push(self.filler);
        }
        tokens
    }

    /// Returns how many of `words` belong to the prefix; 0 if the end of the prefix and the
    /// beginning of the text became one token.
    fn shared(&self, prefix: &str, words: &[LlamaToken]) -> usize {
        let prefix = self.vocab.tokenize(prefix.trim_end().as_bytes(), false, false);
        if words.starts_with(&prefix) {
            prefix.len()
        } else {
            0
        }
    }
}

/// Returns as many of the text's first bytes as `room` tokens can need.
fn shorten(text: &str, room: usize) -> (&str, bool) {
    let end = text.floor_char_boundary(room.saturating_mul(BYTES_PER_TOKEN));
    (&text[..end], end < text.len())
}

/// Returns the tokens before and after `bare` in `framed`.
fn around(framed: &[LlamaToken], bare: &[LlamaToken]) -> Option<(Vec<LlamaToken>, Vec<LlamaToken>)> {
    if bare.is_empty() {
        return None;
    }
    let at = framed.windows(bare.len()).position(|window| window == bare)?;
    Some((framed[..at].to_vec(), framed[at + bare.len()..].to_vec()))
}
