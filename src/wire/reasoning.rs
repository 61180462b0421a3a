//! Steps and thoughts as one running text, for protocols that show reasoning as text: OpenAI's
//! `reasoning_content`, Ollama's `thinking`, the summary of a response.

use crate::event::Event;

/// The running text of one turn. Each step is a line of its own; the pieces of one thought follow
/// each other without anything between them.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    /// The ID of the thought whose pieces arrive.
    thought: Option<String>,
    /// Whether the text so far ends within a line.
    in_line: bool,
    /// The last step. A search is announced by `search` and begun by `retrieval_start`, whose lines
    /// are equal.
    last_step: String,
}

impl Reasoning {
    /// Returns what `event` adds to the text, or `None` if it adds nothing. Changes nothing, so that
    /// a caller can still refuse the event.
    pub(super) fn text(&self, event: &Event) -> Option<String> {
        let content = self.line(event)?;
        let gap = if self.in_line && !self.continues(event) {
            "\n"
        } else {
            ""
        };
        let end = if ends_line(event, &content) { "" } else { "\n" };
        Some(format!("{gap}{content}{end}"))
    }

    /// Returns the summary of `event`, or `None` if it has none or repeats the last step.
    pub(super) fn line(&self, event: &Event) -> Option<String> {
        let content = event.summary().filter(|content| !content.is_empty())?;
        let repeats = matches!(event, Event::RetrievalStart(_)) && content == self.last_step;
        (!repeats).then_some(content)
    }

    /// Returns `true` if `event` is the next piece of the thought that arrives.
    pub(super) fn continues(&self, event: &Event) -> bool {
        let id = thought_of(event);
        id.is_some() && id == self.thought.as_deref()
    }

    /// Records that `event` was written.
    pub(super) fn advance(&mut self, event: &Event) {
        // An event without text does not interrupt a thought.
        if let Some(content) = event.summary().filter(|content| !content.is_empty()) {
            self.thought = thought_of(event).map(str::to_owned);
            self.in_line = self.thought.is_some() && !content.ends_with('\n');
            self.last_step = if self.thought.is_some() {
                String::new()
            } else {
                content
            };
        }
    }

    /// Returns the text of a whole turn.
    pub(super) fn whole<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
        let (mut reasoning, mut whole) = (Self::default(), String::new());
        for event in events {
            whole.push_str(&reasoning.text(event).unwrap_or_default());
            reasoning.advance(event);
        }
        whole
    }
}

/// The ID of the thought that `event` is a piece of.
pub(super) fn thought_of(event: &Event) -> Option<&str> {
    let Event::Thinking(thought) = event else {
        return None;
    };
    thought.id.as_deref()
}

/// Whether the text of `event` needs no line end: it has one, or the thought may continue.
fn ends_line(event: &Event, content: &str) -> bool {
    thought_of(event).is_some() || content.ends_with('\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CacheMiss, RetrievalStart, Search, Thinking};

    #[test]
    fn steps_are_lines_and_pieces_of_a_thought_stay_together() {
        let piece = |content: &str, id: &str| Event::from(Thinking::new(content).id(id));
        let events = [
            Search::new("bm25").query("a").into(),
            RetrievalStart::new("bm25", "a", 1_u32).into(),
            RetrievalStart::new("bm25", "b", 1_u32).into(),
            piece("Let me", "1"),
            CacheMiss::new().into(),
            piece(" see.", "1"),
            piece("Next", "2"),
            Thinking::new("Whole.").into(),
            Thinking::new("Ends\n").into(),
            Thinking::new("").into(),
            piece("last", "3"),
        ];
        assert_eq!(
            Reasoning::whole(&events),
            "Searching with bm25: a\nSearching with bm25: b\nLet me see.\nNext\nWhole.\nEnds\nlast"
        );
    }
}
