//! What kind of answer a question asks for, and whether a sentence holds it.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

use super::abbreviations::{is_abbreviation, is_spelled_out};
use super::identifier::{Identifier, without_number};
use super::labels::{begins_with_code, without_kind};
use super::quantity::{Quantity, asks_for_price};
use super::subject::{
    asks_for_action, is_action, is_defined_in_characters, subject_in_characters, subject_in_words,
};
use crate::LibraryView;
use crate::documents::defined_name;
use crate::search::analyzer::Language;
use crate::search::holds::{gives_reason, has_name, has_version};
use crate::search::lexicon::{
    ASKS_FOR_PERSON, ASKS_FOR_REASON, ASKS_FOR_REASON_IN_CHARACTERS, CAPTION_LABELS, COPULAS, GENERIC_NOUNS,
    PRICE_WORDS,
};

/// The fit of [`Quantity`] that counts fully.
const FULL_FIT: f32 = 3.0;
/// The words that a definition may have before and after its subject, such as an article.
const AROUND_SUBJECT: usize = 3;
/// The words of an aside between the subject and the verb of a definition.
const ASIDE_WORDS: usize = 6;
/// The longest line that may be the name of what the text below it defines, in bytes.
pub(super) const MAX_LABEL_BYTES: usize = 90;

/// What is between a name and what it means in one line, as in the first line of a manual page.
const DASHES: [&str; 4] = [" — ", " – ", " -- ", " - "];

/// What a clause begins with that says when something is so, and not what it is.
const SUBORDINATES: [&str; 17] = [
    "while", "whenever", "if", "unless", "when", "once", "until", "after", "before", "although", "though",
    "because", "since", "even", "wenn", "während", "si",
];

/// What follows “is” in a clause that says what something is.
const KIND_ARTICLES: [&str; 11] = [
    "a", "an", "the", "one", "ein", "eine", "der", "die", "das", "un", "une",
];

/// The kind of answer that a question asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    quantity: Quantity,
    /// Whether an amount of money is asked for.
    price: bool,
    version: bool,
    person: bool,
    /// Whether a reason is asked for.
    reason: bool,
    /// Whether a figure or table is asked about.
    figure: bool,
    /// The stems of X of "What is X?".
    subject: HashSet<String>,
    /// How many words X has.
    subject_words: usize,
    /// Whether it asks what X does.
    action: bool,
    /// The only identifier of a question that asks about one of its properties: `default worker_threads`.
    identifier: Option<Identifier>,
    /// X itself if it is one word, without marks: `d_k` is `dk` in the text of a PDF.
    symbol: Option<String>,
    /// X of a question in Chinese, Japanese or Korean, in lower case: `守护进程是什么`.
    subject_in_characters: Option<String>,
}

impl Asked {
    pub(crate) fn of(library: LibraryView<'_>, question: &str, language: Language) -> Self {
        let question = &*library.well_spelled(question);
        let lower = question.to_lowercase();
        let asked = lower.trim().trim_end_matches(['?', '.', '!', '？', '。', '！']);
        let in_characters = subject_in_characters(asked);
        let subject = subject_in_words(asked).or(in_characters).unwrap_or_default();
        let identifier =
            Identifier::of(question).filter(|identifier| identifier.has_member() || !identifier.is(subject));
        Self {
            quantity: Quantity::of(library, question),
            price: asks_for_price(question)
                && lower.unicode_words().any(|word| PRICE_WORDS.contains(&word))
                && !lower.contains("what do"),
            version: lower.contains("version"),
            person: lower.unicode_words().any(|word| ASKS_FOR_PERSON.contains(&word)),
            figure: lower.unicode_words().any(|word| CAPTION_LABELS.contains(&word)),
            reason: lower.unicode_words().any(|word| ASKS_FOR_REASON.contains(&word))
                || ASKS_FOR_REASON_IN_CHARACTERS
                    .iter()
                    .any(|asks| lower.contains(asks)),
            subject: library.terms_in(subject, language).into_iter().collect(),
            subject_words: subject.unicode_words().count(),
            action: asks_for_action(asked),
            identifier,
            symbol: (is_one_word(subject) && in_characters.is_none()).then(|| letters(subject)),
            subject_in_characters: in_characters.map(str::to_owned),
        }
    }

    /// Returns how well a sentence holds that kind of answer, from 0 to 1.
    pub(crate) fn fit(&self, library: LibraryView<'_>, sentence: &str) -> f32 {
        let fit = self.quantity.fit(library, sentence);
        let number = if fit > 0.0 { (fit / FULL_FIT).max(0.5) } else { 0.0 };
        let version = f32::from(u8::from(self.version && has_version(sentence)));
        let person = f32::from(u8::from(self.person && has_name(sentence)));
        let reason = f32::from(u8::from(self.reason && gives_reason(sentence)));
        number.max(version).max(person).max(reason)
    }

    /// Returns whether a number, a version or a name is asked for, which a sentence has or has not.
    pub(crate) fn is_of_kind(&self) -> bool {
        !matches!(self.quantity, Quantity::None) || self.version || self.person
    }

    /// Returns whether the question asks what something is.
    pub(crate) fn is_definition(&self) -> bool {
        !self.subject.is_empty()
    }

    /// Returns the stems of what the question asks the meaning of.
    pub(crate) fn subject(&self) -> Vec<&str> {
        self.subject.iter().map(String::as_str).collect()
    }

    /// Returns whether the question asks how many there are of something.
    pub(crate) fn is_count(&self) -> bool {
        matches!(self.quantity, Quantity::Count { is_first: true, .. })
    }

    /// Returns whether the question asks for an amount of money. `What does a lock cost` may ask for bytes.
    pub(crate) fn is_price(&self) -> bool {
        self.price
    }

    /// Returns whether the question asks why.
    pub(crate) fn is_reason(&self) -> bool {
        self.reason
    }

    /// Returns whether a figure or table is asked about.
    pub(crate) fn is_of_figure(&self) -> bool {
        self.figure
    }

    /// Returns whether a heading or a short line is what the question asks about and nothing else: the
    /// text below defines it, as in a glossary or a list of settings.
    pub(crate) fn is_named_by(&self, library: LibraryView<'_>, label: &str, language: Language) -> bool {
        if label.len() > MAX_LABEL_BYTES {
            return false;
        }
        if self.subject.is_empty() {
            return false;
        }
        if begins_with_code(label, &self.subject) {
            return true;
        }
        let name = label.split(['(', ':', '|', '¶', '=']).next().unwrap_or_default();
        let name = without_kind(defined_name(without_number(name).trim()));
        // `Cross-Site Request Forgery (CSRF)` has both names.
        let short = label.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        // `Why robins` gives reasons.
        let first = name.unicode_words().next().unwrap_or_default().to_lowercase();
        if ASKS_FOR_REASON.contains(&&*first) {
            return false;
        }
        let mut names = short.map(|(short, _)| short).into_iter().chain([name]);
        let is_subject = |name: &str| {
            let stems: HashSet<String> = library.terms_in(name, language).into_iter().collect();
            stems == self.subject
        };
        // `HashMap` has parts that `hashmap` lacks.
        names.any(|name| is_subject(name) || is_subject(&name.to_lowercase()))
    }

    /// Returns the identifier that the question asks something about.
    pub(crate) fn identifier(&self) -> Option<&Identifier> {
        self.identifier.as_ref()
    }

    /// Returns whether a sentence gives the value of a symbol that the question asks about: `dk = 64`.
    fn is_value_in(&self, sentence: &str) -> bool {
        let Some(symbol) = &self.symbol else { return false };
        let words: Vec<&str> = sentence.split_whitespace().collect();
        words
            .windows(2)
            .any(|pair| pair[1] == "=" && letters(pair[0]) == *symbol)
    }

    /// Returns whether a sentence says what the abbreviation that the question asks about is short for.
    fn is_spelled_out_in(&self, sentence: &str) -> bool {
        let symbol = self.symbol.as_ref().filter(|symbol| is_abbreviation(symbol));
        symbol.is_some_and(|symbol| is_spelled_out(sentence, symbol))
    }

    /// Returns whether a sentence defines what the question asks about: it begins with it, and says
    /// what it is.
    pub(crate) fn is_defined_by(&self, library: LibraryView<'_>, sentence: &str, language: Language) -> bool {
        if self.subject.is_empty() {
            return false;
        }
        if let Some(subject) = &self.subject_in_characters {
            return is_defined_in_characters(subject, sentence);
        }
        let acts = self.action && self.acts_in(library, sentence, language);
        if acts || self.is_value_in(sentence) || self.is_spelled_out_in(sentence) {
            return true;
        }
        // `robin — look for birds`.
        let named = DASHES.iter().find_map(|dash| sentence.split_once(dash));
        if named.is_some_and(|(name, _)| self.is_named_by(library, name, language)) {
            return true;
        }
        let first = sentence.unicode_words().next().unwrap_or_default().to_lowercase();
        if !SUBORDINATES.contains(&&*first)
            && self.is_subject_of(library, sentence, self.subject_words + AROUND_SUBJECT, language)
        {
            return true;
        }
        // `However, the robin is a small bird`. `If it rains, the robin is away` is not one.
        let clauses: Vec<&str> = sentence.split([',', ';', ':']).collect();
        let later = clauses.iter().skip(1);
        if later.clone().any(|clause| {
            self.is_subject_of(library, clause, self.subject_words + 2, language) && names_a_kind(clause)
        }) {
            return true;
        }
        // `The robin, sometimes called redbreast, is a small bird`.
        let is_alone = |clause: &str| {
            let words = clause.unicode_words().count();
            (1..=self.subject_words + 1).contains(&words) && self.is_within(library, clause, language)
        };
        if let [first, aside, rest @ ..] = &clauses[..]
            && is_alone(first)
        {
            let after = rest.first().unwrap_or(aside);
            let reach = after.unicode_words().position(is_copula);
            if reach.is_some_and(|reach| reach <= ASIDE_WORDS) && names_a_kind(after) {
                return true;
            }
        }
        // `We saw a small bird, the robin, at dawn`.
        let introduces = |clause: &str| clause.unicode_words().any(|word| matches!(word, "a" | "an"));
        clauses
            .windows(2)
            .any(|pair| introduces(pair[0]) && starts_with_article(pair[1]) && is_alone(pair[1]))
    }

    /// Returns whether a sentence that defines says which kind of thing it is: `a submodule is a repository`,
    /// and not `a submodule is considered active`.
    pub(crate) fn says_what_it_is(
        &self,
        library: LibraryView<'_>,
        sentence: &str,
        language: Language,
    ) -> bool {
        if self.action && self.acts_in(library, sentence, language) {
            return true;
        }
        let plain = sentence.split([',', ';', ':']).any(|clause| {
            let mut words = clause.unicode_words().skip_while(|word| !is_copula(word));
            words
                .next()
                .is_some_and(|word| !["is", "are", "was"].contains(&word))
                || names_a_kind(clause)
        });
        plain && self.is_defined_by(library, sentence, language)
    }

    /// Returns whether a sentence begins with what the question asks about and a verb: `The VACUUM command rebuilds it`.
    fn acts_in(&self, library: LibraryView<'_>, sentence: &str, language: Language) -> bool {
        let clause = without_remarks(sentence);
        let is_generic = |word: &&str| GENERIC_NOUNS.contains(&word.to_lowercase().as_str());
        let words = clause
            .unicode_words()
            .skip_while(|word| is_article(word) || is_generic(word));
        let words: Vec<&str> = words.collect();
        let subject = &words[..words.len().min(self.subject_words)];
        if !self.is_within(library, &subject.join(" "), language) {
            return false;
        }
        let mut after = words[subject.len()..].iter();
        let verb = after.find(|word| !is_generic(word));
        // With an article, a noun may follow the verb: `The command VACUUM frees pages`.
        let next = after.next().copied();
        let has_article =
            clause.unicode_words().next().is_some_and(is_article) && !next.is_some_and(is_copula);
        verb.is_some_and(|verb| is_action(verb, next.filter(|_| !has_article)))
    }

    /// Returns whether a text has all words of what the question asks about.
    fn is_within(&self, library: LibraryView<'_>, text: &str, language: Language) -> bool {
        let stems = library.terms_in(text, language);
        self.subject.is_subset(&stems.into_iter().collect())
    }

    /// Returns whether what the question asks about is before a verb such as “is” among the first `reach`
    /// words.
    fn is_subject_of(
        &self,
        library: LibraryView<'_>,
        clause: &str,
        reach: usize,
        language: Language,
    ) -> bool {
        let clause = without_remarks(clause);
        let start: Vec<&str> = clause.unicode_words().take(reach).collect();
        let Some(copula) = start.iter().position(|word| is_copula(word)) else {
            return false;
        };
        if !self.is_within(library, &start[..copula].join(" "), language) {
            return false;
        }
        // `The robin threshold is set` is about the threshold.
        let stems = |word: &str| library.terms_in(word, language);
        let is_own = |word: &str| stems(word).iter().any(|stem| self.subject.contains(stem));
        let is_generic =
            |word: &str| GENERIC_NOUNS.contains(&word.to_lowercase().as_str()) || stems(word).is_empty();
        let mut after = start[..copula].iter().rev().take_while(|word| !is_own(word));
        names_a_kind(&clause) || after.all(|word| is_generic(word))
    }
}

fn is_article(word: &str) -> bool {
    KIND_ARTICLES.contains(&word.to_lowercase().as_str())
}

fn is_copula(word: &str) -> bool {
    COPULAS.contains(&word.to_lowercase().as_str())
}

/// Returns whether the first verb such as “is” is followed by an article: `is a`, `ist der`.
fn names_a_kind(clause: &str) -> bool {
    let mut words = clause.unicode_words().skip_while(|word| !is_copula(word));
    words.nth(1).is_some_and(is_article)
}

/// Leaves out parentheses of several words: `buzz (Debian 1.1) was a spaceman` says what Buzz was. In
/// `A robin (redbreast) is a bird` they name the same.
fn without_remarks(clause: &str) -> String {
    let mut kept = String::new();
    let mut rest = clause;
    while let Some((before, after)) = rest.split_once('(') {
        kept.push_str(before);
        match after.split_once(')') {
            Some((remark, after)) => {
                if is_one_word(remark) {
                    kept.push_str(remark);
                }
                rest = after;
            }
            None => rest = after,
        }
    }
    kept + rest
}

/// Returns whether a clause begins with an article of something known: `the robin`.
fn starts_with_article(clause: &str) -> bool {
    clause.unicode_words().next() == Some("the")
}

fn is_one_word(text: &str) -> bool {
    !text.trim().is_empty() && !text.trim().contains(char::is_whitespace)
}

/// Returns the letters and digits of a text in lower case.
fn letters(text: &str) -> String {
    let letters = text.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits};

    #[test]
    fn sentences_with_the_wanted_kind_are_worth_more() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let cases = [
            ("which rust version is needed", "It needs Rust 1.88.", true),
            ("which rust version is needed", "It needs a new Rust.", false),
            ("who wrote it?", "It was written by Ada Lovelace.", true),
            ("who wrote it?", "It was written long ago.", false),
            ("how many heads are there", "There are eight heads.", true),
            ("what is a head", "There are eight heads.", false),
            (
                "why is it scaled?",
                "To counteract this effect, it is scaled.",
                true,
            ),
            ("why is it scaled?", "It is scaled by two.", false),
            ("how long did it take?", "It took 3.5 days.", true),
        ];
        for (question, sentence, wanted) in cases {
            let asked = Asked::of(library.all(), question, Language::English);
            assert_eq!(
                asked.fit(library.all(), sentence) > 0.0,
                wanted,
                "{question} {sentence}"
            );
        }
    }

    #[test]
    fn a_definition_begins_with_its_subject() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let cases = [
            (
                "what's a virtual package?",
                "A virtual package is a generic name.",
                true,
            ),
            (
                "explain virtual packages",
                "A virtual package is a generic name.",
                true,
            ),
            (
                "what does myorigin do?",
                "The myorigin parameter specifies the domain.",
                true,
            ),
            ("what is a virtual package", "This package is virtual.", false),
            (
                "what is a virtual package",
                "They are said to provide the virtual package.",
                false,
            ),
            (
                "what is the transformer",
                "As far as we know, however, the Transformer is the first model of its kind.",
                true,
            ),
            (
                "what is a transformer",
                "If it is cold, the transformer is switched off.",
                false,
            ),
            (
                "what is self attention",
                "Self-attention, sometimes called intra-attention is an attention mechanism that relates positions.",
                true,
            ),
            (
                "what is a robin",
                "The robin, or redbreast, is a small bird.",
                true,
            ),
            ("what is a robin", "The robin, which we saw, sings.", false),
            (
                "what is the transformer",
                "We propose a new simple network architecture, the Transformer, based on attention.",
                true,
            ),
            (
                "what is the transformer",
                "We compare it with a network, the loss, and the Transformer.",
                false,
            ),
            ("what is a robin", "While robins are away, it is quiet.", false),
            (
                "what is debian",
                "buzz (Debian 1.1) was the spaceman Buzz Lightyear.",
                false,
            ),
            (
                "what is a redbreast",
                "A robin (redbreast) is a small bird.",
                true,
            ),
            (
                "what is a robin",
                "The robin threshold is defined as follows:",
                false,
            ),
            ("what is a robin", "The robin family is a group of birds.", true),
            ("what is a robin", "Whenever a robin is near, it is loud.", false),
            ("what is robin", "robin — look for birds", true),
            ("what is robin", "robin-update - look for birds", false),
            (
                "what is robin",
                "Robin is free and - as far as we know - small.",
                true,
            ),
            ("how many are there", "There are many.", false),
            ("what is d_k", "We use dk = dv = 64.", true),
            ("what is d_k", "We use dv = 64.", false),
            (
                "what does VACUUM do",
                "The VACUUM command rebuilds the file.",
                true,
            ),
            ("what does VACUUM do", "VACUUM (but not INTO) fails.", true),
            ("what does VACUUM do", "The VACUUM settings are many.", false),
            ("what does VACUUM do", "VACUUM hooks run scripts.", false),
            (
                "what does VACUUM do",
                "VACUUM options for all tables follow.",
                false,
            ),
            (
                "what does the VACUUM command do",
                "The VACUUM command rebuilds it.",
                true,
            ),
            ("what does VACUUM do", "After VACUUM always close it.", false),
            ("what does VACUUM do", "By default, VACUUM frees pages.", false),
            ("what does VACUUM do", "The command VACUUM frees pages.", true),
            ("what is VACUUM", "The VACUUM command rebuilds the file.", false),
            ("wal meaning", "Write-Ahead Logging (WAL) logs changes.", true),
            (
                "what does WAL stand for",
                "Write-Ahead Logging (WAL) logs changes.",
                true,
            ),
            ("WAL abbreviation meaning", "The WAL logs changes.", false),
            (
                "守护进程是什么意思？",
                "所谓守护进程（daemon）是在后台运行的程序。",
                true,
            ),
            ("什么是守护进程", "系统会启动守护进程。", false),
            (
                "aptとは何ですか？",
                "APT は「Advanced Package Tool」の略です。",
                true,
            ),
            ("aptって何", "パッケージは apt で入れます。", false),
            ("что такое демон", "Демон — это программа.", true),
        ];
        for (question, sentence, wanted) in cases {
            let asked = Asked::of(library.all(), question, Language::English);
            let is_defined = asked.is_defined_by(library.all(), sentence, Language::English);
            assert_eq!(is_defined, wanted, "{question} {sentence}");
        }
    }

    #[test]
    fn a_label_names_its_subject_alone() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let cases = [
            ("what does HEAD mean", "HEAD", true),
            ("what is queue_lifetime", "queue_lifetime (default: 5d)", true),
            ("whats a virtual package", "2.1. What is a virtual package?", true),
            ("what does HEAD mean", "The detached HEAD", false),
            ("what is self attention", "4 Why Self-Attention", false),
            ("how do I move HEAD", "HEAD", false),
            ("what does 409 mean", "10.4.10 409 Conflict", true),
            ("what does status code 409 mean", "409 Conflict", true),
            (
                "what is error E0382",
                "Error code E0382: use of a moved value",
                true,
            ),
            ("what is port 8080", "8080 is the port", false),
            ("what does 409 mean", "The response is 409 or 410", false),
            ("what does 409 mean", "409", true),
            ("what does E0382 mean", "Error code E0382", true),
            ("what is a vec", "Struct Vec", true),
            ("what is HashMap", "Class HashMap<K,V>", true),
            (
                "what does unwrap_or_else do",
                "pub fn unwrap_or_else<F>(self, f: F) -> T",
                true,
            ),
            ("what is a class", "Class diagrams", false),
            ("what is a slice", "Primitive Type slice", true),
        ];
        for (question, label, wanted) in cases {
            let asked = Asked::of(library.all(), question, Language::English);
            let is_named = asked.is_named_by(library.all(), label, Language::English);
            assert_eq!(is_named, wanted, "{question} {label}");
        }
    }

    #[test]
    fn a_name_alone_is_no_question_about_a_property_unless_it_is_a_member() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for (question, wanted) in [
            ("default max_feathers", true),
            ("what is max_feathers", false),
            ("what does Deque.addFirst do", true),
        ] {
            let asked = Asked::of(library.all(), question, Language::English);
            assert_eq!(asked.identifier().is_some(), wanted, "{question}");
        }
    }
}
