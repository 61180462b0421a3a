//! Properties of LangGraph's stream: what the decoder makes of our own streams and of any bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::wire::langgraph::Modes;
use ragwire::wire::{Decode, Finish, Limits};
use ragwire::{End, Frame, LangGraph};

use super::streams::{Decoded, check_lines, cut, cuts, encode, expected_lossless, readable_end, stream_like};
use crate::generated::turn;

fn decode<'a>(wire: &LangGraph, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let (mut decoder, mut frames, mut error) = (wire.decoder(), Vec::new(), None);
    let mut take = |decoder: &mut dyn Decode| {
        for item in decoder {
            match item {
                Ok(frame) => frames.push(frame),
                Err(code) => error = Some(code),
            }
        }
    };
    for chunk in chunks {
        decoder.feed(chunk);
        take(&mut decoder);
    }
    let finish = decoder.finish();
    // The end of a stream that just closes.
    take(&mut decoder);
    Decoded {
        frames,
        error,
        finish,
    }
}

/// What [LG-12] says is left of a turn: everything but the end's time, and the evidence of a failure.
fn expected(frames: &[Frame]) -> Vec<Frame> {
    let mut frames = expected_lossless(frames);
    if let Some(Frame::End(end)) = frames.last_mut() {
        *end = End {
            timing: None,
            ..readable_end(end)
        };
    }
    frames
}

fn text(frames: &[Frame]) -> String {
    let text = |frame: &Frame| match frame {
        Frame::Text(text) => text.clone(),
        _ => String::new(),
    };
    frames.iter().map(text).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A turn is decoded as it was, however its stream is cut.
    #[test]
    fn langgraph_round_trip(frames in turn(), at in cuts()) {
        let all = Modes::of(["values", "updates", "messages", "messages-tuple", "custom"]);
        for modes in [Modes::default(), all] {
            let wire = LangGraph::new("r").thread("t").modes(modes);
            let bytes = encode(&wire, &frames);
            for line in bytes.split(|byte| *byte == b'\n') {
                check_lines(line);
            }
            let expected = Decoded { frames: expected(&frames), error: None, finish: Finish::Complete };
            prop_assert_eq!(&decode(&wire, [&bytes[..]]), &expected);
            prop_assert_eq!(&decode(&wire, bytes.chunks(1)), &expected);
            prop_assert_eq!(&decode(&wire, cut(&bytes, &at)), &expected);
            let short = decode(&wire, [&bytes[..bytes.len() - 1]]);
            prop_assert_eq!(short.error, None);
            prop_assert_ne!(short.frames.last(), expected.frames.last());
        }
    }

    /// Whatever a client asks for, it gets the answer and the outcome.
    #[test]
    fn langgraph_modes_carry_the_answer(frames in turn()) {
        for modes in [["messages-tuple"], ["messages"], ["updates"], ["values"]] {
            let wire = LangGraph::new("r").modes(Modes::of(modes));
            let decoded = decode(&wire, [&encode(&wire, &frames)[..]]);
            prop_assert_eq!((decoded.error, decoded.finish), (None, Finish::Complete));
            let expected = expected(&frames);
            let Some((Frame::End(end), Frame::End(sent))) = decoded.frames.last().zip(expected.last()) else {
                panic!("no end")
            };
            prop_assert_eq!(&end.status, &sent.status);
            prop_assert_eq!(&end.metadata.citations, &sent.metadata.citations);
            // `values` has the state of a run that did not fail.
            if modes != ["values"] || !matches!(sent.status, ragwire::Status::Failed(_)) {
                prop_assert_eq!(text(&decoded.frames), text(&expected), "{:?}", modes);
            }
        }
    }

    /// A reader that reconnects gets exactly the bytes after the event that it has.
    #[test]
    fn langgraph_resumes_after_any_event(frames in turn()) {
        let whole = String::from_utf8(encode(&LangGraph::new("r"), &frames)).unwrap();
        let events = whole.split_inclusive("\n\n").collect::<Vec<_>>();
        for after in 0..events.len() - 1 {
            let wire = LangGraph::new("r").after(Some(after as u64));
            prop_assert_eq!(String::from_utf8(encode(&wire, &frames)).unwrap(), events[after + 1..].concat());
        }
    }

    /// No bytes make the decoder panic, and no split changes its result.
    #[test]
    fn langgraph_any_bytes_any_split(bytes in prop_oneof![events(), stream_like(), vec(any::<u8>(), 0..64)], at in cuts()) {
        let wire = LangGraph::new("r").limits(Limits::default().max_line_bytes(24).max_trailer_bytes(40));
        let whole = decode(&wire, [&bytes[..]]);
        prop_assert_eq!(&decode(&wire, bytes.chunks(1)), &whole);
        prop_assert_eq!(&decode(&wire, cut(&bytes, &at)), &whole);
        if whole.error.is_none() {
            prop_assert_eq!(whole.finish == Finish::Complete, matches!(whole.frames.last(), Some(Frame::End(_))));
        }
    }
}

/// Events of any service in any order, most of them in the shapes that the decoder looks for.
fn events() -> impl Strategy<Value = Vec<u8>> {
    let ai = r#""type":"AIMessageChunk""#;
    let pieces = [
        "event: messages\ndata: [{\"type\":\"AIMessageChunk\",\"id\":\"1\",\"content\":\"a\"},{}]\n\n".to_owned(),
        "event: messages\ndata: [{\"type\":\"ai\",\"id\":\"1\",\"content\":\"a\u{e9}b\"},{}]\n\n".to_owned(),
        "event: messages|x\ndata: [{\"type\":\"ai\",\"content\":[\"a\",{\"type\":\"text\",\"text\":\"b\"}]},{}]\n\n".to_owned(),
        format!("event: messages\ndata: [{{{ai},\"id\":\"2\",\"content\":\"\",\"tool_call_chunks\":[{{\"index\":0,\"id\":\"c\",\"name\":\"t\",\"args\":\"{{\"}}]}},{{}}]\n\n"),
        format!("event: messages\ndata: [{{{ai},\"id\":\"2\",\"content\":\"\",\"tool_call_chunks\":[{{\"index\":0,\"args\":\"}}\"}}]}},{{}}]\n\n"),
        format!("event: messages\ndata: [{{{ai},\"content\":\"b\",\"response_metadata\":{{\"finish_reason\":\"stop\"}}}}]\n\n"),
        "event: messages\ndata: [{\"type\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"[1]\",\"artifact\":[{\"page_content\":\"p\"}]},{}]\n\n".to_owned(),
        "event: messages\ndata: [{\"type\":\"remove\",\"id\":\"1\"},{}]\n\n".to_owned(),
        "event: messages/partial\ndata: [{\"type\":\"ai\",\"id\":\"1\",\"content\":\"ab\"}]\n\n".to_owned(),
        "event: messages/complete\ndata: [{\"type\":\"ai\",\"id\":\"3\",\"content\":\"c\",\"tool_calls\":[{\"id\":\"c\",\"name\":\"t\"}]}]\n\n".to_owned(),
        "event: updates\ndata: {\"n\":{\"messages\":[{\"type\":\"ai\",\"id\":\"1\",\"content\":\"a\"}],\"x\":1},\"m\":null}\n\n".to_owned(),
        "event: updates\ndata: {\"__interrupt__\":[{\"id\":\"i\",\"value\":{\"question\":\"?\"}}]}\n\n".to_owned(),
        "event: values\ndata: {\"messages\":[{\"type\":\"human\"},{\"type\":\"ai\",\"id\":\"4\",\"content\":\"d\"}],\"answer\":\"e\"}\n\n".to_owned(),
        "event: custom\ndata: {\"event\":\"retract\",\"kept\":0}\n\n".to_owned(),
        "event: custom\ndata: 7\n\n".to_owned(),
        "event: error\ndata: {\"error\":\"E\",\"message\":\"m\"}\n\n".to_owned(),
        "event: end\ndata: null\n\n".to_owned(),
        ": ping\r\n\r\n".to_owned(),
    ];
    vec(prop::sample::select(pieces.to_vec()), 0..12).prop_map(|pieces| pieces.concat().into_bytes())
}
