//! Properties of the decoders of Forge, the session chat and Eve: `decode(encode(turn))` is the turn
//! except for what `PROTOCOL.md` lists, and no bytes and no split break them.

use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::{
    Custom, GenerationStart, Retract, RetrievalStart, Sources, Thinking, ToolCall, ToolResult,
};
use ragwire::wire::{Decode, Finish, Limits, Wire};
use ragwire::{End, Eve, Event, FailureKind, Forge, Frame, QueueStats, SessionChat, Status};
use serde_json::{Value, json};

use super::streams::{Decoded, cut, cuts, decode_with, encode, readable_end, readable_event, stream_like};
use crate::generated::{event, string, timestamp, turn};

/// A wire, its decoder, the frames of a turn that a reader of the wire gets, and what of the decoded
/// frames is not compared.
struct Row {
    wire: Box<dyn Wire>,
    decoder: fn(Limits) -> Box<dyn Decode>,
    expected: fn(&[Frame]) -> Vec<Frame>,
    normal: fn(Vec<Frame>) -> Vec<Frame>,
}

fn rows() -> [Row; 4] {
    [
        Row {
            wire: Box::new(Forge::default()),
            decoder: |limits| Box::new(Forge::default().limits(limits).decoder()),
            expected: forge,
            normal: |frames| frames,
        },
        Row {
            wire: Box::new(SessionChat::default()),
            decoder: |limits| Box::new(SessionChat::default().limits(limits).decoder()),
            expected: session_chat,
            normal: in_session_chat,
        },
        Row {
            wire: Box::new(Eve::new("s").message("why?")),
            decoder: |limits| Box::new(Eve::new("s").limits(limits).decoder()),
            expected: shipped,
            normal: in_shipped,
        },
        Row {
            wire: Box::new(Eve::new("s").documented().turn(3).message("why?")),
            decoder: |limits| Box::new(Eve::new("s").limits(limits).decoder()),
            expected: documented,
            normal: without_call_ids,
        },
    ]
}

/// A turn with the events that these wires treat in their own way.
fn own_turn() -> impl Strategy<Value = Vec<Frame>> {
    let id = || prop::sample::select(&["1", "2"][..]);
    let own = prop_oneof![
        2 => event(),
        2 => (string(), id()).prop_map(|(content, id)| Thinking::new(content).id(id).into()),
        1 => (id(), 0..3_u32).prop_map(|(tool, iteration)| RetrievalStart::new(tool, "q", iteration).into()),
        1 => (0..9_u64).prop_map(|kept| Retract::new(kept).into()),
        1 => Just(GenerationStart::new(1_u32, 2_u32, "m").into()),
    ];
    let frame = prop_oneof![
        2 => (own, timestamp()).prop_map(|(event, timestamp): (Event, _)| Frame::Event { event, timestamp }),
        1 => string().prop_map(Frame::Text),
    ];
    (vec(frame, 0..10), turn()).prop_map(|(mut frames, turn)| {
        frames.extend(turn);
        frames
    })
}

// ---- what is lost, as PROTOCOL.md lists it ----

/// Values that JSON does not have are lost on every wire, and so is the moment of the end.
fn readable(frames: &[Frame], event: impl Fn(Event) -> Event, end: impl Fn(End) -> End) -> Vec<Frame> {
    let kept = frames
        .iter()
        .filter(|frame| !matches!(frame, Frame::Text(text) if text.is_empty()));
    kept.map(|frame| match frame.clone() {
        Frame::Event {
            event: sent,
            timestamp,
        } => Frame::Event {
            event: event(readable_event(&sent)),
            timestamp,
        },
        Frame::End(sent) => Frame::End(end(readable_end(&sent))),
        frame => frame,
    })
    .collect()
}

fn forge(frames: &[Frame]) -> Vec<Frame> {
    let mut frames = readable(
        frames,
        |event| event,
        |mut end| {
            if let Status::Failed(failure) = &mut end.status {
                end.metadata.tools_used.clear();
                let code = failure.code().to_ascii_lowercase();
                failure.kind = if code == "llm_error" {
                    FailureKind::ChatFailed
                } else {
                    code.into()
                };
            }
            end
        },
    );
    let is_sources = |frame: &Frame| {
        matches!(
            frame,
            Frame::Event {
                event: Event::Sources(_),
                ..
            }
        )
    };
    let has_sources = frames.iter().any(is_sources);
    for frame in &mut frames {
        if let Frame::Event { timestamp, .. } = frame {
            *timestamp = None;
        }
    }
    let Some(Frame::End(end)) = frames.last() else {
        unreachable!("a turn has an end")
    };
    if !has_sources && !end.metadata.citations.is_empty() {
        let sources = end.metadata.citations.iter().map(|citation| {
            let pages = citation.page_number.into_iter().collect();
            let source = ragwire::event::Source::new(
                &citation.chunk_id,
                &citation.document_id,
                &citation.supporting_quote,
                pages,
            );
            // A source of Forge has no title; without one it is not ours.
            let mut source = serde_json::to_value(source).unwrap();
            for (name, value) in [
                ("score", json!(citation.score)),
                ("heading", json!(citation.heading)),
            ] {
                if !value.is_null() {
                    source[name] = value;
                }
            }
            source
        });
        let sources = json!({"event": "sources", "sources": sources.collect::<Vec<_>>()});
        let event: Event = serde_json::from_value(sources).unwrap();
        assert!(matches!(&event, Event::Sources(Sources { .. })));
        let at = frames.len() - 1;
        let timestamp = None;
        frames.insert(at, Frame::Event { event, timestamp });
    }
    frames
}

fn object(input: Value, or: fn(Value) -> Value) -> Value {
    match input {
        Value::Null => json!({}),
        Value::Object(_) => input,
        other => or(other),
    }
}

/// The answer of a turn, without what was withdrawn.
fn answer(frames: &[Frame]) -> String {
    let mut text = String::new();
    for frame in frames {
        match frame {
            Frame::Text(piece) => text.push_str(piece),
            Frame::Event {
                event: Event::Retract(retract),
                ..
            } => {
                text = text
                    .chars()
                    .take(usize::try_from(retract.kept).unwrap())
                    .collect();
            }
            _ => {}
        }
    }
    text
}

fn session_chat(frames: &[Frame]) -> Vec<Frame> {
    let event = |event| match event {
        Event::ToolCall(mut call) => {
            call.input = object(call.input, |input| json!({ "input": input }));
            call.into()
        }
        Event::Reasoning(step) => Thinking::new(step.content).into(),
        event => event,
    };
    let failed = matches!(
        frames.last(),
        Some(Frame::End(End {
            status: Status::Failed(_),
            ..
        }))
    );
    let end = |mut end: End| {
        if let Some(stats) = end.metadata.queue_stats.as_mut().filter(|_| !failed) {
            stats.queue_wait_ms.get_or_insert(0.0);
            assert_ne!(*stats, QueueStats::new(false, 0).queue_wait_ms(0.0));
        }
        end
    };
    let text = answer(frames);
    let mut merged: Vec<Frame> = Vec::new();
    let mut last: Option<(Option<String>, Option<u32>)> = None;
    for frame in readable(frames, event, end) {
        let key = match &frame {
            Frame::Event {
                event: Event::Thinking(thought),
                ..
            } => Some((thought.id.clone(), thought.round)),
            _ => None,
        };
        let continues = key.as_ref().is_some_and(|(id, _)| id.is_some()) && key == last;
        last = key;
        match (merged.last_mut(), frame) {
            (_, Frame::Text(_)) => {}
            (
                Some(Frame::Event {
                    event: Event::Thinking(whole),
                    ..
                }),
                Frame::Event {
                    event: Event::Thinking(piece),
                    ..
                },
            ) if continues => {
                whole.content.push_str(&piece.content);
            }
            (_, frame) => merged.push(frame),
        }
    }
    if !text.is_empty() {
        let at = merged.len() - 1;
        merged.insert(at, Frame::Text(text));
    }
    in_session_chat(merged)
}

/// Rounds that were derived, or that an event did not have; and microseconds beyond a float.
fn in_session_chat(frames: Vec<Frame>) -> Vec<Frame> {
    let kept = frames.into_iter().filter(|frame| {
        !matches!(
            frame,
            Frame::Event {
                event: Event::RoundStart(_) | Event::Generating(_),
                ..
            }
        )
    });
    kept.map(|frame| match frame {
        Frame::Event { mut event, .. } => {
            match &mut event {
                Event::Thinking(thought) => (thought.round, thought.max_rounds) = (None, None),
                Event::ToolCall(call) => (call.round, call.max_rounds) = (None, None),
                Event::ToolResult(result) => (result.round, result.max_rounds) = (None, None),
                _ => {}
            }
            let timestamp = None;
            Frame::Event { event, timestamp }
        }
        frame => frame,
    })
    .collect()
}

fn custom(event: Event) -> Event {
    match event {
        Event::Custom(custom) => {
            let data = object(custom.data.clone(), |data| json!({ "value": data }));
            Custom::new(custom.name(), &data).unwrap().into()
        }
        event => event,
    }
}

fn shipped(frames: &[Frame]) -> Vec<Frame> {
    let event = |event| match event {
        Event::ToolCall(mut call) => {
            call.input = object(call.input, |input| json!({ "input": input }));
            call.into()
        }
        Event::ToolResult(mut result) => {
            if result.result.is_null() && result.is_error == Some(true) {
                result.result = json!({"code": "ACTION_RESULT_FAILED", "message": "The tool failed."});
            }
            result.into()
        }
        Event::Reasoning(step) => Thinking::new(step.content).into(),
        event => custom(event),
    };
    in_shipped(readable(frames, event, |end| end))
}

/// IDs of calls, and results of calls that ended with the turn; the other names of thoughts, whose
/// pieces are still those of one thought.
fn in_shipped(frames: Vec<Frame>) -> Vec<Frame> {
    let (mut last, mut thoughts) = (None, 0);
    let mut frames = without_call_ids(frames);
    let is_result = |frame: &Frame| {
        matches!(
            frame,
            Frame::Event {
                event: Event::ToolResult(_),
                ..
            }
        )
    };
    let at = frames.len().saturating_sub(1);
    let open = frames[..at]
        .iter()
        .rev()
        .take_while(|frame| is_result(frame))
        .count();
    frames.drain(at - open..at);
    for frame in &mut frames {
        let Frame::Event {
            event: Event::Thinking(thought),
            ..
        } = frame
        else {
            last = None;
            continue;
        };
        if thought.id.is_none() || thought.id != last {
            thoughts += 1;
        }
        last.clone_from(&thought.id);
        thought.id = Some(thoughts.to_string());
        (thought.round, thought.max_rounds) = (None, None);
    }
    frames
}

fn documented(frames: &[Frame]) -> Vec<Frame> {
    let event = |event| match event {
        Event::ToolCall(mut call) => {
            call.input = object(call.input, |input| input);
            call.into()
        }
        event => custom(event),
    };
    without_call_ids(readable(frames, event, |end| end))
}

fn without_call_ids(mut frames: Vec<Frame>) -> Vec<Frame> {
    for frame in &mut frames {
        match frame {
            Frame::Event {
                event: Event::ToolCall(ToolCall { call_id, .. }),
                ..
            }
            | Frame::Event {
                event: Event::ToolResult(ToolResult { call_id, .. }),
                ..
            } => *call_id = None,
            _ => {}
        }
    }
    frames
}

// ---- the properties ----

/// Decodes a stream that may end too early: a failure that was reported may be the last frame.
fn decode_cut(mut decoder: Box<dyn Decode>, bytes: &[u8]) -> (Vec<Frame>, Finish) {
    decoder.feed(bytes);
    let mut frames: Vec<Frame> = decoder.by_ref().map(Result::unwrap).collect();
    let finish = decoder.finish();
    frames.extend(decoder.map(Result::unwrap));
    (frames, finish)
}

/// Pieces of streams of these wires.
const PIECES: [&str; 21] = [
    "event: token\ndata: {\"type\":\"token\",\"content\":\"a\"}\n\n",
    "event: token\ndata: {\"content\":7}\n\n",
    "event: error\ndata: {\"type\":\"error\",\"code\":\"TIMEOUT\"}\n\n",
    "event: done\ndata: {\"type\":\"done\"}\n\n",
    "event: done\ndata: {\"type\":\"done\",\"status\":\"x\"}\n\n",
    "data: {\"type\":\"complete\"}\n\n",
    "data: {\"type\":\"complete\",\"metadata\":7}\n\n",
    "data: {\"type\":\"error\",\"error\":\"e\",\"response\":{\"content\":\"c\"}}\n\n",
    "data: {\"type\":\"tool_end\",\"tool_name\":\"t\",\"tool_result\":\"{\"}\n\n",
    "data: {\"type\":\"tool_start\"}\n\n",
    "{\"type\":\"message.appended\",\"data\":{\"messageDelta\":\"b\",\"messageSoFar\":\"ab\"}}\n",
    "{\"type\":\"message.appended\",\"data\":{\"messageDelta\":\"\",\"messageSoFar\":\"\",\"stepIndex\":1}}\n",
    "{\"type\":\"message.completed\",\"data\":{\"message\":\"abc\"}}\n",
    "{\"type\":\"agent.start\"}\n",
    "{\"type\":\"turn.completed\"}\n",
    "{\"type\":\"turn.failed\",\"data\":{\"message\":\"m\"}}\n",
    "{\"type\":\"session.waiting\"}\n",
    "{\"type\":\"session.failed\",\"data\":{\"error\":\"e\",\"metadata\":{}}}\n",
    "{\"type\":\"reasoning.appended\",\"data\":{\"reasoningDelta\":\"r\"}}\n",
    "{\"type\":\"actions.requested\",\"data\":{\"actions\":[{}]}}\n",
    "{\"type\":\"retract\",\"data\":{\"kept\":1}}\n",
];

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => stream_like(),
        1 => vec(any::<u8>(), 0..4),
    ];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn seeds_round_trip(frames in own_turn(), at in cuts()) {
        for Row { wire, decoder, expected, normal } in rows() {
            let bytes = encode(&*wire, &frames);
            let new = || decoder(Limits::default());
            let whole = decode_with(new(), [&bytes[..]]);
            prop_assert_eq!((whole.error, whole.finish), (None, Finish::Complete), "{}", wire.name());
            prop_assert_eq!(normal(whole.frames.clone()), expected(&frames), "{}", wire.name());
            prop_assert_eq!(&decode_with(new(), bytes.chunks(1)), &whole);
            prop_assert_eq!(&decode_with(new(), cut(&bytes, &at)), &whole);
            // What was decoded can be encoded and decoded again, to the same answer and end.
            let again = decode_with(new(), [&encode(&*wire, &whole.frames)[..]]);
            prop_assert_eq!(answer(&again.frames), answer(&whole.frames));
            prop_assert_eq!(again.frames.last(), whole.frames.last());
        }
    }

    /// A stream without its end never passes for a complete answer.
    #[test]
    fn seeds_cut_short(frames in own_turn(), at in any::<prop::sample::Index>()) {
        for Row { wire, decoder, .. } in rows() {
            let bytes = encode(&*wire, &frames);
            let at = at.index(bytes.len());
            let (shown, finish) = decode_cut(decoder(Limits::default()), &bytes[..at]);
            match finish {
                Finish::Truncated { .. } => prop_assert!(!matches!(shown.last(), Some(Frame::End(_)))),
                Finish::Complete => {
                    let is_failed = matches!(shown.last(), Some(Frame::End(End { status: Status::Failed(_), .. })));
                    prop_assert!(is_failed, "{}: {:?}", wire.name(), shown.last());
                }
                Finish::Invalid(error) => prop_assert!(false, "{}: {error}", wire.name()),
            }
        }
    }

    #[test]
    fn seeds_any_bytes_any_split(bytes in any_stream(), at in cuts()) {
        for Row { decoder, .. } in rows() {
            for limits in [Limits::default(), Limits::default().max_line_bytes(24).max_trailer_bytes(40)] {
                let read = |chunks: Vec<&[u8]>| {
                    let (mut decoder, mut frames, mut error) = (decoder(limits), Vec::new(), None);
                    let mut take = |decoder: &mut Box<dyn Decode>| for item in decoder.by_ref() {
                        match item {
                            Ok(frame) => frames.push(frame),
                            Err(code) => error = Some(code),
                        }
                    };
                    for chunk in chunks {
                        decoder.feed(chunk);
                        take(&mut decoder);
                    }
                    let finish = decoder.finish();
                    take(&mut decoder);
                    assert!(decoder.next().is_none(), "nothing is held back");
                    Decoded { frames, error, finish }
                };
                let whole = read(vec![&bytes[..]]);
                prop_assert_eq!(&read(bytes.chunks(1).collect()), &whole);
                prop_assert_eq!(&read(cut(&bytes, &at)), &whole);
                let ended = matches!(whole.frames.last(), Some(Frame::End(_)));
                prop_assert_eq!(whole.finish == Finish::Complete, ended && whole.error.is_none());
            }
        }
    }
}
