//! Reads HTML with `scraper` (html5ever): the visible text in blocks, with `h1` to `h6` as
//! headings.
//!
//! The tree is walked without recursion. Its depth is limited while it is built, because for many
//! tags the tree builder searches all open elements and so takes time quadratic in the depth.

use ego_tree::iter::Edge;
use ego_tree::{NodeId, NodeRef};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{ParseOpts, parse_document};
use scraper::node::Element;
use scraper::{Html, HtmlTreeSink, Node};

mod skipped;

use skipped::is_skipped;

use super::blocks::{Blocks, MAX_HEADING_BYTES, prose};
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed, attributes};

/// A main part with less text than this, in bytes, may be one of several, so the whole page is read.
const MIN_MAIN_BYTES: usize = 200;
/// Elements within a line of text. Every other element ends the block before it.
const INLINE: [&str; 39] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "img", "ins", "kbd", "label", "mark", "nobr", "output", "q", "rp", "rt", "ruby", "s", "samp",
    "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
];
/// Elements that are never in a heading: one before them lacks its end.
const ENDS_HEADING: [&str; 7] = ["p", "ul", "ol", "dl", "pre", "table", "blockquote"];
/// The longest cell of a table of data, in bytes.
const MAX_CELL_BYTES: usize = 1_000;
/// How much text is given to the tree builder between two checks of the tree, in bytes.
const STEP_BYTES: usize = 1024;
/// How many of the newest nodes are checked: after `</body>` only the newest may be outside of a
/// deep nest.
const NODES_LOOKED_AT: usize = 16;

pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let (blocks, title) = read(text, Blocks::new(limits), limits)?;
    Ok(Parsed::new(DocumentKind::Html, title, blocks))
}

/// Adds the text of a page to `blocks`. Also returns the title of the page.
pub(super) fn read(
    text: &str,
    blocks: Blocks,
    limits: &ParseLimits,
) -> Result<(Blocks, Option<String>), ParseError> {
    let page = build(text, limits)?;
    let mut reader = Reader::new(blocks);
    let main = main_part(&page);
    // Everything outside of the main part is skipped, whatever the elements around it.
    reader.skipped = usize::from(main.is_some());
    let mut outside = 0;
    for edge in page.tree.root().traverse() {
        match edge {
            Edge::Open(node) => {
                if main == Some(node.id()) {
                    outside = std::mem::take(&mut reader.skipped);
                }
                reader.open(&node)?;
            }
            Edge::Close(node) => {
                reader.close(&node)?;
                if main == Some(node.id()) {
                    reader.flush()?;
                    reader.skipped = outside;
                }
            }
        }
    }
    reader.flush()?;
    let page_title = Some(prose(&reader.page_title)).filter(|title| !title.is_empty());
    Ok((reader.blocks, page_title))
}

/// Returns the part of a page that its author calls the main one.
fn main_part(page: &Html) -> Option<NodeId> {
    let is_main = |node: &NodeRef<'_, Node>| match node.value() {
        Node::Element(element) => {
            !is_skipped(node, element) && (element.name() == "main" || element.attr("role") == Some("main"))
        }
        _ => false,
    };
    let main = page.tree.root().descendants().find(is_main)?;
    let texts = main.descendants().filter_map(|node| match node.value() {
        Node::Text(text) => Some(text.trim().len()),
        _ => None,
    });
    (texts.sum::<usize>() >= MIN_MAIN_BYTES).then_some(main.id())
}

/// Builds the tree step by step, so that parsing stops in time if the tree is too deep or far
/// larger than the text (a thousand open formatting elements are repeated in every paragraph).
fn build(text: &str, limits: &ParseLimits) -> Result<Html, ParseError> {
    if let Some(limit) = attributes::beyond_limit(text) {
        return Err(ParseError::TooManyAttributes { limit });
    }
    let mut parser = parse_document(HtmlTreeSink::new(Html::new_document()), ParseOpts::default());
    let mut rest = text;
    while !rest.is_empty() {
        let (step, after) = rest.split_at(rest.floor_char_boundary(STEP_BYTES));
        rest = after;
        parser.process(StrTendril::from_slice(step));
        let page = parser.tokenizer.sink.sink.0.borrow();
        if page.tree.nodes().len() > limits.max_html_nodes {
            return Err(ParseError::TooManyNodes {
                limit: limits.max_html_nodes,
            });
        }
        let mut newest = page.tree.nodes().rev().take(NODES_LOOKED_AT);
        if newest.any(|node| node.ancestors().nth(limits.max_html_depth).is_some()) {
            return Err(ParseError::TooDeep {
                limit: limits.max_html_depth,
            });
        }
    }
    Ok(parser.finish())
}

#[derive(Debug)]
struct Reader {
    blocks: Blocks,
    /// Text since the last block ended.
    text: String,
    page_title: String,
    /// How many enclosing elements are skipped; text counts only at 0.
    skipped: usize,
    /// How many listings are open.
    listings: usize,
    /// Whether one of them is a paragraph of code, whose lines end with `br`.
    in_code_paragraph: bool,
    /// Where its text begins.
    code_from: usize,
    in_title: bool,
    /// The level of the open heading.
    heading: Option<u8>,
    /// Whether a term of a definition list is open.
    in_term: bool,
    /// How many lists of fields are open.
    field_lists: usize,
    /// The open tables, and whether each is one of data.
    tables: Vec<bool>,
    /// Whether a cell of a table of data is open.
    in_cell: bool,
    /// How many cells of the row have data and not the name of a column or row.
    data_cells: usize,
}

impl Reader {
    fn new(blocks: Blocks) -> Self {
        Self {
            blocks,
            text: String::new(),
            page_title: String::new(),
            skipped: 0,
            listings: 0,
            in_code_paragraph: false,
            code_from: 0,
            in_title: false,
            heading: None,
            in_term: false,
            field_lists: 0,
            tables: Vec::new(),
            in_cell: false,
            data_cells: 0,
        }
    }

    fn open(&mut self, node: &NodeRef<'_, Node>) -> Result<(), ParseError> {
        match node.value() {
            Node::Text(text) if self.in_title => self.page_title.push_str(text),
            Node::Text(text) if self.skipped == 0 && self.in_code_paragraph => {
                self.text.push_str(&text.replace(['\n', '\r'], " "));
            }
            Node::Text(text) if self.skipped == 0 => self.text.push_str(text),
            Node::Element(element) => {
                let name = element.name();
                self.in_title = name == "title" && self.page_title.is_empty();
                if is_skipped(node, element) {
                    self.skipped += 1;
                } else if let Some(level) = self
                    .heading
                    .filter(|_| self.skipped == 0 && ENDS_HEADING.contains(&name))
                {
                    self.end_heading(level)?;
                } else if name == "br" {
                    self.text.push('\n');
                } else if (name == "td" || name == "th") && self.listings == 0 {
                    if !self.text.trim().is_empty() {
                        self.text.push_str(" | ");
                    }
                } else if !INLINE.contains(&name) {
                    self.flush()?;
                }
                if self.skipped == 0 {
                    self.open_part(name, element, node);
                    self.heading = heading_level(name).or(self.heading);
                }
                let is_code = is_code_paragraph(node);
                if is_code && !self.in_code_paragraph {
                    self.code_from = self.text.len();
                }
                self.in_code_paragraph |= is_code;
                self.listings += usize::from(name == "pre" || is_code);
            }
            _ => {}
        }
        Ok(())
    }

    /// Remembers the list, table, row or cell that begins.
    fn open_part(&mut self, name: &str, element: &Element, node: &NodeRef<'_, Node>) {
        match name {
            "dl" if is_field_list(element) => self.field_lists += 1,
            "dl" => self.blocks.open_definitions(),
            "dt" => self.in_term = self.field_lists == 0,
            "ul" | "menu" => self.blocks.open_list(None),
            "ol" => self.blocks.open_list(first_number(element)),
            "li" => self.blocks.item(number(element, "value")),
            "table" => {
                let has_data = is_of_data(node);
                self.tables.push(has_data);
                if has_data {
                    self.blocks.open_table();
                }
            }
            "tr" => self.data_cells = 0,
            "td" | "th" => {
                self.in_cell = self.tables.last() == Some(&true);
                self.data_cells += usize::from(name == "td");
            }
            _ => {}
        }
    }

    /// Ends the list, table, row or cell.
    fn close_part(&mut self, name: &str, element: &Element) {
        match name {
            "dl" if is_field_list(element) => self.field_lists -= 1,
            "dl" => self.blocks.close_definitions(),
            "ul" | "menu" | "ol" => self.blocks.close_list(),
            "table" => {
                let had_data = self.tables.pop() == Some(true);
                if had_data {
                    self.blocks.close_table();
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, node: &NodeRef<'_, Node>) -> Result<(), ParseError> {
        let Node::Element(element) = node.value() else {
            return Ok(());
        };
        let name = element.name();
        let is_code = is_code_paragraph(node);
        if is_code {
            self.in_code_paragraph = false;
            // Spaces collapse, as on the page.
            let code = self.text.split_off(self.code_from.min(self.text.len()));
            let lines = code
                .split('\n')
                .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
            let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
            self.text.push_str(&lines.join("\n"));
        }
        self.in_title = false;
        if is_skipped(node, element) {
            self.skipped -= 1;
        } else if heading_level(name).is_some() {
            match self.heading {
                Some(level) if self.skipped == 0 => self.end_heading(level)?,
                // Another element has ended it.
                _ => self.flush()?,
            }
        } else if name == "dt" && self.in_term {
            self.in_term = false;
            self.blocks.term(&self.text)?;
            self.text.clear();
        } else if matches!(name, "td" | "th") {
            self.in_cell = false;
        } else if name == "tr" && self.tables.last() == Some(&true) {
            self.blocks.row(None, &self.text, self.data_cells == 0)?;
            self.text.clear();
        } else if name != "br" && !INLINE.contains(&name) {
            self.flush()?;
        }
        if self.skipped == 0 && !is_skipped(node, element) {
            self.close_part(name, element);
        }
        self.listings -= usize::from(name == "pre" || is_code);
        Ok(())
    }

    /// Ends the open heading. One that is too long is text as well.
    fn end_heading(&mut self, level: u8) -> Result<(), ParseError> {
        self.heading = None;
        self.blocks.heading(level, &self.text);
        if prose(&self.text).len() > MAX_HEADING_BYTES {
            self.flush()?;
        }
        self.text.clear();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ParseError> {
        // A block within a heading, term or cell does not end it.
        if self.heading.is_some() || self.in_term || self.in_cell {
            self.text.push('\n');
            return Ok(());
        }
        let kind = if self.listings > 0 {
            BlockKind::Listing
        } else {
            BlockKind::Prose
        };
        self.blocks.push(kind, None, &self.text)?;
        self.text.clear();
        Ok(())
    }
}

/// Returns a number of an attribute.
fn number(element: &Element, attribute: &str) -> Option<u64> {
    element.attr(attribute)?.trim().parse().ok()
}

/// Returns the first number of an ordered list. One that counts down, or begins below 0, is shown without numbers.
fn first_number(element: &Element) -> Option<u64> {
    if element.attr("reversed").is_some() {
        return None;
    }
    match element.attr("start") {
        Some(_) => number(element, "start"),
        None => Some(1),
    }
}

fn heading_level(name: &str) -> Option<u8> {
    match name.as_bytes() {
        [b'h', level @ b'1'..=b'6'] => Some(level - b'0'),
        _ => None,
    }
}

/// Returns whether a paragraph has nothing but code. In a list or a table that is a name.
fn is_code_paragraph(node: &NodeRef<'_, Node>) -> bool {
    let is_named = |node: &Node, names: &[&str]| match node {
        Node::Element(element) => names.contains(&element.name()),
        _ => false,
    };
    let is_item = |parent: NodeRef<'_, Node>| is_named(parent.value(), &["li", "dd", "dt", "td", "th"]);
    let is_space = |node: &Node| matches!(node, Node::Text(text) if text.trim().is_empty());
    is_named(node.value(), &["p"])
        && !node.parent().is_some_and(is_item)
        && node.children().all(|child| {
            is_space(child.value()) || is_named(child.value(), &["code", "samp", "kbd", "tt", "br"])
        })
        && node.children().any(|child| child.has_children())
}

/// Returns whether a table has data, and does not arrange parts of the page: its cells are short, and have neither
/// headings nor listings nor other tables.
fn is_of_data(table: &NodeRef<'_, Node>) -> bool {
    let mut cell_bytes = 0;
    table.descendants().skip(1).all(|node| match node.value() {
        Node::Text(text) => {
            cell_bytes += text.len();
            cell_bytes <= MAX_CELL_BYTES
        }
        Node::Element(element) => {
            let name = element.name();
            if matches!(name, "td" | "th") {
                cell_bytes = 0;
            }
            !matches!(name, "table" | "pre" | "dl") && heading_level(name).is_none()
        }
        _ => true,
    })
}

/// Returns whether a list has the fields of a function in Sphinx, such as its parameters, which describe the
/// function and not terms.
fn is_field_list(list: &Element) -> bool {
    list.classes().any(|class| class == "field-list")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{check_blocks, check_returns_soon, check_terms};
    use std::time::Instant;

    #[test]
    fn visible_text_is_kept() {
        let page = "<html><head><title>The  page</title><style>p{}</style></head><body>\
            <nav><a>Home</a></nav><div role=navigation>next | previous</div><h1>Guide <em>one</em><a class=headerlink href='#x'>¶</a></h1><p>Hello<br>there <b>bold</b>, <tt>mo<wbr>no</tt>.<p>Unclosed.\
            <div class=navheader><a>Prev</a> | Next</div><ul class=docnav><li>Up</ul><div class=toc><dl><dt>2. Install</dl></div>\
            <p hidden>secret<p style='display : none'>secret</p><div aria-hidden=true><p>secret</p></div>\
            <template><p>secret</p></template><script>secret()</script>\
            <h2>Install</h2><ul><li>first<li>second<ul><li>inner</ul></ul>\
            <table><tr><th>a<th>b<tr><td>1<td>2</table><pre>fn a() {\n  x\n}</pre>tail</body></html>";
        let parsed = parse(page, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.title.as_deref(), Some("The page"));
        check_blocks(
            &parsed,
            &[
                ("Guide one", "Hello there bold, mono."),
                ("Guide one", "Unclosed."),
                ("Guide one > Install", "first"),
                ("Guide one > Install", "second"),
                ("Guide one > Install", "inner"),
                ("Guide one > Install", "a | b"),
                ("Guide one > Install", "1 | 2"),
                ("Guide one > Install", "fn a() {\n  x\n}"),
                ("Guide one > Install", "tail"),
            ],
        );
    }

    #[test]
    fn a_row_has_the_names_of_its_columns() {
        let page = "<table><thead><tr><th><p>Food</p><th><p>For</p><tbody>\
            <tr><td><p>seeds</p><td><p>robins</p><p>and <b>wrens</b></p><tr><td><ul><li>mice<li>voles</ul><td>owls</table>\
            <p>After.<table><tr><td><h2>Left</h2><p>One.<p>Two.<td>Right.<table><tr><th>a<td>b</table></table>";
        let parsed = parse(page, &ParseLimits::default()).unwrap();
        let blocks: Vec<_> = parsed
            .blocks
            .iter()
            .map(|block| (block.columns.as_deref().unwrap_or_default(), block.text.as_str()))
            .collect();
        assert_eq!(
            blocks,
            [
                ("", "Food | For"),
                ("Food | For", "seeds | robins and wrens"),
                ("Food | For", "mice voles | owls"),
                ("", "After."),
                ("", "One."),
                ("", "Two."),
                ("", "Right."),
                ("", "a | b"),
            ]
        );
    }

    #[test]
    fn a_heading_ends_before_what_is_never_in_one() {
        let long = "word ".repeat(60);
        let long = long.trim_end();
        let page =
            format!("<h1>A<div>b</div></h1><p>One.<h2>Two<p>Three.</p>four</h2><h2>{long}</h2><p>Five.");
        let cut = &long[..MAX_HEADING_BYTES];
        let below = format!("A b > {cut}");
        check_blocks(
            &parse(&page, &ParseLimits::default()).unwrap(),
            &[
                ("A b", "One."),
                ("A b > Two", "Three."),
                ("A b > Two", "four"),
                (&below, long),
                (&below, "Five."),
            ],
        );
    }

    #[test]
    fn a_paragraph_of_code_is_a_listing() {
        let page = "<p>Write:</p><div><p><code>\n AuthType\n Basic<br>\n <strong>Require</strong> valid-user<br />\n</code></p></div>\
            <p>Use <code>one</code>.</p><ul><li><p><code>two</code></p></ul><p><br></p>";
        let parsed = parse(page, &ParseLimits::default()).unwrap();
        let blocks: Vec<_> = parsed
            .blocks
            .iter()
            .map(|block| (block.kind, block.text.as_str()))
            .collect();
        assert_eq!(
            blocks,
            [
                (BlockKind::Prose, "Write:"),
                (BlockKind::Listing, "AuthType Basic\nRequire valid-user"),
                (BlockKind::Prose, "Use one."),
                (BlockKind::Prose, "two"),
            ]
        );
    }

    #[test]
    fn a_description_has_its_term() {
        let page = "<p>Before.<dl><dt>--a<dt><p>--all</p><dd><p>All.<p>Each.\
            <dl class=field-list><dt>Fields<dd>owl</dl>\
            <dl><dt>inner<dd>Deep.</dl><p>Still.\
            <dt hidden>no<dt>--none<dd>None.</dl><dl class=toc><dt>no</dl><p>After.";
        check_terms(
            &parse(page, &ParseLimits::default()).unwrap(),
            &[
                ("", "Before."),
                ("--a", "--a"),
                ("--all", "--all"),
                ("--all", "All."),
                ("--all", "Each."),
                ("--all", "Fields"),
                ("--all", "owl"),
                ("inner", "inner"),
                ("inner", "Deep."),
                ("--all", "Still."),
                ("--none", "--none"),
                ("--none", "None."),
                ("", "After."),
            ],
        );
        let long = format!("<dl><dt>short<dd>One.<dt>{}<dd>Two.</dl>", "x".repeat(161));
        let parsed = parse(&long, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.blocks[3].term, None, "a long term is not kept");
    }

    #[test]
    fn the_main_part_is_read_and_nothing_around_it() {
        let text = "The hoopoe has a crown of feathers. ".repeat(8);
        let page = format!(
            "<title>Birds</title><header><h1>The site</h1>Log in</header><div class=sidebar>Chapters</div>\
             <div><main><h1>Birds <button>Copy</button></h1><p>{text}</p></main><p>Related pages</p></div>\
             <footer>© 2026</footer>"
        );
        let parsed = parse(&page, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.title.as_deref(), Some("Birds"));
        check_blocks(&parsed, &[("Birds", text.trim())]);
        let with_contents = parse(
            "<body class=toc><p>Before.<div class=toc>1. Owls</div>",
            &ParseLimits::default(),
        );
        check_blocks(&with_contents.unwrap(), &[("", "Before.")]);
        let short = parse(
            "<p>Before.<main>Main.</main><p>After.<footer>No</footer>",
            &ParseLimits::default(),
        )
        .unwrap();
        check_blocks(&short, &[("", "Before."), ("", "Main."), ("", "After.")]);
    }

    #[test]
    fn hostile_pages_return_soon() {
        let limits = ParseLimits::default();
        let pieces = [
            "<div>",
            "<b>",
            "<p>",
            "<li>",
            "<td>",
            "<table>",
            "<a href=x>",
            "<svg>",
            "<x",
            "</p>",
            "&lt",
            "<dl>",
            "<table><tr><td><p>",
            "<table><tr><th>a<tr><td>b",
            "<tr><td>x",
            "<dt>x",
            "<dl><dt>x<dd>",
            "<dl class=field-list><dt>",
            "<!--",
        ];
        check_returns_soon(parse, &pieces);
        let formatting: String = (0..400).map(|n| format!("<b id={n}>")).collect();
        let formatting = format!("<p>{formatting}");
        let many_attributes: String = (0..200_000).map(|number| format!("a{number} ")).collect();
        let cases = [
            ("<div>".repeat(100_000), "too_deep"),
            ("<div></x>".repeat(100_000), "too_deep"),
            ("<div></body><!-- -->".repeat(100_000), "too_deep"),
            (formatting + &"<p>x".repeat(100_000), "too_many_nodes"),
            (format!("<p {}>x", many_attributes), "too_many_attributes"),
        ];
        for (page, code) in cases {
            let start = Instant::now();
            assert_eq!(parse(&page, &limits).unwrap_err().code(), code);
            println!("{code} after {:?}", start.elapsed());
        }
    }

    #[test]
    fn a_long_flat_page_is_not_deep() {
        let page = "<p>one<ul><li>two<li>three</ul><br><script>'<div>'.repeat(9)</script>".repeat(2_000);
        assert!(parse(&page, &ParseLimits::default()).is_ok());
    }
}
