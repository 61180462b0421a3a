//! What is rewritten within a line.

use std::borrow::Cow;

use super::components::{Tag, attribute_list, tag};
use super::shortcodes::Shortcode;

/// The longest name of a role in bytes.
const MAX_ROLE_BYTES: usize = 40;
/// The longest code span in bytes.
const MAX_SPAN_BYTES: usize = 4_000;

/// Returns a line as plain Markdown, or where the tag begins that it does not close.
pub(super) fn inline(line: &str) -> Result<Cow<'_, str>, usize> {
    if !line.contains(['{', '<']) {
        return Ok(Cow::Borrowed(line));
    }
    let mut plain = String::with_capacity(line.len());
    let from_text = line.trim_start().len();
    let mut rest = line;
    while let Some(at) = rest.find(['`', '\\', '{', '<']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let copied = match &rest[..1] {
            "`" => code_span(rest),
            // What is escaped is text.
            "\\" => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            "{" => match braces(rest, &mut plain) {
                Braces::Seen(length) => {
                    rest = &rest[length..];
                    0
                }
                Braces::Open => return Err(line.len() - rest.len()),
                Braces::Text => 1,
            },
            _ => match tag(rest) {
                Tag::Component(length, title) => {
                    let spaces = &line[..line.len() - from_text];
                    push_title(&mut plain, title, (from_text == rest.len()).then_some(spaces));
                    rest = &rest[length..];
                    0
                }
                Tag::Html(length) => length,
                Tag::Open => return Err(line.len() - rest.len()),
                Tag::Text => 1,
            },
        };
        plain.push_str(&rest[..copied]);
        rest = &rest[copied..];
    }
    plain.push_str(rest);
    Ok(Cow::Owned(plain))
}

/// Returns the length of the code span that a text begins with, or of its marks if nothing closes it.
fn code_span(text: &str) -> usize {
    let text = &text[..text.floor_char_boundary(MAX_SPAN_BYTES)];
    let marks = text.len() - text.trim_start_matches('`').len();
    let mut at = marks;
    while let Some(found) = text[at..].find('`') {
        at += found;
        let closing = text[at..].len() - text[at..].trim_start_matches('`').len();
        at += closing;
        if closing == marks {
            return at;
        }
    }
    marks
}

/// What a `{` begins.
enum Braces {
    /// Something of so many bytes, of which the reader sees what has been written.
    Seen(usize),
    /// Something without an end.
    Open,
    Text,
}

/// Writes what the reader sees of something in braces.
fn braces(text: &str, plain: &mut String) -> Braces {
    if Shortcode::begins(text) {
        let Some(shortcode) = Shortcode::parse(text) else {
            return Braces::Open;
        };
        // The target of a link: `[text]({{< relref "page" >}})`, `[text]: {{< relref "page" >}}`.
        let is_target = ["](", "]: ", "](<"].iter().any(|begin| plain.ends_with(begin));
        let shown = shortcode.shown(false, &text[shortcode.length..]);
        plain.push_str(if is_target { "#" } else { &shown });
        return Braces::Seen(shortcode.length);
    }
    if text.starts_with("{/*") {
        return text
            .find("*/}")
            .map_or(Braces::Open, |end| Braces::Seen(end + "*/}".len()));
    }
    if let Some(blank) = ["{\" \"}", "{' '}"]
        .iter()
        .find(|blank| text.starts_with(**blank))
    {
        plain.push(' ');
        return Braces::Seen(blank.len());
    }
    let follows = plain.ends_with([')', ']', '`']) || text.starts_with("{:");
    let list = follows.then(|| attribute_list(text)).flatten();
    list.or_else(|| role(text, plain))
        .map_or(Braces::Text, Braces::Seen)
}

/// Writes the text of a role of MyST, `` {ref}`text <target>` ``, and returns its length.
fn role(text: &str, plain: &mut String) -> Option<usize> {
    let within = &text[1..text.floor_char_boundary(MAX_ROLE_BYTES).max(1)];
    let name = &within[..within.find('}')?];
    let after = &text[name.len() + 2..];
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'));
    if !is_name || !after.starts_with('`') {
        return None;
    }
    let span = code_span(after);
    let inner = after[..span].trim_matches('`');
    match inner.strip_suffix('>').and_then(|inner| inner.rsplit_once(" <")) {
        Some((text, _)) => plain.push_str(text),
        None => plain.push_str(&after[..span]),
    }
    Some(name.len() + 2 + span)
}

/// Writes the title of a component: as a paragraph where the component begins the line, after `spaces`.
fn push_title(plain: &mut String, title: &str, spaces: Option<&str>) {
    match spaces {
        _ if title.is_empty() => {}
        Some(spaces) => plain.push_str(&format!("{title}\n\n{spaces}")),
        None => plain.push_str(&format!(" {title} ")),
    }
}
