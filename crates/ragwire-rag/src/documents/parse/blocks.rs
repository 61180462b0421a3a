//! Collects the text of every parser: builds heading paths, cleans text, and enforces the limits.

use super::labels::Item;
use super::{Block, BlockKind, ParseError, ParseLimits};
use crate::documents::list::ListItem;

/// The longest heading in bytes. It is repeated in every chunk below it.
pub(super) const MAX_HEADING_BYTES: usize = 160;
/// The longest term in bytes that is kept with its description.
const MAX_TERM_BYTES: usize = 160;
/// The longest row with the names of columns, in bytes, that is kept with the rows below it.
const MAX_COLUMNS_BYTES: usize = 240;
/// The separator between two headings of a path.
const SEPARATOR: &str = " > ";

/// A list that is open.
#[derive(Debug, Default)]
struct List {
    /// The number of the next item, in an ordered list.
    next: Option<u64>,
    /// The item that has begun and has no text yet.
    begun: Option<ListItem>,
    /// Whether it has items. HTML has lists without any, to indent paragraphs.
    has_items: bool,
    /// How many of the lists around it have items, and which of them is the innermost. None of them gets its first item
    /// while this one is open.
    around: u32,
    outer: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Blocks {
    limits: ParseLimits,
    /// The open headings with their levels, strictly ascending: at most one per level, so about 6
    /// at most.
    headings: Vec<(u8, String)>,
    first_level: Vec<String>,
    /// The last term of each open definition list, the innermost list last.
    terms: Vec<Option<String>>,
    /// The names of the columns of each open table, the innermost table last.
    tables: Vec<Option<String>>,
    /// The open lists, the innermost last.
    lists: Vec<List>,
    /// The place of the next paragraph, where a format says it of each.
    next_item: Option<ListItem>,
    blocks: Vec<Block>,
    /// Sum of `blocks[..].text.len()`, at most `limits.max_text_bytes`.
    text_bytes: usize,
}

impl Blocks {
    pub(super) fn new(limits: &ParseLimits) -> Self {
        Self {
            limits: *limits,
            headings: Vec::new(),
            first_level: Vec::new(),
            terms: Vec::new(),
            tables: Vec::new(),
            lists: Vec::new(),
            next_item: None,
            blocks: Vec::new(),
            text_bytes: 0,
        }
    }

    /// Opens a heading and closes every open heading at its level or below.
    pub(super) fn heading(&mut self, level: u8, text: &str) {
        let text = heading_text(text);
        if text.is_empty() {
            return;
        }
        self.close_headings(level);
        if level == 1 && self.first_level.len() < 2 {
            self.first_level.push(text.clone());
        }
        self.headings.push((level, text));
    }

    /// Closes the open headings from a level on.
    pub(super) fn close_headings(&mut self, level: u8) {
        while self.headings.last().is_some_and(|(open, _)| *open >= level) {
            self.headings.pop();
        }
    }

    /// Returns the open headings with their levels, outermost first.
    pub(super) fn open_headings(&self) -> Vec<(u8, String)> {
        self.headings.clone()
    }

    /// Opens these headings in place of those that are open.
    pub(super) fn reopen(&mut self, headings: Vec<(u8, String)>) {
        self.headings = headings;
    }

    /// Adds text to the heading that was opened last.
    pub(super) fn continue_heading(&mut self, text: &str) {
        if let Some((_, heading)) = self.headings.last_mut() {
            *heading = heading_text(&format!("{heading} {text}"));
        }
    }

    /// Opens a definition list within the open ones.
    pub(super) fn open_definitions(&mut self) {
        self.terms.push(None);
    }

    /// Adds a term of the innermost definition list. The blocks up to the next term, or to the end of the
    /// list, describe it.
    pub(super) fn term(&mut self, text: &str) -> Result<(), ParseError> {
        let text = prose(text);
        if let Some(term) = self.terms.last_mut()
            && !text.is_empty()
        {
            *term = Some(text.clone()).filter(|term| term.len() <= MAX_TERM_BYTES);
        }
        self.push(BlockKind::Prose, None, &text)
    }

    /// Closes the innermost definition list.
    pub(super) fn close_definitions(&mut self) {
        self.terms.pop();
    }

    /// Opens a table within the open ones.
    pub(super) fn open_table(&mut self) {
        self.tables.push(None);
    }

    /// Adds a row of the innermost table, with its cells separated. The first row may have the names of the columns.
    pub(super) fn row(&mut self, page: Option<u32>, text: &str, has_names: bool) -> Result<(), ParseError> {
        // A row has no place in a list, so that a bar in an item is not taken for one between cells.
        self.push_at(BlockKind::Prose, page, text, None)?;
        if let Some(columns @ None) = self.tables.last_mut()
            && has_names
        {
            *columns = Some(prose(text)).filter(|row| !row.is_empty() && row.len() <= MAX_COLUMNS_BYTES);
        }
        Ok(())
    }

    /// Closes the innermost table.
    pub(super) fn close_table(&mut self) {
        self.tables.pop();
    }

    /// Opens a list within the open ones. An ordered one begins with the number `first`.
    pub(super) fn open_list(&mut self, first: Option<u64>) {
        let last = self.lists.len().checked_sub(1);
        let (around, outer) = match self.lists.last() {
            Some(list) if list.has_items => (list.around + 1, last),
            Some(list) => (list.around, list.outer),
            None => (0, None),
        };
        self.lists.push(List {
            next: first,
            around,
            outer,
            ..List::default()
        });
    }

    /// Begins an item of the innermost list, with `number` if it is not the next one. The blocks up to the next item, or to
    /// the end of the list, are in it.
    pub(super) fn item(&mut self, number: Option<u64>) {
        if let Some(list) = self.lists.last_mut() {
            list.has_items = true;
            list.next = list.next.map(|next| number.unwrap_or(next));
            list.begun = Some(ListItem::new(list.around + 1, list.next));
            list.next = list.next.map(|number| number.saturating_add(1));
        }
    }

    /// Begins an item that a line begins, once the lists that end before it are closed.
    pub(super) fn begin_item(&mut self, item: &Item<'_>) {
        if item.opens {
            self.open_list(item.number);
        }
        self.item(item.number);
    }

    /// Returns the number of the next item of the innermost list, if that is ordered.
    pub(super) fn next_number(&self) -> Option<u64> {
        self.lists.last()?.next
    }

    /// Closes the innermost list.
    pub(super) fn close_list(&mut self) {
        self.lists.pop();
    }

    /// Says that the next paragraph begins an item of a list, in so many lists, with its number.
    pub(super) fn item_at(&mut self, depth: u32, number: Option<u64>) {
        self.next_item = Some(ListItem::new(depth, number));
    }

    /// Returns the place in a list of the next paragraph.
    fn place_in_list(&mut self) -> Option<ListItem> {
        if let Some(item) = self.next_item.take() {
            return Some(item);
        }
        let last = self.lists.last()?;
        let innermost = if last.has_items {
            self.lists.len() - 1
        } else {
            last.outer?
        };
        let list = self.lists.get_mut(innermost)?;
        let continued = ListItem::continued(list.around + 1);
        Some(list.begun.take().unwrap_or(continued))
    }

    /// Adds a block. A block without text is skipped.
    pub(super) fn push(&mut self, kind: BlockKind, page: Option<u32>, text: &str) -> Result<(), ParseError> {
        let item = match kind {
            BlockKind::Prose if !prose(text).is_empty() => self.place_in_list(),
            BlockKind::Prose | BlockKind::Listing => None,
        };
        self.push_at(kind, page, text, item)
    }

    fn push_at(
        &mut self,
        kind: BlockKind,
        page: Option<u32>,
        text: &str,
        item: Option<ListItem>,
    ) -> Result<(), ParseError> {
        let text = match kind {
            BlockKind::Prose => prose(text),
            BlockKind::Listing => listing(text),
        };
        if text.is_empty() {
            return Ok(());
        }
        self.text_bytes += text.len();
        if self.text_bytes > self.limits.max_text_bytes {
            return Err(ParseError::TooMuchText {
                limit: self.limits.max_text_bytes,
            });
        }
        if self.blocks.len() == self.limits.max_blocks {
            return Err(ParseError::TooManyBlocks {
                limit: self.limits.max_blocks,
            });
        }
        let path: Vec<&str> = self
            .headings
            .iter()
            .map(|(_, heading)| heading.as_str())
            .collect();
        let heading = (!path.is_empty()).then(|| path.join(SEPARATOR));
        self.blocks.push(Block {
            heading,
            page,
            term: self.terms.last().cloned().flatten(),
            columns: self.tables.last().cloned().flatten(),
            item,
            kind,
            text,
        });
        Ok(())
    }

    /// Returns the first-level heading, if there is exactly one, and the blocks.
    pub(super) fn finish(mut self) -> (Option<String>, Vec<Block>) {
        let title = if self.first_level.len() == 1 {
            self.first_level.pop()
        } else {
            None
        };
        (title, self.blocks)
    }
}

/// Makes one line that is not longer than a heading.
pub(super) fn heading_text(text: &str) -> String {
    let mut text = prose(text);
    text.truncate(text.floor_char_boundary(MAX_HEADING_BYTES));
    text
}

/// Makes one line: runs of white space become one space, and invisible characters are dropped.
pub(super) fn prose(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || is_separator(c) {
            gap = !clean.is_empty();
        } else if !is_invisible(c) {
            if gap {
                clean.push(' ');
                gap = false;
            }
            push_plain(&mut clean, c);
        }
    }
    clean
}

/// Keeps the lines, without trailing white space and without empty lines at the start and end.
fn listing(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for line in text.lines() {
        let start = clean.len();
        for c in line.chars() {
            if c == '\t' {
                clean.push(c);
            } else if !is_invisible(c) {
                push_plain(&mut clean, c);
            }
        }
        let end = start + clean[start..].trim_end().len();
        clean.truncate(end);
        clean.push('\n');
    }
    clean.trim_matches('\n').to_owned()
}

/// Spells out ligatures, so that a query with `fi` matches a PDF's `ﬁ`.
fn push_plain(clean: &mut String, c: char) {
    match c {
        '\u{fb00}' => clean.push_str("ff"),
        '\u{fb01}' => clean.push_str("fi"),
        '\u{fb02}' => clean.push_str("fl"),
        '\u{fb03}' => clean.push_str("ffi"),
        '\u{fb04}' => clean.push_str("ffl"),
        _ => clean.push(c),
    }
}

/// Control characters that separate words. The frame separators of the framed wire are among them.
fn is_separator(c: char) -> bool {
    matches!(c, '\u{1c}'..='\u{1f}')
}

/// Other control characters, soft hyphens, zero-width characters, the byte order mark, and the
/// direction overrides that can make a quote read backwards. Joiners (U+200C, U+200D) stay: Persian
/// and emoji need them.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_one_clean_line() {
        let cases = [
            ("  a \r\n\t b\u{a0}c ", "a b c"),
            ("a\u{1d}b\u{1e}c", "a b c"),
            ("co\u{ad}operate\u{200b}d", "cooperated"),
            ("\u{feff}e\u{fb03}cient\0", "efficient"),
            ("\u{202e}txt.exe", "txt.exe"),
            ("\u{1d}\u{0}", ""),
        ];
        for (given, wanted) in cases {
            assert_eq!(prose(given), wanted, "{given:?}");
        }
    }

    #[test]
    fn headings_form_a_path() {
        let mut blocks = Blocks::new(&ParseLimits::default());
        let headings: [(u8, &str, &str); 6] = [
            (1, "Guide", "Guide"),
            (3, "Deep", "Guide > Deep"),
            (2, "Install", "Guide > Install"),
            (3, "Linux", "Guide > Install > Linux"),
            (2, "Use", "Guide > Use"),
            (1, "Appendix", "Appendix"),
        ];
        for (level, heading, _) in headings {
            blocks.heading(level, heading);
            blocks.push(BlockKind::Prose, None, "x").unwrap();
        }
        let (title, blocks) = blocks.finish();
        assert_eq!(title, None, "two headings of the first level are no title");
        let paths: Vec<_> = blocks
            .iter()
            .map(|block| block.heading.as_deref().unwrap())
            .collect();
        assert_eq!(paths, headings.map(|(_, _, path)| path));
    }

    #[test]
    fn listings_keep_their_lines() {
        let mut blocks = Blocks::new(&ParseLimits::default());
        blocks
            .push(BlockKind::Listing, None, "\n\tfn a() {  \r\n\n  }\u{1e}\n\n")
            .unwrap();
        assert_eq!(blocks.finish().1[0].text, "\tfn a() {\n\n  }");
    }
}
