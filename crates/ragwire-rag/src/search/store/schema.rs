//! How a chunk is represented in Qdrant, on a server or in this process: the names of vectors and
//! fields, the payload, and the ID of a point.
//!
//! Both stores use the same representation, so that a collection can be moved from one to the
//! other. This module does not know any client.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Filter, StoreError};
use crate::Chunk;
use crate::search::lexical::indexed_text;
use crate::search::retrieve::RRF_K;

/// The named vectors: one for the whole chunk, one for each of its tokens, and its terms with their
/// BM25 weights.
pub(super) const DENSE: &str = "dense";
pub(super) const TOKENS: &str = "tokens";
pub(super) const WORDS: &str = "words";
/// The payload fields used in filters.
pub(super) const DOCUMENT: &str = "document_id";
pub(super) const LEVEL: &str = "level";
/// Terms are weighted and normalized like in the memory index, and not with Qdrant's defaults (256
/// terms, accents kept).
pub(super) const AVERAGE_TERMS: f64 = crate::search::lexical::AVERAGE_TERMS as f64;
pub(super) const ASCII_FOLDING: bool = true;
/// Qdrant counts ranks from 0 and the paper from 1, so Qdrant's k is one more for the same scores.
pub(super) const QDRANT_RRF_K: u16 = RRF_K + 1;

/// Returns the text of a chunk that is turned into terms.
pub(super) fn words(chunk: &Chunk) -> std::borrow::Cow<'_, str> {
    indexed_text(chunk.heading.as_deref(), &chunk.text)
}

/// Returns the whole chunk as JSON. Its level is always included, even where serde omits it,
/// because filters need it.
pub(super) fn payload(chunk: &Chunk) -> Result<Map<String, Value>, StoreError> {
    match serde_json::to_value(chunk) {
        Ok(Value::Object(mut payload)) => {
            payload.insert(LEVEL.to_owned(), chunk.level.as_str().into());
            Ok(payload)
        }
        Ok(_) => Err(StoreError::Failed(
            "a chunk did not serialize to a JSON object".into(),
        )),
        Err(error) => Err(StoreError::Failed(error.into())),
    }
}

pub(super) fn chunk(payload: Map<String, Value>) -> Result<Chunk, StoreError> {
    serde_json::from_value(Value::Object(payload)).map_err(|error| StoreError::Failed(error.into()))
}

/// Returns the ID of a chunk's point: the first 128 bits of the SHA-256 of the chunk's ID, as a
/// UUID of version 8 (RFC 9562, section 5.8), which leaves 122 of them. Among 10⁹ chunks two
/// collide with a probability of 10⁻¹⁹.
pub(super) fn point_id(chunk_id: &str) -> [u8; 16] {
    let hash = Sha256::digest(chunk_id.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// Returns the allowed values of each filtered field. Empty if all chunks are selected.
pub(super) fn conditions(filter: &Filter) -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let levels = filter
        .levels
        .iter()
        .map(|level| level.as_str().to_owned())
        .collect();
    [(LEVEL, levels), (DOCUMENT, filter.documents.clone())]
        .into_iter()
        .filter(|(_, values): &(_, Vec<String>)| !values.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn a_point_id_is_a_uuid_of_version_8() {
        let hex: String = point_id("d-0").iter().map(|byte| format!("{byte:02x}")).collect();
        // The output of `printf d-0 | sha256sum`, with version and variant set.
        assert_eq!(hex, "c0e9a3fadfe282d3acec25f05c93270e");
        assert_ne!(point_id("d-0"), point_id("d-1"));
    }

    #[test]
    fn a_chunk_is_restored_from_its_payload() {
        for level in [Level::Section, Level::Passage, Level::Sentence] {
            let mut whole = Chunk::new("d", "d.md", u32::MAX, "text");
            whole.level = level;
            whole.heading = Some(String::new());
            whole.page = Some(u32::MAX);
            let payload = payload(&whole).unwrap();
            assert_eq!(payload[LEVEL], level.as_str());
            assert_eq!(payload[DOCUMENT], "d");
            assert_eq!(chunk(payload).unwrap(), whole);
        }
    }
}
