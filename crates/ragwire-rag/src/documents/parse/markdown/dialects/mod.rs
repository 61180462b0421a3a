//! Rewrites what site generators add to Markdown as plain Markdown: the text that a reader of the site sees.
//!
//! | generator | what is rewritten |
//! |---|---|
//! | MkDocs, Python-Markdown | `!!! note "Title"` and `=== "Tab"` with indented contents, `[TOC]`, `--8<--`, `{! file !}` |
//! | pymdownx | `/// note | Title` with contents that are not indented |
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

use self::components::{closing, is_open_tag, opening};
use self::containers::{Fence, Slashed, TextFence};
use self::inline::inline;
use self::shortcodes::Shortcode;
use crate::documents::parse::lines::{self, is_item};

/// How many lines a tag or shortcode may have: pages that write each attribute in a line have about a dozen.
const MAX_TAG_LINES: usize = 20;
/// The most tags in these lines of which each begins in the line that ends another. Each costs reading all lines again.
const MAX_TAGS: usize = 4;
/// How many blocks may be open: a page has about three, and each line is compared with all of them.
const MAX_BLOCKS: usize = 16;
/// How far the contents of an admonition or tab are indented, and from where on a line may be code.
const INDENT: usize = 4;
/// The fence for the code of a shortcode, longer than those that it may contain.
const CODE_FENCE: &str = "~~~~~~";
/// Lines that a generator replaces by the table of contents.
const CONTENTS: [&str; 4] = ["[TOC]", "[[TOC]]", "[[_TOC_]]", "{:TOC}"];
const ITEM_MARKS: [&str; 3] = ["- ", "* ", "+ "];

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
    /// An element that keeps its lines.
    Pre,
}

/// A block whose contents are indented.
#[derive(Debug)]
struct Block {
    end: BlockEnd,
    /// How many columns its lines lose.
    removed: usize,
}

#[derive(Debug)]
enum BlockEnd {
    /// A line that is indented less than this.
    Indent(usize),
    /// The end of a component. The first line of its contents shows how far they are indented, compared with its tag.
    Tag {
        name: String,
        at: usize,
        first: Option<usize>,
    },
}

/// Which options may follow a line that opens a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Options {
    #[default]
    None,
    /// `:class: tip`.
    Fields,
    /// Indented by so many columns at least, `open: true`.
    Indented(usize),
}

#[derive(Debug, Default)]
struct Writer {
    plain: String,
    /// The open admonitions, tabs and components, the innermost last.
    blocks: Vec<Block>,
    listing: Option<Listing>,
    /// The open fences whose contents are text.
    text_fences: Vec<Fence>,
    /// The slashes of the open blocks of pymdownx.
    slashed: Vec<usize>,
    /// The options of a directive that may follow.
    options: Options,
    /// The column of the text in the open item of a list.
    item: Option<usize>,
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
        let (whole, after) = split_line(text);
        let is_blank = whole.trim().is_empty();
        if !is_blank {
            self.enter(indent(whole));
        }
        let line = without_indent(whole, self.removed());
        if self.listing.is_some() {
            self.code(line);
            return after;
        }
        let code_from = self.item.unwrap_or_default() + INDENT;
        let is_code =
            indent(line) >= code_from && self.is_after_blank && !is_item(line.trim_start(), &ITEM_MARKS);
        self.is_after_blank = is_blank || is_code;
        if !is_code {
            self.item = item_column(line).or_else(|| self.item.filter(|_| is_blank || indent(line) > 0));
        }
        let is_option = match self.options {
            Options::None => false,
            Options::Fields => containers::is_option(line),
            Options::Indented(columns) => indent(whole) >= columns && containers::is_slashed_option(line),
        };
        if is_option {
            return after;
        }
        self.options = Options::None;
        if is_code || is_blank {
            self.push_line(line);
        } else if !self.opens_block(line, indent(whole), after) && !is_left_out(line) {
            return self.text(line, indent(whole), after);
        }
        after
    }

    /// Writes a line of text with what it continues to, and returns what follows.
    fn text<'a>(&mut self, line: &str, columns: usize, after: &'a str) -> &'a str {
        let mut open = match inline(line) {
            Ok(plain) => {
                self.push_line(&plain);
                return after;
            }
            Err(open) => open,
        };
        let mut tags = 0;
        let mut joined = line.to_owned();
        let mut rest = after;
        for _ in 1..MAX_TAG_LINES {
            let (next, further) = split_line(rest);
            let is_comment = line.contains("{/*");
            if rest.is_empty() || !is_comment && begins_block(next.trim_start()) {
                break;
            }
            rest = further;
            joined.push('\n');
            joined.push_str(without_indent(next, self.removed()));
            if !next.contains(['>', '}']) || is_open_tag(&joined[open..]) {
                continue;
            }
            tags += 1;
            if tags > MAX_TAGS {
                break;
            }
            if self.opens_block(&joined, columns, rest) {
                return rest;
            }
            match inline(&joined) {
                Ok(plain) => {
                    let indent = &line[..line.len() - line.trim_start().len()];
                    self.push_line(&format!("{indent}{}", plain.trim()));
                    return rest;
                }
                Err(next) => open = next,
            }
        }
        // What is opened is not closed: it is text.
        self.push_line(line);
        after
    }

    /// Opens or closes a block, if a line does so. The line is indented by so many columns in its file.
    fn opens_block(&mut self, line: &str, columns: usize, after: &str) -> bool {
        let spaces = &line[..line.len() - line.trim_start().len()];
        if let Some(title) = containers::indented(line, || follows_indented(after, columns + INDENT)) {
            let removed = self.removed() + INDENT;
            let end = BlockEnd::Indent(columns + INDENT);
            self.push_block(Block { end, removed });
            self.push_title(spaces, title);
        } else if let Some(title) = containers::divided(line) {
            self.push_title(spaces, title);
            self.options = if line.contains('{') {
                Options::Fields
            } else {
                Options::None
            };
        } else if let Some(slashed) = containers::slashed(line) {
            match slashed {
                Slashed::Opens { slashes, title } => {
                    self.slashed.push(slashes);
                    self.push_title(spaces, title);
                    self.options = Options::Indented(columns + INDENT);
                }
                Slashed::Closes { slashes } => {
                    let Some(open) = self.slashed.iter().rposition(|open| *open == slashes) else {
                        return false;
                    };
                    self.slashed.truncate(open);
                    self.push_title(spaces, "");
                }
            }
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
            self.options = Options::Fields;
        } else if let Some(fence) = containers::fence(line) {
            let depth = self.blocks.len();
            self.listing = Some(Listing::Fenced { fence, depth });
            if let Some(tab) = containers::tab_of_fence(line) {
                self.push_title(spaces, tab);
            }
            self.push_line(line);
        } else if line.trim_start().starts_with("<pre") && !line.contains("</pre>") {
            self.listing = Some(Listing::Pre);
            self.push_line(line);
        } else if let Some(name) = closing(line.trim()) {
            let of_name =
                |block: &Block| matches!(&block.end, BlockEnd::Tag { name: open, .. } if open == name);
            let Some(open) = self.blocks.iter().rposition(of_name) else {
                return false;
            };
            self.blocks.truncate(open);
            self.push_title(spaces, "");
        } else if let Some((name, title)) = opening(line.trim()) {
            let removed = self.removed();
            let (name, at, first) = (name.to_owned(), columns, None);
            let end = BlockEnd::Tag { name, at, first };
            self.push_title(spaces, title);
            self.push_block(Block { end, removed });
        } else if let Some(alone) =
            Shortcode::parse(line.trim()).filter(|one| one.length == line.trim().len())
        {
            if alone.opens_listing() {
                self.push_line(&format!("{CODE_FENCE}{}", alone.language()));
                self.listing = Some(Listing::Shortcode(alone.name.to_owned()));
            } else {
                self.push_title(spaces, &alone.shown(true, ""));
            }
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
            Some(Listing::Shortcode(name)) => match Shortcode::closing_at_end(line, name) {
                Some(code) => {
                    if !code.trim().is_empty() {
                        self.push_line(code);
                    }
                    self.push_line(CODE_FENCE);
                    true
                }
                None => {
                    self.push_line(line);
                    false
                }
            },
            Some(Listing::Pre) => {
                self.push_line(line);
                line.contains("</pre>")
            }
            None => true,
        };
        if ends {
            self.listing = None;
        }
    }

    /// Closes the blocks, and the listing in them, that a line of so many columns does not belong to. Finds out how far
    /// the contents of a component are indented.
    fn enter(&mut self, columns: usize) {
        let is_left = |block: &Block| matches!(block.end, BlockEnd::Indent(contents) if columns < contents);
        if let Some(left) = self.blocks.iter().position(is_left) {
            self.blocks.truncate(left);
            self.is_after_blank = true;
        }
        if let Some(Listing::Fenced { fence, depth }) = &self.listing
            && *depth > self.blocks.len()
        {
            let end = fence.end();
            self.listing = None;
            self.push_line(&end);
        }
        let last = self.blocks.last_mut();
        if let Some(Block {
            end:
                BlockEnd::Tag {
                    at,
                    first: first @ None,
                    ..
                },
            removed,
        }) = last
        {
            *first = Some(columns);
            *removed += columns.saturating_sub(*at);
        }
    }

    fn push_block(&mut self, block: Block) {
        if self.blocks.len() < MAX_BLOCKS {
            self.blocks.push(block);
        }
    }

    fn removed(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.removed)
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
    lines::indent(line, INDENT)
}

/// Returns whether the next line with text is indented by so many columns.
fn follows_indented(text: &str, columns: usize) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.next().is_some_and(|line| indent(line) >= columns)
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

/// Returns the column of the text in an item of a list.
fn item_column(line: &str) -> Option<usize> {
    let text = line.trim_start();
    let (mark, content) = text.split_once(' ').filter(|_| is_item(text, &ITEM_MARKS))?;
    let spaces = content.len() - content.trim_start().len();
    // Text that is further away is code.
    Some(indent(line) + mark.len() + 1 + if spaces < INDENT { spaces } else { 0 })
}

/// Returns whether a line, without its indentation, cannot be within a tag.
fn begins_block(line: &str) -> bool {
    line.is_empty()
        || line.starts_with(['#', '|'])
        || containers::fence(line).is_some()
        || is_item(line, &ITEM_MARKS)
}

/// Returns whether a generator replaces the line.
fn is_left_out(line: &str) -> bool {
    let text = line.trim_end().trim_end_matches(';');
    let import = line
        .strip_prefix("import ")
        .filter(|_| text.ends_with(['"', '\'']));
    let is_import = import.is_some_and(|import| {
        import.starts_with(['"', '\'']) || import.contains(" from \"") || import.contains(" from '")
    });
    let is_contents = CONTENTS.iter().any(|name| name.eq_ignore_ascii_case(line.trim()));
    let is_within = |open: &str, close: &str| {
        let inner = line
            .trim()
            .strip_prefix(open)
            .and_then(|rest| rest.strip_suffix(close));
        // `{*optional*}` is text.
        inner.is_some_and(|inner| !inner.contains('{') && inner.contains(['.', '/']))
    };
    // `{* file.py *}` and `{! file.py !}` include files.
    let is_included = is_within("{*", "*}") || is_within("{!", "!}");
    is_import || is_contents || is_included || line.trim_start().starts_with("--8<--")
}
