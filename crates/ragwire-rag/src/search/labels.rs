//! Labels of references and specifications that have more than the name of what they are about: a code or a kind.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

/// What rustdoc, Javadoc and other references put before a name.
const KINDS: [&str; 20] = [
    "Attribute Macro ",
    "Attribute ",
    "Class ",
    "Command ",
    "Constant ",
    "Derive Macro ",
    "Enum ",
    "Function ",
    "Interface ",
    "Macro ",
    "Method ",
    "Module ",
    "Namespace ",
    "Package ",
    "Primitive Type ",
    "Static ",
    "Struct ",
    "Trait ",
    "Type Alias ",
    "Type ",
];
/// The fewest digits of a code. Numbers of two digits count things.
const MIN_CODE_DIGITS: usize = 3;
/// Within so many words a label has its code.
const CODE_WITHIN: usize = 3;
/// Stems of what a code may be called.
const NAMES_OF_CODES: [&str; 8] = [
    "code", "error", "exit", "fehl", "http", "messag", "respons", "status",
];

/// What the part of a page is called that says what the page is about, in lower case.
const INTRODUCTIONS: [&str; 22] = [
    "about",
    "abstract",
    "background",
    "basics",
    "beschreibung",
    "definition",
    "description",
    "descripción",
    "descrizione",
    "einführung",
    "einleitung",
    "general",
    "intro",
    "introducción",
    "introduction",
    "introduzione",
    "overview",
    "présentation",
    "purpose",
    "summary",
    "what is it?",
    "überblick",
];
/// What is between the title of a page and the name of its site.
const BEFORE_SITE: [&str; 4] = [" | ", " — ", " – ", " · "];

/// Returns the title of a page without the name of its site: `Robins` of `Robins — The garden`.
pub(super) fn without_site(title: &str) -> &str {
    let ends = BEFORE_SITE.iter().filter_map(|between| title.find(between));
    &title[..ends.min().unwrap_or(title.len())]
}

/// Returns whether a label is that of the part of a page that says what the page is about.
pub(super) fn is_introduction(label: &str) -> bool {
    let label = label.trim().to_lowercase();
    INTRODUCTIONS.contains(&label.as_str())
}

/// Returns whether a label begins with a code that is the subject of a question: `10.4.10 409 Conflict`.
pub(super) fn begins_with_code(label: &str, subject: &HashSet<String>) -> bool {
    // The number of the section, or `error`, may come before it.
    let words = label.unicode_words().map(str::to_lowercase);
    let code = words
        .take(CODE_WITHIN)
        .find(|word| subject.contains(word) && is_code(word));
    let others = |code: &str| {
        let mut others = subject.iter().filter(|stem| *stem != code);
        others.all(|stem| NAMES_OF_CODES.contains(&stem.as_str()))
    };
    code.is_some_and(|code| others(&code))
}

/// Returns the name in a label that says of what kind it is, as in references: `Vec` of `Struct Vec`.
pub(super) fn without_kind(label: &str) -> &str {
    let name = KINDS.iter().find_map(|kind| label.strip_prefix(kind));
    match name.filter(|name| !name.contains(' ')) {
        Some(name) => name.split('<').next().unwrap_or_default(),
        None => label,
    }
}

/// Returns whether a word is a code, such as `409` or `E0382`.
fn is_code(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    digits >= MIN_CODE_DIGITS && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_ends_before_the_site() {
        for (title, name) in [
            ("Robins — The garden", "Robins"),
            ("Robins | Birds — The garden", "Robins"),
            ("Self-made", "Self-made"),
            ("", ""),
        ] {
            assert_eq!(without_site(title), name);
        }
    }

    #[test]
    fn an_introduction_is_known_by_its_label() {
        for (label, is) in [
            ("Overview", true),
            ("EINLEITUNG ", true),
            ("Overview of birds", false),
        ] {
            assert_eq!(is_introduction(label), is, "{label}");
        }
    }
}
