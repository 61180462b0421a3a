//! The decoder of LangGraph's run stream, which reads what any service writes.

use ragwire::wire::{Decode, Finish, Limits};
use ragwire::{Frame, LangGraph};

use crate::Decoded;

fn decode<'a>(wire: &LangGraph, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let (mut decoder, mut items) = (wire.decoder(), Vec::new());
    for chunk in chunks {
        decoder.feed(chunk);
        items.extend(decoder.by_ref());
    }
    let finish = decoder.finish();
    items.extend(decoder);
    let error = items.iter().find_map(|item| item.as_ref().err().copied());
    let frames = items.into_iter().flatten().collect();
    Decoded {
        frames,
        error,
        finish,
    }
}

/// Any bytes, any split: no panic, the same outcome, at most one end, and no empty text.
///
/// The first byte is the size of the chunks, the rest is the stream.
pub fn langgraph_decode(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else {
        return;
    };
    let narrow = Limits::default().max_line_bytes(64).max_trailer_bytes(96);
    for limits in [Limits::default(), narrow] {
        for wire in [
            LangGraph::new("").limits(limits),
            LangGraph::new("").limits(limits).answer_nodes(["generate"]),
        ] {
            let whole = decode(&wire, [stream]);
            let pieces = decode(&wire, stream.chunks(usize::from(*size).max(1)));
            assert_eq!(pieces, whole);
            let ended = matches!(whole.frames.last(), Some(Frame::End(_)));
            assert_eq!(whole.finish == Finish::Complete, ended && whole.error.is_none());
            let ends = whole.frames.iter().filter(|frame| matches!(frame, Frame::End(_)));
            assert_eq!(ends.count(), usize::from(ended), "the end is the last frame only");
            let is_empty = |frame: &Frame| matches!(frame, Frame::Text(text) if text.is_empty());
            assert!(!whole.frames.iter().any(is_empty));
        }
    }
}
