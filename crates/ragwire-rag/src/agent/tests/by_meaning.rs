//! Turns with an embedder and no model: gate, quotes and refusal go by the meaning.

use super::*;
use crate::answer::NO_ANSWER;
use crate::models::Side;

const STAFF: &str = "# Staff\n\nThe doctor heals cats Mondays. Cats purr.\n\n# Garden\n\nThe gardener waters plants. Roses need water each evening in June.";
const PARAPHRASE: &str = "Which physician treats felines?";

fn embedder() -> Words {
    Words::default()
        .synonym("physician", "doctor")
        .synonym("treats", "heals")
        .synonym("felines", "cats")
}

async fn agent(library: &Arc<Library>, asking: Arc<Words>) -> Agent {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Vectors::dense(
        crate::models::test_models::DIMENSIONS,
    )));
    let indexer = Indexer::new(
        Arc::clone(library),
        Arc::clone(&store),
        Some(Arc::new(embedder())),
    )
    .unwrap();
    let report = indexer.reconcile(|_| std::ops::ControlFlow::Continue(())).await;
    assert!(report.unwrap().failed.is_empty());
    let tools = SearchTools::new(Arc::clone(library), store, Some(asking)).unwrap();
    Agent::builder(Arc::clone(library), tools).build()
}

fn answered(collected: &Collected) -> bool {
    collected
        .end
        .metadata
        .extra
        .get("answered")
        .and_then(|answered| answered.as_bool())
        .unwrap()
}

fn correct(collected: &Collected) -> u32 {
    pick_events(collected, |event| match event {
        Event::CragEvaluation(event) => Some(event.correct),
        _ => None,
    })
    .into_iter()
    .sum()
}

#[tokio::test]
async fn a_paraphrase_without_a_shared_word_is_answered_and_what_nothing_answers_is_refused() {
    let library = library("staff.md", STAFF);
    let asking = Arc::new(embedder());
    let agent = agent(&library, Arc::clone(&asking)).await;
    let question = |text: &str| AgentQuestion::new(text).mode(Mode::Direct);
    let found = ask(&agent, question(PARAPHRASE)).await;
    assert_eq!(found.text, "The doctor heals cats Mondays. [1]");
    assert!(answered(&found) && correct(&found) > 0);
    // One call for each search, the unrelated texts after the first, then the question, the passages of
    // the gate, and the sentences.
    let calls: Vec<Side> = asking
        .calls
        .lock()
        .unwrap()
        .iter()
        .map(|(side, _)| *side)
        .collect();
    let searches = names(&found)
        .into_iter()
        .filter(|name| *name == "retrieval_start")
        .count();
    let mut wanted = vec![Side::Query; searches + 1];
    wanted.insert(1, Side::Passage);
    wanted.extend([Side::Passage, Side::Passage]);
    assert_eq!(calls, wanted);

    let unanswerable = ask(&agent, question("Which pilot steers zeppelins?")).await;
    assert_eq!(
        (unanswerable.text.as_str(), answered(&unanswerable)),
        (NO_ANSWER, false)
    );
    assert_eq!(correct(&unanswerable), 0);
    // A name that no document has is not another word for something.
    let other = ask(
        &agent,
        question("Which physician treats felines like Garfield on Monday?"),
    )
    .await;
    assert!(!answered(&other), "{}", other.text);

    let words = ask(&Agent::lexical(library), question(PARAPHRASE)).await;
    assert_eq!((words.text.as_str(), answered(&words)), (NO_ANSWER, false));
}

#[tokio::test]
async fn words_decide_from_where_the_embedder_fails() {
    let library = library("staff.md", STAFF);
    let asked = "When does the doctor heal cats?";
    // The unrelated texts, the second search, the question, the passages of the gate, the sentences.
    for call in 1..6 {
        let agent = agent(&library, Arc::new(embedder().away_from(call))).await;
        let collected = ask(&agent, AgentQuestion::new(asked).mode(Mode::Direct)).await;
        assert_eq!(collected.end.status, Status::Completed);
        assert_eq!(collected.text, "The doctor heals cats Mondays. [1]", "{call}");
        let extra = &collected.end.metadata.extra;
        assert_eq!(
            extra.get("fallback").and_then(|code| code.as_str()),
            Some("model_unavailable"),
            "{call}"
        );
        assert_eq!(
            extra.get("fallback_parts"),
            Some(&serde_json::json!(["embedder"])),
            "{call}"
        );
    }
}
