//! Finds tables of contents. They have the words of all headings and answer nothing.

use std::collections::{HashMap, HashSet};

use super::headings::{NUMBER_ENDS, entry, is_chapter_name, is_question, mark_below, numbered, question};
use super::indent;
use crate::documents::parse::labels;
use crate::documents::parse::lines::is_contents_title;

/// The fewest lines of a table of contents with the numbers of pages.
const MIN_LINES: usize = 3;
/// The fewest of one below a title, and of one with questions.
const MIN_TITLED_LINES: usize = 2;
/// The fewest of any other.
const MIN_UNTITLED_LINES: usize = 6;
/// The most entries in a row whose headings have other words, below a title and without one.
const MAX_TITLED_STRAYS: usize = 3;
const MAX_STRAYS: usize = 1;
/// Headings are further apart than so many lines. Items of a list are not.
const MIN_PART: usize = 2;
/// The most further lines of an entry.
const MAX_ENTRY_LINES: usize = 3;
/// What the items of a table of contents begin with.
const MARKS: [char; 5] = ['*', '-', '+', '•', '·'];

/// Returns the lines without those of tables of contents: those below a title that are in the text once more, and those
/// that are headings further below.
pub(super) fn without<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut last: HashMap<String, (usize, bool)> = HashMap::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        last.insert(key(line), (at, false));
    }
    let below = |at: usize| lines.get(at + 1).copied().unwrap_or_default();
    for (at, is_heading) in last.values_mut() {
        let is_alone =
            below(*at).is_empty() && at.checked_sub(1).is_none_or(|before| lines[before].is_empty());
        *is_heading = mark_below(lines[*at], below(*at)).is_some()
            || (is_alone && numbered(lines[*at]).is_some())
            || question(&lines[*at..]).is_some()
            || entry(lines[*at]).is_some();
    }
    let mut kept = Vec::with_capacity(lines.len());
    let mut at = 0;
    while at < lines.len() {
        let is_titled = is_contents_title(lines[at]);
        let from = match mark_below(lines[at], below(at)) {
            Some(_) if is_titled => at + 2,
            None if is_titled => at + 1,
            Some(_) | None => at,
        };
        let again = |key: &str, at: usize| {
            let later = last.get(key).filter(|(later, _)| *later > at);
            later
                .filter(|(_, is_heading)| is_titled || *is_heading)
                .map(|(later, _)| *later)
        };
        let (end, count) = if lines[at].is_empty() {
            (at, 0)
        } else {
            run(lines, from, is_titled, again)
        };
        let has_questions = is_question(lines[at]);
        let least = if is_titled || has_questions {
            MIN_TITLED_LINES
        } else {
            MIN_UNTITLED_LINES
        };
        if count >= least {
            kept.push("");
        } else {
            kept.extend_from_slice(&lines[at..end.max(at + 1)]);
        }
        at = end.max(at + 1);
    }
    kept
}

/// Returns where a run of entries ends, and how many it has. `again` returns where the text has an entry once more.
fn run(
    lines: &[&str],
    from: usize,
    is_titled: bool,
    again: impl Fn(&str, usize) -> Option<usize>,
) -> (usize, usize) {
    let (most_strays, least_before_stray) = if is_titled {
        (MAX_TITLED_STRAYS, 1)
    } else {
        (MAX_STRAYS, MIN_UNTITLED_LINES)
    };
    let mut seen = HashSet::new();
    let (mut end, mut count, mut strays) = (from, 0, 0);
    // Where the last entry is, and where the text has it once more.
    let mut last: Option<(usize, usize)> = None;
    let mut at = from;
    while at < lines.len() {
        if lines[at].is_empty() {
            at += 1;
            continue;
        }
        // A long entry continues below, as its heading does.
        let is_same = |line: &&str| line.trim() == lines[at].trim();
        if let Some((entry, later)) = last
            && at == end
            && lines.get(later + (at - entry)).is_some_and(is_same)
        {
            (end, at) = (at + 1, at + 1);
            continue;
        }
        // Or its heading is one line.
        let is_inner = |line: &&&str| !line.is_empty() && indent(line) > indent(lines[at]);
        let below = lines[at + 1..].iter().take(MAX_ENTRY_LINES);
        let inner = below.take_while(is_inner).count();
        let alone = key(lines[at]);
        // The text begins with the first entry, or with another table.
        if seen.contains(&alone) || is_contents_title(lines[at]) {
            break;
        }
        let (entry, used) = match again(&alone, at) {
            Some(_) => (alone, 1),
            None => (key(&lines[at..=at + inner].join(" ")), 1 + inner),
        };
        if let Some(later) = again(&entry, at) {
            // Parts of a text have lines between their headings, and are in the order of its contents.
            let is_next = last.is_none_or(|(_, before)| later > before + MIN_PART);
            if !seen.insert(entry) || !(is_titled || is_next) {
                break;
            }
            at += used;
            (end, count, strays) = (at, count + 1, 0);
            last = Some((at - used, later));
            continue;
        }
        // The heading may have other words.
        strays += 1;
        let describes = |(entry, _): (usize, usize)| describes(lines[entry], lines[at]);
        let is_text = lines[at].ends_with('.') || (at == end && last.is_some_and(describes));
        if strays > most_strays || count < least_before_stray || is_text {
            break;
        }
        let is_further = |line: &&&str| again(&key(line), at).is_none() && labels::label(line).is_none();
        at += 1 + lines[at + 1..at + 1 + inner]
            .iter()
            .take_while(is_further)
            .count();
    }
    (end, count)
}

/// Returns whether a line without a number or a mark is indented below an entry.
fn describes(entry: &str, line: &str) -> bool {
    numbered(line).is_none() && labels::label(line).is_none() && indent(line) > indent(entry)
}

/// Returns an entry as its heading may be written: without a mark, spaces, the word for a chapter, and what its number ends
/// with.
fn key(line: &str) -> String {
    let line = entry(line).unwrap_or(line);
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || MARKS.contains(&c));
    let mut words = line.split_whitespace().map(str::to_lowercase).peekable();
    words.next_if(|word| is_chapter_name(word));
    let first = words.next().unwrap_or_default();
    let number = first.trim_end_matches(NUMBER_ENDS);
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let mut key = if is_number { number } else { &first }.to_owned();
    words.for_each(|word| key.push_str(&word));
    key
}

/// Returns whether lines are part of a table of contents: most end with the number of a page, none smaller than the one
/// before.
pub(super) fn has_pages(group: &[&str]) -> bool {
    let page = |line: &&str| -> Option<u32> {
        let heading = line.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_led = heading.trim_end().ends_with("..") && heading.contains("....");
        line[heading.len()..].parse().ok().filter(|_| is_led)
    };
    let pages: Vec<u32> = group.iter().filter_map(page).collect();
    pages.len() >= MIN_LINES && pages.len() * 2 > group.len() && pages.is_sorted()
}
