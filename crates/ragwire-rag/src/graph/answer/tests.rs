//! Whole turns of GraphRAG: the events, their order, and the end.

use super::*;
use crate::answer::generate::{NO_ANSWER, NO_DOCUMENTS};
use crate::answer::stream::MAX_ANSWER_BYTES;
use crate::graph::explain::GRAPH;
use crate::graph::{GraphIndex, GraphRoom, Patterns};
use crate::models::scripted::{Reply, Scripted, tokens};
use crate::models::{Boxed, Embed, ModelError, Shape, Side, normalize};
use crate::{LibraryLimits, ParseLimits, parse};
use ragwire::turn::Collected;
use ragwire::{Event, Status, Turn};

const TURNS: &str = "# Turns\n\nA turn uses a bounded queue. Robins sing.\n\n# Queues\n\nThe bounded queue holds frames.\n\n# Frames\n\n\
    Frames replace sentinels.";

async fn made(text: &str) -> (Arc<Library>, Arc<Graph>) {
    let library = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
    if !text.is_empty() {
        let parsed = parse("turns.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        library.add("turns.md", &parsed).unwrap();
    }
    let graph = Arc::new(Graph::in_memory(GraphRoom::default()).unwrap());
    let index = GraphIndex::new(
        Arc::clone(&library),
        Arc::clone(&graph),
        Arc::new(Patterns::default()),
    );
    index.sync().await.unwrap();
    (library, graph)
}

async fn rag(text: &str) -> GraphRag {
    let (library, graph) = made(text).await;
    GraphRag::new(graph, library)
}

async fn ask(rag: &GraphRag, question: GraphQuestion) -> Collected {
    let turn = Turn::start(|sink| rag.answer(question, sink))
        .commit()
        .await
        .unwrap();
    turn.collect().await.unwrap()
}

fn names(collected: &Collected) -> Vec<&str> {
    collected.events.iter().map(|(event, _)| event.name()).collect()
}

/// The triples of the explanations whose IDs begin with `what`, by their names.
fn explained(collected: &Collected, what: &str) -> Vec<String> {
    let explanation = |event: &Event| match event {
        Event::GraphExplanation(one) if one.explain_id.starts_with(&format!("urn:ragwire:{what}:")) => {
            assert_eq!(one.graph, GRAPH);
            Some(one.triples.clone())
        }
        _ => None,
    };
    let name = |iri: &str| crate::graph::entity::name_of(iri).unwrap();
    let triples = collected
        .events
        .iter()
        .filter_map(|(event, _)| explanation(event))
        .flatten();
    triples
        .map(|one| format!("{} | {} | {}", name(&one.s), name(&one.p), name(&one.o)))
        .collect()
}

const STEPS: [&str; 8] = [
    "query_analysis",
    "search",
    "retrieval_start",
    "graph_explanation",
    "retrieval_result",
    "graph_explanation",
    "sources",
    "generation_start",
];

#[tokio::test]
async fn a_turn_reports_the_triples_that_it_followed() {
    let rag = rag(TURNS).await;
    let mut question = GraphQuestion::new("What does a turn use?");
    question.limits.max_path_length = 1;
    let collected = ask(&rag, question.clone()).await;
    assert_eq!(names(&collected), STEPS);
    assert_eq!(collected.text, "A turn uses a bounded queue. [1]");
    assert_eq!(collected.end.status, Status::Completed);
    let one_step = explained(&collected, "exploration");
    assert_eq!(
        one_step,
        ["turn | uses | bounded queue"],
        "the heading names the same entity in a less frequent spelling"
    );
    assert_eq!(explained(&collected, "focus"), one_step);
    let metadata = &collected.end.metadata;
    let citation = &metadata.citations[0];
    assert_eq!(
        (
            citation.source_tool.as_str(),
            citation.supporting_quote.as_str(),
            citation.heading.as_deref()
        ),
        (TOOL, "A turn uses a bounded queue.", Some("Turns"))
    );
    assert_eq!(
        (metadata.mode.as_deref(), &metadata.tools_used[..]),
        (Some("graph"), &[TOOL.to_owned()][..])
    );
    assert_eq!(metadata.extra["answered"], true);
    // A longer path reaches things that the question does not name.
    question.limits.max_path_length = 3;
    let all = explained(&ask(&rag, question.clone()).await, "exploration");
    assert!(
        all.len() > one_step.len() && all.iter().any(|one| one.contains("sentinels")),
        "{all:?}"
    );
    // A smaller limit gives fewer triples.
    question.limits.max_subgraph_size = 2;
    question.limits.edge_limit = 1;
    let few = ask(&rag, question).await;
    assert_eq!(
        (
            explained(&few, "exploration").len(),
            explained(&few, "focus").len()
        ),
        (2, 1)
    );
}

#[tokio::test]
async fn a_question_outside_the_graph_is_declined_in_words() {
    for (text, question, expected) in [
        ("", "What does a turn use?", NO_DOCUMENTS),
        (TURNS, "What is the capital of France?", NO_ANSWER),
        (TURNS, "the of and", NO_ANSWER),
    ] {
        let collected = ask(&rag(text).await, GraphQuestion::new(question)).await;
        assert_eq!(collected.text, expected);
        assert_eq!(collected.end.status, Status::Completed);
        assert!(collected.end.metadata.citations.is_empty());
        assert_eq!(collected.end.metadata.extra["answered"], false);
        assert_eq!(explained(&collected, ""), Vec::<String>::new());
    }
}

#[tokio::test]
async fn bad_questions_and_limits_are_errors() {
    let rag = rag(TURNS).await;
    let mut far = GraphQuestion::new("x");
    far.limits.max_path_length = 0;
    let too_long = "x ".repeat(20_000);
    for (question, code) in [
        (GraphQuestion::new(" "), "empty_question"),
        (GraphQuestion::new(too_long), "question_too_long"),
        (far, "bad_limit"),
    ] {
        let (sink, _pending) = Turn::builder().channel();
        assert_eq!(rag.answer(question, sink).await.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn a_model_answers_from_numbered_triples() {
    let pieces = ["A turn uses a queue [", "1]", "[9], which holds frames [2]."];
    let model = Arc::new(Scripted::new([Reply::Says(pieces.map(str::to_owned).to_vec())]));
    let rag = rag(TURNS).await.model(model.clone());
    let collected = ask(&rag, GraphQuestion::new("What does a turn use?")).await;
    assert_eq!(
        collected.text,
        "A turn uses a queue [1][?], which holds frames [2]."
    );
    assert_eq!(names(&collected), STEPS);
    let metadata = &collected.end.metadata;
    let quotes: Vec<_> = metadata
        .citations
        .iter()
        .map(|one| one.supporting_quote.as_str())
        .collect();
    assert_eq!(quotes.len(), 2);
    assert_eq!(quotes[0], "A turn uses a bounded queue.");
    assert_eq!(metadata.extra["unknown_citations"], 1);
    assert_eq!(
        metadata.usage.as_ref().and_then(|usage| usage.model.as_deref()),
        Some("scripted")
    );
    let asked = &model.asked()[0];
    let best = explained(&collected, "focus");
    for (number, triple) in (1..).zip(&best) {
        let (subject, rest) = triple.split_once(" | ").unwrap();
        let line = format!("{subject} | {}", rest.replacen('_', " ", 2));
        assert!(
            asked.contains(&format!(" n=\"{number}\">\n{line}\n")),
            "{line}: {asked}"
        );
    }
    assert!(asked.ends_with("\nQuestion: What does a turn use?"));
}

#[tokio::test]
async fn a_schema_gives_json_from_the_triples() {
    const SAID: &str = r#"{"uses": ["a queue", [1]]}"#;
    let schema = serde_json::json!({"type": "object"});
    let question = |prompt| GraphQuestion::new(prompt).schema(Some(schema.clone()));
    let model = Arc::new(Scripted::new([Reply::says(SAID), Reply::says("{\"uses\":")]));
    let rag = rag(TURNS).await;
    assert!(!rag.has_structured_results());
    let rag = rag.model(model.clone());
    assert!(rag.has_structured_results());

    let collected = ask(&rag, question("What does a turn use?")).await;
    assert_eq!(collected.text, SAID);
    assert_eq!(names(&collected)[..STEPS.len()], STEPS);
    let Some((Event::StructuredResult(last), _)) = collected.events.last() else {
        panic!("{:?}", names(&collected));
    };
    assert_eq!(last.result, serde_json::from_str::<Value>(SAID).unwrap());
    assert_eq!(collected.end.metadata.extra["answered"], true);
    let prompt = &model.prompts()[0];
    assert_eq!(prompt.shape, Shape::Json(schema.clone()));
    assert!(prompt.messages[0].content.ends_with(&schema.to_string()));
    assert!(prompt.messages[1].content.contains("turn | uses | bounded queue"));

    // Half of a JSON text is a failure, and quotes do not take over.
    let half = ask(&rag, question("What does a turn use?")).await;
    assert!(
        matches!(half.end.status, Status::Failed(_)),
        "{:?}",
        half.end.status
    );
    assert!(!names(&half).contains(&"structured_result"));

    // Without a fact the model is not asked.
    let outside = ask(&rag, question("What is the capital of France?")).await;
    assert_eq!(outside.text, NO_ANSWER);
    assert_eq!(outside.end.metadata.extra["answered"], false);
    assert_eq!(model.prompts().len(), 2);
}

#[tokio::test]
async fn a_small_model_sees_the_best_triples_only() {
    let large = Arc::new(Scripted::new([Reply::says("Yes [1].")]));
    let rag = rag(TURNS).await.model(large.clone());
    let whole = ask(&rag, GraphQuestion::new("What does a turn use?")).await;
    assert!(!whole.end.metadata.extra.contains_key("trimmed_triples"));
    let needed = tokens(&large.prompts()[0]) + large.prompts()[0].max_tokens;
    let replies = [Reply::says("A turn uses a queue [1]."), Reply::says(NO_ANSWER)];
    let model = Arc::new(Scripted::with_context(needed - 1, replies));
    let rag = rag.model(model.clone());
    let collected = ask(&rag, GraphQuestion::new("What does a turn use?")).await;
    let seen = model.asked()[0].matches(" n=\"").count();
    let trimmed = collected.end.metadata.extra["trimmed_triples"].as_u64().unwrap() as usize;
    assert!(
        seen > 0 && seen + trimmed == explained(&collected, "focus").len(),
        "{seen} and {trimmed}"
    );
    let refused = ask(&rag, GraphQuestion::new("What does a turn use?")).await;
    assert_eq!(
        (refused.text.as_str(), &refused.end.metadata.extra["answered"]),
        (NO_ANSWER, &false.into())
    );
    // Not even one triple fits.
    let model = Arc::new(Scripted::with_context(520, []));
    let collected = ask(&rag.model(model), GraphQuestion::new("What does a turn use?")).await;
    assert!(matches!(collected.end.status, Status::Failed(_)));
}

#[tokio::test]
async fn an_overflow_removes_triples_until_none_is_left() {
    let overflow = || Reply::error(ModelError::Overflow { prompt: 9, limit: 8 });
    let piece = "1".repeat(1000);
    let model = Arc::new(Scripted::new([
        overflow(),
        Reply::says("A turn uses a queue [1]."),
        Reply::Says(vec![piece; 1000]),
    ]));
    let rag = rag(TURNS).await.model(model.clone());
    let question = || GraphQuestion::new("What does a turn use?");
    let collected = ask(&rag, question()).await;
    assert_eq!(collected.text, "A turn uses a queue [1].");
    assert_eq!(names(&collected), STEPS);
    assert_eq!(collected.end.metadata.extra["trimmed_triples"], 1);
    let seen: Vec<_> = model
        .asked()
        .iter()
        .map(|asked| asked.matches(" n=\"").count())
        .collect();
    assert_eq!(seen[0], seen[1] + 1);
    let long = ask(&rag, question()).await;
    assert_eq!(long.text.len(), MAX_ANSWER_BYTES.div_ceil(1000) * 1000);
    assert_eq!(long.end.status, Status::Completed);
    // If only one triple is left and still does not fit, quotes take over.
    let model = Arc::new(Scripted::new(std::iter::repeat_with(overflow).take(30)));
    let quoted = ask(&rag.model(model), question()).await;
    assert_eq!(quoted.end.metadata.extra["fallback"], "context_overflow");
}

#[tokio::test]
async fn quotes_take_over_from_a_model_that_fails() {
    let failing = || Reply::Fails(vec!["A turn ".into()], ModelError::Unavailable(None));
    let rag = rag(TURNS).await.model(Arc::new(Scripted::new([failing()])));
    let collected = ask(&rag, GraphQuestion::new("What does a turn use?")).await;
    assert_eq!(collected.end.status, Status::Completed);
    assert!(
        collected
            .text
            .starts_with("A turn \n\nThe language model failed here."),
        "{}",
        collected.text
    );
}

/// An embedder that places words with the same first letter near each other.
#[derive(Debug)]
struct Letters {
    fails: bool,
}

impl Embed for Letters {
    fn name(&self) -> &str {
        "letters"
    }

    fn dimensions(&self) -> usize {
        26
    }

    fn embed(&self, _: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        let vector = |text: &String| {
            let mut vector = vec![0.0; 26];
            for word in text.split(' ') {
                let first = word.bytes().next().map_or(0, |byte| byte.to_ascii_lowercase());
                if first.is_ascii_lowercase() {
                    vector[usize::from(first - b'a')] += 1.0;
                }
            }
            normalize(&mut vector);
            vector
        };
        let embedded = texts.iter().map(vector).collect();
        Box::pin(std::future::ready(if self.fails {
            Err(ModelError::Closed)
        } else {
            Ok(embedded)
        }))
    }

    fn embed_tokens(&self, _: Side, _: Vec<String>) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        Box::pin(std::future::ready(Err(ModelError::Unsupported("tokens"))))
    }
}

#[tokio::test]
async fn similar_names_are_found_and_a_failing_embedder_is_ignored() {
    let (library, graph) = made(TURNS).await;
    let names = EntityNames::new(Arc::clone(&graph), Arc::new(Letters { fails: false }));
    let extractor = Arc::new(Patterns::default());
    let index = GraphIndex::new(Arc::clone(&library), Arc::clone(&graph), extractor).names(names.clone());
    index.sync().await.unwrap();
    assert_eq!(names.len(), graph.size().entities);
    assert_eq!(names.near("sssss", 9).await.unwrap(), ["sentinel"]);
    let rag = GraphRag::new(Arc::clone(&graph), Arc::clone(&library));
    let question = || GraphQuestion::new("sssss");
    let without = ask(&rag, question()).await;
    assert_eq!(explained(&without, "focus"), Vec::<String>::new());
    let with = ask(&rag.clone().names(names.clone()), question()).await;
    assert!(
        explained(&with, "focus")
            .iter()
            .any(|one| one.contains("sentinels"))
    );
    let failing = EntityNames::new(Arc::clone(&graph), Arc::new(Letters { fails: true }));
    assert_eq!(ask(&rag.names(failing), question()).await.text, without.text);
    // A name that no longer exists has no vector.
    let id = library.list()[0].id.clone();
    library.remove(&id).unwrap();
    index.sync().await.unwrap();
    assert!(names.is_empty());
}
