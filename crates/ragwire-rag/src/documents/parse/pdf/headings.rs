//! Finds headings on PDF pages by their size and their numbers.

use super::around::Around;
use super::layout::Line;
use super::style::letters;
use crate::documents::parse::blocks::{Blocks, heading_text};

/// The longest line that may be a heading, in characters.
const MAX_HEADING_CHARS: usize = 100;
/// A heading without a number is larger than the text by this factor.
pub(super) const HEADING_SIZE: f64 = 1.15;
/// A numbered line that is larger than the text by this factor is a heading, however it ends.
const NUMBERED_SIZE: f64 = 1.05;
/// The second line of a numbered sentence is indented by at most so many sizes.
const MAX_HANG: f64 = 6.0;
/// A numbered line in the size of the text with so many characters that is as long as the next line is a sentence.
const MIN_FULL_CHARS: usize = 40;
/// Sizes that differ by less, in points, are equal.
pub(super) const SAME_SIZE: f64 = 0.5;
/// Headings that papers leave unnumbered, and often set in the size of the text.
const PLAIN_HEADINGS: [&str; 8] = [
    "abstract",
    "introduction",
    "conclusion",
    "conclusions",
    "references",
    "acknowledgements",
    "acknowledgments",
    "appendix",
];

/// A heading with a number, below which text may follow.
#[derive(Debug)]
struct Numbered {
    number: String,
    level: u8,
    text: String,
    size: f64,
}

/// A line that is a heading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heading<'a> {
    pub(super) level: u8,
    pub(super) number: Option<&'a str>,
    pub(super) text: &'a str,
}

/// The headings of a document so far.
#[derive(Debug, Default)]
pub(super) struct Headings {
    /// The last heading with a number, and those whose numbers begin its own: `4`, `4.2` and `4.2.1`.
    numbered: Vec<Numbered>,
    /// The line before, if it is a heading.
    last: Option<LastLine>,
}

/// A line of a heading that the next line may continue.
#[derive(Clone, Copy, Debug)]
struct LastLine {
    size: f64,
    /// Whether the heading has a number.
    is_numbered: bool,
}

impl Headings {
    /// Returns the heading that a line is.
    pub(super) fn find<'a>(&self, line: &'a Line, around: &Around<'_>) -> Option<Heading<'a>> {
        let text = line.text.trim();
        let chars = text.chars().count();
        let body_size = around.style.body_size;
        let is_large = line.size >= body_size * HEADING_SIZE;
        let is_larger = line.size > body_size * NUMBERED_SIZE;
        let continues = is_large && self.above(line, around).is_some();
        let is_heading = continues || (letters(text) >= 3 && around.is_apart(line));
        if line.turned || chars > MAX_HEADING_CHARS || !is_heading {
            return None;
        }
        let numbered = numbering(text, is_large).filter(|_| line.size >= body_size * 0.95);
        let is_certain = is_larger && numbered.is_some_and(|(_, depth)| depth > 1);
        if text.ends_with(['.', ',', ';', ':', '-']) && !is_certain {
            return None;
        }
        if let Some((number, level)) = numbered {
            // The rest of a sentence, such as `12 Months`.
            let is_rest = around.is_on_top(line) && around.has_ended == Some(false) && level == 1;
            if is_rest && !is_larger {
                return None;
            }
            let number = Some(number);
            let heading = Heading { level, number, text };
            return Some(heading).filter(|_| is_larger || !is_sentence(line, around));
        }
        let is_plain = PLAIN_HEADINGS.contains(&text.to_lowercase().as_str());
        // Formulas contain large characters, so a heading must consist mostly of letters.
        let has_letters = letters(text) * 10 >= chars * 7;
        let level = match is_plain {
            true => 1,
            false => self.level_of_size(line.size),
        };
        (is_plain || continues || (is_large && has_letters)).then_some(Heading {
            level,
            number: None,
            text,
        })
    }

    /// Returns the level of a heading without a number: that of an open numbered heading of its size, or below those that
    /// are larger.
    fn level_of_size(&self, size: f64) -> u8 {
        let is_as_large = |open: &&Numbered| open.size < size + SAME_SIZE;
        let below = || self.numbered.last().map_or(1, |last| last.level + 1);
        match self.numbered.first() {
            Some(first) if first.size > size - SAME_SIZE => {
                let same = self.numbered.iter().find(is_as_large);
                same.map_or_else(below, |same| same.level)
            }
            Some(_) | None => 1,
        }
    }

    /// Opens the heading that a line is, or adds the line to the heading above it.
    pub(super) fn open(
        &mut self,
        blocks: &mut Blocks,
        heading: &Heading<'_>,
        line: &Line,
        around: &Around<'_>,
    ) {
        let size = line.size;
        let above = self.above(line, around).filter(|_| heading.number.is_none());
        let is_numbered = above.map_or_else(|| heading.number.is_some(), |above| above.is_numbered);
        self.last = Some(LastLine { size, is_numbered });
        if above.is_some() {
            if is_numbered && let Some(last) = self.numbered.last_mut() {
                last.text = heading_text(&format!("{} {}", last.text, heading.text));
            }
            blocks.continue_heading(heading.text);
            return;
        }
        if let Some(number) = heading.number {
            let is_part = |outer: &Numbered| {
                let rest = number.strip_prefix(outer.number.as_str());
                rest.is_some_and(|rest| rest.starts_with('.'))
            };
            while self.numbered.pop_if(|last| !is_part(last)).is_some() {}
            if !self.numbered.is_empty() {
                // A large line between them, such as one in a drawing, is not above this heading.
                let outer = self.numbered.iter();
                blocks.reopen(outer.map(|outer| (outer.level, outer.text.clone())).collect());
            }
            self.numbered.push(Numbered {
                number: number.to_owned(),
                level: heading.level,
                text: heading_text(heading.text),
                size,
            });
        }
        blocks.heading(heading.level, heading.text);
    }

    /// Returns the line above, if it is one of a heading that this line may continue.
    fn above(&self, line: &Line, around: &Around<'_>) -> Option<LastLine> {
        let fall = around.fall(line)?;
        let is_near = fall > 0.0 && fall < line.size * 1.6;
        self.last
            .filter(|last| is_near && (last.size - line.size).abs() < SAME_SIZE)
    }

    /// Says that the next line is not directly below a heading.
    pub(super) fn leave(&mut self) {
        self.last = None;
    }
}

/// Returns whether a numbered line in the size of the text is the first one of a sentence.
fn is_sentence(line: &Line, around: &Around<'_>) -> bool {
    around.line_below(line).is_some_and(|next| {
        let continues = next.text.trim_start().starts_with(char::is_lowercase);
        // A heading is mostly shorter than the text below it.
        let is_full = line.text.trim().chars().count() >= MIN_FULL_CHARS && line.end >= next.end - line.size;
        let hangs = next.x > line.x + line.size && next.x < line.x + line.size * MAX_HANG;
        (line.size - next.size).abs() < SAME_SIZE && (continues || hangs || is_full)
    })
}

/// Returns the number of a heading and its depth: `3.2` and 2 for `3.2 Attention`. A year or a price at the start
/// of a line is not a number. Only a large heading may begin with a small letter.
fn numbering(text: &str, is_large: bool) -> Option<(&str, u8)> {
    let (number, title) = text.split_once(char::is_whitespace)?;
    let number = number.strip_suffix('.').unwrap_or(number);
    let parts: Vec<&str> = number.split('.').collect();
    let counted = parts
        .iter()
        .all(|part| (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()));
    let appendix = parts[0].len() == 1 && parts[0].bytes().all(|b| b.is_ascii_uppercase()) && parts.len() > 1;
    let titled = title
        .trim_start()
        .starts_with(|c: char| c.is_uppercase() || (is_large && c.is_alphabetic()));
    ((counted || appendix) && titled && parts.len() <= 4).then_some((number, parts.len() as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_lines_are_headings() {
        let cases = [
            ("1 Introduction", Some(("1", 1))),
            ("3.2 Attention", Some(("3.2", 2))),
            ("3.2.1. Scaled", Some(("3.2.1", 3))),
            ("A.1 Proofs", Some(("A.1", 2))),
            ("2017 Was a year", None),
            ("28.4 on the test", None),
            ("A Tale", None),
            ("3", None),
        ];
        for (text, number) in cases {
            assert_eq!(numbering(text, false), number, "{text}");
        }
        assert_eq!(numbering("1.4 accent", true), Some(("1.4", 2)));
    }
}
