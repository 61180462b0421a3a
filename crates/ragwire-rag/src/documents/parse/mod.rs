//! Bytes of a file to blocks of clean text, each with the headings above it and its page.
//!
//! A pure function of the name and the bytes: no file is opened, nothing is fetched. It is safe against any input in the
//! sense that it returns; it is not bounded in time and memory for a hostile PDF (see [`pdf`]), so a server calls it in a
//! process of its own.
//!
//! ```
//! # fn main() -> Result<(), ragwire_rag::ParseError> {
//! let parsed = ragwire_rag::parse("guide.md", b"# Guide\n\nPlain words.", &Default::default())?;
//! assert_eq!(parsed.blocks[0].heading.as_deref(), Some("Guide"));
//! assert_eq!(parsed.blocks[0].text, "Plain words.");
//! # Ok(())
//! # }
//! ```

mod blocks;
mod html;
mod kind;
mod markdown;
pub(crate) mod pdf;
mod pdf_layout;
mod text;

use serde::{Deserialize, Serialize};

use crate::DocumentKind;

/// What was read from one file. It can be sent between processes as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Parsed {
    /// What the file was read as.
    pub kind: DocumentKind,
    /// Its own title: HTML `<title>`, or the only heading of the first level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How many pages it has, where the kind has pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
    /// Pages whose text could not be read; the others were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_pages: Vec<u32>,
    /// The text, in reading order. Never empty, and no block is.
    pub blocks: Vec<Block>,
}

/// A paragraph, a list item, a table row or a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Block {
    /// The headings above it, outermost first: `Guide > Install`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// The page it begins on, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// How its text is to be cut.
    pub kind: BlockKind,
    /// Clean text: no control characters but, in a listing, line feed and tab.
    pub text: String,
}

/// How the text of a block is to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlockKind {
    /// Sentences on one line.
    Prose,
    /// Lines as they stand: a listing.
    Listing,
}

/// What a file may cost. Every limit is checked while reading, not after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParseLimits {
    /// Length of the file in bytes.
    pub max_file_bytes: usize,
    /// Pages of a PDF.
    pub max_pages: u32,
    /// Length of all text taken out of the file, in bytes of UTF-8.
    pub max_text_bytes: usize,
    /// Blocks of text.
    pub max_blocks: usize,
    /// HTML elements open inside each other: the parser's time grows with their square.
    pub max_html_depth: usize,
    /// Nodes of an HTML page: elements and texts. They cost about 200 bytes each while the page is read.
    pub max_html_nodes: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self {
            // A book with pictures; the text in it is far smaller.
            max_file_bytes: 32 * 1024 * 1024,
            max_pages: 5_000,
            // About three times the Bible: more than that in one file is data, not a document.
            max_text_bytes: 16 * 1024 * 1024,
            max_blocks: 500_000,
            // Chrome stops at 512.
            max_html_depth: 512,
            // The HTML standard on one page has about half as many.
            max_html_nodes: 1_000_000,
        }
    }
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Neither Markdown, text, HTML nor PDF.
    #[error("the file is neither markdown, text, html nor pdf")]
    UnsupportedType,
    /// The file is longer than [`ParseLimits::max_file_bytes`].
    #[error("the file has {bytes} bytes, more than the limit of {limit}")]
    FileTooLarge {
        /// Length of the file in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// It was read, and there is no text in it: an empty file, or a PDF of pictures.
    #[error("the file holds no text")]
    EmptyDocument,
    /// A PDF that asks for a password.
    #[error("the pdf is encrypted")]
    Encrypted,
    /// A PDF that could not be read.
    #[error("the pdf could not be read: {reason}")]
    BadPdf {
        /// What the reader said; for the log, not for strangers.
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
    #[error("the file holds more than {limit} bytes of text")]
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
    /// Elements nested deeper than [`ParseLimits::max_html_depth`].
    #[error("the file nests more than {limit} elements")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
}

impl ParseError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnsupportedType => "unsupported_type",
            Self::FileTooLarge { .. } => "file_too_large",
            Self::EmptyDocument => "empty_document",
            Self::Encrypted => "encrypted",
            Self::BadPdf { .. } => "bad_pdf",
            Self::TooManyPages { .. } => "too_many_pages",
            Self::TooMuchText { .. } => "too_much_text",
            Self::TooManyBlocks { .. } => "too_many_blocks",
            Self::TooManyNodes { .. } => "too_many_nodes",
            Self::TooDeep { .. } => "too_deep",
        }
    }
}

/// Reads a file. The name is used for its extension only, and the content overrules it: a PDF called `notes.txt` is a PDF.
///
/// # Errors
/// The first limit that was passed, a kind that is not read, or a file without text.
pub fn parse(name: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, ParseError> {
    if bytes.len() > limits.max_file_bytes {
        return Err(ParseError::FileTooLarge {
            bytes: bytes.len(),
            limit: limits.max_file_bytes,
        });
    }
    let parsed = match kind::detect(name, bytes)? {
        DocumentKind::Pdf => pdf::parse(bytes, limits)?,
        DocumentKind::Html => html::parse(&text::decode_html(bytes)?, limits)?,
        DocumentKind::Markdown => markdown::parse(&text::decode(bytes)?, limits)?,
        DocumentKind::Text => text::parse(&text::decode(bytes)?, limits)?,
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
    fn names_and_contents_agree_on_a_kind_or_the_content_wins() {
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
            ("a.docx", b"PK\x03\x04\x14\0\x06\0", Err("unsupported_type")),
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
