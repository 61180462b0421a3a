//! The lines of YAML or TOML before a Markdown document.
//!
//! Only what a search can use is read, and only plain values and lists of them: a parser for all of
//! YAML would be larger than the rest of this module's users together.

use serde::{Deserialize, Serialize};

/// The most tags that are kept.
const MAX_TAGS: usize = 32;
/// The longest value that is kept, in bytes.
const MAX_VALUE_BYTES: usize = 1_000;

/// What a document says about itself before its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FrontMatter {
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is about, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its day, as `2026-01-31`, or less of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Its tags, categories and keywords.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl FrontMatter {
    /// Returns whether the document says nothing about itself.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the text between the marks.
    pub(super) fn parse(text: &str) -> Self {
        let mut found = Self::default();
        let mut list_of_tags = false;
        for line in text.lines() {
            if let Some(item) = line.trim_start().strip_prefix("- ") {
                if list_of_tags {
                    found.add_tags(item);
                }
                continue;
            }
            let Some(colon) = line.find([':', '=']) else {
                continue;
            };
            let (key, value) = (line[..colon].trim(), line[colon + 1..].trim());
            // Nested keys belong to something else.
            if line.starts_with([' ', '\t']) {
                continue;
            }
            list_of_tags = matches!(key, "tags" | "categories" | "keywords");
            match key {
                "title" => found.title = plain(value),
                "description" | "summary" => found.description = plain(value),
                "date" | "lastmod" | "last_modified" if found.date.is_none() => {
                    found.date = plain(value).filter(|date| date.starts_with(|c: char| c.is_ascii_digit()));
                    if let Some(date) = &mut found.date {
                        date.truncate(date.floor_char_boundary("2026-01-31".len()));
                    }
                }
                _ if list_of_tags => found.add_tags(value),
                _ => {}
            }
        }
        found
    }

    fn add_tags(&mut self, values: &str) {
        let values = values.trim_start_matches('[').trim_end_matches(']').split(',');
        let new = values.filter_map(plain).filter(|tag| !tag.is_empty());
        self.tags.extend(new);
        self.tags.truncate(MAX_TAGS);
    }
}

/// Returns a value without its quotation marks, or `None` if it is empty, long or not plain.
fn plain(value: &str) -> Option<String> {
    let value = value.trim();
    let value = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .or_else(|| value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')))
        .unwrap_or(value);
    let is_plain = !value.is_empty() && value.len() <= MAX_VALUE_BYTES && !value.contains(char::is_control);
    (is_plain && !matches!(value, "|" | ">" | "|-" | ">-")).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_values_and_lists_are_read() {
        let yaml = "title: \"Rate limits: all\"\ndate: 2026-01-31T10:00:00Z\ntags: [Web, 'api']\nauthor:\n  title: Editor\n\
                    categories:\n  - guides\n- http\ndescription: >\n  folded";
        let found = FrontMatter::parse(yaml);
        assert_eq!(found.title.as_deref(), Some("Rate limits: all"));
        assert_eq!(found.date.as_deref(), Some("2026-01-31"));
        assert_eq!(found.tags, ["Web", "api", "guides", "http"]);
        assert_eq!(found.description, None);
        let toml = "title = \"Limits\"\ntags = [\"a\", \"b\"]";
        let found = FrontMatter::parse(toml);
        assert_eq!((found.title.as_deref(), found.tags.len()), (Some("Limits"), 2));
        assert!(FrontMatter::parse("nothing\n: of it\n").is_empty());
    }
}
