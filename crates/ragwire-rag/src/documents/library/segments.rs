//! The lexical index on disk: segments of posting lists, which are written once and merged later.
//!
//! New passages are first indexed in memory (the tail). When there are enough of them, the tail
//! becomes a segment: one row for each term. Segments of one size are merged into a larger one, so a
//! library of a million passages has about 20. A removed passage stays in its segment until the
//! segment is merged or has too many of them; until then the set of live passages hides it, and
//! counts as if it were gone.
//!
//! A list is a sequence of steps from passage to passage, each with the impact of the term.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Rows, Statement};

use super::LibraryError;
use super::database::{meta, set_meta};
use super::state::Finder;
use crate::seal::{seal_under, unseal_under};
use crate::search::lexical::{Best, Index, Match, Posting, QueryTerm, rarity, score};

/// The format of the index. Another one is built again from the passages. The checksums of format 1 were
/// without terms.
const FORMAT: u64 = 2;
/// Passages in memory that become a segment: 10 MB, and a tenth of a second at the next start.
/// Fewer in tests, which then have many segments.
pub(super) const TAIL_PASSAGES: usize = if cfg!(test) { 32 } else { 4_096 };
/// This many segments of one size are merged into one.
const MERGED_SEGMENTS: usize = 8;
/// The most passages in a merged segment: merging takes some 10 s for that many.
const MAX_SEGMENT_PASSAGES: u64 = 1 << 20;
/// A segment is written again when more than one in this many of its passages was removed.
const REMOVED_SHARE: u64 = 4;
/// The most scores that a search has room for, for each passage of a segment. After many removals
/// most numbers of a segment are not in use.
const MAX_SCORES_PER_PASSAGE: u64 = 8;
/// Other spellings of a term in one row.
const FORM_SEPARATOR: char = ' ';
const MAX_FORMS: usize = 8;

/// A set of passages by their numbers: one bit each.
#[derive(Debug, Default)]
pub(super) struct Live(Vec<u64>);

impl Live {
    pub(super) fn set(&mut self, numbers: Range<u64>, live: bool) {
        for number in numbers {
            let (word, bit) = ((number / 64) as usize, number % 64);
            if word >= self.0.len() {
                self.0.resize(word + 1, 0);
            }
            if live {
                self.0[word] |= 1 << bit;
            } else {
                self.0[word] &= !(1 << bit);
            }
        }
    }

    pub(super) fn has(&self, number: u64) -> bool {
        let word = self.0.get((number / 64) as usize).copied().unwrap_or(0);
        word >> (number % 64) & 1 == 1
    }

    fn count(&self, numbers: Range<u64>) -> u64 {
        numbers.filter(|number| self.has(*number)).count() as u64
    }
}

/// A segment: the terms of a range of passages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    id: u64,
    passages: Range<u64>,
    /// How many passages were live when it was written.
    count: u64,
}

impl Segment {
    /// Room for the scores of its passages, or none if few of the numbers in its range are in use.
    fn scores(&self) -> Vec<f32> {
        let range = self.passages.end - self.passages.start;
        let is_dense = range <= MAX_SCORES_PER_PASSAGE * self.count;
        vec![0.0; if is_dense { range as usize } else { 0 }]
    }

    fn tier(&self) -> u32 {
        (self.count / TAIL_PASSAGES as u64)
            .max(1)
            .ilog(MERGED_SEGMENTS as u64)
    }
}

/// The index of a library: segments and the tail.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    /// Ascending by passages.
    segments: Vec<Segment>,
    pub(super) tail: Index,
    pub(super) live: Live,
    /// The number of live passages.
    pub(super) passages: usize,
}

impl Lexicon {
    /// Reads which segments there are, and removes what an interrupted merge left behind. An index
    /// of another format, or of another version of the analyzer, is removed.
    pub(super) fn open(connection: &Connection, analyzer: u64) -> Result<Vec<Segment>, LibraryError> {
        let version = (FORMAT << 32) | analyzer;
        if meta(connection, "analyzer")? != Some(version) {
            connection.execute_batch("DELETE FROM postings; DELETE FROM segments;")?;
            set_meta(connection, "indexed", 0)?;
            set_meta(connection, "analyzer", version)?;
        }
        connection.execute_batch("DELETE FROM postings WHERE segment NOT IN (SELECT id FROM segments)")?;
        let mut statement =
            connection.prepare("SELECT id, first, last, count FROM segments ORDER BY first")?;
        let segment = |row: &rusqlite::Row<'_>| {
            let number = |at| row.get::<_, i64>(at).map(|value| value as u64);
            Ok(Segment {
                id: number(0)?,
                passages: number(1)?..number(2)? + 1,
                count: number(3)?,
            })
        };
        let segments = statement.query_map([], segment)?;
        Ok(segments.collect::<Result<_, _>>()?)
    }

    pub(super) fn set_segments(&mut self, segments: Vec<Segment>) {
        self.segments = segments;
    }

    /// Writes the tail as a segment. The caller then calls [`flushed`](Self::flushed).
    pub(super) fn write_tail(
        &self,
        connection: &Connection,
        next: u64,
    ) -> Result<Option<Segment>, LibraryError> {
        let terms: BTreeMap<_, _> = self.tail.lists().collect();
        let keys = || {
            terms
                .values()
                .flat_map(|list| &list.postings)
                .map(|posting| posting.key())
        };
        let (Some(first), Some(last)) = (keys().min(), keys().max()) else {
            set_meta(connection, "indexed", next)?;
            return Ok(None);
        };
        let segment = new_segment(connection, first..last + 1, self.tail.len() as u64)?;
        let mut insert = connection.prepare(INSERT)?;
        for (term, list) in terms {
            let forms = list.forms.join(&FORM_SEPARATOR.to_string());
            insert.execute((
                segment.id as i64,
                term,
                forms,
                encode(&list.postings, first, term),
            ))?;
        }
        set_meta(connection, "indexed", next)?;
        Ok(Some(segment))
    }

    pub(super) fn flushed(&mut self, segment: Option<Segment>) {
        self.segments.extend(segment);
        self.tail = Index::default();
    }

    /// Returns the segments to merge next: the last ones of one size, or one with many removed
    /// passages.
    pub(super) fn due(&self) -> Option<Range<usize>> {
        let last = self.segments.last()?;
        let same = self
            .segments
            .iter()
            .rev()
            .take_while(|one| one.tier() == last.tier());
        let count = same.count();
        let range = self.segments.len() - count..self.segments.len();
        let merged: u64 = self.segments[range.clone()].iter().map(|one| one.count).sum();
        if count >= MERGED_SEGMENTS && merged <= MAX_SEGMENT_PASSAGES {
            return Some(range);
        }
        let sparse = |segment: &Segment| {
            let live = self.live.count(segment.passages.clone());
            segment.count.saturating_sub(live) * REMOVED_SHARE > segment.count
        };
        let at = self.segments.iter().position(sparse)?;
        Some(at..at + 1)
    }

    /// Writes the live postings of some segments as one segment. The rows of the old segments stay
    /// until [`forget`] removes them, because readers may still use them.
    pub(super) fn write_merged(
        &self,
        connection: &Connection,
        range: Range<usize>,
    ) -> Result<Option<Segment>, LibraryError> {
        let old = &self.segments[range];
        let numbers = || old.iter().flat_map(|segment| segment.passages.clone());
        let live = || numbers().filter(|number| self.live.has(*number));
        let (first, last, count) = (live().next(), live().next_back(), live().count() as u64);
        for segment in old {
            connection.execute("DELETE FROM segments WHERE id = ?1", [segment.id as i64])?;
        }
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(None);
        };
        let merged = new_segment(connection, first..last + 1, count)?;
        let mut insert = connection.prepare(INSERT)?;
        let mut statements: Vec<Statement<'_>> = Vec::new();
        for _ in old {
            statements.push(
                connection
                    .prepare("SELECT term, forms, list FROM postings WHERE segment = ?1 ORDER BY term")?,
            );
        }
        let mut cursors: Vec<Cursor<'_>> = Vec::new();
        for (statement, segment) in statements.iter_mut().zip(old) {
            let rows = statement.query([segment.id as i64])?;
            cursors.push(Cursor::new(rows, segment.passages.start)?);
        }
        while let Some(term) = cursors.iter().filter_map(|cursor| cursor.term.clone()).min() {
            let (mut postings, mut forms) = (Vec::new(), Vec::<String>::new());
            for cursor in cursors
                .iter_mut()
                .filter(|cursor| cursor.term.as_ref() == Some(&term))
            {
                let list = decode(&cursor.list, cursor.first, &term)?;
                postings.extend(list.into_iter().filter(|posting| self.live.has(posting.key())));
                for form in cursor.forms.split(FORM_SEPARATOR).filter(|form| !form.is_empty()) {
                    if forms.len() < MAX_FORMS && forms.iter().all(|known| known != form) {
                        forms.push(form.to_owned());
                    }
                }
                cursor.advance()?;
            }
            if !postings.is_empty() {
                let forms = forms.join(&FORM_SEPARATOR.to_string());
                let list = encode(&postings, first, &term);
                insert.execute((merged.id as i64, term, forms, list))?;
            }
        }
        Ok(Some(merged))
    }

    /// Replaces segments, and returns the old ones.
    pub(super) fn merged(&mut self, range: Range<usize>, merged: Option<Segment>) -> Vec<Segment> {
        self.segments.splice(range, merged).collect()
    }

    /// Returns the best live passages for a query, best first, equal scores in the order of adding. How rare a
    /// term is, is counted over the passages that a user finds.
    pub(super) fn search(
        &self,
        connection: &Connection,
        terms: &[QueryTerm],
        limit: usize,
        finder: &Finder<'_>,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<Match>, LibraryError> {
        let passages = finder.passages();
        let mut lookup = Lookup::new(connection)?;
        let mut scores: Vec<Vec<f32>> = self.segments.iter().map(Segment::scores).collect();
        // Of the tail, and of segments with large gaps.
        let mut sparse: HashMap<u64, f32> = HashMap::new();
        for term in terms {
            for spelling in &term.spellings {
                let lists = self.lists(&mut lookup, spelling)?;
                let in_tail = self.tail.postings(spelling);
                let with = self.count(&lists, in_tail, finder);
                let rarity = term.factor * rarity(passages, with);
                for ((list, scores), segment) in lists.iter().zip(&mut scores).zip(&self.segments) {
                    for posting in list {
                        let (number, score) = (posting.key(), score(rarity, posting.impact()));
                        match scores.get_mut((number - segment.passages.start) as usize) {
                            Some(sum) => *sum += score,
                            None => *sparse.entry(number).or_default() += score,
                        }
                    }
                }
                for posting in self.live_in(in_tail) {
                    *sparse.entry(posting.key()).or_default() += score(rarity, posting.impact());
                }
            }
        }
        let mut best = Best::new(limit);
        for (segment, scores) in self.segments.iter().zip(&scores) {
            for (number, score) in segment.passages.clone().zip(scores) {
                if *score > 0.0 {
                    best.offer(number, *score, &wanted);
                }
            }
        }
        for (number, score) in sparse {
            best.offer(number, score, &wanted);
        }
        Ok(best.into_sorted())
    }

    /// Returns whether a passage that a user finds contains a term.
    pub(super) fn has(
        &self,
        connection: &Connection,
        term: &str,
        finder: &Finder<'_>,
    ) -> Result<bool, LibraryError> {
        let mut in_tail = self.live_in(self.tail.postings(term));
        if in_tail.any(|posting| finder.finds(posting.key())) {
            return Ok(true);
        }
        let mut lookup = Lookup::new(connection)?;
        for segment in &self.segments {
            let list = lookup.list(segment, term)?;
            if self.live_in(&list).any(|posting| finder.finds(posting.key())) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns how many passages that a user finds contain each term.
    pub(super) fn texts_with(
        &self,
        connection: &Connection,
        terms: &[String],
        finder: &Finder<'_>,
    ) -> Result<Vec<usize>, LibraryError> {
        let mut lookup = Lookup::new(connection)?;
        let mut with = |term: &String| -> Result<usize, LibraryError> {
            let lists = self.lists(&mut lookup, term)?;
            Ok(self.count(&lists, self.tail.postings(term), finder))
        };
        terms.iter().map(&mut with).collect()
    }

    /// Returns how many passages of these postings a user finds.
    fn count(&self, lists: &[Vec<Posting>], in_tail: &[Posting], finder: &Finder<'_>) -> usize {
        if finder.finds_all() {
            return lists.iter().map(Vec::len).sum::<usize>() + self.live_in(in_tail).count();
        }
        let all = lists.iter().flatten().copied().chain(self.live_in(in_tail));
        all.filter(|posting| finder.finds(posting.key())).count()
    }

    /// Returns the terms that begin with `prefix`, with their other spellings, at most `limit` of
    /// each segment. The same term may occur several times.
    pub(super) fn terms_with_prefix(
        &self,
        connection: &Connection,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<(String, Vec<String>)>, LibraryError> {
        let tail = self.tail.lists().filter(|(term, _)| term.starts_with(prefix));
        let forms =
            |list: &crate::search::lexical::List| list.forms.iter().map(|form| form.to_string()).collect();
        let mut found: Vec<(String, Vec<String>)> =
            tail.map(|(term, list)| (term.to_owned(), forms(list))).collect();
        let mut statement = connection.prepare(
            "SELECT term, forms FROM postings WHERE segment = ?1 AND term >= ?2 AND term < ?3 LIMIT ?4",
        )?;
        let end = format!("{prefix}\u{10ffff}");
        for segment in &self.segments {
            let mut rows = statement.query((segment.id as i64, prefix, &end, limit as i64))?;
            while let Some(row) = rows.next()? {
                let forms: String = row.get(1)?;
                let forms = forms.split(FORM_SEPARATOR).filter(|form| !form.is_empty());
                found.push((row.get(0)?, forms.map(str::to_owned).collect()));
            }
        }
        Ok(found)
    }

    /// Returns the live postings of a term, one list for each segment.
    fn lists(&self, lookup: &mut Lookup<'_>, term: &str) -> Result<Vec<Vec<Posting>>, LibraryError> {
        let list = |segment: &Segment| {
            let mut list = lookup.list(segment, term)?;
            // A posting outside of its segment is damage that the checksum did not show.
            list.retain(|posting| segment.passages.contains(&posting.key()) && self.live.has(posting.key()));
            Ok(list)
        };
        self.segments.iter().map(list).collect()
    }

    fn live_in<'a>(&'a self, postings: &'a [Posting]) -> impl Iterator<Item = Posting> + 'a {
        postings
            .iter()
            .copied()
            .filter(|posting| self.live.has(posting.key()))
    }
}

/// Reads every entry of the index. A search does not find a damaged term, so it reports nothing.
pub(super) fn check(connection: &Connection) -> Result<(), LibraryError> {
    let mut statement = connection
        .prepare("SELECT first, term, list FROM postings JOIN segments ON segments.id = postings.segment")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (first, term, list): (i64, String, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        decode(&list, first as u64, &term)?;
    }
    Ok(())
}

/// Removes the rows of merged segments.
pub(super) fn forget(connection: &Connection, segments: &[Segment]) -> Result<(), LibraryError> {
    for segment in segments {
        connection.execute("DELETE FROM postings WHERE segment = ?1", [segment.id as i64])?;
    }
    Ok(())
}

const INSERT: &str = "INSERT INTO postings (segment, term, forms, list) VALUES (?1, ?2, ?3, ?4)";

fn new_segment(connection: &Connection, passages: Range<u64>, count: u64) -> Result<Segment, LibraryError> {
    let id = meta(connection, "next_segment")?.unwrap_or(0);
    set_meta(connection, "next_segment", id + 1)?;
    connection.execute(
        "INSERT INTO segments (id, first, last, count) VALUES (?1, ?2, ?3, ?4)",
        (
            id as i64,
            passages.start as i64,
            passages.end as i64 - 1,
            count as i64,
        ),
    )?;
    Ok(Segment { id, passages, count })
}

/// Reads posting lists.
struct Lookup<'a> {
    statement: Statement<'a>,
}

impl<'a> Lookup<'a> {
    fn new(connection: &'a Connection) -> Result<Self, LibraryError> {
        let statement = connection.prepare("SELECT list FROM postings WHERE segment = ?1 AND term = ?2")?;
        Ok(Self { statement })
    }

    fn list(&mut self, segment: &Segment, term: &str) -> Result<Vec<Posting>, LibraryError> {
        let list = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>(0);
        let found = self.statement.query_row((segment.id as i64, term), list);
        let found = found.optional()?;
        found.map_or(Ok(Vec::new()), |list| decode(&list, segment.passages.start, term))
    }
}

/// The rows of one segment, in the order of terms.
struct Cursor<'a> {
    rows: Rows<'a>,
    first: u64,
    term: Option<String>,
    forms: String,
    list: Vec<u8>,
}

impl<'a> Cursor<'a> {
    fn new(rows: Rows<'a>, first: u64) -> Result<Self, LibraryError> {
        let mut cursor = Self {
            rows,
            first,
            term: None,
            forms: String::new(),
            list: Vec::new(),
        };
        cursor.advance()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Result<(), LibraryError> {
        self.term = match self.rows.next()? {
            Some(row) => {
                (self.forms, self.list) = (row.get(1)?, row.get(2)?);
                Some(row.get(0)?)
            }
            None => None,
        };
        Ok(())
    }
}

/// Writes postings as steps of seven bits a byte, each followed by its impact. The checksum includes what
/// they are of, which is in other columns.
fn encode(postings: &[Posting], first: u64, term: &str) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::with_capacity(postings.len() * 3 + 4), first);
    for posting in postings {
        let mut step = posting.key() - last;
        last = posting.key();
        while step >= 0x80 {
            bytes.push(step as u8 | 0x80);
            step >>= 7;
        }
        bytes.push(step as u8);
        bytes.push(posting.impact());
    }
    seal_under(&key_of(first, term), bytes)
}

/// Returns what a list of postings is of: its term, and the passage that its numbers count from.
fn key_of(first: u64, term: &str) -> Vec<u8> {
    [&first.to_le_bytes(), term.as_bytes()].concat()
}

fn decode(sealed: &[u8], first: u64, term: &str) -> Result<Vec<Posting>, LibraryError> {
    let damaged = || LibraryError::Damaged(format!("the checksum of the index entry {term:?} is wrong"));
    let bytes = unseal_under(&key_of(first, term), sealed).ok_or_else(damaged)?;
    let (mut postings, mut last) = (Vec::with_capacity(bytes.len() / 2), first);
    let mut bytes = bytes.iter().copied();
    while let Some(mut byte) = bytes.next() {
        let (mut step, mut shift) = (u64::from(byte & 0x7f), 7);
        while byte >= 0x80 && shift < 63 {
            byte = bytes.next().unwrap_or(0);
            step |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        last = last.saturating_add(step);
        let impact = bytes.next().ok_or_else(damaged)?;
        postings.push(Posting::new(last, impact));
    }
    Ok(postings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_were_written() {
        let list = |postings: &[(u64, u8)]| -> Vec<Posting> {
            let posting = |(key, impact): &(u64, u8)| Posting::new(*key, *impact);
            postings.iter().map(posting).collect()
        };
        let cases: [&[(u64, u8)]; 4] = [
            &[],
            &[(7, 1)],
            &[(7, 1), (8, 255), (136, 3), (9_000_000_000, 200)],
            &[(u64::MAX >> 8, 9)],
        ];
        for postings in cases.map(list) {
            assert_eq!(decode(&encode(&postings, 7, "x"), 7, "x").unwrap(), postings);
        }
        let whole = encode(&list(&[(7, 1), (9, 2)]), 7, "x");
        let mut damaged = whole.clone();
        damaged[1] ^= 4;
        for (list, first, term) in [(&damaged, 7, "x"), (&whole, 6, "x"), (&whole, 7, "y")] {
            assert_eq!(decode(list, first, term).unwrap_err().code(), "library_damaged");
        }
    }
}
