//! Questions that depend on the conversation: "how do I choose it?".

use unicode_segmentation::UnicodeSegmentation;

use crate::documents::sentences;
use crate::models::{ChatMessage, Role};
use crate::search::asked::Asked;
use crate::search::terms::{Term, question_terms};
use crate::{DocumentFilter, Library};

/// A question with fewer significant words than this depends on the conversation.
const MIN_OWN_TERMS: usize = 2;
/// A question with one word that is at least so rare, as a share of the weight of a word that the library
/// does not have, is understood alone: of 10,000 passages about 70 have such a word.
const RARE_SHARE: f32 = 0.75;
/// Words that refer to the conversation. `they` often means the authors of a document.
const REFERRING: [&str; 13] = [
    "it", "its", "them", "their", "that", "this", "those", "these", "he", "she", "his", "her", "ones",
];
/// Words after which `one` refers to the conversation. Elsewhere it is a number: `readers of one turn`.
const BEFORE_ONE: [&str; 8] = [
    "which", "this", "that", "the", "another", "first", "second", "last",
];
/// Words beside `there` that make it refer to nothing: `is there a limit`.
const BESIDE_THERE: [&str; 4] = ["is", "are", "was", "were"];
/// Beginnings of a question that continues the previous one, in lower case.
const CONTINUING: [&str; 8] = [
    "and ",
    "but ",
    "or ",
    "what about ",
    "how about ",
    "und ",
    "aber ",
    "et ",
];
/// Number of words of the previous question, the weightiest, that are added to one that depends on
/// it.
const MAX_CARRIED_TERMS: usize = 4;
/// Number of passages that are read to see whether a question is answered without the conversation.
const READ_HITS: usize = 3;
/// Questions of the conversation that are read at most, the newest ones.
const MAX_EARLIER_QUESTIONS: usize = 8;

/// Adds the weightiest words of the previous question to one that depends on it. The previous question
/// may depend on the one before it. Returns `None` for a question that can be understood alone.
pub(crate) fn stand_alone(library: &Library, question: &str, earlier: &[ChatMessage]) -> Option<String> {
    let asked = earlier.iter().rev().filter(|message| message.role == Role::User);
    let mut asked: Vec<&str> = asked
        .take(MAX_EARLIER_QUESTIONS)
        .map(|message| message.content.as_str())
        .collect();
    asked.reverse();
    let mut before: Option<String> = None;
    for one in asked {
        let whole = before.and_then(|before| continued(library, one, &before));
        before = Some(whole.unwrap_or_else(|| one.to_owned()));
    }
    continued(library, question, &before?)
}

/// Returns a question with the weightiest words of the one before, or `None` if it does not depend on
/// it.
fn continued(library: &Library, question: &str, before: &str) -> Option<String> {
    let own = question_terms(library, question);
    let lower = question.trim().to_lowercase();
    let refers = || refers(&lower);
    let continues = || CONTINUING.iter().any(|start| lower.starts_with(start));
    let significant = own.iter().filter(|term| !term.is_question_word).count();
    let unseen = library.unseen_weight();
    let is_rare = |term: &Term| {
        let share = term.weight / unseen.max(f32::EPSILON);
        term.known && !term.is_question_word && share >= RARE_SHARE
    };
    let has_own = significant >= MIN_OWN_TERMS || own.iter().any(is_rare);
    if has_own && !refers() && !continues() {
        return None;
    }
    let mut carried = question_terms(library, before);
    carried.retain(|term| own.iter().all(|known| known.stems != term.stems));
    carried.sort_by(|a, b| {
        let weights = b.weight.total_cmp(&a.weight);
        a.is_question_word.cmp(&b.is_question_word).then(weights)
    });
    carried.truncate(MAX_CARRIED_TERMS);
    if carried.is_empty() {
        return None;
    }
    // Behind the question: what it asks for is in its first words.
    let words: Vec<&str> = carried.iter().map(|term| term.word.as_str()).collect();
    let asked = question.trim().trim_end_matches(['?', '.', '!', ' ', '？', '。']);
    let whole = format!("{asked} {}", words.join(" "));
    let is_answered_alone = || {
        !is_answered(library, question, &own, &whole, 1)
            && is_answered(library, question, &own, question, READ_HITS)
    };
    (!is_answered_alone()).then_some(whole)
}

/// Returns whether a question in lower case refers to the conversation.
fn refers(question: &str) -> bool {
    let words: Vec<&str> = question.unicode_words().collect();
    words.iter().enumerate().any(|(at, word)| {
        let before = at.checked_sub(1).and_then(|before| words.get(before)).copied();
        let after = words.get(at + 1).copied();
        match *word {
            "one" => after.is_none() || before.is_some_and(|before| BEFORE_ONE.contains(&before)),
            "there" => [before, after]
                .into_iter()
                .flatten()
                .all(|word| !BESIDE_THERE.contains(&word)),
            word => REFERRING.contains(&word),
        }
    })
}

/// Returns whether one of the first `most` passages for a query has a sentence with a word of the
/// question and with the number, version or name that it asks for: “and how long did it train?” needs
/// no word of the question before. `false` for a question that asks for none of these.
fn is_answered(library: &Library, question: &str, own: &[Term], query: &str, most: usize) -> bool {
    let language = library.language_of_question(question);
    let asked = Asked::of(library, question, language);
    let own: Vec<&Term> = own
        .iter()
        .filter(|term| term.known && !term.is_question_word)
        .collect();
    if !asked.is_of_kind() || own.is_empty() {
        return false;
    }
    // What only others find decides nothing about a user's question.
    let everyones = DocumentFilter::default().user("");
    let hits = library.search_in(query, most, &everyones).unwrap_or_default();
    hits.iter().any(|hit| {
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
    use crate::{LibraryLimits, ParseLimits, parse};

    #[test]
    fn a_number_and_what_exists_do_not_refer_to_the_conversation() {
        for (question, wanted) in [
            ("how many readers can follow one turn", false),
            ("which one is faster", true),
            ("how do i choose one?", true),
            ("is there a limit on readers", false),
            ("how many limits are there", false),
            ("how do i get there", true),
            ("how do i choose it", true),
            ("how do readers follow", false),
        ] {
            assert_eq!(refers(question), wanted, "{question}");
        }
    }

    #[test]
    fn a_question_takes_what_it_lacks_from_the_questions_before() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let text = b"# Training\n\nThe hardware was eight processors. The training steps took three days.\n\nA large model has layers.";
        library
            .add("a.md", &parse("a.md", text, &ParseLimits::default()).unwrap())
            .unwrap();
        let said = |questions: &[&str]| -> Vec<ChatMessage> {
            let exchange = |question: &&str| {
                [
                    ChatMessage::new(Role::User, *question),
                    ChatMessage::new(Role::Assistant, "An answer."),
                ]
            };
            questions.iter().flat_map(exchange).collect()
        };
        let cases: [(&[&str], &str, Option<&str>); 6] = [
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
            (&[], "And for how long?", None),
        ];
        for (before, question, wanted) in cases {
            let found = stand_alone(&library, question, &said(before));
            assert_eq!(found.as_deref(), wanted, "{question}");
        }
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
            ("is it an optimizer", false),
            ("and the optimizer?", false),
        ] {
            let found = stand_alone(&library, question, &before);
            assert_eq!(found.is_none(), is_alone, "{question}: {found:?}");
        }
    }

    #[test]
    fn a_question_that_its_own_words_answer_takes_nothing() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let text = b"# Optimizer\n\nThe optimizer varies the rate of training with each step.\n\n# Hardware\n\nTraining took 3.5 days on eight processors.\n\n# Model\n\nThe model has layers and heads.";
        library
            .add("a.md", &parse("a.md", text, &ParseLimits::default()).unwrap())
            .unwrap();
        let before = [ChatMessage::new(Role::User, "Which optimizer was used?")];
        for (question, is_alone) in [
            ("and how long did it train?", true),
            ("and its rate of training?", false),
            ("and how long?", false),
        ] {
            let found = stand_alone(&library, question, &before);
            assert_eq!(found.is_none(), is_alone, "{question}: {found:?}");
        }
    }
}
