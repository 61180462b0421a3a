//! Writes paragraphs, listings and tables from lines.

use super::layout::{Line, Page};
use super::listing::Listing;
use super::lists::Lists;
use super::table::row;
use crate::documents::parse::blocks::Blocks;
use crate::documents::parse::hyphens::Words;
use crate::documents::parse::labels::Item;
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
    words: Words,
    open: Open,
    /// The usual distance between two baselines, in points.
    leading: f64,
}

impl Writer {
    pub(super) fn new(pages: &[Page], leading: f64, limits: &ParseLimits) -> Self {
        let lines = pages.iter().flat_map(|page| &page.lines);
        Self {
            blocks: Blocks::new(limits),
            lists: Lists::default(),
            words: Words::of(lines.map(|line| line.text.as_str())),
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
        self.words.join_names(text, line);
        Ok(())
    }

    /// Begins an item of a list with a line.
    pub(super) fn begin_item(&mut self, page: u32, item: &Item<'_>) -> Result<(), ParseError> {
        self.close_lists(item.closes)?;
        self.blocks.begin_item(item);
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
