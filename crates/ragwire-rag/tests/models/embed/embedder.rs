//! Tests of vectors: they are those of the model, whatever texts shared a batch.

use ragwire_rag::models::llama::{Batching, EmbedderOptions, LlamaEmbedder, Pooling};
use ragwire_rag::models::{Embed, Side};
use ragwire_test_support::tiny_bert::{CONTEXT, DIMENSIONS, Pooling as FilePooling, TinyBert};

use crate::embed::cosine::{TempModel, assert_like, mean, soon, texts, tiny, wide};

/// llama.cpp computes attention over keys and values of 16 bits.
const ALIKE: f64 = 0.9999;

#[tokio::test]
async fn vectors_equal_those_of_a_plain_computation() {
    let (embedder, bert, _made) = tiny(EmbedderOptions::default()).await;
    let texts = texts(40);
    let vectors = soon(embedder.embed(Side::Passage, texts.clone())).await.unwrap();
    assert_eq!(
        (embedder.name(), embedder.dimensions()),
        ("tiny bert", DIMENSIONS)
    );
    assert_eq!(vectors.len(), texts.len());
    for (text, vector) in texts.iter().zip(&vectors) {
        assert_like(vector, &mean(&bert.states(&bert.text(text))), ALIKE, text);
    }
}

#[tokio::test]
async fn batches_of_any_shape_give_the_vectors_of_single_texts() {
    let (one_by_one, _, made) =
        tiny(EmbedderOptions::default().batching(Batching::default().max_texts(1))).await;
    let texts = texts(60);
    let mut alone = Vec::new();
    for text in &texts {
        alone.extend(
            soon(one_by_one.embed(Side::Query, vec![text.clone()]))
                .await
                .unwrap(),
        );
    }
    assert_eq!(one_by_one.stats().batches, 60);
    for batching in [
        Batching::default(),
        Batching::default().max_tokens(65),
        Batching::default().max_tokens(4_096).max_texts(256),
        Batching::default().max_tokens(0).max_texts(3),
        Batching::default().max_tokens(97).max_texts(250),
    ] {
        let options = EmbedderOptions::default().batching(batching.clone());
        let embedder = LlamaEmbedder::load(made.file(), options).await.unwrap();
        let together = soon(embedder.embed(Side::Query, texts.clone())).await.unwrap();
        assert_eq!(together.len(), alone.len());
        for (text, (alone, together)) in texts.iter().zip(alone.iter().zip(&together)) {
            assert_like(
                together,
                &wide(alone),
                0.999_99,
                &format!("{text} with {batching:?}"),
            );
        }
        assert_eq!(embedder.stats().texts, 60);
    }
}

#[tokio::test]
async fn many_texts_share_a_batch() {
    let (embedder, ..) = tiny(EmbedderOptions::default()).await;
    let vectors = soon(embedder.embed(Side::Query, vec!["pump".to_owned(); 100]))
        .await
        .unwrap();
    assert_eq!(vectors.len(), 100);
    // Three tokens each: a batch reaches its limit of 64 texts before its limit of 512 tokens.
    let stats = embedder.stats();
    assert_eq!(
        (stats.texts, stats.tokens, stats.batches, stats.cut),
        (100, 300, 2, 0)
    );
}

#[tokio::test]
async fn a_long_text_is_cut_at_its_end_and_counted() {
    let (embedder, bert, _made) = tiny(EmbedderOptions::default()).await;
    let long = "how the water pump works ".repeat(40);
    let fits = vec!["how"; CONTEXT - 2].join(" ");
    let vectors = soon(embedder.embed(Side::Passage, vec![long.clone(), fits.clone()]))
        .await
        .unwrap();
    assert_eq!(bert.text(&long).len(), CONTEXT);
    assert_like(
        &vectors[0],
        &mean(&bert.states(&bert.text(&long))),
        ALIKE,
        "the long text",
    );
    assert_like(
        &vectors[1],
        &mean(&bert.states(&bert.text(&fits))),
        ALIKE,
        "the text that just fits",
    );
    assert_eq!(embedder.stats().cut, 1);
}

#[tokio::test]
async fn the_options_may_cut_texts_earlier() {
    let options = EmbedderOptions::default().batching(Batching::default().max_text_tokens(6));
    let (embedder, bert, _made) = tiny(options).await;
    let vectors = soon(embedder.embed(Side::Passage, vec!["how the water pump works".to_owned()]))
        .await
        .unwrap();
    assert_like(
        &vectors[0],
        &mean(&bert.states(&bert.text("how the water pump"))),
        ALIKE,
        "four words",
    );
    assert_eq!(embedder.stats().cut, 1);
}

#[tokio::test]
async fn prefixes_precede_the_text_of_their_side() {
    let options = EmbedderOptions::default()
        .query_prefix("query: ")
        .passage_prefix("the ");
    let (embedder, bert, _made) = tiny(options).await;
    let text = || vec!["pump works".to_owned()];
    let query = soon(embedder.embed(Side::Query, text())).await.unwrap();
    assert_like(
        &query[0],
        &mean(&bert.states(&bert.text("query: pump works"))),
        ALIKE,
        "the query",
    );
    let passage = soon(embedder.embed(Side::Passage, text())).await.unwrap();
    assert_like(
        &passage[0],
        &mean(&bert.states(&bert.text("the pump works"))),
        ALIKE,
        "the passage",
    );
}

#[tokio::test]
async fn the_options_override_the_pooling_of_the_file() {
    let bert = TinyBert::new(FilePooling::Mean);
    let made = TempModel::new(&bert);
    let states = bert.states(&bert.text("how the pump works"));
    for (pooling, expected) in [
        (None, mean(&states)),
        (Some(Pooling::Mean), mean(&states)),
        (Some(Pooling::Cls), states[0].clone()),
        (Some(Pooling::Last), states[states.len() - 1].clone()),
    ] {
        let options = match pooling {
            Some(pooling) => EmbedderOptions::default().pooling(pooling),
            None => EmbedderOptions::default(),
        };
        let embedder = LlamaEmbedder::load(made.file(), options).await.unwrap();
        let vectors = soon(embedder.embed(Side::Query, vec!["how the pump works".to_owned()]))
            .await
            .unwrap();
        assert_like(&vectors[0], &expected, ALIKE, &format!("{pooling:?}"));
    }
    let with_cls = TempModel::new(&TinyBert::new(FilePooling::Cls));
    let embedder = LlamaEmbedder::load(with_cls.file(), EmbedderOptions::default())
        .await
        .unwrap();
    let vectors = soon(embedder.embed(Side::Query, vec!["how the pump works".to_owned()]))
        .await
        .unwrap();
    assert_like(&vectors[0], &states[0], ALIKE, "the pooling of the file");
}

#[tokio::test]
async fn any_text_has_a_vector() {
    let (embedder, bert, _made) = tiny(EmbedderOptions::default()).await;
    let texts = [
        "",
        " \n\t ",
        "\0",
        "pump\0\0works",
        "\u{feff}\u{200b}\u{202e}\u{2028}",
        "🚀🚀 ünïcödé 今天 \u{fffd}\u{10ffff}",
        "[CLS] [SEP] [SEP] [PAD]",
        "[UNK",
    ];
    let owned = texts.map(str::to_owned).to_vec();
    let vectors = soon(embedder.embed(Side::Passage, owned)).await.unwrap();
    assert_eq!(vectors.len(), texts.len());
    for (text, vector) in texts.iter().zip(&vectors) {
        assert_like(vector, &wide(vector), ALIKE, &format!("{text:?}"));
    }
    let state = |text: &str| mean(&bert.states(&bert.text(text)));
    assert_like(&vectors[0], &state(""), ALIKE, "nothing");
    assert_like(&vectors[1], &state(""), ALIKE, "white space");
    assert_like(&vectors[2], &state(""), ALIKE, "a byte that is not a letter");
    assert_like(
        &vectors[3],
        &state("pumpworks"),
        ALIKE,
        "words around control bytes",
    );
    // Special tokens in a text are read as letters and brackets.
    assert_like(
        &vectors[6],
        &state("[CLS] [SEP] [SEP] [PAD]"),
        ALIKE,
        "names of special tokens",
    );
}

#[tokio::test]
async fn a_huge_text_is_cut_before_it_is_tokenized() {
    let (embedder, bert, _made) = tiny(EmbedderOptions::default()).await;
    let words = "water ".repeat(8 << 20);
    let one_word = "a".repeat(16 << 20);
    let nuls = "\0".repeat(16 << 20);
    let vectors = soon(embedder.embed(Side::Passage, vec![words, one_word, nuls]))
        .await
        .unwrap();
    let full = bert.text(&"water ".repeat(100));
    assert_like(&vectors[0], &mean(&bert.states(&full)), ALIKE, "words");
    assert_eq!(vectors.len(), 3);
    assert_eq!(embedder.stats().cut, 3);
}
