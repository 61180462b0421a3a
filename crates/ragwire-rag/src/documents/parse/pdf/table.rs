//! Finds rows of tables on PDF pages: lines with gaps that no text has.

use super::layout::Line;

/// What the collector writes for a gap that only rows have, and for one that is a gap between cells if the line is a
/// row.
const GAP: &str = "\t";
const NARROW_GAP: &str = "  ";
/// Spaces that are a gap only rows have.
const WIDE_SPACES: &str = "   ";
/// The least widths of these gaps, in sizes of the text. Spaces of justified text are narrower.
const LEAST_GAP: f64 = 1.5;
const LEAST_NARROW_GAP: f64 = 0.75;
/// The mean width of characters, in sizes, below which the reader got the font wrong and all gaps are too wide.
const LEAST_MEAN_WIDTH: f64 = 0.3;
/// The fewest rows of a table, if one of them has more than two cells, and of others.
const MIN_ROWS: usize = 2;
const MIN_PAIRS: usize = 3;
/// The longest mark of an item in a list, such as `•` and `12.`, in characters.
pub(super) const MAX_MARK_CHARS: usize = 4;

/// Returns what to write for a gap of this width between two strings of this size.
pub(super) fn gap_text(gap: f64, size: f64) -> &'static str {
    if gap >= size * LEAST_GAP {
        GAP
    } else if gap >= size * LEAST_NARROW_GAP {
        NARROW_GAP
    } else {
        " "
    }
}

/// Returns for each line whether it is a row of a table.
pub(super) fn rows(lines: &[&Line]) -> Vec<bool> {
    let cells: Vec<usize> = lines.iter().map(|line| cell_count(line)).collect();
    let mut found = vec![false; lines.len()];
    let mut start = 0;
    while start < lines.len() {
        let run = cells[start..].iter().take_while(|cells| **cells > 1).count();
        let most = cells[start..start + run].iter().max().copied().unwrap_or(0);
        if run >= MIN_PAIRS || (run >= MIN_ROWS && most > 2) {
            found[start..start + run].fill(true);
        }
        start += run + 1;
    }
    found
}

/// Returns the cells of a row, separated.
pub(super) fn row(line: &Line) -> String {
    let cells = cells(&line.text)
        .flat_map(|cell| cell.split(NARROW_GAP))
        .map(str::trim);
    let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
    cells.join(" | ")
}

/// Returns the parts of a line between gaps that only rows have.
pub(super) fn cells(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(GAP).flat_map(|part| part.split(WIDE_SPACES));
    parts.map(str::trim).filter(|cell| !cell.is_empty())
}

/// Returns the number of cells of a line: 1 for text.
fn cell_count(line: &Line) -> usize {
    let count = cells(&line.text).count();
    let mark = cells(&line.text).next().unwrap_or_default();
    let is_item = count == 2 && mark.chars().count() <= MAX_MARK_CHARS && !mark.contains(char::is_alphabetic);
    let is_certain = line.pitch.mean >= line.size * LEAST_MEAN_WIDTH && !line.turned;
    if is_item || !is_certain { 1 } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::parse::pdf::listing::Pitch;

    fn found(texts: &[&str], width: f64) -> Vec<bool> {
        let line = |text: &&str| {
            let pitch = Pitch {
                mean: width,
                ..Pitch::default()
            };
            Line {
                text: (*text).to_owned(),
                size: 10.0,
                x: 72.0,
                text_x: None,
                end: 200.0,
                y: 100.0,
                turned: false,
                pitch,
            }
        };
        let lines: Vec<Line> = texts.iter().map(line).collect();
        rows(&lines.iter().collect::<Vec<_>>())
    }

    #[test]
    fn lines_with_gaps_beside_each_other_are_rows() {
        let table = [
            "Birds of the garden",
            "bird\tcolour\tsong",
            "robin\tred\tat dawn",
            "owl    brown",
            "No more.",
        ];
        assert_eq!(found(&table, 5.0), [false, true, true, true, false]);
        // One line with a gap, a list with wide marks, and a font whose widths are wrong.
        assert_eq!(found(&["y = x\t(3)", "text", "a\tb"], 5.0), [false; 3]);
        assert_eq!(found(&["•\tone", "•\ttwo", "12.\tthree"], 5.0), [false; 3]);
        assert_eq!(found(&table, 0.4), [false; 5]);
        assert_eq!(found(&[], 5.0), [false; 0]);
    }
}
