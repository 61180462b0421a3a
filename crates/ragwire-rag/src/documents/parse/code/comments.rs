//! Comments that describe what they are at, as text.

use super::super::blocks::Blocks;
use super::super::{BlockKind, ParseError};
use crate::search::lines::LineKind;

/// Marks of a comment that describes the next definition or the file, at any indentation.
const DESCRIPTION_MARKS: [&str; 2] = ["///", "//!"];
/// Marks of other comments. They describe something if they are not indented, and are within a definition otherwise.
const LINE_MARKS: [&str; 5] = ["//", "#", "--", ";;", "%%"];
/// Marks of the string that describes a definition in Python, or its file.
const STRING_MARKS: [&str; 4] = ["\"\"\"", "'''", "r\"\"\"", "r'''"];
/// The fewest words of a comment that is text. Shorter ones are read with the code.
const MIN_WORDS: usize = 5;
/// What a line begins with that is not of the paragraph before.
const ITEM_MARKS: [&str; 7] = ["- ", "* ", "+ ", "@", ":", "# ", "## "];
/// Marks of headings and of the items of a list, which are left out.
const LEFT_OUT: [&str; 5] = ["- ", "* ", "+ ", "# ", "## "];

/// A comment that is text.
#[derive(Debug)]
pub(super) struct Comment<'a> {
    /// Its lines without marks.
    text: Vec<&'a str>,
    /// Whether it belongs to the definition before it, and not to what follows.
    pub(super) is_within: bool,
}

impl<'a> Comment<'a> {
    /// Returns the comment at the beginning of some lines, and how many lines it has. `None` in its place if it is
    /// read as code, such as one without an end. A string describes something at the beginning of a file and below the
    /// name of a definition, where `before`, the last line of code, ends with a colon; elsewhere it is a value.
    pub(super) fn at(lines: &[&'a str], before: &str) -> Option<(usize, Option<Self>)> {
        let first = lines.first()?;
        let trimmed = first.trim_start();
        let is_outer = trimmed.len() == first.len();
        let (length, comment) = if trimmed.starts_with("/**") || (is_outer && trimmed.starts_with("/*")) {
            Self::block(lines)
        } else if let Some(mark) = STRING_MARKS.iter().find(|mark| trimmed.starts_with(**mark)) {
            if !before.is_empty() && !before.ends_with(':') {
                return None;
            }
            Self::string(lines, mark)
        } else if let Some(mark) = DESCRIPTION_MARKS.iter().find(|mark| is_marked(trimmed, mark)) {
            Self::of_lines(lines, mark)
        } else {
            let mark = LINE_MARKS
                .iter()
                .find(|mark| is_outer && is_marked(first, mark))?;
            Self::of_lines(lines, mark)
        };
        Some((length, comment.filter(Self::is_text)))
    }

    /// Returns whether the lines after the one with the name of a definition begin with a string that describes it.
    pub(super) fn describes(after: &[&str]) -> bool {
        let next = after.iter().find(|line| !line.trim().is_empty());
        next.is_some_and(|line| {
            STRING_MARKS
                .iter()
                .any(|mark| line.trim_start().starts_with(mark))
        })
    }

    /// Adds its paragraphs and listings.
    pub(super) fn write(&self, blocks: &mut Blocks) -> Result<(), ParseError> {
        let mut open: Vec<&str> = Vec::new();
        let mut in_fence = false;
        for line in &self.text {
            let text = line.trim();
            if text.starts_with("```") {
                flush(&mut open, in_fence, blocks)?;
                in_fence = !in_fence;
            } else if in_fence {
                open.push(line);
            } else if text.is_empty() || is_rule(text) {
                flush(&mut open, false, blocks)?;
            } else {
                if open.last().is_some_and(|last| !continues(last, line)) {
                    flush(&mut open, false, blocks)?;
                }
                open.push(line);
            }
        }
        flush(&mut open, in_fence, blocks)
    }

    fn of_lines(lines: &[&'a str], mark: &str) -> (usize, Option<Self>) {
        let marked = lines.iter().map_while(|line| {
            let trimmed = line.trim_start();
            is_marked(trimmed, mark).then(|| &trimmed[mark.len()..])
        });
        let text: Vec<&str> = marked.collect();
        let is_within = false;
        (text.len(), Some(Self { text, is_within }))
    }

    fn block(lines: &[&'a str]) -> (usize, Option<Self>) {
        let bare = lines.iter().enumerate().map(|(at, line)| match at {
            0 => line.trim_start().trim_start_matches('/'),
            _ => line.trim_start(),
        });
        Self::up_to("*/", bare, false, |line| line.trim_start_matches('*'))
    }

    fn string(lines: &[&'a str], mark: &str) -> (usize, Option<Self>) {
        let bare = lines.iter().enumerate().map(|(at, line)| match at {
            0 => &line.trim_start()[mark.len()..],
            _ => line,
        });
        Self::up_to(mark.trim_start_matches('r'), bare, true, |line| line)
    }

    /// Returns the comment of the lines up to the one with its end, and how many they are. None if code follows in that
    /// line, or if the end is missing.
    fn up_to(
        end: &str,
        lines: impl Iterator<Item = &'a str>,
        is_within: bool,
        unmarked: impl Fn(&'a str) -> &'a str,
    ) -> (usize, Option<Self>) {
        let mut text = Vec::new();
        for line in lines {
            if let Some((last, after)) = line.split_once(end) {
                text.push(unmarked(last));
                let is_alone = after.trim().is_empty();
                return (text.len(), is_alone.then_some(Self { text, is_within }));
            }
            text.push(unmarked(line));
        }
        (text.len(), None)
    }

    /// Returns whether it is text and no code that was commented out.
    fn is_text(&self) -> bool {
        let lines = self
            .text
            .iter()
            .map(|line| line.trim())
            .filter(|line| !line.is_empty());
        let (prose, all) = lines.clone().fold((0, 0), |(prose, all), line| {
            (prose + usize::from(LineKind::of(line) != LineKind::Code), all + 1)
        });
        2 * prose >= all && lines.flat_map(str::split_whitespace).count() >= MIN_WORDS
    }
}

/// Returns whether a line is a comment with a mark. `#include` is code.
fn is_marked(line: &str, mark: &str) -> bool {
    let after = line.strip_prefix(mark);
    let is_description = DESCRIPTION_MARKS.contains(&mark);
    after.is_some_and(|after| {
        after.is_empty() || after.starts_with([' ', '\t']) || (is_description && !after.starts_with('/'))
    })
}

/// Returns whether a line is of the same paragraph as the one before.
fn continues(before: &str, line: &str) -> bool {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let text = line.trim_start();
    let begins_item = ITEM_MARKS.iter().any(|mark| text.starts_with(mark));
    let is_example = |line: &str| line.trim_start().starts_with(">>>");
    let is_deeper = indentation(line) > indentation(before);
    let was_item = ITEM_MARKS
        .iter()
        .any(|mark| before.trim_start().starts_with(mark));
    is_example(before)
        || (!begins_item && !is_example(line) && indentation(line) >= indentation(before))
            && (!is_deeper || was_item)
}

/// Returns whether a line is drawn below a heading.
fn is_rule(text: &str) -> bool {
    text.len() > 2
        && text
            .chars()
            .all(|letter| matches!(letter, '-' | '=' | '~' | '*' | '/' | '#'))
}

/// Adds the open lines as a paragraph, or as a listing.
fn flush(open: &mut Vec<&str>, is_listing: bool, blocks: &mut Blocks) -> Result<(), ParseError> {
    let is_example = |line: &&str| line.trim_start().starts_with(">>>");
    let result = if is_listing || open.first().is_some_and(is_example) {
        blocks.push(BlockKind::Listing, None, &open.join("\n"))
    } else {
        let lines: Vec<&str> = open.iter().map(|line| line.trim()).collect();
        let text = lines.join(" ");
        let unmarked = LEFT_OUT.iter().find_map(|mark| text.strip_prefix(mark));
        blocks.push(BlockKind::Prose, None, unmarked.unwrap_or(&text))
    };
    open.clear();
    result
}
