//! Turns the bytes of a file into blocks of clean text, each with the headings above it and its
//! page.
//!
//! Parsing is a pure function of the name and the bytes: it opens no file and fetches nothing. It
//! returns for any input, but time and memory are not bounded for a hostile PDF (see [`pdf`]), so a
//! server runs it in a separate process.

mod adoc;
mod attributes;
mod blocks;
mod code;
mod csv;
mod front_matter;
mod html;
mod hyphens;
mod json;
mod kind;
mod labels;
mod lines;
mod markdown;
mod package;

pub(crate) use code::defined_name;
pub(crate) mod pdf;
mod plain;
mod rst;
mod rtf;
mod text;

use serde::{Deserialize, Serialize};

use crate::DocumentKind;
use crate::documents::list::ListItem;

use blocks::Blocks;

pub use front_matter::FrontMatter;
pub use kind::EXTENSIONS;

/// Changes whenever [`parse`] gives other blocks for the same file than before. Who remembers what a
/// file became has to read it again then.
pub const PARSER_VERSION: u32 = 14;

/// The content of one file. Serializes to JSON, so that it can be sent between processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Parsed {
    /// The format that the file was read as.
    pub kind: DocumentKind,
    /// Its own title: the HTML `<title>`, or the only first-level heading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How many pages it has, if the format has pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
    /// Pages whose text could not be read. The text of the other pages is in `blocks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_pages: Vec<u32>,
    /// What the document says about itself before its text.
    #[serde(default, skip_serializing_if = "FrontMatter::is_empty")]
    pub front_matter: FrontMatter,
    /// The text in reading order. Never empty, and no block is empty.
    pub blocks: Vec<Block>,
}

impl Parsed {
    /// A document without pages. Without its own title it has that of its only first-level heading.
    fn new(kind: DocumentKind, title: Option<String>, blocks: Blocks) -> Self {
        let (heading, blocks) = blocks.finish();
        Self {
            kind,
            title: title.or(heading),
            pages: None,
            unread_pages: Vec::new(),
            front_matter: FrontMatter::default(),
            blocks,
        }
    }
}

/// A paragraph, a list item, a table row or a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Block {
    /// The headings above it, outermost first: `Guide > Install`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// The page it begins on, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The term of a definition list that it is or describes, such as the name of an option. At most 160 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// The row with the names of the columns, if it is a later row of a table. At most 240 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// Its place in a list, if it is in one and the format says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ListItem>,
    /// How its text is cut into chunks.
    pub kind: BlockKind,
    /// Clean text without control characters, except line feed and tab in a listing.
    pub text: String,
}

/// How the text of a block is cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlockKind {
    /// Sentences on one line, cut between sentences.
    Prose,
    /// A listing, whose lines are kept as they are.
    Listing,
}

/// Limits on what one file may cost. Every limit is checked while reading, not afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParseLimits {
    /// The longest file in bytes. Default: 32 MiB.
    pub max_file_bytes: usize,
    /// The most pages of a PDF. Default: 5,000.
    pub max_pages: u32,
    /// The most text taken from the file, in bytes of UTF-8. Default: 16 MiB.
    pub max_text_bytes: usize,
    /// The most blocks of text. Default: 500,000.
    pub max_blocks: usize,
    /// The deepest nesting of HTML elements; parsing time grows with its square. Default: 512.
    pub max_html_depth: usize,
    /// The most nodes (elements and texts) of an HTML page; each takes about 200 bytes while the
    /// page is read. Default: 1,000,000.
    pub max_html_nodes: usize,
    /// The most nodes (tags and texts) of an XML part of a document; none of them is kept. Default:
    /// 20,000,000.
    pub max_xml_nodes: usize,
    /// The most bytes that all parts of a zipped document may have. Default: 256 MiB.
    pub max_inflated_bytes: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self {
            // Enough for a book with pictures, whose text is far smaller.
            max_file_bytes: 32 * 1024 * 1024,
            max_pages: 5_000,
            // About three times the Bible. More text in one file is data, not a document.
            max_text_bytes: 16 * 1024 * 1024,
            max_blocks: 500_000,
            // The limit in Chrome.
            max_html_depth: 512,
            // The HTML standard on one page has about half as many.
            max_html_nodes: 1_000_000,
            // A spreadsheet has five for each cell; these take some 2 s.
            max_xml_nodes: 20_000_000,
            // The XML of the largest text, eight times the text itself.
            max_inflated_bytes: 256 * 1024 * 1024,
        }
    }
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// No format of a document.
    #[error(
        "the file is not a document that can be read: text, Markdown, HTML, PDF, Office, EPUB, RTF and others can"
    )]
    UnsupportedType,
    /// The file is longer than [`ParseLimits::max_file_bytes`].
    #[error("the file has {bytes} bytes, more than the limit of {limit}")]
    FileTooLarge {
        /// Length of the file in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The file contains no text: it is empty, or a PDF of pictures.
    #[error("the file contains no text")]
    EmptyDocument,
    /// The file requires a password.
    #[error("the file is encrypted and needs a password")]
    Encrypted,
    /// The file does not have the form of its format.
    #[error("the {what} is damaged: {reason}")]
    Damaged {
        /// What is damaged.
        what: &'static str,
        /// The problem, for logs and not for end users.
        reason: String,
    },
    /// The parts of a zipped document are larger than [`ParseLimits::max_inflated_bytes`].
    #[error("the file contains more than {limit} bytes of compressed data")]
    TooMuchInside {
        /// The limit in bytes.
        limit: usize,
    },
    /// The PDF could not be read.
    #[error("the PDF could not be read: {reason}")]
    BadPdf {
        /// The message of the PDF reader, for logs. It is not meant for end users.
        reason: String,
    },
    /// More pages than [`ParseLimits::max_pages`].
    #[error("the file has {pages} pages, more than the limit of {limit}")]
    TooManyPages {
        /// Pages of the file.
        pages: usize,
        /// The limit.
        limit: u32,
    },
    /// More text than [`ParseLimits::max_text_bytes`].
    #[error("the file contains more than {limit} bytes of text")]
    TooMuchText {
        /// The limit in bytes.
        limit: usize,
    },
    /// More blocks than [`ParseLimits::max_blocks`].
    #[error("the file has more than {limit} paragraphs")]
    TooManyBlocks {
        /// The limit.
        limit: usize,
    },
    /// More nodes than [`ParseLimits::max_html_nodes`].
    #[error("the page has more than {limit} elements and texts")]
    TooManyNodes {
        /// The limit.
        limit: usize,
    },
    /// A tag with more attributes than any page needs.
    #[error("a tag of the page has more than {limit} attributes")]
    TooManyAttributes {
        /// The limit.
        limit: usize,
    },
    /// Elements nested deeper than [`ParseLimits::max_html_depth`].
    #[error("the file nests elements more than {limit} deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
}

/// What kind of reason a [`ParseError`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// The format is not read.
    Unsupported,
    /// The file or what is in it exceeds a limit of size or number.
    TooLarge,
    /// The file is empty, encrypted, damaged, or nests elements too deep.
    Unreadable,
}

impl ParseError {
    fn damaged(what: &'static str, reason: &(impl ToString + ?Sized)) -> Self {
        let reason = reason.to_string();
        Self::Damaged { what, reason }
    }

    /// Returns the kind of reason, for decisions on it.
    pub fn kind(&self) -> ParseErrorKind {
        match self {
            Self::UnsupportedType => ParseErrorKind::Unsupported,
            Self::FileTooLarge { .. }
            | Self::TooMuchInside { .. }
            | Self::TooManyPages { .. }
            | Self::TooMuchText { .. }
            | Self::TooManyBlocks { .. } => ParseErrorKind::TooLarge,
            Self::EmptyDocument
            | Self::Encrypted
            | Self::BadPdf { .. }
            | Self::Damaged { .. }
            | Self::TooManyNodes { .. }
            | Self::TooManyAttributes { .. }
            | Self::TooDeep { .. } => ParseErrorKind::Unreadable,
        }
    }

    /// Returns a stable code for programs, such as `bad_pdf`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnsupportedType => "unsupported_type",
            Self::FileTooLarge { .. } => "file_too_large",
            Self::EmptyDocument => "empty_document",
            Self::Encrypted => "encrypted",
            Self::BadPdf { .. } => "bad_pdf",
            Self::Damaged { .. } => "damaged",
            Self::TooMuchInside { .. } => "too_much_inside",
            Self::TooManyPages { .. } => "too_many_pages",
            Self::TooMuchText { .. } => "too_much_text",
            Self::TooManyBlocks { .. } => "too_many_blocks",
            Self::TooManyNodes { .. } => "too_many_nodes",
            Self::TooManyAttributes { .. } => "too_many_attributes",
            Self::TooDeep { .. } => "too_deep",
        }
    }
}

/// Reads a file into blocks of text. Only the extension of `name` is used, and the content
/// overrides it: a PDF called `notes.txt` is read as a PDF.
///
/// ```
/// # fn main() -> Result<(), ragwire_rag::ParseError> {
/// let parsed = ragwire_rag::parse("guide.md", b"# Guide\n\nPlain words.", &Default::default())?;
/// assert_eq!(parsed.blocks[0].heading.as_deref(), Some("Guide"));
/// assert_eq!(parsed.blocks[0].text, "Plain words.");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Returns the first limit that was exceeded, `unsupported_type` for a format that is not read, or
/// `empty_document` for a file without text.
pub fn parse(name: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, ParseError> {
    if bytes.len() > limits.max_file_bytes {
        return Err(ParseError::FileTooLarge {
            bytes: bytes.len(),
            limit: limits.max_file_bytes,
        });
    }
    let parsed = match kind::detect(name, bytes, limits)? {
        DocumentKind::Pdf => pdf::parse(bytes, limits)?,
        DocumentKind::Html => html::parse(&text::decode_html(bytes)?, limits)?,
        DocumentKind::Markdown if kind::is_mdx(name) => markdown::parse_mdx(&text::decode(bytes)?, limits)?,
        DocumentKind::Markdown => markdown::parse(&text::decode(bytes)?, limits)?,
        DocumentKind::Text => plain::parse(&text::decode(bytes)?, limits)?,
        DocumentKind::Rst => rst::parse(&text::decode(bytes)?, limits)?,
        DocumentKind::Asciidoc => adoc::parse(&text::decode(bytes)?, limits)?,
        DocumentKind::Csv => csv::parse(&text::decode(bytes)?, limits)?,
        DocumentKind::Json => json::parse(&text::decode(bytes)?, limits)?,
        DocumentKind::Notebook => json::parse_notebook(&text::decode(bytes)?, limits)?,
        DocumentKind::Code => code::parse(&text::decode(bytes)?, limits)?,
        DocumentKind::Rtf => rtf::parse(bytes, limits)?,
        kind @ (DocumentKind::Docx
        | DocumentKind::Pptx
        | DocumentKind::Xlsx
        | DocumentKind::Epub
        | DocumentKind::Odt
        | DocumentKind::Odp
        | DocumentKind::Ods) => package::parse(kind, bytes, limits)?,
        // Has no text without OCR, and is never detected.
        DocumentKind::Image => return Err(ParseError::UnsupportedType),
    };
    if parsed.blocks.is_empty() {
        return Err(ParseError::EmptyDocument);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_overrides_the_name() {
        let html = b"<!DOCTYPE html><p>Hi there.</p>".as_slice();
        let cases: &[(&str, &[u8], Result<DocumentKind, &str>)] = &[
            ("a.md", b"# T\n\nHi.", Ok(DocumentKind::Markdown)),
            ("A.MARKDOWN", b"Hi.", Ok(DocumentKind::Markdown)),
            ("a.txt", b"Hi.", Ok(DocumentKind::Text)),
            ("a", b"Hi.", Ok(DocumentKind::Text)),
            ("a.html", html, Ok(DocumentKind::Html)),
            ("a.txt", html, Ok(DocumentKind::Html)),
            ("a.pdf", html, Ok(DocumentKind::Html)),
            ("a.pdf", b"Hi.", Err("bad_pdf")),
            ("a.txt", b"%PDF-1.7\nnothing", Err("bad_pdf")),
            ("a.docx", b"PK\x03\x04\x14\0\x06\0", Err("damaged")),
            ("a.rst", b"Hi.", Ok(DocumentKind::Rst)),
            ("a.adoc", b"Hi.", Ok(DocumentKind::Asciidoc)),
            ("a.tsv", b"a\tb\n", Ok(DocumentKind::Csv)),
            ("a.jsonl", b"{\"a\": 1}", Ok(DocumentKind::Json)),
            (
                "a.ipynb",
                b"{\"cells\": [{\"source\": \"x\"}]}",
                Ok(DocumentKind::Notebook),
            ),
            ("a.py", b"x = 1", Ok(DocumentKind::Code)),
            ("Makefile", b"all: x", Ok(DocumentKind::Code)),
            ("a.mdx", b"Hi.", Ok(DocumentKind::Markdown)),
            ("a.txt", b"{\\rtf1 Hi.}", Ok(DocumentKind::Rtf)),
            (
                "a.txt",
                b"=====\nTitle\n=====\n\n.. note::\n\n   Hi.",
                Ok(DocumentKind::Rst),
            ),
            (
                "a.txt",
                b".. _title:\n\nTitle\n=====\n\nHi.",
                Ok(DocumentKind::Rst),
            ),
            (
                "a.txt",
                b".. Hi. So it is: that\n.. std :: no",
                Ok(DocumentKind::Text),
            ),
            (
                "llms.txt",
                b"# Title\n\n- [One](one.md): first",
                Ok(DocumentKind::Markdown),
            ),
            ("README", b"# Title\n\n[One](one.md)", Ok(DocumentKind::Markdown)),
            ("a.txt", b"# a comment\nHi.", Ok(DocumentKind::Text)),
            (
                "a.txt",
                b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0",
                Err("unsupported_type"),
            ),
            ("a.txt", b"", Err("empty_document")),
            ("a.md", b" \n\n\t\n", Err("empty_document")),
            ("a.html", b"<script>alert(1)</script>", Err("empty_document")),
        ];
        for (name, bytes, wanted) in cases {
            let got = parse(name, bytes, &ParseLimits::default());
            let got = got.as_ref().map(|parsed| parsed.kind).map_err(ParseError::code);
            assert_eq!(got, *wanted, "{name} {:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn every_limit_has_its_code() {
        let small = ParseLimits {
            max_file_bytes: 40,
            max_text_bytes: 10,
            max_blocks: 2,
            ..ParseLimits::default()
        };
        let cases: &[(&str, &[u8], &str)] = &[
            ("a.txt", &[b'a'; 41], "file_too_large"),
            ("a.txt", b"eleven bytes", "too_much_text"),
            ("a.md", b"- a\n- b\n- c\n", "too_many_blocks"),
            ("a.html", b"<p>a<p>b<p>c", "too_many_blocks"),
        ];
        for (name, bytes, code) in cases {
            let error = parse(name, bytes, &small).unwrap_err();
            assert_eq!(error.code(), *code, "{name}: {error}");
            let text = error.to_string();
            assert!(
                !text.ends_with('.') && text.starts_with(char::is_lowercase),
                "{text}"
            );
        }
    }

    #[test]
    fn nothing_parsed_holds_a_frame_separator() {
        let cases: &[(&str, &[u8])] = &[
            ("a.txt", b"One\x1d two\x1e \0three\x07."),
            ("a.md", b"# One\x1d\n\ntwo\x1e `x\x1d`\n\n```\ncode\x1e\n```\n"),
            (
                "a.html",
                b"<h1>One\x1d</h1><p>two&#x1e; &#29;</p><pre>x\x1ey</pre>",
            ),
        ];
        for (name, bytes) in cases {
            let parsed = parse(name, bytes, &ParseLimits::default()).unwrap();
            for block in &parsed.blocks {
                let all = format!("{}{}", block.text, block.heading.as_deref().unwrap_or_default());
                assert!(
                    !all.contains(|c: char| c.is_control() && c != '\n' && c != '\t'),
                    "{name}: {all:?}"
                );
            }
        }
    }

    #[test]
    fn parsed_survives_json() {
        let parsed = parse("a.md", b"# T\n\nHi.\n\n```\nx\n```\n", &ParseLimits::default()).unwrap();
        let json = serde_json::to_string(&parsed).unwrap();
        assert_eq!(serde_json::from_str::<Parsed>(&json).unwrap(), parsed);
    }
}
