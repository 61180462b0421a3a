//! Reads JSON, JSON Lines and notebooks.
//!
//! JSON is written as one line for each value, with its path: `server.port: 8080`. A member of the
//! outermost object that has members itself is a heading. A list of objects is a table. What is not
//! valid JSON is read as a listing.

use serde_json::{Map, Value};

use super::blocks::Blocks;
use super::csv::Table;
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed, markdown, text};

/// The most text of one output of a notebook, in bytes: more is data.
const MAX_OUTPUT_BYTES: usize = 4_000;

pub(super) fn parse(source: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut writer = Writer {
        blocks: Blocks::new(limits),
        lines: String::new(),
    };
    let mut title = None;
    match serde_json::from_str(source) {
        Ok(Value::Object(members)) => {
            title = members.get("title").and_then(Value::as_str).map(str::to_owned);
            writer.object(&members)?;
        }
        Ok(Value::Array(items)) => writer.array("", &items)?,
        Ok(other) => writer.value("", &other)?,
        Err(_) => {
            let lines: Result<Vec<Value>, _> = source
                .lines()
                .filter(|line| !line.trim().is_empty())
                .map(serde_json::from_str)
                .collect();
            match lines {
                Ok(items) => writer.array("", &items)?,
                // Comments, trailing commas, or nested deeper than anyone reads.
                Err(_) => writer.blocks.push(BlockKind::Listing, None, source)?,
            }
        }
    }
    writer.flush()?;
    Ok(Parsed::new(DocumentKind::Json, title, writer.blocks))
}

#[derive(Debug)]
struct Writer {
    blocks: Blocks,
    /// The lines since the last block.
    lines: String,
}

impl Writer {
    /// Writes the outermost object.
    fn object(&mut self, members: &Map<String, Value>) -> Result<(), ParseError> {
        for (name, value) in members.iter().filter(|(_, value)| !has_members(value)) {
            self.value(name, value)?;
        }
        for (name, value) in members.iter().filter(|(_, value)| has_members(value)) {
            self.flush()?;
            self.blocks.heading(1, name);
            match value {
                Value::Array(items) => self.array("", items)?,
                value => self.value("", value)?,
            }
        }
        Ok(())
    }

    /// Writes a list: as a table, if it holds flat objects.
    fn array(&mut self, path: &str, items: &[Value]) -> Result<(), ParseError> {
        let is_flat = |item: &Value| match item {
            Value::Object(members) => {
                !members.is_empty() && members.values().all(|value| !has_members(value))
            }
            _ => false,
        };
        if items.len() < 2 || !items.iter().all(is_flat) {
            for (at, item) in items.iter().enumerate() {
                self.value(&format!("{path}[{at}]"), item)?;
                if path.is_empty() {
                    self.flush()?;
                }
            }
            return Ok(());
        }
        self.flush()?;
        let mut names: Vec<&str> = Vec::new();
        for name in items.iter().filter_map(Value::as_object).flat_map(Map::keys) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
            // More are not a table.
            if names.len() > 64 {
                break;
            }
        }
        let mut table = Table::default();
        table.row(names.iter().copied(), &mut self.blocks)?;
        for item in items {
            let cells: Vec<String> = names.iter().map(|name| plain(&item[*name])).collect();
            table.row(cells.iter().map(String::as_str), &mut self.blocks)?;
        }
        Ok(())
    }

    // As deep as serde_json reads, which is 128.
    fn value(&mut self, path: &str, value: &Value) -> Result<(), ParseError> {
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (name, value) in members {
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    self.value(&path, value)?;
                }
            }
            Value::Array(items) if items.iter().any(has_members) => self.array(path, items)?,
            value => {
                if !path.is_empty() {
                    self.lines.push_str(path);
                    self.lines.push_str(": ");
                }
                self.lines.push_str(&plain(value));
                self.lines.push('\n');
                if self.lines.len() > text::LISTING_BYTES {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ParseError> {
        self.blocks.push(BlockKind::Listing, None, &self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

fn has_members(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => items.iter().any(has_members),
        _ => false,
    }
}

/// Writes a value without members on one line.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Null => String::new(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Reads a Jupyter notebook: its Markdown, its code, and what the code printed.
pub(super) fn parse_notebook(source: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let Ok(Value::Object(notebook)) = serde_json::from_str::<Value>(source) else {
        return Err(ParseError::damaged("notebook", "it is not a JSON object"));
    };
    // Format 3 has its cells in worksheets.
    let cells = notebook
        .get("cells")
        .or_else(|| notebook.get("worksheets")?.get(0)?.get("cells"));
    let mut reader = markdown::Reader::new(limits);
    for cell in cells.and_then(Value::as_array).into_iter().flatten() {
        let source = joined(cell.get("source").or_else(|| cell.get("input")));
        match cell["cell_type"].as_str() {
            Some("markdown" | "heading") => reader.read(&source)?,
            Some("code") => {
                reader.blocks.push(BlockKind::Listing, None, &source)?;
                for output in cell["outputs"].as_array().into_iter().flatten() {
                    let printed = output
                        .get("text")
                        .or_else(|| output.get("data")?.get("text/plain"));
                    let printed = joined(printed);
                    let printed = &printed[..printed.floor_char_boundary(MAX_OUTPUT_BYTES)];
                    reader.blocks.push(BlockKind::Listing, None, printed)?;
                }
            }
            _ => reader.blocks.push(BlockKind::Prose, None, &source)?,
        }
    }
    Ok(Parsed {
        kind: DocumentKind::Notebook,
        ..reader.finish()
    })
}

/// Text in a notebook is a string or a list of lines.
fn joined(text: Option<&Value>) -> String {
    match text {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{check_blocks, check_returns_soon};

    #[test]
    fn members_are_lines_and_lists_of_objects_are_tables() {
        let source = r#"{"title": "Limits", "version": 2, "tags": ["a", "b"],
            "server": {"port": 8080, "tls": {"key": "k.pem"}, "empty": {}},
            "plans": [{"name": "free", "limit": 10}, {"name": "pro", "note": "no limit"}]}"#;
        let parsed = parse(source, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.title.as_deref(), Some("Limits"));
        let all: Vec<_> = parsed
            .blocks
            .iter()
            .map(|block| (block.heading.as_deref().unwrap_or(""), block.text.as_str()))
            .collect();
        assert_eq!(
            all,
            [
                ("", "title: Limits\nversion: 2\ntags: a, b"),
                ("server", "port: 8080\ntls.key: k.pem\nempty: {}"),
                ("plans", "name | limit | note"),
                ("plans", "name: free | limit: 10"),
                ("plans", "name: pro | note: no limit"),
            ]
        );
    }

    #[test]
    fn lines_and_what_is_not_json_are_read() {
        let texts = |source: &str| -> Vec<String> {
            let parsed = parse(source, &ParseLimits::default()).unwrap();
            parsed.blocks.into_iter().map(|block| block.text).collect()
        };
        assert_eq!(texts("{\"a\": 1}\n{\"a\": 2}\n"), ["a", "1", "2"]);
        assert_eq!(
            texts("{\"a\": {\"b\": 1}}\n{\"c\": 2}\n"),
            ["[0].a.b: 1", "[1].c: 2"]
        );
        assert_eq!(texts("{ // no\n  \"a\": 1,\n}"), ["{ // no\n  \"a\": 1,\n}"]);
    }

    #[test]
    fn a_notebook_is_markdown_code_and_output() {
        let notebook = r###"{"nbformat": 4, "cells": [
            {"cell_type": "markdown", "source": ["# Birds\n", "\n", "A robin sings.\n"]},
            {"cell_type": "code", "source": "print(1)\nx = 2", "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "iVBOR", "text/plain": "<Figure>"}}]},
            {"cell_type": "markdown", "source": "## Owls\n\nAn owl hunts."}]}"###;
        let parsed = parse_notebook(notebook, &ParseLimits::default()).unwrap();
        assert_eq!(
            (parsed.kind, parsed.title.as_deref()),
            (DocumentKind::Notebook, Some("Birds"))
        );
        check_blocks(
            &parsed,
            &[
                ("Birds", "A robin sings."),
                ("Birds", "print(1)\nx = 2"),
                ("Birds", "1"),
                ("Birds", "<Figure>"),
                ("Birds > Owls", "An owl hunts."),
            ],
        );
        assert_eq!(
            parse_notebook("[]", &ParseLimits::default()).unwrap_err().code(),
            "damaged"
        );
    }

    #[test]
    fn hostile_json_returns_soon() {
        let pieces = ["[", "{\"a\":", "\"", "[{\"a\":1},", "1,", "{}", "\n{\"a\":1}"];
        check_returns_soon(parse, &pieces);
        check_returns_soon(
            |text, limits| parse_notebook(text, limits).or_else(|_| parse(text, limits)),
            &pieces,
        );
    }
}
