//! The key of a session: its owner and its ID.

use std::sync::Arc;

use super::SessionError;

/// Longest session ID.
pub(super) const MAX_ID_BYTES: usize = 128;
/// Longest name of an owner: more than any subject of a token.
pub(super) const MAX_OWNER_BYTES: usize = 1024;

/// The owner and the ID of a session, both valid.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) owner: Arc<str>,
    pub(super) id: Arc<str>,
}

impl Key {
    pub(super) fn new(owner: &str, id: &str) -> Result<Self, SessionError> {
        if owner.len() > MAX_OWNER_BYTES {
            return Err(SessionError::BadOwner);
        }
        if !is_id(id) {
            return Err(SessionError::BadId);
        }
        Ok(Self {
            owner: owner.into(),
            id: id.into(),
        })
    }
}

/// Returns whether `id` can name a session.
pub(super) fn is_id(id: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_safe) && !id.bytes().all(|byte| byte == b'.')
}
