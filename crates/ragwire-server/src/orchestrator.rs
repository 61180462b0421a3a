//! The choice among the reference pipelines.
//!
//! To use your own pipeline, implement [`Orchestrator`] and create it in `start/mod.rs`.

use std::sync::Arc;

use ragwire::orchestrator::{Answering, Searcher, Service};
use ragwire::{Failure, FailureKind, Orchestrator, Question, Sink};
use ragwire_rag::answer::Fallback;
use ragwire_rag::answer::cache::{CacheLimits, LibraryCorpus, StoreCorpus};
use ragwire_rag::answer::judge::{JudgeOptions, ModelJudge};
use ragwire_rag::graph::{GraphIndex, GraphRag, GraphTraverse};
use ragwire_rag::{Agent, DocumentRag, Extractive, Generate, Library, SemanticCache, Tool, Writer};
use serde_json::Value;

use crate::engines::Engines;

/// The reference pipelines of this server, one per service.
#[derive(Clone, Debug)]
pub struct Reference {
    agent: Agent,
    documents: DocumentRag,
    graph: Option<GraphRag>,
}

impl Reference {
    /// Creates the pipelines for a library, its graph, if there is one, and the models. Without a
    /// model, the lexical implementations are used.
    pub fn new(library: &Arc<Library>, graph: Option<&GraphIndex>, engines: &Engines) -> Self {
        let quotes: Arc<dyn Generate> = Arc::new(Extractive::new(Arc::clone(library)));
        let generator: Arc<dyn Generate> = match &engines.llm {
            Some(llm) => {
                let writer = Arc::new(Writer::new(Arc::clone(llm)));
                Arc::new(Fallback::new(writer, quotes))
            }
            None => quotes,
        };
        let mut agent =
            Agent::builder(Arc::clone(library), engines.tools.clone()).generator(Arc::clone(&generator));
        let mut documents = DocumentRag::new(Arc::new(engines.tools.retriever(Tool::Hybrid)), generator);
        let mut rag = graph.map(|index| GraphRag::new(Arc::clone(index.graph()), Arc::clone(library)));
        if let Some(llm) = &engines.llm {
            agent = agent.cache(Arc::new(cache(library, engines)));
            // Each judgement is another call of the model.
            if engines.judges {
                let options = JudgeOptions::default();
                let judge = ModelJudge::new(Arc::clone(llm), Arc::clone(library), options);
                agent = agent.judge(Arc::new(judge));
            }
            rag = rag.map(|rag| rag.model(Arc::clone(llm)));
        }
        if let Some(ranker) = &engines.ranker {
            agent = agent.ranker(Arc::clone(ranker));
            documents = documents.ranker(Arc::clone(ranker));
            rag = rag.map(|rag| rag.ranker(Arc::clone(ranker)));
        }
        if let Some(index) = graph {
            let mut traverse = GraphTraverse::new(Arc::clone(index.graph()), Arc::clone(library));
            if let Some(names) = index.entity_names() {
                traverse = traverse.names(names.clone());
                rag = rag.map(|rag| rag.names(names.clone()));
            }
            agent = agent.graph(traverse);
        }
        Self {
            agent: agent.build(),
            documents,
            graph: rag,
        }
    }
}

/// Creates the cache of answers that a model wrote. Quoted sentences are not cached, because
/// extracting them again is faster than comparing questions.
fn cache(library: &Arc<Library>, engines: &Engines) -> SemanticCache {
    let limits = CacheLimits::default();
    match &engines.embedder {
        Some(embedder) => {
            let indexer = Arc::clone(&engines.indexer);
            let corpus = StoreCorpus::new(Arc::clone(library), Arc::clone(&engines.store), move || {
                indexer.revision()
            });
            SemanticCache::dense(Arc::clone(embedder), Arc::new(corpus), limits)
        }
        None => {
            let corpus = LibraryCorpus::new(Arc::clone(library));
            SemanticCache::lexical(Arc::clone(library), Arc::new(corpus), limits)
        }
    }
}

impl Orchestrator for Reference {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        match (question.options.service, &self.graph) {
            (Service::DocumentRag(_), _) => Orchestrator::answer(&self.documents, question, sink),
            (Service::GraphRag(_), Some(graph)) => Orchestrator::answer(graph, question, sink),
            (Service::GraphRag(_), None) => {
                let why = "This server keeps no graph; start it with --graph.";
                let failure = Failure::new(FailureKind::NoGraph, why);
                Box::pin(async move { Err(failure.permanent().into()) })
            }
            // The agent also answers for services that later versions add.
            (_, _) => Orchestrator::answer(&self.agent, question, sink),
        }
    }

    fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        self.agent.searcher()
    }

    fn has_structured_results(&self) -> bool {
        Orchestrator::has_structured_results(&self.agent)
    }

    fn check_filter(&self, filter: &Value) -> Option<Result<(), String>> {
        Orchestrator::check_filter(&self.agent, filter)
    }
}
