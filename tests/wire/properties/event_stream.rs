//! `EventStream` compared with a published reader of server-sent events, `sse-stream`.
//!
//! `sse-stream` returns the blocks of a stream unchanged, so this file dispatches them as the
//! standard says. Two differences remain, and in both our reader follows the standard: `sse-stream`
//! refuses bytes that are not UTF-8, which must become U+FFFD, and ignores a `retry` that does not
//! fit 64 bits, which is still a number.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::wire::sse::{EventStream, Message};
use sse_stream::{Error, SseByteStream};

use super::streams::{cut, cuts};

/// Parts of streams. Line ends of all kinds are separate parts, so that every field meets each of
/// them.
const PARTS: [&str; 34] = [
    "\n",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\r\r",
    "\r\n\r\n",
    "data",
    "data:",
    "data: ",
    "data:  ",
    "data:x\n",
    "data: y\n\n",
    "event",
    "event:",
    "event: e",
    "event: \n",
    "id",
    "id:",
    "id: 7",
    "id:\0",
    "retry",
    "retry:",
    "retry: 12",
    "retry: 1x",
    "retry:+5",
    ":",
    ": comment",
    " ",
    "\u{feff}",
    "\0",
    "\u{2028}\u{85}",
    "\u{1f600}é",
    "Data: z",
];

fn event_stream() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => prop::sample::select(&PARTS[..]).prop_map(String::from),
        1 => "[a-z: \\r\\n]{0,6}",
    ];
    (any::<bool>(), vec(part, 0..24)).prop_map(|(mark, parts)| {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{}", parts.concat())
    })
}

#[derive(Debug, PartialEq)]
struct Read {
    messages: Vec<(String, String, String)>,
    last_id: String,
    retry: Option<u64>,
}

fn ours<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let (mut stream, mut messages) = (EventStream::default(), Vec::new());
    for chunk in chunks {
        stream.feed(chunk);
        let new = stream.by_ref().map(Result::unwrap);
        messages.extend(new.map(|Message { event, data, id, .. }| (event, data, id)));
    }
    Read {
        messages,
        last_id: stream.last_id().to_owned(),
        retry: stream.retry().map(|retry| retry.as_millis() as u64),
    }
}

fn theirs<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Read, Error> {
    let chunks = chunks.into_iter().map(Bytes::copy_from_slice);
    let chunks: Vec<Result<Bytes, Infallible>> = chunks.map(Ok).collect();
    let blocks: Vec<_> = SseByteStream::new(stream::iter(chunks))
        .collect()
        .now_or_never()
        .expect("nothing to wait for");
    let mut read = Read {
        messages: Vec::new(),
        last_id: String::new(),
        retry: None,
    };
    for block in blocks {
        let block = block?;
        read.last_id = block.id.unwrap_or(read.last_id);
        read.retry = block.retry.or(read.retry);
        if let Some(data) = block.data {
            let event = block.event.filter(|event| !event.is_empty());
            let event = event.unwrap_or_else(|| "message".into());
            read.messages.push((event, data, read.last_id.clone()));
        }
    }
    Ok(read)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_readers_see_the_same(text in event_stream(), at in cuts()) {
        // A `retry` takes effect at once in our reader, and with its block in `sse-stream`.
        let text = format!("{text}\n\n");
        let bytes = text.as_bytes();
        let whole = ours([bytes]);
        for chunks in [vec![bytes], bytes.chunks(1).collect(), cut(bytes, &at)] {
            prop_assert_eq!(&ours(chunks.clone()), &whole);
            prop_assert_eq!(&theirs(chunks).unwrap(), &whole);
        }
    }
}

#[test]
fn the_two_differences() {
    let invalid = b"data: \xff\n\n";
    assert!(matches!(theirs([&invalid[..]]), Err(Error::Utf8Parse(_))));
    assert_eq!(ours([&invalid[..]]).messages[0].1, "\u{fffd}");

    let long = b"retry: 5\nretry: 99999999999999999999\n\n";
    assert_eq!(theirs([&long[..]]).unwrap().retry, Some(5));
    assert_eq!(ours([&long[..]]).retry, Some(u64::MAX));
}
