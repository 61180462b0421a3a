//! Reads the members of JSON objects.

use serde_json::{Map, Value};

use super::DecodeError;

/// The members of an object.
pub(super) type Members = Map<String, Value>;

/// The mark after the last object of several protocols.
pub(super) const DONE: &str = "[DONE]";

/// Reads an object.
pub(super) fn parse(data: &str) -> Result<Members, DecodeError> {
    serde_json::from_str(data).map_err(|_| DecodeError::BadEvent)
}

/// Reads an object without its `null` members.
pub(super) fn parse_filled(data: &str) -> Result<Members, DecodeError> {
    let mut members = parse(data)?;
    members.retain(|_, value| !value.is_null());
    Ok(members)
}

/// The member `name` if it is a string.
pub(super) fn word<'a>(members: &'a Members, name: &str) -> Option<&'a str> {
    members.get(name)?.as_str()
}

/// The member `name` if it is a string that is not empty.
pub(super) fn filled<'a>(members: &'a Members, name: &str) -> Option<&'a str> {
    word(members, name).filter(|word| !word.is_empty())
}

/// The member `name`, which must be a string.
pub(super) fn required<'a>(members: &'a Members, name: &str) -> Result<&'a str, DecodeError> {
    word(members, name).ok_or(DecodeError::BadEvent)
}

/// The elements of the list `name`.
pub(super) fn list<'a>(members: &'a Members, name: &str) -> impl Iterator<Item = &'a Value> {
    members.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Takes a member, or `null` if it is absent.
pub(super) fn take(members: &mut Members, name: &str) -> Value {
    members.shift_remove(name).unwrap_or_default()
}

/// Takes a member that is an object; anything else is one without members.
pub(super) fn take_members(members: &mut Members, name: &str) -> Members {
    match members.shift_remove(name) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// A member for [`Decoded::push_named`](super::decoded::Decoded::push_named).
pub(super) fn member(name: &str, value: impl Into<Value>) -> (String, Value) {
    (name.to_owned(), value.into())
}
