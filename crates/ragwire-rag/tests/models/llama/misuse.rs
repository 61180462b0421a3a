//! Tests that nothing the public API accepts makes llama.cpp abort the process.

use ragwire_rag::models::llama::MAX_SLOTS;
use ragwire_rag::models::{LanguageModel, Prompt, Sampling};
use ragwire_test_support::seed::Seed;
use ragwire_test_support::tiny_llama::{CHATML, TinyLlama};

use crate::llama::models::{
    code, drawn, engine, load, model, options, pattern, quoted, says, text, whole, within, written,
};

/// A batch of more tokens than the context was created for.
#[tokio::test(flavor = "multi_thread")]
async fn batches_never_outgrow_the_context() {
    let expected = text(
        &load(options(model())).await,
        Prompt::user("long ".repeat(150)).max_tokens(6),
    )
    .await;
    for (slots, step, slice) in [(1, 2, 1), (3, 4, 8_192), (4, 5, 3), (8, 9, 64), (2, 8_192, 8_192)] {
        let engine = load(
            options(model())
                .slots(slots)
                .step_tokens(step)
                .slice_tokens(slice)
                .prefixes(2),
        )
        .await;
        let asked = (0..6)
            .map(|_| engine.generate(Prompt::user("long ".repeat(150)).max_tokens(6)))
            .collect::<Vec<_>>();
        for generation in asked {
            let (answer, finished) = within(generation.whole()).await.unwrap();
            assert_eq!(finished.answer_tokens, Some(6), "{slots} {step} {slice}");
            assert_eq!(answer, expected, "{slots} {step} {slice}");
        }
    }
}

/// A context smaller than a batch, which makes llama.cpp's batches smaller than requested.
#[tokio::test(flavor = "multi_thread")]
async fn a_context_may_be_smaller_than_a_batch() {
    let engine = load(options(model()).context_tokens(64).cells(64).slots(4)).await;
    let tokens = within(engine.count_tokens(&Prompt::user("a"))).await.unwrap();
    let asked = (0..8)
        .map(|_| engine.generate(Prompt::user("a").max_tokens(64 - tokens)))
        .collect::<Vec<_>>();
    for generation in asked {
        let (_, finished) = within(generation.whole()).await.unwrap();
        assert_eq!(finished.answer_tokens, Some(64 - tokens));
    }
}

/// Logits that were not requested: the prompt ends at every position of a slice and of a batch.
#[tokio::test(flavor = "multi_thread")]
async fn prompts_of_every_length_have_the_logits_of_their_end() {
    let plain = load(options(model())).await;
    let engine = load(options(model()).slots(2).step_tokens(7).slice_tokens(5)).await;
    for length in 0..24 {
        let prompt = Prompt::user("x".repeat(length)).max_tokens(2);
        let other = engine.generate(Prompt::user("y".repeat(24 - length)).max_tokens(3));
        assert_eq!(
            text(&engine, prompt.clone()).await,
            text(&plain, prompt).await,
            "{length}"
        );
        within(other.whole()).await.unwrap();
    }
}

/// Positions that are not consecutive: prefixes shared at every length, some of them cut.
#[tokio::test(flavor = "multi_thread")]
async fn positions_are_consecutive_however_much_is_shared() {
    let plain = load(options(model())).await;
    let engine = load(
        options(model())
            .context_tokens(256)
            .cells(512)
            .slots(3)
            .prefixes(3)
            .slice_tokens(7),
    )
    .await;
    let mut seed = Seed::new(5);
    let mut asked = Vec::new();
    for _ in 0..40 {
        let letters = (0..seed.below(60))
            .map(|_| if seed.below(12) == 0 { 'b' } else { 'a' })
            .collect::<String>();
        let prompt = Prompt::user(letters).max_tokens(1 + seed.below(8) as u32);
        let generation = engine.generate(prompt.clone());
        // Some generations are dropped in the middle.
        if seed.below(4) > 0 {
            asked.push((prompt, generation));
        }
        if asked.len() == 5 {
            for (prompt, generation) in asked.drain(..) {
                assert_eq!(
                    within(generation.whole()).await.unwrap().0,
                    text(&plain, prompt).await
                );
            }
        }
    }
    assert!(engine.stats().cached_tokens > 0);
}

/// More sequences than the context has: every limit at its maximum.
#[tokio::test(flavor = "multi_thread")]
async fn the_maximum_number_of_generations_runs() {
    let engine = load(
        options(model())
            .context_tokens(128)
            .slots(MAX_SLOTS)
            .prefixes(64)
            .waiting(200),
    )
    .await;
    let asked = (0..200)
        .map(|index| engine.generate(Prompt::user(format!("number {index}")).max_tokens(8)))
        .collect::<Vec<_>>();
    for generation in asked {
        assert_eq!(within(generation.whole()).await.unwrap().1.answer_tokens, Some(8));
    }
    assert_eq!(engine.stats().finished, 200);
}

/// Logits that are NaN, which llama.cpp's sorting and sampling do not survive.
#[tokio::test(flavor = "multi_thread")]
async fn nan_logits_fail_the_answer() {
    let model = TinyLlama {
        template: Some(CHATML.to_owned()),
        loudness: f32::NAN,
        ..TinyLlama::default()
    };
    let engine = load(options(&written("nan.gguf", &model))).await;
    for sampling in [Sampling::GREEDY, drawn(1)] {
        assert_eq!(
            code(&engine, Prompt::user("?").sampling(sampling)).await,
            "model_failed"
        );
    }
    assert_eq!(code(&engine, says("yes")).await, "model_failed");
}

/// Logits that are all equal, and temperatures that make them so or make them infinite.
#[tokio::test(flavor = "multi_thread")]
async fn logits_at_the_ends_of_their_range_are_sampled() {
    for (name, loudness) in [("even.gguf", 0.0), ("loud.gguf", 1e30), ("quiet.gguf", 1e-30)] {
        let model = TinyLlama {
            template: Some(CHATML.to_owned()),
            loudness,
            ..TinyLlama::default()
        };
        let engine = load(options(&written(name, &model))).await;
        for temperature in [0.0, 1e-38, 1.0, 10.0] {
            let sampling = drawn(3).temperature(temperature);
            let outcome = whole(&engine, Prompt::user("?").max_tokens(8).sampling(sampling)).await;
            // An answer or an error: either way the process survives.
            assert!(outcome.is_ok() || outcome.is_err_and(|error| error.code() == "model_failed"));
        }
        assert_eq!(quoted(&engine, says("yes")).await, "\"yes\"");
    }
}

/// Shapes about whose end or letters llama.cpp and the model may disagree.
#[tokio::test(flavor = "multi_thread")]
async fn shapes_at_their_limits_are_followed_or_refused() {
    let engine = engine().await;
    for shape in [
        "^$",
        "^a?$",
        "^(a?)*$",
        "^(a|)*b?$",
        "^(a*)*$",
        "^(a*b*)+$",
        "^[^a]{0,5}$",
        "^.{0,20}$",
        "^a{0}$",
        "^a{2000}$",
        "^((a?){40}){40}$",
        "^[\\x80-\\xff]{3}$",
        "^[\\uD800-\\uDFFF]$",
        "^[b-a]$",
        "^\u{10ffff}$",
    ] {
        for sampling in [Sampling::GREEDY, drawn(9)] {
            let prompt = pattern(shape).sampling(sampling).max_tokens(12);
            if let Err(error) = whole(&engine, prompt).await {
                assert!(
                    ["bad_shape", "model_failed"].contains(&error.code()),
                    "{shape}: {error}"
                );
            }
        }
    }
    assert_eq!(
        quoted(&engine, says("still here").max_tokens(60)).await,
        "\"still here\""
    );
}

/// Concurrent requests of every kind in random order, some of which are dropped.
#[tokio::test(flavor = "multi_thread")]
async fn mixed_requests_run_concurrently() {
    let options = options(model())
        .context_tokens(200)
        .cells(400)
        .slots(5)
        .prefixes(3)
        .waiting(40)
        .step_tokens(24)
        .slice_tokens(9);
    let engine = load(options).await;
    let mut seed = Seed::new(11);
    let mut readers = tokio::task::JoinSet::new();
    for number in 0..120_u32 {
        let prompt =
            Prompt::user("word ".repeat(seed.below(20) as usize)).max_tokens(1 + seed.below(60) as u32);
        let prompt = match seed.below(6) {
            0 => prompt.shape(pattern("^[a-z]+[.]$").shape),
            1 => prompt.shape(pattern("^(a*)*$").shape),
            2 => prompt.sampling(drawn(number)),
            3 => prompt.stop("e"),
            4 => Prompt::user("x".repeat(500)),
            _ => prompt,
        };
        let read = seed.below(30);
        let mut generation = engine.generate(prompt);
        readers.spawn(async move {
            for _ in 0..read {
                match generation.next().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        assert!(
                            ["model_busy", "bad_shape", "context_overflow"].contains(&error.code()),
                            "{error}"
                        );
                        return;
                    }
                    None => return,
                }
            }
        });
        if number % 10 == 0 {
            tokio::task::yield_now().await;
        }
    }
    within(async { while readers.join_next().await.transpose().unwrap().is_some() {} }).await;
    within(async {
        while engine.stats().running + engine.stats().waiting > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    let stats = engine.stats();
    assert_eq!((stats.cells_reserved, stats.failed), (0, 0));
    assert_eq!(
        quoted(&engine, says("still here").max_tokens(60)).await,
        "\"still here\""
    );
}
