//! The decoder of plain text.

use ragwire::wire::plain::PlainDecoder;
use ragwire::wire::{Decode, Finish};
use ragwire::{End, Frame};

/// Any bytes, any split: the text is the bytes as UTF-8, with U+FFFD for what is not, and the body is
/// complete. The first byte is the size of the chunks, the rest is the body.
pub fn plain_decode(data: &[u8]) {
    let Some((size, body)) = data.split_first() else {
        return;
    };
    let (mut decoder, mut text) = (PlainDecoder::default(), String::new());
    let mut take = |decoder: &mut PlainDecoder| {
        let mut ends = 0;
        for frame in decoder {
            match frame.expect("no body of plain text is an error") {
                Frame::Text(piece) => {
                    assert!(ends == 0 && !piece.is_empty());
                    text.push_str(&piece);
                }
                Frame::End(end) => {
                    assert_eq!(end, End::default());
                    ends += 1;
                }
                frame => panic!("plain text has no {frame:?}"),
            }
        }
        ends
    };
    for chunk in body.chunks(usize::from(*size).max(1)) {
        decoder.feed(chunk);
        assert_eq!(take(&mut decoder), 0);
    }
    assert_eq!(decoder.finish(), Finish::Complete);
    assert_eq!(take(&mut decoder), 1);
    assert_eq!(text, String::from_utf8_lossy(body));
}
