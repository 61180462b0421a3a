//! Reads presentations: each slide is a page, its title a heading, its bullets are a list, and the speaker's notes
//! follow its text. Slide numbers, dates and footers are skipped.

use super::Archive;
use super::xml::{self, Xml};
use crate::documents::parse::blocks::{Blocks, prose};
use crate::documents::parse::{BlockKind, DocumentKind, ParseError, Parsed};

/// Placeholders whose paragraphs have bullets unless the file says otherwise.
const BULLETED: [&str; 2] = ["body", "obj"];
/// The deepest level of a paragraph, as in PowerPoint.
const MAX_LEVEL: usize = 8;
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
        shapes.end_shape();
        blocks.heading(1, shapes.title.as_deref().unwrap_or(&format!("Slide {page}")));
        let notes = archive.relations(slide)?;
        let notes = notes.into_values().find(|relation| relation.kind == "notesSlide");
        let notes = match notes {
            Some(notes) => archive.part(&notes.part)?,
            None => None,
        };
        if let Some(xml) = notes {
            let mut noted = Shapes {
                are_notes: true,
                ..Shapes::default()
            };
            xml::walk(&xml, &archive.limits, |node| {
                noted.node(node);
                Ok(())
            })?;
            noted.end_shape();
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
    /// An item of a list, in so many lists, with its number.
    Item {
        depth: u32,
        number: Option<u64>,
        text: String,
    },
    TableBegins,
    Row {
        text: String,
        has_names: bool,
    },
    TableEnds,
}

/// Adds the text of a slide.
pub(super) fn push(blocks: &mut Blocks, page: u32, texts: Vec<Text>) -> Result<(), ParseError> {
    for text in texts {
        match text {
            Text::Paragraph(text) => blocks.push(BlockKind::Prose, Some(page), &text)?,
            Text::Item { depth, number, text } => {
                if !prose(&text).is_empty() {
                    blocks.item_at(depth, number);
                    blocks.push(BlockKind::Prose, Some(page), &text)?;
                }
            }
            Text::TableBegins => blocks.open_table(),
            Text::Row { text, has_names } => blocks.row(Some(page), &text, has_names)?,
            Text::TableEnds => blocks.close_table(),
        }
    }
    Ok(())
}

/// What a paragraph says about its mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    /// Nothing: it has that of its placeholder.
    #[default]
    Inherited,
    Absent,
    Bullet,
    /// A number, in a list that begins with this one.
    Number(u64),
}

#[derive(Debug, Default)]
struct Paragraph {
    level: usize,
    mark: Mark,
    text: String,
}

/// The text of a slide.
#[derive(Debug, Default)]
struct Shapes {
    title: Option<String>,
    texts: Vec<Text>,
    are_notes: bool,
    /// The kind of the open shape's placeholder.
    placeholder: Option<String>,
    /// The paragraphs of the open shape, and whether its style has no bullets.
    paragraphs: Vec<Paragraph>,
    is_plain: bool,
    /// The open paragraph.
    open: Paragraph,
    in_properties: bool,
    /// Whether a field is open, such as a date. Its properties are not those of the paragraph.
    in_field: bool,
    /// Whether the style of the first level is open.
    in_first_level: bool,
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
            Xml::Open("sp", _) | Xml::Close("sp") => self.end_shape(),
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
            Xml::Open("fld", _) => self.in_field = true,
            Xml::Close("fld") => self.in_field = false,
            Xml::Open("lvl1pPr", _) => self.in_first_level = true,
            Xml::Close("lvl1pPr") => self.in_first_level = false,
            Xml::Open("pPr", element) if !self.in_field => {
                self.in_properties = true;
                let level = element.get("lvl").and_then(|level| level.parse().ok());
                self.open.level = level.unwrap_or(0).min(MAX_LEVEL);
            }
            Xml::Close("pPr") => self.in_properties = false,
            Xml::Open("buNone", _) if self.in_properties => self.open.mark = Mark::Absent,
            Xml::Open("buNone", _) => self.is_plain |= self.in_first_level,
            Xml::Open("buChar" | "buBlip", _) if self.in_properties => self.open.mark = Mark::Bullet,
            Xml::Open("buAutoNum", element) if self.in_properties => {
                let is_number = element.get("type").is_some_and(|kind| kind.starts_with("arabic"));
                let first = element.get("startAt").and_then(|first| first.parse().ok());
                // The letters of other kinds are not known.
                self.open.mark = if is_number {
                    Mark::Number(first.unwrap_or(1))
                } else {
                    Mark::Bullet
                };
            }
            Xml::Open("t", _) => self.in_text = true,
            Xml::Close("t") => self.in_text = false,
            Xml::Open("br", _) => self.open.text.push('\n'),
            Xml::Close("p") => self.paragraph(),
            Xml::Text(text) if self.in_text => self.open.text.push_str(&text),
            Xml::Open(..) | Xml::Close(_) | Xml::Text(_) => {}
        }
    }

    fn paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.open);
        if self.row.is_some() {
            self.cell.push_str(&paragraph.text);
            self.cell.push(' ');
            return;
        }
        match self.placeholder.as_deref() {
            Some(kind) if FURNITURE.contains(&kind) => {}
            Some("title" | "ctrTitle") => {
                let title = self.title.get_or_insert_default();
                title.push_str(&paragraph.text);
                title.push(' ');
            }
            _ if prose(&paragraph.text).is_empty() => {}
            _ => self.paragraphs.push(paragraph),
        }
    }

    /// Writes the paragraphs of the open shape.
    fn end_shape(&mut self) {
        let kind = self.placeholder.take().unwrap_or_default();
        let is_plain = std::mem::take(&mut self.is_plain);
        let paragraphs = std::mem::take(&mut self.paragraphs);
        // One paragraph alone is a sentence rather than a list.
        let is_list = BULLETED.contains(&&*kind) && !is_plain && !self.are_notes && paragraphs.len() > 1;
        // The open lists: their levels, with the mark and the number of the last item.
        let mut lists: Vec<(usize, Mark, Option<u64>)> = Vec::new();
        for Paragraph { level, mark, text } in paragraphs {
            let mark = match mark {
                Mark::Inherited if is_list => Mark::Bullet,
                Mark::Inherited | Mark::Absent => {
                    lists.retain(|(open, ..)| *open < level);
                    self.texts.push(Text::Paragraph(text));
                    continue;
                }
                Mark::Bullet | Mark::Number(_) => mark,
            };
            lists.retain(|(open, ..)| *open <= level);
            let last = lists.pop_if(|(open, ..)| *open == level);
            let number = match (mark, last) {
                (Mark::Number(_), Some((_, before, Some(number)))) if before == mark => {
                    Some(number.saturating_add(1))
                }
                (Mark::Number(first), _) => Some(first),
                (Mark::Inherited | Mark::Absent | Mark::Bullet, _) => None,
            };
            lists.push((level, mark, number));
            let depth = u32::try_from(lists.len()).unwrap_or(u32::MAX);
            self.texts.push(Text::Item { depth, number, text });
        }
    }
}
