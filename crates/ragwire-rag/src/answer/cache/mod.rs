//! Answers to questions that mean the same: a stored one is said again with its sources, as long as it would be given again.
//!
//! An answer holds as long as the documents that it was given from are there, and no document has come since in which a search for its question
//! would find anything. Both are looked at when it is about to be said, so there is no moment in which a change is known and an old answer
//! is said; what is gone with a document is also taken out of memory with the next question.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use ragwire::{Metadata, SendError, Sink, event::Source};
//! # use ragwire_rag::{Generated, Library, cache::{CacheLimits, LibraryCorpus, Lookup, SemanticCache}};
//! # fn cache(library: Arc<Library>) -> SemanticCache {
//! let corpus = Arc::new(LibraryCorpus::new(Arc::clone(&library)));
//! let cache = SemanticCache::lexical(library, corpus, CacheLimits::default());
//! # cache
//! # }
//! # async fn answer(cache: &SemanticCache, owner: &str, question: &str, sink: Sink, generated: Generated, sources: Vec<Source>)
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
//! It knows no pipeline, and reads documents only through a [`Corpus`].

mod corpus;
mod likeness;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

pub use corpus::{Corpus, LibraryCorpus, MIN_KIN, StoreCorpus};
use likeness::{Key, Likeness};
pub use likeness::{MIN_COSINE, MIN_WORDS};

use crate::ChangeKind;
use crate::answer::generate::send_words;
use crate::models::Embed;
use crate::search::lexical::Analyzer;
use crate::{Generated, Library};
use ragwire::event::{CacheHit, Source, Sources};
use ragwire::{Citation, Metadata, SendError, Sink, Timestamp};

/// Answers kept: a look over all of them takes about a millisecond.
pub const MAX_ENTRIES: usize = 1_000;
/// Bytes kept: some 16 KiB for each, sources included.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// How long an answer is kept: models and prompts change with the program, documents are looked at anyway.
pub const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// One answer may take this share of all bytes.
const LARGEST_SHARE: usize = 8;
/// Documents that came since an answer and are looked into before it is said again. After more it is given up: a new answer costs less.
const MAX_LOOKED_INTO: usize = 64;
/// What an entry costs beside its texts, in bytes.
const ENTRY_BYTES: usize = 512;

/// How much is kept, for how long, and what counts as the same question.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CacheLimits {
    /// Answers; the one that was not said for longest goes first.
    pub max_entries: usize,
    /// Bytes of all of them.
    pub max_bytes: usize,
    /// Age of an answer.
    pub max_age: Duration,
    /// Least cosine of two questions' vectors.
    pub min_cosine: f64,
    /// Least cosine of two questions' weighed words, where there is no embedder.
    pub min_words: f64,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            max_entries: MAX_ENTRIES,
            max_bytes: MAX_BYTES,
            max_age: MAX_AGE,
            min_cosine: MIN_COSINE,
            min_words: MIN_WORDS,
        }
    }
}

/// An answer as it was given.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoredAnswer {
    /// Its text.
    pub text: String,
    /// The n-th is `[n]` in the text.
    pub citations: Vec<Citation>,
    /// The passages that it was given from.
    pub sources: Vec<Source>,
    /// How it was found.
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

/// An answer that fits a question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CachedAnswer {
    /// The answer.
    pub answer: Arc<StoredAnswer>,
    /// The question that it was given to.
    pub original_query: String,
    /// When.
    pub cached_at: Timestamp,
    /// How alike the two questions are, 0 to 1; 1 for the very same.
    pub similarity: f64,
}

impl CachedAnswer {
    /// As it is told.
    pub fn event(&self) -> CacheHit {
        CacheHit::new(&self.original_query, self.cached_at.to_string()).similarity(self.similarity)
    }

    /// Says it again: the event, the text word by word, the sources. What is given closes the turn; it consumed nothing, so it has no usage.
    ///
    /// # Back-pressure
    /// It waits with the sink.
    ///
    /// # Cancel safety
    /// Dropping the future ends the answer after the last word that was sent.
    ///
    /// # Errors
    /// The turn is over.
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

/// What a look brought.
#[derive(Debug)]
pub enum Lookup {
    /// A stored answer fits.
    Hit(CachedAnswer),
    /// None does. The answer that is given now can be stored with the ticket.
    Miss(Ticket),
}

/// A question that was looked for, and the state of the documents before it was answered. Dropping it stores nothing.
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
    /// When it was said last, as a number that rises.
    used: u64,
    /// The documents were looked at up to this revision.
    revision: u64,
    bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Entry>,
    bytes: usize,
    /// Numbers given out, to entries and to uses.
    numbers: u64,
    /// Entries of documents that were taken out up to this revision are gone.
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

/// What was found and has to be looked at before it is said.
#[derive(Debug)]
struct Candidate {
    number: u64,
    revision: u64,
    key: Arc<Key>,
    found: CachedAnswer,
}

/// Stored answers, found by what their questions mean. In memory; dropping it forgets them.
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

    /// Compares questions by their telling words, as `library` weighs them: the same words in the same order, but for one that tells little.
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

    /// Looks for an answer to a question that stands alone, before it is searched for.
    ///
    /// `scope` is whatever an answer depends on besides documents and question: the owner and the collection, unless all share them, and
    /// settings such as the mode. Only answers that were stored under the very same scope are found. A question that leans on a conversation
    /// is not for here.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing that matters.
    pub async fn lookup(&self, scope: &str, question: &str) -> Lookup {
        // Before anything is read: what changes from here on, the answer may not know.
        let revision = self.corpus.revision();
        let key = self.likeness.key(question).await;
        self.sweep();
        // Each turn of this loop takes an entry out, or ends it.
        while let Some(candidate) = self.best(scope, &key) {
            let holds = self.holds(&candidate, revision).await;
            let mut state = self.state();
            if holds {
                let used = state.next_number();
                // It may have gone meanwhile, to make room; it holds all the same.
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

    /// Stores an answer that was given to the end; whether it was. One that was refused, cut short or is empty is not, nor one that is too
    /// large, nor one whose documents have gone since the look.
    pub fn store(
        &self,
        ticket: Ticket,
        generated: &Generated,
        sources: Vec<Source>,
        mode: impl Into<String>,
    ) -> bool {
        if !generated.answered || generated.cut_short || generated.text.trim().is_empty() {
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
        // The newer answer to the very same question is the better one.
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

    /// How many answers it holds.
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all answers of a scope.
    pub fn forget(&self, scope: &str) {
        self.state().retain(|entry| entry.scope != scope);
    }

    /// The likeliest answer to a question of a scope.
    fn best(&self, scope: &str, key: &Key) -> Option<Candidate> {
        let limits = (self.limits.min_cosine, self.limits.min_words);
        let state = self.state();
        let entries = state.entries.iter().filter(|entry| entry.scope == scope);
        let alike = entries.filter_map(|entry| Some((entry, self.likeness.same(key, &entry.key, limits)?)));
        // Of equals the newer one.
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

    /// Whether an answer would be given again: its documents are there, and none that can be found by now would bring anything else.
    async fn holds(&self, candidate: &Candidate, revision: u64) -> bool {
        let Some(changes) = self.corpus.changes_since(candidate.revision) else {
            return false;
        };
        if !self.documents_stay(&candidate.found.answer, candidate.revision) {
            return false;
        }
        let came = changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Added && change.revision <= revision);
        let came: BTreeSet<&str> = came.map(|change| change.document_id.as_str()).collect();
        if came.len() > MAX_LOOKED_INTO {
            return false;
        }
        let Key { question, vector, .. } = &*candidate.key;
        for document_id in came {
            if self.corpus.brings(document_id, question, vector.as_deref()).await {
                return false;
            }
        }
        true
    }

    /// Whether no document of an answer has gone since a revision.
    fn documents_stay(&self, answer: &StoredAnswer, revision: u64) -> bool {
        let documents = answer.documents();
        self.corpus.changes_since(revision).is_some_and(|changes| {
            let mut gone = changes.iter().filter(|change| change.kind == ChangeKind::Removed);
            gone.all(|change| !documents.contains(change.document_id.as_str()))
        })
    }

    /// Takes out what is too old, and what hangs on documents that are gone.
    fn sweep(&self) {
        let mut state = self.state();
        let max_age = self.limits.max_age;
        state.retain(|entry| entry.stored.elapsed() < max_age);
        match self.corpus.changes_since(state.swept) {
            // Too long ago to know: what is left is looked at when it is about to be said.
            None => state.swept = self.corpus.revision(),
            Some(changes) => {
                let gone = changes.iter().filter(|change| change.kind == ChangeKind::Removed);
                let gone: BTreeSet<&str> = gone.map(|change| change.document_id.as_str()).collect();
                if !gone.is_empty() {
                    state.retain(|entry| entry.answer.documents().is_disjoint(&gone));
                }
                if let Some(last) = changes.last() {
                    state.swept = last.revision;
                }
            }
        }
    }

    // Nothing is half done where a panic could come from.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
