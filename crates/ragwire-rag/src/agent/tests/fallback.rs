//! Turns in which the embedder or the ranker fails: they continue without it, and say so.

use super::*;
use crate::models::{Boxed, Rank};

const BY_WORDS: &str = "The embedding model failed, so the documents are searched by words only.";
const UNRANKED: &str = "The reranker failed, so the passages keep the order of the search.";

/// Every search with its number of passages, and what was said, in the order of the events.
fn steps(collected: &Collected) -> Vec<String> {
    pick_events(collected, |event| match event {
        Event::RetrievalResult(found) => Some(format!("{}: {}", found.tool, found.chunks_found)),
        Event::Reasoning(said) => Some(said.content.clone()),
        Event::RerankResult(ranked) => Some(ranked.method.clone()),
        _ => None,
    })
}

fn fallback(collected: &Collected) -> (Option<&str>, Vec<&str>) {
    let extra = &collected.end.metadata.extra;
    let parts = extra.get("fallback_parts").and_then(|parts| parts.as_array());
    (
        extra.get("fallback").and_then(|code| code.as_str()),
        parts
            .into_iter()
            .flatten()
            .filter_map(|part| part.as_str())
            .collect(),
    )
}

#[tokio::test]
async fn a_turn_continues_by_words_if_the_embedder_fails() {
    let library = birds();
    let in_the_first_search = [
        "hybrid_search: 0",
        BY_WORDS,
        "bm25_search: 1",
        "bm25_search: 1",
        "rrf",
    ];
    let in_the_second_search = [
        "hybrid_search: 2",
        "hybrid_search: 0",
        BY_WORDS,
        "bm25_search: 1",
        "rrf",
    ];
    // The first search also embeds the unrelated texts.
    for (call, wanted) in [
        (0, in_the_first_search),
        (1, in_the_first_search),
        (2, in_the_second_search),
    ] {
        let tools = tools_away_from(&library, call).await;
        let agent = Agent::builder(Arc::clone(&library), tools).build();
        let collected = ask(&agent, AgentQuestion::new(QUESTION).mode(Mode::Direct)).await;
        assert_eq!(steps(&collected), wanted);
        assert_eq!(collected.end.status, Status::Completed);
        assert_eq!(collected.text, "A robin sings at dawn. [1]");
        let code = Some("model_unavailable");
        assert_eq!(fallback(&collected), (code, vec!["embedder"]));
        let begun = names(&collected)
            .into_iter()
            .filter(|name| *name == "retrieval_start")
            .count();
        let ended = names(&collected)
            .into_iter()
            .filter(|name| *name == "retrieval_result")
            .count();
        assert_eq!(begun, ended, "each search has its end");
    }
}

#[tokio::test]
async fn a_judge_that_asks_for_vectors_gets_words_once_the_embedder_has_failed() {
    let library = birds();
    let tools = tools_away_from(&library, 0).await;
    let judge = judge(
        &library,
        &[
            r#"{"complexity":"complex","mode":"agentic","sub_queries":[]}"#,
            r#"{"tool":"semantic_search","query":"robin"}"#,
            r#"{"scores":[10]}"#,
            r#"{"tool":"hyde_search","query":"owl"}"#,
            r#"{"tool":"stop","query":""}"#,
        ],
    );
    let agent = Agent::builder(Arc::clone(&library), tools).judge(judge).build();
    let collected = ask(&agent, AgentQuestion::new(QUESTION).verify(false)).await;
    assert_eq!(
        steps(&collected),
        [
            "semantic_search: 0",
            BY_WORDS,
            "bm25_search: 1",
            "bm25_search: 1",
            "rrf"
        ]
    );
    assert_eq!(collected.end.status, Status::Completed);
    assert_eq!(fallback(&collected).1, ["embedder"]);
}

/// A ranker that gives each passage but the last one a score.
#[derive(Debug)]
struct LosesOne;

impl Rank for LosesOne {
    fn method(&self) -> &str {
        "loses-one"
    }

    fn rank<'a>(&'a self, _: &'a str, passages: Vec<String>) -> Boxed<'a, Result<Vec<f32>, ModelError>> {
        Box::pin(std::future::ready(Ok(vec![1.0; passages.len() - 1])))
    }
}

#[tokio::test]
async fn passages_keep_their_order_if_the_ranker_fails() {
    let library = birds();
    let away = || Arc::new(Words::default().away_from(0));
    let rankers: [(Arc<dyn Rank>, &str); 2] = [
        (Arc::new(MaxSimRank::new(away())), "model_unavailable"),
        (Arc::new(LosesOne), "model_failed"),
    ];
    let plain = ask(
        &Agent::lexical(Arc::clone(&library)),
        AgentQuestion::new(QUESTION),
    )
    .await;
    for (ranker, code) in rankers {
        let agent = Agent::builder(Arc::clone(&library), words(&library))
            .ranker(ranker)
            .build();
        let collected = ask(&agent, AgentQuestion::new(QUESTION)).await;
        assert_eq!(
            steps(&collected),
            ["bm25_search: 1", "bm25_search: 1", UNRANKED, "rrf"]
        );
        assert_eq!(
            (&collected.text, &collected.end.metadata.citations),
            (&plain.text, &plain.end.metadata.citations)
        );
        assert_eq!(fallback(&collected), (Some(code), vec!["reranker"]));
        assert_eq!(collected.end.metadata.tools_used, ["bm25_search"]);
    }
}

#[tokio::test]
async fn a_question_that_nothing_is_near_is_not_sent_to_the_model() {
    let library = birds();
    let model = Arc::new(Scripted::new([
        Reply::says("A robin sings at dawn. [1]"),
        Reply::says("Gern."),
    ]));
    let quotes = Arc::new(Extractive::new(Arc::clone(&library)));
    let writer = crate::answer::Fallback::new(Arc::new(Writer::new(model.clone())), quotes);
    let agent = Agent::builder(Arc::clone(&library), words(&library))
        .generator(Arc::new(writer))
        .build();
    let off_topic = AgentQuestion::new("Who sings the national anthem of Mongolia before a football match?");
    let refused = ask(&agent, off_topic).await;
    assert_eq!(refused.text, crate::answer::generate::NO_ANSWER);
    assert_eq!(model.prompts().len(), 0);
    // A model knows what to do with a question about the conversation.
    let said = vec![
        ChatMessage::new(Role::User, "When does the robin sing?"),
        ChatMessage::new(Role::Assistant, "At dawn."),
    ];
    let translated = AgentQuestion::new("Translate your previous answer about the robin into German, please")
        .earlier(said);
    let answered = ask(&agent, AgentQuestion::new(QUESTION)).await;
    assert_eq!(answered.text, "A robin sings at dawn. [1]");
    assert_eq!(ask(&agent, translated).await.text, "Gern.");
}

#[tokio::test]
async fn all_parts_that_fail_are_named_and_the_answer_is_not_stored() {
    let library = birds();
    let corpus = Arc::new(LibraryCorpus::new(Arc::clone(&library)));
    let cache = SemanticCache::lexical(Arc::clone(&library), corpus, CacheLimits::default());
    let dies = || Reply::error(ModelError::Unavailable(None));
    let writer = Writer::new(Arc::new(Scripted::new([dies(), dies()])));
    let quotes = Arc::new(Extractive::new(Arc::clone(&library)));
    let agent = Agent::builder(Arc::clone(&library), tools_away_from(&library, 0).await)
        .ranker(Arc::new(LosesOne))
        .generator(Arc::new(crate::answer::Fallback::new(Arc::new(writer), quotes)))
        .cache(Arc::new(cache))
        .build();
    for _ in 0..2 {
        let collected = ask(&agent, AgentQuestion::new(QUESTION)).await;
        assert_eq!(names(&collected)[..2], ["query_analysis", "cache_miss"]);
        assert_eq!(
            fallback(&collected),
            (
                Some("model_unavailable"),
                vec!["embedder", "reranker", "language_model"]
            )
        );
        assert!(
            collected.text.ends_with("A robin sings at dawn. [1]"),
            "{}",
            collected.text
        );
    }
}
