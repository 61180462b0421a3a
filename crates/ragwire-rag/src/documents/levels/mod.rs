//! The chunks of a document on three levels: sections, passages, sentences. They are cut from its
//! pieces on demand.
//!
//! A passage is a piece as it was stored. A section is the sequence of passages under one heading.
//! A sentence is one sentence of a passage. Small chunks match more precisely and large chunks
//! answer better, so a search may match a sentence and return its passage, or match a passage and
//! return its section ([`Chunk::parent`]).
//!
//! None of this is stored: the same pieces always give the same chunks with the same IDs. A
//! sentence that a piece repeats from the previous piece belongs only to the previous piece. This
//! module does not know where pieces are stored.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::ChunkId;
use crate::documents::chunk::{LineRanges, MAX_OVERLAP_BYTES, Piece};
use crate::documents::list::ListLine;
use crate::documents::sentences;
use crate::{Chunk, Document, Level};
use ragwire::event::Levels;

/// The longest section in bytes: about 1,500 tokens, so that several fit into a small model's
/// context. Longer text under one heading becomes several sections, split between passages.
pub(crate) const MAX_SECTION_BYTES: usize = 6_000;
/// The shortest sentence in bytes. `Yes.`, `}` or `See Table 3.` mean nothing alone and would be
/// close to everything, so they are joined to the sentence after them, or at the end of a passage
/// to the one before.
pub(crate) const MIN_SENTENCE_BYTES: usize = 20;
/// Incremented whenever the same document gives different pieces or chunks than before, so that an
/// index can detect that it is out of date.
pub(crate) const VERSION: u32 = 4;

/// A section with the passages and sentences it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionTree {
    /// The section. It has no parent.
    pub section: Chunk,
    /// Its passages, in order. Never empty.
    pub passages: Vec<Chunk>,
    /// Their sentences, in order.
    pub sentences: Vec<Chunk>,
}

impl SectionTree {
    /// Returns all of its chunks: the section, then its passages, then their sentences.
    pub fn into_chunks(self) -> impl Iterator<Item = Chunk> {
        let section = std::iter::once(self.section);
        section.chain(self.passages).chain(self.sentences)
    }
}

/// Returns all sections of a document, in order.
#[cfg(test)]
pub(crate) fn sections(document: &Document, pieces: &[Piece]) -> Vec<SectionTree> {
    let outlined = OutlinedDocument::new(document.clone(), Outline::of(pieces));
    let section = |ordinal| {
        let passages = outlined.outline.passages(ordinal)?;
        let (first, end) = (passages.start as usize, passages.end as usize);
        let before = first.checked_sub(1).and_then(|at| pieces.get(at));
        outlined.section(ordinal, before, pieces.get(first..end)?)
    };
    (0..).map_while(section).collect()
}

/// The positions at which sections and sentences of a document begin. With them a chunk gets its
/// IDs without reading the whole document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outline {
    /// The first passage of each section, ascending.
    sections: Vec<u32>,
    /// The number of sentences before each passage, followed by the total.
    sentences: Vec<u32>,
}

impl Outline {
    pub(crate) fn of(pieces: &[Piece]) -> Self {
        let mut outliner = OutlineBuilder::default();
        for (at, piece) in pieces.iter().enumerate() {
            outliner.add(at.checked_sub(1).map(|before| &pieces[before]), piece);
        }
        outliner.finish()
    }

    fn section_of(&self, passage: u32) -> u32 {
        let count = self.sections.partition_point(|first| *first <= passage);
        count.saturating_sub(1) as u32
    }

    pub(crate) fn passages(&self, section: u32) -> Option<Range<u32>> {
        let first = *self.sections.get(section as usize)?;
        let next = self.sections.get(section as usize + 1).copied();
        Some(first..next.unwrap_or_else(|| self.passage_count()))
    }

    fn passage_count(&self) -> u32 {
        self.sentences.len().saturating_sub(1) as u32
    }

    pub(crate) fn counts(&self) -> Levels {
        let sentences = self.sentences.last().copied().unwrap_or(0);
        Levels::new(self.sections.len() as u32, self.passage_count(), sentences)
    }
}

/// Builds an [`Outline`] from pieces that arrive one by one.
#[derive(Debug, Default)]
pub(crate) struct OutlineBuilder {
    outline: Outline,
    sentences: u32,
    /// Bytes of the open section.
    bytes: usize,
}

impl OutlineBuilder {
    /// Adds a piece; `before` is the piece added before it.
    pub(crate) fn add(&mut self, before: Option<&Piece>, piece: &Piece) {
        let own = FreshText::of(before, piece);
        let passage = self.outline.sentences.len() as u32;
        let continues = before.is_some_and(|before| before.heading == piece.heading);
        if continues && self.bytes + own.len() <= MAX_SECTION_BYTES {
            self.bytes += own.len();
        } else {
            self.outline.sections.push(passage);
            self.bytes = own.text.len();
        }
        self.outline.sentences.push(self.sentences);
        self.sentences += propositions(own.text).len() as u32;
    }

    pub(crate) fn finish(mut self) -> Outline {
        self.outline.sentences.push(self.sentences);
        self.outline
    }
}

/// The text of a piece without the sentence that it repeats from the previous piece.
#[derive(Clone, Copy, Debug)]
struct FreshText<'a> {
    /// The separator between the two pieces.
    between: &'a str,
    text: &'a str,
}

impl<'a> FreshText<'a> {
    fn of(before: Option<&Piece>, piece: &'a Piece) -> Self {
        let repeated = before.map_or(0, |before| repeated(before, piece));
        let text = piece.text.get(repeated..).unwrap_or(&piece.text);
        let (between, text) = match text.chars().next() {
            Some(first) if repeated > 0 => text.split_at(first.len_utf8()),
            _ => ("\n", text),
        };
        // Only empty lines of a listing, separated from it by a cut.
        if text.trim().is_empty() {
            return Self {
                between: "",
                text: "",
            };
        }
        Self { between, text }
    }

    fn len(self) -> usize {
        self.between.len() + self.text.len()
    }
}

/// Returns how many bytes at the start of a piece repeat the previous one.
fn repeated(before: &Piece, piece: &Piece) -> usize {
    if before.heading != piece.heading || before.page != piece.page {
        return 0;
    }
    piece
        .repeated
        .map_or_else(|| guess(before, piece), |bytes| bytes as usize)
}

/// For files that do not record the repetition. Almost always right; in the worst case a line that
/// occurs twice in a row is counted once.
fn guess(before: &Piece, piece: &Piece) -> usize {
    let last = sentences(&before.text).pop().unwrap_or_default();
    let rest = piece.text.strip_prefix(last);
    let is_repeated = rest.is_some_and(|rest| rest.starts_with([' ', '\n']));
    if is_repeated && last.len() <= MAX_OVERLAP_BYTES {
        last.len()
    } else {
        0
    }
}

/// Returns the sentences of a passage's own text. No text is lost, and each is at least
/// [`MIN_SENTENCE_BYTES`] long unless the whole text is shorter.
fn propositions(text: &str) -> Vec<&str> {
    let mut found: Vec<Range<usize>> = Vec::new();
    // A unit that is too short and is joined to the next one.
    let mut short: Option<Range<usize>> = None;
    for unit in units(text) {
        let start = short.take().map_or(unit.start, |short| short.start);
        if unit.end - start < MIN_SENTENCE_BYTES {
            short = Some(start..unit.end);
        } else {
            found.push(start..unit.end);
        }
    }
    if let Some(short) = short {
        match found.last_mut() {
            Some(last) => last.end = short.end,
            None => found.push(short),
        }
    }
    found.into_iter().filter_map(|range| text.get(range)).collect()
}

/// Returns the lines of tables and listings, and the sentences of all other text.
fn units(text: &str) -> Vec<Range<usize>> {
    let start_of = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    let range_of = |part: &str| start_of(part)..start_of(part) + part.len();
    let mut units = Vec::new();
    for line in text.split('\n') {
        // Only listings keep leading white space, and parsers separate the cells of a table row
        // with bars.
        if line.starts_with(char::is_whitespace) || line.contains(" | ") {
            units.extend(Some(line.trim()).filter(|line| !line.is_empty()).map(range_of));
        } else {
            units.extend(sentences(line).into_iter().map(range_of));
        }
    }
    units
}

/// A document with its outline, which gives its chunks their IDs.
#[derive(Debug)]
pub(crate) struct OutlinedDocument {
    pub(crate) document: Document,
    pub(crate) outline: Outline,
}

impl OutlinedDocument {
    pub(crate) fn new(document: Document, outline: Outline) -> Self {
        Self { document, outline }
    }

    pub(crate) fn passage(&self, ordinal: u32, piece: Piece) -> Chunk {
        let section = ChunkId::Section {
            document_id: &self.document.id,
            ordinal: self.outline.section_of(ordinal),
        };
        Chunk {
            id: Chunk::id_of(&self.document.id, ordinal),
            document_id: self.document.id.clone(),
            document_name: self.document.name.clone(),
            heading: piece.heading,
            page: piece.page,
            last_page: None,
            level: Level::Passage,
            parent: Some(section.to_string()),
            ordinal,
            text: piece.text,
            listings: piece.listings,
            items: piece.items,
        }
    }

    /// Returns the sentences of the passage at `ordinal`; `before` is the piece before it.
    pub(crate) fn sentences(&self, ordinal: u32, before: Option<&Piece>, piece: &Piece) -> Vec<Chunk> {
        let earlier = self.outline.sentences.get(ordinal as usize).copied().unwrap_or(0);
        let sentence = |(place, text): (u32, &str)| {
            let id = ChunkId::Sentence {
                document_id: &self.document.id,
                passage: ordinal,
                place,
            };
            Chunk {
                id: id.to_string(),
                document_id: self.document.id.clone(),
                document_name: self.document.name.clone(),
                heading: piece.heading.clone(),
                page: piece.page,
                last_page: None,
                level: Level::Sentence,
                parent: Some(Chunk::id_of(&self.document.id, ordinal)),
                ordinal: earlier + place,
                text: text.to_owned(),
                listings: None,
                items: None,
            }
        };
        let own = FreshText::of(before, piece);
        (0u32..).zip(propositions(own.text)).map(sentence).collect()
    }

    /// Builds the section at `ordinal` from its pieces; `before` is the piece before them.
    pub(crate) fn section(
        &self,
        ordinal: u32,
        before: Option<&Piece>,
        pieces: &[Piece],
    ) -> Option<SectionTree> {
        let first = self.outline.passages(ordinal)?.start;
        let heading = pieces.first()?.heading.clone();
        let (mut text, mut passages, mut sentences) = (String::new(), Vec::new(), Vec::new());
        let mut lines = SectionLines::new();
        let before = std::iter::once(before).chain(pieces.iter().map(Some));
        for ((passage, piece), before) in (first..).zip(pieces).zip(before) {
            let own = FreshText::of(before, piece);
            if !text.is_empty() {
                text.push_str(own.between);
            }
            if !own.text.is_empty() {
                lines.add(text.matches('\n').count() as u32, piece, own.text.len());
            }
            text.push_str(own.text);
            sentences.extend(self.sentences(passage, before, piece));
            passages.push(self.passage(passage, piece.clone()));
        }
        let pages = || pieces.iter().filter_map(|piece| piece.page);
        let (page, last_page) = (pages().min(), pages().max());
        let id = ChunkId::Section {
            document_id: &self.document.id,
            ordinal,
        };
        let section = Chunk {
            id: id.to_string(),
            document_id: self.document.id.clone(),
            document_name: self.document.name.clone(),
            heading,
            page,
            last_page: last_page.filter(|last| Some(*last) != page),
            level: Level::Section,
            parent: None,
            ordinal,
            text,
            listings: lines.listings,
            items: lines.items,
        };
        Some(SectionTree {
            section,
            passages,
            sentences,
        })
    }
}

/// What the lines of a section are, as its passages know it.
#[derive(Debug)]
struct SectionLines {
    listings: Option<LineRanges>,
    items: Option<Vec<ListLine>>,
}

impl SectionLines {
    fn new() -> Self {
        Self {
            listings: Some(LineRanges::new()),
            items: Some(Vec::new()),
        }
    }

    /// Adds the lines of a piece, whose last `bytes` begin in line `at` of the section.
    fn add(&mut self, at: u32, piece: &Piece, bytes: usize) {
        let skipped = &piece.text[..piece.text.len() - bytes];
        let first = skipped.matches('\n').count() as u32;
        let moved = |line: u32| at + line.saturating_sub(first);
        self.listings = self
            .listings
            .take()
            .zip(piece.listings.as_ref())
            .map(|(mut all, own)| {
                for listing in own.iter().filter(|listing| listing.end > first) {
                    let range = moved(listing.start)..moved(listing.end);
                    match all.last_mut() {
                        Some(open) if open.end >= range.start => open.end = range.end,
                        Some(_) | None => all.push(range),
                    }
                }
                all
            });
        self.items = self.items.take().zip(piece.items.as_ref()).map(|(mut all, own)| {
            for known in own.iter().filter(|known| known.line >= first) {
                let line = moved(known.line);
                // The line may begin in the piece before.
                if all.last().is_none_or(|last: &ListLine| last.line < line) {
                    all.push(ListLine { line, ..*known });
                }
            }
            all
        });
    }
}

#[cfg(test)]
mod tests;
