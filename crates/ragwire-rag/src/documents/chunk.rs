//! Cuts blocks into chunks of whole sentences from one section and one page, so that every citation
//! has one heading and one page.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::documents::list::{ListItem, ListLine};
use crate::documents::{MAX_SENTENCE_BYTES, sentences};
use crate::{Block, BlockKind, DocumentKind, Parsed};

/// Size in bytes at which a chunk is full: about 400 tokens. With 900 bytes the answer was more often
/// in the passage after the one that was found: of 148 questions about eight libraries, the first hit
/// held the answer of 69, and with this size of 75.
pub(crate) const TARGET_BYTES: usize = 1_600;
/// The longest chunk in bytes. Larger than [`MAX_SENTENCE_BYTES`], so that every sentence fits, and
/// small enough for embedders that read 512 tokens.
pub(crate) const MAX_BYTES: usize = 2_000;
/// The longest sentence in bytes that is repeated at the start of the next chunk. A question often
/// needs both sides of a cut.
pub(crate) const MAX_OVERLAP_BYTES: usize = 240;

/// A chunk is closed before an entry of a definition list that does not fit into it from this size in bytes on.
const MIN_BEFORE_ENTRY: usize = TARGET_BYTES / 2;

/// The text of a chunk and its position in the document. The library assigns its ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Piece {
    /// The headings above it, outermost first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// The page it is on, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// At most 2,000 bytes.
    pub text: String,
    /// How many bytes at its start repeat a sentence of the previous piece. `None` in files written
    /// before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u32>,
    /// The lines of listings, counted from 0, in order. `None` if the format does not say what a listing is,
    /// and in files written before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listings: Option<LineRanges>,
    /// The lines that are in lists, in order. `None` if the format does not say what a list is, and in files written
    /// before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ListLine>>,
}

/// Ranges of lines, in order.
pub(crate) type LineRanges = Vec<Range<u32>>;

/// Cuts a document into pieces. The same document always gives the same pieces.
pub(crate) fn chunks(parsed: &Parsed) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let same_place = |a: &Block, b: &Block| a.heading == b.heading && a.page == b.page;
    for blocks in parsed.blocks.chunk_by(same_place) {
        let mut chunker = Chunker {
            place: &blocks[0],
            pieces: &mut pieces,
            text: String::new(),
            repeated: 0,
            lines: 0,
            listings: marks_listings(parsed).then(LineRanges::new),
            items: marks_lists(parsed).then(Vec::new),
            item: None,
            last: "",
            last_item: None,
            full_from: TARGET_BYTES,
            term: None,
            columns: None,
            fresh: false,
        };
        for (at, block) in blocks.iter().enumerate() {
            if begins_entry(blocks, at) {
                chunker.entry(entry_bytes(&blocks[at..]));
            }
            chunker.block(block);
        }
        chunker.close();
    }
    pieces
}

/// Returns whether a document says which parts of it are listings. One without any may have set them
/// like its text.
fn marks_listings(parsed: &Parsed) -> bool {
    use DocumentKind::{
        Asciidoc, Code, Csv, Docx, Epub, Html, Image, Json, Markdown, Notebook, Odp, Ods, Odt, Pdf, Pptx,
        Rst, Rtf, Text, Xlsx,
    };
    match parsed.kind {
        Markdown | Html | Epub | Notebook | Rst | Asciidoc | Code => true,
        Pdf | Text | Docx | Odt => {
            let mut blocks = parsed.blocks.iter();
            blocks.any(|block| block.kind == BlockKind::Listing)
        }
        Pptx | Xlsx | Odp | Ods | Rtf | Csv | Json | Image => false,
    }
}

/// Returns whether a document says which parts of it are lists. One without any may have typed their marks.
fn marks_lists(parsed: &Parsed) -> bool {
    use DocumentKind::{
        Asciidoc, Code, Csv, Docx, Epub, Html, Image, Json, Markdown, Notebook, Odp, Ods, Odt, Pdf, Pptx,
        Rst, Rtf, Text, Xlsx,
    };
    match parsed.kind {
        Markdown | Html | Epub | Notebook | Rst | Asciidoc => true,
        Docx | Odp | Odt | Pdf | Pptx | Text => parsed.blocks.iter().any(|block| block.item.is_some()),
        Code | Csv | Image | Json | Ods | Rtf | Xlsx => false,
    }
}

/// Returns whether an entry of a definition list begins with a block: with the first of its terms.
fn begins_entry(blocks: &[Block], at: usize) -> bool {
    let is_after_term = at.checked_sub(1).is_some_and(|before| is_term(&blocks[before]));
    is_term(&blocks[at]) && !is_after_term
}

fn is_term(block: &Block) -> bool {
    block.term.as_ref() == Some(&block.text)
}

/// Returns the size of the entry at the start of `blocks`.
fn entry_bytes(blocks: &[Block]) -> usize {
    let continues = |at: usize| at == 0 || (blocks[at].term.is_some() && !begins_entry(blocks, at));
    let entry = (0..blocks.len()).take_while(|at| continues(*at));
    entry.map(|at| blocks[at].text.len() + 1).sum()
}

#[derive(Debug)]
struct Chunker<'a> {
    place: &'a Block,
    pieces: &'a mut Vec<Piece>,
    text: String,
    /// How many bytes at the start of `text` are repeated.
    repeated: usize,
    /// How many line feeds `text` has.
    lines: u32,
    /// The lines of `text` that are listings; `None` if the document does not say.
    listings: Option<LineRanges>,
    /// The lines of `text` that are in lists; `None` if the document does not say.
    items: Option<Vec<ListLine>>,
    /// The place in a list of the paragraph that is added.
    item: Option<ListItem>,
    /// The last sentence added, if it may be repeated.
    last: &'a str,
    /// The place in a list of that sentence.
    last_item: Option<ListItem>,
    /// The size in bytes from which on `text` is full: [`TARGET_BYTES`], and [`MAX_BYTES`] in an entry of a
    /// definition list that fits.
    full_from: usize,
    /// The term that is described, which every chunk of its description begins with.
    term: Option<&'a str>,
    /// The names of the columns of the table, which every chunk of its rows begins with.
    columns: Option<&'a str>,
    /// Whether `text` holds more than what is repeated.
    fresh: bool,
}

impl<'a> Chunker<'a> {
    /// Begins a chunk before an entry of a definition list of `bytes`, if it does not fit into the open one.
    fn entry(&mut self, bytes: usize) {
        self.full_from = TARGET_BYTES;
        let is_full = self.text.len() >= TARGET_BYTES;
        if is_full || (self.text.len() >= MIN_BEFORE_ENTRY && self.text.len() + bytes > MAX_BYTES) {
            self.close();
        }
        if self.text.len() + bytes <= MAX_BYTES {
            self.full_from = MAX_BYTES;
        }
    }

    fn block(&mut self, block: &'a Block) {
        let mut between = "\n";
        if block.term.is_none() {
            self.full_from = TARGET_BYTES;
        }
        self.term = block.term.as_deref().filter(|_| !is_term(block));
        self.columns = block.columns.as_deref();
        self.item = block.item;
        match block.kind {
            // A row is not cut.
            BlockKind::Prose if block.columns.is_some() && block.text.len() <= MAX_SENTENCE_BYTES => {
                self.sentence(between, &block.text);
            }
            BlockKind::Prose => {
                for sentence in sentences(&block.text) {
                    self.sentence(between, sentence);
                    between = " ";
                }
            }
            BlockKind::Listing => {
                for line in block.text.split('\n') {
                    let mut rest = line;
                    loop {
                        let (part, after) = rest.split_at(rest.floor_char_boundary(MAX_SENTENCE_BYTES));
                        self.add(between, part);
                        self.mark_listing();
                        rest = after;
                        if rest.is_empty() {
                            break;
                        }
                    }
                }
                self.last = "";
            }
        }
    }

    /// Adds a sentence, which may be repeated at the start of the next chunk.
    fn sentence(&mut self, between: &str, sentence: &'a str) {
        self.add(between, sentence);
        self.last_item = self.item;
        self.mark_item(self.item);
        // What follows of the paragraph continues the item.
        self.item = self.item.map(|item| ListItem::continued(item.depth));
        self.last = if sentence.len() <= MAX_OVERLAP_BYTES {
            sentence
        } else {
            ""
        };
    }

    fn add(&mut self, between: &str, sentence: &str) {
        let length = self.text.len() + between.len() + sentence.len();
        // A chunk may exceed the target with its last sentence, but never the maximum.
        if self.fresh && (self.text.len() >= self.full_from || length > MAX_BYTES) {
            let (repeated, repeated_item) = (self.last, self.last_item);
            self.close();
            for part in self.term.into_iter().chain(self.columns).chain([repeated]) {
                let with = self.text.len() + part.len() + between.len() + sentence.len() + 1;
                if !part.is_empty() && with <= MAX_BYTES && !self.text.contains(part) {
                    if !self.text.is_empty() {
                        self.push("\n");
                    }
                    self.push(part);
                    if part == repeated {
                        self.mark_item(repeated_item);
                    }
                }
            }
            self.repeated = self.text.len();
        }
        if !self.text.is_empty() {
            self.push(between);
        }
        self.push(sentence);
        self.fresh = true;
    }

    fn push(&mut self, part: &str) {
        self.text.push_str(part);
        self.lines += part.matches('\n').count() as u32;
    }

    /// Records that the last line is one of a listing.
    fn mark_listing(&mut self) {
        let line = self.lines;
        let Some(listings) = &mut self.listings else {
            return;
        };
        match listings.last_mut() {
            Some(open) if open.end == line => open.end = line + 1,
            _ => listings.push(line..line + 1),
        }
    }

    /// Records the place of the last line in a list.
    fn mark_item(&mut self, item: Option<ListItem>) {
        if let (Some(items), Some(item)) = (&mut self.items, item)
            && items.last().is_none_or(|last| last.line != self.lines)
        {
            let line = self.lines;
            items.push(ListLine { line, item });
        }
    }

    fn close(&mut self) {
        let text = std::mem::take(&mut self.text);
        let repeated = std::mem::take(&mut self.repeated);
        let listings = self.listings.as_mut().map(std::mem::take);
        let items = self.items.as_mut().map(std::mem::take);
        self.lines = 0;
        if self.fresh && !text.trim().is_empty() {
            self.pieces.push(Piece {
                heading: self.place.heading.clone(),
                page: self.place.page,
                text,
                repeated: Some(repeated as u32),
                listings,
                items,
            });
        }
        self.fresh = false;
        self.last = "";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParseLimits, parse};

    fn cut(name: &str, text: &str) -> Vec<Piece> {
        chunks(&parse(name, text.as_bytes(), &ParseLimits::default()).unwrap())
    }

    #[test]
    fn lines_of_listings_are_known() {
        let listing = (0..120)
            .map(|n| format!("line {n} of the listing\n"))
            .collect::<String>();
        let text =
            format!("# Birds\n\nOne. Two.\n\n```\na\n\nb\n```\n\nThree.\n\n```\n{listing}```\n\nFour.");
        let pieces = cut("a.md", &text);
        assert!(pieces.len() > 1);
        for piece in &pieces {
            let lines: Vec<&str> = piece.text.split('\n').collect();
            let mut marked = vec![false; lines.len()];
            for listing in piece.listings.as_ref().unwrap() {
                marked[listing.start as usize..listing.end as usize].fill(true);
            }
            for (line, marked) in lines.iter().zip(marked) {
                let is_prose = ["One. Two.", "Three.", "Four."].contains(line);
                assert_eq!(marked, !is_prose, "{line:?} in {:?}", piece.text);
            }
        }
        assert_eq!(pieces[0].listings.as_ref().unwrap()[0], 1..4);
        assert_eq!(
            cut("a.txt", "One.\n\n$ ls\n")[0].listings,
            None,
            "it is not known"
        );
    }

    #[test]
    fn a_pdf_knows_its_listings_if_it_has_any() {
        let block = |kind, text: &str| Block {
            kind,
            ..parse("a.md", text.as_bytes(), &ParseLimits::default())
                .unwrap()
                .blocks[0]
                .clone()
        };
        let listings = |blocks: Vec<Block>| {
            let mut parsed = parse("a.txt", b"a", &ParseLimits::default()).unwrap();
            (parsed.kind, parsed.blocks) = (DocumentKind::Pdf, blocks);
            chunks(&parsed).remove(0).listings
        };
        let prose = || block(BlockKind::Prose, "A robin sings.");
        assert_eq!(listings(vec![prose()]), None);
        let listed = listings(vec![prose(), block(BlockKind::Listing, "ls")]);
        assert_eq!(listed.unwrap(), std::iter::once(1..2).collect::<LineRanges>());
    }

    #[test]
    fn a_chunk_has_one_heading_and_whole_sentences() {
        let section = |name: &str, sentence: &str| format!("# {name}\n\n{}\n\n", sentence.repeat(120));
        let text = section("One", "Red birds sing early. ") + &section("Two", "Blue fish swim late. ");
        let pieces = cut("a.md", &text);
        assert_eq!(pieces.len(), 4, "{pieces:#?}");
        for piece in &pieces {
            let (starts, ends) = match piece.heading.as_deref() {
                Some("One") => ("Red", "early."),
                Some("Two") => ("Blue", "late."),
                other => panic!("{other:?}"),
            };
            assert!(
                piece.text.starts_with(starts) && piece.text.ends_with(ends),
                "{piece:?}"
            );
            assert!(piece.text.len() <= MAX_BYTES);
        }
    }

    /// A definition list with descriptions of so many sentences.
    fn definitions(descriptions: &[usize]) -> String {
        let entry = |(number, count): (usize, &usize)| {
            let text: String = (0..*count)
                .map(|at| format!("Part {at} says what it is for. "))
                .collect();
            format!("<dt>--option-{number}<dd>{text}")
        };
        let entries: String = descriptions.iter().enumerate().map(entry).collect();
        format!("<dl>{entries}</dl>")
    }

    #[test]
    fn a_description_that_is_cut_begins_with_its_term() {
        let pieces = cut("a.html", &definitions(&[150]));
        assert!(pieces.len() > 2);
        assert_eq!(pieces[0].repeated, Some(0));
        for pair in pieces.windows(2) {
            let last = *sentences(&pair[0].text).last().unwrap();
            let start = format!("--option-0\n{last}");
            assert!(pair[1].text.starts_with(&start), "{pair:#?}");
            assert_eq!(pair[1].repeated, Some(start.len() as u32));
        }
    }

    #[test]
    fn rows_that_are_cut_begin_with_the_names_of_their_columns() {
        let rows: String = (0..200)
            .map(|row| format!("| bird {row} | seed {row} |\n"))
            .collect();
        let pieces = cut("a.md", &format!("| Bird | Food |\n|---|---|\n{rows}\nAfter."));
        assert!(pieces.len() > 2);
        for pair in pieces.windows(2) {
            let last = *sentences(&pair[0].text).last().unwrap();
            let last = last.lines().last().unwrap();
            let start = format!("Bird | Food\n{last}");
            assert!(pair[1].text.starts_with(&start), "{pair:#?}");
            assert_eq!(pair[1].repeated, Some(start.len() as u32));
        }
    }

    #[test]
    fn a_row_of_sentences_is_not_cut() {
        let cell = "It sings in the garden. It is quiet at night. ".repeat(5);
        let rows: String = (0..12)
            .map(|row| format!("| Bird {row}. | {cell} | {cell} |\n"))
            .collect();
        let pieces = cut("a.md", &format!("| Bird | Day | Night |\n|---|---|---|\n{rows}"));
        assert!(pieces.len() > 2);
        for piece in &pieces {
            for row in piece.text.lines().skip(1) {
                assert!(
                    row.starts_with("Bird ") && row.matches(" | ").count() == 2,
                    "{row}"
                );
            }
            assert!(piece.text.starts_with("Bird | Day | Night\n"), "{piece:?}");
        }
    }

    #[test]
    fn an_entry_that_fits_is_not_cut_and_one_that_does_not_begins_a_chunk() {
        // About 300, 1,100, 800 and 1,000 bytes.
        let pieces = cut("a.html", &definitions(&[10, 38, 28, 34]));
        let starts: Vec<_> = pieces
            .iter()
            .map(|piece| piece.text.lines().next().unwrap())
            .collect();
        assert_eq!(starts, ["--option-0", "--option-2"], "{pieces:#?}");
        assert_eq!(
            pieces[1].repeated,
            Some(0),
            "nothing of another entry is repeated"
        );
        // The size from which on a chunk is full does not cut an entry.
        let pieces = cut("a.html", &definitions(&[42, 16, 16]));
        let starts: Vec<_> = pieces
            .iter()
            .map(|piece| piece.text.lines().next().unwrap())
            .collect();
        assert_eq!(starts, ["--option-0", "--option-2"]);
        assert!(pieces[0].text.len() > TARGET_BYTES);
    }

    #[test]
    fn the_last_sentence_is_repeated_and_nothing_is_lost() {
        let text: String = (0..100)
            .map(|n| format!("Sentence number {n} is here. "))
            .collect();
        let pieces = cut("a.txt", &text);
        for pair in pieces.windows(2) {
            let last = *sentences(&pair[0].text).last().unwrap();
            assert!(pair[1].text.starts_with(last), "{pair:?}");
            assert_eq!(pair[1].repeated, Some(last.len() as u32));
        }
        for n in 0..100 {
            let sentence = format!("Sentence number {n} is here.");
            assert!(
                pieces.iter().any(|piece| piece.text.contains(&sentence)),
                "{sentence}"
            );
        }
    }

    #[test]
    fn hostile_texts_stay_within_the_maximum() {
        let cases = [
            ("a.txt", "x".repeat(1_000_000)),
            ("a.txt", "word ".repeat(200_000)),
            ("a.txt", "a\n".repeat(100_000)),
            ("a.txt", "a.\n\n".repeat(100_000)),
            ("a.md", format!("```\n{}\n```", "é".repeat(100_000))),
            ("a.md", format!("```\n{}```", "\n\nx".repeat(10_000))),
        ];
        for (name, text) in cases {
            let pieces = cut(name, &text);
            assert!(
                pieces
                    .iter()
                    .all(|piece| piece.text.len() <= MAX_BYTES && !piece.text.trim().is_empty())
            );
            let marks = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
            let kept: usize = pieces.iter().map(|piece| marks(&piece.text)).sum();
            assert!(kept >= marks(&text), "{name}: {kept}");
        }
    }

    #[test]
    fn listings_keep_their_lines() {
        let pieces = cut("a.md", "Before.\n\n```\nfn a() {\n\n    b()\n}\n```\n");
        assert_eq!(pieces[0].text, "Before.\nfn a() {\n\n    b()\n}");
    }
}
