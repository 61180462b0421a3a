//! Finds lists on PDF pages: lines that begin with a mark or a number, and what is indented below them.

use super::around::Around;
use super::headings::{HEADING_SIZE, SAME_SIZE};
use super::layout::Line;
use crate::documents::parse::labels::{self, Item, Label};

/// Lines begin at the same place if they are at most so far apart, in sizes of the text.
const SAME_PLACE: f64 = 0.4;
/// Lines of a paragraph begin at the same place to this accuracy.
const EXACT_PLACE: f64 = 0.15;
/// Numbers are often aligned at their last digit, and text below text that begins with a quotation mark.
const NEARLY_SAME_PLACE: f64 = 0.8;
/// A list is indented by at most so many sizes of the text. A centered heading is indented further.
const MAX_INDENT: f64 = 6.0;
/// The most lists within each other.
const MAX_DEPTH: usize = 8;
/// A line that is so much shorter than the next one, in sizes of the text, is the last of its paragraph.
const SHORT_LINE: f64 = 6.0;
/// The largest distance of two paragraphs of an item, in usual distances of lines.
const MAX_ITEM_FALL: f64 = 3.0;

/// Returns how far apart two items of a list may begin, in sizes of the text.
fn tolerance(label: Label) -> f64 {
    match label {
        Label::Number(_) => NEARLY_SAME_PLACE,
        Label::Bullet | Label::Dash(_) | Label::Letter => SAME_PLACE,
    }
}

/// An open list, as its last item began.
#[derive(Debug)]
struct OpenList {
    label: Label,
    /// Where the item begins, in points from the left.
    x: f64,
    size: f64,
}

/// The lists that are open at a line.
#[derive(Debug, Default)]
pub(super) struct Lists {
    open: Vec<OpenList>,
    /// Where the text of the last line in a list begins, if that is known.
    text_x: Option<f64>,
}

impl Lists {
    /// Returns where the text of the line before begins.
    pub(super) fn text_x(&self, before: &Line) -> f64 {
        let in_list = if self.open.is_empty() { None } else { self.text_x };
        in_list.unwrap_or(before.x)
    }

    /// Begins the item that a line begins, if it does.
    pub(super) fn begin<'a>(&mut self, line: &'a Line, around: &Around<'_>) -> Option<Item<'a>> {
        let (label, text) = labels::label(&line.text).filter(|_| !line.turned)?;
        // A formula may begin so.
        if matches!(label, Label::Dash(_)) && text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let near = line.size * tolerance(label);
        let follows_list =
            |list: &OpenList| label.follows(list.label) && (list.size - line.size).abs() < SAME_SIZE;
        let is_same = |list: &OpenList| (list.x - line.x).abs() <= near;
        if around.is_on_top(line) && !self.open.iter().any(is_same) {
            // The list continues in another column, or on a page with another margin.
            let continued = self.open.iter().rfind(|list| follows_list(list));
            self.shift(continued.map(|list| list.x), line.x);
        }
        let outer = self.open.iter().rposition(|list| list.x <= line.x + near);
        let same = outer.filter(|at| (self.open[*at].x - line.x).abs() <= near);
        let follows = same.is_some_and(|at| follows_list(&self.open[at]));
        if !follows && !self.may_start(label, line, around) {
            return None;
        }
        // A list at the same place that this item does not continue ends before it.
        let kept = match same {
            Some(at) if !follows => at,
            Some(_) | None => outer.map_or(0, |at| at + 1),
        };
        if kept == MAX_DEPTH && !follows {
            return None;
        }
        let item = Item {
            closes: self.open.len() - kept,
            opens: !follows,
            number: label.number(),
            text,
        };
        self.open.truncate(kept);
        if follows {
            self.open.pop();
        }
        self.open.push(OpenList {
            label,
            x: line.x,
            size: line.size,
        });
        self.text_x = line.text_x;
        Some(item)
    }

    /// Returns whether a line with a label may be the first item of a list.
    fn may_start(&self, label: Label, line: &Line, around: &Around<'_>) -> bool {
        let is_near = |one: f64, other: f64| (one - other).abs() <= line.size * NEARLY_SAME_PLACE;
        let text = line.text.trim_end();
        match label {
            Label::Bullet => return true,
            // It may be a formula.
            Label::Dash('+') => return false,
            Label::Dash('o') => {
                let outer = self.open.last();
                return outer.is_some_and(|outer| line.x > outer.x + line.size * SAME_PLACE);
            }
            Label::Number(_) if line.size >= around.style.body_size * HEADING_SIZE => return false,
            Label::Number(_) | Label::Dash(_) | Label::Letter => {}
        }
        // Otherwise it may be a number or a dash in a sentence.
        if around.has_ended == Some(false) && !around.is_apart(line) {
            return false;
        }
        let is_indented = around.before.is_some_and(|before| {
            let indent = (line.x - self.text_x(before)) / line.size;
            (SAME_PLACE..MAX_INDENT).contains(&indent)
        });
        let is_led_to = around
            .before
            .is_some_and(|before| before.text.trim_end().ends_with(':'));
        let next = around.next.filter(|next| is_near(next.size, line.size));
        let is_followed = next.is_some_and(|next| {
            let next_label = labels::label(&next.text);
            is_near(next.x, line.x) && next_label.is_some_and(|(next, _)| next.follows(label))
        });
        let hangs = around
            .line_below(line)
            .zip(line.text_x)
            .is_some_and(|(next, text_x)| {
                let is_deeper = next.x > line.x + line.size * SAME_PLACE;
                is_near(next.size, line.size) && is_near(next.x, text_x) && is_deeper
            });
        // A heading has no mark at its end.
        let is_first_sentence = label == Label::Number(1) && text.ends_with(['.', ':', ';', ',']);
        is_indented || is_led_to || is_followed || hangs || is_first_sentence
    }

    /// Takes a line of text that begins no item, and may continue the open paragraph. Returns how many of the open lists
    /// end before it, and whether it does continue the paragraph.
    pub(super) fn text(&mut self, line: &Line, around: &Around<'_>, continues: bool) -> (usize, bool) {
        let Some(list) = self.open.last() else {
            return (0, continues);
        };
        let near = line.size * SAME_PLACE;
        let is_column = around.is_on_top(line);
        let is_far = around
            .fall(line)
            .is_some_and(|fall| fall > around.style.leading * MAX_ITEM_FALL);
        let has_ended = around.has_ended != Some(false);
        if is_far || (is_column && around.before.is_some() && !continues) {
            return (self.end(), false);
        }
        // The first line of a paragraph whose other lines are where the marks are, or further to the left.
        let is_aligned_exactly = self
            .text_x
            .is_none_or(|x| (line.x - x).abs() <= line.size * EXACT_PLACE);
        let is_indented = has_ended
            && !is_aligned_exactly
            && around
                .line_below(line)
                .is_some_and(|next| next.x <= list.x + near && labels::label(&next.text).is_none());
        let is_inside = line.x > list.x + near && !is_indented;
        // Not every list is indented below its marks.
        let is_below_mark = (line.x - list.x).abs() <= near && !has_ended;
        if continues && (is_column || is_below_mark) {
            let before = self.text_x.replace(line.x);
            if is_column {
                self.shift(before, line.x);
            }
            return (0, true);
        }
        if is_inside {
            let expected = self.text_x.replace(line.x);
            let is_aligned = expected.is_none_or(|x| (line.x - x).abs() <= line.size * NEARLY_SAME_PLACE);
            let is_full = around
                .before
                .is_none_or(|before| before.end + line.size * SHORT_LINE >= line.end);
            return (0, continues && (is_aligned || is_full));
        }
        let closes = if is_indented {
            self.end()
        } else {
            self.close_outside(line)
        };
        self.text_x = Some(line.x);
        (closes, false)
    }

    /// Moves the lists to another column, in which `to` is the place of what was at `from`.
    fn shift(&mut self, from: Option<f64>, to: f64) {
        if let Some(from) = from {
            self.open.iter_mut().for_each(|list| list.x += to - from);
        }
    }

    /// Ends the lists that a line is not indented below, and returns how many these are.
    pub(super) fn close_outside(&mut self, line: &Line) -> usize {
        let count = self.open.len();
        let inside = |list: &OpenList| line.x > list.x + line.size * SAME_PLACE;
        let kept = self.open.iter().rposition(inside).map_or(0, |at| at + 1);
        self.open.truncate(kept);
        count - kept
    }

    /// Ends all lists, and returns how many these are.
    pub(super) fn end(&mut self) -> usize {
        std::mem::take(&mut self.open).len()
    }
}
