//! Questions that depend on the conversation: "how do I choose it?".

use unicode_segmentation::UnicodeSegmentation;

use crate::Library;
use crate::models::{ChatMessage, Role};
use crate::search::terms::question_terms;

/// A question with fewer significant words than this depends on the conversation.
const MIN_OWN_TERMS: usize = 2;
/// Words that refer to the conversation.
const REFERRING: [&str; 16] = [
    "it", "its", "they", "them", "their", "that", "this", "those", "these", "he", "she", "his", "her",
    "there", "one", "ones",
];
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
    let refers = || lower.unicode_words().any(|word| REFERRING.contains(&word));
    let continues = || CONTINUING.iter().any(|start| lower.starts_with(start));
    let significant = own.iter().filter(|term| !term.is_question_word).count();
    if significant >= MIN_OWN_TERMS && !refers() && !continues() {
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
    Some(format!("{asked} {}", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryLimits, ParseLimits, parse};

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
}
