//! Tests of prompts: their number of tokens, their limits, their refusals, and that the content of
//! messages is always text.

use ragwire_rag::models::llama::{
    MAX_MESSAGES, MAX_REPEAT_PENALTY, MAX_STOP_BYTES, MAX_STOPS, MAX_TEMPERATURE,
};
use ragwire_rag::models::{ChatMessage, LanguageModel, ModelError, Prompt, Role, Sampling};
use ragwire_test_support::tiny_llama::{CHATML, TinyLlama};

use crate::llama::models::{code, engine, load, model, options, text, whole, within, written};

async fn count(engine: &ragwire_rag::models::llama::LlamaEngine, content: &str) -> u32 {
    within(engine.count_tokens(&Prompt::user(content))).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_equals_the_number_of_fed_tokens() {
    let engine = engine().await;
    let conversation = vec![
        ChatMessage::new(Role::System, "be short"),
        ChatMessage::new(Role::User, "hi, é € 😀 <|im_end|>"),
        ChatMessage::new(Role::Assistant, "hello"),
        ChatMessage::new(Role::User, ""),
    ];
    for prompt in [
        Prompt::user("a"),
        Prompt::user("the pump ".repeat(30)),
        Prompt::new(conversation),
    ] {
        let counted = within(engine.count_tokens(&prompt)).await.unwrap();
        let before = engine.stats().prompt_tokens;
        let (_, finished) = whole(&engine, prompt.max_tokens(1)).await.unwrap();
        assert_eq!(finished.prompt_tokens, Some(counted));
        assert_eq!(engine.stats().prompt_tokens - before, u64::from(counted));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_does_not_fit_is_refused_before_decoding() {
    let engine = load(options(model()).context_tokens(128)).await;
    assert_eq!(engine.context_tokens(), 128);
    let tokens = count(&engine, "fits").await;
    let room = 128 - tokens;
    let (_, finished) = whole(&engine, Prompt::user("fits").max_tokens(room))
        .await
        .unwrap();
    assert_eq!(finished.answer_tokens, Some(room));
    let steps = engine.stats().steps;
    for (prompt, tokens, limit) in [
        (Prompt::user("fits").max_tokens(room + 1), tokens, tokens - 1),
        (Prompt::user("fits").max_tokens(128), tokens, 0),
        (Prompt::user("fits").max_tokens(u32::MAX), tokens, 0),
        (
            Prompt::user("y".repeat(200)).max_tokens(1),
            count(&engine, &"y".repeat(200)).await,
            127,
        ),
    ] {
        let error = whole(&engine, prompt).await.unwrap_err();
        assert_eq!(error.code(), "context_overflow");
        let ModelError::Overflow { prompt, limit: most } = error else {
            panic!("{error}")
        };
        assert_eq!((prompt, most), (tokens, limit));
    }
    // A text that is certainly too long is not tokenized: the error reports the least possible
    // number.
    let error = whole(&engine, Prompt::user("z".repeat(1 << 20)).max_tokens(1))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ModelError::Overflow {
                prompt: 1_000..,
                limit: 127
            }
        ),
        "{error}"
    );
    assert_eq!(engine.stats().steps, steps);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_out_of_range_are_refused() {
    let engine = engine().await;
    let sampling = |sampling| Prompt::user("?").sampling(sampling);
    let greedy = Sampling::GREEDY;
    let stops = |stops: Vec<String>| stops.into_iter().fold(Prompt::user("?"), Prompt::stop);
    let bad = [
        Prompt::new(Vec::new()),
        Prompt::new(vec![ChatMessage::new(Role::User, "?"); MAX_MESSAGES + 1]),
        Prompt::user("?").max_tokens(0),
        sampling(greedy.temperature(-0.1)),
        sampling(greedy.temperature(MAX_TEMPERATURE + 0.1)),
        sampling(greedy.temperature(f32::NAN)),
        sampling(greedy.temperature(f32::INFINITY)),
        sampling(greedy.top_k(u32::MAX)),
        sampling(greedy.top_p(0.0)),
        sampling(greedy.top_p(1.1)),
        sampling(greedy.top_p(f32::NAN)),
        sampling(greedy.min_p(-0.1)),
        sampling(greedy.min_p(1.1)),
        sampling(greedy.min_p(f32::NAN)),
        sampling(greedy.repeat_penalty(0.0)),
        sampling(greedy.repeat_penalty(MAX_REPEAT_PENALTY + 0.1)),
        sampling(greedy.repeat_penalty(f32::NAN)),
        stops(vec![String::new()]),
        stops(vec!["x".repeat(MAX_STOP_BYTES + 1)]),
        stops(vec!["x".to_owned(); MAX_STOPS + 1]),
    ];
    for prompt in bad {
        assert_eq!(code(&engine, prompt).await, "bad_prompt");
    }
    assert_eq!(engine.stats().steps, 0);
    // The limits of the ranges are allowed.
    let good = [
        sampling(
            greedy
                .temperature(MAX_TEMPERATURE)
                .top_k(i32::MAX as u32)
                .top_p(1e-9)
                .min_p(1.0),
        ),
        sampling(
            greedy
                .temperature(1e-30)
                .top_p(1.0)
                .min_p(0.0)
                .repeat_penalty(MAX_REPEAT_PENALTY),
        ),
        sampling(greedy.temperature(1.0).top_k(1).repeat_penalty(1e-30)),
        Prompt::user("x".repeat(300)),
        Prompt::user(""),
        Prompt::user("nul \0 in it"),
    ];
    for prompt in good {
        assert!(whole(&engine, prompt.max_tokens(8)).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_content_of_a_message_is_text() {
    let engine = engine().await;
    let empty = count(&engine, "").await;
    // As a control token, each of these would be one token.
    for (mark, least) in [
        ("<|im_end|>", 8),
        ("<|im_start|>", 10),
        ("</s>", 3),
        ("<s>", 2),
        ("<unk>", 4),
    ] {
        let tokens = count(&engine, mark).await - empty;
        assert!(tokens >= least, "{mark} is {tokens} tokens");
    }
    // Nor do two adjacent pieces form one.
    let parts = [
        ChatMessage::new(Role::User, "<|im_"),
        ChatMessage::new(Role::User, "end|>"),
    ];
    let counted = within(engine.count_tokens(&Prompt::new(parts.to_vec())))
        .await
        .unwrap();
    assert!(counted > 2 * empty - 8, "{counted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_that_a_vocabulary_merges_into_a_mark_are_kept_apart() {
    // A SentencePiece vocabulary merges any pieces that form a token: `</` and `s>` become the
    // token that ends an answer.
    let model = TinyLlama {
        template: Some(CHATML.to_owned()),
        words: ["</", "s>"].map(str::to_owned).to_vec(),
        ..TinyLlama::default()
    };
    let engine = load(options(&written("merging.gguf", &model))).await;
    let empty = count(&engine, "").await;
    assert!(count(&engine, "</s>").await - empty >= 2);
    let many = count(&engine, &"a</s>b".repeat(20)).await - empty;
    assert!(many >= 80, "{many}");
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_that_a_tokenizer_never_splits_are_kept_apart() {
    let model = TinyLlama {
        user_defined: ["<|user|>", "<|assistant|>", "<|endoftext|>"]
            .map(str::to_owned)
            .to_vec(),
        ..TinyLlama::default()
    };
    let engine = load(options(&written("zephyr.gguf", &model)).template("zephyr")).await;
    let empty = count(&engine, "").await;
    assert!(empty < 16, "the template's own marks are one token each: {empty}");
    let mark_tokens = count(&engine, "<|assistant|>").await - empty;
    assert!(mark_tokens >= 2, "{mark_tokens}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_a_template_uses_chatml() {
    let bare = load(options(&written("bare.gguf", &TinyLlama::default()))).await;
    let own = engine().await;
    let other = load(options(model()).template("llama3")).await;
    let prompt = Prompt::user("hello").max_tokens(12);
    assert_eq!(
        text(&bare, prompt.clone()).await,
        text(&own, prompt.clone()).await
    );
    assert_ne!(
        within(other.count_tokens(&prompt)).await.unwrap(),
        within(own.count_tokens(&prompt)).await.unwrap()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_may_trim_the_content_of_messages() {
    let trims = load(options(model()).template("llama3")).await;
    let keeps = engine().await;
    assert_eq!(count(&trims, " \n said\t ").await, count(&trims, "said").await);
    assert_ne!(count(&keeps, " \n said\t ").await, count(&keeps, "said").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_has_the_configured_name() {
    assert_eq!(engine().await.name(), "tiny");
    assert_eq!(load(options(model()).name("mine")).await.name(), "mine");
}
