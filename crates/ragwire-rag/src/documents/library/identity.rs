//! What identifies a document: its ID, by which others name it, and its key, by which another one
//! replaces it.

use sha2::{Digest, Sha256};

use super::owners::DocumentOwner;
use crate::Parsed;

/// Returns the key of a document: its name, among those of its owner. A name has no control characters,
/// so no two pairs have the same key.
pub(super) fn key(owner: Option<&str>, name: &str) -> String {
    match owner {
        Some(owner) => format!("{owner}\u{1f}{name}"),
        None => name.to_owned(),
    }
}

/// 128 bits of SHA-256 over the name and the parsed content, each part preceded by its length, and over
/// the name of an owner.
pub(super) fn document_id(owner: Option<&DocumentOwner>, name: &str, parsed: &Parsed) -> String {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(name.as_bytes());
    part(parsed.kind.as_str().as_bytes());
    part(parsed.title.as_deref().unwrap_or_default().as_bytes());
    if !parsed.front_matter.is_empty() {
        part(parsed.front_matter.date.as_deref().unwrap_or_default().as_bytes());
        parsed
            .front_matter
            .tags
            .iter()
            .for_each(|tag| part(tag.as_bytes()));
    }
    for block in &parsed.blocks {
        part(block.heading.as_deref().unwrap_or_default().as_bytes());
        part(&block.page.unwrap_or(0).to_le_bytes());
        part(block.text.as_bytes());
    }
    if let Some(owner) = owner {
        part(b"owner");
        part(owner.name.as_bytes());
    }
    hasher.finalize()[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
