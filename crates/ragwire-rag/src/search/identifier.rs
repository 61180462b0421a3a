//! The name of an option, setting or function that a question is about.

use super::asked::MAX_LABEL_BYTES;
use super::lexicon::GENERIC_NOUNS;
use super::lines::names_option;

/// A name that is not a word of the language: `max_size`, `--depth`, `maxAge`. In lower case.
#[derive(Debug, Clone)]
pub(crate) struct Identifier {
    name: String,
    /// What it names within a class or module: `addfirst` of `deque.addfirst`.
    member: Option<String>,
}

impl Identifier {
    /// Returns the identifier that a question is about: its only option, otherwise its only other name. Words with a
    /// hyphen or a point, which may be of the language, count if no other word is a name.
    pub(crate) fn of(question: &str) -> Option<Self> {
        let words = || {
            question
                .split_whitespace()
                .map(|word| word.trim_matches(is_beside_name))
        };
        let kinds: [fn(&str) -> bool; 3] = [is_option, is_name, is_joined];
        let is_of_kind = kinds.into_iter().find(|is_of_kind| words().any(is_of_kind))?;
        let mut names = words().filter(|word| is_of_kind(word));
        let word = names.next()?;
        names.next().is_none().then(|| Self {
            name: word.to_ascii_lowercase(),
            member: qualified(word).map(|(_, member)| member.to_ascii_lowercase()),
        })
    }

    /// Returns whether it names something within a class or module.
    pub(crate) fn has_member(&self) -> bool {
        self.member.is_some()
    }

    /// Returns whether it is the whole text.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.name == text.trim()
    }

    /// Returns whether a text has it as a whole word.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        let is_whole = |word: &str| word.eq_ignore_ascii_case(&self.name);
        // `json.dumps(obj)` begins with it.
        let words = text.split(|letter: char| letter.is_whitespace() || "([{=,:;".contains(letter));
        words.map(|word| word.trim_matches(is_beside_name)).any(is_whole)
    }

    /// Returns whether a short line is this name, alone or with its type or value: `max_size (integer)`,
    /// `-o <file> --output=<file>`. Its description is below the line.
    pub(crate) fn is_named_by(&self, label: &str) -> bool {
        // `--[no-]color` names two options.
        let (own, label) = if label.contains("[no-]") {
            (self.name.replace("--no-", "--"), label.replace("[no-]", ""))
        } else {
            (self.name.clone(), label.to_owned())
        };
        let label = without_number(&label);
        if label.len() > MAX_LABEL_BYTES {
            return false;
        }
        let is_member = |name: &str| {
            let member = self.member.as_deref();
            member.is_some_and(|member| name.eq_ignore_ascii_case(member))
        };
        let is_own = |name: &str| name.eq_ignore_ascii_case(&own) || is_member(name);
        if names_option(label) {
            let names = label.split_whitespace().filter(|word| word.starts_with('-'));
            return names.map(first_name).any(is_own);
        }
        let name = first_name(label);
        let rest = label.split_once(name).map_or("", |(_, rest)| rest.trim_start());
        let is_alone = rest.is_empty()
            || rest.starts_with(['(', '<', '[', '=', ':', ','])
            || GENERIC_NOUNS.contains(&rest.to_lowercase().as_str());
        is_own(name) && is_alone
    }
}

/// Returns a heading without its number: `2.1. Robins`. The digits of `2fa_code` are part of the name.
pub(super) fn without_number(heading: &str) -> &str {
    let heading = heading.trim_start();
    let rest = heading.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    if rest.starts_with(char::is_whitespace) {
        rest.trim_start()
    } else {
        heading
    }
}

/// Returns whether a label is of something in a program: `maxAge`, `fromMaybe :: a -> Maybe a -> a`.
pub(crate) fn has_identifier(label: &str) -> bool {
    let name = first_name(without_number(label));
    is_option(name) || is_name(name)
}

/// Returns the first word of a label without what is around a name: `--depth` of `--depth <depth>`.
fn first_name(label: &str) -> &str {
    let end = label.find(|letter: char| letter.is_whitespace() || "([=:,|".contains(letter));
    label[..end.unwrap_or(label.len())].trim_matches(is_beside_name)
}

fn is_beside_name(letter: char) -> bool {
    !letter.is_alphanumeric() && !"_-".contains(letter)
}

/// Returns the class or module of a qualified name, and what it names there: `Deque.addFirst`. A member that is a word of
/// the language is left with its module, as in `json.dumps` and `settings.py`.
pub(super) fn qualified(word: &str) -> Option<(&str, &str)> {
    word.rsplit_once('.')
        .filter(|(of, member)| !of.is_empty() && is_name(member))
}

/// Returns whether a word is an option of a program: `-j`, `--depth`.
fn is_option(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    (1..=2).contains(&(word.len() - name.len())) && name.starts_with(char::is_alphabetic)
}

/// Returns whether a word is the name of something in a program: `worker_threads`, `maxAge`.
fn is_name(word: &str) -> bool {
    let inner = word.trim_matches('_');
    let mut pairs = word.chars().zip(word.chars().skip(1));
    inner.contains('_') || pairs.any(|(one, next)| one.is_lowercase() && next.is_uppercase())
}

/// Returns whether letters are joined by a hyphen or a point: `allow-query`, `core.editor`.
fn is_joined(word: &str) -> bool {
    let letters: Vec<char> = word.chars().collect();
    letters.windows(3).any(|three| {
        let [before, mark, after] = three else {
            return false;
        };
        before.is_alphanumeric() && matches!(mark, '-' | '.') && after.is_alphabetic()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_an_identifier_as_a_whole_word() {
        let identifier = Identifier::of("json.dumps turns my umlauts into codes").unwrap();
        for (text, has) in [
            ("Use json.dumps(obj) for it.", true),
            ("See `JSON.dumps`, and others.", true),
            ("my_json.dumps(obj)", false),
            ("json.dumpster", false),
        ] {
            assert_eq!(identifier.is_in(text), has, "{text}");
        }
    }

    #[test]
    fn a_label_may_be_of_something_in_a_program() {
        for (label, wanted) in [
            ("fromMaybe :: a -> Maybe a -> a", true),
            ("3.4. max_feathers (integer)", true),
            ("--depth <depth>", true),
            ("BM25", false),
            ("The commit rule", false),
        ] {
            assert_eq!(has_identifier(label), wanted, "{label}");
        }
    }

    #[test]
    fn a_label_names_the_only_identifier_of_a_question() {
        let cases = [
            ("default max_feathers", "max_feathers (integer)", true),
            ("default max_feathers", "3.4. max_feathers", true),
            ("what is the default of max_feathers?", "max_feathers", true),
            ("how long may `--depth` be", "--depth <depth>", true),
            ("which values has maxAge", "maxAge=<seconds>", true),
            ("default maxAge", "maxAge 20", false),
            ("default allow-query", "allow-query", true),
            ("default core.editor", "core.editor", true),
            ("what does --jobs do in pg_dump", "-j njobs --jobs=njobs", true),
            ("what does pg_dump -j do", "-j njobs --jobs=njobs", true),
            ("what does pg_dump -j do", "-J njobs", true),
            ("what does pg_dump -j do", "-v --verbose", false),
            // A word with an underscore is a name for sure, and one with a hyphen may be a word.
            ("default max_feathers in read-only mode", "max_feathers", true),
            ("where can i use AuthName", "AuthName Directive", true),
            ("default --no-color", "--[no-]color", true),
            ("default --color", "--[no-]color", true),
            ("default --no-color", "--color", false),
            ("default max_feathers", "max_owls (integer)", false),
            ("default max_feathers and max_owls", "max_owls", false),
            ("default 2fa_code", "2fa_code (text)", true),
            ("exceptions of Deque.addFirst", "addFirst", true),
            ("exceptions of Deque.addFirst", "Deque.addFirst(E e)", true),
            ("exceptions of Deque.addFirst", "addLast", false),
            ("default of core.editor", "editor", false),
            ("default feathers", "feathers", false),
        ];
        for (question, label, wanted) in cases {
            let identifier = Identifier::of(question);
            let is_named = identifier.is_some_and(|identifier| identifier.is_named_by(label));
            assert_eq!(is_named, wanted, "{question} {label}");
        }
    }
}
