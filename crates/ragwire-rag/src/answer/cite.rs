//! Citations in a text that streams: which brackets are some, which sources they name, and under which numbers they are passed on.
//!
//! A model is told to cite the k-th source as `[k]`. Its numbers are checked here: the n-th source that is cited becomes `[n]`, and a number
//! without a source becomes `[?]`, so that no reader follows a citation that points nowhere. What is a citation:
//!
//! 1. Numbers in brackets, several with commas, semicolons or as a range: `[3]`, `[1, 2]`, `[2][4]`, `[1-3]`, `[1–3]`; also in the brackets that
//!    some models were trained on, with a remark behind a dagger or without: `【3】`, `【3†source】`. Each is written as `[n]`.
//! 2. Anything else in brackets is text: `[x]`, `[]`, `[1a]`, `[^1]`, `[0-9]`, and lists longer than [`MAX_MARK_BYTES`].
//! 3. In code, which stands between backticks or fences of them, nothing is a citation. Backticks that do not close in their line are none.
//! 4. Brackets right behind a word may index it. They are text if the number is 0, if the word looks like a name in a program (one ASCII letter,
//!    `my_list`, `args.items`, `myList`, `x1`), or if what follows does (`(`, `=`, a letter, `.name`); and so are further
//!    brackets behind those. Behind any other word (`at dawn[1]`) they cite.
//!
//! Everything else passes unchanged, byte by byte, and the same text gives the same output however it was cut into pieces. At most
//! [`MAX_HELD_BYTES`] are held back. It knows no model and no sink.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::documents::sentences;
use crate::search::lexical::Analyzer;

/// Longest citation in bytes, brackets included: some ten numbers.
pub(crate) const MAX_MARK_BYTES: usize = 64;
/// How far the end of code in a line is looked for, in bytes, where a citation stands behind a backtick.
const CODE_AHEAD_BYTES: usize = 192;
/// Most bytes held back until more text comes: each of the two may end within a character.
#[cfg(test)]
pub(crate) const MAX_HELD_BYTES: usize = MAX_MARK_BYTES + CODE_AHEAD_BYTES + 8;
/// Most numbers that a range may stand for.
const MAX_RANGE: u32 = 32;
/// Written for a number without a source.
pub(crate) const UNKNOWN: &str = "[?]";

/// What a text is made of.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    /// The numbers of one citation, as the model counts.
    Mark(Vec<u32>),
}

/// What stands right before the next character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Before {
    /// White space, punctuation, nothing.
    #[default]
    Free,
    Word(Word),
    Citation,
    /// Brackets that index something, or are text themselves: what follows them right away is no citation either.
    Index,
    /// The parenthesis right behind a word, which may call it.
    Call,
}

/// A run of letters, digits and what names in programs hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// The last character joins, if more follows: `.`, `-`, `'`.
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

    /// Whether a reader would take it for a word and not for a name in a program.
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
    /// Backticks right before.
    ticks: usize,
    /// Code is open, with so many backticks.
    code: Option<usize>,
}

enum Found {
    /// Whether it is one depends on what follows.
    Wait,
    Text,
    /// This many bytes.
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
                _ => Found::Text,
            };
            match found {
                Found::Wait => break,
                Found::Text => {
                    self.see(c);
                    at += c.len_utf8();
                }
                Found::Mark(numbers, length) => {
                    let Some(standing) = self.standing(c, &numbers, &held[at + length..], end) else {
                        break;
                    };
                    if standing == Before::Citation {
                        if from < at {
                            out(Part::Text(&held[from..at]));
                        }
                        out(Part::Mark(numbers));
                        from = at + length;
                    }
                    self.before = standing;
                    at += length;
                }
            }
        }
        if from < at {
            out(Part::Text(&held[from..at]));
        }
        self.held.push_str(&held[at..]);
    }

    /// Takes a character that is text.
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
                    _ => Word::default(),
                };
                word.push(c);
                Before::Word(word)
            }
            (Before::Word(_), '(') => Before::Call,
            (Before::Call, ')') | (_, ']') => Before::Index,
            _ => Before::Free,
        };
    }

    /// A run of backticks is over: it opens code, closes it, or is a part of it.
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

    /// What numbers in brackets are where they stand: [`Before::Citation`] or [`Before::Index`]; nothing as long as that depends on what
    /// follows.
    fn standing(&self, bracket: char, numbers: &[u32], after: &str, end: End) -> Option<Before> {
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
            _ => return Some(Before::Citation),
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

/// Whether more may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Reached,
}

/// Whether code of `ticks` backticks closes in this line; nothing as long as that cannot be known.
fn closes(after: &str, ticks: usize, end: End) -> Option<bool> {
    let mut run = 0;
    for (at, c) in after.char_indices() {
        // Nothing behind this character counts, so that it does not matter how much of the text is there already.
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
fn mark(text: &str, end: End) -> Found {
    let (open, close) = if text.starts_with('[') {
        ('[', ']')
    } else {
        ('【', '】')
    };
    let mut remark = false;
    for (at, c) in text.char_indices().skip(1) {
        if at >= MAX_MARK_BYTES {
            return Found::Text;
        }
        if c == close {
            let inside = &text[open.len_utf8()..at];
            let inside = inside.split_once('†').map_or(inside, |(inside, _)| inside);
            return numbers(inside)
                .map_or(Found::Text, |numbers| Found::Mark(numbers, at + close.len_utf8()));
        }
        remark |= close == '】' && c == '†';
        let fits = c.is_ascii_digit() || matches!(c, ' ' | ',' | ';' | '-' | '–');
        if !fits && (!remark || c == '\n') {
            return Found::Text;
        }
    }
    match end {
        End::Open => Found::Wait,
        End::Reached => Found::Text,
    }
}

/// `1, 3-5` as 1, 3, 4, 5; nothing for what is no list of numbers.
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

/// A number too large for any source is the largest there is.
fn number(text: &str) -> Option<u32> {
    let digits = text.trim_matches(' ');
    let fits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// A text of a document with its own citations in parentheses, `[12]` as `(12)`, so that a model does not copy them as its own.
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

/// A text without its citations, `[?]` among them, and without the space before them.
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

/// Checks the citations of an answer while it streams.
///
/// ```
/// use ragwire_rag::answer::cite::CitationFilter;
///
/// let mut filter = CitationFilter::new(3);
/// let mut sent = String::new();
/// for piece in ["Robins sing [", "3]. So do wrens [1, 9]", "[3]."] {
///     sent += &filter.push(piece);
/// }
/// sent += &filter.finish();
/// assert_eq!(sent, "Robins sing [1]. So do wrens [2][?][1].");
/// assert_eq!(filter.cited(), [2, 0]);
/// assert_eq!(filter.unknown(), 1);
/// ```
#[derive(Debug)]
pub(crate) struct CitationFilter {
    scan: Scan,
    sources: usize,
    checked: Checked,
}

/// What was passed on.
#[derive(Debug, Default)]
struct Checked {
    text: String,
    /// The sources that were cited, in the order of their first use, and where that stands in `text`.
    cited: Vec<(usize, usize)>,
    unknown: u32,
}

impl Checked {
    fn mark(&mut self, numbers: &[u32], sources: usize) {
        let mut told: HashSet<Option<usize>> = HashSet::new();
        for number in numbers {
            let source = usize::try_from(*number)
                .ok()
                .and_then(|number| number.checked_sub(1));
            let source = source.filter(|source| *source < sources);
            if source.is_none() {
                self.unknown = self.unknown.saturating_add(1);
            }
            if !told.insert(source) {
                continue;
            }
            let Some(source) = source else {
                self.text.push_str(UNKNOWN);
                continue;
            };
            let place = self.cited.iter().position(|(cited, _)| *cited == source);
            let place = place.unwrap_or_else(|| {
                self.cited.push((source, self.text.len()));
                self.cited.len() - 1
            });
            self.text.push_str(&format!("[{}]", place + 1));
        }
    }
}

impl CitationFilter {
    /// For an answer that may cite this many sources.
    pub(crate) fn new(sources: usize) -> Self {
        Self {
            scan: Scan::default(),
            sources,
            checked: Checked::default(),
        }
    }

    /// Takes the next piece of the model's, and gives what can be passed on; may be empty.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let (from, sources, checked) = (self.checked.text.len(), self.sources, &mut self.checked);
        self.scan.push(piece, &mut |part| checked.part(part, sources));
        self.checked.text[from..].to_owned()
    }

    /// What was held back, when nothing follows.
    pub(crate) fn finish(&mut self) -> String {
        let (from, sources, checked) = (self.checked.text.len(), self.sources, &mut self.checked);
        self.scan.finish(&mut |part| checked.part(part, sources));
        self.checked.text[from..].to_owned()
    }

    /// All that was passed on.
    pub(crate) fn text(&self) -> &str {
        &self.checked.text
    }

    /// The sources that are cited, counted from 0: the n-th is `[n]`, n counted from 1, in the text.
    pub(crate) fn cited(&self) -> Vec<usize> {
        self.checked.cited.iter().map(|(source, _)| *source).collect()
    }

    /// How many numbers had no source.
    pub(crate) fn unknown(&self) -> u32 {
        self.checked.unknown
    }

    /// The sentence that cites the n-th source first, n counted from 0.
    pub(crate) fn citing_sentence(&self, n: usize) -> &str {
        self.checked
            .cited
            .get(n)
            .map_or("", |(_, at)| sentence_at(&self.checked.text, *at))
    }
}

impl Checked {
    fn part(&mut self, part: Part<'_>, sources: usize) {
        match part {
            Part::Text(text) => self.text.push_str(text),
            Part::Mark(numbers) => self.mark(&numbers, sources),
        }
    }
}

/// The sentence that a citation at `at` belongs to: the one it stands in, or the one before where it stands at a beginning.
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

/// The sentence of a source that shares most with a sentence that cites it, as it stands there: shared words against all words of both, rare
/// ones counting more. The first sentence where none shares a word.
pub(crate) fn supporting_quote(analyzer: &Analyzer, citing: &str, source: &str) -> String {
    let candidates = sentences(source);
    // Sets in order: a sum of floats depends on it.
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
        // The first of equals: the same text may stand twice.
        if one.1 > best.1 + f32::EPSILON { one } else { best }
    });
    candidates
        .get(best.0)
        .map_or_else(String::new, |&quote| quote.to_owned())
}

#[cfg(test)]
#[path = "cite_tests.rs"]
mod tests;
