//! When two names are the same thing, and the IRI of a name.
//!
//! `Commit Rules`, `commit rule` and `the commit-rule` are one entity; `C++` and `C#` are two. This
//! module knows names, not graphs.

use std::fmt::Write;

use crate::search::lexical::Analyzer;

/// Length in bytes of the longest name: more than any term. A model that returns a sentence as a
/// name is not believed.
pub(super) const MAX_NAME_BYTES: usize = 80;
/// Number of words of a name that count; further words are ignored.
const MAX_WORDS: usize = 8;

/// Prefix of the IRIs of entities.
const ENTITY: &str = "urn:ragwire:entity:";
/// Prefix of the IRIs of predicates.
const RELATION: &str = "urn:ragwire:relation:";

/// Normalizes names: lower case, stemmed, without stop words, accents and hyphens.
#[derive(Debug, Default)]
pub struct Normal {
    analyzer: Analyzer,
}

impl Normal {
    /// The analyzer that normalizes words.
    pub(super) fn analyzer(&self) -> &Analyzer {
        &self.analyzer
    }

    /// The words of a text in their normal form, in order. Words that contain digits or symbols
    /// (`0x1D`, `http/2`, `turn::start`) are only converted to lower case.
    pub fn words(&self, text: &str) -> Vec<String> {
        text.split(|c: char| c.is_whitespace() || matches!(c, '-' | '–' | '—' | '‑'))
            .flat_map(|word| self.word(word))
            .collect()
    }

    /// Returns the form in which two names of one thing are equal. `None` for text that is not a
    /// name: empty, only symbols, or longer than 80 bytes.
    pub fn key(&self, name: &str) -> Option<String> {
        if name.len() > MAX_NAME_BYTES
            || name.contains(char::is_control)
            || !name.contains(char::is_alphanumeric)
        {
            return None;
        }
        let mut words = self.words(name);
        words.truncate(MAX_WORDS);
        // `The Who`: if there are only stop words, they are kept.
        Some(if words.is_empty() {
            name.trim().to_lowercase()
        } else {
            words.join(" ")
        })
    }

    fn word(&self, word: &str) -> Vec<String> {
        let word = bare(word);
        let word = word
            .strip_suffix("'s")
            .or_else(|| word.strip_suffix("’s"))
            .unwrap_or(word);
        let word = word.strip_suffix("()").unwrap_or(word);
        if word.is_empty() {
            return Vec::new();
        }
        if !word.chars().all(char::is_alphabetic) {
            return vec![word.to_lowercase()];
        }
        // `GPUs`: the stemmer takes it for Latin and would keep the `s`.
        let acronym = word
            .strip_suffix('s')
            .filter(|rest| rest.chars().count() > 1 && rest.chars().all(char::is_uppercase));
        match acronym {
            Some(acronym) => vec![acronym.to_lowercase()],
            None => self.analyzer.whole_terms(word),
        }
    }
}

/// Strips the punctuation around a word, but keeps what belongs to names: `C++`, `C#`, `start()`.
pub(super) fn bare(word: &str) -> &str {
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
    let end = |c: char| !c.is_alphanumeric() && !matches!(c, '+' | '#' | '_');
    let trimmed = word.trim_end_matches(end);
    if word[trimmed.len()..].starts_with("()") {
        &word[..trimmed.len() + 2]
    } else {
        trimmed
    }
}

/// Returns the IRI of an entity: `urn:ragwire:entity:commit_rule`. A space becomes `_`; everything
/// except letters, digits, `-`, `.` and `~` is percent-encoded.
pub fn entity_iri(name: &str) -> String {
    iri(ENTITY, name)
}

/// Returns the IRI of a predicate.
pub fn relation_iri(predicate: &str) -> String {
    iri(RELATION, predicate)
}

fn iri(prefix: &str, name: &str) -> String {
    let mut iri = prefix.to_owned();
    for letter in name.chars() {
        match letter {
            ' ' => iri.push('_'),
            '-' | '.' | '~' => iri.push(letter),
            _ if letter.is_alphanumeric() => iri.push(letter),
            _ => {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    // Writing to a string does not fail.
                    let _ = write!(iri, "%{byte:02X}");
                }
            }
        }
    }
    iri
}

/// Returns the name of an entity or predicate from its IRI; `None` for any other text.
pub fn name_of(iri: &str) -> Option<String> {
    let name = iri.strip_prefix(ENTITY).or_else(|| iri.strip_prefix(RELATION))?;
    let (mut bytes, mut rest) = (Vec::with_capacity(name.len()), name.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'_' => bytes.push(b' '),
            b'%' => {
                let digits = after
                    .get(..2)
                    .filter(|two| two.iter().all(u8::is_ascii_hexdigit))?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = after.get(2..)?;
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_one_key() {
        let normal = Normal::default();
        for (key, names) in [
            (
                "commit rule",
                &["commit rule", "Commit Rules", "the commit-rule", "Commit  rule,"][..],
            ),
            ("c++", &["C++", "c++", "(C++)"]),
            ("c#", &["C#", "“C#”"]),
            ("gpu", &["GPU", "GPUs", "GPU's"]),
            ("turn::start", &["Turn::start", "`Turn::start()`"]),
            ("max_turns", &["MAX_TURNS", "max_turns"]),
            ("cafe", &["café", "Cafés"]),
            ("0x1d", &["0x1D"]),
            ("the who", &["The Who"]),
        ] {
            for name in names {
                assert_eq!(normal.key(name).as_deref(), Some(key), "{name}");
            }
        }
        for none in ["", " ", "—", "()", "a\u{1d}b", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert_eq!(normal.key(none), None, "{none:?}");
        }
    }

    #[test]
    fn an_iri_decodes_to_its_name() {
        for (name, iri) in [
            ("commit rule", "urn:ragwire:entity:commit_rule"),
            ("max_turns", "urn:ragwire:entity:max%5Fturns"),
            ("C++ <b>", "urn:ragwire:entity:C%2B%2B_%3Cb%3E"),
            ("naïve", "urn:ragwire:entity:naïve"),
        ] {
            assert_eq!(entity_iri(name), iri);
            assert_eq!(name_of(iri).as_deref(), Some(name));
        }
        assert_eq!(relation_iri("is_a"), "urn:ragwire:relation:is%5Fa");
        for none in [
            "",
            "commit rule",
            "http://example.org/a",
            "urn:ragwire:entity:%",
            "urn:ragwire:entity:%zz",
            "urn:ragwire:entity:%FF",
        ] {
            assert_eq!(name_of(none), None, "{none}");
        }
    }
}
