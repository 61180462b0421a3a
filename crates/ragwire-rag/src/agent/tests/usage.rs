//! The reported cost of an answer: the sums over all models that took part, and the speed of the
//! one that wrote it.

use super::*;
use crate::models::scripted::tokens;
use ragwire::Usage;

const JUDGED: [&str; 3] = [
    r#"{"complexity":"simple","mode":"direct","sub_queries":[]}"#,
    r#"{"scores":[10,0]}"#,
    r#"{"verdicts":["SUPPORTED"]}"#,
];

fn read(models: &[&Scripted]) -> u64 {
    let prompts = models.iter().flat_map(|model| model.prompts());
    prompts.map(|prompt| u64::from(tokens(&prompt))).sum()
}

#[tokio::test]
async fn tokens_and_times_add_up_and_the_speed_is_that_of_the_writer() {
    let library = birds();
    let tools = tools(&library).await;
    let judged = || Arc::new(Scripted::new(JUDGED.map(Reply::says)).named("judge"));
    let judge = |model: &Arc<Scripted>| {
        let model = Arc::clone(model) as Arc<dyn LanguageModel>;
        Arc::new(ModelJudge::new(
            model,
            Arc::clone(&library),
            JudgeOptions::default(),
        ))
    };
    let pieces = ["Robins ", "sing ", "at dawn ", "[1]."].map(str::to_owned);
    let writer = Arc::new(Scripted::new([Reply::Says(pieces.to_vec())]).named("writer"));
    let judging = judged();
    let agent = Agent::builder(Arc::clone(&library), tools.clone())
        .judge(judge(&judging))
        .generator(Arc::new(Writer::new(writer.clone())));
    let collected = ask(&agent.build(), AgentQuestion::new(QUESTION)).await;
    assert_eq!(collected.text, "Robins sing at dawn [1].");
    // Three judgements of one piece, and an answer of four; each took 2.5 and 7.5 ms and had one
    // cached token.
    let sums = |calls: f64| Usage::new().prompt_ms(2.5 * calls).generation_ms(7.5 * calls);
    let whole = sums(4.0)
        .input_tokens(read(&[&judging, &writer]))
        .cached_input_tokens(4u64)
        .output_tokens(7u64)
        .answer_tokens(4u64)
        .tokens_per_second(3.0 / (7.5 / 1e3))
        .slots(4u32)
        .slots_busy(2u32)
        .model("writer");
    assert_eq!(collected.end.metadata.usage, Some(whole));

    // If no model wrote the answer, no speed is reported.
    let judging = judged();
    let agent = Agent::builder(Arc::clone(&library), tools.clone()).judge(judge(&judging));
    let collected = ask(&agent.build(), AgentQuestion::new(QUESTION)).await;
    let whole = sums(3.0)
        .input_tokens(read(&[&judging]))
        .cached_input_tokens(3u64)
        .output_tokens(3u64)
        .answer_tokens(0u64)
        .model("judge");
    assert_eq!(collected.end.metadata.usage, Some(whole));

    // Without any model, no usage is reported.
    let agent = Agent::builder(library, tools).build();
    let collected = ask(&agent, AgentQuestion::new(QUESTION)).await;
    assert_eq!(collected.end.metadata.usage, None);
}
