//! What a conversation is about: the words of its earlier questions, by which passages that are equally near
//! to a question are ordered. Unlike [`follow_up`](super::follow_up) it changes neither what is searched for nor what an
//! answer has to cover, so it also helps questions that can be understood alone.

use super::follow_up::MAX_EARLIER_QUESTIONS;
use super::terms::{Term, question_terms};
use crate::LibraryView;
use crate::models::{ChatMessage, Role};

/// Words of the earlier questions that are kept, the weightiest. With 16 of them, or with words of the answers too,
/// fewer passages that answer came first.
const MAX_TERMS: usize = 8;
/// How much a question counts, as a share of the one after it.
const SHARE_OF_NEXT: f32 = 0.7;

/// Returns the words of the earlier questions that `question` does not have.
pub(crate) fn topic(library: LibraryView<'_>, question: &str, earlier: &[ChatMessage]) -> Vec<Term> {
    let asked = earlier.iter().rev().filter(|message| message.role == Role::User);
    let mut asked = asked.take(MAX_EARLIER_QUESTIONS).peekable();
    if asked.peek().is_none() {
        return Vec::new();
    }
    let own = question_terms(library, question);
    let is_new = |term: &Term| own.iter().all(|one| one.stems != term.stems);
    let mut found: Vec<Term> = Vec::new();
    let mut share = 1.0;
    for message in asked {
        let terms = question_terms(library, &message.content).into_iter();
        for mut term in terms.filter(|term| term.known && !term.is_question_word && is_new(term)) {
            term.weight *= share;
            match found.iter_mut().find(|one| one.stems == term.stems) {
                Some(one) => one.weight += term.weight,
                None => found.push(term),
            }
        }
        share *= SHARE_OF_NEXT;
    }
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    found.truncate(MAX_TERMS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    #[test]
    fn the_newest_questions_count_most_and_words_of_the_question_or_of_no_document_do_not() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let text =
            "# Courts\n\nAn appeal has costs.\n\n# Lawyers\n\nA lawyer explains the appeal of a verdict.";
        let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        library.add("a.md", &parsed).unwrap();
        let user = |text: &str| ChatMessage::new(Role::User, text);
        let earlier = [
            user("how do i find a lawyer"),
            ChatMessage::new(Role::Assistant, "A verdict explains it."),
            user("can i lodge an appeal with costs?"),
        ];
        let words = |question: &str| -> Vec<String> {
            let found = topic(library.all(), question, &earlier).into_iter();
            found.map(|term| term.word).collect()
        };
        assert_eq!(words("and who pays"), ["costs", "lawyer", "appeal"]);
        assert_eq!(words("who pays the costs"), ["lawyer", "appeal"]);
        assert!(topic(library.all(), "who pays", &[]).is_empty());
    }
}
