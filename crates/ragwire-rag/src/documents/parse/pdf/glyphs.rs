//! Letters that a PDF reader takes for others, because old fonts of TeX do not name them.

use unicode_normalization::char::compose;

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
/// Letters that an accent of these belongs to, instead of being a ligature: `Erd˝os`, `˚Angström`, `Jo˜ao`.
const ACCENTED: [(char, &str); 4] = [('˙', "zZI"), ('˝', "oOuU"), ('˚', "aAuU"), ('˜', "nNaAoO")];
/// Accents that old fonts show before their letter, with the mark that follows it in Unicode. The grave accent is left
/// out, because it is a quotation mark in code.
const ACCENTS: [(char, char); 8] = [
    ('´', '\u{301}'),
    ('ˆ', '\u{302}'),
    ('˜', '\u{303}'),
    ('˙', '\u{307}'),
    ('¨', '\u{308}'),
    ('˚', '\u{30a}'),
    ('˝', '\u{30b}'),
    ('ˇ', '\u{30c}'),
];

/// Returns the text of a line with its ligatures and accented letters.
pub(super) fn with_letters(text: &str) -> String {
    let is_glyph = |letter: char| GLYPHS.iter().any(|(glyph, _)| *glyph == letter);
    let is_accent = |letter: char| ACCENTS.iter().any(|(accent, _)| *accent == letter);
    if !text.contains(|letter| is_glyph(letter) || is_accent(letter)) {
        return text.to_owned();
    }
    let mut spelled = String::with_capacity(text.len() + 8);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied().unwrap_or(' ');
        let follows = spelled.ends_with(char::is_alphabetic);
        if let Some(meant) = ligature(letter, next, follows) {
            spelled.push_str(meant);
        } else if let Some(accented) = accented(letter, next) {
            spelled.push(accented);
            letters.next();
        } else {
            spelled.push(letter);
        }
    }
    spelled
}

/// Returns the letters that a glyph means before `next`, if it is a ligature there. `follows` says whether it is after a
/// letter.
fn ligature(glyph: char, next: char, follows: bool) -> Option<&'static str> {
    let (_, meant) = GLYPHS.iter().find(|(known, _)| *known == glyph)?;
    let accents = ACCENTED
        .iter()
        .any(|(accent, letters)| *accent == glyph && letters.contains(next));
    // No word begins with the others.
    let may_begin = matches!(*meant, "fi" | "fl") && next.is_alphabetic();
    (glyph.is_control() || ((follows || may_begin) && !accents)).then_some(*meant)
}

/// Returns the letter of an accent and the letter behind it, if there is such a letter.
fn accented(accent: char, letter: char) -> Option<char> {
    let (_, mark) = ACCENTS.iter().find(|(known, _)| *known == accent)?;
    compose(letter, *mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ligatures_and_accents_are_letters() {
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
            ("Erd˝os, ˚Angström and Jo˜ao", "Erdős, Ångström and João"),
            ("Br¨oker and Ren´e, ˆθ and ˆy", "Bröker and René, ˆθ and ŷ"),
            ("x ˜ y, ˙ and plain text", "x ˜ y, ˙ and plain text"),
            ("= ˜d(y) and ˙x", "= ˜d(y) and ẋ"),
        ];
        for (text, wanted) in cases {
            assert_eq!(with_letters(text), wanted);
        }
    }
}
