//! Finds tables of contents. They have the words of all headings and answer nothing.

use std::collections::{HashMap, HashSet};

use super::headings::{NUMBER_ENDS, entry, is_chapter_name, is_question, mark_below, numbered, question};
use super::indent;
use crate::documents::parse::lines::is_contents_title;

/// The fewest lines of a table of contents with the numbers of pages.
const MIN_LINES: usize = 3;
/// The fewest of one below a title, and of one with questions.
const MIN_TITLED_LINES: usize = 2;
/// The most further lines of an entry.
const MAX_ENTRY_LINES: usize = 3;
/// What the items of a table of contents begin with.
const MARKS: [char; 5] = ['*', '-', '+', '•', '·'];
/// The fewest lines of one without either.
const MIN_UNTITLED_LINES: usize = 6;

/// Returns the lines without those of tables of contents: those below a title that are in the text once more, and those
/// that are headings further below.
pub(super) fn without<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut last: HashMap<String, usize> = HashMap::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        last.insert(key(line), at);
    }
    let below = |at: usize| lines.get(at + 1).copied().unwrap_or_default();
    let is_heading = |at: usize| {
        mark_below(lines[at], below(at)).is_some()
            || numbered(lines[at]).is_some()
            || question(&lines[at..]).is_some()
            || entry(lines[at]).is_some()
    };
    let mut kept = Vec::with_capacity(lines.len());
    let mut at = 0;
    while at < lines.len() {
        let is_titled = is_contents_title(lines[at]);
        let from = match mark_below(lines[at], below(at)) {
            Some(_) if is_titled => at + 2,
            None if is_titled => at + 1,
            Some(_) | None => at,
        };
        let is_entry = |key: &str, at: usize| {
            let later = last.get(key).filter(|later| **later > at);
            later.is_some_and(|later| is_titled || is_heading(*later))
        };
        let (end, count) = if lines[at].is_empty() {
            (at, 0)
        } else {
            run(lines, from, is_titled, is_entry)
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
            // A run that is too short has no longer one within.
            kept.extend_from_slice(&lines[at..end.max(at + 1)]);
        }
        at = end.max(at + 1);
    }
    kept
}

/// Returns where a run of entries ends, and how many it has.
fn run(
    lines: &[&str],
    from: usize,
    is_titled: bool,
    is_entry: impl Fn(&str, usize) -> bool,
) -> (usize, usize) {
    let least_before_stray = if is_titled { 1 } else { MIN_UNTITLED_LINES };
    let mut seen = HashSet::new();
    let (mut end, mut count, mut strays) = (from, 0, 0);
    let mut at = from;
    while at < lines.len() {
        if lines[at].is_empty() {
            at += 1;
            continue;
        }
        // A long entry continues on lines that are indented further.
        let is_inner = |line: &&&str| !line.is_empty() && indent(line) > indent(lines[at]);
        let inner = lines[at + 1..]
            .iter()
            .take(MAX_ENTRY_LINES)
            .take_while(is_inner)
            .count();
        let joined = key(&lines[at..=at + inner].join(" "));
        let (key, used) = match key(lines[at]) {
            key if is_entry(&key, at) => (key, 1),
            _ => (joined, 1 + inner),
        };
        if is_entry(&key, at) {
            if !seen.insert(key) {
                break;
            }
            (end, count, strays) = (at + used, count + 1, 0);
        } else if count > 0 && at == end && indent(lines[at]) > indent(lines[at - 1]) {
            end = at + 1;
            at += 1;
            continue;
        } else if strays == 1 || count < least_before_stray || lines[at].ends_with('.') {
            break;
        } else {
            // The heading may have other words.
            strays += 1;
        }
        at += used;
    }
    (end, count)
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
        let (_, number) = line.rsplit_once(['.', ' '])?;
        number.parse().ok().filter(|_| line.contains("...."))
    };
    let pages: Vec<u32> = group.iter().filter_map(page).collect();
    group.len() >= MIN_LINES && pages.len() * 2 > group.len() && pages.is_sorted()
}
