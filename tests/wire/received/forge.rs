//! Streams of Forge's own server.

use ragwire::Forge;
use serde_json::{Value, json};

use super::{event, named_events, read, text};

fn decode(events: &[(&str, Value)]) -> Vec<Value> {
    read(&mut Forge::default().decoder(), &named_events(events)).0
}

#[test]
fn an_event_has_the_name_in_its_object_or_that_of_its_line() {
    for (line, object, expected) in [
        ("token", json!({"content": "Yes"}), text("Yes")),
        ("message", json!({"type": "token", "content": "Yes"}), text("Yes")),
        (
            "token",
            json!({"type": "own name", "data": 1}),
            event("own name", json!({"data": 1})),
        ),
    ] {
        assert_eq!(decode(&[(line, object)]), [expected]);
    }
}

#[test]
fn a_member_does_not_rename_its_event() {
    let search = json!({"type": "search", "tool": "bm25", "event": "review", "query": null});
    assert_eq!(
        decode(&[("search", search)]),
        [event("search", json!({"tool": "bm25"}))]
    );
}
