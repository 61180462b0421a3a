//! Lists of reStructuredText, which are known by their marks and how far their items are indented.

use crate::documents::parse::blocks::Blocks;

/// How a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// As an item of a list without numbers.
    Bullet,
    /// As an item with this number; `None` is the next one, `#.`.
    Number(Option<u64>),
    /// As a field, `:param name: text`, which begins a block too.
    Field,
    /// As text.
    None,
}

impl Mark {
    /// Returns the mark of a line, and its text without the mark of an item.
    fn of(line: &str) -> (Self, &str) {
        for mark in ["- ", "* ", "+ ", "• "] {
            if let Some(rest) = line.strip_prefix(mark) {
                return (Self::Bullet, rest.trim_start());
            }
        }
        let numbered = line.split_once(['.', ')']).filter(|(number, rest)| {
            let counted = (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
            rest.starts_with(' ') && (counted || *number == "#")
        });
        if let Some((number, rest)) = numbered {
            return (Self::Number(number.parse().ok()), rest.trim_start());
        }
        let is_field = line.starts_with(':') && line[1..].contains(": ");
        (if is_field { Self::Field } else { Self::None }, line)
    }

    /// Returns whether it is the mark of a list with numbers; `None` if it is not that of a list.
    fn is_numbered(self) -> Option<bool> {
        match self {
            Self::Bullet => Some(false),
            Self::Number(_) => Some(true),
            Self::Field | Self::None => None,
        }
    }

    /// Returns the first number of the list that it opens.
    fn first(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number.unwrap_or(1)),
            Self::Bullet | Self::Field | Self::None => None,
        }
    }
}

/// The open lists, the innermost last: how far their items are indented, and whether they are numbered.
#[derive(Debug, Default)]
pub(super) struct Lists(Vec<(usize, bool)>);

impl Lists {
    /// Returns the mark of a line, and its text without that of an item. A line of an open paragraph may begin with a number.
    pub(super) fn mark<'a>(&self, line: &'a str, indent: usize, in_paragraph: bool) -> (Mark, &'a str) {
        match Mark::of(line) {
            (Mark::Number(_), _) if in_paragraph && self.0.last() != Some(&(indent, true)) => {
                (Mark::None, line)
            }
            item => item,
        }
    }

    /// Returns whether a line does not belong to the innermost list: its items are indented further, or as far and the line
    /// does not begin one.
    pub(super) fn are_left(&self, indent: usize, mark: Mark) -> bool {
        self.0.last().is_some_and(|(items, numbered)| {
            indent < *items || (indent == *items && mark.is_numbered() != Some(*numbered))
        })
    }

    /// Closes the lists that a line does not belong to.
    pub(super) fn leave(&mut self, indent: usize, mark: Mark, blocks: &mut Blocks) {
        while self.are_left(indent, mark) {
            self.0.pop();
            blocks.close_list();
        }
    }

    /// Begins the item that a line has the mark of. A number out of order begins another list.
    pub(super) fn begin(&mut self, indent: usize, mark: Mark, blocks: &mut Blocks) {
        let Some(is_numbered) = mark.is_numbered() else {
            return;
        };
        let is_open = self.0.last() == Some(&(indent, is_numbered));
        let is_next = match mark {
            Mark::Number(Some(number)) => blocks.next_number() == Some(number),
            Mark::Number(None) | Mark::Bullet | Mark::Field | Mark::None => true,
        };
        if is_open && !is_next {
            blocks.close_list();
        } else if !is_open {
            self.0.push((indent, is_numbered));
        }
        if !is_open || !is_next {
            blocks.open_list(mark.first());
        }
        blocks.item(None);
    }
}

#[cfg(test)]
mod tests {
    use crate::documents::parse::{ParseLimits, rst};
    use crate::test_data::check_places;

    fn check(text: &str, expected: &[(u32, Option<u64>, &str)]) {
        check_places(&rst::parse(text, &ParseLimits::default()).unwrap(), expected);
    }

    #[test]
    fn a_number_within_a_paragraph_is_not_that_of_an_item() {
        check(
            "There are\n42. No more.\n\n1. One\n2. Two, of\n   3. sorts\n",
            &[
                (0, None, "There are 42. No more."),
                (1, Some(1), "One"),
                (1, Some(2), "Two, of 3. sorts"),
            ],
        );
    }

    #[test]
    fn numbers_are_those_that_are_written() {
        check(
            "1. a\n2. b\n5. e\n\n#. f\n",
            &[
                (1, Some(1), "a"),
                (1, Some(2), "b"),
                (1, Some(5), "e"),
                (1, Some(6), "f"),
            ],
        );
    }

    #[test]
    fn a_heading_ends_the_lists_before_it() {
        check(
            "#. a\n#. b\n\nBirds\n=====\n\n#. c\n",
            &[(1, Some(1), "a"), (1, Some(2), "b"), (1, Some(1), "c")],
        );
    }
}
