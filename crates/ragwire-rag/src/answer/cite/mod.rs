//! Citations in a streamed text: recognizing them, checking their sources, and renumbering them.
//!
//! A model is instructed to cite the k-th source as `[k]`. The n-th source that it cites becomes
//! `[n]`, and a number without a source becomes `[?]`, so that every number in the text has a
//! source. The rules:
//!
//! 1. Numbers in brackets are a citation: `[3]`, several with commas or semicolons or as a range,
//!    `[1, 2]`, `[2][4]`, `[1-3]`, `[1–3]`; also in the brackets that some models were trained on,
//!    with or without a remark after a dagger: `【3】`, `【3†source】`. Each number is written as
//!    `[n]`.
//! 2. Anything else in brackets is text: `[x]`, `[]`, `[1a]`, `[^1]`, `[0-9]`, and lists longer
//!    than 64 bytes.
//! 3. Code between backticks or fences contains no citations. Backticks that do not close within
//!    their line do not open code.
//! 4. Brackets right after a word may be an index. They are text if the number is 0, if the word
//!    looks like an identifier (one ASCII letter, `my_list`, `args.items`, `myList`, `x1`), or if
//!    what follows makes it code (`(`, `=`, a letter, `.name`). Further brackets after an index are
//!    text as well. After any other word (`at dawn[1]`) they are a citation.
//!
//! Everything else passes unchanged, byte by byte, and the output does not depend on how the text
//! was cut into pieces. At most 264 bytes are held back. This module does not depend on models or
//! sinks.

mod unmarked;

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::documents::sentences;
use crate::search::lexical::Analyzer;

pub(crate) use unmarked::unmarked;

/// Length in bytes of the longest citation, brackets included: about ten numbers.
pub(crate) const MAX_MARK_BYTES: usize = 64;
/// How many bytes after a citation inside backticks are searched for the end of the code.
const CODE_AHEAD_BYTES: usize = 192;
/// Number of bytes held back at most; each of the two limits may end within a character.
#[cfg(test)]
pub(crate) const MAX_HELD_BYTES: usize = MAX_MARK_BYTES + CODE_AHEAD_BYTES + 8;
/// Largest number of sources in a range.
const MAX_RANGE: u32 = 32;
/// What replaces a number without a source.
pub(crate) const UNKNOWN: &str = "[?]";

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    /// The numbers of one citation, as the model counts.
    Mark(Vec<u32>),
}

/// What precedes the next character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Before {
    /// White space, punctuation, or the beginning of the text.
    #[default]
    Free,
    Word(Word),
    Citation,
    /// Brackets that are an index or text: brackets right after them are not a citation either.
    Index,
    /// A parenthesis right after a word, which may be a function call.
    Call,
}

/// A run of letters, digits and characters that occur in identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Word {
    chars: u32,
    begins_upper: bool,
    letters: bool,
    digits: bool,
    /// A letter beyond ASCII.
    foreign: bool,
    /// An underscore or a dollar sign.
    symbols: bool,
    /// A lower-case letter, then an upper-case one.
    humps: bool,
    lower: bool,
    /// A full stop with letters or digits on both sides.
    dots: bool,
    /// The last character, if it joins what follows to the word: `.`, `-`, `'`.
    joint: Option<char>,
}

impl Word {
    fn push(&mut self, c: char) {
        if self.chars == 0 {
            self.begins_upper = c.is_uppercase();
        }
        self.humps |= self.lower && c.is_uppercase();
        self.dots |= self.joint == Some('.');
        self.joint = None;
        self.lower |= c.is_lowercase();
        self.digits |= c.is_numeric();
        self.letters |= c.is_alphabetic();
        self.foreign |= c.is_alphabetic() && !c.is_ascii();
        self.symbols |= matches!(c, '_' | '$');
        self.chars = self.chars.saturating_add(1);
    }

    /// Returns `true` if a reader would take it for a word rather than an identifier.
    fn is_prose(self) -> bool {
        if self.symbols {
            return false;
        }
        if !self.letters {
            return true;
        }
        let one_letter = self.chars == 1 && !self.foreign;
        !self.dots && !one_letter && (self.begins_upper || !(self.humps || self.digits))
    }
}

/// Finds citations in pieces of a text.
#[derive(Debug, Default)]
struct Scan {
    held: String,
    before: Before,
    /// Number of backticks right before.
    ticks: usize,
    /// Number of backticks of the open code, if any.
    code: Option<usize>,
}

/// What begins at a bracket.
enum MarkScan {
    /// Undecided until more text arrives.
    Wait,
    Text,
    /// A citation of this many bytes.
    Mark(Vec<u32>, usize),
}

impl Scan {
    fn push(&mut self, piece: &str, out: &mut impl FnMut(Part<'_>)) {
        self.held.push_str(piece);
        self.drain(End::Open, out);
    }

    fn finish(&mut self, out: &mut impl FnMut(Part<'_>)) {
        self.drain(End::Reached, out);
    }

    fn drain(&mut self, end: End, out: &mut impl FnMut(Part<'_>)) {
        let held = std::mem::take(&mut self.held);
        let (mut from, mut at) = (0, 0);
        while let Some(c) = held[at..].chars().next() {
            if c != '`' {
                self.close_ticks();
            }
            let fenced = self.code.is_some_and(|ticks| ticks >= 3);
            let found = match c {
                '[' | '【' if !fenced => mark(&held[at..], end),
                _ => MarkScan::Text,
            };
            match found {
                MarkScan::Wait => break,
                MarkScan::Text => {
                    self.see(c);
                    at += c.len_utf8();
                }
                MarkScan::Mark(numbers, length) => {
                    let Some(role) = self.bracket_role(c, &numbers, &held[at + length..], end) else {
                        break;
                    };
                    if role == Before::Citation {
                        if from < at {
                            out(Part::Text(&held[from..at]));
                        }
                        out(Part::Mark(numbers));
                        from = at + length;
                    }
                    self.before = role;
                    at += length;
                }
            }
        }
        if from < at {
            out(Part::Text(&held[from..at]));
        }
        self.held.push_str(&held[at..]);
    }

    /// Takes a character of text.
    fn see(&mut self, c: char) {
        if c == '`' {
            self.ticks += 1;
        } else if c == '\n' && self.code.is_some_and(|ticks| ticks < 3) {
            self.code = None;
        }
        self.before = match (self.before, c) {
            (Before::Word(mut word), '.' | '-' | '\'' | '’') if word.joint.is_none() => {
                word.joint = Some(c);
                Before::Word(word)
            }
            (before, c) if c.is_alphanumeric() || matches!(c, '_' | '$') => {
                let mut word = match before {
                    Before::Word(word) => word,
                    Before::Free | Before::Citation | Before::Index | Before::Call => Word::default(),
                };
                word.push(c);
                Before::Word(word)
            }
            (Before::Word(_), '(') => Before::Call,
            (Before::Call, ')') | (_, ']') => Before::Index,
            _ => Before::Free,
        };
    }

    /// Ends a run of backticks, which opens code, closes it, or is part of it.
    fn close_ticks(&mut self) {
        let ticks = std::mem::take(&mut self.ticks);
        if ticks == 0 {
            return;
        }
        self.code = match self.code {
            None => Some(ticks),
            Some(open) if open == ticks || (open >= 3 && ticks > open) => None,
            open => open,
        };
    }

    /// Returns whether numbers in brackets are a citation ([`Before::Citation`]) or text
    /// ([`Before::Index`]); `None` while that depends on text to come.
    fn bracket_role(&self, bracket: char, numbers: &[u32], after: &str, end: End) -> Option<Before> {
        if let Some(ticks) = self.code {
            match closes(after, ticks, end) {
                None => return None,
                Some(true) => return Some(Before::Index),
                Some(false) => {}
            }
        }
        let word = match self.before {
            Before::Index => return Some(Before::Index),
            Before::Word(word) if word.joint.is_none() && bracket == '[' => word,
            Before::Free | Before::Word(_) | Before::Citation | Before::Call => {
                return Some(Before::Citation);
            }
        };
        if !word.is_prose() || numbers.contains(&0) {
            return Some(Before::Index);
        }
        let mut next = after.chars();
        let index = match (next.next(), next.next()) {
            (None, _) if end == End::Open => return None,
            (Some(' ' | '.'), None) if end == End::Open => return None,
            (Some(' '), Some('=')) => true,
            (Some('.'), Some(c)) => c.is_ascii_lowercase() || c == '_',
            (Some(c), _) => c.is_ascii_alphanumeric() || matches!(c, '_' | '(' | '='),
            (None, _) => false,
        };
        Some(if index { Before::Index } else { Before::Citation })
    }
}

/// Whether more text may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Reached,
}

/// Returns whether code of `ticks` backticks closes within this line; `None` while that is unknown.
fn closes(after: &str, ticks: usize, end: End) -> Option<bool> {
    let mut run = 0;
    for (at, c) in after.char_indices() {
        // Characters beyond this distance do not count, so that the result does not depend on how
        // much of the text has arrived.
        let far = at >= CODE_AHEAD_BYTES;
        match c {
            '`' if !far => run += 1,
            '`' => return Some(false),
            _ if run == ticks => return Some(true),
            _ if far || c == '\n' => return Some(false),
            _ => run = 0,
        }
    }
    (end == End::Reached).then_some(run == ticks)
}

/// Reads a citation at the beginning of a text.
fn mark(text: &str, end: End) -> MarkScan {
    let (open, close) = if text.starts_with('[') {
        ('[', ']')
    } else {
        ('【', '】')
    };
    let mut remark = false;
    for (at, c) in text.char_indices().skip(1) {
        if at >= MAX_MARK_BYTES {
            return MarkScan::Text;
        }
        if c == close {
            let inside = &text[open.len_utf8()..at];
            let inside = inside.split_once('†').map_or(inside, |(inside, _)| inside);
            return numbers(inside).map_or(MarkScan::Text, |numbers| {
                MarkScan::Mark(numbers, at + close.len_utf8())
            });
        }
        remark |= close == '】' && c == '†';
        let fits = c.is_ascii_digit() || matches!(c, ' ' | ',' | ';' | '-' | '–');
        if !fits && (!remark || c == '\n') {
            return MarkScan::Text;
        }
    }
    match end {
        End::Open => MarkScan::Wait,
        End::Reached => MarkScan::Text,
    }
}

/// Parses `1, 3-5` as 1, 3, 4, 5. Returns `None` for anything that is not a list of numbers.
fn numbers(inside: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for item in inside.split([',', ';']) {
        match item.split_once(['-', '–']) {
            None => numbers.push(number(item)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first == 0 || first >= last {
                    return None;
                }
                if last - first < MAX_RANGE {
                    numbers.extend(first..=last);
                } else {
                    numbers.push(u32::MAX);
                }
            }
        }
    }
    Some(numbers)
}

/// Parses a number. One that is too large saturates and so matches no source.
fn number(text: &str) -> Option<u32> {
    let digits = text.trim_matches(' ');
    let fits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// Rewrites the citations of a document as `(12)` instead of `[12]`, so that a model does not copy
/// them as its own.
pub(crate) fn in_parentheses(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut part = |part: Part<'_>| match part {
        Part::Text(text) => plain.push_str(text),
        Part::Mark(numbers) => {
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            plain.extend(["(", &numbers.join(", "), ")"]);
        }
    };
    let mut scan = Scan::default();
    scan.push(text, &mut part);
    scan.finish(&mut part);
    plain
}

/// Removes citations, including `[?]`, and the space before each.
pub(crate) fn without_marks(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut part = |part: Part<'_>| match part {
        Part::Text(text) => plain.push_str(text),
        Part::Mark(_) => plain.truncate(plain.trim_end_matches(' ').len()),
    };
    let mut scan = Scan::default();
    scan.push(text, &mut part);
    scan.finish(&mut part);
    plain.replace(" [?]", "").replace(UNKNOWN, "")
}

/// Checks and renumbers the citations of an answer while it streams.
#[derive(Debug)]
pub(crate) struct CitationFilter {
    scan: Scan,
    /// The number of sources, or `None` if nothing is a citation.
    sources: Option<usize>,
    cited: CitedText,
}

/// The text that was passed on.
#[derive(Debug, Default)]
struct CitedText {
    text: String,
    /// The cited sources in the order of their first use, with the offset of that use in `text`.
    cited: Vec<(usize, usize)>,
    unknown: u32,
}

impl CitedText {
    fn mark(&mut self, numbers: &[u32], sources: usize) {
        let mut written: HashSet<Option<usize>> = HashSet::new();
        for number in numbers {
            let source = usize::try_from(*number)
                .ok()
                .and_then(|number| number.checked_sub(1));
            let source = source.filter(|source| *source < sources);
            if source.is_none() {
                self.unknown = self.unknown.saturating_add(1);
            }
            if !written.insert(source) {
                continue;
            }
            let Some(source) = source else {
                self.text.push_str(UNKNOWN);
                continue;
            };
            let index = self.cited.iter().position(|(cited, _)| *cited == source);
            let index = index.unwrap_or_else(|| {
                self.cited.push((source, self.text.len()));
                self.cited.len() - 1
            });
            self.text.push_str(&format!("[{}]", index + 1));
        }
    }
}

impl CitationFilter {
    /// A filter for an answer that may cite this many sources. `None` passes everything on, for
    /// answers in which brackets mean something else.
    pub(crate) fn new(sources: impl Into<Option<usize>>) -> Self {
        Self {
            scan: Scan::default(),
            sources: sources.into(),
            cited: CitedText::default(),
        }
    }

    /// Takes the model's next piece and returns the text that can be passed on; it may be empty.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let (from, cited) = (self.cited.text.len(), &mut self.cited);
        let Some(sources) = self.sources else {
            cited.text.push_str(piece);
            return piece.to_owned();
        };
        self.scan.push(piece, &mut |part| cited.part(part, sources));
        self.cited.text[from..].to_owned()
    }

    /// Returns the text that was held back, after the last piece.
    pub(crate) fn finish(&mut self) -> String {
        let (from, cited) = (self.cited.text.len(), &mut self.cited);
        if let Some(sources) = self.sources {
            self.scan.finish(&mut |part| cited.part(part, sources));
        }
        self.cited.text[from..].to_owned()
    }

    /// The whole text that was passed on.
    pub(crate) fn text(&self) -> &str {
        &self.cited.text
    }

    /// The indices of the cited sources, counted from 0, in the order of their numbers in the text.
    pub(crate) fn cited(&self) -> Vec<usize> {
        self.cited.cited.iter().map(|(source, _)| *source).collect()
    }

    /// The number of citations without a source.
    pub(crate) fn unknown(&self) -> u32 {
        self.cited.unknown
    }

    /// The sentence that first cites the n-th source, n counted from 0.
    pub(crate) fn citing_sentence(&self, n: usize) -> &str {
        self.cited
            .cited
            .get(n)
            .map_or("", |(_, at)| sentence_at(&self.cited.text, *at))
    }
}

impl CitedText {
    fn part(&mut self, part: Part<'_>, sources: usize) {
        match part {
            Part::Text(text) => self.text.push_str(text),
            Part::Mark(numbers) => self.mark(&numbers, sources),
        }
    }
}

/// The sentence that a citation at offset `at` belongs to: the one around it, or the previous one
/// if the citation is at the beginning of a sentence.
fn sentence_at(text: &str, at: usize) -> &str {
    let start = |sentence: &str| sentence.as_ptr() as usize - text.as_ptr() as usize;
    let all = sentences(text);
    let here = all
        .iter()
        .rposition(|sentence| start(sentence) <= at)
        .unwrap_or(0);
    let Some(sentence) = all.get(here) else {
        return "";
    };
    let begins = start(sentence).min(at);
    let leads = !text[begins..at].contains(char::is_alphabetic);
    match here.checked_sub(1).and_then(|before| all.get(before)) {
        Some(before) if leads => before,
        _ => sentence,
    }
}

/// Returns the sentence of a source that shares most with the sentence that cites it: shared words
/// relative to all words of both, rare ones counting more. Returns the first sentence if none
/// shares a word.
pub(crate) fn supporting_quote(analyzer: &Analyzer, citing: &str, source: &str) -> String {
    let candidates = sentences(source);
    // Ordered sets: the sum of floats depends on the order.
    let terms = |text: &str| analyzer.terms(text).into_iter().collect::<BTreeSet<String>>();
    let sets: Vec<BTreeSet<String>> = candidates.iter().map(|sentence| terms(sentence)).collect();
    let mut holders: HashMap<&str, u32> = HashMap::new();
    for term in sets.iter().flatten() {
        *holders.entry(term).or_default() += 1;
    }
    let weight = |term: &String| {
        let with = holders.get(term.as_str()).copied().unwrap_or(0);
        (1.0 + candidates.len() as f32 / (1.0 + with as f32)).ln()
    };
    let wanted = terms(&without_marks(citing));
    let all: f32 = wanted.iter().map(weight).sum();
    let likeness = |set: &BTreeSet<String>| {
        let both = all + set.iter().map(weight).sum::<f32>();
        let shared: f32 = set.intersection(&wanted).map(weight).sum();
        if both > 0.0 { 2.0 * shared / both } else { 0.0 }
    };
    let best = sets.iter().map(likeness).enumerate().fold((0, 0.0), |best, one| {
        // The first of several equal sentences: a text may occur twice.
        if one.1 > best.1 + f32::EPSILON { one } else { best }
    });
    candidates
        .get(best.0)
        .map_or_else(String::new, |&quote| quote.to_owned())
}

#[cfg(test)]
mod tests;
