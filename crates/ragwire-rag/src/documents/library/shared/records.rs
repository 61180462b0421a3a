//! What a shared library stores in its collection: the points, their payloads and their vectors.
//!
//! This module does not know any connection.

use std::collections::HashMap;

use qdrant_client::Payload;
use qdrant_client::qdrant::{NamedVectors, PointId, PointStruct, SparseVector, Value, Vector, vector};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

use super::super::records::StoredDocument;
use crate::documents::chunk::Piece;
use crate::search::lexical::{TermVector, score};
use crate::search::store::StoreError;
use crate::search::store::qdrant::point_id;

/// The sparse vectors: the terms of a passage, and the letter pairs of a word.
pub(super) const WORDS: &str = "words";
pub(super) const LETTERS: &str = "letters";
/// What a point is, unless it is a passage.
pub(super) const KIND: &str = "kind";
/// Of a passage: the number of the first passage of its document.
pub(super) const FIRST: &str = "first";
/// Of a head: when it changed, in milliseconds since 1970-01-01T00:00:00Z, always later than before.
pub(super) const VERSION: &str = "version";
/// Of a claim: who holds it, and how often it was renewed.
pub(super) const HOLDER: &str = "holder";
pub(super) const BEAT: &str = "beat";
/// Of the counter: the next number that no passage has.
pub(super) const NEXT: &str = "next";
/// Of a word: the first letters of its term.
pub(super) const START: &str = "start";
/// So many letters: as many as a `prefix*` has at least.
pub(super) const START_LETTERS: usize = 3;

/// What a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Makes a document visible. One for each name, also after the document was removed.
    Head,
    /// A file that was read.
    Source,
    /// A folder that was read.
    Root,
    /// A spelling of a term.
    Word,
    /// Work that one host does.
    Claim,
    /// The number of the next passage.
    Counter,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Source => "source",
            Self::Root => "root",
            Self::Word => "word",
            Self::Claim => "claim",
            Self::Counter => "counter",
        }
    }

    /// Returns the ID of the point with this key.
    pub(super) fn id(self, key: &str) -> PointId {
        point_id(&format!("{}\0{key}", self.as_str()))
    }
}

/// What a host has to know of a head to see whether it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// What a document replaces another by: its owner and name.
    pub(super) key: String,
    pub(super) version: u64,
    /// The number of the first passage. No two documents have the same.
    pub(super) begins: u64,
    /// Whether the document is in the library, or was removed.
    pub(super) live: bool,
}

/// The point that makes a document visible.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) mark: Mark,
    /// `None` for a removed document.
    pub(super) document: Option<StoredDocument>,
}

/// The names of the fields of a [`Mark`].
pub(super) const MARK_FIELDS: [&str; 4] = ["key", VERSION, "begins", "live"];

pub(super) fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Failed(error.into())
}

/// A point without vectors.
pub(super) fn record(kind: Kind, key: &str, mut fields: Map<String, Json>) -> PointStruct {
    fields.insert(KIND.to_owned(), kind.as_str().into());
    point(kind.id(key), fields, [])
}

pub(super) fn head(head: &Head) -> Result<PointStruct, StoreError> {
    let mut fields = object(&head.mark)?;
    if let Some(document) = &head.document {
        // As text: nothing in it is searched, and the server would keep each number as a field.
        let document = serde_json::to_string(document).map_err(failed)?;
        fields.insert("document".to_owned(), document.into());
    }
    Ok(record(Kind::Head, &head.mark.key, fields))
}

pub(super) fn read_mark(payload: HashMap<String, Value>) -> Result<Mark, StoreError> {
    serde_json::from_value(Json::Object(json_of(payload))).map_err(failed)
}

pub(super) fn read_head(payload: HashMap<String, Value>) -> Result<Head, StoreError> {
    let mut fields = json_of(payload);
    let document = match fields.remove("document") {
        Some(Json::String(text)) => Some(serde_json::from_str(&text).map_err(failed)?),
        Some(_) | None => None,
    };
    let mark = serde_json::from_value(Json::Object(fields)).map_err(failed)?;
    Ok(Head { mark, document })
}

/// A passage, its terms with their BM25 weights, and the number of the first passage of its document.
pub(super) fn passage(
    number: u64,
    first: u64,
    piece: &Piece,
    terms: &TermVector,
) -> Result<PointStruct, StoreError> {
    let mut fields = object(piece)?;
    fields.insert(FIRST.to_owned(), first.into());
    // Two terms with the same number are one for the server.
    let mut weights: HashMap<u32, f32> = HashMap::new();
    for term in &terms.0 {
        let weight = weights.entry(term_index(&term.term)).or_default();
        *weight = weight.max(score(1.0, term.impact));
    }
    Ok(point(number.into(), fields, [(WORDS, sparse(weights))]))
}

pub(super) fn read_piece(payload: HashMap<String, Value>) -> Result<Piece, StoreError> {
    let mut fields = json_of(payload);
    fields.remove(FIRST);
    serde_json::from_value(Json::Object(fields)).map_err(failed)
}

/// A spelling of a term.
pub(super) fn word(term: &str, form: &str) -> PointStruct {
    let start: String = term.chars().take(START_LETTERS).collect();
    let fields = json!({ KIND: Kind::Word.as_str(), "term": term, "form": form, START: start });
    let fields = match fields {
        Json::Object(fields) => fields,
        _ => Map::new(),
    };
    let id = Kind::Word.id(&format!("{term}\0{form}"));
    point(id, fields, [(LETTERS, letters(form))])
}

pub(super) fn read_word(payload: &HashMap<String, Value>) -> Option<(String, Vec<String>)> {
    let text = |field| Some(payload.get(field)?.as_str()?.to_owned());
    Some((text("term")?, vec![text("form")?]))
}

/// The pairs of letters of a word, as a vector of length 1.
pub(super) fn letters(form: &str) -> SparseVector {
    let letters: Vec<char> = [' '].into_iter().chain(form.chars()).chain([' ']).collect();
    let mut weights: HashMap<u32, f32> = HashMap::new();
    for pair in letters.windows(2) {
        *weights
            .entry(term_index(&pair.iter().collect::<String>()))
            .or_default() += 1.0;
    }
    let length = weights.values().map(|weight| weight * weight).sum::<f32>().sqrt();
    weights.values_mut().for_each(|weight| *weight /= length);
    sparse(weights)
}

/// The number of a term in sparse vectors: the first 32 bits of its SHA-256. Among a million terms
/// some hundred share a number.
pub(super) fn term_index(term: &str) -> u32 {
    let hash = Sha256::digest(term.as_bytes());
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

fn sparse(weights: HashMap<u32, f32>) -> SparseVector {
    let mut weights: Vec<_> = weights.into_iter().collect();
    weights.sort_unstable_by_key(|(index, _)| *index);
    let (indices, values) = weights.into_iter().unzip();
    SparseVector { values, indices }
}

fn point<const N: usize>(
    id: PointId,
    fields: Map<String, Json>,
    vectors: [(&str, SparseVector); N],
) -> PointStruct {
    let vectors = vectors.map(|(name, vector)| {
        let vector = Vector {
            vector: Some(vector::Vector::Sparse(vector)),
            ..Vector::default()
        };
        (name.to_owned(), vector)
    });
    let vectors = NamedVectors {
        vectors: vectors.into(),
    };
    PointStruct {
        id: Some(id),
        payload: Payload::from(fields).into(),
        vectors: Some(vectors.into()),
    }
}

fn object(value: &impl Serialize) -> Result<Map<String, Json>, StoreError> {
    match serde_json::to_value(value) {
        Ok(Json::Object(fields)) => Ok(fields),
        Ok(_) => Err(failed("a record did not serialize to a JSON object")),
        Err(error) => Err(failed(error)),
    }
}

pub(super) fn json_of(payload: HashMap<String, Value>) -> Map<String, Json> {
    Payload::from(payload).into()
}
