//! The marks within a line of AsciiDoc.

/// The longest text between two marks, in bytes. Without a limit, many marks without an end would take
/// quadratic time.
const MAX_SPAN_BYTES: usize = 300;
/// Marks of inline macros before their target.
const LINKS: [&str; 7] = [
    "link:",
    "xref:",
    "http://",
    "https://",
    "mailto:",
    "footnote:",
    "image:",
];

/// Removes marks of emphasis and replaces links by their text.
pub(super) fn inline(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    'text: while !rest.is_empty() {
        let window = &rest[..rest.floor_char_boundary(MAX_SPAN_BYTES)];
        let can_start = plain.chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        if let Some(reference) = rest.strip_prefix("<<")
            && let Some(end) = window.find(">>")
        {
            let target = &reference[..end - "<<".len()];
            plain.push_str(target.split_once(',').map_or(target, |(_, text)| text).trim());
            rest = &rest[end + ">>".len()..];
            continue;
        }
        if can_start {
            for link in LINKS.iter().filter(|link| rest.starts_with(**link)) {
                let end = window.find(char::is_whitespace).unwrap_or(window.len());
                if let Some(open) = window[..end].find('[')
                    && let Some(close) = window[open..].find(']')
                {
                    let (target, text) = (&rest[..open], &rest[open + 1..open + close]);
                    plain.push_str(if text.is_empty() {
                        target.trim_start_matches(*link)
                    } else {
                        text
                    });
                    rest = &rest[open + close + 1..];
                    continue 'text;
                }
            }
            for mark in ["**", "*", "__", "_", "``", "`"] {
                if let Some(inner) = window.strip_prefix(mark)
                    && let Some((inner, _)) = inner.split_once(mark)
                    && let tail = &rest[inner.len() + 2 * mark.len()..]
                    && !inner.is_empty()
                    && !inner.starts_with(char::is_whitespace)
                    && !inner.contains('\n')
                    && !tail.starts_with(char::is_alphanumeric)
                {
                    plain.push_str(inner.trim_matches('+'));
                    rest = tail;
                    continue 'text;
                }
            }
        }
        // To the next place where something can begin.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let next = rest[first..].find(['<', '*', '_', '`', 'l', 'x', 'h', 'm', 'f', 'i']);
        let next = next.map_or(rest.len(), |next| first + next);
        plain.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    plain
}
