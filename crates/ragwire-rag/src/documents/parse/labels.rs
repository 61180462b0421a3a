//! What lines begin with that are items of a list, in text without markup and in PDFs.

/// The characters, besides those for private use and geometric shapes, that begin items.
const BULLETS: [char; 7] = ['•', '‣', '⁃', '∙', '·', '➢', '➤'];
/// Those that say something of the item, and stay.
const CHECKS: [char; 8] = ['□', '☐', '☑', '☒', '✓', '✔', '✗', '✘'];
/// Characters that begin items in lists and also occur in text. `o` is what Word and RFCs write.
const DASHES: [char; 6] = ['-', '–', '—', '*', '+', 'o'];
/// The highest number of an item has so many digits. Years have more.
const MAX_DIGITS: usize = 3;
/// The longest Roman number of an item in letters, such as `viii`.
const MAX_LETTERS: usize = 4;

/// What an item begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Bullet,
    Dash(char),
    Number(u64),
    Letter,
}

impl Label {
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Bullet | Self::Dash(_) | Self::Letter => None,
        }
    }

    /// Returns whether an item with this label is in the list of the one before.
    pub(super) fn follows(self, before: Self) -> bool {
        match (before, self) {
            (Self::Number(before), Self::Number(number)) => Some(number) == before.checked_add(1),
            (Self::Dash(before), Self::Dash(dash)) => before == dash,
            (Self::Bullet, Self::Bullet) | (Self::Letter, Self::Letter) => true,
            (Self::Bullet | Self::Dash(_) | Self::Number(_) | Self::Letter, _) => false,
        }
    }
}

/// An item that begins with a line.
#[derive(Debug)]
pub(super) struct Item<'a> {
    /// How many of the open lists end before it.
    pub(super) closes: usize,
    /// Whether it is the first one of a list.
    pub(super) opens: bool,
    pub(super) number: Option<u64>,
    pub(super) text: &'a str,
}

/// Returns what a line begins with, if it may be an item, and its text.
pub(super) fn label(line: &str) -> Option<(Label, &str)> {
    let line = line.trim();
    let first = line.chars().next()?;
    let rest = &line[first.len_utf8()..];
    let is_check = CHECKS.contains(&first);
    if is_check
        || BULLETS.contains(&first)
        || matches!(first, '\u{25a0}'..='\u{25ff}' | '\u{e000}'..='\u{f8ff}')
    {
        let text = rest.trim_start();
        // Marks in the columns of a table.
        let is_text = text.chars().any(char::is_alphabetic);
        return is_text.then_some((Label::Bullet, if is_check { line } else { text }));
    }
    let (mark, text) = line.split_once(char::is_whitespace)?;
    let text = text.trim_start();
    if DASHES.iter().any(|dash| mark.chars().eq([*dash])) {
        let is_text = text.chars().any(char::is_alphabetic);
        return is_text.then_some((Label::Dash(first), text));
    }
    let inner = mark
        .strip_suffix(".)")
        .or_else(|| mark.strip_suffix([')', '.']))?;
    let inner = inner.strip_prefix('(').unwrap_or(inner);
    let is_number =
        (1..=MAX_DIGITS).contains(&inner.len()) && inner.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && text.chars().any(char::is_alphabetic) {
        return Some((Label::Number(inner.parse().ok()?), text));
    }
    let is_letter = inner.len() == 1 && inner.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_roman =
        (1..=MAX_LETTERS).contains(&inner.len()) && inner.bytes().all(|byte| b"ivx".contains(&byte));
    // The letter stays, because other sentences refer to it.
    (is_letter || is_roman).then_some((Label::Letter, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_labels() {
        let bullet = |text| Some((Label::Bullet, text));
        let dash = |dash, text| Some((Label::Dash(dash), text));
        let cases = [
            ("• Robins", bullet("Robins")),
            ("\u{f0b7}\tRobins", bullet("Robins")),
            // What says something of the item stays.
            ("□ Robins", bullet("□ Robins")),
            ("✓ ✓ 16 7.1.1", None),
            ("- \"Robins\"", dash('-', "\"Robins\"")),
            ("* --robins", dash('*', "--robins")),
            ("- 5 robins", dash('-', "5 robins")),
            ("- 5", None),
            ("12) Robins", Some((Label::Number(12), "Robins"))),
            ("2.) Robins", Some((Label::Number(2), "Robins"))),
            ("(3) Robins", Some((Label::Number(3), "Robins"))),
            ("2017. Robins", None),
            ("1. 2", None),
            ("(iv) Robins", Some((Label::Letter, "(iv) Robins"))),
            ("e.g. Robins", None),
            ("Robins", None),
        ];
        for (line, expected) in cases {
            assert_eq!(label(line), expected, "{line}");
        }
    }
}
