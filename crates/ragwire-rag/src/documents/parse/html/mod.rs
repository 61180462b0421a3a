//! Reads HTML with `scraper` (html5ever): the visible text in blocks, with `h1` to `h6` as
//! headings.
//!
//! The tree is walked without recursion. Its depth is limited while it is built, because for many
//! tags the tree builder searches all open elements and so takes time quadratic in the depth.

use ego_tree::iter::Edge;
use ego_tree::{NodeId, NodeRef};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{ParseOpts, parse_document};
use scraper::{Html, HtmlTreeSink, Node};

mod elements;
mod skipped;

use elements::{
    Part, arranges_parts, ends_heading, is_between_lines, is_description, is_of_data, part, part_of_title,
    shown_sign,
};
use skipped::{has_heading, is_in_header, is_menu, is_skipped, is_within_line};

use super::blocks::{Blocks, MAX_HEADING_BYTES, prose};
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed, attributes};

/// A main part with less text than this, in bytes, may be one of several, so the whole page is read.
const MIN_MAIN_BYTES: usize = 200;
/// How much text is given to the tree builder between two checks of the tree, in bytes.
const STEP_BYTES: usize = 1024;
/// How many of the newest nodes are checked: after `</body>` only the newest may be outside of a
/// deep nest.
const NODES_LOOKED_AT: usize = 16;

pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let (blocks, title) = read(text, Blocks::new(limits), limits)?;
    Ok(Parsed::new(DocumentKind::Html, title, blocks))
}

/// Adds the text of a page to `blocks`. Also returns the title of the page.
pub(super) fn read(
    text: &str,
    blocks: Blocks,
    limits: &ParseLimits,
) -> Result<(Blocks, Option<String>), ParseError> {
    let page = build(text, limits)?;
    let mut reader = Reader::new(blocks);
    let main = main_part(&page);
    let part = main
        .and_then(|main| page.tree.get(main))
        .unwrap_or_else(|| page.tree.root());
    reader.may_be_menu = has_heading(part);
    // Everything outside of the main part is skipped, whatever the elements around it.
    reader.skipped = usize::from(main.is_some());
    let mut outside = 0;
    for edge in page.tree.root().traverse() {
        match edge {
            Edge::Open(node) => {
                if main == Some(node.id()) {
                    outside = std::mem::take(&mut reader.skipped);
                }
                reader.open(&node)?;
            }
            Edge::Close(node) => {
                reader.close(&node)?;
                if main == Some(node.id()) {
                    reader.flush()?;
                    reader.skipped = outside;
                }
            }
        }
    }
    reader.flush()?;
    let page_title = Some(prose(&reader.page_title)).filter(|title| !title.is_empty());
    Ok((reader.blocks, page_title))
}

/// Returns the part of a page that its author calls the main one.
fn main_part(page: &Html) -> Option<NodeId> {
    let is_main = |node: &NodeRef<'_, Node>| match node.value() {
        Node::Element(element) => {
            !is_skipped(node, element) && (element.name() == "main" || element.attr("role") == Some("main"))
        }
        _ => false,
    };
    let main = page.tree.root().descendants().find(is_main)?;
    let texts = main.descendants().filter_map(|node| match node.value() {
        Node::Text(text) => Some(text.trim().len()),
        _ => None,
    });
    (texts.sum::<usize>() >= MIN_MAIN_BYTES).then_some(main.id())
}

/// Builds the tree step by step, so that parsing stops in time if the tree is too deep or far
/// larger than the text (a thousand open formatting elements are repeated in every paragraph).
fn build(text: &str, limits: &ParseLimits) -> Result<Html, ParseError> {
    if let Some(limit) = attributes::beyond_limit(text) {
        return Err(ParseError::TooManyAttributes { limit });
    }
    let mut parser = parse_document(HtmlTreeSink::new(Html::new_document()), ParseOpts::default());
    let mut rest = text;
    while !rest.is_empty() {
        let (step, after) = rest.split_at(rest.floor_char_boundary(STEP_BYTES));
        rest = after;
        parser.process(StrTendril::from_slice(step));
        let page = parser.tokenizer.sink.sink.0.borrow();
        if page.tree.nodes().len() > limits.max_html_nodes {
            return Err(ParseError::TooManyNodes {
                limit: limits.max_html_nodes,
            });
        }
        let mut newest = page.tree.nodes().rev().take(NODES_LOOKED_AT);
        if newest.any(|node| node.ancestors().nth(limits.max_html_depth).is_some()) {
            return Err(ParseError::TooDeep {
                limit: limits.max_html_depth,
            });
        }
    }
    Ok(parser.finish())
}

#[derive(Debug)]
struct Reader {
    blocks: Blocks,
    /// Text since the last block ended, and whether it has more than spaces.
    text: String,
    has_text: bool,
    page_title: String,
    /// How many enclosing elements are skipped; text counts only at 0.
    skipped: usize,
    /// Whether the first text and a heading are still to come, so that a list of links is a menu.
    may_be_menu: bool,
    /// The menu that is skipped.
    menu: Option<NodeId>,
    /// How many listings are open.
    listings: usize,
    /// Where the text of the open listing begins whose spaces collapse, and how many listings were open with it.
    code: Option<(usize, usize)>,
    in_title: bool,
    /// The level of the open heading.
    heading: Option<u8>,
    /// Whether the headings are below a title, whatever their levels, and the part of the page that has that title.
    is_below_title: bool,
    titled: Option<NodeId>,
    /// Whether a term of a definition list is open.
    in_term: bool,
    /// How many lists of fields are open.
    field_lists: usize,
    /// Whether the text is the name of a field. Its description continues the line.
    is_field_name: bool,
    /// The open lists, and whether each has items, and does not arrange parts of the page.
    lists: Vec<bool>,
    /// The open tables, and whether each is one of data.
    tables: Vec<bool>,
    /// Where the text of the open cell of a table of data begins.
    cell_from: Option<usize>,
    /// Whether a row of a table of data has cells.
    in_row: bool,
    /// How many cells of the row have data and not the name of a column or row.
    data_cells: usize,
    /// Where the last cell of the row ends that is not empty.
    row_end: usize,
}

impl Reader {
    fn new(blocks: Blocks) -> Self {
        Self {
            blocks,
            text: String::new(),
            has_text: false,
            page_title: String::new(),
            skipped: 0,
            may_be_menu: false,
            menu: None,
            listings: 0,
            code: None,
            in_title: false,
            heading: None,
            is_below_title: false,
            titled: None,
            in_term: false,
            field_lists: 0,
            is_field_name: false,
            lists: Vec::new(),
            tables: Vec::new(),
            cell_from: None,
            in_row: false,
            data_cells: 0,
            row_end: 0,
        }
    }

    fn open(&mut self, node: &NodeRef<'_, Node>) -> Result<(), ParseError> {
        match node.value() {
            Node::Text(text) if self.in_title => self.page_title.push_str(text),
            Node::Text(text) if self.skipped > 0 || is_between_lines(node, text) => {}
            Node::Text(text) => {
                self.has_text |= !text.trim().is_empty();
                if self.code.is_some() {
                    self.text.push_str(&text.replace(['\n', '\r'], " "));
                } else {
                    self.text.push_str(text);
                }
            }
            Node::Element(element) => {
                self.in_title = element.name() == "title" && self.page_title.is_empty();
                let part = part(node, element);
                if is_skipped(node, element) {
                    if self.skipped == 0 && !is_within_line(element) {
                        self.end_skipped_block(part)?;
                    }
                    self.skipped += 1;
                } else if self.skipped == 0 && self.is_menu(node, part) {
                    self.end_skipped_block(part)?;
                    self.skipped += 1;
                    self.menu = Some(node.id());
                } else if let Some(level) = self
                    .heading
                    .filter(|_| self.skipped == 0 && ends_heading(element))
                {
                    self.end_heading(level)?;
                } else {
                    match part {
                        Part::LineBreak => self.text.push('\n'),
                        Part::Inline => {
                            self.text
                                .extend(shown_sign(node, element).filter(|_| self.skipped == 0));
                        }
                        Part::Cell(_) if self.listings == 0 => {
                            if self.has_text && self.skipped == 0 {
                                self.text.push_str(" | ");
                            }
                        }
                        Part::Block if self.is_field_name && is_description(element) => {}
                        part => self.end_block(part, false)?,
                    }
                }
                if self.skipped == 0 {
                    self.open_part(part, node);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether an element is a menu, which is before the first text or in the header of a page. What is in a list is
    /// one with the list.
    fn is_menu(&self, node: &NodeRef<'_, Node>, part: Part) -> bool {
        let is_list = matches!(part, Part::List(_)) && self.lists.is_empty() && self.cell_from.is_none();
        is_list && ((self.may_be_menu && !self.has_text) || is_in_header(node)) && is_menu(node)
    }

    /// Ends the block before an element that is skipped.
    fn end_skipped_block(&mut self, part: Part) -> Result<(), ParseError> {
        match part {
            Part::Inline | Part::LineBreak | Part::Cell(_) | Part::Row | Part::Item(_) | Part::Term => Ok(()),
            Part::Title
            | Part::Heading(_)
            | Part::List(_)
            | Part::Definitions
            | Part::Fields
            | Part::Table
            | Part::Listing
            | Part::Code
            | Part::Block => self.end_block(part, false),
        }
    }

    /// Remembers the heading, list, table, row, cell or listing that begins.
    fn open_part(&mut self, part: Part, node: &NodeRef<'_, Node>) {
        match part {
            Part::Title => {
                self.is_below_title = true;
                self.titled = part_of_title(node);
                self.heading = Some(1);
            }
            Part::Heading(level) => self.heading = Some(level + u8::from(self.is_below_title)),
            Part::Fields => self.field_lists += 1,
            Part::Definitions => self.blocks.open_definitions(),
            Part::Term => self.in_term = self.field_lists == 0,
            Part::List(first) => {
                let has_items = !arranges_parts(node);
                self.lists.push(has_items);
                if has_items {
                    self.blocks.open_list(first);
                }
            }
            // One without a list around it is in none.
            Part::Item(number) if self.lists.last() == Some(&true) => self.blocks.item(number),
            Part::Table => {
                let has_data = self.listings == 0 && is_of_data(node);
                self.tables.push(has_data);
                if has_data {
                    self.blocks.open_table();
                }
            }
            Part::Row => self.begin_row(),
            Part::Cell(cell) => {
                self.in_row = self.tables.last() == Some(&true);
                self.cell_from = self.in_row.then_some(self.text.len());
                self.data_cells += usize::from(!cell.is_name);
            }
            Part::Listing => self.listings += 1,
            Part::Code => {
                self.listings += 1;
                self.code.get_or_insert((self.text.len(), self.listings));
            }
            Part::Inline | Part::LineBreak | Part::Item(_) | Part::Block => {}
        }
        self.may_be_menu &= self.heading.is_none();
    }

    fn begin_row(&mut self) {
        self.in_row = false;
        self.data_cells = 0;
        self.row_end = 0;
    }

    /// Forgets the text, and where in it something began.
    fn clear_text(&mut self) {
        self.text.clear();
        self.has_text = false;
        self.row_end = 0;
        self.cell_from = self.cell_from.map(|_| 0);
        self.code = self.code.map(|(_, listings)| (0, listings));
    }

    fn close(&mut self, node: &NodeRef<'_, Node>) -> Result<(), ParseError> {
        let Node::Element(element) = node.value() else {
            return Ok(());
        };
        self.in_title = false;
        if is_skipped(node, element) || self.menu.take_if(|menu| *menu == node.id()).is_some() {
            self.skipped -= 1;
            return Ok(());
        }
        let part = part(node, element);
        match part {
            Part::Inline | Part::LineBreak => {}
            _ if self.skipped > 0 => {}
            Part::Title | Part::Heading(_) => match self.heading {
                Some(level) => self.end_heading(level)?,
                // Another element has ended it.
                None => self.flush()?,
            },
            Part::Term if self.in_term => {
                self.in_term = false;
                self.blocks.term(&self.text)?;
                self.clear_text();
            }
            Part::Term if self.field_lists > 0 && self.listings == 0 => self.close_field_name(),
            Part::Cell(cell) => {
                self.close_cell();
                if cell.ends_row {
                    self.close_row()?;
                }
            }
            Part::Row => self.close_row()?,
            Part::Table if self.in_row => self.close_row()?,
            Part::Code => {
                self.close_code();
                self.end_block(part, self.listings == 1)?;
            }
            Part::Listing => self.end_block(part, self.listings == 1)?,
            _ => self.end_block(part, false)?,
        }
        if self.skipped == 0 {
            self.close_part(part);
        }
        if self.titled == Some(node.id()) {
            self.is_below_title = false;
        }
        Ok(())
    }

    /// Ends the name of a field with a colon.
    fn close_field_name(&mut self) {
        let name = self.text.trim_end();
        if name.is_empty() || self.heading.is_some() || self.cell_from.is_some() {
            return;
        }
        let sign = if name.ends_with(':') { " " } else { ": " };
        self.text.truncate(name.len());
        self.text.push_str(sign);
        self.is_field_name = true;
    }

    /// Lets the spaces of a listing collapse, as on the page.
    fn close_code(&mut self) {
        let Some((from, _)) = self.code.take_if(|(_, listings)| *listings == self.listings) else {
            return;
        };
        let code = self.text.split_off(from.min(self.text.len()));
        let lines = code
            .split('\n')
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        self.text.push_str(&lines.join("\n"));
    }

    fn close_cell(&mut self) {
        if let Some(from) = self.cell_from.take()
            && !self.text[from.min(self.text.len())..].trim().is_empty()
        {
            self.row_end = self.text.len();
        }
    }

    /// Adds the row without the empty cells at its end.
    fn close_row(&mut self) -> Result<(), ParseError> {
        if self.tables.last() != Some(&true) {
            return self.end_block(Part::Row, false);
        }
        self.text.truncate(self.row_end);
        self.blocks.row(None, &self.text, self.data_cells == 0)?;
        self.clear_text();
        self.begin_row();
        Ok(())
    }

    /// Ends the list, table or listing.
    fn close_part(&mut self, part: Part) {
        match part {
            Part::Fields => self.field_lists -= 1,
            Part::Definitions => self.blocks.close_definitions(),
            Part::List(_) => {
                if self.lists.pop() == Some(true) {
                    self.blocks.close_list();
                }
            }
            Part::Table => {
                if self.tables.pop() == Some(true) {
                    self.blocks.close_table();
                }
            }
            Part::Listing | Part::Code => self.listings -= 1,
            Part::Inline | Part::LineBreak | Part::Title | Part::Heading(_) | Part::Item(_) => {}
            Part::Term | Part::Row | Part::Cell(_) | Part::Block => {}
        }
    }

    /// Ends the open heading. One that is too long is text as well.
    fn end_heading(&mut self, level: u8) -> Result<(), ParseError> {
        self.heading = None;
        self.blocks.heading(level, &self.text);
        if prose(&self.text).len() > MAX_HEADING_BYTES {
            self.flush()?;
        }
        self.clear_text();
        Ok(())
    }

    /// Ends the block before or in an element. Elements in a listing are its lines.
    fn end_block(&mut self, part: Part, ends_listing: bool) -> Result<(), ParseError> {
        let is_heading = matches!(part, Part::Title | Part::Heading(_));
        if self.listings == 0 || ends_listing || is_heading {
            self.flush()
        } else {
            let end = if self.code.is_some() { ' ' } else { '\n' };
            if !self.text.is_empty() && !self.text.ends_with(end) {
                self.text.push(end);
            }
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), ParseError> {
        // A block within a heading, term or row does not end it.
        if self.heading.is_some() || self.in_term || self.in_row {
            self.text.push('\n');
            return Ok(());
        }
        let kind = if self.listings > 0 {
            BlockKind::Listing
        } else {
            BlockKind::Prose
        };
        self.blocks.push(kind, None, &self.text)?;
        self.may_be_menu &= !self.has_text;
        self.clear_text();
        self.is_field_name = false;
        Ok(())
    }
}

#[cfg(test)]
mod generator_tests;
#[cfg(test)]
mod tests;
