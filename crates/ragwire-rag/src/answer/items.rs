//! Writes lists as Markdown (CommonMark), with their numbers and depths.

use crate::documents::list::ListItem;

/// The largest number of an item that Markdown knows has nine digits.
const MAX_NUMBER: u64 = 999_999_999;
/// How many lists may be within each other. Without a limit, a short passage of deep lists would become a long answer.
const MAX_NESTED: usize = 8;

/// What follows the number of an item. Another delimiter begins another list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delimiter {
    Point,
    Parenthesis,
}

impl Delimiter {
    fn other(self) -> Self {
        match self {
            Self::Point => Self::Parenthesis,
            Self::Parenthesis => Self::Point,
        }
    }

    fn as_char(self) -> char {
        match self {
            Self::Point => '.',
            Self::Parenthesis => ')',
        }
    }
}

/// A list that is open.
#[derive(Debug)]
struct Open {
    depth: u32,
    /// The column of its marks.
    mark: usize,
    /// The column of the text of its last item.
    text: usize,
    /// The number of its last item.
    number: Option<u64>,
    delimiter: Delimiter,
}

/// Returns a list. `citation` is the number of the quote that it is in: lists of neighbouring quotes would be one if
/// their delimiters were the same.
pub(super) fn list<'a>(lines: impl IntoIterator<Item = (&'a str, ListItem)>, citation: usize) -> String {
    let first = if citation % 2 == 1 {
        Delimiter::Point
    } else {
        Delimiter::Parenthesis
    };
    let mut written = String::new();
    let mut open: Vec<Open> = Vec::new();
    let mut was_continued = false;
    for (line, item) in lines {
        while open.last().is_some_and(|list| list.depth > item.depth) {
            open.pop();
        }
        // A blank line separates a further paragraph of an item from it, and from the next item.
        let mut has_gap = item.continued || was_continued;
        was_continued = item.continued;
        if item.continued {
            let column = open.last().map_or(0, |list| list.text);
            push(&mut written, has_gap, column, line);
            continue;
        }
        let number = item.number.filter(|number| *number <= MAX_NUMBER);
        let is_full = open.len() >= MAX_NESTED;
        let (mark, delimiter) = match open.last() {
            Some(list) if list.depth == item.depth || is_full => {
                let continues = match (list.number, number) {
                    (Some(before), Some(number)) => number == before + 1,
                    (None, None) => true,
                    (Some(_), None) | (None, Some(_)) => false,
                };
                let (mark, delimiter) = (list.mark, list.delimiter);
                open.pop();
                (mark, if continues { delimiter } else { delimiter.other() })
            }
            // Only a list that begins with 1 ends the paragraph before it.
            Some(outer) => {
                has_gap |= number.is_some_and(|number| number != 1);
                (outer.text, first)
            }
            None => (0, first),
        };
        let shown = number.map_or_else(
            || "- ".to_owned(),
            |number| format!("{number}{} ", delimiter.as_char()),
        );
        push(&mut written, has_gap, mark, &format!("{shown}{line}"));
        open.push(Open {
            depth: item.depth,
            mark,
            text: mark + shown.len(),
            number,
            delimiter,
        });
    }
    written
}

fn push(written: &mut String, has_gap: bool, column: usize, line: &str) {
    if !written.is_empty() {
        written.push_str(if has_gap { "\n\n" } else { "\n" });
    }
    written.push_str(&" ".repeat(column));
    written.push_str(line);
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, Parser, Tag};

    use super::*;

    fn bullet(depth: u32) -> ListItem {
        ListItem::new(depth, None)
    }

    fn step(depth: u32, number: u64) -> ListItem {
        ListItem::new(depth, Some(number))
    }

    #[test]
    fn marks_are_indented_to_the_text_above() {
        let continued = ListItem::continued;
        for (lines, wanted) in [
            (
                vec![
                    ("a", step(1, 3)),
                    ("b", continued(1)),
                    ("c", bullet(2)),
                    ("d", bullet(2)),
                    ("e", step(1, 4)),
                ],
                "3. a\n\n   b\n\n   - c\n   - d\n4. e",
            ),
            (
                vec![("a", step(1, 100)), ("b", continued(1)), ("c", bullet(2))],
                "100. a\n\n     b\n\n     - c",
            ),
            // Nothing is open that a paragraph could belong to.
            (vec![("a", continued(1)), ("b", bullet(1))], "a\n\n- b"),
            // An inner list without its item, and its end.
            (
                vec![("a", bullet(3)), ("b", bullet(2)), ("c", step(1, 2))],
                "- a\n- b\n2. c",
            ),
            // Another list, a missing item, and numbers that Markdown does not know.
            (
                vec![("a", step(1, 1)), ("b", step(1, 2)), ("c", step(1, 1))],
                "1. a\n2. b\n1) c",
            ),
            (vec![("a", step(1, 1)), ("b", step(1, 3))], "1. a\n3) b"),
            (vec![("a", step(1, u64::MAX))], "- a"),
            // An inner list that does not begin with 1.
            (vec![("a", step(1, 1)), ("b", step(2, 1))], "1. a\n   1. b"),
            (vec![("a", step(1, 1)), ("b", step(2, 3))], "1. a\n\n   3. b"),
        ] {
            assert_eq!(list(lines.clone(), 1), wanted, "{lines:?}");
        }
    }

    #[test]
    fn readers_of_markdown_see_the_numbers() {
        // The numbers with which lists begin, and how many items they have.
        let lists = |text: &str| -> Vec<(Option<u64>, usize)> {
            let mut found = Vec::new();
            for event in Parser::new(text) {
                match event {
                    Event::Start(Tag::List(first)) => found.push((first, 0)),
                    Event::Start(Tag::Item) => found.last_mut().unwrap().1 += 1,
                    _ => {}
                }
            }
            found
        };
        let two = [("a", step(1, 1)), ("b", step(1, 2))];
        let quotes = format!("{}\n\n{}", list(two, 1), list(two, 2));
        assert_eq!(lists(&quotes), [(Some(1), 2), (Some(1), 2)]);
        assert_eq!(
            lists(&list(
                [
                    ("a", step(1, 99)),
                    ("b", step(1, 100)),
                    ("c", step(2, 7)),
                    ("d", step(2, 8))
                ],
                1
            )),
            [(Some(99), 2), (Some(7), 2)]
        );
        assert_eq!(
            lists(&list([("a", step(1, 1)), ("b", step(1, 4)), ("c", bullet(1))], 1)),
            [(Some(1), 1), (Some(4), 1), (None, 1)]
        );
    }

    #[test]
    fn deep_lists_stay_short() {
        let deep: Vec<_> = (1..=450).map(|depth| ("a", bullet(depth))).collect();
        let written = list(deep, 1);
        assert!(written.len() < 450 * 20, "{}", written.len());
        assert_eq!(written.lines().count(), 450);
    }
}
