//! The checks of the fuzz targets as functions, so that the corpus also runs as ordinary tests.

mod intake;
mod lossless;
mod plain;
mod requests;
mod seeds;
mod socket;
mod trustgraph;
mod upstream;

use bytes::BytesMut;
use ragwire::event::{Custom, Reasoning, Search, ToolResult};
use ragwire::wire::framed::FramedDecoder;
use ragwire::wire::{Decode, DecodeError, Finish, Limits, Wire};
use ragwire::{Citation, End, Event, Failure, Frame, Framed, Metadata, Status};
use serde_json::Value;

pub use intake::{document, settings};
pub use lossless::{event_stream, ndjson_decode, sse_decode};
pub use plain::plain_decode;
pub use requests::{cursor, request_json};
pub use seeds::{
    eve_decode, forge_decode, ollama_decode, openai_decode, responses_decode, session_chat_decode,
};
pub use socket::socket;
pub use trustgraph::trustgraph_decode;
pub use upstream::{ag_ui_decode, ai_sdk_decode, langgraph_decode};

/// The result of decoding, with adjacent texts merged on the framed wire.
#[derive(Debug, PartialEq)]
struct Decoded {
    frames: Vec<Frame>,
    error: Option<DecodeError>,
    finish: Finish,
}

fn take(decoder: &mut FramedDecoder, frames: &mut Vec<Frame>) -> Option<DecodeError> {
    for frame in decoder {
        match (frames.last_mut(), frame) {
            (_, Err(error)) => return Some(error),
            (Some(Frame::Text(last)), Ok(Frame::Text(text))) => last.push_str(&text),
            (_, Ok(frame)) => frames.push(frame),
        }
    }
    None
}

fn decode<'a>(wire: &Framed, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let (mut decoder, mut frames, mut error) = (wire.decoder(), Vec::new(), None);
    for chunk in chunks {
        decoder.feed(chunk);
        error = error.or_else(|| take(&mut decoder, &mut frames));
    }
    let finish = decoder.finish();
    let error = error.or_else(|| take(&mut decoder, &mut frames));
    Decoded {
        frames,
        error,
        finish,
    }
}

fn encode(wire: &Framed, frames: &[Frame]) -> Option<BytesMut> {
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    for frame in frames {
        encoder.encode(frame, &mut out).ok()?;
    }
    Some(out)
}

/// Any bytes, any split: no panic, the same outcome, and a complete stream survives being encoded
/// again.
///
/// The first byte is the size of the chunks, the rest is the stream.
pub fn framed_decode(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else {
        return;
    };
    let narrow = Framed::default().limits(Limits::default().max_line_bytes(64).max_trailer_bytes(96));
    for wire in [Framed::default(), narrow] {
        let whole = decode(&wire, [stream]);
        assert_eq!(decode(&wire, stream.chunks(usize::from(*size).max(1))), whole);
        let ended = matches!(whole.frames.last(), Some(Frame::End(_)));
        assert_eq!(whole.finish == Finish::Complete, ended && whole.error.is_none());
        assert!(
            whole
                .frames
                .iter()
                .rev()
                .skip(1)
                .all(|frame| !matches!(frame, Frame::End(_)))
        );
        if !ended {
            continue;
        }
        // The frames can be encoded again and decode to the same. A failure becomes a stop, because
        // its message is already in the text.
        let frames: Vec<_> = whole
            .frames
            .into_iter()
            .map(|frame| match frame {
                Frame::End(End {
                    status: Status::Failed(_),
                    metadata,
                    ..
                }) => Frame::End(End {
                    status: Status::Stopped,
                    metadata,
                    timing: None,
                }),
                frame => frame,
            })
            .collect();
        let wide = Framed::default().limits(
            Limits::default()
                .max_line_bytes(1 << 24)
                .max_trailer_bytes(1 << 26),
        );
        let once = decode(
            &wide,
            [&encode(&wide, &frames).expect("decoded frames can be encoded")[..]],
        );
        assert_eq!((once.error, once.finish), (None, Finish::Complete));
        let again = decode(&wide, [&encode(&wide, &once.frames).expect("as above")[..]]);
        assert_eq!(again, once);
    }
}

/// Any turn: its encoding follows the grammar and decodes to the turn.
///
/// The bytes are a script: a command, a length, and that many bytes of text for it.
pub fn framed_roundtrip(mut data: &[u8]) {
    let (mut frames, mut expected_text, mut end) = (Vec::new(), String::new(), End::default());
    let filtered = |text: &str| text.replace('\u{1d}', "\u{241d}").replace('\u{1e}', "\u{241e}");
    while let [command, length, rest @ ..] = data {
        let (argument, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        data = rest;
        let text = String::from_utf8_lossy(argument).into_owned();
        let value = || serde_json::from_slice(argument).unwrap_or(Value::String(text.clone()));
        let event: Event = match command % 10 {
            0 => Search::new(text).page(u32::from(*length)).into(),
            1 => Reasoning::new(text).into(),
            2 => ToolResult::new("t", value()).into(),
            3 => match Custom::new(text, &argument) {
                Ok(event) => event.into(),
                Err(error) => {
                    assert_eq!(error.code(), "event_name");
                    continue;
                }
            },
            4 => match value() {
                Value::Null => continue,
                value => Custom::new("own", &value).expect("JSON is JSON").into(),
            },
            5 => {
                end.metadata
                    .citations
                    .push(Citation::new(text.clone(), "c", text, "t"));
                continue;
            }
            6 => {
                end.metadata = end.metadata.with(text.clone(), text);
                continue;
            }
            7 => {
                end.status = Status::Failed(Failure::new("x", text));
                continue;
            }
            _ => {
                expected_text.push_str(&filtered(&text));
                frames.push(Frame::Text(text));
                continue;
            }
        };
        frames.push(Frame::Event {
            event,
            timestamp: None,
        });
    }
    if let Status::Failed(failure) = &end.status
        && !failure.message.is_empty()
    {
        let blank = if expected_text.is_empty() { "" } else { "\n\n" };
        expected_text = format!("{expected_text}{blank}{}", filtered(&failure.message));
    }
    let events = |frames: &[Frame]| -> Vec<Frame> {
        frames
            .iter()
            .filter(|frame| matches!(frame, Frame::Event { .. }))
            .cloned()
            .collect()
    };
    let sent = events(&frames);
    let status = end.status.clone();
    let citations = if matches!(status, Status::Failed(_)) {
        Vec::new()
    } else {
        end.metadata.citations.clone()
    };
    frames.push(Frame::End(end));

    let wire = Framed::default().citation_extras();
    let Some(bytes) = encode(&wire, &frames) else {
        return;
    };
    for separator in [0x1d, 0x1e] {
        assert_eq!(bytes.iter().filter(|byte| **byte == separator).count(), 1);
    }
    let decoded = decode(&wire, [&bytes[..]]);
    assert_eq!((decoded.error, decoded.finish), (None, Finish::Complete));
    let text: String = decoded
        .frames
        .iter()
        .filter_map(|frame| match frame {
            Frame::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, expected_text);
    let Some(Frame::End(End {
        status: decoded_status,
        metadata: Metadata {
            citations: cited,
            truncated,
            ..
        },
        ..
    })) = decoded.frames.last()
    else {
        panic!("a complete stream has an end")
    };
    assert_eq!(*decoded_status, status);
    if !truncated {
        assert_eq!(events(&decoded.frames), sent);
        assert_eq!(*cited, citations);
    }
}
