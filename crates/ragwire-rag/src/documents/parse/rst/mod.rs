//! Reads reStructuredText, as docutils and Sphinx write it: sections, listings, tables and the text of
//! directives. Marks of roles and references are removed.
//!
//! One pass over the lines. What is not understood is text.

mod inline;
mod lists;
mod substitutions;
mod tables;

use inline::{inline, is_name};
use lists::{Lists, Mark};
use substitutions::Substitutions;
use tables::{Names, is_simple_border};

use super::blocks::Blocks;
use super::{BlockKind, DocumentKind, ParseError, ParseLimits, Parsed};

/// Directives whose content is a listing.
const LISTINGS: [&str; 9] = [
    "code",
    "code-block",
    "sourcecode",
    "parsed-literal",
    "literalinclude",
    "highlight",
    "prompt",
    "doctest",
    "testcode",
];
/// Directives whose content is not for readers, or not text.
const SKIPPED: [&str; 14] = [
    "image",
    "contents",
    "toctree",
    "index",
    "include",
    "meta",
    "raw",
    "role",
    "default-role",
    "sectnum",
    "unicode",
    "replace",
    "currentmodule",
    "sectionauthor",
];
/// Directives whose argument names what their content describes.
const DESCRIPTIONS: [&str; 21] = [
    "attribute",
    "class",
    "cmdoption",
    "confval",
    "data",
    "decorator",
    "describe",
    "directive",
    "envvar",
    "exception",
    "function",
    "macro",
    "method",
    "module",
    "object",
    "option",
    "property",
    "setting",
    "staticmethod",
    "type",
    "var",
];
/// The fewest marks below a heading.
const MIN_ADORNMENT: usize = 3;

pub(super) fn parse(text: &str, limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut reader = Reader {
        lines: &lines,
        at: 0,
        blocks: Blocks::new(limits),
        substitutions: Substitutions::of(text),
        open: String::new(),
        adornments: Vec::new(),
        terms: Vec::new(),
        lists: Lists::default(),
    };
    while reader.at < lines.len() {
        reader.line()?;
    }
    reader.flush()?;
    Ok(Parsed::new(DocumentKind::Rst, None, reader.blocks))
}

#[derive(Debug)]
struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
    blocks: Blocks,
    substitutions: Substitutions,
    /// The open paragraph.
    open: String,
    /// The marks of headings, and whether they are above the text too, in the order of their levels.
    adornments: Vec<(char, bool)>,
    /// The indentation of the terms whose descriptions are open, the innermost last.
    terms: Vec<usize>,
    lists: Lists,
}

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> &'a str {
        self.lines.get(self.at + ahead).copied().unwrap_or_default()
    }

    fn line(&mut self) -> Result<(), ParseError> {
        let line = self.peek(0);
        let trimmed = line.trim_start();
        if trimmed.is_empty() {
            self.at += 1;
            return self.flush();
        }
        while self.terms.last().is_some_and(|outer| indent(line) <= *outer) {
            self.flush()?;
            self.terms.pop();
            self.blocks.close_definitions();
        }
        if self.heading()? {
            return Ok(());
        }
        let (mark, content) = self.lists.mark(trimmed, indent(line), !self.open.is_empty());
        if mark != Mark::None || self.open.is_empty() {
            self.leave_lists(indent(line), mark)?;
        }
        if trimmed.starts_with("+-") || trimmed.starts_with("+=") {
            return self.grid_table();
        }
        if is_simple_border(trimmed) {
            return self.simple_table();
        }
        if let Some(rest) = trimmed
            .strip_prefix(".. ")
            .or_else(|| (trimmed == "..").then_some(""))
        {
            self.flush()?;
            return self.explicit(rest, indent(line));
        }
        // A transition.
        if adornment(trimmed).is_some() && self.peek(1).is_empty() {
            self.at += 1;
            return self.flush();
        }
        self.at += 1;
        if mark != Mark::None {
            self.flush()?;
            self.lists.begin(indent(line), mark, &mut self.blocks);
        }
        let is_before_listing = content.ends_with("::") && self.peek(0).is_empty();
        let content = if is_before_listing {
            &content[..content.len() - 1]
        } else {
            content
        };
        let content = if content == ":" { "" } else { content };
        let next = self.peek(0);
        let is_described =
            !next.is_empty() && indent(next) > indent(line) && !content.starts_with([':', '|']);
        if is_described && mark == Mark::None && self.open.is_empty() {
            return self.term(content, indent(line));
        }
        self.open.push_str(content);
        self.open.push('\n');
        if is_before_listing {
            self.flush()?;
            let body = self.body(indent(line));
            self.blocks.push(BlockKind::Listing, None, &body)?;
        }
        Ok(())
    }

    /// Closes the lists that a line does not belong to.
    fn leave_lists(&mut self, indent: usize, mark: Mark) -> Result<(), ParseError> {
        if self.lists.are_left(indent, mark) {
            self.flush()?;
            self.lists.leave(indent, mark, &mut self.blocks);
        }
        Ok(())
    }

    /// Reads a heading with its marks, if one begins here.
    fn heading(&mut self) -> Result<bool, ParseError> {
        let fits = |marks: &str, text: &str| {
            let wide = marks.chars().count() + 1 >= text.trim().chars().count();
            adornment(marks).filter(|_| wide && !text.trim().is_empty())
        };
        let (first, second, third) = (self.peek(0), self.peek(1), self.peek(2));
        let (mark, above, text, used) = if let Some(mark) = fits(first, second)
            && first == third
        {
            (mark, true, second, 3)
        } else if let Some(mark) = fits(second, first)
            && self.open.is_empty()
            && !first.starts_with(' ')
        {
            (mark, false, first, 2)
        } else {
            return Ok(false);
        };
        self.leave_lists(0, Mark::None)?;
        self.flush()?;
        let known = self.adornments.iter().position(|known| *known == (mark, above));
        let level = known.unwrap_or_else(|| {
            self.adornments.push((mark, above));
            self.adornments.len() - 1
        });
        let text = self.plain(text);
        self.blocks
            .heading(u8::try_from(level + 1).unwrap_or(u8::MAX), &text);
        self.at += used;
        Ok(true)
    }

    /// Reads what begins with two dots: a directive, a target, a footnote or a comment.
    fn explicit(&mut self, rest: &str, outer: usize) -> Result<(), ParseError> {
        self.at += 1;
        let rest = rest.trim();
        if let Some(note) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            self.open.push_str(note.1.trim());
            self.open.push('\n');
            return Ok(());
        }
        // A substitution: `|name| image:: …`.
        let named = rest
            .strip_prefix('|')
            .and_then(|rest| Some(rest.split_once('|')?.1.trim()));
        let Some((name, argument)) = named
            .unwrap_or(rest)
            .split_once("::")
            .filter(|(name, _)| is_name(name))
        else {
            // A comment, or a target such as `_here: https://…`.
            self.body(outer);
            return Ok(());
        };
        // With a domain: `py:function`.
        let name = name.rsplit(':').next().unwrap_or(name);
        let argument = argument.trim();
        if LISTINGS.contains(&name) {
            self.options(outer);
            let body = self.body(outer);
            return self.blocks.push(BlockKind::Listing, None, &body);
        }
        if named.is_some() || SKIPPED.contains(&name) {
            self.options(outer);
            self.body(outer);
            return Ok(());
        }
        if name == "list-table" || name == "csv-table" {
            self.open.push_str(argument);
            self.flush()?;
            let names = Names::from_options(self.options(outer));
            let body = self.body(outer);
            return if name == "csv-table" {
                self.csv_table(&body, &names)
            } else {
                self.list_table(&body, &names)
            };
        }
        self.options(outer);
        if DESCRIPTIONS.contains(&name) && !argument.is_empty() {
            return self.term(argument, outer);
        }
        // A note: its content is text.
        if !argument.is_empty() && name != "figure" {
            self.open.push_str(argument);
            self.open.push('\n');
        }
        Ok(())
    }

    /// Adds a term. What is indented further than `outer` describes it.
    fn term(&mut self, text: &str, outer: usize) -> Result<(), ParseError> {
        self.terms.push(outer);
        self.blocks.open_definitions();
        let text = self.plain(text);
        self.blocks.term(&text)
    }

    /// Reads the options of a directive, `:name: value`.
    fn options(&mut self, outer: usize) -> &'a [&'a str] {
        let start = self.at;
        while indent(self.peek(0)) > outer && self.peek(0).trim_start().starts_with(':') {
            self.at += 1;
        }
        &self.lines[start..self.at]
    }

    /// Returns the lines that are indented further than `outer`, without their common indentation.
    fn body(&mut self, outer: usize) -> String {
        let start = self.at;
        while self.at < self.lines.len() && (self.peek(0).is_empty() || indent(self.peek(0)) > outer) {
            self.at += 1;
        }
        let lines = &self.lines[start..self.at];
        let common = lines
            .iter()
            .filter(|line| !line.is_empty())
            .map(|line| indent(line))
            .min();
        let mut body = String::new();
        for line in lines {
            body.push_str(line.get(common.unwrap_or(0)..).unwrap_or_default());
            body.push('\n');
        }
        body
    }

    /// Returns a text without marks.
    fn plain(&mut self, text: &str) -> String {
        inline(&self.substitutions.apply(text))
    }

    fn flush(&mut self) -> Result<(), ParseError> {
        let open = std::mem::take(&mut self.open);
        let text = self.plain(&open);
        self.blocks.push(BlockKind::Prose, None, &text)
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the mark that a line consists of.
fn adornment(line: &str) -> Option<char> {
    let mark = line.chars().next().filter(char::is_ascii_punctuation)?;
    (line.len() >= MIN_ADORNMENT && line.chars().all(|c| c == mark)).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{check_blocks, check_returns_soon, check_terms};

    #[test]
    fn a_description_has_its_term() {
        let text = "\
.. option:: --all

   All of them.

   Each.

   inner
      Deep.

``--none``
    None.

    - first
      goes on
After.

.. note:: Read this.

- item
  goes on
";
        check_terms(
            &parse(text, &ParseLimits::default()).unwrap(),
            &[
                ("--all", "--all"),
                ("--all", "All of them."),
                ("--all", "Each."),
                ("inner", "inner"),
                ("inner", "Deep."),
                ("--none", "--none"),
                ("--none", "None."),
                ("--none", "first goes on"),
                ("", "After."),
                ("", "Read this."),
                ("", "item goes on"),
            ],
        );
    }

    #[test]
    fn an_image_is_what_it_says_instead() {
        let text = "Press |ok|,|plain| and |so on|.\n\n|plain|\n\n.. |ok| image:: ok.png\n   :width: 2\n   :alt: The\n     green\n     button\n   :align: left\n\
            .. |plain| image:: plain.png\n\n   :alt: not its own\n";
        let expected = [("", "Press The green button, and |so on|.")];
        check_blocks(&parse(text, &ParseLimits::default()).unwrap(), &expected);
    }

    #[test]
    fn structure_is_kept() {
        let text = "\
.. _top:

=====
Birds
=====

A :ref:`robin <robins>` *sings* at ``dawn``, see
`the guide <https://example.org/>`_ and :py:func:`~birds.sing`.

.. note::
   Owls are **quiet**.

Feeding
-------

Run it::

    feed --all

    feed --owl

.. code-block:: python
   :caption: An example

   def feed():
       pass

- seeds
- worms
  and more

.. comment that nobody reads
   and its end

.. function:: feed(what)

   Feeds a bird.

   :param what: the food

=====  ======
Food   For
=====  ======
seeds  robins
mice   owls,
       at night
=====  ======

#. Within an item:

    ====  ====
    More  Less
    ====  ====
    x     y
    ====  ====

    +---+---+
    | i | k |
    +---+---+

+------+-----+
| a    | b   |
+======+=====+
| 1    | 2   |
|      | 3   |
+------+-----+

.. |bird| replace:: the *robin*

Feed |bird| but not |cat|.

|bird| guide
~~~~~~~~~~~~

=======  ====
|bird|   seed
=======  ====

.. csv-table:: More
   :header: \"Food, all\", \"Price\"

   \"seeds\", \"2, 3\"

.. list-table:: Prices
   :header-rows: 1

   * - Food
     - Price
   * - seeds
     - 2

Storing
-------

.. toctree::
   :maxdepth: 2

   one
   two

Keep it dry.
";
        let parsed = parse(text, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.title.as_deref(), Some("Birds"));
        let names: Vec<&str> = parsed
            .blocks
            .iter()
            .filter_map(|block| block.columns.as_deref())
            .collect();
        assert_eq!(
            names,
            [
                "Food | For",
                "Food | For",
                "More | Less",
                "a | b",
                "Food, all | Price",
                "Food | Price"
            ]
        );
        check_blocks(
            &parsed,
            &[
                ("Birds", "A robin sings at dawn, see the guide and sing."),
                ("Birds", "Owls are quiet."),
                ("Birds > Feeding", "Run it:"),
                ("Birds > Feeding", "feed --all\n\nfeed --owl"),
                ("Birds > Feeding", "def feed():\n    pass"),
                ("Birds > Feeding", "seeds"),
                ("Birds > Feeding", "worms and more"),
                ("Birds > Feeding", "feed(what)"),
                ("Birds > Feeding", "Feeds a bird."),
                ("Birds > Feeding", ":param what: the food"),
                ("Birds > Feeding", "Food | For"),
                ("Birds > Feeding", "seeds | robins"),
                ("Birds > Feeding", "mice | owls, at night"),
                ("Birds > Feeding", "Within an item:"),
                ("Birds > Feeding", "More | Less"),
                ("Birds > Feeding", "x | y"),
                ("Birds > Feeding", "i | k"),
                ("Birds > Feeding", "a | b"),
                ("Birds > Feeding", "1 | 2 3"),
                ("Birds > Feeding", "Feed the robin but not |cat|."),
                ("Birds > Feeding > the robin guide", "the robin | seed"),
                ("Birds > Feeding > the robin guide", "More"),
                ("Birds > Feeding > the robin guide", "Food, all | Price"),
                ("Birds > Feeding > the robin guide", "seeds | 2, 3"),
                ("Birds > Feeding > the robin guide", "Prices"),
                ("Birds > Feeding > the robin guide", "Food | Price"),
                ("Birds > Feeding > the robin guide", "seeds | 2"),
                ("Birds > Storing", "Keep it dry."),
            ],
        );
    }

    #[test]
    fn marks_that_are_none_stay() {
        for text in [
            "2 * 3 * 4",
            "a:b:c",
            "5*x and y*3",
            "`unclosed",
            "**",
            "C:\\dir is no escape",
            "é`ü`_",
        ] {
            let parsed = parse(text, &ParseLimits::default()).unwrap();
            assert!(!parsed.blocks[0].text.is_empty(), "{text}");
        }
    }

    #[test]
    fn hostile_marks_return_soon() {
        let pieces = [
            "`",
            "``",
            ":a:`",
            "*",
            "**a",
            "\\",
            "=",
            "===\na\n",
            "+-",
            "| ",
            ".. a::\n",
            "a::\n\n ",
            "== =\n",
            "- ",
            " ",
            ".. |a| replace:: a\n|a|",
            "  == =\n",
        ];
        check_returns_soon(parse, &pieces);
    }
}
