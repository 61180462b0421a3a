//! A scripted model: which of its triples are used, and when the patterns read instead.

use super::*;
use crate::models::scripted::{Reply, Scripted};

const TEXT: &str = "A turn uses a bounded queue. The queue holds frames.";

fn chunk(ordinal: u32) -> Chunk {
    Chunk::new("d", "d.md", ordinal, TEXT)
}

fn says(triples: &[(&str, &str, &str)]) -> Reply {
    let triples: Vec<_> = triples
        .iter()
        .map(|(subject, predicate, object)| json!({ "subject": subject, "predicate": predicate, "object": object }))
        .collect();
    Reply::says(&json!({ "triples": triples }).to_string())
}

async fn extract(replies: Vec<Reply>) -> (Vec<Extraction>, Arc<Scripted>) {
    let passages = (0..replies.len() as u32).map(chunk).collect();
    let model = Arc::new(Scripted::new(replies));
    let extractor = ModelExtractor::new(model.clone());
    assert_eq!(extractor.name(), "model-1:scripted");
    (extractor.extract(passages).await, model)
}

#[tokio::test(start_paused = true)]
async fn triples_of_a_model_are_checked_and_patterns_are_the_fallback() {
    let by_patterns = |why| Extraction::new(Patterns::default().triples(&chunk(0))).fallback(why);
    let taken = |subject, predicate, object| Relation::new(subject, predicate, object, WEIGHT);
    let (found, model) = extract(vec![
        says(&[
            ("turn", "Makes use of", "bounded queue"),
            // Not in the passage; the same entity at both ends; a predicate without a word.
            ("turn", "uses", "database"),
            ("Queues", "is", "queue"),
            ("queue", "—", "frames"),
        ]),
        says(&[]),
        says(&[("Paris", "capital_of", "France")]),
        Reply::says("I am sorry, but"),
        Reply::CutOff(vec!["{\"triples\": [".into()]),
        Reply::error(ModelError::Busy),
        Reply::Fails(vec!["{".into()], ModelError::Unavailable(None)),
        Reply::Vanishes,
        Reply::Hangs,
        says(&[("queue", "holds", "frames")]),
    ])
    .await;
    assert_eq!(
        found,
        [
            Extraction::new(vec![taken("turn", "makes_use_of", "bounded queue")]),
            Extraction::new(vec![]),
            by_patterns("not_in_passage"),
            by_patterns("bad_json"),
            by_patterns("bad_json"),
            by_patterns("model_busy"),
            by_patterns("model_unavailable"),
            by_patterns("model_closed"),
            by_patterns("model_timeout"),
            Extraction::new(vec![taken("queue", "holds", "frames")]),
        ]
    );
    let prompts = model.prompts();
    assert_eq!(prompts.len(), 10);
    let Shape::Json(schema) = &prompts[0].shape else {
        panic!("{:?}", prompts[0].shape)
    };
    assert_eq!(schema["properties"]["triples"]["maxItems"], MAX_TRIPLES);
    assert!(prompts[0].messages[1].content.contains(TEXT));
}

#[tokio::test]
async fn surplus_triples_of_a_model_are_dropped() {
    let many = vec![("turn", "uses", "queue"); 100];
    let many: Vec<_> = many
        .into_iter()
        .enumerate()
        .map(|(n, (s, _, o))| (s, format!("p{n}"), o))
        .collect();
    let many: Vec<_> = many.iter().map(|(s, p, o)| (*s, p.as_str(), *o)).collect();
    let (found, _) = extract(vec![says(&many)]).await;
    assert_eq!((found[0].triples.len(), found[0].fallback), (MAX_TRIPLES, None));
}
