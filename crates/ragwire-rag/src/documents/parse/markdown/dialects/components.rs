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
    /// A tag to leave out, of so many bytes, and the title that it shows.
    LeftOut(usize, &'a str),
    /// A tag that HTML has too, of so many bytes.
    Html(usize),
    /// A tag without an end.
    Open,
    /// Text.
    Text,
}

/// Returns what a text that begins with `<` begins with.
pub(super) fn tag(text: &str) -> Tag<'_> {
    let inner = text[1..].trim_start_matches('/');
    let name = inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    let is_name = inner.starts_with(|c: char| c.is_ascii_alphabetic())
        && (name.is_empty() || name.starts_with(|c: char| c.is_whitespace() || matches!(c, '/' | '>')));
    if !is_name {
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
        Tag::LeftOut(length, title.unwrap_or_default())
    } else {
        Tag::Html(length)
    }
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
    let first = within[..end].split_whitespace().next()?;
    let is_attribute = first.starts_with(['.', '#', ':']) || first.contains('=');
    is_attribute.then_some(end + 2)
}
