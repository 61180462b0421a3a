//! Names between bars, such as `|project|`, for which a document defines a text.

/// How many definitions are read, and how long their texts may be in bytes: they are names of products and versions.
const MAX_DEFINITIONS: usize = 50;
const MAX_BYTES: usize = 120;
/// How much longer all of them make a document, in bytes.
const MAX_GROWTH_BYTES: usize = 64 * 1024;

/// Returns a document with the texts that it defines in place of their names.
pub(super) fn substituted(text: &str) -> String {
    let definition = |line: &'_ str| {
        let (name, rest) = line.trim().strip_prefix(".. |")?.split_once('|')?;
        let value = rest.trim_start().strip_prefix("replace::")?.trim();
        let fits = !name.is_empty() && !value.is_empty() && name.len().max(value.len()) <= MAX_BYTES;
        fits.then(|| (format!("|{name}|"), value.to_owned()))
    };
    let definitions: Vec<(String, String)> = text
        .lines()
        .filter_map(definition)
        .take(MAX_DEFINITIONS)
        .collect();
    if definitions.is_empty() {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len());
    let mut growth = 0;
    for line in text.split_inclusive('\n') {
        let is_definition = line.trim_start().starts_with(".. |");
        let mut rest = line;
        while let Some(at) = rest
            .find('|')
            .filter(|_| growth < MAX_GROWTH_BYTES && !is_definition)
        {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            match definitions
                .iter()
                .find(|(name, _)| rest.starts_with(name.as_str()))
            {
                Some((name, value)) => {
                    plain.push_str(value);
                    rest = &rest[name.len()..];
                    growth += value.len();
                }
                None => {
                    plain.push('|');
                    rest = &rest[1..];
                }
            }
        }
        plain.push_str(rest);
    }
    plain
}
