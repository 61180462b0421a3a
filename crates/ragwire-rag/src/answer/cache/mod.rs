//! A semantic cache: repeats a stored answer, with its sources, for a question that means the same,
//! as long as the answer is still valid.
//!
//! An answer is valid as long as the documents it was written from exist and no document has been
//! added in which a search for its question would find anything. Both are checked right before the
//! answer is repeated, so a known change never lets an outdated answer through. Answers whose
//! documents were removed are evicted with the next lookup.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use ragwire::{Metadata, SendError, Sink, event::Source};
//! # use ragwire_rag::{GeneratedAnswer, Library, answer::cache::{CacheLimits, LibraryCorpus, Lookup,
//! # SemanticCache}};
//! # fn cache(library: Arc<Library>) -> SemanticCache {
//! let corpus = Arc::new(LibraryCorpus::new(Arc::clone(&library)));
//! let cache = SemanticCache::lexical(library, corpus, CacheLimits::default());
//! # cache
//! # }
//! # async fn answer(cache: &SemanticCache, owner: &str, question: &str, sink: Sink, generated: GeneratedAnswer, sources: Vec<Source>)
//! # -> Result<Metadata, SendError> {
//! let ticket = match cache.lookup(owner, question).await {
//!     Lookup::Hit(hit) => return hit.replay(&sink).await,
//!     Lookup::Miss(ticket) => ticket,
//! };
//! // … search and answer …
//! cache.store(ticket, &generated, sources, "hybrid");
//! # Ok(Metadata::default())
//! # }
//! ```
//!
//! The cache does not depend on a pipeline and reads documents only through a [`Corpus`].

mod corpus;
mod likeness;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

pub use corpus::{Corpus, LibraryCorpus, StoreCorpus};
use likeness::{Key, Likeness, MIN_COSINE, MIN_WORDS};

use crate::ChangeKind;
use crate::answer::generate::send_words;
use crate::models::Embed;
use crate::search::lexical::Analyzer;
use crate::{GeneratedAnswer, Library};
use ragwire::event::{CacheHit, Source, Sources};
use ragwire::{Citation, Metadata, SendError, Sink, Timestamp};

/// One answer may take this share of all bytes.
const LARGEST_SHARE: usize = 8;
/// Number of added documents that are searched before an answer is repeated. After more additions
/// the answer is evicted: a new one costs less.
const MAX_ADDED_DOCUMENTS: usize = 64;
/// Size in bytes of an entry besides its texts.
const ENTRY_BYTES: usize = 512;

/// The limits of a cache, and the least similarity of two questions that mean the same.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CacheLimits {
    /// Number of answers; the least recently used one is evicted first. Default: 1,000, which take
    /// about a millisecond to compare.
    pub max_entries: usize,
    /// Size of all answers in bytes. Default: 16 MiB, about 16 KiB for each answer with its
    /// sources.
    pub max_bytes: usize,
    /// Age at which an answer expires. Default: 24 hours, because models and prompts change with
    /// the program; documents are checked anyway.
    pub max_age: Duration,
    /// Least cosine of two questions' vectors. Default: 0.92.
    pub min_cosine: f64,
    /// Least cosine of two questions' weighted words if there is no embedder. Default: 0.95.
    pub min_words: f64,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            max_entries: 1_000,
            max_bytes: 16 * 1024 * 1024,
            max_age: Duration::from_secs(24 * 60 * 60),
            min_cosine: MIN_COSINE,
            min_words: MIN_WORDS,
        }
    }
}

/// An answer as it was sent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredAnswer {
    /// The text.
    pub text: String,
    /// The citations; the n-th is `[n]` in the text.
    pub citations: Vec<Citation>,
    /// The passages that it was written from.
    pub sources: Vec<Source>,
    /// The mode in which it was found.
    pub mode: String,
}

impl StoredAnswer {
    fn documents(&self) -> BTreeSet<&str> {
        let cited = self
            .citations
            .iter()
            .map(|citation| citation.document_id.as_str());
        let given = self.sources.iter().map(|source| source.document_id.as_str());
        cited.chain(given).collect()
    }

    fn bytes(&self) -> usize {
        let cited = |citation: &Citation| {
            let texts = [
                &citation.document_id,
                &citation.chunk_id,
                &citation.supporting_quote,
                &citation.source_tool,
            ];
            let heading = citation.heading.as_ref().map_or(0, String::len);
            texts.iter().map(|text| text.len()).sum::<usize>() + heading + size_of::<Citation>()
        };
        let given = |source: &Source| {
            let texts = [
                Some(&source.chunk_id),
                Some(&source.document_id),
                Some(&source.text),
            ];
            let more = [
                source.title.as_ref(),
                source.level.as_ref(),
                source.heading.as_ref(),
            ];
            let all = texts.into_iter().chain(more).flatten();
            all.map(String::len).sum::<usize>() + source.page_numbers.len() * 4 + size_of::<Source>()
        };
        let cited: usize = self.citations.iter().map(cited).sum();
        let given: usize = self.sources.iter().map(given).sum();
        self.text.len() + self.mode.len() + cited + given
    }
}

/// A stored answer that matches a question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CachedAnswer {
    /// The answer.
    pub answer: Arc<StoredAnswer>,
    /// The question that it answered.
    pub original_query: String,
    /// When it was stored.
    pub cached_at: Timestamp,
    /// The similarity of the two questions, 0 to 1; 1 for identical ones.
    pub similarity: f64,
}

impl CachedAnswer {
    /// The event that reports the cache hit.
    pub fn event(&self) -> CacheHit {
        CacheHit::new(&self.original_query, self.cached_at.to_string()).similarity(self.similarity)
    }

    /// Repeats the answer: the event, the text word by word, the sources. Returns the metadata that
    /// closes the turn; it has no usage, because nothing was consumed.
    ///
    /// # Back-pressure
    ///
    /// The future waits while the sink is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the answer after the last word that was sent.
    ///
    /// # Errors
    ///
    /// The turn has ended.
    pub async fn replay(&self, sink: &Sink) -> Result<Metadata, SendError> {
        let answer = &self.answer;
        sink.send(self.event()).await?;
        send_words(sink, &answer.text).await?;
        sink.send(Sources::new(answer.sources.clone())).await?;
        Ok(Metadata::default()
            .citations(answer.citations.clone())
            .mode(&answer.mode)
            .with("answered", true))
    }
}

/// The result of [`SemanticCache::lookup`].
#[derive(Debug)]
pub enum Lookup {
    /// A stored answer matches.
    Hit(CachedAnswer),
    /// No stored answer matches. The new answer can be stored with the ticket.
    Miss(Ticket),
}

/// A question that was looked up, and the revision of the documents at that time. Dropping the
/// ticket stores nothing.
#[derive(Debug)]
pub struct Ticket {
    scope: String,
    key: Arc<Key>,
    revision: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    scope: String,
    key: Arc<Key>,
    answer: Arc<StoredAnswer>,
    stored: Instant,
    cached_at: Timestamp,
    /// When it was last used, as a number that increases.
    used: u64,
    /// The revision up to which the documents were checked.
    revision: u64,
    bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Entry>,
    bytes: usize,
    /// Counter for entry numbers and uses.
    numbers: u64,
    /// The revision up to which entries of removed documents have been evicted.
    swept: u64,
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
        self.entries.retain(keep);
        self.bytes = self.entries.iter().map(|entry| entry.bytes).sum();
    }
}

/// An entry that has to be checked before it is repeated.
#[derive(Debug)]
struct Candidate {
    number: u64,
    revision: u64,
    key: Arc<Key>,
    found: CachedAnswer,
}

/// Stored answers, found by the meaning of their questions. They are in memory and last as long as
/// the cache.
///
/// ```
/// use std::sync::Arc;
/// use ragwire_rag::{Library, LibraryLimits, SemanticCache};
/// use ragwire_rag::answer::cache::{CacheLimits, LibraryCorpus, Lookup};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn
/// # std::error::Error>> {
/// let library = Arc::new(Library::in_memory(LibraryLimits::default())?);
/// let corpus = Arc::new(LibraryCorpus::new(Arc::clone(&library)));
/// let cache = SemanticCache::lexical(library, corpus, CacheLimits::default());
/// assert!(matches!(cache.lookup("alice", "When do robins sing?").await, Lookup::Miss(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SemanticCache {
    likeness: Likeness,
    corpus: Arc<dyn Corpus>,
    limits: CacheLimits,
    state: Mutex<State>,
}

impl SemanticCache {
    /// Compares questions by the cosine of their vectors.
    pub fn dense(embedder: Arc<dyn Embed>, corpus: Arc<dyn Corpus>, limits: CacheLimits) -> Self {
        let analyzer = Analyzer::default();
        Self::with(Likeness::Dense { embedder, analyzer }, corpus, limits)
    }

    /// Compares questions by their significant words, weighted as in `library`: the same words in
    /// the same order, except for one of little weight.
    pub fn lexical(library: Arc<Library>, corpus: Arc<dyn Corpus>, limits: CacheLimits) -> Self {
        Self::with(Likeness::Words(library), corpus, limits)
    }

    fn with(likeness: Likeness, corpus: Arc<dyn Corpus>, limits: CacheLimits) -> Self {
        Self {
            likeness,
            corpus,
            limits,
            state: Mutex::default(),
        }
    }

    /// Looks for an answer to a question that does not depend on a conversation.
    ///
    /// `scope` identifies everything else that an answer depends on: the owner and the collection,
    /// unless all share them, and settings such as the mode. Only answers stored under the same
    /// scope are found. Do not look up a question that refers to earlier ones.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn lookup(&self, scope: &str, question: &str) -> Lookup {
        // Read first: changes from here on may be missing in the answer.
        let revision = self.corpus.revision();
        let key = self.likeness.key(question).await;
        self.sweep();
        // Each round evicts an entry or ends the loop.
        while let Some(candidate) = self.best(scope, &key) {
            let holds = self.holds(&candidate, revision).await;
            let mut state = self.state();
            if holds {
                let used = state.next_number();
                // The entry may have been evicted meanwhile to make room; the answer is valid all
                // the same.
                let entry = state
                    .entries
                    .iter_mut()
                    .find(|entry| entry.number == candidate.number);
                if let Some(entry) = entry {
                    (entry.used, entry.revision) = (used, entry.revision.max(revision));
                }
                return Lookup::Hit(candidate.found);
            }
            state.retain(|entry| entry.number != candidate.number);
        }
        Lookup::Miss(Ticket {
            scope: scope.to_owned(),
            key: Arc::new(key),
            revision,
        })
    }

    /// Stores an answer and returns `true`. Returns `false` for an answer that is a refusal, cut
    /// short, empty or too large, that cites nothing or something that does not exist, that replaces
    /// a model's, or whose documents were removed since the lookup.
    pub fn store(
        &self,
        ticket: Ticket,
        generated: &GeneratedAnswer,
        sources: Vec<Source>,
        mode: impl Into<String>,
    ) -> bool {
        // An answer without citations is a refusal in other words, or not from the documents.
        let is_cited = !generated.citations.is_empty() && generated.unknown_citations == 0;
        let is_complete = generated.answered && !generated.cut_short && generated.fallback.is_none();
        if !is_cited || !is_complete || generated.text.trim().is_empty() {
            return false;
        }
        let answer = StoredAnswer {
            text: generated.text.clone(),
            citations: generated.citations.clone(),
            sources,
            mode: mode.into(),
        };
        let bytes = answer.bytes() + ticket.key.bytes() + ticket.scope.len() + ENTRY_BYTES;
        if bytes > self.limits.max_bytes / LARGEST_SHARE || self.limits.max_entries == 0 {
            return false;
        }
        if !self.documents_stay(&answer, ticket.revision) {
            return false;
        }
        self.sweep();
        let mut state = self.state();
        // The newer answer to the same question is the better one.
        state.retain(|entry| entry.scope != ticket.scope || entry.key.question != ticket.key.question);
        while state.entries.len() >= self.limits.max_entries || state.bytes + bytes > self.limits.max_bytes {
            let Some(oldest) = state.entries.iter().map(|entry| entry.used).min() else {
                break;
            };
            state.retain(|entry| entry.used != oldest);
        }
        let (number, used) = (state.next_number(), state.next_number());
        state.bytes += bytes;
        state.entries.push(Entry {
            number,
            scope: ticket.scope,
            key: ticket.key,
            answer: Arc::new(answer),
            stored: Instant::now(),
            cached_at: SystemTime::now().into(),
            used,
            revision: ticket.revision,
            bytes,
        });
        true
    }

    /// The number of stored answers.
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Returns `true` if no answer is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Evicts all answers of a scope.
    pub fn forget(&self, scope: &str) {
        self.state().retain(|entry| entry.scope != scope);
    }

    /// The most similar answer to a question of a scope.
    fn best(&self, scope: &str, key: &Key) -> Option<Candidate> {
        let limits = (self.limits.min_cosine, self.limits.min_words);
        let state = self.state();
        let entries = state.entries.iter().filter(|entry| entry.scope == scope);
        let alike = entries.filter_map(|entry| Some((entry, self.likeness.same(key, &entry.key, limits)?)));
        // The newer one of several equal ones.
        let (entry, similarity) = alike.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Candidate {
            number: entry.number,
            revision: entry.revision,
            key: Arc::clone(&entry.key),
            found: CachedAnswer {
                answer: Arc::clone(&entry.answer),
                original_query: entry.key.question.clone(),
                cached_at: entry.cached_at,
                similarity,
            },
        })
    }

    /// Returns `true` if an answer is still valid: its documents exist, and no document added up to
    /// `revision` would contribute anything.
    async fn holds(&self, candidate: &Candidate, revision: u64) -> bool {
        let Some(changes) = self.corpus.changes_since(candidate.revision) else {
            return false;
        };
        if !self.documents_stay(&candidate.found.answer, candidate.revision) {
            return false;
        }
        let added = changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Added && change.revision <= revision);
        let added: BTreeSet<&str> = added.map(|change| change.document_id.as_str()).collect();
        if added.len() > MAX_ADDED_DOCUMENTS {
            return false;
        }
        let Key { question, vector, .. } = &*candidate.key;
        for document_id in added {
            if self.corpus.brings(document_id, question, vector.as_deref()).await {
                return false;
            }
        }
        true
    }

    /// Returns `true` if no document of an answer was removed since a revision.
    fn documents_stay(&self, answer: &StoredAnswer, revision: u64) -> bool {
        let documents = answer.documents();
        self.corpus.changes_since(revision).is_some_and(|changes| {
            let mut removed = changes.iter().filter(|change| change.kind == ChangeKind::Removed);
            removed.all(|change| !documents.contains(change.document_id.as_str()))
        })
    }

    /// Evicts expired answers and those whose documents were removed.
    fn sweep(&self) {
        let mut state = self.state();
        let max_age = self.limits.max_age;
        state.retain(|entry| entry.stored.elapsed() < max_age);
        match self.corpus.changes_since(state.swept) {
            // The changes are not known that far back: the remaining entries are checked when used.
            None => state.swept = self.corpus.revision(),
            Some(changes) => {
                let removed = changes.iter().filter(|change| change.kind == ChangeKind::Removed);
                let removed: BTreeSet<&str> = removed.map(|change| change.document_id.as_str()).collect();
                if !removed.is_empty() {
                    state.retain(|entry| entry.answer.documents().is_disjoint(&removed));
                }
                if let Some(last) = changes.last() {
                    state.swept = last.revision;
                }
            }
        }
    }

    // No code that may panic leaves the state half-changed, so a poisoned lock can be used.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
