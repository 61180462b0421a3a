//! Reads text without markup. What its writer shows by layout is kept: headings, items, tables and listings.

use std::collections::HashMap;

use super::blocks::Blocks;
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed, lines};

/// The longest heading in characters.
const MAX_HEADING: usize = 80;
/// The longest term above its description in characters, with its indentation. Lines of a paragraph are longer.
const MAX_TERM: usize = 60;
/// The fewest marks below a heading.
const MIN_MARKS: usize = 3;
/// The fewest letters of a heading in capitals: shorter lines are mostly abbreviations.
const MIN_CAPITALS: usize = 4;
/// The deepest level of a numbered heading, as in HTML.
const MAX_LEVEL: u8 = 6;
/// The fewest lines of a table of contents.
const MIN_CONTENTS: usize = 3;
/// The fewest pages that a running head is on.
const MIN_PAGES: usize = 3;
/// How many spaces between two words show that a line has columns: justified text has two.
const MIN_GAP: &str = "   ";
/// How far a tab indents at most, in columns.
const TAB_COLUMNS: usize = 8;
/// The last mark of a line that introduces the next one.
const COLONS: [char; 2] = [':', '：'];
const ITEM_MARKS: [&str; 6] = ["- ", "* ", "+ ", "o ", "• ", "– "];
/// The level of headings in capitals, such as those of manual pages. Numbered ones are below.
const CAPITALS_LEVEL: u8 = 2;
/// The level of headings below a line of marks.
const SEPARATED_LEVEL: u8 = 1;
/// The shortest line of marks between two parts of a text.
const MIN_SEPARATOR: usize = 20;

/// Reads text; an empty line ends a paragraph.
pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let lines = without_pages(text);
    let mut reader = Reader {
        lines: &lines,
        at: 0,
        blocks: Blocks::new(limits),
        pending: Vec::new(),
        marks: Vec::new(),
        lead: None,
        term: None,
    };
    while reader.at < lines.len() {
        reader.group()?;
    }
    reader.close_pending(0)?;
    Ok(Parsed::new(DocumentKind::Text, None, reader.blocks))
}

#[derive(Debug)]
struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
    blocks: Blocks,
    /// The headings that nothing follows yet, with their levels, the innermost last.
    pending: Vec<(u8, &'a str)>,
    /// The marks below headings, in the order of their levels.
    marks: Vec<char>,
    /// The indentation of the paragraph before, if it ends with a colon.
    lead: Option<usize>,
    /// The indentation of the term whose description is open.
    term: Option<usize>,
}

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> &'a str {
        self.lines.get(self.at + ahead).copied().unwrap_or_default()
    }

    /// Reads empty lines, a heading, or the lines up to the next empty one.
    fn group(&mut self) -> Result<(), ParseError> {
        if self.peek(0).is_empty() {
            self.at += 1;
            return Ok(());
        }
        if is_separator(self.peek(0))
            && self
                .lines
                .get(self.at + 2)
                .is_none_or(|after| *after != self.peek(0))
        {
            self.at += 1;
            // What follows it is a heading, unless it is a paragraph.
            let (next, after) = (self.peek(0), self.peek(1));
            if after.is_empty()
                && next.chars().count() <= MAX_HEADING
                && !next.is_empty()
                && !ends_sentence(next)
            {
                self.open_heading(SEPARATED_LEVEL, next)?;
                self.at += 1;
            }
            return Ok(());
        }
        if self.heading()? {
            return Ok(());
        }
        let start = self.at;
        while !self.peek(0).is_empty() {
            self.at += 1;
        }
        let mut from = start;
        let mut lead: Option<usize> = None;
        for at in start + 1..self.at {
            let (before, inner) = (self.lines[at - 1], indent(self.lines[at]));
            if lead.is_some_and(|lead| inner <= lead) {
                self.part(from, at)?;
                (from, lead) = (at, None);
            } else if before.ends_with(COLONS) && inner > indent(before) + 1 && lead.is_none() {
                self.part(from, at)?;
                (from, lead) = (at, Some(indent(before)));
            }
        }
        self.part(from, self.at)
    }

    /// Reads lines without empty ones: a listing, or paragraphs and items.
    fn part(&mut self, start: usize, end: usize) -> Result<(), ParseError> {
        let group = &self.lines[start..end];
        let outer = group.iter().map(|line| indent(line)).min().unwrap_or_default();
        if is_contents(group) {
            return Ok(());
        }
        // The item after it shows that the line before is one too, and no heading.
        if outer == 0 && is_item(group[0]) && self.pending.last().is_some_and(|(_, text)| is_item(text)) {
            self.close_pending(0)?;
        }
        self.open_pending();
        let is_led_to = self.lead.is_some_and(|lead| outer > lead + 1) && !reads_as_prose(group);
        self.close_term(outer);
        self.lead = group.last().filter(|last| last.ends_with(COLONS)).map(|_| outer);
        if is_led_to || has_columns(group) {
            return self.blocks.push(BlockKind::Listing, None, &listing(group));
        }
        let mut paragraph = String::new();
        let described = term(group).map_or(0, |_| 1);
        if let Some(term) = term(group) {
            self.end_term();
            self.term = Some(outer);
            self.blocks.open_definitions();
            self.blocks.term(term)?;
        }
        for line in &group[described..] {
            if is_item(line.trim_start()) {
                self.blocks.push(BlockKind::Prose, None, &paragraph)?;
                paragraph.clear();
            }
            paragraph.push_str(line);
            paragraph.push('\n');
        }
        self.blocks.push(BlockKind::Prose, None, &paragraph)
    }

    /// Closes the description of a term at text that is not indented further than it.
    fn close_term(&mut self, outer: usize) {
        if self.term.is_some_and(|term| outer <= term) {
            self.end_term();
        }
    }

    fn end_term(&mut self) {
        if self.term.take().is_some() {
            self.blocks.close_definitions();
        }
    }

    /// Reads the heading that begins here, if there is one.
    fn heading(&mut self) -> Result<bool, ParseError> {
        let (first, second, third) = (self.peek(0), self.peek(1), self.peek(2));
        let is_above = first == third && mark_below(second, first).is_some();
        let (text, used) = if is_above { (second, 3) } else { (first, 2) };
        if let Some(mark) = mark_below(text, if is_above { third } else { second }) {
            let known = self.marks.iter().position(|known| *known == mark);
            let level = known.unwrap_or_else(|| {
                self.marks.push(mark);
                self.marks.len() - 1
            });
            self.open_heading(u8::try_from(level + 1).unwrap_or(MAX_LEVEL), text)?;
            self.at += used;
            return Ok(true);
        }
        let level = numbered(first).filter(|_| second.is_empty() && self.is_above_its_text());
        let in_capitals = is_in_capitals(first) && (second.is_empty() || indent(second) > 0);
        let Some(level) = level.or_else(|| in_capitals.then_some(CAPITALS_LEVEL)) else {
            return Ok(false);
        };
        self.open_heading(level, first)?;
        self.at += 1;
        Ok(true)
    }

    /// Opens a heading once text follows it.
    fn open_heading(&mut self, level: u8, text: &'a str) -> Result<(), ParseError> {
        self.lead = None;
        self.close_pending(level)?;
        self.pending.push((level, text));
        Ok(())
    }

    /// Writes the innermost of the pending headings as text if its level is not above `level`: nothing is below it, so it
    /// is a line of text, such as an item of a list.
    fn close_pending(&mut self, level: u8) -> Result<(), ParseError> {
        let last = self.pending.pop_if(|(last, _)| *last >= level);
        if let Some((_, text)) = last {
            self.open_pending();
            self.blocks.push(BlockKind::Prose, None, text)?;
        }
        Ok(())
    }

    fn open_pending(&mut self) {
        if !self.pending.is_empty() {
            self.end_term();
        }
        for (level, text) in std::mem::take(&mut self.pending) {
            self.blocks.heading(level, text);
        }
    }

    /// Returns whether the next text is indented, or a heading too.
    fn is_above_its_text(&self) -> bool {
        let mut next = self.lines[self.at + 1..].iter().filter(|line| !line.is_empty());
        next.next()
            .is_some_and(|next| indent(next) > 1 || numbered(next).is_some())
    }
}

/// Returns the lines without the headers and footers of printed pages, such as those of an RFC.
fn without_pages(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = Vec::new();
    let mut headers: HashMap<&str, usize> = HashMap::new();
    for page in text.split('\x0c').skip(1) {
        *headers.entry(first_line(page)).or_default() += 1;
    }
    let pages: usize = headers.values().sum();
    let is_repeated = |line: &str| {
        headers
            .get(line)
            .is_some_and(|on| *on >= MIN_PAGES && on * 2 >= pages)
    };
    for (at, page) in text.split('\x0c').enumerate() {
        let mut rest = page;
        if at > 0 && is_repeated(first_line(page)) {
            rest = page
                .trim_start_matches(['\r', '\n', ' '])
                .split_once('\n')
                .map_or("", |(_, rest)| rest);
        }
        if at > 0 {
            let rest = rest.trim_start_matches(['\r', '\n']);
            let continues = rest.trim_start().starts_with(char::is_lowercase);
            let ends = lines
                .last()
                .is_none_or(|last| last.ends_with(['.', ':', '!', '?']));
            if ends || !continues {
                lines.push("");
            }
        }
        lines.extend(
            rest.lines()
                .map(str::trim_end)
                .skip_while(|line| at > 0 && line.is_empty()),
        );
        while lines
            .last()
            .is_some_and(|last| last.is_empty() || is_footer(last))
        {
            lines.pop();
        }
    }
    lines
}

fn first_line(page: &str) -> &str {
    page.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
}

/// Returns whether a line ends a page of an RFC: `Fielding, et al.   Standards Track   [Page 3]`.
fn is_footer(line: &str) -> bool {
    let number = line.strip_suffix(']').and_then(|line| line.rsplit_once("[Page "));
    number.is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn indent(line: &str) -> usize {
    lines::indent(line, TAB_COLUMNS)
}

/// Returns lines as a listing, without their common indentation.
fn listing(group: &[&str]) -> String {
    let spaces = |line: &&str| line.len() - line.trim_start().len();
    let common = group.iter().map(spaces).min().unwrap_or_default();
    let lines: Vec<&str> = group
        .iter()
        .map(|line| line.get(common..).unwrap_or_else(|| line.trim_start()))
        .collect();
    lines.join("\n")
}

/// Returns the mark of a line that makes the text above it a heading.
fn mark_below(text: &str, below: &str) -> Option<char> {
    let below = below.trim();
    let mark = below.chars().next().filter(|mark| "=-~^*#+\"".contains(*mark))?;
    let (width, count) = (text.trim().chars().count(), below.chars().count());
    let fits = count >= MIN_MARKS && count + 2 >= width && below.chars().all(|c| c == mark);
    let is_text = text.chars().any(char::is_alphanumeric) && width <= MAX_HEADING;
    (fits && is_text).then_some(mark)
}

/// Returns whether a line separates two parts of a text.
fn is_separator(line: &str) -> bool {
    let line = line.trim();
    line.len() >= MIN_SEPARATOR
        && ["=", "-", "*", "#", "_"]
            .iter()
            .any(|mark| line.trim_matches(|c| mark.contains(c)).is_empty())
}

/// Returns the level of a numbered heading: `3.1.  Methods`.
fn numbered(line: &str) -> Option<u8> {
    let (number, title) = line.split_once(' ')?;
    let parts = number.trim_end_matches('.').split('.');
    let are_numbers = parts
        .clone()
        .all(|part| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()));
    let is_title = title
        .trim_start()
        .starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || parts.clone().count() > 1);
    let is_heading = are_numbers && is_title && line.chars().count() <= MAX_HEADING && !ends_sentence(line);
    let level = u8::try_from(parts.count())
        .unwrap_or(MAX_LEVEL)
        .saturating_add(CAPITALS_LEVEL);
    is_heading.then_some(level.min(MAX_LEVEL))
}

fn is_in_capitals(line: &str) -> bool {
    let letters = line.chars().filter(|c| c.is_alphabetic());
    indent(line) == 0
        && line.chars().count() <= MAX_HEADING
        && letters.clone().count() >= MIN_CAPITALS
        && letters.clone().all(char::is_uppercase)
        && !ends_sentence(line)
        && !line.contains(['=', '|', '{', '/', '_', '<'])
}

/// Returns the first of some lines if the others describe it: they are indented further.
fn term<'a>(group: &[&'a str]) -> Option<&'a str> {
    let (first, second) = (group.first()?, group.get(1)?);
    let is_short = first.chars().count() <= MAX_TERM && !ends_sentence(first);
    let rest = group[1..]
        .iter()
        .map(|line| indent(line))
        .min()
        .unwrap_or_default();
    let is_above = rest > indent(first) + 1 && !is_item(first.trim_start()) && !is_item(second.trim_start());
    (is_short && is_above).then(|| first.trim())
}

fn ends_sentence(line: &str) -> bool {
    line.ends_with(['.', ',', ';', ':', '!', '?'])
}

/// Returns whether lines are sentences rather than commands or code.
fn reads_as_prose(group: &[&str]) -> bool {
    let first = group.first().map_or("", |line| line.trim_start());
    let last = group.last().copied().unwrap_or_default();
    is_item(first) || first.starts_with(char::is_uppercase) && last.ends_with(['.', ':', '!', '?'])
}

/// Returns whether lines have columns or drawings, which are not to be joined.
fn has_columns(group: &[&str]) -> bool {
    let is_column = |line: &&&str| {
        let line = line.trim_start();
        let text = line.trim_start_matches(|c: char| !c.is_alphanumeric() && c != ' ');
        let after_mark = text.len() < line.len() && text.starts_with(' ');
        let line = if after_mark { text.trim_start() } else { line };
        line.starts_with('|')
            || [MIN_GAP, "----", "+--", "\t", " = "]
                .iter()
                .any(|mark| line.contains(mark))
    };
    group.len() > 1 && group.iter().filter(is_column).count() * 2 > group.len()
}

/// Returns whether lines are part of a table of contents, which has the words of all headings and answers nothing: most
/// end with the number of a page, none smaller than the one before.
fn is_contents(group: &[&str]) -> bool {
    let page = |line: &&str| -> Option<u32> {
        let (_, number) = line.rsplit_once(['.', ' '])?;
        number.parse().ok().filter(|_| line.contains("...."))
    };
    let pages: Vec<u32> = group.iter().filter_map(page).collect();
    group.len() >= MIN_CONTENTS && pages.len() * 2 > group.len() && pages.is_sorted()
}

fn is_item(line: &str) -> bool {
    lines::is_item(line, &ITEM_MARKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{check_blocks, check_returns_soon};

    #[test]
    fn layout_is_structure() {
        let text = "\
Birds
=====

A robin sings
at dawn.

Feeding
-------
Run it:

    feed --all
    feed --owl

  * seeds
  * worms
    and more

Name      Food
robin     seeds
owl       mice

STORING
   Keep it dry.

1.  Introduction

   This is about (1) a thing.

1.1.  Terms

   A term is:

     A sentence that is indented, and
     has an end.

   1. One
   2. Two

Really?

2. Not a heading.

====================
Owls

Two ways:
\towl --hoot
\towl --fly
or none.
";
        let parsed = parse(text, &ParseLimits::default()).unwrap();
        check_blocks(
            &parsed,
            &[
                ("Birds", "A robin sings at dawn."),
                ("Birds > Feeding", "Run it:"),
                ("Birds > Feeding", "feed --all\nfeed --owl"),
                ("Birds > Feeding", "* seeds"),
                ("Birds > Feeding", "* worms and more"),
                (
                    "Birds > Feeding",
                    "Name      Food\nrobin     seeds\nowl       mice",
                ),
                ("Birds > STORING", "Keep it dry."),
                ("Birds > STORING > 1. Introduction", "This is about (1) a thing."),
                ("Birds > STORING > 1. Introduction > 1.1. Terms", "A term is:"),
                (
                    "Birds > STORING > 1. Introduction > 1.1. Terms",
                    "A sentence that is indented, and has an end.",
                ),
                ("Birds > STORING > 1. Introduction > 1.1. Terms", "1. One"),
                ("Birds > STORING > 1. Introduction > 1.1. Terms", "2. Two"),
                ("Birds > STORING > 1. Introduction > 1.1. Terms", "Really?"),
                (
                    "Birds > STORING > 1. Introduction > 1.1. Terms",
                    "2. Not a heading.",
                ),
                ("Owls", "Two ways:"),
                ("Owls", "owl --hoot\nowl --fly"),
                ("Owls", "or none."),
            ],
        );
    }

    #[test]
    fn nothing_is_lost() {
        let cases: [(&str, &[&str]); 7] = [
            (
                "1. Open the door\n\n2. Feed the birds\n\n3. Close the door\n",
                &["1. Open the door", "2. Feed the birds", "3. Close the door"],
            ),
            ("KEEP THE DOOR CLOSED\n", &["KEEP THE DOOR CLOSED"]),
            (
                "Regards\n\n--------------------\nJohn Smith\n",
                &["Regards", "John Smith"],
            ),
            ("FIRST LINE\nSECOND LINE\n", &["FIRST LINE SECOND LINE"]),
            (
                "Seeds ........ 2.50\nWorms ........ 3.00\n",
                &["Seeds ........ 2.50 Worms ........ 3.00"],
            ),
            ("Wait for it.... 5\n", &["Wait for it.... 5"]),
            ("One .... 1\nTwo .... 2\nThree .... 2\n\nText.\n", &["Text."]),
        ];
        for (text, expected) in cases {
            let blocks = parse(text, &ParseLimits::default()).unwrap().blocks;
            let texts: Vec<&str> = blocks.iter().map(|block| block.text.as_str()).collect();
            assert_eq!(texts, expected, "{text}");
        }
    }

    #[test]
    fn headers_and_footers_of_pages_are_left_out() {
        let text = "One is\n\nA. Author       Standards Track     [Page 1]\n\x0c\nRFC 1   Birds   May 1999\n\n\ncontinued here.\n\n\
                    A. Author       Standards Track     [Page 2]\n\x0c\nRFC 1   Birds   May 1999\n\nTwo.\n\x0cThree.\n\
                    \x0c\nRFC 1   Birds   May 1999\n\nFour.\n\x0cFive.\n";
        let parsed = parse(text, &ParseLimits::default()).unwrap();
        let texts: Vec<&str> = parsed.blocks.iter().map(|block| block.text.as_str()).collect();
        assert_eq!(
            texts,
            ["One is continued here.", "Two.", "Three.", "Four.", "Five."]
        );
    }

    #[test]
    fn paragraphs_end_at_empty_lines_however_lines_end() {
        let parsed = parse("One\r\ntwo.\r\n \r\nThree.\n\n\n\nFour.", &ParseLimits::default()).unwrap();
        let texts: Vec<_> = parsed.blocks.iter().map(|block| block.text.as_str()).collect();
        assert_eq!(texts, ["One two.", "Three.", "Four."]);
    }

    #[test]
    fn sizes_at_the_edge_are_read() {
        let limits = ParseLimits::default();
        let line = "word ".repeat(2_000_000);
        assert_eq!(parse(&line, &limits).unwrap().blocks.len(), 1);
        assert_eq!(
            parse(&"a\n".repeat(100_000), &limits).unwrap().blocks[0]
                .text
                .len(),
            199_999
        );
        assert_eq!(
            parse(&"a\n\n".repeat(100_000), &limits).unwrap().blocks.len(),
            100_000
        );
    }

    #[test]
    fn hostile_text_returns_soon() {
        let pieces = [
            "\x0c",
            "\x0ca\n",
            "a\n=\n",
            "- ",
            "1. A\n\n",
            "A\n",
            "    ",
            "a:\n\n   b\n\n",
            "[Page 1]\n",
            "a:\n  b\n",
            "a\n  b\n\n",
            "--------------------\na\n\n",
        ];
        check_returns_soon(parse, &pieces);
    }
}
