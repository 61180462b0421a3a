//! Properties of the lossless wires: server-sent events and JSON lines.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::wire::{Decode, Finish, Limits, Wire};
use ragwire::{Frame, Ndjson, Sse, Timestamp, Timing};

use super::streams::{Decoded, check_lines, cut, cuts, decode_with, encode, expected_lossless, stream_like};
use crate::generated::{turn, turn_with_snapshots};

type Lossless = (Box<dyn Wire>, fn(Limits) -> Box<dyn Decode>);

fn lossless() -> [Lossless; 2] {
    [
        (Box::new(Sse::default()), |limits| {
            Box::new(Sse::default().limits(limits).decoder())
        }),
        (Box::new(Ndjson::default()), |limits| {
            Box::new(Ndjson::default().limits(limits).decoder())
        }),
    ]
}

proptest! {
    // 256 cases each; set PROPTEST_CASES for more.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The lossless wires return every frame as it was sent, snapshots too, in lines that no value
    /// can forge, however they are cut.
    #[test]
    fn lossless_round_trip(mut frames in turn_with_snapshots(), moment in prop::option::of((any::<i64>(), any::<u64>())), at in cuts()) {
        if let Some(Frame::End(end)) = frames.last_mut() {
            end.timing = moment.map(|(micros, elapsed_ms)| Timing { timestamp: Timestamp::from_micros(micros), elapsed_ms });
        }
        let expected = Decoded { frames: expected_lossless(&frames), error: None, finish: Finish::Complete };
        for (wire, decoder) in lossless() {
            let bytes = encode(&*wire, &frames);
            for line in bytes.split(|byte| *byte == b'\n') {
                check_lines(line);
            }
            let new = || decoder(Limits::default());
            prop_assert_eq!(&decode_with(new(), [&bytes[..]]), &expected);
            prop_assert_eq!(&decode_with(new(), bytes.chunks(1)), &expected);
            prop_assert_eq!(&decode_with(new(), cut(&bytes, &at)), &expected);
            let short = decode_with(new(), [&bytes[..bytes.len() - 1]]);
            prop_assert_ne!(short.finish, Finish::Complete);
            prop_assert_eq!(short.error, None);
        }
    }

    /// No bytes make the decoders panic, and no split changes their result.
    #[test]
    fn lossless_any_bytes_any_split(bytes in prop_oneof![stream_like(), vec(any::<u8>(), 0..64)], at in cuts()) {
        for (_, decoder) in lossless() {
            let new = || decoder(Limits::default().max_line_bytes(24).max_trailer_bytes(40));
            let whole = decode_with(new(), [&bytes[..]]);
            prop_assert_eq!(&decode_with(new(), bytes.chunks(1)), &whole);
            prop_assert_eq!(&decode_with(new(), cut(&bytes, &at)), &whole);
            if whole.error.is_none() {
                prop_assert_eq!(whole.finish == Finish::Complete, matches!(whole.frames.last(), Some(Frame::End(_))));
            }
        }
    }

    /// The decoders accept everything that the encoders write under the same limits, including the
    /// end.
    #[test]
    fn lossless_encoders_keep_the_limits(frames in turn(), line in 40..400_usize, trailer in 120..400_usize) {
        let limits = Limits::default().max_line_bytes(line).max_trailer_bytes(trailer);
        let wires: [Box<dyn Wire>; 2] =
            [Box::new(Sse::default().limits(limits)), Box::new(Ndjson::default().limits(limits))];
        for (wire, (_, decoder)) in wires.iter().zip(lossless()) {
            let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
            let mut sent = 0;
            for frame in &frames {
                match encoder.encode(frame, &mut out) {
                    Ok(()) => sent += usize::from(matches!(frame, Frame::Event { .. })),
                    Err(error) => prop_assert_eq!(error.code(), "event_too_large"),
                }
            }
            prop_assert!(out[..].split(|byte| *byte == b'\n').all(|part| part.len() <= line.max(trailer)));
            let decoded = decode_with(decoder(limits), [&out[..]]);
            prop_assert_eq!((decoded.error, decoded.finish), (None, Finish::Complete));
            let events = decoded.frames.iter().filter(|frame| matches!(frame, Frame::Event { .. })).count();
            prop_assert_eq!(events, sent);
            let text = |frames: &[Frame]| frames.iter().map(|frame| match frame { Frame::Text(text) => &**text, _ => "" }).collect::<String>();
            prop_assert_eq!(text(&decoded.frames), text(&frames));
        }
    }
}
