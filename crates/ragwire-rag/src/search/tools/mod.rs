//! The retrieval tools: several ways to search a library, its store and an embedder.
//!
//! Every hit belongs to a document that the library holds when the search ends; anything else in
//! the store is ignored. The tools know nothing about the pipeline: neither the purpose of a
//! search, nor whether a language model wrote the query.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::models::{Embed, ModelError, Side};
use crate::search::about::AboutDocument;
use crate::search::beginnings::with_beginnings;
use crate::search::bounds::with_bounds;
use crate::search::index::other_vectors;
use crate::search::meaning::{Zero, nearness};
use crate::search::numbered::NumberedPart;
use crate::search::relevance::{Known, by_relevance};
use crate::search::retrieve::{Retrieve, RetrieveError, RetrieveRequest};
use crate::search::store::{Filter, MAX_HITS, Search, Store};
use crate::search::terms::Term;
use crate::{DocumentFilter, Hit, Level, Library, LibraryError};
use ragwire::event::{Levels, RetrievalResult};

mod error;

pub use error::ToolError;

/// The most queries of one call, all of which are embedded at once.
const MAX_QUERIES: usize = 32;
/// Passages that are read for each hit of a search by words, to find the most relevant.
const READ_PER_HIT: usize = 3;
/// The fewest passages that are read, so that a shorter list is the beginning of a longer one.
const MIN_READ: usize = 30;
/// Passages whose nearness by meaning is known in a search by words and meaning; the others are taken
/// to be as near as the last of these. Of 110 questions,
/// half or twice as many changed one answer.
const NEAR_PASSAGES: usize = 100;
/// How many of them are read at least though the words did not find them.
const READ_BY_MEANING: usize = 10;
/// Sentences searched for each passage wanted: often several sentences of one passage match.
const SENTENCES_PER_PASSAGE: usize = 3;

/// A way to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tool {
    /// `semantic_search`: passages by vectors.
    Semantic,
    /// `hybrid_search`: passages by words and vectors, in one order. Without an embedder it is
    /// `bm25_search`: passages by words.
    Hybrid,
    /// `proposition_search`: sentences by everything available. The hits are their passages.
    Proposition,
    /// `section_search`: sections by everything available.
    Section,
    /// `hyde_search`: passages similar to a hypothetical passage. The query is a possible answer
    /// written by a language model (HyDE, Gao et al., 2022).
    Hyde,
}

impl Tool {
    fn level(self) -> Level {
        match self {
            Self::Semantic | Self::Hybrid | Self::Hyde => Level::Passage,
            Self::Proposition => Level::Sentence,
            Self::Section => Level::Section,
        }
    }

    /// Returns whether the words of the query are searched as well.
    fn reads_words(self) -> bool {
        !matches!(self, Self::Semantic | Self::Hyde)
    }

    /// A hypothetical passage is embedded like the passages that it should resemble.
    fn side(self) -> Side {
        if self == Self::Hyde {
            Side::Passage
        } else {
            Side::Query
        }
    }
}

/// The results of one query.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SearchResults {
    /// The hits, best first, each chunk once.
    pub hits: Vec<Hit>,
    /// For each hit the sentence that matched, if sentences were searched; otherwise empty.
    pub sentences: Vec<Hit>,
    /// How many hits matched on each level. Their sum is the number of hits.
    pub levels: Levels,
    /// The score of the best hit. Its kind depends on the tool; scores of different tools are not
    /// comparable.
    pub top_score: Option<f32>,
}

impl SearchResults {
    fn new(level: Level, hits: Vec<Hit>, sentences: Vec<Hit>) -> Self {
        let count = u32::try_from(hits.len()).unwrap_or(u32::MAX);
        let levels = match level {
            Level::Section => Levels::new(count, 0, 0),
            Level::Passage => Levels::new(0, count, 0),
            Level::Sentence => Levels::new(0, 0, count),
        };
        let top_score = hits.first().map(|hit| hit.score);
        Self {
            hits,
            sentences,
            levels,
            top_score,
        }
    }

    /// Builds the event that reports these results.
    pub fn event(&self, tool: &str, took: Duration) -> RetrievalResult {
        let count = u32::try_from(self.hits.len()).unwrap_or(u32::MAX);
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let event = RetrievalResult::new(tool, count, milliseconds).levels(self.levels.clone());
        match self.top_score {
            Some(score) => event.top_score(f64::from(score)),
            None => event,
        }
    }
}

/// All search tools over one library and its store. Clones share them.
///
/// ```
/// # async fn ask(tools: &ragwire_rag::SearchTools, sink: &ragwire::Sink) -> Result<(), Box<dyn std::error::Error>> {
/// use ragwire_rag::Tool;
///
/// let start = std::time::Instant::now();
/// let queries = ["How do robins sing?".to_owned(), "robins dawn".to_owned()];
/// for found in tools.search(Tool::Hybrid, &queries, 10).await? {
///     sink.send(found.event(tools.name(Tool::Hybrid), start.elapsed())).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SearchTools {
    library: Arc<Library>,
    store: Arc<dyn Store>,
    embedder: Option<Arc<dyn Embed>>,
    late: bool,
    filter: Arc<DocumentFilter>,
    /// The document that answers the question before, in a conversation.
    document_before: Option<String>,
    /// The words of the conversation.
    topic: Vec<Term>,
    /// What the embedder finds unrelated.
    zero: Arc<Zero>,
}

impl SearchTools {
    /// Creates the tools over `store`, which an [`Indexer`](crate::Indexer) keeps in step with
    /// `library` using the same embedder.
    ///
    /// # Errors
    ///
    /// `other_vectors` if the embedder's vectors do not have the store's length. With a store
    /// without vectors the embedder is not used.
    pub fn new(
        library: Arc<Library>,
        store: Arc<dyn Store>,
        embedder: Option<Arc<dyn Embed>>,
    ) -> Result<Self, ToolError> {
        let embedder = embedder.filter(|_| store.vectors().dimensions > 0);
        if let Some((found, wanted)) = other_vectors(embedder.as_deref(), store.as_ref()) {
            return Err(ToolError::OtherVectors { found, wanted });
        }
        Ok(Self {
            library,
            store,
            embedder,
            late: false,
            filter: Arc::default(),
            document_before: None,
            topic: Vec::new(),
            zero: Arc::default(),
        })
    }

    /// Creates tools that search only by words: passages of `library`, and the other levels in
    /// `store`.
    pub fn words(library: Arc<Library>, store: Arc<dyn Store>) -> Self {
        Self {
            library,
            store,
            embedder: None,
            late: false,
            filter: Arc::default(),
            document_before: None,
            topic: Vec::new(),
            zero: Arc::default(),
        }
    }

    /// Lets the store rerank the hits of [`Tool::Hybrid`] by MaxSim, which becomes their score.
    ///
    /// # Errors
    ///
    /// `no_vectors` if the store does not keep token vectors.
    pub fn late_interaction(mut self) -> Result<Self, ToolError> {
        if self.embedder.is_none() || !self.store.vectors().tokens {
            return Err(ToolError::NoVectors);
        }
        self.late = true;
        Ok(self)
    }

    /// Restricts every search to the documents that `filter` selects.
    #[must_use]
    pub fn within(mut self, filter: DocumentFilter) -> Self {
        self.filter = Arc::new(filter);
        self
    }

    /// Prefers the document that answers the question before, among those that the filter selects.
    pub(crate) async fn after(mut self, question: String) -> Result<Self, ToolError> {
        let filter = Arc::clone(&self.filter);
        let search = move |library: &Library| {
            let hits = library.search_in(&question, MIN_READ, &filter)?;
            let view = library.seen_by(filter.user.as_deref());
            Ok::<_, LibraryError>(by_relevance(view, &question, hits, &Known::default()))
        };
        let first = self.library.reading(search).await??.into_iter().next();
        self.document_before = first.map(|hit| hit.chunk.document_id);
        Ok(self)
    }

    /// Prefers passages with these words of the conversation.
    pub(crate) fn amid(mut self, topic: Vec<Term>) -> Self {
        self.topic = topic;
        self
    }

    /// Returns what the embedder finds unrelated.
    pub(crate) fn zero(&self) -> &Zero {
        &self.zero
    }

    /// Returns the embedder, if vectors are searched.
    pub(crate) fn embedder(&self) -> Option<&Arc<dyn Embed>> {
        self.embedder.as_ref()
    }

    /// Returns the tool's name in events and citations.
    pub fn name(&self, tool: Tool) -> &'static str {
        match tool {
            Tool::Semantic => "semantic_search",
            Tool::Hybrid if self.embedder.is_none() => "bm25_search",
            Tool::Hybrid => "hybrid_search",
            Tool::Proposition => "proposition_search",
            Tool::Section => "section_search",
            Tool::Hyde => "hyde_search",
        }
    }

    /// Returns the kind of search for the metadata: `lexical`, `dense` or `hybrid`.
    pub fn mode(&self, tool: Tool) -> &'static str {
        match (tool.reads_words(), &self.embedder) {
            (false, _) => "dense",
            (true, None) => "lexical",
            (true, Some(_)) => "hybrid",
        }
    }

    /// Returns whether this tool is available here.
    pub fn has(&self, tool: Tool) -> bool {
        tool.reads_words() || self.embedder.is_some()
    }

    /// Searches for each query, in order. All queries, at most 32, are embedded at once. A blank
    /// query has no hits.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the search, which changes nothing.
    ///
    /// # Errors
    ///
    /// [`ToolError`]. Bad input is rejected before any work is done.
    pub async fn search(
        &self,
        tool: Tool,
        queries: &[String],
        limit: usize,
    ) -> Result<Vec<SearchResults>, ToolError> {
        if queries.len() > MAX_QUERIES {
            return Err(ToolError::TooManyQueries(queries.len()));
        }
        if !self.has(tool) {
            return Err(ToolError::NoVectors);
        }
        let limit = limit.min(MAX_HITS);
        let nonblank: Vec<String> = queries
            .iter()
            .filter(|query| !query.trim().is_empty())
            .cloned()
            .collect();
        // A store would take an empty list of documents for all of them.
        let none = !self.library.selects_all(&self.filter) && self.library.matching(&self.filter).is_empty();
        let mut searches = if limit == 0 || nonblank.is_empty() || none {
            Vec::new()
        } else {
            self.searches(tool, nonblank).await?
        }
        .into_iter();
        let mut found = Vec::with_capacity(queries.len());
        for query in queries {
            let search = if query.trim().is_empty() {
                None
            } else {
                searches.next()
            };
            found.push(match search {
                Some(search) => self.find(tool, search, limit).await?,
                None => SearchResults::new(tool.level(), Vec::new(), Vec::new()),
            });
        }
        Ok(found)
    }

    /// Returns a retriever that uses one tool, for example for [`DocumentRag`](crate::DocumentRag).
    pub fn retriever(&self, tool: Tool) -> ToolRetriever {
        ToolRetriever {
            tools: self.clone(),
            tool,
        }
    }

    /// Builds the store's search for each query.
    async fn searches(&self, tool: Tool, queries: Vec<String>) -> Result<Vec<Search>, ToolError> {
        let mut filter = Filter::level(tool.level());
        if !self.library.selects_all(&self.filter) {
            filter.documents = self.library.matching(&self.filter);
        }
        let Some(embedder) = &self.embedder else {
            let search = |query| Search::text(query, 0).filter(filter.clone());
            return Ok(queries.into_iter().map(search).collect());
        };
        let wanted = queries.len();
        let vectors = embedder.embed(tool.side(), queries.clone()).await?;
        let mut tokens = if self.late && tool == Tool::Hybrid {
            embedder.embed_tokens(tool.side(), queries.clone()).await?
        } else {
            vec![Vec::new(); wanted]
        };
        if vectors.len() != wanted || tokens.len() != wanted {
            return Err(ModelError::Failed(
                "the embedder returned another number of vectors than texts".into(),
            )
            .into());
        }
        let search = |((query, vector), tokens)| {
            let search = if tool.reads_words() {
                Search::hybrid(query, vector, 0)
            } else {
                Search::dense(vector, 0)
            };
            search.tokens(tokens).filter(filter.clone())
        };
        Ok(queries
            .into_iter()
            .zip(vectors)
            .zip(tokens.drain(..))
            .map(search)
            .collect())
    }

    async fn find(&self, tool: Tool, search: Search, limit: usize) -> Result<SearchResults, ToolError> {
        if tool == Tool::Proposition {
            let per_passage = SENTENCES_PER_PASSAGE;
            let sentences = self
                .live(search, limit, limit.saturating_mul(per_passage), parent_of)
                .await?;
            let (sentences, hits) = self.passages_of(sentences).await?;
            return Ok(SearchResults::new(tool.level(), hits, sentences));
        }
        // The library's own index has the words of the passages with titles and names, corrects typing
        // mistakes, and is never behind. The store adds the vectors.
        let is_late = !search.tokens.is_empty();
        let words = search.text.clone().filter(|_| tool == Tool::Hybrid && !is_late);
        let hits = match words {
            None => {
                self.live(search, limit, limit, |hit| hit.chunk.id.as_str())
                    .await?
            }
            Some(query) => {
                let near = self.near(search).await?;
                self.words_of(query, near, limit).await?
            }
        };
        Ok(SearchResults::new(tool.level(), hits, Vec::new()))
    }

    /// Returns the passages that are nearest by their meaning, best first, with their nearness. None
    /// without an embedder.
    async fn near(&self, search: Search) -> Result<Vec<Hit>, ToolError> {
        let (Some(embedder), Some(vector)) = (&self.embedder, &search.dense) else {
            return Ok(Vec::new());
        };
        let zero = self.zero.of(&**embedder, vector).await?;
        let dense = Search { text: None, ..search };
        let mut near = self
            .live(dense, NEAR_PASSAGES, NEAR_PASSAGES, |hit| hit.chunk.id.as_str())
            .await?;
        for hit in &mut near {
            hit.score = nearness(hit.score, zero);
        }
        Ok(near)
    }

    /// Searches passages by words, and puts those and the nearest ones into one order.
    async fn words_of(&self, query: String, near: Vec<Hit>, limit: usize) -> Result<Vec<Hit>, ToolError> {
        let filter = Arc::clone(&self.filter);
        let document_before = self.document_before.clone();
        let topic = self.topic.clone();
        let search = move |library: &Library| {
            let most = limit.saturating_mul(READ_PER_HIT).max(MIN_READ);
            let mut hits = library.search_in(&query, most, &filter)?;
            let known = Known::of(&near).after(document_before).amid(topic);
            let words: HashSet<String> = hits.iter().map(|hit| hit.chunk.id.clone()).collect();
            let others = near.into_iter().take(limit.max(READ_BY_MEANING));
            hits.extend(others.filter(|hit| !words.contains(&hit.chunk.id)));
            let view = library.seen_by(filter.user.as_deref());
            let hits = with_beginnings(view, &query, &filter, hits)?;
            let hits = with_bounds(view, &query, &filter, hits)?;
            let mut hits = by_relevance(view, &query, hits, &known);
            // Two copies of a file are one answer.
            let mut texts = HashSet::new();
            hits.retain(|hit| texts.insert(hit.chunk.text.clone()));
            let part = NumberedPart::of(view, &query, &filter);
            if let Some(part) = &part {
                hits = part.lead(view, &filter, hits)?;
            }
            if !part.is_some_and(|part| part.leads(&hits))
                && let Some(about) = AboutDocument::of(view, &query)
            {
                hits = about.lead(view, &filter, hits)?;
            }
            hits.truncate(limit);
            Ok::<_, LibraryError>(hits)
        };
        Ok(self.library.reading(search).await??)
    }

    /// Returns the best hits of live documents, and of hits with the same key the first. Asks the
    /// store for more while too few remain.
    async fn live(
        &self,
        mut search: Search,
        limit: usize,
        first: usize,
        key: fn(&Hit) -> &str,
    ) -> Result<Vec<Hit>, ToolError> {
        search.limit = first.clamp(1, MAX_HITS);
        loop {
            let hits = self.store.search(search.clone()).await?;
            let all = hits.len() < search.limit || search.limit == MAX_HITS;
            // Only now, because a document may have been removed, or added as a private one.
            let live: HashSet<String> = self.library.matching(&self.filter).into_iter().collect();
            let mut seen = HashSet::new();
            let wanted: Vec<usize> = hits
                .iter()
                .enumerate()
                .filter(|(_, hit)| live.contains(&hit.chunk.document_id) && seen.insert(key(hit)))
                .map(|(at, _)| at)
                .take(limit)
                .collect();
            if all || wanted.len() == limit {
                let mut wanted = wanted.into_iter().peekable();
                let kept = hits.into_iter().enumerate();
                return Ok(kept
                    .filter(|(at, _)| wanted.next_if_eq(at).is_some())
                    .map(|(_, hit)| hit)
                    .collect());
            }
            search.limit = search.limit.saturating_mul(2).min(MAX_HITS);
        }
    }

    /// Returns the passages of sentences with the sentences' scores. A sentence whose passage was
    /// removed is dropped.
    async fn passages_of(&self, sentences: Vec<Hit>) -> Result<(Vec<Hit>, Vec<Hit>), ToolError> {
        let passages = move |library: &Library| {
            let passage = |sentence: Hit| {
                let passage = library.parent(&sentence.chunk).transpose()?;
                Some(passage.map(|passage| {
                    let hit = Hit::new(passage, sentence.score);
                    (sentence, hit)
                }))
            };
            sentences
                .into_iter()
                .filter_map(passage)
                .collect::<Result<_, LibraryError>>()
        };
        Ok(self.library.reading(passages).await??)
    }
}

fn parent_of(hit: &Hit) -> &str {
    hit.chunk.parent.as_deref().unwrap_or(&hit.chunk.id)
}

/// A [`Retrieve`] implementation that uses one tool.
#[derive(Clone, Debug)]
pub struct ToolRetriever {
    tools: SearchTools,
    tool: Tool,
}

impl Retrieve for ToolRetriever {
    fn tool(&self) -> &str {
        self.tools.name(self.tool)
    }

    fn mode(&self) -> &str {
        self.tools.mode(self.tool)
    }

    fn takes_filters(&self) -> bool {
        true
    }

    fn retrieve<'a>(
        &'a self,
        request: RetrieveRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Hit>, RetrieveError>> + Send + 'a>> {
        Box::pin(async move {
            let tools = if request.filter == DocumentFilter::default() {
                self.tools.clone()
            } else {
                self.tools.clone().within(request.filter)
            };
            let found = tools.search(self.tool, &[request.query], request.limit).await;
            let mut found = found.map_err(RetrieveError::new)?;
            Ok(found.pop().map(|found| found.hits).unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests;
