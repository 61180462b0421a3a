//! Splits the text of a passage into sentences and the lines of listings and tables.
//!
//! A passage has one line for each paragraph, item of a list, row of a table and line of a listing.

use unicode_segmentation::UnicodeSegmentation;

use crate::Chunk;
use crate::answer::lexicon::REFERS_BACK;
use crate::documents::list::{ListItem, place_of};
use crate::documents::sentences;
use crate::search::entries::Part;
use crate::search::lexicon::CAPTION_LABELS;
use crate::search::lines::{COLONS, LineKind, QUESTION_MARKS, is_title, line_kinds};

/// What marks a footnote and its place in the text. Asterisks of ASCII are bullets and emphasis.
const FOOTNOTE_MARKS: [char; 5] = ['∗', '†', '‡', '§', '¶'];

/// The longest line that only names what else may be read, in bytes.
const MAX_ALSO_BYTES: usize = 120;
/// How such a line begins.
const ALSO: [&str; 6] = [
    "see also",
    "siehe auch",
    "voir aussi",
    "véase también",
    "vedi anche",
    "zie ook",
];

/// A sentence, or a whole line of a table or listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) text: &'a str,
    /// Its position in the passage, in bytes.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The index of its line.
    pub(super) line: usize,
    pub(super) kind: LineKind,
    /// Its place in a list, if the format says so.
    pub(super) item: Option<ListItem>,
}

impl<'a> Segment<'a> {
    pub(super) fn part(&self) -> Part<'a> {
        Part::new(self.text, self.line, self.kind)
    }

    /// Returns whether something has to follow.
    pub(super) fn leads_in(&self) -> bool {
        self.kind == LineKind::Prose && self.text.ends_with(COLONS)
    }

    /// Returns whether it is a short line that is not a sentence: a heading, a name, an item.
    pub(super) fn is_title(&self) -> bool {
        is_title(self.text)
    }

    /// Returns whether its first word refers to the sentence before.
    pub(super) fn depends(&self) -> bool {
        let first = self
            .text
            .unicode_words()
            .next()
            .unwrap_or_default()
            .to_lowercase();
        self.kind == LineKind::Prose && REFERS_BACK.contains(&first.as_str())
    }

    /// Returns whether it is the caption of a figure or table: `Figure 2: …`.
    pub(super) fn is_caption(&self) -> bool {
        let mut words = self.text.split_whitespace();
        let label = words.next().unwrap_or_default().to_lowercase();
        let number = words.next().unwrap_or_default();
        self.kind == LineKind::Prose
            && CAPTION_LABELS.contains(&label.as_str())
            && number.starts_with(|letter: char| letter.is_ascii_digit())
            && number.ends_with([':', '.'])
    }

    /// Returns whether it says nothing by itself.
    pub(super) fn is_label(&self) -> bool {
        self.is_title() || self.is_caption()
    }

    /// Returns whether it is a note below the text of a page: `∗Equal contribution.`
    pub(super) fn is_footnote(&self) -> bool {
        let noted = self.text.trim_start_matches(FOOTNOTE_MARKS);
        self.kind == LineKind::Prose
            && noted.len() < self.text.len()
            && noted.trim_start().starts_with(char::is_uppercase)
    }

    /// Returns whether it only names what else may be read.
    pub(super) fn names_others(&self) -> bool {
        let is_short = self.kind == LineKind::Prose && self.text.len() <= MAX_ALSO_BYTES;
        is_short && {
            let line = self.text.to_lowercase();
            let rest = ALSO.iter().find_map(|also| line.strip_prefix(also));
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
        }
    }

    /// Returns whether its beginning is missing, because it is on the page before or in a formula.
    pub(super) fn lacks_beginning(&self) -> bool {
        self.kind == LineKind::Prose && self.text.ends_with('.') && self.text.starts_with(char::is_lowercase)
    }

    pub(super) fn is_question(&self) -> bool {
        self.kind == LineKind::Prose && self.text.ends_with(QUESTION_MARKS)
    }
}

/// Returns the segments of a passage, in order.
pub(super) fn segments(chunk: &Chunk) -> Vec<Segment<'_>> {
    let text = chunk.text.as_str();
    let mut found = Vec::new();
    let mut start = 0;
    let items = chunk.items.as_deref().unwrap_or_default();
    for ((line, content), kind) in text.split('\n').enumerate().zip(line_kinds(chunk)) {
        let pieces = match kind {
            LineKind::Prose => sentences(content),
            LineKind::Row | LineKind::Code => vec![content.trim_end()],
        };
        let mut rest = start;
        for piece in pieces.into_iter().filter(|piece| !piece.trim().is_empty()) {
            let Some(at) = text.get(rest..).and_then(|after| after.find(piece)) else {
                continue;
            };
            let begin = rest + at;
            rest = begin + piece.len();
            found.push(Segment {
                text: piece,
                start: begin,
                end: rest,
                line,
                kind,
                item: place_of(items, line),
            });
        }
        start += content.len() + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_know_where_they_are() {
        let text = "One. Two:\n  code. more\n\na | b\nOne.";
        let chunk = Chunk::new("d", "d.txt", 0, text);
        let found = segments(&chunk);
        let texts: Vec<_> = found.iter().map(|one| (one.text, one.line)).collect();
        assert_eq!(
            texts,
            [
                ("One.", 0),
                ("Two:", 0),
                ("  code. more", 1),
                ("a | b", 3),
                ("One.", 4)
            ]
        );
        for one in found {
            assert_eq!(&text[one.start..one.end], one.text);
        }
        assert!(segments(&Chunk::new("d", "d.txt", 0, "")).is_empty());
    }
}
