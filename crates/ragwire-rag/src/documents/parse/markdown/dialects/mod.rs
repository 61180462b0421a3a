//! Rewrites what site generators add to Markdown as plain Markdown: the text that a reader of the site sees.
//!
//! | generator | what is rewritten |
//! |---|---|
//! | MkDocs, Python-Markdown | `!!! note "Title"` and `=== "Tab"` with indented contents, `[TOC]`, `--8<--` |
//! | Docusaurus, VitePress, pandoc | `:::note Title` |
//! | Hugo | `{{< shortcodes >}}` and `{{% shortcodes %}}` |
//! | Jekyll, GitBook | `{% tags %}`, `{: .class }` |
//! | MDX | `<Tab label="…">`, `{/* comments */}`, attributes in braces, imports |
//! | MyST | fences that contain text, `` {ref}`text <target>` `` |
//! | GitHub, Obsidian | `> [!NOTE] Title` |
//!
//! Listings and code spans stay as they are. Each line is read a bounded number of times.

mod components;
mod containers;
mod inline;
mod shortcodes;
#[cfg(test)]
mod tests;

use self::containers::{Fence, TextFence};
use self::inline::inline;
use self::shortcodes::Shortcode;

/// How many lines a tag or shortcode may have: pages that write each attribute in a line have about a dozen.
const MAX_TAG_LINES: usize = 20;
/// How far the contents of an admonition or tab are indented, and from where on a line may be code.
const INDENT: usize = 4;
/// The fence for the code of a shortcode, longer than those that it may contain.
const CODE_FENCE: &str = "~~~~~~";
/// Lines that a generator replaces by the table of contents.
const CONTENTS: [&str; 4] = ["[TOC]", "[[TOC]]", "[[_TOC_]]", "{:TOC}"];

/// Returns the text as plain Markdown.
pub(super) fn plain(text: &str) -> String {
    let mut writer = Writer {
        is_after_blank: true,
        ..Writer::default()
    };
    let mut rest = writer.front_matter(text);
    while !rest.is_empty() {
        rest = writer.line(rest);
    }
    writer.plain
}

/// A listing that is open.
#[derive(Debug)]
enum Listing {
    /// Between fences, within so many blocks.
    Fenced { fence: Fence, depth: usize },
    /// Between two shortcodes of a name.
    Shortcode(String),
}

#[derive(Debug, Default)]
struct Writer {
    plain: String,
    /// The indentation of the contents of each open admonition or tab, the innermost last.
    blocks: Vec<usize>,
    listing: Option<Listing>,
    /// The open fences whose contents are text.
    text_fences: Vec<Fence>,
    /// Whether the options of a directive may follow.
    is_after_directive: bool,
    is_in_list: bool,
    is_after_blank: bool,
}

impl Writer {
    /// Copies the front matter, and returns what follows it.
    fn front_matter<'a>(&mut self, text: &'a str) -> &'a str {
        let mut lines = text.split_inclusive('\n');
        let Some(first) = lines
            .next()
            .filter(|line| matches!(line.trim_end(), "---" | "+++"))
        else {
            return text;
        };
        let mut end = first.len();
        for line in lines {
            end += line.len();
            if line.trim_end() == first.trim_end() {
                self.plain.push_str(&text[..end]);
                return &text[end..];
            }
        }
        text
    }

    /// Writes the first line of a text, or the lines of the tag that it opens, and returns what follows.
    fn line<'a>(&mut self, text: &'a str) -> &'a str {
        let (line, after) = split_line(text);
        let is_blank = line.trim().is_empty();
        if !is_blank {
            self.close_blocks(indent(line));
        }
        let line = without_indent(line, self.blocks.len() * INDENT);
        if self.listing.is_some() {
            self.code(line);
            return after;
        }
        let is_code = indent(line) >= INDENT && !self.is_in_list && self.is_after_blank;
        self.is_after_blank = is_blank || is_code;
        self.is_in_list = is_item(line) || self.is_in_list && (is_blank || indent(line) > 0);
        let is_option = std::mem::take(&mut self.is_after_directive) && containers::is_option(line);
        if is_option {
            self.is_after_directive = true;
        } else if is_code || is_blank {
            self.push_line(line);
        } else if !self.opens(line) && !is_left_out(line) {
            return self.text(line, text, after);
        }
        after
    }

    /// Writes a line of text with what it continues to, and returns what follows.
    fn text<'a>(&mut self, line: &str, text: &'a str, after: &'a str) -> &'a str {
        if let Some(plain) = inline(line) {
            self.push_line(&plain);
            return after;
        }
        let mut end = text.len() - after.len();
        for _ in 1..MAX_TAG_LINES {
            let (next, rest) = split_line(&text[end..]);
            if next.trim().is_empty() && !line.contains("{/*") {
                break;
            }
            end = text.len() - rest.len();
            if let Some(plain) = inline(&text[..end]) {
                let indent = &line[..line.len() - line.trim_start().len()];
                self.push_line(&format!("{indent}{}", plain.trim()));
                return rest;
            }
        }
        // What is opened is not closed: it is text.
        self.push_line(line);
        after
    }

    /// Opens or closes what a line stands for. Returns false for a line of text.
    fn opens(&mut self, line: &str) -> bool {
        let spaces = &line[..line.len() - line.trim_start().len()];
        if let Some(title) = containers::indented(line) {
            let outer = self.blocks.len() * INDENT;
            self.blocks.push(outer + indent(line) + INDENT);
            self.push_title(spaces, title);
        } else if let Some(title) = containers::divided(line) {
            self.push_title(spaces, title);
            self.is_after_directive = line.contains('{');
        } else if let Some((quote, title)) = containers::callout(line) {
            self.push_line(&format!("{quote} {title}"));
            self.push_line(quote);
        } else if self
            .text_fences
            .last()
            .is_some_and(|fence| fence.is_closed_by(line))
        {
            self.text_fences.pop();
            self.push_line("");
        } else if let Some(TextFence { fence, title }) = containers::text_fence(line) {
            self.text_fences.push(fence);
            self.push_title(spaces, title);
            self.is_after_directive = true;
        } else if let Some(fence) = containers::fence(line) {
            let depth = self.blocks.len();
            self.listing = Some(Listing::Fenced { fence, depth });
            if let Some(tab) = containers::tab_of_fence(line) {
                self.push_title(spaces, tab);
            }
            self.push_line(line);
        } else if let Some(opened) = Shortcode::parse(line.trim()).filter(|one| one.opens_listing(line)) {
            self.push_line(&format!("{CODE_FENCE}{}", opened.language()));
            self.listing = Some(Listing::Shortcode(opened.name.to_owned()));
        } else {
            return false;
        }
        true
    }

    /// Writes a line of the open listing, which may be its end.
    fn code(&mut self, line: &str) {
        let ends = match &self.listing {
            Some(Listing::Fenced { fence, .. }) => {
                let ends = fence.is_closed_by(line);
                self.push_line(line);
                ends
            }
            Some(Listing::Shortcode(name)) => {
                let ends = Shortcode::parse(line.trim()).is_some_and(|one| one.closes(name));
                self.push_line(if ends { CODE_FENCE } else { line });
                ends
            }
            None => true,
        };
        if ends {
            self.listing = None;
        }
    }

    /// Closes the blocks, and the listings in them, that a line does not belong to.
    fn close_blocks(&mut self, indent: usize) {
        while self.blocks.last().is_some_and(|contents| indent < *contents) {
            self.blocks.pop();
            self.is_after_blank = true;
        }
        if let Some(Listing::Fenced { fence, depth }) = &self.listing
            && *depth > self.blocks.len()
        {
            let end = fence.end();
            self.listing = None;
            self.push_line(&end);
        }
    }

    /// Writes a title as a paragraph.
    fn push_title(&mut self, spaces: &str, title: &str) {
        self.push_line("");
        if !title.is_empty() {
            self.push_line(&format!("{spaces}{title}"));
            self.push_line("");
        }
        self.is_after_blank = true;
    }

    fn push_line(&mut self, line: &str) {
        self.plain.push_str(line);
        self.plain.push('\n');
    }
}

/// Returns the first line without its end, and what follows it.
fn split_line(text: &str) -> (&str, &str) {
    let (line, after) = text.split_once('\n').unwrap_or((text, ""));
    (line.strip_suffix('\r').unwrap_or(line), after)
}

/// Returns the number of columns before the text of a line.
fn indent(line: &str) -> usize {
    let spaces = line.chars().map_while(|c| match c {
        ' ' => Some(1),
        '\t' => Some(INDENT),
        _ => None,
    });
    spaces.sum()
}

/// Returns a line without so many columns of spaces.
fn without_indent(line: &str, columns: usize) -> &str {
    let mut removed = 0;
    line.trim_start_matches(|c: char| {
        let width = if c == '\t' { INDENT } else { 1 };
        let is_indent = matches!(c, ' ' | '\t') && removed + width <= columns;
        removed += width;
        is_indent
    })
}

/// Returns whether a line is an item of a list.
fn is_item(line: &str) -> bool {
    let text = line.trim_start();
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = number.len() < text.len() && (number.starts_with(". ") || number.starts_with(") "));
    is_numbered || ["- ", "* ", "+ "].iter().any(|mark| text.starts_with(mark))
}

/// Returns whether a generator replaces the line.
fn is_left_out(line: &str) -> bool {
    let line = line.trim();
    let is_import = line.starts_with("import ") && line.trim_end_matches(';').ends_with(['"', '\'']);
    let is_contents = CONTENTS.iter().any(|name| name.eq_ignore_ascii_case(line));
    is_import || is_contents || line.starts_with("--8<--")
}
