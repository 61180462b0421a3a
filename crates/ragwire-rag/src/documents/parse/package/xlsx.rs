//! Reads spreadsheets: each sheet is a heading, each row a line with the names of its columns. Dates,
//! times and percentages are written as the sheet shows them; hidden sheets are skipped.
//!
//! `calamine` was not taken: it builds a compressor (zopfli) and a second inflate (zlib-rs), a third of
//! the time that all other formats of this folder take together.

use jiff::ToSpan;
use jiff::civil::date;

use super::xml::{self, Xml};
use super::{Archive, Relation};
use crate::documents::parse::blocks::Blocks;
use crate::documents::parse::csv::Table;
use crate::documents::parse::{DocumentKind, ParseError, Parsed};

/// Columns that keep their places. Excel has 16,384; cells further to the right follow each other.
const MAX_COLUMNS: usize = 256;
/// The name that Excel gives to the only sheet of a new file.
const DEFAULT_NAME: &str = "Sheet1";

pub(super) fn parse(archive: &mut Archive<'_>) -> Result<Parsed, ParseError> {
    let main = archive.main_part()?;
    let relations = archive.relations(&main)?;
    let part = |kind: &str| {
        relations
            .values()
            .find(|relation| relation.kind == kind)
            .map(|one| one.part.clone())
    };
    let mut sheets: Vec<(String, String)> = Vec::new();
    let mut from_1904 = false;
    let xml = archive.required(&main)?;
    xml::walk(&xml, &archive.limits, |node| {
        match node {
            Xml::Open("workbookPr", element) => {
                from_1904 = matches!(element.get("date1904").as_deref(), Some("1" | "true"));
            }
            Xml::Open("sheet", element) if element.get("state").is_none_or(|state| state == "visible") => {
                let sheet: Option<&Relation> = element.get_prefixed("r:id").and_then(|id| relations.get(&id));
                let name = element.get("name").unwrap_or_default();
                sheets.extend(sheet.map(|sheet| (name, sheet.part.clone())));
            }
            Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
        }
        Ok(())
    })?;
    let mut reader = Reader {
        strings: strings(archive, part("sharedStrings"))?,
        formats: formats(archive, part("styles"))?,
        from_1904,
        blocks: Blocks::new(&archive.limits),
        table: Table::default(),
        row: Vec::new(),
        cell: Cell::default(),
        in_value: false,
    };
    let has_names = sheets.len() > 1 || sheets.iter().any(|(name, _)| name != DEFAULT_NAME);
    for (name, part) in &sheets {
        let Some(xml) = archive.part(part)? else {
            continue;
        };
        if has_names {
            reader.blocks.heading(1, name);
        }
        reader.table = Table::default();
        xml::walk(&xml, &archive.limits, |node| reader.node(node))?;
    }
    Ok(Parsed::new(DocumentKind::Xlsx, archive.title()?, reader.blocks))
}

/// Returns the texts that cells refer to.
fn strings(archive: &mut Archive<'_>, part: Option<String>) -> Result<Vec<String>, ParseError> {
    let mut strings = Vec::new();
    let Some(xml) = part.map_or(Ok(None), |part| archive.part(&part))? else {
        return Ok(strings);
    };
    // Phonetic text repeats the text in another writing.
    let (mut text, mut in_text, mut phonetic) = (String::new(), false, false);
    xml::walk(&xml, &archive.limits, |node| {
        match node {
            Xml::Open("rPh", _) => phonetic = true,
            Xml::Close("rPh") => phonetic = false,
            Xml::Open("t", _) => in_text = !phonetic,
            Xml::Close("t") => in_text = false,
            Xml::Close("si") => strings.push(std::mem::take(&mut text)),
            Xml::Text(part) if in_text => text.push_str(&part),
            Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
        }
        Ok(())
    })?;
    Ok(strings)
}

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Number,
    Percent,
    Date,
    Time,
    DateTime,
}

/// Returns the format of each style of cells.
fn formats(archive: &mut Archive<'_>, part: Option<String>) -> Result<Vec<Format>, ParseError> {
    let mut formats = Vec::new();
    let Some(xml) = part.map_or(Ok(None), |part| archive.part(&part))? else {
        return Ok(formats);
    };
    let mut own = std::collections::HashMap::new();
    let mut in_cells = false;
    xml::walk(&xml, &archive.limits, |node| {
        match node {
            Xml::Open("numFmt", element) => {
                if let (Some(id), Some(code)) = (element.get("numFmtId"), element.get("formatCode")) {
                    own.insert(id, format_of_code(&code));
                }
            }
            Xml::Open("cellXfs", _) => in_cells = true,
            Xml::Close("cellXfs") => in_cells = false,
            Xml::Open("xf", element) if in_cells => {
                let id = element.get("numFmtId").unwrap_or_default();
                let built_in = || format_of_id(id.parse().unwrap_or(0));
                formats.push(own.get(&id).copied().unwrap_or_else(built_in));
            }
            Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
        }
        Ok(())
    })?;
    Ok(formats)
}

/// The formats that every program has.
fn format_of_id(id: u32) -> Format {
    match id {
        9 | 10 => Format::Percent,
        14..=17 | 27..=31 | 36 | 50..=54 | 57 | 58 => Format::Date,
        18..=21 | 32..=35 | 45..=47 | 55 | 56 => Format::Time,
        22 => Format::DateTime,
        _ => Format::Number,
    }
}

/// Reads a code such as `yyyy-mm-dd`: letters outside of quotation marks and brackets.
fn format_of_code(code: &str) -> Format {
    let (mut quoted, mut bracketed, mut escaped) = (false, false, false);
    let mut letters = String::new();
    for letter in code.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' | '_' | '*' => escaped = true,
            '"' => quoted = !quoted,
            '[' => bracketed = true,
            ']' => bracketed = false,
            // The second part is for negative numbers.
            ';' if !quoted => break,
            _ if !quoted && !bracketed => letters.push(letter.to_ascii_lowercase()),
            _ => {}
        }
    }
    let (has_day, has_hour) = (letters.contains(['y', 'd']), letters.contains(['h', 's']));
    match (has_day, has_hour) {
        (true, true) => Format::DateTime,
        (true, false) => Format::Date,
        (false, true) => Format::Time,
        (false, false) if letters.contains('%') => Format::Percent,
        (false, false) => Format::Number,
    }
}

/// The open cell.
#[derive(Debug, Default)]
struct Cell {
    column: Option<usize>,
    /// `s` for a shared text, `b`, `str`, `inlineStr`, `e`, `d`, and nothing for a number.
    kind: String,
    style: usize,
    value: String,
}

#[derive(Debug)]
struct Reader {
    strings: Vec<String>,
    formats: Vec<Format>,
    /// Whether days are counted from 1904, as old versions for Macintosh did.
    from_1904: bool,
    blocks: Blocks,
    table: Table,
    row: Vec<String>,
    cell: Cell,
    in_value: bool,
}

impl Reader {
    fn node(&mut self, node: Xml<'_>) -> Result<(), ParseError> {
        match node {
            Xml::Open("c", element) => {
                self.cell = Cell {
                    column: element.get("r").and_then(|reference| column(&reference)),
                    kind: element.get("t").unwrap_or_default(),
                    style: element.get("s").and_then(|style| style.parse().ok()).unwrap_or(0),
                    value: String::new(),
                };
            }
            Xml::Open("v" | "t", _) => self.in_value = true,
            Xml::Close("v" | "t") => self.in_value = false,
            Xml::Text(text) if self.in_value => self.cell.value.push_str(&text),
            Xml::Close("c") => {
                let cell = std::mem::take(&mut self.cell);
                let text = self.text(&cell);
                let column = cell.column.filter(|column| *column < MAX_COLUMNS);
                while column.is_some_and(|column| self.row.len() < column) {
                    self.row.push(String::new());
                }
                self.row.push(text);
            }
            Xml::Close("row") => {
                let row = std::mem::take(&mut self.row);
                self.table.row(row.iter().map(String::as_str), &mut self.blocks)?;
            }
            Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
        }
        Ok(())
    }

    fn text(&self, cell: &Cell) -> String {
        match cell.kind.as_str() {
            "s" => {
                let text = cell
                    .value
                    .trim()
                    .parse()
                    .ok()
                    .and_then(|at: usize| self.strings.get(at));
                text.cloned().unwrap_or_default()
            }
            "b" => if cell.value.trim() == "1" { "TRUE" } else { "FALSE" }.to_owned(),
            "" | "n" => match cell.value.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => {
                    let format = self.formats.get(cell.style).copied().unwrap_or(Format::Number);
                    shown(number, format, self.from_1904)
                }
                _ => cell.value.clone(),
            },
            // Texts of formulas, texts in the cell, dates of ISO 8601, and errors.
            _ => cell.value.clone(),
        }
    }
}

/// Returns the index of a column: 27 for `AB12`.
fn column(reference: &str) -> Option<usize> {
    let letters = reference.bytes().take_while(u8::is_ascii_alphabetic);
    let column = letters.fold(0usize, |sum, letter| {
        sum.saturating_mul(26)
            .saturating_add(usize::from(letter.to_ascii_uppercase() - b'A' + 1))
    });
    column.checked_sub(1)
}

fn shown(number: f64, format: Format, from_1904: bool) -> String {
    match format {
        Format::Number => plain(number),
        Format::Percent => format!("{}%", plain(number * 100.0)),
        Format::Date | Format::Time | Format::DateTime => {
            moment(number, format, from_1904).unwrap_or_else(|| plain(number))
        }
    }
}

/// Writes a number with the 15 digits that a spreadsheet has.
fn plain(number: f64) -> String {
    let rounded: f64 = format!("{number:.14e}").parse().unwrap_or(number);
    rounded.to_string()
}

/// Returns a date or a time of a number of days.
fn moment(days: f64, format: Format, from_1904: bool) -> Option<String> {
    // Day 60 is 29 February 1900, which did not exist; days before it are rare enough.
    let start = if from_1904 {
        date(1904, 1, 1)
    } else {
        date(1899, 12, 30)
    };
    let seconds = Some((days * 86_400.0).round()).filter(|seconds| (0.0..3e11).contains(seconds))?;
    let moment = start
        .at(0, 0, 0, 0)
        .checked_add((seconds as i64).seconds())
        .ok()?;
    let (day, time) = (moment.date(), moment.time());
    Some(match format {
        Format::Time => time.to_string(),
        Format::DateTime => format!("{day} {time}"),
        Format::Date | Format::Number | Format::Percent => day.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_shown() {
        let cases = [
            (0.1 + 0.2, Format::Number, "0.3"),
            (1_000_000.0, Format::Number, "1000000"),
            (0.255, Format::Percent, "25.5%"),
            (46_053.0, Format::Date, "2026-01-31"),
            (46_053.437_5, Format::DateTime, "2026-01-31 10:30:00"),
            (0.4375, Format::Time, "10:30:00"),
            (1e300, Format::Date, &1e300.to_string()),
            (-5.0, Format::Date, "-5"),
        ];
        for (number, format, text) in cases {
            assert_eq!(shown(number, format, false), text);
        }
        assert_eq!(shown(44_591.0, Format::Date, true), "2026-01-31");
    }

    #[test]
    fn codes_and_references_are_read() {
        let cases = [
            ("yyyy\\-mm\\-dd", Format::Date),
            ("[$-409]h:mm AM/PM", Format::Time),
            ("dd.mm.yy hh:mm", Format::DateTime),
            ("0.0%", Format::Percent),
            ("#,##0.00 \"days\"", Format::Number),
            ("General", Format::Number),
        ];
        for (code, format) in cases {
            assert_eq!(format_of_code(code), format, "{code}");
        }
        for (reference, index) in [
            ("A1", Some(0)),
            ("z9", Some(25)),
            ("AB12", Some(27)),
            ("12", None),
        ] {
            assert_eq!(column(reference), index);
        }
        assert!(column(&"Z".repeat(100)).is_some());
    }
}
