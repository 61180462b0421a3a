//! Whole turns through the public API: what is sent, in which order, and what closes it.

use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::rag::generate::{NO_ANSWER, NO_DOCUMENTS};
use crate::rag::{LibraryLimits, ParseLimits, parse, test_data};
use crate::turn::Collected;
use crate::{Event, Status, Turn};

const BIRDS: &str =
    "# Birds\n\nA robin sings at dawn. An owl hunts at night.\n\n# Fish\n\nA carp eats plants all day.";

fn library(name: &str, bytes: &[u8]) -> Arc<Library> {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    library
        .add(name, &parse(name, bytes, &ParseLimits::default()).unwrap())
        .unwrap();
    Arc::new(library)
}

async fn ask(rag: &Pipeline, question: Question) -> Collected {
    let turn = Turn::start(|sink| rag.answer(question, sink))
        .commit()
        .await
        .unwrap();
    turn.collect().await.unwrap()
}

fn names(collected: &Collected) -> Vec<&str> {
    collected.events.iter().map(|(event, _)| event.name()).collect()
}

#[tokio::test]
async fn a_turn_is_told_step_by_step() {
    let rag = Pipeline::lexical(library("birds.md", BIRDS.as_bytes()));
    let collected = ask(&rag, Question::new("When does the robin sing?")).await;
    let search = ["search", "retrieval_start", "retrieval_result"];
    let mut wanted = vec!["query_analysis"];
    wanted.extend(search.iter().chain(&search));
    wanted.extend(["rerank_result", "review", "sources", "generation_start"]);
    assert_eq!(names(&collected), wanted);
    assert_eq!(collected.text, "A robin sings at dawn. [1]");
    assert_eq!(collected.end.status, Status::Completed);
    let metadata = &collected.end.metadata;
    assert_eq!(metadata.citations.len(), 1);
    let citation = &metadata.citations[0];
    assert_eq!(citation.supporting_quote, "A robin sings at dawn.");
    assert_eq!(
        (citation.source_tool.as_str(), citation.heading.as_deref()),
        ("bm25_search", Some("Birds"))
    );
    assert!(citation.chunk_id.starts_with(&citation.document_id));
    assert_eq!(
        (metadata.mode.as_deref(), metadata.extra["answered"].as_bool()),
        (Some("lexical"), Some(true))
    );

    let unreviewed = ask(
        &rag,
        Question::new("When does the robin sing?").review(ReviewPolicy::Off),
    )
    .await;
    assert!(!names(&unreviewed).contains(&"review"));
    assert_eq!(unreviewed.text, collected.text);
}

#[tokio::test]
async fn what_the_documents_do_not_hold_is_refused_in_words() {
    let empty = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
    let cases = [
        (
            Pipeline::lexical(empty),
            "When does the robin sing?",
            NO_DOCUMENTS,
        ),
        (
            Pipeline::lexical(library("birds.md", BIRDS.as_bytes())),
            "What is the capital of France?",
            NO_ANSWER,
        ),
        (
            Pipeline::lexical(library("birds.md", BIRDS.as_bytes())),
            "the of and",
            NO_ANSWER,
        ),
    ];
    for (rag, question, said) in cases {
        let collected = ask(&rag, Question::new(question)).await;
        assert_eq!(collected.text, said, "{question}");
        assert_eq!(collected.end.status, Status::Completed, "no answer is no failure");
        assert!(collected.end.metadata.citations.is_empty());
        assert_eq!(collected.end.metadata.extra["answered"], false);
    }
}

#[tokio::test]
async fn each_question_within_a_question_is_answered_or_not() {
    let rag = Pipeline::lexical(library("birds.md", BIRDS.as_bytes()));
    let cases = [
        (
            "When does the robin sing and what does a carp eat?",
            "A robin sings at dawn. [1] A carp eats plants all day. [2]",
        ),
        (
            "When does the robin sing? What is the capital of France?",
            "A robin sings at dawn. [1] The documents do not answer “What is the capital of France”.",
        ),
    ];
    for (question, text) in cases {
        assert_eq!(ask(&rag, Question::new(question)).await.text, text);
    }
}

#[tokio::test]
async fn an_unknown_word_is_named() {
    let rag = Pipeline::lexical(library("birds.md", BIRDS.as_bytes()));
    let collected = ask(
        &rag,
        Question::new("When do the robin and the owl hunt at night or sing at dawn in Atlantis?"),
    )
    .await;
    assert!(
        collected
            .text
            .starts_with("The documents do not mention “Atlantis”. What comes closest: "),
        "{}",
        collected.text
    );
}

/// A retriever that answers its n-th search, counted from 0, with what a test says; `None` is what the library finds.
struct Scripted {
    lexical: Lexical,
    searches: AtomicUsize,
    script: fn(usize) -> Option<Result<Vec<Hit>, RetrieveError>>,
}

impl Scripted {
    fn pipeline(script: fn(usize) -> Option<Result<Vec<Hit>, RetrieveError>>) -> Pipeline {
        let library = library("birds.md", BIRDS.as_bytes());
        let retriever = Self {
            lexical: Lexical::new(Arc::clone(&library)),
            searches: AtomicUsize::new(0),
            script,
        };
        let reviewer = Arc::new(CoverageReview::new(Arc::clone(&library)));
        Pipeline::new(Arc::new(retriever), reviewer, Arc::new(Extractive::new(library)))
    }
}

impl Retrieve for Scripted {
    fn tool(&self) -> &str {
        "scripted"
    }

    fn mode(&self) -> &str {
        "lexical"
    }

    fn retrieve<'a>(
        &'a self,
        request: RetrieveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Hit>, RetrieveError>> + Send + 'a>> {
        match (self.script)(self.searches.fetch_add(1, Ordering::Relaxed)) {
            Some(outcome) => Box::pin(std::future::ready(outcome)),
            None => self.lexical.retrieve(request),
        }
    }
}

#[tokio::test]
async fn thin_evidence_gets_a_second_round() {
    let rag = Scripted::pipeline(|search| (search < 2).then(|| Ok(Vec::new())));
    let collected = ask(&rag, Question::new("When does the robin sing?")).await;
    let verdicts = collected.events.iter().filter_map(|(event, _)| match event {
        Event::Review(review) => Some((review.iteration, review.verdict)),
        _ => None,
    });
    assert_eq!(
        verdicts.collect::<Vec<_>>(),
        [(1, Verdict::Rejected), (2, Verdict::Approved)]
    );
    let second = collected
        .events
        .iter()
        .any(|(event, _)| matches!(event, Event::RetrievalStart(start) if start.iteration == 2));
    assert!(
        second && collected.text.contains("A robin sings at dawn. [1]"),
        "{}",
        collected.text
    );
}

#[tokio::test]
async fn failures_end_the_turn_and_tell_nothing_of_their_cause() {
    let broken = Scripted::pipeline(|_| Some(Err(RetrieveError::new("disk on fire"))));
    let collected = ask(&broken, Question::new("When does the robin sing?")).await;
    assert_ne!(collected.end.status, Status::Completed);
    assert!(!format!("{:?}", collected.events).contains("disk on fire"));

    let rag = Pipeline::lexical(library("birds.md", BIRDS.as_bytes()));
    for (prompt, code) in [
        ("", "empty_question"),
        (" \n", "empty_question"),
        (&"x ".repeat(20_000), "question_too_long"),
    ] {
        let (sink, _pending) = Turn::builder().channel();
        let error = rag.answer(Question::new(prompt), sink).await.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.source().is_none());
    }
}

#[tokio::test]
async fn a_real_paper_answers_with_pages() {
    let Some(bytes) = test_data::attention_paper() else {
        return;
    };
    let rag = Pipeline::lexical(library("attention.pdf", &bytes));
    let cases = [
        (
            "How many attention heads does the base model use?",
            "h = 8 parallel attention layers",
            5,
        ),
        ("What optimizer was used?", "Adam", 7),
        (
            "What BLEU score does the big model reach on English-to-German?",
            "28.4",
            8,
        ),
        (
            "What optimizer was used and how many GPUs were the models trained on?",
            "Adam",
            7,
        ),
    ];
    for (question, wanted, page) in cases {
        let start = Instant::now();
        let collected = ask(&rag, Question::new(question)).await;
        println!("{question} ({:?})\n{}\n", start.elapsed(), collected.text);
        let mut citations = collected.end.metadata.citations.iter();
        let cited = citations.find(|citation| citation.supporting_quote.contains(wanted));
        assert_eq!(
            cited.and_then(|citation| citation.page_number),
            Some(page),
            "{question}: {}",
            collected.text
        );
    }
    for question in ["What is the capital of France?", "Who won the 2018 world cup?"] {
        assert_eq!(
            ask(&rag, Question::new(question)).await.text,
            NO_ANSWER,
            "{question}"
        );
    }
}
