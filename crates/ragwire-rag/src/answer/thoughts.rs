//! The thoughts that some servers leave in the text of a model: `<think>…</think>` at its
//! beginning.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Removes the thoughts at the beginning of a streamed text.
#[derive(Debug)]
pub(crate) struct Thoughts {
    state: State,
    held: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but white space or a part of `<think>` has arrived.
    Start,
    Thinking,
    /// The thoughts have ended, and only white space has followed.
    Ended,
    Text,
}

impl Default for Thoughts {
    fn default() -> Self {
        Self {
            state: State::Start,
            held: String::new(),
        }
    }
}

impl Thoughts {
    /// Takes the next piece and returns the text that may be shown.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.state == State::Text {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        if self.state == State::Start {
            let begun = self.held.trim_start();
            if let Some(thoughts) = begun.strip_prefix(OPEN) {
                self.held = thoughts.to_owned();
                self.state = State::Thinking;
            } else if OPEN.starts_with(begun) {
                return String::new();
            } else {
                self.state = State::Text;
                return std::mem::take(&mut self.held);
            }
        }
        if self.state == State::Thinking {
            match self.held.split_once(CLOSE) {
                Some((_, text)) => {
                    self.held = text.to_owned();
                    self.state = State::Ended;
                }
                None => {
                    // Only a part of the closing tag matters.
                    let from = self
                        .held
                        .floor_char_boundary(self.held.len().saturating_sub(CLOSE.len()));
                    self.held.drain(..from);
                    return String::new();
                }
            }
        }
        let text = std::mem::take(&mut self.held).trim_start().to_owned();
        if !text.is_empty() {
            self.state = State::Text;
        }
        text
    }

    /// Returns the rest at the end, or `None` if the model has only thought.
    pub(crate) fn finish(&mut self) -> Option<String> {
        match self.state {
            State::Start => Some(std::mem::take(&mut self.held)),
            State::Thinking | State::Ended => None,
            State::Text => Some(String::new()),
        }
    }
}

/// Returns the text after its thoughts.
pub(crate) fn without_thoughts(text: &str) -> &str {
    match text.trim_start().strip_prefix(OPEN) {
        Some(thoughts) => thoughts.split_once(CLOSE).map_or("", |(_, text)| text),
        None => text,
    }
}

/// Returns the JSON within a model's text: without thoughts, fences and the words around it.
pub(crate) fn json_in(text: &str) -> &str {
    let text = without_thoughts(text).trim();
    let (Some(first), Some(last)) = (text.find(['{', '[']), text.rfind(['}', ']'])) else {
        return text;
    };
    text.get(first..=last).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_removed_however_the_text_is_cut() {
        for (text, shown) in [
            ("Plain text.", Some("Plain text.")),
            (
                "<think>hm, </thinking></think>\n\nYes. <think>",
                Some("Yes. <think>"),
            ),
            ("\n <think>\u{e9}</think>Yes.", Some("Yes.")),
            ("<thin", Some("<thin")),
            ("<b>x</b>", Some("<b>x</b>")),
            ("", Some("")),
            ("<think>for ever", None),
            ("<think>done</think> \n", None),
        ] {
            for size in 1..=text.chars().count().max(1) {
                let mut thoughts = Thoughts::default();
                let mut out = String::new();
                let letters: Vec<char> = text.chars().collect();
                for piece in letters.chunks(size) {
                    out.push_str(&thoughts.push(&piece.iter().collect::<String>()));
                }
                let rest = thoughts.finish();
                assert_eq!(rest.map(|rest| out + &rest).as_deref(), shown, "{text} by {size}");
            }
        }
    }

    #[test]
    fn json_is_found_between_fences_words_and_thoughts() {
        for text in [
            r#"{"a": [1]}"#,
            "```json\n{\"a\": [1]}\n```",
            "Here it is: {\"a\": [1]} as you asked.",
            "<think>{}</think>\n```\n{\"a\": [1]}\n```",
        ] {
            assert_eq!(json_in(text), r#"{"a": [1]}"#, "{text}");
        }
        assert_eq!(json_in(" no json "), "no json");
        assert_eq!(json_in("} no json {"), "} no json {");
    }
}
