//! Reads presentations: each slide is a page, its title a heading, and the speaker's notes follow its
//! text. Slide numbers, dates and footers are skipped.

use super::Archive;
use super::xml::{self, Xml};
use crate::documents::parse::blocks::Blocks;
use crate::documents::parse::{BlockKind, DocumentKind, ParseError, Parsed};

/// Placeholders that repeat on every slide.
const FURNITURE: [&str; 5] = ["sldNum", "dt", "ftr", "hdr", "sldImg"];

pub(super) fn parse(archive: &mut Archive<'_>) -> Result<Parsed, ParseError> {
    let main = archive.main_part()?;
    let relations = archive.relations(&main)?;
    let xml = archive.required(&main)?;
    let mut slides = Vec::new();
    xml::walk(&xml, &archive.limits, |node| {
        if let Xml::Open("sldId", element) = node {
            let slide = element.get_prefixed("r:id").and_then(|id| relations.get(&id));
            slides.extend(slide.map(|slide| slide.part.clone()));
        }
        Ok(())
    })?;
    if slides.len() > archive.limits.max_pages as usize {
        return Err(ParseError::TooManyPages {
            pages: slides.len(),
            limit: archive.limits.max_pages,
        });
    }
    let mut blocks = Blocks::new(&archive.limits);
    for (page, slide) in (1u32..).zip(&slides) {
        let Some(xml) = archive.part(slide)? else {
            continue;
        };
        let mut shapes = Shapes::default();
        xml::walk(&xml, &archive.limits, |node| {
            shapes.node(node);
            Ok(())
        })?;
        blocks.heading(1, shapes.title.as_deref().unwrap_or(&format!("Slide {page}")));
        let notes = archive.relations(slide)?;
        let notes = notes.into_values().find(|relation| relation.kind == "notesSlide");
        let notes = match notes {
            Some(notes) => archive.part(&notes.part)?,
            None => None,
        };
        if let Some(xml) = notes {
            let mut noted = Shapes::default();
            xml::walk(&xml, &archive.limits, |node| {
                noted.node(node);
                Ok(())
            })?;
            shapes.texts.append(&mut noted.texts);
        }
        push(&mut blocks, page, shapes.texts)?;
    }
    let parsed = Parsed::new(DocumentKind::Pptx, archive.title()?, blocks);
    Ok(Parsed {
        pages: Some(slides.len() as u32),
        ..parsed
    })
}

/// A piece of the text of a slide.
#[derive(Debug)]
pub(super) enum Text {
    Paragraph(String),
    TableBegins,
    Row { text: String, has_names: bool },
    TableEnds,
}

/// Adds the text of a slide.
pub(super) fn push(blocks: &mut Blocks, page: u32, texts: Vec<Text>) -> Result<(), ParseError> {
    for text in texts {
        match text {
            Text::Paragraph(text) => blocks.push(BlockKind::Prose, Some(page), &text)?,
            Text::TableBegins => blocks.open_table(),
            Text::Row { text, has_names } => blocks.row(Some(page), &text, has_names)?,
            Text::TableEnds => blocks.close_table(),
        }
    }
    Ok(())
}

/// The text of a slide.
#[derive(Debug, Default)]
struct Shapes {
    title: Option<String>,
    texts: Vec<Text>,
    /// The kind of the open shape's placeholder.
    placeholder: Option<String>,
    /// The text of the open paragraph.
    text: String,
    /// The cells of the open row of a table.
    row: Option<Vec<String>>,
    cell: String,
    /// Whether the next row of the table has the names of the columns.
    has_names: bool,
    in_text: bool,
}

impl Shapes {
    fn node(&mut self, node: Xml<'_>) {
        match node {
            Xml::Open("sp", _) | Xml::Close("sp") => self.placeholder = None,
            Xml::Open("ph", element) => {
                self.placeholder = Some(element.get("type").unwrap_or_else(|| "body".to_owned()));
            }
            Xml::Open("tbl", _) => self.texts.push(Text::TableBegins),
            Xml::Close("tbl") => self.texts.push(Text::TableEnds),
            Xml::Open("tblPr", element) => {
                self.has_names = element
                    .get("firstRow")
                    .is_some_and(|value| value != "0" && value != "false");
            }
            Xml::Open("tr", _) => self.row = Some(Vec::new()),
            Xml::Close("tc") => {
                let cell = std::mem::take(&mut self.cell);
                if let Some(row) = &mut self.row {
                    row.push(cell.trim().to_owned());
                }
            }
            Xml::Close("tr") => {
                let text = self.row.take().unwrap_or_default().join(" | ");
                let has_names = std::mem::take(&mut self.has_names);
                self.texts.push(Text::Row { text, has_names });
            }
            Xml::Open("t", _) => self.in_text = true,
            Xml::Close("t") => self.in_text = false,
            Xml::Open("br", _) => self.text.push('\n'),
            Xml::Close("p") => self.paragraph(),
            Xml::Text(text) if self.in_text => self.text.push_str(&text),
            Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
        }
    }

    fn paragraph(&mut self) {
        let text = std::mem::take(&mut self.text);
        if self.row.is_some() {
            self.cell.push_str(&text);
            self.cell.push(' ');
            return;
        }
        match self.placeholder.as_deref() {
            Some(kind) if FURNITURE.contains(&kind) => {}
            Some("title" | "ctrTitle") => {
                let title = self.title.get_or_insert_default();
                title.push_str(&text);
                title.push(' ');
            }
            _ => self.texts.push(Text::Paragraph(text)),
        }
    }
}
