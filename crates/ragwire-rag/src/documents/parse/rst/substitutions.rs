//! Names between bars, such as `|project|`, for which a document defines a text or an image.

/// How many definitions are read, and how long their texts may be in bytes: they are names of products and versions.
const MAX_DEFINITIONS: usize = 50;
const MAX_BYTES: usize = 120;
/// How many lines the options of an image have.
const MAX_OPTION_LINES: usize = 20;
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
        let lines: Vec<&str> = text.lines().collect();
        let definition = |at: usize| {
            let (name, rest) = lines[at].trim().strip_prefix(".. |")?.split_once('|')?;
            let rest = rest.trim_start();
            let value = match rest.strip_prefix("replace::") {
                Some(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty())?,
                // An image is what it says instead, or nothing.
                None => rest
                    .strip_prefix("image::")
                    .map(|_| alternative(&lines[at + 1..]))?,
            };
            let fits = !name.is_empty() && name.len().max(value.len()) <= MAX_BYTES;
            fits.then(|| (format!("|{name}|"), value))
        };
        let definitions = (0..lines.len()).filter_map(definition);
        Self {
            texts: definitions.take(MAX_DEFINITIONS).collect(),
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

/// Returns the text of the option `alt` of a directive, whose options are in these lines. It may have several lines. A text
/// that is too long describes a picture and not a word.
fn alternative(lines: &[&str]) -> String {
    let options = lines.iter().take(MAX_OPTION_LINES).map(|line| line.trim_end());
    let options = options.take_while(|line| line.starts_with([' ', '\t']));
    let mut text = String::new();
    let mut is_open = false;
    for line in options.map(str::trim_start) {
        let alternative = line.strip_prefix(":alt:");
        is_open = alternative.is_some() || (is_open && !line.starts_with(':'));
        if is_open {
            text.push_str(alternative.unwrap_or(line).trim());
            text.push(' ');
        }
        if text.len() > MAX_BYTES {
            return String::new();
        }
    }
    text.trim_end().to_owned()
}
