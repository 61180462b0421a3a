//! Where a small model should have stopped: where it asks itself the next question, in the form of
//! the prompt, or repeats itself until its tokens are used up.
//!
//! This module knows the text of an answer as it arrives, and neither models nor sinks.

use crate::search::lines::COLONS;

/// How the prompt introduces a question. A model that continues the pattern writes it too.
pub(crate) const QUESTION: &str = "Question:";

/// How often a part stands at the end of an answer that repeats itself. Code and tables have equal
/// lines, but hardly four in a row.
const REPETITIONS: usize = 4;
/// Length in bytes of the shortest part that counts: rules and dots are shorter.
const MIN_PART_BYTES: usize = 16;
/// Length in bytes of the longest part that is recognized: some sentences.
const MAX_PART_BYTES: usize = 512;
/// Fewest letters of a part: a row of an empty table has none.
const MIN_LETTERS: usize = 8;
/// Number of bytes between two searches for repetitions.
const SEARCH_EVERY: usize = 64;

/// Why an answer ends before the model has ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rambling {
    /// The model asks itself a question.
    NextQuestion,
    /// The model repeats itself.
    Repetition,
}

/// Watches a streamed answer.
#[derive(Debug, Default)]
pub(crate) struct RamblingWatch {
    /// The last part of the text that may be shown, long enough to recognize a repetition.
    shown: String,
    /// The beginning of a line that may become a question.
    held: String,
    /// Whether something besides white space was shown.
    has_text: bool,
    /// Whether the answer is a list of questions: it begins with one, or with a colon before the first.
    lists_questions: bool,
    unsearched: usize,
    rambling: Option<Rambling>,
}

impl RamblingWatch {
    /// Takes the next piece and returns the text that may be shown.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut text = String::new();
        for part in piece.split_inclusive('\n') {
            if self.rambling.is_some() {
                break;
            }
            self.held.push_str(part);
            if self.asks() {
                self.rambling = Some(Rambling::NextQuestion);
                self.held.clear();
            } else if !self.may_ask() {
                let part = std::mem::take(&mut self.held);
                self.show(&part);
                text.push_str(&part);
            }
        }
        text
    }

    /// Returns the rest at the end of the answer.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Returns why the answer ends here, if it does.
    pub(crate) fn rambling(&self) -> Option<Rambling> {
        self.rambling
    }

    /// Whether `held` is at the beginning of a line, after some text.
    fn begins_line(&self) -> bool {
        self.has_text && !self.lists_questions && self.shown.ends_with('\n')
    }

    fn asks(&mut self) -> bool {
        if !self.begins_line() || !self.held.trim_start().starts_with(QUESTION) {
            return false;
        }
        self.lists_questions = self.shown.trim_end().ends_with(COLONS);
        !self.lists_questions
    }

    fn may_ask(&self) -> bool {
        self.begins_line() && !self.held.contains('\n') && QUESTION.starts_with(self.held.trim_start())
    }

    fn show(&mut self, part: &str) {
        self.has_text |= !part.trim().is_empty();
        self.shown.push_str(part);
        self.lists_questions |= self.shown.trim_start().starts_with(QUESTION);
        self.unsearched += part.len();
        if self.unsearched < SEARCH_EVERY {
            return;
        }
        self.unsearched = 0;
        let most = REPETITIONS * MAX_PART_BYTES;
        let from = self.shown.len().saturating_sub(most);
        let from = self.shown.ceil_char_boundary(from);
        self.shown.drain(..from);
        if repeats(&self.shown) {
            self.rambling = Some(Rambling::Repetition);
        }
    }
}

/// Returns whether the text ends with the same part several times in a row.
fn repeats(text: &str) -> bool {
    let bytes = text.as_bytes();
    let longest = MAX_PART_BYTES.min(bytes.len() / REPETITIONS);
    (MIN_PART_BYTES..=longest).any(|length| {
        let tail = &bytes[bytes.len() - REPETITIONS * length..];
        // Every byte is equal to the one a part before it.
        tail[length..] == tail[..tail.len() - length]
            && tail[..length]
                .iter()
                .filter(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
                .count()
                >= MIN_LETTERS
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes a text in pieces of that many characters.
    fn watched(text: &str, piece: usize) -> (String, Option<Rambling>) {
        let mut watch = RamblingWatch::default();
        let mut shown = String::new();
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(piece) {
            shown += &watch.push(&piece.iter().collect::<String>());
            if watch.rambling().is_some() {
                return (shown, watch.rambling());
            }
        }
        shown += &watch.finish();
        (shown, None)
    }

    #[test]
    fn an_answer_ends_where_the_model_asks_itself_a_question() {
        let text = "Robins sing at dawn. [1]\n\nQuestion: What do owls do?\nThey hunt.";
        for piece in [1, 3, 7, 100] {
            let (shown, rambling) = watched(text, piece);
            assert_eq!(shown, "Robins sing at dawn. [1]\n\n", "{piece}");
            assert_eq!(rambling, Some(Rambling::NextQuestion));
        }
    }

    #[test]
    fn other_text_arrives_whole() {
        let row = "| --- | --- | --- | --- |\n".repeat(12);
        let digits = "0123456789 ".repeat(60);
        for text in [
            "Question: the word begins the answer.",
            "A line.\nQuest",
            "A line.\nQuestions are welcome.\n  Question marks too.",
            "Is it a Question: no.",
            "Three questions for a quiz:\n\nQuestion: Who sings?\nRobins.\nQuestion: When?\nAt dawn.",
            "Question: Who sings?\nRobins.\nQuestion: When?\nAt dawn.",
            "Robins sing. Robins sing. Robins sing.",
            &row,
            &digits,
            "",
        ] {
            for piece in [1, 5, 1_000] {
                assert_eq!(watched(text, piece), (text.to_owned(), None), "{piece}");
            }
        }
    }

    #[test]
    fn an_answer_ends_where_the_model_repeats_itself() {
        let part = "The answer is:\nThe capital of Australia is Canberra.\n";
        let text = format!("Robins sing at dawn.\n{}", part.repeat(100));
        for piece in [1, 4, 50] {
            let (shown, rambling) = watched(&text, piece);
            assert_eq!(rambling, Some(Rambling::Repetition));
            assert!(text.starts_with(&shown));
            let most = "Robins sing at dawn.\n".len() + (REPETITIONS + 1) * part.len() + SEARCH_EVERY;
            assert!(
                shown.len() <= most,
                "{} bytes with pieces of {piece}",
                shown.len()
            );
        }
        // Characters of several bytes.
        let (_, rambling) = watched(&"知更鸟在黎明歌唱。".repeat(60), 2);
        assert_eq!(rambling, Some(Rambling::Repetition));
    }
}
