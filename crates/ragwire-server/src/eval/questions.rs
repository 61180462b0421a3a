//! The questions of an evaluation: a JSON file that people write.

use std::path::{Path, PathBuf};

use ragwire::session::Message;
use serde::Deserialize;

/// Largest file of questions, in bytes: a hundred thousand questions.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// One question and what a good answer holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalQuestion {
    /// The question, as a user types it.
    pub question: String,
    /// The file that answers it, or the end of its path; several files if the same text is in each. Any
    /// file if it is left out.
    #[serde(default)]
    pub file: Phrases,
    /// What an answering passage holds: one phrase, or several of which one suffices.
    #[serde(default)]
    pub phrase: Phrases,
    /// What the text of the answer holds, if that is shorter than the phrase.
    #[serde(default)]
    pub fact: Phrases,
    /// Whether no document answers it.
    #[serde(default)]
    pub unanswerable: bool,
    /// The kind under which it is counted.
    #[serde(default)]
    pub kind: Option<String>,
    /// A question that is asked before it in the same conversation.
    #[serde(default)]
    pub after: Option<String>,
    /// The conversation before it, oldest message first.
    #[serde(default)]
    pub history: Vec<Message>,
}

/// One phrase or several.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged)]
pub enum Phrases {
    /// None.
    #[default]
    None,
    /// One phrase.
    One(String),
    /// Phrases of which one suffices.
    Any(Vec<String>),
}

impl Phrases {
    /// The phrases.
    pub fn all(&self) -> &[String] {
        match self {
            Self::None => &[],
            Self::One(phrase) => std::slice::from_ref(phrase),
            Self::Any(phrases) => phrases,
        }
    }

    /// Returns whether a text contains one of them. Case, punctuation and white space do not
    /// matter; words of ASCII letters match as a whole.
    pub fn any_in(&self, text: &str) -> bool {
        let text = plain(text);
        self.all().iter().any(|phrase| {
            let phrase = plain(phrase);
            let bare = phrase.trim();
            let whole = bare.is_ascii();
            !bare.is_empty() && text.contains(if whole { &phrase } else { bare })
        })
    }
}

/// The words of a text in lower case, with one space before, between and after them.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + 2);
    plain.push(' ');
    for c in text.chars() {
        if c.is_alphanumeric() {
            plain.extend(c.to_lowercase());
        } else if !plain.ends_with(' ') {
            plain.push(' ');
        }
    }
    if !plain.ends_with(' ') {
        plain.push(' ');
    }
    plain
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum File {
    List(Vec<EvalQuestion>),
    Named { questions: Vec<EvalQuestion> },
}

/// A file of questions that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionsError {
    /// The file cannot be read.
    #[error("cannot read the questions in {}: {reason}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The cause.
        reason: std::io::Error,
    },
    /// The file is too large.
    #[error("{} has more than {MAX_FILE_BYTES} bytes: split it", path.display())]
    TooLarge {
        /// Its path.
        path: PathBuf,
    },
    /// The file is not what is expected.
    #[error(
        "{}: {reason}; write {{\"questions\": [{{\"question\": \"…\", \"file\": \"guide.md\", \"phrase\": \"…\"}}, \
         {{\"question\": \"…\", \"unanswerable\": true}}]}}",
        path.display()
    )]
    Format {
        /// Its path.
        path: PathBuf,
        /// The error, with its position.
        reason: String,
    },
    /// A question cannot be judged.
    #[error("{}: question {number}, `{question}`, {reason}", path.display())]
    Question {
        /// Its path.
        path: PathBuf,
        /// Its position, counted from 1.
        number: usize,
        /// The question.
        question: String,
        /// The error, and how to fix it.
        reason: &'static str,
    },
}

/// Reads a file of questions.
///
/// # Errors
///
/// See [`QuestionsError`].
pub fn read(path: &Path) -> Result<Vec<EvalQuestion>, QuestionsError> {
    let file = |reason| QuestionsError::File {
        path: path.to_owned(),
        reason,
    };
    if std::fs::metadata(path).map_err(file)?.len() > MAX_FILE_BYTES {
        return Err(QuestionsError::TooLarge {
            path: path.to_owned(),
        });
    }
    let text = std::fs::read_to_string(path).map_err(file)?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Vec<EvalQuestion>, QuestionsError> {
    let format = |reason: String| QuestionsError::Format {
        path: path.to_owned(),
        reason,
    };
    // By value first: the error of an untagged enum says nothing about the place.
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| format(error.to_string()))?;
    let list = match &value {
        serde_json::Value::Array(list) => Some(list),
        other => other["questions"].as_array(),
    };
    let list = list.ok_or_else(|| format("it has no list of questions".to_owned()))?;
    for (at, one) in list.iter().enumerate() {
        serde_json::from_value::<EvalQuestion>(one.clone())
            .map_err(|error| format(format!("question {}: {error}", at + 1)))?;
    }
    let file: File = serde_json::from_value(value).map_err(|error| format(error.to_string()))?;
    let (File::List(questions) | File::Named { questions }) = file;
    if questions.is_empty() {
        return Err(format("it has no questions".to_owned()));
    }
    for (at, one) in questions.iter().enumerate() {
        let has_phrase = one
            .phrase
            .all()
            .iter()
            .any(|phrase| !plain(phrase).trim().is_empty());
        let reason = if one.question.trim().is_empty() {
            Some("is empty: write the question")
        } else if one.after.is_some() && !one.history.is_empty() {
            Some("has both a question before it and a history: remove one of the two")
        } else if one.unanswerable && has_phrase {
            Some("is unanswerable but has a phrase: remove one of the two")
        } else if !one.unanswerable && !has_phrase {
            Some("has no phrase: write words of the passage that answers it, or \"unanswerable\": true")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err(QuestionsError::Question {
                path: path.to_owned(),
                number: at + 1,
                question: one.question.clone(),
                reason,
            });
        }
    }
    Ok(questions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_match_words_and_not_typography() {
        for (phrase, text, holds) in [
            ("30 minutes", "every **30\n minutes**.", true),
            ("2", "There are 12.", false),
            ("~/.cache/borg", "stored in `~/.cache/borg/`", true),
            ("zweimal täglich", "Zweimal  täglichen", true),
            ("--", "a -- b", false),
            ("", "a", false),
        ] {
            assert_eq!(
                Phrases::One(phrase.to_owned()).any_in(text),
                holds,
                "{phrase:?} {text:?}"
            );
        }
        let any = Phrases::Any(vec!["x".to_owned(), "y".to_owned()]);
        assert!(any.any_in("so y") && !any.any_in("xy"));
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_place_and_a_fix() {
        let refused = |text: &str| parse(Path::new("q.json"), text).unwrap_err().to_string();
        for (text, said) in [
            ("{", "line 1"),
            ("{}", "no list of questions"),
            ("[]", "no questions"),
            (r#"[{"question": "a"}]"#, "question 1, `a`, has no phrase"),
            (r#"[{"question": " ", "phrase": "x"}]"#, "is empty"),
            (
                r#"{"questions": [{"question": "a", "phrase": "x"}, {"question": "b", "frase": "x"}]}"#,
                "question 2: unknown field `frase`",
            ),
            (
                r#"[{"question": "a", "phrase": "x", "unanswerable": true}]"#,
                "remove one of the two",
            ),
        ] {
            assert!(refused(text).contains(said), "{text}: {}", refused(text));
        }
        let read = parse(
            Path::new("q.json"),
            r#"[{"question": "a", "phrase": ["x", "y"], "file": "a.md"}, {"question": "b", "unanswerable": true}]"#,
        );
        assert_eq!(read.unwrap().len(), 2);
    }
}
