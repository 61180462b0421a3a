//! Reads text without markup. What its writer shows by layout is kept: headings, items, tables and listings.

mod contents;
mod entries;
mod headings;
mod lists;
mod pages;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use self::entries::Entry;
use self::headings::{
    CAPITALS_LEVEL, MAX_HEADING, MAX_LEVEL, ends_sentence, is_centered, is_chapter, is_in_capitals,
    is_separator, level_of, mark_below, numbered,
};
use self::lists::Lists;
use super::blocks::{Blocks, MAX_HEADING_BYTES};
use super::hyphens::Words;
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed, labels, lines};

/// The longest term above its description in characters, with its indentation. Lines of a paragraph are longer.
const MAX_TERM: usize = 60;
/// The most words of a term. Longer ones are sentences whose first line is not indented.
const MAX_TERM_WORDS: usize = 8;
/// How many spaces between two words show that a line has columns: justified text has two.
const MIN_GAP: &str = "   ";
/// How many lines below a colon show that a table follows.
const MAX_TABLE_LINES: usize = 40;
/// How far a tab indents at most, in columns.
const TAB_COLUMNS: usize = 8;
/// The last marks of sentences, and of lines that introduce the next one.
const ENDS: [char; 8] = ['.', ':', '!', '?', '。', '：', '！', '？'];
/// The last mark of a line that introduces the next one.
const COLONS: [char; 2] = [':', '：'];
/// The first lines of a document, in which a line in the middle is its title. Later ones are quotations.
const MAX_TITLE_LINES: usize = 40;
/// The level of headings in the middle of a page, and below a line of marks.
const TITLE_LEVEL: u8 = 1;

/// Reads text; an empty line ends a paragraph.
pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let lines = contents::without(&pages::without_pages(text));
    let mut reader = Reader {
        lines: &lines,
        at: 0,
        blocks: Blocks::new(limits),
        words: Words::of(lines.iter().copied()),
        lists: Lists::default(),
        chapters: headings::numbered_chapters(&lines),
        text_indent: headings::text_indent(&lines),
        has_entries: headings::have_entries(&lines),
        pending: Vec::new(),
        marks: Vec::new(),
        has_parts: headings::have_parts(&lines),
        lead: None,
        term: None,
        is_answer: false,
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
    words: Words,
    lists: Lists,
    /// The lines that are chapters with numbers.
    chapters: HashSet<usize>,
    /// How the document's text is indented.
    text_indent: usize,
    /// Whether it is a dictionary.
    has_entries: bool,
    /// The headings that nothing follows yet, with their levels, the innermost last.
    pending: Vec<(u8, String)>,
    /// The marks below headings, with their levels.
    marks: Vec<(char, u8)>,
    /// Whether parts of the document have numbers. Other headings are within them.
    has_parts: bool,
    /// The indentation of the paragraph before, if it ends with a colon.
    lead: Option<usize>,
    /// The indentation of the term whose description is open.
    term: Option<usize>,
    /// Whether the next text answers the question that is the last heading.
    is_answer: bool,
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
                && next.len() <= MAX_HEADING_BYTES
                && !next.is_empty()
                && !ends_sentence(next)
            {
                self.open_heading(TITLE_LEVEL, next)?;
                self.at += 1;
            }
            return Ok(());
        }
        if self.heading()? {
            return Ok(());
        }
        let start = self.at;
        let is_question = |at: usize| headings::question(self.lines.get(at..).unwrap_or_default()).is_some();
        while !self.peek(0).is_empty() {
            self.at += 1;
            // The next question may follow an answer without an empty line.
            if self.is_answer && is_question(self.at) {
                break;
            }
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
            } else if before.ends_with(COLONS)
                && lead.is_none()
                && has_columns(&self.lines[at..self.at.min(at + MAX_TABLE_LINES)])
            {
                self.part(from, at)?;
                from = at;
            }
        }
        self.part(from, self.at)
    }

    /// Reads lines without empty ones: a listing, or paragraphs and items.
    fn part(&mut self, start: usize, end: usize) -> Result<(), ParseError> {
        let group = &self.lines[start..end];
        let outer = group.iter().map(|line| indent(line)).min().unwrap_or_default();
        if contents::has_pages(group) {
            return Ok(());
        }
        // The item after it shows that the line before is one too, and no heading.
        let numbers = |line: &str| headings::leading_numbers(line).map(|(numbers, _)| numbers);
        let is_next_clause = |text: &str| {
            let (Some(before), Some(mut next)) = (numbers(text), numbers(group[0])) else {
                return false;
            };
            let last = next.pop();
            let is_next = |(number, outer): (&u32, &[u32])| outer == next && last == number.checked_add(1);
            before.len() > 1 && before.split_last().is_some_and(is_next)
        };
        let follows = |text: &str| {
            let (before, next) = (labels::label(text), labels::label(group[0]));
            let is_next = before
                .zip(next)
                .is_some_and(|((before, _), (next, _))| next.follows(before));
            (is_next || is_next_clause(text)) && indent(text) == indent(group[0])
        };
        if self.pending.last().is_some_and(|(_, text)| follows(text)) {
            self.close_pending(0)?;
        }
        self.open_pending();
        let is_led_to = self.lead.is_some_and(|lead| outer > lead + 1) && !reads_as_prose(group);
        self.close_term(outer);
        self.lead = group.last().filter(|last| last.ends_with(COLONS)).map(|_| outer);
        if std::mem::take(&mut self.is_answer)
            && let Some(answer) = headings::answer(group[0])
        {
            let lines: Vec<&str> = [&[answer], &group[1..]].concat();
            return self.paragraphs(&lines, end);
        }
        if let Some(entries) = entries::entries(group, &self.words) {
            return self.definitions(outer, entries);
        }
        if is_led_to || has_columns(group) {
            let closes = self.lists.leave(outer);
            self.close_lists(closes);
            return self.blocks.push(BlockKind::Listing, None, &listing(group));
        }
        let Some(term) = term(group) else {
            return self.paragraphs(group, end);
        };
        self.end_term();
        let closes = self.lists.leave(outer);
        self.close_lists(closes);
        self.term = Some(outer);
        self.blocks.open_definitions();
        self.blocks.term(term)?;
        self.paragraphs(&group[1..], end)
    }

    /// Writes entries with their descriptions.
    fn definitions(&mut self, outer: usize, entries: Vec<Entry<'_>>) -> Result<(), ParseError> {
        let closes = self.lists.leave(outer);
        self.close_lists(closes);
        self.blocks.open_definitions();
        for (name, description) in entries {
            self.blocks.term(name)?;
            self.blocks.push(BlockKind::Prose, None, &description)?;
        }
        self.blocks.close_definitions();
        Ok(())
    }

    /// Writes the paragraphs and items that lines are. `end` is the line below them.
    fn paragraphs(&mut self, lines: &[&str], end: usize) -> Result<(), ParseError> {
        let mut paragraph = String::new();
        let mut before = None;
        for (at, line) in lines.iter().enumerate() {
            let below = lines[at + 1..].iter().chain(&self.lines[end..]).copied();
            if let Some(item) = self.lists.begin(before, line, below) {
                self.blocks.push(BlockKind::Prose, None, &paragraph)?;
                self.close_lists(item.closes);
                self.blocks.begin_item(&item);
                paragraph = item.text.to_owned();
            } else {
                let (closes, continues) = self.lists.text(before, line);
                if continues {
                    self.words.join(&mut paragraph, line.trim());
                } else {
                    self.blocks.push(BlockKind::Prose, None, &paragraph)?;
                    self.close_lists(closes);
                    paragraph = line.trim().to_owned();
                }
            }
            before = Some(*line);
        }
        self.blocks.push(BlockKind::Prose, None, &paragraph)
    }

    fn close_lists(&mut self, count: usize) {
        for _ in 0..count {
            self.blocks.close_list();
        }
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
        // A longer heading would be cut.
        if text.len() > MAX_HEADING_BYTES {
            return Ok(false);
        }
        if let Some(mark) = mark_below(text, if is_above { third } else { second }) {
            let level = self.level_of_mark(mark, numbered(text));
            self.open_heading(level, text)?;
            self.at += used;
            return Ok(true);
        }
        if let Some(lines) = headings::question(&self.lines[self.at..]) {
            let mut question = String::new();
            for line in &lines {
                self.words.join(&mut question, line);
            }
            if question.len() > MAX_HEADING_BYTES {
                return Ok(false);
            }
            self.open_heading(MAX_LEVEL, &question)?;
            self.at += lines.len();
            self.is_answer = true;
            return Ok(true);
        }
        let Some(level) = self.level(first, second) else {
            return Ok(false);
        };
        self.open_heading(level, first)?;
        self.at += 1;
        Ok(true)
    }

    /// Returns the level of a heading above this mark, with its numbers.
    fn level_of_mark(&mut self, mark: char, numbers: Option<Vec<u32>>) -> u8 {
        let known = self.marks.iter().position(|(known, _)| *known == mark);
        let level = match (numbers, known) {
            (Some(numbers), _) => level_of(&numbers),
            (None, Some(known)) => self.marks[known].1,
            (None, None) => {
                let is_within = self.has_parts && !self.marks.is_empty();
                let next = u8::try_from(self.marks.len() + 1).unwrap_or(MAX_LEVEL);
                if is_within { MAX_LEVEL } else { next }
            }
        };
        match known {
            Some(known) => self.marks[known].1 = level,
            None => self.marks.push((mark, level)),
        }
        level
    }

    /// Returns the level of the heading that a line without marks is.
    fn level(&self, line: &str, next: &str) -> Option<u8> {
        let is_alone = next.is_empty();
        if let Some(numbers) = numbered(line).filter(|_| is_alone)
            && (numbers.len() > 1 || self.is_chapter(line))
        {
            return Some(level_of(&numbers));
        }
        if is_alone && is_chapter(line) {
            return Some(CAPITALS_LEVEL);
        }
        // Where parts have numbers, others are within them.
        let (capitals, inner) = if self.has_parts {
            (MAX_LEVEL, MAX_LEVEL)
        } else {
            (CAPITALS_LEVEL, CAPITALS_LEVEL + 1)
        };
        if is_in_capitals(line) && (is_alone || (indent(next) > 0 && !is_item(line))) {
            return Some(capitals);
        }
        let is_entry = self.has_entries && headings::entry(line).is_some();
        if !is_alone || !(headings::is_title(line) || is_entry) {
            return None;
        }
        let below = self.below().unwrap_or_default();
        if is_entry || self.is_outdented(line, below) {
            Some(inner)
        } else {
            let is_first = self.at < MAX_TITLE_LINES;
            (is_first && is_centered(line) && indent(below) < indent(line)).then_some(TITLE_LEVEL)
        }
    }

    /// Opens a heading once text follows it.
    fn open_heading(&mut self, level: u8, text: &str) -> Result<(), ParseError> {
        self.lead = None;
        self.is_answer = false;
        self.close_pending(level)?;
        self.pending.push((level, text.to_owned()));
        Ok(())
    }

    /// Writes the innermost of the pending headings as text if its level is not above `level`: nothing is below it, so it
    /// is a line of text, such as an item of a list.
    fn close_pending(&mut self, level: u8) -> Result<(), ParseError> {
        let last = self.pending.pop_if(|(last, _)| *last >= level);
        if let Some((_, text)) = last {
            self.open_pending();
            self.paragraphs(&[&text], self.at)?;
        }
        Ok(())
    }

    fn open_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.end_term();
        let closes = self.lists.end();
        self.close_lists(closes);
        for (level, text) in std::mem::take(&mut self.pending) {
            self.blocks.heading(level, headings::undecorated(&text));
        }
    }

    /// Returns the next line of text below this one.
    fn below(&self) -> Option<&'a str> {
        let mut below = self.lines[self.at + 1..].iter();
        below.find(|line| !line.is_empty()).copied()
    }

    /// Returns whether a line is not indented as the document's text, and the text below is further than it.
    fn is_outdented(&self, line: &str, below: &str) -> bool {
        let is_above =
            indent(below) > indent(line) || (indent(below) == indent(line) && headings::is_title(below));
        indent(line) < self.text_indent && is_above
    }

    /// Returns whether a line with a number is a chapter. Without parts of chapters, the text below has to show it.
    fn is_chapter(&self, line: &str) -> bool {
        let is_below = |next: &str| indent(next) > 1 || numbered(next).is_some();
        let is_above_text = indent(line) == 0 && !line.ends_with('?') && self.below().is_some_and(is_below);
        self.chapters.contains(&self.at) || (self.chapters.is_empty() && is_above_text)
    }
}

fn indent(line: &str) -> usize {
    lines::indent(line, TAB_COLUMNS)
}

fn is_item(line: &str) -> bool {
    labels::label(line).is_some()
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

/// Returns the first of some lines if the others describe it: they are indented further.
fn term<'a>(group: &[&'a str]) -> Option<&'a str> {
    let (first, second) = (group.first()?, group.get(1)?);
    let is_short = first.chars().count() <= MAX_TERM && !ends_sentence(first);
    let rest = group[1..]
        .iter()
        .map(|line| indent(line))
        .min()
        .unwrap_or_default();
    let is_short = is_short && first.split_whitespace().count() <= MAX_TERM_WORDS;
    let is_above = rest > indent(first) + 1 && !is_item(first) && !is_item(second);
    (is_short && is_above).then(|| first.trim())
}

/// Returns whether lines are sentences rather than commands or code.
fn reads_as_prose(group: &[&str]) -> bool {
    let first = group.first().map_or("", |line| line.trim_start());
    let last = group.last().copied().unwrap_or_default();
    is_item(first) || first.starts_with(char::is_uppercase) && last.ends_with(ENDS)
}

/// Returns whether lines have columns or drawings, which are not to be joined.
fn has_columns(group: &[&str]) -> bool {
    let is_column = |line: &&&str| {
        let line = labels::label(line).map_or_else(|| line.trim_start(), |(_, text)| text);
        line.starts_with('|')
            || [MIN_GAP, "----", "+--", "\t", " = "]
                .iter()
                .any(|mark| line.contains(mark))
    };
    group.len() > 1 && group.iter().filter(is_column).count() * 2 > group.len()
}
