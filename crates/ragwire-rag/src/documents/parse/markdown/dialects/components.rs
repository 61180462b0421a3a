//! Tags of MDX: components, and elements with attributes in braces. Lists of attributes.

/// The longest tag in bytes.
const MAX_TAG_BYTES: usize = 4_000;
/// The longest list of attributes in bytes.
const MAX_LIST_BYTES: usize = 300;
/// Attributes that the reader sees as a title.
const SHOWN: [&str; 4] = ["title", "label", "header", "summary"];

/// What a `<` begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    /// A tag of so many bytes that is not HTML, and the title that it shows.
    Component(usize, &'a str),
    /// A tag that HTML has too, of so many bytes.
    Html(usize),
    /// A tag without an end.
    Open,
    Text,
}

/// Returns what a text that begins with `<` begins with.
pub(super) fn tag(text: &str) -> Tag<'_> {
    let inner = text.strip_prefix("</").unwrap_or_else(|| &text[1..]);
    let Some(after) = after_name(inner) else {
        return Tag::Text;
    };
    // `<VirtualHost *:80>` is text.
    let attributes = after.trim_start();
    let has_attributes = attributes.starts_with(|c: char| c.is_alphabetic() || "{/>:@_#".contains(c));
    if !has_attributes && !attributes.is_empty() {
        return Tag::Text;
    }
    let Some(length) = length(text) else {
        return Tag::Open;
    };
    let (is_component, whole) = (
        inner.starts_with(|c: char| c.is_ascii_uppercase()),
        &text[..length],
    );
    let title = SHOWN
        .iter()
        .filter(|_| is_component)
        .find_map(|name| attribute(whole, name));
    if whole.contains('{') || title.is_some() {
        Tag::Component(length, title.unwrap_or_default())
    } else {
        Tag::Html(length)
    }
}

/// Returns whether a text begins with a tag that it does not close.
pub(super) fn is_open_tag(text: &str) -> bool {
    text.starts_with('<') && tag(text) == Tag::Open
}

/// Returns what follows the name of a tag.
fn after_name(inner: &str) -> Option<&str> {
    let after = inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    let is_name = inner.starts_with(|c: char| c.is_ascii_alphabetic())
        && (after.is_empty() || after.starts_with(|c: char| c.is_whitespace() || matches!(c, '/' | '>')));
    is_name.then_some(after)
}

/// Returns the name and the title of the component whose contents begin after a line: the line is its tag.
pub(super) fn opening(line: &str) -> Option<(&str, &str)> {
    let inner = line
        .strip_prefix('<')
        .filter(|inner| inner.starts_with(|c: char| c.is_ascii_uppercase()))?;
    let title = match tag(line) {
        Tag::Component(length, title) if length == line.len() => title,
        Tag::Html(length) if length == line.len() => "",
        Tag::Component(..) | Tag::Html(_) | Tag::Open | Tag::Text => return None,
    };
    let after = after_name(inner)?;
    (!line.ends_with("/>")).then(|| (&inner[..inner.len() - after.len()], title))
}

/// Returns the name of the component that a line ends.
pub(super) fn closing(line: &str) -> Option<&str> {
    let inner = line.strip_prefix("</")?.strip_suffix('>')?.trim();
    (after_name(inner) == Some("")).then_some(inner)
}

/// Returns the length of a tag, whose braces may contain `>`.
fn length(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut before) = (0_usize, None, ' ');
    for (at, c) in text[..text.floor_char_boundary(MAX_TAG_BYTES)].char_indices() {
        match c {
            c if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '"' | '\'' | '`' if depth > 0 || before == '=' => quote = Some(c),
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '>' if depth == 0 => return Some(at + 1),
            _ => {}
        }
        before = c;
    }
    None
}

/// Returns the value of an attribute that is a string.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag;
    while let Some(at) = rest.find(name) {
        let is_begin = rest[..at].ends_with(char::is_whitespace);
        rest = &rest[at + name.len()..];
        if is_begin && let Some(value) = rest.strip_prefix('=') {
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            return value[1..].split_once(quote).map(|(value, _)| value);
        }
    }
    None
}

/// Returns the length of a list of attributes that a text begins with: `{: .class }`, `{ #id }`, `{target=_blank}`.
pub(super) fn attribute_list(text: &str) -> Option<usize> {
    let within = &text[1..text.floor_char_boundary(MAX_LIST_BYTES).max(1)];
    let end = within
        .find(['}', '{', '\n'])
        .filter(|end| within[*end..].starts_with('}'))?;
    let list = &within[..end];
    let list = match list.strip_prefix(':') {
        // `{:?}` formats a value.
        Some(rest)
            if !rest.starts_with(|c: char| c.is_whitespace() || c.is_alphabetic() || ".#".contains(c)) =>
        {
            return None;
        }
        Some(rest) if !rest.contains(char::is_whitespace) && rest.starts_with(char::is_alphabetic) => {
            return Some(end + 2);
        }
        Some(rest) => rest,
        None => list,
    };
    let first = list.split_whitespace().next()?;
    // `{i=1}` is a formula.
    let key = first.split_once('=').map_or("", |(key, _)| key);
    let has_key = key.len() > 1 && key.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
    (has_key || first.starts_with(['.', '#'])).then_some(end + 2)
}
