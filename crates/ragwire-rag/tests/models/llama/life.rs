//! Tests of the end of an engine: on `stop`, when its last handle is dropped, and when it panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ragwire_rag::models::llama::{LlamaEngine, LlamaOptions};
use ragwire_rag::models::{LanguageModel, ModelError, Prompt};

use crate::llama::gate::Gate;
use crate::llama::models::{code, load, model, options, pieces, text, whole, within};

/// Returns options for an engine whose end can be observed: it then drops the observer.
fn observed() -> (LlamaOptions, std::sync::Weak<()>) {
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    let options = options(model()).observer(move |_| {
        let _ = &alive;
    });
    (options, weak)
}

async fn ends(alive: &std::sync::Weak<()>) {
    within(async {
        while alive.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_handle_ends_the_engine() {
    let (options, alive) = observed();
    let engine = load(options).await;
    let other = engine.clone();
    drop(engine);
    assert_eq!(
        whole(&other, Prompt::user("?").max_tokens(3))
            .await
            .unwrap()
            .1
            .answer_tokens,
        Some(3)
    );
    drop(other);
    ends(&alive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_and_waiting_answers_complete_after_the_last_handle() {
    let (options, alive) = observed();
    let engine = load(options.slots(1)).await;
    let prompt = |content: &str| Prompt::user(content).max_tokens(100);
    let expected = (
        text(&engine, prompt("one")).await,
        text(&engine, prompt("two")).await,
    );
    let (one, two) = (engine.generate(prompt("one")), engine.generate(prompt("two")));
    drop(engine);
    let (one, two) = tokio::join!(pieces(one), pieces(two));
    assert_eq!((one.0.concat(), two.0.concat()), expected);
    ends(&alive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_handles_and_readers_ends_at_once() {
    let (options, alive) = observed();
    let engine = load(options).await;
    let unread = engine.generate(Prompt::user("?").max_tokens(900));
    drop(engine);
    drop(unread);
    ends(&alive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_everything_with_an_error() {
    let gate = Gate::after(3);
    let engine = load(gate.watch(options(model()).slots(1))).await;
    let running = engine.generate(Prompt::user("running").max_tokens(900));
    gate.reached(3);
    let waiting = engine.generate(Prompt::user("waiting").max_tokens(5));
    engine.stop();
    gate.open();
    for generation in [running, waiting] {
        let error = within(generation.whole()).await.unwrap_err();
        assert!(matches!(error, ModelError::Closed), "{error}");
    }
    assert_eq!(
        code(&engine, Prompt::user("late").max_tokens(5)).await,
        "model_closed"
    );
    let count = within(engine.count_tokens(&Prompt::user("late")))
        .await
        .unwrap_err();
    assert_eq!(count.code(), "model_closed");
    within(engine.shutdown()).await;
    // A second shutdown has no further effect.
    within(engine.shutdown()).await;
    let stats = engine.stats();
    assert_eq!((stats.running, stats.waiting, stats.failed), (0, 0, 1));
    assert!(gate.steps().len() <= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_engine_stops() {
    let engine = load(options(model())).await;
    within(engine.shutdown()).await;
    assert_eq!(
        code(&engine, Prompt::user("late").max_tokens(5)).await,
        "model_closed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_every_generation() {
    let steps = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&steps);
    let options = options(model()).slots(1).observer(move |_| {
        let step = counted.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(step < 3, "an observer of a test");
    });
    let engine = load(options).await;
    let running = engine.generate(Prompt::user("running").max_tokens(900));
    let waiting = engine.generate(Prompt::user("waiting").max_tokens(5));
    for generation in [running, waiting] {
        let error = within(generation.whole()).await.unwrap_err();
        assert!(
            ["model_failed", "model_closed"].contains(&error.code()),
            "{error}"
        );
    }
    assert_eq!(
        code(&engine, Prompt::user("late").max_tokens(5)).await,
        "model_closed"
    );
    within(engine.shutdown()).await;
    assert_eq!(steps.load(Ordering::SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_loading_is_abandoned_ends() {
    let (options, alive) = observed();
    let mut loading = Box::pin(LlamaEngine::load(options));
    // Starts to load and is abandoned.
    let _ = tokio::time::timeout(Duration::from_millis(1), &mut loading).await;
    drop(loading);
    ends(&alive).await;
}

#[test]
fn an_engine_can_be_loaded_without_a_runtime() {
    let engine = LlamaEngine::load_blocking(options(model())).unwrap();
    assert_eq!(engine.context_tokens(), 2_048);
    // The last handle may be dropped on any thread.
    drop(engine);
}
