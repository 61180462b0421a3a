//! The marks within a line of reStructuredText.

/// The longest text between two marks, in bytes. Without a limit, many marks without an end would take
/// quadratic time.
const MAX_SPAN_BYTES: usize = 500;

/// Roles that refer to something else by its name.
const CROSS_REFERENCES: [&str; 14] = [
    "any", "attr", "class", "data", "doc", "download", "exc", "func", "meth", "mod", "numref", "obj", "ref",
    "term",
];

/// Names of directives: letters, digits and `-`, `_`, `:`, `.`.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'))
}

/// Removes the marks of emphasis, literals, roles and references.
pub(super) fn inline(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    // The role of the quoted text that follows.
    let mut role = "";
    while let Some(at) = rest.find(['`', '*', '\\', ':']) {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        let split = |after: &'_ str, mark: &str| {
            let end = after[..after.floor_char_boundary(MAX_SPAN_BYTES)].find(mark)?;
            Some((end, end + mark.len()))
        };
        let can_start = plain.chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        if let Some(literal) = after.strip_prefix("``")
            && let Some((end, next)) = split(literal, "``")
        {
            plain.push_str(&literal[..end]);
            rest = &literal[next..];
        } else if let Some(quoted) = after.strip_prefix('`')
            && let Some((end, next)) = split(quoted, "`")
        {
            push_reference(&mut plain, std::mem::take(&mut role), &quoted[..end]);
            let tail = &quoted[next..];
            rest = tail
                .strip_prefix("__")
                .or_else(|| tail.strip_prefix('_'))
                .unwrap_or(tail);
        } else if after.starts_with(':')
            && can_start
            && let Some((end, _)) = split(&after[1..], ":`")
            && is_name(&after[1..=end])
        {
            role = &after[1..=end];
            rest = &after[end + 2..];
        } else if let Some(strong) = after.strip_prefix("**")
            && can_start
            && let Some((end, next)) = split(strong, "**")
        {
            plain.push_str(&strong[..end]);
            rest = &strong[next..];
        } else if let Some(emphasis) = after.strip_prefix('*')
            && can_start
            && let Some((end, next)) = split(emphasis, "*").filter(|(end, _)| *end > 0)
            && !emphasis.starts_with(char::is_whitespace)
            && !emphasis[..end].contains('\n')
        {
            plain.push_str(&emphasis[..end]);
            rest = &emphasis[next..];
        } else if let Some(escaped) = after.strip_prefix('\\') {
            // An escaped space joins the words around it. Another character is kept.
            let width = escaped.chars().next().map_or(0, char::len_utf8);
            let (letter, tail) = escaped.split_at(width);
            plain.push_str(letter.trim());
            rest = tail;
        } else {
            let width = after.chars().next().map_or(0, char::len_utf8);
            plain.push_str(&after[..width]);
            rest = &after[width..];
        }
    }
    plain.push_str(rest);
    plain
}

/// Writes the text of `text <target>`, or the last part of `~package.module.name`. Before the target of a cross-reference
/// the space may be missing; in `:file:` and others, `<` belongs to the text.
fn push_reference(plain: &mut String, role: &str, inner: &str) {
    let refers = CROSS_REFERENCES.contains(&role.rsplit(':').next().unwrap_or_default());
    let is_apart = |text: &str| refers || text.ends_with(char::is_whitespace);
    let text = match inner.rsplit_once('<') {
        Some((text, target)) if target.ends_with('>') && is_apart(text) && !text.trim().is_empty() => {
            text.trim_end()
        }
        _ => inner,
    };
    let text = match text.strip_prefix('~') {
        Some(path) => path.rsplit('.').next().unwrap_or(path),
        None => text.strip_prefix('!').unwrap_or(text),
    };
    plain.push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_are_removed() {
        assert_eq!(inline("2 * 3 * 4"), "2 * 3 * 4");
        assert_eq!(inline("re\\ ``x``\\ s"), "rexs");
        assert_eq!(inline(":class:`~a.b.Name` and `text <target>`_"), "Name and text");
        assert_eq!(inline(":ref:`The text<target>`, `<robin>`"), "The text, <robin>");
        assert_eq!(
            inline(":py:class:`The text<target>` `text\n<target>`_"),
            "The text text"
        );
        for text in ["/etc/<name>", "--file=<path>", "List<String>", "#<<INCLUDE>>"] {
            assert_eq!(
                inline(&format!(":file:`{text}` `{text}`")),
                format!("{text} {text}")
            );
        }
    }
}
