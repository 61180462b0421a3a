//! Reads the tables of reStructuredText: those of directives, grids, and simple ones with borders of `=`.

use super::{ParseError, Reader, indent};

/// The names of the columns of a table that a directive begins.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The names, where an option has them.
    header: String,
    /// Whether the first row has them.
    first_row: bool,
}

impl Names {
    /// Reads the options of a directive: `:header: "a", "b"`, `:header-rows: 1`.
    pub(super) fn from_options(options: &[&str]) -> Self {
        let value = |name: &str| {
            let mut values = options.iter().filter_map(|line| line.trim().strip_prefix(name));
            values.next().map(str::trim)
        };
        Self {
            header: value(":header:").unwrap_or_default().to_owned(),
            first_row: value(":header-rows:").is_some_and(|rows| rows != "0"),
        }
    }
}

impl Reader<'_> {
    pub(super) fn csv_table(&mut self, body: &str, names: &Names) -> Result<(), ParseError> {
        self.blocks.open_table();
        let text = format!("{}\n{body}", names.header);
        let text = without_spaces_after_commas(&text);
        let mut rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let has_names = names.first_row || !names.header.is_empty();
        for (at, row) in rows.records().enumerate() {
            let row = row.map_err(|error| ParseError::damaged("table", &error))?;
            let cells: Vec<String> = row.iter().map(|cell| self.plain(cell)).collect();
            self.row(&cells, has_names && at == 0)?;
        }
        self.blocks.close_table();
        Ok(())
    }

    pub(super) fn list_table(&mut self, body: &str, names: &Names) -> Result<(), ParseError> {
        self.blocks.open_table();
        let mut has_names = names.first_row;
        let mut cells: Vec<String> = Vec::new();
        for line in body.lines() {
            let (starts_row, line) = match line.strip_prefix("* ") {
                Some(rest) => (true, rest),
                None => (false, line),
            };
            if starts_row && !cells.is_empty() {
                self.row(&cells, std::mem::take(&mut has_names))?;
                cells.clear();
            }
            let line = line.trim_start();
            match line.strip_prefix("- ").or_else(|| (line == "-").then_some("")) {
                Some(cell) => cells.push(self.plain(cell)),
                None => {
                    if let Some(cell) = cells.last_mut() {
                        cell.push(' ');
                        cell.push_str(&self.plain(line));
                    }
                }
            }
        }
        self.row(&cells, has_names)?;
        self.blocks.close_table();
        Ok(())
    }

    /// Adds a row, which may have the names of the columns.
    fn row(&mut self, cells: &[String], has_names: bool) -> Result<(), ParseError> {
        if cells.iter().all(|cell| cell.trim().is_empty()) {
            return Ok(());
        }
        let cells: Vec<&str> = cells.iter().map(|cell| cell.trim()).collect();
        self.blocks.row(None, &cells.join(" | "), has_names)
    }

    pub(super) fn grid_table(&mut self) -> Result<(), ParseError> {
        self.flush()?;
        self.blocks.open_table();
        let mut cells: Vec<String> = Vec::new();
        loop {
            let line = self.peek(0).trim_start();
            if !line.starts_with(['+', '|']) {
                break;
            }
            if line.starts_with('+') {
                let row: Vec<String> = cells.iter().map(|cell| self.plain(cell)).collect();
                self.row(&row, line.starts_with("+="))?;
                cells.clear();
            } else {
                let parts = line.trim_matches('|').split('|');
                for (at, part) in parts.enumerate() {
                    match cells.get_mut(at) {
                        Some(cell) => {
                            cell.push(' ');
                            cell.push_str(part.trim());
                        }
                        None => cells.push(part.trim().to_owned()),
                    }
                }
            }
            self.at += 1;
        }
        let row: Vec<String> = cells.iter().map(|cell| self.plain(cell)).collect();
        self.row(&row, false)?;
        self.blocks.close_table();
        Ok(())
    }

    pub(super) fn simple_table(&mut self) -> Result<(), ParseError> {
        self.flush()?;
        self.blocks.open_table();
        let outer = indent(self.peek(0));
        let border = &self.peek(0)[outer..];
        let starts: Vec<usize> = border
            .bytes()
            .enumerate()
            .filter(|(at, byte)| *byte == b'=' && (*at == 0 || border.as_bytes()[at - 1] == b' '))
            .map(|(at, _)| at)
            .collect();
        self.at += 1;
        let mut row: Vec<String> = Vec::new();
        while self.at < self.lines.len() {
            let line = self.peek(0);
            if !line.is_empty() && indent(line) < outer {
                break;
            }
            let line = line.get(outer..).unwrap_or_default();
            self.at += 1;
            if is_simple_border(line) {
                // The last border, or the one below the names of the columns.
                if self.peek(0).is_empty() {
                    break;
                }
                self.row(&row, true)?;
                row.clear();
                continue;
            }
            if line.is_empty() || line.bytes().all(|byte| matches!(byte, b'-' | b' ')) {
                continue;
            }
            let cell = |at: usize| {
                let start = line.floor_char_boundary(starts[at].min(line.len()));
                let end = starts.get(at + 1).copied().unwrap_or(line.len());
                let end = line.floor_char_boundary(end.min(line.len()));
                line.get(start..end).unwrap_or_default().trim()
            };
            let cells: Vec<&str> = (0..starts.len()).map(cell).collect();
            // A row without its first cell continues the row before.
            if cells.first().is_some_and(|first| first.is_empty()) && !row.is_empty() {
                for (cell, more) in row.iter_mut().zip(cells).filter(|(_, more)| !more.is_empty()) {
                    cell.push(' ');
                    cell.push_str(&self.plain(more));
                }
            } else {
                self.row(&row, false)?;
                row = cells.into_iter().map(|cell| self.plain(cell)).collect();
            }
        }
        self.row(&row, false)?;
        self.blocks.close_table();
        Ok(())
    }
}

/// Returns rows whose cells begin without a space: the reader of tables takes quotes after a space for text.
fn without_spaces_after_commas(rows: &str) -> String {
    let mut plain = String::with_capacity(rows.len());
    let (mut in_quotes, mut is_first) = (false, true);
    for c in rows.chars() {
        in_quotes ^= c == '"';
        if is_first && c == ' ' {
            continue;
        }
        is_first = !in_quotes && matches!(c, ',' | '\n');
        plain.push(c);
    }
    plain
}

/// Returns whether a line, without its indentation, begins or ends a simple table.
pub(super) fn is_simple_border(line: &str) -> bool {
    line.starts_with("==") && line.contains(" =") && line.bytes().all(|byte| matches!(byte, b'=' | b' '))
}
