//! What of a page is not its text: what is hidden, and what repeats on every page.

use ego_tree::NodeRef;
use scraper::Node;
use scraper::node::Element;

/// Elements whose text is not visible, or that repeat on every page of a site.
const SKIPPED: [&str; 19] = [
    "script", "style", "nav", "template", "noscript", "svg", "math", "iframe", "object", "canvas", "audio",
    "video", "select", "textarea", "datalist", "head", "footer", "button", "dialog",
];
/// Roles of elements that repeat on every page of a site.
const SKIPPED_ROLES: [&str; 4] = ["navigation", "banner", "contentinfo", "search"];
/// Classes of what belongs to the page and not to its text: the sign behind a heading that links to it, the numbers of
/// lines beside a listing, and what DocBook, Publican, Sphinx and rustdoc put around each page and entry.
const SKIPPED_CLASSES: [&str; 14] = [
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
];
/// Classes of menus, and the elements that are one. Asciidoctor marks entries of menus in a sentence so.
const MENU_CLASSES: [&str; 6] = [
    "breadcrumb",
    "breadcrumbs",
    "mainmenu",
    "navbar",
    "nosearch",
    "submenu",
];
const MENUS: [&str; 4] = ["div", "header", "ol", "ul"];
/// What rustdoc puts beside an entry and below a title: versions, links to source code, a switch.
const RUSTDOC: [(&str, &str); 4] = [
    ("span", "rightside"),
    ("span", "sub-heading"),
    ("a", "src"),
    ("summary", "hideme"),
];
/// What a link to the place where it is shows.
const SIGNS: [&str; 4] = ["§", "¶", "#", "🔗"];
/// Elements with the whole page or its text. A class of theirs says how the page looks.
const WHOLE: [&str; 4] = ["html", "body", "main", "article"];

/// Returns whether an element and what is in it are left out.
pub(super) fn is_skipped(node: &NodeRef<'_, Node>, element: &Element) -> bool {
    SKIPPED.contains(&element.name())
        || (element.attr("hidden").is_some() && !is_last_of_alternatives(node))
        || element.attr("aria-hidden") == Some("true")
        || element
            .attr("role")
            .is_some_and(|role| SKIPPED_ROLES.contains(&role))
        || element.classes().any(|class| SKIPPED_CLASSES.contains(&class)) && !WHOLE.contains(&element.name())
        || element.attr("style").is_some_and(hides)
        || MENUS.contains(&element.name()) && element.classes().any(|class| MENU_CLASSES.contains(&class))
        || element.name() == "a" && is_sign(node)
        || RUSTDOC
            .iter()
            .any(|(name, class)| element.name() == *name && has_class(element, class))
}

fn has_class(element: &Element, wanted: &str) -> bool {
    element.classes().any(|class| class == wanted)
}

/// Returns whether a link shows nothing but a sign.
fn is_sign(node: &NodeRef<'_, Node>) -> bool {
    let mut children = node.children();
    let only = children.next().filter(|_| children.next().is_none());
    only.is_some_and(|only| matches!(only.value(), Node::Text(text) if SIGNS.contains(&text.trim())))
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
