//! Reads documents of Word: paragraphs with the headings of their styles, tables, listings and notes.
//! Page headers and footers are other parts, and deleted text is skipped.

use std::collections::HashMap;

use super::numbering::{ListPlace, Numberings};
use super::paragraphs::{Paragraphs, Role, role_of_name};
use super::xml::{self, Xml};
use super::{Archive, MAX_CHAIN};
use crate::documents::parse::blocks::Blocks;
use crate::documents::parse::{DocumentKind, ParseError, Parsed};

/// Elements whose text is not part of the text: another version of it, or instructions.
const SKIPPED: [&str; 4] = ["Fallback", "moveFrom", "del", "instrText"];

pub(super) fn parse(archive: &mut Archive<'_>) -> Result<Parsed, ParseError> {
    let main = archive.main_part()?;
    let relations = archive.relations(&main)?;
    let part = |kind: &str| {
        let found = relations.values().find(|relation| relation.kind == kind);
        found.map(|relation| relation.part.clone())
    };
    let styles = match part("styles") {
        Some(name) => Styles::read(archive, &name)?,
        None => Styles::default(),
    };
    let numberings = match part("numbering") {
        Some(name) => Numberings::read(archive, &name)?,
        None => Numberings::default(),
    };
    let mut reader = Reader {
        numberings,
        written: Paragraphs::new(Blocks::new(&archive.limits), archive.title()?),
        styles,
        paragraphs: Vec::new(),
        tables: Vec::new(),
        skipped: 0,
        in_text: false,
        in_run: 0,
    };
    let mut parts = vec![archive.required(&main)?];
    for notes in [part("footnotes"), part("endnotes")].into_iter().flatten() {
        parts.extend(archive.part(&notes)?);
    }
    for xml in parts {
        xml::walk(&xml, &archive.limits, |node| reader.node(node))?;
        reader.written.flush()?;
    }
    let Paragraphs { title, blocks, .. } = reader.written;
    Ok(Parsed::new(DocumentKind::Docx, title, blocks))
}

#[derive(Debug, Default)]
struct Style {
    role: Role,
    based_on: Option<String>,
    place: ListPlace,
}

#[derive(Debug, Default)]
struct Styles(HashMap<String, Style>);

impl Styles {
    fn read(archive: &mut Archive<'_>, name: &str) -> Result<Self, ParseError> {
        let mut styles = HashMap::new();
        let Some(xml) = archive.part(name)? else {
            return Ok(Self(styles));
        };
        let mut open: Option<(String, Style)> = None;
        xml::walk(&xml, &archive.limits, |node| {
            match node {
                Xml::Open("style", element) => {
                    open = element.get("styleId").map(|id| (id, Style::default()));
                }
                Xml::Close("style") => styles.extend(open.take()),
                Xml::Open(name, element) => {
                    if let (Some((_, style)), Some(value)) = (&mut open, element.get("val")) {
                        style.property(name, value);
                    }
                }
                Xml::Close(_) | Xml::Text(_) => {}
            }
            Ok(())
        })?;
        Ok(Self(styles))
    }

    /// Returns a style and those that it is based on.
    fn chain<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a Style> {
        let base = |style: &&'a Style| self.0.get(style.based_on.as_ref()?);
        std::iter::successors(self.0.get(id), base).take(MAX_CHAIN)
    }

    fn role(&self, id: &str) -> Role {
        let mut roles = self.chain(id).map(|style| style.role);
        roles.find(|role| *role != Role::Prose).unwrap_or_default()
    }

    fn place(&self, id: &str) -> Option<&ListPlace> {
        self.chain(id)
            .map(|style| &style.place)
            .find(|place| place.numbering.is_some())
    }
}

impl Style {
    fn property(&mut self, name: &str, value: String) {
        match name {
            "name" if self.role == Role::Prose => self.role = role_of_name(&value.to_lowercase()),
            "outlineLvl" if self.role == Role::Prose => self.role = role_of_outline(&value),
            "basedOn" => self.based_on = Some(value),
            _ => self.place.property(name, &value),
        }
    }
}

fn role_of_outline(level: &str) -> Role {
    match level.parse::<u8>() {
        Ok(level @ 0..=8) => Role::Heading(level + 1),
        _ => Role::Prose,
    }
}

#[derive(Debug, Default)]
struct Paragraph {
    role: Role,
    style: String,
    place: ListPlace,
    text: String,
}

#[derive(Debug, Default)]
struct Table {
    row: Vec<String>,
    cell: String,
    /// Whether the next row has the names of the columns.
    has_names: bool,
}

/// Returns whether a table is shown with a first row that differs, which has the names of the columns. Older
/// documents say it with a bit.
fn marks_first_row(look: &xml::Element<'_>) -> bool {
    const FIRST_ROW: u32 = 0x20;
    match look.get("firstRow") {
        Some(value) => ["1", "true", "on"].contains(&value.as_str()),
        None => {
            let bits = look
                .get("val")
                .and_then(|bits| u32::from_str_radix(&bits, 16).ok());
            bits.is_some_and(|bits| bits & FIRST_ROW != 0)
        }
    }
}

#[derive(Debug)]
struct Reader {
    written: Paragraphs,
    styles: Styles,
    numberings: Numberings,
    /// The open paragraphs: a text box is inside of one.
    paragraphs: Vec<Paragraph>,
    /// The open tables: one may be in a cell of another.
    tables: Vec<Table>,
    /// How many enclosing elements are skipped.
    skipped: usize,
    in_text: bool,
    in_run: usize,
}

impl Reader {
    fn node(&mut self, node: Xml<'_>) -> Result<(), ParseError> {
        match node {
            Xml::Open(name, _) if SKIPPED.contains(&name) => self.skipped += 1,
            Xml::Close(name) if SKIPPED.contains(&name) => self.skipped -= 1,
            _ if self.skipped > 0 => {}
            Xml::Open(name, element) => self.open(name, &element),
            Xml::Close(name) => self.close(name)?,
            Xml::Text(text) if self.in_text => self.write(&text),
            Xml::Text(_) => {}
        }
        Ok(())
    }

    fn open(&mut self, name: &str, element: &xml::Element<'_>) {
        match name {
            "p" => self.paragraphs.push(Paragraph::default()),
            "pStyle" => {
                if let (Some(paragraph), Some(style)) = (self.paragraphs.last_mut(), element.get("val")) {
                    paragraph.role = self.styles.role(&style);
                    paragraph.style = style;
                }
            }
            "outlineLvl" => {
                let role = element.get("val").map(|level| role_of_outline(&level));
                if let (Some(paragraph), Some(role @ Role::Heading(_))) = (self.paragraphs.last_mut(), role) {
                    paragraph.role = role;
                }
            }
            "numId" | "ilvl" => {
                if let (Some(paragraph), Some(value)) = (self.paragraphs.last_mut(), element.get("val")) {
                    paragraph.place.property(name, &value);
                }
            }
            "r" => self.in_run += 1,
            "t" => self.in_text = self.in_run > 0,
            // A tabulator of a paragraph's properties is outside of runs.
            "tab" if self.in_run > 0 => self.write("\t"),
            "br" | "cr" if self.in_run > 0 => self.write("\n"),
            "noBreakHyphen" => self.write("-"),
            "tbl" => {
                if self.tables.is_empty() {
                    self.written.blocks.open_table();
                }
                self.tables.push(Table::default());
            }
            "tblLook" | "tblHeader" => {
                if let Some(table) = self.tables.last_mut() {
                    table.has_names |= name == "tblHeader" || marks_first_row(element);
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) -> Result<(), ParseError> {
        match name {
            "p" => return self.paragraph(),
            "r" => self.in_run = self.in_run.saturating_sub(1),
            "t" => self.in_text = false,
            "tc" => {
                if let Some(table) = self.tables.last_mut() {
                    let cell = std::mem::take(&mut table.cell);
                    table.row.push(cell.trim().to_owned());
                }
            }
            "tr" => {
                let Some(table) = self.tables.last_mut() else {
                    return Ok(());
                };
                let row = std::mem::take(&mut table.row).join(" | ");
                let has_names = std::mem::take(&mut table.has_names);
                match self.tables.iter_mut().rev().nth(1) {
                    Some(outer) => {
                        outer.cell.push_str(&row);
                        outer.cell.push(' ');
                    }
                    None => {
                        self.written.flush()?;
                        self.written.blocks.row(None, &row, has_names)?;
                    }
                }
            }
            "tbl" if self.tables.pop().is_some() && self.tables.is_empty() => {
                self.written.blocks.close_table()
            }
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self, text: &str) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.text.push_str(text);
        }
    }

    fn paragraph(&mut self) -> Result<(), ParseError> {
        let Some(paragraph) = self.paragraphs.pop() else {
            return Ok(());
        };
        let Paragraph {
            role,
            style,
            place,
            text,
        } = paragraph;
        // A heading or a cell with a number counts too.
        let item = self.numberings.item(&place.or(self.styles.place(&style)));
        if let Some(table) = self.tables.last_mut() {
            table.cell.push_str(&text);
            table.cell.push(' ');
            return Ok(());
        }
        match item.filter(|_| role == Role::Prose) {
            Some((depth, number)) => self.written.push_item(depth, number, &text),
            None => self.written.push(role, &text),
        }
    }
}
