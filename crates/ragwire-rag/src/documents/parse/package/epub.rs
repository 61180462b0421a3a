//! Reads electronic books: the chapters in the order of the spine, as HTML. The table of contents that
//! is part of the book is skipped.

use std::collections::HashMap;

use super::xml::{self, Xml};
use super::{Archive, resolve, text_of};
use crate::documents::parse::blocks::Blocks;
use crate::documents::parse::{DocumentKind, ParseError, Parsed, html};

pub(super) fn parse(archive: &mut Archive<'_>) -> Result<Parsed, ParseError> {
    let container = archive.required("META-INF/container.xml")?;
    let mut package = None;
    xml::walk(&container, &archive.limits, |node| {
        if let Xml::Open("rootfile", element) = node
            && package.is_none()
        {
            package = element.get("full-path");
        }
        Ok(())
    })?;
    let package = package.ok_or_else(|| ParseError::damaged("file", "it names no package"))?;
    let folder = package
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder)
        .to_owned();
    let xml = archive.required(&package)?;
    let title = text_of(&xml, "title", &archive.limits)?;
    let mut chapters: HashMap<String, String> = HashMap::new();
    let mut spine = Vec::new();
    xml::walk(&xml, &archive.limits, |node| {
        match node {
            Xml::Open("item", element) => {
                let is_contents = element
                    .get("properties")
                    .is_some_and(|all| all.split(' ').any(|one| one == "nav"));
                let is_page = element
                    .get("media-type")
                    .is_some_and(|kind| kind.contains("html"));
                if let (Some(id), Some(target), true) =
                    (element.get("id"), element.get("href"), is_page && !is_contents)
                {
                    chapters.insert(id, resolve(&folder, &unescaped(&target)));
                }
            }
            Xml::Open("itemref", element) => spine.extend(element.get("idref")),
            Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
        }
        Ok(())
    })?;
    let mut blocks = Blocks::new(&archive.limits);
    // A chapter that is named twice is read once, so that nothing is repeated without end.
    for part in spine.iter().filter_map(|id| chapters.remove(id)) {
        if let Some(page) = archive.part(&part)? {
            blocks = html::read(&page, blocks, &archive.limits)?.0;
        }
    }
    Ok(Parsed::new(DocumentKind::Epub, title, blocks))
}

/// Decodes a reference, which is percent-encoded.
fn unescaped(target: &str) -> String {
    let mut bytes = Vec::with_capacity(target.len());
    let mut rest = target.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
