//! Helpers: encode and decode a turn, and the frames that decoding must return.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::Custom;
use ragwire::wire::framed::FramedDecoder;
use ragwire::wire::{Decode, DecodeError, Finish, Wire};
use ragwire::{End, Event, Frame, Framed, Status};
use serde_json::json;

pub(super) fn encode(wire: &dyn Wire, frames: &[Frame]) -> Vec<u8> {
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

/// The result of decoding.
#[derive(Debug, PartialEq)]
pub(super) struct Decoded {
    pub(super) frames: Vec<Frame>,
    pub(super) error: Option<DecodeError>,
    pub(super) finish: Finish,
}

/// Decodes `chunks` with adjacent texts merged.
pub(super) fn decode<'a>(wire: &Framed, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = wire.decoder();
    let (mut frames, mut error) = (Vec::new(), None);
    let mut take = |decoder: &mut FramedDecoder| {
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

pub(super) fn merge(frames: &mut Vec<Frame>, frame: Frame) {
    match (frames.last_mut(), frame) {
        (_, Frame::Text(text)) if text.is_empty() => {}
        (Some(Frame::Text(last)), Frame::Text(text)) => last.push_str(&text),
        (_, frame) => frames.push(frame),
    }
}

pub(super) fn without_separators(text: &str) -> String {
    text.replace('\u{1d}', "\u{241d}").replace('\u{1e}', "\u{241e}")
}

/// The frames that a reader of the framed wire gets: texts merged, late events after them, and
/// values that JSON does not have left out.
pub(super) fn expected(frames: &[Frame]) -> Vec<Frame> {
    let (mut early, mut late, mut text, mut has_text) = (Vec::new(), Vec::new(), String::new(), false);
    let mut last = None;
    for frame in frames {
        match frame {
            Frame::Event { event, timestamp } => {
                let frame = Frame::Event {
                    event: readable_event(event),
                    timestamp: *timestamp,
                };
                if has_text {
                    late.push(frame)
                } else {
                    early.push(frame)
                }
            }
            Frame::Text(piece) => {
                text.push_str(&without_separators(piece));
                has_text |= !piece.is_empty();
            }
            Frame::End(end) => {
                if let Status::Failed(failure) = &end.status
                    && !failure.message.is_empty()
                {
                    if has_text {
                        text.push_str("\n\n");
                    }
                    text.push_str(&without_separators(&failure.message));
                }
                last = Some(Frame::End(readable_end(end)));
            }
            Frame::Snapshot(_) => unreachable!("this wire has no snapshots"),
        }
    }
    if !text.is_empty() {
        early.push(Frame::Text(text));
    }
    early.into_iter().chain(late).chain(last).collect()
}

/// The event without NaN and `null`, which are left out of the JSON.
pub(super) fn readable_event(event: &Event) -> Event {
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

pub(super) fn readable_end(end: &End) -> End {
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

/// The frames that a reader of the lossless wires gets: every frame as it was sent, without values
/// that JSON does not have.
pub(super) fn expected_lossless(frames: &[Frame]) -> Vec<Frame> {
    let sent = frames
        .iter()
        .filter(|frame| !matches!(frame, Frame::Text(text) if text.is_empty()));
    sent.map(|frame| match frame {
        Frame::Event { event, timestamp } => Frame::Event {
            event: readable_event(event),
            timestamp: *timestamp,
        },
        Frame::Text(text) => Frame::Text(text.clone()),
        Frame::Snapshot(snapshot) => {
            let mut snapshot = snapshot.clone();
            for (event, _) in &mut snapshot.events {
                *event = readable_event(event);
            }
            Frame::Snapshot(snapshot)
        }
        Frame::End(end) => {
            // What `readable_end` takes away from a failure stays here.
            let completed = End {
                status: Status::Completed,
                ..end.clone()
            };
            Frame::End(End {
                status: end.status.clone(),
                ..readable_end(&completed)
            })
        }
    })
    .collect()
}

/// Decodes `chunks` with nothing merged.
pub(super) fn decode_with<'a>(
    mut decoder: Box<dyn Decode>,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Decoded {
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
    // Only a stream that may end without its last bytes has a frame left: its end.
    frames.extend(decoder.by_ref().flatten());
    assert!(decoder.next().is_none(), "nothing is held back");
    Decoded {
        frames,
        error,
        finish,
    }
}

/// Checks that no line reader of any language finds a line end in `part`.
pub(super) fn check_lines(part: &[u8]) {
    let text = std::str::from_utf8(part).unwrap();
    let ends = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    assert_eq!(text.find(ends), None, "{text:?}");
}

/// `text` without replacement characters at its end, which may be the beginning of a character.
pub(super) fn whole_characters(text: &str) -> &str {
    text.trim_end_matches('\u{fffd}')
}

pub(super) fn cut<'a>(bytes: &'a [u8], at: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<_> = at.iter().map(|index| index.index(bytes.len() + 1)).collect();
    at.sort_unstable();
    let starts = std::iter::once(0).chain(at.iter().copied());
    let ends = at.iter().copied().chain([bytes.len()]);
    starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect()
}

pub(super) fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    vec(any::<prop::sample::Index>(), 0..6)
}

/// Parts of streams.
pub(super) const PARTS: [&[u8]; 36] = [
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
    b"{\"index\":9,\"snapshot\":{\"text\":\"a\"}}\n",
    b"id: 9\nevent: snapshot\ndata: {\"snapshot\":{}}\n\n",
    b"\"snapshot\"",
];

/// Bytes that look like a stream: whole parts in any order, and noise.
pub(super) fn stream_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::sample::select(&PARTS[..]).prop_map(<[u8]>::to_vec),
        vec(any::<u8>(), 0..4),
    ];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}
