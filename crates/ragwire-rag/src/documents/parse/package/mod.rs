//! Formats that are a zip file of XML parts: those of Office Open XML, OpenDocument, and EPUB.
//!
//! A part is read whole, and all of them together within [`ParseLimits::max_inflated_bytes`], so that
//! a file cannot grow without limit. Names in a file never become paths of this machine.

mod docx;
mod epub;
mod numbering;
mod odf;
mod paragraphs;
mod pptx;
mod xlsx;
mod xml;

use std::collections::HashMap;
use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use super::{DocumentKind, ParseError, ParseLimits, Parsed, text};
use xml::Xml;

/// How long a chain of references may be, such as styles that are based on other ones.
const MAX_CHAIN: usize = 16;
/// The part that relates the package to its main part.
const ROOT_RELATIONS: &str = "_rels/.rels";

/// Reads a file of a kind that [`detect`] returned.
pub(super) fn parse(kind: DocumentKind, bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut archive = Archive::open(bytes, limits)?;
    match kind {
        DocumentKind::Docx => docx::parse(&mut archive),
        DocumentKind::Pptx => pptx::parse(&mut archive),
        DocumentKind::Xlsx => xlsx::parse(&mut archive),
        DocumentKind::Epub => epub::parse(&mut archive),
        DocumentKind::Odt => odf::parse(odf::Form::Text, &mut archive),
        DocumentKind::Odp => odf::parse(odf::Form::Slides, &mut archive),
        DocumentKind::Ods => odf::parse(odf::Form::Sheets, &mut archive),
        DocumentKind::Markdown
        | DocumentKind::Text
        | DocumentKind::Html
        | DocumentKind::Pdf
        | DocumentKind::Rtf
        | DocumentKind::Csv
        | DocumentKind::Json
        | DocumentKind::Notebook
        | DocumentKind::Rst
        | DocumentKind::Asciidoc
        | DocumentKind::Code
        | DocumentKind::Image => Err(ParseError::UnsupportedType),
    }
}

/// Returns the kind of a zip file by the parts in it.
pub(super) fn detect(bytes: &[u8], limits: &ParseLimits) -> Result<DocumentKind, ParseError> {
    let mut archive = Archive::open(bytes, limits)?;
    let open_document = archive.part("mimetype")?.as_deref().and_then(of_mime_type);
    let has = |name: &str| archive.zip.index_for_name(name).is_some();
    let folder = |folder: &[u8]| archive.zip.file_names_raw().any(|name| name.starts_with(folder));
    if has("META-INF/container.xml") {
        Ok(DocumentKind::Epub)
    } else if let Some(kind) = open_document {
        Ok(kind)
    } else if !has(ROOT_RELATIONS) {
        Err(ParseError::UnsupportedType)
    } else if folder(b"word/") {
        Ok(DocumentKind::Docx)
    } else if folder(b"ppt/") {
        Ok(DocumentKind::Pptx)
    } else if folder(b"xl/") {
        Ok(DocumentKind::Xlsx)
    } else {
        Err(ParseError::UnsupportedType)
    }
}

/// Returns the kind of OpenDocument that a file says it is. Templates are read as what they are for.
fn of_mime_type(mime: &str) -> Option<DocumentKind> {
    let kind = mime.trim().strip_prefix("application/vnd.oasis.opendocument.")?;
    match kind.trim_end_matches("-template") {
        "text" => Some(DocumentKind::Odt),
        "presentation" => Some(DocumentKind::Odp),
        "spreadsheet" => Some(DocumentKind::Ods),
        _ => None,
    }
}

/// A zip file.
struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    limits: ParseLimits,
    /// How many more bytes its parts may have.
    left: u64,
}

impl<'a> Archive<'a> {
    fn open(bytes: &'a [u8], limits: &ParseLimits) -> Result<Self, ParseError> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(zip_error)?;
        Ok(Self {
            zip,
            limits: *limits,
            left: limits.max_inflated_bytes as u64,
        })
    }

    /// Returns a part as text, or `None` if there is no such part.
    fn part(&mut self, name: &str) -> Result<Option<String>, ParseError> {
        let entry = match self.zip.by_name(name) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(zip_error(error)),
        };
        let mut bytes = Vec::new();
        // The size that the file declares may be wrong.
        entry
            .take(self.left + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| ParseError::damaged("file", &error))?;
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or(ParseError::TooMuchInside {
                limit: self.limits.max_inflated_bytes,
            })?;
        text::decode(&bytes).map(Some)
    }

    /// Returns a part that every such file has.
    fn required(&mut self, name: &str) -> Result<String, ParseError> {
        let missing = || ParseError::damaged("file", &format!("the part {name} is missing"));
        self.part(name)?.ok_or_else(missing)
    }

    /// Returns what a part relates to, by the IDs of the relations.
    fn relations(&mut self, part: &str) -> Result<HashMap<String, Relation>, ParseError> {
        let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
        let name = match (folder, file) {
            ("", "") => ROOT_RELATIONS.to_owned(),
            ("", file) => format!("_rels/{file}.rels"),
            (folder, file) => format!("{folder}/_rels/{file}.rels"),
        };
        let mut relations = HashMap::new();
        let Some(xml) = self.part(&name)? else {
            return Ok(relations);
        };
        xml::walk(&xml, &self.limits, |node| {
            if let Xml::Open("Relationship", element) = node
                && element.get("TargetMode").as_deref() != Some("External")
                && let (Some(id), Some(target)) = (element.get("Id"), element.get("Target"))
            {
                let kind = element.get("Type").unwrap_or_default();
                let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                let part = resolve(folder, &target);
                relations.insert(id, Relation { kind, part });
            }
            Ok(())
        })?;
        Ok(relations)
    }

    /// Returns the main part of an Office document.
    fn main_part(&mut self) -> Result<String, ParseError> {
        let relations = self.relations("")?;
        let main = relations
            .into_values()
            .find(|relation| relation.kind == "officeDocument");
        main.map(|main| main.part)
            .ok_or_else(|| ParseError::damaged("file", "it has no main part"))
    }

    /// Returns the title in the properties of an Office document.
    fn title(&mut self) -> Result<Option<String>, ParseError> {
        let Some(xml) = self.part("docProps/core.xml")? else {
            return Ok(None);
        };
        text_of(&xml, "title", &self.limits)
    }
}

/// What one part refers to.
#[derive(Debug)]
struct Relation {
    /// The last part of its type: `slide`, `styles`.
    kind: String,
    part: String,
}

/// Returns the text of the first element with that name, if it has one.
fn text_of(xml: &str, name: &str, limits: &ParseLimits) -> Result<Option<String>, ParseError> {
    let (mut found, mut inside) = (String::new(), false);
    xml::walk(xml, limits, |node| {
        match node {
            Xml::Open(open, _) if open == name => inside = found.is_empty(),
            Xml::Close(close) if close == name => inside = false,
            Xml::Text(text) if inside => found.push_str(&text),
            Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
        }
        Ok(())
    })?;
    let found = super::blocks::prose(&found);
    Ok((!found.is_empty()).then_some(found))
}

/// Returns the name of the part that a target means, relative to a folder.
fn resolve(folder: &str, target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let absolute = target.strip_prefix('/');
    let mut parts: Vec<&str> = match absolute {
        Some(_) => Vec::new(),
        None => folder.split('/').filter(|part| !part.is_empty()).collect(),
    };
    for part in absolute.unwrap_or(target).split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn zip_error(error: ZipError) -> ParseError {
    match error {
        ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) | ZipError::InvalidPassword => {
            ParseError::Encrypted
        }
        other => ParseError::damaged("file", &other),
    }
}

#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod tests;
