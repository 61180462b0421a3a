//! JSON as every wire writes it: compact, and without any character that a line reader may take for
//! a line end.

use std::io;

use bytes::{BufMut, BytesMut};
use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

/// Escapes U+007F, U+0085, U+2028 and U+2029 in addition to what JSON requires. Python's
/// `splitlines` and similar functions split at some of them, and serde_json does not escape them.
#[derive(Clone, Copy, Debug)]
struct LineSafe;

/// The characters above and how JSON escapes them.
const ESCAPES: [(&[u8], &[u8]); 4] = [
    (b"\x7f", b"\\u007f"),
    ("\u{85}".as_bytes(), b"\\u0085"),
    ("\u{2028}".as_bytes(), b"\\u2028"),
    ("\u{2029}".as_bytes(), b"\\u2029"),
];

impl Formatter for LineSafe {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment.as_bytes();
        let mut from = 0;
        // One scan for the first bytes of all four. 0xC2 and 0xE2 also begin other characters,
        // which are skipped.
        while let Some(at) = memchr::memchr3(0x7f, 0xc2, 0xe2, &rest[from..]).map(|at| from + at) {
            match ESCAPES.iter().find(|(raw, _)| rest[at..].starts_with(raw)) {
                Some((raw, escaped)) => {
                    writer.write_all(&rest[..at])?;
                    writer.write_all(escaped)?;
                    rest = &rest[at + raw.len()..];
                    from = 0;
                }
                None => from = at + 1,
            }
        }
        writer.write_all(rest)
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(writer, escape)
    }
}

/// Appends `value` to `out`. After an error `out` may contain a part of it.
pub(crate) fn write(out: &mut BytesMut, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out.writer(), LineSafe))
}

/// Returns how many bytes [`write`] would append.
#[cfg(feature = "turn")]
pub(crate) fn length(value: &impl Serialize) -> serde_json::Result<usize> {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    value.serialize(&mut Serializer::with_formatter(&mut count, LineSafe))?;
    Ok(count.0)
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
            assert_eq!(length(&text).unwrap(), bytes.len());
        }
    }
}
