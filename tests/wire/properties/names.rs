//! Names and ids from outside: a wire either refuses one that it cannot carry, with a typed error
//! before anything is written, or writes it where it is escaped.

use bytes::BytesMut;
use ragwire::event::Custom;
use ragwire::wire::Wire;
use ragwire::wire::sse::EventStream;
use ragwire::{
    AgUi, AiSdk, End, Event, Forge, Framed, Metadata, Ndjson, OpenAi, Responses, SessionChat, Sse,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Names that would end a line, a field or a record somewhere.
const NAMES: [&str; 12] = [
    "a\nb",
    "a\rb",
    "a\r\n\r\ndata: x",
    "nul\0",
    "\u{85}",
    "\u{b}",
    "\u{c}",
    "\u{1c}",
    "\u{1d}",
    "\u{1e}",
    "\u{1f}",
    "\u{7f}",
];

/// Names that end lines for some readers only and contain no control character.
const SEPARATORS: [&str; 2] = ["a\u{2028}b", "a\u{2029}b"];

/// An event with an unchecked name, as a decoder or `serde` makes it from JSON.
fn unchecked(name: &str) -> Event {
    serde_json::from_value(json!({"event": name, "data": 1})).unwrap()
}

/// The objects of a stream of server-sent events, with the type of each.
fn messages(bytes: &[u8]) -> Vec<(String, Value)> {
    let mut stream = EventStream::default();
    stream.feed(bytes);
    let messages = stream.map(Result::unwrap);
    messages
        .map(|message| {
            (
                message.event,
                serde_json::from_str(&message.data).unwrap_or_default(),
            )
        })
        .collect()
}

fn event(wire: &dyn Wire, event: &Event) -> BytesMut {
    let mut out = BytesMut::new();
    wire.encoder().event(event, None, &mut out).unwrap();
    out
}

fn end(wire: &dyn Wire) -> BytesMut {
    let mut out = BytesMut::new();
    wire.encoder()
        .end(&End::completed(Metadata::default()), &mut out)
        .unwrap();
    out
}

#[test]
fn an_application_event_cannot_have_a_name_with_a_control_character() {
    for name in NAMES {
        assert_eq!(
            Custom::new(name, &()).unwrap_err().code(),
            "event_name",
            "{name:?}"
        );
    }
    for name in SEPARATORS {
        assert_eq!(Custom::new(name, &()).unwrap().name(), name);
    }
}

#[test]
fn server_sent_events_refuse_an_unchecked_name_with_a_control_character() {
    for name in NAMES {
        let (mut encoder, mut out) = (Sse::default().encoder(), BytesMut::from("before"));
        let error = encoder.event(&unchecked(name), None, &mut out).unwrap_err();
        assert_eq!(
            (error.code(), &out[..]),
            ("event_name", &b"before"[..]),
            "{name:?}"
        );
    }
    for name in SEPARATORS {
        let received = messages(&event(&Sse::default(), &unchecked(name)));
        assert_eq!(received, [("custom".into(), json!({"event": name, "data": 1}))]);
    }
}

#[test]
fn forge_replaces_line_ends_in_the_type_and_keeps_the_name_in_the_data() {
    for name in NAMES.into_iter().chain(SEPARATORS) {
        let ends_line = |char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}');
        let shown = name.replace(ends_line, "\u{fffd}");
        let received = messages(&event(&Forge::default(), &unchecked(name)));
        assert_eq!(received, [(shown, json!({"type": name, "data": 1}))]);
    }
}

#[test]
fn the_other_wires_have_names_in_json_only() {
    for name in NAMES.into_iter().chain(SEPARATORS) {
        let object = json!({"event": name, "data": 1});
        for wire in [&Framed::default() as &dyn Wire, &Ndjson::default()] {
            let bytes = event(wire, &unchecked(name));
            let line = std::str::from_utf8(&bytes).unwrap().strip_suffix('\n').unwrap();
            let mut received: Value = serde_json::from_str(line).unwrap();
            received.as_object_mut().unwrap().shift_remove("index");
            assert_eq!(received, object);
            assert!(!line.contains(|char: char| char.is_control() || "\u{2028}\u{2029}".contains(char)));
        }
        let wires: [(&dyn Wire, &str, Value); 5] = [
            (&SessionChat::default(), "/type", name.into()),
            (&AiSdk::default(), "/type", format!("data-{name}").into()),
            (&AgUi::new("t", "r"), "/name", name.into()),
            (&OpenAi::new("i", 0, "m"), "/ragwire/event", object.clone()),
            (&Responses::new("i", 0, "m"), "/ragwire/event", object),
        ];
        for (wire, place, expected) in wires {
            let received = messages(&event(wire, &unchecked(name)));
            let (kind, last) = received.last().unwrap();
            let expected_kind = if wire.name() == "responses" {
                "keepalive"
            } else {
                "message"
            };
            assert_eq!(
                (kind.as_str(), last.pointer(place)),
                (expected_kind, Some(&expected)),
                "{wire:?}"
            );
        }
    }
}

/// These wires do not refuse ids and need not: an id is a JSON string and decodes to itself.
#[test]
fn ids_are_escaped() {
    for id in NAMES.into_iter().chain(SEPARATORS) {
        let session = json!({"id": id, "messages": []}).as_object().unwrap().clone();
        let wires: [(&dyn Wire, &[&str]); 5] = [
            (&AiSdk::default().message_id(id), &["/messageId"]),
            (&AgUi::new(id, id), &["/threadId", "/runId"]),
            (&OpenAi::new(id, 0, id), &["/id", "/model"]),
            (
                &Responses::new(id, 0, id).previous_response_id(id),
                &[
                    "/response/id",
                    "/response/model",
                    "/response/previous_response_id",
                ],
            ),
            (&SessionChat::default().session(session), &["/session/id"]),
        ];
        for (wire, places) in wires {
            let bytes = end(wire);
            let first = &messages(&bytes)[0].1;
            for place in places {
                assert_eq!(first.pointer(place), Some(&id.into()), "{wire:?} {place}");
            }
            let lines = std::str::from_utf8(&bytes).unwrap().split('\n');
            for line in lines {
                assert!(!line.contains(|char: char| char.is_control() || "\u{2028}\u{2029}".contains(char)));
            }
        }
    }
}

/// Neither is a string from outside: ids are a counter, and the retry time is a number of
/// milliseconds.
#[test]
fn the_id_and_the_time_of_server_sent_events_are_digits() {
    for (retry, digits) in [
        (Duration::ZERO, "0"),
        (Duration::from_nanos(1), "0"),
        (Duration::MAX, "18446744073709551615999"),
    ] {
        let bytes = end(&Sse::default().retry(Some(retry)));
        let head = format!("retry: {digits}\nid: 0\nevent: end\ndata: ");
        assert!(bytes.starts_with(head.as_bytes()), "{bytes:?}");
        let mut stream = EventStream::default();
        stream.feed(&bytes);
        let read = digits
            .parse()
            .map_or(Duration::from_millis(u64::MAX), Duration::from_millis);
        assert_eq!(stream.retry(), Some(read));
    }
}
