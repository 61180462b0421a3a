//! What the elements of a page are: headings, lists, tables and listings. Generators of documentation write some of them
//! as elements without a meaning, and say in a class what they are.

use ego_tree::{NodeId, NodeRef};
use scraper::Node;
use scraper::node::Element;

/// Elements within a line of text. Every other element ends the block before it.
const INLINE: [&str; 40] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "img", "input", "ins", "kbd", "label", "mark", "nobr", "output", "q", "rp", "rt", "ruby", "s",
    "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
];
/// Elements that are never in a heading: one before them lacks its end.
const ENDS_HEADING: [&str; 7] = ["p", "ul", "ol", "dl", "pre", "table", "blockquote"];
/// The longest cell of a table of data, in bytes.
const MAX_CELL_BYTES: usize = 1_000;
/// Elements of parts of a page, whose `header` has the title of the part.
const PARTS: [&str; 3] = ["article", "main", "section"];
/// What declares a function or type: Doxygen, javadoc.
const DECLARATIONS: [&str; 3] = ["member-signature", "memproto", "type-signature"];
/// Lists with the fields of a function, such as its parameters, which describe the function and not terms: Sphinx, javadoc,
/// Doxygen.
const FIELD_LISTS: [&str; 5] = ["field-list", "notes", "section", "params", "tparams"];
/// Cells of the tables that javadoc makes of `div`. The last one ends its row.
const JAVADOC_CELLS: [&str; 5] = [
    "col-first",
    "col-second",
    "col-constructor-name",
    "col-summary-item-name",
    JAVADOC_LAST_CELL,
];
const JAVADOC_LAST_CELL: &str = "col-last";
/// The level of a declaration in Haddock's pages, whose examples have headings of level 4.
const DECLARATION_LEVEL: u8 = 3;

/// A listing of Doxygen has a line among so many of its first children.
const FIRST_CHILDREN: usize = 4;

/// What an element is to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A part of a line of text.
    Inline,
    LineBreak,
    /// The title of the page or of an article in it. The headings that follow are below it, whatever their levels.
    Title,
    Heading(u8),
    /// A list whose items have numbers, from this one on, or signs.
    List(Option<u64>),
    /// An item, with the number that it says.
    Item(Option<u64>),
    Definitions,
    Term,
    /// A list of the fields of a function.
    Fields,
    Table,
    Row,
    Cell(Cell),
    Listing,
    /// A listing whose spaces collapse. Only `br` ends its lines.
    Code,
    /// Another element that ends the block before it.
    Block,
}

/// A cell of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// Whether it has the name of a column or row.
    pub(super) is_name: bool,
    /// Whether it ends its row. Such a row has cells and no element around them.
    pub(super) ends_row: bool,
}

/// Returns what an element is.
pub(super) fn part(node: &NodeRef<'_, Node>, element: &Element) -> Part {
    let name = element.name();
    match name {
        "br" => Part::LineBreak,
        "h1" if part_of_title(node).is_some() => Part::Title,
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" if !has_class(element, "func-types-title") => {
            Part::Heading(name.as_bytes()[1] - b'0')
        }
        "ul" | "menu" => Part::List(None),
        "ol" => Part::List(first_number(element)),
        "li" => Part::Item(number(element, "value")),
        "dl" if FIELD_LISTS.iter().any(|class| has_class(element, class)) => Part::Fields,
        "dl" => Part::Definitions,
        "dt" => Part::Term,
        "table" => Part::Table,
        "tr" => Part::Row,
        "td" | "th" => Part::Cell(Cell {
            is_name: name == "th",
            ends_row: false,
        }),
        "pre" => Part::Listing,
        "p" => paragraph(node, element),
        "div" => div(node, element),
        _ if INLINE.contains(&name) => Part::Inline,
        _ => Part::Block,
    }
}

/// Returns what a `p` is. In Haddock's pages it may have the name of the module, or declare a function.
fn paragraph(node: &NodeRef<'_, Node>, element: &Element) -> Part {
    let is_declaration = || {
        let defines = |child: NodeRef<'_, Node>| {
            is_element(&child, |child| child.name() == "a" && has_class(child, "def"))
        };
        has_class(element, "src") && node.children().any(defines)
    };
    let is_module = || {
        let parent = node.parent();
        has_class(element, "caption")
            && parent.is_some_and(|parent| {
                is_element(&parent, |parent| parent.attr("id") == Some("module-header"))
            })
    };
    if is_code_paragraph(node) {
        Part::Code
    } else if is_declaration() {
        Part::Heading(DECLARATION_LEVEL)
    } else if is_module() {
        Part::Title
    } else {
        Part::Block
    }
}

/// Returns what a `div` is. Doxygen and javadoc make titles, listings and tables of them.
fn div(node: &NodeRef<'_, Node>, element: &Element) -> Part {
    let has = |class| has_class(element, class);
    let is_in = |class| {
        let parent = node.parent();
        parent.is_some_and(|parent| is_element(&parent, |parent| has_class(parent, class)))
    };
    if is_fragment(node) {
        Part::Listing
    } else if DECLARATIONS.iter().any(|class| has(class)) {
        Part::Code
    } else if has("title") && is_in("headertitle") {
        Part::Title
    } else if has("summary-table") {
        Part::Table
    } else if JAVADOC_CELLS.iter().any(|class| has(class)) && is_in("summary-table") {
        Part::Cell(Cell {
            is_name: has("table-header"),
            ends_row: has(JAVADOC_LAST_CELL),
        })
    } else {
        Part::Block
    }
}

pub(super) fn has_class(element: &Element, wanted: &str) -> bool {
    element.classes().any(|class| class == wanted)
}

pub(super) fn is_element(node: &NodeRef<'_, Node>, is_wanted: impl Fn(&Element) -> bool) -> bool {
    matches!(node.value(), Node::Element(element) if is_wanted(element))
}

fn is_named(node: &NodeRef<'_, Node>, names: &[&str]) -> bool {
    is_element(node, |element| names.contains(&element.name()))
}

pub(super) fn ends_heading(element: &Element) -> bool {
    ENDS_HEADING.contains(&element.name())
}

/// Returns the part of a page that has a heading in its header. The header of a site is in none.
pub(super) fn part_of_title(node: &NodeRef<'_, Node>) -> Option<NodeId> {
    let header = node.parent().filter(|parent| is_named(parent, &["header"]))?;
    let part = header.parent().filter(|part| is_named(part, &PARTS))?;
    Some(part.id())
}

/// Returns whether an element may describe a field whose name is before it, in the same line.
pub(super) fn is_description(element: &Element) -> bool {
    matches!(element.name(), "dd" | "p")
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

/// Returns whether an element is one of Doxygen's listings, whose lines are elements.
fn is_fragment(node: &NodeRef<'_, Node>) -> bool {
    let is_line = |child: NodeRef<'_, Node>| {
        is_element(&child, |child| child.name() == "div" && has_class(child, "line"))
    };
    let is_named = is_element(node, |element| {
        element.name() == "div" && has_class(element, "fragment")
    });
    is_named && node.children().take(FIRST_CHILDREN).any(is_line)
}

/// Returns whether a text is between two lines of a listing, and not shown.
pub(super) fn is_between_lines(node: &NodeRef<'_, Node>, text: &str) -> bool {
    text.trim().is_empty() && node.parent().is_some_and(|parent| is_fragment(&parent))
}

/// Returns the sign that a style of the page shows for an empty element: gi-docgen's between the parts of a name.
pub(super) fn shown_sign(node: &NodeRef<'_, Node>, element: &Element) -> Option<char> {
    let is_sign = element.name() == "span" && has_class(element, "sep") && !node.has_children();
    let is_in_title = || node.parent().is_some_and(|parent| is_named(&parent, &["h1"]));
    (is_sign && is_in_title()).then_some('.')
}

/// Returns whether a paragraph has nothing but code. In a list or a table that is a name.
fn is_code_paragraph(node: &NodeRef<'_, Node>) -> bool {
    let is_item = |parent: NodeRef<'_, Node>| is_named(&parent, &["li", "dd", "dt", "td", "th"]);
    let is_space =
        |node: &NodeRef<'_, Node>| matches!(node.value(), Node::Text(text) if text.trim().is_empty());
    !node.parent().is_some_and(is_item)
        && node
            .children()
            .all(|child| is_space(&child) || is_named(&child, &["code", "samp", "kbd", "tt", "br"]))
        && node.children().any(|child| child.has_children())
}

/// Returns whether a list arranges parts of a page: its items have headings or sections. javadoc makes each of a class and
/// its methods an item.
pub(super) fn arranges_parts(list: &NodeRef<'_, Node>) -> bool {
    let is_part = |child: NodeRef<'_, Node>| {
        is_named(
            &child,
            &["article", "section", "h1", "h2", "h3", "h4", "h5", "h6"],
        )
    };
    is_named(list, &["ul"])
        && list
            .children()
            .filter(|child| is_named(child, &["li"]))
            .any(|item| item.children().any(is_part))
}

/// Returns whether a table has data, and does not arrange parts of the page: its cells are short, and have neither
/// headings nor listings nor other tables.
pub(super) fn is_of_data(table: &NodeRef<'_, Node>) -> bool {
    let mut cell_bytes = 0;
    table.descendants().skip(1).all(|node| match node.value() {
        Node::Text(text) => {
            cell_bytes += text.len();
            cell_bytes <= MAX_CELL_BYTES
        }
        Node::Element(element) => {
            if is_fragment(&node) {
                // A line is shown as well in a cell as below it.
                return node
                    .children()
                    .filter(|child| is_named(child, &["div"]))
                    .nth(1)
                    .is_none();
            }
            match part(&node, element) {
                Part::Cell(_) => {
                    cell_bytes = 0;
                    true
                }
                Part::Table | Part::Listing | Part::Definitions | Part::Fields => false,
                Part::Title | Part::Heading(_) => false,
                Part::Inline | Part::LineBreak | Part::List(_) | Part::Item(_) => true,
                Part::Term | Part::Row | Part::Code | Part::Block => true,
            }
        }
        _ => true,
    })
}
