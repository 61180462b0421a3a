//! Tests of whole turns of DocumentRAG, and of its limits.

use super::*;
use crate::models::scripted::{Reply, Scripted};
use crate::models::test_models::{DIMENSIONS, Words};
use crate::models::{Boxed, ModelError, Shape};
use crate::search::store::{MemoryStore, Store, Vectors};
use crate::{Indexer, LibraryLimits, MaxSimRank, ParseLimits, SearchTools, Tool, Writer, parse};
use ragwire::turn::Collected;
use ragwire::{Event, Failure, Status, Turn, Usage};

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
async fn the_limits_determine_the_number_of_chunks() {
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

/// Ranks the longest passage first, or always fails.
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
async fn a_ranker_orders_the_fetched_chunks_and_may_fail() {
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
    assert_eq!(ranked.end.metadata.tools_used, ["bm25_search", "rerank_longest"]);
    let failed = ask(&rag.ranker(Arc::new(Longest(true))), question()).await;
    assert_eq!(names(&failed), names(&plain));
    assert_eq!(failed.end.metadata.tools_used, ["bm25_search"]);
    assert_eq!((first(&failed), failed.text), (first(&plain), plain.text));
}

/// Returns all tools over a store of vectors.
async fn tools(library: &Arc<Library>) -> SearchTools {
    let embedder = Arc::new(Words::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Vectors::dense(DIMENSIONS)));
    let indexer = Indexer::new(Arc::clone(library), Arc::clone(&store), Some(embedder.clone())).unwrap();
    let report = indexer.reconcile(|_| std::ops::ControlFlow::Continue(())).await;
    assert!(report.unwrap().failed.is_empty());
    SearchTools::new(Arc::clone(library), store, Some(embedder)).unwrap()
}

/// Returns the chunks, the tokens and the model of the only `generation_start`.
fn generation(collected: &Collected) -> (u32, u32, String) {
    let of = |(event, _): &(Event, _)| match event {
        Event::GenerationStart(start) => Some((
            start.context_chunks,
            start.total_context_tokens,
            start.model.clone(),
        )),
        _ => None,
    };
    collected.events.iter().find_map(of).unwrap()
}

#[tokio::test]
async fn models_search_rank_and_write() {
    let library = library(5);
    let model = Arc::new(Scripted::new([Reply::says(
        "It sings at dawn [1], and swims [9].",
    )]));
    let retriever = tools(&library).await.retriever(Tool::Hybrid);
    let rag = DocumentRag::new(Arc::new(retriever), Arc::new(Writer::new(model.clone())))
        .ranker(Arc::new(MaxSimRank::new(Arc::new(Words::default()))));
    let question = DocumentQuestion::new("When does bird number3 sing?").limits(limits(2, 4));
    let collected = ask(&rag, question).await;
    let search = ["search", "retrieval_start", "retrieval_result"];
    let mut wanted = vec!["query_analysis"];
    wanted.extend(search.iter().chain(&search));
    wanted.extend(["rerank_result", "rerank_result", "sources", "generation_start"]);
    assert_eq!(names(&collected), wanted);
    let ranked = |(event, _): &(Event, _)| match event {
        Event::RerankResult(event) => Some((event.method.clone(), event.output_count)),
        _ => None,
    };
    let ranked: Vec<_> = collected.events.iter().filter_map(ranked).collect();
    assert_eq!(ranked, [("rrf".to_owned(), 5), ("colbert".to_owned(), 2)]);
    assert_eq!(collected.text, "It sings at dawn [1], and swims [?].");
    assert_eq!(collected.end.status, Status::Completed);
    let metadata = &collected.end.metadata;
    assert_eq!(metadata.mode.as_deref(), Some("hybrid"));
    assert_eq!(metadata.tools_used, ["hybrid_search", "rerank_colbert"]);
    assert_eq!(
        metadata.citations[0].supporting_quote,
        "Bird number3 sings at dawn."
    );
    assert_eq!(metadata.extra["unknown_citations"], 1);
    let read = crate::models::scripted::tokens(&model.prompts()[0]);
    assert_eq!(generation(&collected), (2, read, "scripted".to_owned()));
    let usage = Usage::new()
        .input_tokens(u64::from(read))
        .cached_input_tokens(1u64)
        .output_tokens(1u64)
        .prompt_ms(2.5)
        .generation_ms(7.5)
        .slots(4u32)
        .slots_busy(2u32)
        .model("scripted");
    assert_eq!(metadata.usage, Some(usage));
}

#[tokio::test]
async fn chunks_that_do_not_fit_the_model_are_not_sources() {
    let library = library(60);
    let model = Arc::new(Scripted::with_context(1200, [Reply::says("At dawn [1].")]));
    let rag = DocumentRag::new(
        Arc::new(Lexical::new(library)),
        Arc::new(Writer::new(model.clone())),
    );
    let question = || DocumentQuestion::new("When does bird number7 sing?").limits(limits(50, 0));
    let collected = ask(&rag, question()).await;
    let read_chunks = model.asked()[0].matches(" n=\"").count();
    assert!((1..50).contains(&read_chunks), "{read_chunks}");
    assert_eq!(sources(&collected), read_chunks);
    assert_eq!(generation(&collected).0 as usize, read_chunks);
    assert_eq!(collected.end.metadata.extra["trimmed_chunks"], 50 - read_chunks);
    // There is no source at all if not even the question fits.
    let tiny = Writer::new(Arc::new(Scripted::with_context(20, [])));
    let rag = DocumentRag {
        generator: Arc::new(tiny),
        ..rag
    };
    let (sink, _pending) = Turn::builder().channel();
    let error = rag.answer(question(), sink).await.unwrap_err();
    assert_eq!(error.code(), "question_too_long");
}

#[tokio::test]
async fn readers_get_a_documented_code_for_each_failure() {
    #[derive(Debug)]
    struct NoSearch;
    impl Retrieve for NoSearch {
        fn tool(&self) -> &str {
            "none"
        }
        fn mode(&self) -> &str {
            "none"
        }
        fn retrieve<'a>(&'a self, _: RetrieveRequest) -> Boxed<'a, Result<Vec<Hit>, crate::RetrieveError>> {
            let error = crate::RetrieveError::new("10.0.0.1 refused");
            Box::pin(std::future::ready(Err(error)))
        }
    }
    let library = library(3);
    let write = |replies: Vec<Reply>, context: u32| {
        let model = Scripted::with_context(context, replies);
        let words = Lexical::new(Arc::clone(&library));
        DocumentRag::new(Arc::new(words), Arc::new(Writer::new(Arc::new(model))))
    };
    let failing = || vec![Reply::error(ModelError::Failed("CUDA out of memory".into()))];
    let no_search = DocumentRag::new(
        Arc::new(NoSearch),
        Arc::new(Extractive::new(Arc::clone(&library))),
    );
    let asked = "When does bird number1 sing?";
    let embedder = Words::default().away_from(0);
    let store = Arc::new(MemoryStore::new(Vectors::dense(DIMENSIONS)));
    let tools = SearchTools::new(Arc::clone(&library), store, Some(Arc::new(embedder))).unwrap();
    let retriever = Arc::new(tools.retriever(Tool::Hybrid));
    let no_vector = DocumentRag::new(retriever, Arc::new(Extractive::new(Arc::clone(&library))));
    let (llm, search) = (
        "The language model failed.",
        "The documents could not be searched.",
    );
    let cases = [
        (write(failing(), 1 << 16), asked, 20, "llm_error", llm, true),
        (no_vector, asked, 20, "llm_error", llm, true),
        (no_search, asked, 20, "vector_db_error", search, true),
        (
            write(Vec::new(), 20),
            asked,
            20,
            "question_too_long",
            "The question is too long.",
            false,
        ),
        (
            write(Vec::new(), 1 << 16),
            " ",
            20,
            "empty_question",
            "The question is empty.",
            false,
        ),
        (
            write(Vec::new(), 1 << 16),
            asked,
            0,
            "bad_limit",
            "A limit is out of its bounds: doc-limit must be a whole number from 1 to 200.",
            false,
        ),
    ];
    for (rag, prompt, doc, code, message, recoverable) in cases {
        let (sink, _pending) = Turn::builder().channel();
        let question = DocumentQuestion::new(prompt).limits(limits(doc, 0));
        let failure = rag.answer(question, sink).await.unwrap_err().failure();
        let mut wanted = Failure::new(code, message);
        wanted.recoverable = recoverable;
        assert_eq!(failure, wanted);
    }
}

#[tokio::test]
async fn a_schema_gives_json_from_the_chunks() {
    const SAID: &str = r#"{"sings": "at dawn [1]"}"#;
    let schema = serde_json::json!({"type": "object"});
    let library = library(3);
    let model = Arc::new(Scripted::new([Reply::says(SAID)]));
    let retriever = tools(&library).await.retriever(Tool::Hybrid);
    let rag = DocumentRag::new(Arc::new(retriever), Arc::new(Writer::new(model.clone())));
    assert!(rag.has_structured_results());
    let question = DocumentQuestion::new("When does bird number2 sing?").schema(Some(schema.clone()));
    let collected = ask(&rag, question).await;
    assert_eq!(collected.text, SAID);
    let Some((Event::StructuredResult(last), _)) = collected.events.last() else {
        panic!("{:?}", names(&collected));
    };
    assert_eq!(last.result, serde_json::from_str::<Value>(SAID).unwrap());
    assert_eq!(model.prompts()[0].shape, Shape::Json(schema));
}
