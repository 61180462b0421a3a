//! Properties of the framed wire.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::wire::{Decode, DecodeError, Finish, Limits, Wire};
use ragwire::{End, Frame, Framed, Phase};
use serde_json::Value;

use super::streams::{
    Decoded, check_lines, cut, cuts, decode, encode, expected, stream_like, whole_characters,
};
use crate::generated::{string, turn};

/// Checks the grammar of [F-01] by hand: JSON lines, 0x1D, text without separators, 0x1E, one JSON
/// object. Returns the JSON parts.
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
            panic!("{} is not an object", part.escape_ascii());
        };
        assert!(
            !members.values().any(Value::is_null),
            "absent members are left out"
        );
    }
    parts
}

proptest! {
    // 256 cases each; set PROPTEST_CASES for more.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The grammar holds, and no value can forge a separator or a line end.
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

    /// The bytes do not depend on how the text was cut into pieces.
    #[test]
    fn pieces_do_not_change_the_bytes(text in string(), at in cuts()) {
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

    /// Decoding returns what was encoded, however the bytes are cut.
    #[test]
    fn round_trip(frames in turn(), at in cuts()) {
        let wire = Framed::default().citation_extras();
        let bytes = encode(&wire, &frames);
        let expected = Decoded { frames: expected(&frames), error: None, finish: Finish::Complete };
        prop_assert_eq!(&decode(&wire, [&bytes[..]]), &expected);
        prop_assert_eq!(&decode(&wire, bytes.chunks(1)), &expected);
        prop_assert_eq!(&decode(&wire, cut(&bytes, &at)), &expected);
    }

    /// No bytes make the decoder panic, and no split changes its result.
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

    /// Text comes out in whole characters, at most three bytes late, and as a browser would decode
    /// it.
    #[test]
    fn text_is_returned_at_once(text in prop_oneof![vec(any::<u8>(), 0..64), string().prop_map(String::into_bytes)]) {
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
            // A lossy reader of all but the last three bytes shows no more than this decoder.
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

    /// A stream that is cut short is reported as truncated, and the frames before the cut begin the
    /// whole stream.
    #[test]
    fn truncation_is_visible(frames in turn(), at in any::<prop::sample::Index>()) {
        let wire = Framed::default().citation_extras();
        let bytes = encode(&wire, &frames);
        let cut = decode(&wire, [&bytes[..at.index(bytes.len())]]);
        prop_assert_eq!(cut.error, None);
        prop_assert_ne!(cut.finish, Finish::Complete);
        for (shown, whole) in cut.frames.iter().zip(expected(&frames)) {
            match (shown, whole) {
                (Frame::Text(shown), Frame::Text(whole)) => {
                    prop_assert!(whole.starts_with(whole_characters(shown)));
                }
                (shown, whole) => prop_assert_eq!(shown, &whole),
            }
        }
    }

    /// The decoder fails with the first byte over the limit, permanently.
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

    /// A frame that is too long is a typed error or is shortened; no line or trailer is over its
    /// limit.
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
        let status = frames.last().map(|frame| match frame { Frame::End(end) => end.status.as_str(), _ => "" });
        prop_assert_eq!(Some(end.status.as_str()), status);
        // Every event arrived, or the trailer reports that some are missing.
        let arrived = decoded.frames.iter().filter(|frame| matches!(frame, Frame::Event { .. })).count() as u64;
        prop_assert!(arrived == sent || end.metadata.truncated || end.metadata.events_dropped > 0, "{refused} refused");
    }

    /// Bytes after the end are an error, never a second answer.
    #[test]
    fn trailing_bytes(frames in turn(), more in vec(any::<u8>(), 1..8), again in any::<bool>()) {
        let wire = Framed::default().citation_extras();
        let mut bytes = encode(&wire, &frames);
        let more = if again { bytes.clone() } else { more };
        bytes.extend(more);
        let decoded = decode(&wire, [&bytes[..]]);
        prop_assert_eq!(decoded.error, Some(DecodeError::TrailingBytes));
        prop_assert_eq!(decoded.frames, expected(&frames));
}
}
