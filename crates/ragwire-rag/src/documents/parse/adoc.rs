//! Reads AsciiDoc: sections, listings, tables and lists. Attributes, macros and marks are removed.
//!
//! One pass over the lines. What is not understood is text.

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
/// The longest text between two marks, in bytes. Without a limit, many marks without an end would take
/// quadratic time.
const MAX_SPAN_BYTES: usize = 300;
/// Marks of inline macros before their target.
const LINKS: [&str; 7] = [
    "link:",
    "xref:",
    "http://",
    "https://",
    "mailto:",
    "footnote:",
    "image:",
];

pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut reader = Reader {
        blocks: Blocks::new(limits),
        open: String::new(),
        inside: Inside::Text,
        in_definitions: false,
        lists: Vec::new(),
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
    /// Whether a definition list is open.
    in_definitions: bool,
    /// The marks of the items of the open lists, the innermost last.
    lists: Vec<String>,
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
            self.blocks.heading(level, &inline(heading));
            return Ok(());
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
        let is_boundary =
            is_fence('=') || is_fence('_') || is_fence('*') || matches!(line, "--" | "'''" | "<<<" | "+");
        let is_attribute = line.starts_with('[') && line.ends_with(']')
            || line.starts_with(':') && line[1..].split_once(':').is_some_and(|(name, _)| is_name(name));
        let is_macro = MACROS.iter().any(|name| line.starts_with(name));
        self.is_attached |= line == "+";
        if is_boundary || is_attribute || is_macro || line.starts_with("//") {
            return self.flush();
        }
        let (start, content) = start(line);
        let is_attached = std::mem::take(&mut self.is_attached);
        if start != Start::Text {
            self.flush()?;
        }
        if let Start::Item(marks) = start {
            self.item(marks);
        } else if after_gap && !is_attached && !line.starts_with(char::is_whitespace) {
            self.close_lists(0);
        }
        if let Some((term, description)) = definition(content)
            && (self.open.is_empty() || self.in_definitions)
        {
            self.flush()?;
            if !std::mem::replace(&mut self.in_definitions, true) {
                self.blocks.open_definitions();
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
        if std::mem::take(&mut self.in_definitions) {
            self.blocks.close_definitions();
        }
    }

    /// Begins an item of the open list with these marks, or of a list within the open ones.
    fn item(&mut self, marks: &str) {
        if let Some(open) = self.lists.iter().position(|open| open == marks) {
            self.close_lists(open + 1);
        } else {
            self.lists.push(marks.to_owned());
            self.blocks.open_list(marks.starts_with('.').then_some(1));
        }
        self.blocks.item();
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

/// Removes marks of emphasis and replaces links by their text.
fn inline(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    'text: while !rest.is_empty() {
        let window = &rest[..rest.floor_char_boundary(MAX_SPAN_BYTES)];
        let can_start = plain.chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        if let Some(reference) = rest.strip_prefix("<<")
            && let Some(end) = window.find(">>")
        {
            let target = &reference[..end - "<<".len()];
            plain.push_str(target.split_once(',').map_or(target, |(_, text)| text).trim());
            rest = &rest[end + ">>".len()..];
            continue;
        }
        if can_start {
            for link in LINKS.iter().filter(|link| rest.starts_with(**link)) {
                let end = window.find(char::is_whitespace).unwrap_or(window.len());
                if let Some(open) = window[..end].find('[')
                    && let Some(close) = window[open..].find(']')
                {
                    let (target, text) = (&rest[..open], &rest[open + 1..open + close]);
                    plain.push_str(if text.is_empty() {
                        target.trim_start_matches(*link)
                    } else {
                        text
                    });
                    rest = &rest[open + close + 1..];
                    continue 'text;
                }
            }
            for mark in ["**", "*", "__", "_", "``", "`"] {
                if let Some(inner) = window.strip_prefix(mark)
                    && let Some((inner, _)) = inner.split_once(mark)
                    && let tail = &rest[inner.len() + 2 * mark.len()..]
                    && !inner.is_empty()
                    && !inner.starts_with(char::is_whitespace)
                    && !inner.contains('\n')
                    && !tail.starts_with(char::is_alphanumeric)
                {
                    plain.push_str(inner.trim_matches('+'));
                    rest = tail;
                    continue 'text;
                }
            }
        }
        // To the next place where something can begin.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let next = rest[first..].find(['<', '*', '_', '`', 'l', 'x', 'h', 'm', 'f', 'i']);
        let next = next.map_or(rest.len(), |next| first + next);
        plain.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{check_blocks, check_returns_soon, check_terms};

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
