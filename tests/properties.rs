//! What holds for every turn on the wires of our own: any events, any text, any end, cut anywhere. The numbers are those of the
//! invariants in `ARCHITECTURE.md`.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::{
    ClaimCheck, ClaimVerdict, Custom, Levels, Reasoning, RetrievalResult, Review, Search, Source, Sources,
    ToolCall, ToolResult, Verdict, Verification,
};
use ragwire::wire::{Decode, DecodeError, Finish, Limits, Wire};
use ragwire::{
    Citation, End, Event, Failure, Frame, Framed, Metadata, Ndjson, Phase, QueueStats, Sse, Status,
    Timestamp, Timing, Usage,
};
use serde_json::{Map, Value, json};

// ---- what turns are made of --------------------------------------------------------------------------------------------

/// What line readers, parsers and this protocol stumble over.
const HOSTILE: [&str; 24] = [
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

fn string() -> impl Strategy<Value = String> {
    vec(prop_oneof![3 => "[a-z é€]{0,6}", 2 => prop::sample::select(&HOSTILE[..]).prop_map(String::from), 1 => any::<String>()], 0..5)
        .prop_map(|parts| parts.concat())
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(-0.0),
        Just(1e308),
        Just(5e-324)
    ]
}

fn value() -> impl Strategy<Value = Value> {
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

fn event() -> impl Strategy<Value = Event> {
    let custom = (string(), value()).prop_map(|(name, data)| {
        // A hostile name is refused with a typed error, before anything is written (9).
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
        1 => (string(), value()).prop_map(|(tool, result)| ToolResult::new(tool, result).is_error(true).into()),
        1 => (string(), number()).prop_map(|(claim, confidence)| {
            let details = vec![ClaimCheck::new(claim, ClaimVerdict::PartiallySupported)];
            Verification::new(1, 0, 1, 0, details).confidence(confidence).into()
        }),
        1 => (string(), vec(any::<u32>(), 0..3), number())
            .prop_map(|(text, pages, score)| Sources::new(vec![Source::new("c", "d", text, pages).score(score)]).into()),
    ]
}

fn metadata() -> impl Strategy<Value = Metadata> {
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

fn end() -> impl Strategy<Value = End> {
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

fn timestamp() -> impl Strategy<Value = Option<Timestamp>> {
    prop::option::of(any::<i64>().prop_map(Timestamp::from_micros))
}

/// A turn: events and texts in any order, and its end.
fn turn() -> impl Strategy<Value = Vec<Frame>> {
    let frame = prop_oneof![
        (event(), timestamp()).prop_map(|(event, timestamp)| Frame::Event { event, timestamp }),
        string().prop_map(Frame::Text),
    ];
    (vec(frame, 0..8), end()).prop_map(|(mut frames, end)| {
        frames.push(Frame::End(end));
        frames
    })
}

// ---- how they are looked at --------------------------------------------------------------------------------------------

fn encode(wire: &dyn Wire, frames: &[Frame]) -> Vec<u8> {
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    for frame in frames {
        encoder.encode(frame, &mut out).unwrap();
    }
    for late in [Frame::Text("late".into()), Frame::End(End::default())] {
        let before = out.len();
        assert_eq!(
            encoder.encode(&late, &mut out).unwrap_err().code(),
            "out_of_order"
        );
        encoder.keep_alive(&mut out);
        assert_eq!(out.len(), before, "nothing follows the end");
    }
    out.to_vec()
}

/// Everything that comes out, adjacent texts merged.
#[derive(Debug, PartialEq)]
struct Decoded {
    frames: Vec<Frame>,
    error: Option<DecodeError>,
    finish: Finish,
}

fn decode<'a>(wire: &Framed, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = wire.decoder();
    let (mut frames, mut error) = (Vec::new(), None);
    let mut take = |decoder: &mut ragwire::wire::framed::FramedDecoder| {
        while error.is_none() {
            match decoder.next() {
                Some(Ok(frame)) => merge(&mut frames, frame),
                Some(Err(code)) => error = Some(code),
                None => return,
            }
        }
    };
    for chunk in chunks {
        decoder.feed(chunk);
        take(&mut decoder);
    }
    let finish = decoder.finish();
    take(&mut decoder);
    Decoded {
        frames,
        error,
        finish,
    }
}

fn merge(frames: &mut Vec<Frame>, frame: Frame) {
    match (frames.last_mut(), frame) {
        (_, Frame::Text(text)) if text.is_empty() => {}
        (Some(Frame::Text(last)), Frame::Text(text)) => last.push_str(&text),
        (_, frame) => frames.push(frame),
    }
}

fn filtered(text: &str) -> String {
    text.replace('\u{1d}', "\u{241d}").replace('\u{1e}', "\u{241e}")
}

/// What a reader of the framed wire sees of `frames`: texts in one, late events after it, and what JSON cannot say left out.
fn seen(frames: &[Frame]) -> Vec<Frame> {
    let (mut early, mut late, mut text, mut has_text) = (Vec::new(), Vec::new(), String::new(), false);
    let mut last = None;
    for frame in frames {
        match frame {
            Frame::Event { event, timestamp } => {
                let frame = Frame::Event {
                    event: event_seen(event),
                    timestamp: *timestamp,
                };
                if has_text {
                    late.push(frame)
                } else {
                    early.push(frame)
                }
            }
            Frame::Text(piece) => {
                text.push_str(&filtered(piece));
                has_text |= !piece.is_empty();
            }
            Frame::End(end) => {
                if let Status::Failed(failure) = &end.status
                    && !failure.message.is_empty()
                {
                    if has_text {
                        text.push_str("\n\n");
                    }
                    text.push_str(&filtered(&failure.message));
                }
                last = Some(Frame::End(end_seen(end)));
            }
        }
    }
    if !text.is_empty() {
        early.push(Frame::Text(text));
    }
    early.into_iter().chain(late).chain(last).collect()
}

/// NaN and `null` are no members.
fn event_seen(event: &Event) -> Event {
    let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
    match event.clone() {
        Event::RetrievalResult(mut event) => {
            event.top_score = finite(event.top_score);
            event.into()
        }
        Event::Verification(mut event) => {
            event.confidence = finite(event.confidence);
            event.into()
        }
        Event::Sources(mut event) => {
            for source in &mut event.sources {
                source.score = finite(source.score);
            }
            event.into()
        }
        Event::ToolCall(mut event) => {
            event.parameters = event.parameters.filter(|value| !value.is_null());
            event.into()
        }
        Event::Custom(event) if event.data.is_null() => Custom::new(event.name(), &json!({})).unwrap().into(),
        event => event,
    }
}

fn end_seen(end: &End) -> End {
    let mut end = end.clone();
    let metadata = &mut end.metadata;
    for citation in &mut metadata.citations {
        citation.score = citation.score.filter(|score| score.is_finite());
    }
    if let Some(stats) = &mut metadata.queue_stats {
        stats.queue_wait_ms = stats.queue_wait_ms.filter(|wait| wait.is_finite());
    }
    metadata.extra.retain(|_, value| !value.is_null());
    if let Status::Failed(_) = end.status {
        metadata.citations = Vec::new();
        metadata.tools_used = vec!["chat_failed".into()];
    }
    end
}

/// What a reader of the lossless wires sees: every frame as it was sent, without what JSON cannot say.
fn seen_lossless(frames: &[Frame]) -> Vec<Frame> {
    let own = frames
        .iter()
        .filter(|frame| !matches!(frame, Frame::Text(text) if text.is_empty()));
    own.map(|frame| match frame {
        Frame::Event { event, timestamp } => Frame::Event {
            event: event_seen(event),
            timestamp: *timestamp,
        },
        Frame::Text(text) => Frame::Text(text.clone()),
        Frame::End(end) => {
            // What `end_seen` takes away from a failure stays here.
            let completed = End {
                status: Status::Completed,
                ..end.clone()
            };
            Frame::End(End {
                status: end.status.clone(),
                ..end_seen(&completed)
            })
        }
    })
    .collect()
}

type Lossless = (Box<dyn Wire>, fn(Limits) -> Box<dyn Decode>);

fn lossless() -> [Lossless; 2] {
    [
        (Box::new(Sse::default()), |limits| {
            Box::new(Sse::default().limits(limits).decoder())
        }),
        (Box::new(Ndjson::default()), |limits| {
            Box::new(Ndjson::default().limits(limits).decoder())
        }),
    ]
}

/// Everything that comes out, nothing merged.
fn decode_with<'a>(mut decoder: Box<dyn Decode>, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let (mut frames, mut error) = (Vec::new(), None);
    for chunk in chunks {
        decoder.feed(chunk);
        for item in decoder.by_ref() {
            match item {
                Ok(frame) => frames.push(frame),
                Err(code) => error = Some(code),
            }
        }
    }
    let finish = decoder.finish();
    assert!(decoder.next().is_none(), "nothing is held back");
    Decoded {
        frames,
        error,
        finish,
    }
}

/// The grammar of [F-01], read by hand: JSON lines, 0x1D, text without separators, 0x1E, one JSON object. Gives the JSON parts.
fn check_grammar(bytes: &[u8]) -> Vec<&[u8]> {
    let count = |byte| bytes.iter().filter(|at| **at == byte).count();
    assert_eq!((count(0x1d), count(0x1e)), (1, 1), "{}", bytes.escape_ascii());
    let text = bytes.iter().position(|byte| *byte == 0x1d).unwrap();
    let trailer = bytes.iter().position(|byte| *byte == 0x1e).unwrap();
    assert!(text < trailer);
    std::str::from_utf8(&bytes[text..trailer]).unwrap();
    let mut parts: Vec<_> = bytes[..text].split_inclusive(|byte| *byte == b'\n').collect();
    for line in &mut parts {
        *line = line.strip_suffix(b"\n").expect("every line is ended");
    }
    parts.push(&bytes[trailer + 1..]);
    for part in &parts {
        let Value::Object(members) = serde_json::from_slice(part).unwrap() else {
            panic!("{} is no object", part.escape_ascii());
        };
        assert!(
            !members.values().any(Value::is_null),
            "absent members are left out"
        );
    }
    parts
}

/// No reader of lines, in whatever language, finds a line end in there (8).
fn check_lines(part: &[u8]) {
    let text = std::str::from_utf8(part).unwrap();
    let ends = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    assert_eq!(text.find(ends), None, "{text:?}");
}

/// Without what may be the beginning of a character.
fn whole_characters(text: &str) -> &str {
    text.trim_end_matches('\u{fffd}')
}

fn cut<'a>(bytes: &'a [u8], at: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<_> = at.iter().map(|index| index.index(bytes.len() + 1)).collect();
    at.sort_unstable();
    let starts = std::iter::once(0).chain(at.iter().copied());
    let ends = at.iter().copied().chain([bytes.len()]);
    starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect()
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    vec(any::<prop::sample::Index>(), 0..6)
}

/// What streams are made of.
const PARTS: [&[u8]; 33] = [
    b"{\"event\":\"x\"}\n",
    b"\x1d",
    b"\x1e",
    b"\n",
    b"{}",
    b"{\"status\":\"failed\"}",
    b"{\"events\":[{}]}",
    b"{\"event\":",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\xc2",
    b"\x85",
    b"\r",
    b" ",
    b"{\"citations\":[],\"tools_used\":[]}",
    b"text",
    b"{\"index\":0,\"text\":\"a\"}\n",
    b"{\"index\":1,\"end\":\"stopped\"}\n",
    b"id: 0\nevent: text\ndata: {\"text\":\"a\"}\n\n",
    b"id: 1\nevent: end\ndata: {\"end\":\"stopped\"}\n\n",
    b"data",
    b": ",
    b"\r\n",
    b"\xef\xbb\xbf",
    b"id:0\n",
    b"event: end\r",
    b"data:{\"end\":\"failed\"}\r\n",
];

/// Bytes that look like a stream: whole parts of one, in any order, and noise.
fn stream_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::sample::select(&PARTS[..]).prop_map(<[u8]>::to_vec),
        vec(any::<u8>(), 0..4),
    ];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}

// ---- the properties ----------------------------------------------------------------------------------------------------

proptest! {
    // 256 cases each; PROPTEST_CASES asks for more.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// 1, 2, 3, 8: the grammar holds, and no value can forge a separator or a line end.
    #[test]
    fn grammar(frames in turn()) {
        let bytes = encode(&Framed::default(), &frames);
        for part in check_grammar(&bytes) {
            check_lines(part);
        }
        let events = frames.iter().take_while(|frame| !matches!(frame, Frame::Text(text) if !text.is_empty()))
            .filter(|frame| matches!(frame, Frame::Event { .. })).count();
        prop_assert_eq!(check_grammar(&bytes).len(), events + 1);
        prop_assert_eq!(&encode(&Framed::default(), &frames), &bytes, "encoding is deterministic");
    }

    /// 4: it makes no difference how the text came in pieces.
    #[test]
    fn filter_locality(text in string(), at in cuts()) {
        let mut at: Vec<_> = at.iter().map(|index| text.floor_char_boundary(index.index(text.len() + 1))).collect();
        at.sort_unstable();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for to in at.into_iter().chain([text.len()]) {
            pieces.push(Frame::Text(text[from..to].into()));
            from = to;
        }
        pieces.push(Frame::End(End::default()));
        let whole = [Frame::Text(text), Frame::End(End::default())];
        prop_assert_eq!(encode(&Framed::default(), &pieces), encode(&Framed::default(), &whole));
    }

    /// 6, 7: decoding gives back what was encoded, however the bytes are cut.
    #[test]
    fn round_trip(frames in turn(), at in cuts()) {
        let wire = Framed::default();
        let bytes = encode(&wire, &frames);
        let expected = Decoded { frames: seen(&frames), error: None, finish: Finish::Complete };
        prop_assert_eq!(&decode(&wire, [&bytes[..]]), &expected);
        prop_assert_eq!(&decode(&wire, bytes.chunks(1)), &expected);
        prop_assert_eq!(&decode(&wire, cut(&bytes, &at)), &expected);
    }

    /// 6, 9: no bytes make the decoder panic, and no split changes what it says.
    #[test]
    fn any_bytes_any_split(bytes in prop_oneof![stream_like(), vec(any::<u8>(), 0..64)], at in cuts()) {
        let wire = Framed::default().limits(Limits::default().max_line_bytes(24).max_trailer_bytes(40));
        let whole = decode(&wire, [&bytes[..]]);
        prop_assert_eq!(&decode(&wire, bytes.chunks(1)), &whole);
        prop_assert_eq!(&decode(&wire, cut(&bytes, &at)), &whole);
        if whole.error.is_none() {
            prop_assert_eq!(whole.finish == Finish::Complete, matches!(whole.frames.last(), Some(Frame::End(_))));
        }
    }

    /// 5: text is shown whole characters only, never more than three bytes behind, and as a browser would show it.
    #[test]
    fn text_is_shown_at_once(text in prop_oneof![vec(any::<u8>(), 0..64), string().prop_map(String::into_bytes)]) {
        let text: Vec<u8> = text.into_iter().filter(|byte| !matches!(byte, 0x1d | 0x1e)).collect();
        let mut decoder = Framed::default().decoder();
        decoder.feed(b"\x1d");
        let mut shown = String::new();
        for (at, byte) in text.iter().enumerate() {
            decoder.feed(&[*byte]);
            for frame in decoder.by_ref() {
                let Ok(Frame::Text(piece)) = frame else { panic!("{frame:?}") };
                shown.push_str(&piece);
            }
            // Whatever a lossy reader shows of all but the last three bytes is shown.
            let sure = String::from_utf8_lossy(&text[..(at + 1).saturating_sub(3)]);
            prop_assert!(shown.starts_with(whole_characters(&sure)));
        }
        prop_assert_eq!(decoder.finish(), Finish::Truncated { phase: Phase::Text });
        for frame in decoder {
            let Ok(Frame::Text(piece)) = frame else { panic!("{frame:?}") };
            shown.push_str(&piece);
        }
        prop_assert_eq!(shown, String::from_utf8_lossy(&text));
    }

    /// 10: a stream that is cut short is truncated, and what it showed is how the whole begins.
    #[test]
    fn truncation_is_visible(frames in turn(), at in any::<prop::sample::Index>()) {
        let wire = Framed::default();
        let bytes = encode(&wire, &frames);
        let cut = decode(&wire, [&bytes[..at.index(bytes.len())]]);
        prop_assert_eq!(cut.error, None);
        prop_assert_ne!(cut.finish, Finish::Complete);
        for (shown, whole) in cut.frames.iter().zip(seen(&frames)) {
            match (shown, whole) {
                (Frame::Text(shown), Frame::Text(whole)) => {
                    prop_assert!(whole.starts_with(whole_characters(shown)));
                }
                (shown, whole) => prop_assert_eq!(shown, &whole),
            }
        }
    }

    /// 11: over the limit the decoder fails, at the very byte and for good.
    #[test]
    fn limits_are_exact(limit in 16..64_usize, over in 0..3_usize, trailer in any::<bool>(), chunk in 1..9_usize) {
        let wire = Framed::default().limits(Limits::default().max_line_bytes(limit).max_trailer_bytes(limit));
        let (open, close) = if trailer { ("\x1d\x1e", "") } else { ("", "\n") };
        let part = format!("{{\"event\":\"{}\"}}", "x".repeat(limit + over - 12));
        let bytes = format!("{open}{part}{close}");
        let decoded = decode(&wire, bytes.as_bytes().chunks(chunk));
        let too_long = if trailer { DecodeError::TrailerTooLong } else { DecodeError::LineTooLong };
        prop_assert_eq!(decoded.error, (over > 0).then_some(too_long));
        let after = format!("{bytes}\x1dmore\x1e{{}}");
        if over > 0 {
            prop_assert_eq!(decode(&wire, after.as_bytes().chunks(chunk)).frames, []);
        }
    }

    /// 6 of §3: what is too long for the wire is a typed error or shortened, never a line or a trailer over the limit.
    #[test]
    fn encoder_keeps_the_limits(frames in turn(), line in 32..400_usize, trailer in 96..400_usize) {
        let wire = Framed::default().limits(Limits::default().max_line_bytes(line).max_trailer_bytes(trailer));
        let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
        let (mut sent, mut refused) = (0, 0);
        for frame in &frames {
            let before = out.clone();
            match encoder.encode(frame, &mut out) {
                Ok(()) => sent += u64::from(matches!(frame, Frame::Event { .. })),
                Err(error) => {
                    prop_assert_eq!(error.code(), "event_too_large");
                    prop_assert_eq!(&out, &before);
                    refused += 1;
                }
            }
        }
        check_grammar(&out);
        let decoded = decode(&wire, [&out[..]]);
        prop_assert_eq!(decoded.error, None);
        prop_assert_eq!(decoded.finish, Finish::Complete);
        let Some(Frame::End(end)) = decoded.frames.last() else { panic!("no end") };
        let said = frames.last().map(|frame| match frame { Frame::End(end) => end.status.as_str(), _ => "" });
        prop_assert_eq!(Some(end.status.as_str()), said);
        // Every event arrived, or the trailer says that something is missing.
        let arrived = decoded.frames.iter().filter(|frame| matches!(frame, Frame::Event { .. })).count() as u64;
        prop_assert!(arrived == sent || end.metadata.truncated || end.metadata.events_dropped > 0, "{refused} refused");
    }

    /// 12: what follows the end is an error, and no second answer.
    #[test]
    fn trailing_bytes(frames in turn(), more in vec(any::<u8>(), 1..8), again in any::<bool>()) {
        let wire = Framed::default();
        let mut bytes = encode(&wire, &frames);
        let more = if again { bytes.clone() } else { more };
        bytes.extend(more);
        let decoded = decode(&wire, [&bytes[..]]);
        prop_assert_eq!(decoded.error, Some(DecodeError::TrailingBytes));
        prop_assert_eq!(decoded.frames, seen(&frames));
    }

    /// 6, 7, 8: the lossless wires give back every frame as it was sent, in lines that nothing can forge, however they are cut.
    #[test]
    fn lossless_round_trip(mut frames in turn(), moment in prop::option::of((any::<i64>(), any::<u64>())), at in cuts()) {
        if let Some(Frame::End(end)) = frames.last_mut() {
            end.timing = moment.map(|(micros, elapsed_ms)| Timing { timestamp: Timestamp::from_micros(micros), elapsed_ms });
        }
        let expected = Decoded { frames: seen_lossless(&frames), error: None, finish: Finish::Complete };
        for (wire, decoder) in lossless() {
            let bytes = encode(&*wire, &frames);
            for line in bytes.split(|byte| *byte == b'\n') {
                check_lines(line);
            }
            let new = || decoder(Limits::default());
            prop_assert_eq!(&decode_with(new(), [&bytes[..]]), &expected);
            prop_assert_eq!(&decode_with(new(), bytes.chunks(1)), &expected);
            prop_assert_eq!(&decode_with(new(), cut(&bytes, &at)), &expected);
            let short = decode_with(new(), [&bytes[..bytes.len() - 1]]);
            prop_assert_ne!(short.finish, Finish::Complete);
            prop_assert_eq!(short.error, None);
        }
    }

    /// 6, 9: the same as `any_bytes_any_split`.
    #[test]
    fn lossless_any_bytes_any_split(bytes in prop_oneof![stream_like(), vec(any::<u8>(), 0..64)], at in cuts()) {
        for (_, decoder) in lossless() {
            let new = || decoder(Limits::default().max_line_bytes(24).max_trailer_bytes(40));
            let whole = decode_with(new(), [&bytes[..]]);
            prop_assert_eq!(&decode_with(new(), bytes.chunks(1)), &whole);
            prop_assert_eq!(&decode_with(new(), cut(&bytes, &at)), &whole);
            if whole.error.is_none() {
                prop_assert_eq!(whole.finish == Finish::Complete, matches!(whole.frames.last(), Some(Frame::End(_))));
            }
        }
    }

    /// 11: what the lossless encoders write, their decoders take under the same limits, the end too.
    #[test]
    fn lossless_encoders_keep_the_limits(frames in turn(), line in 40..400_usize, trailer in 120..400_usize) {
        let limits = Limits::default().max_line_bytes(line).max_trailer_bytes(trailer);
        let wires: [Box<dyn Wire>; 2] =
            [Box::new(Sse::default().limits(limits)), Box::new(Ndjson::default().limits(limits))];
        for (wire, (_, decoder)) in wires.iter().zip(lossless()) {
            let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
            let mut sent = 0;
            for frame in &frames {
                match encoder.encode(frame, &mut out) {
                    Ok(()) => sent += usize::from(matches!(frame, Frame::Event { .. })),
                    Err(error) => prop_assert_eq!(error.code(), "event_too_large"),
                }
            }
            prop_assert!(out[..].split(|byte| *byte == b'\n').all(|part| part.len() <= line.max(trailer)));
            let decoded = decode_with(decoder(limits), [&out[..]]);
            prop_assert_eq!((decoded.error, decoded.finish), (None, Finish::Complete));
            let events = decoded.frames.iter().filter(|frame| matches!(frame, Frame::Event { .. })).count();
            prop_assert_eq!(events, sent);
            let text = |frames: &[Frame]| frames.iter().map(|frame| match frame { Frame::Text(text) => &**text, _ => "" }).collect::<String>();
            prop_assert_eq!(text(&decoded.frames), text(&frames));
        }
    }
}
