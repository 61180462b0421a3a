//! JSON as every wire writes it: compact, and without any character that a line reader may take for
//! a line end.

#[cfg(feature = "turn")]
mod estimate;
mod serializer;
mod text;

use bytes::BytesMut;
use serde::{Deserialize, Deserializer, Serialize};

#[cfg(feature = "turn")]
pub(crate) use estimate::estimate;
use serializer::Serializer;
use text::Written;

/// Reads an optional member that is not `null` if it is there, for `default, deserialize_with`.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    member: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(member).map(Some)
}

/// Appends `value` to `out`. After an error `out` may contain a part of it.
pub(crate) fn write(out: &mut BytesMut, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(Serializer(&mut Written(out)))
}

/// Returns how many bytes [`write`] would append.
#[cfg(feature = "turn")]
pub(crate) fn length(value: &impl Serialize) -> serde_json::Result<usize> {
    let mut out = BytesMut::new();
    write(&mut out, value)?;
    Ok(out.len())
}

/// Returns how many bytes [`write`] would append, up to escapes and floating-point numbers, or
/// `None` if there would be more than `max_bytes`, which is exact. Much cheaper than [`length`].
#[cfg(feature = "turn")]
pub(crate) fn length_within(value: &impl Serialize, max_bytes: usize) -> serde_json::Result<Option<usize>> {
    let estimate = estimate(value);
    let fits = estimate.saturating_mul(estimate::MAX_GROWTH) <= max_bytes || length(value)? <= max_bytes;
    Ok(fits.then_some(estimate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_reader_finds_a_line_end() {
        for (text, bytes) in [
            ("plain", &br#""plain""#[..]),
            (
                "a\u{7f}b\u{85}c\u{2028}d\u{2029}e",
                br#""a\u007fb\u0085c\u2028d\u2029e""#,
            ),
            ("\u{2028}", br#""\u2028""#),
            ("\u{2028}\u{2028}x\u{7f}", br#""\u2028\u2028x\u007f""#),
            (
                "\u{e9}\u{20ac}\u{1f600}\u{2027}",
                "\"\u{e9}\u{20ac}\u{1f600}\u{2027}\"".as_bytes(),
            ),
            ("\u{1d}\u{1e}\n\"\\\u{b}", br#""\u001d\u001e\n\"\\\u000b""#),
        ] {
            let mut out = BytesMut::new();
            write(&mut out, &text).unwrap();
            assert_eq!(out, bytes, "{text:?}");
            #[cfg(feature = "turn")]
            {
                assert_eq!(length(&text).unwrap(), bytes.len());
                assert!(length_within(&text, bytes.len()).unwrap().is_some());
                assert_eq!(length_within(&text, bytes.len() - 1).unwrap(), None);
            }
        }
    }

    #[test]
    fn keys_are_escaped_like_strings_and_only_what_was_appended() {
        let mut out = BytesMut::from("\u{2028}".as_bytes());
        write(&mut out, &serde_json::json!({"a\u{2028}b": ["\u{85}", 1]})).unwrap();
        assert_eq!(
            out,
            ["\u{2028}", r#"{"a\u2028b":["\u0085",1]}"#].concat().as_bytes()
        );
    }

    #[test]
    fn a_value_in_a_named_tuple_is_written_as_itself() {
        #[derive(Serialize)]
        struct Named(u8);
        let mut out = BytesMut::new();
        write(&mut out, &[Named(7), Named(8)]).unwrap();
        assert_eq!(out, "[7,8]");
    }
}
