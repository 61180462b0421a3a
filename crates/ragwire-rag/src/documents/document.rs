//! Documents, and the chunks that they are cut into.
//!
//! Plain data with the same form in memory, on disk, and in the answer of a child process. Nothing
//! here reads a file or an index.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::documents::chunk::LineRanges;
use crate::documents::list::ListLine;

/// The format that a document was read as. The content decides; the file name is used only where
/// the content is ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DocumentKind {
    /// CommonMark with tables and footnotes.
    Markdown,
    /// Text without markup.
    Text,
    /// HTML of any version.
    Html,
    /// PDF; its chunks have page numbers.
    Pdf,
    /// A document of Word.
    Docx,
    /// A presentation of PowerPoint; its slides are pages.
    Pptx,
    /// A spreadsheet of Excel.
    Xlsx,
    /// An electronic book.
    Epub,
    /// A text of OpenDocument, such as LibreOffice's.
    Odt,
    /// A presentation of OpenDocument; its slides are pages.
    Odp,
    /// A spreadsheet of OpenDocument.
    Ods,
    /// Rich Text Format.
    Rtf,
    /// A table of separated values.
    Csv,
    /// JSON, or lines of JSON.
    Json,
    /// A Jupyter notebook.
    Notebook,
    /// reStructuredText.
    Rst,
    /// AsciiDoc.
    Asciidoc,
    /// Source code, and files of settings.
    Code,
    /// An image, whose text a program has read.
    Image,
}

impl DocumentKind {
    /// All kinds.
    pub const ALL: [Self; 19] = [
        Self::Markdown,
        Self::Text,
        Self::Html,
        Self::Pdf,
        Self::Docx,
        Self::Pptx,
        Self::Xlsx,
        Self::Epub,
        Self::Odt,
        Self::Odp,
        Self::Ods,
        Self::Rtf,
        Self::Csv,
        Self::Json,
        Self::Notebook,
        Self::Rst,
        Self::Asciidoc,
        Self::Code,
        Self::Image,
    ];

    /// Returns the name on the wire and on disk, in lower case: `markdown`, `docx`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Text => "text",
            Self::Html => "html",
            Self::Pdf => "pdf",
            Self::Docx => "docx",
            Self::Pptx => "pptx",
            Self::Xlsx => "xlsx",
            Self::Epub => "epub",
            Self::Odt => "odt",
            Self::Odp => "odp",
            Self::Ods => "ods",
            Self::Rtf => "rtf",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Notebook => "notebook",
            Self::Rst => "rst",
            Self::Asciidoc => "asciidoc",
            Self::Code => "code",
            Self::Image => "image",
        }
    }
}

/// One document of a library, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Document {
    /// 32 hexadecimal digits derived from the name and the content. Different content under the
    /// same name has another ID, so an old citation never points at changed text.
    pub id: String,
    /// The file's name, unique in a library.
    pub name: String,
    /// The format that it was read as.
    pub kind: DocumentKind,
    /// Its own title, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How many pages it has, if the format has pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
    /// How many passages it was cut into; their ordinals are `0..chunks`.
    pub chunks: u32,
    /// Length of its text in bytes of UTF-8, after cleaning.
    pub text_bytes: u64,
    /// When it was added, in milliseconds since 1970-01-01T00:00:00Z.
    pub added_ms: u64,
}

/// How large a part of a document a chunk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// A section: the passages under one heading.
    #[serde(rename = "L1")]
    Section,
    /// A passage: whole sentences of one section and one page.
    #[default]
    #[serde(rename = "L2")]
    Passage,
    /// A sentence of a passage.
    #[serde(rename = "L3")]
    Sentence,
}

impl Level {
    /// Returns the name on the wire and in stores: `L1`, `L2`, `L3`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Section => "L1",
            Self::Passage => "L2",
            Self::Sentence => "L3",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_passage(&self) -> bool {
        *self == Self::Passage
    }
}

/// A part of a document, in whole sentences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Chunk {
    /// `<document id>-<ordinal>` for a passage; `<document id>-s<ordinal>` for a section; `<passage
    /// id>.<n>` for a sentence.
    pub id: String,
    /// The ID of its document.
    pub document_id: String,
    /// The name of its document.
    pub document_name: String,
    /// The headings above it, outermost first: `Guide > Install`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// The page it begins on, counted from 1, if the document has pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The page it ends on, if that is a different page. Only sections span several pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_page: Option<u32>,
    /// How large a part of the document it is.
    #[serde(default, skip_serializing_if = "Level::is_passage")]
    pub level: Level,
    /// The ID of the chunk one level up that contains it. `None` for a section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its index among the chunks of its level in the document, counted from 0.
    pub ordinal: u32,
    /// Its sentences: separated by one space within a paragraph and by a line feed between
    /// paragraphs.
    pub text: String,
    /// The lines of listings, counted from 0, in order. `None` for sentences, and if the format does not say what a listing
    /// is, as HTML and Markdown do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listings: Option<LineRanges>,
    /// The lines that are in lists, in order. `None` for sentences, and if the format does not say what a list is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ListLine>>,
}

impl Chunk {
    /// Creates a passage without heading and page, for a custom store or retriever.
    pub fn new(document_id: &str, document_name: &str, ordinal: u32, text: &str) -> Self {
        Self {
            id: Self::id_of(document_id, ordinal),
            document_id: document_id.to_owned(),
            document_name: document_name.to_owned(),
            heading: None,
            page: None,
            last_page: None,
            level: Level::Passage,
            parent: None,
            ordinal,
            text: text.to_owned(),
            listings: None,
            items: None,
        }
    }

    /// Returns the pages it covers, in order. Empty if the document has no pages.
    pub fn pages(&self) -> impl Iterator<Item = u32> + use<> {
        let first = self.page;
        let last = self.last_page.or(first);
        first.zip(last).into_iter().flat_map(|(first, last)| first..=last)
    }

    /// Returns the ID of the passage at `ordinal` of a document.
    pub fn id_of(document_id: &str, ordinal: u32) -> String {
        format!("{document_id}-{ordinal}")
    }

    /// Splits the ID of a passage into document ID and ordinal. Returns `None` for any other text.
    pub fn split_id(chunk_id: &str) -> Option<(&str, u32)> {
        match ChunkId::parse(chunk_id)? {
            ChunkId::Passage { document_id, ordinal } => Some((document_id, ordinal)),
            ChunkId::Section { .. } | ChunkId::Sentence { .. } => None,
        }
    }

    /// Returns the text that lexical search indexes: the headings, then the chunk's own text. A
    /// question often names the section and not the words in it.
    pub fn indexed_text(&self) -> String {
        crate::search::lexical::indexed_text(self.heading.as_deref(), &self.text).into_owned()
    }
}

/// The parts of a chunk's ID. Its [`Display`](fmt::Display) is the ID; each ID has one spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChunkId<'a> {
    /// `<document id>-s<ordinal>`
    Section {
        /// The ID of the document.
        document_id: &'a str,
        /// The index among the document's sections.
        ordinal: u32,
    },
    /// `<document id>-<ordinal>`
    Passage {
        /// The ID of the document.
        document_id: &'a str,
        /// The index among the document's passages.
        ordinal: u32,
    },
    /// `<document id>-<passage>.<place>`
    Sentence {
        /// The ID of the document.
        document_id: &'a str,
        /// The ordinal of the passage that contains it.
        passage: u32,
        /// The index within the passage, counted from 0.
        place: u32,
    },
}

impl<'a> ChunkId<'a> {
    /// Parses an ID. Returns `None` if the text is not a chunk ID.
    pub fn parse(chunk_id: &'a str) -> Option<Self> {
        let (document_id, rest) = chunk_id.rsplit_once('-')?;
        let id = if let Some(section) = rest.strip_prefix('s') {
            let ordinal = section.parse().ok()?;
            Self::Section { document_id, ordinal }
        } else if let Some((passage, place)) = rest.split_once('.') {
            Self::Sentence {
                document_id,
                passage: passage.parse().ok()?,
                place: place.parse().ok()?,
            }
        } else {
            let ordinal = rest.parse().ok()?;
            Self::Passage { document_id, ordinal }
        };
        // `+3` and `03` parse as numbers but never occur in our IDs: each ID has one spelling.
        (id.to_string() == chunk_id).then_some(id)
    }

    /// Returns the ID of the document.
    pub fn document_id(self) -> &'a str {
        match self {
            Self::Section { document_id, .. }
            | Self::Passage { document_id, .. }
            | Self::Sentence { document_id, .. } => document_id,
        }
    }

    /// Returns the level of the chunk.
    pub fn level(self) -> Level {
        match self {
            Self::Section { .. } => Level::Section,
            Self::Passage { .. } => Level::Passage,
            Self::Sentence { .. } => Level::Sentence,
        }
    }
}

impl fmt::Display for ChunkId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Section { document_id, ordinal } => write!(f, "{document_id}-s{ordinal}"),
            Self::Passage { document_id, ordinal } => write!(f, "{document_id}-{ordinal}"),
            Self::Sentence {
                document_id,
                passage,
                place,
            } => write!(f, "{document_id}-{passage}.{place}"),
        }
    }
}

/// A chunk that matches a query.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// The chunk.
    pub chunk: Chunk,
    /// How well it matches: higher is better. Comparable only within one search.
    pub score: f32,
}

impl Hit {
    /// Creates a hit, for a custom store or retriever.
    pub fn new(chunk: Chunk, score: f32) -> Self {
        Self { chunk, score }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_ids_have_one_spelling() {
        assert_eq!(Chunk::split_id(&Chunk::id_of("ab12", 7)), Some(("ab12", 7)));
        let (ab12, max) = ("ab12", u32::MAX);
        let good = [
            (
                "ab12-0",
                ChunkId::Passage {
                    document_id: ab12,
                    ordinal: 0,
                },
            ),
            (
                "ab12-s4294967295",
                ChunkId::Section {
                    document_id: ab12,
                    ordinal: max,
                },
            ),
            (
                "ab12-4294967295.10",
                ChunkId::Sentence {
                    document_id: ab12,
                    passage: max,
                    place: 10,
                },
            ),
            (
                "of-their-own-s3-7",
                ChunkId::Passage {
                    document_id: "of-their-own-s3",
                    ordinal: 7,
                },
            ),
        ];
        for (text, id) in good {
            assert_eq!(ChunkId::parse(text), Some(id), "{text}");
            assert_eq!(id.to_string(), text);
            let passage = id.level() == Level::Passage;
            assert_eq!(Chunk::split_id(text).is_some(), passage, "{text}");
        }
        let bad = [
            "",
            "-",
            "ab12",
            "ab12-",
            "ab12-+7",
            "ab12-07",
            "ab12-4294967296",
            "ab12-s",
            "ab12-s+7",
            "ab12-s07",
            "ab12-S7",
            "ab12-7.",
            "ab12-.7",
            "ab12-7.+1",
            "ab12-7.01",
            "ab12-7.1.1",
            "ab12-s7.1",
            "ab12-7.4294967296",
            "ab12-7 ",
        ];
        for bad in bad {
            assert_eq!(ChunkId::parse(bad), None, "{bad}");
            assert_eq!(Chunk::split_id(bad), None, "{bad}");
        }
    }
}
