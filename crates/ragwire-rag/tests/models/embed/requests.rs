//! Tests of many concurrent requests: their order, their limits, and what happens to those whose
//! future was dropped.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;

use ragwire_rag::models::llama::{Batching, EmbedderOptions, LlamaEmbedder};
use ragwire_rag::models::{Embed, Side};
use ragwire_test_support::tiny_bert::{Pooling, TinyBert};

use crate::embed::cosine::{TempModel, assert_like, soon, texts, tiny, wide};

/// Enough texts for seconds of computation.
const MANY: usize = 10_000;

/// Waits until the embedder has computed `texts`.
async fn computed(embedder: &LlamaEmbedder, texts: u64) {
    soon(async {
        while embedder.stats().texts < texts {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn ten_thousand_vectors_are_returned_in_order() {
    let (embedder, ..) = tiny(EmbedderOptions::default()).await;
    let some = texts(16);
    let expected = soon(embedder.embed(Side::Passage, some.clone())).await.unwrap();
    let many = some.iter().cycle().take(MANY).cloned().collect();
    let vectors = soon(embedder.embed(Side::Passage, many)).await.unwrap();
    assert_eq!(vectors.len(), MANY);
    for (index, vector) in vectors.iter().enumerate() {
        assert_like(
            vector,
            &wide(&expected[index % some.len()]),
            0.999_99,
            &format!("text {index}"),
        );
    }
}

#[tokio::test]
async fn an_empty_request_does_no_work() {
    let (embedder, ..) = tiny(EmbedderOptions::default()).await;
    assert_eq!(
        soon(embedder.embed(Side::Query, Vec::new())).await.unwrap(),
        Vec::<Vec<f32>>::new()
    );
    assert_eq!(
        soon(embedder.embed_tokens(Side::Query, Vec::new()))
            .await
            .unwrap(),
        Vec::<Vec<Vec<f32>>>::new()
    );
    assert_eq!(embedder.stats().batches, 0);
}

#[tokio::test]
async fn a_short_request_does_not_wait_for_a_long_one() {
    let (embedder, ..) = tiny(EmbedderOptions::default()).await;
    let mut library = embedder.embed(Side::Passage, texts(MANY));
    poll_fn(|context| Poll::Ready(library.as_mut().poll(context).is_pending())).await;
    computed(&embedder, 1).await;
    for _ in 0..3 {
        soon(embedder.embed(Side::Query, texts(1))).await.unwrap();
        soon(embedder.embed_tokens(Side::Query, texts(1))).await.unwrap();
    }
    assert!(
        embedder.stats().texts < MANY as u64,
        "the long request is still in progress"
    );
    drop(library);
}

#[tokio::test]
async fn dropping_a_future_cancels_batches_that_have_not_started() {
    let (embedder, ..) = tiny(EmbedderOptions::default()).await;
    let mut future = embedder.embed(Side::Passage, texts(MANY));
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    computed(&embedder, 1).await;
    drop(future);
    soon(embedder.embed(Side::Query, texts(1))).await.unwrap();
    let after = embedder.stats().texts;
    assert!(after < MANY as u64);
    soon(embedder.embed(Side::Query, texts(1))).await.unwrap();
    assert_eq!(embedder.stats().texts, after + 1);
}

#[tokio::test]
async fn requests_beyond_the_waiting_limit_are_refused() {
    let batching = Batching::default().max_waiting(1);
    let (embedder, ..) = tiny(EmbedderOptions::default().batching(batching)).await;
    let mut futures = (0..60)
        .map(|_| embedder.embed(Side::Passage, texts(2_000)))
        .collect::<Vec<_>>();
    // At most 16 requests are in progress and one waits. The others are refused at once, before a
    // batch of 2,000 texts can finish.
    let mut refused = 0;
    let mut waiting = Vec::new();
    for mut future in futures.drain(..) {
        match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
            Poll::Ready(result) => {
                assert_eq!(result.unwrap_err().code(), "model_busy");
                refused += 1;
            }
            Poll::Pending => waiting.push(future),
        }
    }
    assert!((1..=17).contains(&waiting.len()), "{} wait", waiting.len());
    assert_eq!(refused + waiting.len(), 60);
    // Once a waiting request is answered, another one may wait.
    let first = soon(waiting.remove(0)).await.unwrap();
    assert_eq!(first.len(), 2_000);
    drop(waiting);
    assert_eq!(
        soon(embedder.embed(Side::Query, texts(1))).await.unwrap().len(),
        1
    );
}

#[tokio::test]
async fn a_future_does_nothing_before_it_is_polled() {
    let (embedder, ..) = tiny(EmbedderOptions::default()).await;
    drop(embedder.embed(Side::Passage, texts(MANY)));
    soon(embedder.embed(Side::Query, texts(1))).await.unwrap();
    assert_eq!(embedder.stats().texts, 1);
}

#[tokio::test]
async fn a_model_that_computes_nan_is_an_error() {
    let made = TempModel::new(&TinyBert::new(Pooling::Mean).broken());
    let embedder = LlamaEmbedder::load(made.file(), EmbedderOptions::default())
        .await
        .unwrap();
    for _ in 0..2 {
        let error = soon(embedder.embed(Side::Query, texts(3))).await.unwrap_err();
        assert_eq!(
            (error.code(), source(&error).as_str()),
            ("model_failed", "the model computed something that is no number")
        );
        let error = soon(embedder.embed_tokens(Side::Query, texts(3)))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "model_failed");
    }
}

fn source(error: &dyn std::error::Error) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

#[tokio::test]
async fn shutting_down_fails_waiting_and_later_requests() {
    let (embedder, ..) = tiny(EmbedderOptions::default()).await;
    let big = embedder.embed(Side::Passage, texts(MANY));
    let shutdown = async {
        computed(&embedder, 1).await;
        embedder.shutdown().await;
    };
    let (big, ()) = soon(async { tokio::join!(big, shutdown) }).await;
    assert_eq!(big.unwrap_err().code(), "model_closed");
    let late = soon(embedder.embed(Side::Query, texts(1))).await;
    assert_eq!(late.unwrap_err().code(), "model_closed");
    soon(embedder.shutdown()).await;
}

/// The file stays mapped until the model is freed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_the_embedder_frees_the_model() {
    let (embedder, _, made) = tiny(EmbedderOptions::default()).await;
    soon(embedder.embed(Side::Query, texts(1))).await.unwrap();
    assert!(is_mapped(&made.path()));
    // In the middle of work that takes seconds.
    {
        let mut future = pin!(embedder.embed(Side::Passage, texts(MANY)));
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await;
        computed(&embedder, 2).await;
    }
    drop(embedder);
    // A model whose loading was abandoned is freed as well.
    let mut load = Box::pin(LlamaEmbedder::load(made.file(), EmbedderOptions::default()));
    poll_fn(|context| Poll::Ready(load.as_mut().poll(context).is_pending())).await;
    drop(load);
    soon(async {
        while is_mapped(&made.path()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[cfg(target_os = "linux")]
fn is_mapped(path: &Path) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.contains(path.to_str().unwrap())
}
