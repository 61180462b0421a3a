//! Whole turns of DocumentRAG, and its limits.

use super::*;
use crate::rag::model::{Boxed, ModelError};
use crate::rag::{LibraryLimits, ParseLimits, parse};
use crate::turn::Collected;
use crate::{Event, Turn};

fn library(sections: usize) -> Arc<Library> {
    let text: String = (0..sections)
        .map(|n| format!("# Section {n}\n\nBird number{n} sings at dawn.\n\n"))
        .collect();
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    library
        .add(
            "birds.md",
            &parse("birds.md", text.as_bytes(), &ParseLimits::default()).unwrap(),
        )
        .unwrap();
    Arc::new(library)
}

async fn ask(rag: &DocumentRag, question: DocumentQuestion) -> Collected {
    let turn = Turn::start(|sink| rag.answer(question, sink))
        .commit()
        .await
        .unwrap();
    turn.collect().await.unwrap()
}

fn names(collected: &Collected) -> Vec<&str> {
    collected.events.iter().map(|(event, _)| event.name()).collect()
}

fn sources(collected: &Collected) -> usize {
    let of = |(event, _): &(Event, _)| match event {
        Event::Sources(sources) => Some(sources.sources.len()),
        _ => None,
    };
    collected.events.iter().find_map(of).unwrap_or(0)
}

fn limits(doc: usize, fetch: usize) -> DocumentLimits {
    let mut limits = DocumentLimits::default();
    (limits.doc_limit, limits.fetch_limit) = (doc, fetch);
    limits
}

#[tokio::test]
async fn an_answer_is_written_from_as_many_chunks_as_are_asked_for() {
    let rag = DocumentRag::lexical(library(60));
    let question = |limits| DocumentQuestion::new("When does bird number7 sing?").limits(limits);
    for (doc, fetch, wanted) in [(1, 0, 1), (3, 50, 3), (20, 0, 20), (200, 0, 60)] {
        let collected = ask(&rag, question(limits(doc, fetch))).await;
        assert_eq!(sources(&collected), wanted, "{doc}, {fetch}");
        assert_eq!(collected.text, "Bird number7 sings at dawn. [1]");
    }
    let collected = ask(&rag, DocumentQuestion::new("When does bird number7 sing?")).await;
    let search = ["search", "retrieval_start", "retrieval_result"];
    let mut wanted = vec!["query_analysis"];
    wanted.extend(search.iter().chain(&search));
    wanted.extend(["rerank_result", "sources", "generation_start"]);
    assert_eq!(names(&collected), wanted);
    let metadata = &collected.end.metadata;
    assert_eq!(
        (metadata.mode.as_deref(), metadata.tools_used.as_slice()),
        (Some("lexical"), &["bm25_search".to_owned()][..])
    );
    let (sink, _pending) = Turn::builder().channel();
    let error = rag.answer(question(limits(0, 0)), sink).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("bad_limit", "doc-limit must be a whole number from 1 to 200")
    );
}

/// The longest passage first, or nothing but an error.
#[derive(Debug)]
struct Longest(bool);

impl Rank for Longest {
    fn method(&self) -> &str {
        "longest"
    }

    fn rank<'a>(&'a self, _: &'a str, passages: Vec<String>) -> Boxed<'a, Result<Vec<f32>, ModelError>> {
        let scores = passages.iter().map(|passage| passage.len() as f32).collect();
        Box::pin(std::future::ready(if self.0 {
            Err(ModelError::Busy)
        } else {
            Ok(scores)
        }))
    }
}

#[tokio::test]
async fn a_ranker_chooses_among_what_was_fetched_and_may_fail() {
    let library = library(20);
    let parsed = parse(
        "long.md",
        b"An owl that is awake at night sings to bird and dawn alike.",
        &ParseLimits::default(),
    )
    .unwrap();
    let long = library.add("long.md", &parsed).unwrap().id;
    let question = || DocumentQuestion::new("When does a bird sing at dawn?").limits(limits(1, 30));
    let first = |collected: &Collected| {
        collected.events.iter().find_map(|(event, _)| match event {
            Event::Sources(sources) => Some(sources.sources[0].document_id.clone()),
            _ => None,
        })
    };
    let rag = DocumentRag::lexical(Arc::clone(&library));
    let plain = ask(&rag, question()).await;
    assert_ne!(first(&plain).as_deref(), Some(&*long));
    let ranked = ask(&rag.clone().ranker(Arc::new(Longest(false))), question()).await;
    assert_eq!((first(&ranked).as_deref(), sources(&ranked)), (Some(&*long), 1));
    assert_eq!(
        names(&ranked)
            .iter()
            .filter(|name| **name == "rerank_result")
            .count(),
        2
    );
    let failed = ask(&rag.ranker(Arc::new(Longest(true))), question()).await;
    assert_eq!((first(&failed), failed.text), (first(&plain), plain.text));
}
