//! Events as JSON objects with their name in `type`, shared by `Forge`, `SessionChat` and `Eve`.

use std::borrow::Cow;

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::EncodeError;
use crate::event::Event;
use crate::json;

/// The keep-alive of wires on server-sent events: a comment, which readers skip.
pub(super) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// The members of an event, without its name.
pub(super) fn members(event: &Event) -> serde_json::Result<Map<String, Value>> {
    match serde_json::to_value(event)? {
        Value::Object(mut members) => {
            members.shift_remove("event");
            Ok(members)
        }
        _ => Ok(Map::new()),
    }
}

/// Builds an object with `type` first, then the members `names` in that order, then the others in
/// their order.
pub(super) fn object(kind: &str, names: &[&str], members: Map<String, Value>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("type".into(), kind.into());
    sort_into(&mut object, names, members);
    object
}

/// Appends the members `names` in that order, then the others in their order.
pub(super) fn sort_into(object: &mut Map<String, Value>, names: &[&str], mut members: Map<String, Value>) {
    for name in names {
        if let Some((name, value)) = members.shift_remove_entry(*name) {
            object.insert(name, value);
        }
    }
    object.extend(members);
}

/// The name of an event on a wire that uses the names `reserved` itself. An application event with
/// such a name, for example that of the terminal, gets the prefix `custom.`.
pub(super) fn unreserved_name<'a>(event: &'a Event, reserved: &[&str]) -> Cow<'a, str> {
    match event {
        Event::Custom(custom) if reserved.contains(&custom.name()) => {
            Cow::Owned(format!("{CUSTOM}{}", custom.name()))
        }
        event => Cow::Borrowed(event.name()),
    }
}

/// The prefix of an application event whose name the wire uses itself.
const CUSTOM: &str = "custom.";

/// Reads the event that was written under `name` with these members; the opposite of [`members`]
/// and [`unreserved_name`]. `None` if it is not an event.
pub(super) fn read(name: &str, members: Map<String, Value>, reserved: &[&str]) -> Option<Event> {
    let mut object = Map::new();
    object.insert("event".into(), own_name(name, reserved).into());
    let members = members.into_iter();
    object.extend(members.filter(|(name, value)| name != "event" && !value.is_null()));
    Event::deserialize(Value::Object(object)).ok()
}

/// The name of the event that is called `name` on a wire that uses the names `reserved` itself: the
/// opposite of [`unreserved_name`].
pub(super) fn own_name<'a>(name: &'a str, reserved: &[&str]) -> &'a str {
    let own = name.strip_prefix(CUSTOM).filter(|own| reserved.contains(own));
    own.unwrap_or(name)
}

/// Appends `object` as one line without a line end. Returns `TooLarge` if it has more than
/// `max_bytes`.
pub(super) fn write_line(
    object: &Map<String, Value>,
    max_bytes: usize,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let from = out.len();
    json::write(out, object)?;
    if out.len() - from > max_bytes {
        return Err(EncodeError::TooLarge { max_bytes });
    }
    Ok(())
}
