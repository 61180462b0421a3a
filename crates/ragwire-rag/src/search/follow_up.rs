//! Questions that depend on the conversation: "how do I choose it?".

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use crate::documents::sentences;
use crate::models::{ChatMessage, Role};
use crate::search::analyzer::Language;
use crate::search::asked::Asked;
use crate::search::reference::{
    Named, Reference, asks_for_a_kind, ends_with_object, lists_a_kind, names_what_it_uses, reference,
};
use crate::search::terms::{Term, coverage, question_terms};
use crate::{DocumentFilter, Hit, LibraryView};

/// A question with fewer significant words than this depends on the conversation.
const MIN_OWN_TERMS: usize = 2;
/// A question with one word that is at least so rare, as a share of the weight of a word that the library
/// does not have, is understood alone: of 10,000 passages about 70 have such a word.
const RARE_SHARE: f32 = 0.75;
/// A question with so many significant words names what it is about, though it may refer to the conversation.
const MANY_OWN_TERMS: usize = 4;
/// Two passages have as many of a question's words if their shares differ by this at most.
const SAME_COVERAGE: f32 = 0.05;
/// Number of words of the previous question, the weightiest, that are added to one that depends on
/// it.
const MAX_CARRIED_TERMS: usize = 4;
/// Number of passages that are read to see whether a question is answered without the conversation.
const READ_HITS: usize = 3;
/// Number of passages with a question's only word that are read to see whether a document mentions it.
const MENTIONING_HITS: usize = 10;
/// Questions of the conversation that are read at most, the newest ones: each may cost four searches.
pub(super) const MAX_EARLIER_QUESTIONS: usize = 4;
/// Number of follow-ups that are kept: a turn needs its own for some milliseconds only.
const MAX_RECENT: usize = 64;

/// A question that depends on the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FollowUp {
    /// The question with the weightiest words of the one before.
    pub question: String,
    /// The question before, as it can be understood alone.
    pub before: String,
}

/// Returns the question that [`follow_up`] makes.
pub(crate) fn stand_alone(
    library: LibraryView<'_>,
    question: &str,
    earlier: &[ChatMessage],
) -> Option<String> {
    follow_up(library, question, earlier).map(|follow_up| follow_up.question)
}

/// Adds the weightiest words of the previous question to one that depends on it. The previous question
/// may depend on the one before it. Returns `None` for a question that can be understood alone.
pub(crate) fn follow_up(
    library: LibraryView<'_>,
    question: &str,
    earlier: &[ChatMessage],
) -> Option<FollowUp> {
    let asked = earlier.iter().rev().filter(|message| message.role == Role::User);
    let asked: Vec<&str> = asked
        .take(MAX_EARLIER_QUESTIONS)
        .map(|message| message.content.as_str())
        .collect();
    let recent = library.recent_follow_ups();
    let key = recent.key(library, question, &asked);
    recent.get_or(key, || following(library, question, &asked))
}

/// The follow-ups of the newest turns. Several steps of a turn need the same one.
#[derive(Debug, Default)]
pub(crate) struct RecentFollowUps {
    /// The newest last, each with a hash of the questions, who asks and the revision of the library.
    known: Mutex<VecDeque<(u64, Option<FollowUp>)>>,
    hasher: RandomState,
}

impl RecentFollowUps {
    fn key(&self, library: LibraryView<'_>, question: &str, earlier: &[&str]) -> u64 {
        let (revision, user) = (library.revision(), library.user());
        self.hasher.hash_one((revision, user, question, earlier))
    }

    fn get_or(&self, key: u64, find: impl FnOnce() -> Option<FollowUp>) -> Option<FollowUp> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known().iter().rev().find(|(other, _)| *other == key) {
            return found.clone();
        }
        let found = find();
        let mut known = known();
        if known.len() == MAX_RECENT {
            known.pop_front();
        }
        known.push_back((key, found.clone()));
        found
    }
}

/// Does the same with the earlier questions, newest first. Where one of them refers to nothing, those
/// before it are not read: each search costs time.
fn following(library: LibraryView<'_>, question: &str, earlier: &[&str]) -> Option<FollowUp> {
    let (newest, older) = earlier.split_first()?;
    let own = question_terms(library, question);
    // `y xfce?` has the language of what it continues.
    let said = library.said_language(question);
    let language = said.unwrap_or_else(|| library.language_of_question(newest));
    // If the newest continues another, it has more words then, and a reference is less likely.
    if refers(
        library,
        question,
        language,
        &own,
        &question_terms(library, newest),
    ) == Reference::Nothing
    {
        return None;
    }
    let of_before = following(library, newest, older);
    let before = of_before.map_or_else(|| (*newest).to_owned(), |of_before| of_before.question);
    let question = continued(library, question, language, &own, &before)?;
    Some(FollowUp { question, before })
}

/// Returns a question with these words and the weightiest of the one before, or `None` if it does not depend on
/// it.
fn continued(
    library: LibraryView<'_>,
    question: &str,
    language: Language,
    own: &[Term],
    before: &str,
) -> Option<String> {
    let of_before = question_terms(library, before);
    let refers = refers(library, question, language, own, &of_before);
    if refers == Reference::Nothing {
        return None;
    }
    let mut carried = of_before.clone();
    // A word that no document has would be taken for one that the user misses.
    carried.retain(|term| {
        (term.known || term.is_question_word) && own.iter().all(|known| known.stems != term.stems)
    });
    carried.sort_by(|a, b| {
        let weights = b.weight.total_cmp(&a.weight);
        a.is_question_word.cmp(&b.is_question_word).then(weights)
    });
    carried.truncate(MAX_CARRIED_TERMS);
    if carried.is_empty() {
        return None;
    }
    // Behind the question: what it asks for is in its first words.
    let mut words: Vec<&str> = Vec::new();
    for term in &carried {
        // A Chinese word has a term for each pair of its characters.
        if !words.contains(&&*term.word) {
            words.push(&term.word);
        }
    }
    let asked = question.trim().trim_end_matches(['?', '.', '!', ' ', '？', '。']);
    let whole = format!("{asked} {}", words.join(" "));
    let is_sure = refers == Reference::Certain;
    let is_else = || {
        if significant(own) >= MIN_OWN_TERMS {
            is_about_else(library, question, &whole, refers, own, &of_before)
        } else if lists_a_kind(question, language) {
            is_titled_alone(library, question, &whole, own)
        } else {
            is_elsewhere(library, question, before)
        }
    };
    if !is_sure && is_else() {
        return None;
    }
    let all = [own, &*carried].concat();
    let asked = Asked::of(library, question, language);
    let is_answered_alone = !is_answered(library, &asked, &all, &whole, 1)
        && is_answered(library, &asked, own, question, READ_HITS);
    (!is_answered_alone).then_some(whole)
}

/// Returns how a question with these words refers to the one before it.
fn refers(
    library: LibraryView<'_>,
    question: &str,
    language: Language,
    own: &[Term],
    before: &[Term],
) -> Reference {
    let unseen = library.unseen_weight().max(f32::EPSILON);
    let is_rare = |term: &Term| term.known && !term.is_question_word && term.weight / unseen >= RARE_SHARE;
    let has = |term: &Term, word: &str| {
        let word_of_term = term.word.to_lowercase();
        word_of_term
            .split(|c: char| !c.is_alphanumeric())
            .any(|part| part == word)
    };
    let named = |word: &str| match own.iter().find(|term| has(term, word)) {
        Some(term) if is_rare(term) || is_shared(term, before) => Named::Yes,
        Some(term) if !term.is_question_word => Named::Vaguely,
        Some(_) | None => Named::No,
    };
    let says_enough = significant(own) >= MIN_OWN_TERMS || ends_with_object(question, language, named);
    let names_a_kind = significant(own) > 0 && asks_for_a_kind(question);
    if !says_enough && !own.iter().any(is_rare) && !names_a_kind {
        // `which formats are there` may name a kind that has a section.
        let lists = significant(own) > 0 && lists_a_kind(question, language);
        return if lists || names_what_it_uses(question, language, named) {
            Reference::Possible
        } else {
            Reference::Certain
        };
    }
    match reference(question, language, named) {
        // One rare word is a whole question unless a pronoun replaces another.
        Reference::Continues if !says_enough => Reference::Nothing,
        refers => refers,
    }
}

fn significant(terms: &[Term]) -> usize {
    terms.iter().filter(|term| !term.is_question_word).count()
}

fn is_shared(term: &Term, before: &[Term]) -> bool {
    !term.is_question_word && before.iter().any(|known| known.stems == term.stems)
}

/// Returns whether a question that may refer to the one before is about something else: what is found for it
/// alone has more of its words than what is found for `whole`, or the same if it also names what it is about.
fn is_about_else(
    library: LibraryView<'_>,
    question: &str,
    whole: &str,
    refers: Reference,
    own: &[Term],
    before: &[Term],
) -> bool {
    let first = |query: &str| found(library, query, 1).into_iter().next();
    let (Some(alone), Some(with)) = (first(question), first(whole)) else {
        return false;
    };
    let more = covered(library, own, &alone) - covered(library, own, &with);
    let says_more = significant(own) > MIN_OWN_TERMS;
    let is_same = alone.chunk.id == with.chunk.id || refers == Reference::Continues;
    let names_it = is_same && says_more
        || own.iter().any(|term| is_shared(term, before))
        || significant(own) >= MANY_OWN_TERMS;
    more > SAME_COVERAGE || names_it && more >= -SAME_COVERAGE
}

/// Returns whether a question is about what the document for the question before does not mention: `does it run
/// without a GPU`.
fn is_elsewhere(library: LibraryView<'_>, question: &str, before: &str) -> bool {
    let before = found(library, before, 1).into_iter().next();
    let found = found(library, question, MENTIONING_HITS);
    let is_of = |hit: &Hit| {
        before
            .as_ref()
            .is_some_and(|before| before.chunk.document_id == hit.chunk.document_id)
    };
    !found.is_empty() && !found.iter().any(is_of)
}

/// Returns whether a question for all things of a kind begins a new subject: what is found for it alone has the kind
/// in a title, and what is found for `whole` has not.
fn is_titled_alone(library: LibraryView<'_>, question: &str, whole: &str, own: &[Term]) -> bool {
    let is_titled = |query: &str| {
        found(library, query, 1).first().is_some_and(|hit| {
            let stems = stems(library, hit, &[&title(library, hit)]);
            own.iter()
                .any(|term| !term.is_question_word && term.is_in(&stems))
        })
    };
    is_titled(question) && !is_titled(whole)
}

/// Returns the share of a question's own words that a passage has.
fn covered(library: LibraryView<'_>, own: &[Term], hit: &Hit) -> f32 {
    let stems = stems(library, hit, &[&hit.chunk.text, &title(library, hit)]);
    coverage(own, |term| term.is_in(&stems))
}

/// Returns the heading of a passage and the name of its document.
fn title(library: LibraryView<'_>, hit: &Hit) -> String {
    let heading = hit.chunk.heading.as_deref().unwrap_or_default();
    let name = library.name_text(&hit.chunk.document_id, &hit.chunk.document_name);
    format!("{heading}\n{name}")
}

fn stems(library: LibraryView<'_>, hit: &Hit, texts: &[&str]) -> HashSet<String> {
    let language = library.language_of(&hit.chunk.text);
    texts
        .iter()
        .flat_map(|text| library.terms_in(text, language))
        .collect()
}

/// Returns the first passages for a query that the user finds.
fn found(library: LibraryView<'_>, query: &str, most: usize) -> Vec<Hit> {
    let filter = DocumentFilter {
        user: library.user().map(str::to_owned),
        ..DocumentFilter::default()
    };
    library.search_in(query, most, &filter).unwrap_or_default()
}

/// Returns whether one of the first `most` passages for a query has a sentence with one of these words and with the number, version or name that it asks for: “and how long did it train?” needs
/// no word of the question before. `false` for a question that asks for none of these.
fn is_answered(library: LibraryView<'_>, asked: &Asked, own: &[Term], query: &str, most: usize) -> bool {
    let own: Vec<&Term> = own
        .iter()
        .filter(|term| term.known && !term.is_question_word)
        .collect();
    if !asked.is_of_kind() || own.is_empty() {
        return false;
    }
    found(library, query, most).iter().any(|hit| {
        let language = library.language_of(&hit.chunk.text);
        sentences(&hit.chunk.text).into_iter().any(|sentence| {
            let stems = library.terms_in(sentence, language).into_iter().collect();
            asked.fit(library, sentence) >= 1.0 && own.iter().any(|term| term.is_in(&stems))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    fn library(text: &str) -> Library {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        library.add("a.md", &parsed).unwrap();
        library
    }

    #[test]
    fn a_question_takes_what_it_lacks_from_the_questions_before() {
        let library = library(
            "# Training\n\nThe hardware was eight processors. The training steps took three days.\n\nA large model has layers.",
        );
        let said = |questions: &[&str]| -> Vec<ChatMessage> {
            let exchange = |question: &&str| {
                [
                    ChatMessage::new(Role::User, *question),
                    ChatMessage::new(Role::Assistant, "An answer."),
                ]
            };
            questions.iter().flat_map(exchange).collect()
        };
        let cases: [(&[&str], &str, Option<&str>); 9] = [
            (
                &["What hardware was used?"],
                "And for how long?",
                Some("And for how long hardware used"),
            ),
            // The question before depends on the one before it.
            (
                &["What hardware was used?", "And for how long?"],
                "How many?",
                Some("How many hardware long used"),
            ),
            (
                &["How many steps?"],
                "What about the large model?",
                Some("What about the large model steps many"),
            ),
            (
                &["What hardware was used?"],
                "What is it?",
                Some("What is it hardware used"),
            ),
            (&["What hardware was used?"], "Which layers has the model?", None),
            (
                &["What hardware was used?"],
                "does it have layers",
                Some("does it have layers hardware used"),
            ),
            (&[], "And for how long?", None),
            // No document has "tokamak", and the user did not ask for it again.
            (
                &["Was hardware used in the tokamak?"],
                "And for how long?",
                Some("And for how long hardware used"),
            ),
            // It names what it is about.
            (&["What hardware was used?"], "What are layers?", None),
        ];
        for (before, question, wanted) in cases {
            let found = stand_alone(library.all(), question, &said(before));
            assert_eq!(found.as_deref(), wanted, "{question}");
        }
    }

    #[test]
    fn a_question_for_the_use_of_something_may_be_about_something_else() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        // Both words are in many passages.
        let models = "# Models\n\nUse lmer for models.\n\n# More\n\nThe lmer function fits, and lmer prints.";
        let maps =
            "# Maps\n\nThe classes of spatial data are points and lines.\n\n# Lines\n\nColors are for lines.";
        for (name, text) in [("models.md", models), ("maps.md", maps)] {
            let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        }
        let before = [ChatMessage::new(Role::User, "list the classes for spatial data")];
        let whole = |question: &str| stand_alone(library.all(), question, &before);
        assert_eq!(whole("how do i use lmer"), None);
        let lines = whole("how do i use lines");
        assert!(lines.is_some_and(|whole| whole.contains("spatial")));
    }

    #[test]
    fn a_short_question_continues_in_the_language_of_the_one_before() {
        let library = library(
            "El escritorio Gnome ocupa más espacio en el disco que los demás. Xfce ocupa menos.\n\n\
                El sistema de la instalación es pequeño, y con él se puede elegir.",
        );
        let before = [ChatMessage::new(
            Role::User,
            "cuanto espacio en disco ocupa gnome",
        )];
        assert_eq!(library.all().said_language("y xfce?"), Some(Language::Spanish));
        let whole = stand_alone(library.all(), "y xfce?", &before);
        assert_eq!(whole.as_deref(), Some("y xfce espacio disco ocupa gnome"));
    }

    #[test]
    fn a_follow_up_is_found_again_and_a_change_of_the_library_is_seen() {
        let library = library("# Hardware\n\nTraining used eight processors.");
        let before = [ChatMessage::new(Role::User, "What hardware was used?")];
        let question = "is it an optimizer";
        let remembered = || library.recent_follow_ups().known.lock().unwrap().len();
        let first = stand_alone(library.all(), question, &before);
        assert_eq!(stand_alone(library.all(), question, &before), first);
        assert_eq!((first.is_some(), remembered()), (true, 1));
        for n in 0..12 {
            let rare = if n == 0 {
                "An optimizer is chosen."
            } else {
                "Nothing."
            };
            let parsed = parse("a.md", rare.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(&format!("{n}.md"), &parsed).unwrap();
        }
        assert_eq!(stand_alone(library.all(), question, &before), None);
        assert_eq!(remembered(), 2);
        for n in 0..2 * MAX_RECENT {
            stand_alone(library.all(), &format!("is it {n}"), &before);
        }
        assert_eq!(remembered(), MAX_RECENT);
    }

    #[test]
    fn a_rare_word_is_understood_alone() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for n in 0..12 {
            let rare = if n == 0 { "An optimizer is used." } else { "" };
            let text = format!("Layer {n} is part of the model. {rare}");
            let name = format!("{n}.md");
            let parsed = parse(&name, text.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(&name, &parsed).unwrap();
        }
        let before = [ChatMessage::new(Role::User, "What is a model?")];
        for (question, is_alone) in [
            // The authors are meant.
            ("what optimizer did they use", true),
            ("which layer", false),
            // The document for the question before does not mention one.
            ("is it an optimizer", true),
            ("and the optimizer?", false),
        ] {
            let found = stand_alone(library.all(), question, &before);
            assert_eq!(found.is_none(), is_alone, "{question}: {found:?}");
        }
    }

    #[test]
    fn a_question_for_all_things_of_a_kind_may_begin_a_new_subject() {
        let library = library(
            "# Stopping\n\nA turn stops when its reader leaves. Each wire says so.\n\n# Wires\n\nFramed text and lines of JSON are wires.\n\n# Uploads\n\nA document is uploaded with a request.\n\n## Limits of uploads\n\nAn uploaded document has at most 20 MB.\n\n# Limits of questions\n\nA question has at most 4,000 characters.",
        );
        let [stop, upload] = ["when does a turn stop?", "how do i upload a document?"]
            .map(|question| [ChatMessage::new(Role::User, question)]);
        for (before, question, is_alone) in [
            (&stop, "which wires are there?", true),
            // Those of uploads.
            (&upload, "which limits are there?", false),
            (&stop, "how many are there?", false),
            (&stop, "how do i upload documents?", true),
            (&stop, "how do i upload them?", false),
        ] {
            let found = stand_alone(library.all(), question, before);
            assert_eq!(found.is_none(), is_alone, "{question}: {found:?}");
        }
    }

    #[test]
    fn a_question_that_its_own_words_answer_takes_nothing() {
        let library = library(
            "# Optimizer\n\nThe optimizer varies the rate of training with each step.\n\n# Hardware\n\nTraining took 3.5 days on eight processors.\n\n# Model\n\nThe model has layers and heads.",
        );
        let before = [ChatMessage::new(Role::User, "Which optimizer was used?")];
        for (question, is_alone) in [
            ("and how long did it train?", true),
            ("and its rate of training?", false),
            ("and how long?", false),
        ] {
            let found = stand_alone(library.all(), question, &before);
            assert_eq!(found.is_none(), is_alone, "{question}: {found:?}");
        }
    }

    #[test]
    fn a_question_about_something_else_takes_nothing() {
        let library = library(
            "# Owners\n\nAn upload belongs to its owner, who alone may delete it. The owner is read from a header.\n\n# Refusals\n\nA question is refused if no document has its words.\n\n# Keys\n\nA key is rotated with a command.",
        );
        let before = [ChatMessage::new(Role::User, "Who may delete an upload?")];
        for (question, wanted) in [
            ("why did it refuse my question", None),
            ("and how do i rotate a key", None),
            (
                "what does it say about the header",
                Some("what does it say about the header delete upload may"),
            ),
            ("how do i name it", Some("how do i name it delete upload may")),
        ] {
            let found = stand_alone(library.all(), question, &before);
            assert_eq!(found.as_deref(), wanted, "{question}");
        }
    }
}
