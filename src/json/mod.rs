//! JSON as every wire writes it: compact, and without any character that a line reader may take for
//! a line end.

#[cfg(feature = "turn")]
mod estimate;

use std::io;

use bytes::BytesMut;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::ser::Serializer;

#[cfg(feature = "turn")]
pub(crate) use estimate::estimate;

/// The characters that are escaped in addition to what JSON requires, and their escapes: U+007F,
/// U+0085, U+2028 and U+2029. Python's `splitlines` and similar functions split at some of them, and
/// serde_json does not escape them.
const ESCAPES: [Escape; 4] = [
    Escape("\x7f", "\\u007f"),
    Escape("\u{85}", "\\u0085"),
    Escape("\u{2028}", "\\u2028"),
    Escape("\u{2029}", "\\u2029"),
];

/// A character and how JSON escapes it.
#[derive(Clone, Copy, Debug)]
struct Escape(&'static str, &'static str);

/// Reads an optional member that is not `null` if it is there, for `default, deserialize_with`.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    member: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(member).map(Some)
}

/// Appends `value` to `out`. After an error `out` may contain a part of it.
pub(crate) fn write(out: &mut BytesMut, value: &impl Serialize) -> serde_json::Result<()> {
    let from = out.len();
    value.serialize(&mut Serializer::new(Appender(out)))?;
    escape(out, from);
    Ok(())
}

/// A buffer as a writer. `BytesMut::writer` checks for room and clears memory with each comma.
struct Appender<'a>(&'a mut BytesMut);

impl io::Write for Appender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Replaces the characters of [`ESCAPES`] from `from` on. In JSON they are only in strings, so one
/// search over the finished value does for all of its keys and strings.
fn escape(out: &mut BytesMut, from: usize) {
    let Some((first, _)) = find(&out[from..]) else {
        return;
    };
    let tail = out[from + first..].to_vec();
    out.truncate(from + first);
    let mut rest = tail.as_slice();
    while let Some((at, Escape(raw, escaped))) = find(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(escaped.as_bytes());
        rest = &rest[at + raw.len()..];
    }
    out.extend_from_slice(rest);
}

/// Finds the first character of [`ESCAPES`] and its position.
fn find(bytes: &[u8]) -> Option<(usize, Escape)> {
    // 0xC2 and 0xE2 also begin other characters.
    memchr::memchr3_iter(0x7f, 0xc2, 0xe2, bytes).find_map(|at| {
        let is_here = |Escape(raw, _): &&Escape| bytes[at..].starts_with(raw.as_bytes());
        ESCAPES.iter().find(is_here).map(|escape| (at, *escape))
    })
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
}
