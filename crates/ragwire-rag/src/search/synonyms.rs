//! Other words for a word that the library does not have, and for verbs of several words, such as
//! `turn off`.
//!
//! A word that the library has is never replaced: of 148 questions about eight libraries, such groups
//! gained as many first places as they lost (see `docs/decisions/search.md`). A word that it does not
//! have finds nothing and is a reason to refuse, so another word for it can only help.

use std::borrow::Cow;

/// Words of which each can replace each other, in their base forms.
const GROUPS: [&[&str]; 33] = [
    &[
        "remove",
        "delete",
        "erase",
        "discard",
        "uninstall",
        "purge",
        "drop",
    ],
    &["disable", "deactivate"],
    &["enable", "activate"],
    &["publish", "deploy", "release"],
    &["create", "make", "generate", "add"],
    &[
        "change",
        "modify",
        "edit",
        "alter",
        "adjust",
        "customize",
        "customise",
    ],
    &["show", "display", "print", "view"],
    &["start", "launch", "run", "begin", "boot"],
    &["stop", "end", "quit", "terminate", "halt", "kill"],
    &["error", "failure", "problem", "issue", "bug", "fault"],
    &["speed", "performance", "throughput"],
    &["fast", "quick", "rapid"],
    &["price", "cost", "fee", "expensive"],
    &["picture", "image", "photo", "figure"],
    &["folder", "directory"],
    &["login", "authentication", "authenticate", "password"],
    &["passphrase", "password", "credential"],
    &["fix", "repair", "correct", "resolve"],
    &["copy", "duplicate", "clone"],
    &["allow", "permit"],
    &["forbid", "prohibit", "deny", "reject", "block"],
    &["needed", "required", "necessary", "prerequisite"],
    &["tutorial", "quickstart", "introduction"],
    &["vulnerability", "security"],
    &["multiple", "several", "many"],
    &["maximum", "limit", "largest", "max"],
    &["minimum", "least", "smallest", "min"],
    &["choose", "select", "pick"],
    &["check", "verify", "validate"],
    &["restore", "recover", "extract"],
    &["upgrade", "update"],
    &["compatible", "supported"],
    &["explain", "describe"],
];
/// The same word in two spellings. The library may have both.
const SPELLINGS: [(&str, &str); 24] = [
    ("licence", "license"),
    ("colour", "color"),
    ("behaviour", "behavior"),
    ("favourite", "favorite"),
    ("centre", "center"),
    ("catalogue", "catalog"),
    ("analyse", "analyze"),
    ("organise", "organize"),
    ("customise", "customize"),
    ("initialise", "initialize"),
    ("serialise", "serialize"),
    ("synchronise", "synchronize"),
    ("optimise", "optimize"),
    ("normalise", "normalize"),
    ("cancelled", "canceled"),
    ("labelled", "labeled"),
    ("htm", "html"),
    ("jpg", "jpeg"),
    ("max", "maximum"),
    ("min", "minimum"),
    ("mpg", "mpeg"),
    ("regexp", "regex"),
    ("tif", "tiff"),
    ("yml", "yaml"),
];
/// Abbreviations that users type, with what documents have in full. Not the other way round: `dir` is the name of
/// an element, and an `arg` is part of listings.
const ABBREVIATIONS: [(&str, &str); 23] = [
    ("addr", "address"),
    ("admin", "administrator"),
    ("app", "application"),
    ("arg", "argument"),
    ("attr", "attribute"),
    ("auth", "authentication"),
    ("cert", "certificate"),
    ("char", "character"),
    ("cmd", "command"),
    ("config", "configuration"),
    ("creds", "credential"),
    ("db", "database"),
    ("dir", "directory"),
    ("env", "environment"),
    ("err", "error"),
    ("func", "function"),
    ("img", "image"),
    ("lib", "library"),
    ("msg", "message"),
    ("param", "parameter"),
    ("pic", "picture"),
    ("pkg", "package"),
    ("repo", "repository"),
];
/// Verbs of two words, of which the index drops the second as a stop word or the first says nothing, with
/// other words for both.
const VERBS: [(&str, &str, &[&str]); 18] = [
    ("rid", "of", &["remove", "delete", "uninstall"]),
    ("turn", "off", &["disable", "deactivate"]),
    ("turn", "on", &["enable", "activate"]),
    ("switch", "off", &["disable", "deactivate"]),
    ("switch", "on", &["enable", "activate"]),
    ("turned", "off", &["disable", "deactivate"]),
    ("turned", "on", &["enable", "activate"]),
    ("throw", "away", &["discard", "delete", "drop"]),
    ("log", "in", &["login", "authenticate"]),
    ("log", "out", &["logout"]),
    ("sign", "in", &["login", "authenticate"]),
    ("back", "up", &["backup"]),
    ("set", "up", &["setup", "configure", "install"]),
    ("shut", "down", &["shutdown", "stop"]),
    ("speed", "up", &["faster", "performance"]),
    ("look", "up", &["lookup", "find"]),
    ("roll", "back", &["rollback", "revert"]),
    ("start", "over", &["reset", "restart"]),
];
/// Endings that a word may have beside its base form, with what replaces them.
const ENDINGS: [(&str, &str); 8] = [
    ("", ""),
    ("s", ""),
    ("es", ""),
    ("ed", ""),
    ("ing", ""),
    ("d", ""),
    ("ing", "e"),
    ("ies", "y"),
];

/// The letters of an ending that a name may have where it is written in another alphabet: `дебиане`.
const MAX_ENDING_LETTERS: usize = 2;
/// The fewest letters that are left of such a name.
const MIN_NAME_LETTERS: usize = 4;

/// Returns other words for one that the library does not have, in lower case: [`synonyms`], and for a word in
/// Cyrillic or Greek letters the Latin name that it may be, such as `debian` for `дебиане`.
pub(crate) fn other_words(word: &str) -> Vec<Cow<'static, str>> {
    let mut words: Vec<Cow<'static, str>> = synonyms(word).into_iter().map(Cow::Borrowed).collect();
    if !word.is_empty() && word.chars().all(|letter| matches!(letter, '\u{370}'..='\u{52f}')) {
        let letters: Vec<char> = word.chars().collect();
        for kept in (0..=MAX_ENDING_LETTERS).filter_map(|ending| letters.len().checked_sub(ending)) {
            if kept >= MIN_NAME_LETTERS {
                let name: String = letters[..kept].iter().collect();
                let latin = deunicode::deunicode(&name).to_lowercase();
                words.extend([latin.replace("ks", "x"), latin].map(Cow::Owned));
            }
        }
    }
    words
}

/// Returns other spellings of a word in lower case, in base forms, and what it abbreviates. They count as the same
/// word.
pub(crate) fn spellings(word: &str) -> Vec<&'static str> {
    let bases = bases(word);
    let is_base = |known: &str| bases.iter().any(|base| base == known);
    let mut found: Vec<&'static str> = Vec::new();
    for (one, other) in SPELLINGS {
        if is_base(one) {
            found.push(other);
        } else if is_base(other) {
            found.push(one);
        }
    }
    let in_full = ABBREVIATIONS.iter().filter(|(short, _)| is_base(short));
    found.extend(in_full.map(|(_, full)| *full));
    found
}

/// Returns the base forms that a word may have.
fn bases(word: &str) -> Vec<String> {
    let base = |(ending, base): &(&str, &str)| Some(format!("{}{base}", word.strip_suffix(ending)?));
    ENDINGS.iter().filter_map(base).collect()
}

/// Returns other words for one that the library does not have, in lower case, in base forms.
fn synonyms(word: &str) -> Vec<&'static str> {
    let bases = bases(word);
    let is_base = |known: &str| bases.iter().any(|base| base == known);
    let mut found: Vec<&'static str> = Vec::new();
    for group in GROUPS
        .iter()
        .filter(|group| group.iter().any(|known| is_base(known)))
    {
        found.extend(group.iter().filter(|other| !is_base(other)));
    }
    found
}

/// Returns other words for a verb of two words.
pub(crate) fn verb_synonyms(first: &str, second: &str) -> &'static [&'static str] {
    let same = |(one, other, _): &&(&str, &str, &[&str])| {
        one.eq_ignore_ascii_case(first) && other.eq_ignore_ascii_case(second)
    };
    VERBS.iter().find(same).map_or(&[], |(_, _, others)| others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_are_found_by_any_form() {
        assert!(synonyms("publishing").contains(&"deploy"));
        assert!(synonyms("folders").contains(&"directory"));
        assert!(synonyms("deleted").contains(&"remove"));
        assert!(synonyms("removing").contains(&"delete"));
        assert_eq!(spellings("licences"), ["license"]);
        assert_eq!(spellings("configs"), ["configuration"]);
        assert!(spellings("configuration").is_empty());
        assert_eq!(spellings("jpeg"), ["jpg"]);
        assert!(spellings("owl").is_empty());
        assert_eq!(synonyms("owl"), Vec::<&str>::new());
        assert_eq!(verb_synonyms("Turn", "off"), ["disable", "deactivate"]);
        assert!(verb_synonyms("turn", "around").is_empty());
        assert!(other_words("дебиане").contains(&"debian".into()));
        assert!(other_words("линукса").contains(&"linux".into()));
        assert_eq!(other_words("owl"), Vec::<Cow<'_, str>>::new());
    }
}
