//! Whole turns: the order of events, the answer, and the code of each failure.

mod by_meaning;
mod fallback;
mod private;
mod traverse;
mod usage;
mod words;

use super::*;
use crate::answer::cache::{CacheLimits, LibraryCorpus};
use crate::answer::error::MAX_QUESTION_BYTES;
use crate::answer::judge::{JudgeOptions, ModelJudge};
use crate::models::scripted::{Reply, Scripted};
use crate::models::test_models::Words;
use crate::models::{LanguageModel, ModelError, Role};
use crate::search::store::{Store, StoreError};
use crate::{Indexer, LexicalRank, LibraryLimits, MaxSimRank, ParseLimits, Writer, parse};
use ragwire::event::{CragAction, CragClass};
use ragwire::turn::Collected;
use ragwire::{Event, Status, Turn};

const BIRDS: &str = "# Birds\n\nA robin sings at dawn. An owl hunts at night.\n\n# Fish\n\nA carp eats plants all day. A pike eats other fish.";
const QUESTION: &str = "When does the robin sing?";
const SEARCH: [&str; 3] = ["search", "retrieval_start", "retrieval_result"];

fn library(name: &str, text: &str) -> Arc<Library> {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add(name, &parsed).unwrap();
    Arc::new(library)
}

fn birds() -> Arc<Library> {
    library("birds.md", BIRDS)
}

async fn ask(agent: &Agent, question: AgentQuestion) -> Collected {
    let turn = Turn::start(|sink| {
        let answering = agent.answer(question, sink);
        async move { answering.await.map_err(|error| error.failure()) }
    });
    turn.commit().await.unwrap().collect().await.unwrap()
}

async fn failed(agent: &Agent, question: &str) -> String {
    let (sink, _turn) = Turn::builder().channel();
    let error = agent
        .answer(AgentQuestion::new(question), sink)
        .await
        .unwrap_err();
    let failure = error.failure();
    assert_eq!(failure.code(), error.code());
    error.code().to_owned()
}

fn names(collected: &Collected) -> Vec<&str> {
    collected.events.iter().map(|(event, _)| event.name()).collect()
}

fn pick_events<'a, T>(collected: &'a Collected, pick: impl Fn(&'a Event) -> Option<T>) -> Vec<T> {
    collected
        .events
        .iter()
        .filter_map(|(event, _)| pick(event))
        .collect()
}

/// All search tools, with an embedder of words and a store in memory.
async fn tools(library: &Arc<Library>) -> SearchTools {
    tools_away_from(library, usize::MAX).await
}

/// The same, with an embedder that is away from this call on, once the store is filled.
async fn tools_away_from(library: &Arc<Library>, call: usize) -> SearchTools {
    let embedder = Arc::new(Words::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Vectors::dense(
        crate::models::test_models::DIMENSIONS,
    )));
    let indexer = Indexer::new(Arc::clone(library), Arc::clone(&store), Some(embedder)).unwrap();
    let report = indexer.reconcile(|_| std::ops::ControlFlow::Continue(())).await;
    assert!(report.unwrap().failed.is_empty());
    let embedder = Arc::new(Words::default().away_from(call));
    SearchTools::new(Arc::clone(library), store, Some(embedder)).unwrap()
}

fn judge(library: &Arc<Library>, replies: &[&str]) -> Arc<ModelJudge> {
    let model = Arc::new(Scripted::new(replies.iter().map(|text| Reply::says(text))));
    Arc::new(ModelJudge::new(
        model as Arc<dyn LanguageModel>,
        Arc::clone(library),
        JudgeOptions::default(),
    ))
}

#[tokio::test]
async fn a_direct_answer_emits_its_events_in_order() {
    let agent = Agent::lexical(birds());
    let collected = ask(
        &agent,
        AgentQuestion::new(QUESTION).mode(Mode::Direct).sources_last(true),
    )
    .await;
    let mut wanted = vec!["query_analysis"];
    wanted.extend(SEARCH.iter().chain(&SEARCH));
    wanted.extend([
        "crag_evaluation",
        "rerank_result",
        "generation_start",
        "verification",
        "sources",
    ]);
    assert_eq!(names(&collected), wanted);
    assert_eq!(collected.text, "A robin sings at dawn. [1]");
    assert_eq!(collected.end.status, Status::Completed);
    let judges = pick_events(&collected, |event| match event {
        Event::QueryAnalysis(event) => event.judge.as_deref(),
        Event::CragEvaluation(event) => event.judge.as_deref(),
        Event::Verification(event) => event.judge.as_deref(),
        _ => None,
    });
    assert_eq!(judges, ["lexical"; 3]);
    // The quote covers the whole question. That it is in its source makes it no certain answer.
    let confidence = pick_events(&collected, |event| match event {
        Event::Verification(event) => event.confidence,
        _ => None,
    });
    assert_eq!(confidence, [0.8]);
    let metadata = &collected.end.metadata;
    assert_eq!(
        (metadata.mode.as_deref(), metadata.tools_used.as_slice()),
        (Some("direct"), ["bm25_search".to_owned()].as_slice())
    );
    // The same without the last two steps, and with the sources first.
    let plain = ask(
        &agent,
        AgentQuestion::new(QUESTION).mode(Mode::Direct).verify(false),
    )
    .await;
    wanted.truncate(wanted.len() - 3);
    wanted.extend(["sources", "generation_start"]);
    assert_eq!(names(&plain), wanted);
    assert_eq!(plain.text, collected.text);
}

#[tokio::test]
async fn an_agent_decomposes_the_question_and_chooses_its_tools() {
    let library = birds();
    let tools = tools(&library).await;
    let judge = judge(
        &library,
        &[
            r#"{"complexity":"complex","mode":"agentic","sub_queries":["robin song","owl hunt"]}"#,
            r#"{"scores":[10,0]}"#,
            r#"{"tool":"proposition_search","query":"owl at night"}"#,
            r#"{"tool":"stop","query":""}"#,
            r#"{"verdicts":["SUPPORTED"]}"#,
        ],
    );
    let writer = Arc::new(Scripted::new([Reply::says(
        "Robins sing at dawn [1]. They swim [7].",
    )]));
    let agent = Agent::builder(Arc::clone(&library), tools)
        .judge(judge)
        .generator(Arc::new(Writer::new(writer)))
        .ranker(Arc::new(MaxSimRank::new(Arc::new(Words::default()))))
        .build();
    let collected = ask(&agent, AgentQuestion::new("When do robins sing and owls hunt?")).await;
    let mut wanted = vec!["query_analysis", "tool_call", "tool_result"];
    wanted.extend(SEARCH);
    wanted.push("crag_evaluation");
    // Both passages are already known, so there is nothing to grade.
    wanted.extend(SEARCH);
    wanted.extend(SEARCH);
    wanted.extend(["rerank_result", "sources", "generation_start", "verification"]);
    assert_eq!(names(&collected), wanted);
    let iterations = pick_events(&collected, |event| match event {
        Event::RetrievalStart(event) => Some((event.tool.as_str(), event.query.as_str(), event.iteration)),
        _ => None,
    });
    assert_eq!(
        iterations,
        [
            ("hybrid_search", "robin song", 2),
            ("hybrid_search", "owl hunt", 3),
            ("proposition_search", "owl at night", 4),
        ]
    );
    let methods = pick_events(&collected, |event| match event {
        Event::RerankResult(event) => Some(event.method.clone()),
        _ => None,
    });
    assert_eq!(methods, ["colbert"]);
    assert_eq!(collected.text, "Robins sing at dawn [1]. They swim [?].");
    let metadata = &collected.end.metadata;
    assert_eq!(metadata.mode.as_deref(), Some("agentic"));
    assert_eq!(
        metadata.tools_used,
        [
            "decompose_query",
            "hybrid_search",
            "proposition_search",
            "rerank_colbert"
        ]
    );
    assert_eq!(metadata.extra["unknown_citations"].as_u64(), Some(1));
    assert_eq!(metadata.citations.len(), 1);
}

#[tokio::test]
async fn the_budget_ends_an_agent() {
    let library = birds();
    let tools = tools(&library).await;
    let mut replies = vec![r#"{"complexity":"complex","mode":"agentic","sub_queries":[]}"#.to_owned()];
    for search in 0..9 {
        replies.push(format!(r#"{{"tool":"hybrid_search","query":"robin {search}"}}"#));
        if search == 0 {
            replies.push(r#"{"scores":[10,10]}"#.to_owned());
        }
    }
    let replies: Vec<&str> = replies.iter().map(String::as_str).collect();
    let agent = Agent::builder(Arc::clone(&library), tools)
        .judge(judge(&library, &replies))
        .budget(Budget {
            searches: 3,
            ..Budget::default()
        })
        .build();
    let collected = ask(&agent, AgentQuestion::new(QUESTION).verify(false)).await;
    let searches = names(&collected)
        .iter()
        .filter(|name| **name == "retrieval_start")
        .count();
    assert_eq!(searches, 3);
    assert_eq!(collected.end.status, Status::Completed);
}

#[tokio::test]
async fn ambiguous_hits_are_widened_and_rejected_hits_cause_another_search() {
    let library = birds();
    let tools = tools(&library).await;
    type Case = (
        &'static [&'static str],
        CragAction,
        &'static [CragClass],
        u32,
        usize,
    );
    let cases: [Case; 2] = [
        // Both are ambiguous; the section of the first answers, and that of the second scores no
        // better than its passage.
        (
            &[r#"{"scores":[5,5]}"#, r#"{"scores":[10,1]}"#],
            CragAction::Expand,
            &[CragClass::Ambiguous, CragClass::Ambiguous],
            1,
            0,
        ),
        // None answers, so sentences are searched, then a hypothetical answer. They return nothing
        // new, so nothing is graded again.
        (
            &[r#"{"scores":[0,0]}"#, "Robins sing in the morning."],
            CragAction::ReRetrieve,
            &[CragClass::Incorrect, CragClass::Incorrect],
            0,
            2,
        ),
    ];
    for (replies, action, classes, expanded, more) in cases {
        let mut all = vec![r#"{"complexity":"simple","mode":"direct","sub_queries":[]}"#];
        all.extend(replies);
        let agent = Agent::builder(Arc::clone(&library), tools.clone())
            .judge(judge(&library, &all))
            .ranker(Arc::new(LexicalRank::new(Arc::clone(&library))))
            .build();
        let collected = ask(&agent, AgentQuestion::new(QUESTION).verify(false)).await;
        let gates = pick_events(&collected, |event| match event {
            Event::CragEvaluation(event) => Some(event),
            _ => None,
        });
        assert_eq!(gates.len(), 1, "{action:?}");
        assert_eq!((gates[0].action, gates[0].expanded), (action, expanded));
        let told_classes: Vec<_> = gates[0]
            .details
            .iter()
            .map(|detail| detail.classification)
            .collect();
        assert_eq!(told_classes, classes);
        let again = pick_events(&collected, |event| match event {
            Event::RetrievalStart(event) if event.iteration == 2 => Some(event.tool.as_str()),
            _ => None,
        });
        assert_eq!(again, ["proposition_search", "hyde_search"][..more].to_vec());
        let levels = pick_events(&collected, |event| match event {
            Event::Sources(event) => Some(
                event
                    .sources
                    .iter()
                    .filter(|source| source.level.as_deref() == Some("L1"))
                    .count(),
            ),
            _ => None,
        });
        assert_eq!(levels, [expanded as usize]);
        assert_eq!(collected.text, "A robin sings at dawn. [1]");
    }
}

#[tokio::test]
async fn a_stored_answer_is_reported_and_valid_until_a_document_changes() {
    let library = birds();
    let corpus = Arc::new(LibraryCorpus::new(Arc::clone(&library)));
    let cache = SemanticCache::lexical(Arc::clone(&library), corpus, CacheLimits::default());
    let store = Arc::new(MemoryStore::new(Vectors::NONE));
    let tools = SearchTools::new(Arc::clone(&library), store, None).unwrap();
    let agent = Agent::builder(Arc::clone(&library), tools)
        .cache(Arc::new(cache))
        .build();
    let question = || AgentQuestion::new(QUESTION).scope("me");
    let first = ask(&agent, question()).await;
    assert_eq!(names(&first)[..2], ["query_analysis", "cache_miss"]);
    let second = ask(&agent, question()).await;
    assert_eq!(names(&second), ["query_analysis", "cache_hit", "sources"]);
    assert_eq!(
        (&second.text, &second.end.metadata.citations),
        (&first.text, &first.end.metadata.citations)
    );
    for other in [
        question().scope("you"),
        question().mode(Mode::Agentic),
        question().earlier(vec![ChatMessage::new(Role::User, "What is a robin?")]),
    ] {
        assert!(!names(&ask(&agent, other).await).contains(&"cache_hit"));
    }
    let document = library.list().remove(0);
    library.remove(&document.id).unwrap();
    let parsed = parse(
        "new.md",
        BIRDS.replace("dawn", "dusk").as_bytes(),
        &ParseLimits::default(),
    )
    .unwrap();
    library.add("new.md", &parsed).unwrap();
    let third = ask(&agent, question()).await;
    assert_eq!(names(&third)[..2], ["query_analysis", "cache_miss"]);
    assert_eq!(third.text, "A robin sings at dusk. [1]");
}

#[derive(Debug)]
struct NoStore;

impl Store for NoStore {
    fn name(&self) -> &str {
        "none"
    }
    fn vectors(&self) -> Vectors {
        Vectors::NONE
    }
    fn upsert(
        &self,
        _: Vec<crate::search::store::Point>,
    ) -> crate::models::Boxed<'_, Result<(), StoreError>> {
        Box::pin(async { Err(StoreError::Unavailable("away".into())) })
    }
    fn search(
        &self,
        _: crate::search::store::Search,
    ) -> crate::models::Boxed<'_, Result<Vec<crate::Hit>, StoreError>> {
        Box::pin(async { Err(StoreError::Unavailable("away".into())) })
    }
    fn remove_document<'a>(&'a self, _: &'a str) -> crate::models::Boxed<'a, Result<(), StoreError>> {
        Box::pin(async { Err(StoreError::Unavailable("away".into())) })
    }
    fn documents(&self) -> crate::models::Boxed<'_, Result<std::collections::BTreeSet<String>, StoreError>> {
        Box::pin(async { Err(StoreError::Unavailable("away".into())) })
    }
    fn count(&self, _: crate::search::store::Filter) -> crate::models::Boxed<'_, Result<u64, StoreError>> {
        Box::pin(async { Err(StoreError::Unavailable("away".into())) })
    }
}

#[tokio::test]
async fn each_failure_has_its_code() {
    let library = birds();
    let lexical = Agent::lexical(Arc::clone(&library));
    assert_eq!(failed(&lexical, " \n").await, "empty_question");
    assert_eq!(
        failed(&lexical, &"x".repeat(MAX_QUESTION_BYTES + 1)).await,
        "question_too_long"
    );
    let empty = Arc::new(Library::in_memory(LibraryLimits::default()).unwrap());
    assert_eq!(failed(&Agent::lexical(empty), QUESTION).await, "no_documents");

    // BM25 finds nothing, so sentences are searched, and that search needs the store.
    let tools = SearchTools::new(Arc::clone(&library), Arc::new(NoStore), None).unwrap();
    let agent = Agent::builder(Arc::clone(&library), tools).build();
    assert_eq!(
        failed(&agent, "Who won the cup in 2018?").await,
        "vector_db_error"
    );

    let tools = SearchTools::new(
        Arc::clone(&library),
        Arc::new(MemoryStore::new(Vectors::NONE)),
        None,
    )
    .unwrap();
    let fails = Reply::error(ModelError::Failed("CUDA out of memory".into()));
    let writer = Arc::new(Scripted::new([fails]));
    let agent = Agent::builder(Arc::clone(&library), tools.clone())
        .generator(Arc::new(Writer::new(writer)))
        .build();
    assert_eq!(failed(&agent, QUESTION).await, "llm_error");
    let closed = Arc::new(Scripted::new([Reply::ShutsDown])) as Arc<dyn LanguageModel>;
    let judge = ModelJudge::new(closed, Arc::clone(&library), JudgeOptions::default());
    let agent = Agent::builder(Arc::clone(&library), tools)
        .judge(Arc::new(judge))
        .build();
    assert_eq!(failed(&agent, QUESTION).await, "llm_error");
}

#[tokio::test]
async fn a_failure_during_the_turn_reports_only_its_public_message() {
    let library = birds();
    let tools = SearchTools::new(Arc::clone(&library), Arc::new(NoStore), None).unwrap();
    let agent = Agent::builder(Arc::clone(&library), tools).build();
    let collected = ask(&agent, AgentQuestion::new("Who won the cup in 2018?")).await;
    let Status::Failed(failure) = &collected.end.status else {
        panic!("{:?}", collected.end)
    };
    assert_eq!(
        (failure.code(), failure.message.as_ref(), failure.recoverable),
        ("vector_db_error", "The documents could not be searched.", true)
    );
}
