//! One question through all steps. Each is told as it begins or ends, in the order of the seed's page.

mod traverse;

use std::sync::Arc;
use std::time::Instant;

use self::traverse::Explained;
use super::pool::Pool;
use super::{AgentQuestion, Parts};
use crate::answer::cache::Lookup;
use crate::answer::error::AnswerError;
use crate::answer::figures::{count, milliseconds};
use crate::answer::generate::GenerateRequest;
use crate::answer::judge::{
    Gate, Grade, Judged, LexicalJudge, NextStep, Progress, Searched, ToolSpec as Choice, Widened, claims,
    lexical,
};
use crate::answer::steps::{checked, source};
use crate::graph::GraphTraverse;
use crate::search::plan::Plan;
use crate::search::tools::{SearchResults, Tool};
use crate::{Generated, Hit, Level, search::rank};
use ragwire::event::{
    CacheMiss, CragAction, CragClass, GenerationStart, Mode, RerankResult, RetrievalStart, Review, Search,
    Source, Sources, ToolCall, ToolResult, Verdict,
};
use ragwire::{Metadata, Sink, Usage};

/// The name of the tool that takes a question apart.
const DECOMPOSE: &str = "decompose_query";

/// What a judge may choose from, the most useful first, and what each is for.
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

/// What stands behind a choice of the judge.
#[derive(Debug, Clone, Copy)]
enum Way<'a> {
    Search(Tool),
    Graph(&'a GraphTraverse),
}

/// The stored answer if there is one, else all steps.
pub(super) async fn run(
    parts: &Parts,
    question: &AgentQuestion,
    sink: &Sink,
) -> Result<Metadata, AnswerError> {
    let prompt = checked(&question.prompt)?;
    if parts.library.chunk_count() == 0 {
        return Err(AnswerError::NoDocuments);
    }
    let mut run = Run {
        parts,
        question,
        prompt,
        sink,
        pool: Pool::default(),
        searched: Vec::new(),
        reviews: 0,
        tools_used: Vec::new(),
        usage: None,
        explained: Explained::default(),
    };
    // An answer to a question that leans on a conversation is nobody else's.
    let cache = parts.cache.as_ref().filter(|_| question.earlier.is_empty());
    let Some(cache) = cache else {
        let answered = run.answer(false).await?;
        return Ok(answered.metadata);
    };
    // What an answer depends on besides documents and question.
    let mode = question.mode.map_or("any", Mode::as_str);
    let scope = format!("{mode} {}", question.scope);
    match cache.lookup(&scope, prompt).await {
        Lookup::Hit(hit) => {
            // The seed has the analysis first; a model's would cost more than the answer that is there.
            let judge = LexicalJudge::new(Arc::clone(&parts.library));
            let analysis = Judged::new(judge.analysis(prompt, &[]), lexical::NAME);
            let mut event = analysis.event(prompt);
            event.estimated_mode = question.mode.unwrap_or_else(|| run.mode(&analysis));
            sink.send(event).await?;
            Ok(hit.replay(sink).await?)
        }
        Lookup::Miss(ticket) => {
            let answered = run.answer(true).await?;
            cache.store(
                ticket,
                &answered.generated,
                answered.sources,
                answered.mode.as_str(),
            );
            Ok(answered.metadata)
        }
    }
}

struct Answered {
    generated: Generated,
    sources: Vec<Source>,
    mode: Mode,
    metadata: Metadata,
}

struct Run<'a> {
    parts: &'a Parts,
    question: &'a AgentQuestion,
    prompt: &'a str,
    sink: &'a Sink,
    pool: Pool,
    searched: Vec<Searched>,
    reviews: u32,
    tools_used: Vec<String>,
    /// What judges consumed.
    usage: Option<Usage>,
    explained: Explained,
}

impl Run<'_> {
    async fn answer(&mut self, missed: bool) -> Result<Answered, AnswerError> {
        let start = Instant::now();
        let analysis = self
            .parts
            .judge
            .analyse(self.prompt, &self.question.earlier)
            .await?;
        self.consumed(analysis.usage.as_ref());
        let mode = self.question.mode.unwrap_or_else(|| self.mode(&analysis));
        let mut event = analysis.event(self.prompt);
        event.estimated_mode = mode;
        self.sink.send(event).await?;
        if missed {
            self.sink.send(CacheMiss::new()).await?;
        }
        let parts = analysis.value.sub_queries;
        match mode {
            Mode::Direct => self.direct(&parts).await?,
            Mode::Agentic => {
                if !parts.is_empty() {
                    self.told_parts(&parts, milliseconds(start)).await?;
                }
                self.agentic(&parts).await?;
            }
        }
        let context = self.order().await?;
        self.write(context, mode).await
    }

    /// The question and its parts at once; where the gate lets nothing pass, once more with the other tools.
    async fn direct(&mut self, parts: &[String]) -> Result<(), AnswerError> {
        let mut queries = Plan::of(self.prompt).queries;
        for part in parts {
            if !queries.contains(part) {
                queries.push(part.clone());
            }
        }
        let mut new = Vec::new();
        for query in queries {
            new.extend(self.search(Tool::Hybrid, &query, 1).await?);
        }
        // The gate reads what may be answered from, and no long tail.
        let mut candidates = self.pool.best(self.parts.budget.hits);
        candidates.retain(|hit| new.iter().any(|new| new.chunk.id == hit.chunk.id));
        if self.gate(&candidates).await? != CragAction::ReRetrieve {
            return Ok(());
        }
        let mut new = self.search(Tool::Proposition, self.prompt, 2).await?;
        if let Some(imagined) = self.imagined().await? {
            new.extend(self.search(Tool::Hyde, &imagined, 2).await?);
        }
        if !new.is_empty() {
            self.gate(&new).await?;
        }
        Ok(())
    }

    /// Step by step, each chosen by the judge. The parts of the question come first.
    async fn agentic(&mut self, parts: &[String]) -> Result<(), AnswerError> {
        let mut tools: Vec<(Way<'_>, Choice)> = TOOLS
            .iter()
            .filter(|(tool, _)| self.parts.tools.has(*tool))
            .map(|(tool, what)| {
                (
                    Way::Search(*tool),
                    Choice::new(self.parts.tools.name(*tool), *what),
                )
            })
            .collect();
        tools.extend(self.graph().map(|graph| (Way::Graph(graph), traverse::choice())));
        let choices: Vec<Choice> = tools.iter().map(|(_, choice)| choice.clone()).collect();
        let most = self.searches();
        // What was told of the parts was the first iteration.
        let before = u32::from(!parts.is_empty());
        let mut first = parts.iter().map(|part| (Way::Search(Tool::Hybrid), part.clone()));
        for done in 0..most {
            let (way, query) = match first.next() {
                Some(part) => part,
                None => {
                    let found = self.pool.best(self.parts.budget.context_chunks);
                    let progress =
                        Progress::new(self.prompt, &choices, most - done).after(&self.searched, &found);
                    let next = self.parts.judge.next_step(progress).await?;
                    self.consumed(next.usage.as_ref());
                    let NextStep::Search { tool: name, query } = next.value else {
                        break;
                    };
                    // A judge chooses from what it was given; one that does not ends the search.
                    let Some((way, _)) = tools.iter().find(|(_, choice)| choice.name == name) else {
                        break;
                    };
                    (*way, query)
                }
            };
            let iteration = before + done + 1;
            let new = match way {
                Way::Graph(graph) => self.traverse(graph, &query, iteration).await?,
                Way::Search(Tool::Hyde) => {
                    let imagined = self.imagined().await?.unwrap_or(query);
                    self.search(Tool::Hyde, &imagined, iteration).await?
                }
                Way::Search(tool) => self.search(tool, &query, iteration).await?,
            };
            if !new.is_empty() && !matches!(way, Way::Graph(_)) {
                self.gate(&new).await?;
            }
        }
        Ok(())
    }

    async fn told_parts(&mut self, parts: &[String], took: u64) -> Result<(), AnswerError> {
        let input = serde_json::json!({ "query": self.prompt });
        let call = ToolCall::new(DECOMPOSE, input).iteration(1u32);
        self.sink.send(call).await?;
        let result = serde_json::json!({ "sub_queries": parts });
        let result = ToolResult::new(DECOMPOSE, result).duration_ms(took);
        self.sink.send(result).await?;
        self.used(DECOMPOSE);
        Ok(())
    }

    /// A passage such as might answer, where somebody can make one up and there are vectors to find its like.
    async fn imagined(&mut self) -> Result<Option<String>, AnswerError> {
        if !self.parts.tools.has(Tool::Hyde) {
            return Ok(None);
        }
        let imagined = self.parts.judge.hypothesis(self.prompt).await?;
        Ok(imagined.map(|imagined| {
            self.consumed(imagined.usage.as_ref());
            imagined.value
        }))
    }

    /// Searches, and gives what is new.
    async fn search(&mut self, tool: Tool, query: &str, iteration: u32) -> Result<Vec<Hit>, AnswerError> {
        let tools = &self.parts.tools;
        let name = tools.name(tool);
        // An imagined passage is no query that anybody asked.
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
        let new = self.pool.add(name, hits);
        self.searched.push(Searched::new(name, query, count(new.len())));
        self.used(name);
        Ok(new)
    }

    /// Grades hits; those that may answer are read with what stands around them.
    async fn gate(&mut self, hits: &[Hit]) -> Result<CragAction, AnswerError> {
        let grades = self.parts.judge.grade(self.prompt, hits).await?;
        self.consumed(grades.usage.as_ref());
        let action = Gate::of(&grades.value).action;
        let mut last = grades.value.clone();
        let mut widened = Vec::new();
        if action == CragAction::Expand {
            let ambiguous = (0..hits.len()).filter(|at| grades.value[*at].class == CragClass::Ambiguous);
            let wider = self.parents(hits, ambiguous.collect()).await?;
            let texts: Vec<Hit> = wider.iter().map(|(_, hit)| hit.clone()).collect();
            let again = self.parts.judge.grade(self.prompt, &texts).await?;
            self.consumed(again.usage.as_ref());
            for ((at, wider), grade) in wider.into_iter().zip(again.value) {
                // What got no better for it stays small.
                if grade.score >= last[at].score {
                    self.pool.widen(&hits[at].chunk.id, &wider);
                    widened.push(Widened::new(at, grade.score));
                    last[at] = grade;
                }
            }
        }
        self.sink.send(grades.event(hits, &widened)).await?;
        if self.question.review {
            self.told_review(&last, &grades.by).await?;
        }
        self.pool.grade(hits, &last);
        Ok(action)
    }

    async fn told_review(&mut self, grades: &[Grade], by: &str) -> Result<(), AnswerError> {
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

    /// The sections of some hits.
    async fn parents(&self, hits: &[Hit], which: Vec<usize>) -> Result<Vec<(usize, Hit)>, AnswerError> {
        let library = Arc::clone(&self.parts.library);
        let chunks: Vec<_> = which.into_iter().map(|at| (at, hits[at].clone())).collect();
        let parents = move || {
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
        tokio::task::spawn_blocking(parents)
            .await?
            .map_err(AnswerError::Library)
    }

    /// The evidence in its last order.
    async fn order(&mut self) -> Result<Vec<Hit>, AnswerError> {
        let start = Instant::now();
        let budget = self.parts.budget;
        let most = budget.context_chunks;
        let (method, before, context) = match &self.parts.ranker {
            None => {
                let all = self.pool.best(usize::MAX);
                let before = all.len();
                ("rrf", before, all.into_iter().take(most).collect::<Vec<_>>())
            }
            Some(ranker) => {
                let mut hits = self.pool.best(2 * most.max(budget.hits));
                let texts = hits.iter().map(|hit| hit.chunk.text.clone()).collect();
                let scores = ranker.rank(self.prompt, texts).await.map_err(AnswerError::Rank)?;
                for (hit, score) in hits.iter_mut().zip(scores) {
                    hit.score = score;
                }
                let before = hits.len();
                // Stable: equals stay as the searches had them.
                hits.sort_by(|a, b| b.score.total_cmp(&a.score));
                hits.truncate(most);
                (ranker.method(), before, hits)
            }
        };
        let mut event = RerankResult::new(method, count(before), count(context.len()), milliseconds(start));
        if let Some(best) = context.first() {
            event = event.top_score(f64::from(best.score));
        }
        self.sink.send(event).await?;
        if self.parts.ranker.is_some() {
            self.used(&rank::tool(method));
        }
        Ok(context)
    }

    /// The answer, what it was written from, and whether that holds.
    async fn write(&mut self, context: Vec<Hit>, mode: Mode) -> Result<Answered, AnswerError> {
        let generator = &self.parts.generator;
        let tool = self.searched.first().map_or("", |searched| &searched.tool);
        let request = GenerateRequest::new(self.prompt, &context, tool).earlier(&self.question.earlier);
        let fit = generator.fit(request).await?;
        let sources: Vec<Source> = context.iter().take(fit.chunks).map(source).collect();
        let told = Sources::new(sources.clone());
        if !self.question.sources_last && !sources.is_empty() {
            self.sink.send(told.clone()).await?;
        }
        let start = GenerationStart::new(count(fit.chunks), fit.tokens, generator.model());
        self.sink.send(start).await?;
        let mut generated = generator.generate(request, self.sink).await?;
        self.pool.credit(&mut generated.citations);
        if self.question.verify && generated.answered {
            let claims = claims(&generated.text);
            if !claims.is_empty() {
                let verified = self.parts.judge.verify(&claims, &context[..fit.chunks]).await?;
                self.consumed(verified.usage.as_ref());
                self.sink.send(verified.event()).await?;
            }
        }
        if self.question.sources_last && !sources.is_empty() {
            self.sink.send(told).await?;
        }
        let mut metadata = generated
            .metadata()
            .mode(mode.as_str())
            .tools_used(std::mem::take(&mut self.tools_used));
        let usage = match (generated.usage.clone(), self.usage.take()) {
            (Some(written), Some(judged)) => Some(written.plus(&judged)),
            (written, judged) => written.or(judged),
        };
        if let Some(usage) = usage {
            metadata = metadata.usage(usage);
        }
        Ok(Answered {
            generated,
            sources,
            mode,
            metadata,
        })
    }

    /// Most searches of an agent.
    fn searches(&self) -> u32 {
        self.question.searches.unwrap_or(self.parts.budget.searches)
    }

    fn used(&mut self, tool: &str) {
        if self.tools_used.iter().all(|used| used != tool) {
            self.tools_used.push(tool.to_owned());
        }
    }

    /// Adds what a judge consumed, without how fast it was: that is said of whoever writes the answer.
    fn consumed(&mut self, usage: Option<&Usage>) {
        if let Some(more) = usage {
            self.usage = Some(self.usage.take().unwrap_or_default().plus(more));
        }
    }
}
