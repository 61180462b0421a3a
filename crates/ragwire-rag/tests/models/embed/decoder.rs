//! Tests of a chat model as an embedder: it is accepted only if the options set the pooling, and
//! then behaves like any other.

use ragwire_rag::models::llama::{
    Batching, EmbedderOptions, LlamaEmbedder, LlamaFile, LlamaRanker, Pooling, RankerOptions,
};
use ragwire_rag::models::{Embed, Side};
use ragwire_test_support::gguf::{Gguf, Value};
use ragwire_test_support::seed::Seed;
use tempfile::TempDir;

use crate::embed::cosine::{assert_like, mean, soon, texts, wide};

const DIMENSIONS: usize = 32;
const CONTEXT: u32 = 128;
/// The pooling does not change the states that are pooled, but keys and values have 16 bits.
const ALIKE: f64 = 0.9999;

/// Writes a tiny Llama of random weights. Its tokenizer adds no tokens around a text, so an empty
/// text has no tokens.
fn tiny_llama(folder: &TempDir) -> LlamaFile {
    let mut tokens = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..=255).map(|byte: u8| format!("<0x{byte:02X}>")));
    tokens.push("\u{2581}".to_owned());
    tokens.extend(('a'..='z').map(String::from));
    let words = tokens.len();
    let kinds = (0..words).map(|index| match index {
        0 => 2,
        1 | 2 => 3,
        3..=258 => 6,
        _ => 1,
    });
    let mut gguf = Gguf::default();
    let text = |text: &str| Value::Text(text.to_owned());
    gguf.meta("general.architecture", text("llama"));
    gguf.meta("llama.context_length", Value::U32(CONTEXT));
    gguf.meta("llama.embedding_length", Value::U32(DIMENSIONS as u32));
    gguf.meta("llama.feed_forward_length", Value::U32(64));
    gguf.meta("llama.block_count", Value::U32(2));
    gguf.meta("llama.attention.head_count", Value::U32(2));
    gguf.meta("llama.attention.head_count_kv", Value::U32(2));
    gguf.meta("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
    gguf.meta("llama.rope.dimension_count", Value::U32(16));
    gguf.meta("tokenizer.ggml.model", text("llama"));
    gguf.meta("tokenizer.ggml.scores", Value::F32s(vec![0.0; words]));
    gguf.meta("tokenizer.ggml.token_type", Value::I32s(kinds.collect()));
    gguf.meta("tokenizer.ggml.tokens", Value::Texts(tokens));
    gguf.meta("tokenizer.ggml.bos_token_id", Value::U32(1));
    gguf.meta("tokenizer.ggml.eos_token_id", Value::U32(2));
    gguf.meta("tokenizer.ggml.add_bos_token", Value::Bool(false));
    gguf.meta("tokenizer.ggml.add_space_prefix", Value::Bool(false));
    let mut seed = Seed::new(3);
    let mut random = |count: usize| {
        (0..count)
            .map(|_| seed.below(1000) as f32 / 1000.0 - 0.5)
            .collect::<Vec<_>>()
    };
    gguf.tensor(
        "token_embd.weight",
        &[DIMENSIONS, words],
        random(DIMENSIONS * words),
    );
    gguf.tensor("output_norm.weight", &[DIMENSIONS], vec![1.0; DIMENSIONS]);
    for layer in 0..2 {
        for (name, inner, outer) in [
            ("attn_q", DIMENSIONS, DIMENSIONS),
            ("attn_k", DIMENSIONS, DIMENSIONS),
            ("attn_v", DIMENSIONS, DIMENSIONS),
            ("attn_output", DIMENSIONS, DIMENSIONS),
            ("ffn_gate", DIMENSIONS, 64),
            ("ffn_up", DIMENSIONS, 64),
            ("ffn_down", 64, DIMENSIONS),
        ] {
            gguf.tensor(
                &format!("blk.{layer}.{name}.weight"),
                &[inner, outer],
                random(inner * outer),
            );
        }
        for name in ["attn_norm", "ffn_norm"] {
            gguf.tensor(
                &format!("blk.{layer}.{name}.weight"),
                &[DIMENSIONS],
                vec![1.0; DIMENSIONS],
            );
        }
    }
    let path = folder.path().join("tiny-llama.gguf");
    gguf.write(&path).unwrap();
    LlamaFile::new(path).threads(1)
}

#[tokio::test]
async fn a_model_without_pooling_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let error = LlamaEmbedder::load(tiny_llama(&folder), EmbedderOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "model_no_pooling");
}

#[tokio::test]
async fn it_embeds_if_the_options_set_the_pooling() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_llama(&folder);
    // A word whose length is unique, so that the letters of the texts differ.
    let texts = texts(30)
        .into_iter()
        .chain([String::new(), "\0".to_owned(), "z".repeat(1_000)])
        .collect::<Vec<_>>();
    for pooling in [Pooling::Mean, Pooling::Last, Pooling::Cls] {
        let embedder = async |batching: Batching| {
            let options = EmbedderOptions::default().pooling(pooling).batching(batching);
            LlamaEmbedder::load(file.clone(), options).await.unwrap()
        };
        let (together, alone) = (
            embedder(Batching::default()).await,
            embedder(Batching::default().max_texts(1)).await,
        );
        assert_eq!(
            (together.name(), together.dimensions()),
            ("tiny-llama", DIMENSIONS)
        );
        let vectors = soon(together.embed(Side::Passage, texts.clone())).await.unwrap();
        let tokens = soon(together.embed_tokens(Side::Passage, texts.clone()))
            .await
            .unwrap();
        assert_eq!((vectors.len(), tokens.len()), (texts.len(), texts.len()));
        for (text, (vector, tokens)) in texts.iter().zip(vectors.iter().zip(&tokens)) {
            let one = soon(alone.embed(Side::Passage, vec![text.clone()]))
                .await
                .unwrap();
            assert_like(vector, &wide(&one[0]), ALIKE, &format!("{text:?} by {pooling:?}"));
            let Some((first, last)) = tokens.first().zip(tokens.last()) else {
                assert_eq!(text, "", "only an empty text has no token");
                continue;
            };
            match pooling {
                Pooling::Cls => assert_like(vector, &wide(first), ALIKE, "the first"),
                Pooling::Last => assert_like(vector, &wide(last), ALIKE, "the last"),
                // Vectors of tokens have length 1 each, so their mean is only close.
                Pooling::Mean => {
                    let wide = tokens.iter().map(|token| wide(token)).collect::<Vec<_>>();
                    assert_like(vector, &mean(&wide), 0.9, "the mean");
                }
            }
        }
        let long = tokens.last().map(Vec::len);
        assert_eq!(long, Some(CONTEXT as usize), "cut to the context of the model");
    }
}

#[tokio::test]
async fn it_is_not_a_ranker() {
    let folder = tempfile::tempdir().unwrap();
    let error = LlamaRanker::load(tiny_llama(&folder), RankerOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "model_no_ranker");
}
