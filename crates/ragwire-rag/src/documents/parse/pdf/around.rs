//! What is around a line of a PDF page.

use super::layout::Line;
use super::style::Style;

/// A larger distance of two lines, in usual ones, ends a paragraph.
const GAP: f64 = 1.2;
/// The largest distance of two lines of a paragraph, in usual ones.
const MAX_LINE_FALL: f64 = 1.35;

/// What is around a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) style: &'a Style,
    /// The lines above and below it on the page.
    pub(super) before: Option<&'a Line>,
    pub(super) next: Option<&'a Line>,
    /// Whether the last sentence of the open paragraph has ended; `None` without one.
    pub(super) has_ended: Option<bool>,
}

impl<'a> Around<'a> {
    /// Returns how far a line is below the one above it.
    pub(super) fn fall(&self, line: &Line) -> Option<f64> {
        self.before.map(|before| before.y - line.y)
    }

    /// Returns whether a line is further below the one above it than the next line of a paragraph.
    pub(super) fn is_apart(&self, line: &Line) -> bool {
        let fall = self.fall(line);
        fall.is_none_or(|fall| fall > self.style.leading * GAP || fall < 0.0)
    }

    /// Returns whether a line is the first one of a page or a column.
    pub(super) fn is_on_top(&self, line: &Line) -> bool {
        self.fall(line).is_none_or(|fall| fall < 0.0)
    }

    /// Returns the next line, if it is as close as one of the same paragraph.
    pub(super) fn line_below(&self, line: &Line) -> Option<&'a Line> {
        self.next.filter(|next| {
            let fall = line.y - next.y;
            fall > 0.0 && fall <= self.style.leading * MAX_LINE_FALL
        })
    }

    /// Returns whether a line continues the open paragraph, in whose line before the text begins at `x`.
    pub(super) fn continues(&self, line: &Line, x: Option<f64>) -> bool {
        let Some(ended) = self.has_ended else {
            return false;
        };
        let text = line.text.trim_start();
        let continues_sentence = !ended && text.starts_with(|c: char| c.is_lowercase() || c.is_ascii_digit());
        let (Some(before), Some(fall), Some(x)) = (self.before, self.fall(line), x) else {
            // The first line of a page.
            return continues_sentence;
        };
        if (line.size - before.size).abs() > self.style.body_size * 0.15 && !continues_sentence {
            return false;
        }
        if fall < 0.0 {
            // The line is higher than the one before: the next column begins.
            return !ended;
        }
        if ended && line.x > x + self.style.body_size * 0.8 {
            return false;
        }
        fall <= self.style.leading * MAX_LINE_FALL || (continues_sentence && fall <= self.style.leading * 2.2)
    }
}
