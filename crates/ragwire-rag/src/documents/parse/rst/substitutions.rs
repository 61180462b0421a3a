//! Names between bars, such as `|project|`, for which a document defines a text or an image.

/// How many definitions are read, and how long their texts may be in bytes: they are names of products and versions.
const MAX_DEFINITIONS: usize = 50;
const MAX_BYTES: usize = 120;
/// How much longer all of them make a document, in bytes.
const MAX_GROWTH_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Substitutions {
    /// The names, with their bars, and the texts.
    texts: Vec<(String, String)>,
    /// How much longer the document may become, in bytes.
    room: usize,
}

impl Substitutions {
    /// Reads the definitions of a document.
    pub(super) fn of(text: &str) -> Self {
        let definition = |line: &str| {
            let (name, rest) = line.trim().strip_prefix(".. |")?.split_once('|')?;
            let rest = rest.trim_start();
            // An image has no text.
            let value = match rest.strip_prefix("replace::") {
                Some(text) => Some(text.trim()).filter(|text| !text.is_empty())?,
                None => rest.strip_prefix("image::").map(|_| "")?,
            };
            let fits = !name.is_empty() && name.len().max(value.len()) <= MAX_BYTES;
            fits.then(|| (format!("|{name}|"), value.to_owned()))
        };
        Self {
            texts: text
                .lines()
                .filter_map(definition)
                .take(MAX_DEFINITIONS)
                .collect(),
            room: MAX_GROWTH_BYTES,
        }
    }

    /// Returns a text with the defined texts in place of their names.
    pub(super) fn apply(&mut self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('|').filter(|_| !self.texts.is_empty()) {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            let known = self
                .texts
                .iter()
                .find(|(name, _)| rest.starts_with(name.as_str()));
            match known.filter(|(_, value)| value.len() <= self.room) {
                Some((name, value)) => {
                    plain.push_str(value);
                    self.room -= value.len();
                    rest = &rest[name.len()..];
                }
                None => {
                    plain.push('|');
                    rest = &rest[1..];
                }
            }
        }
        plain.push_str(rest);
        plain
    }
}
