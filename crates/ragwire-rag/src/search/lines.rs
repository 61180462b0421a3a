//! What the lines of a passage are.
//!
//! A passage has one line for each paragraph, item of a list, row of a table and line of a listing,
//! and does not say which of them a line is.

/// The separator between two cells of a row.
pub(crate) const CELL: &str = " | ";
/// How a line of code or of a terminal begins.
const CODE_STARTS: [&str; 10] = ["$ ", ">>>", "//", "/*", "#[", "#!", "{", "}", ")", "import "];
/// How a line may begin in code and in prose.
const CODE_HINTS: [&str; 4] = ["# ", "@", "<", "-"];
/// How a line of code ends.
const CODE_ENDS: [&str; 8] = [";", "{", "}", "(", "[", "\\", "),", "],"];
/// What is between two names in code, and not in prose.
const CODE_MARKS: [&str; 11] = [
    " = ", "::", " => ", " -> ", " == ", "()", " -- ", " --", "=\"", "='", " := ",
];
/// The longest line that may be a title, in bytes.
const MAX_TITLE_BYTES: usize = 90;
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

fn is_code(line: &str) -> bool {
    // The lines of paragraphs are trimmed, those of listings are not.
    if line.starts_with([' ', '\t']) || CODE_STARTS.iter().any(|start| line.starts_with(start)) {
        return true;
    }
    let end = line.trim_end();
    let marked = CODE_ENDS.iter().any(|mark| end.ends_with(mark))
        || CODE_MARKS.iter().any(|mark| line.contains(mark))
        || CODE_HINTS.iter().any(|mark| line.starts_with(mark));
    let words = || line.split_whitespace();
    let is_word = |word: &&str| {
        let bare = word.trim_matches(|c: char| ".,:;!?()\"'“”‘’`".contains(c));
        bare.chars().all(|c| c.is_alphabetic() || "-'’".contains(c))
    };
    let share = words().filter(is_word).count() as f32 / words().count().max(1) as f32;
    let ends_like_prose = end.ends_with(['.', ':', '?', '!']);
    marked && share < PROSE_SHARE && !(ends_like_prose && share > PROSE_SHARE / 2.0)
}

/// Returns whether a line is short and no sentence: a heading, a name, an item of a list.
pub(crate) fn is_title(line: &str) -> bool {
    let ends = line.trim_end().ends_with(['.', '!', '?', ':', ';', ',', '。']);
    line.len() <= MAX_TITLE_BYTES && !ends && LineKind::of(line) == LineKind::Prose
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ];
        for (line, kind) in cases {
            assert_eq!(LineKind::of(line), kind, "{line}");
        }
    }

    #[test]
    fn titles_are_short_and_end_without_a_stop() {
        for (line, wanted) in [
            ("maximal_queue_lifetime (default: 5d)", true),
            ("Gunicorn", true),
            ("Robins sing at dawn.", false),
            ("    return 1", false),
            ("a | b", false),
        ] {
            assert_eq!(is_title(line), wanted, "{line}");
        }
    }
}
