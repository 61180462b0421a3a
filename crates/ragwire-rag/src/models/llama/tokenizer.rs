//! A text to the tokens that a model reads it as, cut to what it takes.
//!
//! It learns from the tokenizer itself what stands around a text (`[CLS] … [SEP]`, `<s> … </s>`, nothing), so that a text can be cut without
//! losing its end, two texts can be joined, and the tokens that are no words can be told from those that are.

use std::ops::Range;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::vocab::LlamaVocab;

/// Bytes of a text that are looked at for each token that it may have. Tokens are about 4 bytes long; the rest is for runs of spaces. It
/// bounds what a text of many megabytes costs before it is cut.
const BYTES_PER_TOKEN: usize = 64;

/// A text as tokens, with what stands around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) tokens: Vec<LlamaToken>,
    /// Those of the text itself.
    pub(super) words: Range<usize>,
    /// Whether the text was longer.
    pub(super) cut: bool,
}

/// A model's tokenizer, and what stands around a text and around a pair.
#[derive(Debug)]
pub(super) struct Tokenizer<'m> {
    vocab: LlamaVocab<'m>,
    before: Vec<LlamaToken>,
    after: Vec<LlamaToken>,
    pair: Pair,
    filler: LlamaToken,
}

/// What stands around a query and a passage.
#[derive(Debug)]
struct Pair {
    before: Vec<LlamaToken>,
    between: Vec<LlamaToken>,
    after: Vec<LlamaToken>,
}

impl<'m> Tokenizer<'m> {
    /// Nothing where the tokenizer does something else with a text than to put tokens around it.
    pub(super) fn new(model: &'m LlamaModel) -> Option<Self> {
        let vocab = model.vocab();
        let framed = vocab.tokenize(b"a", true, false);
        let bare = vocab.tokenize(b"a", false, false);
        let (before, after) = around(&framed, &bare)?;
        // A pair has the end of the first text between its halves, and a separator where the model wants one beside its end (`</s></s>`) or
        // has no end: what Hugging Face's post-processors do, and converters write down as `add_sep_token`.
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

    /// Puts a pair into a template that has `{query}` and then `{document}`. Nothing where it has not.
    ///
    /// In the template the name of a special token means that token; in a query or a passage it is only its letters.
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

    /// Tokens that a text has beside its own.
    pub(super) fn text_frame(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Tokens that a pair has beside its own.
    pub(super) fn pair_frame(&self) -> usize {
        self.pair.before.len() + self.pair.between.len() + self.pair.after.len()
    }

    /// `prefix` and `text` as one, cut to `limit` tokens with what stands around them. An empty text where nothing stands around any is
    /// one token that means nothing, since no model can read none.
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

    /// A query and a passage as the pair that cross-encoders are trained on, cut to `limit` tokens: the passage first of all, the query
    /// where it alone takes more than half.
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

    /// A text alone, cut to `room` tokens. What it says is text: the name of a special token in it is only its letters.
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

    /// How many of `words` are the prefix's; 0 where its end and the text's beginning became one token.
    fn shared(&self, prefix: &str, words: &[LlamaToken]) -> usize {
        let prefix = self.vocab.tokenize(prefix.trim_end().as_bytes(), false, false);
        if words.starts_with(&prefix) {
            prefix.len()
        } else {
            0
        }
    }
}

/// The text's first bytes, as many as `room` tokens can need.
fn shorten(text: &str, room: usize) -> (&str, bool) {
    let end = text.floor_char_boundary(room.saturating_mul(BYTES_PER_TOKEN));
    (&text[..end], end < text.len())
}

/// What stands before and after `bare` in `framed`.
fn around(framed: &[LlamaToken], bare: &[LlamaToken]) -> Option<(Vec<LlamaToken>, Vec<LlamaToken>)> {
    if bare.is_empty() {
        return None;
    }
    let at = framed.windows(bare.len()).position(|window| window == bare)?;
    Some((framed[..at].to_vec(), framed[at + bare.len()..].to_vec()))
}
