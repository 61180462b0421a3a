//! Properties of the wires of chat clients that have a decoder: OpenAI's two and Ollama's.

use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::wire::openai::{OnFailure, Progress};
use ragwire::wire::{Decode, Finish, Limits, Wire, ollama, openai, responses};
use ragwire::{Frame, Ollama, OpenAi, Responses, Status, Timestamp};

use super::streams::{Decoded, cut, cuts, decode_with, encode, expected_lossless, merge, readable_end};
use crate::generated::turn;

/// A wire, its decoder, and where `PROTOCOL.md` says that a decoded turn differs.
struct Tested {
    wire: Box<dyn Wire>,
    decoder: fn(Limits) -> Box<dyn Decode>,
    difference: fn(&mut Vec<Frame>),
}

fn openai_decoder(limits: Limits) -> Box<dyn Decode> {
    Box::new(openai::Decoder::new(limits))
}

fn tested() -> Vec<Tested> {
    let openai = || OpenAi::new("chatcmpl-1", 1_767_323_045, "rag");
    let row = |wire: Box<dyn Wire>, decoder, difference| Tested {
        wire,
        decoder,
        difference,
    };
    vec![
        row(Box::new(openai().with_usage()), openai_decoder, |_| {}),
        row(
            Box::new(openai().progress(Progress::Extension)),
            openai_decoder,
            |_| {},
        ),
        row(
            Box::new(openai().progress(Progress::Comment)),
            openai_decoder,
            without_events,
        ),
        row(
            Box::new(openai().on_failure(OnFailure::Text)),
            openai_decoder,
            with_sentence,
        ),
        row(
            Box::new(Responses::new("resp_1", 1_767_323_045, "rag")),
            |limits| Box::new(responses::Decoder::new(limits)),
            |_| {},
        ),
        row(
            Box::new(Ollama::new("rag", Timestamp::from_micros(0))),
            |limits| Box::new(ollama::Decoder::new(limits)),
            |_| {},
        ),
    ]
}

/// O-08: comments are not read.
fn without_events(frames: &mut Vec<Frame>) {
    frames.retain(|frame| !matches!(frame, Frame::Event { .. }));
}

/// O-08: the message of a failure is part of the answer.
fn with_sentence(frames: &mut Vec<Frame>) {
    let Some(Frame::End(end)) = frames.last() else {
        panic!("a turn has an end")
    };
    let Status::Failed(failure) = &end.status else {
        return;
    };
    if failure.message.is_empty() {
        return;
    }
    let has_text = frames.iter().any(|frame| matches!(frame, Frame::Text(_)));
    let gap = if has_text { "\n\n" } else { "" };
    let sentence = Frame::Text(format!("{gap}{}", failure.message));
    frames.insert(frames.len() - 1, sentence);
}

/// The frames with adjacent texts merged.
fn merged(frames: Vec<Frame>) -> Vec<Frame> {
    let mut all = Vec::new();
    frames.into_iter().for_each(|frame| merge(&mut all, frame));
    all
}

fn decode<'a>(decoder: Box<dyn Decode>, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let decoded = decode_with(decoder, chunks);
    Decoded {
        frames: merged(decoded.frames),
        ..decoded
    }
}

/// Parts of streams, to be put together in any order.
const PARTS: [&str; 30] = [
    "data: ",
    "\n\n",
    "\n",
    "data: [DONE]\n\n",
    "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}",
    "{\"choices\":[{\"delta\":{\"reasoning_content\":\"b\"},\"finish_reason\":null}]}",
    "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"t\",\"arguments\":\"{\"}}]}}]}",
    "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}",
    "{\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":-1}}",
    "{\"error\":{\"message\":\"no\"}}",
    "{\"choices\":{}}",
    "{\"ragwire\":{\"event\":{\"event\":\"x\"}}}",
    "{\"ragwire\":{\"status\":\"stopped\"}}",
    "{\"ragwire\":{\"event\":1}}",
    "{\"ragwire\":{\"status\":\"?\"}}",
    "{\"message\":{\"content\":\"a\",\"thinking\":\"b\"},\"done\":false}",
    "{\"message\":{\"tool_calls\":[{},{\"function\":{\"name\":\"t\"}}]}}",
    "{\"done\":true,\"eval_count\":3}",
    "{\"error\":\"no\"}",
    "event: response.output_text.delta\ndata: {\"delta\":\"a\"}",
    "{\"type\":\"response.reasoning_summary_text.delta\",\"item_id\":\"r\",\"delta\":\"b\"}",
    "{\"type\":\"response.output_item.done\",\"item\":{\"type\":\"mcp_call\",\"name\":\"t\",\"output\":\"o\"}}",
    "{\"type\":\"response.output_item.done\",\"item\":{\"type\":\"file_search_call\",\"queries\":[\"q\"],\"results\":[{}]}}",
    "{\"type\":\"response.output_text.annotation.added\",\"annotation\":{\"type\":\"url_citation\",\"url\":\"u\"}}",
    "{\"type\":\"response.completed\",\"response\":{}}",
    "{\"type\":\"response.incomplete\",\"response\":{\"status\":\"cancelled\"}}",
    "{\"type\":\"error\",\"message\":\"no\"}",
    ": comment\n",
    "{}",
    "[",
];

fn stream_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => (prop::sample::select(&PARTS[..]), any::<bool>()).prop_map(|(part, framed)| {
            // Every second part is a whole event or line by itself.
            if framed && part.starts_with('{') { format!("data: {part}\n\n").into_bytes() } else { part.as_bytes().to_vec() }
        }),
        1 => vec(any::<u8>(), 0..4),
    ];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    // 256 cases each; set PROPTEST_CASES for more.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A decoded turn is the turn: every event, text and end, however the bytes are cut. Only the
    /// metadata of a failure is that of the trailer.
    #[test]
    fn chats_round_trip(frames in turn(), at in cuts()) {
        for Tested { wire, decoder, difference } in tested() {
            let mut expected = expected_lossless(&frames);
            if let Some(Frame::End(end)) = expected.last_mut() {
                *end = readable_end(end);
            }
            difference(&mut expected);
            let expected = Decoded { frames: merged(expected), error: None, finish: Finish::Complete };
            let bytes = encode(&*wire, &frames);
            let new = || decoder(Limits::default());
            prop_assert_eq!(&decode(new(), [&bytes[..]]), &expected, "{}", wire.name());
            prop_assert_eq!(&decode(new(), bytes.chunks(1)), &expected, "{}", wire.name());
            prop_assert_eq!(&decode(new(), cut(&bytes, &at)), &expected, "{}", wire.name());
        }
    }

    /// A stream that breaks off before its end is truncated and never complete.
    #[test]
    fn chats_report_a_cut(frames in turn(), at in any::<prop::sample::Index>()) {
        for Tested { wire, decoder, .. } in tested() {
            let (mut encoder, mut bytes) = (wire.encoder(), bytes::BytesMut::new());
            let (end, before) = frames.split_last().unwrap();
            for frame in before {
                encoder.encode(frame, &mut bytes).unwrap();
            }
            let before = bytes.len();
            encoder.encode(end, &mut bytes).unwrap();
            let short = decode(decoder(Limits::default()), [&bytes[..at.index(before + 1)]]);
            prop_assert!(matches!(short.finish, Finish::Truncated { .. }), "{}: {:?}", wire.name(), short);
            prop_assert_eq!(short.error, None);
        }
    }

    /// No bytes make a decoder panic, no split changes its result, and an end is the last frame.
    #[test]
    fn chats_any_bytes_any_split(bytes in prop_oneof![stream_like(), vec(any::<u8>(), 0..64)], at in cuts()) {
        for Tested { wire, decoder, .. } in tested() {
            for limits in [Limits::default(), Limits::default().max_line_bytes(8).max_trailer_bytes(16)] {
                let whole = decode(decoder(limits), [&bytes[..]]);
                prop_assert_eq!(&decode(decoder(limits), bytes.chunks(1)), &whole, "{}", wire.name());
                prop_assert_eq!(&decode(decoder(limits), cut(&bytes, &at)), &whole, "{}", wire.name());
                let ends = whole.frames.iter().filter(|frame| matches!(frame, Frame::End(_))).count();
                prop_assert!(ends <= 1);
                if whole.error.is_none() {
                    prop_assert_eq!(whole.finish == Finish::Complete, matches!(whole.frames.last(), Some(Frame::End(_))));
                }
            }
        }
    }
}
