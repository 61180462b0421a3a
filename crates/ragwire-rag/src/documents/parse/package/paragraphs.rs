//! Paragraphs of Word and OpenDocument, by the roles of their styles.

use crate::documents::parse::blocks::{Blocks, prose};
use crate::documents::parse::{BlockKind, ParseError};

/// What a style says about its paragraphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    Prose,
    Title,
    Heading(u8),
    Listing,
}

/// Names of built-in styles are English in every language.
pub(super) fn role_of_name(name: &str) -> Role {
    if let Some(level) = name.strip_prefix("heading ").and_then(|level| level.parse().ok()) {
        return Role::Heading(level);
    }
    if name == "title" {
        return Role::Title;
    }
    let is_listing = ["code", "preformatted", "verbatim", "listing", "macro"]
        .iter()
        .any(|word| name.contains(word));
    // `Verbatim Char` is a style of letters.
    if is_listing && !name.ends_with("char") {
        Role::Listing
    } else {
        Role::Prose
    }
}

/// Writes paragraphs as blocks.
#[derive(Debug)]
pub(super) struct Paragraphs {
    pub(super) blocks: Blocks,
    /// The title of the document: that of its properties, or the first paragraph with that style.
    pub(super) title: Option<String>,
    /// The paragraphs of the open listing, which are its lines.
    listing: String,
}

impl Paragraphs {
    pub(super) fn new(blocks: Blocks, title: Option<String>) -> Self {
        Self {
            blocks,
            title,
            listing: String::new(),
        }
    }

    /// Writes a paragraph that begins an item of a list, in so many lists, with its number.
    pub(super) fn push_item(
        &mut self,
        depth: u32,
        number: Option<u64>,
        text: &str,
    ) -> Result<(), ParseError> {
        self.flush()?;
        if !prose(text).is_empty() {
            self.blocks.item_at(depth, number);
        }
        self.blocks.push(BlockKind::Prose, None, text)
    }

    pub(super) fn push(&mut self, role: Role, text: &str) -> Result<(), ParseError> {
        if role == Role::Listing {
            self.listing.push_str(text);
            self.listing.push('\n');
            return Ok(());
        }
        self.flush()?;
        let text = prose(text);
        match role {
            Role::Heading(level) => self.blocks.heading(level, &text),
            Role::Title if self.title.is_none() && !text.is_empty() => self.title = Some(text),
            // It repeats the properties.
            Role::Title if self.title.as_ref() == Some(&text) => {}
            Role::Title | Role::Prose | Role::Listing => self.blocks.push(BlockKind::Prose, None, &text)?,
        }
        Ok(())
    }

    /// Writes the open listing.
    pub(super) fn flush(&mut self) -> Result<(), ParseError> {
        let listing = std::mem::take(&mut self.listing);
        self.blocks.push(BlockKind::Listing, None, &listing)
    }
}
