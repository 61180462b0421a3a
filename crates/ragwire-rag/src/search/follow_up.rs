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
/// Number of words of the previous question, the weightiest, that are added to one that depends on
/// it.
const MAX_CARRIED_TERMS: usize = 4;

/// Adds the weightiest words of the previous question to one that depends on it. Returns `None` for a
/// question that can be understood alone.
pub(crate) fn stand_alone(library: &Library, question: &str, earlier: &[ChatMessage]) -> Option<String> {
    let before = earlier.iter().rev().find(|message| message.role == Role::User)?;
    let own = question_terms(library, question);
    let mut words = question.unicode_words().map(str::to_lowercase);
    if own.len() >= MIN_OWN_TERMS && !words.any(|word| REFERRING.contains(&word.as_str())) {
        return None;
    }
    let mut carried = question_terms(library, &before.content);
    carried.retain(|term| own.iter().all(|known| known.stems != term.stems));
    carried.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    carried.truncate(MAX_CARRIED_TERMS);
    if carried.is_empty() {
        return None;
    }
    let words: Vec<&str> = carried.iter().map(|term| term.word.as_str()).collect();
    Some(format!("{} {}", words.join(" "), question.trim()))
}
