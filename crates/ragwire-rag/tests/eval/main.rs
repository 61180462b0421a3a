//! Measures how well the reference pipeline retrieves, cites and refuses, on real text: a research
//! paper and this project's own pages.
//!
//! ```sh
//! cargo test -p ragwire-rag --features llama --test eval -- --nocapture --test-threads=1
//! ```
//!
//! Without `llama`, without the paper, or if the model is not available, only the methods that need
//! no model are measured. The paper is read from `../shared/data`, or from the folder that
//! `RAGWIRE_TEST_DATA` names.
//!
//! The questions were written before anything was measured, and a figure is never improved by
//! changing them: anyone who changes a question gives the reason and measures again. Thresholds and
//! weights are chosen with the first set of questions (most recently `MISSING_SHARE` of
//! `src/answer/extract.rs`), never with those under `held_out`.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod corpus;
mod figures;
mod hashed;
#[cfg(feature = "llama")]
mod minilm;
mod table;

use std::ops::ControlFlow;
use std::sync::Arc;

use corpus::{Corpus, Questions};
use figures::{Method, answers, ranking};
use hashed::HashedWords;
use ragwire_rag::models::Embed;
use ragwire_rag::search::store::{MemoryStore, Store, Vectors};
use ragwire_rag::{Agent, Indexer, LexicalRank, MaxSimRank, SearchTools, Tool};
use table::{Row, Table};

/// The search tools over a store of all documents, with or without an embedder.
async fn tools(corpus: &Corpus, embedder: Option<Arc<dyn Embed>>) -> SearchTools {
    let library = &corpus.library;
    let vectors = embedder
        .as_ref()
        .map_or(Vectors::NONE, |one| Vectors::dense(one.dimensions()));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(vectors));
    let index = Indexer::new(Arc::clone(library), Arc::clone(&store), embedder.clone()).unwrap();
    let report = index.reconcile(|_| ControlFlow::Continue(())).await.unwrap();
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    SearchTools::new(Arc::clone(library), store, embedder).unwrap()
}

/// The search methods that use only words.
fn lexical_methods(corpus: &Corpus, tools: &SearchTools) -> Vec<Method> {
    let method = |name: &str, tool| Method {
        name: name.to_owned(),
        tools: tools.clone(),
        tool,
        rank: None,
    };
    let lexical = method("lexical (the default)", Tool::Hybrid);
    let ranked = Method {
        name: "lexical, reranked by the words that they cover".to_owned(),
        rank: Some(Arc::new(LexicalRank::new(Arc::clone(&corpus.library)))),
        ..lexical.clone()
    };
    vec![
        lexical,
        ranked,
        method("lexical, by sentences", Tool::Proposition),
    ]
}

/// The search methods that use a model.
fn model_methods(model: &str, tools: &SearchTools, embedder: &Arc<dyn Embed>) -> Vec<Method> {
    let method = |name: &str, tool| Method {
        name: format!("{name} ({model})"),
        tools: tools.clone(),
        tool,
        rank: None,
    };
    let hybrid = method("hybrid", Tool::Hybrid);
    let ranked = Method {
        name: format!("hybrid + MaxSim ({model})"),
        rank: Some(Arc::new(MaxSimRank::new(Arc::clone(embedder)))),
        ..hybrid.clone()
    };
    vec![
        method("dense", Tool::Semantic),
        hybrid,
        ranked,
        method("hybrid, by sentences", Tool::Proposition),
    ]
}

/// Checks that every question can be answered. Otherwise a figure would fall for the wrong reason.
#[test]
fn every_answer_is_in_a_passage() {
    let corpus = Corpus::read();
    let passages = corpus.passages();
    let mut missing = Vec::new();
    for question in corpus
        .questions
        .answerable
        .iter()
        .chain(&corpus.held_out.answerable)
    {
        for phrase in &question.holds {
            let one = corpus::Answerable {
                holds: vec![phrase.clone()],
                ..question.clone()
            };
            let found = passages[&question.document]
                .iter()
                .any(|chunk| one.is_answered_by(chunk));
            if !found {
                missing.push(format!("{} has no passage with {phrase:?}", question.document));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    let [answerable, unanswerable] = [
        corpus.questions.answerable.len(),
        corpus.questions.unanswerable.len(),
    ];
    assert!(!corpus.has_paper || answerable >= 40, "{answerable}");
    assert!(unanswerable >= 12, "{unanswerable}");
}

/// Measures the search methods, as a table of `docs/evaluation.md`.
async fn ranking_table(what: &str, questions: &Questions, methods: &[Method]) -> Table {
    let mut rows = Vec::new();
    for method in methods {
        let found = ranking(&questions.answerable, method).await;
        rows.push(Row {
            by_model: method.name.contains(table::MODEL),
            name: method.name.clone(),
            figures: vec![found.hit_1, found.hit_5, found.mrr],
        });
    }
    let count = questions.answerable.len();
    Table {
        head: [&format!("{count} {what}"), "hit@1", "hit@5", "MRR"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        tolerance: 1.0 / count as f64,
    }
}

/// Measures the answers of agents, as a table of `docs/evaluation.md`.
async fn answer_table(
    what: &str,
    corpus: &Corpus,
    questions: &Questions,
    agents: &[(String, Agent)],
) -> Table {
    let mut rows = Vec::new();
    for (name, agent) in agents {
        let answers = answers(corpus, questions, name, agent).await;
        rows.push(Row {
            by_model: name.contains(table::MODEL),
            name: name.clone(),
            figures: vec![
                answers.answered,
                answers.right,
                answers.precision,
                answers.refused,
            ],
        });
    }
    let (asked, refused) = (questions.answerable.len(), questions.unanswerable.len());
    let head = [
        &format!("{asked} + {refused} {what}"),
        "answered",
        "by an answering passage",
        "citation precision",
        "refused of those without an answer",
    ];
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows,
        tolerance: 1.0 / asked.min(refused) as f64,
    }
}

/// Loads the embedding model, if it is available.
#[cfg(feature = "llama")]
async fn model(test: &str) -> Option<Arc<dyn Embed>> {
    let model = minilm::MiniLm::load(test, minilm::TRAINED_TOKENS).await?;
    Some(model)
}

#[cfg(not(feature = "llama"))]
async fn model(_: &str) -> Option<Arc<dyn Embed>> {
    println!("skipped: measurements with a model need the feature `llama`");
    None
}

#[tokio::test]
async fn the_evaluation_page_matches_the_measurements() {
    let corpus = Corpus::read();
    let library = &corpus.library;
    let words = tools(&corpus, None).await;
    let mut methods = lexical_methods(&corpus, &words);
    let mut agents = vec![(
        "lexical (the default)".to_owned(),
        Agent::lexical(Arc::clone(library)),
    )];
    // Without the paper only lexical methods are measured: they also show a regression, and take no
    // time.
    if corpus.has_paper
        && let Some(embedder) = model("the_evaluation_page_matches_the_measurements").await
    {
        let tools = tools(&corpus, Some(Arc::clone(&embedder))).await;
        methods.extend(model_methods(table::MODEL, &tools, &embedder));
        let agent = Agent::builder(Arc::clone(library), tools).build();
        agents.push((format!("hybrid ({})", table::MODEL), agent));
    }
    let tables = [
        ranking_table("questions", &corpus.questions, &methods).await,
        answer_table("questions", &corpus, &corpus.questions, &agents).await,
        ranking_table("questions held out", &corpus.held_out, &methods).await,
        answer_table("questions held out", &corpus, &corpus.held_out, &agents).await,
    ];
    for table in &tables {
        println!("\n{table}");
    }
    let page = table::page(corpus.has_paper);
    let wrong: Vec<String> = tables
        .iter()
        .filter_map(|table| table.check(&page).err())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The figures of [`vector_search_matches_its_figures`].
const HASHED: &str = "\
| 52 questions | hit@1 | hit@5 | MRR |
|---|---|---|---|
| dense (hashed words) | 0.31 | 0.63 | 0.43 |
| hybrid (hashed words) | 0.48 | 0.85 | 0.64 |
| hybrid + MaxSim (hashed words) | 0.40 | 0.73 | 0.53 |
| hybrid, by sentences (hashed words) | 0.58 | 0.87 | 0.70 |
";
/// The same figures without the paper.
const HASHED_WITHOUT_PAPER: &str = "\
| 24 questions | hit@1 | hit@5 | MRR |
|---|---|---|---|
| dense (hashed words) | 0.21 | 0.38 | 0.29 |
| hybrid (hashed words) | 0.33 | 0.71 | 0.49 |
| hybrid + MaxSim (hashed words) | 0.38 | 0.71 | 0.50 |
| hybrid, by sentences (hashed words) | 0.54 | 0.75 | 0.65 |
";

/// Runs the vector search methods with an embedder that knows no meaning, so that they are tested
/// without a model. The figures do not describe any real model.
#[tokio::test]
async fn vector_search_matches_its_figures() {
    let corpus = Corpus::read();
    let embedder: Arc<dyn Embed> = Arc::new(HashedWords);
    let tools = tools(&corpus, Some(Arc::clone(&embedder))).await;
    let methods = model_methods("hashed words", &tools, &embedder);
    let table = ranking_table("questions", &corpus.questions, &methods).await;
    println!("\n{table}");
    let page = if corpus.has_paper {
        HASHED
    } else {
        HASHED_WITHOUT_PAPER
    };
    table.check(page).unwrap();
}
