//! Reads the tables of reStructuredText: those of directives, grids, and simple ones with borders of `=`.

use super::super::csv::Table;
use super::inline::inline;
use super::{ParseError, Reader};

impl Reader<'_> {
    pub(super) fn csv(&mut self, body: &str) -> Result<(), ParseError> {
        let mut rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(body.as_bytes());
        for row in rows.records() {
            let row = row.map_err(|error| ParseError::damaged("table", &error))?;
            let cells: Vec<String> = row.iter().map(inline).collect();
            self.row(&cells)?;
        }
        Ok(())
    }

    pub(super) fn list_table(&mut self, body: &str) -> Result<(), ParseError> {
        let mut cells: Vec<String> = Vec::new();
        for line in body.lines() {
            let (starts_row, line) = match line.strip_prefix("* ") {
                Some(rest) => (true, rest),
                None => (false, line),
            };
            if starts_row && !cells.is_empty() {
                self.row(&cells)?;
                cells.clear();
            }
            let line = line.trim_start();
            match line.strip_prefix("- ").or_else(|| (line == "-").then_some("")) {
                Some(cell) => cells.push(inline(cell)),
                None => {
                    if let Some(cell) = cells.last_mut() {
                        cell.push(' ');
                        cell.push_str(&inline(line));
                    }
                }
            }
        }
        self.row(&cells)
    }

    fn row(&mut self, cells: &[String]) -> Result<(), ParseError> {
        let mut table = Table::default();
        table.row(cells.iter().map(String::as_str), &mut self.blocks)
    }

    pub(super) fn grid_table(&mut self) -> Result<(), ParseError> {
        self.flush()?;
        let mut cells: Vec<String> = Vec::new();
        while self.peek(0).starts_with(['+', '|']) {
            let line = self.peek(0);
            if line.starts_with('+') {
                let row: Vec<String> = cells.iter().map(|cell| inline(cell)).collect();
                self.row(&row)?;
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
        let row: Vec<String> = cells.iter().map(|cell| inline(cell)).collect();
        self.row(&row)
    }

    pub(super) fn simple_table(&mut self) -> Result<(), ParseError> {
        self.flush()?;
        let border = self.peek(0);
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
            self.at += 1;
            if is_simple_border(line) {
                // The last border, or the one below the first row.
                if self.peek(0).is_empty() {
                    break;
                }
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
                    cell.push_str(&inline(more));
                }
            } else {
                self.row(&row)?;
                row = cells.into_iter().map(inline).collect();
            }
        }
        self.row(&row)
    }
}

pub(super) fn is_simple_border(line: &str) -> bool {
    line.starts_with("==") && line.contains(" =") && line.bytes().all(|byte| matches!(byte, b'=' | b' '))
}
