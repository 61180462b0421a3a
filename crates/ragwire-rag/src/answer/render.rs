//! Writes a quote as Markdown: paragraphs, lists after their lead-in, tables with their header, and
//! listings in fences. The words stay as they are.

use std::ops::Range;

use super::items::list;
use crate::Chunk;
use crate::documents::list::{ListItem, ListLine, place_of};
use crate::search::lines::{COLONS, LineKind, cells, line_kinds};

/// The longest line that is the item of a list after a lead-in, in bytes.
const MAX_ITEM_BYTES: usize = 300;
/// Lines that say what the next paragraph is, in lower case.
const LABELS: [&str; 8] = [
    "note",
    "warning",
    "tip",
    "important",
    "caution",
    "hint",
    "attention",
    "danger",
];
/// The item that is shown for those that are left out.
const LEFT_OUT: &str = "…";
/// The fewest items of a list.
const MIN_ITEMS: usize = 2;

/// A quote as an answer shows it.
#[derive(Debug, PartialEq)]
pub(super) struct Rendered {
    /// The Markdown, with the number of the citation behind the quote.
    pub(super) text: String,
    /// Whether it begins with a table, a list or a listing, which begin a line.
    pub(super) begins_block: bool,
    /// The words that the citation is of, as they are in the document: the first block that is not a
    /// listing.
    pub(super) quote: String,
}

/// Consecutive lines of one kind.
#[derive(Debug)]
struct Block<'a> {
    kind: LineKind,
    /// The index of the first line in the passage.
    first: usize,
    lines: Vec<&'a str>,
}

impl<'a> Block<'a> {
    /// Returns the lines with their places in lists.
    fn placed(&self, items: &[ListLine]) -> Vec<Line<'a>> {
        let lines = (self.first..).zip(&self.lines);
        let placed = lines.map(|(at, text)| Line {
            text,
            item: place_of(items, at),
            is_begun: false,
            is_cut: false,
        });
        placed.collect()
    }
}

/// A line of prose.
#[derive(Debug)]
struct Line<'a> {
    text: &'a str,
    item: Option<ListItem>,
    /// Whether the line begins before the quote, and whether it continues after it.
    is_begun: bool,
    is_cut: bool,
}

impl Line<'_> {
    /// Returns the line as it is shown in a list.
    fn in_list(&self) -> String {
        let begin = if self.is_begun { "… " } else { "" };
        let end = if self.is_cut { " …" } else { "" };
        format!("{begin}{}{end}", without_numbers(self.text))
    }
}

/// Writes a part of a passage as a quote. What is left out of a list is shown as `…`, at its end only if no other quote
/// has it (`is_last`).
pub(super) fn render(chunk: &Chunk, range: &Range<usize>, number: usize, is_last: bool) -> Option<Rendered> {
    let (before, quote) = (chunk.text.get(..range.start)?, chunk.text.get(range.clone())?);
    let first = before.matches('\n').count();
    let blocks = blocks(quote, first, line_kinds(chunk).into_iter().skip(first));
    let cited = blocks
        .iter()
        .position(|block| block.kind != LineKind::Code)
        .unwrap_or(0);
    let is_alone = matches!(&blocks[..], [only] if only.lines.len() == 1);
    let begins_list = !is_alone
        && chunk
            .items
            .as_ref()
            .zip(blocks.first())
            .is_some_and(|(items, block)| {
                let item = place_of(items, block.first).filter(|item| !item.continued);
                block.kind == LineKind::Prose && item.is_some()
            });
    let mut text: Vec<String> = Vec::new();
    let mut cited_words = String::new();
    for (at, block) in blocks.iter().enumerate() {
        let mark = if at == cited {
            format!(" [{number}]")
        } else {
            String::new()
        };
        let (shown, words) = match block.kind {
            LineKind::Prose => match &chunk.items {
                Some(items) => {
                    let mut lines = block.placed(items);
                    if at == 0 {
                        mark_begun(&mut lines, before);
                    }
                    if at + 1 == blocks.len() && is_last {
                        mark_cut(&mut lines, chunk.text.get(range.end..)?, block, items);
                    }
                    paragraphs_and_lists(&lines, is_alone, number, &mark)
                }
                None => prose(&block.lines, &mark),
            },
            LineKind::Row => table(&block.lines, header(before, &block.lines, at), &mark),
            LineKind::Code => listing(&block.lines, &mark),
        };
        if at == cited {
            cited_words = words;
        }
        text.push(shown);
    }
    let text = text.join("\n\n");
    Some(Rendered {
        begins_block: begins_list || text.starts_with(['|', '-', '`']),
        text,
        quote: cited_words,
    })
}

/// Marks the first line if the quote begins within an item.
fn mark_begun(lines: &mut [Line<'_>], before: &str) {
    let is_within = !before.is_empty() && !before.ends_with('\n');
    if let Some(first) = lines.first_mut() {
        first.is_begun = is_within && first.item.is_some_and(|item| !item.continued);
    }
}

/// Marks the last line if the quote ends within an item, or adds an item for those that follow in the list.
fn mark_cut(lines: &mut Vec<Line<'_>>, after: &str, block: &Block<'_>, items: &[ListLine]) {
    let Some(last) = lines.last_mut().filter(|line| line.item.is_some()) else {
        return;
    };
    let (same_line, below) = after.split_once('\n').unwrap_or((after, ""));
    if !same_line.trim().is_empty() {
        last.is_cut = true;
        return;
    }
    let Some(next) = place_of(items, block.first + block.lines.len()).filter(|_| !below.is_empty()) else {
        return;
    };
    if next.continued {
        last.is_cut = true;
        return;
    }
    let mut before = lines.iter().rev().map_while(|line| line.item);
    let sibling = before.find(|item| item.depth <= next.depth && !item.continued);
    let follows = sibling.is_some_and(|before| {
        before.depth < next.depth || next.number == before.number.map(|number| number.saturating_add(1))
    });
    if follows {
        lines.push(Line {
            text: LEFT_OUT,
            item: Some(next),
            is_begun: false,
            is_cut: false,
        });
    }
}

fn blocks(quote: &str, first: usize, kinds: impl Iterator<Item = LineKind>) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for ((at, line), kind) in (first..).zip(quote.split('\n')).zip(kinds) {
        match blocks.last_mut() {
            // An empty line is part of the listing around it.
            Some(last) if last.kind == kind || (line.trim().is_empty() && last.kind == LineKind::Code) => {
                last.lines.push(line);
            }
            _ if line.trim().is_empty() => {}
            _ => blocks.push(Block {
                kind,
                first: at,
                lines: vec![line],
            }),
        }
    }
    blocks
}

/// Returns paragraphs and lists, where the format says which lines are in lists, and the cited words: the paragraphs before
/// the first list, or the first list.
fn paragraphs_and_lists(lines: &[Line<'_>], is_alone: bool, number: usize, mark: &str) -> (String, String) {
    let mut parts = lines.chunk_by(|one, other| one.item.is_some() == other.item.is_some());
    let cited = parts.next().unwrap_or_default();
    let words = cited.iter().map(|line| line.text);
    let words: Vec<&str> = words.filter(|text| *text != LEFT_OUT).collect();
    // The only line of a quote is a sentence.
    let shown = if is_alone {
        without_numbers(&labelled(&words))
    } else {
        part(cited, number)
    };
    let mut text = format!("{shown}{mark}");
    for later in parts {
        text.push_str("\n\n");
        text.push_str(&part(later, number));
    }
    (text, words.join("\n"))
}

/// Returns paragraphs, or a list.
fn part(lines: &[Line<'_>], number: usize) -> String {
    let texts: Vec<String> = lines.iter().map(Line::in_list).collect();
    let items: Option<Vec<ListItem>> = lines.iter().map(|line| line.item).collect();
    let texts = texts.iter().map(String::as_str);
    match items {
        Some(items) => list(texts.zip(items), number),
        None => labelled(&texts.collect::<Vec<_>>()),
    }
}

/// Returns paragraphs, with the lines after a lead-in as a list, and the cited words: the lines up to
/// the list.
fn prose(lines: &[&str], mark: &str) -> (String, String) {
    let lead = lines.iter().position(|line| line.ends_with(COLONS)).filter(|at| {
        let items = lines.get(at + 1..).unwrap_or_default();
        items.len() >= MIN_ITEMS && items.iter().all(|line| line.len() <= MAX_ITEM_BYTES)
    });
    let (paragraphs, items) = lines.split_at(lead.map_or(lines.len(), |at| at + 1));
    let quote = paragraphs.join("\n");
    let mut text = format!("{}{mark}", without_numbers(&labelled(paragraphs)));
    if !items.is_empty() {
        text.push('\n');
    }
    for item in items {
        text.push_str("\n- ");
        text.push_str(&without_numbers(item));
    }
    (text, quote)
}

/// Joins paragraphs, and a label such as “Note” with the paragraph that it is of.
fn labelled(paragraphs: &[&str]) -> String {
    let mut text = String::new();
    for (at, paragraph) in paragraphs.iter().enumerate() {
        let is_label = LABELS.contains(&paragraph.to_lowercase().as_str());
        match (is_label, at + 1 < paragraphs.len()) {
            (true, true) => text.push_str(&format!("{paragraph}: ")),
            // Nothing follows that it could be of.
            (true, false) if at > 0 => {}
            (false, true) => text.push_str(&format!("{paragraph}\n")),
            (true | false, false) => text.push_str(paragraph),
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns the first row of the table in the passage, if the quote does not begin with it.
fn header<'a>(before: &'a str, rows: &[&str], block: usize) -> Option<&'a str> {
    let wanted = rows.first().map(|row| cells(row))?;
    let above = before.lines().rev().filter(|_| block == 0);
    above
        .take_while(|line| LineKind::of(line) == LineKind::Row && cells(line) == wanted)
        .last()
}

/// Returns a table. The last row carries the number of the citation, and is the cited words.
fn table(rows: &[&str], header: Option<&str>, mark: &str) -> (String, String) {
    let (header, rows) = match (header, rows) {
        (None, [first, rest @ ..]) if !rest.is_empty() => (*first, rest),
        (None, [only, ..]) => return (format!("{}{mark}", without_numbers(only)), (*only).to_owned()),
        (header, rows) => (header.unwrap_or_default(), rows),
    };
    let last = rows.last().copied().unwrap_or_default();
    let columns = cells(header);
    let mut text = format!(
        "| {} |\n|{}",
        without_numbers(header.trim()),
        "---|".repeat(columns)
    );
    for (at, row) in rows.iter().enumerate() {
        let mark = if at + 1 == rows.len() { mark } else { "" };
        text.push_str(&format!("\n| {}{mark} |", without_numbers(row)));
    }
    (text, last.to_owned())
}

/// Returns the rows of a quoted table if the answer ends with a table that has the same header.
pub(super) fn rows_of_same_table<'a>(answer: &str, quote: &'a str) -> Option<&'a str> {
    let (names, rest) = quote.split_once('\n')?;
    let (line, rows) = rest.split_once('\n')?;
    let is_header = names.starts_with('|') && line.starts_with("|---");
    let (_, last) = answer.rsplit_once("\n\n").unwrap_or(("", answer));
    let continues = last.strip_prefix(names)?.strip_prefix('\n')?.starts_with(line);
    (is_header && continues).then_some(rows)
}

/// Returns a fenced listing. Its fence is longer than any in it.
fn listing(lines: &[&str], mark: &str) -> (String, String) {
    let listing = lines.join("\n");
    let listing = listing.trim_end();
    let longest = listing
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    let mark = mark.trim_start();
    let mark = if mark.is_empty() {
        String::new()
    } else {
        format!("\n\n{mark}")
    };
    (
        format!("{fence}\n{listing}\n{fence}{mark}"),
        listing.trim().to_owned(),
    )
}

/// Rewrites the document's own `[1]` or `[2, 3]` in parentheses, so that numbers in brackets are
/// always citations of this answer.
fn without_numbers(sentence: &str) -> String {
    let mut plain = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('[') {
        let inside = after.split_once(']').filter(|(inside, _)| {
            inside.contains(|c: char| c.is_ascii_digit())
                && inside.chars().all(|c| c.is_ascii_digit() || ", -–".contains(c))
        });
        plain.push_str(before);
        match inside {
            Some((numbers, after)) => {
                plain.extend(["(", numbers, ")"]);
                rest = after;
            }
            None => {
                plain.push('[');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_document_are_put_in_parentheses() {
        for (sentence, plain) in [
            ("As in [12] and [3, 4].", "As in (12) and (3, 4)."),
            ("An array a[i] or [], [1", "An array a[i] or [], [1"),
            ("[[7]]", "[(7)]"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(sentence), plain);
        }
    }

    #[test]
    fn lists_tables_and_listings_keep_their_shape() {
        let cases = [
            ("One. Two.", "", "One. Two. [1]", "One. Two."),
            ("One.\nTwo.", "", "One.\nTwo. [1]", "One.\nTwo."),
            ("One.\nNote\nTwo.", "", "One.\nNote: Two. [1]", "One.\nNote\nTwo."),
            ("One.\nNote", "", "One. [1]", "One.\nNote"),
            (
                "Choose one:\nred\nblue [3]",
                "",
                "Choose one: [1]\n\n- red\n- blue (3)",
                "Choose one:",
            ),
            (
                "b | 2",
                "Text.\nname | value\na | 1\n",
                "| name | value |\n|---|---|\n| b | 2 [1] |",
                "b | 2",
            ),
            // Cells may be empty.
            (
                "b | 2 | x",
                "name | value | note\na | |\na | 1 |\n",
                "| name | value | note |\n|---|---|---|\n| b | 2 | x [1] |",
                "b | 2 | x",
            ),
            (
                "name | value\na | 1",
                "",
                "| name | value |\n|---|---|\n| a | 1 [1] |",
                "a | 1",
            ),
            ("a | 1", "", "a | 1 [1]", "a | 1"),
            (
                "Run this:\n$ cargo build\n\n$ cargo test\nThen wait.",
                "",
                "Run this: [1]\n\n```\n$ cargo build\n\n$ cargo test\n```\n\nThen wait.",
                "Run this:",
            ),
            ("    a = 1", "", "```\n    a = 1\n```\n\n[1]", "a = 1"),
        ];
        for (quote, before, text, cited) in cases {
            let chunk = Chunk::new("d", "d.txt", 0, &format!("{before}{quote}"));
            let rendered = render(&chunk, &(before.len()..chunk.text.len()), 1, true).unwrap();
            assert_eq!((&*rendered.text, &*rendered.quote), (text, cited));
        }
    }

    #[test]
    fn known_lists_keep_their_numbers_and_depths() {
        let text = "Feed them:\nFill it.\nWait.\nseeds\nnuts\nLook [2].\nThey come.\nRobins";
        let mut chunk = Chunk::new("d", "d.md", 0, text);
        let item = |line, item| ListLine { line, item };
        chunk.listings = Some(Vec::new());
        chunk.items = Some(vec![
            item(1, ListItem::new(1, Some(3))),
            item(2, ListItem::continued(1)),
            item(3, ListItem::new(2, None)),
            item(4, ListItem::new(2, None)),
            item(5, ListItem::new(1, Some(4))),
            item(7, ListItem::new(1, None)),
        ]);
        let list = "3. Fill it.\n\n   Wait.\n\n   - seeds\n   - nuts\n4. Look (2).";
        for (quote, shown, cited) in [
            (
                text,
                format!("Feed them: [1]\n\n{list}\n\nThey come.\n\n- Robins"),
                "Feed them:",
            ),
            (
                "Fill it.\nWait.\nseeds\nnuts\nLook [2].",
                format!("{list} [1]"),
                "Fill it.\nWait.\nseeds\nnuts\nLook [2].",
            ),
            // A quote that begins within an item, and within an inner list.
            (
                "Wait.\nseeds",
                "Wait.\n\n- seeds\n- … [1]".to_owned(),
                "Wait.\nseeds",
            ),
            (
                "nuts\nLook [2].",
                "- nuts\n4. Look (2). [1]".to_owned(),
                "nuts\nLook [2].",
            ),
            // A line alone is a sentence, unless something leads to it.
            ("seeds", "seeds [1]".to_owned(), "seeds"),
            (
                "They come.\nRobins",
                "They come. [1]\n\n- Robins".to_owned(),
                "They come.",
            ),
        ] {
            let start = text.find(quote).unwrap();
            let rendered = render(&chunk, &(start..start + quote.len()), 1, true).unwrap();
            assert_eq!(
                (rendered.text, rendered.quote),
                (shown, cited.to_owned()),
                "{quote}"
            );
        }
    }

    #[test]
    fn what_is_left_out_of_a_list_is_shown() {
        let text = "Feed them:\nFill it. Close it.\nLook. Wait.\nred\nblue\nGo.\nOther\nThey come.";
        let mut chunk = Chunk::new("d", "d.md", 0, text);
        let item = |line, item| ListLine { line, item };
        chunk.listings = Some(Vec::new());
        chunk.items = Some(vec![
            item(1, ListItem::new(1, Some(1))),
            item(2, ListItem::new(1, Some(2))),
            item(3, ListItem::new(2, None)),
            item(4, ListItem::new(2, None)),
            item(5, ListItem::continued(1)),
            item(6, ListItem::new(1, Some(1))),
        ]);
        for (quote, shown) in [
            (
                "Feed them:\nFill it. Close it.",
                "Feed them: [1]\n\n1. Fill it. Close it.\n2. …",
            ),
            ("Feed them:\nFill it.", "Feed them: [1]\n\n1. Fill it. …"),
            (
                "Fill it. Close it.\nLook.",
                "1. Fill it. Close it.\n2. Look. … [1]",
            ),
            (
                "Close it.\nLook. Wait.",
                "1. … Close it.\n2. Look. Wait.\n   - … [1]",
            ),
            ("Look. Wait.\nred", "2. Look. Wait.\n   - red\n   - … [1]"),
            (
                "Look. Wait.\nred\nblue",
                "2. Look. Wait.\n   - red\n   - blue … [1]",
            ),
            // The next item is of another list.
            (
                "Look. Wait.\nred\nblue\nGo.",
                "2. Look. Wait.\n   - red\n   - blue\n\n   Go. [1]",
            ),
            // A sentence alone.
            ("Close it.", "Close it. [1]"),
            ("They come.", "They come. [1]"),
        ] {
            let start = text.find(quote).unwrap();
            let range = start..start + quote.len();
            let rendered = render(&chunk, &range, 1, true).unwrap();
            assert_eq!(rendered.text, shown);
            assert!(quote.starts_with(&rendered.quote), "{}", rendered.quote);
        }
        // Another quote has the rest.
        let range = 0..text.find("\nLook").unwrap();
        let rendered = render(&chunk, &range, 1, false).unwrap();
        assert_eq!(rendered.text, "Feed them: [1]\n\n1. Fill it. Close it.");
    }

    #[test]
    fn items_keep_their_marks_beside_listings_and_bars() {
        let text = "Do it:\nRun this:\na\nChoose File | Save.\nb\nLook.";
        let mut chunk = Chunk::new("d", "d.md", 0, text);
        let item = |line, number| ListLine {
            line,
            item: ListItem::new(1, Some(number)),
        };
        chunk.listings = Some(vec![2..3, 4..5]);
        chunk.items = Some(vec![item(1, 1), item(3, 2), item(5, 3)]);
        let steps = "1. Run this: [1]\n\n```\na\n```\n\n2. Choose File | Save.\n\n```\nb\n```\n\n3. Look.";
        let from_first = render(&chunk, &("Do it:\n".len()..text.len()), 1, true).unwrap();
        assert_eq!((&*from_first.text, from_first.begins_block), (steps, true));
        let whole = render(&chunk, &(0..text.len()), 1, true).unwrap();
        let led = format!("Do it: [1]\n\n{}", steps.replace(" [1]", ""));
        assert_eq!((whole.text, whole.begins_block), (led, false));
    }

    #[test]
    fn rows_of_a_table_continue_it() {
        let table = "| name | value |\n|---|---|\n| a | 1 [1] |";
        let answer = format!("Text.\n\n{table}");
        let next = "| name | value |\n|---|---|\n| b | 2 [2] |";
        assert_eq!(rows_of_same_table(&answer, next), Some("| b | 2 [2] |"));
        assert_eq!(rows_of_same_table(table, next), Some("| b | 2 [2] |"));
        for other in [
            "| name | worth |\n|---|---|\n| b | 2 [2] |",
            "Text. [2]",
            "| name | value |",
            "name\n|---|\nb",
        ] {
            assert_eq!(rows_of_same_table(&answer, other), None, "{other}");
        }
        assert_eq!(rows_of_same_table(&format!("{answer}\n\nMore."), next), None);
    }

    #[test]
    fn listings_that_are_known_are_shown_as_they_are() {
        let text =
            "The user is banned:\n>>> is_banned('dave')\nTrue\nfoo() -> 1\nSee --help for more --options.";
        let mut chunk = Chunk::new("d", "d.html", 0, text);
        chunk.listings = Some(std::iter::once(1..3).collect());
        let rendered = render(&chunk, &(0..text.len()), 2, true).unwrap();
        assert_eq!(
            rendered.text,
            "The user is banned: [2]\n\n```\n>>> is_banned('dave')\nTrue\n```\n\n\
             foo() -> 1\nSee --help for more --options."
        );
        let within = text.find("True").unwrap()..text.find("foo").unwrap() - 1;
        assert_eq!(
            render(&chunk, &within, 2, true).unwrap().text,
            "```\nTrue\n```\n\n[2]"
        );
    }
}
