//! Lines that open or close a block: admonitions, tabs, containers, callouts and fences.

/// Directives of MyST whose contents are text. Those of others, such as `{python}`, are code.
const TEXT: [&str; 27] = [
    "admonition",
    "attention",
    "card",
    "caution",
    "danger",
    "deprecated",
    "details",
    "dropdown",
    "epigraph",
    "error",
    "glossary",
    "grid",
    "grid-item",
    "grid-item-card",
    "hint",
    "important",
    "note",
    "seealso",
    "sidebar",
    "tab-item",
    "tab-set",
    "tip",
    "todo",
    "topic",
    "versionadded",
    "versionchanged",
    "warning",
];
/// Kinds of admonitions.
const KINDS: [&str; 16] = [
    "abstract",
    "attention",
    "bug",
    "caution",
    "danger",
    "example",
    "failure",
    "hint",
    "important",
    "info",
    "note",
    "question",
    "quote",
    "success",
    "tip",
    "warning",
];
/// Blocks of pymdownx besides admonitions.
const SLASHED: [&str; 6] = ["admonition", "caption", "define", "details", "html", "tab"];
/// The shortest fence.
const MIN_MARKS: usize = 3;

/// The line that opens a listing, by its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    count: usize,
}

impl Fence {
    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let line = bare(line).trim_end();
        line.chars().count() >= self.count && line.chars().all(|c| c == self.mark)
    }

    /// Returns the line that closes it.
    pub(super) fn end(&self) -> String {
        self.mark.to_string().repeat(self.count)
    }
}

/// The line that opens a fence with text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextFence<'a> {
    pub(super) fence: Fence,
    pub(super) title: &'a str,
}

/// Returns a line without its indentation and the marks of a quotation.
fn bare(line: &str) -> &str {
    line.trim_start_matches([' ', '\t', '>'])
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

fn unquoted(title: &str) -> Option<&str> {
    let title = title.trim();
    ['"', '\'']
        .iter()
        .find_map(|quote| title.strip_prefix(*quote)?.strip_suffix(*quote))
}

/// Returns the title of an admonition (`!!! note "Title"`, `??? note`) or tab (`=== "Title"`), whose contents are
/// indented. Without a title it is one if it has a known kind, or if `has_contents`.
pub(super) fn indented(line: &str, has_contents: impl Fn() -> bool) -> Option<&str> {
    let line = line.trim();
    if let Some(tab) = line.strip_prefix("===") {
        return unquoted(tab.trim_start_matches(['!', '+']));
    }
    let after = line.strip_prefix("!!!").or_else(|| line.strip_prefix("???"))?;
    let after = after.trim_start_matches('+');
    let at = after.find(['"', '\'']).unwrap_or(after.len());
    let (kinds, title) = after.split_at(at);
    let has_kinds = !kinds.trim().is_empty() && kinds.split_whitespace().all(is_word);
    if title.is_empty() {
        return (has_kinds && (KINDS.contains(&kinds.trim()) || has_contents())).then_some("");
    }
    unquoted(title).filter(|_| has_kinds)
}

/// Returns the title of a line such as `:::note Title`, which opens or closes a container.
pub(super) fn divided(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = line.trim_start_matches(':');
    if line.len() - rest.len() < MIN_MARKS {
        return None;
    }
    let rest = rest.trim();
    if rest.is_empty() {
        return Some("");
    }
    if let Some((name, title)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        return Some(if TEXT.contains(&name) { title.trim() } else { "" });
    }
    let end = rest
        .find(|c: char| c.is_whitespace() || matches!(c, '[' | '{'))
        .unwrap_or(rest.len());
    let (kind, title) = rest.split_at(end);
    if !is_word(kind) {
        return None;
    }
    let title = title.trim();
    if let Some(title) = title.strip_prefix('[') {
        return Some(title.split_once(']').map_or(title, |(title, _)| title));
    }
    let title = title.split_once('{').map_or(title, |(title, _)| title.trim_end());
    Some(unquoted(title).unwrap_or(title))
}

/// A line with slashes, which opens or closes a block of pymdownx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slashed<'a> {
    /// `/// note | Title`.
    Opens { slashes: usize, title: &'a str },
    /// `///`.
    Closes { slashes: usize },
}

/// Reads a line with slashes. Other words behind them are text, unless they have a title.
pub(super) fn slashed(line: &str) -> Option<Slashed<'_>> {
    let line = line.trim();
    let rest = line.trim_start_matches('/');
    let slashes = line.len() - rest.len();
    if slashes < MIN_MARKS {
        return None;
    }
    if rest.is_empty() {
        return Some(Slashed::Closes { slashes });
    }
    let (kind, title) = rest.split_once('|').unwrap_or((rest, ""));
    let (kind, title) = (kind.strip_prefix(' ')?.trim(), title.trim());
    let is_known = KINDS.contains(&kind) || SLASHED.contains(&kind) || !title.is_empty();
    // The argument of `html` is an element.
    let title = if kind == "html" { "" } else { title };
    (is_word(kind) && is_known).then_some(Slashed::Opens { slashes, title })
}

/// Returns whether a line is an option of a block of pymdownx: `open: true`.
pub(super) fn is_slashed_option(line: &str) -> bool {
    let option = line.trim().split_once(':');
    option.is_some_and(|(name, _)| is_word(name))
}

/// Returns the marks of the quotation and the title of `> [!NOTE] Title`.
pub(super) fn callout(line: &str) -> Option<(&str, &str)> {
    let (quote, rest) = line.split_once("[!")?;
    let (kind, title) = rest.split_once(']')?;
    let is_quote = quote.contains('>') && bare(quote).is_empty();
    let title = title.trim_start_matches(['+', '-']).trim();
    (is_quote && is_word(kind)).then_some((quote.trim_end(), title))
}

/// Returns the fence that a line opens.
pub(super) fn fence(line: &str) -> Option<Fence> {
    let bare = bare(line);
    let mark = bare.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = bare.trim_start_matches(mark);
    let count = bare.len() - rest.len();
    let is_fence = count >= MIN_MARKS && !(mark == '`' && rest.contains('`'));
    is_fence.then_some(Fence { mark, count })
}

/// Returns the fence of a directive that contains text: ```` ```{note} Title ````.
pub(super) fn text_fence(line: &str) -> Option<TextFence<'_>> {
    let fence = fence(line)?;
    let info = bare(line).trim_start_matches(fence.mark).trim();
    let (name, title) = info.strip_prefix('{')?.split_once('}')?;
    let title = title.trim();
    TEXT.contains(&name).then_some(TextFence { fence, title })
}

/// Returns the name of the tab that a fence is shown in: ```` ```yaml tab="File" ````, ```` ```sh [npm] ````.
pub(super) fn tab_of_fence(line: &str) -> Option<&str> {
    if let Some((_, rest)) = line.split_once(" tab=\"") {
        return rest.split_once('"').map(|(tab, _)| tab);
    }
    let (_, name) = line.trim_end().strip_suffix(']')?.split_once(" [")?;
    (!name.is_empty() && !name.contains(['[', ']', '`'])).then_some(name)
}

/// Returns whether a line is an option of the directive before it: `:class: tip`.
pub(super) fn is_option(line: &str) -> bool {
    let option = line
        .trim()
        .strip_prefix(':')
        .and_then(|rest| rest.split_once(':'));
    option.is_some_and(|(name, _)| is_word(name))
}
