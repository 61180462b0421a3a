//! Tests of the vectors of tokens, for late interaction.

use ragwire_rag::models::llama::{Batching, EmbedderOptions};
use ragwire_rag::models::{Embed, Side, max_sim};
use ragwire_test_support::tiny_bert::CONTEXT;

use crate::embed::cosine::{assert_like, soon, texts, tiny, wide};

const ALIKE: f64 = 0.9999;

#[tokio::test]
async fn token_vectors_equal_those_of_a_plain_computation() {
    let (embedder, bert, _made) = tiny(EmbedderOptions::default()).await;
    let texts = texts(40);
    let vectors = soon(embedder.embed_tokens(Side::Passage, texts.clone()))
        .await
        .unwrap();
    assert_eq!(vectors.len(), texts.len());
    for (text, vectors) in texts.iter().zip(&vectors) {
        let states = bert.states(&bert.text(text));
        let words = &states[1..states.len() - 1];
        assert_eq!(vectors.len(), words.len(), "{text}");
        for (vector, state) in vectors.iter().zip(words) {
            assert_like(vector, state, ALIKE, text);
        }
    }
}

#[tokio::test]
async fn both_kinds_of_vectors_come_from_one_model_in_any_order() {
    let (embedder, ..) = tiny(EmbedderOptions::default()).await;
    let texts = texts(10);
    let (whole, each) = (
        soon(embedder.embed(Side::Passage, texts.clone())).await.unwrap(),
        soon(embedder.embed_tokens(Side::Passage, texts.clone()))
            .await
            .unwrap(),
    );
    // Concurrently, so that both kinds alternate.
    let (whole_again, each_again, more) = soon(async {
        tokio::join!(
            embedder.embed(Side::Passage, texts.clone()),
            embedder.embed_tokens(Side::Passage, texts.clone()),
            embedder.embed(Side::Query, texts.clone()),
        )
    })
    .await;
    for (before, after) in whole
        .iter()
        .zip(whole_again.unwrap())
        .chain(whole.iter().zip(more.unwrap()))
    {
        assert_like(&after, &wide(before), 0.999_99, "a whole text");
    }
    for (before, after) in each.iter().flatten().zip(each_again.unwrap().iter().flatten()) {
        assert_like(after, &wide(before), 0.999_99, "a token");
    }
}

#[tokio::test]
async fn the_words_of_the_prefix_have_no_vectors() {
    let (embedder, bert, _made) = tiny(EmbedderOptions::default().query_prefix("query: ")).await;
    let vectors = soon(embedder.embed_tokens(Side::Query, vec!["pump works".to_owned()]))
        .await
        .unwrap();
    let states = bert.states(&bert.text("query: pump works"));
    // [CLS] query : pump works [SEP]
    assert_eq!(vectors[0].len(), 2);
    assert_like(&vectors[0][0], &states[3], ALIKE, "pump");
    assert_like(&vectors[0][1], &states[4], ALIKE, "works");
}

#[tokio::test]
async fn an_empty_text_has_no_vectors_and_a_long_one_as_many_as_fit() {
    let (embedder, ..) = tiny(EmbedderOptions::default()).await;
    let texts = vec![String::new(), "\0 ".to_owned(), "water ".repeat(200)];
    let vectors = soon(embedder.embed_tokens(Side::Passage, texts)).await.unwrap();
    let lengths = vectors.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths, [0, 0, CONTEXT - 2]);
    assert_eq!(max_sim(&vectors[0], &vectors[2]), 0.0);
}

#[tokio::test]
async fn more_vectors_than_a_request_may_hold_are_refused() {
    let batching = Batching::default().max_vector_bytes(100_000);
    let (embedder, ..) = tiny(EmbedderOptions::default().batching(batching)).await;
    // 62 tokens of 128 bytes each: 12 texts are within the limit, the 13th is not.
    let texts = |count| vec!["water ".repeat(62); count];
    let vectors = soon(embedder.embed_tokens(Side::Passage, texts(12)))
        .await
        .unwrap();
    assert_eq!(vectors.iter().map(Vec::len).sum::<usize>(), 12 * 62);
    let error = soon(embedder.embed_tokens(Side::Passage, texts(10_000)))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (
            "bad_prompt",
            "invalid prompt: the vectors of all texts together are larger than 100000 bytes"
        )
    );
    // The request fails at the limit, not after the last text.
    assert!(embedder.stats().texts < 200);
    assert_eq!(
        soon(embedder.embed_tokens(Side::Query, vec!["pump".to_owned()]))
            .await
            .unwrap()[0]
            .len(),
        1
    );
}
