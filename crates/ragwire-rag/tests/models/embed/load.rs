//! Tests of models that cannot be loaded: each error has a code and a message.

use std::fs;

use ragwire_rag::models::llama::{
    Batching, EmbedderOptions, LlamaEmbedder, LlamaFile, LlamaRanker, LoadError, RankerOptions,
};
use ragwire_test_support::gguf::{Gguf, Value};
use ragwire_test_support::tiny_bert::{Pooling, TinyBert};

use crate::embed::cosine::TempModel;

async fn refused(made: &TempModel, options: EmbedderOptions) -> LoadError {
    LlamaEmbedder::load(made.file(), options).await.unwrap_err()
}

#[tokio::test]
async fn a_missing_file_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = || LlamaFile::new(folder.path().join("none.gguf"));
    assert_eq!(
        LlamaEmbedder::load(file(), EmbedderOptions::default())
            .await
            .unwrap_err()
            .code(),
        "model_missing"
    );
    assert_eq!(
        LlamaRanker::load(file(), RankerOptions::default())
            .await
            .unwrap_err()
            .code(),
        "model_missing"
    );
}

#[tokio::test]
async fn a_file_of_another_format_or_a_truncated_one_is_rejected() {
    let made = TempModel::new(&TinyBert::new(Pooling::Mean));
    let whole = fs::read(made.path()).unwrap();
    fs::write(made.path(), b"once upon a time").unwrap();
    assert_eq!(
        refused(&made, EmbedderOptions::default()).await.code(),
        "model_not_gguf"
    );
    fs::write(made.path(), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(
        refused(&made, EmbedderOptions::default()).await.code(),
        "model_refused"
    );
    fs::write(made.path(), &whole[..100]).unwrap();
    assert_eq!(
        refused(&made, EmbedderOptions::default()).await.code(),
        "model_damaged"
    );
}

#[tokio::test]
async fn a_model_without_pooling_is_rejected() {
    let made = TempModel::new(&TinyBert::new(Pooling::Unspecified));
    let error = refused(&made, EmbedderOptions::default()).await;
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("model_no_pooling", "the model does not pool its vectors")
    );
    let options = EmbedderOptions::default().pooling(ragwire_rag::models::llama::Pooling::Mean);
    LlamaEmbedder::load(made.file(), options).await.unwrap();
}

#[tokio::test]
async fn a_reranker_is_not_an_embedder() {
    let made = TempModel::new(&TinyBert::ranker());
    assert_eq!(
        refused(&made, EmbedderOptions::default()).await.code(),
        "model_wrong_kind"
    );
}

#[tokio::test]
async fn an_encoder_decoder_model_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t5.gguf");
    let mut gguf = Gguf::default();
    gguf.meta("general.architecture", Value::Text("t5".to_owned()));
    gguf.meta("tokenizer.ggml.model", Value::Text("t5".to_owned()));
    gguf.write(&path).unwrap();
    let error = LlamaEmbedder::load(LlamaFile::new(path), EmbedderOptions::default())
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("model_wrong_kind", "architecture t5 does not support embedding")
    );
}

#[tokio::test]
async fn impossible_limits_are_rejected() {
    let made = TempModel::new(&TinyBert::new(Pooling::Mean));
    for (batching, words) in [
        (Batching::default().max_texts(0), "a batch has 1 to 256 texts"),
        (Batching::default().max_texts(257), "a batch has 1 to 256 texts"),
        (
            Batching::default().max_text_tokens(4),
            "a text needs at least 5 tokens",
        ),
        (
            Batching::default().max_tokens(65_537),
            "a batch has at most 65536 tokens",
        ),
    ] {
        let error = refused(&made, EmbedderOptions::default().batching(batching)).await;
        assert_eq!(error.code(), "model_options");
        assert_eq!(error.to_string(), format!("the options cannot be used: {words}"));
    }
    let memory = made.file().memory_limit(200_000);
    let error = LlamaEmbedder::load(memory, EmbedderOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "model_too_big");
}
