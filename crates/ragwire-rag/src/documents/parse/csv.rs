//! Reads tables of separated values. Each row becomes a line with the names of its columns, so that a
//! passage, and a quote of one row, can be understood without the first row.

use super::blocks::Blocks;
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed};

/// The separators that are recognised.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Lines that decide the separator.
const SAMPLE_LINES: usize = 10;
/// The longest name of a column, in bytes. It is repeated in each row.
const MAX_COLUMN_BYTES: usize = 80;

pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(separator(text))
        .from_reader(text.as_bytes());
    let mut blocks = Blocks::new(limits);
    let mut table = Table::default();
    for record in reader.records() {
        // The text is UTF-8, and rows may have any length: nothing else can be wrong.
        let record = record.map_err(|error| ParseError::damaged("table", &error))?;
        table.row(record.iter(), &mut blocks)?;
    }
    Ok(Parsed::new(DocumentKind::Csv, None, blocks))
}

/// Returns the separator that occurs in the most of the first lines, and most often in them.
fn separator(text: &str) -> u8 {
    let lines = || text.lines().filter(|line| !line.is_empty()).take(SAMPLE_LINES);
    let uses = |separator: &u8| {
        let counts = lines().map(|line| line.bytes().filter(|byte| byte == separator).count());
        let (with, sum) = counts.fold((0, 0), |(with, sum), count| {
            (with + usize::from(count > 0), sum + count)
        });
        (with, sum)
    };
    // The last of equal ones, so the comma comes last.
    SEPARATORS.iter().rev().copied().max_by_key(uses).unwrap_or(b',')
}

/// Writes the rows of a table. The first row may have the names of the columns.
#[derive(Debug, Default)]
pub(super) struct Table {
    columns: Option<Vec<String>>,
    has_names: bool,
}

impl Table {
    pub(super) fn row<'a>(
        &mut self,
        cells: impl Iterator<Item = &'a str>,
        blocks: &mut Blocks,
    ) -> Result<(), ParseError> {
        let cells: Vec<&str> = cells.map(str::trim).collect();
        if cells.iter().all(|cell| cell.is_empty()) {
            return Ok(());
        }
        let Some(columns) = &self.columns else {
            self.has_names = are_names(&cells);
            let cut = |cell: &&str| cell[..cell.floor_char_boundary(MAX_COLUMN_BYTES)].to_owned();
            self.columns = Some(cells.iter().map(cut).collect());
            return blocks.push(BlockKind::Prose, None, &cells.join(" | "));
        };
        let mut line = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let name = columns.get(at).filter(|name| self.has_names && !name.is_empty());
            // An empty cell says nothing, unless its place is all that tells the column.
            if cell.is_empty() && self.has_names {
                continue;
            }
            if !line.is_empty() {
                line.push_str(" | ");
            }
            if let Some(name) = name {
                line.push_str(name);
                line.push_str(": ");
            }
            line.push_str(cell);
        }
        blocks.push(BlockKind::Prose, None, &line)
    }
}

/// Names of columns are different, and not numbers.
fn are_names(cells: &[&str]) -> bool {
    let filled = || cells.iter().filter(|cell| !cell.is_empty());
    filled().count() >= 2
        && filled().all(|cell| cell.parse::<f64>().is_err())
        && filled().collect::<std::collections::HashSet<_>>().len() == filled().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::check_returns_soon;

    fn rows(text: &str) -> Vec<String> {
        let parsed = parse(text, &ParseLimits::default()).unwrap();
        parsed.blocks.into_iter().map(|block| block.text).collect()
    }

    #[test]
    fn rows_have_the_names_of_their_columns() {
        let text = "Name,Limit,Note\r\n\"Free, small\",10,\"a \"\"b\"\"\nc\"\nPro,,\n\n";
        assert_eq!(
            rows(text),
            [
                "Name | Limit | Note",
                "Name: Free, small | Limit: 10 | Note: a \"b\" c",
                "Name: Pro"
            ]
        );
        assert_eq!(rows("a;b\n1;2,5\n"), ["a | b", "a: 1 | b: 2,5"]);
        assert_eq!(rows("1\t2\n3\t4\n"), ["1 | 2", "3 | 4"]);
        assert_eq!(rows("x,y\n1\n1,2,3\n"), ["x | y", "x: 1", "x: 1 | y: 2 | 3"]);
    }

    #[test]
    fn hostile_tables_return_soon() {
        check_returns_soon(parse, &[",", "\"", "\",", "a,\n", "\n", "\"\"\"", ";;;;\t"]);
    }
}
