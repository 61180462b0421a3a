//! The whole pipeline for one question, in the order in which Forge's page shows it: analysis,
//! stored answers, search, quality gate, ranking, answer, verification. Each step is reported as an
//! event when it happens.
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
//! There are two ways to the evidence. *Direct*: the question and its parts are searched for and
//! the gate judges the hits; if it rejects all of them, one round with other tools follows.
//! *Agentic*: the judge chooses tool and query of each step, within a [`Budget`]. Ranking, answer
//! and verification are the same for both.
//!
//! Every part that judges, searches or writes can be replaced. This module knows only the order of
//! the steps, and reports them.

mod pool;
mod run;

use std::sync::Arc;

use super::graph::GraphTraverse;
use super::{DocumentFilter, Library, Retrieve, SearchTools, SemanticCache, Tool};
use crate::answer::error::AnswerError;
use crate::answer::extractive::Extractive;
use crate::answer::generate::Generate;
use crate::answer::judge::{Judge, LexicalJudge};
use crate::models::{ChatMessage, Rank};
use crate::search::store::{MemoryStore, Vectors};
use ragwire::event::Mode;
use ragwire::{Metadata, Sink};
use serde_json::Value;

/// The limits on what an answer may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// Number of searches of an agent at most. Default: 6. Each may be a model call, and what six
    /// searches did not find a seventh rarely does.
    pub searches: u32,
    /// Number of hits taken from each search. Default: 10.
    pub hits: usize,
    /// Number of chunks that the answer is written from. Default: 8. More rarely help, and a small
    /// model has to read them all.
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

/// A question, and how it is to be answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentQuestion {
    /// The question.
    pub prompt: String,
    /// The conversation before it, oldest first.
    pub earlier: Vec<ChatMessage>,
    /// The application's instructions for the model that writes the answer; empty if there are
    /// none.
    pub instructions: String,
    /// How it is to be answered; if `None`, the judge decides.
    pub mode: Option<Mode>,
    /// Whether the gate's decision is also reported as a `review` event (ADR 0007).
    pub review: bool,
    /// Whether the claims of the answer are verified.
    pub verify: bool,
    /// Whether the sources are reported after the answer, as on Forge's page, rather than before
    /// it.
    pub sources_last: bool,
    /// Overrides [`Budget::searches`] for this question.
    pub searches: Option<u32>,
    /// Who may share stored answers: the owner and the collection, or empty if everyone shares
    /// them.
    pub scope: String,
    /// The documents that are searched.
    pub filter: DocumentFilter,
    /// The JSON schema of the answer, if it is to be JSON.
    pub schema: Option<Value>,
}

impl AgentQuestion {
    /// A question without a conversation: the judge chooses the mode, the sources come before the
    /// answer, and the answer is verified.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            earlier: Vec::new(),
            instructions: String::new(),
            mode: None,
            review: false,
            verify: true,
            sources_last: false,
            searches: None,
            scope: String::new(),
            filter: DocumentFilter::default(),
            schema: None,
        }
    }

    /// Sets the conversation before the question, oldest first.
    #[must_use]
    pub fn earlier(mut self, earlier: Vec<ChatMessage>) -> Self {
        self.earlier = earlier;
        self
    }

    /// Sets the application's instructions for the model that writes the answer.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// Sets how the question is answered.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets whether the gate's decision is also reported as a `review` event.
    #[must_use]
    pub fn review(mut self, review: bool) -> Self {
        self.review = review;
        self
    }

    /// Sets whether the claims of the answer are verified.
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Sets whether the sources are reported after the answer.
    #[must_use]
    pub fn sources_last(mut self, last: bool) -> Self {
        self.sources_last = last;
        self
    }

    /// Sets how many searches an agent may make for this question.
    #[must_use]
    pub fn searches(mut self, searches: u32) -> Self {
        self.searches = Some(searches);
        self
    }

    /// Sets who may share stored answers.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }

    /// Sets which documents are searched. The graph is not searched if this is not all of them.
    #[must_use]
    pub fn filter(mut self, filter: DocumentFilter) -> Self {
        self.filter = filter;
        self
    }

    /// Sets the JSON schema of the answer. The text is then JSON without citations, and also sent as
    /// a `structured_result` event. An agent without
    /// [structured results](Agent::has_structured_results) refuses the question. If no document
    /// answers it, the text is the sentence that says so.
    #[must_use]
    pub fn schema(mut self, schema: Option<Value>) -> Self {
        self.schema = schema;
        self
    }
}

struct Parts {
    library: Arc<Library>,
    tools: SearchTools,
    /// Searches passages by words, if the embedder of `tools` fails.
    words: SearchTools,
    judge: Arc<dyn Judge>,
    generator: Arc<dyn Generate>,
    ranker: Option<Arc<dyn Rank>>,
    graph: Option<GraphTraverse>,
    cache: Option<Arc<SemanticCache>>,
    budget: Budget,
}

/// The whole pipeline. Clones share its parts.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use ragwire::Turn;
/// use ragwire_rag::{Agent, AgentQuestion, Library, LibraryLimits, parse};
///
/// let library = Arc::new(Library::in_memory(LibraryLimits::default())?);
/// library.add("birds.md", &parse("birds.md", b"A robin sings at dawn.", &Default::default())?)?;
///
/// let agent = Agent::lexical(library);
/// let question = AgentQuestion::new("When does the robin sing?");
/// let answer = Turn::start(|sink| agent.answer(question, sink)).commit().await?.collect().await?;
/// assert_eq!(answer.text, "A robin sings at dawn. [1]");
/// # Ok(())
/// # }
/// ```
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
    /// Builds an agent that searches with `tools` in `library`. By default it judges by words and
    /// quotes sentences.
    pub fn builder(library: Arc<Library>, tools: SearchTools) -> AgentBuilder {
        AgentBuilder {
            parts: Parts {
                judge: Arc::new(LexicalJudge::new(Arc::clone(&library))),
                generator: Arc::new(Extractive::new(Arc::clone(&library))),
                ranker: None,
                graph: None,
                cache: None,
                budget: Budget::default(),
                words: words(&library),
                library,
                tools,
            },
        }
    }

    /// An agent that searches with BM25, judges by words and quotes sentences: no model and no
    /// store.
    pub fn lexical(library: Arc<Library>) -> Self {
        let tools = words(&library);
        Self::builder(library, tools).build()
    }

    /// Whether a question's [`schema`](AgentQuestion::schema) is honoured: a model writes the answer.
    pub fn has_structured_results(&self) -> bool {
        self.parts.generator.has_structured_results()
    }

    /// Returns the retriever of the tool that answers most questions.
    pub(crate) fn retriever(&self) -> Arc<dyn Retrieve> {
        Arc::new(self.parts.tools.retriever(Tool::Hybrid))
    }

    /// Answers a question into a sink. The future owns everything that it needs.
    ///
    /// # Back-pressure
    ///
    /// The future waits while the sink is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the answer and the model calls for it; nothing is stored.
    ///
    /// # Errors
    ///
    /// Failures only. Documents that do not answer the question are not an error: the text says so, and
    /// `answered` is false in the metadata. If passages are near, the text shows them, `citations` names
    /// them and `closest` is true; otherwise `citations` is empty.
    ///
    /// An embedder or a ranker that fails is not an error either: the turn continues by words or in
    /// the order of the searches, a `reasoning` event says so, and the metadata has the error's code as
    /// `fallback` and the parts that failed as `fallback_parts` (`embedder`, `reranker`,
    /// `language_model`).
    pub fn answer(
        &self,
        question: AgentQuestion,
        sink: Sink,
    ) -> impl Future<Output = Result<Metadata, AnswerError>> + Send + use<> {
        let parts = Arc::clone(&self.parts);
        async move { run::run(&parts, &question, &sink).await }
    }
}

/// Searches the passages of a library by their words, without a store.
fn words(library: &Arc<Library>) -> SearchTools {
    let store = Arc::new(MemoryStore::new(Vectors::NONE));
    SearchTools::words(Arc::clone(library), store)
}

/// Configures an [`Agent`].
pub struct AgentBuilder {
    parts: Parts,
}

impl std::fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentBuilder").finish_non_exhaustive()
    }
}

impl AgentBuilder {
    /// Sets the judge, which analyses, grades, verifies and plans.
    #[must_use]
    pub fn judge(mut self, judge: Arc<dyn Judge>) -> Self {
        self.parts.judge = judge;
        self
    }

    /// Sets the generator, which writes the answer.
    #[must_use]
    pub fn generator(mut self, generator: Arc<dyn Generate>) -> Self {
        self.parts.generator = generator;
        self
    }

    /// Sets the ranker, which orders the evidence. Without one, and in a turn in which it fails, the
    /// evidence keeps the fused order of the searches.
    #[must_use]
    pub fn ranker(mut self, ranker: Arc<dyn Rank>) -> Self {
        self.parts.ranker = Some(ranker);
        self
    }

    /// Sets a graph built from the same library. An agent may search it with `graph_traverse` if it
    /// has any triples; a direct answer does not use it. If no model judges, questions that relate
    /// things are then answered agentically, unless [`AgentQuestion::mode`] is set.
    #[must_use]
    pub fn graph(mut self, graph: GraphTraverse) -> Self {
        self.parts.graph = Some(graph);
        self
    }

    /// Sets the cache of stored answers.
    #[must_use]
    pub fn cache(mut self, cache: Arc<SemanticCache>) -> Self {
        self.parts.cache = Some(cache);
        self
    }

    /// Sets the limits on what an answer may cost.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.parts.budget = budget;
        self
    }

    /// Builds the agent.
    pub fn build(self) -> Agent {
        Agent {
            parts: Arc::new(self.parts),
        }
    }
}

#[cfg(test)]
mod tests;
