//! Strategies for turns: any events, any texts and any end, made of strings that break careless
//! line readers, parsers and protocols.

use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::{
    ClaimCheck, ClaimVerdict, Custom, Levels, Reasoning, RetrievalResult, Review, Search, Source, Sources,
    Thinking, ToolCall, ToolResult, Verdict, Verification,
};
use ragwire::{
    Citation, End, Event, Failure, Frame, Metadata, QueueStats, Snapshot, Status, Timestamp, Usage,
};
use serde_json::{Map, Value};

/// Strings that break careless line readers, parsers and implementations of this protocol.
pub(crate) const HOSTILE: [&str; 24] = [
    "\u{1d}",
    "\u{1e}",
    "\n",
    "\r",
    "\r\n",
    "\0",
    "\u{b}",
    "\u{c}",
    "\u{1c}",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\"",
    "\\",
    "{",
    "}",
    "\u{1e}{\"citations\":[]}",
    "data: [DONE]\n\n",
    "\u{1f600}",
    "\u{202e}",
    "\u{c2}",
    "\u{fffd}",
];

pub(crate) fn string() -> impl Strategy<Value = String> {
    vec(prop_oneof![3 => "[a-z é€]{0,6}", 2 => prop::sample::select(&HOSTILE[..]).prop_map(String::from), 1 => any::<String>()], 0..5)
        .prop_map(|parts| parts.concat())
}

pub(crate) fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(-0.0),
        Just(1e308),
        Just(5e-324)
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        number().prop_map(Value::from),
        string().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((string(), inner), 0..4)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let custom = (string(), value()).prop_map(|(name, data)| {
        // A hostile name is refused with a typed error before anything is written.
        let name = format!("own.{name}");
        match Custom::new(&name, &data) {
            Ok(event) => event.into(),
            Err(error) => {
                assert_eq!(error.code(), "event_name");
                assert!(name.len() > 128 || name.chars().any(char::is_control), "{name:?}");
                Custom::new("own", &data).unwrap().into()
            }
        }
    });
    prop_oneof![
        2 => custom,
        1 => (string(), prop::option::of(string()), any::<u32>())
            .prop_map(|(tool, query, page)| query.into_iter().fold(Search::new(tool), Search::query).page(page).into()),
        1 => string().prop_map(|content| Reasoning::new(content).into()),
        1 => (any::<u32>(), string())
            .prop_map(|(iteration, feedback)| Review::new(iteration, Verdict::Rejected).feedback(feedback).into()),
        1 => (string(), any::<u32>(), any::<u64>(), number())
            .prop_map(|(tool, chunks, ms, score)| RetrievalResult::new(tool, chunks, ms).top_score(score).levels(Levels::new(1, chunks, 0)).into()),
        1 => (string(), value(), value())
            .prop_map(|(tool, input, parameters)| ToolCall::new(tool, input).parameters(parameters).into()),
        1 => (prop::sample::select(&["a", "b"][..]), prop::sample::select(&["1", "2"][..]), value())
            .prop_map(|(tool, id, input)| ToolCall::new(tool, input).call_id(id).into()),
        1 => (prop::sample::select(&["a", "b"][..]), prop::option::of(prop::sample::select(&["1", "2"][..])), value())
            .prop_map(|(tool, id, result)| id.into_iter().fold(ToolResult::new(tool, result), ToolResult::call_id).into()),
        1 => (string(), any::<u32>()).prop_map(|(content, round)| Thinking::new(content).round(round).into()),
        1 => (string(), value()).prop_map(|(tool, result)| ToolResult::new(tool, result).is_error(true).into()),
        1 => (string(), number()).prop_map(|(claim, confidence)| {
            let details = vec![ClaimCheck::new(claim, ClaimVerdict::PartiallySupported)];
            Verification::new(1, 0, 1, 0, details).confidence(confidence).into()
        }),
        1 => (string(), vec(any::<u32>(), 0..3), number())
            .prop_map(|(text, pages, score)| Sources::new(vec![Source::new("c", "d", text, pages).score(score)]).into()),
    ]
}

pub(crate) fn metadata() -> impl Strategy<Value = Metadata> {
    let citation = (string(), string(), number(), prop::option::of(string())).prop_map(
        |(document, quote, score, heading)| {
            heading.into_iter().fold(
                Citation::new(document, "c", quote, "bm25").score(score),
                Citation::heading,
            )
        },
    );
    (
        vec(citation, 0..3),
        prop::option::of(string()),
        vec(string(), 0..3),
        vec((string(), value()), 0..3),
        any::<bool>(),
    )
        .prop_map(|(citations, mode, tools, extra, more)| {
            let mut metadata = Metadata::default().citations(citations).tools_used(tools);
            metadata.mode = mode;
            metadata.extra = extra.into_iter().collect();
            if more {
                metadata.usage = Some(Usage::new().input_tokens(u64::MAX));
                metadata.queue_stats = Some(QueueStats::new(true, 3).queue_wait_ms(f64::NAN));
                metadata.events_dropped = 7;
                metadata.truncated = true;
            }
            metadata
        })
}

pub(crate) fn end() -> impl Strategy<Value = End> {
    let failure = (string(), string(), any::<bool>()).prop_map(|(code, message, recoverable)| {
        let failure = Failure::new(code, message);
        if recoverable { failure } else { failure.permanent() }
    });
    (metadata(), prop_oneof![2 => Just(None), 1 => Just(Some(None)), 1 => failure.prop_map(|failure| Some(Some(failure)))])
        .prop_map(|(metadata, ending)| End {
            status: match ending {
                None => Status::Completed,
                Some(None) => Status::Stopped,
                Some(Some(failure)) => Status::Failed(failure),
            },
            metadata,
            timing: None,
        })
}

pub(crate) fn timestamp() -> impl Strategy<Value = Option<Timestamp>> {
    prop::option::of(any::<i64>().prop_map(Timestamp::from_micros))
}

/// A snapshot, and how many frames it replaces.
pub(crate) fn snapshot() -> impl Strategy<Value = (Snapshot, u64)> {
    (
        vec((event(), timestamp()), 0..4),
        string(),
        any::<u64>(),
        1..1_000_u64,
    )
        .prop_map(|(events, text, dropped, more)| {
            let snapshot = Snapshot::default().events(events).text(text);
            (snapshot.events_dropped(dropped), more)
        })
}

/// A turn for a reader that attaches late and falls behind: a snapshot may precede any frame.
pub(crate) fn turn_with_snapshots() -> impl Strategy<Value = Vec<Frame>> {
    (turn(), vec(prop::option::of(snapshot()), 9)).prop_map(|(turn, snapshots)| {
        let (mut frames, mut next) = (Vec::new(), 0);
        for (frame, before) in turn.into_iter().zip(snapshots) {
            if let Some((mut snapshot, more)) = before {
                next += more;
                snapshot.frames = next;
                frames.push(Frame::Snapshot(Box::new(snapshot)));
            }
            next += u64::from(!matches!(&frame, Frame::Text(text) if text.is_empty()));
            frames.push(frame);
        }
        frames
    })
}

/// A turn: events and texts in any order, then an end.
pub(crate) fn turn() -> impl Strategy<Value = Vec<Frame>> {
    let frame = prop_oneof![
        (event(), timestamp()).prop_map(|(event, timestamp)| Frame::Event { event, timestamp }),
        string().prop_map(Frame::Text),
    ];
    (vec(frame, 0..8), end()).prop_map(|(mut frames, end)| {
        frames.push(Frame::End(end));
        frames
    })
}
