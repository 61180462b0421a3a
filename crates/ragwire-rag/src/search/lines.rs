//! What the lines of a passage are.
//!
//! A passage has one line for each paragraph, item of a list, row of a table and line of a listing.
//! Formats such as HTML say which lines are listings. Of other documents it is guessed: of 79,000 lines of
//! listings in thirteen libraries 0.19 are then taken for prose, and of 149,000 others 0.05 for code.

use crate::Chunk;
use crate::documents::list::place_of;
use crate::search::analyzer::is_paired;

/// The separator between two cells of a row.
pub(crate) const CELL: &str = " | ";

/// Returns how many cells a row has. A cell may be empty: `Skill | | |` has four.
pub(crate) fn cells(row: &str) -> usize {
    let ends_cell = |(at, _): &(usize, &str)| {
        let after = &row[at + 1..];
        row[..*at].ends_with(' ') && (after.is_empty() || after.starts_with(' '))
    };
    1 + row.match_indices('|').filter(ends_cell).count()
}

/// How a line of code or of a terminal begins.
const CODE_STARTS: [&str; 12] = [
    "$ ", "# ", ">>>", "//", "/*", "#[", "#!", "{", "}", ")", "import ", "@",
];
/// How a line may begin in code and in prose.
const CODE_HINTS: [&str; 2] = ["<", "-"];
/// How a line begins that declares something, if it does not end like a sentence.
const DECLARATION_STARTS: [&str; 8] = [
    "def ", "class ", "fn ", "let ", "pub ", "use ", "from ", "return ",
];
/// Columns of a listing are this far apart. Spaces between words of prose are single.
const COLUMN_GAP: &str = "   ";
/// How a line of code ends.
const CODE_ENDS: [&str; 8] = [";", "{", "}", "(", "[", "\\", "),", "],"];
/// What is between two names in code, and not in prose.
const CODE_MARKS: [&str; 11] = [
    " = ", "::", " => ", " -> ", " == ", "()", " -- ", " --", "=\"", "='", " := ",
];
/// The longest line that may be a title, in bytes.
const MAX_TITLE_BYTES: usize = 90;
/// What ends a question, and what ends a lead-in, in two widths.
pub(crate) const QUESTION_MARKS: [char; 2] = ['?', '？'];
pub(crate) const COLONS: [char; 2] = [':', '：'];
/// From this share of words on a line is prose, whatever else it contains.
const PROSE_SHARE: f32 = 0.7;

/// What a line of a passage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// A paragraph or the item of a list.
    Prose,
    /// A row of a table.
    Row,
    /// A line of a listing.
    Code,
}

/// Returns the kinds of the lines of a passage, guessed where its format does not say them.
pub(crate) fn line_kinds(chunk: &Chunk) -> Vec<LineKind> {
    let Some(listings) = &chunk.listings else {
        return guess_line_kinds(&chunk.text);
    };
    let items = chunk.items.as_deref().unwrap_or_default();
    let kind = |(at, line): (u32, &str)| {
        if listings.iter().any(|listing| listing.contains(&at)) {
            LineKind::Code
        } else if line.contains(CELL) && place_of(items, at as usize).is_none() {
            LineKind::Row
        } else {
            LineKind::Prose
        }
    };
    (0..).zip(chunk.text.split('\n')).map(kind).collect()
}

/// Guesses the kinds of the lines of a passage. A line that is hardly prose is code beside code: only
/// some lines of a listing look like code alone.
pub(crate) fn guess_line_kinds(text: &str) -> Vec<LineKind> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut kinds: Vec<LineKind> = lines.iter().map(|line| LineKind::of(line)).collect();
    let hardly_prose: Vec<bool> = lines.iter().map(|line| is_hardly_prose(line)).collect();
    let mut join = |at: usize, beside: Option<usize>| {
        let is_code = |at: Option<usize>| at.is_some_and(|at| kinds.get(at) == Some(&LineKind::Code));
        // The name of an option comes between a listing and its description.
        let is_within = !names_option(lines[at]) || (is_code(at.checked_sub(1)) && is_code(Some(at + 1)));
        if kinds[at] == LineKind::Prose && is_code(beside) && is_within && hardly_prose[at] {
            kinds[at] = LineKind::Code;
        }
    };
    (0..lines.len()).for_each(|at| join(at, at.checked_sub(1)));
    (0..lines.len()).rev().for_each(|at| join(at, Some(at + 1)));
    kinds
}

impl LineKind {
    pub(crate) fn of(line: &str) -> Self {
        if line.contains(CELL) {
            Self::Row
        } else if is_code(line) {
            Self::Code
        } else {
            Self::Prose
        }
    }
}

/// Returns whether a line is the name of an option of a program, with its values: `-o <file>`.
pub(crate) fn names_option(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_option = |word: &str| {
        let name = word.trim_start_matches('-');
        (1..=2).contains(&(word.len() - name.len()))
            && name.starts_with(|letter: char| letter.is_alphabetic() || letter == '[')
    };
    let is_value = |word: &&str| !word.starts_with(['-', '<', '[', '(', '.', '|']);
    line.len() <= MAX_TITLE_BYTES
        && is_option(first)
        && ![first, line.trim_end()]
            .iter()
            .any(|part| part.ends_with([':', '.', '!', '?', ';', '\\']))
        && words.filter(is_value).count() <= 1
}

fn is_code(line: &str) -> bool {
    if names_option(line) {
        return false;
    }
    // The lines of paragraphs are trimmed, those of listings are not.
    if line.starts_with([' ', '\t']) {
        return true;
    }
    // `@daily：每天一次` explains.
    let explains = line.starts_with('@') && line.contains(is_paired) && prose_share(line) >= PROSE_SHARE;
    if !explains && CODE_STARTS.iter().any(|start| line.starts_with(start)) {
        return true;
    }
    let end = line.trim_end();
    let declares = DECLARATION_STARTS.iter().any(|start| line.starts_with(start));
    if end.contains(COLUMN_GAP) || (declares && is_hardly_prose(line)) {
        return true;
    }
    let marked = CODE_ENDS.iter().any(|mark| end.ends_with(mark))
        || CODE_MARKS.iter().any(|mark| line.contains(mark))
        || CODE_HINTS.iter().any(|mark| line.starts_with(mark));
    let share = prose_share(line);
    let ends_like_prose = end.ends_with(['.', ':', '?', '!', '。', '：', '？', '！']);
    marked && share < PROSE_SHARE && !(ends_like_prose && share > PROSE_SHARE / 2.0)
}

/// Returns the share of the words that are words of a language. Where no spaces separate words, each character is one.
fn prose_share(line: &str) -> f32 {
    let (mut prose, mut all) = (0, 0);
    for word in line.split_whitespace() {
        let bare = word.trim_matches(|c: char| ".,:;!?()\"'“”‘’`".contains(c));
        let characters = word.chars().filter(|c| is_paired(*c)).count();
        if characters > 0 || bare.chars().all(|c| c.is_alphabetic() || "-'’".contains(c)) {
            prose += characters.max(1);
        }
        all += characters.max(1);
    }
    prose as f32 / all.max(1) as f32
}

/// Returns whether a line may belong to a listing: it is not a sentence, and has other things than words
/// or declares something.
fn is_hardly_prose(line: &str) -> bool {
    let end = line.trim_end();
    let is_import = line.starts_with("from ") && line.contains(" import ");
    let is_sentence = end.ends_with(['.', '!', '?', '。', '！', '？', '：', '；'])
        || (end.ends_with(':') && !end.ends_with("):"));
    is_import || (!is_sentence && prose_share(line) < PROSE_SHARE) || line.trim().is_empty()
}

/// Returns whether a line is short and no sentence: a heading, a name, an item of a list.
pub(crate) fn is_title(line: &str) -> bool {
    let ends = line.trim_end().ends_with([
        '.', '!', '?', ':', ';', ',', '。', '！', '？', '：', '；', '，', '、',
    ]);
    line.len() <= MAX_TITLE_BYTES && !ends && LineKind::of(line) == LineKind::Prose
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_may_be_empty() {
        for (row, count) in [
            ("a | b", 2),
            ("Skill | | |", 4),
            ("a | b |", 3),
            ("a || b", 1),
            ("", 1),
        ] {
            assert_eq!(cells(row), count, "{row}");
        }
    }

    #[test]
    fn lines_are_told_apart() {
        let cases = [
            ("Robins sing at dawn.", LineKind::Prose),
            (
                "The default is 30 (see --limit), which is enough for most users.",
                LineKind::Prose,
            ),
            ("Set max_size = 3 in the file.", LineKind::Prose),
            ("an item of a list", LineKind::Prose),
            ("Gunicorn", LineKind::Prose),
            ("name | default", LineKind::Row),
            ("    return 1", LineKind::Code),
            ("$ cargo add ragwire", LineKind::Code),
            ("let a = f(x);", LineKind::Code),
            ("app = Flask(__name__)", LineKind::Code),
            ("use std::sync::Arc;", LineKind::Code),
            (
                "borg create --exclude-caches repo::archive ~/data",
                LineKind::Code,
            ),
            ("# an API app route", LineKind::Code),
            ("def not_found(e):", LineKind::Code),
            ("from flask import jsonify, request", LineKind::Code),
            ("from the start it was fast", LineKind::Prose),
            ("use it with care", LineKind::Prose),
            ("a---b---c   branch 'master'", LineKind::Code),
            (
                "-y 选项让 apt 不再询问；它适合脚本（见 apt.conf）;",
                LineKind::Prose,
            ),
            ("@daily：每天一次（00:00）;", LineKind::Prose),
            ("@app.route('/')", LineKind::Code),
            ("APT は apt-get --yes を実行します (10 秒)", LineKind::Prose),
            ("变量 = getenv(名)  # 3", LineKind::Code),
        ];
        for (line, kind) in cases {
            assert_eq!(LineKind::of(line), kind, "{line}");
        }
    }

    #[test]
    fn lines_beside_code_are_code_if_they_are_hardly_prose() {
        let text = "Run it:\nListening at http://127.0.0.1 (x)\n$ app --port 1\nUsing worker: eventlet\n\nIt starts at once.\nfoo_bar 2";
        let kinds = guess_line_kinds(text);
        use LineKind::{Code, Prose};
        assert_eq!(kinds, [Prose, Prose, Code, Prose, Prose, Prose, Prose]);
        let text = "This is it:\nclass Invalid(Exception):\n    code = 400\n\ninvalid_usage = 1\nstatus_code 400\nThen wait.";
        assert_eq!(
            guess_line_kinds(text),
            [Prose, Code, Code, Code, Code, Code, Prose]
        );
    }

    #[test]
    fn titles_are_short_and_end_without_a_stop() {
        for (line, wanted) in [
            ("maximal_queue_lifetime (default: 5d)", true),
            ("Gunicorn", true),
            ("Robins sing at dawn.", false),
            ("    return 1", false),
            ("a | b", false),
            ("--track[=(direct|inherit)]", true),
        ] {
            assert_eq!(is_title(line), wanted, "{line}");
        }
    }

    #[test]
    fn names_of_options_are_no_code() {
        for (line, wanted) in [
            ("-q", true),
            ("--depth=<n>", true),
            ("-o <file> --output=<file>", true),
            ("-j njobs", true),
            ("--[no-]color", true),
            ("-", false),
            ("- an item", false),
            ("---", false),
            ("-1 is no limit", false),
            ("-bash: no such file", false),
            ("-Subproject commit 3f356705649b", false),
            ("--verbose \\", false),
        ] {
            assert_eq!(names_option(line), wanted, "{line}");
        }
        use LineKind::{Code, Prose};
        let text = "$ app --depth 1\n--depth=<n>\nHow deep it looks.";
        assert_eq!(
            guess_line_kinds(text),
            [Code, Prose, Prose],
            "above its description"
        );
        let text = "fn a() {\n--depth=<n>\n}";
        assert_eq!(guess_line_kinds(text), [Code, Code, Code], "within a listing");
    }
}
