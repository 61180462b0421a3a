//! Finds entries in two columns: a name, and what it is, which continues below its beginning.

use super::{MAX_TERM, MIN_GAP, indent};
use crate::documents::parse::hyphens::Words;
use crate::documents::parse::labels;

/// Descriptions begin at the same place if they are at most so far apart, in columns.
const TOLERANCE: usize = 1;

/// An entry: its name and its description.
pub(super) type Entry<'a> = (&'a str, String);

/// Returns the entries that lines are, if at least one description has several lines. Otherwise they may be a table, and
/// code is not text.
pub(super) fn entries<'a>(lines: &[&'a str], words: &Words) -> Option<Vec<Entry<'a>>> {
    let is_code = |line: &&str| line.ends_with(['\\', ';', '{', '}']) || line.contains(" = ");
    // The mark of an item has a gap behind it too.
    if labels::label(lines.first()?).is_some() || lines.iter().any(is_code) {
        return None;
    }
    let (_, _, column) = split(lines[0])?;
    let margin = indent(lines[0]);
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut is_wrapped = false;
    for line in lines {
        if indent(line) + TOLERANCE >= column {
            let (_, description) = entries.last_mut()?;
            words.join(description, line.trim());
            is_wrapped = true;
            continue;
        }
        let (name, description, at) = split(line)?;
        if indent(line) != margin || at.abs_diff(column) > TOLERANCE {
            return None;
        }
        entries.push((name, description.to_owned()));
    }
    is_wrapped.then_some(entries)
}

/// Returns the name that a line begins with, the text behind the gap after it, and the column of that text.
fn split(line: &str) -> Option<(&str, &str, usize)> {
    let start = line.len() - line.trim_start().len();
    let text = &line[start..];
    let gap = [text.find(MIN_GAP), text.find('\t')]
        .into_iter()
        .flatten()
        .min()?;
    let (name, description) = (text[..gap].trim_end(), text[gap..].trim_start());
    // A third column makes it a table.
    let is_name = name.chars().count() <= MAX_TERM && !name.ends_with(';');
    let is_entry = is_name && !description.is_empty() && !description.contains(MIN_GAP);
    let column = columns(&line[..line.len() - description.len()]);
    is_entry.then_some((name, description, column))
}

/// Returns how many columns a text has, with tabs to the next multiple of eight.
fn columns(text: &str) -> usize {
    text.chars().fold(0, |column, c| match c {
        '\t' => (column / 8 + 1) * 8,
        _ => column + 1,
    })
}
