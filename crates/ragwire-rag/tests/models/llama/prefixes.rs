//! Tests that a common beginning of prompts is decoded once, and that the answers do not change.

use ragwire_rag::models::{ChatMessage, LanguageModel, Prompt, Role};

use crate::llama::gate::Gate;
use crate::llama::models::{load, model, options, prepared, text, whole, within};

fn about(question: &str) -> Prompt {
    let system = "You answer from the sources alone. ".repeat(6);
    let messages = vec![
        ChatMessage::new(Role::System, system),
        ChatMessage::new(Role::User, question),
    ];
    Prompt::new(messages).max_tokens(20)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_prompt_is_not_decoded_again() {
    let plain = load(options(model())).await;
    let engine = load(options(model()).prefixes(4)).await;
    let prompt = about("where is it?");
    let expected = text(&plain, prompt.clone()).await;
    let (first, cold) = whole(&engine, prompt.clone()).await.unwrap();
    let (second, warm) = whole(&engine, prompt).await.unwrap();
    assert_eq!(
        (first.as_str(), second.as_str()),
        (expected.as_str(), expected.as_str())
    );
    assert_eq!(cold.cached_tokens, Some(0));
    // All tokens except the last one, whose logits begin the answer.
    assert_eq!(warm.cached_tokens, warm.prompt_tokens.map(|tokens| tokens - 1));
    assert_eq!(
        engine.stats().cached_tokens,
        u64::from(warm.cached_tokens.unwrap())
    );
    assert_eq!(
        whole(&plain, about("where is it?"))
            .await
            .unwrap()
            .1
            .cached_tokens,
        Some(0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_common_beginning_is_shared_token_by_token() {
    let plain = load(options(model())).await;
    let engine = load(options(model()).prefixes(4)).await;
    let mut shared = Vec::new();
    for question in ["where is it?", "where was it?", "when", "where is it? here"] {
        let (answer, finished) = whole(&engine, about(question)).await.unwrap();
        assert_eq!(answer, text(&plain, about(question)).await, "{question}");
        shared.push(finished.cached_tokens.unwrap());
    }
    assert_eq!(shared[0], 0);
    // The longer the common beginning, the more tokens are shared.
    assert!(shared[2] < shared[1] && shared[1] < shared[3], "{shared:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_continues_without_decoding_it_again() {
    let engine = load(options(model()).prefixes(4)).await;
    let plain = load(options(model())).await;
    let mut messages = vec![ChatMessage::new(
        Role::User,
        "tell me of the pump, and of all its parts",
    )];
    let mut cached = Vec::new();
    for _ in 0..3 {
        let prompt = Prompt::new(messages.clone()).max_tokens(16);
        let (answer, finished) = whole(&engine, prompt.clone()).await.unwrap();
        assert_eq!(answer, text(&plain, prompt).await);
        cached.push(finished.cached_tokens.unwrap());
        messages.push(ChatMessage::new(Role::Assistant, answer));
        messages.push(ChatMessage::new(Role::User, "and then?"));
    }
    assert!(cached[0] < cached[1] && cached[1] < cached[2], "{cached:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_prompts_decode_their_beginning_once() {
    let gate = Gate::after(1);
    let engine = load(gate.watch(options(model()).prefixes(4).slots(5))).await;
    // A running generation, so that the four are admitted in one step.
    let busy = engine.generate(Prompt::user("go").max_tokens(60));
    gate.reached(1);
    let questions = ["where?", "when?", "who?", "why?"];
    let generations = questions.map(|question| engine.generate(about(question)));
    prepared(&engine).await;
    gate.open();
    let plain = load(options(model())).await;
    let mut sums = (0, 0);
    for (question, generation) in questions.iter().zip(generations) {
        let (answer, finished) = within(generation.whole()).await.unwrap();
        assert_eq!(answer, text(&plain, about(question)).await, "{question}");
        sums.0 += finished.prompt_tokens.unwrap();
        sums.1 += finished.cached_tokens.unwrap();
    }
    within(busy.whole()).await.unwrap();
    let one = within(engine.count_tokens(&about("where?"))).await.unwrap();
    assert!(
        sums.1 > 3 * (one - 40),
        "{sums:?}: three of four shared nearly all of {one}"
    );
    let stats = engine.stats();
    assert_eq!(stats.cached_tokens, u64::from(sums.1));
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_prefixes_are_evicted_for_new_prompts() {
    let plain = load(options(model())).await;
    let engine = load(
        options(model())
            .context_tokens(512)
            .cells(512)
            .prefixes(8)
            .slots(2),
    )
    .await;
    for round in 0..3 {
        for topic in ["pump", "gate", "wire", "tank"] {
            let prompt = Prompt::user(format!("the {topic} ").repeat(12)).max_tokens(60);
            let (answer, _) = whole(&engine, prompt.clone()).await.unwrap();
            assert_eq!(answer, text(&plain, prompt).await, "{topic} in round {round}");
            let stats = engine.stats();
            assert!(
                stats.cells_reserved + stats.cells_cached <= stats.cells,
                "{stats:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_kept_prefix_is_reused_in_place_if_nothing_else_fits() {
    let plain = load(options(model())).await;
    let engine = load(
        options(model())
            .context_tokens(300)
            .cells(300)
            .prefixes(2)
            .slots(1),
    )
    .await;
    let prompt = Prompt::user("the pump and the gate ".repeat(5));
    let tokens = within(engine.count_tokens(&prompt)).await.unwrap();
    let room = 300 - tokens;
    let prompt = prompt.max_tokens(room);
    let expected = text(&plain, prompt.clone()).await;
    for cached in [0, tokens - 1, tokens - 1] {
        let (answer, finished) = whole(&engine, prompt.clone()).await.unwrap();
        assert_eq!(
            (answer.as_str(), finished.cached_tokens),
            (expected.as_str(), Some(cached))
        );
    }
}
