//! Detects the format of a file: from its first bytes if they identify it, else from its name, else
//! as text if it decodes as text.

use super::{DocumentKind, ParseError, text};

/// How far into a file the PDF header may begin, in bytes. PDF readers have always allowed junk
/// before it.
const PDF_HEADER_WITHIN_BYTES: usize = 1024;

pub(super) fn detect(name: &str, bytes: &[u8]) -> Result<DocumentKind, ParseError> {
    let head = &bytes[..bytes.len().min(PDF_HEADER_WITHIN_BYTES)];
    if head.windows(5).any(|window| window == b"%PDF-") {
        return Ok(DocumentKind::Pdf);
    }
    if text::looks_binary(bytes) {
        return Err(ParseError::UnsupportedType);
    }
    if opens_as_html(head) {
        return Ok(DocumentKind::Html);
    }
    let extension = name
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref() {
        Some("md" | "markdown" | "mdown" | "mkd") => Ok(DocumentKind::Markdown),
        Some("html" | "htm" | "xhtml") => Ok(DocumentKind::Html),
        Some("pdf") => Err(ParseError::BadPdf {
            reason: "the header is missing".to_owned(),
        }),
        _ => Ok(DocumentKind::Text),
    }
}

fn opens_as_html(head: &[u8]) -> bool {
    let head = head
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start();
    ["<!doctype html", "<html"].iter().any(|opening| {
        head.get(..opening.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(opening.as_bytes()))
    })
}
