//! Folds compared with a plain list, in which a later event of a step replaces the earlier one.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::{
    AuthorizationCompleted, AuthorizationOutcome, AuthorizationRequired, CacheHit, CacheMiss, Custom,
    Generating, GraphExplanation, InputRequested, InputResolved, Queued, Retract, RetrievalResult,
    RetrievalStart, Review, RoundStart, Search, Source, Thinking, ToolCall, ToolResult, Verdict,
};
use crate::time::Timestamp;
use crate::wire::ndjson::Ndjson;
use crate::wire::{Decode, Finish, Wire};

type TimedEvent = (Event, Option<Timestamp>);

/// The names of a step's events, and the members that distinguish one step from another.
const STEPS: [(&[&str], &[&str]); 8] = [
    (&["cache_hit", "cache_miss"], &[]),
    (&["review"], &["iteration"]),
    (&["round_start"], &["round"]),
    (&["generating"], &["round"]),
    (&["retrieval_start"], &["tool", "iteration"]),
    (&["retrieval_result"], &["tool"]),
    (&["input_requested", "input_resolved"], &["request_id"]),
    (&["graph_explanation"], &["explain_id"]),
];

/// Returns whether `newer` makes `older` superfluous for a reader.
fn replaces(newer: &Event, older: &Event) -> bool {
    let [new, old] = [newer, older].map(|event| serde_json::to_value(event).unwrap());
    let same = |member: &str| new.get(member) == old.get(member);
    let [name, other] = [newer.name(), older.name()];
    match name {
        "tool_call" | "tool_result" => same("event") && new.get("call_id").is_some() && same("call_id"),
        "authorization_required" | "authorization_completed" => {
            let asked = |event: &Value| {
                event
                    .get("request_id")
                    .unwrap_or_else(|| &event["connection"])
                    .clone()
            };
            other.starts_with("authorization_") && asked(&new) == asked(&old)
        }
        "sources" => {
            let all = |event: &Value| event["sources"].as_array().cloned().unwrap_or_default();
            let is_there = |source: &Value| {
                let same = |other: &Value| {
                    ["chunk_id", "document_id"]
                        .iter()
                        .all(|id| source[id] == other[id])
                };
                all(&new).iter().any(same)
            };
            other == "sources" && all(&old).iter().all(is_there)
        }
        // Pieces of a thought are joined instead.
        "thinking" => {
            same("event") && same("round") && [&new, &old].iter().all(|event| event.get("id").is_none())
        }
        "own.kind" | "own.other" => same("event") && new["data"].get("id") == old["data"].get("id"),
        _ => match STEPS.iter().find(|(names, _)| names.contains(&name)) {
            Some((names, ids)) => names.contains(&other) && ids.iter().all(|id| same(id)),
            None => same("event"),
        },
    }
}

/// Computes the snapshot of `frames` in the plainest way.
fn model(frames: &[Frame]) -> Snapshot {
    let mut model = Snapshot::new(frames.len() as u64);
    let mut is_thinking = None;
    for frame in frames {
        match frame {
            Frame::Text(text) => model.text.push_str(text),
            Frame::Event {
                event: Event::Retract(retract),
                ..
            } => {
                let kept = usize::try_from(retract.kept).unwrap();
                model.text = model.text.chars().take(kept).collect();
            }
            Frame::Event {
                event: Event::Thinking(piece),
                timestamp,
            } if piece.id.is_some() && is_thinking == piece.id => {
                let Some((Event::Thinking(thought), at)) = model.events.last_mut() else {
                    unreachable!("it is the last event");
                };
                thought.content.push_str(&piece.content);
                *at = timestamp.or(*at);
            }
            Frame::Event { event, timestamp } => {
                is_thinking = match event {
                    Event::Thinking(thought) => thought.id.clone(),
                    _ => None,
                };
                let before = model.events.len();
                model
                    .events
                    .retain(|(older, _): &TimedEvent| !replaces(event, older));
                model.events_dropped += (before - model.events.len()) as u64;
                model.events.push((event.clone(), *timestamp));
            }
            Frame::End(_) | Frame::Snapshot(_) => unreachable!("sinks send neither"),
        }
    }
    model
}

fn event() -> impl Strategy<Value = Event> {
    let id = || prop::sample::select(&["1", "2"][..]);
    let maybe = move || prop::option::of(id());
    let number = || 1..3_u32;
    prop_oneof![
        id().prop_map(|tool| Search::new(tool).into()),
        Just(CacheMiss::new().into()),
        id().prop_map(|at| CacheHit::new("q", at).into()),
        number().prop_map(|at| Review::new(at, Verdict::Approved).into()),
        number().prop_map(|at| RoundStart::new(at, 9).into()),
        number().prop_map(|at| Generating::new(at, 9).into()),
        prop::option::of(number())
            .prop_map(|at| at.into_iter().fold(Thinking::new("t"), Thinking::round).into()),
        ("[a-z\u{e9}\n]{0,3}", id(), prop::option::of(number())).prop_map(|(piece, id, at)| at
            .into_iter()
            .fold(Thinking::new(piece).id(id), Thinking::round)
            .into()),
        (0..40_u64).prop_map(|kept| Retract::new(kept).into()),
        (id(), number()).prop_map(|(tool, at)| RetrievalStart::new(tool, "q", at).into()),
        id().prop_map(|tool| RetrievalResult::new(tool, 1, 2).into()),
        (id(), maybe()).prop_map(|(q, id)| id
            .into_iter()
            .fold(ToolCall::new("t", json!(q)), ToolCall::call_id)
            .into()),
        (id(), maybe()).prop_map(|(q, id)| id
            .into_iter()
            .fold(ToolResult::new("t", json!(q)), ToolResult::call_id)
            .into()),
        id().prop_map(|id| InputRequested::new(id, "approval", "?").into()),
        id().prop_map(|id| InputResolved::new(id).response(true).into()),
        (id(), maybe()).prop_map(|(to, id)| {
            let asked = AuthorizationRequired::new(to, "https://a.example");
            id.into_iter()
                .fold(asked, AuthorizationRequired::request_id)
                .into()
        }),
        (id(), maybe()).prop_map(|(to, id)| {
            let done = AuthorizationCompleted::new(to, AuthorizationOutcome::Authorized);
            id.into_iter()
                .fold(done, AuthorizationCompleted::request_id)
                .into()
        }),
        vec((id(), id()), 0..3).prop_map(|ids| {
            let sources = ids
                .into_iter()
                .map(|(chunk, document)| Source::new(chunk, document, "text", vec![1]));
            Sources::new(sources.collect()).into()
        }),
        id().prop_map(|id| GraphExplanation::new(id, "g", vec![]).into()),
        number().prop_map(|at| Queued::new(at, 1, 2).into()),
        (
            prop::sample::select(&["own.kind", "own.other"][..]),
            maybe(),
            number()
        )
            .prop_map(|(name, id, at)| {
                let data = id.map_or_else(|| json!({"at": at}), |id| json!({"id": id, "at": at}));
                Custom::new(name, &data).unwrap().into()
            }),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    let moment = prop::option::of((0..9_i64).prop_map(Timestamp::from_micros));
    prop_oneof![
        1 => "[a-z\u{e9}\n\u{1}\u{2028}]{1,9}".prop_map(Frame::Text),
        2 => (event(), moment).prop_map(|(event, timestamp)| Frame::Event { event, timestamp }),
    ]
}

/// Returns what a log remembers after it has dropped these frames too.
fn folded(mut head: DroppedHead, frames: &[Frame]) -> DroppedHead {
    for frame in frames {
        let record = Record::frame(frame.clone());
        head.add(&record, usize::MAX);
    }
    head
}

fn snapshot(head: &DroppedHead, frames: usize) -> Snapshot {
    head.snapshot(frames as u64).unwrap().into_snapshot()
}

/// Encodes a snapshot as the line of JSON that a server stores.
fn line(snapshot: &Snapshot) -> Vec<u8> {
    let (mut encoder, mut out) = (Ndjson::default().encoder(), bytes::BytesMut::new());
    encoder.snapshot(snapshot, &mut out).unwrap();
    out.to_vec()
}

proptest! {
    #[test]
    fn a_fold_contains_the_last_state_of_each_step(frames in vec(frame(), 1..60), at in any::<prop::sample::Index>()) {
        let head = folded(DroppedHead::Empty, &frames);
        let whole = snapshot(&head, frames.len());
        prop_assert_eq!(&whole, &model(&frames));

        let line = line(&whole);
        prop_assert!(line.len() <= head.bytes() + LINE_OVERHEAD_BYTES);
        let mut decoder = Ndjson::default().decoder();
        decoder.feed(&line);
        prop_assert_eq!(decoder.next(), Some(Ok(Frame::Snapshot(Box::new(whole.clone())))));
        let phase = decoder.phase();
        prop_assert_eq!(decoder.finish(), Finish::Truncated { phase });

        // A log that begins with a snapshot continues like the log that it was taken from.
        let (first, second) = frames.split_at(at.index(frames.len()));
        let begun = if first.is_empty() { DroppedHead::Empty } else {
            DroppedHead::Folded(Box::new(Fold::from(snapshot(&folded(DroppedHead::Empty, first), first.len()))))
        };
        prop_assert_eq!(snapshot(&folded(begun, second), frames.len()), whole);
    }
}

#[test]
fn thoughts_that_became_neighbours_stay_apart_in_a_fold_from_a_snapshot() {
    let frame = |event: Thinking| Frame::Event {
        event: event.into(),
        timestamp: None,
    };
    let piece = |content: &str| frame(Thinking::new(content).id("1"));
    let whole = || frame(Thinking::new("t"));
    // The second whole thought replaces the first, which separated the pieces.
    let first = [piece("a"), whole(), piece("b"), whole()];
    let begun = snapshot(&folded(DroppedHead::Empty, &first), first.len());
    assert_eq!(begun.events.len(), 3);
    let head = DroppedHead::Folded(Box::new(Fold::from(begun.clone())));
    assert_eq!(snapshot(&head, first.len()), begun);
    // A piece directly after the snapshot's last event still continues that thought.
    let open = [whole(), piece("a")];
    let begun = Fold::from(snapshot(&folded(DroppedHead::Empty, &open), open.len()));
    let continued = folded(DroppedHead::Folded(Box::new(begun)), &[piece("b")]);
    let all = [whole(), piece("a"), piece("b")];
    let expected = snapshot(&folded(DroppedHead::Empty, &all), all.len());
    assert_eq!(snapshot(&continued, all.len()), expected);
}

#[test]
fn a_fold_that_becomes_too_large_is_discarded_for_good() {
    let text = Record::text(&"a".repeat(100));
    let mut head = DroppedHead::Empty;
    head.add(&text, 400);
    assert_eq!((head.bytes(), head.snapshot(1).is_some()), (100, true));
    head.enforce_limit(399);
    assert_eq!((head.bytes(), head.snapshot(1)), (0, None));
    head.add(&text, usize::MAX);
    assert_eq!((head.bytes(), head.snapshot(2)), (0, None));
    // Even in an unlimited log, a snapshot fits into a line that every reader accepts; its text
    // counts in its escaped form.
    let mut head = DroppedHead::Empty;
    let hostile = Record::text(&"\u{1}".repeat(MAX_BYTES / 6));
    head.add(&hostile, usize::MAX);
    assert!(line(&snapshot(&head, 1)).len() <= Limits::MAX_TRAILER_BYTES);
    head.add(&hostile, usize::MAX);
    assert_eq!((head.bytes(), head.snapshot(2)), (0, None));
}

#[test]
fn a_replaced_event_is_not_counted_any_more() {
    let event = |query: &str| {
        let event = Search::new("bm25").query(query).into();
        let bytes = EVENT_BYTES + json::length(&event).unwrap();
        let record = Record::frame(Frame::Event {
            event,
            timestamp: None,
        });
        (bytes, record)
    };
    let mut head = DroppedHead::Empty;
    let mut counted = Vec::new();
    for query in ["why?", "why, in a few more words?", "?"] {
        let (bytes, record) = event(query);
        head.add(&record, usize::MAX);
        counted.push(head.bytes() - "search".len() - bytes);
    }
    assert_eq!(counted, [0, 0, 0]);
}

/// A model streams a thought in thousands of pieces. A snapshot in between keeps its own state.
#[test]
fn pieces_of_a_thought_are_joined_within_the_limit() {
    let piece = |id: &str| {
        Record::frame(Frame::Event {
            event: Thinking::new("wait\n").id(id).into(),
            timestamp: None,
        })
    };
    let mut head = DroppedHead::Empty;
    let mut add = |id: &str| {
        head.add(&piece(id), usize::MAX);
        (head.bytes(), head.snapshot(1))
    };
    let (first, _) = add("1");
    let (_, early) = add("1");
    for _ in 0..998 {
        add("1");
    }
    let (joined, whole) = add("1");
    assert_eq!(joined - first, 1000 * "wait\\n".len());
    let content = |snapshot: Option<FoldedSnapshot>| match &snapshot.unwrap().into_snapshot().events[..] {
        [(Event::Thinking(thought), _)] => thought.content.len(),
        events => panic!("{events:?}"),
    };
    assert_eq!((content(early), content(whole)), (10, 5005));
    // Another id is another thought.
    let (_, two) = add("2");
    assert_eq!(two.unwrap().into_snapshot().events.len(), 2);
}

#[test]
fn what_is_withdrawn_takes_no_room() {
    let text = |text: &str| Frame::Text(text.into());
    let retract = |kept: u64| Frame::Event {
        event: Retract::new(kept).into(),
        timestamp: None,
    };
    let kept = folded(DroppedHead::default(), &[text("Yes")]).bytes();
    let withdrawn = [text("Yes, \u{1}\u{e4}h"), retract(3)];
    assert_eq!(folded(DroppedHead::default(), &withdrawn).bytes(), kept);
}
