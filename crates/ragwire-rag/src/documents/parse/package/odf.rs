//! Reads OpenDocument: texts, presentations and spreadsheets, as LibreOffice writes them. Slides are pages and sheets are
//! headings. Deleted text, comments, indexes and hidden sheets are skipped.

use std::collections::HashMap;

use super::Archive;
use super::paragraphs::{Paragraphs, Role, role_of_name};
use super::pptx::{self, Text};
use super::xml::{self, Element, Xml};
use crate::documents::parse::blocks::{Blocks, prose};
use crate::documents::parse::csv::Table;
use crate::documents::parse::{DocumentKind, ParseError, Parsed};

/// Elements whose text is not part of the text.
const SKIPPED: [&str; 14] = [
    "alphabetical-index",
    "annotation",
    "automatic-styles",
    "bibliography",
    "desc",
    "illustration-index",
    "note-citation",
    "object-index",
    "ruby-text",
    "table-index",
    "table-of-content",
    "title",
    "tracked-changes",
    "user-index",
];
/// What repeats on every slide.
const FURNITURE: [&str; 4] = ["date-time", "footer", "header", "page-number"];
/// The most spaces, and columns of repeated cells, that are written out. Rows of a sheet end with thousands of empty cells.
const MAX_REPEATED: usize = 256;
/// The longest cell that is written more than once, in bytes.
const MAX_REPEATED_BYTES: usize = 1_000;

/// What an OpenDocument file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Slides,
    Sheets,
}

pub(super) fn parse(form: Form, archive: &mut Archive<'_>) -> Result<Parsed, ParseError> {
    let manifest = archive.part("META-INF/manifest.xml")?;
    if manifest.is_some_and(|manifest| manifest.contains("encryption-data")) {
        return Err(ParseError::Encrypted);
    }
    let meta = archive.part("meta.xml")?;
    let title = meta.map_or(Ok(None), |meta| super::text_of(&meta, "title", &archive.limits))?;
    let xml = archive.required("content.xml")?;
    let mut reader = Reader {
        form,
        written: Paragraphs::new(Blocks::new(&archive.limits), title),
        styles: styles(archive, &xml)?,
        list_styles: list_styles(archive, &xml)?,
        lists: Vec::new(),
        paragraphs: Vec::new(),
        inner: Vec::new(),
        tables: Vec::new(),
        sheet: Table::default(),
        page: 0,
        frames: Vec::new(),
        slide: Slide::default(),
        skipped: 0,
    };
    xml::walk(&xml, &archive.limits, |node| reader.node(node))?;
    reader.written.flush()?;
    let limit = archive.limits.max_pages;
    if reader.page > limit {
        return Err(ParseError::TooManyPages {
            pages: reader.page as usize,
            limit,
        });
    }
    let (kind, pages) = match form {
        Form::Text => (DocumentKind::Odt, None),
        Form::Slides => (DocumentKind::Odp, Some(reader.page)),
        Form::Sheets => (DocumentKind::Ods, None),
    };
    let Paragraphs { title, blocks, .. } = reader.written;
    let parsed = Parsed::new(kind, title, blocks);
    Ok(Parsed { pages, ..parsed })
}

/// A style that this file defines.
#[derive(Debug, Default)]
struct Style {
    role: Role,
    /// Whether a sheet with it is hidden.
    hides: bool,
}

/// Returns the styles of this file by their names. That of a paragraph varies a built-in style, its parent.
fn styles(archive: &Archive<'_>, xml: &str) -> Result<HashMap<String, Style>, ParseError> {
    let mut styles = HashMap::new();
    let mut open: Option<(String, Style)> = None;
    xml::walk(xml, &archive.limits, |node| {
        match node {
            Xml::Open("style", element) => {
                let name = element.get("name");
                let parent = element.get("parent-style-name").unwrap_or_default();
                let role = role_of(&parent);
                open = name.map(|name| (name, Style { role, hides: false }));
            }
            Xml::Open("table-properties", element) => {
                if let Some((_, style)) = &mut open {
                    style.hides = element.get("display").as_deref() == Some("false");
                }
            }
            Xml::Close("style") => styles.extend(open.take()),
            Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
        }
        Ok(())
    })?;
    Ok(styles)
}

/// Returns which levels of the file's list styles have numbers, by their names.
fn list_styles(archive: &mut Archive<'_>, content: &str) -> Result<HashMap<String, Vec<String>>, ParseError> {
    let mut styles: HashMap<String, Vec<String>> = HashMap::new();
    let common = archive.part("styles.xml")?;
    for xml in common.iter().map(String::as_str).chain([content]) {
        let mut open: Option<String> = None;
        xml::walk(xml, &archive.limits, |node| {
            match node {
                Xml::Open("list-style", element) => open = element.get("name"),
                Xml::Close("list-style") => open = None,
                Xml::Open("list-level-style-number", element) => {
                    let has_number = element.get("num-format").is_some_and(|format| !format.is_empty());
                    let level = element.get("level").filter(|_| has_number);
                    if let Some((name, level)) = open.clone().zip(level) {
                        styles.entry(name).or_default().push(level);
                    }
                }
                Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
            }
            Ok(())
        })?;
    }
    Ok(styles)
}

/// Returns the role of a built-in style, such as `Preformatted_20_Text`.
fn role_of(style: &str) -> Role {
    role_of_name(&style.replace("_20_", " ").to_lowercase())
}

#[derive(Debug, Default)]
struct Paragraph {
    role: Role,
    text: String,
}

/// An open table of a text or slide.
#[derive(Debug, Default)]
struct Rows {
    row: Vec<String>,
    cell: String,
    /// How many columns the open cell fills.
    columns: usize,
    in_cell: bool,
    in_header: bool,
    is_hidden: bool,
}

/// The slide that is open.
#[derive(Debug, Default)]
struct Slide {
    title: String,
    texts: Vec<Text>,
}

/// An open list of a text or a slide.
#[derive(Debug)]
struct List {
    /// Its style. An inner list has that of the outer one.
    style: String,
    /// The number of the next item of a slide, if the list has numbers.
    next: Option<u64>,
    /// Whether an item of a slide has begun that has no text yet.
    has_begun: bool,
}

#[derive(Debug)]
struct Reader {
    form: Form,
    written: Paragraphs,
    styles: HashMap<String, Style>,
    /// The levels with numbers of the list styles.
    list_styles: HashMap<String, Vec<String>>,
    /// The open lists.
    lists: Vec<List>,
    /// The open paragraphs: a text box or a note is inside of one.
    paragraphs: Vec<Paragraph>,
    /// The notes and text boxes in the open paragraph, which follow it.
    inner: Vec<String>,
    tables: Vec<Rows>,
    /// The open sheet.
    sheet: Table,
    /// The number of slides so far.
    page: u32,
    /// What the open frames of a slide are: `title`, `outline`.
    frames: Vec<String>,
    slide: Slide,
    /// How many enclosing elements are skipped.
    skipped: usize,
}

impl Reader {
    fn node(&mut self, node: Xml<'_>) -> Result<(), ParseError> {
        match node {
            Xml::Open(name, _) if SKIPPED.contains(&name) => self.skipped += 1,
            Xml::Close(name) if SKIPPED.contains(&name) => self.skipped -= 1,
            _ if self.skipped > 0 => {}
            Xml::Open(name, element) => self.open(name, &element),
            Xml::Close(name) => self.close(name)?,
            Xml::Text(text) => self.write(&text),
        }
        Ok(())
    }

    fn open(&mut self, name: &str, element: &Element<'_>) {
        match name {
            "p" | "h" => {
                let level = element.get("outline-level").and_then(|level| level.parse().ok());
                let style = element.get("style-name").unwrap_or_default();
                let role = match self.styles.get(&style) {
                    _ if name == "h" => Role::Heading(level.unwrap_or(1)),
                    Some(style) => style.role,
                    None => role_of(&style),
                };
                self.paragraphs.push(Paragraph {
                    role,
                    text: String::new(),
                });
            }
            "list" if self.form != Form::Sheets => {
                let outer = self.lists.last().map(|list| list.style.clone());
                let style = element.get("style-name").or(outer).unwrap_or_default();
                let level = (self.lists.len() + 1).to_string();
                let levels = self.list_styles.get(&style);
                let has_numbers = levels.is_some_and(|levels| levels.contains(&level));
                if self.form == Form::Text {
                    self.written.blocks.open_list(has_numbers.then_some(1));
                }
                self.lists.push(List {
                    style,
                    next: has_numbers.then_some(1),
                    has_begun: false,
                });
            }
            "list-item" if self.form == Form::Text => {
                self.written.blocks.item(start_value(element));
            }
            "list-item" => {
                if let Some(list) = self.lists.last_mut() {
                    list.next = list.next.map(|next| start_value(element).unwrap_or(next));
                    list.has_begun = true;
                }
            }
            "s" => self.write(&" ".repeat(repeated(element, "c"))),
            "tab" => self.write("\t"),
            "line-break" => self.write("\n"),
            "page" if self.form == Form::Slides => self.page += 1,
            "frame" | "custom-shape" => self.frames.push(element.get("class").unwrap_or_default()),
            "table" => {
                let style = element
                    .get("style-name")
                    .and_then(|style| self.styles.get(&style));
                let is_hidden = style.is_some_and(|style| style.hides);
                self.sheet = Table::default();
                if self.form == Form::Sheets && !is_hidden {
                    self.written
                        .blocks
                        .heading(1, &element.get("name").unwrap_or_default());
                }
                if self.tables.is_empty() {
                    match self.form {
                        Form::Text => self.written.blocks.open_table(),
                        Form::Slides => self.slide.texts.push(Text::TableBegins),
                        Form::Sheets => {}
                    }
                }
                self.tables.push(Rows {
                    is_hidden,
                    ..Rows::default()
                });
            }
            "table-header-rows" | "table-cell" | "covered-table-cell" => {
                let columns = repeated(element, "number-columns-repeated");
                if let Some(table) = self.tables.last_mut() {
                    table.in_header |= name == "table-header-rows";
                    table.columns = columns;
                    table.in_cell |= name != "table-header-rows";
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) -> Result<(), ParseError> {
        match name {
            "p" | "h" => self.paragraph(),
            "list" => {
                if self.lists.pop().is_some() && self.form == Form::Text {
                    self.written.blocks.close_list();
                }
                Ok(())
            }
            "page" if self.form == Form::Slides => self.end_slide(),
            "frame" | "custom-shape" => {
                self.frames.pop();
                Ok(())
            }
            "table-cell" | "covered-table-cell" => {
                if let Some(table) = self.tables.last_mut() {
                    table.in_cell = false;
                    let cell = std::mem::take(&mut table.cell).trim().to_owned();
                    let is_short = self.form == Form::Sheets && cell.len() <= MAX_REPEATED_BYTES;
                    let room = MAX_REPEATED.saturating_sub(table.row.len());
                    let columns = if is_short { table.columns.min(room) } else { 1 };
                    table.row.extend(std::iter::repeat_n(cell, columns.max(1)));
                }
                Ok(())
            }
            "table-row" => self.row(),
            "table-header-rows" => {
                if let Some(table) = self.tables.last_mut() {
                    table.in_header = false;
                }
                Ok(())
            }
            "table" => {
                if self.tables.pop().is_some() && self.tables.is_empty() {
                    match self.form {
                        Form::Text => self.written.blocks.close_table(),
                        Form::Slides => self.slide.texts.push(Text::TableEnds),
                        Form::Sheets => {}
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, text: &str) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.text.push_str(text);
        }
    }

    fn row(&mut self) -> Result<(), ParseError> {
        let Some(table) = self.tables.last_mut() else {
            return Ok(());
        };
        let (mut row, in_header, is_hidden) =
            (std::mem::take(&mut table.row), table.in_header, table.is_hidden);
        while row.last().is_some_and(String::is_empty) {
            row.pop();
        }
        if row.is_empty() || is_hidden {
            return Ok(());
        }
        if self.form == Form::Sheets {
            return self
                .sheet
                .row(row.iter().map(String::as_str), &mut self.written.blocks);
        }
        let row = row.join(" | ");
        match self.tables.iter_mut().rev().nth(1) {
            Some(outer) => {
                outer.cell.push_str(&row);
                outer.cell.push(' ');
                Ok(())
            }
            None if self.form == Form::Slides => {
                let (text, has_names) = (row, in_header);
                self.slide.texts.push(Text::Row { text, has_names });
                Ok(())
            }
            None => {
                self.written.flush()?;
                self.written.blocks.row(None, &row, in_header)
            }
        }
    }

    fn paragraph(&mut self) -> Result<(), ParseError> {
        let Some(Paragraph { role, text }) = self.paragraphs.pop() else {
            return Ok(());
        };
        if let Some(table) = self.tables.last_mut().filter(|table| table.in_cell) {
            table.cell.push_str(&text);
            table.cell.push(' ');
            return Ok(());
        }
        if self.form == Form::Slides {
            match self.frames.last().map(String::as_str) {
                Some(class) if FURNITURE.contains(&class) => {}
                Some("title") => {
                    self.slide.title.push_str(&text);
                    self.slide.title.push(' ');
                }
                _ => {
                    let text = self.slide_text(text);
                    self.slide.texts.push(text);
                }
            }
            return Ok(());
        }
        if !self.paragraphs.is_empty() {
            self.inner.push(text);
            return Ok(());
        }
        self.written.push(role, &text)?;
        for text in std::mem::take(&mut self.inner) {
            self.written.push(Role::Prose, &text)?;
        }
        Ok(())
    }

    /// Returns a paragraph of a slide with its place in a list.
    fn slide_text(&mut self, text: String) -> Text {
        let depth = u32::try_from(self.lists.len()).unwrap_or(u32::MAX);
        let begun = self.lists.last_mut().filter(|list| list.has_begun);
        let Some(list) = begun.filter(|_| !prose(&text).is_empty()) else {
            return Text::Paragraph(text);
        };
        list.has_begun = false;
        let number = list.next;
        list.next = number.map(|number| number.saturating_add(1));
        Text::Item { depth, number, text }
    }

    fn end_slide(&mut self) -> Result<(), ParseError> {
        let Slide { title, texts } = std::mem::take(&mut self.slide);
        let number = format!("Slide {}", self.page);
        self.written
            .blocks
            .heading(1, if title.trim().is_empty() { &number } else { &title });
        pptx::push(&mut self.written.blocks, self.page, texts)
    }
}

/// Returns the number that an item has if it is not the next one.
fn start_value(item: &Element<'_>) -> Option<u64> {
    item.get("start-value").and_then(|value| value.parse().ok())
}

/// Returns how often something is repeated.
fn repeated(element: &Element<'_>, name: &str) -> usize {
    let count = element.get(name).and_then(|count| count.parse().ok());
    count.unwrap_or(1).min(MAX_REPEATED)
}
