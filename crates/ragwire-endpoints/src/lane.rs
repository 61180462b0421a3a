//! Lanes of the turn group: one question at a time in a session or a chat.

use crate::owner::Owner;

/// The lane of a session or of a chat. Each owner has lanes of their own, and the prefix keeps
/// sessions and chats with the same id apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lane(String);

const SESSION: &str = "session/";
const CHAT: &str = "chat/";

impl Lane {
    /// Returns the lane of a session, whose id contains no `/`.
    pub(crate) fn session(owner: &Owner, id: &str) -> Self {
        Self(format!("{SESSION}{id}/{}", owner.as_str()))
    }

    /// Returns the lane of a chat.
    pub(crate) fn chat(owner: &Owner, id: &str) -> Self {
        Self(format!("{CHAT}{id}/{}", owner.as_str()))
    }

    /// Returns the id of the session if the lane belongs to a session of this owner.
    pub(crate) fn session_id<'a>(lane: &'a str, owner: &Owner) -> Option<&'a str> {
        let (id, name) = lane.strip_prefix(SESSION)?.split_once('/')?;
        (name == owner.as_str()).then_some(id)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Lane> for String {
    fn from(lane: Lane) -> Self {
        lane.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_belongs_to_one_session_of_one_owner() {
        let (anonymous, ada) = (Owner::anonymous(), Owner::new("ada/1"));
        for owner in [&anonymous, &ada] {
            let lane = Lane::session(owner, "s-1");
            assert_eq!(Lane::session_id(lane.as_str(), owner), Some("s-1"));
            assert_eq!(Lane::session_id(Lane::chat(owner, "s-1").as_str(), owner), None);
        }
        assert_eq!(
            Lane::session_id(Lane::session(&ada, "s-1").as_str(), &anonymous),
            None
        );
    }
}
