//! Tests of concurrent generations: the answers are the same as alone, and none waits for the
//! reader, the prompt or the end of another.

use ragwire_rag::models::{FinishReason, LanguageModel, Prompt, Sampling};

use crate::llama::gate::Gate;
use crate::llama::models::{drawn, engine, load, model, options, pieces, prepared, text, whole, within};

fn prompts(sampling: impl Fn(u32) -> Sampling) -> Vec<Prompt> {
    (0..8)
        .map(|index| {
            let content = format!(
                "question {index} {}",
                "about the pump ".repeat(index as usize * 3)
            );
            Prompt::user(content)
                .max_tokens(24 + index)
                .sampling(sampling(index))
        })
        .collect()
}

async fn assert_same_as_one_by_one(prompts: Vec<Prompt>) {
    let alone = load(options(model()).slots(1)).await;
    let mut expected = Vec::new();
    for prompt in prompts.clone() {
        expected.push(whole(&alone, prompt).await.unwrap());
    }

    let gate = Gate::after(1);
    let engine = load(gate.watch(options(model()).slots(8))).await;
    // The first reader holds the gate until all generations have arrived.
    let mut generations = vec![engine.generate(prompts[0].clone())];
    gate.reached(1);
    generations.extend(prompts[1..].iter().map(|prompt| engine.generate(prompt.clone())));
    prepared(&engine).await;
    gate.open();
    let mut busiest = 0;
    for (index, (generation, (text, alone))) in generations.into_iter().zip(&expected).enumerate() {
        let (together, finished) = within(generation.whole()).await.unwrap();
        assert_eq!(together, *text, "generation {index}");
        assert_eq!(finished.reason, alone.reason);
        assert_eq!(finished.prompt_tokens, alone.prompt_tokens);
        assert_eq!(finished.answer_tokens, alone.answer_tokens);
        assert_eq!((alone.slots, alone.slots_busy), (Some(1), Some(1)));
        assert_eq!(finished.slots, Some(8));
        busiest = busiest.max(finished.slots_busy.unwrap());
        assert!(finished.tokens_per_second() > Some(0.0));
    }
    assert!((4..=8).contains(&busiest), "{busiest}");
    assert_eq!(engine.stats().slots, 8);
    let most = gate.steps().iter().map(|step| step.answer_tokens).max().unwrap();
    assert!(most >= 4, "at most {most} of them ran concurrently");
    assert_eq!(engine.stats().finished, 8);
    // Different questions and seeds have different answers, so the comparison above is meaningful.
    let texts = expected
        .iter()
        .map(|(text, _)| text)
        .collect::<std::collections::BTreeSet<_>>();
    assert!(texts.len() > 4, "{texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_concurrent_answers_equal_single_ones() {
    assert_same_as_one_by_one(prompts(|_| Sampling::GREEDY)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_concurrent_samples_equal_single_ones() {
    assert_same_as_one_by_one(prompts(drawn)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_generation_ends_by_the_next_step() {
    let gate = Gate::after(1);
    let engine = load(gate.watch(options(model()))).await;
    let dropped = engine.generate(Prompt::user("one").max_tokens(40));
    gate.reached(1);
    let remaining = engine.generate(Prompt::user("two").max_tokens(40));
    prepared(&engine).await;
    gate.hold(5);
    gate.reached(5);
    assert_eq!(gate.steps()[4].running, 2);
    drop(dropped);
    gate.open();
    let (_, finished) = within(remaining.whole()).await.unwrap();
    assert_eq!(
        (finished.reason, finished.answer_tokens),
        (FinishReason::Length, Some(40))
    );
    assert_eq!(finished.slots_busy, Some(2));
    let steps = gate.steps();
    assert_eq!((steps[5].running, steps[5].answer_tokens), (1, 1));
    let stats = engine.stats();
    assert_eq!(
        (
            stats.finished,
            stats.cancelled,
            stats.running,
            stats.cells_reserved
        ),
        (1, 1, 0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_dropped_during_its_prompt_ends_by_the_next_step() {
    let gate = Gate::after(3);
    let engine = load(gate.watch(options(model()).slice_tokens(8))).await;
    let remaining = engine.generate(Prompt::user("one").max_tokens(60));
    gate.reached(3);
    let dropped = engine.generate(Prompt::user("x ".repeat(200)).max_tokens(40));
    prepared(&engine).await;
    gate.hold(6);
    gate.reached(6);
    let fed = gate.steps();
    assert!(fed[5].prompt_tokens > 0 && fed[5].running == 2, "{fed:?}");
    drop(dropped);
    gate.open();
    within(remaining.whole()).await.unwrap();
    let steps = gate.steps();
    assert!(
        steps[6..]
            .iter()
            .all(|step| (step.prompt_tokens, step.running) != (8, 2))
    );
    assert_eq!((steps[6].prompt_tokens, steps[6].running), (0, 1));
    assert_eq!(engine.stats().cancelled, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_prompt_is_fed_alongside_running_answers() {
    const SLICE: u32 = 16;
    let gate = Gate::after(2);
    let engine = load(gate.watch(options(model()).slice_tokens(SLICE))).await;
    let running = engine.generate(Prompt::user("one").max_tokens(200));
    gate.reached(2);
    let long = Prompt::user("long ".repeat(100)).max_tokens(1);
    let tokens = within(engine.count_tokens(&long)).await.unwrap();
    let expected = text(&load(options(model())).await, long.clone()).await;
    let asked = engine.generate(long);
    prepared(&engine).await;
    gate.open();
    let (answered, finished) = tokio::join!(within(asked.whole()), within(running.whole()));
    let (long, running) = (answered.unwrap(), finished.unwrap());
    assert_eq!(long.0, expected);
    assert_eq!(running.1.answer_tokens, Some(200));
    let steps = gate.steps();
    let slices = steps[2..]
        .iter()
        .filter(|step| step.prompt_tokens > 0)
        .collect::<Vec<_>>();
    // Each slice shares its step with the running answer, which gets one token per step.
    assert!(
        slices
            .iter()
            .all(|step| step.answer_tokens == 1 && step.prompt_tokens <= SLICE),
        "{slices:?}"
    );
    assert_eq!(slices.iter().map(|step| step.prompt_tokens).sum::<u32>(), tokens);
    assert_eq!(slices.len(), tokens.div_ceil(SLICE) as usize);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_pauses_only_its_own_answer() {
    let gate = Gate::default();
    let engine = load(gate.watch(options(model()))).await;
    let slow = Prompt::user("slow").max_tokens(300);
    let quick = Prompt::user("quick").max_tokens(400);
    let expected = (
        text(&engine, slow.clone()).await,
        text(&engine, quick.clone()).await,
    );
    let unread = engine.generate(slow);
    let (read, _) = whole(&engine, quick).await.unwrap();
    assert_eq!(read, expected.1);
    let stats = engine.stats();
    assert_eq!((stats.running, stats.paused), (1, 1));
    // The generation has paused: a full channel of text, and one piece that waits for room.
    let before = stats.steps;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(engine.stats().steps, before);
    let (late, finished) = pieces(unread).await;
    assert_eq!(late.concat(), expected.0);
    assert_eq!(
        (finished.reason, finished.answer_tokens),
        (FinishReason::Length, Some(300))
    );
    assert!(late.iter().all(|piece| !piece.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_answer_that_is_dropped_is_noticed_while_nothing_runs() {
    let engine = engine().await;
    let unread = engine.generate(Prompt::user("slow").max_tokens(300));
    within(async {
        while engine.stats().paused == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    drop(unread);
    within(async {
        while engine.stats().cancelled == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    let stats = engine.stats();
    assert_eq!((stats.running, stats.paused, stats.cells_reserved), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_waiting_list_is_bounded_and_in_order() {
    let gate = Gate::after(2);
    let engine = load(gate.watch(options(model()).slots(1).waiting(2))).await;
    let prompt = |content: &str| Prompt::user(content).max_tokens(5);
    let first = engine.generate(prompt("first"));
    gate.reached(2);
    let second = engine.generate(prompt("second"));
    let third = engine.generate(prompt("third"));
    let refused = within(engine.generate(prompt("fourth")).whole())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "model_busy");
    // A dropped generation releases its position, at the latest in the next step.
    drop(second);
    prepared(&engine).await;
    gate.open();
    let (first, third) = tokio::join!(within(first.whole()), within(third.whole()));
    assert_eq!(
        (first.unwrap().1.answer_tokens, third.unwrap().1.answer_tokens),
        (Some(5), Some(5))
    );
    let stats = engine.stats();
    assert_eq!((stats.finished, stats.running, stats.waiting), (2, 0, 0));
    assert!(gate.steps().iter().all(|step| step.running <= 1));
    assert_eq!(
        whole(&engine, prompt("fifth")).await.unwrap().1.answer_tokens,
        Some(5)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn generations_wait_for_cells_and_all_finish() {
    // Cells for one generation at its longest, and slots for four.
    let gate = Gate::default();
    let options = options(model())
        .context_tokens(256)
        .cells(300)
        .prefixes(4)
        .slots(4);
    let engine = load(gate.watch(options)).await;
    let prompt = |index: usize| Prompt::user(format!("{index} ").repeat(40)).max_tokens(100);
    let alone = load(crate::llama::models::options(model()).slots(1)).await;
    let generations = (0..6)
        .map(|index| engine.generate(prompt(index)))
        .collect::<Vec<_>>();
    for (index, generation) in generations.into_iter().enumerate() {
        let (together, finished) = within(generation.whole()).await.unwrap();
        assert_eq!(finished.answer_tokens, Some(100));
        assert_eq!(together, text(&alone, prompt(index)).await);
        let stats = engine.stats();
        assert!(
            stats.cells_reserved + stats.cells_cached <= stats.cells,
            "{stats:?}"
        );
    }
    assert_eq!(engine.stats().finished, 6);
}
