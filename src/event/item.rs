//! What a sink accepts.

use std::borrow::Cow;

use super::Event;

/// What an orchestrator sends into the sink: an event or a piece of the answer.
///
/// `&str` and `String` convert to answer text. Byte slices are answer text that may be split within
/// a character.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an item is passed on once; a box would cost an allocation per event"
)]
pub enum Item<'a> {
    /// A progress record.
    Event(Event),
    /// A piece of the answer.
    Text(Cow<'a, str>),
    /// A piece of the answer that may end within a character; the next piece completes it.
    Bytes(Cow<'a, [u8]>),
}

impl<'a> From<&'a str> for Item<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Item<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Item<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for Item<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Item<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Cow::Owned(bytes))
    }
}

impl From<Event> for Item<'_> {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}
