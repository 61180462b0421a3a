//! Recognises headings by their layout: a line of marks below them, their number, or capitals.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::{ENDS, MIN_GAP, indent};

/// The longest heading in characters.
pub(super) const MAX_HEADING: usize = 80;
/// The longest one with marks below it.
const MAX_UNDERLINED: usize = 120;
/// The fewest marks below a heading.
const MIN_MARKS: usize = 3;
/// The fewest letters of a heading in capitals: shorter lines are mostly abbreviations.
const MIN_CAPITALS: usize = 4;
/// The deepest level of a numbered heading, as in HTML.
pub(super) const MAX_LEVEL: u8 = 6;
/// The level of headings in capitals, such as those of manual pages. Numbered ones are below.
pub(super) const CAPITALS_LEVEL: u8 = 2;
/// The shortest line of marks between two parts of a text.
const MIN_SEPARATOR: usize = 20;
/// What chapters are called.
const CHAPTERS: [&str; 14] = [
    "appendix",
    "chapter",
    "part",
    "section",
    "anhang",
    "kapitel",
    "teil",
    "annexe",
    "chapitre",
    "partie",
    "capítulo",
    "capitolo",
    "parte",
    "hoofdstuk",
];
/// What is on both sides of a heading.
const DECORATIONS: [char; 5] = ['-', '=', '*', '#', '~'];
/// What the number of a heading ends with.
pub(super) const NUMBER_ENDS: [char; 2] = ['.', ':'];
/// The usual width of a page, in columns, and the smallest margins of a line in its middle, which may differ as much.
const PAGE_COLUMNS: usize = 72;
const MIN_CENTERED: usize = 8;
/// The fewest entries of a dictionary.
const MIN_ENTRIES: usize = 3;
/// The longest name of an entry, in characters.
const MAX_ENTRY_NAME: usize = 60;
/// The shortest line that shows how a document's text is indented, in characters.
const LONG_LINE: usize = 50;
/// One of so many long lines shows it.
const TEXT_SHARE: usize = 10;
/// The highest number of a part of a chapter has so many digits. Years have more.
const MAX_DIGITS: usize = 3;
/// The highest number of a chapter.
const MAX_CHAPTER: u32 = 99;
/// How many numbers the address of a host has.
const ADDRESS_PARTS: usize = 4;
/// How many lists and chapters are counted at once.
const MAX_RUNS: usize = 8;
/// The most further lines of a question.
const MAX_QUESTION_LINES: usize = 4;

/// Returns the mark of a line that makes the text above it a heading.
pub(super) fn mark_below(text: &str, below: &str) -> Option<char> {
    let below = below.trim();
    let mark = below.chars().next().filter(|mark| "=-~^*#+\"".contains(*mark))?;
    let (width, count) = (text.trim().chars().count(), below.chars().count());
    let fits = count >= MIN_MARKS && count + 2 >= width && below.chars().all(|c| c == mark);
    // A row of a table may be underlined too.
    let is_row = text.trim().contains(MIN_GAP);
    let is_text = text.chars().any(char::is_alphanumeric) && width <= MAX_UNDERLINED && !is_row;
    (fits && is_text).then_some(mark)
}

/// Returns whether a line separates two parts of a text.
pub(super) fn is_separator(line: &str) -> bool {
    let line = line.trim();
    line.chars().count() >= MIN_SEPARATOR
        && ["=", "-", "*", "#", "_", "━", "─", "═"]
            .iter()
            .any(|mark| line.trim_matches(|c| mark.contains(c)).is_empty())
}

/// Returns the numbers of a line that may be a numbered heading: `3.1.  Methods`.
pub(super) fn numbered(line: &str) -> Option<Vec<u32>> {
    let line = line.trim();
    let (numbers, title) = leading_numbers(line)?;
    let is_address = numbers.len() == ADDRESS_PARTS && !title.starts_with(char::is_uppercase);
    if numbers[0] > MAX_CHAPTER || is_address {
        return None;
    }
    let is_title = title.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
        || (numbers.len() > 1 && title.starts_with(|c: char| c.is_alphabetic() || "\"'`“‘/.-$<".contains(c)));
    let ends = ends_sentence(line) && !line.ends_with('?');
    (is_title && !ends && line.chars().count() <= MAX_HEADING).then_some(numbers)
}

/// Returns the numbers that a line begins with, and the text behind them.
pub(super) fn leading_numbers(line: &str) -> Option<(Vec<u32>, &str)> {
    let (number, title) = line.trim().split_once(' ')?;
    let part = |part: &str| -> Option<u32> {
        let is_number =
            (1..=MAX_DIGITS).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    };
    let number = number.trim_end_matches(NUMBER_ENDS);
    let numbers = number.split('.').map(part).collect::<Option<_>>()?;
    Some((numbers, title.trim_start()))
}

/// Returns the level of a heading with so many numbers.
pub(super) fn level_of(numbers: &[u32]) -> u8 {
    let level = u8::try_from(numbers.len()).unwrap_or(MAX_LEVEL);
    level.saturating_add(CAPITALS_LEVEL).min(MAX_LEVEL)
}

/// Returns whether a line is the title of a chapter: `Chapter 2: Birds`.
pub(super) fn is_chapter(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default().to_lowercase();
    let number = words.next().unwrap_or_default().trim_end_matches(NUMBER_ENDS);
    let is_number = !number.is_empty()
        && (number.bytes().all(|byte| byte.is_ascii_digit())
            || number.bytes().all(|byte| b"IVXLC".contains(&byte))
            || (number.len() == 1 && number.bytes().all(|byte| byte.is_ascii_uppercase())));
    is_chapter_name(&name)
        && is_number
        && line.starts_with(char::is_uppercase)
        && line.chars().count() <= MAX_HEADING
        && !line.ends_with(['.', ',', ';'])
}

/// Returns the indentation of a document's text: the smallest that a tenth of its long lines have.
pub(super) fn text_indent(lines: &[&str]) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for line in lines
        .iter()
        .filter(|line| line.trim().chars().count() >= LONG_LINE)
    {
        *counts.entry(indent(line)).or_default() += 1;
    }
    let least = counts.values().sum::<usize>() / TEXT_SHARE;
    counts
        .into_iter()
        .find(|(_, count)| *count > least)
        .map_or(0, |(indent, _)| indent)
}

/// Returns whether a line may be a heading because it is not indented as text is.
pub(super) fn is_title(line: &str) -> bool {
    let text = line.trim();
    text.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
        && text.chars().count() <= MAX_HEADING
        && (!ends_sentence(text) || text.ends_with('?'))
        && !text.contains(MIN_GAP)
}

/// Returns the name of the entry of a dictionary that a line begins: `:robin: n.`.
pub(super) fn entry(line: &str) -> Option<&str> {
    let (name, _) = line.trim().strip_prefix(':')?.split_once(": ")?;
    let is_name = name.starts_with(char::is_alphanumeric) && name.chars().count() <= MAX_ENTRY_NAME;
    is_name.then_some(name)
}

/// Returns whether the lines are a dictionary. A name between colons may also be that of a field.
pub(super) fn have_entries(lines: &[&str]) -> bool {
    let alone = lines
        .split(|line| line.is_empty())
        .filter(|group| group.len() == 1);
    let entries = alone.filter(|group| entry(group[0]).is_some());
    entries.take(MIN_ENTRIES).count() == MIN_ENTRIES
}

/// Returns whether a line is in the middle of a page, as the title of a document may be.
pub(super) fn is_centered(line: &str) -> bool {
    let left = indent(line);
    let right = PAGE_COLUMNS.saturating_sub(left + line.trim().chars().count());
    left >= MIN_CENTERED && left.abs_diff(right) <= MIN_CENTERED
}

/// Returns whether chapters are called so, in lower case.
pub(super) fn is_chapter_name(name: &str) -> bool {
    CHAPTERS.contains(&name)
}

/// Returns whether parts of chapters have numbers: a heading such as `2.1. Owls`.
pub(super) fn have_parts(lines: &[&str]) -> bool {
    let is_part = |at: usize| {
        let below = lines.get(at + 1).copied().unwrap_or_default();
        let is_above = below.is_empty() || mark_below(lines[at], below).is_some();
        let is_below = at.checked_sub(1).is_none_or(|before| lines[before].is_empty());
        is_above && is_below && numbered(lines[at]).is_some_and(|numbers| numbers.len() > 1)
    };
    (0..lines.len()).any(is_part)
}

/// Returns which lines are chapters with numbers, such as `2. Birds`: those that have parts with headings (`2.1. Owls`),
/// and those before and after them. A list is written alike.
pub(super) fn numbered_chapters(lines: &[&str]) -> HashSet<usize> {
    let is_empty = |at: Option<usize>| at.and_then(|at| lines.get(at)).is_none_or(|line| line.is_empty());
    let alone = (0..lines.len()).filter(|at| is_empty(at.checked_sub(1)) && is_empty(Some(at + 1)));
    let mut runs: VecDeque<Run> = VecDeque::new();
    let mut chapters = HashSet::new();
    for (at, numbers) in alone.filter_map(|at| Some((at, numbered(lines[at])?))) {
        let (number, column) = (numbers[0], indent(lines[at]));
        if numbers.len() > 1 {
            // Its chapter may be indented in another way.
            if let Some(run) = runs.iter_mut().rfind(|run| run.last == number) {
                run.is_divided = true;
            }
            continue;
        }
        let continued = runs
            .iter()
            .rposition(|run| run.column == column && run.last.checked_add(1) == Some(number));
        let mut run = continued.and_then(|at| runs.remove(at)).unwrap_or_else(|| Run {
            column,
            last: number,
            lines: Vec::new(),
            is_divided: false,
        });
        run.last = number;
        run.lines.push(at);
        runs.push_back(run);
        if runs.len() > MAX_RUNS
            && let Some(first) = runs.pop_front().filter(|run| run.is_divided)
        {
            chapters.extend(first.lines);
        }
    }
    for run in runs.into_iter().filter(|run| run.is_divided) {
        chapters.extend(run.lines);
    }
    chapters
}

/// Lines with numbers that follow one another: chapters, or items.
#[derive(Debug)]
struct Run {
    /// Their indentation.
    column: usize,
    last: u32,
    lines: Vec<usize>,
    /// Whether one of them has parts.
    is_divided: bool,
}

/// Returns whether a line is a heading in capitals, as in manual pages.
pub(super) fn is_in_capitals(line: &str) -> bool {
    let letters = line.chars().filter(|c| c.is_alphabetic());
    indent(line) == 0
        && line.chars().count() <= MAX_HEADING
        && letters.clone().count() >= MIN_CAPITALS
        && letters.clone().all(char::is_uppercase)
        && !ends_sentence(line)
        && !line.contains(['=', '|', '{', '/', '_', '<'])
}

/// Returns the lines of the question that some lines begin with: `Q: Who sings?`, with `A:` below it.
pub(super) fn question<'a>(lines: &[&'a str]) -> Option<Vec<&'a str>> {
    let mut question = vec![marked(lines.first()?, 'Q')?];
    let is_further = |line: &&&str| !line.is_empty() && answer(line).is_none();
    let further = lines[1..].iter().take(MAX_QUESTION_LINES).take_while(is_further);
    question.extend(further.map(|line| line.trim()));
    let mut below = lines[question.len()..].iter().take(MAX_QUESTION_LINES);
    let (at, answered) = below.by_ref().enumerate().find(|(_, line)| !line.is_empty())?;
    let after = lines.get(question.len() + at + 1).copied().unwrap_or_default();
    // A list of choices.
    let is_choice = marked(after, 'B').is_some();
    (answer(answered).is_some() && !is_choice).then_some(question)
}

/// Returns the beginning of the answer to a question.
pub(super) fn answer(line: &str) -> Option<&str> {
    marked(line, 'A')
}

/// Returns whether a line has a question, with or without its answer below.
pub(super) fn is_question(line: &str) -> bool {
    marked(line, 'Q').is_some()
}

fn marked(line: &str, letter: char) -> Option<&str> {
    let rest = line.trim_start().strip_prefix(letter)?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = rest.strip_prefix(NUMBER_ENDS)?;
    (text.starts_with(char::is_whitespace) && !text.trim().is_empty()).then(|| text.trim())
}

/// Returns a heading without the marks on both sides of it: `--- Birds ---`, `:robin: n.`.
pub(super) fn undecorated(text: &str) -> &str {
    let text = text.trim();
    let is_around = |mark: &char| text.starts_with(*mark) && text.ends_with(*mark);
    match DECORATIONS.into_iter().find(is_around) {
        Some(mark) => text.trim_matches(|c: char| c == mark || c == ' '),
        None => text.trim_start_matches(':'),
    }
}

/// Returns whether a line ends as a sentence does, or a part of one.
pub(super) fn ends_sentence(line: &str) -> bool {
    line.ends_with(ENDS) || line.ends_with([',', ';', '，', '；', '、'])
}
