//! Answers to greetings, thanks and questions about the server itself, which no document answers.

use std::fmt::Write;

use unicode_segmentation::UnicodeSegmentation;

use crate::answer::generate::NO_DOCUMENTS;
use crate::{Document, DocumentFilter, Library};

/// How many documents the answer names.
const NAMED: usize = 5;
/// The longest title that is shown whole, in bytes.
const MAX_TITLE_BYTES: usize = 100;

/// Words of a greeting.
const GREETINGS: [&str; 22] = [
    "hello",
    "hi",
    "hey",
    "hallo",
    "moin",
    "servus",
    "howdy",
    "greetings",
    "hola",
    "bonjour",
    "salut",
    "ciao",
    "morning",
    "afternoon",
    "evening",
    "tag",
    "morgen",
    "abend",
    "yo",
    "你好",
    "こんにちは",
    "안녕하세요",
];
/// Words of thanks, and of a farewell.
const THANKS: [&str; 14] = [
    "thanks", "thank", "thx", "danke", "merci", "gracias", "cheers", "bye", "goodbye", "tschüss", "ok",
    "okay", "great", "谢谢",
];
/// Words beside them.
const AROUND: [&str; 22] = [
    "there",
    "you",
    "very",
    "much",
    "so",
    "a",
    "lot",
    "good",
    "guten",
    "everyone",
    "all",
    "again",
    "bot",
    "assistant",
    "nice",
    "cool",
    "for",
    "the",
    "help",
    "your",
    "schön",
    "sehr",
];
/// Questions about the server itself, in lower case and without punctuation.
const ABOUT_ITSELF: [&str; 46] = [
    "help",
    "help me",
    "can you help me",
    "how can you help me",
    "what can you do",
    "what can you do for me",
    "what can you help me with",
    "what can you tell me",
    "what can you answer",
    "what can i ask",
    "what can i ask you",
    "what can i do here",
    "what can i do with this",
    "what can this do",
    "what should i ask",
    "what do you do",
    "what do you know",
    "what do you know about",
    "what are you",
    "what is this",
    "what's this",
    "who are you",
    "who is this",
    "how are you",
    "how do you work",
    "how does this work",
    "what documents do you have",
    "what documents are there",
    "what documents are in the library",
    "which documents do you have",
    "which documents are there",
    "which documents do you know",
    "what files do you have",
    "what is in the library",
    "what's in the library",
    "what is in your library",
    "what is in here",
    "list documents",
    "list the documents",
    "list all documents",
    "show documents",
    "show me the documents",
    "summarise the documents",
    "summarize the documents",
    "was kannst du",
    "wer bist du",
];

/// Returns the answer to a greeting, thanks or a question about the server itself, from the documents
/// that `filter` selects; `None` for a question about the documents.
pub(crate) fn welcome(library: &Library, filter: &DocumentFilter, prompt: &str) -> Option<String> {
    let words: Vec<String> = prompt.unicode_words().map(str::to_lowercase).collect();
    let is = |list: &[&str], word: &String| list.contains(&word.as_str());
    let is_courtesy = |courtesy: &[&str]| {
        words.iter().any(|word| is(courtesy, word))
            && words.iter().all(|word| is(courtesy, word) || is(&AROUND, word))
    };
    let asked = words.join(" ").replace('\u{2019}', "'");
    let asked = asked
        .strip_prefix("hello ")
        .or_else(|| asked.strip_prefix("hi "))
        .unwrap_or(&asked);
    let asked = asked.strip_suffix(" please").unwrap_or(asked);
    let begin = if is_courtesy(&GREETINGS) || matches!(prompt.trim(), "你好" | "こんにちは") {
        "Hello. "
    } else if is_courtesy(&THANKS) {
        "You are welcome. "
    } else if ABOUT_ITSELF.contains(&asked) {
        ""
    } else {
        return None;
    };
    Some(format!("{begin}{}", introduction(library, filter)))
}

fn introduction(library: &Library, filter: &DocumentFilter) -> String {
    let selected = library.matching(filter);
    let named: Vec<Document> = selected
        .iter()
        .filter_map(|id| library.document(id))
        .take(NAMED)
        .collect();
    if named.is_empty() {
        return NO_DOCUMENTS.to_owned();
    }
    let count = selected.len();
    let documents = if count == 1 {
        "1 document"
    } else {
        &*format!("{count} documents")
    };
    let mut text = format!(
        "I answer questions from the {documents} of this library, and name the passage that each answer is from:\n"
    );
    for document in &named {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n- {}", shown(document));
    }
    if count > named.len() {
        let _ = write!(text, "\n- and {} more", count - named.len());
    }
    text.push_str("\n\nAsk about something in them, or for a summary of one of them.");
    text
}

/// Returns the title of a document, or its file name, as one line without marks of Markdown.
fn shown(document: &Document) -> String {
    let title = document.title.as_deref().unwrap_or(&document.name);
    let plain: String = title
        .chars()
        .filter(|letter| !"*_`[]<>\\".contains(*letter))
        .collect();
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.floor_char_boundary(MAX_TITLE_BYTES) {
        end if end < line.len() => format!("{}…", &line[..end]),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryLimits, ParseLimits, parse};

    #[test]
    fn greetings_and_questions_about_the_server_are_answered_with_the_library() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let answer = |library: &Library, prompt: &str| welcome(library, &DocumentFilter::default(), prompt);
        assert_eq!(
            answer(&library, "hello").as_deref(),
            Some("Hello. There are no documents to answer from yet.")
        );
        for n in 0..7 {
            let text = format!("# Birds *{n}*\n\nA robin sings.");
            let name = format!("{n}.md");
            library
                .add(
                    &name,
                    &parse(&name, text.as_bytes(), &ParseLimits::default()).unwrap(),
                )
                .unwrap();
        }
        for prompt in [
            "hello",
            "Hi there!",
            "Good morning",
            "Thanks a lot.",
            "what can you do",
            "Who are you?",
            "help",
            "What documents do you have?",
            "Hi, what can you do?",
        ] {
            let text = answer(&library, prompt).unwrap_or_else(|| panic!("{prompt}"));
            assert!(
                text.contains("7 documents") && text.contains("\n- and 2 more"),
                "{prompt}: {text}"
            );
            assert!(text.contains("- Birds 0\n"), "{prompt}: {text}");
        }
        for prompt in [
            "hello world program",
            "What can you do with a robin?",
            "thank the robin",
            "help option",
            "",
            "?",
            "What is this option for?",
            "robin",
            "you",
            "the documents",
        ] {
            assert_eq!(answer(&library, prompt), None, "{prompt}");
        }
    }
}
