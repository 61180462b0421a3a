//! How well the reference pipeline finds, cites and refuses, on real text: a research paper and this project's own pages.
//!
//! ```sh
//! cargo test --features rag,llama --test eval -- --nocapture --test-threads=1
//! ```
//!
//! Without `llama`, without the paper, or where the model cannot be had, only what does without a model is measured. The paper is looked for in
//! `../shared/data`, or where `RAGWIRE_TEST_DATA` says.
//!
//! The questions were written before anything was measured, and a figure is never made better by changing them: whoever changes one says
//! why, and measures anew. Thresholds and weights are chosen by the first ones (lately `MISSING_SHARE` of `rag/extract.rs`), never by those under
//! `held_out`.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod corpus;
mod figures;
mod hashed;
#[cfg(feature = "llama")]
mod minilm;
mod table;

use std::ops::ControlFlow;
use std::sync::Arc;

use corpus::{Corpus, Questions};
use figures::{Way, answers, ranking};
use hashed::HashedWords;
use ragwire_rag::models::Embed;
use ragwire_rag::search::store::{MemoryStore, Store, Vectors};
use ragwire_rag::{Agent, Indexer, LexicalRank, MaxSimRank, SearchTools, Tool};
use table::{Row, Table};

/// The tools over a store of all documents, in words alone or with an embedder too.
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

/// The ways of finding with words alone.
fn lexical_ways(corpus: &Corpus, tools: &SearchTools) -> Vec<Way> {
    let way = |name: &str, tool| Way {
        name: name.to_owned(),
        tools: tools.clone(),
        tool,
        rank: None,
    };
    let lexical = way("lexical (the default)", Tool::Hybrid);
    let ranked = Way {
        name: "lexical, reranked by the words that they cover".to_owned(),
        rank: Some(Arc::new(LexicalRank::new(Arc::clone(&corpus.library)))),
        ..lexical.clone()
    };
    vec![lexical, ranked, way("lexical, by sentences", Tool::Proposition)]
}

/// The ways of finding with a model.
fn model_ways(model: &str, tools: &SearchTools, embedder: &Arc<dyn Embed>) -> Vec<Way> {
    let way = |name: &str, tool| Way {
        name: format!("{name} ({model})"),
        tools: tools.clone(),
        tool,
        rank: None,
    };
    let hybrid = way("hybrid", Tool::Hybrid);
    let ranked = Way {
        name: format!("hybrid + MaxSim ({model})"),
        rank: Some(Arc::new(MaxSimRank::new(Arc::clone(embedder)))),
        ..hybrid.clone()
    };
    vec![
        way("dense", Tool::Semantic),
        hybrid,
        ranked,
        way("hybrid, by sentences", Tool::Proposition),
    ]
}

/// What is asked can be answered: otherwise a figure would fall for the wrong reason.
#[test]
fn every_answer_stands_in_a_passage() {
    let corpus = Corpus::read();
    let passages = corpus.passages();
    let mut missing = Vec::new();
    for asked in corpus
        .questions
        .answerable
        .iter()
        .chain(&corpus.held_out.answerable)
    {
        for phrase in &asked.holds {
            let one = corpus::Answerable {
                holds: vec![phrase.clone()],
                ..asked.clone()
            };
            let stands = passages[&asked.document]
                .iter()
                .any(|chunk| one.is_answered_by(chunk));
            if !stands {
                missing.push(format!("{} has no passage with {phrase:?}", asked.document));
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

/// A table of how ways find, as in the README.
async fn ranking_table(what: &str, questions: &Questions, ways: &[Way]) -> Table {
    let mut rows = Vec::new();
    for way in ways {
        let found = ranking(&questions.answerable, way).await;
        rows.push(Row {
            by_model: way.name.contains(table::MODEL),
            name: way.name.clone(),
            figures: vec![found.hit_1, found.hit_5, found.mrr],
        });
    }
    let asked = questions.answerable.len();
    Table {
        head: [&format!("{asked} {what}"), "hit@1", "hit@5", "MRR"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        tolerance: 1.0 / asked as f64,
    }
}

/// A table of what agents answer, as in the README.
async fn answer_table(
    what: &str,
    corpus: &Corpus,
    questions: &Questions,
    agents: &[(String, Agent)],
) -> Table {
    let mut rows = Vec::new();
    for (name, agent) in agents {
        let said = answers(corpus, questions, name, agent).await;
        rows.push(Row {
            by_model: name.contains(table::MODEL),
            name: name.clone(),
            figures: vec![said.answered, said.right, said.precision, said.refused],
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

/// What takes part where a model is there.
#[cfg(feature = "llama")]
async fn model(test: &str) -> Option<Arc<dyn Embed>> {
    let model = minilm::MiniLm::load(test, minilm::TRAINED_TOKENS).await?;
    Some(model)
}

#[cfg(not(feature = "llama"))]
async fn model(_: &str) -> Option<Arc<dyn Embed>> {
    println!("skipped: what takes a model, for which the feature `llama` is missing");
    None
}

#[tokio::test]
async fn the_readme_says_what_is_measured() {
    let corpus = Corpus::read();
    let library = &corpus.library;
    let words = tools(&corpus, None).await;
    let mut ways = lexical_ways(&corpus, &words);
    let mut agents = vec![(
        "lexical (the default)".to_owned(),
        Agent::lexical(Arc::clone(library)),
    )];
    // Of the pages alone only the words are measured: they show as well whether something got worse, and in no time.
    if corpus.has_paper
        && let Some(embedder) = model("the_readme_says_what_is_measured").await
    {
        let tools = tools(&corpus, Some(Arc::clone(&embedder))).await;
        ways.extend(model_ways(table::MODEL, &tools, &embedder));
        let agent = Agent::builder(Arc::clone(library), tools).build();
        agents.push((format!("hybrid ({})", table::MODEL), agent));
    }
    let tables = [
        ranking_table("questions", &corpus.questions, &ways).await,
        answer_table("questions", &corpus, &corpus.questions, &agents).await,
        ranking_table("questions held out", &corpus.held_out, &ways).await,
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

/// What [`vectors_find_too`] measured.
const HASHED: &str = "\
| 52 questions | hit@1 | hit@5 | MRR |
|---|---|---|---|
| dense (hashed words) | 0.31 | 0.63 | 0.43 |
| hybrid (hashed words) | 0.50 | 0.87 | 0.65 |
| hybrid + MaxSim (hashed words) | 0.42 | 0.73 | 0.54 |
| hybrid, by sentences (hashed words) | 0.56 | 0.87 | 0.70 |
";
/// The same without the paper.
const HASHED_WITHOUT_PAPER: &str = "\
| 24 questions | hit@1 | hit@5 | MRR |
|---|---|---|---|
| dense (hashed words) | 0.21 | 0.38 | 0.29 |
| hybrid (hashed words) | 0.33 | 0.71 | 0.49 |
| hybrid + MaxSim (hashed words) | 0.38 | 0.71 | 0.50 |
| hybrid, by sentences (hashed words) | 0.54 | 0.75 | 0.65 |
";

/// The way of vectors, with an embedder that knows no meaning: so that it is walked where there is no model. Its figures say nothing of one.
#[tokio::test]
async fn vectors_find_too() {
    let corpus = Corpus::read();
    let embedder: Arc<dyn Embed> = Arc::new(HashedWords);
    let tools = tools(&corpus, Some(Arc::clone(&embedder))).await;
    let ways = model_ways("hashed words", &tools, &embedder);
    let table = ranking_table("questions", &corpus.questions, &ways).await;
    println!("\n{table}");
    let page = if corpus.has_paper {
        HASHED
    } else {
        HASHED_WITHOUT_PAPER
    };
    table.check(page).unwrap();
}
