//! The durable graph: entities and triples, each triple with the passages that say it.
//!
//! Everything is synchronous, as in the [`Library`](crate::Library): a server calls it from `tokio::task::spawn_blocking`. The file is
//! what lasts; what is searched stands in memory and is built from it when it is opened.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::entity::Normal;
use super::extract::{MAX_PREDICATE_BYTES, MAX_TRIPLES, Relation};
use super::records::{Passages, Records, StoredDocument};

/// The one file in the folder of a graph.
pub const FILE_NAME: &str = "graph.redb";

/// How much a graph may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphRoom {
    /// Entities; each costs about 0.5 KiB of memory.
    pub max_entities: usize,
    /// Triples, each counted once for every passage that says it; each costs about 0.6 KiB of memory.
    pub max_triples: usize,
}

impl Default for GraphRoom {
    /// As many triples as some 180,000 passages of prose give: about 700 MiB when full.
    fn default() -> Self {
        Self {
            max_entities: 300_000,
            max_triples: 1_000_000,
        }
    }
}

impl GraphRoom {
    /// Room for so many entities and triples.
    pub fn new(max_entities: usize, max_triples: usize) -> Self {
        Self {
            max_entities,
            max_triples,
        }
    }
}

/// Why a graph did not do what was asked. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// One more would pass a limit.
    #[error("the graph is full: at most {limit} {what}")]
    Full {
        /// Of what there is too much.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Another process has the graph open.
    #[error("the graph is in use by another process")]
    InUse,
    /// The file was written by another version of this program.
    #[error("the graph has format {found}, and this program reads {supported}")]
    Version {
        /// The file's format.
        found: u64,
        /// The format that is read.
        supported: u64,
    },
    /// The file could not be read or written.
    #[error("the graph file could not be used")]
    Storage(#[source] Box<redb::Error>),
    /// The folder could not be made.
    #[error("the graph folder could not be used")]
    Folder(#[source] std::io::Error),
    /// A record in the file is not what was written.
    #[error("a record of the graph is damaged")]
    Damaged(#[from] serde_json::Error),
}

impl GraphError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } => "graph_full",
            Self::InUse => "graph_in_use",
            Self::Version { .. } => "graph_version",
            Self::Storage(_) | Self::Folder(_) => "graph_storage",
            Self::Damaged(_) => "graph_damaged",
        }
    }

    pub(super) fn storage(error: impl Into<redb::Error>) -> Self {
        Self::Storage(Box::new(error.into()))
    }
}

/// A knowledge graph, searchable. Dropping it closes the file; there is nothing to flush.
#[derive(Debug)]
pub struct Graph {
    room: GraphRoom,
    records: Records,
    pub(super) normal: Normal,
    shared: RwLock<Shared>,
    /// Held while a document is put in or taken out.
    writer: Mutex<()>,
}

/// What readers see.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) documents: BTreeMap<u32, StoredDocument>,
    by_id: HashMap<String, u32>,
    pub(super) entities: HashMap<u32, Entity>,
    by_key: HashMap<Arc<str>, u32>,
    /// The entities whose names hold a word.
    pub(super) by_word: HashMap<Arc<str>, BTreeSet<u32>>,
    pub(super) edges: HashMap<u32, Edge>,
    by_ends: HashMap<(u32, Arc<str>, u32), u32>,
    /// How often triples are said.
    said: usize,
    next_entity: u32,
    next_edge: u32,
}

/// Something that the documents speak of.
#[derive(Debug)]
pub(super) struct Entity {
    pub(super) key: Arc<str>,
    /// How often it is spelled how.
    spellings: BTreeMap<Box<str>, u32>,
    /// Ends of sayings that it is.
    mentions: u32,
    pub(super) edges: BTreeSet<u32>,
}

impl Entity {
    /// As it is spelled most often.
    pub(super) fn name(&self) -> &str {
        // The first of the largest: `max_by_key` would take the last.
        let most = self.spellings.iter().rev().max_by_key(|(_, count)| **count);
        most.map_or(&*self.key, |(spelling, _)| spelling)
    }
}

/// A triple, with every passage that says it.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) subject: u32,
    pub(super) predicate: Arc<str>,
    pub(super) object: u32,
    /// How sure each passage is: document number and ordinal.
    pub(super) said: BTreeMap<(u32, u32), f32>,
    /// How sure all of them are together.
    pub(super) weight: f32,
}

impl Edge {
    /// Each passage leaves a doubt, and the doubts multiply.
    fn weigh(&mut self) {
        let doubt: f32 = self.said.values().map(|weight| 1.0 - weight).product();
        self.weight = 1.0 - doubt;
    }
}

/// A triple with the keys of its ends.
#[derive(Debug)]
struct Keyed {
    from: String,
    to: String,
    triple: Relation,
}

/// What the graph holds of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphDocument {
    /// The document's id.
    pub id: String,
    /// What found its triples.
    pub extractor: String,
}

/// How much a graph holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphSize {
    /// Documents.
    pub documents: usize,
    /// Entities.
    pub entities: usize,
    /// Different triples.
    pub triples: usize,
    /// Triples, each counted once for every passage that says it.
    pub said: usize,
}

impl Graph {
    /// Opens the graph of a folder, or makes both.
    ///
    /// # Errors
    /// `graph_in_use`, `graph_version`, `graph_storage`, `graph_damaged`. A file that cannot be used may be moved away: the graph is made
    /// anew from the library.
    pub fn open(folder: &Path, room: GraphRoom) -> Result<Self, GraphError> {
        std::fs::create_dir_all(folder).map_err(GraphError::Folder)?;
        Self::with_records(Records::open(&folder.join(FILE_NAME))?, room)
    }

    /// A graph that is gone when it is dropped.
    ///
    /// # Errors
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

    /// Puts the triples of a document in, by the ordinals of its passages, in place of those it had. Of a passage at most [`MAX_TRIPLES`] are
    /// taken; one without a name at either end, with the same entity at both, or with a predicate that is too long, is left out. It is on
    /// disk and can be found when this returns. Readers wait some milliseconds for 10,000 triples.
    ///
    /// # Errors
    /// `graph_full`, `graph_storage`; the graph is as it was.
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

    /// Takes the triples of a document out; false if there is none with that id.
    ///
    /// # Errors
    /// `graph_storage`; they are then still there.
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

    /// All documents that it holds, also those without triples.
    pub fn documents(&self) -> Vec<GraphDocument> {
        let document = |one: &StoredDocument| GraphDocument {
            id: one.id.clone(),
            extractor: one.extractor.clone(),
        };
        self.read().documents.values().map(document).collect()
    }

    /// How much it holds.
    pub fn size(&self) -> GraphSize {
        let shared = self.read();
        GraphSize {
            documents: shared.documents.len(),
            entities: shared.entities.len(),
            triples: shared.edges.len(),
            said: shared.said,
        }
    }

    /// The names of all entities by their keys, each as it is spelled most often.
    pub fn names(&self) -> BTreeMap<String, String> {
        let shared = self.read();
        let name = |entity: &Entity| (entity.key.to_string(), entity.name().to_owned());
        shared.entities.values().map(name).collect()
    }

    /// How an entity is spelled, and how often; empty where there is none of that name.
    pub fn spellings(&self, name: &str) -> BTreeMap<String, u32> {
        let shared = self.read();
        let key = self.normal.key(name);
        let entity = key.and_then(|key| shared.entity(&key));
        let all = entity.into_iter().flat_map(|entity| &entity.spellings);
        all.map(|(spelling, count)| (spelling.to_string(), *count))
            .collect()
    }

    /// What would be more than there is room for.
    fn check_room(
        &self,
        coming: &[(u32, Vec<Keyed>)],
        leaving: &[(u32, Vec<Keyed>)],
    ) -> Result<(), GraphError> {
        let shared = self.read();
        let count = |passages: &[(u32, Vec<Keyed>)]| passages.iter().map(|(_, all)| all.len()).sum::<usize>();
        if (shared.said + count(coming)).saturating_sub(count(leaving)) > self.room.max_triples {
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

    // What a panic under the lock leaves is half a document's triples, all of them true.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Triples that can be taken, each once for its passage, with the keys of their ends. A passage without any is left out.
fn keyed(normal: &Normal, passages: Passages) -> Vec<(u32, Vec<Keyed>)> {
    let mut by_ordinal: BTreeMap<u32, Vec<Keyed>> = BTreeMap::new();
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
            let same = |one: &&mut Keyed| {
                one.from == from && one.to == to && one.triple.predicate == triple.predicate
            };
            if let Some(known) = here.iter_mut().find(same) {
                known.triple.weight = known.triple.weight.max(triple.weight);
            } else if here.len() < MAX_TRIPLES {
                here.push(Keyed { from, to, triple });
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

    fn publish(&mut self, number: u32, document: StoredDocument, passages: &[(u32, Vec<Keyed>)]) {
        for (ordinal, triples) in passages {
            for one in triples {
                self.say((number, *ordinal), one);
            }
        }
        self.by_id.insert(document.id.clone(), number);
        self.documents.insert(number, document);
    }

    fn withdraw(&mut self, number: u32, passages: &[(u32, Vec<Keyed>)]) {
        if let Some(document) = self.documents.remove(&number) {
            self.by_id.remove(&document.id);
        }
        for (ordinal, triples) in passages {
            for one in triples {
                self.unsay((number, *ordinal), one);
            }
        }
    }

    fn say(&mut self, place: (u32, u32), one: &Keyed) {
        let subject = self.mention(&one.from, &one.triple.subject);
        let object = self.mention(&one.to, &one.triple.object);
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
                        said: BTreeMap::new(),
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
            edge.said.insert(place, one.triple.weight);
            edge.weigh();
        }
        self.said += 1;
    }

    fn unsay(&mut self, place: (u32, u32), one: &Keyed) {
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
        let mut is_gone = false;
        if let Some(edge) = self.edges.get_mut(&id) {
            if edge.said.remove(&place).is_some() {
                self.said -= 1;
            }
            edge.weigh();
            is_gone = edge.said.is_empty();
        }
        if is_gone {
            self.edges.remove(&id);
            self.by_ends.remove(&key);
            for end in [subject, object] {
                if let Some(entity) = self.entities.get_mut(&end) {
                    entity.edges.remove(&id);
                }
            }
        }
        self.forget(subject, &one.triple.subject);
        self.forget(object, &one.triple.object);
    }

    /// The entity of that key, one mention more.
    fn mention(&mut self, key: &str, spelling: &str) -> u32 {
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

    /// One mention less, and the entity itself with the last.
    fn forget(&mut self, id: u32, spelling: &str) {
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
#[path = "store_tests.rs"]
mod tests;
