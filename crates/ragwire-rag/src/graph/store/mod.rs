//! The durable graph: entities and triples, each triple with the passages that state it.
//!
//! All calls block, as in the [`Library`](crate::Library): a server makes them from
//! `tokio::task::spawn_blocking`. The file is durable; the searchable state is in memory and is
//! rebuilt from the file when it is opened.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rusqlite::ErrorCode;

use super::entity::Normal;
use super::extract::{MAX_PREDICATE_BYTES, MAX_TRIPLES, Relation};
use super::records::{Passages, Records, StoredDocument};

/// The limits on the size of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphRoom {
    /// Number of entities; each takes about 0.5 KiB of memory. Default: 300,000.
    pub max_entities: usize,
    /// Number of triples, counted once for each passage that states them; each takes about 0.6 KiB
    /// of memory. Default: 1,000,000.
    pub max_triples: usize,
}

impl Default for GraphRoom {
    /// Room for the triples of about 180,000 passages of prose: about 700 MiB when full.
    fn default() -> Self {
        Self {
            max_entities: 300_000,
            max_triples: 1_000_000,
        }
    }
}

impl GraphRoom {
    /// Room for this many entities and triples.
    pub fn new(max_entities: usize, max_triples: usize) -> Self {
        Self {
            max_entities,
            max_triples,
        }
    }
}

/// Why an operation on a graph failed. The graph is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The change would exceed a limit.
    #[error("the graph is full: at most {limit} {what}")]
    Full {
        /// The kind of item that exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Another process has the graph open.
    #[error("the graph is in use by another process")]
    InUse,
    /// The file was written by another version of this program.
    #[error("the graph has format {found}, but this program supports format {supported}")]
    Version {
        /// The file's format.
        found: u64,
        /// The supported format.
        supported: u64,
    },
    /// The file could not be read or written.
    #[error("the graph file could not be read or written")]
    Storage(#[source] Box<rusqlite::Error>),
    /// The folder could not be created.
    #[error("the graph folder could not be created")]
    Folder(#[source] std::io::Error),
    /// The file, or a record in it, does not have the expected form.
    #[error("the graph file is damaged: {0}")]
    Damaged(String),
}

impl From<serde_json::Error> for GraphError {
    fn from(error: serde_json::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl GraphError {
    /// Returns a stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } => "graph_full",
            Self::InUse => "graph_in_use",
            Self::Version { .. } => "graph_version",
            Self::Storage(_) | Self::Folder(_) => "graph_storage",
            Self::Damaged(_) => "graph_damaged",
        }
    }
}

impl From<rusqlite::Error> for GraphError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::InUse,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            // A table or a column that is not there, or has another type.
            Some(ErrorCode::Unknown) | None => Self::Damaged(error.to_string()),
            Some(_) => Self::Storage(Box::new(error)),
        }
    }
}

/// A searchable knowledge graph. Dropping it closes the file; every change is already on disk.
#[derive(Debug)]
pub struct Graph {
    room: GraphRoom,
    records: Records,
    pub(super) normal: Normal,
    shared: RwLock<Shared>,
    /// Locked while a document is added or removed.
    writer: Mutex<()>,
}

/// The state that searches read.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) documents: BTreeMap<u32, StoredDocument>,
    by_id: HashMap<String, u32>,
    pub(super) entities: HashMap<u32, Entity>,
    by_key: HashMap<Arc<str>, u32>,
    /// The entities whose names contain a word.
    pub(super) by_word: HashMap<Arc<str>, BTreeSet<u32>>,
    pub(super) edges: HashMap<u32, Edge>,
    by_ends: HashMap<(u32, Arc<str>, u32), u32>,
    /// Number of triples, counted once for each passage that states them.
    mentions: usize,
    next_entity: u32,
    next_edge: u32,
}

/// A thing that the documents name.
#[derive(Debug)]
pub(super) struct Entity {
    pub(super) key: Arc<str>,
    /// How often each spelling occurs.
    spellings: BTreeMap<Box<str>, u32>,
    /// How often it is the subject or object of a stated triple.
    mentions: u32,
    pub(super) edges: BTreeSet<u32>,
}

impl Entity {
    /// The most frequent spelling.
    pub(super) fn name(&self) -> &str {
        // The first of the largest; `max_by_key` alone would take the last.
        let most = self.spellings.iter().rev().max_by_key(|(_, count)| **count);
        most.map_or(&*self.key, |(spelling, _)| spelling)
    }
}

/// A triple, with every passage that states it.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) subject: u32,
    pub(super) predicate: Arc<str>,
    pub(super) object: u32,
    /// The certainty of each passage, by document number and ordinal.
    pub(super) mentions: BTreeMap<(u32, u32), f32>,
    /// The certainty of all of them together.
    pub(super) weight: f32,
}

impl Edge {
    /// Recomputes the weight: the doubts that the passages leave multiply.
    fn weigh(&mut self) {
        let doubt: f32 = self.mentions.values().map(|weight| 1.0 - weight).product();
        self.weight = 1.0 - doubt;
    }
}

/// A triple with the keys of its ends.
#[derive(Debug)]
struct KeyedTriple {
    from: String,
    to: String,
    triple: Relation,
}

/// A document in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphDocument {
    /// The document's ID.
    pub id: String,
    /// The extractor that found its triples.
    pub extractor: String,
}

/// The size of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphSize {
    /// Number of documents.
    pub documents: usize,
    /// Number of entities.
    pub entities: usize,
    /// Number of different triples.
    pub triples: usize,
    /// Number of triples, counted once for each passage that states them.
    pub mentions: usize,
}

impl Graph {
    /// The name of the file in the folder of a graph. While it is open, its log is beside it (`-wal`).
    pub const FILE_NAME: &'static str = "graph.db";

    /// Opens the graph in a folder, and creates both if they do not exist.
    ///
    /// # Errors
    ///
    /// `graph_in_use`, `graph_version`, `graph_storage`, `graph_damaged`. A file that cannot be
    /// used may be moved away: the graph is then rebuilt from the library.
    pub fn open(folder: &Path, room: GraphRoom) -> Result<Self, GraphError> {
        std::fs::create_dir_all(folder).map_err(GraphError::Folder)?;
        Self::with_records(Records::open(&folder.join(Self::FILE_NAME))?, room)
    }

    /// Creates a graph in memory, which lasts until it is dropped.
    ///
    /// # Errors
    ///
    /// `graph_storage`.
    pub fn in_memory(room: GraphRoom) -> Result<Self, GraphError> {
        Self::with_records(Records::in_memory()?, room)
    }

    fn with_records(records: Records, room: GraphRoom) -> Result<Self, GraphError> {
        let (normal, mut shared) = (Normal::default(), Shared::default());
        for (number, document) in records.documents()? {
            let passages = keyed(&normal, records.passages(number)?);
            shared.publish(number, document, &passages);
        }
        Ok(Self {
            room,
            records,
            normal,
            shared: RwLock::new(shared),
            writer: Mutex::new(()),
        })
    }

    /// Stores the triples of a document, by the ordinals of its passages, and replaces those it
    /// had. Of each passage at most 32 triples are stored; triples are skipped if an end has no
    /// name, both ends are the same entity, or the predicate is too long. When this returns, the
    /// triples are on disk and can be found. Readers wait a few milliseconds for 10,000 triples.
    ///
    /// # Errors
    ///
    /// `graph_full`, `graph_storage`; the graph is unchanged.
    pub fn put(
        &self,
        document_id: &str,
        extractor: &str,
        passages: Vec<(u32, Vec<Relation>)>,
    ) -> Result<(), GraphError> {
        let passages = keyed(&self.normal, passages);
        let document = StoredDocument {
            id: document_id.to_owned(),
            extractor: extractor.to_owned(),
        };
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.read().by_id.get(document_id).copied();
        let leaving = match old {
            Some(old) => keyed(&self.normal, self.records.passages(old)?),
            None => Vec::new(),
        };
        self.check_room(&passages, &leaving)?;
        let stored: Passages = passages
            .iter()
            .map(|(ordinal, all)| (*ordinal, all.iter().map(|one| one.triple.clone()).collect()))
            .collect();
        let number = self.records.replace(old, &document, &stored)?;
        let mut shared = self.write();
        if let Some(old) = old {
            shared.withdraw(old, &leaving);
        }
        shared.publish(number, document, &passages);
        Ok(())
    }

    /// Removes the triples of a document. Returns `false` if the graph has no document with that
    /// ID.
    ///
    /// # Errors
    ///
    /// `graph_storage`; the graph is unchanged.
    pub fn remove(&self, document_id: &str) -> Result<bool, GraphError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(number) = self.read().by_id.get(document_id).copied() else {
            return Ok(false);
        };
        let leaving = keyed(&self.normal, self.records.passages(number)?);
        self.records.remove(number)?;
        self.write().withdraw(number, &leaving);
        Ok(true)
    }

    /// All documents in the graph, including those without triples.
    pub fn documents(&self) -> Vec<GraphDocument> {
        let document = |one: &StoredDocument| GraphDocument {
            id: one.id.clone(),
            extractor: one.extractor.clone(),
        };
        self.read().documents.values().map(document).collect()
    }

    /// The size of the graph.
    pub fn size(&self) -> GraphSize {
        let shared = self.read();
        GraphSize {
            documents: shared.documents.len(),
            entities: shared.entities.len(),
            triples: shared.edges.len(),
            mentions: shared.mentions,
        }
    }

    /// The names of all entities by their keys, each in its most frequent spelling.
    pub fn names(&self) -> BTreeMap<String, String> {
        let shared = self.read();
        let name = |entity: &Entity| (entity.key.to_string(), entity.name().to_owned());
        shared.entities.values().map(name).collect()
    }

    /// The spellings of an entity, with how often each occurs; empty if no entity has that name.
    pub fn spellings(&self, name: &str) -> BTreeMap<String, u32> {
        let shared = self.read();
        let key = self.normal.key(name);
        let entity = key.and_then(|key| shared.entity(&key));
        let all = entity.into_iter().flat_map(|entity| &entity.spellings);
        all.map(|(spelling, count)| (spelling.to_string(), *count))
            .collect()
    }

    /// Checks that the graph stays within its limits.
    fn check_room(
        &self,
        coming: &[(u32, Vec<KeyedTriple>)],
        leaving: &[(u32, Vec<KeyedTriple>)],
    ) -> Result<(), GraphError> {
        let shared = self.read();
        let count =
            |passages: &[(u32, Vec<KeyedTriple>)]| passages.iter().map(|(_, all)| all.len()).sum::<usize>();
        if (shared.mentions + count(coming)).saturating_sub(count(leaving)) > self.room.max_triples {
            return Err(GraphError::Full {
                what: "triples",
                limit: self.room.max_triples,
            });
        }
        let mut change: HashMap<&str, i64> = HashMap::new();
        for (passages, by) in [(coming, 1), (leaving, -1)] {
            for one in passages.iter().flat_map(|(_, all)| all) {
                *change.entry(&one.from).or_default() += by;
                *change.entry(&one.to).or_default() += by;
            }
        }
        let mut entities = shared.entities.len();
        for (key, by) in change {
            let before = shared.entity(key).map_or(0, |entity| i64::from(entity.mentions));
            match (before > 0, before + by > 0) {
                (false, true) => entities += 1,
                (true, false) => entities -= 1,
                _ => {}
            }
        }
        if entities > self.room.max_entities {
            return Err(GraphError::Full {
                what: "entities",
                limit: self.room.max_entities,
            });
        }
        Ok(())
    }

    // A panic under the lock leaves part of a document's triples, all of them true.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the valid triples, each once per passage, with the keys of their ends. Passages without
/// any are left out.
fn keyed(normal: &Normal, passages: Passages) -> Vec<(u32, Vec<KeyedTriple>)> {
    let mut by_ordinal: BTreeMap<u32, Vec<KeyedTriple>> = BTreeMap::new();
    for (ordinal, triples) in passages {
        let here = by_ordinal.entry(ordinal).or_default();
        for triple in triples {
            let bad_predicate = triple.predicate.is_empty()
                || triple.predicate.len() > MAX_PREDICATE_BYTES
                || triple.predicate.contains(char::is_control);
            let (Some(from), Some(to)) = (normal.key(&triple.subject), normal.key(&triple.object)) else {
                continue;
            };
            if bad_predicate || from == to {
                continue;
            }
            let same = |one: &&mut KeyedTriple| {
                one.from == from && one.to == to && one.triple.predicate == triple.predicate
            };
            if let Some(known) = here.iter_mut().find(same) {
                known.triple.weight = known.triple.weight.max(triple.weight);
            } else if here.len() < MAX_TRIPLES {
                here.push(KeyedTriple { from, to, triple });
            }
        }
    }
    by_ordinal.retain(|_, triples| !triples.is_empty());
    by_ordinal.into_iter().collect()
}

impl Shared {
    pub(super) fn id(&self, key: &str) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    fn entity(&self, key: &str) -> Option<&Entity> {
        self.entities.get(&self.id(key)?)
    }

    fn publish(&mut self, number: u32, document: StoredDocument, passages: &[(u32, Vec<KeyedTriple>)]) {
        for (ordinal, triples) in passages {
            for one in triples {
                self.add_mention((number, *ordinal), one);
            }
        }
        self.by_id.insert(document.id.clone(), number);
        self.documents.insert(number, document);
    }

    fn withdraw(&mut self, number: u32, passages: &[(u32, Vec<KeyedTriple>)]) {
        if let Some(document) = self.documents.remove(&number) {
            self.by_id.remove(&document.id);
        }
        for (ordinal, triples) in passages {
            for one in triples {
                self.remove_mention((number, *ordinal), one);
            }
        }
    }

    fn add_mention(&mut self, place: (u32, u32), one: &KeyedTriple) {
        let subject = self.add_end(&one.from, &one.triple.subject);
        let object = self.add_end(&one.to, &one.triple.object);
        let predicate: Arc<str> = one.triple.predicate.as_str().into();
        let id = match self.by_ends.entry((subject, Arc::clone(&predicate), object)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let id = self.next_edge;
                self.next_edge += 1;
                self.edges.insert(
                    id,
                    Edge {
                        subject,
                        predicate,
                        object,
                        mentions: BTreeMap::new(),
                        weight: 0.0,
                    },
                );
                *new.insert(id)
            }
        };
        for end in [subject, object] {
            if let Some(entity) = self.entities.get_mut(&end) {
                entity.edges.insert(id);
            }
        }
        if let Some(edge) = self.edges.get_mut(&id) {
            edge.mentions.insert(place, one.triple.weight);
            edge.weigh();
        }
        self.mentions += 1;
    }

    fn remove_mention(&mut self, place: (u32, u32), one: &KeyedTriple) {
        let ends = (
            self.by_key.get(&*one.from).copied(),
            self.by_key.get(&*one.to).copied(),
        );
        let (Some(subject), Some(object)) = ends else {
            return;
        };
        let key = (subject, Arc::from(one.triple.predicate.as_str()), object);
        let Some(id) = self.by_ends.get(&key).copied() else {
            return;
        };
        let mut is_unused = false;
        if let Some(edge) = self.edges.get_mut(&id) {
            if edge.mentions.remove(&place).is_some() {
                self.mentions -= 1;
            }
            edge.weigh();
            is_unused = edge.mentions.is_empty();
        }
        if is_unused {
            self.edges.remove(&id);
            self.by_ends.remove(&key);
            for end in [subject, object] {
                if let Some(entity) = self.entities.get_mut(&end) {
                    entity.edges.remove(&id);
                }
            }
        }
        self.remove_end(subject, &one.triple.subject);
        self.remove_end(object, &one.triple.object);
    }

    /// Adds a mention to the entity with that key, and creates the entity if necessary.
    fn add_end(&mut self, key: &str, spelling: &str) -> u32 {
        let id = match self.by_key.get(key) {
            Some(known) => *known,
            None => {
                let (id, key) = (self.next_entity, Arc::<str>::from(key));
                self.next_entity += 1;
                for word in key.split(' ') {
                    self.by_word.entry(word.into()).or_default().insert(id);
                }
                self.by_key.insert(Arc::clone(&key), id);
                let entity = Entity {
                    key,
                    spellings: BTreeMap::new(),
                    mentions: 0,
                    edges: BTreeSet::new(),
                };
                self.entities.insert(id, entity);
                id
            }
        };
        if let Some(entity) = self.entities.get_mut(&id) {
            entity.mentions += 1;
            *entity.spellings.entry(spelling.into()).or_default() += 1;
        }
        id
    }

    /// Removes a mention of an entity, and the entity with its last mention.
    fn remove_end(&mut self, id: u32, spelling: &str) {
        let Some(entity) = self.entities.get_mut(&id) else {
            return;
        };
        entity.mentions -= 1;
        if let Some(count) = entity.spellings.get_mut(spelling) {
            *count -= 1;
            if *count == 0 {
                entity.spellings.remove(spelling);
            }
        }
        if entity.mentions > 0 {
            return;
        }
        let Some(entity) = self.entities.remove(&id) else {
            return;
        };
        self.by_key.remove(&entity.key);
        for word in entity.key.split(' ') {
            if let Some(all) = self.by_word.get_mut(word) {
                all.remove(&id);
                if all.is_empty() {
                    self.by_word.remove(word);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
