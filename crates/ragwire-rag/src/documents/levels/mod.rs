//! The chunks of a document on three levels, cut from its pieces whenever they are asked for: sections, passages, sentences.
//!
//! A passage is a piece as it was stored. A section is the passages under one heading, one after the other; a sentence is what one
//! sentence of a passage says. Small chunks are found more exactly and large ones answer better, so a search may find a sentence and hand on
//! its passage, or a passage and its section ([`Chunk::parent`]).
//!
//! Nothing of it is stored: the same pieces always give the same chunks with the same ids. What a piece repeats of the one before it belongs
//! to that one alone, here and nowhere else. It does not know where pieces are kept.

use std::ops::Range;

use crate::ChunkId;
use crate::documents::chunk::{MAX_OVERLAP_BYTES, Piece};
use crate::documents::sentences;
use crate::{Chunk, Document, Level};
use ragwire::event::Levels;

/// Longest section in bytes: about 1,500 tokens, of which several fit a small model's context. What stands under one heading and is longer
/// becomes several sections, cut between passages.
pub(crate) const MAX_SECTION_BYTES: usize = 6_000;
/// Shortest sentence in bytes. `Yes.`, `}` or `See Table 3.` say nothing alone and would be near to everything: they go with the sentence
/// after them, and at the end of a passage with the one before.
pub(crate) const MIN_SENTENCE_BYTES: usize = 20;
/// Raised whenever the same document gives other pieces or other chunks than before: an index learns from it that it is of yesterday.
pub(crate) const VERSION: u32 = 1;

/// A section with all that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionTree {
    /// The section. It has no parent.
    pub section: Chunk,
    /// Its passages, in order; at least one.
    pub passages: Vec<Chunk>,
    /// Their sentences, in order.
    pub sentences: Vec<Chunk>,
}

impl SectionTree {
    /// All of its chunks: the section, its passages, their sentences.
    pub fn into_chunks(self) -> impl Iterator<Item = Chunk> {
        let section = std::iter::once(self.section);
        section.chain(self.passages).chain(self.sentences)
    }
}

/// All sections of a document, in order.
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

/// Where sections and sentences of a document begin: all that is needed to give a chunk its ids without reading the whole document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The first passage of each section, growing.
    sections: Vec<u32>,
    /// For each passage the number of sentences before it, and at last that of all.
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
        let begun = self.sections.partition_point(|first| *first <= passage);
        begun.saturating_sub(1) as u32
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

/// Makes an [`Outline`] of pieces that come one by one.
#[derive(Debug, Default)]
pub(crate) struct OutlineBuilder {
    outline: Outline,
    sentences: u32,
    /// Bytes of the section that is open.
    bytes: usize,
}

impl OutlineBuilder {
    /// Adds a piece; `before` is the one that was added before it.
    pub(crate) fn add(&mut self, before: Option<&Piece>, piece: &Piece) {
        let own = FreshText::of(before, piece);
        let passage = self.outline.sentences.len() as u32;
        let goes_on = before.is_some_and(|before| before.heading == piece.heading);
        if goes_on && self.bytes + own.len() <= MAX_SECTION_BYTES {
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

/// What a piece says that the one before it did not.
#[derive(Debug, Clone, Copy)]
struct FreshText<'a> {
    /// What stands between the two.
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
        // Empty lines of a listing, cut off from it.
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

/// How many bytes at the start of a piece repeat the one before it.
fn repeated(before: &Piece, piece: &Piece) -> usize {
    if before.heading != piece.heading || before.page != piece.page {
        return 0;
    }
    piece
        .repeated
        .map_or_else(|| guess(before, piece), |bytes| bytes as usize)
}

/// For files of before, which do not say it: almost always right, and at worst a line that really stood there twice is counted once.
fn guess(before: &Piece, piece: &Piece) -> usize {
    let last = sentences(&before.text).pop().unwrap_or_default();
    let rest = piece.text.strip_prefix(last);
    let goes_on = rest.is_some_and(|rest| rest.starts_with([' ', '\n']));
    if goes_on && last.len() <= MAX_OVERLAP_BYTES {
        last.len()
    } else {
        0
    }
}

/// The sentences of a passage's own text, none lost, each at least [`MIN_SENTENCE_BYTES`] long unless there is no more.
fn propositions(text: &str) -> Vec<&str> {
    let mut found: Vec<Range<usize>> = Vec::new();
    // What is too short and waits for the next.
    let mut waits: Option<Range<usize>> = None;
    for unit in units(text) {
        let start = waits.take().map_or(unit.start, |short| short.start);
        if unit.end - start < MIN_SENTENCE_BYTES {
            waits = Some(start..unit.end);
        } else {
            found.push(start..unit.end);
        }
    }
    if let Some(short) = waits {
        match found.last_mut() {
            Some(last) => last.end = short.end,
            None => found.push(short),
        }
    }
    found.into_iter().filter_map(|range| text.get(range)).collect()
}

/// Lines of tables and listings, sentences of all else.
fn units(text: &str) -> Vec<Range<usize>> {
    let start_of = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    let range_of = |part: &str| start_of(part)..start_of(part) + part.len();
    let mut units = Vec::new();
    for line in text.split('\n') {
        // Only listings keep what stands before their lines, and parsers write a table's row with bars.
        if line.starts_with(char::is_whitespace) || line.contains(" | ") {
            units.extend(Some(line.trim()).filter(|line| !line.is_empty()).map(range_of));
        } else {
            units.extend(sentences(line).into_iter().map(range_of));
        }
    }
    units
}

/// A document that can name its chunks.
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
        }
    }

    /// The sentences of the passage at `ordinal`; `before` is the piece before it.
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
            }
        };
        let own = FreshText::of(before, piece);
        (0u32..).zip(propositions(own.text)).map(sentence).collect()
    }

    /// The section at `ordinal` of the pieces that it holds; `before` is the piece before them.
    pub(crate) fn section(
        &self,
        ordinal: u32,
        before: Option<&Piece>,
        pieces: &[Piece],
    ) -> Option<SectionTree> {
        let first = self.outline.passages(ordinal)?.start;
        let heading = pieces.first()?.heading.clone();
        let (mut text, mut passages, mut sentences) = (String::new(), Vec::new(), Vec::new());
        let before = std::iter::once(before).chain(pieces.iter().map(Some));
        for ((passage, piece), before) in (first..).zip(pieces).zip(before) {
            let own = FreshText::of(before, piece);
            if !text.is_empty() {
                text.push_str(own.between);
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
        };
        Some(SectionTree {
            section,
            passages,
            sentences,
        })
    }
}

#[cfg(test)]
mod tests;
