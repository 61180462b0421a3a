//! A library on a Qdrant server, shared by any number of hosts.
//!
//! | point | contents |
//! |---|---|
//! | passage | text, headings, page; its terms as a sparse vector with IDF |
//! | head, one for each name | the document, the number of its first passage, its version |
//! | word | a spelling of a term, by its pairs of letters |
//! | source, root | a file or folder that was read |
//! | claim, counter | work that one host does; the next number of a passage |
//!
//! A host keeps the list of documents in memory and nothing else. Passages are written first, under
//! numbers that no other document ever gets. Then one write of the head makes all of them visible, or
//! nothing. That write has the version as its condition, so of two hosts that change one document at
//! the same time one repeats its work. See `docs/decisions/shared-library.md`.

mod catalogue;
mod claims;
mod follow;
mod options;
mod records;
mod remote;
mod runtime;
mod words;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use tokio::time::Instant;

use super::changes::Changes;
use super::claim::Work;
use super::reading::Readers;
use super::records::StoredDocument;
use super::state::{Held, Shared};
use super::{
    ChangeKind, DocumentFilter, Library, LibraryError, LibraryLimits, LibraryView, Shelf, Source, SourceRoot,
    identity,
};
use crate::documents::chunk::Piece;
use crate::search::analyzer::Analyzer;
use crate::search::follow_up::RecentFollowUps;
use crate::search::lexical::{Match, QueryTerm, TermVector};
use crate::search::store::StoreError;
use crate::search::store::qdrant::Connection;
use catalogue::{Catalogue, Look, News};
use claims::Claims;
pub(super) use claims::HeldClaim;
use follow::follow;
pub use options::SharedLibraryOptions;
use records::{Head, Kind, Mark};
use remote::Remote;
use runtime::RequestThread;

/// An upload that takes longer than this share of it fails, so that a sweep never meets it.
const UPLOAD_SHARE: u32 = 2;
/// Hits beyond the wanted ones, because some may belong to documents that are not visible.
const SPARE_HITS: usize = 16;
/// The most hits that one search asks for to find enough visible ones.
const MAX_HITS: usize = 4_096;
/// Rarities of terms that are kept, and how long: they change little with each document.
const MAX_RARITIES: usize = 65_536;
const RARITY_LIFE: Duration = Duration::from_secs(60);
/// Words that a host remembers as written.
const MAX_WORDS: usize = 262_144;

/// The part of a [`Library`] that is on the server.
#[derive(Debug)]
pub(super) struct SharedShelf {
    catalogue: Arc<Catalogue>,
    thread: RequestThread,
    options: SharedLibraryOptions,
    claims: Arc<Claims>,
    rarities: Mutex<Rarities>,
    words: Mutex<HashSet<u32>>,
}

/// The rarity of each term, `None` for one that no passage has, and when it was read: for a user to whom some
/// documents are private, and for all others.
type Rarities = HashMap<(Option<String>, String), (Option<f32>, Instant)>;

/// The documents that a request looks at, by the numbers of their first passages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Selection {
    #[default]
    All,
    Only(Vec<i64>),
    Except(Vec<i64>),
}

impl Selection {
    /// Selects the documents that `accepts`, named by whichever are fewer.
    fn of(shared: &Shared, accepts: impl Fn(&Held) -> bool) -> Self {
        let documents = shared.documents.values();
        let (accepted, others): (Vec<_>, Vec<_>) = documents.partition(|held| accepts(held));
        let firsts = |documents: Vec<&Arc<Held>>| documents.iter().map(|held| held.first as i64).collect();
        if others.is_empty() {
            Self::All
        } else if others.len() < accepted.len() {
            Self::Except(firsts(others))
        } else {
            Self::Only(firsts(accepted))
        }
    }
}

/// A source as a record.
#[derive(Serialize, Deserialize)]
struct StoredSource {
    name: String,
    source: Source,
}

#[derive(Serialize, Deserialize)]
struct StoredRoot {
    path: String,
    identity: String,
}

impl Library {
    /// Opens a library on a Qdrant server, and creates it if it does not exist. Any number of hosts may
    /// have it open. Takes as long as reading the list of its documents.
    ///
    /// A change is on the server when the function that makes it returns. Other hosts see it after
    /// [`poll`](SharedLibraryOptions::poll). Searches and all functions that read passages ask the server
    /// and block until it answers, at most [`timeout`](SharedLibraryOptions::timeout).
    ///
    /// Limits of the number of documents and passages are those of this host, counted over all hosts.
    ///
    /// # Errors
    ///
    /// `library_unavailable`, `library_storage`.
    pub fn shared(options: SharedLibraryOptions, limits: LibraryLimits) -> Result<Arc<Self>, LibraryError> {
        let connection = Connection::new(&options.url, options.api_key.clone(), options.timeout)?;
        let catalogue = Arc::new(Catalogue::new(Remote::new(
            connection,
            options.collection.clone(),
        )));
        let shelf = SharedShelf {
            catalogue,
            thread: RequestThread::start().map_err(LibraryError::Folder)?,
            options,
            claims: Arc::default(),
            rarities: Mutex::default(),
            words: Mutex::default(),
        };
        let catalogue = Arc::clone(&shelf.catalogue);
        let all = shelf.wait(async move {
            catalogue.remote.prepare().await?;
            catalogue.news(Look::All).await
        })?;
        let shelf = Shelf::Shared(shelf);
        let library = Arc::new(Self {
            limits,
            readers: Readers::of(&shelf),
            shelf,
            analyzer: Analyzer::default(),
            shared: RwLock::new(Shared::default()),
            changes: Changes::default(),
            writer: Mutex::new(()),
            follow_ups: RecentFollowUps::default(),
        });
        library.apply(all);
        if let Shelf::Shared(shelf) = &library.shelf {
            shelf
                .thread
                .spawn(follow(Arc::downgrade(&library), shelf.options.clone()));
        }
        Ok(library)
    }

    pub(super) fn refresh_shared(&self, shelf: &SharedShelf) -> Result<(), LibraryError> {
        let catalogue = Arc::clone(&shelf.catalogue);
        let news = shelf.wait(async move { catalogue.news(Look::Recent).await })?;
        self.apply(news);
        Ok(())
    }

    /// Makes the last change of the document with this key visible.
    pub(super) fn refresh_key_shared(&self, shelf: &SharedShelf, key: &str) -> Result<(), LibraryError> {
        let (catalogue, key) = (Arc::clone(&shelf.catalogue), key.to_owned());
        let news = shelf.wait(async move { catalogue.news_of(key).await })?;
        self.apply(news);
        Ok(())
    }

    /// Deletes what unfinished uploads left behind more than [`SharedLibraryOptions::sweep_after`] ago,
    /// and returns of how many documents. A library does this itself every ten minutes.
    ///
    /// # Errors
    ///
    /// `library_unavailable`, `library_storage`.
    pub fn sweep(&self) -> Result<usize, LibraryError> {
        let Shelf::Shared(shared) = &self.shelf else {
            return Ok(0);
        };
        let (catalogue, grace) = (Arc::clone(&shared.catalogue), shared.options.sweep_after);
        shared.wait(async move { catalogue.sweep(grace).await })
    }

    /// Makes changes visible that are on the server.
    fn apply(&self, news: News) {
        let Shelf::Shared(shelf) = &self.shelf else {
            return;
        };
        if news.heads.is_empty() && news.missing.is_empty() {
            return;
        }
        let mut shared = self.write();
        let mut has_removed = !news.missing.is_empty();
        for key in news.missing {
            shelf.catalogue.forget(&key);
            let first = shared.by_key.get(&key).copied();
            if let Some(old) = first.and_then(|first| shared.withdraw(first)) {
                self.changes.record(ChangeKind::Removed, &old.document.id);
            }
        }
        for Head { mark, document } in news.heads {
            if !shelf.catalogue.learn(&mark) {
                continue;
            }
            let first = shared.by_key.get(&mark.key).copied();
            if let Some(old) = first.and_then(|first| shared.withdraw(first)) {
                self.changes.record(ChangeKind::Removed, &old.document.id);
                has_removed = true;
            }
            if let Some(stored) = document.filter(|_| mark.live) {
                let held = shared.publish(Held::new(mark.begins, stored));
                self.changes.record(ChangeKind::Added, &held.document.id);
            }
        }
        // A term that no passage had may be in a new one.
        shelf
            .rarities()
            .retain(|_, (rarity, _)| !has_removed && rarity.is_some());
    }

    /// Stores a document on the server, and makes it visible.
    pub(super) fn insert_shared(
        &self,
        shelf: &SharedShelf,
        stored: StoredDocument,
        pieces: &[Piece],
        prepared: Vec<TermVector>,
    ) -> Result<(), LibraryError> {
        let key = identity::key(stored.owner.as_deref(), &stored.document.name);
        let expected = shelf.catalogue.version(&key);
        let replaced = self.read().by_key.get(&key).copied();
        let words = shelf.new_words(&prepared);
        let (catalogue, pieces) = (Arc::clone(&shelf.catalogue), pieces.to_vec());
        let limit = shelf.options.sweep_after / UPLOAD_SHARE;
        let head = shelf.wait(async move {
            let (remote, started) = (&catalogue.remote, Instant::now());
            let begins = remote.reserve(pieces.len() as u64).await?;
            remote.put_words(&words).await?;
            remote.put_passages(begins, &pieces, &prepared).await?;
            let mark = Mark {
                // As late as possible: others look at the last seconds.
                version: catalogue.next_version(&key),
                key,
                begins,
                live: true,
            };
            let head = Head {
                mark,
                document: Some(stored),
            };
            // After an error the document may be visible or not, so its passages stay for the sweep.
            if started.elapsed() < limit && remote.commit(&head, expected).await? {
                if let Some(replaced) = replaced {
                    remote.leave(replaced).await;
                }
                Ok(Some(head))
            } else {
                remote.leave(begins).await;
                Ok(None)
            }
        });
        if head.is_err() {
            // Some of the words may be missing there.
            shelf.words().clear();
        }
        let head = head?.ok_or(LibraryError::Conflict)?;
        self.apply(News {
            heads: vec![head],
            missing: Vec::new(),
        });
        Ok(())
    }

    /// Removes a document from the server.
    pub(super) fn remove_shared(&self, shelf: &SharedShelf, held: &Held) -> Result<(), LibraryError> {
        let key = held.key();
        let expected = shelf.catalogue.version(&key);
        let mark = Mark {
            version: shelf.catalogue.next_version(&key),
            key,
            begins: held.first,
            live: false,
        };
        let head = Head { mark, document: None };
        let catalogue = Arc::clone(&shelf.catalogue);
        let head = shelf.wait(async move {
            let remote = &catalogue.remote;
            if !remote.commit(&head, expected).await? {
                return Ok(None);
            }
            remote.leave(head.mark.begins).await;
            Ok(Some(head))
        })?;
        let head = head.ok_or(LibraryError::Conflict)?;
        self.apply(News {
            heads: vec![head],
            missing: Vec::new(),
        });
        Ok(())
    }

    /// Returns the best passages for some terms in the documents that `filter` selects.
    pub(super) fn search_shared(
        &self,
        shelf: &SharedShelf,
        terms: &[QueryTerm],
        limit: usize,
        filter: &DocumentFilter,
    ) -> Result<Vec<(Match, Arc<Held>)>, LibraryError> {
        let selection = {
            let shared = self.read();
            if shared.selects_all(filter) {
                Selection::All
            } else {
                Selection::of(&shared, |held| filter.accepts(held))
            }
        };
        if limit == 0 || selection == Selection::Only(Vec::new()) {
            return Ok(Vec::new());
        }
        let mut asked = limit + SPARE_HITS;
        loop {
            let (catalogue, terms) = (Arc::clone(&shelf.catalogue), terms.to_vec());
            let selection = selection.clone();
            let found = shelf.wait(async move { catalogue.remote.search(&terms, selection, asked).await })?;
            let is_all = found.len() < asked;
            let shared = self.read();
            // A private document may have been added since the filter was made.
            let visible = |(key, score): (u64, f32)| {
                let held = shared.document_of(key).filter(|held| filter.accepts(held))?;
                Some((Match { key, score }, Arc::clone(held)))
            };
            let mut visible: Vec<_> = found.into_iter().filter_map(visible).collect();
            drop(shared);
            // Equal scores in the order of adding, as in a library of one process.
            visible.sort_by(|(one, _), (other, _)| {
                other.score.total_cmp(&one.score).then(one.key.cmp(&other.key))
            });
            if is_all || visible.len() >= limit || asked >= MAX_HITS {
                visible.truncate(limit);
                return Ok(visible);
            }
            asked = (asked * 4).min(MAX_HITS);
        }
    }
}

impl LibraryView<'_> {
    /// Returns how rare each term is, or `None` for one that no passage has which the user finds.
    pub(super) fn rarities(
        &self,
        shelf: &SharedShelf,
        terms: &[String],
    ) -> Result<Vec<Option<f32>>, LibraryError> {
        let now = Instant::now();
        let hides = self.read().hides_from(self.user());
        let user = self.user().filter(|_| hides).map(str::to_owned);
        let key = |term: &String| (user.clone(), term.clone());
        let mut known: HashMap<String, Option<f32>> = HashMap::new();
        let mut asked: Vec<String> = Vec::new();
        {
            let rarities = shelf.rarities();
            for term in terms {
                match rarities.get(&key(term)) {
                    Some((rarity, at)) if now.duration_since(*at) < RARITY_LIFE => {
                        known.insert(term.clone(), *rarity);
                    }
                    Some(_) | None => asked.push(term.clone()),
                }
            }
        }
        asked.sort_unstable();
        asked.dedup();
        if !asked.is_empty() {
            let found = self.read_rarities(shelf, &asked, user.as_deref())?;
            let mut rarities = shelf.rarities();
            if rarities.len() + asked.len() > MAX_RARITIES {
                rarities.clear();
            }
            for (term, rarity) in asked.into_iter().zip(found) {
                rarities.insert(key(&term), (rarity, now));
                known.insert(term, rarity);
            }
        }
        Ok(terms
            .iter()
            .map(|term| known.get(term).copied().flatten())
            .collect())
    }

    /// Asks the server. `user` is one from whom documents are hidden.
    fn read_rarities(
        &self,
        shelf: &SharedShelf,
        terms: &[String],
        user: Option<&str>,
    ) -> Result<Vec<Option<f32>>, LibraryError> {
        let (selection, most) = match user {
            None => (Selection::All, 1),
            Some(user) => (
                Selection::of(&self.read(), |held| held.is_found_by(user)),
                SPARE_HITS,
            ),
        };
        let (catalogue, wanted) = (Arc::clone(&shelf.catalogue), terms.to_vec());
        let found =
            shelf.wait(async move { catalogue.remote.rarities(&wanted, &selection, most as u64).await })?;
        let shared = self.read();
        let finder = shared.finder(user);
        // Passages of an upload that is not complete belong to no document yet.
        let first = |found: Vec<(u64, f32)>| found.into_iter().find(|(number, _)| finder.finds(*number));
        let rarities = found.into_iter().map(first);
        Ok(rarities.map(|found| found.map(|(_, rarity)| rarity)).collect())
    }
}

impl SharedShelf {
    /// Runs requests and waits for them.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, LibraryError> {
        let panicked = || LibraryError::Shared(StoreError::Failed("a request panicked".into()));
        Ok(self.thread.wait(work).ok_or_else(panicked)??)
    }

    pub(super) fn claim(&self, work: &Work) -> Result<Option<HeldClaim>, LibraryError> {
        let (claims, catalogue) = (Arc::clone(&self.claims), Arc::clone(&self.catalogue));
        let (work, lease) = (work.clone(), self.options.lease);
        let taken = self.wait(async move { claims.take(catalogue, &work, lease).await })?;
        Ok(taken.map(|(held, renewal)| {
            self.thread.spawn(renewal.run());
            held
        }))
    }

    pub(super) fn pieces(&self, numbers: &[u64]) -> Result<Vec<Option<Piece>>, LibraryError> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let (catalogue, numbers) = (Arc::clone(&self.catalogue), numbers.to_vec());
        self.wait(async move { catalogue.remote.pieces(&numbers).await })
    }

    fn rarities(&self) -> MutexGuard<'_, Rarities> {
        self.rarities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn words(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn similar(&self, form: &str) -> Result<Vec<(String, Vec<String>)>, LibraryError> {
        let (catalogue, form) = (Arc::clone(&self.catalogue), form.to_owned());
        self.wait(async move { catalogue.remote.similar(&form).await })
    }

    pub(super) fn terms_with_prefix(&self, prefix: &str) -> Result<Vec<String>, LibraryError> {
        let (catalogue, prefix) = (Arc::clone(&self.catalogue), prefix.to_owned());
        self.wait(async move { catalogue.remote.terms_with_prefix(&prefix).await })
    }

    /// Returns the terms and spellings that this host has not written yet.
    fn new_words(&self, prepared: &[TermVector]) -> Vec<(String, String)> {
        let mut words = self.words();
        let mut new = Vec::new();
        for term in prepared.iter().flat_map(|terms| &terms.0) {
            if words.len() >= MAX_WORDS {
                words.clear();
            }
            if words.insert(records::term_index(&format!("{}\0{}", term.term, term.form))) {
                new.push((term.term.clone(), term.form.clone()));
            }
        }
        new
    }

    pub(super) fn sources(&self) -> Result<Vec<Source>, LibraryError> {
        let sources = self.records::<StoredSource>(Kind::Source)?;
        let named = |stored: StoredSource| Source {
            name: stored.name,
            ..stored.source
        };
        Ok(sources.into_iter().map(named).collect())
    }

    pub(super) fn record_sources(&self, changed: &[Source], removed: &[String]) -> Result<(), LibraryError> {
        let stored = |source: &Source| StoredSource {
            name: source.name.clone(),
            source: source.clone(),
        };
        let written = changed
            .iter()
            .map(|source| Ok((source.name.clone(), object(&stored(source))?)));
        let written = written.collect::<Result<Vec<_>, LibraryError>>()?;
        let (catalogue, removed) = (Arc::clone(&self.catalogue), removed.to_vec());
        self.wait(async move {
            catalogue.remote.put_records(Kind::Source, written).await?;
            catalogue.remote.delete_records(Kind::Source, &removed).await
        })
    }

    pub(super) fn source_roots(&self) -> Result<Vec<SourceRoot>, LibraryError> {
        let roots = self.records::<StoredRoot>(Kind::Root)?;
        let root = |StoredRoot { path, identity }| SourceRoot { path, identity };
        Ok(roots.into_iter().map(root).collect())
    }

    pub(super) fn record_source_root(&self, root: &SourceRoot) -> Result<(), LibraryError> {
        let stored = StoredRoot {
            path: root.path.clone(),
            identity: root.identity.clone(),
        };
        let written = vec![(root.path.clone(), object(&stored)?)];
        let catalogue = Arc::clone(&self.catalogue);
        self.wait(async move { catalogue.remote.put_records(Kind::Root, written).await })
    }

    fn records<T: serde::de::DeserializeOwned>(&self, kind: Kind) -> Result<Vec<T>, LibraryError> {
        let catalogue = Arc::clone(&self.catalogue);
        let found = self.wait(async move { catalogue.remote.records(kind).await })?;
        let read = |fields| Ok(serde_json::from_value(Json::Object(fields))?);
        found.into_iter().map(read).collect()
    }
}

fn object(value: &impl Serialize) -> Result<Map<String, Json>, LibraryError> {
    Ok(serde_json::from_value(serde_json::to_value(value)?)?)
}

impl Remote {
    /// Deletes passages that no search returns. If that fails, a sweep deletes them.
    async fn leave(&self, first: u64) {
        if let Err(error) = self.delete_passages(first).await {
            tracing::warn!(first, %error, "passages stay until the next sweep");
        }
    }
}
