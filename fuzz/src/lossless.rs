//! The wires that keep every frame as it was sent, and the reader of any server-sent events.

use bytes::BytesMut;
use ragwire::wire::sse::{EventStream, EventTooLarge, Message};
use ragwire::wire::{Decode, Finish, Limits, Wire};
use ragwire::{End, Frame, Ndjson, Snapshot, Sse};

use crate::Decoded;

fn decode<'a>(mut decoder: impl Decode, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let (mut frames, mut error) = (Vec::new(), None);
    for chunk in chunks {
        decoder.feed(chunk);
        for frame in decoder.by_ref() {
            match frame {
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

/// Any bytes, any split: no panic, the same outcome, and a complete stream survives being encoded
/// again.
fn check<W: Wire, D: Decode>(data: &[u8], wire: impl Fn(Limits) -> W, decoder: impl Fn(&W) -> D) {
    let Some((size, stream)) = data.split_first() else {
        return;
    };
    let narrow = Limits::default().max_line_bytes(64).max_trailer_bytes(96);
    for limits in [Limits::default(), narrow] {
        let wire = wire(limits);
        let whole = decode(decoder(&wire), [stream]);
        assert_eq!(
            decode(decoder(&wire), stream.chunks(usize::from(*size).max(1))),
            whole
        );
        let ended = matches!(whole.frames.last(), Some(Frame::End(_)));
        assert_eq!(whole.finish == Finish::Complete, ended && whole.error.is_none());
        let ends = whole.frames.iter().filter(|frame| matches!(frame, Frame::End(_)));
        assert_eq!(ends.count(), usize::from(ended), "the end is the last frame only");
    }
    let wire = wire(
        Limits::default()
            .max_line_bytes(1 << 24)
            .max_trailer_bytes(1 << 26),
    );
    let whole = decode(decoder(&wire), [stream]);
    if !matches!(whole.frames.last(), Some(Frame::End(_))) {
        return;
    }
    let Some(bytes) = encode(&wire, &whole.frames) else {
        return;
    };
    let once = decode(decoder(&wire), [&bytes[..]]);
    assert_eq!((once.error, once.finish), (None, Finish::Complete));
    assert_eq!(once.frames.len(), whole.frames.len());
    for (once, whole) in once.frames.iter().zip(&whole.frames) {
        match whole {
            // An application event in another encoder's form may become one of the vocabulary.
            Frame::Event { .. } => {}
            Frame::Text(_) => assert_eq!(once, whole),
            Frame::End(end) => assert_eq!(*once, Frame::End(without_misshapen_members(end))),
            Frame::Snapshot(whole) => {
                let Frame::Snapshot(once) = once else {
                    panic!("a snapshot became {once:?}")
                };
                let plain = |snapshot: &Snapshot| {
                    let Snapshot {
                        frames,
                        text,
                        events_dropped,
                        ..
                    } = snapshot;
                    (*frames, text.clone(), *events_dropped, snapshot.events.len())
                };
                assert_eq!(plain(once), plain(whole));
            }
        }
    }
    let bytes = encode(&wire, &once.frames).expect("our own frames can be encoded again");
    assert_eq!(decode(decoder(&wire), [&bytes[..]]), once);
}

/// The end without members that have one of our names and another shape: they are decoded as
/// application members, and the encoder leaves them out.
fn without_misshapen_members(end: &End) -> End {
    let mut end = end.clone();
    let ours = [
        "citations",
        "mode",
        "tools_used",
        "usage",
        "queue_stats",
        "events_dropped",
        "truncated",
    ];
    end.metadata
        .extra
        .retain(|name, _| !ours.contains(&name.as_str()));
    end
}

/// `None` if an event has a name that this wire cannot carry.
fn encode(wire: &impl Wire, frames: &[Frame]) -> Option<BytesMut> {
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    for frame in frames {
        if let Err(error) = encoder.encode(frame, &mut out) {
            assert_eq!((error.code(), wire.name()), ("event_name", "sse"));
            return None;
        }
    }
    Some(out)
}

/// Checks the decoder of our server-sent events. The first byte is the size of the chunks, the rest
/// is the stream.
pub fn sse_decode(data: &[u8]) {
    check(data, |limits| Sse::default().limits(limits), Sse::decoder);
}

/// Checks the decoder of our JSON lines, with the same input format.
pub fn ndjson_decode(data: &[u8]) {
    check(data, |limits| Ndjson::default().limits(limits), Ndjson::decoder);
}

/// Checks the reader of any server-sent events, with the same input format: it must agree with a
/// simple reading of the whole stream by the standard.
pub fn event_stream(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else {
        return;
    };
    for max_event_bytes in [1024 * 1024, 24] {
        let whole = read(max_event_bytes, [stream]);
        assert_eq!(
            read(max_event_bytes, stream.chunks(usize::from(*size).max(1))),
            whole
        );
        if whole.messages.last().is_none_or(Result::is_ok) {
            assert_eq!(whole, plain(stream));
        }
    }
}

#[derive(Debug, PartialEq)]
struct Read {
    messages: Vec<Result<(String, String, String), EventTooLarge>>,
    retry: Option<u64>,
    last_id: String,
}

fn read<'a>(max_event_bytes: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut stream = EventStream::new(max_event_bytes);
    let mut messages = Vec::new();
    for chunk in chunks {
        stream.feed(chunk);
        let new = stream.by_ref();
        messages.extend(new.map(|message| message.map(|Message { event, data, id, .. }| (event, data, id))));
    }
    let retry = stream.retry().map(|retry| retry.as_millis() as u64);
    Read {
        messages,
        retry,
        last_id: stream.last_id().to_owned(),
    }
}

/// "Interpreting an event stream" of WHATWG HTML, sentence by sentence, on the whole stream at
/// once.
fn plain(stream: &[u8]) -> Read {
    let text = String::from_utf8_lossy(stream);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    // Without a line end it is not a line.
    lines.pop();
    let (mut event, mut data, mut id) = ("", String::new(), "");
    let mut all = Read {
        messages: Vec::new(),
        retry: None,
        last_id: String::new(),
    };
    for line in lines {
        if line.is_empty() {
            all.last_id = id.to_owned();
            if let Some(data) = data.strip_suffix('\n') {
                let event = if event.is_empty() { "message" } else { event };
                all.messages
                    .push(Ok((event.to_owned(), data.to_owned(), id.to_owned())));
            }
            (event, data) = ("", String::new());
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => event = value,
            "data" => {
                data.push_str(value);
                data.push('\n');
            }
            "id" if !value.contains('\0') => id = value,
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                all.retry = Some(value.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
    all
}
