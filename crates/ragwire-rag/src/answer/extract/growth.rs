//! Where a quote begins and ends that is chosen for one sentence or line.

use std::collections::HashSet;
use std::ops::Range;

use super::segments::Segment;
use super::{QUOTE_BYTES, Reader};
use crate::search::entries::{Part, begins_entry};
use crate::search::lines::{LineKind, names_option};
use crate::search::meaning::ANSWERS;

/// From this length on, a paragraph is only added if it has further words of the question.
const ENOUGH_BYTES: usize = 300;
/// A listing is quoted to its end up to this length.
const LISTING_BYTES: usize = 700;
/// A list is quoted to its end up to this length.
const LIST_BYTES: usize = 900;
/// An entry of a list, such as an option with its description, is quoted up to the last of the question's words that
/// it has within this length.
const ENTRY_BYTES: usize = 1_000;
/// How many sentences and lines of an entry are searched for them.
const ENTRY_PARTS: usize = 40;
/// In a passage of so few sentences, one that has all words of the question is quoted alone, unless the passage is about the
/// name that is asked about.
const FEW_SENTENCES: usize = 3;
/// The coverage of a sentence that has all words of a question.
const COMPLETE: f32 = 0.99;

impl Reader<'_> {
    /// Returns the last segment within reach that adds a word of the question to an entry.
    fn complete_at(
        &self,
        segments: &[Segment<'_>],
        parts: &[Part<'_>],
        stems: &[HashSet<String>],
        from: usize,
    ) -> usize {
        let mut held = stems[from].clone();
        let mut needed = from;
        for at in (from + 1..segments.len()).take(ENTRY_PARTS) {
            let is_far = segments[at].end - segments[from].start > ENTRY_BYTES;
            if is_far || begins_entry(parts, at) {
                break;
            }
            let before = self.covered(&held);
            held.extend(stems[at].iter().cloned());
            if self.covered(&held) > before {
                needed = at;
            }
        }
        needed
    }

    /// Returns the last segment of the quote that begins with segment `from`, and its stems.
    pub(super) fn grown(
        &self,
        segments: &[Segment<'_>],
        parts: &[Part<'_>],
        stems: &[HashSet<String>],
        nears: &[f32],
        from: usize,
        entry: Option<&Range<usize>>,
    ) -> (usize, HashSet<String>) {
        let mut held = stems[from].clone();
        let mut to = from;
        let end = entry.map_or(segments.len(), |entry| entry.end);
        let is_row = |at: usize| segments[at].kind == LineKind::Row;
        let is_within_table = |at: usize| is_row(at) && at.checked_sub(1).is_some_and(is_row);
        let mut best_row = 0.0;
        if is_within_table(from) {
            best_row = self.covered(&stems[from]);
            // The names of the columns are shown with it.
            let names = (0..from).rev().take_while(|at| is_row(*at)).last();
            held.extend(names.into_iter().flat_map(|names| stems[names].iter().cloned()));
        }
        let in_entry = entry.is_some()
            || segments[from].is_title()
            || from
                .checked_sub(1)
                .is_some_and(|before| segments[before].is_title());
        let complete_at = if in_entry {
            self.complete_at(segments, parts, stems, from)
        } else {
            from
        };
        let has_all = |held: &HashSet<String>| self.covered(held) >= COMPLETE || nears[from] >= ANSWERS;
        // The first step leads to the others, unless it says all.
        let is_first_step = segments[from].item.is_some_and(|item| item.number == Some(1));
        let mut whole_list = if is_first_step && !has_all(&held) {
            list_end(segments, from, from)
        } else {
            None
        };
        let mut whole_entries = None;
        let mut is_complete_before = false;
        while let Some(next) = segments.get(to + 1) {
            let (last, bytes) = (&segments[to], segments[to].end - segments[from].start);
            let with = next.end - segments[from].start;
            let in_listing = last.kind == LineKind::Code && next.kind == LineKind::Code;
            if last.leads_in() && last.item.is_none() {
                whole_list = list_end(segments, from, to + 1).or(whole_list);
                whole_entries = entries_end(segments, from, to + 1).or(whole_entries);
                is_complete_before = has_all(&held);
            }
            // The entry that says all is quoted without those after it.
            let is_entry_asked_for = !is_complete_before && !last.is_title() && has_all(&held);
            let in_entries = !is_entry_asked_for && whole_entries.is_some_and(|end| to < end);
            let in_list = in_entries || whole_list.is_some_and(|end| to < end);
            let names_others = next.names_others() && !last.leads_in() && !in_list;
            if next.line != last.line && (next.is_footnote() || names_others) {
                break;
            }
            if !in_entries && (to + 1 == end || begins_entry(parts, to + 1)) {
                break;
            }
            // Of a table, only the rows that answer as much as those before.
            if is_row(to) && is_row(to + 1) && self.covered(&stems[to + 1]) < best_row {
                break;
            }
            if with > QUOTE_BYTES && to >= complete_at && !(in_listing && with <= LISTING_BYTES) && !in_list {
                break;
            }
            let is_complete = !last.leads_in() && !last.is_question() && has_all(&held);
            if is_complete && !in_list && entry.is_none() && segments.len() <= FEW_SENTENCES {
                break;
            }
            let is_new = next.line != last.line && !last.leads_in() && !in_listing && !in_list;
            if is_new && bytes >= ENOUGH_BYTES && to >= complete_at {
                let paragraph = segments
                    .iter()
                    .zip(stems)
                    .filter(|(one, _)| one.line == next.line);
                let adds = paragraph.flat_map(|(_, stems)| stems).any(|stem| {
                    !held.contains(stem) && self.terms.iter().any(|term| term.stems.contains(stem))
                });
                if !adds {
                    break;
                }
            }
            to += 1;
            held.extend(stems[to].iter().cloned());
            if is_within_table(to) {
                best_row = self.covered(&stems[to]).max(best_row);
            }
        }
        // A lead-in without what it leads to is left out, unless it is all, and so is the name of the next entry
        // and a formula that is cut within brackets.
        if let Some(whole) = before_cut_formula(&segments[from..=to]) {
            to = from + whole;
        }
        let is_loose = |at: usize| {
            let before = &segments[at - 1];
            let of_next = segments[at].is_title()
                && (before.text.ends_with('.') || (before.kind == LineKind::Code && at + 1 < segments.len()));
            // The names of the columns without a row.
            let names_columns =
                is_row(at) && !is_row(at - 1) && segments.get(at + 1).is_some() && is_row(at + 1);
            segments[at].leads_in() || segments[at].is_question() || of_next || names_columns
        };
        while to > from && is_loose(to) {
            to -= 1;
        }
        (to, held)
    }
}

/// Returns the last segment of the list that segment `at` begins, with the lists and listings in its items, if a quote from
/// `from` to its end is not too long.
fn list_end(segments: &[Segment<'_>], from: usize, at: usize) -> Option<usize> {
    let first = segments.get(at)?.item?;
    let (mut end, mut line, mut number) = (at, segments[at].line, first.number);
    for (at, segment) in segments.iter().enumerate().skip(at + 1) {
        let Some(item) = segment.item else {
            // A listing belongs to the list if an item follows.
            if segment.kind == LineKind::Code {
                continue;
            }
            break;
        };
        let begins = item.depth == first.depth && !item.continued && segment.line != line;
        let is_next = item.number == number.map(|number| number.saturating_add(1));
        if item.depth < first.depth || (begins && !is_next) {
            break;
        }
        if begins {
            number = item.number;
        }
        (end, line) = (at, segment.line);
    }
    (segments[end].end - segments[from].start <= LIST_BYTES).then_some(end)
}

/// Returns the last segment of the names with descriptions that segment `at` begins, of those that a quote from `from` may
/// have. A sentence leads to them, so they are not entries of their own.
fn entries_end(segments: &[Segment<'_>], from: usize, at: usize) -> Option<usize> {
    let is_prose = |segment: &&Segment<'_>| segment.kind == LineKind::Prose && segment.item.is_none();
    let mut end = None;
    let mut next = at;
    loop {
        let rest = segments.get(next..).unwrap_or_default().iter();
        let names = rest
            .clone()
            .take_while(|segment| is_prose(segment) && segment.is_title())
            .count();
        let described: Vec<_> = rest.skip(names).take_while(is_prose).collect();
        let line = described.first().map(|segment| segment.line);
        let sentences = described
            .iter()
            .take_while(|segment| Some(segment.line) == line)
            .count();
        if names == 0 || sentences == 0 {
            return end;
        }
        let last = next + names + sentences - 1;
        if segments[last].end - segments[from].start > LIST_BYTES {
            return end;
        }
        end = Some(last);
        next = last + 1;
    }
}

/// Returns where a quote begins. A quote from the middle of a short listing begins with the first line of the listing, or
/// with the sentence that introduces it.
pub(super) fn begin(segments: &[Segment<'_>], from: usize, to: usize) -> usize {
    let before = segments[..from].iter().rev();
    let lines = before
        .take_while(|segment| segment.kind == LineKind::Code)
        .count();
    let first = from - lines;
    let is_short = segments[to].end - segments[first].start <= LISTING_BYTES;
    if segments[from].kind != LineKind::Code || !is_short {
        return segments[from].start;
    }
    let lead = first
        .checked_sub(1)
        .map(|lead| &segments[lead])
        .filter(|lead| lead.leads_in());
    lead.unwrap_or(&segments[first]).start
}

/// Returns the index of the last segment before a formula that the quote does not contain to its end,
/// or `None` if it contains all of them: a line that is not a sentence opens a bracket that stays open.
fn before_cut_formula(quote: &[Segment<'_>]) -> Option<usize> {
    let (mut open, mut begin) = (0, 0);
    for (at, segment) in quote.iter().enumerate() {
        let is_sentence = segment
            .text
            .ends_with(['.', '!', '?', ':', '。', '！', '？', '：']);
        if segment.kind != LineKind::Prose || (open == 0 && is_sentence) {
            continue;
        }
        if open == 0 {
            begin = at;
        }
        open += segment.text.matches(['(', '[']).count();
        open = open.saturating_sub(segment.text.matches([')', ']']).count());
    }
    (open > 0).then(|| begin.checked_sub(1)).flatten()
}

/// Returns the share of the lines that are not sentences, except in the list after a lead-in.
pub(super) fn fragments_share(quote: &[Segment<'_>]) -> f32 {
    let lead = quote.iter().position(Segment::leads_in);
    let fragments = quote
        .iter()
        .take(lead.unwrap_or(quote.len()))
        .skip(1)
        .filter(|segment| segment.is_title() && !names_option(segment.text));
    fragments.count() as f32 / quote.len() as f32
}
