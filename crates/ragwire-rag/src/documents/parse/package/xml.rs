//! Walks through XML without building a tree, within limits. Namespaces are ignored: the formats here
//! use the same local name for one thing only. Entities of a DTD are not expanded.

use std::borrow::Cow;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use crate::documents::parse::{ParseError, ParseLimits};

/// A node in the order of the text. An element without content is opened and closed.
#[derive(Debug)]
pub(super) enum Xml<'a> {
    Open(&'a str, Element<'a>),
    Close(&'a str),
    Text(Cow<'a, str>),
}

/// The attributes of an element.
#[derive(Debug)]
pub(super) struct Element<'a>(&'a BytesStart<'a>);

impl Element<'_> {
    /// Returns an attribute by its local name.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let attributes = self.0.attributes();
        let found = attributes
            .flatten()
            .find(|one| one.key.local_name().as_ref() == name)?;
        let value = found.normalized_value(XmlVersion::Implicit1_0).ok()?;
        Some(value.into_owned())
    }

    /// Returns an attribute by its name with its prefix.
    pub(super) fn get_prefixed(&self, name: &str) -> Option<String> {
        let attributes = self.0.attributes();
        let found = attributes.flatten().find(|one| one.key.0 == name)?;
        let value = found.normalized_value(XmlVersion::Implicit1_0).ok()?;
        Some(value.into_owned())
    }
}

/// Calls `visit` for every node.
pub(super) fn walk(
    xml: &str,
    limits: &ParseLimits,
    mut visit: impl FnMut(Xml<'_>) -> Result<(), ParseError>,
) -> Result<(), ParseError> {
    let mut reader = Reader::from_str(xml);
    let config = reader.config_mut();
    config.check_end_names = true;
    config.allow_dangling_amp = true;
    let (mut depth, mut nodes) = (0usize, 0usize);
    loop {
        let event = reader
            .read_event()
            .map_err(|error| ParseError::damaged("file", &error))?;
        nodes += 1;
        if nodes > limits.max_xml_nodes {
            return Err(ParseError::TooManyNodes {
                limit: limits.max_xml_nodes,
            });
        }
        match event {
            Event::Start(start) => {
                depth += 1;
                if depth > limits.max_html_depth {
                    return Err(ParseError::TooDeep {
                        limit: limits.max_html_depth,
                    });
                }
                visit(Xml::Open(start.local_name().as_ref(), Element(&start)))?;
            }
            Event::Empty(start) => {
                visit(Xml::Open(start.local_name().as_ref(), Element(&start)))?;
                visit(Xml::Close(start.local_name().as_ref()))?;
            }
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                visit(Xml::Close(end.local_name().as_ref()))?;
            }
            Event::Text(text) => visit(Xml::Text(text.xml10_content()))?,
            Event::CData(text) => visit(Xml::Text(text.xml10_content()))?,
            Event::GeneralRef(reference) => {
                let letter = reference.resolve_char_ref().ok().flatten();
                let letter = letter.or_else(|| match &*reference.xml10_content() {
                    "lt" => Some('<'),
                    "gt" => Some('>'),
                    "amp" => Some('&'),
                    "quot" => Some('"'),
                    "apos" => Some('\''),
                    // Of a DTD, or unknown.
                    _ => None,
                });
                if let Some(letter) = letter {
                    visit(Xml::Text(Cow::Owned(letter.to_string())))?;
                }
            }
            Event::Eof if depth > 0 => return Err(ParseError::damaged("file", "it ends too early")),
            Event::Eof => return Ok(()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}
