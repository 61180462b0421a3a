//! Letters that a PDF reader takes for others, because old fonts of TeX do not name them.

/// The codes of ligatures, quotation marks and dashes in TeX's fonts, as the reader shows them: control characters,
/// and accents that PDF has at these places.
const GLYPHS: [(char, &str); 17] = [
    ('\u{b}', "ff"),
    ('\u{c}', "fi"),
    ('\u{d}', "fl"),
    ('\u{e}', "ffi"),
    ('\u{f}', "ffl"),
    ('\u{10}', "“"),
    ('\u{11}', "”"),
    ('\u{15}', "–"),
    ('\u{16}', "—"),
    ('\u{1b}', "ff"),
    ('\u{1c}', "fi"),
    ('\u{1d}', "fl"),
    ('˙', "ff"),
    ('˝', "fi"),
    ('˛', "fl"),
    ('˚', "ffi"),
    ('˜', "ffl"),
];
/// Letters that an accent of these belongs to, where it is one: `Erd˝os`, `˚Angström`, `Jo˜ao`.
const ACCENTED: [(char, &str); 4] = [('˙', "zZI"), ('˝', "oOuU"), ('˚', "aAuU"), ('˜', "nNaAoO")];

/// Returns the text of a line with its ligatures.
pub(super) fn with_ligatures(text: &str) -> String {
    if !text.contains(|letter| GLYPHS.iter().any(|(glyph, _)| *glyph == letter)) {
        return text.to_owned();
    }
    let mut spelled = String::with_capacity(text.len() + 8);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let meant = GLYPHS.iter().find(|(glyph, _)| *glyph == letter);
        let next = letters.peek().copied().unwrap_or(' ');
        let is_accent = || {
            let of = ACCENTED.iter().find(|(accent, _)| *accent == letter);
            of.is_some_and(|(_, accented)| accented.contains(next))
        };
        let follows = spelled.ends_with(char::is_alphabetic);
        // No word begins with the others.
        let may_begin = |meant: &str| matches!(meant, "fi" | "fl") && next.is_alphabetic();
        match meant {
            Some((_, meant)) if letter.is_control() || ((follows || may_begin(meant)) && !is_accent()) => {
                spelled.push_str(meant);
            }
            Some(_) | None => spelled.push(letter),
        }
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ligatures_are_told_from_accents() {
        let cases = [
            (
                "The surv˝t function has no e˙ect and di˙ers",
                "The survfit function has no effect and differs",
            ),
            (
                "˝rst re˛ect, then e˚cient co˚n in an o˚ce",
                "first reflect, then efficient coffin in an office",
            ),
            ("ba˜ed", "baffled"),
            (
                "a \u{1c}rst o\u{b}er of 100\u{15}110, \u{10}so\u{11}",
                "a first offer of 100–110, “so”",
            ),
            ("Erd˝os, ˚Angström and Jo˜ao", "Erd˝os, ˚Angström and Jo˜ao"),
            ("x ˜ y, ˙ and plain text", "x ˜ y, ˙ and plain text"),
            ("= ˜d(y) and ˙x", "= ˜d(y) and ˙x"),
        ];
        for (text, wanted) in cases {
            assert_eq!(with_ligatures(text), wanted);
        }
    }
}
