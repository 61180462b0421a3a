//! Decodes bytes into text.
//!
//! The encoding is chosen in this order: a byte order mark decides; valid UTF-8 is UTF-8; text with
//! NULs at every second byte is UTF-16; UTF-8 with a few broken bytes is read with U+FFFD in their
//! places; everything else is Windows-1252, which contains Latin-1.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use super::ParseError;

/// How many bytes of a file are examined to distinguish text from binary data.
const SAMPLE_BYTES: usize = 8 * 1024;
/// Fewer control characters than this are considered an accident, however short the file.
const MIN_ODD_BYTES: usize = 8;
/// Fewer of them are an accident in a file that is not UTF-8. Letters of old encodings are not
/// control characters, so one in thirty is data: random bytes have one in nine.
const MIN_ODD_BYTES_OUTSIDE_UTF8: usize = 3;
const MAX_ODD_SHARE_OUTSIDE_UTF8: usize = 30;
/// The first bytes of images, sounds and films. Short ones may have few control characters.
const MEDIA: [&[u8]; 8] = [
    b"\xff\xd8\xff",
    b"\x89PNG",
    b"GIF87a",
    b"GIF89a",
    b"II*\0",
    b"MM\0*",
    b"OggS",
    b"ID3\x03",
];
/// How far into an HTML page its encoding may be declared, in bytes (the HTML standard's number).
const META_WITHIN_BYTES: usize = 1024;

/// A listing that is written line by line becomes a block at about this size, in bytes.
pub(super) const LISTING_BYTES: usize = 4_000;

/// Returns whether the bytes are not text in any supported encoding.
pub(super) fn looks_binary(bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    if Encoding::for_bom(sample).is_some() || utf16_without_mark(sample).is_some() {
        return false;
    }
    // Zip files (those of office programs too) and gzip files sometimes pass the count below.
    if sample.starts_with(b"PK\x03\x04") || sample.starts_with(b"\x1f\x8b") {
        return true;
    }
    let odd = sample
        .iter()
        .filter(|byte| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x7f))
        .count();
    if MEDIA.iter().any(|start| sample.starts_with(start)) {
        return true;
    }
    // A stray NUL does not make a log file binary; one control character in ten does.
    if odd >= MIN_ODD_BYTES && odd * 10 > sample.len() {
        return true;
    }
    // The sample may end within a character.
    let is_utf8 = std::str::from_utf8(sample).map_or_else(|error| error.error_len().is_none(), |_| true);
    !is_utf8 && odd >= MIN_ODD_BYTES_OUTSIDE_UTF8 && odd * MAX_ODD_SHARE_OUTSIDE_UTF8 > sample.len()
}

/// Decodes a file that does not declare its encoding.
pub(super) fn decode(bytes: &[u8]) -> Result<String, ParseError> {
    decode_as(bytes, None)
}

/// Decodes an HTML page, which may declare its encoding in a `<meta>` element.
pub(super) fn decode_html(bytes: &[u8]) -> Result<String, ParseError> {
    let head = bytes[..bytes.len().min(META_WITHIN_BYTES)].to_ascii_lowercase();
    let label = head
        .windows(8)
        .position(|window| window == b"charset=")
        .map(|at| {
            let value = head[at + 8..].trim_ascii_start();
            let value = value
                .strip_prefix(b"\"")
                .or_else(|| value.strip_prefix(b"'"))
                .unwrap_or(value);
            let end = value
                .iter()
                .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-' && *byte != b'_');
            &value[..end.unwrap_or(value.len())]
        });
    // A page whose `<meta>` is readable as ASCII is not UTF-16, even if it declares that.
    let named = label
        .and_then(Encoding::for_label)
        .filter(|encoding| *encoding != UTF_16LE && *encoding != UTF_16BE);
    decode_as(bytes, named)
}

fn decode_as(bytes: &[u8], named: Option<&'static Encoding>) -> Result<String, ParseError> {
    if let Some((encoding, mark_bytes)) = Encoding::for_bom(bytes) {
        return Ok(encoding
            .decode_without_bom_handling(&bytes[mark_bytes..])
            .0
            .into_owned());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(text.to_owned());
    }
    if looks_binary(bytes) {
        return Err(ParseError::UnsupportedType);
    }
    if let Some(encoding) = utf16_without_mark(&bytes[..bytes.len().min(SAMPLE_BYTES)]).or(named) {
        return Ok(encoding.decode_without_bom_handling(bytes).0.into_owned());
    }
    let lossy = UTF_8.decode_without_bom_handling(bytes).0;
    let (mut broken, mut whole) = (0usize, 0usize);
    for c in lossy.chars().filter(|c| !c.is_ascii()) {
        if c == char::REPLACEMENT_CHARACTER {
            broken += 1
        } else {
            whole += 1
        }
    }
    if whole > broken {
        return Ok(lossy.into_owned());
    }
    Ok(WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned())
}

/// ASCII in UTF-16 has a NUL at every second byte, always on the same side.
fn utf16_without_mark(sample: &[u8]) -> Option<&'static Encoding> {
    let nulls = |skip: usize| {
        sample
            .iter()
            .skip(skip)
            .step_by(2)
            .filter(|byte| **byte == 0)
            .count()
    };
    let (first, second, half) = (nulls(0), nulls(1), sample.len() / 2);
    if half < 2 {
        None
    } else if second * 10 > half * 7 && first * 10 < half {
        Some(UTF_16LE)
    } else if first * 10 > half * 7 && second * 10 < half {
        Some(UTF_16BE)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::parse::ParseLimits;

    #[test]
    fn every_encoding_decodes_to_the_same_text() {
        let utf16 = |mark: &[u8], to_bytes: fn(u16) -> [u8; 2]| {
            let units = "Grüße, plain text here.".encode_utf16().flat_map(to_bytes);
            mark.iter().copied().chain(units).collect::<Vec<u8>>()
        };
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("utf-8", "Grüße, plain text here.".into()),
            ("utf-8 with mark", "\u{feff}Grüße, plain text here.".into()),
            ("utf-16 le with mark", utf16(b"\xff\xfe", u16::to_le_bytes)),
            ("utf-16 be with mark", utf16(b"\xfe\xff", u16::to_be_bytes)),
            ("utf-16 le", utf16(b"", u16::to_le_bytes)),
            ("utf-16 be", utf16(b"", u16::to_be_bytes)),
            ("latin-1", b"Gr\xfc\xdfe, plain text here.".to_vec()),
        ];
        for (encoding, bytes) in cases {
            let parsed = crate::parse("a.txt", &bytes, &ParseLimits::default()).unwrap();
            assert_eq!(parsed.blocks[0].text, "Grüße, plain text here.", "{encoding}");
        }
    }

    #[test]
    fn data_is_no_text_whatever_its_name() {
        // Random bytes (a linear congruential generator), as in a compressed image.
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for length in [200, 400, 1_000, 20_000] {
            let data: Vec<u8> = (0..length).map(|_| random()).collect();
            for name in ["photo.jpg", "a.txt", "a.md", "a.csv", "a"] {
                let error = crate::parse(name, &data, &ParseLimits::default()).unwrap_err();
                assert_eq!(error.code(), "unsupported_type", "{name}, {length} bytes");
            }
        }
        for start in MEDIA {
            let data = [start, b" and plain words, as in a comment"].concat();
            let error = crate::parse("a.txt", &data, &ParseLimits::default()).unwrap_err();
            assert_eq!(error.code(), "unsupported_type", "{start:?}");
        }
        // Old text with a stray control character, and UTF-8 that the sample cuts within a character.
        let old = b"Gr\xfc\xdfe\x01, \x02plain text here.";
        let long = "x".repeat(SAMPLE_BYTES - 1) + "\u{e9}\u{1}\u{2}\u{3}";
        for text in [&old[..], long.as_bytes()] {
            crate::parse("a.txt", text, &ParseLimits::default()).unwrap();
        }
    }

    #[test]
    fn one_broken_byte_does_not_change_the_rest() {
        assert_eq!(
            decode("Grüße, schöne Grüße \u{fffd}".as_bytes()).unwrap(),
            "Grüße, schöne Grüße \u{fffd}"
        );
        assert_eq!(decode(b"Gr\xc3\xbc\xc3\x9fe \xff!").unwrap(), "Grüße \u{fffd}!");
    }

    #[test]
    fn html_may_declare_its_encoding() {
        let page = b"<meta charset=\"iso-8859-2\"><p>\xb1\xe6";
        assert!(decode_html(page).unwrap().ends_with("ąć"));
    }
}
