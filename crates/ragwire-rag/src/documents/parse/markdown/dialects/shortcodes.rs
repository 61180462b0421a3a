//! Shortcodes of Hugo, `{{< name "value" key="value" >}}`, and the tags of Jekyll and GitBook, `{% name %}`.

/// The longest shortcode in bytes.
const MAX_BYTES: usize = 2_000;
/// How a shortcode begins and ends.
const MARKS: [(&str, &str); 3] = [("{{<", ">}}"), ("{{%", "%}}"), ("{%", "%}")];
/// Arguments that the reader sees.
const SHOWN: [&str; 10] = [
    "title",
    "caption",
    "text",
    "label",
    "heading",
    "summary",
    "content",
    "description",
    "msg",
    "message",
];
/// An argument that is shown if there is nothing else, such as the word that a glossary explains.
const WORD: &str = "term_id";
/// Shortcodes whose value is shown in a line of text, even without quotes: keys and marks.
const WORDS: [&str; 9] = [
    "abbr",
    "accesskey",
    "badge",
    "button",
    "kbd",
    "key",
    "label",
    "mark",
    "term",
];
/// Shortcodes whose first value is the title of what they contain.
const TITLED: [&str; 9] = [
    "accordion",
    "card",
    "collapse",
    "details",
    "example",
    "expand",
    "step",
    "tab",
    "tabitem",
];
/// Shortcodes whose contents are code.
const LISTINGS: [&str; 2] = ["highlight", "mermaid"];
/// The longest value without a blank that is shown alone, such as a version: longer ones are names of videos and files.
const MAX_VALUE_BYTES: usize = 8;
/// The longest value that is shown in a line of text.
const MAX_WORD_BYTES: usize = 60;

/// A shortcode or tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shortcode<'a> {
    pub(super) name: &'a str,
    pub(super) is_end: bool,
    arguments: &'a str,
    is_tag: bool,
    /// How long it is, in bytes.
    pub(super) length: usize,
}

impl<'a> Shortcode<'a> {
    /// Returns whether a text begins as a shortcode does.
    pub(super) fn begins(text: &str) -> bool {
        MARKS.iter().any(|(begin, _)| text.starts_with(begin))
    }

    /// Returns the shortcode that a text begins with.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (begin, end) = MARKS.iter().find(|(begin, _)| text.starts_with(begin))?;
        let within = &text[begin.len()..text.floor_char_boundary(MAX_BYTES)];
        let at = within.find(end)?;
        let inner = within[..at].trim().trim_matches('-').trim();
        let (is_end, inner) = inner
            .strip_prefix('/')
            .map_or((false, inner), |inner| (true, inner));
        let inner = inner.trim_end_matches('/').trim();
        let (name, arguments) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
        let name_of_end = begin
            .starts_with("{%")
            .then(|| name.strip_prefix("end"))
            .flatten();
        Some(Self {
            name: name_of_end.unwrap_or(name),
            is_end: is_end || name_of_end.is_some(),
            arguments,
            is_tag: *begin == "{%",
            length: begin.len() + at + end.len(),
        })
    }

    /// Returns whether what follows is code.
    pub(super) fn opens_listing(&self) -> bool {
        !self.is_end && LISTINGS.contains(&self.name)
    }

    /// Returns what is before the end of a shortcode with which a line ends.
    pub(super) fn closing_at_end<'b>(line: &'b str, name: &str) -> Option<&'b str> {
        let line = line.trim_end();
        let at = line.rfind("{{").or_else(|| line.rfind("{%"))?;
        let last = Shortcode::parse(&line[at..])?;
        (last.is_end && last.name == name && at + last.length == line.len()).then(|| &line[..at])
    }

    /// Returns the language of the code that follows.
    pub(super) fn language(&self) -> &'a str {
        self.arguments.split_whitespace().next().unwrap_or_default()
    }

    /// Returns what the reader sees of it, in a line by itself or before further text.
    pub(super) fn shown(&self, is_alone: bool, after: &str) -> String {
        if self.is_end {
            return String::new();
        }
        if self.arguments.is_empty() {
            // A badge such as `{{<required>}}`. In a line by itself it opens something, or is replaced by a list.
            let after = &after[..after.floor_char_boundary(MAX_BYTES)];
            let opens =
                after.contains(&format!("/{}", self.name)) || after.contains(&format!("/ {}", self.name));
            let is_badge = !is_alone && !opens && !self.is_tag;
            return if is_badge {
                self.name.to_owned()
            } else {
                String::new()
            };
        }
        let named: Vec<&str> = SHOWN.iter().filter_map(|name| self.named(name)).collect();
        if !named.is_empty() || self.is_tag {
            return named.join(": ");
        }
        let title = self.named("name").filter(|_| TITLED.contains(&self.name));
        let shown = title
            .or_else(|| self.value(is_alone))
            .or_else(|| self.named(WORD));
        shown
            .filter(|shown| !is_address(shown))
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns the first argument if it has no name and the reader sees it.
    fn value(&self, is_alone: bool) -> Option<&'a str> {
        if !is_alone && WORDS.contains(&self.name) {
            return Some(quoted(self.arguments).unwrap_or(self.arguments));
        }
        let value = quoted(self.arguments)?;
        let is_shown = if is_alone {
            TITLED.contains(&self.name)
                || value.contains(' ')
                || value.len() <= MAX_VALUE_BYTES && is_version(value)
        } else {
            // `{{% param "version" %}}` shows the value of a key.
            value.len() <= MAX_WORD_BYTES && !self.name.contains("param")
        };
        is_shown.then_some(value)
    }

    /// Returns the value of a named argument.
    fn named(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.arguments;
        while let Some(at) = rest.find(name) {
            let is_begin = rest[..at].chars().next_back().is_none_or(char::is_whitespace);
            rest = &rest[at + name.len()..];
            if is_begin && let Some(value) = rest.strip_prefix('=') {
                return quoted(value).filter(|value| !value.is_empty());
            }
        }
        None
    }
}

/// Returns the quoted value that a text begins with.
fn quoted(text: &str) -> Option<&str> {
    let quote = text
        .chars()
        .next()
        .filter(|c| matches!(c, '"' | '\'' | '`' | '“'))?;
    let rest = &text[quote.len_utf8()..];
    let end = if quote == '“' { '”' } else { quote };
    rest.split_once(end).map(|(value, _)| value)
}

fn is_version(value: &str) -> bool {
    value
        .trim_start_matches('v')
        .starts_with(|c: char| c.is_ascii_digit())
}

/// Returns whether a value is a path or an address.
fn is_address(value: &str) -> bool {
    !value.contains(' ') && value.contains(['/', '#'])
}
