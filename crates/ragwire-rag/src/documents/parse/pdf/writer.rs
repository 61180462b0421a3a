//! Writes paragraphs, listings and tables from lines.

use std::collections::HashSet;

use super::layout::{Line, Page};
use super::listing::Listing;
use super::lists::{Item, Lists};
use super::table::row;
use crate::documents::parse::blocks::Blocks;
use crate::documents::parse::{BlockKind, ParseError, ParseLimits};

/// How a paragraph ends.
const ENDS: [char; 6] = ['.', '!', '?', ':', '"', '”'];

/// What the next line may continue.
#[derive(Debug)]
enum Open {
    Nothing,
    Paragraph { page: u32, text: String },
    Listing(Listing),
    Table,
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) blocks: Blocks,
    pub(super) lists: Lists,
    words: HashSet<String>,
    open: Open,
    /// The usual distance between two baselines, in points.
    leading: f64,
}

impl Writer {
    pub(super) fn new(pages: &[Page], leading: f64, limits: &ParseLimits) -> Self {
        Self {
            blocks: Blocks::new(limits),
            lists: Lists::default(),
            words: words(pages),
            open: Open::Nothing,
            leading,
        }
    }

    /// Adds a line to the open paragraph, or begins one.
    pub(super) fn add(&mut self, page: u32, line: &str) -> Result<(), ParseError> {
        let line = line.trim();
        let Open::Paragraph { text, .. } = &mut self.open else {
            self.close()?;
            let text = line.to_owned();
            self.open = Open::Paragraph { page, text };
            return Ok(());
        };
        let broken = text.ends_with('-') && line.starts_with(char::is_lowercase);
        if !broken {
            if !breaks_name(text, line) {
                text.push(' ');
            }
        } else if !keeps_hyphen(&self.words, text, line) {
            text.pop();
        }
        text.push_str(line);
        Ok(())
    }

    /// Begins an item of a list with a line.
    pub(super) fn begin_item(&mut self, page: u32, item: &Item<'_>) -> Result<(), ParseError> {
        self.close_lists(item.closes)?;
        if item.opens {
            self.blocks.open_list(item.number);
        }
        self.blocks.item(item.number);
        self.add(page, item.text)
    }

    /// Ends what is open, and the innermost lists, so many of them.
    pub(super) fn close_lists(&mut self, count: usize) -> Result<(), ParseError> {
        self.close()?;
        for _ in 0..count {
            self.blocks.close_list();
        }
        Ok(())
    }

    /// Ends what is open, and all lists.
    pub(super) fn close_all(&mut self) -> Result<(), ParseError> {
        let count = self.lists.end();
        self.close_lists(count)
    }

    /// Adds a line of a listing.
    pub(super) fn add_listed(&mut self, page: u32, line: &Line) -> Result<(), ParseError> {
        match &mut self.open {
            Open::Listing(listing) if listing.continues(page, line) => listing.add(line, self.leading),
            Open::Listing(_) | Open::Nothing | Open::Paragraph { .. } | Open::Table => {
                let closes = self.lists.close_outside(line);
                self.close_lists(closes)?;
                self.open = Open::Listing(Listing::new(page, line));
            }
        }
        Ok(())
    }

    /// Adds a row of a table. The first one may have the names of the columns.
    pub(super) fn add_row(&mut self, page: u32, line: &Line) -> Result<(), ParseError> {
        let is_first = !matches!(self.open, Open::Table);
        if is_first {
            let closes = self.lists.close_outside(line);
            self.close_lists(closes)?;
            self.blocks.open_table();
            self.open = Open::Table;
        }
        let has_names = is_first && !line.text.contains(|c: char| c.is_ascii_digit());
        self.blocks.row(Some(page), &row(line), has_names)
    }

    /// Returns whether a paragraph is open, and whether its last sentence has ended.
    pub(super) fn paragraph_has_ended(&self) -> Option<bool> {
        match &self.open {
            Open::Paragraph { text, .. } => Some(text.trim_end().ends_with(ENDS)),
            Open::Nothing | Open::Listing(_) | Open::Table => None,
        }
    }

    /// Ends what is open.
    pub(super) fn close(&mut self) -> Result<(), ParseError> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => Ok(()),
            Open::Paragraph { page, text } => self.blocks.push(BlockKind::Prose, Some(page), &text),
            Open::Listing(listing) => {
                let text = listing.text();
                self.blocks.push(BlockKind::Listing, Some(listing.page), &text)
            }
            Open::Table => {
                self.blocks.close_table();
                Ok(())
            }
        }
    }
}

/// Returns every word that occurs unbroken (and the second halves of broken words, which are rarely
/// words), to distinguish `atten-tion` from `self-attention`.
fn words(pages: &[Page]) -> HashSet<String> {
    let mut words = HashSet::new();
    for line in pages.iter().flat_map(|page| &page.lines) {
        for word in line.text.split_whitespace() {
            // The first half of a broken word is not a word.
            if !word.ends_with('-') {
                words.insert(word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase());
            }
        }
    }
    words
}

/// Returns whether a line break is within a name or an address: after `TEST_MC_`, `https://a.org/`.
fn breaks_name(before: &str, after: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or(before);
    let continues = after.starts_with(char::is_alphanumeric);
    continues && ((word.len() > 1 && word.ends_with('_')) || (word.ends_with('/') && word.contains("://")))
}

/// Decides `self-` + `attention` by the document's own words. If it writes the joined word
/// elsewhere, the hyphen comes from the line break; if it writes the hyphen elsewhere, or both
/// halves are words, the hyphen belongs to the word.
fn keeps_hyphen(words: &HashSet<String>, before: &str, after: &str) -> bool {
    let clean = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let head = clean(before.rsplit(char::is_whitespace).next().unwrap_or(before));
    let tail = clean(after.split_whitespace().next().unwrap_or(after));
    !words.contains(&format!("{head}{tail}"))
        && (words.contains(&format!("{head}-{tail}")) || (words.contains(&head) && words.contains(&tail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_broken_by_lines() {
        for (before, after, wanted) in [
            ("Set TEST_MC_", "CORES to 2.", true),
            ("See https://a.org/", "package=b.", true),
            ("See https://a.org/", "(a page)", false),
            ("and/", "or", false),
            ("a _", "b", false),
            ("a word", "b", false),
        ] {
            assert_eq!(breaks_name(before, after), wanted, "{before}{after}");
        }
    }
}
