//! Reads source code: listings, each under the definition that it belongs to.
//!
//! A definition is a line without indentation that begins with a word for one. No grammar is used: the
//! words are those of the common languages, and a wrong heading costs little.

use super::blocks::Blocks;
use super::text::LISTING_BYTES;
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed};

/// Words before the word of a definition.
const MODIFIERS: [&str; 18] = [
    "pub",
    "export",
    "default",
    "async",
    "public",
    "private",
    "protected",
    "internal",
    "static",
    "final",
    "abstract",
    "sealed",
    "open",
    "data",
    "unsafe",
    "const",
    "extern",
    "inline",
];
/// Words that begin a definition.
const DEFINITIONS: [&str; 24] = [
    "fn",
    "def",
    "class",
    "struct",
    "enum",
    "trait",
    "impl",
    "interface",
    "function",
    "func",
    "fun",
    "type",
    "module",
    "namespace",
    "record",
    "object",
    "protocol",
    "extension",
    "union",
    "macro_rules!",
    "mod",
    "message",
    "service",
    "defmodule",
];
/// The longest heading, in bytes: arguments tell little.
const MAX_HEADING_BYTES: usize = 100;

pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut blocks = Blocks::new(limits);
    let mut open = String::new();
    // Comments and attributes before a definition belong to it.
    let mut pending = String::new();
    for line in text.lines() {
        let is_outer = line.starts_with(|first: char| !first.is_whitespace());
        if is_outer && let Some(heading) = definition(line) {
            blocks.push(BlockKind::Listing, None, &open)?;
            open.clear();
            blocks.heading(1, heading);
            open.push_str(&pending);
            pending.clear();
        } else if is_outer && is_before_a_definition(line) {
            pending.push_str(line);
            pending.push('\n');
            continue;
        }
        open.push_str(&pending);
        pending.clear();
        open.push_str(line);
        open.push('\n');
        if open.len() > LISTING_BYTES && line.trim().is_empty() {
            blocks.push(BlockKind::Listing, None, &open)?;
            open.clear();
        }
    }
    open.push_str(&pending);
    blocks.push(BlockKind::Listing, None, &open)?;
    Ok(Parsed::new(DocumentKind::Code, None, blocks))
}

/// Returns the heading of a line that begins a definition.
fn definition(line: &str) -> Option<&str> {
    let words = line.split(|c: char| c.is_whitespace() || c == '(' || c == '<');
    let word = words
        .map(|word| word.trim_end_matches(':'))
        .find(|word| !word.is_empty() && !MODIFIERS.contains(word))?;
    if !DEFINITIONS.contains(&word) && !is_sql(line) {
        return None;
    }
    let end = line.find(['{', '(', ';']).unwrap_or(line.len());
    let heading = line[..end].trim_end().trim_end_matches([':', '=']).trim_end();
    Some(&heading[..heading.floor_char_boundary(MAX_HEADING_BYTES)]).filter(|heading| !heading.is_empty())
}

fn is_sql(line: &str) -> bool {
    line.get(..7)
        .is_some_and(|word| word.eq_ignore_ascii_case("create "))
}

fn is_before_a_definition(line: &str) -> bool {
    ["//", "#", "/*", "*", "@", "--", "\"\"\"", ";;", "%%"]
        .iter()
        .any(|mark| line.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{check_blocks, check_returns_soon};

    fn read(text: &str) -> Parsed {
        parse(text, &ParseLimits::default()).unwrap()
    }

    #[test]
    fn definitions_are_headings_with_the_comments_before_them() {
        let rust = "//! A module.\nuse std::io;\n\n/// Adds.\n#[must_use]\npub async fn add(a: u32) -> u32 {\n    fn inner() {}\n    a\n}\n\nimpl<T> Sum<T> for X {\n}\n";
        let parsed = read(rust);
        let all: Vec<_> = parsed
            .blocks
            .iter()
            .map(|block| (block.heading.as_deref(), block.text.as_str()))
            .collect();
        assert_eq!(
            all,
            [
                (None, "//! A module.\nuse std::io;"),
                (
                    Some("pub async fn add"),
                    "/// Adds.\n#[must_use]\npub async fn add(a: u32) -> u32 {\n    fn inner() {}\n    a\n}"
                ),
                (Some("impl<T> Sum<T> for X"), "impl<T> Sum<T> for X {\n}"),
            ]
        );
        check_blocks(
            &read("# A class.\nclass Owl(Bird):\n    def hunt(self):\n        pass\n"),
            &[(
                "class Owl",
                "# A class.\nclass Owl(Bird):\n    def hunt(self):\n        pass",
            )],
        );
        check_blocks(
            &read("CREATE TABLE birds (\n  name TEXT\n);\n"),
            &[("CREATE TABLE birds", "CREATE TABLE birds (\n  name TEXT\n);")],
        );
    }

    #[test]
    fn hostile_code_returns_soon() {
        check_returns_soon(parse, &["fn a", "{", "# ", "class\n", "\n\n", "pub pub ", "//\n"]);
    }
}
