//! Reads source code: listings, each under the definition that it belongs to, and the text of comments.
//!
//! A definition is a line without indentation that begins with a word for one. No grammar is used: the
//! words are those of the common languages, and a wrong heading costs little.

mod comments;

use comments::Comment;

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
/// The longest heading, in bytes. It has no arguments.
const MAX_HEADING_BYTES: usize = 100;

pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let lines: Vec<&str> = text.lines().collect();
    let mut reader = Reader {
        blocks: Blocks::new(limits),
        open: String::new(),
        pending: Pending::default(),
        method: None,
    };
    let mut at = 0;
    // The last line of code.
    let mut before = "";
    while at < lines.len() {
        let (length, comment) = Comment::at(&lines[at..], before).unwrap_or((1, None));
        if let Some(comment) = comment {
            reader.comment(comment)?;
        } else {
            for at in at..at + length {
                reader.line(lines[at], &lines[at + 1..])?;
                if !lines[at].trim().is_empty() {
                    before = lines[at].trim_end();
                }
            }
        }
        at += length;
    }
    reader.finish()
}

/// What comes before a definition and belongs to it.
#[derive(Debug, Default)]
struct Pending<'a> {
    comments: Vec<Comment<'a>>,
    /// Its attributes, and comments that are read as code.
    code: String,
}

#[derive(Debug)]
struct Reader<'a> {
    blocks: Blocks,
    /// The listing that is being read.
    open: String,
    pending: Pending<'a>,
    /// The indentation of the method whose heading is open.
    method: Option<usize>,
}

impl<'a> Reader<'a> {
    fn comment(&mut self, comment: Comment<'a>) -> Result<(), ParseError> {
        // The text of a definition that has begun, as in Python, or one before the next definition.
        if comment.is_within {
            self.close_listing()?;
            return comment.write(&mut self.blocks);
        }
        if !self.pending.code.is_empty() {
            self.write_pending()?;
        }
        self.pending.comments.push(comment);
        Ok(())
    }

    fn line(&mut self, line: &str, after: &[&str]) -> Result<(), ParseError> {
        let indentation = line.len() - line.trim_start().len();
        if indentation == 0
            && let Some(heading) = definition(line)
        {
            self.close_listing()?;
            self.blocks.heading(1, heading);
            self.method = None;
        } else if indentation > 0
            && line.len() > indentation
            && let Some(heading) = definition(line.trim_start())
        {
            let is_described = !self.pending.comments.is_empty() || Comment::describes(after);
            let is_within = self.method.is_some_and(|method| indentation > method);
            if is_described && !is_within {
                self.close_listing()?;
                self.blocks.heading(2, heading);
                self.method = Some(indentation);
            } else if self.method.is_some() && !is_within {
                self.close_listing()?;
                self.blocks.close_headings(2);
                self.method = None;
            }
        } else if (indentation == 0 || !self.pending.comments.is_empty())
            && is_before_a_definition(line.trim_start())
        {
            self.pending.code.push_str(line);
            self.pending.code.push('\n');
            return Ok(());
        }
        self.write_pending()?;
        self.open.push_str(line);
        self.open.push('\n');
        if self.open.len() > LISTING_BYTES && line.trim().is_empty() {
            self.close_listing()?;
        }
        Ok(())
    }

    fn write_pending(&mut self) -> Result<(), ParseError> {
        let pending = std::mem::take(&mut self.pending);
        if !pending.comments.is_empty() {
            self.close_listing()?;
        }
        for comment in &pending.comments {
            comment.write(&mut self.blocks)?;
        }
        self.open.push_str(&pending.code);
        Ok(())
    }

    fn close_listing(&mut self) -> Result<(), ParseError> {
        self.blocks.push(BlockKind::Listing, None, &self.open)?;
        self.open.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, ParseError> {
        self.write_pending()?;
        self.close_listing()?;
        Ok(Parsed::new(DocumentKind::Code, None, self.blocks))
    }
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

/// Returns the name in the heading of a definition: `build` of `pub fn build`. Any other heading is returned as it is.
pub(crate) fn defined_name(heading: &str) -> &str {
    let mut rest = heading;
    let mut defines = false;
    while let Some((word, after)) = rest.split_once(' ')
        && (MODIFIERS.contains(&word) || DEFINITIONS.contains(&word))
    {
        defines |= DEFINITIONS.contains(&word);
        rest = after;
    }
    let rest = rest.split(['<', '(']).next().unwrap_or_default();
    // `type annotations of the standard library` defines nothing.
    if defines && !rest.is_empty() && !rest.contains(' ') {
        rest
    } else {
        heading
    }
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
    fn comments_that_describe_are_text() {
        let rust = "//! Walks folders, and leaves out what is ignored.\n\nimpl Walk {\n    /// Sets how many links are\n    /// followed at most:\n    /// - all by default\n    ///\n    /// ```\n    /// walk.depth(3);\n    /// ```\n    #[must_use]\n    pub fn depth(self, most: u32) -> Self {\n        // let x = 1;\n        self\n    }\n\n    fn other() {}\n}\n";
        check_blocks(
            &read(rust),
            &[
                ("", "Walks folders, and leaves out what is ignored."),
                ("impl Walk", "impl Walk {"),
                (
                    "impl Walk > pub fn depth",
                    "Sets how many links are followed at most:",
                ),
                ("impl Walk > pub fn depth", "all by default"),
                ("impl Walk > pub fn depth", " walk.depth(3);"),
                (
                    "impl Walk > pub fn depth",
                    "    #[must_use]\n    pub fn depth(self, most: u32) -> Self {\n        // let x = 1;\n        self\n    }",
                ),
                ("impl Walk", "    fn other() {}\n}"),
            ],
        );
        let python = "class Client:\n    def get(self, url):\n        \"\"\"\n        Sends a request and reads the answer.\n\n        Parameters\n        ----------\n        url : str\n            Where it is sent to, with a scheme.\n        \"\"\"\n        return self.send(url)\n";
        check_blocks(
            &read(python),
            &[
                ("class Client", "class Client:"),
                ("class Client > def get", "    def get(self, url):"),
                ("class Client > def get", "Sends a request and reads the answer."),
                ("class Client > def get", "Parameters"),
                ("class Client > def get", "url : str"),
                ("class Client > def get", "Where it is sent to, with a scheme."),
                ("class Client > def get", "        return self.send(url)"),
            ],
        );
        let script = "/**\n * Reads the list of servers from a file.\n * @param {string} path where the file is\n */\nexport async function servers (path) {\n  return read(path)\n}\n\n/* one two three four five */ let x = 1\n# The port that the server listens at.\nport = 80\n";
        check_blocks(
            &read(script),
            &[
                (
                    "export async function servers",
                    "Reads the list of servers from a file.",
                ),
                (
                    "export async function servers",
                    "@param {string} path where the file is",
                ),
                (
                    "export async function servers",
                    "export async function servers (path) {\n  return read(path)\n}\n\n/* one two three four five */ let x = 1",
                ),
                (
                    "export async function servers",
                    "The port that the server listens at.",
                ),
                ("export async function servers", "port = 80"),
            ],
        );
    }

    #[test]
    fn headings_of_definitions_have_a_name() {
        for (heading, name) in [
            ("pub async fn add", "add"),
            ("class Client", "Client"),
            ("export default function servers", "servers"),
            ("type annotations of a library", "type annotations of a library"),
            ("default port", "default port"),
            ("Class", "Class"),
        ] {
            assert_eq!(defined_name(heading), name);
        }
    }

    #[test]
    fn comments_without_text_are_code() {
        for code in [
            "// let x = f(1);\n// let y = g(x, 2);\n// h(x, y);\nlet z = 1;",
            "#include <stdio.h>\n#define SIZE of the whole table here",
            "#!/usr/bin/env python3 with many more words",
            "/* The end of this comment is missing\nint main() {}\n// and this one is not read either",
            "    // within a function it is read with its code\n    x();",
            "x = \"\"\"a string that is some value here\"\"\"",
            "x = \"\"\"\na value over some lines\n\"\"\"\nthese words are no text but code\n\"\"\"",
        ] {
            check_blocks(&read(code), &[("", code)]);
        }
    }

    #[test]
    fn hostile_code_returns_soon() {
        let parts = [
            "fn a",
            "{",
            "# ",
            "class\n",
            "\n\n",
            "pub pub ",
            "//\n",
            "/**\n",
            "/*\n",
            "\"\"\"\n",
            "/// a b c d e\n",
            " class\n",
            "  fn a\n",
            "```\n",
            "*/",
        ];
        check_returns_soon(parse, &parts);
    }
}
