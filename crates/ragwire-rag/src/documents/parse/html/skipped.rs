//! What of a page is not its text: what is hidden, and what repeats on every page.

use ego_tree::NodeRef;
use ego_tree::iter::Edge;
use scraper::Node;
use scraper::node::Element;

use super::elements::{Part, has_class, is_element, part};

/// Elements whose text is not visible, or that repeat on every page of a site.
const SKIPPED: [&str; 4] = ["nav", "head", "footer", "dialog"];
/// Elements within a line of text, which continues behind them, whose text is not of that line.
const SKIPPED_WITHIN_LINE: [&str; 15] = [
    "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "canvas", "audio", "video",
    "select", "textarea", "datalist", "button",
];
/// Roles of elements that repeat on every page of a site.
const SKIPPED_ROLES: [&str; 4] = ["navigation", "banner", "contentinfo", "search"];
/// Classes of what belongs to the page and not to its text: the sign behind a heading that links to it, the numbers of
/// lines beside a listing, and what DocBook, Publican, Sphinx, rustdoc, Asciidoctor, Doxygen, gi-docgen, Haddock and
/// MediaWiki put around each page and entry.
const SKIPPED_CLASSES: [&str; 22] = [
    "headerlink",
    "header-anchor",
    "anchor-link",
    "doc-anchor",
    "viewcode-link",
    "navheader",
    "navfooter",
    "docnav",
    "sphinxsidebar",
    "toc",
    "id_link",
    "linenos",
    "permalink",
    "rustdoc-breadcrumbs",
    "toc2",
    "lineno",
    "navpath",
    "hide-when-js-enabled",
    "mw-editsection",
    "mw-jump-link",
    "printfooter",
    "catlinks",
];
/// Elements around the text of a page, by their names, in Asciidoctor, Doxygen, Haddock, Org and Node's documentation. A
/// section may be named so too.
const SKIPPED_IDS: [(&str, &str); 11] = [
    ("div", "toc"),
    ("details", "toc"),
    ("ul", "toc"),
    ("div", "table-of-contents"),
    ("div", "titlearea"),
    ("div", "side-nav"),
    ("div", "package-header"),
    ("div", "footer"),
    ("details", "syn"),
    ("div", "column2"),
    ("div", "gtoc"),
];
const SECTION_CLASSES: [&str; 2] = ["section", "sect1"];
/// Classes of menus and footers, and the elements that are one. Asciidoctor marks entries of menus in a sentence so.
const MENU_CLASSES: [&str; 8] = [
    "breadcrumb",
    "breadcrumbs",
    "footer",
    "mainmenu",
    "navbar",
    "navigationbar",
    "nosearch",
    "submenu",
];
const MENUS: [&str; 4] = ["div", "header", "ol", "ul"];
/// What rustdoc, Doxygen and gi-docgen put beside an entry and below a title: versions, links to source code, a switch.
const BESIDE_ENTRIES: [(&str, &str); 8] = [
    ("span", "rightside"),
    ("span", "sub-heading"),
    ("a", "src"),
    ("summary", "hideme"),
    ("div", "ingroups"),
    ("span", "overload"),
    ("td", "mlabels-right"),
    ("a", "srclink"),
];
/// What a link to the place where it is shows, or one to what follows below.
const SIGNS: [&str; 6] = ["§", "¶", "#", "🔗", "◆", "More..."];
/// How a link says that it turns pages.
const TURNS: [&str; 5] = ["next", "prev", "previous", "up", "contents"];
/// How many nodes, and how much text outside of links, in bytes, links have around them that turn pages.
const MAX_TURNING_NODES: usize = 80;
const MAX_TURNING_BYTES: usize = 60;
/// How many links there are at most for each of them.
const OTHER_LINKS: usize = 3;
/// The longest text among such links, in bytes with its spaces.
const MAX_TURNING_TEXT: usize = 400;
/// How many links a menu has at least, and how many bytes of text are in links for each that is not.
const MIN_MENU_LINKS: usize = 3;
const LINKED_SHARE: usize = 4;
/// How far above its icon Asciidoctor's note is.
const NOTE_DEPTH: usize = 5;
/// How deep a list may be in the header of a page.
const HEADER_DEPTH: usize = 6;
/// How deep a text may be in its link.
const LINK_DEPTH: usize = 3;
/// Elements with the whole page or its text. A class of theirs says how the page looks.
const WHOLE: [&str; 4] = ["html", "body", "main", "article"];

/// Returns whether an element and what is in it are left out.
pub(super) fn is_skipped(node: &NodeRef<'_, Node>, element: &Element) -> bool {
    is_hidden(node, element) || is_around_text(node, element) || is_beside_entry(node, element)
}

fn is_hidden(node: &NodeRef<'_, Node>, element: &Element) -> bool {
    SKIPPED.contains(&element.name())
        || is_within_line(element)
        || (element.attr("hidden").is_some() && !is_last_of_alternatives(node))
        || element.attr("aria-hidden") == Some("true")
        || element.attr("style").is_some_and(hides)
}

/// Returns whether an element repeats on every page of a site, or has links to parts of the page.
fn is_around_text(node: &NodeRef<'_, Node>, element: &Element) -> bool {
    let role = element.attr("role");
    let id = element.attr("id");
    role.is_some_and(|role| SKIPPED_ROLES.contains(&role))
        || element.classes().any(|class| SKIPPED_CLASSES.contains(&class)) && !WHOLE.contains(&element.name())
        || id.is_some_and(|id| SKIPPED_IDS.contains(&(element.name(), id)))
            && !SECTION_CLASSES.iter().any(|class| has_class(element, class))
        || MENUS.contains(&element.name()) && element.classes().any(|class| MENU_CLASSES.contains(&class))
        || has_class(element, "summary") && is_in_doxygen_header(node) && Links::of(node).prevail()
        || turns_pages(node, element)
}

/// Returns whether an element is not of the text of the entry or note that it is in.
fn is_beside_entry(node: &NodeRef<'_, Node>, element: &Element) -> bool {
    let name = element.name();
    BESIDE_ENTRIES
        .iter()
        .any(|(named, class)| name == *named && has_class(element, class))
        || name == "a" && (is_sign(node) || is_link_to_source(node, element))
        // The category that Texinfo shows of a definition without one.
        || name == "span" && has_class(element, "category") && shows(node, &[":"])
        // Asciidoctor's icon beside a note.
        || name == "td" && has_class(element, "icon") && is_in_note(node)
        // Haddock's list of the classes that a type is of.
        || has_class(element, "subs") && has_class(element, "instances")
}

/// Returns whether a link shows nothing but a sign.
fn is_sign(node: &NodeRef<'_, Node>) -> bool {
    shows(node, &SIGNS)
}

/// Returns whether an element has nothing but one of these texts.
fn shows(node: &NodeRef<'_, Node>, texts: &[&str]) -> bool {
    let mut children = node.children();
    let only = children.next().filter(|_| children.next().is_none());
    only.is_some_and(|only| matches!(only.value(), Node::Text(text) if texts.contains(&text.trim())))
}

/// Returns whether a link is the one of Haddock to the source code of what is declared.
fn is_link_to_source(node: &NodeRef<'_, Node>, element: &Element) -> bool {
    let declares = |parent: &Element| has_class(parent, "src");
    has_class(element, "link")
        && shows(node, &["Source"])
        && node.parent().is_some_and(|parent| is_element(&parent, declares))
}

/// Returns whether a cell is in a note of Asciidoctor.
fn is_in_note(node: &NodeRef<'_, Node>) -> bool {
    let is_note =
        |node: NodeRef<'_, Node>| is_element(&node, |element| has_class(element, "admonitionblock"));
    node.ancestors().take(NOTE_DEPTH).any(is_note)
}

/// Returns whether a line of text continues behind a skipped element.
pub(super) fn is_within_line(element: &Element) -> bool {
    SKIPPED_WITHIN_LINE.contains(&element.name())
}

/// Returns whether an element has little but links that turn pages, as Texinfo puts above each section.
fn turns_pages(node: &NodeRef<'_, Node>, element: &Element) -> bool {
    if !matches!(element.name(), "div" | "p" | "table" | "ul" | "header") {
        return false;
    }
    let (mut turning, mut links, mut others) = (0, 0, 0);
    for (count, node) in node.descendants().skip(1).enumerate() {
        match node.value() {
            Node::Element(element) if element.name() == "a" => {
                let mut relations = element.attr("rel").unwrap_or_default().split_ascii_whitespace();
                turning += usize::from(relations.any(|relation| TURNS.contains(&relation)));
                links += 1;
            }
            Node::Element(element) => match part(&node, element) {
                Part::Title | Part::Heading(_) | Part::Listing | Part::Code | Part::Definitions => {
                    return false;
                }
                Part::Inline | Part::LineBreak | Part::List(_) | Part::Item(_) | Part::Term => {}
                Part::Fields | Part::Table | Part::Row | Part::Cell(_) | Part::Block => {}
            },
            Node::Text(text) if text.len() > MAX_TURNING_TEXT => return false,
            Node::Text(text) if !is_linked(&node) => others += text.trim().len(),
            _ => {}
        }
        if count == MAX_TURNING_NODES || others > MAX_TURNING_BYTES {
            return false;
        }
    }
    turning > 0 && links <= OTHER_LINKS * turning
}

/// Returns whether an element is the links of Doxygen to the parts of a page.
fn is_in_doxygen_header(node: &NodeRef<'_, Node>) -> bool {
    let is_header = |parent: &Element| parent.name() == "div" && has_class(parent, "header");
    node.parent().is_some_and(|parent| is_element(&parent, is_header))
}

/// Returns whether an element is in the header of a page.
pub(super) fn is_in_header(node: &NodeRef<'_, Node>) -> bool {
    let is_header = |node: NodeRef<'_, Node>| is_element(&node, |element| element.name() == "header");
    node.ancestors().take(HEADER_DEPTH).any(is_header)
}

/// Returns whether a list has little but links. Before the first text of a page that is a menu.
pub(super) fn is_menu(list: &NodeRef<'_, Node>) -> bool {
    let links = Links::of(list);
    links.count >= MIN_MENU_LINKS && links.prevail()
}

/// The links in an element, and how much text is in them and is not, in bytes.
struct Links {
    count: usize,
    linked: usize,
    others: usize,
}

impl Links {
    fn of(node: &NodeRef<'_, Node>) -> Self {
        let mut links = Self {
            count: 0,
            linked: 0,
            others: 0,
        };
        for node in node.descendants() {
            match node.value() {
                Node::Text(text) if is_linked(&node) => links.linked += text.trim().len(),
                Node::Text(text) => links.others += text.trim().len(),
                _ => links.count += usize::from(is_link(&node)),
            }
        }
        links
    }

    fn prevail(&self) -> bool {
        self.linked >= LINKED_SHARE * self.others
    }
}

fn is_link(node: &NodeRef<'_, Node>) -> bool {
    is_element(node, |element| element.name() == "a")
}

/// Returns whether a text is that of a link, in which words may be marked.
fn is_linked(text: &NodeRef<'_, Node>) -> bool {
    text.ancestors().take(LINK_DEPTH).any(|node| is_link(&node))
}

/// Returns whether a part of a page has a heading that is not left out.
pub(super) fn has_heading(root: NodeRef<'_, Node>) -> bool {
    let mut skipped = 0_usize;
    root.traverse().any(|edge| {
        let (node, is_open) = match edge {
            Edge::Open(node) => (node, true),
            Edge::Close(node) => (node, false),
        };
        let Node::Element(element) = node.value() else {
            return false;
        };
        if is_skipped(&node, element) {
            skipped = if is_open { skipped + 1 } else { skipped - 1 };
        }
        is_open && skipped == 0 && matches!(part(&node, element), Part::Title | Part::Heading(_))
    })
}

/// Returns whether an element is the last of several in a line that are all hidden. A script of the page shows one of
/// them, such as the key `Command` or `Ctrl`, and the last one is for every other reader.
fn is_last_of_alternatives(node: &NodeRef<'_, Node>) -> bool {
    let is_hidden_span = |node: &NodeRef<'_, Node>| match node.value() {
        Node::Element(element) => element.name() == "span" && element.attr("hidden").is_some(),
        Node::Text(text) => text.trim().is_empty(),
        _ => true,
    };
    let is_element = |node: &NodeRef<'_, Node>| matches!(node.value(), Node::Element(_));
    // Those after it first: all others are before the last one alone, so that many of them do not take long.
    is_hidden_span(node)
        && !node
            .next_siblings()
            .any(|sibling| is_element(&sibling) || !is_hidden_span(&sibling))
        && node.prev_siblings().any(|sibling| is_element(&sibling))
        && node.prev_siblings().all(|sibling| is_hidden_span(&sibling))
}

fn hides(style: &str) -> bool {
    let style: String = style
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect::<String>()
        .to_ascii_lowercase();
    style.contains("display:none") || style.contains("visibility:hidden")
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use crate::ParseLimits;
    use crate::test_data::check_blocks;

    #[test]
    fn what_rustdoc_puts_around_an_entry_is_left_out() {
        let page = "<div class=main-heading><h1>Struct A</h1><span class=sub-heading><span class=since>1.0.0</span> ·</span></div>\
            <pre class='src src-sh'>ls</pre><h2>Methods<a href='#m' class=anchor>§</a></h2><details><summary class=hideme><span>Expand</span></summary>\
            <section><span class=rightside>1.0.0 · <a class=src href=a>Source</a></span>\
            <h4>pub fn <a>map</a>&lt;F&gt;(f: F)<div class=where>where F: Fn(),</div></h4></section>\
            <p>Maps it. See <a href=b>#12</a>.</details>";
        let parsed = parse(page, &ParseLimits::default()).unwrap();
        let heading = "Struct A > Methods > pub fn map<F>(f: F) where F: Fn(),";
        check_blocks(&parsed, &[("Struct A", "ls"), (heading, "Maps it. See #12.")]);
    }

    #[test]
    fn menus_are_left_out() {
        let page = "<title>Robins</title><div class=nosearch><p>Small. Fast.<div class='menu mainmenu'>Home</div></div>\
            <ol class=breadcrumb><li>Birds</ol><div class=menu><p>Seeds of the day.</div>\
            <p>Use <b class=menu>File</b> <b class=submenu>Export</b>.";
        let parsed = parse(page, &ParseLimits::default()).unwrap();
        check_blocks(&parsed, &[("", "Seeds of the day."), ("", "Use File Export.")]);
    }

    #[test]
    fn of_words_that_a_script_chooses_from_the_last_one_is_kept() {
        let page = "<p>Press <span><span hidden class=mac>Command</span> <span hidden>Ctrl</span></span>+U.\
            <p>Nothing <span hidden>secret</span>.<p>One <span>a<span hidden>secret</span><span hidden>secret</span></span>.\
            <p><span hidden>secret</span><b>bold</b><span hidden>secret</span>.";
        let parsed = parse(page, &ParseLimits::default()).unwrap();
        check_blocks(
            &parsed,
            &[
                ("", "Press Ctrl+U."),
                ("", "Nothing ."),
                ("", "One a."),
                ("", "bold."),
            ],
        );
    }
}
