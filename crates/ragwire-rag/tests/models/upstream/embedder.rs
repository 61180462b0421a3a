//! Tests of vectors: the requests, the order of the results, and invalid results.

use ragwire_rag::models::upstream::{EmbeddingOptions, UpstreamEmbedder};
use ragwire_rag::models::{Embed, Side};
use serde_json::{Value, json};

use crate::upstream::double::{Double, Reply};
use crate::upstream::{once, outcome, within};

fn vectors(vectors: &Value) -> Reply {
    let data: Vec<Value> = vectors
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| json!({"object": "embedding", "index": pair[0], "embedding": pair[1]}))
        .collect();
    Reply::json(
        200,
        &json!({"object": "list", "data": data, "usage": {"prompt_tokens": 1}}),
    )
}

fn probe() -> Reply {
    vectors(&json!([[0, [1, 2]]]))
}

async fn connect(double: &Double, options: EmbeddingOptions) -> UpstreamEmbedder {
    UpstreamEmbedder::connect(once(&double.base), options)
        .await
        .unwrap()
}

#[tokio::test]
async fn texts_are_sent_in_batches_and_vectors_keep_their_order() {
    within(async {
        let double = Double::new([
            probe(),
            vectors(&json!([[1, [0, 2]], [0, [3, 4]]])),
            vectors(&json!([[0, [0, 0]]])),
        ])
        .await;
        let mut options = EmbeddingOptions::default();
        options.batch = 2;
        options.max_text_bytes = 9;
        (options.query_prefix, options.passage_prefix) = ("q: ".into(), "p: ".into());
        let embedder = connect(&double, options).await;
        assert_eq!((embedder.name(), embedder.dimensions()), ("m", 2));
        let texts = vec![
            "one".into(),
            "two and a half".into(),
            "\u{e9}\u{e9}\u{e9}\u{e9}".into(),
        ];
        let found = embedder.embed(Side::Passage, texts).await.unwrap();
        assert_eq!(found, [[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]]);
        assert_eq!(
            embedder.embed(Side::Query, Vec::new()).await.unwrap(),
            Vec::<Vec<f32>>::new()
        );
        let recorded: Vec<_> = double
            .recorded()
            .into_iter()
            .map(|recorded| (recorded.line, recorded.body))
            .collect();
        let request = |input: Value| {
            (
                "POST /v1/embeddings".to_owned(),
                json!({"model": "m", "input": input, "encoding_format": "float"}),
            )
        };
        assert_eq!(
            recorded,
            [
                request(json!(["dimensions"])),
                request(json!(["p: one", "p: two an"])),
                request(json!(["p: \u{e9}\u{e9}\u{e9}"]))
            ]
        );
        let tokens = embedder.embed_tokens(Side::Query, vec!["a".into()]).await;
        assert_eq!(tokens.unwrap_err().code(), "model_unsupported");
    })
    .await;
}

#[tokio::test]
async fn invalid_vectors_are_rejected() {
    within(async {
        for (name, reply, code) in [
            (
                "fewer",
                vectors(&json!([[0, [1, 2]]])),
                "model_failed upstream_unreadable",
            ),
            (
                "more",
                vectors(&json!([[0, [1, 2]], [1, [1, 2]], [2, [1, 2]]])),
                "model_failed upstream_unreadable",
            ),
            (
                "twice the same",
                vectors(&json!([[0, [1, 2]], [0, [1, 2]]])),
                "model_failed upstream_unreadable",
            ),
            (
                "shorter",
                vectors(&json!([[0, [1, 2]], [1, [1]]])),
                "model_failed upstream_unreadable",
            ),
            (
                "longer than the first",
                vectors(&json!([[0, [1, 2, 3]], [1, [1, 2, 3]]])),
                "model_failed upstream_unreadable",
            ),
            (
                "empty",
                vectors(&json!([[0, []], [1, [1, 2]]])),
                "model_failed upstream_unreadable",
            ),
            (
                "too large a number",
                vectors(&json!([[0, [1e300, 2]], [1, [1, 2]]])),
                "model_failed upstream_unreadable",
            ),
            (
                "no number",
                vectors(&json!([[0, [null, 2]], [1, [1, 2]]])),
                "model_failed upstream_unreadable",
            ),
            (
                "base64",
                vectors(&json!([[0, "AAAA"], [1, "AAAA"]])),
                "model_failed upstream_unreadable",
            ),
            (
                "no list",
                Reply::json(200, &json!({})),
                "model_failed upstream_unreadable",
            ),
            (
                "refused",
                Reply::json(401, &json!({})),
                "model_rejected upstream_refused",
            ),
            ("busy", Reply::json(429, &json!({})), "model_busy"),
        ] {
            let double = Double::new([probe(), reply]).await;
            let embedder = connect(&double, EmbeddingOptions::default()).await;
            let error = embedder
                .embed(Side::Query, vec!["a".into(), "b".into()])
                .await
                .unwrap_err();
            assert_eq!(outcome(&Err(error)), code, "{name}");
        }
        for (name, reply, code) in [
            ("none", vectors(&json!([])), "upstream_unreadable"),
            ("no route", Reply::json(404, &json!({})), "upstream_refused"),
        ] {
            let double = Double::new([reply]).await;
            let error = UpstreamEmbedder::connect(once(&double.base), EmbeddingOptions::default())
                .await
                .unwrap_err();
            assert_eq!(error.code(), code, "{name}");
        }
        for (batch, bytes) in [(0, 8_000), (1, 3)] {
            let mut options = EmbeddingOptions::default();
            (options.batch, options.max_text_bytes) = (batch, bytes);
            let error = UpstreamEmbedder::connect(once("http://127.0.0.1:1"), options)
                .await
                .unwrap_err();
            assert_eq!(error.code(), "upstream_setting");
        }
    })
    .await;
}

#[tokio::test]
async fn an_incomplete_response_is_retried() {
    within(async {
        let mut retry = ragwire_rag::models::upstream::Retry::default();
        retry.pause = std::time::Duration::from_millis(1);
        let cut = Reply::new(200, "application/json", "{\"data\":[").then(crate::upstream::double::Then::Cut);
        let double = Double::new([cut, Reply::json(503, &json!({})), probe()]).await;
        let options = once(&double.base).retry(retry);
        let embedder = UpstreamEmbedder::connect(options, EmbeddingOptions::default())
            .await
            .unwrap();
        assert_eq!((embedder.dimensions(), double.recorded().len()), (2, 3));
    })
    .await;
}
