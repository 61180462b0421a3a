//! Runs one question through all steps and emits an event as each step begins or ends, in the order
//! in which Forge's page shows them.

mod by_meaning;
mod fallback;
mod traverse;

use std::sync::Arc;
use std::time::Instant;

use self::fallback::{FailedPart, Failures};
use self::traverse::ExplanationIds;
use super::pool::Pool;
use super::{AgentQuestion, Parts};
use crate::answer::cache::Lookup;
use crate::answer::error::AnswerError;
use crate::answer::figures::{count, milliseconds};
use crate::answer::generate::{GenerateRequest, send_words};
use crate::answer::judge::{
    Analysis, Expansion, Gate, Grade, Judge, Judgement, LexicalJudge, NextStep, Progress, SearchRecord,
    ToolSpec,
};
use crate::answer::steps::{WriteSteps, check_schema, checked, write_answer};
use crate::answer::welcome::welcome;
use crate::graph::GraphTraverse;
use crate::models::{ModelError, Rank};
use crate::search::follow_up::follow_up;
use crate::search::meaning::Meaning;
use crate::search::plan::{self, Plan};
use crate::search::tools::{SearchResults, Tool, ToolError};
use crate::search::topic::topic;
use crate::{GeneratedAnswer, Hit, Level, Library, SearchTools, search::rank};
use ragwire::event::{
    CacheMiss, CragAction, CragClass, Mode, RerankResult, RetrievalResult, RetrievalStart, Review, Search,
    Source, ToolCall, ToolResult, Verdict,
};
use ragwire::{Metadata, Sink, Usage};

/// The tool name under which the decomposition of a question is reported.
const DECOMPOSE: &str = "decompose_query";

/// The search tools that a judge may choose from, most useful first, with the description that it
/// reads.
const TOOLS: [(Tool, &str); 5] = [
    (
        Tool::Hybrid,
        "finds passages by their words and meaning; begin with it",
    ),
    (
        Tool::Proposition,
        "finds single sentences that state a fact: numbers, names, definitions",
    ),
    (
        Tool::Section,
        "finds whole sections: for overviews and for what several passages say together",
    ),
    (
        Tool::Semantic,
        "finds passages by their meaning alone: for questions in other words than the documents'",
    ),
    (
        Tool::Hyde,
        "imagines an answer and finds passages like it: for when nothing else found any",
    ),
];

/// The tool behind a choice of the judge.
#[derive(Clone, Copy, Debug)]
enum ToolChoice<'a> {
    Search(Tool),
    Graph(&'a GraphTraverse),
}

/// Replays the stored answer if there is one, or runs all steps.
pub(super) async fn run(
    parts: &Parts,
    question: &AgentQuestion,
    sink: &Sink,
) -> Result<Metadata, AnswerError> {
    let prompt = checked(&question.prompt)?;
    check_schema(question.schema.as_ref(), parts.generator.has_structured_results())?;
    if question.schema.is_none()
        && let Some(text) = welcome(&parts.library, &question.filter, prompt)
    {
        let analysis = analysis_by_words(parts, question, prompt);
        return greet(&analysis, prompt, text, sink).await;
    }
    let user = question.filter.user.as_deref();
    let library = parts.library.seen_by(user);
    if library.passages_found() == 0 {
        return Err(AnswerError::NoDocuments);
    }
    let follows = follow_up(library, prompt, &question.earlier);
    let asked = follows.as_ref().map_or(prompt, |follows| &follows.question);
    let topic = topic(library, asked, &question.earlier);
    let mut tools = parts.tools.clone().within(question.filter.clone()).amid(topic);
    if let Some(follows) = &follows {
        tools = tools.after(follows.before.clone()).await?;
    }
    let judge = user.and_then(|user| parts.judge.for_user(user));
    let mut run = Run {
        parts,
        judge: judge.unwrap_or_else(|| Arc::clone(&parts.judge)),
        tools,
        question,
        prompt,
        query: follows.map_or_else(|| prompt.to_owned(), |follows| follows.question),
        sink,
        pool: Pool::default(),
        searched: Vec::new(),
        reviews: 0,
        tools_used: Vec::new(),
        usage: None,
        explanation_ids: ExplanationIds::default(),
        searches_words: false,
        meaning: None,
        failures: Failures::default(),
    };
    // An answer that depends on a conversation is only valid within it, one that follows
    // instructions or a schema only with them, and one from some documents only for these.
    let is_plain = question.earlier.is_empty()
        && question.instructions.is_empty()
        && question.schema.is_none()
        && !question.filter.has_conditions();
    let cache = parts.cache.as_ref().filter(|_| is_plain);
    let Some(cache) = cache else {
        let answer = run.answer(false).await?;
        return Ok(answer.metadata);
    };
    // The settings that an answer depends on besides documents and question.
    let mode = question.mode.map_or("any", Mode::as_str);
    let scope = format!("{mode} {}", question.scope);
    match cache.lookup(&scope, prompt).await {
        Lookup::Hit(hit) => {
            // Forge's page shows the analysis first. Asking a model for one would cost more than
            // the stored answer saves.
            let analysis = analysis_by_words(parts, question, prompt);
            let mut event = analysis.event(prompt);
            event.estimated_mode = question.mode.unwrap_or_else(|| run.mode(&analysis));
            sink.send(event).await?;
            Ok(hit.replay(sink).await?)
        }
        Lookup::Miss(ticket) => {
            let answer = run.answer(true).await?;
            cache.store(ticket, &answer.generated, answer.sources, answer.mode.as_str());
            Ok(answer.metadata)
        }
    }
}

/// Answers without a search what no document can answer.
async fn greet(
    analysis: &Judgement<Analysis>,
    prompt: &str,
    text: String,
    sink: &Sink,
) -> Result<Metadata, AnswerError> {
    sink.send(analysis.event(prompt)).await?;
    send_words(sink, &text).await?;
    let answered = GeneratedAnswer::answered(Vec::new());
    Ok(answered.metadata().mode(Mode::Direct.as_str()))
}

/// Assesses a question without a model and without its conversation.
fn analysis_by_words(parts: &Parts, question: &AgentQuestion, prompt: &str) -> Judgement<Analysis> {
    let judge = LexicalJudge::new(Arc::clone(&parts.library)).user(question.filter.user.as_deref());
    Judgement::lexical(judge.analysis(prompt, &[]))
}

struct AgentAnswer {
    generated: GeneratedAnswer,
    sources: Vec<Source>,
    mode: Mode,
    metadata: Metadata,
}

struct Run<'a> {
    parts: &'a Parts,
    /// The judge of `parts` for the user who asks.
    judge: Arc<dyn Judge>,
    /// The tools over the documents that the question selects.
    tools: SearchTools,
    question: &'a AgentQuestion,
    prompt: &'a str,
    /// The question as it can be understood without the conversation. It is what is searched for and
    /// graded.
    query: String,
    sink: &'a Sink,
    pool: Pool,
    searched: Vec<SearchRecord>,
    reviews: u32,
    tools_used: Vec<String>,
    /// The usage of the judge's model calls.
    usage: Option<Usage>,
    explanation_ids: ExplanationIds,
    /// Whether the embedder failed in this turn.
    searches_words: bool,
    /// Compares texts with the question, once the gate or the writer needs it.
    meaning: Option<Meaning>,
    failures: Failures,
}

impl Run<'_> {
    async fn answer(&mut self, is_cache_miss: bool) -> Result<AgentAnswer, AnswerError> {
        let start = Instant::now();
        let analysis = self.judge.analyse(self.prompt, &self.question.earlier).await?;
        self.add_usage(analysis.usage.as_ref());
        let mode = self.question.mode.unwrap_or_else(|| self.mode(&analysis));
        let mut event = analysis.event(self.prompt);
        event.estimated_mode = mode;
        self.sink.send(event).await?;
        if is_cache_miss {
            self.sink.send(CacheMiss::new()).await?;
        }
        let parts = analysis.value.sub_queries;
        match mode {
            Mode::Direct => self.direct(&parts).await?,
            Mode::Agentic => {
                if !parts.is_empty() {
                    self.send_decomposition(&parts, milliseconds(start)).await?;
                }
                self.agentic(&parts).await?;
            }
        }
        let context = self.order().await?;
        self.write(context, mode).await
    }

    /// Searches for the question and its parts. If the gate rejects every hit, searches once more
    /// with the other tools.
    async fn direct(&mut self, parts: &[String]) -> Result<(), AnswerError> {
        let mut queries = Plan::of(&self.query).queries;
        for part in parts {
            if !queries.contains(part) {
                queries.push(part.clone());
            }
        }
        let mut new = Vec::new();
        for query in queries {
            new.extend(self.search(Tool::Hybrid, &query, 1).await?);
        }
        // The gate reads only hits that may become context, not the long tail.
        let mut candidates = self.pool.best(self.parts.budget.hits);
        candidates.retain(|hit| new.iter().any(|new| new.chunk.id == hit.chunk.id));
        if self.gate(&candidates).await? != CragAction::ReRetrieve {
            return Ok(());
        }
        let mut new = self.search(Tool::Proposition, &self.query.clone(), 2).await?;
        if let Some(passage) = self.hypothesis().await? {
            new.extend(self.search(Tool::Hyde, &passage, 2).await?);
        }
        if !new.is_empty() {
            self.gate(&new).await?;
        }
        Ok(())
    }

    /// Searches step by step, with the tool and query that the judge chooses. The parts of the
    /// question come first.
    async fn agentic(&mut self, parts: &[String]) -> Result<(), AnswerError> {
        let mut tools: Vec<(ToolChoice<'_>, ToolSpec)> = TOOLS
            .iter()
            .filter(|(tool, _)| self.tools.has(*tool))
            .map(|(tool, description)| {
                (
                    ToolChoice::Search(*tool),
                    ToolSpec::new(self.tools.name(*tool), *description),
                )
            })
            .collect();
        tools.extend(
            self.graph()
                .map(|graph| (ToolChoice::Graph(graph), traverse::tool_spec())),
        );
        let specs: Vec<ToolSpec> = tools.iter().map(|(_, spec)| spec.clone()).collect();
        let most = self.searches();
        // The decomposition was reported as the first iteration.
        let before = u32::from(!parts.is_empty());
        let mut first = parts
            .iter()
            .map(|part| (ToolChoice::Search(Tool::Hybrid), part.clone()));
        for done in 0..most {
            let (choice, query) = match first.next() {
                Some(part) => part,
                None => {
                    let found = self.pool.best(self.parts.budget.context_chunks);
                    let progress =
                        Progress::new(&self.query, &specs, most - done).after(&self.searched, &found);
                    let next = self.judge.next_step(progress).await?;
                    self.add_usage(next.usage.as_ref());
                    let NextStep::Search { tool: name, query } = next.value else {
                        break;
                    };
                    // A judge that names a tool it was not offered ends the search.
                    let Some((choice, _)) = tools.iter().find(|(_, spec)| spec.name == name) else {
                        break;
                    };
                    (*choice, query)
                }
            };
            let iteration = before + done + 1;
            let new = match choice {
                ToolChoice::Graph(graph) => self.traverse(graph, &query, iteration).await?,
                ToolChoice::Search(Tool::Hyde) => {
                    let passage = self.hypothesis().await?.unwrap_or(query);
                    self.search(Tool::Hyde, &passage, iteration).await?
                }
                ToolChoice::Search(tool) => self.search(tool, &query, iteration).await?,
            };
            if !new.is_empty() && !matches!(choice, ToolChoice::Graph(_)) {
                self.gate(&new).await?;
            }
        }
        Ok(())
    }

    async fn send_decomposition(&mut self, parts: &[String], took: u64) -> Result<(), AnswerError> {
        let input = serde_json::json!({ "query": self.prompt });
        let call = ToolCall::new(DECOMPOSE, input).iteration(1u32);
        self.sink.send(call).await?;
        let result = serde_json::json!({ "sub_queries": parts });
        let result = ToolResult::new(DECOMPOSE, result).duration_ms(took);
        self.sink.send(result).await?;
        self.record_tool(DECOMPOSE);
        Ok(())
    }

    /// Returns a made-up passage that might answer the question, if the judge can write one and
    /// there are vectors to search with.
    async fn hypothesis(&mut self) -> Result<Option<String>, AnswerError> {
        if !self.tools.has(Tool::Hyde) {
            return Ok(None);
        }
        let hypothesis = self.judge.hypothesis(&self.query).await?;
        Ok(hypothesis.map(|hypothesis| {
            self.add_usage(hypothesis.usage.as_ref());
            hypothesis.value
        }))
    }

    /// Searches and returns the hits that no earlier search had found. If the embedder fails, the
    /// question is searched for by its words.
    async fn search(&mut self, tool: Tool, query: &str, iteration: u32) -> Result<Vec<Hit>, AnswerError> {
        if self.searches_words {
            return self.search_with(Tool::Hybrid, query, iteration).await;
        }
        let start = Instant::now();
        match self.search_with(tool, query, iteration).await {
            Err(AnswerError::Tool(ToolError::Embed(error))) => {
                // The search that was begun ends before the next one begins.
                let nothing = RetrievalResult::new(self.tools.name(tool), 0, milliseconds(start));
                self.sink.send(nothing).await?;
                self.continue_by_words(&error).await?;
                let question = self.query.clone();
                // A made-up passage has words that the question lacks.
                let query = if tool == Tool::Hyde { &question } else { query };
                self.search_with(Tool::Hybrid, query, iteration).await
            }
            found => found,
        }
    }

    async fn search_with(
        &mut self,
        tool: Tool,
        query: &str,
        iteration: u32,
    ) -> Result<Vec<Hit>, AnswerError> {
        let tools = &self.tools;
        let name = tools.name(tool);
        // A made-up passage is not a query that anyone asked, so the events show the question.
        let shown = if tool == Tool::Hyde { self.prompt } else { query };
        self.sink.send(Search::new(name).query(shown).page(1u32)).await?;
        self.sink
            .send(RetrievalStart::new(name, shown, iteration))
            .await?;
        let start = Instant::now();
        let found = tools
            .search(tool, &[query.to_owned()], self.parts.budget.hits)
            .await?;
        let Some(found) = found.into_iter().next() else {
            return Ok(Vec::new());
        };
        self.sink.send(found.event(name, start.elapsed())).await?;
        let SearchResults { hits, .. } = found;
        let weight = plan::weight(query, &self.query);
        let new = self.pool.add(name, hits, weight);
        self.searched
            .push(SearchRecord::new(name, query, count(new.len())));
        self.record_tool(name);
        Ok(new)
    }

    /// Grades hits. Where the gate says so, ambiguous hits are replaced by their sections.
    async fn gate(&mut self, hits: &[Hit]) -> Result<CragAction, AnswerError> {
        let mut grades = self.judge.grade(&self.query, hits).await?;
        self.grade_by_meaning(hits, &mut grades).await?;
        self.add_usage(grades.usage.as_ref());
        let action = Gate::of(&grades.value).action;
        let mut last = grades.value.clone();
        let mut expansions = Vec::new();
        if action == CragAction::Expand {
            let ambiguous = (0..hits.len()).filter(|at| grades.value[*at].class == CragClass::Ambiguous);
            let wider = self.parents(hits, ambiguous.collect()).await?;
            let texts: Vec<Hit> = wider.iter().map(|(_, hit)| hit.clone()).collect();
            let mut again = self.judge.grade(&self.query, &texts).await?;
            self.grade_by_meaning(&texts, &mut again).await?;
            self.add_usage(again.usage.as_ref());
            for ((at, wider), grade) in wider.into_iter().zip(again.value) {
                // A section that scores lower than its passage does not replace it.
                if grade.score >= last[at].score {
                    self.pool.widen(&hits[at].chunk.id, &wider);
                    expansions.push(Expansion::new(at, grade.score));
                    last[at] = grade;
                }
            }
        }
        self.sink.send(grades.event(hits, &expansions)).await?;
        if self.question.review {
            self.send_review(&last, grades.by.as_str()).await?;
        }
        self.pool.grade(hits, &last);
        Ok(action)
    }

    async fn send_review(&mut self, grades: &[Grade], by: &str) -> Result<(), AnswerError> {
        let Gate {
            correct, ambiguous, ..
        } = Gate::of(grades);
        let verdict = if correct > 0 {
            Verdict::Approved
        } else {
            Verdict::Rejected
        };
        self.reviews += 1;
        let of = grades.len();
        let feedback = format!("{correct} of {of} passages answer and {ambiguous} may, says {by}");
        let review = Review::new(self.reviews, verdict).feedback(feedback);
        Ok(self.sink.send(review).await?)
    }

    /// Reads the parent sections of some hits. Hits that are sections are left out.
    async fn parents(&self, hits: &[Hit], which: Vec<usize>) -> Result<Vec<(usize, Hit)>, AnswerError> {
        let chunks: Vec<_> = which.into_iter().map(|at| (at, hits[at].clone())).collect();
        let parents = move |library: &Library| {
            let mut wider = Vec::new();
            for (at, hit) in chunks {
                if hit.chunk.level != Level::Section
                    && let Some(parent) = library.parent(&hit.chunk)?
                {
                    wider.push((at, Hit::new(parent, hit.score)));
                }
            }
            Ok(wider)
        };
        let found = self.parts.library.reading(parents).await?;
        found.map_err(AnswerError::Library)
    }

    /// Puts the evidence into its final order and cuts it to the budget. If the ranker fails, the
    /// order of the searches is final.
    async fn order(&mut self) -> Result<Vec<Hit>, AnswerError> {
        let start = Instant::now();
        let most = self.parts.budget.context_chunks;
        let ranked = match &self.parts.ranker {
            None => None,
            Some(ranker) => match self.rank(&**ranker, most).await {
                Ok(hits) => Some((ranker.method(), hits)),
                Err(error) => {
                    self.continue_unranked(&error).await?;
                    None
                }
            },
        };
        let is_ranked = ranked.is_some();
        let (method, mut context) = ranked.unwrap_or_else(|| ("rrf", self.pool.best(usize::MAX)));
        let before = context.len();
        context.truncate(most);
        let mut event = RerankResult::new(method, count(before), count(context.len()), milliseconds(start));
        if let Some(best) = context.first() {
            event = event.top_score(f64::from(best.score));
        }
        self.sink.send(event).await?;
        if is_ranked {
            self.record_tool(&rank::tool(method));
        }
        Ok(context)
    }

    /// Returns the best hits in the order of the ranker.
    async fn rank(&self, ranker: &dyn Rank, most: usize) -> Result<Vec<Hit>, ModelError> {
        let mut hits = self.pool.best(2 * most.max(self.parts.budget.hits));
        let texts = hits.iter().map(|hit| hit.chunk.text.clone()).collect();
        let scores = ranker.rank(&self.query, texts).await?;
        if scores.len() != hits.len() {
            let message = "the ranker returned another number of scores than passages";
            return Err(ModelError::Failed(message.into()));
        }
        for (hit, score) in hits.iter_mut().zip(scores) {
            hit.score = score;
        }
        // The sort is stable: equal scores keep the order of the searches.
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(hits)
    }

    /// Writes the answer, verifies it if the question asks for that, and assembles the turn's
    /// metadata.
    async fn write(&mut self, context: Vec<Hit>, mode: Mode) -> Result<AgentAnswer, AnswerError> {
        let meaning = self.take_meaning().await?;
        let tool = self.searched.first().map_or("", |searched| &searched.tool);
        let request = GenerateRequest::new(self.prompt, &context, tool)
            .filter(&self.question.filter)
            .earlier(&self.question.earlier)
            .instructions(&self.question.instructions)
            .schema(self.question.schema.as_ref());
        let steps = WriteSteps::new(&*self.parts.generator)
            .verifier(self.question.verify.then_some(&*self.judge))
            .sources_last(self.question.sources_last);
        let mut written = write_answer(request.meaning(meaning.as_ref()), steps, self.sink).await?;
        if let Some(error) = meaning.as_ref().and_then(Meaning::failure) {
            self.failures.add(FailedPart::Embedder, error.code());
        }
        self.pool.credit(&mut written.generated.citations);
        self.add_usage(written.judge_usage.take().as_ref());
        let tools_used = std::mem::take(&mut self.tools_used);
        let generated = &mut written.generated;
        if let Some(code) = generated.fallback {
            self.failures.add(FailedPart::LanguageModel, code);
        }
        // Also keeps the answer out of the cache.
        generated.fallback = self.failures.code();
        let metadata = written.metadata(mode.as_str(), tools_used, self.usage.take());
        let metadata = match self.failures.names() {
            none if none.is_empty() => metadata,
            names => metadata.with("fallback_parts", names),
        };
        Ok(AgentAnswer {
            generated: written.generated,
            sources: written.sources,
            mode,
            metadata,
        })
    }

    /// The number of searches that an agent may make.
    fn searches(&self) -> u32 {
        self.question.searches.unwrap_or(self.parts.budget.searches)
    }

    fn record_tool(&mut self, tool: &str) {
        if self.tools_used.iter().all(|used| used != tool) {
            self.tools_used.push(tool.to_owned());
        }
    }

    /// Adds the usage of a judge, except its speed: the reported speed is that of the writer.
    fn add_usage(&mut self, usage: Option<&Usage>) {
        if let Some(more) = usage {
            self.usage = Some(self.usage.take().unwrap_or_default().plus(more));
        }
    }
}
