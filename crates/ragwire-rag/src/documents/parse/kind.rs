//! Detects the format of a file: from its first bytes if they identify it, else from its name, else
//! as text if it decodes as text.

use super::{DocumentKind, ParseError, ParseLimits, package, text};

/// How far into a file the PDF header may begin, in bytes. PDF readers have always allowed junk
/// before it.
const PDF_HEADER_WITHIN_BYTES: usize = 1024;

/// How far into a text its markup is looked for, in bytes.
const MARKUP_WITHIN_BYTES: usize = 64 * 1024;

/// Extensions of files that are documents, or code, with the kind that they are read as unless their
/// content says otherwise. A folder is searched for these.
pub const EXTENSIONS: [(&str, DocumentKind); 81] = [
    ("md", DocumentKind::Markdown),
    ("markdown", DocumentKind::Markdown),
    ("mdown", DocumentKind::Markdown),
    ("mkd", DocumentKind::Markdown),
    ("mdx", DocumentKind::Markdown),
    ("txt", DocumentKind::Text),
    ("text", DocumentKind::Text),
    ("rst", DocumentKind::Rst),
    ("rest", DocumentKind::Rst),
    ("adoc", DocumentKind::Asciidoc),
    ("asciidoc", DocumentKind::Asciidoc),
    ("asc", DocumentKind::Asciidoc),
    ("html", DocumentKind::Html),
    ("htm", DocumentKind::Html),
    ("xhtml", DocumentKind::Html),
    ("pdf", DocumentKind::Pdf),
    ("docx", DocumentKind::Docx),
    ("docm", DocumentKind::Docx),
    ("pptx", DocumentKind::Pptx),
    ("pptm", DocumentKind::Pptx),
    ("xlsx", DocumentKind::Xlsx),
    ("xlsm", DocumentKind::Xlsx),
    ("epub", DocumentKind::Epub),
    ("odt", DocumentKind::Odt),
    ("odp", DocumentKind::Odp),
    ("ods", DocumentKind::Ods),
    ("rtf", DocumentKind::Rtf),
    ("csv", DocumentKind::Csv),
    ("tsv", DocumentKind::Csv),
    ("json", DocumentKind::Json),
    ("jsonl", DocumentKind::Json),
    ("ndjson", DocumentKind::Json),
    ("ipynb", DocumentKind::Notebook),
    ("bash", DocumentKind::Code),
    ("bat", DocumentKind::Code),
    ("c", DocumentKind::Code),
    ("cc", DocumentKind::Code),
    ("cfg", DocumentKind::Code),
    ("clj", DocumentKind::Code),
    ("cmake", DocumentKind::Code),
    ("conf", DocumentKind::Code),
    ("cpp", DocumentKind::Code),
    ("cs", DocumentKind::Code),
    ("css", DocumentKind::Code),
    ("dart", DocumentKind::Code),
    ("erl", DocumentKind::Code),
    ("ex", DocumentKind::Code),
    ("exs", DocumentKind::Code),
    ("go", DocumentKind::Code),
    ("gradle", DocumentKind::Code),
    ("graphql", DocumentKind::Code),
    ("h", DocumentKind::Code),
    ("hpp", DocumentKind::Code),
    ("hs", DocumentKind::Code),
    ("ini", DocumentKind::Code),
    ("java", DocumentKind::Code),
    ("jl", DocumentKind::Code),
    ("js", DocumentKind::Code),
    ("jsx", DocumentKind::Code),
    ("kt", DocumentKind::Code),
    ("lua", DocumentKind::Code),
    ("mjs", DocumentKind::Code),
    ("php", DocumentKind::Code),
    ("pl", DocumentKind::Code),
    ("properties", DocumentKind::Code),
    ("proto", DocumentKind::Code),
    ("ps1", DocumentKind::Code),
    ("py", DocumentKind::Code),
    ("r", DocumentKind::Code),
    ("rb", DocumentKind::Code),
    ("rs", DocumentKind::Code),
    ("scala", DocumentKind::Code),
    ("sh", DocumentKind::Code),
    ("sql", DocumentKind::Code),
    ("swift", DocumentKind::Code),
    ("tf", DocumentKind::Code),
    ("toml", DocumentKind::Code),
    ("ts", DocumentKind::Code),
    ("tsx", DocumentKind::Code),
    ("yaml", DocumentKind::Code),
    ("yml", DocumentKind::Code),
];
/// Files of code that have no extension.
const CODE_FILES: [&str; 4] = ["makefile", "dockerfile", "rakefile", "justfile"];

pub(super) fn detect(name: &str, bytes: &[u8], limits: &ParseLimits) -> Result<DocumentKind, ParseError> {
    let head = &bytes[..bytes.len().min(PDF_HEADER_WITHIN_BYTES)];
    if bytes.starts_with(b"PK\x03\x04") {
        return package::detect(bytes, limits);
    }
    if bytes.starts_with(b"{\\rtf") {
        return Ok(DocumentKind::Rtf);
    }
    if head.windows(5).any(|window| window == b"%PDF-") {
        return Ok(DocumentKind::Pdf);
    }
    if text::looks_binary(bytes) {
        return Err(ParseError::UnsupportedType);
    }
    if opens_as_html(head) {
        return Ok(DocumentKind::Html);
    }
    match by_name(name) {
        Some(DocumentKind::Pdf) => Err(ParseError::BadPdf {
            reason: "the header is missing".to_owned(),
        }),
        Some(
            DocumentKind::Docx
            | DocumentKind::Pptx
            | DocumentKind::Xlsx
            | DocumentKind::Epub
            | DocumentKind::Odt
            | DocumentKind::Odp
            | DocumentKind::Ods,
        ) => {
            // An empty file has its own error, and text under a wrong name is read as text.
            Ok(DocumentKind::Text)
        }
        Some(DocumentKind::Rtf | DocumentKind::Text) | None => Ok(of_text(bytes)),
        Some(kind) => Ok(kind),
    }
}

/// Returns the markup of a text: Django's manual is reStructuredText in `.txt`, an `llms.txt` is Markdown.
fn of_text(bytes: &[u8]) -> DocumentKind {
    let bytes = &bytes[..bytes.len().min(MARKUP_WITHIN_BYTES)];
    // A letter may be cut at the end.
    let whole = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    let text = std::str::from_utf8(&bytes[..whole]).unwrap_or_default();
    let is_directive = |line: &str| {
        let rest = line.strip_prefix(".. ").unwrap_or_default();
        let name = rest.split_once("::").map_or("", |(name, _)| name);
        let is_target = rest.starts_with('_') && rest.ends_with(':');
        is_target || name.starts_with(char::is_alphabetic) && !name.contains(char::is_whitespace)
    };
    if text.lines().any(|line| is_directive(line.trim_end())) {
        return DocumentKind::Rst;
    }
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let has_title = lines.next().is_some_and(|line| line.starts_with("# "));
    if has_title && text.contains("](") {
        return DocumentKind::Markdown;
    }
    DocumentKind::Text
}

/// Returns whether the name is that of Markdown with components.
pub(super) fn is_mdx(name: &str) -> bool {
    extension(name).as_deref() == Some("mdx")
}

fn by_name(name: &str) -> Option<DocumentKind> {
    let file = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    if CODE_FILES.contains(&file.as_str()) {
        return Some(DocumentKind::Code);
    }
    let extension = extension(name)?;
    let known = EXTENSIONS.iter().find(|(known, _)| *known == extension);
    known.map(|(_, kind)| *kind)
}

fn extension(name: &str) -> Option<String> {
    name.rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extension_is_listed_once() {
        let names: std::collections::BTreeSet<_> = EXTENSIONS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), EXTENSIONS.len());
    }
}
