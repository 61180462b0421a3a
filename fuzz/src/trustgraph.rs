//! The decoder of TrustGraph's messages, which reads those of any version.

use ragwire::Frame;
use ragwire::wire::trustgraph::TrustGraphDecoder;
use ragwire::wire::{Decode, Finish};

use crate::Decoded;

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let (mut decoder, mut items) = (TrustGraphDecoder::default(), Vec::new());
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

/// Any bytes, any split: no panic, the same outcome, and at most one end.
///
/// The first byte is the size of the chunks, the rest is the stream.
pub fn trustgraph_decode(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else {
        return;
    };
    let whole = decode([stream]);
    assert_eq!(decode(stream.chunks(usize::from(*size).max(1))), whole);
    let ended = matches!(whole.frames.last(), Some(Frame::End(_)));
    assert_eq!(whole.finish == Finish::Complete, ended && whole.error.is_none());
    let ends = whole.frames.iter().filter(|frame| matches!(frame, Frame::End(_)));
    assert_eq!(ends.count(), usize::from(ended), "the end is the last frame only");
}
