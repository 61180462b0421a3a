//! Finds lists in text without markup: lines that begin with a mark or a number, and what is indented below them.

use super::{ENDS, indent};
use crate::documents::parse::labels::{self, Item, Label};

/// The most lists within each other.
const MAX_DEPTH: usize = 8;
/// Numbers are often aligned at their last digit.
const NUMBER_TOLERANCE: usize = 1;
/// The next line of an item that is not indented below its mark follows a line that is so wide, in columns.
const FULL_LINE: usize = 50;
/// How many lines below an item the next one is looked for.
const MAX_ITEM_LINES: usize = 100;
/// The bullet of inner lists that browsers for terminals write. Elsewhere it is a box to be ticked.
const INNER_BULLET: char = '□';

/// An open list, as its last item began.
#[derive(Debug)]
struct OpenList {
    label: Label,
    /// The column of the item's mark.
    mark: usize,
}

/// The lists that are open at a line.
#[derive(Debug, Default)]
pub(super) struct Lists {
    open: Vec<OpenList>,
}

impl Lists {
    /// Begins the item that a line begins, if it does. `before` is the line above it in the same paragraph, `below` are those
    /// that follow.
    pub(super) fn begin<'a, 'b>(
        &mut self,
        before: Option<&str>,
        line: &'a str,
        below: impl Iterator<Item = &'b str>,
    ) -> Option<Item<'a>> {
        let (label, text) = labels::label(line)?;
        let mark = indent(line);
        let is_same = |list: &OpenList| {
            let is_number = label.number().is_some() && list.label.number().is_some();
            let tolerance = if is_number { NUMBER_TOLERANCE } else { 0 };
            list.mark.abs_diff(mark) <= tolerance
        };
        let same = self.open.iter().rposition(is_same);
        let follows = same.is_some_and(|at| label.follows(self.open[at].label));
        // A sign alone may be one that the text describes, and a number one of a sentence.
        let is_uncertain = match label {
            Label::Dash(_) | Label::Number(_) => true,
            Label::Bullet | Label::Letter => false,
        };
        if !follows && !(may_start(label, line, before) && (!is_uncertain || has_next(label, mark, below))) {
            return None;
        }
        let kept = match same {
            Some(at) if follows => at + 1,
            Some(at) => at,
            None => self.inside(mark),
        };
        if kept == MAX_DEPTH && !follows {
            return None;
        }
        let item = Item {
            closes: self.open.len() - kept,
            opens: !follows,
            number: label.number(),
            text: if kept > 0 {
                text.trim_start_matches(INNER_BULLET).trim_start()
            } else {
                text
            },
        };
        self.open.truncate(if follows { kept - 1 } else { kept });
        self.open.push(OpenList { label, mark });
        Some(item)
    }

    /// Takes a line that begins no item. Returns how many of the open lists end before it, and whether it continues the
    /// paragraph of the line before.
    pub(super) fn text(&mut self, before: Option<&str>, line: &str) -> (usize, bool) {
        let kept = self.inside(indent(line));
        let Some(before) = before else {
            return (self.truncate(kept), false);
        };
        let has_ended = before.ends_with(ENDS);
        let is_wrapped = line.trim_start().starts_with(char::is_lowercase)
            || (!has_ended && before.chars().count() >= FULL_LINE);
        let is_beside_item = self.open.iter().any(|list| list.mark == indent(line));
        let is_marked = labels::label(line)
            .is_some_and(|(label, _)| is_beside_item || matches!(label, Label::Dash('-' | '*')));
        if is_marked {
            return (self.truncate(kept), false);
        }
        if kept == self.open.len() || is_wrapped {
            return (0, true);
        }
        (self.truncate(kept), false)
    }

    /// Returns how many of the open lists a line with this indentation is in.
    fn inside(&self, column: usize) -> usize {
        let is_outer = |list: &OpenList| column > list.mark;
        self.open.iter().rposition(is_outer).map_or(0, |at| at + 1)
    }

    /// Ends the lists that text with this indentation is not in, and returns how many these are.
    pub(super) fn leave(&mut self, column: usize) -> usize {
        self.truncate(self.inside(column))
    }

    /// Ends all lists, and returns how many these are.
    pub(super) fn end(&mut self) -> usize {
        self.truncate(0)
    }

    fn truncate(&mut self, kept: usize) -> usize {
        let count = self.open.len();
        self.open.truncate(kept);
        count - self.open.len()
    }
}

/// Returns whether a line with a label may be the first item of a list.
fn may_start(label: Label, line: &str, before: Option<&str>) -> bool {
    let has_ended = before.is_none_or(|before| before.ends_with(ENDS) || before.ends_with([';', '；']));
    let is_indented = before.is_some_and(|before| indent(line) > indent(before));
    // The line before a number of a sentence is full.
    let is_short = before.is_some_and(|before| before.chars().count() < FULL_LINE);
    match label {
        Label::Bullet | Label::Dash('-' | '*') => true,
        Label::Dash(_) => has_ended || is_indented,
        Label::Number(_) => has_ended || is_indented || is_short,
        Label::Letter => {
            let letter = line.trim_start().trim_start_matches('(').chars().next();
            has_ended && matches!(letter, Some('a' | 'i'))
        }
    }
}

/// Returns whether another item follows, behind lines of this one that may not be indented.
fn has_next<'a>(label: Label, mark: usize, below: impl Iterator<Item = &'a str>) -> bool {
    let mut is_full = false;
    for line in below.take(MAX_ITEM_LINES).filter(|line| !line.is_empty()) {
        let next = labels::label(line);
        if indent(line) <= mark + 1
            && let Some((next, _)) = next
        {
            let tolerance = if next.number().is_some() {
                NUMBER_TOLERANCE
            } else {
                0
            };
            return next.follows(label) && indent(line).abs_diff(mark) <= tolerance;
        }
        let is_wrapped = is_full || line.trim_start().starts_with(char::is_lowercase);
        if indent(line) <= mark && !is_wrapped {
            return false;
        }
        is_full = line.chars().count() >= FULL_LINE;
    }
    false
}
