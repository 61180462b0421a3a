//! Lists of Word: which paragraphs are items, and their numbers. A paragraph or its style names a numbering, whose levels
//! have bullets or numbers.

use std::collections::HashMap;

use super::Archive;
use super::xml::{self, Xml};
use crate::documents::parse::ParseError;

/// Levels of a numbering, the number of Word's.
const LEVELS: usize = 9;

/// What a paragraph or a style says about its list.
#[derive(Clone, Debug, Default)]
pub(super) struct ListPlace {
    /// The numbering; `0` takes a paragraph out of the list of its style.
    pub(super) numbering: Option<String>,
    /// The level, counted from 0.
    pub(super) level: Option<usize>,
}

impl ListPlace {
    /// Reads an element of a paragraph's properties.
    pub(super) fn property(&mut self, name: &str, value: &str) {
        match name {
            "numId" => self.numbering = Some(value.to_owned()),
            "ilvl" => self.level = value.parse().ok().filter(|level| *level < LEVELS),
            _ => {}
        }
    }

    /// Returns it with what the style says where it says nothing.
    pub(super) fn or(self, style: Option<&Self>) -> Self {
        let style = style.cloned().unwrap_or_default();
        Self {
            numbering: self.numbering.or(style.numbering),
            level: self.level.or(style.level),
        }
    }
}

/// The first number of each level, `None` for bullets.
type Firsts = [Option<u64>; LEVELS];

#[derive(Debug, Default)]
pub(super) struct Numberings {
    /// By the IDs that paragraphs name.
    firsts: HashMap<String, Firsts>,
    /// The last number of each level, by the same IDs. A list continues behind paragraphs that are not in it.
    last: HashMap<String, [u64; LEVELS]>,
}

impl Numberings {
    pub(super) fn read(archive: &mut Archive<'_>, name: &str) -> Result<Self, ParseError> {
        let Some(xml) = archive.part(name)? else {
            return Ok(Self::default());
        };
        let mut kinds: HashMap<String, Firsts> = HashMap::new();
        let mut firsts = HashMap::new();
        // The definition or numbering that is open, and the level of a definition.
        let (mut open, mut level): (Option<String>, usize) = (None, LEVELS);
        xml::walk(&xml, &archive.limits, |node| {
            if let Xml::Open(name, element) = node {
                let value = element.get("val").unwrap_or_default();
                let kind = open.as_ref().and_then(|id| kinds.get_mut(id));
                let first = kind.and_then(|kind| kind.get_mut(level));
                match (name, first) {
                    ("abstractNum", _) => {
                        open = element.get("abstractNumId");
                        kinds.extend(open.clone().map(|id| (id, [Some(1); LEVELS])));
                        level = LEVELS;
                    }
                    ("lvl", _) => {
                        let of_level = element.get("ilvl").and_then(|level| level.parse().ok());
                        level = of_level.unwrap_or(LEVELS);
                    }
                    ("start", Some(first)) => *first = first.and(value.parse().ok()),
                    ("numFmt", Some(first)) if value == "bullet" || value == "none" => *first = None,
                    ("num", _) => (open, level) = (element.get("numId"), LEVELS),
                    ("abstractNumId", _) => {
                        let kind = kinds.get(&value).copied();
                        firsts.extend(open.clone().zip(kind));
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        Ok(Self {
            firsts,
            last: HashMap::new(),
        })
    }

    /// Returns how many lists an item is in, and its number. `None` if the place is in no list.
    pub(super) fn item(&mut self, place: &ListPlace) -> Option<(u32, Option<u64>)> {
        let numbering = place.numbering.as_ref()?;
        let firsts = self.firsts.get(numbering)?;
        let level = place.level.unwrap_or_default();
        let depth = level as u32 + 1;
        let Some(first) = firsts[level] else {
            return Some((depth, None));
        };
        // One below the first number, as if that came before.
        let before = firsts.map(|first| first.unwrap_or(1).saturating_sub(1));
        let last = self.last.entry(numbering.clone()).or_insert(before);
        last[level] = last[level].saturating_add(1).max(first);
        last[level + 1..].copy_from_slice(&before[level + 1..]);
        Some((depth, Some(last[level])))
    }
}
