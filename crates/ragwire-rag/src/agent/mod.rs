//! The whole pipeline of Forge's page (seed 000) for one question: analysis, stored answers, tools, quality gate, order, answer, verification, each
//! an event while it happens.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use ragwire::Turn;
//! use ragwire_rag::{Agent, AgentQuestion, Library, LibraryLimits};
//!
//! let library = Arc::new(Library::open("data".as_ref(), LibraryLimits::default())?);
//! let agent = Agent::lexical(library);
//! let question = AgentQuestion::new("How do I install it?");
//! let turn = Turn::start(|sink| agent.answer(question, sink)).commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Two ways lead to the evidence. *Direct*: the question and its parts are searched for, the gate judges what came, and where it lets nothing pass
//! one round with other tools follows. *Agentic*: the judge chooses tool and query of each step, within a [`Budget`]. From there on they are one:
//! order, answer, verification.
//!
//! Everything that judges, searches or writes is a part that can be replaced; this module knows only the order of the steps and tells of them.

mod pool;
mod run;

use std::sync::Arc;

use super::graph::GraphTraverse;
use super::{Library, SearchTools, SemanticCache};
use crate::answer::error::AnswerError;
use crate::answer::generate::{Extractive, Generate};
use crate::answer::judge::{Judge, LexicalJudge};
use crate::models::{ChatMessage, Rank};
use crate::search::store::{MemoryStore, Vectors};
use ragwire::event::Mode;
use ragwire::{Metadata, Sink};

/// How much an answer may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// Most searches of an agent: each may be a call of a model, and what six did not bring the seventh rarely does.
    pub searches: u32,
    /// Hits taken from each search.
    pub hits: usize,
    /// Chunks that the answer is written from: more rarely help, and a small model reads them all.
    pub context_chunks: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            searches: 6,
            hits: 10,
            context_chunks: 8,
        }
    }
}

/// A question and how it is to be answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AgentQuestion {
    /// What is asked.
    pub prompt: String,
    /// What was asked and answered before, oldest first.
    pub earlier: Vec<ChatMessage>,
    /// How it is to be answered; the judge decides where this is not said.
    pub mode: Option<Mode>,
    /// Whether what the gate says is told as `review` as well, in the words of ADR 0007.
    pub review: bool,
    /// Whether the answer is checked claim by claim once it is written.
    pub verify: bool,
    /// Whether the passages are told once the answer is written, as the seed has it, and not before.
    pub sources_last: bool,
    /// Most searches of an agent, where that is not its [`Budget`]'s.
    pub searches: Option<u32>,
    /// Whose stored answers may be said again: the owner and the collection, unless all share them.
    pub scope: String,
}

impl AgentQuestion {
    /// A question that stands alone: its mode is the judge's choice, the sources come before the answer, and that is verified.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            earlier: Vec::new(),
            mode: None,
            review: false,
            verify: true,
            sources_last: false,
            searches: None,
            scope: String::new(),
        }
    }

    /// Says what was asked and answered before, oldest first.
    #[must_use]
    pub fn earlier(mut self, earlier: Vec<ChatMessage>) -> Self {
        self.earlier = earlier;
        self
    }

    /// Sets how it is answered.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets whether the gate is told as a `review`.
    #[must_use]
    pub fn review(mut self, review: bool) -> Self {
        self.review = review;
        self
    }

    /// Sets whether the answer is checked.
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Sets whether the passages are told once the answer is written.
    #[must_use]
    pub fn sources_last(mut self, last: bool) -> Self {
        self.sources_last = last;
        self
    }

    /// Sets how many searches an agent may make for it.
    #[must_use]
    pub fn searches(mut self, searches: u32) -> Self {
        self.searches = Some(searches);
        self
    }

    /// Sets whose stored answers may be said again.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }
}

struct Parts {
    library: Arc<Library>,
    tools: SearchTools,
    judge: Arc<dyn Judge>,
    generator: Arc<dyn Generate>,
    ranker: Option<Arc<dyn Rank>>,
    graph: Option<GraphTraverse>,
    cache: Option<Arc<SemanticCache>>,
    budget: Budget,
}

/// All steps for one question. Clones share the parts.
#[derive(Clone)]
pub struct Agent {
    parts: Arc<Parts>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = &self.parts;
        f.debug_struct("Agent")
            .field("tools", &parts.tools)
            .field("judge", &parts.judge.name())
            .field("model", &parts.generator.model())
            .field("ranker", &parts.ranker.as_ref().map(|ranker| ranker.method()))
            .field("graph", &parts.graph.is_some())
            .field("cache", &parts.cache.is_some())
            .field("budget", &parts.budget)
            .finish()
    }
}

impl Agent {
    /// An agent that searches with `tools` in `library`; it judges by words and quotes, unless it is told otherwise.
    pub fn builder(library: Arc<Library>, tools: SearchTools) -> AgentBuilder {
        AgentBuilder {
            parts: Parts {
                judge: Arc::new(LexicalJudge::new(Arc::clone(&library))),
                generator: Arc::new(Extractive::new(Arc::clone(&library))),
                ranker: None,
                graph: None,
                cache: None,
                budget: Budget::default(),
                library,
                tools,
            },
        }
    }

    /// BM25 over passages, words that judge, quoted sentences: no model and no store.
    pub fn lexical(library: Arc<Library>) -> Self {
        let store = Arc::new(MemoryStore::new(Vectors::NONE));
        let tools = SearchTools::words(Arc::clone(&library), store);
        Self::builder(library, tools).build()
    }

    /// Answers a question into a sink. The future owns all it needs.
    ///
    /// # Back-pressure
    /// It waits with the sink.
    ///
    /// # Cancel safety
    /// Dropping the future ends the answer and whatever a model does for it; nothing is stored.
    ///
    /// # Errors
    /// Only what went wrong. Documents without an answer are no error: the text says so, `citations` is empty, and the metadata's member
    /// `answered` is false.
    pub fn answer(
        &self,
        question: AgentQuestion,
        sink: Sink,
    ) -> impl Future<Output = Result<Metadata, AnswerError>> + Send + use<> {
        let parts = Arc::clone(&self.parts);
        async move { run::run(&parts, &question, &sink).await }
    }
}

/// The parts of an [`Agent`].
pub struct AgentBuilder {
    parts: Parts,
}

impl std::fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentBuilder").finish_non_exhaustive()
    }
}

impl AgentBuilder {
    /// Who analyses, grades, verifies and plans.
    #[must_use]
    pub fn judge(mut self, judge: Arc<dyn Judge>) -> Self {
        self.parts.judge = judge;
        self
    }

    /// Who writes.
    #[must_use]
    pub fn generator(mut self, generator: Arc<dyn Generate>) -> Self {
        self.parts.generator = generator;
        self
    }

    /// Who puts the evidence into order; without one it stays as the searches had it, fused.
    #[must_use]
    pub fn ranker(mut self, ranker: Arc<dyn Rank>) -> Self {
        self.parts.ranker = Some(ranker);
        self
    }

    /// A graph made from the same library: an agent may search it with `graph_traverse`, as long as there is something in it. A direct answer
    /// does not. Without a model, questions that relate things are answered by an agent then, unless they say how they are to be
    /// ([`AgentQuestion::mode`]).
    #[must_use]
    pub fn graph(mut self, graph: GraphTraverse) -> Self {
        self.parts.graph = Some(graph);
        self
    }

    /// Stored answers.
    #[must_use]
    pub fn cache(mut self, cache: Arc<SemanticCache>) -> Self {
        self.parts.cache = Some(cache);
        self
    }

    /// How much an answer may cost.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.parts.budget = budget;
        self
    }

    /// The agent.
    pub fn build(self) -> Agent {
        Agent {
            parts: Arc::new(self.parts),
        }
    }
}

#[cfg(test)]
mod tests;
