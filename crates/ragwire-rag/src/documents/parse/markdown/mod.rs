//! Reads Markdown with `pulldown-cmark`, whose parser does not recurse and takes linear time.
//!
//! Paragraphs, list items and table rows become blocks. Raw HTML is read as HTML. Front matter is not
//! text, but for its description.

mod dialects;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::blocks::Blocks;
use super::{BlockKind, DocumentKind, FrontMatter, ParseError, ParseLimits, Parsed, html};

pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut reader = Reader::new(limits);
    reader.read(text)?;
    Ok(reader.finish())
}

/// Reads Markdown with components: imports and exports are not text, and the tags of components are
/// those of unknown elements.
pub(super) fn parse_mdx(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut plain = String::with_capacity(text.len());
    let (mut in_fence, mut in_code) = (false, false);
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        in_fence ^= is_fence;
        let is_code = ["import ", "export "].iter().any(|word| line.starts_with(word));
        // An export may have several lines; an empty one ends it.
        in_code = !in_fence && (is_code || in_code && !line.is_empty());
        if !in_code {
            plain.push_str(line);
        }
        plain.push('\n');
    }
    parse(&plain, limits)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Prose,
    Heading,
    Listing,
    Html,
    /// Front matter, which is not text.
    Metadata,
}

/// Reads one Markdown text after another: the headings of one stay open in the next.
#[derive(Debug)]
pub(super) struct Reader {
    limits: ParseLimits,
    pub(super) blocks: Blocks,
    /// Text since the last block ended.
    open: String,
    container: Container,
    front_matter: FrontMatter,
}

impl Reader {
    pub(super) fn new(limits: &ParseLimits) -> Self {
        Self {
            limits: *limits,
            blocks: Blocks::new(limits),
            open: String::new(),
            container: Container::Prose,
            front_matter: FrontMatter::default(),
        }
    }

    pub(super) fn read(&mut self, text: &str) -> Result<(), ParseError> {
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
            | Options::ENABLE_DEFINITION_LIST
            | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS
            | Options::ENABLE_HEADING_ATTRIBUTES
            | Options::ENABLE_WIKILINKS;
        let limits = self.limits;
        let text = dialects::plain(text);
        for event in Parser::new_ext(&text, options) {
            self.event(event, &limits)?;
        }
        self.flush()
    }

    pub(super) fn finish(self) -> Parsed {
        let front_matter = self.front_matter;
        let parsed = Parsed::new(DocumentKind::Markdown, front_matter.title.clone(), self.blocks);
        Parsed {
            front_matter,
            ..parsed
        }
    }

    fn event(&mut self, event: Event<'_>, limits: &ParseLimits) -> Result<(), ParseError> {
        match event {
            Event::Start(tag) => self.start(&tag)?,
            Event::End(tag) => self.end(tag, limits)?,
            Event::Text(text) | Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.open.push_str(&text);
            }
            Event::Html(text) => self.open.push_str(&text),
            Event::SoftBreak | Event::HardBreak => self.open.push('\n'),
            Event::Rule => self.flush()?,
            Event::InlineHtml(tag) if tag.starts_with("<br") => self.open.push('\n'),
            Event::InlineHtml(_) | Event::FootnoteReference(_) | Event::TaskListMarker(_) => {}
        }
        Ok(())
    }

    fn start(&mut self, tag: &Tag<'_>) -> Result<(), ParseError> {
        let container = match tag {
            Tag::Heading { .. } => Container::Heading,
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => Container::Listing,
            Tag::HtmlBlock => Container::Html,
            Tag::MetadataBlock(_) => Container::Metadata,
            Tag::TableCell => {
                if !self.open.is_empty() {
                    self.open.push_str(" | ");
                }
                return Ok(());
            }
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Superscript | Tag::Subscript => {
                return Ok(());
            }
            Tag::Link { .. } | Tag::Image { .. } => return Ok(()),
            _ => Container::Prose,
        };
        self.flush()?;
        match tag {
            Tag::DefinitionList => self.blocks.open_definitions(),
            Tag::Table(_) => self.blocks.open_table(),
            Tag::List(first) => self.blocks.open_list(*first),
            Tag::Item => self.blocks.item(None),
            _ => {}
        }
        self.container = container;
        Ok(())
    }

    fn end(&mut self, tag: TagEnd, limits: &ParseLimits) -> Result<(), ParseError> {
        match tag {
            TagEnd::Heading(level) => {
                self.blocks.heading(level as u8, &self.open);
                self.open.clear();
            }
            TagEnd::MetadataBlock(_) => {
                self.front_matter = FrontMatter::parse(&self.open);
                self.open.clear();
                // A page may have nothing else, and says in it what the page is about.
                if let Some(description) = self.front_matter.description.clone() {
                    self.blocks.push(BlockKind::Prose, None, &description)?;
                }
            }
            TagEnd::HtmlBlock => {
                // Its headings are those of the page, `<h1 align="center">`, but for those of details, which end with them.
                let is_closed =
                    self.open.trim_start().starts_with("<details") && self.open.contains("</details>");
                let headings = is_closed.then(|| self.blocks.open_headings());
                let blocks = std::mem::replace(&mut self.blocks, Blocks::new(limits));
                let (blocks, _) = html::read(&self.open, blocks, limits)?;
                self.blocks = blocks;
                if let Some(headings) = headings {
                    self.blocks.reopen(headings);
                }
                self.open.clear();
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                self.blocks.row(None, &self.open, tag == TagEnd::TableHead)?;
                self.open.clear();
            }
            TagEnd::Table => {
                self.flush()?;
                self.blocks.close_table();
            }
            TagEnd::List(_) => {
                self.flush()?;
                self.blocks.close_list();
            }
            TagEnd::DefinitionListTitle => {
                self.blocks.term(&self.open)?;
                self.open.clear();
            }
            TagEnd::DefinitionList => {
                self.flush()?;
                self.blocks.close_definitions();
            }
            TagEnd::TableCell | TagEnd::Link | TagEnd::Image => return Ok(()),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => return Ok(()),
            TagEnd::Superscript | TagEnd::Subscript => return Ok(()),
            _ => self.flush()?,
        }
        self.container = Container::Prose;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ParseError> {
        let kind = if self.container == Container::Listing {
            BlockKind::Listing
        } else {
            BlockKind::Prose
        };
        self.blocks.push(kind, None, &self.open)?;
        self.open.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{check_blocks, check_returns_soon, check_terms};

    #[test]
    fn structure_is_kept() {
        let text = "---\ntags: [one, two]\n---\n# Guide *one*\n\nHello `code` and\n[link](x) <b>bold</b>.\n\n## Install\n\n\
                    - first item\n- second\n  - inner\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn a() {}\n\nfn b() {}\n```\n\n\
                    <div><script>no</script>From html.</div>\n\nSetext\n------\n\n> Quoted.\n";
        let parsed = parse(text, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.title.as_deref(), Some("Guide one"));
        assert_eq!(parsed.front_matter.tags, ["one", "two"]);
        check_blocks(
            &parsed,
            &[
                ("Guide one", "Hello code and link bold."),
                ("Guide one > Install", "first item"),
                ("Guide one > Install", "second"),
                ("Guide one > Install", "inner"),
                ("Guide one > Install", "a | b"),
                ("Guide one > Install", "1 | 2"),
                ("Guide one > Install", "fn a() {}\n\nfn b() {}"),
                ("Guide one > Install", "From html."),
                ("Guide one > Setext", "Quoted."),
            ],
        );
    }

    #[test]
    fn a_heading_may_be_html() {
        let text = "<h1 align=\"center\">Birds</h1>\n\nOf the garden.\n\n## Nests\n\n<div class=\"bad\">\n<h3>Bad</h3>\n\n\
                    ```\na\n```\n\n</div>\n\n<div>\n<h3>Good</h3>\n\nHigh.\n\n</div>\n\n## Eggs\n\n\
                    <details><h3>More</h3><p>Of them.</p></details>\n\nBlue.\n";
        let parsed = parse(text, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.title.as_deref(), Some("Birds"));
        check_blocks(
            &parsed,
            &[
                ("Birds", "Of the garden."),
                ("Birds > Nests > Bad", "a"),
                ("Birds > Nests > Good", "High."),
                ("Birds > Eggs > More", "Of them."),
                ("Birds > Eggs", "Blue."),
            ],
        );
    }

    #[test]
    fn a_description_has_its_term() {
        let text = "Before.\n\n`--all`\n: All of them.\n\n    Each.\n\n`--none`\n: None.\n\nAfter.\n";
        check_terms(
            &parse(text, &ParseLimits::default()).unwrap(),
            &[
                ("", "Before."),
                ("--all", "--all"),
                ("--all", "All of them."),
                ("--all", "Each."),
                ("--none", "--none"),
                ("--none", "None."),
                ("", "After."),
            ],
        );
    }

    #[test]
    fn components_and_their_imports_are_not_text() {
        let text = "import Tip from './Tip'\nexport const a = {\n  b: 1\n}\n\n# Guide\n\n<Tip kind=\"x\">\n\nA *robin* sings.\n\n</Tip>\n\n\
                    ```js\nimport x from 'x'\n```\n";
        let parsed = parse_mdx(text, &ParseLimits::default()).unwrap();
        check_blocks(
            &parsed,
            &[("Guide", "A robin sings."), ("Guide", "import x from 'x'")],
        );
    }

    #[test]
    fn front_matter_has_the_title_and_the_description() {
        let text = "---\ntitle: Limits\ndescription: How often a client may ask.\n---\n\nTen times.\n";
        let parsed = parse(text, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.title.as_deref(), Some("Limits"));
        let texts: Vec<&str> = parsed.blocks.iter().map(|block| block.text.as_str()).collect();
        assert_eq!(texts, ["How often a client may ask.", "Ten times."]);
    }

    #[test]
    fn hostile_nesting_returns_soon() {
        let pieces = [
            ">",
            "> ",
            "- ",
            "[",
            "![",
            "*a ",
            "_",
            "`",
            "1. ",
            "<div>",
            "<b>",
            "|",
            "[^1]: ",
            "**a_",
            "# a\n",
            "[a](",
            "|a\n|-\n",
            "&",
            "{{<",
            "{{< a >}}",
            "{%",
            "{/*",
            "<A ",
            "<a b={",
            "<A b='c'>",
            "{a}`",
            "!!! a\n    ",
            ":::a\n",
            "```{note}\n",
            "> [!a]\n",
            "=== \"a\"\n",
            "    ",
            "``",
            "](b){a",
            "<a\n",
            "<A>\n",
            "<A\n",
            "</A>\n",
            "<A>\n  ",
            "<pre>\n",
            "{{< highlight >}}\n",
            "<a b='\n>",
            "{: a=1}",
        ];
        check_returns_soon(parse, &pieces);
    }
}
