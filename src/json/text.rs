//! JSON in a buffer: strings are searched in blocks for what has to be escaped.

use std::fmt;
use std::io;

use bytes::BytesMut;
use serde::ser::Error as _;

use super::serializer::{Number, Output};

/// How many bytes are compared at once. The compiler makes vector instructions of it.
const BLOCK: usize = 16;

/// The bytes that begin a character that may have to be escaped: controls, `"`, `\`, U+007F, and the
/// first bytes of U+0085, U+2028 and U+2029. Python's `splitlines` and similar functions split at some
/// of these, and JSON does not require to escape them.
///
/// `|` instead of `||`: a loop with branches gets no vector instructions.
const fn is_suspect(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\') | (byte == 0x7f) | (byte == 0xc2) | (byte == 0xe2)
}

/// [`is_suspect`] of each byte.
const SUSPECT: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_suspect(byte as u8);
        byte += 1;
    }
    table
};

#[inline]
fn has_suspect(block: [u8; BLOCK]) -> bool {
    block.iter().fold(false, |any, byte| any | is_suspect(*byte))
}

/// Returns whether no byte needs a second look. The last block overlaps the one before it.
fn is_plain(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk() {
        let (blocks, _) = bytes.as_chunks();
        return !(has_suspect(*last) || blocks.iter().any(|block| has_suspect(*block)));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(first);
        block[8..].copy_from_slice(last);
        return !has_suspect(block);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let mut block = [b' '; BLOCK];
        block[..4].copy_from_slice(first);
        block[4..8].copy_from_slice(last);
        return !has_suspect(block);
    }
    !bytes.iter().any(|byte| SUSPECT[usize::from(*byte)])
}

/// Returns how many bytes at the beginning need no second look.
fn plain(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks();
    let at = blocks.iter().take_while(|block| !has_suspect(**block)).count() * BLOCK;
    let rest = &bytes[at..];
    at + rest
        .iter()
        .position(|byte| SUSPECT[usize::from(*byte)])
        .unwrap_or(rest.len())
}

/// Returns how the first character is escaped, and how many bytes it has; `None` if it is not.
fn escape(bytes: &[u8]) -> Option<(&'static str, usize)> {
    const CONTROLS: [&str; 0x20] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b", "\\t",
        "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013",
        "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c",
        "\\u001d", "\\u001e", "\\u001f",
    ];
    match *bytes {
        [control @ ..0x20, ..] => Some((CONTROLS[usize::from(control)], 1)),
        [b'"', ..] => Some(("\\\"", 1)),
        [b'\\', ..] => Some(("\\\\", 1)),
        [0x7f, ..] => Some(("\\u007f", 1)),
        [0xc2, 0x85, ..] => Some(("\\u0085", 2)),
        [0xe2, 0x80, 0xa8, ..] => Some(("\\u2028", 3)),
        [0xe2, 0x80, 0xa9, ..] => Some(("\\u2029", 3)),
        _ => None,
    }
}

/// A buffer to which JSON is appended.
pub(super) struct Written<'a>(pub(super) &'a mut BytesMut);

impl fmt::Write for Written<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.fragment(text);
        Ok(())
    }
}

impl Output for Written<'_> {
    fn raw(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn fragment(&mut self, text: &str) {
        if is_plain(text.as_bytes()) {
            return self.raw(text);
        }
        let (mut rest, mut at) = (text.as_bytes(), 0);
        loop {
            at += plain(&rest[at..]);
            if at == rest.len() {
                return self.0.extend_from_slice(rest);
            }
            match escape(&rest[at..]) {
                Some((escaped, length)) => {
                    self.0.extend_from_slice(&rest[..at]);
                    self.0.extend_from_slice(escaped.as_bytes());
                    rest = &rest[at + length..];
                    at = 0;
                }
                // Another character with the same first byte.
                None => at += 1,
            }
        }
    }

    fn name(&mut self, name: &'static str) {
        debug_assert!(is_plain(name.as_bytes()), "{name:?} has to be escaped");
        self.raw("\"");
        self.raw(name);
        self.raw("\"");
    }

    fn number(&mut self, number: Number) -> serde_json::Result<()> {
        let out = Appender(self.0);
        match number {
            Number::Unsigned(value) => serde_json::to_writer(out, &value),
            Number::Signed(value) => serde_json::to_writer(out, &value),
            Number::WideUnsigned(value) => serde_json::to_writer(out, &value),
            Number::WideSigned(value) => serde_json::to_writer(out, &value),
            Number::Single(value) => serde_json::to_writer(out, &value),
            Number::Double(value) => serde_json::to_writer(out, &value),
        }
    }

    fn position(&self) -> usize {
        self.0.len()
    }

    fn quote(&mut self, from: usize) -> serde_json::Result<()> {
        match self.0.get(from) {
            Some(b'"') => {}
            Some(b'0'..=b'9' | b'-' | b't' | b'f') => {
                let name = self.0.split_off(from);
                self.raw("\"");
                self.0.extend_from_slice(&name);
                self.raw("\"");
            }
            _ => return Err(serde_json::Error::custom("the name of a member is not a string")),
        }
        Ok(())
    }

    fn unquote(&mut self, from: usize) {
        let end = self.0.len() - 1;
        self.0.copy_within(from + 1..end, from);
        self.0.truncate(end - 1);
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::ser::SerializeStruct;
    use serde::{Serialize, Serializer};
    use serde_json::{Value, json};

    use super::super::serializer::EXACT_NUMBER;
    use super::super::write;
    use super::*;

    fn written(value: &impl Serialize) -> String {
        let mut out = BytesMut::from("before");
        write(&mut out, value).unwrap();
        String::from_utf8(out.to_vec()).unwrap().split_off("before".len())
    }

    /// What serde_json writes, with the additional escapes. In JSON these characters are only in strings.
    fn expected(value: &impl Serialize) -> String {
        let mut text = serde_json::to_string(value).unwrap();
        for character in ['\u{7f}', '\u{85}', '\u{2028}', '\u{2029}'] {
            text = text.replace(character, &format!("\\u{:04x}", u32::from(character)));
        }
        text
    }

    /// Texts in which the escaped characters, their neighbours and long runs without them are frequent.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<char>().prop_map(String::from),
            (0_u32..0x100).prop_map(|code| char::from_u32(code).unwrap().to_string()),
            (0x2020_u32..0x2030).prop_map(|code| char::from_u32(code).unwrap().to_string()),
            "[a-zé€]{0,40}",
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((text(), inner), 0..8)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_has_the_bytes_of_serde_json(value in json()) {
            prop_assert_eq!(written(&value), expected(&value));
        }

        #[test]
        fn each_block_is_searched(text in text(), filler in 0_usize..40) {
            let text = format!("{}{text}", "x".repeat(filler));
            prop_assert_eq!(written(&text), expected(&text));
        }
    }

    #[test]
    fn every_shape_of_serde_has_the_bytes_of_serde_json() {
        #[derive(Serialize)]
        enum Shape {
            Unit,
            Newtype(i8),
            Tuple(u8, char),
            Struct { a: Option<u8>, b: &'static str },
        }
        #[derive(Serialize)]
        struct Unit;
        #[derive(Serialize)]
        struct Pair(f32, f64);
        for shape in [
            Shape::Unit,
            Shape::Newtype(-100),
            Shape::Tuple(200, '"'),
            Shape::Struct { a: None, b: "c\n" },
        ] {
            assert_eq!(written(&shape), expected(&shape));
            assert_eq!(written(&[Some(&shape), None]), expected(&[Some(&shape), None]));
        }
        let numbers = (
            u128::MAX,
            i128::MIN,
            Pair(0.1, 1e300),
            Pair(f32::NAN, f64::INFINITY),
        );
        assert_eq!(written(&numbers), expected(&numbers));
        let rest = (Unit, (), true, std::net::Ipv4Addr::LOCALHOST, [0_u8; 0]);
        assert_eq!(written(&rest), expected(&rest));
        struct Bytes;
        impl Serialize for Bytes {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(&[0, 255])
            }
        }
        assert_eq!(written(&Bytes), "[0,255]");
    }

    #[test]
    fn names_that_are_numbers_or_booleans_are_strings_and_others_are_refused() {
        let numbers = BTreeMap::from([(-1, "a"), (2, "b")]);
        assert_eq!(written(&numbers), r#"{"-1":"a","2":"b"}"#);
        let booleans = BTreeMap::from([(false, 0), (true, 1)]);
        assert_eq!(written(&booleans), r#"{"false":0,"true":1}"#);
        for refused in [
            write(&mut BytesMut::new(), &BTreeMap::from([([1], 0)])),
            write(&mut BytesMut::new(), &BTreeMap::from([(None::<u8>, 0)])),
        ] {
            assert_eq!(
                refused.unwrap_err().to_string(),
                "the name of a member is not a string"
            );
        }
    }

    #[test]
    fn a_number_of_any_precision_keeps_its_digits() {
        struct Exact(&'static str);
        impl Serialize for Exact {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut number = serializer.serialize_struct(EXACT_NUMBER, 1)?;
                number.serialize_field(EXACT_NUMBER, self.0)?;
                number.end()
            }
        }
        assert_eq!(written(&[Exact("1.10"), Exact("-2e400")]), "[1.10,-2e400]");
        assert_eq!(written(&json!({"n": 1})), r#"{"n":1}"#);
    }
}
