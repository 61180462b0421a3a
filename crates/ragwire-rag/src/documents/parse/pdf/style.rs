//! What is usual on the pages of a PDF: the size of its text, the distance of its lines, and what repeats.

use std::collections::{HashMap, HashSet};

use super::layout::{Line, Page};
use super::listing::{fixed_width, is_typewritten, listings};
use super::table::cells;

/// A running head is dropped only if it occurs on this many pages.
const MIN_REPEATS: usize = 4;
/// How many lines of a page are at each of its edges.
const EDGE_LINES: usize = 2;

/// The typographic measures of a document.
#[derive(Debug)]
pub(super) struct Style {
    /// The size of most characters, in points.
    pub(super) body_size: f64,
    /// The usual distance between two baselines, in points.
    pub(super) leading: f64,
    /// Lines of the first page with at least this size form the title. Infinite if there is no
    /// title.
    pub(super) title_size: f64,
    /// Whether all text has one width, as that of a listing has.
    is_typewritten: bool,
    /// Lines at the edges of most pages, with their digits replaced by 0.
    furniture: HashSet<String>,
    /// Lines at the same place at the edges of several pages, such as the names of chapters.
    running_heads: HashSet<(String, u64)>,
    /// How much larger the position of a page is than the number printed on it, if most pages have one.
    number_offset: Option<i64>,
}

impl Style {
    pub(super) fn of(pages: &[Page]) -> Self {
        let is_typewritten = is_typewritten(pages);
        // Listings are often smaller than the text, and there may be more of them.
        let is_text = |line: &Line| is_typewritten || fixed_width(line).is_none();
        let lines = || pages.iter().flat_map(|page| &page.lines);
        let mut chars_by_size: HashMap<u64, usize> = HashMap::new();
        for line in lines().filter(|line| is_text(line)) {
            *chars_by_size.entry(halves(line.size)).or_default() += line.text.len();
        }
        // Of two equally frequent sizes take the smaller, so that the result does not depend on the
        // order of a hash map.
        let body = chars_by_size
            .iter()
            .max_by_key(|(size, chars)| (**chars, std::cmp::Reverse(**size)));
        let body_size = body.map_or(10.0, |(size, _)| *size as f64 / 2.0).max(1.0);
        let mut falls: Vec<f64> = pages
            .iter()
            .flat_map(|page| page.lines.windows(2))
            .filter(|pair| is_text(&pair[0]) && is_text(&pair[1]))
            .map(|pair| pair[0].y - pair[1].y)
            .filter(|fall| (0.9..2.5).contains(&(fall / body_size)))
            .collect();
        falls.sort_by(f64::total_cmp);
        let leading = falls
            .get(falls.len().saturating_sub(1) / 2)
            .copied()
            .unwrap_or(body_size * 1.2);
        let first = pages
            .iter()
            .filter(|page| page.number == 1)
            .flat_map(|page| &page.lines);
        let largest = first
            .filter(|line| letters(&line.text) >= 3 && !line.turned)
            .map(|line| line.size)
            .fold(0.0, f64::max);
        let title_size = if largest >= body_size * 1.3 {
            largest * 0.95
        } else {
            f64::INFINITY
        };
        Self {
            body_size,
            leading,
            title_size,
            is_typewritten,
            furniture: repeated(pages, MIN_REPEATS.max(pages.len() / 2), |line| {
                without_digits(line.text.trim())
            }),
            number_offset: number_offset(pages),
            running_heads: repeated(pages, MIN_REPEATS, |line| {
                (without_digits(line.text.trim()), halves(line.y))
            }),
        }
    }

    /// Returns for each line whether it belongs to a listing.
    pub(super) fn listings(&self, lines: &[&Line]) -> Vec<bool> {
        if self.is_typewritten {
            vec![false; lines.len()]
        } else {
            listings(lines, self.leading, self.body_size * 1.1)
        }
    }

    /// Returns whether a line of a page is its number or a running head.
    pub(super) fn is_furniture(&self, page: &Page, edges: &Edges, line: &Line) -> bool {
        let text = line.text.trim();
        let page_number = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        // The heads of short chapters are on few pages.
        let has_number = || {
            let mut offsets = printed_numbers(text).map(|number| i64::from(page.number) - number);
            page.lines.len() > 2 * EDGE_LINES
                && edges.are_at(line)
                && offsets.any(|offset| self.number_offset == Some(offset))
        };
        page_number
            || self.furniture.contains(&without_digits(text))
            || self
                .running_heads
                .contains(&(without_digits(text), halves(line.y)))
            || has_number()
    }
}

/// How low and how high a line of a page is at its edge, in points from the bottom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges {
    low: f64,
    high: f64,
}

impl Edges {
    pub(super) fn of(page: &Page) -> Self {
        let mut heights: Vec<f64> = page.lines.iter().map(|line| line.y).collect();
        heights.sort_by(f64::total_cmp);
        let low = heights.get(EDGE_LINES - 1);
        let high = heights
            .len()
            .checked_sub(EDGE_LINES)
            .and_then(|at| heights.get(at));
        Self {
            low: low.copied().unwrap_or(f64::INFINITY),
            high: high.copied().unwrap_or(f64::NEG_INFINITY),
        }
    }

    fn are_at(&self, line: &Line) -> bool {
        line.y <= self.low || line.y >= self.high
    }
}

/// Returns what at least so many pages have at their edges: in the first or last lines that are drawn, or in those
/// above or below all others.
fn repeated<T: Eq + std::hash::Hash>(pages: &[Page], needed: usize, key: impl Fn(&Line) -> T) -> HashSet<T> {
    let mut pages_with: HashMap<T, usize> = HashMap::new();
    for page in pages {
        let (count, edges) = (page.lines.len(), Edges::of(page));
        let keys = page.lines.iter().enumerate().filter_map(|(at, line)| {
            let is_first_or_last = at < EDGE_LINES || at + EDGE_LINES >= count;
            (is_first_or_last || edges.are_at(line)).then(|| key(line))
        });
        let keys: HashSet<T> = keys.collect();
        for key in keys {
            *pages_with.entry(key).or_default() += 1;
        }
    }
    pages_with
        .into_iter()
        .filter(|(_, count)| *count >= needed)
        .map(|(edge, _)| edge)
        .collect()
}

/// Returns how much larger the positions of pages are than the numbers printed at their edges, if a third of them agree.
fn number_offset(pages: &[Page]) -> Option<i64> {
    let mut pages_with: HashMap<i64, usize> = HashMap::new();
    for page in pages {
        let edges = Edges::of(page);
        let at_edges = page.lines.iter().filter(|line| edges.are_at(line));
        let offsets = at_edges
            .flat_map(|line| printed_numbers(line.text.trim()))
            .map(|number| i64::from(page.number) - number);
        for offset in offsets.collect::<HashSet<i64>>() {
            *pages_with.entry(offset).or_default() += 1;
        }
    }
    // Of two equally frequent ones take the smaller, so that the result does not depend on the order of a hash map.
    let most = pages_with
        .into_iter()
        .max_by_key(|(offset, count)| (*count, std::cmp::Reverse(*offset)));
    most.filter(|(_, count)| *count >= MIN_REPEATS && count * 3 >= pages.len())
        .map(|(offset, _)| offset)
}

/// Returns the numbers that a line consists of, or begins or ends with beside a wide gap.
fn printed_numbers(text: &str) -> impl Iterator<Item = i64> {
    let (mut parts, all) = (cells(text), cells(text));
    let ends = parts.next().into_iter().chain(all.last());
    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = ends.filter(is_number).filter_map(|part| part.parse::<u32>().ok());
    numbers.map(i64::from)
}

fn without_digits(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect()
}

fn halves(size: f64) -> u64 {
    // The cast saturates and turns NaN into 0, so a hostile size is just an unusual size.
    (size * 2.0).round() as u64
}

pub(super) fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphabetic()).count()
}
