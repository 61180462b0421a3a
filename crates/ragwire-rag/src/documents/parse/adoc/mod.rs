//! Reads AsciiDoc: sections, listings, tables and lists. Attributes, macros and marks are removed.
//!
//! One pass over the lines. What is not understood is text.

mod inline;

use inline::inline;

use super::blocks::Blocks;
use super::csv::Table;
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed};

/// Macros that have a line of their own and no text for readers.
const MACROS: [&str; 9] = [
    "include::",
    "image::",
    "toc::",
    "ifdef::",
    "ifndef::",
    "ifeval::",
    "endif::",
    "video::",
    "audio::",
];
/// How many blocks may be within each other. Each line is compared with their ends.
const MAX_DELIMITED: usize = 16;

pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut reader = Reader {
        blocks: Blocks::new(limits),
        open: String::new(),
        inside: Inside::Text,
        definitions: None,
        lists: Vec::new(),
        delimited: Vec::new(),
        first: None,
        after_gap: false,
        is_attached: false,
    };
    for line in text.lines() {
        reader.line(line.trim_end())?;
    }
    reader.close()?;
    reader.flush()?;
    Ok(Parsed::new(DocumentKind::Asciidoc, None, reader.blocks))
}

/// What a line belongs to.
#[derive(Debug)]
enum Inside {
    Text,
    /// A listing or a comment, with the line that ends it.
    Verbatim {
        end: String,
        is_comment: bool,
    },
    Table(Cells),
}

/// The cells of a table.
#[derive(Debug, Default)]
struct Cells {
    /// Cells of a row, as its first line has them.
    columns: usize,
    row: Vec<String>,
    table: Table,
}

#[derive(Debug)]
struct Reader {
    blocks: Blocks,
    /// The open paragraph, listing or comment.
    open: String,
    inside: Inside,
    /// How many lists were open when the open definition list began.
    definitions: Option<usize>,
    /// The marks of the items of the open lists, the innermost last.
    lists: Vec<String>,
    /// The lines that end the open blocks, and how many lists these are in.
    delimited: Vec<(String, usize)>,
    /// The first number of the next list, `[start=4]`.
    first: Option<u64>,
    /// Whether the last line was empty.
    after_gap: bool,
    /// Whether the next block belongs to the open item, after a line with `+`.
    is_attached: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), ParseError> {
        match &mut self.inside {
            Inside::Text => self.text(line),
            Inside::Verbatim { end, .. } if line == end => self.close(),
            Inside::Verbatim { .. } => {
                self.open.push_str(line);
                self.open.push('\n');
                Ok(())
            }
            Inside::Table(_) if line.starts_with("|===") => self.close(),
            Inside::Table(cells) => cells.line(line, &mut self.blocks),
        }
    }

    fn text(&mut self, line: &str) -> Result<(), ParseError> {
        let is_fence = |mark: char| line.len() >= 4 && line.chars().all(|c| c == mark);
        if line.is_empty() {
            self.after_gap = true;
            return self.flush();
        }
        let after_gap = std::mem::take(&mut self.after_gap);
        if let Some((level, heading)) = heading(line) {
            self.flush()?;
            self.close_definitions();
            self.close_lists(0);
            self.delimited.clear();
            self.blocks.heading(level, &inline(heading));
            return Ok(());
        }
        let is_attribute = line.starts_with('[') && line.ends_with(']')
            || line.starts_with(':') && line[1..].split_once(':').is_some_and(|(name, _)| is_name(name));
        let is_macro = MACROS.iter().any(|name| line.starts_with(name));
        if is_attribute || is_macro || line.starts_with("//") && !is_fence('/') {
            // They belong to what follows.
            self.after_gap = after_gap;
            self.first = start_of(line).or(self.first);
            return self.flush();
        }
        if line == "+" {
            self.is_attached = true;
            return self.flush();
        }
        let (start, content) = start(line);
        let is_attached = std::mem::take(&mut self.is_attached);
        let is_end = self.delimited.iter().any(|(end, _)| end == line);
        let is_apart = after_gap && !is_attached && !is_end && !line.starts_with(char::is_whitespace);
        if start == Start::Text && is_apart || start == Start::Title && after_gap {
            self.flush()?;
            self.close_lists(self.kept());
        }
        if is_fence('-') || is_fence('.') || is_fence('/') || is_fence('+') || line.starts_with("```") {
            self.flush()?;
            let end = if line.starts_with("```") { "```" } else { line };
            self.inside = Inside::Verbatim {
                end: end.to_owned(),
                is_comment: is_fence('/'),
            };
            return Ok(());
        }
        if line.starts_with("|===") {
            self.flush()?;
            self.inside = Inside::Table(Cells::default());
            return Ok(());
        }
        if is_fence('=') || is_fence('_') || is_fence('*') || line == "--" {
            self.flush()?;
            self.delimit(line);
            return Ok(());
        }
        if matches!(line, "'''" | "<<<") {
            return self.flush();
        }
        if start != Start::Text {
            self.flush()?;
        }
        let first = self.first.take();
        if let Start::Item(marks) = start {
            self.item(marks, first);
        }
        if let Some((term, description)) = definition(content)
            && (self.open.is_empty() || self.definitions.is_some())
        {
            self.flush()?;
            match self.definitions {
                // The lists of the description before.
                Some(lists) if start == Start::Text && !is_attached => self.close_lists(lists),
                Some(_) => {}
                None => {
                    self.definitions = Some(self.lists.len());
                    self.blocks.open_definitions();
                }
            }
            self.blocks.term(&inline(term))?;
            self.open.push_str(description);
            self.open.push('\n');
            return Ok(());
        }
        if after_gap && start == Start::Text && !line.starts_with(char::is_whitespace) {
            self.close_definitions();
        }
        self.open.push_str(content);
        self.open.push('\n');
        Ok(())
    }

    fn close_definitions(&mut self) {
        if self.definitions.take().is_some() {
            self.blocks.close_definitions();
        }
    }

    /// Begins an item of the open list with these marks, or of a list within the open ones, which begins with `first`.
    fn item(&mut self, marks: &str, first: Option<u64>) {
        let open = self.lists.iter().rposition(|open| open == marks);
        match open.filter(|open| *open >= self.kept()) {
            Some(open) => self.close_lists(open + 1),
            None => {
                self.lists.push(marks.to_owned());
                let is_numbered = marks.starts_with('.');
                self.blocks.open_list(is_numbered.then(|| first.unwrap_or(1)));
            }
        }
        self.blocks.item(None);
    }

    /// Returns how many lists the open blocks are in.
    fn kept(&self) -> usize {
        self.delimited.last().map_or(0, |(_, lists)| *lists)
    }

    /// Opens a block that ends with the same line, or closes it.
    fn delimit(&mut self, line: &str) {
        if let Some(open) = self.delimited.iter().position(|(end, _)| end == line) {
            let lists = self.delimited[open].1;
            self.delimited.truncate(open);
            self.close_lists(lists);
        } else if self.delimited.len() < MAX_DELIMITED {
            self.delimited.push((line.to_owned(), self.lists.len()));
        }
    }

    /// Closes all lists but the outermost ones.
    fn close_lists(&mut self, kept: usize) {
        while self.lists.len() > kept {
            self.lists.pop();
            self.blocks.close_list();
        }
    }

    /// Ends what is not text.
    fn close(&mut self) -> Result<(), ParseError> {
        match std::mem::replace(&mut self.inside, Inside::Text) {
            Inside::Text => Ok(()),
            Inside::Verbatim { is_comment, .. } => {
                let text = std::mem::take(&mut self.open);
                if is_comment {
                    return Ok(());
                }
                self.blocks.push(BlockKind::Listing, None, &text)
            }
            Inside::Table(mut cells) => cells.flush(&mut self.blocks),
        }
    }

    fn flush(&mut self) -> Result<(), ParseError> {
        let text = inline(&self.open);
        self.open.clear();
        self.blocks.push(BlockKind::Prose, None, &text)
    }
}

impl Cells {
    fn line(&mut self, line: &str, blocks: &mut Blocks) -> Result<(), ParseError> {
        let mut parts = line.split('|');
        // Before the first bar is the rest of the cell before, or the format of the first one.
        let before = parts.next().unwrap_or_default().trim();
        if let Some(cell) = self.row.last_mut()
            && !line.contains('|')
            && !before.is_empty()
        {
            cell.push(' ');
            cell.push_str(&inline(before));
        }
        let cells: Vec<String> = parts.map(|cell| inline(cell.trim())).collect();
        if cells.len() > 1 && self.columns == 0 {
            self.columns = cells.len();
        }
        // One cell on each line, and an empty line after each row.
        if line.is_empty() && self.columns == 0 {
            self.columns = self.row.len();
        }
        for cell in cells {
            if self.columns > 0 && self.row.len() >= self.columns {
                self.flush(blocks)?;
            }
            self.row.push(cell);
        }
        Ok(())
    }

    fn flush(&mut self, blocks: &mut Blocks) -> Result<(), ParseError> {
        let row = std::mem::take(&mut self.row);
        self.table.row(row.iter().map(String::as_str), blocks)
    }
}

/// Returns the level and the text of a heading: `== Text`.
fn heading(line: &str) -> Option<(u8, &str)> {
    let text = line.trim_start_matches('=');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| (level as u8, text.trim()))
}

/// Returns the term and the beginning of its description: `--depth:: How deep.`
fn definition(line: &str) -> Option<(&str, &str)> {
    let (term, description) = line.split_once("::")?;
    let ends = description.is_empty() || description.starts_with(' ');
    (ends && !term.trim().is_empty()).then(|| (term.trim(), description.trim_start()))
}

fn is_name(name: &str) -> bool {
    let name = name.trim_matches('!');
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

/// Returns the number of the attribute `start` of a list.
fn start_of(line: &str) -> Option<u64> {
    let attributes = line.strip_prefix('[')?.strip_suffix(']')?.split(',');
    let mut numbers =
        attributes.filter_map(|one| one.trim().strip_prefix("start=")?.trim_matches('"').parse().ok());
    numbers.next()
}

/// How a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start<'a> {
    /// As an item of a list, with these marks.
    Item(&'a str),
    /// As the title of a block.
    Title,
    Text,
}

/// Returns how a line begins, and its text.
fn start(line: &str) -> (Start<'_>, &str) {
    let trimmed = line.trim_start();
    for mark in ['*', '.', '-'] {
        let rest = trimmed.trim_start_matches(mark);
        let marks = &trimmed[..trimmed.len() - rest.len()];
        if !marks.is_empty() && rest.starts_with(' ') {
            return (Start::Item(marks), rest.trim_start());
        }
    }
    match line.strip_prefix('.') {
        Some(title) if title.starts_with(char::is_alphanumeric) => (Start::Title, title),
        _ => (Start::Text, trimmed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{check_blocks, check_places, check_returns_soon, check_terms};

    #[test]
    fn a_description_has_its_term() {
        let text = "\
--all::
  All of them.
+
Each.

--none:: None.
--some:: Some
  of them.

After std::fmt is used.

:name: value
last:: Last.

== Next

Text.
";
        check_terms(
            &parse(text, &ParseLimits::default()).unwrap(),
            &[
                ("--all", "--all"),
                ("--all", "All of them."),
                ("--all", "Each."),
                ("--none", "--none"),
                ("--none", "None."),
                ("--some", "--some"),
                ("--some", "Some of them."),
                ("", "After std::fmt is used."),
                ("last", "last"),
                ("last", "Last."),
                ("", "Text."),
            ],
        );
    }

    #[test]
    fn structure_is_kept() {
        let text = "\
= Birds
:toc:
:version: 2

A *robin* sings at `dawn`, see https://example.org/[the guide] and <<owls,owls>>.
// nobody reads this

[source,rust]
----
fn sing() {

}
----

== Feeding

.A title
* seeds
** worms
. first
NOTE: Owls are quiet.

[cols=\"1,1\"]
|===
|Food |For

|seeds
|robins
|mice |owls
|===

////
A comment.
////

====
An example.
====

image::owl.png[]

snake_case_word and 2 * 3 * 4 stay.
";
        let parsed = parse(text, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.title.as_deref(), Some("Birds"));
        check_blocks(
            &parsed,
            &[
                ("Birds", "A robin sings at dawn, see the guide and owls."),
                ("Birds", "fn sing() {\n\n}"),
                ("Birds > Feeding", "A title"),
                ("Birds > Feeding", "seeds"),
                ("Birds > Feeding", "worms"),
                ("Birds > Feeding", "first NOTE: Owls are quiet."),
                ("Birds > Feeding", "Food | For"),
                ("Birds > Feeding", "Food: seeds | For: robins"),
                ("Birds > Feeding", "Food: mice | For: owls"),
                ("Birds > Feeding", "An example."),
                ("Birds > Feeding", "snake_case_word and 2 * 3 * 4 stay."),
            ],
        );
    }

    fn check_lists(text: &str, expected: &[(u32, Option<u64>, &str)]) {
        check_places(&parse(text, &ParseLimits::default()).unwrap(), expected);
    }

    #[test]
    fn lists_end_where_they_do() {
        // What is attached belongs to an item, and what follows a listing does not.
        check_lists(
            ". Step:\n+\n[source]\n----\ncode\n----\n\nAfter.",
            &[(1, Some(1), "Step:"), (0, None, "code"), (0, None, "After.")],
        );
        check_lists(
            ". One\n+\n[NOTE]\n====\nfirst\n\nsecond\n====\n. Two\n",
            &[
                (1, Some(1), "One"),
                (1, None, "first"),
                (1, None, "second"),
                (1, Some(2), "Two"),
            ],
        );
        check_lists(
            ". One\n\n[NOTE]\n====\nNot a step.\n====\n\n. Two\n",
            &[(1, Some(1), "One"), (0, None, "Not a step."), (1, Some(1), "Two")],
        );
        check_lists(
            "term::\n* a\nother:: desc\n",
            &[
                (0, None, "term"),
                (1, None, "a"),
                (0, None, "other"),
                (0, None, "desc"),
            ],
        );
        check_lists(
            "[start=4]\n. Four\n. Five\n\n== Birds\n\n. One\n",
            &[(1, Some(4), "Four"), (1, Some(5), "Five"), (1, Some(1), "One")],
        );
    }

    #[test]
    fn hostile_marks_return_soon() {
        let pieces = [
            "*",
            "_",
            "`",
            "<<",
            "link:[",
            "http://a[",
            "----\n",
            "|===\n",
            "|",
            "= a\n",
            "* ",
            "|a\n",
            "**a",
            "a::\n",
            "a:: b\n",
        ];
        check_returns_soon(parse, &pieces);
    }
}
