//! Finds listings on PDF pages: lines in a font whose characters all have the same width.

use super::layout::{Line, Page};

/// The share of a line's characters that have the same width in a listing. Quotation marks and arrows may come from
/// another font.
const SAME_SHARE: f64 = 0.9;
/// A line with fewer characters is part of a listing only beside one that has more: those of `fi` may have the same
/// width in any font.
const MIN_CHARS: usize = 6;
/// Widths of two fonts differ by more than this share.
const TOLERANCE: f64 = 0.03;
/// The most different widths that are counted in a line. Those from the narrowest to the widest letter differ by
/// [`TOLERANCE`] sixty times; only a hostile file has more.
const MAX_WIDTHS: usize = 64;
/// From this share of all characters on, a document is typewritten, and nothing in it is taken for a listing.
const TYPEWRITTEN_SHARE: f64 = 0.6;
/// The narrowest and the widest character of a font for listings, and a usual one, in shares of its size. Chinese and
/// Japanese characters all have the width 1.
const LEAST_WIDTH: f64 = 0.3;
const MOST_WIDTH: f64 = 0.8;
const USUAL_WIDTH: f64 = 0.55;
/// The most spaces before a line or between two characters.
const MAX_SPACES: usize = 80;

/// Counts how wide the characters of a line are, in points.
#[derive(Debug, Default)]
pub(super) struct Widths {
    /// Each width with the number of characters that have it.
    counts: Vec<(f64, usize)>,
    /// The number of characters with other widths.
    others: usize,
}

/// How wide the characters of a line are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pitch {
    /// The width in points that nearly all characters have, if there is one.
    pub(super) common: Option<f64>,
    /// The mean width in points; 0 without characters.
    pub(super) mean: f64,
    pub(super) chars: usize,
}

impl Widths {
    pub(super) fn add(&mut self, width: f64, chars: usize) {
        let is_full = self.counts.len() == MAX_WIDTHS;
        match self.counts.iter_mut().find(|(known, _)| is_same(*known, width)) {
            Some((_, count)) => *count += chars,
            None if is_full => self.others += chars,
            None => self.counts.push((width, chars)),
        }
    }

    pub(super) fn pitch(&self) -> Pitch {
        let chars = self.others + self.counts.iter().map(|(_, count)| count).sum::<usize>();
        let sum: f64 = self
            .counts
            .iter()
            .map(|(width, count)| width * *count as f64)
            .sum();
        let most = self.counts.iter().max_by_key(|(_, count)| *count);
        let is_common =
            |(width, count): &&(f64, usize)| *count as f64 >= chars as f64 * SAME_SHARE && *width > 0.0;
        Pitch {
            common: most.filter(is_common).map(|(width, _)| *width),
            mean: sum / chars.max(1) as f64,
            chars,
        }
    }
}

/// Returns whether a character can have this width at this size.
fn is_possible(width: f64, size: f64) -> bool {
    width >= size * LEAST_WIDTH
}

fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= one.abs() * TOLERANCE
}

/// Returns how many spaces a gap is between two characters. Only between characters of one width, gaps are
/// columns, and only if their width is possible: the reader gets that of bitmap fonts wrong.
pub(super) fn spaces(gap: f64, before: f64, width: f64, size: f64) -> usize {
    let columns = (gap / width).round();
    if is_same(before, width) && is_possible(width, size) && columns > 1.0 {
        (columns as usize).min(MAX_SPACES)
    } else {
        1
    }
}

/// Returns the width that the characters of a line have in a font for listings, and `None` for other text.
pub(super) fn fixed_width(line: &Line) -> Option<f64> {
    line.pitch.common.filter(|width| *width <= line.size * MOST_WIDTH)
}

/// Returns whether the text of a document has one width throughout, as its listings have.
pub(super) fn is_typewritten(pages: &[Page]) -> bool {
    let lines = || pages.iter().flat_map(|page| &page.lines);
    let chars = |line: &Line| line.pitch.chars;
    let all: usize = lines().map(chars).sum();
    let fixed = lines().filter(|line| fixed_width(line).is_some());
    fixed.map(chars).sum::<usize>() as f64 >= all as f64 * TYPEWRITTEN_SHARE
}

/// Returns for each line whether it belongs to a listing. `leading` is the usual distance of two lines, `largest` the
/// largest size of text below headings.
pub(super) fn listings(lines: &[&Line], leading: f64, largest: f64) -> Vec<bool> {
    let fixed: Vec<Option<f64>> = lines
        .iter()
        .map(|line| fixed_width(line).filter(|_| line.size <= largest && !line.turned))
        .collect();
    let is_certain =
        |at: usize| fixed.get(at).is_some_and(Option::is_some) && lines[at].pitch.chars >= MIN_CHARS;
    let is_beside = |at: usize, beside: Option<usize>| {
        beside.is_some_and(|beside| {
            is_certain(beside)
                && fixed[at]
                    .zip(fixed[beside])
                    .is_some_and(|(one, other)| is_same(one, other))
        })
    };
    let mut listed: Vec<bool> = (0..lines.len())
        .map(|at| is_certain(at) || is_beside(at, at.checked_sub(1)) || is_beside(at, Some(at + 1)))
        .collect();
    // A line of a paragraph that is the name of something, in the distance and at the edge of the others.
    for at in 1..lines.len() {
        let before = lines[at - 1];
        let is_single = listed[at] && !listed[at - 1] && !listed.get(at + 1).copied().unwrap_or(false);
        if is_single && is_address(&lines[at].text) {
            listed[at] = false;
        }
        let fall = before.y - lines[at].y;
        let is_inside = fall > 0.0 && fall <= leading * 1.1 && (lines[at].x - before.x).abs() < before.size;
        if is_single && is_inside {
            listed[at] = false;
        }
    }
    listed
}

/// Returns whether a line is an address of mail or of a page.
fn is_address(text: &str) -> bool {
    !text.trim().contains(char::is_whitespace) && (text.contains('@') || text.contains("://"))
}

/// A listing in progress.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) page: u32,
    lines: Vec<(f64, String)>,
    /// The width of a character in points.
    width: f64,
    last_y: f64,
}

impl Listing {
    pub(super) fn new(page: u32, line: &Line) -> Self {
        Self {
            page,
            lines: vec![(line.x, line.text.trim_end().to_owned())],
            width: line
                .pitch
                .common
                .filter(|width| is_possible(*width, line.size))
                .unwrap_or(line.size * USUAL_WIDTH),
            last_y: line.y,
        }
    }

    /// Adds a line. One that is further away has an empty line before it.
    pub(super) fn add(&mut self, line: &Line, leading: f64) {
        if self.last_y - line.y > leading * 1.7 {
            self.lines.push((f64::INFINITY, String::new()));
        }
        self.lines.push((line.x, line.text.trim_end().to_owned()));
        self.last_y = line.y;
    }

    /// Returns whether a line is on a later row of the same column.
    pub(super) fn continues(&self, page: u32, line: &Line) -> bool {
        self.page == page && line.y < self.last_y
    }

    /// Returns the text, whose lines are indented as on the page.
    pub(super) fn text(&self) -> String {
        let left = self.lines.iter().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
        let indented = |(x, text): &(f64, String)| {
            let columns = ((x - left) / self.width).round();
            let columns = if columns.is_finite() { columns as usize } else { 0 };
            format!("{}{}", " ".repeat(columns.min(MAX_SPACES)), text.trim_start())
        };
        let lines: Vec<String> = self.lines.iter().map(indented).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_is_common_if_nearly_all_characters_have_it() {
        let widths = |all: &[(f64, usize)]| {
            let mut widths = Widths::default();
            all.iter().for_each(|(width, chars)| widths.add(*width, *chars));
            widths.pitch().common
        };
        assert_eq!(widths(&[(6.0, 18), (6.05, 1), (4.0, 1)]), Some(6.0));
        assert_eq!(widths(&[(6.0, 8), (4.0, 2)]), None);
        assert_eq!(widths(&[(0.0, 9)]), None);
        assert_eq!(widths(&[(f64::NAN, 9)]), None);
        assert_eq!(widths(&[]), None);
        let mut hostile = Widths::default();
        (0..100_000).for_each(|_| hostile.add(f64::NAN, 1));
        assert_eq!(
            (hostile.counts.len(), hostile.pitch().chars),
            (MAX_WIDTHS, 100_000)
        );
    }

    #[test]
    fn gaps_between_characters_of_one_width_are_columns() {
        assert_eq!(spaces(18.0, 6.0, 6.0, 10.0), 3);
        assert_eq!(spaces(18.0, 0.5, 0.5, 10.0), 1);
        assert_eq!(spaces(18.0, 5.0, 6.0, 10.0), 1);
        assert_eq!(spaces(2.0, 6.0, 6.0, 10.0), 1);
        assert_eq!(spaces(f64::INFINITY, 6.0, 6.0, 10.0), MAX_SPACES);
        assert_eq!(spaces(f64::NAN, 6.0, 0.0, 10.0), 1);
    }
}
